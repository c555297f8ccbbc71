"""``memory_plan``: the memory of a call, before it runs.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.api.capture.arguments import as_value, function_name
from functrace.api.capture.programs import input_names
from functrace.api.capture.record import Called, RecordedCall, add_input
from functrace.api.capture.transformed import Transformed, transformed
from functrace.api.staging.backends import WhenHot, chosen_backend, is_for_xla
from functrace.api.staging.signatures import Parameters
from functrace.control.call import call_p
from functrace.control.residuals import SAVE
from functrace.errors import ArgumentError, entry
from functrace.executor.backend import Backend
from functrace.executor.compilation import plan_of
from functrace.executor.memory.of_runs import Run, timeline_of_call, timeline_of_jit
from functrace.executor.memory.timeline import MemoryPlan
from functrace.executor.runner import WATCHED, Runner, flat_at_once
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.program import Position, Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.passes import Pass
from functrace.tracing.binding import bind
from functrace.tracing.capture import own_constants
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten, leaves, unflatten
from functrace.typing import P

if TYPE_CHECKING:
    from functrace.xla.program import XlaBackend


@entry
def memory_plan(f: Callable[P, Any], *, backend: str | None = None) -> Callable[..., MemoryPlan]:
    """Make a function that predicts the memory of a call of ``f``: the live bytes at each operation,
    and what is alive at the peak.

    The program does not run; values that ``f`` itself reads are computed. Temporary arrays of
    NumPy's functions count, and so do copies and work arrays of linear algebra (which only the
    resident memory of a process shows: ``tracemalloc`` does not see them before NumPy 2.5). Not
    counted: Python's own objects (about 1 kB per operation), and the buffers of fused operations
    (tiles, 1 MB or less each) that threads keep. The lifetimes are those of the
    execution, which differ: a transform that is not jitted frees values after their last use; `jit`
    also reorders operations, overwrites operands, and fuses operations, whose intermediate values
    then take no memory. `MemoryPlan.runs` says which is shown. Predictions are within 10 % of
    what is measured if every branch and enough steps run: the largest branch counts, and the largest
    step of a loop (of the first ones, in which carries get their buffers). What a loop of unknown length
    keeps of each step is `MemoryPlan.nbytes_each`.

    Args:
        f: a function of arrays (pytrees of them), a transform of one (``ft.grad(f)``), or a jitted
            function.
        backend: ``"numpy"``, ``"native"`` or ``"xla"`` for the plan of ``jit(f)``. By default that of
            a jitted function; for a transform the plan of its un-jitted run; for other functions
            again that of ``jit(f)``. Machine code is one operation, whose work memory are all
            temporaries, and so is a program of XLA, which compiles it for that.

    Returns:
        a function of ``f``'s arguments, arrays or `ShapeDtype`, that returns a
        `functrace.stages.MemoryPlan`. It prints as text and is a table in notebooks; ``points`` and
        ``values`` are its data, ``peak_bytes`` the peak, ``at_peak`` what is alive there, and
        ``plot("memory.png")`` draws it. Bytes are those of arrays that the call allocates,
        results included; ``given_bytes`` those of arguments and captured arrays.

    Raises:
        ConcretizationError: if ``f`` reads a concrete value.
        ArgumentError: for an unknown backend.
        UnsupportedFunctionError: for ``"xla"`` on a device whose memory JAX does not report, or if a
            backend's package is not installed.

    Example:
        >>> import numpy as np, functrace as ft
        >>> loss = lambda x: np.sum(np.sin(np.exp(x)))
        >>> ft.memory_plan(ft.jit(ft.grad(loss)))(np.ones(1000)).peak_bytes
        16000

    Cost:
        that of tracing and planning; about 50 us per operation.
    """
    name = function_name(f)
    is_jitted = isinstance(f, Transformed) and f.transform == "jit"
    chosen = _of_backend(f, backend, is_jitted)
    passes: Sequence[Pass] = getattr(f, "passes", ()) if is_jitted else ()

    @transformed("memory_plan", f)
    @entry
    def planned(*args: object, **kwargs: object) -> MemoryPlan:
        if is_jitted or backend is not None:
            program, places = _recorded(f, args, kwargs, is_abstract=True)
            donated = _donated(f, args, kwargs, places)
            return _timeline(program, name, passes, donated, chosen)
        program, runs = _recorded_call(f, args, kwargs)
        if not runs:
            program, _ = _recorded(f, args, kwargs, is_abstract=True)
            return timeline_of_jit(program, name)
        return timeline_of_call(program, runs, name)

    return planned


def _of_backend(f: object, name: str | None, is_jitted: bool) -> Backend | XlaBackend | None:
    """Return the backend that plans memory itself; ``None`` for NumPy."""
    found: Backend | WhenHot | XlaBackend | None = (
        getattr(f, "backend", None) if is_jitted and name is None else None
    )
    if name is not None:
        found = chosen_backend(name)
    return None if isinstance(found, WhenHot) else found


def _timeline(
    program: Program,
    name: str,
    passes: Sequence[Pass],
    donated: Sequence[int],
    backend: Backend | XlaBackend | None,
) -> MemoryPlan:
    """Return the timeline of a jitted program."""
    if is_for_xla(backend):
        from functrace.xla.memory import timeline_of_xla
        from functrace.xla.program import XlaProgram

        return timeline_of_xla(XlaProgram(program, passes, backend), name)
    if backend is None:
        return timeline_of_jit(program, name, passes, donated)
    from functrace.native.backend import NativeBackend
    from functrace.native.memory import timeline_of_native

    if not isinstance(backend, NativeBackend):
        raise ArgumentError(
            f"memory_plan: the backend {type(backend).__name__} does not report its memory",
            fix='memory_plan(f, backend="numpy") for the plan of NumPy',
        )
    flat = flat_at_once(program, passes, backend)
    return timeline_of_native(backend, plan_of(flat, backend, donated), name)


def _recorded_call(
    f: Callable[..., object], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Program, dict[int, Run]]:
    """Record a call with one operation for each program that it runs.

    Returns:
        the program, and the runs of these operations, by their first result.
    """
    runners: dict[int, Run] = {}
    outer: list[Recording] = []

    def watched(runner: Runner, arguments: Sequence[Any], lines: Sequence[Position]) -> Any:
        recordings = [x.ft_recording for x in arguments if isinstance(x, Tracer)]
        newest = max(recordings, key=lambda recording: recording.serial)
        if not outer or newest is not outer[0]:
            return None
        results = bind(call_p, tuple(arguments), (runner.folded, SAVE))
        if results:
            runners[results[0].ft_variable] = Run(runner, tuple(lines))
        return list(results)

    def called(*args: object, **kwargs: object) -> object:
        outer.extend([x.ft_recording for x in leaves((args, kwargs)) if isinstance(x, Tracer)][:1])
        return f(*args, **kwargs)

    called.__wrapped__ = f  # type: ignore[attr-defined]  # the names of the parameters
    is_abstract = any(isinstance(leaf, ShapeDtype) for leaf in leaves((args, kwargs)))
    token = WATCHED.set(watched)
    try:
        program, _ = _recorded(called, args, kwargs, is_abstract=is_abstract)
    finally:
        WATCHED.reset(token)
    return program, runners


def _recorded(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, is_abstract: bool
) -> tuple[Program, list[int]]:
    """Record a call on concrete arrays, which ``f`` may read, or on abstract ones.

    Returns:
        the program, and by input the number of the leaf of the arguments. Leaves that are no arrays
        are passed unchanged.
    """
    flat, treedef = flatten((args, kwargs))
    owner = f"memory_plan of {function_name(f)}"
    values: dict[int, Any] = {
        k: leaf if isinstance(leaf, ShapeDtype) else as_value(leaf, owner)
        for k, leaf in enumerate(flat)
        if isinstance(leaf, np.ndarray | np.generic | float | ShapeDtype)
    }

    def inputs(recording: Recording) -> Called:
        given = list(flat)
        for k, value in values.items():
            given[k] = (
                recording.new_input(value if isinstance(value, ShapeDtype) else aval_of(value))
                if is_abstract
                else add_input(recording, value, flat[k])
            )
        return unflatten(treedef, given)

    names = input_names(f, tuple(args), kwargs)
    with ArrayRecording(owner, is_run=not is_abstract) as recording:
        call = RecordedCall(recording, f, inputs, reads=() if is_abstract else None)
        program = call.program(function_name(f), input_names=[names[k] for k in values])
        return own_constants(program), list(values)


def _donated(
    f: object, args: Sequence[Any], kwargs: dict[str, Any], places: Sequence[int]
) -> tuple[int, ...]:
    """Return the inputs that a jitted function may overwrite."""
    parameters: Parameters | None = getattr(f, "donated", None)
    if parameters is None or not parameters.any:
        return ()
    parts = [(k in parameters.positions, x) for k, x in enumerate(args)]
    parts += [(word in parameters.names, kwargs[word]) for word in sorted(kwargs)]
    flags = [flag for flag, part in parts for _ in leaves(part)]
    return tuple([place for place, k in enumerate(places) if flags[k]])
