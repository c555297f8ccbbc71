"""Code that touches no traced value, under `grad` of a lifted function: it does what it does
outside.
"""

from __future__ import annotations

import copy
import importlib
import json
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.csgraph
import scipy.spatial

import functrace as ft
from functrace.errors import ConcretizationError, FunctraceError, LostGradientError
from functrace.numpy import lift
from functrace.numpy.protocol.readers import holds_traced

X = np.array([0.7, 1.3, 2.1])
PLAIN: dict[str, Callable[[], Any]] = {
    "key of a dict": lambda: {np.arange(3)[1]: 2}[1] + {np.linspace(0.0, 1.0, 3)[1]: 3}[0.5],
    "set": lambda: [*sorted(set(np.array([1, 2, 2]))), len(set(np.arange(4.0)))],
    "memory": lambda: [
        memoryview(np.ones(3)).tolist(),
        bytes(np.ones(1)),
        np.zeros(2).data.nbytes,
        bytearray(np.arange(2)),
    ],
    "another dtype": lambda: (
        np.array([1, 2]).view("S8").tolist() + np.ones(1).view(np.int64).tolist()
    ),
    "objects": lambda: (
        np.array([np.zeros(2), None], dtype=object)[0].sum() + np.array(["a", 1], dtype=object)[1]
    ),
    "object array written": lambda: _objects(),
    "texts": lambda: [
        f"{np.arange(2.0)[1]:.2f}",
        str(np.array(["a"])[0]),
        np.arange(3).astype(str).tolist(),
    ],
    "copies": lambda: [
        pickle.loads(pickle.dumps(np.arange(3))).sum(),
        copy.deepcopy(np.arange(3)).sum(),
    ],
    "json": lambda: json.dumps(np.arange(3).tolist()),
    "sparse": lambda: (scipy.sparse.csr_array(np.eye(3)) @ np.ones(3)).tolist(),
    "sparse kinds": lambda: (
        _coordinates().tocsr().toarray().tolist() + _coordinates().tocsc().sum(axis=0).tolist()
    ),
    "graph": lambda: scipy.sparse.csgraph.shortest_path(
        scipy.sparse.csr_array(np.tri(3, k=-1)), directed=False
    ).tolist(),
    "tree": lambda: scipy.spatial.cKDTree(np.arange(6.0).reshape(3, 2)).query(np.zeros(2))[1],
    "sorted": lambda: [*sorted(np.array([3, 1, 2])), max(np.arange(3)), sum(np.arange(3))],
    "shape": lambda: _shaped(),
    "structured": lambda: np.zeros(2, dtype=[("a", float), ("b", int)])["a"].sum(),
    "dates": lambda: str(np.array(["2020-01-02"], dtype="datetime64[D]").astype(str)[0]),
    "drawn": lambda: np.random.default_rng(0).permutation(np.arange(5)).tolist(),
    "range": lambda: [*range(np.array([3])[0]), [1, 2][np.argmax(np.array([1, 2]))]],
    "isinstance": lambda: [
        isinstance(np.zeros(2), np.ndarray),
        isinstance(np.arange(2)[0], (int, np.integer)),
    ],
}
LIBRARY = """
import numpy as np

class Table:
    def __init__(self, rows, f=None):
        self.rows = np.asarray(rows)
        self.sums = np.zeros(len(rows))
        self.f = f
        for k, row in enumerate(rows):
            self.sums[k] = np.sum(row) if f is None else f(np.sum(row))

def kinds(rows):
    return type(np.asarray(rows)).__name__, type(np.zeros(2)).__name__, memoryview(np.zeros(2)).nbytes
"""


def _objects() -> Any:
    made = np.empty(2, object)
    made[0], made[1] = np.ones(2), "b"
    return made[0].sum()


def _coordinates() -> Any:
    return scipy.sparse.coo_array((np.ones(2), (np.array([0, 1]), np.array([1, 2]))), shape=(3, 3))


