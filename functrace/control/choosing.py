"""Apply a residual policy to the two programs of a linearization: save, store, or recompute each
residual.

The walk starts from the residuals. A value that the policy saves is kept; any other one is
recomputed from the operands of its operation, to which the same applies. It ends at the operands of
the function and at constants. So values that no derivative reads may be saved, too, where that cuts
the recomputation (a named product, say), and values on which nothing depends are never described to
a predicate.

Layer: 5.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, NamedTuple, final

from functrace.control.policies import RECOMPUTE, Candidate, Policy
from functrace.control.residuals import pack_p, unpack_p
from functrace.control.storages import Storage, StorageChain, recomputes, saved_in
from functrace.ir.aval import is_differentiable
from functrace.ir.parts import Assembly, Rewrite, restrict, without_kept
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Primitive
from functrace.ops.broadcasting import ELEMENTWISE
from functrace.ops.derivative_links import derivative_only_p, with_derivative_p
from functrace.ops.naming import BUDGET_PREFIX, name_p
from functrace.transforms.derivatives import SplitProgram

if TYPE_CHECKING:
    from functrace.ir.program import Program


class ChosenResiduals(NamedTuple):
    """Result of `chosen_residuals`.

    Args:
        forward: the program of the outputs, then of kept values that are neither inputs nor outputs,
            then of links (ops/derivative_links.py).
        linear: from kept values, links and tangents to tangents. It unpacks stored values, and
            recomputes others.
        sources: origin of each kept value and link: ``("input", place)``, ``("output", place)`` or
            ``("new", place)``; or ``("input link", place)`` or ``("output link", place)``, for the
            link to an input or output.
    """

    forward: Program
    linear: Program
    sources: tuple[tuple[str, int], ...]


def chosen_residuals(split: SplitProgram, count: int, policy: Policy) -> ChosenResiduals:
    """Return the programs of a linearization in which a policy decides about each residual.

    Args:
        split: the two programs, with all residuals saved.
        count: number of outputs that are no residuals.
        policy: the policy.
    """
    forward = split.forward
    variables = {
        "input": forward.input_ids,
        "output": forward.output_ids[:count],
        "new": forward.output_ids[count:],
    }
    residuals = [variables[word][place] for word, place in split.sources]
    with_budgets = isinstance(policy, tuple) and policy[:1] == RECOMPUTE
    named = NamedValues(forward, with_budgets=with_budgets)
    kept = _kept(named, residuals, policy)
    replay = restrict(forward, tuple(kept), residuals, effects=False)
    kept = {i: kept[i] for i in replay.used}
    inputs = {i: k for k, i in enumerate(forward.input_ids)}
    outputs = {i: k for k, i in enumerate(forward.output_ids[:count])}
    values = {named.values[i]: k for i, k in outputs.items()}
    sources: list[tuple[str, int]] = []
    new = 0
    for i, storage in kept.items():
        if storage is None and i in inputs:
            sources.append(("input", inputs[i]))
        elif storage is None and i in values:
            sources.append(("output", values[i]))
        else:
            sources.append(("new", new))
            new += 1
    firsts = {i: _first_of(forward, i) for i in residuals}
    linked = list(
        dict.fromkeys(
            first
            for i, first in firsts.items()
            if (first != i or i not in kept or kept[i] is not None)
            and is_differentiable(forward.avals[i])
        )
    )
    inner: list[int] = []
    links = {
        forward.ops[i][1][0]: k
        for i, k in outputs.items()
        if forward.ops[i][0] is derivative_only_p
    }
    before = {
        operands[1] for primitive, operands, _ in forward.ops if primitive is with_derivative_p
    }
    for i in linked:
        if i in links:  # one link per value, so that its cotangents have one sum
            sources.append(("output", links[i]))
        elif i in inputs:
            sources.append(("input" if i in before else "input link", inputs[i]))
        elif i in outputs:
            sources.append(("output link", outputs[i]))
        else:
            sources.append(("new", new + len(inner)))
            inner.append(i)
    made = _forward(forward, count, kept, {*inputs, *values}, inner)
    number = {i: n for n, i in enumerate(linked)}
    places = [
        number.get(firsts[i]) if firsts[i] != i or i not in kept or kept[i] is not None else None
        for i in residuals
    ]
    linear = _linear(split.linear, without_kept(replay.program), kept, places)
    return ChosenResiduals(made, linear, tuple(sources))


def _first_of(program: Program, i: int) -> int:
    """Return the link whose derivative a value has, if it was recomputed before; else itself."""
    while program.ops[i][0] in (with_derivative_p, derivative_only_p):
        i = program.ops[i][1][-1]
    return i


@final
class NamedValues:
    """The values behind the names of a program: `functrace.checkpoint_name` is the identity.

    Args:
        program: the program.
        with_budgets: True to include the names that `functrace.policies.budget` gives.

    Attributes:
        values: by variable, the one that it names, or itself.
        variables: by value that has names, the variables with these names.
    """

    def __init__(self, program: Program, *, with_budgets: bool = False) -> None:
        self.program = program
        self.values = list(range(len(program.ops)))
        self.variables: dict[int, list[int]] = {}
        for k, (primitive, operands, params) in enumerate(program.ops):
            if primitive is name_p and operands[0] >= 0:
                self.values[k] = self.values[operands[0]]
                is_of_budget = params[0].startswith(BUDGET_PREFIX)
                if params != RECOMPUTE and (with_budgets or not is_of_budget):
                    self.variables.setdefault(self.values[k], []).append(k)

    def candidates(self, value: int) -> list[Candidate]:
        """Describe a value for policies, once for each of its names."""
        return [candidate(self.program, i) for i in self.variables.get(value, (value,))]


def _kept(
    named: NamedValues, residuals: Sequence[int], policy: Policy
) -> dict[int, Storage | None]:
    """Return the values to keep, in the order of the program, each with its storage."""
    forward = named.program
    found: dict[int, Storage | None] = {}
    seen: set[int] = set()
    waiting = list(residuals)
    while waiting:
        i = waiting.pop()
        i = named.values[i] if i >= 0 else i
        if i < 0 or i in seen:
            continue
        seen.add(i)
        first = i
        while forward.ops[first][0] is RESULT:
            first -= 1
        primitive, operands, _ = forward.ops[first]
        if primitive is CONSTANT and recomputes(policy):
            continue
        storages = saved_in(policy, *named.candidates(i))
        if storages is not None:
            found[i] = _one(storages)
        elif primitive is INPUT:
            found[i] = None
        else:
            waiting += operands
    return dict(sorted(found.items()))


def _one(storages: tuple[Storage, ...]) -> Storage | None:
    if not storages:
        return None
    return storages[0] if len(storages) == 1 else StorageChain(storages)


def _forward(
    forward: Program,
    count: int,
    kept: dict[int, Storage | None],
    present: Set[int],
    linked: Sequence[int],
) -> Program:
    """Return the program of the outputs, then of kept values that are not ``present`` (inputs and
    outputs), then of links to ``linked`` values.

    A stored value is packed as soon as it is computed. Operations that only residuals need also run
    as early as possible, so that their operands can be freed.
    """
    outputs = forward.output_ids[:count]
    part = restrict(forward, forward.input_ids, [*outputs, *kept, *linked], keep=True).program
    ids = dict(zip([*kept, *linked], part.output_ids[count:], strict=True))
    storages = {ids[i]: storage for i, storage in kept.items() if storage is not None}
    write, packed = _packing_soon(part, count, storages)
    new = [
        packed[ids[i]] if storage is not None else write.operand(ids[i])
        for i, storage in kept.items()
        if storage is not None or i not in present
    ]
    links = [write.place(derivative_only_p, (write.operand(ids[i]),), ()) for i in linked]
    return write.finish([*map(write.operand, part.output_ids[:count]), *new, *links])


def _packing_soon(
    forward: Program, count: int, storages: dict[int, Storage]
) -> tuple[Rewrite, dict[int, int]]:
    """Rewrite a program so that each value is packed as soon as it is computed; return the packed
    variables, too.
    """
    packed: dict[int, int] = {}
    write = Rewrite(forward)

    def store(*variables: int) -> None:
        for i in variables:
            storage = storages.get(i)
            if storage is not None:
                packed[i] = write.place(pack_p, (write.operand(i),), (storage,))

    store(*forward.input_ids, *forward.constant_values)
    for k, _ in forward.schedule:
        write.keep(k)
        store(*range(k, k + forward.result_count(k)))
    return write, packed


def _linear(
    linear: Program,
    replay: Program,
    kept: dict[int, Storage | None],
    places: Sequence[int | None],
) -> Program:
    """Return the linear program of the kept values, which unpacks them and recomputes the
    residuals.

    Args:
        linear: the linear program of all residuals.
        replay: from kept values to residuals.
        kept: the kept values.
        places: by residual, the place of its link among the links; ``None`` if it has none.
    """
    build = Assembly()
    values = [build.input(replay.avals[i]) for i in replay.input_ids]
    avals = dict(zip(places, [replay.avals[i] for i in replay.output_ids], strict=True))
    links = [build.input(avals[n]) for n in range(len(avals) - (None in avals))]
    count = len(replay.output_ids)
    tangents = [build.input(linear.avals[i]) for i in linear.input_ids[count:]]
    values = [
        value if storage is None else build.place(unpack_p, (value,), ())
        for value, storage in zip(values, kept.values(), strict=True)
    ]
    residuals = [
        i if n is None else build.place(with_derivative_p, (i, links[n]), ())
        for i, n in zip(build.splice(replay, values), places, strict=True)
    ]
    return build.program(build.splice(linear, [*residuals, *tangents]), linear.name)


# -- description of a value ------------------------------------------------------------------------


class _Origin(NamedTuple):
    """The operation that computes a value, looked for in sub-programs.

    Args:
        program, first: the program, and the operation's first result.
        name: of the value.
        is_inside: True if the operation is in the body of a loop.
    """

    program: Program
    first: int
    name: str | None
    is_inside: bool


def candidate(program: Program, variable: int) -> Candidate:
    """Describe a value for policies."""
    from functrace.ir.cost import operation_flops  # (with the text of programs: rarely needed)

    found = _origin(program, variable, None, is_inside=False)
    primitive = found.program.ops[found.first][0]
    aval = program.avals[variable]
    if primitive in (INPUT, CONSTANT):
        word = "input" if primitive is INPUT and not found.is_inside else primitive.name
        is_operand = primitive is INPUT and not found.is_inside
        return Candidate(
            found.name, word, aval, 0, found.program.source(found.first), is_operand=is_operand
        )
    inner = found.program.avals[found.first]
    times = aval.size // inner.size if found.is_inside and inner.size else 1
    return Candidate(
        found.name,
        primitive.name,
        aval,
        times * operation_flops(found.program, found.first),
        found.program.source(found.first),
        is_elementwise=primitive.batch is ELEMENTWISE or primitive.view,
        is_dot=_is_dot(primitive),
    )


def _origin(program: Program, variable: int, name: str | None, *, is_inside: bool) -> _Origin:
    first = variable
    while program.ops[first][0] is RESULT:
        first -= 1
    primitive, operands, params = program.ops[first]
    if primitive is name_p:
        return _origin(program, operands[0], name or params[0], is_inside=is_inside)
    if primitive in (pack_p, unpack_p, with_derivative_p):
        return _origin(program, operands[0], name, is_inside=is_inside)
    holds = primitive.holds
    if holds is not None:
        place = variable - first
        if holds.gives is not None:
            given = holds.gives(place, *params)
            if given is not None:
                body, place, *_ = given
                return _origin(body, body.output_ids[place], name, is_inside=True)
        elif holds.called_program is not None:
            called = holds.called_program(*params)
            inner = _origin(called, called.output_ids[place], name, is_inside=is_inside)
            if inner.program.ops[inner.first][0] is not INPUT:
                return inner
    return _Origin(program, first, name, is_inside)


def _is_dot(primitive: Primitive) -> bool:
    from functrace.ops.contraction import einsum_p, matmul_p
    from functrace.ops.convolution import correlate_filters_p, correlate_input_p, correlate_p
    from functrace.ops.sparse import sparse_matmul_p

    return primitive in (
        matmul_p, einsum_p, correlate_p, correlate_input_p, correlate_filters_p, sparse_matmul_p,
    )  # fmt: skip
