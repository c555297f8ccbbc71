"""Results of shape () are scalars or arrays as in NumPy: every function of the tables, on all
arguments that it takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ConcretizationError, FunctraceError
from functrace.numpy.protocol.tables import FUNCTIONS, function_name

X = np.array([0.3, 1.1, 0.7])
ARGUMENTS: dict[str, Callable[[Any], tuple[Any, ...]]] = {
    "array": lambda x: (x,),
    "two arrays": lambda x: (x, x),
    "array and number": lambda x: (x, 0.5),
    "number and arrays": lambda x: (0.5, np.arange(3.0), x),
    "scalar": lambda x: (x[1],),
    "two scalars": lambda x: (x[1], x[2]),
    "index and scalars": lambda x: (1, [x[0], x[1]]),
    "complex": lambda x: (x * (1 + 2j),),
    "bools": lambda x: (x > 0.5,),
    "matrix": lambda x: (x[:, None] * x + np.eye(3),),
}
COPIES = {
    np.block, np.copy, np.empty_like, np.fft.fftn, np.fft.ifftn, np.full_like, np.i0, np.ones_like,
    np.real_if_close,
    np.zeros_like,
}  # fmt: skip
"""Functions that map a scalar to a scalar here, and to a 0-d array in NumPy."""


def called(function: Any, arguments: tuple[Any, ...]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def cases() -> Iterator[Any]:
    for function in FUNCTIONS:
        for kind, arguments in ARGUMENTS.items():
            try:
                wanted = called(function, arguments(X))
            except Exception:  # the function does not take them
                continue
            if isinstance(wanted, np.generic) and wanted.dtype.kind in "bifc":
                yield pytest.param(
                    function, arguments, type(wanted), id=f"{function_name(function)}-{kind}"
                )
            is_array = (
                isinstance(wanted, np.ndarray) and not wanted.ndim and wanted.dtype.kind in "fc"
            )
            if is_array and function not in COPIES:
                yield pytest.param(
                    function, arguments, np.ndarray, id=f"{function_name(function)}-{kind}"
                )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function, arguments, wanted", list(cases()))
def test_scalar_or_array(
    function: Any, arguments: Callable[[Any], tuple[Any, ...]], wanted: type
) -> None:
    f: Any = lambda x: function(*arguments(x))
    compiled: Any = ft.jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            pushed = ft.jvp(f, (X,), (X,))[0]
        except FunctraceError:  # what is refused (a float as an index) is no wrong type
            return
        assert type(pushed) is wanted
        if wanted in (np.float64, np.complex128, np.ndarray):
            assert type(ft.vjp(f, X)[0]) is wanted
        try:
            staged = compiled(X)
        except ConcretizationError:  # it depends on values
            return
        assert type(staged) is wanted
