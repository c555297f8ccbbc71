"""The namespace `functrace.numpy`: every public name, lists of traced values, creation, and
functions that need only shapes and dtypes.
"""

from __future__ import annotations

import subprocess
import sys
import types
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.errors import LostGradientError, ShapeError, UnsupportedFunctionError
from tests.oracles import differences

X = np.array([[0.3, -1.2, 0.8], [1.1, 0.4, -0.6]])


def assert_gradient(f: Any, *args: Any, tol: float = 1e-7) -> None:
    """Compare all gradients of a scalar function with differences of plain NumPy."""
    gradients = ft.grad(f, argnums=tuple(range(len(args))))(*args)
    for k, g in enumerate(gradients):
        for at in np.ndindex(np.shape(args[k])):
            direction = np.zeros(np.shape(args[k]))
            direction[at] = 1.0

            def along(x: Any, k: int = k) -> Any:
                return f(*args[:k], x, *args[k + 1 :])

            (expected,) = differences(along, [args[k]], [direction])
            np.testing.assert_allclose(np.asarray(g)[at], expected, rtol=tol, atol=tol)


def test_namespace_has_every_public_name_of_numpy() -> None:
    for name in np.__all__:
        found = getattr(fnp, name)
        if isinstance(getattr(np, name), types.ModuleType) and name not in ("linalg", "fft"):
            assert found is getattr(np, name)
        elif callable(getattr(np, name)) and not isinstance(getattr(np, name), type):
            assert callable(found) or name in ("r_", "c_"), name
    assert set(np.__all__) - {"__version__", "__array_namespace_info__"} <= set(dir(fnp))
    for name in np.linalg.__all__:
        assert getattr(fnp.linalg, name) is not None
    for name in ("fft", "irfftn", "fftshift", "fftfreq"):
        assert callable(getattr(fnp.fft, name))


def test_namespace_has_constants_and_dtypes_themselves() -> None:
    assert fnp.pi == np.pi
    assert fnp.newaxis is None
    assert fnp.float32 is np.float32
    assert fnp.ndarray is np.ndarray
    with pytest.raises(AttributeError, match="no_such_function"):
        _ = fnp.no_such_function


def test_namespace_functions_are_documented_and_named() -> None:
    assert fnp.mean.__name__ == "mean"
    assert fnp.mean.__doc__ == np.mean.__doc__
    assert fnp.add.nin == 2


