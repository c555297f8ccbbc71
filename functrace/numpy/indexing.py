"""Indexing of every kind NumPy has, reading and writing.

`parse_index` turns what stands between the brackets into a static template and the index arrays in it
(functrace/ops/indexing.py). Ints, slices, ``None`` and ``...`` are static. Integer arrays, traced or not, are operands.
A mask that is known becomes the integer arrays of its true elements; a traced mask is asked for its value,
except where the shape of
the result does not depend on it: ``x[mask] = v`` is ``np.where(mask, v, x)``, and ``x[mask] *= 2`` a `MaskedSelection`.

Floor: 6.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, final

import numpy as np

from functrace.errors import (
    ConcretizationError,
    DtypeError,
    ShapeError,
    TracedIndexError,
    UnsupportedFunctionError,
)
from functrace.ir.aval import shape_of
from functrace.numpy.assigning import assigned, numeric
from functrace.numpy.layout import UNKNOWN, order_like
from functrace.numpy.operands import (
    along,
    arrayed,
    exact_axis,
    flattened,
    holds_tracer,
    known,
    lined_up,
    need_traced,
    stacked,
    stored,
)
from functrace.numpy.tables import AT, unsupported_function
from functrace.numpy.views import laid_out, need_array
from functrace.ops import elementwise as ew
from functrace.ops.checks import require
from functrace.ops.indexing import ARRAY, StaticIndex, check_bounds, gather, scatter_add, scatter_set
from functrace.ops.joining import concatenate
from functrace.ops.shaping import alike, broadcast_to, convert, moveaxis, reshape
from functrace.tracing.recording import LITERALS, Tracer, as_array, bind

# -- what stands between the brackets ----------------------------------------------------------------------


def _is_mask(entry: Any) -> bool:
    return isinstance(entry, bool | np.bool_) or (
        isinstance(entry, np.ndarray | Tracer) and entry.dtype == np.bool_  # type: ignore[attr-defined]
    )


def has_array(index: Any) -> bool:
    """Whether a plain 0-d array stands in an index: NumPy then copies what it reads."""
    return any(type(k) is np.ndarray and not k.ndim for k in (index if type(index) is tuple else (index,)))


def _bound(bound: Any) -> int | None:
    if bound is None or type(bound) is int:
        return bound
    try:
        return operator.index(bound)
    except ConcretizationError as error:
        raise ConcretizationError(
            "a slice with a traced bound has a length that depends on values, which are not known here",
            made=error.made,
            fix="x[start + np.arange(length)] reads a part of fixed length at a traced start",
        ) from error


def _entry(entry: Any) -> Any:
    """Return an entry of an index in one of its canonical forms: int, slice tuple, None, Ellipsis, array or tracer."""
    kind = type(entry)
    if kind is int or entry is None or entry is Ellipsis:
        return entry
    if kind is slice:
        return (_bound(entry.start), _bound(entry.stop), _bound(entry.step))
    if isinstance(entry, Tracer | bool | np.bool_):
        array: Any = entry
    elif isinstance(entry, list | tuple) and holds_tracer(entry):
        array = stacked(entry)
    else:
        array = as_array(entry)
        if array.size == 0 and not isinstance(entry, np.ndarray):
            array = array.astype(np.intp)
        if array.ndim == 0 and array.dtype.kind in "iu":
            return int(array)
    if not _is_mask(array) and array.dtype.kind not in "iu":
        raise TracedIndexError(
            f"arrays used as indices must be of integer or boolean type, not {array.dtype}", fix="use .astype(int)"
        )
    return array


def known_mask(mask: Any) -> np.ndarray[Any, Any]:
    """The value of a mask; raises where it is not known."""
    try:
        return known(mask)
    except ConcretizationError as error:
        raise ConcretizationError(
            "the number of elements that a traced mask selects depends on values, which are not known here",
            made=error.made,
            fix="use np.where(mask, x, 0.0), which keeps the shape; x[mask] = v and x[mask] *= v work too",
        ) from error


def parse_index(x: Any, index: Any) -> tuple[StaticIndex, tuple[Any, ...]]:
    """Return the static template of an index into ``x``, and its index arrays.

    Raises:
        TracedIndexError: if the index does not fit ``x``.
        ConcretizationError: if it needs a value that is not known.
    """
    entries = [_entry(k) for k in index] if type(index) is tuple else [_entry(index)]
    shape = shape_of(x)
    used = sum(0 if k is None or k is Ellipsis else len(shape_of(k)) if _is_mask(k) else 1 for k in entries)
    template: list[Any] = []
    arrays: list[Any] = []
    axis = 0
    for entry in entries:
        kind = type(entry)
        if entry is Ellipsis:
            axis += len(shape) - used
        elif _is_mask(entry):
            mask = known_mask(entry)
            if mask.ndim == 0:
                raise TracedIndexError(
                    "a single bool among other indices has no meaning on traced values",
                    fix="use x[None] for x[True], or np.where",
                )
            if mask.shape != shape[axis : axis + mask.ndim]:
                raise TracedIndexError(
                    f"boolean index of shape {mask.shape} does not match the axes {axis} … of shape {shape}",
                    fix="a mask has the same sizes as the axes that it selects from",
                )
            template.extend([ARRAY] * mask.ndim)
            arrays.extend(np.nonzero(mask))
            axis += mask.ndim
            continue
        elif kind is int or kind is tuple or entry is None:
            axis += entry is not None
        else:
            template.append(ARRAY)
            arrays.append(entry)
            axis += 1
            continue
        template.append(entry)
    return tuple(template), tuple(arrays)


def _only_mask(x: Any, index: Any) -> Any:
    """The mask, if the index is nothing but a mask that fits ``x``, otherwise ``None``."""
    mask = index[0] if type(index) is tuple and len(index) == 1 else index
    if type(mask) is list:
        mask = _entry(mask)
    if not _is_mask(mask):
        return None
    shape = shape_of(mask)
    return mask if shape == shape_of(x)[: len(shape)] else None


def select(x: Any, index: Any) -> Any:
    """Return ``x[mask]`` where the index is a single bool, or a mask whose value is not known; otherwise ``None``."""
    mask = _only_mask(x, index)
    if mask is not None:
        if shape_of(mask) == ():
            chosen = np.zeros(int(known_mask(mask)), np.intp)
            return gather(reshape(x, (1, *shape_of(x))), (ARRAY,), (chosen,))
        if isinstance(mask, Tracer):
            try:
                known_mask(mask)
            except ConcretizationError as error:
                return MaskedSelection(x, mask, error)
    return None


def read(x: Any, index: Any) -> Any:
    """Return ``x[index]`` as a new array, never a view."""
    selected = select(x, index)
    if selected is not None:
        return selected
    template, arrays = parse_index(x, index)
    return gather(x, template, arrays)


# -- writing -------------------------------------------------------------------------------------------------


def without_leading_ones(v: Any, rank: int) -> Any:
    """Return a value without the axes of size 1 in front that it has beyond a rank, as NumPy's assignments drop them."""
    shape = shape_of(v)
    extra = len(shape) - rank
    return reshape(v, shape[extra:]) if extra > 0 and all(n == 1 for n in shape[:extra]) else v


