"""Multi-threaded ufuncs: single operations on large arrays outside of fusion groups, un-jitted or
in the PyTorch API.

A ufunc computes every element separately, so each thread calls it on a span of the operands and the
result. Operations in a fusion group are threaded with it (executor/parallel/blocks.py): block by
block, while a block is in cache. A single operation reads and writes each element once, so its
spans are as large as possible.

Note [Spans, bit for bit the same]
    NumPy's SIMD loops compute several numbers at a time, and the remainder in another way. Spans
    end at multiples of `SPAN` elements, or with rows, so the same numbers share a vector as in the
    whole array, and only the last span has a remainder. That span has `SPAN` or more elements: for
    a single number even the sign of a NaN may differ.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from functrace.executor.allocator import FREED
from functrace.ir.aval import ShapeDtype
from functrace.ir.program import Program
from functrace.ops.contraction import dot_p, matmul_p
from functrace.ops.elementwise import loop_dtypes
from functrace.threads import THREADS, Take
from functrace.tracing.lines import warn
from functrace.typing import Array, Scalar

LEAST_BYTES = 3 << 20
"""Minimum bytes of the largest operand or result; below it, dispatch costs as much as threads save.

Measured with two threads, float32 products of 2, 3 and 4 MB: 0.21, 0.32 and 0.46 ms whole, 0.24,
0.31 and 0.38 in spans.
"""

SPAN = 1 << 13
"""Elements; the number that NumPy converts at a time."""

SLOW: dict[np.ufunc, str] = {
    np.sin: "dFD", np.cos: "dFD", np.tan: "FD", np.tanh: "FD", np.exp: "FD", np.log: "FD",
    np.sqrt: "FD", np.power: "FD",
    np.hypot: "fd", np.remainder: "fd", np.fmod: "fd", np.floor_divide: "fd",
}  # fmt: skip
"""Functions at least `MUCH` times as slow as an addition, with the dtypes for which they are."""
MUCH = 8

SPINNING = frozenset({matmul_p, dot_p})
"""Products that BLAS runs on its own threads. These spin for 100 ms while they wait for the next
product, on the cores that spans would use: a program of such a product and a multiplication of 4
MB takes 0.71 ms with spans, and 0.61 without.
"""

_KINDS = ("divide by zero", "overflow", "underflow", "invalid value")
"""Floating-point errors, in NumPy's order of warnings."""


def spread_operations(program: Program) -> dict[int, ParallelUfunc]:
    """Return multi-threaded ufuncs for the operations of a program that are large enough.

    Cost:
        50 ns per operation of a program without large arrays.
    """
    least = LEAST_BYTES // MUCH
    are_large = any(_is_concrete(aval) and aval.nbytes >= least for aval in set(program.avals))
    if not are_large or not program.kinds.isdisjoint(SPINNING):
        return {}
    made: dict[int, ParallelUfunc] = {}
    for k, _ in program.schedule:
        primitive, operands, _ = program.ops[k]
        ufunc = primitive.eval
        if isinstance(ufunc, np.ufunc) and primitive.is_ufunc and program.avals[k].shape:
            found = spread_ufunc(
                ufunc, [program.avals[i] for i in operands if i >= 0], program.avals[k]
            )
            if found is not None:
                made[k] = found
    return made


def spread_ufunc(
    ufunc: np.ufunc, specs: Sequence[Any], made: ShapeDtype | None = None
) -> ParallelUfunc | None:
    """Return a multi-threaded version of a ufunc with one result.

    Args:
        ufunc: the function.
        specs: avals of array arguments, types of scalar arguments.
        made: the result's aval; by default, NumPy's.

    Returns:
        a function with the ufunc's signature, including a target; None if arrays are small.
    """
    avals = [spec for spec in specs if isinstance(spec, ShapeDtype)]
    if ufunc.nout != 1 or not _are_large(ufunc, avals if made is None else [*avals, made]):
        return None
    if made is None:
        dtype = loop_dtypes(ufunc, specs)[-1]
        made = ShapeDtype(np.broadcast_shapes(*[aval.shape for aval in avals]), dtype)
    return ParallelUfunc(ufunc, made)


def _are_large(ufunc: np.ufunc, avals: Sequence[ShapeDtype]) -> bool:
    slow = SLOW.get(ufunc, "")
    factors = [MUCH if aval.dtype.char in slow else 1 for aval in avals]
    return all(map(_is_concrete, avals)) and any(
        f * x.nbytes >= LEAST_BYTES for f, x in zip(factors, avals, strict=True)
    )


