"""Complex numbers in loop IR: each becomes two real scalars.

Rows write statements of complex scalars as of any other dtype. `split_complex` replaces them: a
scalar becomes its real and imaginary part, memory holds the parts one after the other, and each
operation becomes the formula that NumPy uses for it. Where NumPy's function is that of the C
library, and the formula here would lose digits or range, the code fails and NumPy's form runs.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias, final

import numpy as np

from functrace.native.loop_ir import (
    Affine,
    Assign,
    Atom,
    Builder,
    Const,
    Declare,
    DType,
    Fail,
    For,
    Function,
    Get,
    If,
    Let,
    Load,
    Scalar,
    Statement,
    Store,
    While,
    at,
    walk,
)

BOOL = np.dtype(bool)


@final
class Pair(NamedTuple):
    """A complex number: its real and imaginary part."""

    real: Atom
    imag: Atom


def part_dtype(dtype: DType) -> DType:
    """Return the dtype of the parts of a complex number."""
    return np.dtype(f"f{dtype.itemsize // 2}")


@final
class _Real:
    """A real scalar with operators that append statements to a builder.

    Args:
        builder: gets the statements.
        atom: the scalar.
    """

    __slots__ = ("atom", "builder")

    def __init__(self, builder: Builder, atom: Atom) -> None:
        self.builder, self.atom = builder, atom

    def _of(self, op: str, *others: _Real | float) -> _Real:
        dtype = self.atom.dtype
        given = [x.atom if isinstance(x, _Real) else Const(x, dtype) for x in others]
        return _Real(self.builder, self.builder.let(op, dtype, self.atom, *given))

    def test(self, op: str, other: _Real | float) -> Atom:
        """Compare."""
        given = other.atom if isinstance(other, _Real) else Const(other, self.atom.dtype)
        return self.builder.let(op, BOOL, self.atom, given)

    def call(self, op: str, *others: _Real | float) -> _Real:
        """Apply an op of the loop IR."""
        return self._of(op, *others)

    def __add__(self, other: _Real | float) -> _Real:
        return self._of("add", other)

    def __sub__(self, other: _Real | float) -> _Real:
        return self._of("sub", other)

    def __mul__(self, other: _Real | float) -> _Real:
        return self._of("mul", other)

    def __truediv__(self, other: _Real | float) -> _Real:
        return self._of("div", other)

    def __neg__(self) -> _Real:
        return self._of("neg")

    def __abs__(self) -> _Real:
        return self._of("fabs")


_Complex: TypeAlias = "tuple[_Real, _Real]"
_Formula: TypeAlias = Callable[..., _Complex]


def _select(condition: Atom, x: _Real, y: _Real | float) -> _Real:
    b, dtype = x.builder, x.atom.dtype
    other = y.atom if isinstance(y, _Real) else Const(y, dtype)
    return _Real(b, b.let("select", dtype, condition, x.atom, other))


def _both(x: _Real, a: Atom, b: Atom) -> Atom:
    return x.builder.let("and", BOOL, a, b)


def _fail_if(x: _Real, condition: Atom) -> None:
    x.builder.fail(condition, 1)


def _fail_unless_below(x: _Real, limit: float) -> None:
    """Fail for large numbers, infinities and nan."""
    b = x.builder
    _fail_if(x, b.let("not", BOOL, abs(x).test("less", limit)))


def _add(x: _Complex, y: _Complex) -> _Complex:
    return x[0] + y[0], x[1] + y[1]


def _add_any_order(x: _Complex, y: _Complex) -> _Complex:
    return x[0].call("add_any_order", y[0]), x[1].call("add_any_order", y[1])


def _sub(x: _Complex, y: _Complex) -> _Complex:
    return x[0] - y[0], x[1] - y[1]


def _mul(x: _Complex, y: _Complex) -> _Complex:
    (a, b), (c, d) = x, y
    return a * c - b * d, a * d + b * c


def _div(x: _Complex, y: _Complex) -> _Complex:
    """Divide by Smith's method."""
    (a, b), (c, d) = x, y
    first = abs(c).test("greater_equal", abs(d))
    large, small = _select(first, c, d), _select(first, d, c)
    is_zero = _both(a, c.test("equal", 0.0), d.test("equal", 0.0))
    ratio = small / large
    scale = _one(large) / (large + small * ratio)
    real = _select(first, a + b * ratio, a * ratio + b) * scale
    imag = _select(first, b - a * ratio, b * ratio - a) * scale
    return _select(is_zero, a / abs(large), real), _select(is_zero, b / abs(large), imag)


