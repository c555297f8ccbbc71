"""The arithmetic of optimizers, on NumPy arrays and on tensors.

An optimizer's formula is written once, against one of these namespaces. `Arrays` overwrites NumPy
arrays, which is fast. `Tensors` calls tensor operations: for traced values, subclasses, dispatch
modes. `Differentiable` also keeps what backward needs, for ``differentiable=True``.

Note [Rounding of products]
    Every product is rounded before it is added, in the order in which PyTorch's kernels multiply.
    Where the processor has fused multiply-add, PyTorch's kernels for ``add(alpha=)``, ``lerp`` and
    ``addcmul`` round once: the last bit then differs from ours, and from PyTorch's own result with
    ``ATEN_CPU_CAPABILITY=default``, which is ours.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from functrace.torch import namespace as torch
from functrace.torch.tensors.tensor import Tensor
from functrace.typing import Array

Arithmetic: TypeAlias = Any
"""One of the classes of this module, as the argument of a formula."""
Operand: TypeAlias = Any
"""A value of that class: an array or a tensor."""


class Arrays:
    """Arithmetic on NumPy arrays. Names end with ``_`` where the first argument is overwritten."""

    @staticmethod
    def neg(x: Array) -> Any:
        """Return ``-x``."""
        return np.negative(x)

    @staticmethod
    def detach(x: Array) -> Any:
        """Return ``x`` without history."""
        return x

    @staticmethod
    def copy_(x: Array, y: Array) -> None:
        """Overwrite ``x`` with ``y``."""
        np.copyto(x, y)

    @staticmethod
    def add(x: Array, y: Array, alpha: float = 1) -> Any:
        """Return ``x + alpha * y``."""
        return np.add(x, y if alpha == 1 else np.multiply(y, alpha))

    @staticmethod
    def add_(x: Array, y: Array, alpha: float = 1) -> None:
        """Add ``alpha * y`` to ``x``."""
        if alpha == 1:
            np.add(x, y, x)
        elif alpha == -1:
            np.subtract(x, y, x)
        else:
            np.add(x, np.multiply(y, alpha), x)

    @staticmethod
    def sub(x: Array, y: Array) -> Any:
        """Return ``x - y``."""
        return np.subtract(x, y)

    @staticmethod
    def mul(x: Array, y: Array | float) -> Any:
        """Return ``x * y``; ``x`` is a temporary value, which may be overwritten."""
        return np.multiply(x, y, x)

    @staticmethod
    def mul_(x: Array, y: Array | float) -> None:
        """Multiply ``x`` by ``y``."""
        np.multiply(x, y, x)

    @staticmethod
    def square(x: Array) -> Any:
        """Return ``x * x``."""
        return np.multiply(x, x)

    @staticmethod
    def product(x: Array, y: Array) -> Any:
        """Return ``x * y``."""
        return np.multiply(x, y)

    @staticmethod
    def div(x: Array, y: Array | float) -> Any:
        """Return ``x / y``."""
        return np.divide(x, y)

    @staticmethod
    def over(number: float, x: Array) -> Any:
        """Return ``number / x`` as PyTorch does, by the reciprocal of the temporary ``x``."""
        np.reciprocal(x, x)
        return np.multiply(x, number, x)

    @staticmethod
    def shift(x: Array, number: float) -> Any:
        """Return ``x + number``; ``x`` is a temporary value, which may be overwritten."""
        return np.add(x, number, x)

    @staticmethod
    def plus(x: Array, number: float) -> Any:
        """Return ``x + number``."""
        return np.add(x, number)

    @staticmethod
    def sqrt(x: Array) -> Any:
        """Return the square root."""
        return np.sqrt(x)

    @staticmethod
    def abs(x: Array) -> Any:
        """Return the absolute value."""
        return np.abs(x)

    @staticmethod
    def sign(x: Array) -> Any:
        """Return the sign."""
        return np.sign(x)

    @staticmethod
    def lerp(x: Array, y: Array, weight: float) -> Any:
        """Return the value between ``x`` and ``y``, from the nearer end."""
        made = np.subtract(y, x)
        if abs(weight) < 0.5:
            np.multiply(made, weight, made)
            return np.add(x, made, made)
        one = x.dtype.type(1)
        np.multiply(made, one - x.dtype.type(weight), made)
        return np.subtract(y, made, made)

    @staticmethod
    def lerp_(x: Array, y: Array, weight: float) -> None:
        """Move ``x`` towards ``y``; see `lerp`."""
        if abs(weight) < 0.5:
            made = np.subtract(y, x)
            np.multiply(made, weight, made)
            np.add(x, made, x)
        else:
            np.copyto(x, Arrays.lerp(x, y, weight))

    @staticmethod
    def addcmul_(x: Array, a: Array, b: Array, value: float = 1) -> None:
        """Add ``value * a * b`` to ``x``."""
        if value == 1:
            np.add(x, np.multiply(a, b), x)
        elif value == -1:
            np.subtract(x, np.multiply(a, b), x)
        else:
            made = np.multiply(a, value)
            np.multiply(made, b, made)
            np.add(x, made, x)

    @staticmethod
    def addcdiv_(x: Array, a: Array, b: Array, value: float = 1) -> None:
        """Add ``value * a / b`` to ``x``."""
        if value == 1:
            made = np.divide(a, b)
        else:
            made = np.multiply(a, value)
            np.divide(made, b, made)
        np.add(x, made, x)

    @staticmethod
    def maximum_(x: Array, y: Array) -> None:
        """Overwrite ``x`` with the maximum of both."""
        np.maximum(x, y, out=x)

    @staticmethod
    def clamp_(x: Array, low: float, high: float) -> None:
        """Limit ``x`` to an interval."""
        np.clip(x, low, high, out=x)

    @staticmethod
    def by_sign(x: Array, positive: float, negative: float) -> Any:
        """Return ``positive``, ``negative`` or 1 by the sign of ``x``; nan stays nan."""
        made = np.sign(x)
        up, down, zero = made > 0, made < 0, made == 0
        made[up], made[down], made[zero] = positive, negative, 1
        return made

    @staticmethod
    def zeroed(x: Array, where: Array, number: float) -> Any:
        """Return ``x``, with 0 where ``where`` equals a number."""
        made = x.copy()
        made[where == where.dtype.type(number)] = 0
        return made

    @staticmethod
    def norms(x: Array, axis: int) -> Any:
        """Return the 2-norms along an axis, which stays with size 1."""
        return np.sqrt(np.add.reduce(np.multiply(x, x), axis, keepdims=True))

    @staticmethod
    def norm(x: Array) -> float:
        """Return the 2-norm of all elements, as a number."""
        flat = x.reshape(-1)
        return float(np.sqrt(np.dot(flat, flat)))

    @staticmethod
    def mean(x: Array, axis: int) -> Any:
        """Return the means along an axis, which stays with size 1."""
        return np.mean(x, axis, keepdims=True)

    @staticmethod
    def matmul(x: Array, y: Array) -> Any:
        """Return the matrix product."""
        return np.matmul(x, y)

    @staticmethod
    def at_least(x: Array, low: float) -> Any:
        """Return ``max(x, low)``."""
        return np.maximum(x, x.dtype.type(low))

    @staticmethod
    def rsqrt(x: Array) -> Any:
        """Return ``1 / sqrt(x)``."""
        made = np.sqrt(x)
        return np.divide(1, made, made)


class Tensors:
    """The arithmetic of `Arrays` on tensors, by the operations that PyTorch's optimizers use."""

    @staticmethod
    def neg(x: Tensor) -> Any:
        """Return ``-x``."""
        return x.neg()

    @staticmethod
    def detach(x: Tensor) -> Any:
        """Return ``x`` without history."""
        return x.detach()

    @staticmethod
    def copy_(x: Tensor, y: Tensor) -> None:
        """Overwrite ``x`` with ``y``."""
        x.copy_(y)

    @staticmethod
    def add(x: Tensor, y: Tensor, alpha: float = 1) -> Any:
        """Return ``x + alpha * y``."""
        return x.add(y, alpha=alpha)

    @staticmethod
    def add_(x: Tensor, y: Tensor, alpha: float = 1) -> None:
        """Add ``alpha * y`` to ``x``."""
        x.add_(y, alpha=alpha)

    @staticmethod
    def sub(x: Tensor, y: Tensor) -> Any:
        """Return ``x - y``."""
        return x.sub(y)

    @staticmethod
    def mul(x: Tensor, y: Tensor | float) -> Any:
        """Return ``x * y``."""
        return x.mul(y)

    @staticmethod
    def mul_(x: Tensor, y: Tensor | float) -> None:
        """Multiply ``x`` by ``y``."""
        x.mul_(y)

    @staticmethod
    def square(x: Tensor) -> Any:
        """Return ``x * x``."""
        return x * x

    @staticmethod
    def product(x: Tensor, y: Tensor) -> Any:
        """Return ``x * y``."""
        return x.mul(y)

    @staticmethod
    def div(x: Tensor, y: Tensor | float) -> Any:
        """Return ``x / y``."""
        return x.div(y)

    @staticmethod
    def over(number: float, x: Tensor) -> Any:
        """Return ``number / x``."""
        return number / x

    @staticmethod
    def shift(x: Tensor, number: float) -> Any:
        """Return ``x + number``; ``x`` is a temporary value, which is overwritten."""
        return x.add_(number)

    @staticmethod
    def plus(x: Tensor, number: float) -> Any:
        """Return ``x + number``."""
        return x.add(number)

    @staticmethod
    def sqrt(x: Tensor) -> Any:
        """Return the square root."""
        return x.sqrt()

    @staticmethod
    def abs(x: Tensor) -> Any:
        """Return the absolute value."""
        return x.abs()

    @staticmethod
    def sign(x: Tensor) -> Any:
        """Return the sign."""
        return x.sign()

    @staticmethod
    def lerp(x: Tensor, y: Tensor, weight: float) -> Any:
        """Return the value between ``x`` and ``y``."""
        return x.lerp(y, weight)

    @staticmethod
    def lerp_(x: Tensor, y: Tensor, weight: float) -> None:
        """Move ``x`` towards ``y``."""
        x.lerp_(y, weight)

    @staticmethod
    def addcmul_(x: Tensor, a: Tensor, b: Tensor, value: float = 1) -> None:
        """Add ``value * a * b`` to ``x``."""
        x.addcmul_(a, b, value=value)

    @staticmethod
    def addcdiv_(x: Tensor, a: Tensor, b: Tensor, value: float = 1) -> None:
        """Add ``value * a / b`` to ``x``."""
        x.addcdiv_(a, b, value=value)

    @staticmethod
    def maximum_(x: Tensor, y: Tensor) -> None:
        """Overwrite ``x`` with the maximum of both."""
        x.copy_(torch.maximum(x, y))

    @staticmethod
    def clamp_(x: Tensor, low: float, high: float) -> None:
        """Limit ``x`` to an interval."""
        x.clamp_(low, high)

    @staticmethod
    def by_sign(x: Tensor, positive: float, negative: float) -> Any:
        """Return ``positive``, ``negative`` or 1 by the sign of ``x``; nan stays nan."""
        made = x.sign()
        made = torch.where(made > 0, positive, made)
        made = torch.where(made < 0, negative, made)
        return torch.where(made == 0, 1.0, made)

    @staticmethod
    def zeroed(x: Tensor, where: Tensor, number: float) -> Any:
        """Return ``x``, with 0 where ``where`` equals a number."""
        return torch.where(where == number, 0.0, x)

    @staticmethod
    def norms(x: Tensor, axis: int) -> Any:
        """Return the 2-norms along an axis, which stays with size 1."""
        return x.norm(2, axis, keepdim=True)

    @staticmethod
    def norm(x: Tensor) -> Any:
        """Return the 2-norm of all elements, as a number."""
        return x.norm(2).item()

    @staticmethod
    def mean(x: Tensor, axis: int) -> Any:
        """Return the means along an axis, which stays with size 1."""
        return x.mean(axis, keepdim=True)

    @staticmethod
    def matmul(x: Tensor, y: Tensor) -> Any:
        """Return the matrix product."""
        return x @ y

    @staticmethod
    def at_least(x: Tensor, low: float) -> Any:
        """Return ``max(x, low)``."""
        return x.clamp(min=low)

    @staticmethod
    def rsqrt(x: Tensor) -> Any:
        """Return ``1 / sqrt(x)``."""
        return x.rsqrt()


