"""Collapsed Taylor mode: sums of second derivatives along many directions, in one walk.

Note [Collapsed second-order coefficients]
    Along a direction v_r, a value has the Taylor coefficients y0, y1_r and y2_r, and the Laplacian
    needs the sum of y2_r alone. It propagates by itself: for y = g(x),

        y0 = g(x0),    y1_r = g'(x0) x1_r,    y2 = g'(x0) x2 + sum_r g''(x0) (x1_r, x1_r) / 2

    where x2 and y2 are sums over r. So only first-order coefficients have an axis of directions.
    For an elementwise operation g''(x0) is an array like the result, and the sum over r is that of
    products of first-order coefficients; for a product it is one contraction; an affine operation
    has none. Any other operation is expanded in Taylor mode along each direction
    (series.py), mapped and summed. No primitive has a rule here that it does not have elsewhere.

    Source: R. Li et al., A computational framework for neural network-based variational Monte Carlo
    with Forward Laplacian (2024); F. Dangel et al., Collapsing Taylor Mode Automatic
    Differentiation (2025).

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.parts import Rewrite, restrict
from functrace.ir.primitive import ZERO, Params, Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Spec, infer
from functrace.ir.walk import interpret
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.contraction import LETTERS, contract, dot_p, einsum_p, matmul_p
from functrace.ops.elementwise import ELEMENTWISE, mul, square
from functrace.ops.reductions import reduce_sum
from functrace.ops.shaping import broadcast_to, permute
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.recording import Recording
from functrace.transforms.building import (
    attribute,
    finish,
    is_differentiable,
    match_tangent,
    operand_of,
    remembered,
)
from functrace.transforms.derivatives import jvp_program
from functrace.transforms.taylor.rules import BILINEAR, RULES
from functrace.transforms.taylor.series import (
    Coefficient,
    Given,
    Rule,
    Series,
    SeriesWalk,
    TaylorWalk,
    dependence_of_tangents,
    is_kept,
    key_of,
    single_program,
    tangent_part,
    total,
)
from functrace.transforms.vmap import apply_batched, vmap_program

Expand: TypeAlias = Callable[[Program, int, Sequence[bool], int | None, Any], Program]
"""`functrace.control.taylor.taylor_program`, which is of a higher layer."""


@final
class CollapsedWalk(SeriesWalk):
    """Propagates values, first-order coefficients along many directions, and the sum of second-order
    coefficients through programs without calls. See Note [Collapsed second-order coefficients].

    Every value is a `Given` series: coefficient 1 has the axis of directions at position 0, and
    coefficient 2 is the sum over directions.

    Args:
        into: the recording.
        size: number of directions.
        structures: rules of loops and branches.
        expand: Taylor mode of a program.
    """

    order = 2

    def __init__(
        self, into: Recording, size: int, structures: Mapping[Primitive, Rule], expand: Expand
    ) -> None:
        super().__init__(into)
        self.size = size
        self._structures, self._expand = structures, expand
        self._values: dict[Any, Any] = {}
        self._squares: dict[tuple[int, int], Any] = {}
        self._kept: list[Any] = []
        self.units: set[int] = set()
        """Identities of series whose first-order coefficients are the unit vectors, in order."""

    @property
    def leads(self) -> tuple[tuple[int, ...], ...]:
        """Shape in front of a value's own, of coefficients 1 and 2."""
        return ((self.size,), ())

    def run(self, program: Program, inputs: Sequence[Series]) -> list[Series]:
        """Return the series of a program's outputs."""

        def apply(
            k: int, primitive: Primitive, operands: Sequence[Series], params: Params
        ) -> Sequence[Series]:
            found = self._propagate(primitive, operands, params)
            attribute(self.into, k)
            return found

        return self.walk(program, inputs, apply)

    def _propagate(
        self, primitive: Primitive, operands: Sequence[Series], params: Params
    ) -> Sequence[Series]:
        if all(series.is_constant for series in operands) or primitive.jvp is ZERO:
            found = self.apply(primitive, tuple([s.coefficient(0) for s in operands]), params)
            return [self.constant(x) for x in (found if primitive.many else (found,))]
        rule = self._structures.get(primitive)
        if rule is not None:
            specs: list[Spec] = [
                s.aval if s.aval is not None else type(s.coefficient(0)) for s in operands
            ]
            return rule(self, operands, params, infer(primitive, tuple(specs), params))
        return _Operation(self, primitive, operands, params).results()

    def apply(self, primitive: Primitive, values: tuple[Coefficient, ...], params: Params) -> Any:
        """Apply a primitive; equal operations on equal values are one operation, unless they have
        side effects."""
        key = (primitive, tuple(map(key_of, values)), params)
        if is_kept(primitive, params):
            return bind(primitive, values, params)
        if key not in self._values:
            self._kept.extend(values)  # an identity in a key stays that of its value
            self._values[key] = bind(primitive, values, params)
        return self._values[key]

    def evaluate(self, program: Program, values: Sequence[Coefficient]) -> list[Any]:
        """Evaluate a program on traced values and arrays."""
        env: dict[int, Any] = dict(zip(program.input_ids, values, strict=True))
        env.update(program.constant_values)
        interpret(
            program,
            env,
            lambda k, given: self.apply(program.ops[k][0], given, program.ops[k][2]),
            program.schedule,
        )
        return [env[i] for i in program.output_ids]

    def expanded(
        self, program: Program, flags: Sequence[bool], given: Sequence[tuple[bool, bool]]
    ) -> Program:
        """Return the program of Taylor coefficients 1 and 2 along one direction."""
        return self._expand(program, 2, flags, None, given)

    def summed_square(self, x: Coefficient, y: Coefficient) -> Coefficient:
        """Return the sum over directions of elementwise products of first-order coefficients."""
        key = (id(x), id(y))
        if key not in self._squares:
            self._kept += [x, y]
            product = square(x) if x is y else apply_batched(mul, (x, y), (True, True), ())
            self._squares[key] = reduce_sum(product, (0,))
        return self._squares[key]


