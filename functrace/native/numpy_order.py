"""The order in which NumPy adds the elements of an array, found from its memory layout.

NumPy's iterator walks memory: the axis with the smallest stride is innermost, and axes that continue
each other are one. If the innermost axis is summed over, each run along it is summed pairwise (eight
partial sums in blocks of at most 128 elements, blocks in a binary tree), and runs are added up one
after the other. Otherwise rows are added to the result one after the other. So the layout that an
array has in NumPy's run of the program decides the bits of its sums; see
`functrace.executor.plan.layouts`.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, final

from functrace.executor.plan.layouts import Shape, Strides, memory_order
from functrace.native.values import Order

LANES: Final = 8
"""Partial sums of floats in NumPy's pairwise sum; half as many of complex numbers."""
BLOCKS: Final = 16
"""Steps of the partial sums up to which NumPy does not halve a run."""


def order_of(shape: Shape, strides: Strides, summed: Sequence[int]) -> tuple[Order, bool]:
    """Return the order of a sum, and False where NumPy copies the array in parts before it adds, so
    that its runs are longer.

    Args:
        shape, strides: of the array.
        summed: axes to sum over.
    """
    axes = memory_order(shape, strides)
    run = 0
    while run < len(axes) and axes[-1 - run] in summed:
        outer, inner = axes[-1 - run], axes[-run] if run else -1
        if run and strides[outer] != shape[inner] * strides[inner]:
            return Order(tuple(axes), run), False
        run += 1
    return Order(tuple(axes), run), True


@final
class Halves(NamedTuple):
    """Halving of a run of ``lanes * blocks + rest`` elements.

    Args:
        depth: how often; all parts are made by so many cuts, or by one less.
        is_even: True if all parts are made by so many cuts.
        last: the part that the rest belongs to.
    """

    depth: int
    is_even: bool
    last: int


def halves(blocks: int, rest: int) -> Halves:
    """Return how a run is halved.

    The blocks of part ``j`` are ``(blocks + reversed_bits(j)) >> depth``: the first half of an odd
    number of blocks is the smaller one.
    """
    depth = 0
    while -(-blocks >> depth) * 2 + (rest > 0) > 2 * BLOCKS:
        depth += 1
    if not depth:
        return Halves(0, True, 0)
    least, most = blocks >> (depth - 1), -(-blocks >> (depth - 1))
    is_last_cut = most > BLOCKS or (most == BLOCKS and rest > 0)
    is_even = least > BLOCKS or (is_last_cut and most == least and depth == 1)
    parts = 1 << depth
    return Halves(depth, is_even, parts - 1 if is_last_cut else parts - 2)