def _rank_read(x: Any, template: StaticIndex, arrays: tuple[Any, ...]) -> int:
    taken = sum(k is not None and k is not Ellipsis and type(k) is not tuple for k in template)
    rank = len(shape_of(x)) - taken + sum(k is None for k in template)
    return rank + max((len(shape_of(a)) for a in arrays), default=0)


def put_at(x: Any, template: StaticIndex, arrays: tuple[Any, ...], v: Any) -> Any:
    """Return a copy of ``x`` with ``v`` written at a parsed index; ``v`` is an operand of the right dtype."""
    if shape_of(v):
        v = without_leading_ones(v, _rank_read(x, template, arrays))
    return scatter_set(x, template, v, arrays)


def _put_where(x: Any, mask: Any, v: Any) -> Any:
    """``x[mask] = v`` as a choice, if what is written does not depend on how many elements are; otherwise ``None``."""
    shape, rank = shape_of(x), len(shape_of(mask))
    rest = shape[rank:]
    v = without_leading_ones(v, len(rest)) if shape_of(v) else v
    sizes = shape_of(v)
    if len(sizes) > len(rest):
        return None
    try:
        fits = np.broadcast_shapes(sizes, rest) == rest
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"could not broadcast input array from shape {sizes} into the elements {rest} that a mask selects",
            fix="the value's sizes must be equal to those of x[mask], or 1, from the last axis",
        )
    result = ew.where(reshape(mask, shape_of(mask) + (1,) * len(rest)), v, x)
    return convert(result, x.dtype)


