"""``torch.func.grad``, ``grad_and_value`` and ``vjp``: gradients, and pullbacks.

Layer: 9.
"""

from __future__ import annotations

import functools
from typing import Any

from functrace.api.differentiation.gradients import value_and_grad as value_and_grad_of_arrays
from functrace.api.differentiation.gradients import vjp as vjp_of_arrays
from functrace.torch.func.calls import Call, OfTensors, arrays_of
from functrace.torch.func.checks import (
    Argnums,
    arrays_and_aux,
    called_as,
    check_differentiable,
    checked_argnums,
    shown,
    split_aux,
    with_recording,
)
from functrace.torch.func.nodes import conjugate
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor, array_of
from functrace.tree import flatten, map_leaves, structure
from functrace.typing import PyTree


def grad(func: OfTensors, argnums: Argnums = 0, has_aux: bool = False) -> OfTensors:
    """Make a function that computes the gradient of ``func``.

    Args:
        func: a function of tensors (pytrees of them) that returns a tensor without axes.
        argnums: position of the argument to differentiate; a tuple gives a tuple of gradients.
        has_aux: True if ``func`` returns ``(output, aux)``.

    Returns:
        a function of ``func``'s arguments that returns the gradient, or ``(gradient, aux)`` with
        ``has_aux``.

    Raises:
        RuntimeError: if ``func`` does not return one number.
        ValueError: if an argument to differentiate is no tensor.

    Example:
        >>> import functrace.torch as torch
        >>> torch.func.vmap(torch.func.grad(torch.sin))(torch.zeros(3))
        tensor([1., 1., 1.])

    Cost:
        2 to 4 times ``func``; twice that where the result has a place in the graph.
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: PyTree, **kwargs: PyTree) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapper


def grad_and_value(func: OfTensors, argnums: Argnums = 0, has_aux: bool = False) -> OfTensors:
    """Make a function that computes the gradient and the value of ``func``.

    Args:
        func: a function of tensors (pytrees of them) that returns a tensor without axes.
        argnums: position of the argument to differentiate; a tuple gives a tuple of gradients.
        has_aux: True if ``func`` returns ``(output, aux)``.

    Returns:
        a function of ``func``'s arguments that returns ``(gradient, value)``, or ``(gradient,
        (value, aux))`` with ``has_aux``.

    Raises:
        RuntimeError: if ``func`` does not return one number.
        ValueError: if an argument to differentiate is no tensor.

    Example:
        >>> import functrace.torch as torch
        >>> torch.func.grad_and_value(lambda x: (x ** 2).sum())(torch.tensor([1.0, 2.0]))
        (tensor([2., 4.]), tensor(5.))

    Cost:
        2 to 4 times ``func``; twice that where the result has a place in the graph.
    """

    @functools.wraps(func)
    def wrapper(*args: PyTree, **kwargs: PyTree) -> Any:
        chosen = checked_argnums(argnums, len(args))
        check_differentiable(args, chosen)
        call = Call(func, args, kwargs)

        @called_as(func)
        def number(*args: PyTree, **kwargs: PyTree) -> tuple[Any, Any]:
            with with_recording():
                value, aux = split_aux(call(*args, **kwargs), has_aux, "grad_and_value(f)(*args)")
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got "
                    f"{type(value)}"
                )
            if value.dim():
                raise RuntimeError(
                    "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got "
                    f"tensor with {value.dim()} "
                    "dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
                )
            return array_of(value), arrays_of(aux)

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            (value, aux), gradient = value_and_grad_of_arrays(number, argnums=chosen, has_aux=True)(
                *args, **kwargs
            )
            return map_leaves(conjugate, gradient), value, aux

        gradient, value, aux = call.run(run)
        return gradient, (value, aux) if has_aux else value

    return wrapper


def vjp(func: OfTensors, *primals: PyTree, has_aux: bool = False) -> tuple[Any, ...]:
    """Compute ``func(*primals)`` and its pullback.

    Args:
        func: a function of tensors that returns tensors; with ``has_aux`` ``(output, aux)``.
        primals: its arguments.
        has_aux: True if ``func`` returns auxiliary data.

    Returns:
        ``(output, pullback)``, or ``(output, pullback, aux)`` with ``has_aux``. The pullback takes
        cotangents like the output, and returns a tuple with one cotangent per primal.

    Raises:
        RuntimeError: if ``func`` does not return tensors; from the pullback, if cotangents do not
            fit the output.

    Example:
        >>> import functrace.torch as torch
        >>> output, pullback = torch.func.vjp(torch.sin, torch.zeros(2))
        >>> pullback(torch.ones(2))
        (tensor([1., 1.]),)
    """
    call = Call(func, primals, {})
    check_differentiable(primals, tuple(range(len(primals)))) if primals else None

    @called_as(func)
    def outputs(*args: PyTree) -> tuple[Any, Any]:
        with with_recording():
            return arrays_and_aux(call(*args), has_aux, "vjp(f, *primals)", "f(*primals)")

    def values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        found, _, aux = vjp_of_arrays(
            outputs, *args, has_aux=True
        )  # traced, as it will be in the pullback
        return found, aux

    output, aux = call.run(values)

    def pullback(
        cotangents: PyTree, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        if structure(cotangents) != structure(output):
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                "outputs to the function. "
                f"cotangents: {shown(cotangents)}, primal output: {shown(output)}"
            )
        for k, (given, wanted) in enumerate(
            zip(flatten(cotangents)[0], flatten(output)[0], strict=True)
        ):
            if given.shape != wanted.shape:
                raise RuntimeError(
                    f"Mismatch in shape: grad_output[{k}] has a shape of {Size(given.shape)} and "
                    f"output[{k}] has a shape of "
                    f"{Size(wanted.shape)}."
                )
        both = Call(func, (primals, cotangents), {})

        def run(args: tuple[Any, Any], kwargs: dict[str, Any]) -> Any:
            given, seeds = args
            _, pull, _ = vjp_of_arrays(outputs, *given, has_aux=True)
            return map_leaves(conjugate, pull(map_leaves(conjugate, seeds)))

        return both.run(run)

    return (output, pullback, aux) if has_aux else (output, pullback)
