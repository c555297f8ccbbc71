"""Lower plans to loop IR.

Operations are lowered in the order of the plan. An elementwise operation on large arrays is
deferred; deferred operations and reductions are fused: those of one level and one shape are
computed in one loop nest (`Lowering.flush`). All others read arrays in memory. Which operations
have a lowering is in `functrace.native.rows`.

Layer: 7.
"""

from __future__ import annotations

import math
from abc import ABC
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, final

import numpy as np

from functrace.executor.plan.layouts import Layouts, Strides
from functrace.executor.plan.planner import Plan, Step
from functrace.executor.plan.promotion import ComputeDtypes
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.native.complex_numbers import ComplexOpError, split_complex
from functrace.native.loop_ir import (
    DTYPES,
    ZERO,
    Affine,
    Atom,
    Builder,
    Const,
    DType,
    Function,
    NoNativeForm,
    Scalar,
    eliminate_dead_code,
)
from functrace.native.numpy_order import order_of
from functrace.native.rolled import RolledNest
from functrace.native.runs import Add, RunNest, can_join, is_flat, loops_over
from functrace.native.values import (
    AtomArray,
    Deferred,
    Operand,
    Order,
    Packed,
    Reduction,
    Rolled,
    Scalars,
    Shape,
    Stored,
    Uniform,
    Value,
    c_strides,
    positions,
    project,
    scalars,
)

TINY: Final = 36
"""Arrays of at most so many elements are scalars of the code."""
MOST_WRAPS: Final = 8
"""Shifts along the last axis up to which arrays are read at other positions: the code of an element
is written once more for each.
"""
DEAR: Final = 20
"""Cost from which an element is not computed twice."""
SHARED: Final = 4
"""Cost from which an element that two loop nests read is stored."""


@final
class Operation(NamedTuple):
    """One operation of a plan, as rows see it.

    Args:
        k: the variable of its first result.
        primitive: the primitive.
        operands: their values; a Python number is a `Uniform` array without axes.
        params: the static parameters.
        avals: of the results.
        typed: compute dtypes.
        step: its step of the plan.
        strides: of its first operand in NumPy's run of the program; ``None`` if they are unknown.
    """

    k: int
    primitive: Primitive
    operands: tuple[Value, ...]
    params: tuple[Any, ...]
    avals: tuple[ShapeDtype, ...]
    typed: ComputeDtypes
    step: Step
    strides: Strides | None

    @property
    def shape(self) -> Shape:
        """Shape of the first result."""
        return self.avals[0].shape

    @property
    def dtype(self) -> DType:
        """Dtype of the first result."""
        return self.avals[0].dtype


Row: TypeAlias = Callable[["Lowering", Operation], "Value | Sequence[Value]"]
ElementWriter: TypeAlias = (
    Callable[["Lowering", Atom], Atom]
    | Callable[["Lowering", Atom, Atom], Atom]
    | Callable[["Lowering", Atom, Atom, Atom], Atom]
)
"""``write(lowering, *atoms)``: writes the code of one element of a result."""


class RowTable(Mapping[Primitive, Row], ABC):
    """Lowering by primitive.

    Attributes:
        is_exact: True if results equal NumPy's to the bit.
    """

    is_exact: bool


def lower(plan: Plan, rows: RowTable, name: str) -> Function:
    """Lower a plan.

    Args:
        plan: a plan without fusion groups.
        rows: lowering by primitive.
        name: of the function.

    Raises:
        NoNativeForm: if an operation has no lowering.
    """
    program, builder = plan.program, Builder()
    arguments: list[tuple[Stored, Shape]] = []
    results: list[Stored] = []

    def array(aval: ShapeDtype, role: str) -> Stored:
        if aval.dtype not in DTYPES:
            raise NoNativeForm(f"dtype {aval.dtype}")
        shape = tuple(aval.shape)
        buffer = builder.buffer(aval.dtype, math.prod(shape), role)
        return Stored(buffer, ZERO, c_strides(shape), shape)

    for i in program.input_ids:
        view = array(program.avals[i], "argument")
        arguments.append((view, view.shape))
    results = [array(program.avals[i], "result") for i in program.output_ids]
    body = Lowering(builder, plan, rows)
    body.run([view for view, _ in arguments], results, is_body=False)
    function = Function(
        name,
        [(view.buffer, shape) for view, shape in arguments],
        [(view.buffer, view.shape) for view in results],
        builder.buffers,
        builder.body,
        builder.rows,
    )
    try:
        split_complex(function, builder)
    except ComplexOpError as error:
        raise NoNativeForm(f"{error} of complex numbers") from error
    eliminate_dead_code(function)
    return function


