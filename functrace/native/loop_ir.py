"""Loop IR: three-address code in loop nests over buffers, from which printers make LLVM IR and C.

A `Function` has buffers (arguments, results, constants, temporaries) and a block of statements. An
`Atom` is a constant or the name of a scalar, in single assignment form: a name is written once, and
read by later statements of the same block or of blocks inside it. What changes from step to step of
a loop is a `Variable` (a mutable scalar) or memory. Indices into buffers are affine (`Affine`) in
loop counters and in int64 scalars; they count elements.

Layer: 7.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias, final

import numpy as np

DType: TypeAlias = np.dtype[Any]

BOOL, INT64 = np.dtype(bool), np.dtype(np.int64)
DTYPES: Final[tuple[DType, ...]] = tuple(
    map(np.dtype, ("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1", "c16", "c8"))
)
"""Dtypes of machine code, of arguments and results too; complex scalars are split into floats."""


@final
@dataclass(frozen=True, slots=True)
class Const:
    """A number in the code.

    Args:
        value: a Python number.
        dtype: its dtype.
    """

    value: Any
    dtype: DType


@final
@dataclass(frozen=True, slots=True)
class Scalar:
    """The name of a scalar that a statement has computed, or of a loop counter (int64).

    Args:
        name: its name; unique in the function.
        dtype: its dtype.
    """

    name: str
    dtype: DType


Atom: TypeAlias = Const | Scalar


class Affine(NamedTuple):
    """An affine index: ``offset + sum(factor * scalar)``, in elements.

    Args:
        terms: pairs of the name of an int64 scalar and a factor, which is not zero; in the order of
            names.
        offset: the constant part.
    """

    terms: tuple[tuple[str, int], ...] = ()
    offset: int = 0

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """Return ``self + factor * other``."""
        if not other.terms:
            return Affine(self.terms, self.offset + factor * other.offset)
        found = dict(self.terms)
        for name, by in other.terms:
            found[name] = found.get(name, 0) + factor * by
        terms = tuple(sorted((name, by) for name, by in found.items() if by))
        return Affine(terms, self.offset + factor * other.offset)


ZERO = Affine()


def at(position: int) -> Affine:
    """Return a constant index."""
    return Affine((), position)


def affine(atom: Atom) -> Affine:
    """Return the index that an int64 scalar is."""
    return at(atom.value) if type(atom) is Const else Affine(((atom.name, 1),))


@final
@dataclass(eq=False, slots=True)
class Buffer:
    """Memory of one array.

    Args:
        name: its name; unique in the function.
        dtype: dtype of its elements.
        size: number of its elements.
        role: "argument", "result", "constant" or "temporary".
        value: the elements of a constant.
    """

    name: str
    dtype: DType
    size: int
    role: str
    value: np.ndarray[Any, Any] | None = None


@dataclass(slots=True)
class Let:
    """``name = op(operands)``; the ops are rows of `functrace.native.llvm_text` and of the C printer."""

    name: str
    dtype: DType
    op: str
    operands: tuple[Atom, ...]


@dataclass(slots=True)
class Load:
    """``name = buffer[index]``."""

    name: str
    dtype: DType
    buffer: Buffer
    index: Affine


@dataclass(slots=True)
class Store:
    """``buffer[index] = value``."""

    buffer: Buffer
    index: Affine
    value: Atom


@dataclass(slots=True)
class Declare:
    """Declare a mutable scalar with its first value."""

    name: str
    dtype: DType
    value: Atom


@dataclass(slots=True)
class Get:
    """``name = variable``: read a mutable scalar."""

    name: str
    dtype: DType
    variable: str


@dataclass(slots=True)
class Assign:
    """``variable = value``: write a mutable scalar."""

    variable: str
    value: Atom


@dataclass(slots=True)
class For:
    """``for counter in range(count)``, or reversed.

    Args:
        counter: name of the counter.
        count: number of steps; an int64 scalar or constant.
        reverse: True to count downwards.
        body: statements of a step.
        independent: True if steps are elements of an array: no signal (Ctrl-C) is looked for between
            them.
        lanes: True if all steps may run at the same time, as the lanes of one vector.
    """

    counter: str
    count: Atom
    reverse: bool
    body: list[Statement]
    independent: bool = False
    lanes: bool = False


@dataclass(slots=True)
class While:
    """``while True``: run ``condition``, stop unless ``value`` holds, run ``body``."""

    condition: list[Statement]
    value: Atom
    body: list[Statement]


@dataclass(slots=True)
class If:
    """``if value: then; else: otherwise``."""

    value: Atom
    then: list[Statement]
    otherwise: list[Statement]


@dataclass(slots=True)
class Fail:
    """Return the status ``code`` if ``value`` holds: the NumPy form of the program then runs."""

    value: Atom
    code: int


@dataclass(slots=True)
class MatrixProduct:
    """``c = a b`` by BLAS: row-major matrices with a leading stride, or their transposes.

    Args:
        a, b, c: buffer, offset, leading stride, and True if the matrix is transposed in memory.
        sizes: rows of a, columns of b, columns of a.
    """

    a: tuple[Buffer, Affine, int, bool]
    b: tuple[Buffer, Affine, int, bool]
    c: tuple[Buffer, Affine, int]
    sizes: tuple[int, int, int]


Statement: TypeAlias = (
    Let | Load | Store | Declare | Get | Assign | For | While | If | Fail | MatrixProduct
)


@final
@dataclass(slots=True)
class Function:
    """A function in loop IR.

    Args:
        name: of the program.
        arguments, results: its buffers, with the shapes of the arrays.
        buffers: all buffers.
        body: its statements.
        rows: names of scalars and of variables that are the elements of an array along an axis.
    """

    name: str
    arguments: list[tuple[Buffer, tuple[int, ...]]]
    results: list[tuple[Buffer, tuple[int, ...]]]
    buffers: list[Buffer]
    body: list[Statement]
    rows: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])


class NoNativeForm(Exception):
    """An operation has no lowering: NumPy's form of it runs."""


