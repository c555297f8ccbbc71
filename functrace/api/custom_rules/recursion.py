"""Recursive rules: rules that call their own function, recorded finitely.

Note [A rule that calls its own function]
    While the rule of a function is recorded, a call of the function is bound with a `DeferredRule`
    rule. If the call has the key of the outer one (`RecursiveRule.key`: the same avals and static
    arguments), its rule is the one being recorded,
    which is complete when that ends: nothing is read again, so captured values are those of the
    call, to any order. Such calls receive them as further operands (`_forwarding_captures`); calls deeper in
    a body of the rule, as constants, which then take part in the equality of two such rules. Rules
    refer to themselves in this way, so they are compared like cyclic structures: two are equal if
    they are under the assumption that they are (`_assumed`).

Note [A rule for other arguments]
    A call with other static arguments (an order ``n + 1``, a longer axis) has another rule, and
    there may be infinitely many. It is recorded when the call is differentiated (`_DeferredRuleKey`), and the
    values that the enclosing rule reads must not have changed by then. The result is for this one
    call: a rule that was recorded later is equal to no other.

Layer: 8.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, Protocol, final

import numpy as np

from functrace.control.custom import DeferredRule, Rule
from functrace.errors import ArgumentError, CapturedArrayError
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import Rewrite
from functrace.ir.program import Program
from functrace.ir.tape import Op
from functrace.keys import exact_bytes
from functrace.tracing.tracer import Tracer, Value

_serials = itertools.count()
_recorded_now: ContextVar[tuple[tuple[object, RecursiveRule | None], ...]] = ContextVar(
    "functions whose rules are being recorded", default=()
)
_assumed: ContextVar[set[tuple[RecursiveRule, RecursiveRule, bool]] | None] = ContextVar(
    "rules taken to be equal", default=None
)
_shallow: ContextVar[bool] = ContextVar(
    "whether rules for other arguments are compared by these alone", default=False
)


class RecordedRule(NamedTuple):
    """Result of recording a rule.

    Args:
        programs: the programs, or the exceptions that recording raised: of a jvp rule; or forward
            and backward of a vjp rule, and of its additional jvp rule, if there is one. All but the
            backward one take the operands, then the captured values.
        captured: the captured values.
        ``reads_values``: True if the rule read concrete values, so that its programs may be valid for
        these only.
        kept: number of residuals that the backward program takes, if there is one.
    """

    programs: tuple[Rule, ...]
    captured: list[Any]
    reads_values: bool
    kept: int = 0


class FunctionWithRules(Protocol):
    """A function with rules."""

    name: str


@contextmanager
def recording_rule(function: object, rule: RecursiveRule | None = None) -> Generator[None]:
    """Mark a function's rule as being recorded."""
    token = _recorded_now.set((*_recorded_now.get(), (function, rule)))
    try:
        yield
    finally:
        _recorded_now.reset(token)


def is_in_own_rule(function: object) -> bool:
    """Return True while a function's rule is being recorded."""
    return any(f is function for f, _ in _recorded_now.get())


