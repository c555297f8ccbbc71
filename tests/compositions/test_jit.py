"""jit: the same results as without it, staged once per signature, in and around every other
transform.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import optree
import pytest

import functrace as ft
from functrace.errors import ArgumentError, ConcretizationError, DtypeError, LeakedTracerError
from tests.compositions.functions import BATCH, V, X, rosenbrock, scalar, vector


class Counted:
    """A function that counts its calls."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.f = f
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.f(*args, **kwargs)


def assert_equal(found: Any, expected: Any) -> None:
    """Assert equal pytrees of arrays: structure, dtypes and every bit."""
    assert ft.tree.structure(found) == ft.tree.structure(expected)
    for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


# -- what it computes ------------------------------------------------------------------------------


@scalar
def test_jit_equals_the_function(f: Any) -> None:
    jitted = ft.jit(f)
    for x in (X, V, X):
        np.testing.assert_allclose(jitted(x), f(x), rtol=1e-15)


def test_jit_stages_once_per_signature() -> None:
    f = Counted(lambda x: np.sum(np.sin(x)))
    jitted = ft.jit(f)
    for x in (X, V, X.astype(np.float32), V.astype(np.float32), BATCH, X.reshape(3, 1), X):
        np.testing.assert_allclose(jitted(x), np.sum(np.sin(x)), rtol=1e-6)
    assert f.calls == 4
    info = jitted.cache_info()
    assert (info.hits, info.misses, info.currsize) == (3, 4, 4)
    assert jitted.cache_info() == info
    jitted.cache_clear()
    assert (jitted.cache_info().hits, jitted.cache_info().misses, jitted.cache_info().currsize) == (
        0,
        0,
        0,
    )
    jitted(X)
    assert f.calls == 5


def test_jit_of_numpy_scalars_and_0d_arrays_shares_a_signature() -> None:
    f = Counted(lambda x: x * 2.0)
    jitted = ft.jit(f)
    assert jitted(np.float64(1.5)) == 3.0
    assert jitted(np.array(2.5)) == 5.0
    assert f.calls == 1


class Pair(NamedTuple):
    first: Any
    second: Any


def test_jit_takes_and_returns_pytrees() -> None:
    f = Counted(
        lambda p, flag=None, *, extra: {
            "sum": p["w"] @ p["b"][0],
            "pair": Pair(p["b"], (extra * 2, None, [flag])),
        }
    )
    jitted = ft.jit(f)
    params = {"w": np.eye(3), "b": [X, V]}
    for _ in range(2):
        assert_equal(jitted(params, extra=V), f.f(params, extra=V))
    assert f.calls == 1
    assert_equal(jitted(params, X, extra=V), f.f(params, X, extra=V))
    assert_equal(
        jitted({"w": np.eye(3), "b": (X, V)}, extra=V), f.f({"w": np.eye(3), "b": (X, V)}, extra=V)
    )
    assert f.calls == 3


def test_jit_without_array_arguments_or_results() -> None:
    assert ft.jit(lambda: None)() is None
    assert_equal(ft.jit(lambda: (X, 2.0))(), (X, 2.0))
    assert_equal(ft.jit(lambda x: [])(X), [])


def test_jit_as_decorator_keeps_the_name_and_takes_options() -> None:
    @ft.jit(static_argnames="n", maxsize=2)
    def repeated(x: Any, n: int) -> Any:
        """Repeat."""
        return np.tile(x, n)

    assert (repeated.__name__, repeated.__doc__) == ("repeated", "Repeat.")
    assert repeated(X, n=2).shape == (6,) and repeated(X, 3).shape == (9,)
    assert repeated.cache_info().maxsize == 2


def test_jit_reads_arrays_of_any_layout() -> None:
    jitted = ft.jit(lambda x: np.sum(x * 2.0, axis=0))
    for x in (np.asfortranarray(BATCH), BATCH[::2], BATCH.T[::-1], BATCH.astype(">f8")):
        np.testing.assert_allclose(jitted(x), np.sum(np.array(x, float) * 2.0, axis=0), rtol=1e-15)