@final
class _Operation:
    """The coefficients of the results of one operation.

    See Note [Collapsed second-order coefficients].
    """

    def __init__(
        self,
        walk: CollapsedWalk,
        primitive: Primitive,
        operands: Sequence[Series],
        params: Params,
    ) -> None:
        self._walk, self._primitive, self._operands = walk, primitive, operands
        self._params = params
        self._inputs = [s for s in operands if s.aval is not None]
        self._active = [
            s.aval is not None and not s.is_constant and is_differentiable(s.aval) for s in operands
        ]
        self._single = single_program(primitive, operands, params)
        self._avals = [self._single.avals[i] for i in self._single.output_ids]
        self._joint = jvp_program(self._single, self._flags(self._active))
        self._moving, self._affine = dependence_of_tangents(
            self._joint, self._flags(self._active), len(self._avals)
        )

    def _flags(self, active: Sequence[bool]) -> list[bool]:
        """Return flags of the inputs of the program of the operation: operands but numbers."""
        return [f for f, s in zip(active, self._operands, strict=True) if s.aval is not None]

    def results(self) -> list[Series]:
        """Return one series per result."""
        moving = [
            flag and is_differentiable(aval)
            for flag, aval in zip(self._moving, self._avals, strict=True)
        ]
        values = self._outputs()
        if not any(moving):
            return [self._walk.constant(x) for x in values]
        firsts, seconds = self._coefficients(moving)
        made: list[Series] = []
        for place, (flag, aval) in enumerate(zip(moving, self._avals, strict=True)):
            first, second = firsts.get(place), seconds.get(place)
            if not flag or (first is None and second is None):
                made.append(self._walk.constant(values[place]))
                continue
            along = ShapeDtype((self._walk.size, *aval.shape), aval.dtype)
            first = None if first is None else match_tangent(first, along)
            second = None if second is None else match_tangent(second, aval)
            made.append(Given(aval, [values[place], first, second]))
        return made

    def _outputs(self) -> Sequence[Any]:
        """Return the values of the results."""
        values = [s.coefficient(0) for s in self._operands]
        if not self._primitive.by_rule:
            found = self._walk.apply(self._primitive, tuple(values), self._params)
            return found if self._primitive.many else (found,)
        joint = self._joint  # the rule computes results, too
        part = restrict(joint, joint.input_ids, joint.output_ids[: len(self._avals)], keep=True)
        given = [s.coefficient(0) for s in self._inputs]
        absent = [None] * (len(part.program.input_ids) - len(given))
        return self._walk.evaluate(part.program, [*given, *absent])

    def _coefficients(self, moving: Sequence[bool]) -> tuple[dict[int, Any], dict[int, Any]]:
        """Return coefficients 1 and 2 by the place of their results."""
        if self._affine:
            return self._tangents(1, moving), self._tangents(2, moving)
        if self._primitive in BILINEAR and sum(self._active) == 2:
            return self._product()
        # A derivative of a complex operand need not be a product (np.abs).
        is_real = all(s.aval is None or s.aval.dtype.kind != "c" for s in self._operands)
        if self._primitive.batch is ELEMENTWISE and len(self._avals) == 1 and is_real:
            return self._elementwise()
        return self._expanded(moving)

    def _tangents(self, n: int, moving: Sequence[bool]) -> dict[int, Any]:
        """Return the images under the derivative of coefficients ``n``, by place."""
        terms = [
            s.coefficient(n) if flag else None
            for s, flag in zip(self._operands, self._active, strict=True)
        ]
        given = [x for x in terms if x is not None]
        if not given:
            return {}
        if n == 1 and (made := self._of_unit_vectors(terms)) is not None:
            return {0: made}
        mask = self._flags([x is not None for x in terms])
        joint, count = jvp_program(self._single, mask), len(self._avals)
        reached, _ = dependence_of_tangents(joint, mask, count)
        places = [k for k, flag in enumerate(reached) if flag and moving[k]]
        part = tangent_part(joint, [joint.output_ids[count + k] for k in places])
        values = [s.coefficient(0) for s in self._inputs]
        if n == 1:
            batched = [False] * len(values) + [True] * len(given)
            part = vmap_program(part, self._walk.size, batched)
        return dict(zip(places, self._walk.evaluate(part, [*values, *given]), strict=True))

    def _of_unit_vectors(self, terms: Sequence[Coefficient]) -> Any:
        """Return the product of a matrix with the unit vectors: the matrix, or ``None``."""
        if self._primitive not in (matmul_p, dot_p):
            return None
        x, y = self._operands
        units = self._walk.units
        if terms[0] is None and id(y) in units and x.aval is not None and x.aval.ndim == 2:
            return permute(x.coefficient(0), (1, 0))
        if terms[1] is None and id(x) in units and y.aval is not None and y.aval.ndim == 2:
            return y.coefficient(0)
        return None

    def _product(self) -> tuple[dict[int, Any], dict[int, Any]]:
        """Return coefficients of a primitive that is linear in each of two operands."""
        a, b = [k for k, flag in enumerate(self._active) if flag]
        x, y = self._operands[a], self._operands[b]
        values = [s.coefficient(0) for s in self._operands]

        def term(i: int, j: int) -> Any:
            first, second = x.coefficient(i), y.coefficient(j)
            if first is None or second is None:
                return None
            if i == j == 1:
                return self._contracted(first, second, a, b)
            given, batched = list(values), [False] * len(values)
            given[a], given[b], batched[a], batched[b] = first, second, i == 1, j == 1
            if any(batched):
                return apply_batched(self._primitive, tuple(given), tuple(batched), self._params)
            return bind(self._primitive, tuple(given), self._params)

        if self._primitive is mul and x is y:
            twice = mul(values[a], 2.0)
            first, second = [
                None if (t := x.coefficient(k)) is None else _scaled(twice, t, k == 1)
                for k in (1, 2)
            ]
            return {0: first}, {0: total([second, term(1, 1)])}
        return (
            {0: total([term(0, 1), term(1, 0)])},
            {0: total([term(0, 2), term(1, 1), term(2, 0)])},
        )

    def _contracted(self, x: Coefficient, y: Coefficient, a: int, b: int) -> Any:
        """Return the sum over directions of the products of two first-order coefficients."""
        primitive, walk = self._primitive, self._walk
        if primitive is mul:
            return walk.summed_square(x, y)
        subscripts = None
        if primitive in (matmul_p, dot_p):
            left, right = len(shape_of(x)) - 1, len(shape_of(y)) - 1
            subscripts = MATRIX_PRODUCTS.get((left, right))
        values = [s.coefficient(0) for s in self._operands]
        values[a], values[b] = x, y
        if primitive is einsum_p:
            subscripts = self._params[0]
        fresh = (
            None
            if subscripts is None
            else next((letter for letter in LETTERS if letter not in subscripts), None)
        )
        if subscripts is not None and fresh is not None:
            terms, out = subscripts.split("->")
            named = [
                fresh + term if k in (a, b) else term for k, term in enumerate(terms.split(","))
            ]
            return contract(f"{','.join(named)}->{out}", *values)
        batched = tuple([k in (a, b) for k in range(len(values))])
        return reduce_sum(apply_batched(primitive, tuple(values), batched, self._params), (0,))

    def _elementwise(self) -> tuple[dict[int, Any], dict[int, Any]]:
        """Return coefficients of an elementwise operation, by its first and second derivatives."""
        walk, flags = self._walk, self._flags(self._active)
        partials: _Partials = remembered(_partials, self._single, flags)
        values = [s.coefficient(0) for s in self._inputs]
        found = walk.evaluate(partials.program, values)
        moving = [s for s, flag in zip(self._inputs, flags, strict=True) if flag]
        firsts: list[Any] = []
        seconds: list[Any] = []
        for (a, b), slope in zip(partials.pairs, found, strict=True):
            x = moving[a]
            if b is None:
                for n, terms in ((1, firsts), (2, seconds)):
                    coefficient = x.coefficient(n)
                    if coefficient is not None:
                        terms.append(_scaled(slope, coefficient, n == 1))
                continue
            one, other = x.coefficient(1), moving[b].coefficient(1)
            if one is not None and other is not None:
                seconds.append(mul(slope, walk.summed_square(one, other)))
        return {0: total(firsts)}, {0: total(seconds)}

    def _expanded(self, moving: Sequence[bool]) -> tuple[dict[int, Any], dict[int, Any]]:
        """Return coefficients by Taylor mode along each direction, mapped and summed."""
        walk, count = self._walk, len(self._avals)
        mask = [
            flag and s.coefficient(1) is not None
            for s, flag in zip(self._operands, self._active, strict=True)
        ]
        seconds = self._tangents(2, moving)
        if not any(mask):
            return {}, seconds
        made = walk.expanded(self._single, self._flags(mask), [(True, False)] * sum(mask))
        places = [k for k, flag in enumerate(moving) if flag]
        outs = [made.output_ids[count + 2 * k + n] for n in (0, 1) for k in places]
        part = tangent_part(made, outs)
        values = [s.coefficient(0) for s in self._inputs]
        batched = [False] * len(values) + [True] * sum(mask)
        along = [s.coefficient(1) for s, flag in zip(self._operands, mask, strict=True) if flag]
        found = walk.evaluate(vmap_program(part, walk.size, batched), [*values, *along])
        firsts = dict(zip(places, found, strict=False))
        for place, x in zip(places, found[len(places) :], strict=True):
            seconds[place] = total([seconds.get(place), reduce_sum(x, (0,))])
        return firsts, seconds


