"""``torch.profiler``: profiles with a schedule of steps, and their traces as files.

`profile` records with `functrace.torch.autograd.profiler.profile`.

Layer: 9.
"""

from __future__ import annotations

import gzip
import json
import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from pathlib import Path
from types import TracebackType
from typing import Any

from functrace.torch.autograd import profiler
from functrace.torch.autograd.profiler import kineto_available, record_function
from functrace.torch.autograd.profiler_util import DeviceType, EventList
from functrace.torch.errors.warnings import warn
from functrace.torch.profiler import itt

__all__ = [
    "DeviceType",
    "ProfilerAction",
    "ProfilerActivity",
    "itt",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(IntEnum):
    """Kind of what is recorded; here, the CPU."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5

    def __str__(self) -> str:
        return f"ProfilerActivity.{self.name}"


class ProfilerAction(Enum):
    """Action of a profile during a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Return the kinds that can be recorded."""
    return {ProfilerActivity.CPU}


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Return a function from the number of a step to what the profile does during it.

    Args:
        wait: steps of a cycle that nothing is recorded in.
        warmup: steps after them, which are not recorded either.
        active: steps after them, which are recorded.
        repeat: number of cycles; 0 for any number.
        skip_first: steps before the first cycle.
        skip_first_wait: nonzero to leave out the first cycle's ``wait``.

    Example:
        >>> import functrace.torch as torch
        >>> plan = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
        >>> [plan(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    is_valid = wait >= 0 and warmup >= 0 and active > 0 and repeat >= 0 and skip_first >= 0
    if not is_valid:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} "
            f"(need >= 0), active={active} (need > 0), repeat={repeat} (need >= 0), "
            f"skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warn("Profiler won't be using warmup, this can skew profiler results")
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(_step: int) -> ProfilerAction:
    """Record every step."""
    return ProfilerAction.RECORD


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """Return a function for ``on_trace_ready`` that writes a trace into a directory.

    Args:
        dir_name: the directory; it is made if it does not exist.
        worker_name: first part of the file's name; by default, host and process.
        use_gzip: True to compress.
    """

    def write(prof: profile) -> None:
        Path(dir_name).mkdir(parents=True, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return write


class profile:
    """Context that records the operations of this thread, step by step if there is a schedule.

    Args:
        activities: must contain ``ProfilerActivity.CPU``; accelerators are ignored with a warning.
        schedule: what to do at each step; by default, all is recorded.
        on_trace_ready: called with the profile at the end, or at the end of each cycle.
        record_shapes, profile_memory, with_stack, with_flops, with_modules: see
            `functrace.torch.autograd.profiler.profile`.
        acc_events: True to keep the events of former cycles.
        experimental_config, execution_trace_observer, use_cuda, custom_trace_id_callback: ignored.

    Example:
        >>> import functrace.torch as torch
        >>> from functrace.torch.profiler import ProfilerActivity, profile
        >>> with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        ...     y = torch.ones(2, 3) @ torch.ones(3, 4)
        >>> [event.input_shapes for event in prof.events() if event.name == "aten::mm"]
        [[[2, 3], [3, 4]]]
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: object = None,
        execution_trace_observer: object = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        self.activities = supported_activities() if activities is None else set(activities)
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        for activity in sorted(self.activities - supported_activities()):
            warn(f"{activity.name} is not available, disabling {activity.name} profiling")
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops, self.with_modules = with_stack, with_flops, with_modules
        self.acc_events = acc_events
        self.record_steps = schedule is not None
        self.schedule = _always if schedule is None else schedule
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self.profiler: profiler.profile | None = None
        self._kept: list[Any] = []
        self._step: record_function | None = None
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    # -- steps -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with the first step."""
        if self._is_recording():
            self._begin()
        self._begin_step()

    def stop(self) -> None:
        """End the last step.

        Raises:
            AssertionError: if it was not started.
        """
        if (
            self.profiler is None
            and self.current_action is not ProfilerAction.NONE
            and (self.current_action is not ProfilerAction.WARMUP)
        ):
            raise AssertionError("Profiler must be initialized before stopping trace")
        self._end_step()
        if self._is_recording():
            self._end()

    def step(self) -> None:
        """Go to the next step."""
        self._end_step()
        before, was_recording = self.current_action, self._is_recording()
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        ends_cycle = before is ProfilerAction.RECORD_AND_SAVE
        if was_recording and (ends_cycle or not self._is_recording()):
            self._end()
            was_recording = False
        if self._is_recording() and not was_recording:
            self._begin()
        self._begin_step()

    def _is_recording(self) -> bool:
        return self.current_action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)

    def _begin(self) -> None:
        made = profiler.profile(
            record_shapes=self.record_shapes,
            with_flops=self.with_flops,
            profile_memory=self.profile_memory,
            with_stack=self.with_stack,
            with_modules=self.with_modules,
        )
        made.begin()
        self.profiler = made

    def _end(self) -> None:
        found = self.profiler
        assert found is not None
        found.finish()
        if self.acc_events:
            self._kept += found.function_events
            found.function_events[:] = self._kept
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _begin_step(self) -> None:
        if self.record_steps and self._is_recording():
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    # -- results -----------------------------------------------------------------------------------

    def _finished(self, purpose: str) -> profiler.profile:
        if self.profiler is None:
            raise AssertionError(f"Profiler must be initialized before {purpose}")
        return self.profiler

    def events(self) -> EventList:
        """Return the events of the last cycle."""
        return self._finished("accessing events").function_events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return the sums over events of the same name."""
        return self._finished("getting key averages").key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as a JSON file; compressed if its name ends in ``.gz``."""
        found = self._finished("exporting chrome trace")
        if not str(path).endswith(".gz"):
            found.export_chrome_trace(path, self._metadata)
            return
        with tempfile.TemporaryDirectory() as place:
            plain = Path(place) / "trace.json"
            found.export_chrome_trace(str(plain), self._metadata)
            Path(path).write_bytes(gzip.compress(plain.read_bytes()))

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the times by position in the source; needs ``with_stack=True``."""
        self._finished("exporting stacks").export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a value, given as JSON, to the trace."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json
