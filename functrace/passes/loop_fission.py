"""Loops in parts: what a step of a loop computes, but the next step does not need, is computed for all steps at once.

A loop of known length falls into what can be computed before it (from slices and constants alone), what one step hands to
the next, and what can be computed after it, from what is stacked. A carry that is only added to, as cotangents of weights
are, leaves the loop: the sum of products over all steps is one product of matrices. Only the rest runs step by step.

Note [What a loop is divided by]
    * Operations are moved if they neither raise nor call the user's code, and if a batch rule says what they are for all
      steps. Those of linear algebra that may raise are moved behind the loop, never before it: steps raise in their order,
      unless the same operation for all of them does. A loop whose body calls the user's code stays whole, and so does every
      loop of a program in which something is computed again on purpose: there, memory counts for more than time.
    * A step's array of more than `LARGEST` bytes stays in the loop, or one that is not small and leaves the cache if all
      steps are computed together: a call costs little beside it.
    * Beside what the loop stacks in any case, no more is stacked than that once more, or `FEWEST` bytes.
    * What is added to a carry and what is subtracted from it may be large, and their difference small: they meet in each
      step, before it is summed over steps. Products of which one is added and another one subtracted stay in the loop.
    * Products and sums over all steps round differently from a product per step: the row says so (`Pass.exact`), and it is
      applied only by ``jit``, whose calls all run the same code.

Layer: 6.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, final

from functrace.control.residuals import packs
from functrace.control.scan import scan_p
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Assembly, Restriction, Rewrite, restrict
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops.cholesky import cholesky_p
from functrace.ops.contraction import matmul_p
from functrace.ops.elementwise import Elementwise, add, mul, neg, sub
from functrace.ops.indexing import embed_p, index_p
from functrace.ops.joining import concatenate_p, stack_p
from functrace.ops.linalg import cofactor_p, det_p, inv_p, solve_p
from functrace.ops.naming import name_p
from functrace.ops.reductions import logsumexp_p, reduce_max_p, reduce_min_p, reduce_sum_p, same_p
from functrace.ops.shaping import broadcast_to_p, convert_p, permute_p, reshape_p
from functrace.ops.triangular import solve_triangular_p
from functrace.passes.algebraic_simplify import simplify, sink_broadcasts
from functrace.passes.constant_folding import fold_constants
from functrace.passes.cse import merge_common_subexpressions
from functrace.passes.dce import drop_dead_results
from functrace.passes.inlining import inline_calls
from functrace.transforms.vmap import vmap_program

SHORTEST = 4
"""Steps: shorter loops stay whole."""
LARGEST = 1 << 16
"""Bytes: larger results of a step are computed in the loop."""
SMALL, IN_CACHE = 1 << 12, 1 << 21
"""Bytes of a step, and of all steps: of results larger than both, only products are moved. Measured on 1,000 steps of four
elementwise operations on 8 KiB: 27 ms in the loop, 40 outside; on 100 steps 10 and 5."""
FEWEST = 1 << 20
"""Bytes that may be stacked beside what is stacked in any case."""

_ALL = (None, None, None)
"""The index of a whole axis."""

_MOVED: frozenset[Primitive] = frozenset(
    {
        broadcast_to_p, concatenate_p, convert_p, det_p, embed_p, index_p, logsumexp_p, matmul_p, permute_p, reduce_max_p,
        reduce_min_p, reduce_sum_p, reshape_p, same_p, stack_p,
    }
)  # fmt: skip
"""Primitives that may be carried out for all steps, beside elementwise ones."""

_LAST: frozenset[Primitive] = frozenset({cholesky_p, cofactor_p, inv_p, solve_p, solve_triangular_p})
"""Primitives that may raise, and be carried out for all steps when the loop has come to its end."""

_THROUGH: frozenset[Primitive] = frozenset({reshape_p, permute_p, neg, embed_p, convert_p})
"""Linear primitives of one operand: the sum over steps may be taken before them."""


def fission_loops(program: Program) -> Program:
    """Return an equal program whose loops do step by step only what has to be done so; sums over steps round differently.

    Args:
        program: a program without calls.

    Cost:
        nothing without loops; else about 0.1 ms per operation of their bodies.
    """
    if not _has_loops(program) or _computes_again(program):
        return program
    write = Rewrite(program)
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if primitive.holds is None:
            write.keep(k)
            continue
        inner = tuple(map(_inside, params))
        parts = _divided(program, k, inner) if primitive is scan_p else None
        if parts is not None:
            _write(write, k, parts)
        elif inner == params:
            write.keep(k)
        else:
            first = write.place(primitive, tuple(map(write.operand, operands)), inner, write.position(k))
            write.replace(k, range(first, first + (program.result_count(k) if primitive.many else 1)))
    return write.finish()


def _inside(param: Any) -> Any:
    """Divide the loops in programs that an operation holds."""
    parts: Any = param
    if type(param) is tuple:
        return tuple(map(_inside, parts))
    if not isinstance(param, Program) or not _has_loops(param):
        return param
    made = fission_loops(inline_calls(param))
    return param if made is param else made.interned()


def _has_loops(program: Program) -> bool:
    return scan_p in program.kinds or any(op[0].holds is not None and _holds_loops(op[2]) for op in program.ops)


def _holds_loops(param: Any) -> bool:
    parts: Any = param
    return any(map(_holds_loops, parts)) if type(param) is tuple else isinstance(param, Program) and _has_loops(param)


def _computes_again(program: Program) -> bool:
    return name_p in program.kinds


# -- which part an operation belongs to ------------------------------------------------------------------------------------


class _Term(NamedTuple):
    """A part of what a step adds to a carry: how its sum over all steps comes of what is stacked.

    Args:
        operands: variables of the body of which all steps are needed.
        kind: ``"sum"`` over the axes of ``axes``, counted in a step, and over steps; ``"product"`` of matrices, or
            ``"outer"`` product of vectors, also summed over steps.
        axes: see above.
        after: operations, last first, that are applied to the sum.
        sign: 1 or -1.
    """

    operands: tuple[int, ...]
    kind: str
    axes: tuple[int, ...]
    after: tuple[int, ...]
    sign: int


class _Parts(NamedTuple):
    """How a loop is divided; variables are the body's."""

    body: Program
    length: int
    reverse: bool
    constants: int
    carries: int
    before: tuple[int, ...]
    """Variables that are computed before the loop: once, or for all steps."""
    once: frozenset[int]
    """The variables that are the same in every step."""
    looped: tuple[int, ...]
    """Places of carries that stay."""
    stacked: tuple[int, ...]
    """Variables that the loop stacks."""
    shifted: tuple[int, ...]
    """Places of carries of which what they were before each step is needed, for all steps."""
    results: dict[int, int]
    """By place of a result: the variable of which it holds all steps."""
    sums: dict[int, tuple[_Term, ...]]
    """By place of a carry that leaves the loop: what is added to it."""
    wanted: tuple[int, ...]
    """Variables of which all steps are needed after the loop."""


