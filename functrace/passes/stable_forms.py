"""Numerically stable forms: a pass on request, ``jit(f, passes=[ft.passes.stable])``.

Each row replaces a formula that loses digits, or overflows, by one with the same value in exact
arithmetic. Results therefore differ by rounding: the pass is not one of the pipeline.

Layer: 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final

from functrace.ir.parts import compact
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops import elementwise as ew
from functrace.ops.reductions import logsumexp_p, reduce_sum_p, softmax_p, variance_p
from functrace.ops.shaping import reshape_p
from functrace.passes.rewrite_rules import RewriteContext, Rule


@final
@dataclass(frozen=True, slots=True)
class StableForm:
    """A formula, and its stable form.

    Args:
        primitive: its last operation.
        rule: writes the stable form; ``None`` where the formula is another one.
        formula: as users write it.
        stable: its stable form.
        at: numbers at which the formula loses digits.

    Example:
        >>> import functrace as ft
        >>> [row.stable for row in ft.passes.STABLE_FORMS][:2]
        ['np.logaddexp(0, x)', 'np.log1p(x)']
    """

    primitive: Primitive
    rule: Rule
    formula: str
    stable: str
    at: tuple[float, ...]


def stable(program: Program) -> Program:
    """Replace formulas that lose digits by stable forms; bodies of loops and branches too.

    Args:
        program: any program.

    Returns:
        a program with the same value in exact arithmetic: `STABLE_FORMS` lists the formulas.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> def f(x):
        ...     return 1.0 - np.cos(x)
        >>> f(1e-9), bool(np.isclose(ft.jit(f, passes=[ft.passes.stable])(1e-9), 5e-19))
        (np.float64(0.0), True)

    Cost:
        about 2 us per equation.
    """
    return _rewritten(program, {})


def stable_forms(program: Program) -> dict[int, StableForm]:
    """Return the rows that apply to a program, by the operation that ends the formula."""
    found: dict[int, StableForm] = {}
    _rewritten(program, found)
    return found


def _rewritten(program: Program, found: dict[int, StableForm]) -> Program:
    """Apply the rows, and note them."""
    context = RewriteContext(program)
    is_changed = False
    for k, _ in program.schedule:
        if program.ops[k][0].holds is not None:
            context.write.keep(k, bodies=stable)
            is_changed = True
            continue
        applied = _applied(context, k)
        if applied is None:
            context.keep(k)
            continue
        found[k], result = applied
        context.replace(k, result)
        is_changed = True
    return compact(context.write.finish()) if is_changed else program


def _applied(context: RewriteContext, k: int) -> tuple[StableForm, int] | None:
    """Write the stable form of a formula; ``None`` if no row has one of the same shape and dtype.

    (A one that is an array of one element broadcasts: its formula has more axes than its operand.)
    """
    for row in STABLE_FORMS:
        result = row.rule(context, k) if row.primitive is context.program.ops[k][0] else None
        if result is not None:
            is_same = context.write.avals[result] is context.program.avals[k]
            return (row, result) if is_same else None
    return None


# -- rules -----------------------------------------------------------------------------------------


def _fits(c: RewriteContext, k: int, *operands: int) -> bool:
    """Return True if operands are variables of a result's real dtype."""
    dtype = c.program.avals[k].dtype
    return c.is_float(k) and all(i >= 0 and c.program.avals[i].dtype == dtype for i in operands)


def _plus_one(c: RewriteContext, i: int) -> int | None:
    """Return x of ``1 + x``."""
    found = c.operands(i, ew.add)
    if found is None:
        return None
    for x, one in (found, found[::-1]):
        if x >= 0 and c.finite(one) == 1.0:
            return x
    return None


def _number(c: RewriteContext, value: float) -> int:
    return c.write.literal(value)


def _softplus(c: RewriteContext, k: int) -> int | None:
    x = _plus_one(c, c.program.ops[k][1][0])
    return None if x is None else _softplus_of(c, k, x)


def _softplus_of(c: RewriteContext, k: int, x: int) -> int | None:
    inner = c.operands(x, ew.exp)
    if inner is None or not _fits(c, k, inner[0]):
        return None
    return c.put(k, ew.logaddexp, _number(c, 0.0), c.write.operand(inner[0]))


def _log1p_exp(c: RewriteContext, k: int) -> int | None:
    return _softplus_of(c, k, c.program.ops[k][1][0])


def _log1p(c: RewriteContext, k: int) -> int | None:
    x = _plus_one(c, c.program.ops[k][1][0])
    return c.put(k, ew.log1p, c.write.operand(x)) if x is not None and _fits(c, k, x) else None


