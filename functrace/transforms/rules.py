"""The jvp rule of one operation, called on traced values.

Layer: 4.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.errors import NotDifferentiableError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import LINEAR, NoRule, Primitive, ReplacingJvp
from functrace.ir.tape import Params
from functrace.source import Source
from functrace.tracing.binding import bind
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms.building import is_differentiable, match_tangent, operand_of


def tangents_by_rule(
    primitive: Primitive,
    primals: tuple[Any, ...],
    outputs: Callable[[], tuple[Any, ...]],
    tangents: tuple[Any, ...],
    params: Params,
    *,
    together: bool,
    at: Callable[[], Source | None],
) -> tuple[Sequence[Any] | None, Sequence[Any]]:
    """Call the jvp rule of an operation.

    Args:
        primitive, params: the operation.
        primals: its operands.
        outputs: returns its results.
        tangents: tangents of its operands; ``None`` for inactive operands.
        together: True if tangents are computed on the same tape as the primals (`ReplacingJvp`).
        at: returns the user's line, for an error.

    Returns:
        results that replace the operation's own (`ReplacingJvp`) or ``None``, and the tangents of the
        results.

    Raises:
        NotDifferentiableError: if the operation has no derivative.
    """
    rule = primitive.jvp
    if isinstance(rule, NoRule):
        raise NotDifferentiableError(rule.because, at=at(), fix=rule.instead)
    replaced: Sequence[Any] | None = None
    if rule is LINEAR:
        found = bind(
            primitive,
            tuple([x if t is None else t for x, t in zip(primals, tangents, strict=True)]),
            params,
        )
    elif isinstance(rule, ReplacingJvp):
        replaced, found = (rule.jvp if together else rule.linearize)(primals, tangents, *params)
    else:
        found = rule(primals, outputs(), tangents, *params)
    return replaced, found if primitive.many else (found,)


def tangent_variable(recording: Recording, tangent: Any, aval: ShapeDtype) -> int | None:
    """Return the variable of a result's tangent on the tape of tangents; ``None`` if it has none.

    Args:
        recording: the tape of tangents.
        tangent: result of the rule; a custom rule may return a plain array.
        aval: aval of the operation's result.
    """
    if tangent is None or not is_differentiable(aval):
        return None
    if isinstance(tangent, Tracer):
        if tangent.aval is not aval:
            tangent = match_tangent(tangent, aval)
        if isinstance(tangent, Tracer) and tangent.ft_recording is recording:
            return tangent.ft_variable
    elif not np.any(tangent):
        return None
    return operand_of(recording, tangent, aval)
