"""Tangents and cotangents as a caller gives them: which nests, shapes and dtypes fit.

Floor: 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.api.calls import as_value
from functrace.errors import DtypeError, ShapeError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.tracing.recording import Tracer
from functrace.transforms import is_differentiable
from functrace.tree import PyTreeSpec, leaves_or_none
from functrace.typing import PyTree

TANGENTS, COTANGENTS = "tangents", "cotangents"


def check_like(
    tree: PyTree, treedef: PyTreeSpec, avals: Sequence[ShapeDtype], what: str, of: str, *, linear: bool = False
) -> Any:
    """Flatten tangents or cotangents, which must fit avals; casts real numbers to the dtype wanted.

    ``None`` inside the nest stands for zeros, and so do zeros of JAX's dtype float0. Cotangents of integers are of no
    consequence, tangents of integers must be zero, and what is ``linear`` is linear in integers, too.
    """
    values = []
    for leaf, aval in zip(leaves_or_none(treedef, tree, what, of), avals, strict=True):
        zero = leaf is None or is_float0(leaf)
        value = np.zeros(aval.shape, aval.dtype) if zero else as_value(leaf, what)
        found = aval_of(value)
        if found.shape != aval.shape:
            raise ShapeError(
                f"{what} have the shape {list(found.shape)} where {of} have {aval}", fix=f"pass shape {aval.shape}"
            )
        if not (linear or is_differentiable(aval)):
            if what == TANGENTS and (isinstance(value, Tracer) or np.any(value)):
                raise DtypeError(
                    f"{what} are not known to be zero where {of} are {aval}: integers and bools have no derivative",
                    fix="pass None there, or zeros",
                )
            value = np.zeros(aval.shape, aval.dtype)
        elif found is not aval:
            if not np.can_cast(found.dtype, aval.dtype, "same_kind"):
                raise DtypeError(f"{what} are {found} where {of} are {aval}", fix="pass numbers of that kind")
            value = value.astype(aval.dtype)
        values.append(value)
    return values


def is_float0(leaf: object) -> bool:
    """Whether this is JAX's tangent of an integer: an array of a dtype without bytes."""
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind == "V" and leaf.dtype.itemsize == 0
