# ruff: noqa: NPY002
"""A draw from NumPy's generators while a function is staged is warned of, in the line that draws."""

from __future__ import annotations

import functools
import random
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.random import normal as drawn_by_name

import functrace as ft
from functrace.errors import ConcretizationError

GENERATOR = np.random.default_rng(0)
LEGACY = np.random.RandomState(0)
X: Any = np.ones(3)


def of_global_state(x: Any) -> Any:
    y = x * 2.0
    return y + np.random.normal(size=3)


def of_module_generator(x: Any) -> Any:
    y = x * 2.0
    return y + GENERATOR.normal(size=3)


def of_random_state(x: Any) -> Any:
    y = x * 2.0
    return y + LEGACY.uniform(size=3)


def of_imported_function(x: Any) -> Any:
    y = x * 2.0
    return y + drawn_by_name(size=3)


def in_a_lambda(x: Any) -> Any:
    y = x * 2.0
    return (lambda: y + GENERATOR.normal(size=3))()


def with_default(x: Any, rng: Any = GENERATOR) -> Any:
    y = x * 2.0
    return y + rng.normal(size=3)


def _closing() -> Any:
    rng = np.random.default_rng(1)

    def closing_over(x: Any) -> Any:
        y = x * 2.0
        return y + rng.normal(size=3)

    return closing_over


DRAWING = [
    of_global_state,
    of_module_generator,
    of_random_state,
    of_imported_function,
    in_a_lambda,
    _closing(),
]


@pytest.fixture(autouse=True)
def nothing_told() -> None:
    globals().pop("__warningregistry__", None)


def told(call: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        call()
    return found


@pytest.mark.parametrize("f", DRAWING, ids=lambda f: f.__name__)
def test_warning_names_the_line(f: Any) -> None:
    jitted = ft.jit(f)
    (warning,) = told(lambda: (jitted(X), jitted(X), jitted(X.astype(np.float32))))  # once per line
    assert warning.category is UserWarning
    assert (warning.filename, warning.lineno) == (__file__, f.__code__.co_firstlineno + 2)
    assert f"jit of {f.__name__}" in str(warning.message)
    assert "functrace.random" in str(warning.message)


def test_it_is_true() -> None:
    jitted = ft.jit(of_module_generator)
    told(lambda: jitted(X))
    np.testing.assert_array_equal(jitted(X), jitted(X))


def test_warning_names_the_line_inside_wrappers() -> None:
    def scaled(scale: float, x: Any) -> Any:
        return scale * x + GENERATOR.normal(size=3)

    (warning,) = told(lambda: ft.jit(functools.partial(scaled, 2.0))(X))
    assert warning.lineno == scaled.__code__.co_firstlineno + 1
    (warning,) = told(lambda: ft.jit(ft.grad(lambda x: np.sum(x * GENERATOR.normal(size=3))))(X))


def test_draws_in_called_functions() -> None:
    def outer(x: Any) -> Any:
        return of_global_state(x)

    (warning,) = told(lambda: ft.jit(outer)(X))
    assert warning.lineno == of_global_state.__code__.co_firstlineno + 2
    inner = ft.jit(of_global_state)
    (warning,) = told(lambda: ft.jit(lambda x: inner(x))(X))  # by the inner one, once
    assert warning.lineno == of_global_state.__code__.co_firstlineno + 2
    assert "jit of of_global_state" in str(warning.message)


class Noise:
    """An object that draws."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def add(self, x: Any) -> Any:
        return x + np.random.normal(size=3)

    def own(self, x: Any) -> Any:
        return x + self.rng.normal(size=3)

    def __matmul__(self, x: Any) -> Any:
        return self.own(x)


def test_draws_in_objects() -> None:
    noise = Noise()
    drawn, python_drawn, shuffled = noise.rng.normal, random.gauss, random.Random(0)
    for f, line in (
        (lambda x: noise.add(x), Noise.add.__code__.co_firstlineno + 1),
        (lambda x: noise.own(x), Noise.own.__code__.co_firstlineno + 1),
        (lambda x: noise @ x, Noise.own.__code__.co_firstlineno + 1),
        (noise.own, Noise.own.__code__.co_firstlineno + 1),
        (lambda x: x + drawn(size=3), None),
        (lambda x: x + random.random(), None),
        (lambda x: x + python_drawn(0.0, 1.0), None),
        (lambda x: x + shuffled.random(), None),
        (lambda x: x + noise.rng.bit_generator.random_raw() % 2, None),
        (functools.partial(lambda rng, x: x + rng.random(), np.random.default_rng(1)), None),
    ):
        globals().pop("__warningregistry__", None)
        (warning,) = told(lambda f=f: ft.jit(f)(X))
        code = getattr(f, "func", f)
        assert warning.lineno == (code.__code__.co_firstlineno if line is None else line)
        assert "is staged" in str(warning.message)


def test_draws_in_functions_found_dynamically() -> None:
    noise = Noise()

    def outer(x: Any) -> Any:
        return getattr(noise, "".join(["a", "dd"]))(x)

    (warning,) = told(lambda: ft.jit(outer)(X))
    assert warning.lineno == outer.__code__.co_firstlineno
    assert "in what this function calls" in str(warning.message)


def test_functions_without_global_draws_do_not_warn() -> None:
    key = ft.random.key(0)
    quiet = [
        lambda x: x + ft.random.normal(key, (3,)),
        lambda x: x * len(str(np.random.get_state(legacy=False)["bit_generator"])),
        lambda x: x + np.random.default_rng(0).normal(size=3),
        lambda x: x * bool(GENERATOR),
        np.sin,
    ]
    for f in quiet:
        assert told(lambda f=f: ft.jit(f)(X)) == []
    assert told(lambda: ft.grad(lambda x: np.sum(of_global_state(x)))(X)) == []
    jitted = ft.jit(lambda x: x + 1.0)
    assert told(lambda: (np.random.normal(), jitted(X), np.random.normal())) == []
    with pytest.raises(ConcretizationError):
        ft.jit(lambda x: 1 if x > np.random.normal() else 2)(1.0)  # an error is told alone
