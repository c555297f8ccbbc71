"""``x.at[index]``: functional updates of an array, and ``numpy.ufunc.at``.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.errors import DtypeError, UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.assignment import assigned
from functrace.numpy.arrays.indexing import (
    only_mask,
    parse_index,
    put_at,
    read,
    store,
    without_leading_ones,
)
from functrace.numpy.arrays.masked import MaskedSelection, is_mask
from functrace.numpy.protocol.operands import Arrayed, Index, Operand, known
from functrace.numpy.protocol.tables import ufunc_method
from functrace.ops import elementwise as ew
from functrace.ops.indexing import ARRAY, StaticIndex, gather, scatter_add, scatter_set
from functrace.ops.shaping import broadcast_to, convert, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import LITERALS, Tracer, as_array
from functrace.tracing.values import has_value
from functrace.typing import Scalar

if TYPE_CHECKING:
    from functrace.numpy.arrays.traced_array import TracedArray

# -- x.at[index] -----------------------------------------------------------------------------------


MOST_UNROLLED = 64
"""Limit on sequential updates in ``at[].multiply`` etc. with repeated or abstract indices."""


@final
class At:
    """``x.at``: functional updates; see `AtIndex`."""

    __slots__ = ("x",)

    def __init__(self, x: Arrayed) -> None:
        self.x = x

    def __getitem__(self, index: Index) -> AtIndex:
        return AtIndex(self.x, index)


@final
class AtIndex:
    """``x.at[index]``: each method returns a new array with that part updated; ``x`` is unchanged.

    At repeated indices ``set`` keeps the last value; the other methods apply every update, as
    ``numpy.ufunc.at`` does.
    """

    __slots__ = ("index", "x")

    def __init__(self, x: Arrayed, index: Index) -> None:
        self.x, self.index = x, index

    def get(self) -> Any:
        """Return ``x[index]``."""
        return read(self.x, self.index)

    def set(self, values: Operand) -> Any:
        """Return a copy in which ``x[index] = values``."""
        return store(self.x, self.index, values)

    def add(self, values: Operand) -> Any:
        """Return a copy in which ``values`` are added to ``x[index]``."""
        return self._sum(ew.add, values)

    def subtract(self, values: Operand) -> Any:
        """Return a copy in which ``values`` are subtracted from ``x[index]``."""
        return self._sum(ew.sub, values)

    def multiply(self, values: Operand) -> Any:
        """Return a copy in which ``x[index]`` is multiplied by ``values``."""
        return self._update(ew.mul, values)

    mul = multiply

    def divide(self, values: Operand) -> Any:
        """Return a copy in which ``x[index]`` is divided by ``values``."""
        return self._update(ew.div, values)

    def power(self, values: Operand) -> Any:
        """Return a copy in which ``x[index]`` is raised to ``values``."""
        return self._update(ew.power, values)

    def min(self, values: Operand) -> Any:
        """Return a copy in which ``x[index]`` is at most ``values``."""
        return self._update(ew.minimum, values)

    def max(self, values: Operand) -> Any:
        """Return a copy in which ``x[index]`` is at least ``values``."""
        return self._update(ew.maximum, values)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """Return a copy in which ``x[index]`` is replaced by an elementwise function of itself."""
        return store(self.x, self.index, function(read(self.x, self.index)))

    def _sum(self, primitive: ew.Elementwise, values: Operand) -> Any:
        x = self.x
        if isinstance(self.index, Tracer) and is_mask(self.index):
            return self._update(primitive, values)
        v = assigned(values, x.dtype)
        v = np.asarray(v).astype(x.dtype) if type(v) in LITERALS else v
        template, arrays = parse_index(x, self.index)
        part = gather(x, template, arrays)
        v = broadcast_to(without_leading_ones(v, len(shape_of(part))), shape_of(part))
        return bind(primitive, (x, scatter_add(v, template, arrays, shape_of(x))))

    def _update(self, primitive: ew.Elementwise, values: Operand) -> Any:
        x, mask = self.x, only_mask(self.x, self.index)
        if mask is not None and shape_of(values) == ():
            return (
                store(x, mask, bind(primitive, (read(x, mask), values)))
                if not isinstance(mask, Tracer)
                else (_masked_update(x, mask, primitive, values))
            )
        template, arrays = parse_index(x, self.index)
        part = gather(x, template, arrays)
        if not arrays or all(shape_of(a) == () for a in arrays):
            return put_at(x, template, arrays, assigned(bind(primitive, (part, values)), x.dtype))
        given: Any = (
            values if type(values) in LITERALS or isinstance(values, Tracer) else as_array(values)
        )
        target = shape_of(part)
        rounds = _rounds(template, arrays, shape_of(x), target)
        if len(rounds) == 1:
            return put_at(x, template, arrays, assigned(bind(primitive, (part, given)), x.dtype))
        if len(rounds) > MOST_UNROLLED:
            raise UnsupportedFunctionError(
                f"x.at[…].{primitive} with indices that repeat more than {MOST_UNROLLED} times, or "
                "are not known",
                fix="use .add, which has no such limit, or pass indices that are not traced",
            )
        return _one_after_another(x, template, arrays, target, rounds, primitive, given)


def _masked_update(x: Arrayed, mask: Tracer, primitive: ew.Elementwise, value: Operand) -> Any:
    selection = MaskedSelection(x, mask)
    ufunc = primitive.eval
    return store(x, mask, selection.__array_ufunc__(ufunc, "__call__", selection, value))  # type: ignore[arg-type]


def _rounds(
    template: StaticIndex, arrays: tuple[Any, ...], shape: tuple[int, ...], target: tuple[int, ...]
) -> list[np.ndarray[Any, Any]]:
    """Split the written elements (by number) into rounds without repeats, in NumPy's order."""
    count = int(np.prod(target))
    numbers = np.arange(count)
    if not all(map(has_value, arrays)):
        return [numbers[k : k + 1] for k in range(count)]
    indices = tuple(map(known, arrays))
    places = np.asarray(
        gather(np.arange(int(np.prod(shape))).reshape(shape), template, indices)
    ).reshape(-1)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)]
    occurrence = np.empty(count, np.intp)
    occurrence[order] = np.arange(count) - np.maximum.accumulate(
        np.where(starts, np.arange(count), 0)
    )
    return (
        [numbers[occurrence == k] for k in range(int(occurrence.max()) + 1)] if count else [numbers]
    )