# -- numbers ---------------------------------------------------------------------------------------

ARRAYS = [
    X.astype(np.float32),
    X,
    X.astype(complex).astype(np.complex64),
    np.arange(3, dtype=np.int8),
    X > 0,
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda a: str(a.dtype))
@pytest.mark.parametrize("number", [2.5, 3, True], ids=["float", "int", "bool"])
def test_jit_keeps_python_numbers_weak(array: Any, number: Any) -> None:
    def f(x: Any, n: Any) -> Any:
        results = [
            x * n, n * x, x + n, x / n, np.maximum(x, n), np.where(x == x, x, n), np.where(x == x,
            n, 2),
            x * (n + 1), x * (2.0 * n - 1),
            x * (n * n), np.sin(n) * x, np.add(n, 1) * x, n / 2 * x, -n * x, abs(n) * x, n**2 * x,
            (n > 1) * x,
            x > n, n, n + n, [n * np.float32(2)], np.multiply(n, n), n // 2 * x, n % 2 * x,
            np.stack([n, n]), divmod(n, 2),
        ]  # fmt: skip
        if x.dtype.kind == "f":
            results += [np.clip(x, 0, n), x.clip(n, None), np.abs(x) ** n]
        return results

    jitted = ft.jit(f)
    for n in (number, type(number)(number + 1)):
        found, expected = jitted(array, n), f(array, n)
        for k, (a, b) in enumerate(
            zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True)
        ):
            assert np.asarray(a).dtype == np.asarray(b).dtype, f"result {k}"
            np.testing.assert_allclose(a, b, rtol=1e-6, err_msg=f"result {k}")
    assert jitted.cache_info().misses == 1


def test_jit_of_numbers_in_place_and_in_assignments() -> None:
    def f(x: Any, rate: Any) -> Any:
        x = x * 1
        x *= rate
        x[0] = rate
        rate += 1
        rate *= rate
        total = rate
        total += x
        return x, total

    x = X.astype(np.float32)
    assert_equal(ft.jit(f)(x, 0.1), f(x, 0.1))


def test_jit_caches_by_python_type_not_by_value() -> None:
    f = Counted(lambda n: n * 2)
    jitted = ft.jit(f)
    for n, dtype in (
        (1, np.int64),
        (7, np.int64),
        (1.0, np.float64),
        (0.5, np.float64),
        (True, np.int64),
        (1j, np.complex128),
    ):
        assert jitted(n) == n * 2
        assert jitted(n).dtype == dtype
    assert f.calls == 4


def test_jit_numbers_inside_inner_transforms_stay_weak() -> None:
    x = X.astype(np.float32)

    def f(x: Any, n: Any) -> Any:
        gradient = ft.grad(lambda y: np.sum(y * n) * n)(x)
        mapped = ft.vmap(lambda y: y * n)(x)
        both = ft.vmap(lambda y, m: y * m, in_axes=(0, None))(x, n)
        of_number = ft.grad(lambda m: np.sum(x * m))(n)
        inner = ft.jit(lambda y, m: y * m)(x, n)
        chosen = ft.cond(x[0] > 0, lambda y: y * n, lambda y: y / n, x)
        summed, _ = ft.scan(lambda c, y: (c * n + y, None), x[0], x)
        started, _ = ft.scan(lambda c, y: (c * y, c), n, x)
        counted, _ = ft.scan(lambda c, y: (c + y, c), 1 + n * 0, X)
        kept = ft.checkpoint(lambda y, m: y * m)(x, n)
        return gradient, mapped, both, of_number, inner, chosen, summed, started, counted, kept

    found, expected = ft.jit(f)(x, 1.5), f(x, 1.5)
    for k, (a, b) in enumerate(zip(found, expected, strict=True)):
        assert a.dtype == b.dtype, f"result {k}"
        np.testing.assert_allclose(a, b, rtol=1e-6)
    total = lambda n: ft.scan(lambda c, y: (c + y, c), n, X)[0]
    assert_equal(ft.jit(total)(1), total(1))


