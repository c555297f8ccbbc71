"""Plans: the forward function and the derivative of a tensor operation for given operands.

A `OpPlan` is one `Op` for one combination of shapes, dtypes, static parameters and operands that
require gradients: the function to call, and the `Derivation` that its node uses. Plans are cached
in a bounded dict, so an operation costs one lookup, one NumPy call and one node. Frozen parts are
shared: a derivation by all sizes for which it is valid (`functrace.torch.dispatch.sizes`), and the
runner of its backward program (`Pullback`) if the program contains no size.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from functrace.caches import BoundedCache, CacheEntry, measured
from functrace.executor import Runner
from functrace.executor.parallel.operations import LEAST_BYTES, MUCH, spread_ufunc
from functrace.executor.plan.fusion import FEWEST_BLOCKS
from functrace.ir.aval import ShapeDtype, broadcast_shapes
from functrace.ir.parts import Compiled
from functrace.ir.program import Program
from functrace.ir.symbolic_numbers import NeedsConcreteNumber
from functrace.ops.elementwise import Elementwise
from functrace.ops.indexing import ARRAY
from functrace.passes.matmul_selection import divide_products
from functrace.threads import BLOCK
from functrace.torch import errors
from functrace.torch.autograd.graph import OpNode
from functrace.torch.autograd.saved import SavedPositions, SavedTensor
from functrace.torch.dispatch.derivation import Case, Derivation, Move, derive, shown_by
from functrace.torch.dispatch.fast_path import FastPull, FastRecord, pull_fast, record_fast
from functrace.torch.dispatch.narrow import wide
from functrace.torch.dispatch.promotion import Promotion, broadcasting
from functrace.torch.dispatch.quiet import run_quietly
from functrace.torch.tensors.orders import laid
from functrace.torch.tensors.tensor import Tensor, is_expanded, wrap
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.torch.dispatch.sizes import SymbolicDerivation

MOST_BYTES = 64 << 20
"""Estimated bytes of all plans together."""
MOST_PLANS = 5_000
CALLS_INTERPRETED = 16
"""Number of runs of a backward program before it is compiled, which costs 0.3 ms; interpreting
costs about 4 us.
"""
FEWEST = FEWEST_BLOCKS * BLOCK
"""Number of elements from which programs are specialized to the sizes, to run in tiles."""
FEWEST_ELEMENTS = 1 << 14
"""Number of elements of a gradient from which programs are compiled at once: compiled ones reuse
dead buffers.
"""

_ndarray = np.ndarray


# -- forward ---------------------------------------------------------------------------------------


class Forward(NamedTuple):
    """Forward computation of an op: the same function for all sizes, except that large arrays are
    split among cores.

    Args:
        function: function of arrays, numbers and params.
        ufunc: NumPy ufunc that equals the function, if there is one.
        wrap: wraps such a function so that its results have PyTorch's memory layout, if NumPy's may
            differ.
        laid_by: operand of an elementwise operation that must be in C order for NumPy's result to
            have PyTorch's layout.
    """

    function: Callable[..., Any]
    ufunc: np.ufunc | None
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]] | None
    laid_by: int | None

    def evaluate(self, specs: Sequence[Any]) -> Callable[..., Any]:
        """Return the function to call on operands of certain sizes."""
        function, largest = (
            None,
            max([spec.nbytes for spec in specs if isinstance(spec, ShapeDtype)], default=0),
        )
        if self.ufunc is not None and largest >= LEAST_BYTES // MUCH:
            function = spread_ufunc(
                self.ufunc, [spec[0] if type(spec) is tuple else spec for spec in specs]
            )
        if function is None:
            function = self.function
        return function if self.wrap is None else self.wrap(function)


def forward_of(case: Case) -> Forward:
    """Return the forward computation of a case."""
    op, specs, function = case.op, case.specs, case.function
    if isinstance(function, Elementwise):
        # A primitive checks for traced operands; here there are none, so its NumPy function is
        # called directly: 0.3 us less.
        function = function.eval
    ufunc = function if isinstance(function, np.ufunc) else None
    if op.in_rows:
        return Forward(function, ufunc, in_rows, None)
    if not (
        op.promote is broadcasting or (isinstance(op.promote, Promotion) and op.promote.broadcasts)
    ):
        return Forward(function, ufunc, None, None)
    shapes = {k: spec.shape for k, spec in enumerate(specs) if isinstance(spec, ShapeDtype)}
    if max([len(shape) for shape in shapes.values()], default=0) < (2 if len(specs) > 1 else 3):
        return Forward(function, ufunc, None, None)
    first = min(shapes) if op.seen is None else op.seen[0]
    whole = broadcast_shapes(*shapes.values())
    if shapes[first] == whole or (len(whole) <= 2 and len(shapes) <= 2):
        return Forward(function, ufunc, None, first)
    return Forward(function, ufunc, partial(_laying, case), None)


def in_rows(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that computes the same arrays, in C order."""

    def contiguous(result: Any) -> Any:
        return (
            result if type(result) is not _ndarray or result.flags.c_contiguous else result.copy()
        )

    def computed(*given: Any) -> Any:
        result = evaluate(*given)
        return (
            tuple([contiguous(x) for x in result]) if type(result) is tuple else contiguous(result)
        )

    return computed


