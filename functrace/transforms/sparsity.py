"""Sparsity patterns: which outputs' elements depend on which inputs' elements; sparse Jacobians.

Two columns of a Jacobian without a common row can be computed by one tangent: the sum of both unit
vectors. Such columns are put into one group ("colour"); a banded matrix of any size has as many
groups as bands. Likewise, two rows without a common column can be computed by one cotangent. The
pattern depends on the program alone, so it is valid for all values. Operations without a known
pattern count as dense.

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
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import ZERO, Primitive
from functrace.ir.program import Program
from functrace.ir.walk import interpret
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.contraction import einsum_p, matmul_p
from functrace.ops.cumulative import cumsum_p
from functrace.ops.elementwise import ELEMENTWISE
from functrace.ops.indexing import (
    ARRAY,
    embed_p,
    gather,
    gather_p,
    index_p,
    scatter_add,
    scatter_add_p,
    scatter_each_p,
    scatter_set_p,
)
from functrace.ops.joining import concatenate_p, stack_p
from functrace.ops.naming import name_p
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import (
    broadcast_to_p,
    diagonal_p,
    embed_diagonal_p,
    permute_p,
    reshape,
    reshape_p,
    roll_p,
)
from functrace.ops.sorting import add_along_axis_p, take_along_axis_p
from functrace.tracing.binding import bind
from functrace.transforms.building import attribute, finish, is_differentiable, operand_of
from functrace.transforms.vmap import apply_batched, vmap_program
from functrace.typing import Array

FEWEST = 16
"""Minimum number of elements with unit vectors: with fewer, sparsity saves nothing."""

MOST_BYTES = 1 << 26
"""Maximum bytes of one variable's pattern; a larger one counts as dense."""

MOVES: frozenset[Primitive] = frozenset({
    add_along_axis_p, broadcast_to_p, concatenate_p, cumsum_p, diagonal_p, embed_p,
    embed_diagonal_p, gather_p, index_p,
    name_p, reduce_sum_p, reshape_p, roll_p, scatter_add_p, scatter_each_p,
    scatter_set_p, stack_p,
    take_along_axis_p, permute_p,
})  # fmt: skip
"""Operations that sum elements of operands; applied to patterns, they give the result's."""

SUMS: frozenset[Primitive] = frozenset({add_along_axis_p, cumsum_p, reduce_sum_p, scatter_add_p})
"""Additive ones of these, which need integer patterns: bools would not add up."""

PRODUCTS: frozenset[Primitive] = frozenset({matmul_p, einsum_p})
"""Operations that are linear in each operand: likewise, with ones for the other operands."""


def dependence(program: Program, inputs: Sequence[bool], outputs: int) -> Array | None:
    """Compute which elements of the first outputs depend on which elements of the flagged inputs.

    Returns:
        bool, shape (elements of inputs, elements of outputs), each in order; ``None`` if it would
        take too much memory.

    Cost:
        an elementwise operation per equation, on one byte per pair of a variable's element and an
        input's.
    """
    flagged = [i for i, flag in zip(program.input_ids, inputs, strict=True) if flag]
    size = sum([program.avals[i].size for i in flagged])
    if any(size * aval.size > MOST_BYTES for aval in program.avals):
        return None
    env: dict[int, Any] = dict.fromkeys(program.input_ids)
    env.update(dict.fromkeys(program.constant_values))
    start = 0
    for i in flagged:
        aval = program.avals[i]
        pattern = np.zeros((size, aval.size), bool)
        pattern[start : start + aval.size] = np.eye(aval.size, dtype=bool)
        env[i] = pattern.reshape(size, *aval.shape)
        start += aval.size
    walk = _PatternWalk(program, size)
    interpret(program, env, lambda k, values: walk.apply(k, values), program.schedule)
    found = [
        walk.whole(env[i], program.avals[i]).reshape(size, program.avals[i].size)
        for i in program.output_ids[:outputs]
    ]
    return np.concatenate([np.zeros((size, 0), bool), *found], axis=1)