def _is_concrete(aval: ShapeDtype) -> bool:
    """Return True if all sizes are known."""
    return all(type(n) is int for n in aval.shape)


@final
class ParallelUfunc:
    """A multi-threaded ufunc.

    Args:
        ufunc: the function.
        made: the aval of its result.
    """

    __slots__ = ("_count", "_dtype", "_shape", "_ufunc")

    def __init__(self, ufunc: np.ufunc, made: ShapeDtype) -> None:
        self._ufunc, self._count = ufunc, ufunc.nin
        self._shape, self._dtype = made.shape, made.dtype

    def __call__(self, *operands: Array | Scalar, out: Array | None = None) -> Any:
        """Compute the result."""
        if len(operands) > self._count:
            operands, out = operands[:-1], operands[-1]  # type: ignore[assignment]
        noted = set[str]()
        modes = modes_noting(lambda kind, _flag: noted.add(kind)) if THREADS.count > 1 else None
        divided = None if modes is None else self._divided(operands, out)
        if modes is None or divided is None:
            return self._ufunc(*operands) if out is None else self._ufunc(*operands, out=out)
        given, bounds, is_flat = divided
        made = np.empty(self._shape, self._dtype) if out is None else out
        if out is None:
            FREED.used(made.nbytes)
        target = made.reshape(-1) if is_flat else made
        parts, ufunc = len(bounds) - 1, self._ufunc

        def work(take: Take) -> None:
            while (n := take()) < parts:
                start, stop = bounds[n], bounds[n + 1]
                ufunc(
                    *[x[start:stop] if sliced else x for x, sliced in given], out=target[start:stop]
                )

        if "call" in modes:
            with np.errstate(**modes):
                THREADS.share(work, parts)
        else:
            THREADS.share(work, parts)
        for kind in _KINDS:
            if kind in noted:
                warn(kind, 0)
        return made

    def _divided(
        self, operands: Sequence[Any], out: Array | None
    ) -> tuple[list[tuple[Any, bool]], list[int], bool] | None:
        """Return operands with flags (sliced or not), bounds of spans, and True if spans are of
        elements, not rows.

        None, if the operands' layout does not allow spans.
        """
        shape, count = self._shape, THREADS.count
        arrays = [x for x in operands if _is_array(x)]
        if out is not None and (out.shape != shape or not out.flags.c_contiguous):
            return None
        for x in arrays if out is None else (*arrays, out):
            if type(x) is not np.ndarray or not (
                x.flags.aligned and (x.flags.c_contiguous or _is_one(x))
            ):
                return None
        full = [x for x in arrays if x.shape == shape and not _is_one(x)]
        is_flat = bool(full) and all(x.shape == shape or not x.ndim for x in arrays)
        if is_flat:
            size, unit = math.prod(shape), SPAN
            given = [
                (x.reshape(-1), True) if any(x is y for y in full) else (_number(x), False)
                for x in operands
            ]
        elif len(shape) > 1 and shape[0] >= count and (full or not any(_is_one(x) for x in arrays)):
            size, unit = shape[0], 1
            given = [
                (x, _is_array(x) and x.ndim == len(shape) and x.shape[0] == size) for x in operands
            ]
        else:
            return None
        return given, [*[size // unit * n // count * unit for n in range(count)], size], is_flat


def _is_array(x: object) -> bool:
    return isinstance(x, np.ndarray)


def _is_one(x: NDArray[Any]) -> bool:
    """Return True if an array is a broadcast number."""
    return x.ndim > 0 and not any(x.strides)


def _number(x: object) -> Any:
    """Return a scalar unchanged, and an array of one number as that number."""
    array: Any = x
    return array[(0,) * array.ndim] if _is_array(x) and array.ndim else x


def modes_noting(note: Callable[[str, int], object]) -> dict[str, Any] | None:
    """Return arguments of ``numpy.errstate`` that collect floating-point warnings while several
    threads work.

    A warning is issued once, at the user's line, which only the caller's stack contains.

    Args:
        note: function of the kind of an error, called in the thread in which it occurs.

    Returns:
        arguments of ``numpy.errstate``; ``None`` if errors raise, or have any other effect.
    """
    modes: dict[str, Any] = dict(np.geterr())
    wanted = set(modes.values())
    if wanted == {"ignore"}:
        return modes
    if not wanted <= {"ignore", "warn", "call"} or (
        "call" in wanted and np.geterrcall() is not warn
    ):
        return None
    return {
        **{kind: "ignore" if mode == "ignore" else "call" for kind, mode in modes.items()},
        "call": note,
    }
