"""Search for the operation that made the first NaN or infinity, element by element.

`trace_back` walks a run of a program backward, from elements of its results that are NaN (or
infinite) through the operands that were so already. It ends at the operations that made them from
other values (origins), and at inputs and constants that held them. Elementwise operations, moved
elements, selections and reductions are followed exactly; for other operations, all elements of an
operand count.

Layer: 6.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

import numpy as np

from functrace.diagnostics.frames import Bodies, Frame, Mask, bodies_of, run_steps
from functrace.ops.broadcasting import Elementwise
from functrace.ops.elementwise import where
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import convert_p

Kind: TypeAlias = Literal["nan", "inf"]
Marks: TypeAlias = Callable[[Any], Mask | None]
"""From a value to its elements that a search follows; ``None`` if there is none."""


def mask_of(value: object, kind: Kind) -> Mask | None:
    """Return which elements of a value are NaN, or infinite; ``None`` if none is.

    A value that is no array (a stack of residuals) is searched as a whole, and gives one flag.
    """
    if isinstance(value, list | tuple):
        items: Any = value
        return np.ones((), bool) if any(mask_of(x, kind) is not None for x in items) else None
    if isinstance(value, bool | int) or value is None:
        return None
    untyped: Any = value
    if not isinstance(value, float | complex | np.ndarray | np.generic):
        if not hasattr(value, "__array__"):
            return None
        untyped = np.asarray(untyped)
    if isinstance(untyped, np.ndarray | np.generic) and untyped.dtype.kind not in "fc":
        return None
    found: Any = np.isnan(untyped) if kind == "nan" else np.isinf(untyped)
    if kind == "inf" and np.any(found):
        found = found & ~np.isnan(untyped)  # (inf + nan j is a NaN)
    return np.asarray(found) if np.any(found) else None


@final
@dataclass(eq=False, slots=True)
class Ancestry:
    """Result of `trace_back`.

    Args:
        origins: by operation that made such elements: which elements of its (first such) result.
        given: inputs and constants, by variable, and operations with such a number (``~k``).
        readers: by variable: the operation through which it was reached.
        reached: the operations with such results, from which the others were made.
    """

    origins: dict[int, Mask]
    given: dict[int, Mask]
    readers: dict[int, int]
    reached: set[int]


def trace_back(frame: Frame, start: Mapping[int, Mask], marks: Kind | Marks) -> Ancestry:
    """Find the operations that made NaN, or infinite, elements of some variables.

    Args:
        frame: a run of a program.
        start: elements, by variable.
        marks: what they are; or a function that returns such elements of a value.
    """
    marked = marks if callable(marks) else functools.partial(mask_of, kind=marks)
    program, found = frame.program, Ancestry({}, {}, {}, set())
    masks: dict[int, Mask] = dict(start)
    for k, _ in reversed(program.schedule):
        here = {j: masks[j] for j in frame.results(k) if j in masks}
        if not here:
            continue
        found.reached.add(k)
        left, reached = _through(frame, k, here, marked)
        if left is not None:
            found.origins[k] = left
        for i, mask in reached.items():
            if i < 0:
                found.given[~k] = mask
                continue
            found.readers.setdefault(i, k)
            masks[i] = mask | masks[i] if i in masks else mask
    for i in (*program.input_ids, *program.constant_values):
        if i in masks:
            found.given[i] = masks[i]
    return found


def _through(
    frame: Frame, k: int, here: Mapping[int, Mask], marked: Marks
) -> tuple[Mask | None, dict[int, Mask]]:
    """Split elements of an operation's results into those that it made, and those of its operands
    that they come from."""
    primitive, operands, params = frame.program.ops[k]
    values = [frame.operand(i) for i in operands]
    bad = {n: m for n, x in enumerate(values) if (m := marked(x)) is not None}
    first = next(iter(here.values()))
    if not bad:
        return first, {}
    reached: dict[int, Mask] = {}

    def reach(n: int, mask: Mask) -> None:
        if mask.any():
            i = operands[n]
            reached[i] = mask | reached[i] if i in reached else mask

    if isinstance(primitive, Elementwise):
        wanted = np.logical_or.reduce([np.asarray(m) for m in here.values()])
        left = wanted.copy()
        for n, mask in bad.items():
            hit = wanted & np.broadcast_to(mask, wanted.shape)
            if primitive is where and n:
                hit &= np.broadcast_to(np.asarray(values[0], bool) == (n == 1), wanted.shape)
            left &= ~hit
            reach(n, _collapsed(hit, np.shape(values[n])))
        return (left if left.any() else None), reached
    if primitive is convert_p:
        reach(0, first & bad[0])
        return (None if reached else first), reached
    if primitive.view and not primitive.many and 0 in bad:
        places = np.arange(np.size(values[0])).reshape(np.shape(values[0]))
        mask = np.zeros(places.size, bool)
        moved = np.asarray(primitive.eval(places, *values[1:], *params))
        mask[moved[first].ravel()] = True
        reach(0, mask.reshape(places.shape) & bad[0])
        return (None if reached else first), reached
    if primitive is reduce_sum_p:
        reach(0, bad[0] & np.expand_dims(first, params[0]))
        return (None if reached else first), reached
    for n, mask in bad.items():
        reach(n, mask)
    return None, reached


def _collapsed(mask: Mask, shape: tuple[int, ...]) -> Mask:
    """Map elements of a broadcast result to those of an operand."""
    extra = mask.ndim - len(shape)
    inner = np.asarray(mask.any(axis=tuple(range(extra))))
    axes = tuple([a for a, n in enumerate(shape) if n == 1 and inner.shape[a] != 1])
    return np.asarray(inner.any(axis=axes, keepdims=True))


@final
@dataclass(eq=False, slots=True)
class Origin:
    """The operation that made a NaN or an infinity.

    Args:
        frame: the run of the program.
        k: the operation.
        kind: what it made.
        mask: the elements of its result.
        result: the variable of the result.
    """

    frame: Frame
    k: int
    kind: Kind
    mask: Mask
    result: int

    @property
    def index(self) -> tuple[int, ...]:
        """Index of the first such element."""
        return tuple([int(n) for n in np.argwhere(self.mask)[0]])


class _Found(Exception):  # it ends a search
    """A run of a sub-program made what is sought."""


def results_mask(frame: Frame, kind: Kind) -> dict[int, Mask]:
    """Return the elements of a program's outputs that are NaN, or infinite."""
    return _marked(frame, frame.program.output_ids, kind)


