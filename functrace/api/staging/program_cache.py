"""Cache of the staged programs of one jitted function, and staging of a new one.

The cache is a `Table`. A signature selects a program, or further guards: captured arrays are
unchanged (`CapturedArraysGuard`), and, with ``jit(guards=True)``, the concrete values that the function reads
equal those of the path (`ValueGuard`).

Layer: 8.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast, final

import numpy as np

from functrace.api.capture.closures import reads_of
from functrace.api.capture.random_draws import watching
from functrace.api.capture.record import RecordedCall
from functrace.api.staging.backends import WhenHot, is_for_xla
from functrace.api.staging.disabling import ENTERED_COUNT
from functrace.api.staging.donation import DonatedArrays
from functrace.api.staging.guards import (
    CapturedArraysGuard,
    GuardRecorder,
    PathSegment,
    SegmentsChanged,
    ValueGuard,
    guarded_path,
)
from functrace.api.staging.retracing import RetraceLog, SignatureGuard
from functrace.api.staging.signature_checks import MOST_CHECKS, OFTEN, Check, written_check
from functrace.api.staging.signatures import Parameters, Signature
from functrace.control.call import call_program
from functrace.errors import ArgumentError, ConcretizationError
from functrace.executor.runner import MACHINE_CODE, compile_at_once, run_compiled
from functrace.ir.parts import closed_over
from functrace.ir.program import Program
from functrace.locks import cached_property
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.passes import Pass
from functrace.specialize import Guard, Miss, Node, Specialization, Table
from functrace.tracing.binding import BODY
from functrace.tracing.capture import held_array, own_constants
from functrace.tracing.lines import name_warnings, raised_in, stop_naming
from functrace.tracing.release import Handles
from functrace.tracing.tracer import Tracer
from functrace.tree import unflatten
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.api.capture.transformed import Transformed
    from functrace.executor.backend import Backend
    from functrace.native.engine import Front
    from functrace.tree import PyTreeSpec
    from functrace.xla.program import XlaBackend

MOST_FRONTS: Final = 8
"""Programs of one jitted function that are machine code which is called directly; the newest is. They
are kept as long as the function."""
MOST_BYTES = 256 << 20
"""Estimated bytes of one jitted function's programs and their constants; the oldest are dropped
first."""


class CacheInfo(NamedTuple):
    """Statistics that ``f.cache_info()`` of a jitted function returns.

    Args:
        hits: number of calls that found their program.
        misses: number of calls that were staged.
        maxsize: largest number of cached signatures.
        currsize: number of cached signatures.

    Example:
        >>> import functrace as ft
        >>> double = ft.jit(lambda x: x * 2.0)
        >>> _ = double(1.0), double(2.0)
        >>> double.cache_info()
        CacheInfo(hits=1, misses=1, maxsize=256, currsize=1)
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int


class GuardsInfo(NamedTuple):
    """Statistics that ``f.cache_info()`` of a function jitted with guards returns.

    Args:
        hits: number of calls that found their path.
        misses: number of calls that were recorded.
        maxsize: largest number of cached signatures.
        currsize: number of cached signatures.
        paths: number of cached paths.
        max_paths: largest number of cached paths per signature.
        guard_misses: number of calls that were recorded because guards of all cached paths failed.

    Example:
        >>> import functrace as ft
        >>> leaky = ft.jit(lambda x: x if x > 0 else x * 0.1, guards=True)
        >>> _ = leaky(1.0), leaky(2.0), leaky(-1.0)
        >>> leaky.cache_info().misses, leaky.cache_info().paths
        (2, 2)
    """

    hits: int
    misses: int
    maxsize: int
    currsize: int
    paths: int
    max_paths: int
    guard_misses: int


@final
class ArrayCall:
    """A call on arrays, for guards. (`Signature` has the same interface, for calls of all
    kinds.)"""

    __slots__ = ("leaves", "values", "variables")
    is_traced = False

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = self.leaves = values
        self.variables: dict[int, Any] | None = None
        """Values computed by pieces of a path, by variable of its tape."""


