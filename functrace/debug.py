"""Debugging inside of transforms: ``print``, ``callback``, ``breakpoint``, ``profile``, ``passes``,
``cache``, ``collectives``, ``explain_nan``, ``precision``.

Where values are concrete (`grad`, `vjp`, `jvp` outside of staging), Python runs at every call, and
a debugging function runs at once. While staging (`jit`, `vmap`, `scan` …) it becomes an operation
that runs in every run of the program, although its
result is unused: no pass removes or reorders such operations. Derivatives ignore it: neither the
reverse pass nor the recomputation of `functrace.checkpoint` runs it again.

Layer: 8 (api).
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from string import Formatter
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import numpy as np

from functrace.api.batching.mapping import OBSERVER
from functrace.api.capture.arguments import ARRAYS, as_value, function_name
from functrace.api.capture.programs import trace, trace_concrete
from functrace.api.capture.record import Operands
from functrace.api.capture.transformed import Transformed, transformed
from functrace.api.staging.backends import Accuracy, check_accuracy
from functrace.api.staging.disabling import diagnosing
from functrace.errors import ArgumentError, entry
from functrace.executor import Runner
from functrace.executor.cache import CACHE
from functrace.executor.profile import Profile, profile_program
from functrace.executor.runner import Tier
from functrace.ir.aval import ShapeDtype
from functrace.keys import static_key
from functrace.lazy import lazy_attributes
from functrace.numpy.arrays.traced_number import TracedNumber
from functrace.ops.foreign import ForeignFunction, observe_p
from functrace.passes import Pass, UserPass, as_passes
from functrace.passes.pass_log import PassLog, trail
from functrace.tracing.binding import bind, running
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import concrete_value, is_concrete
from functrace.tree import flatten, map_leaves, structure, tree_key, unflatten
from functrace.typing import Array, PyTree

__all__ = [
    "Collectives",
    "Explanation",
    "LinePrecision",
    "NanReport",
    "NonfiniteOrigin",
    "OperandValues",
    "OperationPrecision",
    "PassLog",
    "PrecisionReport",
    "Profile",
    "ResultPrecision",
    "Step",
    "Tier",
    "breakpoint",
    "cache",
    "callback",
    "collectives",
    "explain",
    "explain_nan",
    "passes",
    "precision",
    "print",
    "profile",
]

Mesh: TypeAlias = Any
"""A ``jax.sharding.Mesh``. (JAX is not imported here.)"""

_DONE = (ShapeDtype((), np.dtype(bool)),)


def callback(
    f: Callable[..., object], *args: PyTree, ordered: bool = False, **kwargs: PyTree
) -> None:
    """Call ``f(*args, **kwargs)`` for its effect, with plain arrays, at every run.

    Under `vmap`, it is called once per example, in order, if an argument differs between examples;
    otherwise once.

    Args:
        f: any function; its result is ignored. An error that it raises is raised by the run.
        args, kwargs: arguments of ``f``: pytrees. Leaves that are no arrays are passed unchanged.
        ordered: accepted for code written for ``jax.debug``; calls of one program run in order in
            any case.

    Raises:
        ArgumentError: if ``f`` is not a function.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> log = []
        >>> f = ft.jit(lambda x: (ft.debug.callback(log.append, np.sum(x)), x * 2.0)[1])
        >>> _ = f(np.ones(3)), f(np.zeros(3))
        >>> log
        [np.float64(3.0), np.float64(0.0)]

    Source:
        ``jax.debug.callback``.
    """
    if not callable(f):
        raise ArgumentError(
            f"debug.callback takes a function, not a {type(f).__name__}", fix="debug.callback(f, x)"
        )
    _observed(f, (id(f),), args, kwargs)


def print(fmt: str, *args: PyTree, ordered: bool = False, **kwargs: PyTree) -> None:
    """Print ``fmt.format(*args, **kwargs)`` with plain values, at every run.

    Under `vmap`, it prints once per example, in order, if an argument differs between examples;
    otherwise once.

    Args:
        fmt: a format string, such as ``"loss {}"`` or ``"loss {loss:.3f}"``; not an f-string, which
            is formatted only once.
        args, kwargs: values of the fields.
        ordered: accepted for code written for ``jax.debug``; calls of one program run in order in
            any case.

    Raises:
        ArgumentError: if ``fmt`` is not a string, or does not fit the arguments.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> def f(x):
        ...     ft.debug.print("x is {x:.1f}", x=x)
        ...     return x * x
        >>> ft.vmap(ft.grad(f))(np.array([1.0, 2.0]))
        x is 1.0
        x is 2.0
        array([2., 4.])

    Source:
        ``jax.debug.print``.
    """
    if not isinstance(fmt, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' code
        raise ArgumentError(
            f"debug.print: the format is a {type(fmt).__name__}", fix='debug.print("x is {}", x)'
        )
    _check_format(fmt, len(args), set(kwargs))

    def show(*values: object, **named: object) -> None:
        builtins.print(fmt.format(*values, **named))

    _observed(show, ("print", fmt), args, kwargs)


def breakpoint() -> None:
    """Stop in Python's debugger, at every run, with the local variables of the calling function as
    plain values.

    The debugger is that of ``breakpoint()`` (``sys.breakpointhook``). It stops in a function of
    functrace, where the dictionary ``variables`` holds the arrays, numbers and strings of the
    calling function.

    Example:
        >>> import builtins, sys, functrace as ft
        >>> sys.breakpointhook = lambda: builtins.print(sys._getframe(1).f_locals["variables"]["x"])
        >>> def f(x):
        ...     ft.debug.breakpoint()
        ...     return x * 2.0
        >>> ft.jit(f)(3.0)
        3.0
        np.float64(6.0)
        >>> sys.breakpointhook = sys.__breakpointhook__

    Source:
        ``jax.debug.breakpoint``.
    """
    shown = (*ARRAYS, bool, int, float, complex, str)
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # documented for CPython
    variables = frame.f_locals.items()
    kept = {
        name: value
        for name, value in variables
        if any(isinstance(leaf, shown) for leaf in flatten(value)[0])
    }
    _observed(_stop, ("breakpoint",), (kept,), {})


def profile(
    f: Callable[..., object], *, seconds: float = 0.3, passes: Sequence[UserPass] = ()
) -> Callable[..., Profile]:
    """Make a function that measures the time of ``jit(f)``, operation by operation.

    The program of a jitted call is measured: staged, with all passes, its operations in their
    order, with their planned buffers. It runs alternately without clocks and with a clock around
    every operation; a profile has both times, since a clock costs 0.2 us per operation. With
    clocks, the body of a loop is called at every step, even where it is otherwise inlined, which
    increases the loop's own time.

    Args:
        f: a function of arrays (pytrees of them), jitted or not.
        seconds: time to measure, in seconds; at least three runs of either kind are made.
        passes: functions from a program to an equal one, applied before it is compiled; by default
            those of the jitted ``f``.

    Returns:
        a function of ``f``'s arguments that returns a `Profile`. It prints time, bytes, bytes per
        second and flops per second by operation, and time by line. For a fusion group, the total
        time is measured, and each operation's is estimated. ``profile.svg()`` is a picture;
        ``rows`` and ``lines`` are the figures, ``compiling`` those of recording and compiling.
        Bytes count operands and results.

    Raises:
        ArgumentError: if an argument is traced; if a pass is not one.
        ConcretizationError: if ``f`` reads a concrete value.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> found = ft.debug.profile(ft.grad(lambda x: np.sum(np.tanh(x) ** 2)), seconds=0.0)(np.ones(1000))
        >>> [row.text for row in found.rows][:2]
        ['a: f64[1000] = tanh x', 'b: f64[1000] = square a']
        >>> found.rows[0].bytes, found.rows[0].flops
        (16000, 1000)
    """
    name = function_name(f)
    rows = _rows(f, passes, "debug.profile")

    @transformed("debug.profile", f)
    def profiled(*args: object, **kwargs: object) -> Profile:
        values = [as_value(leaf, f"an argument of {name}") for leaf in flatten((args, kwargs))[0]]
        if any(isinstance(value, Tracer) for value in values):
            raise ArgumentError(
                f"debug.profile measures {name} on arrays, not on traced values",
                fix="call it outside",
            )
        return profile_program(lambda: trace(f)(*args, **kwargs), values, seconds, rows)

    return profiled


def passes(f: Callable[..., object], *, passes: Sequence[UserPass] = ()) -> Callable[..., PassLog]:
    """Make a function that reports the changes and times of all passes on the program of
    ``jit(f)``.

    Args:
        f: a function of arrays (pytrees of them), jitted or not.
        passes: functions from a program to an equal one, applied before it is compiled; by default
            those of the jitted ``f``.

    Returns:
        a function of ``f``'s arguments that returns a `PassLog`. It prints each pass with the
        equations that it removed and added; ``steps`` has these as values, and ``program`` is the
        final program.

    Raises:
        ArgumentError: if a pass is not one.
        ConcretizationError: if ``f`` reads a concrete value.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> found = ft.debug.passes(lambda x: np.sin(x) / 2)(1.0)
        >>> [line for step in found.steps for line in step.changes()]
        ['  - b: f64[] = div a 2', '  + b: f64[] = mul a 0.5']
    """
    rows = _rows(f, passes, "debug.passes")

    @transformed("debug.passes", f)
    def passed(*args: object, **kwargs: object) -> PassLog:
        return trail(trace(f)(*args, **kwargs), rows)

    return passed


def explain(f: Callable[..., object], *, accuracy: Accuracy = "ulp") -> Callable[..., Explanation]:
    """Make a function that says how ``jit(f, backend="native")`` runs: what is machine code, and
    which operations NumPy runs.

    Args:
        f: a function of arrays (pytrees of them).
        accuracy: "ulp" for elementary functions with errors of about one unit in the last place;
            "numpy" for machine code whose results equal NumPy's to the bit.

    Returns:
        a function of ``f``'s arguments that returns an `Explanation`, which prints as text. It
        compiles nothing, and does not need llvmlite.

    Raises:
        ConcretizationError: if ``f`` reads a concrete value.
        ArgumentError: if there is no such accuracy.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> found = ft.debug.explain(lambda x: np.sum(np.linalg.svd(np.sin(x))[1]))(np.eye(9))
        >>> found.is_whole, len(found.by_numpy)
        (False, 1)
    """

    check_accuracy(accuracy, "debug.explain")

    @transformed("debug.explain", f)
    def explaining(*args: object, **kwargs: object) -> Explanation:
        from functrace.native.report import explained

        return explained(trace(f)(*args, **kwargs), is_exact=accuracy == "numpy")

    return explaining


def explain_nan(f: Callable[..., object]) -> Callable[..., NanReport]:
    """Make a function that finds the operation in ``f`` that makes the first NaN or infinity.

    ``f`` is recorded with concrete values, so that Python's branches are those of this call, and
    evaluated operation by operation, its derivatives included. The search goes backward from the
    elements of the results that are NaN: an infinity or a NaN that no result depends on (the other
    side of ``np.where``) is reported only if there is no other.

    Args:
        f: any function, such as ``ft.grad(loss)`` or ``ft.jit(ft.vmap(step))``. Functions that it
            calls for their effects (`callback`, `print`) are called again.

    Returns:
        a function of ``f``'s arguments that returns a `NanReport`: the user's line, the operation,
        values and indices of its operands, the derivative that is infinite there, the step of a
        loop, the example of `vmap`, and a remedy, where one is known. It prints as text; it is
        false if there is nothing to report. Arrays and floating-point numbers among the arguments
        are traced, everything else is passed unchanged.

    Raises:
        ArgumentError: if an argument is traced.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> def f(x):
        ...     return np.sum(np.where(x > 0, np.sqrt(x), 0.0))
        >>> report = ft.debug.explain_nan(ft.grad(f))(np.array([1.0, 0.0]))
        >>> report.first.derivative, report.first.index
        ('d sqrt(x)/dx at x = 0 is inf', (1,))
        >>> report.nan.operation
        'f: f64[2] = mul e c'

    Cost:
        one evaluation, about 5 us per operation besides the array work, which keeps all values; the
        loop that makes the NaN runs once more.
    """
    name = function_name(f)

    @transformed("debug.explain_nan", f)
    @entry
    def explained(*args: object, **kwargs: object) -> NanReport:
        from functrace.diagnostics.report import MappedLines, explain_program, mapped_lines

        mapped: list[MappedLines] = []

        def observe(recording: Recording, size: int) -> None:
            mapped.append(mapped_lines(recording, size))

        token = OBSERVER.set(observe)
        try:
            with diagnosing():  # a cached program does not say what is mapped
                program, values = trace_concrete(f, args, kwargs, f"debug.explain_nan of {name}")
        finally:
            OBSERVER.reset(token)
        return explain_program(program, values, (), mapped)

    return explained


def precision(
    f: Callable[..., object], *, reference: Literal["float64", "longdouble", "mpmath"] | None = None
) -> Callable[..., PrecisionReport]:
    """Make a function that finds the lines of ``f`` at which digits are lost.

    ``f`` is recorded with concrete values, and evaluated operation by operation in its own dtypes
    and in a reference with more digits, derivatives, loops and branches included. Both take the same
    branches and the same number of steps.

    Args:
        f: any function, such as ``loss`` or ``ft.grad(loss)``. Functions that it calls for their
            effects (`callback`, `print`) are called again.
        reference: ``"float64"``, for programs of float32; ``"longdouble"``, for which functions of
            ``numpy.linalg`` are linearized; ``"mpmath"``, with as many digits as are needed (40 to
            1280). By default float64 for programs without float64, otherwise mpmath if it is
            installed (the extra ``precision``), or else longdouble.

    Returns:
        a function of ``f``'s arguments that returns a `PrecisionReport`, which prints as text: the
        digits that each result has lost, and by line the operations that lose them: the element, its
        value and reference, the condition number, the step of a loop, and the stable form of the
        formula, where one is known (`functrace.passes.stable`). Arrays and floating-point numbers
        among the arguments are traced, everything else is passed unchanged; both are taken as exact.

    Raises:
        ArgumentError: if an argument is traced, or the reference has no more digits than ``f``.
        UnsupportedFunctionError: if mpmath is needed, but not installed.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> report = ft.debug.precision(lambda x: np.sqrt(x**2 + 1.0) - x)(1e6)
        >>> round(report.lost), report.operations[0].cause, report.operations[0].reference
        (11, 'cancellation', '4.99999999999875e-7')

    Cost:
        about 0.2 ms per operation, and three times the array work; with mpmath, 20 to 50 us per
        element and operation, again for each time that more digits are needed. All values are kept.
    """
    name = function_name(f)

    @transformed("debug.precision", f)
    @entry
    def measured(*args: object, **kwargs: object) -> PrecisionReport:
        from functrace.diagnostics.precision_report import report_precision

        with diagnosing():
            program, values = trace_concrete(f, args, kwargs, f"debug.precision of {name}")
        return report_precision(program, values, (), reference)

    return measured


def collectives(
    f: Callable[..., object],
    mesh: Mesh,
    *,
    in_shardings: object = None,
    out_shardings: object = None,
) -> Callable[..., Collectives]:
    """Make a function that reports which values the devices of a mesh exchange in a call of
    ``jit(f, backend="xla")``, and when that takes more time than the computation.

    Args:
        f: a function of arrays (pytrees of them).
        mesh: the mesh of the shardings, whose axes are named in the report.
        in_shardings, out_shardings: shardings of JAX for the arguments and the results, or pytrees
            of them that are prefixes of theirs; by default those of a jitted ``f``, otherwise those
            of arguments that are on devices.

    Returns:
        a function of ``f``'s arguments, arrays or `ShapeDtype`, that returns `Collectives`. It
        prints a table; ``rows`` are its figures. The program is compiled, but does not run.

    Raises:
        ConcretizationError: if ``f`` reads a concrete value.
        ArgumentError: if the shardings are not on the devices of the mesh.
        TreeError: if shardings do not fit the arguments.
        UnsupportedFunctionError: if JAX is not installed.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from jax.sharding import NamedSharding, PartitionSpec
        >>> mesh = ft.distributed.mesh(1)
        >>> rows = NamedSharding(mesh, PartitionSpec("data"))
        >>> f = ft.grad(lambda w, x: np.sum((x @ w) ** 2))
        >>> found = ft.debug.collectives(f, mesh, in_shardings=(None, rows))
        >>> found(np.ones(4), np.ones((8, 4))).rows
        ()
    """

    @transformed("debug.collectives", f)
    def found(*args: object) -> Collectives:
        from functrace.api.staging.backends import chosen_backend, is_for_xla
        from functrace.xla.collectives import collectives_of

        own: Any = getattr(f, "backend", None)
        choices = own if is_for_xla(own) else chosen_backend("xla")
        assert is_for_xla(choices)
        leaves, tree = flatten(args)
        placed = [getattr(x, "sharding", None) for x in leaves]
        given = in_shardings if in_shardings is not None else choices.in_shardings
        if given is None and any(x is not None for x in placed):
            given = unflatten(tree, placed)
        shapes = [
            x if s is None else ShapeDtype(tuple(x.shape), x.dtype)
            for x, s in zip(leaves, placed, strict=True)
        ]
        results: list[Any] = []

        def noted(*args: object) -> object:
            results.append(structure(result := f(*args)))
            return result

        program = trace(noted)(*unflatten(tree, shapes))
        out = out_shardings if out_shardings is not None else choices.out_shardings
        backend = replace(choices, in_shardings=given, out_shardings=out)
        staged = backend.compiled(program, (), structure((args, {})), results[0]).staged()
        return collectives_of(
            function_name(f), staged.compile().as_text(), dict(mesh.shape), program.cost().flops
        )

    return found


def _rows(f: object, passes: Sequence[UserPass], owner: str) -> Sequence[Pass]:
    """Return the passes for programs of ``jit(f)`` besides the library's own, and markers that
    disable some of these."""
    rows = as_passes(passes, owner)
    is_jitted = isinstance(f, Transformed) and f.transform == "jit"
    return getattr(f, "passes", ()) if is_jitted and not rows else rows


def _stop(variables: dict[str, object]) -> None:
    """Stop in the debugger; ``variables`` are those of the user's function."""
    builtins.breakpoint()  # noqa: T100


