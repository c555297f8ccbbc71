"""``associative_scan``: all prefix combinations of slices, in few vectorized steps.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.api.capture.arguments import as_value, function_name, is_position
from functrace.errors import AxisError, DtypeError, ShapeError, TreeError, entry
from functrace.ir.aval import aval_of, shape_of
from functrace.tree import flatten, paths, unflatten
from functrace.tree.describing import difference
from functrace.typing import Array, T


@entry
def associative_scan(fn: Callable[[T, T], T], elems: T, reverse: bool = False, axis: int = 0) -> T:
    """Compute all prefix combinations along an axis: ``e0``, ``fn(e0, e1)``, ``fn(fn(e0, e1), e2)``
    and so on.

    This is ``numpy.cumsum`` for any associative function. ``fn`` is called about ``2 log2(n)``
    times, on whole arrays of slices: neighbours are combined first, then pairs of them, and so on.

    Args:
        fn: an associative function of two pytrees like ``elems``, to another one; it combines
            slices at the same position along ``axis``. (If it is not associative, the result is
            unspecified.)
        elems: arrays (a pytree of them) with the same size along ``axis``.
        reverse: True to begin at the end: the last result is then the last slice, the one before it
            ``fn(e[-1], e[-2])``.
        axis: axis to combine along.

    Returns:
        a pytree like ``elems``.

    Raises:
        AxisError: if an array does not have the axis.
        ShapeError: if sizes along the axis differ, or ``fn`` changes a shape; the message names the
            leaf.
        DtypeError: if ``fn`` changes a dtype; the message names the leaf.
        TreeError: if ``fn`` returns another structure.

    Example:
        >>> import numpy as np
        >>> associative_scan(np.maximum, np.array([1.0, 3.0, 2.0, 5.0, 4.0]))
        array([1., 3., 3., 5., 5.])
        >>> rotations = np.array([[[0.0, -1.0], [1.0, 0.0]]] * 4)
        >>> associative_scan(np.matmul, rotations)[-1]
        array([[1., 0.],
               [0., 1.]])

    Cost:
        ``fn`` on about ``2 n`` slices in all; a loop takes ``n`` in as many calls.

    Source:
        ``jax.lax.associative_scan``; Blelloch, Prefix sums and their applications (1990), section
        1.4.
    """
    owner = f"associative_scan of {function_name(fn)}"
    given, tree = flatten(elems)
    leaves: list[Any] = [as_value(x, f"{owner}: elems") for x in given]
    names = paths(elems)
    for name, x in zip(names, leaves, strict=True):
        rank = len(shape_of(x))
        if not is_position(axis) or not -rank <= axis < rank:
            raise AxisError(
                f"{owner}: axis={axis}, but elems{name} is {aval_of(x)}",
                fix="name an axis that all have",
            )
    sizes = {f"elems{name}": shape_of(x)[axis] for name, x in zip(names, leaves, strict=True)}
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name} has {n}" for name, n in sizes.items())
        raise ShapeError(
            f"{owner}: sizes along axis {axis} differ: {listed}",
            fix="combine along axes of one size",
        )
    if not leaves:
        return elems
    places = [axis % len(shape_of(x)) for x in leaves]

    def part(x: Array, place: int, piece: slice) -> Any:
        return x[(*[slice(None)] * place, piece)]

    def parts(values: list[Any], begin: int | None, end: int | None, step: int = 1) -> list[Any]:
        return [
            part(x, place, slice(begin, end, step)) for x, place in zip(values, places, strict=True)
        ]

    def combined(first: list[Any], second: list[Any]) -> list[Any]:
        found, out_tree = flatten(fn(unflatten(tree, first), unflatten(tree, second)))
        if out_tree != tree:
            path, taken, returned = difference(tree, out_tree)
            what = f"{owner}: the function takes {taken} and returns {returned}"
            raise TreeError(
                f"{what}{path and f' at {path}'}",
                fix="return a pytree with the structure of its arguments",
            )
        found = [as_value(x, f"{owner}: a result") for x in found]
        for name, before, after in zip(names, first, found, strict=True):
            if aval_of(before) is not aval_of(after):
                what = f"{owner}: elems{name} is {aval_of(before)}, but the function returns {aval_of(after)} for it"
                kind = ShapeError if shape_of(before) != shape_of(after) else DtypeError
                raise kind(what, fix="return the shape and dtype of the arguments")
        return found

    def running(values: list[Any]) -> list[Any]:
        count = shape_of(values[0])[places[0]]
        if count < 2:
            return values
        pairs = combined(parts(values, 0, count - 1, 2), parts(values, 1, count, 2))
        odd = running(pairs)  # the results at odd indices
        rest = parts(values, 2, count, 2)
        before = parts(odd, 0, shape_of(rest[0])[places[0]])
        even = combined(before, rest) if count > 2 else rest
        first = parts(values, 0, 1)
        return [
            _interleaved(np.concatenate([a, b], k), c, k)
            for a, b, c, k in zip(first, even, odd, places, strict=True)
        ]

    if next(iter(sizes.values())) < 2:
        return unflatten(tree, [x.copy() for x in leaves])
    turned = [np.flip(x, k) for x, k in zip(leaves, places, strict=True)] if reverse else leaves
    found = running(turned)
    return unflatten(
        tree, [np.flip(x, k) for x, k in zip(found, places, strict=True)] if reverse else found
    )


def _interleaved(even: Array, odd: Array, axis: int) -> Array:
    """Interleave the slices of two arrays; the first has as many as the second, or one more."""
    count = shape_of(odd)[axis]
    both = (*[slice(None)] * axis, slice(0, count))
    shape = shape_of(odd)
    joined = np.stack([even[both], odd], axis + 1).reshape(
        (*shape[:axis], 2 * count, *shape[axis + 1 :])
    )
    last = even[(*[slice(None)] * axis, slice(count, None))]
    return np.concatenate([joined, last], axis) if shape_of(last)[axis] else joined
