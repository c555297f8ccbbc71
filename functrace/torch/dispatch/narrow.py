"""Operations on bfloat16: computed in float32, and rounded once.

Note [bfloat16 is computed in float32]
    NumPy has no bfloat16; the arrays are ml_dtypes', whose kind is ``"V"``. No rule of the core
    computes with them. A case with bfloat16 among its operands (or parameters) has two twins: in the
    `wide` one float32 takes its place, and it gives the computation and the derivative, between
    conversions; in the other one float16 does, which promotes as bfloat16 does, and it tells which
    results are bfloat16 and what is refused. So every operation has bfloat16, and rounds once, as
    PyTorch's kernels do. Views are taken of the bfloat16 arrays themselves.

Layer: 9.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ops.shaping import convert
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.tracing import Tracer
from functrace.tracing.evaluate import evaluate_program

if TYPE_CHECKING:
    from functrace.torch.dispatch.derivation import Case

_HALF, _SINGLE = np.dtype(np.float16), np.dtype(np.float32)


def is_narrow(dtype: np.dtype[Any]) -> bool:
    """Return True for bfloat16."""
    return dtype.kind == "V"


def concerns(specs: Sequence[Any], params: Sequence[Any]) -> bool:
    """Return True if an operand, or a dtype among the parameters, is bfloat16."""
    for spec in specs:
        if isinstance(spec, ShapeDtype) and spec.dtype.kind == "V":
            return True
    return any(_has_narrow(param) for param in params)


def _has_narrow(param: Any) -> bool:
    if type(param) is tuple:
        return any(_has_narrow(part) for part in param)
    return _narrow_of(param) is not None


def _has_dtype(param: Any, dtype: np.dtype[Any]) -> bool:
    if type(param) is tuple:
        return any(_has_dtype(part, dtype) for part in param)
    return isinstance(param, np.dtype) and param == dtype


def _narrow_of(param: Any) -> np.dtype[Any] | None:
    """Return NumPy's bfloat16 if a parameter is that dtype."""
    if isinstance(param, np.dtype):
        return param if param.kind == "V" and param.name == "bfloat16" else None
    if type(param) is Dtype and param.name == "bfloat16":
        return param.numpy
    return None


def _replaced(param: Any, dtype: np.dtype[Any]) -> Any:
    if type(param) is tuple:
        return tuple([_replaced(part, dtype) for part in param])
    if _narrow_of(param) is None:
        return param
    if isinstance(param, np.dtype):
        return dtype
    from functrace.torch.tensors.dtypes import DTYPES

    return DTYPES[dtype]


def twin(case: Case, dtype: np.dtype[Any]) -> Case:
    """Return a case with another dtype in place of bfloat16."""
    made = copy.copy(case)
    made.specs = tuple([
        ShapeDtype(spec.shape, dtype)
        if isinstance(spec, ShapeDtype) and spec.dtype.kind == "V"
        else spec
        for spec in case.specs
    ])  # fmt: skip
    made.params = tuple([_replaced(param, dtype) for param in case.params])
    made.is_wide = True
    made.rounds = None
    return made


def wide(case: Case) -> Case:
    """Return the case in which float32 takes the place of bfloat16."""
    return twin(case, _SINGLE)


