"""Values that NumPy fills in, starts from, or writes: what it refuses is refused, and what it casts
is cast alike.

A grid of functions x dtypes x values, under jit and under vjp, beside NumPy: where we return, NumPy
does, with the same dtype and the same bits. Where NumPy returns we may raise, but not for ordinary
numbers.
"""

from __future__ import annotations

import functools
import itertools
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError, UnsupportedFunctionError

DTYPES = ["?", "i1", "u1", "i8", "u8", "f2", "f4", "f8", "c16"]
ORDINARY: list[Any] = [0, 1, 3]
ODD: list[Any] = [
    True, -1, 300, 2**40, 2**63, 2**70, 0.5, -0.5, 1e300, float("nan"), float("inf"), 1j,
    np.float64(0.5), np.float32(2.0),
    np.int8(3), np.int64(300), np.uint8(200), np.bool_(True), np.array(300), np.array([1.5]),
    np.array([7]),
    np.complex64(1j), None, "a", [1, 2, 3], [0.5, 1, 2],
]  # fmt: skip
MASK = np.array([True, False, True])


def _after(write: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(x: Any, v: Any) -> Any:
        z = x.copy()
        write(z, v)
        return z

    return run


def _setitem(index: Any) -> Callable[[Any, Any], Any]:
    return _after(lambda z, v: z.__setitem__(index, v))


def _diagonal(x: Any, v: Any) -> Any:
    z = np.outer(x, x)
    np.fill_diagonal(z, v)
    return z


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "ge")},
    "full_like": np.full_like,
    "full_like, dtype": lambda x, v: np.full_like(x, v, dtype=np.int16),
    "pad": lambda x, v: np.pad(x, 1, constant_values=v),
    "sum": lambda x, v: np.sum(x, initial=v),
    "sum, axis": lambda x, v: np.sum(x[None], axis=0, initial=v),
    "sum, dtype": lambda x, v: np.sum(x, initial=v, dtype=np.int16),
    "sum, where": lambda x, v: np.sum(x, initial=v, where=MASK),
    "sum of nothing": lambda x, v: np.sum(x[:0], initial=v),
    "x.sum": lambda x, v: x.sum(initial=v),
    "add.reduce": lambda x, v: np.add.reduce(x, initial=v),
    "nansum": lambda x, v: np.nansum(x, initial=v),
    "prod": lambda x, v: np.prod(x, initial=v),
    "max": lambda x, v: np.max(x, initial=v),
    "min": lambda x, v: np.min(x, initial=v),
    "max, where": lambda x, v: np.max(x, initial=v, where=MASK),
    "max of nothing": lambda x, v: np.max(x[:0], initial=v),
    "maximum.reduce": lambda x, v: np.maximum.reduce(x, initial=v),
    "nanmax": lambda x, v: np.nanmax(x, initial=v),
    "insert": lambda x, v: np.insert(x, 1, v),
    "append": np.append,
    "put": _after(lambda z, v: np.put(z, [0, 2], v)),
    "place": _after(lambda z, v: np.place(z, MASK, v)),
    "putmask": _after(lambda z, v: np.putmask(z, MASK, v)),
    "put_along_axis": _after(lambda z, v: np.put_along_axis(z, np.array([0]), v, 0)),
    "copyto": _after(np.copyto),
    "copyto, unsafe": _after(lambda z, v: np.copyto(z, v, casting="unsafe")),
    "copyto, where": _after(lambda z, v: np.copyto(z, v, where=MASK)),
    "fill": _after(lambda z, v: z.fill(v)),
    "fill_diagonal": _diagonal,
    "x[:] = v": _setitem(slice(None)),
    "x[0] = v": _setitem(0),
    "x[[0, 1]] = v": _setitem([0, 1]),
    "x[mask] = v": _setitem(MASK),
    "clip, min": lambda x, v: np.clip(x, v, None),
    "clip, max": lambda x, v: np.clip(x, None, v),
    "clip, both": lambda x, v: np.clip(x, 0, v),
    "nan_to_num": lambda x, v: np.nan_to_num(x, nan=v),
    "searchsorted": np.searchsorted,
    "choose": lambda x, v: np.choose([0, 1, 0], [x, v]),
    "interp": lambda x, v: np.interp(x, [1.0, 2.0], [3.0, 4.0], left=v),
    "diff": lambda x, v: np.diff(x, prepend=v),
    "ediff1d": lambda x, v: np.ediff1d(x, to_begin=v),
    "gradient": np.gradient,
    "round": lambda x, v: np.round(x, v) if not (type(v) is int and abs(v) > 100) else x,
    "var": lambda x, v: np.var(x, ddof=v),
    "quantile": np.quantile,
    "percentile": np.percentile,
    "linspace": lambda x, v: np.linspace(x, v, 3),
    "add, dtype": lambda x, v: np.add(x, v, dtype=np.float32),
    "x += v": _after(lambda z, v: z.__iadd__(v)),
}


