"""Loops of unknown length, loops by number, maps and running combinations: what the generic laws do
not see.
"""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, ConcretizationError, DtypeError, ShapeError, TreeError
from functrace.tracing.binding import running

X = np.array([0.3, -0.7, 1.1])


def growing(x: Any) -> Any:
    """Ends by its value: after another number of steps for each number."""
    return ft.while_loop(lambda v: v < 10.0, lambda v: v * v + v, x)


def growing_in_python(x: Any) -> Any:
    while x < 10.0:
        x = x * x + x
    return x


STARTS = np.array([0.5, 1.2, 30.0, 3.0])
TRANSFORMS = {
    "value": lambda f: f,
    "jit": ft.jit,
    "grad": ft.grad,
    "jit of grad": lambda f: ft.jit(ft.grad(f)),
    "second": lambda f: ft.grad(ft.grad(f)),
    "third, forward": lambda f: lambda x: ft.jvp(ft.grad(ft.grad(f)), (x,), (1.0,))[1],
    "of checkpoint": lambda f: ft.grad(ft.checkpoint(f)),
    "linearized": lambda f: lambda x: ft.linearize(f, x)[1](2.0),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_each_example_stops_at_its_own_time(transform: Any) -> None:
    reference = TRANSFORMS["value"] if transform is ft.jit else transform
    if transform is TRANSFORMS["jit of grad"]:
        reference = ft.grad
    expected = [reference(growing_in_python)(x) for x in STARTS]
    np.testing.assert_allclose([transform(growing)(x) for x in STARTS], expected, rtol=1e-12)
    np.testing.assert_allclose(ft.vmap(transform(growing))(STARTS), expected, rtol=1e-12)
    pairs = ft.vmap(ft.vmap(transform(growing)))(np.stack([STARTS, STARTS[::-1]]))
    np.testing.assert_allclose(pairs, [expected, expected[::-1]], rtol=1e-12)


def test_no_nan_of_a_step_that_an_example_did_not_take() -> None:
    def f(x: Any) -> Any:
        step = lambda s: (s[0] + 1, np.sqrt(1.0 - s[1]) + 0.0 * s[1])
        return ft.while_loop(lambda s: (s[0] < 3) & (s[1] < 1.0), step, (np.int64(0), x))[1]

    points = np.array([5.0, 0.19, 1.0])  # of 5 the root is NaN, of 1 its slope is infinite
    expected = [ft.grad(f)(x) for x in points]
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(points), expected)
    np.testing.assert_allclose(ft.grad(lambda xs: np.sum(ft.vmap(f)(xs)))(points), expected)
    np.testing.assert_allclose(ft.jit(ft.jacrev(ft.vmap(f)))(points), np.diag(expected))


def test_ten_thousand_steps_in_memory_that_is_linear() -> None:
    def f(x: Any, n: Any) -> Any:
        return ft.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, np.sin(s[1])), (np.int64(0), x)
        )[1].sum()

    derivative = ft.jit(ft.grad(f))
    peaks: list[int] = []
    derivative(np.ones(100), 2)
    for n in (1000, 10_000):
        tracemalloc.start()
        found = derivative(np.ones(100), n)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 10.5 * peaks[0]
    assert peaks[1] < 10_000 * 100 * 8 * 2.5  # one array per step, and its cosine
    v, slope = np.ones(100), np.ones(100)
    for _ in range(10_000):
        v, slope = np.sin(v), slope * np.cos(v)
    np.testing.assert_allclose(found, slope, rtol=1e-9)


