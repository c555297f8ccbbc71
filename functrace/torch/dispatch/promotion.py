"""Dtype promotion as in PyTorch: Python numbers are weak, 0-d tensors are weak within a category,
integers divide to floats.

A `Promotion` takes a function and the specs of its operands, and returns the function that
converts operands first, or the same function if nothing needs converting. The conversions are part
of the traced function, so gradients come back in the operands' dtypes. Checks (`for_kinds`,
`of_tensors` …) refuse unsupported operands with PyTorch's messages.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from functrace.errors import FunctraceError
from functrace.ir.aval import ShapeDtype, broadcast_shapes
from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.tensors.dtypes import DTYPES, default_complex, default_float, limits_of
from functrace.tracing import Tracer

Check = Callable[[Sequence[Any], np.dtype[Any]], None]
"""Refuses operands, from their specs and the common dtype."""

Promote = Callable[[Callable[..., Any], Sequence[Any]], Callable[..., Any]]
"""Type of a `Promotion`: from a function and the specs of its operands to the function that
converts them first.
"""

RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}
"""Rank of each kind of dtype in promotion."""


@final
@dataclass(frozen=True)
class Promotion:
    """Promotion rule of an operation.

    Args:
        floats: True if integers become the default float.
        skips: number of leading operands that take no part.
        checks: checks that refuse operands.
        ``returns_bool``: True if the result is a bool array, which may be written into tensors of every
            dtype.
        broadcasts: True if the shapes of operands must broadcast.
        of_complex: the function for complex numbers, if it differs.
    """

    floats: bool = False
    skips: int = 0
    checks: tuple[Check, ...] = ()
    returns_bool: bool = False
    broadcasts: bool = True
    of_complex: Callable[..., Any] | None = None

    def checked(self, *checks: Check) -> Promotion:
        """Return the same promotion with more checks."""
        return replace(self, checks=(*self.checks, *checks))

    def dtype(self, specs: Sequence[Any]) -> np.dtype[Any]:
        """Return the dtype that operands are converted to."""
        found = common_dtype(specs[self.skips :])
        return default_float() if self.floats and found.kind not in "fcV" else found

    def __call__(self, function: Callable[..., Any], specs: Sequence[Any]) -> Callable[..., Any]:
        """Return the function with its operands converted.

        Raises:
            RuntimeError: for shapes that do not broadcast, and from the checks.
        """
        dtype = self.dtype(specs)
        for check in self.checks:
            check(specs, dtype)
        if self.broadcasts:
            check_shapes(specs)
        computes = (
            self.of_complex if self.of_complex is not None and dtype.kind == "c" else function
        )
        return _converting(computes, specs, dtype, self.skips)


arithmetic = Promotion()
"""Converts operands to their common dtype."""
floating = Promotion(floats=True)
"""Converts operands to their common dtype, integers to the default float."""
returning_bool = Promotion(returns_bool=True)
"""Converts operands to their common dtype; the result is bool (comparisons, predicates)."""


def common_dtype(specs: Sequence[Any]) -> np.dtype[Any]:
    """Return the dtype that operands promote to.

    Args:
        specs: avals; types of Python numbers, or ``(type, number)``.

    Raises:
        NotImplementedError: for half precision with complex numbers.
    """
    arrays = [s.dtype for s in specs if isinstance(s, ShapeDtype) and s.shape]
    scalars = [s.dtype for s in specs if isinstance(s, ShapeDtype) and not s.shape]
    numbers = [s if isinstance(s, type) else s[0] for s in specs if not isinstance(s, ShapeDtype)]
    result = _joined(arrays)
    for group in (_joined(scalars), _joined([_dtype_of_number(kind) for kind in numbers])):
        if group is not None and (result is None or RANK[group.kind] > RANK[result.kind]):
            result = _raised(group, result)
    assert result is not None, "an operation has operands"
    return result


def _joined(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any] | None:
    if not dtypes:
        return None
    result = dtypes[0]
    for d in dtypes[1:]:
        low, high = (d, result) if RANK[d.kind] < RANK[result.kind] else (result, d)
        # A higher kind wins whatever its width: int64 with float32 is float32.
        joins = RANK[low.kind] == RANK[high.kind] or low == np.float64
        if joins and low != high and "V" in (low.kind, high.kind):  # bfloat16 with another float
            result = np.promote_types(np.float32, high if low.kind == "V" else low)
        else:
            result = np.promote_types(low, high) if joins else high
    return result


def _raised(group: np.dtype[Any], before: np.dtype[Any] | None) -> np.dtype[Any]:
    if group.kind == "c" and before is not None and before.kind in "fV":
        if before == np.float16:
            raise NotImplementedError(errors.COMPLEX_HALF)
        return np.dtype(np.complex128 if before == np.float64 else np.complex64)
    return group


def _dtype_of_number(kind: type) -> np.dtype[Any]:
    if kind is float:
        return default_float()
    if kind is complex:
        return default_complex()
    return np.dtype(np.bool_ if kind is bool else np.int64)


def _converting(
    function: Callable[..., Any], specs: Sequence[Any], dtype: np.dtype[Any], skips: int = 0
) -> Callable[..., Any]:
    """The function that converts its operands to ``dtype`` first; numbers too, if they are not
    weak enough.
    """
    taking = specs[skips:]
    plain = not any(isinstance(s, ShapeDtype) for s in taking)
    wraps = dtype.kind in "ui" and dtype != np.int64
    moved = [False] * skips
    for s in taking:
        if isinstance(s, ShapeDtype):
            moved.append(s.dtype != dtype)
        else:
            kind = s if isinstance(s, type) else s[0]
            moved.append(plain or wraps or RANK[_dtype_of_number(kind).kind] > RANK[dtype.kind])
    if not any(moved):
        return function
    count = len(specs)

    def converted(*given: Any) -> Any:
        operands = [
            _cast(x, dtype) if flag else x for x, flag in zip(given[:count], moved, strict=True)
        ]
        return function(*operands, *given[count:])

    if dtype.kind == "V":  # the default dtype, beside integers
        return _rounding(converted, count, dtype)
    return converted


def _rounding(function: Callable[..., Any], count: int, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """The function of bfloat16 that computes in float32; see narrow.py."""

    def computed(*given: Any) -> Any:
        wide = [_cast(_cast(x, dtype), np.dtype(np.float32)) for x in given[:count]]
        result = function(*wide, *given[count:])
        return convert(result, dtype) if result.dtype == np.float32 else result

    return computed


def _cast(x: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(x, int) and not isinstance(x, bool) and not -(1 << 63) <= x < 1 << 64:
        raise OverflowError(errors.INTEGER_TOO_BIG)
    return (
        convert(x, dtype)
        if isinstance(x, (Tracer, np.ndarray))
        else np.asarray(x).astype(dtype)[()]
    )


def check_shapes(specs: Sequence[Any]) -> None:
    """Check that operands broadcast together.

    Raises:
        RuntimeError: with PyTorch's message.
    """
    full, *rest = [s.shape for s in specs if isinstance(s, ShapeDtype)] or [()]
    for shape in rest:
        if shape != full:
            check_broadcast(full, shape)
            full = broadcast_shapes(full, shape)


def check_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Check that two shapes broadcast together.

    Raises:
        RuntimeError: with PyTorch's message.
    """
    if a != b:
        try:
            broadcast_shapes(a, b)
        except (ValueError, FunctraceError):
            raise RuntimeError(errors.cannot_broadcast(a, b)) from None


