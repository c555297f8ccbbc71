"""Single operations on large arrays over any number of threads: bit for bit what NumPy computes,
and warns of, whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.executor.parallel import operations as spread
from functrace.executor.parallel.operations import LEAST_BYTES, SPAN, spread_ufunc
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.primitive import Primitive
from functrace.ops import elementwise as ew
from functrace.threads import THREADS, ThreadPool
from tests.executor.parallel.test_blocks import same

UFUNCS = sorted(
    {
        p.eval
        for p in vars(ew).values()
        if isinstance(p, Primitive) and p.is_ufunc and p.eval.nout == 1
    },
    key=str,
)
DTYPES = ("float16", "float32", "float64", "complex64", "complex128", "int32", "uint8", "bool")


def takes(ufunc: np.ufunc, dtype: str) -> bool:
    try:
        ufunc.resolve_dtypes((np.dtype(dtype),) * ufunc.nin + (None,))
    except TypeError:
        return False
    return True


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays are spread, too."""
    monkeypatch.setattr(spread, "LEAST_BYTES", 1)


def operands_of(ufunc: np.ufunc, dtype: str, size: int, offset: int) -> tuple[Any, ...]:
    generator = np.random.default_rng(size)
    made: list[Any] = []
    for n in range(ufunc.nin):
        x = generator.uniform(-4.0, 4.0, size + offset) * 10.0 ** generator.integers(
            -2, 3, size + offset
        )
        if dtype.startswith("complex"):
            x = x + 1j * x[::-1]
        made.append(
            (np.abs(x) if dtype == "uint8" or (n and dtype == "int32") else x).astype(dtype)[
                offset:
            ]
        )
    return tuple(made)


@pytest.mark.sampled(24)
@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize(
    ("ufunc", "dtype"), [(f, d) for f in UFUNCS for d in DTYPES if takes(f, d)]
)
def test_every_ufunc_at_every_alignment(ufunc: np.ufunc, dtype: str) -> None:
    with np.errstate(all="ignore"), ft.config(threads=3):
        for size, offset in (
            (3 * SPAN + 1, 0),
            (2 * SPAN + 1234, 1),
            (5 * SPAN - 3, 3),
            (SPAN + 17, 2),
            (7, 0),
        ):
            given = operands_of(ufunc, dtype, size, offset)
            expected = ufunc(*given)
            compute = spread_ufunc(ufunc, [aval_of(x) for x in given])
            assert compute is not None
            same((compute(*given),), (expected,))
            if expected.dtype == given[0].dtype:
                target = given[0].copy()
                wanted = given[0].copy()
                ufunc(wanted, *given[1:], out=wanted)
                assert compute(target, *given[1:], out=target) is target
                same((target,), (wanted,))


SIZE = LEAST_BYTES // 4 + 12_346


