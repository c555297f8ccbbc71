"""Indexing with concrete and with abstract values: results, and error messages."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.errors import (
    ConcretizationError,
    DtypeError,
    FunctraceError,
    TracedIndexError,
    UnsupportedFunctionError,
)
from functrace.ir.tape import inferred
from functrace.ops.indexing import index_p
from tests.sampling import examples

X = np.random.default_rng(0).normal(size=(4, 3))
TABLE = np.arange(4.0) ** 2


def test_cotangents_of_repeated_indices_add_up() -> None:
    _, pullback = ft.vjp(lambda x: x[[0, 0, 2]], np.zeros(3))
    np.testing.assert_array_equal(pullback(np.array([1.0, 2.0, 4.0]))[0], [3.0, 0.0, 4.0])


def test_only_the_last_write_to_a_repeated_index_has_a_derivative() -> None:
    def f(x: Any, v: Any) -> Any:
        x[[0, 1, 0]] = v
        return x

    x, v = np.zeros(3), np.array([1.0, 2.0, 3.0])
    value, pullback = ft.vjp(f, x, v)
    np.testing.assert_array_equal(value, [3.0, 2.0, 0.0])
    x_bar, v_bar = pullback(np.array([10.0, 20.0, 40.0]))
    np.testing.assert_array_equal(x_bar, [0.0, 0.0, 40.0])
    np.testing.assert_array_equal(v_bar, [0.0, 20.0, 10.0])
    _, tangent = ft.jvp(lambda v: f(v * 0.0, v), (v,), (np.array([5.0, 6.0, 7.0]),))
    np.testing.assert_array_equal(tangent, [7.0, 6.0, 0.0])


def test_reading_basic_indices_gives_views_and_arrays_give_copies() -> None:
    def f(x: Any) -> Any:
        view, copy, scalar = x[1], x[[1]], x[1, 1]
        view += 100.0
        copy += 1.0
        scalar += 1.0
        return x

    np.testing.assert_array_equal(ft.vjp(f, X)[0], f(X.copy()))


# -- indices that are traced -----------------------------------------------------------------------


def test_a_traced_index_is_an_operand_and_needs_no_value() -> None:
    program = ft.trace(lambda x, i: x[i] * x[i, 0])(X, 1)
    for k in range(-4, 4):
        np.testing.assert_array_equal(ft.evaluate(program, X, k), X[k] * X[k, 0])
    with pytest.raises(IndexError):
        ft.evaluate(program, X, 4)


def test_a_traced_index_reads_another_place_for_each_example() -> None:
    places = np.array([3, 0, -1])
    np.testing.assert_array_equal(ft.vmap(lambda i: ft.numpy.take(TABLE, i))(places), TABLE[places])
    found = ft.vmap(lambda i: np.array(X, like=i)[i, ::-1])(places)
    np.testing.assert_array_equal(found, X[places, ::-1])
    gradient = ft.vmap(ft.grad(lambda x, i: x[i] ** 2), in_axes=(None, 0))(
        TABLE, places
    )  # grad traces x
    np.testing.assert_array_equal(gradient, np.eye(4)[places] * 2 * TABLE)


def test_a_plain_array_is_indexed_by_a_concrete_traced_integer() -> None:
    for index in (3, np.array([3]), np.array([1, 0, 3])):
        value, _ = ft.vjp(lambda x, i: x * TABLE[i], np.float64(2.0), index)
        np.testing.assert_array_equal(value, 2.0 * TABLE[index])
        assert np.shape(value) == np.shape(index)


@pytest.mark.parametrize(
    "read", [lambda i: TABLE[i], lambda i: np.take(TABLE, i), lambda i: TABLE[i[None]]]
)
def test_a_plain_array_indexed_by_an_abstract_integer_suggests_take(
    read: Callable[[Any], Any],
) -> None:
    with pytest.raises(ConcretizationError, match=r"functrace\.numpy\.take"):
        ft.trace(read)(np.array(1))


def test_float_and_wrong_indices_raise_index_errors() -> None:
    for index in (
        1.0,
        np.array([0.5]),
        (0, 0, 0),
        4,
        -5,
        [0, 4],
        (slice(None), [3]),
        np.ones(3, bool),
    ):
        with pytest.raises(IndexError):
            X[index]
        with pytest.raises(TracedIndexError, match="fix:"):
            ft.vjp(lambda x, k=index: x[k], X)
        with pytest.raises(TracedIndexError, match="fix:"):
            ft.vjp(lambda x, k=index: x.__setitem__(k, 0.0), X)


# -- masks and slices that depend on values --------------------------------------------------------


def test_value_dependent_shapes_work_on_concrete_values() -> None:
    def f(x: Any) -> Any:
        kept = x[x > 0.0]
        first = x[: int(np.argmax(kept > 0.0)) + 2] if False else x[:2]
        return kept.shape[0] * kept[0] * first[1, 0]

    value, _ = ft.vjp(f, X)
    np.testing.assert_allclose(value, f(X))
    batch = np.stack([X, -X])
    np.testing.assert_allclose(ft.vmap(f)(batch), [f(x) for x in batch])


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x[x > 0],
        lambda x: x[x > 0].sum(),
        lambda x: len(x[x > 0]),
        lambda x: x[x > 0] + np.ones(5),
        lambda x: np.nonzero(x > 0),
        lambda x: np.argwhere(x),
    ],
)
def test_shapes_that_depend_on_values_raise_while_staging(f: Callable[[Any], Any]) -> None:
    with pytest.raises(ConcretizationError, match=r"np\.where"):
        ft.trace(f)(X)


def test_a_slice_with_an_abstract_bound_suggests_arange() -> None:
    with pytest.raises(ConcretizationError, match=r"np\.arange"):
        ft.trace(lambda x, n: x[n : n + 2])(X, 1)
    np.testing.assert_array_equal(
        ft.trace(lambda x, n: x[n + np.arange(2)])(X, 1).outputs[0].aval.shape, (2, 3)
    )


def test_masked_writes_record_a_select_for_any_mask() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y[x > 0] = 0.0
        y[x < -0.5] *= 3.0
        y[y < 0] = y[y < 0] ** 2
        return y

    program = ft.trace(f)(X)
    np.testing.assert_allclose(ft.evaluate(program, X), f(X))
    np.testing.assert_allclose(ft.evaluate(program, -X), f(-X))
    assert "gather" not in {equation.primitive.name for equation in program.equations}


def test_elements_that_a_mask_does_not_select_have_no_nan_derivative() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        mask = x > 0
        y[mask] = np.log(np.sqrt(y[mask]))
        return y

    x = np.array([-1.0, 0.0, 4.0])
    _, tangent = ft.jvp(ft.vmap(f), (x[None],), (np.ones((1, 3)),))
    np.testing.assert_allclose(tangent, [[1.0, 1.0, 0.125]])


# -- at --------------------------------------------------------------------------------------------


def test_at_does_not_change_the_array_and_refuses_unsupported_updates() -> None:
    def f(x: Any) -> Any:
        y = x.at[0].set(5.0).at[[1, 1]].multiply(2.0)
        return y + x

    expected = X.copy()
    expected[0] = 5.0
    expected[1] *= 4.0
    np.testing.assert_allclose(ft.vjp(f, X)[0], expected + X)
    with pytest.raises(UnsupportedFunctionError, match="repeat"):
        ft.trace(lambda x, i: x.at[i].multiply(2.0))(np.ones(3), np.zeros(100, int))


# -- random indices --------------------------------------------------------------------------------

_SHAPE = (3, 4, 2)


@st.composite
def _indices(draw: Any) -> tuple[Any, ...]:
    ndim = draw(st.integers(1, 2))
    sizes = draw(st.lists(st.integers(1, 3), min_size=ndim, max_size=ndim))
    entries: list[Any] = []
    for n in _SHAPE[: draw(st.integers(1, 3))]:
        kind = draw(st.sampled_from(["int", "slice", "array", "array", "none"]))
        if kind == "none":
            entries.append(None)
            kind = "slice"
        if kind == "int":
            entries.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            entries.append(
                slice(draw(st.integers(0, n - 1)), None, draw(st.sampled_from([1, 2, None])))
            )
        else:
            shape = [draw(st.sampled_from([1, size])) for size in sizes]
            values = draw(
                st.lists(
                    st.integers(-n, n - 1),
                    min_size=int(np.prod(shape)),
                    max_size=int(np.prod(shape)),
                )
            )
            entries.append(np.array(values, int).reshape(shape))
    if draw(st.booleans()):  # an empty one may stand anywhere, but then separates index arrays
        complete = sum(k is not None for k in entries) == len(_SHAPE)
        entries.insert(draw(st.integers(0, len(entries))) if complete else len(entries), Ellipsis)
    return tuple(entries)


@given(_indices(), st.integers(0, 7))
@examples(80)
def test_random_indices_equal_numpy_in_every_batching(index: tuple[Any, ...], which: int) -> None:
    arrays = [k for k in index if isinstance(k, np.ndarray)]

    def full(given: Any) -> tuple[Any, ...]:
        left = iter(given)
        return tuple(next(left) if isinstance(k, np.ndarray) else k for k in index)

    def read(x: Any, *given: Any) -> Any:
        return x[full(given)]

    def write(x: Any, *given: Any) -> Any:
        y = x * 2.0
        y[full(given)] = x[full(given)] ** 2
        return y

    x = np.random.default_rng(1).normal(size=_SHAPE)
    for f in (read, write):
        np.testing.assert_array_equal(
            ft.evaluate(ft.trace(f)(x, *arrays), x, *arrays), f(x, *arrays)
        )
        mapped = [bool(which >> k & 1) for k in range(1 + len(arrays))]
        operands = [x, *arrays]
        batch = [
            np.stack([a, np.flip(a), a]) if m else a for a, m in zip(operands, mapped, strict=True)
        ]
        if any(mapped):
            axes = tuple(0 if m else None for m in mapped)
            single = lambda k: f(*(b[k] if m else b for b, m in zip(batch, mapped, strict=True)))
            if f is write and not mapped[0]:
                continue  # the target would be a plain array
            if f is read and not mapped[0]:
                which_array = mapped[1:].index(True)
                found = ft.vmap(
                    lambda *g: np.array(x, like=g[1 + which_array])[full(g[1:])], in_axes=axes
                )(*batch)
            else:
                found = ft.vmap(f, in_axes=axes)(*batch)
            np.testing.assert_array_equal(found, np.stack([single(k) for k in range(3)]))
        weight = np.random.default_rng(2).normal(size=np.shape(f(x, *arrays)))
        direction = np.random.default_rng(3).normal(size=_SHAPE)
        _, tangent = ft.jvp(lambda y: f(y, *arrays), (x,), (direction,))
        (x_bar,) = ft.vjp(lambda y: f(y, *arrays), x)[1](weight)
        np.testing.assert_allclose(
            np.sum(x_bar * direction), np.sum(weight * tangent), rtol=1e-9, atol=1e-9
        )
        h = 1e-6
        slope = (f(x + h * direction, *arrays) - f(x - h * direction, *arrays)) / (2 * h)
        np.testing.assert_allclose(tangent, slope, rtol=1e-6, atol=1e-6)


def test_the_hot_path_infers_each_index_once() -> None:
    def f(x: Any) -> Any:
        for _ in range(100):
            x[1:]
        return x

    ft.vjp(f, X)
    keys = [
        key
        for key in inferred
        if key[0] is index_p and key[2] == (((1, None, None),),) and key[1][0].shape == X.shape
    ]
    assert len(keys) == 1


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "value", [-1, 1.5, 0.25, 300, True, 1j, np.float32(1.5), np.uint8(200), np.array([2.0])]
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool, np.float32, np.float64, complex])
@pytest.mark.parametrize("ufunc", [np.add, np.subtract, np.multiply, np.divide])
def test_ufunc_at_is_as_numpy_or_refused(ufunc: np.ufunc, dtype: Any, value: Any) -> None:
    for index in ([0, 0], slice(0, 2), 0):
        if index == 0 and np.ndim(value):
            continue

        def f(x: Any, index: Any = index) -> Any:
            ufunc.at(x, index, value)
            return x

        x = np.array([1, 0, 1]).astype(dtype)
        try:
            result = ft.jit(f)(x)
        except FunctraceError:
            continue
        except TypeError as error:
            with pytest.raises(TypeError, match=str(error)[:20]):
                f(x.copy())
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = f(x.copy())
        np.testing.assert_array_equal(result, expected)
        assert result.dtype == expected.dtype


def test_methods_that_differ_from_the_function_of_their_name() -> None:
    x = np.arange(4.0).reshape(2, 2)
    np.testing.assert_array_equal(
        ft.jit(lambda x: x.compress([True, False], axis=1))(x), x.compress([True, False], axis=1)
    )
    with pytest.raises(
        UnsupportedFunctionError, match="resize"
    ):  # np.resize repeats, ndarray.resize fills up with zeros
        ft.jit(lambda x: x.resize(3))(x)


def test_in_place_operators_of_a_selection_are_numpys() -> None:
    def shared(x: Any) -> Any:
        mask = x > 1
        part = x[mask]
        same = part
        part *= 3
        part |= 1
        x[mask] = same + (same < 8)
        return x

    x = np.array([0, 1, 2, 3])
    np.testing.assert_array_equal(ft.jit(shared)(x), shared(x.copy()))

    def cut(x: Any) -> Any:
        x[x > 1] *= 0.5
        return x

    with pytest.raises(TypeError):
        cut(x.copy())
    with pytest.raises(DtypeError, match="in-place multiply"):
        ft.jit(cut)(x)
    with pytest.raises(ConcretizationError):
        ft.jit(lambda x: x[x > 1].__setitem__(0, 1))(x)


@pytest.mark.parametrize("number", [300, -1, 0.5, 1e-300, 2**40, 1j, True, -0.0])
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool, np.float32, np.float64, complex])
def test_python_numbers_among_choices_are_weak_and_cut_as_numpy_cuts_them(
    dtype: Any, number: Any
) -> None:
    x = np.array([1, 0, 1]).astype(dtype)
    for f in (
        lambda x: np.choose((x.real > 0).astype(int), [number, x]),
        lambda x: np.select([x.real > 0], [x], number),
        lambda x: np.select([x.real > 0], [number], x),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                expected = f(x)
            except TypeError:
                with pytest.raises(DtypeError):
                    ft.jit(f)(x)
                continue
            result = ft.jit(f)(x)
        np.testing.assert_array_equal(result, expected)
        assert result.dtype == expected.dtype


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, bool, np.float32])
def test_numbers_of_outer_and_clip_decide_the_dtype_as_in_numpy(dtype: Any) -> None:
    x = np.array([0, 1, 5]).astype(dtype)
    for f in (
        lambda x: np.multiply.outer(x, 1),
        lambda x: np.add.outer(0.5, x),
        lambda x: np.clip(x, 2**31, 1.5),
        lambda x: np.clip(x, 0.5, 3),
    ):
        expected, result = f(x), ft.jit(f)(x)
        np.testing.assert_array_equal(result, expected)
        assert result.dtype == expected.dtype
