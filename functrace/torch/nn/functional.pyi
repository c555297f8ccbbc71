# Written by `python -m tests.torch.stubs` from the rows: the functions of `torch.nn.functional`.

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from functrace.torch.functions.resampling import Sizes
from functrace.torch.tensors.dtypes import DtypeLike
from functrace.torch.tensors.tensor import Operand, Tensor, Value

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "alpha_dropout",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "cross_entropy",
    "ctc_loss",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "elu",
    "elu_",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gaussian_nll_loss",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "hinge_embedding_loss",
    "huber_loss",
    "instance_norm",
    "interpolate",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "linear_cross_entropy",
    "local_response_norm",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "multi_head_attention_forward",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rms_norm",
    "rrelu",
    "rrelu_",
    "scaled_dot_product_attention",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

def adaptive_avg_pool1d(input: Operand, output_size: builtins.object) -> Value:
    """Return means of spans of the last axis; see `adaptive_avg_pool2d`."""

def adaptive_avg_pool2d(input: Operand, output_size: builtins.object) -> Value:
    """Return means of spans that cover the last 2 axes."""

def adaptive_avg_pool3d(input: Operand, output_size: builtins.object) -> Value:
    """Return means of spans that cover the last 3 axes."""

def adaptive_max_pool1d(input: Operand, output_size: builtins.object, return_indices: builtins.bool = False) -> Any:
    """Return maxima of spans that cover the last 1 axes."""

def adaptive_max_pool1d_with_indices(
    input: Operand, output_size: builtins.object, return_indices: builtins.bool = False
) -> Any:
    """Return maxima of spans that cover the last 1 axes, and their positions."""

def adaptive_max_pool2d(input: Operand, output_size: builtins.object, return_indices: builtins.bool = False) -> Any:
    """Return maxima of spans that cover the last 2 axes."""

def adaptive_max_pool2d_with_indices(
    input: Operand, output_size: builtins.object, return_indices: builtins.bool = False
) -> Any:
    """Return maxima of spans that cover the last 2 axes, and their positions."""

def adaptive_max_pool3d(input: Operand, output_size: builtins.object, return_indices: builtins.bool = False) -> Any:
    """Return maxima of spans that cover the last 3 axes."""

def adaptive_max_pool3d_with_indices(
    input: Operand, output_size: builtins.object, return_indices: builtins.bool = False
) -> Any:
    """Return maxima of spans that cover the last 3 axes, and their positions."""

def affine_grid(theta: Operand, size: Sequence[builtins.int], align_corners: builtins.bool | None = None) -> Value:
    """Return the grid of an affine map, for `grid_sample`."""

def alpha_dropout(
    input: Operand, p: builtins.float = 0.5, training: builtins.bool = False, inplace: builtins.bool = False
) -> Value:
    """Return the input with elements set to SELU's limit at random, scaled and shifted so that normal numbers keep mean and variance."""

def avg_pool1d(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: builtins.bool = False,
    count_include_pad: builtins.bool = True,
) -> Value:
    """Return the means of windows along the last axis; see `avg_pool2d`."""

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

def batch_norm(
    input: Operand,
    running_mean: Operand | None,
    running_var: Operand | None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    training: builtins.bool = False,
    momentum: builtins.float = 0.1,
    eps: builtins.float = 1e-05,
) -> Value:
    """Return the input with mean 0 and variance 1 in each channel."""

def bilinear(input1: Operand, input2: Operand, weight: Operand, bias: Operand | None = None) -> Value:
    """Return ``input1 @ weight[k] @ input2 + bias[k]`` for each ``k``."""

