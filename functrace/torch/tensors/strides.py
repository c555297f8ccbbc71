"""Strides and offsets that NumPy does not keep: of views without elements, and along dimensions of
size 1.

NumPy resets the strides of an array without elements, and begins each of its views where the array
begins; PyTorch computes strides and offset of a view from those of its source alone. `followed`
does that: it applies a rule per step from the base of a view to the view.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from functrace.ops import elementwise as ew
from functrace.ops.indexing import index_static
from functrace.ops.shaping import broadcast_to, permute, reshape

if TYPE_CHECKING:
    from functrace.torch.tensors.steps import Steps

Sizes = tuple[int, ...]
Geometry = tuple[Sizes, Sizes, int]
"""Position of elements in a storage: sizes, strides and offset of the first, counted in
elements.
"""
Rule = Callable[..., Geometry]
"""``rule(geometry, name of the op's node, *params)`` is the geometry after a step."""


def dense_strides(shape: Sizes) -> Sizes:
    """Return the strides, in elements, of a C-contiguous array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def followed(given: Geometry, steps: Steps) -> Geometry | None:
    """Return the geometry of a view; None if one of its steps has no rule.

    Args:
        given: the geometry of its base.
        steps: the steps from the base to the view.
    """
    for function, params, op in steps:
        rule = _RULES.get(function)
        if rule is None:
            return None
        given = rule(given, "" if op is None else op.node, *params)
    return given


def stride_rule(function: Callable[..., Any], rule: Rule) -> None:
    """Register the rule of a view function."""
    _RULES[function] = rule


def _indexed(given: Geometry, _node: str, index: tuple[Any, ...]) -> Geometry:
    shape, strides, offset = given
    named = sum(entry is not None and entry is not Ellipsis for entry in index)
    if Ellipsis not in index:
        index = (*index, Ellipsis)
    sizes, steps, axis = [], [], 0
    for entry in index:
        if entry is None:
            sizes.append(1)
            steps.append(shape[axis] * strides[axis] if axis < len(shape) else 1)
        elif entry is Ellipsis:
            end = axis + len(shape) - named
            sizes += shape[axis:end]
            steps += strides[axis:end]
            axis = end
        elif isinstance(entry, tuple):
            first, last, step = slice(*entry).indices(shape[axis])
            sizes.append(len(range(first, last, step)))
            steps.append(strides[axis] * step)
            offset += first * strides[axis]
            axis += 1
        else:
            offset += (entry % max(shape[axis], 1)) * strides[axis]
            axis += 1
    return tuple(sizes), tuple(steps), offset


def _permuted(given: Geometry, _node: str, axes: Sizes) -> Geometry:
    shape, strides, offset = given
    return tuple([shape[k] for k in axes]), tuple([strides[k] for k in axes]), offset


def _expanded(given: Geometry, _node: str, wanted: Sizes) -> Geometry:
    shape, strides, offset = given
    extra = len(wanted) - len(shape)
    steps: list[int] = []
    for k in reversed(range(len(wanted))):
        size = shape[k - extra] if k >= extra else 1
        if size != wanted[k]:
            steps.append(0)
        elif k >= extra:
            steps.append(strides[k - extra])
        else:
            steps.append(wanted[k + 1] * steps[-1] if steps else 1)
    return wanted, tuple(reversed(steps)), offset


def _reshaped(given: Geometry, node: str, wanted: Sizes) -> Geometry:
    shape, strides, offset = given
    if node.startswith("Squeeze"):
        return _squeezed(given, wanted)
    if node.startswith("Unsqueeze"):
        axis = next(
            k for k in range(len(wanted)) if wanted[k] == 1 and shape[k:] == wanted[k + 1 :]
        )
        step = shape[axis] * strides[axis] if axis < len(shape) else 1
        return wanted, (*strides[:axis], step, *strides[axis:]), offset
    if shape == wanted and 0 in shape:
        return given
    if not shape or 0 in shape:
        return wanted, dense_strides(wanted), offset
    return wanted, _regrouped(shape, strides, wanted), offset


def _squeezed(given: Geometry, wanted: Sizes) -> Geometry:
    """Drop dimensions of size 1, from the left."""
    shape, strides, offset = given
    drops = len(shape) - len(wanted)
    kept: list[int] = []
    for n, step in zip(shape, strides, strict=True):
        if n == 1 and drops:
            drops -= 1
        else:
            kept.append(step)
    return wanted, tuple(kept), offset


def _regrouped(shape: Sizes, strides: Sizes, wanted: Sizes) -> Sizes:
    """Return the strides of a reshape that is a view: each block of dimensions that lie densely is
    split into new dimensions, from the last.
    """
    steps: list[int] = []
    axis, count, begin = len(wanted) - 1, 1, strides[-1]
    for k in reversed(range(len(shape))):
        count *= shape[k]
        if k and (shape[k - 1] == 1 or strides[k - 1] == count * begin):
            continue
        filled = 1
        while axis >= 0 and (filled < count or wanted[axis] == 1):
            steps.append(filled * begin)
            filled *= wanted[axis]
            axis -= 1
        if k:
            count, begin = 1, strides[k - 1]
    return tuple(reversed(steps))


def _parts(given: Geometry, _node: str) -> Geometry:
    shape, strides, offset = given
    return shape, tuple([2 * n for n in strides]), 2 * offset


def _imaginary(given: Geometry, node: str) -> Geometry:
    shape, strides, offset = _parts(given, node)
    return shape, strides, offset + 1


_RULES: dict[Callable[..., Any], Rule] = {
    index_static: _indexed,
    permute: _permuted,
    broadcast_to: _expanded,
    reshape: _reshaped,
    ew.real: _parts,
    ew.imag: _imaginary,
}
