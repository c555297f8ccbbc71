"""`functrace.numpy.lift`: what it reaches, and that nothing of it acts elsewhere or stays."""

from __future__ import annotations

import ast
import asyncio
import concurrent.futures
import contextlib
import contextvars
import copy
import importlib
import inspect
import operator
import pickle
import threading
import types
from collections.abc import AsyncIterator, Iterator
from typing import Any
from unittest import mock

import numpy as np
import numpy.linalg as la
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.errors import FunctraceError, LeakedTracerError, LostGradientError
from functrace.numpy import lift
from functrace.numpy.protocol.lifting import is_lifted

NAMES = ["zeros", "array", "mean", "sin", "r_", "vectorize"]
OWN = {name: getattr(np, name) for name in NAMES}
X = np.array([0.7, -1.3, 2.1])


def pair(x: Any) -> Any:
    return np.sum(np.array([x[0], 2.0, x[1]]) ** 2)


def is_clean() -> bool:
    return (
        type(np) is types.ModuleType
        and type(np.linalg) is types.ModuleType
        and np.zeros is OWN["zeros"]
    )


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    assert is_clean()
    assert not is_lifted()
    assert all(getattr(np, name) is own for name, own in OWN.items())


def test_decorator_and_block() -> None:
    expected = [2 * X[0], 2 * X[1], 0.0]
    np.testing.assert_allclose(ft.grad(lift(pair))(X), expected)
    np.testing.assert_allclose(lift(ft.grad(pair))(X), expected)
    with lift():
        np.testing.assert_allclose(ft.grad(pair)(X), expected)
    with pytest.raises(LostGradientError):
        ft.grad(pair)(X)


def test_lift_preserves_name_and_signature() -> None:
    lifted = lift(pair)
    assert (lifted.__name__, lifted.__wrapped__) == ("pair", pair)  # type: ignore[attr-defined]
    assert inspect.signature(lifted) == inspect.signature(pair)


def test_plain_values_give_plain_results() -> None:
    @lift
    def f(x: Any) -> Any:
        z = np.zeros(3)
        z[1] = x[0]
        assert type(z) is np.ndarray
        return np.array([z, x])

    assert type(f(X)) is np.ndarray


def test_lift_applies_to_called_functions_and_submodules() -> None:
    def inner(x: Any) -> Any:
        return la.norm([x[0], x[1]]) + np.linalg.norm([x[0], 1.0]) + np.fft.fft([x[0], 0.0]).real[1]

    g = ft.grad(lift(lambda x: inner(x)))(X)
    n = np.hypot(X[0], X[1])
    np.testing.assert_allclose(g, [X[0] / n + X[0] / np.hypot(X[0], 1.0) + 1.0, X[1] / n, 0.0])


def test_it_reaches_code_that_is_made_inside() -> None:
    scope: dict[str, Any] = {}

    @lift
    def f(x: Any) -> Any:
        exec(
            "import numpy\nfrom numpy import *\ndef g(x): return sum(array([x[0], 1.0]) * numpy.full(2, x[1]))",
            scope,
        )
        from numpy import stack

        return scope["g"](x) + np.sum(stack([x[0], x[1]]))

    np.testing.assert_allclose(ft.grad(f)(X), [X[1] + 1, X[0] + 2, 0])
    with pytest.raises(FunctraceError):  # what it has bound is NumPy's again
        ft.grad(lambda x: scope["g"](x))(X)
    assert pickle.loads(pickle.dumps(scope["array"])) is np.array


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(LIBRARY.array([x[0], 1.0])),
        lambda x: np.sum(getattr(np, "array")([x[0], 1.0])),
        lambda x: np.sum(operator.attrgetter("full")(np)(3, x[0])),
        lambda x: _write_into(np.random.default_rng(0).normal(size=3), x),
        lambda x: _write_into(OUTSIDE, x),
        lambda x: x[0] * LIBRARY.number(x[1]),
        lambda x: np.asarray(memoryview(OUTSIDE))[: len(x)].__iadd__(x),
    ],
)  # fmt: skip
def test_functions_that_lift_does_not_reach_raise_with_a_fix(f: Any) -> None:
    with pytest.raises(LostGradientError, match=r"functrace\.numpy[\s\S]*lift"):
        ft.grad(lift(f))(X)


OUTSIDE = np.zeros(3)
LIBRARY = types.ModuleType("library")
exec("from numpy import array\ndef number(x): return float(x)", vars(LIBRARY))


