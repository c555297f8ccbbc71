"""Jacobians that older programs take from ``torch.autograd.gradcheck``: by differences, and by
backward passes. PyTorch has deprecated both.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch import errors
from functrace.torch.autograd.engine import grad
from functrace.torch.autograd.gradcheck_parts import returned
from functrace.torch.errors.warnings import warn
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.typing import Array


def get_numerical_jacobian(
    fn: Callable[..., Any],
    inputs: Sequence[Tensor],
    target: Any = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> tuple[Tensor, ...]:
    """Return the Jacobians of the first result of a function, by central differences.

    Args:
        fn: a function of the inputs, as one tuple.
        inputs: tensors.
        target: the tensors to differentiate by; all inputs by default.
        eps: the step.
        grad_out: 1.

    Returns:
        one Jacobian for each, of shape (elements of the input, elements of the result).

    Raises:
        ValueError: for complex results, and another ``grad_out``.
    """
    name = "get_numerical_jacobian"
    warn(errors.private_jacobian(name), FutureWarning)
    if grad_out != 1.0:
        raise ValueError(errors.jacobian_seed(name))
    chosen = inputs if target is None else (target,) if isinstance(target, Tensor) else target
    if any(x._array.dtype.kind == "c" for x in returned(fn(inputs))):
        raise ValueError(errors.jacobian_of_complex(name))
    return tuple([wrap(_differences(fn, inputs, x, eps)) for x in chosen if x.requires_grad])


def _differences(fn: Callable[..., Any], inputs: Any, x: Tensor, eps: float) -> Array:
    """Return the Jacobian by one input; its elements are changed in place, and changed back."""
    array = x._array
    before = array.copy()
    rows = []
    for place in range(array.size):
        row: Any = 0
        for factor in (1, 1j) if array.dtype.kind == "c" else (1,):
            values = []
            for sign in (1, -1):
                array.flat[place] = before.flat[place] + sign * factor * eps
                values.append(returned(fn(inputs))[0]._array.reshape(-1).copy())
                array[...] = before
            row = row + factor * (values[0] - values[1]) / (2 * eps)
        rows.append(row)
    return np.array(rows)


def get_analytical_jacobian(
    inputs: Sequence[Tensor], output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """Return the Jacobians of a tensor, by one backward pass per element.

    Args:
        inputs: tensors that it was computed from.
        output: the tensor.
        nondet_tol: the difference between two passes that is accepted.
        grad_out: 1.

    Returns:
        one Jacobian for each input that requires grad, of shape (elements of the input, elements
        of the result); then True if two passes agree, if gradients have the sizes of the inputs,
        and if they have their dtypes.

    Raises:
        ValueError: for a complex tensor, and another ``grad_out``.
    """
    name = "get_analytical_jacobian"
    warn(errors.private_jacobian(name), FutureWarning)
    if grad_out != 1.0:
        raise ValueError(errors.jacobian_seed(name))
    if output._array.dtype.kind == "c":
        raise ValueError(errors.jacobian_of_complex(name))
    wanted = [x for x in inputs if x.requires_grad]
    passes: list[list[Array]] = []
    has_sizes = has_dtypes = True
    for _ in range(2):
        made = [np.zeros((x._array.size, output._array.size), x._array.dtype) for x in wanted]
        for place in range(output._array.size):
            seed = np.zeros_like(output._array)
            seed.flat[place] = 1
            found = grad(output, wanted, wrap(seed), retain_graph=True, allow_unused=True)
            for jacobian, x, gradient in zip(made, wanted, found, strict=True):
                if gradient is None:
                    continue
                has_sizes = has_sizes and gradient.shape == x.shape
                has_dtypes = has_dtypes and gradient.dtype is x.dtype
                if gradient.shape == x.shape:
                    jacobian[:, place] = gradient._array.reshape(-1)
        passes.append(made)
    agree = all(np.allclose(a, b, 0, nondet_tol) for a, b in zip(*passes, strict=True))
    return tuple([wrap(a) for a in passes[0]]), agree, has_sizes, has_dtypes
