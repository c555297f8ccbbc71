"""The rows of further arithmetic: signs and fractions, scaling by powers of 2, common divisors,
angles, limits on one side.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.numbers import NUMBERS, number_of
from functrace.torch.dispatch.promotion import (
    Promotion,
    arithmetic,
    broadcasting,
    floating,
    for_kinds,
    of_fitting_numbers,
    of_tensors,
    returning_bool,
)
from functrace.torch.dispatch.rows import FunctionTable, Run
from functrace.torch.functions import elementwise as f
from functrace.torch.functions.elementwise import BOTH, RESULT, SELF
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.mirrors import is_negative
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.torch.tensors.views import write
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()
EVERY = "function method in_place function_in_place"


def _not_complex(name: str) -> Promotion:
    refused = for_kinds("buif", f"{name} is not supported for complex tensors.", RuntimeError)
    return floating.checked(refused)


ROWS.op(
    "deg2rad",
    lambda x: ew.mul(x, math.pi / 180),
    (),
    _not_complex("deg2rad"),
    forms=EVERY,
    doc="Return angles in degrees as radians.",
)
ROWS.op(
    "rad2deg",
    lambda x: ew.mul(x, 180 / math.pi),
    (),
    _not_complex("rad2deg"),
    forms=EVERY,
    doc="Return angles in radians as degrees.",
)
ROWS.op(
    "frac",
    lambda x: ew.sub(x, ew.trunc(x)),
    (),
    arithmetic.checked(for_kinds("f", "frac_cpu")),
    forms=EVERY,
    doc="Return the part of each element behind its point, with its sign.",
)


def _equals(bound: float) -> Callable[[Array], Any]:
    return lambda x: ew.equal(x, bound) if x.dtype.kind in "fV" else ew.not_equal(x, x)


for _name, _bound, _says in (("isposinf", math.inf, "inf"), ("isneginf", -math.inf, "-inf")):
    ROWS.op(
        _name,
        _equals(_bound),
        (),
        returning_bool.checked(
            for_kinds("buif", f"{_name} does not support complex inputs.", RuntimeError)
        ),
        doc=f"Return a mask of the elements that are {_says}.",
    )
ROWS.op(
    "isreal",
    lambda x: (
        ew.equal(ew.imag(x), 0) if x.dtype.kind == "c" else ew.logical_or(True, ew.equal(x, x))
    ),
    (),
    returning_bool,
    out=False,
    doc="Return a mask of the elements without an imaginary part.",
)


# -- signs and neighbours --------------------------------------------------------------------------


def _copysign_change(x: Array, y: Any) -> Any:
    """``copysign`` as PyTorch differentiates it: ``x`` times a constant sign, 0 where x is 0."""
    zero = ew.equal(x, 0)
    signs = ew.where(zero, 0.0, ew.div(ew.copysign(x, y), ew.where(zero, 1.0, x)))
    moved = ew.mul(x, ew.stop_gradient(signs))
    return ew.add(moved, ew.mul(y, 0.0)) if hasattr(y, "dtype") else moved


_copies_signs = floating.checked(for_kinds("buif", "copysign_cpu"))
COPYSIGN = Op(
    "CopysignBackward0",
    ew.copysign,
    (("result", -1), *SELF, ("other", 1)),
    _copies_signs,
    derived=_copysign_change,
    keeps=("result", "self"),
)
COPYSIGN_NUMBER = Op(
    "CopysignBackward1",
    ew.copysign,
    (("result", -1), *SELF),
    _copies_signs,
    edges=(0,),
    derived=_copysign_change,
    keeps=("result", "self"),
)


@ROWS.family("function method in_place", out=True)
def copysign(run: Run) -> Callable[..., Value]:
    """Return the size of ``input`` with the sign of ``other``."""

    def function(input: Operand, other: Operand) -> Value:
        number = number_of(other)
        f.tensors_only("copysign", input=input)
        return run(COPYSIGN_NUMBER if type(number) in NUMBERS else COPYSIGN, (input, number))

    return function


ROWS.op(
    "nextafter",
    lambda x, y: ew.nextafter(x, y),
    BOTH,
    arithmetic.checked(of_tensors("nextafter", "input", "other"), for_kinds("f", "nextafter_cpu")),
    forms="function method in_place",
    keeps=("other", "self"),
    doc="Return the next number after ``input`` towards ``other``.",
)
HEAVISIDE = f.without_derivative(
    Op(
        "NotImplemented",
        lambda x, y: (
            ew.where(ew.not_equal(x, x), x, ew.heaviside(x, y))
            if x.dtype.kind in "fV"
            else ew.where(ew.equal(x, 0), y, convert(ew.greater(x, 0), x.dtype))
        ),
        saves=BOTH,
        promote=broadcasting,
        called="heaviside",
    ),
    "heaviside",
)


@ROWS.family("function method in_place", out=True)
def heaviside(run: Run) -> Callable[..., Value]:
    """Return 0 for negative elements, 1 for positive ones, and ``values`` for 0.

    Raises:
        RuntimeError: for complex numbers, and different dtypes.
    """

    def function(input: Operand, values: Operand) -> Value:
        f.tensors_only("heaviside", input=input, values=values)
        kinds = f.dtype_of(input), f.dtype_of(values)
        if "c" in (kinds[0].kind, kinds[1].kind):
            raise RuntimeError("heaviside is not yet implemented for complex tensors.")
        if kinds[0] != kinds[1]:
            raise RuntimeError(
                "heaviside is not yet implemented for tensors with different dtypes."
            )
        return run(HEAVISIDE, (input, values))

    return function


for _name, _primitive, _says in (
    ("gcd", np.gcd, "greatest common divisor"),
    ("lcm", np.lcm, "least common multiple"),
):
    ROWS.op(
        _name,
        _primitive,
        (),
        arithmetic.checked(of_tensors(_name, "input", "other"), for_kinds("ui", f"{_name}_cpu")),
        forms=EVERY,
        doc=f"Return the {_says} of each pair of integers.",
    )


# -- powers of 2 -----------------------------------------------------------------------------------

EXP2 = Op("Exp2Backward0", ew.exp2, RESULT)
LDEXP = Op(
    "LdexpBackward0",
    lambda x, y: ew.mul(x, ew.exp2(y)),
    (("other", 1), ("result", -1), *SELF),
    floating.checked(of_tensors("ldexp", "input", "other")),
    keeps=("other", "result"),
)


@ROWS.family(EVERY, out=True)
def ldexp(run: Run) -> Callable[..., Value]:
    """Return ``input * 2**other``."""

    def function(input: Operand, other: Operand) -> Value:
        f.tensors_only("ldexp", input=input, other=other)
        kinds = f.dtype_of(input), f.dtype_of(other)
        if kinds[1].kind == "b" and kinds[0].kind in "fV":
            raise NotImplementedError(errors.no_kernel("ldexp_cpu_exp").format("Bool"))
        if kinds[1] == np.float16 and kinds[0].kind == "c" and f.shape_of(other):
            raise NotImplementedError(errors.no_kernel("pow").format("ComplexHalf"))
        if f.shape_of(other) and kinds[0] != kinds[1] and {k.kind for k in kinds} <= set("fc"):
            powers = apply(EXP2, (other,))  # in the precision of the exponents
            return f.mul(input, powers) if run is apply else input.mul_(powers)  # type: ignore[union-attr]
        return run(LDEXP, (input, other))

    return function


class _Frexp(NamedTuple):
    mantissa: Any
    exponent: Any

    def __repr__(self) -> str:
        return (
            f"torch.return_types.frexp(\nmantissa={self.mantissa!r},\nexponent={self.exponent!r})"
        )


_Frexp.__name__ = "frexp"


def _frexp(x: Array) -> Any:
    mantissa, exponent = ew.frexp(x)
    return mantissa, convert(exponent, np.int32)


def _frexp_change(x: Array) -> Any:
    exponent = _frexp(ew.stop_gradient(x))[1]
    return ew.mul(x, ew.exp2(convert(ew.neg(exponent), x.dtype))), exponent


FREXP = Op(
    "FrexpBackward0",
    _frexp,
    (("exponent", -2),),
    derived=_frexp_change,
    keeps=("exponent",),
    called="frexp.Tensor",
)


@ROWS.function(out=True)
def frexp(input: Operand) -> Any:
    """Return mantissas in [0.5, 1) and exponents: ``input == mantissa * 2**exponent``.

    Raises:
        RuntimeError: for integers and complex numbers.
    """
    f.tensors_only("frexp", input=input)
    if f.dtype_of(input).kind not in "fV":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return _Frexp(*apply(FREXP, (input,)))


ROWS.op(
    "logaddexp2",
    lambda x, y: ew.logaddexp2(x, y),
    BOTH,
    arithmetic.checked(
        of_tensors("logaddexp2", "input", "other"), for_kinds("f", "logaddexp2_cpu")
    ),
    forms="function method",
    doc="Return the logarithm to base 2 of the sum of powers of 2.",
)


def _double(x: Any) -> Any:
    if isinstance(x, Tensor) or hasattr(x, "dtype"):
        return f.to(x, np.dtype(np.complex128 if f.dtype_of(x).kind == "c" else np.float64))
    return x


@ROWS.function(out=True)
def float_power(input: Operand, exponent: Operand) -> Value:
    """Return ``input ** exponent`` in double precision."""
    base, power = number_of(input), number_of(exponent)
    for x in (base, power):
        if type(x) not in NUMBERS and not isinstance(x, (Tensor, Tracer)):
            raise TypeError(errors.invalid_combination("float_power", (input, exponent)))
    is_complex = any(
        type(x) is complex or (type(x) not in NUMBERS and f.dtype_of(x).kind == "c")
        for x in (base, power)
    )
    wide: Any = complex if is_complex else float
    wanted = np.dtype(np.complex128 if is_complex else np.float64)
    given = [wide(x) if type(x) in NUMBERS else f.to(x, wanted) for x in (base, power)]
    if type(power) is int and type(given[1]) is float:
        given[1] = power if -(2**53) < power < 2**53 else given[1]
    return f.pow(*given)


@ROWS.function("method")
def float_power_(self: Tensor, exponent: Operand) -> Tensor:
    """`float_power`, in place: for tensors in double precision.

    Raises:
        RuntimeError: for any other dtype.
    """
    number = number_of(exponent)
    is_complex = type(number) is complex or (
        type(number) not in NUMBERS and f.dtype_of(number).kind == "c"
    )
    kind = self._array.dtype
    wanted = np.dtype(np.complex128 if is_complex or kind.kind == "c" else np.float64)
    if kind != wanted:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {DTYPES[kind].printed} but the operation's "
            f"result requires dtype {DTYPES[wanted].printed}"
        )
    return self.pow_(_double(number) if type(number) not in NUMBERS else number)


# -- limits on one side ----------------------------------------------------------------------------


def _bounded(name: str, function: Callable[..., Any]) -> None:
    side = name[-3:]
    node = f"Clamp{side.title()}Backward"

    kernel = "maximum_cpu" if side == "min" else "minimum_cpu"
    of_number = Op(
        f"{node}0",
        function,
        SELF,
        arithmetic.checked(
            for_kinds("buif", errors.CLAMP_OF_COMPLEX),
            for_kinds("uif", f"{name}_scalar_cpu"),
            of_fitting_numbers,
        ),
        edges=(0,),
        static_numbers=True,
        keeps=("self",),
        details=lambda specs, params: {side: specs[1][1]},
    )
    of_tensor = Op(
        f"{node}1",
        function,
        ((side, 1), *SELF),
        arithmetic.checked(for_kinds("buif", kernel)),
        keeps=(side, "self"),
    )

    def make(run: Run) -> Callable[..., Value]:
        def low(input: Operand, min: Operand) -> Value:
            f.tensors_only(name, input=input)
            number = number_of(min)
            return run(of_number if type(number) in NUMBERS else of_tensor, (input, number))

        def high(input: Operand, max: Operand) -> Value:
            f.tensors_only(name, input=input)
            number = number_of(max)
            return run(of_number if type(number) in NUMBERS else of_tensor, (input, number))

        return low if side == "min" else high

    make.__name__ = name
    make.__doc__ = f"Return each element, at {'least' if side == 'min' else 'most'} the bound."
    ROWS.family(EVERY, out=True)(make)


_bounded("clamp_min", lambda x, low: ew.clip_below(x, low))
_bounded("clamp_max", lambda x, high: ew.clip_above(x, high))


# -- nan -------------------------------------------------------------------------------------------


def _without_nan(x: Array, nan: float | None, high: float | None, low: float | None) -> Any:
    if x.dtype.kind == "c":
        return ew.complex_of(
            _without_nan(ew.real(x), nan, high, low), _without_nan(ew.imag(x), nan, high, low)
        )
    if x.dtype.kind not in "fV":
        return ew.positive(x) if x.dtype.kind != "b" else ew.logical_or(x, x)
    limits = np.finfo(x.dtype)
    with np.errstate(over="ignore"):
        numbers = [
            x.dtype.type(value)
            for value in (
                0.0 if nan is None else nan,
                limits.max if high is None else high,
                limits.min if low is None else low,
            )
        ]
    found = ew.where(ew.isnan(x), numbers[0], x)
    found = ew.where(ew.equal(x, math.inf), numbers[1], found)
    return ew.where(ew.equal(x, -math.inf), numbers[2], found)


NAN_TO_NUM = Op("NanToNumBackward0", _without_nan, SELF, arithmetic, keeps=("self",))


@ROWS.family(EVERY, out=True)
def nan_to_num(run: Run) -> Callable[..., Value]:
    """Return the tensor with nan and infinities replaced: by 0 and the limits of the dtype, or by
    the numbers given.
    """

    def function(
        input: Operand,
        nan: float | None = None,
        posinf: float | None = None,
        neginf: float | None = None,
    ) -> Value:
        f.tensors_only("nan_to_num", input=input)
        return run(NAN_TO_NUM, (input,), (nan, posinf, neginf))

    return function


# -- complex numbers -------------------------------------------------------------------------------

CONJ_PHYSICAL = Op("ConjPhysicalBackward0", ew.conj)
CONJ_PHYSICAL_IN_PLACE = Op("ConjPhysicalBackward1", ew.conj)


@ROWS.function(out=True)
def conj_physical(input: Operand) -> Value:
    """Return the conjugate, computed at once; a real tensor is returned itself."""
    f.tensors_only("conj_physical", input=input)
    return apply(CONJ_PHYSICAL, (input,)) if f.dtype_of(input).kind == "c" else input


@ROWS.function("function method")
def conj_physical_(input: Tensor) -> Tensor:
    """`conj_physical`, in place."""
    f.tensors_only("conj_physical_", input=input)
    return write(CONJ_PHYSICAL_IN_PLACE, (input,)) if input._array.dtype.kind == "c" else input


POLAR = Op(
    "PolarBackward0",
    lambda size, angle: ew.complex_of(ew.mul(size, ew.cos(angle)), ew.mul(size, ew.sin(angle))),
    (("abs", 0), ("angle", 1), *RESULT),
    broadcasting,
    keeps=("result",),
)


@ROWS.function("function", out=True)
def polar(abs: Operand, angle: Operand) -> Value:
    """Return the complex numbers of a size and an angle.

    Raises:
        RuntimeError: for tensors that are no floats, or of different dtypes.
    """
    f.tensors_only("polar", abs=abs, angle=angle)
    kinds = f.dtype_of(abs), f.dtype_of(angle)
    names = [DTYPES[kind].printed for kind in kinds]
    if any(kind.kind != "f" for kind in kinds):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {names[0]} and "
            f"{names[1]}"
        )
    if kinds[0] != kinds[1]:
        raise RuntimeError(
            f"Expected object of scalar type {names[0]} but got scalar type {names[1]} for second "
            "argument"
        )
    if kinds[0] == np.float16:
        raise NotImplementedError(errors.no_kernel("polar_cpu").format("Half"))
    return apply(POLAR, (abs, angle))


@ROWS.function()
def is_neg(input: Operand) -> bool:
    """Return True if a tensor is a negated view, as the imaginary part of a conjugate is."""
    f.tensors_only("is_neg", input=input)
    return isinstance(input, Tensor) and is_negative(input._array)


@ROWS.function("function")
def is_signed(input: Tensor) -> bool:
    """Return True if elements can be negative."""
    f.tensors_only("is_signed", input=input)
    return f.dtype_of(input).kind in "ifcV"


@ROWS.function("function")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return True if two tensors have the same shape."""
    f.tensors_only("is_same_size", input=input, other=other)
    return f.shape_of(input) == f.shape_of(other)


@ROWS.function("method")
def is_nonzero(self: Tensor) -> bool:
    """Return True if the one element is nonzero."""
    return bool(self)
