"""The pictures of the report; each function returns a matplotlib figure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from benchmarks import sizes
from benchmarks.outcome import Outcome
from benchmarks.work import BEST, CALLS, NATIVE, PEERS, REFERENCE, UN_JITTED, XLA

COLOURS = {
    "functrace": "#d62728", NATIVE: "#7b1a1a", XLA: "#c49c94", UN_JITTED: "#ff9896", "numpy": "#7f7f7f", "jax": "#1f77b4",
    "torch": "#ff7f0e", "torch.compile": "#bcbd22", "autograd": "#2ca02c",
}  # fmt: skip
MARKS = {"jax": "o", "torch": "s", "torch.compile": "D", "autograd": "^", "numpy": "|"}

mpl.rcParams.update(
    {
        "font.size": 9,
        "axes.grid": True,
        "grid.alpha": 0.3,
        "legend.fontsize": 8,
        "axes.axisbelow": True,
    }
)


def ratios(outcomes: Sequence[Outcome]) -> Figure:
    """Plot functrace's time over that of each peer, by work: left of the line it is faster."""
    shown = [outcome for outcome in outcomes if outcome.ratio(BEST, outcome.main_call) is not None]
    figure, axes = _rows(len(shown))
    for y, outcome in enumerate(shown):
        call = outcome.main_call
        for name in (*PEERS, REFERENCE):
            ratio = outcome.ratio(name, call)
            if ratio is not None:
                axes.plot(
                    ratio,
                    y,
                    MARKS[name],
                    color=COLOURS[name],
                    markersize=11 if name == REFERENCE else 6,
                )
        for target in outcome.work.targets:
            if target.against in (BEST, *PEERS) and target.call == call and not target.plus:
                axes.plot(
                    target.ratio,
                    y,
                    "x",
                    color=COLOURS.get(target.against or "", "black"),
                    markersize=5,
                    alpha=0.7,
                )
    axes.axvline(1.0, color="black", linewidth=1)
    _name_rows(axes, [outcome.work.id for outcome in shown])
    axes.set_xscale("log")
    axes.set_xlabel("time of functrace / time of the other: less is better")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    for name in (*PEERS, REFERENCE):
        if any(name in outcome.seconds for outcome in shown):
            axes.plot(
                [],
                [],
                MARKS[name],
                color=COLOURS[name],
                label="NumPy by hand" if name == REFERENCE else name,
            )
    axes.plot([], [], "x", color="black", label="target", markersize=5)
    _legend_above(axes)
    return figure


def calls(outcomes: Sequence[Outcome]) -> Figure:
    """Plot first, second, tenth and later calls of functrace and the best peer, by work."""
    shown = [outcome for outcome in outcomes if outcome.median("functrace", "second") is not None]
    figure, axes = _rows(len(shown), 1.3)
    colours = dict(zip(CALLS, ("#67000d", "#cb181d", "#fb6a4a", "#fcbba1"), strict=True))
    for y, outcome in enumerate(shown):
        for k, call in enumerate(CALLS):
            own, peer = (
                outcome.median("functrace", call),
                outcome.median(outcome.best_peer(call), call),
            )
            if own is not None:
                axes.barh(y + 0.2 * (k - 1.5), own, 0.18, left=1e-7, color=colours[call])
            if peer is not None:
                axes.plot(
                    peer, y + 0.2 * (k - 1.5), "|", color="black", markersize=6, markeredgewidth=1.5
                )
    _name_rows(axes, [outcome.work.id for outcome in shown])
    axes.set_xscale("log")
    axes.set_xlim(left=1e-6)
    axes.set_xlabel(
        "seconds of functrace's call; a stroke is the best peer's call of the same number"
    )
    for call in CALLS:
        axes.barh([0], [0], color=colours[call], label=call)
    _legend_above(axes)
    return figure