@pytest.mark.parametrize(
    "f",
    [
        lambda n: 1 if n else 2,
        lambda n: sum(range(n)),
        lambda n: float(n),
        lambda n: int(n),
        lambda n: np.zeros(n),
        lambda n: np.sum(np.ones((2, 2)), axis=n),
        lambda n: [1, 2, 3, 4][n],
        lambda n: X[n],
        lambda n: 2**n,
    ],
    ids=["if", "range", "float", "int", "shape", "axis", "list", "ndarray", "power"],
)
def test_jit_error_suggests_static_argnums_for_concrete_numbers(f: Any) -> None:
    jitted = ft.jit(f)
    with pytest.raises(ConcretizationError, match=r"test_jit\.py(.|\n)*static_arg"):
        jitted(1)
    assert jitted.cache_info().currsize == 0
    np.testing.assert_array_equal(ft.jit(f, static_argnums=0)(1), f(1))


def test_jit_branch_on_a_traced_value_raises() -> None:
    def f(x: Any) -> Any:
        return x if x[0] > 0 else -x

    with pytest.raises(
        ConcretizationError, match=r"return x if x\[0\] > 0(.|\n)*np\.where(.|\n)*static_argnums"
    ):
        ft.jit(f)(X)


def test_jit_refuses_integers_beyond_64_bits() -> None:
    with pytest.raises(ArgumentError, match="does not fit into 64 bits"):
        ft.jit(lambda n: n * 2.0)(2**70)


# -- static arguments ------------------------------------------------------------------------------


def test_jit_static_arguments_by_position_and_name() -> None:
    f = Counted(lambda x, n, mode="sin": getattr(np, mode)(x)[:n])
    jitted = ft.jit(f.f, static_argnums=1, static_argnames="mode")
    for _ in range(2):
        assert_equal(jitted(X, 2), np.sin(X)[:2])
        assert_equal(jitted(X, n=2), np.sin(X)[:2])
        assert_equal(jitted(X, 2, "cos"), np.cos(X)[:2])
        assert_equal(jitted(X, 2, mode="cos"), np.cos(X)[:2])
        assert_equal(jitted(mode="cos", n=1, x=X), np.cos(X)[:1])
    assert jitted.cache_info().misses == 5
    assert jitted.cache_info().hits == 5


def test_jit_static_values_that_are_equal_but_not_identical() -> None:
    seen: list[Any] = []
    jitted = ft.jit(lambda x, n: (seen.append(n), x * n)[1], static_argnums=-1)
    x = X.astype(np.float32)
    for n in (1, 1.0, True, 0.0, -0.0, 1):
        assert_equal(jitted(x, n), x * n)
    assert [repr(n) for n in seen] == ["1", "1.0", "True", "0.0", "-0.0"]
    shaped = ft.jit(lambda x, n: np.full(2, n[0], like=x) * x[:2], static_argnums=1)
    assert shaped(x, (1, 2)).dtype == np.float64
    assert shaped(x, (True, 2)).dtype == np.float32
    assert shaped.cache_info().misses == 2


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, np.ones(2)], ids=["list", "dict", "array"])
def test_jit_refuses_static_arguments_without_hash(value: Any) -> None:
    with pytest.raises(
        ArgumentError, match=r"static argument 1 is a \w+, which cannot be hashed(.|\n)*fix: pass"
    ):
        ft.jit(lambda x, n: x, static_argnums=1)(X, value)


@pytest.mark.parametrize(
    "value", ["mean", np.sum, object(), {1, 2}], ids=["str", "function", "object", "set"]
)
def test_jit_refuses_nonnumeric_arguments_that_are_not_static(value: Any) -> None:
    with pytest.raises(
        ArgumentError, match=r"args\[1\] is a \w+, not an array or a number(.|\n)*static_argnums"
    ):
        ft.jit(lambda x, how: x)(X, value)
    with pytest.raises(ArgumentError, match=r"kwargs\['how'\]"):
        ft.jit(lambda x, how: x)(X, how=value)


