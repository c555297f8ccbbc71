"""Views of traced values: how one reads itself from its base, writes itself into it, and what its strides are.

Note [In-place operations on traced values]
    A program is pure, so ``x += y`` and ``x[i] = v`` record a new value and let the handle ``x`` name it from then on: every
    alias of ``x`` sees the change, as in NumPy, and the caller's arrays never change. A view (``x[1:]``, ``x.T``,
    ``x.reshape``) remembers its base and how to read itself from it and write itself into it; after a write, the views
    of the same base that are still alive are read again. Recordings keep weak references to views, so that temporary
    ones cost nothing.
    Traced values are laid out in C order whatever the caller's strides are; ``reshape`` of a transposed view is a copy.

Floor: 6.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.errors import CapturedArrayError
from functrace.ir.aval import shape_of
from functrace.ops import elementwise as ew
from functrace.ops.indexing import decode_index, index_p, scatter_set
from functrace.ops.shaping import permute, reshape
from functrace.tracing.recording import OPEN, Tracer, bind, renewed


class View:
    """A view of all of its base; the other kinds say what differs."""

    __slots__ = ("base",)

    def __init__(self, base: Any) -> None:
        self.base = base

    def read(self, base: Any) -> Any:
        """Return the view's value, from the base's."""
        return base

    def write(self, base: Any, new: Any) -> Any:
        """Return the base's new value after the view has become ``new``."""
        return new

    def layout(self, base: Any) -> Any:
        """Return an ndarray with the strides that NumPy would give the view (its memory is not to be read)."""
        return base


class IndexView(View):
    """A basic index."""

    __slots__ = ("index",)

    def __init__(self, base: Any, index: tuple[Any, ...]) -> None:
        self.base, self.index = base, index

    def read(self, base: Any) -> Any:
        return bind(index_p, (base,), (self.index,))

    def write(self, base: Any, new: Any) -> Any:
        return scatter_set(base, self.index, new)

    def layout(self, base: Any) -> Any:
        return base[(*decode_index(self.index), ...)] if Ellipsis not in self.index else base[decode_index(self.index)]


class ReshapeView(View):
    """Another shape."""

    __slots__ = ("shape",)

    def __init__(self, base: Any, shape: tuple[int, ...]) -> None:
        self.base, self.shape = base, shape

    def read(self, base: Any) -> Any:
        return reshape(base, self.shape)

    def write(self, base: Any, new: Any) -> Any:
        return reshape(new, base.shape)

    def layout(self, base: Any) -> Any:
        return np.reshape(base, self.shape, copy=False)


class TransposeView(View):
    """Another order of axes."""

    __slots__ = ("axes",)

    def __init__(self, base: Any, axes: tuple[int, ...]) -> None:
        self.base, self.axes = base, axes

    def read(self, base: Any) -> Any:
        return permute(base, self.axes)

    def write(self, base: Any, new: Any) -> Any:
        return permute(new, tuple(int(k) for k in np.argsort(self.axes)))

    def layout(self, base: Any) -> Any:
        return base.transpose(self.axes)


