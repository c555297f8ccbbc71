"""The error tree: every error that functrace raises on purpose.

Each class inherits the builtin that NumPy would raise in the same place, so that
``except ValueError`` written for NumPy still works. A message has four parts: what was wrong,
where in the user's code, where in the program, and how to fix it::

    raise ShapeError("matmul cannot contract f64[3,4] with f64[5]", fix="x should have length 4")

Layer: b (base).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from functrace.source import Source, hide_own_frames, user_source

P = ParamSpec("P")
R = TypeVar("R")


class FunctraceError(Exception):
    """Base of all errors raised by functrace.

    Args:
        what: the problem, in one line with the offending values.
        at: the user's line; by default the line that is running now.
        made: the line that created the offending value, if it is another one.
        equation: the equation of the program concerned, as text.
        fix: the fix, as an instruction.
    """

    def __init__(
        self,
        what: str,
        *,
        at: Source | None = None,
        made: Source | None = None,
        equation: str | None = None,
        fix: str | None = None,
    ) -> None:
        self.what = what
        self.at = at if at is not None else user_source()
        self.made = made
        self.equation = equation
        self.fix = fix
        super().__init__(self._assemble())

    def amend(self, *, what: str | None = None, fix: str | None = None) -> None:
        """Make the message of an error in flight more precise; the object stays the same."""
        self.what = self.what if what is None else what
        self.fix = self.fix if fix is None else fix
        self.args = (self._assemble(),)

    def __reduce__(self) -> Any:
        """Pickle with the present message: unpickling must not look up a user's line."""
        return _restored, (type(self), self.args, self.__dict__)

    def _assemble(self) -> str:
        lines = [self.what]
        if self.at is not None:
            lines.append(f"  at {self.at}")
        if self.made is not None and str(self.made) != str(self.at):
            lines.append(f"  the value was made at {self.made}")
        if self.equation is not None:
            lines.append(f"  in equation {self.equation}")
        if self.fix is not None:
            lines.append(f"fix: {self.fix}")
        return "\n".join(lines)


def _restored(
    kind: type[FunctraceError], args: tuple[Any, ...], properties: dict[str, Any]
) -> FunctraceError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(properties)
    return error


class ShapeError(FunctraceError, ValueError):
    """Shapes or sizes do not fit together."""


class DtypeError(FunctraceError, TypeError):
    """An operation or a transform does not support a dtype."""


class AxisError(ShapeError, IndexError):
    """An axis is out of bounds for the array's rank, as ``numpy.exceptions.AxisError``."""


class TracedIndexError(FunctraceError, IndexError):
    """An index does not fit the array that it is applied to."""


class ConcretizationError(FunctraceError, TypeError):
    """Python code reads a concrete value of an abstract traced array (staging)."""


class TooManyPathsError(FunctraceError, RuntimeError):
    """The values of a batch, or of calls, took more paths through Python's own control flow than
    are allowed.
    """


class LostGradientError(FunctraceError, TypeError):
    """A conversion would silently drop the derivative (``float(x)``, ``np.array([x, 1.0])``)."""


class LeakedTracerError(FunctraceError, RuntimeError):
    """A traced value was used after the transform that created it had ended."""


class UnsupportedFunctionError(FunctraceError, TypeError):
    """A NumPy function, or one of its options, is not supported on traced values."""


class NotDifferentiableError(FunctraceError, NotImplementedError):
    """A transform differentiates an operation that is declared to have no derivative."""


class TreeError(FunctraceError, ValueError, TypeError):
    """Two pytrees that must have the same structure do not."""


class ArgumentError(FunctraceError, ValueError, TypeError):
    """An argument of a transform (``argnums``, ``in_axes`` …) does not fit the call."""


class CapturedArrayError(FunctraceError, ValueError):
    """An array was overwritten before a recording had finished reading it."""


class ProgramError(FunctraceError, ValueError):
    """A program is not well formed; the message shows the neighbouring equations."""


class ParseError(FunctraceError, ValueError):
    """A text or JSON form does not describe a program."""


class NanError(FunctraceError, FloatingPointError):
    """A call made a NaN, under ``functrace.config.check_nans``.

    Args:
        what, at, equation, fix: see `FunctraceError`.
        report: the `functrace.debug.NanReport`.
    """

    def __init__(
        self,
        what: str,
        *,
        report: object,
        at: Source | None = None,
        equation: str | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(what, at=at, equation=equation, fix=fix)
        self.report: Any = report


class OffloadError(FunctraceError, OSError):
    """An offloaded residual could not be written into its file, or was not read back unchanged."""


class CheckError(FunctraceError, AssertionError):
    """A check of `functrace.testing` found that a derivative, or another rule, is wrong."""


# -- public functions ------------------------------------------------------------------------------


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """Remove functrace's own frames from errors of a public function, and explain unknown options.

    Cost:
        0.2 us per call. Functions whose calls take a few microseconds, or that release their
        arguments before they end, call `functrace.source.hide_own_frames` in an ``except`` of their
        own, which is free.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            found = _unknown_option(function, error)
            if found is None:
                hide_own_frames(error)
                raise
            try:
                raise found from None
            except ArgumentError:
                hide_own_frames(found)
                raise

    return run


def _unknown_option(function: Callable[..., Any], error: BaseException) -> ArgumentError | None:
    """Return the error for an unknown keyword of a function; ``None`` if an error has another
    cause."""
    traceback = error.__traceback__
    if type(error) is not TypeError or traceback is None or traceback.tb_next is not None:
        return None  # it was raised inside
    before, found, after = str(error).partition(" got an unexpected keyword argument ")
    if not found:
        return None
    import difflib
    import inspect

    word, name = after.split("'")[1], before.removesuffix("()").rpartition(".")[2]
    options = [
        k
        for k, p in inspect.signature(function).parameters.items()
        if p.kind is not p.POSITIONAL_ONLY
    ]
    close = difflib.get_close_matches(word, options, n=1)
    return ArgumentError(
        f"{name} has no option {word!r}{f'. Did you mean {close[0]!r}?' if close else ''}",
        fix=f"its options are {', '.join(options)}",
    )
