"""The report: a page in Markdown with pictures, from the measurements of one run.

``python -m benchmarks --report DIRECTORY`` measures and writes ``report.md``, pictures beside it,
and all samples as ``results.json``; ``python -m benchmarks.report DIRECTORY`` draws the page again
from the latter. Needs matplotlib.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import (
    jit_compile,
    memory_chain,
    memory_steady,
    pictures,
    roofline,
    scaling,
    sizes,
)
from benchmarks.machine import header
from benchmarks.outcome import Outcome, means_table, table
from benchmarks.works import WORKS

HOW = """\
Every figure on this page was measured on the machine and with the versions that the head names; times belong to them, and
ratios within a work are what counts. Systems compute the same numbers, which is checked before they are timed, in
alternating order; medians are shown. *First*, *second* and *tenth* calls are of a function that is new, with caches of
compiled code empty (imports are not counted); *later* ones are warm. *Memory* is by how much the process of a system grows
at its peak, above what it holds when the work is prepared. `numpy` is a gradient written by hand, and no peer."""


def outcomes_of(found: dict[str, Any]) -> list[Outcome]:
    """Return the outcomes in a JSON file; works that no longer exist are skipped."""
    return [
        Outcome(WORKS[work["id"]], work["seconds"], work["skipped"], work["peak_bytes"])
        for work in found["works"]
        if work["id"] in WORKS
    ]


def write(found: dict[str, Any], directory: Path) -> Path:
    """Write the page and its pictures; returns where the page is.

    Args:
        found: the measurements; ``"note"``, if there is one, describes their circumstances.
        directory: where the files go.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    outcomes = outcomes_of(found)
    parts = ["# Benchmark report", f"```text\n{header(found['machine'])}\n```", HOW]
    if "note" in found:
        parts.append(found["note"])
    if outcomes:
        parts += [
            "## By work",
            "Geometric means of functrace's time over a peer's, and of how many works:",
        ]
        parts.append(f"```text\n{means_table(outcomes)}\n```")
        parts.append(
            _picture(
                directory,
                "ratios",
                "functrace's time over that of each peer",
                pictures.ratios(outcomes),
            )
        )
        parts.append(
            _picture(
                directory, "calls", "first, second, tenth and later calls", pictures.calls(outcomes)
            )
        )
        parts.append(_picture(directory, "memory", "peak memory", pictures.memory(outcomes)))
        parts.append(f"```text\n{table(outcomes)}\n```")
        missing = {name: why for outcome in outcomes for name, why in outcome.skipped.items()}
        parts += [f"Left out: {name} ({why})." for name, why in missing.items()]
    if "jit-compile" in found:
        parts += [
            "## First calls",
            (jit_compile.__doc__ or "").partition("\n\n")[2].partition("``python")[0].strip(),
            f"```text\n{jit_compile.show(found['jit-compile'])}\n```",
        ]
    if "roofline" in found:
        parts += [
            "## How near the roof",
            (roofline.__doc__ or "").partition("\n\n")[2].partition("``python")[0].strip(),
        ]
        parts.append(
            _picture(directory, "roofline", "speed by intensity", pictures.roof(found["roofline"]))
        )
        parts.append(f"```text\n{roofline.show(found['roofline'])}\n```")
    if "sizes" in found:
        parts += ["## By size", "Four decades of size, on one core and on two."]
        parts.append(
            _picture(
                directory, "sizes", "time and memory by size", pictures.by_size(found["sizes"])
            )
        )
        parts.append(f"```text\n{sizes.show(found['sizes'])}\n```")
    if "scaling" in found:
        parts += [
            "## By length",
            "Cost of an operation, of a pytree leaf, and of an order of nesting, by length.",
        ]
        parts.append(
            _picture(directory, "scaling", "cost by length", pictures.lengths(found["scaling"]))
        )
        parts.append(f"```text\n{scaling.show(found['scaling'])}\n```")
    for name, module in (("memory-chain", memory_chain), ("memory-steady", memory_steady)):
        if name in found:
            parts += [f"## {name}", f"```text\n{module.show(found[name])}\n```"]
    page = directory / "report.md"
    page.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return page


def _picture(directory: Path, name: str, about: str, figure: Any) -> str:
    figure.savefig(directory / f"{name}.png", dpi=110, facecolor="white")
    return f"![{about}]({name}.png)"


def main(arguments: Sequence[str]) -> None:
    """Draw a page again."""
    directory = Path(arguments[0])
    print(write(json.loads((directory / "results.json").read_text(encoding="utf-8")), directory))


if __name__ == "__main__":
    main(sys.argv[1:])
