"""grad of vmap, vmap of grad, and deeper mixtures of the two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.compositions.functions import BATCH, V, W, X, jacobian_by_differences, scalar, vector


@scalar
def test_vmap_of_grad_equals_loop(f: Any) -> None:
    np.testing.assert_allclose(
        ft.vmap(ft.grad(f))(BATCH), np.stack([ft.grad(f)(x) for x in BATCH]), rtol=1e-12, atol=1e-14
    )


@scalar
def test_grad_of_vmap_equals_loop(f: Any) -> None:
    total = lambda batch: np.sum(ft.vmap(f)(batch))
    np.testing.assert_allclose(
        ft.grad(total)(BATCH), np.stack([ft.grad(f)(x) for x in BATCH]), rtol=1e-12, atol=1e-14
    )


def test_grad_of_vmap_over_shared_parameters() -> None:
    def loss(w: Any, batch: Any) -> Any:
        return np.sum(ft.vmap(lambda x: np.sum(np.tanh(w @ x)))(batch))

    expected = sum(ft.grad(lambda w: np.sum(np.tanh(w @ x)))(W) for x in BATCH)
    np.testing.assert_allclose(ft.grad(loss)(W, BATCH), expected, rtol=1e-12)
    np.testing.assert_allclose(
        ft.grad(loss)(W, BATCH),
        jacobian_by_differences(lambda w: loss(w, BATCH), W),
        rtol=1e-7,
        atol=1e-8,
    )


def test_per_example_gradients_of_parameters() -> None:
    def loss(p: Any, x: Any, y: Any) -> Any:
        return (np.sum(np.tanh(p["w"] @ x) + p["b"]) - y) ** 2

    parameters = {"w": W, "b": np.array([0.1, 0.2, 0.3])}
    targets = np.arange(4.0)
    found = ft.vmap(ft.grad(loss), in_axes=(None, 0, 0))(parameters, BATCH, targets)
    for k in range(4):
        one = ft.grad(loss)(parameters, BATCH[k], targets[k])
        np.testing.assert_allclose(found["w"][k], one["w"], rtol=1e-12)
        np.testing.assert_allclose(found["b"][k], one["b"], rtol=1e-12)


@scalar
def test_vmap_of_value_and_grad_and_of_hessian(f: Any) -> None:
    values, gradients = ft.vmap(ft.value_and_grad(f))(BATCH)
    np.testing.assert_allclose(values, [f(x) for x in BATCH], rtol=1e-12)
    np.testing.assert_allclose(
        gradients, np.stack([ft.grad(f)(x) for x in BATCH]), rtol=1e-12, atol=1e-14
    )
    hessians = ft.vmap(ft.hessian(f))(BATCH)
    np.testing.assert_allclose(
        hessians, np.stack([ft.hessian(f)(x) for x in BATCH]), rtol=1e-11, atol=1e-12
    )


@scalar
def test_vmap_of_vmap(f: Any) -> None:
    cube = np.stack([BATCH, BATCH + 0.1])
    expected = np.array([[f(x) for x in rows] for rows in cube])
    np.testing.assert_allclose(ft.vmap(ft.vmap(f))(cube), expected, rtol=1e-12)
    np.testing.assert_allclose(
        ft.vmap(ft.vmap(f), in_axes=1, out_axes=1)(cube), expected, rtol=1e-12
    )


def test_vmap_of_different_arguments_makes_an_outer_product() -> None:
    rows = ft.vmap(ft.vmap(lambda a, b: np.sin(a) * b, in_axes=(None, 0)), in_axes=(0, None))(X, V)
    np.testing.assert_allclose(rows, np.outer(np.sin(X), V), rtol=1e-14)


@scalar
def test_grad_of_vmap_of_grad(f: Any) -> None:
    total = lambda batch: np.sum(ft.vmap(ft.grad(f))(batch) * V)
    expected = np.stack([ft.hvp(f, (x,), (V,)) for x in BATCH])
    np.testing.assert_allclose(ft.grad(total)(BATCH), expected, rtol=1e-10, atol=1e-12)


@scalar
def test_jvp_of_vmap_and_vmap_of_jvp(f: Any) -> None:
    tangents = BATCH[::-1].copy()
    _, mapped = ft.jvp(ft.vmap(f), (BATCH,), (tangents,))
    expected = [ft.jvp(f, (x,), (t,))[1] for x, t in zip(BATCH, tangents, strict=True)]
    np.testing.assert_allclose(mapped, expected, rtol=1e-12)
    np.testing.assert_allclose(
        ft.vmap(lambda x, t: ft.jvp(f, (x,), (t,))[1])(BATCH, tangents), expected, rtol=1e-12
    )


@pytest.mark.parametrize(
    "in_axes, out_axes", [(0, 0), (1, 1), (-1, 0), (0, -1), (np.int64(1), np.int8(-1))]
)
def test_axes_of_mapped_vector_function(in_axes: int, out_axes: int) -> None:
    moved = np.moveaxis(BATCH, 0, in_axes)
    expected = np.stack([vector(x) for x in BATCH], axis=out_axes)
    np.testing.assert_allclose(
        ft.vmap(vector, in_axes=in_axes, out_axes=out_axes)(moved), expected, rtol=1e-13
    )


def test_vmap_over_pullback() -> None:
    _, pullback = ft.vjp(vector, X)
    (rows,) = ft.vmap(pullback)(np.eye(2))
    np.testing.assert_allclose(rows, jacobian_by_differences(vector, X), rtol=1e-8, atol=1e-9)


def test_vmap_inside_grad_with_closure_over_the_outer_value() -> None:
    def loss(x: Any) -> Any:
        return np.sum(ft.vmap(lambda y: np.sum(y * x) ** 2)(BATCH))

    np.testing.assert_allclose(ft.grad(loss)(X), 2.0 * BATCH.T @ (BATCH @ X), rtol=1e-12)


def test_unmapped_array_is_traced_with_concrete_values() -> None:
    table = np.arange(12.0).reshape(4, 3)
    indices = np.array([2, 0, 2])
    np.testing.assert_array_equal(
        ft.vmap(lambda i, t: t[i], in_axes=(0, None))(indices, table), table[indices]
    )

    def loss(t: Any) -> Any:
        return np.sum(ft.vmap(lambda i, t: t[i] ** 2, in_axes=(0, None))(indices, t))

    expected = np.zeros_like(table)
    np.add.at(expected, indices, 2.0 * table[indices])
    np.testing.assert_allclose(ft.grad(loss)(table), expected)

    chosen = ft.vmap(lambda x, t: x * 2.0 if t[0, 1] > 0.5 else -x, in_axes=(0, None))
    np.testing.assert_array_equal(chosen(np.ones(2), table), [2.0, 2.0])
    np.testing.assert_array_equal(chosen(np.ones(2), -table), [-1.0, -1.0])
