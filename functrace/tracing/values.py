"""`Values`: the concrete values of a recording's variables, evaluated on demand and freed when nothing will read them.

If the inputs of a recording have values, those of all variables can be read (``bool(x > 0)``): the operations
that it depends on are evaluated then, once (`read`, `evaluated`). `is_known` and `has_value` test for a concrete value
without computing anything.

Note [Errors where they stand]
    What NumPy lets fail on values (``cholesky``, an index out of bounds) must raise in the user's line, where a ``try`` may
    wait for it. So an operation whose primitive says that it `fails` is evaluated as soon as it is recorded, if what it
    depends on is known and what is recorded will run in any case (`Recording.is_certain`). While staging it raises when
    the program runs.

Layer: 1.
"""

# A tracer's own fields are underscored for users; the library's packages read them.
# pyright: reportPrivateUsage=false

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
"""Bytes of evaluated values that a recording holds before it looks for those that nothing will read."""


@final
class Values:
    """Concrete values of a recording's variables; created on first use (`Recording.values`)."""

    __slots__ = ("asked", "batches", "evaluation", "known")

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}
        """Values by variable: those of inputs, and those evaluated so far."""
        self.batches: dict[int, Any] = {}
        """Values of a mapped function's inputs by variable: whole batches of mapped inputs, and the other inputs."""
        self.asked: Asked | None = None
        """Provider of concrete values for variables without one; ``None`` if there is none."""
        self.evaluation: Evaluation | None = None


@final
class Evaluation:
    """State of on-demand evaluation: evaluated, freed and abstract variables; created on first use."""

    __slots__ = ("hidden", "judged", "most", "nbytes", "released", "unknown", "variables")

    def __init__(self) -> None:
        self.variables: list[int] = []
        """Results of evaluated operations: all results of an operation, or none."""
        self.released: set[int] = set()
        """Variables whose values were freed."""
        self.unknown: set[int] = set()
        """Variables among the first ``judged`` ones that depend on inputs without a value, or must not be computed."""
        self.hidden: set[int] = set()
        """Subset of ``unknown``: variables that depend on inputs without a value."""
        self.judged = 0
        self.nbytes = 0
        self.most: float = MOST_HELD


class Asked(Protocol):
    """Provider of concrete values for abstract variables: the examples of a mapped function, the guards of a trace path."""

    def answer(self, recording: Recording, variable: int, /) -> Any:
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
    """Return the value of a variable, evaluating (once) what it depends on; see `Recording.value`."""
    values = recording.values
    if variable in values.known:
        return values.known[variable]
    if recording.closed:
        raise leaked(recording.handle(variable))
    asked = values.asked  # operations for a concrete value are recorded where the value was recorded
    innermost = INNERMOST.set(None if asked is None or recording.scope is BODY else recording)
    function = RUNS_HERE.set(None)
    try:
        return evaluated(recording, variable) if asked is None else asked.answer(recording, variable)
    finally:
        INNERMOST.reset(innermost)
        RUNS_HERE.reset(function)


def is_known(recording: Recording, variable: int) -> bool:
    """Return True if a variable has a concrete value, and is certain to be computed.

    Cost:
        0.2 us per operation recorded since the last call.
    """
    return recording.is_certain and variable not in _judged(recording).unknown


def is_hidden(recording: Recording, variable: int) -> bool:
    """Return True if a variable has no concrete value, computed or not, except from an `Asked`."""
    return variable in _judged(recording).hidden


def _judged(recording: Recording) -> Evaluation:
    """Say of all variables whether they depend on what has no value."""
    evaluation = evaluation_of(recording)
    unknown, hidden, known = evaluation.unknown, evaluation.hidden, recording.values.known
    operands = recording.operands
    new = range(evaluation.judged, len(operands))
    for k in new:  # first: a value that is given to an operation is an input that stands behind it
        primitive = recording.primitives[k]
        if primitive is INPUT or primitive is CONSTANT:
            value = known.get(k) if primitive is INPUT else recording.constants[k]
            if value is None:
                unknown.add(k)
                hidden.add(k)
            elif isinstance(value, Tracer):
                if not is_known(value._recording, value._id):
                    unknown.add(k)
                if is_hidden(value._recording, value._id):
                    hidden.add(k)
    for k in new:
        if not unknown.isdisjoint(operands[k]):
            unknown.add(k)
            if not hidden.isdisjoint(operands[k]):
                hidden.add(k)
    evaluation.judged = len(operands)
    return evaluation


def raise_now(recording: Recording, variable: int) -> None:
    """Let an operation that may fail on values do so at once; see Note [Errors where they stand]."""
    primitive, operands, params = recording.primitives[variable], recording.operands[variable], recording.params[variable]
    if primitive.check is not None:
        specs = [recording.spec(i) for i in operands]
        value: Callable[[int], Any] = lambda place: _plain(recording, operands[place])  # noqa: E731
        primitive.check(value, *specs, *params)
    elif recording.values.known and is_known(recording, variable):
        recording.value(variable)


