"""The rows of variances, medians, norms and sorting: ``var``, ``median``, ``norm``, ``amax``,
``sort``, ``topk``.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ir.symbolic_numbers import computed
from functrace.ops import elementwise as ew
from functrace.ops import reductions as core
from functrace.ops.indexing import index_static
from functrace.ops.norms import vector_norm
from functrace.ops.shaping import convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.sorting import argsort as core_argsort
from functrace.ops.sorting import take_along_axis
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import arithmetic, for_kinds
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn
from functrace.torch.functions.elementwise import (
    dimension,
    dimensions,
    dtype_of,
    shape_of,
    tensors_only,
    to,
    where,
    whole,
)
from functrace.torch.functions.reductions import Dims, Extreme, check_nonempty
from functrace.torch.functions.reductions import sum as sum_
from functrace.torch.tensors.dtypes import DTYPES, DtypeLike
from functrace.torch.tensors.orders import laid
from functrace.torch.tensors.tensor import Operand, Value
from functrace.typing import Array

ROWS = FunctionTable()


def _keeping(y: Array, x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return core.expand_reduced(y, x.shape, axes) if keep else y


# -- variances -------------------------------------------------------------------------------------


def _var(x: Array, axes: tuple[int, ...], correction: float, keep: bool, _shown: Any) -> Any:
    return _keeping(core.variance(x, axes, correction), x, axes, keep)


def _mean(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    count = math.prod(x.shape[k] for k in axes)
    return _keeping(ew.div(core.reduce_sum(x, axes), computed(float, count)), x, axes, keep)


def _std(*given: Any) -> Any:
    return ew.sqrt_of_square(_var(*given))


def _var_mean(x: Array, axes: tuple[int, ...], correction: float, keep: bool, shown: Any) -> Any:
    return _var(x, axes, correction, keep, shown), _mean(x, axes, keep)


def _std_mean(x: Array, axes: tuple[int, ...], correction: float, keep: bool, shown: Any) -> Any:
    return _std(x, axes, correction, keep, shown), _mean(x, axes, keep)


def _var_details(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    correction, dim = params[3]
    return {"correction": correction, "dim": dim, "keepdim": params[2]}


_SELF = (("self", 0),)
_FORMS = {
    "var": Op("VarBackward0", _var, _SELF, keeps=("self",), details=_var_details, in_rows=True),
    "std": Op(
        "StdBackward0",
        _std,
        (*_SELF, ("result", -1)),
        keeps=("self", "result"),
        details=_var_details,
        in_rows=True,
    ),
    "var_mean": Op(
        "VarMeanBackward0",
        _var_mean,
        _SELF,
        keeps=("self",),
        details=_var_details,
        in_rows=True,
        apart=True,
    ),
    "std_mean": Op(
        "StdMeanBackward0",
        _std_mean,
        (*_SELF, ("result0", -1)),
        keeps=("self", "result0"),
        details=_var_details,
        in_rows=True,
        apart=True,
    ),
}


def _spread(name: str, says: str, forms: str) -> None:
    op = _FORMS[name]

    def function(
        input: Operand,
        dim: Any = None,
        unbiased: Any = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Any:
        tensors_only(name, input=input)
        if isinstance(dim, bool):  # var(unbiased)
            dim, unbiased = None, dim
        if unbiased is not None and not isinstance(unbiased, bool):
            raise TypeError(errors.must_be(name, "unbiased", 2, "bool", type(unbiased).__name__))
        if dtype_of(input).kind not in "fcV":
            called = name if name.endswith("_mean") else "std and var"
            raise RuntimeError(errors.floats_only(called))
        axes = dimensions(dim, len(shape_of(input)))
        if dim is not None and correction is None and unbiased is None:
            unbiased = True
        if unbiased is not None and correction is None:
            correction = 1 if unbiased else 0
        taken = 1 if correction is None else correction
        if math.prod(shape_of(input)[k] for k in axes) <= taken:
            warn(errors.degrees_of_freedom(name))
            if dim is None or not shape_of(input):
                taken = math.inf  # over all elements, PyTorch's derivative differs then
        shown = correction, None if dim is None else axes
        return apply(op, (input,), (axes, taken, bool(keepdim), shown))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return the {says}, of all elements or along dimensions; with Bessel's correction by default."
    ROWS.function(forms)(function)


_spread("var", "variance", "function method")
_spread("std", "standard deviation", "function method")
_spread("var_mean", "variance and the mean", "function")
_spread("std_mean", "standard deviation and the mean", "function")


# -- extremes by value -----------------------------------------------------------------------------


def _extreme(name: str, reduce: Callable[..., Any], says: str, kernel: str) -> None:
    op = Op(
        f"{name.title()}Backward0",
        lambda x, axes, keep, shown: _keeping(reduce(x, axes), x, axes, keep),
        (*_SELF, ("result", -1)),
        arithmetic.checked(for_kinds("buif", kernel)),
        keeps=("self", "result"),
        details=lambda specs, params: {"dim": params[2], "keepdim": params[1]},
        in_rows=True,
    )

    def function(input: Operand, dim: Dims = (), keepdim: bool = False) -> Value:
        tensors_only(name, input=input)
        axes = dimensions(dim, len(shape_of(input)))
        for axis in axes if dim != () else (None,):
            check_nonempty(name, shape_of(input), axis)
        return apply(op, (input,), (axes, bool(keepdim), axes if dim != () else ()))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Return the {says} element, of all or along dimensions; ties share the gradient."
    )
    ROWS.function(out=True)(function)


_extreme("amax", core.reduce_max, "largest", "max_values_cpu")
_extreme("amin", core.reduce_min, "smallest", "min_values_cpu")


@ROWS.function()
def nansum(
    input: Operand, dim: Dims = None, keepdim: bool = False, *, dtype: DtypeLike | None = None
) -> Value:
    """Return the sum of the elements that are not nan."""
    if dtype_of(input).kind == "c":
        raise RuntimeError("nansum on CPU does not support complex inputs")
    given: Any = input
    return sum_(where(given != given, 0, given), dim, keepdim, dtype=dtype)


@ROWS.function()
def count_nonzero(input: Operand, dim: Dims = None) -> Value:
    """Return the number of nonzero elements."""
    given: Any = input
    return sum_(given != 0, dim)


# -- order -----------------------------------------------------------------------------------------


class _Median(Extreme):
    __slots__ = ()


class _Nanmedian(Extreme):
    __slots__ = ()


class _Sort(Extreme):
    __slots__ = ()


class _Topk(Extreme):
    __slots__ = ()


class _Kthvalue(Extreme):
    __slots__ = ()


for _kind in (_Median, _Nanmedian, _Sort, _Topk, _Kthvalue):
    _kind.__name__ = _kind.__name__.strip("_").lower()


def _middle(x: Array, axis: int, ignores_nan: bool) -> Any:
    """Index of the lower median along an axis, which is kept; of the first nan if there is one and
    it counts.
    """
    order = core_argsort(x, axis, "stable")
    size = x.shape[axis]
    numbers = core.expand_reduced(
        core.reduce_sum(convert(ew.equal(x, x), np.int64), (axis,)), x.shape, (axis,)
    )  # nan sorts last
    if ignores_nan:
        place = ew.maximum(ew.floor_divide(ew.sub(numbers, 1), 2), 0)
    else:
        place = ew.where(ew.less(numbers, size), ew.minimum(numbers, size - 1), (size - 1) // 2)
    return take_along_axis(order, place, axis)


def _median_along(ignores_nan: bool) -> Callable[..., Any]:
    def function(x: Array, axis: int, keep: bool) -> Any:
        if not x.ndim:
            return ew.positive(x), convert(ew.mul(ew.not_equal(x, x), 0), np.int64)
        dropped = core.dropped_shape(x.shape, (axis,))
        found = core_reshape(_middle(x, axis, ignores_nan), dropped)
        kept = core.expand_reduced(found, x.shape, (axis,))
        values = take_along_axis(x, kept, axis)
        return (values, kept) if keep else (core_reshape(values, dropped), found)

    return function


def _median_of_all(ignores_nan: bool) -> Callable[..., Any]:
    def function(x: Array) -> Any:
        if not x.ndim:
            return ew.positive(x)
        flat = core_reshape(x, (math.prod(x.shape),))
        if 0 in x.shape:  # nan, or the least integer
            least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else math.nan
            return ew.add(
                convert(core.reduce_sum(flat, (0,)), x.dtype), np.asarray(least, x.dtype)[()]
            )
        value = core_reshape(take_along_axis(flat, _middle(flat, 0, ignores_nan), 0), ())
        if x.dtype.kind not in "fV":
            return value
        return core.shared(flat, ew.stop_gradient(value))

    return function


def _medians(made: type[Extreme], ignores_nan: bool) -> None:
    name = made.__name__
    orders = arithmetic.checked(for_kinds("uif", "median_cpu"))
    everything = Op(
        f"{name.title()}Backward0",
        _median_of_all(ignores_nan),
        (("self", 0), ("result", -1)),
        orders,
        keeps=("self", "result"),
    )
    along = Op(
        f"{name.title()}Backward1", _median_along(ignores_nan), (("indices", -2),), orders,
        details=lambda specs, params: {"dim": params[0], "keepdim": params[1],
        "self_sym_sizes": specs[0].shape},
        in_rows=True,
    )  # fmt: skip

    def function(input: Operand, dim: int | None = None, keepdim: bool = False) -> Any:
        tensors_only(name, input=input)
        if dim is None:
            return apply(everything, (input,))
        axis = dimension(dim, len(shape_of(input)))
        check_nonempty(name, shape_of(input), axis)
        return made(*apply(along, (input,), (axis, bool(keepdim))))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        "Return the lower median of all elements, or along a dimension, with its index."
    )
    ROWS.function(out=True)(function)


_medians(_Median, ignores_nan=False)
_medians(_Nanmedian, ignores_nan=True)


def _order(x: Array, axis: int, descending: bool) -> Any:
    """Indices in sorted order (stable); nan is the largest."""
    if not descending:
        return core_argsort(x, axis, "stable")
    turned = tuple((None, None, -1) if k == axis else (None, None, None) for k in range(x.ndim))
    backwards = index_static(core_argsort(index_static(x, turned), axis, "stable"), turned)
    return ew.sub(x.shape[axis] - 1, backwards)


def _sorted(x: Array, axis: int, descending: bool, count: int | None, _shown: int) -> Any:
    if not x.ndim:
        value = ew.stop_gradient(x) if x.dtype.kind == "b" else ew.positive(x)
        return value, convert(ew.mul(ew.not_equal(x, x), 0), np.int64)
    order = _order(x, axis, descending)
    if count is not None:
        order = index_static(order, (*((None, None, None),) * axis, (0, count, 1), ...))
    values = take_along_axis(x, order, axis)
    if count is not None or not isinstance(x, np.ndarray) or x.flags.c_contiguous:
        return values, order
    return laid(values, [x]), laid(order, [x])


def _sort_op(node: str) -> Op:
    return Op(
        node, _sorted, (("indices", -2),), arithmetic.checked(for_kinds("buif",
        errors.SORT_OF_COMPLEX, RuntimeError)),
        details=lambda specs, params: {"dim": params[3] % (1 << 64),
        "self_sym_sizes": specs[0].shape},
    )  # fmt: skip


SORT, TOPK = _sort_op("SortBackward0"), _sort_op("TopkBackward0")


@ROWS.function(out=True)
def sort(
    input: Operand, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> Any:
    """Return the sorted elements along a dimension, and their former indices."""
    tensors_only("sort", input=input)
    axis = dimension(dim, len(shape_of(input)))
    return _Sort(*apply(SORT, (input,), (axis, bool(descending), None, dim)))


@ROWS.function(out=True)
def argsort(
    input: Operand, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Value:
    """Return the indices that sort elements along a dimension."""
    return sort(input, dim, descending).indices


@ROWS.function(out=True)
def topk(input: Operand, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the ``k`` largest (or smallest) elements along a dimension, and their indices."""
    tensors_only("topk", input=input)
    k = whole("topk", "k", k, 1)
    if dtype_of(input).kind == "b":
        raise RuntimeError("topk does not support bool dtypes on CPU")
    axis = dimension(dim, len(shape_of(input)))
    if k < 0 or k > (shape_of(input) or (1,))[axis]:
        raise RuntimeError("selected index k out of range")
    return _Topk(*apply(TOPK, (input,), (axis, bool(largest), int(k), dim)))


