"""Templates: the derivative of one operation as a piece of tape, made once from its rules.

What linearizing an operation, and transposing that, adds to a program depends on the primitive, on what its operands are
(avals, or types of numbers), on its params and on which operands carry derivatives; on nothing around it. So it is recorded
once, on a program of that one operation, and kept. Where a program is differentiated again and again in new forms (a loop
in Python, the first time), the pieces are put one after the other, and no rule is called: 1 us per operation instead of 7.

Note [The order of contributions]
    Sums of cotangents must be the rules', to the last bit. A template therefore lists what reaches the operands, in the
    order in which the transpose reaches them; each is added onto what was there, one after the other. And where the tangent
    of a result *is* that of an operand (``x + 1``), both have one cotangent from the beginning: `Template.alias`.

Note [Numbers that rules look at]
    ``x ** 2`` has another derivative than ``x ** 3``, so numbers among the operands are part of the key, unless the
    primitive says that its rule never looks at them (`Primitive.blind`): a loop counter would fill the cache.

Note [When a template is made]
    Making one takes as long as calling the rules eight times. So it is made for a program that has operations enough
    to amortize it, or when the operation is differentiated for the second time.

Primitives with sub-programs, user code, effects or several results have no template: `forward` calls their rules.

Layer: 4.
"""

# A tracer's own fields are underscored for users; the library's packages read them.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple, final

from functrace.caches import Bounded, Facts, Kept
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, ZERO, Absent, Joint, Primitive
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
"""Making a template takes as long as calling the rules for so many operations."""


class Piece(NamedTuple):
    """One operation of a template.

    Args:
        primitive: what is applied.
        operands: slots: from 0 the operands of the operation, then its result, then the cotangent of that, then the pieces
            in order; -1, -2 … are the template's numbers. (Of a piece that pushes tangents forward: behind the residuals the
            tangents of the operands, then such pieces in order.)
        params: the static parameters.
        aval: of the result.
    """

    primitive: Primitive
    operands: tuple[int, ...]
    params: tuple[Any, ...]
    aval: ShapeDtype


@final
class Template(Kept):
    """The derivative of one operation as a piece of tape.

    Args:
        pieces: what it adds to a tape.
        ahead: how many of them do not depend on the cotangent: residuals, which stand first.
        numbers: of its pieces; one that is an operand of the operation is its place, in a tuple.
        constants: values of those of its pieces that are constants, by place among the pieces.
        contributions: places of operands, each with the slot of what reaches it, and how many of the pieces stand before
            that; see Note [The order of contributions].
        moves: whether the result has a tangent.
        alias: the place of the operand whose tangent the result's is; -1 where it has its own.
        captured: slots of what the linear part reads: residuals, in order.
        read_behind: slots of what those of its pieces read that depend on the cotangent: residuals, too.
        pushing: the pieces of the linear part itself: from tangents of operands to that of the result.
        tangent: slot of that.
        specs: avals of the operands (or types of numbers), of the result and of its cotangent: those of the first slots.
        exists: whether there is one; see `nothing`.
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
        pieces: tuple[Piece, ...] = (),
        ahead: int = 0,
        numbers: tuple[Scalar | tuple[int], ...] = (),
        constants: dict[int, Any] | None = None,
        contributions: tuple[tuple[int, int, int], ...] = (),
        moves: bool = False,
        alias: int = -1,
        captured: tuple[int, ...] = (),
        pushing: tuple[Piece, ...] = (),
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
        read = {i for piece in pieces[ahead:] for i in piece.operands if i >= 0} | {slot for _, slot, _ in contributions}
        self.read_behind = tuple(sorted([i for i in read if i != cotangent and i not in behind]))
        self.kernel: Any = None
        """What the executor makes of it."""
        super().__init__(assumed=1 << 16 if constants else 1 << 13)


def nothing() -> Template:
    """Return what stands for an operation that has no template; one for each, since a cache's entry has one key."""
    return Template(exists=False)


TEMPLATES: Bounded[Template] = Bounded("derivatives of operations", 16 << 20, 1 << 14)
_encountered = Facts("operations without a template", 1 << 12)
"""The operations that have been differentiated by their rules once."""


