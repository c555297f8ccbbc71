"""Views of traced values: how they are made, what a write into one of them reaches, and what is not known of them.

Note [In-place operations on traced values]
    A program is pure, so ``x += y`` and ``x[i] = v`` record a new value and let the handle ``x`` name it from then on: every
    alias of ``x`` sees the change, as in NumPy, and the caller's arrays never change. A view (``x[1:]``, ``x.T``,
    ``x.reshape``) remembers its base and how to read itself from it and write itself into it; after a write, the views
    of the same base that are still alive are read again. Recordings keep weak references to views, so that temporary
    ones cost nothing.

Note [View or copy]
    Whether ``x.reshape(…)`` or ``x.ravel()`` is a view depends on the strides of ``x``. It is decided when it matters: at
    the first write into either (`layout_of`). Where the layout is not known, what was written has its value, and whatever
    may or may not share its memory is `Unsettled`: the next use of it raises. So a program that never looks at the other
    side of such a write does not notice.

Note [Scalars and 0-d arrays]
    NumPy's scalars never change (``total = best; total += 1`` leaves ``best`` alone), its 0-d arrays do. A traced 0-d value
    without `View` is a scalar, as most functions return; one that is a view of something, or has memory of its own
    (`Owned`: ``np.zeros_like``, ``np.copy``, a 0-d array among the arguments), is an array. Of the arguments of a staged
    function, and of what an operation that holds programs returns, it is not known (`is_scalar`): after ``y += 1`` the old
    handle is unsettled.

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
    Owned,
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


# -- making them ------------------------------------------------------------------------------------------------------


def linked(result: Value, view: View) -> Any:
    """Make ``result`` the given view, where it and its base are traced by one recording, or a body reads an outer value."""
    base = view.base
    if not (isinstance(result, Tracer) and isinstance(base, Tracer)):
        return result
    need_open(base)
    made = base._recording.handle(base._id) if result is base else result  # of the base's own recording: a view, not a copy
    if not base.aval.shape and is_scalar(base):
        if type(view) is BroadcastView:  # read-only, though nobody writes to a scalar
            made._view = BroadcastView(owned(base), view.shape)
        elif view.is_array and not made.aval.shape:
            made._view = Owned(C_ORDER)
    elif made._recording is base._recording:
        made._view = view
        base._recording.views.watch(made)
    elif made._recording.scope is not OPEN:
        made._view = view  # nothing can be written while a body is recorded, so there is nothing to watch
    return made


def need_open(x: Tracer) -> None:
    """Check that a value has not outlived its recording, before one of its handles is returned."""
    recording = x._recording
    if recording.closed and not recording.makes_arrays:
        raise leaked(x)


def guard(result: Value, bases: Sequence[Any], owner: str) -> None:
    """Refuse later writes to a result, and to traced values that it shares memory with while it is alive.

    NumPy scalars never change, so results without axes are left alone.
    """
    if not isinstance(result, Tracer) or not result.shape:
        return
    if type(result._view) is not SharedView:
        result._view = SharedView(renewed(result), owner)
    for base in bases:
        if isinstance(base, Tracer):
            stand_in = renewed(result)
            stand_in._view = SharedView(base, owner)
            base._recording.views.watch(stand_in)
            result._view.stand_ins.append(stand_in)


def snapshot(x: Tracer, values: ArrayLike) -> np.ndarray[Any, Any]:
    """Return a plain array of the values of ``x``, which NumPy would let share its memory.

    It cannot be written to, nor can ``x`` and what shares memory with it, as long as the snapshot is alive.
    """
    array = np.array(values)
    if x.aval.shape or is_scalar(x) is False:
        array.flags.writeable = False
        stand_in = renewed(x)
        stand_in._view = SharedView(x, "np.asarray")
        x._recording.views.watch(stand_in)
        weakref.finalize(array, _let_go, stand_in).atexit = False
    return array


def _let_go(_stand_in: Tracer) -> None:
    """What a finalizer calls, which has kept its argument alive so far."""


def base_of(x: Tracer) -> Any:
    """Return what a traced value is a view of, or may be; ``None`` if it has memory of its own."""
    view = x._view
    return None if view is None or view.base is None or shares(view) is False else view.base


def replayed(value: Arrayed, views: Sequence[View]) -> Any:
    """Return a view of a view … of ``value``, by views of something else, from the first to the last."""
    for view in views:
        view = view.of(value)
        value = linked(view.read(value), view)
    return value


def owned(result: Value, order: Order = C_ORDER) -> Any:
    """Return ``result`` as an array with memory of its own, in an order: a new handle, if it is one that others have.

    For results of functions that the tape does not tell the layout of; the 0-d ones among them become arrays.
    """
    if not isinstance(result, Tracer):
        return result
    need_open(result)
    made = renewed(result)
    made._view = Owned(order)
    if not is_row(made.aval.shape):
        made._recording.views.add_copy(made._id, order)
    return made


def new_array(result: Value, order: Order = C_ORDER) -> Any:
    """Return a result that was recorded just now, and is nobody else's, as an array laid out in an order."""
    if isinstance(result, Tracer):
        result._view = Owned(order)
        if not is_row(result.aval.shape):
            result._recording.views.layouts[result._id] = order
    return result


