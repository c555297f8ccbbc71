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
    to pay for it, or when the operation has been met often enough.

No template is there for what holds programs, calls the user's code, is kept though nobody reads it, or has several results:
programs with such operations are differentiated by the rules.

Floor: 3.
"""

# A tracer's own fields are underscored for users; the library's rooms read them.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple, final

from functrace.caches import Bounded, Facts, Kept
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, ZERO, Joint, Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Builder, Spec
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms.given import Given
from functrace.transforms.linearize import LARGEST_IN_BULK, jvp_by_rules, split_linear
from functrace.transforms.transpose import linear_variables, pull_cotangents
from functrace.typing import Scalar

RULES_PER_TEMPLATE = 8
"""Making a template takes as long as calling the rules for so many operations."""

MOST_ROUNDS = 8
"""A template may tell that what follows carries derivatives by other operands: then that is looked up again."""


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
        pushing: the pieces of the linear part itself: from tangents of operands to that of the result.
        tangent: slot of that.
        interleaves: whether the rule adds to it before all residuals are there, where both stand on one tape.
        exists: whether there is one; see `nothing`.
    """

    __slots__ = (
        "ahead",
        "alias",
        "captured",
        "constants",
        "contributions",
        "exists",
        "interleaves",
        "kernel",
        "moves",
        "numbers",
        "pieces",
        "pushing",
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
        interleaves: bool = False,
        exists: bool = True,
    ) -> None:
        self.exists = exists
        self.pushing, self.tangent, self.interleaves = pushing, tangent, interleaves
        self.pieces, self.ahead, self.numbers = pieces, ahead, numbers
        self.constants = constants or {}
        self.contributions = contributions
        self.moves, self.alias, self.captured = moves, alias, captured
        self.kernel: Any = None
        """What the executor makes of it."""
        super().__init__(assumed=1 << 16 if constants else 1 << 13)


def nothing() -> Template:
    """Return what stands for an operation that has no template; one for each, since a cache's entry has one key."""
    return Template(exists=False)


TEMPLATES: Bounded[Template] = Bounded("derivatives of operations", 16 << 20, 1 << 14)
_wanted = Facts("operations without a template", 1 << 12)
"""How often an operation has been met without a template."""


@final
class Chosen(NamedTuple):
    """The templates of a program.

    Args:
        templates: by variable; ``None`` for what carries no derivative.
        roots: by variable: whose cotangent its own is; see Note [The order of contributions].
        active: by variable, whether it carries a derivative.
    """

    templates: list[Template | None]
    roots: list[int]
    active: bytearray


def choose(program: Program, active: Sequence[bool]) -> Chosen | None:
    """Return the templates of a program's operations, if all of them have one, or it is worth while to make them.

    Args:
        program: the program to be differentiated.
        active: one flag per input.

    Cost:
        about 0.6 us per operation.
    """
    for primitive in program.kinds:
        if primitive.holds is not None or primitive.effects or primitive.kept is not None or type(primitive) is Given:
            return None
    if any(aval.nbytes > LARGEST_IN_BULK for aval in set(program.avals)):
        return None
    for _ in range(MOST_ROUNDS):
        missing: dict[Any, list[int]] = {}
        found = _look_up(program, active, missing)
        if not missing:
            break
        for key, places in missing.items():
            _wanted.keep(key, _wanted.get(key, 0) + len(places))
        dear = [key for key in missing if _wanted.get(key, 0) < RULES_PER_TEMPLATE]
        if RULES_PER_TEMPLATE * len(dear) > len(program.avals):
            return None
        is_as_assumed = True
        for key, places in missing.items():
            template = _made(key)
            TEMPLATES.add(key, template)
            _wanted.pop(key, None)
            is_as_assumed &= not template.exists or (template.moves and template.alias < 0)
            for k in places:
                found.templates[k] = template
        if is_as_assumed:
            break
    else:
        return None
    for template in set(found.templates):
        if template is not None and not template.exists:
            return None
        if template is not None:
            template.used = TEMPLATES.tick()
    return found


