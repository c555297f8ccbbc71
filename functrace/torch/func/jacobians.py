"""``torch.func.jacrev``, ``jacfwd`` and ``hessian``: Jacobians, by the core's transforms.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from functrace.api.differentiation.jacobians import jacfwd as jacfwd_of_arrays
from functrace.api.differentiation.jacobians import jacrev as jacrev_of_arrays
from functrace.torch.func.calls import Call, OfTensors
from functrace.torch.func.checks import (
    Argnums,
    arrays_and_aux,
    called_as,
    check_chunk,
    check_differentiable,
    check_randomness,
    checked_argnums,
    with_recording,
)
from functrace.typing import PyTree


def jacrev(
    func: OfTensors,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> OfTensors:
    """Make a function that computes the Jacobian of ``func`` by reverse mode.

    Args:
        func: a function of tensors that returns tensors; with ``has_aux`` ``(output, aux)``.
        argnums: position of the argument to differentiate; a tuple gives a tuple of Jacobians.
        has_aux: True if ``func`` returns auxiliary data.
        chunk_size: accepted for ported code; the result is the same.

    Returns:
        a function of ``func``'s arguments that returns a tensor of shape ``output.shape +
        argument.shape``, or ``(jacobian, aux)`` with ``has_aux``.

    Raises:
        RuntimeError: if ``func`` does not return tensors.

    Example:
        >>> import functrace.torch as torch
        >>> torch.func.jacrev(torch.sin)(torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])

    Cost:
        one backward pass, batched over the elements of the output.
    """
    check_chunk(chunk_size, "jacrev")
    return _jacobian("jacrev", jacrev_of_arrays, func, argnums, has_aux)


def jacfwd(
    func: OfTensors, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error"
) -> OfTensors:
    """Make a function that computes the Jacobian of ``func`` by forward mode.

    Args:
        func: a function of tensors that returns tensors; with ``has_aux`` ``(output, aux)``.
        argnums: position of the argument to differentiate; a tuple gives a tuple of Jacobians.
        has_aux: True if ``func`` returns auxiliary data.
        randomness: behaviour of random functions: ``"error"`` or ``"same"`` (one draw for all
            passes).

    Returns:
        a function of ``func``'s arguments that returns a tensor of shape ``output.shape +
        argument.shape``, or ``(jacobian, aux)`` with ``has_aux``.

    Raises:
        RuntimeError: if ``func`` does not return tensors, or calls a random function with
            ``randomness="error"``.

    Example:
        >>> import functrace.torch as torch
        >>> torch.func.jacfwd(torch.sin)(torch.zeros(2))
        tensor([[1., 0.],
                [0., 1.]])

    Cost:
        one forward pass, batched over the elements of the arguments.
    """
    check_randomness(randomness)
    return _jacobian("jacfwd", jacfwd_of_arrays, func, argnums, has_aux)


def hessian(func: OfTensors, argnums: Argnums = 0) -> OfTensors:
    """Make a function that computes the Hessian of ``func``: forward mode over reverse mode.

    Args:
        func: a function of tensors that returns tensors.
        argnums: position of the argument to differentiate twice; a tuple gives a tuple of tuples.

    Returns:
        a function of ``func``'s arguments that returns a tensor of shape ``output.shape +
        argument.shape + argument.shape``.

    Raises:
        RuntimeError: if ``func`` does not return tensors.

    Example:
        >>> import functrace.torch as torch
        >>> torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _jacobian(
    name: str, transform: Callable[..., Any], func: OfTensors, argnums: Argnums, has_aux: bool
) -> OfTensors:
    @functools.wraps(func)
    def wrapper(*args: PyTree, **kwargs: PyTree) -> Any:
        chosen = checked_argnums(argnums, len(args))
        check_differentiable(args, chosen)
        call = Call(func, args, kwargs)

        @called_as(func)
        def outputs(*args: PyTree, **kwargs: PyTree) -> tuple[Any, Any]:
            with with_recording() if name == "jacrev" else nullcontext():
                return arrays_and_aux(
                    call(*args, **kwargs), has_aux, f"{name}(f)(*args)", "f(*args)"
                )

        found, aux = call.run(
            lambda args, kwargs: transform(outputs, argnums=chosen, has_aux=True)(*args, **kwargs)
        )
        return (found, aux) if has_aux else found

    return wrapper