class RealView(View):
    """The real part."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return ew.real(base)

    def write(self, base: Any, new: Any) -> Any:
        return ew.add(ew.mul(ew.imag(base), 1j), new)

    def layout(self, base: Any) -> Any:
        return base.real


class ImagView(View):
    """The imaginary part."""

    __slots__ = ()

    def read(self, base: Any) -> Any:
        return ew.imag(base)

    def write(self, base: Any, new: Any) -> Any:
        return ew.add(ew.real(base), ew.mul(new, 1j))

    def layout(self, base: Any) -> Any:
        return base.imag


class FunctionView(View):
    """A view by functions, for what the other kinds do not cover; ``contiguous`` if it only adds or drops axes of size 1."""

    __slots__ = ("contiguous", "read", "shape", "write")

    def __init__(self, base: Any, read: Any, write: Any, shape: tuple[int, ...], contiguous: bool) -> None:
        self.base, self.read, self.write, self.shape, self.contiguous = base, read, write, shape, contiguous

    def layout(self, base: Any) -> Any:
        if not self.contiguous:
            raise ValueError("strides not known")
        return np.reshape(base, self.shape, copy=False)


class SharedView(View):
    """A result of an operation that shares memory with its base in a way that a program cannot say: neither may be written.

    Args:
        base: what it shares memory with, or another handle of the result itself.
        shape: of the result.
        owner: what returned it, for messages.
    """

    __slots__ = ("owner", "shape", "stand_ins")

    def __init__(self, base: Any, shape: tuple[int, ...], owner: str) -> None:
        self.base, self.shape, self.owner = base, shape, owner
        self.stand_ins: list[Any] = []
        """Handles that stand for the result among the views of what it shares memory with, as long as it is alive."""

    def read(self, base: Any) -> Any:
        raise self._refusal()

    def write(self, base: Any, new: Any) -> Any:
        raise self._refusal()

    def layout(self, base: Any) -> Any:
        return np.lib.stride_tricks.as_strided(np.empty(1, base.dtype), self.shape, _contiguous(self.shape, base.dtype))

    def _refusal(self) -> CapturedArrayError:
        return CapturedArrayError(
            f"a write would change a result of {self.owner} and what it shares memory with, an operand or another result",
            fix="return a copy (x.copy()) from the function, or write into one",
        )


def guard(result: Any, bases: Sequence[Any], owner: str) -> None:
    """Refuse later writes to a result, and to traced values that it shares memory with while it is alive.

    NumPy scalars never change, so results without axes are left alone.
    """
    if not isinstance(result, Tracer) or not result.shape:
        return
    if type(result._view) is not SharedView:
        result._view = SharedView(renewed(result), result.shape, owner)
    for base in bases:
        if isinstance(base, Tracer):
            stand_in = renewed(result)
            stand_in._view = SharedView(base, result.shape, owner)
            watch(base._recording.views, stand_in)
            result._view.stand_ins.append(stand_in)


def as_view(
    result: Any, base: Any, read: Callable[[Any], Any], write: Callable[[Any, Any], Any], *, contiguous: bool = False
) -> Any:
    """Make ``result`` a view of ``base``: writes to either are seen by the other.

    Args:
        result: the view's value.
        base: what it is a view of.
        read: the view's value from the base's.
        write: the base's new value from its old one and the view's new one; raises if the view is read-only.
        contiguous: whether it only adds or drops axes of size 1.
    """
    return linked(result, FunctionView(base, read, write, shape_of(result), contiguous))


def replayed(value: Any, views: Sequence[View]) -> Any:
    """Return a view of a view … of ``value``, by views of something else, from the first to the last."""
    for view in views:
        view = copy.copy(view)
        view.base = value
        value = linked(view.read(value), view)
    return value


def linked(result: Any, view: View) -> Any:
    """Make ``result`` the given view, where it and its base are traced by one recording, or a body reads an outer value."""
    base = view.base
    if isinstance(result, Tracer) and isinstance(base, Tracer):
        if result is base:
            result = renewed(base)
        if result._recording is base._recording:
            result._view = view
            watch(base._recording.views, result)
        elif result._recording.scope is not OPEN:
            result._view = view  # nothing can be written while a body is recorded, so there is nothing to watch
    return result


def watch(views: list[weakref.ref[Any]], view: Any) -> None:
    """Remember a view by a weak reference; dead ones go whenever the list has grown to a power of two."""
    count = len(views)
    if count > 63 and not count & (count - 1):
        views[:] = [reference for reference in views if reference() is not None]
    views.append(weakref.ref(view))


def layout_of(x: Any) -> np.ndarray[Any, Any]:
    """An ndarray with the strides that NumPy would give ``x``; its memory is not to be read."""
    if x._view is not None:
        return x._view.layout(layout_of(x._view.base))
    return np.lib.stride_tricks.as_strided(np.empty(1, x.dtype), x.shape, _contiguous(x.shape, x.dtype))


def _contiguous(shape: tuple[int, ...], dtype: Any) -> tuple[int, ...]:
    """Strides in C order."""
    step, strides = dtype.itemsize, []
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """Reshape; a view of ``x`` wherever NumPy's would be one (its strides decide), otherwise a copy."""
    result = reshape(x, shape)
    if not isinstance(x, Tracer):
        return result
    if x._view is not None:
        try:
            np.reshape(layout_of(x), shape, copy=False)
        except ValueError:
            return renewed(x) if result is x else result
    return linked(result, ReshapeView(x, shape))


def transposed(x: Any, axes: tuple[int, ...]) -> Any:
    """Permute the axes (all non-negative); a view of ``x``."""
    return linked(permute(x, axes), TransposeView(x, axes))


def indexed(x: Any, index: tuple[Any, ...]) -> Any:
    """Read a static basic index; a view of ``x`` if the result is an array, as the hot path in ``__getitem__``."""
    result = bind(index_p, (x,), (index,))
    if shape_of(result) or Ellipsis in index:
        return linked(result, IndexView(x, index))
    return result
