"""Four ways to a second derivative: hessian, jacfwd(jacrev), jacrev(jacrev), jacfwd(jacfwd) and
jacrev(jacfwd).
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.errors import ArgumentError
from tests.compositions.functions import BATCH, W, X, jacobian_by_differences, scalar, vector
from tests.laws.programs import Recipe, programs, seeds
from tests.oracles import assert_same


@scalar
def test_hessian_equals_every_nesting(f: Any) -> None:
    expected = jacobian_by_differences(ft.grad(f), X)
    for found in (
        ft.hessian(f)(X),
        ft.jacfwd(ft.jacrev(f))(X),
        ft.jacrev(ft.jacrev(f))(X),
        ft.jacfwd(ft.jacfwd(f))(X),
        ft.jacrev(ft.jacfwd(f))(X),
        ft.jacfwd(ft.grad(f))(X),
        ft.jacrev(ft.grad(f))(X),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(found, found.T, rtol=1e-9, atol=1e-9)


MODES: list[Any] = [
    "forward-over-reverse", "reverse-over-reverse", "forward-over-forward", "reverse-over-forward"
]  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "native", "xla"])
@pytest.mark.parametrize("mode", MODES)
@scalar
def test_modes_of_hessians(f: Any, mode: Any, backend: Any) -> None:
    pytest.importorskip({"native": "llvmlite", "xla": "jax"}.get(backend, "numpy"))
    expected = jacobian_by_differences(ft.grad(f), X)
    found = ft.hessian(f, mode=mode)
    close: Any = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(ft.jit(found, backend=backend)(X), expected, **close)
    batch = ft.jit(ft.vmap(found), backend=backend)(BATCH)
    rows = [jacobian_by_differences(ft.grad(f), x) for x in BATCH]
    np.testing.assert_allclose(batch, rows, **close)
    third = ft.jit(ft.jacfwd(found), backend=backend)(X)
    np.testing.assert_allclose(third, jacobian_by_differences(found, X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_modes_have_the_same_pytrees(mode: Any) -> None:
    def f(p: Any, y: Any) -> Any:
        return {"a": np.sin(p["w"] @ p["x"]) * y, "b": np.sum(p["x"]) ** 3}, np.sum(y)

    point = {"w": W, "x": X}
    expected, _ = ft.hessian(f, (0, 1), has_aux=True)(point, 2.0)
    found, aux = ft.hessian(f, (0, 1), has_aux=True, mode=mode)(point, 2.0)
    assert ft.tree.structure(found) == ft.tree.structure(expected) and aux == 2.0
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-13)
    holomorphic = ft.hessian(lambda z: np.sum(np.exp(z) * z[0]), holomorphic=True, mode=mode)
    z = X + 0.5j
    real = ft.hessian(
        lambda x: np.sum(np.exp(x + 0.5j) * (x[0] + 0.5j)), mode="forward-over-forward"
    )
    np.testing.assert_allclose(holomorphic(z), real(X), rtol=1e-12)


@given(programs(), seeds(), st.sampled_from(MODES[1:]))
def test_modes_agree_on_random_programs(recipe: Recipe, seed: int, mode: Any) -> None:
    arguments = recipe.arguments(seed)
    argnums = [k for k, x in enumerate(arguments) if np.asarray(x).dtype.kind == "f"]

    def f(*arguments: Any) -> Any:
        leaves = ft.tree.leaves(recipe(*arguments))
        return sum([np.sum(np.sin(x)) for x in leaves if x.dtype.kind == "f"], np.sum(0.0))

    expected = ft.tree.leaves(ft.hessian(f, argnums)(*arguments))
    found = ft.tree.leaves(ft.hessian(f, argnums, mode=mode)(*arguments))
    for a, b in zip(found, expected, strict=True):
        assert_same(a, b, rtol=1e-9, atol=1e-9)


def test_modes_for_what_one_direction_lacks() -> None:
    @ft.custom_vjp
    def cube(x: Any) -> Any:
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x**2 * ct,))
    found = ft.hessian(lambda x: np.sum(cube(x)), mode="reverse-over-reverse")(X)
    np.testing.assert_allclose(found, np.diag(6 * X), rtol=1e-12, atol=1e-15)

    def loop(x: Any) -> Any:
        return np.sum(ft.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, x))[1])

    found = ft.hessian(loop, mode="forward-over-forward")(X)
    np.testing.assert_allclose(found, np.diag(12 * X**2), rtol=1e-12)
    wrong: Any = "sparse"
    with pytest.raises(ArgumentError, match="sparse_hessian returns a sparse array"):
        ft.hessian(loop, mode=wrong)


def test_jacfwd_equals_jacrev() -> None:
    expected = jacobian_by_differences(vector, X)
    np.testing.assert_allclose(ft.jacfwd(vector)(X), expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ft.jacrev(vector)(X), expected, rtol=1e-8, atol=1e-9)


def test_jacobian_shapes_are_output_then_input() -> None:
    f = lambda w: np.stack([np.tanh(w) @ X, w @ X])
    expected = jacobian_by_differences(f, W)
    assert expected.shape == (2, 3, 3, 3)
    np.testing.assert_allclose(ft.jacfwd(f)(W), expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ft.jacrev(f)(W), expected, rtol=1e-8, atol=1e-9)


def test_hessian_of_a_vector_function() -> None:
    found = ft.hessian(vector)(X)
    assert found.shape == (2, 3, 3)
    np.testing.assert_allclose(
        found, jacobian_by_differences(ft.jacrev(vector), X), rtol=1e-7, atol=1e-8
    )


def test_jacobians_of_pytrees() -> None:
    def f(p: Any) -> Any:
        return {"y": p["w"] @ p["x"], "z": np.sum(p["x"])}

    point = {"w": W, "x": X}
    for transform in (ft.jacfwd, ft.jacrev):
        found = transform(f)(point)
        np.testing.assert_allclose(found["y"]["x"], W, rtol=1e-13)
        np.testing.assert_allclose(
            found["y"]["w"], np.einsum("ij,k->ijk", np.eye(3), X), rtol=1e-13
        )
        np.testing.assert_allclose(found["z"]["x"], np.ones(3), rtol=1e-13)
        np.testing.assert_array_equal(found["z"]["w"], np.zeros((3, 3)))


def test_elementwise_grad_to_third_order() -> None:
    x = np.linspace(-1.0, 1.0, 5)
    first = ft.elementwise_grad(np.sin)
    np.testing.assert_allclose(first(x), np.cos(x), rtol=1e-14)
    np.testing.assert_allclose(ft.elementwise_grad(first)(x), -np.sin(x), rtol=1e-14)
    np.testing.assert_allclose(
        ft.elementwise_grad(ft.elementwise_grad(first))(x), -np.cos(x), rtol=1e-14
    )


def test_the_jacobian_of_one_element_is_a_gradient() -> None:
    for f, shape in (
        (np.sum, (3,)),
        (lambda x: np.sum(x)[None, None], (1, 1, 3)),
        (lambda x: {"a": x[:0], "b": x @ x}, None),
    ):
        found = ft.jacrev(f)(X)
        assert shape is None or found.shape == shape
        for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(ft.jacfwd(f)(X)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13)