class StagedProgram(Specialization):
    """A staged program and its compiled code.

    Args:
        program: its inputs are the leaves of the arguments that are not static.
        out_tree: structure of the result.
        passes: the user's passes.
        piece: the last piece of the path, which computes the results.
        backend: compiler of the program; NumPy source by default.
    """

    def __init__(
        self,
        program: Program,
        out_tree: PyTreeSpec,
        passes: Sequence[Pass] = (),
        piece: PathSegment | None = None,
        backend: Backend | WhenHot | XlaBackend | None = None,
    ) -> None:
        self.backend: Backend | WhenHot | XlaBackend | None = backend
        super().__init__(sum(program.avals[i].nbytes for i in program.constant_values))
        self.program, self.out_tree, self.passes, self.piece = program, out_tree, passes, piece
        self.is_leaf = out_tree.is_leaf()
        self.tree: PyTreeSpec | None = None
        """The structure of ``(args, kwargs)``."""
        self.calls = 0
        """Calls that did not take the fast path."""
        self.front: weakref.ref[Front] | None = None
        """The state of the function that calls its machine code before Python does."""
        self.when_compiled: weakref.WeakMethod[Callable[[StagedProgram], None]] | None = None
        """Called once the program is machine code. (Weak, so that its memory is not the program's.)"""

    @cached_property
    def run(self) -> Callable[..., Sequence[Any]]:
        """Generated code, a function of arrays; compiled at the first access."""
        if isinstance(self.backend, WhenHot):
            from functrace.api.staging.background import counted

            return counted(self.program, self.passes, self.backend, self._set_run)
        if is_for_xla(self.backend):
            assert self.tree is not None
            return self.backend.compiled(self.program, self.passes, self.tree, self.out_tree)
        run = compile_at_once(self.program, passes=self.passes, backend=self.backend)
        self._set_run(run)
        return run

    def _set_run(self, run: Callable[..., Sequence[Any]]) -> None:
        """Replace the compiled code."""
        self.run = run
        if self.when_compiled is not None and run.__class__ is MACHINE_CODE:
            install = self.when_compiled()
            if install is not None:
                install(self)

    @cached_property
    def open(self) -> Callable[..., Sequence[Any]]:
        """Generated code that takes the constants as further arguments."""
        if is_for_xla(self.backend):
            assert self.tree is not None
            return self.backend.compiled(self.closed[0], self.passes, self.tree, self.out_tree)
        backend = None if isinstance(self.backend, WhenHot) else self.backend
        return compile_at_once(self.closed[0], passes=self.passes, backend=backend)

    def follow(self, before: StagedProgram) -> None:
        """Replace a program of which captured arrays have changed; reuse its code if only constants
        differ."""
        program, constants = self.closed
        if constants and program is before.closed[0]:
            run = self.open = before.open
            self.run = lambda *arguments: run(*arguments, *constants)

    @cached_property
    def closed(self) -> tuple[Program, list[Any]]:
        """The program with its constants as further inputs, and their values."""
        program, constants = closed_over(self.program)
        return program.interned(), constants

    def applied(self, call: ArrayCall | Signature) -> Any:
        """Run on the arguments of a call; as one operation if an operand is traced."""
        if call.is_traced:
            program, constants = self.closed
            for guard in self.guards:
                if isinstance(guard, CapturedArraysGuard) and guard.reads is not None:
                    guard.reads.note()
            results: Sequence[Any] = call_program(program, [*call.values, *constants])
        elif self.piece is not None:
            assert call.variables is not None
            results = _rest(self.piece, call.variables)
        else:
            results = run_compiled(self.run, call.values)
        return self.result(results)

    def result(self, results: Sequence[Any]) -> Any:
        """Return the function's result from its leaves."""
        return results[0] if self.is_leaf else unflatten(self.out_tree, results)


@final
class StagedProgramWithDonation(StagedProgram):
    """A staged program that may write into donated arguments.

    Args:
        program, out_tree, passes: see `StagedProgram`.
        donated: places of the donated inputs.
        function: name of the function, for messages.
    """

    def __init__(
        self,
        program: Program,
        out_tree: PyTreeSpec,
        passes: Sequence[Pass],
        donated: tuple[int, ...],
        function: str,
    ) -> None:
        super().__init__(program, out_tree, passes)
        self.donated, self.function = donated, function

    @cached_property
    def run_in_place(self) -> Callable[..., Sequence[Any]]:
        """Generated code that writes results into the donated arrays; compiled at the
        first access.
        """
        return compile_at_once(self.program, self.donated, self.passes)

    def applied(self, call: ArrayCall | Signature) -> Any:
        """Run on the arguments of a call, which invalidates its donated arrays."""
        if call.is_traced:
            return super().applied(call)
        donation = DonatedArrays([call.leaves[k] for k in self.donated], call.leaves, self.function)
        run = self.run_in_place if donation.is_usable else self.run
        with donation:
            return self.result(donation.taken(run_compiled(run, call.values)))