def operations_without_native_form(plan: Plan, rows: RowTable) -> set[int]:
    """Return the operations of a plan that cannot be lowered, by the variable of the first result."""
    builder, program = Builder(), plan.program
    probe = Lowering(builder, plan, rows, skipped=set())
    for i in (*program.input_ids, *program.constant_values):
        probe.values[i] = probe.unknown(program.avals[i])
    for step in plan.steps:
        probe.lower_step(step, {})
    assert probe.skipped is not None
    return probe.skipped


@final
class Lowering:
    """Lowering of one program into the current block of a builder.

    Args:
        builder: gets the code.
        plan: of the program.
        rows: lowering by primitive.
        skipped: gets the operations without a native form; by default they raise.
    """

    def __init__(
        self,
        builder: Builder,
        plan: Plan,
        rows: RowTable,
        skipped: set[int] | None = None,
    ) -> None:
        self.skipped = skipped
        self.builder = builder
        self.plan = plan
        self.rows = rows
        self.values: dict[int, Value] = {}
        self._targets: dict[int, Stored] = {}
        self._pending: dict[int, Deferred | Reduction] = {}
        """Deferred operations and reductions that may not be computed, by number."""
        self._copies: dict[int, tuple[Scalars | Uniform, Stored]] = {}
        """Tiny arrays that have been written to memory, by id."""
        self._numbers = 0
        self._layouts = Layouts(plan.program)
        self._moved: dict[tuple[Affine, int, int], Affine] = {}
        """Positions that `Rolled` arrays are read at, by position, shift and size of the axis."""
        self._wraps: set[int] = set()
        """Shifts along the last axis of pending `Rolled` arrays."""

    # -- programs --

    @property
    def is_probe(self) -> bool:
        """True if only the operations without a native form are looked for."""
        return self.skipped is not None

    def run(
        self,
        inputs: Sequence[Value],
        targets: Sequence[Stored | None],
        *,
        is_body: bool = True,
    ) -> list[Stored | Scalars | Uniform]:
        """Lower the program.

        Args:
            inputs: one value per input.
            targets: by output, memory that it is written to, or ``None``.
            is_body: True for the body of a loop or branch.

        Returns:
            the outputs.
        """
        program = self.plan.program
        self.values.update(zip(program.input_ids, inputs, strict=True))
        for i, constant in program.constant_values.items():
            self.values[i] = self.constant(np.asarray(constant))
        readers = self._readers()
        for i, target in zip(program.output_ids, targets, strict=True):
            if target is not None and i not in self._targets and i not in self.values:
                self._targets[i] = target
        for step in self.plan.steps:
            self.lower_step(step, readers)
        self.flush()
        if is_body and self.rows.is_exact:
            self._need_c_order(program.output_ids)
        found: list[Stored | Scalars | Uniform] = []
        for i, target in zip(program.output_ids, targets, strict=True):
            value = self.computed(self.values[i])
            if target is not None and not target.same_place(value):
                self.copy(target, value)
            found.append(value)
        return found

    def _readers(self) -> dict[int, list[int]]:
        """Return the operations that read each variable."""
        program = self.plan.program
        found: dict[int, list[int]] = {i: [-1] for i in program.output_ids}
        for step in self.plan.steps:
            for i in program.ops[step.first][1]:
                found.setdefault(i, []).append(step.first)
        return found

    def unknown(self, aval: ShapeDtype) -> Any:
        """Return an array of which only the aval is known; ``None`` for one that cannot be native."""
        if aval.dtype not in DTYPES or any(type(n) is not int for n in aval.shape):
            return None
        return self.array(tuple(aval.shape), aval.dtype)

    def lower_step(self, step: Step, readers: Mapping[int, Sequence[int]]) -> None:
        """Lower one operation.

        Args:
            step: its step of the plan.
            readers: by variable, the operations that read it.
        """
        try:
            self._lower(step, readers)
        except NoNativeForm:
            if self.skipped is None:
                raise
            self.skipped.add(step.first)
            for j in self.plan.results(step):
                self.values[j] = self.unknown(self.plan.program.avals[j])
        self._layouts.add(step)

    def _lower(self, step: Step, readers: Mapping[int, Sequence[int]]) -> None:
        program, k = self.plan.program, step.first
        primitive, operands, params = program.ops[k]
        row = self.rows.get(primitive)
        if row is None:
            raise NoNativeForm(primitive.name)
        avals = tuple(program.avals[j] for j in self.plan.results(step))
        for aval in avals:
            if aval.dtype not in DTYPES or any(type(n) is not int for n in aval.shape):
                raise NoNativeForm(f"{primitive.name} of {aval.dtype}")
        typed = self.plan.typed[k]
        if any(i < 0 and _is_large(program.literals[~i]) for i in operands):
            raise NoNativeForm(f"{primitive.name} of an integer beyond 64 bits")
        values: tuple[Any, ...] = tuple(
            self.values[i] if i >= 0 else Uniform(_number(number), ())
            for i, number in zip(operands, typed.numbers, strict=True)
        )
        if any(value is None for value in values):
            raise NoNativeForm(f"{primitive.name} of another dtype")
        if primitive not in COMPLEX and any(x.dtype.kind == "c" for x in (*values, *avals)):
            raise NoNativeForm(f"{primitive.name} of complex numbers")
        if self.rows.is_exact and step.structure is not None:
            self._need_c_order([i for i in operands if i >= 0])
        strides = self._layouts.strides(operands[0]) if operands and operands[0] >= 0 else None
        found = row(self, Operation(k, primitive, values, params, avals, typed, step, strides))
        if isinstance(found, Sequence):
            self.values.update(enumerate(found, k))
            return
        self.values[k] = found
        if isinstance(found, Scalars):
            self.builder.note_rows(found.atoms)
        if isinstance(found, Deferred) and not found.is_root:
            found.uses += len(set(readers.get(k, ())))
            found.is_root = self._is_stored(found, k, readers.get(k, ()))
            if found.is_root:
                found.target = self._targets.get(k)

    def _need_c_order(self, variables: Iterable[int]) -> None:
        """Raise if a value is not in C order in NumPy's run, but in this one."""
        if not all(map(self._layouts.is_c_order, variables)):
            raise NoNativeForm("a loop or branch on arrays that are not in C order")

    def _is_stored(self, value: Deferred, k: int, readers: Sequence[int]) -> bool:
        """Return True if a deferred result is stored, since not all of its readers can compute it."""
        program = self.plan.program
        for reader in readers:
            if reader < 0:
                return True
            primitive = program.ops[reader][0]
            if primitive not in FUSED:
                return True
            is_same = program.avals[reader].shape == value.shape or primitive in FUSED_REDUCTIONS
            if not is_same and value.cost >= SHARED:
                return True
        return False

    # -- values --

    def constant(self, value: np.ndarray[Any, Any]) -> Value:
        """Return a constant array."""
        dtype, shape = value.dtype, value.shape
        if dtype not in DTYPES:
            raise NoNativeForm(f"a constant of {dtype}")
        if value.size and (value.size == 1 or value.tobytes() == value.flat[0].tobytes() * value.size):  # fmt: skip
            return Uniform(Const(value.flat[0].item(), dtype), shape)
        if value.size <= TINY:
            return scalars([Const(x.item(), dtype) for x in value.ravel()], shape, dtype)
        buffer = self.builder.buffer(dtype, value.size, "constant", np.ascontiguousarray(value))
        return Stored(buffer, ZERO, c_strides(shape), shape)

    def array(self, shape: Shape, dtype: DType) -> Stored:
        """Return new memory for an array in C order."""
        buffer = self.builder.buffer(dtype, math.prod(shape))
        return Stored(buffer, ZERO, c_strides(shape), shape)

    def target(self, op: Operation, place: int = 0) -> Stored:
        """Return the memory that a result is to be written to."""
        aval = op.avals[place]
        return self._targets.get(op.k + place) or self.array(tuple(aval.shape), aval.dtype)

    def cast(self, atom: Atom, dtype: DType) -> Atom:
        """Convert a scalar, as ``astype`` does."""
        if atom.dtype == dtype:
            return atom
        if atom.dtype.kind == "c" and dtype.kind not in "cb":
            raise NoNativeForm("a real part by conversion")
        if type(atom) is Const:
            with np.errstate(all="ignore"):
                return Const(np.asarray(atom.value, atom.dtype).astype(dtype).item(), dtype)
        if atom.dtype.kind == "f" and dtype.kind in "iu":
            self._check_range(atom, dtype)
        return self.builder.let("convert", dtype, atom)

    def _check_range(self, atom: Atom, dtype: DType) -> None:
        """Return to NumPy's form if a float does not fit into an integer."""
        let, limits = self.builder.let, np.iinfo(dtype)
        # (the fraction is cut off, and 2**63 - 1 is 2**63 as a float)
        below_all = atom.dtype.type(float(limits.min) - 1.0).item()
        word = "greater" if below_all < limits.min else "greater_equal"
        above = let(word, np.dtype(bool), atom, Const(below_all, atom.dtype))
        below = let("less", np.dtype(bool), atom, Const(float(limits.max) + 1.0, atom.dtype))
        inside = let("and", np.dtype(bool), above, below)
        self.builder.fail(let("not", np.dtype(bool), inside), OUT_OF_RANGE)

    def computed(self, value: Value) -> Stored | Scalars | Uniform:
        """Return a value that is in memory or in scalars; computes what is deferred."""
        if isinstance(value, Packed):
            raise NoNativeForm("packed residuals")
        if isinstance(value, Deferred | Reduction):
            if value.result is None:
                if isinstance(value, Deferred):
                    value.is_root = True
                self._pending[value.number] = value
                self.flush()
            assert value.result is not None
            return value.result
        return value

    def stored(self, value: Value) -> Stored:
        """Return a value in memory; writes tiny arrays to it."""
        found = self.computed(value)
        if isinstance(found, Stored):
            return found
        made = self.array(found.shape, found.dtype)
        self.copy(made, found)
        return made

    def atom(self, value: Value, index: Sequence[Affine]) -> Atom:
        """Return an element of a value that is computed, or of memory."""
        if isinstance(value, Deferred | Reduction):
            assert value.result is not None
        value = self.computed(value)
        if isinstance(value, Uniform):
            return value.atom
        if isinstance(value, Stored):
            return self._load(value, index)
        if all(not position.terms for position in index):
            return value.atoms[tuple(position.offset for position in index)]
        return self._load(self._copies[id(value)][1], index)

    def _load(self, view: Stored, index: Sequence[Affine]) -> Atom:
        place = view.place(index)
        if view.buffer.role not in ("argument", "constant"):
            return self.builder.load(view.buffer, place)
        key = ("load", view.buffer.name, place)
        found = self.builder.remembered(key)
        if found is None:
            found = self.builder.remember(key, self.builder.load(view.buffer, place))
        return found

    def elements(self, value: Value) -> AtomArray:
        """Return all elements of a tiny array, as an array of atoms."""
        value = self.computed(value)
        if isinstance(value, Scalars):
            return value.atoms
        atoms = [self.atom(value, index) for index in positions(value.shape)]
        return scalars(atoms, value.shape, value.dtype).atoms

    def to_memory(self, value: Value) -> None:
        """Write a tiny array to memory, so that `atom` takes any index of it."""
        if isinstance(value, Deferred | Reduction):
            if value.result is None:
                return
            value = value.result
        if isinstance(value, Scalars) and id(value) not in self._copies:
            made = self.array(value.shape, value.dtype)
            self.copy(made, value)
            self._copies[id(value)] = value, made

    def copy(self, target: Stored, value: Value) -> None:
        """Write a value that broadcasts to the target."""
        value = self.computed(value)
        if math.prod(target.shape) <= TINY:
            found = [
                self.atom(value, project(index, value.shape)) for index in positions(target.shape)
            ]
            for index, atom in zip(positions(target.shape), found, strict=True):
                self.builder.store(target.buffer, target.place(index), atom)
            return
        self.to_memory(value)
        with self.builder.loops(target.shape) as index:
            self.builder.store(
                target.buffer, target.place(index), self.atom(value, project(index, value.shape))
            )

    def fill(self, target: Stored, atom: Atom) -> None:
        """Write one number to all elements."""
        self.copy(target, Uniform(atom, target.shape))

    # -- elementwise operations and reductions --

    def elementwise(
        self,
        write: ElementWriter,
        operands: Sequence[Value],
        shape: Shape,
        dtype: DType,
        cost: int = 1,
    ) -> Value:
        """Return an elementwise result.

        Args:
            write: writes the code of one element: ``write(lowering, *atoms)``.
            operands: arrays that broadcast to the shape.
            shape, dtype: of the result.
            cost: about how many instructions an element takes.
        """
        run: Callable[..., Atom] = write
        if all(isinstance(x, Uniform) for x in operands):
            return Uniform(run(self, *[x.atom for x in operands]), shape)  # type: ignore[union-attr]
        if math.prod(shape) <= TINY:
            given = [self.elements(x) for x in operands]
            given = [np.broadcast_to(x, shape).ravel() for x in given]
            return scalars([run(self, *atoms) for atoms in zip(*given, strict=True)], shape, dtype)
        for x in operands:
            if isinstance(x, Deferred) and x.result is None and not x.is_root:
                cost += x.cost
        return self._deferred(run, operands, shape, dtype, cost)

    def _deferred(
        self,
        write: Callable[..., Atom],
        operands: Sequence[Operand],
        shape: Shape,
        dtype: DType,
        cost: int,
    ) -> Deferred:
        self._numbers += 1
        made = Deferred(self._numbers, write, list(operands), shape, dtype, min(cost, 1000))
        self._pending[made.number] = made
        return made

    def rolled(self, x: Stored | Deferred | Reduction, shift: int, axis: int) -> Value | None:
        """Return ``np.roll`` of a large array that is in memory, or that will be: it is read at other
        positions. Returns None if loop nests read too many different positions already.

        Args:
            x: the array.
            shift: how far elements move, from 0 up to below the size.
            axis: along which they move.
        """
        shifts = [shift if k == axis else 0 for k in range(len(x.shape))]
        if isinstance(x, Deferred) and x.write is _same and isinstance(x.operands[0], Rolled):
            both = zip(shifts, x.operands[0].shifts, x.shape, strict=True)
            return self._rolled(x.operands[0].source, [(a + b) % n for a, b, n in both])
        if isinstance(x, Deferred) and x.result is None:
            x.is_root = True
        return self._rolled(x, shifts)

    def _rolled(self, x: Stored | Deferred | Reduction, shifts: Sequence[int]) -> Value | None:
        last = max(k for k, n in enumerate(x.shape) if n > 1)
        if not any(shifts):
            return x
        self._wraps |= {shifts[last]} - {0}
        if len(self._wraps) > MOST_WRAPS:
            return None
        return self._deferred(_same, [Rolled(x, tuple(shifts))], x.shape, x.dtype, 0)

    def reduction(
        self, op: str, first: Atom, operand: Value, axes: Sequence[int], op_: Operation
    ) -> Reduction:
        """Return a reduction of a large array; see `Reduction`."""
        self._numbers += 1
        order = self.order(op, op_, operand.shape, axes)
        made = Reduction(
            self._numbers, op, first, operand, tuple(axes), op_.shape, op_.dtype,
            self._targets.get(op_.k), operands=[operand], order=order,
        )  # fmt: skip
        self._pending[made.number] = made
        return made

    def order(self, op: str, op_: Operation, shape: Shape, axes: Sequence[int]) -> Order | None:
        """Return the order in which NumPy joins elements, if it makes a difference."""
        if op not in ("add", "mul") or op_.dtype.kind not in "fc":
            return None
        strides = op_.strides
        if strides is None:
            if self.rows.is_exact and sum(n > 1 for n in shape) > 1:
                raise NoNativeForm("a sum whose order is unknown")
            strides = c_strides(shape)
        found, is_exact = order_of(shape, strides, axes)
        if op == "mul":
            return Order(found.axes, 0)
        if self.rows.is_exact and not is_exact:
            raise NoNativeForm("a sum of parts that NumPy copies")
        return found

    def join(self, op: str, a: Atom, b: Atom) -> Atom:
        """Join two elements of a reduction."""
        if op in ("maximum", "minimum") and a.dtype.kind != "f":
            return extreme(self.builder, op, a, b)
        return self.builder.let(op, a.dtype, a, b)

    def flush(self) -> None:
        """Compute all deferred roots and reductions that are pending."""
        roots = [
            x
            for x in self._pending.values()
            if x.result is None and (isinstance(x, Reduction) or x.is_root)
        ]
        if not roots:
            return
        pending = _uncomputed(roots)
        self._pending = {}
        self._wraps.clear()
        while True:
            groups = _groups(pending)
            shared = _reduced(groups) or _shared(groups) or _read_later(groups)
            if not shared:
                break
            for value in shared:
                value.is_root = True
        for level in sorted({key[0] for key in groups}):
            for key, roots in list(groups.items()):
                if key[0] == level:
                    self._write_group(roots, key[1])

    def _write_group(self, roots: list[Deferred | Reduction], space: Shape) -> None:
        """Compute roots of one level and shape; sums in different orders are in different loop nests,
        and so are those that read rolled arrays.
        """
        rolling: list[Deferred | Reduction] = []
        others: list[Deferred | Reduction] = []
        for root in roots:
            is_rolling = isinstance(root, Deferred) and root.rolls
            (rolling if is_rolling else others).append(root)
        for part in _by_order(others) if others else []:
            self._write_nest(part, space)
        if rolling:
            self._write_nest(rolling, space)

    def _write_nest(self, roots: list[Deferred | Reduction], space: Shape) -> None:
        """Compute roots in one loop nest."""
        order = _needed(roots)
        for value in order:
            for x in value.operands:
                self.to_memory(x.source if isinstance(x, Rolled) else x)
        for root in roots:
            self.to_memory(root.operand if isinstance(root, Reduction) else root)
        reductions = [root for root in roots if isinstance(root, Reduction)]
        leader = next((root for root in reductions if root.order is not None), None)
        axes: Sequence[int] = range(len(space))
        run: tuple[int, ...] = ()
        if leader is not None and leader.order is not None:
            axes = leader.order.axes
            run = axes[len(axes) - leader.order.run :]
        variables: dict[int, Scalar] = {}
        places: dict[int, Stored] = {}
        for root in roots:
            if isinstance(root, Reduction) and not root.shape and root.target is None:
                variables[root.number] = self.builder.declare(root.first)
                continue
            places[root.number] = root.target or self.array(root.shape, root.dtype)
            if isinstance(root, Reduction) and not _is_along(root, space, run):
                self.fill(places[root.number], root.first)

        def element(index: Sequence[Affine], add: Add) -> None:
            """Write the code of one element."""
            atoms: dict[int, Atom] = {}
            for value in order:
                given = [self._element(x, atoms, index) for x in value.operands]
                atoms[value.number] = value.write(self, *given)
            for root in roots:
                if isinstance(root, Deferred):
                    place = places[root.number]
                    self.builder.store(place.buffer, place.place(index), atoms[root.number])
                else:
                    atom = self._element(root.operand, atoms, index)
                    add(root, self.cast(atom, root.dtype), index)

        def join(root: Reduction, atom: Atom, index: Sequence[Affine]) -> None:
            """Join an element, or the value of a run, to a reduction."""
            if root.number in variables:
                variable = variables[root.number]
                before = self.builder.get(variable)
                self.builder.assign(variable, self.join(root.op, before, atom))
                return
            place = places[root.number]
            at = place.place(_kept(root, index))
            before = root.first
            if not _is_along(root, space, run):
                before = self.builder.load(place.buffer, at)
            self.builder.store(place.buffer, at, self.join(root.op, before, atom))

        if any(isinstance(root, Deferred) and root.rolls for root in roots):
            targets = list(places.values())
            RolledNest(self, space, order, targets, self._moved).write(lambda at: element(at, join))
        elif not run:
            with loops_over(self, space, axes) as index:
                element(index, join)
        else:
            assert leader is not None
            assert leader.order is not None
            views = [
                *[self._in_memory(x) for x in _read_by(order, reductions)],
                *[places[root.number] for root in roots if isinstance(root, Deferred)],
            ]
            flat = all(view is None or is_flat(view, space, run) for view in views)
            cost = max((value.cost for value in order), default=0)
            stores = len(reductions) < len(roots)
            nest = RunNest(self, space, leader.order, reductions, element, flat, cost, stores)
            nest.write(join)
        for root in roots:
            if root.number in variables:
                atom = self.builder.get(variables[root.number])
                root.result = scalars([atom], (), root.dtype)
            else:
                root.result = places[root.number]

    def _in_memory(self, value: Operand) -> Stored | None:
        """Return the view that elements are loaded from; ``None`` if it is one element."""
        assert not isinstance(value, Rolled)
        if isinstance(value, Deferred | Reduction):
            assert value.result is not None
            value = value.result
        if isinstance(value, Scalars):
            return self._copies[id(value)][1]
        return value if isinstance(value, Stored) else None

    def _element(self, value: Operand, atoms: Mapping[int, Atom], index: Sequence[Affine]) -> Atom:
        if isinstance(value, Deferred) and value.number in atoms:
            return atoms[value.number]
        if isinstance(value, Rolled):
            place = project(index, value.shape)
            sizes = zip(place, value.shifts, value.shape, strict=True)
            return self.atom(
                value.source, [self._moved[p, by, n] if by else p for p, by, n in sizes]
            )
        return self.atom(value, project(index, value.shape))


