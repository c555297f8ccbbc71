"""`Runner`: runs one program on arrays, interpreted first, compiled when that is worth its time.

Results are always fresh arrays: an output that is, or may be a view of, an argument, a constant or another output is copied.

Floor: 6.
"""

# A tracer's own fields are underscored for users; the library's rooms read them.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, final

from functrace.executor import instructions
from functrace.executor.cache import collector_paused
from functrace.executor.first_sight import FirstSight, mean_bytes
from functrace.executor.inner import Inner, fresh
from functrace.executor.instructions import WIDTH, Instructions
from functrace.ir.parts import Compiled
from functrace.ir.program import Position, Program
from functrace.later import LaterModules
from functrace.locks import after_fork
from functrace.passes import EARLY, LATE, Pass, applied, optimized, optimizing
from functrace.source import hide_own_frames
from functrace.steps import finished
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
from functrace.transforms.given import without_given

if TYPE_CHECKING:
    from functrace.executor.backend import Backend

LONGEST_COMPILED = 20_000
"""Programs with more equations than this stay with the evaluator: Python's compiler would take seconds."""

HEAVY = 1 << 20
"""Bytes per equation: to compute so many takes 100 us, to compile an equation 25."""

COMPILING = 20e-6
"""Seconds that compiling takes per equation."""
STEP = 12e-6
"""Seconds per equation that the dearest step of it takes."""
IMPORTING = 1.5e-3
"""Seconds that the dearest of the files takes that are imported for the first program which is compiled."""
LARGEST_PIECE = 1 / 16
"""At most so large a part of a program is compiled at a time: made at first sight, it takes 1 us per operation."""

COMPILER = LaterModules(
    *[
        f"functrace.executor.{name}"
        for name in ("sums", "order", "groups", "products", "plan", "blocks", "loops", "compilation")
    ]
)
"""The files that plan and spell; see Note [Compiling is imported when it begins]."""


class Tier(NamedTuple):
    """How a cached program runs.

    Args:
        name: ``"first sight"``, no pass has gone over it yet; ``"instructions"``, interpreted; with ``", being
            compiled"`` some steps have been taken; ``"source"``, compiled.
        operations: how many it runs.
        interpreting: seconds spent on interpreted calls so far.
        compiling: seconds spent on compiling so far, in steps.
    """

    name: str
    operations: int
    interpreting: float
    compiling: float


