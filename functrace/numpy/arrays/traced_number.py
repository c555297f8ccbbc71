"""`TracedNumber`: a traced Python number, as `jit` traces the numbers among its arguments.

Note [Python numbers stay weak]
    NumPy gives a Python number the dtype of the array that it is combined with (NEP 50): ``x *
    2.0`` of a float32 ``x`` is float32. Programs have no weak dtypes: a traced number is an input
    of Python's width (float64, int64 …). Combined with an array, the program converts it to the
    dtype that NumPy would have chosen (and raises for an integer out of that dtype's range, as
    NumPy does). Operations between numbers follow Python: ``n + 1`` is a number, ``np.sin(n)`` is
    not. Dispatch: a traced number belongs to its own recording, `NumberRecording`, which counts as newer
    than all others. So it is always the newest recording among the operands of an operation; it
    converts the numbers and binds again. No other code handles weak values.

Where Python's arithmetic differs from float64 (division by zero, the root of a negative number),
traced numbers follow NumPy, which warns. Integers out of 64 bits raise, where NumPy wraps silently.

Layer: 3.
"""

from __future__ import annotations

import functools
import math
import numbers
import operator
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, cast

import numpy as np

from functrace.errors import (
    ConcretizationError,
    DtypeError,
    TracedIndexError,
    UnsupportedFunctionError,
)
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import INPUT, Primitive
from functrace.numpy.arrays.operators import Operator, set_operators
from functrace.numpy.arrays.traced_array import TracedArray
from functrace.numpy.protocol.conversions import lost_in_python
from functrace.numpy.protocol.foreign_operands import has_operators
from functrace.numpy.protocol.operands import Arrayed, DtypeLike, Operand, operand
from functrace.numpy.protocol.sparse_operands import is_sparse, with_sparse
from functrace.numpy.protocol.tables import ROWS
from functrace.ops import elementwise as ew
from functrace.ops.checks import require
from functrace.ops.shaping import convert
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import LITERALS, Tracer, leaked
from functrace.tracing.values import has_no_derivative
from functrace.typing import Scalar

DTYPES: dict[type, np.dtype[Any]] = {kind: np.dtype(kind) for kind in (bool, int, float, complex)}
"""Dtype of a number that no array determines."""

_COMPARISONS = frozenset(
    {ew.equal, ew.not_equal, ew.less, ew.less_equal, ew.greater, ew.greater_equal}
)
_ORDERS = _COMPARISONS - {ew.equal, ew.not_equal}
_KINDS: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
"""Python type of a number, by kind of its dtype."""