def test_namespace_on_plain_values_is_numpy() -> None:
    np.testing.assert_array_equal(fnp.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
    assert type(fnp.sum([1.0, 2.0])) is np.float64
    assert fnp.zeros((2, 3), dtype=np.float32).dtype == np.float32
    assert fnp.add.reduce([1, 2, 3]) == 6
    np.testing.assert_array_equal(fnp.r_[1:4, 9.0], np.r_[1:4, 9.0])
    assert fnp.full((2,), 3).dtype == np.full((2,), 3).dtype
    assert fnp.linspace(0, 1, 3, dtype=int).dtype == int
    np.testing.assert_array_equal(fnp.pad(np.ones(2), 1), np.pad(np.ones(2), 1))


def test_submodules_do_not_hide_numpy_names() -> None:
    assert callable(fnp.array)
    assert not isinstance(fnp.array, types.ModuleType)
    assert not isinstance(fnp.linalg, types.ModuleType) or fnp.linalg is not np.linalg


@pytest.mark.parametrize(
    "f",
    [
        lambda x: fnp.array([x[0, 0], 2.0, x[1, 1] * x[0, 2]]) @ np.array([1.0, 2.0, 3.0]),
        lambda x: fnp.sum(fnp.array([[x[0, 0], 1], [x[0, 1], x[1, 1]]]) ** 2),
        lambda x: fnp.sum(fnp.asarray([x, x * x, np.ones((2, 3))]) ** 2),
        lambda x: fnp.sum(fnp.array(x, ndmin=3) * x),
        lambda x: fnp.sum(fnp.array(x, dtype=complex).real ** 2),
        lambda x: fnp.sum(fnp.full((2, 3), x[0, 1]) * x),
        lambda x: fnp.sum(fnp.full_like(np.ones((2, 3)), x[0]) * x),
        lambda x: fnp.sum(fnp.sin([x[0], x[1]]) * x),
        lambda x: fnp.add.reduce([x[0, 0] ** 2, x[0, 1]]),
        lambda x: fnp.mean([x, x * x + 2.0]),
        lambda x: fnp.linalg.norm([x[0, 0], x[0, 1]]),
        lambda x: fnp.sum(fnp.append([x[0, 0], x[1, 0]], [x[0, 1], 3.0]) ** 2),
        lambda x: fnp.sum(fnp.concatenate([[x[0, 0], x[0, 1]], [2.0], x[1]]) ** 2),
        lambda x: fnp.sum(fnp.block([[x, x * x], [np.ones((1, 3)), x[:1]]]) ** 2),
        lambda x: fnp.sum(fnp.r_[x[0], 1.0, x[1, 1], 0:3] ** 2),
        lambda x: fnp.sum(fnp.c_[x[0], x[1]] ** 2 * np.arange(6.0).reshape(3, 2)),
        lambda x: fnp.sum(fnp.pad(np.ones(2), 1, constant_values=x[0, 0]) ** 2),
        lambda x: fnp.sum(fnp.interp(np.array([-1.0, 0.5, 3.0]), [0.0, 1.0], [x[0, 0], x[0, 1]],
        right=x[1, 1]) ** 2),
        lambda x: fnp.sum(fnp.take(np.arange(9.0), fnp.argsort(x[0])) * x[0]),
        lambda x: fnp.sum(fnp.ascontiguousarray(x[::-1]) * x),
        lambda x: fnp.sum(fnp.require(x) ** 2),
    ],
)  # fmt: skip
def test_lists_of_traced_values_keep_their_derivative(f: Any) -> None:
    assert_gradient(f, X)


def test_lists_that_are_not_rectangular_are_refused() -> None:
    with pytest.raises(ShapeError, match="not one array"):
        ft.grad(lambda x: fnp.sum(fnp.array([x, x[0]])))(X)


def test_arange_with_traced_ends() -> None:
    assert_gradient(lambda a, d: fnp.sum(fnp.arange(a, 3.0, d) ** 2), np.array(0.25), np.array(0.5))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: np.zeros((2, 3), like=x),
        lambda x: np.empty((2, 3), like=x),
        lambda x: np.array(np.zeros((2, 3)), like=x),
        lambda x: np.full((2, 3), 0.0, like=x),
        np.zeros_like,
        np.empty_like,
    ],
)  # fmt: skip
def test_arrays_created_like_a_tracer_are_writable(make: Any) -> None:
    def f(x: Any) -> Any:
        out = make(x)
        out[:] = 0.0
        out[0] = x[1] ** 2
        out[1, 2] += x[0, 0]
        return np.sum(out * out)

    assert_gradient(f, X)


def test_created_arrays_that_leave_a_transform_are_writable() -> None:
    for _ in range(3):
        made, _ = ft.vjp(
            lambda x: (np.zeros_like(x), np.ones(2, like=x), np.diag(np.diag(x[:, :2]))), X
        )
        assert all(part.flags.writeable for part in made)


def test_scalars_are_not_iterable() -> None:
    assert ft.grad(lambda x: x * (2.0 if np.iterable(x) else 3.0))(1.0) == 3.0


def test_like_makes_lists_of_traced_values_one_array() -> None:
    g = ft.grad(lambda x: np.sum(np.array([x[0, 0] ** 2, 1.0, x[1, 2]], like=x) * np.arange(3.0)))(
        X
    )
    expected = np.zeros((2, 3))
    expected[1, 2] = 2.0
    np.testing.assert_allclose(g, expected)
    assert ft.grad(lambda x: np.sum(np.eye(2, like=x) * x))(2.0) == 2.0


def test_writing_into_a_captured_array_does_not_change_it() -> None:
    target = np.zeros((2, 3))

    def f(x: Any) -> Any:
        made = np.array(target, like=x)
        made[0] = x[0]
        return np.sum(made**2)

    np.testing.assert_allclose(ft.grad(f)(X), [2 * X[0], [0.0, 0.0, 0.0]])
    assert not target.any()


