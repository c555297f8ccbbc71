"""Lower programs to functions of JAX arrays: a walk over the tape, with a row per primitive.

A row takes an `Operation`, the values of the operands and the static params, and returns the value
of the result, or a tuple of values for a primitive of several results. Values are JAX arrays (also
traced ones), NumPy arrays, or Python numbers. A value has the shape of its aval; dtypes are
converted where they differ, at the end of a row.

Layer: 7.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn, TypeAlias, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback

from functrace.errors import UnsupportedFunctionError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ir.tape import Spec
from functrace.passes.rerolling import Carried, Fixed, Local, Own, Region, rerolled
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
        x = x != 0 if np.dtype(dtype) == bool else jnp.real(x)
    return jax.lax.convert_element_type(x, jax.dtypes.canonicalize_dtype(dtype))


def typed(row: Callable[..., Any]) -> Row:
    """Return a row from a function of the operands, cast to the dtype of the result, and params."""

    def lowered(op: Operation, *rest: Value) -> Any:
        count = len(op.specs)
        return row(*[cast(x, op.dtype) for x in rest[:count]], *rest[count:])

    return lowered


def untyped(row: Callable[..., Any]) -> Row:
    """Return a row from a function of the operands as they are, and params."""
    return lambda op, *rest: row(*rest)


def without_form(op: Operation, *rest: Value, reason: str = "") -> Any:
    """Run on the host if the user's choices allow it.

    Args:
        op: the operation.
        rest: its operands and params.
        reason: why XLA does not have it, for operands that the primitive's own row refuses.

    Raises:
        UnsupportedFunctionError: otherwise, with the reason.
    """
    rows = importlib.import_module("functrace.xla.rows")  # (they import this module)
    name = op.primitive.name
    if name in rows.REFUSED:
        refuse(op, op.primitive)
    if name in op.options.host_callbacks:
        return observed(op, *rest) if name == "observe" else on_host(op, *rest)
    reason = reason or rows.HOST.get(name, "")
    raise UnsupportedFunctionError(
        f"{name} has no form in XLA" + (f": {reason}" if reason else "") + _place(op),
        fix=f'jit(..., backend="xla", host_callbacks=["{name}"]) runs it in NumPy, on the host',
    )


def refuse(op: Operation, primitive: Primitive) -> NoReturn:
    """Raise the error of a primitive that never runs under XLA.

    Args:
        op: the operation, for the user's line.
        primitive: one of `functrace.xla.rows.REFUSED`.
    """
    reason, fix = importlib.import_module("functrace.xla.rows").REFUSED[primitive.name]
    raise UnsupportedFunctionError(
        f"{primitive.name} does not run under XLA: {reason}{_place(op)}", fix=fix
    )


def _place(op: Operation) -> str:
    return f" (at {op.source})" if op.source else ""


def _words_shape(aval: ShapeDtype) -> jax.ShapeDtypeStruct:
    """Return the shape and dtype of an array on its way between device and host."""
    shape, size = tuple(aval.shape), aval.dtype.itemsize
    if aval.dtype.kind == "c" and size == 16:
        return jax.ShapeDtypeStruct((*shape, 2, 2), np.uint32)
    if size == 8 and aval.dtype.kind != "c":
        return jax.ShapeDtypeStruct((*shape, 2), np.uint32)
    return jax.ShapeDtypeStruct(shape, aval.dtype)


def _to_words(x: Value) -> Any:
    """Return numbers of 64 bits as pairs of words: JAX calls back in threads of its own, where it
    has 32 bits, and rounds what it hands over.
    """
    x = jnp.asarray(x)
    if x.dtype == np.complex128:
        x = jnp.stack([jnp.real(x), jnp.imag(x)], -1)
    return lax.bitcast_convert_type(x, np.uint32) if x.dtype in _WIDE else x


_WIDE = (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.uint64))


def _from_words(x: Value, dtype: np.dtype[Any]) -> Any:
    """Return an array from its words."""
    if dtype == np.complex128:
        parts = lax.bitcast_convert_type(x, np.float64)
        return lax.complex(parts[..., 0], parts[..., 1])
    return lax.bitcast_convert_type(x, dtype) if dtype in _WIDE else x


def _called(op: Operation, rest: Sequence[Any], call: Callable[..., Any]) -> Any:
    """Run a primitive's ``eval`` on the host.

    JAX would turn an exception into one of its own: so it is kept, and its number is a result.

    Args:
        op: the operation.
        rest: its operands and params.
        call: calls a function with arrays, from shapes of its results.
    """
    values, params = rest[: len(op.specs)], rest[len(op.specs) :]
    errors, operands = op.failures.errors, list(values)  # (Python numbers stay what they are)
    places = [k for k, x in enumerate(values) if not isinstance(x, bool | int | float | complex)]
    arrays = [jnp.asarray(values[k]) for k in places]
    avals = [ShapeDtype(x.shape, np.dtype(x.dtype)) for x in arrays]
    shapes = [_words_shape(a) for a in op.outputs]

    def run(*words: Value) -> tuple[Any, ...]:
        given = list(operands)
        for k, x, aval in zip(places, words, avals, strict=True):
            array: Any = np.ascontiguousarray(x).reshape(-1).view(aval.dtype).reshape(aval.shape)
            spec = op.specs[k]
            given[k] = array[()] if isinstance(spec, ShapeDtype) else spec(array)
        try:
            found: Any = op.primitive.eval(*given, *params)
            results = found if op.primitive.many else (found,)
            made = [
                np.ascontiguousarray(r, a.dtype) for r, a in zip(results, op.outputs, strict=True)
            ]
            words = tuple([
                r.reshape(-1).view(s.dtype).reshape(s.shape)
                for r, s in zip(made, shapes, strict=True)
            ])  # fmt: skip
        except Exception as error:
            if op.source:
                error.add_note(f"  recorded at {op.source}")
            return (*[np.zeros(s.shape, s.dtype) for s in shapes], np.int32(errors.note(error)))
        return (*words, np.int32(0))

    number = jax.ShapeDtypeStruct((), np.int32)
    *words, failed = call(run, [*shapes, number], *[_to_words(x) for x in arrays])
    op.failures.add_host(failed, op.source)
    found = [_from_words(x, a.dtype) for x, a in zip(words, op.outputs, strict=True)]
    return tuple(found) if op.primitive.many else found[0]


def on_host(op: Operation, *rest: Value) -> Any:
    """Run a primitive's own ``eval`` in a callback: a row for what XLA does not have."""
    return _called(op, rest, functools.partial(jax.pure_callback, vmap_method="sequential"))


