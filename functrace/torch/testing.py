"""``torch.testing``: `assert_close`, and random tensors for tests.

Layer: 9.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from functrace.torch.random.generator import GENERATOR
from functrace.torch.random.numbers import integers, uniforms
from functrace.torch.tensors.dtypes import DTYPES, default_float, dtype, limits_of
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor, fresh
from functrace.typing import Array

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_TOLERANCES = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip
"""Relative and absolute tolerance of each dtype; of others, zero."""


@final
class _Difference(Exception):
    """A difference, and the keys that lead to it."""

    def __init__(self, kind: type[Exception], text: str) -> None:
        super().__init__(text)
        self.kind, self.text = kind, text
        self.keys: tuple[Any, ...] = ()


@final
class _Comparison:
    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options

    def compare(self, actual: Any, expected: Any) -> None:
        """Compare two values, recursively."""
        if isinstance(actual, Mapping) and isinstance(expected, Mapping):
            self._mappings(actual, expected)
        elif _is_sequence(actual) and _is_sequence(expected):
            if len(actual) != len(expected):
                raise _Difference(
                    AssertionError,
                    f"The length of the sequences mismatch: {len(actual)} != {len(expected)}",
                )
            for k, (a, b) in enumerate(zip(actual, expected, strict=True)):
                self._at(k, a, b)
        elif actual is None or expected is None:
            if actual is not expected:
                raise _Difference(AssertionError, f"None mismatch: {actual} is not {expected}")
        elif isinstance(actual, bool | np.bool_) and isinstance(expected, bool | np.bool_):
            if actual != expected:
                text = f"Booleans mismatch: {actual} is not {expected}"
                raise _Difference(AssertionError, text)
        elif _is_number(actual) and _is_number(expected):
            self._numbers(actual, expected)
        else:
            self._arrays(actual, expected)

    def _at(self, key: object, actual: object, expected: object) -> None:
        try:
            self.compare(actual, expected)
        except _Difference as found:
            found.keys = (key, *found.keys)
            raise

    def _mappings(self, actual: Mapping[Any, Any], expected: Mapping[Any, Any]) -> None:
        missing = sorted(set(expected) - set(actual), key=str)
        more = sorted(set(actual) - set(expected), key=str)
        if missing or more:
            raise _Difference(
                AssertionError,
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {missing}\n"
                f"Additional keys in the actual mapping: {more}",
            )
        for key in actual:
            self._at(key, actual[key], expected[key])

    def _tolerances(self, *dtypes: str) -> tuple[float, float]:
        rtol, atol = self.options["rtol"], self.options["atol"]
        if (rtol is None) != (atol is None):
            given = "rtol" if rtol is None else "atol"
            raise _Difference(
                ValueError,
                f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {given}.",
            )
        if rtol is not None:
            return rtol, atol
        found = [_TOLERANCES.get(name, (0.0, 0.0)) for name in dtypes]
        return max(r for r, _ in found), max(a for _, a in found)

    def _numbers(self, actual: Any, expected: Any) -> None:
        if self.options["check_dtype"] and type(actual) is not type(expected):
            raise _Difference(
                AssertionError,
                f"The (d)types do not match: {type(actual)} != {type(expected)}.",
            )
        kinds = [_NUMBER_DTYPES[type(x)] for x in (actual, expected) if type(x) in _NUMBER_DTYPES]
        rtol, atol = self._tolerances(*kinds)
        nan = cmath.isnan(complex(actual)) and cmath.isnan(complex(expected))
        if (nan and self.options["equal_nan"]) or actual == expected:
            return
        difference = abs(actual - expected)
        if difference <= atol + rtol * abs(expected) and math.isfinite(abs(expected)):
            return
        relative = difference / abs(expected) if expected else math.inf
        raise _Difference(
            AssertionError, _scalars(actual, expected, difference, relative, rtol, atol)
        )

    def _arrays(self, actual: object, expected: object) -> None:
        kinds = type(actual), type(expected)
        if not (isinstance(actual, Tensor) and isinstance(expected, Tensor)):
            same = all(isinstance(x, (np.ndarray, np.generic)) for x in (actual, expected))
            if not same or (kinds[0] is not kinds[1] and not self.options["allow_subclasses"]):
                raise _Difference(
                    TypeError,
                    f"No comparison pair was able to handle inputs of type {kinds[0]} and "
                    f"{kinds[1]}.",
                )
            a, b = np.asarray(actual), np.asarray(expected)
        else:
            a, b = actual.detach()._array, expected.detach()._array
        self._attribute("shape", Size(a.shape), Size(b.shape))
        if self.options["check_dtype"]:
            self._attribute("dtype", DTYPES[a.dtype], DTYPES[b.dtype])
        if self.options["check_stride"]:
            strides = [tuple(n // x.itemsize for n in x.strides) for x in (a, b)]
            self._attribute("stride()", *strides)
        rtol, atol = self._tolerances(a.dtype.name, b.dtype.name)
        whole = "V" in a.dtype.kind + b.dtype.kind and a.dtype != b.dtype  # NumPy has no bfloat16
        common = np.dtype(np.float64) if whole else np.result_type(a, b)
        _compare_elements(a.astype(common), b.astype(common), rtol, atol, self.options["equal_nan"])

    @staticmethod
    def _attribute(name: str, a: object, b: object) -> None:
        if a != b:
            raise _Difference(
                AssertionError, f"The values for attribute '{name}' do not match: {a} != {b}."
            )


_NUMBER_DTYPES = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}


def _is_number(x: object) -> bool:
    return isinstance(x, (int, float, complex)) and not isinstance(x, np.generic)


def _is_sequence(x: object) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _scalars(
    actual: object, expected: object, difference: object, relative: object, rtol: float, atol: float
) -> str:
    is_equality = not rtol and not atol
    allowed = ["" if is_equality else f" (up to {t} allowed)" for t in (atol, rtol)]
    return (
        f"Scalars are not {'equal' if is_equality else 'close'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {difference}{allowed[0]}\n"
        f"Relative difference: {relative}{allowed[1]}"
    )


def _compare_elements(a: Array, b: Array, rtol: float, atol: float, equal_nan: bool) -> None:
    is_float = a.dtype.kind in "fcV"
    with np.errstate(all="ignore"):
        if is_float:
            matches = np.isclose(a, b, rtol, atol, equal_nan)
        else:
            # differences of unsigned numbers would wrap around
            exact, other = a.astype(np.int64), b.astype(np.int64)
            matches = np.abs(exact - other) <= atol + rtol * np.abs(other)
            a, b = exact, other
        if matches.all():
            return
        difference = np.abs(a - b)
        scale = np.abs(b) if is_float else np.abs(b).astype(np.float32)
        relative = difference.astype(scale.dtype) / scale
    difference = np.where(matches & (a == b), 0, difference)
    relative = np.where(matches & (a == b), 0, relative)
    if not a.ndim:
        text = _scalars(a.item(), b.item(), difference.item(), relative.item(), rtol, atol)
        raise _Difference(AssertionError, text)
    raise _Difference(AssertionError, _elements(matches, difference, relative, rtol, atol))


def _elements(matches: Array, difference: Array, relative: Array, rtol: float, atol: float) -> str:
    is_equality = not rtol and not atol
    count = int((~matches).sum())
    lines = [
        f"Tensor-likes are not {'equal' if is_equality else 'close'}!\n",
        f"Mismatched elements: {count} / {matches.size} ({count / matches.size:.1%})",
    ]
    for name, values, limit in (("absolute", difference, atol), ("relative", relative, rtol)):
        place = int(np.argmax(np.where(np.isnan(values), np.inf, values)))
        index = tuple(int(k) for k in np.unravel_index(place, values.shape))
        allowed = "" if is_equality else f" (up to {limit} allowed)"
        found = values.ravel()[place].item()
        lines.append(f"Greatest {name} difference: {found} at index {index}{allowed}")
    return "\n".join(lines)


def assert_close(
    actual: object,
    expected: object,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise unless two tensors, numbers, or containers of them are close.

    Args:
        actual: the first value.
        expected: the second one; differences are relative to it.
        allow_subclasses: False to require arrays of one class.
        rtol: relative tolerance; by default that of the dtype.
        atol: absolute tolerance; by default that of the dtype.
        equal_nan: True to take two nan for equal.
        check_device: ignored: there is one device.
        check_dtype: False to compare other dtypes too.
        check_layout: ignored: there is one layout.
        check_stride: True to compare strides.
        msg: the message, or a function of it.

    Raises:
        AssertionError: if they are not.
        TypeError: for other objects.
        ValueError: if only one tolerance is passed.

    Example:
        >>> import functrace.torch as torch
        >>> torch.testing.assert_close(torch.ones(2), torch.ones(2) + 1e-7)
    """
    given = {
        "rtol": rtol,
        "atol": atol,
        "equal_nan": equal_nan,
        "check_dtype": check_dtype,
        "check_stride": check_stride,
        "allow_subclasses": allow_subclasses,
    }
    try:
        _Comparison(given).compare(actual, expected)
        return
    except _Difference as found:
        kind, text = found.kind, found.text
        if found.keys:
            text += "\n\nThe failure occurred for item " + "".join(f"[{k!r}]" for k in found.keys)
    if kind is AssertionError and msg is not None:
        text = msg(text) if callable(msg) else msg
    raise kind(text)