LONGEST_ROW: Final = 64
"""Length of a row up to which it is noted."""

OF_ONE_DTYPE: Final = frozenset(
    (
        "add", "sub", "mul", "div", "rest", "and", "or", "xor", "shift_left", "shift_right",
        "minimum", "maximum", "fma", "copysign", "select", "equal", "not_equal", "less",
        "less_equal", "greater", "greater_equal", "arctan2", "hypot", "power", "fmod",
        "remainder", "floor_divide", "logaddexp", "logaddexp2",
    )
)  # fmt: skip
"""Ops whose operands have one dtype; that of a condition is another one."""


@final
@dataclass(slots=True)
class Builder:
    """Append statements to the current block.

    Equal `Let` statements become one, where the first one is visible.
    """

    buffers: list[Buffer] = field(default_factory=list[Buffer])
    body: list[Statement] = field(default_factory=list[Statement])
    rows: list[tuple[str, ...]] = field(default_factory=list[tuple[str, ...]])
    _scopes: list[dict[Hashable, Atom]] = field(default_factory=lambda: [{}])
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def successor(self) -> Builder:
        """Return a builder of other code of the same function."""
        return Builder(self.buffers, rows=self.rows, _numbers=self._numbers)

    def new_name(self, letter: str = "v") -> str:
        """Return a new name."""
        return f"{letter}{next(self._numbers)}"

    def buffer(
        self,
        dtype: DType,
        size: int,
        role: str = "temporary",
        value: np.ndarray[Any, Any] | None = None,
    ) -> Buffer:
        """Add a buffer."""
        made = Buffer(self.new_name("b"), dtype, size, role, value)
        self.buffers.append(made)
        return made

    def note_rows(self, atoms: np.ndarray[Any, Any]) -> None:
        """Note that scalars, or variables, are the elements of an array.

        Args:
            atoms: an array of objects, each an `Atom`.
        """
        if atoms.size < 2 or not all(type(atom) is Scalar for atom in atoms.flat):
            return
        for axis in range(atoms.ndim):
            if 2 <= atoms.shape[axis] <= LONGEST_ROW:
                lines = np.moveaxis(atoms, axis, -1).reshape(-1, atoms.shape[axis])
                self.rows += [tuple([atom.name for atom in line]) for line in lines]

    def remembered(self, key: Hashable) -> Atom | None:
        """Return the scalar that `remember` was called with under a key, if it is visible here."""
        for scope in reversed(self._scopes):
            found = scope.get(key)
            if found is not None:
                return found
        return None

    def remember(self, key: Hashable, value: Atom) -> Atom:
        """Keep a scalar until the end of the current block."""
        self._scopes[-1][key] = value
        return value

    def let(self, op: str, dtype: DType, *operands: Atom) -> Atom:
        """Compute a scalar.

        Raises:
            NoNativeForm: if the dtypes of the operands of an instruction differ.
        """
        if op in OF_ONE_DTYPE:
            first = operands[op == "select"].dtype
            if any(x.dtype != first for x in operands[1:]):
                raise NoNativeForm(f"{op} of {' and '.join(str(x.dtype) for x in operands)}")
        key = (op, dtype, *[(x, repr(x.value)) if type(x) is Const else x for x in operands])
        found = self.remembered(key)
        if found is not None:
            return found
        name = self.new_name()
        self.body.append(Let(name, dtype, op, operands))
        return self.remember(key, Scalar(name, dtype))

    def load(self, buffer: Buffer, index: Affine) -> Atom:
        """Read an element."""
        name = self.new_name()
        self.body.append(Load(name, buffer.dtype, buffer, index))
        return Scalar(name, buffer.dtype)

    def store(self, buffer: Buffer, index: Affine, value: Atom) -> None:
        """Write an element."""
        self.body.append(Store(buffer, index, value))

    def declare(self, value: Atom) -> Scalar:
        """Make a mutable scalar; returns a handle for `get` and `assign`."""
        name = self.new_name("m")
        self.body.append(Declare(name, value.dtype, value))
        return Scalar(name, value.dtype)

    def get(self, variable: Scalar) -> Atom:
        """Read a mutable scalar."""
        name = self.new_name()
        self.body.append(Get(name, variable.dtype, variable.name))
        return Scalar(name, variable.dtype)

    def assign(self, variable: Scalar, value: Atom) -> None:
        """Write a mutable scalar."""
        self.body.append(Assign(variable.name, value))

    def fail(self, value: Atom, code: int) -> None:
        """Return a status if a condition holds."""
        self.body.append(Fail(value, code))

    @contextmanager
    def block(self) -> Generator[list[Statement]]:
        """Collect the statements of a ``with`` block in a list."""
        outer, inner = self.body, list[Statement]()
        self.body = inner
        self._scopes.append({})
        try:
            yield inner
        finally:
            self._scopes.pop()
            self.body = outer

    @contextmanager
    def loop(
        self,
        count: int | Atom,
        *,
        reverse: bool = False,
        independent: bool = False,
        lanes: bool = False,
    ) -> Generator[Scalar]:
        """Write a loop; the ``with`` block is its body, and gets the counter."""
        counter = self.new_name("i")
        steps = Const(count, INT64) if isinstance(count, int) else count
        with self.block() as body:
            yield Scalar(counter, INT64)
        self.body.append(For(counter, steps, reverse, body, independent, lanes))

    @contextmanager
    def loops(self, shape: Sequence[int], *, independent: bool = True) -> Generator[list[Affine]]:
        """Write a loop nest over a shape; the ``with`` block is the innermost body, and gets one index
        per axis.
        """
        bodies: list[tuple[str, int, list[Statement]]] = []
        index: list[Affine] = []
        outer = self.body
        for size in shape:
            if size == 1:
                index.append(ZERO)
                continue
            counter = self.new_name("i")
            body: list[Statement] = []
            bodies.append((counter, size, body))
            index.append(Affine(((counter, 1),)))
        self._scopes.append({})
        if bodies:
            self.body = bodies[-1][2]
        try:
            yield index
        finally:
            self._scopes.pop()
            self.body = outer
        inner: list[Statement] = []
        for counter, size, body in reversed(bodies):
            body[:] = body or inner
            inner = [For(counter, Const(size, INT64), False, body, independent)]
        self.body.extend(inner)


