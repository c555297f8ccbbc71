"""The rows of reductions: sums, extremes and their positions, softmax.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops import reductions as core
from functrace.ops.shaping import convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.sorting import take_along_axis
from functrace.torch import errors
from functrace.torch.dispatch.applying import OF_OUTPUT, Op, apply, recorded_gradient
from functrace.torch.dispatch.promotion import Promotion, arithmetic, floating, for_kinds
from functrace.torch.dispatch.results import put_out
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions.elementwise import (
    RESULT,
    dimension,
    dimensions,
    dtype_of,
    maximum,
    minimum,
    shape_of,
    tensors_only,
    to,
    whole,
)
from functrace.torch.tensors.dtypes import DTYPES, DtypeLike, numpy_dtype
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.tracing import Tracer, bind
from functrace.typing import Array

ROWS = FunctionTable()
Dims: TypeAlias = "int | Sequence[int] | None"


def _reduced(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"self_sym_sizes": specs[0].shape}
    return found | {"dim": params[0], "keepdim": params[1]} if params else found


def _averaged(specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return _reduced(specs, params) | {"self_sym_numel": specs[0].size}


def _keeping(y: Array, x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return core.expand_reduced(y, x.shape, axes) if keep else y


def _sum(x: Array, axes: Any = None, keep: bool = False) -> Any:
    axes = tuple(range(x.ndim)) if axes is None else axes
    total = bind(core.reduce_sum_p, (x,), (axes,))  # also over no axes: a copy
    return _keeping(convert(total, x.dtype) if x.dtype.kind in "bui" else total, x, axes, keep)


def _mean(x: Array, axes: Any = None, keep: bool = False) -> Any:
    axes = tuple(range(x.ndim)) if axes is None else axes
    return _keeping(ew.div(core.reduce_sum(x, axes), core.count(x.shape, axes)), x, axes, keep)


def _prod(x: Array, axis: int | None = None, keep: bool = False) -> Any:
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if x.ndim else ()
    product = core.reduce_prod(x, axes)
    return _keeping(convert(product, x.dtype) if x.dtype.kind in "bui" else product, x, axes, keep)


def _in_dtype(input: Operand, dtype: DtypeLike | None) -> Operand:
    """Convert the operand of a sum: integers to int64, unless a dtype is given."""
    if dtype is not None:
        return to(input, dtype)
    return to(input, np.dtype(np.int64)) if dtype_of(input).kind in "bui" else input


def _check_keepdim(name: str, keepdim: Any) -> bool:
    if type(keepdim) is not bool:
        raise TypeError(errors.must_be(name, "keepdim", 1, "bool", type(keepdim).__name__))
    return keepdim


def _kept_along(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"dim": params[0], "keepdim": params[1]}


SUM = Op("SumBackward0", _sum, details=_reduced)
SUM_DIM = Op("SumBackward1", _sum, details=_reduced, in_rows=True)
MEAN = Op("MeanBackward0", _mean, details=_averaged)
MEAN_DIM = Op("MeanBackward1", _mean, details=_averaged, in_rows=True)
PROD = Op("ProdBackward0", _prod, (("self", 0), ("result", -1)), keeps=("self", "result"))
PROD_DIM = Op(
    "ProdBackward1",
    _prod,
    (("self", 0), ("result", -1)),
    keeps=("self", "result"),
    details=_kept_along,
    in_rows=True,
)
MAX = Op(
    "MaxBackward1",
    lambda x: core.reduce_max(x, tuple(range(x.ndim))),
    (("self", 0), ("result", -1)),
    arithmetic.checked(for_kinds("buif", "max_all")),
    derived=lambda x: core.shared(x, core.reduce_max(x, tuple(range(x.ndim)))),
)
MIN = Op(
    "MinBackward1",
    lambda x: core.reduce_min(x, tuple(range(x.ndim))),
    (("self", 0), ("result", -1)),
    arithmetic.checked(for_kinds("buif", "min_all")),
    derived=lambda x: core.shared(x, core.reduce_min(x, tuple(range(x.ndim)))),
)


@ROWS.function()
def sum(
    input: Operand,
    dim: Dims | EllipsisType = ...,
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
    out: Tensor | None = None,
) -> Value:
    """Return the sum of all elements, or along dimensions; integers sum to int64."""
    if out is not None:
        dims = None if dim is ... else dim
        return put_out(
            out, "sum", (input, dims, keepdim), lambda: sum(input, dim, keepdim, dtype=dtype)
        )
    if not isinstance(input, Tensor):
        tensors_only("sum", input=input)
    input = _in_dtype(input, dtype)
    if dim is ...:  # (an explicit None is PyTorch's other overload)
        if not keepdim:
            return apply(SUM, (input,))
        dim = None
    return apply(
        SUM_DIM, (input,), (dimensions(dim, len(shape_of(input))), _check_keepdim("sum", keepdim))
    )


@ROWS.function()
def mean(
    input: Operand,
    dim: Dims | EllipsisType = ...,
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
    out: Tensor | None = None,
) -> Value:
    """Return the mean of all elements, or along dimensions.

    Raises:
        RuntimeError: for integers.
    """
    if out is not None:
        dims = None if dim is ... else dim
        return put_out(
            out, "mean", (input, dims, keepdim), lambda: mean(input, dim, keepdim, dtype=dtype)
        )
    if not isinstance(input, Tensor):
        tensors_only("mean", input=input)
    if dtype is not None:
        wanted = numpy_dtype(dtype)
        if wanted.kind not in "fcV":
            raise RuntimeError(errors.mean_of_integers(DTYPES[wanted].printed, "Optional"))
        input = to(input, dtype)
    if dtype_of(input).kind not in "fcV":
        raise RuntimeError(errors.mean_of_integers(DTYPES[dtype_of(input)].printed))
    if dim is ...:
        if not keepdim:
            return apply(MEAN, (input,))
        dim = None
    return apply(
        MEAN_DIM, (input,), (dimensions(dim, len(shape_of(input))), _check_keepdim("mean", keepdim))
    )


@ROWS.function()
def prod(
    input: Operand,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    dtype: DtypeLike | None = None,
    out: Tensor | None = None,
) -> Value:
    """Return the product of all elements, or along a dimension; integers multiply to int64."""
    if out is not None:
        return put_out(
            out, "prod", (input, dim, keepdim), lambda: prod(input, dim, keepdim, dtype=dtype)
        )
    if not isinstance(input, Tensor):
        tensors_only("prod", input=input)
    input = _in_dtype(input, dtype)
    if dim is None:
        return apply(PROD, (input,))
    return apply(
        PROD_DIM,
        (input,),
        (
            dimension(whole("prod", "dim", dim), len(shape_of(input))),
            _check_keepdim("prod", keepdim),
        ),
    )


class Extreme(NamedTuple):
    """The extreme elements along a dimension, and their indices."""

    values: Any
    indices: Any

    def __repr__(self) -> str:
        return f"torch.return_types.{type(self).__name__}(\nvalues={self.values!r},\nindices={self.indices!r})"


class _Max(Extreme):
    __slots__ = ()


class _Min(Extreme):
    __slots__ = ()


_Max.__name__, _Min.__name__ = "max", "min"


def _extreme_along(position: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Array, axis: int, keep: bool) -> Any:
        if not x.shape:
            value = ew.stop_gradient(x) if x.dtype.kind == "b" else ew.positive(x)
            return value, convert(ew.mul(ew.not_equal(x, x), 0), np.int64)
        found = position(x, axis)
        kept = core.expand_reduced(found, x.shape, (axis,))
        values = take_along_axis(x, kept, axis)
        return (
            (values, kept)
            if keep
            else (core_reshape(values, core.dropped_shape(x.shape, (axis,))), found)
        )

    return function


def _along(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"dim": params[0], "keepdim": params[1], "self_sym_sizes": _specs[0].shape}


def _ordered(name: str) -> Promotion:
    return arithmetic.checked(for_kinds("buif", errors.complex_input(name), RuntimeError))


MAX_DIM = Op(
    "MaxBackward0",
    _extreme_along(core.argmax),
    (("indices", -2),),
    _ordered("max"),
    details=_along,
    keeps=("indices",),
    in_rows=True,
)
MIN_DIM = Op(
    "MinBackward0",
    _extreme_along(core.argmin),
    (("indices", -2),),
    _ordered("min"),
    details=_along,
    keeps=("indices",),
    in_rows=True,
)


def check_nonempty(name: str, shape: tuple[int, ...], axis: int | None) -> None:
    """Refuse the extreme of no elements.

    Raises:
        IndexError: along a dimension of size 0.
        RuntimeError: for the largest or smallest of no elements at all.
    """
    if 0 in shape and (axis is None or shape[axis] == 0):
        kind = RuntimeError if axis is None and not name.startswith("arg") else IndexError
        raise kind(errors.reduction_of_nothing(name, axis))


def _extreme(everything: Op, along: Op, pair: Callable[..., Any], made: type[Extreme]) -> None:
    def function(input: Operand, dim: Operand | None = None, keepdim: bool = False) -> Any:
        shape = shape_of(input)
        if dim is None and not keepdim:
            check_nonempty(made.__name__, shape, None)
            return apply(everything, (input,))
        if isinstance(dim, np.integer):
            dim = int(dim)
        if not isinstance(dim, int) or isinstance(dim, bool):
            if not isinstance(dim, (Tensor, Tracer, np.ndarray)):
                raise TypeError(errors.invalid_combination(made.__name__, (dim,)))
            return pair(input, dim)
        axis = dimension(dim, len(shape))
        check_nonempty(made.__name__, shape, axis)
        return made(*apply(along, (input,), (axis, _check_keepdim(made.__name__, keepdim))))

    function.__name__ = function.__qualname__ = made.__name__
    function.__doc__ = (
        f"Return the {made.__name__}imum: of all, along a dimension (with indices), of two tensors."
    )
    ROWS.function(out=True)(function)


_extreme(MAX, MAX_DIM, maximum, _Max)
_extreme(MIN, MIN_DIM, minimum, _Min)


def _position_of(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Array, axis: int | None, keep: bool) -> Any:
        if axis is None:
            found = reduce(core_reshape(x, (math.prod(x.shape),)), 0)
            return core_reshape(found, (1,) * x.ndim) if keep else found
        return _keeping(reduce(x, axis), x, (axis,), keep)

    return function


def _argument(reduce: Callable[..., Any], name: str) -> None:
    op = Op(
        "ArgBackward0",
        _position_of(reduce),
        promote=_ordered(name),
        details=_kept_along,
        called=name,
        in_rows=True,
    )

    def function(input: Operand, dim: int | None = None, keepdim: bool = False) -> Value:
        if dtype_of(input).kind == "b":
            raise RuntimeError(errors.position_among_bools(name))
        axis = None if dim is None else dimension(whole(name, "dim", dim), len(shape_of(input)))
        check_nonempty(name, shape_of(input), axis)
        return apply(op, (input,), (axis, bool(keepdim)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Return the index of the {name[3:]}imum, of all elements or along a dimension."
    )
    ROWS.function(out=True)(function)


_argument(core.argmax, "argmax")
_argument(core.argmin, "argmin")


def _as_bytes(found: Array, dtype: np.dtype[Any]) -> Any:
    return convert(found, dtype) if dtype == np.uint8 else found


def _truth(reduce: Callable[..., Any], name: str) -> None:
    op = Op(
        "TruthBackward0",
        lambda x, axes, keep: _as_bytes(_keeping(reduce(x, axes), x, axes, keep), x.dtype),
        details=_kept_along,
        called=name,
        in_rows=True,
    )

    def function(input: Operand, dim: Dims = None, keepdim: bool = False) -> Value:
        tensors_only(name, input=input)
        axes = () if dim == () or dim == [] else dimensions(dim, len(shape_of(input)))
        return apply(op, (input,), (axes, _check_keepdim(name, keepdim)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Return True if {name} elements are true, of all elements or along dimensions."
    )
    ROWS.function(out=True)(function)


_truth(core.reduce_any, "any")
_truth(core.reduce_all, "all")

LOGSUMEXP = Op(
    "LogsumexpBackward0",
    lambda x, axes, keep: _keeping(core.logsumexp(x, axes), x, axes, keep),
    (("self", 0), ("result", -1)),
    floating,
    in_rows=True,
    keeps=("self", "result"),
    details=_kept_along,
    derived=lambda x, axes, keep: (
        core.keeping(core.logsumexp, x, axes) if keep else core.logsumexp(x, axes)
    ),
)


@ROWS.function(out=True)
def logsumexp(input: Operand, dim: Dims, keepdim: bool = False) -> Value:
    """Return ``log(sum(exp(input)))`` along dimensions, without overflow."""
    if dim is None:
        raise TypeError(errors.must_be("logsumexp", "dim", 1, "tuple of ints", "NoneType"))
    return apply(LOGSUMEXP, (input,), (dimensions(dim, len(shape_of(input))), bool(keepdim)))


def _dim(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"dim": params[0]}


def _of_floats(kernel: str) -> Promotion:
    return arithmetic.checked(for_kinds("f", kernel))


SOFTMAX = Op(
    "SoftmaxBackward0",
    lambda x, dim: core.softmax(x, dim) if x.shape else ew.exp(ew.sub(x, x)),
    RESULT,
    _of_floats("softmax_lastdim_kernel_impl"),
    keeps=("result",),
    details=_dim,
    gradient=recorded_gradient("SoftmaxBackwardDataBackward0", *OF_OUTPUT),
    in_rows=True,
)
LOG_SOFTMAX = Op(
    "LogSoftmaxBackward0",
    lambda x, dim: core.log_softmax(x, dim) if x.shape else ew.sub(x, x),
    RESULT,
    _of_floats("log_softmax_lastdim_kernel_impl"),
    keeps=("result",),
    details=_dim,
    gradient=recorded_gradient("LogSoftmaxBackwardDataBackward0", *OF_OUTPUT),
    in_rows=True,
)


def _normalized(op: Op, name: str) -> Callable[..., Any]:
    def function(input: Operand, dim: int, dtype: DtypeLike | None = None) -> Value:
        if dtype is not None:
            input = to(input, dtype)
        if not isinstance(input, Tensor):
            tensors_only(name, input=input)
        dim = dim if type(dim) is int else whole(name, "dim", dim)
        return apply(op, (input,), (dimension(dim, len(shape_of(input))),))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return the {name.replace('_', ' of the ')} along a dimension."
    return ROWS.function("function method", out=True)(function)


softmax = _normalized(SOFTMAX, "softmax")
log_softmax = _normalized(LOG_SOFTMAX, "log_softmax")
