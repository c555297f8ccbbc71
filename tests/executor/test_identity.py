"""The executor's tables are keyed by primitive, not by name: a user's primitive may have the name
of a built-in one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor.kernels import KERNELS
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import LINEAR, Primitive
from functrace.ops import PRIMITIVES
from functrace.tracing.binding import bind

X = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def named(name: str) -> Primitive:
    """A primitive that doubles, whatever it is called."""
    made: Primitive = Primitive(
        name,
        eval=lambda x: np.array(x * 2.0),
        aval=lambda x: ShapeDtype(x.shape, x.dtype),
        jvp=LINEAR,
        transpose=lambda ct, x: (bind(made, (ct,)),),
        batch=lambda operands, _: bind(made, operands),
    )
    return made


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name",
    sorted({p.name for p in KERNELS} | {"matmul", "scan", "cond", "call", "gather", "input"}),
)
def test_a_users_primitive_named_like_one_of_ours_is_run_as_the_users(name: str) -> None:
    mine = named(name)

    def f(x: Any) -> Any:
        return np.sum(np.sin(bind(mine, (x,))) * x)

    slope = np.sin(2 * X) + 2 * X * np.cos(2 * X)
    for _ in range(3):
        np.testing.assert_allclose(ft.grad(f)(X), slope)
    np.testing.assert_allclose(ft.jit(f)(X), np.sum(np.sin(2 * X) * X))
    np.testing.assert_allclose(ft.jit(ft.grad(f))(X), slope)
    np.testing.assert_allclose(ft.jit(ft.vmap(ft.grad(f)))(X), slope)
    np.testing.assert_allclose(ft.grad(ft.checkpoint(f))(X), slope)
    np.testing.assert_allclose(ft.jvp(f, (X,), (np.ones_like(X),))[1], np.sum(slope))
    np.testing.assert_allclose(
        ft.jit(ft.hessian(f))(X[0]), np.diag(4 * np.cos(2 * X[0]) - 4 * X[0] * np.sin(2 * X[0]))
    )
    pushed = ft.linearize(lambda x: bind(mine, (x,)), X)[1]
    np.testing.assert_allclose(pushed(X), 2 * X)
    np.testing.assert_allclose(ft.evaluate(ft.trace(f)(X), X), np.sum(np.sin(2 * X) * X))
    assert ft.trace(lambda x: bind(mine, (x,)))(X).cost().flops == X.size


def test_kernels_are_keyed_by_built_in_primitives() -> None:
    for primitive in KERNELS:
        assert PRIMITIVES[primitive.name] is primitive
