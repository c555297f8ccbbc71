"""Elementary functions in loop IR: accurate, branch-free, for float64 and float32.

`KERNELS` maps the name of a primitive to a function that appends statements to a `Builder` and
returns the result, a scalar of the dtype of its operands. The statements are `Let`s only, so LLVM
vectorizes loops that contain them, and the C printer prints the same code. `ULP` states their
largest errors.

Special values are those of C99, and the floating-point flags are those that NumPy warns of: a kernel
raises divide-by-zero, overflow or invalid exactly where NumPy's function does (but for a NaN, of
which NumPy's logaddexp warns). Two rules follow. Comparisons of floats are equalities, or
comparisons of their bits, because vector instructions for ``<`` raise invalid if an operand is NaN.
And numbers out of the domain go through the real arithmetic of the kernel, with operands that raise
the right flag (0/0 for the logarithm of a negative number): LLVM folds operations on constants, and
constants raise no flags.

Sums and products are not to be contracted or reordered (in C: ``-ffp-contract=off``), and integers
wrap. Angles from `LARGEST_ANGLE` on are NaN with the flag "invalid", with which a program runs again
in NumPy, whatever NumPy's settings for errors say: an exact reduction without branches would need
about 120 more operations at every angle.

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

    def __gt__(self, other: int | Value) -> Value:
        return self._make("greater", BOOL, other)

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


def _not(condition: Value) -> Value:
    made = condition.builder.let("not", BOOL, condition.atom)
    return Value(condition.builder, made, condition.form)


def _is_small(x: Value, limit: float) -> Value:
    """Return ``abs(x) < limit``; false for NaN, without a flag."""
    return x.magnitude() < x.form.bits_of(limit)


def _at_most(x: Value, high: float) -> Value:
    """Return the smaller one of two numbers that are not negative; NaN counts as large."""
    bits, limit = x.bits(), x.form.bits_of(high)
    return where(bits < limit, bits, limit).as_float()


def _clamped(x: Value, low: float, high: float) -> Value:
    """Return x, or the limit that it exceeds; NaN becomes a limit. The limits have two signs."""
    form = x.form
    bits = _at_most(x, high).unsigned()
    bottom = form.bits_of(low) % (1 << (8 * form.dtype.itemsize))
    return where(bits < bottom, bits, bottom).as_float()


class Pair(NamedTuple):
    """The sum of two numbers."""

    high: Value
    low: Value

    def total(self) -> Value:
        """Return the sum, rounded."""
        return self.high + self.low


def _normalized(high: Value, low: Value) -> Pair:
    """Return the rounded sum of two numbers, the first one larger, and its error."""
    total = high + low
    return Pair(total, high - total + low)


# -- exponentials --

LN2: Final = {
    DOUBLE: (0.6931471805599453, 2.3190468138462996e-17),
    SINGLE: (0.6931471824645996, -1.9046542121259336e-09),
}
LOG2_E: Final = (1.4426950408889634, 2.0355273740931033e-17)
LOG2_E_SINGLE: Final = (1.4426950216293335, 1.925963033500011e-08)

_EXPM1: Final = {  # (exp(r) - 1 - r) / r**2, abs(r) <= log(2) / 2: 2**-63, 2**-28
    DOUBLE: (
        0.5, 0.16666666666666688, 0.04166666666666682, 0.008333333333314014,
        0.0013888888888788041, 0.00019841269902815694, 2.4801587523738887e-05,
        2.7557229409937496e-06, 2.7557110554923036e-07, 2.511364243235103e-08,
        2.0961154502741307e-09,
    ),
    SINGLE: (
        0.4999999403953552, 0.1666651964187622, 0.04166841506958008, 0.008368763141334057,
        0.0013812832767143846,
    ),
}  # fmt: skip
_SINH: Final = {  # (sinh(r) / r - 1) / r**2 in powers of r**2: 2**-65, 2**-34
    DOUBLE: (
        0.16666666666666666, 0.008333333333334424, 0.00019841269837090922,
        2.7557326214026356e-06, 2.5046791032651177e-08, 1.757519744245723e-10,
    ),
    SINGLE: (0.1666666716337204, 0.00833317544311285, 0.00019974067981820554),
}  # fmt: skip
_COSH: Final = {  # (cosh(r) - 1) / r**2: 2**-70, 2**-33
    DOUBLE: (
        0.5, 0.041666666666666685, 0.0013888888888873283, 2.4801587349202154e-05,
        2.755725181959355e-07, 2.092176996737826e-09,
    ),
    SINGLE: (0.5, 0.041666459292173386, 0.0013935437891632318),
}  # fmt: skip


class Reduced(NamedTuple):
    """An exponent in parts: ``x = k log(2) + r + low``, and the last bits of `shifted` are those of
    k plus a constant.
    """

    r: Value
    low: Value
    shifted: Value

    def scale(self) -> Value:
        """Return ``2**k``, if the constant is the bias of the exponent."""
        return (self.shifted << self.r.form.digits).as_float()


def _reduced(x: Value, constant: int) -> Reduced:
    form = x.form
    magic = form.magic + constant
    high, low = LN2[form]
    shifted = fma(x, LOG2_E[0], magic)
    n = shifted - magic
    first = fma(n, -high, x)  # exact
    r = fma(n, -low, first)
    return Reduced(r, fma(n, -low, first - r), shifted.bits())


def _tail(r: Value, low: Value) -> Value:
    """Return ``exp(r + low) - 1 - r``."""
    return fma(polynomial(r, _EXPM1[r.form]), r * r, low)


def _tail_of_pair(r: Value, low: Value) -> Value:
    """Return ``exp(r + low) - 1 - r``, for a low part that may be as large as 2**-43."""
    tail = polynomial(r, _EXPM1[r.form]) * (r * r)
    return fma(low, 1.0 + r + tail, tail)


def _exp_of_pair(x: Value, low: Value) -> Value:
    """Return ``exp(x + low)``, for x between the limits of `_exp`."""
    r, rest_low, shifted = _reduced(x, 2 * x.form.bias)
    tail = _tail_of_pair(r, rest_low + low)
    scale, rest = _halves(x, LOG2_E[0], shifted)
    near = 1.0 + r
    return (near + (1.0 - near + r + tail)) * scale * rest


def _halves(x: Value, factor: float, shifted: Value) -> tuple[Value, Value]:
    """Return two powers of two with the product ``2**k``: each is a normal number.

    Args:
        x: a number with ``k = rint(factor * x)``.
        factor: the factor.
        shifted: bits of k + 2 bias.
    """
    form = x.form
    half = fma(x, factor / 2, form.magic + form.bias).bits()
    return (half << form.digits).as_float(), ((shifted - half) << form.digits).as_float()


def _is_nan_or(x: Value, special: float) -> Value:
    return x.is_nan() | x.equals(special)


def _exp(x: Value) -> Value:
    form = x.form
    c = _clamped(x, *((-746.0, 709.9) if form is DOUBLE else (-104.5, 89.0)))
    r, low, shifted = _reduced(c, 2 * form.bias)
    scale, rest = _halves(c, LOG2_E[0], shifted)
    scale = where(_is_nan_or(x, np.inf), x, scale)
    return fma(r + _tail(r, low), scale, scale) * rest


def _exp2(x: Value) -> Value:
    form = x.form
    high, low = LN2[form]
    c = _clamped(x, *((-1080.0, 1024.2) if form is DOUBLE else (-152.0, 128.2)))
    magic = form.magic + 2 * form.bias
    shifted = c + magic
    fraction = c - (shifted - magic)
    r = fraction * high
    scale, rest = _halves(c, 1.0, shifted.bits())
    scale = where(_is_nan_or(x, np.inf), x, scale)
    tail = _tail(r, fma(fraction, low, fma(fraction, high, -r)))
    return fma(r + tail, scale, scale) * rest


def _expm1(x: Value) -> Value:
    form = x.form
    is_kept = _is_nan_or(x, np.inf) | _is_small(x, 0.5 ** (form.digits + 2))
    c = _clamped(x, *((-40.0, 709.9) if form is DOUBLE else (-20.0, 89.0)))
    c = where(is_kept, x.const(0.0), c)
    r, low, shifted = _reduced(c, form.bias - 1)
    scale = (shifted << form.digits).as_float()  # half of 2**k
    high = scale - 0.5
    y = fma(r, scale, high)
    rest = fma(r, scale, high - y) + ((scale - high) - 0.5)
    y = y + fma(_tail(r, low), scale, rest)
    return where(is_kept, x, y * 2.0)


def _hyperbolic(x: Value, is_kept: Value) -> tuple[Value, Value, Value, Value, Value]:
    """Return r, the rest of its hyperbolic sine and cosine without r and 1, and two factors: halves
    of the hyperbolic cosine and sine of ``k log(2)``.

    Args:
        x: the operand.
        is_kept: where the result does not matter.
    """
    form = x.form
    c = where(is_kept, x.const(0.0), _at_most(abs(x), 710.5 if form is DOUBLE else 89.43))
    r, low, shifted = _reduced(c, form.bias - 2)
    up = shifted << form.digits
    down = form.bits_of(2.0**form.bias) - up - (4 << form.digits)
    up, down = up.as_float(), where(down > 0, down, 0).as_float()
    z = r * r
    sine = fma(r * z, polynomial(z, _SINH[form]), low)
    cosine = z * polynomial(z, _COSH[form])
    return r, sine, cosine, up + down, up - down


def _sinh(x: Value) -> Value:
    limit = 0.5 ** (x.form.digits // 2 + 2)
    is_kept = _is_nan_or(abs(x), np.inf) | _is_small(x, limit)
    r, sine, cosine, c, s = _hyperbolic(x, is_kept)
    y = fma(c, r, s)
    y = y + fma(c, sine, fma(s, cosine, fma(c, r, s - y)))
    return where(is_kept, x, (y * 2.0).copysign(x))


def _cosh(x: Value) -> Value:
    is_kept = _is_nan_or(abs(x), np.inf)
    r, sine, cosine, c, s = _hyperbolic(x, is_kept)
    return where(is_kept, abs(x), (c + fma(c, cosine, s * (r + sine))) * 2.0)


def _tanh(x: Value) -> Value:
    form = x.form
    a = _at_most(abs(x), 20.0 if form is DOUBLE else 10.0)
    r, low, shifted = _reduced(a + a, form.bias)
    scale = (shifted << form.digits).as_float()
    high = scale - 1.0
    top = fma(r, scale, high)
    top, top_low = _normalized(top, fma(_tail(r, low), scale, fma(r, scale, high - top)))
    bottom = top + 2.0
    bottom_low = top - (bottom - 2.0) + top_low
    inverse = 1.0 / bottom
    y = top * inverse
    left = fma(-y, bottom_low, fma(-y, bottom, top) + top_low)
    y = fma(left, inverse, y).copysign(x)
    return where(x.is_nan(), x, y)


def _sigmoid(x: Value) -> Value:
    form = x.form
    c = -_at_most(abs(x), 746.0 if form is DOUBLE else 104.5)
    decay = _exp_of_pair(c, c.const(0.0))
    y = where(x.bits() < 0, decay, 1.0) / (decay + 1.0)
    return where(x.is_nan(), x, y)


# -- logarithms --

LOG10_E: Final = {
    DOUBLE: (0.4342944819032518, 1.098319650216765e-17),
    SINGLE: (0.4342944920063019, -1.0103049952192578e-08),
}
LOG10_2: Final = {
    DOUBLE: (0.3010299956639812, -2.8037281277851704e-18),
    SINGLE: (0.3010300099849701, -1.432098883924482e-08),
}

_LOG: Final = {  # (2 atanh(s) / s - 2) / s**2 in powers of s**2, abs(s) <= 3 - 2 sqrt(2)
    DOUBLE: (
        0.6666666666666735, 0.39999999999409347, 0.2857142874368866, 0.22222198428722736,
        0.18183572366715353, 0.153138319762625, 0.1479825881708863,
    ),
    SINGLE: (0.6666666269302368, 0.40000972151756287, 0.2849879264831543, 0.242788627743721),
}  # fmt: skip


def _scaled_exponent(x: Value) -> tuple[Value, Value]:
    """Return bits of ``2**k``, without the bias, and k as a float: x is ``2**k`` times a number
    between sqrt(1/2) and sqrt(2).
    """
    form = x.form
    above = x.bits() - form.bits_of(0.5**0.5)
    # The bits of 2**digits + k + bias; no conversion of int64, which AVX2 lacks.
    biased = (above + (form.bias << form.digits)).unsigned() >> form.digits
    k = (biased | form.bits_of(2.0**form.digits)).as_float() - (2.0**form.digits + form.bias)
    return above & (-1 << form.digits), k


def _split(x: Value) -> tuple[Value, Value]:
    """Return k and m with ``x = 2**k m`` and m between sqrt(1/2) and sqrt(2)."""
    form = x.form
    is_tiny = x.unsigned() < form.bits_of(form.smallest_normal)
    shift = form.digits + 2
    x = x * where(is_tiny, x.const(2.0**shift), 1.0)
    scaled, k = _scaled_exponent(x)
    return where(is_tiny, k - shift, k), (x.bits() - scaled).as_float()


class Logarithm(NamedTuple):
    """The logarithm of ``1 + f`` in parts: ``f - half + rest``."""

    f: Value
    half: Value
    rest: Value


def _logarithm(f: Value, x: Value, is_valid: Value, pole: float) -> Logarithm:
    """Return the parts of ``log(1 + f)``.

    Args:
        f: between sqrt(1/2) - 1 and sqrt(2) - 1.
        x: the operand; where it is not valid, the logarithm is x for NaN and inf, -inf at the pole,
            and NaN elsewhere, with flags.
        is_valid: where x is in the domain.
        pole: where the logarithm is -inf.
    """
    is_kept = _is_nan_or(x, np.inf)
    top = where(is_kept, x, where(x.equals(pole), x.const(-1.0), 0.0))
    bottom = where(is_kept, x.const(1.0), 0.0)
    s = where(is_valid, f, top) / where(is_valid, f + 2.0, bottom)
    z = s * s
    half = 0.5 * f * f
    return Logarithm(f, half, s * fma(z, polynomial(z, _LOG[f.form]), half))


def _is_positive(x: Value) -> Value:
    """Return True for positive finite numbers."""
    return (x.unsigned() < x.form.bits_of(np.inf)) & _not(x.equals(0.0))


def _log_of(k: Value, parts: Logarithm) -> Value:
    high, low = LN2[k.form]
    f, half, rest = parts
    return fma(k, high, f - (half - fma(k, low, rest)))


def _log(x: Value) -> Value:
    k, m = _split(x)
    return _log_of(k, _logarithm(m - 1.0, x, _is_positive(x), 0.0))


def _log_with_base(x: Value, of_e: tuple[float, float], of_2: tuple[float, float]) -> Value:
    k, m = _split(x)
    f, half, rest = _logarithm(m - 1.0, x, _is_positive(x), 0.0)
    high = f - half
    low = f - high - half + rest
    product = high * of_e[0]
    left = fma(high, of_e[0], -product) + fma(low, of_e[0], high * of_e[1])
    whole = k * of_2[0]
    if of_2[1]:
        left = left + fma(k, of_2[1], fma(k, of_2[0], -whole))
    y = whole + product
    return y + (product - (y - whole) + left)


def _log2(x: Value) -> Value:
    of_e = LOG2_E if x.form is DOUBLE else LOG2_E_SINGLE
    return _log_with_base(x, of_e, (1.0, 0.0))


def _log10(x: Value) -> Value:
    return _log_with_base(x, LOG10_E[x.form], LOG10_2[x.form])


def _log1p_parts(x: Value) -> tuple[Value, Logarithm]:
    """Return k and the parts of the logarithm of ``1 + x``."""
    form = x.form
    is_valid = _is_small(x, 1.0) | (x.unsigned() < form.bits_of(np.inf))
    valid = where(is_valid, x, 0.0)
    scaled, k = _scaled_exponent(valid + 1.0)
    scale = (form.bits_of(4.0) - scaled).as_float()  # 4 / 2**k, a normal number
    f, f_low = _normalized(fma(scale, 0.25, -1.0), valid * 0.25 * scale)  # (1 + x) / 2**k - 1
    f, half, rest = _logarithm(f, x, is_valid, -1.0)
    return k, Logarithm(f, half, rest + f_low)


def _log1p(x: Value) -> Value:
    y = _log_of(*_log1p_parts(x))
    return where(_is_small(x, 0.5 ** (x.form.digits + 2)), x, y)


def _arcsinh(x: Value) -> Value:
    a = abs(x)
    large = 2.0 ** (x.form.digits + 2)
    is_large = a.form.bits_of(large) < a.magnitude()
    c = where(is_large, a.const(1.0), a)
    square = c * c
    u = a + where(is_large, a.const(0.0), square / ((square + 1.0).sqrt() + 1.0))
    k, parts = _log1p_parts(u)
    y = _log_of(where(is_large, k + 1.0, k), parts)
    return where(_is_small(x, 0.5 ** (x.form.digits // 2 + 3)), x, y.copysign(x))


def _arccosh(x: Value) -> Value:
    t = x - 1.0
    large = 2.0 ** (x.form.digits + 2)
    is_large = x.form.bits_of(large) < t.magnitude()
    c = where(is_large, t.const(1.0), t)
    root = where(t.bits() < 0, t, fma(c, c, c + c)).sqrt()  # invalid if x < 1
    u = where(is_large, x, t + root)
    k, parts = _log1p_parts(u)
    return _log_of(where(is_large, k + 1.0, k), parts)


def _arctanh(x: Value) -> Value:
    a = abs(x)
    k, parts = _log1p_parts(a / fma(a, -0.5, 0.5))
    y = 0.5 * _log_of(k, parts)
    c = _at_most(a, 0.5)
    z = c * c
    near = fma(c * z, 0.5 * polynomial(z, _LOG[x.form]), c)
    return where(_is_small(x, 0.17), near, y).copysign(x)


def _log_of_sum(x: Value, y: Value, *, is_binary: bool) -> Value:
    is_same_inf = x.equals(y) & abs(x).equals(np.inf)
    d = x - where(is_same_inf, y.const(1.0), y)
    larger = where(d.bits() < 0, y, x)
    u = (_exp2 if is_binary else _exp)(-abs(d))
    scaled, k = _scaled_exponent(u + 1.0)
    scale = (x.form.bits_of(1.0) - scaled).as_float()
    f = fma(u, scale, scale - 1.0)
    s = f / (f + 2.0)
    z = s * s
    half = 0.5 * f * f
    parts = Logarithm(f, half, s * fma(z, polynomial(z, _LOG[x.form]), half))
    if is_binary:
        return larger + fma(f - (half - parts.rest), LOG2_E[0], k)
    return larger + _log_of(k, parts)


def _logaddexp(x: Value, y: Value) -> Value:
    return _log_of_sum(x, y, is_binary=False)


def _logaddexp2(x: Value, y: Value) -> Value:
    return _log_of_sum(x, y, is_binary=True)


# -- trigonometric functions --

TWO_OVER_PI: Final = 0.6366197723675814
LARGEST_ANGLE: Final = 2.0**45
"""Sine, cosine and tangent of larger angles are NaN, with the flag "invalid": NumPy is to compute
them.
"""
OF_ANGLES: Final = ("sin", "cos", "tan")
"""Kernels of which a NaN with the flag "invalid" may be a number in NumPy."""
HALF_PI: Final = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
HALF_PI_SINGLE: Final = (1.5707963705062866, -4.371138828673793e-08)

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
    bits = x.magnitude()
    limit, infinite = (x.form.bits_of(number) for number in (LARGEST_ANGLE, np.inf))
    is_huge = (bits - limit).unsigned() < infinite - limit
    x = where(is_huge, x.const(np.inf), x)
    t = fma(x, TWO_OVER_PI, x.form.magic)
    n = t - x.form.magic
    first = fma(n, -HALF_PI[0], x)  # exact
    product = n * HALF_PI[1]
    r = first - product
    low = first - r - product - fma(n, HALF_PI[1], -product)
    return r, fma(n, -HALF_PI[2], low), t.bits()


def _sine_and_cosine(x: Value, form: Format) -> tuple[Pair, Pair, Value]:
    """Return the sine and cosine of the reduced angle, and its quarter turns q.

    Args:
        x: the angle in float64.
        form: the format for which the results are accurate.
    """
    r, low, q = _reduced_angle(x)
    z = r * r
    if form is SINGLE:
        sine = r * (z * polynomial(z, _SIN_SINGLE))
        cosine = fma(z * z, polynomial(z, _COS_SINGLE), z * -0.5)
        return Pair(r, sine), Pair(x.const(1.0), cosine), q
    half = 0.5 * z
    near_one = 1.0 - half
    sine = fma(low, near_one, r * (z * polynomial(z, _SIN)))
    fourth = fma(z * z, polynomial(z, _COS), -(r * low))
    return Pair(r, sine), Pair(near_one, (1.0 - near_one - half) + fourth), q


def _sine_or_cosine(x: Value, quarters: int) -> Value:
    """Return ``sin(x + quarters * pi/2)``."""
    form = x.form
    sine, cosine, q = _sine_and_cosine(x.converted(DOUBLE), form)
    q = q + quarters if quarters else q
    y = where((q & 1).equals(0), sine.total(), cosine.total())
    y = (y.bits() ^ ((q & 2) << 62)).as_float()
    return y.converted(form)


def _sin(x: Value) -> Value:
    return where(x.equals(0.0), x, _sine_or_cosine(x, 0))


def _cos(x: Value) -> Value:
    return _sine_or_cosine(x, 1)


def _tan(x: Value) -> Value:
    form = x.form
    sine, cosine, q = _sine_and_cosine(x.converted(DOUBLE), form)
    is_even = (q & 1).equals(0)
    high, low = sine.total(), cosine.total()
    top, bottom = where(is_even, high, -low), where(is_even, low, high)
    if form is SINGLE:
        y = (top / bottom).converted(form)
    else:
        sine_low = sine.low - (high - sine.high)
        cosine_low = cosine.low - (low - cosine.high)
        top_low = where(is_even, sine_low, -cosine_low)
        bottom_low = where(is_even, cosine_low, sine_low)
        inverse = 1.0 / bottom
        y = top * inverse
        left = fma(-y, bottom_low, fma(-y, bottom, top) + top_low)
        y = fma(left, inverse, y)
    return where(x.equals(0.0), x, y)


_ARCSIN: Final = {  # (arcsin(s) / s - 1) / s**2 in powers of s**2, abs(s) <= 1 / 2
    DOUBLE: (
        0.1666666666666676, 0.07499999999970809, 0.04464285717464731, 0.030381942704643537,
        0.022372215106480846, 0.017351609443102108, 0.013980855735575682,
        0.011398593339523222, 0.010782194356640174, 0.0036985472189200977,
        0.021727755691936416, -0.021029357505677047, 0.03264848324266083,
    ),
    SINGLE: (
        0.16666659712791443, 0.07500521838665009, 0.04451338201761246, 0.031838830560445786,
        0.014317117631435394, 0.03769104927778244,
    ),
}  # fmt: skip
_ARCTAN: Final = {  # (arctan(t) / t - 1) / t**2 in powers of t**2, abs(t) <= 1
    DOUBLE: (
        -0.33333333333333287, 0.19999999999990617, -0.14285714285044962, 0.11111111086669956,
        -0.09090908550984114, 0.07692299754267576, -0.06666584069870989,
        0.05881718259893979, -0.05259443520371079, 0.04744960972855185,
        -0.042864888200566775, 0.038212235397680726, -0.03278924234321523,
        0.02615696201628987, -0.01861997452570644, 0.011322536283524596,
        -0.005615525217576029, 0.002153065765729302, -0.0005933742150707257,
        0.00010396852938934545, -8.663233759154753e-06,
    ),
    SINGLE: (
        -0.333333283662796, 0.1999971568584442, -0.14280343055725098, 0.11061233282089233,
        -0.08821463584899902, 0.06763653457164764, -0.044983331114053726,
        0.022777678444981575, -0.007425388321280479, 0.0011345258681103587,
    ),
}  # fmt: skip


def _half_pi(form: Format) -> tuple[float, float]:
    return HALF_PI[:2] if form is DOUBLE else HALF_PI_SINGLE


def _arcsine(x: Value) -> tuple[Value, Value, Value]:
    """Return where abs(x) is above 1/2, s, and the rest: ``s + rest`` is the arcsine of abs(x), or of
    ``sqrt((1 - abs(x)) / 2)``.
    """
    a = abs(x)
    is_large = a.form.bits_of(0.5) < a.magnitude()
    c = _at_most(a, 1.0)
    z = where(is_large, fma(c, -0.5, 0.5), c * c)
    s = where(is_large, fma(a, -0.5, 0.5).sqrt(), a)
    return is_large, s, s * (z * polynomial(z, _ARCSIN[x.form]))


def _sum_with(base: Value, base_low: Value, x: Value, rest: Value) -> Value:
    """Return the sum of four numbers of which the base is zero or larger than x."""
    y = base + x
    return y + (base - y + x + (base_low + rest))


def _arcsin(x: Value) -> Value:
    high, low = _half_pi(x.form)
    is_large, s, rest = _arcsine(x)
    far = _sum_with(x.const(high), x.const(low), s * -2.0, rest * -2.0)
    return where(is_large, far, s + rest).copysign(x)


def _arccos(x: Value) -> Value:
    high, low = _half_pi(x.form)
    is_large, s, rest = _arcsine(x)
    turned = x.bits() ^ where(is_large, x.bits().const(0), x.form.bits_of(-0.0))
    sign = turned.as_float()
    is_left = x.bits() < 0
    base = where(is_large, where(is_left, x.const(2 * high), 0.0), high)
    base_low = where(is_large, where(is_left, x.const(2 * low), 0.0), low)
    factor = where(is_large, x.const(2.0), 1.0).copysign(sign)
    return _sum_with(base, base_low, s * factor, rest * factor)


def _arctan_rest(t: Value) -> Value:
    """Return ``arctan(t) - t``, t between -1 and 1."""
    z = t * t
    coefficients = _ARCTAN[t.form]
    total = polynomial(z, coefficients[6:])
    for coefficient in reversed(coefficients[:6]):
        total = fma(z, total, coefficient)
    return t * (z * total)


def _arctan(x: Value) -> Value:
    high, low = _half_pi(x.form)
    a = abs(x)
    bits, one = a.bits(), x.form.bits_of(1.0)
    is_large = bits.const(one) < bits
    large = where(is_large, bits, one)
    limit = x.form.bits_of(2.0 ** (x.form.digits + 8))
    bottom = where(large < limit, large, limit).as_float()
    t = -1.0 / bottom
    rest = fma(t, bottom, 1.0) * t
    t = where(is_large, t, a)
    rest = where(is_large, rest, 0.0) + _arctan_rest(t)
    base, base_low = where(is_large, a.const(high), 0.0), where(is_large, a.const(low), 0.0)
    return where(x.is_nan(), x, _sum_with(base, base_low, t, rest).copysign(x))


def _arctan2(y: Value, x: Value) -> Value:
    form = x.form
    high, low = _half_pi(form)
    a, b = y.magnitude(), x.magnitude()
    is_steep, is_left = b < a, x.bits() < 0
    most, least = where(is_steep, a, b), where(is_steep, b, a)
    largest = form.bits_of(float(np.finfo(form.dtype).max))
    infinite = form.bits_of(np.inf)
    top = where(least < largest, least, largest)
    bottom = where(most.equals(0), most.const(1), most)
    are_infinite = least.equals(infinite) & most.equals(infinite)
    t = top.as_float() / where(are_infinite, bottom.const(largest), bottom).as_float()
    rest = _arctan_rest(t)
    sign = (where(is_steep, x.bits().const(form.bits_of(-0.0)), 0) ^ x.bits()).as_float()
    factor = x.const(1.0).copysign(sign)
    base = where(is_steep, x.const(high), where(is_left, x.const(2 * high), 0.0))
    base_low = where(is_steep, x.const(low), where(is_left, x.const(2 * low), 0.0))
    return _sum_with(base, base_low, t * factor, rest * factor).copysign(y)


# -- roots and powers --

_CBRT: Final = (  # cbrt(m), m between sqrt(1/2) and sqrt(2): 2**-20
    0.42168965668512, 1.0560156299238839, -0.8360707795611012, 0.5109667762001833,
    -0.1795572647383053, 0.026954994605503466,
)  # fmt: skip


def _cbrt(x: Value) -> Value:
    form = x.form
    k, m = _split(abs(x))
    k, m = k.converted(DOUBLE), m.converted(DOUBLE)
    shifted = fma(k, 1 / 3, DOUBLE.magic + DOUBLE.bias)
    rest = fma(shifted - (DOUBLE.magic + DOUBLE.bias), -3.0, k)
    is_up, is_down = rest.equals(1.0), rest.equals(-1.0)
    v = m * where(is_up, m.const(2.0), where(is_down, m.const(0.5), 1.0))
    root = where(is_up, m.const(2 ** (1 / 3)), where(is_down, m.const(0.5 ** (1 / 3)), 1.0))
    y = polynomial(m, _CBRT) * root
    square = y * y
    square_low = fma(y, y, -square)
    left = fma(square_low, y, fma(square, y, -v))
    y = fma(-y, left / fma(square, y + y, v), y)  # Halley's step
    y = (y * (shifted.bits() << DOUBLE.digits).as_float()).converted(form)
    is_kept = x.equals(0.0) | x.is_nan() | abs(x).equals(np.inf)
    return where(is_kept, x, y.copysign(x))


def _hypot(x: Value, y: Value) -> Value:
    form = x.form
    is_infinite = abs(x).equals(np.inf) | abs(y).equals(np.inf)
    if form is SINGLE:
        wide, other = x.converted(DOUBLE), y.converted(DOUBLE)
        length = fma(wide, wide, other * other).sqrt().converted(form)
        return where(is_infinite, x.const(np.inf), length)
    a, b = x.magnitude(), y.magnitude()
    is_first = a < b
    most, least = where(is_first, b, a), where(is_first, a, b)
    far = 2.0**500
    is_large, is_small = most.const(form.bits_of(far)) < most, most < form.bits_of(1 / far)
    scale = where(is_large, x.const(far**-1.5), where(is_small, x.const(far**1.5), 1.0))
    back = where(is_large, x.const(far**1.5), where(is_small, x.const(far**-1.5), 1.0))
    c, d = most.as_float() * scale, least.as_float() * scale
    length = fma(c, c, d * d).sqrt() * back
    return where(is_infinite, x.const(np.inf), length)


_LOG_TAIL: Final = (  # (atanh(s) / s - 1 - s**2 / 3) / s**4 in powers of s**2: 2**-73
    0.1999999999999999, 0.14285714285721934, 0.11111111108889264, 0.0909090942287812,
    0.07692279144262221, 0.06668135236718713, 0.05837824952656256, 0.05991453888377449,
)  # fmt: skip
_THIRD: Final = (0.3333333333333333, 1.850371707708594e-17)
LN2_EXACT: Final = (0.6931471803691238, 1.9082149292705877e-10)
"""The logarithm of 2; products of the first part with exponents are exact."""


def _double_logarithm(k: Value, m: Value) -> Pair:
    """Return ``log(2**k m)`` with an error of 2**-65."""
    f = m - 1.0
    bottom = m + 1.0
    inverse = 1.0 / bottom
    s = f * inverse
    s_low = fma(-s, m - (bottom - 1.0), fma(-s, bottom, f)) * inverse
    z = s * s
    z_low = fma(s, s, -z) + (s + s) * s_low
    tail = z * polynomial(z, _LOG_TAIL)
    g = _THIRD[0] + tail
    g_low = _THIRD[0] - g + tail + _THIRD[1]
    p = z * g
    p_low = fma(z, g_low, fma(z_low, g, fma(z, g, -p)))
    u = s * p
    u_low = fma(s, p_low, fma(s_low, p, fma(s, p, -u)))
    one = s + u
    one_low = s - one + u + (s_low + u_low)
    whole = k * LN2_EXACT[0]
    twice = one + one
    high = whole + twice
    low = fma(one_low, 2.0, fma(k, LN2_EXACT[1], whole - high + twice))
    return _normalized(high, low)


def _power_of_single(k: Value, m: Value, times: Value, is_used: Value) -> tuple[Value, Value]:
    """Return ``log(2**k m)`` and ``(2**k m)**times`` in float64, with an error of 2**-28."""
    f = m - 1.0
    s = f / (m + 1.0)
    z = s * s
    log = fma(k, LN2[DOUBLE][0], fma(s * z, polynomial(z, _LOG[SINGLE]), s + s))
    c = where(is_used, _clamped(log * times, -150.0, 150.0), 0.0)
    r, _, shifted = _reduced(c, DOUBLE.bias)
    scale = (shifted << DOUBLE.digits).as_float()
    return log, fma(fma(polynomial(r, _EXPM1[SINGLE]), r * r, r), scale, scale)


def _power_of_double(k: Value, m: Value, times: Value, is_used: Value) -> tuple[Value, Value]:
    """Return ``log(2**k m)`` and ``(2**k m)**times``."""
    log = _double_logarithm(k, m)
    product = log.high * times
    product_low = fma(log.low, times, fma(log.high, times, -product))
    c = _clamped(product, -746.0, 709.9)
    product_low = where(c.equals(product), product_low, 0.0)
    return log.high, _exp_of_pair(where(is_used, c, 0.0), product_low)


def _power(x: Value, y: Value) -> Value:
    form = x.form
    a, b = abs(x), abs(y)
    half = 0.5 * y
    is_whole, is_even = y.equals(_rint(y)), half.equals(_rint(half))
    is_zero, is_large = x.equals(0.0), a.equals(np.inf)
    is_negative, is_nan = x.bits() < 0, x.is_nan() | y.is_nan()
    is_regular = _not(is_zero | is_large | b.equals(np.inf) | is_nan)
    is_domain_error = is_regular & is_negative & _not(is_whole)
    is_pole = is_zero & (y.bits() < 0) & _not(y.equals(0.0) | y.is_nan())
    is_odd = is_negative & is_whole & _not(is_even)

    k, m = _split(a)
    k, m, wide = k.converted(DOUBLE), m.converted(DOUBLE), y.converted(DOUBLE)
    times = _clamped(wide, -(2.0**64), 2.0**64)
    function = _power_of_double if form is DOUBLE else _power_of_single
    log, size = function(k, m, times, is_regular & _not(is_domain_error))

    shrinks = (log.bits() ^ wide.bits()) < 0
    extreme = where(log.equals(0.0), x.const(1.0), where(shrinks, x.const(0.0), np.inf))
    size = where(is_regular, size.converted(form), extreme)
    number = where(is_regular, x, 1.0)
    zero = number - number  # (a constant would raise no flags)
    bottom = where(is_domain_error | is_pole, zero, 1.0)
    size = size * (where(is_domain_error, zero, 1.0) / bottom)
    sign = where(is_odd, x.bits().const(form.bits_of(-0.0)), 0)
    size = (size.bits() ^ sign).as_float()
    size = where(x.is_nan(), x, where(y.is_nan(), y, size))
    return where(x.equals(1.0) | y.equals(0.0), x.const(1.0), size)


def _rint(x: Value) -> Value:
    made = x.builder.let("rint", x.atom.dtype, x.atom)
    return Value(x.builder, made, x.form)


# -- error functions --

_ERF: Final = {  # erf(x) / x - 1 in powers of x**2, abs(x) <= 1
    DOUBLE: (
        0.1283791670955126, -0.3761263890318375, 0.11283791670954857, -0.026866170645072896,
        0.005223977624780875, -0.0008548326978742632, 0.0001205533103691377,
        -1.4925593507190123e-05, 1.6460972821176792e-06, -1.63500252599782e-07,
        1.4657880051513297e-08, -1.1365666622830755e-09, 5.945262637989135e-11,
    ),
    SINGLE: (
        0.12837916612625122, -0.3761262595653534, 0.1128358542919159, -0.026853812858462334,
        0.005188327748328447, -0.0008010193705558777, 7.853860734030604e-05,
    ),
}  # fmt: skip
_ERFC: Final = {  # (1 + 2 a) exp(a**2) erfc(a) in powers of (a - c) / (a + c), after c
    DOUBLE: (
        3.0,
        (
            1.2530080582697296, -0.13562110612458106, -0.04756229435345232, 0.12964515870274526,
            -0.11927366341520816, 0.06830802734455779, -0.023770514921096487,
            0.0025293918058353474, 0.0018886903888612812, -0.0007798321705423764,
            -0.00010516000150063049, 0.0001250987305683712, 4.9503010436758615e-06,
            -2.009810527652197e-05, -7.334913542045786e-07, 3.4659843592090414e-06,
            3.5950717857809395e-07, -6.05653821274149e-07, -1.4285077497142915e-07,
            9.002273158962531e-08, 4.036880324301292e-08, -6.030853920418345e-09,
            -6.265287964084473e-09, -9.68780731076257e-10,
        ),
    ),
    SINGLE: (
        2.0,
        (
            1.2769783735275269, -0.09276381880044937, -0.16603052616119385,
            0.16405105590820312, -0.05421781167387962, -0.008030956611037254,
            0.008708939887583256, 0.0012529524974524975, -0.0014202691381797194,
            -0.00040086236549541354, 0.00016880282782949507, 7.916217145975679e-05,
        ),
    ),
}  # fmt: skip


def _tail_of_gaussian(a: Value) -> Value:
    """Return ``erfc(a)``, a not negative."""
    form = a.form
    center, coefficients = _ERFC[form]
    top, bottom, falling = a - center, a + center, fma(a, 2.0, 1.0)
    inverse = 1.0 / (bottom * falling)
    of_bottom = falling * inverse
    t = top * of_bottom
    low = fma(-t, a - (bottom - center), fma(-t, bottom, top) + (a - (top + center)))
    t = fma(low, of_bottom, t)
    square = a * a
    square_low = fma(a, a, -square)
    of_falling = bottom * inverse
    low = fma(-of_falling, falling, 1.0) + of_falling * (falling - 1.0 - (a + a))
    factor = polynomial(t, coefficients) * fma(of_falling, low, of_falling)
    return _exp_of_pair(-square, -square_low) * factor


def _erf(x: Value) -> Value:
    a = _at_most(abs(x), 6.0 if x.form is DOUBLE else 4.0)
    z = a * a
    near = fma(a, polynomial(z, _ERF[x.form]), a)
    y = where(_is_small(x, 1.0), near, 1.0 - _tail_of_gaussian(a)).copysign(x)
    return where(x.is_nan(), x, y)


def _erfc(x: Value) -> Value:
    a = _at_most(abs(x), 27.3 if x.form is DOUBLE else 10.1)
    tail = _tail_of_gaussian(a)
    return where(x.is_nan(), x, where(x.bits() < 0, 2.0 - tail, tail))


# -- rests of divisions --


def _fmod(x: Value, y: Value) -> Value:
    made = x.builder.let("rest", x.atom.dtype, x.atom, y.atom)
    return Value(x.builder, made, x.form)


def _has_other_sign(rest: Value, y: Value) -> Value:
    return ((rest.bits() ^ y.bits()) < 0) & _not(rest.equals(0.0))


def _remainder(x: Value, y: Value) -> Value:
    rest = _fmod(x, y)
    moved = rest + where(_has_other_sign(rest, y), y, 0.0)
    return where(rest.equals(0.0), rest.copysign(y), moved)


def _floor_divide(x: Value, y: Value) -> Value:
    is_pole = y.equals(0.0)
    divisor = where(is_pole, y.const(1.0), y)
    dividend = where(is_pole, x.const(0.0), x)
    rest = _fmod(dividend, divisor)
    quotient = (dividend - rest) / divisor
    quotient = quotient - where(_has_other_sign(rest, y), quotient.const(1.0), 0.0)
    made = x.builder.let("floor", x.atom.dtype, quotient.atom)
    whole = Value(x.builder, made, x.form)
    is_above = (quotient - whole).magnitude() > x.form.bits_of(0.5)
    whole = whole + where(is_above & _not(quotient.is_nan()), whole.const(1.0), 0.0)
    zero = (x.bits() ^ y.bits()).as_float()
    whole = where(quotient.equals(0.0), quotient.const(0.0).copysign(zero), whole)
    return where(is_pole, x / y, whole)


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


ULP: Final[Mapping[str, tuple[float, float]]] = {
    "exp": (0.95, 0.95), "exp2": (0.95, 0.95), "expm1": (1.3, 1.3),
    "log": (0.85, 0.9), "log2": (0.85, 0.9), "log10": (0.75, 0.8), "log1p": (0.95, 0.95),
    "sin": (0.85, 0.55), "cos": (0.85, 0.55), "tan": (1.1, 0.55),
    "arcsin": (1.15, 1.15), "arccos": (1.15, 1.15), "arctan": (1.6, 1.4), "arctan2": (1.6, 1.6),
    "sinh": (1.4, 1.4), "cosh": (1.5, 1.8), "tanh": (1.1, 1.1), "sigmoid": (2.4, 2.4),
    "arcsinh": (1.9, 1.9), "arccosh": (2.2, 2.2), "arctanh": (2.0, 2.0),
    "power": (0.75, 0.6), "hypot": (1.0, 0.55), "cbrt": (0.55, 0.55),
    "logaddexp": (2.0, 2.4), "logaddexp2": (2.0, 2.4),
    "erf": (1.2, 1.4), "erfc": (4.2, 4.2),
    "fmod": (0.0, 0.0), "remainder": (0.55, 0.55), "floor_divide": (0.0, 0.0),
}  # fmt: skip
"""Largest errors in float64 and float32, in units in the last place of the result; those of
logaddexp and logaddexp2 in units of the largest operand, if that is larger.
"""

KERNELS: Final[Mapping[str, Kernel]] = {
    **{
        name: _unary(function)
        for name, function in {
            "exp": _exp, "exp2": _exp2, "expm1": _expm1,
            "log": _log, "log2": _log2, "log10": _log10, "log1p": _log1p,
            "sin": _sin, "cos": _cos, "tan": _tan,
            "arcsin": _arcsin, "arccos": _arccos, "arctan": _arctan,
            "sinh": _sinh, "cosh": _cosh, "tanh": _tanh, "sigmoid": _sigmoid,
            "arcsinh": _arcsinh, "arccosh": _arccosh, "arctanh": _arctanh,
            "cbrt": _cbrt, "erf": _erf, "erfc": _erfc,
        }.items()
    },
    **{
        name: _binary(function)
        for name, function in {
            "arctan2": _arctan2, "hypot": _hypot, "power": _power,
            "logaddexp": _logaddexp, "logaddexp2": _logaddexp2,
            "fmod": _fmod, "remainder": _remainder, "floor_divide": _floor_divide,
        }.items()
    },
}  # fmt: skip
"""By name of the primitive, the function that appends its statements to a builder."""
