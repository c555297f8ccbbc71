"""Views of traced values: creation, writes through them, and values made unknown by a write.

Note [In-place operations on traced values]
    Programs are pure, so ``x += y`` and ``x[i] = v`` record a new value and rebind the handle ``x``
    to it: every alias of ``x`` sees the change, as in NumPy; the caller's arrays never change. A
    view (``x[1:]``, ``x.T``, ``x.reshape``) keeps its base and can read its value from it and write
    it back. After a write, the living views of the same base are read again. Recordings keep weak
    references to views, so that temporary views cost nothing.

Note [View or copy]
    The strides of ``x`` determine if ``x.reshape(…)`` or ``x.ravel()`` is a view. This is decided
    on the first write into either (`layout_of`). Where the layout is unknown, the written handle
    has its value, and handles that may share its memory become `StaleRecording`: their next use raises.
    A program that does not use them is unaffected.

Note [Scalars and 0-d arrays]
    NumPy's scalars are immutable (``total = best; total += 1`` leaves ``best`` unchanged), its 0-d
    arrays are not. A traced 0-d value without `View` is a scalar, as most functions return; a view,
    or a value with its own memory (`OwnMemory`: ``np.zeros_like``, ``np.copy``, a 0-d array among the
    arguments), is an array. For arguments of a staged function, and results of an operation with
    sub-programs, it is unknown (`is_scalar`): after ``y += 1`` the old handle is unsettled.

Layer: 3.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from functrace.errors import DtypeError, FunctraceError, ShapeError, UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Primitive
from functrace.numpy.arrays.layout import C_ORDER, Order, is_row, order_like
from functrace.numpy.arrays.view_kinds import (
    BroadcastView,
    GatherView,
    IndexView,
    MaybeScalar,
    OwnMemory,
    ReshapeView,
    SharedView,
    TransposeView,
    View,
)
from functrace.numpy.protocol.operands import Arrayed
from functrace.ops.indexing import gather, index_p
from functrace.ops.shaping import permute, reshape
from functrace.source import Source, user_source
from functrace.tracing.binding import OPEN, bind, check_writable, renewed
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer, Value, leaked
from functrace.typing import ArrayLike

if TYPE_CHECKING:
    from functrace.numpy.arrays.traced_array import TracedArray

Shape = tuple[int, ...]


# -- creation --------------------------------------------------------------------------------------


def linked(result: Value, view: View) -> Any:
    """Make ``result`` the given view of its base, if its recording or an outer one traces it."""
    base = view.base
    if not (isinstance(result, Tracer) and isinstance(base, Tracer)):
        return result
    need_open(base)
    made = (
        base.ft_recording.handle(base.ft_variable) if result is base else result
    )  # views need own handles
    if not base.aval.shape and is_scalar(base):
        if type(view) is BroadcastView:  # read-only, though scalars are never written
            made.ft_view = BroadcastView(owned(base), view.shape)
        elif view.is_array and not made.aval.shape:
            made.ft_view = OwnMemory(C_ORDER)
    elif made.ft_recording is base.ft_recording:
        made.ft_view = view
        base.ft_recording.views.watch(made)
    elif made.ft_recording.scope is not OPEN:
        made.ft_view = view  # a body's trace allows no writes, so the view needs no watching
    return made


def need_open(x: Tracer) -> None:
    """Raise if a value has outlived its recording, before returning a handle of it."""
    recording = x.ft_recording
    if recording.closed and not recording.makes_arrays:
        raise leaked(x)


def guard(result: Value, bases: Sequence[Any], owner: str) -> None:
    """Forbid writes to a result, and to traced values that share its memory, while it is alive.

    NumPy scalars are immutable, so 0-d results are skipped.
    """
    if not isinstance(result, Tracer) or not result.shape:
        return
    if type(result.ft_view) is not SharedView:
        result.ft_view = SharedView(renewed(result), owner)
    for base in bases:
        if isinstance(base, Tracer):
            stand_in = renewed(result)
            stand_in.ft_view = SharedView(base, owner)
            base.ft_recording.views.watch(stand_in)
            result.ft_view.stand_ins.append(stand_in)


def snapshot(x: Tracer, values: ArrayLike) -> np.ndarray[Any, Any]:
    """Return the concrete values of ``x`` as an array, where NumPy would share memory.

    The snapshot is read-only, and while it is alive, so are ``x`` and the values that share its
    memory.
    """
    array = np.array(values)
    if x.aval.shape or is_scalar(x) is False:
        array.flags.writeable = False
        stand_in = renewed(x)
        stand_in.ft_view = SharedView(x, "np.asarray")
        x.ft_recording.views.watch(stand_in)
        weakref.finalize(array, _keep_alive, stand_in).atexit = False
    return array


def _keep_alive(_stand_in: Tracer) -> None:
    """Do nothing: a finalizer calls this, and keeps its argument alive until then."""


def base_of(x: Tracer) -> Any:
    """Return the base of a value that is or may be a view; ``None`` if it owns its memory."""
    view = x.ft_view
    return None if view is None or view.base is None or shares(view) is False else view.base


def replayed(value: Arrayed, views: Sequence[View]) -> Any:
    """Apply the views of another value to ``value``, from the first to the last."""
    for view in views:
        view = view.of(value)
        value = linked(view.read(value), view)
    return value


def owned(result: Value, order: Order = C_ORDER) -> Any:
    """Return ``result`` as an array that owns its memory, in an order, under a new handle.

    For results whose layout the tape does not determine; 0-d results become arrays.
    """
    if not isinstance(result, Tracer):
        return result
    need_open(result)
    made = renewed(result)
    made.ft_view = OwnMemory(order)
    if not is_row(made.aval.shape):
        made.ft_recording.views.add_copy(made.ft_variable, order)
    return made


def new_array(result: Value, order: Order = C_ORDER) -> Any:
    """Return a newly recorded result without other handles as an array in an order."""
    if isinstance(result, Tracer):
        result.ft_view = OwnMemory(order)
        if not is_row(result.aval.shape):
            result.ft_recording.views.layouts[result.ft_variable] = order
    return result


def copied(x: Tracer, letter: str) -> Any:
    """Return a copy in an order; a copy of a scalar is a scalar."""
    need_open(x)
    return (
        owned(x, order_like(x, letter)) if x.aval.shape else copied_kind(renewed(x), is_scalar(x))
    )


def copied_kind(made: Tracer, scalar: bool | None) -> Any:
    """Return a 0-d result of the kind of its operand: scalar, array, or unknown."""
    made.ft_view = (
        None if scalar else MaybeScalar(C_ORDER) if scalar is None else OwnMemory(C_ORDER)
    )
    return made


def reshaped(x: Arrayed, shape: Shape) -> Any:
    """Reshape; a view of ``x`` where NumPy makes one (by strides), otherwise a copy."""
    return (
        linked(reshape(x, shape), ReshapeView(x, shape))
        if isinstance(x, Tracer)
        else reshape(x, shape)
    )


def transposed(x: Arrayed, axes: Shape) -> Any:
    """Permute the axes (all non-negative) as a view of ``x``."""
    return linked(permute(x, axes), TransposeView(x, axes))


def indexed(x: Arrayed, index: tuple[Any, ...]) -> Any:
    """Read a static basic index; a view of ``x`` if the result is an array, as ``__getitem__``."""
    result = bind(index_p, (x,), (index,))
    if shape_of(result):
        return linked(result, IndexView(x, index))
    if Ellipsis not in index:
        return result
    if isinstance(x, Tracer) and not x.aval.shape and is_scalar(x):
        return owned(result)
    return linked(result, IndexView(x, index))


def read_at(x: Arrayed, template: tuple[Any, ...], arrays: tuple[Any, ...], has_array: bool) -> Any:
    """Read a parsed index: a view if NumPy's index is basic, which excludes 0-d arrays.

    Args:
        x: the array.
        template, arrays: the index.
        has_array: True if an integer of the template was a plain 0-d array.
    """
    if any(shape_of(a) for a in arrays):
        return gather(x, template, arrays)
    result = gather(x, template, arrays) if arrays or has_array else indexed(x, template)
    if (
        not (arrays or has_array)
        or not isinstance(result, Tracer)
        or not (result.aval.shape or Ellipsis in template)
    ):
        return result
    scalars = [
        isinstance(a, np.generic) or (isinstance(a, Tracer) and is_scalar(a)) for a in arrays
    ]
    if has_array or False in scalars:
        result.ft_view = OwnMemory(order_like(result, "K"))
        return result
    return linked(result, GatherView(x, template, arrays, None if None in scalars else True))


def laid_out(result: Value, order: Order = C_ORDER) -> Any:
    """Set the layout of a newly recorded result without other handles; its kind is unchanged."""
    if isinstance(result, Tracer):
        result.ft_recording.views.layouts[result.ft_variable] = order
    return result


def reshape_in_place(x: Tracer, shape: Shape) -> None:
    """Reshape a handle in place (``x.shape = shape``): it becomes a view of a new handle.

    Raises:
        ShapeError: if NumPy would have to copy.
    """
    if shape == x.aval.shape:
        return
    if not x.aval.shape and is_scalar(x) is not False:
        raise DtypeError(f"a scalar ({x.aval}) keeps its shape", fix="use np.reshape(x, shape)")
    check_writable(x)
    views, before = x.ft_recording.views, x.ft_recording.handle(x.ft_variable)
    before.ft_view = x.ft_view
    made = reshaped(before, shape)
    if made.ft_view.shares() is not True:
        raise ShapeError(
            f"incompatible shape for in-place modification: {x.aval} is {shape} by a copy only, or "
            "may be",
            fix="use x = x.reshape(shape)",
        )
    for other in views.living():
        if other.ft_view is not None and other.ft_view.base is x:
            other.ft_view.base = before
    if before.ft_view is not None and before.ft_view.base is not None:
        views.watch(before)
    x.ft_variable, x.aval, x.ft_view = made.ft_variable, made.aval, made.ft_view
    views.watch(x)


def is_part_of(x: Tracer, value: object, parse: Callable[[], Any]) -> bool:
    """Return True if a value is the view ``x[index]``, as at the end of ``x[index] += y``.

    Args:
        x: the array.
        value: the assigned value.
        parse: returns the template and the arrays of the index.
    """
    view = value.ft_view if isinstance(value, Tracer) else None
    if view is None or view.base is not x or not isinstance(view, IndexView | GatherView):
        return False
    return shares(view) is True and view.is_at(*parse())


# -- writing ---------------------------------------------------------------------------------------


def rebind(x: Tracer, result: Tracer, *, fresh: bool) -> None:
    """Rebind a handle to a new value, and update all views that share memory with it.

    Args:
        x: the handle.
        result: a traced value.
        fresh: True if ``result`` was recorded for this write, so that no other handle names it.
    """
    view = x.ft_view
    if view is not None and view.base is not None:
        shared, base = shares(view), view.base
        if shared:
            written = view.write(base, result)
            base._replace(written, fresh=fresh or written is not result)
            return
        check_writable(x)
        if shared is None:  # it may be memory of an argument, which other arguments may share
            check_writable(_root(base)[0])
        x.ft_view = OwnMemory(view.copied if shared is False else view.either)
        if shared is None:
            _unsettle_family(base)
    elif view is None:
        x.ft_view = OwnMemory(order_like(x, "=") if x.aval.shape else C_ORDER)
    before, after, unchanged = x.ft_recording, result.ft_recording, x.ft_variable
    x.ft_recording, x.ft_variable = after, result.ft_variable
    if not is_row(x.aval.shape):
        order = x.ft_view.order
        if fresh:
            after.views.layouts[x.ft_variable] = order
        else:
            after.views.add_copy(x.ft_variable, order)
    if before.views.references:
        _read_again(x, before, after, unchanged)


def _read_again(root: Tracer, before: Recording, after: Recording, unchanged: int) -> None:
    """Re-read the living views of a handle."""
    alive = []
    for reference in before.views.references:
        other = reference()
        if other is None:
            continue
        alive.append(reference)
        found, sure = _root(other)
        if found is not root or other is root:
            continue
        if not sure:
            unsettle(other)
            continue
        try:
            fresh = other.ft_view.read(other.ft_view.base)
        except FunctraceError:
            root.ft_recording, root.ft_variable = before, unchanged
            raise
        if fresh.ft_recording is not other.ft_recording:
            after.views.references.append(reference)  # writes by inner recordings move the views
        other.ft_recording, other.ft_variable = fresh.ft_recording, fresh.ft_variable
    before.views.references[:] = alive


def shares(view: View) -> bool | None:
    """Return True if a view shares memory with its base; ``None`` if unknown."""
    if not view.base.aval.shape and is_scalar(view.base) is not False:
        return None
    return view.is_certain or view.shares()


def _root(x: Tracer) -> tuple[Any, bool]:
    """Return the handle that owns or may own the memory, and if it is certain; unlink copies."""
    sure = True
    while (view := x.ft_view) is not None and (base := view.base) is not None:
        if not (view.is_certain and base.aval.shape):
            shared = shares(view)
            if shared is False:
                x.ft_view = OwnMemory(view.copied)
                break
            sure = sure and shared is True
        x = base
    return x, sure


def root_of(x: Tracer) -> Any:
    """Return the handle that owns, or may own, the memory of ``x``."""
    return _root(x)[0]


def _unsettle_family(x: Tracer) -> None:
    """Unsettle a handle and all values that share memory with it, or may."""
    root, _ = _root(x)
    for other in [view for view in root.ft_recording.views.living() if _root(view)[0] is root]:
        unsettle(other)
    unsettle(root)


# -- unknown values --------------------------------------------------------------------------------

_ASKED_FURTHER = frozenset({INPUT, CONSTANT, RESULT})


def may_be_array(primitive: Primitive) -> bool:
    """Return True if a primitive may return a 0-d array without `View`; most return scalars."""
    return primitive in _ASKED_FURTHER or primitive.holds is not None


def is_scalar(x: Tracer) -> bool | None:
    """Return True for a 0-d scalar, False for a 0-d array, ``None`` if unknown."""
    while True:
        view = x.ft_view
        if view is not None:
            if view.base is None:
                return None if type(view) is MaybeScalar else False
            if view.is_array or view.base.aval.shape or type(view) is IndexView:
                return False
            x = view.base
            continue
        if x.is_number:
            return True
        recording = x.ft_recording
        if type(recording) is StaleRecording:
            return None
        primitive, operands, _ = recording.ops[x.ft_variable]
        if not may_be_array(primitive):
            return True
        if primitive is RESULT:
            return None if recording.primitives[operands[0]].holds is not None else True
        if primitive.holds is not None:
            return None
        value = (
            recording.constants.get(x.ft_variable)
            if primitive is CONSTANT
            else recording.values.known.get(x.ft_variable)
        )
        if not isinstance(value, Tracer):
            return True if value is not None or x.ft_variable in recording.values.batches else None
        x = value


def need_array(x: Tracer, what: str) -> None:
    """Raise unless a 0-d value is an array: NumPy's methods silently do nothing on scalars."""
    if not x.aval.shape and is_scalar(x) is not False:
        raise DtypeError(
            f"{what} of a 0-d value ({x.aval}) that may be a scalar, which never changes",
            fix="use np.copy(x)",
        )


