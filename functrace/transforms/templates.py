"""Templates: the derivative of one operation as a piece of tape, recorded once from its rules.

The operations that linearizing and transposing an operation adds to a program depend only on the
primitive, on its operands (avals, or types of numbers), on its params and on which operands are
active. So they are recorded once, on a program of that one operation, and cached. A program that is
differentiated repeatedly in new forms (a Python loop, the first time) is assembled from these
pieces without calling rules: 1 us per operation instead of 7.

Note [The order of contributions]
    Sums of cotangents must equal those of the rules bit for bit. A template therefore lists the
    contributions to operands in the order of the transpose; each is added to the sum before it. And
    where the tangent of a result *is* an operand's tangent (``x + 1``), both share one cotangent
    from the beginning: `Template.alias`.

Note [Numbers that rules look at]
    ``x ** 2`` has another derivative than ``x ** 3``, so numbers among the operands are part of the
    key, unless the primitive declares that its rule never reads them (`Primitive.blind`): a loop
    counter would fill the cache.

Note [When a template is made]
    Making one takes as long as calling the rules eight times. So it is made for a program with
    enough operations to amortize it, or when the operation is differentiated for the second time.

Primitives with sub-programs, user code, effects or several results have no template: `forward`
calls their rules.

Layer: 4.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple, final

from functrace.caches import BoundedCache, CacheEntry, MemoTable
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, ZERO, NoRule, Primitive, ReplacingJvp
from functrace.ir.program import Program
from functrace.ir.tape import Builder, Spec
from functrace.keys import number_key
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms.building import is_differentiable
from functrace.transforms.rules import tangent_variable, tangents_by_rule
from functrace.transforms.transpose import linear_variables, pull_cotangents
from functrace.typing import Scalar

RULES_PER_TEMPLATE = 8
"""Making a template takes as long as calling the rules for this many operations."""


class TemplateOperation(NamedTuple):
    """One operation of a template.

    Args:
        primitive: its primitive.
        operands: slots: from 0 the operands of the operation, then its result, then the result's
            cotangent, then the pieces in order; -1, -2 … are the template's numbers. (For a piece
            that pushes tangents forward: after the residuals the tangents of the operands, then
            such pieces in order.)
        params: static parameters.
        aval: aval of the result.
    """

    primitive: Primitive
    operands: tuple[int, ...]
    params: tuple[Any, ...]
    aval: ShapeDtype


@final
class Template(CacheEntry):
    """The derivative of one operation as a piece of tape.

    Args:
        pieces: the operations that it adds to a tape.
        ahead: number of leading pieces that do not depend on the cotangent: residuals.
        numbers: numbers of its pieces; a number that is an operand of the operation is its
            position, in a tuple.
        constants: values of constants among its pieces, by index of the piece.
        contributions: position of an operand, slot of its contribution, and number of pieces before
            that; see Note [The order of contributions].
        moves: True if the result has a tangent.
        alias: position of the operand with the same tangent as the result; -1 if the result has its
            own.
        captured: slots of the residuals of the linear part, in order.
        read_behind: slots that the pieces that depend on the cotangent read: residuals, too.
        pushing: pieces of the linear part itself: from operands' tangents to the result's.
        tangent: slot of the result's tangent.
        specs: avals of the operands (or types of numbers), of the result and of its cotangent, for
            the first slots.
        exists: False for `nothing`.
    """

    __slots__ = (
        "ahead",
        "alias",
        "captured",
        "constants",
        "contributions",
        "exists",
        "kernel",
        "moves",
        "numbers",
        "pieces",
        "pushing",
        "read_behind",
        "specs",
        "tangent",
    )

    def __init__(
        self,
        pieces: tuple[TemplateOperation, ...] = (),
        ahead: int = 0,
        numbers: tuple[Scalar | tuple[int], ...] = (),
        constants: dict[int, Any] | None = None,
        contributions: tuple[tuple[int, int, int], ...] = (),
        moves: bool = False,
        alias: int = -1,
        captured: tuple[int, ...] = (),
        pushing: tuple[TemplateOperation, ...] = (),
        tangent: int = -1,
        specs: tuple[Spec, ...] = (),
        exists: bool = True,
    ) -> None:
        self.exists = exists
        self.pushing, self.tangent, self.specs = pushing, tangent, specs
        self.pieces, self.ahead, self.numbers = pieces, ahead, numbers
        self.constants = constants or {}
        self.contributions = contributions
        self.moves, self.alias, self.captured = moves, alias, captured
        cotangent, behind = len(specs) - 1, range(len(specs) + ahead, len(specs) + len(pieces))
        read = {i for piece in pieces[ahead:] for i in piece.operands if i >= 0} | {
            slot for _, slot, _ in contributions
        }
        self.read_behind = tuple(sorted([i for i in read if i != cotangent and i not in behind]))
        self.kernel: Any = None
        """Compiled form, made by the executor."""
        super().__init__(assumed=1 << 16 if constants else 1 << 13)


def nothing() -> Template:
    """Return a new marker for an operation without a template: cache entries are unique."""
    return Template(exists=False)


TEMPLATES: BoundedCache[Template] = BoundedCache("derivatives of operations", 16 << 20, 1 << 14)
_encountered = MemoTable("operations without a template", 1 << 12)
"""Operations that have been differentiated by their rules once."""


@final
class MissingTemplates:
    """Decides when to make missing templates; see Note [When a template is made].

    Args:
        size: number of operations of the program.
        by_rules: True to use no templates.
        calls_rules: True if the rule is called without a template; otherwise another walk does so.
    """

    __slots__ = ("_allowed", "_by_rules", "_calls_rules")

    def __init__(self, size: int, *, by_rules: bool, calls_rules: bool) -> None:
        self._allowed = size // RULES_PER_TEMPLATE
        self._by_rules, self._calls_rules = by_rules, calls_rules

    def template(self, key: Any) -> Template | None:
        """Return a new template for a key, or ``None`` to call the rule."""
        primitive: Primitive = key[0]
        if self._by_rules or not may_have_template(primitive):
            return None
        if self._allowed:
            self._allowed -= 1
        elif key not in _encountered:
            if self._calls_rules:
                _encountered.keep(key, True)
            return None
        template = _made(key)
        TEMPLATES.add(key, template)
        return template


def may_have_template(primitive: Primitive) -> bool:
    """Return True if an operation can have a template."""
    return not (
        primitive.many
        or primitive.holds is not None
        or primitive.effects
        or primitive.kept is not None
        or type(primitive.jvp) is ReplacingJvp
        or type(primitive.jvp) is NoRule
    )


def note_use(templates: Iterable[Template]) -> None:
    """Mark templates as used, so that they stay in the cache."""
    for template in templates:
        template.used = TEMPLATES.tick()


def key_of(
    primitive: Primitive,
    operands: tuple[int, ...],
    params: tuple[Any, ...],
    flags: tuple[int, ...],
    program: Program,
) -> Any:
    """Return the key of an operation; `forward` inlines this for one and two operands."""
    avals, literals = program.avals, program.literals
    specs = tuple([avals[i] if i >= 0 else literals[~i].__class__ for i in operands])
    numbers = tuple(
        [
            number_key(x)
            for x in [literals[~i] for i in operands if i < 0]
            if not primitive.blind or x.__class__ is bool
        ]
    )
    distinct = tuple(dict.fromkeys(operands))
    pattern = (
        ()
        if len(distinct) == len(operands)
        else tuple([distinct.index(i) if i >= 0 else -1 for i in operands])
    )
    return (primitive, specs, params, flags, *numbers, pattern)


def _unnumbered(part: Any, kind: type[Any]) -> Scalar:
    """Return the number in a key."""
    if type(part) is bytes:
        real, imag = struct.unpack("dd", part)
        return complex(real, imag) if kind is complex else real
    return part


_STAND_INS: dict[type[Any], str] = {
    float: "0.7390851332151607",
    int: "7390851332151607",
    complex: "0.739085+0.2151607j",
}
"""Stand-ins for numbers in calls of blind rules: unique objects, found by identity afterwards."""


def _made(key: Any) -> Template:
    """Make the template of an operation by its rules; `nothing` if they do not give one."""
    primitive, specs, params, mask, *rest = key
    if len(specs) < 3:
        pattern: tuple[int, ...] = (0, 0) if mask == 7 else ()
        flags = tuple([(mask >> k) & 1 for k in range(len(specs))])
    else:
        flags, pattern = mask, rest.pop()
    build = Builder()
    operands: list[int] = []
    numbers = iter(rest)
    stand_ins: dict[int, int] = {}
    for place, spec in enumerate(specs):
        if not isinstance(spec, type):
            first = pattern.index(pattern[place]) if pattern else place
            operands.append(build.input(spec) if first == place else operands[first])
        elif primitive.blind and spec is not bool:
            number = spec(_STAND_INS[spec])
            stand_ins[id(number)] = place
            operands.append(build.literal(number))
        else:
            operands.append(build.literal(_unnumbered(next(numbers), spec)))
    try:
        return _recorded(build, primitive, tuple(operands), specs, params, flags, stand_ins)
    except Exception:  # the rules will raise again, at the user's line
        return nothing()


def _recorded(
    build: Builder,
    primitive: Primitive,
    operands: tuple[int, ...],
    specs: tuple[Spec, ...],
    params: tuple[Any, ...],
    flags: tuple[int, ...],
    stand_ins: dict[int, int],
) -> Template:
    """Linearize and transpose one operation; return the resulting pieces."""
    result = build.append(primitive, operands, specs, params)
    if len(build.primitives) != result + 1:
        return nothing()
    if primitive.jvp is ZERO or not is_differentiable(build.avals[result]):
        return Template()  # not `nothing`: it carries no derivative
    places = {i: place for place, i in reversed(list(enumerate(operands))) if i >= 0}
    known = ArrayRecording("linearize of operation", keeps_source=False)
    known.begin(build.columns, build.avals)
    known.inputs, known.literals = list(build.inputs), list(build.literals)
    linear = ArrayRecording("linear part of operation", keeps_source=False)
    dots = {i: linear.new_input(build.avals[i]) for i in build.inputs if flags[places[i]]}
    _, (dot,) = tangents_by_rule(
        primitive,
        tuple([known.handle(i) if i >= 0 else build.literals[~i] for i in operands]),
        lambda: (known.handle(result),),
        tuple([dots.get(i) for i in operands]),
        params,
        together=False,
        at=lambda: None,
    )
    tangent = tangent_variable(linear, dot, build.avals[result])
    if any(not isinstance(value, Tracer) for value in linear.constants.values()):
        return nothing()
    captures = [value.ft_variable for value in linear.constants.values()]
    if tangent is None:
        return nothing() if captures else Template()
    starts = {dots[i].ft_variable: places[i] for i in dots}
    if tangent in starts:
        return nothing() if captures else Template(moves=True, alias=starts[tangent])
    cotangent = known.new_input(build.avals[result])
    captured, literals = linear.constants, linear.literals
    reached: list[tuple[int, Any, int]] = []
    pull_cotangents(
        linear.ops,
        linear.avals,
        linear_variables(linear.ops, list(linear.inputs)),
        lambda i: captured[i] if i >= 0 else literals[~i],
        {tangent: cotangent},
        known,
        reached=dict.fromkeys(starts, reached),
    )
    slots = dict(places)
    slots[result], slots[cotangent.ft_variable] = len(operands), len(operands) + 1
    numbers: list[Scalar | tuple[int]] = []
    constants: dict[int, Any] = {}
    pieces: list[TemplateOperation] = []
    pushing: list[TemplateOperation] = []

    def add(tape: Recording, k: int, slots: dict[int, int], to: list[TemplateOperation]) -> bool:
        made, ids, static = tape.primitives[k], tape.operands[k], tape.params[k]
        if (
            made is RESULT
            or made is INPUT
            or made.many
            or made.holds is not None
            or made.effects
            or made.kept is not None
        ):
            return False
        where: list[int] = []
        for i in ids:
            if i >= 0:
                where.append(slots[i])
                continue
            number = tape.literals[~i]
            place = stand_ins.get(id(number))
            numbers.append(number if place is None else (place,))
            where.append(-len(numbers))
        to.append(TemplateOperation(made, tuple(where), static, tape.avals[k]))
        return True

    ahead = cotangent.ft_variable - result - 1
    for k in range(result + 1, len(known.primitives)):
        if k == cotangent.ft_variable:
            continue
        if known.primitives[k] is CONSTANT:
            constants[len(pieces)] = known.constants[k]
        slots[k] = len(operands) + 2 + len(pieces)
        if not add(known, k, slots, pieces):
            return nothing()
    first = len(operands) + 2 + ahead
    pushed = {i: slots[value.ft_variable] for i, value in captured.items()} | {
        i: first + place for i, place in starts.items()
    }
    for k in range(len(linear.primitives)):
        if k not in pushed:
            pushed[k] = first + len(operands) + len(pushing)
            if not add(linear, k, pushed, pushing):
                return nothing()
    if any(isinstance(value, Tracer) for value in constants.values()):
        return nothing()
    contributions: list[tuple[int, int, int]] = []
    for start, part, length in reached:
        if not isinstance(part, Tracer) or part.ft_recording is not known:
            return nothing()
        contributions.append(
            (starts[start], slots[part.ft_variable], length - result - 2)
        )  # less the cotangent's own entry
    linear.close()
    known.close()
    return Template(
        tuple(pieces),
        ahead,
        tuple(numbers),
        constants,
        tuple(contributions),
        moves=True,
        captured=tuple([slots[i] for i in captures]),
        pushing=tuple(pushing),
        tangent=pushed[tangent],
        specs=(*specs, build.avals[result], build.avals[result]),
    )
