"""Where NumPy's protocols do not reach: the error, the drop-in namespace, and `lift`, in a grid.

Every function x kind of argument x transform x way out, beside NumPy on plain values and
differences.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.errors import FunctraceError
from tests.oracles import differences

A = np.array([0.7, -1.3, 2.1])
TABLE = np.array([3.0, -1.0, 0.5, 2.0])
MATRIX = np.arange(12.0).reshape(4, 3)


Way = Callable[[Any, Any], Any]


def _written(
    write: Callable[[Any, Any, Any], object],
    make: Callable[[Any], Any] = lambda np: np.zeros((3, 2)),
) -> Way:
    def run(np: Any, x: Any) -> Any:
        z = make(np)
        write(np, z, x)
        return z

    return run


def _by_columns(np: Any, z: Any, x: Any) -> None:
    z[:, 1] = x
    z[0, :] += x[:2]
    z[z > 1.0] = x[0]


def _at(np: Any, z: Any, x: Any) -> None:
    np.add.at(z, [0, 0, 2], x)


ROWS: dict[str, Way] = {
    # conversions and creation, of traced scalars, vectors and nested lists
    "array of numbers": lambda np, x: np.array([x[0], 1.0, x[1]]),
    "array of rows": lambda np, x: np.array([[x[0], 1], [2.0, x[2]]]),
    "array of vectors": lambda np, x: np.array([x, 2 * x]),
    "array of a vector": lambda np, x: np.array(x, dtype=complex).real,
    "array, ndmin": lambda np, x: np.array([x, x], ndmin=4),
    "array, order": lambda np, x: np.array([x, x], order="F").ravel("K"),
    "asarray": lambda np, x: np.asarray([x[0] * x[1], 3.0]),
    "asarray of a vector": lambda np, x: np.asarray(x) * 2,
    "asarray of a scalar": lambda np, x: np.asarray(x[0]) * x,
    "asanyarray": lambda np, x: np.asanyarray([[x[0]], [x[1]]]),
    "ascontiguousarray": lambda np, x: np.ascontiguousarray([x[0], x[1]]),
    "asfortranarray": lambda np, x: np.asfortranarray([[x[0], x[1]]]),
    "require": lambda np, x: np.require([x[0], x[1]], dtype=float),
    "full": lambda np, x: np.full(3, x[0]),
    "full of a vector": lambda np, x: np.full((2, 3), x),
    "full of a list": lambda np, x: np.full((2, 2), [x[0], x[1]]),
    "full_like a plain array": lambda np, x: np.full_like(np.ones((2, 3)), x[1]),
    "arange": lambda np, x: np.arange(x[0], 2.9, x[0] * 0.9),
    "linspace": lambda np, x: np.linspace(0, x[0], 4),
    "linspace, retstep": lambda np, x: np.linspace(x[1], x[0], 3, retstep=True)[0],
    "logspace": lambda np, x: np.logspace(0, x[0], 3),
    "geomspace": lambda np, x: np.geomspace(x[0], x[2], 3),
    "r_": lambda np, x: np.r_[x[0], 1.0, x, 0:2],
    "r_ of matrices": lambda np, x: np.r_["0,2,0", x, np.ones(3)],
    "r_, stacked": lambda np, x: np.r_["1,2,0", x, x[::-1], [1.0, 2.0, 3.0]],
    "c_": lambda np, x: np.c_[x, np.ones(3), x * x],
    "c_ of scalars": lambda np, x: np.c_[x[0], 2.0],
    "c_ of a matrix": lambda np, x: np.c_[np.array([x, x]).T, x],
    "diag": lambda np, x: np.diag([x[0], x[1]]),
    "diagflat": lambda np, x: np.diagflat([x[0], x[1]]),
    "tile": lambda np, x: np.tile([x[0], 1.0], 2),
    "repeat": lambda np, x: np.repeat([x[0], 1.0], 2),
    "vander": lambda np, x: np.vander([x[0], x[1]], 3),
    "meshgrid": lambda np, x: np.meshgrid([x[0], x[1]], [1.0, x[2]])[1],
    "fromfunction": lambda np, x: np.fromfunction(lambda i, j: i * x[0] + j, (2, 3)),
    # other functions of lists
    "mean": lambda np, x: np.mean([x[0], x[1], 1.0]),
    "sum": lambda np, x: np.sum([x, x * x], axis=0),
    "max": lambda np, x: np.max([x[0], x[2]]),
    "std": lambda np, x: np.std([x[0], x[1], 2.0]),
    "concatenate": lambda np, x: np.concatenate([np.ones(2), [x[0]], x]),
    "stack": lambda np, x: np.stack([x[0], x[1]]),
    "vstack": lambda np, x: np.vstack([[x[0], 1.0], [x[1], x[2]]]),
    "hstack": lambda np, x: np.hstack([x[0], [x[1]], 1.0]),
    "column_stack": lambda np, x: np.column_stack([[x[0], 1.0], [x[1], x[2]]]),
    "block": lambda np, x: np.block([[x[0], 1.0], [x[1], x[2]]]),
    "append": lambda np, x: np.append([x[0]], [x[1], 2.0]),
    "dot": lambda np, x: np.dot([x[0], x[1]], [1.0, x[2]]),
    "outer": lambda np, x: np.outer([x[0], x[1]], [1.0, x[2]]),
    "einsum": lambda np, x: np.einsum("i,i->", [x[0], x[1]], [1.0, x[2]]),
    "where": lambda np, x: np.where([True, False], [x[0], 1.0], x[1]),
    "interp": lambda np, x: np.interp([0.5], [0.0, 1.0], [x[0], x[1]]),
    "sin of a list": lambda np, x: np.sin([x[0], x[1]]),
    "add of lists": lambda np, x: np.add([x[0], x[1]], [1.0, x[2]]),
    "add.reduce": lambda np, x: np.add.reduce([x[0], x[1]]),
    "multiply.outer": lambda np, x: np.multiply.outer([x[0], x[1]], [1.0, 2.0]),
    "linalg.norm": lambda np, x: np.linalg.norm([x[0], x[1]]),
    "linalg.det": lambda np, x: np.linalg.det([[x[0], 1.0], [2.0, x[1]]]),
    "linalg.solve": lambda np, x: np.linalg.solve([[x[0], 1.0], [2.0, x[1]]], [x[2], 1.0]),
    "fft": lambda np, x: np.fft.fft([x[0], x[1], 0.0]).real,
    "vectorize": lambda np, x: np.vectorize(lambda a, b: a * b if b > 0 else a)(x, np.array([1.0,
    -1.0, 2.0])),
    "vectorize, choosing": lambda np, x: np.vectorize(lambda a: a * a if a > 0 else a)(x),
    "vectorize, closing over": lambda np, x: np.vectorize(lambda k: x[k] * k)([0, 1, 2]),
    "vectorize, signature": lambda np, x: np.vectorize(lambda a: a.sum(),
    signature="(n)->()")(np.array([x, x * x])),
    "vectorize, several": lambda np, x: np.array(np.vectorize(lambda a: (a, a * a))(x)),
    # writes
    "z[i] = x": _written(lambda np, z, x: z.__setitem__(1, x[0]), lambda np: np.zeros(3)),
    "z += x": _written(lambda np, z, x: z.__iadd__(x), lambda np: np.ones((2, 3))),
    "z[i:j] = x": _written(lambda np, z, x: z.__setitem__(slice(0, 2), x[1:]),
    lambda np: np.full(3, 4.0)),
    "z of empty": _written(lambda np, z, x: z.__setitem__(..., x), lambda np: np.empty((2, 3))),
    "slices and masks": _written(_by_columns),
    "add.at": _written(_at, lambda np: np.zeros(3)),
    "z of a list": lambda np, x: _filled_in(np.array([1.0, 2.0, 3.0]), x),
    "z of arange": lambda np, x: _filled_in(np.arange(3.0), x),
    "z of eye": lambda np, x: _filled_in(np.eye(3), x),
    "z of full": lambda np, x: _filled_in(np.full(3, 5.0), x),
    "z of a copy": lambda np, x: _filled_in(np.copy(TABLE), x),
    "z of zeros_like": lambda np, x: _filled_in(np.zeros_like(TABLE), x),
    "z of float32": lambda np, x: _filled_in(np.zeros(3, np.float32), x).astype(float) * x[1],
    "z of complex": lambda np, x: _filled_in(np.zeros(3, complex), x).real,
    "a row of z": lambda np, x: _row(np, x),
    "0-d z": lambda np, x: _zero_dimensional(np, x),
    "fill_diagonal": _written(lambda np, z, x: np.fill_diagonal(z, x[0])),
    "copyto": _written(lambda np, z, x: np.copyto(z, x[:2])),
    "out=": lambda np, x: np.multiply(x, 2.0, out=np.zeros(3)),
    # plain tables with a traced integer
    "take": lambda np, x: np.take(TABLE, (x * 0 + 2).astype(int)) * x,
    "T[i]": lambda np, x: np.array(TABLE)[(x[0] * 0 + 2).astype(int)] * x,
    "T[i, :]": lambda np, x: np.array(MATRIX)[(x[0] * 0 + 2).astype(int), :] * x,
    "a table made inside": lambda np, x: np.linspace(0.0, 1.0, 5)[(x * 0 + 3).astype(int)] * x,
    "ix_": lambda np, x: np.outer(x, x)[np.ix_([0, 2], [1, 2])],
}  # fmt: skip


def _filled_in(z: Any, x: Any) -> Any:
    z[0] = x[1]
    return z


def _row(np: Any, x: Any) -> Any:
    z = np.zeros((2, 3))
    row = z[1]
    row[:] = x
    row *= 2.0
    return z


def _zero_dimensional(np: Any, x: Any) -> Any:
    z = np.zeros(())
    z[...] = x[0]
    z += x[1]
    return z


VALUES_NEEDED = {"arange", "vectorize, choosing"}
"""Their length, or the way they take, depends on values."""


def plain(f: Way) -> Callable[[Any], Any]:
    return lambda x: f(np, x)


WAYS: dict[str, Callable[[Way], Callable[[Any], Any]]] = {
    "drop-in": lambda f: lambda x: f(fnp, x),
    "lift": lambda f: ft.numpy.lift(plain(f)),
}
GRID = list(itertools.product(ROWS, WAYS))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("name", "way"), GRID)
def test_values_and_derivatives(name: str, way: str) -> None:
    f = ROWS[name]
    expected = f(np, A)
    g = WAYS[way](f)
    value, pullback = ft.vjp(g, A)
    assert np.shape(value) == np.shape(expected)  # results without axes are NumPy's scalars
    assert value.dtype == expected.dtype
    np.testing.assert_allclose(value, expected, rtol=1e-14, atol=1e-14)
    direction = np.array([0.3, -0.8, 0.5])
    (difference,) = differences(plain(f), [A], [direction])
    _, tangent = ft.jvp(g, (A,), (direction,))
    rounding = 1e-7 if name != "z of float32" else 1e-3  # of the differences
    np.testing.assert_allclose(tangent, difference, rtol=10 * rounding, atol=rounding)
    weights = (
        np.cos(np.arange(1.0, 1.0 + np.size(value)))
        .reshape(np.shape(value))
        .astype(np.asarray(value).dtype)
    )
    (x_bar,) = pullback(weights[()])
    np.testing.assert_allclose(x_bar @ direction, np.sum(weights * tangent), rtol=rounding)
    again = ft.grad(lambda x: np.sum(g(x) * weights))
    (second,) = differences(again, [A], [direction])
    np.testing.assert_allclose(
        ft.jvp(again, (A,), (direction,))[1], second, rtol=1e-6, atol=10 * rounding
    )


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "way"), GRID)
def test_batches_and_stages(name: str, way: str) -> None:
    f = ROWS[name]
    g = WAYS[way](f)
    batch = np.stack([A, A[::-1] + 1.5, np.abs(A)])
    if name in VALUES_NEEDED:
        with pytest.raises(FunctraceError, match=r"not known|without values"):
            ft.jit(g)(A)
        if len({np.shape(f(np, row)) for row in batch}) > 1:
            with pytest.raises(FunctraceError, match="one path returns"):
                ft.vmap(g)(batch)
            return
        np.testing.assert_allclose(
            ft.vmap(g)(batch), [f(np, row) for row in batch], rtol=1e-13, atol=1e-13
        )
        return
    expected = np.stack([f(np, row) for row in batch])
    np.testing.assert_allclose(ft.vmap(g)(batch), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(ft.jit(g)(A), f(np, A), rtol=1e-13, atol=1e-13)
    total = lambda x: np.sum(g(x) ** 2)
    rows = np.stack([ft.grad(total)(row) for row in batch])
    np.testing.assert_allclose(ft.jit(ft.vmap(ft.grad(total)))(batch), rows, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ROWS)
def test_plain_code_is_right_or_names_every_way_out(name: str) -> None:
    f = ROWS[name]
    try:
        value, pullback = ft.vjp(plain(f), A)
    except FunctraceError as error:
        assert "test_beyond_protocols.py" in str(error)
        assert "functrace.numpy" in str(error)
        assert "lift" in str(error)
        return
    np.testing.assert_allclose(value, f(np, A), rtol=1e-14)
    (difference,) = differences(plain(f), [A], [np.ones(3)])
    np.testing.assert_allclose(pullback(np.ones_like(value))[0].sum(), difference.sum(), rtol=1e-6)


@pytest.mark.parametrize("name", ROWS)
def test_outside_of_tracing_results_are_numpys(name: str) -> None:
    expected = ROWS[name](np, A)
    for way in WAYS.values():
        found = way(ROWS[name])(A)
        assert type(found) is type(expected)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
        assert np.ndim(found) == 0 or found.flags.writeable == expected.flags.writeable


BY_PROTOCOLS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "stack": (lambda x: np.stack([x[0], 1.0]), lambda x: np.array([x[0], 1.0])),
    "array, like": (lambda x: np.array([x[0], 1.0], like=x), lambda x: np.array([x[0], 1.0])),
    "full, like": (lambda x: np.full(3, x[0], like=x), lambda x: np.full(3, x[0])),
    "ones": (lambda x: x[0] * np.ones(3), lambda x: np.full(3, x[0])),
    "arange": (lambda x: x[0] * np.arange(3), lambda x: np.arange(3) * x[0]),
    "concatenate": (lambda x: np.concatenate([x, [x[0]]]), lambda x: np.r_[x, x[0]]),
    "column_stack": (lambda x: np.column_stack([x, x * x]), lambda x: np.c_[x, x * x]),
    "mean": (lambda x: np.mean(np.stack([x[0], x[1]])), lambda x: np.mean([x[0], x[1]])),
    "diag": (lambda x: np.diag(np.stack([x[0], x[1]])), lambda x: np.diag([x[0], x[1]])),
    "norm": (lambda x: np.linalg.norm(np.stack([x[0], x[1]])), lambda x: np.linalg.norm([x[0],
    x[1]])),
    "linspace": (lambda x: np.linspace(0, x[0], 4), lambda x: np.linspace(0, x[0], 4)),
    "zeros, like": (lambda x: _filled_in(np.zeros(3, like=x), x), lambda x: _filled_in(np.zeros(3),
    x)),
    "zeros_like": (lambda x: _filled_in(np.zeros_like(x), x), lambda x: _filled_in(np.zeros(3), x)),
    "take": (lambda x: fnp.take(TABLE, np.argmax(x)) * x, lambda x: TABLE[np.argmax(x)] * x),
    "vectorize": (lambda x: ft.vmap(np.sin)(x), lambda x: np.vectorize(np.sin)(x)),
}  # fmt: skip
"""The replacements that docs/numpy.md recommends, each with the NumPy call that it replaces."""


@pytest.mark.parametrize("name", BY_PROTOCOLS)
def test_recommended_replacements(name: str) -> None:
    instead, plainly = BY_PROTOCOLS[name]
    for transform in (
        lambda f: lambda x: ft.vjp(f, x)[0],
        ft.jit,
        lambda f: lambda x: ft.vmap(f)(x[None])[0],
    ):
        np.testing.assert_allclose(transform(instead)(A), plainly(A), rtol=1e-14)
    direction = np.array([0.3, -0.8, 0.5])
    (expected,) = differences(plainly, [A], [direction])
    np.testing.assert_allclose(
        ft.jvp(instead, (A,), (direction,))[1], expected, rtol=1e-6, atol=1e-8
    )
