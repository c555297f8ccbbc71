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
    if any(s.dtype.kind == "c" for s in whole) or complex in [
        s if isinstance(s, type) else s[0] for s in case.specs if not isinstance(s, ShapeDtype)
    ]:
        joins = True  # with complex numbers it becomes complex64
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


def between_conversions(case: Case) -> Callable[..., Any]:
    """Return the function of a case that computes in float32."""
    inner = wide(case)
    function, params, count = inner.function, inner.params, len(case.specs)
    rounds = case.rounded_results

    def computed(*given: Any) -> Any:
        results = function(*[widened(x) for x in given[:count]], *params)
        if type(results) is tuple:
            return tuple([
                rounded(r) if flag else r for r, flag in zip(results, rounds, strict=True)
            ])  # fmt: skip
        return rounded(results) if rounds[0] else results

    return computed