def observed(op: Operation, *rest: Value) -> Any:
    """Run a primitive's ``eval`` for its side effect: once in every run, in order."""
    return _called(op, rest, functools.partial(io_callback, ordered=True))


def walk(
    program: Program, arguments: Sequence[Any], failures: Failures, options: Options
) -> list[Any]:
    """Apply the rows of a program's operations, in order; returns the results, of the dtypes of
    their avals. Equal steps of unrolled loops become loops.
    """
    values = _Values(program)
    for i, x in zip(program.input_ids, arguments, strict=True):
        values[i] = cast(x, program.avals[i].dtype)
    (order, regions), place = rerolled(program), 0
    loops = {region.start: region for region in regions}
    while place < len(order):
        region = loops.get(place)
        if region is not None:
            steps = order[region.start : region.end]
            _reroll(program, region, steps, values, failures, options)
            place = region.end
            continue
        k = order[place]
        given = [values[i] if i >= 0 else program.literals[~i] for i in program.ops[k][1]]
        for n, result in enumerate(_applied(program, k, given, failures, options)):
            values[k + n] = result
        place += 1
    return [_result(values[i], program.avals[i]) for i in program.output_ids]


@final
class _Values(dict[int, Any]):
    """Values by variable; those that a loop computed are rows of stacks.

    Args:
        program: the program.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program.constant_values)
        self._rows: dict[int, tuple[Any, int]] = {}

    def __missing__(self, i: int) -> Any:
        stack, row = self._rows[i]
        return stack[row]

    def add_stack(self, variables: Sequence[int], stack: Value) -> None:
        """Add the values of variables, stacked."""
        self._rows.update((i, (stack, row)) for row, i in enumerate(variables))

    def rows(self, variables: Sequence[int]) -> tuple[Any, int, int]:
        """Return a stack that has the values of variables, the row of the first one, and the step
        from a row to the next.

        A stack of another loop is not copied, forwards or backwards. One that starts or ends elsewhere
        (the first step of the other loop was different) is copied as a whole, not row by row.
        """
        runs: list[tuple[Any, int, int, int]] = []
        """Stack, row of the first value, step from row to row, and number of values."""
        for i in variables:
            stack, row = self._rows.get(i) or (jnp.asarray(self[i])[None], 0)
            if runs:
                last, first, step, count = runs[-1]
                by = row - first if count == 1 else step
                if last is stack and by and row == first + by * count:
                    runs[-1] = stack, first, by, count + 1
                    continue
            runs.append((stack, row, 1, 1))
        if len(runs) == 1:
            return runs[0][:3]
        parts = [
            stack[first : first + count]
            if step == 1
            else jnp.flip(stack[first - count + 1 : first + 1], 0)
            if step == -1
            else stack[np.arange(first, first + step * count, step)]
            for stack, first, step, count in runs
        ]
        return jnp.concatenate(parts), 0, 1


def _applied(
    program: Program, k: int, given: Sequence[Any], failures: Failures, options: Options
) -> list[Any]:
    """Apply the row of an operation; returns its results, of the dtypes of their avals."""
    primitive, operands, params = program.ops[k]
    avals, literals = program.avals, program.literals
    specs = tuple([avals[i] if i >= 0 else type(literals[~i]) for i in operands])
    outputs = tuple(avals[k : k + (program.result_count(k) if primitive.many else 1)])
    op = Operation(primitive, specs, outputs, (program, k), failures, options)
    found = ROWS.get(primitive, without_form)(op, *given, *params)
    results = found if primitive.many else (found,)
    return [cast(x, aval.dtype) for x, aval in zip(results, outputs, strict=True)]


def _reroll(
    program: Program,
    region: Region,
    order: Sequence[int],
    values: _Values,
    failures: Failures,
    options: Options,
) -> None:
    """Lower the equal steps of an unrolled loop as a loop.

    Args:
        program: the program.
        region: the loop.
        order: the operations of all steps.
        values: the values so far; gets the results that are read later.
        failures: gets the errors.
        options: the user's choices.
    """

    def variable(step: int, local: Local) -> int:
        return order[step * region.period + local[0]] + local[1]

    def fixed(i: int) -> Any:
        return values[i] if i >= 0 else program.literals[~i]

    def step(state: Value, t: Value) -> Any:
        carry, error = state
        own, found = Failures(failures.errors), dict[Local, Any]()
        rows = [
            jax.lax.dynamic_index_in_dim(stack, start + by * t, keepdims=False)
            for stack, start, by in slices
        ]
        for j, operands in enumerate(region.operands):
            given = [
                fixed(x.variable) if isinstance(x, Fixed)
                else found[x.of] if isinstance(x, Own)
                else carry[x.number] if isinstance(x, Carried)
                else rows[x.number]
                for x in operands
            ]  # fmt: skip
            for n, result in enumerate(_applied(program, order[j], given, own, options)):
                found[j, n] = result
        if not own.is_empty:
            error = jnp.where(error == 0, own.number(), error)
        carry = [jnp.asarray(found[c.of]) for c in region.carries]
        return (carry, error), [jnp.asarray(found[local]) for local in region.kept]

    before = len(failures.errors)
    first = [jnp.asarray(values[c.first]) for c in region.carries]
    slices = [values.rows(variables) for variables in region.slices]
    numbers = jnp.arange(region.steps, dtype=np.int32)
    (_, error), stacks = jax.lax.scan(step, (first, np.int32(0)), numbers)
    if len(failures.errors) > before:
        failures.merge(error)
    for local, stack in zip(region.kept, stacks, strict=True):
        values.add_stack([variable(t, local) for t in range(region.steps)], stack)


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
        the function, which returns the results and, if NumPy may raise, in a tuple the number of the
        error that it would raise (0 for none); and these errors, which are known once the function
        has been traced.
    """
    importlib.import_module("functrace.xla.rows")  # (they import this module)
    errors = CheckedErrors()

    def run(*arguments: Value) -> tuple[Any, ...]:
        failures = Failures(errors.renewed())
        results = walk(program, arguments, failures, options)
        errors[:] = failures.errors  # (equal ones, if JAX traces again: a call may be reading them)
        return tuple(results), () if failures.is_empty else (failures.number(),)

    run.__name__ = run.__qualname__ = program.name
    return run, errors
