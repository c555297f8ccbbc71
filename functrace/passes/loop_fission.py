"""Loop fission: compute for all steps at once whatever the next step of a loop does not need.

A loop of known length is divided into operations before it (on slices and constants alone), the
recurrence, and operations after it, on stacked values. A carry that only accumulates, such as the
cotangent of a weight, leaves the loop: the sum of products over all steps is one matrix product.
Only the recurrence runs step by step.

Note [What a loop is divided by]
    * Operations are moved if they neither raise nor call user code, and have a batch rule for all
      steps. Operations of linear algebra that may raise move behind the loop, never before it:
      errors occur in the order of steps, unless the same operation raises for all of them. A loop
      whose body calls user code is not divided, nor is any loop of a program with deliberate
      rematerialization: there, memory has priority over time.
    * A step's array of more than `LARGEST` bytes stays in the loop, and so does one that is not
      small and would leave the cache if all steps were computed together: for these, call overhead
      is negligible.
    * The additional stacks are at most as large as those that the loop has anyway, or `FEWEST`
      bytes.
    * Terms that are added to and subtracted from a carry may be large, and their difference small:
        they are combined in each step, before the sum over steps. Products with both signs stay in
        the loop.
    * Products and sums over all steps round differently from a product per step: the row declares
        this (`Pass.exact`), and only ``jit`` applies it, as all its calls run the same code.

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
"""Minimum number of steps of a divided loop."""
LARGEST = 1 << 16
"""Bytes: larger results of a step are computed in the loop."""
SMALL, IN_CACHE = 1 << 12, 1 << 21
"""Bytes of a step, and of all steps: among results larger than both, only products are moved.
Measured on 1,000 steps of four elementwise operations on 8 KiB: 27 ms in the loop, 40 outside;
on 100 steps 10 and 5.
"""
FEWEST = 1 << 20
"""Bytes of additional stacks that are always allowed."""

_ALL = (None, None, None)
"""The index of a whole axis."""

_MOVED: frozenset[Primitive] = frozenset(
    {
        broadcast_to_p, concatenate_p, convert_p, det_p, embed_p, index_p, logsumexp_p, matmul_p,
        permute_p, reduce_max_p,
        reduce_min_p, reduce_sum_p, reshape_p, same_p, stack_p,
    }
)  # fmt: skip
"""Primitives that can run for all steps at once, besides elementwise ones."""

_LAST: frozenset[Primitive] = frozenset(
    {cholesky_p, cofactor_p, inv_p, solve_p, solve_triangular_p}
)
"""Primitives that may raise, and can run for all steps after the loop."""

_THROUGH: frozenset[Primitive] = frozenset({reshape_p, permute_p, neg, embed_p, convert_p})
"""Linear primitives of one operand: they commute with the sum over steps."""


def fission_loops(program: Program) -> Program:
    """Divide loops so that only recurrences run step by step; sums over steps round differently.

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
            first = write.place(
                primitive, tuple(map(write.operand, operands)), inner, write.position(k)
            )
            write.replace(
                k, range(first, first + (program.result_count(k) if primitive.many else 1))
            )
    return write.finish()


def _inside(param: Any) -> Any:
    """Divide the loops in the sub-programs of an operation."""
    parts: Any = param
    if type(param) is tuple:
        return tuple(map(_inside, parts))
    if not isinstance(param, Program) or not _has_loops(param):
        return param
    made = fission_loops(inline_calls(param))
    return param if made is param else made.interned()


def _has_loops(program: Program) -> bool:
    return scan_p in program.kinds or any(
        op[0].holds is not None and _holds_loops(op[2]) for op in program.ops
    )


def _holds_loops(param: Any) -> bool:
    parts: Any = param
    return (
        any(map(_holds_loops, parts))
        if type(param) is tuple
        else isinstance(param, Program) and _has_loops(param)
    )


def _computes_again(program: Program) -> bool:
    return name_p in program.kinds


# -- division of a loop ----------------------------------------------------------------------------


class _Term(NamedTuple):
    """A term that a step adds to a carry: rule for its sum over all steps from stacked values.

    Args:
        operands: variables of the body whose stacked values it needs.
        kind: ``"sum"`` over ``axes`` of a step, and over steps; ``"product"`` of matrices, or
            ``"outer"`` product of vectors, also summed over steps.
        axes: axes of a step's operand that are summed.
        after: operations that are applied to the sum, last first.
        sign: 1 or -1.
    """

    operands: tuple[int, ...]
    kind: str
    axes: tuple[int, ...]
    after: tuple[int, ...]
    sign: int


