"""Four ways to a second derivative: hessian, jacfwd(jacrev), jacrev(jacrev), jacfwd(jacfwd) and
jacrev(jacfwd).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import functrace as ft
from tests.compositions.functions import W, X, jacobian_by_differences, scalar, vector


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
