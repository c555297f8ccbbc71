"""Sparsity patterns: which elements of a program's outputs depend on which elements of its inputs.

Note [Patterns are supersets]
    A pattern misses no dependence, for any values of the inputs: positions that are computed from
    inputs, and operations without a known incidence, count as dense; a branch depends on what any of its
    branches depends on; loops of unknown length are iterated until nothing is added.

The pattern of a variable is a sorted array of numbers, one for each pair of its element and an
element of the inputs. So memory is proportional to the nonzero elements, not to the sizes'
product.

Layer: 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, final

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import ZERO, Primitive
from functrace.ir.program import Program
from functrace.ir.structures import Branch, Loop
from functrace.ir.walk import interpret
from functrace.ops.elementwise import ELEMENTWISE
from functrace.transforms.building import is_differentiable
from functrace.transforms.sparsity.incidence import (
    MOST_EDGES,
    MOVES,
    Moved,
    Summed,
    incidence,
)
from functrace.typing import Array

MOST_STEPS = 1 << 14
"""Maximum number of operations of a loop that is unrolled; others are iterated to a fixed point."""
MOST_ITERATIONS = 64
"""Maximum number of iterations to a fixed point; after that a loop counts as dense."""


class Pattern(NamedTuple):
    """Positions of the nonzero elements of a matrix, in order of rows, then of columns.

    Args:
        rows, columns: int64, one per position.
        shape: numbers of rows and of columns.

    Example:
        >>> import numpy as np
        >>> pattern = Pattern(np.array([0, 1]), np.array([1, 0]), (2, 2))
        >>> pattern.transposed().dense().astype(int).tolist()
        [[0, 1], [1, 0]]
    """

    rows: Array
    columns: Array
    shape: tuple[int, int]

    @classmethod
    def of(cls, matrix: Array) -> Pattern:
        """Return the pattern of a matrix's nonzero elements."""
        rows, columns = np.nonzero(matrix)
        return cls(rows, columns, (len(matrix), matrix.shape[1]))

    def dense(self) -> Array:
        """Return the pattern as an array of bools."""
        found = np.zeros(self.shape, np.bool_)
        found[self.rows, self.columns] = True
        return found

    def transposed(self) -> Pattern:
        """Return the pattern of the transpose."""
        order = np.lexsort((self.rows, self.columns))
        rows, columns = self.shape
        return Pattern(self.columns[order], self.rows[order], (columns, rows))

    def symmetric(self) -> Pattern:
        """Return the union of a square pattern and its transpose."""
        size = max(self.shape[1], 1)
        both = [self.rows * size + self.columns, self.columns * size + self.rows]
        return Pattern(*np.divmod(_unique(np.concatenate(both)), size), self.shape)

    def starts(self) -> Array:
        """Return the index of the first position of every row, and the number of positions."""
        return np.searchsorted(self.rows, np.arange(self.shape[0] + 1))


@final
class _Dense:
    """Pattern of a variable each of whose elements may depend on every input element."""


DENSE: Final = _Dense()
Keys = Any
"""Pattern of a variable: a sorted int64 array of ``element * inputs + input``, `DENSE`, or ``None``
where nothing depends on the inputs."""


