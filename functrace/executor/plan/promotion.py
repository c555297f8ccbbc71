"""Type promotion: the compute dtypes of operations, so that backends need not implement NumPy's
rules.

A ufunc converts its operands to the dtypes of one of its loops. The dtype of a Python number
depends on the other operand (NEP 50), and in comparisons also on the number's value. `typed`
resolves this per operation.

Layer: 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from functrace.executor.plan.fusion import REDUCTIONS
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops.contraction import dot_p, matmul_in_parts_p
from functrace.ops.cumulative import cumprod_p, cumsum_p
from functrace.ops.edges import clamp, signed_remainder
from functrace.ops.elementwise import complex_of, holds, loop_dtypes, trunc_divide, where
from functrace.ops.joining import concatenate_p, stack_p
from functrace.typing import Scalar

DType = np.dtype[Any]


class ComputeDtypes(NamedTuple):
    """Compute dtypes of an operation.

    Args:
        numbers: by operand, the literal, or ``None`` for a variable: a NumPy scalar of the promoted
            dtype, or a Python number if the operation takes one as such.
        dtypes: of the operands; a backend converts them before the operation.
        results: dtypes of the results.
    """

    numbers: tuple[np.generic | Scalar | None, ...]
    dtypes: tuple[DType, ...]
    results: tuple[DType, ...]


def _all(out: DType, count: int) -> tuple[DType, ...]:
    return (out,) * count


def _part(out: DType, count: int) -> tuple[DType, ...]:
    return (out.type(0).real.dtype,) * count


def _chosen(out: DType, _count: int) -> tuple[DType, ...]:
    return np.dtype(bool), out, out


DTYPES: Mapping[Primitive, Callable[[DType, int], tuple[DType, ...]]] = {
    where: _chosen,
    complex_of: _part,
    **dict.fromkeys(REDUCTIONS, _all),
    **dict.fromkeys((trunc_divide, clamp, signed_remainder, cumsum_p, cumprod_p), _all),
    **dict.fromkeys((concatenate_p, stack_p, dot_p, matmul_in_parts_p), _all),
}
"""Operand dtypes of primitives that are not ufuncs, as functions of the result's dtype and the
number of operands.
"""

COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)


def typed(program: Program, k: int) -> ComputeDtypes:
    """Return the compute dtypes of an operation. Only ufuncs and primitives in `DTYPES` convert
    operands.

    Args:
        program: a program.
        k: the variable of the operation's first result.

    Raises:
        OverflowError: as in NumPy, if an integer does not fit into its promoted dtype.
    """
    primitive, operands, _ = program.ops[k]
    count = program.result_count(k) if primitive.many else 1
    results = tuple([program.avals[j].dtype for j in range(k, k + count)])
    numbers = [None if i >= 0 else program.literals[~i] for i in operands]
    function: Any = primitive.eval
    if isinstance(function, np.ufunc):
        dtypes = loop_dtypes(function, [program.spec(i) for i in operands])[: function.nin]
        if function in COMPARISONS:
            fits = [x is None or _holds(d, x) for x, d in zip(numbers, dtypes, strict=True)]
            if not all(fits):  # compare with an infinity of the same sign
                ends = [
                    x if x is None or fit else _infinity(x)
                    for x, fit in zip(numbers, fits, strict=True)
                ]
                return ComputeDtypes(tuple(ends), (np.dtype(np.float64),) * 2, results)
    elif primitive in DTYPES:
        dtypes = DTYPES[primitive](results[0], len(operands))
    else:
        values = [
            program.avals[i].dtype if i >= 0 else np.asarray(program.literals[~i]).dtype
            for i in operands
        ]
        return ComputeDtypes(tuple(numbers), tuple(values), results)
    convert = _cast if primitive is where else _typed
    with np.errstate(all="ignore"):
        found = [None if x is None else convert(x, d) for x, d in zip(numbers, dtypes, strict=True)]
    return ComputeDtypes(tuple(found), dtypes, results)


def _typed(value: Scalar, dtype: DType) -> np.generic:
    return dtype.type(value)


def _cast(value: Scalar, dtype: DType) -> np.generic:
    """Return a number as an assignment stores it: an integer may wrap around."""
    return dtype.type(np.asarray(value).astype(dtype))


def _holds(dtype: DType, value: Scalar) -> bool:
    """Return True if a dtype can hold an integer."""
    return type(value) is not int or dtype.kind not in "iu" or holds(dtype, value)


def _infinity(value: Scalar) -> np.generic:
    """Return the infinity of an integer's sign; a float may not hold the integer."""
    assert type(value) is int
    return np.float64(-math.inf if value < 0 else math.inf)
