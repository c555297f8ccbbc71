"""Users' functions annotated with jaxtyping and checked by beartype: the same on arrays and on
traced values, everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from beartype import beartype
from jaxtyping import Bool, Complex, Float, Int, Shaped, TypeCheckError, jaxtyped

import functrace as ft


@jaxtyped(typechecker=beartype)
def predict(w: Float[ft.Array, "n d"], x: Float[ft.Array, " d"]) -> Float[ft.Array, " n"]:
    return np.tanh(w @ x)


@jaxtyped(typechecker=beartype)
def loss(w: Float[ft.Array, "n d"], x: Float[ft.Array, " d"]) -> Float[ft.Array, ""]:
    return np.sum(predict(w, x) ** 2)


@jaxtyped(typechecker=beartype)
def pick(
    x: Float[ft.Array, "*b d"], k: Int[ft.Array, " m"], where: Bool[ft.Array, " d"]
) -> Shaped[ft.Array, "*b m"]:
    return np.where(where, x, 0.0)[..., k]


@jaxtyped(typechecker=beartype)
def rotate(z: Complex[ft.Array, " n"]) -> Complex[ft.Array, " n"]:
    return z * 1j


W = np.array([[0.5, -1.0], [1.5, 0.75], [-0.25, 0.5]])
X = np.array([0.3, -0.7])

CALLS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda f: f(W, X),
    "grad": lambda f: ft.grad(lambda w, x: np.sum(f(w, x)))(W, X),
    "value_and_grad": lambda f: ft.value_and_grad(lambda w, x: np.sum(f(w, x)), argnums=(0, 1))(
        W, X
    ),
    "jvp": lambda f: ft.jvp(f, (W, X), (W, X)),
    "vjp": lambda f: ft.vjp(f, W, X),
    "vmap": lambda f: ft.vmap(f, in_axes=(None, 0))(W, np.stack([X, X, X])),
    "trace": lambda f: ft.trace(f)(W, X),
    "vmap of grad": lambda f: ft.vmap(ft.grad(lambda w, x: np.sum(f(w, x))), in_axes=(None, 0))(
        W, np.stack([X, X])
    ),
    "jvp of grad": lambda f: ft.jvp(ft.grad(lambda w, x: np.sum(f(w, x))), (W, X), (W, X)),
}
everywhere = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


@everywhere
def test_annotated_functions_run(call: Any) -> None:
    call(predict)
    call(loss)


@everywhere
def test_wrong_rank_is_refused(call: Any) -> None:
    @jaxtyped(typechecker=beartype)
    def wrong(w: Float[ft.Array, " n"], x: Float[ft.Array, " d"]) -> Float[ft.Array, " d"]:
        return x

    with pytest.raises(TypeCheckError):
        call(wrong)


@everywhere
def test_sizes_that_do_not_agree_are_refused(call: Any) -> None:
    @jaxtyped(typechecker=beartype)
    def wrong(w: Float[ft.Array, "n d"], x: Float[ft.Array, " n"]) -> Float[ft.Array, "n d"]:
        return w

    with pytest.raises(TypeCheckError):
        call(wrong)


@everywhere
def test_wrong_dtype_is_refused(call: Any) -> None:
    @jaxtyped(typechecker=beartype)
    def wrong(w: Int[ft.Array, "n d"], x: Float[ft.Array, " d"]) -> Float[ft.Array, " d"]:
        return x

    with pytest.raises(TypeCheckError):
        call(wrong)


@everywhere
def test_wrong_result_is_refused(call: Any) -> None:
    @jaxtyped(typechecker=beartype)
    def wrong(w: Float[ft.Array, "n d"], x: Float[ft.Array, " d"]) -> Float[ft.Array, " d"]:
        return w @ x

    with pytest.raises(TypeCheckError):
        call(wrong)


def test_annotated_values_are_right() -> None:
    expected = 2 * np.tanh(W @ X) * (1 - np.tanh(W @ X) ** 2)
    np.testing.assert_allclose(ft.grad(loss)(W, X), np.outer(expected, X), rtol=1e-12)


def test_integers_bools_complex_and_variadic_axes() -> None:
    k, where = np.array([1, 0, 1]), np.array([True, False])
    np.testing.assert_array_equal(pick(X, k, where), [0.0, 0.3, 0.0])
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(pick(x, k, where)))(X), [1.0, 0.0])
    rows = ft.vmap(pick, in_axes=(0, None, None))(W, k, where)
    np.testing.assert_array_equal(rows, pick(W, k, where))
    ft.trace(pick)(W, k, where).check()
    z = np.array([1.0 + 2.0j])
    np.testing.assert_array_equal(ft.jvp(rotate, (z,), (z,))[1], z * 1j)


def test_numpy_scalars_and_traced_values_are_arrays() -> None:
    assert isinstance(np.float64(1.0), ft.Array)
    assert isinstance(np.ones(2), ft.Array)
    assert not isinstance([1.0], ft.Array)
    seen: list[bool] = []
    ft.grad(lambda x: (seen.append(isinstance(x, ft.Array)), x * x)[1])(1.0)
    assert seen == [True]


@pytest.mark.parametrize(
    "annotation", [np.ndarray, Float[np.ndarray, " d"]], ids=["plain", "with a shape"]
)
def test_an_annotation_that_rejects_tracers_suggests_another(annotation: Any) -> None:
    def half(x: Any) -> Any:
        return x / 2

    half.__annotations__["x"] = annotation
    checked = jaxtyped(typechecker=beartype)(half)
    np.testing.assert_array_equal(checked(X), X / 2)
    for transform in (ft.jit, ft.jacrev, ft.vmap):
        with pytest.raises(Exception, match="half") as caught:
            transform(checked)(X)
        assert type(caught.value).__module__.partition(".")[0] in ("beartype", "jaxtyping")
        assert any("annotate functrace.Array" in note for note in caught.value.__notes__)
    with pytest.raises(Exception, match="half") as caught:
        ft.grad(lambda x: checked([1.0]))(X)  # not because of a traced value
    assert not getattr(caught.value, "__notes__", None)


def test_a_tracer_is_not_an_instance_of_ndarray() -> None:
    seen: list[Any] = []
    ft.jit(
        lambda x: seen.extend(
            [isinstance(x, np.ndarray), x.__class__ is type(x), isinstance(x, ft.Array)]
        )
    )(X)
    assert seen == [False, True, True]


def test_plain_beartype_decoration() -> None:
    @beartype
    def half(x: Float[ft.Array, " d"]) -> Float[ft.Array, " d"]:
        return x / 2

    np.testing.assert_array_equal(ft.jacrev(half)(X), np.eye(2) / 2)
