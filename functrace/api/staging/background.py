"""Programs that run often are compiled to machine code in the background.

The first calls run NumPy's form. When a program has been called often enough, a thread compiles it;
LLVM works without Python's lock. The finished function takes the place of NumPy's form as a whole,
so a call never waits. Programs whose operations are on large arrays stay with NumPy, which uses all
cores for them, and so do programs of which a part has no native form.

Un-jitted transforms are recorded at every call as ever; the machine code of an equal recording runs
in the place of the instruction list (`compile_hot`).

Layer: 8.
"""

from __future__ import annotations

import threading
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


def counted(
    program: Program, passes: Sequence[Pass], when: WhenHot, ready: Callable[[Compiled], None]
) -> Compiled:
    """Return NumPy's form of a program, which has it compiled to machine code once it is hot.

    Args:
        program: the program.
        passes: the user's passes.
        when: the number of calls, and the accuracy.
        ready: called in another thread with the function of machine code.
    """
    plain = compile_at_once(program, passes=passes)
    if mean_bytes(program) >= LARGE:
        return plain
    left = when.calls

    def counting(*arguments: object) -> Sequence[Any]:
        nonlocal left
        left -= 1
        if left == 0:
            _submit(lambda: program, passes, when.is_exact, True, ready)
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
    _submit(program, (), is_exact, False, ready)


def _submit(
    make: Callable[[], Program],
    passes: Sequence[Pass],
    is_exact: bool,
    falls_back: bool,
    ready: Callable[[Any], None],
) -> None:
    """Compile a program in the thread.

    Nothing happens without a usable llvmlite, for a program of which a part has no native form,
    and for one on large arrays.
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
        has_traced = any(isinstance(x, Tracer) for x in program.constant_values.values())
        if has_traced or mean_bytes(program) >= LARGE:
            return
        rows = EXACT_ROWS if is_exact else ROWS
        kinds = {program.ops[k][0] for k, _ in program.schedule} - {CONSTANT}
        if not all(p.holds is not None or p in rows for p in kinds):
            return  # before any work on it
        backend = NativeBackend(splits=False, falls_back=falls_back, is_exact=is_exact)
        try:
            run = compile_at_once(program, passes=passes, backend=backend)
        except NoNativeForm:
            return
        ready(run)

    COMPILER.submit(job)