def assert_allclose(
    actual: object,
    expected: object,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Raise unless two tensors are close (deprecated: use `assert_close`)."""
    if not isinstance(actual, Tensor):
        actual = fresh(np.asarray(actual, default_float()))
    if not isinstance(expected, Tensor):
        expected = fresh(np.asarray(expected, actual._array.dtype))
    assert_close(
        actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False,
        msg=msg or None,
    )  # fmt: skip


def make_tensor(
    *shape: object,
    dtype: dtype,
    device: object = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: object = None,
) -> Tensor:
    """Return a random tensor, uniform in an interval.

    Args:
        shape: the sizes.
        dtype: the dtype.
        device: the CPU.
        low: least number; by default -9, or for unsigned integers 0.
        high: upper bound; by default 9 for floats, 10 for integers, 2 for bools.
        requires_grad: True for a leaf that requires grad.
        noncontiguous: True for a tensor with gaps in memory.
        exclude_zero: True to replace zeros by a positive number.
        memory_format: ignored.
    """
    is_sequence = len(shape) == 1 and not isinstance(shape[0], int)
    first: Any = shape[0] if is_sequence else shape
    sizes: tuple[int, ...] = tuple(first)
    kind = dtype.numpy
    if noncontiguous:
        sizes = (*sizes[:-1], 2 * sizes[-1]) if sizes else sizes
    count = math.prod(sizes)
    least = (0 if kind.kind in "ub" else -9) if low is None else low
    most = {"f": 9, "c": 9, "b": 2}.get(kind.kind, 10) if high is None else high
    if kind.kind in "iub":
        numbers = integers(GENERATOR.engine, count, int(least), int(most) - int(least), kind)
    else:
        numbers = uniforms(GENERATOR.engine, count, kind, least, most)
    array = numbers.reshape(sizes)
    if exclude_zero:
        smallest = limits_of(kind).tiny if kind.kind in "fcV" else 1
        array[array == 0] = smallest
    made = fresh(array)
    if noncontiguous and sizes:
        made = made[..., 1::2]
    return made.requires_grad_(requires_grad)
