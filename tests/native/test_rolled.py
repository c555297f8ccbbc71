"""``np.roll`` in machine code: arrays are read at other positions; equal loop nests are one function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.executor.plan.planner import plan
from functrace.executor.policy import Policy
from functrace.executor.runner import Runner
from functrace.native.backend import NATIVE
from functrace.native.llvm_text import Printer, function_text, shared_memory, workspace
from functrace.native.loop_ir import Function, Let, buffers_of, walk
from functrace.native.lowering import lower
from functrace.native.repeated import repeats_in
from functrace.native.rows import ROWS
from tests.native.test_programs import native


def lowered(f: Callable[..., Any], *arguments: Any) -> Function:
    program = ft.trace(f)(*arguments)
    return lower(plan(Runner(program, NATIVE).flat, Policy()), ROWS, "f")


def check(f: Callable[..., Any], *arguments: Any) -> Any:
    """Compare machine code with NumPy, to the bit except for complex numbers; returns the compiled
    function.
    """
    made = native(ft.trace(f)(*arguments))
    expected = f(*arguments)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for found, one in zip(made.call(*arguments), expected, strict=True):
        assert found.dtype == one.dtype
        assert found.shape == one.shape
        if one.dtype.kind == "c":  # (NumPy's products are fused)
            np.testing.assert_allclose(found, one, rtol=1e-4 if one.dtype == "c8" else 1e-12)
        else:
            assert found.tobytes() == one.tobytes()
    assert made.fallbacks == 0
    return made


def random(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = 4.0 * rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        x = x + 1j * rng.normal(size=shape)
    return (x > 0) if dtype == "b1" else x.astype(dtype)


SHAPES = ((37,), (64,), (1000,), (6, 7), (1, 40), (40, 1), (5, 15), (5, 16), (5, 17), (9, 33),
          (130, 3), (3, 130), (3, 4, 5), (4, 3, 49), (2, 1, 30))  # fmt: skip
SHIFTS = (0, 1, -1, 2, 5, -16, 17, 1000)


@pytest.mark.sampled(40)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i1", "u8", "b1", "c16", "c8"])
@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_values(shape: tuple[int, ...], shift: int, dtype: str) -> None:
    x, y = random(shape, dtype), random(shape[-1:], dtype, 1)

    def f(x: Any, y: Any) -> Any:
        turned = [np.roll(x, shift, axis) for axis in range(x.ndim)]
        both = turned[0] * y + np.roll(turned[-1], 1 - shift, -1)
        return (
            *turned, both, np.roll(x, shift), np.roll(both, shift, 0), np.roll(y, shift) + x,
            np.roll(x, (shift, 3), (0, -1)) + np.roll(x + x, shift, -1),
        )  # fmt: skip

    check(f, x, y)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16"])
@pytest.mark.parametrize("shape", [(37,), (9, 33), (33, 9), (4, 3, 49), (16, 64), (130, 3)])
@pytest.mark.parametrize("shift", [1, -3, 8])
def test_reductions_and_roots_of_one_shape(shift: int, shape: tuple[int, ...], dtype: str) -> None:
    def f(x: Any) -> Any:
        far = np.roll(x, shift, -1) - x
        square = far * far
        rows = np.sum(square, axis=-1, keepdims=True)
        near = x * rows + np.roll(square, -shift, 0)
        return np.sum(square), np.sum(far, axis=0), near, np.sum(near), np.sum(x * x), rows

    check(f, random(shape, dtype))


@pytest.mark.parametrize("count", [3, 8, 9, 40])
def test_many_shifts(count: int) -> None:
    def f(x: Any) -> Any:
        total = x
        for k in range(count):
            total = total + float(k + 1) * np.roll(x, k + 1, 1)
        return total

    check(f, random((6, 50), "f8"))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::2], lambda x: x[3:-2, 5:], lambda x: x[4],
        lambda x: np.broadcast_to(x[0], (7, 64)), lambda x: x.reshape(16, 128),
        lambda x: np.diagonal(x), lambda x: x[[3, 1, 2, 2]], lambda x: x[:, 0],
    ],
)  # fmt: skip
def test_rolls_of_views(view: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        y = view(x)
        return np.roll(y, 3, 0) + np.roll(y, -1, -1), view(np.roll(x, 5, 1)), view(np.roll(x, 5, 0))

    x = random((32, 64), "f8")
    made = native(ft.trace(f)(x))
    for found, expected in zip(made.call(x), f(x), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("seed", range(120))
def test_random_programs_and_gradients(seed: int) -> None:
    """Elementwise operations, rolls, sums and views in any order, and their gradients."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 40, size=rng.integers(1, 4)))
    plans = [(int(rng.integers(9)), *rng.integers(0, 1000, size=3).tolist()) for _ in range(14)]

    def f(x: Any) -> Any:
        values = [x, 0.5 * x]
        for kind, a, b, c in plans:
            u, v = values[a % len(values)], values[b % len(values)]
            axis = c % x.ndim
            made = {
                0: lambda: u + v, 1: lambda: u * v - u, 2: lambda: np.minimum(u, v),
                3: lambda: np.where(u > v, u, 0.25 * v),
                4: lambda: u - np.sum(v, axis=axis, keepdims=True) / 64.0,
                5: lambda: np.roll(u, c % 7 - 3, axis) + v,
                6: lambda: np.roll(np.roll(u, c, axis), b % 5 - 2, -1),
                7: lambda: np.roll(u + v, c) * 0.5, 8: lambda: np.roll(u[::-1], a, axis) - u,
            }[kind]()  # fmt: skip
            values.append(made / (1.0 + made * made))
        return values[-1], np.sum(values[-1] * values[-2])

    def gradient(x: Any) -> Any:
        return ft.grad(lambda x: f(x)[1])(x)

    x = rng.normal(size=shape).astype("f4" if seed % 3 == 0 else "f8")
    for one in (f, gradient):
        exact = ft.jit(one, backend="native", accuracy="numpy")
        expected = ft.tree.leaves(ft.jit(one, backend="numpy")(x))
        for found, wanted in zip(ft.tree.leaves(exact(x)), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
        close = 1e-4 if x.dtype == np.float32 else 1e-11
        for found, wanted in zip(
            ft.tree.leaves(ft.jit(one, backend="native")(x)), expected, strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=close, atol=close)


@pytest.mark.parametrize("shape", [(50,), (7, 45), (20, 130)])
def test_carries_are_overwritten_once(shape: tuple[int, ...]) -> None:
    def f(x: Any, y: Any) -> Any:
        def step(carry: Any, row: Any) -> Any:
            total, moving = carry
            total = total + np.roll(row, 1, -1)
            return (total, moving + 0.5 * np.roll(moving, 3, 0)), np.roll(moving, -1, -1) * row

        return ft.scan(step, (x, x), y)

    x, y = random(shape, "f8"), random((5, *shape), "f8", 1)
    made = ft.jit(f, backend="native", accuracy="numpy")
    expected = ft.tree.leaves(f(x, y))
    for found, wanted in zip(ft.tree.leaves(made(x, y)), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("shape", [(3, 45), (16, 64)])
def test_flags_where_positions_wrap_are_numpys(shape: tuple[int, ...]) -> None:
    f = ft.jit(lambda x: 1.0 / (np.roll(x, 1, 1) + np.roll(x, 1, 0)), backend="native")
    x = np.ones(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x)
        for place in np.ndindex(*shape):
            x[:] = 1.0
            below, left = x.copy(), np.roll(np.roll(x, 1, 1), -1, 0)
            assert np.array_equal(below, left)
            x[place] = np.inf  # the sum is inf, its reciprocal zero
            np.testing.assert_array_equal(f(x), 1.0 / (np.roll(x, 1, 1) + np.roll(x, 1, 0)))
    x = np.ones(shape)
    x[0, -1], x[-1, 0] = 2.0, -2.0
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert np.isinf(f(x)).sum() == 1


# -- equal loop nests ------------------------------------------------------------------------------


def _stencil(steps: int) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(steps):
            x = x + 0.1 * (np.roll(x, 1, 0) + np.roll(x, -1, 1) - 2.0 * x) - 0.05 * x * np.roll(x, 1, 1)  # fmt: skip
        return x

    return f


def test_equal_steps_are_one_function() -> None:
    x = random((40, 70), "f8")
    texts = []
    for steps in (10, 30):
        function = lowered(_stencil(steps), x)
        printer = Printer(keeps_flags=True)
        texts.append(function_text(printer, function, "f"))
        assert len(printer.functions) == 1
        assert len(repeats_in(function.body).calls) >= steps - 1
    assert texts[1].count("\n") - texts[0].count("\n") < 120
    check(_stencil(30), 0.01 * x)


def test_gradients_of_many_steps_are_compiled_as_a_whole() -> None:
    x = 0.01 * random((30, 70), "f8")
    gradient = ft.grad(lambda x: np.sum(_stencil(300)(x)))
    f = ft.jit(gradient, backend="native", accuracy="numpy")
    assert ft.debug.explain(gradient)(x).is_whole
    np.testing.assert_array_equal(f(x), ft.jit(gradient, backend="numpy")(x))


def test_temporaries_share_memory_after_their_last_use() -> None:
    function = lowered(_stencil(20), random((40, 70), "f8"))
    shared = shared_memory(function)
    assert len(shared) >= 19
    assert len(set(shared.values())) == 2
    assert workspace(function)[1] == 2 * 40 * 70 * 8


@pytest.mark.parametrize("seed", range(20))
def test_shared_memory_is_never_in_use_twice(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def f(x: Any) -> Any:
        values = [x]
        for _ in range(15):
            u, v = (values[int(rng.integers(max(0, len(values) - 6), len(values)))] for _ in "uv")
            values.append(
                np.roll(u, 1, 0) + v @ x[:70] if rng.random() < 0.4 else np.roll(u, 1) - v
            )
        return values[-1], values[-4]

    function = lowered(f, 0.1 * random((70, 70), "f8"))
    shared = shared_memory(function)
    uses: dict[str, list[int]] = {}
    for place, statement in enumerate(function.body):
        for inner in walk((statement,)):
            for buffer in buffers_of(inner):
                uses.setdefault(buffer.name, []).append(place)
    for a in shared:
        for b in shared:
            if a != b and shared[a] == shared[b]:
                assert max(uses[a]) < min(uses[b]) or max(uses[b]) < min(uses[a])


def test_loops_that_differ_are_different_functions() -> None:
    def f(x: Any, k: Any) -> Any:
        for n in range(6):
            factor = 0.5 if n % 2 else 0.25
            x = k * factor * np.roll(x, 1 + n // 3, 0) + x
        return x

    x, k = random((90, 40), "f8"), np.float64(0.3)
    function = lowered(f, x, k)
    assert len(repeats_in(function.body).firsts) <= 4
    check(f, x, k)


def test_scalars_from_outside_are_given() -> None:
    def f(x: Any, k: Any) -> Any:
        for n in range(5):
            x = np.roll(x, 1, 0) * np.sin(k) + k * k * (n + 1.0)
        return x

    x, k = random((90, 50), "f8"), np.float64(0.3)
    made = native(ft.trace(f)(x, k))
    np.testing.assert_allclose(made.call(x, k)[0], f(x, k), rtol=1e-13)
    function = lowered(f, x, k)
    assert any(nest.scalars for nest in repeats_in(function.body).calls.values())


@pytest.mark.parametrize("position", [0, 40, 4999])
def test_a_function_of_a_loop_that_fails(position: int) -> None:
    """An index out of range is NumPy's error, of whichever of the equal loops it is."""

    def f(x: Any, *indices: Any) -> Any:
        for i in indices:
            x = x[i] + np.roll(x, 1)
        return x

    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    indices = [rng.integers(-5000, 5000, 5000) for _ in range(4)]
    function = lowered(f, x, *indices)
    assert len(repeats_in(function.body).calls) >= 6
    run = ft.jit(f, backend="native")
    np.testing.assert_array_equal(run(x, *indices), f(x, *indices))
    indices[2][position] = 5000
    with pytest.raises(IndexError, match="5000"):
        run(x, *indices)


def test_equal_loops_in_a_loop() -> None:
    def f(x: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            for _ in range(4):
                x = x + 0.1 * (np.roll(x, 1, 0) - np.roll(x, 1, 1))
            return x, np.sum(x)

        return ft.scan(step, x, np.zeros(3))

    x = random((60, 70), "f8")
    calls = repeats_in(lowered(f, x).body).calls
    assert len(calls) >= 4
    exact = ft.jit(f, backend="native", accuracy="numpy")
    for found, wanted in zip(ft.tree.leaves(exact(x)), ft.tree.leaves(f(x)), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_kernels_in_functions_of_loops() -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = np.sin(np.roll(x, 1, 0)) + np.tanh(np.roll(x, -1, -1))
        return x

    x = random((40, 50), "f8")
    function = lowered(f, x)
    assert sum(type(s) is Let and s.op == "sin" for s in walk(function.body)) >= 20
    made = native(ft.trace(f)(x))
    np.testing.assert_allclose(made.call(x)[0], f(x), rtol=1e-12, atol=1e-12)
    assert made.fallbacks == 0


@pytest.mark.parametrize("kernels", [0, 2])
def test_large_rolled_arrays_are_read_in_place(kernels: int) -> None:
    """A stencil is compiled as a whole; with as many elementary functions, blocks run on all cores."""

    def f(x: Any) -> Any:
        for _ in range(2):
            x = x + 0.1 * np.roll(x, 1, 0)
        for _ in range(kernels):
            x = np.sin(x) * 0.5
        return x * x

    x = random((400, 1000), "f4")
    explained = ft.debug.explain(f)(x)
    assert explained.tiles == (1 if kernels else 0)
    np.testing.assert_allclose(ft.jit(f, backend="native")(x), f(x), rtol=1e-5, atol=1e-6)