def test_jit_refuses_static_parameters_that_do_not_exist() -> None:
    def f(x: Any, n: int) -> Any:
        return x

    with pytest.raises(ArgumentError, match="2 positional parameters"):
        ft.jit(f, static_argnums=2)
    with pytest.raises(ArgumentError, match="no parameter m"):
        ft.jit(f, static_argnames=("n", "m"))
    with pytest.raises(ArgumentError, match="maxsize=0"):
        ft.jit(f, maxsize=0)


def test_jit_refuses_objects_and_strings_as_arrays_and_results() -> None:
    with pytest.raises(DtypeError):
        ft.jit(lambda x: x)(np.array(["a"]))
    with pytest.raises(DtypeError, match="returned a str"):
        ft.jit(lambda x: "a")(X)


# -- inside and around other transforms ------------------------------------------------------------


@scalar
def test_jit_inside_and_around_derivatives(f: Any) -> None:
    g = ft.jit(f)
    directions = (V,)
    for transform in (
        lambda h: ft.grad(h)(X),
        lambda h: ft.value_and_grad(h)(X),
        lambda h: ft.hessian(h)(X),
        lambda h: ft.jvp(h, (X,), directions),
        lambda h: ft.vmap(h)(BATCH),
        lambda h: ft.vmap(ft.grad(h))(BATCH),
        lambda h: ft.jacrev(ft.grad(h))(X),
        lambda h: ft.jacfwd(ft.jit(ft.grad(ft.jit(h))))(X),
        lambda h: ft.grad(lambda x: np.sum(ft.jit(ft.grad(h))(x) ** 2))(X),
        lambda h: ft.vjp(h, X)[1](2.0)[0],
        lambda h: ft.linearize(h, X)[1](V),
    ):
        for a, b in zip(ft.tree.leaves(transform(g)), ft.tree.leaves(transform(f)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    for transform in (
        ft.grad,
        ft.hessian,
        ft.value_and_grad,
        lambda h: ft.jit(ft.jit(h)),
        ft.jacfwd,
        ft.elementwise_grad,
    ):
        found, expected = ft.jit(transform(f))(X), transform(f)(X)
        for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(
        ft.jit(ft.vmap(ft.grad(f)))(BATCH), np.stack([ft.grad(f)(x) for x in BATCH]), rtol=1e-11
    )


def test_jit_is_staged_once_for_plain_and_traced_calls() -> None:
    f = Counted(lambda x: np.sum(np.sin(x) * x))
    jitted = ft.jit(f)
    jitted(X)
    for x in (X, V):
        np.testing.assert_allclose(ft.grad(jitted)(x), np.cos(x) * x + np.sin(x), rtol=1e-14)
        np.testing.assert_allclose(
            ft.hessian(jitted)(x), np.diag(2 * np.cos(x) - x * np.sin(x)), rtol=1e-13, atol=1e-14
        )
        ft.vmap(jitted)(BATCH)
    assert f.calls == 1


def test_jit_in_a_trace_is_one_equation() -> None:
    inner = ft.jit(lambda x: np.sin(x) * 2.0)
    program = ft.trace(lambda x: inner(x) + inner(x + 1.0))(X).check()
    assert [e.primitive.name for e in program.equations].count("call") == 2
    np.testing.assert_allclose(
        ft.evaluate(program, X), 2 * np.sin(X) + 2 * np.sin(X + 1), rtol=1e-15
    )
    assert ft.Program.parse(program.text()) == program


def test_jit_of_python_numbers_inside_grad() -> None:
    jitted = ft.jit(lambda x, n: np.sum(x * n))
    x = X.astype(np.float32)
    assert_equal(ft.grad(lambda v: jitted(v, 2.5))(x), np.full(3, 2.5, np.float32))
    np.testing.assert_allclose(ft.grad(lambda n: jitted(X, n))(2.5), np.sum(X), rtol=1e-14)


def test_jit_around_a_closure_over_an_outer_value() -> None:
    f = Counted(lambda x, w: x * w)

    def outer(w: Any) -> Any:
        inner = ft.jit(lambda x: np.sum(np.sin(f(x, w))))
        return inner(X) + inner(V)

    np.testing.assert_allclose(
        ft.grad(outer)(2.0), np.sum(X * np.cos(2 * X)) + np.sum(V * np.cos(2 * V)), rtol=1e-13
    )
    np.testing.assert_allclose(
        ft.grad(ft.grad(outer))(2.0), -np.sum(X**2 * np.sin(2 * X)) - np.sum(V**2 * np.sin(2 * V))
    )
    np.testing.assert_allclose(ft.vmap(outer)(V), [outer(w) for w in V], rtol=1e-14)
    np.testing.assert_allclose(ft.jit(ft.grad(outer))(2.0), ft.grad(outer)(2.0), rtol=1e-13)


def test_jit_that_captured_a_traced_value_is_not_kept() -> None:
    held: list[Any] = [np.float64(0.0)]
    jitted = ft.jit(lambda x: x * held[0])

    def outer(w: Any, x: Any) -> Any:
        held[0] = w
        return np.sum(jitted(x))

    for w in (2.0, 3.0):
        np.testing.assert_allclose(ft.grad(outer)(w, X), np.sum(X), rtol=1e-14)
        np.testing.assert_allclose(ft.grad(outer, argnums=(0, 1))(w, X)[1], np.full(3, w))
    assert jitted.cache_info().currsize == 0
    held[0] = np.float64(5.0)
    assert_equal(jitted(X), X * 5.0)
    assert jitted.cache_info().currsize == 1


def test_jit_results_can_be_read_outside() -> None:
    norm = ft.jit(lambda x: np.sum(x * x))
    f = lambda x: norm(x) if norm(x) > 1.0 else 3.0 * norm(x)
    np.testing.assert_allclose(ft.grad(f)(X), 2 * X if X @ X > 1 else 6 * X)
    np.testing.assert_allclose(ft.grad(f)(0.1 * X), 0.6 * X)


# -- nothing is shared, nothing is left open -------------------------------------------------------


def test_jit_results_share_memory_with_nothing() -> None:
    constant = np.arange(3.0)
    jitted = ft.jit(
        lambda x, y: (
            x,
            x,
            x[1:],
            x.T,
            y + 0.0,
            constant,
            constant[:2],
            np.broadcast_to(y, (2, 3)),
            np.zeros(3),
        )
    )
    plain = lambda x, y: (
        x,
        x,
        x[1:],
        x.T,
        y + 0,
        np.arange(3.0),
        np.arange(2.0),
        np.stack([y, y]),
        np.zeros(3),
    )
    x, y = X.copy(), V.copy()
    for _ in range(3):
        results = jitted(x, y)
        assert_equal(results, plain(x, y))
        for k, result in enumerate(results):
            assert result.flags.writeable
            assert not any(
                np.shares_memory(result, other) for other in (x, y, constant, *results[k + 1 :])
            )
        for result in results:
            result[...] = np.nan
    assert_equal(x, X)
    x[...] = 7.0
    assert_equal(jitted(x, y), plain(x, y))


@pytest.mark.parametrize("size", [3, 200_000], ids=["small", "large"])
def test_jit_reads_current_values_of_captured_arrays(size: int) -> None:
    weights = np.ones(size)
    jitted = ft.jit(lambda x: np.sum(weights * x))
    two = np.float64(2.0)
    assert jitted(two) == 2.0 * size
    weights[:] = 5.0
    assert jitted(two) == 10.0 * size
    assert ft.grad(jitted)(two) == 5.0 * size


def test_jit_never_changes_its_arguments() -> None:
    def f(x: Any) -> Any:
        x[0] = 5.0
        x += 1.0
        return x

    x = X.copy()
    assert_equal(ft.jit(f)(x), np.array([6.0, X[1] + 1, X[2] + 1]))
    assert_equal(x, X)


def test_jit_error_in_the_function_keeps_nothing() -> None:
    fails = [True]
    weights = np.ones(200_000)

    def f(x: Any) -> Any:
        y = x * np.sum(weights * x)
        if fails[0]:
            raise KeyError("mine")
        return y

    jitted = ft.jit(f)
    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            jitted(X[0])
        assert weights.flags.writeable
    assert jitted.cache_info().currsize == 0
    fails[0] = False
    np.testing.assert_allclose(jitted(X[0]), X[0] ** 2 * 200_000)


def test_jit_error_when_running_names_the_line() -> None:
    jitted = ft.jit(lambda x: np.linalg.inv(x))
    np.testing.assert_allclose(jitted(np.eye(2)), np.eye(2))
    with pytest.raises(np.linalg.LinAlgError) as caught:
        jitted(np.zeros((2, 2)))
    assert any("test_jit.py" in note for note in caught.value.__notes__)
    np.testing.assert_allclose(jitted(2 * np.eye(2)), 0.5 * np.eye(2))


def test_jit_leaked_tracers_raise() -> None:
    leaked: list[Any] = []
    jitted = ft.jit(lambda x, n: (leaked.extend([x, n]), x * n)[1])
    jitted(X, 2.0)
    for value in leaked:
        with pytest.raises(LeakedTracerError, match="jit of"):
            _ = value + 1.0
        with pytest.raises(LeakedTracerError, match="jit of"):
            _ = value * X


def test_jit_recursion_through_a_static_argument() -> None:
    @ft.jit(static_argnums=1)
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    np.testing.assert_allclose(power(X, 5), X**5, rtol=1e-14)
    np.testing.assert_allclose(ft.grad(lambda x: np.sum(power(x, 5)))(X), 5 * X**4, rtol=1e-13)
    assert power.cache_info().misses == 5


# -- cache -----------------------------------------------------------------------------------------


def test_jit_cache_is_bounded_and_forgets_the_least_recently_used() -> None:
    f = Counted(lambda x: x + 1.0)
    jitted = ft.jit(f, maxsize=3)
    for n in (1, 2, 3):
        jitted(np.ones(n))
    jitted(np.ones(1))
    jitted(np.ones(4))
    assert jitted.cache_info().currsize == 3
    assert f.calls == 4
    jitted(np.ones(1))
    assert f.calls == 4
    jitted(np.ones(2))
    assert f.calls == 5


def test_jit_cache_counts_the_bytes_of_captured_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functrace.api.staging.program_cache.MOST_BYTES", 900_000)
    big = np.ones(60_000)
    jitted = ft.jit(lambda x: x + np.sum(big * x[0]))
    for n in range(1, 5):
        jitted(np.ones(n))
    assert jitted.cache_info().currsize == 1


def test_jit_in_threads() -> None:
    jitted = ft.jit(lambda x, n: np.sum(np.sin(x) * n))
    wrong: list[Any] = []

    def work(k: int) -> None:
        for j in range(50):
            x = np.full(1 + (j + k) % 7, 0.1 * k)
            if not np.allclose(jitted(x, float(j)), np.sum(np.sin(x) * j)):
                wrong.append((k, j))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    info = jitted.cache_info()
    assert info.currsize == 7
    assert info.hits + info.misses == 200


# -- methods ---------------------------------------------------------------------------------------


class Model:
    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.calls = 0

    @ft.jit(static_argnums=0)
    def apply(self, x: Any) -> Any:
        self.calls += 1
        return x * self.scale

    @staticmethod
    @ft.jit
    def double(x: Any) -> Any:
        return x * 2.0


def test_jit_of_methods_stages_once_per_object() -> None:
    small, large = Model(2.0), Model(10.0)
    for _ in range(3):
        assert_equal(small.apply(X), X * 2.0)
        assert_equal(large.apply(X), X * 10.0)
    assert (small.calls, large.calls) == (1, 1)
    assert_equal(Model.double(X), X * 2.0)
    assert_equal(small.double(X), X * 2.0)
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(small.apply(x)))(X), np.full(3, 2.0))
    assert small.calls == 1