class _FissionedLoop(NamedTuple):
    """Division of a loop; variables are the body's."""

    body: Program
    length: int
    reverse: bool
    constants: int
    carries: int
    before: tuple[int, ...]
    """Variables that are computed before the loop: once, or for all steps."""
    once: frozenset[int]
    """Loop-invariant variables."""
    looped: tuple[int, ...]
    """Indices of carries that stay in the loop."""
    stacked: tuple[int, ...]
    """Variables that the loop stacks."""
    shifted: tuple[int, ...]
    """Indices of carries whose values before each step are needed."""
    results: dict[int, int]
    """By index of a stacked result, its variable."""
    sums: dict[int, tuple[_Term, ...]]
    """By index of a carry that leaves the loop, its terms."""
    wanted: tuple[int, ...]
    """Variables whose values in all steps are needed after the loop."""


def _prepared(body: Program) -> Program:
    """Simplify a body before it is divided, with passes of the pipeline."""
    return merge_common_subexpressions(
        simplify(sink_broadcasts(fold_constants(drop_dead_results(inline_calls(body)))))
    )


def _divided(program: Program, k: int, params: tuple[Any, ...]) -> _FissionedLoop | None:
    """Divide a loop; returns None if everything belongs in it."""
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
    return _LoopAnalysis(_prepared(body), length, reverse, constants, carries).parts()