def test_functions_without_dispatch_raise_with_a_fix() -> None:
    for call in (
        lambda x: np.full_like(np.ones(3), x[0, 0]),
        lambda x: np.array([x[0, 0], 1.0]),
        lambda x: np.full(3, x[0, 0]),
        lambda x: np.copyto(np.ones((2, 3)), x),
    ):
        with pytest.raises(LostGradientError, match="fix:"):
            ft.grad(lambda x, call=call: np.sum(call(x)))(X)


def test_copyto_a_traced_array() -> None:
    def f(x: Any) -> Any:
        y = np.zeros_like(x)
        np.copyto(y, x**2)
        np.copyto(y, 3.0, where=x > 0.5)
        return np.sum(y * np.arange(6.0).reshape(2, 3))

    np.testing.assert_allclose(
        ft.grad(f)(X), np.where(X > 0.5, 0.0, 2 * X * np.arange(6.0).reshape(2, 3))
    )


def test_shape_and_dtype_functions_work_on_abstract_values() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        half = x.astype(np.float32)
        seen.extend(
            [
                np.shape(x), np.ndim(x), np.size(x), np.size(x, 0), np.size(x, (0, 1)),
                np.result_type(half, x),
                np.result_type(half, 1.0), np.can_cast(x, np.float32), np.can_cast(half,
                np.float64),
                np.iscomplexobj(x), np.isrealobj(x), np.isscalar(x), np.iterable(x),
                np.common_type(half, x),
                np.min_scalar_type(x), np.einsum_path("ij,jk", x, x.T)[0],
                np.may_share_memory(x, x[0]), np.shares_memory(x, x * 1.0), x.shape,
            ]
        )  # fmt: skip
        return np.sum(x)

    ft.trace(f)(X)
    assert seen == [
        (2, 3), 2, 6, 2, 6, np.float64, np.float32, False, True, False, True, False, True,
        np.float64, np.float64,
        ["einsum_path", (0, 1)], True, False, (2, 3),
    ]  # fmt: skip


def test_repr_of_traced_values_shows_aval() -> None:
    seen: list[str] = []
    ft.grad(lambda x: (seen.extend([np.array_repr(x), np.array_str(x)]), np.sum(x))[1])(X)
    assert all("f64[2,3]" in text for text in seen)


def test_writes_to_read_only_views_raise() -> None:
    def diagonal(x: Any) -> Any:
        d = np.diagonal(x)
        d[0] = 1.0
        return np.sum(d)

    def broadcast(x: Any) -> Any:
        b = np.broadcast_to(x, (2, 2, 3))
        b[0] = 1.0
        return np.sum(b)

    for f in (diagonal, broadcast):
        with pytest.raises(ValueError, match="read-only"):
            ft.grad(f)(X)


def test_diagonal_reflects_later_writes() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        d = np.diagonal(y)
        y[0, 0] = y[1, 1] ** 2
        return d[0] + d[1]

    np.testing.assert_allclose(ft.grad(f)(X), [[0, 0, 0], [0, 2 * X[1, 1] + 1, 0]])


def test_cov_by_weights() -> None:
    w = np.array([1.0, 2.0, 0.5])
    assert_gradient(lambda x, a: np.sum(np.cov(x, aweights=a) ** 2), X, w)


def test_joining_of_active_and_inactive_operands_alternating() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.stack([x[0], np.ones(3), x[1] * x[0], np.zeros(3), x[1]]) ** 3)

    assert_gradient(f, X)
    assert_gradient(lambda x: np.sum(ft.grad(f)(x) ** 2), X, tol=1e-5)
    _, tangent = ft.jvp(f, (X,), (np.ones_like(X),))
    np.testing.assert_allclose(tangent, np.sum(ft.grad(f)(X)), rtol=1e-12)


def test_import_of_the_namespace_loads_nothing_more() -> None:
    code = "import functrace, sys; before = set(sys.modules); import functrace.numpy; assert set(sys.modules) == before"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_options_of_reduce_that_have_no_meaning_raise() -> None:
    for ufunc, options in (
        (np.logical_or, {"initial": True}),
        (np.maximum, {"dtype": np.float32}),
        (np.logical_and, {"dtype": bool}),
    ):
        with pytest.raises(UnsupportedFunctionError, match="reduce with"):
            ft.jit(lambda x, ufunc=ufunc, options=options: ufunc.reduce(x, **options))(np.ones(3))
