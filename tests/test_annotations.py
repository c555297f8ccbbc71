"""Signatures say what they take: in each package, the share of parameters that are plain ``Any``
may only go down.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "functrace"
MOST = {
    "api": 1, "caches.py": 14, "control": 1, "executor": 1, "ir": 1, "numpy": 3, "ops": 3,
    "passes": 4, "torch": 11,
    "tracing": 4, "transforms": 3,
}  # fmt: skip
"""Percentage of parameters that may be plain ``Any``, by package; none in packages not named here.
"""
MOST_OF_ALL = 5


def parameters(source: str) -> tuple[int, int]:
    """Count the parameters that are annotated with ``Any`` alone, and all of them (but for self and
    cls).
    """
    plain = count = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            several = [x for x in (given.vararg, given.kwarg) if x is not None]
            for x in (*given.posonlyargs, *given.args, *given.kwonlyargs, *several):
                count += x.arg not in ("self", "cls")
                plain += isinstance(x.annotation, ast.Name) and x.annotation.id == "Any"
    return plain, count


@cache
def counts() -> tuple[Counter[str], Counter[str]]:
    """Parameters of each package: those that are plain ``Any``, and all."""
    plain_ones: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for path in sorted(PACKAGE.rglob("*.py")):
        package = path.relative_to(PACKAGE).parts[0]
        plain, count = parameters(path.read_text(encoding="utf-8"))
        plain_ones[package] += plain
        every[package] += count
    return plain_ones, every


PACKAGES = {path.name for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()} - {
    "__pycache__"
}


def test_parameters_of_every_kind_are_counted() -> None:
    source = "def f(self, a: Any, /, b: Any, *c: Any, d: Any = 0, e: list[Any], g: 'int', **h: Any) -> Any: ..."
    assert parameters(source) == (5, 7)


@pytest.mark.parametrize("package", sorted({*PACKAGES, *MOST}))
def test_use_of_plain_any_does_not_increase(package: str) -> None:
    wanted = f"say what the parameters of {package} take, or that it is any object: object"
    plain, every = (count[package] for count in counts())
    assert 100 * plain <= MOST.get(package, 0) * every, f"{plain} of {every}; {wanted}"


def test_plain_any_of_all_rooms() -> None:
    plain, every = counts()
    assert 100 * plain.total() <= MOST_OF_ALL * every.total()
