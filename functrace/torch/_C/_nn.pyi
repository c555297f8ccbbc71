# Written by `python -m tests.torch.stubs` from the rows: the functions of `torch._C._nn`.

import builtins
from collections.abc import Sequence
from typing import Any

from functrace.torch.functions.pooling import Sizes
from functrace.torch.tensors.tensor import Operand, Tensor, Value

__all__ = [
    "_upsample_bicubic2d_aa",
    "_upsample_bilinear2d_aa",
    "_upsample_lanczos2d_aa",
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "avg_pool2d",
    "avg_pool3d",
    "binary_cross_entropy",
    "col2im",
    "cross_entropy_loss",
    "elu",
    "elu_",
    "fractional_max_pool2d",
    "fractional_max_pool3d",
    "gelu",
    "gelu_",
    "glu",
    "hardsigmoid",
    "hardsigmoid_",
    "hardswish",
    "hardswish_",
    "hardtanh",
    "hardtanh_",
    "huber_loss",
    "im2col",
    "l1_loss",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "log_sigmoid",
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mish_",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "nll_loss",
    "nll_loss2d",
    "nll_loss_nd",
    "one_hot",
    "pad",
    "reflection_pad1d",
    "reflection_pad2d",
    "reflection_pad3d",
    "relu6",
    "relu6_",
    "replication_pad1d",
    "replication_pad2d",
    "replication_pad3d",
    "rrelu_with_noise",
    "rrelu_with_noise_",
    "scaled_dot_product_attention",
    "silu",
    "silu_",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softplus",
    "softshrink",
    "upsample_bicubic2d",
    "upsample_bilinear2d",
    "upsample_linear1d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
    "upsample_trilinear3d",
]

def _upsample_bicubic2d_aa(
    input: Operand, output_size: builtins.object, align_corners: builtins.bool, *scale_factors: builtins.object
) -> Value:
    """Return `interpolate` with mode 'bicubic'."""

def _upsample_bilinear2d_aa(
    input: Operand, output_size: builtins.object, align_corners: builtins.bool, *scale_factors: builtins.object
) -> Value:
    """Return `interpolate` with mode 'bilinear'."""

def _upsample_lanczos2d_aa(
    input: Operand, output_size: builtins.object, align_corners: builtins.bool, *scale_factors: builtins.object
) -> Value:
    """Return `interpolate` with mode 'lanczos'."""

def _upsample_nearest_exact1d(input: Operand, output_size: builtins.object, *scale_factors: builtins.object) -> Value:
    """Return `interpolate` with mode 'nearest-exact'."""

def _upsample_nearest_exact2d(input: Operand, output_size: builtins.object, *scale_factors: builtins.object) -> Value:
    """Return `interpolate` with mode 'nearest-exact'."""

def _upsample_nearest_exact3d(input: Operand, output_size: builtins.object, *scale_factors: builtins.object) -> Value:
    """Return `interpolate` with mode 'nearest-exact'."""

def adaptive_avg_pool2d(input: Operand, output_size: builtins.object) -> Value:
    """Return means of spans that cover the last 2 axes."""

def adaptive_avg_pool3d(input: Operand, output_size: builtins.object) -> Value:
    """Return means of spans that cover the last 3 axes."""

def adaptive_max_pool2d(input: Operand, output_size: builtins.object) -> Any:
    """Return maxima of spans that cover the last 2 axes, and their positions."""

def adaptive_max_pool3d(input: Operand, output_size: builtins.object) -> Any:
    """Return maxima of spans that cover the last 3 axes, and their positions."""

def avg_pool2d(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: builtins.bool = False,
    count_include_pad: builtins.bool = True,
    divisor_override: builtins.int | None = None,
) -> Value:
    """Return the means of windows over 2 axes."""

def avg_pool3d(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: builtins.bool = False,
    count_include_pad: builtins.bool = True,
    divisor_override: builtins.int | None = None,
) -> Value:
    """Return the means of windows over 3 axes."""

def binary_cross_entropy(
    input: Operand, target: Operand, weight: Operand | None = None, reduction: builtins.int = 0
) -> Value:
    """Return the cross-entropy of probabilities; see ``nn.functional.binary_cross_entropy``."""

def col2im(input: Operand, output_size: Sizes, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Value:
    """Return `fold`."""

def cross_entropy_loss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: builtins.int = 0,
    ignore_index: builtins.int = -100,
    label_smoothing: builtins.float = 0.0,
) -> Value:
    """Return the cross-entropy; see ``nn.functional.cross_entropy``."""

def elu(input: Operand, alpha: builtins.float = 1, scale: builtins.float = 1, input_scale: builtins.float = 1) -> Value:
    """Return ``scale * input`` where it is positive, ``scale * alpha * (exp(input_scale * input) - 1)`` elsewhere."""