def test_no_steps_and_carries_of_every_kind() -> None:
    def f(x: Any, n: Any) -> Any:
        def step(s: Any) -> Any:
            z = s["z"] * np.exp(1j * x[0])
            return {
                "n": s["n"] + 1,
                "done": ~s["done"],
                "z": z,
                "x": s["x"] * x + z.real,
                "empty": [(), None],
            }

        start = {
            "n": np.int8(0),
            "done": np.bool_(False),
            "z": np.complex128(1.0),
            "x": x,
            "empty": [(), None],
        }
        last = ft.while_loop(lambda s: s["n"] < n, step, start)
        assert last["empty"] == [(), None]
        return np.sum(last["x"]) + last["z"].imag * last["n"], last["n"], last["done"]

    def by_hand(x: Any, n: int) -> Any:
        z, v = 1.0 + 0.0j, x
        for _ in range(n):
            z = z * np.exp(1j * x[0])
            v = v * x + z.real
        return np.sum(v) + z.imag * n

    for n in (0, 1, 4):
        value, count, done = ft.jit(f)(X, n)
        assert (count, done) == (n, n % 2) and count.dtype == np.int8 and done.dtype == bool
        np.testing.assert_allclose(value, by_hand(X, n))
        for transform in (ft.grad, lambda f: ft.jit(ft.grad(f)), ft.hessian):
            found = transform(lambda x, n: f(x, n)[0])(X, n)
            np.testing.assert_allclose(
                found, transform(lambda x, n=n: by_hand(x, n))(X), atol=1e-12
            )


def test_a_carry_that_becomes_batched_in_the_loop() -> None:
    def f(x: Any) -> Any:
        return ft.while_loop(
            lambda s: s[0] < 3, lambda s: (s[0] + 1, s[2] * 2.0, x + s[1]), (np.int64(0), 0.5, 0.0)
        )[1]

    expected = [ft.jvp(f, (x,), (1.0,)) for x in X]
    found = ft.vmap(lambda x: ft.jvp(f, (x,), (1.0,)))(X)
    np.testing.assert_allclose(np.transpose(found), expected)


def test_bounds_that_are_traced() -> None:
    def f(x: Any, a: Any, b: Any) -> Any:
        return ft.fori_loop(a, b, lambda i, v: np.sin(v) * (i + 1) + x, x)

    def by_hand(x: Any, a: int, b: int) -> Any:
        v = x
        for i in range(a, b):
            v = np.sin(v) * (i + 1) + x
        return v

    for a, b in ((0, 4), (2, 3), (3, 1), (-2, 2)):
        np.testing.assert_allclose(ft.jit(f)(0.3, a, b), by_hand(0.3, a, b))
        np.testing.assert_allclose(ft.jit(ft.grad(f))(0.3, a, b), ft.grad(by_hand)(0.3, a, b))
        np.testing.assert_allclose(
            ft.jit(ft.grad(f), static_argnums=(1, 2))(0.3, a, b), ft.grad(by_hand)(0.3, a, b)
        )
    many = ft.vmap(ft.grad(f), (None, 0, 0))(0.3, np.array([0, 3, -2]), np.array([4, 1, 2]))
    np.testing.assert_allclose(many, [ft.grad(by_hand)(0.3, *p) for p in ((0, 4), (3, 1), (-2, 2))])


def test_too_many_steps_raise() -> None:
    def f(x: Any) -> Any:
        return ft.while_loop(lambda v: v > 0.0, lambda v: v * 0.5, x, max_steps=7)

    for run in (f, ft.jit(f), ft.grad(f), ft.jit(ft.grad(f))):
        with pytest.raises(ArgumentError, match="max_steps=7"):
            run(1.0)
    assert ft.jit(f)(-1.0) == -1.0
    with pytest.raises(ArgumentError, match="max_steps=-1"):
        ft.while_loop(lambda v: v > 0.0, lambda v: v, 1.0, max_steps=-1)


