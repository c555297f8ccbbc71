"""Functions that convert a traced value to a plain array: the error names the function and a
replacement that works.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import functrace as ft
import functrace.numpy as fnp
from functrace.errors import ConcretizationError, LostGradientError, UnsupportedFunctionError
from functrace.numpy.protocol.conversions import BEYOND, REACHED
from tests.oracles import differences

pytestmark = pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # of numpy.matrix
X = np.array([1.2, 0.7, 2.1, 0.4])

CONVERTING: dict[str, Callable[[Any, Any], Any]] = {
    "array": lambda np, x: np.array([x[0], 1.0]),
    "asarray": lambda np, x: np.asarray(x),
    "asanyarray": lambda np, x: np.asanyarray(x),
    "ascontiguousarray": lambda np, x: np.ascontiguousarray(x),
    "asfortranarray": lambda np, x: np.asfortranarray(x),
    "require": lambda np, x: np.require(x),
    "asarray_chkfinite": lambda np, x: np.asarray_chkfinite(x),
    "full": lambda np, x: np.full(3, x[0]),
    "arange": lambda np, x: np.arange(x[2]) * x[0],
    "kaiser": lambda np, x: np.kaiser(5, x[0]),
    "r_": lambda np, x: np.r_[x, x[0], 1.0],
    "c_": lambda np, x: np.c_[x, x**2],
    "vectorize": lambda np, x: np.vectorize(lambda a: a**2)(x),
    "ndenumerate": lambda np, x: sum(element**2 * (place[0] + 1) for place,
    element in np.ndenumerate(x)),
    "broadcast": lambda np, x: sum(a * b**2 for a, b in np.broadcast(x, x[:, None])),
    "nditer": lambda np, x: sum(np.nditer(x, op_flags=[["readonly"]])),
    "as_strided": lambda np, x: as_strided(x, (2,), (8,)),
    "from_dlpack": lambda np, x: np.from_dlpack(x),
    "mgrid": lambda np, x: np.mgrid[0 : x[0]],
    "ogrid": lambda np, x: np.ogrid[0 : x[0] : 0.1],
    "matrix": lambda np, x: np.matrix(x),
    "asmatrix": lambda np, x: np.asmatrix(x),
    "bmat": lambda np, x: np.bmat([[x]]),
    "fromiter": lambda np, x: np.fromiter((element * 2.0 for element in x), float),
}  # fmt: skip
"""By name a call of it."""

WITHOUT_NAME = {"fromiter", "nditer"}
"""Functions that call ``float(x)``, or raise NumPy's own error in place of ours."""


def test_every_way_out_has_a_call() -> None:
    assert set(CONVERTING) | {"poly1d"} == set(REACHED) | set(BEYOND)


@pytest.mark.parametrize("name", sorted(set(CONVERTING) - WITHOUT_NAME))
def test_the_function_is_named_with_the_way_out(name: str) -> None:
    with pytest.raises(
        LostGradientError, match=rf"^numpy\.(lib\.stride_tricks\.)?{name}: "
    ) as caught:
        ft.vjp(lambda x: CONVERTING[name](np, x), X)
    error = caught.value
    assert error.at is not None and error.at.file == __file__
    assert error.fix is not None and error.fix.startswith({**REACHED, **BEYOND}[name])
    assert ("functrace.numpy.lift" in error.fix) == (name in REACHED)


def test_errors_of_compiled_code_are_explained() -> None:
    with pytest.raises(
        LostGradientError, match=r"^numpy\.fromiter\(x\) would lose(.|\n)*use np\.stack\(list"
    ):
        ft.vjp(lambda x: CONVERTING["fromiter"](np, x), X)
    with pytest.raises(
        LostGradientError, match=r"^numpy\.nditer: a traced value(.|\n)*np\.ndindex"
    ):
        ft.vjp(lambda x: CONVERTING["nditer"](np, x), X)


def test_conversions_of_integer_results_lose_no_derivative() -> None:
    def f(x: Any) -> Any:
        n = np.argmax(x) / 2 + np.sum(x > 1.0)
        return x * float(n) * np.asarray(n) * n.item() * np.arange(n)[-1]

    n = 3.0
    np.testing.assert_array_equal(ft.vjp(f, X)[0], X * n * n * n * 2)
    np.testing.assert_array_equal(ft.jvp(f, (X,), (X,))[1], X * n * n * n * 2)
    for part in (lambda x: x * float(np.argmax(x) / 2), lambda x: x * np.asarray(np.argmax(x) / 2)):
        with pytest.raises(ConcretizationError):
            ft.jit(part)(X)
        np.testing.assert_array_equal(
            ft.vmap(part)(np.stack([X, X[::-1]])), [part(X), part(X[::-1])]
        )
    with pytest.raises(LostGradientError):
        ft.vjp(lambda x: x * float(np.argmax(x) + x[0]), X)


