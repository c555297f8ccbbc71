"""PyTorch overload of an operation, and the arguments of the call.

The name comes from the row, or from the node, which PyTorch names after the overload that it
differentiates: ``MaxBackward0`` belongs to ``max.dim``. The arguments follow the schema: its
tensors are the operands, in order, and the node saves the rest under the argument's name
(`Op.details`). `IDENTITIES` covers all other cases. An operation that PyTorch does not have is in
``torch.ops.functrace``.

Layer: 9.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ops import elementwise as ew
from functrace.ops.contraction import matmul_p
from functrace.ops.indexing import ARRAY
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import broadcast_to_p, convert_p, permute_p, reshape_p
from functrace.torch._ops import OWN, Argument, OpOverload, schema_lines
from functrace.torch.dispatch.applying import Op
from functrace.torch.dispatch.numbers import NUMBERS
from functrace.torch.dispatch.overloads import ops
from functrace.torch.dispatch.plans import OpPlan
from functrace.torch.dispatch.surface import TABLES
from functrace.torch.functions import elementwise as functions
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Tensor, wrap

Arguments = Callable[..., "tuple[Any, ...]"]
_NODE = re.compile(r"(?P<name>\w+?)Backwards?(?P<number>\d*)$")
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WRAPPED = frozenset({"add", "sub", "mul", "div", "floor_divide", "where"})
"""Operations that take a number as a tensor of no dimensions; others have an overload for
numbers.
"""


_OF_NUMBERS = (
    ("Scalar_Tensor", "Scalar_Self", "self_scalar", "x_scalar"),
    ("Scalar", "Tensor_Scalar", "Scalar_Other", "other_scalar", "n_scalar"),
)
"""Overloads for a number as the first, and as the second operand."""


def _dropped(shape: Sequence[int], kept: Sequence[int]) -> list[int]:
    """The removed dimensions of size 1."""
    left = list(kept)
    found = []
    for k, n in enumerate(shape):
        if left and left[0] == n and (n != 1 or len(shape) - k == len(left)):
            left.pop(0)
        elif n == 1 and len(shape) - k > len(left):
            found.append(k)
        else:
            left.pop(0)
    return found


def _added(shape: Sequence[int], wide: Sequence[int]) -> int:
    return next((k for k, n in enumerate(shape) if wide[k] != n), len(shape))


def _swapped(axes: Sequence[int]) -> tuple[int, int]:
    moved = [k for k, axis in enumerate(axes) if k != axis]
    return (moved[0], moved[1]) if moved else (0, 0)


def _signed(dim: int) -> int:
    """A dimension as the user passed it: nodes show negative ones as C++ stores them."""
    return dim - (1 << 64) if dim >= 1 << 63 else dim


def _reduced(
    x: Tensor, index: Tensor, source: Tensor, axis: int, kind: str, includes: bool
) -> tuple[Any, ...]:
    return x, axis, index, source, kind, {} if includes else {"include_self": False}


def _indices(operands: Sequence[Any], template: Sequence[Any]) -> list[Any]:
    """The entries of an index in PyTorch's form: one entry per mask, whatever its dimensions."""
    given = iter(operands[: -1 if operands and operands[-1] is template else None])
    entries = [next(given) if entry == ARRAY else None for entry in template]
    masks = [None if entry is None else entry._mask for entry in entries]
    return [
        entry if mask is None else mask[0]
        for entry, mask in zip(entries, masks, strict=True)
        if mask is None or not mask[1]
    ]


def as_tensor(value: object, beside: object) -> Tensor:
    """Return a number as a tensor of no dimensions, with the dtype of another tensor."""
    dtype = beside._array.dtype if isinstance(beside, Tensor) else None
    return value if isinstance(value, Tensor) else wrap(np.asarray(value, dtype))


def is_everything(x: Tensor, axes: tuple[int, ...], keep: bool) -> bool:
    """Return True if the axes are all axes, and none is kept."""
    return len(axes) == x._array.ndim and not keep


