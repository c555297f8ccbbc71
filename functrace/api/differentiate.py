"""Derivatives of functions: ``grad``, ``value_and_grad``, ``vjp``, ``jvp``, ``linearize``.

Each calls the user's function once, on traced values, and runs a transformed program that is usually in the cache.

Floor: 7.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, final, overload

import numpy as np

from functrace.api.calls import (
    NUMERIC,
    add_input,
    as_value,
    call,
    check_argnums,
    check_function,
    function_name,
    is_position,
    normalize_argnums,
    output_variable,
    own_arrays,
    own_tracers,
    split_aux,
)
from functrace.api.directions import COTANGENTS, TANGENTS, check_like
from functrace.api.transformed import transformed
from functrace.errors import ArgumentError, DtypeError, ShapeError
from functrace.executor import Runner, run_recorded
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.program import Position, Program, placed
from functrace.numpy.array import TracedArray
from functrace.tracing.capture import held_array
from functrace.tracing.recording import Recording, Tracer
from functrace.transforms import (
    grad_program,
    is_differentiable,
    jvp_program,
    linearize_program,
    transpose_program,
)
from functrace.tree import flatten, map_leaves, unflatten
from functrace.typing import A, Aux, P, PyTree, R, Ts


@overload
def value_and_grad(f: np.ufunc) -> Callable[..., tuple[Any, Any]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[A, P], R], argnums: Literal[0] = 0, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[Concatenate[A, P], tuple[R, A]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[A, P], tuple[R, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Callable[Concatenate[A, P], tuple[tuple[R, Aux], A]]: ...
@overload
def value_and_grad(
    f: Callable[P, R], argnums: int, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[P, tuple[R, Any]]: ...
@overload
def value_and_grad(
    f: Callable[P, R], argnums: Sequence[int], has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[P, tuple[R, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[P, tuple[R, Aux]], argnums: int, has_aux: Literal[True], holomorphic: bool = False
) -> Callable[P, tuple[tuple[R, Aux], Any]]: ...
@overload
def value_and_grad(
    f: Callable[P, tuple[R, Aux]], argnums: Sequence[int], has_aux: Literal[True], holomorphic: bool = False
) -> Callable[P, tuple[tuple[R, Aux], tuple[Any, ...]]]: ...
def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes ``f`` and its gradient.

    Args:
        f: a function of arrays (pytrees of them) that returns one real number.
        argnums: which positional arguments to differentiate; a sequence gives a tuple of gradients.
        has_aux: ``f`` returns ``(number, aux)``; ``aux`` is passed through.
        holomorphic: ``f`` is a holomorphic function of complex arguments; otherwise the output must be real.

    Returns:
        ``(value, gradient)``, or ``((value, aux), gradient)``. A gradient has the structure, shapes and dtypes of its
        argument. For complex arguments the derivative is not conjugated: at z, |z|^2 has the gradient 2 conj(z).

    Raises:
        ShapeError: if ``f`` does not return a scalar.
        DtypeError: if an argument is an integer, or ``f`` returns no real number.

    Example:
        >>> import numpy as np
        >>> value_and_grad(lambda x: np.sum(x**2))(np.arange(3.0))
        (np.float64(5.0), array([0., 2., 4.]))

    Cost:
        2 to 4 times ``f``, whatever the size of the arguments; the intermediate values are kept.
    """
    return _differentiate(f, argnums, has_aux, holomorphic, with_value=True)