def _prepared(body: Program) -> Program:
    """What the pipeline makes of a body, before it is divided."""
    return merge_common_subexpressions(simplify(sink_broadcasts(fold_constants(drop_dead_results(inline_calls(body))))))


def _divided(program: Program, k: int, params: tuple[Any, ...]) -> _Parts | None:
    """Divide a loop, if there is anything that need not be in it."""
    body, length, reverse, constants, carries = params
    if any(i < 0 for i in program.ops[k][1]):
        return None
    if type(length) is not int or length < SHORTEST or packs(body) or body.keeps:
        return None
    body = inline_calls(body)
    if _computes_again(body) or any(op[0].effects for op in body.ops):
        return None
    if not all(type(n) is int for aval in body.avals for n in aval.shape):
        return None
    return _Division(_prepared(body), length, reverse, constants, carries).parts()


@final
class _Division:
    """Finds the parts of one loop."""

    def __init__(self, body: Program, length: int, reverse: bool, constants: int, carries: int) -> None:
        self.body = body
        self.length, self.reverse, self.constants, self.carries = length, reverse, constants, carries
        ids = body.input_ids
        self.carried = {i: j for j, i in enumerate(ids[constants : constants + carries])}
        self.maker: dict[int, int] = {}
        self.uses: Counter[int] = Counter(body.output_ids)
        for k, _ in body.schedule:
            for j in range(k, k + (body.result_count(k) if body.ops[k][0].many else 1)):
                self.maker[j] = k
            self.uses.update([i for i in body.ops[k][1] if i >= 0])
        stacked = (*ids[constants + carries :], *body.output_ids[carries:])
        self.bound = max(sum(map(self.all_bytes, stacked)), FEWEST)
        self.once: set[int] = {*ids[:constants], *body.constant_values}
        self.rows: set[int] = set(ids[constants + carries :])
        self.slices = frozenset(self.rows)
        for k, _ in body.schedule:
            operands = [i for i in body.ops[k][1] if i >= 0]
            if not self.moves(k):
                continue
            if all(i in self.once for i in operands):
                self.once.add(k)
            elif all(i in self.once or i in self.rows for i in operands):
                self.rows.add(k)

    def moves(self, k: int) -> bool:
        """Whether an operation may be carried out outside of the loop."""
        primitive, _, params = self.body.ops[k]
        body = self.body
        primitive, operands, params = body.ops[k]
        if primitive.many or not (primitive in _MOVED or isinstance(primitive, Elementwise)):
            return False
        if primitive.fails is not None and primitive.fails(*map(body.spec, operands), *params):
            return False
        one, whole = body.avals[k].nbytes, self.all_bytes(k)
        is_small = one <= SMALL or whole <= IN_CACHE or primitive is matmul_p
        return self.is_view(k) or (is_small and one <= LARGEST and whole <= self.bound)

    def ends(self, k: int) -> bool:
        """Whether an operation may be carried out after the loop, though it may raise."""
        is_small = self.body.avals[k].nbytes <= LARGEST and self.all_bytes(k) <= self.bound
        return self.body.ops[k][0] in _LAST and is_small

    def is_view(self, k: int) -> bool:
        """Whether an operation only looks at its operand in another way."""
        return self.body.ops[k][0] in (reshape_p, permute_p, index_p)

    def all_bytes(self, i: int) -> int:
        """The bytes of all steps of a variable."""
        return self.length * self.body.avals[i].nbytes

    # -- carries that are only added to --------------------------------------------------------

    def terms_of(self, place: int) -> tuple[_Term, ...] | None:
        """What a step adds to a carry, if that is all that it does with it."""
        body = self.body
        start, end = body.input_ids[self.constants + place], body.output_ids[place]
        aval = body.avals[start]
        if aval.dtype.kind not in "fc" or aval.dtype.itemsize < 4 or start == end or self.uses[start] != 1:
            return None
        found: list[_Term] = []
        whole: list[_Term] = []
        while end != start:
            k = self.maker.get(end)
            if k is None or self.uses[end] != 1 or body.ops[k][0] not in (add, sub):
                return None
            left, right = body.ops[k][1]
            on_left = left >= 0 and self.leads(left, start)
            on_right = right >= 0 and self.leads(right, start)
            if on_left == on_right or (on_right and body.ops[k][0] is sub):
                return None
            path, other = (left, right) if on_left else (right, left)
            if other < 0 or body.avals[path] is not aval or body.avals[other].dtype != aval.dtype:
                return None
            sign = 1 if body.ops[k][0] is add else -1
            terms = self.terms(other, sign, ())
            if terms is None:
                return None
            found = [*terms, *found]
            whole = [_Term((other,), "sum", (), (), sign), *whole]
            end = path
        if len(whole) > 1 and all(term.kind == "sum" for term in found):
            return tuple(whole) if self.length * aval.nbytes <= self.bound else None
        return tuple(found) if len({self.sign(term) for term in found}) < 2 else None

    def sign(self, term: _Term) -> int:
        """The sign that the sum of a term gets in the end."""
        return term.sign * (-1) ** sum([self.body.ops[k][0] is neg for k in term.after])

    def leads(self, i: int, start: int) -> bool:
        """Whether additions alone lead from a variable back to another one."""
        while i != start:
            k = self.maker.get(i)
            if k is None or self.body.ops[k][0] not in (add, sub):
                return False
            operands = [j for j in self.body.ops[k][1] if j >= 0]
            if start in operands:
                return True
            inner = [j for j in operands if self.uses[j] == 1 and self.leads(j, start)]
            if len(inner) != 1:
                return False
            (i,) = inner
        return True

    def terms(self, i: int, sign: int, after: tuple[int, ...]) -> list[_Term] | None:
        """How the sum of a variable over all steps is computed; ``None`` if it is the same in every step."""
        body = self.body
        if i in self.once:
            return None
        k, own = self.maker.get(i), body.avals[i]
        if own.dtype.kind not in "fc" or own.dtype.itemsize < 4:
            return None
        if k is None or (self.uses[i] != 1 and own.nbytes <= LARGEST):
            return [_Term((i,), "sum", (), after, sign)]
        primitive, operands, params = body.ops[k]
        given = [body.avals[j] if j >= 0 else None for j in operands]
        if primitive in (add, sub) and not after and all(aval is not None and aval.dtype == own.dtype for aval in given):
            left = self.terms(operands[0], sign, after)
            right = self.terms(operands[1], sign if primitive is add else -sign, after)
            if left is not None and right is not None and any(term.kind != "sum" for term in (*left, *right)):
                return [*left, *right]
        elif primitive in _THROUGH and given[0] is not None and given[0].dtype == own.dtype:
            return self.terms(operands[0], sign, (*after, k))
        elif primitive is reduce_sum_p and given[0] is not None and given[0].nbytes <= LARGEST:
            return [_Term((operands[0],), "sum", tuple(params[0]), after, sign)]
        elif len(operands) == 2 and all(aval is not None and aval.dtype == own.dtype for aval in given):
            left, right = given
            assert left is not None and right is not None
            varies = [j not in self.once for j in operands]
            if primitive is matmul_p and left.ndim == right.ndim == 2 and all(varies):
                return [_Term(operands, "product", (), after, sign)]
            if primitive is mul and all(varies) and own.ndim == 2 and left.ndim <= 2 and right.ndim <= 2:
                for x, y in (operands, operands[::-1]):
                    first, second = body.avals[x].shape, body.avals[y].shape
                    if first == (own.shape[0], 1) and second in ((own.shape[1],), (1, own.shape[1])) and own.shape[1] > 1:
                        return [_Term((self.unshaped(x), self.unshaped(y)), "outer", (), after, sign)]
        return [_Term((i,), "sum", (), after, sign)]

    def unshaped(self, i: int) -> int:
        """What a variable is only another shape of."""
        while i not in self.once and (k := self.maker.get(i)) is not None and self.body.ops[k][0] is reshape_p:
            (i,) = self.body.ops[k][1]
        return i

    # -- the cut -------------------------------------------------------------------------------

    def parts(self) -> _Parts | None:
        """Choose what stays."""
        body, carries = self.body, self.carries
        sums = {j: terms for j in range(carries) if (terms := self.terms_of(j)) is not None}
        self.looped: set[int] = set()  # operations in the loop
        self.stacked: dict[int, None] = {}
        self.shifted: dict[int, None] = {}
        self.extra = 0
        self.need([i for j, i in enumerate(body.output_ids[:carries]) if j not in sums])
        results: dict[int, int] = {}
        for place, i in enumerate(body.output_ids[carries:], carries):
            results[place] = i
            freed = -self.all_bytes(i) if self.uses[i] == 1 else 0
            if i in self.once or not self.keeps_order(i) or not self.take([i], freed):
                self.need([i])
                self.stacked[i] = None
        for j, terms in list(sums.items()):
            if not self.take([i for term in terms for i in term.operands], 0):
                del sums[j]
                self.need([body.output_ids[j]])
        before = self.before([*[body.output_ids[j] for j in range(carries) if j not in sums], *self.stacked])
        wanted = dict.fromkeys([*results.values(), *[i for terms in sums.values() for t in terms for i in t.operands]])
        outside = [i for i in wanted if i not in self.stacked and i not in self.slices]
        if not (sums or before or outside):
            return None
        return _Parts(
            body, self.length, self.reverse, self.constants, carries, tuple(before), frozenset(self.once),
            tuple([j for j in range(carries) if j not in sums]), tuple(self.stacked), tuple(self.shifted), results, sums,
            tuple(wanted),
        )  # fmt: skip

    def keeps_order(self, i: int) -> bool:
        """Whether all steps of a variable, computed outside of the loop, lie in memory as the loop would stack them."""
        waiting, seen = [i], set[int]()
        while waiting:
            i = waiting.pop()
            k = self.maker.get(i)
            if i in seen or i in self.once or k is None:
                continue
            seen.add(i)
            if self.body.ops[k][0] is permute_p or (len(seen) == 1 and self.body.ops[k][0] is broadcast_to_p):
                return False
            if (self.moves(k) or self.ends(k)) and k not in self.looped:
                waiting += [j for j in self.body.ops[k][1] if j >= 0]
        return True

    def inside(self, i: int) -> bool:
        """Whether a variable is of a step: neither the same in every step, nor computed from slices alone."""
        return i >= 0 and i not in self.once and i not in self.rows

    def need(self, variables: Iterable[int]) -> None:
        """Leave what computes variables in the loop."""
        waiting = [i for i in variables if self.inside(i)]
        while waiting:
            k = self.maker.get(waiting.pop())
            if k is not None and k not in self.looped:
                self.looped.add(k)
                waiting += [i for i in self.body.ops[k][1] if self.inside(i)]

    def take(self, variables: Sequence[int], freed: int) -> bool:
        """Try to compute variables after the loop, from what is stacked; returns whether that needs little enough."""
        stacked: dict[int, None] = {}
        shifted: dict[int, None] = {}
        seen: set[int] = set()
        waiting = list(variables)
        while waiting:
            i = waiting.pop()
            if not self.inside(i) or i in seen:
                continue
            seen.add(i)
            if i in self.carried:
                end = self.body.output_ids[self.carried[i]]
                if self.inside(end) and end not in self.carried:
                    shifted[self.carried[i]] = None
                    stacked[end] = None
                else:
                    stacked[i] = None
                continue
            k = self.maker[i]
            if i in self.stacked or not (self.moves(k) or self.ends(k)) or (k in self.looped and not self.is_view(k)):
                stacked[i] = None
                continue
            waiting += [j for j in self.body.ops[k][1] if j >= 0]
        new = [i for i in stacked if i not in self.stacked]
        moved = [self.body.output_ids[j] for j in shifted if j not in self.shifted]
        extra = self.extra + freed + sum(map(self.all_bytes, [*new, *moved]))
        if extra > self.bound:
            return False
        self.extra = extra
        self.stacked.update(stacked)
        self.shifted.update(shifted)
        self.need(stacked)
        return True

    def before(self, ends: Sequence[int]) -> list[int]:
        """The variables that the loop reads and need not compute: those that are no inputs."""
        body = self.body
        inputs = {*body.input_ids, *body.constant_values}
        read = [i for k in sorted(self.looped) for i in body.ops[k][1] if i >= 0]
        found = dict.fromkeys([i for i in (*read, *ends) if i not in inputs and not self.inside(i)])
        room = self.bound
        chosen: dict[int, None] = {}
        waiting = list(found)
        while waiting:
            i = waiting.pop(0)
            if i in chosen or i in inputs:
                continue
            cost = 0 if i in self.once or self.is_view(self.maker[i]) else self.all_bytes(i)
            if cost <= room:
                room -= cost
                chosen[i] = None
            else:  # it is computed in the loop after all
                self.rows.discard(i)
                self.looped.add(self.maker[i])
                waiting += [j for j in body.ops[self.maker[i]][1] if j >= 0]
        return list(chosen)


