"""Tracers: placeholders for arrays in a traced function, and the values that a primitive accepts.

A `Tracer` is a handle to a variable of a recording: it has a shape and a dtype and nothing else.
The operation that defines

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from functrace.errors import (
    DtypeError,
    LeakedTracerError,
    LostGradientError,
    NotDifferentiableError,
)
from functrace.ir.aval import ShapeDtype, check_plain
from functrace.ir.primitive import LinearOperand, is_linear
from functrace.source import Source
from functrace.typing import Array, Scalar

if TYPE_CHECKING:
    from functrace.tracing.recording import Recording

LITERALS = frozenset({bool, int, float, complex})
"""Python types that are literals in an equation (weakly typed, NEP 50)."""


class Tracer:
    """Handle to a variable of a recording: it replaces an array in traced functions.

    ``functrace.Tracer`` is for annotations and ``isinstance``: every traced value is one. The
    subclass with NumPy's operators is `functrace.numpy.arrays.traced_array.TracedArray`. Users do
    not make tracers.

    Example:
        >>> import functrace as ft
        >>> ft.grad(lambda x: x * isinstance(x, ft.Tracer))(2.0), isinstance(2.0, ft.Tracer)
        (np.float64(1.0), False)
    """

    __slots__ = ("__weakref__", "aval", "ft_recording", "ft_variable", "ft_view")
    ft_recording: Recording
    ft_variable: int
    aval: ShapeDtype
    ft_view: Any
    is_number: ClassVar[bool] = False
    """True if it represents a Python number, not an array or a NumPy scalar."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes by axis."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.aval.shape)

    def ft_concrete(self) -> Any:
        """Return the concrete value; raise if it is abstract."""
        value: Any = self
        while isinstance(value, Tracer):
            value = value.ft_recording.value(value.ft_variable)
        return value


Value: TypeAlias = Array | np.generic | Tracer | LinearOperand | Scalar
"""Operands of a primitive: arrays, NumPy scalars, traced values, Python numbers. Transpose rules
need not test which of several operands are linear: `as_array` rejects a second one."""
Nest: TypeAlias = "Value | list[Nest] | tuple[Nest, ...]"
"""Array-like values: nested lists and tuples of operands."""


def as_array(value: Nest) -> np.ndarray[Any, Any]:
    """Return a plain value as an array; reject objects, and sequences of traced values."""
    if _holds_tracer(value):  # also checks that the elements are plain arrays
        raise LostGradientError(
            "a list that holds traced values cannot become an array without losing its derivative",
            fix="use np.stack([...]), np.concatenate([...]) or functrace.numpy.array([...])",
        )
    if is_linear(value):  # a transpose rule for one linear operand got two
        raise NotDifferentiableError(
            "the transposed function is not linear: an operation combines two values that both "
            "depend on its argument",
            fix="make it linear: a jvp rule in the tangents; a backward rule, for forward mode, in "
            "the cotangents",
        )
    array = np.asarray(value)
    if array.dtype == object:
        raise DtypeError(
            f"a {type(value).__name__} cannot be used as an operand: it has no numeric dtype",
            fix=fix_for(value, "pass arrays and numbers only"),
        )
    return array


def fix_for(value: object, otherwise: str) -> str:
    """Return the way out for a value that is no array: for SciPy's sparse matrices, their elements."""
    if type(value).__module__.startswith("scipy.sparse"):
        return "of a sparse matrix A, pass or return A.data, an array of its elements"
    return otherwise


def _holds_tracer(value: Nest) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_tracer, value))
    check_plain(value)
    return isinstance(value, Tracer)


def ended(
    owner: str, aval: ShapeDtype | None = None, made: Source | None = None
) -> LeakedTracerError:
    """Return the error for a use of a traced value, or a write, after its recording has ended.

    Args:
        owner: name of the recording.
        aval: aval of the value, if there is one.
        made: the line that made it.
    """
    which = "" if aval is None else f" ({aval})"
    return LeakedTracerError(
        f"a traced value{which} was used after {owner} had ended",
        made=made,
        fix="return it from the function (has_aux=True carries extra results) instead of storing "
        "it outside",
    )


def leaked(tracer: Tracer) -> LeakedTracerError:
    """Return the error for a tracer that outlived its recording."""
    recording = tracer.ft_recording
    return ended(recording.owner, tracer.aval, recording.source(tracer.ft_variable))