def _look_up(program: Program, flags: Sequence[bool], missing: dict[Any, list[int]]) -> Chosen:
    """Find the templates that there are, and what has none: as if that carried derivatives of its own."""
    columns, avals, literals = program.columns, program.avals, program.literals
    count = len(avals)
    active = bytearray(count + len(literals))  # what stands at the end are the literals, from the last one backwards
    for i, flag in zip(program.input_ids, flags, strict=True):
        active[i] = flag
    roots = list(range(count))
    found: list[Template | None] = [None] * count
    get = TEMPLATES.entries.get
    for k, (primitive, operands, params) in enumerate(columns):
        arity = len(operands)
        if arity == 1:
            (i,) = operands
            if not active[i]:
                continue
            key: Any = (primitive, (avals[i],), params, 1)
        elif arity == 2:
            i, j = operands
            mask = active[i] + 2 * active[j]
            if not mask:
                continue
            if i < 0 or j < 0:
                if primitive.jvp is ZERO:
                    continue
                number = literals[~i if i < 0 else ~j]
                kind = number.__class__
                key = (primitive, (kind, avals[j]) if i < 0 else (avals[i], kind), params, mask)
                if not primitive.blind or kind is bool:
                    key = (*key, _number(number))
            else:
                key = (primitive, (avals[i], avals[j]), params, mask if i != j else 7)
        elif arity:
            flags_here = tuple([active[i] for i in operands])
            if 1 not in flags_here or primitive.jvp is ZERO:
                continue
            key = _key(primitive, operands, params, flags_here, program)
        else:
            continue
        template = get(key)
        if template is None:
            missing.setdefault(key, []).append(k)
            active[k] = 1
        elif template.moves:
            found[k] = template
            active[k] = 1
            if template.alias >= 0:
                roots[k] = roots[operands[template.alias]]
        elif not template.exists:
            found[k] = template
    return Chosen(found, roots, active)


def _key(
    primitive: Primitive, operands: tuple[int, ...], params: tuple[Any, ...], flags: tuple[int, ...], program: Program
) -> Any:
    """The key of an operation with three operands or more."""
    avals, literals = program.avals, program.literals
    specs = tuple([avals[i] if i >= 0 else literals[~i].__class__ for i in operands])
    numbers = tuple(
        [_number(x) for x in [literals[~i] for i in operands if i < 0] if not primitive.blind or x.__class__ is bool]
    )
    distinct = tuple(dict.fromkeys(operands))
    pattern = () if len(distinct) == len(operands) else tuple([distinct.index(i) if i >= 0 else -1 for i in operands])
    return (primitive, specs, params, flags, *numbers, pattern)


def _number(value: Scalar) -> Any:
    """A number as part of a key: equal only where nothing tells it apart. Zeros have signs, and nan equals itself."""
    if type(value) is complex or (type(value) is float and (value == 0 or value != value)):
        return struct.pack("dd", value.real, value.imag)
    return value


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
    """Linearize and transpose a program of one operation; returns what that adds to its tape."""
    result = build.append(primitive, operands, specs, params)
    if isinstance(primitive.jvp, Joint) or len(build.primitives) != result + 1:
        return nothing()
    program = Program.from_builder(build, (result,), name="operation")
    places = {i: place for place, i in reversed(list(enumerate(operands))) if i >= 0}
    flags_of = [bool(flags[places[i]]) for i in program.input_ids]
    walk, linear = split_linear(program, flags_of)
    known, tangent = walk.known, walk.tangents.get(result)
    if any(not isinstance(value, Tracer) for value in linear.constants.values()):
        return nothing()
    captures = [value._id for value in linear.constants.values()]
    if tangent is None:
        return nothing() if captures else Template()  # not `nothing`: it carries no derivative
    moving = [places[i] for i in program.input_ids if flags[places[i]]]
    starts = dict(zip(linear.inputs, moving, strict=True))
    if tangent._id in starts:
        return nothing() if captures else Template(moves=True, alias=starts[tangent._id])
    cotangent = known.new_input(program.avals[result])
    captured, literals = linear.constants, linear.literals
    reached: list[tuple[int, Any, int]] = []
    pull_cotangents(
        linear.ops,
        linear.avals,
        linear_variables(linear.ops, list(linear.inputs)),
        lambda i: captured[i] if i >= 0 else literals[~i],
        {tangent._id: cotangent},
        known,
        linear.origins,
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
        tangent=pushed[tangent._id],
        interleaves=_on_one_tape(program, flags_of) != [(p.primitive, p.params) for p in (*pieces[:ahead], *pushing)],
    )


def _on_one_tape(program: Program, flags: Sequence[bool]) -> list[tuple[Primitive, Any]]:
    """What forward mode adds to a program, in order."""
    made = jvp_by_rules(program, flags, None)
    start = len(program.ops) + sum(flags)
    return [(op[0], op[2]) for op in made.ops[start:]]
