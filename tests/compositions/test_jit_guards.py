"""``jit(f, guards=True)``: Python's own ``if`` and ``while`` on the values of a call, as paths that
are kept.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, CapturedArrayError, ConcretizationError
from functrace.tracing.binding import is_recording
from tests.api.batching.test_divergent_paths import FUNCTIONS, every, program

Function = Callable[..., Any]


def guarded(f: Function, **options: Any) -> Any:
    return ft.jit(f, guards=True, **options)


def three_ways(x: Any) -> Any:
    if x[0] > 1.0:
        return np.sum(np.sin(x))
    if np.sum(x) > 0.0:
        return np.sum(x * x)
    return np.prod(x)


def info(f: Any) -> Any:
    return f.cache_info()


@every
def test_values_are_those_of_the_function(f: Function, batch: Any) -> None:
    jitted = guarded(f)
    for _ in range(3):
        for x in batch:
            np.testing.assert_allclose(jitted(x.copy()), f(x.copy()), rtol=1e-14)
    found = info(jitted)
    assert found.misses == found.paths <= len(batch) and found.guard_misses == found.misses - 1
    assert found.hits == 3 * len(batch) - found.misses


@pytest.mark.sampled(5)
@pytest.mark.parametrize("seed", range(25))
def test_random_programs_are_the_function(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    step = program(rng, 4)

    def f(x: Any, w: Any) -> Any:
        y = step(x)
        if np.mean(y) > 0.1:
            y = step(y * w)
        return {"y": y, "sum": np.sum(y), "w": w}

    jitted = guarded(f, max_paths=1000)
    inputs = [(rng.normal(size=3), rng.normal()) for _ in range(25)]
    for x, w in [*inputs, *inputs, *reversed(inputs)]:
        found, expected = jitted(x, w), f(x.copy(), w)
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], rtol=1e-13, atol=1e-15)
    misses = info(jitted).misses
    for x, w in inputs:
        jitted(x, w)
    assert info(jitted).misses == misses == info(jitted).paths


@pytest.mark.sampled(2)
@every
def test_inside_other_transforms(f: Function, batch: Any) -> None:
    jitted = guarded(f)
    x = batch[1]
    for _ in range(2):
        np.testing.assert_allclose(ft.grad(jitted)(x), ft.grad(f)(x), rtol=1e-13)
        np.testing.assert_allclose(ft.hessian(jitted)(x), ft.hessian(f)(x), rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(ft.vmap(jitted)(batch), ft.vmap(f)(batch), rtol=1e-13)
        np.testing.assert_allclose(
            ft.vmap(ft.grad(jitted))(batch), ft.vmap(ft.grad(f))(batch), rtol=1e-12
        )
        outer = guarded(lambda x: jitted(x) * 2.0)
        np.testing.assert_allclose(outer(x), 2.0 * f(x.copy()), rtol=1e-13)
    with pytest.raises(ConcretizationError, match=r"guards=True"):
        ft.jit(jitted)(x)


@pytest.mark.sampled(3)
@every
def test_around_other_transforms(f: Function, batch: Any) -> None:
    gradient, mapped = guarded(ft.grad(f)), guarded(ft.vmap(f))
    for _ in range(2):
        for x in batch[:6]:
            np.testing.assert_allclose(gradient(x), ft.grad(f)(x), rtol=1e-13)
        np.testing.assert_allclose(mapped(batch), ft.vmap(f)(batch), rtol=1e-13)
        np.testing.assert_allclose(mapped(batch[::-1].copy()), ft.vmap(f)(batch[::-1]), rtol=1e-13)
    assert info(mapped).paths == 2


def test_cache_info_reports_entries_and_paths() -> None:
    jitted = guarded(three_ways)
    inputs = [np.array([2.0, 0.0]), np.array([0.5, 1.0]), np.array([0.5, -1.0])]
    for _ in range(4):
        for x in inputs:
            assert jitted(x) == three_ways(x)
    assert info(jitted) == (9, 3, 256, 1, 3, 64, 2)
    assert info(jitted).hits == 9
    jitted(np.array([2.0, 0.0, 1.0]))
    assert info(jitted)[:5] == (9, 4, 256, 2, 4)
    jitted.cache_clear()
    assert info(jitted) == (0, 0, 256, 0, 0, 64, 0)
    ft.clear_caches()
    assert jitted(inputs[0]) == three_ways(inputs[0])


def test_the_least_recently_used_path_is_evicted() -> None:
    runs: list[int] = []

    def f(x: Any, n: int) -> Any:
        runs.append(1)
        for _ in range(n):
            x = x * 2.0
        return x

    jitted = guarded(f, max_paths=3)
    for n in (0, 1, 2, 0, 3, 0, 2, 3):  # 1 goes, for 3
        assert jitted(1.0, n) == 2.0**n
    assert len(runs) == 4 and info(jitted).paths == 3
    assert jitted(1.0, 1) == 2.0 and len(runs) == 5 and info(jitted).paths == 3
    for options in ({"max_paths": 0}, {"maxsize": 0}):
        with pytest.raises(ArgumentError, match="keep no program"):
            guarded(f, **options)


def test_arguments_of_every_kind() -> None:
    def f(p: Any, n: int, mode: str, *, flag: bool = False, shift: float = 0.0) -> Any:
        x = p["x"]
        if flag and x[0] > 0:
            x = -x
        for _ in range(n):
            x = np.sin(x) if mode == "sin" else x * 1.5
        if shift > 1.0:
            return x + shift, n
        return x, shift

    jitted = guarded(f, static_argnames="mode")
    rng = np.random.default_rng(0)
    for k in range(60):
        x = rng.normal(size=3)
        args = ({"x": x}, k % 3, "sin" if k % 2 else "mul")
        kwargs = {"flag": bool(k % 5), "shift": float(k % 4)}
        for a, b in zip(jitted(*args, **kwargs), f(*args, **kwargs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-14)
    with pytest.raises(ArgumentError):
        jitted({"x": "text"}, 1, "sin")


def test_function_without_conditions_has_no_guards() -> None:
    jitted = guarded(lambda x, y: np.dot(x, y) + 1.0)
    for _ in range(3):
        assert jitted(np.ones(3), np.ones(3)) == 4.0
    assert info(jitted).paths == 1 and info(jitted).hits == 2


def test_results_are_fresh_and_arguments_are_copies() -> None:
    def f(x: Any) -> Any:
        if x[0] > 0.0:
            x[1] = 5.0
        return x, x

    jitted = guarded(f)
    x = np.array([1.0, 2.0])
    for _ in range(3):
        a, b = jitted(x)
        np.testing.assert_array_equal(a, [1.0, 5.0])
        a[0] = 9.0
        np.testing.assert_array_equal(b, [1.0, 5.0])
        np.testing.assert_array_equal(x, [1.0, 2.0])
    gradient = ft.grad(lambda x: np.sum(jitted(x)[0] * x))(x)
    np.testing.assert_array_equal(gradient, [2.0, 5.0])


# -- nothing of another path is seen ---------------------------------------------------------------


def test_no_warning_and_no_error_of_a_path_that_is_not_taken() -> None:
    def f(x: Any) -> Any:
        if x[0] > 0.0:
            return np.sum(np.linalg.inv(np.log(x)[:, None] * np.ones((2, 2)) + np.eye(2)))
        return np.sum(np.sqrt(-x))

    jitted = guarded(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            for x in (np.array([1.0, 2.0]), np.array([-1.0, -2.0])):
                np.testing.assert_allclose(jitted(x), f(x))


def test_callbacks_run_once_per_call_and_on_their_path_only() -> None:
    seen: list[str] = []

    def noted(name: str) -> Any:
        def run(x: Any) -> Any:
            seen.append(name)
            return np.asarray(x) * 1.0

        return ft.primitive(run, results=lambda x: x)

    first, left, right = noted("first"), noted("left"), noted("right")

    def f(x: Any) -> Any:
        y = first(x)
        if y > 0.0:
            z = left(y)
            return z * 2.0 if z > 5.0 else z + y
        return right(y)

    jitted = guarded(f)
    for _ in range(3):
        for x, names in (
            (1.0, ["first", "left"]),
            (-1.0, ["first", "right"]),
            (7.0, ["first", "left"]),
        ):
            seen.clear()
            assert jitted(np.float64(x)) == {1.0: 2.0, -1.0: -1.0, 7.0: 14.0}[x]
            assert seen == names
    assert info(jitted).paths == 3


def test_an_exception_is_the_users_and_nothing_is_kept() -> None:
    def f(x: Any) -> Any:
        if x > 2.0:
            raise KeyError("too large")
        return x * 2.0

    jitted = guarded(f)
    for _ in range(3):
        assert jitted(1.0) == 2.0
        with pytest.raises(KeyError, match="too large"):
            jitted(3.0)
        assert not is_recording()
    assert info(jitted).paths == 1


def test_an_error_of_a_condition_may_be_caught() -> None:
    def f(x: Any) -> Any:
        try:
            if np.linalg.cholesky(x)[0, 0] > 1.5:
                return x * 2.0
        except np.linalg.LinAlgError:
            return x * 0.0
        return x

    jitted = guarded(f)
    matrices = [np.eye(2), 4.0 * np.eye(2), -np.eye(2)]
    for _ in range(3):
        for x in matrices:
            np.testing.assert_array_equal(jitted(x), f(x))
    for x in reversed(matrices):
        np.testing.assert_array_equal(jitted(x), f(x))


def test_an_error_while_computing_results_names_the_line() -> None:
    def f(x: Any) -> Any:
        if x[0, 0] > -100.0:
            return np.linalg.cholesky(x)
        return x

    jitted = guarded(f)
    jitted(np.eye(2))
    for _ in range(2):
        with pytest.raises(np.linalg.LinAlgError) as caught:
            jitted(-np.eye(2))
        assert any("np.linalg.cholesky(x)" in note for note in caught.value.__notes__)
    assert info(jitted).misses == info(jitted).paths == 1


# -- captured values -------------------------------------------------------------------------------


def test_paths_with_different_captured_values_are_not_mixed() -> None:
    w = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        y = x * w
        return np.sum(y) if y[0] > 0.0 else y[1] - y[0]

    jitted = guarded(f)
    plus, minus = np.array([1.0, 1.0]), np.array([-1.0, 1.0])
    assert jitted(plus) == jitted(plus) == 3.0
    w[:] = 10.0
    assert jitted(minus) == 20.0
    assert jitted(plus) == 20.0  # what was recorded with the other array is gone
    assert jitted(minus) == 20.0 and info(jitted).paths == 2


def test_captured_tracers_are_operands_of_one_call() -> None:
    def loss(w: Any) -> Any:
        f = guarded(lambda x: x * w if x > 0.0 else x + w)
        return f(2.0) * f(-1.0) + f(2.0)

    np.testing.assert_allclose(ft.grad(loss)(3.0), 2.0 * 2.0 * 3.0 - 2.0 + 2.0)


def test_writing_to_a_captured_array_that_is_read_raises() -> None:
    total = np.zeros(2)

    def f(x: Any) -> Any:
        y = x + total
        total[0] += 1.0
        return y if y[0] > 0 else x

    with pytest.raises(CapturedArrayError):
        guarded(f)(np.ones(2))


def test_masks_and_choices_in_the_program_are_no_guards() -> None:
    def f(x: Any) -> Any:
        x[x > 0.5] *= 2.0
        return ft.cond(x[0] > 0.0, np.sin, np.cos, np.where(x > 0.0, x, -x))

    jitted = guarded(f)
    for x in np.random.default_rng(0).normal(size=(8, 4)):
        np.testing.assert_allclose(jitted(x), f(x.copy()), rtol=1e-14)
    assert info(jitted).paths == 1


def test_methods_and_decorators() -> None:
    @ft.jit(guards=True, max_paths=4)
    def f(x: Any) -> Any:
        return x if x > 0.0 else -x

    assert f(-2.0) == f(2.0) == 2.0 and info(f).max_paths == 4

    torch = ft.torch
    g = ft.jit(lambda t: torch.sum(torch.sin(t)) if t[0] > 1.0 else torch.sum(t), guards=True)
    for values in ([2.0, 0.5], [0.0, 0.5], [2.0, 0.5]):
        t = torch.tensor(values)
        expected = torch.sum(torch.sin(t)) if t[0] > 1.0 else torch.sum(t)
        assert g(t).item() == pytest.approx(expected.item(), rel=1e-6)


def test_powers_of_integers_guard_on_the_exponent() -> None:
    f = guarded(lambda k, n: k**n)
    for _ in range(2):
        for n in (3, -2, 0):
            assert f(2, n) == 2**n


def test_one_path_that_two_threads_record_is_kept_once() -> None:
    jitted = guarded(three_ways)
    inside = threading.Barrier(2, timeout=600.0)

    def f(x: Any) -> Any:
        if x[0] > 0.0:
            inside.wait()
            return np.sum(x)
        return x[1] * 2.0

    jitted = guarded(f)
    assert jitted(np.array([-1.0, 1.0])) == 2.0
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(jitted(np.array([1.0, 2.0]))))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [3.0, 3.0] and info(jitted).paths == 2
    assert jitted(np.array([-1.0, 1.0])) == 2.0 and info(jitted).misses == 3


def test_threads_share_the_paths() -> None:
    f, batch = FUNCTIONS["collatz"]
    jitted = guarded(f)
    wrong: list[Any] = []
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        start.wait()
        for k in np.random.default_rng(seed).permutation(np.tile(np.arange(len(batch)), 5)):
            x = batch[k]
            if not np.isclose(jitted(x), f(x), rtol=1e-13):
                wrong.append(x)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
