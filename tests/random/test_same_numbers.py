"""A key draws the same numbers wherever it is drawn from: eagerly, staged, mapped, looped,
recomputed, in any thread.
"""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ir import Program
from tests.random.families import FAMILIES, Family

rnd = ft.random
every = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
with_parameters = pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f.at], ids=lambda family: family.name
)
KEY = rnd.key(11)
KEYS = rnd.split(KEY, 4)


def assert_same(found: Any, expected: Any) -> None:
    """Bit for bit; but what BLAS and SIMD round differently in arrays of other shapes."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    else:
        np.testing.assert_array_equal(found, expected)


@every
def test_jit(family: Family) -> None:
    compiled = ft.jit(family)
    for key in KEYS[:2]:
        assert_same(compiled(key), family(key))
    assert compiled.cache_info().misses == 1  # the key is an operand


@pytest.mark.sampled(2)
@every
def test_vmap_over_keys(family: Family) -> None:
    expected = np.stack([family(key) for key in KEYS])
    assert_same(ft.vmap(family)(KEYS), expected)
    assert_same(ft.jit(ft.vmap(family))(KEYS), expected)
    nested = ft.vmap(ft.vmap(family))(np.reshape(KEYS, (2, 2, 2)))
    assert_same(np.reshape(nested, expected.shape), expected)
    assert_same(ft.vmap(family, in_axes=1)(KEYS.T), expected)


@with_parameters
def test_vmap_over_parameters_of_one_key(family: Family) -> None:
    """Every example has the same noise, as in a loop."""
    parameters = [np.linspace(x * 0.98, x, 3) for x in family.at]
    expected = np.stack([family(KEY, *row) for row in zip(*parameters, strict=True)])
    axes = (None, *(0 for _ in parameters))
    assert_same(ft.vmap(family, in_axes=axes)(KEY, *parameters), expected)
    both = [family(key, *row) for key, *row in zip(KEYS, *parameters, strict=False)]
    assert_same(ft.vmap(family)(KEYS[:3], *parameters), np.stack(both))


@every
def test_scan(family: Family) -> None:
    _, found = ft.scan(lambda carry, key: (carry, family(key)), 0.0, KEYS)
    assert_same(found, np.stack([family(key) for key in KEYS]))


@pytest.mark.parametrize(
    "family", [f for f in FAMILIES if f(KEY).dtype.kind == "f"], ids=lambda family: family.name
)
def test_draws_under_grad_of_another_argument(family: Family) -> None:
    """Draws of plain keys are plain operations of the program of a gradient, and as eager."""
    expected = np.sum(family(KEY))
    assert_same(ft.grad(lambda x: np.sum(x * family(KEY)))(2.0), expected)
    assert_same(ft.jit(ft.grad(lambda x: np.sum(x * family(KEY))))(2.0), expected)
    assert_same(ft.grad(ft.grad(lambda x: np.sum(x * x * family(KEY)) / 2))(2.0), expected)
    assert_same(ft.jvp(lambda x: x * family(KEY), (2.0,), (1.0,))[1], family(KEY))


@pytest.mark.sampled(8)
@every
def test_serialized_programs(family: Family) -> None:
    """A program that was printed and read again, and its source without functrace, draw the same."""
    program = ft.trace(family)(KEY)
    program.check()
    expected = family(KEY)
    assert_same(ft.evaluate(Program.parse(program.text()), KEY), expected)
    assert_same(ft.evaluate(Program.from_json(program.to_json()), KEY), expected)
    assert_same(ft.evaluate(pickle.loads(pickle.dumps(program)), KEY), expected)
    names: dict[str, Any] = {}
    exec(program.as_python("drawn"), names)
    assert_same(names["drawn"](KEY), expected)


def loss(w: Any, key: Any) -> Any:
    """A network with dropout, noise and a categorical choice, whose steps have keys of their own."""
    first, second, third = rnd.split(key, 3)
    hidden = np.tanh(w * rnd.normal(first, (4, 3)))
    kept = np.where(rnd.bernoulli(second, 0.5, (4, 3)), hidden / 0.5, 0.0)
    scale = rnd.gamma(third, np.exp(w), (3,))
    chosen = rnd.categorical(rnd.fold_in(third, 1), np.zeros(4))
    return np.sum(kept * scale) + kept[chosen, 0]


W = np.array([0.3, -0.5, 0.8])


def test_the_show() -> None:
    """Eager, jit, vmap, scan, checkpoint, four threads and nested gradients see the same numbers."""
    key = rnd.key(5)
    value, gradient = ft.value_and_grad(loss)(W, key)
    assert_same(value, loss(W, key))
    seen: dict[str, Any] = {}
    seen["jit"] = ft.jit(ft.value_and_grad(loss))(W, key)
    seen["checkpoint"] = ft.value_and_grad(ft.checkpoint(loss))(W, key)
    seen["jit of checkpoint"] = ft.jit(ft.value_and_grad(ft.checkpoint(loss)))(W, key)
    mapped = ft.vmap(ft.value_and_grad(loss), in_axes=(None, 0))(W, np.stack([key, rnd.key(6)]))
    seen["vmap"] = (mapped[0][0], mapped[1][0])
    looped = ft.scan(
        lambda total, k: (total, ft.value_and_grad(loss)(W, k)), 0.0, np.stack([rnd.key(6), key])
    )[1]
    seen["scan"] = (looped[0][1], looped[1][1])
    seen["checkpoint in scan"] = ft.value_and_grad(
        lambda w: ft.scan(
            lambda total, k: (total + ft.checkpoint(loss)(w, k), None), 0.0, key[None]
        )[0]
    )(W)
    for name, (y, g) in seen.items():
        np.testing.assert_allclose(y, value, rtol=1e-13, err_msg=name)
        np.testing.assert_allclose(g, gradient, rtol=1e-12, err_msg=name)
    second = ft.hessian(loss)(W, key)
    np.testing.assert_allclose(ft.jit(ft.hessian(ft.checkpoint(loss)))(W, key), second, rtol=1e-11)


def test_threads() -> None:
    keys = rnd.split(rnd.key(1), 200)
    expected = [loss(W, key) for key in keys]
    start = threading.Barrier(4)

    def work(number: int) -> list[Any]:
        start.wait()
        return [loss(W, key) for key in (keys if number % 2 else keys[::-1])]

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    for number, values in enumerate(found):
        np.testing.assert_array_equal(values if number % 2 else values[::-1], expected)


def test_a_draw_inside_of_a_draw() -> None:
    """An array-like that draws itself when NumPy reads it, as a signal handler might, gets a
    generator of its own.
    """
    from functrace.ops import random as ops

    def draw(generator: np.random.Generator, shape: Any, _dtype: Any) -> Any:
        before = generator.standard_normal()
        rnd.uniform(rnd.key(9), (3,))
        return np.full(shape, before + generator.standard_normal())

    generator = np.random.Generator(np.random.Philox(key=KEY))
    expected = generator.standard_normal() + generator.standard_normal()
    assert ops._drawn(draw, KEY, (0, 0), (), np.dtype(float)) == expected


def test_python_numbers_as_parameters() -> None:
    for draw, x in ((rnd.gamma, 2.5), (rnd.poisson, 3), (rnd.lognormal, 1), (rnd.binomial, 7)):
        rest = (0.3,) if draw is rnd.binomial else ()
        call: Any = lambda x, draw=draw, rest=rest: draw(KEY, x, *rest)
        assert_same(ft.jit(call)(x), call(x))
        _, found = ft.scan(lambda carry, key, call=call: (carry, call(carry)), x, KEYS)
        assert_same(found, np.stack([call(x)] * 4))


def test_checkpoint_redraws_instead_of_saving() -> None:
    """If the key is an argument: what a plain key draws is a plain array."""
    noisy = ft.checkpoint(lambda x, key: np.sum(np.sin(x * rnd.normal(key, (1000,)))))
    kept = sum(residual.nbytes for residual in ft.saved_residuals(noisy)(2.0, KEY))
    assert kept < 100
    x = rnd.normal(KEY, (1000,))
    np.testing.assert_allclose(ft.grad(noisy)(2.0, KEY), np.sum(np.cos(2.0 * x) * x), rtol=1e-12)


def digest(family: Family) -> str:
    """A short name of some numbers, without what the last bits of a platform's functions change."""
    drawn = np.asarray(family(KEY))
    if drawn.dtype.kind == "f":
        drawn = np.array([f"{x:.6e}" for x in drawn.ravel()])
    return hashlib.sha256(np.ascontiguousarray(drawn).tobytes()).hexdigest()[:8]


