"""Groups of operations on large arrays as machine code, in blocks: values, bits, errors."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import optree
import pytest

import functrace as ft

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.native import tiles
from functrace.ops.blas import one_thread
from functrace.passes import matmul_selection
from functrace.threads import THREADS

RNG = np.random.default_rng(0)


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def pairs(x: Any) -> Any:
    e = np.sinh(x)
    return np.stack([e, np.cos(e) * x], axis=-1)


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "elements": lambda x, y: np.exp(x) * np.tanh(y) + x * y / (1 + x * x),
    "several results": lambda x, y: (np.sin(x) * y, np.cos(x * y), (x > y) & (np.exp(x) > 1)),
    "rows": lambda x, y: softmax(x) * np.exp(y),
    "sum of all": lambda x, y: np.sum(np.sin(x) * np.exp(y)),
    "gradient": lambda x, y: ft.value_and_grad(lambda z: np.sum(softmax(z) * y * np.log1p(y)))(x),
    "row vector": lambda x, y: np.exp(x * y[(0,) * (y.ndim - 1)]) - np.cos(x),
    "column": lambda x, y: np.exp(x * y[..., :1]) - np.tanh(x),
    "views": lambda x, y: np.exp(pairs(x)[..., 1]) * np.sin(y[..., ::-1]),
    "shapes": lambda x, y: np.exp(x.reshape(*x.shape, 1) * np.sin(y[..., None])).sum(-1),
    "joined": lambda x, y: np.concatenate([np.exp(x), np.sin(y), np.tanh(x * y)], axis=-1),
    "conversion": lambda x, y: (np.exp(x) * 3 + np.tanh(y)).astype(np.float32) * np.float32(2),
    "number": lambda x, y: np.exp(x) * np.sin(y) * 3 + np.sum(y[(0,) * y.ndim]),
    "reductions": lambda x, y: np.max(np.exp(x) * y, axis=-1) + np.prod(np.cos(y), axis=-1),
}
OF_REAL_NUMBERS = {"rows", "gradient", "reductions", "several results", "conversion"}
SHAPES = [(4096,), (128, 32), (131, 33), (16, 16, 16), (7, 11, 64), (256, 3)]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Let small arrays be divided; yields the groups that were compiled."""
    made: list[Any] = []
    begin = tiles.Tiles.__init__

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        begin(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(tiles, "TILE", 256)
    monkeypatch.setattr(tiles.Tiles, "__init__", init)
    with ft.config(block=32):
        yield made


def outcomes(f: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return the results with one to three threads."""
    found = []
    for count in (1, 2, 3):
        before = THREADS.count
        THREADS.resize(count)
        try:
            found.append([np.asarray(x) for x in optree.tree_leaves(f(*arguments))])
        finally:
            THREADS.resize(before)
    return found


@pytest.mark.sampled(8)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        (name, dtype)
        for name in FUNCTIONS
        for dtype in ("float64", "float32", "complex128")
        if dtype != "complex128" or name not in OF_REAL_NUMBERS
    ],
)
def test_values_and_bits(name: str, shape: tuple[int, ...], dtype: str) -> None:
    f = FUNCTIONS[name]
    x, y = (RNG.uniform(0.1, 1.0, size=shape).astype(dtype) for _ in range(2))
    if dtype == "complex128":
        x, y = x + 0.5j * y, y - 0.25j * x
    expected = [np.asarray(v) for v in optree.tree_leaves(ft.jit(f)(x, y))]
    found = outcomes(ft.jit(f, backend="native"), x, y)
    exact = outcomes(ft.jit(f, backend="native", accuracy="numpy"), x, y)
    size = max(np.finfo(v.dtype).eps if v.dtype.kind in "fc" else 0 for v in expected)
    for n, value in enumerate(expected):
        for made, bits in zip(found, exact, strict=True):
            assert (made[n].dtype, made[n].shape) == (value.dtype, value.shape)
            np.testing.assert_allclose(made[n], value, rtol=64 * size, atol=64 * size)
            assert made[n].tobytes() == found[0][n].tobytes()
            assert bits[n].tobytes() == value.tobytes()


@pytest.mark.parametrize("name", ["elements", "rows", "sum of all", "gradient", "joined"])
def test_blocks_are_used(name: str, small: list[Any]) -> None:
    x, y = RNG.uniform(0.1, 1.0, size=(2, 128, 32))
    ft.jit(FUNCTIONS[name], backend="native")(x, y)
    assert len(small) == 1


@pytest.mark.parametrize(
    "arrange",
    [
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=1)[:, ::2],
        lambda x: x[::-1],
        lambda x: np.broadcast_to(x[3:4], x.shape),
        lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
    ],
    ids=["columns", "strided", "reversed", "expanded", "unaligned"],
)
@pytest.mark.parametrize("accuracy", ["ulp", "numpy"])
def test_arguments_with_other_strides(arrange: Callable[[Any], Any], accuracy: Any) -> None:
    x, y = RNG.uniform(0.1, 1.0, size=(2, 131, 32))
    f = ft.jit(FUNCTIONS["rows"], backend="native", accuracy=accuracy)
    expected = FUNCTIONS["rows"](arrange(x), y)
    np.testing.assert_allclose(f(arrange(x), y), expected, rtol=1e-14)
    np.testing.assert_allclose(f(x, y), FUNCTIONS["rows"](x, y), rtol=1e-14)


def test_warnings_and_errors_are_those_of_numpy(small: list[Any]) -> None:
    f = ft.jit(lambda x: np.exp(x) / np.sin(x) + np.tanh(x), backend="native")
    x = RNG.uniform(0.1, 1.0, size=4096)
    f(x)
    assert small
    x[1234] = 0.0
    with pytest.warns(RuntimeWarning, match="divide by zero") as noted:
        found = f(x)
    assert len(noted) == 1 and noted[0].filename == __file__
    assert found[1234] == np.inf
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        f(x)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert f(x)[1234] == np.inf


def test_underflow_is_seen() -> None:
    f = ft.jit(lambda x: np.exp(-x) * np.tanh(x), backend="native")
    x = np.full(4096, 740.0)
    assert (f(x) > 0).all()
    with np.errstate(under="raise"), pytest.raises(FloatingPointError):
        f(x)


def test_sums_that_overflow_warn() -> None:
    f = ft.jit(lambda x: np.sum(np.sqrt(x) * np.sqrt(x)), backend="native")
    x = np.full(4096, 1e306)
    with pytest.warns(RuntimeWarning, match="overflow") as noted:
        assert f(x) == np.inf
    assert [warning.filename for warning in noted] == [__file__]
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        f(x)


def test_arguments_stay_as_they_are_and_results_are_fresh() -> None:
    f = ft.jit(FUNCTIONS["elements"], backend="native", donate_argnums=0)
    x, y = RNG.uniform(0.1, 1.0, size=(2, 4096))
    expected = FUNCTIONS["elements"](x, y)
    kept = y.copy()
    np.testing.assert_allclose(f(x.copy(), y), expected, rtol=1e-14)
    np.testing.assert_array_equal(y, kept)


def test_many_callers_at_a_time() -> None:
    f = ft.jit(FUNCTIONS["rows"], backend="native")
    arguments = [RNG.uniform(0.1, 1.0, size=(2, 131, 32)) for _ in range(4)]
    expected = [f(*pair) for pair in arguments]
    wrong: list[int] = []

    def call(k: int) -> None:
        for _ in range(50):
            if f(*arguments[k]).tobytes() != expected[k].tobytes():
                wrong.append(k)

    callers = [threading.Thread(target=call, args=(k,)) for k in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


def test_products_are_compiled_as_a_whole(small: list[Any]) -> None:
    f = ft.jit(lambda x: np.exp(x @ x.T) * np.sin(x), backend="native")
    x = RNG.uniform(0.1, 0.2, size=(64, 64))
    np.testing.assert_allclose(f(x), np.exp(x @ x.T) * np.sin(x), rtol=1e-13)


@pytest.mark.skipif(one_thread() is None, reason="NumPy's BLAS cannot be kept to one thread")
def test_large_products_beside_groups(monkeypatch: pytest.MonkeyPatch, small: list[Any]) -> None:
    """A group of products is NumPy's; one without products is machine code."""
    for name, value in {"LEAST": 64, "THREADED": 8, "BLOCKED": 16, "NARROWEST": 2}.items():
        monkeypatch.setattr(matmul_selection, name, value)

    def f(x: Any, w: Any, z: Any) -> Any:
        y = np.exp(np.tanh(x @ w)) * np.sin(x @ w) + 1
        return y, softmax(z * np.max(y)) * np.exp(z)

    x, w = RNG.uniform(0.1, 0.2, size=(64, 4, 16)), RNG.uniform(size=(16, 16))
    z = RNG.uniform(size=(1024, 16))
    found = ft.jit(f, backend="native")(x, w, z)
    for a, b in zip(found, f(x, w, z), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    assert len(small) == 1
    explained = ft.debug.explain(f)(x, w, z)
    assert explained.tiles == 1
    assert [line.split()[0] for line in explained.by_numpy] == ["blocks"]
    exact = ft.jit(f, backend="native", accuracy="numpy")(x, w, z)
    for a, b in zip(exact, f(x, w, z), strict=True):
        assert a.tobytes() == b.tobytes()


def test_explanation() -> None:
    x, y = RNG.uniform(0.1, 1.0, size=(2, 128, 32))
    found = ft.debug.explain(FUNCTIONS["rows"])(x, y)
    assert (found.tiles, found.is_whole, found.by_numpy) == (1, True, ())
    assert found.text().startswith("program: 9 operations, 1 group in tiles on all cores, machine")
    found = ft.debug.explain(lambda x, y: np.linalg.svd(np.exp(x) * np.sin(y))[1])(x, y)
    assert (found.tiles, len(found.by_numpy)) == (1, 1)
