"""Signatures say what they take: how many parameters are annotated plain ``Any`` may only go down, room by room."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "functrace"
MOST = {
    "api": 5, "control": 2, "executor": 1, "ir": 4, "numpy": 41, "ops": 18, "passes": 1, "torch": 160, "tracing": 3,
    "transforms": 3, "caches.py": 2, "tree.py": 0, "source.py": 0, "errors.py": 0, "policies.py": 0,
}  # fmt: skip
"""The most parameters that may be plain ``Any``; of rooms that are not named here, none."""


def plain_any(source: str) -> int:
    """How many parameters of functions are annotated with ``Any`` alone."""
    found = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            several = [x for x in (given.vararg, given.kwarg) if x is not None]
            for x in (*given.posonlyargs, *given.args, *given.kwonlyargs, *several):
                found += isinstance(x.annotation, ast.Name) and x.annotation.id == "Any"
    return found


COUNTS: Counter[str] = Counter()
for path in sorted(PACKAGE.rglob("*.py")):
    COUNTS[path.relative_to(PACKAGE).parts[0]] += plain_any(path.read_text(encoding="utf-8"))


def test_the_count_sees_every_kind_of_parameter() -> None:
    assert plain_any("def f(a: Any, /, b: Any, *c: Any, d: Any = 0, e: list[Any], g: 'int', **h: Any) -> Any: ...") == 5


@pytest.mark.parametrize("room", sorted({*COUNTS, *MOST}))
def test_plain_any_only_goes_down(room: str) -> None:
    assert COUNTS[room] <= MOST.get(room, 0), f"say what the parameters of {room} take, or that it is any object: object"