def _plain(recording: Recording, operand: int) -> Any:
    """The plain value of an operand, or ``None`` where it is not known."""
    if operand < 0:
        return recording.literals[~operand]
    return recording.handle(operand)._concrete() if is_known(recording, operand) else None


def evaluated(recording: Recording, variable: int, values: dict[int, Any] | None = None) -> Any:
    """Evaluate what a variable depends on, in order; warnings name the lines that recorded it.

    Args:
        variable: whose value is wanted.
        values: what is known, and will be, by variable; by default the recording's own.
    """
    primitives, avals, positions = recording.primitives, recording.avals, recording.positions
    if values is None:
        values = recording.values.known
    steps = steps_to(recording, (variable,), values)
    if any(primitives[k] is INPUT for k, _ in steps):
        raise ConcretizationError(
            f"a value is needed, but {recording.owner} records without values",
            made=recording.source(variable),
            fix="use functrace.cond or np.where for a choice that depends on values, functrace.scan or "
            "while_loop for a loop, or compute the value from something that is not traced (grad, vjp, jvp and "
            "vmap know values, as does jit(f, guards=True); jit, trace, and the bodies of cond and scan do not)",
        )
    evaluation = evaluation_of(recording)
    if any(k in evaluation.released for k, _ in steps):  # from now on nothing is, so that no loop evaluates over and over
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
        if recording.inner and k in recording.inner and any(isinstance(x, Tracer) for x in operands):
            result = tuple(evaluate_program(params[0], operands))  # who records outside decides
        else:
            result = bind(primitive, operands, params)
        for j, found in enumerate(result, k) if primitive.many else ((k, result),):
            evaluation.variables.append(j)
            evaluation.nbytes += avals[j].nbytes
            if isinstance(found, Tracer) and positions is not None and found._recording.positions is not None:
                found._recording.positions[found._id] = positions[k]  # not the line that asks
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


def _free(recording: Recording, wanted: int, evaluation: Evaluation, values: dict[int, Any]) -> None:
    """Free the values that nothing will read."""
    before = evaluation.variables
    release(recording, (wanted,), values)
    evaluation.variables = [k for k in before if k in values]
    evaluation.released.update([k for k in before if k not in values])
    evaluation.nbytes = sum([recording.avals[k].nbytes for k in evaluation.variables])
    evaluation.most = max(MOST_HELD, 2 * evaluation.nbytes)


# -- of something that may be traced -----------------------------------------------------------


def has_value(x: object) -> bool:
    """Whether the plain value of something that may be traced can be had; that of a mapped function's examples cannot."""
    return not isinstance(x, Tracer) or x._recording.closed or not is_hidden(x._recording, x._id)


def known_value(x: object) -> Any:
    """Return the plain value of something that may be traced; ``None`` where values are not known."""
    if not isinstance(x, Tracer):
        return x
    recording = x._recording
    return x._concrete() if recording.closed or is_known(recording, x._id) else None


def is_constant(x: Tracer, most: float = math.inf) -> bool:
    """Return whether a traced value depends on no input of any transform: it is concrete, and no derivative by it is lost.

    Args:
        x: the value.
        most: a number of operations; a value that depends on more of them counts as dependent on an input.

    Cost:
        0.1 us per operation that it depends on.
    """
    return not _depends(x, through_integers=True, most=most)


def has_no_derivative(x: Tracer) -> bool:
    """Whether no derivative is lost if the plain value is taken: it is of integers, or depends on inputs by integers only.

    Cost:
        0.1 us per operation that it depends on.
    """
    return x.aval.dtype.kind not in "fc" or not _depends(x, through_integers=False)


def _depends(x: Tracer, *, through_integers: bool, most: float = math.inf) -> bool:
    """Whether a value depends on an input, of all kinds of values or of floats and complex numbers only."""
    if x.is_number:
        return True
    seen: set[tuple[int, int]] = set()
    todo: list[tuple[Recording, int]] = [(x._recording, x._id)]
    while todo:
        recording, variable = todo.pop()
        if recording.closed and not recording.makes_arrays:
            return True  # whoever asks for its value is told
        if (id(recording), variable) in seen:
            continue
        seen.add((id(recording), variable))
        if len(seen) > most:
            return True
        primitive = recording.primitives[variable]  # (first: of a value that a write may have changed this raises)
        if not through_integers and recording.avals[variable].dtype.kind not in "fc":
            continue
        operands = recording.operands[variable]
        if primitive is INPUT:
            return True
        if primitive is CONSTANT:
            value = recording.constants[variable]
            if isinstance(value, Tracer):
                if value.is_number:
                    return True
                todo.append((value._recording, value._id))
        else:
            todo.extend([(recording, i) for i in operands if i >= 0])
    return False


def stages() -> str | None:
    """Who records here what will run on other values, or any number of times: a number drawn now would stay the same.

    Returns:
        the recording's owner; ``None`` outside of all recordings, and where values are known.
    """
    body = INNERMOST.get()
    if body is None:
        body = running()
    if body is None:
        return None
    has_values = all(is_known(body, k) for k in body.inputs) if body.inputs else body.scope is OPEN
    return None if has_values else body.owner
