"""`functrace.nn` against ``jax.nn``: values, dtypes, derivatives of two orders, `vmap` and `jit`,
on a grid of functions and keywords; at kinks and at infinity, too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft

jax = pytest.importorskip("jax")
jnp = jax.numpy


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


RNG = np.random.default_rng(7)
X = RNG.normal(size=(3, 4)) * 3
MASK = np.array([[True, False, True, True], [False, False, False, True], [True, True, False, True]])
EMPTY = MASK & np.array([[True], [False], [True]])
EDGES = np.array([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0, 40.0, -40.0, 800.0, -800.0, np.nan])

PYTORCHS = {"hard_tanh": [-1.0, 1.0], "leaky_relu": [0.0], "leaky_relu(0.3)": [0.0]}
"""Kinks at which the derivative is PyTorch's, and not JAX's: `test_torch_nn.py`."""

ELEMENTWISE: dict[str, Callable[[Any, Any], Any]] = {
    **{
        name: (lambda nn, x, name=name: getattr(nn, name)(x))
        for name in (
            "relu", "relu6", "leaky_relu", "elu", "celu", "selu", "gelu", "silu", "swish",
            "sigmoid", "log_sigmoid",
            "softplus", "soft_sign", "hard_tanh", "hard_sigmoid", "hard_silu", "hard_swish",
            "mish", "squareplus",
        )
    },
    "leaky_relu(0.3)": lambda nn, x: nn.leaky_relu(x, 0.3),
    "elu(2)": lambda nn, x: nn.elu(x, 2.0),
    "celu(0.5)": lambda nn, x: nn.celu(x, alpha=0.5),
    "gelu exact": lambda nn, x: nn.gelu(x, approximate=False),
    "squareplus(1)": lambda nn, x: nn.squareplus(x, 1.0),
}  # fmt: skip

ALONG: dict[str, Callable[[Any, Any], Any]] = {
    "glu": lambda nn, x: nn.glu(x),
    "softmax": lambda nn, x: nn.softmax(x),
    "softmax axis=0": lambda nn, x: nn.softmax(x, axis=0),
    "softmax axes": lambda nn, x: nn.softmax(x, axis=(0, 1)),
    "softmax where": lambda nn, x: nn.softmax(x, where=MASK),
    "softmax nowhere": lambda nn, x: nn.softmax(x, where=EMPTY),
    "log_softmax": lambda nn, x: nn.log_softmax(x),
    "log_softmax axis=0": lambda nn, x: nn.log_softmax(x, axis=0),
    "logsumexp": lambda nn, x: nn.logsumexp(x),
    "logsumexp axis": lambda nn, x: nn.logsumexp(x, axis=1),
    "logsumexp keepdims": lambda nn, x: nn.logsumexp(x, axis=(0,), keepdims=True),
    "logsumexp b": lambda nn, x: nn.logsumexp(x, axis=1, b=np.array([1.0, 0.0, 2.0, 3.0])),
    "logsumexp sign": lambda nn, x: nn.logsumexp(
        x, axis=1, b=np.array([1.0, 0.0, -9.0, 3.0]), return_sign=True
    ),
    "logsumexp where": lambda nn, x: nn.logsumexp(x, axis=1, where=MASK),
    "standardize": lambda nn, x: nn.standardize(x),
    "standardize axis=0": lambda nn, x: nn.standardize(x, axis=0, epsilon=0.1),
    "standardize axes": lambda nn, x: nn.standardize(x, axis=(0, 1)),
    "standardize where": lambda nn, x: nn.standardize(x, axis=(0, 1), where=MASK),
    "standardize mean": lambda nn, x: nn.standardize(x, mean=x * 0.1, variance=x * x),
    "attention": lambda nn, x: nn.dot_product_attention(*heads(x)),
    "attention causal": lambda nn, x: nn.dot_product_attention(
        *heads(x), is_causal=True, scale=0.5
    ),
    "attention window": lambda nn, x: nn.dot_product_attention(*heads(x), local_window_size=(1, 0)),
    "attention mask": lambda nn, x: nn.dot_product_attention(
        *heads(x), mask=(MASK[:, :3] | (np.eye(3) > 0))[None, None]
    ),
    "attention bias": lambda nn, x: nn.dot_product_attention(*heads(x), bias=x[None, None, :, :3]),
}


def heads(x: Any) -> tuple[Any, Any, Any]:
    """Queries of four heads, keys and values of two, from one matrix."""
    k = x.reshape(1, 3, 2, 2)
    q = (x[..., None] * np.array([0.7, -0.4])).reshape(1, 3, 4, 2)
    return q, k, k * 0.5 + 1.0


def loss_of(f: Callable[[Any], Any], module: Any) -> Callable[[Any], Any]:
    """A number that depends on all elements of a result."""

    def loss(x: Any) -> Any:
        leaves = ft.tree.leaves(f(x))
        return sum(
            module.sum(y * module.cos(module.arange(y.size).reshape(y.shape))) for y in leaves
        )

    return loss


def assert_close(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    found, expected = ft.tree.leaves(found), jax.tree.leaves(expected)
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("case", [*ELEMENTWISE, *ALONG])
def test_values_and_derivatives(case: str) -> None:
    of = (ELEMENTWISE | ALONG)[case]
    mine, theirs = lambda x: of(ft.nn, x), lambda x: of(jax.nn, x)
    tolerance = 1e-4 if "attention" in case else 1e-6  # its softmax is in single precision there
    assert_close(mine(X), theirs(X), tolerance)
    batch = np.stack([X, X * 0.5])
    np.testing.assert_allclose(
        *(
            np.asarray(ft.tree.leaves(y)[0])
            for y in (
                ft.jit(ft.vmap(mine))(batch),
                ft.tree.map(lambda *rows: np.stack(rows), mine(X), mine(batch[1])),
            )
        )
    )
    first, second = loss_of(mine, np), loss_of(theirs, jnp)
    slope, along = jax.jvp(jax.grad(second), (X,), (batch[1],))
    assert_close(ft.grad(first)(X), slope, tolerance)
    assert_close(ft.hvp(first, (X,), (batch[1],)), along, tolerance)
    np.testing.assert_allclose(
        ft.vmap(ft.grad(first))(batch)[0], slope, rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("case", ELEMENTWISE)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges(case: str, dtype: str) -> None:
    """At kinks, and far from 0; not beyond, where JAX is nan."""
    of = ELEMENTWISE[case]
    x = EDGES.astype(dtype)
    tolerance = 1e-6 if dtype == "float64" else 1e-5
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_close(of(ft.nn, x), of(jax.nn, x), tolerance)
        if dtype == "float32":
            return
        mine = ft.grad(lambda x: np.sum(of(ft.nn, x)[:-1]))(x)
        theirs = np.asarray(jax.grad(lambda x: jnp.sum(of(jax.nn, x)[:-1]))(x))
    same = ~np.isin(x, PYTORCHS.get(case, [np.nan])) & ~np.isnan(x)
    np.testing.assert_allclose(mine[same], theirs[same], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", ["relu", "hard_tanh", "relu6"])
def test_integers(case: str) -> None:
    x = np.array([-3, 0, 2, 9])
    np.testing.assert_array_equal(ELEMENTWISE[case](ft.nn, x), ELEMENTWISE[case](jax.nn, x))


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("dtype", [None, np.float32, np.int64, bool])
def test_one_hot(axis: int, dtype: Any) -> None:
    x = np.array([[0, 2, 3], [-1, 1, 1]])
    assert_close(
        ft.nn.one_hot(x, 3, dtype=dtype, axis=axis), jax.nn.one_hot(x, 3, dtype=dtype, axis=axis)
    )
    assert_close(ft.vmap(lambda row: ft.nn.one_hot(row, 3))(x), jax.nn.one_hot(x, 3))


def test_attention_with_lengths() -> None:
    q, k, v = RNG.normal(size=(3, 2, 5, 2, 4))
    lengths = {
        "query_seq_lengths": np.array([3, 5], np.int32),
        "key_value_seq_lengths": np.array([5, 2], np.int32),
    }
    found = ft.nn.dot_product_attention(q, k, v, **lengths, return_residual=True)
    expected = jax.nn.dot_product_attention(q, k, v, **lengths, return_residual=True)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1][1], expected[1][1], rtol=1e-5)