def _one(like: _Real) -> _Real:
    return _Real(like.builder, Const(1.0, like.atom.dtype))


def _zero(like: _Real) -> _Real:
    return _Real(like.builder, Const(0.0, like.atom.dtype))


def _reciprocal(x: _Complex) -> _Complex:
    a, b = x
    first = abs(b).test("less_equal", abs(a))
    large, small = _select(first, a, b), _select(first, b, a)
    ratio = small / large
    below = large + small * ratio
    whole, part = _one(a) / below, ratio / below
    return _select(first, whole, part), _select(first, -part, -whole)


def _neg(x: _Complex) -> _Complex:
    return -x[0], -x[1]


def _conj(x: _Complex) -> _Complex:
    return x[0], -x[1]


def _square(x: _Complex) -> _Complex:
    a, b = x
    return a * a - b * b, a * b + b * a


def _exp(x: _Complex) -> _Complex:
    a, b = x
    _fail_unless_below(a, 80.0 if a.atom.dtype.itemsize == 4 else 700.0)
    _fail_unless_below(b, _LARGE)
    size, is_real = a.call("exp"), b.test("equal", 0.0)
    return size * b.call("cos"), _select(is_real, b, size * b.call("sin"))


_LARGE: Final = 1e9
"""Angles from which NumPy's form runs."""


def _hyperbolic(a: _Real) -> tuple[_Real, _Real]:
    _fail_unless_below(a, 80.0 if a.atom.dtype.itemsize == 4 else 700.0)
    return a.call("sinh"), a.call("cosh")


def _circular(b: _Real) -> tuple[_Real, _Real]:
    _fail_unless_below(b, _LARGE)
    return b.call("sin"), b.call("cos")


def _sin(x: _Complex) -> _Complex:
    (s, c), (sh, ch) = _circular(x[0]), _hyperbolic(x[1])
    return s * ch, c * sh


def _cos(x: _Complex) -> _Complex:
    (s, c), (sh, ch) = _circular(x[0]), _hyperbolic(x[1])
    return c * ch, -(s * sh)


def _sinh(x: _Complex) -> _Complex:
    (sh, ch), (s, c) = _hyperbolic(x[0]), _circular(x[1])
    return sh * c, ch * s


def _cosh(x: _Complex) -> _Complex:
    (sh, ch), (s, c) = _hyperbolic(x[0]), _circular(x[1])
    return ch * c, sh * s


def _tanh(x: _Complex) -> _Complex:
    """Return ``(sinh cosh + i sin cos) / (sinh^2 + cos^2)``, which does not cancel."""
    a, b = x
    _fail_unless_below(a, 20.0)
    (sh, ch), (s, c) = _hyperbolic(a), _circular(b)
    below = sh * sh + c * c
    return sh * ch / below, s * c / below


def _tan(x: _Complex) -> _Complex:
    a, b = x
    real, imag = _tanh((-b, a))
    return imag, -real