def rounded_results(case: Case) -> tuple[bool, ...]:
    """Return, for each result, whether it is bfloat16.

    Raises:
        NotImplementedError: if PyTorch refuses the dtype; or another error of the operation.
    """
    plan = next((p for p in case.params if hasattr(p, "derivation") and hasattr(p, "moves")), None)
    if plan is not None:  # the gradient of one operand has the operand's dtype
        active = [spec for spec, on in zip(plan.case.specs, plan.case.active, strict=True) if on]
        return tuple([spec.dtype.kind == "V" for spec in active])
    whole = [s for s in case.specs if isinstance(s, ShapeDtype)]
    halves = [s for s in whole if s.dtype == _HALF]
    has_dims = any(s.shape for s in whole if s.dtype.kind == "V")
    joins = any(s.shape for s in halves) or (bool(halves) and not has_dims)
    numbers = [
        s if isinstance(s, type) else s[0] for s in case.specs if not isinstance(s, ShapeDtype)
    ]
    if any(s.dtype.kind == "c" for s in whole) or complex in numbers:
        joins = True  # with complex numbers it becomes complex64
    joins = joins and any(s.dtype.kind == "V" for s in whole)
    joins = joins or any(_has_dtype(param, _HALF) for param in case.params)
    proxy = twin(case, _SINGLE if joins else _HALF)
    try:
        program, _, _ = proxy.record()
        dtypes = [program.avals[i].dtype for i in program.output_ids]
    except (NotImplementedError, RuntimeError, TypeError, IndexError, ValueError) as error:
        if not joins and _names_half(error):
            raise type(error)(_of_bfloat16(str(error))) from None
        dtypes = None
    if dtypes is None:  # its function takes arrays only
        return _by_trial(proxy, joins)
    if joins:
        return tuple([False for _ in dtypes])
    return tuple([d == _HALF for d in dtypes])


def _by_trial(proxy: Case, joins: bool) -> tuple[bool, ...]:
    given = [
        np.ones(s.shape, s.dtype) if isinstance(s, ShapeDtype) else s(1) if isinstance(s, type)
        else s[1]
        for s in proxy.specs
    ]  # fmt: skip
    with np.errstate(all="ignore"):
        made = proxy.function(*given, *proxy.params)
    results = made if isinstance(made, tuple) else (made,)
    return tuple([not joins and np.asarray(r).dtype == _HALF for r in results])


def _names_half(error: Exception) -> bool:
    return any(word in str(error) for word in ("Half", "float16"))


def _of_bfloat16(message: str) -> str:
    return message.replace("Half", "BFloat16").replace("float16", "bfloat16")


def widened(x: Any) -> Any:
    """Return a bfloat16 array or traced value as float32; anything else unchanged."""
    dtype = getattr(x, "dtype", None)
    if dtype is None or dtype.kind != "V":
        return x
    return convert(x, _SINGLE) if isinstance(x, Tracer) else x.astype(_SINGLE)


def rounded(x: Any) -> Any:
    """Return a float32 array or traced value, rounded to bfloat16."""
    from functrace.torch.tensors.dtypes import bfloat16

    wanted = bfloat16.numpy
    return convert(x, wanted) if isinstance(x, Tracer) else np.asarray(x).astype(wanted)


# -- what PyTorch rounds more often ----------------------------------------------------------------

COMPARISONS = frozenset({
    "EqBackward0", "NeBackward0", "LtBackward0", "LeBackward0", "GtBackward0", "GeBackward0",
})  # fmt: skip
"""Nodes of comparisons, whose results are bools."""
ROUNDS_NUMBERS = COMPARISONS | frozenset({
    "AddBackward0", "SubBackward0", "RsubBackward1", "PowBackward0", "PowBackward2", "FmodBackward0",
    "RemainderBackward0", "IndexAddBackward0", "HuberLossBackward0", "XlogyBackward1", "XlogyBackward2",
})  # fmt: skip
"""Nodes of operations that round the Python numbers among their operands. (Products and quotients
do not.)
"""
ROUNDS_STEPS = frozenset({
    "XlogyBackward0", "XlogyBackward1", "XlogyBackward2", "LdexpBackward0", "LogitBackward0",
    "SpecialEntrBackward0", "MseLossBackward0", "HuberLossBackward0", "AddrBackward0",
    "LinalgCrossBackward0", "LogsumexpBackward0", "BinaryCrossEntropyBackward0",
    "BinaryCrossEntropyWithLogitsBackward0", "MvlgammaBackward0", "IndexAddBackward0", "ProdBackward1",
})  # fmt: skip
"""Nodes of operations that round every step."""


def _power(x: Any, exponent: Any) -> Any:
    """Return a power by products, each rounded."""
    square = _round_trip(np.multiply(x, x))
    return np.multiply(square, x) if exponent == 3 else np.reciprocal(square)


