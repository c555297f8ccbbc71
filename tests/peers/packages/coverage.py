"""Coverage of unmodified third-party packages on functrace: generates ``docs/packages.md``.

    python -m tests.peers.packages.coverage           # writes the page
    python -m tests.peers.packages.coverage --check   # fails if the page is out of date

Derivatives are compared with differences; fits of packages that import HIPS autograd, with those on
it.
"""

from __future__ import annotations

import functools
import re
import sys
import tomllib
from pathlib import Path

from tests.numpy.coverage import main
from tests.peers.packages import geometry, statistics, systems, tensors
from tests.peers.packages.rows import COLUMNS, Found, Package, found

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "packages.md"

PACKAGES = {
    package.name: package
    for part in (geometry, statistics, systems, tensors)
    for package in vars(part).values()
    if isinstance(package, Package)
}

HEAD = """# Packages that run unmodified

Written by `python -m tests.peers.packages.coverage`. It calls functions of packages from the package index, in the versions
that are named here, and compares gradients (both modes) and second derivatives with differences, `jit` and `vmap` of the
gradient with plain calls of it.

* plainly: traced values go in, and that is all. `lift`, `lift(modules=[...])`: under [functrace.numpy.lift](numpy.md).
  A backend, autograd's names: see [functrace as a backend](backends.md).
* ✓: right. –: there is nothing to differentiate, or nothing that works; fits on autograd's names are those on HIPS autograd.
* reads values: Python code of the package looks at a value (`if x > 0`, a check that all are finite, steps until it has
  converged), which is concrete while a gradient is computed, but not under `jit`; in a batch it has to be the same for all
  elements. The error names the line.
* raises: the error says what to do; its first line stands on the right.
"""
TABLE = """
| function | works | second order | `jit` | `vmap` | |
|---|---|---|---|---|---|
"""


def pins() -> dict[str, str]:
    """Return the versions of the extra ``bench`` that are pinned, by package."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "optional-dependencies"
    ]
    pinned = [re.fullmatch(r"([\w-]+)==([\w.]+)", wanted) for wanted in extras["bench"]]
    return {one[1]: one[2] for one in pinned if one}


@functools.cache
def rows(name: str) -> tuple[Found, ...]:
    """Try all functions of a package."""
    return tuple([found(PACKAGES[name], row) for row in PACKAGES[name].rows()])


def section(name: str) -> str:
    """Return what the page says of a package."""
    return f"\n## {name} {pins()[name]}\n" + TABLE + "".join([_line(one) for one in rows(name)])


def _line(one: Found) -> str:
    works = one.way if one.marks["gradient"] == "✓" else one.marks["gradient"]
    return f"| `{one.function}` | {works} | {' | '.join(one.marks[column] for column in COLUMNS[1:])} | {one.note} |\n"


def names() -> list[str]:
    """Return the packages in the page's order."""
    return sorted(PACKAGES, key=str.lower)


def page() -> str:
    """Return the page."""
    return HEAD + "".join(map(section, names()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], PAGE, page, "tests.peers.packages.coverage"))