def _truth(x: Tensor, axes: tuple[int, ...], keep: bool) -> tuple[Any, ...]:
    if is_everything(x, axes, keep):
        return (x,)
    return x, axes[0] if len(axes) == 1 else list(axes), keep


def _nll(x: Tensor, target: Tensor, *rest: object) -> tuple[Any, ...]:
    *weights, reduction, ignored = rest
    return x, target, weights[0] if weights else None, reduction, ignored


def _gradient_along(gradient: Tensor, output: Tensor, plan: OpPlan) -> tuple[Any, ...]:
    return gradient, output, plan.case.params[0], DTYPES[plan.case.specs[0].dtype]


def _attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Any, ...]:
    *masks, scale, causal, _ = rest
    named: dict[str, Any] = {"attn_mask": masks[0]} if masks else {}
    if scale != 1 / math.sqrt(q._array.shape[-1]):
        named["scale"] = scale
    return q, k, v, 0.0, causal, named


def _bag(weight: Tensor, indices: Tensor, bags: Tensor, shares: Any, *how: Any) -> Any:
    """The bags begin where their numbers change."""
    mode, count, padding, by_frequency = how
    offsets = wrap(np.searchsorted(bags._array, np.arange(count)).astype(np.int64))
    return weight, indices, offsets, by_frequency, mode, False, shares, False, padding


def _pinv(x: Tensor, *given: Any) -> tuple[Any, ...]:
    *cut, hermitian = given
    named = {"rtol": cut[0]} if cut else {}
    return x, named | ({"hermitian": True} if hermitian else {})


def _cut(a: Tensor, cut: float) -> tuple[float, ...]:
    """Return the bound of singular values, unless it is the default."""
    array = a._array
    return () if cut == max(array.shape[-2:]) * float(np.finfo(array.dtype).eps) else (cut,)


def _optional(operands: Sequence[Any], given: Sequence[bool]) -> list[Any]:
    """Return operands with None for those that are not given."""
    rest = iter(operands)
    return [next(rest) if is_given else None for is_given in given]


def _layer_norm(x: Tensor, *rest: Any) -> tuple[Any, ...]:
    *operands, given, sizes, eps = rest
    return x, list(sizes), *_optional(operands, given), eps


def _batch_norm(x: Tensor, *rest: Any) -> tuple[Any, ...]:
    """The op does not move running statistics, so it has no momentum; 0.1 is PyTorch's."""
    *operands, given, training, eps = rest
    return x, *_optional(operands, given), training, 0.1, eps


def _fractional(x: Tensor, positions: Tensor, samples: Tensor, kernel: Any, sizes: Any) -> Any:
    return x, list(kernel), list(sizes), samples


def _largest_bag(weight: Tensor, places: Tensor, there: Tensor, *how: Any) -> Any:
    """The positions that count, and the sums of their numbers."""
    held = there._array
    bags = wrap(np.repeat(np.arange(len(held)), held.sum(1)))
    given = wrap(places._array[held])
    return _bag(weight, given, bags, None, *how)


