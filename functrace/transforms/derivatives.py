"""Derivatives of programs, as programs: `jvp_program`, `linearize_program`, `grad_program`,
`pullback_programs`.

Each is `forward` (transforms/walk.py), with or without `backward`, onto one tape or two.

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from functrace.ir.aval import Constant, ShapeDtype
from functrace.ir.parts import restrict
from functrace.ir.program import Program
from functrace.transforms.building import active_inputs, finish, remembered, take_residuals
from functrace.transforms.preparing import prepared
from functrace.transforms.tape_sink import TapeSink
from functrace.transforms.walk import ForwardWalk, Sink, backward, forward

# -- forward mode ----------------------------------------------------------------------------------


def jvp_program(
    program: Program,
    active: Sequence[bool] | None = None,
    count: int | None = None,
    *,
    by_rules: bool = False,
) -> Program:
    """Make the program that computes outputs and their tangents.

    Args:
        program: the program to differentiate.
        active: one flag per input; ``None`` means every input with a float or complex dtype.
        count: number of outputs, from the first on, to differentiate (all by default); the others
            are auxiliary.
        by_rules: True to call the rule of every operation, and use no templates; the result is the
            same.

    Returns:
        a program whose inputs are the primals, then one tangent per active input, and whose outputs
        are the outputs, then one tangent per differentiated output (zeros where an output does not
        depend on an active input).

    Raises:
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: np.sin(x))(1.0)
        >>> ft.evaluate(ft.transforms.jvp_program(program), 0.0, 2.0)
        (np.float64(0.0), np.float64(2.0))

    Cost:
        2 to 3 times the program. Making it takes about 2.5 us per operation, 4 by the rules.
    """
    return remembered(_jvp_program, program, active, count, by_rules)


def _jvp_program(
    program: Program, active: Sequence[bool] | None, count: int | None, by_rules: bool
) -> Program:
    sink = TapeSink(program, "jvp", pushes=True, splits=False)
    walked = forward(program, _flags(program, active), sink, count, by_rules=by_rules)
    tangents = [_tangent(sink, walked, i) for i in program.output_ids[:count]]
    return finish(sink.known, (*sink.outputs, *tangents), program, f"jvp_of_{program.name}")


def linearize_program(
    program: Program,
    active: Sequence[bool] | None = None,
    count: int | None = None,
    *,
    by_rules: bool = False,
) -> tuple[Program, Program]:
    """Split a program into a forward program and a linear one.

    Args:
        program: the program to linearize.
        active: one flag per input; ``None`` means every input with a float or complex dtype.
        count: number of outputs, from the first on, to differentiate (all by default); the others
            are auxiliary.
        by_rules: True to call the rule of every operation, and use no templates; the result is the
            same.

    Returns:
        ``forward``, with the program's inputs; its outputs are the program's, then the residuals.
        ``linear``, whose inputs are the residuals, then one tangent per active input, and whose
        outputs are the tangents of the differentiated outputs.

    Raises:
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import numpy as np, functrace as ft
        >>> forward, linear = ft.transforms.linearize_program(ft.trace(lambda x: np.sin(x))(1.0))
        >>> value, residual = ft.evaluate(forward, 0.0)
        >>> ft.evaluate(linear, residual, 2.0)  # cos(0) * 2
        np.float64(2.0)

    Cost:
        forward: 1 to 2 times the program; residuals are at most a few values per equation.
    """
    flags = _flags(program, active)
    program = prepared(program, flags)
    sink = TapeSink(program, "linearize", pushes=True, splits=True)
    walked = forward(program, flags, sink, count, by_rules=by_rules)
    tangents = [_tangent(sink, walked, i) for i in program.output_ids[:count]]
    residuals = take_residuals(sink.second)
    made = finish(sink.known, (*sink.outputs, *residuals), program, f"forward_of_{program.name}")
    return made, finish(sink.second, tangents, program, f"linear_of_{program.name}")


def _flags(program: Program, active: Sequence[bool] | None) -> Sequence[bool]:
    if active is not None:
        return active
    chosen = set(active_inputs(program, None))
    return [i in chosen for i in program.input_ids]


def _tangent(sink: TapeSink, walked: ForwardWalk, i: int) -> int:
    """Return the place of an output's tangent; zeros if it has none."""
    found = walked.tangents.get(walked.roots[i])
    return sink.zeros(sink.program.avals[i]) if found is None else found