def _shaped() -> Any:
    z = np.arange(6)
    z.shape = 2, 3
    return z.tolist()


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # NumPy 2.5
@pytest.mark.parametrize("name", PLAIN)
def test_plain_code(name: str) -> None:
    seen: list[Any] = []

    @lift
    def f(x: Any) -> Any:
        seen.append(PLAIN[name]())
        return np.sum(x)

    np.testing.assert_array_equal(ft.grad(f)(X), np.ones(3))
    assert np.all(seen[0] == PLAIN[name]())


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    place = tmp_path / "site-packages"
    place.mkdir()
    (place / "a_table.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(str(place))
    yield importlib.import_module("a_table")
    del sys.modules["a_table"]


def test_a_library_gets_plain_arrays_as_long_as_nothing_traced_is_in_reach(library: Any) -> None:
    class Holder:
        __slots__ = ("held",)

        def __init__(self, held: Any) -> None:
            self.held = held

    @lift
    def f(x: Any) -> Any:
        plain = library.Table([[1.0, 2.0], [3.0, 4.0]])
        assert type(plain.sums) is np.ndarray and type(plain.rows) is np.ndarray
        assert library.kinds([1.0]) == library.kinds(np.ones(2)) == ("ndarray", "ndarray", 16)
        by_rows = library.Table([[x[0], 2.0], [3.0, x[1]]])
        closed_over = library.Table([[1.0, 2.0]], lambda total: total * x[0])
        default = library.Table([[1.0, 2.0]], lambda total, scale=x[1]: total * scale)
        held, kept = Holder({"deep": [x]}), {"a": {1, 2}}
        attribute = library.Table(
            [[1.0, 2.0]], lambda total: total * held.held["deep"][0][2] + len(kept)
        )
        return sum(
            np.sum(table.sums) for table in (plain, by_rows, closed_over, default, attribute)
        )

    np.testing.assert_allclose(ft.grad(f)(X), [1 + 3, 1 + 3, 3])
    np.testing.assert_allclose(ft.jit(ft.grad(f))(X), [1 + 3, 1 + 3, 3])


HIDDEN: list[Any] = []


def test_tracers_that_enter_through_globals_raise(library: Any) -> None:
    @lift
    def f(x: Any) -> Any:
        HIDDEN.append(x)
        try:
            return np.sum(library.Table([[1.0, 2.0]], lambda total: total * HIDDEN[0][0]).sums)
        finally:
            HIDDEN.clear()

    with pytest.raises(LostGradientError, match="lift"):
        ft.grad(f)(X)


def test_large_arguments_are_assumed_to_contain_tracers(library: Any) -> None:
    @lift
    def f(x: Any) -> Any:
        rows: list[Any] = [[1.0, 2.0] for _ in range(1000)]
        rows[700][1] = x[0]
        return np.sum(library.Table(rows).sums)

    np.testing.assert_array_equal(ft.grad(f)(X), [1.0, 0.0, 0.0])


def test_objects_of_packages_with_a_compiled_core_contain_no_tracers() -> None:
    frame = type("Frame", (), {"__module__": "pandas.core.frame"})()
    frame.parts = [[k] for k in range(1000)]
    assert not holds_traced([frame])
    assert holds_traced([frame.parts])


def test_object_arrays_may_contain_tracers() -> None:
    held: list[bool] = []

    def f(x: Any) -> Any:
        coefficients = np.empty((2, 1), dtype=object)
        held.append(holds_traced([coefficients]))
        coefficients[1, 0] = [x]
        held.append(holds_traced([coefficients]))
        held.append(holds_traced([np.zeros(2), np.zeros(2, "f8,i4")]))
        return x

    ft.grad(f)(2.0)
    assert held == [False, True, False]


# -- hashing ---------------------------------------------------------------------------------------


def test_hashing() -> None:
    @lift
    def f(x: Any) -> Any:
        assert {1: "one"}[np.sum(x > 1.0) - 1] == "one"
        assert hash(np.argmax(x)) == hash(2) and hash(np.full((), 0.5)[()]) == hash(0.5)
        for make, error in (
            (lambda: x, TypeError),
            (lambda: np.arange(2), TypeError),
            (lambda: np.zeros(()), TypeError),
        ):
            with pytest.raises(error, match="unhashable"):
                hash(make())
        for lost in (lambda: {x[0]: 1}, lambda: x[0] in {0.7}, lambda: hash(np.sum(x))):
            with pytest.raises(LostGradientError, match="hash"):
                lost()
        return np.sum(x)

    ft.grad(f)(X)
    with pytest.raises(ConcretizationError):
        ft.jit(lambda x: x * {1: 2.0}[np.argmax(x)])(X)


# -- shapes that are set ---------------------------------------------------------------------------


def reshaped(x: Any) -> Any:
    z = np.zeros(6)
    part, same = z[1:4], z
    z.shape = (2, 3)
    z[1] = x
    part[0] = x[2]
    flat = z.reshape(-1)
    part.shape = 3, 1
    part *= 2.0
    z.shape = -1
    flat[5] = x[0] * x[1]
    assert same.shape == z.shape == (6,) and part.shape == (3, 1)
    return np.sum(z * np.arange(1.0, 7.0)) + np.sum(part**2) + same[4] + flat[0]


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")  # NumPy 2.5
def test_shapes_are_set_in_place() -> None:
    plain = reshaped(X)
    assert lift(reshaped)(X) == plain
    value, gradient = ft.value_and_grad(lift(reshaped))(X)
    e, h = np.eye(3), 1e-6
    np.testing.assert_allclose(value, plain)
    np.testing.assert_allclose(
        gradient, [(reshaped(X + h * d) - reshaped(X - h * d)) / (2 * h) for d in e], rtol=1e-6
    )
    np.testing.assert_allclose(ft.jit(ft.grad(lift(reshaped)))(X), gradient)


def test_shapes_that_cannot_be_set() -> None:
    def f(x: Any) -> Any:
        turned = np.outer(x, x)[:, 1:].T
        with pytest.raises((FunctraceError, AttributeError)):
            turned.shape = (6,)
        with pytest.raises(FunctraceError):
            x.shape = (2, 2)
        assert turned.shape == (2, 3)
        with pytest.raises(FunctraceError):
            ft.jit(lambda y: setattr(x, "shape", (3, 1)) or np.sum(x * y))(x)
        return np.sum(x)

    ft.grad(f)(X)


# -- subclasses of ndarray -------------------------------------------------------------------------


class Signal(np.ndarray):
    labels: Any

    def __new__(cls, values: Any, labels: Any) -> Any:
        made = np.asarray(values).view(cls)
        made.labels = labels
        return made

    def __array_finalize__(self, obj: Any) -> None:
        self.labels = getattr(obj, "labels", None)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.labels.index(key) if isinstance(key, str) else key)

    @property
    def first(self) -> Any:
        return self[self.labels[0]]

    def energy(self) -> Any:
        return np.sum(self**2)


