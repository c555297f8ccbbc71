"""Drop derivatives of softmax shifts: a shift by the row maximum cancels, so its cotangent is zero.

``np.exp(x - np.max(x, axis=-1, keepdims=True))`` subtracts the maximum to prevent overflow. In a
softmax, a log-sum-exp or a cross-entropy it cancels, so its cotangent is zero; computing it gives
rounding errors, and takes a mask of the maxima, a count of ties and two sums over all elements. The
program proves that it is zero: sums over rows are linear, and factors that are constant along a row
can be moved out of them.

Note [Normal forms]
    Values are polynomials over atoms, with rational coefficients: a full atom is a variable that
    differs within a row, a row atom one that does not, or the sum over a row of a product of full
    atoms. A sum over rows moves row atoms out of every term; a quotient by one term has negative
    exponents. A value whose polynomial has no terms is zero for all numbers.

Layer: 6.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from typing import Any, final

from functrace.ir.parts import Rewrite, compact
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops.elementwise import add, div, equal, mul, neg, reciprocal, square, sub
from functrace.ops.naming import name_p
from functrace.ops.reductions import EXTREMES, reduce_sum_p
from functrace.ops.shaping import Shape, broadcast_to_p, convert_p, reshape_p

MOST_TERMS = 8
MOST_TIMES = 16
"""Maximum exponent."""
MOST_DIGITS = 4096
"""Maximum binary digits of the integers in a rational coefficient."""
DEEPEST = 48
"""Maximum depth of expanded operations; deeper ones are atoms."""


def drop_softmax_shifts(program: Program) -> Program:
    """Remove additions of zero cotangents at the places of maxima.

    Args:
        program: any program; sub-programs are unchanged.

    Cost:
        0.1 us per equation; 100 us if a maximum has a cotangent to analyze.
    """
    if program.kinds.isdisjoint(EXTREMES):
        return program
    kept = {k: same for k, _ in program.schedule if (same := _kept(program, k)) is not None}
    if not kept:
        return program
    write = Rewrite(program)
    for k, _ in program.schedule:
        if k in kept:
            write.replace(k, (write.operand(kept[k]),))
        else:
            write.keep(k)
    return compact(write.finish())


def _kept(program: Program, k: int) -> int | None:
    """Return the operand that equals a sum, if the other one is a mask of maxima times zeros."""
    primitive, operands, _ = program.ops[k]
    if primitive is not add or program.avals[k].dtype.kind != "f":
        return None
    shape = program.avals[k].shape
    for x, y in (operands, operands[::-1]):
        if (
            x < 0
            or y < 0
            or program.avals[x] is not program.avals[k]
            or program.ops[y][0] is not mul
        ):
            continue
        for mask in program.ops[y][1]:
            axes = _axes_of_maxima(program, mask)
            if (
                axes
                and all(type(n) is int and n > 0 for n in shape)
                and program.avals[y].shape == shape
            ):
                forms = _NormalForms(program, shape, axes)
                if not forms.of(y):
                    return x
    return None


def _axes_of_maxima(program: Program, i: int) -> Shape | None:
    """Return the axes of rows, if a variable is above 0 at row extremes, and 0 elsewhere."""
    if i >= 0 and program.ops[i][0] is div:  # divided by the number of ties
        i = program.ops[i][1][0]
    if (
        i < 0
        or program.ops[i][0] is not convert_p
        or program.ops[program.ops[i][1][0]][0] is not equal
    ):
        return None
    for j in program.ops[program.ops[i][1][0]][1]:
        while j >= 0 and program.ops[j][0] in (reshape_p, broadcast_to_p):
            j = program.ops[j][1][0]
        if j >= 0 and program.ops[j][0] in EXTREMES:
            source = program.ops[j][1][0]
            return (
                program.ops[j][2][0]
                if source >= 0 and program.avals[source].shape == program.avals[i].shape
                else None
            )
    return None


Atom = Any
"""A variable; or a product of variables, for its sum over rows."""
Term = frozenset[tuple[Atom, int]]
"""Atoms with their exponents."""
Form = dict[Term, Fraction]

_ONE: Term = frozenset()


@final
class _NormalForms:
    """Normal forms of variables, see Note [Normal forms].

    Args:
        program: the program.
        full: the shape of arrays.
        axes: axes of a row.
    """

    def __init__(self, program: Program, full: Shape, axes: Shape) -> None:
        self._program, self._full, self._axes = program, full, axes
        self._rows = tuple([1 if k in axes else n for k, n in enumerate(full)])
        self._reduced = tuple([n for k, n in enumerate(full) if k not in axes])
        self._found: dict[int, Form] = {}

    def of(self, i: int, depth: int = 0) -> Form:
        """Return the form of a variable or a literal; a form without terms is zero."""
        if i < 0:
            value: Any = self._program.literals[~i]
            if isinstance(value, int | float) and math.isfinite(value):
                return {_ONE: Fraction(value)} if value else {}
            return {frozenset({(i, 1)}): Fraction(1)}
        found = self._found.get(i)
        if found is None:
            made = self._made(i, depth + 1) if depth < DEEPEST and self._is_float(i) else None
            found = self._found[i] = (
                {frozenset({(i, 1)}): Fraction(1)} if made is None or _is_long(made) else made
            )
        return found

    def _is_float(self, i: int) -> bool:
        return self._program.avals[i].dtype.kind == "f"

    def _made(self, i: int, depth: int) -> Form | None:
        """Expand an operation; None if the variable is an atom."""
        program = self._program
        primitive, operands, params = program.ops[i]
        shape = program.avals[i].shape
        if primitive is reduce_sum_p:
            (x,) = operands
            if x < 0 or tuple(params[0]) != self._axes or program.avals[x].shape != self._full:
                return None
            return self._summed(self.of(x, depth))
        if primitive is name_p:
            return self.of(operands[0], depth)
        if primitive is broadcast_to_p:
            is_row = (
                shape == self._full
                and operands[0] >= 0
                and program.avals[operands[0]].shape == self._rows
            )
            return self.of(operands[0], depth) if is_row else None
        if primitive is reshape_p:
            is_row = shape in (self._rows, self._reduced)
            return self.of(operands[0], depth) if is_row and self._is_row(operands[0]) else None
        combine = _COMBINED.get(primitive)
        if combine is None or not all(self._fits(x, shape) for x in operands):
            return None
        return combine(*[self.of(x, depth) for x in operands])

    def _is_row(self, i: int) -> bool:
        return i >= 0 and self._program.avals[i].shape in (self._rows, self._reduced)

    def _fits(self, i: int, shape: Shape) -> bool:
        """Return True for a number, or an operand of the result's shape or one element per row."""
        if i < 0:
            return True
        own = self._program.avals[i].shape
        return self._is_float(i) and (
            not own or own == shape or (shape == self._full and own == self._rows)
        )

    def _summed(self, form: Form) -> Form:
        """Sum every term over rows."""
        count = Fraction(math.prod([self._full[k] for k in self._axes]))
        made: Form = {}
        for term, factor in form.items():
            inner = frozenset([(atom, n) for atom, n in term if self._differs(atom)])
            outer = term - inner
            total = {_ONE: count} if not inner else {frozenset({(inner, 1)}): Fraction(1)}
            made = _added(made, _times({outer: factor}, total))
        return made

    def _differs(self, atom: Atom) -> bool:
        """Return True if an atom differs within a row."""
        return type(atom) is int and atom >= 0 and self._program.avals[atom].shape == self._full


