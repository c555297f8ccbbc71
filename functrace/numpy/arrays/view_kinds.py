"""Kinds of views: how each reads its value from the base, writes it back, and its strides.

See Note [In-place operations on traced values] in numpy/arrays/views.py, which links and writes
views.

Layer: 3.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np

from functrace.errors import CapturedArrayError, ShapeError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.numpy.arrays.layout import (
    C_ORDER,
    UNKNOWN,
    Order,
    indexed_like,
    is_row,
    layout_of,
    order_like,
    reshaped_like,
    stand_in,
)
from functrace.numpy.protocol.operands import Arrayed
from functrace.ops import elementwise as ew
from functrace.ops import shaping
from functrace.ops.contraction import einsum
from functrace.ops.indexing import ARRAY, gather, index_p, scatter_set
from functrace.ops.shaping import permute, reshape
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer, Value

Shape = tuple[int, ...]
Stand: TypeAlias = np.ndarray[Any, Any]
"""An array with strides, whose elements must not be read."""


class View:
    """View of the whole base; other kinds override the differences."""

    __slots__ = ("base",)
    base: Any
    copied: ClassVar[Order] = C_ORDER
    """Order of the result if it is a copy."""
    either: ClassVar[Order] = UNKNOWN
    """Order of the result if it is unknown whether it is a copy."""
    is_certain: ClassVar[bool] = True
    """True if it is always a view of an array."""
    is_array: ClassVar[bool] = False
    """True if it is an array even for a scalar."""

    def __init__(self, base: Value) -> None:
        self.base = base

    def read(self, base: Arrayed) -> Any:
        """Return the view's value from the base's value."""
        return base

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        """Return the base's value after writing ``new`` to the view."""
        return new

    def layout(self, base: Stand) -> Stand | None:
        """Return the view of a stand-in for the base; ``None`` if its strides are unknown."""
        return base

    def shares(self) -> bool | None:
        """Return True for a view, False for a copy, ``None`` if unknown."""
        return True

    def of(self, base: Arrayed) -> View:
        """Return the same view of another base."""
        made = copy.copy(self)
        made.base = base
        return made


class OwnMemory(View):
    """Own memory with an order that the tape does not determine: copies, written or 0-d arrays."""

    __slots__ = ("order",)

    def __init__(self, order: Order) -> None:
        self.base, self.order = None, order


class MaybeScalar(OwnMemory):
    """0-d value that is either a scalar or a 0-d array."""

    __slots__ = ()


class IndexView(View):
    """Basic index."""

    __slots__ = ("index",)

    def __init__(self, base: Value, index: tuple[Any, ...]) -> None:
        self.base, self.index = base, index

    def read(self, base: Arrayed) -> Any:
        return bind(index_p, (base,), (self.index,))

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        return scatter_set(base, self.index, new)

    def layout(self, base: Stand) -> Stand | None:
        return indexed_like(base, self.index)

    def is_at(self, template: tuple[Any, ...], arrays: tuple[Any, ...]) -> bool:
        """Return True if a parsed index reads this view."""
        return not arrays and template == self.index


class TransposeView(View):
    """Permuted axes."""

    __slots__ = ("axes",)

    def __init__(self, base: Value, axes: Shape) -> None:
        self.base, self.axes = base, axes

    def read(self, base: Arrayed) -> Any:
        return permute(base, self.axes)

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        return permute(new, _inverse(self.axes))

    def layout(self, base: Stand) -> Stand | None:
        return base.transpose(self.axes)


class RealView(View):
    """Real part."""

    __slots__ = ()

    def read(self, base: Arrayed) -> Any:
        return ew.real(base)

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        return ew.complex_of(new, ew.imag(base))

    def layout(self, base: Stand) -> Stand | None:
        return base.real


class ImagView(View):
    """Imaginary part."""

    __slots__ = ()

    def read(self, base: Arrayed) -> Any:
        return ew.imag(base)

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        return ew.complex_of(ew.real(base), new)

    def layout(self, base: Stand) -> Stand | None:
        return base.imag


class ReadOnlyView(View):
    """View that NumPy makes read-only."""

    __slots__ = ()
    is_array = True

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        raise ShapeError("assignment destination is read-only", fix="write into a copy: x.copy()")


class BroadcastView(ReadOnlyView):
    """Value broadcast along axes."""

    __slots__ = ("shape",)

    def __init__(self, base: Value, shape: Shape) -> None:
        self.base, self.shape = base, shape

    def read(self, base: Arrayed) -> Any:
        return shaping.broadcast_to(base, self.shape)

    def layout(self, base: Stand) -> Stand | None:
        return np.broadcast_to(base, self.shape)