class Doubled(np.ndarray):
    def __mul__(self, other: Any) -> Any:
        return super().__mul__(2 * other)


class Renamed(np.ndarray):
    def sum(self, *args: Any, **kwargs: Any) -> Any:
        return 0.0


def signals(x: Any) -> Any:
    signal = Signal(np.stack([x, x**2]), ["a", "b"])
    assert (
        isinstance(signal, Signal)
        and isinstance(signal, np.ndarray)
        and signal.labels == ["a", "b"]
    )
    return (
        np.sum(signal["b"] * signal.first)
        + signal.energy()
        + np.sum(signal[0, 1:] @ signal[1, 1:])
        + np.sum(signal)
    )


def test_ndarray_subclasses_are_preserved() -> None:
    e, h = np.eye(3), 1e-6
    expected = [(signals(X + h * d) - signals(X - h * d)) / (2 * h) for d in e]
    np.testing.assert_allclose(ft.grad(lift(signals))(X), expected, rtol=1e-6)
    np.testing.assert_allclose(ft.jit(ft.grad(lift(signals)))(X), expected, rtol=1e-6)
    assert type(lift(signals)(X)) is type(signals(X))


@pytest.mark.parametrize(
    "kind", [Doubled, Renamed, np.matrix, np.ma.MaskedArray, np.recarray, np.float32, "S8"]
)
def test_subclasses_with_their_own_arithmetic_raise(kind: Any) -> None:
    with pytest.raises(FunctraceError):
        ft.grad(lift(lambda x: np.sum(x.view(kind))))(X)