@final
class Missing:
    """Decides what to do about operations of one program that have no template yet; see Note [When a template is made].

    Args:
        size: how many operations the program has.
        by_rules: whether no templates are to be used.
        calls_rules: whether the rule is called where there is no template; otherwise another walk will do so.
    """

    __slots__ = ("_allowed", "_by_rules", "_calls_rules")

    def __init__(self, size: int, *, by_rules: bool, calls_rules: bool) -> None:
        self._allowed = size // RULES_PER_TEMPLATE
        self._by_rules, self._calls_rules = by_rules, calls_rules

    def template(self, key: Any) -> Template | None:
        """Return the template for a key that has none, or ``None`` where the rule is to be called."""
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
    """Return whether an operation can have a template."""
    return not (
        primitive.many
        or primitive.holds is not None
        or primitive.effects
        or primitive.kept is not None
        or type(primitive.jvp) is Joint
        or type(primitive.jvp) is Absent
    )


def note_use(templates: Iterable[Template]) -> None:
    """Note that templates have been used, so that they stay in the cache."""
    for template in templates:
        template.used = TEMPLATES.tick()


def key_of(
    primitive: Primitive, operands: tuple[int, ...], params: tuple[Any, ...], flags: tuple[int, ...], program: Program
) -> Any:
    """Return the key of an operation with none, three or more operands; that of one or two is written out in `forward`."""
    avals, literals = program.avals, program.literals
    specs = tuple([avals[i] if i >= 0 else literals[~i].__class__ for i in operands])
    numbers = tuple(
        [number_key(x) for x in [literals[~i] for i in operands if i < 0] if not primitive.blind or x.__class__ is bool]
    )
    distinct = tuple(dict.fromkeys(operands))
    pattern = () if len(distinct) == len(operands) else tuple([distinct.index(i) if i >= 0 else -1 for i in operands])
    return (primitive, specs, params, flags, *numbers, pattern)


def _unnumbered(part: Any, kind: type[Any]) -> Scalar:
    """The number that stands in a key."""
    if type(part) is bytes:
        real, imag = struct.unpack("dd", part)
        return complex(real, imag) if kind is complex else real
    return part


_STAND_INS: dict[type[Any], str] = {float: "0.7390851332151607", int: "7390851332151607", complex: "0.739085+0.2151607j"}
"""What blind rules are called with in place of numbers: objects of their own, which are found again by identity."""


def _made(key: Any) -> Template:
    """Make the template of an operation, by its rules; `nothing` where these do not give one."""
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
    except Exception:  # the rules themselves say what is wrong, at the user's line
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
    """Linearize and transpose one operation; returns what that adds to its tape."""
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
    captures = [value._id for value in linear.constants.values()]
    if tangent is None:
        return nothing() if captures else Template()
    starts = {dots[i]._id: places[i] for i in dots}
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
    slots[result], slots[cotangent._id] = len(operands), len(operands) + 1
    numbers: list[Scalar | tuple[int]] = []
    constants: dict[int, Any] = {}
    pieces: list[Piece] = []
    pushing: list[Piece] = []

    def add(tape: Recording, k: int, slots: dict[int, int], to: list[Piece]) -> bool:
        made, ids, static = tape.primitives[k], tape.operands[k], tape.params[k]
        if made is RESULT or made is INPUT or made.many or made.holds is not None or made.effects or made.kept is not None:
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
        to.append(Piece(made, tuple(where), static, tape.avals[k]))
        return True

    ahead = cotangent._id - result - 1
    for k in range(result + 1, len(known.primitives)):
        if k == cotangent._id:
            continue
        if known.primitives[k] is CONSTANT:
            constants[len(pieces)] = known.constants[k]
        slots[k] = len(operands) + 2 + len(pieces)
        if not add(known, k, slots, pieces):
            return nothing()
    first = len(operands) + 2 + ahead
    pushed = {i: slots[value._id] for i, value in captured.items()} | {i: first + place for i, place in starts.items()}
    for k in range(len(linear.primitives)):
        if k not in pushed:
            pushed[k] = first + len(operands) + len(pushing)
            if not add(linear, k, pushed, pushing):
                return nothing()
    if any(isinstance(value, Tracer) for value in constants.values()):
        return nothing()
    contributions: list[tuple[int, int, int]] = []
    for start, part, length in reached:
        if not isinstance(part, Tracer) or part._recording is not known:
            return nothing()
        contributions.append((starts[start], slots[part._id], length - result - 2))  # less the cotangent's own entry
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