def in_place_number(x: TracedArray, result: TracedArray, what: str) -> Any:
    """Return the result of an in-place operator on a 0-d value: a new scalar, or the array."""
    scalar = is_scalar(x)
    if scalar is False:
        return x.ft_assign(result, what, fresh=True)
    if scalar is None and not shape_of(result) and np.can_cast(result.dtype, x.dtype, "same_kind"):
        if result.dtype != x.dtype:
            StaleRecording(x).refuse()
        _unsettle_family(x)
        unsettle(x)
        result.ft_view = MaybeScalar(C_ORDER)
    return result


def unsettle(x: Tracer) -> None:
    """Make every further use of a handle raise, because its value is unknown."""
    if type(x.ft_recording) is not StaleRecording:
        x.ft_recording = StaleRecording(x)


class _StalePrimitives(list[Any]):
    """Primitives of the tape of an unsettled handle: access raises."""

    __slots__ = ("recording",)
    recording: StaleRecording

    def append(self, _op: object) -> NoReturn:
        self.recording.refuse()

    def __getitem__(self, _k: object) -> NoReturn:  # type: ignore[override]
        self.recording.refuse()


class _UnknownLayouts(dict[int, Any]):
    """Layouts of an `StaleRecording` handle: unknown."""

    __slots__ = ()

    def get(self, _variable: int, _default: object = None) -> None:  # type: ignore[override]
        return None


