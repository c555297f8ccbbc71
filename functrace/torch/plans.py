"""Ops and plans: how a tensor operation is computed, and what its node does.

An `Op` is PyTorch's name of a node, a NumPy function, and which operands and results PyTorch saves for it. A
`Plan` is what one op does for one combination of shapes, dtypes, static parameters and operands that want gradients: the
forward function, and the backward program, which the core derives (`functrace.transforms.backward_program`) under the policy
that only what the op names may be saved and everything else is computed again. Plans are kept in a bounded dict, so an
operation costs one lookup, one NumPy call and one node.

Note [Numbers are operands, not constants]
    A Python number among the operands is an input of the backward program, kept beside the saved tensors: a learning rate
    that changes does not make a new plan, and saved-tensor hooks never see it. Where the derivative itself depends on the
    number (the exponent of ``pow``), the op says that it is static.

Floor: 8.
"""

from __future__ import annotations

import contextvars
import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from functrace.caches import BYTES_PER_OP, Bounded, Kept
from functrace.executor import Runner
from functrace.executor.blocks import BLOCKS, FEWEST, spread_ufunc
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.filling import Template, filling
from functrace.ir.parts import Compiled, restrict
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ir.unknown import NotKnown, Questions
from functrace.ops import elementwise as ew
from functrace.ops.contraction import matmul_p
from functrace.ops.elementwise import Elementwise
from functrace.ops.indexing import ARRAY, index_p
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import broadcast_to_p, convert_p, permute_p, reshape_p
from functrace.torch import sentences
from functrace.torch.aliases import apart, in_grad_mode, shown, traced_of
from functrace.torch.autograd.anomaly_mode import ANOMALY, note_origin
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.graph import NO_EDGE, OpNode, _sequence, edge, node_class, zeros_of
from functrace.torch.autograd.hooks import refuse_hooks
from functrace.torch.autograd.saved import SavedPositions, SavedTensor, save_operand
from functrace.torch.dtypes import DEPENDING
from functrace.torch.dual import DUALS
from functrace.torch.patterns import Pattern
from functrace.torch.promotion import Promote, broadcasting
from functrace.torch.tensor import UNVERSIONED, Operand, Tensor, Value, array_of, view_of, wrap
from functrace.torch.usual import Puller, Recorder, puller, recorder
from functrace.tracing import Recording, Tracer, bind
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.recording import STARTED
from functrace.transforms import backward_program
from functrace.typing import Array

_MOST_BYTES = 64 << 20
"""Estimated bytes of all plans together."""
_MOST_PLANS = 5_000
MOST_MEMBERS = 8
"""Plans of one pattern: where rules tell more cases than that apart, every number has a plan of its own."""
CALLS_INTERPRETED = 16
"""Runs of a backward program before it is compiled: 0.3 ms, against some 4 us of interpreting."""
FEWEST_ELEMENTS = 1 << 14
"""Of a gradient: for larger ones programs are compiled at once, since compiled ones write where values have died."""

_new = object.__new__
_ndarray = np.ndarray
NUMBERS = frozenset({bool, int, float, complex})
_KINDS: tuple[type[Any], ...] = (int, float, complex)


class Quiet(threading.local):
    """Runs functions with NumPy's warnings off: PyTorch is silent about ``log(0)``. One context per thread.

    Measured: 0.06 us, against 0.7 us for ``numpy.errstate``.
    """

    def __init__(self) -> None:
        context = contextvars.copy_context()
        context.run(np.seterr, all="ignore")
        self.run: Callable[..., Any] = context.run


QUIET = Quiet()


@dataclass(eq=False, repr=False)
class Op:
    """One operation on tensors; what users see of it is a row (rows.py).

    Args:
        node: PyTorch's name of its node.
        function: computes it from arrays or traced values: ``function(*operands, *params)``.
        saves: what PyTorch saves, in its order: field name, and which operand (0, 1 …) or result (-1, -2 …) it is. What the
            derivative does not need in a given case (an operand whose partner wants no gradient) is not saved.
        promote: how dtypes of operands meet; see promotion.py.
        edges: operands that PyTorch lists in ``next_functions`` (``None``: an edge that leads nowhere); all by default.
        keeps: fields that PyTorch saves even where the derivative does not need them.
        is_view: whether the result is a view of the first operand.
        constants: results that PyTorch does not differentiate.
        static_numbers: whether Python numbers among the operands are part of the plan.
        details: further ``_saved_…`` fields, from ``(operand avals, params)``.
        derived: the function whose derivative is taken in place of ``function``'s, where PyTorch takes another one.
        repeats: whether the in-place form writes the same wherever elements share memory, so that it may.
        measures: whether the ints among its parameters are sizes and positions; see patterns.py.
        gradient: the op that computes the gradient where that is recorded, for what PyTorch computes by one; see
            `recorded_gradient`. Otherwise each equation of the backward program is an op.
        called: what PyTorch calls the operation, where the node's name does not tell.
        primitive: the primitive of the core that it applies, if it was made for that; see `op_of`.
    """

    node: str
    function: Callable[..., Any]
    saves: tuple[tuple[str, int], ...] = ()
    promote: Promote | None = None
    edges: tuple[int | None, ...] | None = None
    keeps: tuple[str, ...] = ()
    is_view: bool = False
    static_numbers: bool = False
    details: Callable[..., dict[str, Any]] | None = None
    constants: tuple[int, ...] = ()
    derived: Callable[..., Any] | None = None
    repeats: bool = False
    measures: bool = False
    gradient: Op | None = None
    called: str = ""
    primitive: Primitive | None = None
    node_class: type[OpNode] = field(init=False)

    def __post_init__(self) -> None:
        self.node_class = node_class(self.node)

    def __repr__(self) -> str:
        return f"<op {self.node}>"