class DiagonalView(ReadOnlyView):
    """Diagonal of two axes, which ``axes`` moves to the end."""

    __slots__ = ("axes", "offset")

    def __init__(self, base: Value, axes: Shape, offset: int) -> None:
        self.base, self.axes, self.offset = base, axes, offset

    def read(self, base: Arrayed) -> Any:
        return shaping.diagonal(permute(base, self.axes), self.offset)

    def layout(self, base: Stand) -> Stand | None:
        return np.diagonal(base.transpose(self.axes), self.offset, -2, -1)


class EinsumView(View):
    """Result of ``numpy.einsum`` of one operand without sums: permuted axes, diagonals.

    Args:
        base: the operand.
        term: a letter per axis of the base.
        out: a letter per axis of the view.
    """

    __slots__ = ("out", "term")

    def __init__(self, base: Value, term: str, out: str) -> None:
        self.base, self.term, self.out = base, term, out

    def read(self, base: Arrayed) -> Any:
        return einsum(f"{self.term}->{self.out}", base)

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        sizes = dict(zip(self.term, shape_of(base), strict=True))
        places = [self.out.index(letter) for letter in self.term]
        key = [np.arange(sizes[a]).reshape([-1 if k == place else 1 for k in range(len(self.out))])
               for a, place in zip(self.term, places, strict=True)]  # fmt: skip
        return scatter_set(base, (ARRAY,) * len(key), new, tuple(key))

    def layout(self, base: Stand) -> Stand | None:
        return np.einsum(f"{self.term}->{self.out}", base)


class WindowView(ReadOnlyView):
    """Sliding windows, which overlap in memory."""

    __slots__ = ("_read", "axes", "sizes")

    def __init__(self, base: Value, sizes: Shape, axes: Shape, read: Callable[[Any], Any]) -> None:
        self.base, self.sizes, self.axes, self._read = base, sizes, axes, read

    def read(self, base: Arrayed) -> Any:
        return self._read(base)

    def layout(self, base: Stand) -> Stand | None:
        return np.lib.stride_tricks.sliding_window_view(base, self.sizes, self.axes)


class GatherView(View):
    """Index with traced integers: a view if all are scalars, a copy if one is a 0-d array."""

    __slots__ = ("arrays", "sure", "template")
    is_certain = False

    def __init__(
        self, base: Value, template: tuple[Any, ...], arrays: tuple[Any, ...], sure: bool | None
    ) -> None:
        self.base, self.template, self.sure = base, template, sure
        self.arrays = tuple(
            [a.ft_recording.handle(a.ft_variable) if isinstance(a, Tracer) else a for a in arrays]
        )

    def read(self, base: Arrayed) -> Any:
        return gather(base, self.template, self.arrays)

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        return scatter_set(base, self.template, new, self.arrays)

    def layout(self, base: Stand) -> Stand | None:
        return indexed_like(base, tuple([0 if k == ARRAY else k for k in self.template]))

    def shares(self) -> bool | None:
        return self.sure

    def is_at(self, template: tuple[Any, ...], arrays: tuple[Any, ...]) -> bool:
        """Return True if a parsed index reads this view."""
        pairs = zip(arrays, self.arrays, strict=False)
        same = all(
            isinstance(a, Tracer)
            and a.ft_variable == b.ft_variable
            and a.ft_recording is b.ft_recording
            for a, b in pairs
        )
        return template == self.template and len(arrays) == len(self.arrays) and same


class SharedView(View):
    """Result that shares memory with its base in ways that programs cannot express: both read-only.

    Args:
        base: the value that it shares memory with, or another handle of the result itself.
        owner: the operation that returned it, for messages.
    """

    __slots__ = ("owner", "stand_ins")
    is_array = True

    def __init__(self, base: Value, owner: str) -> None:
        self.base, self.owner = base, owner
        self.stand_ins: list[Any] = []
        """Handles that represent the result among the views of its bases while it is alive."""

    def read(self, base: Arrayed) -> Any:
        raise self._refusal()

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        raise self._refusal()

    def layout(self, base: Stand) -> Stand | None:
        return None

    def _refusal(self) -> CapturedArrayError:
        return CapturedArrayError(
            f"a write would change a result of {self.owner} and what it shares memory with, an "
            "operand or another result",
            fix="return a copy (x.copy()) from the function, or write into one",
        )


# -- views or copies, by strides -------------------------------------------------------------------


