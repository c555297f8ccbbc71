"""The caller's arrays: whatever an array is a view of, and whoever writes to it when, the result is
NumPy's or an error.

The grid: layouts x sizes x how the function gets at the array x who overwrites it, and when x
transforms. The expected values are those of the same formulas on copies made at the right moment.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrace as ft
from functrace.errors import CapturedArrayError
from functrace.tracing.capture import SMALL, CapturedArray
from functrace.tracing.copies import is_read_only

SIZES = {"small": 12, "large": SMALL // 8 + 12}


class Case(NamedTuple):
    """An array, and the memory behind it as somebody else writes to it."""

    array: np.ndarray[Any, Any]
    memory: np.ndarray[Any, Any]

    def overwrite(self) -> None:
        """Change what the array sees, not through the array."""
        self.memory[...] = 3.0 * self.memory + 1.0


def _of(base: np.ndarray[Any, Any], view: Callable[[Any], Any]) -> Case:
    return Case(view(base), base)


def _numbers(n: int, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    return np.linspace(0.5, 2.0, n).astype(dtype)


def _read_only(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    view = x[:]
    view.flags.writeable = False
    return view


def _structured(n: int, *, align: bool) -> Case:
    rows = np.zeros(n, np.dtype([("tag", "i1"), ("x", "f8")], align=align))
    rows["x"] = _numbers(n)
    return _of(rows["x"], lambda x: rows["x"])


def _bytearray(n: int) -> Case:
    memory = bytearray(_numbers(n).tobytes())
    return Case(np.frombuffer(memory), np.frombuffer(memory))


def _ctypes(n: int) -> Case:
    memory = (ctypes.c_double * n)(*_numbers(n))
    return Case(np.ctypeslib.as_array(memory), np.ctypeslib.as_array(memory))


def _mmap(n: int) -> Case:
    memory = mmap.mmap(-1, 8 * n)
    made = Case(np.frombuffer(memory), np.frombuffer(memory))
    made.memory[...] = _numbers(n)
    return made


LAYOUTS: dict[str, Callable[[int], Case]] = {
    "whole": lambda n: _of(_numbers(n), lambda x: x),
    "earlier view": lambda n: (lambda x: Case(x, x[:]))(_numbers(n)),
    "half of one base": lambda n: _of(_numbers(2 * n), lambda x: x[n:]),
    "steps": lambda n: _of(_numbers(3 * n), lambda x: x[::3]),
    "reversed": lambda n: _of(_numbers(n), lambda x: x[::-1]),
    "reversed steps": lambda n: _of(_numbers(2 * n), lambda x: x[::-2]),
    "transposed": lambda n: _of(_numbers(n).reshape(-1, 4), lambda x: x.T),
    "axes moved": lambda n: _of(
        _numbers(n).reshape(2, -1, 2), lambda x: x.transpose(1, 2, 0)[:, ::-1]
    ),
    "Fortran": lambda n: _of(np.asfortranarray(_numbers(n).reshape(4, -1)), lambda x: x),
    "columns": lambda n: _of(_numbers(2 * n).reshape(-1, 4), lambda x: x[:, 1:3]),
    "broadcast": lambda n: _of(_numbers(4), lambda x: np.broadcast_to(x[:, None], (4, n // 4))),
    "broadcast number": lambda n: _of(_numbers(1), lambda x: np.broadcast_to(x, (4, n // 4))),
    "windows": lambda n: _of(
        _numbers(n // 4 + 3), lambda x: np.lib.stride_tricks.sliding_window_view(x, 4)
    ),
    "read-only view": lambda n: _of(_numbers(n), _read_only),
    "view of a read-only view": lambda n: _of(_numbers(n), lambda x: _read_only(x)[2:]),
    "float32": lambda n: _of(_numbers(2 * n, np.float32), lambda x: x),
    "big-endian": lambda n: _of(_numbers(n, ">f8"), lambda x: x),
    "big-endian columns": lambda n: _of(_numbers(2 * n, ">f8").reshape(-1, 4), lambda x: x[:, 1:3]),
    "longdouble": lambda n: _of(_numbers(n, np.longdouble), lambda x: x[::-1]),
    "part of a complex array": lambda n: _of(_numbers(n) + 1j * _numbers(n), lambda x: x.imag),
    "field": lambda n: _structured(n, align=True),
    "unaligned field": lambda n: _structured(n, align=False),
    "bytearray": _bytearray,
    "ctypes": _ctypes,
    "mmap": _mmap,
    "0-d": lambda n: _of(_numbers(1).reshape(()), lambda x: x),
    "empty": lambda n: _of(_numbers(0).reshape(0, 3), lambda x: x),
}

EVENTS = ("never", "inside", "inside a thread", "later", "raises")


class OwnError(Exception):
    """Raised by the function under test."""


class Function:
    """``f`` reads an array, something happens, and it reads the array again; expected values come
    by formula.

    Args:
        case: the array, and what it is a view of.
        role: how ``f`` gets at the array: ``argument``, ``captured``, ``both``, or ``base and
            view``.
        event: when the array is overwritten.
    """

    def __init__(self, case: Case, role: str, event: str) -> None:
        self.case, self.role, self.event = case, role, event
        self.reads: list[np.ndarray[Any, Any]] = []
        self.argument: Any = case.array if role in ("argument", "both") else np.float64(0.7)
        self.at_call = np.array(self.argument)

    def other(self) -> Any:
        """The captured value."""
        return 2.0 if self.role == "argument" else self.case.array

    def __call__(self, x: Any) -> Any:
        self.reads = [np.array(self.other())]
        y = np.sum(np.sin(x) * self.other())
        if self.role == "base and view":
            y = y + np.sum(x * self.case.memory) * 0.0
        if self.event == "inside":
            self.case.overwrite()
        elif self.event == "inside a thread":
            thread = threading.Thread(target=self.case.overwrite)
            thread.start()
            thread.join()
        elif self.event == "raises":
            raise OwnError
        self.reads.append(np.array(self.other()))
        return y + np.sum(x * x * self.other())

    def value(self) -> Any:
        """The value of the call just made."""
        x, (a, b) = self.at_call, self.reads
        return np.sum(np.sin(x) * a) + np.sum(x * x * b)

    def slope(self) -> Any:
        """Its derivative by the argument."""
        x, (a, b) = self.at_call, self.reads
        slopes = np.cos(x) * a + 2 * x * b
        return slopes if x.shape == slopes.shape else slopes.sum()


def _dot(f: Function) -> Any:
    return np.sum(f.slope() * np.ones_like(f.at_call))


def _grad(f: Function) -> Iterator[tuple[Any, Any]]:
    found = ft.grad(f)(f.argument)
    yield found, f.slope()


def _grad_of_grad(f: Function) -> Iterator[tuple[Any, Any]]:
    found = ft.grad(lambda s: ft.value_and_grad(f)(f.argument)[0] * s)(1.0)
    yield found, f.value()


def _vjp(f: Function) -> Iterator[tuple[Any, Any]]:
    value, pullback = ft.vjp(f, f.argument)
    expected = f.value(), f.slope()
    if f.event == "later":
        f.case.overwrite()
    yield value, expected[0]
    yield pullback(1.0)[0], expected[1]


def _jvp(f: Function) -> Iterator[tuple[Any, Any]]:
    at_call = np.array(f.argument)  # the tangent, too, is read when it is given
    value, tangent = ft.jvp(f, (f.argument,), (f.argument,))
    yield value, f.value()
    yield tangent, np.sum(f.slope() * at_call)


def _linearize(f: Function) -> Iterator[tuple[Any, Any]]:
    value, f_jvp = ft.linearize(f, f.argument)
    expected = f.value(), _dot(f)
    if f.event == "later":
        f.case.overwrite()
    yield value, expected[0]
    yield f_jvp(np.ones_like(f.at_call)), expected[1]


def _grad_of_checkpoint(f: Function) -> Iterator[tuple[Any, Any]]:
    yield ft.grad(ft.checkpoint(f))(f.argument), f.slope()


def _vmap(f: Function) -> Iterator[tuple[Any, Any]]:
    if (
        np.ndim(f.argument) or f.role == "captured"
    ):  # a 0-d array that is not mapped is passed as it is
        yield ft.vmap(f, in_axes=None, out_axes=None, axis_size=2)(f.argument), f.value()


def _vmap_over_captured(f: Function) -> Iterator[tuple[Any, Any]]:
    if f.role in ("captured", "base and view"):
        found = ft.vmap(f)(np.full(2, f.argument))
        yield found, np.full(2, f.value())


def _jit(f: Function) -> Iterator[tuple[Any, Any]]:
    jitted = ft.jit(f)
    yield jitted(f.argument), f.value()
    if f.event == "later" and f.role == "captured":  # what has changed since is seen
        f.case.overwrite()
        found = jitted(f.argument)
        f(f.argument)
        yield found, f.value()


def _trace(f: Function) -> Iterator[tuple[Any, Any]]:
    program = ft.trace(f)(f.argument)
    argument = f.at_call.astype(f.at_call.dtype.newbyteorder("="))[()]
    expected = f.value()
    if f.event == "later":
        f.case.overwrite()
    yield ft.evaluate(program, argument), expected


def _scan(f: Function) -> Iterator[tuple[Any, Any]]:
    if f.role in ("captured", "base and view"):
        start = np.zeros((), np.result_type(np.float64, f.case.array.dtype).newbyteorder("="))[()]
        carry = ft.jit(
            lambda s: ft.scan(lambda c, _: (c + f(c * 0 + f.argument), None), s, None, length=2)[0]
        )(start)
        yield carry, 2 * f.value()


def _scan_of_argument(f: Function) -> Iterator[tuple[Any, Any]]:
    if f.role == "argument":
        rows = np.asarray(f.argument)[None]
        ys = ft.jit(lambda start: ft.scan(lambda c, x: (c, f(x)), start, rows)[1])(0.0)
        yield ys, f.value()[None]


def _cond(f: Function) -> Iterator[tuple[Any, Any]]:
    other = lambda x: np.longdouble(0.0) if f.at_call.dtype == np.longdouble else 0.0
    yield ft.jit(lambda choice: ft.cond(choice, f, other, f.argument))(True), f.value()


def _custom(f: Function) -> Iterator[tuple[Any, Any]]:
    @ft.custom_vjp
    def g(x: Any, s: Any) -> Any:
        return f(x) * s

    g.defvjp(lambda x, s: (g(x, s), None), lambda _, ct: (None, ct * 5.0))
    found = ft.grad(lambda s: g(f.argument, s) * 2.0)(1.0)
    yield found, 10.0


TRANSFORMS = [
    _grad, _grad_of_grad, _vjp, _jvp, _linearize, _grad_of_checkpoint, _vmap, _vmap_over_captured,
    _jit, _trace,
    _scan, _scan_of_argument, _cond, _custom,
]  # fmt: skip
RUN_ONCE = {
    _vmap,
    _vmap_over_captured,
    _jit,
    _trace,
    _scan,
    _scan_of_argument,
    _cond,
    _custom,
    _grad_of_checkpoint,
}
"""Where what the function does beside computing is not done at every run: to overwrite what it
reads may raise there.
"""


def _flags(case: Case) -> list[bool]:
    found: list[bool] = []
    for array in case:
        while isinstance(array, np.ndarray):
            found.append(array.flags.writeable)
            array = array.base
    return found


@pytest.mark.sampled(48)
@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: t.__name__.strip("_"))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_array_is_read_as_it_was_when_traced(
    layout: str, transform: Callable[[Function], Any]
) -> None:
    for size in SIZES.values():
        for role in ("argument", "captured", "both", "base and view"):
            for event in EVENTS:
                case = LAYOUTS[layout](size)
                if role == "base and view" and (
                    not case.memory.dtype.isnative or case.memory.dtype.kind != "f"
                ):
                    continue
                before = _flags(case)
                f = Function(case, role, event)
                try:
                    for found, expected in transform(f):
                        np.testing.assert_allclose(
                            np.asarray(found, np.longdouble),
                            expected,
                            rtol=2e-6,
                            err_msg=f"{size} {role} {event}",
                        )
                except OwnError:
                    assert event == "raises"
                except CapturedArrayError:
                    assert transform in RUN_ONCE and event.startswith("inside")
                assert _flags(case) == before, (size, role, event)
                if event != "raises" and case.array.size:
                    case.overwrite()


# -- what is shared, and what is not ---------------------------------------------------------------


def test_two_slices_of_one_base_and_a_view_taken_inside() -> None:
    x = np.random.default_rng(0).random((4000, 3))
    train, test = x[:3000], x[3000:]

    def f(w: Any) -> Any:
        inner = x[10:4000]
        return np.sum(np.tanh(train @ w)) + np.sum(test @ w) + np.sum(inner @ w)

    expected = train.T @ (1 - np.tanh(train @ np.ones(3)) ** 2) + test.sum(0) + x[10:].sum(0)
    for _ in range(3):
        np.testing.assert_allclose(ft.grad(f)(np.ones(3)), expected, rtol=1e-12)
        assert x.flags.writeable and train.flags.writeable and test.flags.writeable


def test_a_buffer_of_any_size_may_be_reused() -> None:
    for size in SIZES.values():
        buffer = np.zeros(size)

        def f(x: Any, buffer: Any = buffer) -> Any:
            total = 0.0
            for k in range(4):
                buffer[:] = k
                total = total + np.sum(x * buffer)
            return total

        for _ in range(3):
            np.testing.assert_array_equal(ft.grad(f)(np.ones(size)), np.full(size, 6.0))


def test_scratch_arrays_of_bodies_are_their_own_business() -> None:
    def body(x: Any) -> Any:
        total = 0.0
        for size in SIZES.values():
            scratch = np.zeros(size)
            for k in range(3):
                scratch[:] = k
                total = total + np.sum(x * scratch)
        return total

    expected = 3.0 * sum(SIZES.values())
    assert ft.jit(body)(1.0) == expected
    np.testing.assert_array_equal(ft.vmap(body)(np.ones(2)), [expected] * 2)
    assert ft.scan(lambda c, x: (c + body(x), None), 0.0, np.ones(2))[0] == 2 * expected
    assert ft.evaluate(ft.trace(body)(1.0), 1.0) == expected
    assert ft.grad(ft.jit(body))(1.0) == expected


def test_a_jitted_function_that_writes_into_an_array_read_by_a_gradient_raises() -> None:
    for size in SIZES.values():
        table = np.ones(size)

        def f(x: Any, table: Any = table) -> Any:
            slope = ft.grad(lambda x: np.sum(x * table))(x)
            table[0] += 1.0
            return slope

        with pytest.raises(
            CapturedArrayError, match="jit of f writes into an array that it also reads"
        ):
            ft.jit(f)(2.0)
        assert ft.grad(f)(2.0) == 0.0


def test_forms_of_one_memory_share_one_copy() -> None:
    x = np.random.default_rng(0).random((64, 64))
    forms = [x, x.T, x[::-1], x.T[:, ::-1], np.broadcast_to(x, (1000, 64, 64)), x]
    held = [CapturedArray(form) for form in forms]
    for form, one in zip(forms, held, strict=True):
        np.testing.assert_array_equal(one.array, form)
        assert one.array.strides == form.strides or 0 in form.strides
        assert np.shares_memory(one.array, held[0].array) and not np.shares_memory(one.array, x)
        assert not one.array.flags.writeable
    again = CapturedArray(held[1].array)
    assert again.array is held[1].array, "a copy that an inner recording made is copied again"
    x[3, 4] = 0.0
    later = CapturedArray(x)
    assert later.array[3, 4] == 0.0 and held[0].array[3, 4] != 0.0


def test_windows_and_broadcast_arrays_are_captured_without_expansion() -> None:
    x = np.arange(10_000.0)
    windows = np.lib.stride_tricks.sliding_window_view(x, 5_000)  # 200 MB, were it copied
    held = CapturedArray(windows)
    assert held.array.strides == windows.strides
    np.testing.assert_array_equal(held.array[::999], windows[::999])


def test_read_only_memory_is_shared_and_nothing_else() -> None:
    x = np.ones(SMALL)
    assert not is_read_only(x)
    view = _read_only(x)
    assert not is_read_only(view), "somebody can write to x"
    x.flags.writeable = False
    for shared in (x, view, x[::2], np.frombuffer(bytes(8 * SMALL))):
        assert is_read_only(shared)
        assert np.shares_memory(CapturedArray(shared).array, shared)
    for copied in (
        np.frombuffer(memoryview(bytearray(8 * SMALL)).toreadonly()),
        np.broadcast_to(np.ones(4), (SMALL, 4)),
    ):
        assert not copied.flags.writeable
        assert not is_read_only(copied)
        assert not np.shares_memory(CapturedArray(copied).array, copied)


def test_memory_mapped_files(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    np.linspace(0.0, 1.0, SMALL).tofile(path)
    for mode, shared in (("r", True), ("r+", False), ("c", False)):
        mapped = np.memmap(path, np.float64, mode)
        held = CapturedArray(mapped)
        assert type(held.array) is np.ndarray
        assert np.shares_memory(held.array, mapped) is shared
        assert ft.grad(lambda x, mapped=mapped: np.sum(x * mapped))(1.0) == mapped.sum()
        _, pullback = ft.vjp(lambda x: x * x, mapped)
        found = pullback(np.ones(SMALL))[0]
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, 2 * mapped)


def test_programs_and_pullbacks_own_copies_of_read_only_arrays() -> None:
    for size in SIZES.values():
        x = np.ones(size)
        x.flags.writeable = False
        program = ft.trace(lambda s, x=x: np.sum(s * x))(1.0)
        jitted = ft.jit(lambda s, x=x: np.sum(s * x))
        transposed = ft.linear_transpose(lambda s, x=x: np.sum(s * x), 1.0)
        _, pullback = ft.vjp(lambda s, x=x: s * np.sum(s * x), 1.0)
        _, of_argument = ft.vjp(lambda x: x * x, x)
        _, f_jvp = ft.linearize(lambda x: x * x, x)
        calls = [
            lambda: ft.evaluate(program, 2.0), lambda: jitted(2.0), lambda: transposed(2.0)[0],
            lambda: pullback(2.0)[0],
            lambda: of_argument(np.ones(size))[0], lambda: f_jvp(np.ones(size)),
        ]  # fmt: skip
        expected = [call() for call in calls]
        x.flags.writeable = True
        x[:] = 7.0
        for call, value in zip(calls, expected, strict=True):
            np.testing.assert_array_equal(call(), value)
        (constant,) = program.constants.values()
        with pytest.raises(ValueError, match="read-only"):
            constant[0] = 5.0


def test_results_are_the_callers_own() -> None:
    for size in SIZES.values():
        x = np.ones(size)
        y, pullback = ft.vjp(lambda x: x, x)
        results = [
            y,
            pullback(x)[0],
            ft.grad(np.sum)(x),
            ft.jvp(lambda x: (x, x), (x,), (x,))[1][0],
            ft.jit(lambda x: x)(x),
        ]
        results += [
            ft.vmap(lambda x: x)(x),
            ft.jit(lambda c: ft.cond(c, lambda x: x, lambda x: x, x))(True),
        ]
        results += [ft.scan(lambda c, _: (c, c), x, None, 1)[0], ft.value(x.copy())]
        for k, result in enumerate(results):
            assert result.flags.writeable
            assert not any(np.shares_memory(result, other) for other in (x, *results[:k]))


def test_many_captures_of_one_large_array_take_the_memory_of_one() -> None:
    import tracemalloc

    a = np.ones((512, 512))

    def f(x: Any) -> Any:
        for _ in range(30):
            x = ft.checkpoint(lambda x: np.tanh(a.T @ (a @ x)))(x)
        return np.sum(x)

    x = np.ones(512)
    ft.grad(f)(x)
    tracemalloc.start()
    ft.grad(f)(x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * a.nbytes


def test_threads_that_capture_halves_of_a_buffer_that_others_fill() -> None:
    buffer = np.ones((2, SMALL))
    stop = threading.Event()

    def fill() -> None:
        while not stop.is_set():
            buffer[1] = buffer[1] + 1.0

    thread = threading.Thread(target=fill)
    thread.start()
    try:
        for _ in range(50):
            assert ft.grad(lambda x: np.sum(x * buffer[0]))(2.0) == SMALL
    finally:
        stop.set()
        thread.join()


def test_a_generator_left_in_the_middle_of_a_call() -> None:
    table = np.ones(SMALL)

    def steps() -> Iterator[Any]:
        yield ft.grad(lambda x: np.sum(x * table))(1.0)
        yield 0.0

    def f(x: Any) -> Any:
        return x * next(steps()) + np.sum(x * table)

    assert ft.grad(f)(1.0) == 2.0 * SMALL
    assert table.flags.writeable


_TEMPORARIES = """
import numpy as np
from functrace.numpy.arrays.recording import ArrayRecording

rng = np.random.default_rng(0)
bases = [rng.normal(size=(40, 60)) for _ in range(4)]
made = [
    lambda b, k: b.T, lambda b, k: b[::-1], lambda b, k: b + k, lambda b, k: b[:, :50].T, lambda b, k: np.eye(50) + k,
    lambda b, k: np.broadcast_to(b, (2, 40, 60)), lambda b, k: b[:3, :3] + k, lambda b, k: b.T.copy(),
]
for _ in range(10):
    kept = []
    with ArrayRecording("test") as recording:
        for k in range(300):
            value = made[rng.integers(len(made))](bases[rng.integers(4)], k)
            held = recording.constants[recording.capture(value)]
            assert held.shape == value.shape and (held == value).all(), k
            if rng.random() < 0.3:
                kept.append(value)
            del value
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("allocator", ["malloc", "pymalloc"])
def test_a_freed_array_is_not_confused_with_one_at_its_address(allocator: str) -> None:
    environment = {**os.environ, "PYTHONMALLOC": allocator}
    subprocess.run([sys.executable, "-c", _TEMPORARIES], check=True, env=environment)
