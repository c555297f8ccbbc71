"""Read-only copies of the caller's arrays, with the memory layout of the originals; equal memory is
copied once.

`own` copies an array. `shared_copy` looks for a copy of the same memory first: nested recordings
share it, as do an array and its transposed, reversed or broadcast views. Read-only arrays are not
copied.

Layer: 1.
"""

from __future__ import annotations

import math
import mmap
import sys
import weakref
from collections.abc import Iterator
from typing import Any, final

import numpy as np

from functrace.caches import BoundedCache, CacheEntry
from functrace.locks import Lock
from functrace.typing import Array

_COMPARED = 1 << 18
"""Bytes per comparison, so that NumPy's temporaries stay in the processor's cache."""


def own(value: Array) -> Array:
    """Return a copy in native byte order with the strides of the array: negative, zero, or with
    gaps.

    NumPy's sums, complex products and matrix products depend on strides: results computed from the
    copy must equal those of the array, bit for bit. Gaps in the copy are one element wide, whatever
    their width in the array.
    """
    dtype = value.dtype if value.dtype.isnative else value.dtype.newbyteorder("=")
    if value.flags.forc or dtype.kind not in "biufc":
        return np.array(value, dtype)
    if value.ndim == 1 and value.strides[0] > 0:  # as below, in 1 us instead of 6
        copied = np.empty((value.shape[0], 2), dtype)[:, 0]
        copied[...] = value
        return copied
    size = span = follows = room = dtype.itemsize
    steps, first, repeats = [0] * value.ndim, 0, False
    for k in sorted(range(value.ndim), key=lambda k: abs(value.strides[k])):
        step, n = abs(value.strides[k]), value.shape[k]
        if step == 0 or n == 1:
            repeats = repeats or n != 1
            continue
        if step < span:  # windows that overlap
            return value.astype(dtype)
        made = room if step == follows else room + size
        span, follows, room = (n - 1) * step + span, n * step, n * made
        steps[k] = made if value.strides[k] > 0 else -made
        first += 0 if value.strides[k] > 0 else (n - 1) * made
    copied = np.ndarray(value.shape, dtype, np.empty(room, np.uint8).data, first, steps)
    copied[...] = value
    copied.flags.writeable = not repeats
    return copied


def is_read_only(array: Array) -> bool:
    """Return True if an array and every base up to the owner of its memory are read-only."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        if owner.base is None:
            return owner.flags.owndata
        owner = owner.base
        if isinstance(owner, memoryview):
            owner = owner.obj
    return isinstance(owner, bytes) or (isinstance(owner, mmap.mmap) and memoryview(owner).readonly)


def is_mapped(array: Array) -> bool:
    """Return True if an array's memory is a file that is memory-mapped for writing."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return isinstance(owner, mmap.mmap) and not memoryview(owner).readonly


# -- copies that are shared ------------------------------------------------------------------------


_copies: weakref.WeakValueDictionary[Any, Array] = weakref.WeakValueDictionary()
"""Live copies by the memory that they copy. They are one-dimensional, and the base of all views of
them.
"""

_ours: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()
"""Live copies by identity: a recording forwards its captured arrays to the outer recording."""

_forms: weakref.WeakValueDictionary[Any, Array] = weakref.WeakValueDictionary()
"""Views of the copies, by identity of the copy and layout of the original: one view for an array
that is captured again.
"""


def shared_copy(original: Array) -> Array:
    """Return a read-only copy in the layout of the original: all arrays over the same memory get
    views of one copy.
    """
    if original.base is not None and _ours.get(id(original.base)) is original.base:
        return original
    if is_read_only(original):
        key = (*_place(original), original.shape, original.strides)
        return _forms.setdefault(key, original.view(np.ndarray))
    axes = sorted(range(original.ndim), key=lambda k: -abs(original.strides[k]))
    flips = tuple([slice(None, None, -1 if original.strides[k] < 0 else 1) for k in axes])
    form = original.view(np.ndarray).transpose(axes)[flips]  # strides descend, and none is negative
    memory = _memory(form)
    key = (*_place(memory), memory.shape, memory.strides)
    copied = _copies.get(key)
    if copied is None or not same_bits(memory, copied.reshape(memory.shape)):
        copied = _copies[key] = _copied(memory)
        _ours[id(copied)] = copied
    key = (id(copied), original.shape, original.strides)
    made = _forms.get(key)
    if made is None:
        made = _formed(copied, form)[flips].transpose([axes.index(k) for k in range(len(axes))])
        made = _forms.setdefault(key, made)
    return made