def copied(x: Tracer, letter: str) -> Any:
    """A copy in an order; of a scalar, a scalar."""
    need_open(x)
    return owned(x, order_like(x, letter)) if x.aval.shape else copied_kind(renewed(x), is_scalar(x))


def copied_kind(made: Tracer, scalar: bool | None) -> Any:
    """Return a 0-d result as what its operand is: a scalar, an array, or one of the two."""
    made._view = None if scalar else MaybeScalar(C_ORDER) if scalar is None else Owned(C_ORDER)
    return made


def reshaped(x: Arrayed, shape: Shape) -> Any:
    """Reshape; a view of ``x`` wherever NumPy's would be one (its strides decide), otherwise a copy."""
    return linked(reshape(x, shape), ReshapeView(x, shape)) if isinstance(x, Tracer) else reshape(x, shape)


def transposed(x: Arrayed, axes: Shape) -> Any:
    """Permute the axes (all non-negative); a view of ``x``."""
    return linked(permute(x, axes), TransposeView(x, axes))


def indexed(x: Arrayed, index: tuple[Any, ...]) -> Any:
    """Read a static basic index; a view of ``x`` if the result is an array, as the hot path in ``__getitem__``."""
    result = bind(index_p, (x,), (index,))
    if shape_of(result):
        return linked(result, IndexView(x, index))
    if Ellipsis not in index:
        return result
    if isinstance(x, Tracer) and not x.aval.shape and is_scalar(x):
        return owned(result)
    return linked(result, IndexView(x, index))


def read_at(x: Arrayed, template: tuple[Any, ...], arrays: tuple[Any, ...], has_array: bool) -> Any:
    """Read a parsed index: a view where NumPy's index is basic, which it is not if a 0-d array stands in it.

    Args:
        x: the array.
        template, arrays: the index.
        has_array: whether a plain 0-d array was made an integer of the template.
    """
    if any(shape_of(a) for a in arrays):
        return gather(x, template, arrays)
    result = gather(x, template, arrays) if arrays or has_array else indexed(x, template)
    if not (arrays or has_array) or not isinstance(result, Tracer) or not (result.aval.shape or Ellipsis in template):
        return result
    scalars = [isinstance(a, np.generic) or (isinstance(a, Tracer) and is_scalar(a)) for a in arrays]
    if has_array or False in scalars:
        result._view = Owned(order_like(result, "K"))
        return result
    return linked(result, GatherView(x, template, arrays, None if None in scalars else True))


def laid_out(result: Value, order: Order = C_ORDER) -> Any:
    """Say how a result is laid out that was recorded just now and is nobody else's; its kind stays what it is."""
    if isinstance(result, Tracer):
        result._recording.views.layouts[result._id] = order
    return result


