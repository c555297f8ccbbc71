"""Steps of views: functions that return a part of a value, and the effect of a write into that
part on the value.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.elementwise import div, where
from functrace.ops.indexing import index_static, scatter_set
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import broadcast_to, permute, reshape
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.torch.dispatch.applying import Op

Step: TypeAlias = "tuple[Callable[..., Any], tuple[Any, ...], Op | None]"
"""One step from a base to a view: a function of arrays, its parameters, and the op, if one made
it.
"""
Steps: TypeAlias = "tuple[Step, ...]"


def part(base: Array, steps: Steps) -> Any:
    """Apply the steps of a view to a value."""
    for function, params, _ in steps:
        base = function(base, *params)
    return base


def with_part(base: Array, steps: Steps, value: Array) -> Any:
    """Return a value with the part that a chain of views selects replaced."""
    if not steps:
        return value
    (function, params, _), rest = steps[0], steps[1:]
    inner = with_part(function(base, *params), rest, value)
    if function is broadcast_to:
        return _contracted(base, inner, rest)
    return _REPLACE[function](base, inner, *params)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argsort(axes))


_REPLACE: dict[Callable[..., Any], Callable[..., Any]] = {
    index_static: lambda base, value, index: scatter_set(base, index, value),
    reshape: lambda base, value, shape: reshape(value, base.shape),
    permute: lambda base, value, axes: permute(value, _inverse(axes)),
    ew.real: lambda base, value: ew.add(value, ew.mul(ew.imag(base), 1j)),
    ew.imag: lambda base, value: ew.add(ew.real(base), ew.mul(value, 1j)),
}
"""By view function: the function that writes a view's value into its base; for expanded memory,
see `_contracted`.
"""


STRIDED: set[Callable[..., Any]] = set()
"""View functions that return views of arrays with any strides, and so never copy memory."""


def view_written(
    function: Callable[..., Any], replace: Callable[..., Any], *, is_strided: bool = False
) -> None:
    """Register the write of a view: ``replace(base, value, *params)`` is the updated base; see
    `STRIDED`, too.
    """
    _REPLACE[function] = replace
    if is_strided:
        STRIDED.add(function)


def _contracted(base: Array, value: Array, rest: Steps) -> Any:
    """Return a value after a write into a part of its expansion: each element at most once."""
    written = np.zeros(value.shape, np.bool_)
    part(written, rest)[...] = True
    extra = written.ndim - len(base.shape)
    axes = tuple(
        k for k in range(written.ndim) if k < extra or base.shape[k - extra] != written.shape[k]
    )
    count = np.sum(written, axes).reshape(base.shape)
    chosen = reshape(reduce_sum(where(written, value, 0), axes), base.shape)
    return where(
        count > 0,
        div(chosen, np.maximum(count, 1).astype(base.dtype)) if count.max() > 1 else chosen,
        base,
    )
