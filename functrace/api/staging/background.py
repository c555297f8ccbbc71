"""Programs that run often are compiled to machine code in the background.

The first calls run NumPy's form. When a program has been called often enough, a thread compiles it;
LLVM works without Python's lock. The finished function takes the place of NumPy's form as a whole,
so a call never waits. NumPy may be faster for operations on large arrays, and for programs of which
a part has no native form: both forms of these run in turn for some calls, and the faster one stays.

Un-jitted transforms are recorded at every call as ever; the machine code of an equal recording runs
in the place of the instruction list (`compile_hot`).

Layer: 8.
"""

from __future__ import annotations

import itertools
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, final

from functrace.errors import FunctraceError
from functrace.executor.runner import LARGE, compile_at_once, mean_bytes
from functrace.ir.primitive import CONSTANT
from functrace.locks import after_fork, before_fork
from functrace.tracing.tracer import Tracer

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from functrace.api.staging.backends import WhenHot
    from functrace.ir.program import Program
    from functrace.passes import Pass

LONGEST_WAIT: Final = 60.0
"""Seconds that a fork waits for compilations."""

Compiled = Callable[..., Sequence[Any]]
Native = Callable[..., Sequence[Any] | None]
"""Machine code that returns None where NumPy's form has to run."""


@final
class Compiler:
    """The thread that compiles, started at first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._jobs: set[Future[None]] = set()

    def submit(self, job: Callable[[], None]) -> None:
        """Run a job in the thread."""
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "functrace-native")
            future = self._pool.submit(job)
            self._jobs.add(future)
        future.add_done_callback(self._finish)

    def _finish(self, future: Future[None]) -> None:
        """Forget a job; give a warning if it failed, since nobody waits for it."""
        self._jobs.discard(future)
        error = None if future.cancelled() else future.exception()
        if error is not None:
            warnings.warn(
                f"functrace: a program stays with NumPy, since its machine code failed: {error!r}",
                RuntimeWarning,
                stacklevel=2,
            )

    def wait(self) -> None:
        """Wait until no job is left; raises the error of a job that failed."""
        for future in list(self._jobs):
            future.result()

    def prepare_fork(self) -> None:
        """Wait for the jobs, before a fork: llvmlite's lock would stay taken in the child process.

        A job may need what the thread that forks holds, so the wait ends after `LONGEST_WAIT`.
        """
        jobs = list(self._jobs)
        if jobs:
            from concurrent.futures import wait

            wait(jobs, LONGEST_WAIT)

    def forget(self) -> None:
        """Start anew: after a fork, the thread does not exist in the child process."""
        self.__init__()


COMPILER = Compiler()
"""The thread of this process."""
before_fork(COMPILER.prepare_fork)
after_fork(COMPILER.forget)


TIMED_CALLS: Final = 3
"""Calls of each form of a program that are timed."""


@final
class FasterForm:
    """Run two forms of a program in turn, on the user's calls, and keep the faster one.

    Args:
        plain: NumPy's form.
        native: machine code.
        ready: called once, with the faster one.
    """

    def __init__(
        self, plain: Compiled, native: Compiled, ready: Callable[[Compiled], None]
    ) -> None:
        self._forms, self._ready = (plain, native), ready
        self._seconds: tuple[list[float], list[float]] = ([], [])
        self._choices = itertools.count()  # (threads may time the last call at the same time)

    def __call__(self, *arguments: object) -> Sequence[Any]:
        """Run the form that has been timed less often."""
        plain, native = self._seconds
        n = int(len(native) <= len(plain))
        start = time.perf_counter()
        results = self._forms[n](*arguments)
        self._seconds[n].append(time.perf_counter() - start)
        if min(len(plain), len(native)) >= TIMED_CALLS and next(self._choices) == 0:
            self._ready(self._forms[min(native) < min(plain)])
        return results


def counted(
    program: Program, passes: Sequence[Pass], when: WhenHot, ready: Callable[[Compiled], None]
) -> Compiled:
    """Return NumPy's form of a program, which has it compiled to machine code once it is hot.

    Args:
        program: the program.
        passes: the user's passes.
        when: the number of calls, and the accuracy.
        ready: called in another thread with what runs from then on: the function of machine code,
            or a `FasterForm`, which calls it again.
    """
    plain = compile_at_once(program, passes=passes)
    calls = itertools.count(1)  # (threads do not lose a count)

    def counting(*arguments: object) -> Sequence[Any]:
        if next(calls) == when.calls:
            _submit(lambda: program, passes, when.is_exact, plain, ready)
        return plain(*arguments)

    return counting


def compile_hot(
    program: Callable[[], Program], ready: Callable[[Native], None], is_exact: bool
) -> None:
    """Compile the program of an un-jitted transform to machine code, in the background.

    Args:
        program: makes the program.
        ready: called in another thread with the function of machine code.
        is_exact: True if results have to equal NumPy's to the bit.
    """
    _submit(program, (), is_exact, None, ready)


def _submit(
    make: Callable[[], Program],
    passes: Sequence[Pass],
    is_exact: bool,
    plain: Compiled | None,
    ready: Callable[[Any], None],
) -> None:
    """Compile a program in the thread.

    Nothing happens without a usable llvmlite. A program on large arrays, or of which a part has no
    native form, has to be faster than ``plain``; without that, nothing happens, either.
    """
    from functrace.native.llvm import is_usable

    if not is_usable():
        return

    def job() -> None:
        from functrace.native.backend import NativeBackend
        from functrace.native.lowering import NoNativeForm
        from functrace.native.rows import EXACT_ROWS, ROWS

        try:
            program = make()
        except FunctraceError:
            return  # (the call raises the same error, at the user's line)
        if any(isinstance(x, Tracer) for x in program.constant_values.values()):
            return
        rows = EXACT_ROWS if is_exact else ROWS
        kinds = {program.ops[k][0] for k, _ in program.schedule} - {CONSTANT}
        is_whole = all(p.holds is not None or p in rows for p in kinds)
        is_timed = mean_bytes(program) >= LARGE or not is_whole
        if is_timed and (plain is None or (is_exact and not is_whole)):
            return  # before any work on it

        def compiled() -> Compiled:
            backend = NativeBackend(is_timed, falls_back=plain is not None, is_exact=is_exact)
            return compile_at_once(program, passes=passes, backend=backend)

        try:
            run = compiled()
        except NoNativeForm:  # in the body of a loop, or for the program's length
            if is_timed or is_exact or plain is None:
                return
            is_timed = True
            run = compiled()
        if is_timed:
            assert plain is not None
            ready(FasterForm(plain, run, ready))
        else:
            ready(run)

    COMPILER.submit(job)