class Plain:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    @ft.jit
    def apply(self, x: Any) -> Any:
        return x * self.scale


@dataclasses.dataclass(frozen=True)
class Scale:
    scale: float

    @ft.jit
    def apply(self, x: Any) -> Any:
        return x * self.scale


class Node:
    def __init__(self, w: Any) -> None:
        self.w = w

    @ft.jit
    def apply(self, x: Any) -> Any:
        return x * self.w


optree.register_pytree_node(  # type: ignore[call-overload]
    Node,
    lambda node: ((node.w,), None, None),
    lambda _, parts: Node(*parts),
    namespace=optree.registry.__GLOBAL_NAMESPACE,
)


def test_jit_of_a_method_never_freezes_its_object_in_silence() -> None:
    with pytest.raises(
        ArgumentError, match="method of a Plain, whose attributes would be frozen"
    ) as caught:
        Plain(2.0).apply(X)
    assert "static_argnums=0" in str(caught.value) and "functrace.tree.register" in str(
        caught.value
    )
    with pytest.raises(ArgumentError, match="method of a Plain"):
        ft.grad(lambda x: np.sum(Plain(2.0).apply(x)))(X)
    for k in (2.0, 3.0, 2.0):
        assert_equal(Scale(k).apply(X), X * k)
    node = Node(np.array([1.0, 2.0, 3.0]))
    assert_equal(node.apply(X), X * node.w)
    node.w = node.w + 1.0
    assert_equal(node.apply(X), X * node.w)
    node.w *= 2.0
    assert_equal(node.apply(X), X * node.w)
    np.testing.assert_array_equal(ft.grad(lambda node: np.sum(node.apply(X)))(node).w, X)


