"""``torch.autograd.profiler``: `profile`, which records operations and their times, and
`record_function`, which names a range.

The recording is in `functrace.torch.dispatch.profiling`, the events are in
`functrace.torch.autograd.profiler_util`. `torch.profiler` has schedules, and writes traces.

Layer: 9.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, final
from weakref import finalize

from functrace.torch.autograd.grad_mode import DecoratingContext
from functrace.torch.autograd.profiler_util import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
)
from functrace.torch.dispatch.profiling import USER, Record, Session, observer, start, stop
from functrace.torch.errors.warnings import warn

__all__ = ["emit_itt", "emit_nvtx", "kineto_available", "profile", "record_function"]


def kineto_available() -> bool:
    """Return True: profiles record the CPU."""
    return True


def _profiler_enabled() -> bool:
    """Return True if this thread is profiled."""
    return observer() is not None


class record_function(DecoratingContext):
    """Context and decorator that names a range of a profile.

    Args:
        name: the name.
        args: a text that is kept with the name.

    Example:
        >>> import functrace.torch as torch
        >>> with torch.autograd.profiler.profile() as prof:
        ...     with torch.autograd.profiler.record_function("doubling"):
        ...         y = torch.ones(3) * 2
        >>> [event.name for event in prof.function_events if event.cpu_parent is None]
        ['doubling']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self.run_callbacks_on_exit = True
        self._open: list[tuple[Session, Record]] = []

    def clone(self) -> record_function:
        """Return another context of this name."""
        return type(self)(self.name, self.args)

    def __enter__(self) -> record_function:
        now = observer()
        if now is not None:
            self._open.append((now.session, now.session.begin(self.name, USER)))
        return self

    def __exit__(self, *_exception: object) -> None:
        """End the range."""
        if self._open and self.run_callbacks_on_exit:
            session, record = self._open.pop()
            session.end(record)

    def _call_end_callbacks_on_future(self, fut: Any) -> Any:
        """End the range when a future is done; returns the future."""
        if not self.run_callbacks_on_exit:
            raise RuntimeError("_call_end_callbacks_on_future can only be called once.")
        ranges, self._open, self.run_callbacks_on_exit = self._open, [], False

        def finish(done: Any) -> Any:
            for session, record in ranges:
                session.end(record)
            return done.value()

        return fut.then(finish)


def _record_function_enter(name: str, args: str | None = None) -> record_function:
    """Begin a range; returns a handle for `_record_function_exit`."""
    return record_function(name, args).__enter__()


def _record_function_exit(handle: record_function) -> None:
    """End a range."""
    handle.__exit__()


