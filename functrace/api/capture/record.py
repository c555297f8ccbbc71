"""Recording a call of a user's function: the only way from Python to a program.

`RecordedCall` calls a function on tracers. The transform chooses how the arguments become inputs,
abstract or concrete, and which leaves of the result are outputs; `RecordedCall` handles the user's
exceptions, auxiliary data, and the types of results. `grad`, `vjp`, `vmap` … then look up their
transformed program (`RecordedCall.transformed`), `trace` and `jit` freeze the program, and the body of
an operation becomes a closed program over its captured values (`stage`).

Layer: 8.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from opcode import opmap
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from functrace.api.capture.arguments import ARRAYS, NUMERIC, as_value, is_pair
from functrace.api.capture.results import (
    MemoryOrigin,
    check_aliased,
    computed_leaves,
    number_type,
    origin_of,
)
from functrace.errors import (
    ArgumentError,
    CapturedArrayError,
    DtypeError,
    FunctraceError,
    UnsupportedFunctionError,
)
from functrace.executor import run_recorded
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.parts import closed_over
from functrace.ir.program import Position, Program
from functrace.numpy.arrays.masked import MaskedSelection, NeedsConcreteValues
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.numpy.arrays.traced_array import TracedArray
from functrace.numpy.arrays.traced_number import TracedNumber
from functrace.numpy.arrays.views import new_array
from functrace.numpy.protocol.conversions import (
    REFUSED,
    called_at,
    forget_refusals,
    replaced_refusal,
)
from functrace.numpy.protocol.foreign_names import in_numpy, library_of
from functrace.numpy.protocol.operands import holds_tracer
from functrace.phases import phase
from functrace.source import CYTHONS, OWN_AND_NUMPYS, PACKAGE_PREFIX, is_users, source_of_traceback
from functrace.tracing.binding import BODY, call_recorded
from functrace.tracing.capture import ArrayWatch, CapturedArray, held_array, read_only_memory
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer, Value, fix_for
from functrace.tree import flatten, paths, unflatten
from functrace.typing import PyTree

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

Called = tuple[Sequence[Any], dict[str, Any]]
"""Positional and keyword arguments of a call."""

# -- one call --------------------------------------------------------------------------------------


@final
class RecordedCall:
    """One call of a user's function, recorded.

    Args:
        recording: the recording, which stays open; the caller enters it with a ``with`` block.
        f: the function.
        arguments: creates the inputs of the recording; returns the arguments of the function.
        has_aux: whether the function returns a pair of a result and auxiliary data.
        wanted: selects the outputs from the result; default: all of its leaves.
        reads: for bodies traced once and run many times: arrays that the program reads in any case.
            The function must not write into them, nor into any other array that it reads.

    Raises:
        DtypeError: if the function returned something that is not a number or an array.
        CapturedArrayError: if it writes into an array that it may only read.
        ConcretizationError: if a shape depends on values.
    """

    __slots__ = ("_aux", "_aux_tree", "_own", "out_tree", "outputs", "recording", "watches")
    outputs: list[int]
    """Variables of the outputs: the leaves of the result, or those that ``wanted`` selected."""
    out_tree: PyTreeSpec
    """The structure of the result."""
    watches: list[ArrayWatch]
    """The arrays that the function read besides ``reads``; set only if ``reads`` was passed."""

    def __init__(
        self,
        recording: Recording,
        f: Callable[..., Any],
        arguments: Callable[[Recording], Called],
        *,
        has_aux: bool = False,
        wanted: Callable[[Recording, Any], Sequence[Any]] | None = None,
        reads: Iterable[Any] | None = None,
    ) -> None:
        if reads is not None:
            with phase("record"), read_only_memory(recording.owner, reads) as memory:
                self.__init__(recording, f, arguments, has_aux=has_aux, wanted=wanted)
            self.watches = memory.captured
            return
        self.recording = recording
        try:
            args, kwargs = arguments(recording)
            result = call_recorded(recording, f, args, kwargs)
            if recording.captures_if_any is not None:
                check_aliased(recording)
            if REFUSED:
                forget_refusals()
        except Exception as error:
            explain(error, recording.owner)
            raise
        self._own: list[tuple[int, int]] = []
        aux: Any = None
        if has_aux:
            result, aux = _split_aux(result, recording.owner)
        if wanted is None:
            leaves, self.out_tree = flatten(result)
        else:
            leaves = wanted(recording, result)
        try:
            self.outputs = [
                leaf.ft_variable
                if type(leaf) is TracedArray and leaf.ft_recording is recording
                else output_variable(recording, leaf)
                for leaf in leaves
            ]
        except DtypeError:
            if wanted is None:
                _refuse_result(recording, leaves, self.out_tree)
            raise
        if has_aux:
            self._aux, self._aux_tree = flatten(aux)
            self._own = _own_tracers(recording, self._aux)

    @property
    def out_avals(self) -> list[ShapeDtype]:
        """Avals of the outputs."""
        avals = self.recording.avals
        return [avals[i] for i in self.outputs]

    @property
    def lines(self) -> Sequence[Position]:
        """The user's lines, for running a transformed program of this recording."""
        return self.recording.positions or ()

    @property
    def auxiliary(self) -> int:
        """Number of leaves of the auxiliary data that are traced here: a transformed program
        returns them last."""
        return len(self._own)

    def transformed(
        self, transform: object, build: Callable[[Program], Any]
    ) -> tuple[Any, list[Any]]:
        """Return ``build(program)``, from the cache if possible, and the arguments to run it on."""
        own = self._own
        return run_recorded(
            self.recording,
            [*self.outputs, *[i for _, i in own]] if own else self.outputs,
            transform,
            build,
        )

    def program(self, name: str, also: Sequence[int] = (), **details: object) -> Program:
        """Return the program of the outputs and of other variables, with its captured values as
        constants."""
        return self.recording.program((*self.outputs, *also), name=identifier(name), **details)

    def aux(self, values: Iterable[Any]) -> Any:
        """Return the auxiliary data, with values for the leaves that were traced here."""
        leaves = list(self._aux)
        for (k, _), value in zip(self._own, values, strict=True):
            leaves[k] = value
        return unflatten(self._aux_tree, leaves)


