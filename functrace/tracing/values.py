"""`RecordedValues`: concrete values of a recording's variables, evaluated on demand and freed.

If the inputs of a recording have concrete values, any variable can be read (``bool(x > 0)``): the
operations that it depends on are then evaluated, once (`read`, `evaluated`). `is_concrete` and
`has_value` test for a concrete value without computing anything.

Note [Errors where they stand]
    An operation that fails on some values in NumPy (``cholesky``, an index out of bounds) must
    raise at the user's line, where a ``try`` may catch it. So an operation whose primitive has
    `fails` is evaluated as soon as it is recorded, if its operands have concrete values and the
    recorded code certainly runs (`Recording.is_certain`). When staged, it raises when

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, final

from functrace.errors import ConcretizationError
from functrace.ir.primitive import CONSTANT, INPUT
from functrace.ir.walk import interpret, steps_to
from functrace.tracing.binding import BODY, INNERMOST, OPEN, RUNS_HERE, bind, running
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.lines import name_warnings, stop_naming
from functrace.tracing.release import release
from functrace.tracing.tracer import Tracer, leaked

if TYPE_CHECKING:
    from functrace.tracing.recording import Recording

MOST_HELD = 16 << 20
"""Bytes of evaluated values that a recording holds before it searches for values to free."""


@final
class RecordedValues:
    """Concrete values of a recording's variables; created on first use (`Recording.values`)."""

    __slots__ = ("batches", "evaluation", "known", "source")

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}
        """Values by variable: those of inputs, and those evaluated so far."""
        self.batches: dict[int, Any] = {}
        """Values of a mapped function's inputs by variable: whole batches of mapped inputs, and the
        other inputs.
        """
        self.source: ConcreteValueSource | None = None
        """Provider of concrete values for variables without one; ``None`` if there is none."""
        self.evaluation: Evaluation | None = None


@final
class Evaluation:
    """State of on-demand evaluation: evaluated, freed and abstract variables; created on
    first use.
    """

    __slots__ = ("hidden", "judged", "most", "nbytes", "released", "unknown", "variables")

    def __init__(self) -> None:
        self.variables: list[int] = []
        """Results of evaluated operations: all results of an operation, or none."""
        self.released: set[int] = set()
        """Variables whose values were freed."""
        self.unknown: set[int] = set()
        """Variables among the first ``judged`` ones that depend on inputs without a value, or must
        not be computed.
        """
        self.hidden: set[int] = set()
        """Subset of ``unknown``: variables that depend on inputs without a value."""
        self.judged = 0
        self.nbytes = 0
        self.most: float = MOST_HELD


class ConcreteValueSource(Protocol):
    """Provider of concrete values for abstract variables: the examples of a mapped function, the
    guards of a trace path.
    """

    def outcome(self, recording: Recording, variable: int, /) -> Any:
        """Return the concrete value with which tracing continues."""
        ...


def evaluation_of(recording: Recording) -> Evaluation:
    """Return the on-demand evaluation state of a recording."""
    values = recording.values
    if values.evaluation is None:
        values.evaluation = Evaluation()
    return values.evaluation


# -- of a variable -----------------------------------------------------------------------------


def read(recording: Recording, variable: int) -> Any:
    """Return the value of a variable, evaluating its dependencies once; see `Recording.value`."""
    values = recording.values
    if variable in values.known:
        return values.known[variable]
    if recording.closed:
        raise leaked(recording.handle(variable))
    source = (
        values.source
    )  # operations for a concrete value are recorded where the value was recorded
    innermost = INNERMOST.set(None if source is None or recording.scope is BODY else recording)
    function = RUNS_HERE.set(None)
    try:
        return (
            evaluated(recording, variable)
            if source is None
            else source.outcome(recording, variable)
        )
    finally:
        INNERMOST.reset(innermost)
        RUNS_HERE.reset(function)


def is_concrete(recording: Recording, variable: int) -> bool:
    """Return True if a variable has a concrete value, and is certain to be computed.

    Cost:
        0.2 us per operation recorded since the last call.
    """
    return recording.is_certain and variable not in _judged(recording).unknown


