"""Derivatives of functions: ``grad``, ``value_and_grad``, ``vjp``, ``jvp``, ``linearize``.

Each calls the user's function once, on traced values, and runs a derivative program that is usually
in the cache.

Layer: 8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, TypeAlias, final, overload

import numpy as np

from functrace.api.capture.arguments import (
    ARRAYS,
    NUMERIC,
    as_value,
    as_values,
    check_argnums,
    check_function,
    check_leaf,
    function_name,
    is_position,
    normalize_argnums,
)
from functrace.api.capture.record import Called, RecordedCall, add_input, own_arrays
from functrace.api.capture.transformed import as_transformed
from functrace.api.differentiation.tangents import COTANGENTS, TANGENTS, check_like
from functrace.api.residuals.context import under_policy
from functrace.api.staging.disabling import ENTERED
from functrace.errors import ArgumentError, DtypeError, ShapeError, entry
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype, aval_of, shape_of
from functrace.ir.program import Program, placed
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.numpy.arrays.traced_array import TracedArray
from functrace.passes.derivative_links import without_unread_residuals
from functrace.source import hide_own_frames
from functrace.tracing.capture import held_array
from functrace.tracing.recording import Recording
from functrace.tracing.tracer import Tracer
from functrace.transforms import (
    is_differentiable,
    jvp_program,
    linearize_program,
    pullback_programs,
)
from functrace.tree import flatten, map_leaves, paths, unflatten
from functrace.typing import A, Aux, P, PyTree, R, Ts

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec


@overload
def value_and_grad(f: np.ufunc) -> Callable[..., tuple[Any, Any]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[A, P], R],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Concatenate[A, P], tuple[R, A]]: ...
@overload
def value_and_grad(
    f: Callable[Concatenate[A, P], tuple[R, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Concatenate[A, P], tuple[tuple[R, Aux], A]]: ...
@overload
def value_and_grad(
    f: Callable[P, R],
    argnums: int,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[R, Any]]: ...
@overload
def value_and_grad(
    f: Callable[P, R],
    argnums: Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[R, tuple[Any, ...]]]: ...
@overload
def value_and_grad(
    f: Callable[P, tuple[R, Aux]],
    argnums: int,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[tuple[R, Aux], Any]]: ...
@overload
def value_and_grad(
    f: Callable[P, tuple[R, Aux]],
    argnums: Sequence[int],
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[tuple[R, Aux], tuple[Any, ...]]]: ...
@entry
def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Make a function that computes ``f`` and its gradient.

    Args:
        f: a function of arrays (pytrees of them) that returns one real number.
        argnums: position of the argument to differentiate. A sequence of positions gives a tuple of
            gradients.
        has_aux: True if ``f`` returns ``(number, aux)``; ``aux`` is returned unchanged, without a
            derivative.
        holomorphic: True if ``f`` is a holomorphic function of complex arguments. Otherwise its
            result must be real.
        allow_int: True to accept integers and bools within the arguments. Their gradient is
            ``None``.

    Returns:
        a function of ``f``'s arguments that returns ``(value, gradient)``, or ``((value, aux),
        gradient)`` with ``has_aux``. A gradient has the structure, shapes and dtypes of its
        argument. The derivative by a complex argument is not conjugated: the gradient of |z|^2 at z
        is 2 conj(z).

    Raises:
        ArgumentError: if ``f`` is not a function, or ``argnums`` names an argument that the call
            does not have.
        ShapeError: if ``f`` does not return a scalar.
        DtypeError: if an argument is not of floating-point dtype (the message names the leaf), or
            ``f`` returns no real number.

    Example:
        >>> import numpy as np
        >>> value_and_grad(lambda x: np.sum(x**2))(np.arange(3.0))
        (np.float64(5.0), array([0., 2., 4.]))
        >>> loss = lambda w, x: (np.sum(w * x), {"mean": np.mean(x)})
        >>> (value, aux), gradient = value_and_grad(loss, has_aux=True)(np.ones(2), np.array([1.0, 3.0]))
        >>> value, aux["mean"], gradient
        (np.float64(4.0), np.float64(2.0), array([1., 3.]))

    Cost:
        2 to 4 times the time of ``f``, whatever the size of the arguments; residuals are kept until
        the reverse pass.
    """
    return _differentiate(f, argnums, has_aux, holomorphic, allow_int, with_value=True)


