"""SciPy's special functions that follow from kernels. SciPy is imported only if a program has some.

Layer: 7.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import Atom, Builder, Const, DType
from functrace.native.lowering import DEAR, NoNativeForm, Row
from functrace.native.rows.elementwise import Writer, kernel, row_of

BOOL = np.dtype(bool)


def _times_log(op: str, forbidden: float) -> Writer:
    """``x log(y)``, which is zero where x is, unless y is nan."""

    def write(builder: Builder, dtype: DType, x: Atom, y: Atom) -> Atom:
        if dtype.kind != "f":
            raise NoNativeForm("a special function of other than floats")
        let = builder.let
        is_number = let("equal", BOOL, y, y)
        is_zero = let("and", BOOL, let("equal", BOOL, x, Const(0.0, dtype)), is_number)
        safe = let("select", dtype, is_zero, Const(1.0 - forbidden, dtype), y)
        product = let("mul", dtype, x, let(op, dtype, safe))
        return let("select", dtype, is_zero, Const(0.0, dtype), product)

    return write


def _entropy(builder: Builder, dtype: DType, x: Atom) -> Atom:
    """``-x log(x)``, zero for zero and minus infinity below."""
    if dtype.kind != "f":
        raise NoNativeForm("a special function of other than floats")
    let, zero = builder.let, Const(0.0, dtype)
    is_low = let("less_equal", BOOL, x, zero)
    safe = let("select", dtype, is_low, Const(1.0, dtype), x)
    found = let("mul", dtype, let("neg", dtype, safe), let("log", dtype, safe))
    is_zero = let("equal", BOOL, x, zero)
    low = let("select", dtype, is_zero, zero, Const(-np.inf, dtype))
    return let("select", dtype, is_low, low, found)


@functools.lru_cache(maxsize=1)
def special_rows() -> Mapping[Primitive, Row]:
    """Return the rows; imports SciPy."""
    from functrace.ops.special import errors, logarithms

    writers: dict[Primitive, Writer] = {
        errors.erf: kernel("erf"),
        errors.erfc: kernel("erfc"),
        logarithms.expit: kernel("sigmoid"),
        logarithms.special_expm1: kernel("expm1"),
        logarithms.special_log1p: kernel("log1p"),
        logarithms.special_exp2: kernel("exp2"),
        logarithms.special_cbrt: kernel("cbrt"),
        logarithms.xlogy: _times_log("log", 0.0),
        logarithms.xlog1py: _times_log("log1p", 1.0),
        logarithms.entr: _entropy,
    }
    return {primitive: row_of(primitive, write, DEAR) for primitive, write in writers.items()}
