"""Reasons and remedies: the derivative through which a NaN or an infinity came, and what to do.

Layer: 6.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.diagnostics.origins import Origin
from functrace.errors import FunctraceError
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly
from functrace.ir.primitive import Primitive, RuleMarker
from functrace.ops import elementwise as ew
from functrace.ops.broadcasting import Elementwise
from functrace.source import Source
from functrace.transforms.derivatives import jvp_program
from functrace.typing import Array


@final
@dataclass(frozen=True, slots=True)
class LocalDerivative:
    """A partial derivative that is not finite.

    Args:
        primitive: the operation that was differentiated.
        operand: position of the operand.
        at: values of its operands at an element.
        value: the derivative there.
    """

    primitive: Primitive
    operand: int
    at: tuple[Any, ...]
    value: Any

    def __str__(self) -> str:
        names = "xyzuvw"[: len(self.at)]
        called = f"{self.primitive.name}({', '.join(names)})"
        where = ", ".join(f"{n} = {number(v)}" for n, v in zip(names, self.at, strict=True))
        return f"d {called}/d{names[self.operand]} at {where} is {number(self.value)}"


def number(value: object) -> str:
    """Write a number in few digits."""
    return f"{value:.6g}" if isinstance(value, float | complex | np.inexact) else f"{value}"


def local_derivative(origin: Origin) -> LocalDerivative | None:
    """Return the infinite partial derivative that an operation computes, or is part of.

    An operation of a derivative has the position of the operation that was differentiated. So the
    partial derivatives of earlier operations there, whose rules use the operation's primitive, are
    computed at the values of this run. If the differentiated operation is not in the program, since
    its value is not needed, its name is in the user's line, and its operands are those that the
    operations at the position do not compute.
    """
    frame, k = origin.frame, origin.k
    position = frame.instruction(k)
    if position is None:
        return None
    made_by, here = frame.program.ops[k][0], list[int]()
    named = _named_in(Source(*position))
    for j, _ in reversed(frame.program.schedule):
        if j > k or frame.instruction(j) != position:
            continue
        here.append(j)
        primitive, operands, _ = frame.program.ops[j]
        if j < k and _rule_uses(primitive, made_by, operands):
            values = [frame.operand(i) for i in operands]
            found = _infinite_partial(primitive, values, frame.values[j], origin)
            if found is not None:
                return found
    if named is None or named is made_by:
        return None
    outside = dict.fromkeys([i for j in here for i in frame.program.ops[j][1] if i not in here])
    arity = named.eval.nin  # type: ignore[attr-defined]
    for chosen in itertools.permutations(outside, arity):
        values = [frame.operand(i) for i in chosen]
        if arity == 2 and named is not ew.div and chosen[0] < 0:
            continue
        with np.errstate(all="ignore"):
            output = named.eval(*values)
        if not _rule_uses(named, made_by, chosen) or np.shape(output) != origin.mask.shape:
            continue
        found = _infinite_partial(named, values, output, origin)
        if found is not None:
            return found
    return None


_OPERATORS: dict[type[ast.operator], Elementwise] = {ast.Div: ew.div, ast.Pow: ew.power}


def _named_in(source: Source) -> Elementwise | None:
    """Return the elementwise primitive that a user's expression names; ``None`` for others."""
    function = vars(np).get(source.called.rpartition(".")[2])
    if isinstance(function, np.ufunc):
        return ew.UFUNCS.get(function)
    return None if source.operator is None else _OPERATORS.get(source.operator)


def _rule_uses(primitive: Primitive, part: Primitive, operands: Sequence[int]) -> bool:
    """Return True if the derivative rule of an elementwise primitive applies another one."""
    if not isinstance(primitive, Elementwise) or isinstance(primitive.jvp, RuleMarker):
        return False
    return part in _parts_of_rule(primitive, tuple([i >= 0 for i in operands]))


@functools.lru_cache(maxsize=256)
def _parts_of_rule(primitive: Elementwise, is_variable: tuple[bool, ...]) -> frozenset[Primitive]:
    build, aval = Assembly(), ShapeDtype((), np.dtype(np.float64))
    inputs = [build.input(aval) for flag in is_variable if flag]
    given = iter(inputs)
    operands = tuple([next(given) if flag else build.literal(0.5) for flag in is_variable])
    try:
        result = build.place(primitive, operands, ())
        pushed = jvp_program(build.program([result], primitive.name), [True] * len(inputs))
    except FunctraceError:  # not defined for real numbers, or not differentiable
        return frozenset()
    return frozenset(pushed.ops[k][0] for k, _ in pushed.schedule if k != result)


