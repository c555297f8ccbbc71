"""Signatures say what they take: in each package, the share of parameters that are plain ``Any`` may only go down."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "functrace"
MOST = {
    "api": 1, "caches.py": 14, "control": 1, "executor": 1, "ir": 1, "numpy": 3, "ops": 3, "passes": 4, "torch": 11,
    "tracing": 4, "transforms": 3,
}  # fmt: skip
"""How many of a hundred parameters may be plain ``Any``; of packages that are not named here, none."""
MOST_OF_ALL = 5


def parameters(source: str) -> tuple[int, int]:
    """How many parameters of functions are annotated with ``Any`` alone, and how many there are (but for self and cls)."""
    plain = count = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            several = [x for x in (given.vararg, given.kwarg) if x is not None]
            for x in (*given.posonlyargs, *given.args, *given.kwonlyargs, *several):
                count += x.arg not in ("self", "cls")
                plain += isinstance(x.annotation, ast.Name) and x.annotation.id == "Any"
    return plain, count


PLAIN: Counter[str] = Counter()
ALL: Counter[str] = Counter()
for path in sorted(PACKAGE.rglob("*.py")):
    package = path.relative_to(PACKAGE).parts[0]
    plain, count = parameters(path.read_text(encoding="utf-8"))
    PLAIN[package] += plain
    ALL[package] += count


def test_the_count_sees_every_kind_of_parameter() -> None:
    source = "def f(self, a: Any, /, b: Any, *c: Any, d: Any = 0, e: list[Any], g: 'int', **h: Any) -> Any: ..."
    assert parameters(source) == (5, 7)


@pytest.mark.parametrize("package", sorted({*ALL, *MOST}))
def test_plain_any_only_goes_down(package: str) -> None:
    wanted = f"say what the parameters of {package} take, or that it is any object: object"
    assert 100 * PLAIN[package] <= MOST.get(package, 0) * ALL[package], f"{PLAIN[package]} of {ALL[package]}; {wanted}"


def test_plain_any_of_all_rooms() -> None:
    assert 100 * PLAIN.total() <= MOST_OF_ALL * ALL.total()