def elu_(input: Operand, alpha: builtins.float = 1, scale: builtins.float = 1, input_scale: builtins.float = 1) -> Value:
    """``_C._nn.elu``, in place."""

def fractional_max_pool2d(input: Operand, kernel_size: Sizes, output_size: Sizes, random_samples: Operand) -> Any:
    """Return the values and positions of `fractional_max_pool2d`."""

def fractional_max_pool3d(input: Operand, kernel_size: Sizes, output_size: Sizes, random_samples: Operand) -> Any:
    """Return the values and positions of `fractional_max_pool3d`."""

def gelu(input: Operand, *, approximate: builtins.str = "none") -> Value:
    """Return ``input`` times the normal distribution function of it."""

def gelu_(input: Operand, *, approximate: builtins.str = "none") -> Value:
    """`gelu`, in place."""

def glu(input: Operand, dim: builtins.int = -1) -> Value:
    """Return the first half along a dimension times the sigmoid of the second half."""

def hardsigmoid(input: Operand) -> Value:
    """Return ``relu6(input + 3) / 6``."""

def hardsigmoid_(input: Operand) -> Value:
    """`hardsigmoid`, in place."""

def hardswish(input: Operand) -> Value:
    """Return ``input * relu6(input + 3) / 6``."""

def hardswish_(input: Operand) -> Value:
    """`hardswish`, in place."""

def hardtanh(input: Operand, min_val: builtins.float = -1, max_val: builtins.float = 1) -> Value:
    """Return each element, limited to the bounds; at a bound the derivative is 0."""

def hardtanh_(input: Operand, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Value:
    """`hardtanh`, in place."""

def huber_loss(input: Operand, target: Operand, reduction: builtins.int = 0, delta: builtins.float = 1.0) -> Value:
    """Return the Huber loss; see ``nn.functional.huber_loss``."""

def im2col(input: Operand, kernel_size: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes) -> Value:
    """Return `unfold`."""

def l1_loss(input: Operand, target: Operand, reduction: builtins.int = 0) -> Value:
    """Return the absolute difference; see ``nn.functional.l1_loss``."""

def leaky_relu(input: Operand, negative_slope: builtins.float = 0.01) -> Value:
    """Return ``input`` where it is positive, ``negative_slope * input`` elsewhere."""

def leaky_relu_(input: Operand, negative_slope: builtins.float = 0.01) -> Value:
    """`leaky_relu`, in place."""

def linear(input: Operand, weight: Operand, bias: Operand | None = None) -> Value:
    """Return ``input @ weight.T + bias``."""

def log_sigmoid(input: Operand) -> Value:
    """Return the logarithm of the sigmoid, accurate where the sigmoid rounds to 0 or 1."""

def max_pool2d_with_indices(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: builtins.bool = False,
) -> Any:
    """Return the maxima of windows over 2 axes, and their positions."""

def max_pool3d_with_indices(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: builtins.bool = False,
) -> Any:
    """Return the maxima of windows over 3 axes, and their positions."""

def max_unpool2d(input: Operand, indices: Operand, output_size: builtins.object, *rest: builtins.object) -> Value:
    """Return `max_unpool2d` for given sizes."""

def max_unpool3d(input: Operand, indices: Operand, output_size: builtins.object, *rest: builtins.object) -> Value:
    """Return `max_unpool3d` for given sizes."""

def mish(input: Operand) -> Value:
    """Return ``input * tanh(softplus(input))``."""

def mish_(input: Operand) -> Value:
    """`mish`, in place."""

def mse_loss(input: Operand, target: Operand, reduction: builtins.int = 0) -> Value:
    """Return the squared difference; see ``nn.functional.mse_loss``."""

def multi_margin_loss(
    input: Operand,
    target: Operand,
    p: builtins.int = 1,
    margin: builtins.float = 1,
    weight: Operand | None = None,
    reduction: builtins.int = 0,
) -> Value:
    """Return the loss of margins between classes; see ``nn.functional.multi_margin_loss``."""

def multilabel_margin_loss(input: Operand, target: Operand, reduction: builtins.int = 0) -> Value:
    """Return the loss of several labels; see ``nn.functional.multilabel_margin_loss``."""

def nll_loss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: builtins.int = 0,
    ignore_index: builtins.int = -100,
) -> Value:
    """Return the negative log-likelihood of classes; see ``nn.functional.nll_loss``."""

def nll_loss2d(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: builtins.int = 0,
    ignore_index: builtins.int = -100,
) -> Value:
    """Return the negative log-likelihood of classes; see ``nn.functional.nll_loss``."""

def nll_loss_nd(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    reduction: builtins.int = 0,
    ignore_index: builtins.int = -100,
) -> Value:
    """Return the negative log-likelihood of classes; see ``nn.functional.nll_loss``."""

