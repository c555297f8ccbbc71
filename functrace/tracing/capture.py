"""`Captures`: the outer values that a recording captures, protected against later writes.

`capture` makes a variable of an outer recording's traced value, or of an array. `read_only_memory`
and `ReadSnapshot` detect writes to arrays that were read.

Note [The caller's arrays can change under us]
    A recording reads its array arguments and captured arrays only when it is evaluated. If the user
    overwrites one before that (a reused buffer, a minibatch array, another thread), the result
    would be silently wrong. So every array is copied when it is first used: then the recording
    computes what NumPy would have computed at that point, whoever writes later, through any view,
    handle or pointer. A copy costs no more than an elementwise operation on the array. When an
    array is used again, it is compared with the copy, which is shared while they are equal: between
    nested recordings, and between an array and its transposed, reversed or broadcast views. The one
    exception is memory that is declared read-only, down to the object that owns it: it is shared
    without a copy. Use it to pass gigabytes; the declaration is trusted (docs/sharp_bits.md). See
    docs/decisions/0009-callers-arrays.md for the alternatives and their costs.

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.errors import CapturedArrayError
from functrace.ir.aval import ShapeDtype, aval_of, check_plain
from functrace.ir.program import Program
from functrace.source import user_position
from functrace.tracing.copies import is_read_only, own, same_bits, shared_copy
from functrace.tracing.tracer import Tracer, Value, as_array, ended

if TYPE_CHECKING:
    from types import TracebackType

    from functrace.ir.aval import Constant
    from functrace.source import Source
    from functrace.tracing.recording import Recording
    from functrace.typing import Array

SMALL = 1 << 14
"""Arrays of at most this many bytes are always copied; for larger ones an existing copy is looked
up, and shared."""

_ref, _array = weakref.ref, np.array


@final
class CapturedArray:
    """An array held by a recording: a copy, or the caller's own if it is read-only.

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
            self.array = shared_copy(original)
        watched = _watched.get()
        if watched is not None:
            watched.append(ArrayWatch(original, self))

    def forwarded(self) -> Array:
        """Return the array to forward: the caller's own if small and unchanged, else the copy."""
        if self.array.nbytes <= SMALL:
            original = self.original()
            if original is not None and self.equals(original):
                return original
        return self.array

    def holds(self, value: Array) -> bool:
        """Return True if ``value`` is the captured array itself, and unchanged."""
        if self.original() is not value:
            return False
        held = self.array
        if (
            held.dtype is value.dtype and held.nbytes <= SMALL
        ):  # inlined: runs at every use of a captured array
            return held.shape == value.shape and held.tobytes() == value.tobytes()
        return self.equals(value)

    def equals(self, value: Array) -> bool:
        """Return True if an array has the captured shape, dtype and values, bit for bit."""
        held = self.array
        if value.shape != held.shape:
            return False
        if value.dtype != held.dtype:
            if held.dtype.kind == "V":  # bfloat16, which NumPy's array interface does not name
                return value.dtype.itemsize == 2 and value.tobytes() == held.tobytes()
            native = value.dtype.newbyteorder("=")
            return (
                native != value.dtype
                and native == held.dtype
                and same_bits(value.astype(native), held)
            )
        return value.tobytes() == held.tobytes() if held.nbytes <= SMALL else same_bits(value, held)


def held_array(value: Constant) -> Any:
    """Return a copy of an array, safe from later writes; return anything else as it is."""
    if type(value) is not np.ndarray:
        return CapturedArray(value).array if isinstance(value, np.ndarray) else value
    if (
        value.nbytes <= SMALL and _watched.get() is None
    ):  # as `CapturedArray` does, which costs 0.4 us more
        return _array(value) if value.flags.forc and value.dtype.isnative else own(value)
    return CapturedArray(value).array


# -- variables that hold values from outside -------------------------------------------------------