def memory(outcomes: Sequence[Outcome]) -> Figure:
    """Plot the bytes that a process grows by, by work."""
    shown = [outcome for outcome in outcomes if max(outcome.peaks.values(), default=0) >= 1 << 20]
    figure, axes = _rows(len(shown))
    for y, outcome in enumerate(shown):
        for name, count in outcome.peaks.items():
            if name in COLOURS:
                filled = name == "functrace"
                axes.plot(
                    max(count, 1 << 16) / 2**20, y, MARKS.get(name, "o"), color=COLOURS[name],
                    markersize=11 if name in ("functrace", REFERENCE) else 6,
                    markerfacecolor="none" if filled else None,
                    markeredgewidth=2 if filled else 1,
                )  # fmt: skip
    _name_rows(axes, [outcome.work.id for outcome in shown])
    axes.set_xscale("log")
    axes.set_xlabel(
        "MiB that the process grows by at its peak (works where that is a MiB or more for anybody)"
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    for name in COLOURS:
        if any(name in outcome.peaks for outcome in shown):
            own = name == "functrace"
            face = "none" if own else COLOURS[name]
            axes.plot(
                [], [], MARKS.get(name, "o"), color=COLOURS[name], markerfacecolor=face, label=name
            )
    _legend_above(axes)
    return figure


def by_size(found: dict[str, Any]) -> Figure:
    """Time and memory by size, on one core and on two."""
    figure = Figure(figsize=(10, 4.2 * len(found)), layout="constrained")
    grid = figure.subplots(len(found), 2, squeeze=False)
    for row, (work, by_threads) in zip(grid, found.items(), strict=True):
        for axes, key, scale, label in (
            (row[0], "seconds", 1.0, "seconds"),
            (row[1], "peak_bytes", 2.0**-20, "MiB at the peak"),
        ):
            for threads, by_system in by_threads.items():
                for system, by_count in by_system.items():
                    xs = [int(size) for size in by_count]
                    ys = [
                        max(point[key] * scale, 1e-2 if key != "seconds" else 0)
                        for point in by_count.values()
                    ]
                    style = {"1": "--", "2": "-"}.get(threads, ":")
                    label_here = f"{system}, {threads} thread{'s' if threads != '1' else ''}"
                    axes.plot(xs, ys, style, color=COLOURS[system], marker=".", label=label_here)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_ylabel(label)
            axes.set_xlabel(sizes.ABOUT[work], fontsize=8)
        row[0].legend()
    return figure


def lengths(found: dict[str, Any]) -> Figure:
    """The cost per operation, per leaf and per order."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    grid = figure.subplots(1, 3)
    titles = (
        ("operations", "µs per operation"),
        ("leaves", "µs per leaf of a nest"),
        ("orders", "µs of a nested gradient"),
    )
    styles = {
        "record": ":",
        "first gradient": "-",
        "later gradient": "--",
        "jit": "-.",
        "gradient": "-",
        "jitted gradient": "-.",
        "first jitted gradient": ":",
    }
    for axes, (what, title) in zip(grid, titles, strict=True):
        for system, stages in found["systems"].items():
            for stage, by_count in stages[what].items():
                xs, ys = (
                    [int(n) for n in by_count],
                    [seconds * 1e6 for seconds in by_count.values()],
                )
                axes.plot(
                    xs,
                    ys,
                    styles[stage],
                    color=COLOURS[system],
                    marker=".",
                    label=f"{system}, {stage}",
                )
        axes.set_yscale("log")
        if what != "orders":
            axes.set_xscale("log")
        axes.set_title(title, fontsize=9)
        axes.set_xlabel({"operations": "operations", "leaves": "leaves", "orders": "order"}[what])
        axes.legend(fontsize=7)
    return figure


def roof(found: dict[str, Any]) -> Figure:
    """Speed by intensity: every jitted work below the roof of this machine."""
    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots()
    top = found["roof"]
    flops, bandwidth = top["float32_flops_per_second"], top["memory_bytes_per_second"]
    xs = [1e-3, flops / bandwidth, 1e3]
    axes.plot(
        xs,
        [min(flops, bandwidth * x) / 1e9 for x in xs],
        "-",
        color="black",
        label="memory, and matmul in float32",
    )
    cached = top["cache_bytes_per_second"]
    xs = [1e-3, top["float64_flops_per_second"] / cached, 1e3]
    ys = [min(top["float64_flops_per_second"], cached * x) / 1e9 for x in xs]
    axes.plot(xs, ys, "--", color="gray", label="a core's cache, and matmul in float64")
    for work, point in found["works"].items():
        x, y = point["flops"] / max(point["bytes"], 1), point["flops"] / point["seconds"] / 1e9
        each = point["seconds"] / max(point["operations"], 1)
        colour = "#d62728" if each > 10e-6 else "#9467bd"
        axes.plot(max(x, 1e-3), y, "o" if point["dtype"] == "float32" else "s", color=colour)
        axes.annotate(
            work, (max(x, 1e-3), y), xytext=(5, 2), textcoords="offset points", fontsize=7
        )
    axes.plot(
        [], [], "o", color="#d62728", label="works whose operations take more than 10 µs each"
    )
    axes.plot(
        [],
        [],
        "o",
        color="#9467bd",
        label="works of little operations: what a call costs bounds them",
    )
    axes.plot([], [], "o", color="gray", label="float32")
    axes.plot([], [], "s", color="gray", label="float64")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(1e-2, 1e2)
    axes.set_ylim(1e-3, 3 * flops / 1e9)
    axes.set_xlabel("flops per byte of operands and results")
    axes.set_ylabel("Gflop/s")
    axes.legend(loc="lower right")
    return figure


def _rows(count: int, each: float = 1.0) -> tuple[Figure, Any]:
    figure = Figure(figsize=(10, 1.4 + 0.26 * each * max(count, 1)), layout="constrained")
    return figure, figure.subplots()


def _name_rows(axes: Any, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def _legend_above(axes: Any) -> None:
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=7, frameon=False)