_drawn = lambda x, drawn, *shown: (x, *shown)  # noqa: E731
_shape = lambda x, shape: (x, list(shape))  # noqa: E731
IDENTITIES: dict[str, tuple[str | Callable[..., str], Arguments | None]] = {
    "ClampBackward0": ("clamp.Tensor", None), "ClampBackward1": ("clamp", None),
    "ConjBackward0": ("_conj", None), "NegViewBackward0": ("_neg_view", None),
    "FillBackward2": ("fill.Scalar", None),
    "FillBackward3": ("fill.Tensor", lambda x, value: (x, as_tensor(value, x))),
    "IndexFillBackward0": (
        lambda x, index, value,
        axis: f"index_fill.int_{'Tensor' if isinstance(value, Tensor) else 'Scalar'}",
        lambda x, index, value, axis: (x, axis, index, value),
    ),
    "IndexFillBackward1": ("index_fill.int_Tensor", lambda x, index, value, axis: (x, axis, index,
    value)),
    "ConjPhysicalBackward0": (
        lambda x: "_conj_physical" if x._array.dtype.kind == "c" else "conj_physical", None),
    "PreluKernelBackward0": ("_prelu_kernel", None),
    "ScaledDotProductFlashAttentionForCpuBackward0": (
        "_scaled_dot_product_flash_attention_for_cpu", lambda *given: _attention(*given)),
    "embedding_sum": ("_embedding_bag", lambda w, i, bags, shares, *how: _bag(w, i, bags, None,
    *how)),
    "embedding_weighted_sum": ("_embedding_bag", _bag),
    "EmbeddingBagBackward0": ("_embedding_bag", _largest_bag),
    "LinalgLstsqBackward0": ("linalg_lstsq", lambda a, b, cut: (a, b, *_cut(a, cut))),
    "NativeDropoutBackward0": ("native_dropout", lambda x, mask, p: (x, p, True)),
    "index_put_accumulated": ("index_put", lambda x, value, *rest: (x, _indices(rest, rest[-1]),
    value, True)),
    "NanToNumBackward0": ("nan_to_num", lambda x, *numbers: (x, *numbers)),
    "DivBackward2": ("div.Tensor_mode", lambda x, y, *mode: (x, y, {"rounding_mode": mode[0] if mode
    else None})),
    "ConstantPadNdBackward0": ("constant_pad_nd", lambda x, pad, value: (x, list(pad), value)),
    "KthvalueBackward0": ("kthvalue", lambda x, k, dim, keep: (x, k, dim, keep)),
    "ThresholdBackward0": ("threshold", lambda x, low, value, *_: (x, low, value)),
    "ThresholdBackward1": ("threshold_", lambda x, low, value, *_: (x, low, value)),
    "NativeLayerNormBackward0": ("native_layer_norm", lambda *given: _layer_norm(*given)),
    "NativeBatchNormBackward0": ("native_batch_norm", lambda *given: _batch_norm(*given)),
    "col2im": ("col2im", lambda x, *sizes: (x, *map(list, sizes))),
    "one_hot": ("one_hot", lambda x, count: (x, count)),
    "_adaptive_avg_pool2d": ("_adaptive_avg_pool2d", _shape),
    "_adaptive_avg_pool3d": ("_adaptive_avg_pool3d", _shape),
    "adaptive_max_pool2d": ("adaptive_max_pool2d", _shape),
    "adaptive_max_pool3d": ("adaptive_max_pool3d", _shape),
    "max_unpool2d": ("max_unpool2d", lambda x, places, sizes: (x, places, list(sizes))),
    "_pad_circular": ("_pad_circular", _shape),
    "StandardGammaGradBackward0": ("_standard_gamma_grad", None),
    "clamp_min_number": ("clamp_min", lambda x, low: (x, low)),
    "LinalgPinvBackward0": ("linalg_pinv.atol_rtol_tensor", lambda x, *given: _pinv(x, *given)),
    "fractional_max_pool2d": ("fractional_max_pool2d", lambda *given: _fractional(*given)),
    "fractional_max_pool3d": ("fractional_max_pool3d", lambda *given: _fractional(*given)),
    "special_round": ("round.decimals", lambda x, decimals: (x, {"decimals": decimals})),
    "linalg_inv": ("linalg_inv_ex", None), "LinalgDetBackward0": ("_linalg_det", None),
    "LinalgSlogdetBackward0": ("_linalg_slogdet", None),
    "linalg_cholesky": ("linalg_cholesky_ex", lambda x, upper: (x, {"upper": True} if upper else {})),
    "linalg_solve": ("_linalg_solve_ex", lambda a, b, left, _: (a, b, {} if left else {"left":
    False})),
    "LinalgEighBackward0": ("_linalg_eigh", lambda x, uplo: (x, uplo)),
    "linalg_eigvalsh": ("_linalg_eigh", lambda x, uplo: (x, uplo)),
    "LinalgSvdBackward0": ("_linalg_svd", lambda x, full: (x, full)),
    "linalg_svdvals": ("_linalg_svd", lambda x: (x,)),
    "linalg_qr_triangle": ("linalg_qr", lambda x, mode: (x, mode)),
    "TriangularSolveBackward0": ("triangular_solve", lambda b, a, *how: (b, a, *how)),
    "FmodBackward0": ("fmod.Scalar", None), "FmodBackward1": ("fmod.Tensor", None),
    "BernoulliBackward0": ("bernoulli", _drawn),
    "EinsumBackward0": ("einsum", lambda *given: (given[-1], list(given[:-1]))),
    "ExpandBackward0": ("expand", _shape), "ViewBackward0": ("view", _shape),
    "UnsafeViewBackward0": ("_unsafe_view", _shape),
    "ReshapeAliasBackward0": ("view", _shape),
    "IndexBackward0": ("index.Tensor", lambda x, *rest: (x, _indices(rest, rest[-1]))),
    "IndexPutBackward0": ("index_put", lambda x, value, *rest: (x, _indices(rest, rest[-1]),
    value)),
    "LerpBackward0": ("lerp.Scalar", None), "LerpBackward1": ("lerp.Tensor", None),
    "LogSoftmaxBackward0": ("_log_softmax", lambda x, dim: (x, dim, False)),
    "SoftmaxBackward0": ("_softmax", lambda x, dim: (x, dim, False)),
    "MaskedSoftmaxBackward0": ("_masked_softmax", None),
    "LogSoftmaxBackwardDataBackward0": ("_log_softmax_backward_data", _gradient_along),
    "SoftmaxBackwardDataBackward0": ("_softmax_backward_data", _gradient_along),
    "TanhBackwardBackward0": ("tanh_backward", lambda gradient, output, plan: (gradient, output)),
    "SigmoidBackwardBackward0": ("sigmoid_backward", lambda gradient, output, plan: (gradient,
    output)),
    "ThresholdBackwardBackward0": ("threshold_backward", lambda gradient, output, plan: (gradient,
    output, 0)),
    "NllLossBackward0": ("nll_loss_forward", _nll), "NllLoss2DBackward0": ("nll_loss2d_forward",
    _nll),
    "MaskedFillBackward0": ("masked_fill.Scalar", None),
    "MaskedFillBackward1": ("masked_fill.Tensor", None),
    "MaxBackward0": ("max.dim", None), "MinBackward0": ("min.dim", None),
    "MedianBackward1": ("median.dim", None), "NanmedianBackward1": ("nanmedian.dim", None),
    "MeanBackward1": ("mean.dim", lambda x, axes, keep: (x, list(axes), keep)),
    "SumBackward1": ("sum.dim_IntList", lambda x, axes, keep: (x, list(axes), keep)),
    "ProdBackward1": ("prod.dim_int", None),
    "PowBackward0": ("pow.Tensor_Scalar", None), "PowBackward1": ("pow.Tensor_Tensor", None),
    "PowBackward2": ("pow.Scalar", None),
    "RemainderBackward0": ("remainder.Scalar", None), "RemainderBackward1": ("remainder.Tensor",
    None),
    "RoundBackward1": ("round.decimals", lambda x, decimals: (x, {"decimals": decimals})),
    "RsubBackward0": ("rsub.Tensor", None), "RsubBackward1": ("rsub.Scalar", None),
    "ScatterBackward0": ("scatter.src", None), "ScatterBackward1": ("scatter.value", None),
    "SortBackward0": ("sort", lambda x, axis, descending, count, shown: (x, shown, descending)),
    "TopkBackward0": ("topk", lambda x, axis, largest, count, shown: (x, count, shown, largest)),
    "SelectBackward0": ("select.int", None), "SliceBackward0": ("slice.Tensor", None),
    "SplitBackward0": ("split.Tensor", None), "UnsafeSplitBackward0": ("unsafe_split.Tensor", None),
    "UnbindBackward0": ("unbind.int", None),
    "SqueezeBackward0": ("squeeze", lambda x, kept: (x,)),
    "SqueezeBackward1": ("squeeze.dim", lambda x, kept: (x, *(_dropped(x._array.shape,
    kept) or [0])[:1])),
    "SqueezeBackward2": ("squeeze.dims", lambda x, kept: (x, _dropped(x._array.shape, kept))),
    "SqueezeBackward3": ("squeeze_", lambda x, kept: (x,)),
    "SqueezeBackward4": ("squeeze_.dim", lambda x, kept, dim=0: (x, _signed(dim))),
    "SqueezeBackward5": ("squeeze_.dims", lambda x, kept, dims: (x, list(map(_signed, dims)))),
    "UnsqueezeBackward1": ("unsqueeze_", lambda x, shape, dim: (x, _signed(dim))),
    "TBackward1": ("t_", lambda x, axes: (x,)),
    "TransposeBackward1": ("transpose_", lambda x, axes, first, second: (x, _signed(first),
    _signed(second))),
    "AsStridedBackward1": ("as_strided_", None),
    "ScatterReduceBackward0": ("scatter_reduce.two", lambda *given: _reduced(*given)),
    "IndexReduceBackward0": ("index_reduce", lambda *given: _reduced(*given)),
    "UnsqueezeBackward0": ("unsqueeze", lambda x, shape: (x, _added(x._array.shape, shape))),
    "TBackward0": ("t", lambda x, axes: (x,)),
    "TransposeBackward0": ("transpose.int", lambda x, axes: (x, *_swapped(axes))),
    "StdBackward0": ("std.correction", None), "VarBackward0": ("var.correction", None),
    "StdMeanBackward0": ("std_mean.correction", None), "VarMeanBackward0": ("var_mean.correction",
    None),
    "WhereBackward0": ("where.self", lambda c, x, y: (c, as_tensor(x, y), as_tensor(y, x))),
    "ToCopyBackward0": ("_to_copy", lambda x, dtype: (x, {"dtype": DTYPES[dtype]})),
    "UniformBackward0": ("uniform", _drawn), "NormalBackward0": ("normal", _drawn),
    "ExponentialBackward0": ("exponential", _drawn), "GeometricBackward0": ("geometric", _drawn),
    "CauchyBackward0": ("cauchy", _drawn), "LogNormalBackward0": ("log_normal", _drawn),
    "RandomBackward0": ("random.from", _drawn), "RandomBackward1": ("random.to", _drawn),
    "RandomBackward2": ("random", _drawn),
    "BernoulliBackward1": ("bernoulli.Tensor", lambda x, p, drawn: (x, p)),
    "BernoulliBackward2": ("bernoulli.float", _drawn),
    "bernoulli.p": ("bernoulli.p", _drawn),
    "PoissonBackward0": ("poisson", _drawn), "binomial": ("binomial", lambda n, p, drawn: (n, p)),
    "StandardGammaBackward0": ("_standard_gamma", _drawn),
    "_sample_dirichlet": ("_sample_dirichlet", _drawn),
    "AddBackward1": ("add.Scalar", None), "MulBackward1": ("mul.Scalar", None),
    "DivBackward1": ("div.Scalar", None), "xlogx": ("xlogy.Tensor", lambda x: (x, x)),
    "LogSigmoidBackward0": ("log_sigmoid_forward", lambda x: (x,)),
    "MultilabelMarginLossBackward0": ("multilabel_margin_loss_forward", lambda *given: given),
    "NormBackward1": ("norm.ScalarOpt_dim", lambda x, p, axes, keep, shown: (x, p, list(axes),
    keep)),
    "CdistBackward0": ("_cdist_forward", lambda x, y, p: (x, y, p, None)),
    "PdistBackward0": ("_pdist_forward", None), "SafeSoftmaxBackward0": ("_safe_softmax", None),
    "TrilinearBackward0": ("_trilinear", lambda x, weight, y: (x, weight, y, [1, 3], [0], [1, 2],
    [2, 3])),
}  # fmt: skip
"""Overload by node name, with a function from operands and parameters to arguments (a trailing
dict: keyword arguments).
"""

