"""``autograd.numpy.numpy_wrapper``: autograd's functions that NumPy does not have.

Layer: 10.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace import numpy as fnp
from functrace.compat.autograd.extend import notrace_primitive, primitive
from functrace.compat.kinds import Given, Values

__all__ = [
    "column_stack", "concatenate", "dstack", "hstack", "make_diagonal", "metadata", "row_stack",
    "stack", "vstack",
    "wrap_namespace",
]  # fmt: skip


def _of_iterables(name: str) -> Callable[..., Any]:
    """Return a NumPy function that joins arrays, extended to any iterable, like autograd's."""
    join = getattr(fnp, name)

    @functools.wraps(getattr(np, name))
    def joined(arrays: Values, *args: Given, **kwargs: Given) -> Any:
        given: object = arrays
        is_one = hasattr(given, "shape") or isinstance(given, list | tuple)
        return join(arrays if is_one else list(arrays), *args, **kwargs)

    return joined


concatenate, stack, hstack, vstack, dstack, column_stack = map(
    _of_iterables, ("concatenate", "stack", "hstack", "vstack", "dstack", "column_stack")
)
row_stack = vstack


def make_diagonal(
    D: Values, offset: int = 0, axis1: int = 0, axis2: int = 1
) -> Any:  # autograd's signature
    """Return matrices with the last axis of ``D`` on their diagonals, zeros elsewhere.

    Raises:
        NotImplementedError: unless ``offset=0, axis1=-1, axis2=-2``, as in autograd.
    """
    if (offset, axis1, axis2) != (0, -1, -2):
        raise NotImplementedError(
            "make_diagonal takes offset=0, axis1=-1, axis2=-2 only, as in autograd"
        )
    return D[..., None] * np.eye(D.shape[-1], dtype=D.dtype)


def metadata(A: Values) -> tuple[tuple[int, ...], int, Any, bool]:
    """Return shape, number of axes, dtype, and True if it is complex."""
    return np.shape(A), np.ndim(A), np.result_type(A), np.iscomplexobj(A)


def wrap_namespace(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Copy a namespace to another one, with primitives made of its functions."""
    for name, value in old.items():
        if isinstance(value, type) or not callable(value):
            if isinstance(value, type | int | float | None):
                new[name] = value
        else:
            made: Callable[..., Any] = (
                primitive(value) if value not in (np.ndim, np.shape) else notrace_primitive(value)
            )
            new[name] = made