def dependence(
    program: Program,
    inputs: Sequence[bool],
    outputs: Sequence[int] | int,
    known: Mapping[int, Array] | None = None,
) -> Pattern | None:
    """Compute which elements of some outputs depend on which elements of the flagged inputs.

    Args:
        program: any program; a tangent program has the pattern of the Jacobian.
        inputs: one flag per input.
        outputs: number of outputs, from the first on, or their positions.
        known: values of captured integer arrays that are inputs, by variable. The pattern is valid
            for these values.

    Returns:
        the pattern, with the elements of the outputs as rows and those of the inputs as columns,
        each in order; ``None`` if it is dense, or would take too much memory.

    Cost:
        time and memory proportional to the positions in the patterns of all variables: about 50 ns
        per position and operation.
    """
    chosen = range(outputs) if isinstance(outputs, int) else outputs
    flagged = [i for i, flag in zip(program.input_ids, inputs, strict=True) if flag]
    size = sum([program.avals[i].size for i in flagged])
    start, given = 0, dict[int, Keys]()
    for i in flagged:
        count = program.avals[i].size
        given[i] = np.arange(count, dtype=np.int64) * size + np.arange(start, start + count)
        start += count
    walk = _PatternWalk(max(size, 1))
    constants = {i: np.asarray(x) for i, x in (known or {}).items()}
    found, _ = walk.run(
        program,
        [given.get(i) for i in program.input_ids],
        [constants.get(i) for i in program.input_ids],
    )
    rows, total = [np.zeros(0, np.int64)], 0
    for j in chosen:
        keys, count = found[j], program.avals[program.output_ids[j]].size
        if keys is DENSE:
            if count * size > MOST_EDGES:
                return None
            keys = np.arange(count * size)
        if keys is not None:
            rows.append(keys + total * size)
        total += count
    keys = np.concatenate(rows)
    return Pattern(*np.divmod(keys, max(size, 1)), (total, size))


