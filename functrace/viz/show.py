"""``show``: record a function, and make the page of its program.

Layer: 8 (api).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.api.capture.arguments import as_values, function_name
from functrace.api.capture.programs import trace, trace_concrete
from functrace.api.capture.transformed import described
from functrace.errors import ArgumentError, ShapeError, entry
from functrace.executor.profile import profile_program
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.program import Program
from functrace.passes.derivative_links import without_links
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten
from functrace.viz.page import ProgramPage


@entry
def show(
    f: Callable[..., Any] | Program,
    /,
    *args: object,
    path: str | os.PathLike[str] | None = None,
    profile: bool = False,
    seconds: float = 0.3,
    **kwargs: object,
) -> ProgramPage:
    """Make an HTML page about the program of a function: its graph next to its source, the forward
    and the reverse pass, residuals, and memory.

    The page is one file without references to others. It shows the program as a graph, the forward
    pass on the left, the reverse pass on the right; operations of one source line are one box, and so
    are steps of an unrolled loop, bodies of loops, branches and calls, until they are clicked. It
    lists residuals, the values that cross from the forward to the reverse pass, with their bytes and
    the operation whose derivative reads them; the bytes that are live while it runs, operation by
    operation, without the passes of `jit`; residual policies, flops and bytes by line; and with
    ``profile`` the measured time of ``jit(f)`` by line and by operation.

    Args:
        f: a function of arrays (pytrees of them), usually transformed: ``grad(loss)``; or a
            `Program`.
        args, kwargs: its arguments, arrays or `ShapeDtype`. Without `ShapeDtype`, Python's control
            flow follows the values. Of a program, one per input, needed for ``profile`` only.
        path: file to write the page to, e.g. ``"step.html"``.
        profile: True to measure times: the function runs.
        seconds: time to measure, in seconds.

    Returns:
        the page: ``html`` is its text, ``save(path)`` writes it, notebooks show a short form.

    Raises:
        ArgumentError: if an argument is traced; if ``profile`` is given without arrays.
        ConcretizationError: if ``f`` reads a concrete value, and an argument is a `ShapeDtype`.
        ShapeError: if arguments do not fit a program.
        OSError: if the file cannot be written.

    Example:
        >>> import numpy as np, functrace as ft
        >>> page = ft.show(ft.grad(lambda x: np.sum(np.tanh(x) ** 2)), np.ones(1000))
        >>> [(row["name"], row["bytes"], row["why"].partition(" at ")[0]) for row in page.data["residuals"]]
        [('c', 8000, 'derivative of np.tanh'), ('d', 8000, 'derivative of np.tanh')]

    Cost:
        one run of ``f`` on traced values, and about 0.3 ms per operation.
    """
    leaves = flatten((args, kwargs))[0]
    if any(isinstance(leaf, Tracer) for leaf in leaves):
        raise ArgumentError(
            "show: an argument is traced", fix="call it outside of functions that are transformed"
        )
    abstract = any(isinstance(leaf, ShapeDtype) for leaf in leaves)
    values: list[Any] | None = None
    if isinstance(f, Program):
        program, title = f, f.name
        _check_arguments(program, args, kwargs)
        if not abstract and len(args) == len(program.input_ids):
            values = as_values(args, f"show of {title}", lambda: [str(v.name) for v in f.inputs])
    elif abstract:
        program, title = trace(f)(*args, **kwargs), described(f)
    else:
        title = described(f)
        program, values = trace_concrete(f, args, kwargs, f"show of {function_name(f)}")
    program = without_links(program)
    times = None
    if profile:
        if values is None:
            raise ArgumentError(
                "show: profile=True runs the function, and needs arrays",
                fix="pass arrays instead of ShapeDtype, one per input of a program",
            )
        given = values
        times = profile_program(lambda: program, given, seconds)
    page = ProgramPage(program, title, times)
    if path is not None:
        page.save(path)
    return page


def _check_arguments(program: Program, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check the arguments of a program."""
    if kwargs:
        raise ArgumentError("show: a program takes no keyword arguments", fix="pass its inputs")
    if args and len(args) != len(program.input_ids):
        raise ShapeError(
            f"{program.name} has {len(program.input_ids)} inputs, but {len(args)} arguments were "
            "given",
            fix="pass one array per input, in the order of program.inputs",
        )
    for var, value in zip(program.inputs, args, strict=False):
        aval = value if isinstance(value, ShapeDtype) else aval_of(np.asarray(value))
        if aval is not var.aval:
            raise ShapeError(
                f"argument {var.name} of {program.name} is {aval}, but the program takes "
                f"{var.aval}",
                fix="pass an array of this shape and dtype",
            )
