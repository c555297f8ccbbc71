"""Join compiled bodies: build the function of an operation from its structure and the functions of
its bodies.

This is the reference semantics of a `Structure`. Eval rules, instruction lists, and the NumPy
backend for loops that are not inlined all run it. Other backends generate their own code for
structures, and fall back to this.

Layer: 5.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.control.call import evaluate_fresh
from functrace.control.residuals import PackedArray, PackedStack
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import Compiled, output_avals
from functrace.ir.program import Program
from functrace.ir.structures import Branch, HostCall, Loop, Lowering, Structure
from functrace.tracing.evaluate import evaluate_program
from functrace.typing import Array


def join_bodies(
    structure: Structure, avals: Sequence[ShapeDtype], runs: Sequence[Compiled]
) -> Callable[..., Any]:
    """Return the function of an operation.

    Args:
        structure: how it runs its bodies.
        avals: avals of the outputs of the first body.
        runs: compiled functions of the bodies.
    """
    if isinstance(structure, Loop):
        if structure.length is not None:
            return functools.partial(_run_counted, structure, structure.length, avals, runs[0])
        return functools.partial(_run_while, structure, runs)
    if isinstance(structure, Branch):
        if structure.by_example:
            return functools.partial(_choose_by_example, runs, avals)
        return functools.partial(_choose, runs, len(runs) - 1)
    return structure.join(runs) if isinstance(structure, HostCall) else runs[0]


def evaluate_lowered(lowering: Lowering, operands: Sequence[Any]) -> Any:
    """Evaluate an operation with sub-programs, as its eval rule does.

    Args:
        lowering: lowering of the operation.
        operands: plain arrays.
    """
    evaluate = evaluate_fresh if lowering.fresh else evaluate_program
    runs = [functools.partial(_evaluate, evaluate, body) for body in lowering.bodies]
    return join_bodies(lowering.structure, output_avals(lowering.bodies[0]), runs)(*operands)


def _evaluate(
    evaluate: Callable[..., Sequence[Any]], body: Program, *values: object
) -> tuple[Any, ...]:
    return tuple(evaluate(body, values))


# -- choices ---------------------------------------------------------------------------------------


def _choose(runs: Sequence[Compiled], last: int, which: Array, *operands: Array) -> tuple[Any, ...]:
    return runs[min(max(int(which), 0), last)](*operands)


def _choose_by_example(
    runs: Sequence[Compiled], avals: Sequence[ShapeDtype], which: Array, *operands: Array
) -> tuple[Any, ...]:
    return choose(which, operands, runs, avals)


def choose(
    which: Array,
    operands: Sequence[Any],
    runs: Sequence[Callable[..., Any]],
    avals: Sequence[ShapeDtype],
) -> tuple[Any, ...]:
    """Run the branches that at least one example takes, and select the results per example."""
    outs = [np.empty(a.shape, a.dtype) for a in avals]
    last = len(runs) - 1
    for number, run in enumerate(runs):
        takers = _takers(which, number, last)
        if not takers.any():
            continue
        # The results of other examples are dropped, and so are their warnings.
        with np.errstate(all="ignore") if not takers.all() else np.errstate():
            results = run(*operands)
        _select(outs, takers, results)
        results = ()  # they are freed before the next branch runs
    return tuple(outs)


def _select(outs: Sequence[Array], takers: Array, results: Sequence[Any]) -> None:
    """Copy the results of the examples that take a branch."""
    for out, result in zip(outs, results, strict=True):
        if type(result) is np.ndarray:
            marked = takers.reshape(takers.shape + (1,) * (out.ndim - takers.ndim))
            np.copyto(out, result, "unsafe", marked)
        else:
            out[takers] = result[takers]


def _takers(which: Array, number: int, last: int) -> Any:
    """Return the examples that take a branch; indices out of range take the first or the last."""
    if not last:
        return np.ones(np.shape(which), bool)
    if not number:
        return which <= 0
    return which >= last if number == last else which == number


# -- loops -----------------------------------------------------------------------------------------


def _run_counted(
    loop: Loop, length: int, avals: Sequence[ShapeDtype], step: Compiled, *operands: Array
) -> tuple[Any, ...]:
    """Run a loop of static length; ``avals`` are the avals of the body's outputs."""
    constants, (carries,) = loop.constants, loop.carries
    fixed, arrays = operands[:constants], operands[constants + carries :]
    carry = operands[constants : constants + carries]
    stacks: list[Any] = [np.empty((length, *aval.shape), aval.dtype) for aval in avals[carries:]]
    for t in range(length - 1, -1, -1) if loop.reverse[0] else range(length):
        results = step(*fixed, *carry, *[a[t] for a in arrays])
        carry = results[:carries]
        for k, result in enumerate(results[carries:]):
            if isinstance(result, PackedArray) and isinstance(stacks[k], np.ndarray):
                # some steps took a branch that packs nothing: they have arrays
                stacks[k] = [*stacks[k]]
            stacks[k][t] = result
        results = result = ()  # they are freed before the next step
    stacks = [
        stack if isinstance(stack, np.ndarray) else PackedStack(stack, aval)
        for stack, aval in zip(stacks, avals[carries:], strict=True)
    ]
    ends, carry = [*carry], ()
    return (*_own(ends), *stacks)