def explain(error: Exception, owner: str) -> None:
    """Raise the library's error where NumPy replaced it by another one, in an exception from the
    user's function."""
    if _is_users_own(error):
        return
    if not isinstance(error, FunctraceError):
        is_operator = str(error).startswith(
            "unsupported operand type(s)"
        )  # of polynomials, see `_explain_refusal`
        hidden = None if is_operator else replaced_refusal(error.__traceback__)
        if (
            hidden is not None
        ):  # "setting an array element with a sequence", "required argument is not a float"
            raise hidden.with_traceback(error.__traceback__) from None
        _explain_library(error)
    if not isinstance(error, ValueError | SystemError):
        if not isinstance(error, FunctraceError):
            _explain_refusal(error)
        return
    # C code hides it: "returned a result with an exception set"
    if isinstance(error.__cause__, FunctraceError):
        raise error.__cause__ from None
    if "read-only" in str(error) and not isinstance(error, FunctraceError):
        raise CapturedArrayError(
            f"an argument or captured array of {owner} is written in place, but it is read-only",
            at=source_of_traceback(error.__traceback__),
            fix="write into a copy: x = x.copy()",
        ).with_traceback(error.__traceback__) from None


def _explain_library(error: Exception) -> None:
    """Raise an error with a fix if another array library received a traced value."""
    if "Traced" not in str(error):
        return
    traceback = users = error.__traceback__
    while traceback is not None:
        users = traceback if is_users(traceback.tb_frame.f_code.co_filename) else users
        traceback = traceback.tb_next
    name = "" if users is None else called_at(users.tb_frame, users.tb_lasti)
    library = library_of(name)
    if library:
        raise UnsupportedFunctionError(
            f"{name} is a function of {library}'s, and does not take traced values of functrace",
            at=source_of_traceback(error.__traceback__),
            fix=in_numpy(name),
        ).with_traceback(error.__traceback__) from None


