"""Print what scripts log on the real PyTorch and on `functrace.torch`, side by side.

    python -m tests.peers.torch.beside hooks_order checkpoint_order

Two columns, PyTorch on the left; a line that differs is marked with ``≠``. The last line counts
both kinds.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path

from tests.peers.torch.harness import differences, real_torch, run, scripts

WIDTH = 72
"""Characters of a column."""


def rows(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pair the lines of two logs: equal ones beside each other, the others in between."""
    same = [_shape(line) for line in left], [_shape(line) for line in right]
    for kind, a, b, c, d in SequenceMatcher(None, *same, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from zip(left[a:b], right[c:d], strict=True)
        else:
            yield from zip_longest(left[a:b], right[c:d], fillvalue="")


def table(script: Path) -> tuple[str, int, int]:
    """Run one script on both; returns the two columns, the number of lines, and how many of them
    differ.
    """
    left, right = run(script, real_torch()), run(script, importlib.import_module("functrace.torch"))
    lines = [f"{f'{script.stem}: PyTorch':<{WIDTH}}   functrace.torch", "-" * (2 * WIDTH + 3)]
    count = different = 0
    for a, b in rows(left, right):
        differs = bool(differences([a], [b]))
        lines.append(f"{_cut(a):<{WIDTH}} {'≠' if differs else ' '} {_cut(b)}".rstrip())
        count += 1
        different += differs
    return "\n".join(lines), count, different


def main(names: Sequence[str]) -> int:
    """Print the tables of the named scripts (of all, without names); returns 1 if anything differs."""
    total = [0, 0]
    for script in scripts(names):
        text, count, different = table(script)
        print(f"{text}\n")
        total[0] += count
        total[1] += different
    print(f"{total[0]} lines, {total[1]} of them different")
    return int(total[1] > 0)


def _shape(line: str) -> str:
    """A line without its digits, so that lines pair up although a number differs."""
    return "".join("0" if c.isdigit() else c for c in line)


def _cut(line: str) -> str:
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