def _one_after_another(
    x: Arrayed,
    template: StaticIndex,
    arrays: tuple[Any, ...],
    target: tuple[int, ...],
    rounds: list[np.ndarray[Any, Any]],
    primitive: ew.Elementwise,
    values: Arrayed | Scalar,
) -> Any:
    shape = shape_of(x)
    size = int(np.prod(shape))
    places = reshape(
        gather(np.arange(size).reshape(shape), template, arrays), (int(np.prod(target)),)
    )
    flat = reshape(x, (size,))
    scalar = shape_of(values) == ()
    values = values if scalar else reshape(broadcast_to(values, target), (int(np.prod(target)),))
    for chosen in rounds:
        where = gather(places, (ARRAY,), (chosen,))
        part = gather(flat, (ARRAY,), (where,))
        new = bind(primitive, (part, values if scalar else gather(values, (ARRAY,), (chosen,))))
        flat = scatter_set(flat, (ARRAY,), convert(new, x.dtype), (where,))
    return reshape(flat, shape)


_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def _in_place_at(update: Callable[[AtIndex, Any], Any], ufunc: np.ufunc) -> Callable[..., None]:
    name = ufunc.__name__

    def at(x: TracedArray, index: Index, values: Operand) -> None:
        given = values if isinstance(values, Tracer) else as_array(values)
        computed = ufunc.resolve_dtypes((x.dtype, given.dtype, None))[-1]
        fits = _KINDS[given.dtype.kind] <= _KINDS[x.dtype.kind] and np.can_cast(
            computed, x.dtype, "same_kind"
        )
        if fits and not isinstance(given, Tracer):
            cut = given.astype(x.dtype)
            values, fits = cut, x.dtype.kind in "fc" or np.array_equal(cut, given)
        if not fits:
            raise DtypeError(
                f"numpy.{name}.at computes in a dtype that does not cast to {x.dtype} without loss",
                fix=f"convert the values first, e.g. with np.asarray(values).astype(np.{x.dtype})",
            )
        x.ft_assign(update(At(x)[index], values), f"{name}.at")

    return at


for _ufunc, _update in {
    np.add: AtIndex.add, np.subtract: AtIndex.subtract, np.multiply: AtIndex.multiply,
    np.divide: AtIndex.divide,
    np.power: AtIndex.power, np.minimum: AtIndex.min, np.maximum: AtIndex.max,
}.items():  # fmt: skip
    ufunc_method(_ufunc, "at")(_in_place_at(_update, _ufunc))


def _updating(primitive: ew.Elementwise) -> Callable[[AtIndex, Any], Any]:
    return lambda at, values: at._update(primitive, values)


for _ufunc in (
    np.arctan2, np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.copysign, np.float_power,
    np.floor_divide, np.fmax,
    np.fmin, np.fmod, np.gcd, np.hypot, np.lcm, np.left_shift, np.logaddexp, np.logaddexp2,
    np.remainder, np.right_shift,
):  # fmt: skip
    ufunc_method(_ufunc, "at")(_in_place_at(_updating(ew.UFUNCS[_ufunc]), _ufunc))
