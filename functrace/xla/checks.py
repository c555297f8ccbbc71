"""Errors of programs under XLA, which cannot raise: a program computes the number of the first
error, and the host raises it.

Layer: 7.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import lax

from functrace.errors import FunctraceError

KEPT: Final = 64
"""Number of exceptions of host callbacks that a program keeps until they are raised."""


@final
class CheckedError(NamedTuple):
    """An error that a program may raise.

    Args:
        kind: class of the exception.
        message: its text.
        fix: the way out, for functrace's own errors.
        source: the user's line.
    """

    kind: type[Exception]
    message: str
    fix: str
    source: Any

    def made(self) -> Exception:
        """Return the exception."""
        error = (
            self.kind(self.message, fix=self.fix)  # type: ignore[call-arg]
            if issubclass(self.kind, FunctraceError)
            else self.kind(self.message)
        )
        if self.source:
            error.add_note(f"  recorded at {self.source}")
        return error


@final
class CheckedErrors(list[CheckedError]):
    """The errors of one program; their numbers begin with 1. Exceptions of host callbacks are noted
    when they happen, and have negative numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self._raised: dict[int, Exception] = {}
        self._numbers = itertools.count()

    def renewed(self) -> CheckedErrors:
        """Return an empty list, which notes exceptions in this one."""
        made = CheckedErrors()
        made._raised, made._numbers = self._raised, self._numbers
        return made

    def note(self, error: Exception) -> int:
        """Keep an exception of a host callback, and return its number."""
        number = -1 - next(self._numbers) % (1 << 31)
        while len(self._raised) >= KEPT:
            self._raised.pop(next(iter(self._raised), 0), None)
        self._raised[number] = error
        return number

    def check(self, number: object) -> None:
        """Raise the error of a number; nothing for 0."""
        found = int(np.asarray(number))
        if found > 0:
            raise self[found - 1].made()
        if found < 0:
            raise self._raised.pop(found, None) or RuntimeError(
                "a function on the host failed, in one of many runs at the same time"
            )


@final
class Failures:
    """The number of the first error of one program, or sub-program, as XLA computes it.

    Args:
        errors: the errors of the whole program.
    """

    def __init__(self, errors: CheckedErrors) -> None:
        self.errors = errors
        self._number: Any = None

    def add(
        self, holds: object, kind: type[Exception], message: str, fix: str, source: object
    ) -> None:
        """Add a check: an error unless all of ``holds`` is true."""
        if isinstance(holds, bool | np.bool_) and holds:
            return
        self.errors.append(CheckedError(kind, message, fix, source))
        held: Any = holds
        all_hold = lax.reduce_and(jnp.asarray(held, bool), tuple(range(np.ndim(held))))
        self.merge(lax.select(all_hold, np.int32(0), np.int32(len(self.errors))))

    def add_host(self, number: object, source: object) -> None:
        """Add a host callback, which returned the number of its exception, or 0."""
        self.errors.append(CheckedError(RuntimeError, "a function on the host failed", "", source))
        self.merge(number)

    def merge(self, number: object) -> None:
        """Add the number of a later error, 0 for none."""
        before = self._number
        is_first = before is None
        self._number = (
            number if is_first else lax.select(lax.eq(before, np.int32(0)), number, before)
        )

    def number(self) -> Any:
        """Return the number of the first error."""
        return np.int32(0) if self._number is None else self._number

    @property
    def is_empty(self) -> bool:
        """True if nothing can fail."""
        return self._number is None

    def inside(self, run: Callable[[Failures], Any]) -> Any:
        """Run the lowering of a sub-program with failures of its own.

        Returns:
            its results, a list, and then the number of its first error.
        """
        own = Failures(self.errors)
        return [*run(own), jnp.asarray(own.number(), np.int32)]
