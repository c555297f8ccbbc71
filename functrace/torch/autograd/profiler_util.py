"""Events of a profile: `FunctionEvent`, their lists and averages, and the table that is printed.

An event is an interval of time of one thread. `EventList._build_tree` makes an event the child of
the smallest interval around it.

Layer: 9.
"""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, final

__all__ = [
    "EventList",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "StringTable",
]


class DeviceType(IntEnum):
    """Kind of the device of an event; it is always the CPU."""

    CPU = 0
    CUDA = 1

    def __str__(self) -> str:
        return f"DeviceType.{self.name}"


def _format_time(time_us: float) -> str:
    """Return a time in the unit that fits."""
    for unit, scale in ("s", 1e6), ("ms", 1e3):
        if time_us >= scale:
            return f"{time_us / scale:.3f}{unit}"
    return f"{time_us:.3f}us"


def _format_time_in(time_us: float, unit: str | None) -> str:
    """Return a time in a unit: us, ms or s; in the one that fits for None."""
    if unit is None:
        return _format_time(time_us)
    scales = {"us": 1.0, "ms": 1e3, "s": 1e6}
    if unit not in scales:
        raise ValueError(f"time_unit must be one of {list(scales)}, but it is {unit!r}")
    return f"{time_us / scales[unit]:.3f}{unit}"


def _format_time_share(time_us: float, total_time_us: float) -> str:
    """Return a part of a time in percent."""
    if total_time_us == 0:
        assert time_us == 0, f"Expected time_us == 0 but got {time_us}"
        return "NaN"
    return f"{time_us * 100.0 / total_time_us:.2f}%"


