"""Storages, the policies that keep saved values in another form; and which storages a policy chooses
for a value.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from functrace.control.policies import (
    SAVE,
    Candidate,
    Policy,
    ResidualPolicy,
    SavePredicate,
    check_chain,
    check_importable,
    function_label,
)
from functrace.errors import DtypeError

if TYPE_CHECKING:
    from functrace.typing import Array


class Storage(ResidualPolicy):
    """Policy that saves every residual, in another form.

    `store` gets a read-only array. Storages follow one another: `encode` returns an array for the
    next one, and a note without which `decode` could not restore the array.
    """

    __slots__ = ()

    label = "packed"
    """Word for listings."""
    is_storage = True
    calls_user = False
    """True if it calls the user's functions, which may return an array that they change later."""

    def store(self, x: Array) -> Any:
        """Return the object to keep in place of an array."""
        return self.encode(x)

    def restore(self, held: object) -> Any:
        """Return the array of a kept object."""
        return self.decode(*cast("tuple[Array, object]", held))

    def encode(self, x: Array) -> tuple[Array, Any]:
        """Return an array for the next storage, and a note."""
        raise NotImplementedError

    def decode(self, payload: Array, note: object) -> Any:
        """Return the array from the results of `encode`."""
        raise NotImplementedError


@final
@dataclass(frozen=True, slots=True)
class PackPolicy(Storage):
    """Policy that passes residuals to two user functions.

    Args:
        pack: function of each saved array, which it must not write into; returns anything.
        unpack: function of the result of ``pack``; returns an array of the same shape and dtype.
    """

    pack: Callable[[np.ndarray[Any, Any]], Any]
    unpack: Callable[[Any], Any]

    @property
    def calls_user(self) -> bool:  # type: ignore[override]
        """True."""
        return True

    def __repr__(self) -> str:
        return f"policies.pack({function_label(self.pack)}, {function_label(self.unpack)})"

    def store(self, x: Array) -> Any:
        """Call ``pack``."""
        return self.pack(x)

    def restore(self, held: object) -> Any:
        """Call ``unpack``."""
        return self.unpack(held)

    def encode(self, x: Array) -> tuple[Array, Any]:
        """Call ``pack``, whose result must be an array or bytes.

        Raises:
            DtypeError: if it is anything else.
        """
        held: Any = self.pack(x)
        if isinstance(held, bytes):
            return np.frombuffer(held, np.uint8), True
        if isinstance(held, np.generic):
            held = np.asarray(cast("Any", held))
        if type(held) is not np.ndarray or held.dtype.kind not in "biufc":
            raise DtypeError(
                f"pack returned a {type(held).__name__}, which no further policy can store",
                fix="return an array or bytes, or name pack last: compose(..., pack(...))",
            )
        return held, False

    def decode(self, payload: Array, note: object) -> Any:
        """Call ``unpack`` with the array or the bytes that ``pack`` returned."""
        return self.unpack(np.asarray(payload).tobytes() if note else payload)

    def __reduce__(self) -> Any:
        """Pickle with both functions by reference.

        Raises:
            ProgramError: if one of them is not a module-level name.
        """
        for function in (self.pack, self.unpack):
            check_importable(function, "the policy pack")
        return PackPolicy, (self.pack, self.unpack)


@final
@dataclass(frozen=True, slots=True)
class StorageChain(Storage):
    """Storages that follow one another: each stores what the one before returned.

    Raises:
        ArgumentError: if one that writes files is not the last.
    """

    storages: tuple[Storage, ...]

    def __post_init__(self) -> None:
        check_chain(self.storages)

    @property
    def label(self) -> str:  # type: ignore[override]
        """Labels of the storages."""
        return ", ".join([storage.label for storage in self.storages])

    @property
    def in_files(self) -> bool:  # type: ignore[override]
        """True if the last one writes files."""
        return self.storages[-1].in_files

    @property
    def calls_user(self) -> bool:  # type: ignore[override]
        """True if one of them does."""
        return any(storage.calls_user for storage in self.storages)

    def store(self, x: Array) -> Any:
        """Store in all of them; keep the notes and the object of the last one."""
        notes: list[Any] = []
        for storage in self.storages[:-1]:
            x, note = storage.encode(x)
            notes.append(note)
        return notes, self.storages[-1].store(x)

    def restore(self, held: object) -> Any:
        """Restore from all of them, the last one first."""
        notes, last = cast("tuple[list[object], object]", held)
        value = self.storages[-1].restore(last)
        for storage, note in zip(self.storages[-2::-1], reversed(notes), strict=True):
            value = storage.decode(value, note)
        return value


def recomputes(policy: Policy) -> bool:
    """Return True if a policy may recompute values."""
    return policy != SAVE and not isinstance(policy, Storage)


def storages_of(policy: Policy) -> Iterator[Storage]:
    """Yield the storages of a policy."""
    if isinstance(policy, Storage):
        yield policy
    elif isinstance(policy, tuple):
        for part in policy:
            if not isinstance(part, str):
                yield from storages_of(part)


def saved_in(policy: Policy, *named: Candidate) -> tuple[Storage, ...] | None:
    """Return the storages that keep a value, one after another; ``()`` if it is saved as it is,
    ``None`` if it is recomputed.

    Args:
        policy: the policy.
        named: the value, once for each of its names.
    """
    value = named[0]
    if not isinstance(policy, tuple):
        if isinstance(policy, Storage):
            return (policy,)
        assert isinstance(policy, SavePredicate)
        return () if any(policy.saves(v) for v in named) else None
    if not policy:
        return ()
    head, *rest = policy
    if head == "or":
        return next((found for p in rest if (found := saved_in(p, *named)) is not None), None)
    if head == "and":
        kept: tuple[Storage, ...] = ()
        for p in rest:
            found = saved_in(p, *named)
            if found is None:
                return None
            kept += found
        return kept
    is_saved = (
        saved_in(rest[0], *named) is None if head == "not"
        else value.is_dot if head == "dots"
        else not value.is_elementwise if head == "elementwise"
        else any(v.name in rest for v in named)
    )  # fmt: skip
    return () if is_saved else None
