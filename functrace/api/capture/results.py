"""Aliasing of results: a result that is (a view of) an operand stays one outside of a body.

Layer: 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from functrace.errors import CapturedArrayError
from functrace.numpy.arrays.traced_number import TracedNumber
from functrace.numpy.arrays.view_kinds import GatherView, SharedView, View
from functrace.numpy.arrays.views import StaleRecording, base_of, guard, replayed
from functrace.source import user_source
from functrace.tracing.capture import ArrayWatch, CapturedArray
from functrace.tracing.copies import is_read_only
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import LITERALS, Tracer, Value
from functrace.typing import Array


class MemoryOrigin(NamedTuple):
    """Origin of the memory of a result's leaf.

    Args:
        root: the value, traced or not, of which the leaf is a view (or which it is).
        place: index of the operand that is the root, if one is.
        views: from the root to the leaf.
        is_own: whether the function created the root.
        beside: whether the root also aliases a part of an operand or of a captured value, at an
            index that only the function has; ``place`` is the operand's, ``captured`` is the value.
        shared: where a program cannot express how the leaf shares memory, e.g. a result of
            ``cond``: the origins of all that it may share memory with; else ``None``.
    """

    root: Any
    place: int | None
    views: tuple[View, ...]
    is_own: bool
    beside: bool = False
    captured: Any = None
    shared: tuple[MemoryOrigin, ...] | None = None


def origin_of(recording: Recording, leaf: object) -> MemoryOrigin:
    """Return the origin of a leaf of a result; its recording must still be open."""
    views: list[View] = []
    root = leaf
    shared: tuple[MemoryOrigin, ...] | None = None
    while isinstance(root, Tracer):
        if isinstance(
            root.ft_recording, StaleRecording
        ):  # the leaf itself may be no output of the program
            root.ft_recording.refuse()
        if type(root.ft_view) is SharedView:
            if root.ft_recording is recording:
                beside = [
                    origin_of(recording, stand_in.ft_view.base)
                    for stand_in in root.ft_view.stand_ins
                ]
                shared = tuple(
                    [one for origin in beside for one in (origin, *(origin.shared or ()))]
                )
                root = root.ft_view.base  # another handle of the same result
            break
        base = base_of(root)
        if base is None:
            break
        views.append(root.ft_view)
        root = base
    place = next((k for k, argument in enumerate(recording.arguments) if argument is root), None)
    is_own = isinstance(root, Tracer) and root.ft_recording is recording and place is None
    if any(isinstance(view, GatherView) for view in views):
        return MemoryOrigin(leaf, place, (), True, True, root if place is None else None, shared)
    return MemoryOrigin(root, place, tuple(reversed(views)), is_own, shared=shared)


def computed_leaves(origins: Sequence[MemoryOrigin], leaves: Sequence[Any]) -> list[Any]:
    """Return the leaves that a function computes: not operands, captured values, plain arrays, or
    views of these.

    Leaves that are views of one root are represented by the root.
    """
    chosen: dict[int, Any] = {}
    for origin, leaf in zip(origins, leaves, strict=True):
        if origin.is_own:
            chosen[id(origin.root)] = origin.root if id(origin.root) in chosen else leaf
    return list(chosen.values())


def whole_result(
    origins: Sequence[MemoryOrigin], computed: Sequence[Any], values: Sequence[Any], owner: str
) -> list[Any]:
    """Return all leaves of a result, given the values of its `computed_leaves`.

    A result that is an operand, or a view of an operand or of another result, aliases it outside of
    the function too.

    Args:
        origins: of the leaves.
        computed: results of the program.
        values: of the operands, by place.
        owner: for messages.
    """
    counts = Counter(id(origin.root) for origin in origins)
    found = iter(computed)
    made: dict[int, Any] = {}
    results: list[Any] = []
    for origin in origins:
        if origin.is_own:
            key = id(origin.root)
            if key not in made:
                made[key] = next(found)
            results.append(replayed(made[key], origin.views if counts[key] > 1 else ()))
            if origin.beside:
                _guard_other_result(results[-1], origin, values, owner)
        else:
            results.append(
                replayed(
                    origin.root if origin.place is None else values[origin.place], origin.views
                )
            )
    _guard_shared(results, origins, values, owner)
    return results


def _guard_shared(
    results: Sequence[Any], origins: Sequence[MemoryOrigin], values: Sequence[Any], owner: str
) -> None:
    """Refuse writes to results whose aliasing a program cannot express, and to the values they may
    alias."""
    for result, origin in zip(results, origins, strict=False):
        if origin.shared is None:
            continue
        made = {id(other.root) for other in origin.shared if other.is_own}
        others = [other for other in origin.shared if not other.is_own]
        beside = [
            _captured(other.root) if other.place is None else values[other.place]
            for other in others
        ]
        guard(result, beside, owner)
        for another, its in zip(results, origins, strict=False):
            if its.is_own and id(its.root) in made:
                guard(another, (), owner)


def _guard_other_result(
    result: Value, origin: MemoryOrigin, values: Sequence[Any], owner: str
) -> None:
    guard(
        result,
        [_captured(origin.captured) if origin.place is None else values[origin.place]],
        owner,
    )


def _captured(value: Value) -> Any:
    """Return a captured value that is still writable, or ``None``."""
    return value if isinstance(value, Tracer) and not value.ft_recording.closed else None


def guard_results(
    results: Sequence[Any],
    origins: Sequence[MemoryOrigin],
    values: Sequence[Any],
    owner: str,
    others: Sequence[Any] = (),
    *,
    plain: bool = True,
) -> None:
    """Refuse writes that must show in an operand, or in another result, of an operation with a
    body.

    Writes to plain arrays are detected at the end of the recording.

    Args:
        results: of the operation.
        origins: of the leaves that the program returns.
        values: of the operands, by place.
        owner: for messages.
        others: values that a result may alias if it aliases any operand.
        plain: whether a result that is a plain operand is the same array; the carry of a loop is a
            copy.
    """
    counts = Counter(id(origin.root) for origin in origins if origin.is_own)
    for result, origin in zip(results, origins, strict=False):
        if origin.is_own:
            if origin.beside:
                _guard_other_result(result, origin, values, owner)
            elif counts[id(origin.root)] > 1:
                guard(result, (), owner)
        else:
            base = origin.root if origin.place is None else values[origin.place]
            plain_base: object = base
            if isinstance(base, Tracer):
                guard(result, [base, *others], owner)
            elif isinstance(origin.root, Tracer):
                guard(result, others, owner)
            if (
                plain
                and isinstance(plain_base, np.ndarray)
                and isinstance(result, Tracer)
                and result.shape
            ):
                _note_aliased(result.ft_recording, cast("Array", base), owner)
    _guard_shared(results, origins, values, owner)


def _note_aliased(recording: Recording, array: Array, owner: str) -> None:
    """Record that a result of ``owner`` would be (a view of) a plain array, which must not be
    written to any more."""
    if not is_read_only(array):
        recording.captures.aliased.append(
            (ArrayWatch(array, CapturedArray(array)), owner, user_source())
        )


def check_aliased(recording: Recording) -> None:
    """Raise if a plain array was written to that a result aliases in NumPy: a program cannot
    express that.

    Raises:
        CapturedArrayError: if one was.
    """
    for watch, owner, at in recording.captures.aliased:
        if watch.changed():
            raise CapturedArrayError(
                f"a plain array was written to after {owner} returned it: the result, which is (a "
                "view of) it, changes",
                at=at,
                fix="return a copy (x.copy()) from the function, or write into one",
            )


def number_type(leaf: object) -> type | None:
    """Return the type of a Python number, traced or not: it has a kind but no width (NEP 50); else
    ``None``."""
    return (
        leaf.kind
        if isinstance(leaf, TracedNumber)
        else type(leaf)
        if type(leaf) in LITERALS
        else None
    )
