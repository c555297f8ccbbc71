"""Shared parts of `gradcheck`: the error, random numbers, and the display of Jacobians.

Layer: 9.
"""

from __future__ import annotations

import math

import numpy as np

from functrace.torch.random.generator import generator
from functrace.torch.random.numbers import uniforms
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.typing import Array


class GradcheckError(RuntimeError):
    """Raised by `gradcheck` for wrong derivatives."""


def returned(given: object) -> tuple[Tensor, ...]:
    """Return the results of a function as a tuple.

    Raises:
        TypeError: if a result is no tensor.
    """
    found: list[Tensor] = []
    for x in given if isinstance(given, (tuple, list)) else (given,):
        if not isinstance(x, Tensor):
            raise TypeError(f"gradcheck: the function returned a {type(x).__name__}, not a tensor")
        found.append(x)
    return tuple(found)


def _uniform(low: float, shape: tuple[int, ...]) -> Array:
    count = math.prod(shape)
    return uniforms(generator().engine, count, np.dtype(np.float64), low).reshape(shape)


def random_like(x: Tensor, scattered: bool) -> Tensor:
    """Return random numbers between -1 and 1, not contiguous if ``scattered``."""
    shape = (*x.shape, 2) if scattered else tuple(x.shape)
    numbers = _uniform(-1, shape)
    if x._array.dtype.kind == "c":
        numbers = numbers + 1j * _uniform(-1, shape)
    numbers = numbers.astype(x._array.dtype)
    return wrap(numbers[..., 0] if scattered else numbers).requires_grad_()


def unit(n: int) -> Array:
    """Return a random vector of length one."""
    v = _uniform(0, (n,))
    return v / np.linalg.norm(v) if n else v


def mismatch(what: str, i: int, j: int, numerical: Array, analytical: Array) -> str:
    """Return the error message for two different Jacobians of output ``j`` by input ``i``."""
    shown = f"numerical:{text_of(numerical)}\nanalytical:{text_of(analytical)}\n"
    return f"{what} for output {j} with respect to input {i},\n{shown}"


def text_of(jacobian: Array) -> str:
    """Return a Jacobian as text."""
    return repr(wrap(jacobian))