def _marked(frame: Frame, variables: Iterable[int], kind: Kind) -> dict[int, Mask]:
    """Return the elements of variables that are NaN, or infinite, and not discarded."""
    found: dict[int, Mask] = {}
    for i in variables:
        mask = mask_of(frame.values[i], kind)
        if mask is not None and (kept := frame.of_takers(mask)).any():
            found[i] = kept
    return found


def first_origin(frame: Frame, ancestry: Ancestry, kind: Kind) -> Origin | None:
    """Return the first origin in the order of the program; inside of the loop that it is in."""
    if not ancestry.origins:
        return None
    k = min(ancestry.origins)
    return _inside(frame, k, kind, ancestry.origins[k])


def _inside(frame: Frame, k: int, kind: Kind, mask: Mask) -> Origin:
    bodies = bodies_of(frame, k)
    if bodies is not None:
        found = _in_steps(frame, k, bodies, kind)
        if found is not None:
            return found
    result = next((j for j in frame.results(k) if mask_of(frame.values[j], kind) is not None), k)
    return Origin(frame, k, kind, mask, result)


def _in_steps(frame: Frame, k: int, bodies: Bodies, kind: Kind) -> Origin | None:
    """Run the steps of an operation until one makes the first NaN, or infinity."""
    origins: list[Origin] = []

    def visit(inner: Frame) -> None:
        start = results_mask(inner, kind)
        if start and (found := first_origin(inner, trace_back(inner, start, kind), kind)):
            origins.append(found)
            raise _Found

    try:
        run_steps(frame, k, bodies, visit)
    except _Found:
        return origins[0]
    return None


def any_origin(frame: Frame, kind: Kind) -> Origin | None:
    """Return the first operation of a run, steps of loops included, that made a NaN, or an
    infinity, even if no result depends on it."""
    for k, _ in frame.program.schedule:
        start = _marked(frame, frame.results(k), kind)
        found = first_origin(frame, trace_back(frame, start, kind), kind) if start else None
        bodies = bodies_of(frame, k) if found is None else None
        if bodies is not None:
            origins: list[Origin] = []

            def visit(inner: Frame, origins: list[Origin] = origins) -> None:
                if (one := any_origin(inner, kind)) is not None:
                    origins.append(one)
                    raise _Found

            try:
                run_steps(frame, k, bodies, visit)
            except _Found:
                found = origins[0]
        if found is not None:
            return found
    return None


def root_of(origin: Origin) -> Origin | None:
    """Return the operation that made the infinity from which an operation made a NaN; ``None`` if
    no operand is infinite, or if it was given."""
    if origin.kind == "inf":
        return None
    frame, k = origin.frame, origin.k
    start = _infinite_operands(origin)
    while start:
        ancestry = trace_back(frame, start, "inf")
        found = first_origin(frame, ancestry, "inf")
        if found is not None or frame.outer is None:
            return found
        if not any(i in ancestry.given for i in frame.program.input_ids):
            return None
        frame, k = frame.outer
        bodies = bodies_of(frame, k)
        found = None if bodies is None else _in_steps(frame, k, bodies, "inf")
        if found is not None:
            return found
        _, operands, _ = frame.program.ops[k]
        start = {
            i: mask
            for i in operands
            if i >= 0 and (mask := mask_of(frame.values[i], "inf")) is not None
        }
    return None


def _infinite_operands(origin: Origin) -> dict[int, Mask]:
    """Return the infinite elements of the operands from which an element was made."""
    primitive, operands, _ = origin.frame.program.ops[origin.k]
    found: dict[int, Mask] = {}
    for i in operands:
        mask = None if i < 0 else mask_of(origin.frame.values[i], "inf")
        if mask is None:
            continue
        if isinstance(primitive, Elementwise):
            mask = mask & _collapsed(origin.mask, np.shape(origin.frame.values[i]))
        if mask.any():
            found[i] = mask
    return found