def _outcome(f: Callable[[], Any]) -> np.ndarray[Any, Any] | Exception:
    try:
        return np.asarray(f())
    except Exception as error:
        return error


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_calls_that_numpy_refuses_raise(name: str) -> None:
    f = FUNCTIONS[name]
    for dtype in DTYPES:
        x = np.array([1, 0, 2] if dtype == "?" else [1, 2, 3], dtype)
        for v in ORDINARY + ODD:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                expected = _outcome(lambda x=x, v=v: f(x.copy(), v))
                found = [_outcome(lambda x=x, v=v: ft.jit(lambda x: f(x, v))(x))]
                found.append(_outcome(lambda x=x, v=v: ft.vjp(lambda x: f(x, v), x)[0]))
            for one in found:
                where = f"{name} {dtype} {v!r}: expected {expected!r}, found {one!r}"
                if isinstance(one, Exception):
                    ordinary = type(v) is int and v in ORDINARY and dtype in ("i8", "f8")
                    assert isinstance(expected, Exception) or not ordinary, where
                    continue
                assert not isinstance(expected, Exception), where
                assert one.dtype == expected.dtype and one.shape == expected.shape, where
                assert np.array_equal(one, expected, equal_nan=one.dtype.kind in "fc"), where


@pytest.mark.sampled(2)
@pytest.mark.parametrize("casting", [None, "no", "equiv", "safe", "same_kind", "unsafe"])
@pytest.mark.parametrize("call", [
    lambda x, **options: np.einsum("i,j->ij", x, x, **options),
    lambda x, **options: np.concatenate([x, x], **options),
    lambda x, **options: np.stack([x, x], **options),
    lambda x, **options: np.add(x, x, **options),
], ids=["einsum", "concatenate", "stack", "add"])  # fmt: skip
def test_casting_is_refused_by_the_rule_that_numpy_takes(call: Any, casting: Any) -> None:
    options = {} if casting is None else {"casting": casting}
    for given, wanted in itertools.product(["f8", "f4", "i8", "i4", "c16"], repeat=2):
        x = np.array([1, 2, 3], given)
        f = functools.partial(call, dtype=wanted, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, found = (
                _outcome(lambda f=f, x=x: f(x)),
                _outcome(lambda f=f, x=x: ft.jit(f)(x)),
            )
        where = f"{given} to {wanted}: expected {expected!r}, found {found!r}"
        if isinstance(expected, Exception):
            assert isinstance(found, FunctraceError), where
        elif not isinstance(found, UnsupportedFunctionError):
            assert not isinstance(found, Exception) and found.dtype == expected.dtype, where
            assert np.array_equal(found, expected), where


@pytest.mark.parametrize("sizes", [(2.0, 1), (2.5, 1), ((2.0, 1),), ("2", 1), (None, 2)])
def test_sizes_are_integers(sizes: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        np.ones(2).reshape(*sizes)
    with pytest.raises(TypeError):
        ft.vjp(lambda x: x.reshape(*sizes), np.ones(2))