def _explain_refusal(error: Exception) -> None:
    """Raise an error with a fix if compiled code, or a library, does not accept a traced value."""
    text = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    line = next((line.strip() for line in text.splitlines() if "Traced" in line), "")
    innermost = _innermost(error.__traceback__)
    if (
        str(type(error).__module__).partition(".")[0] in _CHECKERS
        and "Traced" in text
        and "ndarray" in text
    ):
        error.add_note(
            "fix: a traced value is no numpy.ndarray: annotate functrace.Array, which both are, as "
            "in "
            'Float[functrace.Array, "n d"]'
        )
    if innermost is None or type(error).__module__ not in _EXPLAINED:
        return
    is_hidden = text.startswith("unsupported operand type(s)") and "numpy.polynomial" in sys.modules
    if is_hidden and any(
        isinstance(getattr(x, "coef", None), Tracer) for x in innermost.tb_frame.f_locals.values()
    ):
        raise UnsupportedFunctionError(
            f"numpy.polynomial could not compute this with traced coefficients ({text}), and hides "
            "why; without their "
            "values it cannot tell which of them are zeros, which it leaves out",
            at=source_of_traceback(error.__traceback__),
            fix="use np.convolve of the coefficients (p.coef), or np.polymul and related "
            "functions, highest coefficient "
            "first; functrace.jit(f, guards=True), grad and vmap have concrete values",
        ).with_traceback(error.__traceback__) from None
    frame, file = innermost.tb_frame, innermost.tb_frame.f_code.co_filename
    if (
        not is_users(file)
        and not file.startswith(OWN_AND_NUMPYS)
        and isinstance(error, TypeError)
        and not line
    ):
        is_raised = frame.f_code.co_code[innermost.tb_lasti] in _RAISE
        if not is_raised and holds_tracer(list(frame.f_locals.values())):
            line = text  # from compiled code that the library called
    elif not any(words in line for words in ("not Traced", "bytes-like object")) and (
        is_users(file) or file.startswith(PACKAGE_PREFIX)
    ):
        return
    if "bytes-like object" in line:
        raise UnsupportedFunctionError(
            f"code accesses the memory of a traced value, which has none ({line})",
            at=source_of_traceback(error.__traceback__),
            fix="np.frombuffer, memoryview, np.ndarray(shape, dtype, x) and subclasses of ndarray "
            "that are made so hold "
            "plain values: use a function that takes arrays, x.view(Subclass) under "
            "@functrace.numpy.lift, or "
            "functrace.value(x)",
        ) from error
    if line:
        at = source_of_traceback(error.__traceback__)
        name = "" if at is None else at.called
        raise UnsupportedFunctionError(
            f"{name or 'code that'} takes plain arrays only, and was given a traced value ({line})",
            at=at,
            fix=in_numpy(name)
            or "call it by functrace.pure_callback, or give it a derivative with functrace.primitive "
            "(docs/foreign_code.md); functrace.scipy has functions of SciPy; functrace.value(x) "
            "returns the concrete value, "
            "without derivative, where there is one",
        ).with_traceback(error.__traceback__) from None


_EXPLAINED = ("builtins", "numba.core.errors")
"""Modules whose errors are explained. Errors of other libraries, e.g. beartype, are clear by
themselves."""
_CHECKERS = ("beartype", "jaxtyping", "typeguard")
"""Libraries that check annotations at calls."""
_RAISE = (opmap["RAISE_VARARGS"], opmap["RERAISE"])


def _is_users_own(error: Exception) -> bool:
    """Return True if a ``raise`` in the user's code raised an exception, not code that it
    called."""
    traceback = _innermost(error.__traceback__)
    if traceback is None or not is_users(traceback.tb_frame.f_code.co_filename):
        return False
    return traceback.tb_frame.f_code.co_code[traceback.tb_lasti] in _RAISE


def _innermost(traceback: TracebackType | None) -> TracebackType | None:
    """Return the innermost frame of Python code; Cython adds frames of its own to a traceback."""
    found = None
    while traceback is not None:
        if not traceback.tb_frame.f_code.co_filename.endswith(CYTHONS):
            found = traceback
        traceback = traceback.tb_next
    return found


def identifier(name: str) -> str:
    """Return a function's name as an identifier for listings."""
    return name if name.isidentifier() else "program"


def output_variable(recording: Recording, leaf: object) -> int:
    """Return the variable of an output leaf; an untraced leaf becomes a captured value."""
    if isinstance(leaf, TracedNumber):
        leaf = leaf.strong()
    if isinstance(leaf, TracedArray) and leaf.ft_recording is recording:
        return leaf.ft_variable
    if isinstance(leaf, NUMERIC):
        return recording.capture(
            leaf if isinstance(leaf, Tracer) else as_value(leaf, recording.owner)
        )
    if isinstance(leaf, MaskedSelection):
        return output_variable(recording, leaf.array())
    if isinstance(leaf, NeedsConcreteValues):
        raise leaf.refuse()
    raise DtypeError(
        f"{recording.owner} returned a {type(leaf).__name__}, not an array or a number",
        fix=fix_for(
            leaf,
            "return arrays or numbers; has_aux=True carries other results; register a class that is "
            "a pytree with functrace.tree.register",
        ),
    )


