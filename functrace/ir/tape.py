"""The tape: the compact form of a program, and the builder that writes it.

Note [The tape]
    A tape has one entry per variable, ``(primitive, operands, params)``; a variable *is* its
    position. Operands are ints: ``0, 1, 2 …`` are variables, ``-1, -2 …`` are Python literals,
    whose values are stored separately in ``literals`` (``-1`` is ``literals[0]``). So an
    environment is one list, ``[values of variables] + reversed(literals)``, in which
    ``env[operand]`` finds either kind; and the tape itself, which contains no values, is the cache
    key of transformed programs. Inputs and captured values have entries too (`INPUT`, `CONSTANT`),
    as have further results of an operation (`RESULT`). An operation without results has no entry:
    nothing can read it. Recording an operation is three appends. Equation objects are views made on
    demand (`Program.equations`): measured, making them would cost more than the recording itself.

Note [Columns]
    While a tape is recorded, primitives, operands and params are a list each (`Builder`); a program
    made from it keeps the columns if it runs on the baseline tier (`Columns`). A tuple per
    operation contains a primitive, so Python's cycle collector would visit it in every full
    collection; it untracks tuples of numbers. Measured with 100,000 operations: recording takes 1.9
    us each with a tuple, 1.2 with columns; with 1,000 operations both take the same. Transforms and
    passes, which need random access, and the programs that they make, use rows (`Program.ops`).

Layer: 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, final, overload

from functrace.caches import BoundedCache, CacheEntry, MemoTable
from functrace.ir.aval import Constant, ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Primitive
from functrace.typing import Scalar

Op = tuple[Primitive, tuple[int, ...], tuple[Any, ...]]
Operands = tuple[int, ...]
Params = tuple[Any, ...]
Spec = ShapeDtype | type[Any]
"""Argument of an aval rule for an operand: its aval, or the Python type of a literal."""

_MOST_INFERRED = 20_000
inferred = MemoTable("avals of results", _MOST_INFERRED)
"""Avals of results by (primitive, operand specs, params)."""
at_sight = MemoTable("avals of results, for hot paths", _MOST_INFERRED)
"""The same by (primitive, spec, spec), or (primitive, spec, params): a shorter key is faster."""
failing = MemoTable("avals of results that may fail", _MOST_INFERRED)
"""The same for operations that may fail on values, which must not be recorded on the fast path."""


@final
class _Avals(CacheEntry):
    """Avals of the results of an operation with sub-programs, cached under it.

    The key is compared by hash: a recursive custom rule becomes equal to others once it is defined.
    """

    __slots__ = ("avals", "made_for")

    def __init__(self, avals: tuple[ShapeDtype, ...], made_for: object) -> None:
        super().__init__()
        self.made_for = made_for
        self.avals = avals


_held: BoundedCache[_Avals] = BoundedCache(
    "avals of results of operations that hold programs", 32 << 20, _MOST_INFERRED
)


def infer(
    primitive: Primitive, specs: tuple[Spec, ...], params: tuple[Any, ...]
) -> tuple[ShapeDtype, ...]:
    """Return the avals of the results, cached by (primitive, specs, params)."""
    key = (primitive, specs, params)
    if primitive.holds is not None:
        kept = _held.entries.get(hash(key))
        if kept is not None and kept.made_for == key:
            kept.used = _held.tick()
            return kept.avals
    else:
        found = inferred.get(key) or failing.get(key)
        if found is not None:
            return found
    made = primitive.aval(*specs, *params)
    found = made if isinstance(made, tuple) else (made,)
    if primitive.fails is not None and primitive.fails(*specs, *params):
        return failing.keep(key, found)
    if primitive.holds is None:
        return inferred.keep(key, found)
    _held.add(hash(key), _Avals(found, key))
    return found


@final
class Columns(Sequence[Op]):
    """A tape by columns; as a sequence, its rows. See Note [Columns].

    Args:
        primitives, operands, params: of the entries.
    """

    __slots__ = ("operands", "params", "primitives")

    def __init__(
        self,
        primitives: Sequence[Primitive],
        operands: Sequence[Operands],
        params: Sequence[Params],
    ) -> None:
        self.primitives, self.operands, self.params = primitives, operands, params

    @classmethod
    def of(cls, rows: Sequence[Op]) -> Columns:
        """Make columns of rows."""
        return cls([op[0] for op in rows], [op[1] for op in rows], [op[2] for op in rows])

    def __len__(self) -> int:
        return len(self.primitives)

    def __iter__(self) -> Iterator[Op]:
        return zip(self.primitives, self.operands, self.params, strict=True)

    @overload
    def __getitem__(self, k: int) -> Op: ...
    @overload
    def __getitem__(self, k: slice) -> list[Op]: ...
    def __getitem__(self, k: int | slice) -> Op | list[Op]:
        if isinstance(k, slice):
            return list(zip(self.primitives[k], self.operands[k], self.params[k], strict=True))
        return self.primitives[k], self.operands[k], self.params[k]


class Builder:
    """Writes a tape.

    Example:
        >>> from functrace.ops.elementwise import sin
        >>> build = Builder()
        >>> x = build.input(ShapeDtype((3,), "float64"))
        >>> y = build.append(sin, (x,), (build.avals[x],))
        >>> build.avals[y]
        f64[3]
    """

    __slots__ = (
        "__weakref__",
        "avals",
        "constants",
        "inputs",
        "literals",
        "operands",
        "params",
        "primitives",
    )

    def __init__(self) -> None:
        self.primitives: list[Primitive] = []
        self.operands: list[Operands] = []
        self.params: list[Params] = []
        self.avals: list[ShapeDtype] = []
        self.literals: list[Scalar] = []
        self.inputs: list[int] = []
        self.constants: dict[int, Any] = {}

    @property
    def columns(self) -> Columns:
        """The entries so far."""
        return Columns(self.primitives, self.operands, self.params)

    ops = columns

    def input(self, aval: ShapeDtype) -> int:
        """Add an input; return its variable."""
        self.inputs.append(len(self.primitives))
        return self._entry(INPUT, aval)

    def constant(self, value: Constant, aval: ShapeDtype) -> int:
        """Add a constant; return its variable."""
        self.constants[len(self.primitives)] = value
        return self._entry(CONSTANT, aval)

    def literal(self, value: Scalar) -> int:
        """Add a Python number; return its (negative) operand number."""
        self.literals.append(value)
        return -len(self.literals)

    def append(
        self,
        primitive: Primitive,
        operands: tuple[int, ...],
        specs: tuple[Spec, ...],
        params: tuple[Any, ...] = (),
    ) -> int:
        """Add an operation; return the variable of its first result, if it has any."""
        variable = len(self.primitives)
        self.entries(primitive, operands, params, infer(primitive, specs, params))
        return variable

    def entries(
        self,
        primitive: Primitive,
        operands: tuple[int, ...],
        params: tuple[Any, ...],
        avals: tuple[ShapeDtype, ...],
    ) -> int:
        """Write the entries of an operation, one per result; return their number.

        An operation without results has none: nothing could read it.
        """
        if avals:
            variable = len(self.primitives)
            self.write(primitive, operands, params, avals[0])
            for k in range(1, len(avals)):
                self.write(RESULT, (variable,), (k,), avals[k])
        return len(avals)

    def write(
        self, primitive: Primitive, operands: Operands, params: Params, aval: ShapeDtype
    ) -> None:
        """Write one entry."""
        self.primitives.append(primitive)
        self.operands.append(operands)
        self.params.append(params)
        self.avals.append(aval)

    def begin(self, tape: Columns, avals: Sequence[ShapeDtype]) -> None:
        """Initialize with an existing tape."""
        self.primitives, self.operands, self.params = (
            list(tape.primitives),
            list(tape.operands),
            list(tape.params),
        )
        self.avals = list(avals)

    def spec(self, operand: int) -> Spec:
        """Return the argument of an aval rule for an operand."""
        return self.avals[operand] if operand >= 0 else self.literals[~operand].__class__

    def _entry(self, primitive: Primitive, aval: ShapeDtype) -> int:
        self.write(primitive, (), (aval,), aval)
        return len(self.primitives) - 1
