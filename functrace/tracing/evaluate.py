"""The reference evaluator: it defines the meaning of a program.

It applies the equations one by one. On arrays, it calls each primitive's ``eval`` rule; if any
argument is traced, it records the equations. For other values, the caller passes a function
``apply`` that applies a primitive (`functrace.torch` does so for tensors). Executors must give
equal results.

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

from functrace.ir.primitive import Primitive
from functrace.ir.program import Position, Program
from functrace.tracing.binding import bind
from functrace.tracing.lines import LINES, RUNNING, CurrentOperation, name_warnings, stop_naming
from functrace.tracing.tracer import Tracer

Apply = Callable[[Primitive, tuple[Any, ...], tuple[Any, ...]], Any]
"""Applies a primitive to operands and params; returns one result, or a tuple if the primitive has
``many``.
"""


def evaluate_program(
    program: Program,
    arguments: Sequence[Any],
    lines: Sequence[Position] = (),
    apply: Apply | None = None,
) -> list[Any]:
    """Evaluate a program on flat arguments; return the flat list of its outputs.

    Values are freed after their last use. Equations that no output depends on are not evaluated.

    Args:
        program: the program to evaluate.
        arguments: one array or traced value per input.
        lines: for a cached program, source positions of the current recording.
        apply: applies a primitive; by default `bind` if an argument or constant is traced,
            otherwise its ``eval`` rule.

    Cost:
        about 0.3 us per equation without the array work.
    """
    ops, literals = program.ops, program.literals
    env: list[Any] = [None] * len(ops) + list(reversed(literals))
    for variable, value in zip(program.input_ids, arguments, strict=True):
        env[variable] = value
    for variable, value in program.constant_values.items():
        env[variable] = value
    records = apply is None and any(
        isinstance(v, Tracer) for v in (*arguments, *program.constant_values.values())
    )
    if records:
        apply = bind
    k = -1
    named = name_warnings()
    try:
        for k, dying in program.schedule:
            primitive, operands, params = ops[k]
            if apply is not None:
                result = apply(primitive, tuple([env[i] for i in operands]), params)
                if records:
                    _attribute(result if primitive.many else (result,), program.position(k, lines))
            elif params:
                result = primitive.eval(*[env[i] for i in operands], *params)
            else:
                result = primitive.eval(*[env[i] for i in operands])
            if primitive.many:
                env[k : k + len(result)] = result
            else:
                env[k] = result
            for i in dying:
                env[i] = None
    except Exception as error:
        source = program.source(k, lines)
        if source is not None:
            error.add_note(f"  recorded at {source}")
        raise
    finally:
        stop_naming(named)
    return [env[i] for i in program.output_ids]


def _attribute(results: Sequence[Any], position: Position) -> None:
    """Set the positions of recorded results to the program's source position."""
    if position is None:
        return
    for value in results:
        if isinstance(value, Tracer) and value.ft_recording.positions is not None:
            value.ft_recording.positions[value.ft_variable] = position


def _now(frame: FrameType, _line: int) -> CurrentOperation | None:
    program, k = frame.f_locals["program"], frame.f_locals.get("k", -1)
    if k < 0:
        return None
    return CurrentOperation(
        program.ops[k][0], program.positions[k] if k < len(program.positions) else None
    )


RUNNING[evaluate_program.__code__] = _now
LINES.add(evaluate_program.__code__)
