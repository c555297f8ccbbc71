"""Elementary functions of the native tier: errors in ulp, special values, floating-point flags."""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="llvmlite is not installed")
mpmath = pytest.importorskip("mpmath", reason="mpmath is not installed")

from functrace.native import llvm  # noqa: E402
from functrace.native.kernels import KERNELS, LARGEST_ANGLE, ULP  # noqa: E402
from functrace.native.llvm_text import (  # noqa: E402
    Printer,
    function_text,
    kernels_text,
    operand_count,
)
from functrace.native.loop_ir import Builder, Function, Let, Scalar  # noqa: E402
from tests.native.minimax import POLYNOMIALS  # noqa: E402

DTYPES = (np.dtype(np.float64), np.dtype(np.float32))
CASES = [pytest.param(op, dtype, id=f"{op}-{dtype}") for op in KERNELS for dtype in DTYPES]
BLOCK = 512
INF, NAN = np.inf, np.nan


# -- machine code of a kernel --


class Machine:
    """A loop that calls a kernel, compiled for a number of elements.

    Args:
        op: name of the kernel.
        dtype: of its operands.
        size: number of elements.
    """

    def __init__(self, op: str, dtype: np.dtype[Any], size: int) -> None:
        self.count, self.dtype, self.size = operand_count(KERNELS[op]), dtype, size
        builder = Builder()
        arguments = [builder.buffer(dtype, size, "argument") for _ in range(self.count)]
        result = builder.buffer(dtype, size, "result")
        with builder.loops((size,)) as (index,):
            loaded = [builder.load(buffer, index) for buffer in arguments]
            builder.store(result, index, builder.let(op, dtype, *loaded))
        shaped = [(buffer, (size,)) for buffer in arguments]
        function = Function(op, shaped, [(result, (size,))], builder.buffers, builder.body)
        printer, name = Printer(), f"kernel_{op}_{dtype}_{size}"
        body = function_text(printer, function, f"{name}_body")
        kernels = kernels_text(printer, KERNELS)
        pointers = ", ".join(f"ptr %p{k}" for k in range(self.count + 2))
        entry = [
            f"define i32 @{name}({pointers}) {{",
            f"  %status = call i32 @{name}_body({pointers})",
            "  ret i32 %status",
            "}",
            "attributes #0 = { nounwind }",
            "attributes #1 = { nounwind memory(none) willreturn alwaysinline }",
        ]
        text = "\n".join([*printer.declarations.values(), body, kernels, *entry])
        self.keep, (address,) = llvm.load(llvm.object_code(text), (name,))
        kind = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * (self.count + 2))
        self.function = kind(address)

    def run(self, *arrays: np.ndarray) -> np.ndarray:
        """Return the results for `size` elements."""
        out = np.empty(self.size, self.dtype)
        self.function(*[array.ctypes.data for array in arrays], out.ctypes.data, None)
        return out

    def __call__(self, *arrays: np.ndarray) -> np.ndarray:
        """Return the results for any number of elements."""
        total = len(arrays[0])
        padded = [np.resize(a, -(-total // self.size) * self.size) for a in arrays]
        parts = [
            self.run(*[a[start : start + self.size] for a in padded])
            for start in range(0, len(padded[0]), self.size)
        ]
        return np.concatenate(parts)[:total]


@functools.cache
def machine(op: str, dtype: np.dtype[Any], size: int = BLOCK) -> Machine:
    return Machine(op, dtype, size)


def test_kernels_are_straight_line_code() -> None:
    for op, kernel in KERNELS.items():
        for dtype in DTYPES:
            builder = Builder()
            kernel(builder, *[Scalar(f"a{k}", dtype) for k in range(operand_count(kernel))])
            assert all(type(statement) is Let for statement in builder.body), op


# -- errors --


def _uniform(rng: np.random.Generator, low: float, high: float, count: int) -> np.ndarray:
    return rng.uniform(low, high, count)


def _scales(rng: np.random.Generator, low: float, high: float, count: int) -> np.ndarray:
    """Draw numbers of all magnitudes, positive where `low` is given as positive, else of two signs."""
    sizes = np.exp(rng.uniform(np.log(abs(low)), np.log(high), count))
    return sizes if low > 0 else sizes * rng.choice([-1.0, 1.0], count)


UNIFORM, SCALES = _uniform, _scales
_OF_LOG = [(SCALES, 1e-320, 1e308), (UNIFORM, 0.5, 2.0), (UNIFORM, 0.99, 1.01)]
_ANGLES = [(UNIFORM, -10, 10), (UNIFORM, -1e5, 1e5), (SCALES, -1e-10, 2.0**44), (UNIFORM, -1, 1)]
_SINES = [(UNIFORM, -1, 1), (SCALES, -1e-10, 1), (UNIFORM, 0.999, 1), (UNIFORM, 0.4, 0.6)]
_HYPERBOLIC = [(UNIFORM, -710, 710), (UNIFORM, -3, 3), (SCALES, -1e-10, 20)]

RANGES: dict[str, list[tuple[Callable[..., Any], float, float]]] = {
    "exp": [(UNIFORM, -745, 709.7), (UNIFORM, -87, 88), (UNIFORM, -1, 1), (SCALES, -1e-20, 700)],
    "exp2": [(UNIFORM, -1074, 1023.9), (UNIFORM, -126, 127), (UNIFORM, -1, 1)],
    "expm1": [(UNIFORM, -40, 709), (UNIFORM, -2, 2), (SCALES, -1e-300, 1)],
    "log": _OF_LOG, "log2": _OF_LOG, "log10": _OF_LOG,
    "log1p": [(SCALES, 1e-300, 1e308), (UNIFORM, -1, 1), (UNIFORM, -0.5, 1.5)],
    "sin": _ANGLES, "cos": _ANGLES, "tan": _ANGLES,
    "arcsin": _SINES, "arccos": _SINES,
    "arctan": [(UNIFORM, -3, 3), (SCALES, -1e-300, 1e300), (UNIFORM, 0.9, 1.1)],
    "sinh": _HYPERBOLIC, "cosh": _HYPERBOLIC,
    "tanh": [(UNIFORM, -20, 20), (UNIFORM, -2, 2), (SCALES, -1e-300, 1)],
    "sigmoid": [(UNIFORM, -700, 40), (UNIFORM, -5, 5)],
    "arcsinh": [(UNIFORM, -10, 10), (SCALES, -1e-300, 1e300), (UNIFORM, -1, 1)],
    "arccosh": [(UNIFORM, 1, 10), (SCALES, 1, 1e300), (UNIFORM, 1, 1.01)],
    "arctanh": [(UNIFORM, -1, 1), (SCALES, -1e-300, 1), (UNIFORM, 0.99, 1)],
    "cbrt": [(SCALES, -1e-320, 1e300), (UNIFORM, -2, 2)],
    "erf": [(UNIFORM, -6, 6), (UNIFORM, -1.5, 1.5), (SCALES, -1e-300, 1)],
    "erfc": [(UNIFORM, -6, 26.5), (UNIFORM, -1.5, 2)],
}  # fmt: skip
PAIRS: dict[str, list[tuple[tuple[Any, float, float], tuple[Any, float, float]]]] = {
    "arctan2": [
        ((UNIFORM, -3, 3), (UNIFORM, -3, 3)), ((SCALES, -1e-100, 1e100), (SCALES, -1e-100, 1e100)),
        ((UNIFORM, 1, 1), (UNIFORM, -4, 4)),
    ],
    "hypot": [
        ((UNIFORM, -3, 3), (UNIFORM, -3, 3)), ((SCALES, -1e-300, 1e300), (SCALES, -1e-300, 1e300)),
    ],
    "power": [
        ((UNIFORM, 0, 3), (UNIFORM, -20, 20)), ((SCALES, 1e-320, 1e300), (UNIFORM, -1, 1)),
        ((UNIFORM, 0.6, 1.6), (UNIFORM, -700, 700)), ((UNIFORM, 0.999, 1.001), (UNIFORM, -1e5, 1e5)),
    ],
    "logaddexp": [((UNIFORM, -3, 3), (UNIFORM, -3, 3)), ((UNIFORM, 0, 100), (UNIFORM, -100, 100))],
    "fmod": [((UNIFORM, -9, 9), (UNIFORM, -3, 3)), ((SCALES, -1e-5, 1e5), (SCALES, -1e-5, 1e5))],
}  # fmt: skip
PAIRS["logaddexp2"] = PAIRS["logaddexp"]
PAIRS["remainder"] = PAIRS["floor_divide"] = PAIRS["fmod"]


def _operands(op: str, dtype: np.dtype[Any], count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(17)
    if op in PAIRS:
        drawn = [
            [np.concatenate([draw(rng, low, high, count) for draw, low, high in column])]
            for column in zip(*PAIRS[op], strict=True)
        ]
        columns = [column[0] for column in drawn]
    else:
        columns = [np.concatenate([draw(rng, a, b, count) for draw, a, b in RANGES[op]])]
    with np.errstate(all="ignore"):
        columns = [column.astype(dtype) for column in columns]
    kept = np.all(np.isfinite(columns) & (np.asarray(columns) != 0), axis=0)
    return [column[kept] for column in columns]


_NAMES = {
    "log2": lambda x: mpmath.log(x, 2), "arcsin": mpmath.asin, "arccos": mpmath.acos,
    "arctan": mpmath.atan, "arcsinh": mpmath.asinh, "arccosh": mpmath.acosh,
    "arctanh": mpmath.atanh, "arctan2": mpmath.atan2, "exp2": lambda x: mpmath.power(2, x),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "logaddexp": lambda x, y: mpmath.log(mpmath.exp(x) + mpmath.exp(y)),
    "logaddexp2": lambda x, y: mpmath.log(mpmath.power(2, x) + mpmath.power(2, y), 2),
    "fmod": lambda x, y: x - y * (mpmath.floor if x / y > 0 else mpmath.ceil)(x / y),
    "remainder": lambda x, y: x - y * mpmath.floor(x / y),
}  # fmt: skip


def _exact(op: str, x: Sequence[float]) -> Any:
    function = _NAMES.get(op) or getattr(mpmath, op)
    return function(*[mpmath.mpf(float(value)) for value in x])


def _unit(op: str, dtype: np.dtype[Any], result: Any, operands: Sequence[Any]) -> Any:
    """Return the unit in the last place in which errors are counted."""
    size = np.abs(result)
    if op.startswith("logaddexp"):
        finite = np.where(np.isfinite(operands), operands, 0)
        size = np.maximum(size, np.max(np.abs(finite), axis=0))
    return np.spacing(size.astype(dtype))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_errors_against_mpmath(op: str, dtype: np.dtype[Any]) -> None:
    operands = _operands(op, dtype, 60)
    results = machine(op, dtype)(*operands)
    limit = ULP[op][DTYPES.index(dtype)]
    if op == "floor_divide":
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(results, np.floor_divide(*operands))
        return
    with mpmath.workprec(150):
        for y, *x in zip(results, *operands, strict=True):
            exact = _exact(op, x)
            if abs(exact) > float(np.finfo(dtype).max):
                continue
            unit = _unit(op, dtype, np.float64(float(exact)), np.float64(x))
            assert abs(mpmath.mpf(float(y)) - exact) <= (limit + 1e-3) * float(unit), (op, x, y)


def _reference(op: str, dtype: np.dtype[Any]) -> Callable[..., Any] | None:
    """Return a function of a wider format, or None."""
    if op == "floor_divide":
        return None
    if op in ("sigmoid", "erf", "erfc"):
        if dtype == np.float64:
            return None
        special = pytest.importorskip("scipy.special", reason="SciPy is not installed")
        return {"sigmoid": special.expit, "erf": special.erf, "erfc": special.erfc}[op]
    if dtype == np.float64 and np.finfo(np.longdouble).nmant < 63:
        return None
    return getattr(np, op)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_errors_at_many_points(op: str, dtype: np.dtype[Any]) -> None:
    reference = _reference(op, dtype)
    if reference is None:
        pytest.skip("no wider format here")
    operands = _operands(op, dtype, 10_000)
    results = machine(op, dtype)(*operands)
    wide = np.longdouble if dtype == np.float64 else np.float64
    with np.errstate(all="ignore"):
        exact = reference(*[x.astype(wide) for x in operands])
        unit = _unit(op, dtype, exact, operands).astype(wide)
        errors = np.abs(results.astype(wide) - exact) / unit
        errors[~np.isfinite(exact.astype(dtype))] = 0.0
    worst = int(np.argmax(errors))
    assert errors[worst] <= ULP[op][DTYPES.index(dtype)] + 1e-3, [x[worst] for x in operands]


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
def test_angles_near_multiples_of_a_quarter_turn(op: str) -> None:
    rng = np.random.default_rng(3)
    with mpmath.workprec(250):
        counts = np.round(np.exp2(rng.uniform(0, 44, 150)))
        x = np.array([float(int(n) * mpmath.pi / 2) for n in counts])
        x = np.concatenate([x, np.nextafter(x, 0), x + 1e-4])
        for angle, y in zip(x, machine(op, DTYPES[0])(x), strict=True):
            exact = _exact(op, [angle])
            error = abs(mpmath.mpf(float(y)) - exact) / float(np.spacing(abs(float(exact))))
            assert error <= ULP[op][0], angle


@pytest.mark.parametrize("op", ["sin", "cos", "tan"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_larger_angles_are_left_to_numpy(op: str, dtype: np.dtype[Any]) -> None:
    for x in (LARGEST_ANGLE, 1e20, -1e30, np.finfo(dtype).max):
        result, found = _flagged(machine(op, dtype, 16), [x])
        assert np.isnan(result) and found == {"invalid"}
    result, found = _flagged(machine(op, dtype, 16), [np.nextafter(dtype.type(LARGEST_ANGLE), 0)])
    assert np.isfinite(result) and not found


def test_exact_results() -> None:
    for dtype in DTYPES:
        exponents = np.arange(*((-1074, 1024) if dtype == np.float64 else (-149, 128)))
        powers = np.ldexp(dtype.type(1), exponents)
        k = exponents.astype(dtype)
        np.testing.assert_array_equal(machine("exp2", dtype)(k), powers)
        np.testing.assert_array_equal(machine("log2", dtype)(powers), k)
        small = np.arange(-20, 21).astype(dtype)
        np.testing.assert_array_equal(machine("cbrt", dtype)(small**3), small)
        np.testing.assert_array_equal(
            machine("power", dtype)(small, np.full_like(small, 3)), small**3
        )
        legs = np.array([3, 5, 8, 7, 20], dtype), np.array([4, 12, 15, 24, 21], dtype)
        np.testing.assert_array_equal(machine("hypot", dtype)(*legs), [5, 13, 17, 25, 29])
        tens = np.array([10.0**n for n in range(11)], dtype)
        np.testing.assert_array_equal(machine("log10", dtype)(tens), np.arange(11))


# -- special values and flags --

FLAGS = {"invalid": 1, "divide": 4, "overflow": 8}
"""The bits of MXCSR, as the C library of Linux on x86 names them."""


@functools.cache
def _environment() -> Any:
    """Return the C library whose functions read flags."""
    try:
        library = ctypes.CDLL("libm.so.6")
    except OSError:
        library = None
    if library is None or platform.machine() != "x86_64":
        pytest.skip("reads floating-point flags on Linux, x86-64")
    return library


def _flagged(machine: Machine, x: Sequence[float]) -> tuple[Any, set[str]]:
    """Return the result for operands in all lanes, and the flags that were raised."""
    library = _environment()
    arrays = [np.full(machine.size, value, machine.dtype) for value in x]
    out = np.empty(machine.size, machine.dtype)
    pointers = [array.ctypes.data for array in (*arrays, out)]
    library.feclearexcept(61)
    machine.function(*pointers, None)
    raised = library.fetestexcept(61)
    np.testing.assert_array_equal(out, out[0])
    return out[0], {name for name, bit in FLAGS.items() if raised & bit}


SPECIAL = [
    0.0, 5e-324, 1e-310, 1e-300, 1e-40, 1e-20, 1e-8, 0.3, 0.5, 0.9999999, 1.0, 1.0000001, 1.5, 2.0,
    2.5, 3.0, 20.0, 88.0, 89.0, 104.0, 128.0, 150.0, 709.0, 709.8, 711.0, 746.0, 1024.0, 1075.0,
    1e7, 1e20, 3e38, 1e300, 1.7e308, INF, NAN,
]  # fmt: skip
FEW = [0.0, 5e-324, 1e-40, 0.5, 1.0, 1.5, 2.0, 3.0, 709.0, 1e20, 1e300, INF, NAN]
POLES: dict[str, Callable[..., bool]] = {
    "log": lambda x: x == 0, "log2": lambda x: x == 0, "log10": lambda x: x == 0,
    "log1p": lambda x: x == -1, "arctanh": lambda x: abs(x) == 1,
    "power": lambda x, y: x == 0 and y < 0, "floor_divide": lambda x, y: y == 0 and abs(x) < INF,
}  # fmt: skip


def _special_operands(op: str, dtype: np.dtype[Any]) -> list[tuple[Any, ...]]:
    count = operand_count(KERNELS[op])
    chosen = FEW if count == 2 else SPECIAL
    with np.errstate(all="ignore"):
        values = np.unique(np.array(chosen).astype(dtype))
    return list(itertools.product([*values, *-values], repeat=count))


def _numpy_result(op: str, x: tuple[Any, ...]) -> Any:
    if op == "sigmoid":
        return np.exp(-np.logaddexp(type(x[0])(0), -x[0]))
    if op in ("erf", "erfc"):
        return type(x[0])(getattr(math, op)(x[0]))
    return getattr(np, op)(*[np.array([value]) for value in x])[0]  # scalars have ways of their own


def _expected_flags(op: str, x: tuple[Any, ...], result: Any) -> set[str]:
    if np.isnan(result):
        return set() if any(np.isnan(value) for value in x) else {"invalid"}
    if op in POLES and POLES[op](*x):
        return {"divide"}
    return {"overflow"} if np.isinf(result) and all(np.isfinite(value) for value in x) else set()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("size", [1, 16])
@pytest.mark.parametrize(("op", "dtype"), CASES)
def test_special_values_and_flags(op: str, dtype: np.dtype[Any], size: int) -> None:
    is_angle = op in ("sin", "cos", "tan")
    for x in _special_operands(op, dtype):
        if is_angle and LARGEST_ANGLE <= abs(x[0]) < INF:
            continue
        with np.errstate(all="ignore"):
            expected = _numpy_result(op, x)
        y, found = _flagged(machine(op, dtype, size), x)
        if op == "floor_divide" and np.isinf(expected):
            found.discard("invalid")  # NumPy raises it too, if a quotient overflows
        assert found == _expected_flags(op, x, expected), (op, x, y, found)
        if np.isnan(expected) or np.isinf(expected) or expected == 0:
            np.testing.assert_array_equal(y, expected)
            assert np.isnan(expected) or np.signbit(y) == np.signbit(expected), (op, x, y)
        else:
            assert abs(y - expected) <= 6 * _unit(op, dtype, expected, x), (op, x, y)


# -- coefficients --


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_are_as_accurate_as_stated(name: str) -> None:
    polynomial = POLYNOMIALS[name]
    assert polynomial.error() > polynomial.bits
