"""Arithmetic on the leaves of gradients, parameters and states, which keeps their dtypes.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from functrace.api.capture.arguments import as_value
from functrace.api.capture.programs import stop_gradient
from functrace.api.custom_rules.derivatives import custom_jvp
from functrace.errors import DtypeError
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten, flatten_like, paths, unflatten
from functrace.typing import ArrayLike, PyTree

Number: TypeAlias = ArrayLike | Tracer
"""A hyperparameter: a number, or a traced value that hyperparameters are differentiated by."""
Schedule: TypeAlias = Callable[[Any], Any]
"""A function from the number of finished steps to a hyperparameter."""
Leaf: TypeAlias = Any
"""An array of floats, or a traced value."""

_MOST = int(np.iinfo(np.int32).max)


def each(
    function: Callable[..., Any], updates: PyTree, *rest: tuple[PyTree, str], results: int = 1
) -> Any:
    """Apply a function to each leaf of updates, and to those of pytrees of the same structure.

    Args:
        function: of one array of floats, and the leaves of the rest.
        updates: the gradients, or updates.
        rest: pytrees, each with its name for messages.
        results: number of results of the function; if more than one, it returns a tuple.

    Returns:
        a pytree of results; a tuple of pytrees if there are several.

    Raises:
        DtypeError: if a leaf of ``updates`` is not an array of floats.
        TreeError: if a structure differs.
    """
    found, treedef = flatten(updates)
    try:
        gs = [floats(g) for g in found]
    except DtypeError:
        for path, g in zip(paths(treedef), found, strict=True):
            floats(g, path)
        raise
    others = [
        [as_value(x, what) for x in flatten_like(treedef, tree, what, "the updates")]
        for tree, what in rest
    ]
    made = [function(*xs) for xs in zip(gs, *others, strict=True)]
    if results == 1:
        return unflatten(treedef, made)
    return tuple([unflatten(treedef, [row[k] for row in made]) for k in range(results)])


def floats(x: Leaf, path: str = "") -> Any:
    """Return a leaf as an array, a NumPy scalar or a traced value.

    Raises:
        DtypeError: if it does not have a dtype of floats or complex numbers.
    """
    value = as_value(x, f"the leaf {path or 'itself'} of the updates")
    if value.dtype.kind in "fc":
        return value
    raise DtypeError(
        f"optim: the leaf {path or 'itself'} of the updates is {value.dtype}, not floats",
        fix="differentiate and update the floats only: functrace.tree.partition splits a pytree, "
        "functrace.optim.masked leaves parts out",
    )


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of absolute values."""
    return np.finfo(dtype).dtype if dtype.kind == "c" else dtype


def like(number: Number, x: Leaf) -> Any:
    """Return a hyperparameter that does not change the dtype of ``x`` in arithmetic with it.

    Numbers of Python have no dtype of their own; all others are converted to that of ``x``.
    """
    if type(number) in (bool, int, float):  # (np.float64 is a float, too)
        return number
    return typed(as_value(number, "a hyperparameter"), real_dtype(x.dtype))


def typed(x: Leaf, dtype: DTypeLike | None) -> Any:
    """Return an array with another dtype; with ``None``, unchanged."""
    return x if dtype is None or x.dtype == np.dtype(dtype) else x.astype(dtype)


def zeros_like(params: PyTree, dtype: DTypeLike | None = None, fill: Number = 0.0) -> Any:
    """Return a pytree of new arrays with one number in all elements."""
    found, treedef = flatten(params)
    values = [as_value(p, "a parameter") for p in found]
    return unflatten(
        treedef, [np.full(p.shape, fill, dtype=p.dtype if dtype is None else dtype) for p in values]
    )


def squared(x: Leaf) -> Any:
    """Return squares of absolute values, which are real."""
    return (np.conj(x) * x).real if x.dtype.kind == "c" else x * x


@custom_jvp
def root(x: Leaf) -> Any:
    """Return the root; its derivative at 0 is 0, as that of ``abs(g)``, the root of ``g**2``."""
    return np.sqrt(x)


def _root_jvp(primals: tuple[Leaf], tangents: tuple[Leaf]) -> tuple[Leaf, Leaf]:
    y = np.sqrt(primals[0])
    is_zero = y == 0
    slope = np.where(is_zero, np.zeros_like(y), 0.5 / np.where(is_zero, np.ones_like(y), y))
    return y, tangents[0] * slope


root.defjvp(_root_jvp)


def next_count(count: Leaf) -> Any:
    """Return the number of steps after one more; it stays at its largest value."""
    return np.minimum(count, _MOST - 1) + 1


def first_count() -> np.int32:
    """Return the number of steps at the start."""
    return np.int32(0)


def norm(tree: PyTree) -> Any:
    """Return the root of the sum of squares over all leaves, without overflow of the squares.

    The derivative at 0 is 0.
    """
    xs = [floats(x, path) for x, path in zip(flatten(tree)[0], paths(tree), strict=True)]
    xs = [x for x in xs if np.size(x)]
    if not xs:
        return np.float64(0.0)
    largest = stop_gradient(np.max(np.stack([np.max(np.abs(x)) for x in xs])))
    usual = np.isfinite(largest) & (largest > 0)
    unit = np.where(usual, largest, np.ones_like(largest))
    total = sum([np.sum(squared(x / like(unit, x))) for x in xs])
    return unit * root(total)


def vdot(left: PyTree, right: PyTree) -> Any:
    """Return the real part of the inner product of two pytrees of one structure."""
    pairs = zip(flatten(left)[0], flatten(right)[0], strict=True)
    total: Any = sum([np.real(np.vdot(a, b)) for a, b in pairs])
    return total