def store(x: Any, index: Any, value: Any) -> Any:
    """Return a copy of ``x`` in which ``x[index] = value``, as NumPy's assignment means it."""
    if type(value) is MaskedSelection:
        if value.goes_with(index) and shape_of(value.full) == shape_of(x):
            return convert(ew.where(value.condition, value.full, x), x.dtype)
        raise value.refuse()
    v = assigned(value, x.dtype)
    mask = _only_mask(x, index)
    if mask is not None:
        result = _put_where(x, mask, v)
        if result is not None:
            return result
    template, arrays = parse_index(x, index)
    if shape_of(v) and not arrays and Ellipsis not in template and not _rank_read(x, template, arrays):
        raise ShapeError(
            f"setting an array element with a sequence: {shape_of(v)} does not fit into one element", fix="write one number"
        )
    return put_at(x, template, arrays, v)


# -- x[mask] while staging -------------------------------------------------------------------------------------


@final
class MaskedSelection:
    """``x[mask]`` where the mask's value is not known: only good for elementwise operations and for writing back.

    It stands for as many elements as the mask has true ones. The elements that are not selected are replaced by a harmless
    number before each operation, so that neither their values nor their derivatives can be NaN.
    """

    __slots__ = ("condition", "error", "full", "key")
    __array_priority__ = 1001.0

    def __init__(self, x: Any, mask: Any, error: ConcretizationError) -> None:
        self.key, self.error = (mask._recording, mask._id), error
        condition = reshape(mask, shape_of(mask) + (1,) * (len(shape_of(x)) - len(shape_of(mask))))
        # Copies: the handles may name other values by the time that the selection is used.
        self.condition = condition._recording.handle(condition._id)
        self.full = x._recording.handle(x._id) if isinstance(x, Tracer) else x

    def goes_with(self, mask: Any) -> bool:
        """Whether a mask is the one that selected these elements, or was computed in the same way."""
        recording, variable = self.key
        return isinstance(mask, Tracer) and mask._recording is recording and _same(recording, mask._id, variable)

    def refuse(self) -> ConcretizationError:
        """The error for everything that would need the number of elements."""
        return ConcretizationError(self.error.what, made=self.error.made, fix=self.error.fix)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        primitive = ew.UFUNCS.get(ufunc)
        if method != "__call__" or primitive is None or primitive.many or kwargs:
            raise self.refuse()
        operands = []
        for value in inputs:
            if type(value) is MaskedSelection:
                same_mask = value.key[0] is self.key[0] and _same(*self.key, value.key[1])
                if not same_mask or shape_of(value.full) != shape_of(self.full):
                    raise self.refuse()
                value = ew.where(self.condition, value.full, 0.5 if value.full.dtype.kind in "fc" else 1)
            elif shape_of(value) != ():
                raise self.refuse()
            operands.append(value)
        made = object.__new__(MaskedSelection)
        made.key, made.condition, made.error = self.key, self.condition, self.error
        made.full = bind(primitive, tuple(operands))
        return made

    def __array__(self, *_args: Any, **_kwargs: Any) -> Any:
        raise self.refuse()

    def __array_function__(self, *_args: Any) -> Any:
        raise self.refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise self.refuse()

    def __len__(self) -> int:
        raise self.refuse()

    def __iter__(self) -> Any:
        raise self.refuse()

    def __getitem__(self, _index: Any) -> Any:
        raise self.refuse()

    def __setitem__(self, index: Any, value: Any) -> None:
        everything = index is Ellipsis or (type(index) is slice and index == slice(None))
        if not everything or shape_of(value) != () or isinstance(value, MaskedSelection):
            raise self.refuse()
        full = self.full
        written = assigned(value, full.dtype)
        written = np.asarray(written, full.dtype) if type(written) in LITERALS else written
        self.full = broadcast_to(written, shape_of(full))

    def __bool__(self) -> bool:
        raise self.refuse()

    def __invert__(self) -> Any:
        return np.invert(self)  # type: ignore[call-overload]

    def __neg__(self) -> Any:
        return np.negative(self)  # type: ignore[call-overload]

    def __abs__(self) -> Any:
        return np.absolute(self)  # type: ignore[call-overload]


def _same(recording: Any, a: int, b: int, depth: int = 8) -> bool:
    """Whether two variables (or literals) of a recording are computed by the same operations from the same ones."""
    if a == b:
        return True
    if a < 0 or b < 0:
        values = recording.literals[~a] if a < 0 else None, recording.literals[~b] if b < 0 else None
        return a < 0 and b < 0 and type(values[0]) is type(values[1]) and values[0] == values[1]
    (primitive, operands, params), (other, others, its) = recording.ops[a], recording.ops[b]
    return (
        depth > 0
        and bool(operands)
        and primitive is other
        and params == its
        and len(operands) == len(others)
        and all(_same(recording, i, j, depth - 1) for i, j in zip(operands, others, strict=True))
    )