class Plan(Kept):
    """What an op does for one combination of operands.

    Args:
        op: what is done.
        specs: aval of each operand, or the number (or its type) that stands there.
        params: static parameters.
        active: which operands want gradients.
    """

    def __init__(self, op: Op, specs: tuple[Any, ...], params: tuple[Any, ...], active: tuple[bool, ...]) -> None:
        super().__init__(BYTES_PER_OP)
        self.op = op
        self.params = params
        self.specs = specs
        self.active = active
        self.function = op.function if op.promote is None else op.promote(op.function, specs)
        self.node_class = op.node_class
        self._backward: Program | None = None
        self._unknown: Plan | None = None
        self._given: Sequence[Any] = ()
        self.direct: Compiled | None = None
        """The compiled program, where it takes what was saved and one gradient, and computes all (`OpNode.run`)."""
        self.places: tuple[int, ...] = ()
        """Which of its results belongs to each edge; -1: none."""
        self.saves: tuple[tuple[str, int], ...] = ()
        self.unpacks: tuple[bool, ...] = ()
        self.outputs: tuple[ShapeDtype, ...] = ()
        self.differentiated: tuple[ShapeDtype, ...] = ()
        self.edge_positions: tuple[int | None, ...] = tuple(range(len(specs))) if self.edges is None else self.edges
        self.edge_to = tuple(-1 if k is None or not active[k] else k for k in self.edge_positions)
        self.selected: tuple[int, ...] | None = None
        self.many = False
        self.is_freed = False
        """Whether the node can be run once only, although it saves nothing."""
        # A primitive looks for traced operands; here there are none, so its NumPy function is called directly: 0.3 us less.
        function = self.function
        self.evaluate = self._spread() or (function.eval if isinstance(function, Elementwise) else function)
        self.recorder: Recorder | None = None
        """Makes nodes in the usual case, once the plan has proved to be in use."""
        self.puller: Puller | None = None
        """Runs `direct` in the usual case."""
        self._records = 0
        self.differentiable = any(active) and self._derive(op)

    @property
    def edges(self) -> tuple[int | None, ...] | None:
        """The operands that have edges; None: all."""
        return self.op.edges

    def _spread(self) -> Callable[..., Any] | None:
        """Return what computes large arrays over all cores, for functions that can."""
        function = self.function
        ufunc = function.eval if isinstance(function, Elementwise) else None
        if not isinstance(ufunc, np.ufunc):
            return None
        return spread_ufunc(ufunc, [spec[0] if type(spec) is tuple else spec for spec in self.specs])

    def note_record(self) -> None:
        """Count a node that was made by `record`; the lines for it are written out when that has come to be worth it."""
        self._records += 1
        if self._records == CALLS_INTERPRETED and not self.many:
            saved = zip([p for _, p in self.saves], self.unpacks, strict=True)
            self.recorder = recorder(self.edge_to, tuple([p if is_tensor else ~p - 1 for p, is_tensor in saved]))

    def compute(self, arrays: Sequence[Any]) -> Any:
        """Return the result, or the tuple of results, as NumPy gives them."""
        try:
            return QUIET.run(self.evaluate, *arrays, *self.params)
        except RuntimeError as error:
            if "already entered" not in str(error):
                raise
        with np.errstate(all="ignore"):  # a finalizer that computes, run by the collector inside another operation
            return self.evaluate(*arrays, *self.params)

    # -- the backward program --------------------------------------------------------------------

    def _derive(self, op: Op) -> bool:
        """Make the backward program; whether there is one (some result is differentiable)."""
        program, operands = self._record()
        self.outputs = tuple(program.avals[i] for i in program.output_ids)
        if not any(aval.dtype.kind in "fc" for aval in self.outputs):
            return False
        kept = [k for k, aval in enumerate(self.outputs) if aval.dtype.kind in "fc" and k not in op.constants]
        self.differentiated = self.outputs[: kept[-1] + 1] if kept else ()
        rows = self._rows(len(operands), len(program.output_ids))
        candidates: dict[int, int] = {}
        for _, position in rows:
            variable = program.output_ids[~position] if position < 0 else operands[position]
            if variable is not None:
                candidates.setdefault(variable, position)
        flags = [self.active[k] for k, variable in enumerate(operands[: len(self.specs)]) if variable is not None]
        with np.errstate(all="ignore"):  # a number may not fit the dtype
            backward, needed = backward_program(program, flags, tuple(candidates))
        positions = [candidates[i] for i in needed]
        self.saves = tuple((name, p) for name, p in rows if p in positions or name in op.keeps)
        kept = [p for _, p in self.saves]
        if kept != positions:
            self.selected = tuple(kept.index(p) for p in positions)
        self._needed = len(needed)
        self.unpacks = tuple(p < 0 or p >= len(self.specs) or not _is_number(self.specs[p]) for p in kept)
        self._take(conjugated(backward, len(needed)))
        return True

    def given(self, specs: tuple[Any, ...], params: tuple[Any, ...], given: Sequence[Any]) -> Plan:
        """Return the plan for known operands, from one that was derived for unknown sizes and numbers.

        Args:
            specs, params: as of any plan.
            given: the numbers, by their places.
        """
        made = _new(Plan)
        made.key, made.place, made.seen, made.used, made.nbytes = None, 0, 0, 0, BYTES_PER_OP // 2
        made.__dict__.update(self.__dict__)
        made.specs, made.params = specs, params
        made.outputs = tuple([
            specs[k] if k >= 0 else aval if fill is None else fill(given) for k, fill, aval in self._fill_outputs
        ])  # fmt: skip
        is_large = any(isinstance(spec, ShapeDtype) and spec.size >= FEWEST for spec in specs)
        if is_large:
            made.evaluate = made._spread() or made.evaluate
        if self.differentiable:
            made.differentiated = made.outputs[: len(self.differentiated)]
            made._backward, made._unknown, made._given = None, self, given
            made.direct = None if self.puller is None else self._compiled
            if self._fill_moves is not None:
                made.moves = self._fill_moves(given)
            if not self._is_shared or is_large:
                made._runner, made._sharing, made._calls = None, made, 0
                made._compiled = made.direct = None
                made._is_shared = True
        return made

    def _rows(self, operands: int, results: int) -> list[tuple[str, int]]:
        """What may be saved: the op's operands and results, and numbers."""
        rows = [(name, p) for name, p in self.op.saves if p < operands and ~p < results]
        named = {p for _, p in rows}
        return rows + [(f"operand{p}", p) for p, s in enumerate(self.specs) if isinstance(s, type) and p not in named]

    def _record(self) -> tuple[Program, list[int | None]]:
        """Trace the function; returns the program and the variable of each operand (``None`` for a static number)."""
        with Recording(self.op.node, keeps_source=False) as recording:
            given: list[Any] = []
            variables: list[int | None] = []
            for spec in self.specs:
                if isinstance(spec, ShapeDtype):
                    given.append(recording.new_input(spec))
                    variables.append(given[-1]._id)
                elif isinstance(spec, type):
                    given.append(recording.new_input(self._number_aval(spec)))
                    variables.append(given[-1]._id)
                else:
                    given.append(spec[1])
                    variables.append(None)
            result = (self.op.derived or self.function)(*given, *self.params)
            self.many = isinstance(result, tuple)
            outputs = tuple(
                r._id if isinstance(r, Tracer) else recording.capture(r) for r in (result if self.many else (result,))
            )
            return recording.program(outputs, name=self.op.node), variables

    def _number_aval(self, kind: type) -> ShapeDtype:
        dtypes = [spec.dtype for spec in self.specs if isinstance(spec, ShapeDtype)]
        return ShapeDtype((), np.result_type(*dtypes, kind(0)))

    def _take(self, backward: Program) -> None:
        """Split off the outputs that are a cotangent as it came, or a view of it: no copy is made of them."""
        self._backward = backward
        self.nbytes += BYTES_PER_OP * len(backward.ops)
        count = self._needed
        arriving = {variable: k - count for k, variable in enumerate(backward.input_ids) if k >= count}
        shown = [views_of_cotangent(backward, i, arriving) for i in backward.output_ids]
        rest = [i for i, view in zip(backward.output_ids, shown, strict=True) if view is None]
        computed = iter(range(len(rest)))
        moves: Iterator[Move] = iter([(next(computed), None) if view is None else view for view in shown])
        self.moves = tuple(next(moves) if p is not None and self.active[p] else None for p in self.edge_positions)
        assert next(moves, None) is None, "an active operand has no edge"
        self._runner = Runner(restrict(backward, backward.input_ids, rest, keep=True).program, BLOCKS) if rest else None
        self._computes = bool(rest)
        self._calls, self._compiled = 0, None
        self._sharing, self._is_shared = self, True
        self.direct = None
        computes = all(move is None or move[1] is None for move in self.moves)
        self.places = tuple([-1 if move is None else move[0] for move in self.moves])
        self._is_usual = computes and self._computes and self.selected is None and len(self.outputs) == 1

    def share(self) -> None:
        """Let the plans that are made of this one, of unknown numbers, run one program where it does not hold them."""
        self._fill_outputs = [
            (self.specs.index(aval), None, aval) if aval in self.specs else (-1, filling(aval), aval)
            for aval in self.outputs
        ]
        if self.differentiable:
            self._fill_moves = filling(self.moves)
            self._template = Template(self.backward)
            if self._runner is not None:
                self._running = Template(self._runner.flat)
                self._is_shared = self._running.is_known

    @property
    def backward(self) -> Program:
        """The backward program."""
        if self._backward is None:
            assert self._unknown is not None
            self._backward = self._unknown._template.fill(self._given)
        return self._backward

    def _compute(self, values: list[Any], is_plain: bool = True) -> Sequence[Any]:
        """Run the part of the backward program that computes, on traced gradients or while it is not compiled."""
        sharing = self._sharing
        if not (sharing._is_shared and is_plain):
            sharing = self._sharing = self
        if is_plain:
            compiled = sharing._compiled
            calls = CALLS_INTERPRETED if values[-1].size < FEWEST_ELEMENTS else 2
            if compiled is None and sharing._calls >= calls:
                compiled = sharing._compile()
            if compiled is not None:
                self._compiled = compiled
                self.puller = sharing.puller
                self.direct = None if self.puller is None else compiled
                return compiled(*values)
            sharing._calls += 1
        runner = sharing._runner
        if runner is None or (sharing is self and self._unknown is not None and runner is self._unknown._runner):
            assert self._unknown is not None
            runner = self._runner = Runner(self._unknown._running.fill(self._given), BLOCKS, is_flat=True)
        return runner.interpret(values) if is_plain else runner(values)

    def _compile(self) -> Compiled | None:
        """Compile the program; None if it runs for unknown sizes, and compiling needs them."""
        assert self._runner is not None
        try:
            self._compiled = self._runner.compile()
            self.puller = puller(self.unpacks, self.places) if self._is_usual else None
        except NotKnown:
            self._is_shared = False
        return self._compiled

    def fits(self, values: Sequence[Any]) -> bool:
        """Whether what was unpacked has the shapes and dtypes that the backward program was made for."""
        program = self.backward
        avals = [program.avals[i] for i in program.input_ids]
        chosen = values if self.selected is None else [values[k] for k in self.selected]
        return all(
            v.shape == aval.shape and v.dtype == aval.dtype
            for v, aval in zip(chosen, avals, strict=False)
            if isinstance(v, _ndarray)
        )

    def pull(self, values: list[Any], grads: Sequence[Any]) -> list[Tensor | None]:
        """Run the backward program on the arrays that were saved; returns one gradient per edge."""
        results: Sequence[Any] = ()
        if self._computes:
            if self.selected is not None:
                values = [values[k] for k in self.selected]
            is_plain = True
            for g in grads:
                array = g._array
                if type(array) is not _ndarray:
                    is_plain = False
                values.append(array)
            compiled = self._compiled
            if compiled is None or not is_plain:
                results = self._compute(values, is_plain)
            else:
                results = compiled(*values)
        made: list[Tensor | None] = []
        for move in self.moves:
            if move is None:
                made.append(None)
            elif move[1] is None:
                made.append(wrap(results[move[0]]))
            elif move[1]:
                made.append(wrap(shown_by(grads[move[0]]._array, move[1])))
            else:
                made.append(grads[move[0]])
        return made

    def pull_tensors(self, saved: list[Any], grads: list[Any]) -> list[Tensor | None]:
        """Evaluate the backward program on tensors, so that it is recorded in turn: equation by equation, or as one op."""
        whole = self.op.gradient
        if whole is not None:
            result = apply(whole, (grads[0], *saved), (self,))
            return [None if move is None else result for move in self.moves]
        if self.selected is not None:
            saved = [saved[k] for k in self.selected]
        results = iter(evaluate_on_tensors(self.backward, [*saved, *grads]))
        return [None if move is None else next(results) for move in self.moves]

    # -- what users see of a node ------------------------------------------------------------------

    def saved_names(self) -> list[str]:
        """Return the names of the fields, as ``dir`` lists them."""
        fields = dict.fromkeys(name.partition("[")[0] for name, _ in self.op.saves)
        details = [name for name in self._details() if name not in fields]
        return [f"_{raw}saved_{name}" for name in fields for raw in ("", "raw_")] + [f"_saved_{n}" for n in details]

    def saved_field(self, node: OpNode, name: str) -> Any:
        """Return ``node._saved_<name>``: unpacked, ``None`` if it was not needed."""
        found = self._find(node, name)
        if found is not None:
            value, unpacks = found
            return value.unpack(node) if unpacks else wrap(value)
        parts = self._parts(node, name)
        if parts:
            return tuple([part if part is None else part.unpack(node) for part in parts])
        details = self._details()
        if details.get(name) is not None:
            return details[name]
        if name in dict(self.op.saves) or name in details:
            return None
        raise AttributeError(f"'{type(node).__name__}' object has no attribute '_saved_{name}'")

    def raw_saved_field(self, node: OpNode, name: str) -> Any:
        """Return ``node._raw_saved_<name>``, the `SavedTensor` itself, or several."""
        parts = self._parts(node, name)
        if parts:
            node._is_shown = True
            return tuple([SavedTensor(None) if part is None else part for part in parts])
        found = None if node._saved is None else self._find(node, name)
        if found is not None and found[1]:
            node._is_shown = True
            return found[0]
        if node._saved is None and name in dict(self.saves):
            freed = SavedTensor(wrap(np.zeros(0)))
            freed.release()
            return freed
        if found is None and name in dict(self.op.saves):
            return SavedTensor(None)
        raise AttributeError(f"'{type(node).__name__}' object has no attribute '_raw_saved_{name}'")

    def _parts(self, node: OpNode, name: str) -> list[SavedTensor | None]:
        """Return the fields ``name[0]``, ``name[1]`` … as they stand in an index: None for what is taken whole."""
        found = [self._find(node, field_name) for field_name, _ in self.saves if field_name.startswith(f"{name}[")]
        if not found:
            return []
        fields = iter([field[0] for field in found if field is not None])
        parts: list[SavedTensor | None] = []
        for entry in self.params[-1]:
            part = next(fields) if entry == ARRAY else None
            if type(part) is not SavedPositions:
                parts.append(part)
            elif not part.axis:
                parts.append(part.saved)
        return parts

    def _find(self, node: OpNode, name: str) -> tuple[Any, bool] | None:
        for k, (field_name, _) in enumerate(self.saves):
            if field_name == name:
                if node._saved is None:
                    raise RuntimeError(sentences.BACKWARD_TWICE)
                return node._saved[k], self.unpacks[k]
        return None

    def _details(self) -> dict[str, Any]:
        return {} if self.op.details is None else self.op.details(self.specs, self.params)