def _write_into(z: Any, x: Any) -> Any:
    z[0] = x[0]
    return np.sum(z)


def test_names_bound_earlier_can_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIBRARY, "array", fnp.array)
    assert LIBRARY.array([1.0]).dtype == float
    np.testing.assert_allclose(ft.grad(lambda x: np.sum(LIBRARY.array([x[0], 1.0])))(X), [1, 0, 0])


# -- nothing acts elsewhere ------------------------------------------------------------------------


def test_nothing_stays_after_an_error() -> None:
    @lift
    def fails(x: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ft.grad(fails)(X)


def test_nested_lifts() -> None:
    with lift():
        with lift():
            assert is_lifted()
        assert is_lifted()
        np.testing.assert_allclose(ft.grad(lift(pair))(X), [2 * X[0], 2 * X[1], 0.0])
        assert is_lifted()
    assert not is_lifted()


def test_one_lift_is_open_once() -> None:
    one = lift()
    with one, pytest.raises(RuntimeError, match="open already"), one:
        pass
    with one:
        assert is_lifted()


def test_generators_are_lifted_while_they_run() -> None:
    @lift
    def numbers(x: Any) -> Iterator[Any]:
        sent = yield np.array([x[0], 1.0])
        try:
            yield np.array([x[0], sent])
        except KeyError:
            yield np.full(2, x[1])
        return np.array([x[2], x[2]])

    def f(x: Any) -> Any:
        running = numbers(x)
        total = np.sum(next(running))
        assert is_clean() or not is_lifted()
        total = total + np.sum(running.send(x[1]))
        assert not is_lifted()
        total = total + np.sum(running.throw(KeyError()))
        with pytest.raises(StopIteration) as stop:
            next(running)
        return total + np.sum(stop.value.value)

    np.testing.assert_allclose(ft.grad(f)(X), [2.0, 3.0, 2.0])


def test_a_block_in_a_generator_does_not_act_on_its_consumer() -> None:
    def opened() -> Iterator[None]:
        with lift():
            assert is_lifted()
            yield
            assert is_lifted()

    running = opened()
    next(running)
    assert not is_lifted()
    assert np.zeros is OWN["zeros"]
    with lift():
        assert is_lifted()
    assert not is_lifted()
    next(running, None)
    other = opened()
    next(other)
    del other  # closed by being collected
    assert is_clean()


def test_coroutines_and_tasks() -> None:
    seen: list[Any] = []

    @lift
    async def lifted(x: Any) -> Any:
        made = np.array([x[0], 1.0])
        await asyncio.sleep(0.005)
        return np.sum(made * np.full(2, x[0]))

    @lift
    async def parts(x: Any) -> AsyncIterator[Any]:
        for k in range(2):
            yield np.array([x[k], 1.0])
            await asyncio.sleep(0)

    async def other() -> None:
        for _ in range(5):
            seen.append((is_lifted(), np.zeros is OWN["zeros"]))
            await asyncio.sleep(0.001)

    async def main(x: Any) -> Any:
        task = asyncio.create_task(other())
        total = await lifted(x)
        async for part in parts(x):
            assert not is_lifted()
            total = total + np.sum(part)
        await task
        return total

    np.testing.assert_allclose(ft.grad(lambda x: asyncio.run(main(x)))(X), [2 * X[0] + 2, 1, 0])
    assert seen == [(False, True)] * 5


def test_a_task_that_outlives_its_lift_is_not_lifted() -> None:
    seen: list[bool] = []

    async def late() -> None:
        await asyncio.sleep(0)
        seen.append(is_lifted())

    async def main() -> None:
        with lift():
            task = asyncio.create_task(late())
        await task

    asyncio.run(main())
    assert seen == [False]


def test_other_threads_are_not_lifted() -> None:
    seen: list[Any] = []

    def look() -> None:
        z = np.zeros(2)
        seen.append(
            (
                is_lifted(),
                np.zeros is OWN["zeros"],
                type(z),
                pickle.loads(pickle.dumps(OWN["zeros"])) is np.zeros,
            )
        )

    with lift():
        for context in (None, contextvars.copy_context()):
            thread = threading.Thread(
                target=look if context is None else lambda context=context: context.run(look)
            )
            thread.start()
            thread.join()
    assert seen == [(False, True, np.ndarray, True)] * 2


def test_many_threads_lift_at_once() -> None:
    def work(k: int) -> bool:
        x = X + k
        for _ in range(30):
            np.testing.assert_allclose(ft.grad(lift(pair))(x), [2 * x[0], 2 * x[1], 0.0])
            assert np.zeros is OWN["zeros"]
            with pytest.raises(LostGradientError):
                ft.grad(pair)(x)
        return True

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(12)))


