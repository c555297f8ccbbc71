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

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ir.aval import shape_of
from functrace.ops import elementwise as ew
from functrace.ops.indexing import decode_index, index_p, scatter_set
from functrace.ops.shaping import permute, reshape
from functrace.tracing.recording import Tracer, bind


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


def linked(result: Any, view: View) -> Any:
    """Make ``result`` the given view, where it and its base are traced by one recording."""
    base = view.base
    if isinstance(result, Tracer) and isinstance(base, Tracer) and result._recording is base._recording:
        if result is base:
            result = base._recording.handle(base._id)
        result._view = view
        watch(base._recording.views, result)
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
    memory, step, strides = np.empty(1, x.dtype), x.dtype.itemsize, []
    for n in reversed(x.shape):
        strides.append(step)
        step *= n
    return np.lib.stride_tricks.as_strided(memory, x.shape, tuple(reversed(strides)))


def reshaped(x: Any, shape: tuple[int, ...]) -> Any:
    """Reshape; a view of ``x`` wherever NumPy's would be one (its strides decide), otherwise a copy."""
    result = reshape(x, shape)
    if not isinstance(x, Tracer):
        return result
    if x._view is not None:
        try:
            np.reshape(layout_of(x), shape, copy=False)
        except ValueError:
            return x._recording.handle(x._id) if result is x else result
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