def cache() -> list[Tier]:
    """List the programs that are cached between un-jitted calls, each with its tier.

    They run as instruction lists; on large arrays they are compiled at the first call.

    Returns:
        one `Tier` per program, the most recently used one last.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> def f(x):
        ...     for _ in range(100):
        ...         x = np.sin(x) * 1.01
        ...     return np.sum(x)
        >>> _ = ft.grad(f)(np.ones(3))
        >>> ft.debug.cache()[-1].name, ft.debug.cache()[-1].operations
        ('instructions', 499)
    """
    runners = {id(runner): runner for made in CACHE.made() for runner in _runners(made)}
    return [runner.tier for runner in runners.values()]


def _runners(made: object) -> Iterator[Runner]:
    """Yield the runners in what a cache holds for a program."""
    if isinstance(made, Runner):
        yield made
    elif isinstance(made, tuple):
        for part in cast("tuple[object, ...]", made):
            yield from _runners(part)


class _AnyField:
    """A placeholder that fits every field of a format string."""

    def __format__(self, _spec: str) -> str:
        return ""

    def __getattr__(self, _name: str) -> _AnyField:
        return self

    def __getitem__(self, _key: object) -> _AnyField:
        return self


def _check_format(fmt: str, count: int, names: set[str]) -> None:
    try:
        Formatter().vformat(fmt, [_AnyField()] * count, dict.fromkeys(names, _AnyField()))
    except (IndexError, KeyError, ValueError) as error:
        raise ArgumentError(
            f"debug.print: {fmt!r} does not fit {count} arguments and the names {sorted(names)}: "
            f"{error}",
            fix="pass one argument per field; double literal braces",
        ) from None