PRIMITIVES: dict[Primitive, tuple[str, Arguments]] = {
    reduce_sum_p: ("sum.dim_IntList", lambda x, axes: (x, list(axes))),
    broadcast_to_p: ("expand", lambda x, shape: (x, list(shape))),
    reshape_p: ("view", lambda x, shape: (x, list(shape))),
    permute_p: ("permute", lambda x, axes: (x, list(axes))),
    convert_p: ("_to_copy", lambda x, dtype, *_: (x, {"dtype": DTYPES[np.dtype(dtype)]})),
}
"""Overloads of the primitives that derivatives contain and no row is made of."""
_PRODUCTS: dict[tuple[int, ...], str] = {(2, 2): "mm", (3, 3): "bmm", (2, 1): "mv", (1, 1): "dot"}


# -- from an op to an overload ---------------------------------------------------------------------

Described = tuple[OpOverload, tuple[Any, ...], dict[str, Any]]


def described(
    op: Op, operands: tuple[Any, ...], params: tuple[Any, ...], *, in_place: bool = False
) -> Described:
    """Return the overload of an op (or its in-place form), and its arguments."""
    name, arguments = identity(op, operands, params)
    overload = found_in_place(name) if in_place else found(name)
    if overload is None:
        return own(op, operands, params)
    if arguments is None:
        return overload, *by_schema(overload, op, operands, params)
    given, kwargs = _split(arguments(*operands, *params))
    return overload, trimmed(overload, given), kwargs


