"""Lists and tuples of traced numbers as arguments of every function, in lifted code: as NumPy has
it, or a clear error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError
from functrace.numpy.protocol import namespace
from tests.oracles import attempt

X = np.array([[1.5, 0.25], [0.5, 2.0]])

FORMS: dict[str, Callable[[Any], Any]] = {
    "list": lambda x: [x[0, 0], x[0, 1]],
    "tuple": lambda x: (x[0, 0], x[0, 1]),
    "list and a number": lambda x: [x[0, 0], 2.0],
    "one": lambda x: [x[0, 0]],
    "rows": lambda x: [x[0], x[1]],
    "nest": lambda x: [[x[0, 0], x[0, 1]], (1.0, x[1, 1])],
    "of matrices": lambda x: (x, x),
    "ragged": lambda x: [x[0], x[0, 0]],
}

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "f(a)": lambda f, a: f(a),
    "f(a, a)": lambda f, a: f(a, a),
    "f(a, 1)": lambda f, a: f(a, 1),
    "f(2.0, a)": lambda f, a: f(2.0, a),
    "f(a, 0, 1)": lambda f, a: f(a, 0, 1),
    "f(a, axis=0)": lambda f, a: f(a, axis=0),
}

_LEFT_OUT = frozenset({
    "save", "savetxt", "savez", "savez_compressed", "load", "loadtxt", "genfromtxt", "fromfile",
    "memmap",
    "show_config", "show_runtime", "info", "test", "printoptions", "set_printoptions",
    "get_printoptions", "seterr",
    "seterrcall", "setbufsize", "get_include", "frompyfunc", "errstate", "empty", "empty_like",
    "typename", "bmat",
    "asmatrix", "matrix", "nditer", "nested_iters", "getbufsize", "geterr", "geterrcall",
    "from_dlpack", "array_repr",
    "array_str", "array2string", "may_share_memory", "shares_memory",
})  # fmt: skip


def _functions() -> dict[str, Any]:
    found = {}
    for where, module in (("", np), ("linalg.", np.linalg), ("fft.", np.fft)):
        for name in module.__all__:
            member = getattr(module, name)
            if (
                callable(member)
                and not isinstance(member, type)
                and name not in _LEFT_OUT
                and not name.startswith("_")
            ):
                found[where + name] = namespace.lookup(
                    module, name, namespace.NAME + ("." + where[:-1] if where else "")
                )
    return found


FUNCTIONS = _functions()
_OF_DTYPES = ("Cannot construct a dtype", "Field elements must be", "Input should be a NumPy array")
_WRITE = frozenset({"copyto", "put", "putmask", "place", "fill_diagonal", "put_along_axis"})


def _agree(got: Any, expected: Any) -> bool:
    if isinstance(got, Exception) or isinstance(expected, Exception):
        return isinstance(got, Exception) and isinstance(expected, Exception)
    return [(a.shape, a.dtype) for a in got] == [(a.shape, a.dtype) for a in expected] and all(
        np.allclose(a, b, equal_nan=True) if a.dtype.kind in "biufc" else np.array_equal(a, b)
        for a, b in zip(got, expected, strict=True)
    )


@pytest.mark.sampled(8)
@pytest.mark.parametrize("form", FORMS)
def test_every_function_of_lists(form: str) -> None:
    """A list is what it is to NumPy; where NumPy takes arrays only, it may be the array that it
    makes.
    """
    problems = []
    for name, ours in FUNCTIONS.items():
        own = getattr(ours, "__wrapped__", ours)
        for call, apply in CALLS.items():
            expected = attempt(lambda own=own, apply=apply: apply(own, FORMS[form](X)))
            found: list[Any] = []

            def f(x: Any, ours: Any = ours, apply: Any = apply, found: Any = found) -> Any:
                found.append(
                    attempt(lambda: ft.tree.map_leaves(ft.value, apply(ours, FORMS[form](x))))
                )
                return np.sum(x)

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ft.vjp(f, X)
            (got,) = found
            if isinstance(got, FunctraceError) or _agree(got, expected):
                continue
            if str(expected).startswith(
                _OF_DTYPES
            ):  # an array has a dtype, which np.dtype(array) reads
                continue
            if name not in _WRITE and _agree(
                got, attempt(lambda own=own, apply=apply: apply(own, np.array(FORMS[form](X))))
            ):
                continue
            problems.append(f"{name}, {call}: {got!r:.150} instead of {expected!r:.150}")
    assert not problems, f"{len(problems)}\n" + "\n".join(problems)
