"""Recording a function as a closed program, to be held by an operation of the program around it.

Floor: 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace.api.calls import call, output_variable
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Assembly, Rewrite, closed_over
from functrace.ir.program import Program
from functrace.numpy.number import TracedNumber
from functrace.numpy.view_kinds import GatherView, View
from functrace.numpy.views import Unsettled, base_of, guard, replayed
from functrace.ops.shaping import convert_p
from functrace.tracing.capture import Held
from functrace.tracing.recording import BODY, LITERALS, Recording, Tracer
from functrace.tree import PyTreeSpec, flatten, unflatten


class Origin(NamedTuple):
    """Where the memory of a leaf of a result is.

    Args:
        root: the value, traced or not, that the leaf is or is a view of.
        place: of the operand that the root is, if it is one.
        views: from the root to the leaf.
        is_own: whether the root was made in the function.
        beside: whether the leaf is the root, but shows a part of an operand or of a captured value besides, at an index that
            only the function knows; ``place`` is of that operand, ``captured`` that value.
    """

    root: Any
    place: int | None
    views: tuple[View, ...]
    is_own: bool
    beside: bool = False
    captured: Any = None


class Staged(NamedTuple):
    """A function as a closed program.

    Args:
        program: its inputs are the arguments' array leaves, then what the function captured.
        captured: values of the latter, arrays or outer traced values.
        out_tree: structure of the result.
        numbers: the Python type of each leaf of the result that is a number, ``None`` for arrays.
        origins: of each leaf.
    """

    program: Program
    captured: list[Any]
    out_tree: PyTreeSpec
    numbers: list[type | None]
    origins: list[Origin]

    @property
    def out_avals(self) -> list[ShapeDtype]:
        """Avals of the result's leaves."""
        return [self.program.avals[i] for i in self.program.output_ids]


