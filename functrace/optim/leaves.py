"""Arithmetic on the leaves of gradients, parameters and states, which keeps their dtypes.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from functrace.api.capture.arguments import as_value
from functrace.api.capture.programs import stop_gradient
from functrace.api.custom_rules.derivatives import custom_jvp
from functrace.errors import ArgumentError, DtypeError, ShapeError
from functrace.tracing.tracer import Tracer
from functrace.tree import PyTreeSpec, flatten, flatten_like, paths, unflatten
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
        ShapeError: if a shape differs.
    """
    gs, treedef = float_leaves(updates)
    others: list[list[Any]] = []
    for tree, what in rest:
        found = flatten_like(treedef, tree, what, "the updates")
        others.append([as_value(x, what) for x in found])
        for k, (g, x) in enumerate(zip(gs, others[-1], strict=True)):
            if g.shape != x.shape:
                raise ShapeError(
                    f"optim: the leaf {paths(treedef)[k] or 'itself'} of the updates has shape "
                    f"{g.shape}, and that of {what} {x.shape}",
                    fix="pass updates and parameters of the shapes that init was called with",
                )
    made = [function(*xs) for xs in zip(gs, *others, strict=True)]
    if results == 1:
        return unflatten(treedef, made)
    return tuple([unflatten(treedef, [row[k] for row in made]) for k in range(results)])


def float_leaves(tree: PyTree, what: str = "the updates") -> tuple[list[Any], PyTreeSpec]:
    """Return the leaves as arrays, NumPy scalars or traced values, and the structure.

    Raises:
        DtypeError: if a leaf does not have a dtype of floats or complex numbers.
    """
    found, treedef = flatten(tree)
    values = [as_value(x, f"a leaf of {what}") for x in found]
    for k, x in enumerate(values):
        if x.dtype.kind not in "fc":
            raise DtypeError(
                f"optim: the leaf {paths(treedef)[k] or 'itself'} of {what} is {x.dtype}, not floats",
                fix="differentiate and update the floats only: functrace.tree.partition splits a "
                "pytree, functrace.optim.masked leaves parts out",
            )
    return values, treedef


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of absolute values."""
    return np.finfo(dtype).dtype if dtype.kind == "c" else dtype


def like(number: Number, x: Leaf) -> Any:
    """Return a hyperparameter that does not change the dtype of ``x`` in arithmetic with it.

    Numbers of Python have no dtype of their own; all others are converted to that of ``x``.

    Raises:
        DtypeError: if it is no real number.
    """
    value = real(number)
    return value if type(value) in (int, float) else typed(value, real_dtype(x.dtype))


def real(number: Number) -> Any:
    """Return a hyperparameter as a number of Python, an array, a NumPy scalar or a traced value.

    Raises:
        DtypeError: if it is no real number.
    """
    if type(number) in (int, float):  # (np.float64 is a float, too)
        return number
    value = as_value(number, "a hyperparameter of optim")
    if value.dtype.kind == "c":
        raise DtypeError("optim: a hyperparameter is complex", fix="pass a real number")
    return value.astype(np.int64) if value.dtype.kind == "b" else value


def typed(x: Leaf, dtype: DTypeLike | None) -> Any:
    """Return an array with another dtype; with ``None``, unchanged."""
    return x if dtype is None or x.dtype == np.dtype(dtype) else x.astype(dtype)


def zeros_like(params: PyTree, dtype: DTypeLike | None = None, fill: Number = 0.0) -> Any:
    """Return a pytree of new arrays with one number in all elements.

    Raises:
        DtypeError: if a parameter, or the dtype, does not have floats: means of gradients would be
            rounded; or if the dtype is real, and a parameter complex.
    """
    values, treedef = float_leaves(params, "the parameters")
    for p in values if dtype is not None else ():
        if np.dtype(dtype).kind not in ("c" if p.dtype.kind == "c" else "f"):
            raise DtypeError(
                f"optim: means of gradients of {p.dtype} cannot be {np.dtype(dtype)}",
                fix="pass a dtype of floats, complex ones for complex parameters, or None",
            )
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


class Norm(NamedTuple):
    """A norm as a product whose factors neither overflow nor vanish."""

    unit: Leaf
    """The largest absolute value; its derivative is 0."""
    ratio: Leaf
    """The norm of the elements divided by the unit."""

    def value(self) -> Any:
        """Return the norm."""
        return self.unit * self.ratio

    def limit(self, x: Leaf, most: Number) -> Any:
        """Return an array multiplied so that a norm of this size is at most a limit."""
        is_within = self.value() <= like(most, self.ratio)
        unit = np.where(is_within, np.ones_like(self.unit), self.unit)
        ratio = np.where(is_within, np.ones_like(self.ratio), self.ratio)
        factor = like(most, ratio) / ratio
        scaled = widened(x, factor.dtype) / unit * factor
        return np.where(is_within, x, typed(scaled, x.dtype))


def widened(x: Leaf, dtype: np.dtype[Any]) -> Any:
    """Return an array with a dtype of at least this precision."""
    return typed(x, np.result_type(x.dtype, dtype))


def norm(tree: PyTree) -> Norm:
    """Return the root of the sum of squares over all leaves.

    It has the largest precision among the leaves, float32 at least. Its derivative at 0 is 0.
    """
    xs = [x for x in float_leaves(tree)[0] if np.size(x)]
    if not xs:
        return Norm(np.float64(1.0), np.float64(0.0))
    dtype = np.result_type(np.float32, *[real_dtype(x.dtype) for x in xs])
    largest = stop_gradient(np.max(np.stack([typed(np.max(np.abs(x)), dtype) for x in xs])))
    least = np.finfo(dtype).smallest_normal  # (NumPy's complex division by less is NaN)
    unit = np.where(np.isfinite(largest), np.maximum(largest, least), np.ones_like(largest))
    total = sum([np.sum(squared(widened(x, dtype) / unit)) for x in xs])
    return Norm(unit, root(total))


def check_limit(name: str, limit: Number) -> None:
    """Check that a limit of norms or values is not negative; traced ones are not read.

    Raises:
        ArgumentError: if it is.
    """
    if not isinstance(limit, Tracer) and np.any(np.less(limit, 0)):
        raise ArgumentError(f"{name}: the limit is {limit}", fix="pass a limit of 0 or more")


def vdot(left: PyTree, right: PyTree) -> Any:
    """Return the real part of the inner product of two pytrees of one structure and shapes."""
    pairs = zip(flatten(left)[0], flatten(right)[0], strict=True)
    products = [np.real(np.vdot(a, b)) for a, b in pairs]
    return sum(products[1:], start=products[0]) if products else np.float64(0.0)