def is_hidden(recording: Recording, variable: int) -> bool:
    """Return True if a variable has no concrete value except from an `ConcreteValueSource`."""
    return variable in _judged(recording).hidden


def _judged(recording: Recording) -> Evaluation:
    """Update the sets of variables that depend on inputs without a value."""
    evaluation = evaluation_of(recording)
    unknown, hidden, known = evaluation.unknown, evaluation.hidden, recording.values.known
    operands = recording.operands
    new = range(evaluation.judged, len(operands))
    for k in new:  # first: an operation's input may come after it on the tape
        primitive = recording.primitives[k]
        if primitive is INPUT or primitive is CONSTANT:
            value = known.get(k) if primitive is INPUT else recording.constants[k]
            if value is None:
                unknown.add(k)
                hidden.add(k)
            elif isinstance(value, Tracer):
                if not is_concrete(value.ft_recording, value.ft_variable):
                    unknown.add(k)
                if is_hidden(value.ft_recording, value.ft_variable):
                    hidden.add(k)
    for k in new:
        if not unknown.isdisjoint(operands[k]):
            unknown.add(k)
            if not hidden.isdisjoint(operands[k]):
                hidden.add(k)
    evaluation.judged = len(operands)
    return evaluation


def raise_now(recording: Recording, variable: int) -> None:
    """Evaluate an operation that may fail on values at once; see Note [Errors where they stand]."""
    primitive, operands, params = (
        recording.primitives[variable],
        recording.operands[variable],
        recording.params[variable],
    )
    if primitive.check is not None:
        specs = [recording.spec(i) for i in operands]
        value: Callable[[int], Any] = lambda place: _plain(recording, operands[place])  # noqa: E731
        primitive.check(value, *specs, *params)
    elif recording.values.known and is_concrete(recording, variable):
        recording.value(variable)


def _plain(recording: Recording, operand: int) -> Any:
    """Return the concrete value of an operand, or ``None`` if it is abstract."""
    if operand < 0:
        return recording.literals[~operand]
    return recording.handle(operand).ft_concrete() if is_concrete(recording, operand) else None


def evaluated(recording: Recording, variable: int, values: dict[int, Any] | None = None) -> Any:
    """Evaluate a variable and its dependencies; warnings name the lines that recorded them.

    Args:
        variable: the variable to evaluate.
        values: values by variable, which is updated; by default the recording's own.
    """
    primitives, avals, positions = recording.primitives, recording.avals, recording.positions
    if values is None:
        values = recording.values.known
    steps = steps_to(recording, (variable,), values)
    if any(primitives[k] is INPUT for k, _ in steps):
        raise ConcretizationError(
            f"a value is needed, but {recording.owner} records without values",
            made=recording.source(variable),
            fix="use functrace.cond or np.where for a choice that depends on values, "
            "functrace.scan or "
            "while_loop for a loop, or compute the value from something that is not traced (values "
            "are "
            "concrete under grad, vjp, jvp, vmap and jit(f, guards=True), but not under jit, "
            "trace, cond and scan)",
        )
    evaluation = evaluation_of(recording)
    if any(
        k in evaluation.released for k, _ in steps
    ):  # free no more, so that no loop recomputes repeatedly
        evaluation.most = math.inf
    now = -1

    def apply(k: int, operands: tuple[Any, ...]) -> Any:
        nonlocal now
        primitive, params = primitives[k], recording.params[k]
        if primitive is CONSTANT:
            return recording.constants[k]
        if evaluation.nbytes > evaluation.most:
            _free(recording, variable, evaluation, values)
        now = k
        if (
            recording.inner
            and k in recording.inner
            and any(isinstance(x, Tracer) for x in operands)
        ):
            result = tuple(
                evaluate_program(params[0], operands)
            )  # the outer recording decides whether to inline
        else:
            result = bind(primitive, operands, params)
        for j, found in enumerate(result, k) if primitive.many else ((k, result),):
            evaluation.variables.append(j)
            evaluation.nbytes += avals[j].nbytes
            if (
                isinstance(found, Tracer)
                and positions is not None
                and found.ft_recording.positions is not None
            ):
                found.ft_recording.positions[found.ft_variable] = positions[
                    k
                ]  # not the line that reads the value
        return result

    named = name_warnings()
    try:
        interpret(recording, values, apply, steps)
        if evaluation.nbytes > evaluation.most:
            _free(recording, variable, evaluation, values)
    except Exception as error:
        source = recording.source(now)
        if source is not None and now != steps[-1][0]:
            error.add_note(f"  recorded at {source}")
        raise
    finally:
        stop_naming(named)
    return values[variable]