def _expm1(c: RewriteContext, k: int) -> int | None:
    x, one = c.program.ops[k][1]
    inner = c.operands(x, ew.exp)
    if inner is None or c.finite(one) != 1.0 or not _fits(c, k, inner[0]):
        return None
    return c.put(k, ew.expm1, c.write.operand(inner[0]))


def _versine(c: RewriteContext, k: int) -> int | None:
    one, x = c.program.ops[k][1]
    inner = c.operands(x, ew.cos)
    if inner is None or c.finite(one) != 1.0 or not _fits(c, k, inner[0]):
        return None
    half = c.put(k, ew.mul, c.write.operand(inner[0]), _number(c, 0.5))
    return c.put(k, ew.mul, c.put(k, ew.square, c.put(k, ew.sin, half)), _number(c, 2.0))


def _square_of(c: RewriteContext, i: int) -> int | None:
    """Return x of ``x**2`` or ``x * x``."""
    found = c.operands(i, ew.square)
    if found is not None:
        return found[0]
    found = c.operands(i, ew.power)  # of Python's numbers
    if found is not None:
        return found[0] if c.finite(found[1]) == 2.0 else None
    found = c.operands(i, ew.mul)
    return found[0] if found is not None and found[0] == found[1] else None


def _hypot(c: RewriteContext, k: int) -> int | None:
    found = c.operands(c.program.ops[k][1][0], ew.add)
    roots = () if found is None else tuple([_square_of(c, i) for i in found])
    if not roots or roots[0] is None or roots[1] is None or not _fits(c, k, roots[0], roots[1]):
        return None
    return c.put(k, ew.hypot, c.write.operand(roots[0]), c.write.operand(roots[1]))


def _squares(c: RewriteContext, k: int) -> int | None:
    roots = [_square_of(c, i) for i in c.program.ops[k][1]]
    if roots[0] is None or roots[1] is None or not _fits(c, k, roots[0], roots[1]):
        return None
    x, y = c.write.operand(roots[0]), c.write.operand(roots[1])
    return c.put(k, ew.mul, c.put(k, ew.sub, x, y), c.put(k, ew.add, x, y))


def _logsumexp(c: RewriteContext, k: int) -> int | None:
    total = c.program.ops[k][1][0]
    moved = c.operands(total, reshape_p)
    inner = c.operands(total if moved is None else moved[0], reduce_sum_p)
    found = None if inner is None else c.operands(inner[0], ew.exp)
    if inner is None or found is None or not _fits(c, k, found[0]):
        return None
    source = total if moved is None else moved[0]
    axes = c.program.ops[source][2]
    made = c.write.place(logsumexp_p, (c.write.operand(found[0]),), axes, c.write.position(k))
    if moved is None:
        return made
    return c.write.place(reshape_p, (made,), c.program.ops[total][2], c.write.position(k))


def _softmax(c: RewriteContext, k: int) -> int | None:
    top, total = c.program.ops[k][1]
    moved = c.operands(total, reshape_p)
    source = total if moved is None else moved[0]
    inner = c.operands(source, reduce_sum_p)
    tops = c.operands(top, ew.exp)
    sums = None if inner is None else c.operands(inner[0], ew.exp)
    if tops is None or sums is None or tops[0] != sums[0] or not _fits(c, k, tops[0]):
        return None
    ops, avals = c.program.ops, c.program.avals
    (axes,), aval = ops[source][2], avals[tops[0]]
    kept = tuple([1 if n in axes else size for n, size in enumerate(aval.shape)])
    is_whole = aval.ndim == 1 and moved is None
    if len(axes) != 1 or not (is_whole or avals[total].shape == kept) or avals[k] is not aval:
        return None
    return c.write.place(softmax_p, (c.write.operand(tops[0]),), axes, c.write.position(k))


def _mean_of(c: RewriteContext, i: int) -> tuple[int, tuple[int, ...]] | None:
    """Return x and the axes of ``np.mean(x, axes)``."""
    found = c.operands(i, ew.div)
    total = None if found is None else c.operands(found[0], reduce_sum_p)
    if found is None or total is None:
        return None
    (axes,) = c.program.ops[found[0]][2]
    shape = c.program.avals[total[0]].shape
    size = math.prod([shape[k] for k in axes])  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return (total[0], axes) if c.finite(found[1]) == size else None