def _selection_operator(ufunc: np.ufunc, *, reflected: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        return self.__array_ufunc__(ufunc, "__call__", *((other, self) if reflected else (self, other)))

    return method


def _in_place_selection_operator(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        result, dtype = self.__array_ufunc__(ufunc, "__call__", self, other), self.full.dtype
        if not np.can_cast(result.full.dtype, dtype, "same_kind"):
            raise DtypeError(
                f"in-place {ufunc.__name__}: cannot cast {result.full.dtype} to {dtype}",
                fix="write x[mask] = … instead",
            )
        self.full = convert(result.full, dtype)
        return self

    return method


for _name, _ufunc in {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power, "mod": np.remainder,
    "floordiv": np.floor_divide, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "lshift": np.left_shift,
    "rshift": np.right_shift,
}.items():  # fmt: skip
    setattr(MaskedSelection, f"__{_name}__", _selection_operator(_ufunc))
    setattr(MaskedSelection, f"__i{_name}__", _in_place_selection_operator(_ufunc))
    setattr(MaskedSelection, f"__r{_name}__", _selection_operator(_ufunc, reflected=True))

for _name, _ufunc in {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}.items():  # fmt: skip
    setattr(MaskedSelection, f"__{_name}__", _selection_operator(_ufunc))


# -- x.at[index] -----------------------------------------------------------------------------------------------

MOST_UNROLLED = 64
"""With repeated (or unknown) indices, ``at[].multiply`` and the like are applied at most so many times one after another."""


@final
class At:
    """``x.at``: functional updates of parts; see `AtIndex`."""

    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self.x, index)


@final
class AtIndex:
    """``x.at[index]``: each method returns a new array in which that part is updated, and leaves ``x`` alone.

    At repeated indices ``set`` keeps the last value; the others apply all of them, as ``numpy.ufunc.at`` does.
    """

    __slots__ = ("index", "x")

    def __init__(self, x: Any, index: Any) -> None:
        self.x, self.index = x, index

    def get(self) -> Any:
        """Return ``x[index]``."""
        return read(self.x, self.index)

    def set(self, values: Any) -> Any:
        """Return a copy in which ``x[index] = values``."""
        return store(self.x, self.index, values)

    def add(self, values: Any) -> Any:
        """Return a copy in which ``values`` are added to ``x[index]``."""
        return self._sum(ew.add, values)

    def subtract(self, values: Any) -> Any:
        """Return a copy in which ``values`` are subtracted from ``x[index]``."""
        return self._sum(ew.sub, values)

    def multiply(self, values: Any) -> Any:
        """Return a copy in which ``x[index]`` is multiplied by ``values``."""
        return self._update(ew.mul, values)

    mul = multiply

    def divide(self, values: Any) -> Any:
        """Return a copy in which ``x[index]`` is divided by ``values``."""
        return self._update(ew.div, values)

    def power(self, values: Any) -> Any:
        """Return a copy in which ``x[index]`` is raised to ``values``."""
        return self._update(ew.power, values)

    def min(self, values: Any) -> Any:
        """Return a copy in which ``x[index]`` is at most ``values``."""
        return self._update(ew.minimum, values)

    def max(self, values: Any) -> Any:
        """Return a copy in which ``x[index]`` is at least ``values``."""
        return self._update(ew.maximum, values)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """Return a copy in which ``x[index]`` is replaced by an elementwise function of itself."""
        return store(self.x, self.index, function(read(self.x, self.index)))

    def _sum(self, primitive: ew.Elementwise, values: Any) -> Any:
        x = self.x
        if isinstance(self.index, Tracer) and _is_mask(self.index):
            return self._update(primitive, values)
        v = assigned(values, x.dtype)
        v = np.asarray(v).astype(x.dtype) if type(v) in LITERALS else v
        template, arrays = parse_index(x, self.index)
        part = gather(x, template, arrays)
        v = broadcast_to(without_leading_ones(v, len(shape_of(part))), shape_of(part))
        return bind(primitive, (x, scatter_add(v, template, arrays, shape_of(x))))

    def _update(self, primitive: ew.Elementwise, values: Any) -> Any:
        x, mask = self.x, _only_mask(self.x, self.index)
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
        values = values if type(values) in LITERALS or isinstance(values, Tracer) else as_array(values)
        target = shape_of(part)
        rounds = _rounds(template, arrays, shape_of(x), target)
        if len(rounds) == 1:
            return put_at(x, template, arrays, assigned(bind(primitive, (part, values)), x.dtype))
        if len(rounds) > MOST_UNROLLED:
            raise UnsupportedFunctionError(
                f"x.at[…].{primitive} with indices that repeat more than {MOST_UNROLLED} times, or are not known",
                fix="use .add, which has no such limit, or pass indices that are not traced",
            )
        return _one_after_another(x, template, arrays, target, rounds, primitive, values)


def _masked_update(x: Any, mask: Any, primitive: ew.Elementwise, value: Any) -> Any:
    selection = MaskedSelection(x, mask, ConcretizationError("a traced mask", fix="use np.where"))
    ufunc = primitive.eval
    return store(x, mask, selection.__array_ufunc__(ufunc, "__call__", selection, value))  # type: ignore[arg-type]


def _rounds(
    template: StaticIndex, arrays: tuple[Any, ...], shape: tuple[int, ...], target: tuple[int, ...]
) -> list[np.ndarray[Any, Any]]:
    """Split the elements written (by number) into rounds in which none repeats, in NumPy's order."""
    count = int(np.prod(target))
    numbers = np.arange(count)
    try:
        indices = tuple(map(known, arrays))
    except ConcretizationError:
        return [numbers[k : k + 1] for k in range(count)]
    places = np.asarray(gather(np.arange(int(np.prod(shape))).reshape(shape), template, indices)).reshape(-1)
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.r_[True, ordered[1:] != ordered[:-1]][: len(ordered)]
    occurrence = np.empty(count, np.intp)
    occurrence[order] = np.arange(count) - np.maximum.accumulate(np.where(starts, np.arange(count), 0))
    return [numbers[occurrence == k] for k in range(int(occurrence.max()) + 1)] if count else [numbers]


def _one_after_another(
    x: Any, template: StaticIndex, arrays: tuple[Any, ...], target: tuple[int, ...], rounds: Any, primitive: Any, values: Any
) -> Any:
    shape = shape_of(x)
    size = int(np.prod(shape))
    places = reshape(gather(np.arange(size).reshape(shape), template, arrays), (int(np.prod(target)),))
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


def _in_place_at(update: Callable[[AtIndex, Any], Any], name: str) -> Callable[..., None]:
    def at(x: Any, index: Any, values: Any) -> None:
        given = values if isinstance(values, Tracer) else as_array(values)
        fits = _KINDS[given.dtype.kind] <= _KINDS[x.dtype.kind] and not (name == "divide" and x.dtype.kind in "biu")
        if fits and not isinstance(given, Tracer):
            cut = given.astype(x.dtype)
            values, fits = cut, x.dtype.kind in "fc" or np.array_equal(cut, given)
        if not fits:
            raise DtypeError(
                f"numpy.{name}.at would compute with other numbers than {x.dtype} holds, and cut every result",
                fix=f"convert the values first, e.g. with np.asarray(values).astype(np.{x.dtype})",
            )
        x._assign(update(At(x)[index], values), f"{name}.at")

    return at


AT.update(
    {
        np.add: _in_place_at(AtIndex.add, "add"),
        np.subtract: _in_place_at(AtIndex.subtract, "subtract"),
        np.multiply: _in_place_at(AtIndex.multiply, "multiply"),
        np.divide: _in_place_at(AtIndex.divide, "divide"),
        np.power: _in_place_at(AtIndex.power, "power"),
        np.minimum: _in_place_at(AtIndex.min, "minimum"),
        np.maximum: _in_place_at(AtIndex.max, "maximum"),
    }
)


# -- the functions ---------------------------------------------------------------------------------------------


def _integers(indices: Any, what: str) -> Any:
    indices = arrayed(indices)
    if indices.dtype.kind == "b" or (indices.size == 0 and not isinstance(indices, Tracer)):
        return convert(indices, np.intp)
    if indices.dtype.kind not in "iu":
        raise DtypeError(f"{what} must be integers, not {indices.dtype}", fix="use .astype(int)")
    return indices


def take(a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str = "raise") -> Any:
    """As ``numpy.take``; the indices may be traced."""
    a, indices = arrayed(a), _integers(indices, "the indices of take")
    a, axis = lined_up(a, exact_axis(axis))
    indices = _bounded(indices, shape_of(a)[axis], mode)
    return stored(laid_out(gather(a, along(axis, ARRAY), (indices,))), out, "take")


def _bounded(indices: Any, size: int, mode: str) -> Any:
    """Indices that ``mode`` brings into bounds; with 'raise', whoever reads or writes there checks them."""
    if mode == "wrap":
        return ew.remainder(indices, size)
    if mode == "clip":
        return ew.minimum(ew.maximum(indices, 0), size - 1)
    if mode != "raise":
        raise ShapeError(f"mode must be 'raise', 'wrap' or 'clip', not {mode!r}", fix="use mode='raise'")
    return indices


def _along(arr: Any, indices: Any, axis: int, what: str) -> tuple[Any, StaticIndex, tuple[Any, ...]]:
    indices = _integers(indices, what)
    shape, wanted = shape_of(arr), shape_of(indices)
    if len(wanted) != len(shape):
        raise ShapeError(f"{what} have {len(wanted)} axes, and the array {len(shape)}", fix="give both the same rank")
    arrays = tuple(
        indices if k == axis else np.arange(n).reshape([-1 if j == k else 1 for j in range(len(shape))])
        for k, n in enumerate(shape)
    )
    return indices, (ARRAY,) * len(shape), arrays


def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Any:
    """As ``numpy.take_along_axis``."""
    arr, axis = lined_up(arrayed(arr), axis)
    _, template, arrays = _along(arr, indices, axis, "the indices of take_along_axis")
    return gather(arr, template, arrays)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None) -> None:
    """As ``numpy.put_along_axis``; ``arr`` must be traced."""
    need_traced(arr, "numpy.put_along_axis")
    target, axis = lined_up(arr, axis)
    _, template, arrays = _along(target, indices, axis, "the indices of put_along_axis")
    result = put_at(target, template, arrays, assigned(values, arr.dtype))
    arr._assign(reshape(result, shape_of(arr)), "put_along_axis")