class NumberRecording(Recording):
    """Newest recording wherever a traced number is an operand; see Note [Python numbers stay weak].

    Args:
        target: the recording whose variables the numbers are.
        way_out: the fix in the error message for reading an abstract number.
    """

    __slots__ = ("converted", "target", "way_out")

    def __init__(self, target: Recording, way_out: str) -> None:
        super().__init__(target.owner, keeps_source=False)  # records no equations
        self.target = target
        self.way_out = way_out
        self.serial = math.inf  # type: ignore[assignment]
        self.converted: dict[tuple[int, np.dtype[Any], bool], Any] = {}

    @property
    def is_over(self) -> bool:
        """True if the transform that traced the numbers has ended."""
        return self.closed or self.target.closed

    def number(self, kind: type) -> TracedNumber:
        """Add an input of a Python type to the target, and return it as a number."""
        return self.wrap(self.target.new_input(ShapeDtype((), DTYPES[kind])), kind)

    def wrap(self, strong: Tracer, kind: type) -> TracedNumber:
        """Return a variable of the target, or of a body that uses its numbers, as a number."""
        if strong.ft_recording is not self.target:
            return NumberRecording(strong.ft_recording, self.way_out).wrap(strong, kind)
        made = object.__new__(TracedNumber)
        made.ft_recording, made.ft_variable, made.aval, made.ft_view, made.kind = (
            self,
            strong.ft_variable,
            strong.aval,
            None,
            kind,
        )
        return made

    def handle(self, variable: int) -> Any:
        """Return a variable as an array, which recordings keep in place of a number."""
        return self.target.handle(variable)

    def settled(self, number: TracedNumber, dtype: np.dtype[Any], wraps: bool) -> Any:
        """Convert a number to an array of a dtype, once per dtype.

        Args:
            number: a number of this recording.
            dtype: dtype of the array.
            wraps: True to wrap an integer out of the dtype's range instead of raising.
        """
        key = (number.ft_variable, dtype, wraps)
        found = self.converted.get(key)
        if found is None:
            found = self.target.handle(number.ft_variable)
            if number.kind is int and dtype.kind in "iu" and not wraps:
                found = _within(found, np.iinfo(dtype), dtype)
            found = convert(found, dtype)
            if found.ft_recording is self.target:  # bodies end before this recording
                self.converted[key] = found
        return found

    def record(
        self, primitive: Primitive, operands: tuple[Any, ...], params: tuple[Any, ...] = ()
    ) -> Any:
        """Convert every number among the operands, then bind again; ended numbers are concrete."""
        if self.is_over:
            plain = [
                x.ft_concrete() if isinstance(x, TracedNumber) and x.ft_recording.is_over else x
                for x in operands
            ]
            return bind(primitive, tuple(plain), params)
        base, *exponent = operands
        if (
            primitive is ew.power
            and _kind(base) == np.dtype(bool)
            and isinstance(exponent[0], TracedNumber)
            and shape_of(base)
        ):
            raise ConcretizationError(
                f"the dtype of a power of bools depends on the exponent, but {self.owner} records "
                "without values",
                fix="convert the base with .astype(int), or let the exponent be a plain number",
            )
        settled = settled_dtypes(primitive, operands)
        wraps = primitive is ew.where and _where_wraps()
        arrays = [
            x.strong(dtype, wraps=wraps) if isinstance(x, TracedNumber) else x
            for x, dtype in zip(operands, settled, strict=True)
        ]
        return bind(primitive, tuple(arrays), params)

    def value(self, variable: int) -> Any:
        """Return the concrete value of a number, or raise if it is abstract.

        Raises:
            LeakedTracerError: if its transform has ended, and it depends on an input.
        """
        if self.is_over and not self.target.makes_arrays:
            raise leaked(self.handle(variable))
        try:
            return self.handle(variable).ft_concrete().item()
        except ConcretizationError as error:
            refused = error
        kind = _KINDS[self.target.avals[variable].dtype.kind].__name__
        fix = self.way_out
        if kind == "float" or (kind == "bool" and self.target.primitives[variable] is not INPUT):
            loops = "functrace.while_loop or fori_loop for a loop (functrace.jit stages once for all values)"
            fix = f"use functrace.cond or np.where for a choice, {loops}"
            fix = f"keep it traced (np.sin instead of math.sin); {fix}" if kind == "float" else fix
        raise ConcretizationError(
            f"the value of {'an' if kind == 'int' else 'a'} {kind} is needed, but {self.owner} "
            "records without values",
            made=self.target.source(variable),
            fix=fix,
        ) from refused


@functools.lru_cache(maxsize=1)
def _where_wraps() -> bool:
    """Return True if NumPy's ``where`` wraps 300 to 44 for a uint8: before NumPy 2.5."""
    try:
        np.where(np.ones(1, np.bool_), np.zeros(1, np.uint8), 300)
    except OverflowError:
        return False
    return True


def _within(x: Arrayed, info: np.iinfo[Any], dtype: np.dtype[Any]) -> Any:
    """Return an int64; the program raises for a value out of a dtype's range."""
    own = np.iinfo(np.int64)
    above = ew.greater_equal(x, int(info.min)) if info.min > own.min else None
    below = ew.less_equal(x, int(info.max)) if info.max < own.max else None
    both = below if above is None else above if below is None else ew.logical_and(above, below)
    return (
        x
        if both is None
        else require(x, both, "OverflowError", f"Python integer out of bounds for {dtype}")
    )


def _as_float(n: int | TracedNumber) -> Any:
    """Return an integer for comparison with a float: Python compares exactly, float64 has 53 bits.

    Raises:
        DtypeError: for a concrete integer that equals no float64.
    """
    if not isinstance(n, TracedNumber):
        if abs(n) > 2**53 and (n.bit_length() > 1023 or int(float(n)) != n):
            raise DtypeError(
                f"no float64 equals {n}, compared with a traced float", fix="pass a float"
            )
        return n
    fits = ew.less_equal(ew.absolute(n.strong(np.dtype(float))), 2.0**53 - 1)
    checked = require(
        n.strong(),
        fits,
        "OverflowError",
        "an integer of more than 53 bits is compared with a float",
    )
    return n.ft_recording.wrap(checked, int)