def found_in_place(name: str) -> OpOverload | None:
    """Return the overload of an in-place form: ``pow_.Scalar`` for ``pow.Tensor_Scalar``."""
    name, _, overload = name.partition(".")
    if name.endswith("_"):
        return found(f"{name}.{overload}")
    texts = schema_lines().get(f"{name}_", {})
    others = (overload or "default", overload.rpartition("_")[2], "default", "float", "Tensor")
    return next((found(f"{name}_.{one}") for one in others if one in texts), None)


def identity(
    op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]
) -> tuple[str, Arguments | None]:
    """Return the name of an op's overload, and the function that makes its arguments if the schema
    does not suffice.
    """
    if op.primitive is not None:
        if op.primitive in PRIMITIVES:
            return PRIMITIVES[op.primitive]
        if op.primitive is ew.power:
            numbers = [type(x) in NUMBERS for x in operands]
            return "pow.Scalar" if numbers[0] else "pow.Tensor_Scalar" if numbers[
                1
            ] else "pow.Tensor_Tensor", None
        if op.primitive is matmul_p:
            return _PRODUCTS.get(tuple([x._array.ndim for x in operands]), ""), None
        named = by_primitive().get(op.primitive)
        return ("", None) if named is None else identity(named, operands, ())
    known = IDENTITIES.get(op.called or op.node)
    if known is not None:
        name, arguments = known
        return (name if isinstance(name, str) else name(*operands, *params)), arguments
    match = _NODE.match(op.node)
    name = op.called or ("_".join(_WORD.split(match["name"])).lower() if match is not None else "")
    if name in ("any", "all"):
        return name + (
            "" if is_everything(*operands, *params) else ".dim" if len(params[0]) == 1 else ".dims"
        ), _truth
    return with_kind(name, operands), None


