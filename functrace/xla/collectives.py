"""Collectives of a compiled program: which values the devices exchange, along which axes, how many
bytes; for `functrace.debug.collectives`.

The kinds, shapes, groups and loop lengths are those of the module that XLA has compiled. Bytes that
a device sends are those of the ring algorithms (Patarasuk and Yuan 2009, Bandwidth optimal all-reduce
algorithms for clusters of workstations); a library may choose others.

Layer: 7.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final, final

import numpy as np

from functrace.errors import ArgumentError
from functrace.ir.cost import shown

KINDS: Final = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)


@final
@dataclass(frozen=True, slots=True)
class Collective:
    """One exchange of values between devices.

    Args:
        kind: "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute" …
        axes: the axes of the mesh along which the devices exchange; empty if the module has them
            in a form that is not known here.
        devices: number of devices in a group.
        runs: runs per call of the program, more than one in loops.
        bytes: bytes of the result on a device, per run.
        sent: bytes that a device sends, in all runs, by a ring.
    """

    kind: str
    axes: tuple[str, ...]
    devices: int
    runs: int
    bytes: int
    sent: float


@final
@dataclass(frozen=True, slots=True)
class Collectives:
    """Communication of a program over a mesh, per call.

    Args:
        name: of the function.
        mesh: sizes of the axes, by name.
        rows: the collectives, in the order of the module.
        flops: floating-point operations of all devices together; an elementary function counts as one.
        has_unknown_loops: True if a collective is in a loop whose length is unknown, where it counts
            once.

    Example:
        >>> import jax, numpy as np, functrace as ft
        >>> mesh = ft.distributed.mesh(1)
        >>> ft.debug.collectives(lambda x: np.sum(x * x), mesh)(np.ones(8)).rows
        ()
    """

    name: str
    mesh: Mapping[str, int]
    rows: tuple[Collective, ...]
    flops: int
    has_unknown_loops: bool = False

    @property
    def sent(self) -> float:
        """Bytes that a device sends."""
        return sum(row.sent for row in self.rows)

    @property
    def flops_per_device(self) -> float:
        """Floating-point operations of a device, if they are divided evenly."""
        return self.flops / math.prod(self.mesh.values())

    @property
    def balance(self) -> float:
        """Flops of a device per byte that it sends; infinite if it sends none.

        A device that computes more flops than this in the time in which its network sends a byte
        waits for the network.
        """
        return self.flops_per_device / self.sent if self.sent else math.inf

    def seconds(self, flops: float, network: float) -> tuple[float, float]:
        """Estimate the time of a call, from rates of the machines.

        Args:
            flops: flops per second of a device.
            network: bytes per second that a device sends.

        Returns:
            seconds of computation, and of communication. The call is communication-bound if the
            second is greater. Latency is left out: a few microseconds per collective and device.
        """
        return self.flops_per_device / flops, self.sent / network

    def text(self) -> str:
        """Return a table of the collectives, and when the program is communication-bound."""
        axes = ", ".join(f"{name}={size}" for name, size in self.mesh.items())
        lines = [f"{self.name} over {axes}: {len(self.rows)} collectives"]
        cells = [("kind", "axes", "devices", "runs", "bytes", "sent per device")]
        for row in self.rows:
            along = ",".join(row.axes) or "unknown"
            numbers = str(row.devices), str(row.runs), shown(row.bytes) + "B"
            cells.append((row.kind, along, *numbers, shown(round(row.sent)) + "B"))
        widths = [max(len(line[k]) for line in cells) for k in range(len(cells[0]))]
        for line in cells if self.rows else ():
            padded = [x.ljust(w) for x, w in zip(line, widths, strict=True)]
            lines.append(("  " + "  ".join(padded)).rstrip())
        work = f"per device: {shown(round(self.flops_per_device))}flop"
        lines.append(f"{work}, {shown(round(self.sent))}B sent")
        if self.has_unknown_loops:
            lines.append("collectives in loops of unknown length count once")
        if self.sent:
            lines.append(
                f"communication-bound where a device computes more than {self.balance:.3g} flops in "
                "the time in which it sends a byte"
            )
        if self.sent and self.flops:
            needed = shown(round(1e11 / self.balance))
            lines.append(f"  (at 100 Gflop/s: with less than {needed}B/s)")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def collectives_of(name: str, text: str, mesh: Mapping[str, int], flops: int) -> Collectives:
    """Find the collectives of a compiled module.

    Args:
        name: of the function.
        text: the module, as XLA prints it.
        mesh: sizes of the axes, by name.
        flops: floating-point operations of the program.

    Raises:
        ArgumentError: if the module is for another number of devices than the mesh.
    """
    devices = re.search(r"num_partitions=(\d+)", text)
    count, wanted = int(devices[1]) if devices else 1, math.prod(mesh.values())
    if count != wanted:
        raise ArgumentError(
            f"collectives: {name} runs on {count} devices, but the mesh has {wanted}",
            fix="in_shardings= or out_shardings= on this mesh, or arguments that are on its devices",
        )
    computations = dict(_computations(text))
    runs, unknown = _runs(computations)
    rows: list[Collective] = []
    for computation, lines in computations.items():
        for line in lines:
            found = _COLLECTIVE.search(line)
            if found is None or not runs.get(computation):
                continue
            kind, start = found["kind"], bool(found["start"])
            size = _result_bytes(found["type"], kind, start)
            groups = _groups(line, wanted)
            axes = _axes(groups, mesh)
            count = wanted if groups is None else max(map(len, groups), default=1)
            if kind == "collective-permute":
                count = 2  # (each device sends to one)
            times = runs[computation]
            rows.append(
                Collective(kind, axes, count, times, size, times * size * _factor(kind, count))
            )
    inside = any(_COLLECTIVE.search(line) for x in unknown for line in computations.get(x, ()))
    return Collectives(name, dict(mesh), tuple(rows), flops, inside)


_COLLECTIVE = re.compile(
    rf"= (?P<type>.*?) (?P<kind>{'|'.join(sorted(KINDS, key=len, reverse=True))})(?P<start>-start)?\("
)
_HEAD = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\{\s*$")
_CALLED = re.compile(
    r"(?P<word>body|condition|to_apply|calls|true_computation|false_computation|async_wrapped)"
    r"=%?(?P<name>[\w.\-]+)|(?:branch_computations|called_computations|calls)=\{(?P<names>[^}]*)\}"
)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def _computations(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the lines of each computation; the entry is named ``""``."""
    name, lines = None, []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            name, lines = "" if head["entry"] else head["name"], []
        elif line.startswith("}") and name is not None:
            yield name, lines
            name = None
        elif name is not None:
            lines.append(line)


