"""``check_memory``: assert in a test that a call stays under a number of bytes.

Layer: 8 (api).
"""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, final

from functrace.api.capture.arguments import function_name
from functrace.api.residuals.budget import parsed_bytes
from functrace.api.residuals.memory import memory_plan
from functrace.errors import ArgumentError
from functrace.executor.memory.timeline import MemoryPlan

_MEASURING = threading.Lock()
"""`tracemalloc` counts for the whole process: one measurement at a time."""


@final
class MemoryCheck(NamedTuple):
    """Result of `check_memory`.

    Args:
        measured: peak of the bytes that the call allocated, its results included.
        predicted: `functrace.stages.MemoryPlan.peak_bytes` of it.
        plan: the plan.

    Example:
        >>> import numpy as np, functrace as ft
        >>> found = ft.testing.check_memory(ft.jit(np.sin), [np.ones(100_000)], most="1 MB")
        >>> found.predicted
        800000
    """

    measured: int
    predicted: int
    plan: MemoryPlan


def check_memory(
    f: Callable[..., Any],
    args: Sequence[object],
    most: int | str,
    *,
    kwargs: Mapping[str, object] | None = None,
) -> MemoryCheck:
    """Check that a call ``f(*args, **kwargs)`` allocates at most ``most`` bytes at one time.

    The call runs twice: the first run, which may record and compile, is not measured. Arguments are
    not counted, results are. Memory is measured by `tracemalloc`, to which NumPy reports its arrays;
    work memory inside of LAPACK is reported since NumPy 2.5.

    Args:
        f: a function, a transform of one, or a jitted function.
        args: its arguments: arrays, pytrees of them, and other values.
        most: the number of bytes: an int, or a string like ``"200 MB"``.
        kwargs: keyword arguments of ``f``.

    Returns:
        the measured and the predicted bytes, and the `functrace.stages.MemoryPlan`.

    Raises:
        AssertionError: if more is measured. The message has both figures, the table of what is
            alive at the predicted peak, and the remedies.
        ArgumentError: if ``most`` is no number of bytes, or ``args`` is not a sequence.
        ConcretizationError: if ``f`` is jitted and reads a concrete value.

    Example:
        >>> import numpy as np, functrace as ft
        >>> loss = lambda x: np.sum(np.sin(np.exp(x)))
        >>> found = ft.testing.check_memory(ft.grad(loss), [np.ones(100_000)], most="4 MB")
        >>> found.measured < 4_000_000
        True

    Cost:
        two calls and one plan. `tracemalloc` makes the measured one slower.
    """
    name = function_name(f)
    given: object = args
    if not isinstance(given, tuple | list):
        raise ArgumentError(
            f"check_memory: the arguments of {name} are a {type(given).__name__}",
            fix="pass a list or tuple: check_memory(f, [x], most=...)",
        )
    try:
        limit = parsed_bytes(most)
    except ArgumentError:
        raise ArgumentError(
            f"check_memory: most={most!r} is no number of bytes",
            fix='"200 MB", "1.5 GiB", or a positive int',
        ) from None
    named = dict(kwargs or {})
    plan = memory_plan(f)(*args, **named)
    f(*args, **named)
    measured = _measured(lambda: f(*args, **named))
    if measured > limit:
        raise AssertionError(
            f"{name} needs {measured:,} bytes, not {limit:,} (predicted: {plan.peak_bytes:,})\n\n"
            f"{plan}\n\n"
            "fix: recompute residuals: ft.checkpoint(part), or ft.checkpoint(f, "
            "policy=ft.policies.budget(...)); ft.jit reuses buffers; smaller batches, float32"
        )
    return MemoryCheck(measured, plan.peak_bytes, plan)


def _measured(run: Callable[[], object]) -> int:
    """Return the peak of the bytes that a call allocates."""
    with _MEASURING:
        gc.collect()
        was_tracing = tracemalloc.is_tracing()
        if not was_tracing:
            tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            result = run()
            found = tracemalloc.get_traced_memory()[1] - before
            del result
            return found
        finally:
            if not was_tracing:
                tracemalloc.stop()