OUT_OF_RANGE: Final = 3
"""Status of a function that has found a number that a dtype cannot hold."""

FUSED: set[Primitive] = set()
"""Primitives that read their operands element by element, so that these can be deferred."""

COMPLEX: set[Primitive] = set()
"""Primitives whose native form takes complex numbers; set by `functrace.native.rows`."""

FUSED_REDUCTIONS: set[Primitive] = set()
"""Primitives of these whose operand is read in the loop nest of the operand's shape."""


def _same(_low: Lowering, atom: Atom) -> Atom:
    """Write the code of an element that is another one."""
    return atom


def _is_large(number: object) -> bool:
    """Return True for an integer beyond int64: in some operations NumPy raises for it."""
    return type(number) is int and not -(2**63) <= number < 2**63


def _number(number: object) -> Const:
    """Return a Python number of a program."""
    kind: DType = np.asarray(number).dtype
    if kind not in DTYPES:
        raise NoNativeForm(f"the number {number!r}")
    return Const(np.asarray(number).item(), kind)


def extreme(builder: Builder, op: str, a: Atom, b: Atom) -> Atom:
    """Return ``np.maximum`` or ``np.minimum`` of two scalars: nan if one is nan, the second one if
    they are equal.
    """
    boolean = np.dtype(bool)
    if a.dtype.kind == "b":
        return builder.let("or" if op == "maximum" else "and", boolean, a, b)
    first = builder.let("greater" if op == "maximum" else "less", boolean, a, b)
    if a.dtype.kind == "f":
        first = builder.let("or", boolean, first, builder.let("is_nan", boolean, a))
    return builder.let("select", a.dtype, first, a, b)


