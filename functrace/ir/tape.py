"""The tape: the compact form of a program, and the builder that writes it.

Note [The tape]
    A tape is a list with one entry per variable, ``(primitive, operands, params)``; a variable
    *is* its position in that list. Operands are ints: ``0, 1, 2 …`` name variables, ``-1, -2 …`` name
    Python literals, whose values stand apart in ``literals`` (``-1`` is ``literals[0]``). So an environment
    is one list, ``[values of variables] + reversed(literals)``, in which ``env[operand]`` finds either kind;
    and the tape itself, which holds no values, is the key under which transformed programs are cached.
    Inputs and captured values have entries too (`INPUT`, `CONSTANT`), as have further results of an
    operation (`RESULT`). An operation without results has no entry: nothing can read it.
    Recording an operation is one append of one small tuple. Equations as objects are views made
    when somebody asks (`Program.equations`): measured, they would cost more than the recording itself.

Floor: 0.
"""

from __future__ import annotations

from typing import Any, final

from functrace.caches import BYTES_PER_OP, Bounded, Facts, Kept
from functrace.ir.aval import Constant, ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Holds, Primitive
from functrace.typing import Scalar

Op = tuple[Primitive, tuple[int, ...], tuple[Any, ...]]
Spec = ShapeDtype | type[Any]
"""What an aval rule is told of an operand: its aval, or the Python type of a literal."""

_MOST_INFERRED = 20_000
inferred = Facts("avals of results", _MOST_INFERRED)
"""Avals of results by (primitive, operand specs, params)."""
at_sight = Facts("avals of results, for hot paths", _MOST_INFERRED)
"""The same by (primitive, spec, spec), and by (primitive, spec, params) for one operand: a shorter key is found sooner."""
failing = Facts("avals of results that may fail", _MOST_INFERRED)
"""The same for operations that may fail on values: apart, so that recording them never takes the shortest path."""


@final
class _Avals(Kept):
    """Avals of the results of an operation that holds programs: they are part of what it was made for.

    It stands under the hash of that: a custom rule that calls its own function becomes equal to others when it is known.
    """

    __slots__ = ("avals", "made_for")

    def __init__(
        self, avals: tuple[ShapeDtype, ...], holds: Holds, specs: tuple[Spec, ...], params: tuple[Any, ...], made_for: object
    ) -> None:
        runs = holds.runs(specs, *params)
        self.made_for = made_for
        super().__init__(BYTES_PER_OP * (1 + sum(len(program.ops) for choice in runs for _, program in choice)))
        self.avals = avals


_held: Bounded[_Avals] = Bounded("avals of results of operations that hold programs", 32 << 20, _MOST_INFERRED)


def infer(primitive: Primitive, specs: tuple[Spec, ...], params: tuple[Any, ...]) -> tuple[ShapeDtype, ...]:
    """Return the avals of the results, remembered per (primitive, specs, params)."""
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
    _held.add(hash(key), _Avals(found, primitive.holds, specs, params, key))
    return found


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

    __slots__ = ("__weakref__", "avals", "constants", "inputs", "literals", "ops")

    def __init__(self) -> None:
        self.ops: list[Op] = []
        self.avals: list[ShapeDtype] = []
        self.literals: list[Scalar] = []
        self.inputs: list[int] = []
        self.constants: dict[int, Any] = {}

    def input(self, aval: ShapeDtype) -> int:
        """Add an input; returns its variable."""
        self.inputs.append(len(self.ops))
        return self._entry(INPUT, aval)

    def constant(self, value: Constant, aval: ShapeDtype) -> int:
        """Add a value that the program owns; returns its variable."""
        self.constants[len(self.ops)] = value
        return self._entry(CONSTANT, aval)

    def literal(self, value: Scalar) -> int:
        """Add a Python number; returns the (negative) operand that stands for it."""
        self.literals.append(value)
        return -len(self.literals)

    def append(
        self, primitive: Primitive, operands: tuple[int, ...], specs: tuple[Spec, ...], params: tuple[Any, ...] = ()
    ) -> int:
        """Add an operation; returns the variable of its first result (further ones follow it), if it has any."""
        variable = len(self.ops)
        self.entries(primitive, operands, params, infer(primitive, specs, params))
        return variable

    def entries(
        self, primitive: Primitive, operands: tuple[int, ...], params: tuple[Any, ...], avals: tuple[ShapeDtype, ...]
    ) -> int:
        """Write the entries of an operation, one per result, with the avals of the results; returns how many.

        An operation without results has none: nothing could read what it does.
        """
        ops = self.ops
        if avals:
            variable = len(ops)
            ops.append((primitive, operands, params))
            self.avals.extend(avals)
            for k in range(1, len(avals)):
                ops.append((RESULT, (variable,), (k,)))
        return len(avals)

    def spec(self, operand: int) -> Spec:
        """Return what an aval rule is told of an operand."""
        return self.avals[operand] if operand >= 0 else self.literals[~operand].__class__

    def _entry(self, primitive: Primitive, aval: ShapeDtype) -> int:
        variable = len(self.ops)
        self.ops.append((primitive, (), (aval,)))
        self.avals.append(aval)
        return variable
