"""Calls that machine code takes by itself, before Python: they mean what all calls of a jitted
function mean."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.oracles import attempt

pytest.importorskip("llvmlite", reason="llvmlite is not installed")


def jitted(f: Any, **options: Any) -> Any:
    return ft.jit(f, backend="native", **options)


def is_direct(f: Any) -> bool:
    """Return True if Python calls machine code for a jitted function."""
    return type(f.func) is type(len)


def scaled(x: Any, a: Any) -> Any:
    return np.sqrt(x * a) + 1.0


X = np.linspace(1.0, 2.0, 6)
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((X, 2.0), {}),
    ((X, np.float64(2.0)), {}),
    ((X, np.float32(2.0)), {}),
    ((X, np.array(2.0)), {}),
    ((X, np.array([2.0])), {}),
    ((X, 2), {}),
    ((X, True), {}),
    ((X, 2j), {}),
    ((X, -2.0), {}),
    ((X, np.inf), {}),
    ((X, 1e308), {}),
    ((X,), {"a": 2.0}),
    ((), {"x": X, "a": 2.0}),
    ((X.astype(np.float32), 2.0), {}),
    ((X.astype(np.float32), np.float64(2.0)), {}),
    ((X.astype(">f8"), 2.0), {}),
    ((X.astype(int), 2.0), {}),
    ((X[::2], 2.0), {}),
    ((X[::-1], 2.0), {}),
    ((np.repeat(X, 2)[::2], 2.0), {}),
    ((X.reshape(2, 3), 2.0), {}),
    ((X.reshape(2, 3).T, 2.0), {}),
    ((X[:0], 2.0), {}),
    ((list(X), 2.0), {}),
    ((X[0], 2.0), {}),
    ((float(X[0]), 2.0), {}),
    ((X,), {}),
    ((X, 2.0, 3.0), {}),
    ((X, "2"), {}),
    ((X, None), {}),
    ((X, 2.0), {"b": 1}),
]


def outcome(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a call gives: a dtype, shape, values and warnings, or an error."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = f(*args, **kwargs)
        except Exception as error:
            return type(error).__name__
    kinds = sorted({str(w.message) for w in caught if w.category is RuntimeWarning})
    return type(result), result.dtype, result.shape, np.asarray(result).tobytes(), kinds


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_calls_of_all_kinds_give_what_numpys_form_gives(dtype: str) -> None:
    f, expected = jitted(scaled, accuracy="numpy"), ft.jit(scaled, backend="numpy")
    f(X.astype(dtype), 2.0)
    assert is_direct(f)
    for args, kwargs in CALLS * 2:
        assert outcome(f, args, kwargs) == outcome(expected, args, kwargs), (args, kwargs)
        f(X.astype(dtype), 2.0)


def test_results_are_arrays_tuples_or_trees() -> None:
    for f in (
        lambda x: np.sum(x),
        lambda x: (x * 2.0,),
        lambda x: (x * 2.0, np.sum(x)),
        lambda x: [x * 2.0],
        lambda x: {"a": x, "b": (x, 1.0)},
        lambda x: (x, None),
        lambda x: ((x,),),
        lambda x: (),
    ):
        native, plain = jitted(f), ft.jit(f, backend="numpy")
        for _ in range(3):
            found, expected = native(X), plain(X)
            assert ft.tree.structure(found) == ft.tree.structure(expected)
            assert type(found) is type(expected)
            for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
                assert type(a) is type(b)
                np.testing.assert_array_equal(a, b)


def test_hits_are_counted() -> None:
    f = jitted(scaled)
    for _ in range(5):
        f(X, 2.0)
    f(x=X, a=2.0)
    assert f.cache_info()[:2] == (4, 2)
    f.cache_clear()
    assert f.cache_info()[:2] == (0, 0)
    f(X, 2.0)
    assert f.cache_info()[:2] == (0, 1)
    f(X, 2.0)
    assert f.cache_info()[:2] == (1, 1)


def test_cleared_programs_are_not_called() -> None:
    factor = 2.0
    f = jitted(lambda x: x * factor)
    assert f(X)[0] == 2.0
    factor = 3.0
    f.cache_clear()
    for _ in range(3):
        assert f(X)[0] == 3.0


def test_captured_arrays_may_change() -> None:
    scale = np.array([2.0])
    f = jitted(lambda x: x * scale)
    assert f(X)[0] == 2.0
    scale[0] = 3.0
    assert f(X)[0] == 3.0


@pytest.mark.parametrize("transform", [ft.jacfwd, ft.hessian])
def test_unit_vectors_of_jacobians_are_not_compared_at_each_call(transform: Any) -> None:
    def f(x: Any) -> Any:
        found = np.sum(x) * x[:2] * x[1:3]
        return np.sum(found) if transform is ft.hessian else found

    run = jitted(transform(f))
    for _ in range(3):
        np.testing.assert_allclose(run(X), transform(f)(X), rtol=1e-14)
    assert is_direct(run)


def test_functions_that_capture_a_jitted_one_see_its_arrays() -> None:
    scale = np.array([2.0])

    def inner(x: Any) -> Any:
        return x * scale

    inner = jitted(inner)
    inner(X)
    outer = jitted(lambda x: inner(x) + 1.0)
    assert outer(X)[0] == 3.0
    scale[0] = 3.0
    assert outer(X)[0] == 4.0


def test_disabled_within_a_block_and_in_this_thread_only() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(type(x))
        return x * 2.0

    f = jitted(f)
    f(X)
    f(X)
    assert len(calls) == 1
    with ft.disable_jit():
        f(X)
        assert calls[-1] is np.ndarray
        thread = threading.Thread(target=f, args=(X,))
        thread.start()
        thread.join()
    f(X)
    assert len(calls) == 2


def test_traced_arguments() -> None:
    f = jitted(lambda x: np.sum(x**3))
    f(X)
    assert is_direct(f)
    np.testing.assert_allclose(ft.grad(f)(X), 3.0 * X**2)
    np.testing.assert_allclose(ft.hessian(f)(X), np.diag(6.0 * X))
    np.testing.assert_allclose(ft.vmap(f)(X.reshape(2, 3)), np.sum(X.reshape(2, 3) ** 3, axis=1))


def test_a_method_is_bound() -> None:
    class Model:
        @jitted
        def scaled(self: Any, x: Any) -> Any:
            return x * self

    assert Model.scaled(3.0, X)[0] == 3.0
    assert is_direct(Model.__dict__["scaled"])
    assert Model.scaled(4.0, X)[0] == 4.0


def test_the_newest_program_is_called_directly_and_old_ones_stay_right() -> None:
    f = jitted(lambda x: x + np.arange(float(len(x))))
    for _ in range(2):
        for n in range(1, 30):
            np.testing.assert_array_equal(f(np.ones(n)), 1.0 + np.arange(n))


def test_two_functions_may_share_a_program() -> None:
    def f(x: Any) -> Any:
        return x * 2.0

    first, second = jitted(f), jitted(f)
    first(X), second(X)
    first(X[:3]), second(X[:3])
    for _ in range(2):
        first(X)
    assert (first.cache_info().hits, second.cache_info().hits) == (2, 0)
    second(X), second(X)
    assert first.cache_info() == second.cache_info()


def test_no_references_are_kept() -> None:
    f = jitted(lambda x, a: (x * a, np.sum(x)))
    x, a = X.copy(), 2.5
    f(x, a)
    gc.collect()
    before = sys.getrefcount(x), sys.getrefcount(a), sys.getrefcount(np.ndarray)
    for _ in range(100):
        f(x, a)
        f(x=x, a=a)
        assert isinstance(attempt(lambda: f(x)), TypeError)
    gc.collect()
    found = sys.getrefcount(x), sys.getrefcount(a), sys.getrefcount(np.ndarray)
    assert max(abs(p - q) for p, q in zip(before, found, strict=True)) < 10


def test_it_is_freed_with_its_function() -> None:
    f = jitted(lambda x: x * 2.0)
    f(X)
    state = weakref.ref(f.func.__self__)
    inner = weakref.ref(f.__wrapped__)
    del f
    gc.collect()
    assert state() is None
    assert inner() is None


def test_calls_while_other_threads_clear_and_compile() -> None:
    f = jitted(lambda x: np.sum(np.sin(x) * x))
    expected = {n: np.sum(np.sin(np.ones(n))) for n in (3, 4, 50_000)}
    errors: list[BaseException] = []
    stop = threading.Event()

    def call(n: int) -> None:
        try:
            while not stop.is_set():
                np.testing.assert_allclose(f(np.ones(n)), expected[n], rtol=1e-12)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call, args=(n,)) for n in expected]
    for thread in threads:
        thread.start()
    for _ in range(12):
        f.cache_clear()
        f(np.ones(3))
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors


def test_an_error_of_the_fallback_is_numpys() -> None:
    f = jitted(lambda x: np.linalg.inv(x))
    f(np.eye(3))
    for _ in range(3):
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            f(np.zeros((3, 3)))
    np.testing.assert_array_equal(f(np.eye(3)), np.eye(3))


def test_dropped_programs_are_not_called() -> None:
    factor = [2.0]
    f = jitted(lambda x: (x[0] if isinstance(x, list) else x) * factor[0], maxsize=1)
    assert f(X)[0] == 2.0
    factor[0] = 3.0
    f([X])
    assert f(X)[0] == 3.0


def test_programs_that_were_cleared_while_they_were_compiled() -> None:
    from functrace.api.staging.background import COMPILER
    from functrace.executor.runner import OFTEN

    factor = 2.0
    f = ft.jit(lambda x: x * factor, backend="auto")
    for _ in range(OFTEN):
        f(X)
    factor = 3.0
    f.cache_clear()
    COMPILER.wait()
    assert f(X)[0] == 3.0
    assert f.cache_info()[:2] == (0, 1)


def test_collected_functions_do_not_read_freed_memory() -> None:
    code = """
import gc
import numpy as np
import functrace as ft
x = np.arange(3.0)
for f in (lambda x: x * 2.0, lambda x: {"a": x}):
    for _ in range(20):
        g = ft.jit(f, backend="native")
        g(x)
        del g
        gc.collect()
"""
    memory = {**os.environ, "PYTHONMALLOC": "malloc", "MALLOC_PERTURB_": "2"}
    run = subprocess.run([sys.executable, "-c", code], env=memory, capture_output=True, check=False)
    assert run.returncode == 0, run.stderr.decode()[-1000:]
