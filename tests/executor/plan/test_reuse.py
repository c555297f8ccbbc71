"""Results written in place, and outputs that need no copy: the same bits and layouts as the
reference evaluator's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.executor.codegen.numpy_source import NUMPY, generate
from functrace.executor.plan.planner import planned
from functrace.ops.elementwise import TABLE
from functrace.tracing.evaluate import evaluate_program
from tests import oracles

pytestmark = pytest.mark.bits

RNG = np.random.default_rng(0)
BASE = RNG.uniform(0.5, 2.0, size=(6, 8, 10))

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "swapped": lambda x: np.ascontiguousarray(x.swapaxes(0, x.ndim // 2)).swapaxes(0, x.ndim // 2),
    "broadcast": lambda x: np.broadcast_to(x[:1], x.shape),
}
SHAPES = [(60,), (6, 10), (6, 8, 10)]


def shaped(shape: tuple[int, ...]) -> Any:
    return BASE.reshape(-1)[: np.prod(shape)].reshape(shape)


def in_place_count(program: ft.Program) -> int:
    """Count the statements that write into one of their operands."""
    lines = [line.split("#")[0].strip() for line in generate(planned(program))[0].splitlines()]
    pairs = [line.split(" = ") for line in lines if " = " in line]
    return sum(", " in right and right.endswith(f" {left})") for left, right in pairs)


def assert_same(f: Callable[..., Any], *args: Any) -> ft.Program:
    """The compiled form returns the evaluator's results: bits and layout; arguments keep their
    values.
    """
    program = ft.trace(f)(*args)
    before = [np.array(x) for x in args]
    found = NUMPY.compile(planned(program))(*args)
    expected = evaluate_program(program, args)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes()
        if a.size > 1 and a.shape == np.shape(args[0]):
            dense = np.copy(b, order="K")
            assert a.strides == dense.strides
    for k, a in enumerate(found):
        assert isinstance(a, np.generic) or a.flags.writeable
        assert not any(np.shares_memory(a, other) for other in (*args, *found[k + 1 :]))
    for x, y in zip(args, before, strict=True):
        np.testing.assert_array_equal(x, y)
    return program


def chains(x: Any, y: Any, row: Any) -> Any:
    a = np.sin(x) * 2.0
    b = np.exp(-(y * 0.5)) + a
    c = np.maximum(np.tanh(a + b), row)
    d = (row * c - x) / (1.0 + b * b)
    return d, np.sum(d * d), np.sum(np.sqrt(np.abs(d)) + c, axis=0), np.add(d, y) * c


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("first", "second"), list(itertools.product(LAYOUTS, LAYOUTS)))
def test_in_place_results_are_the_evaluators_bit_for_bit(first: str, second: str) -> None:
    for shape in SHAPES:
        x, y = LAYOUTS[first](shaped(shape)), LAYOUTS[second](shaped(shape) * 0.7)
        for row in (np.float64(0.3), shaped(shape)[-1], np.asfortranarray(shaped(shape))[:1]):
            assert_same(chains, x, y, np.asarray(row))


def test_operations_in_place_happen() -> None:
    program = assert_same(lambda x: np.sum(np.tanh(np.sin(x) * 2.0 + 1.0) ** 2), shaped((60,)))
    assert in_place_count(program) == 4
    program = assert_same(lambda x: np.exp(-np.sin(x)), np.asfortranarray(shaped((6, 10))))
    assert in_place_count(program) == 2


UFUNCS = [
    p.eval
    for p in TABLE
    if isinstance(p.eval, np.ufunc) and p.eval.signature is None and p.eval.nout == 1
]
DTYPES = [np.dtype(d) for d in (np.float32, np.float64, np.int64, np.complex128, bool)]


def keeps_dtype(ufunc: np.ufunc, dtype: np.dtype[Any]) -> bool:
    try:
        return set(ufunc.resolve_dtypes((*[dtype] * ufunc.nin, None))) == {dtype}
    except TypeError:
        return False


CASES = [(ufunc, dtype) for ufunc in UFUNCS for dtype in DTYPES if keeps_dtype(ufunc, dtype)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("ufunc", "dtype"), CASES, ids=lambda x: str(getattr(x, "__name__", x)))
def test_every_ufunc_gives_the_same_bits_in_place(ufunc: np.ufunc, dtype: np.dtype[Any]) -> None:
    low = 1.1 if ufunc is np.arccosh else 0.1
    operands = [
        (RNG.uniform(low, low + 0.8, size=203) * (9 if dtype.kind == "i" else 1)).astype(dtype)
        for _ in range(ufunc.nin)
    ]
    if dtype.kind == "i":
        operands[-1] = operands[-1] % 5 + 1
    expected = ufunc(*operands)
    for k in range(ufunc.nin):
        copies = [x.copy() for x in operands]
        ufunc(*copies, out=copies[k])
        assert copies[k].tobytes() == expected.tobytes()


def test_values_that_are_still_needed_are_not_overwritten() -> None:
    def f(x: Any) -> Any:
        a = np.sin(x)
        view = a[1:]
        whole = a.reshape(2, 30)
        b = a * 2.0
        c = whole * 3.0
        return np.sum(b), view * 1.0, np.sum(c), a + 1.0

    assert_same(f, shaped((60,)))


def test_both_operands_the_same() -> None:
    assert_same(lambda x: (lambda a: a * a)(np.sin(x)), shaped((60,)))
    assert_same(lambda x: (lambda a: a * a.reshape(60))(np.sin(x)), shaped((60,)))


def test_constants_are_never_overwritten() -> None:
    weights = shaped((60,)).copy()
    jitted = ft.jit(lambda x: np.sum((weights * 1.0) * x + weights))
    expected = jitted(weights)
    assert jitted(weights) == expected
    np.testing.assert_array_equal(weights, shaped((60,)))


def test_outputs_that_are_all_of_an_own_array_are_not_copied() -> None:
    program = assert_same(lambda x: np.sin(x).reshape(8, 60).T, shaped((6, 8, 10)))
    assert "copy" not in generate(planned(program))[0]
    for f in (
        lambda x: x.reshape(60, 8),
        lambda x: np.sin(x)[:1],
        lambda x: (lambda a: (a, a.T))(np.sin(x)),
        lambda x: (lambda a: (a.T, a.T))(np.sin(x)),
        lambda x: np.broadcast_to(np.sin(x), (1, 6, 8, 10)),
        lambda x: (lambda a: (a.reshape(480), a.T))(np.cos(x)),
    ):
        assert "copy" in generate(planned(assert_same(f, shaped((6, 8, 10)))))[0]


def test_residuals_passed_to_the_user_are_not_overwritten() -> None:
    kept: list[Any] = []

    def pack(x: Any) -> Any:
        kept.append((x, np.array(x)))
        return x

    f = ft.checkpoint(
        lambda x: np.sum(np.sin(np.exp(x) * 2.0) ** 2), policy=ft.policies.pack(pack, lambda x: x)
    )
    plain = ft.grad(lambda x: np.sum(np.sin(np.exp(x) * 2.0) ** 2))
    jitted = ft.jit(ft.grad(f))
    for _ in range(3):
        oracles.assert_same(jitted(shaped((60,))), plain(shaped((60,))))
    assert kept
    for x, copy in kept:
        np.testing.assert_array_equal(x, copy)


@pytest.mark.parametrize(
    "index", [np.s_[1:], np.s_[:-2], np.s_[2:-2, 1:], np.s_[:, :, 3:9], np.s_[::2], np.s_[:0]]
)
def test_large_embeddings_are_the_evaluators(index: Any) -> None:
    x = RNG.normal(size=(20, 30, 40))
    assert_same(ft.grad(lambda x: np.sum(np.sin(x[index]))), x)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("shift", [0, 1, -1, 3, 1000])
def test_rolls_have_the_layout_of_their_operand_and_are_reused(
    layout: str, shape: tuple[int, ...], shift: int
) -> None:
    x = LAYOUTS[layout](shaped(shape))
    y = LAYOUTS["F" if layout == "C" else "C"](shaped(shape) * 0.5)
    last = len(shape) - 1

    def f(x: Any, y: Any) -> Any:
        a, b = np.roll(x, shift, 0), np.roll(y, -shift, last)
        c = np.roll(a, 2, last) * 2.0
        return (
            a,
            (a + c) - np.roll(x, 1, last),
            b * x,
            np.roll(b + y, 1, 0),
            np.sum(np.roll(c, 1, 0) * 3.0),
        )

    assert_same(f, x, y)
    assert_same(lambda x, y: np.roll(x, shift, 0), x, y)
    if layout == "C":
        assert in_place_count(ft.trace(lambda x: (np.roll(x, 1, 0) + x) * 2.0)(x)) == 2


def test_rolls_of_nothing() -> None:
    for shape in [(0,), (0, 3), (3, 0), (1,), (2, 1)]:
        x = np.ones(shape)
        for axis in range(len(shape)):
            assert_same(lambda x, axis=axis: (np.roll(x, 1, axis) + x, np.roll(x, -2, axis)), x)


@pytest.mark.parametrize("shape", [(1,), (1, 1), (2, 1), (3,)])
def test_one_complex_number_is_rounded_as_it_is_out_of_place(shape: tuple[int, ...]) -> None:
    def f(x: Any, y: Any) -> Any:
        return ((x + y) * y - x) * ((x - y) * x) * np.square(x * y + 1.0)

    for seed in range(40):
        parts = np.random.default_rng(seed).normal(size=(2, 2, *shape))
        x, y = parts[0] + 1j * parts[1]
        oracles.assert_same(ft.jit(f)(x, y), f(x, y))
