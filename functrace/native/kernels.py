"""Elementary functions in loop IR: accurate, branch-free, for float64 and float32.

`KERNELS` maps the name of a primitive to a function that appends statements to a `Builder` and
returns the result, a scalar of the dtype of its operands. The statements are `Let`s only, so LLVM
vectorizes loops that contain them, and the C printer prints the same code. `ULP` states their
largest errors.

Special values are those of C99, and the floating-point flags are those that NumPy warns of: a kernel
raises divide-by-zero, overflow or invalid exactly where NumPy's function does. Two rules follow.
Comparisons of floats are equalities, or comparisons of their bits, because vector instructions for
``<`` raise invalid if an operand is NaN. And numbers out of the domain go through the real arithmetic
of the kernel, with operands that raise the right flag (0/0 for the logarithm of a negative number):
LLVM folds operations on constants, and constants raise no flags.

Source: the reductions are those of FreeBSD's msun (Sun Microsystems, 1993), with fused
multiply-add instead of split constants; the coefficients are minimax polynomials, made with
``tests/native/minimax.py``.

Layer: 7.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np

from functrace.native.loop_ir import BOOL, Atom, Builder, Const, DType

Kernel: TypeAlias = Callable[..., Atom]


class Format(NamedTuple):
    """A floating-point format.

    Args:
        dtype, signed, unsigned: its dtype, and the integers of the same size.
        digits: bits of the mantissa that are stored.
        bias: of the exponent.
    """

    dtype: DType
    signed: DType
    unsigned: DType
    digits: int
    bias: int

    @property
    def magic(self) -> float:
        """The number ``1.5 * 2**digits``: a sum with it is rounded to an integer, in its last bits."""
        return 1.5 * 2.0**self.digits

    @property
    def smallest_normal(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    def bits_of(self, value: float) -> int:
        """Return the bits of a number as a signed integer."""
        double = self.digits == 52
        return struct.unpack(
            "<q" if double else "<i", struct.pack("<d" if double else "<f", value)
        )[0]


DOUBLE: Final = Format(
    np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.uint64), digits=52, bias=1023
)
SINGLE: Final = Format(
    np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.uint32), digits=23, bias=127
)


@final
@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A scalar with operators that append statements to a builder.

    Args:
        builder: the builder.
        atom: the scalar.
        form: its format; that of the float of the same size for integers and bools.
    """

    builder: Builder
    atom: Atom
    form: Format

    def _make(self, op: str, dtype: DType, *others: float | Value) -> Value:
        operands = [self._atom(other) for other in others]
        return Value(self.builder, self.builder.let(op, dtype, self.atom, *operands), self.form)

    def _atom(self, other: float | Value) -> Atom:
        return other.atom if isinstance(other, Value) else Const(other, self.atom.dtype)

    def const(self, value: float) -> Value:
        """Return a constant of the same dtype."""
        return Value(self.builder, Const(value, self.atom.dtype), self.form)

    def __add__(self, other: float | Value) -> Value:
        return self._make("add", self.atom.dtype, other)

    def __radd__(self, other: float) -> Value:
        return self.const(other) + self

    def __sub__(self, other: float | Value) -> Value:
        return self._make("sub", self.atom.dtype, other)

    def __rsub__(self, other: float) -> Value:
        return self.const(other) - self

    def __mul__(self, other: float | Value) -> Value:
        return self._make("mul", self.atom.dtype, other)

    def __rmul__(self, other: float) -> Value:
        return self.const(other) * self

    def __truediv__(self, other: float | Value) -> Value:
        return self._make("div", self.atom.dtype, other)

    def __rtruediv__(self, other: float) -> Value:
        return self.const(other) / self

    def __neg__(self) -> Value:
        return self._make("neg", self.atom.dtype)

    def __abs__(self) -> Value:
        return self._make("fabs", self.atom.dtype)

    def __and__(self, other: int | Value) -> Value:
        return self._make("and", self.atom.dtype, other)

    def __or__(self, other: int | Value) -> Value:
        return self._make("or", self.atom.dtype, other)

    def __xor__(self, other: int | Value) -> Value:
        return self._make("xor", self.atom.dtype, other)

    def __lshift__(self, count: int) -> Value:
        return self._make("shift_left", self.atom.dtype, count)

    def __rshift__(self, count: int) -> Value:
        return self._make("shift_right", self.atom.dtype, count)

    def __lt__(self, other: int | Value) -> Value:
        return self._make("less", BOOL, other)

    def equals(self, other: float | Value) -> Value:
        """Return ``self == other``, false for NaN, without a flag."""
        return self._make("equal", BOOL, other)

    def is_nan(self) -> Value:
        """Return True for NaN."""
        return self._make("is_nan", BOOL)

    def sqrt(self) -> Value:
        """Return the square root."""
        return self._make("sqrt", self.atom.dtype)

    def copysign(self, other: Value) -> Value:
        """Return the number with the sign of another one."""
        return self._make("copysign", self.atom.dtype, other)

    def bits(self) -> Value:
        """Return the bits of a float as a signed integer."""
        return self._make("bits", self.form.signed)

    def unsigned(self) -> Value:
        """Return the bits of a float or signed integer as an unsigned integer."""
        return self._make("bits", self.form.unsigned)

    def as_float(self) -> Value:
        """Return the float that has the bits of an integer."""
        return self._make("bits", self.form.dtype)

    def magnitude(self) -> Value:
        """Return the bits of the absolute value of a float; they order numbers, then inf, then NaN."""
        return self.bits() & ((1 << (self.form.digits + self.exponent_bits())) - 1)

    def exponent_bits(self) -> int:
        """Return how many bits the exponent has."""
        return 8 * self.form.dtype.itemsize - 1 - self.form.digits

    def converted(self, form: Format) -> Value:
        """Return the number in another format."""
        if form is self.form:
            return self
        return Value(self.builder, self.builder.let("convert", form.dtype, self.atom), form)


