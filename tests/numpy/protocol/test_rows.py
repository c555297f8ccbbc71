"""The rows of functrace/numpy/protocol/tables.py: every name in them is NumPy's, and all that users
call comes from one of them.
"""

from __future__ import annotations

import inspect
import operator
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.numpy as fnp
from functrace.numpy.arrays.masked import MaskedSelection
from functrace.numpy.arrays.operators import OPERATORS, UNARY
from functrace.numpy.arrays.traced_array import TracedArray
from functrace.numpy.arrays.traced_number import TracedNumber
from functrace.numpy.protocol.tables import (
    FUNCTIONS,
    LIKE,
    METHODS,
    ROWS,
    UFUNC_METHODS,
    array_method,
    implements,
)
from functrace.ops import elementwise as ew

PLACES = {
    "numpy": np, "numpy.linalg": np.linalg, "numpy.lib.stride_tricks": np.lib.stride_tricks,
    "numpy.fft": np.fft,
    "numpy.emath": np.emath,
    "numpy._core.umath": np._core.umath,  # type: ignore[attr-defined]
}  # fmt: skip
"""Where NumPy's functions are looked up."""

IN_PLACE_OR_SPREAD = {
    "astype", "clip", "compress", "conj", "conjugate", "copy", "fill", "flatten", "partition",
    "ravel", "reshape", "resize",
    "sort", "transpose", "view",
}  # fmt: skip
"""Methods that are no NumPy function with the array first: in place, with sizes one by one, or with
other defaults.
"""


def _name(function: Any) -> str:
    return next(
        (
            f"{m}.{n}"
            for m, where in PLACES.items()
            for n in dir(where)
            if getattr(where, n, None) is function
        ),
        "",
    )