class SplitProgram(NamedTuple):
    """Result of `split_program`, for rules of primitives with sub-programs.

    Args:
        forward: the program with additional outputs: residuals that are not inputs or outputs
            already.
        linear: from residuals and tangents of active inputs to the tangents of the active outputs.
        sources: origin of each residual: ``("input", place)``, ``("output", place)`` or ``("new",
            place)``.
        active: one flag per output: True if it has a tangent.
    """

    forward: Program
    linear: Program
    sources: tuple[tuple[str, int], ...]
    active: tuple[bool, ...]


def split_program(
    program: Program, active: Sequence[bool], needed: Sequence[bool] | None = None
) -> SplitProgram:
    """Split a program into a forward program and a linear one, without forwarded values.

    Args:
        program: the program.
        active: one flag per input.
        needed: one flag per output: True to give it a tangent in any case, if only zeros.
    """
    return remembered(_split_program, program, active, needed)


def _split_program(
    program: Program, active: Sequence[bool], needed: Sequence[bool] | None
) -> SplitProgram:
    program = prepared(program, active)
    sink = TapeSink(program, "linearize", pushes=True, splits=True)
    walked = forward(program, active, sink)
    wanted = [False] * len(program.output_ids) if needed is None else needed
    flags = tuple([
        walked.roots[i] in walked.tangents or flag for i, flag in zip(program.output_ids, wanted,
        strict=True)
    ])  # fmt: skip
    tangents = [
        _tangent(sink, walked, i) for i, flag in zip(program.output_ids, flags, strict=True) if flag
    ]
    places: dict[int, tuple[str, int]] = {}
    for word, variables in (
        ("input", [sink.moved[i] for i in program.input_ids]),
        ("output", sink.outputs),
    ):
        for place, i in enumerate(variables):
            places.setdefault(i, (word, place))
    new: list[int] = []
    sources: list[tuple[str, int]] = []
    for i in take_residuals(sink.second):
        if i not in places:
            places[i] = ("new", len(new))
            new.append(i)
        sources.append(places[i])
    made = finish(sink.known, (*sink.outputs, *new), program, f"forward_of_{program.name}")
    return SplitProgram(
        made,
        finish(sink.second, tangents, program, f"linear_of_{program.name}"),
        tuple(sources),
        flags,
    )


def as_differentiated(program: Program, active: Sequence[bool]) -> Program:
    """Return the program with outputs computed as when it is differentiated.

    It differs if the program calls functions with custom rules: their results are then computed by
    the rules, with derivatives that may differ from those of the functions.

    Args:
        program: the program.
        active: one flag per input.
    """
    return remembered(_as_differentiated, program, active) if program.has_rules else program


def _as_differentiated(program: Program, active: Sequence[bool]) -> Program:
    made = split_program(program, active).forward
    return restrict(
        made, made.input_ids, made.output_ids[: len(program.output_ids)], keep=True
    ).program


# -- reverse mode ----------------------------------------------------------------------------------


class GradientSink(Sink, Protocol):
    """A sink with the additional methods of `gradient`."""

    def place(self, i: int) -> int:
        """Return the place of a variable of the program."""
        ...

    def constant(self, value: Constant, aval: ShapeDtype) -> int:
        """Add a constant; returns its place."""
        ...


