"""The migration tables in docs/migration, as rows of names."""

from __future__ import annotations

import builtins
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parents[1] / "docs" / "migration"
NAME = re.compile(r"`([A-Za-z_]\w*(?:\.\w+)*)`")
SHORT = {"ft": "functrace", "np": "numpy"}


class Row(NamedTuple):
    """One line of a table: names there, names here, and the rest of the line."""

    theirs: list[str]
    ours: list[str]
    difference: str


def rows(library: str) -> Iterator[Row]:
    """The lines of the tables of a page that name something, without headings."""
    for line in (FOLDER / f"{library}.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 3 and NAME.search(cells[0]):
            yield Row(NAME.findall(cells[0]), NAME.findall(cells[1]), cells[2])


def resolved(name: str) -> object:
    """Resolve a dotted name to a module or to an attribute of one."""
    first, *rest = name.split(".")
    found: object = (
        importlib.import_module(SHORT.get(first, first))
        if rest or first in SHORT
        else getattr(builtins, first)
    )
    path = SHORT.get(first, first)
    for part in rest:
        path = f"{path}.{part}"
        try:
            found = getattr(found, part)
        except AttributeError:
            found = importlib.import_module(path)
    return found