def partial_at(primitive: Primitive, values: Sequence[Any], output: Array, place: int) -> Any:
    """Return the partial derivative of an operation by one operand; ``None`` if it has none.

    Args:
        primitive: the operation, with a jvp rule.
        values: its operands.
        output: its result.
        place: position of the operand.
    """
    tangents: list[Any] = [None] * len(values)
    tangents[place] = np.ones_like(values[place])
    rule: Any = primitive.jvp
    return rule(tuple(values), (np.asarray(output),), tuple(tangents))


def _infinite_partial(
    primitive: Primitive, values: Sequence[Any], result: object, origin: Origin
) -> LocalDerivative | None:
    """Return a partial derivative of an operation that is not finite where its operands are."""
    output = np.asarray(result)
    if primitive.many or isinstance(primitive.jvp, RuleMarker):
        return None
    with np.errstate(all="ignore"):
        for place, value in enumerate(values):
            if isinstance(value, int | float | complex) and not isinstance(value, np.generic):
                continue
            if np.asarray(value).dtype.kind not in "fc":
                continue
            slope = partial_at(primitive, values, output, place)
            if slope is None:
                continue
            slope = np.broadcast_to(np.asarray(slope), output.shape)
            bad = ~np.isfinite(slope)
            for x in values:
                bad &= np.broadcast_to(np.isfinite(x), output.shape)
            if origin.mask.shape == output.shape:
                bad &= origin.mask
            if bad.any():
                index = tuple(np.argwhere(bad)[0])
                at = [np.broadcast_to(x, output.shape)[index] for x in values]
                return LocalDerivative(primitive, place, tuple(at), slope[index])
    return None


@final
@dataclass(frozen=True, slots=True)
class Remedy:
    """A known remedy.

    Args:
        of: primitives of the operation, or of the operation that was differentiated.
        is_derivative: True if a derivative of it is infinite or NaN, False if itself is.
        when: called with the operands' values at the offending element.
        text: what to do.
    """

    of: tuple[Primitive, ...]
    is_derivative: bool
    when: Callable[..., Any]
    text: str


def _any(*_values: object) -> bool:
    return True


_BOTH_SIDES = (
    "if np.where selects another value there, select the operand too: "
    "y = np.where(ok, {}, 0.0) with {}; or functrace.strong_zero(f)"
)

