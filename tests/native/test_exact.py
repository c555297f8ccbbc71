"""``accuracy="numpy"``: machine code whose results equal those of NumPy's form to the bit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import functrace as ft
from functrace.errors import ArgumentError
from functrace.executor import Runner
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.planner import plan, planned
from functrace.ir.program import Program
from tests.laws.programs import Recipe, programs, seeds
from tests.native.laws import given_values, of_case, with_derivatives
from tests.test_cases import CASES

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from functrace.native.backend import EXACT


def _assert_same_bits(found: Any, expected: Any) -> None:
    """Assert equal types, dtypes, layouts and bits; every nan is the same."""
    assert type(found) is type(expected)
    if np.size(found) > 1:
        assert found.strides == expected.strides
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    if found.dtype.kind == "c":
        real = found.real.dtype
        found, expected = (np.ascontiguousarray(x).view(real) for x in (found, expected))
    if found.dtype.kind == "f":
        found, expected = (np.where(np.isnan(x), np.nan, x) for x in (found, expected))
    assert found.tobytes() == expected.tobytes(), (found, expected)


def check(program: Program, arguments: Any) -> None:
    """Compare a program with NumPy's form of it."""
    values = given_values(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = NUMPY.compile(planned(Runner(program, NUMPY).flat))(*values)
        run = EXACT.compile(plan(Runner(program, EXACT).flat, EXACT.policy))
        for _ in range(2):
            found = run(*values)
            for one, other in zip(found, expected, strict=True):
                _assert_same_bits(one, other)


@given(programs(), seeds())
def test_random_programs_equal_numpys_form(recipe: Recipe, seed: int) -> None:
    arguments = recipe.arguments(seed)
    check(ft.trace(recipe)(*arguments), arguments)


@given(programs(), seeds())
def test_derivatives_of_random_programs_equal_numpys_form(recipe: Recipe, seed: int) -> None:
    for program, arguments in with_derivatives(recipe, seed):
        check(program, arguments)


@pytest.mark.sampled(64)
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_cases_equal_numpys_form(case: Any) -> None:
    check(*of_case(case))


def _assert_equal(f: Any, *arguments: Any) -> None:
    found = ft.jit(f, backend="native", accuracy="numpy")(*arguments)
    expected = ft.jit(f, backend="numpy")(*arguments)
    for one, other in zip(ft.tree.leaves(found), ft.tree.leaves(expected), strict=True):
        _assert_same_bits(one, other)


def _layer(x: Any, w: Any, b: Any) -> Any:
    h = np.tanh(x @ w + b)
    centred = h - np.mean(h, axis=-1, keepdims=True)
    return np.sum(np.exp(-centred * centred) / np.sqrt(np.var(h, axis=0) + 1.0))


def _rows(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    p = e / np.sum(e, axis=-1, keepdims=True)
    return np.sum(p * p * x), np.sum(p.T * 2.0, axis=0), np.mean(p.T + x.T, axis=1)


def _orders(x: Any) -> Any:
    """Arrays whose layout in NumPy is not C order pass between segments."""
    turned = x.T * 3.0 + 1.0
    return np.sum(turned), np.sum(np.sin(turned), axis=0), np.sum(turned[::-1] * 2.0, axis=1)


def _scan(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        carry = 0.9 * carry + row * row
        return carry, np.sum(carry - row)

    return ft.scan(step, np.zeros(x.shape[1]), x)


def _turned_scan(x: Any) -> Any:
    return ft.scan(lambda carry, y: (carry.T * 0.5 + y, np.sum(carry.T)), x[:7, :7], x)[1]


def _scan_of_exp(x: Any) -> Any:
    return ft.scan(lambda c, y: (np.exp(-c * c) + y, c), np.zeros(x.shape[1]), x)


_RNG = np.random.default_rng(3)
_X, _W = _RNG.normal(size=(70, 7)), _RNG.normal(size=(7, 40))


@pytest.mark.parametrize("f", [_rows, _orders, _scan, _turned_scan, _scan_of_exp])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_functions_equal_numpys_form(f: Any, dtype: str) -> None:
    x = _X.astype(dtype)
    strided = np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2]
    for argument in (x, np.asfortranarray(x), strided, x[::-1]):
        _assert_equal(f, argument)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_gradients_equal_numpys_form(dtype: str) -> None:
    arguments = [a.astype(dtype) for a in (_X, _W, _RNG.normal(size=40))]
    _assert_equal(ft.value_and_grad(_layer, argnums=(0, 1, 2)), *arguments)
    _assert_equal(ft.grad(lambda x: _rows(x)[0]), arguments[0])
    _assert_equal(ft.hessian(lambda x: np.sum(np.sin(x) * np.cumsum(x) ** 3)), arguments[0][0])


def test_programs_without_elementary_functions_are_whole() -> None:
    def f(x: Any) -> Any:
        y = np.where(x > 0.5, x * 2.0, np.sqrt(np.abs(x)))
        return np.sum(np.maximum(y, 0.1) / (1.0 + y)), np.var(y, axis=0), y**2

    assert ft.debug.explain(f, accuracy="numpy")(_X).is_whole
    _assert_equal(f, _X)


def test_explain_names_what_runs_in_numpy() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.exp(x) * x)

    assert ft.debug.explain(f)(_X).is_whole
    found = ft.debug.explain(f, accuracy="numpy")(_X)
    assert len(found.by_numpy) == 1
    assert "exp" in found.by_numpy[0]


def test_bad_accuracies_raise() -> None:
    with pytest.raises(ArgumentError, match="no accuracy 'best'"):
        ft.jit(np.sin, backend="native", accuracy="best")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="a choice of machine code"):
        ft.jit(np.sin, backend="numpy", accuracy="numpy")
    with pytest.raises(ArgumentError, match="no accuracy 'best'"):
        ft.debug.explain(np.sin, accuracy="best")  # type: ignore[arg-type]


