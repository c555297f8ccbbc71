"""Truncated power series of traced values, and the walk that propagates them through a program.

Note [Taylor coefficients from jvp rules]
    A jvp rule writes the derivative y' along a curve x(t) by operations on x, y and x'. If these
    are power series in t, the rule gives the series of y', and coefficient k of y is coefficient
    k - 1 of y' divided by k. Only coefficients below k occur on the right, also where the rule
    refers to y itself (exp) or to a function that refers back (sin and cos). So a series computes its
    coefficients one by one, on demand; equal operations on equal series are one series, unless they
    have side effects; and the rule of
    any primitive, of a custom function or of a matrix decomposition, is also its Taylor rule. A rule
    that reads neither x nor y, but x' alone, is applied to each coefficient (`_Affine`): sums, moves,
    choices. Operations for which that would recur without end, or take more than a quadratic number
    of steps, have rows in rules.py: products, quotients, powers.

    Source: A. Griewank, A. Walther, Evaluating Derivatives (2008), chapter 13; M. D. McIlroy, Power
    series, power serious (1999), for series as streams.

Layer: 4.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Assembly, restrict, without_kept
from functrace.ir.primitive import ZERO, Params, Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Spec, infer
from functrace.ir.walk import interpret
from functrace.keys import number_key
from functrace.ops.elementwise import add, div, mul
from functrace.ops.shaping import broadcast_to
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import LITERALS, Tracer
from functrace.transforms.building import attribute, is_differentiable, match_tangent
from functrace.transforms.derivatives import jvp_program

Coefficient: TypeAlias = Any
"""A traced value or array; ``None`` for zeros."""


class Series(abc.ABC):
    """A power series: coefficient k is the kth derivative divided by the factorial of k."""

    def __init__(self, aval: ShapeDtype | None) -> None:
        self.aval = aval
        """Shape and dtype of the coefficients; ``None`` for a Python number."""
        self.found: list[Coefficient] = []

    @property
    def is_constant(self) -> bool:
        """True if only coefficient 0 is not zero."""
        return False

    def coefficient(self, k: int) -> Coefficient:
        """Return coefficient ``k``, computed at the first call, after all before it."""
        while len(self.found) <= k:
            made = self._next(len(self.found))
            if made is not None and self.aval is not None:
                made = match_tangent(made, self.aval)
            self.found.append(made)
        return self.found[k]

    @abc.abstractmethod
    def _next(self, k: int) -> Coefficient:
        """Compute coefficient ``k``; those before it are in ``found``."""


@final
class Given(Series):
    """A series whose coefficients are given; later ones are zero."""

    def __init__(self, aval: ShapeDtype | None, coefficients: Sequence[Coefficient]) -> None:
        super().__init__(aval)
        self.found = list(coefficients)

    @property
    def is_constant(self) -> bool:
        """True if only coefficient 0 is given."""
        return all(c is None for c in self.found[1:])

    def _next(self, k: int) -> Coefficient:
        return None


@final
class Derivative(Series):
    """The derivative of a series."""

    def __init__(self, of: Series) -> None:
        super().__init__(of.aval)
        self.of = of

    def _next(self, k: int) -> Coefficient:
        found = self.of.coefficient(k + 1)
        if k == 0:  # a value, which operations take
            return zeros(self.aval) if found is None and self.aval is not None else found
        return found if found is None else mul(found, float(k + 1))


@final
class Recurrence(Series):
    """A series whose coefficients are computed by a function of their number.

    Args:
        aval: shape and dtype.
        compute: from the number of a coefficient to the coefficient; it may read those before it.
    """

    def __init__(self, aval: ShapeDtype, compute: Callable[[int], Coefficient]) -> None:
        super().__init__(aval)
        self._compute = compute

    def _next(self, k: int) -> Coefficient:
        return self._compute(k)


Rule: TypeAlias = Callable[[Any, Sequence[Series], Params, tuple[ShapeDtype, ...]], Any]
"""Called with the walk (a `TaylorWalk`; for loops and branches also a `CollapsedWalk`), the
operands' series, the params, and the avals of the results; returns one series per result, or
``None`` if the jvp rule is to be used."""


def total(terms: Sequence[Coefficient]) -> Coefficient:
    """Return the sum of some coefficients; ``None`` if all of them are zero."""
    found = None
    for term in terms:
        if term is not None:
            found = term if found is None else add(found, term)
    return found


def is_kept(primitive: Primitive, params: Params) -> bool:
    """Return True if an operation has side effects: equal ones are not merged."""
    return primitive.kept is not None and primitive.kept(*params)


def key_of(value: Coefficient) -> Any:
    """Return a key of a value, the same for the same traced value and for equal numbers."""
    if isinstance(value, Tracer):
        return id(value.ft_recording), value.ft_variable
    if type(value) in LITERALS:
        return type(value), number_key(value)
    return id(value)


class SeriesWalk:
    """Propagates series through programs, onto one recording.

    Args:
        into: the recording.
    """

    def __init__(self, into: Recording) -> None:
        self.into = into
        self._constants: dict[Any, Series] = {}

    def constant(self, value: Any) -> Series:
        """Return the series of a value that does not move; the same one for the same value."""
        key = key_of(value)
        if key not in self._constants:
            aval = None if type(value) in LITERALS else aval_of(value)
            self._constants[key] = Given(aval, [value])
        return self._constants[key]

    def walk(
        self, program: Program, inputs: Sequence[Series], apply: Callable[..., Sequence[Series]]
    ) -> list[Series]:
        """Return the series of a program's outputs.

        Args:
            program: the program.
            inputs: one series per input.
            apply: returns the series of an operation's results, from its variable, its primitive,
                the series of its operands, and its params.
        """
        env: dict[int, Any] = dict(zip(program.input_ids, inputs, strict=True))
        for i, value in program.constant_values.items():
            env[i] = self.constant(value)

        def evaluate(k: int, values: tuple[Any, ...]) -> Any:
            primitive, _, params = program.ops[k]
            operands = [x if isinstance(x, Series) else self.constant(x) for x in values]
            found = apply(k, primitive, operands, params)
            return tuple(found) if primitive.many else found[0]

        interpret(program, env, evaluate, program.schedule)
        return [env[i] for i in program.output_ids]


@final
class TaylorWalk(SeriesWalk):
    """Propagates power series through programs, onto one recording.

    Args:
        into: the recording.
        order: last coefficient that is needed.
        rules: recurrences by primitive.
    """

    def __init__(self, into: Recording, order: int, rules: Mapping[Primitive, Rule]) -> None:
        super().__init__(into)
        self.order, self.rules = order, rules
        self._series: dict[Any, Any] = {}
        self._derivatives: dict[int, Series] = {}
        self._alive: list[Any] = []  # an identity in a key stays that of its series

    @property
    def leads(self) -> tuple[tuple[int, ...], ...]:
        """Shape in front of a value's own, of coefficients from 1 on: none."""
        return ((),) * self.order

    def derivative(self, series: Series) -> Series:
        """Return the derivative of a series, always the same one."""
        found = self._derivatives.get(id(series))
        if found is None:
            found = self._derivatives[id(series)] = Derivative(series)
        return found

    def run(
        self, program: Program, inputs: Sequence[Series], *, ahead: bool = True
    ) -> list[Series]:
        """Return the series of a program's outputs.

        Args:
            program: the program.
            inputs: one series per input.
            ahead: True to compute all coefficients of each operation at once, so that none waits
                for a long chain of others.
        """

        def apply(
            k: int, primitive: Primitive, operands: Sequence[Series], params: Params
        ) -> Sequence[Series]:
            found = self.apply(primitive, operands, params)
            if ahead:
                for series in found:
                    for n in range(self.order + 1):
                        series.coefficient(n)
                attribute(self.into, k)
            return found

        return self.walk(program, inputs, apply)

    def apply(
        self, primitive: Primitive, operands: Sequence[Series], params: Params
    ) -> Sequence[Series]:
        """Return the series of an operation's results."""
        key = (primitive, tuple(map(id, operands)), params)
        found = None if is_kept(primitive, params) else self._series.get(key)
        if found is None:
            holds = primitive.holds
            if all(series.is_constant for series in operands) or primitive.jvp is ZERO:
                values = [series.coefficient(0) for series in operands]
                results = bind(primitive, tuple(values), params)
                found = [self.constant(x) for x in (results if primitive.many else (results,))]
            elif (
                holds is not None
                and holds.called_program is not None
                and not primitive.by_rule
                and primitive not in self.rules
            ):
                found = self.run(holds.called_program(*params), operands, ahead=False)
            else:
                found = self._moving(primitive, operands, params, key)
            self._series[key] = found
            self._alive.append(found)
        return found

    def _moving(
        self, primitive: Primitive, operands: Sequence[Series], params: Params, key: Any
    ) -> Sequence[Series]:
        specs: list[Spec] = [
            series.aval if series.aval is not None else type(series.coefficient(0))
            for series in operands
        ]
        made = infer(primitive, tuple(specs), params)
        rule = self.rules.get(primitive)
        found = None if rule is None else rule(self, operands, params, made)
        if found is None:
            derived = _DerivedOperation(self, primitive, operands, params, made)
            self._series[key] = derived.results  # the rule may refer to the results
            found = derived.results
        return found