def blocks_of(statement: Statement) -> tuple[list[Statement], ...]:
    """Return the blocks inside a statement."""
    match statement:
        case For(body=body):
            return (body,)
        case While(condition=condition, body=body):
            return condition, body
        case If(then=then, otherwise=otherwise):
            return then, otherwise
        case _:
            return ()


def walk(block: Sequence[Statement]) -> Iterator[Statement]:
    """Yield all statements, those of inner blocks after the statement that holds them."""
    for statement in block:
        yield statement
        for inner in blocks_of(statement):
            yield from walk(inner)


def atoms_of(statement: Statement) -> Iterator[Atom]:
    """Yield the atoms that a statement reads, those of inner blocks excluded."""
    match statement:
        case Let(operands=operands):
            yield from operands
        case Store(value=value) | Declare(value=value) | Assign(value=value):
            yield value
        case While(value=value) | If(value=value) | Fail(value=value):
            yield value
        case For(count=count):
            yield count
        case _:
            pass


def buffers_of(statement: Statement) -> tuple[Buffer, ...]:
    """Return the buffers that a statement itself accesses."""
    match statement:
        case Load(buffer=buffer) | Store(buffer=buffer):
            return (buffer,)
        case MatrixProduct(a=a, b=b, c=c):
            return a[0], b[0], c[0]
        case _:
            return ()