@overload
def grad(f: np.ufunc) -> Callable[..., Any]: ...
@overload
def grad(
    f: Callable[Concatenate[A, P], Any], argnums: Literal[0] = 0, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[Concatenate[A, P], A]: ...
@overload
def grad(
    f: Callable[Concatenate[A, P], tuple[Any, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
) -> Callable[Concatenate[A, P], tuple[A, Aux]]: ...
@overload
def grad(
    f: Callable[P, Any], argnums: int, has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[P, Any]: ...
@overload
def grad(
    f: Callable[P, Any], argnums: Sequence[int], has_aux: Literal[False] = False, holomorphic: bool = False
) -> Callable[P, tuple[Any, ...]]: ...
@overload
def grad(
    f: Callable[P, tuple[Any, Aux]], argnums: int, has_aux: Literal[True], holomorphic: bool = False
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def grad(
    f: Callable[P, tuple[Any, Aux]], argnums: Sequence[int], has_aux: Literal[True], holomorphic: bool = False
) -> Callable[P, tuple[tuple[Any, ...], Aux]]: ...
def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return a function that computes the gradient of ``f``; with ``has_aux``, ``(gradient, aux)``.

    What only the value of ``f`` needs is not computed. Arguments, errors and cost are those of `value_and_grad`.

    Example:
        >>> import numpy as np
        >>> grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
        array([1., 1.])
    """
    return _differentiate(f, argnums, has_aux, holomorphic, with_value=False)


def _differentiate(
    f: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool, holomorphic: bool, with_value: bool
) -> Callable[..., Any]:
    """Make `value_and_grad`, or `grad`: the path that un-jitted gradients take at every call."""
    transform = "value_and_grad" if with_value else "grad"
    check_argnums(argnums, transform)
    name = function_name(f)
    owner = f"grad of {name}"
    what = f"an argument of {name}"
    first_only = type(argnums) is int and argnums == 0
    start = 1 if with_value else 0

    @transformed(transform, f)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        chosen = (0,) if first_only and args else normalize_argnums(argnums, len(args), owner)
        leaf = args[chosen[0]] if len(chosen) == 1 else None
        if type(leaf) in _LEAVES:
            leaves, treedef = [leaf], None
        else:
            leaves, treedef = flatten(tuple([args[k] for k in chosen]))
        values = [as_value(leaf, what) for leaf in leaves]
        for value in values:
            _check_input(value, owner, holomorphic)
        with Recording(owner) as recording:
            tracers = [add_input(recording, value, leaf) for value, leaf in zip(values, leaves, strict=True)]
            traced, kwargs = own_arrays(args, kwargs) if len(args) > 1 or kwargs else (list(args), kwargs)
            if treedef is None:
                traced[chosen[0]] = tracers[0]
            else:
                for k, tree in zip(chosen, unflatten(treedef, tracers), strict=True):
                    traced[k] = tree
            out = call(recording, f, traced, kwargs)
            own: list[tuple[int, int]] = []
            if has_aux:
                out, aux = split_aux(out, has_aux, owner)
                aux_leaves, aux_tree = flatten(aux)
                own = own_tracers(recording, aux_leaves)
            outputs = (_scalar_output(recording, out, owner, holomorphic), *[variable for _, variable in own])
            transform, build = _grad_transform(len(values), with_value)
            runner, arguments = run_recorded(recording, outputs, transform, build)
            results = runner(arguments, recording.positions or ())
        count = start + len(own)
        gradients = results[count:]
        if treedef is None:
            gradient = gradients[0] if first_only or is_position(argnums) else (gradients[0],)
        else:
            gradient = unflatten(treedef, gradients)
            gradient = gradient[0] if is_position(argnums) else gradient
        if not has_aux:
            return (results[0], gradient) if with_value else gradient
        for (k, _), result in zip(own, results[start:count], strict=True):
            aux_leaves[k] = result
        aux = unflatten(aux_tree, aux_leaves)
        return ((results[0], aux), gradient) if with_value else (gradient, aux)

    return differentiated


_LEAVES = frozenset({np.ndarray, float, TracedArray})
"""Types of arguments that are a leaf at sight, without a look by optree."""


@functools.lru_cache(maxsize=64)
def _grad_transform(count: int, with_value: bool) -> tuple[Any, Callable[[Program], Runner]]:
    """The cache key and the builder of the gradient by ``count`` inputs."""

    def build(program: Program) -> Runner:
        flags = [True] * count + [False] * (len(program.input_ids) - count)
        return Runner(grad_program(program, flags, with_value=with_value))

    return ("grad", count, with_value), build


def _check_input(value: Any, owner: str, holomorphic: bool) -> None:
    kind = value.dtype.kind
    if kind not in "fc":
        aval = aval_of(value)
        raise DtypeError(
            f"{owner}: an argument is {aval}, and integers and bools have no derivative",
            fix="pass floats (x.astype(float)), or leave the argument out of argnums",
        )
    if holomorphic and kind != "c":
        raise DtypeError(f"{owner}: holomorphic=True needs complex arguments, got {aval_of(value)}", fix="pass complex")


def _scalar_output(recording: Recording, out: Any, owner: str, holomorphic: bool) -> int:
    if type(out) is TracedArray and out._recording is recording and out.aval.shape == () and out.aval.dtype.kind == "f":
        if holomorphic:
            raise real_output(owner, out.aval)
        return out._id
    if not isinstance(out, NUMERIC):
        raise DtypeError(
            f"{owner}: the function returned {type(out).__name__}, not a number",
            fix="return one number (np.sum(...)); has_aux=True carries other results",
        )
    shape = shape_of(out)
    if shape != ():
        raise ShapeError(
            f"{owner}: the function returned {aval_of(out)}, and only a scalar has a gradient",
            made=recording.source(out._id) if isinstance(out, Tracer) and out._recording is recording else None,
            fix="reduce it (np.sum, np.mean), or use functrace.vjp, functrace.jacrev or functrace.elementwise_grad",
        )
    kind = out.dtype.kind if isinstance(out, Tracer) else np.asarray(out).dtype.kind
    if kind == "c" and not holomorphic:
        raise DtypeError(
            f"{owner}: the function returned a complex number", fix="return a real one, or pass holomorphic=True"
        )
    if kind != "c" and holomorphic:
        raise real_output(owner, aval_of(out))
    if kind not in "fc" and isinstance(out, Tracer):
        raise DtypeError(f"{owner}: the function returned {aval_of(out)}, which carries no derivative", fix="return a float")
    return output_variable(recording, out, owner)


def real_output(owner: str, aval: ShapeDtype) -> DtypeError:
    """The error for a real result of what is said to be holomorphic."""
    return DtypeError(
        f"{owner}: holomorphic=True needs complex results, and the function returned {aval}",
        fix="leave holomorphic out: a real function of complex arguments is not holomorphic",
    )


# -- vjp, jvp, linearize ---------------------------------------------------------------------------------


class Recorded:
    """A function recorded on differentiable arguments, with its outputs."""

    def __init__(self, f: Callable[..., Any], primals: Sequence[Any], has_aux: bool, owner: str, kwargs: Any) -> None:
        check_function(f, owner.partition(" ")[0], "{0}(f, x), {0} of f at x")
        leaves, self.in_tree = flatten(tuple(primals))
        self.values = [as_value(leaf, f"an argument of {function_name(f)}") for leaf in leaves]
        self.in_avals = [aval_of(v) for v in self.values]
        self.active = tuple(is_differentiable(aval) for aval in self.in_avals)
        self.recording = Recording(owner)
        try:
            tracers = [add_input(self.recording, value, leaf) for value, leaf in zip(self.values, leaves, strict=True)]
            result = call(self.recording, f, unflatten(self.in_tree, tracers), own_arrays((), kwargs)[1])
            out, aux = split_aux(result, has_aux, owner)
            out_leaves, self.out_tree = flatten(out)
            self.outputs = [output_variable(self.recording, leaf, owner) for leaf in out_leaves]
            self.out_avals = [self.recording.avals[i] for i in self.outputs]
            self.aux_leaves, self.aux_tree = flatten(aux)
            self.own = own_tracers(self.recording, self.aux_leaves)
        except BaseException as error:
            self.recording.__exit__(type(error), error, error.__traceback__)
            raise

    @property
    def variables(self) -> list[int]:
        """Those of the outputs, then those of aux."""
        return [*self.outputs, *(variable for _, variable in self.own)]

    def flags(self, program: Program) -> list[bool]:
        """Say which inputs of a program of the recording carry derivatives."""
        return [*self.active, *[False] * (len(program.input_ids) - len(self.active))]

    def results(self, flat: Sequence[Any]) -> tuple[Any, Any]:
        """Split flat results of ``variables`` into the output and the auxiliary data."""
        count = len(self.outputs)
        return unflatten(self.out_tree, flat[:count]), self.aux(flat[count:])

    def aux(self, own: Sequence[Any]) -> Any:
        """Return the auxiliary data, with the values of the leaves that were traced here."""
        leaves = list(self.aux_leaves)
        for (k, _), value in zip(self.own, own, strict=True):
            leaves[k] = value
        return unflatten(self.aux_tree, leaves)


class _Linear:
    """A derivative at a point: a linear program with its residuals. It can be copied and pickled."""

    __slots__ = ("active", "in_avals", "in_tree", "lines", "out_avals", "out_tree", "owner", "residuals", "runner")

    def __init__(
        self, owner: str, runner: Runner, residuals: list[Any], lines: Sequence[Position], recorded: Recorded
    ) -> None:
        self.owner = owner
        self.runner = runner
        self.residuals = residuals
        self.lines = lines
        self.active = recorded.active
        self.in_tree, self.in_avals = recorded.in_tree, recorded.in_avals
        self.out_tree, self.out_avals = recorded.out_tree, recorded.out_avals

    def __getstate__(self) -> Any:
        return None, {name: placed(self.lines) if name == "lines" else getattr(self, name) for name in _Linear.__slots__}

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.in_avals)), ", ".join(map(repr, self.out_avals))
        of, to = shown if isinstance(self, Pushforward) else shown[::-1]
        return f"<{type(self).__name__.lower()} of {self.owner}: ({of}) -> ({to})>"


@final
class Pullback(_Linear):
    """What `vjp` returns: from a cotangent of the result to cotangents of the arguments."""

    __slots__ = ()

    def __call__(self, cotangent: PyTree) -> Any:
        """Return one cotangent per argument of the function that was recorded."""
        cotangents = check_like(cotangent, self.out_tree, self.out_avals, COTANGENTS, f"the results of {self.owner}")
        found = iter(self.runner([*self.residuals, *cotangents], self.lines))
        return unflatten(self.in_tree, [next(found) if flag else None for flag in self.active])


@final
class Pushforward(_Linear):
    """What `linearize` returns: from tangents of the arguments to the tangent of the result."""

    __slots__ = ()

    def __call__(self, *tangents: Any) -> Any:
        """Return the tangent of the result."""
        directions = check_like(tangents, self.in_tree, self.in_avals, TANGENTS, f"the primals of {self.owner}")
        chosen = [d for d, flag in zip(directions, self.active, strict=True) if flag]
        return unflatten(self.out_tree, self.runner([*self.residuals, *chosen], self.lines))


@overload
def vjp(
    f: Callable[[*Ts], tuple[R, Aux]], *primals: *Ts, has_aux: Literal[True]
) -> tuple[R, Callable[[Any], tuple[*Ts]], Aux]: ...
@overload
def vjp(f: Callable[[*Ts], R], *primals: *Ts, has_aux: Literal[False] = False) -> tuple[R, Callable[[Any], tuple[*Ts]]]: ...
@overload
def vjp(
    f: Callable[..., tuple[R, Aux]], *primals: Any, has_aux: Literal[True], **kwargs: Any
) -> tuple[R, Callable[[Any], tuple[Any, ...]], Aux]: ...
@overload
def vjp(
    f: Callable[..., R], *primals: Any, has_aux: Literal[False] = False, **kwargs: Any
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False, **kwargs: Any) -> Any:
    """Compute ``f(*primals)`` and its pullback.

    Args:
        f: a function of arrays (pytrees of them).
        primals: where to evaluate.
        has_aux: ``f`` returns ``(result, aux)``.
        kwargs: passed to ``f`` as they are.

    Returns:
        ``(result, pullback)``, or ``(result, pullback, aux)``. ``pullback(cotangent)``, with a cotangent like the result,
        returns a tuple with one cotangent per argument; ``None`` for integer arguments, which have no derivative. Within
        the cotangent ``None`` stands for zeros; what it holds for integer results is of no consequence. It can be called
        many times, and never runs ``f`` again.

    Raises:
        TreeError: from the pullback, if the cotangent has another structure than the result.
        ShapeError: from the pullback, if a leaf has another shape.
        DtypeError: from the pullback, if a leaf is complex and the result is not.

    Example:
        >>> import numpy as np
        >>> y, pullback = vjp(np.sin, np.zeros(2))
        >>> pullback(np.ones(2))
        (array([1., 1.]),)

    Cost:
        ``f``, and about twice ``f`` per pullback; the residuals are kept as long as the pullback.
    """
    owner = f"vjp of {function_name(f)}"
    recorded = Recorded(f, primals, has_aux, owner, kwargs)
    with recorded.recording:

        def build(program: Program) -> tuple[Runner, Runner]:
            forward, linear = linearize_program(program, recorded.flags(program), len(recorded.outputs))
            count = sum(recorded.active)
            residuals = len(linear.input_ids) - count
            backward = transpose_program(linear, [False] * residuals + [True] * count)
            return Runner(forward), Runner(backward)

        key = ("vjp", recorded.active, len(recorded.outputs))
        (forward, backward), arguments = run_recorded(recorded.recording, recorded.variables, key, build)
        lines = recorded.recording.positions or ()
        flat = forward(arguments, lines)
    count = len(recorded.variables)
    residuals = list(flat[count:])
    out, aux = recorded.results(flat[:count])
    pullback = Pullback(owner, backward, residuals, lines, recorded)
    return (out, pullback, aux) if has_aux else (out, pullback)


@overload
def jvp(
    f: Callable[..., tuple[R, Aux]], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[True], **kwargs: Any
) -> tuple[R, R, Aux]: ...
@overload
def jvp(
    f: Callable[..., R], primals: Sequence[Any], tangents: Sequence[Any], has_aux: Literal[False] = False, **kwargs: Any
) -> tuple[R, R]: ...
def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False, **kwargs: Any) -> Any:
    """Compute ``f(*primals)`` and its derivative in the direction of ``tangents``.

    Args:
        f: a function of arrays (pytrees of them).
        primals: tuple of arguments.
        tangents: tuple of the same structure; ``None`` in it stands for "no change" of an argument, or of what stands there
            in one. Integers and bools do not change: their tangents are ``None``, or zeros.
        has_aux: ``f`` returns ``(result, aux)``.
        kwargs: passed to ``f`` as they are.

    Returns:
        ``(result, tangent)`` or ``(result, tangent, aux)``.

    Raises:
        TreeError: if primals and tangents differ in structure.
        ShapeError: if a tangent differs from its primal in shape.
        DtypeError: if a tangent is complex and its primal is not, or if a tangent of an integer is not zero.

    Example:
        >>> import numpy as np
        >>> jvp(np.sin, (np.float64(0.0),), (np.float64(2.0),))
        (np.float64(0.0), np.float64(2.0))

    Cost:
        2 to 3 times ``f``.
    """
    owner = f"jvp of {function_name(f)}"
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise ArgumentError(
                f"jvp: {what} is a {type(given).__name__}, not a tuple with one entry per argument",
                fix="jvp(f, (x,), (x_dot,))",
            )
    tangents = map_leaves(held_array, tuple(tangents))
    recorded = Recorded(f, tuple(primals), has_aux, owner, kwargs)
    with recorded.recording:
        directions = check_like(tangents, recorded.in_tree, recorded.in_avals, TANGENTS, f"the primals of {owner}")

        def build(program: Program) -> Runner:
            return Runner(jvp_program(program, recorded.flags(program), len(recorded.outputs)))

        key = ("jvp", recorded.active, len(recorded.outputs))
        runner, arguments = run_recorded(recorded.recording, recorded.variables, key, build)
        chosen = [d for d, flag in zip(directions, recorded.active, strict=True) if flag]
        flat = runner([*arguments, *chosen], recorded.recording.positions or ())
    count = len(recorded.variables)
    out, aux = recorded.results(flat[:count])
    tangent = unflatten(recorded.out_tree, flat[count:])
    return (out, tangent, aux) if has_aux else (out, tangent)


@overload
def linearize(
    f: Callable[[*Ts], tuple[R, Aux]], *primals: *Ts, has_aux: Literal[True]
) -> tuple[R, Callable[[*Ts], R], Aux]: ...
@overload
def linearize(f: Callable[[*Ts], R], *primals: *Ts, has_aux: Literal[False] = False) -> tuple[R, Callable[[*Ts], R]]: ...
@overload
def linearize(
    f: Callable[..., tuple[R, Aux]], *primals: Any, has_aux: Literal[True], **kwargs: Any
) -> tuple[R, Callable[..., R], Aux]: ...
@overload
def linearize(
    f: Callable[..., R], *primals: Any, has_aux: Literal[False] = False, **kwargs: Any
) -> tuple[R, Callable[..., R]]: ...
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False, **kwargs: Any) -> Any:
    """Compute ``f(*primals)`` and its derivative there as a linear function of tangents.

    Args:
        f: a function of arrays (pytrees of them).
        primals: where to evaluate.
        has_aux: ``f`` returns ``(result, aux)``.
        kwargs: passed to ``f`` as they are.

    Returns:
        ``(result, f_jvp)`` or ``(result, f_jvp, aux)``; ``f_jvp(*tangents)`` takes what `jvp` takes as tangents, returns
        the tangent of the result, never runs ``f`` again, and costs about one run of ``f``.

    Raises:
        TreeError: from ``f_jvp``, if tangents and primals differ in structure.
        ShapeError, DtypeError: from ``f_jvp``, as by `jvp`.

    Example:
        >>> import numpy as np
        >>> y, f_jvp = linearize(np.sin, np.float64(0.0))
        >>> f_jvp(np.float64(3.0))
        np.float64(3.0)
    """
    owner = f"linearize of {function_name(f)}"
    recorded = Recorded(f, primals, has_aux, owner, kwargs)
    with recorded.recording:

        def build(program: Program) -> tuple[Runner, Runner]:
            forward, linear = linearize_program(program, recorded.flags(program), len(recorded.outputs))
            return Runner(forward), Runner(linear)

        key = ("linearize", recorded.active, len(recorded.outputs))
        (forward, linear), arguments = run_recorded(recorded.recording, recorded.variables, key, build)
        lines = recorded.recording.positions or ()
        flat = forward(arguments, lines)
    count = len(recorded.variables)
    f_jvp = Pushforward(owner, linear, list(flat[count:]), lines, recorded)
    out, aux = recorded.results(flat[:count])
    return (out, f_jvp, aux) if has_aux else (out, f_jvp)
