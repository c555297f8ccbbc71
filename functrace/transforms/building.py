"""Shared helpers of transforms: match tangents to avals, set source lines, freeze a recording.

Layer: 4.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype, is_differentiable, shape_of
from functrace.ir.program import Position, Program, reverse_position
from functrace.ir.walk import interpret
from functrace.ops.shaping import broadcast_to, convert
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer, Value


def active_inputs(program: Program, active: Sequence[bool] | None) -> list[int]:
    """Return the input variables that carry derivatives: those flagged, by default all that can."""
    if active is None:
        return [i for i in program.input_ids if is_differentiable(program.avals[i])]
    return [i for i, flag in zip(program.input_ids, active, strict=True) if flag]


def match_tangent(tangent: Value, aval: ShapeDtype) -> Any:
    """Broadcast and cast a tangent to its variable's aval: forward mode does this only here."""
    if getattr(tangent, "aval", None) is aval:
        return tangent
    if shape_of(tangent) != aval.shape:
        tangent = broadcast_to(tangent, aval.shape)
    return convert(tangent, aval.dtype)


def attribute(recording: Recording, origin: int) -> None:
    """Set ``origin``, a variable of the source program, for operations added since the last
    call."""
    origins = recording.origins
    missing = len(recording.primitives) - len(origins)
    if missing:
        origins.extend([origin] * missing)


def recorded(
    recording: Recording, program: Program, values: Sequence[Any], first: int = 0
) -> list[Any]:
    """Record a program on traced values and arrays; return its outputs.

    Args:
        recording: the recording.
        program: the program.
        values: one per input.
        first: origin of the program's variable 0, see `finish`.
    """
    env: dict[int, Any] = dict(zip(program.input_ids, values, strict=True))
    env |= {
        i: recording.handle(recording.constant(value, program.avals[i]))
        for i, value in program.constant_values.items()
    }

    def apply(k: int, operands: tuple[Any, ...]) -> Any:
        primitive, _, params = program.ops[k]
        result = bind(primitive, operands, params)
        attribute(recording, first + k)
        return result

    interpret(program, env, apply, program.schedule)
    return [env[i] for i in program.output_ids]


def finish(
    recording: Recording,
    outputs: Sequence[int],
    program: Program,
    name: str,
    positions: Sequence[Position] | None = None,
) -> Program:
    """Freeze a transform's recording; operations get the source lines of their origins.

    Args:
        recording: the recording.
        outputs: its outputs.
        program: the source program.
        name: of the new program.
        positions: by origin, if there are several source programs; by default those of ``program``.
    """
    origins = recording.origins
    positions = program.positions if positions is None else positions
    end = len(positions)
    found: list[Position] = []
    last = -1
    position: Position = None
    for origin in origins:  # operations of one origin follow each other
        if origin != last:
            last = origin
            if origin >= 0:
                position = positions[origin] if origin < end else None
            elif -2 - end < origin < -1:
                position = reverse_position(positions[-2 - origin])
            else:
                position = None
        found.append(position)
    made = Program.from_builder(
        recording, outputs, name=name, input_names=program.input_names, positions=found
    )
    recording.close()
    return made


def reverse_origin(origin: int) -> int:
    """Return the number that stands among ``Recording.origins`` for an operation of a reverse pass
    with this origin: at most -2 (-1 is no origin)."""
    return -2 - origin if origin >= 0 else origin


def operand_of(recording: Recording, value: Value | None, aval: ShapeDtype) -> int:
    """Return the variable of an output; make a constant of a number, and zeros of ``None``."""
    variable, _ = recording.operand(
        match_tangent(value, aval) if value is not None else np.zeros(aval.shape, aval.dtype)
    )
    return (
        variable
        if variable >= 0
        else recording.capture(np.asarray(recording.literals[~variable], aval.dtype))
    )


def take_residuals(recording: Recording) -> list[int]:
    """Turn captures from another recording into first inputs; return the captured variables."""
    captured = [k for k, value in recording.constants.items() if isinstance(value, Tracer)]
    residuals = [recording.constants.pop(k).ft_variable for k in captured]
    recording.inputs = [*captured, *recording.inputs]
    return residuals


def remembered(
    transform: Callable[..., Any], program: Program, *flags: Sequence[bool] | int | None
) -> Any:
    """Return the memoized result of a transform of a program.

    A rule may transform a sub-program more than once; without the cache, the time would be
    exponential in the nesting depth.
    """
    key = (transform, *[f if f is None or isinstance(f, int) else tuple(f) for f in flags])
    found = program.derived.get(key)
    if found is None:
        found = program.derived[key] = transform(program, *flags)
    return found