_AS_FLOATS: dict[Primitive, Callable[..., Any]] = {
    **{p: p for p in (ew.mul, ew.power, ew.floor_divide)},
    ew.left_shift: lambda x, n: ew.mul(x, ew.power(2.0, n)),
}
"""Float equivalents of integer operations whose result may exceed 64 bits."""

_LEAST, _MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


def _sum_fits(result: Arrayed, x: Any, y: Any) -> Any:
    """Predicate: the sum fits 64 bits; one comparison if an operand is concrete, else by signs."""
    if not isinstance(x, Tracer):
        x, y = y, x
    if not isinstance(y, Tracer):
        return ew.less_equal(x, _MOST - int(y)) if y >= 0 else ew.greater_equal(x, _LEAST - int(y))
    return ew.greater_equal(ew.bitwise_and(ew.bitwise_xor(result, x), ew.bitwise_xor(result, y)), 0)


def _difference_fits(result: Arrayed, x: Any, y: Any) -> Any:
    """Predicate: the difference fits 64 bits."""
    if not isinstance(y, Tracer):
        return ew.greater_equal(x, _LEAST + int(y)) if y >= 0 else ew.less_equal(x, _MOST + int(y))
    if not isinstance(x, Tracer):
        return ew.greater_equal(y, int(x) - _MOST) if x >= 0 else ew.less_equal(y, int(x) - _LEAST)
    return ew.greater_equal(ew.bitwise_and(ew.bitwise_xor(x, y), ew.bitwise_xor(x, result)), 0)


_FITS: dict[Primitive, Callable[..., Any]] = {
    ew.add: _sum_fits,
    ew.sub: _difference_fits,
    ew.neg: lambda result, x: ew.not_equal(x, _LEAST),
    ew.absolute: lambda result, x: ew.not_equal(x, _LEAST),
}
"""Integer operations whose result may exceed 64 bits: exact predicates that it does not."""


def _without_overflow(result: Arrayed, primitive: Primitive, arrays: tuple[Any, ...]) -> Any:
    """Return an int64; the program raises where Python's integer exceeds 64 bits (NumPy wraps)."""
    if primitive in (ew.floor_divide, ew.remainder):
        result = require(
            result,
            ew.not_equal(arrays[1], 0),
            "ZeroDivisionError",
            "integer division or modulo by zero",
        )
    if primitive in (ew.left_shift, ew.right_shift):
        result = require(
            result, ew.greater_equal(arrays[1], 0), "ValueError", "negative shift count"
        )
    if primitive in _FITS:
        fits = _FITS[primitive](result, *arrays)
    elif primitive in _AS_FLOATS:
        about = _AS_FLOATS[primitive](
            *[convert(x, np.float64) if isinstance(x, Tracer) else float(x) for x in arrays]
        )
        fits = ew.less(ew.absolute(about), 2.0**63 - 1024)
    else:
        return result
    return require(
        result,
        fits,
        "OverflowError",
        f"Python integer out of 64 bits ({primitive.name} of traced numbers)",
    )


def settled_dtypes(primitive: Primitive, operands: tuple[Any, ...]) -> list[Any]:
    """Return the dtype of a Python number in place of each operand; ``None`` for its default."""
    ufunc = primitive.eval
    kinds = [_kind(x) for x in operands]
    if isinstance(ufunc, np.ufunc):
        if primitive in _COMPARISONS and all(
            k is int or (isinstance(k, np.dtype) and k.kind in "iu") for k in kinds
        ):
            return [None] * len(kinds)  # NumPy also compares with integers out of the dtype's range
        known = [np.dtype(k) if k is bool else k for k in kinds]
        if all(isinstance(k, type) for k in known):
            known = [np.dtype(k) for k in known]
        try:
            return list(ufunc.resolve_dtypes((*known, *[None] * ufunc.nout))[: len(kinds)])
        except TypeError:
            return [None] * len(kinds)  # the primitive's own aval rule explains it
    if primitive is ew.where:
        dtype = np.result_type(*[k.type(0) if isinstance(k, np.dtype) else k() for k in kinds[1:]])
        return [np.dtype(bool), dtype, dtype]
    return [None] * len(kinds)


