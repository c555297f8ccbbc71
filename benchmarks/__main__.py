"""The command line: ``python -m benchmarks [ids] [--json FILE] [--report DIRECTORY]
[--no-memory]``.

Results of each work go to stderr at once; the whole table goes to stdout at the end.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks import jit_compile, memory_chain, memory_steady, scaling
from benchmarks.child import outcome_of
from benchmarks.machine import header, machine
from benchmarks.outcome import means_table, table
from benchmarks.works import WORKS

OTHERS = {
    "jit-compile": jit_compile,
    "scaling": scaling,
    "memory-steady": memory_steady,
    "memory-chain": memory_chain,
}
"""Benchmarks with their own measurement: modules with ``ABOUT``, ``measured`` and ``show``."""


def main() -> int:
    """Run the benchmarks named on the command line."""
    ids = [*WORKS, *OTHERS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="functrace side by side with its peers"
    )
    parser.add_argument("ids", nargs="*", metavar="ID", help=f"of {', '.join(ids)}; all by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every sample as JSON")
    parser.add_argument(
        "--no-memory", action="store_true", help="leave out the peak memory of each work and system"
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="DIRECTORY",
        help="also write a page with pictures; takes longer",
    )
    options = parser.parse_args()
    if unknown := [i for i in options.ids if i not in ids]:
        parser.error(f"no such work: {', '.join(unknown)}; there are {', '.join(ids)}")

    about = machine()
    print(header(about) + "\n", flush=True)
    outcomes = []
    for work in WORKS.values():
        if not options.ids or work.id in options.ids:
            print(f"{work.id}: {work.about} …", file=sys.stderr, flush=True)
            outcomes.append(outcome_of(work, memory=not options.no_memory))
            print(table(outcomes[-1:]) + "\n", file=sys.stderr, flush=True)
    if outcomes:
        print(
            table(outcomes)
            + "\n\ngeometric means, of later calls where there are any\n\n"
            + means_table(outcomes)
        )
        for name, why in {
            name: why for outcome in outcomes for name, why in outcome.skipped.items()
        }.items():
            print(f"skipped: {name} ({why})")
    others = {}
    for name, module in OTHERS.items():
        if not options.ids or name in options.ids:
            print(f"{name}: {module.ABOUT} …", file=sys.stderr, flush=True)
            others[name] = module.measured(thorough=name in options.ids)
            print("\n" + module.show(others[name]), flush=True)
    found = {"machine": about, "works": [outcome.as_json() for outcome in outcomes], **others}
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    if options.report is not None:
        from benchmarks import report, roofline, sizes

        print("sizes: four decades, one core and two …", file=sys.stderr, flush=True)
        found["sizes"] = sizes.measured()
        print("\n" + sizes.show(found["sizes"]), flush=True)
        print("roofline: what is measured, and what could be …", file=sys.stderr, flush=True)
        found["roofline"] = roofline.measured(
            [work.work.id for work in outcomes if "functrace" in work.seconds]
        )
        print("\n" + roofline.show(found["roofline"]))
        print(f"\n{report.write(found, options.report)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
