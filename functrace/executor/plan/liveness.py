"""Live memory of a plan: every allocation and every last use, in the order in which NumPy's code runs.

`PlanWalk` follows a plan as the NumPy backend executes it: variables hold arrays, and an array is
freed when nothing holds it. Steps of loops are walked until their peak no longer grows, with
double-buffered carries and slices; branches one after the other; fusion groups as blocks, or whole
where the layout of an operand requires that. A `MemoryTrace` receives the events: `live_bytes` counts
them, and `functrace.executor.memory.of_plans` writes them down with names and lines.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from functrace.executor.plan.layouts import Layouts, Strides, c_strides
from functrace.executor.plan.loop_liveness import LoopWalk
from functrace.executor.plan.memory_trace import Block, ByteCount, MemoryTrace, Value, uncounted
from functrace.ir.structures import Branch, FusionGroup, Loop
from functrace.ops.contraction import einsum_p
from functrace.ops.work import copied_by_einsum

if TYPE_CHECKING:
    from functrace.executor.plan.planner import Plan, Step


class _Returned(NamedTuple):
    """Output of a body.

    Args:
        block, strides: as those of `Value`.
        nbytes: that the body has allocated: 0 for an operand.
    """

    block: Block
    strides: Strides | None
    nbytes: int


def _new_bytes(outputs: Sequence[_Returned]) -> int:
    return sum([output.nbytes for output in outputs])


@final
class PlanWalk:
    """Walk of one plan.

    Args:
        plan: the plan.
        trace: receiver of the events.
        given: values of the inputs, which the walk holds until their last uses.
        constants: memory of constants, by variable.
        taken: positions of inputs that the caller does not hold any more.
        targets: by operation, memory to write its result into.
        rows: by operation, memory of a stack, into a row of which its result is written.
        depth: number of enclosing inlined loops.
    """

    def __init__(
        self,
        plan: Plan,
        trace: MemoryTrace,
        given: Sequence[Value],
        *,
        constants: Mapping[int, Block] | None = None,
        taken: Collection[int] = (),
        targets: Mapping[int, Block] | None = None,
        rows: Mapping[int, Block] | None = None,
        depth: int = 0,
    ) -> None:
        program = plan.program
        self.plan, self.trace, self.depth = plan, trace, depth
        self._targets, self._rows = targets or {}, rows or {}
        self._blocks: dict[int, Block] = {}
        strides: dict[int, Strides] = {}
        for n, (i, value) in enumerate(zip(program.input_ids, given, strict=True)):
            self._blocks[i] = value.block
            value.block.users += n not in taken
            if value.strides is not None:
                strides[i] = value.strides
        for i, block in (constants or {}).items():
            self.hold(i, block)
        self._layouts = Layouts(program, strides) if plan.has_known_sizes else None

    def run(self) -> list[Value]:
        """Walk all operations; returns the outputs, which the caller holds and has to `drop`."""
        for step in self.plan.steps:
            self.step(step)
        return self.outputs()

    def outputs(self) -> list[Value]:
        """Copy outputs where necessary, and drop all else; returns the outputs as `run` does."""
        plan, trace = self.plan, self.trace
        found: list[Value] = []
        reads: list[Any] = []
        for i, is_copied in zip(plan.program.output_ids, plan.copied, strict=True):
            value = self.value(i)
            if is_copied:
                reads.append(value.block.memory)
                nbytes = plan.program.avals[i].nbytes
                value = Value(Block(trace.allocate(None, i, 0, nbytes)), value.strides)
            value.block.users += 1
            found.append(value)
        if reads:
            trace.point(None, reads)
        for i in [*self._blocks]:
            self.end(i)
        return found

    def step(self, step: Step) -> None:
        """Walk one operation."""
        structure = step.structure
        if structure is None:
            self._simple(step)
        elif isinstance(structure, FusionGroup):
            self._group(step, structure)
        elif isinstance(structure, Loop):
            LoopWalk(self, step, structure).run()
        else:
            self._bodies(step)
        for i in self.plan.freed(step):
            self.end(i)

    # -- variables -----------------------------------------------------------------------------

    def value(self, i: int) -> Value:
        """Return the value of a variable."""
        block, layouts = self._blocks.get(i), self._layouts
        if block is None:  # a constant
            block = Block(None, is_given=True)
            self.hold(i, block)
        return Value(
            block, None if layouts is None or layouts.is_c_order(i) else layouts.strides(i)
        )

    def hold(self, j: int, block: Block) -> None:
        """Set the memory of a variable."""
        self._blocks[j] = block
        block.users += 1

    def end(self, i: int) -> None:
        """Note the last use of a variable."""
        block = self._blocks.pop(i, None)
        if block is not None:
            self.drop(block)

    def drop(self, block: Block) -> None:
        """Stop holding memory: it is freed if nothing else holds it."""
        block.users -= 1
        if not block.users and not block.is_given:
            self.trace.free(block.memory)

    def reads(self, step: Step) -> list[Any]:
        """Return the memory of an operation's operands."""
        operands = self.plan.program.ops[step.first][1]
        return [self._blocks[i].memory for i in operands if i in self._blocks]

    def allocated(self, step: Step, n: int, j: int) -> Block:
        """Allocate a result."""
        return Block(self.trace.allocate(step, j, n, self.plan.allocated(j)))

    def _overwritten(self, step: Step, n: int, j: int, block: Block) -> Block:
        """Compute a result into memory that exists, which has the result's name from here on."""
        if not block.is_given and block not in self._rows.values():
            self.trace.free(block.memory)
            block.memory = self.trace.allocate(step, j, n, self.plan.allocated(j))
        return block

    def take(self, step: Step, n: int, value: Value) -> None:
        """Take a result from a body, which holds it."""
        j = self.plan.results(step)[n]
        self._blocks[j] = value.block
        if not value.block.is_given:
            self.trace.result(value.block.memory, step, j, n)
        if value.strides is not None and self._layouts is not None:
            self._layouts.set(j, value.strides)

    # -- operations ----------------------------------------------------------------------------

    def _simple(self, step: Step) -> None:
        """Walk an operation without bodies."""
        plan, layouts, k = self.plan, self._layouts, step.first
        primitive, operands, _ = plan.program.ops[k]
        reads, shared = self.reads(step), self._rows.get(k)
        if primitive.view and operands and operands[0] >= 0:
            is_new = layouts is not None and layouts.is_copied(k)
            shared = None if is_new else self.value(operands[0]).block
        onto = self._targets.get(k) if step.into is None else self._blocks[step.into]
        for n, j in enumerate(plan.results(step)):
            if onto is not None:
                block = self._overwritten(step, n, j, onto)
            else:
                block = self.allocated(step, n, j) if shared is None else shared
            self.hold(j, block)
        self._point(step, reads, plan.work_bytes(step) + self._copies(step))
        if layouts is not None:
            layouts.add(step)

    def _copies(self, step: Step) -> int:
        """Return the bytes that a contraction copies since operands are not in C order."""
        program, layouts = self.plan.program, self._layouts
        primitive, operands, params = program.ops[step.first]
        if primitive is not einsum_p or layouts is None or all(map(layouts.is_c_order, operands)):
            return 0
        avals = tuple([program.avals[i] for i in operands])
        in_order = [c_strides(aval.shape) for aval in avals]
        strides = [layouts.strides(i) or own for i, own in zip(operands, in_order, strict=True)]
        found, counted = [copied_by_einsum(params[0], avals, s) for s in (strides, in_order)]
        return found - counted

    def _point(self, step: Step, reads: Sequence[Any], work: int) -> None:
        """Run an operation with its work memory."""
        extra = self.trace.work(step, work) if work else None
        self.trace.point(step, reads)
        if extra is not None:
            self.trace.free(extra)

    def _group(self, step: Step, group: FusionGroup) -> None:
        """Walk a fusion group: its results, or all of its body where it cannot run in blocks."""
        plan, (body,) = self.plan, step.bodies
        operands, reads = plan.program.ops[step.first][1], self.reads(step)
        given = [self.value(i) for i in operands]
        others = [n for n, value in enumerate(given) if value.strides is not None]
        work = 0
        if group.tile is not None:
            work = sum([plan.program.avals[operands[n]].nbytes for n in others])
        elif not self._is_divided(group, given):
            self.trace.point(step, reads)
            for n, value in enumerate(self.inside(body, given, of=step)):
                self.take(step, n, value)
            return
        results = plan.results(step)
        for n, (j, place) in enumerate(
            zip(results, step.onto or [None] * len(results), strict=True)
        ):
            if place is None or place in others:
                block = self.allocated(step, n, j)
            else:
                block = self._overwritten(step, n, j, given[place].block)
            self.hold(j, block)
        self._point(step, reads, work)

    def _is_divided(self, group: FusionGroup, given: Sequence[Value]) -> bool:
        """Return True if the layouts of operands allow blocks."""
        if not group.rows:
            return True
        rows = [value.strides for n, value in enumerate(given) if n not in group.whole]
        others = [strides for strides in rows if strides is not None]
        return not any(map(any, others)) and len(others) < len(rows)

    def _bodies(self, step: Step) -> None:
        """Walk a branch, or another operation that runs its bodies one after the other."""
        plan, reads = self.plan, self.reads(step)
        operands, results = plan.program.ops[step.first][1], plan.results(step)
        work = plan.work_bytes(step)
        given = [self.value(i) if i >= 0 else uncounted() for i in operands[1:]]
        if not plan.returns_of_bodies(step):
            for n, j in enumerate(results):
                self.hold(j, self.allocated(step, n, j))
            extra = self.trace.work(step, work) if work else None
            self.trace.point(step, reads)
            for body in step.bodies:
                self._body(step, body, given)
            if extra is not None:
                self.trace.free(extra)
            return
        returned: list[list[_Returned]] = []
        for body in step.bodies:
            around = self._kept_around(step, body, work)
            returned.append(self._body(step, body, given))
            if around is not None:
                self.trace.free(around)
        best = max(returned, key=_new_bytes) if isinstance(step.structure, Branch) else returned[-1]
        new: dict[int, Block] = {}
        for n, (j, (block, strides, nbytes)) in enumerate(zip(results, best, strict=True)):
            if nbytes and id(block) not in new:
                new[id(block)] = self.allocated(step, n, j)
            self.hold(j, new.get(id(block), block))
            if strides is not None and self._layouts is not None:
                self._layouts.set(j, strides)
        self._point(step, reads, work)

    def _kept_around(self, step: Step, body: Plan, work: int) -> Any:
        """Allocate what a Python function that runs bodies keeps while a body runs: its results of
        the step before, and its work memory, of which the body's outputs are a part.
        """
        if not work or isinstance(step.structure, Branch):
            return None
        avals, outputs = self.plan.program.avals, body.program.output_ids
        kept = work + sum([avals[j].nbytes for j in self.plan.results(step)])
        kept -= sum([body.program.avals[i].nbytes for i in outputs])
        return self.trace.work(step, kept) if kept > 0 else None

    def _body(self, step: Step, body: Plan, given: Sequence[Value]) -> list[_Returned]:
        """Walk a body, and drop its outputs again; returns them."""
        if not isinstance(step.structure, Branch):
            given = [uncounted() for _ in body.program.input_ids]
        own = {id(value.block) for value in given}
        found: list[_Returned] = []
        outputs = self.inside(body, given, of=step)
        for (block, strides), i in zip(outputs, body.program.output_ids, strict=True):
            is_new = not block.is_given and id(block) not in own
            found.append(_Returned(block, strides, body.program.avals[i].nbytes if is_new else 0))
        for value in outputs:
            self.drop(value.block)
        return found

    def inside(
        self,
        body: Plan,
        given: Sequence[Value],
        *,
        of: Step,
        taken: Collection[int] = (),
        targets: Mapping[int, Block] | None = None,
        rows: Mapping[int, Block] | None = None,
        depth: int = 0,
    ) -> list[Value]:
        """Walk a body of an operation; arguments as those of the class."""
        self.trace.enter(body, of)
        found = PlanWalk(
            body, self.trace, given, taken=taken, targets=targets, rows=rows, depth=depth
        ).run()
        self.trace.leave()
        return found


def live_bytes(plan: Plan) -> tuple[list[int], int]:
    """Return the live bytes of arrays that a plan allocates, by operation, and those at its end, with
    copies of outputs. Bodies are included.
    """
    count = ByteCount()
    walk = PlanWalk(plan, count, [uncounted() for _ in plan.program.input_ids])
    found: list[int] = []
    for step in plan.steps:
        start = count.mark()
        walk.step(step)
        found.append(count.peak_since(start))
    start = count.mark()
    walk.outputs()
    return found, count.peak_since(start)