def _kept(root: Reduction, index: Sequence[Affine]) -> tuple[Affine, ...]:
    """Return the index of a reduction's result, without the reduced axes or with zeros for them."""
    if len(root.shape) == len(index):
        return tuple(ZERO if k in root.axes else x for k, x in enumerate(index))
    return tuple(x for k, x in enumerate(index) if k not in root.axes)


def _is_along(root: Reduction, space: Shape, run: Sequence[int]) -> bool:
    """Return True if a reduction is over the axes of a run only."""
    return bool(run) and {k for k in root.axes if space[k] > 1} == set(run)


def _by_order(roots: Sequence[Deferred | Reduction]) -> list[list[Deferred | Reduction]]:
    """Return the roots by loop nest: sums in NumPy's order need loop nests in that order."""
    found: list[tuple[Reduction, list[Deferred | Reduction]]] = []
    rest: list[Deferred | Reduction] = []
    ordered = [root for root in roots if isinstance(root, Reduction) and root.order is not None]
    for root in sorted(ordered, key=lambda root: not (root.order and root.order.run)):
        for leader, own in found:
            if can_join(root, leader):
                own.append(root)
                break
        else:
            found.append((root, [root]))
    if not found:
        return [list(roots)]
    for root in roots:
        if isinstance(root, Deferred) or (root.order is None and can_join(root, found[0][0])):
            found[0][1].append(root)
        elif root.order is None:
            rest.append(root)
    return [*[own for _, own in found], *([rest] if rest else [])]