def _variance(c: RewriteContext, k: int) -> int | None:
    squares, mean = c.program.ops[k][1]
    first = _mean_of(c, squares)
    root = _square_of(c, mean)
    second = None if root is None else _mean_of(c, root)
    if first is None or second is None or first[1] != second[1]:
        return None
    x = second[0]
    if _square_of(c, first[0]) != x or not _fits(c, k, x):
        return None
    params = (first[1], 0)
    return c.write.place(variance_p, (c.write.operand(x),), params, c.write.position(k))


def _signed(c: RewriteContext, i: int) -> tuple[int, int]:
    """Return the sign of a term, and the term without it."""
    inner = c.operands(i, ew.neg)
    return (1, i) if inner is None else (-1, inner[0])


def _quadratic(c: RewriteContext, k: int) -> int | None:
    """``r + x`` with ``r = sqrt(x**2 + e)``: where x is negative, it is ``e / (r - x)``."""
    primitive, (first, second), _ = c.program.ops[k]
    terms = [_signed(c, first), _signed(c, second)]
    if primitive is ew.sub:
        terms[1] = (-terms[1][0], terms[1][1])
    for (sign, root), (other, x) in (terms, terms[::-1]):
        under = c.operands(root, ew.sqrt)
        if under is None or x < 0 or not _fits(c, k, root, x):
            continue
        rest = _rest_of_square(c, k, under[0], x)
        if rest is None:
            continue
        x = c.write.operand(x)
        total = c.put(k, ew.add, c.write.operand(root), c.put(k, ew.absolute, x))
        cancels = c.put(k, ew.less if sign == other else ew.greater, x, _number(c, 0.0))
        found = c.put(k, ew.where, cancels, c.put(k, ew.div, rest, total), total)
        return found if sign > 0 else c.put(k, ew.neg, found)
    return None


def _rest_of_square(c: RewriteContext, k: int, i: int, x: int) -> int | None:
    """Write e of ``x**2 + e`` or ``x**2 - d``."""
    for primitive in (ew.add, ew.sub):
        found = c.operands(i, primitive)
        if found is None:
            continue
        for square, rest in (found, found[::-1])[: 1 if primitive is ew.sub else 2]:
            root = _square_of(c, square)
            if root is None or _signed(c, root)[1] != x or (rest >= 0 and not _fits(c, k, rest)):
                continue
            if primitive is ew.add:
                return c.write.operand(rest)
            if rest < 0:
                value = c.finite(rest)
                return None if value is None else _number(c, -value)
            return c.put(k, ew.neg, c.write.operand(rest))
    return None


STABLE_FORMS: tuple[StableForm, ...] = (
    StableForm(ew.log, _softplus, "np.log(1 + np.exp(x))", "np.logaddexp(0, x)", (-40.0, 3.0, 800.0)),
    StableForm(ew.log, _log1p, "np.log(1 + x)", "np.log1p(x)", (1e-12, 3e-17, 2.0)),
    StableForm(ew.log1p, _log1p_exp, "np.log1p(np.exp(x))", "np.logaddexp(0, x)", (-40.0, 3.0, 800.0)),
    StableForm(ew.sub, _expm1, "np.exp(x) - 1", "np.expm1(x)", (1e-12, 3e-17, 2.0)),
    StableForm(ew.sub, _versine, "1 - np.cos(x)", "2 * np.sin(x / 2)**2", (1e-9, 1e-4, 2.0)),
    StableForm(ew.sqrt, _hypot, "np.sqrt(x**2 + (x + 1)**2)", "np.hypot(x, y)", (1e-4, 3.0, 1e200)),
    StableForm(ew.sub, _variance, "np.mean(x**2) - np.mean(x)**2", "np.var(x)", (1e9, 1e9 + 1, 1e9 + 3)),
    StableForm(ew.sub, _squares, "(x + 1)**2 - x**2", "(x - y) * (x + y)", (1e-3, 3e11, 1e12)),
    StableForm(ew.add, _quadratic, "-x + np.sqrt(x**2 - 0.25)", "-0.25 / (x + root) where x > 0", (1e5, 3e7, 0.75)),
    StableForm(ew.sub, _quadratic, "-x - np.sqrt(x**2 - 0.25)", "0.25 / (root - x) where x < 0", (-1e5, -3e7, -0.75)),
    StableForm(ew.log, _logsumexp, "np.log(np.sum(np.exp(x)))", "logsumexp", (1000.0, 999.0, 1.0)),
    StableForm(ew.div, _softmax, "np.exp(x) / np.sum(np.exp(x))", "softmax, shifted by its maximum", (710.0, 709.0, 1.0)),
)  # fmt: skip
"""The formulas; the first row that applies is used."""
