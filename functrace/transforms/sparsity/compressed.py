"""Programs that compute a sparse derivative with one sweep per group of columns or rows.

Note [Values of a compressed Jacobian]
    An element of the pattern has the same value as with a tangent of its own, since no other member
    of its group reaches its row, or anything that its row is computed from; likewise for
    cotangents. Only a zero may lose its minus sign. Outside of the pattern there are zeros, even
    where a unit vector would give NaN (0 times an infinite derivative).

    Source: A. R. Curtis, M. J. D. Powell, J. K. Reid, On the estimation of sparse Jacobian matrices
    (1974).

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import output_avals
from functrace.ir.program import Position, Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.indexing import ARRAY, gather, scatter_add
from functrace.ops.joining import concatenate
from functrace.ops.shaping import convert, reshape
from functrace.transforms.building import attribute, finish, operand_of, recorded
from functrace.transforms.sparsity.colouring import Colouring, coloured
from functrace.transforms.sparsity.patterns import Pattern, dependence
from functrace.transforms.vmap import vmap_program
from functrace.typing import Array

FEWEST = 16
"""Minimum number of elements with unit vectors: with fewer, sparsity saves nothing."""

MOST_ELEMENTS = 1 << 26
"""Maximum elements of one variable times elements of inputs: a larger dense Jacobian is not
compressed."""


def compressed_jacobian(
    program: Program, pushed: Program, active: Sequence[bool], outputs: int
) -> Program | None:
    """Return the program of auxiliary outputs and Jacobians; input elements along the last axis.

    Args:
        program: the function's program, with calls inlined (else they count as dense), and custom
            derivatives kept (which do); outputs without a derivative come last.
        pushed: from its inputs and one tangent per active input to auxiliary outputs and the other
            outputs' tangents.
        active: one flag per input of ``program``.
        outputs: number of outputs with a derivative.

    Returns:
        the program, with the inputs of ``program``; ``None`` if it would not save half of the
        tangents.
    """
    moving = [i for i, flag in zip(program.input_ids, active, strict=True) if flag]
    if not _is_profitable(program, moving, program.output_ids[:outputs], moving):
        return None
    pattern = _pattern(program, active, outputs)
    groups = None if pattern is None else coloured(pattern)
    if pattern is None or groups is None:
        return None
    return _compressed(
        pushed,
        pattern.transposed(),
        groups,
        len(moving),
        outputs,
        f"jacobian_of_{program.name}",
        last=True,
    )


def compressed_pullback(
    program: Program, pulled: Program, active: Sequence[bool], outputs: int
) -> Program | None:
    """Return the program of Jacobians by the active inputs; output elements along the first axis.

    Args:
        program: the function's program, with calls inlined (else they count as dense), and custom
            derivatives kept (which do); outputs without a derivative come last.
        pulled: from residuals and one cotangent per output to cotangents of the active inputs.
        active: one flag per input of ``program``.
        outputs: number of outputs with a derivative.

    Returns:
        the program, of the residuals; ``None`` if it would not save half of the cotangents.
    """
    moving = [i for i, flag in zip(program.input_ids, active, strict=True) if flag]
    if not _is_profitable(
        program, moving, program.output_ids[:outputs], program.output_ids[:outputs]
    ):
        return None
    pattern = _pattern(program, active, outputs)
    groups = None if pattern is None else coloured(pattern.transposed())
    if pattern is None or groups is None:
        return None
    return _compressed(
        pulled, pattern, groups, outputs, len(moving), f"jacobian_of_{program.name}", last=False
    )


def _pattern(program: Program, active: Sequence[bool], outputs: int) -> Pattern | None:
    """Return the pattern of the Jacobian, unless its dense form is too large."""
    moving = [i for i, flag in zip(program.input_ids, active, strict=True) if flag]
    size = sum([program.avals[i].size for i in moving])
    if any(size * aval.size > MOST_ELEMENTS for aval in program.avals):
        return None
    return dependence(program, active, outputs)


def _is_profitable(
    program: Program, inputs: Sequence[int], outputs: Sequence[int], units: Sequence[int]
) -> bool:
    """Return True if finding a pattern is profitable: enough unit vectors, of real numbers."""
    real = all(program.avals[i].dtype.kind == "f" for i in (*inputs, *outputs))
    return real and sum([program.avals[i].size for i in units]) >= FEWEST


def _compressed(
    linear: Program,
    pattern: Pattern,
    groups: Array,
    seeded: int,
    reached: int,
    name: str,
    *,
    last: bool,
) -> Program:
    """Map a linear program over the groups, and scatter its results into the Jacobians.

    Args:
        linear: its last inputs are the linear ones, its last outputs the derivatives.
        pattern: which elements of those inputs (rows) reach which elements of those outputs.
        groups: group of every element of those inputs.
        seeded, reached: number of these inputs, and of these outputs.
        name: name of the program.
        last: True if input elements are along the last axis of a Jacobian, False for the first.
    """
    known = len(linear.input_ids) - seeded
    size, many = len(groups), int(groups.max()) + 1
    into = ArrayRecording(name, keeps_source=False)
    given = [into.new_input(linear.avals[i]) for i in linear.input_ids[:known]]
    swept = _swept(into, linear, given, groups, reached)
    outs = [operand_of(into, x, aval) for x, aval in swept.auxiliary]
    first = 0
    for derivative, aval in swept.derivatives:
        length, shape = aval.size // many, aval.shape[1:]
        chosen = (pattern.columns >= first) & (pattern.columns < first + length)
        units, places = pattern.rows[chosen], pattern.columns[chosen] - first
        first += length
        flat = reshape(derivative, (aval.size,))
        values = gather(flat, (ARRAY,), (groups[units] * length + places,))
        positions = places * size + units if last else units * length + places
        spread = scatter_add(values, (ARRAY,), (positions,), (length * size,))
        whole = ShapeDtype((*shape, size) if last else (size, *shape), aval.dtype)
        outs.append(operand_of(into, reshape(spread, whole.shape), whole))
        attribute(into, swept.origin)
    return finish(into, outs, swept.mapped, name)


class _Swept(NamedTuple):
    """Traced results of a linear program that was mapped over groups, with their avals."""

    mapped: Program
    auxiliary: list[tuple[Any, ShapeDtype]]
    derivatives: list[tuple[Any, ShapeDtype]]
    origin: int


def _swept(
    into: ArrayRecording,
    linear: Program,
    given: Sequence[Any],
    groups: Array,
    reached: int,
    first: int = 0,
) -> _Swept:
    """Record a linear program, mapped over groups: each sweep has ones at the elements of a group.

    Args:
        into: the recording.
        linear: its last inputs are the linear ones, its last outputs the derivatives.
        given: its other inputs.
        groups: group of every element of the linear inputs; -1 for no group.
        reached: number of derivatives.
        first: origin of the program's variable 0, see `finish`.
    """
    known, auxiliary = len(given), len(linear.output_ids) - reached
    many, seeded = int(groups.max(initial=0)) + 1, len(linear.input_ids) - known
    mapped = vmap_program(
        linear, many, [False] * known + [True] * seeded, [False] * auxiliary + [True] * reached
    )
    units: list[Array] = []
    start = 0
    for i in linear.input_ids[known:]:
        aval = linear.avals[i]
        seeds = np.zeros((many, aval.size), aval.dtype)
        own = groups[start : start + aval.size]
        chosen = np.flatnonzero(own >= 0)
        seeds[own[chosen], chosen] = 1
        units.append(seeds.reshape(many, *aval.shape))
        start += aval.size
    found = recorded(into, mapped, [*given, *units], first)
    outs = list(zip(found, output_avals(mapped), strict=True))
    origin = first + mapped.output_ids[-1] if mapped.output_ids else -1
    return _Swept(mapped, outs[:auxiliary], outs[auxiliary:], origin)


class LinearParts(NamedTuple):
    """Programs of a function's derivative, in both directions.

    Args:
        pushed: from the inputs and one tangent per active input to auxiliary outputs and tangents.
        forward: from the inputs to outputs, auxiliary outputs and residuals.
        pulled: from residuals and one cotangent per output to cotangents of the active inputs.
    """

    pushed: Program
    forward: Program | None = None
    pulled: Program | None = None


def compressed_elements(
    parts: LinearParts,
    colouring: Colouring,
    outputs: int,
    auxiliary: int,
    active: int,
    dtype: np.dtype[Any],
) -> Program:
    """Return the program of auxiliary outputs and of the elements of a sparse Jacobian.

    Args:
        parts: the derivative; ``forward`` and ``pulled`` are needed for groups of rows.
        colouring: groups of columns (elements of the active inputs) and rows (of the outputs).
        outputs, auxiliary, active: numbers of these.
        dtype: of the elements.

    Returns:
        a program of the inputs; its last output has the elements in the pattern's order.
    """
    pushed, name = parts.pushed, f"sparse_{parts.pushed.name}"
    into = ArrayRecording(name, keeps_source=False)
    count = len(pushed.input_ids) - active
    given = [into.new_input(pushed.avals[i]) for i in pushed.input_ids[:count]]
    found: list[Any] = []
    positions: list[Position] = []  # by origin, of all programs
    swept = None
    aux: list[tuple[Any, ShapeDtype]] = []
    if colouring.forward or not colouring.reverse:
        groups = colouring.columns if colouring.forward else np.zeros_like(colouring.columns)
        swept = _swept(into, pushed, given, groups, outputs)
        positions += swept.mapped.positions
        aux, widths = swept.auxiliary, len(colouring.rows)
        found.append(_flat(swept, colouring.forward or 1, widths))
    if colouring.reverse:
        assert parts.forward is not None
        assert parts.pulled is not None
        primal = recorded(into, parts.forward, given, len(positions))
        positions += parts.forward.positions
        aux = aux or list(zip(
            primal[outputs : outputs + auxiliary],
            [parts.forward.avals[i] for i in parts.forward.output_ids[outputs:]],
            strict=False,
        ))  # fmt: skip
        residuals, rows = primal[outputs + auxiliary :], colouring.rows
        swept = _swept(into, parts.pulled, residuals, rows, active, len(positions))
        positions += swept.mapped.positions
        found.append(_flat(swept, colouring.reverse, len(colouring.columns)))
    assert swept is not None
    # Results of forward sweeps have one element per row, those of reverse sweeps one per column.
    is_forward = colouring.units < colouring.forward
    start = colouring.forward * len(colouring.rows)
    places = np.where(
        is_forward,
        colouring.units * len(colouring.rows) + colouring.places,
        start + (colouring.units - colouring.forward) * len(colouring.columns) + colouring.places,
    )
    whole = found[0] if len(found) == 1 else concatenate(found, 0)
    values = convert(gather(whole, (ARRAY,), (places,)), dtype)
    outs = [operand_of(into, x, aval) for x, aval in aux]
    outs.append(into.operand(values)[0])
    attribute(into, swept.origin)
    return finish(into, outs, swept.mapped, name, positions)


def _flat(swept: _Swept, many: int, width: int) -> Any:
    """Return the results of sweeps as one vector, sweep by sweep."""
    parts = [reshape(x, (many, aval.size // many)) for x, aval in swept.derivatives]
    if not parts:  # no leaves
        return np.zeros(0)
    whole = parts[0] if len(parts) == 1 else concatenate(parts, 1)
    return reshape(whole, (many * width,))