class ViewOrCopy(View):
    """View or copy, decided once, on demand."""

    __slots__ = ("_shares",)
    is_certain = False

    def of(self, base: Arrayed) -> View:
        made = copy.copy(self)
        made.base, made._shares = base, ...
        return made

    def shares(self) -> bool | None:
        if self._shares is ...:
            found = self._worked_out()
            self._shares = (
                True if found is None and _is_guarded(self.base) else found
            )  # so that a write raises
        return self._shares

    def _worked_out(self) -> bool | None:
        raise NotImplementedError


def _is_guarded(x: Tracer | None) -> bool:
    """Return True if a value is a `SharedView`, or a view of one."""
    while x is not None and x.ft_view is not None:
        if type(x.ft_view) is SharedView:
            return True
        x = x.ft_view.base
    return False


class ReshapeView(ViewOrCopy):
    """Reshaped array; a view if NumPy can express it by strides."""

    __slots__ = ("shape",)

    def __init__(self, base: Value, shape: Shape) -> None:
        self.base, self.shape, self._shares = base, shape, ...

    def read(self, base: Arrayed) -> Any:
        return reshape(base, self.shape)

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        return reshape(new, shape_of(base))

    def layout(self, base: Stand) -> Stand | None:
        return reshaped_like(base, self.shape)

    def _worked_out(self) -> bool | None:
        aval = self.base.aval
        if is_row(aval.shape) or _is_reshapable(_scattered(aval), self.shape):
            return True
        known = layout_of(self.base)
        return None if known is None else _is_reshapable(known, self.shape)


def _scattered(aval: ShapeDtype) -> np.ndarray[Any, Any]:
    """Return a stand-in without mergeable axes: a reshape valid for it is valid for any strides."""
    return stand_in(
        aval, tuple([aval.dtype.itemsize * (1 << 20 | 2 * k + 1) for k in range(aval.ndim)])
    )


def _is_reshapable(base: np.ndarray[Any, Any], shape: Shape) -> bool:
    try:
        np.reshape(base, shape, copy=False)
    except ValueError:
        return False
    return True


class FlatView(ReshapeView):
    """``x.flat``: writes to the array for any strides."""

    __slots__ = ()

    def shares(self) -> bool | None:
        return True

    def layout(self, base: Stand) -> Stand | None:
        return reshaped_like(base, self.shape) if _is_reshapable(base, self.shape) else None


class RavelView(ViewOrCopy):
    """Flattened array, axes in a given order; a view if the array is contiguous in that order."""

    __slots__ = ("axes",)
    either = C_ORDER

    def __init__(self, base: Value, axes: Shape) -> None:
        self.base, self.axes, self._shares = base, axes, ...

    def read(self, base: Arrayed) -> Any:
        return reshape(permute(base, self.axes), (base.size,))

    def write(self, base: Arrayed, new: Arrayed) -> Any:
        shape = shape_of(base)
        return permute(reshape(new, tuple([shape[k] for k in self.axes])), _inverse(self.axes))

    def layout(self, base: Stand) -> Stand | None:
        return stand_in(ShapeDtype((base.size,), base.dtype), (base.itemsize,))

    def _worked_out(self) -> bool | None:
        if self.base.aval.size <= 1:
            return True
        known = layout_of(self.base)
        return None if known is None else known.transpose(self.axes).flags.c_contiguous


class OrderedView(ViewOrCopy):
    """Array in a required order: itself if it has that order, otherwise a copy."""

    __slots__ = ("copied", "either", "letter")
    is_array = True

    def __init__(self, base: Value, letter: str) -> None:
        self.base, self.letter, self._shares = base, letter, ...
        self.copied = self.either = order_like(base, letter)  # type: ignore[misc]

    def layout(self, base: Stand) -> Stand | None:
        if self._flag(base):
            return base
        like = stand_in(ShapeDtype(base.shape, np.bool_), base.strides)
        return np.empty_like(like, base.dtype, self.letter)  # type: ignore[call-overload]

    def _flag(self, of: Stand) -> bool:
        flags = of.flags
        wanted = {
            "C": flags.c_contiguous,
            "F": flags.f_contiguous,
            "A": flags.c_contiguous or flags.f_contiguous,
        }
        return wanted.get(self.letter, True)

    def _worked_out(self) -> bool | None:
        if self.base.aval.size <= 1:
            return True
        known = layout_of(self.base)
        return None if known is None else self._flag(known)


def _inverse(axes: Shape) -> Shape:
    return tuple([int(k) for k in np.argsort(axes)])
