"""Programs as functions of JAX arrays, which JAX differentiates, maps and compiles.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, final

import jax
import numpy as np

from functrace.caches import BoundedCache, CacheEntry
from functrace.errors import DtypeError, UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import closed_over
from functrace.ir.program import Program
from functrace.xla.bridges.own_rules import Kept, marked, without_failed
from functrace.xla.checks import CheckedErrors, Failures
from functrace.xla.lowering import Options, Value, walk
from functrace.xla.program import is_argument

Tracer: Final = jax.core.Tracer
"""Values of JAX that are being traced."""


def is_traced(leaves: Sequence[Any]) -> bool:
    """Return True if JAX traces one of some values."""
    return any(isinstance(x, Tracer) for x in leaves)


def aval_of_leaf(leaf: Value, owner: str) -> ShapeDtype:
    """Return shape and dtype of an argument, as JAX sees it.

    Raises:
        DtypeError: if it is no array of numbers.
    """
    try:
        aval = jax.typeof(leaf)
        return ShapeDtype(aval.shape, np.dtype(aval.dtype))
    except (TypeError, DtypeError) as error:
        raise DtypeError(
            f"{owner}: an argument is a {type(leaf).__name__}, not an array of numbers"
            + (f" ({error})" if isinstance(error, DtypeError) else ""),
            fix="pass arrays of numbers; jax.tree_util.register_dataclass makes a dataclass a pytree "
            "of JAX, and functools.partial binds what is no array",
        ) from None


@final
class _Compiled(CacheEntry):
    """A program as a jitted function of JAX.

    Args:
        program: the program.
        how: how it is lowered.
    """

    __slots__ = ("_constants", "_errors", "_is_wide", "_run")

    def __init__(self, program: Program, how: Kept) -> None:
        super().__init__()
        closed, self._constants = closed_over(how.fitting(program), is_argument)
        errors = self._errors = CheckedErrors()
        ready = marked(closed)

        def run(*values: Value) -> tuple[list[Any], Any]:
            failures = Failures(errors.renewed())
            results = walk(ready, values, failures, how.options)
            errors[:] = failures.errors
            return without_failed(results, failures), failures.number()

        run.__name__ = run.__qualname__ = program.name
        self._run = jax.jit(run)

    def __call__(self, values: Sequence[Any]) -> list[Any]:
        try:
            results, number = self._run(*values, *self._constants)
        except UnsupportedFunctionError as error:
            if error.fix is not None:
                error.amend(fix=error.fix.replace('jit(..., backend="xla", ', "to_jax(f, "))
            raise
        if self._errors and not isinstance(number, Tracer):
            self._errors.check(number)
        return results


_compiled: BoundedCache[_Compiled] = BoundedCache("programs for JAX", 64 << 20, 512)


def applied(program: Program, leaves: Sequence[Any], options: Options) -> list[Any]:
    """Apply a program to arrays of JAX, in the precision that JAX has here.

    Args:
        program: the program.
        leaves: an array per input.
        options: the user's choices.

    Raises:
        the errors that NumPy raises, unless JAX traces the call.
    """
    key = program.interned(), Kept(options, bool(jax.config.jax_enable_x64))
    found = _compiled.get(key)
    if found is None:
        found = _Compiled(*key)
        _compiled.add(key, found)
    return found(leaves)
