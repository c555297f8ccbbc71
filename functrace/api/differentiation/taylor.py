"""Taylor mode: ``jet``, ``taylor``, and the Laplacian, which takes second-order coefficients.

Layer: 8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.api.capture.arguments import (
    check_argnums,
    function_name,
    is_position,
    normalize_argnums,
)
from functrace.api.capture.record import RecordedCall
from functrace.api.capture.transformed import transformed
from functrace.api.differentiation.gradients import Primals
from functrace.api.differentiation.jacobians import (
    at_arguments,
    basis_of,
    check_jacobian_arguments,
)
from functrace.api.differentiation.tangents import check_like
from functrace.control.taylor import taylor_program
from functrace.errors import ArgumentError, entry
from functrace.executor import Runner
from functrace.ir.parts import restrict
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.elementwise import mul
from functrace.ops.joining import stack
from functrace.ops.reductions import reduce_sum
from functrace.source import hide_own_frames
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms import vmap_program
from functrace.transforms.building import finish, operand_of
from functrace.tree import flatten, unflatten

LAST_FACTORIAL = 170
"""Largest integer whose factorial is a float64."""


@entry
def jet(
    f: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Sequence[Any]],
    *,
    factorial_scaled: bool = True,
) -> tuple[Any, Any]:
    """Compute derivatives of any order of ``f`` along a curve: Taylor mode.

    The arguments are a curve x(t), by its value and derivatives at t = 0; the result is the value
    and the derivatives of f(x(t)), by recurrences for Taylor coefficients instead of nested forward
    mode.

    Args:
        f: a function of arrays (pytrees of them) to arrays (pytrees of them).
        primals: tuple of arguments of ``f``: the values of the curve.
        series: tuple with one sequence per argument: its derivatives of order 1, 2 …, like the
            argument; all of the same length. ``None`` within means zeros.
        factorial_scaled: True for derivatives, as above; False for Taylor coefficients, which are
            derivatives divided by the factorial of their order.

    Returns:
        ``(result, series)``; the second has a list of derivatives in place of each leaf of the
        result.

    Raises:
        ArgumentError: if ``primals`` or ``series`` is not a tuple, the lengths differ, or
            ``factorial_scaled`` is True for an order above 170, whose factorial is no float64.
        TreeError, ShapeError, DtypeError: if a derivative is not like its argument.
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import numpy as np
        >>> value, (first, second) = jet(np.sin, (np.float64(0.5),), ((1.0, 0.0),))
        >>> bool(np.isclose(first, np.cos(0.5))), bool(np.isclose(second, -np.sin(0.5)))
        (True, True)

    Cost:
        with K derivatives about K**2 / 2 times the products and elementary functions of ``f``, and K
        times its other operations; nested forward mode would take 2**K times ``f``. Functions whose
        derivatives are other functions (Bessel, gamma) take about K**3 / 6.

    Source:
        A. Griewank, A. Walther, Evaluating Derivatives (2008), chapter 13; the signature is that of
        jax.experimental.jet.
    """
    try:
        owner = f"jet of {function_name(f)}"
        for what, given in (("primals", primals), ("series", series)):
            if not isinstance(given, tuple | list):
                raise ArgumentError(
                    f"jet: {what} is a {type(given).__name__}, not a tuple with one entry per argument",
                    fix="jet(f, (x,), ((x_dot, x_dot_dot),))",
                )
        point = Primals(f, tuple(primals), {}, owner)
        order = _order(primals, series)
        by_order = [
            check_like(
                tuple([terms[k] for terms in series]),
                point.tree,
                point.avals,
                "tangents",
                f"the primals of {owner}",
            )
            for k in range(order)
        ]
        zero = [
            _zero_leaves(tuple([terms[k] for terms in series]), len(point.avals), primals)
            for k in range(order)
        ]
        if factorial_scaled and order > LAST_FACTORIAL:
            raise ArgumentError(
                f"jet: the factorial of order {order} is larger than any float",
                fix="pass factorial_scaled=False, with Taylor coefficients in place of derivatives",
            )
        if factorial_scaled:
            by_order = [[x / math.factorial(k) for x in xs] for k, xs in enumerate(by_order, 1)]
        given = [
            tuple([not zero[k][n] for k in range(order)])
            for n, flag in enumerate(point.active)
            if flag
        ]
        values = [
            by_order[k][n]
            for n, flag in enumerate(point.active)
            if flag
            for k in range(order)
            if not zero[k][n]
        ]
        result, tree, later = _along(f, point, owner, order, given, values)
        if factorial_scaled:
            later = [[x * math.factorial(k) for k, x in enumerate(xs, 1)] for xs in later]
        return unflatten(tree, result), unflatten(tree, later)
    except BaseException as error:
        hide_own_frames(error)
        raise


def _order(primals: Sequence[Any], series: Sequence[Sequence[Any]]) -> int:
    """Return the number of derivatives, which all arguments must have."""
    if len(primals) != len(series):
        raise ArgumentError(
            f"jet: {len(primals)} primals, but {len(series)} series",
            fix="pass one sequence of derivatives per argument",
        )
    for k, terms in enumerate(series):
        if not isinstance(terms, tuple | list):
            raise ArgumentError(
                f"jet: series[{k}] is a {type(terms).__name__}, not a sequence of derivatives",
                fix="jet(f, (x,), ((x_dot, x_dot_dot),))",
            )
    lengths = sorted({len(terms) for terms in series})
    if len(lengths) > 1:
        raise ArgumentError(
            f"jet: the series have {', '.join(map(str, lengths))} derivatives",
            fix="pass as many for every argument; None means zeros",
        )
    return lengths[0] if lengths else 0


def _zero_leaves(terms: tuple[Any, ...], count: int, primals: Sequence[Any]) -> list[bool]:
    """Return which leaves of the arguments have ``None``: zeros that need no arithmetic."""
    found: list[bool] = []
    for term, primal in zip(terms, primals, strict=True):
        leaves = len(flatten(primal)[0])
        if term is None or leaves == 1:
            inner = term is None or (leaves == 1 and not flatten(term)[0])
            found += [inner] * leaves
        else:
            found += [False] * leaves
    assert len(found) == count
    return found


def _along(
    f: Callable[..., Any],
    point: Primals,
    owner: str,
    order: int,
    given: Sequence[tuple[bool, ...]],
    values: Sequence[Any],
) -> tuple[list[Any], Any, list[list[Any]]]:
    """Return results of a function, their tree, and their Taylor coefficients along a curve."""
    with ArrayRecording(owner, is_run=True) as recording:
        call = RecordedCall(recording, f, point.inputs)
        count = len(call.outputs)

        def build(program: Program) -> Runner:
            flags = point.flags(program)
            return Runner(taylor_program(program, order, flags, count, given))

        key = ("jet", point.active, count, order, tuple(given))
        runner, arguments = call.transformed(key, build)
        flat = list(runner([*arguments, *values], call.lines))
    later = [flat[count + n * order : count + (n + 1) * order] for n in range(count)]
    return flat[:count], call.out_tree, later


@entry
def taylor(f: Callable[..., Any], order: int, *, direction: object = None) -> Callable[..., Any]:
    """Make a function that computes Taylor coefficients of ``f`` along a line.

    Args:
        f: a function of arrays (pytrees of them) to arrays (pytrees of them).
        order: last order.
        direction: direction of the line, like the first argument. By default ones: the Taylor
            coefficients of a function of one number, or of an elementwise function at each element.

    Returns:
        a function of ``f``'s arguments that returns a pytree like the result, whose leaves have a
        new first axis of ``order + 1``: coefficient k of f(x + t direction), the kth derivative by
        t divided by k!. Only the first argument moves.

    Raises:
        ArgumentError: if ``order`` is not a non-negative integer.
        ShapeError, DtypeError: if the direction is not like the argument.
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import numpy as np
        >>> taylor(np.exp, 4)(0.0) * 24
        array([24., 24., 12.,  4.,  1.])

    Cost:
        as `jet`: about order**2 / 2 times the products and elementary functions of ``f``.

    Source:
        A. Griewank, A. Walther, Evaluating Derivatives (2008), chapter 13.
    """
    if not is_position(order) or order < 0:
        raise ArgumentError(
            f"taylor: order={order!r} is not a non-negative integer", fix="pass the last order"
        )
    order = int(order)
    owner = f"taylor of {function_name(f)}"

    @transformed("taylor", f)
    def expanded(*args: object, **kwargs: object) -> Any:
        chosen = normalize_argnums(0, len(args), owner)
        primals = (args[0],)
        check_jacobian_arguments(primals, chosen, owner, False, complex_is_fine=True)
        point = Primals(f, primals, {}, owner)
        if direction is None:
            moved = [np.ones(aval.shape, aval.dtype)[()] for aval in point.avals]
        else:
            moved = check_like(
                (direction,), point.tree, point.avals, "tangents", f"the argument of {owner}"
            )
        given = [tuple([k == 0 for k in range(order)])] * len(point.avals)
        values = moved if order else []
        results, tree, later = _along(
            at_arguments(f, args, chosen, kwargs), point, owner, order, given, values
        )
        whole = [stack([x, *rest], 0) for x, rest in zip(results, later, strict=True)]
        return unflatten(tree, whole)

    return expanded


@entry
def laplacian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    has_value: bool = False,
) -> Callable[..., Any]:
    """Make a function that computes the Laplacian of ``f``: the sum of its second derivatives by
    every element of the arguments.

    Second-order Taylor coefficients along all coordinates are computed in one mapped run; values,
    which are the same for all of them, are computed once.

    Args:
        f: a function of real arrays (pytrees of them) to arrays (pytrees of them).
        argnums: position of the argument. With a sequence of positions, the Laplacian is by the
            elements of all these arguments.
        has_value: True to return the value of ``f``, too.

    Returns:
        a function of ``f``'s arguments that returns the Laplacian, like the result of ``f``; with
        ``has_value``, ``(value, laplacian)``.

    Raises:
        ArgumentError: if ``argnums`` names an argument that the call does not have.
        DtypeError: for integer or complex arguments.
        NotDifferentiableError: if an operation has no derivative.

    Example:
        >>> import numpy as np
        >>> laplacian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        np.float64(18.0)

    Cost:
        about 3 times (number of input elements) times ``f``, in one mapped run. No residuals are
        kept, unlike by a Hessian, which takes a gradient's tangent per element.

    Source:
        R. Li et al., A computational framework for neural network-based variational Monte Carlo with
        Forward Laplacian (2024).
    """
    check_argnums(argnums, "laplacian")
    owner = f"laplacian of {function_name(f)}"

    @transformed("laplacian", f)
    def summed(*args: object, **kwargs: object) -> Any:
        chosen = normalize_argnums(argnums, len(args), owner)
        primals = tuple([args[k] for k in chosen])
        check_jacobian_arguments(primals, chosen, owner, False, complex_is_fine=False)
        point = Primals(f, primals, {}, owner)
        size = sum([aval.size for aval in point.avals])
        with ArrayRecording(owner, is_run=True) as recording:
            call = RecordedCall(recording, at_arguments(f, args, chosen, kwargs), point.inputs)
            count = len(call.outputs)
            key = ("laplacian", point.active, count)
            build = functools.partial(_laplacian_of, point, count, size)
            runner, arguments = call.transformed(key, build)
            flat = list(runner([*arguments, *basis_of(point.avals)], call.lines))
        values, found = flat[:count], flat[count:]
        result = unflatten(call.out_tree, found)
        return (unflatten(call.out_tree, values), result) if has_value else result

    return summed


def _laplacian_of(point: Primals, count: int, size: int, program: Program) -> Runner:
    """Map second-order coefficients over all coordinates, and sum them."""
    flags = point.flags(program)
    made = taylor_program(program, 2, flags, count, [(True, False)] * len(point.avals))
    outs = made.output_ids
    chosen = [*outs[:count], *[outs[len(program.output_ids) + 2 * n + 1] for n in range(count)]]
    part = restrict(made, made.input_ids, chosen, keep=True).program
    moved = len(part.input_ids) - len(program.input_ids)
    mapped = vmap_program(
        part,
        size,
        [False] * len(program.input_ids) + [True] * moved,
        [False] * count + [True] * count,
    )
    into = ArrayRecording(f"laplacian of {program.name}", keeps_source=False)
    given = [into.new_input(mapped.avals[i]) for i in mapped.input_ids]
    found = evaluate_program(mapped, given)
    avals = [program.avals[i] for i in program.output_ids[:count]]
    results = [operand_of(into, x, aval) for x, aval in zip(found[:count], avals, strict=True)]
    for x, aval in zip(found[count:], avals, strict=True):
        results.append(operand_of(into, mul(reduce_sum(x, (0,)), 2.0), aval))
    return Runner(finish(into, results, mapped, f"laplacian_of_{program.name}"))