@final
class _PatternWalk:
    """Propagates patterns through programs, and the values of integers that are constants."""

    def __init__(self, size: int) -> None:
        self.size = size

    def run(
        self, program: Program, patterns: Sequence[Keys], values: Sequence[Array | None]
    ) -> tuple[list[Keys], list[Array | None]]:
        """Return the patterns and the known values of the outputs."""
        known: dict[int, Array] = {}
        for i, value in zip(program.input_ids, values, strict=True):
            if value is not None:
                known[i] = value
        for i, value in program.constant_values.items():
            if program.avals[i].dtype.kind in "iub" and isinstance(value, np.ndarray | np.generic):
                known[i] = np.asarray(value)
        env: dict[int, Keys] = dict.fromkeys(program.constant_values)
        env.update(zip(program.input_ids, patterns, strict=True))
        outputs = set(program.output_ids)

        def apply(k: int, given: tuple[Any, ...]) -> Any:
            operands = program.ops[k][1]
            found = self.apply(
                program, k, [x if i >= 0 else None for i, x in zip(operands, given)], known
            )
            for i in set(operands).difference(outputs):  # index arrays are as large as patterns
                if i in known and last.get(i) == k:
                    del known[i]
            return found

        last = {i: k for k, _ in program.schedule for i in program.ops[k][1] if i >= 0}
        interpret(program, env, apply, program.schedule)
        return (
            [env[i] for i in program.output_ids],
            [known.get(i) for i in program.output_ids],
        )

    def apply(self, program: Program, k: int, patterns: list[Keys], known: dict[int, Array]) -> Any:
        """Return the patterns of an operation's results; store their values if they are known."""
        primitive, operands, params = program.ops[k]
        count = program.result_count(k)
        avals = [program.avals[j] for j in range(k, k + count)]
        specs = [program.avals[i] if i >= 0 else None for i in operands]
        constants = {
            place: known[i] if i >= 0 else np.asarray(program.literals[~i])
            for place, i in enumerate(operands)
            if i < 0 or i in known
        }
        if primitive.holds is not None:
            found, values = self._of_bodies(primitive, specs, patterns, constants, params, avals)
            known.update({k + n: x for n, x in enumerate(values) if x is not None})
            return tuple(found) if primitive.many else found[0]
        if len(constants) == len(operands) and not primitive.many:
            value = _constant(primitive, operands, program, constants, params, avals[0])
            if value is not None:
                known[k] = value
        found = self._of_operation(primitive, specs, patterns, constants, params, avals)
        return tuple(found) if primitive.many else found[0]

    def _of_operation(
        self,
        primitive: Primitive,
        specs: Sequence[ShapeDtype | None],
        patterns: Sequence[Keys],
        constants: Mapping[int, Array],
        params: tuple[Any, ...],
        avals: Sequence[ShapeDtype],
    ) -> list[Keys]:
        none: list[Keys] = [None] * len(avals)
        moves = [is_differentiable(aval) for aval in avals]
        if primitive.jvp is ZERO or not any(moves) or all(p is None for p in patterns):
            return none
        is_elementwise = primitive.batch is ELEMENTWISE
        if primitive.many and not is_elementwise:
            return self.mixed(patterns, avals, moves)
        aval = avals[0]
        parts: list[Keys] = []
        seen: set[tuple[int, Any]] = set()
        for place, (keys, spec) in enumerate(zip(patterns, specs, strict=True)):
            if keys is None or spec is None:
                continue
            if is_elementwise:
                if (id(keys), spec.shape) not in seen:
                    seen.add((id(keys), spec.shape))
                    parts.append(self.broadcast(keys, spec.shape, aval.shape))
                continue
            if keys is DENSE:
                parts.append(DENSE)
                continue
            edges = incidence(primitive, place, specs, constants, params, aval)
            if edges is None:
                return self.mixed(patterns, avals, moves)
            parts.append(self.moved(keys, edges, spec, aval))
        found = self.union(parts)
        return [found if flag else None for flag in moves]

    def union(self, parts: Sequence[Keys]) -> Keys:
        """Return the union of patterns of one variable."""
        parts = [part for part in parts if part is not None]
        if any(part is DENSE for part in parts):
            return DENSE
        if len(parts) < 2:
            return parts[0] if parts else None
        first = parts[0]
        for part in parts[1:]:
            if part is not first and not (len(part) == len(first) and np.array_equal(part, first)):
                first = _unique(np.concatenate([first, part]))
        return first

    def broadcast(self, keys: Keys, shape: tuple[int, ...], wanted: tuple[int, ...]) -> Keys:
        """Return the pattern of a variable that is broadcast to a shape."""
        if keys is DENSE or shape == wanted:
            return keys
        count = int(np.prod(shape, dtype=np.int64))
        sources = np.ravel(np.broadcast_to(np.arange(count).reshape(shape), wanted))
        return self._taken(keys, sources, count)

    def moved(self, keys: Keys, edges: Any, spec: ShapeDtype, aval: ShapeDtype) -> Keys:
        """Return the pattern of a result whose elements depend on an operand's by ``edges``."""
        if isinstance(edges, Moved):
            return self._taken(keys, edges.sources, spec.size)
        if isinstance(edges, Summed):
            elements, inputs = np.divmod(keys, self.size)
            targets = edges.targets[elements]
            if (targets < 0).any():
                targets, inputs = targets[targets >= 0], inputs[targets >= 0]
            return _unique(targets * self.size + inputs)
        found = self._taken(keys, edges.operands, spec.size)
        if found is DENSE:
            return DENSE
        edge, inputs = np.divmod(found, self.size)
        return _unique(edges.results[edge] * self.size + inputs)

    def _taken(self, keys: Array, sources: Array, count: int) -> Keys:
        """Return the pattern of elements that are copies: ``sources`` are their numbers, or -1."""
        starts = np.searchsorted(keys, np.arange(count + 1) * self.size)
        lengths = np.where(sources < 0, 0, np.diff(starts)[sources] if count else 0)
        total = int(lengths.sum())
        if total > MOST_EDGES:
            return DENSE
        ends = np.cumsum(lengths)
        places = np.repeat(starts[sources] - (ends - lengths), lengths) + np.arange(total)
        targets = np.repeat(np.arange(len(sources)), lengths)
        return targets * self.size + keys[places] % self.size

    def mixed(
        self, patterns: Sequence[Keys], avals: Sequence[ShapeDtype], moves: Sequence[bool]
    ) -> list[Keys]:
        """Return patterns of results each of whose elements depends on all operands."""
        if any(keys is DENSE for keys in patterns):
            return [DENSE if flag else None for flag in moves]
        inputs = np.unique(
            np.concatenate([keys % self.size for keys in patterns if keys is not None])
        )
        return [self._all_of(inputs, aval) if f else None for aval, f in zip(avals, moves)]

    def _all_of(self, inputs: Array, aval: ShapeDtype) -> Keys:
        if len(inputs) * aval.size > MOST_EDGES:
            return DENSE
        return np.ravel(np.arange(aval.size)[:, None] * self.size + inputs)

    # -- sub-programs ------------------------------------------------------------------------------

    def _of_bodies(
        self,
        primitive: Primitive,
        specs: Sequence[ShapeDtype | None],
        patterns: Sequence[Keys],
        constants: Mapping[int, Array],
        params: tuple[Any, ...],
        avals: Sequence[ShapeDtype],
    ) -> tuple[list[Keys], list[Array | None]]:
        """Return patterns and known values of the results of an operation with sub-programs."""
        unknown: list[Array | None] = [None] * len(avals)
        moves = [is_differentiable(aval) for aval in avals]
        values = [constants.get(place) for place in range(len(patterns))]
        holds = primitive.holds
        assert holds is not None
        if all(keys is None for keys in patterns) and not any(v is not None for v in values):
            return [None] * len(avals), unknown
        if holds.called_program is not None and not _has_own_rule(primitive):
            return self.run(holds.called_program(*params), patterns, values)
        if all(keys is None for keys in patterns):
            return [None] * len(avals), unknown
        given = [spec for spec in specs if spec is not None]
        if holds.lowers is not None and len(given) == len(specs):
            bodies, structure, _ = holds.lowers(given, *params)
            if isinstance(structure, Branch):
                found = [self.run(body, patterns[1:], values[1:])[0] for body in bodies]
                return [self.union(parts) for parts in zip(*found, strict=True)], unknown
            if isinstance(structure, Loop) and structure.takes is None and not structure.gives:
                return self._of_loop(structure, bodies, specs, patterns, values), unknown
        return self.mixed(patterns, avals, moves), unknown

    def _of_loop(
        self,
        loop: Loop,
        bodies: Sequence[Program],
        specs: Sequence[Any],
        patterns: Sequence[Keys],
        values: Sequence[Array | None],
    ) -> list[Keys]:
        fixed = loop.constants
        if loop.length is not None:
            start = fixed + loop.carries[0]
            if loop.length * len(bodies[0].ops) <= MOST_STEPS:
                return self._unrolled(loop, bodies[0], specs, patterns, values)
            slices = [
                self._of_any_step(keys, spec.size // max(loop.length, 1))
                for keys, spec in zip(patterns[start:], specs[start:], strict=True)
            ]
            carry, stacks = self._settled(
                bodies[0], patterns[:fixed], values[:fixed], patterns[fixed:start], slices, 0
            )
            sizes = [bodies[0].avals[i].size for i in bodies[0].output_ids[len(carry) :]]
            return [
                *carry,
                *[self._repeated(s, n, loop.length) for s, n in zip(stacks, sizes, strict=True)],
            ]
        phases = bodies[loop.has_condition :]
        place, results, rows = fixed, list[Keys](), list[Keys]()
        for phase, (body, count) in enumerate(zip(phases, loop.carries, strict=True)):
            carry, made = self._settled(
                body,
                patterns[:fixed],
                values[:fixed],
                patterns[place : place + count],
                rows,
                int(loop.has_condition and not phase),
            )
            place += count
            rows += made
            if phase >= loop.hidden:
                results += carry
        return results

    def _settled(
        self,
        body: Program,
        fixed: Sequence[Keys],
        values: Sequence[Array | None],
        carry: Sequence[Keys],
        rows: Sequence[Keys],
        skipped: int,
    ) -> tuple[list[Keys], list[Keys]]:
        """Iterate the body of a loop until its carry depends on nothing more."""
        carry, count = list(carry), len(carry)
        given: list[Array | None] = [*values, *[None] * (count + len(rows))]
        for _ in range(MOST_ITERATIONS):
            found = self.run(body, [*fixed, *carry, *rows], given)[0][skipped:]
            after = [self.union(pair) for pair in zip(carry, found, strict=False)]
            if all(map(_same, after, carry)):
                return carry, found[count:]
            carry = after
        carry = [
            DENSE if is_differentiable(body.avals[i]) else None
            for i in body.output_ids[skipped : skipped + count]
        ]
        return carry, self.run(body, [*fixed, *carry, *rows], given)[0][skipped + count :]

    def _unrolled(
        self,
        loop: Loop,
        body: Program,
        specs: Sequence[Any],
        patterns: Sequence[Keys],
        values: Sequence[Array | None],
    ) -> list[Keys]:
        """Propagate patterns through every step of a loop of static length."""
        length, fixed, count = loop.length or 0, loop.constants, loop.carries[0]
        carry, known = list(patterns[fixed : fixed + count]), list(values[fixed : fixed + count])
        sizes = [body.avals[i].size for i in body.output_ids[count:]]
        stacks: list[list[Keys]] = [[] for _ in sizes]
        arrays = range(fixed + count, len(patterns))
        for step in range(length):
            t = length - 1 - step if loop.reverse[0] else step
            slices = [self._step(patterns[k], t, specs[k].size // length) for k in arrays]
            given = [None if (v := values[k]) is None else v[t] for k in arrays]
            found, made = self.run(
                body, [*patterns[:fixed], *carry, *slices], [*values[:fixed], *known, *given]
            )
            carry, known = found[:count], made[:count]
            for stack, keys, size in zip(stacks, found[count:], sizes, strict=True):
                stack.append(self._placed(keys, t * size))
        return [*carry, *[self._stacked(stack, loop.reverse[0]) for stack in stacks]]

    def _placed(self, keys: Keys, first: int) -> Keys:
        """Return the pattern of a slice as part of a stack; ``first`` is its first element's number."""
        return keys if keys is None or keys is DENSE else keys + first * self.size

    def _step(self, keys: Keys, t: int, size: int) -> Keys:
        """Return the pattern of one slice along the first axis."""
        if keys is None or keys is DENSE:
            return keys
        first = t * size * self.size
        begin, end = np.searchsorted(keys, [first, first + size * self.size])
        return keys[begin:end] - first if begin < end else None

    def _of_any_step(self, keys: Keys, size: int) -> Keys:
        """Return the union of the patterns of all slices along the first axis."""
        return keys if keys is None or keys is DENSE else _unique(keys % (max(size, 1) * self.size))

    def _repeated(self, keys: Keys, size: int, length: int) -> Keys:
        if keys is None or keys is DENSE:
            return keys
        if len(keys) * length > MOST_EDGES:
            return DENSE
        return np.ravel(keys + np.arange(length)[:, None] * (size * self.size))

    def _stacked(self, parts: list[Keys], is_reversed: bool) -> Keys:
        parts = [part for part in (parts[::-1] if is_reversed else parts) if part is not None]
        if any(part is DENSE for part in parts):
            return DENSE
        return np.concatenate(parts) if parts else None


def _has_own_rule(primitive: Primitive) -> bool:
    """Return True if the derivative is not that of the called program: a custom rule."""
    return primitive.by_rule


def _same(a: Keys, b: Keys) -> bool:
    if a is None or b is None or a is DENSE or b is DENSE:
        return a is b
    return len(a) == len(b)


def _unique(keys: Array) -> Array:
    """Sort, and drop duplicates. (A stable sort merges sorted runs in linear time.)"""
    keys = np.sort(keys, kind="stable")
    if not len(keys):
        return keys
    kept = np.empty(len(keys), np.bool_)
    kept[0] = True
    np.not_equal(keys[1:], keys[:-1], out=kept[1:])
    return keys[kept]


def _constant(
    primitive: Primitive,
    operands: Sequence[int],
    program: Program,
    constants: Mapping[int, Array],
    params: tuple[Any, ...],
    aval: ShapeDtype,
) -> Array | None:
    """Return the value of an operation on integer constants, which cannot fail."""
    if aval.dtype.kind not in "iub" or aval.size > MOST_EDGES or primitive.fails is not None:
        return None
    if primitive.batch is not ELEMENTWISE and primitive not in MOVES:
        return None
    values = [constants[n] if i >= 0 else program.literals[~i] for n, i in enumerate(operands)]
    with np.errstate(all="ignore"):
        return np.asarray(primitive.eval(*values, *params))
