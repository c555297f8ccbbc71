"""Functions of the user's that the library calls: what they return is checked, and what they
overwrite is their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import CapturedArrayError, DtypeError, FunctraceError, NotDifferentiableError

X = np.linspace(0.1, 1.0, 4)
LIKE = ft.ShapeDtype((4,), np.float64)
M = np.eye(4) * 2.0 + 0.1

RETURNED: dict[str, Callable[[Any], Any]] = {
    "float32": lambda x: np.ones(4, np.float32),
    "longdouble": lambda x: np.ones(4, np.longdouble),
    "int": lambda x: np.ones(4, int),
    "bool": lambda x: np.ones(4, bool),
    "complex": lambda x: np.ones(4, complex),
    "object": lambda x: np.ones(4, object),
    "string": lambda x: np.array(list("abcd")),
    "masked": lambda x: np.ma.masked_array(np.ones(4), [False, True, False, False]),
    "matrix": lambda x: np.ones((1, 4)).view(np.matrix),
    "recarray": lambda x: np.ones(4).view(np.recarray),
    "list": lambda x: [1.0, 2.0, 3.0, 4.0],
    "shape": lambda x: np.ones(3),
    "number": lambda x: 1.0,
    "None": lambda x: None,
    "text": lambda x: "abcd",
}
"""Functions whose result is not a float64 array of shape (4,)."""

KEPT_FOR_RULES = {"float32", "longdouble", "int", "bool"}
"""Dtypes that rules may return: they are recorded, and converted."""


def of_rules(vjp: Any, jvp: Any = None) -> Any:
    return ft.primitive(np.sin, vjp, jvp, results=lambda x: x)


def with_vjp(forward: Any, backward: Any) -> Any:
    f = ft.custom_vjp(np.sin)
    f.defvjp(forward, backward)
    return lambda x: np.sum(f(x))


def with_jvp(rule: Any) -> Any:
    f = ft.custom_jvp(np.sin)
    f.defjvp(rule)
    return f


def unpacking(unpack: Any) -> Any:
    f = ft.checkpoint(lambda x: np.sin(x) * x, policy=ft.policies.pack(lambda x: x.copy(), unpack))
    return lambda x: np.sum(f(x))


def solved(matvec: Any, solve: Any) -> Any:
    return lambda b: np.sum(ft.custom_linear_solve(matvec, b, solve, symmetric=True))


def root(f: Any, solve: Any) -> Any:
    return lambda b: np.sum(ft.custom_root(lambda x: f(x - b), X, solve, lambda g, y: y))


FOREIGN: dict[str, Callable[[Any], Any]] = {
    "pure_callback": lambda f: ft.pure_callback(f, LIKE, X),
    "pure_callback, jit": lambda f: ft.jit(lambda x: ft.pure_callback(f, LIKE, x))(X),
    "pure_callback, vmap": lambda f: ft.vmap(lambda x: ft.pure_callback(f, LIKE, x))(
        np.stack([X, X])
    ),
    "primitive": lambda f: ft.primitive(f, results=lambda x: x)(X),
    "primitive, jit": lambda f: ft.jit(ft.primitive(f, results=lambda x: x))(X),
    "primitive, grad": lambda f: ft.grad(
        lambda x: np.sum(ft.primitive(f, lambda ct, y, x: (ct,), results=LIKE)(x))
    )(X),
    "vjp of primitive that is one": lambda f: ft.grad(
        lambda x: np.sum(of_rules(lambda ct, y, x: (ft.primitive(f, results=lambda x: x)(ct),))(x))
    )(X),
    "unpack": lambda f: ft.grad(unpacking(f))(X),
    "unpack, jit": lambda f: ft.jit(ft.grad(unpacking(f)))(X),
}
RULES: dict[str, Callable[[Any], Any]] = {
    "cotangent of custom_vjp": lambda f: ft.grad(
        with_vjp(lambda x: (np.sin(x), x), lambda x, ct: (f(ct),))
    )(X),
    "result of custom_vjp": lambda f: ft.grad(with_vjp(lambda x: (f(x), x), lambda x, ct: (ct,)))(
        X
    ),
    "tangent of custom_jvp": lambda f: ft.jvp(
        with_jvp(lambda p, t: (np.sin(p[0]), f(t[0]))), (X,), (X,)
    ),
    "result of custom_jvp": lambda f: ft.jvp(with_jvp(lambda p, t: (f(p[0]), t[0])), (X,), (X,)),
    "cotangent of primitive": lambda f: ft.grad(
        lambda x: np.sum(of_rules(lambda ct, y, x: (f(ct),))(x))
    )(X),
    "tangent of primitive": lambda f: ft.jvp(of_rules(None, lambda t, y, x: f(x)), (X,), (X,)),
    "solve of custom_linear_solve": lambda f: ft.grad(
        solved(lambda x: 2.0 * x, lambda mv, b: f(b))
    )(X),
    "matvec of custom_linear_solve": lambda f: ft.grad(solved(f, lambda mv, b: b))(X),
    "solve of custom_root": lambda f: ft.grad(root(lambda x: x, lambda g, x: f(x)))(X),
    "f of custom_root": lambda f: ft.grad(root(f, lambda g, x: x))(X),
}


def test_results_of_user_functions_are_checked() -> None:
    wrong = []
    for border, call in (FOREIGN | RULES).items():
        for name, f in RETURNED.items():
            if border in RULES and name in KEPT_FOR_RULES:
                continue
            if (border[:6], name) == ("unpack", "list") or (border[:9], name) == (
                "cotangent",
                "None",
            ):  # as documented
                continue
            try:
                wrong.append((border, name, call(f)))
            except FunctraceError as error:
                if "fix:" not in str(error):
                    wrong.append((border, name, error))
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"


@pytest.mark.parametrize("border", FOREIGN)
def test_results_of_any_memory_layout_are_accepted(border: str) -> None:
    expected = FOREIGN[border](lambda x: np.array(x))
    good: tuple[Callable[[Any], Any], ...] = (
        lambda x: np.array(x).astype(">f8"), lambda x: np.asarray(x)[::-1].copy()[::-1], lambda x: x
    )  # fmt: skip
    for f in good:
        np.testing.assert_array_equal(FOREIGN[border](f), expected)


def test_python_numbers_take_the_declared_dtype_where_promotion_keeps_it() -> None:
    for value, dtype in (
        (True, "bool"),
        (1, "uint8"),
        (1, "float32"),
        (1.5, "float32"),
        (2, "complex64"),
        (True, "int8"),
    ):
        found = ft.pure_callback(lambda value=value: value, ft.ShapeDtype((), dtype))
        assert found == value and found.dtype == dtype
    for value, dtype in (
        (1, "bool"),
        (1.5, "int64"),
        (1j, "float64"),
        (np.float64(1.0), "float32"),
        (np.int8(1), "int64"),
    ):
        with pytest.raises(DtypeError, match="was declared"):
            ft.pure_callback(lambda value=value: value, ft.ShapeDtype((), dtype))


def overwriting(x: Any) -> Any:
    y = x.copy()
    x *= 2.0
    return y


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "vjp": lambda f, x: ft.vjp(f, x),
    "value_and_grad": lambda f, x: ft.value_and_grad(lambda x: np.sum(f(x)))(x),
    "jit": lambda f, x: ft.jit(ft.grad(lambda x: np.sum(f(x) * x)))(x),
    "scan": lambda f, x: ft.grad(
        lambda x: np.sum(ft.scan(lambda c, _: (f(c), None), x, None, 3)[0])
    )(x),
    "while_loop": lambda f, x: ft.grad(
        lambda x: np.sum(
            ft.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, f(s[1])), (0, x))[1]
        )
    )(x),
    "vmap": lambda f, x: ft.vmap(ft.grad(lambda x: np.sum(f(x))))(np.stack([x, x])),
    "second order": lambda f, x: ft.hessian(lambda x: np.sum(f(x)))(x),
}


@pytest.mark.parametrize("way", WAYS)
def test_pack_that_writes_into_its_argument_raises(way: str) -> None:
    x = X.copy()
    f = ft.checkpoint(
        lambda x: np.sin(np.exp(x)), policy=ft.policies.pack(overwriting, lambda x: x)
    )
    with pytest.raises(CapturedArrayError, match="pack writes into the residual") as caught:
        WAYS[way](f, x)
    assert "in overwriting" in str(caught.value) and "x.copy()" in str(caught.value)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("way", WAYS)
def test_unpack_may_reuse_a_buffer(way: str) -> None:
    buffers: dict[Any, Any] = {}

    def unpack(x: Any) -> Any:
        buffer = buffers.setdefault((x.shape, x.dtype), np.empty_like(x))
        buffer[...] = x
        return buffer

    f = lambda x: np.sin(x) * np.cos(x) * x
    packed = ft.checkpoint(f, policy=ft.policies.pack(lambda x: x.copy(), unpack))
    if way == "vjp":
        np.testing.assert_array_equal(ft.vjp(packed, X)[1](X)[0], ft.vjp(f, X)[1](X)[0])
    else:
        for found, expected in zip(
            ft.tree.leaves(WAYS[way](packed, X)), ft.tree.leaves(WAYS[way](f, X)), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_foreign_functions_overwrite_arrays_of_their_own() -> None:
    f = ft.primitive(
        overwriting, lambda ct, y, x: (overwriting(np.array(1.0) * ct),), results=lambda x: x
    )
    calls: tuple[Callable[[Any], Any], ...] = (
        f, ft.jit(f), lambda x: ft.vjp(f, x)[0], ft.vmap(f),
        lambda x: ft.pure_callback(overwriting, lambda x: x, x), ft.primitive(overwriting),
        lambda x: (ft.debug.callback(overwriting, x), x)[1],
        lambda x: ft.jit(lambda x: (ft.debug.callback(overwriting, x), x)[1])(x),
    )  # fmt: skip
    for call in calls:
        x = X.copy()
        np.testing.assert_array_equal(call(x), X)
        np.testing.assert_array_equal(x, X)


# -- linear maps -----------------------------------------------------------------------------------

custom = ft.custom_jvp(lambda v: M @ v)
custom.defjvp(lambda p, t: (M @ p[0], M @ t[0]))
LINEAR: dict[str, Callable[[Any], Any]] = {
    "matrix": lambda v: M @ v,
    "jit": ft.jit(lambda v: M @ v),
    "checkpoint": ft.checkpoint(lambda v: M @ v),
    "scan": lambda v: ft.scan(lambda c, _: (M @ c, None), v, None, 2)[0],
    "while_loop": lambda v: ft.while_loop(
        lambda s: s[0] < 2, lambda s: (s[0] + 1, M @ s[1]), (0, v)
    )[1],
    "cond": lambda v: ft.cond(v.shape[0] > 2, lambda v: M @ v, lambda v: v, v),
    "custom_jvp": custom,
    "foreign": lambda v: ft.pure_callback(lambda v: M @ v, LIKE, v),
    "tangent": lambda v: ft.jvp(lambda x: np.sin(x) * x, (X,), (v,))[1],
    "cotangent": lambda v: ft.vjp(lambda x: np.sin(x) * x, X)[1](v)[0],
    "solve": lambda v: np.linalg.solve(M, v),
    "inner": lambda v: ft.custom_linear_solve(
        lambda x: M @ x, v, lambda mv, b: np.linalg.solve(M, b)
    ),
    "where": lambda v: np.where(X > 0.5, v, 0.0),
    "zeros": lambda v: np.concatenate([np.zeros(1), v[1:]]) + np.zeros(4),
    "fft": lambda v: np.fft.ifft(np.fft.fft(v)).real,
    "packed": ft.checkpoint(lambda v: M @ v, policy=ft.policies.pack(lambda a: a, lambda a: a)),
}
NOT_LINEAR: dict[str, Callable[[Any], Any]] = {
    "power": lambda v: v**3, "absolute": np.abs, "sin": np.sin, "square": lambda v: v * v,
    "sort": np.sort,
    "norm": lambda v: v / np.linalg.norm(v), "maximum": lambda v: np.maximum(v, 0.0),
    "affine": lambda v: v + 1.0,
    "constant": lambda v: X, "where": lambda v: np.where(X > 0.5, v, 1.0),
    "scan": lambda v: ft.scan(lambda c, _: (c + 1.0, None), v, None, 3)[0],
    "jit": ft.jit(lambda v: np.exp(v) - 1.0),
}  # fmt: skip


@pytest.mark.parametrize("options", [{"symmetric": True}, {"transpose_solve": lambda mv, b: b}, {}])
def test_matvec_that_is_not_linear_raises(options: Any) -> None:
    wrong = []
    for is_linear, maps in ((True, LINEAR), (False, NOT_LINEAR)):
        for name, matvec in maps.items():
            if is_linear and "transpose_solve" in options and name in ("foreign", "inner"):
                continue  # they have no transpose
            f = lambda b, matvec=matvec: np.sum(
                ft.custom_linear_solve(matvec, b, lambda mv, b: 2.0 * b, **options)
            )
            runs: tuple[Callable[[], Any], ...] = (
                lambda f=f: ft.jvp(f, (X,), (X,)), lambda f=f: ft.jit(f)(X),
                lambda f=f: ft.vmap(f)(np.stack([X, X])),
                *([lambda f=f: ft.grad(f)(X)] if options else []),
            )  # fmt: skip
            for n, run in enumerate(runs):
                try:
                    run()
                    raised = None
                except NotDifferentiableError as error:
                    raised = str(error)
                if (raised is None) is not is_linear:
                    wrong.append((name, n, raised))
    assert not wrong, f"{len(wrong)}: {wrong[:4]}"