class profile:
    """Context that records the operations of this thread, with their times.

    Args:
        enabled: False for a context without effect.
        use_cuda, use_device: an accelerator to profile; there is none, so they only warn.
        record_shapes: True to record the shapes of arguments.
        with_flops: True to estimate floating-point operations of multiplications and convolutions.
        profile_memory: True to record the bytes of results that are allocated and freed.
        with_stack: True to record positions in the source.
        with_modules: ignored.
        use_kineto, use_cpu, experimental_config, acc_events, custom_trace_id_callback: ignored.

    Raises:
        RuntimeError: if it is entered twice, or while this thread is profiled.

    Example:
        >>> import functrace.torch as torch
        >>> with torch.autograd.profiler.profile() as prof:
        ...     y = torch.ones(3, requires_grad=True).exp().sum().backward()
        >>> [event.key for event in prof.key_averages() if "exp" in event.key]
        ['aten::exp']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: object = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self.enabled = enabled
        if use_cuda:
            warn(
                "The attribute `use_cuda` will be deprecated soon, please use ``use_device = "
                "'cuda'`` instead.",
                FutureWarning,
            )
            use_device = "cuda"
        if use_device is not None and use_device != "cpu":
            warn(f"{use_device.upper()} is not available, disabling {use_device.upper()} profiling")
        self.use_device: str | None = None
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops, self.profile_memory = with_flops, profile_memory
        self.with_stack, self.with_modules = with_stack, with_modules
        self.use_cpu, self.acc_events = use_cpu, acc_events
        self.trace_id = uuid.uuid4().hex.upper()
        self._session: Session | None = None
        self._events: EventList | None = None

    def __enter__(self) -> profile:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.enabled:
            self.finish()

    def begin(self) -> None:
        """Begin to record."""
        session = Session(
            shapes=self.record_shapes,
            stacks=self.with_stack,
            memory=self.profile_memory,
            flops=self.with_flops,
        )
        start(session)
        self.entered, self._session = True, session
        finalize(self, stop, session).atexit = False

    def finish(self) -> None:
        """End recording, and make the events."""
        if self._session is None:
            raise RuntimeError("the profile was not started")
        stop(self._session)
        self._events = self._session.events()

    @property
    def function_events(self) -> EventList:
        """The events, by their starts."""
        if self._events is None:
            return EventList()
        return self._events

    def __repr__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._events is None else repr(self._events)

    def __str__(self) -> str:
        return "<unfinished torch.autograd.profile>" if self._events is None else str(self._events)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
    ) -> str:
        """Return a table of the events; see `EventList.table`."""
        return self.function_events.table(
            sort_by, row_limit, max_src_column_width, max_name_column_width,
            max_shapes_column_width, header, top_level_events_only,
        )  # fmt: skip

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return the sums over events of the same name; see `EventList.key_averages`."""
        if self._events is None:
            return EventList()
        return self._events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def total_average(self) -> FunctionEventAvg:
        """Return the sums over all events."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Time of all events, in microseconds."""
        return self.function_events.self_cpu_time_total

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the times by position in the source; needs ``with_stack=True``."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """Write the events as a JSON file for ``chrome://tracing``, Perfetto and TensorBoard.

        Raises:
            RuntimeError: if nothing has been recorded.
        """
        session = self._session
        if session is None or self._events is None:
            raise RuntimeError("export_chrome_trace needs a finished profile")
        process = os.getpid()
        base = session.began_at // 1000 - session.began / 1e3
        rows: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "ts": session.began / 1e3, "pid": process, "tid": 0,
             "args": {"name": Path(sys.executable).name}},
        ]  # fmt: skip
        for number, _ in session.threads.values():
            rows.append(
                {"ph": "M", "name": "thread_name", "ts": session.began / 1e3, "pid": process,
                 "tid": number, "args": {"name": f"thread {number}"}}
            )  # fmt: skip
        rows += [self._row(event, session, process) for event in self._events]
        trace = {
            "schemaVersion": 1,
            "deviceProperties": [],
            "record_shapes": int(self.record_shapes),
            "with_stack": int(self.with_stack),
            "trace_id": self.trace_id,
            "host_name": socket.gethostname(),
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": int(base * 1000),
            "traceEvents": rows,
            "traceName": str(path),
        }
        Path(path).write_text(json.dumps(trace | (metadata or {}), indent=2))

    def _row(self, event: FunctionEvent, session: Session, process: int) -> dict[str, Any]:
        args: dict[str, Any] = {"External id": event.id, "Ev Idx": event.id - 1}
        if event.sequence_nr >= 0:
            args |= {"Sequence number": event.sequence_nr, "Fwd thread id": event.fwd_thread}
        if self.record_shapes:
            args["Input Dims"] = event.input_shapes
            args["Concrete Inputs"] = [
                "" if x is None else str(x) for x in event.concrete_inputs or ()
            ]
        if event.stack:
            args["Call stack"] = ";".join(event.stack)
        if self.profile_memory:
            args["Bytes"] = event.cpu_memory_usage
        return {
            "ph": "X",
            "cat": "user_annotation" if event.is_user_annotation else "cpu_op",
            "name": event.trace_name,
            "pid": process,
            "tid": event.thread,
            "ts": session.began / 1e3 + event.time_range.start,
            "dur": event.time_range.elapsed_us(),
            "args": args,
        }


class _Emit:
    """Context that would pass ranges on to a vendor's profiler: without effect."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> _Emit | None:
        return self if self.enabled else None

    def __exit__(self, *_exception: object) -> None:
        """Do nothing."""


@final
class emit_nvtx(_Emit):
    """Context without effect: there is no GPU."""


@final
class emit_itt(_Emit):
    """Context without effect: VTune gets no ranges."""


class KinetoStepTracker:
    """Number of the current step of each profiler that counts steps."""

    _current_step = 0
    _lock = threading.Lock()

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Count a step."""
        with cls._lock:
            cls._current_step += 1
            return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """Return the number of steps."""
        return cls._current_step
