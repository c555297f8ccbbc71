"""A program as JSON data for its page.

The data has ``programs`` (the program, then its sub-programs), ``sources``, ``residuals``,
``memory``, ``policies`` and ``totals``. A program has ``vars`` (name, aval, bytes), ``inputs``,
``outputs``, ``constants``, ``ops`` and ``groups`` (`functrace.viz.grouping`); variables are numbered
as on its tape.

Layer: 8 (api).
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.control.policies import described, is_policy
from functrace.control.residuals import PackPolicy, unpack_p
from functrace.executor.plan.planner import planned
from functrace.executor.policy import ONE_BY_ONE
from functrace.ir.aval import Constant
from functrace.ir.cost import EquationCost, program_cost
from functrace.ir.primitive import Primitive
from functrace.ir.program import Equation, Program
from functrace.ops.naming import name_p
from functrace.source import printable
from functrace.tracing.tracer import Tracer
from functrace.viz.crossing import CrossingValue, crossing_values, instruction, maker
from functrace.viz.grouping import group_operations
from functrace.viz.roles import Role, held_by, role_inside, roles_of
from functrace.viz.sources import SourceTable

if TYPE_CHECKING:
    from functrace.executor.profile import Profile

LONGEST_TEXT = 240
"""Maximum number of characters of an operation's text."""
MOST_ELEMENTS = 8
"""Maximum number of elements of a constant that are shown."""

PASSES = {"forward": "f", "reverse": "r", "recomputed": "c"}
"""Roles in the data."""


def program_data(program: Program, title: str, profile: Profile | None = None) -> dict[str, Any]:
    """Return the data of a page.

    Args:
        program: the program.
        title: of the page.
        profile: times of the program, if they were measured.
    """
    written = _Writer()
    written.program(program, "", "forward", -1, 1)
    whole = program_cost(program)
    found = written.memory(program)
    return {
        "title": printable(title),
        "programs": written.programs,
        "residuals": written.residuals,
        "policies": written.policies,
        "memory": found,
        "profile": None if profile is None else _profile_data(profile),
        "sources": written.sources.as_json(),
        "totals": {
            "operations": sum(len(part["ops"]) for part in written.programs),
            "flops": whole.flops,
            "bytes": whole.bytes,
            "peak": found["peak"],
            "residuals": sum(r["bytes"] for r in written.residuals if r["kept"]),
        },
    }


class _Writer:
    """Collects the parts of a page's data."""

    def __init__(self) -> None:
        self.programs: list[dict[str, Any]] = []
        self.residuals: list[dict[str, Any]] = []
        self.policies: list[dict[str, Any]] = []
        self.sources = SourceTable()

    def program(self, program: Program, path: str, within: Role, parent: int, runs: int) -> int:
        """Add a program and its sub-programs; return its number."""
        number = len(self.programs)
        made: dict[str, Any] = {"name": printable(program.name), "path": printable(path)}
        self.programs.append(made)
        roles = roles_of(program, within)
        live = {k for k, _ in program.schedule}
        costs = program_cost(program).equations
        places = {k: n for n, k in enumerate(roles)}
        made.update(
            parent=parent,
            runs=runs,
            vars=[[str(v.name), str(v.aval), v.aval.nbytes] for v in program.variables],
            inputs=list(program.input_ids),
            outputs=list(program.output_ids),
            constants=[[i, _constant_text(value)] for i, value in program.constant_values.items()],
        )
        ops: list[dict[str, Any]] = []
        made["ops"] = ops
        for equation, cost, k in zip(program.equations, costs, roles, strict=True):
            place = self.sources.place(program, k)
            policy = self._policy(equation, places[k], number, place)
            op: dict[str, Any] = {
                "p": equation.primitive.name,
                "text": _shortened(equation, cost),
                "role": PASSES[roles[k]],
                "in": [i for i in program.ops[k][1] if i >= 0],
                "out": list(range(k, k + program.result_count(k))),
                "at": place,
                "flops": cost.flops,
                "bytes": cost.bytes,
            }
            if k not in live:
                op["unused"] = True
            if policy:
                op["policy"] = policy
            ops.append(op)
            held = list(held_by(program, k))
            siblings = [inner for _, inner, _ in held]
            subs = [
                [
                    self.program(
                        inner, inner_path, role_inside(roles[k], inner, siblings), number, times
                    ),
                    times,
                ]
                for inner_path, inner, times in held
            ]
            if subs:
                op["subs"] = subs
        keys = [
            (op["role"], op["at"], instruction(program, k))
            for op, k in zip(ops, roles, strict=True)
        ]
        made["groups"] = [group.as_json() for group in group_operations(keys)]
        if not number or set(roles.values()) != {"reverse"}:
            for value in crossing_values(program, roles):
                self._residual(program, number, value, places, is_again=within != "forward")
        return number

    def _residual(
        self,
        program: Program,
        number: int,
        value: CrossingValue,
        places: dict[int, int],
        is_again: bool,
    ) -> None:
        """Note a value that crosses; ``is_again``: from a recomputation, in the reverse pass."""
        i = value.variable
        made = maker(program, i)
        variable = program.variables[i]
        self.residuals.append(
            {
                "program": number,
                "var": i,
                "name": str(variable.name),
                "aval": str(variable.aval),
                "bytes": variable.aval.nbytes,
                "kept": value.is_kept and not is_again,
                "again": is_again,
                "made": places.get(made, -1),
                "what": printable(_origin(program, i)),
                "at": self.sources.place(program, made) if made in places else -1,
                "readers": [places[k] for k in value.readers],
                "why": printable(value.why),
            }
        )

    def _policy(self, equation: Equation, op: int, number: int, place: int) -> str:
        """Return the residual policy of an operation as text, and note it; empty if it has none."""
        text = _policy_text(equation.primitive, dict(equation.params))
        if text:
            self.policies.append({"program": number, "op": op, "at": place, "text": text})
        return text

    def memory(self, program: Program) -> dict[str, Any]:
        """Return the memory timeline of the whole program."""
        kept = frozenset([r["var"] for r in self.residuals if not r["program"] and r["kept"]])
        plan = planned(program, ONE_BY_ONE)
        watched = {plan.memory.get(i, i) for i in kept}
        changes = [0] * (len(plan.steps) + 1)
        for variable, nbytes, first, last in plan.lifetimes:
            if variable in watched:
                changes[first] += nbytes
                changes[last + 1] -= nbytes
        held = list(itertools.accumulate(changes[:-1]))
        places = {k: n for n, k in enumerate(program.equation_ids)}
        return {
            "ops": [places[step.first] for step in plan.steps],
            "during": list(plan.alive),
            "kept": held,
            "peak": max(plan.alive, default=0),
        }