def where(condition: Value, x: Value, y: float | Value) -> Value:
    """Return x where a condition holds, else y."""
    other = y if isinstance(y, Value) else x.const(y)
    made = x.builder.let("select", x.atom.dtype, condition.atom, x.atom, other.atom)
    return Value(x.builder, made, x.form)


def fma(x: Value, y: float | Value, z: float | Value) -> Value:
    """Return ``x * y + z``, rounded once."""
    operands = [other if isinstance(other, Value) else x.const(other) for other in (y, z)]
    made = x.builder.let("fma", x.atom.dtype, x.atom, *[other.atom for other in operands])
    return Value(x.builder, made, x.form)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Return a polynomial, the constant first: even and odd powers apart, which halves the latency."""
    if len(coefficients) < 5:
        return _horner(x, coefficients)
    square = x * x
    return fma(_horner(square, coefficients[1::2]), x, _horner(square, coefficients[0::2]))


def _horner(x: Value, coefficients: Sequence[float]) -> Value:
    total = x.const(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = fma(x, total, coefficient)
    return total


def _is_small(x: Value, limit: float) -> Value:
    """Return ``abs(x) < limit``; false for NaN, without a flag."""
    return x.magnitude() < x.form.bits_of(limit)


def _clamped(x: Value, low: float, high: float) -> Value:
    """Return x, or the limit that it exceeds; NaN becomes a limit. The limits have two signs."""
    bits, form = x.bits(), x.form
    bits = where(bits < form.bits_of(high), bits, form.bits_of(high)).unsigned()
    bottom = form.bits_of(low) % (1 << (8 * form.dtype.itemsize))
    return where(bits < bottom, bits, bottom).as_float()


# -- exponentials --

LN2: Final = (0.6931471805599453, 2.3190468138462996e-17)
LN2_SINGLE: Final = (0.69314718, -1.9046543e-09)
LOG2_E: Final = 1.4426950408889634

_EXPM1: Final = {  # (exp(r) - 1 - r) / r**2, abs(r) <= log(2) / 2: 2**-63, 2**-28
    DOUBLE: (
        0.5, 0.16666666666666688, 0.04166666666666682, 0.008333333333314014,
        0.0013888888888788041, 0.00019841269902815694, 2.4801587523738887e-05,
        2.7557229409937496e-06, 2.7557110554923036e-07, 2.511364243235103e-08,
        2.0961154502741307e-09,
    ),
    SINGLE: (
        0.4999999403953552, 0.16666515171527863, 0.04166807979345322, 0.008369368501007557,
        0.0013841819018125534,
    ),
}  # fmt: skip


def _split_exponent(x: Value, extra: int) -> tuple[Value, Value]:
    """Return r and bits t with ``x = k log(2) + r``; the last bits of t are those of k + extra."""
    form = x.form
    magic = form.magic + extra
    high, low = LN2 if form is DOUBLE else LN2_SINGLE
    t = fma(x, LOG2_E, magic)
    n = t - magic
    return fma(n, -low, fma(n, -high, x)), t.bits()


def _expm1_of_rest(r: Value) -> Value:
    return fma(polynomial(r, _EXPM1[r.form]), r * r, r)


def _exp(x: Value) -> Value:
    form = x.form
    c = _clamped(x, *((-746.0, 709.9) if form is DOUBLE else (-104.5, 89.0)))
    r, t = _split_exponent(c, 2 * form.bias)
    half = fma(c, LOG2_E / 2, form.magic + form.bias).bits()
    scale = (half << form.digits).as_float()
    rest = ((t - half) << form.digits).as_float()
    scale = where(x.is_nan() | x.equals(np.inf), x, scale)
    return fma(_expm1_of_rest(r), scale, scale) * rest


def _tanh(x: Value) -> Value:
    form = x.form
    a = _clamped(abs(x), -1.0, 20.0 if form is DOUBLE else 10.0)
    r, t = _split_exponent(a + a, form.bias)
    scale = (t << form.digits).as_float()
    high = scale - 1.0
    rest = _expm1_of_rest(r) * scale
    top = high + rest
    top_low = where(scale.equals(1.0), top.const(0.0), rest - (top - high))
    bottom = top + 2.0
    bottom_low = top - (bottom - 2.0) + top_low
    inverse = 1.0 / bottom
    y = top * inverse
    left = fma(-y, bottom_low, fma(-y, bottom, top) + top_low)
    y = fma(left, inverse, y).copysign(x)
    return where(x.is_nan(), x, y)


# -- logarithms --

_LOG: Final = {  # (2 atanh(s) / s - 2) / s**2 in powers of s**2, abs(s) <= 3 - 2 sqrt(2)
    DOUBLE: (
        0.6666666666666735, 0.39999999999409347, 0.2857142874368866, 0.22222198428722736,
        0.18183572366715353, 0.153138319762625, 0.1479825881708863,
    ),
    SINGLE: (0.6666666269302368, 0.40000972151756287, 0.2849879264831543, 0.242788627743721),
}  # fmt: skip


def _split_mantissa(x: Value) -> tuple[Value, Value]:
    """Return k as a float and m with ``x = 2**k m`` and m between sqrt(1/2) and sqrt(2)."""
    form = x.form
    j = x.bits()
    above = j - form.bits_of(0.5**0.5)
    m = (j - (above & (-1 << form.digits))).as_float()
    # The bits of 2**digits + k + bias; no conversion of int64, which AVX2 lacks.
    biased = (above + (form.bias << form.digits)).unsigned() >> form.digits
    k = (biased | form.bits_of(2.0**form.digits)).as_float() - (2.0**form.digits + form.bias)
    return k, m


def _log(x: Value) -> Value:
    form = x.form
    high, low = LN2 if form is DOUBLE else LN2_SINGLE
    is_tiny = x.unsigned() < form.bits_of(form.smallest_normal)
    shift = form.digits + 2
    k, m = _split_mantissa(x * where(is_tiny, x.const(2.0**shift), 1.0))
    k = where(is_tiny, k - shift, k)
    f = m - 1.0
    is_valid = (x.bits() - 1).unsigned() < form.bits_of(np.inf) - 1
    is_kept = x.is_nan() | x.equals(np.inf)
    top = where(is_kept, x, where(x.equals(0.0), x.const(-1.0), 0.0))
    bottom = where(is_kept, x.const(1.0), 0.0)
    s = where(is_valid, f, top) / where(is_valid, f + 2.0, bottom)
    z = s * s
    rest = z * polynomial(z, _LOG[form])
    half = 0.5 * f * f
    return fma(k, high, f - (half - fma(s, half + rest, k * low)))


# -- trigonometric functions --

TWO_OVER_PI: Final = 0.6366197723675814
HALF_PI: Final = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)

_SIN: Final = (  # (sin(r) / r - 1) / r**2 in powers of r**2, abs(r) <= pi / 4
    -0.16666666666666632, 0.008333333333322455, -0.00019841269829813416,
    2.7557313687572195e-06, -2.5050756714060665e-08, 1.5896681824031893e-10,
)  # fmt: skip
_COS: Final = (  # (cos(r) - 1 + r**2 / 2) / r**4 in powers of r**2
    0.0416666666666666, -0.0013888888888874441, 2.480158728963631e-05,
    -2.7557314387467385e-07, 2.0875727058400975e-09, -1.1359802428974898e-11,
)  # fmt: skip
_SIN_SINGLE: Final = (
    -0.1666666716337204, 0.008333380334079266, -0.0001985349808819592, 2.837246938725002e-06,
)  # fmt: skip
_COS_SINGLE: Final = (
    0.0416666679084301, -0.001388898235745728, 2.4822968043736182e-05, -2.8974156407457485e-07,
)  # fmt: skip


def _reduced_angle(x: Value) -> tuple[Value, Value, Value]:
    """Return r, its low part, and bits q with ``x = q pi/2 + r + low``, modulo 2 pi."""
    t = fma(x, TWO_OVER_PI, x.form.magic)
    n = t - x.form.magic
    first = fma(n, -HALF_PI[0], x)  # exact
    r = fma(n, -HALF_PI[1], first)
    low = fma(n, -HALF_PI[2], fma(n, -HALF_PI[1], first - r))
    return r, low, t.bits()


def _sine_or_cosine(x: Value, quarters: int) -> Value:
    """Return ``sin(x + quarters * pi/2)``."""
    form = x.form
    x = x.converted(DOUBLE)
    r, low, q = _reduced_angle(x)
    z = r * r
    if form is DOUBLE:
        half = 0.5 * z
        near_one = 1.0 - half
        cube = r * (z * polynomial(z, _SIN))
        sine = r + fma(low, near_one, cube)
        fourth = fma(z * z, polynomial(z, _COS), -(r * low))
        cosine = near_one + ((1.0 - near_one - half) + fourth)
    else:
        sine = fma(r, z * polynomial(z, _SIN_SINGLE), r)
        cosine = fma(z * z, polynomial(z, _COS_SINGLE), fma(z, -0.5, 1.0))
    q = q + quarters
    y = where((q & 1).equals(0), sine, cosine)
    y = (y.bits() ^ ((q & 2) << 62)).as_float()
    return y.converted(form)


def _sin(x: Value) -> Value:
    return where(x.equals(0.0), x, _sine_or_cosine(x, 0))


def _cos(x: Value) -> Value:
    return _sine_or_cosine(x, 1)


# -- the table --


def _format_of(x: Atom) -> Format:
    return DOUBLE if x.dtype.itemsize == 8 else SINGLE


def _unary(function: Callable[[Value], Value]) -> Kernel:
    def kernel(builder: Builder, x: Atom) -> Atom:
        return function(Value(builder, x, _format_of(x))).atom

    return kernel


def _binary(function: Callable[[Value, Value], Value]) -> Kernel:
    def kernel(builder: Builder, x: Atom, y: Atom) -> Atom:
        form = _format_of(x)
        return function(Value(builder, x, form), Value(builder, y, form)).atom

    return kernel


KERNELS: Final[Mapping[str, Kernel]] = {
    "exp": _unary(_exp),
    "log": _unary(_log),
    "sin": _unary(_sin),
    "cos": _unary(_cos),
    "tanh": _unary(_tanh),
}
"""By name of the primitive, the function that appends its statements to a builder."""
