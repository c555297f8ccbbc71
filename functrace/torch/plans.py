"""Plans: how a tensor operation is computed for some operands, and what its node does.

A `Plan` is what one `Op` does for one combination of shapes, dtypes, static parameters and operands that want gradients: the
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

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from functrace.caches import Bounded, Kept, measured
from functrace.executor import Runner, instructions
from functrace.executor.groups import FEWEST_BLOCKS
from functrace.executor.instructions import Instructions, Unfilled
from functrace.executor.spread import LEAST_BYTES, MUCH, spread_ufunc
from functrace.executor.threads import BLOCK
from functrace.ir.aval import ShapeDtype, aval_of, broadcast_shapes
from functrace.ir.filling import Template, filling
from functrace.ir.parts import Compiled, restrict
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ir.unknown import NotKnown, Questions
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import Elementwise
from functrace.ops.indexing import ARRAY
from functrace.ops.shaping import broadcast_to_p, permute_p, reshape_p
from functrace.torch import sentences
from functrace.torch.autograd.graph import OpNode
from functrace.torch.autograd.saved import SavedPositions, SavedTensor
from functrace.torch.dtypes import DEPENDING
from functrace.torch.op import Op
from functrace.torch.orders import laid
from functrace.torch.patterns import Pattern
from functrace.torch.promotion import Promotion, broadcasting
from functrace.torch.quiet import run_quietly
from functrace.torch.tensor import Tensor, is_expanded, wrap
from functrace.torch.usual import Puller, Recorder, puller, recorder
from functrace.tracing import Recording, Tracer, bind
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms import backward_program
from functrace.typing import Array

_MOST_BYTES = 64 << 20
"""Estimated bytes of all plans together."""
_MOST_PLANS = 5_000
MOST_MEMBERS = 8
"""Plans of one pattern: where rules tell more cases than that apart, every number has a plan of its own."""
CALLS_INTERPRETED = 16
"""Runs of a backward program before it is compiled: 0.3 ms, against some 4 us of interpreting."""
FEWEST = FEWEST_BLOCKS * BLOCK
"""Elements: programs on arrays of so many are made for their sizes, to run in blocks."""
FEWEST_ELEMENTS = 1 << 14
"""Of a gradient: for larger ones programs are compiled at once, since compiled ones write where values have died."""

_new = object.__new__
_ndarray = np.ndarray


class Plan(Kept):
    """What an op does for one combination of operands.

    Args:
        op: what is done.
        specs: aval of each operand, or the number (or its type) that stands there.
        params: static parameters.
        active: which operands want gradients.
    """

    def __init__(self, op: Op, specs: tuple[Any, ...], params: tuple[Any, ...], active: tuple[bool, ...]) -> None:
        super().__init__()
        self.op = op
        self.params = params
        self.specs = specs
        self.active = active
        self.function = op.function if op.promote is None else op.promote(op.function, specs)
        self.node_class = op.node_class
        self._backward: Program | None = None
        self._unknown: Plan | None = None
        self._given: Sequence[Any] = ()
        self._filled: Instructions | None = None
        """The program as instructions for the numbers that are given, as long as there is no runner."""
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
        if op.in_rows:
            self.evaluate = laid_in_rows(self.evaluate)
        self.laid_by, self._is_laid = self._laid_by()
        """Which operand of an elementwise operation has to lie in C order for NumPy's result to lie as PyTorch's does."""
        if self._is_laid:
            self.evaluate = self._laying(self.evaluate)
        self.recorder: Recorder | None = None
        """Makes nodes in the usual case, once the plan has proved to be in use."""
        self.puller: Puller | None = None
        """Runs `direct` in the usual case."""
        self._records = 0
        self._of_results: dict[tuple[int, ...], Plan] = {}
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

    def _laid_by(self) -> tuple[int | None, bool]:
        """Return `laid_by`, and whether no operand decides alone, so that each result is looked at."""
        op = self.op
        if op.in_rows or not (op.promote is broadcasting or (isinstance(op.promote, Promotion) and op.promote.broadcasts)):
            return None, False
        shapes = {k: spec.shape for k, spec in enumerate(self.specs) if isinstance(spec, ShapeDtype)}
        if max([len(shape) for shape in shapes.values()], default=0) < (2 if len(self.specs) > 1 else 3):
            return None, False
        first = min(shapes) if op.seen is None else op.seen[0]
        whole = broadcast_shapes(*shapes.values())
        is_laid = shapes[first] != whole and (len(whole) > 2 or len(shapes) > 2)
        return None if is_laid else first, is_laid

    def _laying(self, evaluate: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: self.lay(evaluate(*given), given[: len(self.specs)])

    def lay(self, result: Array, arrays: Sequence[Any]) -> Array:
        """Return the result of an elementwise operation as it lies in PyTorch; see `laid`."""
        if self.op.seen is not None:
            arrays = [arrays[k] for k in self.op.seen]
        given = [x for x in arrays if type(x) is _ndarray]
        if result.ndim < max(x.ndim for x in given) or all(x.flags.c_contiguous for x in given):
            return result  # (what is reduced has no order)
        promote = self.op.promote
        if isinstance(promote, Promotion):  # what is converted first is no longer expanded then
            dtype = promote.dtype(self.specs)
            given = [
                laid(np.empty(x.shape), [x]) if k >= promote.skips and x.dtype != dtype and is_expanded(x) else x
                for k, x in enumerate(given)
            ]
        return laid(result, given)

    def note_record(self) -> None:
        """Count a node that was made by `record`; the lines for it are written out when that has come to be worth it."""
        self._records += 1
        if self._records == CALLS_INTERPRETED and not self.many:
            saved = zip([p for _, p in self.saves], self.unpacks, strict=True)
            self.recorder = recorder(self.edge_to, tuple([p if is_tensor else ~p - 1 for p, is_tensor in saved]))

    def compute(self, arrays: Sequence[Any]) -> Any:
        """Return the result, or the tuple of results, as NumPy gives them."""
        return run_quietly(self.evaluate, *arrays, *self.params)

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

    def measure(self) -> int:
        """Return the bytes that are the plan's own: not what it has from the one that was derived for unknown numbers."""
        whole = self._unknown
        if whole is None:
            return measured(self)
        own = [x for name, x in vars(self).items() if x is not getattr(whole, name, None) and not isinstance(x, Kept)]
        return measured(vars(self).keys(), *own)

    def given(self, specs: tuple[Any, ...], params: tuple[Any, ...], given: Sequence[Any]) -> Plan:
        """Return the plan for known operands, from one that was derived for unknown sizes and numbers.

        Args:
            specs, params: as of any plan.
            given: the numbers, by their places.
        """
        made = _new(Plan)
        made.key, made.place, made.seen, made.used, made.nbytes, made.assumed = None, 0, 0, 0, 0, self.assumed
        made.__dict__.update(self.__dict__)
        made.specs, made.params, made._of_results = specs, params, {}
        made.outputs = tuple([
            specs[k] if k >= 0 else aval if fill is None else fill(given) for k, fill, aval in self._fill_outputs
        ])  # fmt: skip
        most = max([spec for spec in specs if isinstance(spec, ShapeDtype)], key=_nbytes)
        is_large = most.size >= FEWEST
        if most.nbytes >= LEAST_BYTES // MUCH:
            evaluate = made._spread()
            if evaluate is not None:
                made.evaluate = made._laying(evaluate) if made._is_laid else evaluate
        if self.differentiable:
            made.differentiated = made.outputs[: len(self.differentiated)]
            made._backward, made._unknown, made._given, made._runner = None, self, given, None
            made.direct = None if self.puller is None else self._compiled
            if self._fill_moves is not None:
                made.moves = self._fill_moves(given)
            if not self._is_shared or is_large:
                made._sharing, made._calls = made, 0
                made._compiled = made.direct = None
                made._is_shared = True
        return made

    def of_results(self, used: tuple[int, ...]) -> Plan:
        """Return the plan for gradients of some results alone, which takes what was saved for all of them."""
        made = self._of_results.get(used)
        if made is None:
            compute = self.op.derived or self.function
            saves = [(name, p if p >= 0 else ~used.index(~p)) for name, p in self.op.saves if p >= 0 or ~p in used]
            op = replace(
                self.op, function=self.function, promote=None, saves=tuple(saves), keeps=(), in_rows=False,
                derived=lambda *given: tuple([compute(*given)[k] for k in used]),
            )  # fmt: skip
            made = self._of_results[used] = Plan(op, self.specs, self.params, self.active)
            names = [name for name, _ in self.saves]
            taken = [names.index(name) for name, _ in made.saves]
            made.selected = tuple(taken if made.selected is None else [taken[k] for k in made.selected])
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
        count = self._needed
        arriving = {variable: k - count for k, variable in enumerate(backward.input_ids) if k >= count}
        shown = [views_of_cotangent(backward, i, arriving) for i in backward.output_ids]
        rest = [i for i, view in zip(backward.output_ids, shown, strict=True) if view is None]
        computed = iter(range(len(rest)))
        moves: Iterator[Move] = iter([(next(computed), None) if view is None else view for view in shown])
        self.moves = tuple(next(moves) if p is not None and self.active[p] else None for p in self.edge_positions)
        assert next(moves, None) is None, "an active operand has no edge"
        self._runner = Runner(restrict(backward, backward.input_ids, rest, keep=True).program) if rest else None
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
                self._unfilled = Unfilled(self._running)
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
        if is_plain and sharing._runner is None:
            filled = self._filled
            if filled is None:
                assert self._unknown is not None
                filled = self._filled = self._unknown._unfilled.fill(self._given)
            return instructions.run(filled, values, ())
        runner = sharing._running_alone()
        return runner.interpret(values) if is_plain else runner(values)

    def _running_alone(self) -> Runner:
        """What runs the program, of known numbers."""
        runner = self._runner
        if runner is None:
            assert self._unknown is not None
            runner = self._runner = Runner(self._unknown._running.fill(self._given), is_flat=True)
            self._filled = None
        return runner

    def _compile(self) -> Compiled | None:
        """Compile the program; None if it runs for unknown sizes, and compiling needs them."""
        try:
            self._compiled = self._running_alone().compile()
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


def laid_in_rows(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Return what computes the same array, in C order."""

    def laid(result: Any) -> Any:
        return result if type(result) is not _ndarray or result.flags.c_contiguous else result.copy()

    def computed(*given: Any) -> Any:
        result = evaluate(*given)
        return tuple([laid(x) for x in result]) if type(result) is tuple else laid(result)

    return computed


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


_nbytes = operator.attrgetter("nbytes")


def _is_number(spec: Any) -> bool:
    return not isinstance(spec, ShapeDtype)


PLANS: Bounded[Plan] = Bounded("plans of tensor operations", _MOST_BYTES, _MOST_PLANS)
DEPENDING.append(PLANS.clear)


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

    def __init__(self) -> None:
        super().__init__()
        self.members: tuple[tuple[Questions, Plan], ...] = ()
        self.is_open = True
        """Whether plans can be derived for this pattern."""

    def measure(self) -> int:
        """Return the bytes of the plans that were derived."""
        return measured(self, *[plan for _, plan in self.members])

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
        FAMILIES.changed(self)
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
            family = Family()
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
