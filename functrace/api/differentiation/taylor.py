"""Taylor mode: ``jet``, ``taylor``, and the Laplacian, which takes second-order coefficients.

Layer: 8.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
    without_calls,
)
from functrace.api.differentiation.tangents import check_like
from functrace.control.taylor import laplacian_program, taylor_program
from functrace.errors import ArgumentError, NotDifferentiableError, entry
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype
from functrace.ir.parts import restrict
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.contraction import dot_p, einsum_p, matmul_p
from functrace.ops.elementwise import add, mul
from functrace.ops.joining import stack
from functrace.ops.reductions import reduce_sum
from functrace.source import hide_own_frames
from functrace.tracing.evaluate import evaluate_program
from functrace.transforms import grad_program, jvp_program
from functrace.transforms.building import finish, operand_of, recorded
from functrace.transforms.sparsity import dependence, independent_groups
from functrace.transforms.sparsity.compressed import FEWEST
from functrace.tree import flatten, unflatten
from functrace.typing import Array

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

    The rule of a custom function is its derivative at every order. (Nested forward mode
    differentiates the value that the rule returns, which is another function's where the two do not
    fit, as in straight-through estimators.)

    Args:
        f: a function of arrays (pytrees of them) to arrays (pytrees of them).
        primals: tuple of arguments of ``f``: the values of the curve.
        series: tuple with one sequence per argument: its derivatives of order 1, 2 …, like the
            argument; all of the same length. ``None`` within means zeros; where a derivative of
            ``f`` is infinite, its product with given zeros is NaN, and with ``None`` nothing.
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

    Values, first derivatives by all elements, and sums of second derivatives are propagated together
    (forward Laplacian, collapsed Taylor mode). Elements without a mixed second derivative, as far as
    the program shows, share one direction: an elementwise function takes one, a function at many
    points as many as a point has coordinates.

    Rules of custom functions are their derivatives at every order, as in `jet`.

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
        one tangent per direction, in one mapped run, and a few times ``f``; memory of the largest
        intermediate array times the number of directions. That is half of what second-order Taylor
        coefficients along each direction take. Where factorizations of matrices or softmax depend
        on the arguments, these operations take both. Directions are chosen once per program, by the
        pattern of the Hessian; functions with custom derivatives take one per element.

    Source:
        R. Li et al., A computational framework for neural network-based variational Monte Carlo with
        Forward Laplacian (2024); F. Dangel et al., Collapsing Taylor Mode Automatic Differentiation
        (2025).
    """
    check_argnums(argnums, "laplacian")
    owner = f"laplacian of {function_name(f)}"

    @transformed("laplacian", f)
    def summed(*args: object, **kwargs: object) -> Any:
        chosen = normalize_argnums(argnums, len(args), owner)
        primals = tuple([args[k] for k in chosen])
        check_jacobian_arguments(primals, chosen, owner, False, complex_is_fine=False)
        point = Primals(f, primals, {}, owner)
        with ArrayRecording(owner, is_run=True) as recording:
            call = RecordedCall(recording, at_arguments(f, args, chosen, kwargs), point.inputs)
            count = len(call.outputs)
            key = ("laplacian", point.active, count)
            build = functools.partial(_laplacian_of, point, count)
            made, arguments = call.transformed(key, build)
            units: Sequence[Any] = basis_of(point.avals) if made.takes_units else ()
            flat = list(made.runner([*arguments, *units], call.lines))
        values, found = flat[:count], flat[count:]
        result = unflatten(call.out_tree, found)
        return (unflatten(call.out_tree, values), result) if has_value else result

    return summed


class _Laplacian(NamedTuple):
    """Runner of values and Laplacians.

    Args:
        runner: from the inputs, and all unit vectors if it takes them.
        takes_units: False if the runner has its own directions, which are fewer.
    """

    runner: Runner
    takes_units: bool


