"""Programs in 32 bits, for JAX without its 64-bit mode.

Layer: 7.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from functrace.control.custom import DeferredRule, SymbolicZerosRule
from functrace.errors import DtypeError, UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype
from functrace.ir.program import Program
from functrace.transforms.building import remembered
from functrace.xla.lowering import Value

NARROW: Final[dict[np.dtype[Any], np.dtype[Any]]] = {
    np.dtype(wide): np.dtype(narrow)
    for wide, narrow in (
        (np.float64, np.float32), (np.complex128, np.complex64), (np.int64, np.int32),
        (np.uint64, np.uint32),
    )
}  # fmt: skip
"""Types of 64 bits, and what JAX takes in their place."""

_WORDS: Final = ("random_", "seed_key", "fold_key", "split_key", "draw")
"""Beginnings of the names of primitives that compute with words of 64 bits."""


def narrowed(program: Program) -> Program:
    """Return a program with all types of 64 bits replaced by those of 32, at any depth.

    Raises:
        UnsupportedFunctionError: if it draws random numbers, from words of 64 bits.
        DtypeError: if a constant integer does not fit.
    """
    return remembered(_narrowed, program)


def _narrowed(program: Program) -> Program:
    drawn = [p.name for p in program.kinds if p.name.startswith(_WORDS)]
    if drawn:
        raise UnsupportedFunctionError(
            f"{drawn[0]} computes with words of 64 bits, which JAX has in its 64-bit mode only",
            fix="call it inside jax.enable_x64(True), or take the draws as an argument",
        )
    ops = [(p, operands, _param(params)) for p, operands, params in program.ops]
    avals = [_param(aval) for aval in program.avals]
    made = program.with_same_flow(ops, avals, program.literals)
    values = {i: narrow_value(x) for i, x in program.constant_values.items()}
    return made.with_constants(values) if values else made


def narrow_value(value: Value) -> Any:
    """Return a constant in 32 bits.

    Raises:
        DtypeError: if an integer does not fit.
    """
    target = NARROW.get(value.dtype)
    if target is None:
        return value
    with np.errstate(over="ignore"):
        made = np.asarray(value).astype(target)
    if target.kind in "iu" and not np.array_equal(made, value):
        raise DtypeError(
            f"a constant of {value.dtype} does not fit into {target}, which JAX has in its place",
            fix="call it inside jax.enable_x64(True)",
        )
    return made[()]


def _param(param: Value) -> Any:
    """Return a static param, or an aval, in 32 bits."""
    if isinstance(param, tuple):
        parts: Any = map(_param, param)
        return tuple(parts) if type(param) is tuple else type(param)(*parts)
    if isinstance(param, ShapeDtype):
        return ShapeDtype(param.shape, NARROW.get(param.dtype, param.dtype))
    if isinstance(param, np.dtype):
        return NARROW.get(param, param)
    if isinstance(param, type) and issubclass(param, np.generic):
        dtype: np.dtype[Any] = np.dtype(param)
        return NARROW.get(dtype, dtype).type
    if isinstance(param, np.ndarray | np.generic):
        return narrow_value(param)
    if isinstance(param, Program):
        return narrowed(param).interned()
    if isinstance(param, DeferredRule):
        return DeferredRule((param.key, "32 bits"), lambda: _param(tuple(param.record())))
    if isinstance(param, SymbolicZerosRule):
        return SymbolicZerosRule(
            lambda active: _param(tuple(param.record(active))), (param.key, "32 bits")
        )
    return param
