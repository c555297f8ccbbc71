"""Random programs against NumPy and JAX: ``python -m tests.fuzz.programs --count 1000 --seed 1
[--against numpy|jax|both]``.

Every program is Python text, drawn while it runs on plain NumPy (generate.py). It is run through
functrace in variants (variants.py: values; gradients.py: derivatives; peers.py: JAX), and must give
what NumPy gives, or raise one of functrace's errors. A program that fails is shrunk and printed as
Python. The last line counts: programs, calls compared, equal, raised, different.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

import tests.fuzz.generate as generate_module
from tests.fuzz.generate import KINDS, Program, generate
from tests.fuzz.gradients import GRADIENTS
from tests.fuzz.higher import HIGHER
from tests.fuzz.shrink import shrunk
from tests.fuzz.variants import VALUES, Case, Failed

MOST_SHOWN = 3
"""Number of programs printed per kind of failure."""

Variant = Callable[[Case], None]

SMOOTH = ("smooth", "bodies")
NUMPY_KINDS = ("values", "writes", "layouts", "literals", "smooth", "bodies", "wild_bodies")
JAX_KINDS = ("pure", "pure_bodies")


def variants_of(kind: str) -> dict[str, Variant]:
    """The variants that a kind of program goes through."""
    if kind in JAX_KINDS:
        from tests.fuzz.peers import JAX

        return JAX
    return {**VALUES, **GRADIENTS, **HIGHER}


def failure(program: Program, name: str, variant: Variant, counts: Counter[str]) -> Failed | None:
    """Run one variant of a program."""
    case = Case(program, counts)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            variant(case)
    except Failed as failed:
        return failed
    finally:
        case.close()
    return None


def run_one(
    seed: str, kind: str, counts: Counter[str], *, most: int | None = None, shrink: bool = True
) -> list[str]:
    """Run a program through its variants (``most`` of them, drawn by the seed); returns what
    failed, as text.
    """
    program = generate(seed, kind)
    variants = variants_of(kind)
    names = list(variants)
    if most is not None and most < len(names):
        rng = np.random.default_rng([ord(c) for c in seed + kind])
        names = [names[int(k)] for k in rng.choice(len(names), most, replace=False)]
    counts["programs"] += 1
    found: list[str] = []
    seen: set[str] = set()
    for name in names:
        failed = failure(program, name, variants[name], counts)
        if failed is not None and failed.head not in seen:
            seen.add(failed.head)
            counts["different"] += 1
            counts[f"different: {failed.head}"] += 1
            if counts[f"different: {failed.head}"] > MOST_SHOWN:
                continue
            smallest = (
                shrunk(
                    program,
                    failed,
                    lambda p, name=name: failure(p, name, variants[name], Counter()),
                )
                if shrink
                else program
            )
            found.append(report(smallest, name, failed))
    return found


def report(program: Program, name: str, failed: Failed) -> str:
    """A failing program as Python, with its seed."""
    lines = [
        f"# seed {program.seed!r} kind {program.kind!r} variant {name!r}: {failed}",
        program_text(program),
    ]
    return "\n".join(lines)


def program_text(program: Program) -> str:
    """The function, and what it is called with."""
    source = program.source()
    body = source[source.index("    def f(") :].replace("    return f\n", "")
    lines = [line[4:] for line in body.splitlines()]
    for k in range(len(program.arrays)):
        lines.append(
            f"# set {k}: f({', '.join([*program.arrays[k], 'K=[' + ', '.join(program.literals[k]) + ']'])})"
            + (f"  C = [{', '.join(program.closed[k])}]" if "C[" in body else "")
        )
    return "\n".join(lines) + "\n"


def statistics(counts: Counter[str], seconds: float) -> str:
    """The last lines: what was raised and differed, by class; and one line with all the counts."""
    lines = [f"{count:8d}  {key}" for key, count in counts.most_common() if ": " in key]
    total = ", ".join(
        f"{counts[key]} {key}"
        for key in (
            "programs",
            "variants",
            "equal",
            "by differences",
            "against JAX",
            "not in JAX",
            "JAX is not NumPy",
            "raised",
            "lenient",
            "different",
        )
    )
    return "\n".join([*lines, f"{total}; {seconds:.0f} s"])


def main(arguments: Iterable[str] | None = None) -> int:
    """Run from the command line; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--against", choices=("numpy", "jax", "both"), default="numpy")
    parser.add_argument("--only", help="one kind of program")
    parser.add_argument(
        "--most", type=int, help="this many variants of each program, drawn by its seed"
    )
    parser.add_argument(
        "--show", type=int, default=30, help="how many failing programs are printed"
    )
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument(
        "--avoid", default="", help="words of AVOIDABLE: classes of programs that are left out"
    )
    options = parser.parse_args(arguments)
    generate_module.AVOIDED.update(word for word in options.avoid.split(",") if word)
    warnings.simplefilter("ignore")
    kinds = {"numpy": NUMPY_KINDS, "jax": JAX_KINDS, "both": NUMPY_KINDS + JAX_KINDS}[
        options.against
    ]
    kinds = tuple(options.only.split(",")) if options.only else kinds
    assert all(kind in KINDS for kind in kinds), kinds
    counts: Counter[str] = Counter()
    begun, shown = time.time(), 0
    for k in range(options.start, options.start + options.count):
        for text in run_one(
            f"{options.seed}:{k}",
            kinds[k % len(kinds)],
            counts,
            most=options.most,
            shrink=not options.no_shrink and shown < options.show,
        ):
            shown += 1
            if shown <= options.show:
                print(text, flush=True)
        if (k + 1) % 1000 == 0:
            print(f"... {statistics(counts, time.time() - begun).splitlines()[-1]}", flush=True)
    print(statistics(counts, time.time() - begun))
    return 1 if counts["different"] else 0


if __name__ == "__main__":
    sys.exit(main())
