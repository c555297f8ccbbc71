"""docs/own_transform.md, executed; and its interpreters on programs that the page does not show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace as ft

PAGE = Path(__file__).parent.parent / "docs" / "own_transform.md"


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """The names that the page defines, after all of its blocks have run in order."""
    namespace: dict[str, Any] = {"__name__": "own_transform"}
    text = PAGE.read_text()
    for found in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        line = text.count("\n", 0, found.start(1))
        exec(compile("\n" * line + found[1], str(PAGE), "exec"), namespace)
    return namespace


def test_page_runs(page: dict[str, Any]) -> None:
    assert {"count_sines", "interval_bounds", "small_angles"} <= set(page)


def test_counting_looks_into_every_transform(page: dict[str, Any]) -> None:
    count = page["count_sines"]
    x = np.ones(3)
    assert count(ft.trace(lambda x: np.cos(x))(x)) == 0
    assert count(ft.trace(lambda x: np.sin(np.sin(np.sin(x))))(x)) == 3
    assert count(ft.trace(ft.vmap(lambda x: np.sin(x)))(x)) == 1
    assert count(ft.trace(ft.grad(lambda x: np.sum(np.cos(x))))(x)) == 1
    assert count(ft.trace(ft.grad(ft.grad(lambda x: np.sin(x))))(np.float64(0.3))) >= 1


@pytest.mark.parametrize("seed", range(5))
def test_interval_bounds_contain_the_values(page: dict[str, Any], seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(4)

    def f(x: Any) -> Any:
        return np.sum(np.sin(x * weights) * x) - 0.5 * np.sum((x - 1.0) ** 2)

    low, width = rng.standard_normal(4), rng.uniform(0.0, 0.3, 4)
    ((below, above),) = page["interval_bounds"](ft.trace(f)(low), (low, low + width))
    for t in rng.uniform(size=(50, 4)):
        assert below - 1e-12 <= f(low + t * width) <= above + 1e-12


def test_missing_rule_names_the_users_line(page: dict[str, Any]) -> None:
    program = ft.trace(lambda x: np.tanh(x))(np.ones(2))
    with pytest.raises(NotImplementedError, match=r"tanh.*test_interpreter\.py"):
        page["interval_bounds"](program, (np.zeros(2), np.ones(2)))


def test_interpreter_is_twenty_lines() -> None:
    text = PAGE.read_text()
    (body,) = re.findall(r"def interval_bounds.*?return \[[^\n]*\n", text, re.DOTALL)
    assert len([line for line in body.splitlines() if line.strip()]) <= 20


def test_pass_composes_with_transforms(page: dict[str, Any]) -> None:
    program = ft.trace(lambda x: np.sum(np.sin(x) ** 2))(np.ones(3))
    linear = page["small_angles"](program).check()
    x = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(ft.evaluate(linear, x), 14.0)
    np.testing.assert_allclose(
        ft.hessian(lambda x: ft.evaluate(linear, x))(x), 2 * np.eye(3), atol=1e-14
    )
    batch = np.stack([x, 2 * x])
    np.testing.assert_allclose(ft.vmap(lambda x: ft.evaluate(linear, x))(batch), [14.0, 56.0])
