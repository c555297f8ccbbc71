"""The caller's arrays: what a recording may read later is held as it is now.

Note [The caller's arrays can change under us]
    A recording reads the arrays it has been given, and those it captured, only when it is evaluated. If the user overwrites
    one before that (a reused buffer, a minibatch array, another thread), the result would be wrong in silence. So every
    array is copied when it is met: then the recording computes what NumPy would have computed there and then, whoever
    writes later, through whichever view, handle or pointer. A copy costs no more than an elementwise operation on the array.
    Where an array is met again, it is compared with the copy, which is shared as long as it is equal: by recordings that
    nest, and between an array and its transposed, reversed or broadcast forms.
    The one exception is memory that is declared read-only, down to the object that owns it: that is shared. It is how one
    hands over gigabytes without a copy, and the declaration is taken at its word (docs/sharp_bits.md).
    See docs/decisions/0009-callers-arrays.md for what else was considered, and what each costs.

Floor: 1.
"""

from __future__ import annotations

import math
import mmap
import sys
import weakref
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.caches import Bounded, Kept
from functrace.errors import CapturedArrayError
from functrace.ir.aval import check_plain
from functrace.ir.program import Program
from functrace.locks import Lock

if TYPE_CHECKING:
    from types import TracebackType

    from functrace.ir.aval import Constant
    from functrace.typing import Array

SMALL = 1 << 14
"""Arrays of at most this many bytes are copied without ado; copies of larger ones are looked for first, and shared."""

_COMPARED = 1 << 18
"""Bytes that are compared at a time, so that what NumPy writes in between stays in the processor's cache."""

_ref, _array = weakref.ref, np.array


@final
class Held:
    """An array as a recording holds it: a copy, or the caller's own if nobody can write to it.

    Args:
        original: the caller's array.
    """

    __slots__ = ("array", "original", "strides")

    def __init__(self, original: Array) -> None:
        if type(original) is not np.ndarray:
            check_plain(original)
        self.original: weakref.ref[Array] = _ref(original)
        self.strides = original.strides  # the copy's may be others
        if original.nbytes <= SMALL:
            self.array = own(original)
        else:
            self.array = _shared(original)
        watched = _watched.get()
        if watched is not None:
            watched.append(Watch(original, self))

    def handed_on(self) -> Array:
        """Return what to hand to the recording around: if small, the caller's own, while it is the same, to be met again."""
        if self.array.nbytes <= SMALL:
            original = self.original()
            if original is not None and self.equals(original):
                return original
        return self.array

    def holds(self, value: Array) -> bool:
        """Whether ``value`` is the very array that is held, and still is what it was."""
        if self.original() is not value:
            return False
        held = self.array
        if held.dtype is value.dtype and held.nbytes <= SMALL:  # in line: this is the array met again, at every operation
            return held.shape == value.shape and held.tobytes() == value.tobytes()
        return self.equals(value)

    def equals(self, value: Array) -> bool:
        """Whether an array has the shape, dtype and values that were held, bit for bit."""
        held = self.array
        if value.shape != held.shape:
            return False
        if value.dtype != held.dtype:
            native = value.dtype.newbyteorder("=")
            return native != value.dtype and native == held.dtype and _same(value.astype(native), held)
        return value.tobytes() == held.tobytes() if held.nbytes <= SMALL else _same(value, held)


def held_array(value: Constant) -> Any:
    """Return an array as it is now, whoever writes to it later; anything else as it is."""
    if type(value) is not np.ndarray:
        return Held(value).array if isinstance(value, np.ndarray) else value
    if value.nbytes <= SMALL and _watched.get() is None:  # as `Held` does, which costs 0.4 us more
        return _array(value) if value.flags.forc and value.dtype.isnative else own(value)
    return Held(value).array


