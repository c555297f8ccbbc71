"""Algebraic Riccati equations against SciPy and differences: real and complex, generalized, to
second order, mapped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import functrace as ft
from functrace.errors import ShapeError
from functrace.scipy import linalg
from tests.oracles import differences, random_like

NAMES = ("solve_continuous_are", "solve_discrete_are")


def problem(form: str, kind: Any) -> tuple[Any, ...]:
    """a, b, and roots of q and r, then e and s where the form has them."""
    rng = np.random.default_rng(7)

    def draw(*shape: int) -> Any:
        x = rng.normal(size=shape)
        return x + 1j * rng.normal(size=shape) if kind is complex else x

    a, b, q, r = draw(3, 3), draw(3, 2), draw(3, 3), draw(2, 2)
    e = draw(3, 3) * 0.3 + 2 * np.eye(3)
    s = 0.1 * draw(3, 2)
    return (a, b, q, r, *([e] if "e" in form else []), *([s] if form.endswith("s") else []))


def solved(module: Any, name: str, form: str, args: Any) -> Any:
    """The solution, with q and r made Hermitian and positive."""
    a, b, q, r, *rest = args
    q, r = q @ np.conj(q).T + np.eye(3), r @ np.conj(r).T + np.eye(2)
    given = dict(zip([x for x in ("e", "s") if x in form.split(" and ")], rest, strict=True))
    return getattr(module, name)(a, b, q, r, **given)


def along_all(gradient: Any, directions: Any) -> Any:
    return sum(np.sum(g * t).real for g, t in zip(gradient, directions, strict=True))


def real_loss(x: Any) -> Any:
    weights = np.cos(np.arange(9.0)).reshape(3, 3)
    return np.sum(weights * x.real**2) + np.sum(weights.T * x.imag * x.real)


def by_feedback(name: str) -> Any:
    """The solution for a system whose feedback is the parameter."""
    a, b = np.array([[0.9, 0.2], [-0.3, 1.1]]), np.array([[0.0], [1.0]])
    return lambda z: getattr(linalg, name)(a + b * z, b, np.eye(2), np.eye(1))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("form", ["plain", "e", "s", "e and s"])
@pytest.mark.parametrize("kind", [float, complex])
def test_first_and_second_derivatives_are_differences(name: str, form: str, kind: Any) -> None:
    args = problem(form, kind)
    rng = np.random.default_rng(1)
    along = [random_like(rng, x) for x in args]

    def loss(*args: Any) -> Any:
        return real_loss(solved(linalg, name, form, args))

    def plain(*args: Any) -> Any:
        return real_loss(solved(scipy.linalg, name, form, args))

    expected = differences(plain, args, along)[0]
    every = tuple(range(len(args)))
    np.testing.assert_allclose(ft.jvp(loss, args, tuple(along))[1], expected, rtol=1e-7)
    for transform in (lambda f: f, ft.jit):
        gradient = transform(ft.grad(loss, argnums=every))(*args)
        np.testing.assert_allclose(along_all(gradient, along), expected, rtol=1e-7)

    def slope(*args: Any) -> Any:
        return ft.jvp(loss, args, tuple(along))[1]

    second = differences(slope, args, along)[0]
    np.testing.assert_allclose(ft.jvp(slope, args, tuple(along))[1], second, rtol=1e-6, atol=1e-8)
    backward = ft.grad(slope, argnums=every)(*args)
    np.testing.assert_allclose(along_all(backward, along), second, rtol=1e-6, atol=1e-8)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
def test_one_argument_moves_alone_and_stacks_are_mapped(name: str) -> None:
    args = problem("plain", float)
    for place in range(4):

        def loss(x: Any, place: int = place) -> Any:
            return real_loss(solved(linalg, name, "plain", [*args[:place], x, *args[place + 1 :]]))

        direction = random_like(np.random.default_rng(place), args[place])
        expected = differences(loss, (args[place],), (direction,))[0]
        np.testing.assert_allclose(
            np.sum(ft.grad(loss)(args[place]) * direction), expected, rtol=1e-7
        )
        stack = np.stack([args[place], 1.1 * args[place]])
        mapped = ft.vmap(ft.grad(loss))(stack)
        np.testing.assert_allclose(mapped, np.stack([ft.grad(loss)(x) for x in stack]), rtol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_values_are_scipys_and_errors_too(name: str) -> None:
    a, b, q, r = problem("plain", np.float32)
    q, r = q @ q.T + np.eye(3), r @ r.T + np.eye(2)
    ours, theirs = getattr(linalg, name), getattr(scipy.linalg, name)
    for kind in (np.float32, float, complex):
        given = [x.astype(kind) for x in (a, b, q, r)]
        found = ft.jit(ours)(*given)
        assert found.dtype == theirs(*given).dtype
        np.testing.assert_allclose(found, theirs(*given), rtol=1e-12, atol=1e-12)
    found = ft.jit(lambda a: ours(a, 1.0, 2.0, 3.0))(0.5)
    np.testing.assert_allclose(found, theirs(0.5, 1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="symmetric/hermitian"):
        ft.jit(ours)(a, b, q + np.triu(q), r)
    with pytest.raises(ShapeError, match="do not fit"):
        ft.jit(ours)(a, b.T, q, r)
    with pytest.raises(ShapeError, match="not stacks"):
        ft.jit(ours)(np.stack([a, a]), b, q, r)
