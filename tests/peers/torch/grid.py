"""Grids of expressions: each is evaluated with the real PyTorch and with `functrace.torch`, and the
outcomes compared.

An outcome is a value (with dtype, shape and ``requires_grad``) or a refusal (the class of the
exception and its message).
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from types import CodeType, ModuleType
from typing import Any

import numpy as np

DTYPES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
NUMBERS: Mapping[str, Any] = {
    "True": True,
    "2": 2,
    "-1": -1,
    "300": 300,
    "0": 0,
    "1.5": 1.5,
    "1j": 1j,
}
_ONCE_OR_NUMPYS = (
    "Casting complex",
    "__array",
    "overflow",
    "invalid value",
    "divide by zero",
    "Using a target size",
)
"""Beginnings of warnings that PyTorch gives once per process, or that NumPy gives on request."""
_TOLERANCE = {"float16": 2e-3, "float32": 2e-5, "complex64": 2e-5}

_VALUES: Mapping[str, list[Any]] = {
    "b": [True, False, True], "u": [254, 0, 3], "i": [-2, 0, 3], "f": [-1.5, 0.0, 2.5],
    "c": [1 - 2j, 0.5j, 3 + 0.5j],
}  # fmt: skip
_OTHERS: Mapping[str, list[Any]] = {
    "b": [True, True, False], "u": [7, 1, 3], "i": [3, -1, 2], "f": [2.0, -0.5, 2.5], "c": [1j,
    2 + 1j, 3 + 0.5j],
}  # fmt: skip


def array(dtype: str, shape: tuple[int, ...], second: bool = False) -> Any:
    """Return the array that stands for operands of a dtype; ``second`` for other numbers than those
    of the first.
    """
    values = (_OTHERS if second else _VALUES)[np.dtype(dtype).kind]
    found = np.array(values[2 if not shape else 0 :][:1] if not shape else values, dtype)
    return found.reshape(()) if not shape else np.resize(found, shape)


def operands(
    shapes: Iterable[tuple[int, ...]] = ((), (3,)), *, second: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield names of operands, and what makes them of a library: tensors of every dtype and shape."""
    for dtype in DTYPES:
        for shape in shapes:
            given = array(dtype, shape, second)
            yield f"{dtype}{list(shape)}", lambda torch, given=given: torch.from_numpy(given.copy())


def others() -> Iterator[tuple[str, Any]]:
    """Yield second operands: tensors, Python's numbers, NumPy's numbers and arrays, and what
    nothing computes with.
    """
    yield from operands(second=True)
    for name, value in NUMBERS.items():
        yield name, lambda torch, value=value: value
    for name, value in {
        "np.float64(1.5)": np.float64(1.5), "np.float32(1.5)": np.float32(1.5),
        "np.int32(2)": np.int32(2),
        "np.bool_(True)": np.bool_(True), "ndarray f64": np.array([1.5, 2.5, 0.5]),
        "ndarray i64": np.array([1, 2, 3]),
        "ndarray f32 0-d": np.array(1.5, np.float32), "None": None, "text": "a", "list": [1.0, 2.0,
        3.0],
    }.items():  # fmt: skip
        yield name, lambda torch, value=value: value


class Outcome:
    """The outcome of an expression with one of the libraries."""

    def __init__(self, torch: ModuleType, code: CodeType, given: Mapping[str, Any]) -> None:
        scope = {
            "torch": torch,
            "np": np,
            "F": torch.nn.functional,
            **{k: make(torch) for k, make in given.items()},
        }
        self.error: Exception | None = None
        self.value: Any = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self.value = plain(torch, eval(code, scope))
            except Exception as error:
                self.error = error
        texts = [str(w.message).split(" (Triggered internally")[0] for w in caught]
        self.warned = [text for text in texts if not text.startswith(_ONCE_OR_NUMPYS)]

    def __repr__(self) -> str:
        if self.error is not None:
            return f"{type(self.error).__name__}: {str(self.error)[:150]}"
        return repr(self.value)[:200]


def plain(torch: ModuleType, value: Any) -> Any:
    """Return a value as nested tuples that can be compared across the libraries."""
    if isinstance(value, torch.Tensor):
        found = value.detach()
        return (
            "tensor",
            str(value.dtype).removeprefix("torch."),
            tuple(value.shape),
            value.requires_grad,
            found.tolist(),
        )
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.name, value.shape, value.tolist())
    if isinstance(value, np.generic):
        return ("scalar", value.dtype.name, value.item())
    if isinstance(value, (tuple, list)):
        return (type(value).__name__.rpartition(".")[2], tuple(plain(torch, v) for v in value))
    if isinstance(value, (bool, int, float, complex, str)) or value is None:
        return (type(value).__name__, value)
    return (type(value).__name__, str(value))


def close(a: Any, b: Any, tolerance: float = 1e-10) -> bool:
    """Return whether two of what `plain` returns are the same, up to rounding."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        if len(a) > 2 and isinstance(a[1], str):
            tolerance = _TOLERANCE.get(a[1], tolerance)
        return (
            type(a) is type(b)
            and len(a) == len(b)
            and all(close(x, y, tolerance) for x, y in zip(a, b, strict=True))
        )
    if type(a) is not type(b):
        return False
    if isinstance(a, complex):
        return close(a.real, b.real, tolerance) and close(a.imag, b.imag, tolerance)
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or math.isclose(
            a, b, rel_tol=tolerance, abs_tol=tolerance
        )
    return bool(a == b)


def difference(expected: Outcome, found: Outcome, *, sentences: bool) -> str:
    """Return how the second outcome differs from PyTorch's; empty if it does not."""
    if expected.error is None and found.error is None:
        if not close(expected.value, found.value):
            return "value"
        return (
            ""
            if set(expected.warned) == set(found.warned)
            else f"warning {expected.warned} {found.warned}"
        )
    if "complex32" in str(found.error):
        return ""  # a dtype that NumPy hasn't, and neither has the shim, which says so
    if expected.error is None or found.error is None:
        return "refuses" if expected.error is None else "accepts"
    if not isinstance(found.error, type(expected.error)) or type(found.error).__module__ == "numpy":
        return "class"
    sentences = sentences and not isinstance(expected.error, TypeError)  # those list signatures
    return "sentence" if sentences and first_line(expected.error) != first_line(found.error) else ""


def first_line(error: Exception) -> str:
    """Return the first line of an exception's message."""
    return str(error).partition("\n")[0]


def compare(
    expression: str, given: Mapping[str, Any], *, sentences: bool = True
) -> tuple[str, Outcome, Outcome]:
    """Evaluate an expression with both libraries; returns the difference and the outcomes."""
    code = compile(expression, "<grid>", "eval")
    expected, found = (
        Outcome(importlib.import_module(name), code, given) for name in ("torch", "functrace.torch")
    )
    return difference(expected, found, sentences=sentences), expected, found