@final
class Runner:
    """Runs one program: interpreted, until the time that this takes has earned a compilation.

    Note [No call is slower than the first]
        Compiling takes 20 us per equation, the first call of a derivative 3 to 6. So it is done in steps of less than 2 us
        per equation, at most one per call, and only while the seconds spent on it are fewer than those spent interpreting: a
        program costs at most twice what it would without compilation. Until the last step is done, calls interpret.

    Note [Compiling is imported when it begins]
        The files that plan, group and spell a program take 6 ms to import, and many processes compile nothing. They come in
        a few at a time, which are steps like others.

    Args:
        program: the program; its inputs are the arguments.
        backend: what compiles it; by default `functrace.executor.numpy_source.NUMPY`.
        is_flat: whether the program is one that a runner has made flat (`flat`).
    """

    __slots__ = (
        "_backend", "_compiled", "_compiling", "_first", "_flat", "_folded", "_heavy", "_inner", "_interpreted", "_invested",
        "_listed", "_program",
    )  # fmt: skip

    def __init__(self, program: Program | FirstSight, backend: Backend | None = None, *, is_flat: bool = False) -> None:
        self._first = program if isinstance(program, FirstSight) else None
        self._program = None if isinstance(program, FirstSight) else program if is_flat else without_given(program)
        self._backend = backend
        self._compiled: Compiled | None = None
        self._compiling: Generator[None, None, Compiled] | None = None
        self._flat: Program | None = self._program if is_flat else None
        self._folded: Program | None = None
        self._heavy: bool | None = None
        self._inner: Inner | None = None
        self._listed: Instructions | None = None
        self._interpreted = self._invested = 0.0  # seconds

    @property
    def tier(self) -> Tier:
        """How calls run now, and what that has taken."""
        name, first, listed, flat = "instructions", self._first, self._listed, self._flat
        if self._compiled is not None:
            name = "source"
        elif self._compiling is not None:
            name = "instructions, being compiled"
        elif first is not None:
            name = "first sight"
        operations = first.size if first is not None else len(listed.code) // WIDTH if listed is not None else 0
        if not operations and (flat is not None or self._program is not None):
            operations = len((flat or self.program).schedule)
        return Tier(name, operations, self._interpreted, self._invested)

    @property
    def program(self) -> Program:
        """The program; what was run at first sight is made one when somebody asks."""
        first = self._first  # before the other: another thread may put the program in its place
        program = self._program
        if program is None:
            assert first is not None
            program = self._program = finished(first.splicing(sys.maxsize))
        return program

    @property
    def folded(self) -> Program:
        """The program with constants folded: what is recorded into an outer program, with its calls as they are."""
        folded = self._folded
        if folded is None:
            folded = self._folded = optimized(self.program, LATE)
        return folded

    @property
    def flat(self) -> Program:
        """The program with its calls in line: what runs."""
        flat = self._flat
        if flat is None:
            flat = self._flat = optimized(_walked_once(self.program), EARLY)
        return flat

    def __reduce__(self) -> Any:
        """Copy and pickle as the program: what has been compiled is compiled again where it is needed."""
        return Runner, (self.program, self._backend)

    def __call__(self, arguments: Sequence[Any], lines: Sequence[Position] = ()) -> Sequence[Any]:
        """Run on flat arguments (arrays or traced values); returns the flat outputs, fresh arrays.

        Args:
            arguments: one per input.
            lines: positions of the recording that a cached program runs for; see Note [Positions in cached programs].
        """
        for value in arguments:
            if isinstance(value, Tracer):
                return self._recorded(arguments, lines)
        run = self._compiled
        if run is None:
            run = self._advanced() if self._interpreted > self._invested else self.compile() if self._is_heavy() else None
            if run is None:
                begin = perf_counter()
                results = self.interpret(arguments, lines)
                self._interpreted += perf_counter() - begin
                return results
        return run_compiled(run, arguments, lines)

    def _recorded(self, arguments: Sequence[Any], lines: Sequence[Position]) -> list[Any]:
        """Run on traced values: record a call, or else all operations; returns fresh handles."""
        inner = self._inner
        if inner is None:
            inner = self._inner = Inner(self.folded)
        found = inner.recorded(arguments, lines)
        return [fresh(result) for result in evaluate_program(self.folded, arguments, lines)] if found is None else found

    def compile(self) -> Compiled:
        """Compile now, at once; returns the function of the arguments."""
        if self._compiled is None:
            from functrace.executor.compilation import compile_flat

            self._take(compile_flat(self.flat, self._backend))
        return self._compiled  # type: ignore[return-value]

    def _is_heavy(self) -> bool:
        """Whether operations take longer to run than to compile: then even the first call lets large arrays die early."""
        heavy = self._heavy
        if heavy is None:
            heavy = self._first is None and mean_bytes(self.flat) >= HEAVY and len(self.flat.schedule) <= LONGEST_COMPILED
            self._heavy = heavy
        return heavy

    def _advanced(self) -> Compiled | None:
        """Take one step of the compilation; returns the function, if that was the last."""
        begin = perf_counter()
        first = self._first
        turn = (self,)
        if _COMPILING.setdefault(id(self), turn) is not turn:
            return None  # another thread is at it
        try:
            if first is not None and self._interpreted < COMPILING * first.size:
                return None
            if not COMPILER.are_there():
                if self._interpreted > IMPORTING:
                    COMPILER.bring()
                return None
            if self._compiling is None:
                from functrace.executor.compilation import compiling

                self._compiling = compiling(self.flat, self._backend) if first is None else self._compiling_after(first)
            steps = self._compiling
            with collector_paused():
                now = begin
                while True:
                    before = now
                    next(steps)
                    now = perf_counter()
                    if first is None or now - begin + (now - before) > first.seconds:
                        break  # with another step like this one, the call would take longer than the first one did
        except StopIteration as end:
            self._take(end.value)
        except BaseException:
            self._compiling = None
            raise
        finally:
            self._invested += perf_counter() - begin
            _COMPILING.pop(id(self), None)
        return self._compiled

    def _compiling_after(self, first: FirstSight) -> Generator[None, None, Compiled]:
        """Compile what was run at first sight, in steps that take less than was spent on making that."""
        from functrace.executor.compilation import FEWEST_IN_PIECE, compiling

        # By the clock, and by count: a first call that was interrupted must not make large steps.
        size = max(FEWEST_IN_PIECE, min(int(first.seconds / 2 / STEP), int(first.size * LARGEST_PIECE)))
        if self._program is None:
            self._program = yield from first.splicing(size)
            yield
        flat = self._flat = yield from optimizing(self._program, size, EARLY)
        yield
        return (yield from compiling(flat, self._backend, size))

    def _take(self, run: Compiled) -> None:
        self._compiled = run
        if self._first is not None:
            _ = self.program
        self._compiling = self._flat = self._folded = self._first = self._listed = None  # made again if ever needed

    def interpret(self, arguments: Sequence[Any], lines: Sequence[Position] = ()) -> Sequence[Any]:
        """Run without compiling, and without a thought of it; see `__call__`."""
        first = self._first
        if first is not None:
            return first.run(arguments, lines)
        listed = self._listed
        if listed is None:
            program = self.flat
            if any(isinstance(value, Tracer) for value in program.constant_values.values()):
                results = evaluate_program(program, arguments, lines)
                return [
                    value.copy("K") if shared and not isinstance(value, Tracer) else value
                    for shared, value in zip(program.aliasing, results, strict=True)
                ]
            listed = self._listed = instructions.listed(program)
        return instructions.run(listed, arguments, lines)


