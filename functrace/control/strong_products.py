"""Products that are zero where a factor is exactly zero, whatever the other factors are.

``strong_mul(t, c)`` is ``t * c``, but 0 where ``t`` is 0, even if ``c`` is infinite or NaN;
``strong_both`` likewise for both factors, ``strong_div`` for a quotient's numerator, and
`strong_contraction` for products of matrices and `einsum`. They are linear operations of derivatives
under `functrace.strong_zero` (control/strong_zero.py): ``t`` is a tangent or a cotangent. Their own
derivatives are again such products, so the property holds to every order.

They occur inside of a `strong_zero` operation only. Where that is inlined, `spelled_out` replaces
them by comparisons, selections and plain products, so that passes and backends do not know them.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Rewrite, with_programs
from functrace.ir.primitive import (
    Flags,
    Operand,
    Primitive,
    RuleArgument,
    Tangents,
    Values,
    is_linear,
)
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops import elementwise as ew
from functrace.ops.broadcasting import ELEMENTWISE, Elementwise
from functrace.ops.contraction import einsum_p, matmul_p
from functrace.ops.elementwise import plus
from functrace.ops.shaping import convert
from functrace.tracing.binding import bind
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.tracer import Value
from functrace.transforms.building import operand_of
from functrace.typing import Array

CONTRACTIONS: frozenset[Primitive] = frozenset({matmul_p, einsum_p})
"""Sums of products of their operands."""

# -- the definitions -------------------------------------------------------------------------------


def _mul(t: Value, c: Value) -> Any:
    return ew.mul(t, ew.where(ew.equal(t, 0), 0, c))


def _both(a: Value, b: Value) -> Any:
    return ew.mul(ew.where(ew.equal(b, 0), 0, a), ew.where(ew.equal(a, 0), 0, b))


def _div(t: Value, c: Value) -> Any:
    return ew.div(t, ew.where(ew.equal(t, 0), 1, c))


def _contraction(*rest: RuleArgument) -> Any:
    """Sum the products; those with an infinite factor count where the strong factors are not 0.

    An infinity of the result has its sign if all terms that are infinite have the same one;
    otherwise, as for complex numbers and more than two factors, it is NaN.
    """
    *operands, inner, params, places = rest
    finite = [ew.isfinite(x) for x in operands]
    kept = [
        x if k in places and len(places) == 1 else ew.where(flag, x, 0)
        for k, (x, flag) in enumerate(zip(operands, finite, strict=True))
    ]
    base = bind(inner, tuple(kept), params)
    real = base.dtype.type(0).real.dtype
    hits: Any = None
    for k, flag in enumerate(finite):
        if k in places and len(places) == 1:
            continue
        bad = convert(ew.logical_not(flag), real)
        factors = [
            bad
            if j == k
            else convert(ew.not_equal(x, 0), real)
            if j in places
            else convert(ew.equal(flag, flag), real)
            for j, x in enumerate(operands)
        ]
        hits = plus(hits, bind(inner, tuple(factors), params))
    value: Any = np.nan
    if len(operands) == 2 and not np.issubdtype(base.dtype, np.complexfloating):
        value = _signed(operands, finite, inner, params, places, hits)
    return ew.where(ew.greater(hits, 0), value, base)


def _signed(
    operands: Sequence[Any],
    finite: Sequence[Any],
    inner: Primitive,
    params: tuple[Any, ...],
    places: tuple[int, ...],
    hits: Value,
) -> Any:
    """Return the infinity to which terms of one sign sum; NaN for others."""
    signs = [ew.where(ew.isnan(x), 0, ew.sign(x)) for x in operands]
    total: Any = None
    for k, flag in enumerate(finite):
        if k in places and len(places) == 1:
            continue
        bad = ew.where(flag, 0, signs[k])
        factors = tuple([bad if j == k else signs[j] for j in range(2)])
        total = plus(total, bind(inner, factors, params))
    return ew.where(
        ew.equal(total, hits), np.inf, ew.where(ew.equal(total, ew.neg(hits)), -np.inf, np.nan)
    )


# -- the primitives --------------------------------------------------------------------------------


def _mul_jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (t, c), (a, b) = primals, tangents
    return plus(None if a is None else strong_mul(a, c), None if b is None else strong_both(t, b))


def _mul_transpose(ct: Array, t: Operand, c: Operand) -> Any:
    return (strong_mul(ct, c), None) if is_linear(t) else (None, strong_both(t, ct))  # type: ignore[arg-type]


def _both_jvp(primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    (x, y), (a, b) = primals, tangents
    return plus(None if a is None else strong_both(a, y), None if b is None else strong_both(x, b))


def _both_transpose(ct: Array, x: Operand, y: Operand) -> Any:
    return (strong_both(ct, y), None) if is_linear(x) else (None, strong_both(x, ct))  # type: ignore[arg-type]


def _div_jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
    (_, c), (a, b) = primals, tangents
    return plus(
        None if a is None else strong_div(a, c),
        None if b is None else ew.neg(strong_both(outputs[0], strong_div(b, c))),
    )


def _div_transpose(ct: Array, _t: Operand, c: Array) -> Any:
    return strong_div(ct, c), None


def _product(
    name: str,
    like: Elementwise,
    value: Callable[..., Any],
    jvp: Callable[..., Any],
    transpose: Callable[..., Any],
) -> Elementwise:
    return Elementwise(
        name,
        eval=value,
        aval=like.aval,
        jvp=jvp,
        transpose=transpose,
        batch=ELEMENTWISE,
        blind=True,
    )


strong_mul = _product("strong_mul", ew.mul, _mul, _mul_jvp, _mul_transpose)
"""``strong_mul t c``: the product, 0 where ``t`` is 0."""
strong_both = _product("strong_both", ew.mul, _both, _both_jvp, _both_transpose)
"""``strong_both a b``: the product, 0 where either factor is 0."""
strong_div = _product("strong_div", ew.div, _div, _div_jvp, _div_transpose)
"""``strong_div t c``: the quotient, 0 where ``t`` is 0."""


def _contraction_aval(*rest: RuleArgument) -> ShapeDtype:
    *specs, inner, params, _ = rest
    return inner.aval(*specs, *params)


def _contraction_jvp(
    primals: Values,
    _outputs: Values,
    tangents: Tangents,
    inner: Primitive,
    params: tuple[Any, ...],
    places: tuple[int, ...],
) -> Any:
    total: Any = None
    for k, tangent in enumerate(tangents):
        if tangent is not None:
            operands = tuple([tangent if j == k else x for j, x in enumerate(primals)])
            strong = tuple(sorted({*places, k}))
            total = plus(total, bind(strong_contraction_p, operands, (inner, params, strong)))
    return total


def _contraction_transpose(ct: Array, *rest: RuleArgument) -> Any:
    *operands, inner, params, places = rest
    place = next(k for k, x in enumerate(operands) if is_linear(x))
    others = [x for k, x in enumerate(operands) if k != place]
    strong = [True, *[k in places for k in range(len(operands)) if k != place]]

    def rule(*values: Operand) -> Any:
        given = iter(values[1:])
        taken = [operands[k] if k == place else next(given) for k in range(len(operands))]
        return [inner.transpose(values[0], *taken, *params)[place]]

    (found,) = by_strong_rule(rule, [ct, *others], strong)
    return tuple([found if k == place else None for k in range(len(operands))])


def _contraction_batch(
    operands: Values,
    is_batched: Flags,
    inner: Primitive,
    params: tuple[Any, ...],
    places: tuple[int, ...],
) -> Any:
    strong = [k in places for k in range(len(operands))]
    (found,) = by_strong_rule(
        lambda *values: [inner.batch(values, is_batched, *params)], operands, strong
    )
    return found


strong_contraction_p = Primitive(
    "strong_contraction",
    eval=_contraction,
    aval=_contraction_aval,
    jvp=_contraction_jvp,
    transpose=_contraction_transpose,
    batch=_contraction_batch,
    params=("inner", "inner_params", "places"),
)
"""``strong_contraction a b {inner=matmul, …, places=(0,)}``: a sum of products, whose terms are 0
where an operand at ``places`` is 0."""

SPELLED: dict[Primitive, Callable[..., Any]] = {
    strong_mul: _mul,
    strong_both: _both,
    strong_div: _div,
    strong_contraction_p: _contraction,
}
"""The definitions, by primitive."""


def _is_finite_number(value: object) -> bool:
    return isinstance(value, int | float | complex) and bool(np.isfinite(value)) and value != 0


def by_strong_rule(
    rule: Callable[..., Sequence[Any]], operands: Sequence[Any], strong: Sequence[bool]
) -> list[Any]:
    """Apply a rule of a product to operands; its products with flagged operands are strong."""
    recording = ArrayRecording("strong_zero", keeps_source=False)
    inputs = [recording.new_input(aval_of(x)) for x in operands]
    results = rule(*inputs)
    outputs = [operand_of(recording, r, aval_of(r)) for r in results]
    program = Program.from_builder(recording, outputs, name="strong")
    recording.close()
    return evaluate_program(strengthened(program, strong), operands)


def strengthened(program: Program, strong: Sequence[bool]) -> Program:
    """Return a program whose products with operands that depend on flagged inputs are strong.

    Sub-programs are entered.

    Args:
        program: a program that is linear in the flagged inputs.
        strong: one flag per input.
    """
    flagged = {i for i, flag in zip(program.input_ids, strong, strict=True) if flag}
    write = Rewrite(program)
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        flags = [i in flagged for i in operands]
        if not any(flags):
            write.keep(k)
            continue
        if primitive.holds is None:
            flagged.update(range(k, k + program.result_count(k)))
            made = _placed(write, program, k, flags)
            if made is None:
                write.keep(k)
            else:
                write.replace(k, [made])
            continue
        holds = primitive.holds
        reached = holds.depends(flags, *params) if holds.depends is not None else None
        count = program.result_count(k)
        flagged.update(k + n for n in range(count) if reached is None or reached[n])
        if holds.moving is None:
            write.keep(k)
            continue
        changed = _strong_bodies(holds.moving(flags, *params))
        given = tuple(map(write.operand, operands))
        params = tuple([with_programs(param, changed) for param in params])
        first = write.place(primitive, given, params, write.position(k))
        write.replace(k, range(first, first + count))
    return write.finish()


def _strong_bodies(
    moving: Sequence[tuple[Program, Sequence[bool]]],
) -> Callable[[Program], Program]:
    """Return the function from sub-programs to their strengthened forms; one that occurs twice has
    the flags of both."""
    flags: dict[int, list[bool]] = {}
    bodies = {id(body): body for body, _ in moving}
    for body, own in moving:
        before = flags.get(id(body), [False] * len(own))
        flags[id(body)] = [a or b for a, b in zip(before, own, strict=True)]
    changed = {key: strengthened(bodies[key], own) for key, own in flags.items()}
    return lambda body: changed.get(id(body), body)


def _placed(write: Rewrite, program: Program, k: int, flags: Sequence[bool]) -> int | None:
    """Write the strong form of an operation; ``None`` if there is none."""
    primitive, operands, params = program.ops[k]
    places = tuple([n for n, flag in enumerate(flags) if flag])
    numbers = [_is_finite_number(program.literals[~i]) if i < 0 else False for i in operands]
    given = [write.operand(i) for i in operands]
    position = write.position(k)
    if primitive in (ew.mul, strong_mul, strong_both):
        x, y = given
        is_both = (
            primitive is strong_both or len(places) == 2 or (primitive is strong_mul and flags[1])
        )
        if is_both:
            return write.place(strong_both, (x, y), (), position)
        if numbers[1 - places[0]]:
            return None
        return write.place(strong_mul, (x, y) if flags[0] else (y, x), (), position)
    if primitive in (ew.div, strong_div):
        return (
            None
            if numbers[1] or not flags[0]
            else write.place(strong_div, tuple(given), (), position)
        )
    if primitive in CONTRACTIONS:
        return write.place(
            strong_contraction_p, tuple(given), (primitive, params, places), position
        )
    if primitive is strong_contraction_p:
        inner, inner_params, before = params
        merged = tuple(sorted({*before, *places}))
        return write.place(primitive, tuple(given), (inner, inner_params, merged), position)
    return None
