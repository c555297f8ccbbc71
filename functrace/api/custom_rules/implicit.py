"""Implicit differentiation: ``custom_root`` and ``custom_linear_solve``; and ``closure_convert``.

The caller provides the solver, which is not differentiated: the derivative is that of the equations
at the solution. The functions are recorded, so derivatives by captured values are not lost.

Layer: 8.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.api.capture.arguments import as_value, check_function, function_name, is_pair
from functrace.api.capture.record import Operands, StagedFunction, stage
from functrace.api.capture.results import guard_results
from functrace.api.custom_rules.derivatives import check_like
from functrace.api.differentiation.gradients import jvp
from functrace.control.linear_solve import linear_solve_p, linear_solve_program
from functrace.control.root import root_p, root_program
from functrace.errors import NotDifferentiableError, TreeError, entry
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.ir.check import sub_programs_of
from functrace.ir.parts import Rewrite
from functrace.ir.program import Program
from functrace.tracing.binding import is_recording
from functrace.tracing.capture import held_array
from functrace.tracing.evaluate import evaluate_program
from functrace.tracing.tracer import Tracer
from functrace.transforms.linear_part import transposed_part
from functrace.tree import flatten, unflatten
from functrace.typing import PyTree

Function = Callable[..., Any]


@entry
def custom_root(
    f: Function,
    initial_guess: PyTree,
    solve: Function,
    tangent_solve: Function,
    has_aux: bool = False,
) -> Any:
    """Solve ``f(x) = 0`` with a solver of one's own, and differentiate the solution instead of the
    solver.

    By the implicit function theorem: ``x_dot = -(df/dx)^-1 (df/da) a_dot`` for all values ``a``
    that ``f`` closes over.

    Args:
        f: a function of a point like the guess, to a pytree of the same structure and shapes, which
            is zero at the solution. It may close over traced values. It is recorded, so it may not
            read concrete values.
        initial_guess: start of ``solve``: a pytree of arrays. The solution does not depend on it.
        solve: ``solve(f, initial_guess)`` returns the solution. Where values are concrete
            (``grad``, ``jvp`` …), it may use Python's own ``while`` and ``if``.
        tangent_solve: ``tangent_solve(g, y)`` solves ``g(x) = y`` for a linear ``g``: the
            derivative of ``f`` at the solution. It is differentiated for second derivatives, and
            transposed for reverse mode; `custom_linear_solve` makes any linear solver suitable.
        has_aux: True if ``solve`` returns a pair ``(solution, aux)``; ``aux`` carries no
            derivative.

    Returns:
        the solution, or ``(solution, aux)`` with ``has_aux``.

    Raises:
        ArgumentError: if ``f``, ``solve`` or ``tangent_solve`` is not a function.
        TreeError, ShapeError, DtypeError: if a solution, or the result of a function, does not fit
            the guess.
        ConcretizationError: if ``f`` reads a concrete value.

    Example:
        >>> import numpy as np, functrace as ft
        >>> def newton(f, x):
        ...     while abs(f(x)) > 1e-12:
        ...         x = x - f(x) / ft.grad(f)(x)
        ...     return x
        >>> def cube_root(a):
        ...     return ft.custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))
        >>> [round(float(y), 12) for y in ft.value_and_grad(cube_root)(8.0)]
        [2.0, 0.083333333333]

    Cost:
        ``solve``; a derivative adds one linearization of ``f`` and one ``tangent_solve``.

    Source:
        ``jax.lax.custom_root``.
    """
    for function, name in ((f, "f"), (solve, "solve"), (tangent_solve, "tangent_solve")):
        check_function(
            function, f"custom_root: {name}", "custom_root(f, initial_guess, solve, tangent_solve)"
        )
    if not is_recording() and not _is_traced(initial_guess):
        return solve(f, initial_guess)
    return root_of(f, initial_guess, solve, tangent_solve, has_aux)


def root_of(
    f: Function,
    guess: PyTree,
    solve: Function,
    tangent_solve: Function,
    has_aux: bool,
    *,
    at_solution: bool = False,
) -> Any:
    """Record the solution of equations.

    Args:
        f, guess, solve, tangent_solve, has_aux: see `custom_root`.
        at_solution: whether the guess is the solution, so that ``f`` may concretize values at it.
    """
    given, tree = flatten(guess)
    leaves = [held_array(as_value(leaf, "custom_root: initial_guess")) for leaf in given]
    operands, still = Operands(tuple(leaves), {}), Operands(tuple(leaves), {}).without_values()
    name = function_name(f)

    def checked(owner: str, found: PyTree) -> list[Any]:
        return check_like(found, tree, operands.avals, owner, "the guess")

    def equations(*x: object) -> list[Any]:
        return checked(f"the result of {name}", f(unflatten(tree, x)))

    def solution(*x: object) -> Any:
        found = solve(f, unflatten(tree, x))
        found, aux = _split(found, "custom_root: solve") if has_aux else (found, None)
        return checked("the solution of custom_root", found), aux

    def tangents(*both: object) -> list[Any]:
        x, right = (
            unflatten(tree, leaves) for leaves in (both[: len(leaves)], both[len(leaves) :])
        )

        def push(x_dot: PyTree) -> Any:
            return jvp(recorded, (x,), (x_dot,))[1]

        return checked("the result of tangent_solve of custom_root", tangent_solve(push, right))

    def recorded(x: PyTree) -> Any:
        return unflatten(tree, evaluate_program(zero.program, [*flatten(x)[0], *zero.captured]))

    solved = stage(solution, operands, f"solve of custom_root {name}", "solve")
    zero = stage(equations, operands if at_solution else still, f"custom_root of {name}", name)
    both = Operands((*leaves, *leaves), {}).without_values()
    linear = stage(tangents, both, f"tangent_solve of custom_root {name}", "tangent_solve")
    programs, captured = sharing((zero, solved, linear))
    results = root_program(programs[0], programs[1], programs[2], captured, operands.forwarded())
    guard_results(results, solved.origins, operands.given, "custom_root")
    found, aux = unflatten(solved.out_tree, results)
    return (unflatten(tree, found), aux) if has_aux else unflatten(tree, found)


@entry
def custom_linear_solve(
    matvec: Function,
    b: PyTree,
    solve: Function,
    transpose_solve: Function | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """Solve ``matvec(x) = b`` with a solver of one's own, and differentiate the solution instead of
    the solver.

    Args:
        matvec: a linear map between pytrees like ``b``. It may close over traced values. It is
            recorded, so it may not read concrete values.
        b: the right-hand side: a pytree of arrays.
        solve: ``solve(matvec, b)`` returns the solution. Where values are concrete (``grad``,
            ``jvp`` …), it may use Python's own ``while`` and ``if``, for a first derivative in
            forward mode. A loop that must run in reverse mode as well is a `functrace.scan`, or
            foreign code.
        transpose_solve: ``transpose_solve(vecmat, b)`` solves with the transposed map. Reverse mode
            needs it, unless ``symmetric``.
        symmetric: True if the map is its own transpose; ``solve`` is then used for both.
        has_aux: True if ``solve`` (and ``transpose_solve``) return a pair ``(solution, aux)``;
            ``aux`` carries no derivative.

    Returns:
        the solution, or ``(solution, aux)`` with ``has_aux``.

    Raises:
        ArgumentError: if ``matvec``, ``solve`` or ``transpose_solve`` is not a function.
        TreeError, ShapeError, DtypeError: if a solution, or the result of the map, does not fit
            ``b``.
        NotDifferentiableError: if ``matvec`` is not linear; in reverse mode without
            ``transpose_solve``.
        ConcretizationError: if ``matvec`` reads a concrete value.

    Example:
        >>> import numpy as np, functrace as ft
        >>> def jacobi(matvec, b):
        ...     step = lambda x, _: (x + (b - matvec(x)) / 4.0, None)
        ...     return ft.scan(step, b, None, 60)[0]
        >>> def solved(a):
        ...     matrix = np.array([[4.0, 1.0], [1.0, 4.0]])
        ...     return ft.custom_linear_solve(lambda x: a * (matrix @ x), np.array([1.0, 2.0]), jacobi, symmetric=True)
        >>> np.round(ft.jacrev(solved)(1.0), 6)
        array([-0.133333, -0.466667])

    Cost:
        ``solve``; each derivative adds one run of it, or of ``transpose_solve``.

    Source:
        ``jax.lax.custom_linear_solve``.
    """
    functions = (matvec, "matvec"), (solve, "solve"), (transpose_solve or solve, "transpose_solve")
    for function, name in functions:
        check_function(
            function, f"custom_linear_solve: {name}", "custom_linear_solve(matvec, b, solve)"
        )
    if not is_recording() and not _is_traced(b):
        return solve(matvec, b)
    given, tree = flatten(b)
    leaves = [held_array(as_value(leaf, "custom_linear_solve: b")) for leaf in given]
    operands, still = Operands(tuple(leaves), {}), Operands(tuple(leaves), {}).without_values()

    def checked(what: str, found: PyTree) -> list[Any]:
        return check_like(found, tree, operands.avals, what, "b")

    def applied(*x: object) -> list[Any]:
        return checked("the result of matvec of custom_linear_solve", matvec(unflatten(tree, x)))

    def solving(way: Function, vector_map: Function, word: str) -> Function:
        def solution(*right: object) -> Any:
            found = way(vector_map, unflatten(tree, right))
            found, aux = _split(found, f"custom_linear_solve: {word}") if has_aux else (found, None)
            return checked(f"the result of {word} of custom_linear_solve", found), aux

        return solution

    forward = stage(applied, still, "matvec of custom_linear_solve", function_name(matvec))
    _check_linear(forward, len(leaves), function_name(matvec))
    solved = stage(
        solving(solve, matvec, "solve"), operands, "solve of custom_linear_solve", "solve"
    )
    staged = [forward, solved]
    if transpose_solve is not None and not symmetric:
        count = len(leaves)
        flags = [False] * len(forward.captured) + [True] * count
        turned = transposed_part(_captured_first(forward, count), flags)
        pulled = StagedFunction(
            turned, forward.captured, forward.out_tree, forward.numbers, forward.origins
        )

        def vecmat(y: PyTree) -> Any:
            given = check_like(
                y, tree, operands.avals, "the argument of vecmat of custom_linear_solve", "b"
            )
            return unflatten(tree, evaluate_program(turned, [*forward.captured, *given]))

        back = solving(transpose_solve, vecmat, "transpose_solve")
        staged.append(
            stage(back, still, "transpose_solve of custom_linear_solve", "transpose_solve")
        )
        programs, captured = sharing(staged, [(pulled, True)])
        pair: Any = (programs[3], programs[2])
    else:
        programs, captured = sharing(staged)
        pair = (programs[0], programs[1]) if symmetric else ()
    results = linear_solve_program((programs[0], programs[1]), pair, captured, operands.forwarded())
    guard_results(results, solved.origins, operands.given, "custom_linear_solve")
    found, aux = unflatten(solved.out_tree, results)
    return (unflatten(tree, found), aux) if has_aux else unflatten(tree, found)


@entry
def closure_convert(fun: Function, *example_args: PyTree) -> tuple[Function, list[Any]]:
    """Convert a closure over traced values to a function that takes these values as arguments.

    Args:
        fun: a function of pytrees of arrays. It is recorded, so it may not read concrete values.
        example_args: arguments with the shapes and dtypes that it will be called with.

    Returns:
        a function, which is called as ``converted(*args, *captured)``, and the list of captured
        values.

    Raises:
        ArgumentError: if ``fun`` is not a function.
        ConcretizationError: if ``fun`` reads a concrete value.
        TreeError: from ``converted``, if the arguments have another structure, or the captured
            values are left out.
        ShapeError, DtypeError: from ``converted``, if an argument has another shape or dtype than
            the example.

    Example:
        >>> import functrace as ft
        >>> def doubled(x):
        ...     converted, captured = ft.closure_convert(lambda y: x * y, 1.0)
        ...     return converted(2.0, *captured)
        >>> ft.grad(doubled)(3.0)
        np.float64(2.0)

    Source:
        ``jax.closure_convert``.
    """
    check_function(fun, "closure_convert", "closure_convert(fun, *example_args)")
    given, tree = flatten(example_args)
    leaves = [as_value(leaf, "closure_convert: an example") for leaf in given]
    operands = Operands(tuple(leaves), {}).without_values()
    name = function_name(fun)
    made = stage(
        lambda *xs: fun(*unflatten(tree, xs)), operands, f"closure_convert of {name}", name
    )
    traced = [k for k, value in enumerate(made.captured) if isinstance(value, Tracer)]
    count = len(example_args)

    def converted(*args: PyTree) -> Any:
        found = check_like(
            args[:count], tree, operands.avals, f"the arguments of {name}", "the example"
        )
        values = list(made.captured)
        if len(args) != count + len(traced):
            raise TreeError(
                f"{name} takes {count} arguments and {len(traced)} captured values, not "
                f"{len(args)}",
                fix="call converted(*args, *captured)",
            )
        for k, value in zip(traced, args[count:], strict=True):
            values[k] = value
        return unflatten(made.out_tree, evaluate_program(made.program, [*found, *values]))

    return converted, [made.captured[k] for k in traced]


def _check_linear(matvec: StagedFunction, count: int, name: str) -> None:
    """Check that a recorded function of ``count`` leaves is linear, as far as its program shows.

    It must have a transpose, and be zero at zero, for any values of captured tracers. Programs with
    foreign calls or nested solvers are not checked.

    Raises:
        NotDifferentiableError: if it is not linear.
    """
    program = matvec.program
    if _is_opaque(program):
        return
    fix = "make it linear: functrace.jvp(f, (x,), (v,))[1] is linear in v, and constant terms belong to b"
    flags = [False] * len(matvec.captured) + [True] * count
    try:
        transposed_part(_captured_first(matvec, count), flags)
    except NotDifferentiableError as error:
        raise NotDifferentiableError(
            f"custom_linear_solve: matvec {name} is not linear: {error.what}", fix=fix
        ) from None
    # Placeholders take no memory: an element each.
    captured = [_stand_in(aval_of(x)) if isinstance(x, Tracer) else x for x in matvec.captured]
    zeros = [
        np.zeros(program.avals[i].shape, program.avals[i].dtype)[()]
        for i in program.input_ids[:count]
    ]
    try:
        with np.errstate(all="ignore"):
            results = evaluate_program(program, [*zeros, *captured])
    except (ArithmeticError, ValueError, IndexError):  # placeholders may be invalid values
        return
    for result in results:
        wrong = result[(result != 0) & (result == result)]
        if wrong.size:
            raise NotDifferentiableError(
                f"custom_linear_solve: matvec {name} is not linear: at zero it is {wrong[0]}, not "
                "zero",
                fix=fix,
            )


def _is_opaque(program: Program) -> bool:
    """Return True if a program has effects, or an operation that may be linear but has no
    transpose."""
    return any(
        primitive.effects
        or primitive in (linear_solve_p, root_p)
        or any(_is_opaque(held) for param in params for _, held in sub_programs_of(param, ""))
        for primitive, _, params in program.ops
    )


def _stand_in(aval: ShapeDtype) -> Any:
    """Return an array broadcast from one element: 1, or 0 for a possible index."""
    return np.broadcast_to(np.full((), aval.dtype.kind in "fc", aval.dtype), aval.shape)


# -- shared captured values ------------------------------------------------------------------------


def sharing(
    staged: Sequence[StagedFunction], turned: Sequence[tuple[StagedFunction, bool]] = ()
) -> tuple[list[Program], list[Any]]:
    """Give programs one common list of captured values, as their first inputs.

    Args:
        staged: functions as closed programs, with their captured values last.
        turned: further ones, with their captured values first.

    Returns:
        the programs, which take all captured values, then their own arguments; and those values.
    """
    every = [*[(one, False) for one in staged], *turned]
    places: dict[Any, int] = {}
    values: list[Any] = []
    chosen: list[list[int]] = []
    for one, _ in every:
        chosen.append([])
        for value in one.captured:
            key = (
                (id(value.ft_recording), value.ft_variable)
                if isinstance(value, Tracer)
                else id(value)
            )
            if key not in places:
                places[key] = len(values)
                values.append(value)
            chosen[-1].append(places[key])
    made: list[Program] = []
    for (one, is_first), mine in zip(every, chosen, strict=True):
        own = len(one.captured)
        explicit = len(one.program.input_ids) - own
        start, rest = (0, range(own, own + explicit)) if is_first else (explicit, range(explicit))
        at = {place: start + k for k, place in reversed(list(enumerate(mine)))}
        inputs: list[int | ShapeDtype] = [
            at[k] if k in at else aval_of(value) for k, value in enumerate(values)
        ]
        write = Rewrite(one.program, [*inputs, *rest])
        for k, place in enumerate(mine):  # a value that was captured twice
            write.moved[one.program.input_ids[start + k]] = write.inputs[place]
        made.append(write.finish(write.keep_all()))
    return made, values


def _captured_first(staged: StagedFunction, explicit: int) -> Program:
    write = Rewrite(
        staged.program, [*range(explicit, len(staged.program.input_ids)), *range(explicit)]
    )
    return write.finish(write.keep_all())


def _split(found: PyTree, what: str) -> tuple[Any, Any]:
    if not is_pair(found):
        raise TreeError(
            f"{what} with has_aux=True returned a {type(found).__name__}, not a pair",
            fix="return solution, aux",
        )
    return found


def _is_traced(tree: PyTree) -> bool:
    return any(isinstance(leaf, Tracer) for leaf in flatten(tree)[0])