def compress(condition: Any, a: Any, axis: Any = None, out: Any = None) -> Any:
    """As ``numpy.compress``; the condition's value must be known."""
    a = arrayed(a)
    chosen = np.flatnonzero(known_mask(condition))
    return take(a, chosen, axis, out)


def extract(condition: Any, arr: Any) -> Any:
    """As ``numpy.extract``."""
    arr = arrayed(arr)
    condition = known_mask(condition)
    return take(flattened(arr), np.flatnonzero(condition))


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """As ``numpy.choose``; ``a`` may be traced."""
    index = _integers(a, "the first argument of choose")
    choices = list(choices) if isinstance(choices, list | tuple) else choices
    given: list[Any] = [c if type(c) in LITERALS or getattr(c, "is_number", False) else arrayed(c) for c in choices]
    if any(getattr(c, "is_number", False) for c in given):  # weak, as literals are, and cut as NumPy cuts them here
        kinds = [c.kind(0) if getattr(c, "is_number", False) else c if type(c) in LITERALS else c.dtype for c in given]
        dtype = np.result_type(*kinds)
        given = [c.strong(dtype, wraps=True) if getattr(c, "is_number", False) else c for c in given]
    parts = alike(given)
    index = _bounded(index, len(parts), mode)
    if mode == "raise":
        index = require(index, _within(index, len(parts)), "ValueError", "invalid entry in choice array")
    shape = np.broadcast_shapes(shape_of(index), *map(shape_of, parts))
    result = broadcast_to(parts[-1], shape)
    for k in range(len(parts) - 2, -1, -1):
        result = ew.where(ew.equal(index, k), parts[k], result)
    result = result if len(parts) > 1 else ew.positive(result)  # a copy
    return stored(broadcast_to(result, shape), out, "choose")