def gradient(
    program: Program,
    active: Sequence[bool],
    with_value: bool,
    sink: GradientSink,
    *,
    by_rules: bool = False,
) -> list[int]:
    """Write outputs, then gradients of the first output by active inputs; return their places.

    Args:
        program: a program whose first output is a scalar.
        active: one flag per input.
        with_value: True to return the first output; otherwise work that only it needs is skipped.
        sink: a tape, or an instruction list.
        by_rules: see `jvp_program`.
    """
    walked = forward(program, active, sink, 1, by_rules=by_rules)
    out, avals = program.output_ids[0], program.avals
    seeds: list[tuple[int, int]] = []
    if walked.active[out]:
        seeds.append((out, sink.constant(np.ones((), avals[out].dtype)[()], avals[out])))
    cotangents = backward(walked, seeds, sink)
    places = [sink.place(i) for i in (program.output_ids if with_value else program.output_ids[1:])]
    for i, flag in zip(program.input_ids, active, strict=True):
        if flag:
            found, aval = cotangents[i], avals[i]
            places.append(
                sink.constant(np.zeros(aval.shape, aval.dtype)[()], aval)
                if found is None
                else found
            )
    return places


def grad_program(
    program: Program, active: Sequence[bool], with_value: bool = True, *, by_rules: bool = False
) -> Program:
    """Make the program that computes outputs, then gradients of the first output by the active
    inputs.

    The forward and the reverse pass are recorded on one tape, as one program.

    Args:
        program: a program whose first output is a scalar.
        active: one flag per input.
        with_value: True to have the first output among the results; otherwise work that only it
            needs is skipped.
        by_rules: True to call the rule of every operation, and use no templates; the result is the
            same.

    Returns:
        a program with the same inputs. Its outputs are those of ``program`` (without the first one
        unless ``with_value``), then one gradient per active input.

    Raises:
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: np.sum(x * x))(np.ones(2))
        >>> ft.evaluate(ft.transforms.grad_program(program, [True]), np.array([1.0, 3.0]))
        (np.float64(10.0), array([2., 6.]))

    Cost:
        2 to 4 times the program, whatever the number of inputs.
    """
    program = prepared(program, active)
    sink = TapeSink(program, "grad", pushes=False, splits=False)
    places = gradient(program, active, with_value, sink, by_rules=by_rules)
    sink.close()
    return finish(sink.known, places, program, f"grad_of_{program.name}")


def pullback_programs(
    program: Program, active: Sequence[bool], count: int | None = None, *, by_rules: bool = False
) -> tuple[Program, Program]:
    """Make the two programs of a pullback: the forward pass with residuals, and the reverse pass.

    Args:
        program: the program to differentiate.
        active: one flag per input.
        count: number of outputs, from the first on, to differentiate; by default all.
        by_rules: True to call the rule of every operation, and use no templates; the result is the
            same.

    Returns:
        ``forward``, whose outputs are the program's, then residuals; and ``backward``, from
        residuals and one cotangent per differentiated output to cotangents of the active inputs.

    Raises:
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import numpy as np, functrace as ft
        >>> forward, backward = ft.transforms.pullback_programs(ft.trace(lambda x: np.sin(x))(1.0), [True])
        >>> value, residual = ft.evaluate(forward, 0.0)
        >>> ft.evaluate(backward, residual, 3.0)  # cos(0) * 3
        np.float64(3.0)

    Cost:
        making them takes about 3 us per operation, 9 by the rules.
    """
    program = prepared(program, active)
    sink = TapeSink(program, "vjp", pushes=False, splits=True)
    walked = forward(program, active, sink, count, by_rules=by_rules)
    avals = program.avals
    given = [(i, sink.input(avals[i])) for i in program.output_ids[:count]]
    cotangents = backward(walked, [(i, place) for i, place in given if walked.active[i]], sink)
    outs: list[int] = []
    for i, flag in zip(program.input_ids, active, strict=True):
        if flag:
            found = cotangents[i]
            outs.append(sink.zeros(avals[i]) if found is None else found)
    sink.close()
    residuals = take_residuals(sink.second)
    made = finish(sink.known, (*sink.outputs, *residuals), program, f"forward_of_{program.name}")
    return made, finish(sink.second, outs, program, f"transpose_of_linear_of_{program.name}")