def _runs(computations: Mapping[str, Sequence[str]]) -> tuple[dict[str, int], set[str]]:
    """Return how often each computation runs per call, and those in loops of unknown length."""
    runs: defaultdict[str, int] = defaultdict(int)
    unknown: set[str] = set()

    def enter(name: str, times: int, is_known: bool) -> None:
        runs[name] += times
        if not is_known:
            unknown.add(name)
        for line in computations.get(name, ()):
            trips = _TRIPS.search(line)
            for called in _CALLED.finditer(line):
                names = [called["name"]] if called["name"] else called["names"].split(",")
                is_loop = called["word"] in ("body", "condition")
                steps = int(trips[1]) if is_loop and trips else 1
                for inner in names:
                    enter(
                        inner.strip().lstrip("%"),
                        times * steps,
                        is_known and bool(trips or not is_loop),
                    )

    enter("", 1, True)
    return dict(runs), unknown


_SHAPE = re.compile(r"([a-z]+[0-9a-z]*)\[([\d,<=]*)\]")
_BITS = {"pred": 8, "c64": 64, "c128": 128, "token": 0}


def _result_bytes(types: str, kind: str, is_start: bool) -> int:
    """Return the bytes of the result of a collective on a device."""
    sizes: list[int] = []
    for name, shape in _SHAPE.findall(types):
        digits = re.search(r"\d+", name)
        bits = _BITS.get(name, int(digits[0]) if digits else 8)
        count = math.prod([int(n.strip("<=")) for n in shape.split(",") if n])
        sizes.append((bits * count + 7) // 8)
    if is_start and kind == "collective-permute":
        sizes = sizes[1:2]  # (of operand, result, and two numbers)
    elif is_start and kind != "all-reduce":
        sizes = sizes[len(sizes) // 2 :]  # (of operands and results)
    return sum(sizes)


def _factor(kind: str, count: int) -> float:
    """Return the bytes that a device sends per byte of the result, with ``count`` in a group."""
    if kind == "all-reduce":
        return 2 * (count - 1) / count
    if kind == "reduce-scatter":
        return count - 1
    if kind in ("all-gather", "all-to-all", "ragged-all-to-all"):
        return (count - 1) / count
    return 1.0


_LISTED = re.compile(r"replica_groups=\{(\{[\d,{}]*\})\}")
_IOTA = re.compile(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(
    r"replica_groups=mesh\[(?P<sizes>[^\]]*)\]"
    r"(?:, device_ids=\(\[(?P<iota>[\d,]+)\](?:T\((?P<order>[\d,]+)\))?\))? \{(?P<axes>[^}]*)\}"
)
_AXIS = re.compile(r"'([^']+)'(?::\((\d+)\)(\d+))?")
_PAIRS = re.compile(r"source_target_pairs=\{([\d,{}]*)\}")


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def _in_order(sizes: str, order: str | None) -> np.ndarray[Any, Any]:
    """Return the devices as XLA writes an order: reshaped, and transposed."""
    shape = _numbers(sizes)
    devices = np.arange(math.prod(shape)).reshape(shape)
    return devices.transpose(_numbers(order)) if order else devices


def _groups(line: str, count: int) -> list[list[int]] | None:
    """Return the groups of devices that exchange values; ``None`` if their form is unknown.

    Args:
        line: of the collective.
        count: number of devices.
    """
    listed, iota, named = _LISTED.search(line), _IOTA.search(line), _MESH.search(line)
    if listed:
        return [_numbers(x) for x in re.findall(r"\{([\d,]*)\}", listed[1])]
    if iota:
        return _in_order(iota[2], iota[3]).reshape(_numbers(iota[1])).tolist()
    if named:
        sizes = {name: int(n) for name, n in re.findall(r"'([^']+)'=(\d+)", named["sizes"])}
        iota_sizes = named["iota"] or ",".join(map(str, sizes.values()))
        devices = _in_order(iota_sizes, named["order"]).ravel()
        return [devices[x].tolist() for x in _rows_of(sizes, named["axes"])]
    pairs = _PAIRS.search(line)
    if pairs:
        return _chains(np.array(_numbers(pairs[1])).reshape(-1, 2).tolist())
    return [list(range(count))] if "replica_groups={}" in line else None


def _rows_of(sizes: Mapping[str, int], axes: str) -> list[list[int]]:
    """Return the groups along axes as XLA writes them; ``'x':(2)4`` is a part of an axis."""
    parts: dict[str, int] = {}
    chosen: list[str] = []
    found = {name: (int(m or 1), int(n or 0)) for name, m, n in _AXIS.findall(axes)}
    for name, size in sizes.items():
        if name not in found:
            parts[name] = size
            continue
        before, length = found[name]
        length = length or size
        parts |= {f"{name} before": before, name: length}
        parts[f"{name} after"] = size // (before * length)
        chosen.append(name)
    return _rows_along(parts, chosen)


def _chains(pairs: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the sets of devices that are connected by pairs."""
    groups: dict[int, set[int]] = {}
    for a, b in pairs:
        joined = groups.get(a, {a}) | groups.get(b, {b})
        for k in joined:
            groups[k] = joined
    return [sorted(x) for x in {id(x): x for x in groups.values()}.values()]


def _rows_along(sizes: Mapping[str, int], axes: Sequence[str]) -> list[list[int]]:
    """Return the groups of devices that differ in the position along some axes only."""
    names = list(sizes)
    order = np.arange(math.prod(sizes.values())).reshape(list(sizes.values()))
    last = [names.index(x) for x in axes]
    count = math.prod([sizes[x] for x in axes])
    return np.moveaxis(order, last, range(-len(last), 0)).reshape(-1, count).tolist()


def _axes(groups: Sequence[Sequence[int]] | None, mesh: Mapping[str, int]) -> tuple[str, ...]:
    """Return the axes of a mesh along which groups are; empty if they are unknown."""
    wide = [name for name, size in mesh.items() if size > 1]
    if groups is None:
        return ()
    for count in range(1, len(wide) + 1):
        for axes in combinations(wide, count):
            rows = [set(x) for x in _rows_along(mesh, axes)]
            if all(any(row.issuperset(x) for row in rows) for x in groups):
                return axes
    return ()