def _run_while(
    loop: Loop, runs: Sequence[Compiled], *operands: Array | Sequence[Any]
) -> tuple[Any, ...]:
    """Run a loop of data-dependent length, phase by phase; the per-step outputs of a step are a
    tuple.
    """
    ends: list[Any] = []
    place, phases = loop.constants, runs
    if loop.takes is not None:
        rows = [tuple([row[p] for p in loop.takes[1:]]) for row in operands[0]]
        operands = operands[1:]
        fixed = operands[:place]
    else:
        condition, first, *phases = runs
        fixed, place = operands[:place], place + loop.carries[0]
        carry, rows = _run_first(
            loop,
            condition,
            first,
            fixed,
            operands[loop.constants : place],
            keeps=loop.gives or bool(phases),
        )
        ends += [] if loop.hidden else carry
    for phase, step in enumerate(phases, len(loop.carries) - len(phases)):
        count, keeps = loop.carries[phase], False
        carry = operands[place : place + count]
        place += count
        for t in range(len(rows) - 1, -1, -1) if loop.reverse[phase] else range(len(rows)):
            results = step(*fixed, *carry, *rows[t])
            carry = results[:count]
            if keeps or len(results) > count:
                keeps = True
                rows[t] += results[count:]
        if phase >= loop.hidden:
            ends += carry
    carry = results = ()
    return (*_own(ends), rows) if loop.gives else _own(ends)


def _run_first(
    loop: Loop,
    condition: Compiled,
    step: Compiled,
    fixed: Sequence[Any],
    carry: Sequence[Any],
    *,
    keeps: bool,
) -> tuple[Sequence[Any], list[tuple[Any, ...]]]:
    """Run the first phase; return its carry, and a tuple of per-step outputs for each step."""
    end, most, steps = 1 + len(carry), loop.most, 0
    rows: list[tuple[Any, ...]] = []
    (goes_on,) = condition(*fixed, *carry)
    if not keeps and most is None:
        while goes_on:
            goes_on, *carry = step(*fixed, *carry)
    while goes_on:
        if steps == most:
            loop.refuse()
        steps += 1
        results = step(*fixed, *carry)
        goes_on, carry = results[0], results[1:end]
        if keeps:
            rows.append(results[end:])
    return carry, rows


def _own(carry: list[Any]) -> tuple[Any, ...]:
    """Return carries without shared memory: a carry may be an operand, or an array that a step
    returned twice. The list is emptied, so that an array is freed once it is copied.
    """
    carry.reverse()
    return tuple([np.copy(carry.pop())[()] for _ in range(len(carry))])
