"""Keep functrace's own derivatives where JAX differentiates a lowered program.

JAX differentiates and batches the operations of ``jax.lax`` that it sees. For most primitives that is
the derivative; not for a function with a custom rule, for the solution of equations, for
``stop_gradient``. Those become one operation of JAX, `functrace_p`, which holds a program of one
operation, and whose rules are functrace's transforms of that program, lowered when JAX needs them, to
any order. (``jax.custom_vjp`` has no forward mode, and ``jax.custom_jvp`` no transpose of its own;
a function of functrace's may have both.)

Note [Errors in derivatives]
    XLA cannot raise. A program that is lowered here returns NaN in place of its float results where
    NumPy would raise, as JAX's own functions do; ``jax.experimental.checkify`` reports the message.

Layer: 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from jax.extend.core import Primitive as JaxPrimitive
from jax.interpreters import ad, batching, mlir

import functrace.xla.rows  # noqa: F401  # (they register themselves)
from functrace.control.call import call_p
from functrace.control.custom import custom_batch_p, pushforward_p
from functrace.control.linear_solve import linear_solve_p
from functrace.control.residuals import PackPolicy
from functrace.control.root import root_p
from functrace.control.while_loop import while_p
from functrace.control.while_trips import Trip
from functrace.errors import NotDifferentiableError
from functrace.ir.parts import output_avals, with_programs
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, ZERO, NoRule, Primitive, absent
from functrace.ir.program import Program
from functrace.ir.tape import Builder
from functrace.ops import PRIMITIVES
from functrace.transforms import (
    is_differentiable,
    jvp_program,
    linearize_program,
    transpose_program,
    vmap_program,
)
from functrace.transforms.building import remembered
from functrace.xla.bridges.narrowing import narrowed
from functrace.xla.checks import CheckedErrors, Failures
from functrace.xla.lowering import (
    ROWS,
    Operation,
    Options,
    Value,
    cast,
    register,
    walk,
    without_form,
)

_NONE = absent(because="this operation is made for XLA only", instead="this is a bug in functrace")


def _marker(name: str, *params: str) -> Primitive:
    return Primitive(
        name,
        eval=_NONE,
        aval=_NONE,
        jvp=_NONE,
        transpose=_NONE,
        batch=_NONE,
        params=params,
        many=True,
    )


kept_rules_p = _marker("kept_rules", "program")
"""An operation with rules of its own: a program of that operation."""
constant_p = _marker("constant_derivative", "primitive", "params")
"""An operation without derivative."""
remat_p = _marker("remat", "program", "policy")
"""A program that is rematerialized in the reverse pass."""

_ENTRIES = (INPUT, CONSTANT, RESULT)

OWN = frozenset(
    {pushforward_p, linear_solve_p, root_p, custom_batch_p}
    | {PRIMITIVES[name] for name in ("undifferentiated", "reverse_only", "returned", "refused")}
)
"""Primitives whose derivative is not that of their lowering."""


@final
class Kept(NamedTuple):
    """Choices for the lowering of a program, as a param of JAX's operations.

    Args:
        options: the user's choices.
        is_wide: True in JAX's 64-bit mode.
    """

    options: Options
    is_wide: bool

    def fitting(self, program: Program) -> Program:
        """Return a program in the types that JAX has."""
        return program if self.is_wide else narrowed(program)


def has_own_rule(primitive: Primitive, params: Sequence[Any]) -> bool:
    """Return True if JAX must take the derivative of an operation from functrace."""
    if primitive is while_p:  # JAX has no reverse mode for loops; the bound makes it possible
        return Trip._make(params).most is not None
    return primitive in OWN or primitive.by_rule or isinstance(primitive.jvp, NoRule)


def marked(program: Program) -> Program:
    """Return a program in which operations with rules of their own are marked, at any depth."""
    return remembered(_marked, program)


def _marked(program: Program) -> Program:
    ops = list(program.ops)
    for k, (primitive, operands, params) in enumerate(ops):
        if primitive in _ENTRIES:
            continue
        if has_own_rule(primitive, params):
            ops[k] = kept_rules_p, operands, (_alone(program, k).interned(),)
        elif primitive.jvp is ZERO:
            ops[k] = constant_p, operands, (primitive, params)
        elif primitive is call_p and params[1] and not isinstance(params[1], PackPolicy):
            ops[k] = remat_p, operands, (marked(params[0]).interned(), params[1])
        else:
            ops[k] = primitive, operands, with_programs(params, marked)
    return program.with_same_flow(ops, program.avals, program.literals)


def _alone(program: Program, k: int) -> Program:
    """Return the program of one operation, whose inputs are its operands that are variables."""
    primitive, operands, params = program.ops[k]
    build = Builder()
    inputs = {i: build.input(program.avals[i]) for i in dict.fromkeys(operands) if i >= 0}
    given = tuple([inputs[i] if i >= 0 else build.literal(program.literals[~i]) for i in operands])
    count = program.result_count(k) if primitive.many else 1
    first = len(build.primitives)
    build.entries(primitive, given, params, program.avals[k : k + count])
    positions: list[Any] = [None] * len(build.primitives)
    positions[first] = program.position(k)
    return Program.from_builder(
        build, range(first, first + count), name=primitive.name, positions=positions
    )


def _plain(program: Program) -> Program:
    """Return a program of one operation with marks in its sub-programs only."""
    ops = [
        (p, operands, params if p in _ENTRIES else with_programs(params, marked))
        for p, operands, params in program.ops
    ]  # fmt: skip
    return program.with_same_flow(ops, program.avals, program.literals)


def walked(program: Program, values: Sequence[Any], how: Kept) -> list[Any]:
    """Lower a program that keeps its rules; where NumPy would raise, floats are NaN."""
    errors = CheckedErrors()
    failures = Failures(errors)
    results = walk(marked(how.fitting(program)), values, failures, how.options)
    return without_failed(results, failures)


def without_failed(results: Sequence[Any], failures: Failures) -> list[Any]:
    """Return results with NaN in the place of floats if a check failed; `checkify` gets the message.

    See Note [Errors in derivatives].
    """
    if failures.is_empty:
        return list(results)
    number = failures.number()
    for k, error in enumerate(failures.errors):
        checkify.debug_check(
            jnp.asarray(number != k + 1), f"{error.kind.__name__}: {error.message}"
        )
    spoilt = jnp.where(jnp.asarray(number) == 0, 0.0, jnp.nan)
    return [
        y + jax.lax.convert_element_type(spoilt, y.dtype) if y.dtype.kind in "fc" else y
        for y in results
    ]


# -- the operation of JAX -------------------------------------------------------------------------

functrace_p = JaxPrimitive("functrace")
"""``functrace x {program=…, how=…}``: the results of a program of one operation, then the number of
its first error."""
functrace_p.multiple_results = True


def _lowered(*values: Value, program: Program, how: Kept) -> list[Any]:
    """Return the results, then the number of the error."""
    with jax.enable_x64(how.is_wide):
        failures = Failures(CheckedErrors())
        results = walk(_plain(program), values, failures, how.options)
        return [*results, jnp.asarray(failures.number(), np.int32)]


def _errors(program: Program, how: Kept) -> CheckedErrors:
    """Return the errors that a program of one operation may raise."""
    errors = CheckedErrors()

    def run(*values: Value) -> list[Any]:
        return walk(_plain(program), values, Failures(errors), how.options)

    shapes = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in map(program.avals.__getitem__, program.input_ids)]  # fmt: skip
    try:
        jax.eval_shape(run, *shapes)
    except NotDifferentiableError:
        return CheckedErrors()  # raised when it runs, if it does: its transpose may exist
    return errors


def _abstract(*_avals: Value, program: Program, how: Kept) -> list[Any]:
    number = jax.core.ShapedArray((), np.dtype(np.int32))
    return [*[jax.core.ShapedArray(a.shape, a.dtype) for a in output_avals(program)], number]


def _linearized(
    program: Program, active: Sequence[bool]
) -> tuple[Program, Program] | tuple[Program, None]:
    try:
        return linearize_program(program, active)
    except NotDifferentiableError:
        # A rule for forward mode only; others raise again.
        return jvp_program(program, active), None


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, program: Program, how: Kept
) -> tuple[list[Any], list[Any]]:
    inputs = [program.avals[i] for i in program.input_ids]
    active = [
        not isinstance(t, ad.Zero) and is_differentiable(a)
        for t, a in zip(tangents, inputs, strict=True)
    ]
    outs = output_avals(program)
    number = jnp.zeros((), np.int32)
    first, linear = remembered(_linearized, program, active)
    moving = [t for t, flag in zip(tangents, active, strict=True) if flag]
    if linear is None:
        found = walked(first, [*primals, *moving], how)
        results, moved = found[: len(outs)], found[len(outs) :]
    else:
        found = walked(first, primals, how)
        results = found[: len(outs)]
        moved = walked(linear, [*found[len(outs) :], *moving], how)
    results = [*results, number]
    pushed = [
        jnp.asarray(t) if is_differentiable(a) else _no_tangent(y)
        for t, a, y in zip(moved, outs, results, strict=False)
    ]
    return results, [*pushed, _no_tangent(number)]


def _no_tangent(y: Value) -> Any:
    return ad.Zero(jax.typeof(y).to_tangent_aval())


def _transpose(cts: Sequence[Any], *operands: Value, program: Program, how: Kept) -> list[Any]:
    flags = [ad.is_undefined_primal(x) for x in operands]
    outs = output_avals(program)
    given = [
        jnp.zeros(a.shape, a.dtype) if isinstance(ct, ad.Zero) or not is_differentiable(a) else ct
        for ct, a in zip(cts, outs, strict=False)
    ]
    back = transpose_program(program, flags)
    known = [x for x, flag in zip(operands, flags, strict=True) if not flag]
    found = iter(walked(back, [*known, *given], how))
    return [next(found) if flag else None for flag in flags]


def _batch(
    operands: Sequence[Any], axes: Sequence[Any], *, program: Program, how: Kept
) -> tuple[list[Any], list[Any]]:
    flags = [axis is not None for axis in axes]
    size = next(x.shape[axis] for x, axis, flag in zip(operands, axes, flags, strict=True) if flag)
    moved = [
        jnp.moveaxis(x, axis, 0) if flag else x
        for x, axis, flag in zip(operands, axes, flags, strict=True)
    ]
    results = walked(vmap_program(program, size, flags), moved, how)
    return [*results, jnp.zeros((), np.int32)], [*[0] * len(results), None]


def _impl(*values: Value, program: Program, how: Kept) -> Any:
    return jax.jit(partial(_lowered, program=program, how=how))(*values)


functrace_p.def_impl(_impl)
functrace_p.def_abstract_eval(_abstract)
ad.primitive_jvps[functrace_p] = _jvp
ad.primitive_transposes[functrace_p] = _transpose
batching.primitive_batchers[functrace_p] = _batch
mlir.register_lowering(functrace_p, mlir.lower_fun(_lowered, multiple_results=True))


# -- rows of the marks -----------------------------------------------------------------------------


@register(kept_rules_p)
def _kept_rules(op: Operation, *rest: Value) -> Any:
    *values, program = rest
    how = Kept(op.options, bool(jax.config.jax_enable_x64))
    inputs = [
        jnp.asarray(cast(x, program.avals[i].dtype))
        for x, i in zip(_variables(op, values), program.input_ids, strict=True)
    ]
    errors = remembered(_ErrorsOf(how), program)
    *results, number = functrace_p.bind(*inputs, program=program, how=how)
    if errors:
        before = len(op.failures.errors)
        op.failures.errors.extend(errors)
        op.failures.merge(jnp.where(number > 0, number + before, number))
    return results


def _variables(op: Operation, values: Sequence[Any]) -> list[Any]:
    """Return the values of the operands that are variables, each once."""
    program, k = op.place
    found = {i: x for i, x in zip(program.ops[k][1], values, strict=True) if i >= 0}
    return list(found.values())


@final
class _ErrorsOf(NamedTuple):
    """The function from a program to its errors; equal for equal choices."""

    how: Kept

    def __call__(self, program: Program) -> CheckedErrors:
        return _errors(program, self.how)


@register(constant_p)
def _constant_derivative(op: Operation, *rest: Value) -> Any:
    *values, primitive, params = rest
    still = [jax.lax.stop_gradient(x) if isinstance(x, jax.Array) else x for x in values]
    found = ROWS.get(primitive, without_form)(op._replace(primitive=primitive), *still, *params)
    return found if primitive.many else (found,)


@register(remat_p)
def _remat(op: Operation, *rest: Value) -> Any:
    *values, program, _policy = rest
    before = len(op.failures.errors)

    @jax.checkpoint
    def run(*given: Value) -> list[Any]:
        return op.failures.inside(lambda own: walk(program, given, own, op.options))

    inputs = [
        jnp.asarray(cast(x, program.avals[i].dtype))
        for x, i in zip(values, program.input_ids, strict=True)
    ]
    *results, number = run(*inputs)
    if len(op.failures.errors) > before:
        op.failures.merge(number)
    return results