@final
class Captures:
    """Captured values of a recording; created on first use (`Recording.captures`)."""

    __slots__ = ("aliased", "variables")

    def __init__(self) -> None:
        self.variables: dict[Any, tuple[int, CapturedArray | None]] = {}
        """Captured values: variable by key. A traced value's key is (recording, variable), an
        array's its identity."""
        self.aliased: list[tuple[ArrayWatch, str, Source | None]] = []
        """Plain arrays aliased by results, with owner and line (functrace/api/capture/results.py).
        """

    def held(self, variable: int) -> CapturedArray | None:
        """Return the array that a variable holds; ``None`` if it cannot be captured again."""
        return next(
            (
                held
                for found, held in self.variables.values()
                if found == variable and held is not None
            ),
            None,
        )


def capture(recording: Recording, value: Value) -> int:
    """Return the variable of a recording for an outer value: an outer tracer or an array."""
    if recording.closed:
        raise ended(recording.owner)
    variables = (recording.captures_if_any or recording.captures).variables
    if isinstance(value, Tracer):
        outer = value.ft_recording
        recording.makes_arrays = (
            recording.makes_arrays or outer.makes_arrays
        )  # arrays made from its values may be kept
        if outer.closed:
            return capture(recording, value.ft_concrete())
        key = (outer, value.ft_variable)
        found = variables.get(key)
        if found is None:
            # An in-place operation may move a user's handle to another variable, but not a
            # transform's.
            kept = value if outer.positions is None else outer.handle(value.ft_variable)
            found = variables[key] = (_hold(recording, kept, value.aval), None)
        return found[0]
    if not isinstance(value, np.ndarray):
        value = value if isinstance(value, np.generic) else as_array(value)[()]
    if isinstance(value, np.generic):
        return _hold(recording, value, aval_of(value))
    if not value.ndim:
        return _hold(recording, held_array(value)[()], aval_of(value))
    found = variables.get(id(value))
    if found is not None and found[1] is not None and found[1].holds(value):
        return found[0]
    aval = aval_of(value)
    held = CapturedArray(value)
    if value.nbytes <= SMALL:
        variable = _hold(recording, held.array, aval)
    else:  # the copy may be shared
        found = variables.get(id(held.array))
        # An id may be reused after an array is gone.
        if found is None or found[1] is None or found[1].array is not held.array:
            found = variables[id(held.array)] = (_hold(recording, held.array, aval), held)
        variable = found[0]
    variables[id(value)] = (variable, held)
    return variable


def _hold(recording: Recording, value: Array | np.generic | Tracer, aval: ShapeDtype) -> int:
    variable = recording.constant(value, aval)
    if recording.positions is not None:
        recording.positions.append(user_position())
    return variable


def own_constants(program: Program) -> Program:
    """Return a program that outlives its recording: its constants are unshared and read-only."""
    values = dict(program.constant_values)
    for i, value in values.items():
        if isinstance(value, np.ndarray):
            copied = values[i] = own(value)
            copied.flags.writeable = False
    return program.with_constants(values) if values else program


# -- side effects in code that is recorded once ----------------------------------------------------


@final
class ArrayWatch:
    """An array read during recording: detects whether its memory is alive and unchanged."""

    __slots__ = ("__array_interface__", "_owner", "held")

    def __init__(self, original: Array, held: CapturedArray) -> None:
        owner = original
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        self._owner = weakref.ref(owner)
        self.held = held
        self.__array_interface__ = original.__array_interface__

    @property
    def is_alive(self) -> bool:
        """Return True if the array's memory is still alive."""
        return self._owner() is not None

    @property
    def is_read_only(self) -> bool:
        """Return True if nobody can write to the array's memory."""
        owner = self._owner()
        return owner is not None and is_read_only(owner)

    def changed(self) -> bool:
        """Return True if the array's memory is still alive and its values have changed."""
        owner = self._owner()  # this reference keeps the memory alive
        return owner is not None and not self.held.equals(np.asarray(self))


