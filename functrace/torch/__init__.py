"""PyTorch's face: ``import functrace.torch as torch``.

Eager tensors over NumPy arrays with PyTorch 2.13's observable behaviour: ``backward``, graph nodes and hooks, ``autograd.Function``,
saved-tensor hooks, checkpoint. Every derivative is a program that functrace's core derived.

Floor: 8.
"""

from functrace.torch import _C, autograd, utils
from functrace.torch.autograd import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from functrace.torch.creation import tensor
from functrace.torch.dtypes import *  # noqa: F403
from functrace.torch.functions import *  # noqa: F403
from functrace.torch.random import get_rng_state, initial_seed, manual_seed, set_rng_state
from functrace.torch.size import Size
from functrace.torch.tensor import Tensor

__all__ = [
    "_C",
    "Size",
    "Tensor",
    "autograd",
    "enable_grad",
    "get_rng_state",
    "initial_seed",
    "is_grad_enabled",
    "manual_seed",
    "no_grad",
    "set_grad_enabled",
    "set_rng_state",
    "tensor",
    "utils",
]
