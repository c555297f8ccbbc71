"""Calls of machine code: arguments of other kinds, warnings, errors, threads, signals."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.oracles import attempt

pytest.importorskip("llvmlite", reason="llvmlite is not installed")


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def test_results_are_those_of_numpy() -> None:
    f = ft.jit(ft.grad(rosenbrock), backend="native")
    x = np.linspace(0.0, 1.0, 5)
    np.testing.assert_allclose(f(x), ft.grad(rosenbrock)(x), rtol=1e-14)
    assert f(x).flags.owndata
    assert f(x) is not f(x)


@pytest.mark.parametrize("order", ["C", "F", "strided", "read-only", "reversed", "unaligned"])
def test_arrays_of_any_layout(order: str) -> None:
    x = np.arange(24.0).reshape(4, 6)
    if order == "F":
        given = np.asfortranarray(x)
    elif order == "strided":
        given = np.repeat(x, 2, axis=1)[:, ::2]
    elif order == "reversed":
        given = np.ascontiguousarray(x[::-1])[::-1]
    elif order == "unaligned":
        memory = np.zeros(24 * 8 + 1, np.uint8)
        given = memory[1:].view(np.float64).reshape(4, 6)
        given[...] = x
    else:
        given = x.copy()
        given.flags.writeable = order != "read-only"
    f = ft.jit(lambda x: (np.sum(np.sin(x), axis=0), x.T * 2.0), backend="native")
    for found, expected in zip(f(given), (np.sum(np.sin(x), axis=0), x.T * 2.0), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_scalars_of_all_kinds() -> None:
    f = ft.jit(lambda x, y: (x * y + 1.0, x > y), backend="native")
    for x in (2.0, np.float64(2.0), np.array(2.0), np.float32(2.0), 2):
        found, is_larger = f(x, 3.0)
        expected = np.multiply(x, 3.0) + 1.0
        assert type(found) is type(expected)
        assert found == expected
        assert isinstance(is_larger, np.bool_)


def test_usual_arguments_take_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    from functrace.native.engine import NativeFunction

    functions = [
        (ft.jit(lambda x: x * x + 1.0, backend="native"), [2.0, np.float64(2.0), np.array(2.0)]),
        (ft.jit(lambda x: x * x + 1, backend="native"), [np.int64(2), np.array(2)]),
        (ft.jit(lambda x: x * x, backend="native"), [np.arange(3, dtype=np.float32)]),
    ]
    for f, xs in functions:
        f(xs[0])
    calls: list[Any] = []
    monkeypatch.setattr(NativeFunction, "_fallback", lambda self, *given: calls.append(given))
    for f, xs in functions:
        for x in xs:
            np.testing.assert_array_equal(f(x), np.multiply(x, x) + (f is not functions[2][0]))
    assert not calls


def test_other_threads_run_while_machine_code_does() -> None:
    f = ft.jit(lambda x: ft.while_loop(lambda y: y < 0.5, lambda y: y + 1e-9, x), backend="native")
    f(1.0)
    done = threading.Event()
    count = 0

    def work() -> None:
        nonlocal count
        while not done.is_set():
            count += 1
            done.wait(0.001)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        f(0.0)
    finally:
        done.set()
        thread.join()
    assert count > 10


def test_an_array_of_another_byte_order_or_subclass() -> None:
    f = ft.jit(lambda x: x * 2.0 + 1.0, backend="native")
    x = np.arange(3.0)
    np.testing.assert_array_equal(f(x.astype(">f8")), x * 2.0 + 1.0)
    np.testing.assert_array_equal(f(x), x * 2.0 + 1.0)


def test_warnings_are_those_of_numpy_at_the_line_of_the_user() -> None:
    f = ft.jit(lambda x: np.log(x) - 1.0 / x, backend="native")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = f(np.array([0.0, 1.0]))
    assert {str(w.message).partition(" encountered")[0] for w in found} == {"divide by zero"}
    assert {w.filename for w in found} == {__file__}
    np.testing.assert_array_equal(result, [-np.inf, -1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(f(np.array([1.0, np.inf])), [-1.0, np.inf])


def test_errstate_holds() -> None:
    f = ft.jit(lambda x: 1.0 / x, backend="native")
    for _ in range(20):  # (after a few runs with flags, NumPy's form runs at once)
        with np.errstate(divide="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(f(np.array([0.0, 2.0])), [np.inf, 0.5])
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError, match="divide by zero"):
        f(np.zeros(2))


def test_underflow_is_looked_at_where_numpy_does() -> None:
    f = ft.jit(lambda x: np.exp(x) * 1e-200, backend="native")
    x = np.full(3, -300.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x)
        for _ in range(20):  # (these are no failures of machine code)
            with np.errstate(under="raise"), pytest.raises(FloatingPointError, match="underflow"):
                f(x)
            with np.errstate(over="raise"):
                f(x)
    with np.errstate(under="warn"), pytest.warns(RuntimeWarning, match="underflow"):
        f(x)
    with np.errstate(under="raise"):
        np.testing.assert_array_equal(f(np.zeros(3)), np.full(3, 1e-200))
        for given in (np.asfortranarray(np.ones((3, 2))), 1.0, np.float64(2.0)):
            f(given)


def test_errors_are_those_of_numpy() -> None:
    f = ft.jit(lambda a, b: np.linalg.solve(a, b), backend="native")
    np.testing.assert_allclose(f(np.eye(2) * 2.0, np.ones(2)), [0.5, 0.5])
    with pytest.raises(np.linalg.LinAlgError):
        f(np.zeros((2, 2)), np.ones(2))
    g = ft.jit(lambda x, i: x[i], backend="native")
    x = np.arange(100.0)
    np.testing.assert_array_equal(g(x, np.array([5, -1])), [5.0, 99.0])
    with pytest.raises(IndexError):
        g(x, np.array([5, 100]))


@pytest.mark.parametrize(
    "function", [np.logical_or, np.logical_and, np.logical_xor, np.equal, np.less]
)
@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1])
def test_integers_beyond_64_bits_are_numpys(function: Any, number: int) -> None:
    for x in (
        np.array([1.5, 0.0], np.float32),
        np.zeros(0),
        np.array([1, 2]),
        np.array([True, False]),
    ):
        wanted = attempt(lambda x=x: function(number, x))
        found = attempt(lambda x=x: ft.jit(lambda x: function(number, x), backend="native")(x))
        if isinstance(wanted, Exception):
            assert isinstance(found, type(wanted))
        else:
            np.testing.assert_array_equal(found, wanted)


def test_segments_where_there_is_no_native_form() -> None:
    def f(x: Any) -> Any:
        y = np.sin(x) * 2.0 + 1.0
        return np.sum(np.sort(y)[::2] * np.cos(y[::2]))

    x = np.linspace(-3.0, 3.0, 100)
    np.testing.assert_allclose(ft.jit(f, backend="native")(x), f(x), rtol=1e-13)
    np.testing.assert_allclose(
        ft.jit(ft.grad(f), backend="native")(x), ft.grad(f)(x), rtol=1e-12, atol=1e-13
    )


def test_a_function_is_used_by_several_threads() -> None:
    f = ft.jit(lambda x: ft.fori_loop(0, 50, lambda _, y: np.sin(y) + x, x), backend="native")
    xs = [np.full(200, 0.01 * k) for k in range(32)]
    expected = [f(x) for x in xs]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            for found, value in zip(pool.map(f, xs), expected, strict=True):
                np.testing.assert_array_equal(found, value)


def test_control_c_stops_a_long_loop() -> None:
    f = ft.jit(
        lambda x: ft.while_loop(lambda y: y < 1e300, lambda y: y + 1e-9, x), backend="native"
    )
    assert f(2e300) == 2e300
    # (a process that was started in the background may ignore it)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            f(0.0)
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


def test_code_is_freed_with_its_function() -> None:
    f = ft.jit(lambda x: x * 3.0, backend="native")
    f(np.ones(3))
    kept = weakref.ref(next(iter(_programs(f))).run.__self__)
    assert kept() is not None
    del f
    gc.collect()
    assert kept() is None


def _programs(f: Any) -> Any:
    from functrace.api.staging.program_cache import StagedProgram

    gc.collect()  # (programs of earlier tests)
    return [
        x
        for x in gc.get_objects()
        if type(x) is StagedProgram and "run" in vars(x) and hasattr(x.run, "__self__")
    ]


@pytest.mark.parametrize("at", [0, 2, 3])
def test_results_made_before_memory_ends_are_released(at: int) -> None:
    def results(x: Any) -> list[Any]:
        found = [x + 1.0, np.sum(x), x * 2.0]
        found.insert(at, np.broadcast_to(x[0], (2**45,)) + 1.0)
        return found

    f, x = ft.jit(results, backend="native"), np.ones(100_000)
    taken = []
    tracemalloc.start()
    for _ in range(
        3
    ):  # (NumPy traces the array that it could not make, too: in each call the same)
        for _ in range(5):
            with pytest.raises(MemoryError):
                f(x)
        taken.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert abs(taken[2] - taken[1]) < x.nbytes


def test_many_results_take_code_in_proportion_to_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from functrace.native import engine

    texts: list[str] = []
    written = engine.module_text
    monkeypatch.setattr(
        engine, "module_text", lambda *given: texts.append(written(*given)) or texts[-1]
    )
    for count in (40, 80):
        ft.jit(lambda x, n=count: [x * float(k) for k in range(n)], backend="native")(np.ones(3))
    few, many = (text.count("\n") for text in texts)
    assert many < 2.5 * few


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(ft.errors.ArgumentError, match="backend"):
        ft.jit(lambda x: x, backend="cuda")  # type: ignore[call-overload]


# -- backend="auto" --------------------------------------------------------------------------------


def test_a_hot_program_is_compiled_in_the_background() -> None:
    from functrace.api.staging.background import COMPILER
    from functrace.executor.runner import OFTEN

    f = ft.jit(ft.grad(rosenbrock), backend="auto")
    x = np.linspace(0.0, 1.0, 6)
    expected = ft.grad(rosenbrock)(x)
    for _ in range(OFTEN - 1):
        np.testing.assert_array_equal(f(x), expected)
    assert not _programs(f)
    f(x)
    COMPILER.wait()
    (program,) = [p for p in _programs(f) if p.program.name == "rosenbrock"][-1:]
    assert "builtin" in type(program.run).__name__
    np.testing.assert_allclose(f(x), expected, rtol=1e-14)


def test_a_program_without_native_form_stays_with_numpy() -> None:
    from functrace.api.staging.background import COMPILER
    from functrace.executor.runner import OFTEN

    f = ft.jit(lambda x: np.linalg.svd(x)[1], backend="auto")
    x = np.random.default_rng(0).normal(size=(9, 9))
    for _ in range(2 * OFTEN):
        found = f(x)
    COMPILER.wait()
    np.testing.assert_array_equal(f(x), found)


def test_a_compilation_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from functrace.api.staging.background import COMPILER
    from functrace.executor.runner import OFTEN
    from functrace.native import llvm, object_cache

    def broken(text: str) -> bytes:
        raise RuntimeError("LLVM is broken")

    monkeypatch.setattr(object_cache, "code_of", broken)
    assert llvm.machine()
    f = ft.jit(lambda x: x * 7.0, backend="auto")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(OFTEN):
            f(np.ones(3))
        with contextlib.suppress(RuntimeError):
            COMPILER.wait()
        for _ in range(100):
            if found:
                break
            time.sleep(0.01)
    assert "LLVM is broken" in str(found[0].message)
    np.testing.assert_array_equal(f(np.ones(3)), [7.0] * 3)


def test_the_setting_makes_it_the_default() -> None:
    from functrace.api.staging.background import COMPILER
    from functrace.executor.runner import OFTEN

    with ft.config(native=True):
        f = ft.jit(lambda x: x * 5.0 + 1.0)
    assert ft.config.native is None
    x = np.arange(3.0)
    for _ in range(OFTEN):
        f(x)
    COMPILER.wait()
    assert any("builtin" in type(p.run).__name__ for p in _programs(f))
    np.testing.assert_array_equal(f(x), x * 5.0 + 1.0)
    with pytest.raises(ft.errors.ArgumentError, match="native"):
        ft.config.native = 1  # type: ignore[assignment]


def _hot(f: Any, *args: Any) -> Any:
    """Call an un-jitted function until its machine code is there; returns the last result."""
    from functrace.api.staging.background import COMPILER
    from functrace.executor.runner import OFTEN

    for _ in range(2 * OFTEN):  # the first calls of some transforms run another program
        f(*args)
    COMPILER.wait()
    return f(*args)


TRANSFORMS: dict[str, Any] = {
    "grad": lambda f: ft.grad(f),
    "value_and_grad": lambda f: ft.value_and_grad(f),
    "jvp": lambda f: lambda x: ft.jvp(f, (x,), (np.cos(x),)),
    "vjp": lambda f: lambda x: ft.vjp(f, x)[1](2.0),
    "hessian": lambda f: ft.hessian(f),
    "vmap of grad": lambda f: lambda x: ft.vmap(ft.grad(f))(np.stack([x, x + 1.0, -x])),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_hot_unjitted_transforms_run_as_machine_code(transform: str) -> None:
    f = TRANSFORMS[transform](rosenbrock)
    x = np.linspace(-1.0, 1.0, 6)
    expected = f(x)
    with ft.config(native=True):
        found = _hot(f, x)
        assert [r for r in _runners() if r._native is not None]
        for a, b in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
            assert type(a) is type(b)
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
            assert np.shape(a) == () or (a.flags.owndata and a.flags.writeable)
        y = x[::-1].copy()  # other values, and of another layout
        for a, b in zip(ft.tree.leaves(f(y)), ft.tree.leaves(f(x[::-1])), strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(ft.tree.leaves(f(x)), ft.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(a, b)  # NumPy's bits, when it is off again


def _runners() -> list[Any]:
    from functrace.executor.runner import Runner

    gc.collect()
    return [x for x in gc.get_objects() if type(x) is Runner]


def test_values_and_branches_of_hot_unjitted_functions_may_change() -> None:
    def f(x: Any, n: int, rate: float) -> Any:
        for _ in range(n):
            x = np.where(x > 0.5, x * rate, x + rate)
        return np.sum(x) if float(rate) < 2.0 else np.prod(x)

    x = np.array([0.25, 0.5, 1.0])
    cases = [(3, 1.5), (3, 1.75), (2, 1.5), (3, 2.5)]
    expected = [ft.grad(f)(x, *case) for case in cases]
    with ft.config(native=True):
        for _ in range(2):
            for case, wanted in zip(cases, expected, strict=True):
                np.testing.assert_allclose(_hot(ft.grad(f), x, *case), wanted, rtol=1e-13)


def test_arrays_of_closures_of_hot_unjitted_functions_may_change() -> None:
    weights, scale = np.array([1.0, 2.0, 3.0]), [2.0]

    def f(x: Any) -> Any:
        return np.sum(np.sin(x) * weights) * scale[0]

    x = np.array([0.25, 0.5, 1.0])
    with ft.config(native=True):
        for factor in (1.0, 5.0, 7.0):
            weights[1], scale[0] = factor, factor + 1.0
            expected = np.cos(x) * weights * scale[0]
            for _ in range(40):
                np.testing.assert_allclose(ft.grad(f)(x), expected, rtol=1e-13)
            np.testing.assert_allclose(_hot(ft.grad(f), x), expected, rtol=1e-13)
            for shape in ((), (0,), (1, 2)):
                some = np.full(shape, 0.5)
                found = _hot(ft.grad(lambda x: np.sum(x * x) * scale[0]), some)
                np.testing.assert_allclose(found, some * 2.0 * scale[0], rtol=1e-13)


def test_warnings_of_hot_unjitted_functions_name_the_line() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(x))

    def g(x: Any) -> Any:
        return np.sum(np.log(x))  # the same operations, on another line

    x = np.array([1.0, 2.0])
    with ft.config(native=True):
        _hot(ft.grad(f), x)
        for function in (f, g):
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                np.testing.assert_array_equal(
                    ft.grad(function)(np.array([0.0, 1.0])), [np.inf, 1.0]
                )
            first = function.__code__.co_firstlineno
            assert {(w.filename, w.lineno) for w in found} == {(__file__, first + 1)}
            with np.errstate(all="raise"), pytest.raises(FloatingPointError):
                ft.grad(function)(np.array([0.0, 1.0]))


def test_hot_unjitted_functions_without_a_native_form() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.linalg.svd(x)[1])

    x = np.random.default_rng(0).normal(size=(9, 9))
    expected = ft.grad(f)(x)
    with ft.config(native=True):
        np.testing.assert_allclose(_hot(ft.grad(f), x), expected, rtol=1e-13, atol=1e-14)


def test_hot_unjitted_functions_in_threads() -> None:
    f, x = ft.value_and_grad(rosenbrock), np.linspace(0.0, 1.0, 7)
    value, gradient = f(x)
    with ft.config(native=True), ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: f(x), range(400)):
            np.testing.assert_allclose(found[0], value, rtol=1e-13)
            np.testing.assert_allclose(found[1], gradient, rtol=1e-13)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_it_works_after_a_fork() -> None:
    f = ft.jit(lambda x: np.sin(x) + 1.0, backend="native")
    x = np.arange(3.0)
    expected = f(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # (of forks beside threads)
        child = os.fork()
    if child == 0:
        is_right = np.array_equal(f(x), expected)
        g = ft.jit(lambda x: np.cos(x) + 2.0, backend="native")
        os._exit(0 if is_right and np.allclose(g(x), np.cos(x) + 2.0) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# -- debug.explain ---------------------------------------------------------------------------------


def test_explain_names_what_numpy_runs() -> None:
    whole = ft.debug.explain(ft.grad(rosenbrock))(np.zeros(50))
    assert whole.is_whole
    assert whole.loops >= 1
    assert "machine code as a whole" in str(whole)
    part = ft.debug.explain(lambda x: np.sum(np.linalg.svd(np.sin(x) * 2.0)[1]))(np.eye(9))
    assert not part.is_whole
    assert "svd" in part.by_numpy[0]
    assert "test_calls.py" in part.text()


@pytest.mark.parametrize("dtype", ["u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "b1"])
def test_bitwise_functions_of_all_integers(dtype: str) -> None:
    x = np.arange(50).astype(dtype)
    f = lambda x: (~x, x & x[::-1], x | x[::-1], x ^ x[::-1])
    for found, expected in zip(ft.jit(f, backend="native")(x), f(x), strict=True):
        np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_floats_become_integers_as_in_numpy(
    dtype: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from functrace.native.engine import NativeFunction

    calls: list[Any] = []
    run = NativeFunction._by_numpy
    monkeypatch.setattr(
        NativeFunction, "_by_numpy", lambda self, xs: (calls.append(xs), run(self, xs))[1]
    )
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min / 2, -0.9, 0.0, 0.5, 1.9, limits.max // 2], kind)
    end = np.array(float(limits.max) + 1.0, kind)
    x = np.append(x, np.nextafter(end, np.array(0, kind)))
    f = ft.jit(lambda x: x.astype(dtype), backend="native")
    np.testing.assert_array_equal(f(x), x.astype(dtype), strict=True)
    assert not calls
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        f(np.full_like(x, np.nan))
    assert ["invalid value" in str(w.message) for w in found] == [True]


FORK = """
import os
import numpy as np, functrace as ft

def f(x):
    for _ in range(120):
        x = np.sin(x) + np.exp(-x * x) * np.tanh(x)
    return x

g = ft.jit(f, backend="auto")
for _ in range(40):
    g(np.ones(5))
child = os.fork()  # (while the thread compiles)
if not child:
    os._exit(int(ft.jit(lambda x: x * 2, backend="native")(np.ones(3))[0]))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_compiles_after_a_fork_during_a_compilation() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        env={**os.environ, "FUNCTRACE_CACHE": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "2\n", done.stderr


def test_large_constants_are_not_in_the_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two functions that differ in a large constant share the code on disk, and not the constant."""
    monkeypatch.setenv("FUNCTRACE_CACHE", str(tmp_path))
    x = np.linspace(0.0, 1.0, 3_000)
    found = []
    for scale in (1.0, 3.0):
        weights = scale * np.arange(3_000.0)
        f = ft.jit(lambda x, weights=weights: np.cumsum(x * weights), backend="native")
        found.append(f(x))
        np.testing.assert_allclose(found[-1], np.cumsum(x * (scale * np.arange(3_000.0))))
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert len(files) == 1 and files[0].stat().st_size < x.nbytes
