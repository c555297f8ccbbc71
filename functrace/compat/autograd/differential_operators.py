"""``autograd.differential_operators``: derivatives of functions, with autograd's arguments and
results.

Note [Gradients of one element]
    autograd differentiates functions whose result has one element, of any shape; functrace requires
    a number. So results are reshaped. `value_and_grad` returns the value in its own shape: as an
    auxiliary result, once it has encountered a result that is no number, since results with an
    auxiliary one are replayed more slowly.

Layer: 10.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any, final

import numpy as np

from functrace.api.differentiation import gradients as differentiate
from functrace.api.differentiation import jacobians
from functrace.api.residuals.checkpointing import checkpoint as checkpoint
from functrace.compat.autograd.vspaces import array_aval, vspace
from functrace.compat.autograd.wrap_util import (
    Argnum,
    Function,
    check_argnum,
    chosen,
    get_name,
    unary_to_nary,
    wraps,
)
from functrace.compat.kinds import Given, Values
from functrace.errors import ArgumentError
from functrace.ir.aval import ShapeDtype
from functrace.tracing.tracer import Tracer
from functrace.tree import flatten, map_leaves, unflatten

__all__ = [
    "checkpoint", "deriv", "elementwise_grad", "grad", "grad_and_aux", "grad_named", "hessian",
    "hessian_tensor_product",
    "hessian_vector_product", "holomorphic_grad", "jacobian", "make_ggnvp", "make_hvp", "make_jvp",
    "make_jvp_reversemode",
    "make_vjp", "multigrad_dict", "tensor_jacobian_product", "value_and_grad",
    "vector_jacobian_product",
]  # fmt: skip

_NUMBERS = (Tracer, np.ndarray, np.generic, float, complex)


def _argnums(argnum: Argnum, operator: str) -> Any:
    argnum = check_argnum(argnum, operator)
    return tuple(argnum) if isinstance(argnum, list) else argnum


def _warn_if_constant(result: Values) -> None:
    """Warn, like autograd, about a result that depends on no traced value."""
    if not any(isinstance(leaf, Tracer) for leaf in flatten(result)[0]):
        warnings.warn("Output seems independent of input.", stacklevel=2)


def _real(result: Values, operator: str, fun: Function, what: str = "real") -> ShapeDtype:
    """Return the aval of a result that is a real array.

    Raises:
        ArgumentError: if it is something else.
    """
    given: object = result
    aval = array_aval(result) if isinstance(given, _NUMBERS) else None
    if aval is None or aval.dtype.kind != "f":
        shown = f"{type(result).__name__} {result!r}"[:80] if aval is None else f"{aval}"
        raise ArgumentError(
            f"{operator} of {get_name(fun)} applies to functions with one {what} result, not "
            f"{shown}",
            fix="return floats (x.astype(float)), or use holomorphic_grad, or make_vjp for "
            "containers",
        )
    return aval


def _one_number(fun: Function, operator: str, shaped: type[Exception] | None = None) -> Function:
    """Return ``fun`` as a function that returns a number, or raises ``shaped`` for an array with
    one element.
    """

    @wraps(fun)
    def one_number(*args: object, **kwargs: object) -> Any:
        result = fun(*args, **kwargs)
        aval = _real(result, operator, fun, "scalar")
        _warn_if_constant(result)
        if not aval.shape:
            return result
        if aval.size == 1 and shaped is not None:
            raise shaped
        if aval.size != 1:
            raise ArgumentError(
                f"{operator} of {get_name(fun)} applies to functions with one scalar result, not "
                f"{aval}",
                fix="sum it, or use jacobian or elementwise_grad",
            )
        return np.reshape(result, ())

    return one_number


# -- reverse mode ----------------------------------------------------------------------------------


def grad(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes the gradient of ``fun``, whose result has one real element.

    Args:
        fun: a function of arrays, numbers and containers of them.
        argnum: position of the argument to differentiate, or a tuple of positions, for a tuple of
            gradients.

    Returns:
        a function of ``fun``'s arguments that returns the gradient, like the argument.

    Raises:
        ArgumentError: if the result is not one real number.
        DtypeError: if an argument holds integers.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> grad(lambda x: anp.sum(x**2))(anp.array([1.0, 2.0]))
        array([2., 4.])

    Cost:
        2 to 4 times ``fun``.

    Source:
        ``autograd.grad``.
    """
    return differentiate.grad(_one_number(fun, "grad"), _argnums(argnum, "grad"))