# -- the program in parts --------------------------------------------------------------------------------------------------


def _write(write: Rewrite, k: int, parts: _Parts) -> None:
    """Write the operations that take a loop's place."""
    body, count = parts.body, parts.constants + parts.carries
    ids = body.input_ids
    given = [write.operand(i) for i in write.source.ops[k][1]]
    position = write.position(k)
    place = _Places(write, position)
    steps: dict[int, int] = dict(zip(ids[count:], given[count:], strict=True))  # all steps of a variable
    fixed: dict[int, int] = dict(zip(ids[: parts.constants], given[: parts.constants], strict=True))
    for name, wanted in (("once", parts.once), ("rows", None)):
        chosen = [i for i in parts.before if (i in parts.once) == (wanted is not None)]
        if chosen:
            made = restrict(body, [*fixed, *steps], chosen)
            values = [fixed[i] if i in fixed else steps[i] for i in made.used]
            mapped = made.program if name == "once" else _mapped(made, fixed, parts.length)
            found = write.splice(mapped, values)
            (fixed if name == "once" else steps).update(zip(chosen, found, strict=True))
    starts = given[parts.constants : count]
    looped = [body.output_ids[j] for j in parts.looped]
    after = _loop(write, parts, [*looped, *parts.stacked], fixed, steps, [starts[j] for j in parts.looped], position)
    ends = dict(zip(parts.looped, after, strict=False))
    steps.update(zip(parts.stacked, after[len(looped) :], strict=True))
    for j in parts.shifted:
        steps[ids[parts.constants + j]] = place.shifted(starts[j], steps[body.output_ids[j]], parts.reverse)
    rest = [i for i in parts.wanted if i not in steps]
    if rest:
        made = restrict(body, [*fixed, *steps], rest)
        values = [fixed[i] if i in fixed else steps[i] for i in made.used]
        steps.update(zip(rest, write.splice(_mapped(made, fixed, parts.length), values), strict=True))
    for j, terms in parts.sums.items():
        total = starts[j]
        groups: list[list[_Term]] = [list(terms)] if all(map(_is_whole, terms)) else [[term] for term in terms]
        for group in groups:
            found = place.met(group, steps) if len(group) > 1 else place.total(body, group[0], steps)
            total = place.added(total, found, group[0].sign)
        ends[j] = total
    results = [ends[j] for j in range(parts.carries)]
    results += [steps[parts.results[n]] for n in range(parts.carries, len(body.output_ids))]
    write.replace(k, results)