Views = tuple[tuple[Primitive, tuple[Any, ...]], ...]
Move: TypeAlias = tuple[int, "Views | None"]
"""Where an edge's gradient comes from: a computed result, or a cotangent and the views to take of it, first to last."""
VIEWS = (reshape_p, permute_p, broadcast_to_p)


def views_of_cotangent(program: Program, output: int, arriving: dict[int, int]) -> Move | None:
    """Return which cotangent an output is a view of, and how; None if it is computed."""
    views: list[tuple[Primitive, tuple[Any, ...]]] = []
    while output not in arriving:
        if output < 0:
            return None
        primitive, operands, params = program.ops[output]
        if primitive not in VIEWS:
            return None
        views.append((primitive, params))
        output = operands[0]
    return arriving[output], tuple(reversed(views))


def shown_by(array: Any, views: Views) -> Any:
    """Return what views show of an array; what is expanded cannot be written to."""
    for primitive, params in views:
        if isinstance(array, Tracer):
            array = bind(primitive, (array,), params)
        elif primitive is broadcast_to_p and not array.ndim:
            # 0.6 us, against 2.2 us for numpy.broadcast_to: the gradient of every full sum comes here.
            array = _ndarray(params[0], array.dtype, array, 0, (0,) * len(params[0]))
            array.flags.writeable = False
        else:
            array = primitive.eval(array, *params)
    return array


