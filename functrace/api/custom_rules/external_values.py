"""Values computed outside of programs, with derivatives that functrace records.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from functrace.api.capture.programs import stop_gradient
from functrace.api.capture.record import Called, RecordedCall
from functrace.api.differentiation.gradients import jvp, vjp
from functrace.control.custom import SymbolicZerosRule, custom_derivative_program
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.foreign import ForeignFunction, as_declared, callback_p
from functrace.ops.solutions import reverse_only_p
from functrace.tracing.binding import BODY, bind
from functrace.tracing.capture import own_constants
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer, Value
from functrace.transforms import is_differentiable
from functrace.tree import flatten

Function = Callable[..., Any]


def attached(
    name: str,
    outputs: Sequence[Any],
    operands: Sequence[Any],
    key: Hashable,
    pull: Function,
    push: Function,
) -> list[Any]:
    """Return values as functions of operands, whose derivatives are recorded on demand.

    Args:
        name: for listings.
        outputs: the values, floats.
        operands: the values that they depend on.
        key: identifies the derivatives: equal keys, equal derivatives.
        pull: ``pull(outputs, operands, cotangents, wanted)`` returns one cotangent per
            differentiable operand; ``wanted`` has a bool per operand, and where it is False the
            cotangent may be ``None``.
        push: ``push(outputs, operands, tangents)`` returns one tangent per output; ``tangents`` has
            one per operand, ``None`` for inactive ones.

    Both receive outputs that depend on the operands in turn, so they are differentiated like any
    function. The activity of the operands is known when a derivative is recorded, so an inactive
    term is omitted instead of
    multiplied by 0: where it is infinite, the product would be NaN.
    """
    count = len(outputs)
    avals = [aval_of(x) for x in (*outputs, *operands)]
    moving = [is_differentiable(aval) for aval in avals[count:]]

    def again(values: Sequence[Any]) -> list[Any]:
        return attached(name, values[:count], values[count:], key, pull, push)

    def forward(*values: Value) -> list[Any]:
        found = again(values)
        return [*found, *found, *values[count:]]

    def pulled(active: Sequence[bool]) -> Function:
        def backward(*values: Value) -> list[Any]:
            outs, given, cotangents = (
                values[:count],
                values[count : len(avals)],
                values[len(avals) :],
            )
            found = iter(pull(outs, given, cotangents, active))
            bars = [_zeros(aval) for aval in avals[:count]]
            for aval, is_moving, is_wanted in zip(avals[count:], moving, active, strict=True):
                if is_moving:
                    bar = next(found)
                    bars.append(bind(reverse_only_p, (bar,)) if is_wanted else _zeros(aval))
            return bars

        return backward

    def pushed(active: Sequence[bool]) -> Function:
        def both(*values: Value) -> list[Any]:
            found = again(values[: len(avals)])
            dots = iter(values[len(avals) + count :])
            given = [next(dots) if flag else None for flag in moving]
            tangents = [t if flag else None for t, flag in zip(given, active, strict=True)]
            return [*found, *push(found, values[count : len(avals)], tangents)]

        return both

    def reverse(active: tuple[bool, ...]) -> tuple[Program, ...]:
        backward = pulled(active[count:])
        return _recorded(forward, avals, name), _recorded(
            backward, [*avals, *avals[:count]], f"backward_of_{name}"
        )

    def direct(active: tuple[bool, ...]) -> tuple[Program, ...]:
        return (_recorded(pushed(active[count:]), [*avals, *tangents], f"jvp_of_{name}"),)

    tangents = [aval for aval in avals if is_differentiable(aval)]
    backwards = SymbolicZerosRule(reverse, (name, key, "reverse", tuple(avals)))
    forwards = SymbolicZerosRule(direct, (name, key, "forward", tuple(avals)))
    held = [stop_gradient(x) if isinstance(x, Tracer) else x for x in outputs]
    itself = _recorded(lambda *values: list(values[:count]), avals, name)
    return custom_derivative_program(
        itself, backwards, backwards, forwards, [*held, *operands], len(avals)
    )


def _zeros(aval: ShapeDtype) -> Any:
    return np.zeros(aval.shape, aval.dtype)[()]


def _recorded(f: Function, avals: Sequence[ShapeDtype], name: str) -> Program:
    def inputs(recording: Recording) -> Called:
        return [recording.new_input(aval) for aval in avals], {}

    with ArrayRecording(name, scope=BODY) as recording:
        return own_constants(RecordedCall(recording, f, inputs).program(name))


def called_later(
    what: str, f: Function, key: Hashable, operands: Sequence[Any], results: Sequence[ShapeDtype]
) -> list[Any]:
    """Call a function of plain arrays when the program runs; its results have no derivative.

    Args:
        what: its name, for messages.
        f: the function; returns a list of arrays.
        key: equal keys, equal functions.
        operands: its arguments.
        results: the avals of its results.
    """
    foreign = ForeignFunction(
        lambda *values: as_declared(f(*values), results),
        (what, key),
        what,
        flatten([0.0] * len(results))[1],
    )
    held = [stop_gradient(x) if isinstance(x, Tracer) else x for x in operands]
    return list(bind(callback_p, tuple(held), (foreign, tuple(results), (), "sequential")))


def eagerly(
    what: str, f: Function, key: Hashable, operands: Sequence[Any], results: Sequence[ShapeDtype]
) -> list[Any]:
    """Call a function at run time, on concrete values, and let functrace differentiate it there.

    Its derivatives are such functions again: they call `vjp` and `jvp` of it at run time.

    Args:
        what, key, operands, results: see `called_later`.
        f: the function, of arrays; returns a list of floats.
    """
    avals = [aval_of(x) for x in operands]
    count = len(operands)

    def at(values: Sequence[Any], moving: Sequence[int]) -> Function:
        def moved(*chosen: Value) -> Any:
            whole = list(values)
            for k, value in zip(moving, chosen, strict=True):
                whole[k] = value
            return f(*whole)

        return moved

    def pull(
        outputs: Sequence[Any],
        given: Sequence[Any],
        cotangents: Sequence[Any],
        wanted: Sequence[bool],
    ) -> list[Any]:
        moving = [k for k, flag in enumerate(wanted) if flag]

        def pulled(*values: Value) -> list[Any]:
            _, back = vjp(at(values[:count], moving), *[values[k] for k in moving])
            return list(back(list(values[count:])))

        found = eagerly(
            what,
            pulled,
            (key, "vjp", tuple(moving)),
            [*given, *cotangents],
            [avals[k] for k in moving],
        )
        bars = dict(zip(moving, found, strict=True))
        return [bars.get(k) for k, aval in enumerate(avals) if is_differentiable(aval)]

    def push(outputs: Sequence[Any], given: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        moving = [k for k, t in enumerate(tangents) if t is not None]

        def pushed(*values: Value) -> list[Any]:
            return list(
                jvp(at(values[:count], moving), [values[k] for k in moving], list(values[count:]))[
                    1
                ]
            )

        dots = [t for t in tangents if t is not None]
        return eagerly(what, pushed, (key, "jvp", tuple(moving)), [*given, *dots], results)

    return attached(
        "eager", called_later(what, f, key, operands, results), operands, key, pull, push
    )


def zeros_like(x: Value) -> Any:
    """Return zeros of the shape and dtype of a value."""
    return np.zeros(shape_of(x), aval_of(x).dtype)[()]