@overload
def grad(f: np.ufunc) -> Callable[..., Any]: ...
@overload
def grad(
    f: Callable[Concatenate[A, P], Any],
    argnums: Literal[0] = 0,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Concatenate[A, P], A]: ...
@overload
def grad(
    f: Callable[Concatenate[A, P], tuple[Any, Aux]],
    argnums: Literal[0] = 0,
    *,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[Concatenate[A, P], tuple[A, Aux]]: ...
@overload
def grad(
    f: Callable[P, Any],
    argnums: int,
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]: ...
@overload
def grad(
    f: Callable[P, Any],
    argnums: Sequence[int],
    has_aux: Literal[False] = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[Any, ...]]: ...
@overload
def grad(
    f: Callable[P, tuple[Any, Aux]],
    argnums: int,
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[Any, Aux]]: ...
@overload
def grad(
    f: Callable[P, tuple[Any, Aux]],
    argnums: Sequence[int],
    has_aux: Literal[True],
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, tuple[tuple[Any, ...], Aux]]: ...
@entry
def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Make a function that computes the gradient of ``f``.

    Work that only the value of ``f`` needs is skipped.

    Args:
        f: a function of arrays (pytrees of them) that returns one real number.
        argnums: position of the argument to differentiate. A sequence of positions gives a tuple of
            gradients.
        has_aux: True if ``f`` returns ``(number, aux)``; ``aux`` is returned unchanged, without a
            derivative.
        holomorphic: True if ``f`` is a holomorphic function of complex arguments. Otherwise its
            result must be real.
        allow_int: True to accept integers and bools within the arguments. Their gradient is
            ``None``.

    Returns:
        a function of ``f``'s arguments that returns the gradient, or ``(gradient, aux)`` with
        ``has_aux``. A gradient has the structure, shapes and dtypes of its argument. The derivative
        by a complex argument is not conjugated: the gradient of |z|^2 at z is 2 conj(z).

    Raises:
        ArgumentError: if ``f`` is not a function, or ``argnums`` names an argument that the call
            does not have.
        ShapeError: if ``f`` does not return a scalar.
        DtypeError: if an argument is not of floating-point dtype (the message names the leaf), or
            ``f`` returns no real number.

    Example:
        >>> import numpy as np
        >>> grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
        array([1., 1.])
        >>> grad(lambda p: p["w"] ** 2 * p["b"])({"w": 3.0, "b": 2.0})
        {'w': np.float64(12.0), 'b': np.float64(9.0)}

    Cost:
        2 to 4 times the time of ``f``, whatever the size of the arguments; residuals are kept until
        the reverse pass.
    """
    return _differentiate(f, argnums, has_aux, holomorphic, allow_int, with_value=False)


def _differentiate(
    f: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    with_value: bool,
) -> Callable[..., Any]:
    """Make `value_and_grad`, or `grad`: the hot path of un-jitted gradients."""
    transform = "value_and_grad" if with_value else "grad"
    if argnums.__class__ is not int:
        positions = check_argnums(argnums, transform)
        argnums = argnums if is_position(argnums) else positions
    if f.__class__ is not FunctionType:
        check_function(f, transform)
    of = f, f"grad of {function_name(f)}", argnums, has_aux, holomorphic, allow_int, with_value
    return as_transformed(transform, f, _differentiated, of)


def _differentiated(of: tuple[Any, ...], /, *args: object, **kwargs: object) -> Any:
    """Compute a gradient; ``of`` has the function and options. (A closure for each would cost 1 us
    per gradient.)"""
    try:
        f, owner, argnums, has_aux, holomorphic, allow_int, with_value = of
        first_only = type(argnums) is int and argnums == 0
        chosen = (0,) if first_only and args else normalize_argnums(argnums, len(args), owner)
        leaf = args[chosen[0]] if len(chosen) == 1 else None
        if type(leaf) in LEAVES:
            leaves, treedef = [leaf], None
        else:
            leaves, treedef = flatten(tuple([args[k] for k in chosen]))
        try:
            values = [_floats(leaf, owner, holomorphic, allow_int) for leaf in leaves]
        except DtypeError:
            _refuse_leaf(args, chosen, owner, holomorphic, allow_int)
            raise
        active = tuple([value.dtype.kind in "fcV" for value in values]) if allow_int else None
        inputs = functools.partial(_inputs, args, kwargs, chosen, leaves, values, treedef)
        with ArrayRecording(owner, is_run=True) as recording:
            call = RecordedCall(
                recording,
                f,
                inputs,
                has_aux=has_aux,
                wanted=_holomorphic_scalar if holomorphic else _real_scalar,
            )
            transform = grad_transform(active or len(values), with_value)
            if ENTERED:
                transform = under_policy(*transform, active or len(values))
            runner, arguments = call.transformed(*transform)
            results = runner(arguments, recording.positions or ())
        start = 1 if with_value else 0
        count = start + call.auxiliary if has_aux else start
        gradients = [x[()] if type(x) is np.ndarray and not x.ndim else x for x in results[count:]]
        if active is not None:
            found = iter(gradients)
            gradients = [next(found) if flag else None for flag in active]
        if treedef is None:
            gradient = gradients[0] if first_only or is_position(argnums) else (gradients[0],)
        else:
            gradient = unflatten(treedef, gradients)
            gradient = gradient[0] if is_position(argnums) else gradient
        if not has_aux:
            return (results[0], gradient) if with_value else gradient
        aux = call.aux(results[start:count])
        return ((results[0], aux), gradient) if with_value else (gradient, aux)
    except BaseException as error:
        hide_own_frames(error)
        raise


def _inputs(
    args: Sequence[Any],
    kwargs: dict[str, Any],
    chosen: Sequence[int],
    leaves: Sequence[Any],
    values: Sequence[Any],
    treedef: PyTreeSpec | None,
    recording: Recording,
) -> Called:
    """Make the differentiated arguments inputs of a recording; return the function's arguments."""
    if treedef is None and len(args) == 1 and not kwargs:
        return (add_input(recording, values[0], leaves[0]),), kwargs
    traced, named = own_arrays(args, kwargs) if len(args) > 1 or kwargs else (list(args), kwargs)
    if treedef is None:
        traced[chosen[0]] = add_input(recording, values[0], leaves[0])
    else:
        tracers = [
            add_input(recording, value, leaf) for value, leaf in zip(values, leaves, strict=True)
        ]
        for k, tree in zip(chosen, unflatten(treedef, tracers), strict=True):
            traced[k] = tree
    return traced, named


LEAVES = frozenset({np.ndarray, float, TracedArray})
"""Types of arguments that are leaves, without a call of optree."""


@functools.lru_cache(maxsize=64)
def grad_transform(
    active: int | tuple[bool, ...], with_value: bool
) -> tuple[Any, Callable[[Program], Runner]]:
    """Return the cache key and the builder of a gradient by the first ``active`` inputs, or the
    flagged ones."""
    chosen = [True] * active if isinstance(active, int) else list(active)

    def build(program: Program) -> Runner:
        flags = [*chosen, *[False] * (len(program.input_ids) - len(chosen))]
        return Runner.of_gradient(program, flags, with_value)

    return ("grad", active, with_value), build


def _floats(leaf: Any, owner: str, holomorphic: bool, allow_int: bool) -> Any:
    """Return an argument's leaf as a value that can be differentiated."""
    if not holomorphic:  # the common case
        one: object = leaf
        kind = type(one)
        if kind is float:
            return np.float64(leaf)
        if (kind is np.ndarray and leaf.ndim and leaf.dtype.kind == "f") or (
            kind is TracedArray and leaf.aval.dtype.kind == "f"
        ):
            return leaf
    value = as_value(leaf, owner)
    kind = value.dtype.kind
    if (kind not in "fcV" or (holomorphic and kind != "c")) and not (allow_int and kind in "biu"):
        check_differentiable(value, owner, holomorphic)
    return value


def _refuse_leaf(
    args: Sequence[Any], chosen: Sequence[int], owner: str, holomorphic: bool, allow_int: bool
) -> None:
    """Raise for the first leaf that cannot be differentiated; the message has its path."""
    for k in chosen:
        leaves, treedef = flatten(args[k])
        for leaf, path in zip(leaves, paths(treedef), strict=True):
            name = f"args[{k}]{path}"
            check_leaf(leaf, owner, name)
            if not (allow_int and aval_of(as_value(leaf, owner)).dtype.kind in "biu"):
                check_differentiable(leaf, owner, holomorphic, name)


def check_differentiable(
    leaf: Any, owner: str, holomorphic: bool, name: str = "an argument"
) -> None:
    """Check that a number or an array has a derivative, a complex one if ``holomorphic``.

    Raises:
        DtypeError: if it has none.
    """
    aval = aval_of(as_value(leaf, owner))
    if not is_differentiable(aval):
        is_array = isinstance(leaf, ARRAYS)
        shown = f"{aval}" if is_array else f"the {type(leaf).__name__} {leaf!r}"
        floats = (
            "floats (x.astype(float))"
            if is_array or isinstance(leaf, bool)
            else f"a float ({leaf}.0)"
        )
        raise DtypeError(
            f"{owner}: {name} is {shown}, and integers and bools have no derivative",
            fix=f"pass {floats}, or remove the argument from argnums. If only a part of a pytree "
            "has derivatives: separate "
            "it with functrace.tree.partition, declare the other fields of a dataclass static "
            "(functrace.tree.static), or "
            "pass allow_int=True to grad, which returns None for integers",
        )
    if holomorphic and aval.dtype.kind != "c":
        raise DtypeError(
            f"{owner}: holomorphic=True needs complex arguments, and {name} is {aval}",
            fix="pass complex",
        )


def _real_scalar(recording: Recording, out: object) -> list[Any]:
    """Check that a result is one differentiable real number."""
    if (
        type(out) is TracedArray
        and out.ft_recording is recording
        and out.aval.shape == ()
        and out.aval.dtype.kind == "f"
    ):
        return [out]
    return _scalar(recording, out, holomorphic=False)


def _holomorphic_scalar(recording: Recording, out: object) -> list[Any]:
    return _scalar(recording, out, holomorphic=True)


def _scalar(recording: Recording, out: PyTree, *, holomorphic: bool) -> list[Any]:
    """Check that a result is one differentiable number."""
    owner = recording.owner
    given: object = out
    if not isinstance(given, NUMERIC):
        raise DtypeError(
            f"{owner}: the function returned {type(out).__name__}, not a number",
            fix="return one number (np.sum(...)); has_aux=True carries other results",
        )
    shape = shape_of(out)
    if shape != ():
        raise ShapeError(
            f"{owner}: the function returned {aval_of(out)}, and only a scalar has a gradient",
            made=recording.source(out.ft_variable)
            if isinstance(out, Tracer) and out.ft_recording is recording
            else None,
            fix="reduce it (np.sum, np.mean), or use functrace.vjp, functrace.jacrev or "
            "functrace.elementwise_grad",
        )
    kind = out.dtype.kind if isinstance(out, Tracer) else np.asarray(out).dtype.kind
    if kind == "c" and not holomorphic:
        raise DtypeError(
            f"{owner}: the function returned a complex number",
            fix="return a real one, or pass holomorphic=True",
        )
    if kind != "c" and holomorphic:
        raise real_output(owner, aval_of(out))
    if kind not in "fcV" and isinstance(out, Tracer):
        raise DtypeError(
            f"{owner}: the function returned {aval_of(out)}, which carries no derivative",
            fix="return a float",
        )
    return [out]


def real_output(owner: str, aval: ShapeDtype) -> DtypeError:
    """Return the error for a real result with ``holomorphic=True``."""
    return DtypeError(
        f"{owner}: holomorphic=True needs complex results, and the function returned {aval}",
        fix="omit holomorphic: a real function of complex arguments is not holomorphic",
    )


# -- vjp, jvp, linearize ---------------------------------------------------------------------------


@final
class Primals:
    """Arguments of a function, all of which may be differentiated, with the structure and avals of
    the derivative.
    """

    __slots__ = ("active", "avals", "kwargs", "leaves", "tree", "values")

    def __init__(
        self, f: Callable[..., Any], primals: Sequence[Any], kwargs: dict[str, Any], owner: str
    ) -> None:
        check_function(f, owner.partition(" ")[0], "{0}(f, x), {0} of f at x")
        self.kwargs = kwargs
        self.leaves, self.tree = flatten(tuple(primals))
        self.values = as_values(
            self.leaves, owner, lambda: [f"args{path}" for path in paths(self.tree)]
        )
        self.avals = [aval_of(v) for v in self.values]
        self.active = tuple([is_differentiable(aval) for aval in self.avals])

    def inputs(self, recording: Recording) -> Called:
        """Make the arguments inputs of a recording."""
        tracers = [
            add_input(recording, value, leaf)
            for value, leaf in zip(self.values, self.leaves, strict=True)
        ]
        return unflatten(self.tree, tracers), own_arrays((), self.kwargs)[1]

    def flags(self, program: Program) -> list[bool]:
        """Return the activity of the inputs of the recording's program."""
        return [*self.active, *[False] * (len(program.input_ids) - len(self.active))]


def _directions(
    tangents: PyTree,
    tree: PyTreeSpec,
    avals: Sequence[ShapeDtype],
    active: Sequence[bool],
    owner: str,
) -> Any:
    """Return the tangents of the differentiated arguments; see `check_like`."""
    found = check_like(tangents, tree, avals, TANGENTS, f"the primals of {owner}")
    return [tangent for tangent, flag in zip(found, active, strict=True) if flag]


class _LinearMap:
    """A derivative at a point: a linear program with its residuals. It can be copied and
    pickled."""

    __slots__ = (
        "active",
        "in_avals",
        "in_tree",
        "lines",
        "out_avals",
        "out_tree",
        "owner",
        "residuals",
        "runner",
    )

    def __init__(
        self, primals: Primals, call: RecordedCall, runner: Runner, residuals: list[Any]
    ) -> None:
        self.owner = call.recording.owner
        self.runner = runner
        self.residuals = residuals
        self.lines = call.lines
        self.active, self.in_tree, self.in_avals = primals.active, primals.tree, primals.avals
        self.out_tree, self.out_avals = call.out_tree, call.out_avals

    def __getstate__(self) -> Any:
        return None, {
            name: placed(self.lines) if name == "lines" else getattr(self, name)
            for name in _LinearMap.__slots__
        }

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.in_avals)), ", ".join(map(repr, self.out_avals))
        of, to = shown if isinstance(self, Pushforward) else shown[::-1]
        return f"<{type(self).__name__.lower()} of {self.owner}: ({of}) -> ({to})>"