class _PatternWalk:
    """Applies operations to patterns: bool arrays (input elements along axis 0) or ``None``."""

    def __init__(self, program: Program, size: int) -> None:
        self.program, self.size = program, size

    def whole(self, pattern: Array | None, aval: ShapeDtype) -> Array:
        """Return a pattern as an array, also an empty one."""
        return np.zeros((self.size, *aval.shape), bool) if pattern is None else pattern

    def apply(self, k: int, values: tuple[Any, ...]) -> Any:
        """Return the pattern of an operation's result; integers and numbers have no pattern."""
        program = self.program
        primitive, operands, params = program.ops[k]
        patterns = [value if i >= 0 else None for i, value in zip(operands, values, strict=True)]
        count = program.result_count(k)
        moves = [is_differentiable(program.avals[j]) for j in range(k, k + count)]
        if primitive.jvp is ZERO or not any(moves) or all(pattern is None for pattern in patterns):
            return (None,) * count if primitive.many else None
        if not primitive.many:
            aval = program.avals[k]
            if primitive.batch is ELEMENTWISE:
                return self._union(patterns, aval)
            found = self._linear(primitive, operands, patterns, params)
            if found is not None:
                return np.broadcast_to(found, (self.size, *aval.shape))
        reached = np.zeros(self.size, bool)
        for pattern in patterns:
            if pattern is not None:
                reached |= pattern.any(axis=tuple(range(1, pattern.ndim)))
        made = [
            np.broadcast_to(
                reached.reshape(-1, *[1] * program.avals[j].ndim),
                (self.size, *program.avals[j].shape),
            )
            if flag
            else None
            for j, flag in zip(range(k, k + count), moves, strict=True)
        ]
        return tuple(made) if primitive.many else made[0]

    def _union(self, patterns: Sequence[Array | None], aval: ShapeDtype) -> Array:
        shape = (self.size, *aval.shape)
        first, *rest = {
            id(pattern): pattern.reshape(
                self.size, *[1] * (aval.ndim - pattern.ndim + 1), *pattern.shape[1:]
            )
            for pattern in patterns
            if pattern is not None
        }.values()
        found = np.broadcast_to(first, shape)
        for pattern in rest:
            found = found | pattern
        return found

    def _linear(
        self,
        primitive: Primitive,
        operands: Sequence[int],
        patterns: Sequence[Array | None],
        params: tuple[Any, ...],
    ) -> Array | None:
        """Return the pattern of a sum of elements, by the batch rule; ``None`` if it is unknown."""
        if primitive in MOVES:
            return self._summed(primitive, operands, patterns, params, fill=0.0)
        if primitive not in PRODUCTS:
            return None
        found = None
        for k, pattern in enumerate(patterns):
            if pattern is not None:
                alone = [pattern if j == k else None for j in range(len(patterns))]
                part = self._summed(primitive, operands, alone, params, fill=1.0)
                if part is None:
                    return None
                found = part if found is None else found | part
        return found

    def _summed(
        self,
        primitive: Primitive,
        operands: Sequence[int],
        patterns: Sequence[Array | None],
        params: Any,
        *,
        fill: float,
    ) -> Array | None:
        program = self.program
        kind = np.float32 if primitive in SUMS or primitive in PRODUCTS else np.bool_
        values: list[Any] = []
        for place, (i, pattern) in enumerate(zip(operands, patterns, strict=True)):
            if pattern is not None:
                values.append(pattern.astype(kind))
            elif i < 0:
                values.append(fill)
            elif program.avals[i].dtype.kind in "iu" and primitive in MOVES:
                if i not in program.constant_values:
                    return None  # data-dependent positions
                values.append(program.constant_values[i])
            else:
                shape = program.avals[i].shape
                if primitive is matmul_p:  # only the summed axis of the ones is needed
                    summed = max(len(shape) - 1 - place, 0)
                    shape = tuple([n if k == summed else 1 for k, n in enumerate(shape)])
                values.append(np.full(shape, fill, kind))
        flags = tuple([pattern is not None for pattern in patterns])
        return np.asarray(apply_batched(primitive, tuple(values), flags, params)) != 0