def broadcasting(function: Callable[..., Any], specs: Sequence[Any]) -> Callable[..., Any]:
    """Leave operands unchanged; they must broadcast together."""
    check_shapes(specs)
    return function


# -- checks ----------------------------------------------------------------------------------------


def for_kinds(kinds: str, refusal: str, error: type[Exception] = NotImplementedError) -> Check:
    """Refuse dtypes of other kinds.

    Args:
        kinds: supported kinds, of ``"buifc"``.
        refusal: the error message, with ``{}`` for the dtype; or the name of PyTorch's kernel.
        error: class of the exception.
    """
    message = refusal if " " in refusal else errors.no_kernel(refusal)
    kinds = f"{kinds}V" if "f" in kinds else kinds  # bfloat16 is a float

    def check(_specs: Sequence[Any], dtype: np.dtype[Any]) -> None:
        if dtype.kind not in kinds:
            raise error(message.format(DTYPES[dtype].printed))

    return check


def of_tensors(name: str, *positions: str) -> Check:
    """Refuse numbers among the operands: each must be a tensor."""

    def check(specs: Sequence[Any], _dtype: np.dtype[Any]) -> None:
        for k, (spec, called) in enumerate(zip(specs, positions, strict=False)):
            if not isinstance(spec, ShapeDtype):
                kind = spec if isinstance(spec, type) else spec[0]
                raise TypeError(errors.must_be_tensor(name, called, k, kind.__name__))

    return check


def of_fitting_numbers(specs: Sequence[Any], dtype: np.dtype[Any]) -> None:
    """Refuse static numbers that do not fit the dtype."""
    for spec in specs:
        if type(spec) is tuple:
            check_fits(spec[1], dtype)


def check_fits(number: complex, dtype: np.dtype[Any]) -> None:
    """Check that a number fits a dtype; a fraction may be lost, and unsigned integers wrap
    negative integers.

    Raises:
        RuntimeError: if it does not fit.
    """
    fits = True
    parts: list[float] = []
    if isinstance(number, complex):
        fits = dtype.kind in "bc" or number.imag == 0
        parts, number = [number.imag], number.real
    parts.append(number)
    if fits and dtype.kind in "fcV":
        limit = float(limits_of(dtype).max)
        fits = all(
            type(part) not in (int, float) or not math.isfinite(part) or abs(part) <= limit
            for part in parts
        )  # only concrete numbers
    elif fits and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        is_float = isinstance(number, float)
        least = -int(limits.max) if dtype.kind == "u" and not is_float else int(limits.min)
        fits = math.isfinite(number) and (
            least <= (number if is_float else int(number)) <= int(limits.max)
        )
    if not fits:
        raise RuntimeError(errors.number_overflow(dtype.name))


def without_bools(specs: Sequence[Any], _dtype: np.dtype[Any]) -> None:
    """Refuse to subtract bools."""
    bools = [
        s.dtype == np.bool_
        if isinstance(s, ShapeDtype)
        else bool in (s if type(s) is tuple else (s,))
        for s in specs
    ]
    if any(bools):
        raise RuntimeError(errors.SUBTRACTING_BOOLS if all(bools) else errors.SUBTRACTING_A_BOOL)
