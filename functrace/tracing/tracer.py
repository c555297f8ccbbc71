"""Tracers: what a traced function is given in place of arrays, and what a primitive can be applied to.

A `Tracer` is a handle to a variable of a recording: it holds shape and dtype and nothing else. The operation that defines
the variable is on the recording's tape; `functrace.tracing.values` reads its concrete value.

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from functrace.errors import DtypeError, LeakedTracerError, LostGradientError, NotDifferentiableError
from functrace.ir.aval import ShapeDtype, check_plain
from functrace.ir.primitive import LinearOperand, is_linear
from functrace.source import Source
from functrace.typing import Array, Scalar

if TYPE_CHECKING:
    from functrace.tracing.recording import Recording

LITERALS = frozenset({bool, int, float, complex})
"""Python types that stand in an equation as literals (weakly typed, NEP 50)."""


class Tracer:
    """Handle to a variable of a recording: an object with shape and dtype that traced functions get in place of an array.

    ``functrace.Tracer`` is for annotations and ``isinstance``: every traced value is one. The subclass with NumPy's
    operators is `functrace.numpy.arrays.traced_array.TracedArray`. Users do not make tracers.

    Example:
        >>> import functrace as ft
        >>> ft.grad(lambda x: x * isinstance(x, ft.Tracer))(2.0), isinstance(2.0, ft.Tracer)
        (np.float64(1.0), False)
    """

    __slots__ = ("__weakref__", "_id", "_recording", "_view", "aval")
    _recording: Recording
    _id: int
    aval: ShapeDtype
    _view: Any
    is_number: ClassVar[bool] = False
    """Whether it stands for a Python number, and not for an array or a NumPy scalar."""

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

    def _concrete(self) -> Any:
        """The plain value; raises where values are not known."""
        value: Any = self
        while isinstance(value, Tracer):
            value = value._recording.value(value._id)
        return value


Value: TypeAlias = Array | np.generic | Tracer | LinearOperand | Scalar
"""What a primitive can be applied to: arrays, NumPy scalars, traced values, Python numbers. Transpose rules need not look
which of several operands are linear: `as_array` refuses a second one."""
Nest: TypeAlias = "Value | list[Nest] | tuple[Nest, ...]"
"""What NumPy would make an array of."""


def as_array(value: Nest) -> np.ndarray[Any, Any]:
    """Return a plain value as an array; refuses nests that hold traced values, and objects."""
    if _holds_tracer(value):  # checks as it goes that what the list holds are plain arrays
        raise LostGradientError(
            "a list that holds traced values cannot become an array without losing its derivative",
            fix="use np.stack([...]), np.concatenate([...]) or functrace.numpy.array([...])",
        )
    if is_linear(value):  # a transpose rule that knows one linear operand has been given two
        raise NotDifferentiableError(
            "what is transposed here is not linear: an operation combines two values that both depend on its argument",
            fix="make it linear: a jvp rule in the tangents; a backward rule, for forward mode, in the cotangents",
        )
    array = np.asarray(value)
    if array.dtype == object:
        raise DtypeError(
            f"a {type(value).__name__} cannot be used as an operand: it has no numeric dtype",
            fix="pass arrays and numbers only",
        )
    return array


def _holds_tracer(value: Nest) -> bool:
    if isinstance(value, list | tuple):
        return any(map(_holds_tracer, value))
    check_plain(value)
    return isinstance(value, Tracer)


def ended(owner: str, aval: ShapeDtype | None = None, made: Source | None = None) -> LeakedTracerError:
    """The error for using a traced value, or writing, where a recording has ended.

    Args:
        owner: whose recording it is.
        aval: of the value, if it is known which.
        made: the line that made it.
    """
    which = "" if aval is None else f" ({aval})"
    return LeakedTracerError(
        f"a traced value{which} was used after {owner} had ended",
        made=made,
        fix="return it from the function (has_aux=True carries extra results) instead of storing it outside",
    )


def leaked(tracer: Tracer) -> LeakedTracerError:
    """The error for a tracer that outlived its recording."""
    recording = tracer._recording
    return ended(recording.owner, tracer.aval, recording.source(tracer._id))