class Operands:
    """The leaves of a call's arguments: arrays and traced values are operands, whatever else stays as it is.

    Python numbers stay, too, and those that `jit` traces: so they keep their weak dtype (NEP 50).
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.leaves, self.tree = flatten((args, kwargs))
        self.places = [
            k
            for k, leaf in enumerate(self.leaves)
            if isinstance(leaf, Tracer | np.ndarray | np.generic) and type(leaf) is not TracedNumber
        ]
        leaves = [self.leaves[k] for k in self.places]
        self.avals = [aval_of(leaf) for leaf in leaves]
        self._held = [Held(leaf) if isinstance(leaf, np.ndarray) else None for leaf in leaves]
        self.values = [leaf if held is None else held.array for leaf, held in zip(leaves, self._held, strict=True)]

    def handed_on(self) -> list[Any]:
        """Return the values as what was recorded is applied to them: the caller's own arrays, if they are what they were."""
        return [v if held is None else held.handed_on() for v, held in zip(self.values, self._held, strict=True)]

    def if_traced(self) -> Operands:
        """Return the same operands, or none where no value is traced: then all of them go to the function as they are."""
        if any(isinstance(value, Tracer) for value in self.values):
            return self
        made = object.__new__(Operands)
        made.leaves, made.tree = self.leaves, self.tree
        made.places, made.values, made.avals, made._held = [], [], [], []
        return made

    def without_values(self) -> Operands:
        """Return the same operands without their values, as something that outlives the call keeps them."""
        made = object.__new__(Operands)
        made.leaves, made.tree, made.places, made.avals = list(self.leaves), self.tree, self.places, self.avals
        for place in self.places:
            made.leaves[place] = None
        made.values = made._held = [None] * len(self.places)
        return made

    def arguments(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return args and kwargs with other values for the operands."""
        leaves = list(self.leaves)
        for place, value in zip(self.places, values, strict=True):
            leaves[place] = value
        return unflatten(self.tree, leaves)


def stage(
    f: Callable[..., Any],
    operands: Operands,
    owner: str,
    name: str,
    *,
    with_values: bool,
    is_certain: bool = True,
    computed_only: bool = False,
    scope: str = BODY,
    input_names: Sequence[str | None] = (),
) -> Staged:
    """Record a function on the operands of a call.

    Args:
        f: the function.
        operands: of the call.
        owner: who records, for messages.
        name: what listings call the program.
        with_values: whether the function may ask for values (those of the operands, if they are known).
        is_certain: whether it will run in any case, so that what may fail can do so now.
        computed_only: whether the program returns `computed_leaves` only, instead of all leaves of the result.
        scope: what belongs to it; see Note [A body is what runs inside] in tracing/recording.py.
        input_names: what listings call the operands.
    """
    with Recording(owner, scope=scope, is_certain=is_certain) as recording:
        inputs = [
            recording.new_input(aval, value if with_values else None)
            for aval, value in zip(operands.avals, operands.values, strict=True)
        ]
        recording.arguments = tuple(inputs)
        args, kwargs = operands.arguments(inputs)
        leaves, tree = flatten(call(recording, f, args, kwargs))
        numbers = [number_type(leaf) for leaf in leaves]
        leaves = [leaf.strong() if isinstance(leaf, TracedNumber) else leaf for leaf in leaves]
        origins = [_origin(recording, leaf) for leaf in leaves]
        wanted = computed_leaves(origins, leaves) if computed_only else leaves
        outputs = tuple([output_variable(recording, leaf, owner) for leaf in wanted])
        program, _ = closed_over(recording.program(outputs, name=identifier(name), input_names=input_names))
        return Staged(program, [recording.callers_array(i) for i in recording.constants], tree, numbers, origins)


def _origin(recording: Recording, leaf: Any) -> Origin:
    views: list[View] = []
    root = leaf
    while isinstance(root, Tracer):
        if isinstance(root._recording, Unsettled):  # the leaf itself may not be among what the program returns
            root._recording.refuse()
        base = base_of(root)
        if base is None:
            break
        views.append(root._view)
        root = base
    place = next((k for k, argument in enumerate(recording.arguments) if argument is root), None)
    is_own = isinstance(root, Tracer) and root._recording is recording and place is None
    if any(isinstance(view, GatherView) for view in views):
        return Origin(leaf, place, (), True, beside=True, captured=root if place is None else None)
    return Origin(root, place, tuple(reversed(views)), is_own)


def computed_leaves(origins: Sequence[Origin], leaves: Sequence[Any]) -> list[Any]:
    """The leaves that a function computes, as against operands, captured values, plain arrays and views of these.

    What several leaves are views of stands for them all.
    """
    chosen: dict[int, Any] = {}
    for origin, leaf in zip(origins, leaves, strict=True):
        if origin.is_own:
            chosen[id(origin.root)] = origin.root if id(origin.root) in chosen else leaf
    return list(chosen.values())


def whole_result(staged: Staged, operands: Operands, computed: Sequence[Any]) -> list[Any]:
    """Return all leaves of a result of which the program has computed `computed_leaves`.

    So a result that is an operand, or a view of one or of another result, is that outside of the function too.
    """
    counts = Counter(id(origin.root) for origin in staged.origins)
    values = iter(computed)
    made: dict[int, Any] = {}
    results = []
    for origin in staged.origins:
        if origin.is_own:
            key = id(origin.root)
            if key not in made:
                made[key] = next(values)
            results.append(replayed(made[key], origin.views if counts[key] > 1 else ()))
            if origin.beside:
                _guard_beside(results[-1], origin, operands.leaves, operands.places, staged.program.name)
        else:
            root = origin.root if origin.place is None else operands.leaves[operands.places[origin.place]]
            results.append(replayed(root, origin.views))
    return results


def _guard_beside(result: Any, origin: Origin, values: Sequence[Any], places: Sequence[int], owner: str) -> None:
    place = origin.place
    captured = origin.captured if isinstance(origin.captured, Tracer) and not origin.captured._recording.closed else None
    guard(result, [captured if place is None else values[places[place]]], owner)


def guard_results(
    results: Sequence[Any], origins: Sequence[Origin], values: Sequence[Any], owner: str, others: Sequence[Any] = ()
) -> None:
    """Refuse writes that would have to be seen in an operand, or in another result, of an operation that holds a program.

    Args:
        results: of the operation.
        origins: of the leaves that the program returns.
        values: of the operands, by place.
        owner: for messages.
        others: what a result that shares memory with any operand may share it with besides.
    """
    counts = Counter(id(origin.root) for origin in origins if origin.is_own)
    for result, origin in zip(results, origins, strict=False):
        if origin.is_own:
            if origin.beside:
                _guard_beside(result, origin, values, range(len(values)), owner)
            elif counts[id(origin.root)] > 1:
                guard(result, (), owner)
        elif isinstance(origin.root, Tracer):
            guard(result, [origin.root if origin.place is None else values[origin.place], *others], owner)


def number_type(leaf: Any) -> type | None:
    """The type of a Python number, traced or not, which has a kind but no width (NEP 50); ``None`` for whatever else."""
    return leaf.kind if isinstance(leaf, TracedNumber) else type(leaf) if type(leaf) in LITERALS else None


def takes(number: type | None, dtype: np.dtype[Any]) -> bool:
    """Whether something is a Python number that becomes ``dtype`` beside an array of it."""
    return number is not None and _KINDS.index(dtype.kind) >= _KINDS.index(np.dtype(number).kind)


_KINDS = "biufc"


def with_dtypes(program: Program, dtypes: Sequence[np.dtype[Any]]) -> Program:
    """Return the program with its outputs converted to dtypes."""
    if all(program.avals[i].dtype == dtype for i, dtype in zip(program.output_ids, dtypes, strict=True)):
        return program
    write = Rewrite(program)
    for k, _ in program.schedule:
        write.keep(k)
    outputs = [write.operand(i) for i in program.output_ids]
    return write.finish(
        [
            i if write.avals[i].dtype == dtype else write.place(convert_p, (i,), (dtype,))
            for i, dtype in zip(outputs, dtypes, strict=True)
        ]
    )


def identifier(name: str) -> str:
    """Return a function's name as listings can have it."""
    return name if name.isidentifier() else "program"


def with_inputs(program: Program, explicit: int, before: Sequence[Any], after: Sequence[Any]) -> Program:
    """Return the program with more captured inputs, which it does not read: it then takes what its sister programs take.

    Args:
        program: a closed program.
        explicit: how many of its inputs are explicit.
        before, after: the values captured by the others, which stand before and after its own.
    """
    build = Assembly()
    ids = program.input_ids
    inputs = [build.input(program.avals[i]) for i in ids[:explicit]]
    for value in before:
        build.input(aval_of(value))
    inputs += [build.input(program.avals[i]) for i in ids[explicit:]]
    for value in after:
        build.input(aval_of(value))
    return build.program(build.splice(program, inputs), program.name)