def delete(arr: Any, obj: Any, axis: Any = None) -> Any:
    """As ``numpy.delete``."""
    arr, axis = lined_up(arrayed(arr), axis)
    obj = obj if isinstance(obj, slice) or not holds_tracer(obj) else known(obj)
    kept = np.delete(np.arange(shape_of(arr)[axis]), obj)
    result = gather(arr, along(axis, ARRAY), (kept,))
    is_one = isinstance(obj, slice) or np.size(obj) == 1
    return laid_out(result, order_like(arr, "A")) if is_one and isinstance(arr, Tracer) else result


def insert(arr: Any, obj: Any, values: Any, axis: Any = None) -> Any:
    """As ``numpy.insert``."""
    arr = arrayed(arr)
    values = arrayed(assigned(values, arr.dtype))
    arr, axis = lined_up(arr, axis)
    ndim = len(shape_of(arr))
    size = shape_of(arr)[axis]
    places = np.arange(size)[obj] if isinstance(obj, slice) else known(obj)
    places = np.flatnonzero(places) if places.dtype == np.bool_ else places.astype(np.intp)
    check_bounds(places, axis, size + 1)
    if places.size == 1:
        # One position, any number of values: NumPy moves the first axis of the values to the axis of a scalar position.
        values = reshape(values, (1,) * (ndim - len(shape_of(values))) + shape_of(values))
        values = values if places.ndim else moveaxis(values, 0, axis)
        places = np.repeat(places.reshape(-1), shape_of(values)[axis])
    places = np.where(places < 0, places + size, places)
    order = np.argsort(places, kind="stable")
    places[order] += np.arange(len(places))
    total = size + len(places)
    shape = (*shape_of(arr)[:axis], total, *shape_of(arr)[axis + 1 :])
    source = np.empty(total, np.intp)  # which of the elements, and behind them of the values, stands where
    source[np.setdiff1d(np.arange(total), places)] = np.arange(size)
    source[places] = np.arange(size, total)
    values = convert(without_leading_ones(assigned(values, arr.dtype), ndim), arr.dtype)
    values = broadcast_to(values, (*shape[:axis], len(places), *shape[axis + 1 :]))
    made = gather(concatenate([arr, values], axis), along(axis, ARRAY), (source,))
    return laid_out(made, order_like(arr, "A") if isinstance(arr, Tracer) else UNKNOWN)