def _read_by(order: Sequence[Deferred], reductions: Sequence[Reduction]) -> list[Operand]:
    """Return the values whose elements a loop nest loads."""
    own = {value.number for value in order}
    return [
        x
        for value in (*order, *reductions)
        for x in value.operands
        if not (isinstance(x, Deferred) and x.number in own)
    ]


def _uncomputed(roots: Iterable[Deferred | Reduction]) -> list[Deferred | Reduction]:
    """Return the roots, and what they read that has not been computed, in order."""
    found: dict[int, Deferred | Reduction] = {}
    left: list[Operand] = list(roots)
    while left:
        value = left.pop()
        if isinstance(value, Rolled):
            value = value.source
        if not isinstance(value, Deferred | Reduction) or value.result is not None:
            continue
        if value.number not in found:
            found[value.number] = value
            left.extend(value.operands)
    return [found[number] for number in sorted(found)]


def _groups(
    pending: Iterable[Deferred | Reduction],
) -> dict[tuple[int, Shape], list[Deferred | Reduction]]:
    """Return the roots by level and shape of the loop nest."""
    found: dict[tuple[int, Shape], list[Deferred | Reduction]] = {}
    for value in pending:
        space = value.space if isinstance(value, Reduction) else value.shape
        same = apart = 0
        for operand in value.operands:
            x = operand.source if isinstance(operand, Rolled) else operand
            if not isinstance(x, Deferred | Reduction) or x.result is not None:
                continue
            if isinstance(x, Reduction):
                same, apart = max(same, x.level + 1), max(apart, x.level + 1)
                continue
            is_same = x.shape == space and not isinstance(operand, Rolled)
            if isinstance(value, Reduction) and x.rolls:
                is_same = False
            if x.is_root:
                same = max(same, x.level if is_same else x.level + 1)
                apart = max(apart, x.level + 1)
            else:
                same = max(same, x.level if is_same else x.level_apart)
                apart = max(apart, x.level_apart)
        value.level = same
        if isinstance(value, Deferred):
            value.level_apart = apart
            _mark_rolled(value)
        if isinstance(value, Reduction) or value.is_root:
            found.setdefault((same, space), []).append(value)
    return found