@final
class _LoopAnalysis:
    """Analysis of one loop."""

    def __init__(
        self, body: Program, length: int, reverse: bool, constants: int, carries: int
    ) -> None:
        self.body = body
        self.length, self.reverse, self.constants, self.carries = (
            length,
            reverse,
            constants,
            carries,
        )
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
        """Return True if an operation can leave the loop."""
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
        """Return True if an operation that may raise can run after the loop."""
        is_small = self.body.avals[k].nbytes <= LARGEST and self.all_bytes(k) <= self.bound
        return self.body.ops[k][0] in _LAST and is_small

    def is_view(self, k: int) -> bool:
        """Return True if an operation returns a view."""
        return self.body.ops[k][0] in (reshape_p, permute_p, index_p)

    def all_bytes(self, i: int) -> int:
        """Return the bytes of all steps of a variable."""
        return self.length * self.body.avals[i].nbytes

    # -- carries that only accumulate ----------------------------------------------------------

    def terms_of(self, place: int) -> tuple[_Term, ...] | None:
        """Return the terms that a step adds to a carry; None if the carry has any other use."""
        body = self.body
        start, end = body.input_ids[self.constants + place], body.output_ids[place]
        aval = body.avals[start]
        if (
            aval.dtype.kind not in "fc"
            or aval.dtype.itemsize < 4
            or start == end
            or self.uses[start] != 1
        ):
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
        """Return the sign of the final sum of a term."""
        return term.sign * (-1) ** sum([self.body.ops[k][0] is neg for k in term.after])

    def leads(self, i: int, start: int) -> bool:
        """Return True if only additions connect a variable to ``start``."""
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
        """Return the terms of the sum of a variable over all steps; ``None`` if it is
        loop-invariant.
        """
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
        if (
            primitive in (add, sub)
            and not after
            and all(aval is not None and aval.dtype == own.dtype for aval in given)
        ):
            left = self.terms(operands[0], sign, after)
            right = self.terms(operands[1], sign if primitive is add else -sign, after)
            if (
                left is not None
                and right is not None
                and any(term.kind != "sum" for term in (*left, *right))
            ):
                return [*left, *right]
        elif primitive in _THROUGH and given[0] is not None and given[0].dtype == own.dtype:
            return self.terms(operands[0], sign, (*after, k))
        elif primitive is reduce_sum_p and given[0] is not None and given[0].nbytes <= LARGEST:
            return [_Term((operands[0],), "sum", tuple(params[0]), after, sign)]
        elif len(operands) == 2 and all(
            aval is not None and aval.dtype == own.dtype for aval in given
        ):
            left, right = given
            assert left is not None and right is not None
            varies = [j not in self.once for j in operands]
            if primitive is matmul_p and left.ndim == right.ndim == 2 and all(varies):
                return [_Term(operands, "product", (), after, sign)]
            if (
                primitive is mul
                and all(varies)
                and own.ndim == 2
                and left.ndim <= 2
                and right.ndim <= 2
            ):
                for x, y in (operands, operands[::-1]):
                    first, second = body.avals[x].shape, body.avals[y].shape
                    if (
                        first == (own.shape[0], 1)
                        and second in ((own.shape[1],), (1, own.shape[1]))
                        and own.shape[1] > 1
                    ):
                        return [
                            _Term((self.unshaped(x), self.unshaped(y)), "outer", (), after, sign)
                        ]
        return [_Term((i,), "sum", (), after, sign)]

    def unshaped(self, i: int) -> int:
        """Return the variable of which another is a reshape."""
        while (
            i not in self.once
            and (k := self.maker.get(i)) is not None
            and self.body.ops[k][0] is reshape_p
        ):
            (i,) = self.body.ops[k][1]
        return i

    # -- choice of parts -----------------------------------------------------------------------

    def parts(self) -> _FissionedLoop | None:
        """Choose the operations that stay in the loop."""
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
        before = self.before(
            [*[body.output_ids[j] for j in range(carries) if j not in sums], *self.stacked]
        )
        wanted = dict.fromkeys(
            [*results.values(), *[i for terms in sums.values() for t in terms for i in t.operands]]
        )
        outside = [i for i in wanted if i not in self.stacked and i not in self.slices]
        if not (sums or before or outside):
            return None
        return _FissionedLoop(
            body, self.length, self.reverse, self.constants, carries, tuple(before),
            frozenset(self.once),
            tuple([j for j in range(carries) if j not in sums]), tuple(self.stacked),
            tuple(self.shifted), results, sums,
            tuple(wanted),
        )  # fmt: skip

    def keeps_order(self, i: int) -> bool:
        """Return True if the values of all steps have the layout of the loop's stack when computed
        outside.
        """
        waiting, seen = [i], set[int]()
        while waiting:
            i = waiting.pop()
            k = self.maker.get(i)
            if i in seen or i in self.once or k is None:
                continue
            seen.add(i)
            if self.body.ops[k][0] is permute_p or (
                len(seen) == 1 and self.body.ops[k][0] is broadcast_to_p
            ):
                return False
            if (self.moves(k) or self.ends(k)) and k not in self.looped:
                waiting += [j for j in self.body.ops[k][1] if j >= 0]
        return True

    def inside(self, i: int) -> bool:
        """Return True if a variable depends on carries: it is neither loop-invariant nor computed
        from slices alone.
        """
        return i >= 0 and i not in self.once and i not in self.rows

    def need(self, variables: Iterable[int]) -> None:
        """Keep the operations that variables depend on in the loop."""
        waiting = [i for i in variables if self.inside(i)]
        while waiting:
            k = self.maker.get(waiting.pop())
            if k is not None and k not in self.looped:
                self.looped.add(k)
                waiting += [i for i in self.body.ops[k][1] if self.inside(i)]

    def take(self, variables: Sequence[int], freed: int) -> bool:
        """Try to compute variables after the loop, from stacked values; returns True if the stacks
        are small enough.
        """
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
            if (
                i in self.stacked
                or not (self.moves(k) or self.ends(k))
                or (k in self.looped and not self.is_view(k))
            ):
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
        """Return the variables that are computed before the loop and read in it, except inputs."""
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
            else:  # computed in the loop after all
                self.rows.discard(i)
                self.looped.add(self.maker[i])
                waiting += [j for j in body.ops[self.maker[i]][1] if j >= 0]
        return list(chosen)


# -- the divided program ---------------------------------------------------------------------------