def with_kind(name: str, operands: Sequence[Any]) -> str:
    """Complete an overload's name by the kind of the second operand: number or tensor."""
    overloads = schema_lines().get(name, {})
    numbers = [type(x) in NUMBERS for x in operands]
    if True in numbers and name not in _WRAPPED:
        for kind in _OF_NUMBERS[0 if numbers[0] else 1]:
            if kind in overloads:
                return f"{name}.{kind}"
        if not numbers[0] and "default" in overloads:
            return name
    return f"{name}.Tensor" if "Tensor" in overloads and len(operands) > 1 else name


@functools.lru_cache(maxsize=1)
def by_primitive() -> dict[Any, Op]:
    """Return, by primitive of the core, the op of the row that applies it."""
    made = {row.op.function: row.op for table in TABLES for row in table if row.op is not None}
    return {functions.ADD.function: functions.ADD, functions.SUB.function: functions.SUB, **made}


def found(name: str) -> OpOverload | None:
    """Return an overload by its name, without the namespace; None if PyTorch does not have it."""
    name, _, overload = name.partition(".")
    if (overload or "default") not in schema_lines().get(name, {}):
        return None
    return getattr(getattr(ops.aten, name), overload or "default")


def own(
    op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]
) -> tuple[OpOverload, tuple[Any, ...], dict[str, Any]]:
    """Return the overload in ``torch.ops.functrace`` of an operation that PyTorch does not have."""
    primitive = op.primitive
    match = _NODE.match(op.node)
    name = op.called or (
        primitive.name
        if primitive is not None
        else match["name"].lower()
        if match is not None
        else op.node.lower()
    )
    if name not in OWN:
        OWN[name] = {"default": f"functrace::{name}(Tensor[] operands, Any[] params) -> Tensor"}
    return getattr(ops.functrace, name).default, (list(operands), list(params)), {}


