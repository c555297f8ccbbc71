"""Where the memory of a function's results is: what is (a view of) an operand is just that outside of a body, too.

Layer: 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace.errors import CapturedArrayError
from functrace.numpy.arrays.traced_number import TracedNumber
from functrace.numpy.arrays.view_kinds import GatherView, SharedView, View
from functrace.numpy.arrays.views import Unsettled, base_of, guard, replayed
from functrace.source import user_source
from functrace.tracing.capture import Held, Watch
from functrace.tracing.copies import is_read_only
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import LITERALS, Tracer, Value
from functrace.typing import Array


class Origin(NamedTuple):
    """Where the memory of a leaf of a result is.

    Args:
        root: the value, traced or not, that the leaf is or is a view of.
        place: of the operand that the root is, if it is one.
        views: from the root to the leaf.
        is_own: whether the root was made in the function.
        beside: whether the leaf is the root, but shows a part of an operand or of a captured value besides, at an index that
            only the function knows; ``place`` is of that operand, ``captured`` that value.
        shared: where a program cannot say how the leaf shares memory, as a result of ``cond`` does: the origins of all that
            it may share it with; else ``None``.
    """

    root: Any
    place: int | None
    views: tuple[View, ...]
    is_own: bool
    beside: bool = False
    captured: Any = None
    shared: tuple[Origin, ...] | None = None


def origin_of(recording: Recording, leaf: object) -> Origin:
    """Return the origin of a leaf of a result; its recording is still open."""
    views: list[View] = []
    root = leaf
    shared: tuple[Origin, ...] | None = None
    while isinstance(root, Tracer):
        if isinstance(root._recording, Unsettled):  # the leaf itself may not be among what the program returns
            root._recording.refuse()
        if type(root._view) is SharedView:
            if root._recording is recording:
                beside = [origin_of(recording, stand_in._view.base) for stand_in in root._view.stand_ins]
                shared = tuple([one for origin in beside for one in (origin, *(origin.shared or ()))])
                root = root._view.base  # another handle of the same result
            break
        base = base_of(root)
        if base is None:
            break
        views.append(root._view)
        root = base
    place = next((k for k, argument in enumerate(recording.arguments) if argument is root), None)
    is_own = isinstance(root, Tracer) and root._recording is recording and place is None
    if any(isinstance(view, GatherView) for view in views):
        return Origin(leaf, place, (), True, True, root if place is None else None, shared)
    return Origin(root, place, tuple(reversed(views)), is_own, shared=shared)


def computed_leaves(origins: Sequence[Origin], leaves: Sequence[Any]) -> list[Any]:
    """The leaves that a function computes, as against operands, captured values, plain arrays and views of these.

    What several leaves are views of stands for them all.
    """
    chosen: dict[int, Any] = {}
    for origin, leaf in zip(origins, leaves, strict=True):
        if origin.is_own:
            chosen[id(origin.root)] = origin.root if id(origin.root) in chosen else leaf
    return list(chosen.values())


def whole_result(origins: Sequence[Origin], computed: Sequence[Any], values: Sequence[Any], owner: str) -> list[Any]:
    """Return all leaves of a result of which the program has computed `computed_leaves`.

    So a result that is an operand, or a view of one or of another result, is that outside of the function too.

    Args:
        origins: of the leaves.
        computed: what the program returns.
        values: of the operands, by place.
        owner: for messages.
    """
    counts = Counter(id(origin.root) for origin in origins)
    found = iter(computed)
    made: dict[int, Any] = {}
    results = []
    for origin in origins:
        if origin.is_own:
            key = id(origin.root)
            if key not in made:
                made[key] = next(found)
            results.append(replayed(made[key], origin.views if counts[key] > 1 else ()))
            if origin.beside:
                _guard_beside(results[-1], origin, values, owner)
        else:
            results.append(replayed(origin.root if origin.place is None else values[origin.place], origin.views))
    _guard_shared(results, origins, values, owner)
    return results


def _guard_shared(results: Sequence[Any], origins: Sequence[Origin], values: Sequence[Any], owner: str) -> None:
    """Refuse writes to results that share memory in a way that a program cannot say, and to what they share it with."""
    for result, origin in zip(results, origins, strict=False):
        if origin.shared is None:
            continue
        made = {id(other.root) for other in origin.shared if other.is_own}
        others = [other for other in origin.shared if not other.is_own]
        beside = [_captured(other.root) if other.place is None else values[other.place] for other in others]
        guard(result, beside, owner)
        for another, its in zip(results, origins, strict=False):
            if its.is_own and id(its.root) in made:
                guard(another, (), owner)


def _guard_beside(result: Value, origin: Origin, values: Sequence[Any], owner: str) -> None:
    guard(result, [_captured(origin.captured) if origin.place is None else values[origin.place]], owner)


def _captured(value: Value) -> Any:
    """A captured value that can still be written to; or ``None``."""
    return value if isinstance(value, Tracer) and not value._recording.closed else None


def guard_results(
    results: Sequence[Any],
    origins: Sequence[Origin],
    values: Sequence[Any],
    owner: str,
    others: Sequence[Any] = (),
    *,
    plain: bool = True,
) -> None:
    """Refuse writes that would have to be seen in an operand, or in another result, of an operation that holds a program.

    Writes to plain arrays, which nobody sees, are found at the end of the recording.

    Args:
        results: of the operation.
        origins: of the leaves that the program returns.
        values: of the operands, by place.
        owner: for messages.
        others: what a result that shares memory with any operand may share it with besides.
        plain: whether a result that is a plain operand would be that very array; the carry of a loop is a copy.
    """
    counts = Counter(id(origin.root) for origin in origins if origin.is_own)
    for result, origin in zip(results, origins, strict=False):
        if origin.is_own:
            if origin.beside:
                _guard_beside(result, origin, values, owner)
            elif counts[id(origin.root)] > 1:
                guard(result, (), owner)
        else:
            base = origin.root if origin.place is None else values[origin.place]
            if isinstance(base, Tracer):
                guard(result, [base, *others], owner)
            elif isinstance(origin.root, Tracer):
                guard(result, others, owner)
            if plain and isinstance(base, np.ndarray) and isinstance(result, Tracer) and result.shape:
                _lend(result._recording, base, owner)
    _guard_shared(results, origins, values, owner)


def _lend(recording: Recording, array: Array, owner: str) -> None:
    """Note that a result of ``owner`` would be (a view of) a plain array, which then nobody may write to."""
    if not is_read_only(array):
        recording.captures.lent.append((Watch(array, Held(array)), owner, user_source()))


def check_lent(recording: Recording) -> None:
    """Raise if a plain array was written to that a result would be in NumPy, since a program cannot say that.

    Raises:
        CapturedArrayError: if one was.
    """
    for watch, owner, at in recording.captures.lent:
        if watch.changed():
            raise CapturedArrayError(
                f"a plain array was written to after {owner} returned it: the result, which is (a view of) it, changes",
                at=at,
                fix="return a copy (x.copy()) from the function, or write into one",
            )


def number_type(leaf: object) -> type | None:
    """The type of a Python number, traced or not, which has a kind but no width (NEP 50); ``None`` for whatever else."""
    return leaf.kind if isinstance(leaf, TracedNumber) else type(leaf) if type(leaf) in LITERALS else None