MISTAKES: dict[str, tuple[Any, type, str]] = {
    "shape": (lambda x: ft.while_loop(lambda s: s["n"] < 2, lambda s: {"n": s["n"] + 1,
    "v": x[1:]}, {"n": 0, "v": x}),
              ShapeError, r"carry\['v'\] is f64\[3\] before and f64\[2\] after a step"),
    "dtype": (lambda x: ft.while_loop(lambda v: v[0] < 9, lambda v: (v * 2).astype(np.float32), x),
              DtypeError, r"carry is f64\[3\] before and f32\[3\] after a step"),
    "nest": (lambda x: ft.while_loop(lambda v: v[0] < 9, lambda v: (v, v), x), TreeError,
    "before and .* after a step"),
    "condition": (lambda x: ft.while_loop(lambda v: v < 9, lambda v: v * 2, x), ShapeError,
    r"bool\[3\], not a scalar"),
    "index": (lambda x: ft.switch(x[0], [np.sin, np.cos], x), DtypeError,
    "the index is f64.*, not an integer"),
    "bound": (lambda x: ft.fori_loop(0, x[0], lambda i, v: v, x), DtypeError,
    "upper is f64.*, not an integer"),
    "branches": (lambda x: ft.switch(0, [], x), ArgumentError, "there are no branches"),
    "sizes": (lambda x: ft.associative_scan(lambda a, b: a, (x, x[1:])), ShapeError,
    "sizes along axis 0 differ"),
    "combined": (lambda x: ft.associative_scan(lambda a, b: a > b, x), DtypeError,
    "elems is f64.* returns bool"),
    "batch": (lambda x: ft.map(np.sin, x, batch_size=0), ArgumentError, "batch_size=0"),
}  # fmt: skip


@pytest.mark.parametrize("f, kind, words", MISTAKES.values(), ids=MISTAKES)
def test_errors_name_the_line(f: Any, kind: type[Exception], words: str) -> None:
    for run in (f, ft.jit(f)):
        with pytest.raises(kind, match=words) as caught:
            run(X)
        assert "test_loops.py" in str(caught.value)
    assert running() is None


def test_branches_that_differ_are_named() -> None:
    with pytest.raises(
        ShapeError, match=r"result is f64\[\] in the branch 2 and f64\[3\] in the branch 0"
    ):
        ft.jit(lambda n: ft.switch(n, [np.sin, np.cos, np.sum], X))(1)


def test_an_exception_in_a_body_leaves_nothing_behind() -> None:
    def raising(_: Any) -> Any:
        raise KeyError("mine")

    for run in (
        lambda x: ft.while_loop(lambda v: v < 9.0, raising, x),
        lambda x: ft.while_loop(raising, lambda v: v, x),
        lambda x: ft.fori_loop(0, 3, lambda i, v: raising(v), x),
        lambda x: ft.switch(
            np.asarray(x > 0).astype(int) if not ft.is_traced(x) else (x > 0) * 1,
            [raising, raising],
            x,
        ),
        lambda x: ft.map(raising, np.stack([x, x])),
    ):
        for transform in (
            lambda f: f,
            ft.jit,
            ft.grad,
            lambda f: lambda x: ft.vmap(f)(np.stack([x, x])),
        ):
            with pytest.raises(KeyError, match="mine"):
                transform(run)(1.0)
            assert running() is None
            assert ft.grad(lambda x: x * x)(3.0) == 6.0


def test_plain_loops_run_in_python() -> None:
    seen: list[float] = []

    def step(v: Any) -> Any:
        seen.append(float(v))
        return v / 2.0 if v > 1.0 else -v

    assert ft.while_loop(lambda v: v > 0.0, step, 4.0) == -1.0
    assert seen == [4.0, 2.0, 1.0]
    with pytest.raises(ConcretizationError, match="while_loop of step"):
        ft.jit(lambda v: ft.while_loop(lambda v: v > 0.0, step, v))(4.0)