def _log_of_size(a: _Real, b: _Real) -> _Real:
    """Return the logarithm of ``hypot(a, b)``, with all digits where that is near 1."""
    first = abs(a).test("greater_equal", abs(b))
    large, small = _select(first, abs(a), abs(b)), _select(first, abs(b), abs(a))
    size = large.call("hypot", small)
    near = _both(a, size.test("greater", 0.5), size.test("less", 2.0))
    p, q = _select(near, large, 1.0), _select(near, small, 0.0)
    pp, qq = p * p, q * q
    below = p.call("fma", p, -pp) + q.call("fma", q, -qq)
    start = pp - 1.0
    lost = pp - (start + 1.0)
    rest = start + qq + (below + lost)
    size = _select(near, _one(a), size)
    return _select(near, rest.call("log1p") * 0.5, size.call("log"))


def _log(x: _Complex) -> _Complex:
    a, b = x
    return _log_of_size(a, b), b.call("arctan2", a)


def _sqrt(x: _Complex) -> _Complex:
    a, b = x
    size = a.call("hypot", b)
    is_single = a.atom.dtype.itemsize == 4
    _fail_unless_below(size, 1e37 if is_single else 1e307)
    is_zero = size.test("equal", 0.0)
    is_tiny = size.test("less", 1e-30 if is_single else 1e-290)
    _fail_if(a, _both(a, is_tiny, a.builder.let("not", BOOL, is_zero)))
    root = ((size + abs(a)) * 0.5).call("sqrt")
    other = b / (_select(is_zero, _one(a), root) * 2.0)
    is_right = a.test("greater_equal", 0.0)
    real = _select(is_zero, _zero(a), _select(is_right, root, abs(other)))
    return real, _select(is_zero, b, _select(is_right, other, root.call("copysign", b)))


def _power(x: _Complex, y: _Complex) -> _Complex:
    n, is_real = y[0].atom, y[1].atom
    if type(n) is Const and type(is_real) is Const and is_real.value == 0:
        if n.value == 0:
            return _one(x[0]), _zero(x[0])
        if n.value in (1.0, 2.0, 3.0):
            return _zero_of_zero(x, (x, _mul(x, x), _mul(x, _mul(x, x)))[int(n.value) - 1])
        if float(n.value).is_integer() and abs(n.value) < 100:
            return _integer_power(x, int(n.value))
    # NumPy multiplies for powers that are integers.
    whole = _both(y[0], y[0].call("rint").test("equal", y[0]), y[1].test("equal", 0.0))
    _fail_if(x[0], _both(y[0], whole, abs(y[0]).test("less", 100.0)))
    _fail_if(x[0], _both(x[0], x[0].test("equal", 0.0), x[1].test("equal", 0.0)))
    return _exp(_mul(y, _log(x)))


def _integer_power(x: _Complex, n: int) -> _Complex:
    base, left, result = x, abs(n), (_one(x[0]), _zero(x[0]))
    while left:
        if left & 1:
            result = _mul(result, x)
        left >>= 1
        if left:
            x = _mul(x, x)
    if n < 0:
        return _div((_one(x[0]), _zero(x[0])), result)
    return _zero_of_zero(base, result)


def _zero_of_zero(x: _Complex, power: _Complex) -> _Complex:
    """Return a power, which is 0.0 for zeros of all signs."""
    is_zero = _both(x[0], x[0].test("equal", 0.0), x[1].test("equal", 0.0))
    real, imag = (_select(is_zero, _zero(part), part) for part in power)
    return real, imag


def _sgn(x: _Complex) -> _Complex:
    """Return ``x / abs(x)``, and zero for zero."""
    a, b = x
    size = a.call("hypot", b)
    is_zero = size.test("equal", 0.0)
    below = _select(is_zero, _one(a), size)
    _fail_unless_below(size, 1e37 if a.atom.dtype.itemsize == 4 else 1e300)
    _fail_if(
        a,
        _both(
            a,
            a.builder.let("not", BOOL, is_zero),
            size.test("less", 1e-37 if a.atom.dtype.itemsize == 4 else 1e-300),
        ),
    )
    return _select(is_zero, _zero(a), a / below), _select(is_zero, _zero(a), b / below)