_EDGES = (-0.0, 0.0, np.inf, -np.inf, np.nan, complex(-0.0, -0.0), complex(np.inf, np.inf), 1e308)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", ["sum", "mean", "prod", "cumsum", "cumprod", "var", "max"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "f2", "c16", "c8"])
def test_reductions_of_edges_equal_numpy(name: str, dtype: str) -> None:
    """NumPy joins elements to 0 or 1: the sum of -0.0 is 0.0. Cumulative ones start with the first."""
    reduce, is_complex = getattr(np, name), np.dtype(dtype).kind == "c"
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for shape in ((), (1,), (3,), (1, 1), (3, 30)):
            axes: list[Any] = list(range(len(shape))) or [None]

            def f(x: Any, axes: Any = axes) -> Any:
                return [reduce(x, axis=axis) for axis in axes]

            fast, exact = (
                ft.jit(f, backend="native"),
                ft.jit(f, backend="native", accuracy="numpy"),
            )
            for edge in _EDGES:
                if isinstance(edge, complex) and not is_complex:
                    continue
                x = np.full(shape, edge).astype(dtype)[()]
                for one, other, expected in zip(fast(x), exact(x), f(x), strict=True):
                    _assert_same_bits(other, expected)
                    if not is_complex:
                        _assert_same_bits(one, expected)
                    np.testing.assert_array_equal(one, expected)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("value", [-1, 300, -(2**31), 2**63, 1.5, True])
@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "u4", "i4", "u8", "i8", "f2", "f4"])
def test_where_casts_numbers_as_numpy(dtype: str, value: float) -> None:
    x = np.array([0, 1, 2]).astype(dtype)

    def f(x: Any) -> Any:
        return np.where(x > 0, x, value), np.where(x > 0, value, x)

    with np.errstate(all="ignore"):
        for number in (x, x[1]):
            for one, other in zip(ft.jit(f, backend="native")(number), f(number), strict=True):
                _assert_same_bits(one, other)


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("accuracy", ["fast", "numpy"])
def test_discarded_divisions_warn(dtype: str, size: int, accuracy: Any) -> None:
    x, zeros = np.full(size, -1.0, dtype), np.zeros(size, dtype)

    def chosen(x: Any, y: Any) -> Any:
        return np.where(x > 0, x / y, y), np.sum(np.where(x > 0, y, np.sqrt(x)))

    run = {} if accuracy == "fast" else {"accuracy": accuracy}
    f = ft.jit(chosen, backend="native", **run)
    with np.errstate(divide="raise", invalid="ignore"), pytest.raises(FloatingPointError):
        f(x, zeros)
    with np.errstate(divide="ignore", invalid="raise"), pytest.raises(FloatingPointError):
        f(x, zeros)


def test_segments_of_split_programs_run_as_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    from functrace.native.engine import NativeFunction

    def f(x: Any) -> Any:
        for _ in range(5):
            x = x + 0.1 * (np.roll(x, 1) - 2.0 * x + np.roll(x, -1))
        y = np.exp(x)
        for _ in range(5):
            y = y + 0.1 * (np.roll(y, 1) - 2.0 * y + np.roll(y, -1))
        return y

    x = np.random.default_rng(0).normal(size=400)
    run = ft.jit(f, backend="native", accuracy="numpy")
    _assert_same_bits(run(x), f(x))
    calls: list[Any] = []
    plain = NativeFunction._run_plain
    monkeypatch.setattr(
        NativeFunction, "_run_plain", lambda self, given: (calls.append(1), plain(self, given))[1]
    )
    run(x)
    assert not calls


def test_types_of_results_of_branches_are_numpys() -> None:
    def f(x: Any) -> Any:
        return ft.cond(x[0] >= 0, lambda a: np.where(a[0] > 0, a[1], a[2]), lambda a: a[1], x)

    for x in (np.arange(5.0), -1.0 - np.arange(5.0)):
        found = ft.jit(f, backend="native", accuracy="numpy")(x)
        assert type(found) is type(ft.jit(f, backend="numpy")(x))