def binary_cross_entropy(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return ``-(target * log(input) + (1 - target) * log(1 - input))``; logarithms are at least -100."""

def binary_cross_entropy_with_logits(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
    pos_weight: Operand | None = None,
) -> Value:
    """Return `binary_cross_entropy` of ``sigmoid(input)``, accurate for large logits."""

def celu(input: Operand, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Value:
    """Return ``input`` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""

def celu_(input: Operand, alpha: builtins.float = 1.0) -> Value:
    """`celu`, in place."""

def channel_shuffle(input: Operand, groups: builtins.int) -> Value:
    """Return channels in another order: one of each group in turn."""

def conv1d(
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: Sizes | builtins.str = 0,
    dilation: Sizes = 1,
    groups: builtins.int = 1,
) -> Value:
    """Return the convolution of images with filters, over 1 axes."""

def conv2d(
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: Sizes | builtins.str = 0,
    dilation: Sizes = 1,
    groups: builtins.int = 1,
) -> Value:
    """Return the convolution of images with filters, over 2 axes."""

def conv3d(
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: Sizes | builtins.str = 0,
    dilation: Sizes = 1,
    groups: builtins.int = 1,
) -> Value:
    """Return the convolution of images with filters, over 3 axes."""

def conv_tbc(input: Operand, weight: Operand, bias: Operand, pad: builtins.int = 0) -> Value:
    """Return the convolution along the first axis."""

def conv_transpose1d(
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: builtins.int = 1,
    dilation: Sizes = 1,
) -> Value:
    """Return the transposed convolution over 1 axes."""

def conv_transpose2d(
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: builtins.int = 1,
    dilation: Sizes = 1,
) -> Value:
    """Return the transposed convolution over 2 axes."""

def conv_transpose3d(
    input: Operand,
    weight: Operand,
    bias: Operand | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: builtins.int = 1,
    dilation: Sizes = 1,
) -> Value:
    """Return the transposed convolution over 3 axes."""

def cosine_embedding_loss(
    input1: Operand,
    input2: Operand,
    target: Operand,
    margin: builtins.float = 0,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return ``1 - cos`` for targets 1, ``max(0, cos - margin)`` for targets -1."""

def cosine_similarity(x1: Operand, x2: Operand, dim: builtins.int = 1, eps: builtins.float = 1e-08) -> Value:
    """Return the cosines of the angles between vectors."""

def cross_entropy(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    size_average: builtins.bool | None = None,
    ignore_index: builtins.int = -100,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
    label_smoothing: builtins.float = 0.0,
) -> Value:
    """Return the cross-entropy between logits and classes, or probabilities of classes."""

def ctc_loss(
    log_probs: Operand,
    targets: Operand,
    input_lengths: builtins.object,
    target_lengths: builtins.object,
    blank: builtins.int = 0,
    reduction: builtins.str = "mean",
    zero_infinity: builtins.bool = False,
) -> Value:
    """Return the negative log-likelihood of labels, summed over all alignments with the steps."""

def dropout(
    input: Operand, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False
) -> Value:
    """Return the input with elements set to 0 at random; the others are divided by ``1 - p``."""

def dropout1d(
    input: Operand, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False
) -> Value:
    """Return the input with channels set to 0 at random; the others are divided by ``1 - p``."""

def dropout2d(
    input: Operand, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False
) -> Value:
    """Return the input with channels set to 0 at random; the others are divided by ``1 - p``."""

def dropout3d(
    input: Operand, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False
) -> Value:
    """Return the input with channels set to 0 at random; the others are divided by ``1 - p``."""

def elu(input: Operand, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Value:
    """Return ``input`` where it is positive, ``alpha * (exp(input) - 1)`` elsewhere."""

def elu_(input: Operand, alpha: builtins.float = 1.0) -> Value:
    """`elu`, in place."""

def embedding(
    input: Operand,
    weight: Operand,
    padding_idx: builtins.int | None = None,
    max_norm: builtins.float | None = None,
    norm_type: builtins.float = 2.0,
    scale_grad_by_freq: builtins.bool = False,
    sparse: builtins.bool = False,
) -> Value:
    """Return the rows of a matrix at positions."""

def embedding_bag(
    input: Operand,
    weight: Operand,
    offsets: Operand | None = None,
    max_norm: builtins.float | None = None,
    norm_type: builtins.float = 2,
    scale_grad_by_freq: builtins.bool = False,
    mode: builtins.str = "mean",
    sparse: builtins.bool = False,
    per_sample_weights: Operand | None = None,
    include_last_offset: builtins.bool = False,
    padding_idx: builtins.int | None = None,
) -> Value:
    """Return sums, means or maxima of rows of a matrix, for each bag of positions."""

def feature_alpha_dropout(
    input: Operand, p: builtins.float = 0.5, training: builtins.bool = False, inplace: builtins.bool = False
) -> Value:
    """Return `alpha_dropout` of whole channels."""

def fold(
    input: Operand, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
) -> Value:
    """Return images, to which windows are added: the transpose of `unfold`."""

def fractional_max_pool2d(
    input: Operand,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Any = None,
    return_indices: builtins.bool = False,
    _random_samples: Operand | None = None,
) -> Any:
    """Return the maxima of windows at random places over 2 axes."""

def fractional_max_pool2d_with_indices(
    input: Operand,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: builtins.object = None,
    return_indices: builtins.bool = False,
    _random_samples: Operand | None = None,
) -> Any:
    """Return the values and positions of `fractional_max_pool2d`."""

def fractional_max_pool3d(
    input: Operand,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: Any = None,
    return_indices: builtins.bool = False,
    _random_samples: Operand | None = None,
) -> Any:
    """Return the maxima of windows at random places over 3 axes."""

def fractional_max_pool3d_with_indices(
    input: Operand,
    kernel_size: Sizes,
    output_size: Sizes | None = None,
    output_ratio: builtins.object = None,
    return_indices: builtins.bool = False,
    _random_samples: Operand | None = None,
) -> Any:
    """Return the values and positions of `fractional_max_pool3d`."""

def gaussian_nll_loss(
    input: Operand,
    target: Operand,
    var: Operand,
    full: builtins.bool = False,
    eps: builtins.float = 1e-06,
    reduction: builtins.str = "mean",
) -> Value:
    """Return the negative log-likelihood of numbers of normal distributions."""

def gelu(input: Operand, *, approximate: builtins.str = "none") -> Value:
    """Return ``input`` times the normal distribution function of it."""

def glu(input: Operand, dim: builtins.int = -1) -> Value:
    """Return the first half along a dimension times the sigmoid of the second half."""

def grid_sample(
    input: Operand,
    grid: Operand,
    mode: builtins.str = "bilinear",
    padding_mode: builtins.str = "zeros",
    align_corners: builtins.bool | None = None,
) -> Value:
    """Return images at the points of a grid."""

def group_norm(
    input: Operand,
    num_groups: builtins.int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: builtins.float = 1e-05,
) -> Value:
    """Return the input with mean 0 and variance 1 in each group of channels of each example."""

def gumbel_softmax(
    logits: Operand,
    tau: builtins.float = 1,
    hard: builtins.bool = False,
    eps: builtins.float = 1e-10,
    dim: builtins.int = -1,
) -> Value:
    """Return samples of the Gumbel-softmax distribution."""

def hardshrink(input: Operand, lambd: builtins.float = 0.5) -> Value:
    """Return ``input``, but 0 between ``-lambd`` and ``lambd``."""

def hardsigmoid(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return ``relu6(input + 3) / 6``."""

def hardswish(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return ``input * relu6(input + 3) / 6``."""

def hardtanh(
    input: Operand, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0, inplace: builtins.bool = False
) -> Value:
    """Return each element, limited to the bounds; at a bound the derivative is 0."""

def hardtanh_(input: Operand, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Value:
    """`hardtanh`, in place."""

def hinge_embedding_loss(
    input: Operand,
    target: Operand,
    margin: builtins.float = 1.0,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return ``input`` where the target is 1, ``max(0, margin - input)`` where it is -1."""

def huber_loss(
    input: Operand,
    target: Operand,
    reduction: builtins.str = "mean",
    delta: builtins.float = 1.0,
    weight: Operand | None = None,
) -> Value:
    """Return half the squared difference, but ``delta * (d - delta / 2)`` for absolute differences ``d`` above ``delta``."""

def instance_norm(
    input: Operand,
    running_mean: Operand | None = None,
    running_var: Operand | None = None,
    weight: Operand | None = None,
    bias: Operand | None = None,
    use_input_stats: builtins.bool = True,
    momentum: builtins.float = 0.1,
    eps: builtins.float = 1e-05,
) -> Value:
    """Return the input with mean 0 and variance 1 in each channel of each example."""

def interpolate(
    input: Operand,
    size: builtins.object = None,
    scale_factor: builtins.object = None,
    mode: builtins.str = "nearest",
    align_corners: builtins.bool | None = None,
    recompute_scale_factor: builtins.bool | None = None,
    antialias: builtins.bool = False,
) -> Value:
    """Return images with other sizes."""

def kl_div(
    input: Operand,
    target: Operand,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
    log_target: builtins.bool = False,
) -> Value:
    """Return ``target * (log(target) - input)``: terms of the Kullback-Leibler divergence."""

def l1_loss(
    input: Operand,
    target: Operand,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
    weight: Operand | None = None,
) -> Value:
    """Return the (mean) absolute difference, weighted if there are weights of the input's shape."""

def layer_norm(
    input: Operand,
    normalized_shape: Sequence[builtins.int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: builtins.float = 1e-05,
) -> Value:
    """Return the input with mean 0 and variance 1 over the last dimensions."""

def leaky_relu(input: Operand, negative_slope: builtins.float = 0.01, inplace: builtins.bool = False) -> Value:
    """Return ``input`` where it is positive, ``negative_slope * input`` elsewhere."""

def leaky_relu_(input: Operand, negative_slope: builtins.float = 0.01) -> Value:
    """`leaky_relu`, in place."""

def linear(input: Operand, weight: Operand, bias: Operand | None = None) -> Value:
    """Return ``input @ weight.T + bias``."""

def linear_cross_entropy(
    input: Operand,
    linear_weight: Operand,
    target: Operand,
    *,
    linear_bias: Operand | None = None,
    weight: Operand | None = None,
    reduction: builtins.str = "mean",
    ignore_index: builtins.int | None = None,
    label_smoothing: builtins.float = 0.0,
    options: Any = None,
) -> Value:
    """Return ``cross_entropy(linear(input, linear_weight, linear_bias), target)``."""

def local_response_norm(
    input: Operand, size: builtins.int, alpha: builtins.float = 0.0001, beta: builtins.float = 0.75, k: builtins.float = 1.0
) -> Value:
    """Return ``input / (k + alpha * m) ** beta`` for the mean square ``m`` of neighbouring channels."""

def log_softmax(
    input: Operand, dim: builtins.int | None = None, _stacklevel: builtins.int = 3, dtype: DtypeLike | None = None
) -> Value:
    """Return the logarithm of the softmax along a dimension."""

def logsigmoid(input: Operand) -> Value:
    """Return the logarithm of the sigmoid, accurate where the sigmoid rounds to 0 or 1."""

def lp_pool1d(
    input: Operand,
    norm_type: builtins.float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: builtins.bool = False,
) -> Value:
    """Return the sums of powers in windows over 1 axes, and the root of these."""

def lp_pool2d(
    input: Operand,
    norm_type: builtins.float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: builtins.bool = False,
) -> Value:
    """Return the sums of powers in windows over 2 axes, and the root of these."""

def lp_pool3d(
    input: Operand,
    norm_type: builtins.float,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    ceil_mode: builtins.bool = False,
) -> Value:
    """Return the sums of powers in windows over 3 axes, and the root of these."""

def margin_ranking_loss(
    input1: Operand,
    input2: Operand,
    target: Operand,
    margin: builtins.float = 0,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return ``max(0, -target * (input1 - input2) + margin)`` for targets 1 and -1."""

def max_pool1d(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: builtins.bool = False,
    return_indices: builtins.bool = False,
) -> Any:
    """Return the maxima of windows over 1 axes."""

def max_pool1d_with_indices(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: builtins.bool = False,
) -> Any:
    """Return the maxima of windows over 1 axes, and their positions."""

def max_pool2d(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: builtins.bool = False,
    return_indices: builtins.bool = False,
) -> Any:
    """Return the maxima of windows over 2 axes."""

def max_pool2d_with_indices(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: builtins.bool = False,
) -> Any:
    """Return the maxima of windows over 2 axes, and their positions."""

def max_pool3d(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: builtins.bool = False,
    return_indices: builtins.bool = False,
) -> Any:
    """Return the maxima of windows over 3 axes."""

def max_pool3d_with_indices(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: builtins.bool = False,
) -> Any:
    """Return the maxima of windows over 3 axes, and their positions."""

def max_unpool1d(
    input: Operand,
    indices: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: builtins.object = None,
) -> Value:
    """Return images with the maxima of a pooling over 1 axes at their places, and 0."""

def max_unpool2d(
    input: Operand,
    indices: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: builtins.object = None,
) -> Value:
    """Return images with the maxima of a pooling over 2 axes at their places, and 0."""

def max_unpool3d(
    input: Operand,
    indices: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: builtins.object = None,
) -> Value:
    """Return images with the maxima of a pooling over 3 axes at their places, and 0."""

def mish(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return ``input * tanh(softplus(input))``."""

def mse_loss(
    input: Operand,
    target: Operand,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
    weight: Operand | None = None,
) -> Value:
    """Return the (mean) squared difference, weighted if there are weights of the input's shape."""

def multi_head_attention_forward(
    query: Operand,
    key: Operand,
    value: Operand,
    embed_dim_to_check: builtins.int,
    num_heads: builtins.int,
    in_proj_weight: Operand | None,
    in_proj_bias: Operand | None,
    bias_k: Operand | None,
    bias_v: Operand | None,
    add_zero_attn: builtins.bool,
    dropout_p: builtins.float,
    out_proj_weight: Operand,
    out_proj_bias: Operand | None,
    training: builtins.bool = True,
    key_padding_mask: Operand | None = None,
    need_weights: builtins.bool = True,
    attn_mask: Operand | None = None,
    use_separate_proj_weight: builtins.bool = False,
    q_proj_weight: Operand | None = None,
    k_proj_weight: Operand | None = None,
    v_proj_weight: Operand | None = None,
    static_k: Operand | None = None,
    static_v: Operand | None = None,
    average_attn_weights: builtins.bool = True,
    is_causal: builtins.bool = False,
) -> builtins.tuple[Any, Any]:
    """Return attention of several heads, with projections of its operands and its result."""

def multi_margin_loss(
    input: Operand,
    target: Operand,
    p: builtins.int = 1,
    margin: builtins.float = 1.0,
    weight: Operand | None = None,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return the mean over the other classes of ``max(0, margin - own + other) ** p``."""

def multilabel_margin_loss(
    input: Operand,
    target: Operand,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return the mean of ``max(0, 1 - own + other)`` over pairs of a label and another class."""

def multilabel_soft_margin_loss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return the mean over classes of the cross-entropy of ``sigmoid(input)``."""

def native_channel_shuffle(input: Operand, groups: builtins.int) -> Value:
    """Return channels in another order: one of each group in turn; see `channel_shuffle`."""

def nll_loss(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    size_average: builtins.bool | None = None,
    ignore_index: builtins.int = -100,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return the negative log-likelihood of classes."""

def normalize(
    input: Operand, p: builtins.float = 2.0, dim: Any = 1, eps: builtins.float = 1e-12, out: Tensor | None = None
) -> Value:
    """Return ``input / max(norm(input, p, dim), eps)``."""

def one_hot(tensor: Operand, num_classes: builtins.int = -1) -> Value:
    """Return vectors of 0 with a 1 at the position that each element says."""

def pad(
    input: Operand, pad: Sequence[builtins.int], mode: builtins.str = "constant", value: builtins.float | None = None
) -> Value:
    """Return the tensor with elements added around it."""

def pairwise_distance(
    x1: Operand, x2: Operand, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdim: builtins.bool = False
) -> Value:
    """Return the norm of ``x1 - x2 + eps`` along the last dimension."""

def pdist(input: Operand, p: builtins.float = 2) -> Value:
    """Return the distances between all pairs of rows ``i < j``."""

def pixel_shuffle(input: Operand, upscale_factor: builtins.int) -> Value:
    """Return larger images, from r * r channels for each one."""

def pixel_unshuffle(input: Operand, downscale_factor: builtins.int) -> Value:
    """Return smaller images with r * r channels for each one."""

def poisson_nll_loss(
    input: Operand,
    target: Operand,
    log_input: builtins.bool = True,
    full: builtins.bool = False,
    size_average: builtins.bool | None = None,
    eps: builtins.float = 1e-08,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return the negative log-likelihood of counts of Poisson distributions."""

def prelu(input: Operand, weight: Operand) -> Value:
    """Return ``input`` where it is positive, ``weight * input`` elsewhere."""

def relu(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return each element, or 0 if it is negative; the derivative at 0 is 0."""

def relu6(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return each element, limited to the range from 0 to 6."""

def relu_(input: Operand) -> Value:
    """`relu`, in place."""

def rms_norm(
    input: Operand,
    normalized_shape: Sequence[builtins.int],
    weight: Operand | None = None,
    eps: builtins.float | None = None,
) -> Value:
    """Return the input divided by its root mean square over the last dimensions."""

def rrelu(
    input: Operand,
    lower: builtins.float = 0.125,
    upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False,
    inplace: builtins.bool = False,
) -> Value:
    """Return ``input`` where it is positive, elsewhere ``slope * input``: a random slope between the bounds for each element, or their mean outside of training."""

def rrelu_(
    input: Operand,
    lower: builtins.float = 0.125,
    upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False,
) -> Value:
    """`rrelu`, in place."""

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

def selu(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return the scaled ELU of self-normalizing networks: ``1.0507 * elu(input, 1.6733)``."""

def selu_(input: Operand) -> Value:
    """`selu`, in place."""

def sigmoid(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logistic function ``1 / (1 + exp(-input))`` of each element."""

def silu(input: Operand, inplace: builtins.bool = False) -> Value:
    """Return ``input * sigmoid(input)``."""

def smooth_l1_loss(
    input: Operand,
    target: Operand,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
    beta: builtins.float = 1.0,
) -> Value:
    """Return the absolute difference ``d``, less ``beta / 2``; ``d ** 2 / (2 * beta)`` below ``beta``."""

def soft_margin_loss(
    input: Operand,
    target: Operand,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return ``log(1 + exp(-target * input))`` for targets 1 and -1."""

def softmax(
    input: Operand, dim: builtins.int | None = None, _stacklevel: builtins.int = 3, dtype: DtypeLike | None = None
) -> Value:
    """Return the softmax along a dimension."""

def softmin(
    input: Operand, dim: builtins.int | None = None, _stacklevel: builtins.int = 3, dtype: DtypeLike | None = None
) -> Value:
    """Return the softmax of ``-input`` along a dimension."""

def softplus(input: Operand, beta: builtins.float = 1, threshold: builtins.float = 20) -> Value:
    """Return ``log(1 + exp(beta * input)) / beta``; ``input`` where ``beta * input`` is above the threshold."""

def softshrink(input: Operand, lambd: builtins.float = 0.5) -> Value:
    """Return ``input``, moved towards 0 by ``lambd``, and 0 where that is not possible."""

def softsign(input: Operand) -> Value:
    """Return ``input / (1 + |input|)``."""

def tanh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the hyperbolic tangent of each element."""

def tanhshrink(input: Operand) -> Value:
    """Return ``input - tanh(input)``."""

def threshold(input: Operand, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = False) -> Value:
    """Return ``input`` where it is above the threshold, ``value`` elsewhere."""

def threshold_(input: Operand, threshold: builtins.float, value: builtins.float) -> Value:
    """`threshold`, in place."""

def triplet_margin_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    margin: builtins.float = 1.0,
    p: builtins.float = 2,
    eps: builtins.float = 1e-06,
    swap: builtins.bool = False,
    size_average: builtins.bool | None = None,
    reduce: builtins.bool | None = None,
    reduction: builtins.str = "mean",
) -> Value:
    """Return ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``."""

def triplet_margin_with_distance_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    *,
    distance_function: Callable[..., Any] | None = None,
    margin: builtins.float = 1.0,
    swap: builtins.bool = False,
    reduction: builtins.str = "mean",
) -> Value:
    """Return `triplet_margin_loss` with another distance."""

def unfold(input: Operand, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Value:
    """Return all windows of images as columns."""

def upsample(
    input: Operand,
    size: builtins.object = None,
    scale_factor: builtins.object = None,
    mode: builtins.str = "nearest",
    align_corners: builtins.bool | None = None,
) -> Value:
    """Return images with other sizes: `interpolate` under its old name."""

def upsample_bilinear(input: Operand, size: builtins.object = None, scale_factor: builtins.object = None) -> Value:
    """Return ``interpolate`` with mode ``"bilinear"`` and aligned corners."""

def upsample_nearest(input: Operand, size: builtins.object = None, scale_factor: builtins.object = None) -> Value:
    """Return ``interpolate(input, size, scale_factor, "nearest")``."""
