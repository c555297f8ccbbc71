"""Buffer reuse: operations that may overwrite an operand at its last use, and outputs that need no
copy.

A ufunc takes its target as its last argument: ``multiply(a, b, a)`` allocates nothing, and touches
two arrays instead of three. Measured on 40,000 float64: multiply(a, b) 14.7 us, in place 7.4 us; on
1,000 the call is 10% faster.

Note [In place, and bit for bit the same]
    In-place operations give the same values, but could change the layout of the result, and so the
    order in which a later reduction adds. NumPy gives a result the layout of its operands ("K"
    order): C order, if one operand of full shape is in C order (it wins over the others), or if all
    operands are. So an operation runs in place only if the result would have had the layout of the
    operand that it overwrites: both in C order, or both like the same input.

Layer: 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT
from functrace.ir.program import Program
from functrace.ops.shaping import reshape_p, roll_p

C_ORDER = "C"
Layout = str | tuple[str, int]


@final
class BufferTracker:
    """Track the owner, the sharing and the layout of memory, operation by operation in evaluation
    order.

    Args:
        program: the program.
        donated: indices of inputs that it may overwrite; see
            `functrace.executor.plan.planner.planned`.
    """

    def __init__(self, program: Program, donated: Sequence[int] = ()) -> None:
        self.program = program
        self.owners: dict[int, int] = {}
        """By variable that an operation has computed, the owner of its memory."""
        self._sharing: Counter[int] = Counter()
        self._owned: set[int] = set()
        self._layouts: dict[int, Any] = {}
        self._read_only: set[int] = set()
        self._shown = Counter(program.output_ids)
        self._taken: set[int] = set()
        """Memory that a group may overwrite with results; if the group runs whole, it allocates
        instead.
        """
        for i in program.input_ids:
            self._layouts[i] = (
                C_ORDER if donated or _is_row(program.avals[i].shape) else ("like", i)
            )
        self._donated = frozenset([program.input_ids[k] for k in donated])
        for i in self._donated:
            self.owners[i] = i
            self._sharing[i] = 1
            self._owned.add(i)
        for i, value in program.constant_values.items():
            in_order = isinstance(value, np.ndarray | np.generic) and value.flags.c_contiguous
            self._layouts[i] = C_ORDER if in_order or _is_row(program.avals[i].shape) else None

    def step(self, k: int, dying: Sequence[int], *, escapes: bool) -> int | None:
        """Record an operation.

        Args:
            k: its first result.
            dying: variables whose last use this is.
            escapes: True if something besides its results may keep its operands.

        Returns:
            the operand that the result may overwrite, if there is one.
        """
        program = self.program
        primitive, operands, _ = program.ops[k]
        variables = [i for i in operands if i >= 0]
        count = program.result_count(k) if primitive.many else 1
        chosen = None
        in_order = False
        root = k
        if primitive.is_ufunc and count == 1:
            layout = self._elementwise(k, variables)
            free = [i for i in dying if self._is_free(i, k, layout)]
            chosen = next((i for i in free if i in self._donated), free[0] if free else None)
            self._owned.add(k)
        elif primitive is roll_p:  # writes into an array with the layout of its operand
            layout = self._layouts.get(variables[0]) if variables else C_ORDER
            self._owned.add(k)
        elif primitive.view:
            root = self.owners.get(variables[0], variables[0]) if variables else k
            keeps = (
                primitive is reshape_p
                and bool(variables)
                and self._layouts.get(variables[0]) == C_ORDER
            )
            layout = C_ORDER if keeps else None
            if not primitive.writable or not self._read_only.isdisjoint(variables):
                self._read_only.add(k)
        else:
            fresh = primitive.fresh is not None and primitive.fresh(program.avals[k])
            in_order = fresh and (
                not primitive.many or all(self._layouts.get(i) == C_ORDER for i in variables)
            )
            layout = C_ORDER if in_order or _is_row(program.avals[k].shape) else None
            if fresh:
                self._owned.update(range(k, k + count))
        if escapes:
            for i in variables:
                self._owned.discard(self.owners.get(i, i))
        if chosen is not None:
            root = self.owners.get(chosen, chosen)
        layouts = [
            layout,
            *[
                C_ORDER if in_order or _is_row(program.avals[j].shape) else None
                for j in range(k + 1, k + count)
            ],
        ]
        self._note(k, dying, [root, *range(k + 1, k + count)], layouts)
        return chosen

    def _note(
        self, k: int, dying: Sequence[int], roots: Sequence[int], layouts: Sequence[Any]
    ) -> None:
        """Record the owners of the memory of an operation's results."""
        for i in dying:
            self._sharing[self.owners.get(i, i)] -= 1
        for j, (root, layout) in enumerate(zip(roots, layouts, strict=True), k):
            self.owners[j], self._layouts[j] = root, layout
            self._sharing[root] += 1

    def group(
        self, k: int, dying: Sequence[int], replaceable: Sequence[Sequence[int]]
    ) -> tuple[int | None, ...]:
        """Record a fusion group.

        Args:
            k: its first result.
            dying: variables whose last use this is.
            replaceable: by result, indices of the operands that it may overwrite if they are free.

        Returns:
            by result, the index of the operand that it overwrites.
        """
        program, operands = self.program, self.program.ops[k][1]
        is_in_order = all(self._layouts.get(i) == C_ORDER for i in operands if i >= 0)
        chosen: list[int | None] = []
        for j, places in enumerate(replaceable, k):
            free = [
                n for n in places if operands[n] in dying and self._is_free(operands[n], j, C_ORDER)
            ]
            free = [n for n in free if operands.count(operands[n]) == 1 and n not in chosen]
            given = [n for n in free if operands[n] in self._donated]
            chosen.append((given or free or [None])[0] if is_in_order else None)
        roots = [j if n is None else self.owners[operands[n]] for j, n in enumerate(chosen, k)]
        self._taken.update([root for j, root in enumerate(roots, k) if root != j])
        self._owned.update(range(k, k + len(chosen)))
        rows = [_is_row(program.avals[j].shape) for j in range(k, k + len(chosen))]
        self._note(k, dying, roots, [C_ORDER if is_in_order or is_row else None for is_row in rows])
        return tuple(chosen)

    def is_exclusive(self, i: int) -> bool:
        """Return True if an output is all of an array that the program has allocated, and no other
        output shares it.
        """
        program = self.program
        root = self.owners.get(i, i)
        return (
            root in self._owned
            and self._sharing[root] == 1
            and bool(program.avals[i].shape)
            and _are_as_large(program.avals[root], program.avals[i])
            and self._shown[i] == 1
            and i not in self._read_only
        )

    def home(self, i: int) -> int | None:
        """Return the operation that allocates exactly an output's memory, in C order, if that is
        known.
        """
        root, avals = self.owners.get(i, i), self.program.avals
        in_order = self._layouts.get(root) == self._layouts.get(i) == C_ORDER
        known = (
            in_order
            and root in self._owned
            and root not in self._taken
            and avals[root] is avals[i]
            and i not in self._read_only
        )
        return root if known and avals[i].shape else None

    def _elementwise(self, k: int, variables: list[int]) -> Any:
        """Return the layout that NumPy gives the result of a ufunc."""
        shape = self.program.avals[k].shape
        if _is_row(shape):
            return C_ORDER
        layouts = [self._layouts.get(i) for i in variables]
        shapes = [self.program.avals[i].shape for i in variables]
        full = [layout for layout, s in zip(layouts, shapes, strict=True) if s == shape]
        if C_ORDER in full or all(layout == C_ORDER for layout in layouts):
            return C_ORDER
        others = [s for s in shapes if s != shape]
        return (
            full[0]
            if full and all(x == full[0] for x in full) and all(map(_is_row, others))
            else None
        )

    def _is_free(self, i: int, k: int, layout: Layout | None) -> bool:
        """Return True if the result may overwrite operand ``i``."""
        program = self.program
        aval, root = program.avals[i], self.owners.get(i, i)
        return (
            aval is program.avals[k]
            and bool(aval.shape)
            and layout is not None
            and self._layouts.get(i) == layout
            and root in self._owned
            and self._sharing[root] == 1
            and program.avals[root].size == aval.size
            and not _is_complex_number(aval)
            and (program.ops[root][0] not in (INPUT, CONSTANT) or root in self._donated)
        )


def _is_complex_number(aval: ShapeDtype) -> bool:
    """Return True for an array of one complex number: NumPy rounds its products differently in
    place.
    """
    return aval.dtype.kind == "c" and all(type(n) is int and n == 1 for n in aval.shape)


def _are_as_large(x: ShapeDtype, y: ShapeDtype) -> bool:
    """Return True if two arrays have as many elements; a symbolic size, moved to another axis, needs
    no value.
    """
    return sorted(map(id, x.shape)) == sorted(map(id, y.shape)) or x.size == y.size


def _is_row(shape: tuple[int, ...]) -> bool:
    """Return True if at most one axis has more than one element, so that only one layout exists."""
    return sum(n != 1 for n in shape) <= 1