def _refuse_result(recording: Recording, leaves: Sequence[Any], tree: PyTreeSpec) -> None:
    """Raise for the first leaf of a pytree that cannot be a result; the message has its path."""
    for leaf, path in zip(leaves, paths(tree), strict=True):
        if path and not isinstance(leaf, NUMERIC):
            try:
                output_variable(recording, leaf)
            except DtypeError as error:
                kind = type(leaf).__name__
                raise DtypeError(
                    f"{recording.owner} returned a pytree in which result{path} is a {kind}, not "
                    "an array or a number",
                    at=error.at,
                    fix=f"{error.fix}; a static field of a dataclass (functrace.tree.static) is no "
                    "leaf",
                ) from None


def _split_aux(result: PyTree, what: str) -> tuple[Any, Any]:
    """Return the function's result and its auxiliary data."""
    if not is_pair(result):
        raise ArgumentError(
            f"{what} with has_aux=True expects a pair (result, aux), but the function returned a "
            f"{type(result).__name__}",
            fix="return result, aux",
        )
    return result


def _own_tracers(recording: Recording, leaves: list[Any]) -> list[tuple[int, int]]:
    """Return positions and variables of the leaves of auxiliary data that this recording traces.

    Raises:
        ConcretizationError: if a leaf is a selection of unknown size.
    """
    own: list[tuple[int, int]] = []
    for k, leaf in enumerate(leaves):
        if isinstance(leaf, TracedNumber):
            leaf = leaves[k] = leaf.strong()
        elif isinstance(leaf, MaskedSelection) and leaf.key[0] is recording:
            leaf = leaves[k] = leaf.array()
        if isinstance(leaf, TracedArray) and leaf.ft_recording is recording:
            own.append((k, leaf.ft_variable))
    return own


# -- arguments as inputs ---------------------------------------------------------------------------


def add_input(recording: Recording, value: Value, leaf: object = None) -> Any:
    """Make an argument an input of the recording, with a snapshot of its array.

    Args:
        recording: the recording.
        value: the argument, as `as_value` returns it.
        leaf: the original argument: the function must see a 0-d array as an array, not as a scalar.
    """
    if type(value) is np.ndarray or isinstance(value, np.ndarray):
        tracer = recording.new_input(aval_of(value), held_array(value))
        if not value.flags.c_contiguous:
            recording.views.layouts[tracer.ft_variable] = value.strides
        return tracer
    tracer = recording.new_input(aval_of(value), value)
    return new_array(tracer) if isinstance(leaf, np.ndarray) else tracer


