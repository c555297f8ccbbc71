"""Checks of tangents and cotangents from callers: structure, shapes and dtypes.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.api.capture.arguments import NUMERIC, as_value
from functrace.errors import DtypeError, ShapeError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.tracing.tracer import LITERALS, Tracer
from functrace.transforms import is_differentiable
from functrace.tree import leaves_or_none, paths
from functrace.typing import PyTree

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

TANGENTS, COTANGENTS = "tangents", "cotangents"


def check_like(
    tree: PyTree,
    treedef: PyTreeSpec,
    avals: Sequence[ShapeDtype],
    what: str,
    of: str,
    *,
    linear: bool = False,
) -> Any:
    """Flatten tangents or cotangents, which must have the shapes and dtypes of avals; Python
    numbers are converted.

    ``None`` inside the pytree means zeros, and so do zeros of JAX's dtype float0. Cotangents
    of integers are ignored, tangents of integers must be zero; a ``linear`` function is linear in
    integers, too.
    """
    values: list[Any] = []

    def place() -> str:
        """Return the path of the current leaf, for messages."""
        path = paths(treedef)[len(values)]
        return f" at {path}" if path else ""

    for leaf, aval in zip(leaves_or_none(treedef, tree, what, of), avals, strict=True):
        one: object = leaf
        zero = leaf is None or is_float0(leaf)
        if zero:
            value = np.zeros(aval.shape, aval.dtype)
        elif isinstance(one, NUMERIC):
            value = as_value(leaf, what)
        else:
            raise DtypeError(
                f"{what}{place()} are a {type(leaf).__name__}, not an array or a number",
                fix=f"pass what {of} are, or None",
            )
        found = aval_of(value)
        if found.shape != aval.shape:
            raise ShapeError(
                f"{what}{place()} have the shape {list(found.shape)} where {of} have {aval}",
                fix=f"pass shape {aval.shape}",
            )
        if not (linear or is_differentiable(aval)):
            if what == TANGENTS and (isinstance(value, Tracer) or np.any(value)):
                raise DtypeError(
                    f"{what}{place()} are not known to be zero where {of} are {aval}: integers and "
                    "bools have no derivative",
                    fix="pass None there, or zeros",
                )
            value = np.zeros(aval.shape, aval.dtype)
        elif found.dtype != aval.dtype:
            is_weak = type(leaf) in LITERALS or (isinstance(leaf, Tracer) and leaf.is_number)
            if not is_weak or not np.can_cast(found.dtype, aval.dtype, "same_kind"):
                raise DtypeError(
                    f"{what}{place()} are {found} where {of} are {aval}",
                    fix=f"convert them, e.g. with .astype(np.{aval.dtype})",
                )
            value = value.astype(aval.dtype)
        values.append(value)
    return values


def is_float0(leaf: object) -> bool:
    """Return True for JAX's tangent of an integer: an array of a dtype without bytes."""
    untyped: Any = leaf
    return (
        isinstance(leaf, np.ndarray) and untyped.dtype.kind == "V" and untyped.dtype.itemsize == 0
    )