def test_every_row_names_numpys_functions() -> None:
    assert len(ROWS) > 200
    for function, row in ROWS.items():
        assert function in row.functions
        assert _name(function), function
        assert (function in LIKE) == row.creates and (function in FUNCTIONS) != row.creates, (
            function
        )
    assert not [function for function in FUNCTIONS if function in ew.UFUNCS], (
        "a ufunc is a primitive, not a row"
    )
    assert all(_name(function) for function in LIKE)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "row", dict.fromkeys(ROWS.values()), ids=lambda row: row.functions[0].__name__
)
def test_a_row_takes_the_arguments_of_the_function(row: Any) -> None:
    own = inspect.signature(row.does).parameters
    if any(p.kind is p.VAR_POSITIONAL for p in own.values()):
        return
    for function in row.functions:
        try:
            theirs = inspect.signature(function).parameters
        except ValueError:  # ufuncs and a few compiled functions tell nothing
            continue
        positional = [
            p.name
            for p in theirs.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        ours = [p for p in own.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        for name, parameter in zip(positional, ours, strict=False):
            is_by_place = inspect.Parameter.POSITIONAL_ONLY in (theirs[name].kind, parameter.kind)
            assert parameter.name == name or is_by_place, (function, name, parameter.name)


def test_every_method_is_an_arrays() -> None:
    for name, does in METHODS.items():
        assert callable(getattr(np.ndarray, name)), name
        assert getattr(TracedArray, name) is does
        assert does.__doc__ and does.__doc__.strip(), name
        assert name in dir(TracedArray) and name in dir(TracedNumber)
        assert next(iter(inspect.signature(getattr(TracedArray, name)).parameters)) in ("a", "x")


NAMED_AS_FUNCTIONS = {"dot": {"other"}, "put": {"indices", "values"}}
"""Parameters of methods that have other names where the function of the same row has them."""


@pytest.mark.skipif(
    np.ndarray.sum.__text_signature__ is None,
    reason="methods of arrays have signatures from NumPy 2.4 on",
)
@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_the_arguments_of_the_arrays(name: str) -> None:
    theirs = inspect.signature(getattr(np.ndarray, name)).parameters.values()
    own = inspect.signature(METHODS[name]).parameters.values()
    if not any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in own):
        wanted = {
            p.name
            for p in theirs
            if p.name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        }
        assert wanted - {p.name for p in own} <= NAMED_AS_FUNCTIONS.get(name, set())


def test_methods_that_are_functions_come_from_rows() -> None:
    by_method = {row.method: row for row in ROWS.values() if row.method}
    for name in vars(TracedArray):
        if (
            name.startswith("_")
            or not callable(getattr(TracedArray, name))
            or not callable(getattr(np, name, None))
        ):
            continue
        assert (name in by_method) != (name in IN_PLACE_OR_SPREAD), name
    for name, row in by_method.items():
        assert METHODS[name] is row.does is FUNCTIONS[getattr(np, name)], name


def test_missing_methods_are_listed() -> None:
    theirs = {
        name
        for name in vars(np.ndarray)
        if not name.startswith("_") and callable(getattr(np.ndarray, name))
    }
    missing = theirs - set(dir(TracedArray))
    assert missing <= {
        "byteswap", "dump", "dumps", "getfield", "setfield", "setflags", "to_device", "tofile",
        "tostring",
    }  # fmt: skip


def test_every_ufunc_method_is_one() -> None:
    for ufunc, name in UFUNC_METHODS:
        assert isinstance(ufunc, np.ufunc) and name in ("reduce", "accumulate", "at")
        assert callable(getattr(ufunc, name))


def test_a_second_row_for_a_function_is_refused() -> None:
    with pytest.raises(AssertionError, match="two rows"):
        implements(np.sum)(lambda a: a)
    assert np.sum in FUNCTIONS and FUNCTIONS[np.sum] is ROWS[np.sum].does


def test_rows_that_are_added_later_have_their_methods() -> None:
    def tripled(a: Any) -> Any:
        """Stands for a function of NumPy's."""
        return 3 * a

    try:
        implements(tripled, method="tripled")(lambda a: 3.0 * a)
        array_method("quadrupled")(lambda a: 4.0 * a)
        assert ft.grad(lambda x: x.tripled() * x.quadrupled())(2.0) == 48.0  # a traced number
        np.testing.assert_array_equal(
            ft.grad(lambda x: np.sum(x.tripled() + x.quadrupled()))(np.ones(2)), [7.0, 7.0]
        )
    finally:
        for table, key in (
            (ROWS, tripled),
            (FUNCTIONS, tripled),
            (METHODS, "tripled"),
            (METHODS, "quadrupled"),
        ):
            table.pop(key, None)
        for kind in (TracedArray, TracedNumber):
            for name in ("tripled", "quadrupled"):
                if name in vars(kind):
                    delattr(kind, name)


@pytest.mark.parametrize("row", OPERATORS, ids=lambda row: row.name)
def test_every_operator_is_pythons_and_numpys(row: Any) -> None:
    x, y = np.array([5, 2, 7]), np.array([1, 2, 3])
    f = getattr(operator, f"__{row.name}__")
    np.testing.assert_array_equal(f(x, y), row.ufunc(x, y))
    assert row.primitive.eval is row.ufunc or not row.elementwise
    names = [f"__{row.name}__"] + ([] if row.compares else [f"__r{row.name}__", f"__i{row.name}__"])
    for kind in (TracedArray, TracedNumber, MaskedSelection)[: 3 if row.elementwise else 1]:
        for name in names:
            assert hasattr(np.ndarray, name) and name in vars(kind), (kind, name)
    np.testing.assert_array_equal(ft.jit(f)(x, y), f(x, y))
    np.testing.assert_array_equal(ft.jit(lambda x: f(x, y))(x), f(x, y))
    np.testing.assert_array_equal(ft.jit(lambda y: f(y, x))(y), f(y, x))


def test_no_operator_of_arrays_is_missing() -> None:
    binary = {row.name for row in OPERATORS} | {"divmod"}
    others = {f"__{form}{name}__" for form in ("", "r", "i") for name in binary} | {
        f"__{name}__" for name in UNARY
    }
    theirs = {
        name
        for name in vars(np.ndarray)
        if name.strip("_") in dir(operator) or name.startswith(("__r", "__i"))
    }
    theirs -= {
        "__reduce__",
        "__reduce_ex__",
        "__repr__",
        "__int__",
        "__iter__",
        "__init__",
        "__index__",
        "__contains__",
    }
    assert theirs - others <= {"__getitem__", "__setitem__", "__delitem__"}


def test_the_namespace_has_each_function_under_every_name() -> None:
    for function in ROWS:
        place = _name(function)
        if not place.startswith(("numpy.lib", "numpy._core")):
            found: Any = fnp
            for part in place.split(".")[1:]:
                found = getattr(found, part)
            assert found.__name__ == function.__name__
