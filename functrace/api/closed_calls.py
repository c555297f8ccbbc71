"""Calls of closed functions: which arguments are alike, and whether a recording without values is that of the call.

Note [How a warning is noticed]
    What warns as it is recorded would warn once, and no more. `warnings.catch_warnings` is of all threads, and lets warnings
    be shown again that have been. So a filter stands first for a while, of a category that no warning has: it is asked for
    every warning that would be shown, and raises in the thread that records.

Floor: 7.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import TYPE_CHECKING, Any, final

import numpy as np

from functrace.api.checks import Check, written_check
from functrace.api.record import Recorded
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.primitive import CONSTANT, INPUT
from functrace.tracing.recording import Recording
from functrace.tree import flatten, unflatten
from functrace.typing import Scalar

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

LARGE = 1 << 17
"""Bytes per operation: with so many a recording takes a small part of the time."""

Take = Callable[[tuple[Any, ...]], list[Any] | None]
"""Returns the leaves of a call's arguments as values, if these are like those of another call."""

_FLOAT = ShapeDtype((), np.dtype(float))


@final
class Like:
    """What the arguments of a call are like, so that others are served as they are.

    Arrays are of the same shape, dtype and order in memory. Those that are differentiated may stand in tuples, lists and
    dicts, whose keys come in the same order: the function gets new ones with tracers, and may do with them what it likes.

    Args:
        args: the arguments.
        chosen: places of those that are differentiated.
    """

    __slots__ = ("_chosen", "_leaves", "_tree", "count", "order", "specs", "take", "treedef")
    take: Take | None
    """``None`` if the function is to be called whatever it is."""

    def __init__(self, args: tuple[Any, ...], chosen: Sequence[int]) -> None:
        self.take = None
        others = [k for k in range(len(args)) if k not in chosen]
        if any(type(args[k]) is not np.ndarray for k in others):  # nobody has looked into those so far
            return
        is_flat = all(type(x) in (np.ndarray, float) for x in args)
        self._leaves, self._tree = (list(args), None) if is_flat else flatten(args)
        parts = [[x] if is_flat else flatten(x)[0] for x in args]
        first = [sum(map(len, parts[:k])) for k in range(len(args))]
        places = [range(first[k], first[k] + len(parts[k])) for k in range(len(args))]
        self._chosen = frozenset([i for k in chosen for i in places[k]])
        self.order = [i for k in (*chosen, *others) for i in places[k]]
        """The places of the leaves, as inputs."""
        self.count = len(self._chosen)
        """How many of them are differentiated."""
        self.treedef = None
        """Of what is differentiated; ``None`` where that is leaves."""
        self.specs: list[ShapeDtype] = []
        if not all(map(self._add, range(len(self._leaves)))):
            return
        if self._tree is None:
            self.take = _of_leaves([(spec.shape, spec.dtype) for spec in self.specs])
        elif _is_plain(self._tree):
            self.treedef = flatten(tuple([args[k] for k in chosen]))[1]
            check = written_check(flatten((args, {}))[1], self._leaves, (args, {}))
            self.take = None if check is None else _of_nest(check)

    @property
    def leaves(self) -> list[Any]:
        """Of the arguments, as inputs."""
        return [self._leaves[i] for i in self.order]

    def arguments(self, values: Sequence[Any]) -> Sequence[Any]:
        """Return the arguments of a call with other leaves."""
        return values if self._tree is None else unflatten(self._tree, values)

    def _add(self, i: int) -> bool:
        """Note what a leaf is like; whether such are served."""
        x, is_chosen = self._leaves[i], i in self._chosen
        if type(x) is float and is_chosen:
            self.specs.append(_FLOAT)
        elif type(x) is np.ndarray and x.ndim and x.flags.c_contiguous and x.dtype.kind in ("f" if is_chosen else "biufc"):
            self.specs.append(aval_of(x))
        else:
            return False
        return True


def _of_leaves(specs: Sequence[tuple[tuple[int, ...], np.dtype[Any]]]) -> Take:
    def take(args: tuple[Any, ...]) -> list[Any] | None:
        if len(args) != len(specs):
            return None
        values: list[Any] = []
        for x, (shape, dtype) in zip(args, specs, strict=True):
            if x.__class__ is np.ndarray:
                if x.dtype != dtype or x.shape != shape or not shape or not x.flags.c_contiguous:
                    return None
                values.append(x)
            elif x.__class__ is float and not shape:
                values.append(np.float64(x))
            else:
                return None
        return values

    return take


def _of_nest(check: Check) -> Take:
    def take(args: tuple[Any, ...]) -> list[Any] | None:
        values = check(args, {})
        return values if values is not None and all(x.flags.c_contiguous for x in values) else None

    return take