FORMULAS: Final[Mapping[str, _Formula]] = {
    "add": _add, "add_any_order": _add_any_order, "sub": _sub, "mul": _mul, "div": _div,
    "neg": _neg, "conj": _conj, "square": _square, "reciprocal": _reciprocal, "exp": _exp,
    "log": _log, "sqrt": _sqrt, "sin": _sin, "cos": _cos, "tan": _tan, "sinh": _sinh,
    "cosh": _cosh, "tanh": _tanh, "power": _power, "sign": _sgn,
}  # fmt: skip
"""By op, the formula of a complex result from complex operands."""


def _real_result(b: Builder, op: str, dtype: DType, x: Sequence[Pair]) -> Atom:
    """Return the real result of complex operands."""
    first = x[0]
    kind = first.real.dtype
    match op:
        case "real":
            return first.real
        case "imag":
            return first.imag
        case "absolute":
            return b.let("hypot", kind, first.real, first.imag)
        case "angle":
            return b.let("arctan2", kind, first.imag, first.real)
        case "equal" | "not_equal":
            parts = [b.let(op, BOOL, getattr(first, k), getattr(x[1], k)) for k in Pair._fields]
            return b.let("and" if op == "equal" else "or", BOOL, *parts)
        case "is_nan":
            return b.let("or", BOOL, *[b.let("is_nan", BOOL, part) for part in first])
        case "is_inf":
            infinite = [
                b.let("equal", BOOL, b.let("fabs", kind, part), Const(math.inf, kind))
                for part in first
            ]
            return b.let("or", BOOL, *infinite)
        case "is_finite":
            finite = [
                b.let("less", BOOL, b.let("fabs", kind, part), Const(math.inf, kind))
                for part in first
            ]
            return b.let("and", BOOL, *finite)
        case "convert" if dtype == BOOL:
            parts = [b.let("not_equal", BOOL, part, Const(0.0, kind)) for part in first]
            return b.let("or", BOOL, *parts)
        case _:
            raise ComplexOpError(op)


class ComplexOpError(Exception):
    """An op has no formula for complex numbers."""


