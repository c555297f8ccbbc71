"""Compilation of hot programs in the background."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.api.staging.background import COMPILER, TIMED_CALLS, FasterForm
from functrace.errors import NotDifferentiableError
from functrace.executor.runner import OFTEN

pytest.importorskip("llvmlite", reason="llvmlite is not installed")


@ft.custom_vjp
def clipped(x: Any) -> Any:
    """Clip the cotangent, which is not linear."""
    return x * 1.0


clipped.defvjp(lambda x: (x * 1.0, None), lambda _, y_bar: (np.clip(y_bar, -1.0, 1.0),))
X = np.arange(3.0)


@pytest.mark.parametrize(
    "derivative",
    [
        lambda: ft.jvp(clipped, (X,), (X,)),
        lambda: ft.jacfwd(clipped)(X),
        lambda: ft.vmap(lambda x: ft.jvp(clipped, (x,), (x,)))(X),
    ],
    ids=["jvp", "jacfwd", "vmap"],
)
def test_a_program_that_cannot_be_made_raises_at_every_call_and_never_warns(
    derivative: Callable[[], Any],
) -> None:
    with ft.config(native=True), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        messages = set()
        for _ in range(OFTEN + 4):
            with pytest.raises(NotDifferentiableError) as caught:
                derivative()
            messages.add(str(caught.value))
            COMPILER.wait()
    assert not found
    (message,) = messages
    assert "test_background.py" in message


EXACT: dict[str, Any] = {
    "polynomial": lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2),
    "roots": lambda x: np.sum(np.sqrt(x * x + 1.0) / (1.0 + x)),
    "loop": lambda x: ft.scan(lambda c, y: (c * 0.5 + y * y, c), 1.0, x)[0],
    "branches": lambda x: np.sum(np.where(x > 0.5, x * 2.0, -x)),
}
INEXACT: dict[str, Any] = {
    "exponential": lambda x: np.sum(np.exp(x)),
    "product": lambda x: np.sum(np.outer(x, x) @ x),
    "loop": lambda x: ft.scan(lambda c, y: (np.sin(c) + y, c), 1.0, x)[0],
}


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile by default as early as with the setting."""
    from functrace.api.staging import backends
    from functrace.executor import runner

    monkeypatch.setattr(backends, "VERY_OFTEN", OFTEN)
    monkeypatch.setattr(runner, "VERY_OFTEN", OFTEN)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", EXACT)
def test_the_default_compiles_what_keeps_all_bits(name: str) -> None:
    f = ft.jit(ft.grad(EXACT[name]))
    x = np.random.default_rng(0).random(23)
    expected = ft.jit(ft.grad(EXACT[name]), backend="numpy")(x)
    for _ in range(OFTEN):
        np.testing.assert_array_equal(f(x), expected)
    COMPILER.wait()
    assert type(f.func) is type(len)
    for _ in range(20):
        y = np.random.default_rng(0).normal(size=23) * 3.0
        np.testing.assert_array_equal(f(y), ft.jit(ft.grad(EXACT[name]), backend="numpy")(y))


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", INEXACT)
def test_the_default_leaves_the_rest_to_numpy(name: str) -> None:
    f = ft.jit(ft.grad(INEXACT[name]))
    x = np.random.default_rng(0).random(23)
    expected = f(x)
    for _ in range(2 * OFTEN):
        np.testing.assert_array_equal(f(x), expected)
    COMPILER.wait()
    np.testing.assert_array_equal(f(x), expected)
    assert type(f.func) is not type(len)


@pytest.mark.usefixtures("soon")
def test_unjitted_transforms_keep_all_bits_by_default() -> None:
    f = ft.grad(EXACT["roots"])
    x = np.random.default_rng(0).random(23)
    with ft.config(native=False):
        expected = f(x)
    for _ in range(3 * OFTEN):
        np.testing.assert_array_equal(f(x), expected)
    COMPILER.wait()
    np.testing.assert_array_equal(f(x), expected)
    with ft.config(native=True):  # machine code of another accuracy does not take its place
        for _ in range(3 * OFTEN):
            np.testing.assert_allclose(f(x), expected, rtol=1e-14)
        COMPILER.wait()
    np.testing.assert_array_equal(f(x), expected)


@pytest.mark.usefixtures("soon")
def test_the_setting_turns_it_off() -> None:
    with ft.config(native=False):
        f = ft.jit(EXACT["roots"])
        for _ in range(2 * OFTEN):
            f(X)
    COMPILER.wait()
    assert type(f.func) is not type(len)


def test_accuracies_of_backends() -> None:
    f = EXACT["roots"]
    exact = ft.jit(f, backend="auto", accuracy="numpy")
    for _ in range(OFTEN):
        exact(X)
    COMPILER.wait()
    assert type(exact.func) is type(len)


A = np.random.default_rng(0).normal(size=(31, 17))
SAME_LAYOUT: dict[str, Any] = {
    "transposed": lambda x: x.T * 2.0,
    "view": lambda x: (x * 2.0).T,
    "cumulated": lambda x: np.cumsum(x.T, axis=0),
    "joined": lambda x: np.concatenate([x.T, x.T * 2.0]),
    "less the mean": lambda x: x.T - np.mean(x.T, axis=0),
    "without axes": lambda x: np.where(x[0, 0] > 0, 1.0, x[0, 1]),
    "squeezed": lambda x: np.squeeze(x[:1, :1] * 2.0),
}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", SAME_LAYOUT)
def test_the_default_keeps_types_and_layouts(name: str) -> None:
    f = ft.jit(SAME_LAYOUT[name])
    before = f(A)
    for _ in range(OFTEN):
        f(A)
    COMPILER.wait()
    after = f(A)
    assert type(after) is type(before)
    assert after.strides == before.strides
    np.testing.assert_array_equal(after, before)