def reshape_in_place(x: Tracer, shape: Shape) -> None:
    """Give a handle another shape, as ``x.shape = shape`` does: it is a view, from then on, of a handle in its old place.

    Raises:
        ShapeError: if NumPy would have to copy.
    """
    if shape == x.aval.shape:
        return
    if not x.aval.shape and is_scalar(x) is not False:
        raise DtypeError(f"a scalar ({x.aval}) keeps its shape", fix="use np.reshape(x, shape)")
    check_writable(x)
    views, before = x._recording.views, x._recording.handle(x._id)
    before._view = x._view
    made = reshaped(before, shape)
    if made._view.shares() is not True:
        raise ShapeError(
            f"incompatible shape for in-place modification: {x.aval} is {shape} by a copy only, or may be",
            fix="use x = x.reshape(shape)",
        )
    for other in views.living():
        if other._view is not None and other._view.base is x:
            other._view.base = before
    if before._view is not None and before._view.base is not None:
        views.watch(before)
    x._id, x.aval, x._view = made._id, made.aval, made._view
    views.watch(x)


def is_part_of(x: Tracer, value: object, parse: Callable[[], Any]) -> bool:
    """Whether a value is the view of ``x`` that is to be written there, as ``x[index] += y`` ends.

    Args:
        x: the array.
        value: what is assigned.
        parse: returns the template and the arrays of the index.
    """
    view = value._view if isinstance(value, Tracer) else None
    if view is None or view.base is not x or not isinstance(view, IndexView | GatherView):
        return False
    return shares(view) is True and view.is_at(*parse())


# -- writing ----------------------------------------------------------------------------------------------------------


def rebind(x: Tracer, result: Tracer, *, fresh: bool) -> None:
    """Let a handle name a new value, and all that shares memory with it see the change.

    Args:
        x: the handle.
        result: a traced value.
        fresh: whether ``result`` was recorded for this write, so that no other handle names it.
    """
    view = x._view
    if view is not None and view.base is not None:
        shared, base = shares(view), view.base
        if shared:
            written = view.write(base, result)
            base._replace(written, fresh=fresh or written is not result)
            return
        check_writable(x)
        if shared is None:  # it may be memory of an argument, which other arguments may be, too
            check_writable(_root(base)[0])
        x._view = Owned(view.copied if shared is False else view.either)
        if shared is None:
            _unsettle_family(base)
    elif view is None:
        x._view = Owned(order_like(x, "=") if x.aval.shape else C_ORDER)
    before, after, unchanged = x._recording, result._recording, x._id
    x._recording, x._id = after, result._id
    if not is_row(x.aval.shape):
        order = x._view.order
        if fresh:
            after.views.layouts[x._id] = order
        else:
            after.views.add_copy(x._id, order)
    if before.views.references:
        _read_again(x, before, after, unchanged)


def _read_again(root: Tracer, before: Recording, after: Recording, unchanged: int) -> None:
    """Read the living views of a handle again."""
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
            fresh = other._view.read(other._view.base)
        except FunctraceError:
            root._recording, root._id = before, unchanged
            raise
        if fresh._recording is not other._recording:
            after.views.references.append(reference)  # a write by an inner recording moves the views to it, too
        other._recording, other._id = fresh._recording, fresh._id
    before.views.references[:] = alive


def shares(view: View) -> bool | None:
    """Whether a view that is linked to its base shares memory with it; ``None`` if that is not known."""
    if not view.base.aval.shape and is_scalar(view.base) is not False:
        return None
    return view.is_certain or view.shares()


def _root(x: Tracer) -> tuple[Any, bool]:
    """The handle whose memory ``x`` shows, or may show, and whether it is sure; what turns out to be a copy is cut off."""
    sure = True
    while (view := x._view) is not None and (base := view.base) is not None:
        if not (view.is_certain and base.aval.shape):
            shared = shares(view)
            if shared is False:
                x._view = Owned(view.copied)
                break
            sure = sure and shared is True
        x = base
    return x, sure


def root_of(x: Tracer) -> Any:
    """Return the handle whose memory ``x`` shows, or may show."""
    return _root(x)[0]


def _unsettle_family(x: Tracer) -> None:
    """Unsettle a handle, and all that shares memory with it, or may."""
    root, _ = _root(x)
    for other in [view for view in root._recording.views.living() if _root(view)[0] is root]:
        unsettle(other)
    unsettle(root)


# -- what is not known ------------------------------------------------------------------------------------------------

_ASKED_FURTHER = frozenset({INPUT, CONSTANT, RESULT})


def may_be_array(primitive: Primitive) -> bool:
    """Whether a 0-d value without `View` that a primitive has computed may be an array; most give scalars."""
    return primitive in _ASKED_FURTHER or primitive.holds is not None