def by_schema(
    overload: OpOverload, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return arguments in schema order: operands, and fields that the node saves under an
    argument's name.
    """
    specs = [
        ShapeDtype(x._array.shape, x._array.dtype)
        if isinstance(x, Tensor)
        else (type(x), x)
        if op.static_numbers
        else type(x)
        for x in operands
    ]
    details = {} if op.details is None or op.primitive is not None else op.details(specs, params)
    given = list(operands)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for argument in overload._schema.arguments:
        if argument.type == "List[Tensor]":
            value: Any = given
        elif argument.name in details and not (
            "Tensor" in argument.type and argument.name in dict(op.saves)
        ):
            value = plain(details[argument.name], argument)
            if given and given[0] is details[argument.name]:
                given.pop(0)
        elif "Tensor" in argument.type or "number" in argument.type:
            value = given.pop(0) if given else argument.default_value
        else:
            value = argument.default_value
        if argument.kwarg_only:
            if value != argument.default_value:
                kwargs[argument.name] = value
        else:
            args.append(value)
    return trimmed(overload, tuple(args)), kwargs


def _spec(op: Op, x: object) -> Any:
    if isinstance(x, Tensor):
        return ShapeDtype(x._array.shape, x._array.dtype)
    return (type(x), x) if op.static_numbers else type(x)


def plain(value: object, argument: Argument) -> Any:
    """Convert a field of a node to the original argument: negative numbers, lists."""
    if type(value) is int and value >= 1 << 63:
        return value - (1 << 64)
    return list(value) if isinstance(value, tuple) and "List" in argument.type else value


def trimmed(overload: OpOverload | None, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return positional arguments without trailing ones that equal the defaults."""
    assert overload is not None
    count = len(args)
    arguments = overload._schema.arguments
    while count and arguments[count - 1].has_default and not isinstance(args[count - 1], Tensor):
        default = arguments[count - 1].default_value
        if args[count - 1] != default and not (default == [] and args[count - 1] is None):
            break
        count -= 1
    return args[:count]


def _split(given: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (given[:-1], given[-1]) if given and isinstance(given[-1], dict) else (given, {})