@final
class _Splitter:
    """Splitter of complex scalars; see the module's docstring.

    Args:
        builder: of the function; gives new names.
    """

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._pairs: dict[str, Pair] = {}
        self._single: dict[str, Atom] = {}

    def atom(self, atom: Atom) -> Atom:
        """Return what a real scalar has become."""
        return self._single.get(atom.name, atom) if type(atom) is Scalar else atom

    def pair(self, atom: Atom, kind: DType) -> Pair:
        """Return the parts of a scalar, complex or real."""
        if atom.dtype.kind != "c":
            zero = Const(0.0, kind)
            one = self.atom(atom)
            if one.dtype != kind:
                one = self.builder.let("convert", kind, one)
            return Pair(one, zero)
        found: Pair
        if type(atom) is Const:
            number = complex(atom.value)
            found = Pair(*[Const(x, part_dtype(atom.dtype)) for x in (number.real, number.imag)])
        else:
            found = self._pairs[atom.name]
        if found.real.dtype == kind:
            return found
        return Pair(*[self.builder.let("convert", kind, part) for part in found])

    def block(self, statements: Sequence[Statement]) -> list[Statement]:
        """Return a block with its complex scalars split."""
        with self.builder.block() as body:
            for statement in statements:
                self._statement(statement)
        return body

    def _statement(self, statement: Statement) -> None:
        b = self.builder
        match statement:
            case Let():
                self._let(statement)
            case Load(name, dtype, buffer, index) if dtype.kind == "c":
                kind = part_dtype(dtype)
                parts = [Scalar(b.new_name(), kind) for _ in "ri"]
                for k, part in enumerate(parts):
                    b.body.append(Load(part.name, kind, buffer, _doubled(index, k)))
                self._pairs[name] = Pair(*parts)
            case Store(buffer, index, value) if buffer.dtype.kind == "c":
                for k, part in enumerate(self.pair(value, part_dtype(buffer.dtype))):
                    b.body.append(Store(buffer, _doubled(index, k), part))
            case Store(buffer, index, value):
                b.body.append(Store(buffer, index, self.atom(value)))
            case Declare(name, dtype, value) if dtype.kind == "c":
                kind = part_dtype(dtype)
                for letter, part in zip("ri", self.pair(value, kind), strict=True):
                    b.body.append(Declare(f"{name}_{letter}", kind, part))
            case Declare(name, dtype, value):
                b.body.append(Declare(name, dtype, self.atom(value)))
            case Get(name, dtype, variable) if dtype.kind == "c":
                kind = part_dtype(dtype)
                parts = [Scalar(b.new_name(), kind) for _ in "ri"]
                for letter, part in zip("ri", parts, strict=True):
                    b.body.append(Get(part.name, kind, f"{variable}_{letter}"))
                self._pairs[name] = Pair(*parts)
            case Assign(variable, value) if value.dtype.kind == "c":
                parts = self.pair(value, part_dtype(value.dtype))
                for letter, part in zip("ri", parts, strict=True):
                    b.body.append(Assign(f"{variable}_{letter}", part))
            case Assign(variable, value):
                b.body.append(Assign(variable, self.atom(value)))
            case For():
                body = self.block(statement.body)
                count = self.atom(statement.count)
                b.body.append(replace(statement, count=count, body=body))
            case While(condition, value, body):
                first = self.block(condition)
                b.body.append(While(first, self.atom(value), self.block(body)))
            case If(value, then, otherwise):
                b.body.append(If(self.atom(value), self.block(then), self.block(otherwise)))
            case Fail(value, code):
                b.body.append(Fail(self.atom(value), code))
            case _:
                b.body.append(statement)

    def _let(self, let: Let) -> None:
        b, operands = self.builder, let.operands
        if let.dtype.kind != "c" and all(x.dtype.kind != "c" for x in operands):
            b.body.append(Let(let.name, let.dtype, let.op, tuple(map(self.atom, operands))))
            return
        if let.dtype.kind != "c":
            kind = part_dtype(next(x.dtype for x in operands if x.dtype.kind == "c"))
            given = [self.pair(x, kind) for x in operands]
            self._single[let.name] = _real_result(b, let.op, let.dtype, given)
            return
        kind = part_dtype(let.dtype)
        self._pairs[let.name] = self._complex_result(let, kind)

    def _complex_result(self, let: Let, kind: DType) -> Pair:
        b, operands = self.builder, let.operands
        if let.op == "select":
            x, y = (self.pair(one, kind) for one in operands[1:])
            chosen = self.atom(operands[0])
            return Pair(*[b.let("select", kind, chosen, p, q) for p, q in zip(x, y, strict=True)])
        if let.op == "complex":
            return Pair(*[self.pair(x, kind).real for x in operands])
        given = [self.pair(x, kind) for x in operands]
        if let.op == "convert":
            return given[0]
        if let.op not in FORMULAS:
            raise ComplexOpError(let.op)
        numbers = [(_Real(b, pair.real), _Real(b, pair.imag)) for pair in given]
        real, imag = FORMULAS[let.op](*numbers)
        return Pair(real.atom, imag.atom)


def _doubled(index: Affine, part: int) -> Affine:
    return at(part).plus(index, 2)


def split_complex(function: Function, builder: Builder) -> None:
    """Replace the complex scalars of a function by their parts.

    Args:
        function: the function.
        builder: that has written it.

    Raises:
        ComplexOpError: if an op has no formula.
    """
    has_scalars = any(
        statement.dtype.kind == "c"
        for statement in walk(function.body)
        if isinstance(statement, Let | Load | Declare | Get)
    )
    if has_scalars or any(buffer.dtype.kind == "c" for buffer in function.buffers):
        function.body = _Splitter(builder.successor()).block(function.body)