def test_functions_are_compared_hashed_pickled_and_documented_as_numpys() -> None:
    with lift():
        assert np.zeros is np.zeros
        assert np.sin is not OWN["sin"]
        assert np.zeros == OWN["zeros"]
        assert {OWN["sin"]: 1}[np.sin] == 1
        assert isinstance(np.sin, np.ufunc)
        assert (np.sin.nin, np.add.identity, np.mean.__name__) == (1, 0, "mean")
        assert inspect.signature(np.mean) == inspect.signature(OWN["mean"])
        assert pickle.loads(pickle.dumps(np.mean)) == OWN["mean"]
        assert copy.copy(np.ndarray) is np.ndarray
        assert np.float64 is type(np.float64(1.0))
        assert pickle.loads(pickle.dumps(fnp.linalg.norm)) is fnp.linalg.norm


def test_numpys_modules_can_be_patched_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    with lift():
        with monkeypatch.context() as patch:
            patch.setattr(np, "zeros", "mine")
            assert np.zeros == "mine"
        assert np.zeros([2]).shape == (2,)
    assert np.zeros is OWN["zeros"]


def test_modules_that_are_imported_inside_get_numpys_own(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_under_lift.py").write_text(
        "import numpy as np\nfrom numpy import zeros\nmean = np.mean\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with lift():
        import imported_under_lift as module  # type: ignore[import-not-found]  # pyright: ignore[reportMissingImports]
    assert module.zeros is OWN["zeros"]
    assert module.mean is OWN["mean"]


def test_compiled_code_gets_numpys_own() -> None:
    with lift():  # as C does: no instruction of Python's reads the name
        assert getattr(np, "zeros") is OWN["zeros"]
        assert list(map(operator.attrgetter("zeros"), [np])) == [OWN["zeros"]]
        assert np.random.default_rng(0).multivariate_normal([0.0, 0.0], np.eye(2)).shape == (
            2,
        )  # Cython, calling np.…


# -- arrays that depend on no input ----------------------------------------------------------------


def test_constants_under_lift_are_concrete() -> None:
    @lift
    def f(x: Any) -> Any:
        z = np.linspace(0.0, 1.0, 3) * 2.0
        assert (float(z[1]), int(z[2]), z.tolist(), z[1].item(), complex(z[2])) == (
            1.0,
            2,
            [0.0, 1.0, 2.0],
            1.0,
            2,
        )
        other = OUTSIDE.copy()
        other[:] = z
        other += z
        np.add(other, z, out=other)
        np.add.at(other, [0], z[1:2])
        assert np.array_equal(other, [1.0, 3.0, 6.0])
        assert memoryview(LIBRARY.array(z)).tolist() == [
            0.0,
            1.0,
            2.0,
        ]  # what does not know of the lift
        assert np.packbits(z.astype(np.uint8))[0] == 96  # a function without implementation
        z[0] = x[0]
        with pytest.raises(LostGradientError):
            z[0].item()
        with pytest.raises(LostGradientError):
            z[1].item()  # of the array as it is now
        return np.sum(z * other)

    for g in (ft.grad(f), ft.jit(ft.grad(f))):
        np.testing.assert_allclose(g(X), [1.0, 0.0, 0.0])
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(np.stack([X, X])), [[1.0, 0.0, 0.0]] * 2)


@pytest.mark.parametrize(
    "transform",
    [lambda f: lambda x: ft.vjp(f, x)[0], lambda f: lambda x: ft.jvp(f, (x,), (x,))[0], ft.jit],
)
def test_concretized_integer_tables_are_valid_indices(transform: Any) -> None:
    @lift
    def f(x: Any) -> Any:
        n = np.zeros(3, int)
        n[0] = 1
        n[n == 1] = 2
        return x[n] * n

    np.testing.assert_array_equal(transform(f)(X), [2 * X[2], 0.0, 0.0])