@pytest.mark.parametrize("start", [0, 0.0, np.float32(0.5), True])
def test_plain_and_staged_loops_have_the_same_dtypes(start: Any) -> None:
    steps = {
        "number": lambda v: v + 1,
        "float": lambda v: v + 0.5,
        "strong": lambda v: v + np.float64(0.5),
        "narrow": lambda v: v + np.float32(0.5),
    }
    for name, step in steps.items():
        f = lambda: ft.while_loop(lambda v: v < 3.0, step, start)
        try:
            found = f()
        except DtypeError:
            with pytest.raises(DtypeError):
                ft.jit(f)()
            continue
        staged = ft.jit(f)()
        assert (found, found.dtype) == (staged, staged.dtype), name


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [0, 1, 2, 5, 8, 11])
def test_running_combinations(size: int, reverse: bool) -> None:
    x = np.random.default_rng(size).normal(size=(2, size, 3))
    turned = np.flip(x, 1) if reverse else x
    expected = np.flip(np.cumsum(turned, 1), 1) if reverse else np.cumsum(turned, 1)
    both = lambda p, q: {"a": p["a"] + q["a"]}
    f = lambda x: ft.associative_scan(both, {"a": x}, reverse=reverse, axis=1)["a"]
    for run in (f, ft.jit(f), ft.vmap(lambda x: ft.associative_scan(np.add, x, reverse=reverse))):
        np.testing.assert_allclose(run(x), expected, atol=1e-12)
    found = ft.grad(lambda x: np.sum(f(x) * x))(x)
    other = np.cumsum(x, 1) if reverse else np.flip(np.cumsum(np.flip(x, 1), 1), 1)
    np.testing.assert_allclose(found, expected + other, atol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("unroll", [2, 3, 7, 9, True])
def test_unrolled_loops_are_the_same_loops(unroll: Any, reverse: bool) -> None:
    xs = np.random.default_rng(0).normal(size=(7, 3))

    def f(xs: Any, unroll: Any) -> Any:
        return ft.scan(
            lambda c, x: (np.sin(c) * x + x, c * x), X, xs, reverse=reverse, unroll=unroll
        )

    total = lambda xs, unroll: sum(np.sum(y**2) for y in f(xs, unroll))
    for transform in (lambda f: f, ft.grad, ft.hessian):
        once, turns = (
            ft.jit(lambda xs, u=u: transform(lambda xs: total(xs, u))(xs))(xs) for u in (1, unroll)
        )
        np.testing.assert_allclose(turns, once, rtol=1e-10)
    for a, b in zip(f(xs, 1), ft.jit(lambda xs: f(xs, unroll))(xs), strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_one_slice_is_no_view_of_it(reverse: bool) -> None:
    x = np.array([2.0])
    found = ft.associative_scan(np.multiply, x, reverse=reverse)
    found[0] = 5.0
    assert x[0] == 2.0
    assert (
        ft.grad(lambda x: 3.0 * ft.associative_scan(np.multiply, x, reverse=reverse)[0])(x) == 3.0
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.complex64])
def test_the_index_between_python_numbers_has_no_width_under_jit_either(dtype: Any) -> None:
    def f(x: Any, lower: int, upper: int) -> Any:
        return ft.fori_loop(lower, upper, lambda i, c: c + c * i, x)

    expected = f(dtype(1), 0, 3)
    assert expected.dtype == dtype
    for jitted in (ft.jit(f), ft.jit(f, static_argnums=(1, 2))):
        found = jitted(dtype(1), 0, 3)
        assert found.dtype == dtype
        assert found == expected


def test_a_number_to_start_with_is_taken_once_more_with_its_dtype() -> None:
    """The first step is done twice, and has to be: of a Python number it computes something else."""
    xs, seen = np.array([0.1, 0.2, 0.3], np.float32), []

    def body(c, x):
        seen.append(type(c))
        return c * np.float64(0.7) + x, (c * 0.1) * x

    first = body(0.3, xs[0])[1]
    seen.clear()
    found = ft.scan(body, 0.3, xs)
    assert seen == [float, *[np.float64] * 3]
    for a, b in zip(found, ft.jit(lambda xs: ft.scan(body, 0.3, xs))(xs), strict=True):
        np.testing.assert_array_equal(a, b)
    assert first.dtype == np.float32 and found[1].dtype == np.float64 and found[1][0] != first
    seen.clear()
    ft.scan(body, np.float64(0.3), xs)  # the way out
    assert seen == [np.float64] * 3
