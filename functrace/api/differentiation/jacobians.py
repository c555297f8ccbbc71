"""Jacobians and Hessians: a derivative program, mapped over a basis.

Layer: 8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Concatenate, Literal, NamedTuple, TypeAlias, cast, overload

import numpy as np

from functrace.api.batching.mapping import vmap
from functrace.api.capture.arguments import (
    as_value,
    check_argnums,
    check_choice,
    check_leaf,
    function_name,
    is_position,
    normalize_argnums,
)
from functrace.api.capture.record import RecordedCall, own_arrays
from functrace.api.capture.transformed import transformed
from functrace.api.differentiation.gradients import (
    LEAVES,
    Primals,
    Pullback,
    check_differentiable,
    grad,
    grad_transform,
    is_plain,
    jvp,
    real_output,
)
from functrace.api.residuals.context import under_policy
from functrace.control.call import call_p
from functrace.errors import DtypeError, entry
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.parts import inline, restrict
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.shaping import moveaxis, reshape
from functrace.passes.derivative_links import without_unread_residuals
from functrace.transforms import is_differentiable, jvp_program, vmap_program
from functrace.transforms.derivatives import pullback_programs
from functrace.transforms.sparsity import compressed_jacobian, compressed_pullback
from functrace.tree import flatten, map_leaves, paths, unflatten
from functrace.typing import A, Array, Aux, B, P, PyTree, Ts

SMALL_BASIS = 64
"""Elements of a pytree whose unit vectors are cached: they take 32 KiB."""


@overload
def jacrev(
    f: Callable[P, tuple[Any, Aux]],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def jacrev(
    f: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Callable[P, Any]: ...
@entry
def jacrev(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Make a function that computes the Jacobian of ``f`` in reverse mode: one pullback per output
    element, mapped.

    Args:
        f: a function of arrays (pytrees of them).
        argnums: position of the argument to differentiate. A sequence of positions gives a tuple of
            Jacobians.
        has_aux: True if ``f`` returns ``(result, aux)``; ``aux`` is returned unchanged, without a
            derivative.
        holomorphic: True if ``f`` is a holomorphic function of complex arguments. Otherwise its
            results must be real; arguments may be complex, and the derivative by them is not
            conjugated.

    Returns:
        a function of ``f``'s arguments that returns the Jacobian, or ``(jacobian, aux)`` with
        ``has_aux``. The Jacobian is a pytree like the result, with a pytree like the argument in
        place of each leaf; its arrays have the shape ``result.shape + argument.shape``.

    Raises:
        ArgumentError: if ``argnums`` names an argument that the call does not have.
        DtypeError: for integer arguments or results, for complex results without ``holomorphic``,
            for real ones with it.

    Example:
        >>> import numpy as np
        >>> jacrev(lambda x: x**2)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])

    Cost:
        ``f`` and (number of output elements) pullbacks, in one mapped run. Where the program shows
        that rows have no column in common (elementwise functions, neighbours, bands), these rows
        share one pullback. Entries outside of the sparsity pattern are then zeros, even where a
        separate pullback would give NaN.
    """
    check_argnums(argnums, "jacrev")
    name = function_name(f)
    owner, called = f"jacrev of {name}", f"vjp of {name}"

    @transformed("jacrev", f)
    def jacobian(*args: object, **kwargs: object) -> Any:
        chosen = normalize_argnums(argnums, len(args), owner)
        primals = [args[k] for k in chosen]
        check_jacobian_arguments(primals, chosen, owner, holomorphic, complex_is_fine=True)
        point = Primals(f, primals, {}, called)
        with ArrayRecording(called, is_run=True) as recording:
            call = RecordedCall(
                recording, at_arguments(f, args, chosen, kwargs), point.inputs, has_aux=has_aux
            )
            avals = call.out_avals
            check_jacobian_results(avals, owner, holomorphic, complex_is_fine=False)
            if len(avals) == 1 and not avals[0].shape:  # a gradient: nothing to map
                runner, arguments = call.transformed(
                    *under_policy(
                        *grad_transform(len(point.avals), with_value=False), len(point.avals)
                    )
                )
                flat = runner(arguments, call.lines)
                found = [
                    x if shape_of(x) else reshape(reshape(x, (1,)), ())
                    for x in flat[call.auxiliary :]
                ]
                gradients = unflatten(point.tree, found)
                result = unflatten(
                    call.out_tree, [gradients[0] if is_position(argnums) else gradients]
                )
                return (result, call.aux(flat[: call.auxiliary])) if has_aux else result
            count = len(avals)
            build = functools.partial(_rows_of, point, count)
            (traced, plain), arguments = call.transformed(
                *under_policy(("jacrev", point.active, count), build, point.active)
            )
            found = plain if is_plain(arguments) else traced
            flat = found.forward(arguments, call.lines)
        behind = count + call.auxiliary
        residuals = list(flat[behind:])
        if found.is_whole:
            rows = unflatten(point.tree, found.backward(residuals, call.lines))
        else:
            rows = _rows(Pullback(point, call, found.backward, residuals))
        parts = _split_rows(rows, avals)
        result = unflatten(
            call.out_tree, [part[0] if is_position(argnums) else part for part in parts]
        )
        return (result, call.aux(flat[count:behind])) if has_aux else result

    return jacobian