@final
class Pullback(_LinearMap):
    """Linear map from a cotangent of the result to cotangents of the arguments, returned by
    `vjp`."""

    __slots__ = ()

    def __call__(self, cotangent: PyTree) -> Any:
        """Return one cotangent per argument of the differentiated function."""
        try:
            cotangents = check_like(
                cotangent, self.out_tree, self.out_avals, COTANGENTS, f"the results of {self.owner}"
            )
            results = self.runner([*self.residuals, *cotangents], self.lines)
            found = iter([x[()] if type(x) is np.ndarray and not x.ndim else x for x in results])
            return unflatten(self.in_tree, [next(found) if flag else None for flag in self.active])
        except BaseException as error:
            hide_own_frames(error)
            raise


@final
class Pushforward(_LinearMap):
    """Linear map from tangents of the arguments to the tangent of the result, returned by
    `linearize`."""

    __slots__ = ()

    def __call__(self, *tangents: object) -> Any:
        """Return the tangent of the result."""
        try:
            chosen = _directions(tangents, self.in_tree, self.in_avals, self.active, self.owner)
            return unflatten(self.out_tree, self.runner([*self.residuals, *chosen], self.lines))
        except BaseException as error:
            hide_own_frames(error)
            raise


LinearizedRunners: TypeAlias = tuple[tuple[Runner, Runner], tuple[Runner, Runner]]
"""Runners of a forward program and of its linear one: those for traced arguments, whose residuals
have derivatives, and those for plain arrays."""