class Differentiable(Tensors):
    """The arithmetic of `Tensors`, through which gradients flow.

    A buffer is overwritten again by the next step. Operations that save an operand for backward
    therefore get a copy of it. Numbers may be tensors, too: learning rates and betas.
    """

    @staticmethod
    def add(x: Tensor, y: Tensor, alpha: float | Tensor = 1) -> Any:
        """Return ``x + alpha * y``."""
        return x + y.clone() * alpha if isinstance(alpha, Tensor) else x.add(y, alpha=alpha)

    @staticmethod
    def add_(x: Tensor, y: Tensor, alpha: float | Tensor = 1) -> None:
        """Add ``alpha * y`` to ``x``."""
        if isinstance(alpha, Tensor):
            x.add_(y.clone() * alpha)
        else:
            x.add_(y, alpha=alpha)

    @staticmethod
    def mul(x: Tensor, y: Tensor | float) -> Any:
        """Return ``x * y``."""
        return x * (y.clone() if isinstance(y, Tensor) else y)

    @staticmethod
    def mul_(x: Tensor, y: Tensor | float) -> None:
        """Multiply ``x`` by ``y``."""
        x.mul_(y.clone() if isinstance(y, Tensor) else y)

    @staticmethod
    def shift(x: Tensor, number: float | Tensor) -> Any:
        """Return ``x + number``."""
        return x.add(number)

    @staticmethod
    def square(x: Tensor) -> Any:
        """Return ``x * x``."""
        copy = x.clone()
        return copy * copy

    @staticmethod
    def abs(x: Tensor) -> Any:
        """Return the absolute value."""
        return x.clone().abs()

    @staticmethod
    def sqrt(x: Tensor) -> Any:
        """Return the square root."""
        return x.clone().sqrt()

    @staticmethod
    def lerp_(x: Tensor, y: Tensor, weight: float | Tensor) -> None:
        """Move ``x`` towards ``y``."""
        if isinstance(weight, Tensor):
            x.copy_(x + (y - x) * weight)
        else:
            x.lerp_(y, weight)

    @staticmethod
    def addcmul_(x: Tensor, a: Tensor, b: Tensor, value: float | Tensor = 1) -> None:
        """Add ``value * a * b`` to ``x``."""
        x.add_(a.clone() * b.clone() * value)

    @staticmethod
    def addcdiv_(x: Tensor, a: Tensor, b: Tensor, value: float | Tensor = 1) -> None:
        """Add ``value * a / b`` to ``x``."""
        x.add_(a.clone() / b.clone() * value)

    @staticmethod
    def maximum_(x: Tensor, y: Tensor) -> None:
        """Overwrite ``x`` with the maximum of both."""
        x.copy_(torch.maximum(x.clone(), y.clone()))

    @staticmethod
    def product(x: Tensor, y: Tensor) -> Any:
        """Return ``x * y``."""
        return x.clone() * y.clone()
