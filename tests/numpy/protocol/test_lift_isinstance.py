"""`isinstance` of traced values: as of NumPy's values under `lift`, as of tracers elsewhere."""

from __future__ import annotations

import collections.abc
import copy
import ctypes
import functools
import numbers
import pickle
import threading
import types
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError
from functrace.numpy import lift
from functrace.numpy.arrays.traced_array import TracedArray

CLASSES = (
    np.ndarray, np.generic, np.number, np.inexact, np.floating, np.integer, np.float64, np.float32,
    np.int64, np.bool_,
    np.complexfloating, float, int, bool, complex, list, tuple, str, numbers.Number, numbers.Real,
    numbers.Integral,
    collections.abc.Sequence, np.matrix, np.ma.MaskedArray, type(None),
)  # fmt: skip
BOUND = (list, (tuple, np.ndarray))
VALUES: dict[str, Callable[[Any], Any]] = {
    "vector": lambda x: x,
    "matrix": lambda x: np.outer(x, x),
    "element": lambda x: x[0],
    "sum": np.sum,
    "0-d array": lambda x: np.copy(x[0]),
    "float32": lambda x: np.sum(x).astype(np.float32),
    "integers": lambda x: x.astype(int),
    "integer": lambda x: x.astype(int)[1],
    "mask": lambda x: x > 0,
    "bool": lambda x: (x > 0)[0],
    "complex": lambda x: x[0] * 1j,
    "made inside": lambda x: np.zeros(2),
}
X = np.array([0.7, -1.3, 2.1])


@runtime_checkable
class HasShape(Protocol):
    shape: tuple[int, ...]


def answers(x: Any) -> list[bool]:
    """The results of `isinstance` on a value, called in every way that plain code calls it."""
    found = [isinstance(x, kind) for kind in CLASSES]
    found += [
        isinstance(x, (list, np.ndarray)),
        isinstance(x, BOUND),
        isinstance(x, np.ndarray | list),
        is_a(x, np.ndarray),
    ]
    found += [
        any(isinstance(x, kind) for kind in CLASSES),
        (lambda: isinstance(x, np.ndarray))(),
        isinstance(x, HasShape),
    ]
    match x:
        case np.ndarray():
            found.append(True)
        case _:
            found.append(False)
    return found


def is_a(x: Any, kind: Any) -> bool:
    return isinstance(x, kind)


@pytest.mark.parametrize(
    "transform", [ft.grad, ft.jit, ft.trace, lambda f: lambda x: ft.jvp(f, (x,), (x,))]
)
def test_isinstance_in_lifted_code_is_as_of_numpy_values(transform: Any) -> None:
    wrong = []

    @lift
    def f(x: Any) -> Any:
        for name, make in VALUES.items():
            for _ in range(
                12
            ):  # past the number of calls from which Python specializes its instructions
                found = answers(make(x))
            expected = answers(make(X))
            if found != expected:
                wrong.append((name, found, expected))
        return np.sum(x)

    transform(f)(X)
    assert not wrong


def test_examples_of_mapped_functions_are_scalars() -> None:
    seen: list[Any] = []
    ft.vmap(lift(lambda x: seen.append((isinstance(x, float), isinstance(x, np.ndarray))) or x))(X)  # type: ignore[func-returns-value]
    assert seen == [(True, False)]


def test_python_numbers_under_jit() -> None:
    seen: list[Any] = []

    @lift
    def f(x: Any, n: Any) -> Any:
        seen.append(
            [isinstance(n, float), isinstance(n, (int, np.integer)), isinstance(n, np.ndarray)]
        )
        return x * n

    ft.jit(f)(X, 2.0)
    ft.jit(f)(X, 2)
    assert seen == [[True, False, False], [False, True, False]]


def test_isinstance_outside_lifted_code_sees_tracers() -> None:
    seen: list[Any] = []

    def look(x: Any) -> None:
        seen.append((isinstance(x, np.ndarray), isinstance(x, float)))

    def f(x: Any) -> Any:
        with lift():
            thread = threading.Thread(target=look, args=(x,))
            thread.start()
            thread.join()
            assert type(x) is x.__class__ is TracedArray
            assert isinstance(x, ft.Tracer)
            assert list(map(functools.partial(isinstance), [x], [np.ndarray])) == [
                False
            ]  # called from C, on the way to the memory
            asks = ctypes.pythonapi.PyObject_IsInstance
            asks.argtypes = [ctypes.py_object, ctypes.py_object]
            assert asks(x, np.ndarray) == 0
            assert type(copy.copy(x)) is type(copy.deepcopy(x)) is TracedArray
            with pytest.raises(FunctraceError):
                pickle.dumps(x)
            by_class = functools.singledispatch(lambda value: "other")
            by_class.register(np.ndarray, lambda value: "array")
            assert by_class(x) == "other"
        look(x)
        return np.sum(x)

    ft.grad(f)(X)
    assert seen == [(False, False)] * 2


def test_memory_of_tracers_that_pass_as_arrays_is_not_read() -> None:
    @lift
    def f(x: Any) -> Any:
        assert isinstance(x, np.ndarray)
        for read in (
            memoryview,
            bytes,
            lambda x: np.frombuffer(x),
            lambda x: np.ndarray((3,), float, x),
            lambda x: np.ndarray.sum(x),
            lambda x: np.ndarray.__getitem__(x, 0),
            lambda x: x.ctypes.data,
            lambda x: x.__array_interface__,
            lambda x: np.lib.stride_tricks.as_strided(x, (3,), (8,)),
        ):
            with pytest.raises((TypeError, AttributeError, FunctraceError)):
                read(x)
        return np.sum(x)

    ft.grad(f)(X)


def test_isinstance_in_code_without_columns_sees_tracers() -> None:
    """Python without ``-X no_debug_ranges`` knows the columns of instructions, by which a call is
    found.
    """
    code = compile("answer = isinstance(x, np.ndarray)", "<made>", "exec")
    stripped = code.replace(co_linetable=b"")
    seen: list[bool] = []

    @lift
    def f(x: Any) -> Any:
        for made in (code, stripped):
            scope: dict[str, Any] = {"x": x, "np": np}
            exec(made, scope)
            seen.append(scope["answer"])
        return np.sum(x)

    ft.grad(f)(X)
    assert seen == [True, False]
    assert isinstance(code, types.CodeType)