def conjugated(backward: Program, needed: int) -> Program:
    """Return a backward program in PyTorch's convention: its gradients are the conjugates of the core's cotangents.

    Args:
        backward: the core's program.
        needed: how many of its inputs are saved values; the others are cotangents.
    """
    cotangents, outputs = set(backward.input_ids[needed:]), backward.output_ids
    if all(backward.avals[i].dtype.kind != "c" for i in (*cotangents, *outputs)):
        return backward
    with Recording(backward.name, keeps_source=False) as recording:
        given = [recording.new_input(backward.avals[i]) for i in backward.input_ids]
        turned = [ew.conj(x) if i in cotangents and x.dtype.kind == "c" else x
                  for i, x in zip(backward.input_ids, given, strict=True)]  # fmt: skip
        results = evaluate_program(backward, turned)
        passed = dict(zip(backward.input_ids, given, strict=True))
        made = [passed[i] if i in cotangents else ew.conj(r) if r.dtype.kind == "c" else r
                for i, r in zip(outputs, results, strict=True)]  # fmt: skip
        ids = [r._id if isinstance(r, Tracer) else recording.capture(r) for r in made]
        return recording.program(tuple(ids), name=backward.name)


def _is_number(spec: Any) -> bool:
    return not isinstance(spec, ShapeDtype)