def _next(x: Any, y: Any) -> Any:
    return np.asarray(np.nextafter(rounded(x), rounded(y))).astype(_SINGLE)


def _round_trip(x: Any) -> Any:
    return widened(rounded(x))


def _product_of_logarithm(x: Any, y: Any) -> Any:
    return np.where((x == 0) & ~np.isnan(y), _ZERO, x * _round_trip(np.log(y)))


def _entropy(x: Any) -> Any:
    found = np.where(x == 0, _ZERO, -x * _round_trip(np.log(x)))
    return np.where(x < 0, np.float32(-np.inf), found)


def _log_sum(x: Any, axes: Any) -> Any:
    most = np.max(x, axis=axes, keepdims=True)
    most = np.where(np.isfinite(most), most, _ZERO)
    terms = _round_trip(np.exp(_round_trip(x - most)))
    return _round_trip(np.log(_round_trip(terms.sum(axis=axes)))) + most.reshape(
        terms.sum(axis=axes).shape
    )


def _log_softmax(x: Any, dim: int) -> Any:
    """Return the logarithm of softmax along the last dimension."""
    if not x.shape:
        return x - x
    shifted = x - np.max(x, axis=-1, keepdims=True)
    total = np.log(_round_trip(np.exp(shifted).sum(-1, keepdims=True)))
    return shifted - _round_trip(total)


def _normal_distribution(x: Any) -> Any:
    from scipy.special import erf

    inner = _round_trip(x * np.float32(np.sqrt(0.5)))
    return _round_trip(1 + _round_trip(erf(inner))) * np.float32(0.5)