def own(value: Array) -> Array:
    """Return a copy in the machine's byte order that lies in memory as the array does: turned round, repeated, or with gaps.

    NumPy adds, and multiplies complex numbers and matrices, in ways that depend on strides: what is computed of the copy is
    to be, bit for bit, what is computed of the array. Gaps are of one element, however wide they are there.
    """
    dtype = value.dtype if value.dtype.isnative else value.dtype.newbyteorder("=")
    if value.flags.forc or dtype.kind not in "biufc":
        return _array(value, dtype)
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
    """Whether memory is declared read-only by all that stand between an array and what owns the memory."""
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
    """Whether an array is in a file that is mapped for writing."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return isinstance(owner, mmap.mmap) and not memoryview(owner).readonly


def own_constants(program: Program) -> Program:
    """Return a program that outlives its recording, with constants that nobody else has and nobody can write to."""
    values = dict(program.constant_values)
    for i, value in values.items():
        if isinstance(value, np.ndarray):
            copied = values[i] = own(value)
            copied.flags.writeable = False
    return program.with_constants(values) if values else program


# -- copies that are shared ------------------------------------------------------------------------------------------------


_copies: weakref.WeakValueDictionary[Any, Array] = weakref.WeakValueDictionary()
"""Copies that are held now, by the memory that they are of. They are one-dimensional, and the base of all their forms."""

_ours: weakref.WeakValueDictionary[int, Array] = weakref.WeakValueDictionary()
"""The same by identity: a recording hands what it holds on to the one around it."""

_forms: weakref.WeakValueDictionary[Any, Array] = weakref.WeakValueDictionary()
"""What they are held as, by identity of the copy and layout of the original: one array for an array that is met again."""


def _shared(original: Array) -> Array:
    """Return an array that nobody writes to, in the layout of the original: a view of one copy for all forms of a memory."""
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
    if copied is None or not _same(memory, copied.reshape(memory.shape)):
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
    """Return the elements of an array, each once: without axes that repeat or do nothing, overlapping windows as a line."""
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


# -- copies in memory that is used again: the kernel's clearing of new pages would be most of what a copy costs -------------

_LARGEST_KEPT = 32 << 20
_MOST_KEPT = 64 << 20
"""Bytes of one piece of memory that is kept for the next copy, and of all together."""


@final
class _Piece(Kept):
    """A piece of memory."""

    __slots__ = ("memory",)

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.memory = np.empty(size, np.uint8)

    def measure(self) -> int:
        """Return the size of the memory."""
        return self.memory.nbytes


_pieces: Bounded[_Piece] = Bounded("memory for copies of arrays", _MOST_KEPT, 1 << 10)
_choosing = Lock()


def _copied(memory: Array) -> Array:
    """Return the elements in C order, as a read-only line; its memory is used again when no view of it is left."""
    dtype = memory.dtype.newbyteorder("=")
    with _choosing.now:
        copied = np.frombuffer(_piece(memory.nbytes).data, dtype, memory.size)
    np.copyto(copied.reshape(memory.shape), memory)
    copied.flags.writeable = False
    return copied


def _piece(size: int) -> Array:
    """Return memory of at least ``size`` bytes that nobody uses."""
    for piece in list(_pieces.entries.values()):  # at once: another thread may clear it
        if size <= piece.memory.nbytes <= 2 * size and sys.getrefcount(piece.memory) == _UNUSED:
            piece.used = _pieces.tick()
            return piece.memory
    made = _Piece(size)
    if size <= _LARGEST_KEPT:
        _pieces.add(id(made), made)
    return made.memory


def _same(a: Array, b: Array) -> bool:
    """Whether two arrays of one shape and dtype are the same, bit for bit."""
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
"""What the reference count of something in a list is, if nobody else refers to it."""


# -- what runs once must not change what it reads --------------------------------------------------------------------------


@final
class Watch:
    """An array that was read while something was recorded: whether its memory is still there afterwards, and the same."""

    __slots__ = ("__array_interface__", "_owner", "held")

    def __init__(self, original: Array, held: Held) -> None:
        owner = original
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self._owner = weakref.ref(owner)
        self.held = held
        self.__array_interface__ = original.__array_interface__

    @property
    def is_alive(self) -> bool:
        """Whether somebody still holds the array's memory."""
        return self._owner() is not None

    def changed(self) -> bool:
        """Whether somebody still holds the array's memory, and it is not what was read."""
        owner = self._owner()  # alive, and in its place, as long as it is referred to here
        return owner is not None and not self.held.equals(np.asarray(self))


