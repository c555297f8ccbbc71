"""Array subclasses and non-numeric arrays raise at every entry point, with a fix; operations on
them that are traced stay so.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import DtypeError, FunctraceError, LostGradientError, UnsupportedFunctionError


class Sub(np.ndarray):
    """A subclass of ndarray."""


VALUES = np.arange(1.0, 5.0)
X = np.ones(4)

SUBCLASSES: dict[str, tuple[Any, str]] = {
    "masked": (np.ma.masked_array(VALUES, [0, 1, 0, 0]), "mask would be lost"),
    "masked number": (np.ma.masked_array(1.0, True), "mask would be lost"),
    "np.ma.masked": (np.ma.masked, "mask would be lost"),
    "matrix": (VALUES[None].view(np.matrix), "is a matrix product"),
    "subclass": (VALUES.view(Sub), "not a plain array"),
    "records": (np.rec.array([(1.0, 2)] * 4, dtype=[("a", "f8"), ("b", "i4")]), ""),
}
OTHERS: dict[str, Any] = {
    "objects": np.array([1, None, 2, 3], object),
    "strings": np.array(["a"] * 4),
    "dates": np.array(["2020-01-01"] * 4, "M8[D]"),
    "date": np.datetime64("2020-01-01"),
    "durations": np.array([1, 2, 3, 4], "m8[s]"),
    "structured": np.zeros(4, [("a", "f8")]),
}


@ft.custom_vjp
def with_vjp(x: Any, _: Any) -> Any:
    return x * 1.0


with_vjp.defvjp(lambda x, _: (x * 1.0, None), lambda _, ct: (ct, None))


@ft.custom_jvp
def with_jvp(x: Any, _: Any) -> Any:
    return x * 1.0


with_jvp.defjvp(lambda primals, tangents: (primals[0] * 1.0, tangents[0]))


def _written(x: Any, index: Any, v: Any) -> Any:
    z = x * 1.0
    z[index] = v
    return z


PULLBACK, F_JVP = ft.vjp(lambda x: x * x, X)[1], ft.linearize(lambda x: x * x, X)[1]
PROGRAM = ft.trace(lambda x: x * 2.0)(X)
JITTED = ft.jit(lambda v: v * 2.0)

ENTRIES: dict[str, Callable[[Any], Any]] = {
    "grad": ft.grad(lambda v: np.sum(v * 1.0)),
    "vjp": lambda v: ft.vjp(lambda v: v * 1.0, v),
    "jvp": lambda v: ft.jvp(lambda v: v * 1.0, (v,), (v,)),
    "tangents": lambda v: ft.jvp(lambda x: x * 1.0, (X,), (v,)),
    "linearize": lambda v: ft.linearize(lambda v: v * 1.0, v),
    "linear_transpose": lambda v: ft.linear_transpose(lambda v: v * 2.0, v),
    "vmap": ft.vmap(lambda v: v * 1.0),
    "vmap, not mapped": lambda v: ft.vmap(lambda x, v: x * v, (0, None))(X, v),
    "jit": JITTED,
    "jit of a nest": lambda v: ft.jit(lambda d: d["v"] * 1.0)({"v": v}),
    "jit, captured": lambda v: ft.jit(lambda x: x * v)(X),
    "trace": lambda v: ft.trace(lambda v: v * 1.0)(v),
    "evaluate": lambda v: ft.evaluate(PROGRAM, v),
    "checkpoint": lambda v: ft.checkpoint(lambda v: v * 1.0)(v),
    "saved_residuals": lambda v: ft.saved_residuals(lambda v: v * v)(v),
    "carry of scan": lambda v: ft.scan(lambda c, _: (c * 1.0, None), v, None, 2),
    "xs of scan": lambda v: ft.scan(lambda c, x: (c, x * 1.0), 0.0, v),
    "operand of cond": lambda v: ft.jit(
        lambda p: ft.cond(p > 0.0, lambda v: v * 1.0, lambda v: v * 2.0, v)
    )(1.0),
    "predicate of cond": lambda v: ft.cond(v, lambda: 1.0, lambda: 2.0),
    "cotangents": PULLBACK,
    "tangents of f_jvp": F_JVP,
    "result": lambda v: ft.vjp(lambda x: v, X),
}
WITH_TRACED: dict[str, Callable[[Any, Any], Any]] = {
    "custom_vjp": with_vjp,
    "custom_jvp": with_jvp,
    "x * v": lambda x, v: x * v,
    "v * x": lambda x, v: v * x,
    "v @ x": lambda x, v: v @ x,
    "v - x": lambda x, v: v - x,
    "x ** v": lambda x, v: x**v,
    "x < v": lambda x, v: np.where(x < v, x, x),
    "v == x": lambda x, v: np.where(v == x, x, x),
    "np.add(x, v)": lambda x, v: np.add(x, v),
    "np.arctan2(v, x)": lambda x, v: np.arctan2(v, x),
    "np.ma.multiply": lambda x, v: np.ma.multiply(v, x),
    "np.stack": lambda x, v: np.stack([x, v]),
    "np.concatenate": lambda x, v: np.concatenate([v, x]),
    "a list": lambda x, v: x * [v, v],
    "np.where": lambda x, v: np.where(True, x, v),
    "np.dot": lambda x, v: np.dot(v, x),
    "np.clip": lambda x, v: np.clip(x, v, 5.0),
    "np.einsum": lambda x, v: np.einsum("i,i->", v, x),
    "x.dot": lambda x, v: x.dot(v),
    "initial": lambda x, v: np.sum(x, initial=v),
    "np.full_like": lambda x, v: np.full_like(x, v),
    "np.copyto": lambda x, v: np.copyto(x * 1.0, v),
    "out": lambda x, v: np.add(x, 1.0, out=v),
    "x[:] = v": lambda x, v: _written(x, slice(None), v),
    "x[0:4] = v": lambda x, v: _written(x, slice(0, 4), v),
    "x[[0, 1, 2, 3]] = v": lambda x, v: _written(x, [0, 1, 2, 3], v),
    "x.at": lambda x, v: x.at[:].add(v),
    "x[v]": lambda x, v: x[v],
}
ALL: dict[str, Callable[[Any], Any]] = {
    **ENTRIES,
    **{
        name: lambda v, f=f: ft.grad(lambda x: np.sum(f(x, v)))(X)
        for name, f in WITH_TRACED.items()
    },
    **{
        f"{name} under jit": lambda v, f=f: ft.jit(lambda x: f(x, v))(X)
        for name, f in WITH_TRACED.items()
    },
}


NUMPYS_OWN = {("structured", "v == x"), ("records", "v == x")}
"""Where NumPy catches what we raise, warns, and says that nothing is equal."""


@pytest.mark.parametrize("entry", ALL)
def test_subclasses_of_ndarray_raise_with_the_way_out(entry: str) -> None:
    for name, (value, said) in SUBCLASSES.items():
        if (name, entry.removesuffix(" under jit")) in NUMPYS_OWN:
            continue
        value = copy.deepcopy(value)
        with pytest.raises(FunctraceError) as caught:
            ALL[entry](value)
        if isinstance(caught.value, DtypeError):
            assert said in str(caught.value), (entry, name, str(caught.value))
            assert "fix:" in str(caught.value)


@pytest.mark.parametrize("entry", ALL)
def test_arrays_that_are_not_numeric_raise(entry: str) -> None:
    for name, value in OTHERS.items():
        if (name, entry.removesuffix(" under jit")) in NUMPYS_OWN:
            continue
        with pytest.raises(FunctraceError):
            ALL[entry](value)
            pytest.fail(f"{entry} took {name}")


def test_the_way_out_of_a_masked_array() -> None:
    masked = np.ma.masked_array(VALUES, [0, 1, 0, 0])
    with pytest.raises(DtypeError, match="its mask would be lost") as caught:
        ft.grad(np.sum)(masked)
    assert "np.ma.getmaskarray(x)" in str(caught.value) and "np.where" in str(caught.value)
    values, mask = np.ma.getdata(masked), np.ma.getmaskarray(masked)
    np.testing.assert_array_equal(
        ft.grad(lambda x: np.sum(np.where(mask, 0.0, x * x)))(values), [2.0, 0.0, 6.0, 8.0]
    )


@pytest.mark.parametrize("staged", [False, True], ids=["grad", "jit"])
def test_traced_values_stay_in_their_process(staged: bool) -> None:
    def run(f: Callable[[Any], Any]) -> Any:
        return ft.jit(f)(X) if staged else ft.grad(lambda x: np.sum(f(x)))(X)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(
            UnsupportedFunctionError, match="cannot be pickled, nor sent to another process"
        ):
            run(lambda x, protocol=protocol: (pickle.dumps({"x": [x]}, protocol), x)[1])

    def copies(x: Any) -> Any:
        other = copy.deepcopy({"x": x})["x"]
        other += copy.copy(x)
        return other - x

    np.testing.assert_array_equal(run(copies), np.ones(4))


@pytest.mark.parametrize("staged", [False, True], ids=["grad", "jit"])
def test_shuffling_rows_of_a_traced_array_raises(staged: bool) -> None:
    matrix = np.arange(12.0).reshape(4, 3)
    rng = np.random.default_rng(0)

    def run(f: Callable[[Any], Any]) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # NumPy's own, that this is no Sequence
            return ft.jit(f)(matrix) if staged else ft.grad(lambda x: np.sum(f(x) * matrix))(matrix)

    for shuffle in (rng.shuffle, np.random.shuffle):

        def shuffled(x: Any, shuffle: Any = shuffle) -> Any:
            y = x * 1.0
            shuffle(y)
            return y

        with pytest.raises(UnsupportedFunctionError, match="shuffling a traced array in place"):
            run(shuffled)
    for permute in (rng.permuted, rng.permutation):
        with pytest.raises(LostGradientError):
            run(permute)

    def rows(x: Any) -> Any:
        y = x * 1.0
        y[0] = y[1]
        y[2], y[3] = y[3].copy(), y[2].copy()
        row = y[2]
        y[-4] = row
        return y

    order = [3, 1, 3, 2]
    expected = (
        matrix[order] if staged else np.stack([matrix[np.equal(order, k)].sum(0) for k in range(4)])
    )
    np.testing.assert_array_equal(run(rows), expected)


def test_is_traced_detects_tracers() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(
            (
                isinstance(x, ft.Tracer),
                ft.is_traced(x),
                ft.is_traced({"a": [1.0, x]}),
                ft.is_traced([X, 1.0, None]),
            )
        )
        return np.sum(x)

    for call in (ft.grad(f), ft.jit(f), lambda x: ft.vmap(f)(x[None]), ft.trace(f)):
        call(X)
    ft.jit(f)(2.0)
    assert seen == [(True, True, True, False)] * 5
    ft.jit(lambda x: seen.append(ft.is_traced(x[x > 0])) or x)(X)
    assert seen[-1] is True
    for plain in (X, 1.0, "text", None, np.float64(1.0), np.memmap):
        assert not ft.is_traced(plain) and not isinstance(plain, ft.Tracer)

    def annotated(x: ft.Tracer | np.ndarray[Any, Any]) -> bool:
        return ft.is_traced(x)

    assert annotated(X) is False and "Tracer" in str(inspect.signature(annotated))