def _free(
    recording: Recording, wanted: int, evaluation: Evaluation, values: dict[int, Any]
) -> None:
    """Free the values that will not be read."""
    before = evaluation.variables
    release(recording, (wanted,), values)
    evaluation.variables = [k for k in before if k in values]
    evaluation.released.update([k for k in before if k not in values])
    evaluation.nbytes = sum([recording.avals[k].nbytes for k in evaluation.variables])
    evaluation.most = max(MOST_HELD, 2 * evaluation.nbytes)


# -- of a value that may be traced -------------------------------------------------------------


def has_value(x: object) -> bool:
    """Return True if a concrete value is available; not for a mapped function's examples."""
    return (
        not isinstance(x, Tracer)
        or x.ft_recording.closed
        or not is_hidden(x.ft_recording, x.ft_variable)
    )


def concrete_value(x: object) -> Any:
    """Return the concrete value of something that may be traced; ``None`` if it is abstract."""
    if not isinstance(x, Tracer):
        return x
    recording = x.ft_recording
    return x.ft_concrete() if recording.closed or is_concrete(recording, x.ft_variable) else None


def is_constant(x: Tracer, most: float = math.inf) -> bool:
    """Return True if a traced value depends on no input: concrete, and without derivative.

    Args:
        x: the traced value.
        most: maximum number of operations; a value that depends on more counts as dependent on an
            input.

    Cost:
        0.1 us per operation that it depends on.
    """
    return not _depends(x, through_integers=True, most=most)


def has_no_derivative(x: Tracer) -> bool:
    """Return True if reading the value loses no derivative: it depends on integer inputs only.

    Cost:
        0.1 us per operation that it depends on.
    """
    return x.aval.dtype.kind not in "fcV" or not _depends(x, through_integers=False)


def _depends(x: Tracer, *, through_integers: bool, most: float = math.inf) -> bool:
    """Return True if a value depends on an input, through any dtype or only inexact ones."""
    if x.is_number:
        return True
    seen: set[tuple[int, int]] = set()
    todo: list[tuple[Recording, int]] = [(x.ft_recording, x.ft_variable)]
    while todo:
        recording, variable = todo.pop()
        if recording.closed and not recording.makes_arrays:
            return True  # reading its value raises
        if (id(recording), variable) in seen:
            continue
        seen.add((id(recording), variable))
        if len(seen) > most:
            return True
        primitive = recording.primitives[
            variable
        ]  # first: raises if a write may have changed the value
        if not through_integers and recording.avals[variable].dtype.kind not in "fcV":
            continue
        operands = recording.operands[variable]
        if primitive is INPUT:
            return True
        if primitive is CONSTANT:
            value = recording.constants[variable]
            if isinstance(value, Tracer):
                if value.is_number:
                    return True
                todo.append((value.ft_recording, value.ft_variable))
        else:
            todo.extend([(recording, i) for i in operands if i >= 0])
    return False


def stages() -> str | None:
    """Return the owner of the recording here whose code will run on other values, or repeatedly.

    A random number drawn now would be the same in every run.

    Returns:
        the recording's owner; ``None`` outside of all recordings, and where the inputs have
        concrete values.
    """
    body = INNERMOST.get()
    if body is None:
        body = running()
    if body is None:
        return None
    has_values = (
        all(is_concrete(body, k) for k in body.inputs) if body.inputs else body.scope is OPEN
    )
    return None if has_values else body.owner
