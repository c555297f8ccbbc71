"""The command line: ``python -m benchmarks [ids] [--json FILE]``."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

import functrace
from benchmarks import (
    cold_600,
    eager_loop,
    eager_rosen,
    eager_scalar,
    import_time,
    jit_600,
    jit_elementwise,
    jit_hessian,
    jit_mlp,
    jit_rnn,
    jit_rosen,
    jit_rowwise,
    jit_stencil,
    memory_chain,
    memory_steady,
    shim,
    vmap_pergrad,
)
from benchmarks.work import BEST, DISTURBING, Outcome, Target, Work, measure

WORKS: dict[str, Work] = {
    work.id: work
    for module in (
        eager_rosen, eager_scalar, eager_loop, cold_600, jit_rosen, jit_600, jit_mlp, jit_rnn, jit_hessian, vmap_pergrad,
        jit_elementwise, jit_rowwise, jit_stencil, shim, import_time,
    )
    for work in module.WORKS
}  # fmt: skip
STEADY = "memory-steady"
CHAIN = "memory-chain"
SYSTEMS = ("functrace", "numpy", "jax", "torch", "autograd")


def machine() -> dict[str, Any]:
    """Describe the machine and the versions of everything measured."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        models = [line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
        model = models[0] if models else model
    versions = {"python": platform.python_version()}
    for name in SYSTEMS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = functrace.__version__ if name == "functrace" else "not installed"
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    disturbing = {name: os.environ[name] for name in DISTURBING if name in os.environ}
    return {
        "cpu": model, "cores": os.cpu_count(), "load": load, "system": platform.platform(), "versions": versions,
        "disturbing": disturbing,
    }  # fmt: skip


def show_seconds(seconds: float | None) -> str:
    """Format a time with three digits: ``15.2 µs``."""
    if seconds is None:
        return "–"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}" if seconds / size < 1000 else f"{seconds / size:.0f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def show_verdict(outcome: Outcome, target: Target, reached: float | None, met: bool | None) -> str:
    """Format one target: ``0.22 x torch <= 0.4: met``."""
    if target.against is None:
        return f"{show_seconds(reached)} <= {show_seconds(target.ratio)}: {'met' if met else 'NOT MET'}"
    against = f"{BEST} ({outcome.best_peer})" if target.against == BEST else target.against
    if reached is None:
        return f"<= {target.ratio:g} x {against}: not measured"
    return f"{reached:.2f} x {against} <= {target.ratio:g}: {'met' if met else 'NOT MET'}"


def table(outcomes: list[Outcome]) -> str:
    """Lay the outcomes out as a table, one work per line."""
    rows = [["work", *SYSTEMS, "/ best peer", "target"]]
    for outcome in outcomes:
        ratio = outcome.ratio(BEST)
        best = "–" if ratio is None else f"{ratio:.2f} ({outcome.best_peer})"
        verdicts = [show_verdict(outcome, *verdict) for verdict in outcome.verdicts()]
        times = [show_seconds(outcome.median(system)) for system in SYSTEMS]
        rows.append([outcome.work.id, *times, best, verdicts[0] if verdicts else ""])
        rows.extend([""] * (len(SYSTEMS) + 2) + [verdict] for verdict in verdicts[1:])
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]

    def line(row: list[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:-1], widths[1:-1], strict=True)), row[-1]]
        return "  ".join(cells).rstrip()

    return "\n".join([line(rows[0]), "-" * len(line(rows[0])), *map(line, rows[1:])])


def as_json(outcome: Outcome) -> dict[str, Any]:
    """Return what was measured of one work as plain data."""
    return {
        "id": outcome.work.id,
        "about": outcome.work.about,
        "seconds": outcome.seconds,
        "medians": {name: outcome.median(name) for name in outcome.seconds},
        "skipped": outcome.skipped,
        "best_peer": outcome.best_peer,
        "ratio_to_best_peer": outcome.ratio(BEST),
        "targets": [
            {"against": target.against, "most": target.ratio, "reached": reached, "met": met}
            for target, reached, met in outcome.verdicts()
        ],
    }


def show_steady(result: dict[str, float]) -> str:
    """Format the outcome of memory-steady."""
    return (
        f"{STEADY}: {result['calls']:,} calls; RSS {result['bytes_before'] / 2**20:.1f} -> "
        f"{result['bytes_after'] / 2**20:.1f} MB (grown by {result['grown'] / 2**20:.2f}); "
        f"{show_seconds(result['seconds_first_tenth'])} -> {show_seconds(result['seconds_last_tenth'])} per call; "
        f"{result['cached_programs']} cached programs: {'met' if result['met'] else 'NOT MET'}"
    )


def main() -> int:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="functrace side by side with its peers")
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"of {', '.join([*WORKS, STEADY, CHAIN])}; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample as JSON")
    options = parser.parse_args()
    unknown = [i for i in options.ids if i not in WORKS and i not in (STEADY, CHAIN)]
    if unknown:
        parser.error(f"no such work: {', '.join(unknown)}; there are {', '.join([*WORKS, STEADY, CHAIN])}")

    about = machine()
    print(f"{about['cpu']}, {about['cores']} cores, load {about['load']}, {about['system']}")
    print(", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    if about["disturbing"]:
        found = ", ".join(f"{name}={value}" for name, value in about["disturbing"].items())
        print(f"in the environment, and not in that of child processes: {found}")
    print()
    outcomes = []
    for work in WORKS.values():
        if not options.ids or work.id in options.ids:
            print(f"{work.id}: {work.about} …", file=sys.stderr, flush=True)
            outcomes.append(measure(work))
    if outcomes:
        print(table(outcomes))
        skipped = {name: why for outcome in outcomes for name, why in outcome.skipped.items()}
        for name, why in skipped.items():
            print(f"skipped: {name} ({why})")
    steady = None
    if not options.ids or STEADY in options.ids:
        print(f"{STEADY}: {memory_steady.CALLS:,} gradients in a loop …", file=sys.stderr, flush=True)
        steady = memory_steady.in_fresh_process()
        print(show_steady(steady))
    chain = None
    if not options.ids or CHAIN in options.ids:
        print(f"{CHAIN}: one process per system …", file=sys.stderr, flush=True)
        chain = memory_chain.in_fresh_processes(slow=CHAIN in options.ids)
        print(memory_chain.show(chain))
    if options.json is not None:
        found = {"machine": about, "works": [as_json(outcome) for outcome in outcomes], STEADY: steady, CHAIN: chain}
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