_COMPILING: dict[int, tuple[Runner]] = {}
"""The runners for which a thread takes a step of compilation now, by identity."""


@after_fork
def _forget_compiling() -> None:
    """Begin compilations anew in a forked child that other threads were at: their steps are never ended there."""
    for (runner,) in list(_COMPILING.values()):
        runner._compiling = None
    _COMPILING.clear()


def _walked_once(program: Program) -> Program:
    """Apply `walk_once`, which comes in with the first loop of its kind: importing both takes 2 ms."""
    if "functrace.control.while_loop" not in sys.modules:
        return program
    from functrace.control.walked_once import walk_once

    return walk_once(program)


def compile_at_once(
    program: Program, donated: Sequence[int] = (), passes: Sequence[Pass] = ()
) -> Callable[..., Sequence[Any]]:
    """Return generated code for a program, a function of arrays; one that is too long for it is interpreted.

    Args:
        program: the program.
        donated: inputs in whose memory results may be written; see `planning`.
        passes: further ones, that it goes through when its calls are in line; one that is off leaves out the library's own.
    """
    runner = Runner(program)
    made = optimized(runner.flat, applied(passes))
    if made is not runner.flat:
        runner = Runner(made)
    if len(runner.flat.schedule) > LONGEST_COMPILED:
        return lambda *values: runner(values)
    if donated:
        from functrace.executor.compilation import compile_flat

        return compile_flat(runner.flat, donated=donated)
    return runner.compile()


def run_compiled(
    compiled: Callable[..., Sequence[Any]], arguments: Sequence[Any], lines: Sequence[Position] = ()
) -> Sequence[Any]:
    """Run a compiled program; warnings and exceptions name the user's line (``lines``: see `Runner`)."""
    is_default = current_modes() is DEFAULT_MODES  # `name_warnings`, in line: 0.2 us of 4
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