class _ReverseJacobian(NamedTuple):
    """Runners of a Jacobian in reverse mode.

    Args:
        forward: from the inputs to results, auxiliary data and residuals.
        backward: from residuals to Jacobians.
        is_whole: whether these have the elements of the results along their first axis. If not,
            ``backward`` is a pullback.
    """

    forward: Runner
    backward: Runner
    is_whole: bool


def _rows_of(
    point: Primals, count: int, program: Program
) -> tuple[_ReverseJacobian, _ReverseJacobian]:
    """Build the pullback of a function, or the whole Jacobian if its sparsity allows few pullbacks:
    for traced arguments, and for plain arrays.
    """
    active = point.flags(program)
    made = pullback_programs(program, active, count)
    run = without_unread_residuals(*made, len(program.output_ids))

    def rows(forward: Program, pulled: Program) -> _ReverseJacobian:
        compressed = compressed_pullback(without_calls(program), pulled, active, count)
        return _ReverseJacobian(
            Runner(forward), Runner(compressed or pulled), compressed is not None
        )

    traced = rows(*made)
    return traced, traced if run[0] is made[0] else rows(*run)


def without_calls(program: Program) -> Program:
    """Inline calls, but not functions with custom derivatives, which may depend on other values."""
    return inline(program, lambda op: op[2][0] if op[0] is call_p else None)


def _rows(pullback: Pullback) -> PyTree:
    """Apply a pullback to all unit vectors: the first axis is the elements of the results."""
    avals, tree = pullback.out_avals, pullback.out_tree
    basis = basis_of(avals)
    if len(basis) == 1 and avals[0].size == 1:
        return map_leaves(
            lambda row: reshape(row, (1, *shape_of(row))),
            pullback(unflatten(tree, [b[0] for b in basis])),
        )
    return vmap(pullback, axis_size=_count(avals))(unflatten(tree, basis)) if basis else ()