def is_plain(arguments: Sequence[Any]) -> bool:
    """Return True if no argument is traced."""
    return not any(isinstance(x, Tracer) for x in arguments)


def linearized(kind: type[_LinearMap], call: RecordedCall, point: Primals, has_aux: bool) -> Any:
    """Return the result, the derivative at a point, and auxiliary data if any, for `vjp` and
    `linearize`."""
    count = len(call.outputs)

    def build(program: Program) -> LinearizedRunners:
        of = pullback_programs if kind is Pullback else linearize_program
        made = of(program, point.flags(program), count)
        run = without_unread_residuals(*made, len(program.output_ids))
        traced = Runner(made[0]), Runner(made[1])
        return traced, traced if run[0] is made[0] else (Runner(run[0]), Runner(run[1]))

    key = (kind.__name__, point.active, count)
    (traced, plain), arguments = call.transformed(
        *(under_policy(key, build, point.active) if ENTERED else (key, build))
    )
    forward, derivative = plain if is_plain(arguments) else traced
    flat = forward(arguments, call.lines)
    end = count + call.auxiliary
    out = unflatten(call.out_tree, flat[:count])
    made = kind(point, call, derivative, list(flat[end:]))
    return (out, made, call.aux(flat[count:end])) if has_aux else (out, made)