def test_writes_reach_views_as_a_subclass() -> None:
    def f(x: Any) -> Any:
        z = np.zeros(2)
        seen = z.view(Signal)
        seen.labels = ["a", "b"]
        z[0] = x[0]
        seen[1] = x[1] * 3.0
        return np.sum(seen["a"] * 2.0 + z[1])

    np.testing.assert_allclose(ft.grad(lift(f))(X), [2.0, 3.0, 0.0])


# -- masked arrays ---------------------------------------------------------------------------------


def masked(x: Any) -> Any:
    rows = np.ma.asarray([[1.0, 2.0, 3.0], [0.5, 0.1, -0.4]])
    total = 0.0
    for row in rows:
        assert isinstance(row, np.ma.MaskedArray)
        if not np.any(np.ma.getmask(row)):
            total = (
                total
                + np.sum((row - x) ** 2)
                + np.dot(row, x)
                + (x + row)[0]
                + np.sum(np.multiply(row, x))
            )
    own = np.ma.array(x * 2.0)
    return (
        total
        + np.sum(np.ma.atleast_2d(own) @ np.ones(3))
        + np.mean(np.ma.array([1.0, 2.0], mask=[True, False]))
    )


def test_masked_arrays_of_which_nothing_is_masked_are_their_data() -> None:
    e, h = np.eye(3), 1e-6
    expected = [(masked(X + h * d) - masked(X - h * d)) / (2 * h) for d in e]
    np.testing.assert_allclose(ft.grad(lift(masked))(X), expected, rtol=1e-6)
    np.testing.assert_allclose(ft.jit(ft.grad(lift(masked)))(X), expected, rtol=1e-6)
    np.testing.assert_allclose(lift(masked)(X), masked(X))


def test_masked_arrays_raise() -> None:
    some = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
    none = np.ma.array([1.0, 2.0, 3.0])
    for f in (
        lambda x: x * some,
        lambda x: np.add(x, some),
        lambda x: np.dot(x, some),
        lambda x: x / none,
        lambda x: np.divide(none, x),
        lambda x: x**none,
        lambda x: np.ma.asarray(some) - x,
        lambda x: np.ma.asarray(none) / x,
        lambda x: np.ma.array(x, mask=[True, False, False]),
    ):
        with pytest.raises(FunctraceError):
            ft.grad(lift(lambda x, f=f: np.sum(f(x))))(X)


def test_masked_arrays_of_lifted_code_are_masked_arrays() -> None:
    made: list[Any] = []

    @lift
    def f(x: Any) -> Any:
        made.append(np.ma.array([1.0, 2.0], mask=[True, False]))
        return np.sum(x)

    ft.grad(f)(X)
    assert isinstance(made[0], np.ma.MaskedArray) and np.ma.sum(made[0] / 0.5) == 4.0
    again = pickle.loads(pickle.dumps(made[0]))
    assert type(again) is np.ma.MaskedArray and again.mask.tolist() == [True, False]


# -- messages --------------------------------------------------------------------------------------


def test_error_messages_for_memory_and_hash() -> None:
    cases: list[tuple[Callable[[Any], Any], str]] = [
        (lambda x: np.frombuffer(x), "memory of a traced value"),
        (lambda x: np.ndarray((3,), float, x), "memory of a traced value"),
        (lambda x: bytearray(b"").join([x]), "memory of a traced value"),
        (lambda x: {x: 1}, "unhashable"),
        (lambda x: {x[0]: 1}, "functools.cache"),
    ]
    for f, words in cases:
        with pytest.raises(FunctraceError, match=words) as error:
            ft.grad(lift(lambda x, f=f: (f(x), np.sum(x))[1]))(X)
        assert "test_lift_plain_code.py" in str(error.value) and "fix:" in str(error.value)
        assert isinstance(error.value, TypeError)
