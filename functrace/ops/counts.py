"""Flop counts of primitives: their ``flops`` rules; see `functrace.ir.cost` for the conventions.

A rule is called as ``flops(inputs, outputs, params)``, with avals and the params by name.

Layer: 2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from functrace.ir.aval import ShapeDtype

Avals = tuple[ShapeDtype, ...]
Count = Callable[[Avals, Avals, Mapping[str, Any]], float]


def moved(_inputs: Avals, _outputs: Avals, _params: Mapping[str, Any]) -> int:
    """Return 0: moving data costs no flops."""
    return 0


def per_input(inputs: Avals, _outputs: Avals, _params: Mapping[str, Any]) -> int:
    """One per element of the largest operand, as reductions take."""
    return max((x.size for x in inputs), default=0)


def twice_per_input(inputs: Avals, outputs: Avals, params: Mapping[str, Any]) -> int:
    """A multiplication and an addition per element of the largest operand."""
    return 2 * per_input(inputs, outputs, params)


def per_added(inputs: Avals, _outputs: Avals, _params: Mapping[str, Any]) -> int:
    """One addition per written element; indices are integers."""
    return max((x.size for x in inputs if x.dtype.kind in "fc"), default=0)


def matmul(inputs: Avals, outputs: Avals, _params: Mapping[str, Any]) -> int:
    """A multiplication and an addition per element and contracted index."""
    return 2 * outputs[0].size * inputs[0].shape[-1]


def einsum(inputs: Avals, _outputs: Avals, params: Mapping[str, Any]) -> int:
    """2 x the product of all index sizes (1 x for one operand: nothing is multiplied)."""
    terms = params["subscripts"].partition("->")[0].split(",")
    sizes = {
        letter: n
        for term, x in zip(terms, inputs, strict=True)
        for letter, n in zip(term, x.shape, strict=False)
    }
    return (2 if len(inputs) > 1 else 1) * math.prod(sizes.values())


def convolve(inputs: Avals, outputs: Avals, _params: Mapping[str, Any]) -> int:
    """Direct convolution."""
    batch = math.prod(outputs[0].shape[:-1])
    return 2 * batch * inputs[0].shape[-1] * inputs[1].shape[-1]


def sort(inputs: Avals, _outputs: Avals, params: Mapping[str, Any]) -> float:
    """n log2 n comparisons."""
    x = inputs[0]
    axis: int = params["axis"]
    n = x.shape[axis] if x.shape else 1
    return x.size * math.ceil(math.log2(n)) if n > 1 else 0


def search(inputs: Avals, outputs: Avals, _params: Mapping[str, Any]) -> int:
    """A bisection per element of the query."""
    n = max(1, inputs[0].shape[-1] if inputs[0].shape else 1)
    return outputs[0].size * math.ceil(math.log2(n + 1))


def cubic(factor: float) -> Count:
    """``factor`` x n**3 per square matrix of the first operand."""

    def count(inputs: Avals, _outputs: Avals, _params: Mapping[str, Any]) -> float:
        *batch, n = inputs[0].shape[:-1]
        return factor * math.prod(batch) * n**3

    return count


def tall(square: float, cube: float) -> Count:
    """``square`` x m n**2 + ``cube`` x n**3 per m x n matrix, m >= n."""

    def count(inputs: Avals, _outputs: Avals, _params: Mapping[str, Any]) -> float:
        *batch, rows, columns = inputs[0].shape
        m, n = max(rows, columns), min(rows, columns)
        return math.prod(batch) * (square * m * n**2 + cube * n**3)

    return count


def solve(inputs: Avals, outputs: Avals, _params: Mapping[str, Any]) -> float:
    """LU, and two triangular solves per right-hand side."""
    *batch, n = inputs[0].shape[:-1]
    return 2 / 3 * math.prod(batch) * n**3 + 2 * n * outputs[0].size


def solve_triangular(inputs: Avals, outputs: Avals, _params: Mapping[str, Any]) -> float:
    """One triangular solve per right-hand side."""
    return inputs[0].shape[-1] * outputs[0].size


def products_of_triangles(factor: float) -> Count:
    """``factor`` x n**3 per square matrix of the result."""

    def count(_inputs: Avals, outputs: Avals, _params: Mapping[str, Any]) -> float:
        return factor * outputs[0].size * outputs[0].shape[-1]

    return count
