"""Errors of programs under XLA, which cannot raise: a program computes the number of the first
error, and the host raises it.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np

from functrace.errors import FunctraceError


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
    """The errors of one program; their numbers begin with 1."""

    def check(self, number: object) -> None:
        """Raise the error of a number; nothing for 0."""
        found = int(np.asarray(number))
        if found:
            raise self[found - 1].made()


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
        self.merge(jnp.where(jnp.all(holds), 0, len(self.errors)).astype(np.int32))

    def merge(self, number: object) -> None:
        """Add the number of a later error, 0 for none."""
        before = self._number
        self._number = number if before is None else jnp.where(before == 0, number, before)

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