def _format_memory(nbytes: int) -> str:
    """Return a size in the unit that fits."""
    for unit, scale in ("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10):
        if abs(nbytes) >= scale:
            return f"{nbytes / scale:.2f} {unit}"
    return f"{nbytes} B"


class Kernel(NamedTuple):
    """A kernel of an accelerator; there are none here."""

    name: str
    device: int
    duration: int


class StringTable(defaultdict[str, str]):
    """Names by mangled name; the ones here are not mangled."""

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


class Interval:
    """A span of time in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """Return its length."""
        return self.end - self.start


class FormattedTimesMixin:
    """Times as text, of classes that have ``cpu_time_total`` and ``count``."""

    cpu_time_total: Any
    self_cpu_time_total: Any
    count: int
    device_time_total: Any = 0
    self_device_time_total: Any = 0

    @property
    def cpu_time(self) -> float:
        """Average time on the CPU, in microseconds."""
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Average time on an accelerator: 0."""
        return 0.0

    cuda_time = device_time

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` as text."""
        return _format_time(self.cpu_time)

    @property
    def device_time_str(self) -> str:
        """`device_time` as text."""
        return _format_time(self.device_time)

    @property
    def cpu_time_total_str(self) -> str:
        """``cpu_time_total`` as text."""
        return _format_time(self.cpu_time_total)

    @property
    def device_time_total_str(self) -> str:
        """``device_time_total`` as text."""
        return _format_time(self.device_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        """``self_cpu_time_total`` as text."""
        return _format_time(self.self_cpu_time_total)

    @property
    def self_device_time_total_str(self) -> str:
        """``self_device_time_total`` as text."""
        return _format_time(self.self_device_time_total)


@final
class FunctionEvent(FormattedTimesMixin):
    """One call of a function.

    Args:
        id: number of the event.
        name: of the function, ``aten::add`` for an operation.
        thread: number of the thread.
        start_us, end_us: time in microseconds.
        overload_name: of the operation's schema.
        fwd_thread: for a node of the backward pass, the thread that made it.
        input_shapes: one entry per argument, [] for what is no tensor.
        stack: positions in the source, innermost first.
        scope: 0 for functions, 1 for backward nodes, 7 for ranges of the user.
        sequence_nr: number that an operation and its backward node share; -1 without a node.
        flops: number of floating-point operations, for multiplications of matrices and some more.
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: list[Any] | None = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        device_type: DeviceType = DeviceType.CPU,
        device_index: int = 0,
        device_resource_id: int | None = None,
        is_legacy: bool = False,
        flops: int | None = None,
        trace_name: str | None = None,
        concrete_inputs: list[Any] | None = None,
        kwinputs: dict[str, Any] | None = None,
        is_user_annotation: bool = False,
    ) -> None:
        self.id, self.node_id, self.name, self.overload_name = id, node_id, name, overload_name
        self.trace_name = trace_name
        self.time_range = Interval(start_us, end_us)
        self.thread, self.fwd_thread = thread, fwd_thread
        self.kernels: list[Kernel] = []
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes, self.concrete_inputs, self.kwinputs = (
            input_shapes,
            concrete_inputs,
            kwinputs,
        )
        self.stack, self.scope, self.use_device = stack, scope, use_device
        self.cpu_memory_usage, self.device_memory_usage = cpu_memory_usage, device_memory_usage
        self.is_async, self.is_remote, self.sequence_nr = is_async, is_remote, sequence_nr
        self.device_type, self.device_index = device_type, device_index
        self.device_resource_id = thread if device_resource_id is None else device_resource_id
        self.is_legacy, self.flops, self.is_user_annotation = is_legacy, flops, is_user_annotation

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Add an event that this one contains."""
        assert isinstance(child, FunctionEvent)
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Set the smallest event that contains this one."""
        assert isinstance(parent, FunctionEvent)
        self.cpu_parent = parent

    @property
    def key(self) -> str:
        """The name by which `EventList.key_averages` groups."""
        return self.name

    @property
    def cpu_time_total(self) -> float:
        """Duration, in microseconds."""
        return 0 if self.is_async else self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        """Duration without that of the children."""
        if self.is_async:
            return 0
        return self.cpu_time_total - sum([child.cpu_time_total for child in self.cpu_children])

    @property
    def self_cpu_memory_usage(self) -> int:
        """Memory in bytes, without that of the children."""
        if self.is_async:
            return 0
        return self.cpu_memory_usage - sum([child.cpu_memory_usage for child in self.cpu_children])

    @property
    def self_device_memory_usage(self) -> int:
        """Memory of an accelerator: 0."""
        return 0

    def __repr__(self) -> str:
        shown = {
            "id": self.id, "name": self.name, "overload_name": self.overload_name,
            "device_type": self.device_type, "node_id": self.node_id, "cpu_time": self.cpu_time_str,
            "start_us": self.time_range.start, "end_us": self.time_range.end,
            "cpu_children": [child.id for child in self.cpu_children],
            f"{self.use_device}_time": self.device_time_str,
        }  # fmt: skip
        more = {
            "name": self.name, "thread": self.thread, "input_shapes": self.input_shapes,
            "cpu_memory_usage": self.cpu_memory_usage,
            f"{self.use_device}_memory_usage": self.device_memory_usage,
            "is_async": self.is_async, "is_remote": self.is_remote, "seq_nr": self.sequence_nr,
            "is_legacy": self.is_legacy,
        }  # fmt: skip
        fields = itertools.chain(shown.items(), more.items())
        return f"<FunctionEvent {' '.join([f'{name}={value}' for name, value in fields])}>"


@final
class FunctionEventAvg(FormattedTimesMixin):
    """Sums over several events of one name, and averages."""

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = self.node_id = 0
        self.is_async = self.is_remote = self.is_legacy = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.cpu_memory_usage = self.device_memory_usage = 0
        self.self_cpu_memory_usage = self.self_device_memory_usage = 0
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.device_type = DeviceType.CPU
        self.flops = 0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or other sums, of the same name."""
        if self.key is None:
            self.key = other.key
            for name in (
                "node_id", "is_async", "is_remote", "cpu_parent", "cpu_children", "overload_name",
                "input_shapes", "stack", "scope", "device_type", "is_legacy", "use_device",
            ):  # fmt: skip
                setattr(self, name, getattr(other, name))
        assert other.key == self.key, f"Expected keys to match, but got {other.key} vs {self.key}"
        for name in (
            "cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total",
            "cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage",
            "self_device_memory_usage", "count",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops += other.flops or 0
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} "
            f"{device}_memory_usage={self.device_memory_usage}>"
        )


@final
class EventList(list[Any]):
    """Events, or averages of events; prints as a table."""

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._use_device, self._profile_memory, self._with_flops = (
            use_device,
            profile_memory,
            with_flops,
        )
        self._tree_built = False

    def _build_tree(self) -> None:
        """Set parents and children, and drop events that only repeat their parent."""
        self._populate_cpu_children()
        self._remove_dup_nodes()
        self._set_backward_stacktraces()
        self._tree_built = True

    def _populate_cpu_children(self) -> None:
        """Make every event a child of the smallest interval of its thread around it."""
        threads: dict[tuple[int, int], list[FunctionEvent]] = {}
        for event in self:
            if not event.is_async:
                threads.setdefault((event.thread, event.node_id), []).append(event)
        for events in threads.values():
            events.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
            around: list[FunctionEvent] = []
            for event in events:
                while around and (
                    event.time_range.start >= around[-1].time_range.end
                    or event.time_range.end > around[-1].time_range.end
                ):
                    around.pop()
                if around:
                    around[-1].append_cpu_child(event)
                    event.set_cpu_parent(around[-1])
                around.append(event)

    def _remove_dup_nodes(self) -> None:
        """Drop an event that is the only child of one of the same name."""
        while True:
            dropped = {
                id(event)
                for event in self
                if event.cpu_parent is not None
                and event.cpu_parent.name == event.name
                and len(event.cpu_parent.cpu_children) == 1
            }
            if not dropped:
                return
            for event in self:
                if id(event) in dropped:
                    event.cpu_parent.cpu_children = event.cpu_children
                    for child in event.cpu_children:
                        child.cpu_parent = event.cpu_parent
            self[:] = [event for event in self if id(event) not in dropped]

    def _set_backward_stacktraces(self) -> None:
        """Give a backward node the position of the operation that made it."""
        stacks = {
            (event.sequence_nr, event.thread): event.stack
            for event in reversed(self)
            if event.sequence_nr >= 0 and event.scope == 0 and event.stack
        }
        for event in self:
            if event.scope == 1 and (event.sequence_nr, event.fwd_thread) in stacks:
                event.stack = stacks[event.sequence_nr, event.fwd_thread]

    @property
    def self_cpu_time_total(self) -> float:
        """Sum of the times without those of children."""
        return sum([event.self_cpu_time_total for event in self])

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return a table of the events.

        Args:
            sort_by: attribute to sort by, the largest first.
            row_limit: number of rows; -1 for all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: widths of
                columns.
            header: text above the table.
            top_level_events_only: True to leave out events that others contain.
            time_unit: us, ms or s; by default the one that fits.

        Raises:
            AttributeError: if events have no such attribute.
        """
        if not self:
            return ""
        columns = _columns(
            self,
            (max_name_column_width, max_shapes_column_width, max_src_column_width),
            time_unit,
        )
        events = self
        if sort_by is not None:
            attribute = sort_by.replace("cuda", "device")
            events = EventList(
                sorted(self, key=lambda event: getattr(event, attribute), reverse=True)
            )
        return columns.print(events, row_limit, header, is_top=top_level_events_only)

    def __str__(self) -> str:
        return self.table()

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Return the sums over events of the same name.

        Args:
            group_by_input_shapes: True to keep events of different shapes apart.
            group_by_stack_n: number of positions in the source that must agree.
            group_by_overload_name: True to keep different overloads apart.
        """
        assert self._tree_built
        groups: dict[tuple[Any, ...], FunctionEventAvg] = {}
        for event in self:
            key = (
                event.key, event.node_id, event.is_legacy, event.is_user_annotation,
                str(event.input_shapes) if group_by_input_shapes else "",
                tuple(event.stack[:group_by_stack_n] if event.stack else ()),
                event.overload_name if group_by_overload_name else "",
            )  # fmt: skip
            groups.setdefault(key, FunctionEventAvg()).add(event)
        made = EventList(
            groups.values(),
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )
        for average in made:
            average.stack = (average.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
            if not group_by_overload_name:
                average.overload_name = ""
        return made

    def total_average(self) -> FunctionEventAvg:
        """Return the sums over all events."""
        total = FunctionEventAvg()
        for event in self:
            total.key = None
            total.add(event)
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as a JSON file for ``chrome://tracing``."""
        rows = [
            {
                "name": event.trace_name or event.name, "ph": "X", "ts": event.time_range.start,
                "dur": event.time_range.elapsed_us(), "tid": event.thread, "pid": "CPU functions",
                "args": {},
            }
            for event in self
        ]  # fmt: skip
        Path(path).write_text(json.dumps(rows))

    def supported_export_stacks_metrics(self) -> list[str]:
        """Return what `export_stacks` can count."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total",
                "self_privateuse1_time_total"]  # fmt: skip

    def export_stacks(self, path: str, metric: str) -> None:
        """Write one line per position in the source, with a time: the form of flame graphs."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                "metric should be one of: " + str(self.supported_export_stacks_metrics())
            )
        blanks = str.maketrans(" ;\t\n", "____")
        lines = []
        for event in self:
            value = event.self_cpu_time_total if metric == "self_cpu_time_total" else 0
            if event.stack and int(value) > 0:
                stack = ";".join([entry.translate(blanks) for entry in reversed(event.stack)])
                lines.append(f"{stack} {int(value)}\n")
        Path(path).write_text("".join(lines))


# -- the table -------------------------------------------------------------------------------------

_WIDTH = 12
"""Width of a column of numbers."""


@final
class _Columns:
    """Headers and widths of a table, and what its cells hold."""

    def __init__(self, unit: str | None) -> None:
        self.unit = unit
        self.headers: list[str] = []
        self.cells: list[str] = []
        self.total: float = 0
        self.is_memory = False
        self.shapes = self.source = self.name = 0
        self.flops: tuple[float, str] | None = None

    def add(self, header: str, width: int, align: str = ">") -> None:
        """Add a column."""
        self.headers.append(header)
        self.cells.append(f"{{: {align}{width}}}  ")
        self.widths = [*getattr(self, "widths", ()), width]

    def row(self, event: Any) -> list[str]:
        """Return the cells of an event, without further positions in the source."""
        name = event.key
        if self.name and len(name) >= self.name - 3 and len(name) > self.name:
            name = name[: self.name - 3] + "..."
        show = lambda time: _format_time_in(time, self.unit)  # noqa: E731
        row = [
            name,
            _format_time_share(event.self_cpu_time_total, self.total),
            show(event.self_cpu_time_total),
            "0" if event.is_async else _format_time_share(event.cpu_time_total, self.total),
            show(event.cpu_time_total),
            show(event.cpu_time),
        ]
        if self.is_memory:
            row += [
                _format_memory(event.cpu_memory_usage),
                _format_memory(event.self_cpu_memory_usage),
            ]
        row.append(str(event.count))
        if self.shapes:
            row.append(str(event.input_shapes)[: self.shapes])
        if self.flops is not None:
            row.append(f"{event.flops * self.flops[0]:8.3f}" if event.flops else "--")
        return row

    def print(self, events: Sequence[Any], limit: int, header: str | None, *, is_top: bool) -> str:
        """Return the table."""
        form = "".join(self.cells)
        rule = form.format(*["-" * width for width in self.widths])
        parts: list[str] = []
        if header is not None:
            line = "=" * (len(rule) - 2)
            parts += [line, header]
        if is_top:
            line = "=" * (len(rule) - 2)
            parts += [line, "This report only display top-level ops statistics"]
        parts += [rule, form.format(*self.headers), rule]
        shown = 0
        for event in events:
            if shown == limit:
                break
            if is_top and event.cpu_parent is not None:
                continue
            shown += 1
            row = self.row(event)
            if not self.source:
                parts.append(form.format(*row))
                continue
            stack = [_end_of(entry, self.source) for entry in event.stack or ()]
            parts.append(form.format(*row, stack[0] if stack else ""))
            blanks = [""] * (len(self.headers) - 1)
            parts += [form.format(*blanks, entry) for entry in [*stack[1:], ""]]
        parts += [rule, f"Self CPU time total: {_format_time_in(self.total, self.unit)}"]
        return "\n".join(parts) + "\n"


def _end_of(path: str, width: int) -> str:
    if len(path) <= width:
        return path
    end = path[len(path) - width + 3 :]
    return "..." + end


def _columns(
    events: EventList, limits: tuple[int | None, int | None, int], unit: str | None
) -> _Columns:
    """Return the columns that the events fill."""
    widest, widest_shapes, widest_source = limits
    columns = _Columns(unit)
    longest = max([len(event.key) for event in events]) + 4
    columns.name = longest if widest is None else min(longest, widest)
    columns.add("Name", columns.name)
    for header in ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"):
        columns.add(header, _WIDTH)
    columns.is_memory = events._profile_memory
    for header in ("CPU Mem", "Self CPU Mem") if columns.is_memory else ():
        columns.add(header, _WIDTH)
    columns.add("# of Calls", _WIDTH)
    if any(event.input_shapes for event in events):
        longest = max([len(str(event.input_shapes)) for event in events]) + 4
        columns.shapes = longest if widest_shapes is None else min(longest, widest_shapes)
        columns.add("Input Shapes", columns.shapes)
    stacks = [entry for event in events for entry in event.stack or ()]
    if stacks:
        columns.source = min(max(map(len, stacks)) + 4, widest_source)
        columns.add("Source Location", columns.source, "<")
    counted = [event.flops for event in events if event.flops]
    if events._with_flops and counted:
        power = max(0, min(int(math.log10(min(counted))) // 3, 4))
        columns.flops = 1000.0**-power, ("", "K", "M", "G", "T")[power]
        columns.add(f"Total {columns.flops[1]}FLOPs", _WIDTH)
    columns.total = events.self_cpu_time_total
    return columns