# -- as operations ---------------------------------------------------------------------------------


def _observed(
    f: Callable[..., object], key: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Call a function now, if all values are concrete, or record an operation that does."""
    args, kwargs = map_leaves(
        lambda leaf: leaf.strong() if isinstance(leaf, TracedNumber) else leaf, (args, kwargs)
    )
    leaves, tree = flatten((args, kwargs))
    known = [concrete_value(leaf) for leaf in leaves]
    token = _token()
    if token is None and all(value is not None for value in known):
        values, named = unflatten(
            tree, [np.copy(cast("Array", x)) if isinstance(x, np.ndarray) else x for x in known]
        )
        f(*values, **named)
        return
    operands = Operands(args, kwargs)
    arguments = operands.without_values().arguments

    def run(*values: object) -> np.bool_:
        placed, named = arguments(values[:-1])
        f(*placed, **named)
        return np.bool_(False)

    chosen = set(operands.places)
    others = tuple([static_key(x) for k, x in enumerate(operands.leaves) if k not in chosen])
    identity = ("observe", *key, tree_key(operands.tree), tuple(operands.places), others)
    foreign = ForeignFunction(run, (*identity, _KeepAlive(f)), function_name(f), _TREE)
    given = operands.forwarded()
    if token is None:
        token = next(value for value in given if isinstance(value, Tracer))
    params = foreign, _DONE, (), "sequential"
    if any(isinstance(value, Tracer) for value in (*given, token)):
        bind(observe_p, (*given, token), params)
    else:
        recording = running()
        assert recording is not None
        recording.record(observe_p, (*given, token), params)


_TREE = structure((0,)).children()[0]


class _KeepAlive:
    """Equal to all instances: keeps a function alive while its id is part of a key."""

    def __init__(self, f: object) -> None:
        self.f = f

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _KeepAlive)


def _token() -> Any:
    """Return a value traced by the running abstract recording, so that constants, too, are observed
    in every run."""
    recording = running()
    if recording is None or _has_values(recording):
        return None
    return recording.handle(recording.inputs[0]) if recording.inputs else np.bool_(False)


def _has_values(recording: Recording) -> bool:
    return bool(recording.inputs) and all(is_concrete(recording, i) for i in recording.inputs)


if TYPE_CHECKING:
    from functrace.diagnostics.frames import Step as Step
    from functrace.diagnostics.precision_report import LinePrecision as LinePrecision
    from functrace.diagnostics.precision_report import OperationPrecision as OperationPrecision
    from functrace.diagnostics.precision_report import PrecisionReport as PrecisionReport
    from functrace.diagnostics.precision_report import ResultPrecision as ResultPrecision
    from functrace.diagnostics.report import NanReport as NanReport
    from functrace.diagnostics.report import NonfiniteOrigin as NonfiniteOrigin
    from functrace.diagnostics.report import OperandValues as OperandValues
    from functrace.native.report import Explanation as Explanation
    from functrace.xla.collectives import Collectives as Collectives
else:  # so that type checkers report a misspelt name
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        __all__,
        {
            "Explanation": "functrace.native.report",
            "Collectives": "functrace.xla.collectives",
            "Step": "functrace.diagnostics.frames",
            **dict.fromkeys(
                ("LinePrecision", "OperationPrecision", "PrecisionReport", "ResultPrecision"),
                "functrace.diagnostics.precision_report",
            ),
            "NanReport": "functrace.diagnostics.report",
            "NonfiniteOrigin": "functrace.diagnostics.report",
            "OperandValues": "functrace.diagnostics.report",
        },
    )