@overload
def jacfwd(
    f: Callable[P, tuple[Any, Aux]],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def jacfwd(
    f: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
) -> Callable[P, Any]: ...
@entry
def jacfwd(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Make a function that computes the Jacobian of ``f`` in forward mode: one tangent per input
    element, mapped.

    Args:
        f: a function of arrays (pytrees of them).
        argnums: position of the argument to differentiate. A sequence of positions gives a tuple of
            Jacobians.
        has_aux: True if ``f`` returns ``(result, aux)``; ``aux`` is returned unchanged, without a
            derivative.
        holomorphic: True if ``f`` is a holomorphic function of complex arguments. Otherwise its
            arguments must be real; results may be complex. The Jacobian of an integer result is
            zero.

    Returns:
        a function of ``f``'s arguments that returns the Jacobian, or ``(jacobian, aux)`` with
        ``has_aux``. The Jacobian is a pytree like the result, with a pytree like the argument in
        place of each leaf; its arrays have the shape ``result.shape + argument.shape``.

    Raises:
        ArgumentError: if ``argnums`` names an argument that the call does not have.
        DtypeError: for integer arguments, for complex arguments without ``holomorphic``, for real
            ones (or real results) with it.

    Example:
        >>> import numpy as np
        >>> jacfwd(lambda x: x**2)(np.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])

    Cost:
        ``f`` and (number of input elements) tangents, in one mapped run. Where the program shows
        that columns have no row in common (elementwise functions, neighbours, bands), these columns
        share one tangent. Entries outside of the sparsity pattern are then zeros, even where a
        separate tangent would give NaN.
    """
    check_argnums(argnums, "jacfwd")
    owner = f"jacfwd of {function_name(f)}"

    @transformed("jacfwd", f)
    def jacobian(*args: object, **kwargs: object) -> Any:
        chosen = normalize_argnums(argnums, len(args), owner)
        primals = tuple(args[k] for k in chosen)
        check_jacobian_arguments(primals, chosen, owner, holomorphic, complex_is_fine=False)
        point = Primals(f, primals, {}, owner)
        with ArrayRecording(owner, is_run=True) as recording:
            call = RecordedCall(
                recording, at_arguments(f, args, chosen, kwargs), point.inputs, has_aux=has_aux
            )
            check_jacobian_results(call.out_avals, owner, holomorphic, complex_is_fine=True)
            build = functools.partial(_columns_of, point, len(call.outputs), call.auxiliary)
            key = ("jacfwd", point.active, len(call.outputs))
            found, arguments = call.transformed(key, build)
            flat = found.runner(
                [*arguments, *([] if found.is_whole else basis_of(point.avals))], call.lines
            )
        columns = flat[call.auxiliary :]
        if not found.is_whole:
            columns = [moveaxis(x, 0, len(shape_of(x)) - 1) for x in columns]
            columns = [
                np.ascontiguousarray(cast("Array", x)) if isinstance(x, np.ndarray) else x
                for x in columns
            ]
        results: list[Any] = []
        for column, out_aval in zip(columns, call.out_avals, strict=True):
            start = 0
            parts: list[Any] = []
            for aval in point.avals:
                part = column if len(point.avals) == 1 else column[..., start : start + aval.size]
                parts.append(reshape(part, (*out_aval.shape, *aval.shape)))
                start += aval.size
            tree = unflatten(point.tree, parts)
            results.append(tree[0] if is_position(argnums) else tree)
        result = unflatten(call.out_tree, results)
        return (result, call.aux(flat[: call.auxiliary])) if has_aux else result

    return jacobian


class _ForwardJacobian(NamedTuple):
    """Runner of a Jacobian in forward mode.

    Args:
        runner: from the inputs to auxiliary data and Jacobians.
        is_whole: whether these have the elements of the arguments along their last axis. If not,
            `runner` takes all unit vectors as well, and their derivatives are along the first axis.
    """

    runner: Runner
    is_whole: bool


def _columns_of(point: Primals, count: int, auxiliary: int, program: Program) -> _ForwardJacobian:
    """Map the jvp of a function, without residuals. Tangents come after auxiliary data."""
    active = point.flags(program)
    pushed = jvp_program(program, active, count)
    needed = restrict(pushed, pushed.input_ids, pushed.output_ids[count:], keep=True).program
    compressed = compressed_jacobian(without_calls(program), needed, active, count)
    if compressed is not None:
        return _ForwardJacobian(Runner(compressed), is_whole=True)
    batched = [k >= len(program.input_ids) for k in range(len(needed.input_ids))]
    mapped = vmap_program(
        needed, _count(point.avals), batched, [False] * auxiliary + [True] * count
    )
    return _ForwardJacobian(Runner(mapped), is_whole=False)


HessianMode: TypeAlias = Literal[
    "forward-over-reverse", "reverse-over-reverse", "forward-over-forward", "reverse-over-forward"
]
"""Outer mode, over inner mode."""


@overload
def hessian(
    f: Callable[P, tuple[Any, Aux]],
    argnums: int | Sequence[int] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    mode: HessianMode = "forward-over-reverse",
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def hessian(
    f: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    *,
    mode: HessianMode = "forward-over-reverse",
) -> Callable[P, Any]: ...
@entry
def hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    mode: HessianMode = "forward-over-reverse",
) -> Callable[..., Any]:
    """Make a function that computes the Hessian of ``f``, by default as ``jacfwd(jacrev(f))``.

    Args:
        f: a function of arrays (pytrees of them), usually to one real number.
        argnums: position of the argument to differentiate twice. A sequence of positions gives a
            tuple of tuples: the second derivatives by every pair.
        has_aux: True if ``f`` returns ``(result, aux)``; ``aux`` is returned unchanged, without a
            derivative.
        holomorphic: True if ``f`` is a holomorphic function of complex arguments. Otherwise
            arguments and results must be real.
        mode: the modes of both derivatives, the outer one first. ``"forward-over-reverse"``:
            `jacfwd` of `jacrev`. ``"reverse-over-reverse"``: for functions with `custom_vjp`, which
            have no forward mode. ``"forward-over-forward"``: for `while_loop` without a maximum,
            which has no reverse mode, and for functions of few elements with many results; keeps no
            residuals. ``"reverse-over-forward"``: the same values, seldom faster.

    Returns:
        a function of ``f``'s arguments that returns the Hessian, or ``(hessian, aux)`` with
        ``has_aux``. The Hessian of a number by an array has the shape ``x.shape + x.shape``;
        pytrees are nested as in `jacrev`.

    Raises:
        ArgumentError: if ``argnums`` names an argument that the call does not have, or ``mode`` is
            none of these.
        DtypeError: for integer arguments or results, for complex ones without ``holomorphic``, for
            real ones with it.

    Example:
        >>> import numpy as np
        >>> hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])

    Cost:
        (number of input elements) times a few ``f``, in one mapped run; for a banded Hessian, the
        number of bands instead. ``"forward-over-forward"`` takes the square of the number of input
        elements. `sparse_hessian` returns the elements that are not zero, by fewer sweeps.
    """
    check_choice(
        "hessian", "mode", mode, HESSIAN_MODES, "functrace.sparse_hessian returns a sparse array"
    )
    outer, inner = [JACOBIANS[name] for name in mode.split("-over-")]
    found = inner(f, argnums, has_aux=has_aux, holomorphic=holomorphic)
    return transformed("hessian", f)(
        outer(found, argnums, has_aux=has_aux, holomorphic=holomorphic)
    )


JACOBIANS: Mapping[str, Callable[..., Any]] = {"forward": jacfwd, "reverse": jacrev}
HESSIAN_MODES = tuple([
    f"{outer}-over-{inner}" for inner in ("reverse", "forward") for outer in ("forward", "reverse")
])  # fmt: skip


@overload
def hvp(f: Callable[..., Any], primals: tuple[A], tangents: tuple[Any], **kwargs: object) -> A: ...
@overload
def hvp(
    f: Callable[..., Any],
    primals: tuple[A, B, *Ts],
    tangents: tuple[Any, Any, *tuple[Any, ...]],
    **kwargs: object,
) -> tuple[A, B, *Ts]: ...
@overload
def hvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], **kwargs: object
) -> Any: ...
@entry
def hvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], **kwargs: object
) -> Any:
    """Compute the product of the Hessian of ``f`` with ``tangents``, forward over reverse.

    Args:
        f: a function that returns one real number.
        primals: tuple of arguments of ``f``.
        tangents: tuple with the structure and shapes of ``primals``; ``None`` within it means
            zeros.
        kwargs: keyword arguments of ``f``, which are not differentiated.

    Returns:
        a value like the argument, or a tuple with one value per argument if there are several.

    Raises:
        TreeError, ShapeError: if primals and tangents differ in structure or shape; if ``f`` does
            not return a scalar.
        DtypeError: if an argument is not of floating-point dtype, or ``f`` returns no real number.

    Example:
        >>> import numpy as np
        >>> hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))
        array([6., 0.])

    Cost:
        4 to 8 times the time of ``f``; the Hessian is never formed.
    """
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(lambda *xs: grad(f, argnums)(*xs, **kwargs), primals, tangents)[1]


@overload
def elementwise_grad(f: np.ufunc) -> Callable[..., Any]: ...
@overload
def elementwise_grad(
    f: Callable[Concatenate[A, P], Any], argnums: Literal[0] = 0
) -> Callable[Concatenate[A, P], A]: ...
@overload
def elementwise_grad(f: Callable[P, Any], argnums: int) -> Callable[P, Any]: ...
@overload
def elementwise_grad(
    f: Callable[P, Any], argnums: Sequence[int]
) -> Callable[P, tuple[Any, ...]]: ...
@entry
def elementwise_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """Make a function that computes the derivative of an elementwise function at every element.

    It computes the gradient of the sum of ``f``'s outputs. For a function that works element by
    element, this is the derivative at each element.

    Args:
        f: a function of arrays to one array, each of whose elements depends on the same element of
            the arguments only.
        argnums: position of the argument to differentiate. A sequence of positions gives a tuple of
            derivatives.

    Returns:
        a function of ``f``'s arguments that returns the derivatives, with the shape and dtype of
        the argument.

    Raises:
        ArgumentError: if ``argnums`` names an argument that the call does not have.
        DtypeError: if an argument is not of floating-point dtype, or ``f`` returns no real numbers.

    Example:
        >>> import numpy as np
        >>> elementwise_grad(np.sin)(np.zeros(2))
        array([1., 1.])

    Cost:
        2 to 4 times the time of ``f``.
    """

    @functools.wraps(f, updated=())
    def summed(*args: object, **kwargs: object) -> Any:
        return np.sum(f(*args, **kwargs))

    return transformed("elementwise_grad", f)(grad(summed, argnums))


def at_arguments(
    f: Callable[..., Any], args: tuple[Any, ...], chosen: tuple[int, ...], kwargs: dict[str, Any]
) -> Callable[..., Any]:
    """Return ``f`` as a function of the chosen arguments only."""
    if not kwargs and chosen == tuple(range(len(args))):
        return f

    def partial(*xs: object) -> Any:
        full, named = own_arrays([None if k in chosen else x for k, x in enumerate(args)], kwargs)
        for k, x in zip(chosen, xs, strict=True):
            full[k] = x
        return f(*full, **named)

    return partial


def check_jacobian_arguments(
    trees: Sequence[Any],
    chosen: Sequence[int],
    owner: str,
    holomorphic: bool,
    *,
    complex_is_fine: bool,
) -> None:
    """Check the arguments; complex ones have no unit vectors, but reverse mode needs none (as in
    `grad`)."""
    for k, tree in zip(chosen, trees, strict=True):
        if (
            type(tree) in LEAVES
            and not holomorphic
            and (type(tree) is float or tree.dtype.kind == "f")
        ):
            continue
        leaves, treedef = flatten(tree)
        for leaf, path in zip(leaves, paths(treedef), strict=True):
            name = f"args[{k}]{path}"
            check_leaf(leaf, owner, name)
            check_differentiable(leaf, owner, holomorphic, name)
            aval = aval_of(as_value(leaf, owner))
            if aval.dtype.kind == "c" and not (holomorphic or complex_is_fine):
                raise DtypeError(
                    f"{owner}: {name} is {aval}",
                    fix="pass holomorphic=True for a holomorphic function; use functrace.jacrev "
                    "for real functions of "
                    "complex arguments",
                )


def check_jacobian_results(
    avals: Sequence[ShapeDtype], owner: str, holomorphic: bool, *, complex_is_fine: bool
) -> None:
    """Check the results; complex ones have no unit vectors, but forward mode needs none."""
    for aval in avals:
        if aval.dtype.kind != "c" and holomorphic:
            raise real_output(owner, aval)
        if complex_is_fine:
            continue
        if aval.dtype.kind == "c" and not holomorphic:
            raise DtypeError(
                f"{owner}: the function returned {aval}",
                fix="return real values; use functrace.jacfwd for complex functions of real "
                "arguments, holomorphic=True "
                "for holomorphic ones",
            )
        if not is_differentiable(aval):
            raise DtypeError(
                f"{owner}: the function returned {aval}, which carries no derivative",
                fix="return floats; has_aux=True carries other results",
            )


def _count(avals: Sequence[ShapeDtype]) -> int:
    """Return the number of elements, and so of unit vectors."""
    return sum([aval.size for aval in avals])


def basis_of(avals: Sequence[ShapeDtype]) -> Sequence[Any]:
    """Return arrays like the leaves with a new first axis, the unit vectors of the whole pytree."""
    return _small_basis(tuple(avals)) if _count(avals) <= SMALL_BASIS else _new_basis(avals)


@functools.lru_cache(maxsize=64)
def _small_basis(avals: tuple[ShapeDtype, ...]) -> Sequence[Any]:
    """Return cached, read-only unit vectors: creating them takes as long as using them."""
    made = _new_basis(avals)
    for array in made:
        array.flags.writeable = False
    return made


def _new_basis(avals: Sequence[ShapeDtype]) -> list[Any]:
    total, start = _count(avals), 0
    made: list[Any] = []
    for aval in avals:
        unit = np.zeros((total, *aval.shape), aval.dtype)  # (not a view: `_small_basis` locks it)
        unit.reshape(total, aval.size)[start : start + aval.size] = np.eye(aval.size)
        start += aval.size
        made.append(unit)
    return made


def _split_rows(rows: PyTree, avals: Sequence[ShapeDtype]) -> list[Any]:
    """Split the mapped pullbacks' results (a tuple per argument) into one pytree per output
    leaf."""
    flat, tree = flatten(rows)
    start = 0
    results: list[Any] = []
    for aval in avals:
        size = aval.size
        chosen = flat if len(avals) == 1 else [r[start : start + size] for r in flat]
        parts = [reshape(r, (*aval.shape, *shape_of(r)[1:])) for r in chosen]
        results.append(unflatten(tree, parts))
        start += size
    return results
