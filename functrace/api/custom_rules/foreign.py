"""Foreign functions inside of transforms: ``pure_callback`` and ``primitive``.

Layer: 8.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Concatenate, Generic, ParamSpec, Self, cast, final, overload

import numpy as np

from functrace.api.capture.arguments import NUMERIC, function_name
from functrace.api.capture.programs import stop_gradient
from functrace.api.capture.record import Operands
from functrace.api.capture.transformed import SignatureOfWrapped
from functrace.api.custom_rules.derivatives import custom_jvp, custom_vjp, positional
from functrace.errors import ArgumentError, ConcretizationError, DtypeError, TreeError, entry
from functrace.ir.aval import ShapeDtype, aval_of
from functrace.keys import static_key
from functrace.numpy.arrays.traced_number import TracedNumber
from functrace.ops.foreign import METHODS, ForeignFunction, callback_p, returned, returning
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Tracer, as_array
from functrace.tracing.values import concrete_value
from functrace.tree import flatten, map_leaves, tree_key, unflatten
from functrace.typing import Array, P, PyTree, R

Q = ParamSpec("Q")


@entry
def pure_callback(
    f: Callable[..., Any],
    result_shapes: PyTree,
    *args: PyTree,
    vmap: str = "sequential",
    **kwargs: PyTree,
) -> Any:
    """Call a function that works on plain arrays only, inside any transform: ``f(*args,
    **kwargs)``.

    ``f`` may be anything that takes and returns arrays: SciPy, numba, a library in C. It gets
    copies of the arrays, which it may overwrite. It must be pure: it is called as often as the
    program needs its results, or never. With concrete arguments (plain ones, and under `grad`,
    `vjp`, `jvp`) it is called at once, so that its errors are raised in this line.

    Args:
        f: the function.
        result_shapes: the shapes and dtypes that it returns: a pytree of `ShapeDtype`, or of arrays
            with that shape and dtype; or a function of the arguments, with a `ShapeDtype` for every
            array, that returns such a pytree.
        args, kwargs: arguments of ``f``: pytrees. Leaves that are no arrays are passed unchanged.
        vmap: rule for `functrace.vmap`. ``"sequential"`` calls ``f`` once per example, and suits
            every function. For functions that accept leading axes, ``"expand_dims"`` calls it once
            with the batch axis in front of every array, of length 1 where an argument is not
            mapped; with ``"broadcast_all"`` that axis has the same length everywhere.

    Returns:
        the result of ``f``; 0-d arrays and Python numbers as NumPy scalars of the declared dtype.

    Raises:
        ArgumentError: if ``f`` is not a function, ``vmap`` is not one of the three, or
            ``result_shapes`` holds other leaves.
        NotDifferentiableError: if it is differentiated; `primitive` and `custom_vjp` give it a
            derivative.
        TreeError, ShapeError, DtypeError: if the result of ``f`` differs from the declaration in
            structure, shape or dtype (a Python number may be promoted as by NumPy), or is an array
            subclass with more than values, such as a masked array.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> def total(x):
        ...     return sum(x.tolist())
        >>> ft.jit(lambda x: 2.0 * ft.pure_callback(total, ft.ShapeDtype((), "float64"), x))(np.ones(3))
        np.float64(6.0)

    Cost:
        one copy of the arrays that are passed, and of those that are returned.

    Source:
        ``jax.pure_callback``, where ``vmap`` is called ``vmap_method``.
    """
    _method(vmap, "pure_callback")
    if not callable(f):
        raise ArgumentError(
            f"pure_callback takes a function, not a {type(f).__name__}",
            fix="pure_callback(f, shapes, x)",
        )
    boxed = _boxed((args, kwargs))
    if boxed is not None:

        def of_arrays(shapes: PyTree, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return pure_callback(f, shapes, *args, vmap=vmap, **kwargs)

        return boxed(of_arrays, (result_shapes, args, kwargs), {})
    args, kwargs = map_leaves(_strong, (args, kwargs))
    return call_foreign(f, _declared(result_shapes, args, kwargs), args, kwargs, vmap)


@final
class primitive(Generic[P, R]):
    """Make an operation of a function that works on plain arrays only, with derivatives of one's
    own.

    The function is called as by `pure_callback`. The rules are differentiated in turn, so they are
    written in NumPy, in this primitive and in others. They may be set later, with ``defvjp`` and
    ``defjvp``. Without a rule, the function cannot be differentiated.

    Args:
        f: the function: NumPy, SciPy, numba, compiled code. It must be pure. It gets copies of the
            arrays.
        vjp: its reverse-mode derivative: ``vjp(cotangent, result, *args)`` returns a tuple with one
            cotangent per argument, ``None`` for zero. Forward mode is then its transpose.
        jvp: its forward-mode derivative: ``jvp(tangents, result, *args)`` returns the tangent of
            the result, linear in ``tangents``, a tuple with one tangent per argument. Reverse mode
            is its transpose, unless there is a ``vjp``.
        results: the shapes and dtypes that it returns: a pytree of `ShapeDtype` or of arrays, or a
            function of the arguments' `ShapeDtype` that returns one. Left out, ``f`` is called to
            find out, which needs concrete arguments: not under `jit` and `vmap`, nor on a cotangent
            in a rule.
        vmap: rule for `functrace.vmap`: ``"sequential"`` calls ``f`` once per example;
            ``"expand_dims"`` once with the batch axis in front, of length 1 where an argument is
            not mapped; ``"broadcast_all"`` with the same length everywhere.

    Returns:
        a function with the results of ``f``, for use under any transform and on plain arrays.

    Raises:
        ArgumentError: if ``f`` is not a function, or ``vmap`` is not one of the three.
        NotDifferentiableError: if it is differentiated, and has no rule.
        ConcretizationError: if arguments are abstract, and ``results`` is not given.
        TreeError, ShapeError, DtypeError: if ``f`` or a rule returns another structure, shape or
            dtype than it should.

    Example:
        >>> import math
        >>> import numpy as np
        >>> import functrace as ft
        >>> @ft.primitive
        ... def gamma(x):
        ...     return math.gamma(x)
        >>> digamma = ft.primitive(lambda x: (math.lgamma(x + 1e-5) - math.lgamma(x - 1e-5)) / 2e-5)
        >>> _ = gamma.defvjp(lambda ct, y, x: (ct * y * digamma(x),))
        >>> round(ft.grad(gamma)(3.0), 6)
        np.float64(1.845569)

    Cost:
        ``f`` is called once per gradient, as in a plain call.

    Source:
        ``autograd.extend.primitive`` of HIPS autograd.
    """

    __signature__ = SignatureOfWrapped()

    def __init__(
        self,
        f: Callable[P, R],
        vjp: Callable[..., Any] | None = None,
        jvp: Callable[..., Any] | None = None,
        *,
        results: PyTree = None,
        vmap: str = "sequential",
    ) -> None:
        if not callable(f):
            raise ArgumentError(
                f"primitive takes a function, not a {type(f).__name__}", fix="primitive(f)(x)"
            )
        self.f: Callable[..., Any] = f
        self.name = function_name(f)
        self.results = results
        self.method = _method(vmap, f"primitive {self.name}")
        self.vjp, self.jvp = vjp, jvp
        functools.update_wrapper(self, f, updated=())  # type: ignore[arg-type]
        self._by_vjp = custom_vjp(_renamed(_same, self.name))
        self._by_jvp = custom_jvp(_renamed(_same, self.name))
        self._by_jvp.defjvp(self._pushed)
        self._by_vjp.defvjp(self._forward, self._backward)

    def __repr__(self) -> str:
        return f"<functrace primitive({self.name})>"

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: primitive[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> Callable[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Bind as a method."""
        return self if instance is None else functools.partial(self, instance)  # type: ignore[arg-type]

    def defvjp(self, vjp: Callable[..., Any]) -> Callable[..., Any]:
        """Set the reverse-mode rule, and return it, so that this is a decorator.

        Args:
            vjp: ``vjp(cotangent, result, *args)`` returns a tuple with one cotangent per argument,
                ``None`` for zero.
        """
        self.vjp = vjp
        return vjp

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Set the forward-mode rule, and return it, so that this is a decorator.

        Args:
            jvp: ``jvp(tangents, result, *args)`` returns the tangent of the result.
        """
        self.jvp = jvp
        return jvp

    @entry
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function; on traced values, as an operation."""
        boxed = _boxed((args, kwargs))
        if boxed is not None:
            return boxed(self, args, kwargs)
        leaves = flatten((args, kwargs))[0]
        if not any(isinstance(leaf, Tracer) for leaf in leaves):
            placed = positional(self.f, self.name, args, kwargs)
            declared = None if self.results is None else _declared(self.results, placed, {})
            found: R = call_foreign(self.f, declared, placed, {}, self.method)
            return found
        given = map_leaves(_strong, positional(self.f, self.name, args, kwargs))
        has_rule = self.vjp is not None or self.jvp is not None
        passed = map_leaves(_constant, given) if has_rule else given
        declared = None if self.results is None else _declared(self.results, passed, {})
        result = call_foreign(self.f, declared, passed, {}, self.method)
        return self._attached(result, *given) if has_rule else result

    # The call's result is constant under differentiation. A second function, the identity of it
    # with the arguments as further operands, has the rules: so the call is made once, and rules are
    # differentiated like any function.

    def _attached(self, result: PyTree, *args: PyTree) -> Any:
        if self.vjp is None:
            return self._by_jvp(result, *args)
        self._by_vjp.rule = None if self.jvp is None else self._pushed
        return self._by_vjp(result, *args)

    def _forward(self, result: PyTree, *args: PyTree) -> Any:
        attached = self._attached(result, *args)
        return attached, (attached, args)

    def _backward(
        self, residuals: tuple[Any, tuple[Any, ...]], cotangent: PyTree
    ) -> tuple[Any, ...]:
        result, args = residuals
        assert self.vjp is not None
        found = self.vjp(cotangent, result, *args)
        given: object = found
        if not isinstance(given, tuple | list) or len(found) != len(args):
            shown = (
                f"{len(found)} values"
                if isinstance(given, tuple | list)
                else f"a {type(found).__name__}"
            )
            raise TreeError(
                f"the vjp of {self.name} returned {shown}, but {self.name} takes {len(args)} "
                "arguments",
                fix="return a tuple with one cotangent per argument, None for zero",
            )
        return (None, *found)

    def _pushed(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        attached = self._attached(*primals)
        assert self.jvp is not None
        return attached, self.jvp(tuple(tangents[1:]), attached, *primals[1:])


def _same(result: R, *args: object) -> R:
    read = [leaf for leaf in flatten(args)[0] if isinstance(leaf, Tracer)]
    return map_leaves(lambda leaf: returned(leaf, read), result)


def _renamed(f: Callable[..., Any], name: str) -> Callable[..., Any]:
    made = types.FunctionType(f.__code__, f.__globals__, name, f.__defaults__, f.__closure__)  # type: ignore[attr-defined]
    made.__qualname__ = name
    return made


def _constant(leaf: object) -> Any:
    return stop_gradient(leaf) if isinstance(leaf, Tracer) else leaf


def _method(vmap: str, what: str) -> str:
    """Check the name of a batching rule."""
    if vmap not in METHODS:
        raise ArgumentError(
            f"{what}: vmap={vmap!r}", fix=f"choose one of {', '.join(map(repr, METHODS))}"
        )
    return vmap


def call_foreign(
    f: Callable[..., Any],
    declared: PyTree,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    method: str,
) -> Any:
    """Call a function on values that may be traced; ``declared`` is ``None`` if the output avals
    are unknown."""
    operands = Operands(args, kwargs)
    name = function_name(f)

    def run(*values: object) -> Any:
        placed, named = operands_with(values)
        return f(*placed, **named)

    operands_with = operands.without_values().arguments
    is_traced = any(isinstance(value, Tracer) for value in operands.values)
    result: Any = None
    if declared is None:
        known = [concrete_value(value) for value in operands.values]
        if any(value is None for value in known):
            raise ConcretizationError(
                f"primitive {name}: cannot infer the output shape: the arguments are abstract",
                fix=f"declare it: functrace.primitive({name}, results=lambda x: x) if it is like "
                "x, or a ShapeDtype",
            )
        result = run(
            *[np.array(cast("Array", x)) if isinstance(x, np.ndarray) else x for x in known]
        )
        declared = map_leaves(functools.partial(_aval_of_result, name), result)
    leaves, tree = flatten(declared)
    foreign = ForeignFunction(run, (*_identity(f), *_static(operands)), name, tree)
    found = None if result is None else foreign.checked(result, leaves)
    if not is_traced:
        return unflatten(tree, foreign(operands.values, leaves) if found is None else found)
    params = foreign, tuple(leaves), (), method
    if found is None:
        return unflatten(tree, bind(callback_p, tuple(operands.forwarded()), params))
    with returning(foreign, found):
        return unflatten(tree, bind(callback_p, tuple(operands.forwarded()), params))


def _identity(f: Callable[..., Any]) -> tuple[Hashable, ...]:
    """Return a key for a function; a bound method is a new object at each access."""
    return (id(f.__self__), f.__func__) if isinstance(f, types.MethodType) else (id(f),)


def _static(operands: Operands) -> tuple[Hashable, ...]:
    chosen = set(operands.places)
    others = [static_key(x) for k, x in enumerate(operands.leaves) if k not in chosen]
    return tree_key(operands.tree), tuple(operands.places), tuple(others)


def _strong(leaf: object) -> Any:
    return leaf.strong() if isinstance(leaf, TracedNumber) else leaf


def _boxed(arguments: PyTree) -> Callable[..., Any] | None:
    """Return the ``__functrace_call__`` of an argument whose class wraps arrays, if there is
    one."""
    kinds: Iterable[Any] = map(type, flatten(arguments)[0])
    return next(
        (kind.__functrace_call__ for kind in kinds if hasattr(kind, "__functrace_call__")), None
    )


def _aval_or_leaf(leaf: Any) -> Any:
    given: object = leaf
    return aval_of(leaf) if isinstance(given, Tracer | np.ndarray | np.generic) else leaf


def _declared(shapes: PyTree, args: tuple[Any, ...], kwargs: dict[str, Any]) -> PyTree:
    """Return the declared results as a pytree of avals."""
    if callable(shapes) and not hasattr(shapes, "shape"):
        placed, named = map_leaves(_aval_or_leaf, (args, kwargs))
        shapes = shapes(*placed, **named)
    return map_leaves(_aval, shapes)


def _aval_of_result(name: str, leaf: object) -> ShapeDtype:
    if not isinstance(leaf, NUMERIC):
        raise DtypeError(
            f"the result of {name} is a {type(leaf).__name__}, not an array",
            fix="return arrays and numbers",
        )
    return _aval(leaf)


def _aval(leaf: PyTree) -> ShapeDtype:
    if isinstance(leaf, ShapeDtype):
        return leaf
    given: object = leaf
    if isinstance(given, NUMERIC):
        return aval_of(leaf if isinstance(given, Tracer) else as_array(leaf))
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return ShapeDtype(tuple(leaf.shape), np.dtype(leaf.dtype))
    raise ArgumentError(
        f"a {type(leaf).__name__} does not declare a shape and a dtype",
        fix="pass a functrace.ShapeDtype(shape, dtype) or an array, a pytree of them, or a "
        "function that returns one",
    )