@pytest.mark.usefixtures("soon")
def test_the_default_raises_where_errors_raise() -> None:
    f = ft.jit(lambda x: (1.0 / x)[1:])  # (machine code does not compute the first element)
    x = np.array([0.0, 1.0, 2.0])
    with np.errstate(divide="ignore"):
        for _ in range(OFTEN + 1):
            f(x)
        COMPILER.wait()
        np.testing.assert_array_equal(f(x), [1.0, 0.5])
    assert type(f.func) is type(len)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        f(x)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-0.0, 1.0), (0, 1), (-1.0, 0.0)])
def test_the_default_keeps_signs_of_clipped_zeros(bounds: tuple[float, float]) -> None:
    f = ft.jit(lambda x: np.signbit(np.clip(x, *bounds)))
    x = np.array([0.0, -0.0, 2.0, -2.0, np.nan])
    before = f(x)
    for _ in range(OFTEN):
        f(x)
    COMPILER.wait()
    np.testing.assert_array_equal(f(x), before)


BIG = np.random.default_rng(1).random((300, 1000))
LARGE_EXACT: dict[str, Any] = {
    "elementwise": lambda x: np.sqrt(x * x + 1.0) - x / (1.0 + x),
    "sum": lambda x: np.sum(x * x + 1.0),
    "stencil": lambda x: np.roll(x, 1, 0) + np.roll(x, -1, 1) - 2.0 * x,
    "turned": lambda x: (x.T * 2.0 + 1.0).T,
}
TIMED: dict[str, Any] = {
    "elementwise": (lambda x: np.sin(x) * x + np.exp(-x), BIG),
    "softmax": (lambda x: np.exp(x) / np.sum(np.exp(x), axis=1, keepdims=True), BIG),
    "eigenvalues": (lambda x: np.linalg.eigvalsh(x @ x.T) * np.sin(x[0]), BIG[:5, :5]),
    "eigenvalues in a loop": (
        lambda x: ft.scan(lambda c, y: (c + np.linalg.eigvalsh(np.outer(y, y)), c), x[0], x)[0],
        BIG[:5, :5],
    ),
}


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("name", LARGE_EXACT)
def test_large_arrays_keep_all_bits_by_default_whichever_form_is_faster(name: str) -> None:
    f = ft.jit(ft.value_and_grad(lambda x: np.sum(LARGE_EXACT[name](x))))
    value, gradient = ft.jit(f, backend="numpy")(BIG)
    seen = set()
    for k in range(OFTEN + 2 * TIMED_CALLS + 2):
        found = f(BIG)
        np.testing.assert_array_equal(found[0], value)
        np.testing.assert_array_equal(found[1], gradient)
        assert found[1].strides == gradient.strides
        if k == OFTEN:
            COMPILER.wait()
            seen.add(type(_only_program(f).run))
    assert seen == {FasterForm}  # (it was timed)
    assert type(_only_program(f).run) is not FasterForm


@pytest.mark.parametrize("name", TIMED)
def test_what_may_be_slower_as_machine_code_is_timed_first(name: str) -> None:
    function, x = TIMED[name]
    f = ft.jit(function, backend="auto")
    expected = ft.jit(function, backend="numpy")(x)
    seen = []
    for k in range(OFTEN + 2 * TIMED_CALLS + 2):
        np.testing.assert_allclose(f(x), expected, rtol=1e-12, atol=1e-12)
        if k == OFTEN:
            COMPILER.wait()
        seen.append(type(_only_program(f).run) is FasterForm)
    assert any(seen)
    assert not seen[-1]


def _only_program(f: Any) -> Any:
    """Return the staged program of a jitted function that has one."""
    (found,) = f.cache_clear.__self__.entries.values()
    return found


@pytest.mark.parametrize("faster", [0, 1])
def test_the_faster_form_stays(faster: int, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("functrace.api.staging.background.time.perf_counter", lambda: now)
    calls = [0, 0]

    def form(n: int) -> Callable[..., tuple[int]]:
        def run(x: int) -> tuple[int]:
            nonlocal now
            calls[n] += 1
            now += 9.0 if calls[n] == 1 else 1.0 if n == faster else 2.0  # (the first is slow)
            if x < 0:
                raise ValueError(x)
            return (n,)

        return run

    chosen: list[Any] = []
    forms = form(0), form(1)
    both = FasterForm(*forms, chosen.append)
    with pytest.raises(ValueError, match="-1"):  # (a call that raises is not timed)
        both(-1)
    seen = [both(1)[0] for _ in range(2 * TIMED_CALLS)]
    assert sorted(seen) == [0] * TIMED_CALLS + [1] * TIMED_CALLS
    assert chosen == [forms[faster]]


def test_a_form_is_chosen_once_however_many_threads_time_it() -> None:
    chosen: list[Any] = []

    def ready(run: Any) -> None:
        chosen.append(run)
        both(1)  # (as another thread does that had found the two forms)

    both = FasterForm(lambda x: (x,), lambda x: (x,), ready)
    for _ in range(4 * TIMED_CALLS):
        both(1)
    assert len(chosen) == 1


def test_forms_are_timed_under_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    f = ft.jit(lambda x: np.tanh(x) * x, backend="auto")
    expected = np.tanh(BIG) * BIG

    def work(_: int) -> None:
        for _ in range(30):
            np.testing.assert_allclose(f(BIG), expected, rtol=1e-14)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
        COMPILER.wait()
        list(pool.map(work, range(4)))
    assert type(_only_program(f).run) is not FasterForm