def nonzero(a: Any) -> tuple[Any, ...]:
    """As ``numpy.nonzero``; the values must be known."""
    return np.nonzero(_known_for(a, "nonzero"))


def argwhere(a: Any) -> Any:
    """As ``numpy.argwhere``."""
    return np.argwhere(_known_for(a, "argwhere"))


def flatnonzero(a: Any) -> Any:
    """As ``numpy.flatnonzero``."""
    return np.flatnonzero(_known_for(a, "flatnonzero"))


def _known_for(a: Any, name: str) -> np.ndarray[Any, Any]:
    try:
        return known(a)
    except ConcretizationError as error:
        raise ConcretizationError(
            f"numpy.{name} of a traced array has a shape that depends on values, which are not known here",
            made=error.made,
            fix="use np.where(condition, x, y), which keeps the shape",
        ) from error


# -- functions that write into their argument --------------------------------------------------------------------


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """As ``numpy.put``; ``a`` must be traced."""
    need_traced(a, "numpy.put")
    need_array(a, "put")
    indices = flattened(_integers(ind, "the indices of put"))
    flat = flattened(a)
    indices = _bounded(indices, shape_of(flat)[0], mode)
    values = _cycled(arrayed(assigned(v, a.dtype)), shape_of(indices)[0])
    if values is not None:
        result = put_at(flat, (ARRAY,), (indices,), assigned(values, a.dtype))
        a._assign(reshape(result, shape_of(a)), "put")


def _cycled(v: Any, count: int) -> Any:
    """The values repeated or cut to ``count``; ``None`` if there are none (NumPy then does nothing)."""
    v = flattened(v)
    size = shape_of(v)[0]
    if size == 0:
        return None
    return v if size == count else gather(v, (ARRAY,), (np.arange(count) % size,))


def _safe(values: Any, dtype: np.dtype[Any], what: str) -> Any:
    """Return values for `place` and `putmask`, flat: cast, or refused, as NumPy's own do it."""
    if holds_tracer(values):
        values = stacked(values)
        if not np.can_cast(values.dtype, dtype, "safe"):
            raise DtypeError(f"{what}: cannot cast {values.dtype} to {dtype} safely", fix="convert the values first")
        return flattened(convert(values, dtype))
    made = np.empty(numeric(values).size, dtype)
    np.putmask(made, np.ones(made.shape, bool), values)
    return made


def putmask(a: Any, mask: Any, values: Any) -> None:
    """As ``numpy.putmask``; ``a`` must be traced."""
    need_traced(a, "numpy.putmask")
    values = _cycled(_safe(values, a.dtype, "putmask"), a.size)
    if values is not None:
        result = ew.where(arrayed(mask), reshape(assigned(values, a.dtype), a.shape), a)
        a._assign(result, "putmask")