def own_arrays(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Copy the arrays among untraced arguments: the caller does not see what the function
    writes."""
    return [_own(x) for x in args], {
        key: _own(x) for key, x in kwargs.items()
    } if kwargs else kwargs


def _own(value: object) -> Any:
    """Return a snapshot of a plain array. Other values (a masked array, a memmap) are forwarded
    unchanged."""
    if type(value) is not np.ndarray:
        return value
    return held_array(value) if value.dtype.kind in "biufc" else value.copy()


class Operands:
    """The leaves of a call's arguments: arrays and traced values are operands, other leaves are
    not.

    Python numbers, also those that `jit` traces, are no operands, so they keep their weak dtype
    (NEP 50).
    """

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.leaves, self.tree = flatten((args, kwargs))
        self.active: tuple[bool, ...] = ()
        """Flags of the operands that have a derivative; empty if unknown."""
        self.places: list[int] = []
        self.avals: list[ShapeDtype] = []
        self._held: list[CapturedArray | None] = []
        self.values: list[Any] = []
        for k, leaf in enumerate(self.leaves):
            one: object = leaf
            if isinstance(one, ARRAYS) and type(leaf) is not TracedNumber:
                held = CapturedArray(leaf) if isinstance(one, np.ndarray) else None
                self.places.append(k)
                self.avals.append(aval_of(leaf))
                self._held.append(held)
                self.values.append(leaf if held is None else held.array)

    @property
    def given(self) -> list[Any]:
        """The operands as they were passed."""
        return [self.leaves[k] for k in self.places]

    def forwarded(self) -> list[Any]:
        """Return the values for the recorded program: the caller's own arrays if they are
        unchanged, else snapshots."""
        return [
            v if held is None else held.forwarded()
            for v, held in zip(self.values, self._held, strict=True)
        ]

    def if_traced(self) -> Operands:
        """Return the same operands, or none if no value is traced: then the function gets all
        leaves unchanged."""
        if any(isinstance(value, Tracer) for value in self.values):
            return self
        made = object.__new__(Operands)
        made.leaves, made.tree, made.active = self.leaves, self.tree, self.active
        made.places, made.values, made.avals, made._held = [], [], [], []
        return made

    def without_values(self) -> Operands:
        """Return the same operands, abstract: recording cannot concretize them, and may outlive the
        call."""
        made = object.__new__(Operands)
        made.leaves, made.tree, made.places, made.avals = (
            list(self.leaves),
            self.tree,
            self.places,
            self.avals,
        )
        made.active = self.active
        for place in self.places:
            made.leaves[place] = None
        made.values = made._held = [None] * len(self.places)
        return made

    def inputs(self, recording: Recording) -> Called:
        """Make the operands inputs of a recording, read-only to the function; return its
        arguments."""
        inputs = [
            recording.new_input(aval, value)
            for aval, value in zip(self.avals, self.values, strict=True)
        ]
        recording.arguments = tuple(inputs)
        return self.arguments(inputs)

    def arguments(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return args and kwargs with other values for the operands."""
        leaves = list(self.leaves)
        for place, value in zip(self.places, values, strict=True):
            leaves[place] = value
        return unflatten(self.tree, leaves)


# -- bodies of operations --------------------------------------------------------------------------


class StagedFunction(NamedTuple):
    """A function as a closed program.

    Args:
        program: its inputs are the operands, then the captured values.
        captured: arrays or outer traced values.
        out_tree: structure of the result.
        numbers: per leaf of the result, its Python type if it is a number, else ``None``.
        origins: of each leaf.
    """

    program: Program
    captured: list[Any]
    out_tree: PyTreeSpec
    numbers: list[type | None]
    origins: list[MemoryOrigin]

    @property
    def out_avals(self) -> list[ShapeDtype]:
        """Avals of the result's leaves."""
        return [self.program.avals[i] for i in self.program.output_ids]


def stage(
    f: Callable[..., Any],
    operands: Operands,
    owner: str,
    name: str,
    *,
    is_certain: bool = True,
    computed_only: bool = False,
    scope: str = BODY,
    input_names: Sequence[str | None] = (),
    reads: Iterable[Any] | None = None,
) -> StagedFunction:
    """Record a function on the operands of a call, as the body of an operation.

    Args:
        f: the function.
        operands: of the call; `Operands.without_values` if the function may not concretize them.
        owner: the transform, for messages.
        name: the program's name in listings.
        computed_only: whether the program returns `computed_leaves` only, instead of all leaves of
            the result.
        input_names: names of the operands in listings.
        is_certain: whether the body will run in any case, so that errors may be raised now.
        scope: its scope; see Note [A body is what runs inside] in tracing/binding.py.
        reads: see `RecordedCall`.
    """
    found: list[Any] = []

    def wanted(recording: Recording, result: object) -> Sequence[Any]:
        leaves, tree = flatten(result)
        numbers = [number_type(leaf) for leaf in leaves]
        if numbers.count(None) < len(numbers):
            leaves = [leaf.strong() if isinstance(leaf, TracedNumber) else leaf for leaf in leaves]
        origins = [origin_of(recording, leaf) for leaf in leaves]
        found.extend((tree, numbers, origins))
        return computed_leaves(origins, leaves) if computed_only else leaves

    with ArrayRecording(owner, scope=scope, is_certain=is_certain) as recording:
        recorded = RecordedCall(recording, f, operands.inputs, wanted=wanted, reads=reads)
        program, _ = closed_over(recorded.program(name, input_names=input_names))
        return StagedFunction(
            program, [recording.callers_array(i) for i in recording.constants], *found
        )
