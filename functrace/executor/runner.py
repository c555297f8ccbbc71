"""`Runner`: run one un-jitted program on arrays, as an instruction list, or compiled if that is
amortized at once.

Results are always fresh arrays: an output that is, or may be a view of, an argument, a constant or
another output is copied.

Layer: 7.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from functrace.executor import interpreter
from functrace.executor.config import CHECKED, DISPATCH, NATIVE, are_nans_checked
from functrace.executor.inner_calls import CallableProgram, fresh
from functrace.executor.interpreter import InstructionList, ListSink
from functrace.executor.nan_checks import has_nan, nan_error
from functrace.executor.parallel.operations import spread_operations
from functrace.ir.parts import Compiled
from functrace.ir.program import Position, Program
from functrace.ir.structures import HostCall, Loop
from functrace.passes import EARLY, LATE, Pass, applied, optimized
from functrace.source import hide_own_frames
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.lines import (
    DEFAULT_MODES,
    LINES,
    NAMING_MODES,
    current_modes,
    name_warnings,
    raised_in,
    reset_modes,
    set_modes,
    stop_naming,
)
from functrace.tracing.tracer import Tracer
from functrace.transforms.derivatives import grad_program, gradient
from functrace.transforms.precomputed import without_given
from functrace.transforms.preparing import prepared
from functrace.transforms.walk import NeedsTape

if TYPE_CHECKING:
    from functrace.executor.backend import Backend

LONGEST_COMPILED = 20_000
"""Maximum number of equations of a compiled program: Python's compiler would take seconds for
longer ones.
"""

HEAVY = 1 << 20
"""Bytes per equation, which take 100 us to compute; an equation takes 25 us to compile."""

LARGE = 1 << 17
"""Bytes per operation, which take as long to compute as the operation takes to differentiate by
rules.
"""

OVERHEAD = 1 << 13
"""Bytes that can be computed in the overhead of one instruction over compiled code: 0.3 to 0.5 us.
"""

STEPS = HEAVY // OVERHEAD
"""Assumed number of steps of a loop of unknown length: enough for it to be compiled."""


Watch = Callable[["Runner", Sequence[Any], Sequence[Position]], "list[Any] | None"]
WATCHED: ContextVar[Watch | None] = ContextVar("functrace_watched", default=None)
"""Called with every runner that is called on traced values, its arguments and lines; may record the
run, and return its results."""


class Tier(NamedTuple):
    """Execution tier of a cached program.

    Args:
        name: ``"instructions"`` for an instruction list, ``"source"`` for generated NumPy code,
            ``"machine code"``.
        operations: number of operations that it runs.

    Example:
        >>> import functrace as ft
        >>> ft.debug.Tier("instructions", 499).name
        'instructions'
    """

    name: str
    operations: int


def mean_work(program: Program) -> float:
    """Return the average bytes that an equation computes in a run; 0 for a program without a large
    array or a loop.
    """
    avals = program.avals
    if max([aval.nbytes for aval in set(avals)], default=0) < LARGE and all(
        p.holds is None for p in program.kinds
    ):
        return 0.0
    work, count, _ = _work(program)
    return work / max(1, count)


def mean_bytes(program: Program) -> float:
    """Return the average bytes of the results of an operation, every step of a loop counted."""
    work, _, runs = _work(program)
    return work / max(1, runs) - OVERHEAD


def _work(program: Program) -> tuple[int, int, int]:
    """Return the bytes that a run computes, the number of equations, and how many of them run, all
    including loops and branches.
    """
    total = count = runs = 0
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        total += program.avals[k].nbytes + OVERHEAD
        count += 1
        runs += 1
        if primitive.holds is not None and primitive.holds.lowers is not None:
            lowering = primitive.holds.lowers(tuple(map(program.spec, operands)), *params)
            loop = lowering.structure
            times = (
                (STEPS if loop.length is None else loop.length)
                if isinstance(loop, Loop | HostCall)
                else 1
            )
            for body in lowering.bodies:
                work, equations, inner = _work(body)
                total += times * work
                count += equations
                runs += times * inner
    return total, count, runs


@final
class Runner:
    """Run one program.

    Args:
        program: the program; its inputs are the arguments. ``None`` with `make`.
        backend: its compiler; by default `functrace.executor.codegen.numpy_source.NUMPY`.
        is_flat: True if the program is the `flat` program of another runner.
        make: builds the program at the first access, if only instructions are given.
        listed: the instructions.
    """

    __slots__ = (
        "_backend",
        "_calls",
        "_compiled",
        "_flat",
        "_folded",
        "_heavy",
        "_inner",
        "_listed",
        "_make",
        "_native",
        "_native_setting",
        "_program",
    )

    def __init__(
        self,
        program: Program | None,
        backend: Backend | None = None,
        *,
        is_flat: bool = False,
        make: Callable[[], Program] | None = None,
        listed: InstructionList | None = None,
    ) -> None:
        self._make = make
        self._program = program if program is None or is_flat else without_given(program)
        self._backend = backend
        self._compiled: Compiled | None = None
        self._flat: Program | None = self._program if is_flat else None
        self._folded: Program | None = None
        self._heavy: bool | None = None if listed is None else False
        self._inner: CallableProgram | None = None
        self._listed = listed
        self._native: Callable[..., Sequence[Any] | None] | None = None
        self._native_setting: bool | None = None
        self._calls = 0

    @classmethod
    def of_gradient(cls, program: Program, active: Sequence[bool], with_value: bool) -> Runner:
        """Return the runner of a program's gradient, see `grad_program`: an instruction list, if
        that needs no tape.

        Args:
            program: the program whose first output is differentiated.
            active: one flag per input.
            with_value: True if the first output is among the results.
        """
        # For large arrays, operation order and rematerialization determine memory, and operations
        # run on all cores.
        program = prepared(program, active)
        if mean_work(program) < LARGE and not spread_operations(program):
            sink = ListSink(program)
            try:
                listed = sink.finish(gradient(program, active, with_value, sink))
            except NeedsTape:
                pass
            else:
                return cls(
                    None, make=lambda: grad_program(program, active, with_value), listed=listed
                )
        return cls(grad_program(program, active, with_value))

    @property
    def tier(self) -> Tier:
        """Current tier of this program."""
        if self._native is not None and self._native_setting is NATIVE[0]:
            return Tier("machine code", len(self.flat.schedule))
        if self._compiled is not None:
            return Tier("source", len(self.flat.schedule))
        return Tier(
            "instructions", len(self.flat.schedule) if self._listed is None else len(self._listed)
        )

    @property
    def program(self) -> Program:
        """The program; built at the first access if there is only an instruction list."""
        program = self._program
        if program is None:
            assert self._make is not None
            program = self._program = without_given(self._make())
        return program

    @property
    def folded(self) -> Program:
        """The program with constants folded, and calls not inlined: outer recordings use it."""
        folded = self._folded
        if folded is None:
            folded = self._folded = optimized(self.program, LATE)
        return folded

    @property
    def flat(self) -> Program:
        """The program with its calls inlined: the executed form."""
        flat = self._flat
        if flat is None:
            rows = EARLY if self._backend is None else self._backend.policy.passes(EARLY)
            made = optimized(_with_shared_loops(self.program), rows)
            flat = self._flat = _with_owned_carries(made)
        return flat

    def __reduce__(self) -> Any:
        """Copy and pickle as the program; compiled code is recompiled on demand."""
        return Runner, (self.program, self._backend)

    def __call__(self, arguments: Sequence[Any], lines: Sequence[Position] = ()) -> Sequence[Any]:
        """Run on flat arguments (arrays or traced values); returns the flat outputs, fresh arrays.

        Args:
            arguments: one per input.
            lines: positions of the current recording; see Note [Positions in cached programs].
        """
        for value in arguments:
            if isinstance(value, Tracer):
                return self._recorded(arguments, lines)
        setting = DISPATCH[0]
        if setting is not False:
            native = self._native
            if native is None or self._native_setting is not setting:
                if self._count_call(setting):
                    return self._checked(arguments, lines)
            else:
                results = native(*arguments)
                if results is not None:
                    return results
        run, listed = self._compiled, self._listed
        if run is None:
            if listed is not None:  # only if compilation is not amortized
                return interpreter.run(listed, arguments, lines)
            if not self._is_heavy():
                return self.interpret(arguments, lines)
            run = self.compile()
        return run_compiled(run, arguments, lines)

    def _count_call(self, setting: Any) -> bool:
        """Have the program compiled to machine code after enough calls under one setting.

        Returns:
            True to search the results for NaN.
        """
        if self._native_setting is not setting:
            if setting is CHECKED:
                return True
            self._native, self._native_setting, self._calls = None, setting, 0
        self._calls += 1
        if self._calls == (OFTEN if setting else VERY_OFTEN):

            def use(run: Callable[..., Sequence[Any] | None]) -> None:
                if self._native_setting is setting:
                    self._native = run

            for compile_hot in HOT:
                compile_hot(lambda: self.flat, use, not setting)
        return False

    def _checked(self, arguments: Sequence[Any], lines: Sequence[Position]) -> Sequence[Any]:
        """Run on arrays, and raise if a result has NaN, where this thread wants that."""
        run, listed = self._compiled, self._listed
        if run is None and listed is not None:
            results = interpreter.run(listed, arguments, lines)
        elif run is None and not self._is_heavy():
            results = self.interpret(arguments, lines)
        else:
            results = run_compiled(self.compile(), arguments, lines)
        if are_nans_checked() and has_nan(results):
            from functrace.diagnostics.report import explain_program

            report = explain_program(self.program, arguments, lines)
            raise nan_error(report, self.program.name.rpartition(" of ")[2])
        return results

    def _recorded(self, arguments: Sequence[Any], lines: Sequence[Position]) -> list[Any]:
        """Run on traced values: record a call, or else all operations; returns fresh handles."""
        watched = WATCHED.get()
        if watched is not None:
            results = watched(self, arguments, lines)
            if results is not None:
                return results
        inner = self._inner
        if inner is None:
            inner = self._inner = CallableProgram(self.folded)
        found = inner.recorded(arguments, lines)
        return (
            [fresh(result) for result in evaluate_program(self.folded, arguments, lines)]
            if found is None
            else found
        )

    def compile(self) -> Compiled:
        """Compile; returns the function of the arguments."""
        run = self._compiled
        if run is None:
            run = self._compiled = compile_flat(self.flat, self._backend)
        return run

    def _is_heavy(self) -> bool:
        """Return True if operations take longer to run than to compile."""
        heavy = self._heavy
        if heavy is None:
            heavy = self._heavy = (
                mean_work(self.flat) >= HEAVY and len(self.flat.schedule) <= LONGEST_COMPILED
            )
        return heavy

    def instructions(self) -> InstructionList | None:
        """Return the instruction list that a call runs; ``None`` if it runs compiled code."""
        if self._compiled is not None or (self._listed is None and self._is_heavy()):
            return None
        return interpreter.listed(self.flat) if self._listed is None else self._listed

    def interpret(self, arguments: Sequence[Any], lines: Sequence[Position] = ()) -> Sequence[Any]:
        """Run as an instruction list; see `__call__`."""
        listed = self._listed
        if listed is None:
            program = self.flat
            if any(isinstance(value, Tracer) for value in program.constant_values.values()):
                results = evaluate_program(program, arguments, lines)
                return [
                    value.copy("K") if shared and not isinstance(value, Tracer) else value
                    for shared, value in zip(program.aliasing, results, strict=True)
                ]
            listed = self._listed = interpreter.listed(program)
        return interpreter.run(listed, arguments, lines)


def _with_shared_loops(program: Program) -> Program:
    """Apply `share_forward_loops`, if a ``while_loop`` module is loaded: importing both takes 2 ms."""
    if "functrace.control.while_loop" not in sys.modules:
        return program
    from functrace.control.loop_sharing import share_forward_loops

    return share_forward_loops(program)


def _with_owned_carries(program: Program) -> Program:
    """Apply `own_kept_carries`, if a loop with ``checkpoint`` has been recorded."""
    if "functrace.control.checkpointed_loop" not in sys.modules:
        return program
    from functrace.control.checkpoint_ownership import own_kept_carries

    return own_kept_carries(program)


def compile_flat(
    program: Program, backend: Backend | None = None, donated: Sequence[int] = ()
) -> Compiled:
    """Compile a program without calls: the last passes, a plan, a backend.

    Args:
        program: the program.
        backend: its compiler; NumPy source by default.
        donated: inputs whose memory results may overwrite; see `planned`. The memory of such a run
            is not kept.
    """
    # The planner and the compiler take 6 ms to import, and many processes compile nothing.
    from functrace.executor.compilation import compile_optimized

    return compile_optimized(program, backend, donated)


def compile_at_once(
    program: Program,
    donated: Sequence[int] = (),
    passes: Sequence[Pass] = (),
    backend: Backend | None = None,
) -> Callable[..., Sequence[Any]]:
    """Return generated code for a program, as a function of arrays; very long programs are
    interpreted.

    Args:
        program: the program.
        donated: inputs whose memory results may overwrite; see `planned`.
        passes: additional passes, applied when calls are inlined; one that is off disables the
            library's own.
        backend: its compiler; NumPy source by default.
    """
    flat = flat_at_once(program, passes, backend)
    if len(flat.schedule) > LONGEST_COMPILED:
        runner = Runner(flat)
        return lambda *values: runner(values)
    return compile_flat(flat, backend, donated)


def flat_at_once(
    program: Program, passes: Sequence[Pass] = (), backend: Backend | None = None
) -> Program:
    """Return the program that `compile_at_once` compiles: without calls, after all passes but the
    last ones.
    """
    rows = applied(passes)
    return optimized(
        Runner(program, backend).flat, rows if backend is None else backend.policy.passes(rows)
    )


OFTEN: Final = 32
"""Calls after which a program is compiled to machine code, as a setting of the user."""

VERY_OFTEN: Final = 1000
"""Calls after which it is compiled by default: LLVM takes about 1,000 times as long for an operation
as NumPy takes to run it."""

HOT: list[Callable[[Callable[[], Program], Callable[[Any], None], bool], None]] = []
"""The function that compiles a hot program, given what makes it, what takes its machine code, and
True for NumPy's results to the bit; `functrace.api.staging.backends` sets it.
"""

MACHINE_CODE: Final = type(len)
"""Class of the functions that the native backend makes: builtin functions."""

WITH_OWN_LINES: set[type] = {MACHINE_CODE}
"""Classes of compiled programs that give no warnings, and whose errors name the user's line."""


def run_compiled(
    compiled: Callable[..., Sequence[Any]], arguments: Sequence[Any], lines: Sequence[Position] = ()
) -> Sequence[Any]:
    """Run a compiled program; warnings and exceptions name the user's line (``lines``: see
    `Runner`).

    Machine code gives no warnings: what it runs in its place goes through here.
    """
    if compiled.__class__ in WITH_OWN_LINES:
        return compiled(*arguments)
    is_default = current_modes() is DEFAULT_MODES  # inlined `name_warnings`: 0.2 us of 4
    named = set_modes(NAMING_MODES) if is_default else name_warnings()
    try:
        return compiled(*arguments)
    except Exception as error:
        source = raised_in(error.__traceback__, lines)
        if source is not None:
            error.add_note(f"  recorded at {source}")
        hide_own_frames(error)
        raise
    finally:
        if is_default:
            reset_modes(named)
        else:
            stop_naming(named)


LINES.add(run_compiled.__code__)
