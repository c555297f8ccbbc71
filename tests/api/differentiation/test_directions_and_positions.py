"""Valid tangents, cotangents and ``argnums``: dtypes follow the function, and a bool is no
position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, AxisError, DtypeError, TreeError

FLOATS = ("float16", "float32", "float64", "complex64", "complex128")
OTHERS = ("bool", "int8", "int64", *FLOATS)


def given(f: Callable[..., Any], x: Any, direction: Any) -> list[Callable[[], Any]]:
    """Return every way to give a function a tangent or a cotangent (its result has the shape and
    dtype of its argument).
    """
    return [
        lambda: ft.jvp(f, (x,), (direction,)),
        lambda: ft.linearize(f, x)[1](direction),
        lambda: ft.vjp(f, x)[1](direction),
        lambda: ft.jit(lambda t: ft.jvp(f, (x,), (t,)))(direction),
        lambda: ft.jit(lambda t: ft.vjp(f, x)[1](t))(direction),
    ]


@pytest.mark.parametrize("kind", FLOATS)
def test_tangents_and_cotangents_have_the_dtype_of_the_function(kind: str) -> None:
    x = np.array([0.5, 1.5], kind)
    for other in OTHERS:
        direction = np.ones(2, other)
        for call in given(np.sin, x, direction):
            if other == kind:
                call()
            else:
                with pytest.raises(
                    DtypeError, match=rf"fix: convert them, e\.g\. with \.astype\(np\.{kind}\)"
                ):
                    call()
        for call in given(np.sin, x[0], direction[0]):
            if other == kind:
                call()
            else:
                with pytest.raises(DtypeError):
                    call()


@pytest.mark.parametrize("kind", FLOATS)
def test_python_numbers_take_on_the_dtype(kind: str) -> None:
    x = np.dtype(kind).type(0.5)
    for number in (1, 1.0, True, *((1 + 0j,) if kind.startswith("c") else ())):
        for call in given(np.sin, x, number):
            assert all(np.asarray(leaf).dtype == kind for leaf in ft.tree.leaves(call()))
    if not kind.startswith("c"):
        for call in given(np.sin, x, 1j):
            with pytest.raises(DtypeError):
                call()


def add(x: Any, y: Any) -> Any:
    return np.sum(x + y)


X = np.ones((2, 2))
NOT_A_POSITION: dict[str, Callable[[Any], Any]] = {
    "vmap in_axes": lambda p: ft.vmap(add, in_axes=p)(X, X),
    "vmap in_axes of one": lambda p: ft.vmap(add, in_axes=(0, p))(X, X),
    "vmap out_axes": lambda p: ft.vmap(np.sin, out_axes=p)(X),
    "grad": lambda p: ft.grad(add, p)(X, X),
    "grad of some": lambda p: ft.grad(add, (0, p))(X, X),
    "value_and_grad": lambda p: ft.value_and_grad(add, argnums=p)(X, X),
    "jacrev": lambda p: ft.jacrev(add, p)(X, X),
    "jacfwd": lambda p: ft.jacfwd(add, p)(X, X),
    "hessian": lambda p: ft.hessian(add, p)(X, X),
    "elementwise_grad": lambda p: ft.elementwise_grad(np.add, p)(X, X),
    "jit static_argnums": lambda p: ft.jit(add, static_argnums=p)(X, 1.0),
    "jit static_argnums of some": lambda p: ft.jit(add, static_argnums=(1, p))(X, 1.0),
    "jit donate_argnums": lambda p: ft.jit(add, donate_argnums=p)(X.copy(), X.copy()),
    "checkpoint static_argnums": lambda p: ft.checkpoint(add, static_argnums=p)(X, 1.0),
    "custom_vjp nondiff_argnums": lambda p: ft.custom_vjp(add, nondiff_argnums=p),
    "custom_jvp nondiff_argnums": lambda p: ft.custom_jvp(add, nondiff_argnums=(p,)),
    "associative_scan axis": lambda p: ft.associative_scan(np.add, X, axis=p),
}


@pytest.mark.parametrize("name", NOT_A_POSITION)
@pytest.mark.parametrize("position", [False, True, np.True_, 0.0, "0"])
def test_a_bool_is_no_position(name: str, position: Any) -> None:
    with pytest.raises((ArgumentError, TreeError, AxisError)) as caught:
        NOT_A_POSITION[name](position)
    assert "fix: " in str(caught.value)