@final
class RecursiveRule:
    """The rule of one call, for recursive calls.

    Args:
        function: the function.
        key: avals and static arguments that the rule is recorded for.
        explicit: number of explicit operands of the call.
        record: records it, with concrete or abstract operands.
    """

    __slots__ = (
        "around",
        "captured",
        "count",
        "explicit",
        "function",
        "handed",
        "key",
        "programs",
        "record",
        "serial",
    )

    def __init__(
        self,
        function: FunctionWithRules,
        key: Hashable,
        explicit: int,
        record: Callable[[bool], RecordedRule],
    ) -> None:
        self.function, self.key, self.explicit, self.record = function, key, explicit, record
        self.around = _recorded_now.get()
        self.serial = next(_serials)
        self.programs: tuple[Rule, ...] | None = None
        self.captured: list[Any] = []
        self.count = self.handed = 0

    def recorded(self, *, with_values: bool = True) -> RecordedRule:
        """Record the rule."""
        with recording_rule(self.function, self):
            rule = self.record(with_values)
            if not self.count or not all(isinstance(p, Program) for p in rule.programs):
                return rule
            if rule.reads_values and with_values:  # the abstract rule, for the calls inside
                found = self.record(False)
                self.programs, self.captured = _forwarding_captures(self, found), found.captured
            else:
                rule = rule._replace(programs=_forwarding_captures(self, rule))
                self.programs, self.captured = rule.programs, rule.captured
        self.programs = tuple(
            [p.interned() if isinstance(p, Program) else p for p in self.programs]
        )
        if self.handed == self.count:
            self.captured = []
        return rule

    def deferred(self, between: tuple[ShapeDtype, ...], count: int) -> tuple[DeferredRule, ...]:
        """Return placeholders for the programs of this rule, for a recursive call.

        Args:
            between: avals of the function's captured values at that call.
            count: number of programs.
        """
        keys = [_RecursiveRuleKey(self, between, False, part) for part in _parts(count)]
        self.count += len(keys)
        return _by_place(keys, count)

    def same(self, other: RecursiveRule, *, by_values: bool) -> bool:
        """Return True if two rules are equal, given the same captured values or (``by_values``)
        with their own."""
        if self is other:
            return True
        if (
            self.programs is None
            or other.programs is None
            or len(self.programs) != len(other.programs)
        ):
            return False
        assumed = _assumed.get()
        if assumed is not None:
            return self._same(other, by_values, assumed)
        assumed = set[tuple[RecursiveRule, RecursiveRule, bool]]()
        token = _assumed.set(assumed)
        try:
            same = self._same(other, by_values, assumed)
        finally:
            _assumed.reset(token)
        if same and not _shallow.get():
            for one, another, _ in assumed:  # makes further comparisons free
                older, newer = sorted((one, another), key=lambda rule: rule.serial)
                newer.programs = older.programs
        return same

    def _same(
        self,
        other: RecursiveRule,
        by_values: bool,
        assumed: set[tuple[RecursiveRule, RecursiveRule, bool]],
    ) -> bool:
        pair = self, other, by_values
        if pair in assumed:
            return True
        assumed.add(pair)  # and stays: if one of the comparisons fails, all of them do
        if by_values and not _same_values(self.captured, other.captured):
            return False
        mine, theirs = self.programs, other.programs
        assert mine is not None and theirs is not None
        return mine is theirs or all(map(_is_copy, mine, theirs))

    def check_unchanged(self) -> None:
        """Check that the values that the rule reads have not changed since it was recorded.

        Raises:
            CapturedArrayError: if one has.
        """
        if self.programs is None:  # it is being recorded
            return
        recorded_now, shallow = _recorded_now.set(self.around), _shallow.set(True)
        try:
            now = RecursiveRule(self.function, self.key, self.explicit, self.record)
            now.recorded(with_values=False)
            same = self.same(now, by_values=True)
        finally:
            _recorded_now.reset(recorded_now)
            _shallow.reset(shallow)
        if not same:
            name = self.function.name
            raise CapturedArrayError(
                f"the rule of {name} calls {name} with other arguments, and a value that it reads "
                "has changed before that "
                "call is differentiated",
                fix="change what the rule reads after the derivative has been taken, or pass it "
                f"to {name}",
            )

    def bound(self) -> tuple[Rule, ...]:
        """Return the programs, with the captured values as constants."""
        assert self.programs is not None
        if not self.captured:
            return self.programs
        name = self.function.name
        if any(
            isinstance(value, Tracer) for value in self.captured
        ):  # of a transform that ends earlier
            raise ArgumentError(
                f"the rule of {name} calls {name}, and closes over a traced value",
                fix="pass the value as an argument",
            )
        return _but_backward(
            self.programs, lambda program: with_constants(program, self.explicit, self.captured)
        )


def with_constants(program: Program, first: int, values: Sequence[Any]) -> Program:
    """Return a program with own constants in place of some inputs.

    Args:
        program: the program.
        first: the first of these inputs.
        values: of the constants.
    """
    places = range(first, first + len(values))
    write = Rewrite(program, [k for k in range(len(program.input_ids)) if k not in places])
    for place, value in zip(places, values, strict=True):
        one: object = value
        if isinstance(one, np.ndarray):
            value = np.array(value)
            value.flags.writeable = False
        write.moved[program.input_ids[place]] = write.constant(value, aval_of(value))
    return write.finish(write.keep_all())


def _parts(count: int) -> tuple[slice, ...]:
    """Return slices of the programs of a rule that are recorded together, in place of deferred
    ones."""
    return (slice(0, 2), slice(2, 3)) if count == 3 else (slice(0, 2),)


