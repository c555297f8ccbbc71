"""NumPy kernels: how the executor spells a primitive where that is faster than its ``eval`` rule.

A kernel returns the expression for its operands (names in the generated code). ``bind_value`` gives a static
value a name there.

Floor: 6.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.executor.cache import holds
from functrace.executor.products import in_parts
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops.contraction import dot_p, matmul_in_parts_p
from functrace.ops.elementwise import ELEMENTWISE, loop_dtypes
from functrace.ops.indexing import decode_index, embed_p, index_p
from functrace.ops.joining import stack_p
from functrace.ops.reductions import reduce_max_p, reduce_min_p, reduce_sum_p
from functrace.ops.shaping import broadcast_to_p, permute_p, reshape_p, roll_p
from functrace.typing import Array, Scalar

_BY_WORD = (np.maximum, np.minimum)
"""Ufuncs that insist on ``out=``; to others a target is a last argument, which takes 0.03 us less."""


def spelled_target(primitive: Primitive, target: str) -> str:
    """Spell the array that a ufunc writes its result into."""
    return f"out={target}" if primitive.eval in _BY_WORD else target


BindValue = Callable[[Any], str]
Kernel = Callable[[tuple[str, ...], tuple[Any, ...], BindValue], str]
Index = tuple[Any, ...] | slice | int


def spelled_sizes(numbers: tuple[int, ...]) -> str:
    """Spell sizes or axes; whatever else a param may be, only integers reach the source."""
    return f"({''.join([f'{int.__repr__(operator.index(n))}, ' for n in numbers])})"


def _index(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    index = decode_index(params[0])
    return f"{operands[0]}[{bind_value(index[0] if len(index) == 1 else index)}]"


def _reduce_by(ufunc: np.ufunc) -> Kernel:
    """Spell a reduction."""

    def kernel(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
        # Measured on 9 elements: 0.5 us for the default axis 0, 1.2 us for an axis that is passed.
        axes = "" if params[0] == (0,) else f", {spelled_sizes(params[0])}"
        return f"{bind_value(ufunc.reduce)}({operands[0]}{axes})"

    return kernel


def _dot(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{operands[0]}.dot({', '.join(operands[1:])})"  # the method takes 0.15 us less than the function


def _in_parts(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{bind_value(in_parts)}({', '.join(operands)})"


def _stack(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{bind_value(stacked)}(({''.join([f'{name}, ' for name in operands])}), {bind_value(params[0])})"


def stacked(arrays: tuple[Array, ...], axis: int) -> Any:
    """Return ``np.stack``. Measured on three numbers: 0.6 us, against 5.9; on three vectors 0.8 or 2.1, against 4.7."""
    first = arrays[0]
    dtype, rank = first.dtype, first.ndim
    if rank > 1:
        return np.stack(arrays, axis)
    for x in arrays:
        if x.dtype is not dtype:
            return np.stack(arrays, axis)
    if not axis:
        return np.array(arrays)
    out = np.empty((first.shape[0], len(arrays)), dtype)
    for k, x in enumerate(arrays):
        out[:, k] = x
    return out


def _reshape(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{operands[0]}.reshape({spelled_sizes(params[0])})"


def _transpose(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{operands[0]}.transpose({spelled_sizes(params[0])})"


def _broadcast_to(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    # Small results are written out: 0.3 us, against 2.5 us for numpy.broadcast_to.
    shape = params[0]
    if math.prod(shape) > 4096:
        return f"{bind_value(np.broadcast_to)}({operands[0]}, {spelled_sizes(shape)})"
    return f"{bind_value(filled)}({operands[0]}, {spelled_sizes(shape)})"


def filled(x: Array, shape: tuple[int, ...]) -> Any:
    """Return ``x`` broadcast to a shape, written out."""
    out = np.empty(shape, x.dtype if hasattr(x, "dtype") else np.result_type(x))
    out[...] = x
    return out


def _roll(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    return f"{bind_value(rolled)}({operands[0]}, {bind_value(params[0])}, {bind_value(params[1])})"


def rolled(x: Array, shift: int, axis: int) -> Any:
    """Return ``np.roll`` along one axis, as two slices that are written. Measured on 256 x 256: 6 us, against 10."""
    out = np.empty_like(x)
    n = x.shape[axis]
    shift = shift % n if n else 0
    before = (slice(None),) * axis
    out[(*before, slice(shift, None))] = x[(*before, slice(None, n - shift))]
    if shift:
        out[(*before, slice(None, shift))] = x[(*before, slice(n - shift, None))]
    return out


def _embed(operands: tuple[str, ...], params: tuple[Any, ...], bind_value: BindValue) -> str:
    parts = decode_index(params[0])
    index = parts[0] if len(parts) == 1 else parts
    margins, shape = _margins(parts, params[1]), spelled_sizes(params[1])
    if margins is not None:  # measured on 200 x 200: 15 us, against 18 us when the zeros are written everywhere first
        return f"{bind_value(embedded_between)}({operands[0]}, {bind_value(index)}, {shape}, {bind_value(margins)})"
    return f"{bind_value(embedded)}({operands[0]}, {bind_value(index)}, {shape})"


def embedded(x: Array, index: Index, shape: tuple[int, ...]) -> Any:
    """Return zeros with ``x`` written at a decoded index."""
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out


def _margins(parts: tuple[Any, ...], shape: tuple[int, ...]) -> list[tuple[slice, ...]] | None:
    """What lies outside of a contiguous index, as further indices; ``None`` where it is more than the index itself."""
    if not all(type(part) is slice for part in parts) or math.prod(shape) < 4096:
        return None
    found: list[tuple[slice, ...]] = []
    inside = 1.0
    before: tuple[slice, ...] = ()
    for part, n in zip(parts, shape, strict=False):
        start, stop, step = part.indices(n)
        if step != 1 or stop <= start:
            return None
        found += [(*before, s) for s in (slice(0, start), slice(stop, n)) if s.start < s.stop]
        before = (*before, slice(start, stop))
        inside *= (stop - start) / n
    return found if inside > 0.5 else None


def embedded_between(x: Array, index: Index, shape: tuple[int, ...], margins: list[tuple[slice, ...]]) -> Any:
    """Return ``x`` written at an index, and zeros at what lies around it."""
    out = np.empty(shape, x.dtype)
    out[index] = x
    for margin in margins:
        out[margin] = 0
    return out


def read_as_laid_out(program: Program) -> set[int]:
    """Variables that are read, themselves or through views, by what may round otherwise if they lie otherwise in memory.

    Elementwise operations do not. A product of matrices does: with strides of 0, NumPy does not ask BLAS.
    """
    found: set[int] = set()
    for k in range(len(program.ops) - 1, -1, -1):
        primitive, operands, _ = program.ops[k]
        if primitive.batch is not ELEMENTWISE and (not primitive.view or k in found):
            found.update(operands)
    return found


KERNELS: dict[Primitive, Kernel] = {
    broadcast_to_p: _broadcast_to,
    dot_p: _dot,
    embed_p: _embed,
    index_p: _index,
    matmul_in_parts_p: _in_parts,
    reduce_max_p: _reduce_by(np.maximum),
    reduce_min_p: _reduce_by(np.minimum),
    reduce_sum_p: _reduce_by(np.add),
    reshape_p: _reshape,
    permute_p: _transpose,
    roll_p: _roll,
    stack_p: _stack,
}
"""Expression by primitive."""


def spelled_literal(program: Program, i: int, k: int, bind_value: Callable[[Any], str]) -> str:
    """Spell a Python number: as an array of the dtype that it takes on here, which NumPy handles faster.

    Measured on 3 elements: multiply(x, 1.01) 0.33 us, multiply(x, array(1.01)) 0.22 us.
    """
    value = program.literals[~i]
    kind: type[Scalar] = type(value)
    primitive, operands, _ = program.ops[k]
    ufunc = primitive.eval
    if isinstance(ufunc, np.ufunc) and kind in (int, float):
        specs = [program.avals[j] if j >= 0 else type(program.literals[~j]) for j in operands]
        wanted = loop_dtypes(ufunc, specs)[operands.index(i)]
        if wanted.kind == "f" and holds(wanted, value):
            return bind_value(np.asarray(value, wanted))
    if kind is bool or (kind is int and abs(value) < 1 << 63) or (type(value) is float and math.isfinite(value)):
        return repr(value)
    return bind_value(value)  # the repr of 1-0j is 1+0j, inf is a name, and an int may be too long to be read