MATRIX_PRODUCTS: Mapping[tuple[int, int], str] = {
    (1, 1): "a,a->", (2, 1): "ab,b->a", (1, 2): "a,ab->b", (2, 2): "ab,bc->ac",
}  # fmt: skip
"""Subscripts of products of vectors and matrices, by their ranks."""


def _scaled(slope: Coefficient, x: Coefficient, batched: bool) -> Any:
    return apply_batched(mul, (slope, x), (False, True), ()) if batched else mul(slope, x)


class _Partials(NamedTuple):
    """Derivatives of an elementwise operation.

    Args:
        program: from the operands to the derivatives that are not zero.
        pairs: for each, the moving operands by which it is a derivative: ``(a, None)`` for the first
            derivative; ``(a, a)`` for half of the second one; ``(a, b)``.
    """

    program: Program
    pairs: tuple[tuple[int, int | None], ...]


def _partials(single: Program, flags: Sequence[bool]) -> _Partials:
    into = ArrayRecording(f"derivatives of {single.name}", keeps_source=False)
    given = [into.new_input(single.avals[i]) for i in single.input_ids]
    moving = [k for k, flag in enumerate(flags) if flag]
    aval = single.avals[single.output_ids[0]]
    pairs: list[tuple[int, int | None]] = []
    places: list[int] = []
    for n, k in enumerate(moving):
        walk = TaylorWalk(into, 2, RULES)
        inputs = [Given(single.avals[i], [x]) for i, x in zip(single.input_ids, given, strict=True)]
        inputs[k].found.append(_ones(inputs[k].aval))
        (series,) = walk.run(single, inputs)
        for order in (1, 2):
            slope = series.coefficient(order)
            if slope is not None:
                pairs.append((n, None if order == 1 else n))
                places.append(operand_of(into, slope, aval))
    for n, k in enumerate(moving):
        for m, j in enumerate(moving[:n]):
            slope = _mixed(single, k, j, given)
            if slope is not None:
                pairs.append((m, n))
                places.append(operand_of(into, slope, aval))
    made = finish(into, places, single, single.name or "operation")
    return _Partials(_without_products_by_ones(made), tuple(pairs))