@dataclasses.dataclass(frozen=True)
class Settings:
    rate: float
    steps: int


def test_jit_static_argument_compared_by_value() -> None:
    f = Counted(lambda x, s: x * s.rate**s.steps)
    jitted = ft.jit(f, static_argnums=1)
    for settings in (Settings(2.0, 3), Settings(2.0, 3), Settings(2.0, 2)):
        assert_equal(jitted(X, settings), X * 2.0**settings.steps)
    assert f.calls == 2


def test_jit_rosenbrock_many_times_in_a_loop_descends() -> None:
    step = ft.jit(lambda x, rate: x - rate * ft.grad(rosenbrock)(x))
    x = X
    for k in range(50):
        x = step(x, 1e-3 / (1 + k))
    assert rosenbrock(x) < rosenbrock(X)
    assert step.cache_info().misses == 1
    assert vector(x).shape == (2,)


def test_an_integer_out_of_range_of_the_dtype_raises_at_the_call() -> None:
    f = ft.jit(lambda x, n: (x + n, x < n))
    x = np.arange(3, dtype=np.uint8)
    np.testing.assert_array_equal(f(x, 255), (x + 255, x < 255))
    for n in (300, -1):
        with pytest.raises(OverflowError, match="out of bounds for uint8"):
            f(x, n)
        np.testing.assert_array_equal(ft.jit(lambda x, n: x < n)(x, n), x < n)
        chosen = ft.jit(lambda x, n: np.where(x > 1, x, n))
        try:
            expected = np.where(x > 1, x, n)
        except OverflowError:  # since NumPy 2.5
            with pytest.raises(OverflowError, match="out of bounds for uint8"):
                chosen(x, n)
        else:
            np.testing.assert_array_equal(chosen(x, n), expected)


def test_a_power_of_bools_needs_a_concrete_exponent() -> None:
    x = np.array([True, False])
    assert ft.jit(lambda x: x**2)(x).dtype == (x**2).dtype
    with pytest.raises(ConcretizationError, match="depends on the exponent"):
        ft.jit(lambda x, n: x**n)(x, 2)
    assert ft.jit(lambda n: np.power(True, n))(2) == 1