def _laying(case: Case, evaluate: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: laid_as_pytorch(case, evaluate(*given), given)


def laid_as_pytorch(case: Case, result: Array, arrays: Sequence[Any]) -> Array:
    """Return the result of an elementwise operation with PyTorch's memory layout; see `laid`."""
    op, arrays = case.op, arrays[: len(case.specs)]
    if op.seen is not None:
        arrays = [arrays[k] for k in op.seen]
    given = [x for x in arrays if type(x) is _ndarray]
    if result.ndim < max(x.ndim for x in given) or all(x.flags.c_contiguous for x in given):
        return result  # (a reduced result has no memory order)
    promote = op.promote
    if isinstance(
        promote, Promotion
    ):  # conversion copies an operand, which is then no longer expanded
        dtype = promote.dtype(case.specs)
        given = [
            laid(np.empty(x.shape), [x])
            if k >= promote.skips and x.dtype != dtype and is_expanded(x)
            else x
            for k, x in enumerate(given)
        ]
    return laid(result, given)


# -- backward --------------------------------------------------------------------------------------


@final
class Pullback:
    """Runner of the computing part of a backward program: an instruction list, compiled once the
    program is hot.

    Args:
        runner: runner of the program.
        derivation: derivation that the program belongs to.
    """

    __slots__ = ("_calls", "_derivation", "compiled", "pull_fast", "runner")

    def __init__(self, runner: Runner, derivation: Derivation) -> None:
        self.runner = runner
        self.compiled: Compiled | None = None
        self.pull_fast: FastPull | None = None
        """Fast path for the common case, once the program is compiled; see
        `functrace.torch.dispatch.fast_path`.
        """
        self._derivation = derivation
        self._calls = 0

    def __call__(self, values: Sequence[Any]) -> Sequence[Any]:
        """Run on arrays: the saved values, then one cotangent per result.

        Raises:
            NeedsConcreteNumber: if the program contains symbolic sizes, which cannot be compiled.
        """
        compiled = self.compiled
        if compiled is not None:
            return compiled(*values)
        if self._calls >= (CALLS_INTERPRETED if values[-1].size < FEWEST_ELEMENTS else 2):
            return self.compile()(*values)
        self._calls += 1
        return self.runner.interpret(values)

    def compile(self) -> Compiled:
        """Compile now."""
        compiled = self.runner.compile()
        results = self._derivation.results
        if results is not None:
            self.pull_fast = pull_fast(self._derivation.unpacks, results, compiled)
        self.compiled = compiled
        return compiled


class OpPlan(CacheEntry):
    """Forward function and derivative of an op for one combination of operands.

    Args:
        case: the op and its operands.
        source: the derivation with symbolic sizes that it instantiates, if any:
            `functrace.torch.dispatch.sizes.SymbolicDerivation`.
        given: the concrete sizes and numbers to substitute.
    """

    __slots__ = (
        "_backward", "_of_results", "_pullback", "_records", "case", "derivation", "evaluate",
        "forward", "given",
        "is_freed", "laid_by", "moves", "outputs", "pull_fast", "record_fast", "shares_pullback",
        "source",
    )  # fmt: skip

    def __init__(
        self, case: Case, source: SymbolicDerivation | None = None, given: Sequence[Any] = ()
    ) -> None:
        super().__init__()
        self.case = case
        self.source = source
        self.given = given
        self.forward: Forward = forward_of(case) if source is None else source.forward
        self.laid_by = self.forward.laid_by
        self.evaluate = self.forward.evaluate(case.specs)
        self.derivation: Derivation = derive(case) if source is None else source.derivation  # type: ignore[assignment]
        """``None`` if no result has a derivative."""
        self.outputs: tuple[ShapeDtype, ...] = ()
        self.moves: tuple[Move | None, ...] = ()
        self.is_freed = False
        """True if the node can be run only once, although it saves nothing."""
        self.record_fast: FastRecord | None = None
        """Makes nodes in the common case, once the plan is hot."""
        self.pull_fast: FastPull | None = None
        """Fast path of the backward program for the common case, once it is compiled."""
        self._records = 0
        self._of_results: dict[tuple[int, ...], OpPlan] = {}
        self._backward: Program | None = None
        self._pullback: Pullback | None = None
        self.shares_pullback = False
        """True if the pullback is that of the source, for all sizes."""
        if source is not None:
            if self.derivation is not None:
                self.outputs, self.moves = source.outputs(case, given), source.moves(given)
            self.pull_fast = (
                None if source.pullback is None or self._is_large() else source.pullback.pull_fast
            )
        elif self.derivation is not None:
            self.outputs, self.moves = self.derivation.outputs, self.derivation.moves
            self._backward = self.derivation.backward

    def _is_large(self) -> bool:
        """Return True if programs are specialized for these sizes, to run in tiles."""
        return (
            max([spec.size for spec in self.case.specs if isinstance(spec, ShapeDtype)]) >= FEWEST
        )

    @property
    def differentiated(self) -> tuple[ShapeDtype, ...]:
        """Avals of the results, up to the last one that has a derivative."""
        return self.outputs[: self.derivation.differentiated]

    def measure(self) -> int:
        """Return the bytes that the plan owns, without those that it shares with plans for other
        sizes.

        Small plans of one source differ in numbers only: one of them is measured.
        """
        if self.source is None or self._of_results or self._is_large():
            return self._measured()
        pullback = self._pullback
        state = (
            self.shares_pullback,
            self._backward is None,
            None if pullback is None else (pullback.compiled is None, pullback.runner.tier),
        )
        found = self.source.plan_bytes.get(state)
        if found is None:
            found = self.source.plan_bytes[state] = self._measured()
        return found

    def _measured(self) -> int:
        own: list[Any] = [
            self.case,
            self.given,
            self.outputs,
            self.moves,
            self.evaluate,
            self._backward,
        ]
        own += self._of_results.values()
        if self.source is None:
            own += [self.derivation, self.forward]
        if not self.shares_pullback:
            own.append(self._pullback)
        return object.__sizeof__(self) + measured(*own)

    def lay(self, result: Array, arrays: Sequence[Any]) -> Array:
        """Return the result of an elementwise operation with PyTorch's memory layout; see
        `laid`.
        """
        return laid_as_pytorch(self.case, result, arrays)

    def compute(self, arrays: Sequence[Any]) -> Any:
        """Return the result, or the tuple of results, of NumPy."""
        return run_quietly(self.evaluate, *arrays, *self.case.params)

    def note_record(self) -> None:
        """Count a node that was made by `record`, and generate specialized code for it once that is
        profitable.
        """
        self._records += 1
        derivation = self.derivation
        if self._records == CALLS_INTERPRETED and not derivation.many:
            saved = zip([p for _, p in derivation.saves], derivation.unpacks, strict=True)
            places = tuple([p if is_tensor else ~p - 1 for p, is_tensor in saved])
            self.record_fast = record_fast(derivation.edge_to, places)

    def of_results(self, used: tuple[int, ...]) -> OpPlan:
        """Return the plan for gradients of some results alone, which takes the values saved for
        all of them.
        """
        made = self._of_results.get(used)
        if made is None:
            case, op = self.case, self.case.op
            function = case.function if case.is_wide else wide(case).function
            compute = op.derived or function
            saves = [
                (name, p if p >= 0 else ~used.index(~p))
                for name, p in op.saves
                if p >= 0 or ~p in used
            ]
            part = replace(
                op, function=function, promote=None, saves=tuple(saves), keeps=(),
                in_rows=False,
                derived=lambda *given: tuple([compute(*given)[k] for k in used]),
            )  # fmt: skip
            inner = Case(part, case.specs, case.params, case.active)
            if not case.is_wide:
                inner.rounds = tuple([case.rounded_results[k] for k in used])
            made = OpPlan(inner)
            names = [name for name, _ in self.derivation.saves]
            taken = [names.index(name) for name, _ in made.derivation.saves]
            before = made.derivation.selected
            selected = tuple(taken if before is None else [taken[k] for k in before])
            made.derivation = made.derivation._replace(selected=selected)
            self._of_results[used] = made
        return made

    # -- the backward program --------------------------------------------------------------------

    @property
    def backward(self) -> Program:
        """The backward program."""
        program = self._backward
        if program is None:
            assert self.source is not None and self.source.backward is not None
            program = self._backward = self.source.backward.fill(self.given)
        return program

    @property
    def pullback(self) -> Pullback:
        """Runner of its computing part, shared by all sizes if the program contains no size."""
        pullback = self._pullback
        if pullback is None:
            shared = None if self.source is None or self._is_large() else self.source.pullback
            if shared is None:
                return self._make_pullback()
            pullback, self.shares_pullback = shared, True
            self._pullback = shared
        return pullback

    def _make_pullback(self) -> Pullback:
        """Make a pullback for this plan alone."""
        if self.source is None:
            assert self.derivation.computing is not None
            runner = Runner(divide_products(self.derivation.computing, always=True))
        else:
            assert self.source.computing is not None
            program = self.source.computing.fill(self.given)
            runner = Runner(divide_products(program, always=True), is_flat=True)
        made = self._pullback = Pullback(runner, self.derivation)
        self.shares_pullback = False
        return made

    def compute_gradients(self, values: Sequence[Any], *, is_plain: bool = True) -> Sequence[Any]:
        """Run the part of the backward program that computes.

        Args:
            values: the saved values, then one cotangent per result.
            is_plain: True if all cotangents are arrays, and none is a traced value.
        """
        pullback, source = self.pullback, self.source
        if not is_plain:
            if self.shares_pullback:
                pullback = self._make_pullback()  # a recorded program contains sizes
            return pullback.runner(values)
        try:
            results = pullback(values)
        except NeedsConcreteNumber:
            assert source is not None
            source.pullback = None
            pullback = self._make_pullback()
            results = pullback(values)
        self.pull_fast = pullback.pull_fast
        return results

    def fits(self, values: Sequence[Any]) -> bool:
        """Return True if the unpacked values have the shapes and dtypes of the backward program."""
        program, selected = self.backward, self.derivation.selected
        avals = [program.avals[i] for i in program.input_ids]
        chosen = values if selected is None else [values[k] for k in selected]
        return all(
            v.shape == aval.shape
            and (v.dtype == aval.dtype or (v.dtype.kind == "V" and aval.dtype == np.float32))
            for v, aval in zip(chosen, avals, strict=False)
            if isinstance(v, _ndarray)
        )

    def pull(self, values: list[Any], grads: Sequence[Any]) -> list[Tensor | None]:
        """Run the backward program on the saved arrays; returns one gradient per edge."""
        results: Sequence[Any] = ()
        derivation = self.derivation
        if derivation.computing is not None:
            if derivation.selected is not None:
                values = [values[k] for k in derivation.selected]
            cotangents = [g._array for g in grads]
            is_plain = all(type(x) is _ndarray for x in cotangents)
            results = self.compute_gradients([*values, *cotangents], is_plain=is_plain)
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

    # -- public attributes of a node ---------------------------------------------------------------

    def saved_names(self) -> list[str]:
        """Return the names of the fields, as ``dir`` lists them."""
        fields = dict.fromkeys(name.partition("[")[0] for name, _ in self.case.op.saves)
        details = [name for name in self._details() if name not in fields]
        return [f"_{raw}saved_{name}" for name in fields for raw in ("", "raw_")] + [
            f"_saved_{n}" for n in details
        ]

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
        if name in dict(self.case.op.saves) or name in details:
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
        if node._saved is None and name in dict(self.derivation.saves):
            freed = SavedTensor(wrap(np.zeros(0)))
            freed.release()
            return freed
        if found is None and name in dict(self.case.op.saves):
            return SavedTensor(None)
        raise AttributeError(f"'{type(node).__name__}' object has no attribute '_raw_saved_{name}'")

    def _parts(self, node: OpNode, name: str) -> list[SavedTensor | None]:
        """Return the fields ``name[0]``, ``name[1]`` … by position in an index: None for
        dimensions that are not indexed.
        """
        found = [
            self._find(node, field_name)
            for field_name, _ in self.derivation.saves
            if field_name.startswith(f"{name}[")
        ]
        if not found:
            return []
        fields = iter([field[0] for field in found if field is not None])
        parts: list[SavedTensor | None] = []
        for entry in self.case.params[-1]:
            part = next(fields) if entry == ARRAY else None
            if type(part) is not SavedPositions:
                parts.append(part)
            elif not part.axis:
                parts.append(part.saved)
        return parts

    def _find(self, node: OpNode, name: str) -> tuple[Any, bool] | None:
        for k, (field_name, _) in enumerate(self.derivation.saves):
            if field_name == name:
                if node._saved is None:
                    raise RuntimeError(errors.BACKWARD_TWICE)
                return node._saved[k], self.derivation.unpacks[k]
        return None

    def _details(self) -> dict[str, Any]:
        return (
            {}
            if self.case.op.details is None
            else self.case.op.details(self.case.specs, self.case.params)
        )


PLANS: BoundedCache[OpPlan] = BoundedCache("plans of tensor operations", MOST_BYTES, MOST_PLANS)