def indices_of(statement: Statement) -> Iterator[Affine]:
    """Yield the indices that a statement uses."""
    match statement:
        case Load(index=index) | Store(index=index):
            yield index
        case MatrixProduct(a=a, b=b, c=c):
            yield from (a[1], b[1], c[1])
        case _:
            pass


def work_of(block: Sequence[Statement]) -> float:
    """Return about how many instructions a block runs; infinity if that depends on values."""
    total = 0.0
    for statement in block:
        match statement:
            case For(count=Const(value=steps), body=body):
                total += steps * work_of(body)
            case For() | While():
                return math.inf
            case If(then=then, otherwise=otherwise):
                total += max(work_of(then), work_of(otherwise))
            case MatrixProduct(sizes=(rows, columns, inner)):
                total += rows * columns * inner
            case _:
                total += 1
    return total


def eliminate_dead_code(function: Function) -> None:
    """Remove scalars that nothing reads, stores to temporaries that nothing loads, and empty loops."""
    while True:
        read: set[str] = set()
        loaded: set[str] = set()
        for statement in walk(function.body):
            read.update(atom.name for atom in atoms_of(statement) if type(atom) is Scalar)
            for index in indices_of(statement):
                read.update(name for name, _ in index.terms)
            if type(statement) is Load:
                loaded.add(statement.buffer.name)
            elif type(statement) is Get:
                read.add(statement.variable)
            elif type(statement) is MatrixProduct:
                loaded.update((statement.a[0].name, statement.b[0].name))

        if not _filter(function.body, _Reads(read, loaded)):
            break
    used = {buffer.name for s in walk(function.body) for buffer in buffers_of(s)}
    function.buffers[:] = [
        b for b in function.buffers if b.role in ("argument", "result") or b.name in used
    ]


class _Reads(NamedTuple):
    """Names of the scalars, and of the buffers, that a function reads."""

    scalars: set[str]
    buffers: set[str]

    def keeps(self, statement: Statement) -> bool:
        """Return True if something reads what a statement computes."""
        match statement:
            case Let() | Load() | Get() | Declare():
                return statement.name in self.scalars
            case Assign():
                return statement.variable in self.scalars
            case Store(buffer=buffer) | MatrixProduct(c=(buffer, _, _)):
                return buffer.role != "temporary" or buffer.name in self.buffers
            case For(body=body):
                return bool(body)
            case If(then=then, otherwise=otherwise):
                return bool(then or otherwise)
            case _:
                return True


def _filter(block: list[Statement], reads: _Reads) -> bool:
    """Keep the live statements of a block; return True if one was removed."""
    changed = False
    for statement in block:
        for inner in blocks_of(statement):
            changed |= _filter(inner, reads)
    kept = [statement for statement in block if reads.keeps(statement)]
    changed |= len(kept) != len(block)
    block[:] = kept
    return changed