@pytest.mark.parametrize("name", sorted(BEYOND.keys() & CONVERTING.keys()))
def test_unsupported_functions_raise_in_the_namespace_and_under_lift(name: str) -> None:
    for namespace, around in ((fnp, lambda f: f), (np, ft.numpy.lift)):
        with pytest.raises((LostGradientError, UnsupportedFunctionError)) as caught:
            ft.vjp(around(lambda x, np=namespace: CONVERTING[name](np, x)), X)
        assert caught.value.fix is not None and BEYOND[name] in caught.value.fix


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(CONVERTING.keys() & REACHED.keys()))
def test_supported_functions_are_right_in_the_namespace_and_under_lift(name: str) -> None:
    plain = lambda x: np.sum(CONVERTING[name](np, x) ** 2)
    lifted = ft.numpy.lift(lambda x: np.sum(CONVERTING[name](np, x) ** 2))
    direction = np.array([0.3, -0.8, 0.5, 0.2])
    (slope,) = differences(plain, [X], [direction])
    for f in (lifted, lambda x: np.sum(CONVERTING[name](fnp, x) ** 2)):
        np.testing.assert_allclose(f(X), plain(X))
        np.testing.assert_allclose(ft.grad(f)(X) @ direction, slope, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(ft.jvp(f, (X,), (direction,))[1], slope, rtol=1e-7, atol=1e-9)
        (second,) = differences(ft.grad(f), [X], [direction])
        np.testing.assert_allclose(ft.hessian(f)(X) @ direction, second, rtol=1e-6, atol=1e-7)
        batch = np.stack([X, X[::-1]])
        if name in ("arange", "asarray_chkfinite"):
            with pytest.raises(ConcretizationError):
                ft.jit(f)(X)
            np.testing.assert_allclose(ft.vmap(ft.grad(f))(batch), [ft.grad(f)(x) for x in batch])
            continue
        np.testing.assert_allclose(ft.jit(f)(X), plain(X))
        np.testing.assert_allclose(
            ft.jit(ft.vmap(ft.grad(f)))(batch), [ft.grad(f)(x) for x in batch]
        )


@pytest.mark.parametrize(
    ("call", "name", "way"),
    [
        (lambda x: np.mean([x[0], x[1]]), "numpy.mean", r"np\.mean\(np\.stack"),
        (
            lambda x: np.linalg.norm([x[0], 1.0]),
            "numpy.linalg.norm",
            r"np\.linalg\.norm\(np\.stack",
        ),
        (lambda x: np.float64(x[0]), "numpy.float64", r"x\.astype\(np\.float64\)"),
        (lambda x: np.random.default_rng(0).normal(x), "numpy.random.", "standard_normal"),
        (lambda x: np.random.normal(x[0], x), "numpy.random.RandomState.normal", "standard_normal"),  # noqa: NPY002
        (lambda x: np.ma.masked_array(x, [0, 1, 0, 1]), "numpy.ma.", r"np\.where\(mask"),
        (lambda x: np.testing.assert_allclose(x, x), "numpy.", r"functrace\.value"),
        (
            lambda x: np.polynomial.Polynomial(x),
            "numpy.polynomial.Polynomial",
            "functrace.numpy.lift",
        ),
        (
            lambda x: np.polynomial.chebyshev.chebval(0.5, x),
            "numpy.polynomial.",
            "functrace.numpy.lift",
        ),
    ],
)
def test_others_are_named_too(call: Any, name: str, way: str) -> None:
    with pytest.raises((LostGradientError, TypeError)) as caught:
        ft.vjp(call, X)
    if not name:
        return
    assert str(caught.value).startswith(name)
    assert caught.match(way)


def test_the_generator_is_named() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(
        LostGradientError, match=r"^numpy\.random.*Generator\.normal: [\s\S]*standard_normal"
    ):
        ft.vjp(lambda x: rng.normal(x), X)


@pytest.mark.parametrize(
    "function",
    [
        np.hanning,
        np.hamming,
        np.bartlett,
        np.blackman,
        np.zeros,
        np.eye,
        np.arange,
        np.indices,
        range,
    ],
)
def test_an_abstract_size_raises_and_a_concrete_one_works(function: Any) -> None:
    size = (lambda x: (x,)) if function is np.indices else lambda x: x
    with pytest.raises(ConcretizationError, match=r"take sizes from"):
        ft.jit(lambda x: np.sum(function(size(np.argmax(x)))))(X)
    expected = np.sum(function(size(2))) * X[0]
    np.testing.assert_array_equal(
        ft.vjp(lambda x: np.sum(function(size(np.argmax(x)))) * x[0], X)[0], expected
    )


def test_functions_that_need_a_concrete_size_are_named() -> None:
    for name, call in (
        ("numpy.hanning", lambda n: np.hanning(n)),
        ("range", lambda n: list(range(n))),
    ):
        with pytest.raises(
            ConcretizationError, match=rf"^{name} reads the value of a traced integer"
        ):
            ft.jit(lambda x, call=call: call(np.argmax(x)))(X)


def test_the_index_of_a_plain_table_has_its_own_way_out() -> None:
    table = np.arange(4.0)
    for f in (lambda x: table[np.argmax(x)], lambda x: np.take(table, np.argmax(x))):
        with pytest.raises(ConcretizationError, match=r"functrace\.numpy\.take\(T, i\) instead"):
            ft.jit(f)(X)


def test_without_source_there_is_no_name() -> None:
    scope: dict[str, Any] = {"np": np}
    exec("def f(x): return np.array([x[0], 1.0])", scope)
    with pytest.raises(
        LostGradientError, match=r"^a traced value \(f64\[\]\) cannot become a plain ndarray"
    ):
        ft.vjp(scope["f"], X)


def test_nothing_of_the_users_runs_to_find_a_name() -> None:
    class Loud:
        @property
        def array(self) -> Any:
            seen.append(1)
            return np.array

    seen: list[int] = []
    loud = Loud()
    with pytest.raises(LostGradientError, match=r"^loud\.array: "):
        ft.vjp(lambda x: loud.array(x), X)
    assert seen == [1]


# -- classes of NumPy's that the namespace has its own of ------------------------------------------


def test_ndenumerate_is_numpys() -> None:
    for a in (np.arange(6.0).reshape(2, 3), np.array(2.0), np.zeros((2, 0))):
        expected = list(np.ndenumerate(a))
        assert list(fnp.ndenumerate(a)) == expected
        found: list[Any] = []
        ft.vjp(
            lambda x, found=found: (
                found.extend((i, ft.value(v)) for i, v in fnp.ndenumerate(x)) or x * 1.0
            ),
            a,
        )
        assert found == expected
    assert isinstance(fnp.ndenumerate(X), np.ndenumerate)


def test_broadcast_is_numpys() -> None:
    a, b = np.arange(3.0), np.arange(2.0)[:, None]
    plain = np.broadcast(a, b)
    assert isinstance(plain, fnp.broadcast)

    def f(x: Any) -> Any:
        made = fnp.broadcast(x, b)
        assert isinstance(made, fnp.broadcast)
        facts = ("shape", "ndim", "nd", "size", "numiter", "index")
        assert [getattr(made, fact) for fact in facts] == [getattr(plain, fact) for fact in facts]
        pairs = list(made)
        assert made.index == made.size
        made.reset()
        assert ([ft.value(x) for x in next(made)], made.index) == ([0.0, 0.0], 1)
        assert [[ft.value(x) for x in one] for one in made.iters] == [
            list(one) for one in plain.iters
        ]
        return sum(p * q for p, q in pairs)

    assert type(fnp.broadcast(a, b)) is np.broadcast
    np.testing.assert_array_equal(ft.grad(f)(a), [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="broadcast"):
        ft.grad(lambda x: fnp.broadcast(x, a[:2]).size * x[0])(a)


def test_fromiter_accepts_the_arguments_of_numpy() -> None:
    for iterable, count in (
        (lambda: iter(X), -1),
        (lambda: (x for x in X), 2),
        (lambda: [1, 2, 3], 3),
    ):
        expected = np.fromiter(iterable(), np.float32, count)
        found: list[Any] = []

        def f(
            x: Any, iterable: Any = iterable, count: int = count, found: list[Any] = found
        ) -> Any:
            found.append(ft.value(fnp.fromiter(iterable(), np.float32, count)))
            found.append(fnp.fromiter((x[0] * v for v in iterable()), np.float32, count))
            return found[1]

        value = ft.vjp(f, np.float64(1.0) * np.ones(1))[0]
        for one in (fnp.fromiter(iterable(), np.float32, count), found[0], value):
            np.testing.assert_array_equal(one, expected)
            assert one.dtype == np.float32
    left = iter(range(5))
    ft.vjp(lambda x: fnp.fromiter(left, float, 2) * x[0], X)
    assert next(left) == 2
    for made in (np, fnp):
        with pytest.raises(ValueError, match="too short"):
            made.fromiter(iter([1.0]), float, 2)
    with pytest.raises(ValueError, match="too short"):
        ft.vjp(lambda x: fnp.fromiter(x, float, 9), X)
