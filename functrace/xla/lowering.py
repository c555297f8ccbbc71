"""Lower programs to functions of JAX arrays: a walk over the tape, with a row per primitive.

A row takes an `Operation`, the values of the operands and the static params, and returns the value
of the result, or a tuple of values for a primitive of several results. Values are JAX arrays (also
traced ones), NumPy arrays, or Python numbers. A value has the shape of its aval; dtypes are
converted where they differ, at the end of a row.

Layer: 7.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Spec
from functrace.source import Source
from functrace.xla.checks import CheckedErrors, Failures

Value: TypeAlias = Any
"""An array of JAX, possibly traced; an array or scalar of NumPy; or a Python number. (JAX has no
types that say so.) Parameters that take params of primitives have it too."""
Row: TypeAlias = Callable[..., Any]
"""``row(op, *values, *params)``: a value, or a tuple of them."""

ROWS: dict[Primitive, Row] = {}
"""Lowering by primitive."""


@final
class Options(NamedTuple):
    """Choices of the user for a program.

    Args:
        host_callbacks: names of primitives that may run in NumPy on the host.
        most_steps: bound for the residuals of while loops that have none of their own.
    """

    host_callbacks: frozenset[str] = frozenset()
    most_steps: int | None = None


@final
class Operation(NamedTuple):
    """One operation of a program, as rows see it.

    Args:
        primitive: the primitive.
        specs: by operand: its aval, or the type of a Python number.
        outputs: avals of the results.
        place: the program, and the variable of the first result.
        failures: gets the conditions under which NumPy raises.
        options: the user's choices.
    """

    primitive: Primitive
    specs: tuple[Spec, ...]
    outputs: tuple[ShapeDtype, ...]
    place: tuple[Program, int]
    failures: Failures
    options: Options

    @property
    def source(self) -> Source | None:
        """The user's line, if known."""
        program, k = self.place
        return program.source(k)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the first result."""
        return tuple(self.outputs[0].shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the first result."""
        return self.outputs[0].dtype

    def require(self, holds: Value, error: type[Exception], message: str, fix: str = "") -> None:
        """Have an error raised on the host, after the run, unless all of ``holds`` is true."""
        self.failures.add(holds, error, message, fix, self.source)

    def apply(self, program: Program, values: Sequence[Any]) -> list[Any]:
        """Lower a sub-program in the place of this operation."""
        return walk(program, values, self.failures, self.options)


def register(*primitives: Primitive) -> Callable[[Row], Row]:
    """Return a decorator that makes a function the lowering of primitives.

    Args:
        primitives: primitives, also those of other packages.
    """

    def decorate(row: Row) -> Row:
        for primitive in primitives:
            ROWS[primitive] = row
        return row

    return decorate


def cast(x: Value, dtype: Value) -> Any:
    """Return a value with a dtype; a Python number becomes an array without axes."""
    if isinstance(x, bool | int | float | complex):
        return np.asarray(x, dtype)
    if x.dtype == dtype:
        return x
    if isinstance(x, np.ndarray | np.generic):
        return np.asarray(x).astype(dtype)
    if x.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        x = jnp.real(x)
    return jax.lax.convert_element_type(x, dtype)


def typed(row: Callable[..., Any]) -> Row:
    """Return a row from a function of the operands, cast to the dtype of the result, and params."""

    def lowered(op: Operation, *rest: Value) -> Any:
        count = len(op.specs)
        return row(*[cast(x, op.dtype) for x in rest[:count]], *rest[count:])

    return lowered


def untyped(row: Callable[..., Any]) -> Row:
    """Return a row from a function of the operands as they are, and params."""
    return lambda op, *rest: row(*rest)


def without_form(op: Operation, *rest: Value) -> Any:
    """Run on the host, or refuse."""
    name = op.primitive.name
    if name in op.options.host_callbacks:
        return on_host(op, *rest)
    raise UnsupportedFunctionError(
        f"{name} has no form in XLA" + (f" (at {op.source})" if op.source else ""),
        fix=f'jit(..., backend="xla", host_callbacks=["{name}"]) runs it in NumPy, on the host',
    )


def on_host(op: Operation, *rest: Value) -> Any:
    """Run a primitive's own ``eval`` in a callback: a row for what XLA does not have."""
    values, params = rest[: len(op.specs)], rest[len(op.specs) :]
    shapes = [jax.ShapeDtypeStruct(tuple(a.shape), a.dtype) for a in op.outputs]

    def run(*values: Value) -> tuple[Any, ...]:
        found: Any = op.primitive.eval(*[np.asarray(x)[()] for x in values], *params)
        results = found if op.primitive.many else (found,)
        return tuple([np.asarray(r, a.dtype) for r, a in zip(results, op.outputs, strict=True)])

    found = jax.pure_callback(run, shapes, *values)
    return tuple(found) if op.primitive.many else found[0]


def walk(
    program: Program, arguments: Sequence[Any], failures: Failures, options: Options
) -> list[Any]:
    """Apply the rows of a program's operations, in order; returns the results, of the dtypes of
    their avals.
    """
    values: dict[int, Any] = dict(program.constant_values)
    for i, x in zip(program.input_ids, arguments, strict=True):
        values[i] = cast(x, program.avals[i].dtype)
    literals, avals, ops = program.literals, program.avals, program.ops
    for k, dying in program.schedule:
        primitive, operands, params = ops[k]
        given = [values[i] if i >= 0 else literals[~i] for i in operands]
        specs = tuple([avals[i] if i >= 0 else type(literals[~i]) for i in operands])
        count = program.result_count(k) if primitive.many else 1
        outputs = tuple(avals[k : k + count])
        op = Operation(primitive, specs, outputs, (program, k), failures, options)
        results = ROWS.get(primitive, without_form)(op, *given, *params)
        for n, result in enumerate(results if primitive.many else (results,)):
            values[k + n] = cast(result, avals[k + n].dtype)
        for i in dying:
            values.pop(i, None)
    return [_result(values[i], program.avals[i]) for i in program.output_ids]


def _result(x: Value, aval: ShapeDtype) -> Any:
    x = jnp.asarray(x, aval.dtype)
    if x.shape != tuple(aval.shape):
        raise AssertionError(f"a row gave {x.shape} for {aval}")
    return x


PLAIN = Options()
"""No choices."""


def lower(
    program: Program, options: Options = PLAIN
) -> tuple[Callable[..., tuple[Any, ...]], CheckedErrors]:
    """Lower a program to a function of JAX arrays.

    Args:
        program: any program.
        options: the user's choices.

    Returns:
        the function, which returns the results and, last, the number of the error that NumPy would
        raise (0 for none); and these errors, which are known once the function has been traced.
    """
    importlib.import_module("functrace.xla.rows")  # (they import this module)
    errors = CheckedErrors()

    def run(*arguments: Value) -> tuple[Any, ...]:
        errors.clear()
        failures = Failures(errors)
        results = walk(program, arguments, failures, options)
        return (*results, failures.number())

    run.__name__ = run.__qualname__ = program.name
    return run, errors