def place(arr: Any, mask: Any, vals: Any) -> None:
    """As ``numpy.place``; ``arr`` must be traced."""
    need_traced(arr, "numpy.place")
    chosen = np.flatnonzero(known_mask(mask))
    values = _cycled(_safe(vals, arr.dtype, "place"), len(chosen))
    if values is None and len(chosen):
        raise ShapeError("cannot insert from an empty array", fix="pass at least one value")
    if len(chosen):
        result = put_at(flattened(arr), (ARRAY,), (chosen,), assigned(values, arr.dtype))
        arr._assign(reshape(result, arr.shape), "place")


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """As ``numpy.fill_diagonal``; ``a`` must be traced."""
    need_traced(a, "numpy.fill_diagonal")
    numbers = np.arange(a.size).reshape(a.shape)
    marks = np.zeros(a.shape, bool)
    np.fill_diagonal(marks, True, wrap)
    put(a, numbers[marks], val)


# -- functions about indices ---------------------------------------------------------------------------------


def ix_(*args: Any) -> tuple[Any, ...]:
    """As ``numpy.ix_``; integer sequences may be traced."""
    made = []
    for k, arg in enumerate(args):
        array = arrayed(arg)
        if len(shape_of(array)) != 1:
            raise ShapeError("Cross index must be 1 dimensional", fix="pass one-dimensional sequences")
        if _is_mask(array):
            array = np.flatnonzero(known_mask(array))
        elif array.size == 0:
            array = convert(array, np.intp)
        made.append(reshape(array, (1,) * k + (array.size,) + (1,) * (len(args) - k - 1)))
    return tuple(made)


def _stand_in(x: Any) -> np.ndarray[Any, Any]:
    """A plain array of the same shape, for functions that look at nothing else."""
    return np.broadcast_to(np.empty((), np.bool_), shape_of(x))


def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """As ``numpy.triu_indices_from``."""
    return np.triu_indices_from(_stand_in(arr), k)


def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """As ``numpy.tril_indices_from``."""
    return np.tril_indices_from(_stand_in(arr), k)


def diag_indices_from(arr: Any) -> Any:
    """As ``numpy.diag_indices_from``."""
    return np.diag_indices_from(_stand_in(arr))


def _within(indices: Any, size: int) -> Any:
    return ew.logical_and(ew.greater_equal(indices, 0), ew.less(indices, size))


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Any, ...]:
    """As ``numpy.unravel_index``, in C order where the indices are traced."""
    if order != "C":
        raise unsupported_function(np.unravel_index, "supports only order='C' on traced values")
    left, parts = _integers(indices, "the indices of unravel_index"), []
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    size = math.prod(sizes)
    left = require(left, _within(left, size), "ValueError", f"index is out of bounds for array with size {size}")
    for n in reversed(sizes):
        parts.append(ew.remainder(left, n))
        left = ew.floor_divide(left, n)
    return tuple(reversed(parts))


def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """As ``numpy.ravel_multi_index``, in C order where the indices are traced."""
    if order != "C":
        raise unsupported_function(np.ravel_multi_index, "supports only order='C' on traced values")
    total: Any = 0
    modes = (mode,) * len(tuple(dims)) if isinstance(mode, str) else tuple(mode)
    for k, (part, n, how) in enumerate(zip(multi_index, dims, modes, strict=True)):
        part = _bounded(_integers(part, "the indices of ravel_multi_index"), n, how)
        if how == "raise":
            part = require(part, _within(part, n), "ValueError", "invalid entry in coordinates array")
        total = part if k == 0 else ew.add(ew.mul(total, n), part)
    return total


TABLE: dict[Any, Callable[..., Any]] = {
    np.take: take, np.take_along_axis: take_along_axis, np.put_along_axis: put_along_axis, np.compress: compress,
    np.extract: extract, np.choose: choose, np.delete: delete, np.insert: insert, np.nonzero: nonzero,
    np.argwhere: argwhere, np.flatnonzero: flatnonzero, np.put: put, np.putmask: putmask, np.place: place,
    np.fill_diagonal: fill_diagonal, np.ix_: ix_, np.triu_indices_from: triu_indices_from,
    np.tril_indices_from: tril_indices_from, np.diag_indices_from: diag_indices_from, np.unravel_index: unravel_index,
    np.ravel_multi_index: ravel_multi_index,
}  # fmt: skip
"""Implementation by NumPy function."""