PLANS: Bounded[Plan] = Bounded("plans of tensor operations", _MOST_BYTES, _MOST_PLANS)
DEPENDING.append(PLANS.clear)
_plans, _tick = PLANS.entries, PLANS.tick  # `PLANS.get` in line: a method costs 0.1 us


# -- applying an op ----------------------------------------------------------------------------------------


def apply(op: Op, operands: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Any:
    """Apply an op to tensors and numbers; returns a tensor (or a tuple) with its place in the graph.

    Raw traced values and arrays, and tensors that hold traced values, are computed with and not recorded here: they belong
    to a functional transform (`functrace.grad` …).
    """
    if DUALS.level is not None and DUALS.level.concerns(operands):
        return DUALS.level.apply(op, operands, params)
    if MODES.dispatch is not None:
        return MODES.dispatch.apply(op, operands, params)
    recording = MODES.recording
    if len(operands) == 1 and isinstance(x := operands[0], Tensor) and type(a := x._array) is _ndarray:  # 0.4 us less
        is_active = recording and (x._node is not None or x._requires or (x._view is not None and x.requires_grad))
        mask = 1 if is_active else 0
        found: tuple[Any, ...] = (op, params, a.shape, a.dtype, mask)
        arrays: Sequence[Any] = (a,)
    else:
        arrays = []
        key: list[Any] = [op, params]
        mask = 0
        bit = 1
        for x in operands:
            if isinstance(x, Tensor):
                a = x._array
                if type(a) is not _ndarray:
                    return apply_traced(op, operands, params)
                arrays.append(a)
                key.append(a.shape)
                key.append(a.dtype)
                if recording and (x._node is not None or x._requires or (x._view is not None and x.requires_grad)):
                    mask |= bit
            elif type(x) in NUMBERS:
                arrays.append(x)
                key.append((type(x), x) if op.static_numbers else type(x))
            else:
                return apply_others(op, operands, params)
            bit <<= 1
        key.append(mask)
        found = tuple(key)
    plan = _plans.get(found)
    if plan is None:
        plan = make_plan(found, operands, mask)
    plan.used = _tick()
    try:
        results = QUIET.run(plan.evaluate, *arrays, *params)
    except RuntimeError:
        results = plan.compute(arrays)
    if op.is_view:
        made: Any = view_of(operands[0], results, (op.function, params, op))
    elif type(results) is tuple:
        made = tuple([wrap(r) for r in results])
    else:
        made = _new(Tensor)
        made._array = results if type(results) is _ndarray else np.asarray(results)
        made._counter = [0, STARTED.newest]
    if plan.differentiable:
        if plan.recorder is None or plan.recorder(plan, operands, arrays, made) is None:
            record(plan, operands, arrays, made)
    elif recording is None and not op.is_view:
        for tensor in made if type(made) is tuple else (made,):
            tensor._counter = UNVERSIONED
    return made


def binary(op: Op) -> Callable[[Any, Any], Any]:
    """Return the operator of an op: `apply` for two operands, with the usual case in line.

    Measured on 4 elements: 2.2 us with a node, against 3.0 us for `apply`.
    """

    def operator(self: Tensor, other: Operand) -> Value:
        a = self._array
        kind = type(other)
        if type(a) is not _ndarray or self._view is not None or DUALS.level is not None or MODES.dispatch is not None:
            return apply(op, (self, other)) if isinstance(other, Tensor) or kind in NUMBERS else apply_other(op, self, other)
        mask = 1 if self._node is not None or self._requires else 0
        if isinstance(other, Tensor):
            b = other._array
            if type(b) is not _ndarray or other._view is not None:
                return apply(op, (self, other))
            if other._node is not None or other._requires:
                mask += 2
            recording = MODES.recording
            if not recording:
                if recording is None:
                    return apply(op, (self, other))
                mask = 0
            key = (op, (), a.shape, a.dtype, b.shape, b.dtype, mask)
        elif kind in NUMBERS and not op.static_numbers:
            b = other
            recording = MODES.recording
            if not recording:
                if recording is None:
                    return apply(op, (self, other))
                mask = 0
            key = (op, (), a.shape, a.dtype, kind, mask)
        else:
            return apply(op, (self, other)) if kind in NUMBERS else apply_other(op, self, other)
        plan = _plans.get(key)
        if plan is None:
            plan = make_plan(key, (self, other), mask)
        plan.used = _tick()
        try:
            result = QUIET.run(plan.evaluate, a, b)
        except RuntimeError:
            result = plan.compute((a, b))
        made = _new(Tensor)
        made._array = result if type(result) is _ndarray else np.asarray(result)
        made._counter = [0, STARTED.newest]
        if plan.differentiable and (plan.recorder is None or plan.recorder(plan, (self, other), (a, b), made) is None):
            record(plan, (self, other), (a, b), made)
        return made

    return operator


def apply_other(op: Op, x: Any, y: Any) -> Any:
    """Apply an operator to a tensor and something that is none: a traced value, some kind of number; others are refused."""
    number = number_of(y)
    return apply(op, (x, number)) if type(number) in NUMBERS or isinstance(y, Tracer) else NotImplemented


def number_of(x: Any) -> Any:
    """Return a number of NumPy's, or of a class derived from Python's, as the Python number that it is."""
    if type(x) in NUMBERS:
        return x
    if isinstance(x, np.generic):
        return float(x) if isinstance(x, np.bool_) else x.item()  # as PyTorch takes a bool of NumPy's
    return next((kind(x) for kind in _KINDS if isinstance(x, kind)), x)


def apply_others(op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Apply an op to operands of which some are neither tensors nor Python's numbers.

    Raises:
        TypeError: for a tensor with an array or anything else, unless a functional transform is at work.
    """
    inside = [isinstance(x._array if isinstance(x, Tensor) else x, Tracer) for x in operands]
    if any(inside) or not any(isinstance(x, Tensor) for x in operands):
        return apply_traced(op, operands, params)
    plain = tuple(number_of(x) for x in operands)
    for k, x in enumerate(plain):
        if not isinstance(x, Tensor) and type(x) not in NUMBERS:
            raise TypeError(sentences.argument_type(op.node, k, len(operands), x))
    return apply(op, plain, params)


def record(plan: Plan, operands: Sequence[Any], arrays: Sequence[Any], made: Any) -> OpNode:
    """Make the node of an operation, and its results the node's outputs."""
    node = _new(plan.node_class)
    node._plan = plan
    node._sequence = next(_sequence)
    edges = []
    for k in plan.edge_to:
        if k < 0:
            edges.append(NO_EDGE)
        elif (before := (x := operands[k])._node) is not None and x._view is None:
            edges.append((before, x._output_nr))
        else:
            edges.append(edge(x))
    node._edges = tuple(edges)
    if type(made) is tuple:
        for k, tensor in enumerate(made):
            if plan.outputs[k].dtype.kind in "fc" and k not in plan.op.constants:
                tensor._node, tensor._output_nr = node, k
        outputs = made
    else:
        made._node = node
        outputs = (made,)
    if plan.saves:
        saved = []
        for (_, position), is_tensor in zip(plan.saves, plan.unpacks):
            if not is_tensor:
                saved.append(arrays[position])
            elif position < 0:
                saved.append(SavedTensor(outputs[~position], True, node))
            else:
                saved.append(save_operand(operands[position], node, saved))
        node._saved = tuple(saved)
    else:
        node._saved = ()
    if plan.recorder is None:
        plan.note_record()
    return node


_record = record


def _record_with_origin(plan: Plan, operands: Sequence[Any], arrays: Sequence[Any], made: Any) -> OpNode:
    node = _record(plan, operands, arrays, made)
    note_origin(node)
    return node


def _note_origins(enabled: bool) -> None:
    """Let nodes note where they were made, or no longer: `record` is exchanged, so that otherwise nobody has to ask."""
    global record
    record = _record_with_origin if enabled else _record


ANOMALY.switches.append(_note_origins)


def make_plan(key: tuple[Any, ...], operands: Sequence[Any], mask: int) -> Plan:
    """Make and remember the plan of an op and its operands."""
    op, params = key[:2]
    is_static, edges = op.static_numbers, op.edges
    specs: list[Any] = []
    active: list[bool] = []
    for k, x in enumerate(operands):
        if isinstance(x, Tensor):
            aval = aval_of(x._array)
            specs.append(aval)
            active.append(bool(mask >> k & 1) and aval.dtype.kind in "fc" and (edges is None or k in edges))
        else:
            specs.append((type(x), x) if is_static else type(x))
            active.append(False)
    return remember(key, plan_of(op, tuple(specs), params, tuple(active)))


class Family(Kept):
    """The plans that were derived for one pattern: more than one where rules looked at unknown numbers."""

    def __init__(self, nbytes: int) -> None:
        super().__init__(nbytes)
        self.members: tuple[tuple[Questions, Plan], ...] = ()
        self.is_open = True
        """Whether plans can be derived for this pattern."""

    def find(self, given: Sequence[Any]) -> Plan | None:
        """Return the plan that holds for given numbers."""
        for questions, plan in self.members:
            try:
                if questions.fit(given):
                    return plan
            except ArithmeticError:  # these numbers cannot be computed with: whoever asked would say so, too
                continue
        return None

    def derive(self, op: Op, pattern: Pattern, active: tuple[bool, ...]) -> Plan | None:
        """Derive another plan; None where a number itself is needed."""
        try:
            questions, specs, params = pattern.unknown()
            plan = Plan(op, specs, params, active)
            plan.share()
            fits = questions.fit(pattern.given)
        except (NotKnown, Exception):  # what is refused is refused again, for the numbers themselves
            self.is_open = False
            return None
        assert fits, "what was answered for an example does not hold for it"
        questions.is_closed = True
        self.is_open = len(self.members) + 1 < MOST_MEMBERS
        self.members = (*self.members, (questions, plan))
        FAMILIES.resize(self, self.nbytes + plan.nbytes)
        return plan


FAMILIES: Bounded[Family] = Bounded("plans of tensor operations for unknown sizes", _MOST_BYTES, _MOST_PLANS)
DEPENDING.append(FAMILIES.clear)


def plan_of(op: Op, specs: tuple[Any, ...], params: tuple[Any, ...], active: tuple[bool, ...]) -> Plan:
    """Make a plan: of one that was derived for operands like these, or for these alone."""
    opens = op.measures or any(type(spec) is tuple for spec in specs)
    for deep in (True, False) if opens else (False,):
        pattern = Pattern(specs, params, deep, deep and op.measures)
        given = pattern.given
        if not given:
            break
        key = (op, active, *pattern.key)
        family = FAMILIES.get(key)
        if family is None:
            family = Family(BYTES_PER_OP)
            FAMILIES.add(key, family)
        found = family.find(given)
        if found is None and family.is_open:
            found = family.derive(op, pattern, active)
        if found is not None:
            return found.given(specs, params, given)
    return Plan(op, specs, params, active)


def remember(key: tuple[Any, ...], plan: Plan) -> Plan:
    """Keep a plan for the next time."""
    PLANS.add(key, plan)
    return plan


def apply_traced(op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Apply an op where a functional transform is at work: to raw traced values, or tensors that hold them.

    Tensors that want gradients here, in a graph of traced values, get a node as well.

    Returns:
        a tensor if a tensor holds a traced value, or there is nothing but tensors; otherwise a raw value.

    Raises:
        TypeError: for operands that are neither tensors nor arrays nor numbers.
    """
    if MODES.pairs and is_packed(op, operands, params):
        return PACKED[0](op, params, *operands)
    values = traced_values(op, operands)
    results = compute_traced(op, values, params)
    inside = any(isinstance(x, Tensor) and isinstance(x._array, Tracer) for x in operands)
    shows = op.is_view and isinstance(base := operands[0]._array if isinstance(operands[0], Tensor) else operands[0], Tracer)
    if shows:
        results = shown(base, op.function, params)
    if not inside and any(isinstance(x, (Tracer, np.ndarray, np.generic)) for x in operands):
        return results
    if op.is_view:
        made: Any = view_of(operands[0], results, (op.function, params, op))
    else:
        made = tuple([wrap(r) for r in results]) if isinstance(results, tuple) else wrap(results)
    mask = wanting_traced(operands)
    if mask:
        record_traced(op, operands, params, mask, made)
    return made


PACKED: list[Callable[..., Any]] = []
"""How an op is applied whose saved tensors hooks are to see: put here by autograd/packed.py, which stands on this."""


def traced_values(op: Op, operands: tuple[Any, ...]) -> list[Any]:
    """Return what an op computes with: the arrays of tensors, constants where ``no_grad`` says so, and numbers."""
    values = []
    for k, x in enumerate(operands):
        if isinstance(x, Tensor):
            values.append(array_of(x))
        elif isinstance(x, Tracer):
            values.append(in_grad_mode(x))
        elif isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)):
            values.append(x if isinstance(x, np.generic) else number_of(x))
        else:
            raise TypeError(sentences.argument_type(op.node, k, len(operands), x))
    return values


def compute_traced(op: Op, values: list[Any], params: tuple[Any, ...]) -> Any:
    """Return the result, or the tuple of results, of an op; none of them shares the memory of an operand."""
    function = op.function
    if op.promote is not None:
        specs = tuple(
            (type(v), v) if isinstance(v, (bool, int, float, complex)) and not isinstance(v, np.generic)
            else ShapeDtype(v.shape, v.dtype)
            for v in values
        )  # fmt: skip
        function = op.promote(function, specs)
    results = function(*values, *params)
    if isinstance(results, tuple):
        return tuple([apart(result, values) for result in results])
    return apart(results, values)


def wanting_traced(operands: Sequence[Any]) -> int:
    """Return, as bits, which operands want gradients in a graph of traced values.

    Of ``torch.func``, only the tensors that hold them: the others have a stand-in there.
    """
    mask = 0
    if MODES.recording:
        for k, x in enumerate(operands):
            if isinstance(x, Tensor) and x.requires_grad and (MODES.lift is None or isinstance(x._array, Tracer)):
                mask |= 1 << k
    return mask


def traced_plan(op: Op, operands: Sequence[Any], params: tuple[Any, ...], mask: int) -> tuple[Plan, list[Any]]:
    """Return the plan of an op on traced values, which knows their shapes and dtypes, and the operands as tensors."""
    tensors = [wrap(x) if isinstance(x, (Tracer, np.ndarray, np.generic)) else x for x in operands]
    key: list[Any] = [op, params]
    for x in tensors:
        if isinstance(x, Tensor):
            key += [x._array.shape, x._array.dtype]
        else:
            key.append((type(x), x) if op.static_numbers else type(x))
    key.append(mask)
    found = tuple(key)
    return PLANS.get(found) or make_plan(found, tuple(tensors), mask), tensors


def record_traced(op: Op, operands: Sequence[Any], params: tuple[Any, ...], mask: int, made: Any) -> None:
    """Make the node of an operation on traced values."""
    plan, tensors = traced_plan(op, operands, params, mask)
    if plan.differentiable:
        node = record(plan, tensors, [x._array if isinstance(x, Tensor) else x for x in tensors], made)
        node.__class__ = of_traced(plan.node_class)


@functools.lru_cache(maxsize=1024)
def of_traced(node_class: type[OpNode]) -> type[OpNode]:
    """Return the class of an op's nodes in graphs of traced values."""
    return type(node_class.__name__, (TracedNode, node_class), {"__module__": node_class.__module__})


class TracedNode(OpNode):
    """A node in a graph of traced values: what it saved is traced, so gradients must be, too."""

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Run the backward program, which then is recorded."""
        arrays = [s._kept._array for s in self._saved or () if isinstance(s, SavedTensor) and isinstance(s._kept, Tensor)]
        known = next((a for a in arrays if isinstance(a, Tracer)), None)
        if known is not None and any(g is not None for g in grads):
            outputs = self._plan.outputs
            given = grads if len(outputs) == 1 else [
                g if g is not None else zeros_of(a) for g, a in itertools.zip_longest(grads, outputs)
            ]  # fmt: skip
            grads = [wrap(traced_of(g._array, known)) if g is not None and type(g._array) is _ndarray else g for g in given]
        return super().run(grads)


def is_packed(op: Op, operands: Sequence[Any], params: tuple[Any, ...]) -> bool:
    """Whether saved-tensor hooks are to see what an op on traced values saves.

    Raises:
        RuntimeError: inside ``torch.func``, as in PyTorch.
    """
    if not MODES.recording:
        return False
    refuse_hooks()
    mask = 0
    for k, x in enumerate(operands):
        array = x._array if isinstance(x, Tensor) else x
        if isinstance(array, Tracer) and array._recording.serial > MODES.floor and array.dtype.kind in "fc":
            mask |= 1 << k
    if not mask or op.is_view:
        return False
    plan, _ = traced_plan(op, operands, params, mask)
    return plan.differentiable and any(plan.unpacks)


# -- programs on tensors -------------------------------------------------------------------------------------


def evaluate_on_tensors(program: Program, arguments: Sequence[Any]) -> list[Any]:
    """Evaluate a program on tensors: every equation is an op of its own, recorded like any other."""
    env: list[Any] = [None] * len(program.ops) + list(reversed(program.literals))
    for i, value in zip(program.input_ids, arguments, strict=True):
        env[i] = value.item() if isinstance(value, np.generic) else value
    for i, value in program.constant_values.items():
        env[i] = wrap(value)
    for k, dying in program.schedule:
        primitive, operands, params = program.ops[k]
        if len(operands) == 2 and not params and isinstance(env[operands[0]], Tensor):
            result = binary_of(primitive)(env[operands[0]], env[operands[1]])
        else:
            result = apply(op_of(primitive), tuple([env[i] for i in operands]), params)
        if primitive.many:
            env[k : k + len(result)] = result
        else:
            env[k] = result
        for i in dying:
            env[i] = None
    return [env[i] for i in program.output_ids]


def _gradient(gradient: Array, *saved_and_plan: Any) -> Any:
    *saved, plan = saved_and_plan
    chosen = saved if plan.selected is None else [saved[k] for k in plan.selected]
    others = [np.zeros(aval.shape, aval.dtype) for aval in plan.outputs[1:]]
    return evaluate_program(plan.backward, [*chosen, gradient, *others])[0]


def recorded_gradient(node: str, *saves: tuple[str, int], **details: Any) -> Op:
    """Return the op of a gradient that PyTorch computes by one: of the gradient that comes in, what was saved, and the plan.

    It depends on all that was saved, also where its derivative by that is 0: what is computed further requires grad.
    """
    return Op(node, _gradient, saves, edges=(0, 1), details=lambda specs, params: params[0]._details() | details)


OF_OUTPUT = ("grad_output", 0), ("output", 1)
"""What the recorded gradient of a function saves that saves its output."""

_NODES: dict[Primitive, str] = {
    ew.power: "PowBackward0", ew.square: "PowBackward0", ew.absolute: "AbsBackward0", reduce_sum_p: "SumBackward1",
    matmul_p: "MmBackward0", broadcast_to_p: "ExpandBackward0", convert_p: "ToCopyBackward0", index_p: "SliceBackward0",
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def op_of(primitive: Primitive) -> Op:
    """Return the op that applies one primitive of the core, named like PyTorch's where PyTorch has it.

    It may save any operand, and the result.
    """
    count = len(primitive.params)

    def function(*given: Any) -> Any:
        split = len(given) - count
        return bind(primitive, given[:split], given[split:])

    computes: Callable[..., Any] = primitive if isinstance(primitive, Elementwise) else function
    node = _NODES.get(primitive) or "".join(part.title() for part in primitive.name.split("_")) + "Backward0"
    saves = (("self", 0), ("other", 1), *((f"operand{k}", k) for k in range(2, 8)), ("result", -1))
    promote = broadcasting if isinstance(primitive, Elementwise) else None
    return Op(node, computes, saves, promote, static_numbers=primitive is ew.power, primitive=primitive)


@functools.lru_cache(maxsize=1024)
def binary_of(primitive: Primitive) -> Callable[[Any, Any], Any]:
    """Return the operator that applies a primitive of two operands."""
    return binary(op_of(primitive))