def weak_kind(x: object) -> type | None:
    """Return the Python type of a weak number, traced or not; ``None`` for any other value."""
    if isinstance(x, TracedNumber):
        return x.kind
    return type(x) if type(x) in LITERALS else None


def _kind(x: Operand) -> Any:
    return weak_kind(x) or (x.dtype if isinstance(x, Tracer) else np.asarray(x).dtype)


def common_dtype(operands: Iterable[Any]) -> np.dtype[Any]:
    """Return the result dtype of arrays and numbers; numbers, traced or not, are weak."""
    return np.result_type(
        *[k.type(0) if isinstance(k, np.dtype) else k(0) for k in map(_kind, operands)]
    )


def alike(choices: list[Any]) -> list[Any]:
    """Return choices as arrays of one dtype, as NumPy does: weak numbers are wrapped to fit."""
    choices = [operand(x) for x in choices]
    dtype = common_dtype(choices)
    return [convert(x, dtype) if weak_kind(x) is None else cut_to(x, dtype) for x in choices]


def cut_to(number: Scalar | TracedNumber, dtype: np.dtype[Any]) -> Any:
    """Convert a Python number, traced or not, to a dtype; integers wrap modulo its range."""
    if isinstance(number, TracedNumber):
        return number.strong(dtype, wraps=True)
    return np.asarray(number).astype(dtype)[()]


def strong(x: Any) -> Any:
    """Replace traced numbers in an argument, inside lists and dicts too, by arrays."""
    if isinstance(x, TracedNumber):
        return x.strong()
    if type(x) in (list, tuple):
        return type(x)(map(strong, x))
    return {key: strong(value) for key, value in x.items()} if type(x) is dict else x


def as_number(result: Arrayed, kind: type | None) -> Any:
    """Return a traced result as a weak number, if the function documents a Python number."""
    if kind is None or not isinstance(result, Tracer) or isinstance(result, TracedNumber):
        return result
    if result.ft_recording.closed:
        return kind(result.ft_concrete())
    way_out = "return what needs its value from the function as an array"
    return NumberRecording(result.ft_recording, way_out).wrap(result, _KINDS[result.dtype.kind])


def _operator(row: Operator, *, reflected: bool) -> Callable[[Any, Any], Any]:
    """Make an operator: Python's between numbers, otherwise by `NumberRecording.record`."""
    primitive = row.primitive
    on_plain: Any = getattr(operator, {"and": "and_", "or": "or_"}.get(row.name, row.name))

    def apply(self: TracedNumber, other: Operand) -> Any:
        if type(other) is str or other is None:
            return NotImplemented
        if isinstance(other, TracedNumber) and other.ft_recording.is_over:
            other = other.ft_concrete()
        if self.ft_recording.is_over:
            value = self.ft_concrete()
            return on_plain(other, value) if reflected else on_plain(value, other)
        pair: tuple[Any, ...] = (other, self) if reflected else (self, other)
        if is_sparse(other):
            return with_sparse(row, self.strong(), other, reflected=reflected)
        if weak_kind(other) is None:
            if type(other) in (list, tuple) and not (
                row.compares or (row.name == "mul" and self.kind in (bool, int))
            ):
                raise DtypeError(
                    f"a Python {self.kind.__name__} has no {primitive.name} with a "
                    f"{type(other).__name__}",
                    fix="make an array of it: np.array([...])",
                )
            return NotImplemented if _is_left_by_numbers(type(other)) else bind(primitive, pair)
        if primitive in _ORDERS and complex in map(_kind, pair):
            raise DtypeError(
                f"Python does not order complex numbers ({primitive.name})",
                fix="compare abs(k), or k.real",
            )
        if primitive in _COMPARISONS and {int, float} == set(map(_kind, pair)):
            pair = tuple([_as_float(x) if _kind(x) is int else x for x in pair])
        both_bools = all(_kind(x) is bool for x in pair)
        return self._number(primitive, pair, int if row.counts and both_bools else None)

    return apply


def _is_left_by_numbers(kind: type) -> bool:
    """Return True if Python's numbers defer operators to a class: any with operators, except
    NumPy's, numbers and ours.
    """
    if issubclass(kind, (np.ndarray, np.generic, Tracer, numbers.Number)) or str(
        kind.__module__
    ).startswith("functrace."):
        return getattr(kind, "__array_ufunc__", kind) is None
    return hasattr(kind, "__rmul__")


