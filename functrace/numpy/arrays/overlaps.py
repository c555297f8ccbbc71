"""Writes of values that share memory with the target.

Some of NumPy's writers (masks, ``x.flat``, ``place``, ``concatenate`` with ``out=``, slices with
different steps) copy element by element, and read elements that they have already written. A traced
write reads the values from before the write. To detect a difference, NumPy itself writes numbered
elements, once from the shared memory and once from a copy.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable
from types import EllipsisType
from typing import Any

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.numpy.arrays.indexing import only_mask
from functrace.numpy.arrays.layout import packed, stand_in
from functrace.numpy.arrays.view_kinds import GatherView
from functrace.numpy.arrays.views import root_of
from functrace.numpy.protocol.operands import Index, holds_tracer
from functrace.tracing.tracer import Tracer

Numbers = np.ndarray[Any, Any]
Write = Callable[[Any, Any], object]


def refuse_overlap(
    x: object, value: object, what: str, write: Write | None = None, *, strict: bool = True
) -> None:
    """Refuse a write of a value that shares memory with its target, if NumPy reads what it has
    already written.

    Args:
        x: the target.
        value: the value to write.
        what: name of the operation, for the message.
        write: performs the write on plain arrays; ``None`` if it depends on an abstract value.
        strict: True to refuse also writes that may overlap.
    """
    if not (isinstance(x, Tracer) and isinstance(value, Tracer)) or x.aval.size < 2:
        return
    root = root_of(x)
    if root_of(value) is not root or not value.aval.size:
        return
    memory = memory_like(root)
    target, source = part_of(memory, x), part_of(memory, value)
    if target is None or source is None:
        differs = strict
    else:
        differs = bool(np.may_share_memory(target, source, max_work=_MOST_WORK))  # type: ignore[arg-type]  # the stub names -1 and 0 only
        if differs and write is not None:
            differs = _differs(x, value, write)
    if differs:
        raise UnsupportedFunctionError(
            f"{what} of values ({value.aval}) that share memory with the array reads some that it "
            "has already written",
            fix="write a copy of them, values.copy()",
        )


def refuse_assignment(x: Tracer, index: Index, value: Tracer) -> None:
    """Apply `refuse_overlap` to ``x[index] = value`` for masks, and slices with differing steps.

    NumPy copies the value first if it shares memory with more than one axis, or if the steps have
    opposite signs, and so do index arrays.
    """
    parts: tuple[Any, ...] = index if type(index) is tuple else (index,)
    if all(
        part is None or type(part) in (int, slice, EllipsisType) for part in parts
    ) and not holds_tracer(
        [
            bound
            for part in parts
            if type(part) is slice
            for bound in (part.start, part.stop, part.step)
        ]
    ):
        root = root_of(x)
        if root_of(value) is not root:
            return
        memory = memory_like(root)
        target, source = part_of(memory, x), part_of(memory, value)
        if target is None or source is None or not source.ndim:
            return
        try:
            written = target[parts if Ellipsis in parts else (*parts, ...)]
        except IndexError:  # the assignment raises it
            return
        if written.ndim == 1 and written.strides[0] != source.strides[-1]:
            refuse_overlap(
                x, value, "x[index] = values", lambda t, v: t.__setitem__(index, v), strict=False
            )
    elif only_mask(x, index) is not None:
        write = None if holds_tracer(index) else lambda t, v: t.__setitem__(index, v)
        refuse_overlap(x, value, "x[mask] = values", write)


_MOST_WORK = 10_000
"""Limit on the candidates that NumPy examines to decide if two arrays overlap; about 0.1 ms."""


def memory_like(root: Tracer) -> Numbers:
    """Return an uninitialized array to take views of; overlap does not depend on its order."""
    return stand_in(root.aval, packed(root.aval.shape, root.aval.dtype.itemsize))


def part_of(memory: Numbers, x: Tracer) -> Numbers | None:
    """Return the view ``x`` of plain memory of its root; ``None`` if its elements are unknown."""
    chain = []
    while (view := x.ft_view) is not None and view.base is not None:
        chain.append(view)
        x = view.base
    part: Numbers | None = memory
    for view in reversed(chain):
        part = None if type(view) is GatherView else view.layout(part)
        if part is None or not np.may_share_memory(part, memory):  # a new array is a copy
            return None
    return part


def _differs(x: Tracer, value: Tracer, write: Write) -> bool:
    """Return True if a write from shared memory and the same write from a copy give different
    results.
    """
    aval = root_of(x).aval
    numbers = (
        np.arange(2.0 * aval.size).view(complex) if aval.dtype.kind == "c" else np.arange(aval.size)
    )
    found = []
    for is_copied in (False, True):
        memory = numbers.copy().reshape(aval.shape)
        source = part_of(memory, value)
        try:
            write(part_of(memory, x), np.copy(source) if is_copied else source)  # type: ignore[arg-type]
        except (
            TypeError,
            ValueError,
            IndexError,
        ):  # the write is invalid for another reason than the overlap
            return False
        found.append(memory)
    return not np.array_equal(*found)
