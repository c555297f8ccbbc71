"""Masks, and `MaskedSelection`: ``x[mask]`` with an abstract mask.

The number of elements of such a selection depends on values. The selection supports elementwise
operations with numbers, and being written back: ``x[mask] *= 2`` is ``np.where(mask, x * 2, x)``.
Any other use concretizes the mask: the examples of a mapped function may provide it
(transforms/examples.py), and the selection is an array from then on.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast, final

import numpy as np

from functrace.errors import ConcretizationError, DtypeError
from functrace.ir.aval import shape_of
from functrace.numpy.arrays.assignment import assigned
from functrace.numpy.arrays.operators import Operator, set_operators
from functrace.numpy.arrays.views import is_scalar
from functrace.numpy.protocol.operands import NOT_GIVEN, Arrayed, Index, Operand, known, stacked
from functrace.ops import elementwise as ew
from functrace.ops.indexing import ARRAY, gather
from functrace.ops.shaping import broadcast_to, convert, reshape
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import LITERALS, Tracer
from functrace.tree import map_leaves


def is_mask(entry: object) -> bool:
    """Return True if an entry of an index is a mask: a bool, or an array of bools."""
    return isinstance(entry, bool | np.bool_) or (
        isinstance(entry, np.ndarray | Tracer) and entry.dtype == np.bool_  # type: ignore[attr-defined]
    )


def known_mask(mask: Operand | Tracer) -> np.ndarray[Any, Any]:
    """Return the concrete value of a mask.

    Raises:
        ConcretizationError: if it is abstract.
    """
    try:
        return known(mask)
    except ConcretizationError as error:
        raise ConcretizationError(
            "the number of elements that a traced mask selects depends on values, which are not "
            "known here",
            made=error.made,
            fix="use np.where(mask, x, 0.0), which keeps the shape; x[mask] = v and x[mask] *= v "
            "work too",
        ) from error


def mask_of(where: object, what: str) -> Any:
    """Return ``where=`` as NumPy reads it: arrays must be bool, numbers and lists are converted.

    Raises:
        DtypeError: for an array of another dtype, which NumPy casts by the rule 'safe'.
    """
    if where is True or where is NOT_GIVEN:
        return True
    mask: Any = stacked(cast("Operand", where))
    is_array = isinstance(mask, np.ndarray) or (
        isinstance(mask, Tracer) and (mask.aval.shape or is_scalar(mask) is False)
    )
    if not is_array:
        return ew.not_equal(mask, 0) if isinstance(mask, Tracer) else np.asarray(mask, bool)
    if mask.dtype != np.bool_:
        raise DtypeError(
            f"{what}: cannot cast where= from {mask.dtype} to bool according to the rule 'safe'",
            fix="compare, where=(mask != 0), or convert it with .astype(bool)",
        )
    return mask


@final
class NeedsConcreteValues:
    """Placeholder for a result that needs concrete values: every use of it raises.

    Args:
        what: name of the result.
        error: reason, and fix.
    """

    __slots__ = ("error", "what")
    __array_priority__ = 1001.0
    __array_ufunc__ = None

    def __init__(self, what: str, error: ConcretizationError) -> None:
        self.what, self.error = what, error

    def refuse(self) -> ConcretizationError:
        """Return the error that every use raises."""
        return ConcretizationError(self.error.what, made=self.error.made, fix=self.error.fix)

    def _refuse(self, *_args: object, **_kwargs: object) -> Any:
        raise self.refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self._refuse()

    def __repr__(self) -> str:
        return f"<{self.what}, which are not known here>"

    __array__ = __array_function__ = __len__ = __iter__ = __getitem__ = __bool__ = __float__ = (
        __int__
    ) = _refuse
    __neg__ = __abs__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = (
        __truediv__
    ) = __rtruediv__ = _refuse
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse


# -- x[mask] while staging -------------------------------------------------------------------------


@final
class MaskedSelection:
    """``x[mask]`` with an abstract mask, for elementwise operations and for writing back.

    It represents the elements where the mask is true. Each operation first replaces the elements
    not selected by a harmless number, so that neither values nor derivatives become NaN.
    """

    __slots__ = ("_array", "condition", "full", "key")
    __array_priority__ = 1001.0

    def __init__(self, x: Arrayed, mask: Tracer) -> None:
        self._array: Any = None
        self.key = (mask.ft_recording, mask.ft_variable)
        condition = reshape(mask, shape_of(mask) + (1,) * (len(shape_of(x)) - len(shape_of(mask))))
        # Copies: the handles may have been rebound by the time that the selection is used.
        self.condition = condition.ft_recording.handle(condition.ft_variable)
        self.full = x.ft_recording.handle(x.ft_variable) if isinstance(x, Tracer) else x

    def goes_with(self, mask: Operand) -> bool:
        """Return True if a mask selected these elements, or was computed by the same operations."""
        recording, variable = self.key
        return (
            isinstance(mask, Tracer)
            and mask.ft_recording is recording
            and _same(recording, mask.ft_variable, variable)
        )

    @property
    def is_array(self) -> bool:
        """True if the mask has been concretized, so that this is an ordinary array."""
        return self._array is not None

    def array(self) -> Any:
        """Return the elements as an array, for uses that need their number.

        Raises:
            ConcretizationError: if the mask is abstract.
        """
        if self._array is None:
            recording, variable = self.key
            mask = known_mask(recording.handle(variable))
            self._array = gather(self.full, (ARRAY,) * mask.ndim, np.nonzero(mask))
        return self._array

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        operands = None if method != "__call__" or kwargs else self._operands(inputs)
        primitive = ew.UFUNCS.get(ufunc)
        if operands is None or primitive is None or primitive.many:
            return getattr(ufunc, method)(
                *map_leaves(_as_array, inputs), **map_leaves(_as_array, kwargs)
            )
        made = object.__new__(MaskedSelection)
        made.key, made.condition, made._array = self.key, self.condition, None
        made.full = bind(primitive, tuple(operands))
        return made

    def _operands(self, inputs: tuple[Any, ...]) -> list[Any] | None:
        """Return the operands for all elements; ``None`` if some have another mask."""
        operands = []
        for value in inputs:
            if type(value) is MaskedSelection:
                same_mask = value.key[0] is self.key[0] and _same(*self.key, value.key[1])
                if not same_mask or shape_of(value.full) != shape_of(self.full) or value.is_array:
                    return None
                value = ew.where(
                    self.condition, value.full, 0.5 if value.full.dtype.kind in "fc" else 1
                )
            elif shape_of(value) != ():
                return None
            operands.append(value)
        return operands

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.array().__array__(*args, **kwargs)

    def __array_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        return func(*map_leaves(_as_array, args), **map_leaves(_as_array, kwargs))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.array(), name)

    def __len__(self) -> int:
        return len(self.array())

    def __iter__(self) -> Any:
        return iter(self.array())

    def __getitem__(self, index: Index) -> Any:
        return self.array()[index]

    def __setitem__(self, index: Index, value: Arrayed) -> None:
        everything = index is Ellipsis or (type(index) is slice and index == slice(None))
        if (
            self.is_array
            or not everything
            or isinstance(value, MaskedSelection)
            or shape_of(value) != ()
        ):
            self.array()[index] = _as_array(value)
            return
        full = self.full
        written = assigned(value, full.dtype)
        written = np.asarray(written, full.dtype) if type(written) in LITERALS else written
        self.full = broadcast_to(written, shape_of(full))

    def __bool__(self) -> bool:
        return bool(self.array())


def _as_array(value: Any) -> Any:
    return value.array() if type(value) is MaskedSelection else value


def _same(recording: Recording, a: int, b: int, depth: int = 8) -> bool:
    """Return True if the same operations on equal operands compute two variables (or literals)."""
    if a == b:
        return True
    if a < 0 or b < 0:
        values = (
            recording.literals[~a] if a < 0 else None,
            recording.literals[~b] if b < 0 else None,
        )
        return a < 0 and b < 0 and type(values[0]) is type(values[1]) and values[0] == values[1]
    (primitive, operands, params), (other, others, its) = recording.ops[a], recording.ops[b]
    return (
        depth > 0
        and bool(operands)
        and primitive is other
        and params == its
        and len(operands) == len(others)
        and all(_same(recording, i, j, depth - 1) for i, j in zip(operands, others, strict=True))
    )


def _selection_operator(row: Operator, *, reflected: bool) -> Callable[[Any, Any], Any]:
    def method(self: MaskedSelection, other: Operand) -> Any:
        return self.__array_ufunc__(
            row.ufunc, "__call__", *((other, self) if reflected else (self, other))
        )

    return method


def _in_place_selection_operator(row: Operator) -> Callable[[Any, Any], Any]:
    def method(self: MaskedSelection, other: Operand) -> Any:
        result, dtype = self.__array_ufunc__(row.ufunc, "__call__", self, other), self.full.dtype
        found = result.full if type(result) is MaskedSelection else result
        if not np.can_cast(found.dtype, dtype, "same_kind"):
            raise DtypeError(
                f"in-place {row.ufunc.__name__}: cannot cast {found.dtype} to {dtype}",
                fix="write x[mask] = … instead",
            )
        if found is result:
            self.array()[...] = found
        else:
            self.full = convert(found, dtype)
        return self

    return method


def _unary_selection_operator(primitive: ew.Elementwise) -> Callable[[Any], Any]:
    return lambda self: self.__array_ufunc__(primitive.eval, "__call__", self)


set_operators(
    MaskedSelection, _selection_operator, _in_place_selection_operator, _unary_selection_operator
)