def coloured(pattern: Array) -> Array | None:
    """Group the elements along the first axis so that no two of a group reach the same element.

    Args:
        pattern: see `dependence`; transpose it to group elements of the outputs.

    Returns:
        the group of every element, int, shape of the first axis; ``None`` if there are more than
        half as many groups as elements.
    """
    size = len(pattern)
    fewest = int(pattern.sum(axis=0).max()) if pattern.size else size
    if fewest > size // 2:
        return None
    fewest = max(fewest, 1)
    if all(pattern[k::fewest].sum(axis=0).max() <= 1 for k in range(fewest)):  # bands
        return np.arange(size) % fewest
    groups = np.empty(size, np.intp)
    taken = np.zeros((size // 2 + 1, pattern.shape[1]), bool)
    count = 0
    for k, reached in enumerate(pattern):
        places = np.flatnonzero(reached)
        groups[k] = group = int(np.argmin(taken[: count + 1, places].any(axis=1)))
        if group >= size // 2:
            return None
        taken[group, places] = True
        count = max(count, group + 1)
    return groups


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
    pattern = dependence(program, active, outputs)
    groups = None if pattern is None else coloured(pattern)
    if pattern is None or groups is None:
        return None
    return _compressed(
        pushed, pattern, groups, len(moving), outputs, f"jacobian_of_{program.name}", last=True
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
    found = dependence(program, active, outputs)
    pattern = None if found is None else found.T
    groups = None if pattern is None else coloured(pattern)
    if pattern is None or groups is None:
        return None
    return _compressed(
        pulled, pattern, groups, outputs, len(moving), f"jacobian_of_{program.name}", last=False
    )


def _is_profitable(
    program: Program, inputs: Sequence[int], outputs: Sequence[int], units: Sequence[int]
) -> bool:
    """Return True if finding a pattern is profitable: enough unit vectors, of real numbers."""
    real = all(program.avals[i].dtype.kind == "f" for i in (*inputs, *outputs))
    return real and sum([program.avals[i].size for i in units]) >= FEWEST


def _compressed(
    linear: Program,
    pattern: Array,
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
        pattern: bool, which elements of those inputs (first axis) reach which elements of those
            outputs.
        groups: group of every element of those inputs.
        seeded, reached: number of these inputs, and of these outputs.
        name: name of the program.
        last: True if input elements are along the last axis of a Jacobian, False for the first.
    """
    known, auxiliary = len(linear.input_ids) - seeded, len(linear.output_ids) - reached
    size, many = len(groups), int(groups.max()) + 1
    mapped = vmap_program(
        linear, many, [False] * known + [True] * seeded, [False] * auxiliary + [True] * reached
    )
    into = ArrayRecording(name, keeps_source=False)
    env: dict[int, Any] = {i: into.new_input(mapped.avals[i]) for i in mapped.input_ids[:known]}
    start = 0
    for i, j in zip(linear.input_ids[known:], mapped.input_ids[known:], strict=True):
        aval = linear.avals[i]
        seeds = groups[start : start + aval.size] == np.arange(many)[:, None]
        env[j] = seeds.astype(aval.dtype).reshape(many, *aval.shape)
        start += aval.size
    env |= {
        i: into.handle(into.constant(value, mapped.avals[i]))
        for i, value in mapped.constant_values.items()
    }

    def apply(k: int, values: tuple[Any, ...]) -> Any:
        primitive, _, params = mapped.ops[k]
        result = bind(primitive, values, params)
        attribute(into, k)
        return result

    interpret(mapped, env, apply, mapped.schedule)
    outs = [operand_of(into, env[i], mapped.avals[i]) for i in mapped.output_ids[:auxiliary]]
    first = 0
    for i in mapped.output_ids[auxiliary:]:
        aval = mapped.avals[i]
        length, shape = aval.size // many, aval.shape[1:]
        units, places = np.nonzero(pattern[:, first : first + length])
        first += length
        values = gather(reshape(env[i], (aval.size,)), (ARRAY,), (groups[units] * length + places,))
        positions = places * size + units if last else units * length + places
        spread = scatter_add(values, (ARRAY,), (positions,), (length * size,))
        whole = ShapeDtype((*shape, size) if last else (size, *shape), aval.dtype)
        outs.append(operand_of(into, reshape(spread, whole.shape), whole))
        attribute(into, i)
    return finish(into, outs, mapped, name)
