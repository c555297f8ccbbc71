"""Layers with a batch normalization after them, as one layer.

Layer: 9.
"""

from __future__ import annotations

import copy
from typing import Any

from functrace.torch import namespace as torch
from functrace.torch.nn.parameter import Parameter
from functrace.torch.tensors.tensor import Tensor


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """Return a convolution that also normalizes; both modules are in eval mode.

    Args:
        conv: the convolution.
        bn: the batch normalization after it.
        transpose: whether it is a transposed one.
    """
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    made = copy.deepcopy(conv)
    made.weight, made.bias = fuse_conv_bn_weights(
        made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return made


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Any, Any]:
    """Return weight and bias of a convolution that also normalizes.

    Args:
        conv_w: weight of the convolution.
        conv_b: its bias.
        bn_rm: running mean.
        bn_rv: running variance.
        bn_eps: added to the variance.
        bn_w: weight of the normalization.
        bn_b: its bias.
        transpose: whether it is a transposed convolution.
    """
    shape = [1] * conv_w.ndim
    shape[1 if transpose else 0] = -1
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def _fused(
    weight: Tensor, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float,
    scale: Tensor | None, shift: Tensor | None, shape: list[int],
) -> tuple[Any, Any]:  # fmt: skip
    bias = torch.zeros_like(mean) if bias is None else bias
    scale = torch.ones_like(mean) if scale is None else scale
    shift = torch.zeros_like(mean) if shift is None else shift
    factor = scale * torch.rsqrt(variance + eps)
    made = (weight * factor.reshape(shape)).to(dtype=weight.dtype)
    moved = ((bias - mean) * factor + shift).to(dtype=bias.dtype)
    return Parameter(made.detach(), weight.requires_grad), Parameter(
        moved.detach(), bias.requires_grad
    )


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """Return a linear layer that also normalizes; both modules are in eval mode.

    Args:
        linear: the linear layer.
        bn: the batch normalization after it.
    """
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    made = copy.deepcopy(linear)
    made.weight, made.bias = fuse_linear_bn_weights(
        made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return made


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Any, Any]:
    """Return weight and bias of a linear layer that also normalizes.

    Args:
        linear_w: weight of the layer.
        linear_b: its bias.
        bn_rm: running mean.
        bn_rv: running variance.
        bn_eps: added to the variance.
        bn_w: weight of the normalization.
        bn_b: its bias.
    """
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])