def _policy_text(primitive: Primitive, params: dict[str, Any]) -> str:
    if primitive is name_p:
        return printable(f"name {params.get('name', next(iter(params.values())))!r}")
    if primitive is unpack_p:
        return "unpack"
    policy: Any = params.get("policy", ())
    if isinstance(policy, PackPolicy):
        names = [getattr(f, "__qualname__", type(f).__name__) for f in (policy.pack, policy.unpack)]
        return printable(f"pack({', '.join(names)})")
    if policy == ():
        return ""
    text = described(policy) if is_policy(policy) else str(policy)
    return printable(text.replace("policies.", ""))[:LONGEST_TEXT]


def _origin(program: Program, i: int) -> str:
    """Describe what made a variable: of the stack of a loop, what each step adds to it."""
    k = maker(program, i)
    primitive, _, params = program.ops[k]
    if k in program.input_ids:
        return f"argument {program.variables[k].name}"
    if k in program.constant_values:
        return "constant"
    gives = None if primitive.holds is None else primitive.holds.gives
    given = None if gives is None else gives(i - k, *params)
    if given is None:
        return f"result of {primitive.name}"
    body, place, kinds, runs = given
    inner = body.output_ids[place]
    names = dict(zip(body.input_ids, kinds, strict=False))
    return f"{names[inner] if inner in names else _origin(body, inner)} of {runs}"


def _shortened(equation: Equation, cost: EquationCost) -> str:
    """Return the text of an operation on one line, without the listings of its sub-programs."""
    text = cost.text
    if "\n" in text:
        text = f"{text.partition(' {')[0]} {{…}}"
    text = printable(text)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def _constant_text(value: Constant) -> str:
    """Return the first elements of a constant; of a large one only its size is shown."""
    if isinstance(value, Tracer):
        return "traced"
    array = np.asarray(value)
    if array.size > MOST_ELEMENTS:
        return "…"
    return printable(" ".join([str(x) for x in array.ravel()]))


def _profile_data(profile: Profile) -> dict[str, Any]:
    """Return the times of a profile: in total, by line, and by operation."""
    return {
        "seconds": profile.seconds,
        "clocked": profile.watched,
        "runs": profile.runs,
        "peak": profile.peak_bytes,
        "compiling": dict(profile.compiling),
        "lines": [
            [printable(line.place), printable(line.text), line.seconds] for line in profile.lines
        ],
        "rows": [
            {
                "text": printable(row.text)[:LONGEST_TEXT],
                "seconds": row.seconds,
                "runs": row.runs,
                "bytes": row.bytes,
                "flops": row.flops,
                "at": "" if row.source is None else row.source.short,
                "depth": row.depth,
                "estimated": row.estimated,
            }
            for row in profile.rows
        ],
    }