def _mark_rolled(value: Deferred) -> None:
    """Set the flags of an operation that say whether it reads rolled arrays."""
    value.has_rolled = value.rolls = False
    for x in value.operands:
        if isinstance(x, Rolled):
            value.has_rolled = value.rolls = True
        elif isinstance(x, Deferred) and x.result is None:
            value.has_rolled |= x.has_rolled and not x.is_root
            value.rolls |= x.rolls and (not x.is_root or x.level == value.level)


def _reduced(
    groups: Mapping[tuple[int, Shape], Sequence[Deferred | Reduction]],
) -> list[Deferred]:
    """Return operands of reductions that read rolled arrays: reductions do not."""
    return [
        root.operand
        for roots in groups.values()
        for root in roots
        if isinstance(root, Reduction)
        and isinstance(root.operand, Deferred)
        and root.operand.result is None
        and root.operand.has_rolled
        and not root.operand.is_root
    ]


def _needed(roots: Sequence[Deferred | Reduction]) -> list[Deferred]:
    """Return the deferred values that a loop nest computes, in order."""
    found: dict[int, Deferred] = {}
    own = {root.number for root in roots}
    left: list[Operand] = list(roots)
    while left:
        value = left.pop()
        if not isinstance(value, Deferred | Reduction) or value.result is not None:
            continue
        if isinstance(value, Deferred):
            if value.number in found:
                continue
            assert value.number in own or not value.is_root
            found[value.number] = value
        left.extend(value.operands)
    return [found[number] for number in sorted(found)]