def _by_place(
    keys: Sequence[_RecursiveRuleKey | _DeferredRuleKey], count: int
) -> tuple[DeferredRule, ...]:
    """Return placeholders for ``count`` programs; the first two share one."""
    made = [DeferredRule(key, key.programs) for key in keys]
    return tuple([made[k // 2] for k in range(count)])


def _but_backward(
    programs: Sequence[Rule], change: Callable[[Program], Program]
) -> tuple[Rule, ...]:
    """Apply ``change`` to the programs of a rule that take the operands of the call."""
    return tuple(
        [change(p) if k != 1 and isinstance(p, Program) else p for k, p in enumerate(programs)]
    )


@final
class _RecursiveRuleKey:
    """Key of the rule of a recursive call; see Note [A rule that calls its own function]."""

    __slots__ = ("between", "part", "rule", "takes")

    def __init__(
        self, rule: RecursiveRule, between: tuple[ShapeDtype, ...], takes: bool, part: slice
    ) -> None:
        self.rule, self.between, self.takes, self.part = rule, between, takes, part

    def __repr__(self) -> str:
        return f"the rule of {self.rule.function.name}"

    def __hash__(self) -> int:
        return hash((_RecursiveRuleKey, self.between, self.takes, self.part.start))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            type(other) is type(self)
            and (self.between, self.takes, self.part) == (other.between, other.takes, other.part)
            and self.rule.same(other.rule, by_values=not self.takes)
        )

    def programs(self) -> tuple[Rule, ...]:
        """Return the programs of the rule."""
        rule = self.rule
        if rule.programs is None:
            name = rule.function.name
            raise ArgumentError(
                f"the rule of {name} differentiates {name} itself, but that rule is not complete "
                "yet",
                fix=f"write the derivative explicitly, or call {name} without a transform around "
                "it",
            )
        programs = rule.programs if self.takes else rule.bound()
        return with_avals(programs, rule.explicit, self.between)[self.part]


@final
class _DeferredRuleKey:
    """Key of rules that are not recorded yet; see Note [A rule for other arguments]."""

    __slots__ = ("is_recorded", "key", "part", "record", "rule")

    def __init__(
        self,
        rule: RecursiveRule,
        key: Hashable,
        part: slice,
        record: Callable[[], tuple[Rule, ...]],
    ) -> None:
        self.rule, self.key, self.part, self.record, self.is_recorded = (
            rule,
            key,
            part,
            record,
            False,
        )

    def __repr__(self) -> str:
        return f"another rule of {self.rule.function.name}"

    def __hash__(self) -> int:
        return hash((_DeferredRuleKey, self.key, self.part.start))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not type(self) or self.rule.function is not other.rule.function:
            return False
        if (self.key, self.part) != (other.key, other.part):
            return False
        if _shallow.get():
            return True
        return not (self.is_recorded or other.is_recorded) and self.rule.same(
            other.rule, by_values=True
        )

    def programs(self) -> tuple[Rule, ...]:
        """Record the rule now."""
        self.rule.check_unchanged()
        self.is_recorded = True
        return self.record()[self.part]


def rules_inside(
    function: FunctionWithRules,
    key: Hashable,
    explicit: int,
    between: tuple[ShapeDtype, ...],
    count: int,
    record: Callable[[], RecordedRule],
) -> tuple[DeferredRule, ...] | None:
    """Return placeholders for the programs of a rule, for a call inside of a rule of its own
    function.

    Args:
        function: the called function.
        key: avals and static arguments of the call.
        explicit: number of explicit operands of the call.
        between: avals of the function's captured values.
        count: number of programs of the rule.
        record: records it, with abstract operands.
    """
    rules = [rule for f, rule in _recorded_now.get() if f is function and rule is not None]
    for rule in rules:
        if rule.key == key:
            return rule.deferred(between, count)
    if not rules:
        return None

    def programs() -> tuple[Rule, ...]:
        own = RecursiveRule(function, key, explicit, lambda _: record())
        made = own.recorded(with_values=False)
        own.programs, own.captured = made.programs, made.captured
        return with_avals(own.bound(), explicit, between)

    outer = rules[-1]
    keys = [_DeferredRuleKey(outer, key, part, programs) for part in _parts(count)]
    outer.count += len(keys)
    return _by_place(keys, count)


def with_avals(
    programs: Sequence[Rule], explicit: int, avals: Sequence[ShapeDtype]
) -> tuple[Rule, ...]:
    """Add unused operands to those programs of a rule that take the operands."""
    return (
        _but_backward(programs, lambda program: _widened(program, explicit, avals))
        if avals
        else tuple(programs)
    )


def _widened(program: Program, explicit: int, avals: Sequence[ShapeDtype]) -> Program:
    write = Rewrite(program, [*range(explicit), *avals, *range(explicit, len(program.input_ids))])
    return write.finish(write.keep_all())


def _forwarding_captures(own: RecursiveRule, rule: RecordedRule) -> tuple[Rule, ...]:
    """Pass the captured values of a rule to the calls of its function in its programs."""
    programs = rule.programs
    if not all(isinstance(program, Program) for program in programs):
        return programs
    count = len(rule.captured)
    if not count:
        own.handed = own.count
        return programs
    places = range(own.explicit, own.explicit + count)
    taking: dict[int, DeferredRule] = {}
    if (
        len(programs) > 1
        and isinstance(programs[1], Program)
        and any(_is_inside(own, op) for op in programs[1].ops)
    ):
        forward, backward, *others = programs
        assert isinstance(forward, Program) and isinstance(backward, Program)
        avals = [forward.avals[forward.input_ids[k]] for k in places]
        kept, total = rule.kept, len(backward.input_ids)
        write = Rewrite(forward)
        more = [write.moved[forward.input_ids[k]] for k in places]
        pulled = Rewrite(backward, [*range(kept), *avals, *range(kept, total)])
        pair = (
            _forward_captured(own, write, places, taking, more),
            _forward_captured(own, pulled, range(kept, kept + count), taking),
        )
    else:
        pair, others = (), programs
    rest = [_forward_captured(own, Rewrite(p), places, taking) if isinstance(p,
    Program) and (pair or k != 1) else p
            for k, p in enumerate(others)]  # fmt: skip
    own.handed += len(taking)
    return *pair, *rest


def _forward_captured(
    own: RecursiveRule,
    write: Rewrite,
    places: range,
    taking: dict[int, DeferredRule],
    more: Sequence[int] = (),
) -> Program:
    """Return a program whose top-level recursive calls take additional inputs.

    Args:
        own: the rule of these calls.
        write: the rewrite of the program.
        places: of the inputs.
        taking: by the id of a deferred rule, its version that takes them.
        more: further outputs.
    """
    program = write.source
    handed = [write.inputs[k] for k in places]
    avals = [write.avals[i] for i in handed]
    for k, _ in program.schedule:
        op = program.ops[k]
        if not _is_inside(own, op):
            write.keep(k)
            continue
        primitive, operands, (function, *rules) = op
        assert isinstance(function, Program)
        wide = _widened(function, len(operands), avals)
        params = (wide.interned(), *[_taking(p, taking) for p in rules])
        first = write.place(
            primitive, (*map(write.operand, operands), *handed), params, write.position(k)
        )
        write.replace(k, range(first, first + program.result_count(k)))
    return write.finish([*map(write.operand, program.output_ids), *more])


def _is_inside(own: RecursiveRule, op: Op) -> bool:
    """Return True for a call with the rule ``own``."""
    return any(
        isinstance(p, DeferredRule) and isinstance(p.key, _RecursiveRuleKey) and p.key.rule is own
        for p in op[2]
    )


def _taking(param: object, made: dict[int, DeferredRule]) -> Any:
    """Replace a deferred rule by its version that takes the captured values; return other params
    unchanged."""
    if not isinstance(param, DeferredRule):
        return param
    if id(param) not in made:
        assert isinstance(param.key, _RecursiveRuleKey)
        key = _RecursiveRuleKey(param.key.rule, param.key.between, True, param.key.part)
        made[id(param)] = DeferredRule(key, key.programs)
    return made[id(param)]


def _is_copy(a: Rule, b: Rule) -> bool:
    return a.is_copy_of(b) if isinstance(a, Program) and isinstance(b, Program) else a == b


def _same_values(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Return True if captured values are equal, bit for bit. Traced ones count as equal: they raise
    an error elsewhere."""
    return len(a) == len(b) and all(map(_same_value, a, b))


def _same_value(x: Value, y: Value) -> bool:
    if isinstance(x, Tracer) or isinstance(y, Tracer):
        return isinstance(x, Tracer) and isinstance(y, Tracer) and x.aval is y.aval
    assert isinstance(x, np.ndarray | np.generic) and isinstance(y, np.ndarray | np.generic)
    return aval_of(x) is aval_of(y) and exact_bytes(x) == exact_bytes(y)
