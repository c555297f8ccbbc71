"""Operations of ``torch.ops.aten`` that PyTorch has no public function for.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.torch.functions.convolution import CONVOLUTION
from functrace.torch.tensors.memory import as_strided
from functrace.torch.tensors.tensor import Tensor, fresh
from functrace.torch.tensors.views import find_plan

Sizes = Sequence[int]


def convolution_backward(
    grad_output: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Sizes | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of a convolution's input, filters and bias.

    Args:
        grad_output: gradient of the result.
        input, weight: operands of the convolution.
        bias_sizes: ignored.
        stride, padding, dilation, transposed, output_padding, groups: its parameters, one number
            for each axis.
        output_mask: True for each gradient that is requested; None is returned for the others.
    """
    axes = weight.dim() - 2
    every = [_each(x, axes) for x in (stride, padding, dilation)]
    params = (*every, bool(transposed), _each(output_padding, axes), int(groups))
    found: list[Tensor | None] = [None, None, None]
    mask = output_mask[0] | output_mask[1] << 1
    if mask:
        op = CONVOLUTION[False]
        operands = input, weight
        plan = find_plan(op, operands, params, mask)
        assert plan is not None
        saved = [operands[place] for _, place in plan.derivation.saves]
        found[:2] = op.pull_tensors(plan, saved, [grad_output])[:2]
    if output_mask[2]:
        found[2] = grad_output.sum([k for k in range(grad_output.dim()) if k != 1])
    return found[0], found[1], found[2]


def _each(value: Sizes, axes: int) -> tuple[int, ...]:
    numbers = tuple([int(x) for x in value])
    return numbers * axes if len(numbers) == 1 else numbers


def new_zeros_like_features(self: Tensor, other: Tensor, *, self_num_batch_dims: int = 0) -> Tensor:
    """Return zeros with the layout and storage of ``other`` for each of the first
    ``self_num_batch_dims`` dimensions of ``self``.
    """
    sizes = list(self.shape[:self_num_batch_dims])
    length = other.untyped_storage().nbytes() // other.element_size()
    strides = [length * math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    memory = fresh(np.zeros(length * math.prod(sizes), other._array.dtype))
    layout: Any = [*sizes, *other.shape], [*strides, *other.stride()], other.storage_offset()
    return as_strided(memory, *layout).detach()