# -- norms -----------------------------------------------------------------------------------------


def _norm(x: Array, order: float, axes: tuple[int, ...], keep: bool, _shown: Any) -> Any:
    if order == 0:
        count = core.reduce_sum(convert(ew.not_equal(x, 0), x.dtype.type(0).real.dtype), axes)
        return _keeping(count, x, axes, keep)
    return _keeping(vector_norm(x, axes, order), x, axes, keep)


def _norm_derived(x: Array, order: float, axes: tuple[int, ...], keep: bool, shown: Any) -> Any:
    return (
        core.keeping(lambda x, axes: _norm(x, order, axes, False, shown), x, axes)
        if keep
        else _norm(x, order, axes, keep, shown)
    )


NORM = Op(
    "LinalgVectorNormBackward0",
    _norm,
    (("self", 0), ("result", -1)),
    derived=_norm_derived,
    in_rows=True,
    keeps=("self", "result"),
    details=lambda specs, params: {"ord": params[0], "dim": params[3], "keepdim": params[2]},
)


@ROWS.function(out=True)
def norm(
    input: Operand,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    dtype: DtypeLike | None = None,
) -> Value:
    """Return the norm of all elements, or along dimensions: ``sum(abs(input)**p)**(1/p)``.

    Raises:
        RuntimeError: for integers.
    """
    tensors_only("norm", input=input)
    if dtype is not None:
        input = to(input, dtype)
    if dtype_of(input).kind not in "fcV":
        raise RuntimeError(errors.norm_dtype(DTYPES[dtype_of(input)].printed))
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"functrace.torch has no norm(p={p!r}); there are 'fro' and numbers")
    order = 2 if p in (None, "fro") else p
    shape = shape_of(input)
    axes = dimensions(dim, len(shape))
    if 0 in shape and (order < 0 or order == math.inf):
        given = None if dim is None else (dim,) if isinstance(dim, int) else dim
        for k, axis in enumerate(axes):
            if shape[axis] == 0:
                raise RuntimeError(errors.norm_of_none(order, given[k] if given else None))
    return apply(NORM, (input,), (order, axes, bool(keepdim), None if dim is None else axes))


@ROWS.function()
def dist(input: Operand, other: Operand, p: float = 2) -> Value:
    """Return the norm of the difference."""
    given: Any = input
    return norm(given - other, p)
