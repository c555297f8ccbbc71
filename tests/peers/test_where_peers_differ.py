"""Functions that a peer gets wrong, or refuses: ours beside differences, theirs recorded, so that a
change is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.oracles import differences

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:(invalid value|divide by zero):RuntimeWarning"),
]
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")
autograd = pytest.importorskip("autograd")
anp = pytest.importorskip("autograd.numpy")


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


X = np.array([0.3, -1.2, 0.7, 0.9, 0.4])
EQUAL = np.array([0.3, -1.2, 0.7, 0.9, 0.3])
MATRIX = np.array([[0.3, -1.2], [0.7, 0.9]])
REPEATED = np.diag([2.0, 2.0, 3.0])
DEFECTIVE = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 3.0]])
WEIGHTS = np.cos(np.arange(8.0))


def _pad(mode: str, **options: Any) -> Callable[[Any, Any], Any]:
    """A sum over what is padded; what "empty" leaves as it is does not count."""

    def f(xp: Any, x: Any) -> Any:
        padded = (
            xp.pad(x, (2, 1), mode=mode, **options) if mode else xp.pad(x, (2, 1), _pad_by_function)
        )
        return xp.sum(
            xp.sin(padded[2:-1] if mode == "empty" else padded)
            * (WEIGHTS[2:-1] if mode == "empty" else WEIGHTS)
        )

    return f


def _pad_by_function(vector: Any, widths: Any, axis: int, options: Any) -> Any:
    vector[: widths[0]] = vector[widths[0]] ** 2
    vector[-widths[1] :] = vector[widths[0]] * vector[widths[0] + 1]
    return vector


WRONG, REFUSED, RIGHT = "wrong", "refused", "right"
ROWS: dict[str, tuple[Callable[[Any, Any], Any], Any, str, str]] = {
    # what it is: the function, where, what JAX does, what HIPS autograd does
    "norm, inf": (lambda xp, x: xp.linalg.norm(x, ord=xp.inf), X, RIGHT, WRONG),
    "norm of a matrix, inf": (lambda xp, x: xp.linalg.norm(x, ord=xp.inf), MATRIX, RIGHT, REFUSED),
    "norm of a matrix, 1": (lambda xp, x: xp.linalg.norm(x, ord=1), MATRIX, RIGHT, REFUSED),
    "norm of a matrix, 2": (lambda xp, x: xp.linalg.norm(x, ord=2), MATRIX, RIGHT, REFUSED),
    "unique": (lambda xp, x: xp.sum(xp.unique(x) ** 2), X, WRONG, REFUSED),
    "unique_values": (lambda xp, x: xp.sum(xp.unique_values(x) ** 2), X, WRONG, REFUSED),
    "pad, constant": (_pad("constant", constant_values=0.5), X, RIGHT, RIGHT),
    **{
        f"pad, {mode}": (_pad(mode), X, RIGHT, REFUSED)
        for mode in (
            "edge",
            "linear_ramp",
            "maximum",
            "mean",
            "median",
            "minimum",
            "reflect",
            "symmetric",
            "wrap",
            "empty",
        )
    },
    "pad, reflect odd": (_pad("reflect", reflect_type="odd"), X, RIGHT, REFUSED),
    "pad, a function": (_pad(""), X, REFUSED, REFUSED),
    "irfft, odd": (
        lambda xp, x: xp.sum(xp.sin(xp.fft.irfft(xp.fft.rfft(x), 5)) ** 2),
        X,
        RIGHT,
        REFUSED,
    ),
    "interp, by values": (
        lambda xp, x: xp.interp(0.4, xp.linspace(0.0, 1.0, 5), x),
        X,
        RIGHT,
        REFUSED,
    ),
    "interp, by points": (
        lambda xp, x: xp.interp(0.1, xp.sort(x), xp.arange(5.0)),
        X,
        RIGHT,
        REFUSED,
    ),
    "interp, by where": (
        lambda xp, x: xp.interp(x[0], xp.linspace(0.0, 1.0, 5), WEIGHTS[:5]),
        X,
        RIGHT,
        REFUSED,
    ),
    "repeated eigenvalues, symmetric": (
        lambda xp, x: xp.sum(xp.linalg.eigvalsh((x + x.T) / 2) ** 3),
        REPEATED,
        RIGHT,
        REFUSED,
    ),
    "repeated eigenvalues, eigh": (
        lambda xp, x: xp.sum(xp.linalg.eigh((x + x.T) / 2)[0] ** 3),
        REPEATED,
        RIGHT,
        RIGHT,
    ),
    "repeated eigenvalues": (
        lambda xp, x: xp.sum(xp.real(xp.linalg.eigvals(x)) ** 3),
        DEFECTIVE,
        RIGHT,
        REFUSED,
    ),
    "repeated eigenvalues, eig": (
        lambda xp, x: xp.sum(xp.real(xp.linalg.eig(x)[0]) ** 3),
        DEFECTIVE,
        REFUSED,
        RIGHT,
    ),
    "repeated singular values": (
        lambda xp, x: xp.sum(xp.linalg.svd(x, compute_uv=False) ** 3),
        REPEATED,
        RIGHT,
        RIGHT,
    ),
    "det of a singular matrix": (
        lambda xp, x: xp.linalg.det(x),
        np.array([[1.0, 2.0], [2.0, 4.0]]),
        RIGHT,
        REFUSED,
    ),
    "prod with a zero": (lambda xp, x: xp.prod(x), np.array([0.0, 2.0, 3.0]), RIGHT, WRONG),
    "std of one": (lambda xp, x: x[1] ** 2 + xp.std(x[:1]), X, WRONG, RIGHT),
    "polyfit, by points": (
        lambda xp, x: xp.sum(xp.polyfit(x, WEIGHTS[:5], 1) ** 2),
        X,
        RIGHT,
        REFUSED,
    ),
}


def _directions(x: Any) -> Iterator[Any]:
    for k in range(x.size):
        yield np.eye(x.size)[k].reshape(x.shape)


@pytest.mark.parametrize("name", ROWS)
def test_ours_is_right(name: str) -> None:
    f, x, _, _ = ROWS[name]
    plain = lambda x: f(np, x)
    expected = np.array([differences(plain, [x], [d])[0] for d in _directions(x)]).reshape(x.shape)
    np.testing.assert_allclose(ft.grad(plain)(x), expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ft.jacfwd(plain)(x), expected, rtol=1e-6, atol=1e-8)
    if (
        not name.startswith("unique")
        and name != "repeated eigenvalues"
        and "eig" not in name.split()
    ):
        np.testing.assert_allclose(
            ft.jit(ft.vmap(ft.grad(plain)))(np.stack([x, x]))[1], expected, rtol=1e-6, atol=1e-8
        )


def _verdict(gradient: Callable[[], Any], expected: Any) -> str:
    try:
        found = np.asarray(gradient())
    except (NotImplementedError, AssertionError, TypeError, AttributeError, np.linalg.LinAlgError):
        return REFUSED
    return RIGHT if np.allclose(found, expected, rtol=1e-6, atol=1e-8) else WRONG


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ROWS)
def test_results_of_peers_are_as_recorded(name: str) -> None:
    f, x, of_jax, of_autograd = ROWS[name]
    expected = ft.grad(lambda x: f(np, x))(x)
    assert _verdict(lambda: jax.grad(lambda x: f(jnp, x))(x), expected) == of_jax
    assert _verdict(lambda: autograd.grad(lambda x: f(anp, x))(x), expected) == of_autograd


def test_equal_elements_share_their_derivative() -> None:
    f = lambda xp, x: xp.sum(xp.unique(x) ** 2)
    np.testing.assert_allclose(ft.grad(lambda x: f(np, x))(EQUAL), [0.3, -2.4, 1.4, 1.8, 0.3])
    np.testing.assert_allclose(jax.grad(lambda x: f(jnp, x))(EQUAL), np.zeros(5))