def test_memoized_constants_outlive_their_transform() -> None:
    kept: dict[str, Any] = {}

    def table() -> Any:
        if not kept:
            kept["made"] = np.arange(3.0)
            kept["computed"] = kept["made"] * 2.0 + 1.0
        return kept["computed"]

    f = lift(lambda x: np.sum(table() * x))
    for _ in range(3):
        np.testing.assert_allclose(ft.grad(f)(X), [1.0, 3.0, 5.0])
    np.testing.assert_allclose(ft.jit(ft.vmap(ft.grad(f)))(np.stack([X, X])), [[1.0, 3.0, 5.0]] * 2)
    assert type(table() * X) is np.ndarray
    np.testing.assert_array_equal(np.asarray(kept["made"][1:]), [1.0, 2.0])
    assert type(np.sum(kept["made"])) is np.float64


def test_values_that_depend_on_an_input_do_not_outlive_their_transform() -> None:
    kept: list[Any] = []

    @lift
    def f(x: Any) -> Any:
        z = np.zeros(3)
        z[0] = x[0]
        kept.append(z)
        return np.sum(z)

    ft.grad(f)(X)
    uses = (
        lambda z: z + 1.0,
        lambda z: z[0],
        np.asarray,
        lambda z: float(z[0]),
        lambda z: ft.grad(lambda x: np.sum(x * z))(X),
    )
    for use in uses:
        with pytest.raises((LeakedTracerError, LostGradientError)):
            use(kept[0])


def test_isscalar() -> None:
    @lift
    def f(x: Any) -> Any:
        assert np.isscalar(np.sum(x))
        assert not np.isscalar(x)
        assert not np.isscalar(np.zeros(()))
        assert np.isscalar(2.0)
        return np.sum(x)

    ft.grad(f)(X)
    ft.vmap(f)(np.stack([X]))


def test_numpy_polynomial() -> None:
    P = np.polynomial.polynomial
    f = lift(lambda x: P.polyval(0.5, x) + np.polynomial.chebyshev.chebval(x[0], [1.0, 2.0, x[1]]))
    e = np.eye(3)
    expected = [(f(X + 1e-6 * d) - f(X - 1e-6 * d)) / 2e-6 for d in e]
    np.testing.assert_allclose(ft.grad(f)(X), expected, rtol=1e-6)


def test_the_page_is_there_that_messages_name() -> None:
    from functrace.numpy.protocol.tables import OR_LIFT

    assert "docs/numpy.md" in OR_LIFT
    assert ast.parse("@functrace.numpy.lift\ndef f(): ...")


# -- names that somebody replaces while code is lifted ---------------------------------------------

REPLACED = ("numpy", "numpy.linalg", "numpy.fft", "math", "scipy.linalg", "scipy.special")


@pytest.mark.parametrize("where", REPLACED)
def test_monkeypatching_under_lift_restores_names(where: str) -> None:
    pytest.importorskip(where)
    module = importlib.import_module(where)
    before, wrong = dict(vars(module)), []
    names = [name for name in before if callable(before[name]) and not name.startswith("__")]
    assert len(names) > 10
    for name in names:
        try:
            with ft.numpy.lift(), pytest.MonkeyPatch.context() as patch:
                patch.setattr(module, name, len)
                if getattr(module, name) is not len:
                    wrong.append((name, "is not what was set"))
            if vars(module).get(name) is not before[name]:
                wrong.append((name, "not restored"))
            with ft.numpy.lift(), pytest.MonkeyPatch.context() as patch:
                patch.delattr(module, name)
                if name in vars(module):
                    wrong.append((name, "not deleted"))
                with contextlib.suppress(AttributeError):
                    getattr(module, name)
            if vars(module).get(name) is not before[name]:
                wrong.append((name, "not restored"))
            with ft.numpy.lift(), mock.patch.object(module, name, len):
                pass
            if vars(module).get(name) is not before[name]:
                wrong.append((name, "not restored by mock"))
        finally:
            vars(module)[name] = before[name]
    assert not wrong, wrong[:5]


def test_replaced_function_is_called_while_lifted_and_only_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = np.sin
    f = ft.numpy.lift(lambda x: np.cos(x) * np.sin(1.0))
    with monkeypatch.context() as patch:
        with ft.numpy.lift():
            patch.setattr(np, "sin", lambda x: 2.0)
        assert ft.grad(f)(1.0) == -own(1.0) * 2.0
    assert np.sin is own
    assert ft.grad(f)(1.0) == -own(1.0) * own(1.0)
