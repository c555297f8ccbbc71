# Written by `python -m tests.torch.stubs` from the rows: the functions of `torch`, and the methods of `Tensor`.

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from functrace.torch.autograd.handles import RemovableHandle
from functrace.torch.functions.factories import Layout
from functrace.torch.functions.interchange import DeviceLike
from functrace.torch.functions.pooling import Sizes
from functrace.torch.functions.reductions import Dims, EllipsisType
from functrace.torch.functions.shaping import Dtype, MemoryFormat
from functrace.torch.random.generator import Generator
from functrace.torch.tensors.copying import Rebuild
from functrace.torch.tensors.device import device
from functrace.torch.tensors.dtypes import DtypeLike, dtype
from functrace.torch.tensors.memory import Storage, TypedStorage, UntypedStorage
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.typing import Array

__all__ = [
    "_adaptive_avg_pool2d",
    "_adaptive_avg_pool3d",
    "_dirichlet_grad",
    "_embedding_bag",
    "_embedding_bag_forward_only",
    "_grid_sampler_2d_cpu_fallback",
    "_masked_softmax",
    "_sample_dirichlet",
    "_standard_gamma",
    "_standard_gamma_grad",
    "abs",
    "abs_",
    "absolute",
    "acos",
    "acos_",
    "acosh",
    "acosh_",
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addmv_",
    "addr",
    "adjoint",
    "affine_grid_generator",
    "alias_copy",
    "all",
    "allclose",
    "alpha_dropout",
    "alpha_dropout_",
    "amax",
    "amin",
    "aminmax",
    "angle",
    "any",
    "arange",
    "arccos",
    "arccos_",
    "arccosh",
    "arccosh_",
    "arcsin",
    "arcsin_",
    "arcsinh",
    "arcsinh_",
    "arctan",
    "arctan2",
    "arctan_",
    "arctanh",
    "arctanh_",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_strided",
    "as_strided_",
    "as_strided_copy",
    "as_strided_scatter",
    "as_tensor",
    "asarray",
    "asin",
    "asin_",
    "asinh",
    "asinh_",
    "atan",
    "atan2",
    "atan_",
    "atanh",
    "atanh_",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "avg_pool1d",
    "baddbmm",
    "bartlett_window",
    "batch_norm",
    "batch_norm_update_stats",
    "bernoulli",
    "bfloat16",
    "bilinear",
    "binary_cross_entropy_with_logits",
    "bincount",
    "binomial",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "blackman_window",
    "block_diag",
    "bmm",
    "bool",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "can_cast",
    "cartesian_prod",
    "cat",
    "cdist",
    "cdouble",
    "ceil",
    "ceil_",
    "celu",
    "celu_",
    "cfloat",
    "chain_matmul",
    "chalf",
    "channel_shuffle",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "chunk",
    "clamp",
    "clamp_",
    "clamp_max",
    "clamp_max_",
    "clamp_min",
    "clamp_min_",
    "clip",
    "clip_",
    "clone",
    "column_stack",
    "combinations",
    "complex",
    "complex128",
    "complex32",
    "complex64",
    "concat",
    "concatenate",
    "conj",
    "conj_physical",
    "conj_physical_",
    "constant_pad_nd",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_tbc",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "convolution",
    "copysign",
    "corrcoef",
    "cos",
    "cos_",
    "cosh",
    "cosh_",
    "cosine_embedding_loss",
    "cosine_similarity",
    "count_nonzero",
    "cov",
    "cross",
    "ctc_loss",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "deg2rad",
    "deg2rad_",
    "det",
    "detach",
    "detach_",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_copy",
    "diagonal_scatter",
    "diff",
    "digamma",
    "digamma_",
    "dist",
    "div",
    "divide",
    "dot",
    "double",
    "dropout",
    "dropout_",
    "dsplit",
    "dstack",
    "eig",
    "einsum",
    "embedding",
    "embedding_bag",
    "embedding_renorm_",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "eq",
    "equal",
    "erf",
    "erf_",
    "erfc",
    "erfc_",
    "erfinv",
    "erfinv_",
    "exp",
    "exp2",
    "exp2_",
    "exp_",
    "expand_copy",
    "expm1",
    "expm1_",
    "eye",
    "feature_alpha_dropout",
    "feature_alpha_dropout_",
    "feature_dropout",
    "feature_dropout_",
    "fill",
    "fill_",
    "fix",
    "fix_",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float",
    "float16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float_power",
    "floor",
    "floor_",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "frac_",
    "frexp",
    "frobenius_norm",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "gather",
    "gcd",
    "gcd_",
    "ge",
    "geqrf",
    "ger",
    "get_default_device",
    "get_device",
    "get_rng_state",
    "gradient",
    "greater",
    "greater_equal",
    "grid_sampler",
    "grid_sampler_2d",
    "grid_sampler_3d",
    "group_norm",
    "gru",
    "gru_cell",
    "gt",
    "half",
    "hamming_window",
    "hann_window",
    "hardshrink",
    "heaviside",
    "hinge_embedding_loss",
    "histc",
    "histogram",
    "histogramdd",
    "hsplit",
    "hstack",
    "hypot",
    "i0",
    "i0_",
    "igamma",
    "igammac",
    "imag",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_put_",
    "index_reduce",
    "index_select",
    "initial_seed",
    "inner",
    "instance_norm",
    "int",
    "int16",
    "int32",
    "int64",
    "int8",
    "inverse",
    "is_complex",
    "is_conj",
    "is_floating_point",
    "is_inference",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "istft",
    "kaiser_window",
    "kl_div",
    "kron",
    "kthvalue",
    "layer_norm",
    "lcm",
    "lcm_",
    "ldexp",
    "ldexp_",
    "le",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "linspace",
    "log",
    "log10",
    "log10_",
    "log1p",
    "log1p_",
    "log2",
    "log2_",
    "log_",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logit_",
    "logspace",
    "logsumexp",
    "long",
    "lstm",
    "lstm_cell",
    "lstsq",
    "lt",
    "lu",
    "lu_solve",
    "lu_unpack",
    "manual_seed",
    "margin_ranking_loss",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "matrix_exp",
    "matrix_power",
    "matrix_rank",
    "max",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool3d",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "mm",
    "mode",
    "moveaxis",
    "movedim",
    "msort",
    "mul",
    "multinomial",
    "multiply",
    "mv",
    "mvlgamma",
    "nan_to_num",
    "nan_to_num_",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "narrow",
    "narrow_copy",
    "native_batch_norm",
    "native_channel_shuffle",
    "native_dropout",
    "native_group_norm",
    "native_layer_norm",
    "ne",
    "neg",
    "neg_",
    "negative",
    "negative_",
    "nextafter",
    "nonzero",
    "nonzero_static",
    "norm",
    "normal",
    "not_equal",
    "nuclear_norm",
    "numel",
    "ones",
    "ones_like",
    "orgqr",
    "ormqr",
    "outer",
    "pairwise_distance",
    "pca_lowrank",
    "pdist",
    "permute",
    "permute_copy",
    "pinverse",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson",
    "poisson_nll_loss",
    "polar",
    "polygamma",
    "positive",
    "pow",
    "prelu",
    "prod",
    "promote_types",
    "put",
    "qint32",
    "qint8",
    "qr",
    "quantile",
    "quint8",
    "rad2deg",
    "rad2deg_",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "range",
    "ravel",
    "real",
    "reciprocal",
    "reciprocal_",
    "relu",
    "relu_",
    "remainder",
    "renorm",
    "repeat_interleave",
    "reshape",
    "resize_as_",
    "resolve_conj",
    "resolve_neg",
    "result_type",
    "rms_norm",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
    "roll",
    "rot90",
    "round",
    "round_",
    "row_stack",
    "rrelu",
    "rrelu_",
    "rsqrt",
    "rsqrt_",
    "rsub",
    "scalar_tensor",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "seed",
    "select",
    "select_copy",
    "select_scatter",
    "selu",
    "selu_",
    "set_default_device",
    "set_printoptions",
    "set_rng_state",
    "sgn",
    "short",
    "sigmoid",
    "sigmoid_",
    "sign",
    "signbit",
    "sin",
    "sin_",
    "sinc",
    "sinc_",
    "sinh",
    "sinh_",
    "slice_copy",
    "slice_scatter",
    "slogdet",
    "softmax",
    "solve",
    "sort",
    "split",
    "split_copy",
    "split_with_sizes",
    "split_with_sizes_copy",
    "sqrt",
    "sqrt_",
    "square",
    "square_",
    "squeeze",
    "squeeze_copy",
    "stack",
    "std",
    "std_mean",
    "stft",
    "sub",
    "subtract",
    "sum",
    "svd",
    "svd_lowrank",
    "swapaxes",
    "swapdims",
    "symeig",
    "t",
    "t_copy",
    "take",
    "take_along_dim",
    "tan",
    "tan_",
    "tanh",
    "tanh_",
    "tensor",
    "tensor_split",
    "tensordot",
    "thread_safe_generator",
    "threshold",
    "threshold_",
    "tile",
    "to_dlpack",
    "topk",
    "trace",
    "transpose",
    "transpose_copy",
    "trapezoid",
    "trapz",
    "triangular_solve",
    "tril",
    "tril_indices",
    "triplet_margin_loss",
    "triu",
    "triu_indices",
    "true_divide",
    "trunc",
    "trunc_",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "unbind",
    "unbind_copy",
    "unflatten",
    "unfold_copy",
    "unique",
    "unique_consecutive",
    "unravel_index",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsqueeze",
    "unsqueeze_copy",
    "vander",
    "var",
    "var_mean",
    "vdot",
    "view_as_complex",
    "view_as_complex_copy",
    "view_as_real",
    "view_as_real_copy",
    "view_copy",
    "vsplit",
    "vstack",
    "where",
    "xlogy",
    "xlogy_",
    "zero_",
    "zeros",
    "zeros_like",
]

bool: dtype
uint8: dtype
int8: dtype
int16: dtype
int32: dtype
int64: dtype
float16: dtype
float32: dtype
float64: dtype
complex64: dtype
complex128: dtype
short: dtype
int: dtype
long: dtype
half: dtype
float: dtype
double: dtype
bfloat16: dtype
cfloat: dtype
cdouble: dtype
complex32: dtype
uint16: dtype
uint32: dtype
uint64: dtype
float8_e4m3fn: dtype
float8_e4m3fnuz: dtype
float8_e5m2: dtype
float8_e5m2fnuz: dtype
float8_e8m0fnu: dtype
qint8: dtype
quint8: dtype
qint32: dtype
chalf: dtype

def _adaptive_avg_pool2d(input: Operand, output_size: builtins.object) -> Value:
    """Return `adaptive_avg_pool2d`."""

def _adaptive_avg_pool3d(input: Operand, output_size: builtins.object) -> Value:
    """Return `adaptive_avg_pool3d`."""

def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """Return the derivative of an element of a point of Dirichlet's distribution by its concentration, over one less the element."""

def _embedding_bag(
    weight: Operand,
    indices: Operand,
    offsets: Operand,
    scale_grad_by_freq: builtins.bool = False,
    mode: builtins.int = 0,
    sparse: builtins.bool = False,
    per_sample_weights: Operand | None = None,
    include_last_offset: builtins.bool = False,
    padding_idx: builtins.int | None = None,
) -> builtins.tuple[Any, Any, Any, Any]:
    """Return sums, means or maxima of rows; the bag of each position; the sizes of bags; and the positions of maxima."""

def _embedding_bag_forward_only(
    weight: Operand,
    indices: Operand,
    offsets: Operand,
    scale_grad_by_freq: builtins.bool = False,
    mode: builtins.int = 0,
    sparse: builtins.bool = False,
    per_sample_weights: Operand | None = None,
    include_last_offset: builtins.bool = False,
    padding_idx: builtins.int | None = None,
) -> builtins.tuple[Any, Any, Any, Any]:
    """Return sums, means or maxima of rows; the bag of each position; the sizes of bags; and the positions of maxima."""

def _grid_sampler_2d_cpu_fallback(
    input: Operand, grid: Operand, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool
) -> Value:
    """Return `grid_sample`, with numbers for the modes."""

def _masked_softmax(
    input: Operand, mask: Operand, dim: builtins.int | None = None, mask_type: builtins.int | None = None
) -> Value:
    """Return the softmax along a dimension of the elements that are not masked."""

def _sample_dirichlet(self: Tensor, generator: builtins.object = None) -> Tensor:
    """Return points of a simplex, of Dirichlet's distribution."""

def _standard_gamma(self: Tensor, generator: builtins.object = None) -> Tensor:
    """Return gamma numbers of scale 1, differentiable in the shape parameter."""

def _standard_gamma_grad(self: Tensor, output: Tensor) -> Tensor:
    """Return the derivative of gamma numbers by their shape parameter."""

def abs(input: Operand, *, out: Any = None) -> Value:
    """Return the absolute value of each element; the derivative at 0 is 0."""

def abs_(input: Operand) -> Value:
    """`abs`, in place."""

def absolute(input: Operand, *, out: Any = None) -> Value:
    """Return the absolute value of each element; the derivative at 0 is 0."""