@final
class _DerivedOperation:
    """The series of an operation's results, by its jvp rule.

    See Note [Taylor coefficients from jvp rules].
    """

    def __init__(
        self,
        walk: TaylorWalk,
        primitive: Primitive,
        operands: Sequence[Series],
        params: Params,
        avals: Sequence[ShapeDtype],
    ) -> None:
        self._walk, self._operands = walk, operands
        self._primitive, self._params = primitive, params
        self._values: Sequence[Any] | None = None
        self._tangents: list[Series] | None = None
        self._active = [
            not s.is_constant and s.aval is not None and is_differentiable(s.aval) for s in operands
        ]
        self._single = single_program(primitive, operands, params)
        self._count = len(avals)
        self._joint = jvp_program(self._single, self._flags(self._active))
        moving, affine = dependence_of_tangents(self._joint, self._flags(self._active), self._count)
        self._moving, self._parts = moving, dict[tuple[bool, ...], Program]()
        self.results: list[Series] = []
        for place, aval in enumerate(avals):
            if moving[place] and is_differentiable(aval):
                compute = self._affine if affine else self._integrated
                self.results.append(Recurrence(aval, lambda k, p=place, of=compute: of(p, k)))
            else:
                self.results.append(Given(aval, [self._value(place)]))

    def _flags(self, active: Sequence[bool]) -> list[bool]:
        """Return flags of the inputs of the program of the operation: operands but numbers."""
        return [flag for flag, s in zip(active, self._operands, strict=True) if s.aval is not None]

    def _value(self, place: int) -> Any:
        """Return coefficient 0 of a result."""
        found: Any = self._values
        if found is None:
            values = tuple([s.coefficient(0) for s in self._operands])
            if self._primitive.by_rule:  # whose results are computed by the rule, too
                given = [
                    x for x, s in zip(values, self._operands, strict=True) if s.aval is not None
                ]
                part = restrict(
                    self._joint,
                    self._joint.input_ids,
                    self._joint.output_ids[: self._count],
                    keep=True,
                ).program
                absent = [None] * (len(part.input_ids) - len(given))
                found = _evaluated(part, [*given, *absent])
            else:
                found = bind(self._primitive, values, self._params)
                found = found if self._primitive.many else (found,)
            self._values = found
        return found[place]

    def _affine(self, place: int, k: int) -> Coefficient:
        """Return a coefficient of a result that depends on the same coefficient of operands only."""
        if k == 0:
            return self._value(place)
        terms = [
            s.coefficient(k) if flag else None
            for s, flag in zip(self._operands, self._active, strict=True)
        ]
        mask = tuple([term is not None for term in terms])
        if not any(mask):
            return None
        part = self._parts.get((*mask, *[place == n for n in range(self._count)]))
        if part is None:
            joint = jvp_program(self._single, self._flags(mask))
            out = joint.output_ids[self._count + place]
            part = tangent_part(joint, [out])
            self._parts[(*mask, *[place == n for n in range(self._count)])] = part
        given = [s.coefficient(0) for s in self._operands if s.aval is not None]
        return _evaluated(part, [*given, *[term for term in terms if term is not None]])[0]

    def _integrated(self, place: int, k: int) -> Coefficient:
        """Return a coefficient of a result by that of its derivative before."""
        if k == 0:
            return self._value(place)
        if self._tangents is None:
            chosen = [n for n, flag in enumerate(self._moving) if flag]
            outs = [self._joint.output_ids[self._count + n] for n in chosen]
            part = tangent_part(self._joint, outs)
            inputs = [s for s in self._operands if s.aval is not None]
            moved = [
                self._walk.derivative(s)
                for s, flag in zip(self._operands, self._active, strict=True)
                if flag
            ]
            found = iter(self._walk.run(part, [*inputs, *moved], ahead=False))
            zero = self._walk.constant(0.0)
            self._tangents = [next(found) if flag else zero for flag in self._moving]
        slope = self._tangents[place].coefficient(k - 1)
        return slope if slope is None or k == 1 else div(slope, float(k))


