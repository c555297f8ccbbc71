"""Numbers that change between calls, before and inside what holds programs: the general form of a
cached tape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft

softplus = ft.custom_jvp(lambda t: np.log1p(np.exp(t)))
softplus.defjvp(lambda p, t: (np.log1p(np.exp(p[0])), t[0] / (1.0 + np.exp(-p[0]))))
arcsinh = ft.custom_vjp(lambda t: np.log(t + np.sqrt(t * t + 1.0)))
arcsinh.defvjp(
    lambda t: (np.log(t + np.sqrt(t * t + 1.0)), t), lambda t, bar: (bar / np.sqrt(t * t + 1.0),)
)

HELD: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "jit": (ft.jit(np.sin), np.sin),
    "jit of a closure": (lambda v: ft.jit(lambda: np.sin(v))(), np.sin),
    "an argument, reshaped": (lambda v: ft.jit(lambda u: u.reshape(-1))(v), np.copy),
    "checkpoint": (ft.checkpoint(np.sin), np.sin),
    "scan": (
        lambda v: ft.scan(lambda c, _: (np.sin(c), None), v, None, 2)[0],
        lambda v: np.sin(np.sin(v)),
    ),
    "cond": (lambda v: ft.cond(np.sum(v) > -99.0, np.sin, np.cos, v), np.sin),
    "custom_jvp": (softplus, lambda v: np.log1p(np.exp(v))),
    "custom_vjp": (arcsinh, np.arcsinh),
}
CALLS: dict[str, Callable[[Callable[..., Any], Any], Any]] = {
    "vjp": lambda f, x: ft.vjp(f, x)[0],
    "jvp": lambda f, x: ft.jvp(f, (x,), (x,))[0],
    "linearize": lambda f, x: ft.linearize(f, x)[0],
    "vmap": lambda f, x: ft.vmap(lambda t: f(t[None]))(x)[:, 0],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
@pytest.mark.parametrize("held", HELD.values(), ids=list(HELD))
def test_a_number_that_changes_before_and_after_a_sub_program(held: Any, call: Any) -> None:
    run, plain = held
    x = np.array([1.0, -2.0, 0.5])
    for k in (0.25, 0.25, 0.5, 3.0, 0.25, -1.5):
        value = call(lambda x, k=k: k - run(x * k) * (k + 1.0), x)
        np.testing.assert_allclose(value, k - plain(x * k) * (k + 1.0), rtol=1e-12)


@pytest.mark.parametrize("held", HELD.values(), ids=list(HELD))
def test_gradients_after_a_number_has_changed(held: Any) -> None:
    run, plain = held
    x, h = np.array([1.0, -2.0, 0.5]), 1e-6
    for k in (0.25, 0.5, 3.0):
        gradient = ft.grad(lambda x, k=k: np.sum(run(x * k) * k))(x)
        np.testing.assert_allclose(
            gradient, (plain((x + h) * k) - plain((x - h) * k)) * k / (2 * h), rtol=1e-6, atol=1e-8
        )


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64", "complex64"])
@pytest.mark.parametrize("number", [2, 1.5, 1j, True])
def test_numbers_of_jit_among_the_choices_of_select_are_weak(dtype: str, number: Any) -> None:
    x = np.array([1, 3, 5], dtype)
    for f in (
        lambda x, k: np.select([x.real > 2], [x], k),
        lambda x, k: np.select([x.real > 2, x.real > 1], [k, x]),
        lambda x, k: np.select(condlist=[x.real > 2], choicelist=[x], default=k),
    ):
        try:
            expected = f(x, number)
        except TypeError:  # an int among the choices of uint8
            with pytest.raises(TypeError, match="cannot be cast"):
                ft.jit(f)(x, number)
            continue
        found = ft.jit(f)(x, number)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
