"""``torch.func`` among functrace's own transforms, its numbers against differences, and what it
leaves behind.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.torch import func
from functrace.torch.autograd.grad_mode import MODES
from tests.compositions.functions import jacobian_by_differences

X = np.array([0.5, -1.0, 2.0])


def vector(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * x.sum()).exp() * 0.5  # type: ignore[no-any-return]


def test_jacobians_equal_differences() -> None:
    expected = jacobian_by_differences(lambda x: vector(torch.tensor(x)).numpy(), X)
    for transform in (func.jacrev, func.jacfwd):
        np.testing.assert_allclose(transform(vector)(torch.tensor(X)).numpy(), expected, rtol=1e-6)


def test_a_transform_of_tensors_inside_one_of_arrays() -> None:
    def slope(x: Any) -> Any:
        return func.grad(lambda t: (t**3).sum())(
            torch.as_tensor(x) if not isinstance(x, torch.Tensor) else x
        )

    def on_arrays(x: Any) -> Any:
        from functrace.torch.tensors.tensor import wrap

        return slope(wrap(x))._array.sum()

    np.testing.assert_allclose(ft.grad(on_arrays)(X), 6 * X)
    np.testing.assert_allclose(
        ft.jit(ft.vmap(ft.grad(on_arrays)))(np.stack([X, X])), np.stack([6 * X, 6 * X])
    )


@pytest.mark.parametrize("order", [1, 2, 3])
def test_the_graph_reaches_arguments_and_closures_in_any_order(order: int) -> None:
    x = torch.tensor(X, requires_grad=True)
    w = torch.tensor([1.5, -0.5, 0.25], dtype=torch.float64, requires_grad=True)
    y = func.vmap(func.grad(lambda a: (a * w).sin().sum()))(torch.stack([x, x * 2]))
    z = (torch.stack([x, x * 2]) * w).cos() * w  # the same by hand
    for _ in range(order):
        found = torch.autograd.grad(y.sum(), (x, w), create_graph=True)
        expected = torch.autograd.grad(z.sum(), (x, w), create_graph=True)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(
                a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12
            )
        y, z = sum(g.sum() for g in found), sum(g.sum() for g in expected)


def test_a_function_that_reads_other_tensors_the_second_time_is_refused() -> None:
    parts = iter([torch.ones(3, requires_grad=True), torch.ones(1, requires_grad=True)])
    with pytest.raises(RuntimeError, match="reads other tensors"):
        func.grad(lambda x: (x * next(parts)).sum())(torch.ones(3))
    one = torch.ones(3, requires_grad=True)
    calls = iter(range(9))
    with pytest.raises(RuntimeError, match="reads other tensors"):
        func.grad(lambda x: (x * one).sum() if next(calls) == 0 else x.sum())(torch.ones(3))
    assert MODES.lift is None


def test_exceptions_leave_no_state_behind() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("mine")

    for transform in (
        func.grad(broken),
        func.vmap(broken),
        func.jacrev(broken),
        lambda x: func.vjp(broken, x),
    ):
        with pytest.raises(KeyError, match="mine"):
            transform(torch.ones(3, requires_grad=True))
    assert MODES.lift is None and MODES.randomness == "same" and MODES.recording
    torch.rand(3)


def test_a_graph_through_a_transform_is_freed_by_reference_counts() -> None:
    gc.collect()
    gc.disable()
    try:
        x = torch.ones(3, requires_grad=True)
        y = func.grad(lambda x: (x**3).sum())(x)
        node, leaf = weakref.ref(y.grad_fn), weakref.ref(x)
        y.sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), 6.0)
        del y
        assert node() is None
        del x
        assert leaf() is None
    finally:
        gc.enable()


def test_complex_gradients_are_pytorchs() -> None:
    z = torch.tensor(np.array([1.0 + 2.0j, -0.5j]))
    np.testing.assert_allclose(func.grad(lambda z: (z.abs() ** 2).sum())(z).numpy(), 2 * z.numpy())
    _, pull = func.vjp(lambda z: z * (1 + 2j), z)
    np.testing.assert_allclose(pull(z)[0].numpy(), z.numpy() * (1 - 2j))


@pytest.mark.parametrize(
    ("function", "whole"),
    [
        (lambda x: torch.rand(2), lambda x: torch.rand(3, 2)),
        (lambda x: torch.randn(2) + x[0], lambda x: torch.randn(3, 2) + x[:, :1]),
        (lambda x: torch.randint(0, 9, (2,)), lambda x: torch.randint(0, 9, (3, 2))),
        (torch.nn.functional.dropout, torch.nn.functional.dropout),
        (torch.rand_like, torch.rand_like),
        (lambda x: x.bernoulli(), lambda x: x.bernoulli()),
        (lambda x: x.clone().normal_(), lambda x: x.clone().normal_()),
        (
            lambda x: torch.randperm(4),
            lambda x: torch.stack([torch.randperm(4) for _ in range(3)]),
        ),
    ],
)
def test_every_example_may_have_its_random_numbers(function: Any, whole: Any) -> None:
    x = torch.ones(3, 4) / 2
    torch.manual_seed(0)
    found = func.vmap(function, randomness="different")(x)
    torch.manual_seed(0)
    np.testing.assert_array_equal(found.numpy(), whole(x).numpy())


def test_examples_of_two_axes_have_their_random_numbers() -> None:
    draw = lambda x: torch.rand(2)
    x = torch.ones(2, 3)
    torch.manual_seed(0)
    inner = func.vmap(draw, randomness="different")
    found = func.vmap(inner, randomness="different")(x)
    torch.manual_seed(0)
    np.testing.assert_array_equal(found.numpy(), torch.rand(2, 3, 2).numpy())
    torch.manual_seed(0)
    found = func.vmap(func.vmap(draw, randomness="same"), randomness="different")(x)
    torch.manual_seed(0)
    np.testing.assert_array_equal(found[:, 2].numpy(), torch.rand(2, 2).numpy())


def test_samples_of_mapped_parameters_are_refused() -> None:
    with pytest.raises(RuntimeError, match="draw them outside"):
        func.vmap(lambda p: torch.multinomial(p, 2), randomness="different")(torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="randomness error mode"):
        func.vmap(lambda x: x + torch.rand(3))(torch.ones(2, 3))


def _on_tensors(f: Any) -> Any:
    from functrace.torch.tensors.tensor import wrap

    return lambda x: f(wrap(x))._array


@pytest.mark.parametrize("transform", [lambda f: f, ft.jit, ft.checkpoint])
def test_constants_are_constants_under_the_cores_transforms(transform: Any) -> None:
    def f(x: Any) -> Any:
        with torch.no_grad():
            kept = x.exp()
        return (kept * x.detach() * x.data * x).sum()

    expected = np.exp(X) * X**2
    np.testing.assert_allclose(ft.grad(transform(_on_tensors(f)))(X), expected)
    np.testing.assert_allclose(
        ft.jvp(transform(_on_tensors(f)), (X,), (np.ones(3),))[1], expected.sum()
    )
    np.testing.assert_allclose(
        ft.vmap(ft.grad(transform(_on_tensors(f))))(np.stack([X, X])), [expected, expected]
    )

    def in_place(x: Any) -> Any:
        y = x * 2
        return (y.detach_() * x).sum()

    np.testing.assert_allclose(ft.grad(transform(_on_tensors(in_place)))(X), 2 * X)
    with torch.no_grad():
        np.testing.assert_allclose(
            ft.grad(transform(_on_tensors(lambda x: (x**3).sum())))(X), 3 * X**2
        )


def test_a_hook_receives_the_gradient_of_a_tracer() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 3
        y.register_hook(lambda g: seen.append(g) or g * 2)
        return (y * y).sum()

    np.testing.assert_allclose(ft.grad(_on_tensors(f))(X), 36 * X)
    assert len(seen) == 1 and isinstance(seen[0], torch.Tensor)
    np.testing.assert_allclose(ft.jit(ft.grad(_on_tensors(f)))(X), 36 * X)
    np.testing.assert_allclose(
        ft.vmap(ft.grad(ft.checkpoint(_on_tensors(f))))(np.stack([X, X])), [36 * X, 36 * X]
    )


def test_a_hook_that_would_miss_part_of_the_gradient_raises() -> None:
    def late(x: Any) -> Any:
        y = x * 3
        z = y * 2
        y.register_hook(lambda g: g)
        return (y * z).sum()

    with pytest.raises(RuntimeError, match="before the value is used"):
        ft.grad(_on_tensors(late))(X)

    def removed(x: Any) -> Any:
        x.register_hook(lambda g: g).remove()
        return x.sum()

    with pytest.raises(RuntimeError, match="cannot be removed"):
        ft.grad(_on_tensors(removed))(X)

    def saving(x: Any) -> Any:
        with torch.autograd.graph.save_on_disk(smallest=0):
            return x.exp().sum()

    with pytest.raises(RuntimeError, match="save_on_disk"):
        ft.grad(_on_tensors(saving))(X)
    with pytest.raises(RuntimeError, match="saved tensor hooks"):
        func.grad(saving)(torch.tensor(X))

    def on_cpu(x: Any) -> Any:
        with torch.autograd.graph.save_on_cpu():
            return x.exp().sum()

    np.testing.assert_allclose(ft.grad(_on_tensors(on_cpu))(X), np.exp(X))