def single_program(primitive: Primitive, operands: Sequence[Series], params: Params) -> Program:
    """Return the program of one operation, whose inputs are the operands but Python numbers."""
    build = Assembly()
    given = [
        build.literal(s.coefficient(0)) if s.aval is None else build.input(s.aval) for s in operands
    ]
    first = build.place(primitive, tuple(given), params)
    count = len(build.avals) - first if primitive.many else 1
    return build.program(range(first, first + count), str(primitive)).interned()


def tangent_part(joint: Program, outs: Sequence[int]) -> Program:
    """Return the program of some tangents, without the side effects, which the results have."""
    return without_kept(restrict(joint, joint.input_ids, outs, keep=True).program)


def dependence_of_tangents(
    joint: Program, flags: Sequence[bool], count: int
) -> tuple[list[bool], bool]:
    """Return which tangents of a jvp program depend on tangents, and if on tangents only."""
    total_inputs = len(flags)
    tangents = set(joint.input_ids[total_inputs:])
    primals = {i for i, flag in zip(joint.input_ids, flags, strict=False) if flag}
    pushed, moving = set(tangents), set(primals)
    mixed: set[int] = set()
    for k, _ in joint.schedule:
        primitive, operands, _ = joint.ops[k]
        results = [
            j
            for j in range(k, k + joint.result_count(k))
            if is_differentiable(joint.avals[j]) and primitive.jvp is not ZERO
        ]
        if not pushed.isdisjoint(operands):
            pushed.update(results)
            if not moving.isdisjoint(operands) or not mixed.isdisjoint(operands):
                mixed.update(results)
        elif not moving.isdisjoint(operands):
            moving.update(results)
    outs = joint.output_ids[count:]
    return [i in pushed for i in outs], not any(i in mixed for i in outs)


def _evaluated(program: Program, values: Sequence[Any]) -> list[Any]:
    """Evaluate a program on traced values and arrays, by `bind`."""
    env: dict[int, Any] = dict(zip(program.input_ids, values, strict=True))
    env.update(program.constant_values)
    interpret(
        program,
        env,
        lambda k, given: bind(program.ops[k][0], given, program.ops[k][2]),
        program.schedule,
    )
    return [env[i] for i in program.output_ids]


def zeros(aval: ShapeDtype) -> Any:
    """Return zeros that take no memory."""
    return broadcast_to(np.zeros((), aval.dtype), aval.shape)
