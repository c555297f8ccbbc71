"""Complex numbers as machine code equal NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from tests.native.test_loops import whole
from tests.native.test_programs import native

FUNCTIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y * 2j,
    "mul": lambda x, y: x * y * 1.5,
    "div": lambda x, y: x / y,
    "neg": lambda x, y: -x,
    "conj": lambda x, y: np.conj(x) * y,
    "parts": lambda x, y: x.real * np.imag(y) + np.angle(x) + np.absolute(y),
    "square": lambda x, y: np.square(x) + np.reciprocal(y),
    "exp": lambda x, y: np.exp(x) + np.log(y),
    "sqrt": lambda x, y: np.sqrt(x) + np.sqrt(-y),
    "circular": lambda x, y: np.sin(x) + np.cos(y) + np.tan(x),
    "hyperbolic": lambda x, y: np.sinh(x) + np.cosh(y) + np.tanh(x),
    "power": lambda x, y: x**3 + y**-2 + x**0 + y**7,
    "power of complex numbers": lambda x, y: np.power(x, y),
    "power of floats": lambda x, y: np.power(x, 1.7) + np.power(y, 0.5),
    "sign": lambda x, y: np.sign(x),
    "equal": lambda x, y: (x == y) | (x != x) | np.isfinite(x) | np.isnan(y) | np.isinf(x),
    "where": lambda x, y: np.where(x.real > 0, x, y),
    "from parts": lambda x, y: x.real + 1j * y.imag,
    "sum": lambda x, y: np.sum(x) + np.sum(y, axis=0) + np.mean(x) + np.prod(x[:3]),
    "products": lambda x, y: x.T @ y + np.einsum("ij,ij->j", x, y).sum(),
    "cumsum": lambda x, y: np.cumsum(x, axis=0) + np.cumprod(y, axis=1),
    "layout": lambda x, y: np.concatenate([x[1:], y[::2]]).T.reshape(-1),
    "roots": lambda x, y: np.sqrt(x.real + 0j),
    "logic": lambda x, y: np.any(x) & np.all(y),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("dtype", ["c16", "c8"])
@pytest.mark.parametrize("shape", [(3, 2), (40, 3)])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_equal_numpy(name: str, shape: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(3)
    x, y = ((rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype) for _ in range(2))
    whole(FUNCTIONS[name], x, y)


@pytest.mark.parametrize("name", ["mul", "div", "exp", "sqrt", "circular", "sum", "products"])
def test_derivatives_equal_numpy(name: str) -> None:
    rng = np.random.default_rng(4)
    x, y = (rng.normal(size=(20, 3)) + 1j * rng.normal(size=(20, 3)) for _ in range(2))
    f = FUNCTIONS[name]
    whole(ft.grad(lambda x, y: np.sum(np.absolute(f(x, y)) ** 2), (0, 1)), x, y)


def test_scalars_and_loops() -> None:
    x = np.linspace(0.1, 1.0, 50) * (1 + 2j)
    whole(lambda z, x: ft.scan(lambda c, y: (c * 0.5j + y, c), z, x), np.complex128(1 + 1j), x)
    whole(
        lambda z: ft.while_loop(lambda c: np.absolute(c) < 5, lambda c: c * (1.1 + 0.2j), z),
        np.complex64(1j),
    )
    whole(
        lambda k, z: ft.cond(k > 0, lambda z: z * 1j, lambda z: np.conj(z), z),
        1.0,
        np.complex128(2 - 1j),
    )


def test_logarithms_near_one_keep_their_digits() -> None:
    angles = np.linspace(0.0, 3.0, 200)
    x = np.exp(1j * angles) * (1 + 1e-9 * np.cos(7 * angles))
    program = ft.trace(np.log)(x)
    (found,) = native(program).call(x)
    np.testing.assert_allclose(found.real, np.log(x).real, rtol=4e-15)
    np.testing.assert_allclose(found.imag, np.log(x).imag, rtol=4e-15)


@pytest.mark.parametrize("f", [np.exp, np.log, np.sqrt, np.sin, np.tanh, np.sign, np.reciprocal])
def test_special_values_are_those_of_numpy(f: Any) -> None:
    parts = [0.0, -0.0, 1.0, -2.5, 1e-310, -1e300, 1e308, np.inf, -np.inf, np.nan, 710.0, 3e10]
    made = native(ft.trace(f)(np.ones(1, complex)))
    for a in parts:
        for b in parts:
            x = np.array([complex(a, b)])
            with np.errstate(all="ignore"):
                results = made.run([x])
                if results is None:  # NumPy runs
                    continue
                (found,) = results
                expected = f(x)
                for one, other in ((found.real, expected.real), (found.imag, expected.imag)):
                    np.testing.assert_array_equal(np.isnan(one), np.isnan(other), f"{x}")
                    np.testing.assert_allclose(one, other, rtol=1e-14, atol=1e-320, err_msg=f"{x}")
                    is_number = ~np.isnan(other)
                    np.testing.assert_array_equal(
                        np.signbit(one)[is_number], np.signbit(other)[is_number], f"{x}"
                    )


def test_division_follows_numpy_for_zeros_and_infinities() -> None:
    parts = [0.0, -0.0, 1.0, -2.5, 1e150, np.inf, np.nan]
    numbers = np.array([complex(a, b) for a in parts for b in parts])
    x, y = (z.ravel() for z in np.meshgrid(numbers, numbers))
    made = native(ft.trace(lambda x, y: (x / y, x * y))(x, y))
    with np.errstate(all="ignore"):
        for one, other, size in zip(
            made.call(x, y), (x / y, x * y), (0.0, np.abs(x) * np.abs(y)), strict=True
        ):
            for found, expected in ((one.real, other.real), (one.imag, other.imag)):
                bound = 1e-14 * (np.abs(expected) + size)
                is_same = (found == expected) | (np.isnan(found) & np.isnan(expected))
                assert np.all(is_same | (np.abs(found - expected) <= bound))
    assert made.fallbacks == 0
