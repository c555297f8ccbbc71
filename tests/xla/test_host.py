"""Functions that run on the host in programs under XLA: by name only, with NumPy's results and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax is not installed")

import functrace as ft
from functrace import random
from functrace.errors import UnsupportedFunctionError
from functrace.ir.program import Program
from functrace.xla.rows import HOST, REFUSED

KEY = np.array([0xFEDCBA9876543210, 7], np.uint64)
LARGE = 300_000
"""Elements of arrays for which JAX calls back in a thread of its own."""


def on_host(f: Any, *names: str) -> Any:
    """Jit a function with primitives that may run on the host."""
    return ft.jit(f, backend="xla", host_callbacks=names)


def scaled(x: Any) -> Any:
    """A function that needs plain arrays."""
    assert isinstance(x, np.ndarray | np.generic)
    return np.multiply(x, 3.0)


def called(x: Any) -> Any:
    """Call it from a program."""
    return ft.pure_callback(scaled, ft.ShapeDtype(np.shape(x), x.dtype), x)


def test_refusal_names_the_reason_the_line_and_the_way_out() -> None:
    f = ft.jit(lambda key: random.poisson(key, 2.0, (3,)), backend="xla")
    with pytest.raises(UnsupportedFunctionError) as caught:
        f(KEY)
    text = str(caught.value)
    assert text.startswith("random_poisson has no form in XLA: NumPy draws by rejection")
    assert "test_host.py" in text
    assert 'jit(..., backend="xla", host_callbacks=["random_poisson"])' in text


def test_another_name_opts_in_to_nothing() -> None:
    with pytest.raises(UnsupportedFunctionError, match="random_normal"):
        on_host(lambda key: random.normal(key, (3,)), "random_poisson")(KEY)


def test_every_reason_is_one_of_a_primitive() -> None:
    every = Program.primitives
    assert every["erf"]
    assert {name for name in [*HOST, *REFUSED] if name not in every} == set()


@pytest.mark.parametrize(
    "dtype",
    [np.float64, np.int64, np.uint64, np.complex128, np.float32, np.complex64, np.int8, np.bool_],
)
@pytest.mark.parametrize("shape", [(), (3,), (0, 2), (LARGE,)])
def test_every_dtype_arrives_and_returns_unrounded(dtype: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = (rng.normal(size=shape) * 1e9 + 0.1).astype(np.float64)
    x = (x + 1j * x[::-1] if shape else x + 0.3j).astype(dtype) if np.dtype(dtype).kind == "c" else (
        np.abs(x) * 1e6).astype(dtype) if np.dtype(dtype).itemsize == 8 else x.astype(np.int64).astype(dtype)  # fmt: skip
    seen = []

    def same(x: Any) -> Any:
        seen.append(np.array(x))
        return x

    f = lambda x: ft.pure_callback(same, ft.ShapeDtype(np.shape(x), x.dtype), x)
    found = on_host(f, "callback")(np.asarray(x)[()])
    assert seen[-1].dtype == found.dtype == dtype
    assert found.tobytes() == np.asarray(x).tobytes() == seen[-1].tobytes()


def test_draws_of_large_arrays_are_numpys() -> None:
    x = np.random.default_rng(0).normal(size=LARGE)
    f = lambda key, x: random.normal(key, (LARGE,)) * x
    assert on_host(f, "random_normal")(KEY, x).tobytes() == f(KEY, x).tobytes()


def test_draws_with_parameters_under_grad_and_vmap() -> None:
    def loss(a: Any, key: Any) -> Any:
        return np.sum(random.gamma(key, a, (5,)))

    names = ["random_loggamma"]
    a, keys = np.array(2.5), random.split(KEY, 3)
    np.testing.assert_allclose(on_host(loss, *names)(a, KEY), loss(a, KEY), rtol=1e-14)
    slope = ft.grad(loss)
    np.testing.assert_allclose(on_host(slope, *names)(a, KEY), slope(a, KEY), rtol=1e-11)
    every = ft.vmap(ft.value_and_grad(loss), in_axes=(None, 0))
    for found, expected in zip(on_host(every, *names)(a, keys), every(a, keys), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-11)


def test_python_functions_under_vmap_and_with_derivatives_of_their_own() -> None:
    x = np.arange(6.0).reshape(2, 3)
    assert on_host(called, "callback")(x).tobytes() == (3 * x).tobytes()
    assert on_host(ft.vmap(called), "callback")(x).tobytes() == (3 * x).tobytes()

    @ft.custom_vjp
    def tripled(x: Any) -> Any:
        return called(x)

    tripled.defvjp(lambda x: (called(x), None), lambda _, ct: (called(ct),))
    gradient = ft.grad(lambda x: np.sum(tripled(x) ** 2))
    np.testing.assert_allclose(on_host(gradient, "callback")(x), 18 * x)
    with pytest.raises(UnsupportedFunctionError, match="callback"):
        ft.jit(gradient, backend="xla")(x)


def test_errors_of_the_host_are_the_users_own() -> None:
    class Mine(Exception):
        pass

    def failing(x: Any) -> Any:
        if x[0] > 1:
            raise Mine(f"got {x[0]}")
        return x

    f = on_host(
        lambda x: ft.pure_callback(failing, ft.ShapeDtype((2,), np.float64), x) + 1, "callback"
    )
    np.testing.assert_array_equal(f(np.zeros(2)), np.ones(2))
    with pytest.raises(Mine, match=r"got 3\.0") as caught:
        f(np.full(2, 3.0))
    assert "test_host.py" in "".join(caught.value.__notes__)
    np.testing.assert_array_equal(f(np.zeros(2)), np.ones(2))
    draw = on_host(lambda key, mean: random.poisson(key, mean, (3,)), "random_poisson")
    with pytest.raises(ValueError, match="lam < 0"):
        draw(KEY, -1.0)


def test_errors_inside_of_loops_and_branches_are_raised() -> None:
    def failing(x: Any) -> Any:
        if x > 2:
            raise KeyError("above 2")
        return x

    call = lambda x: ft.pure_callback(failing, ft.ShapeDtype((), np.float64), x)
    scan = on_host(lambda xs: ft.scan(lambda c, x: (c + call(x), None), 0.0, xs)[0], "callback")
    assert scan(np.array([1.0, 2.0])) == 3
    with pytest.raises(KeyError, match="above 2"):
        scan(np.array([1.0, 5.0, 2.0]))
    branch = on_host(lambda x: ft.cond(x > 0, call, lambda x: -x, x), "callback")
    assert branch(-5.0) == 5
    with pytest.raises(KeyError, match="above 2"):
        branch(5.0)


def test_effects_happen_once_in_every_run_in_order() -> None:
    log: list[Any] = []

    def f(x: Any) -> Any:
        ft.debug.callback(lambda y: log.append(("first", float(y))), np.sum(x))
        ft.debug.callback(lambda y: log.append(("second", float(y))), np.max(x))
        return 2 * x

    with pytest.raises(UnsupportedFunctionError, match=r"observe.*Python function"):
        ft.jit(f, backend="xla")(np.ones(3))
    assert log == []
    run = on_host(f, "observe")
    run(np.ones(3))
    run(np.arange(3.0))
    assert log == [("first", 3.0), ("second", 1.0), ("first", 3.0), ("second", 2.0)]


def test_effects_in_loops_happen_at_every_step() -> None:
    log: list[float] = []

    def step(c: Any, x: Any) -> Any:
        ft.debug.callback(lambda y: log.append(float(y)), x)
        return c + x, None

    run = on_host(lambda xs: ft.scan(step, 0.0, xs)[0], "observe")
    assert run(np.arange(4.0)) == 6
    assert log == [0, 1, 2, 3]