def _finite(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``nan_to_num``, whose default limits are those of bfloat16."""

    def computed(*given: Any) -> Any:
        result = np.asarray(function(*given))
        most, least = np.finfo(_SINGLE).max, np.float32(3.3895313892515355e38)
        return np.where(np.abs(result) == most, np.copysign(least, result), result)

    return computed


def _loss_of_classes(x: Any, target: Any, reduction: int, ignored: int) -> Any:
    """Return the sum or mean of negative log-likelihoods, and the number of targets that count."""
    counts = target != ignored
    losses = np.where(counts, -x[np.arange(len(x)), np.where(counts, target, 0)], _ZERO)
    found, total = _sum_of_levels(losses), _sum_of_levels(counts.astype(_SINGLE))
    with np.errstate(all="ignore"):
        return (found if reduction == 2 else found / total), total


_GROUP, _LEVELS = 16, 8


def _sum_of_levels(x: Any) -> Any:
    """Return a sum in bfloat16 as PyTorch adds up losses: groups of 16, groups of 16 groups …; the
    first loss counts as one of the last level.
    """
    values = rounded(x)
    first, rest = values[:1], values[1:]
    sums: list[Any] = []
    for _ in range(_LEVELS - 1):
        whole = len(rest) // _GROUP * _GROUP
        sums.append(np.add.reduce(rest[whole:]))
        rest = np.add.reduce(rest[:whole].reshape(-1, _GROUP), axis=1)
    sums.append(np.add.reduce(np.concatenate([first, rest])))
    return np.add.reduce(np.array(sums, values.dtype)).astype(_SINGLE)


def _normalized(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return batch normalization in training, with rounded statistics."""

    def computed(x: Any, *rest: Any) -> Any:
        made, *statistics = function(x, *rest)
        *parameters, given, _training, _eps = rest
        shape = (1, -1, *(1,) * (x.ndim - 2))
        mean, scale = (_round_trip(one) for one in statistics)
        result = (x - mean.reshape(shape)) * scale.reshape(shape)
        left = iter(parameters)
        result = result * next(left).reshape(shape) if given[0] else result
        result = result + next(left).reshape(shape) if given[1] else result
        if made.flags.c_contiguous:
            result = np.ascontiguousarray(result)
        return result, mean, scale

    return computed


def _product(x: Any, axes: Any) -> Any:
    return np.asarray(np.multiply.reduce(rounded(x), axis=axes)).astype(_SINGLE)


_ZERO = np.float32(0)
_WAYS: dict[str, Callable[..., Any]] = {
    "xlogy": _product_of_logarithm, "entr": _entropy, "logsumexp": _log_sum,
    "reduce_prod": _product,
}  # fmt: skip
"""Primitives whose own steps PyTorch rounds."""


def _stepwise(case: Case) -> Callable[..., Any]:
    """Return the function of a wide case that rounds every step of the computation."""
    program, variables, many = case.record()

    def computed(*given: Any) -> Any:
        after: list[Any] = []  # (sums, and what is computed from them)

        def step(primitive: Any, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
            way = _WAYS.get(primitive.name)
            if way is not None:
                return _round_trip(way(*operands, *params))
            result = primitive.eval(*operands, *params)
            if getattr(result, "dtype", None) != _SINGLE:
                return result
            sums = primitive.name.startswith(("reduce_", "mean"))
            if sums or any(x is y for x in operands for y in after):
                after.append(result)
                return result
            return _round_trip(result)

        inputs = [x for x, variable in zip(given, variables, strict=False) if variable is not None]
        results = evaluate_program(program, inputs, apply=step)
        return tuple(results) if many else results[0]

    return computed


def _function(inner: Case) -> Callable[..., Any]:
    """Return the function of a wide case, with PyTorch's roundings on the way."""
    node, specs = inner.op.node, inner.specs
    if node == "PowBackward0" and type(specs[-1]) is tuple and specs[-1][1] in (3, -2):
        return _untraced(_power, inner)
    if node == "NextafterBackward0":
        return _untraced(_next, inner)
    if node == "LogSoftmaxBackward0" and inner.params[0] in (-1, len(specs[0].shape) - 1):
        return _untraced(_log_softmax, inner)
    if node == "NllLossBackward0" and len(specs[0].shape) == 2 and inner.params[0]:
        return _untraced(_loss_of_classes, inner)
    if node == "NativeBatchNormBackward0" and inner.params[1]:
        return _untraced(_normalized(inner.function), inner)
    if node == "NanToNumBackward0":
        return _untraced(_finite(inner.function), inner)
    if inner.op.called == "special_ndtr":
        return _untraced(_normal_distribution, inner)
    if node in ROUNDS_STEPS:
        return _untraced(_stepwise(inner), inner)
    return inner.function


def _untraced(function: Callable[..., Any], inner: Case) -> Callable[..., Any]:
    """Return a function of arrays that computes traced values as the case does."""
    plain = inner.function

    def computed(*given: Any) -> Any:
        return (plain if any(isinstance(x, Tracer) for x in given) else function)(*given)

    return computed


def _rounded_number(x: Any) -> Any:
    return float(rounded(np.float32(x))) if type(x) is float else x


def between_conversions(case: Case) -> Callable[..., Any]:
    """Return the function of a case that computes in float32."""
    rounds = case.rounded_results  # first: it refuses what PyTorch refuses
    inner = wide(case)
    count = len(case.specs)
    is_all_narrow = (rounds[0] or case.op.node in COMPARISONS) and not any(
        isinstance(s, ShapeDtype) and s.dtype == _SINGLE for s in case.specs
    )
    takes_numbers = is_all_narrow and case.op.node in ROUNDS_NUMBERS
    if takes_numbers:
        inner.params = tuple([_rounded_number(x) for x in inner.params])
    function, params = (_function(inner) if is_all_narrow else inner.function), inner.params

    def computed(*given: Any) -> Any:
        operands = [widened(x) for x in given[:count]]
        if takes_numbers:
            operands = [_rounded_number(x) for x in operands]
        results = function(*operands, *params)
        if type(results) is tuple:
            return tuple([
                rounded(r) if flag else r for r, flag in zip(results, rounds, strict=True)
            ])  # fmt: skip
        return rounded(results) if rounds[0] else results

    return computed