@final
class _Shaped(Exception):
    """Signal in `value_and_grad` that the result is an array with one element."""


def value_and_grad(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes the value and the gradient of ``fun``, whose result has one
    real element.

    Args:
        fun: a function of arrays, numbers and containers of them.
        argnum: position of the argument to differentiate, or a tuple of positions, for a tuple of
            gradients.

    Returns:
        a function of ``fun``'s arguments that returns ``(value, gradient)``.

    Raises:
        ArgumentError: if the result is not one real number.
        DtypeError: if an argument holds integers.

    Example:
        >>> value_and_grad(lambda x: x**2)(3.0)
        (np.float64(9.0), np.float64(6.0))

    Cost:
        2 to 4 times ``fun``.

    Source:
        ``autograd.value_and_grad``.
    """
    argnums = _argnums(argnum, "value_and_grad")
    of_numbers = differentiate.value_and_grad(_one_number(fun, "value_and_grad", _Shaped), argnums)

    @wraps(fun)
    def kept(*args: object, **kwargs: object) -> tuple[Any, Any]:
        found: list[Any] = []

        def noted(*args: object, **kwargs: object) -> Any:
            found.append(fun(*args, **kwargs))
            return found[0]

        return _one_number(noted, "value_and_grad")(*args, **kwargs), found[0]

    of_arrays = differentiate.value_and_grad(kept, argnums, has_aux=True)
    is_shaped = False

    @wraps(fun)
    def both(*args: object, **kwargs: object) -> tuple[Any, Any]:
        nonlocal is_shaped
        if not is_shaped:
            try:
                return of_numbers(*args, **kwargs)
            except _Shaped:
                is_shaped = True
        (_, result), gradient = of_arrays(*args, **kwargs)
        return result, gradient

    return both


def elementwise_grad(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes the sum of the rows of the Jacobian: for elementwise functions,
    the derivative.

    Args:
        fun: a function of arrays, numbers and containers of them.
        argnum: position of the argument to differentiate, or a tuple of positions, for a tuple of
            derivatives.

    Returns:
        a function of ``fun``'s arguments that returns the derivative, with the shape of the
        argument.

    Raises:
        ArgumentError: if the result is not real.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> elementwise_grad(anp.sin)(anp.zeros(2))
        array([1., 1.])

    Source:
        ``autograd.elementwise_grad``.
    """

    @wraps(fun)
    def summed(*args: object, **kwargs: object) -> Any:
        result = fun(*args, **kwargs)
        leaves = [leaf for leaf in flatten(result)[0] if _real(leaf, "elementwise_grad", fun)]
        _warn_if_constant(result)
        return sum(map(np.sum, leaves))

    return differentiate.grad(summed, _argnums(argnum, "elementwise_grad"))


def jacobian(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes the Jacobian.

    Args:
        fun: a function of arrays to one real array.
        argnum: position of the argument to differentiate, or a tuple of positions, for a tuple of
            Jacobians.

    Returns:
        a function of ``fun``'s arguments that returns an array with the shape of the result, then
        that of the argument.

    Raises:
        ArgumentError: if the result is not one real array.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> jacobian(lambda x: x**2)(anp.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])

    Cost:
        one pullback per element of the result, in one mapped run.

    Source:
        ``autograd.jacobian``.
    """

    @wraps(fun)
    def checked(*args: object, **kwargs: object) -> Any:
        result = fun(*args, **kwargs)
        _real(result, "jacobian", fun)
        _warn_if_constant(result)
        return result

    return jacobians.jacrev(checked, _argnums(argnum, "jacobian"))


def hessian(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes the Hessian: the Jacobian of the Jacobian.

    Args:
        fun: a function of arrays to one real array.
        argnum: position of the argument to differentiate twice.

    Returns:
        a function of ``fun``'s arguments that returns an array with the shape of the result, then
        twice that of the argument.

    Raises:
        ArgumentError: if the result is not one real array.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> hessian(lambda x: anp.sum(x**3))(anp.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])

    Source:
        ``autograd.hessian``.
    """
    return jacobians.jacfwd(jacobian(fun, argnum), _argnums(argnum, "hessian"))


def holomorphic_grad(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes the complex derivative of a holomorphic function of a complex
    argument.

    A real argument gives a warning.

    Args:
        fun: a holomorphic function to one complex number.
        argnum: position of the argument to differentiate.

    Returns:
        a function of ``fun``'s arguments that returns the derivative.

    Example:
        >>> holomorphic_grad(lambda z: z**2)(1.0 + 2.0j)
        np.complex128(2+4j)

    Source:
        ``autograd.holomorphic_grad``.
    """
    gradient = grad(wraps(fun)(lambda *args, **kwargs: np.real(fun(*args, **kwargs))), argnum)

    @wraps(fun)
    def warned(*args: object, **kwargs: object) -> Any:
        if not vspace(chosen(fun, argnum, args, kwargs)[1]).iscomplex:
            warnings.warn("Input to holomorphic_grad is not complex", stacklevel=2)
        return gradient(*args, **kwargs)

    return warned


def grad_named(fun: Function, argname: str) -> Function:
    """Make a function that computes the gradient by the argument of a given name.

    Args:
        fun: a function of arrays, numbers and containers of them, to one real number.
        argname: name of the parameter; the argument is passed by position.

    Returns:
        a function of ``fun``'s arguments that returns the gradient.

    Raises:
        ValueError: if there is no parameter of this name.

    Example:
        >>> grad_named(lambda x, y: x * y, "y")(3.0, 4.0)
        np.float64(3.0)

    Source:
        ``autograd.grad_named``.
    """
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


def grad_and_aux(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes the gradient of a function with auxiliary results.

    Args:
        fun: a function of arrays, numbers and containers of them that returns ``(result, aux)``.
        argnum: position of the argument to differentiate, or a tuple of positions, for a tuple of
            gradients.

    Returns:
        a function of ``fun``'s arguments that returns ``(gradient, aux)``.

    Raises:
        ArgumentError: if the result is not one real number.
        DtypeError: if an argument holds integers.

    Example:
        >>> grad_and_aux(lambda x: (x**2, "aux"))(3.0)
        (np.float64(6.0), 'aux')

    Source:
        ``autograd.differential_operators.grad_and_aux``.
    """

    @wraps(fun)
    def pair(*args: object, **kwargs: object) -> tuple[Any, Any]:
        found: list[Any] = []

        def first(*args: object, **kwargs: object) -> Any:
            result, aux = fun(*args, **kwargs)
            found.append(aux)
            return result

        return _one_number(first, "grad_and_aux")(*args, **kwargs), found[0]

    return differentiate.grad(pair, _argnums(argnum, "grad_and_aux"), has_aux=True)


def multigrad_dict(fun: Function) -> Function:
    """Make a function that computes the gradients by all arguments.

    Args:
        fun: a function of arrays, numbers and containers of them, to one real number.

    Returns:
        a function of ``fun``'s arguments that returns a dict of gradients by parameter name.

    Raises:
        ArgumentError: if the result is not one real number.

    Example:
        >>> multigrad_dict(lambda x, y: x * y)(3.0, 4.0)
        {'x': np.float64(4.0), 'y': np.float64(3.0)}

    Source:
        ``autograd.multigrad_dict``.
    """
    parameters = inspect.signature(fun)
    kinds = {name: parameter.kind for name, parameter in parameters.parameters.items()}

    def gradients(*args: object, **kwargs: object) -> dict[str, Any]:
        bound = parameters.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)

        def named(values: dict[str, Any]) -> Any:
            places: list[Any] = []
            keywords: dict[str, Any] = {}
            for name, kind in kinds.items():
                if kind is inspect.Parameter.VAR_POSITIONAL:
                    places += values[name]
                elif kind is inspect.Parameter.VAR_KEYWORD:
                    keywords |= values[name]
                elif kind is inspect.Parameter.KEYWORD_ONLY:
                    keywords[name] = values[name]
                else:
                    places.append(values[name])
            return fun(*places, **keywords)

        return grad(named)(given)

    return gradients


def make_vjp(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes the pullback of ``fun``.

    Args:
        fun: a function of arrays, numbers and containers of them.
        argnum: position of the argument to differentiate.

    Returns:
        a function of ``fun``'s arguments that returns ``(vjp, result)``; ``vjp`` maps a cotangent
        of the result to one of the argument.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> pullback, result = make_vjp(anp.sin)(0.0)
        >>> pullback(2.0)
        np.float64(2.0)

    Source:
        ``autograd.make_vjp``.
    """
    return unary_to_nary(vjp_of)(fun, argnum)


def vjp_of(fun: Function, x: Values) -> tuple[Function, Any]:
    """Return ``(vjp, fun(x))`` of a function of one argument."""

    @wraps(fun)
    def warned(x: Values) -> Any:
        result = fun(x)
        _warn_if_constant(result)
        return result

    result, pullback = differentiate.vjp(warned, x)

    def vjp(g: Values) -> Any:
        return pullback(_fitted(g, result))[0]

    return vjp, result


def _fitted(direction: Values, like: Values) -> Any:
    """Return a tangent or cotangent in the shapes and dtypes of ``like``: numbers are broadcast."""
    leaves, tree = flatten(direction)
    likes, wanted = flatten(like)
    if tree != wanted:
        return direction
    made: list[Any] = []
    for leaf, x in zip(leaves, likes, strict=True):
        aval = array_aval(x)
        value: Any = leaf if isinstance(leaf, Tracer) else np.asarray(leaf)
        value = value if value.shape or not aval.shape else np.broadcast_to(value, aval.shape)
        fits = value.dtype == aval.dtype or not np.can_cast(value.dtype, aval.dtype, "same_kind")
        made.append(value if fits else value.astype(aval.dtype))
    return unflatten(wanted, made)


def make_hvp(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes the gradient and Hessian-vector products.

    Args:
        fun: a function of arrays to one real number.
        argnum: position of the argument to differentiate twice.

    Returns:
        a function of ``fun``'s arguments that returns ``(hvp, gradient)``; ``hvp(v)`` is the
        product of the Hessian with ``v``.

    Raises:
        ArgumentError: if the result is not one real number.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> product, gradient = make_hvp(lambda x: anp.sum(x**3))(anp.array([1.0, 2.0]))
        >>> product(anp.array([1.0, 0.0]))
        array([6., 0.])

    Source:
        ``autograd.differential_operators.make_hvp``.
    """
    return make_vjp(grad(fun, argnum), argnum)


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    """Make a function that computes the product of the Hessian with a tensor.

    Args:
        fun: a function of arrays to one real number.
        argnum: position of the argument to differentiate twice.

    Returns:
        a function of ``fun``'s arguments and a tensor like the differentiated one, which returns
        the product.

    Raises:
        ArgumentError: if the result is not one real number.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> hessian_tensor_product(lambda x: anp.sum(x**3))(anp.array([1.0, 2.0]), anp.array([1.0, 0.0]))
        array([6., 0.])

    Cost:
        about 4 times ``fun``.

    Source:
        ``autograd.hessian_tensor_product``.
    """
    gradient = grad(fun, argnum)

    def dotted(*args: Given, **kwargs: object) -> Any:
        *rest, vector = args
        return np.tensordot(gradient(*rest, **kwargs), vector, np.ndim(vector))

    return grad(dotted, argnum)


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """Make a function that computes the product of a tensor with the Jacobian.

    Args:
        fun: a function of arrays to one real array.
        argnum: position of the argument to differentiate.

    Returns:
        a function of ``fun``'s arguments and a tensor like the result, which returns the product.

    Raises:
        ArgumentError: if the result is not one real array.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> tensor_jacobian_product(lambda x: x**2)(anp.array([1.0, 2.0]), anp.array([1.0, 1.0]))
        array([2., 4.])

    Source:
        ``autograd.tensor_jacobian_product``.
    """

    def dotted(*args: Given, **kwargs: object) -> Any:
        *rest, vector = args
        return np.tensordot(vector, fun(*rest, **kwargs), axes=np.ndim(vector))

    return jacobian(dotted, argnum)


vector_jacobian_product = tensor_jacobian_product


# -- forward mode ----------------------------------------------------------------------------------


def make_jvp(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes tangents of ``fun``.

    Args:
        fun: a function of arrays, numbers and containers of them.
        argnum: position of the argument to differentiate.

    Returns:
        a function of ``fun``'s arguments, which returns the function from a tangent to ``(result,
        tangent)``.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> make_jvp(anp.sin)(0.0)(2.0)
        (np.float64(0.0), np.float64(2.0))

    Source:
        ``autograd.make_jvp``.
    """
    return unary_to_nary(jvp_of)(fun, argnum)


def jvp_of(fun: Function, x: Values) -> Function:
    """Return ``jvp`` of a function of one argument."""

    def jvp(g: Values) -> tuple[Any, Any]:
        return differentiate.jvp(fun, (x,), (_fitted(g, x),))

    return jvp


def deriv(fun: Function, argnum: Argnum = 0) -> Function:
    """Make a function that computes the derivative of ``fun`` in the direction of ones.

    Args:
        fun: a function of arrays, numbers and containers of them.
        argnum: position of the argument to differentiate.

    Returns:
        a function of ``fun``'s arguments that returns the tangent of the result.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> deriv(anp.sin)(0.0)
        np.float64(1.0)

    Cost:
        2 to 3 times ``fun``.

    Source:
        ``autograd.deriv``.
    """

    @wraps(fun)
    def along(*args: object, **kwargs: object) -> Any:
        unary, x = chosen(fun, argnum, args, kwargs)
        return jvp_of(unary, x)(map_leaves(lambda leaf: np.ones(np.shape(leaf)), x))[1]

    return along


def make_jvp_reversemode(fun: Function, argnum: Argnum = 0) -> Function:
    """Return a function of the arguments of ``fun`` that returns ``tangent ↦ tangent``, of the
    result.
    """
    jvps = make_jvp(fun, argnum)

    @wraps(fun)
    def at(*args: object, **kwargs: object) -> Function:
        jvp = jvps(*args, **kwargs)

        def push(v: Values) -> Any:
            return jvp(v)[1]

        return push

    return at


def _half_square(x: Values) -> Any:
    return np.sum(x**2, axis=-1) / 2.0


def make_ggnvp(f: Function, g: Function = _half_square, f_argnum: int = 0) -> Function:
    """Make a function that computes products of the generalized Gauss-Newton matrix: ``v ↦ Jᵀ H J
    v``.

    Args:
        f: a function of arrays, with the Jacobian ``J``.
        g: a function of the result of ``f`` to one real number, with the Hessian ``H``; half the
            sum of squares by default.
        f_argnum: position of the argument of ``f`` to differentiate.

    Returns:
        a function of ``f``'s arguments, which returns the function from ``v`` to the product.

    Example:
        >>> import functrace.compat.autograd.numpy as anp
        >>> make_ggnvp(lambda x: x**2)(anp.array([1.0, 2.0]))(anp.array([1.0, 1.0]))
        array([ 4., 16.])

    Source:
        ``autograd.make_ggnvp``.
    """

    @wraps(f)
    def at(*args: object, **kwargs: object) -> Function:
        unary, x = chosen(f, f_argnum, args, kwargs)
        pull, result = vjp_of(unary, x)
        curved, _ = vjp_of(grad(g), result)
        push = jvp_of(unary, x)

        def product(v: Values) -> Any:
            return pull(curved(push(v)[1]))

        return product

    return at
