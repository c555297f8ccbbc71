"""Reentrant checkpointing by a Function, for ``checkpoint(use_reentrant=True)``.

Its backward reruns the whole function and starts a backward pass within the backward pass, so
gradients reach the leaves captured by the function, too. The outer pass must therefore be one that
accumulates: ``autograd.grad`` is refused.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace.torch import errors
from functrace.torch.autograd.engine import backward
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.grad_mode import MODES, enable_grad, no_grad
from functrace.torch.autograd.running import is_checkpoint_valid
from functrace.torch.random import get_rng_state, random_numbers_of
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.utils.device_states import check_backward_validity


class CheckpointFunction(Function):
    """Runs a function without recording; backward reruns it with recording, and runs a backward
    pass through that.
    """

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Any], preserve: bool, *args: Any) -> Any:
        """Run without recording."""
        tensors = [arg for arg in args if isinstance(arg, Tensor)]
        check_backward_validity(args)
        ctx.function = function
        ctx.random = get_rng_state() if preserve else None
        ctx.args = [None if isinstance(arg, Tensor) else arg for arg in args]
        ctx.places = [k for k, arg in enumerate(args) if isinstance(arg, Tensor)]
        ctx.save_for_backward(*tensors)
        with no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Rerun on detached inputs, and pull the gradients back to them."""
        if MODES.floor < 0 and not is_checkpoint_valid():
            raise RuntimeError(errors.REENTRANT_PRUNED)
        args = list(ctx.args)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor.detach().requires_grad_(tensor.requires_grad)
        with random_numbers_of(ctx.random), enable_grad():
            result = ctx.function(*args)
        outputs = result if isinstance(result, tuple) else (result,)
        roots, grads = [], []
        for output, gradient in zip(outputs, grad_outputs, strict=True):
            if isinstance(output, Tensor) and output.requires_grad:
                roots.append(output)
                grads.append(gradient)
        if not roots:
            raise RuntimeError(errors.REENTRANT_WITHOUT_OUTPUTS)
        backward(roots, grads)
        return None, None, *(arg.grad if isinstance(arg, Tensor) else None for arg in args)