def _shared(
    groups: Mapping[tuple[int, Shape], Sequence[Deferred | Reduction]],
) -> list[Deferred]:
    """Return deferred values that several loop nests would compute, and that are worth storing."""
    seen: dict[int, tuple[int, Deferred]] = {}
    found: dict[int, Deferred] = {}
    for number, roots in enumerate(groups.values()):
        own = {root.number for root in roots}
        left: list[Operand] = [x for root in roots for x in root.operands]
        done: set[int] = set()
        while left:
            value = left.pop()
            if not isinstance(value, Deferred) or value.result is not None:
                continue
            if value.number in done or value.is_root or value.number in own:
                continue
            done.add(value.number)
            before = seen.setdefault(value.number, (number, value))
            if before[0] != number and value.cost >= SHARED:
                found[value.number] = value
            left.extend(value.operands)
    return [found[number] for number in sorted(found)]


def _read_later(
    groups: Mapping[tuple[int, Shape], Sequence[Deferred | Reduction]],
) -> list[Deferred]:
    """Return deferred values that these loop nests compute, that operations beyond them read, and
    that are worth storing.
    """
    found: dict[int, Deferred] = {}
    counts: Counter[int] = Counter()
    left: list[Operand] = [root for roots in groups.values() for root in roots]
    done: set[int] = set()
    while left:
        value = left.pop()
        if not isinstance(value, Deferred | Reduction) or value.number in done:
            continue
        done.add(value.number)
        for x in {id(x): x for x in value.operands}.values():
            if isinstance(x, Deferred) and x.result is None:
                counts[x.number] += 1
                if not x.is_root:
                    found[x.number] = x
                left.append(x)
    return [x for k, x in sorted(found.items()) if x.cost >= SHARED and x.uses > counts[k]]