def _is_whole(term: _Term) -> bool:
    """Whether a term is nothing but what a step adds."""
    return term.kind == "sum" and not term.axes and not term.after


def _mapped(made: Restriction, fixed: dict[int, int], length: int) -> Program:
    """The part of a body, for all steps at once; ``fixed`` is what is the same in every step."""
    return vmap_program(made.program, length, [i not in fixed for i in made.used])


def _loop(
    write: Rewrite,
    parts: _Parts,
    outputs: Sequence[int],
    fixed: dict[int, int],
    steps: dict[int, int],
    starts: Sequence[int],
    position: Any,
) -> Sequence[int]:
    """Write what is left of a loop; returns its results."""
    if not outputs:
        return ()
    body, ids = parts.body, parts.body.input_ids
    carried = [ids[parts.constants + j] for j in parts.looped]
    used = set(restrict(body, [*fixed, *carried, *steps], outputs).used)
    constants = [i for i in fixed if i in used]
    rows = [i for i in steps if i in used]
    step = restrict(body, [*constants, *carried, *rows], outputs, keep=True).program
    operands = (*[fixed[i] for i in constants], *starts, *[steps[i] for i in rows])
    params = (step.interned(), parts.length, parts.reverse, len(constants), len(carried))
    first = write.place(scan_p, operands, params, position)
    return range(first, first + len(outputs))