_watched: ContextVar[list[ArrayWatch] | None] = ContextVar(
    "the arrays that the body being recorded has read", default=None
)


@final
class read_only_memory:
    """Check that a body, traced once and run many times, does not write to arrays it reads.

    Arrays that the body itself makes may be written to. (A class: a generator takes 0.7 us more.)

    Args:
        owner: name of the transform, for messages.
        operands: arrays that count as read from the start.

    Raises:
        CapturedArrayError: at the end, if an array that was read is still alive and its values have
            changed.
    """

    __slots__ = ("_around", "_given", "_operands", "_owner", "_seen", "_token")

    def __init__(self, owner: str, operands: Iterable[Any] = ()) -> None:
        self._owner, self._operands = owner, operands

    def __enter__(self) -> read_only_memory:
        self._around = _watched.get()
        self._seen: list[ArrayWatch] = []
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
    def captured(self) -> list[ArrayWatch]:
        """Arrays that were read, except the operands."""
        return self._seen[self._given :]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _watched.reset(self._token)
        if kind is not None:
            return
        for watch in self._seen:
            if watch.changed():
                raise CapturedArrayError(
                    f"{self._owner} writes into an array that it also reads, and that was made "
                    "outside of it, but is "
                    "recorded once, however often it runs",
                    fix="write into a copy that it makes itself (x = x.copy()), or pass the array "
                    "in and return the new one",
                )
        if self._around is not None:
            self._around.extend(self._seen)


# -- changes between calls -------------------------------------------------------------------------


@final
class ReadSnapshot:
    """Snapshot of the arrays that a cached result depends on: detects changes.

    Args:
        arrays: pairs of name and array.
        watches: arrays that were read during recording.
        before: an older snapshot to include.
    """

    __slots__ = ("_large", "_passed", "_small")

    def __init__(
        self,
        arrays: Iterable[tuple[str, Array]],
        watches: Iterable[ArrayWatch],
        before: ReadSnapshot | None = None,
    ) -> None:
        self._small: list[
            tuple[weakref.ref[Array], tuple[int, ...], np.dtype[Any], bytes, str]
        ] = []
        self._large: list[tuple[CapturedArray, str]] = []
        self._passed: list[ArrayWatch] = []  # the array object is gone, its memory is alive
        seen: dict[int, tuple[str, Array]] = {}
        if before is not None:
            self._passed += [watch for watch in before._passed if watch.is_alive]
            seen.update({id(array): (name, array) for name, array in before.arrays()})
        for watch in watches:
            original = watch.held.original()
            if original is not None:
                seen[id(original)] = "", original
            elif watch.is_alive and not watch.is_read_only:
                self._passed.append(watch)
        seen.update({id(array): (name, array) for name, array in arrays})
        for name, array in seen.values():
            if is_read_only(array):
                continue
            if array.nbytes <= SMALL:
                self._small.append(
                    (weakref.ref(array), array.shape, array.dtype, array.tobytes(), name)
                )
            else:
                self._large.append((CapturedArray(array), name))

    def __bool__(self) -> bool:
        return bool(self._small or self._large or self._passed)

    def arrays(self) -> list[tuple[str, Array]]:
        """Return the live arrays with their names (empty for arrays that were only read)."""
        known = [
            *[(name, reference()) for reference, *_, name in self._small],
            *[(n, x.original()) for x, n in self._large],
        ]
        return [(name, array) for name, array in known if array is not None]

    def changed(self) -> str | None:
        """Return the name of an array whose values, shape or dtype changed; ``None`` if none did.

        Cost:
            0.2 us for a small array, 28 us for each MiB of a large one.
        """
        for reference, shape, dtype, data, name in self._small:
            array = reference()
            if array is not None and (
                array.tobytes() != data or array.shape != shape or array.dtype is not dtype
            ):
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
        """Mark the arrays as read by the current recording, too."""
        watched = _watched.get()
        if watched is not None:
            for _, array in self.arrays():
                CapturedArray(array)
            watched.extend(self._passed)
