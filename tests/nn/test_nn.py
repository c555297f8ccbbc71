"""`functrace.nn`: values and gradients at the edges, plain arrays on plain values, derivatives
against differences.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import functrace as ft
from functrace.errors import ArgumentError, DtypeError, ShapeError
from functrace.testing import check_grads

INF = np.inf
LIMITS: dict[str, tuple[Callable[[Any], Any], tuple[float, float], tuple[float, float]]] = {
    # values, and derivatives, at -inf and inf
    "relu": (ft.nn.relu, (0.0, INF), (0.0, 1.0)),
    "relu6": (ft.nn.relu6, (0.0, 6.0), (0.0, 0.0)),
    "leaky_relu": (ft.nn.leaky_relu, (-INF, INF), (0.01, 1.0)),
    "elu": (ft.nn.elu, (-1.0, INF), (0.0, 1.0)),
    "celu": (ft.nn.celu, (-1.0, INF), (0.0, 1.0)),
    "selu": (ft.nn.selu, (-1.7580993408473766, INF), (0.0, 1.0507009873554805)),
    "gelu": (ft.nn.gelu, (0.0, INF), (0.0, 1.0)),
    "gelu exact": (lambda x: ft.nn.gelu(x, approximate=False), (0.0, INF), (0.0, 1.0)),
    "silu": (ft.nn.silu, (0.0, INF), (0.0, 1.0)),
    "sigmoid": (ft.nn.sigmoid, (0.0, 1.0), (0.0, 0.0)),
    "log_sigmoid": (ft.nn.log_sigmoid, (-INF, 0.0), (1.0, 0.0)),
    "softplus": (ft.nn.softplus, (0.0, INF), (0.0, 1.0)),
    "soft_sign": (ft.nn.soft_sign, (-1.0, 1.0), (0.0, 0.0)),
    "hard_tanh": (ft.nn.hard_tanh, (-1.0, 1.0), (0.0, 0.0)),
    "hard_sigmoid": (ft.nn.hard_sigmoid, (0.0, 1.0), (0.0, 0.0)),
    "hard_silu": (ft.nn.hard_silu, (0.0, INF), (0.0, 1.0)),
    "mish": (ft.nn.mish, (0.0, INF), (0.0, 1.0)),
    "squareplus": (ft.nn.squareplus, (0.0, INF), (0.0, 1.0)),
}


@pytest.mark.parametrize("case", LIMITS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_far_from_0_a_function_is_its_limit(case: str, dtype: Any) -> None:
    f, values, slopes = LIMITS[case]
    huge = float(np.finfo(dtype).max)
    x = np.array([-INF, INF, -huge, huge], dtype)
    with np.errstate(over="ignore"):  # a product of the largest numbers and a constant
        y, slope = f(x), ft.elementwise_grad(f)(x)
        second = ft.elementwise_grad(ft.elementwise_grad(f))(x)
    assert y.dtype == dtype and slope.dtype == dtype
    np.testing.assert_allclose(y[:2], np.array(values, dtype), rtol=2e-3)
    np.testing.assert_allclose(slope, np.array(slopes * 2, dtype), rtol=2e-3)
    np.testing.assert_array_equal(second, 0.0)
    assert not np.isnan(y).any()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", LIMITS)
def test_derivatives_agree_with_differences_in_between(case: str) -> None:
    f = LIMITS[case][0]
    check_grads(
        f, (np.array([[-4.1, -2.2, -0.7], [0.4, 1.6, 5.3]]),), order=3 if "gelu" in case else 2
    )
    check_grads(f, (0.3,), order=2)


@pytest.mark.parametrize("case", LIMITS)
def test_plain_values_give_plain_values(case: str) -> None:
    f = LIMITS[case][0]
    for x in (np.ones((2, 3)), np.ones((0, 2)), np.array([1.0]), [1.0, 2.0]):
        y = f(x)
        assert type(y) is np.ndarray
        assert y.shape == np.shape(x)
    for x in (1.5, np.float32(1.5), np.array(1.5)):
        y = f(x)
        assert isinstance(y, np.generic)
        assert y.dtype == np.asarray(x).dtype
    integers = np.asarray(f(np.array([-1, 2])))
    assert integers.dtype.kind in "fi"
    np.testing.assert_array_equal(integers, f(np.array([-1.0, 2.0])))
    with np.errstate(invalid="ignore"):
        assert np.isnan(f(np.nan))


def test_parameters_of_activations_have_derivatives() -> None:
    x = np.array([-2.0, -0.5, 0.5, 2.0])
    for f in (ft.nn.leaky_relu, ft.nn.elu, ft.nn.celu, ft.nn.squareplus):
        check_grads(f, (x, 0.7), order=2)
        check_grads(f, (x, np.array([0.3, 0.7, 1.0, 2.0])), order=1)
    at_infinity = ft.grad(lambda slope: np.sum(ft.nn.leaky_relu(np.array([INF, 1.0]), slope)))(0.1)
    assert at_infinity == 0.0


@pytest.mark.parametrize("axis", [-1, 0, (0, 1), None])
def test_softmax_and_logsumexp_equal_scipys(axis: Any) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4)) * 30
    x[0, 1] = -INF
    for name in ("softmax", "log_softmax", "logsumexp"):
        mine, theirs = getattr(ft.nn, name), getattr(scipy.special, name)
        np.testing.assert_allclose(mine(x, axis=axis), theirs(x, axis=axis), rtol=1e-12)
        assert type(mine(x, axis=-1)) is np.ndarray
        assert mine(x.astype(np.float32), axis=axis).dtype == np.float32
    assert isinstance(ft.nn.logsumexp(x), np.float64)
    assert ft.nn.logsumexp(np.zeros((0, 3)), axis=0).tolist() == [-INF] * 3


def test_rows_of_which_nothing_takes_part() -> None:
    x = np.array([[1.0, 2.0, INF], [0.0, 1.0, 2.0]])
    where = np.array([[False, False, False], [True, True, False]])
    for f, empty in ((ft.nn.softmax, 0.0), (ft.nn.log_softmax, -INF)):
        y, pullback = ft.vjp(lambda x, f=f: f(x, where=where), x)
        np.testing.assert_array_equal(y[0], empty)
        (ct,) = pullback(np.ones((2, 3)))
        np.testing.assert_array_equal(ct[0], 0.0)
        assert np.isfinite(ct).all()
        np.testing.assert_allclose(y[1, :2], f(x[1, :2]))
    assert ft.nn.logsumexp(x, axis=1, where=where)[0] == -INF
    masked = np.full((2, 3), -INF)
    assert ft.nn.logsumexp(masked) == -INF
    np.testing.assert_array_equal(ft.grad(ft.nn.logsumexp)(masked), 0.0)


@pytest.mark.parametrize("where", [None, np.array([True, False, True, True])])
def test_softmax_derivatives_agree_with_differences(where: Any) -> None:
    x = np.array([[0.3, -0.4, 1.0, 0.2], [5.0, 0.1, -3.0, 0.0]])
    check_grads(lambda x: ft.nn.softmax(x, where=where), (x,), order=2)
    check_grads(
        lambda x: np.where(
            True if where is None else where, ft.nn.log_softmax(x, where=where), 0.0
        ),
        (x,),
        order=2,
    )
    check_grads(
        lambda x: ft.nn.logsumexp(x, axis=1, b=np.array([[1.0], [0.1]]), where=where), (x,), order=2
    )
    check_grads(lambda x: ft.nn.standardize(x, where=where), (x,), order=2)
    check_grads(ft.nn.logsumexp, (x + 1j,), order=2)


def test_layer_norm() -> None:
    rng = np.random.default_rng(1)
    x, scale, bias = rng.normal(size=(2, 5)), rng.normal(size=5), rng.normal(size=5)
    centred = x - x.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * scale + bias
    np.testing.assert_allclose(ft.nn.layer_norm(x, scale, bias, epsilon=1e-3), expected, rtol=1e-12)
    check_grads(ft.nn.layer_norm, (x, scale, bias), order=2)
    np.testing.assert_array_equal(ft.nn.layer_norm(x), ft.nn.standardize(x))


def attention_by_loop(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """One head and one position at a time."""
    batch, targets, heads, features = q.shape
    out = np.zeros(q.shape)
    for b, t, n in np.ndindex(batch, targets, heads):
        g = n * k.shape[2] // heads
        logits = k[b, :, g] @ q[b, t, n] / np.sqrt(features)
        weights = scipy.special.softmax(np.where(mask[t], logits, -INF))
        out[b, t, n] = weights @ v[b, :, g]
    return out


def test_attention_is_a_loop_over_heads() -> None:
    rng = np.random.default_rng(2)
    q, k, v = (
        rng.normal(size=(2, 3, 4, 5)),
        rng.normal(size=(2, 6, 2, 5)),
        rng.normal(size=(2, 6, 2, 5)),
    )
    mask = rng.random((3, 6)) > 0.4
    found = ft.nn.dot_product_attention(q, k, v, mask=mask[None, None])
    np.testing.assert_allclose(found, attention_by_loop(q, k, v, mask), rtol=1e-12)
    np.testing.assert_allclose(
        ft.nn.dot_product_attention(q[0], k[0], v[0], mask=mask), found[0], rtol=1e-12
    )
    check_grads(lambda *x: ft.nn.dot_product_attention(*x, is_causal=True), (q, k, v), order=1)


def test_fully_masked_attention_is_0() -> None:
    x = np.ones((1, 2, 1, 3))
    mask = np.zeros((1, 1, 2, 2), bool)
    forms: list[dict[str, Any]] = [{"mask": mask}, {"bias": np.where(mask, 0.0, -INF)}]
    for given in forms:
        y, residual = ft.nn.dot_product_attention(x, x, x, **given, return_residual=True)
        np.testing.assert_array_equal(y, 0.0)
        np.testing.assert_array_equal(residual, -INF)
        f = lambda x, given=given: np.sum(ft.nn.dot_product_attention(x, x, x, **given) ** 2)
        np.testing.assert_array_equal(ft.grad(f)(x), 0.0)
    with np.errstate(invalid="ignore"):
        nans = ft.nn.dot_product_attention(np.full_like(x, np.nan), x, x, mask=~mask)
    assert np.isnan(nans).all()


def test_derivatives_at_kinks() -> None:
    for f, kinks, slopes in (
        (ft.nn.hard_tanh, [-1.0, 1.0], [0.0, 0.0]),
        (ft.nn.leaky_relu, [-0.0, 0.0], [0.01, 0.01]),
        (ft.nn.relu, [-0.0, 0.0], [0.0, 0.0]),
        (ft.nn.relu6, [0.0, 6.0], [0.0, 0.0]),
        (ft.nn.hard_silu, [-3.0, 3.0], [0.0, 1.0]),
    ):
        x = np.array(kinks)
        np.testing.assert_array_equal(ft.elementwise_grad(f)(x), slopes)
        np.testing.assert_array_equal(ft.jvp(f, (x,), (np.ones(2),))[1], slopes)


def test_second_derivative_of_mish_keeps_its_digits() -> None:
    """mpmath 1.3 with 40 digits."""
    x = np.array([-50.0, -20.0, -5.0, 0.0, 5.0, 15.0])
    expected = [
        -9.2579992702268053e-21, -3.7100765042456579e-8, -0.019850678262608361, 0.64,
        -0.0014056704791877501,
        -1.0480522954513246e-11,
    ]  # fmt: skip
    second: Any = ft.elementwise_grad(ft.elementwise_grad(ft.nn.mish))
    np.testing.assert_allclose(second(x), expected, rtol=1e-13)
    np.testing.assert_array_equal(second(np.array([999.0, 1001.0, -1001.0])), 0.0)


def test_layer_norm_of_rows_far_from_0() -> None:
    row = 1e8 + 8.0 * np.array([3.0, -1.0, 7.0, 2.0, -12.0])
    for dtype in (np.float32, np.float64):
        x = row.astype(dtype)
        np.testing.assert_array_equal(x, row)
        expected = (row - np.mean(row)) / np.sqrt(np.var(row) + 1e-5)
        np.testing.assert_allclose(ft.nn.layer_norm(x), expected, rtol=1e-6)
    np.testing.assert_array_equal(ft.nn.layer_norm(np.full(4, 1e8, np.float32)), 0.0)


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a word": (lambda: ft.nn.relu("x"), DtypeError, "the argument of relu"),
    "odd": (lambda: ft.nn.glu(np.ones(3)), ShapeError, "odd"),
    "classes": (lambda: ft.nn.one_hot(np.arange(2), 2.5), ArgumentError, "num_classes"),  # type: ignore[arg-type]
    "axes": (lambda: ft.nn.dot_product_attention(*[np.ones((2, 3))] * 3), ShapeError, "2 axes"),
    "heads": (
        lambda: ft.nn.dot_product_attention(
            np.ones((2, 3, 4)), np.ones((2, 2, 4)), np.ones((2, 2, 4))
        ),
        ShapeError,
        "no multiple",
    ),
    "mask": (
        lambda: ft.nn.dot_product_attention(*[np.ones((2, 3, 4))] * 3, mask=np.ones((1, 1))),
        DtypeError,
        "not bool",
    ),
    "value": (
        lambda: ft.nn.dot_product_attention(
            np.ones((2, 3, 4)), np.ones((2, 3, 4)), np.ones((3, 3, 4))
        ),
        ShapeError,
        "one shape",
    ),
    "dtypes": (
        lambda: ft.nn.dot_product_attention(
            np.ones((2, 3, 4)), np.ones((2, 3, 4)), np.ones((2, 3, 4), np.float32)
        ),
        DtypeError,
        "float32",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments(case: str) -> None:
    call, error, message = BAD[case]
    with pytest.raises(error, match=message):
        call()


def test_the_exact_gelu_without_scipy_raises() -> None:
    code = (
        "import sys; sys.modules['scipy'] = sys.modules['scipy.special'] = None\n"
        "import functrace as ft\n"
        "print(ft.nn.gelu(0.0))\n"
        "try: ft.nn.gelu(0.0, approximate=False)\n"
        "except ImportError as error: print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[0] == "0.0"
    assert "needs SciPy, which is not installed" in found.stdout


def test_public_names_and_aliases() -> None:
    assert sorted(ft.nn.__all__) == dir(ft.nn)
    assert ft.nn.swish is ft.nn.silu and ft.nn.hard_swish is ft.nn.hard_silu