_watched: ContextVar[list[Watch] | None] = ContextVar("the arrays that the body being recorded has read", default=None)


@final
class read_only_memory:
    """A context that records what Python runs once, but the program any number of times: it must leave what it reads alone.

    Arrays that it makes for itself are its own business. (A class: a generator takes 0.7 us more.)

    Args:
        owner: who records, for messages.
        operands: arrays that are read in any case.

    Raises:
        CapturedArrayError: at the end, if an array that was read, and that somebody still holds, has other values than then.
    """

    __slots__ = ("_around", "_given", "_operands", "_owner", "_seen", "_token")

    def __init__(self, owner: str, operands: Iterable[Any] = ()) -> None:
        self._owner, self._operands = owner, operands

    def __enter__(self) -> read_only_memory:
        self._around = _watched.get()
        self._seen: list[Watch] = []
        self._token = _watched.set(self._seen)
        try:
            for operand in self._operands:
                held_array(operand)
        except BaseException:
            _watched.reset(self._token)
            raise
        self._given = len(self._seen)
        return self

    @property
    def captured(self) -> list[Watch]:
        """The arrays that were read, besides the operands."""
        return self._seen[self._given :]

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _watched.reset(self._token)
        if kind is not None:
            return
        for watch in self._seen:
            if watch.changed():
                raise CapturedArrayError(
                    f"{self._owner} writes into an array that it also reads, and that was made outside of it, but is "
                    "recorded once, however often it runs",
                    fix="write into a copy that it makes itself (x = x.copy()), or pass the array in and return the new one",
                )
        if self._around is not None:
            self._around.extend(self._seen)


# -- what was read between calls -------------------------------------------------------------------------------------------


@final
class Reads:
    """Arrays that something was made of: whether they still are what they were then.

    Args:
        arrays: with their names, as they are now.
        watches: arrays that were read while something was recorded.
        before: what else it was made of.
    """

    __slots__ = ("_large", "_passed", "_small")

    def __init__(self, arrays: Iterable[tuple[str, Array]], watches: Iterable[Watch], before: Reads | None = None) -> None:
        self._small: list[tuple[weakref.ref[Array], tuple[int, ...], np.dtype[Any], bytes, str]] = []
        self._large: list[tuple[Held, str]] = []
        self._passed: list[Watch] = []  # of arrays that are gone, of which the memory is not
        seen: dict[int, tuple[str, Array]] = {}
        if before is not None:
            self._passed += [watch for watch in before._passed if watch.is_alive]
            seen.update({id(array): (name, array) for name, array in before.arrays()})
        for watch in watches:
            original = watch.held.original()
            if original is not None:
                seen[id(original)] = "", original
            elif watch.is_alive:
                self._passed.append(watch)
        seen.update({id(array): (name, array) for name, array in arrays})
        for name, array in seen.values():
            if is_read_only(array):
                continue
            if array.nbytes <= SMALL:
                self._small.append((weakref.ref(array), array.shape, array.dtype, array.tobytes(), name))
            else:
                self._large.append((Held(array), name))

    def __bool__(self) -> bool:
        return bool(self._small or self._large or self._passed)

    def arrays(self) -> list[tuple[str, Array]]:
        """Those that are alive, with their names; the name of what was only met is empty."""
        known = [*[(name, reference()) for reference, *_, name in self._small], *[(n, x.original()) for x, n in self._large]]
        return [(name, array) for name, array in known if array is not None]

    def changed(self) -> str | None:
        """The name of one that has other values now, or another shape or dtype; None if there is none.

        Cost:
            0.2 us for a small array, 28 us for each MiB of a large one.
        """
        for reference, shape, dtype, data, name in self._small:
            array = reference()
            if array is not None and (array.tobytes() != data or array.shape != shape or array.dtype is not dtype):
                return name
        for held, name in self._large:
            array = held.original()
            if array is not None and not held.equals(array):
                return name
        for watch in self._passed:
            if watch.changed():
                return ""
        return None

    def note(self) -> None:
        """Let whoever records now have read them, too."""
        watched = _watched.get()
        if watched is not None:
            for _, array in self.arrays():
                Held(array)
            watched.extend(self._passed)