def acos(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the arccosine of each element."""

def acos_(input: Operand) -> Value:
    """`acos`, in place."""

def acosh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the inverse hyperbolic cosine of each element."""

def acosh_(input: Operand) -> Value:
    """`acosh`, in place."""

def adaptive_avg_pool1d(input: Operand, output_size: builtins.object) -> Value:
    """Return means of spans of the last axis; see `adaptive_avg_pool2d`."""

def adaptive_max_pool1d(input: Operand, output_size: builtins.object) -> Any:
    """Return maxima of spans that cover the last 1 axes, and their positions."""

def add(input: Operand, other: Operand, *older: Operand, alpha: Operand = 1, out: Any = None) -> Value:
    """Return ``input + alpha * other``."""

def addbmm(
    input: Operand, batch1: Operand, batch2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Value:
    """Return ``beta * input + alpha * sum(batch1 @ batch2)``, the sum over stacks of matrices."""

def addcdiv(input: Operand, tensor1: Operand, tensor2: Operand, *older: Operand, value: Any = 1, out: Any = None) -> Value:
    """Return ``input + value * tensor1 / tensor2``."""

def addcmul(input: Operand, tensor1: Operand, tensor2: Operand, *older: Operand, value: Any = 1, out: Any = None) -> Value:
    """Return ``input + value * tensor1 * tensor2``."""

def addmm(
    input: Operand, mat1: Operand, mat2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Value:
    """Return ``beta * input + alpha * mat1 @ mat2``."""

def addmv(
    input: Operand, mat: Operand, vec: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Value:
    """Return ``beta * input + alpha * mat @ vec``."""

def addmv_(input: Operand, mat: Operand, vec: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Value:
    """`addmv`, in place."""

def addr(
    input: Operand, vec1: Operand, vec2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Value:
    """Return ``beta * input + alpha * outer(vec1, vec2)``."""

def adjoint(input: Operand) -> Value:
    """Return the conjugate transpose of matrices, a view."""

def affine_grid_generator(theta: Operand, size: Sequence[builtins.int], align_corners: builtins.bool) -> Value:
    """Return `affine_grid`."""

def alias_copy(input: Tensor, *, out: Any = None) -> Value:
    """Return a copy of a tensor."""

def all(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, out: Any = None) -> Value:
    """Return True if all elements are true, of all elements or along dimensions."""

def allclose(
    input: Tensor,
    other: Tensor,
    rtol: builtins.float = 1e-05,
    atol: builtins.float = 1e-08,
    equal_nan: builtins.bool = False,
) -> builtins.bool:
    """Return True if all elements are close: ``|input - other| <= atol + rtol * |other|``."""

def alpha_dropout(input: Operand, p: builtins.float, train: builtins.bool) -> Value:
    """Return the input with elements set to SELU's limit at random."""

def alpha_dropout_(input: Operand, p: builtins.float, train: builtins.bool) -> Value:
    """`alpha_dropout`, in place."""

def amax(input: Operand, dim: Dims = (), keepdim: builtins.bool = False, *, out: Any = None) -> Value:
    """Return the largest element, of all or along dimensions; ties share the gradient."""

def amin(input: Operand, dim: Dims = (), keepdim: builtins.bool = False, *, out: Any = None) -> Value:
    """Return the smallest element, of all or along dimensions; ties share the gradient."""

def aminmax(input: Operand, *, dim: builtins.int | None = None, keepdim: builtins.bool = False, out: Any = None) -> Any:
    """Return the smallest and the largest element, of all or along a dimension."""

def angle(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the angle of complex numbers; of negative ones, pi."""

def any(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, out: Any = None) -> Value:
    """Return True if any elements are true, of all elements or along dimensions."""

def arange(
    start: Any = None,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    out: Any = None,
) -> Tensor:
    """Return equally spaced numbers, without the end: ``arange(end)``, ``arange(start, end, step)``."""

def arccos(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the arccosine of each element."""

def arccos_(input: Operand) -> Value:
    """`acos`, in place."""

def arccosh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the inverse hyperbolic cosine of each element."""

def arccosh_(input: Operand) -> Value:
    """`acosh`, in place."""

def arcsin(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the arcsine of each element."""

def arcsin_(input: Operand) -> Value:
    """`asin`, in place."""

def arcsinh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the inverse hyperbolic sine of each element."""

def arcsinh_(input: Operand) -> Value:
    """`asinh`, in place."""

def arctan(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the arctangent of each element."""

def arctan2(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the angle of the points ``(other, input)``, element by element."""

def arctan_(input: Operand) -> Value:
    """`atan`, in place."""

def arctanh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the inverse hyperbolic tangent of each element."""

def arctanh_(input: Operand) -> Value:
    """`atanh`, in place."""

def argmax(input: Operand, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Any = None) -> Value:
    """Return the index of the maximum, of all elements or along a dimension."""

def argmin(input: Operand, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Any = None) -> Value:
    """Return the index of the minimum, of all elements or along a dimension."""

def argsort(
    input: Operand,
    dim: builtins.int = -1,
    descending: builtins.bool = False,
    *,
    stable: builtins.bool = False,
    out: Any = None,
) -> Value:
    """Return the indices that sort elements along a dimension."""

def argwhere(input: Operand) -> Value:
    """Return the positions of nonzero elements, one row each."""

def as_strided(
    input: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None
) -> Tensor:
    """Return a view of the storage with these sizes and strides; by default, with the tensor's offset."""

def as_strided_(
    self: Tensor, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None
) -> Tensor:
    """`as_strided`, in place."""

def as_strided_copy(
    input: Tensor,
    size: Sequence[builtins.int],
    stride: Sequence[builtins.int],
    storage_offset: builtins.int | None = None,
    *,
    out: Any = None,
) -> Value:
    """Return a copy of `as_strided`."""

def as_strided_scatter(
    input: Operand,
    src: Operand,
    size: Sequence[builtins.int],
    stride: Sequence[builtins.int],
    storage_offset: builtins.int | None = None,
) -> Value:
    """Return a copy with ``src`` in place of the view `as_strided` of it."""

def as_tensor(data: Any, dtype: DtypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """Return ``data`` as a tensor: itself if it is one; sharing memory with an array (traced or not); otherwise a copy."""

def asarray(
    obj: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    copy: builtins.bool | None = None,
    requires_grad: builtins.bool | None = None,
) -> Tensor:
    """Return ``obj`` as a tensor that shares its memory; a copy if that is impossible and ``copy`` is None."""

def asin(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the arcsine of each element."""

def asin_(input: Operand) -> Value:
    """`asin`, in place."""

def asinh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the inverse hyperbolic sine of each element."""

def asinh_(input: Operand) -> Value:
    """`asinh`, in place."""

def atan(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the arctangent of each element."""

def atan2(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the angle of the points ``(other, input)``, element by element."""

def atan_(input: Operand) -> Value:
    """`atan`, in place."""

def atanh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the inverse hyperbolic tangent of each element."""

def atanh_(input: Operand) -> Value:
    """`atanh`, in place."""

def atleast_1d(*tensors: Any) -> Any:
    """Return tensors with at least 1 dimensions, as views."""

def atleast_2d(*tensors: Any) -> Any:
    """Return tensors with at least 2 dimensions, as views."""

def atleast_3d(*tensors: Any) -> Any:
    """Return tensors with at least 3 dimensions, as views."""

def avg_pool1d(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: builtins.bool = False,
    count_include_pad: builtins.bool = True,
) -> Value:
    """Return the means of windows along the last axis; see `avg_pool2d`."""

def baddbmm(
    input: Operand, batch1: Operand, batch2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Value:
    """Return ``beta * input + alpha * batch1 @ batch2`` for stacks of matrices."""

def bartlett_window(
    window_length: builtins.int,
    periodic: builtins.bool = True,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return a triangular window."""

def batch_norm(
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    training: builtins.bool,
    momentum: builtins.float,
    eps: builtins.float,
    cudnn_enabled: builtins.bool,
) -> Value:
    """Return the input with mean 0 and variance 1 in each channel; see ``nn.functional``."""

def batch_norm_update_stats(
    input: Operand, running_mean: Operand | None, running_var: Operand | None, momentum: builtins.float
) -> builtins.tuple[Value, Value]:
    """Move running statistics towards those of a batch, in place, and return the batch's means and variances (divided by the number of elements)."""

def bernoulli(
    input: Tensor, p: builtins.float | None = None, *, generator: builtins.object = None, out: Any = None
) -> Tensor:
    """Return ones, with the probabilities that the tensor holds (or with one for all), and zeros."""

def bilinear(input1: Operand, input2: Operand, weight: Operand, bias: Operand | None = None) -> Value:
    """Return ``input1 @ weight[k] @ input2 + bias[k]`` for each ``k``."""

def binary_cross_entropy_with_logits(
    input: Operand,
    target: Operand,
    weight: Operand | None = None,
    pos_weight: Operand | None = None,
    reduction: builtins.int = 0,
) -> Value:
    """Return the cross-entropy of logits; see ``nn.functional``."""

def bincount(input: Operand, weights: Operand | None = None, minlength: builtins.int = 0) -> Value:
    """Return how often each number occurs in a vector of non-negative integers, or the sum of its weights."""

def binomial(count: Tensor, prob: Tensor, generator: builtins.object = None) -> Tensor:
    """Return numbers of successes."""

def bitwise_and(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the bitwise and."""

def bitwise_left_shift(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the bits of ``input`` shifted by ``other``."""

def bitwise_not(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the bitwise inversion of each element; for bools, the logical negation."""

def bitwise_or(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the bitwise or."""

def bitwise_right_shift(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the bits of ``input`` shifted by ``other``."""

def bitwise_xor(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the bitwise exclusive or."""

def blackman_window(
    window_length: builtins.int,
    periodic: builtins.bool = True,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return a Blackman window."""

def block_diag(*tensors: Operand) -> Value:
    """Return a matrix with these matrices on its diagonal; vectors are rows."""

def bmm(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the products of pairs of matrices."""

def broadcast_shapes(*shapes: Any) -> Size:
    """Return the shape to which shapes broadcast."""

def broadcast_tensors(*tensors: Operand) -> builtins.tuple[Any, ...]:
    """Return views broadcast to their common shape."""

def broadcast_to(input: Operand, size: Sequence[builtins.int]) -> Value:
    """Return a view of this shape that repeats dimensions of size 1."""

def bucketize(
    input: Any, boundaries: Operand, *, out_int32: builtins.bool = False, right: builtins.bool = False, out: Any = None
) -> Value:
    """Return for each element the number of its bucket between sorted boundaries."""

def can_cast(from_: Dtype, to: Dtype) -> builtins.bool:
    """Return True if results of a dtype may be written into tensors of another one."""

def cartesian_prod(*tensors: Operand) -> Value:
    """Return all combinations of elements of vectors, as rows."""

def cat(tensors: Sequence[Operand], dim: builtins.int = 0, *, out: Any = None) -> Value:
    """Return tensors joined along a dimension."""

def cdist(
    x1: Operand,
    x2: Operand,
    p: builtins.float = 2.0,
    compute_mode: builtins.str | None = "use_mm_for_euclid_dist_if_necessary",
) -> Value:
    """Return the distances between all rows of two tensors."""

def ceil(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the smallest integer that is not below each element."""

def ceil_(input: Operand) -> Value:
    """`ceil`, in place."""

def celu(input: Operand, alpha: builtins.float = 1.0) -> Value:
    """Return ``input`` where it is positive, ``alpha * (exp(input / alpha) - 1)`` elsewhere."""

def celu_(input: Operand, alpha: builtins.float = 1.0) -> Value:
    """`celu`, in place."""

def chain_matmul(*matrices: Operand, out: Tensor | None = None) -> Value:
    """Return the product of several matrices; the older form of `linalg.multi_dot`."""

def channel_shuffle(input: Operand, groups: builtins.int) -> Value:
    """Return channels in another order: one of each group in turn."""

def cholesky(input: Operand, upper: builtins.bool = False, *, out: Any = None) -> Value:
    """Return the triangular factor of a positive definite matrix; the older form of `linalg.cholesky`."""

def cholesky_inverse(L: Operand, upper: builtins.bool = False, *, out: Any = None) -> Value:
    """Return the inverse of a positive definite matrix, from its triangular factor."""

def cholesky_solve(input: Operand, L: Operand, upper: builtins.bool = False, *, out: Any = None) -> Value:
    """Return the solution of ``A X = input``, from the triangular factor of ``A``."""

def chunk(input: Operand, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
    """Return views of at most ``chunks`` pieces of one size along a dimension."""

def clamp(input: Operand, min: Operand | None = None, max: Operand | None = None, *, out: Any = None) -> Value:
    """Return each element, limited to the bounds; at a bound the derivative is 1."""

def clamp_(input: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
    """`clamp`, in place."""

def clamp_max(input: Operand, max: Operand, *, out: Any = None) -> Value:
    """Return each element, at most the bound."""

def clamp_max_(input: Operand, max: Operand) -> Value:
    """`clamp_max`, in place."""

def clamp_min(input: Operand, min: Operand, *, out: Any = None) -> Value:
    """Return each element, at least the bound."""

def clamp_min_(input: Operand, min: Operand) -> Value:
    """`clamp_min`, in place."""

def clip(input: Operand, min: Operand | None = None, max: Operand | None = None, *, out: Any = None) -> Value:
    """Return each element, limited to the bounds; at a bound the derivative is 1."""

def clip_(input: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
    """`clamp`, in place."""

def clone(input: Operand, *, memory_format: MemoryFormat | None = None) -> Value:
    """Return a differentiable copy, by default with the order of dimensions in memory."""

def column_stack(tensors: Sequence[Operand], *, out: Any = None) -> Value:
    """Return tensors joined along the second dimension; vectors are columns."""

def combinations(input: Operand, r: builtins.int = 2, with_replacement: builtins.bool = False) -> Value:
    """Return all combinations of ``r`` elements of a vector, as rows."""

def complex(real: Operand, imag: Operand, *, out: Any = None) -> Value:
    """Return ``real + 1j * imag``."""

def concat(tensors: Sequence[Operand], dim: builtins.int = 0, *, out: Any = None) -> Value:
    """Return tensors joined along a dimension."""

def concatenate(tensors: Sequence[Operand], dim: builtins.int = 0, *, out: Any = None) -> Value:
    """Return tensors joined along a dimension."""

def conj(input: Operand) -> Value:
    """Return the conjugate, a view; a real tensor is returned itself."""

def conj_physical(input: Operand, *, out: Any = None) -> Value:
    """Return the conjugate, computed at once; a real tensor is returned itself."""

def conj_physical_(input: Tensor) -> Tensor:
    """`conj_physical`, in place."""

def constant_pad_nd(input: Operand, pad: Sequence[builtins.int], value: builtins.float = 0) -> Value:
    """Return the tensor with elements of one value around it."""

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

def convolution(
    input: Operand,
    weight: Operand,
    bias: Operand | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: builtins.bool,
    output_padding: Sizes,
    groups: builtins.int,
) -> Value:
    """Return the convolution (or the transposed one) of batched images of any rank."""

def copysign(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the size of ``input`` with the sign of ``other``."""

def corrcoef(input: Operand) -> Value:
    """Return the correlations of variables, which are rows; columns are observations."""

def cos(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the cosine of each element."""

def cos_(input: Operand) -> Value:
    """`cos`, in place."""

def cosh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the hyperbolic cosine of each element."""

def cosh_(input: Operand) -> Value:
    """`cosh`, in place."""

def cosine_embedding_loss(
    input1: Operand, input2: Operand, target: Operand, margin: builtins.float = 0.0, reduction: builtins.int = 0
) -> Value:
    """Return the loss of cosines; see ``nn.functional.cosine_embedding_loss``."""

def cosine_similarity(x1: Operand, x2: Operand, dim: builtins.int = 1, eps: builtins.float = 1e-08) -> Value:
    """Return the cosines of the angles between vectors."""

def count_nonzero(input: Operand, dim: Dims = None) -> Value:
    """Return the number of nonzero elements."""

def cov(
    input: Operand, *, correction: builtins.int = 1, fweights: Operand | None = None, aweights: Operand | None = None
) -> Value:
    """Return the covariances of variables, which are rows; columns are observations."""

def cross(input: Operand, other: Operand, dim: builtins.int | None = None, *, out: Any = None) -> Value:
    """Return the cross products of vectors with 3 coordinates along a dimension: by default, the first one of size 3."""

def ctc_loss(
    log_probs: Operand,
    targets: Operand,
    input_lengths: builtins.object,
    target_lengths: builtins.object,
    blank: builtins.int = 0,
    reduction: builtins.int = 0,
    zero_infinity: builtins.bool = False,
) -> Value:
    """Return the loss of all alignments; see ``nn.functional.ctc_loss``."""

def cummax(input: Operand, dim: builtins.int, *, out: Any = None) -> Any:
    """Return the maximum of all elements so far along a dimension, and its index."""

def cummin(input: Operand, dim: builtins.int, *, out: Any = None) -> Any:
    """Return the minimum of all elements so far along a dimension, and its index."""

def cumprod(input: Operand, dim: builtins.int, *, dtype: DtypeLike | None = None, out: Any = None) -> Value:
    """Return the cumulative product along a dimension; integers become int64."""

def cumsum(input: Operand, dim: builtins.int, *, dtype: DtypeLike | None = None, out: Any = None) -> Value:
    """Return the cumulative sum along a dimension; integers become int64."""

def cumulative_trapezoid(y: Operand, x: Any = None, *, dx: Any = None, dim: builtins.int = -1) -> Value:
    """Return the cumulative integral of samples along a dimension, by the trapezoidal rule."""

def deg2rad(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return angles in degrees as radians."""

def deg2rad_(input: Operand) -> Value:
    """`deg2rad`, in place."""

def det(A: Operand, *, out: Any = None) -> Value:
    """Return the determinants of square matrices."""

def detach(input: Tensor) -> Tensor:
    """Return the tensor without its history, sharing its memory."""

def detach_(input: Tensor) -> Tensor:
    """Drop the history of a tensor, in place."""

def diag(input: Operand, diagonal: builtins.int = 0) -> Value:
    """Return a diagonal of a matrix, or a matrix with a vector on a diagonal."""

def diag_embed(input: Operand, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Value:
    """Return matrices, in two dimensions of the result, with the last dimension on a diagonal."""

def diagflat(input: Operand, offset: builtins.int = 0) -> Value:
    """Return a matrix with all elements on a diagonal."""

def diagonal(input: Operand, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Value:
    """Return a view of a diagonal of two dimensions, as the last dimension."""

def diagonal_copy(
    input: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1, *, out: Any = None
) -> Value:
    """Return a copy of `diagonal`."""

def diagonal_scatter(
    input: Operand, src: Operand, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1
) -> Value:
    """Return a copy with ``src`` on a diagonal of two dimensions."""

def diff(
    input: Operand,
    n: builtins.int = 1,
    dim: builtins.int = -1,
    prepend: Operand | None = None,
    append: Operand | None = None,
    *,
    out: Any = None,
) -> Value:
    """Return the differences of neighbours along a dimension, ``n`` times."""

def digamma(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the derivative of `lgamma`."""

def digamma_(input: Operand) -> Value:
    """`digamma`, in place."""

def dist(input: Operand, other: Operand, p: builtins.float = 2) -> Value:
    """Return the norm of the difference."""

def div(input: Operand, other: Operand, *, rounding_mode: builtins.str | None = "", out: Any = None) -> Value:
    """Return ``input / other``; integers divide to floats, unless the quotient is rounded."""

def divide(input: Operand, other: Operand, *, rounding_mode: builtins.str | None = "", out: Any = None) -> Value:
    """Return ``input / other``; integers divide to floats, unless the quotient is rounded."""

def dot(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the product of two vectors."""

def dropout(input: Operand, p: builtins.float, train: builtins.bool) -> Value:
    """Return the input with elements set to 0 at random."""

def dropout_(input: Operand, p: builtins.float, train: builtins.bool) -> Value:
    """`dropout`, in place."""

def dsplit(input: Operand, indices_or_sections: Any) -> builtins.tuple[Any, ...]:
    """Return pieces of the tensor along dimension 2, as views."""

def dstack(tensors: Sequence[Operand], *, out: Any = None) -> Value:
    """Return tensors joined along the third dimension."""

def eig(*args: Any, **kwargs: Any) -> Any:
    """Raise: PyTorch has removed ``eig``."""

def einsum(equation: builtins.str, *operands: Any) -> Value:
    """Return a sum of products, specified by dimension letters: ``einsum("ij,jk->ik", a, b)``."""

def embedding(
    weight: Operand,
    indices: Operand,
    padding_idx: builtins.int = -1,
    scale_grad_by_freq: builtins.bool = False,
    sparse: builtins.bool = False,
) -> Value:
    """Return rows of a matrix; see ``nn.functional.embedding``."""

def embedding_bag(
    weight: Operand,
    indices: Operand,
    offsets: Operand,
    scale_grad_by_freq: builtins.bool = False,
    mode: builtins.int = 0,
    sparse: builtins.bool = False,
    per_sample_weights: Operand | None = None,
    include_last_offset: builtins.bool = False,
    padding_idx: builtins.int | None = None,
) -> builtins.tuple[Any, Any, Any, Any]:
    """Return sums, means or maxima of rows; the bag of each position; the sizes of bags; and the positions of maxima."""

def embedding_renorm_(input: Tensor, indices: Operand, max_norm: builtins.float, norm_type: builtins.float = 2.0) -> Tensor:
    """Scale the rows at some positions to a norm of at most ``max_norm``, in place."""

def empty(
    *sizes: builtins.int | Sequence[builtins.int],
    size: Sequence[builtins.int] | None = None,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    memory_format: Any = None,
    out: Any = None,
) -> Tensor:
    """Return an uninitialized tensor."""

def empty_like(
    input: Operand,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return an uninitialized tensor of another one's shape and dtype."""

def empty_permuted(
    size: Sequence[builtins.int],
    physical_layout: Sequence[builtins.int],
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return an uninitialized tensor with this order of dimensions in memory."""

def empty_strided(
    size: Sequence[builtins.int],
    stride: Sequence[builtins.int],
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return an uninitialized tensor with these strides."""

def eq(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is equal to ``other``."""

def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Return True if two tensors have the same shape and elements."""

def erf(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the error function of each element."""

def erf_(input: Operand) -> Value:
    """`erf`, in place."""

def erfc(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the complementary error function, ``1 - erf(input)``."""

def erfc_(input: Operand) -> Value:
    """`erfc`, in place."""

def erfinv(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the inverse of the error function."""

def erfinv_(input: Operand) -> Value:
    """`erfinv`, in place."""

def exp(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the exponential of each element."""

def exp2(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the power of 2 of each element."""

def exp2_(input: Operand) -> Value:
    """`exp2`, in place."""

def exp_(input: Operand) -> Value:
    """`exp`, in place."""

def expand_copy(input: Tensor, size: Sequence[builtins.int], *, implicit: builtins.bool = False, out: Any = None) -> Value:
    """Return a copy of `expand`; ``implicit`` has no effect."""

def expm1(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the exponential minus 1, accurate near 0, of each element."""

def expm1_(input: Operand) -> Value:
    """`expm1`, in place."""

def eye(
    n: builtins.int,
    m: builtins.int | None = None,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    out: Any = None,
) -> Tensor:
    """Return ones on the diagonal."""

def feature_alpha_dropout(input: Operand, p: builtins.float, train: builtins.bool) -> Value:
    """Return the input with channels set to SELU's limit at random."""

def feature_alpha_dropout_(input: Operand, p: builtins.float, train: builtins.bool) -> Value:
    """`feature_alpha_dropout`, in place."""

def feature_dropout(input: Operand, p: builtins.float, train: builtins.bool) -> Value:
    """Return the input with channels set to 0 at random."""

def feature_dropout_(input: Operand, p: builtins.float, train: builtins.bool) -> Value:
    """`feature_dropout`, in place."""

def fill(input: Operand, value: Operand) -> Value:
    """Return a tensor of this shape and dtype, filled with a number or a 0-d tensor."""

def fill_(self: Tensor, value: Operand) -> Tensor:
    """Overwrite every element with a number."""

def fix(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the integer part of each element."""

def fix_(input: Operand) -> Value:
    """`trunc`, in place."""

def flatten(input: Operand, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Value:
    """Return the tensor with dimensions merged into one."""

def flip(input: Operand, *dims: builtins.int | Sequence[builtins.int]) -> Value:
    """Return the tensor with the order along dimensions reversed."""

def fliplr(input: Operand) -> Value:
    """Return the tensor with its second dimension reversed."""

def flipud(input: Operand) -> Value:
    """Return the tensor with its first dimension reversed."""

def float_power(input: Operand, exponent: Operand, *, out: Any = None) -> Value:
    """Return ``input ** exponent`` in double precision."""

def floor(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the largest integer that is not above each element."""

def floor_(input: Operand) -> Value:
    """`floor`, in place."""

def floor_divide(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return ``input / other``, rounded down."""

def fmax(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the larger (ignoring nan) element of each pair."""

def fmin(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the smaller (ignoring nan) element of each pair."""

def fmod(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the remainder of ``input / other``, with the sign of ``input``."""

def frac(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the part of each element behind its point, with its sign."""

def frac_(input: Operand) -> Value:
    """`frac`, in place."""

def frexp(input: Operand, *, out: Any = None) -> Any:
    """Return mantissas in [0.5, 1) and exponents: ``input == mantissa * 2**exponent``."""

def frobenius_norm(input: Operand, dim: Any = None, keepdim: builtins.bool = False, *, out: Any = None) -> Value:
    """Return the Euclidean norm of all elements, or along dimensions."""

def from_dlpack(ext_tensor: Any) -> Tensor:
    """Return a tensor that shares the memory of an array of another library (DLPack)."""

def from_numpy(array: Array) -> Tensor:
    """Return a tensor that shares the memory of an array, traced or not."""

def frombuffer(
    buffer: Any,
    *,
    dtype: DtypeLike,
    count: builtins.int = -1,
    offset: builtins.int = 0,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return a vector that shares the memory of a Python buffer."""

def full(
    size: Sequence[builtins.int],
    fill_value: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    out: Any = None,
) -> Tensor:
    """Return a tensor filled with a number, whose type determines the dtype."""

def full_like(
    input: Operand,
    fill_value: Any,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return a tensor of another one's shape and dtype, filled with a number."""

def gather(
    input: Operand, dim: builtins.int, index: Operand, *, sparse_grad: builtins.bool = False, out: Any = None
) -> Value:
    """Return elements by index along a dimension."""

def gcd(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the greatest common divisor of each pair of integers."""

def gcd_(input: Operand, other: Operand) -> Value:
    """`gcd`, in place."""

def ge(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is at least ``other``."""

def geqrf(input: Operand, *, out: Any = None) -> Any:
    """Return ``R`` with the Householder vectors below it, and their factors."""

def ger(input: Operand, vec2: Operand, *, out: Any = None) -> Value:
    """Return the products of all pairs of elements of two vectors."""

def get_default_device() -> device:
    """Return the device of new tensors: the CPU."""

def get_device(input: Tensor) -> builtins.int:
    """Return the number of a tensor's device: -1, the CPU."""

def get_rng_state() -> Tensor:
    """Return the state of the generator, as a tensor of bytes in PyTorch's format."""

def gradient(
    input: Operand, *, spacing: Any = None, dim: Any = None, edge_order: builtins.int = 1
) -> builtins.tuple[Any, ...]:
    """Return estimates of the derivatives of samples, one for each dimension."""

def greater(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is greater than ``other``."""

def greater_equal(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is at least ``other``."""

def grid_sampler(
    input: Operand, grid: Operand, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool
) -> Value:
    """Return `grid_sample`, with numbers for the modes."""

def grid_sampler_2d(
    input: Operand, grid: Operand, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool
) -> Value:
    """Return `grid_sample`, with numbers for the modes."""

def grid_sampler_3d(
    input: Operand, grid: Operand, interpolation_mode: builtins.int, padding_mode: builtins.int, align_corners: builtins.bool
) -> Value:
    """Return `grid_sample`, with numbers for the modes."""

def group_norm(
    input: Operand,
    num_groups: builtins.int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: builtins.float = 1e-05,
    cudnn_enabled: builtins.bool = True,
) -> Value:
    """Return the input with mean 0 and variance 1 in each group of channels of each example."""

def gru(*arguments: builtins.object, **keywords: builtins.object) -> Any:
    """Run GRU layers over sequences."""

def gru_cell(
    input: Operand, hx: Operand, w_ih: Operand, w_hh: Operand, b_ih: Operand | None = None, b_hh: Operand | None = None
) -> Value:
    """Return the state of a GRU after one step."""

def gt(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is greater than ``other``."""

def hamming_window(
    window_length: builtins.int,
    periodic: builtins.bool = True,
    alpha: builtins.float = 0.54,
    beta: builtins.float = 0.46,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return a Hamming window: ``alpha - beta * cos``."""

def hann_window(
    window_length: builtins.int,
    periodic: builtins.bool = True,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return a Hann window."""

def hardshrink(input: Operand, lambd: builtins.float = 0.5) -> Value:
    """Return ``input``, but 0 between ``-lambd`` and ``lambd``."""

def heaviside(input: Operand, values: Operand, *, out: Any = None) -> Value:
    """Return 0 for negative elements, 1 for positive ones, and ``values`` for 0."""

def hinge_embedding_loss(
    input: Operand, target: Operand, margin: builtins.float = 1.0, reduction: builtins.int = 0
) -> Value:
    """Return the hinge loss of distances; see ``nn.functional.hinge_embedding_loss``."""

def histc(
    input: Operand, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0, *, out: Any = None
) -> Value:
    """Return how many elements lie in each of equal bins."""

def histogram(
    input: Operand,
    bins: Any,
    *,
    range: Sequence[builtins.float] | None = None,
    weight: Operand | None = None,
    density: builtins.bool = False,
    out: Any = None,
) -> Any:
    """Return how many elements lie in each bin, and the edges of the bins."""

def histogramdd(
    input: Operand,
    bins: Any,
    *,
    range: Sequence[builtins.float] | None = None,
    weight: Operand | None = None,
    density: builtins.bool = False,
) -> Any:
    """Return how many points lie in each cell of a grid, and the edges of the cells."""

def hsplit(input: Operand, indices_or_sections: Any) -> builtins.tuple[Any, ...]:
    """Return pieces of the tensor along dimension 1, as views."""

def hstack(tensors: Sequence[Operand], *, out: Any = None) -> Value:
    """Return tensors joined along the second dimension; vectors, along their only one."""

def hypot(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the hypotenuse, element by element."""

def i0(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the modified Bessel function of order 0."""

def i0_(input: Operand) -> Value:
    """`i0`, in place."""

def igamma(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the regularized lower incomplete gamma function."""

def igammac(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the regularized upper incomplete gamma function."""

def imag(input: Tensor) -> Value:
    """Return the imaginary part, a view."""

def index_add(input: Operand, dim: builtins.int, index: Operand, source: Operand, *, alpha: Any = 1) -> Value:
    """Return the tensor with slices of ``source`` added at indices along a dimension."""

def index_copy(input: Operand, dim: builtins.int, index: Operand, source: Operand) -> Value:
    """Return the tensor with slices of ``source`` copied to indices along a dimension."""

def index_fill(input: Operand, dim: builtins.int, index: Operand, value: Operand) -> Value:
    """Return the tensor with slices at indices along a dimension filled with a number."""

def index_put(input: Operand, indices: Sequence[Any], values: Operand, accumulate: builtins.bool = False) -> Value:
    """Return the tensor with values written at positions: ``input[indices] = values``."""

def index_put_(input: Operand, indices: Sequence[Any], values: Operand, accumulate: builtins.bool = False) -> Value:
    """`index_put`, in place."""

def index_reduce(
    input: Operand,
    dim: builtins.int,
    index: Operand,
    source: Operand,
    reduce: builtins.str,
    *,
    include_self: builtins.bool = True,
) -> Value:
    """Return the tensor with slices of ``source`` written at indices along a dimension, reduced if indices coincide."""

def index_select(input: Operand, dim: builtins.int, index: Operand, *, out: Any = None) -> Value:
    """Return the slices along a dimension at the indices in a vector."""

def initial_seed() -> builtins.int:
    """Return the current seed."""

def inner(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the products of all vectors along the last dimensions."""

def instance_norm(
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    use_input_stats: builtins.bool,
    momentum: builtins.float,
    eps: builtins.float,
    cudnn_enabled: builtins.bool,
) -> Value:
    """Return the input with mean 0 and variance 1 in each channel of each example."""

def inverse(input: Operand, *, out: Any = None) -> Value:
    """Return the inverse of square matrices; see `inv`."""

def is_complex(input: Operand) -> builtins.bool:
    """Return True if the elements are complex."""

def is_conj(input: Tensor) -> builtins.bool:
    """Return True if a tensor is a conjugate view."""

def is_floating_point(input: Operand) -> builtins.bool:
    """Return True if the elements are floats."""

def is_inference(input: Tensor) -> builtins.bool:
    """Return True if a tensor was made in inference mode: it has no version, and is not saved for backward."""

def is_neg(input: Operand) -> builtins.bool:
    """Return True if a tensor is a negated view, as the imaginary part of a conjugate is."""

def is_nonzero(input: Tensor) -> builtins.bool:
    """Return True if the one element is nonzero."""

def is_same_size(input: Tensor, other: Tensor) -> builtins.bool:
    """Return True if two tensors have the same shape."""

def is_signed(input: Tensor) -> builtins.bool:
    """Return True if elements can be negative."""

def isclose(
    input: Operand,
    other: Operand,
    rtol: builtins.float = 1e-05,
    atol: builtins.float = 1e-08,
    equal_nan: builtins.bool = False,
) -> Value:
    """Return a mask of ``|input - other| <= atol + rtol * |other|``."""

def isfinite(input: Operand) -> Value:
    """Return a mask of the finite elements."""

def isin(elements: Any, test_elements: Any, *, assume_unique: builtins.bool = False, invert: builtins.bool = False) -> Value:
    """Return a mask of the elements that are among others."""

def isinf(input: Operand) -> Value:
    """Return a mask of the infinite elements."""

def isnan(input: Operand) -> Value:
    """Return a mask of the elements that are nan."""

def isneginf(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask of the elements that are -inf."""

def isposinf(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask of the elements that are inf."""

def isreal(input: Operand) -> Value:
    """Return a mask of the elements without an imaginary part."""

def istft(
    input: Operand,
    n_fft: builtins.int,
    hop_length: builtins.int | None = None,
    win_length: builtins.int | None = None,
    window: Operand | None = None,
    center: builtins.bool = True,
    normalized: builtins.bool = False,
    onesided: builtins.bool | None = None,
    length: builtins.int | None = None,
    return_complex: builtins.bool = False,
) -> Value:
    """Return the signal of Fourier transforms of overlapping pieces, by least squares: the inverse of `stft`."""

def kaiser_window(
    window_length: builtins.int,
    periodic: builtins.bool = True,
    beta: builtins.float = 12.0,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return a Kaiser window."""

def kl_div(input: Operand, target: Operand, reduction: builtins.int = 0, *, log_target: builtins.bool = False) -> Value:
    """Return terms of the Kullback-Leibler divergence; see ``nn.functional.kl_div``."""

def kron(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the Kronecker product: all products of elements, in blocks."""

def kthvalue(
    input: Operand, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: Any = None
) -> Any:
    """Return the ``k``-th smallest element along a dimension, and its position."""

def layer_norm(
    input: Operand,
    normalized_shape: Sequence[builtins.int],
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: builtins.float = 1e-05,
    cudnn_enable: builtins.bool = True,
) -> Value:
    """Return the input with mean 0 and variance 1 over the last dimensions."""

def lcm(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the least common multiple of each pair of integers."""

def lcm_(input: Operand, other: Operand) -> Value:
    """`lcm`, in place."""

def ldexp(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return ``input * 2**other``."""

def ldexp_(input: Operand, other: Operand) -> Value:
    """`ldexp`, in place."""

def le(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is at most ``other``."""

def lerp(input: Operand, end: Operand, weight: Operand, *, out: Any = None) -> Value:
    """Return ``input + weight * (end - input)``."""

def less(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is less than ``other``."""

def less_equal(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is at most ``other``."""

def lgamma(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logarithm of the absolute value of the gamma function."""

def linspace(
    start: builtins.complex,
    end: builtins.complex,
    steps: builtins.int,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    out: Any = None,
) -> Tensor:
    """Return ``steps`` equally spaced numbers, with both ends."""

def log(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the natural logarithm of each element."""

def log10(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logarithm to base 10 of each element."""

def log10_(input: Operand) -> Value:
    """`log10`, in place."""

def log1p(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return ``log(1 + input)``, accurate near 0."""

def log1p_(input: Operand) -> Value:
    """`log1p`, in place."""

def log2(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logarithm to base 2 of each element."""

def log2_(input: Operand) -> Value:
    """`log2`, in place."""

def log_(input: Operand) -> Value:
    """`log`, in place."""

def log_softmax(input: Operand, dim: builtins.int, dtype: DtypeLike | None = None, *, out: Any = None) -> Value:
    """Return the log of the softmax along a dimension."""

def logaddexp(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logarithm of the sum of exponentials, element by element."""

def logaddexp2(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logarithm to base 2 of the sum of powers of 2."""

def logcumsumexp(input: Operand, dim: builtins.int, *, out: Any = None) -> Value:
    """Return the logarithms of cumulative sums of exponentials along a dimension."""

def logdet(input: Operand) -> Value:
    """Return the logarithms of the determinants; nan where one is negative."""

def logical_and(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where both of two elements are nonzero."""

def logical_not(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask of the elements that are zero."""

def logical_or(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where at least one of two elements are nonzero."""

def logical_xor(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where only one of two elements are nonzero."""

def logit(input: Operand, eps: builtins.float | None = None, *, out: Any = None) -> Value:
    """Return ``log(input / (1 - input))``, with the input limited to ``[eps, 1 - eps]``."""

def logit_(input: Operand, eps: builtins.float | None = None) -> Value:
    """`logit`, in place."""

def logspace(
    start: builtins.complex,
    end: builtins.complex,
    steps: builtins.int,
    base: builtins.float = 10.0,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    out: Any = None,
) -> Tensor:
    """Return ``steps`` powers of ``base``, with equally spaced exponents."""

def logsumexp(input: Operand, dim: Dims, keepdim: builtins.bool = False, *, out: Any = None) -> Value:
    """Return ``log(sum(exp(input)))`` along dimensions, without overflow."""

def lstm(*arguments: builtins.object, **keywords: builtins.object) -> Any:
    """Run LSTM layers over sequences."""

def lstm_cell(
    input: Operand, hx: Sequence[Any], w_ih: Operand, w_hh: Operand, b_ih: Operand | None = None, b_hh: Operand | None = None
) -> builtins.tuple[Any, Any]:
    """Return the state and the cell state of an LSTM after one step."""

def lstsq(*args: Any, **kwargs: Any) -> Any:
    """Raise: PyTorch has removed ``lstsq``."""

def lt(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is less than ``other``."""

def lu(A: Operand, pivot: builtins.bool = True, get_infos: builtins.bool = False) -> Any:
    """Return both factors in one matrix, and LAPACK's pivots; the older form of `linalg.lu_factor`."""

def lu_solve(b: Operand, LU_data: Operand, LU_pivots: Operand, *, out: Any = None) -> Value:
    """Return the solution of ``A x = b``, from the results of `lu_factor`."""

def lu_unpack(
    LU_data: Operand,
    LU_pivots: Operand,
    unpack_data: builtins.bool = True,
    unpack_pivots: builtins.bool = True,
    *,
    out: Any = None,
) -> Any:
    """Return matrices P, L and U from the results of `lu_factor`."""

def manual_seed(seed: Any) -> Generator:
    """Seed the generator; returns it."""

def margin_ranking_loss(
    input1: Operand, input2: Operand, target: Operand, margin: builtins.float = 0.0, reduction: builtins.int = 0
) -> Value:
    """Return the ranking loss; see ``nn.functional.margin_ranking_loss``."""

def masked_fill(input: Operand, mask: Operand, value: Operand) -> Value:
    """Return the tensor with a number where the mask is true."""

def masked_scatter(input: Operand, mask: Operand, source: Operand) -> Value:
    """Return the tensor with the first elements of ``source`` where a mask is true, in row order."""

def masked_select(input: Operand, mask: Tensor) -> Value:
    """Return the elements where the mask is true, in one dimension."""

def matmul(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the product of matrices, vectors, or stacks of matrices, composed as in PyTorch."""

def matrix_exp(input: Operand) -> Value:
    """Return the exponential of square matrices."""

def matrix_power(input: Operand, n: builtins.int, *, out: Any = None) -> Value:
    """Return an integer power of square matrices; of the inverses, if it is negative."""

def matrix_rank(*args: Any, **kwargs: Any) -> Any:
    """Raise: PyTorch has removed ``matrix_rank``."""

def max(input: Operand, dim: Operand | None = None, keepdim: builtins.bool = False, *, out: Any = None) -> Any:
    """Return the maximum: of all, along a dimension (with indices), of two tensors."""

def max_pool1d(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: builtins.bool = False,
) -> Value:
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
) -> Value:
    """Return the maxima of windows over 2 axes."""

def max_pool3d(
    input: Operand,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: builtins.bool = False,
) -> Value:
    """Return the maxima of windows over 3 axes."""

def maximum(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the larger (equal elements share the derivative) element of each pair."""

def mean(
    input: Operand,
    dim: Dims | EllipsisType = ...,
    keepdim: builtins.bool = False,
    *,
    dtype: DtypeLike | None = None,
    out: Tensor | None = None,
) -> Value:
    """Return the mean of all elements, or along dimensions."""

def median(input: Operand, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Any = None) -> Any:
    """Return the lower median of all elements, or along a dimension, with its index."""

def meshgrid(*tensors: Any, indexing: builtins.str = "ij") -> builtins.tuple[Any, ...]:
    """Return the coordinates of a grid, one tensor for each dimension."""

def min(input: Operand, dim: Operand | None = None, keepdim: builtins.bool = False, *, out: Any = None) -> Any:
    """Return the minimum: of all, along a dimension (with indices), of two tensors."""

def minimum(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the smaller (equal elements share the derivative) element of each pair."""

def mm(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the product of two matrices."""

def mode(input: Operand, dim: builtins.int = -1, keepdim: builtins.bool = False, *, out: Any = None) -> Any:
    """Return the most frequent element along a dimension (the smallest of several), and its last position."""

def moveaxis(input: Operand, source: Any, destination: Any) -> Value:
    """Return a view with dimensions moved to other positions."""

def movedim(input: Operand, source: Any, destination: Any) -> Value:
    """Return a view with dimensions moved to other positions."""

def msort(input: Operand, *, out: Any = None) -> Value:
    """Return the elements sorted along the first dimension."""

def mul(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return ``input * other``."""

def multinomial(
    input: Tensor,
    num_samples: builtins.int,
    replacement: builtins.bool = False,
    *,
    generator: builtins.object = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return positions drawn with the weights that the tensor holds."""

def multiply(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return ``input * other``."""

def mv(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the product of a matrix and a vector."""

def mvlgamma(input: Operand, p: builtins.int, *, out: Any = None) -> Value:
    """Return the logarithm of the multivariate gamma function of dimension ``p``."""

def nan_to_num(
    input: Operand,
    nan: builtins.float | None = None,
    posinf: builtins.float | None = None,
    neginf: builtins.float | None = None,
    *,
    out: Any = None,
) -> Value:
    """Return the tensor with nan and infinities replaced: by 0 and the limits of the dtype, or by the numbers given."""

def nan_to_num_(
    input: Operand,
    nan: builtins.float | None = None,
    posinf: builtins.float | None = None,
    neginf: builtins.float | None = None,
) -> Value:
    """`nan_to_num`, in place."""

def nanmean(input: Operand, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Value:
    """Return the mean of the elements that are not nan."""

def nanmedian(input: Operand, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, out: Any = None) -> Any:
    """Return the lower median of all elements, or along a dimension, with its index."""

def nanquantile(
    input: Operand,
    q: Any,
    dim: builtins.int | None = None,
    keepdim: builtins.bool = False,
    *,
    interpolation: builtins.str = "linear",
    out: Any = None,
) -> Value:
    """Return quantiles of all elements, or along a dimension, ignoring nan."""

def nansum(input: Operand, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: DtypeLike | None = None) -> Value:
    """Return the sum of the elements that are not nan."""

def narrow(input: Operand, dim: builtins.int, start: builtins.int, length: builtins.int) -> Value:
    """Return a view of ``length`` slices along a dimension."""

def narrow_copy(input: Tensor, dim: builtins.int, start: builtins.int, length: builtins.int, *, out: Any = None) -> Value:
    """Return a copy of `narrow`."""

def native_batch_norm(
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    running_mean: Operand | None,
    running_var: Operand | None,
    training: builtins.bool,
    momentum: builtins.float,
    eps: builtins.float,
) -> builtins.tuple[Any, Any, Any]:
    """Return `batch_norm`, the means, and the reciprocals of the standard deviations; both empty outside of training."""

def native_channel_shuffle(input: Operand, groups: builtins.int) -> Value:
    """Return channels in another order: one of each group in turn; see `channel_shuffle`."""

def native_dropout(input: Operand, p: builtins.float, train: builtins.bool | None) -> builtins.tuple[Any, Any]:
    """Return `dropout`, and the mask of the elements that are kept."""

def native_group_norm(
    input: Operand,
    weight: Operand | None,
    bias: Operand | None,
    N: builtins.int,
    C: builtins.int,
    HxW: builtins.int,
    group: builtins.int,
    eps: builtins.float,
) -> builtins.tuple[Any, Any, Any]:
    """Return `group_norm`, the means, and the reciprocals of the standard deviations."""

def native_layer_norm(
    input: Operand,
    normalized_shape: Sequence[builtins.int],
    weight: Operand | None,
    bias: Operand | None,
    eps: builtins.float,
) -> builtins.tuple[Any, Any, Any]:
    """Return `layer_norm`, the means, and the reciprocals of the standard deviations."""

def ne(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is different from ``other``."""

def neg(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return ``-input``."""

def neg_(input: Operand) -> Value:
    """`neg`, in place."""

def negative(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return ``-input``."""

def negative_(input: Operand) -> Value:
    """`neg`, in place."""

def nextafter(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return the next number after ``input`` towards ``other``."""

def nonzero(input: Operand, *, as_tuple: builtins.bool = False) -> Any:
    """Return the positions of nonzero elements: one row each, or one tensor for each dimension."""

def nonzero_static(input: Operand, *, size: builtins.int, fill_value: builtins.int = -1) -> Value:
    """Return the positions of the first ``size`` nonzero elements, and rows of ``fill_value`` if there are fewer."""

def norm(
    input: Operand,
    p: builtins.float | builtins.str | None = "fro",
    dim: Dims = None,
    keepdim: builtins.bool = False,
    dtype: DtypeLike | None = None,
    *,
    out: Any = None,
) -> Value:
    """Return the norm of all elements, or along dimensions: ``sum(abs(input)**p)**(1/p)``."""

def normal(
    mean: Any,
    std: Any = 1.0,
    size: builtins.int | Sequence[builtins.int] | None = None,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: DtypeLike | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return normal numbers."""

def not_equal(input: Operand, other: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask: True where ``input`` is different from ``other``."""

def nuclear_norm(input: Operand, dim: Any = (-2, -1), keepdim: builtins.bool = False, *, out: Any = None) -> Value:
    """Return the sum of the singular values of matrices."""

def numel(input: Operand) -> builtins.int:
    """Return the number of elements."""

def ones(
    *sizes: builtins.int | Sequence[builtins.int],
    size: Sequence[builtins.int] | None = None,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    out: Any = None,
) -> Tensor:
    """Return ones."""

def ones_like(
    input: Operand,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return ones of a tensor's shape and dtype."""

def orgqr(input: Operand, tau: Operand, *, out: Any = None) -> Value:
    """Return the first columns of the product of Householder reflectors."""

def ormqr(
    input: Operand,
    tau: Operand,
    other: Operand,
    left: builtins.bool = True,
    transpose: builtins.bool = False,
    *,
    out: Any = None,
) -> Value:
    """Return the product of Householder reflectors and a matrix."""

def outer(input: Operand, vec2: Operand, *, out: Any = None) -> Value:
    """Return the products of all pairs of elements of two vectors."""

def pairwise_distance(
    x1: Operand, x2: Operand, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdim: builtins.bool = False
) -> Value:
    """Return the norm of ``x1 - x2 + eps`` along the last dimension."""

def pca_lowrank(
    A: Operand, q: builtins.int | None = None, center: builtins.bool = True, niter: builtins.int = 2
) -> builtins.tuple[Any, Any, Any]:
    """Return an approximate principal component analysis of low rank: U, S, V."""

def pdist(input: Operand, p: builtins.float = 2) -> Value:
    """Return the distances between all pairs of rows ``i < j``."""

def permute(input: Operand, *dims: builtins.int | Sequence[builtins.int]) -> Value:
    """Return a view with dimensions in another order."""

def permute_copy(input: Tensor, dims: Sequence[builtins.int], *, out: Any = None) -> Value:
    """Return a copy of `permute`."""

def pinverse(input: Operand, rcond: builtins.float = 1e-15) -> Value:
    """Return the pseudoinverses of matrices; the older form of `linalg.pinv`."""

def pixel_shuffle(input: Operand, upscale_factor: builtins.int) -> Value:
    """Return larger images, from r * r channels for each one."""

def pixel_unshuffle(input: Operand, downscale_factor: builtins.int) -> Value:
    """Return smaller images with r * r channels for each one."""

def poisson(input: Tensor, generator: builtins.object = None) -> Tensor:
    """Return Poisson numbers with the rates that the tensor holds."""

def poisson_nll_loss(
    input: Operand,
    target: Operand,
    log_input: builtins.bool,
    full: builtins.bool,
    eps: builtins.float,
    reduction: builtins.int,
) -> Value:
    """Return the negative log-likelihood of counts; see ``nn.functional.poisson_nll_loss``."""

def polar(abs: Operand, angle: Operand, *, out: Any = None) -> Value:
    """Return the complex numbers of a size and an angle."""

def polygamma(n: builtins.int, input: Operand, *, out: Any = None) -> Value:
    """Return the derivative of order ``n`` of `digamma`."""

def positive(input: Operand) -> Value:
    """Return the tensor itself."""

def pow(input: Operand, exponent: Operand, *, out: Any = None) -> Value:
    """Return ``input ** exponent``; either may be a number."""

def prelu(input: Operand, weight: Operand) -> Value:
    """Return ``input`` where it is positive, ``weight * input`` elsewhere."""

def prod(
    input: Operand,
    dim: builtins.int | None = None,
    keepdim: builtins.bool = False,
    *,
    dtype: DtypeLike | None = None,
    out: Tensor | None = None,
) -> Value:
    """Return the product of all elements, or along a dimension; integers multiply to int64."""

def promote_types(type1: Dtype, type2: Dtype) -> Dtype:
    """Return the smallest dtype to which two dtypes convert."""

def put(input: Operand, index: Operand, source: Operand, accumulate: builtins.bool = False) -> Value:
    """Return the tensor with elements written at positions among all elements, in row order."""

def qr(input: Operand, some: builtins.bool = True, *, out: Any = None) -> Any:
    """Return the orthogonal and the upper triangular factor; the older form of `linalg.qr`."""

def quantile(
    input: Operand,
    q: Any,
    dim: builtins.int | None = None,
    keepdim: builtins.bool = False,
    *,
    interpolation: builtins.str = "linear",
    out: Any = None,
) -> Value:
    """Return quantiles of all elements, or along a dimension."""

def rad2deg(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return angles in radians as degrees."""

def rad2deg_(input: Operand) -> Value:
    """`rad2deg`, in place."""

def rand(
    *sizes: builtins.int | Sequence[builtins.int],
    size: Sequence[builtins.int] | None = None,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    generator: Any = None,
    out: Any = None,
) -> Tensor:
    """Return uniform random numbers in [0, 1)."""

def rand_like(
    input: Operand,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    memory_format: Any = None,
    generator: Any = None,
) -> Tensor:
    """Return uniform random numbers in [0, 1), in a tensor's shape and dtype."""

def randint(
    *bounds_and_size: Any,
    low: builtins.int = 0,
    high: builtins.int | None = None,
    size: Sequence[builtins.int] | None = None,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    generator: Any = None,
    out: Any = None,
) -> Tensor:
    """Return random integers: ``randint(high, size)`` or ``randint(low, high, size)``."""

def randint_like(
    input: Operand,
    *bounds: builtins.object,
    low: builtins.int = 0,
    high: builtins.int | None = None,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    memory_format: Any = None,
    generator: Any = None,
) -> Tensor:
    """Return random integers in a tensor's shape and dtype: ``randint_like(x, high)``, ``randint_like(x, low, high)``."""

def randn(
    *sizes: builtins.int | Sequence[builtins.int],
    size: Sequence[builtins.int] | None = None,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    generator: Any = None,
    out: Any = None,
) -> Tensor:
    """Return standard normal random numbers."""

def randn_like(
    input: Operand,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    memory_format: Any = None,
    generator: Any = None,
) -> Tensor:
    """Return standard normal random numbers in a tensor's shape and dtype."""

def randperm(
    n: builtins.int,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    generator: Any = None,
    out: Any = None,
) -> Tensor:
    """Return the integers below ``n`` in random order."""

def range(
    start: Any = 0,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    out: Any = None,
) -> Tensor:
    """Return equally spaced numbers with both ends; deprecated in favour of `arange`."""

def ravel(input: Operand) -> Value:
    """Return the tensor with one dimension: itself or a view if it is contiguous, otherwise a copy."""

def real(input: Tensor) -> Value:
    """Return the real part, a view."""

def reciprocal(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return ``1 / input``."""

def reciprocal_(input: Operand) -> Value:
    """`reciprocal`, in place."""

def relu(input: Operand) -> Value:
    """Return each element, or 0 if it is negative; the derivative at 0 is 0."""

def relu_(input: Operand) -> Value:
    """`relu`, in place."""

def remainder(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the remainder of ``input / other``, with the sign of ``other``."""

def renorm(input: Operand, p: builtins.float, dim: builtins.int, maxnorm: builtins.float, *, out: Any = None) -> Value:
    """Return the tensor with each slice along a dimension scaled down to a norm of at most ``maxnorm``."""

def repeat_interleave(input: Operand, repeats: Any, dim: builtins.int | None = None) -> Value:
    """Return each element (or slice along a dimension) repeated consecutively."""

def reshape(input: Operand, *shape: builtins.int | Sequence[builtins.int]) -> Value:
    """Return a view with another shape, or a copy if the memory layout does not allow a view."""

def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Resize a tensor in place to the sizes of another one."""

def resolve_conj(input: Operand) -> Value:
    """Return a copy of a conjugate view; any other tensor is returned itself."""

def resolve_neg(input: Operand) -> Value:
    """Return a copy of a negated view; any other tensor is returned itself."""

def result_type(tensor1: Operand, tensor2: Operand) -> Dtype:
    """Return the dtype that two operands promote to."""

def rms_norm(
    input: Operand,
    normalized_shape: Sequence[builtins.int],
    weight: Operand | None = None,
    eps: builtins.float | None = None,
) -> Value:
    """Return the input divided by its root mean square over the last dimensions."""

def rnn_relu(*arguments: builtins.object, **keywords: builtins.object) -> Any:
    """Run recurrent layers over sequences."""

def rnn_relu_cell(
    input: Operand, hx: Operand, w_ih: Operand, w_hh: Operand, b_ih: Operand | None = None, b_hh: Operand | None = None
) -> Value:
    """Return ``relu(w_ih @ input + b_ih + w_hh @ hx + b_hh)``."""

def rnn_tanh(*arguments: builtins.object, **keywords: builtins.object) -> Any:
    """Run recurrent layers over sequences."""

def rnn_tanh_cell(
    input: Operand, hx: Operand, w_ih: Operand, w_hh: Operand, b_ih: Operand | None = None, b_hh: Operand | None = None
) -> Value:
    """Return ``tanh(w_ih @ input + b_ih + w_hh @ hx + b_hh)``."""

def roll(input: Operand, shifts: Any, dims: Any = None) -> Value:
    """Return the tensor with its elements shifted cyclically along dimensions."""

def rot90(input: Operand, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Value:
    """Return the tensor rotated by ``k`` times 90 degrees, from the first to the second dimension."""

def round(input: Operand, *, decimals: builtins.int = 0) -> Value:
    """Return the nearest integer (or number with ``decimals`` digits); halves round to even."""

def round_(input: Operand, *, decimals: builtins.int = 0) -> Value:
    """`round`, in place."""

def row_stack(tensors: Sequence[Operand], *, out: Any = None) -> Value:
    """Return tensors joined along the first dimension; vectors are rows."""

def rrelu(
    input: Operand,
    lower: builtins.float = 0.125,
    upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False,
    generator: Any = None,
) -> Value:
    """Return ``input`` where it is positive, elsewhere ``slope * input``; see ``nn.functional``."""

def rrelu_(
    input: Operand,
    lower: builtins.float = 0.125,
    upper: builtins.float = 0.3333333333333333,
    training: builtins.bool = False,
) -> Value:
    """`rrelu`, in place."""

def rsqrt(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the reciprocal of the square root of each element."""

def rsqrt_(input: Operand) -> Value:
    """`rsqrt`, in place."""

def rsub(input: Operand, other: Operand, *, alpha: Operand = 1) -> Value:
    """Return ``other - alpha * input``."""

def scalar_tensor(
    s: builtins.complex,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return a 0-d tensor of a number."""

def scatter(input: Operand, dim: builtins.int, index: Operand, src: Any = None, *, value: Any = None) -> Value:
    """Return the tensor with elements of ``src``, or a number, written at indices along a dimension."""

def scatter_add(input: Operand, dim: builtins.int, index: Operand, src: Operand) -> Value:
    """Return the tensor with elements of ``src`` added at indices along a dimension."""

def scatter_reduce(
    input: Operand,
    dim: builtins.int,
    index: Operand,
    src: Operand,
    reduce: builtins.str,
    *,
    include_self: builtins.bool = True,
) -> Value:
    """Return the tensor with elements of ``src`` written at indices along a dimension, reduced if indices coincide."""

def searchsorted(
    sorted_sequence: Operand,
    input: Any,
    *,
    out_int32: builtins.bool = False,
    right: builtins.bool = False,
    side: builtins.str | None = None,
    sorter: Tensor | None = None,
    out: Any = None,
) -> Value:
    """Return positions at which elements keep a sequence sorted."""

def seed() -> builtins.int:
    """Seed with a nondeterministic number; returns the seed."""

def select(input: Operand, dim: builtins.int, index: builtins.int) -> Value:
    """Return a view of one slice along a dimension."""

def select_copy(input: Tensor, dim: builtins.int, index: builtins.int, *, out: Any = None) -> Value:
    """Return a copy of `select`."""

def select_scatter(input: Operand, src: Operand, dim: builtins.int, index: builtins.int) -> Value:
    """Return a copy with ``src`` at one position along a dimension."""

def selu(input: Operand) -> Value:
    """Return the scaled ELU of self-normalizing networks: ``1.0507 * elu(input, 1.6733)``."""

def selu_(input: Operand) -> Value:
    """`selu`, in place."""

def set_default_device(device: DeviceLike | None) -> None:
    """Accept the CPU as the device of new tensors."""

def set_printoptions(
    precision: builtins.int | None = None,
    threshold: builtins.float | None = None,
    edgeitems: builtins.int | None = None,
    linewidth: builtins.int | None = None,
    profile: builtins.str | None = None,
    sci_mode: builtins.bool | None = None,
) -> None:
    """Set how tensors are printed."""

def set_rng_state(new_state: Tensor) -> None:
    """Restore a state that `get_rng_state` returned, here or in PyTorch."""

def sgn(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return each element divided by its absolute value; 0 stays 0."""

def sigmoid(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logistic function ``1 / (1 + exp(-input))`` of each element."""

def sigmoid_(input: Tensor) -> Value:
    """`sigmoid`, in place."""

def sign(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the sign of each element."""

def signbit(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return a mask of the negative elements (-0. too)."""

def sin(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the sine of each element."""

def sin_(input: Operand) -> Value:
    """`sin`, in place."""

def sinc(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return ``sin(pi * input) / (pi * input)``, which is 1 at 0."""

def sinc_(input: Operand) -> Value:
    """`sinc`, in place."""

def sinh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the hyperbolic sine of each element."""

def sinh_(input: Operand) -> Value:
    """`sinh`, in place."""

def slice_copy(
    input: Tensor,
    dim: builtins.int = 0,
    start: builtins.int | None = None,
    end: builtins.int | None = None,
    step: builtins.int = 1,
    *,
    out: Any = None,
) -> Value:
    """Return a copy of the positions from ``start`` to ``end`` along a dimension."""

def slice_scatter(
    input: Operand,
    src: Operand,
    dim: builtins.int = 0,
    start: builtins.int | None = None,
    end: builtins.int | None = None,
    step: builtins.int = 1,
) -> Value:
    """Return a copy with ``src`` in place of a slice of a dimension."""

def slogdet(input: Operand, *, out: Any = None) -> Any:
    """Return the signs of the determinants, and the logarithms of their absolute values."""

def softmax(input: Operand, dim: builtins.int, dtype: DtypeLike | None = None, *, out: Any = None) -> Value:
    """Return the softmax along a dimension."""

def solve(*args: Any, **kwargs: Any) -> Any:
    """Raise: PyTorch has removed ``solve``."""

def sort(
    input: Operand,
    dim: builtins.int = -1,
    descending: builtins.bool = False,
    *,
    stable: builtins.bool | None = None,
    out: Any = None,
) -> Any:
    """Return the sorted elements along a dimension, and their former indices."""

def split(tensor: Operand, split_size: Any, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
    """Return views of pieces along a dimension: of one size (the last may be smaller), or of these sizes."""

def split_copy(input: Tensor, split_size: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
    """Return copies of the pieces of `split`."""

def split_with_sizes(input: Operand, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
    """Return views of pieces of these sizes along a dimension."""

def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[builtins.int], dim: builtins.int = 0
) -> builtins.tuple[Any, ...]:
    """Return copies of the pieces of `split_with_sizes`."""

def sqrt(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the square root of each element."""

def sqrt_(input: Operand) -> Value:
    """`sqrt`, in place."""

def square(input: Operand, *, out: Any = None) -> Value:
    """Return ``input ** 2``."""

def square_(input: Operand) -> Value:
    """`square`, in place."""

def squeeze(input: Operand, dim: builtins.int | Sequence[builtins.int] | None = None) -> Value:
    """Return a view without dimensions of size 1."""

def squeeze_copy(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, *, out: Any = None) -> Value:
    """Return a copy of `squeeze`."""

def stack(tensors: Sequence[Operand], dim: builtins.int = 0, *, out: Any = None) -> Value:
    """Return tensors joined along a new dimension."""

def std(
    input: Operand,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: builtins.bool = False,
    *,
    correction: builtins.float | None = None,
) -> Any:
    """Return the standard deviation, of all elements or along dimensions; with Bessel's correction by default."""

def std_mean(
    input: Operand,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: builtins.bool = False,
    *,
    correction: builtins.float | None = None,
) -> Any:
    """Return the standard deviation and the mean, of all elements or along dimensions; with Bessel's correction by default."""

def stft(
    input: Operand,
    n_fft: builtins.int,
    hop_length: builtins.int | None = None,
    win_length: builtins.int | None = None,
    window: Operand | None = None,
    center: builtins.bool = True,
    pad_mode: builtins.str = "reflect",
    normalized: builtins.bool = False,
    onesided: builtins.bool | None = None,
    return_complex: builtins.bool | None = None,
    align_to_window: builtins.bool | None = None,
) -> Value:
    """Return the Fourier transforms of overlapping pieces of a signal."""

def sub(input: Operand, other: Operand, *older: Operand, alpha: Operand = 1, out: Any = None) -> Value:
    """Return ``input - alpha * other``."""

def subtract(input: Operand, other: Operand, *older: Operand, alpha: Operand = 1, out: Any = None) -> Value:
    """Return ``input - alpha * other``."""

def sum(
    input: Operand,
    dim: Dims | EllipsisType = ...,
    keepdim: builtins.bool = False,
    *,
    dtype: DtypeLike | None = None,
    out: Tensor | None = None,
) -> Value:
    """Return the sum of all elements, or along dimensions; integers sum to int64."""

def svd(input: Operand, some: builtins.bool = True, compute_uv: builtins.bool = True, *, out: Any = None) -> Any:
    """Return the singular value decomposition ``input = U @ diag(S) @ V.mH``; the older form of `linalg.svd`."""

def svd_lowrank(
    A: Operand, q: builtins.int | None = 6, niter: builtins.int = 2, M: Operand | None = None
) -> builtins.tuple[Any, Any, Any]:
    """Return an approximate singular value decomposition of low rank: U, S, V."""

def swapaxes(input: Operand, dim0: builtins.int, dim1: builtins.int) -> Value:
    """Return a view with two dimensions swapped."""

def swapdims(input: Operand, dim0: builtins.int, dim1: builtins.int) -> Value:
    """Return a view with two dimensions swapped."""

def symeig(*args: Any, **kwargs: Any) -> Any:
    """Raise: PyTorch has removed ``symeig``."""

def t(input: Operand) -> Value:
    """Return the transpose of a matrix (vectors and numbers are unchanged)."""

def t_copy(input: Tensor, *, out: Any = None) -> Value:
    """Return a copy of `t`."""

def take(input: Operand, index: Operand, *, out: Any = None) -> Value:
    """Return elements by their index in the flattened tensor."""

def take_along_dim(input: Operand, indices: Operand, dim: builtins.int | None = None, *, out: Any = None) -> Value:
    """Return elements by index along a dimension; the other dimensions broadcast."""

def tan(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the tangent of each element."""

def tan_(input: Operand) -> Value:
    """`tan`, in place."""

def tanh(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the hyperbolic tangent of each element."""

def tanh_(input: Tensor) -> Value:
    """`tanh`, in place."""

def tensor(
    data: Any, *, dtype: DtypeLike | None = None, device: DeviceLike | None = None, requires_grad: builtins.bool = False
) -> Tensor:
    """Return a leaf tensor with a copy of ``data``: numbers, nested lists, an array or a tensor."""

def tensor_split(input: Operand, indices_or_sections: Any, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
    """Return views of pieces along a dimension: a number of them, sizes differing by at most 1; or between positions."""

def tensordot(a: Operand, b: Operand, dims: Any = 2, *, out: Any = None) -> Value:
    """Return sums of products over pairs of dimensions."""

def thread_safe_generator() -> Generator | None:
    """Return the generator of this worker thread of a DataLoader; None elsewhere."""

def threshold(input: Operand, threshold: builtins.float, value: builtins.float) -> Value:
    """Return ``input`` where it is above the threshold, ``value`` elsewhere."""

def threshold_(input: Operand, threshold: builtins.float, value: builtins.float) -> Value:
    """`threshold`, in place."""

def tile(input: Operand, *dims: builtins.int | Sequence[builtins.int]) -> Value:
    """Return the tensor repeated along each of the last dimensions."""

def to_dlpack(tensor: Tensor) -> Any:
    """Return a DLPack capsule of the memory of a tensor."""

def topk(
    input: Operand,
    k: builtins.int,
    dim: builtins.int = -1,
    largest: builtins.bool = True,
    sorted: builtins.bool = True,
    *,
    out: Any = None,
) -> Any:
    """Return the ``k`` largest (or smallest) elements along a dimension, and their indices."""

def trace(input: Operand) -> Value:
    """Return the sum of the diagonal of a matrix."""

def transpose(input: Operand, dim0: builtins.int, dim1: builtins.int) -> Value:
    """Return a view with two dimensions swapped."""

def transpose_copy(input: Tensor, dim0: builtins.int, dim1: builtins.int, *, out: Any = None) -> Value:
    """Return a copy of `transpose`."""

def trapezoid(y: Operand, x: Any = None, *, dx: Any = None, dim: builtins.int = -1) -> Value:
    """Return the integral of samples along a dimension, by the trapezoidal rule."""

def trapz(y: Operand, x: Any = None, *, dx: Any = None, dim: builtins.int = -1) -> Value:
    """Return the integral of samples along a dimension, by the trapezoidal rule."""

def triangular_solve(
    input: Operand,
    A: Operand,
    upper: builtins.bool = True,
    transpose: builtins.bool = False,
    unitriangular: builtins.bool = False,
    *,
    out: Any = None,
) -> Any:
    """Return the solution of ``A X = input`` for triangular matrices, and a copy of ``A``; the older form of `solve_triangular`."""

def tril(input: Operand, diagonal: builtins.int = 0, *, out: Any = None) -> Value:
    """Return the lower triangle of matrices, zero elsewhere."""

def tril_indices(
    row: builtins.int,
    col: builtins.int,
    offset: builtins.int = 0,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return the positions of the lower triangle of a matrix: rows and columns."""

def triplet_margin_loss(
    anchor: Operand,
    positive: Operand,
    negative: Operand,
    margin: builtins.float = 1.0,
    p: builtins.float = 2.0,
    eps: builtins.float = 1e-06,
    swap: builtins.bool = False,
    reduction: builtins.int = 0,
) -> Value:
    """Return the loss of triplets; see ``nn.functional.triplet_margin_loss``."""

def triu(input: Operand, diagonal: builtins.int = 0, *, out: Any = None) -> Value:
    """Return the upper triangle of matrices, zero elsewhere."""

def triu_indices(
    row: builtins.int,
    col: builtins.int,
    offset: builtins.int = 0,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
) -> Tensor:
    """Return the positions of the upper triangle of a matrix: rows and columns."""

def true_divide(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return ``input / other``; integers divide to floats."""

def trunc(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the integer part of each element."""

def trunc_(input: Operand) -> Value:
    """`trunc`, in place."""

def unbind(input: Operand, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
    """Return views of all positions along a dimension."""

def unbind_copy(input: Tensor, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
    """Return copies of the positions of `unbind`."""

def unflatten(input: Operand, dim: builtins.int, sizes: Sequence[builtins.int]) -> Value:
    """Return a view with a dimension split into several."""

def unfold_copy(input: Tensor, dimension: builtins.int, size: builtins.int, step: builtins.int, *, out: Any = None) -> Value:
    """Return a copy of `unfold`."""

def unique(
    input: Operand,
    sorted: builtins.bool = True,
    return_inverse: builtins.bool = False,
    return_counts: builtins.bool = False,
    dim: builtins.int | None = None,
) -> Any:
    """Return the different elements (or slices of a dimension), in ascending order."""

def unique_consecutive(
    input: Operand,
    return_inverse: builtins.bool = False,
    return_counts: builtins.bool = False,
    dim: builtins.int | None = None,
) -> Any:
    """Return the elements (or slices of a dimension) that differ from the one before."""

def unravel_index(indices: Tensor, shape: Any) -> builtins.tuple[Any, ...]:
    """Return the positions in a shape of positions among all elements."""

def unsafe_chunk(input: Operand, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
    """Return pieces that may be written into."""

def unsafe_split(tensor: Operand, split_size: Any, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
    """Return pieces that may be written into."""

def unsafe_split_with_sizes(tensor: Operand, split_size: Any, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
    """Return pieces that may be written into."""

def unsqueeze(input: Operand, dim: builtins.int) -> Value:
    """Return a view with one more dimension, of size 1."""

def unsqueeze_copy(input: Tensor, dim: builtins.int, *, out: Any = None) -> Value:
    """Return a copy of `unsqueeze`."""

def vander(x: Operand, N: builtins.int | None = None, increasing: builtins.bool = False) -> Value:
    """Return the powers of the elements of a vector as columns, in descending order by default."""

def var(
    input: Operand,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: builtins.bool = False,
    *,
    correction: builtins.float | None = None,
) -> Any:
    """Return the variance, of all elements or along dimensions; with Bessel's correction by default."""

def var_mean(
    input: Operand,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: builtins.bool = False,
    *,
    correction: builtins.float | None = None,
) -> Any:
    """Return the variance and the mean, of all elements or along dimensions; with Bessel's correction by default."""

def vdot(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the product of two vectors, the first conjugated."""

def view_as_complex(input: Tensor) -> Value:
    """Return a view as complex numbers, whose real and imaginary parts are in the last axis."""

def view_as_complex_copy(input: Tensor, *, out: Any = None) -> Value:
    """Return a copy of `view_as_complex`."""

def view_as_real(input: Tensor) -> Value:
    """Return a view of complex numbers with a last axis of their real and imaginary parts."""

def view_as_real_copy(input: Tensor, *, out: Any = None) -> Value:
    """Return a copy of `view_as_real`."""

def view_copy(
    input: Tensor, size: Sequence[builtins.int] | Dtype | None = None, *, dtype: Dtype | None = None, out: Any = None
) -> Value:
    """Return a copy in another shape, or of the memory as another dtype."""

def vsplit(input: Operand, indices_or_sections: Any) -> builtins.tuple[Any, ...]:
    """Return pieces of the tensor along dimension 0, as views."""

def vstack(tensors: Sequence[Operand], *, out: Any = None) -> Value:
    """Return tensors joined along the first dimension; vectors are rows."""

def where(condition: Operand, input: Any = None, other: Any = None, *, out: Any = None) -> Value:
    """Return ``input`` where the condition is true, ``other`` elsewhere; without them, the positions of true elements."""

def xlogy(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return ``input * log(other)``, 0 where the input is 0; either may be a number."""

def xlogy_(input: Operand, other: Operand) -> Value:
    """`xlogy`, in place."""

def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with 0."""

def zeros(
    *sizes: builtins.int | Sequence[builtins.int],
    size: Sequence[builtins.int] | None = None,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    out: Any = None,
) -> Tensor:
    """Return zeros."""

def zeros_like(
    input: Operand,
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: builtins.bool | None = None,
    requires_grad: builtins.bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Return zeros of a tensor's shape and dtype."""

class Methods:
    """What the rows give to `Tensor`."""

    @property
    def H(self) -> Tensor:
        """The conjugate transpose of a matrix."""

    @property
    def T(self) -> Tensor:
        """The tensor with its dimensions in reverse order, a view."""

    def __abs__(self) -> Tensor:
        """Return the absolute value of each element; the derivative at 0 is 0."""

    def __add__(self, other: Operand) -> Tensor: ...
    def __and__(self, other: Operand) -> Tensor: ...
    def __contains__(self, element: Any) -> builtins.bool:
        """Return True if some element equals this one."""

    def __deepcopy__(self, memo: builtins.dict[builtins.int, Any]) -> Tensor:
        """Return a copy of a leaf, and of its gradient."""

    def __div__(self, other: Operand) -> Tensor: ...
    def __dlpack__(self, *, stream: Any = None, **options: Any) -> Any:
        """Return a DLPack capsule of the memory of this tensor."""

    def __dlpack_device__(self) -> builtins.tuple[builtins.int, builtins.int]:
        """Return DLPack's number of the CPU."""

    def __eq__(self, other: builtins.object) -> Any: ...
    def __floordiv__(self, other: Operand) -> Tensor: ...
    def __ge__(self, other: Operand) -> Tensor: ...
    def __getitem__(self, index: Any) -> Tensor:
        """Return ``input[index]``: a view, one step per dimension; a copy if the index has tensors, lists or masks."""

    def __gt__(self, other: Operand) -> Tensor: ...
    def __iadd__(self, other: Operand, *older: Operand, alpha: Operand = 1) -> Tensor:
        """`add`, in place."""

    def __iand__(self, other: Operand) -> Tensor:
        """`bitwise_and`, in place."""

    def __idiv__(self, other: Operand, *, rounding_mode: builtins.str | None = "") -> Tensor:
        """`div`, in place."""

    def __ifloordiv__(self, other: Operand) -> Tensor:
        """`floor_divide`, in place."""

    def __ilshift__(self, other: Operand) -> Tensor:
        """`bitwise_left_shift`, in place."""

    def __imod__(self, other: Operand) -> Tensor:
        """`remainder`, in place."""

    def __imul__(self, other: Operand) -> Tensor:
        """`mul`, in place."""

    def __invert__(self) -> Tensor:
        """Return the bitwise inversion of each element; for bools, the logical negation."""

    def __ior__(self, other: Operand) -> Tensor:
        """`bitwise_or`, in place."""

    def __ipow__(self, exponent: Operand) -> Tensor:
        """`pow`, in place."""

    def __irshift__(self, other: Operand) -> Tensor:
        """`bitwise_right_shift`, in place."""

    def __isub__(self, other: Operand, *older: Operand, alpha: Operand = 1) -> Tensor:
        """`sub`, in place."""

    def __itruediv__(self, other: Operand, *, rounding_mode: builtins.str | None = "") -> Tensor:
        """`div`, in place."""

    def __ixor__(self, other: Operand) -> Tensor:
        """`bitwise_xor`, in place."""

    def __le__(self, other: Operand) -> Tensor: ...
    def __lshift__(self, other: Operand) -> Tensor: ...
    def __lt__(self, other: Operand) -> Tensor: ...
    def __matmul__(self, other: Operand) -> Tensor: ...
    def __mod__(self, other: Operand) -> Tensor: ...
    def __mul__(self, other: Operand) -> Tensor: ...
    def __ne__(self, other: builtins.object) -> Any: ...
    def __neg__(self, *, out: Tensor | None = None) -> Tensor:
        """Return ``-input``."""

    def __or__(self, other: Operand) -> Tensor: ...
    def __pos__(self) -> Tensor:
        """Return the tensor itself."""

    def __pow__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __rand__(self, other: Operand) -> Tensor: ...
    def __rdiv__(self, other: Any) -> Any: ...
    def __reduce_ex__(self, _protocol: builtins.object = None) -> builtins.tuple[Any, Rebuild]:
        """Return the pickled state of a tensor, without its gradient, history, and hooks; warns of hooks."""

    def __repr__(self) -> builtins.str:
        """Return ``tensor([1., 2.], grad_fn=<MulBackward0>)``."""

    def __rfloordiv__(self, other: Operand) -> Tensor: ...
    def __rlshift__(self, other: Operand) -> Tensor: ...
    def __rmatmul__(self, other: Operand) -> Tensor: ...
    def __rmod__(self, other: Operand) -> Tensor: ...
    def __rmul__(self, other: Operand) -> Tensor: ...
    def __ror__(self, other: Operand) -> Tensor: ...
    def __rpow__(self, other: Operand) -> Tensor: ...
    def __rrshift__(self, other: Operand) -> Tensor: ...
    def __rshift__(self, other: Operand) -> Tensor: ...
    def __rsub__(self, other: Operand) -> Tensor: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __rxor__(self, other: Operand) -> Tensor: ...
    def __setitem__(self, index: Any, value: Operand) -> None:
        """Write ``self[index] = value``: through a view, or element by element if the index has tensors or masks."""

    def __sub__(self, other: Operand) -> Tensor: ...
    def __truediv__(self, other: Operand) -> Tensor: ...
    def __xor__(self, other: Operand) -> Tensor: ...
    def _neg_view(self) -> Tensor:
        """Return the negation, a view."""

    def _recorded_copy(self) -> Tensor:
        """Return the copy that ``.grad`` holds under ``create_graph``."""

    def _typed_storage(self) -> TypedStorage:
        """Return the tensor's storage, as elements."""

    def abs(self) -> Tensor:
        """Return the absolute value of each element; the derivative at 0 is 0."""

    def abs_(self) -> Tensor:
        """`abs`, in place."""

    def absolute(self) -> Tensor:
        """Return the absolute value of each element; the derivative at 0 is 0."""

    def absolute_(self) -> Tensor:
        """`abs`, in place."""

    def acos(self) -> Tensor:
        """Return the arccosine of each element."""

    def acos_(self) -> Tensor:
        """`acos`, in place."""

    def acosh(self) -> Tensor:
        """Return the inverse hyperbolic cosine of each element."""

    def acosh_(self) -> Tensor:
        """`acosh`, in place."""

    def add(self, other: Operand, *older: Operand, alpha: Operand = 1) -> Tensor:
        """Return ``input + alpha * other``."""

    def add_(self, other: Operand, *older: Operand, alpha: Operand = 1) -> Tensor:
        """`add`, in place."""

    def addbmm(self, batch1: Operand, batch2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return ``beta * input + alpha * sum(batch1 @ batch2)``, the sum over stacks of matrices."""

    def addbmm_(self, batch1: Operand, batch2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """`addbmm`, in place."""

    def addcdiv(self, tensor1: Operand, tensor2: Operand, *older: Operand, value: Any = 1) -> Tensor:
        """Return ``input + value * tensor1 / tensor2``."""

    def addcdiv_(self, tensor1: Operand, tensor2: Operand, *older: Operand, value: Any = 1) -> Tensor:
        """`addcdiv`, in place."""

    def addcmul(self, tensor1: Operand, tensor2: Operand, *older: Operand, value: Any = 1) -> Tensor:
        """Return ``input + value * tensor1 * tensor2``."""

    def addcmul_(self, tensor1: Operand, tensor2: Operand, *older: Operand, value: Any = 1) -> Tensor:
        """`addcmul`, in place."""

    def addmm(self, mat1: Operand, mat2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return ``beta * input + alpha * mat1 @ mat2``."""

    def addmm_(self, mat1: Operand, mat2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """`addmm`, in place."""

    def addmv(self, mat: Operand, vec: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return ``beta * input + alpha * mat @ vec``."""

    def addmv_(self, mat: Operand, vec: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """`addmv`, in place."""

    def addr(self, vec1: Operand, vec2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return ``beta * input + alpha * outer(vec1, vec2)``."""

    def addr_(self, vec1: Operand, vec2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """`addr`, in place."""

    def adjoint(self) -> Tensor:
        """Return the conjugate transpose of matrices, a view."""

    def all(self, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
        """Return True if all elements are true, of all elements or along dimensions."""

    def allclose(
        self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False
    ) -> builtins.bool:
        """Return True if all elements are close: ``|input - other| <= atol + rtol * |other|``."""

    def amax(self, dim: Dims = (), keepdim: builtins.bool = False) -> Tensor:
        """Return the largest element, of all or along dimensions; ties share the gradient."""

    def amin(self, dim: Dims = (), keepdim: builtins.bool = False) -> Tensor:
        """Return the smallest element, of all or along dimensions; ties share the gradient."""

    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the smallest and the largest element, of all or along a dimension."""

    def angle(self) -> Tensor:
        """Return the angle of complex numbers; of negative ones, pi."""

    def any(self, dim: Dims = None, keepdim: builtins.bool = False) -> Tensor:
        """Return True if any elements are true, of all elements or along dimensions."""

    def apply_(self, *given: Any) -> Tensor:
        """Overwrite each element with what a Python function returns for it."""

    def arccos(self) -> Tensor:
        """Return the arccosine of each element."""

    def arccos_(self) -> Tensor:
        """`acos`, in place."""

    def arccosh(self) -> Tensor:
        """Return the inverse hyperbolic cosine of each element."""

    def arccosh_(self) -> Tensor:
        """`acosh`, in place."""

    def arcsin(self) -> Tensor:
        """Return the arcsine of each element."""

    def arcsin_(self) -> Tensor:
        """`asin`, in place."""

    def arcsinh(self) -> Tensor:
        """Return the inverse hyperbolic sine of each element."""

    def arcsinh_(self) -> Tensor:
        """`asinh`, in place."""

    def arctan(self) -> Tensor:
        """Return the arctangent of each element."""

    def arctan2(self, other: Operand) -> Tensor:
        """Return the angle of the points ``(other, input)``, element by element."""

    def arctan2_(self, other: Operand) -> Tensor:
        """`atan2`, in place."""

    def arctan_(self) -> Tensor:
        """`atan`, in place."""

    def arctanh(self) -> Tensor:
        """Return the inverse hyperbolic tangent of each element."""

    def arctanh_(self) -> Tensor:
        """`atanh`, in place."""

    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Return the index of the maximum, of all elements or along a dimension."""

    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Return the index of the minimum, of all elements or along a dimension."""

    def argsort(self, dim: builtins.int = -1, descending: builtins.bool = False, *, stable: builtins.bool = False) -> Tensor:
        """Return the indices that sort elements along a dimension."""

    def argwhere(self) -> Tensor:
        """Return the positions of nonzero elements, one row each."""

    def as_strided(
        self, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None
    ) -> Tensor:
        """Return a view of the storage with these sizes and strides; by default, with the tensor's offset."""

    def as_strided_(
        self, size: Sequence[builtins.int], stride: Sequence[builtins.int], storage_offset: builtins.int | None = None
    ) -> Tensor:
        """`as_strided`, in place."""

    def as_strided_scatter(
        self,
        src: Operand,
        size: Sequence[builtins.int],
        stride: Sequence[builtins.int],
        storage_offset: builtins.int | None = None,
    ) -> Tensor:
        """Return a copy with ``src`` in place of the view `as_strided` of it."""

    def asin(self) -> Tensor:
        """Return the arcsine of each element."""

    def asin_(self) -> Tensor:
        """`asin`, in place."""

    def asinh(self) -> Tensor:
        """Return the inverse hyperbolic sine of each element."""

    def asinh_(self) -> Tensor:
        """`asinh`, in place."""

    def atan(self) -> Tensor:
        """Return the arctangent of each element."""

    def atan2(self, other: Operand) -> Tensor:
        """Return the angle of the points ``(other, input)``, element by element."""

    def atan2_(self, other: Operand) -> Tensor:
        """`atan2`, in place."""

    def atan_(self) -> Tensor:
        """`atan`, in place."""

    def atanh(self) -> Tensor:
        """Return the inverse hyperbolic tangent of each element."""

    def atanh_(self) -> Tensor:
        """`atanh`, in place."""

    def backward(
        self,
        gradient: Any = None,
        retain_graph: builtins.bool | None = None,
        create_graph: builtins.bool = False,
        inputs: Any = None,
    ) -> None:
        """Add the gradient of this tensor to the ``.grad`` of leaves; see `functrace.torch.autograd.backward`."""

    def baddbmm(self, batch1: Operand, batch2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """Return ``beta * input + alpha * batch1 @ batch2`` for stacks of matrices."""

    def baddbmm_(self, batch1: Operand, batch2: Operand, *older: Operand, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """`baddbmm`, in place."""

    def bernoulli(self, p: builtins.float | None = None, *, generator: builtins.object = None) -> Tensor:
        """Return ones, with the probabilities that the tensor holds (or with one for all), and zeros."""

    def bernoulli_(self, p: builtins.object = 0.5, *, generator: builtins.object = None) -> Tensor:
        """Overwrite with ones, with a probability (or with those of a tensor), and zeros."""

    def bfloat16(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.bfloat16."""

    def bincount(self, weights: Operand | None = None, minlength: builtins.int = 0) -> Tensor:
        """Return how often each number occurs in a vector of non-negative integers, or the sum of its weights."""

    def bitwise_and(self, other: Operand) -> Tensor:
        """Return the bitwise and."""

    def bitwise_and_(self, other: Operand) -> Tensor:
        """`bitwise_and`, in place."""

    def bitwise_left_shift(self, other: Operand) -> Tensor:
        """Return the bits of ``input`` shifted by ``other``."""

    def bitwise_left_shift_(self, other: Operand) -> Tensor:
        """`bitwise_left_shift`, in place."""

    def bitwise_not(self) -> Tensor:
        """Return the bitwise inversion of each element; for bools, the logical negation."""

    def bitwise_not_(self) -> Tensor:
        """`bitwise_not`, in place."""

    def bitwise_or(self, other: Operand) -> Tensor:
        """Return the bitwise or."""

    def bitwise_or_(self, other: Operand) -> Tensor:
        """`bitwise_or`, in place."""

    def bitwise_right_shift(self, other: Operand) -> Tensor:
        """Return the bits of ``input`` shifted by ``other``."""

    def bitwise_right_shift_(self, other: Operand) -> Tensor:
        """`bitwise_right_shift`, in place."""

    def bitwise_xor(self, other: Operand) -> Tensor:
        """Return the bitwise exclusive or."""

    def bitwise_xor_(self, other: Operand) -> Tensor:
        """`bitwise_xor`, in place."""

    def bmm(self, other: Operand) -> Tensor:
        """Return the products of pairs of matrices."""

    def bool(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.bool."""

    def broadcast_to(self, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return a view that repeats dimensions of size 1; -1 keeps a size."""

    def byte(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.uint8."""

    def cauchy_(
        self, median: builtins.float = 0.0, sigma: builtins.float = 1.0, *, generator: builtins.object = None
    ) -> Tensor:
        """Overwrite with numbers of Cauchy's distribution."""

    def cdouble(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.complex128."""

    def ceil(self) -> Tensor:
        """Return the smallest integer that is not below each element."""

    def ceil_(self) -> Tensor:
        """`ceil`, in place."""

    def cfloat(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.complex64."""

    def chalf(self, memory_format: Any = None) -> Tensor:
        """Raise: NumPy has no complex numbers of half precision."""

    def char(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.int8."""

    def cholesky(self, upper: builtins.bool = False) -> Tensor:
        """Return the triangular factor of a positive definite matrix; the older form of `linalg.cholesky`."""

    def cholesky_inverse(self, upper: builtins.bool = False) -> Tensor:
        """Return the inverse of a positive definite matrix, from its triangular factor."""

    def cholesky_solve(self, L: Operand, upper: builtins.bool = False) -> Tensor:
        """Return the solution of ``A X = input``, from the triangular factor of ``A``."""

    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
        """Return views of at most ``chunks`` pieces of one size along a dimension."""

    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Return each element, limited to the bounds; at a bound the derivative is 1."""

    def clamp_(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """`clamp`, in place."""

    def clamp_max(self, max: Operand) -> Tensor:
        """Return each element, at most the bound."""

    def clamp_max_(self, max: Operand) -> Tensor:
        """`clamp_max`, in place."""

    def clamp_min(self, min: Operand) -> Tensor:
        """Return each element, at least the bound."""

    def clamp_min_(self, min: Operand) -> Tensor:
        """`clamp_min`, in place."""

    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Return each element, limited to the bounds; at a bound the derivative is 1."""

    def clip_(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """`clamp`, in place."""

    def clone(self, *, memory_format: MemoryFormat | None = None) -> Tensor:
        """Return a differentiable copy, by default with the order of dimensions in memory."""

    def conj(self) -> Tensor:
        """Return the conjugate, a view; a real tensor is returned itself."""

    def conj_physical(self) -> Tensor:
        """Return the conjugate, computed at once; a real tensor is returned itself."""

    def conj_physical_(self) -> Tensor:
        """`conj_physical`, in place."""

    def const_data_ptr(self) -> builtins.int:
        """Return the address of the first element."""

    def contiguous(self, memory_format: MemoryFormat | None = None) -> Tensor:
        """Return the tensor itself if it is contiguous in a memory format, otherwise a copy."""

    def copy_(self, src: Operand, non_blocking: builtins.bool = False) -> Tensor:
        """Overwrite with another tensor's elements, broadcast and converted."""

    def copysign(self, other: Operand) -> Tensor:
        """Return the size of ``input`` with the sign of ``other``."""

    def copysign_(self, other: Operand) -> Tensor:
        """`copysign`, in place."""

    def corrcoef(self) -> Tensor:
        """Return the correlations of variables, which are rows; columns are observations."""

    def cos(self) -> Tensor:
        """Return the cosine of each element."""

    def cos_(self) -> Tensor:
        """`cos`, in place."""

    def cosh(self) -> Tensor:
        """Return the hyperbolic cosine of each element."""

    def cosh_(self) -> Tensor:
        """`cosh`, in place."""

    def count_nonzero(self, dim: Dims = None) -> Tensor:
        """Return the number of nonzero elements."""

    def cov(
        self, *, correction: builtins.int = 1, fweights: Operand | None = None, aweights: Operand | None = None
    ) -> Tensor:
        """Return the covariances of variables, which are rows; columns are observations."""

    def cpu(self, memory_format: Any = None) -> Tensor:
        """Return the tensor itself, which is on the CPU; a copy in another memory format."""

    def cross(self, other: Operand, dim: builtins.int | None = None) -> Tensor:
        """Return the cross products of vectors with 3 coordinates along a dimension: by default, the first one of size 3."""

    def cuda(self, device: Any = None) -> Tensor:
        """Raise: there is no CUDA here."""

    def cummax(self, dim: builtins.int) -> Any:
        """Return the maximum of all elements so far along a dimension, and its index."""

    def cummin(self, dim: builtins.int) -> Any:
        """Return the minimum of all elements so far along a dimension, and its index."""

    def cumprod(self, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the cumulative product along a dimension; integers become int64."""

    def cumprod_(self, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Tensor:
        """`cumprod`, in place."""

    def cumsum(self, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the cumulative sum along a dimension; integers become int64."""

    def cumsum_(self, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Tensor:
        """`cumsum`, in place."""

    def deg2rad(self) -> Tensor:
        """Return angles in degrees as radians."""

    def deg2rad_(self) -> Tensor:
        """`deg2rad`, in place."""

    def det(self) -> Tensor:
        """Return the determinants of square matrices."""

    def detach_(self) -> Tensor:
        """Drop the history, in place."""

    def diag(self, diagonal: builtins.int = 0) -> Tensor:
        """Return a diagonal of a matrix, or a matrix with a vector on a diagonal."""

    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Return matrices, in two dimensions of the result, with the last dimension on a diagonal."""

    def diagflat(self, offset: builtins.int = 0) -> Tensor:
        """Return a matrix with all elements on a diagonal."""

    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """Return a view of a diagonal of two dimensions, as the last dimension."""

    def diagonal_scatter(
        self, src: Operand, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1
    ) -> Tensor:
        """Return a copy with ``src`` on a diagonal of two dimensions."""

    def diff(
        self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Operand | None = None, append: Operand | None = None
    ) -> Tensor:
        """Return the differences of neighbours along a dimension, ``n`` times."""

    def digamma(self) -> Tensor:
        """Return the derivative of `lgamma`."""

    def digamma_(self) -> Tensor:
        """`digamma`, in place."""

    def dim_order(self) -> builtins.tuple[builtins.int, ...]:
        """Return the dimensions in their order in memory, the outermost first."""

    def dist(self, other: Operand, p: builtins.float = 2) -> Tensor:
        """Return the norm of the difference."""

    def div(self, other: Operand, *, rounding_mode: builtins.str | None = "") -> Tensor:
        """Return ``input / other``; integers divide to floats, unless the quotient is rounded."""

    def div_(self, other: Operand, *, rounding_mode: builtins.str | None = "") -> Tensor:
        """`div`, in place."""

    def divide(self, other: Operand, *, rounding_mode: builtins.str | None = "") -> Tensor:
        """Return ``input / other``; integers divide to floats, unless the quotient is rounded."""

    def divide_(self, other: Operand, *, rounding_mode: builtins.str | None = "") -> Tensor:
        """`div`, in place."""

    def dot(self, other: Operand) -> Tensor:
        """Return the product of two vectors."""

    def double(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.float64."""

    def dsplit(self, indices_or_sections: Any) -> builtins.tuple[Any, ...]:
        """Return pieces of the tensor along dimension 2, as views."""

    def eig(self, **kwargs: Any) -> Any:
        """Raise: PyTorch has removed ``eig``."""

    def eq(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is equal to ``other``."""

    def eq_(self, other: Operand) -> Tensor:
        """`eq`, in place."""

    def equal(self, other: Tensor) -> builtins.bool:
        """Return True if two tensors have the same shape and elements."""

    def erf(self) -> Tensor:
        """Return the error function of each element."""

    def erf_(self) -> Tensor:
        """`erf`, in place."""

    def erfc(self) -> Tensor:
        """Return the complementary error function, ``1 - erf(input)``."""

    def erfc_(self) -> Tensor:
        """`erfc`, in place."""

    def erfinv(self) -> Tensor:
        """Return the inverse of the error function."""

    def erfinv_(self) -> Tensor:
        """`erfinv`, in place."""

    def exp(self) -> Tensor:
        """Return the exponential of each element."""

    def exp2(self) -> Tensor:
        """Return the power of 2 of each element."""

    def exp2_(self) -> Tensor:
        """`exp2`, in place."""

    def exp_(self) -> Tensor:
        """`exp`, in place."""

    def expand(self, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return a view that repeats dimensions of size 1; -1 keeps a size."""

    def expand_as(self, other: Operand) -> Tensor:
        """Return a view expanded to another tensor's shape."""

    def expm1(self) -> Tensor:
        """Return the exponential minus 1, accurate near 0, of each element."""

    def expm1_(self) -> Tensor:
        """`expm1`, in place."""

    def exponential_(self, lambd: builtins.float = 1.0, *, generator: builtins.object = None) -> Tensor:
        """Overwrite with exponentially distributed numbers."""

    def fill_(self, value: Operand) -> Tensor:
        """Overwrite every element with a number."""

    def fill_diagonal_(self, fill_value: Any, wrap: builtins.bool = False) -> Tensor:
        """Fill the diagonal of a matrix, or of a tensor with dimensions of one size, with a number."""

    def fix(self) -> Tensor:
        """Return the integer part of each element."""

    def fix_(self) -> Tensor:
        """`trunc`, in place."""

    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Return the tensor with dimensions merged into one."""

    def flip(self, *dims: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return the tensor with the order along dimensions reversed."""

    def fliplr(self) -> Tensor:
        """Return the tensor with its second dimension reversed."""

    def flipud(self) -> Tensor:
        """Return the tensor with its first dimension reversed."""

    def float(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.float32."""

    def float_power(self, exponent: Operand) -> Tensor:
        """Return ``input ** exponent`` in double precision."""

    def float_power_(self, exponent: Operand) -> Tensor:
        """`float_power`, in place: for tensors in double precision."""

    def floor(self) -> Tensor:
        """Return the largest integer that is not above each element."""

    def floor_(self) -> Tensor:
        """`floor`, in place."""

    def floor_divide(self, other: Operand) -> Tensor:
        """Return ``input / other``, rounded down."""

    def floor_divide_(self, other: Operand) -> Tensor:
        """`floor_divide`, in place."""

    def fmax(self, other: Operand) -> Tensor:
        """Return the larger (ignoring nan) element of each pair."""

    def fmin(self, other: Operand) -> Tensor:
        """Return the smaller (ignoring nan) element of each pair."""

    def fmod(self, other: Operand) -> Tensor:
        """Return the remainder of ``input / other``, with the sign of ``input``."""

    def fmod_(self, other: Operand) -> Tensor:
        """`fmod`, in place."""

    def frac(self) -> Tensor:
        """Return the part of each element behind its point, with its sign."""

    def frac_(self) -> Tensor:
        """`frac`, in place."""

    def frexp(self) -> Any:
        """Return mantissas in [0.5, 1) and exponents: ``input == mantissa * 2**exponent``."""

    def gather(self, dim: builtins.int, index: Operand, *, sparse_grad: builtins.bool = False) -> Tensor:
        """Return elements by index along a dimension."""

    def gcd(self, other: Operand) -> Tensor:
        """Return the greatest common divisor of each pair of integers."""

    def gcd_(self, other: Operand) -> Tensor:
        """`gcd`, in place."""

    def ge(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is at least ``other``."""

    def ge_(self, other: Operand) -> Tensor:
        """`ge`, in place."""

    def geometric_(self, p: builtins.float, *, generator: builtins.object = None) -> Tensor:
        """Overwrite with numbers of trials up to the first success."""

    def geqrf(self) -> Any:
        """Return ``R`` with the Householder vectors below it, and their factors."""

    def ger(self, vec2: Operand) -> Tensor:
        """Return the products of all pairs of elements of two vectors."""

    def get_device(self) -> builtins.int:
        """Return the number of its device: -1, the CPU."""

    @property
    def grad_fn(self) -> Any:
        """The node that computed this tensor; rebuilt for a view whose base was overwritten."""

    def greater(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is greater than ``other``."""

    def greater_(self, other: Operand) -> Tensor:
        """`gt`, in place."""

    def greater_equal(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is at least ``other``."""

    def greater_equal_(self, other: Operand) -> Tensor:
        """`ge`, in place."""

    def gt(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is greater than ``other``."""

    def gt_(self, other: Operand) -> Tensor:
        """`gt`, in place."""

    def half(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.float16."""

    def hardshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        """Return ``input``, but 0 between ``-lambd`` and ``lambd``."""

    def heaviside(self, values: Operand) -> Tensor:
        """Return 0 for negative elements, 1 for positive ones, and ``values`` for 0."""

    def heaviside_(self, values: Operand) -> Tensor:
        """`heaviside`, in place."""

    def histc(self, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> Tensor:
        """Return how many elements lie in each of equal bins."""

    def histogram(
        self,
        bins: Any,
        *,
        range: Sequence[builtins.float] | None = None,
        weight: Operand | None = None,
        density: builtins.bool = False,
    ) -> Any:
        """Return how many elements lie in each bin, and the edges of the bins."""

    def hsplit(self, indices_or_sections: Any) -> builtins.tuple[Any, ...]:
        """Return pieces of the tensor along dimension 1, as views."""

    def hypot(self, other: Operand) -> Tensor:
        """Return the hypotenuse, element by element."""

    def hypot_(self, other: Operand) -> Tensor:
        """`hypot`, in place."""

    def i0(self) -> Tensor:
        """Return the modified Bessel function of order 0."""

    def i0_(self) -> Tensor:
        """`i0`, in place."""

    def igamma(self, other: Operand) -> Tensor:
        """Return the regularized lower incomplete gamma function."""

    def igamma_(self, other: Operand) -> Tensor:
        """`igamma`, in place."""

    def igammac(self, other: Operand) -> Tensor:
        """Return the regularized upper incomplete gamma function."""

    def igammac_(self, other: Operand) -> Tensor:
        """`igammac`, in place."""

    @property
    def imag(self) -> Tensor:
        """The imaginary part, a view."""

    def index_add(self, dim: builtins.int, index: Operand, source: Operand, *, alpha: Any = 1) -> Tensor:
        """Return the tensor with slices of ``source`` added at indices along a dimension."""

    def index_add_(self, dim: builtins.int, index: Operand, source: Operand, *, alpha: Any = 1) -> Tensor:
        """`index_add`, in place."""

    def index_copy(self, dim: builtins.int, index: Operand, source: Operand) -> Tensor:
        """Return the tensor with slices of ``source`` copied to indices along a dimension."""

    def index_copy_(self, dim: builtins.int, index: Operand, source: Operand) -> Tensor:
        """`index_copy`, in place."""

    def index_fill(self, dim: builtins.int, index: Operand, value: Operand) -> Tensor:
        """Return the tensor with slices at indices along a dimension filled with a number."""

    def index_fill_(self, dim: builtins.int, index: Operand, value: Operand) -> Tensor:
        """`index_fill`, in place."""

    def index_put(self, indices: Sequence[Any], values: Operand, accumulate: builtins.bool = False) -> Tensor:
        """Return the tensor with values written at positions: ``input[indices] = values``."""

    def index_put_(self, indices: Sequence[Any], values: Operand, accumulate: builtins.bool = False) -> Tensor:
        """`index_put`, in place."""

    def index_reduce(
        self, dim: builtins.int, index: Operand, source: Operand, reduce: builtins.str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """Return the tensor with slices of ``source`` written at indices along a dimension, reduced if indices coincide."""

    def index_reduce_(
        self, dim: builtins.int, index: Operand, source: Operand, reduce: builtins.str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """`index_reduce`, in place."""

    def index_select(self, dim: builtins.int, index: Operand) -> Tensor:
        """Return the slices along a dimension at the indices in a vector."""

    def inner(self, other: Operand) -> Tensor:
        """Return the products of all vectors along the last dimensions."""

    def int(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.int32."""

    def inverse(self) -> Tensor:
        """Return the inverse of square matrices; see `inv`."""

    def is_coalesced(self) -> Any:
        """Always False: functrace has no such tensors."""

    def is_complex(self) -> builtins.bool:
        """Return True if the elements are complex."""

    def is_conj(self) -> builtins.bool:
        """Return True if a tensor is a conjugate view."""

    @property
    def is_cpu(self) -> Any:
        """Always True: every tensor is on the CPU."""

    @property
    def is_cuda(self) -> Any:
        """Always False: functrace has no such tensors."""

    def is_distributed(self) -> Any:
        """Always False: functrace has no such tensors."""

    @property
    def is_hpu(self) -> Any:
        """Always False: functrace has no such tensors."""

    def is_inference(self) -> builtins.bool:
        """Return True if a tensor was made in inference mode: it has no version, and is not saved for backward."""

    @property
    def is_ipu(self) -> Any:
        """Always False: functrace has no such tensors."""

    @property
    def is_maia(self) -> Any:
        """Always False: functrace has no such tensors."""

    @property
    def is_meta(self) -> Any:
        """Always False: functrace has no such tensors."""

    @property
    def is_mkldnn(self) -> Any:
        """Always False: functrace has no such tensors."""

    @property
    def is_mps(self) -> Any:
        """Always False: functrace has no such tensors."""

    @property
    def is_mtia(self) -> Any:
        """Always False: functrace has no such tensors."""

    def is_neg(self) -> builtins.bool:
        """Return True if a tensor is a negated view, as the imaginary part of a conjugate is."""

    @property
    def is_nested(self) -> Any:
        """Always False: functrace has no such tensors."""

    def is_nonzero(self) -> builtins.bool:
        """Return True if the one element is nonzero."""

    def is_pinned(self) -> Any:
        """Always False: functrace has no such tensors."""

    @property
    def is_quantized(self) -> Any:
        """Always False: functrace has no such tensors."""

    def is_same_size(self, other: Tensor) -> builtins.bool:
        """Return True if another tensor has the same shape."""

    def is_set_to(self, tensor: Tensor) -> builtins.bool:
        """Return True if another tensor has the same storage, offset, sizes and strides."""

    def is_shared(self) -> Any:
        """Always False: functrace has no such tensors."""

    def is_signed(self) -> builtins.bool:
        """Return True if elements can be negative."""

    @property
    def is_sparse(self) -> Any:
        """Always False: functrace has no such tensors."""

    @property
    def is_vulkan(self) -> Any:
        """Always False: functrace has no such tensors."""

    @property
    def is_xla(self) -> Any:
        """Always False: functrace has no such tensors."""

    @property
    def is_xpu(self) -> Any:
        """Always False: functrace has no such tensors."""

    def isclose(
        self, other: Operand, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False
    ) -> Tensor:
        """Return a mask of ``|input - other| <= atol + rtol * |other|``."""

    def isfinite(self) -> Tensor:
        """Return a mask of the finite elements."""

    def isinf(self) -> Tensor:
        """Return a mask of the infinite elements."""

    def isnan(self) -> Tensor:
        """Return a mask of the elements that are nan."""

    def isneginf(self) -> Tensor:
        """Return a mask of the elements that are -inf."""

    def isposinf(self) -> Tensor:
        """Return a mask of the elements that are inf."""

    def isreal(self) -> Tensor:
        """Return a mask of the elements without an imaginary part."""

    def istft(
        self,
        n_fft: builtins.int,
        hop_length: builtins.int | None = None,
        win_length: builtins.int | None = None,
        window: Operand | None = None,
        center: builtins.bool = True,
        normalized: builtins.bool = False,
        onesided: builtins.bool | None = None,
        length: builtins.int | None = None,
        return_complex: builtins.bool = False,
    ) -> Tensor:
        """Return the signal of Fourier transforms of overlapping pieces, by least squares: the inverse of `stft`."""

    @property
    def itemsize(self) -> builtins.int:
        """Bytes of one element."""

    def kron(self, other: Operand) -> Tensor:
        """Return the Kronecker product: all products of elements, in blocks."""

    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> Any:
        """Return the ``k``-th smallest element along a dimension, and its position."""

    @property
    def layout(self) -> Any:
        """The memory layout: ``torch.strided``."""

    def lcm(self, other: Operand) -> Tensor:
        """Return the least common multiple of each pair of integers."""

    def lcm_(self, other: Operand) -> Tensor:
        """`lcm`, in place."""

    def ldexp(self, other: Operand) -> Tensor:
        """Return ``input * 2**other``."""

    def ldexp_(self, other: Operand) -> Tensor:
        """`ldexp`, in place."""

    def le(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is at most ``other``."""

    def le_(self, other: Operand) -> Tensor:
        """`le`, in place."""

    def lerp(self, end: Operand, weight: Operand) -> Tensor:
        """Return ``input + weight * (end - input)``."""

    def lerp_(self, end: Operand, weight: Operand) -> Tensor:
        """`lerp`, in place."""

    def less(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is less than ``other``."""

    def less_(self, other: Operand) -> Tensor:
        """`lt`, in place."""

    def less_equal(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is at most ``other``."""

    def less_equal_(self, other: Operand) -> Tensor:
        """`le`, in place."""

    def lgamma(self) -> Tensor:
        """Return the logarithm of the absolute value of the gamma function."""

    def lgamma_(self) -> Tensor:
        """`lgamma`, in place."""

    def log(self) -> Tensor:
        """Return the natural logarithm of each element."""

    def log10(self) -> Tensor:
        """Return the logarithm to base 10 of each element."""

    def log10_(self) -> Tensor:
        """`log10`, in place."""

    def log1p(self) -> Tensor:
        """Return ``log(1 + input)``, accurate near 0."""

    def log1p_(self) -> Tensor:
        """`log1p`, in place."""

    def log2(self) -> Tensor:
        """Return the logarithm to base 2 of each element."""

    def log2_(self) -> Tensor:
        """`log2`, in place."""

    def log_(self) -> Tensor:
        """`log`, in place."""

    def log_normal_(
        self, mean: builtins.float = 1.0, std: builtins.float = 2.0, *, generator: builtins.object = None
    ) -> Tensor:
        """Overwrite with exponentials of normal numbers."""

    def log_softmax(self, dim: builtins.int, dtype: DtypeLike | None = None) -> Tensor:
        """Return the log of the softmax along a dimension."""

    def logaddexp(self, other: Operand) -> Tensor:
        """Return the logarithm of the sum of exponentials, element by element."""

    def logaddexp2(self, other: Operand) -> Tensor:
        """Return the logarithm to base 2 of the sum of powers of 2."""

    def logcumsumexp(self, dim: builtins.int) -> Tensor:
        """Return the logarithms of cumulative sums of exponentials along a dimension."""

    def logdet(self) -> Tensor:
        """Return the logarithms of the determinants; nan where one is negative."""

    def logical_and(self, other: Operand) -> Tensor:
        """Return a mask: True where both of two elements are nonzero."""

    def logical_and_(self, other: Operand) -> Tensor:
        """`logical_and`, in place."""

    def logical_not(self) -> Tensor:
        """Return a mask of the elements that are zero."""

    def logical_not_(self) -> Tensor:
        """`logical_not`, in place."""

    def logical_or(self, other: Operand) -> Tensor:
        """Return a mask: True where at least one of two elements are nonzero."""

    def logical_or_(self, other: Operand) -> Tensor:
        """`logical_or`, in place."""

    def logical_xor(self, other: Operand) -> Tensor:
        """Return a mask: True where only one of two elements are nonzero."""

    def logical_xor_(self, other: Operand) -> Tensor:
        """`logical_xor`, in place."""

    def logit(self, eps: builtins.float | None = None) -> Tensor:
        """Return ``log(input / (1 - input))``, with the input limited to ``[eps, 1 - eps]``."""

    def logit_(self, eps: builtins.float | None = None) -> Tensor:
        """`logit`, in place."""

    def logsumexp(self, dim: Dims, keepdim: builtins.bool = False) -> Tensor:
        """Return ``log(sum(exp(input)))`` along dimensions, without overflow."""

    def long(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.int64."""

    def lstsq(self, **kwargs: Any) -> Any:
        """Raise: PyTorch has removed ``lstsq``."""

    def lt(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is less than ``other``."""

    def lt_(self, other: Operand) -> Tensor:
        """`lt`, in place."""

    def lu(self, pivot: builtins.bool = True, get_infos: builtins.bool = False) -> Any:
        """Return both factors in one matrix, and LAPACK's pivots; the older form of `linalg.lu_factor`."""

    def lu_solve(self, LU_data: Operand, LU_pivots: Operand) -> Tensor:
        """Return the solution of ``A x = b``, from the results of `lu_factor`."""

    @property
    def mH(self) -> Tensor:
        """The conjugate transpose of matrices, a view."""

    @property
    def mT(self) -> Tensor:
        """The tensor with its last two dimensions swapped, a view."""

    def map2_(self, *given: Any) -> Tensor:
        """Overwrite each element with what a Python function returns for it and those of other tensors."""

    def map_(self, *given: Any) -> Tensor:
        """Overwrite each element with what a Python function returns for it and those of other tensors."""

    def masked_fill(self, mask: Operand, value: Operand) -> Tensor:
        """Return the tensor with a number where the mask is true."""

    def masked_fill_(self, mask: Operand, value: Operand) -> Tensor:
        """`masked_fill`, in place."""

    def masked_scatter(self, mask: Operand, source: Operand) -> Tensor:
        """Return the tensor with the first elements of ``source`` where a mask is true, in row order."""

    def masked_scatter_(self, mask: Operand, source: Operand) -> Tensor:
        """`masked_scatter`, in place."""

    def masked_select(self, mask: Tensor) -> Tensor:
        """Return the elements where the mask is true, in one dimension."""

    def matmul(self, other: Operand) -> Tensor:
        """Return the product of matrices, vectors, or stacks of matrices, composed as in PyTorch."""

    def matrix_exp(self) -> Tensor:
        """Return the exponential of square matrices."""

    def matrix_power(self, n: builtins.int) -> Tensor:
        """Return an integer power of square matrices; of the inverses, if it is negative."""

    def max(self, dim: Operand | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the maximum: of all, along a dimension (with indices), of two tensors."""

    def maximum(self, other: Operand) -> Tensor:
        """Return the larger (equal elements share the derivative) element of each pair."""

    def mean(
        self,
        dim: Dims | EllipsisType = ...,
        keepdim: builtins.bool = False,
        *,
        dtype: DtypeLike | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Return the mean of all elements, or along dimensions."""

    def median(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the lower median of all elements, or along a dimension, with its index."""

    def min(self, dim: Operand | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the minimum: of all, along a dimension (with indices), of two tensors."""

    def minimum(self, other: Operand) -> Tensor:
        """Return the smaller (equal elements share the derivative) element of each pair."""

    def mm(self, other: Operand) -> Tensor:
        """Return the product of two matrices."""

    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False) -> Any:
        """Return the most frequent element along a dimension (the smallest of several), and its last position."""

    def module_load(self, other: Tensor, assign: builtins.bool = False) -> Tensor:
        """Return the tensor that ``load_state_dict`` sets: ``other``, or its elements in this tensor."""

    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """Return a view with dimensions moved to other positions."""

    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Return a view with dimensions moved to other positions."""

    def msort(self) -> Tensor:
        """Return the elements sorted along the first dimension."""

    def mul(self, other: Operand) -> Tensor:
        """Return ``input * other``."""

    def mul_(self, other: Operand) -> Tensor:
        """`mul`, in place."""

    def multinomial(
        self,
        num_samples: builtins.int,
        replacement: builtins.bool = False,
        *,
        generator: builtins.object = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Return positions drawn with the weights that the tensor holds."""

    def multiply(self, other: Operand) -> Tensor:
        """Return ``input * other``."""

    def multiply_(self, other: Operand) -> Tensor:
        """`mul`, in place."""

    def mv(self, other: Operand) -> Tensor:
        """Return the product of a matrix and a vector."""

    def mvlgamma(self, p: builtins.int) -> Tensor:
        """Return the logarithm of the multivariate gamma function of dimension ``p``."""

    def mvlgamma_(self, p: builtins.int) -> Tensor:
        """`mvlgamma`, in place."""

    @property
    def name(self) -> Any:
        """Always None: tensors have no names."""

    def nan_to_num(
        self, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None
    ) -> Tensor:
        """Return the tensor with nan and infinities replaced: by 0 and the limits of the dtype, or by the numbers given."""

    def nan_to_num_(
        self, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None
    ) -> Tensor:
        """`nan_to_num`, in place."""

    def nanmean(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """Return the mean of the elements that are not nan."""

    def nanmedian(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Any:
        """Return the lower median of all elements, or along a dimension, with its index."""

    def nanquantile(
        self,
        q: Any,
        dim: builtins.int | None = None,
        keepdim: builtins.bool = False,
        *,
        interpolation: builtins.str = "linear",
    ) -> Tensor:
        """Return quantiles of all elements, or along a dimension, ignoring nan."""

    def nansum(self, dim: Dims = None, keepdim: builtins.bool = False, *, dtype: DtypeLike | None = None) -> Tensor:
        """Return the sum of the elements that are not nan."""

    def narrow(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """Return a view of ``length`` slices along a dimension."""

    def narrow_copy(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """Return a copy of `narrow`."""

    def ndimension(self) -> builtins.int:
        """Return the number of dimensions."""

    def ne(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is different from ``other``."""

    def ne_(self, other: Operand) -> Tensor:
        """`ne`, in place."""

    def neg(self) -> Tensor:
        """Return ``-input``."""

    def neg_(self) -> Tensor:
        """`neg`, in place."""

    def negative(self) -> Tensor:
        """Return ``-input``."""

    def negative_(self) -> Tensor:
        """`neg`, in place."""

    def nelement(self) -> builtins.int:
        """Return the number of elements."""

    def new(self, *arguments: Any, device: DeviceLike | None = None) -> Tensor:
        """Return a tensor of this dtype: with a number of elements, or with the data of a list."""

    def new_empty(
        self,
        *sizes: builtins.int | Sequence[builtins.int],
        size: Sequence[builtins.int] | None = None,
        dtype: DtypeLike | None = None,
        device: DeviceLike | None = None,
        layout: Layout | None = None,
        pin_memory: builtins.bool | None = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Return an uninitialized tensor of this dtype."""

    def new_empty_strided(
        self,
        size: Sequence[builtins.int],
        stride: Sequence[builtins.int],
        *,
        dtype: DtypeLike | None = None,
        device: DeviceLike | None = None,
        layout: Layout | None = None,
        pin_memory: builtins.bool | None = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Return an uninitialized tensor of this dtype with these strides."""

    def new_full(
        self,
        size: Sequence[builtins.int],
        fill_value: Any,
        *,
        dtype: DtypeLike | None = None,
        device: DeviceLike | None = None,
        layout: Layout | None = None,
        pin_memory: builtins.bool | None = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Return a tensor of this dtype, filled with a number."""

    def new_ones(
        self,
        *sizes: builtins.int | Sequence[builtins.int],
        size: Sequence[builtins.int] | None = None,
        dtype: DtypeLike | None = None,
        device: DeviceLike | None = None,
        layout: Layout | None = None,
        pin_memory: builtins.bool | None = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Return ones of this dtype."""

    def new_tensor(
        self,
        data: Any,
        *,
        dtype: DtypeLike | None = None,
        device: DeviceLike | None = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Return a tensor of ``data`` of this dtype."""

    def new_zeros(
        self,
        *sizes: builtins.int | Sequence[builtins.int],
        size: Sequence[builtins.int] | None = None,
        dtype: DtypeLike | None = None,
        device: DeviceLike | None = None,
        layout: Layout | None = None,
        pin_memory: builtins.bool | None = None,
        requires_grad: builtins.bool = False,
    ) -> Tensor:
        """Return zeros of this dtype."""

    def nextafter(self, other: Operand) -> Tensor:
        """Return the next number after ``input`` towards ``other``."""

    def nextafter_(self, other: Operand) -> Tensor:
        """`nextafter`, in place."""

    def nonzero(self, *, as_tuple: builtins.bool = False) -> Any:
        """Return the positions of nonzero elements: one row each, or one tensor for each dimension."""

    def nonzero_static(self, *, size: builtins.int, fill_value: builtins.int = -1) -> Tensor:
        """Return the positions of the first ``size`` nonzero elements, and rows of ``fill_value`` if there are fewer."""

    def norm(
        self,
        p: builtins.float | builtins.str | None = "fro",
        dim: Dims = None,
        keepdim: builtins.bool = False,
        dtype: DtypeLike | None = None,
    ) -> Tensor:
        """Return the norm of all elements, or along dimensions: ``sum(abs(input)**p)**(1/p)``."""

    def normal_(self, mean: builtins.float = 0.0, std: builtins.float = 1.0, *, generator: builtins.object = None) -> Tensor:
        """Overwrite with normal numbers."""

    def not_equal(self, other: Operand) -> Tensor:
        """Return a mask: True where ``input`` is different from ``other``."""

    def not_equal_(self, other: Operand) -> Tensor:
        """`ne`, in place."""

    def orgqr(self, tau: Operand) -> Tensor:
        """Return the first columns of the product of Householder reflectors."""

    def ormqr(self, tau: Operand, other: Operand, left: builtins.bool = True, transpose: builtins.bool = False) -> Tensor:
        """Return the product of Householder reflectors and a matrix."""

    def outer(self, vec2: Operand) -> Tensor:
        """Return the products of all pairs of elements of two vectors."""

    def permute(self, *dims: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return a view with dimensions in another order."""

    def pin_memory(self, device: DeviceLike | None = None) -> Tensor:
        """Raise: pinned memory needs an accelerator."""

    def pinverse(self, rcond: builtins.float = 1e-15) -> Tensor:
        """Return the pseudoinverses of matrices; the older form of `linalg.pinv`."""

    def polygamma(self, n: builtins.int) -> Tensor:
        """Return the derivative of order ``n`` of `digamma`."""

    def polygamma_(self, n: builtins.int) -> Tensor:
        """`polygamma`, in place."""

    def positive(self) -> Tensor:
        """Return the tensor itself."""

    def pow(self, exponent: Operand) -> Tensor:
        """Return ``input ** exponent``; either may be a number."""

    def pow_(self, exponent: Operand) -> Tensor:
        """`pow`, in place."""

    def prelu(self, weight: Operand) -> Tensor:
        """Return ``input`` where it is positive, ``weight * input`` elsewhere."""

    def prod(
        self,
        dim: builtins.int | None = None,
        keepdim: builtins.bool = False,
        *,
        dtype: DtypeLike | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Return the product of all elements, or along a dimension; integers multiply to int64."""

    def put(self, index: Operand, source: Operand, accumulate: builtins.bool = False) -> Tensor:
        """Return the tensor with elements written at positions among all elements, in row order."""

    def put_(self, index: Operand, source: Operand, accumulate: builtins.bool = False) -> Tensor:
        """`put`, in place."""

    def qr(self, some: builtins.bool = True) -> Any:
        """Return the orthogonal and the upper triangular factor; the older form of `linalg.qr`."""

    def quantile(
        self,
        q: Any,
        dim: builtins.int | None = None,
        keepdim: builtins.bool = False,
        *,
        interpolation: builtins.str = "linear",
    ) -> Tensor:
        """Return quantiles of all elements, or along a dimension."""

    def rad2deg(self) -> Tensor:
        """Return angles in radians as degrees."""

    def rad2deg_(self) -> Tensor:
        """`rad2deg`, in place."""

    def random_(
        self, *bounds: builtins.int | None, generator: builtins.object = None, **named: builtins.int | None
    ) -> Tensor:
        """Overwrite with integers: below a bound, ``random_(to)``, or between two, ``random_(from, to)``; ``random_(from, None)`` goes up to the greatest that the dtype holds."""

    def ravel(self) -> Tensor:
        """Return the tensor with one dimension: itself or a view if it is contiguous, otherwise a copy."""

    @property
    def real(self) -> Tensor:
        """The real part, a view; a real tensor itself."""

    def reciprocal(self) -> Tensor:
        """Return ``1 / input``."""

    def reciprocal_(self) -> Tensor:
        """`reciprocal`, in place."""

    def register_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle:
        """Call ``hook(grad)`` whenever the gradient of this tensor is computed; a returned tensor replaces it."""

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call ``hook(leaf)`` after a gradient has been added to ``leaf.grad``."""

    def relu(self) -> Tensor:
        """Return each element, or 0 if it is negative; the derivative at 0 is 0."""

    def relu_(self) -> Tensor:
        """`relu`, in place."""

    def remainder(self, other: Operand) -> Tensor:
        """Return the remainder of ``input / other``, with the sign of ``other``."""

    def remainder_(self, other: Operand) -> Tensor:
        """`remainder`, in place."""

    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """Return the tensor with each slice along a dimension scaled down to a norm of at most ``maxnorm``."""

    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """`renorm`, in place."""

    def repeat(self, *repeats: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return the tensor repeated along each dimension."""

    def repeat_interleave(self, repeats: Any, dim: builtins.int | None = None) -> Tensor:
        """Return each element (or slice along a dimension) repeated consecutively."""

    def reshape(self, *shape: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return a view with another shape, or a copy if the memory layout does not allow a view."""

    def reshape_as(self, other: Tensor) -> Tensor:
        """Return this tensor in another one's shape."""

    def resize(self, *size: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return a view with another shape (deprecated: use `view`)."""

    def resize_(self, *size: builtins.int | Sequence[builtins.int], memory_format: builtins.object = None) -> Tensor:
        """Change the shape of a tensor, and enlarge its memory if needed; does nothing if the shape is the same."""

    def resize_as(self, tensor: Tensor) -> Tensor:
        """Return a view with another tensor's shape (deprecated: use `view_as`)."""

    def resize_as_(self, the_template: Tensor, *, memory_format: builtins.object = None) -> Tensor:
        """Change the shape of a tensor to that of another one; see `resize_`."""

    def resolve_conj(self) -> Tensor:
        """Return a copy of a conjugate view; any other tensor is returned itself."""

    def resolve_neg(self) -> Tensor:
        """Return a copy of a negated view; any other tensor is returned itself."""

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf tensor in ``.grad``."""

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """Return the tensor with its elements shifted cyclically along dimensions."""

    def rot90(self, k: builtins.int = 1, dims: Sequence[builtins.int] = (0, 1)) -> Tensor:
        """Return the tensor rotated by ``k`` times 90 degrees, from the first to the second dimension."""

    def round(self, *, decimals: builtins.int = 0) -> Tensor:
        """Return the nearest integer (or number with ``decimals`` digits); halves round to even."""

    def round_(self, *, decimals: builtins.int = 0) -> Tensor:
        """`round`, in place."""

    def rsqrt(self) -> Tensor:
        """Return the reciprocal of the square root of each element."""

    def rsqrt_(self) -> Tensor:
        """`rsqrt`, in place."""

    def scatter(self, dim: builtins.int, index: Operand, src: Any = None, *, value: Any = None) -> Tensor:
        """Return the tensor with elements of ``src``, or a number, written at indices along a dimension."""

    def scatter_(self, dim: builtins.int, index: Operand, src: Any = None, *, value: Any = None) -> Tensor:
        """`scatter`, in place."""

    def scatter_add(self, dim: builtins.int, index: Operand, src: Operand) -> Tensor:
        """Return the tensor with elements of ``src`` added at indices along a dimension."""

    def scatter_add_(self, dim: builtins.int, index: Operand, src: Operand) -> Tensor:
        """`scatter_add`, in place."""

    def scatter_reduce(
        self, dim: builtins.int, index: Operand, src: Operand, reduce: builtins.str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """Return the tensor with elements of ``src`` written at indices along a dimension, reduced if indices coincide."""

    def scatter_reduce_(
        self, dim: builtins.int, index: Operand, src: Operand, reduce: builtins.str, *, include_self: builtins.bool = True
    ) -> Tensor:
        """`scatter_reduce`, in place."""

    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:
        """Return a view of one slice along a dimension."""

    def select_scatter(self, src: Operand, dim: builtins.int, index: builtins.int) -> Tensor:
        """Return a copy with ``src`` at one position along a dimension."""

    def set_(
        self,
        source: Tensor | Storage | None = None,
        storage_offset: builtins.int = 0,
        size: Sequence[builtins.int] | None = None,
        stride: Sequence[builtins.int] | None = None,
    ) -> Tensor:
        """Use the memory of another tensor, or of a storage."""

    def sgn(self) -> Tensor:
        """Return each element divided by its absolute value; 0 stays 0."""

    def sgn_(self) -> Tensor:
        """`sgn`, in place."""

    def share_memory_(self) -> Tensor:
        """Return the tensor itself: threads share it anyway, and processes share none."""

    def short(self, memory_format: Any = None) -> Tensor:
        """Return the tensor as torch.int16."""

    def sigmoid(self) -> Tensor:
        """Return the logistic function ``1 / (1 + exp(-input))`` of each element."""

    def sigmoid_(self) -> Tensor:
        """`sigmoid`, in place."""

    def sign(self) -> Tensor:
        """Return the sign of each element."""

    def sign_(self) -> Tensor:
        """`sign`, in place."""

    def signbit(self) -> Tensor:
        """Return a mask of the negative elements (-0. too)."""

    def sin(self) -> Tensor:
        """Return the sine of each element."""

    def sin_(self) -> Tensor:
        """`sin`, in place."""

    def sinc(self) -> Tensor:
        """Return ``sin(pi * input) / (pi * input)``, which is 1 at 0."""

    def sinc_(self) -> Tensor:
        """`sinc`, in place."""

    def sinh(self) -> Tensor:
        """Return the hyperbolic sine of each element."""

    def sinh_(self) -> Tensor:
        """`sinh`, in place."""

    def slice_scatter(
        self,
        src: Operand,
        dim: builtins.int = 0,
        start: builtins.int | None = None,
        end: builtins.int | None = None,
        step: builtins.int = 1,
    ) -> Tensor:
        """Return a copy with ``src`` in place of a slice of a dimension."""

    def slogdet(self) -> Any:
        """Return the signs of the determinants, and the logarithms of their absolute values."""

    def softmax(self, dim: builtins.int, dtype: DtypeLike | None = None) -> Tensor:
        """Return the softmax along a dimension."""

    def solve(self, **kwargs: Any) -> Any:
        """Raise: PyTorch has removed ``solve``."""

    def sort(self, dim: builtins.int = -1, descending: builtins.bool = False, *, stable: builtins.bool | None = None) -> Any:
        """Return the sorted elements along a dimension, and their former indices."""

    def split(self, split_size: Any, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
        """Return views of pieces along a dimension: of one size (the last may be smaller), or of these sizes."""

    def split_with_sizes(self, split_sizes: Sequence[builtins.int], dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
        """Return views of pieces of these sizes along a dimension."""

    def sqrt(self) -> Tensor:
        """Return the square root of each element."""

    def sqrt_(self) -> Tensor:
        """`sqrt`, in place."""

    def square(self) -> Tensor:
        """Return ``input ** 2``."""

    def square_(self) -> Tensor:
        """`square`, in place."""

    def squeeze(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """Return a view without dimensions of size 1."""

    def squeeze_(self, dim: builtins.int | Sequence[builtins.int] | None = None) -> Tensor:
        """`squeeze`, in place."""

    def std(
        self,
        dim: Any = None,
        unbiased: Any = None,
        keepdim: builtins.bool = False,
        *,
        correction: builtins.float | None = None,
    ) -> Any:
        """Return the standard deviation, of all elements or along dimensions; with Bessel's correction by default."""

    def stft(
        self,
        n_fft: builtins.int,
        hop_length: builtins.int | None = None,
        win_length: builtins.int | None = None,
        window: Operand | None = None,
        center: builtins.bool = True,
        pad_mode: builtins.str = "reflect",
        normalized: builtins.bool = False,
        onesided: builtins.bool | None = None,
        return_complex: builtins.bool | None = None,
        align_to_window: builtins.bool | None = None,
    ) -> Tensor:
        """Return the Fourier transforms of overlapping pieces of a signal."""

    def storage(self) -> TypedStorage:
        """Return the tensor's storage, as elements (deprecated: use `untyped_storage`)."""

    def storage_offset(self) -> builtins.int:
        """Return the offset of the tensor's first element in the storage, in elements."""

    def storage_type(self) -> Any:
        """Return the class of the storage."""

    def sub(self, other: Operand, *older: Operand, alpha: Operand = 1) -> Tensor:
        """Return ``input - alpha * other``."""

    def sub_(self, other: Operand, *older: Operand, alpha: Operand = 1) -> Tensor:
        """`sub`, in place."""

    def subtract(self, other: Operand, *older: Operand, alpha: Operand = 1) -> Tensor:
        """Return ``input - alpha * other``."""

    def subtract_(self, other: Operand, *older: Operand, alpha: Operand = 1) -> Tensor:
        """`sub`, in place."""

    def sum(
        self,
        dim: Dims | EllipsisType = ...,
        keepdim: builtins.bool = False,
        *,
        dtype: DtypeLike | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Return the sum of all elements, or along dimensions; integers sum to int64."""

    def sum_to_size(self, *size: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return the tensor summed to a shape that broadcasts to its own."""

    def svd(self, some: builtins.bool = True, compute_uv: builtins.bool = True) -> Any:
        """Return the singular value decomposition ``input = U @ diag(S) @ V.mH``; the older form of `linalg.svd`."""

    def swapaxes(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Return a view with two dimensions swapped."""

    def swapaxes_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """`transpose`, in place."""

    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Return a view with two dimensions swapped."""

    def swapdims_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """`transpose`, in place."""

    def symeig(self, **kwargs: Any) -> Any:
        """Raise: PyTorch has removed ``symeig``."""

    def t(self) -> Tensor:
        """Return the transpose of a matrix (vectors and numbers are unchanged)."""

    def t_(self) -> Tensor:
        """`t`, in place."""

    def take(self, index: Operand) -> Tensor:
        """Return elements by their index in the flattened tensor."""

    def take_along_dim(self, indices: Operand, dim: builtins.int | None = None) -> Tensor:
        """Return elements by index along a dimension; the other dimensions broadcast."""

    def tan(self) -> Tensor:
        """Return the tangent of each element."""

    def tan_(self) -> Tensor:
        """`tan`, in place."""

    def tanh(self) -> Tensor:
        """Return the hyperbolic tangent of each element."""

    def tanh_(self) -> Tensor:
        """`tanh`, in place."""

    def tensor_split(self, indices_or_sections: Any, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
        """Return views of pieces along a dimension: a number of them, sizes differing by at most 1; or between positions."""

    def tile(self, *dims: builtins.int | Sequence[builtins.int]) -> Tensor:
        """Return the tensor repeated along each of the last dimensions."""

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """Return the tensor in another dtype, or in another tensor's; only the CPU is accepted as a device."""

    def to_dense(self, dtype: DtypeLike | None = None, *, masked_grad: Any = None) -> Tensor:
        """Return the tensor itself, which is dense, in a dtype."""

    def topk(
        self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True
    ) -> Any:
        """Return the ``k`` largest (or smallest) elements along a dimension, and their indices."""

    def trace(self) -> Tensor:
        """Return the sum of the diagonal of a matrix."""

    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Return a view with two dimensions swapped."""

    def transpose_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """`transpose`, in place."""

    def triangular_solve(
        self, A: Operand, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False
    ) -> Any:
        """Return the solution of ``A X = input`` for triangular matrices, and a copy of ``A``; the older form of `solve_triangular`."""

    def tril(self, diagonal: builtins.int = 0) -> Tensor:
        """Return the lower triangle of matrices, zero elsewhere."""

    def tril_(self, diagonal: builtins.int = 0) -> Tensor:
        """`tril`, in place."""

    def triu(self, diagonal: builtins.int = 0) -> Tensor:
        """Return the upper triangle of matrices, zero elsewhere."""

    def triu_(self, diagonal: builtins.int = 0) -> Tensor:
        """`triu`, in place."""

    def true_divide(self, other: Operand) -> Tensor:
        """Return ``input / other``; integers divide to floats."""

    def true_divide_(self, other: Operand) -> Tensor:
        """`true_divide`, in place."""

    def trunc(self) -> Tensor:
        """Return the integer part of each element."""

    def trunc_(self) -> Tensor:
        """`trunc`, in place."""

    def type(self, dtype: Any = None, non_blocking: builtins.bool = False) -> Any:
        """Return the name of the tensor's type, ``"torch.FloatTensor"``; or the tensor in another dtype."""

    def type_as(self, other: Tensor) -> Tensor:
        """Return the tensor in another one's dtype."""

    def unbind(self, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
        """Return views of all positions along a dimension."""

    def unflatten(self, dim: builtins.int, sizes: Sequence[builtins.int]) -> Tensor:
        """Return a view with a dimension split into several."""

    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """Return a view of all windows of a dimension, as a new last dimension."""

    def uniform_(
        self,
        from_: builtins.float = 0.0,
        to: builtins.float = 1.0,
        *,
        generator: builtins.object = None,
        **named: builtins.float,
    ) -> Tensor:
        """Overwrite with numbers uniform in ``[from, to)``."""

    def unique(
        self,
        sorted: builtins.bool = True,
        return_inverse: builtins.bool = False,
        return_counts: builtins.bool = False,
        dim: builtins.int | None = None,
    ) -> Any:
        """Return the different elements (or slices of a dimension), in ascending order."""

    def unique_consecutive(
        self, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None
    ) -> Any:
        """Return the elements (or slices of a dimension) that differ from the one before."""

    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
        """Return pieces that may be written into."""

    def unsafe_split(self, split_size: Any, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
        """Return pieces that may be written into."""

    def unsafe_split_with_sizes(self, split_size: Any, dim: builtins.int = 0) -> builtins.tuple[Any, ...]:
        """Return pieces that may be written into."""

    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """Return a view with one more dimension, of size 1."""

    def unsqueeze_(self, dim: builtins.int) -> Tensor:
        """`unsqueeze`, in place."""

    def untyped_storage(self) -> UntypedStorage:
        """Return the tensor's storage, as bytes."""

    def var(
        self,
        dim: Any = None,
        unbiased: Any = None,
        keepdim: builtins.bool = False,
        *,
        correction: builtins.float | None = None,
    ) -> Any:
        """Return the variance, of all elements or along dimensions; with Bessel's correction by default."""

    def vdot(self, other: Operand) -> Tensor:
        """Return the product of two vectors, the first conjugated."""

    def view(
        self,
        *shape: builtins.int | Sequence[builtins.int] | Dtype,
        size: Sequence[builtins.int] | None = None,
        dtype: Dtype | None = None,
    ) -> Tensor:
        """Return a view with another shape, or of the memory as another dtype."""

    def view_as(self, other: Tensor) -> Tensor:
        """Return a view of another tensor's shape."""

    def vsplit(self, indices_or_sections: Any) -> builtins.tuple[Any, ...]:
        """Return pieces of the tensor along dimension 0, as views."""

    def where(self, condition: Operand, other: Operand) -> Tensor:
        """Return this tensor where the condition is true, ``other`` elsewhere."""

    def xlogy(self, other: Operand) -> Tensor:
        """Return ``input * log(other)``, 0 where the input is 0; either may be a number."""

    def xlogy_(self, other: Operand) -> Tensor:
        """`xlogy`, in place."""

    def zero_(self) -> Tensor:
        """Overwrite every element with 0."""
