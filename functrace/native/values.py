"""Forms of a variable of a program while it is lowered to loop IR.

A tiny array is `Scalars`: every element is an atom, and layout operations are NumPy's own on the
array of atoms, at no cost in the code. A large one is `Stored` in memory, or `Deferred`: an
elementwise expression, written into the loop that reads it. `Uniform` arrays have one value.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np

from functrace.executor.plan.layouts import c_strides
from functrace.native.loop_ir import ZERO, Affine, Atom, Buffer, DType, at

Shape: TypeAlias = tuple[int, ...]
AtomArray: TypeAlias = Any
"""A NumPy array of objects, each an `Atom`."""


@final
class Order(NamedTuple):
    """The order in which NumPy adds the elements of an array; see `functrace.native.numpy_order`.

    Args:
        axes: axes with more than one element, the innermost last.
        run: how many of the innermost axes are one run that is summed pairwise; 0 if rows are added.
    """

    axes: tuple[int, ...]
    run: int


@final
@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """An array in memory, or a view of one.

    Args:
        buffer: its memory.
        offset: index of its first element.
        strides: steps along the axes, in elements.
        shape: its shape.
    """

    buffer: Buffer
    offset: Affine
    strides: tuple[int, ...]
    shape: Shape

    @property
    def dtype(self) -> DType:
        """Dtype of the elements."""
        return self.buffer.dtype

    def place(self, index: Sequence[Affine]) -> Affine:
        """Return the index in the buffer of an element."""
        found = self.offset
        for position, stride in zip(index, self.strides, strict=True):
            found = found.plus(position, stride)
        return found

    def item(self, position: Affine) -> Stored:
        """Return the view at one position of the first axis."""
        offset = self.offset.plus(position, self.strides[0])
        return Stored(self.buffer, offset, self.strides[1:], self.shape[1:])

    @property
    def is_contiguous(self) -> bool:
        """True if it is in C order."""
        return all(
            size == 1 or mine == stride
            for size, mine, stride in zip(
                self.shape, self.strides, c_strides(self.shape), strict=True
            )
        )

    def same_place(self, other: object) -> bool:
        """Return True if another value is the same view."""
        return (
            isinstance(other, Stored)
            and self.buffer is other.buffer
            and self.offset == other.offset
            and self.shape == other.shape
            and all(
                size == 1 or a == b
                for size, a, b in zip(self.shape, self.strides, other.strides, strict=True)
            )
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class Scalars:
    """A tiny array: its elements are atoms.

    Args:
        atoms: array of objects, each an `Atom`.
        dtype: dtype of the elements.
    """

    atoms: AtomArray
    dtype: DType

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.atoms.shape


@final
@dataclass(frozen=True, slots=True, eq=False)
class Uniform:
    """An array whose elements are all the same.

    Args:
        atom: the element.
        shape: its shape.
    """

    atom: Atom
    shape: Shape

    @property
    def dtype(self) -> DType:
        """Dtype of the elements."""
        return self.atom.dtype


@final
@dataclass(frozen=True, slots=True, eq=False)
class Rolled:
    """An array whose elements are read from other positions, as ``np.roll`` moves them; only a
    `Deferred` operation has it as an operand.

    Args:
        source: the array; in memory once it is computed.
        shifts: by axis, how far elements move: from 0 up to below the size.
    """

    source: Stored | Deferred | Reduction
    shifts: tuple[int, ...]

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.source.shape

    @property
    def dtype(self) -> DType:
        """Dtype of the elements."""
        return self.source.dtype


@final
@dataclass(slots=True, eq=False)
class Deferred:
    """An elementwise expression that is not computed yet.

    Args:
        number: its position in the order of creation.
        write: writes the code of one element, from the atoms of the operands.
        operands: arrays that broadcast to its shape.
        shape, dtype: of the result.
        cost: about how many instructions an element takes, those of deferred operands included.
        uses: how many operations of the program read it.
        is_root: True if it is stored in memory.
        target: memory that it is stored in, if that is prescribed.
        result: the array in memory, once it is computed.
        level: with equal levels and shapes, roots are computed in one loop nest.
        level_apart: level of a loop nest that reads what is in memory only, such as one of another
            shape.
        has_rolled: True if its expression, down to roots, reads `Rolled` arrays.
        rolls: True if its loop nest reads `Rolled` arrays.
    """

    number: int
    write: Callable[..., Atom]
    operands: list[Operand]
    shape: Shape
    dtype: DType
    cost: int
    uses: int = 0
    is_root: bool = False
    target: Stored | None = None
    result: Stored | Scalars | None = None
    level: int = 0
    level_apart: int = 0
    has_rolled: bool = False
    rolls: bool = False


@final
@dataclass(slots=True, eq=False)
class Reduction:
    """A reduction that is not computed yet; it is always a root.

    Args:
        number: as for `Deferred`.
        op: op of the loop IR that joins two elements.
        first: element of an empty reduction.
        operand: the array.
        axes: its reduced axes.
        shape, dtype, target, result, level: as for `Deferred`.
        order: the order in which NumPy joins elements, if it makes a difference.
    """

    number: int
    op: str
    first: Atom
    operand: Value
    axes: tuple[int, ...]
    shape: Shape
    dtype: DType
    target: Stored | None = None
    result: Stored | Scalars | None = None
    level: int = 0
    operands: list[Operand] = field(default_factory=list["Operand"])
    order: Order | None = None

    @property
    def space(self) -> Shape:
        """Shape of the loop nest that computes it."""
        return self.operand.shape


@final
@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """The stacks of a loop whose number of steps depends on values (`Loop.gives`).

    Args:
        steps: number of steps.
        stacks: memory of the stacks, of which so many rows are written.
    """

    steps: Atom
    stacks: list[Stored]

    @property
    def shape(self) -> Shape:
        """Shape of the placeholder that stands for the stacks in a program."""
        return (0,)

    @property
    def dtype(self) -> DType:
        """Dtype of that placeholder."""
        return np.dtype(bool)


Value: TypeAlias = Stored | Scalars | Uniform | Deferred | Reduction | Packed
Operand: TypeAlias = Value | Rolled
"""An operand of a deferred operation or of a reduction."""


def scalars(atoms: Sequence[Atom], shape: Shape, dtype: DType) -> Scalars:
    """Return a tiny array of atoms in C order."""
    made = np.empty(len(atoms), object)
    for k, atom in enumerate(atoms):
        made[k] = atom
    return Scalars(made.reshape(shape), dtype)


def positions(shape: Sequence[int]) -> list[tuple[Affine, ...]]:
    """Return the constant indices of all elements, in C order."""
    return [tuple(at(k) for k in index) for index in np.ndindex(*shape)]


def project(index: Sequence[Affine], shape: Shape) -> tuple[Affine, ...]:
    """Return the index of the element of an array that is broadcast against an index."""
    if not shape:
        return ()
    return tuple(
        ZERO if size == 1 else position
        for position, size in zip(index[len(index) - len(shape) :], shape, strict=True)
    )
