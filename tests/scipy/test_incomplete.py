"""The incomplete gamma and beta functions by their shapes: against 60 digits, differences, and in
the far tails.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import functrace as ft
from functrace.ops.special.incomplete import by_shapes

GAMMA = [  # a, x, order, the derivative over the density: mpmath with 60 digits
    (0.001, 1e-06, 1, -0.013239952850876241),
    (0.02, 0.5, 1, -23.603121089664384),
    (0.3, 4.0, 1, -4.4243438508123207),
    (1.5, 0.01, 1, -0.0355415253029075),
    (4.0, 30.0, 1, -2.4136683721494422),
    (30.0, 28.0, 1, -0.971282368474091),
    (1000.0, 1050.0, 1, -1.0247642170623444),
    (0.3, 0.2, 2, 1.1357781566793811),
    (4.0, 3.0, 2, 0.2690433551300426),
    (30.0, 50.0, 2, -0.65766899009568751),
    (1.5, 2.0, 3, 0.76674324007928788),
]
BETA = [
    (0.02, 0.1, 1e-05, (1, 0), -0.0098483711873999297),
    (0.5, 7.0, 0.9, (1, 0), -0.054178810223961729),
    (40.0, 300.0, 0.1, (0, 1), 0.00029749754996424073),
    (2.0, 1.0, 0.999, (0, 1), 0.0064112126139566074),
    (2.0, 7.0, 0.5, (1, 1), 0.045394769875110056),
    (40.0, 7.0, 0.9, (2, 0), -7.6113390874330894e-5),
]


@pytest.mark.parametrize("a, x, n, expected", GAMMA)
def test_gamma_equals_many_digits(a: float, x: float, n: int, expected: float) -> None:
    np.testing.assert_allclose(by_shapes((n,), a, x), expected, rtol=1e-11)


@pytest.mark.parametrize("a, b, x, n, expected", BETA)
def test_beta_equals_many_digits(
    a: float, b: float, x: float, n: tuple[int, int], expected: float
) -> None:
    np.testing.assert_allclose(by_shapes(n, a, b, x), expected, rtol=1e-11)


def test_domain_ends_and_values_outside() -> None:
    a = np.array([0.5, 1.0, 3.0])
    for f in (special.gammainc, special.gammaincc):
        for x in (0.0, np.inf):
            with np.errstate(all="ignore"):
                np.testing.assert_array_equal(
                    ft.vmap(ft.grad(lambda a, f=f, x=x: f(a, x)))(a), np.zeros(3)
                )
    np.testing.assert_array_equal(by_shapes((1,), a, 0.0), np.zeros(3))
    np.testing.assert_array_equal(by_shapes((1, 0), a, 2.0, np.array([0.0, 1.0, 0.0])), np.zeros(3))
    assert np.isnan(by_shapes((1,), -1.0, 2.0)) and np.isnan(by_shapes((1,), 2.0, -1.0))
    assert np.isnan(by_shapes((0, 1), 1.0, -2.0, 0.5))


def test_many_elements_are_those_one_by_one() -> None:
    rng = np.random.default_rng(0)
    a, x = rng.uniform(0.1, 20.0, (50, 60)), rng.uniform(0.1, 20.0, (50, 60))
    whole = by_shapes((1,), a, x)
    np.testing.assert_array_equal(whole[::7, ::11], by_shapes((1,), a[::7, ::11], x[::7, ::11]))
    assert by_shapes((1,), a.astype(np.float32), x.astype(np.float32)).dtype == np.float32
    assert by_shapes((1,), np.zeros((0, 2)), 1.0).shape == (0, 2)


def test_students_tails_keep_their_digits() -> None:
    t = np.array([-1e8, -1e3, -1e-3, 0.0, 1e-6, 2.0, 1e5])
    df = 3.5
    found = ft.vmap(lambda t: ft.grad(lambda df: special.stdtr(df, t))(df))(t)
    step = 1e-4
    rough, fine = (
        (special.stdtr(df + h, t) - special.stdtr(df - h, t)) / (2 * h) for h in (2 * step, step)
    )
    np.testing.assert_allclose(found[:4], ((4 * fine - rough) / 3)[:4], rtol=1e-7, atol=1e-14)
    np.testing.assert_allclose(
        found, -ft.vmap(lambda t: ft.grad(lambda df: special.stdtr(df, -t))(df))(t), rtol=1e-12
    )
