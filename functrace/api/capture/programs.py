"""Program capture: ``trace``, ``evaluate``; inside traced functions: ``value``, ``is_traced``,
``stop_gradient``.

Layer: 8.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from functrace.api.capture.arguments import (
    NUMERIC,
    argument_names,
    as_value,
    as_values,
    function_name,
)
from functrace.api.capture.record import Called, RecordedCall, add_input
from functrace.api.capture.transformed import transformed
from functrace.errors import ArgumentError, ShapeError, entry
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.program import Position, Program, plain_position
from functrace.numpy.arrays.masked import MaskedSelection
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.numpy.arrays.traced_array import TracedArray
from functrace.numpy.arrays.views import new_array
from functrace.ops import elementwise as ew
from functrace.source import user_frame
from functrace.tracing.capture import own_constants
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten, map_leaves, paths, structure, unflatten
from functrace.typing import P, PyTree, T


@entry
def trace(f: Callable[P, Any]) -> Callable[..., Program]:
    """Make a function that records ``f`` as a program, without computing anything.

    Args:
        f: a function of arrays (pytrees of them).

    Returns:
        a function of ``f``'s arguments, arrays or `ShapeDtype`, that returns a `Program`. Its
        inputs are the leaves of the arguments, in order; its outputs are the leaves of the result.

    Raises:
        ConcretizationError: if ``f`` reads a concrete value (``if x > 0``): all values are
            abstract.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x: np.sin(x) * 2.0)(ft.ShapeDtype((3,)))
        >>> program
        <Program program: (f64[3]) -> (f64[3]), 2 equations>
        >>> [str(equation.primitive) for equation in program.equations]
        ['sin', 'mul']

    Cost:
        one run of ``f`` on abstract values, about 1 us per operation.
    """
    name = function_name(f)

    @transformed("trace", f)
    @entry
    def traced(*args: object, **kwargs: object) -> Program:
        owner = f"trace of {name}"
        frame = user_frame()
        here = None if frame is None else (frame.f_code, frame.f_lasti)
        leaves, treedef = flatten((args, kwargs))
        values = as_values(
            leaves,
            owner,
            lambda: argument_names(treedef),
            [not isinstance(leaf, ShapeDtype) for leaf in leaves],
        )
        avals = [value if isinstance(value, ShapeDtype) else aval_of(value) for value in values]

        def inputs(recording: Recording) -> Called:
            tracers = [recording.new_input(aval) for aval in avals]
            for tracer, leaf in zip(
                tracers, leaves, strict=True
            ):  # the layout of a ShapeDtype is unknown
                if isinstance(leaf, np.ndarray):
                    recording.views.layouts[tracer.ft_variable] = leaf.strides
                    if not leaf.ndim:
                        new_array(tracer)
            return unflatten(treedef, tracers)

        with ArrayRecording(owner) as recording:
            call = RecordedCall(recording, f, inputs, reads=())
            names = unnamed_at(here, call.lines)
            return own_constants(
                call.program(name, input_names=input_names(f, args, kwargs), names=names)
            )

    return traced


def trace_concrete(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], owner: str
) -> tuple[Program, list[Any]]:
    """Record a call of ``f`` with concrete values: Python's branches are those of this call.

    Args:
        f: any function.
        args, kwargs: its arguments. Arrays and floating-point numbers become inputs; all other
            leaves are passed unchanged.
        owner: the caller, for messages.

    Returns:
        the program of the results that are arrays or numbers, and the values of its inputs.
    """
    leaves, treedef = flatten((args, kwargs))
    places = [k for k, x in enumerate(leaves) if _is_input(x)]
    names = input_names(f, args, kwargs)
    values = [as_value(leaves[k], f"an argument of {owner}") for k in places]
    for value in values:
        if isinstance(value, Tracer):
            raise ArgumentError(
                f"{owner} takes arrays, not traced values", fix="call it outside of transforms"
            )

    def inputs(recording: Recording) -> Called:
        given = list(leaves)
        for k, value in zip(places, values, strict=True):
            given[k] = add_input(recording, value, leaves[k])
        return unflatten(treedef, given)

    def wanted(_recording: Recording, result: object) -> list[Any]:
        return [x for x in flatten(result)[0] if is_traced(x) or isinstance(x, NUMERIC)]

    frame = user_frame()
    here = None if frame is None else (frame.f_code, frame.f_lasti)
    with ArrayRecording(owner) as recording:
        call = RecordedCall(recording, f, inputs, wanted=wanted)
        found = call.program(
            function_name(f),
            input_names=[names[k] for k in places],
            names=unnamed_at(here, call.lines),
        )
        return own_constants(found), [np.copy(v) if type(v) is np.ndarray else v for v in values]


def _is_input(leaf: object) -> bool:
    """Return True for floating-point numbers and arrays of numbers."""
    if isinstance(leaf, bool | int) or not isinstance(leaf, (*NUMERIC, Tracer)):
        return False
    kind: str = leaf.dtype.kind if isinstance(leaf, np.ndarray) else "f"  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return kind in "biufc"


def unnamed_at(
    here: tuple[CodeType, int] | None, lines: Sequence[Position]
) -> dict[int, str | None]:
    """Return no names for the variables of one instruction.

    Operations that a transform records itself get the line that calls `trace`, whose variable is
    the program.
    """
    return {
        i: None
        for i, position in enumerate(lines)
        if isinstance(position, tuple) and plain_position(position) == here
    }


@entry
def eval_shape(f: Callable[..., Any], *args: object, **kwargs: object) -> Any:
    """Compute the shapes and dtypes of ``f(*args, **kwargs)``, without computing values.

    Args:
        f: a function of arrays (pytrees of them).
        args, kwargs: arguments of ``f``, arrays or `ShapeDtype`.

    Returns:
        the pytree that ``f`` returns, with a `ShapeDtype` for every array.

    Raises:
        ConcretizationError: if ``f`` reads a concrete value (``if x > 0``).

    Example:
        >>> import numpy as np
        >>> eval_shape(lambda x: {"y": x @ x.T}, ShapeDtype((2, 3), np.float32))
        {'y': f32[2,2]}
    """
    found: list[Any] = []

    @functools.wraps(f, updated=())
    def noted(*args: object, **kwargs: object) -> Any:
        result = f(*args, **kwargs)
        found.append(structure(result))
        return result

    program = trace(noted)(*args, **kwargs)
    return unflatten(found[-1], [program.avals[i] for i in program.output_ids])


def input_names(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[str | None]:
    """Name the leaves of the arguments after their parameters."""
    try:
        parameters = [
            p.name
            for p in inspect.signature(f).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        parameters = []
    names: list[str | None] = []
    for k, arg in enumerate(args):
        found = paths(arg)
        base = parameters[k] if k < len(parameters) else None
        for path in found:
            suffix = "".join(c if c.isalnum() else "_" for c in path).strip("_").replace("__", "_")
            names.append(None if base is None else f"{base}_{suffix}" if suffix else base)
    for key in sorted(kwargs):
        found = paths(kwargs[key])
        names += [key] if len(found) == 1 and not found[0] else [None] * len(found)
    return names


@entry
def evaluate(program: Program, *arguments: object) -> Any:
    """Evaluate a program on flat arguments, by the reference evaluator.

    Args:
        program: the program, made by `trace` or a transform.
        arguments: one array per input of the program, in the order of ``program.inputs``, with its
            shape and dtype.

    Returns:
        the output, or a tuple of outputs if the program has several; fresh arrays.

    Raises:
        ShapeError: if the number of arguments is wrong, or an argument differs in shape or dtype
            from its input.
        DtypeError: if an argument is not numeric.

    Example:
        >>> import numpy as np, functrace as ft
        >>> program = ft.trace(lambda x, y: x * y)(ft.ShapeDtype((2,)), ft.ShapeDtype((2,)))
        >>> ft.evaluate(program, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        array([3., 8.])
    """
    if len(arguments) != len(program.input_ids):
        raise ShapeError(
            f"{program.name} has {len(program.input_ids)} inputs, but {len(arguments)} arguments "
            "were given",
            fix="pass one array per input, in the order of program.inputs",
        )
    values: list[Any] = []
    for var, argument in zip(program.inputs, arguments, strict=True):
        value = as_value(argument, f"argument {var.name}")
        if aval_of(value) is not var.aval:
            raise ShapeError(
                f"argument {var.name} of {program.name} is {aval_of(value)}, but the program takes "
                f"{var.aval}",
                fix="trace the function again for other shapes and dtypes",
            )
        values.append(value)
    results = Runner(program)(values)
    return results[0] if len(results) == 1 else tuple(results)


def value(x: T) -> T:
    """Return the concrete values of traced arrays (pytrees of them): plain arrays without
    derivative.

    Args:
        x: a traced array, or a pytree that holds some. Other leaves are returned unchanged.

    Returns:
        the pytree, with a copy of the value in place of each traced array.

    Raises:
        ConcretizationError: where values are abstract (``jit``, ``vmap``, ``trace``).

    Example:
        >>> import numpy as np, functrace as ft
        >>> log = []
        >>> _ = ft.grad(lambda x: (log.append(ft.value(x)), x * x)[1])(3.0)
        >>> log
        [np.float64(3.0)]
    """
    return map_leaves(
        lambda leaf: np.copy(leaf.ft_concrete())[()] if isinstance(leaf, TracedArray) else leaf, x
    )


def is_traced(x: PyTree) -> bool:
    """Report whether a pytree holds a traced value.

    Args:
        x: a pytree. Arrays, numbers and other objects are not traced.

    Returns:
        True if a leaf is a traced value.

    Example:
        >>> import numpy as np, functrace as ft
        >>> log = []
        >>> _ = ft.grad(lambda x: (log.append(ft.is_traced({"x": [x, 1.0]})), x * x)[1])(3.0)
        >>> log, ft.is_traced(np.ones(3))
        ([True], False)
    """
    return any(isinstance(leaf, Tracer | MaskedSelection) for leaf in flatten(x)[0])


def _constant(leaf: object) -> Any:
    if isinstance(leaf, TracedArray):
        return ew.stop_gradient(leaf)
    untyped: Any = leaf
    return np.copy(untyped) if isinstance(leaf, np.ndarray) else untyped


def stop_gradient(x: T) -> T:
    """Treat ``x`` as a constant in derivatives: its tangent and cotangent are zero.

    Args:
        x: an array, or a pytree of arrays.

    Returns:
        a pytree with the same values, as new arrays.

    Example:
        >>> import functrace as ft
        >>> ft.grad(lambda x: x * ft.stop_gradient(x))(3.0)
        np.float64(3.0)
    """
    return map_leaves(_constant, x)