def _rest(piece: PathSegment, variables: dict[int, Any]) -> Sequence[Any]:
    """Run the last piece of a path."""
    named = name_warnings()
    try:
        return piece.run(variables)
    except Exception as error:
        source = raised_in(error.__traceback__, ())
        if source is not None:
            error.add_note(f"  recorded at {source}")
        raise
    finally:
        stop_naming(named)


class _RecordedProgram(NamedTuple):
    """Result of recording a call.

    Args:
        result: returns the call's result.
        staged: the program to keep, if it is valid for other calls.
        path: guards after the signature, with their values.
    """

    result: Callable[[], Any]
    staged: StagedProgram | None = None
    path: Sequence[tuple[Guard[Any], Hashable]] = ()


@final
class ProgramCache(Table[StagedProgram]):
    """Staged programs of a function, and counts of calls.

    Args:
        f: the function.
        name: its name, for messages.
        donated: the donated parameters.
        passes: the user's passes.
        maxsize: maximum number of signatures kept.
        max_paths: maximum number of paths per signature, if the function may concretize values;
            else ``None``.
        backend: compiler of the programs; NumPy source by default.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        name: str,
        donated: Parameters,
        passes: Sequence[Pass],
        maxsize: int,
        max_paths: int | None,
        backend: Backend | WhenHot | XlaBackend | None = None,
    ) -> None:
        if maxsize < 1 or (max_paths is not None and max_paths < 1):
            what = (
                f"maxsize={maxsize} keeps"
                if max_paths is None
                else f"maxsize={maxsize}, max_paths={max_paths} keep"
            )
            raise ArgumentError(f"jit: {what} no program", fix="give 1 or more")
        self.signatures = SignatureGuard(name)
        self.f, self.function, self.donated, self.passes = f, name, donated, passes
        self.backend: Backend | WhenHot | XlaBackend | None = backend
        self.maxsize, self.max_paths = maxsize, max_paths
        self.retraces = RetraceLog(name)
        self.misses = self.guard_misses = 0
        self.often: list[tuple[Check, Hashable]] = []
        """Generated checks of hot signatures, and their keys."""
        self.device_arrays: set[type] = set()
        """Types of arrays on devices that calls have had."""
        self._others = 0  # ticks of the clock that are not hits
        self._fronts: list[Front] = []
        super().__init__(
            f"programs of jit of {name}", self.signatures, MOST_BYTES, maxsize * (max_paths or 1)
        )

    def followed(
        self, node: Node[StagedProgram] | StagedProgram, call: ArrayCall | Signature
    ) -> StagedProgram | Miss:
        """Evaluate guards, starting at a node; warnings from their computations name the user's
        line."""
        if self.max_paths is None:
            return self.follow(node, call)
        named = name_warnings()
        try:
            while True:
                try:
                    return self.follow(node, call)
                except SegmentsChanged:
                    call.variables = None
        finally:
            stop_naming(named)

    def note_call(self, signature: Signature, staged: StagedProgram) -> None:
        """Count a call that missed the fast path; at `OFTEN` calls, generate the check of its
        signature."""
        if signature.is_traced or signature.policy is not None:
            return
        if is_for_xla(self.backend):
            types = self.backend.arrays()
            leaves: list[object] = signature.leaves
            self.device_arrays.update(type(x) for x in leaves if isinstance(x, types))
        staged.calls += 1
        if staged.calls == OFTEN and not signature.statics:
            check = written_check(signature.tree, signature.leaves, self.device_arrays)
            if check is not None:
                known = [
                    pair
                    for pair in self.often
                    if pair[1] in self.root.next and pair[1] != signature.key
                ]
                self.often[:] = [(check, signature.key), *known][:MOST_CHECKS]

    def info(self) -> CacheInfo | GuardsInfo:
        """Return the counts of hits, misses and kept programs."""
        self._others += 1
        hits, size = self.tick() - self._others, len(self.root.next)
        hits += sum(front.hits for front in self._fronts)
        if self.max_paths is None:
            return CacheInfo(hits, self.misses, self.maxsize, size)
        return GuardsInfo(
            hits, self.misses, self.maxsize, size, len(self), self.max_paths, self.guard_misses
        )

    def clear(self) -> None:
        """Drop all programs and counts."""
        super().clear()
        for front in self._fronts:
            front.close()
            front.forget()
        self._others = self.tick()
        self.misses = self.guard_misses = 0
        self.often.clear()
        self.retraces.clear()
        self.signatures.clear()

    def bind(self, jitted: Transformed) -> None:
        """Set the function whose programs these are."""
        self._jitted, self._python = jitted, jitted.func

    # -- a new program -------------------------------------------------------------------------

    def first_call(self, signature: Signature, miss: Miss) -> Any:
        """Record the function for a call, keep the program, and return the results of the call."""
        self.misses += 1
        self.guard_misses += miss.node is not self.root
        described = self.signatures.describe(signature)
        given = signature.values
        donation = self._donation(signature)
        signature.values = [held_array(value) for value in given]  # f may write to them
        self.retraces.note(described, self.why(miss))
        made = self._staged(signature) if self.max_paths is None else self._path(signature, miss)
        staged = made.staged
        if staged is not None:
            self._keep(signature.key, made.path, staged)
        with donation or nullcontext():
            result = made.result()
        if staged is not None:
            self.changed(staged)  # it has been compiled
        return result

    def _is_direct(self, signature: Signature, staged: StagedProgram) -> bool:
        """Return True if machine code can take the calls of a signature, and return its results, by
        itself: arrays and floats by position, and one array or a tuple of arrays."""
        parts: list[Hashable] = []
        for x in signature.leaves:
            if type(x) is np.ndarray and x.shape:
                parts += (x.shape, x.dtype)
            elif type(x) is float:
                parts.append(float)
            else:
                return False
        tree = staged.out_tree
        is_flat = tree.type is tuple and tree.num_nodes == tree.num_leaves + 1
        return signature.key == tuple(parts) and (staged.is_leaf or is_flat)

    def _install_front(self, staged: StagedProgram) -> None:
        """Let machine code take the calls of a program's signature before Python does."""
        native: Any = staged.run
        with self._lock.now:
            if id(staged) not in self.entries or len(self._fronts) >= MOST_FRONTS:
                return  # (it may have been dropped while it was compiled)
            made = native.__self__.front(self._python, ENTERED_COUNT, staged.is_leaf)
            if made is not None:
                function, front = made
                staged.front = weakref.ref(front)
                self._fronts.append(front)  # (stays: a call in another thread may be in its code)
                self._jitted.redirect(function)

    def _remove(self, entry: StagedProgram) -> None:
        super()._remove(entry)
        front = None if entry.front is None else entry.front()
        if front is not None:
            front.close()

    def _donation(self, signature: Signature) -> DonatedArrays | None:
        places = () if signature.is_traced else self._donated(signature)
        return (
            DonatedArrays([signature.leaves[k] for k in places], signature.leaves, self.function)
            if places
            else None
        )

    def _donated(self, signature: Signature) -> tuple[int, ...]:
        """Return the indices of the donated leaves."""
        return signature.leaves_of(self.donated) if self.donated.any else ()

    def _staged(self, signature: Signature) -> _RecordedProgram:
        """Stage the function with abstract arguments."""
        f, name = self.f, self.function
        try:
            with watching(f, name), ArrayRecording(f"jit of {name}", scope=BODY) as recording:
                call = RecordedCall(recording, f, signature.inputs, reads=signature.leaves)
                program = call.program(name, input_names=signature.names())
                if any(isinstance(value, Tracer) for value in program.constant_values.values()):
                    return _once(program, signature, call)
                program = own_constants(program)
            reads = reads_of(f, name, call.watches)
        except ConcretizationError as error:
            _add_way_out(error)
            raise
        finally:
            if signature.numbers is not None:
                signature.numbers.close()
        places = self._donated(signature)
        if places:
            staged = StagedProgramWithDonation(program, call.out_tree, self.passes, places, name)
        else:
            staged = StagedProgram(program, call.out_tree, self.passes, backend=self.backend)
            staged.tree = signature.tree
            if self.backend is not None and reads is None and self._is_direct(signature, staged):
                staged.when_compiled = weakref.WeakMethod(self._install_front)
        before = next(self.leaves(self.root.next.get(signature.key)), None)
        if before is not None:
            staged.follow(before)
        path = [] if reads is None else [(CapturedArraysGuard(reads, name), None)]
        return _RecordedProgram(
            lambda: StagedProgram.applied(staged, signature), staged, path
        )  # (the call has its own donation)

    def _path(self, signature: Signature, miss: Miss) -> _RecordedProgram:
        """Record a path of the function, which may concretize the values of the call."""
        f, name, guard = self.f, self.function, miss.node.guard
        shared = guard.piece.program if isinstance(guard, ValueGuard) else None
        start = self.root.next.get(signature.key)
        unchanged: CapturedArraysGuard | None = None
        if start.__class__ is Node and isinstance(start.guard, CapturedArraysGuard):  # type: ignore[union-attr]
            unchanged = start.guard  # type: ignore[union-attr]
            if unchanged.outcome(signature) is not None:  # the kept paths are invalid
                unchanged = shared = None
        recorder = GuardRecorder(signature.values, shared, signature.variables or {})
        try:
            with watching(f, name), ArrayRecording(f"jit of {name}", scope=BODY) as recording:
                recording.values.source, recording.handles = recorder, Handles()
                call = RecordedCall(recording, f, signature.inputs, reads=signature.leaves)
                program = call.program(name, input_names=signature.names())
                if any(isinstance(value, Tracer) for value in program.constant_values.values()):
                    return _once(program, signature, call)
                program = own_constants(program)
                values = [recorder.value(recording, i) for i in call.outputs]
        finally:
            if signature.numbers is not None:
                signature.numbers.close()
        results = [cast("Array", x).copy("K") if isinstance(x, np.ndarray) else x for x in values]
        result = results[0] if call.out_tree.is_leaf() else unflatten(call.out_tree, results)
        if recorder.is_faulty:
            return _RecordedProgram(lambda: result)
        reads = reads_of(f, name, call.watches, None if unchanged is None else unchanged.reads)
        begin = None if unchanged is None else start.next.get(None)  # type: ignore[union-attr]
        path, piece = guarded_path(begin, program, recorder.outcomes)
        staged = StagedProgram(program, call.out_tree, piece=piece if path else None)
        return _RecordedProgram(
            lambda: result, staged, [(CapturedArraysGuard(reads, name), None), *path]
        )

    def _keep(
        self, key: Hashable, path: Sequence[tuple[Guard[Any], Hashable]], staged: StagedProgram
    ) -> None:
        """Keep a program; drop the least recently used ones."""
        with self._lock.now:
            self._others += 1
            self.insert([(self.signatures, key), *path], staged)
            if self.max_paths is not None:
                self.trim(self.root.next.get(key), self.max_paths)
            nodes = self.root.next
            while len(nodes) > self.maxsize:
                self.drop(
                    min(
                        nodes.values(),
                        key=lambda node: max([leaf.used for leaf in self.leaves(node)]),
                    )
                )


def _once(program: Program, signature: Signature, call: RecordedCall) -> _RecordedProgram:
    """Return a runner of a program that captured traced values: it is valid for this call only."""
    closed, captured = closed_over(program)
    operands = [*signature.values, *captured]

    def result() -> Any:
        results = call_program(closed.interned(), operands)
        return results[0] if call.out_tree.is_leaf() else unflatten(call.out_tree, results)

    return _RecordedProgram(result)


def _add_way_out(error: ConcretizationError) -> None:
    """Add the fix that only `jit` offers."""
    fix = error.fix or ""
    if (
        "static_arg" not in fix
        and "functrace.jit" not in fix
        and not fix.startswith(("use np.", "leave "))
    ):
        error.amend(
            fix=f"{fix}; an argument that is not an array can be named in static_argnums or "
            "static_argnames of jit"
        )