def _laplacian_of(point: Primals, count: int, program: Program) -> _Laplacian:
    """Sum second-order coefficients along all coordinates, or along sums of coordinates that have
    no second derivative in common."""
    flags, behind = point.flags(program), len(program.output_ids)
    sizes = [aval.size for aval in point.avals]
    groups = _independent_coordinates(program, flags, count) if sum(sizes) >= FEWEST else None
    units = groups is None and len(point.avals) == 1 and len(point.avals[0].shape) == 1
    width = sum(sizes) if groups is None else int(groups.max(initial=0)) + 1
    made = laplacian_program(program, width, flags, count, units=units)
    outs = [*made.output_ids[:count], *made.output_ids[behind:]]
    part = restrict(made, made.input_ids, outs, keep=True).program
    into = ArrayRecording(f"laplacian of {program.name}", keeps_source=False)
    seeded = len(program.input_ids)
    given: list[Any] = [into.new_input(part.avals[i]) for i in part.input_ids[:seeded]]
    if groups is None:
        given += [into.new_input(part.avals[i]) for i in part.input_ids[seeded:]]
    else:
        members = groups == np.arange(width)[:, None]
        parts = np.split(members, np.cumsum(sizes)[:-1], axis=1)
        for own, aval in zip(parts, point.avals, strict=True):
            given.append(own.reshape(width, *aval.shape).astype(aval.dtype))
    found = recorded(into, part, given)
    avals = [program.avals[i] for i in program.output_ids[:count]]
    results = [operand_of(into, x, aval) for x, aval in zip(found[:count], avals, strict=True)]
    for x, aval in zip(found[count:], avals, strict=True):
        results.append(operand_of(into, mul(x, 2.0), aval))
    runner = Runner(finish(into, results, part, f"laplacian_of_{program.name}"))
    return _Laplacian(runner, groups is None)


def _independent_coordinates(program: Program, flags: Sequence[bool], count: int) -> Array | None:
    """Return groups of coordinates without mixed second derivatives; ``None`` if they are many."""
    avals = [program.avals[i] for i in program.output_ids[:count]]
    moving = [program.avals[i] for i, f in zip(program.input_ids, flags, strict=True) if f]
    if program.has_rules or not count or any(aval.dtype.kind != "f" for aval in (*avals, *moving)):
        return None
    if _has_large_product(program, flags):
        return None
    into = ArrayRecording(f"sum of {program.name}", keeps_source=False)
    given = [into.new_input(program.avals[i]) for i in program.input_ids]
    outs = evaluate_program(program, given)[:count]
    total = functools.reduce(add, [reduce_sum(x, tuple(range(x.ndim))) for x in outs])
    aval = ShapeDtype((), np.result_type(*[aval.dtype for aval in avals]))
    summed = finish(into, [operand_of(into, total, aval)], program, f"sum_of_{program.name}")
    try:
        slopes = grad_program(without_calls(summed), flags, with_value=False)
    except NotDifferentiableError:
        return None  # loops of unknown length have no reverse mode; all directions are taken
    pushed = jvp_program(slopes, flags)
    part = restrict(pushed, pushed.input_ids, pushed.output_ids[len(moving) :], keep=True).program
    tangents = [k >= len(program.input_ids) for k in range(len(part.input_ids))]
    pattern = dependence(part, tangents, len(moving))
    return None if pattern is None else independent_groups(pattern.symmetric())


MOST_WEIGHTS = 1 << 21
"""Largest matrix whose products are taken apart for a pattern: that takes 2 s for 2,000 x 2,000."""


def _has_large_product(program: Program, flags: Sequence[bool]) -> bool:
    """Return True if moving values are multiplied by a matrix so large that all mix, most likely."""
    moving = {i for i, flag in zip(program.input_ids, flags, strict=True) if flag}
    for k, _ in program.schedule:
        primitive, operands, _ = program.ops[k]
        if moving.isdisjoint(operands):
            continue
        moving.update(range(k, k + program.result_count(k)))
        fixed = [program.avals[i].size for i in operands if i >= 0 and i not in moving]
        if primitive in (matmul_p, dot_p, einsum_p) and max(fixed, default=0) > MOST_WEIGHTS:
            return True
    return False
