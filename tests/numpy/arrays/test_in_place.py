"""In-place operations on traced values mean what they mean in NumPy: the same function runs on
plain copies.

Every function here changes its argument (or a view of it), so that the caller's array must be found
unchanged, and is checked under vjp (value), grad (against differences), trace and vmap.
`test_random_views_and_writes` draws them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.errors import (
    DtypeError,
    FunctraceError,
    LeakedTracerError,
    LostGradientError,
    ShapeError,
)
from tests.sampling import examples


def _slope(f: Callable[[Any], Any], x: Any, direction: Any) -> Any:
    h = 1e-6
    return (f(x + h * direction) - f(x - h * direction)) / (2 * h)


def _check(f: Callable[[Any], Any], x: np.ndarray[Any, Any], *, linear_tol: float = 1e-6) -> None:
    """``f`` changes its argument and returns an array; compare with NumPy in every way there is."""
    kept = x.copy()
    expected = np.asarray(f(x.copy()))
    assert not np.array_equal(expected, x) or expected.shape != x.shape, "the function does nothing"

    value, pullback = ft.vjp(f, x)
    np.testing.assert_allclose(value, expected, rtol=1e-12, atol=1e-12)
    assert np.asarray(value).dtype == expected.dtype

    direction = np.random.default_rng(3).normal(size=x.shape)
    slope = _slope(lambda y: np.asarray(f(y.copy())), x, direction)
    np.testing.assert_allclose(
        ft.jvp(f, (x,), (direction,))[1], slope, rtol=linear_tol, atol=linear_tol
    )
    weight = np.random.default_rng(4).normal(size=expected.shape)
    (x_bar,) = pullback(weight)
    np.testing.assert_allclose(
        np.sum(x_bar * direction), np.sum(weight * slope), rtol=linear_tol, atol=linear_tol
    )

    np.testing.assert_allclose(ft.evaluate(ft.trace(f)(x), x), expected, rtol=1e-12, atol=1e-12)
    batch = np.stack([x, 2 * x, x - 1])
    mapped = np.stack([f(y.copy()) for y in batch])
    np.testing.assert_allclose(ft.vmap(f)(batch), mapped, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(x, kept, err_msg="the caller's array changed")


def _f_operators(x: Any) -> Any:
    x += 1.0
    x *= x
    x -= 0.5
    x /= 3.0
    x **= 2
    return x


def _f_aliases(x: Any) -> Any:
    y = x
    y *= 2.0
    z = x[:]
    z += 1.0
    return x * y + z


def _f_views_of_views(x: Any) -> Any:
    x[1:][::2][0] = 3.0
    x.T[0] += 1.0
    x.reshape(-1)[2] = 5.0
    x[1, 1:] *= x[1, :-1]
    return x


def _f_rows(x: Any) -> Any:
    for k, row in enumerate(x):
        row *= k + 1.0
    return x


def _f_ravel(x: Any) -> Any:
    x.ravel()[1:5] *= 2.0
    x.swapaxes(0, 1)[1] -= 4.0
    return x


def _f_base_then_view(x: Any) -> Any:
    view = x[1]
    x *= 3.0
    deep = view[1:]
    view += 1.0
    deep[0] = x[0, 0] * 2.0
    return view * deep[0] + x[1]


def _f_reshape_of_strided_view_is_a_copy(x: Any) -> Any:
    copy = x.T.reshape(-1)
    copy[0] = 100.0
    view = x[:, ::2].reshape(-1, 1, 2)
    view[...] = -1.0
    other = x[::2].reshape(1, -1)
    other *= 2.0
    return x * copy[0]


def _f_overlap(x: Any) -> Any:
    x[1:] = x[:-1]
    x[:, ::-1] += x
    return x


def _f_shifted(x: Any) -> Any:
    y = x * 0.0
    y[1:] = x[:-1]
    y *= 2.0
    return y


def _f_zeros_like(x: Any) -> Any:
    y = np.zeros_like(x)
    y[1:] = x[:-1]
    y *= 2.0
    return y


def _f_mask(x: Any) -> Any:
    x[x > 0.2] *= 2.0
    x[x < -1.0] = 0.5
    return x


def _f_repeated(x: Any) -> Any:
    x[[0, 0, 1]] += x[[1, 0, 1]] * 3.0
    x[[1, 1], [0, 2]] = x[0, :2]
    return x


def _f_copy(x: Any) -> Any:
    y = x.copy()
    y += 1.0
    z = x[0].copy()
    z *= 5.0
    w = x[[0, 1]]
    w *= 7.0
    return x * 2.0 + y * z + w[0]


def _f_scalar_is_a_value(x: Any) -> Any:
    best = x[0, 0]
    total = best
    total += x[0, 1]
    total *= 2.0
    return best * total + x


def _f_zero_d_view(x: Any) -> Any:
    cell = x[0, 1, ...]
    cell *= 4.0
    x[0, 0, ...][...] = cell
    return x


def _f_other_basic_indices(x: Any) -> Any:
    row, everything, new = x[np.int64(1)], x[...], x[None]
    row *= 2.0
    everything += 1.0
    new[0, 0] = 4.0
    pair = x[np.int64(0), 1:]
    pair -= row[:2]
    return x


def _f_split(x: Any) -> Any:
    left, right = np.split(x, [1], axis=1)
    left *= 2.0
    right -= left
    return x


def _f_flat(x: Any) -> Any:
    x.T.flat[1] = 9.0
    x.flat[2:4] *= x.flat[0]
    return x


def _f_out(x: Any) -> Any:
    np.multiply(x, 2.0, out=x)
    np.add(x[0], x[1], out=x[1])
    return x


def _f_values(x: Any) -> Any:
    x[0] = [1.0, 2.0, 3.0]
    x[1, :2] = np.array([[7, 8]])
    x[:, 2] = 1
    x[1] += np.array([True, False, True])
    return x * x


def _f_swap(x: Any) -> Any:
    x[[0, 1]] = x[[1, 0]]
    x[:, 0], x[:, 1] = x[:, 1].copy(), x[:, 0].copy()
    return x


def _f_list_of_traced(x: Any) -> Any:
    x[0] = [x[1, 0], 2.0, x[1, 1] * x[1, 2]]
    return x


def _f_at(x: Any) -> Any:
    np.add.at(x, [0, 0, 1], 2.0)
    np.multiply.at(x, ([0, 0], [1, 1]), 3.0)
    return x


FUNCTIONS = {name[3:]: f for name, f in list(globals().items()) if name.startswith("_f_")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_in_place_functions_equal_numpy(name: str) -> None:
    _check(FUNCTIONS[name], np.random.default_rng(5).normal(size=(2, 3)) + 0.3)


def test_parts_of_complex_arrays_are_views() -> None:
    def f(x: Any) -> Any:
        z = x * (1.0 + 2.0j)
        z.real[1:] *= 3.0
        z.imag = z.imag + x
        z[0] = 1j
        return z

    x = np.array([0.5, -1.0, 2.0])
    value, tangent = ft.jvp(f, (x,), (np.ones(3),))
    np.testing.assert_allclose(value, f(x))
    np.testing.assert_allclose(tangent, _slope(f, x, np.ones(3)), rtol=1e-8)


def test_integer_arrays_truncate_assignments_and_refuse_float_arithmetic() -> None:
    def f(n: Any) -> Any:
        n[0] = 2.7
        n[1:] = np.array([-1.5, 3.9])
        return n

    n = np.arange(3)
    value, _ = ft.vjp(f, n)
    np.testing.assert_array_equal(value, f(n.copy()))
    assert value.dtype == n.dtype

    def g(n: Any) -> Any:
        n += 0.5
        return n

    with pytest.raises(TypeError):
        g(n.copy())
    with pytest.raises(DtypeError, match=r"same|cast"):
        ft.vjp(g, n)


def test_writes_of_wrong_shape_or_out_of_bounds_raise_as_in_numpy() -> None:
    def grows(x: Any) -> Any:
        x += np.ones((2, 3))
        return x

    def misfit(x: Any) -> Any:
        x[:2] = x
        return x

    def outside(x: Any) -> Any:
        x[3] = 1.0
        return x

    for f, error in ((grows, ValueError), (misfit, ValueError), (outside, IndexError)):
        with pytest.raises(error):
            f(np.ones(3))
        with pytest.raises(error) as caught:
            ft.vjp(f, np.ones(3))
        assert isinstance(caught.value, FunctraceError)
        assert "fix:" in str(caught.value)
    with pytest.raises(ShapeError):
        ft.vjp(misfit, np.ones(3))


def test_a_plain_array_cannot_take_a_traced_value() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        y[0] = x[0]
        return y

    with pytest.raises(LostGradientError, match="zeros_like"):
        ft.vjp(f, np.ones(3))


def test_tracers_written_into_outer_values_by_an_inner_transform_leak() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0

        def inner(z: Any) -> Any:
            y[0] = z * z
            return y[0] * y[1]

        slope = ft.grad(inner)(np.float64(3.0))
        return slope * y

    with pytest.raises(LeakedTracerError):
        ft.vjp(f, np.ones(3))


def test_an_inner_transform_reads_and_changes_copies_of_outer_values() -> None:
    def f(x: Any) -> Any:
        def inner(z: Any) -> Any:
            y = x * 1.0
            y[0] *= z
            y[1:] += y[0]
            return y[0] * y[1] * y[2]

        return ft.grad(inner)(x[0]) * x

    def expected(x: Any) -> Any:
        # d/dz (x0 z)(x1 + x0 z)(x2 + x0 z) at z = x0
        a = x[0] * x[0]
        return (x[0] * (x[1] + a) * (x[2] + a) + a * x[0] * (x[2] + a) + a * (x[1] + a) * x[0]) * x

    x = np.array([0.7, -1.1, 0.4])
    value, tangent = ft.jvp(f, (x,), (np.ones(3),))
    np.testing.assert_allclose(value, expected(x))
    np.testing.assert_allclose(tangent, _slope(expected, x, np.ones(3)), rtol=1e-6)


def test_temporary_views_do_not_pile_up() -> None:
    def f(x: Any) -> Any:
        views = x.ft_recording.views
        for _ in range(1000):
            x[1:]
        assert len(views.references) < 200
        return x

    ft.vjp(f, np.ones(3))


# -- random programs of views and writes -----------------------------------------------------------

_SHAPE = (3, 4)


def _part(draw: Any, size: int) -> Any:
    kind = draw(st.integers(0, 3))
    if kind == 0 and size:
        return draw(st.integers(-size, size - 1))
    if kind == 1:
        return slice(None, None, draw(st.sampled_from([-2, -1, 2])))
    return slice(draw(st.integers(0, size)), None)


@st.composite
def _steps(draw: Any) -> list[tuple[Any, ...]]:
    """Steps of a program; each makes a view of, or writes into, one of the arrays that there are."""
    steps: list[tuple[Any, ...]] = []
    shapes: list[tuple[int, ...]] = [_SHAPE]
    for _ in range(draw(st.integers(2, 9))):
        k = draw(st.integers(0, len(shapes) - 1))
        shape = shapes[k]
        kind = draw(
            st.sampled_from(
                [
                    "index",
                    "reshape",
                    "transpose",
                    "number",
                    "scale",
                    "from",
                    "fancy",
                    "mask",
                    "copy",
                ]
            )
        )
        probe = np.empty(shape)
        if kind == "index":
            index = tuple(_part(draw, n) for n in shape[: draw(st.integers(0, len(shape)))])
            made = probe[index]
            if np.ndim(made) == 0:
                continue
            steps.append((kind, k, index))
            shapes.append(made.shape)
        elif kind == "reshape":
            shape = draw(st.sampled_from([(probe.size,), (1, *shape), shape[::-1]]))
            steps.append((kind, k, shape))
            shapes.append(shape)
        elif kind == "transpose":
            steps.append((kind, k))
            shapes.append(shape[::-1])
        elif kind == "copy":
            steps.append((kind, k))
            shapes.append(shape)
        elif kind == "from":
            steps.append((kind, k, draw(st.integers(0, len(shapes) - 1))))
        elif kind == "fancy":
            if shape and shape[0]:
                steps.append(
                    (kind, k, draw(st.lists(st.integers(-shape[0], shape[0] - 1), max_size=4)))
                )
        else:
            steps.append((kind, k, draw(st.sampled_from([-1.5, 0.5, 2.0]))))
    return steps


def _run(steps: list[tuple[Any, ...]]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        x *= 0.5
        arrays = [x]
        for kind, k, *rest in steps:
            target = arrays[k]
            if kind == "index":
                arrays.append(target[rest[0]])
            elif kind == "reshape":
                arrays.append(target.reshape(rest[0]))
            elif kind == "transpose":
                arrays.append(target.T)
            elif kind == "copy":
                arrays.append(target.copy())
            elif kind == "number":
                target[...] = target * target + rest[0]
            elif kind == "scale":
                target *= rest[0]
            elif kind == "mask":
                target[target > 0.1] += rest[0]
            elif kind == "fancy":
                target[rest[0]] *= 1.5
            else:
                source = arrays[rest[0]]
                if source.shape == target.shape:
                    target += source
                elif source.size and target.size:
                    target -= source.reshape(-1)[0]
        total = np.zeros_like(x) if isinstance(x, np.ndarray) else x * 0.0
        for k, array in enumerate(arrays):
            flat = array.reshape(-1)
            if flat.shape[0]:
                total = total + (k + 1.0) * (flat[0] + 2.0 * flat[-1] * flat[flat.shape[0] // 2])
        return x + total

    return f


@given(_steps(), st.integers(0, 1000))
@examples(60)
def test_random_views_and_writes(steps: list[tuple[Any, ...]], seed: int) -> None:
    f = _run(steps)
    x = np.random.default_rng(seed).normal(size=_SHAPE)
    kept = x.copy()
    expected = f(x.copy())
    np.testing.assert_allclose(ft.vjp(f, x)[0], expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(ft.evaluate(ft.trace(f)(x), x), expected, rtol=1e-10, atol=1e-10)
    batch = np.stack([x, x[::-1]])
    np.testing.assert_allclose(
        ft.vmap(f)(batch), np.stack([f(y.copy()) for y in batch]), rtol=1e-10, atol=1e-10
    )
    direction = np.random.default_rng(1).normal(size=_SHAPE)
    _, tangent = ft.jvp(f, (x,), (direction,))
    slope = _slope(lambda y: f(y.copy()), x, direction)
    np.testing.assert_allclose(tangent, slope, rtol=1e-4, atol=1e-4 * (1.0 + np.max(np.abs(slope))))
    bar = ft.vjp(f, x)[1](direction)[0]
    weight = np.random.default_rng(2).normal(size=_SHAPE)
    np.testing.assert_allclose(
        np.sum(bar * weight),
        np.sum(direction * ft.jvp(f, (x,), (weight,))[1]),
        rtol=1e-8,
        atol=1e-8 * (1.0 + np.max(np.abs(bar))),
    )
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize(
    "view",
    ["v.T", "v.reshape(3)", "v[...]", "v[:]", "np.squeeze(v)", "v.ravel()", "v.real", "v.view()"],
)
def test_views_of_outer_values_in_a_mapped_function_are_views(view: str) -> None:
    def f(y: Any) -> Any:
        v = np.cumsum(y)
        w = eval(view, {"np": np, "v": v})
        w[0] = 7.0
        return v + w

    x, y = np.ones(2), np.array([-1.5, 0.0, -0.75])
    value, _ = ft.vjp(lambda x, y: ft.vmap(lambda _: f(y))(x)[0], x, y)
    np.testing.assert_array_equal(value, f(y.copy()))