def _place(array: Array) -> tuple[int, str]:
    return array.__array_interface__["data"][0], array.dtype.str


def _memory(form: Array) -> Array:
    """Return each element of an array once: no broadcast axes or axes of size 1; overlapping
    windows become one axis.
    """
    distinct = form[(*[0 if step == 0 or n == 1 else slice(None) for n, step in _axes(form)], ...)]
    size = form.dtype.itemsize
    span = size + sum((n - 1) * step for n, step in _axes(form))
    if span < distinct.nbytes and not any(step % size for step in form.strides):
        return np.lib.stride_tricks.as_strided(form, (span // size,), (size,), writeable=False)
    return distinct


def _formed(copied: Array, form: Array) -> Array:
    """Return the copy of the `_memory` of an array in that array's shape."""
    kept = [1 if step == 0 else n for n, step in _axes(form)]
    if copied.size == math.prod(kept):
        return np.broadcast_to(copied.reshape(kept), form.shape)
    return np.lib.stride_tricks.as_strided(copied, form.shape, form.strides, writeable=False)


def _axes(array: Array) -> Iterator[tuple[int, int]]:
    return zip(array.shape, array.strides, strict=True)


# -- copies in reused memory: page faults on new memory would be most of the cost of a copy --------

_LARGEST_KEPT = 32 << 20
_MOST_KEPT = 64 << 20
"""Maximum bytes of one piece of memory that is kept for reuse, and of all pieces together."""


@final
class _MemoryRange(CacheEntry):
    """A piece of memory."""

    __slots__ = ("memory",)

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.memory = np.empty(size, np.uint8)

    def measure(self) -> int:
        """Return the size of the memory."""
        return self.memory.nbytes


_pieces: BoundedCache[_MemoryRange] = BoundedCache(
    "memory for copies of arrays", _MOST_KEPT, 1 << 10
)
_choosing = Lock()


def _copied(memory: Array) -> Array:
    """Return the elements in C order, as a read-only 1-d array; its memory is reused when no view
    of it is left.
    """
    dtype = memory.dtype.newbyteorder("=")
    with _choosing.now:
        copied = np.frombuffer(_piece(memory.nbytes).data, dtype, memory.size)
    np.copyto(copied.reshape(memory.shape), memory)
    copied.flags.writeable = False
    return copied


def _piece(size: int) -> Array:
    """Return unused memory of at least ``size`` bytes."""
    for piece in list(_pieces.entries.values()):  # at once: another thread may clear it
        if size <= piece.memory.nbytes <= 2 * size and sys.getrefcount(piece.memory) == _UNUSED:
            piece.used = _pieces.tick()
            return piece.memory
    made = _MemoryRange(size)
    if size <= _LARGEST_KEPT:
        _pieces.add(id(made), made)
    return made.memory


def same_bits(a: Array, b: Array) -> bool:
    """Return True if two arrays of the same shape are equal in dtype, and bit for bit."""
    if a.dtype != b.dtype:
        return False
    size = a.dtype.itemsize
    if size > 8 or not a.ndim:
        if not (size == 16 and a.ndim and a.strides[-1] == size == b.strides[-1]):
            return a.tobytes() == b.tobytes()
        size = 8
    a, b = a.view(f"u{size}"), b.view(f"u{size}")
    row = max(1, a.nbytes // max(1, len(a)))
    step = max(1, _COMPARED // row)
    return not any((a[k : k + step] != b[k : k + step]).any() for k in range(0, len(a), step))


_UNUSED = (lambda pieces: sys.getrefcount(pieces[0]))([np.empty(0)])
"""Reference count of an object that only one list refers to."""
