"""Transposition of programs that are linear in some inputs and nonlinear in others, within every
kind of sub-program; nonlinear programs raise, and are never transposed as their derivative at zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import NotDifferentiableError
from tests.compositions.ruled_programs import HOLDERS, Library

W = np.array([0.5, 2.0, 1.2])
Y = np.array([0.3, -0.4, 1.5])


def scaled(holder: str, w: Any, x: Any) -> Any:
    """Return ``sin(w) * x``."""
    return Library(ft, np, ft).held(holder, np.sin, w, x)


def transposed(holder: str, w: Any) -> Any:
    return ft.linear_transpose(lambda x: scaled(holder, w, x), Y)(Y)[0]


def solved(holder: str, w: Any) -> Any:
    def by_ones(matvec: Any, b: Any) -> Any:
        return b / matvec(np.ones(3))

    return ft.custom_linear_solve(
        lambda x: scaled(holder, w, x), Y * w, by_ones, transpose_solve=by_ones
    )


def root(holder: str, w: Any) -> Any:
    def by_slope(linear: Any, y: Any) -> Any:
        return scaled(holder, np.arcsin(1.0 / linear(np.ones(3))), y)

    return ft.custom_root(
        lambda x: x**3 - w * 8.0, np.ones(3), lambda _f, _x: 2.0 * np.cbrt(w), by_slope
    )


CASES: dict[str, tuple[Callable[[str, Any], Any], Any, Any]] = {
    "linear_transpose": (transposed, np.sin(W) * Y, np.cos(W) * Y),
    "custom_linear_solve": (
        solved,
        Y * W / np.sin(W),
        Y / np.sin(W) - Y * W * np.cos(W) / np.sin(W) ** 2,
    ),
    "custom_root": (root, 2.0 * np.cbrt(W), 2.0 / 3.0 * W ** (-2.0 / 3.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_linear_parts_are_transposed_within_any_sub_program(name: str) -> None:
    f, value, slope = CASES[name]
    wrong = []
    for holder in HOLDERS:
        try:
            found = ft.value_and_grad(lambda w: np.sum(f(holder, w)))(W)
        except NotDifferentiableError as error:
            wrong.append(f"{holder}: {error.what}")
            continue
        if not np.allclose(found[0], np.sum(value)) or not np.allclose(found[1], slope):
            wrong.append(f"{holder}: {found}")
    assert not wrong, "\n".join(wrong)


CROOKED: dict[str, Callable[[Any], Any]] = {
    "rounded": lambda t: np.round(t) + t,
    "compared": lambda t: t + (t > 0.0),
    "chosen": lambda t: np.where(t > 0.0, t, 2.0 * t),
    "counted": lambda t: t * np.count_nonzero(t),
    "squared": lambda t: t + t * t,
    "stopped": lambda t: t + ft.stop_gradient(t),
}
AROUND: dict[str, Callable[[Any], Any]] = {
    "jit": ft.jit,
    "checkpoint": ft.checkpoint,
    "cond": lambda f: lambda t: ft.cond(np.asarray(True), f, f, t),
    "scan": lambda f: lambda t: ft.scan(lambda c, _: (f(c), None), t, None, 2)[0],
    "map": lambda f: lambda t: ft.map(f, t),
    "fori_loop": lambda f: lambda t: ft.fori_loop(0, 2, lambda _, c: f(c), t),
    "while_loop": lambda f: (
        lambda t: ft.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, t))[1]
    ),
    "steps": lambda f: lambda t: ft.while_loop(lambda t: np.sum(t) > 1.0, lambda t: 0.5 * t, t),
    "jit of scan": lambda f: ft.jit(lambda t: ft.scan(lambda c, _: (f(c), None), t, None, 2)[0]),
}


def by_vjp(f: Any) -> Any:
    g = ft.custom_vjp(lambda x: x * 1.0)
    g.defvjp(lambda x: (g(x), None), lambda _, ct: (f(ct),))
    return ft.jvp(g, (W,), (Y,))


def by_jvp(f: Any) -> Any:
    g = ft.custom_jvp(lambda x: x * 1.0)
    g.defjvp(lambda primals, tangents: (g(*primals), f(*tangents)))
    return ft.grad(lambda x: np.sum(g(x)))(W)


@pytest.mark.parametrize(
    "use", [by_vjp, by_jvp, lambda f: ft.linear_transpose(f, Y)(Y)], ids=["vjp", "jvp", "transpose"]
)
def test_nonlinear_rules_raise_within_any_sub_program(use: Any) -> None:
    passed = []
    for crooked, f in CROOKED.items():
        for around, hold in AROUND.items():
            try:
                passed.append(f"{crooked}, {around}: {use(hold(f))}")
            except NotDifferentiableError:
                continue
    assert not passed, "\n".join(passed)
