"""Derivations with symbolic sizes, positions and numbers: one derivation serves many shapes.

The derivative of ``x + y`` is the same program for all shapes in which the same axes have equal
sizes, up to the sizes that it contains. So once a pattern of operands (`Pattern`) occurs with a
second set of sizes, it is derived with symbolic numbers (`SymbolicNumber`) in place of the sizes, and
plans are made by substituting concrete sizes. Each comparison that a rule of the core evaluates on
a symbolic number becomes a guard: if it fails for the concrete sizes, another derivation is made.
If a rule needs a concrete number, plans are specialized to that number.

    DERIVATIONS.find -> ByPattern: op, dtypes, equal sizes -> BySizes: n0 < n1? -> … -> Derived

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, final

from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.filling import ProgramTemplate, filling
from functrace.ir.symbolic_numbers import Comparison, NeedsConcreteNumber
from functrace.specialize import Guard, Miss, Specialization, Table
from functrace.torch.dispatch.derivation import Case, Move, derive
from functrace.torch.dispatch.patterns import Pattern
from functrace.torch.dispatch.plans import (
    MOST_BYTES,
    MOST_PLANS,
    PLANS,
    OpPlan,
    Pullback,
    forward_of,
)
from functrace.torch.tensors.tensor import Tensor

if TYPE_CHECKING:
    from functrace.torch.dispatch.applying import Op

MOST_DERIVED = 8
"""Maximum number of derivations of one pattern; beyond it, every set of concrete numbers gets its
own plan.
"""


class DerivationKey(NamedTuple):
    """Cache key of an operation, which guards read.

    Args:
        pattern: the part of the key that does not depend on sizes.
        given: concrete sizes and numbers.
    """

    pattern: Hashable
    given: Sequence[Any]


@final
class PatternGuard:
    """Guard: the op, dtypes, which sizes are equal, and which operands require grad."""

    __slots__ = ()

    def outcome(self, call: DerivationKey) -> Hashable:
        """Return the pattern."""
        return call.pattern

    def why(self, kept: Sequence[Hashable], now: Hashable) -> str:
        """Explain a miss: the pattern is not cached."""
        return f"other dtypes, ranks, equal sizes or params than those of the {len(kept)} patterns that are kept"

    def merged(self, other: Guard[Any]) -> PatternGuard | None:
        """Return itself if the other guard is the same object: there is only one."""
        return self if other is self else None


@final
class SizesGuard:
    """Guard: a comparison that a rule evaluated on symbolic sizes and numbers."""

    __slots__ = ("comparison",)

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison

    def outcome(self, call: DerivationKey) -> bool | None:
        """Evaluate the comparison for concrete numbers; ``None`` if the arithmetic fails."""
        try:
            return self.comparison.outcome(call.given)
        except ArithmeticError:
            return None

    def why(self, kept: Sequence[Hashable], now: Hashable) -> str:
        """Explain a miss: the comparison has another result."""
        return f"{self.comparison} is {now}, not {' or '.join(map(str, kept))}"

    def merged(self, other: Guard[Any]) -> SizesGuard | None:
        """Return itself if the other guard is the same comparison."""
        return (
            self
            if isinstance(other, SizesGuard) and str(self.comparison) == str(other.comparison)
            else None
        )


@final
class SymbolicDerivation(Specialization):
    """Derivation of a case with symbolic sizes; a `OpPlan` instantiates it for concrete sizes.

    Args:
        case: the case, with symbolic sizes, positions and numbers.

    Raises:
        NeedsConcreteNumber: if a concrete number is needed.
    """

    __slots__ = (
        "_fill_moves", "_fill_outputs", "backward", "case", "computing", "derivation", "forward",
        "plan_bytes", "pullback",
    )  # fmt: skip

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.case = case
        self.forward = forward_of(case)
        self.derivation = derive(case)
        self.backward: ProgramTemplate | None = None
        self.computing: ProgramTemplate | None = None
        self.pullback: Pullback | None = None
        """Pullback that serves all sizes, if the computing part of the program contains none."""
        self.plan_bytes: dict[Hashable, int] = {}
        """Bytes that one of its plans owns, by what that plan has made so far."""
        self._fill_outputs: list[
            tuple[int, Callable[[Sequence[Any]], ShapeDtype] | None, ShapeDtype]
        ] = []
        self._fill_moves: Callable[[Sequence[Any]], tuple[Move | None, ...]] | None = None
        derivation = self.derivation
        if derivation is not None:
            specs = case.specs
            self._fill_outputs = [
                (specs.index(aval), None, aval) if aval in specs else (-1, filling(aval), aval)
                for aval in derivation.outputs
            ]
            self._fill_moves = filling(derivation.moves)
            self.backward = ProgramTemplate(derivation.backward)
            if derivation.computing is not None:
                runner = Runner(derivation.computing)
                self.computing = ProgramTemplate(runner.flat)
                self.pullback = Pullback(runner, derivation) if self.computing.is_concrete else None

    def outputs(self, case: Case, given: Sequence[Any]) -> tuple[ShapeDtype, ...]:
        """Return the avals of the results for given sizes."""
        return tuple([
            case.specs[k] if k >= 0 else aval if fill is None else fill(given) for k, fill,
            aval in self._fill_outputs
        ])  # fmt: skip

    def moves(self, given: Sequence[Any]) -> tuple[Move | None, ...]:
        """Return the sources of the gradients for given sizes."""
        assert self.derivation is not None
        return self.derivation.moves if self._fill_moves is None else self._fill_moves(given)


@final
class NoSymbolicDerivation(Specialization):
    """A pattern that occurred with only one set of sizes, or that needs concrete numbers.

    Args:
        derives: True if the second set of sizes triggers a derivation with symbolic sizes.
    """

    __slots__ = ("derives",)

    def __init__(self, *, derives: bool) -> None:
        super().__init__(assumed=1 << 10)
        self.derives = derives


DERIVATIONS: Table[SymbolicDerivation | NoSymbolicDerivation] = Table(
    "derivatives of tensor operations for unknown sizes", PatternGuard(), MOST_BYTES, MOST_PLANS
)


def plan_of(case: Case) -> OpPlan:
    """Make a plan: from a derivation with symbolic sizes whose guards hold, or for these sizes
    alone.
    """
    op = case.op
    if not case.is_wide:
        return OpPlan(case)
    opens = op.measures or any(type(spec) is tuple for spec in case.specs)
    for deep in (True, False) if opens else (False,):
        pattern = Pattern(case.specs, case.params, deep, deep and op.measures)
        if not pattern.given:
            break
        call = DerivationKey((op, case.active, *pattern.key), pattern.given)
        found = DERIVATIONS.find(call)
        if isinstance(found, Miss) and found.node is DERIVATIONS.root:
            DERIVATIONS.insert(
                [(found.node.guard, found.outcome)], NoSymbolicDerivation(derives=True)
            )
            break
        if isinstance(found, Miss) or (isinstance(found, NoSymbolicDerivation) and found.derives):
            found = _derived(case, pattern, call, found)
        if isinstance(found, SymbolicDerivation):
            return OpPlan(case, found, pattern.given)
    return OpPlan(case)


def _derived(
    case: Case, pattern: Pattern, call: DerivationKey, found: Miss | NoSymbolicDerivation
) -> SymbolicDerivation | NoSymbolicDerivation | None:
    """Derive with symbolic sizes, and cache the outcome; ``None`` for numbers on which guards
    cannot be evaluated.
    """
    node = DERIVATIONS.root.next.get(call.pattern)
    if isinstance(found, Miss) and (
        found.outcome is None or sum(1 for _ in DERIVATIONS.leaves(node)) >= MOST_DERIVED
    ):
        return None
    comparisons, specs, params = pattern.unknown()
    made: SymbolicDerivation | NoSymbolicDerivation
    try:
        made = SymbolicDerivation(Case(case.op, specs, params, case.active))
    except (
        NeedsConcreteNumber,
        Exception,
    ):  # a plan for the concrete numbers will raise the error again
        made = NoSymbolicDerivation(derives=False)
    comparisons.is_closed = True
    path: list[tuple[Guard[Any], Hashable]] = [(DERIVATIONS.root.guard, call.pattern)]
    for comparison, outcome in comparisons.recorded:
        guard = SizesGuard(comparison)
        if guard.outcome(call) is not outcome:  # NumPy's numbers overflow where Python's do not
            return None
        path.append((guard, outcome))
    DERIVATIONS.insert(path, made)
    return made


def make_plan(key: tuple[Any, ...], operands: Sequence[Any], mask: int) -> OpPlan:
    """Make and cache the plan of an op and its operands."""
    op, params = key[:2]
    plan = plan_of(case_of(op, operands, params, mask))
    PLANS.add(key, plan)
    return plan


def case_of(op: Op, operands: Sequence[Any], params: tuple[Any, ...], mask: int) -> Case:
    """Return the case of an op and its operands; bit k of ``mask`` is set if operand k requires a
    gradient.
    """
    is_static, edges = op.static_numbers, op.edges
    specs: list[Any] = []
    active: list[bool] = []
    for k, x in enumerate(operands):
        if isinstance(x, Tensor):
            aval = aval_of(x._array)
            specs.append(aval)
            active.append(
                bool(mask >> k & 1) and aval.dtype.kind in "fcV" and (edges is None or k in edges)
            )
        else:
            specs.append((type(x), x) if is_static else type(x))
            active.append(False)
    return Case(op, tuple(specs), params, tuple(active))
