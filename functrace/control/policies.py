"""The algebra of residual policies: which values a derivative keeps, in which form, and which it
recomputes.

A policy is a term of selections and storages. A *selection* decides which values are saved; a
*storage* says in which form a saved value is kept (packed, compressed, in a file). Terms are plain
data where no user's function or object takes part, so that programs with policies can be compared,
written and parsed:

* ``()``: every residual is saved as it is;
* ``("recompute",)``: only operands are kept, all else is rematerialized (`functrace.checkpoint`);
* ``("recompute", "a", "b")``: values with these names (`functrace.checkpoint_name`) are kept too;
* ``("dots",)``: results of products and convolutions are kept too;
* ``("elementwise",)``: all is kept but what elementwise operations and views compute;
* ``("or", p, q, …)``: the first policy that saves a value says how;
* ``("and", p, q, …)``: a value is saved if all save it, and goes through their storages in order;
* ``("not", p)``: what ``p`` does not save, as it is;
* `SavePredicate`: values that a user's function chooses;
* a `Storage`: every residual is saved, in another form.

`PolicyTerm` gives the tuples operators and a printed form for users; programs hold plain tuples.

Layer: 5.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from functrace.errors import ArgumentError, DtypeError, ProgramError
from functrace.ir.aval import ShapeDtype
from functrace.source import Source

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from functrace.typing import Array


class ResidualPolicy:
    """Base of policies: ``|``, ``&`` and ``~``."""

    __slots__ = ()

    def __or__(self, other: object) -> PolicyTerm:
        """Save what either policy saves; the first one that saves a value says in which form."""
        return _joined("or", self, other)

    def __ror__(self, other: object) -> PolicyTerm:
        return _joined("or", other, self)

    def __and__(self, other: object) -> PolicyTerm:
        """Save what both policies save, in the form of the first, then of the second."""
        return _joined("and", self, other)

    def __rand__(self, other: object) -> PolicyTerm:
        return _joined("and", other, self)

    def __invert__(self) -> PolicyTerm:
        """Save what the policy does not save, as it is."""
        return PolicyTerm(("not", self))


@final
class PolicyTerm(ResidualPolicy, tuple[Any, ...]):
    """A policy that is a tuple; see the list in the module's docstring."""

    __slots__ = ()

    def __repr__(self) -> str:
        return described(self)

    def __getnewargs__(self) -> tuple[tuple[Any, ...]]:
        return (tuple(self),)


class Storage(ResidualPolicy):
    """Policy that saves every residual, in another form.

    `store` gets a read-only array. Storages follow one another: `encode` returns an array for the
    next one, and a note without which `decode` could not restore the array.
    """

    __slots__ = ()

    label = "packed"
    """Word for listings."""
    in_files = False
    """True if the values are kept in files."""
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
        return f"policies.pack({_named(self.pack)}, {_named(self.unpack)})"

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


def check_importable(function: object, what: str) -> None:
    """Check that pickle finds a function of a policy by its module and name.

    Raises:
        ProgramError: if it does not.
    """
    if not isinstance(function, FunctionType):
        return
    found: Any = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not function:
        raise ProgramError(
            f"{what}({function.__qualname__}) cannot be pickled: not a module-level name",
            fix="define it with def, at the level of a module",
        )


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


def check_chain(storages: Sequence[object]) -> None:
    """Check that a storage that writes files is the last one.

    Raises:
        ArgumentError: if it is not.
    """
    found = [storage for storage in storages if isinstance(storage, Storage)]
    for storage, following in itertools.pairwise(found):
        if storage.in_files:
            raise ArgumentError(
                f"{following!r} follows {storage!r}, which keeps values in files",
                fix=f"put it before: compose({following!r}, {storage!r})",
            )


@final
@dataclass(frozen=True, slots=True)
class SavePredicate(ResidualPolicy):
    """Policy that saves the values that a user's function of a `Candidate` chooses."""

    predicate: Callable[[Candidate], bool]

    def __repr__(self) -> str:
        return f"policies.save_by({_named(self.predicate)})"

    def saves(self, value: Candidate) -> bool:
        """Call the predicate.

        Raises:
            ArgumentError: if it does not return a bool.
        """
        found: Any = self.predicate(value)
        if not isinstance(found, bool | np.bool_):
            raise ArgumentError(
                f"save_by: {_named(self.predicate)} returned {found!r}, not a bool",
                fix="return True to save the value, and False to recompute it",
            )
        return bool(cast("Any", found))

    def __reduce__(self) -> Any:
        check_importable(self.predicate, "the policy save_by")
        return SavePredicate, (self.predicate,)