def test_numbers_are_stable_across_versions() -> None:
    """With every version of NumPy: who publishes a key publishes these numbers. A change here is a
    change for users.
    """
    key = rnd.key(0)
    generator = np.random.Generator(np.random.Philox(0))
    np.testing.assert_array_equal(rnd.normal(key, (9,)), generator.standard_normal(9))
    np.testing.assert_array_equal(
        rnd.uniform(key, (9,)), np.random.Generator(np.random.Philox(0)).random(9)
    )
    words = np.random.Philox(0).random_raw(9)
    np.testing.assert_array_equal(rnd.bits(key, (9,)), words)
    np.testing.assert_array_equal(rnd.uniform(key, (9,)), (words >> np.uint64(11)) * 2.0**-53)
    assert {family.name: digest(family) for family in FAMILIES} == NUMBERS


NUMBERS = {
    "uniform": "9977b895", "uniform/bounds": "b165bcf2", "normal": "43299199",
    "exponential": "203286dc",
    "gumbel": "12402c80", "logistic": "460287bc", "laplace": "93672923", "cauchy": "5070faed",
    "maxwell": "e4757a0a",
    "double_sided_maxwell": "cab3033b", "rayleigh": "46ccf480", "pareto": "4249a85f",
    "weibull_min": "91337dcd",
    "lognormal": "989df8c8", "triangular": "8d8edb33", "truncated_normal": "42041156",
    "truncated_normal/tail": "51270796", "truncated_normal/open": "a5ae7934", "wald": "fcc46414",
    "gamma": "b551eb03",
    "gamma/small": "8f7a4565", "loggamma": "ddf11e8a", "chisquare": "a792fb8a", "f": "dff46665",
    "t": "46d0a732",
    "beta": "d4041da6", "dirichlet": "924bd6a9", "generalized_normal": "b476af69",
    "ball": "20816fb5",
    "multivariate_normal": "190a545d", "multivariate_normal/eigh": "1b254344",
    "multivariate_normal/svd": "fc813c8e",
    "orthogonal": "9bdc9916", "orthogonal/wide": "661e66ba", "bits": "0ac0a476",
    "bits/uint16": "fe7edb18",
    "randint": "46217fce", "rademacher": "19e8bcd7", "bernoulli": "8855508a", "poisson": "18c6b7b6",
    "poisson/large": "fd843be2", "binomial": "7f35a42c", "geometric": "2f9d4922",
    "multinomial": "d96c9599",
    "categorical": "fbd81d3c", "categorical/stack": "d30f23b9", "categorical/different": "c2535e7e",
    "permutation": "1fdca0df", "permutation/things": "2cca0353",
    "permutation/independent": "3ff69e1f",
    "choice": "039383d9", "choice/different": "99a52254", "choice/p": "c8a4ea9e",
    "choice/p different": "10c7ba3b",
    "split": "e168fd93", "fold_in": "afd76072",
}  # fmt: skip


def test_another_process_draws_the_same() -> None:
    code = "import functrace as ft; print(ft.random.gamma(ft.random.key(3), 0.4, (3,)).tolist())"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(rnd.gamma(rnd.key(3), 0.4, (3,)).tolist())