def _is_plain(tree: PyTreeSpec) -> bool:
    """Whether a nest consists of tuples, lists and dicts, and no classes of the user's."""
    return tree.is_leaf() or (tree.type in (tuple, list, dict, type(None)) and all(map(_is_plain, tree.children())))


class Warned(Exception):
    """Raised in place of warnings."""

    @staticmethod
    @contextmanager
    def raised() -> Iterator[None]:
        """Raise where a warning would be shown; see Note [How a warning is noticed]."""
        thread: int | None = threading.get_ident()

        class Asked(type):
            def __subclasscheck__(cls, category: type) -> bool:
                if threading.get_ident() == thread:
                    raise Warned
                return False

        entry: Any = ("ignore", None, Asked("Never", (Warning,), {}), None, 0)
        filters: Any = warnings.filters
        filters.insert(0, entry)
        try:
            yield
        finally:
            thread = None  # whoever has copied the filters meanwhile keeps one that asks nobody
            if entry in filters:  # nobody has emptied it
                filters.remove(entry)


def recorded_without_values(
    recording: Recording, f: FunctionType, like: Like, wanted: Callable[[Recording, Any], Sequence[Any]]
) -> Recorded | None:
    """Record a call of a closed function on inputs without values.

    Returns:
        ``None`` where the function is to be called every time: if it asks for values, or raises; if an operation may fail on
        values, since that is then told where it stands; for operations that hold programs; if it writes into an argument
        that is not differentiated, which it may not where that is large; for large arrays.
    """
    inputs = {i: recording.new_input(like.specs[i]) for i in like.order}
    args = like.arguments([inputs[i] for i in sorted(inputs)])
    try:
        with np.errstate(all="raise"), Warned.raised():  # of what is computed without inputs, which warns every time
            call = Recorded(recording, f, lambda _: (args, {}), wanted=wanted)
    except Exception:  # whatever it is, the call that follows will raise it if it is due
        return None
    if [inputs[i]._id for i in like.order[like.count :]] != recording.inputs[like.count :]:
        return None
    if sum([aval.nbytes for aval in recording.avals]) > LARGE * len(recording.avals):
        return None
    for primitive, operands, params in recording.columns:
        if primitive.holds is not None or primitive.kept is not None:
            return None
        if primitive.fails is not None and primitive.fails(*map(recording.spec, operands), *params):
            return None
    return call


def alike(recorded: Recorded, called: Recorded, plain: dict[int, Any]) -> bool:
    """Whether a call without values, and one as it is otherwise, were recorded as the same operations on the same values.

    Args:
        recorded: the call without values.
        called: the other one; its inputs are the first ones of ``recorded``.
        plain: the values of all other inputs of ``recorded``; those of views of them are added.
    """
    a, b = recorded.recording, called.recording
    if any(x.held or x.inner or x.lent or x.answers for x in (a, b)):
        return False
    if not (plain or a.constants or b.constants):  # the common case, quickly
        tapes = [(x.primitives, x.operands, x.params, x.avals) for x in (a, b)]
        return tapes[0] == tapes[1] and recorded.outputs == called.outputs and all(map(_is_number, a.literals, b.literals))
    for k, (primitive, operands, params) in enumerate(a.columns):
        read = [i for i in operands if i >= 0 and i not in a.constants]
        if primitive in (INPUT, CONSTANT) or (read and not plain.keys() >= set(read)):
            continue
        if not (read and primitive.view and len(operands) == 1):
            return False
        plain[k] = primitive.eval(plain[operands[0]], *params)
    values = {**a.constants, **plain}
    rows = [k for k, primitive in enumerate(a.primitives) if primitive not in (INPUT, CONSTANT) and k not in plain]
    same = dict(zip(b.inputs, a.inputs, strict=False))

    def is_same(i: int, k: int) -> bool:
        if i < 0 or k < 0:
            return i < 0 and k < 0 and _is_number(a.literals[~i], b.literals[~k])
        return i in values and _is_equal(values[i], b.constants[k]) if k in b.constants else same.get(k) == i

    others = [k for k, primitive in enumerate(b.primitives) if primitive not in (INPUT, CONSTANT)]
    if len(rows) != len(others):
        return False
    for i, k in zip(rows, others, strict=True):
        if a.primitives[i] is not b.primitives[k] or a.params[i] != b.params[k] or a.avals[i] != b.avals[k]:
            return False
        if len(a.operands[i]) != len(b.operands[k]) or not all(map(is_same, a.operands[i], b.operands[k])):
            return False
        same[k] = i
    return all(map(is_same, recorded.outputs, called.outputs))


def _is_number(x: Scalar, y: Scalar) -> bool:
    return x is y or (type(x) is type(y) and _is_equal(x, y))


def _is_equal(x: object, y: object) -> bool:
    a, b = np.asarray(x), np.asarray(y)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