def _named(function: object) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


@final
@dataclass(frozen=True, slots=True)
class Candidate:
    """A value that a policy may save, as `functrace.policies.save_by` passes it to its function.

    Args:
        name: its name by `functrace.checkpoint_name`, or ``None``.
        primitive: name of the operation that computes it, such as ``"matmul"``; ``"input"`` for an
            operand of the function, which is kept in any case.
        aval: its shape and dtype. The values of all steps of a loop are one stack.
        flops: floating-point operations of the operation that computes it; 0 for an operand.
        source: the user's line, if known.
        is_operand: True for an operand of the function.
        is_elementwise: True if an elementwise operation, or a view (a reshape, a broadcast, a
            slice), computes it.
        is_dot: True if a matrix product, ``einsum`` or a convolution computes it.

    Example:
        >>> import numpy as np, functrace as ft
        >>> seen = []
        >>> def small(value):
        ...     seen.append((value.primitive, value.aval, value.nbytes))
        ...     return value.nbytes < 1000
        >>> f = ft.checkpoint(lambda x: np.sum(np.sin(x @ x)), policy=ft.policies.save_by(small))
        >>> g = ft.grad(f)(np.ones((2, 2)))
        >>> seen
        [('cos', f64[2,2], 32), ('input', f64[2,2], 32)]
    """

    name: str | None
    primitive: str
    aval: ShapeDtype
    flops: int
    source: Source | None
    is_operand: bool = False
    is_elementwise: bool = False
    is_dot: bool = False

    @property
    def nbytes(self) -> int:
        """Size of the array in bytes."""
        return self.aval.nbytes

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the array."""
        return self.aval.dtype


Policy = tuple[Any, ...] | ResidualPolicy
"""A term, or an object that is one."""

SAVE: tuple[Any, ...] = ()
PREFIX = "budget:"
"""Beginning of the names that a budget gives to values that it keeps."""

RECOMPUTE: tuple[str, ...] = ("recompute",)
DOTS: tuple[str, ...] = ("dots",)
NOT_ELEMENTWISE: tuple[str, ...] = ("elementwise",)


def is_policy(value: object) -> TypeIs[Policy]:
    """Return True if a value is one of the policies above."""
    if not isinstance(value, tuple):
        return isinstance(value, ResidualPolicy)
    term = cast("tuple[Any, ...]", value)
    if not term:
        return True
    head, rest = term[0], term[1:]
    if head == "recompute":
        return all(isinstance(word, str) for word in rest)
    if head in ("dots", "elementwise"):
        return not rest
    if head == "not":
        return len(rest) == 1 and is_policy(rest[0])
    return head in ("or", "and") and len(rest) > 1 and all(map(is_policy, rest))


def plain_policy(policy: Policy) -> Policy:
    """Return a policy with plain tuples, as programs hold it."""
    if not isinstance(policy, tuple):
        return policy
    return tuple([plain_policy(cast("Policy", p)) if isinstance(p, tuple) else p for p in policy])


def _joined(head: str, *policies: object) -> PolicyTerm:
    parts: list[Any] = []
    for policy in policies:
        if not is_policy(policy):
            return NotImplemented
        if isinstance(policy, tuple) and policy[:1] == (head,):
            parts += policy[1:]
        else:
            parts.append(policy)
    if head == "and":
        check_chain(parts)
    return PolicyTerm((head, *parts))


def described(policy: Policy) -> str:
    """Return a policy as the expression that makes it."""
    if not isinstance(policy, tuple):
        return repr(policy)
    if not policy:
        return "policies.save"
    head, *rest = policy
    if head == "recompute":
        names = ", ".join(map(repr, rest))
        return f"policies.save_names({names})" if rest else "policies.recompute"
    if head == "dots":
        return "policies.save_dots"
    if head == "elementwise":
        return "policies.recompute_elementwise"
    parts: list[str] = []
    for p in rest:
        part = cast("Policy", p)
        is_open = isinstance(part, tuple) and part[:1] in (("or",), ("and",))
        parts.append(f"({described(part)})" if is_open else described(part))
    return f"~{parts[0]}" if head == "not" else {"or": " | ", "and": " & "}[head].join(parts)


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