def one_hot(tensor: Operand, num_classes: builtins.int = -1) -> Value:
    """Return vectors of 0 with a 1 at the position that each element says."""

def pad(
    input: Operand, pad: Sequence[builtins.int], mode: builtins.str = "constant", value: builtins.float | None = None
) -> Value:
    """Return the tensor with elements added around it."""

def reflection_pad1d(input: Operand, padding: Sequence[builtins.int]) -> Value:
    """Return the tensor with `reflect` borders along its last axes."""

def reflection_pad2d(input: Operand, padding: Sequence[builtins.int]) -> Value:
    """Return the tensor with `reflect` borders along its last axes."""

def reflection_pad3d(input: Operand, padding: Sequence[builtins.int]) -> Value:
    """Return the tensor with `reflect` borders along its last axes."""

def relu6(input: Operand) -> Value:
    """Return each element, limited to the range from 0 to 6."""

def relu6_(input: Operand) -> Value:
    """`relu6`, in place."""

def replication_pad1d(input: Operand, padding: Sequence[builtins.int]) -> Value:
    """Return the tensor with `replicate` borders along its last axes."""

def replication_pad2d(input: Operand, padding: Sequence[builtins.int]) -> Value:
    """Return the tensor with `replicate` borders along its last axes."""

def replication_pad3d(input: Operand, padding: Sequence[builtins.int]) -> Value:
    """Return the tensor with `replicate` borders along its last axes."""

def rrelu_with_noise(
    input: Operand,
    noise: Tensor,
    lower: builtins.float = 0.125,
    upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False,
    generator: Any = None,
) -> Value:
    """`rrelu`, which writes its slopes into ``noise``."""

def rrelu_with_noise_(
    input: Operand,
    noise: Tensor,
    lower: builtins.float = 0.125,
    upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False,
    generator: Any = None,
) -> Value:
    """`rrelu_with_noise`, in place."""

def scaled_dot_product_attention(
    query: Operand,
    key: Operand,
    value: Operand,
    attn_mask: Operand | None = None,
    dropout_p: builtins.float = 0.0,
    is_causal: builtins.bool = False,
    scale: builtins.float | None = None,
    enable_gqa: builtins.bool = False,
) -> Value:
    """Return ``softmax(query @ key.T * scale + attn_mask) @ value`` for every head."""

def silu(input: Operand) -> Value:
    """Return ``input * sigmoid(input)``."""

def silu_(input: Operand) -> Value:
    """`silu`, in place."""

def smooth_l1_loss(input: Operand, target: Operand, reduction: builtins.int = 0, beta: builtins.float = 1.0) -> Value:
    """Return the smoothed absolute difference; see ``nn.functional.smooth_l1_loss``."""

def soft_margin_loss(input: Operand, target: Operand, reduction: builtins.int = 0) -> Value:
    """Return ``log(1 + exp(-target * input))`` for targets 1 and -1."""

def softplus(input: Operand, beta: builtins.float = 1, threshold: builtins.float = 20) -> Value:
    """Return ``log(1 + exp(beta * input)) / beta``; ``input`` where ``beta * input`` is above the threshold."""

def softshrink(input: Operand, lambd: builtins.float = 0.5) -> Value:
    """Return ``input``, moved towards 0 by ``lambd``, and 0 where that is not possible."""

def upsample_bicubic2d(
    input: Operand, output_size: builtins.object, align_corners: builtins.bool, *scale_factors: builtins.object
) -> Value:
    """Return `interpolate` with mode 'bicubic'."""

def upsample_bilinear2d(
    input: Operand, output_size: builtins.object, align_corners: builtins.bool, *scale_factors: builtins.object
) -> Value:
    """Return `interpolate` with mode 'bilinear'."""

def upsample_linear1d(
    input: Operand, output_size: builtins.object, align_corners: builtins.bool, *scale_factors: builtins.object
) -> Value:
    """Return `interpolate` with mode 'linear'."""

def upsample_nearest1d(input: Operand, output_size: builtins.object, *scale_factors: builtins.object) -> Value:
    """Return `interpolate` with mode 'nearest'."""

def upsample_nearest2d(input: Operand, output_size: builtins.object, *scale_factors: builtins.object) -> Value:
    """Return `interpolate` with mode 'nearest'."""

def upsample_nearest3d(input: Operand, output_size: builtins.object, *scale_factors: builtins.object) -> Value:
    """Return `interpolate` with mode 'nearest'."""

def upsample_trilinear3d(
    input: Operand, output_size: builtins.object, align_corners: builtins.bool, *scale_factors: builtins.object
) -> Value:
    """Return `interpolate` with mode 'trilinear'."""
