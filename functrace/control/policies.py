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
* a `Storage` (control/storages.py): every residual is saved, in another form.

`PolicyTerm` gives the tuples operators and a printed form for users; programs hold plain tuples.

Layer: 5.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from types import CellType, FunctionType
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from functrace.errors import ArgumentError, ProgramError
from functrace.ir.aval import ShapeDtype
from functrace.keys import exact_key
from functrace.source import Source

if TYPE_CHECKING:
    from typing_extensions import TypeIs


class ResidualPolicy:
    """Base of policies: ``|``, ``&`` and ``~``."""

    __slots__ = ()

    is_storage = False
    """True for a `functrace.control.storages.Storage`."""
    in_files = False
    """True if the values are kept in files."""

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


def check_chain(policies: Sequence[object]) -> None:
    """Check that a storage that writes files is the last one.

    Raises:
        ArgumentError: if it is not.
    """
    found = [p for p in policies if isinstance(p, ResidualPolicy) and p.is_storage]
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

    predicate: Callable[[Candidate], bool] = field(compare=False)
    key: Hashable = field(init=False)
    """Functions of the same code that captured the same values are equal: a lambda in a loop has one
    cached derivative, not one per round."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", _key_of(self.predicate))

    def __repr__(self) -> str:
        return f"policies.save_by({function_label(self.predicate)})"

    def saves(self, value: Candidate) -> bool:
        """Call the predicate.

        Raises:
            ArgumentError: if it does not return a bool.
        """
        found: Any = self.predicate(value)
        if not isinstance(found, bool | np.bool_):
            raise ArgumentError(
                f"save_by: {function_label(self.predicate)} returned {found!r}, not a bool",
                fix="return True to save the value, and False to recompute it",
            )
        return bool(cast("Any", found))

    def __reduce__(self) -> Any:
        check_importable(self.predicate, "the policy save_by")
        return SavePredicate, (self.predicate,)


def _key_of(function: Callable[..., object]) -> Hashable:
    """Return a key of a function: its code, and what it captures."""
    if type(function) is not FunctionType:
        return function
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    rest = sorted((function.__kwdefaults__ or {}).items())
    values = [*cells, *(function.__defaults__ or ()), *[value for _, value in rest]]
    if function.__dict__ or len(cells) != len(function.__closure__ or ()):
        return function
    names = tuple([name for name, _ in rest])
    return function.__code__, id(function.__globals__), names, tuple(map(_Captured, values))


def _is_filled(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:  # assigned later
        return False
    return True


@final
class _Captured:
    """A captured value: equal to the same object, and to equal numbers and strings."""

    __slots__ = ("_key", "_value")

    def __init__(self, value: object) -> None:
        self._value = value  # held, so that its identity is not reused
        is_plain = type(value) in (str, bytes, int, float, bool, type(None))
        self._key = exact_key(value) if is_plain else id(value)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _Captured)
            and type(self._value) is type(other._value)
            and self._key == other._key
        )

    def __hash__(self) -> int:
        return hash(self._key)


def function_label(function: object) -> str:
    """Return the name of a function, for messages."""
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