@overload
def vjp(
    f: Callable[[*Ts], tuple[R, Aux]], *primals: *Ts, has_aux: Literal[True]
) -> tuple[R, Callable[[Any], tuple[*Ts]], Aux]: ...
@overload
def vjp(
    f: Callable[[*Ts], R], *primals: *Ts, has_aux: Literal[False] = False
) -> tuple[R, Callable[[Any], tuple[*Ts]]]: ...
@overload
def vjp(
    f: Callable[..., tuple[R, Aux]], *primals: object, has_aux: Literal[True], **kwargs: object
) -> tuple[R, Callable[[Any], tuple[Any, ...]], Aux]: ...
@overload
def vjp(
    f: Callable[..., R], *primals: object, has_aux: Literal[False] = False, **kwargs: object
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
def vjp(f: Callable[..., Any], *primals: object, has_aux: bool = False, **kwargs: object) -> Any:
    """Compute ``f(*primals)`` and its pullback.

    Args:
        f: a function of arrays (pytrees of them).
        primals: the arguments of ``f``: the point where its derivative is taken.
        has_aux: True if ``f`` returns ``(result, aux)``; ``aux`` is returned unchanged, without a
            derivative.
        kwargs: keyword arguments of ``f``, which are not differentiated.

    Returns:
        ``(result, pullback)``, or ``(result, pullback, aux)`` with ``has_aux``.
        ``pullback(cotangent)`` takes a cotangent with the structure and shapes of the result, and
        returns a tuple with one cotangent per primal; integer arguments have no derivative, and get
        ``None``. A ``None`` within the cotangent means zeros; cotangents of integer results are
        ignored. The pullback may be called many times and never runs ``f`` again.

    Raises:
        ArgumentError: if ``f`` is not a function.
        TreeError: from the pullback, if the cotangent has another structure than the result.
        ShapeError: from the pullback, if a leaf has another shape.
        DtypeError: if a primal is not numeric; from the pullback, if a leaf is complex and the
            result is not.

    Example:
        >>> import numpy as np
        >>> y, pullback = vjp(np.multiply, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
        >>> pullback(np.ones(2))
        (array([3., 4.]), array([1., 2.]))

    Cost:
        ``f`` once, and about twice the time of ``f`` per pullback. Residuals live as long as the
        pullback.
    """
    try:
        owner = f"vjp of {function_name(f)}"
        point = Primals(f, primals, kwargs, owner)
        with ArrayRecording(owner, is_run=True) as recording:
            call = RecordedCall(recording, f, point.inputs, has_aux=has_aux)
            return linearized(Pullback, call, point, has_aux)
    except BaseException as error:
        hide_own_frames(error)
        raise


@overload
def jvp(
    f: Callable[..., tuple[R, Aux]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[True],
    **kwargs: object,
) -> tuple[R, R, Aux]: ...
@overload
def jvp(
    f: Callable[..., R],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[False] = False,
    **kwargs: object,
) -> tuple[R, R]: ...
def jvp(
    f: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
    **kwargs: object,
) -> Any:
    """Compute ``f(*primals)`` and its derivative in the direction of ``tangents``.

    Args:
        f: a function of arrays (pytrees of them).
        primals: tuple of arguments of ``f``.
        tangents: tuple with the structure of ``primals``. A ``None`` within it means zeros.
            Tangents of integers and bools are ``None`` or zeros.
        has_aux: True if ``f`` returns ``(result, aux)``; ``aux`` is returned unchanged, without a
            derivative.
        kwargs: keyword arguments of ``f``, which are not differentiated.

    Returns:
        ``(result, tangent)``, or ``(result, tangent, aux)`` with ``has_aux``. The tangent has the
        structure, shapes and dtypes of the result.

    Raises:
        ArgumentError: if ``f`` is not a function, or ``primals`` or ``tangents`` is not a tuple.
        TreeError: if primals and tangents differ in structure.
        ShapeError: if a tangent differs from its primal in shape.
        DtypeError: if a tangent is complex and its primal is not, or if a tangent of an integer is
            not zero.

    Example:
        >>> import numpy as np
        >>> jvp(np.sin, (np.float64(0.0),), (np.float64(2.0),))
        (np.float64(0.0), np.float64(2.0))

    Cost:
        2 to 3 times the time of ``f``; no residuals are kept.
    """
    try:
        owner = f"jvp of {function_name(f)}"
        for what, given in (("primals", primals), ("tangents", tangents)):
            if not isinstance(given, tuple | list):
                raise ArgumentError(
                    f"jvp: {what} is a {type(given).__name__}, not a tuple with one entry per "
                    "argument",
                    fix="jvp(f, (x,), (x_dot,))",
                )
        tangents = map_leaves(held_array, tuple(tangents))
        point = Primals(f, tuple(primals), kwargs, owner)
        with ArrayRecording(owner, is_run=True) as recording:
            call = RecordedCall(recording, f, point.inputs, has_aux=has_aux)
            chosen = _directions(tangents, point.tree, point.avals, point.active, owner)
            count = len(call.outputs)

            def build(program: Program) -> Runner:
                return Runner(jvp_program(program, point.flags(program), count))

            runner, arguments = call.transformed(("jvp", point.active, count), build)
            flat = runner([*arguments, *chosen], call.lines)
        end = count + call.auxiliary
        out, tangent = unflatten(call.out_tree, flat[:count]), unflatten(call.out_tree, flat[end:])
        return (out, tangent, call.aux(flat[count:end])) if has_aux else (out, tangent)
    except BaseException as error:
        hide_own_frames(error)
        raise


@overload
def linearize(
    f: Callable[[*Ts], tuple[R, Aux]], *primals: *Ts, has_aux: Literal[True]
) -> tuple[R, Callable[[*Ts], R], Aux]: ...
@overload
def linearize(
    f: Callable[[*Ts], R], *primals: *Ts, has_aux: Literal[False] = False
) -> tuple[R, Callable[[*Ts], R]]: ...
@overload
def linearize(
    f: Callable[..., tuple[R, Aux]], *primals: object, has_aux: Literal[True], **kwargs: object
) -> tuple[R, Callable[..., R], Aux]: ...
@overload
def linearize(
    f: Callable[..., R], *primals: object, has_aux: Literal[False] = False, **kwargs: object
) -> tuple[R, Callable[..., R]]: ...
def linearize(
    f: Callable[..., Any], *primals: object, has_aux: bool = False, **kwargs: object
) -> Any:
    """Compute ``f(*primals)`` and its derivative there as a linear function of tangents.

    Args:
        f: a function of arrays (pytrees of them).
        primals: the arguments of ``f``: the point where its derivative is taken.
        has_aux: True if ``f`` returns ``(result, aux)``; ``aux`` is returned unchanged, without a
            derivative.
        kwargs: keyword arguments of ``f``, which are not differentiated.

    Returns:
        ``(result, f_jvp)``, or ``(result, f_jvp, aux)`` with ``has_aux``. ``f_jvp(*tangents)``
        takes one tangent per primal (``None`` means zeros), and returns the tangent of the result.
        It may be called many times and never runs ``f`` again.

    Raises:
        ArgumentError: if ``f`` is not a function.
        TreeError: from ``f_jvp``, if tangents and primals differ in structure.
        ShapeError: from ``f_jvp``, if a tangent differs from its primal in shape.
        DtypeError: from ``f_jvp``, if a tangent is complex and its primal is not, or if a tangent
            of an integer is not zero.

    Example:
        >>> import numpy as np
        >>> y, f_jvp = linearize(np.sin, np.float64(0.0))
        >>> f_jvp(np.float64(3.0))
        np.float64(3.0)

    Cost:
        ``f`` once, and about the time of ``f`` per call of ``f_jvp``. Residuals live as long as
        ``f_jvp``.
    """
    try:
        owner = f"linearize of {function_name(f)}"
        point = Primals(f, primals, kwargs, owner)
        with ArrayRecording(owner, is_run=True) as recording:
            call = RecordedCall(recording, f, point.inputs, has_aux=has_aux)
            return linearized(Pushforward, call, point, has_aux)
    except BaseException as error:
        hide_own_frames(error)
        raise