def _without_products_by_ones(program: Program) -> Program:
    """Replace products with arrays of ones, the derivative of an operand by itself."""
    ones = {i for i, x in program.constant_values.items() if np.all(np.asarray(x) == 1)}
    write = Rewrite(program)
    for k, _ in program.schedule:
        primitive, operands, _ = program.ops[k]
        other = [i for i in operands if i not in ones]
        is_same = primitive is mul and len(other) == 1 and other[0] >= 0
        if is_same and program.avals[other[0]] == program.avals[k]:
            write.replace(k, [write.operand(other[0])])
        else:
            write.keep(k)
    return write.finish()


def _ones(aval: ShapeDtype | None) -> Any:
    assert aval is not None
    return broadcast_to(aval.dtype.type(1), aval.shape)


def _mixed(single: Program, k: int, j: int, given: Sequence[Coefficient]) -> Any:
    """Return the second derivative of an elementwise program by two of its inputs."""
    only = [n == k for n in range(len(given))]
    first = jvp_program(single, only)
    flags = [*[n == j for n in range(len(given))], False]
    second = jvp_program(first, flags)
    reached, _ = dependence_of_tangents(second, flags, len(first.output_ids))
    if not reached[1]:
        return None
    part = restrict(second, second.input_ids, second.output_ids[3:], keep=True).program
    ones = [_ones(single.avals[single.input_ids[n]]) for n in (k, j)]
    return evaluate_program(part, [*given, *ones])[0]