def _unary(primitive: ew.Elementwise) -> Callable[[Any], Any]:
    return lambda self: self._number(primitive, (self,), int if self.kind is bool else None)


_plus = _unary(ew.positive)


class TracedNumber(TracedArray):
    """Traced Python number: float64 (int64 …) alone, weak in operations with arrays."""

    __slots__ = ("kind",)
    is_number = True
    kind: type
    ft_recording: NumberRecording

    def strong(self, dtype: np.dtype[Any] | None = None, *, wraps: bool = False) -> Any:
        """Return the number as an array, by default in its own dtype; see `NumberRecording.settled`."""
        if self.ft_recording.is_over:
            return np.asarray(self.ft_concrete()).astype(dtype or DTYPES[self.kind])[()]
        return self.ft_recording.settled(self, dtype or DTYPES[self.kind], wraps)

    def _number(
        self, primitive: Primitive, operands: tuple[Any, ...], as_kind: type | None = None
    ) -> Any:
        """Apply an operation between numbers; the result is a number."""
        dtype = None if as_kind is None else DTYPES[as_kind]
        arrays = tuple([x.strong(dtype) if isinstance(x, TracedNumber) else x for x in operands])
        if dtype is not None:
            arrays = tuple([int(x) if type(x) is bool else x for x in arrays])
        result = bind(primitive, arrays)
        if not isinstance(result, Tracer):
            return result.item()  # of ended numbers
        if result.dtype == DTYPES[int]:
            result = _without_overflow(cast("Any", result), primitive, arrays)
        return self.ft_recording.wrap(result, _KINDS[result.dtype.kind])

    def assigned(self, dtype: np.dtype[Any]) -> Any:
        """Return the number cast for assignment; the program raises if it does not fit."""
        if self.kind is float and dtype.kind in "iu":
            whole = self.strong()
            whole = require(
                whole,
                ew.logical_not(ew.isnan(whole)),
                "ValueError",
                "cannot convert float NaN to integer",
            )
            info, whole = np.iinfo(dtype), ew.trunc(whole)
            fits = ew.logical_and(
                ew.greater_equal(whole, float(info.min)), ew.less(whole, float(info.max) + 1)
            )
            return convert(
                require(whole, fits, "OverflowError", f"a float does not fit into {dtype}"), dtype
            )
        return self.strong(dtype)

    # -- NumPy's dispatch protocols ------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if (
            ufunc is np.divmod
            and method == "__call__"
            and not kwargs
            and not all(map(weak_kind, inputs))
        ):
            return inputs[0] // inputs[1], inputs[0] % inputs[1]
        if (
            method != "__call__"
            or kwargs
            or ufunc not in ew.UFUNCS
            or any(has_operators(type(x)) for x in inputs)
        ):
            return getattr(ufunc, method)(*strong(inputs), **strong(kwargs))
        return bind(ew.UFUNCS[ufunc], inputs)

    def __array_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if func is np.real or func is np.imag:  # they read the attribute
            return (
                getattr(args[0], func.__name__) if args else getattr(kwargs["val"], func.__name__)
            )
        row = ROWS.get(func)
        if row is not None and row.weak:
            return super().__array_function__(func, types, args, kwargs)
        return func(*strong(args), **strong(kwargs))

    # -- conversions to Python -----------------------------------------------------------------

    def __int__(self) -> int:
        return int(self._plain("int(x)"))

    def __float__(self) -> float:
        return float(self._plain("float(x)"))

    def __complex__(self) -> complex:
        return complex(self._plain("complex(x)"))

    def __index__(self) -> int:
        if self.kind not in (bool, int):
            raise TracedIndexError(
                f"a traced {self.kind.__name__} cannot be an index or a size",
                fix="use int(k), or an integer argument",
            )
        return self._read_by_python()

    def __array__(self, dtype: DtypeLike = None, copy: bool | None = None) -> Any:
        value = self.ft_concrete()
        if self.ft_recording.is_over or self.ft_recording.target.values.source is not None:
            return np.array(value, dtype)
        return self.strong().__array__(dtype, copy)

    def _plain(self, what: str) -> Any:
        """Return the concrete value; raise if ``float(x)`` would lose a derivative when lifted."""
        value = self._read_by_python()
        if self.ft_recording.is_over:
            return value
        source = self.ft_recording.target.values.source
        if (
            source is None
            and self.kind in (float, complex)
            and not has_no_derivative(self.strong())
        ):
            raise lost_in_python(self, what)
        return value

    # -- operators -----------------------------------------------------------------------------

    def __hash__(self) -> int:
        return hash(self._plain("hash(x)"))

    def __pow__(self, n: Operand, modulo: None = None) -> Any:
        if modulo is not None:
            raise UnsupportedFunctionError(
                "pow() with a modulus has no implementation", fix="write k**n % m"
            )
        if weak_kind(n) is None:
            return bind(ew.power, (self, n))
        return self._power(self, n)

    def __rpow__(self, base: Any) -> Any:
        return self._power(base, self) if type(base) in LITERALS else bind(ew.power, (base, self))

    __ipow__ = __pow__

    # -- methods of Python numbers -----------------------------------------------------------------

    @property
    def real(self) -> Any:
        """Real part."""
        return self._number(ew.real, (self,)) if self.kind is complex else _plus(self)

    @property
    def imag(self) -> Any:
        """Imaginary part; a concrete 0 for real numbers."""
        return (
            self._number(ew.imag, (self,))
            if self.kind is complex
            else 0.0
            if self.kind is float
            else 0
        )

    def conjugate(self) -> Any:
        """Return the complex conjugate."""
        return self._number(ew.conj, (self,)) if self.kind is complex else _plus(self)

    conj = conjugate

    def __round__(self, ndigits: int | None = None) -> Any:
        if self.kind is complex:
            raise DtypeError("Python does not round complex numbers", fix="use np.round(k)")
        if ndigits is not None and not (self.kind is not float and ndigits >= 0):
            raise UnsupportedFunctionError(
                "Python's round(k, digits) has no implementation on traced numbers",
                fix="use np.round(k, digits), which scales and rounds",
            )
        if self.kind is not float:
            return _plus(self)
        rounded = ew.rint(self.strong())
        fits = ew.logical_and(ew.greater_equal(rounded, -(2.0**63)), ew.less(rounded, 2.0**63))
        rounded = require(
            rounded, fits, "OverflowError", "cannot convert float to a 64-bit integer"
        )
        return self.ft_recording.wrap(convert(rounded, np.int64), int)

    def __trunc__(self) -> int:
        return math.trunc(self.ft_concrete())

    def __copy__(self) -> Any:
        return self.ft_concrete() if self.ft_recording.is_over else self

    def __deepcopy__(self, memo: object) -> Any:
        return self.__copy__()

    def __reduce__(self) -> Any:
        return (
            (self.kind, (self.ft_concrete(),))
            if self.ft_recording.is_over
            else super().__reduce__()
        )

    def _no_array(self, *_index: object) -> NoReturn:
        raise UnsupportedFunctionError(
            f"a traced {self.kind.__name__} is a number, and has no elements",
            fix="make an array of it: np.asarray(k)",
        )

    __getitem__ = __setitem__ = __len__ = __iter__ = __contains__ = _no_array  # type: ignore[assignment]

    def _power(self, base: Any, n: Any) -> Any:
        """Return Python's power: of integers, int or float by the sign of the exponent."""
        if self.ft_recording.is_over:
            value = self.ft_concrete()
            return value**n if base is self else base**value
        if issubclass(_kind(base), int) and issubclass(_kind(n), int):
            if isinstance(n, TracedNumber) and n.ft_recording.target.values.source is not None:
                n = int(n)
            if isinstance(n, TracedNumber):
                raise ConcretizationError(
                    "the type of a power of two integers depends on the sign of the exponent, but "
                    f"{self.ft_recording.owner} "
                    "records without values",
                    fix="let the base be a float, or the exponent a plain integer",
                )
            if n < 0:
                return self._number(ew.power, (self._number(ew.mul, (self, 1.0)), float(n)))
            return self._number(ew.power, (self, int(n)), int if self.kind is bool else None)
        return self._number(ew.power, (base, n))


def of_array(name: str) -> property:
    """Make the attribute of a number that only arrays have, by conversion to an array."""
    return property(
        lambda self: getattr(self.strong(), name),
        doc=f"Attribute of the number as a 0-d array: {name}.",
    )


set_operators(TracedNumber, _operator, None, _unary)
numbers.Number.register(TracedNumber)  # read by np.isscalar