@final
class _Places:
    """Places operations that put results together."""

    def __init__(self, write: Rewrite, position: Any) -> None:
        self.write, self.position = write, position

    def op(self, primitive: Primitive, operands: Sequence[int], *params: Any) -> int:
        """Place an operation."""
        return self.write.place(primitive, tuple(operands), params, self.position)

    def aval(self, i: int) -> ShapeDtype:
        """The aval of a variable."""
        return self.write.avals[i]

    def reshape(self, i: int, shape: tuple[int, ...]) -> int:
        """Reshape, if that is needed."""
        if self.write.ops[i][0] is reshape_p and self.aval(i).shape != shape:
            (i,) = self.write.ops[i][1]
        return i if self.aval(i).shape == shape else self.op(reshape_p, (i,), shape)

    def shifted(self, start: int, after: int, reverse: bool) -> int:
        """All steps of what a carry was before each step, from what it was after each step."""
        length = self.aval(after).shape[0]
        own = self.reshape(start, (1, *self.aval(start).shape))
        every = (_ALL,) * self.aval(start).ndim
        others = self.op(index_p, (after,), ((1, length, None), *every) if reverse else ((0, length - 1, None), *every))
        return self.op(concatenate_p, (others, own) if reverse else (own, others), 0)

    def added(self, total: int, term: int, sign: int) -> int:
        """Add or subtract."""
        return self.op(add if sign > 0 else sub, (total, term))

    def met(self, terms: Sequence[_Term], steps: dict[int, int]) -> int:
        """The sum over all steps of terms that are added up in each step; its sign is that of the first one."""
        values = [steps[i] for term in terms for i in term.operands]
        axes = max([self.aval(i).ndim for i in values])
        for k, i in enumerate(values):
            length, *shape = self.aval(i).shape
            values[k] = self.reshape(i, (length, *[1] * (axes - self.aval(i).ndim), *shape))
        total = values[0]
        for term, value in zip(terms[1:], values[1:], strict=True):
            total = self.added(total, value, term.sign * terms[0].sign)
        return self.op(reduce_sum_p, (total,), (0,))

    def transposed(self, i: int, axes: tuple[int, ...]) -> int:
        """Bring axes into another order; of a transpose the other way round, what it was made of."""
        primitive, operands, params = self.write.ops[i]
        if primitive is permute_p and tuple([params[0][k] for k in axes]) == tuple(range(len(axes))):
            return operands[0]
        return self.op(permute_p, (i,), axes)

    def product(self, x: int, y: int) -> int:
        """The product of the transpose of a tall matrix and a tall matrix, in blocks of rows where these are small.

        A block of 2**18 multiplications is done on one core: the whole on two takes 0.40 ms instead of 0.55 (64 x 3200 x
        64), and 200 if others are at work on both.
        """
        (length, rows), columns = self.aval(x).shape, self.aval(y).shape[1]
        size = (1 << 18) // max(rows * columns, 1)
        if not 32 <= size < length:
            return self.op(matmul_p, (self.transposed(x, (1, 0)), y))
        first = length % size or size
        parts = [self.op(index_p, (i,), ((0, first, None), _ALL)) for i in (x, y)]
        total = self.op(matmul_p, (self.op(permute_p, (parts[0],), (1, 0)), parts[1]))
        count = (length - first) // size
        stacks: list[int] = []
        build = Assembly()
        carry = build.input(self.aval(total))
        blocks: list[int] = []
        for i in (x, y):
            width = self.aval(i).shape[1]
            rest = self.op(index_p, (i,), ((first, length, None), _ALL))
            stacks.append(self.op(reshape_p, (rest,), (count, size, width)))
            blocks.append(build.input(ShapeDtype((size, width), self.aval(i).dtype)))
        turned = build.place(permute_p, (blocks[0],), ((1, 0),), self.position)
        product = build.place(matmul_p, (turned, blocks[1]), (), self.position)
        body = build.program([build.place(add, (carry, product), (), self.position)], "sum_of_products").interned()
        return self.op(scan_p, (total, *stacks), body, count, False, 0, 1)

    def total(self, body: Program, term: _Term, steps: dict[int, int]) -> int:
        """The sum of a term over all steps."""
        values = [steps[i] for i in term.operands]
        if term.kind == "sum":
            found = self.op(reduce_sum_p, values, (0, *[axis + 1 for axis in term.axes]))
        else:
            x, y = values
            length = self.aval(x).shape[0]
            if term.kind == "outer":
                left = self.reshape(x, (length, math.prod(self.aval(x).shape[1:])))
                right = self.reshape(y, (length, math.prod(self.aval(y).shape[1:])))
            else:
                rows, inner = self.aval(x).shape[1:]
                left = self.reshape(self.transposed(x, (0, 2, 1)), (length * inner, rows))
                right = self.reshape(y, (length * inner, self.aval(y).shape[-1]))
            found = self.product(left, right)
        for k in reversed(term.after):
            primitive, _, params = body.ops[k]
            found = self.op(primitive, (found,), *params)
        return found