@pytest.mark.sampled(3)
@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize(
    "ufunc", [np.add, np.multiply, np.divide, np.greater, np.maximum, np.power]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_numbers_and_shapes(count: int, ufunc: np.ufunc, dtype: str) -> None:
    x, y = (np.random.default_rng(k).integers(1, 5, 59 * 747).astype(dtype) for k in (0, 1))
    rows = x.reshape(59, -1)
    for given in (
        (x, y),
        (x, 2),
        (3, y),
        (x, True),
        (x, np.array(2, dtype)),
        (x, np.broadcast_to(y[3], x.shape)),
        (rows, rows[::-1].copy()),
        (rows, rows[3]),
        (rows[:, :1].copy(), rows),
        (rows[:, :1].copy(), rows[0]),
        (rows[:, :1].copy(), rows[:1, :1].copy()),
        (rows[:, :1], rows[0]),
        (np.broadcast_to(rows[0], rows.shape), rows),
        (np.broadcast_to(rows[0], rows.shape), 3),
        (rows.T, rows.T),
        (rows.T.copy(), rows.T),
        (x[::-1], y),
        (x[::2], y[::2]),
    ):
        specs = [aval_of(a) if isinstance(a, np.ndarray) else type(a) for a in given]
        compute = spread_ufunc(ufunc, specs)
        assert compute is not None
        same((compute(*given),), (ufunc(*given),))


def test_small_and_multi_result_operations_are_not_spread() -> None:
    large, small = ShapeDtype((SIZE,), np.dtype(float)), ShapeDtype((5,), np.dtype(float))
    assert spread_ufunc(np.add, (small, small)) is None
    assert spread_ufunc(np.modf, (large,)) is None
    with pytest.raises(OverflowError):
        compute = spread_ufunc(np.add, (ShapeDtype((4 * SIZE,), np.dtype(np.uint8)), int))
        assert compute is not None
        compute(np.zeros(4 * SIZE, np.uint8), 300)


def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list of how many pieces were shared out, which grows."""
    seen: list[int] = []
    original = THREADS.share

    def share(work: Callable[..., object], parts: int) -> None:
        seen.append(parts)
        original(work, parts)

    monkeypatch.setattr(type(THREADS), "share", lambda _, work, parts: share(work, parts))
    return seen


@pytest.mark.parametrize("jitted", [False, True])
def test_operations_of_programs_are_spread(
    count: int, jitted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = shared(monkeypatch)
    x = np.linspace(0.5, 1.5, SIZE, dtype=np.float32)

    def f(x: Any) -> Any:
        return x * 3.0

    vjp = ft.vjp(f, x)[1]
    run = ft.jit(f) if jitted else lambda x: vjp(x)[0]
    for _ in range(3):
        same((run(x),), (x * np.float32(3.0),))
    assert bool(seen) == (count > 1)
    assert all(parts == count for parts in seen)


@pytest.mark.parametrize(
    ("f", "expected"),
    [(lambda x: x * 3.0, True), (lambda x: (x * 3.0, x[:3] @ np.ones((3, 2))), False)],
)
def test_operations_are_not_spread_in_programs_with_blas_products(
    f: Callable[[Any], Any], expected: bool
) -> None:
    program = ft.trace(f)(np.linspace(0.5, 1.5, SIZE))
    assert bool(spread.spread_operations(program)) is expected


def test_results_do_not_depend_on_threads(count: int) -> None:
    x = np.linspace(-1.0, 1.0, SIZE // 4 * 2)

    def f(x: Any) -> Any:
        y = np.sin(x) * 2.0
        return np.sum(y.reshape(2, -1) * x[: x.size // 2])

    def by_shim() -> Any:
        t = torch.tensor(x, requires_grad=True)
        y = torch.sin(t) * 2.0
        (y.reshape(2, -1) * t[: x.size // 2]).sum().backward()
        return t.grad.numpy()

    found = ft.value_and_grad(f)(x), ft.grad(f)(x), ft.jit(f)(x), by_shim(), by_shim()
    with ft.config(threads=1):
        expected = ft.value_and_grad(f)(x), ft.grad(f)(x), ft.jit(f)(x), by_shim(), by_shim()
    for a, b in zip((*found[0], *found[1:]), (*expected[0], *expected[1:]), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_warnings_are_given_once_at_the_users_line(count: int) -> None:
    x = np.ones(SIZE)
    x[[5, SIZE // 2, -3]] = 0.0

    def f(x: Any) -> Any:
        y = x - 1.0
        return y, 1.0 / x  # the line

    run = ft.jit(f)
    for _ in range(3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            run(x)
        (found,) = caught
        assert str(found.message) == "divide by zero encountered in divide"
        assert (found.filename, found.lineno) == (__file__, f.__code__.co_firstlineno + 2)


@pytest.mark.parametrize("mode", ["ignore", "raise", "print", "call"])
def test_other_error_modes(count: int, mode: Any, capfd: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(SIZE)
    compute = spread_ufunc(np.divide, (aval_of(x), aval_of(x)))
    assert compute is not None
    called: list[str] = []
    with np.errstate(all=mode, call=lambda kind, _: called.append(kind)):
        if mode == "raise":
            with pytest.raises(FloatingPointError, match="invalid value encountered in divide"):
                compute(x, x)
        else:
            assert np.isnan(compute(x, x)).all()
    assert called == (["invalid value"] if mode == "call" else [])
    assert ("invalid value" in capfd.readouterr().err) == (mode == "print")


def test_large_operations_among_many_small_ones_run_on_all_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also un-jitted, where most operations are of single numbers."""
    calls: list[object] = []
    together = ThreadPool._together
    monkeypatch.setattr(THREADS, "count", 2)
    monkeypatch.setattr(
        ThreadPool, "_together", lambda self, *given: (calls.append(1), together(self, *given))[1]
    )
    large = np.linspace(0.0, 1.0, 1 << 20)

    def f(x: Any) -> Any:
        s = x[1]
        for _ in range(300):
            s = np.sin(s) * 1.01
        return np.sum(np.sin(x)) * s

    found = ft.grad(f)(large)
    assert len(calls) >= 2
    np.testing.assert_allclose(
        found[2:], np.cos(large[2:]) * f(large) / np.sum(np.sin(large)), rtol=1e-9
    )