class StaleRecording(Recording):
    """Recording of a handle that a write may have changed: counts as newest; every use raises."""

    __slots__ = ("made", "what")

    def __init__(self, x: Tracer) -> None:
        super().__init__(
            x.ft_recording.owner, keeps_source=False
        )  # not among the recordings to end
        self.positions = []
        self.serial = float("inf")  # type: ignore[assignment]
        self.primitives = refusing = _StalePrimitives()
        refusing.recording = self
        self.views.layouts = _UnknownLayouts()
        self.made: Source | None = user_source()
        self.what = x.aval

    def refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Raise the error of every use."""
        if not self.what.shape:
            raise UnsupportedFunctionError(
                f"a 0-d value of {self.owner} was changed in place through another "
                f"name{self._where()}: it is a scalar, "
                "which keeps its value, or a 0-d array, which does not, and which of the two is "
                "not known here",
                fix="write y = y + 1 instead of y += 1, or y = np.copy(y) before",
            )
        raise UnsupportedFunctionError(
            f"an array ({self.what}) of {self.owner} may share memory with one that was written in "
            f"place{self._where()}: "
            "that depends on the memory layout that NumPy would have given it, which is not known "
            "here",
            fix="write into a copy, or take the view of one (x = x.copy() is laid out in C order), "
            "or write by an index",
        )

    def _where(self) -> str:
        return f" at {self.made.short}" if self.made is not None else ""

    handle = capture = operand = record = value = refuse  # type: ignore[assignment]

    def source(self, variable: int) -> Source | None:
        """Return the line of the write."""
        return self.made