def _is_long(form: Form) -> bool:
    """Return True if a form is too long to expand: for repeated squares, exponents and digits
    double each time.
    """
    return len(form) > MOST_TERMS or any(
        max(factor.numerator.bit_length(), factor.denominator.bit_length()) > MOST_DIGITS
        or any(abs(n) > MOST_TIMES for _, n in term)
        for term, factor in form.items()
    )


def _added(a: Form, b: Form) -> Form:
    made = dict(a)
    for term, factor in b.items():
        total = made.pop(term, Fraction(0)) + factor
        if total:
            made[term] = total
    return made


def _negative(a: Form) -> Form:
    return {term: -factor for term, factor in a.items()}


def _times(a: Form, b: Form) -> Form:
    made: Form = {}
    for (x, p), (y, q) in ((s, t) for s in a.items() for t in b.items()):
        exponents = Counter(dict(x))
        for atom, n in y:
            exponents[atom] += n
        made = _added(made, {frozenset([(atom, n) for atom, n in exponents.items() if n]): p * q})
    return made


def _inverse(a: Form) -> Form | None:
    if len(a) != 1:
        return None
    ((term, factor),) = a.items()
    return {frozenset([(atom, -n) for atom, n in term]): 1 / factor}


def _divided(a: Form, b: Form) -> Form | None:
    inverse = _inverse(b)
    return None if inverse is None else _times(a, inverse)


def _difference(a: Form, b: Form) -> Form:
    return _added(a, _negative(b))


def _squared(a: Form) -> Form:
    return _times(a, a)


_COMBINED: dict[Primitive, Callable[..., Form | None]] = {
    add: _added,
    sub: _difference,
    neg: _negative,
    mul: _times,
    div: _divided,
    reciprocal: _inverse,
    square: _squared,
}