def is_scalar(x: Tracer) -> bool | None:
    """Whether a 0-d value is a scalar, or an array (``False``); ``None`` if that is not known."""
    while True:
        view = x._view
        if view is not None:
            if view.base is None:
                return None if type(view) is MaybeScalar else False
            if view.is_array or view.base.aval.shape or type(view) is IndexView:
                return False
            x = view.base
            continue
        if x.is_number:
            return True
        recording = x._recording
        if type(recording) is Unsettled:
            return None
        primitive, operands, _ = recording.ops[x._id]
        if not may_be_array(primitive):
            return True
        if primitive is RESULT:
            return None if recording.primitives[operands[0]].holds is not None else True
        if primitive.holds is not None:
            return None
        value = recording.constants.get(x._id) if primitive is CONSTANT else recording.values.known.get(x._id)
        if not isinstance(value, Tracer):
            return True if value is not None or x._id in recording.values.batches else None
        x = value


def need_array(x: Tracer, what: str) -> None:
    """Check that a 0-d value is an array: NumPy lets these methods of a scalar do nothing, in silence."""
    if not x.aval.shape and is_scalar(x) is not False:
        raise DtypeError(f"{what} of a 0-d value ({x.aval}) that may be a scalar, which never changes", fix="use np.copy(x)")


def in_place_number(x: TracedArray, result: TracedArray, what: str) -> Any:
    """The result of an in-place operator on a 0-d value: a new scalar, or the array itself, changed."""
    scalar = is_scalar(x)
    if scalar is False:
        return x._assign(result, what, fresh=True)
    if scalar is None and not shape_of(result) and np.can_cast(result.dtype, x.dtype, "same_kind"):
        if result.dtype != x.dtype:
            Unsettled(x).refuse()
        _unsettle_family(x)
        unsettle(x)
        result._view = MaybeScalar(C_ORDER)
    return result


def unsettle(x: Tracer) -> None:
    """Let every further use of a handle raise, because its value is not known."""
    if type(x._recording) is not Unsettled:
        x._recording = Unsettled(x)


class _Refusing(list[Any]):
    """Stands in for the primitives of a tape; whoever writes to it raises."""

    __slots__ = ("recording",)
    recording: Unsettled

    def append(self, _op: object) -> NoReturn:
        self.recording.refuse()

    def __getitem__(self, _k: object) -> NoReturn:  # type: ignore[override]
        self.recording.refuse()


class _NoLayouts(dict[int, Any]):
    """Layouts of an `Unsettled` handle: not known."""

    __slots__ = ()

    def get(self, _variable: int, _default: object = None) -> None:  # type: ignore[override]
        return None


class Unsettled(Recording):
    """Stands in for the recording of a handle that was, or was not, changed by a write: it counts as newest, and raises."""

    __slots__ = ("made", "what")

    def __init__(self, x: Tracer) -> None:
        super().__init__(x._recording.owner, keeps_source=False)  # it is not one of those that are to end
        self.positions = []
        self.serial = float("inf")  # type: ignore[assignment]
        self.primitives = refusing = _Refusing()
        refusing.recording = self
        self.views.layouts = _NoLayouts()
        self.made: Source | None = user_source()
        self.what = x.aval

    def refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        """Raise."""
        if not self.what.shape:
            raise UnsupportedFunctionError(
                f"a 0-d value of {self.owner} was changed in place through another name{self._where()}: it is a scalar, "
                "which keeps its value, or a 0-d array, which does not, and which of the two is not known here",
                fix="write y = y + 1 instead of y += 1, or y = np.copy(y) before",
            )
        raise UnsupportedFunctionError(
            f"an array ({self.what}) of {self.owner} may share memory with one that was written in place{self._where()}: "
            "that depends on the memory layout that NumPy would have given it, which is not known here",
            fix="write into a copy, or take the view of one (x = x.copy() is laid out in C order), or write by an index",
        )

    def _where(self) -> str:
        return f" at {self.made.short}" if self.made is not None else ""

    handle = capture = operand = record = value = refuse  # type: ignore[assignment]

    def source(self, variable: int) -> Source | None:
        """The line of the write."""
        return self.made