def _write(write: Rewrite, k: int, parts: _FissionedLoop) -> None:
    """Write the operations that replace a loop."""
    body, count = parts.body, parts.constants + parts.carries
    ids = body.input_ids
    given = [write.operand(i) for i in write.source.ops[k][1]]
    position = write.position(k)
    place = _StackedWriter(write, position)
    # all steps, by variable
    steps: dict[int, int] = dict(zip(ids[count:], given[count:], strict=True))
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
    after = _loop(
        write,
        parts,
        [*looped, *parts.stacked],
        fixed,
        steps,
        [starts[j] for j in parts.looped],
        position,
    )
    ends = dict(zip(parts.looped, after, strict=False))
    steps.update(zip(parts.stacked, after[len(looped) :], strict=True))
    for j in parts.shifted:
        steps[ids[parts.constants + j]] = place.shifted(
            starts[j], steps[body.output_ids[j]], parts.reverse
        )
    rest = [i for i in parts.wanted if i not in steps]
    if rest:
        made = restrict(body, [*fixed, *steps], rest)
        values = [fixed[i] if i in fixed else steps[i] for i in made.used]
        steps.update(
            zip(rest, write.splice(_mapped(made, fixed, parts.length), values), strict=True)
        )
    for j, terms in parts.sums.items():
        total = starts[j]
        groups: list[list[_Term]] = (
            [list(terms)] if all(map(_is_whole, terms)) else [[term] for term in terms]
        )
        for group in groups:
            found = (
                place.met(group, steps) if len(group) > 1 else place.total(body, group[0], steps)
            )
            total = place.added(total, found, group[0].sign)
        ends[j] = total
    results = [ends[j] for j in range(parts.carries)]
    results += [steps[parts.results[n]] for n in range(parts.carries, len(body.output_ids))]
    write.replace(k, results)


def _is_whole(term: _Term) -> bool:
    """Return True if a term is a step's whole addend."""
    return term.kind == "sum" and not term.axes and not term.after


def _mapped(made: Restriction, fixed: dict[int, int], length: int) -> Program:
    """Vectorize a part of a body over all steps; ``fixed`` has the loop-invariant variables."""
    return vmap_program(made.program, length, [i not in fixed for i in made.used])


def _loop(
    write: Rewrite,
    parts: _FissionedLoop,
    outputs: Sequence[int],
    fixed: dict[int, int],
    steps: dict[int, int],
    starts: Sequence[int],
    position: Any,
) -> Sequence[int]:
    """Write the remaining loop; returns its results."""
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
class _StackedWriter:
    """Writer of the operations that combine stacked values."""

    def __init__(self, write: Rewrite, position: Any) -> None:
        self.write, self.position = write, position

    def op(self, primitive: Primitive, operands: Sequence[int], *params: Any) -> int:
        """Place an operation."""
        return self.write.place(primitive, tuple(operands), params, self.position)

    def aval(self, i: int) -> ShapeDtype:
        """Return the aval of a variable."""
        return self.write.avals[i]

    def reshape(self, i: int, shape: tuple[int, ...]) -> int:
        """Reshape, if necessary."""
        if self.write.ops[i][0] is reshape_p and self.aval(i).shape != shape:
            (i,) = self.write.ops[i][1]
        return i if self.aval(i).shape == shape else self.op(reshape_p, (i,), shape)

    def shifted(self, start: int, after: int, reverse: bool) -> int:
        """Return a carry before each step, stacked, from its stacked values after each step."""
        length = self.aval(after).shape[0]
        own = self.reshape(start, (1, *self.aval(start).shape))
        every = (_ALL,) * self.aval(start).ndim
        others = self.op(
            index_p,
            (after,),
            ((1, length, None), *every) if reverse else ((0, length - 1, None), *every),
        )
        return self.op(concatenate_p, (others, own) if reverse else (own, others), 0)

    def added(self, total: int, term: int, sign: int) -> int:
        """Add or subtract."""
        return self.op(add if sign > 0 else sub, (total, term))

    def met(self, terms: Sequence[_Term], steps: dict[int, int]) -> int:
        """Return the sum over all steps of terms that each step combines first; its sign is that of
        the first one.
        """
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
        """Permute axes; cancels with an inverse permutation."""
        primitive, operands, params = self.write.ops[i]
        if primitive is permute_p and tuple([params[0][k] for k in axes]) == tuple(
            range(len(axes))
        ):
            return operands[0]
        return self.op(permute_p, (i,), axes)

    def product(self, x: int, y: int) -> int:
        """Write the product of the transpose of a tall matrix and a tall matrix, in blocks of rows
        if these are small.

        BLAS runs a block of 2**18 multiplications on one core: the whole product on two takes 0.40
        ms instead of 0.55 (64 x 3200 x 64), and 200 if other processes use both.
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
        body = build.program(
            [build.place(add, (carry, product), (), self.position)], "sum_of_products"
        ).interned()
        return self.op(scan_p, (total, *stacks), body, count, False, 0, 1)

    def total(self, body: Program, term: _Term, steps: dict[int, int]) -> int:
        """Return the sum of a term over all steps."""
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
