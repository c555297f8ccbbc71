"""Print the lowest version of each dependency that pyproject.toml allows, as pins: ``numpy==2.2
optree==0.14 …``.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def pins(extras: list[str]) -> list[str]:
    """The lower bounds of the core's dependencies, and of extras, as exact versions."""
    project = tomllib.loads(
        (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    )["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in extras for line in project["optional-dependencies"][extra]),
    ]
    for line in wanted:
        if not re.fullmatch(r"[\w-]+>=[\d.]+", line):
            raise SystemExit(f"{line!r} in pyproject.toml has no lower bound, or more than that")
    return [line.replace(">=", "==") for line in wanted]


if __name__ == "__main__":
    print(*pins(sys.argv[1:]))
