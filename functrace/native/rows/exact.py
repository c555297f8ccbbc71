"""Lowerings whose results equal NumPy's to the bit: those of ``accuracy="numpy"``.

Left out is what NumPy computes with kernels of its own or of a library (elementary functions,
products of matrices and of complex numbers, factorizations), and what depends on the order of equal
elements (the sign of a zero that is the maximum of an array, sorting floats).

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from functrace.ir.primitive import Primitive
from functrace.native.loop_ir import Const
from functrace.native.lowering import NoNativeForm, Operation, Row
from functrace.native.rows import (
    arithmetic,
    control,
    elementwise,
    identities,
    layout,
    reductions,
    sorting,
    statistics,
)
from functrace.native.values import Uniform
from functrace.ops import edges, linalg, norms, shaping
from functrace.ops import elementwise as ops
from functrace.ops import reductions as sums
from functrace.ops.cumulative import cummax_p, cummin_p, cumprod_p, cumsum_p
from functrace.ops.sorting import searchsorted_p, sort_p

_INEXACT = frozenset(
    (
        ops.fmax, ops.fmin, ops.angle, ops.float_power, ops.sinc, edges.plain_power,
        *arithmetic.KERNELS,
    )
)  # fmt: skip
_ELEMENTWISE = (
    frozenset((*elementwise.WRITERS, *arithmetic.ROWS, ops.stop_gradient, shaping.convert_p))
    - _INEXACT
)
_REDUCTIONS = (
    sums.reduce_sum_p, sums.reduce_prod_p, sums.reduce_max_p, sums.reduce_min_p, sums.reduce_any_p,
    sums.reduce_all_p, sums.argmax_p, sums.argmin_p, cumsum_p, cumprod_p, sums.variance_p,
    linalg.norm_p, norms.vector_norm_p, cummax_p, cummin_p,
)  # fmt: skip

_NOT_OF_FLOATS = frozenset(
    (sums.reduce_max_p, sums.reduce_min_p, sort_p, ops.clip, ops.clip_below, ops.clip_above)
)
"""Primitives whose result for floats depends on the order of equal elements, or, for zeros of both
signs, on which loop NumPy takes."""

_OF_COMPLEX = frozenset(
    (
        ops.add, ops.sub, ops.neg, ops.conj, ops.real, ops.imag, ops.complex_of, ops.where,
        ops.positive, ops.stop_gradient, shaping.convert_p, sums.reduce_sum_p, cumsum_p,
        *layout.ROWS, *identities.ROWS, *control.ROWS,
    )
)  # fmt: skip
"""Primitives whose results are NumPy's for complex numbers, too."""


def _checked(primitive: Primitive, row: Row) -> Row:
    def exact(low: object, op: Operation) -> object:
        kinds = {x.dtype.kind for x in (*op.operands, *op.avals)}
        if "c" in kinds and primitive not in _OF_COMPLEX:
            raise NoNativeForm(f"{primitive.name} of complex numbers, to the bit")
        if "f" in kinds and primitive in _NOT_OF_FLOATS:
            raise NoNativeForm(f"{primitive.name} of floats, to the bit")
        if primitive is norms.vector_norm_p and op.params[1] not in (1, 2):
            raise NoNativeForm("a norm of powers, to the bit")
        if primitive is ops.power and not _is_product(op):
            raise NoNativeForm("a power, to the bit")
        return row(low, op)  # type: ignore[arg-type]

    return exact  # type: ignore[return-value]


def _is_product(op: Operation) -> bool:
    """Return True for a power that NumPy computes by a product or a division."""
    exponent = op.operands[1]
    atom = exponent.atom if isinstance(exponent, Uniform) else None
    is_plain = type(atom) is Const and atom.value in (-1, 1, 2)
    return is_plain and op.dtype.kind == "f" and op.operands[0].dtype == op.dtype


def exact_rows() -> Mapping[Primitive, Row]:
    """Return the lowerings by primitive."""
    tables: Iterable[Mapping[Primitive, Row]] = (
        elementwise.ROWS, arithmetic.ROWS, layout.ROWS, identities.ROWS, reductions.ROWS,
        statistics.ROWS, sorting.ROWS, control.ROWS,
    )  # fmt: skip
    kept = {
        *_ELEMENTWISE, *_REDUCTIONS, *layout.ROWS, *identities.ROWS, *control.ROWS, sort_p,
        searchsorted_p,
    }  # fmt: skip
    return {
        primitive: _checked(primitive, row)
        for table in tables
        for primitive, row in table.items()
        if primitive in kept
    }
