"""Special functions under XLA against SciPy: over their domains, with infinities, zeros and poles."""

from __future__ import annotations

import itertools
import zlib
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax", reason="jax is not installed")
pytest.importorskip("scipy", reason="SciPy is not installed")

import functrace as ft
from functrace.errors import UnsupportedFunctionError
from functrace.ops import PRIMITIVES
from functrace.ops.special import BY_SHAPES, SLOPES, TABLE, TAILS
from functrace.xla.lowering import ROWS
from functrace.xla.rows.special import FUNCTIONS, HOST
from tests.xla.agreement import assert_agrees

EDGES = np.array([0.0, -0.0, 1, -1, 2, -2, 0.5, np.inf, -np.inf, np.nan, 1e-300, 1e300, 1e-20, 1e5])


def points(name: str, count: int) -> list[Any]:
    """Arguments of a function: edges in all combinations, and random numbers of all sizes."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    edges = np.array(list(itertools.product(EDGES, repeat=min(count, 2)))).T
    found = []
    for k in range(count):
        sizes = 10 ** rng.uniform(-8, 4, 300)
        drawn = [sizes, -sizes, 3 * rng.normal(size=300), rng.uniform(0, 1, 300)]
        column = np.concatenate(drawn)
        rng.shuffle(column)
        found.append(np.concatenate([edges[min(k, 1)], column]))
    return found


def sensitivity(function: Any, arguments: list[Any], value: Any) -> Any:
    """Change of a value for a relative change of each argument, per unit of that."""
    total = np.abs(value)
    for k, sign in itertools.product(range(len(arguments)), (1, -1)):
        moved = [x * (1 + sign * 1e-6) if k == n else x for n, x in enumerate(arguments)]
        change = np.abs(function(*moved) - value) / 1e-6
        total = total + np.where(np.isfinite(change), change, 0)
    return total


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_function_is_scipys(name: str, dtype: Any) -> None:
    ufunc = TABLE[name].eval
    with np.errstate(all="ignore"):
        arguments = [x.astype(dtype) for x in points(name, ufunc.nin)]
        expected = ufunc(*arguments)
        unit = 100 * np.finfo(dtype).eps * sensitivity(ufunc, [x.astype(float) for x in arguments],
                                                       expected.astype(float))  # fmt: skip
    found = ft.jit(lambda *xs: ufunc(*xs), backend="xla")(*arguments)
    assert found.dtype == expected.dtype
    with np.errstate(all="ignore"):
        is_same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        # (XLA makes numbers that are too small for their exponent 0)
        limit = np.finfo(dtype).tiny
        is_near = np.abs(found - expected) <= unit + limit
    bad = np.flatnonzero(~(is_same | is_near))
    shown = [(*[x[k] for x in arguments], found[k], expected[k]) for k in bad[:5]]
    assert not len(bad), f"{len(bad)} of {len(found)}: {shown}"


def test_every_special_function_is_lowered_or_has_a_reason() -> None:
    every = {*TABLE, *BY_SHAPES, *SLOPES, *TAILS}
    assert set(FUNCTIONS) | set(HOST) == every
    assert not set(FUNCTIONS) & set(HOST)
    assert {name for name in every if PRIMITIVES[name] in ROWS} == set(FUNCTIONS)


def test_unsupported_special_function_names_the_way_out() -> None:
    from scipy import special as sp

    f = lambda x: sp.gammainc(2.0, x)
    x = np.array([0.5, 1.5])
    with pytest.raises(UnsupportedFunctionError, match=r'host_callbacks=\["gammainc"\]'):
        ft.jit(f, backend="xla")(x)
    on_host = ft.jit(f, backend="xla", host_callbacks=["gammainc"])
    np.testing.assert_array_equal(on_host(x), sp.gammainc(2.0, x))


def test_complex_numbers_run_on_the_host_by_name() -> None:
    from scipy import special as sp

    x = np.array([0.5 + 1j, -2.0j])
    with pytest.raises(UnsupportedFunctionError, match="real numbers only"):
        ft.jit(lambda x: sp.erf(x), backend="xla")(x)
    on_host = ft.jit(lambda x: sp.erf(x), backend="xla", host_callbacks=["erf"])
    np.testing.assert_array_equal(on_host(x), sp.erf(x))


@pytest.mark.parametrize("name", ["gammaln", "erf", "ndtri", "rel_entr", "log_ndtr", "huber"])
def test_derivatives_and_batches_agree(name: str) -> None:
    ufunc = TABLE[name].eval
    rng = np.random.default_rng(0)
    arguments = [rng.uniform(0.1, 0.9, (2, 3)) for _ in range(ufunc.nin)]
    gradient = ft.grad(lambda *xs: np.sum(ufunc(*xs)), argnums=tuple(range(ufunc.nin)))
    assert_agrees(lambda *xs: gradient(*xs), arguments, 100)
    assert_agrees(lambda *xs: ft.vmap(lambda *row: ufunc(*row))(*xs), arguments, 100)


def test_bessel_and_polygamma_derivatives_agree() -> None:
    x = np.array([0.0, 0.5, -3.0, 39.0, 45.0])
    assert_agrees(lambda x: np.i0(x), [x], 100)
    i0: Any = np.i0
    slope = ft.vmap(ft.grad(i0))
    assert_agrees(lambda x: slope(x), [x], 100)
    bend = ft.vmap(ft.grad(ft.grad(i0)))
    assert_agrees(lambda x: bend(x), [x], 100)


@pytest.mark.parametrize("order", [0, 1, 2])
def test_polygamma_and_gamma_integrals_agree(order: int) -> None:
    from functrace.ops.gamma_slope import gamma_integral_p, polygamma
    from functrace.tracing.binding import bind

    rng = np.random.default_rng(order)
    a = np.concatenate([[0.0, -1.0, np.inf], 10 ** rng.uniform(-4, 5, 50)])
    assert_agrees(lambda a: polygamma(a, order), [a[a != 0]], 100)
    shape = 10 ** rng.uniform(-3, 3, 50)
    log_x = np.log(shape) + rng.normal(size=50) / np.sqrt(shape)
    side = np.where(log_x > np.log1p(shape), 1.0, -1.0)
    assert_agrees(lambda *xs: bind(gamma_integral_p, xs, (order,)), [shape, log_x, side], 1000)