REMEDIES: tuple[Remedy, ...] = (
    Remedy(
        (ew.sqrt,),
        True,
        lambda x: x == 0,
        _BOTH_SIDES.format("np.sqrt(safe)", "safe = np.where(ok, x, 1.0)")
        + "; the length of a vector is np.linalg.norm(x), or np.hypot(x, y), whose derivative at 0 is 0",
    ),
    Remedy(
        (ew.power, ew.float_power, ew.cbrt),
        True,
        _any,
        _BOTH_SIDES.format("safe ** p", "safe = np.where(ok, x, 1.0)"),
    ),
    Remedy(
        (ew.log, ew.log2, ew.log10),
        True,
        _any,
        _BOTH_SIDES.format("np.log(safe)", "safe = np.where(ok, x, 1.0)")
        + "; or keep x away from 0: np.log(np.maximum(x, tiny))",
    ),
    Remedy(
        (ew.log1p,),
        True,
        _any,
        "clip the operand: np.log1p(np.maximum(x, -1.0 + tiny))",
    ),
    Remedy(
        (ew.arcsin, ew.arccos, ew.arctanh),
        True,
        _any,
        "the derivative is infinite at -1 and 1: clip the operand inside, np.clip(x, -1 + eps, 1 - eps); "
        "an angle between vectors is np.arctan2(sin, cos)",
    ),
    Remedy(
        (ew.arccosh,), True, _any, "the derivative is infinite at 1: use np.maximum(x, 1 + eps)"
    ),
    Remedy(
        (ew.div, ew.reciprocal),
        True,
        _any,
        _BOTH_SIDES.format("a / safe", "safe = np.where(ok, b, 1.0)"),
    ),
    Remedy(
        (ew.sqrt,),
        False,
        lambda x: x < 0,
        "the operand is negative, by rounding or a wrong sign: np.sqrt(np.maximum(x, 0.0)); a variance is "
        "np.mean((x - np.mean(x)) ** 2)",
    ),
    Remedy(
        (ew.log, ew.log2, ew.log10),
        False,
        lambda x: x < 0,
        "the operand is negative: clip it, np.log(np.maximum(x, tiny)), or use "
        "np.where(ok, np.log(np.where(ok, x, 1.0)), 0.0)",
    ),
    Remedy(
        (ew.log, ew.log2, ew.log10),
        False,
        lambda x: x == 0,
        "log(0) is -inf: keep the operand positive, np.log(np.maximum(x, tiny)); np.log1p(x) for log(1 + x); "
        "for probabilities compute the logarithm from the logits: x - logsumexp(x)",
    ),
    Remedy(
        (ew.log1p,),
        False,
        _any,
        "the operand is at most -1: np.log1p(np.maximum(x, -1.0 + tiny))",
    ),
    Remedy(
        (ew.exp, ew.exp2, ew.expm1, ew.sinh, ew.cosh),
        False,
        _any,
        "exp overflows: subtract the maximum first, np.exp(x - np.max(x)); np.logaddexp(0, x) for "
        "log(1 + exp(x)); 1 / (1 + exp(-x)) as functrace.nn.sigmoid(x)",
    ),
    Remedy(
        (ew.div, ew.reciprocal),
        False,
        lambda *x: x[-1] == 0,
        "the denominator is 0: np.where(ok, a / np.where(ok, b, 1.0), 0.0) with ok = b != 0",
    ),
    Remedy(
        (ew.div,),
        False,
        lambda a, b: np.isinf(a) and np.isinf(b),
        "both are infinite: for a softmax subtract the maximum before exp",
    ),
    Remedy(
        (ew.sub, ew.add),
        False,
        lambda a, b: np.isinf(a) and np.isinf(b),
        "infinities cancel: for log(sum(exp)) subtract the maximum, for log(1 + exp(x)) use "
        "np.logaddexp(0, x)",
    ),
    Remedy(
        (ew.mul,),
        False,
        lambda a, b: a == 0 or b == 0,
        "0 times inf is nan: select with np.where instead of multiplying by a mask, on the operand too; in "
        "a derivative, functrace.strong_zero(f)",
    ),
    Remedy(
        (ew.arcsin, ew.arccos, ew.arctanh),
        False,
        _any,
        "the operand is outside of [-1, 1], by rounding: np.clip(x, -1.0, 1.0)",
    ),
    Remedy((ew.arccosh,), False, _any, "the operand is less than 1: np.maximum(x, 1.0)"),
    Remedy(
        (ew.square, ew.mul),
        False,
        _any,
        "the product overflows: scale the operands first; np.hypot(x, y) for sqrt(x**2 + y**2), "
        "sums of logarithms for products",
    ),
    Remedy(
        (ew.power, ew.float_power),
        False,
        lambda x, n: x < 0,
        "a negative number has no real power of that exponent: np.abs(x) ** p * np.sign(x), or "
        "np.maximum(x, 0.0) ** p",
    ),
    Remedy(
        (ew.power, ew.float_power),
        False,
        lambda x, n: x == 0,
        "0 to a negative power is inf: np.where(ok, np.where(ok, x, 1.0) ** p, 0.0)",
    ),
)
"""Known remedies; the first that fits is shown."""


def remedy(origin: Origin, derivative: LocalDerivative | None, at: tuple[Any, ...]) -> str | None:
    """Return what to do about an origin; ``None`` if no remedy is known.

    Args:
        origin: the operation.
        derivative: the derivative that it is part of.
        at: the values of its operands at the element.
    """
    if derivative is not None:
        found = _fitting(derivative.primitive, True, derivative.at)
        if found is not None:
            return found
    return _fitting(origin.frame.program.ops[origin.k][0], False, at)


def _fitting(primitive: Primitive, is_derivative: bool, at: tuple[Any, ...]) -> str | None:
    for row in REMEDIES:
        if primitive not in row.of or row.is_derivative is not is_derivative:
            continue
        if not any(np.iscomplexobj(x) for x in at) and _fits(row.when, at):
            return row.text
    return None


def _fits(when: Callable[..., Any], at: tuple[Any, ...]) -> bool:
    """Return True if a condition takes as many operands, and holds for them."""
    try:
        inspect.signature(when).bind(*at)
    except TypeError:
        return False
    return bool(when(*at))
