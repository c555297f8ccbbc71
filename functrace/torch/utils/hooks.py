"""``torch.utils.hooks``: handles of hooks, backward hooks of modules, and hooks excluded from
pickling.

Layer: 9.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import is_grad_enabled
from functrace.torch.autograd.graph import GraphNode
from functrace.torch.autograd.handles import RemovableHandle, warn_if_has_hooks
from functrace.torch.nn.modules._functions import BackwardHookFunction
from functrace.torch.tensors.tensor import Tensor

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

F = TypeVar("F", bound=Callable[..., object])
Grads: TypeAlias = tuple[Tensor | None, ...]
ModuleHook: TypeAlias = Callable[[Any, Grads, Grads], Sequence[Tensor | None] | None]
"""Module hook: from the module and the gradients of its inputs and outputs to new gradients of its
inputs.
"""
ModulePreHook: TypeAlias = Callable[[Any, Grads], Grads | None]
"""Module hook: from the module and the gradients of its outputs to new ones."""


def unserializable_hook(f: F) -> F:
    """Mark a hook that is dropped silently on pickling; `warn_if_has_hooks` ignores it."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


class BackwardHook:
    """Calls hooks with the gradients of both the outputs and the inputs of a module.

    The module's inputs pass through one node, and its outputs through another
    (`BackwardHookFunction`). The output node runs first, and stores their gradients; when the
    input node runs, hooks are called with both.

    Args:
        module: first argument of hooks.
        user_hooks: called with the module, the gradients of its inputs and of its outputs; a
            result replaces the gradients of the inputs.
        user_pre_hooks: called before, with the module and the gradients of its outputs, which a
            result replaces.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> around = torch.utils.hooks.BackwardHook("cube", [lambda name, inputs, outputs: print(name, inputs, outputs)], [])
        >>> (inside,) = around.setup_input_hook((x,))
        >>> around.setup_output_hook(inside**3).sum().backward()
        cube (tensor([3., 3.]),) (tensor([1., 1.]),)
    """

    def __init__(
        self,
        module: object,
        user_hooks: Iterable[ModuleHook],
        user_pre_hooks: Iterable[ModulePreHook],
    ) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.grad_outputs: Grads | None = None
        self.n_outputs = self.n_inputs = -1
        self.output_tensors_index: list[int] | None = None
        self.input_tensors_index: list[int] | None = None

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return a module's arguments, behind the input node."""
        found, self.input_tensors_index = _behind_node(
            args, lambda node: node.register_hook(self._input_hook)
        )
        self.n_inputs = len(args)
        return found

    def setup_output_hook(self, args: Any) -> Any:
        """Return a module's results, a tensor or a tuple, behind the output node."""
        several = args if isinstance(args, tuple) else (args,)
        found, self.output_tensors_index = _behind_node(
            several, lambda node: node.register_hook(self._output_hook)
        )
        self.n_outputs = len(several)
        return found if isinstance(args, tuple) else found[0]

    def _input_hook(self, grad_inputs: Grads, _grad_outputs: Grads) -> Grads | None:
        outputs = self.grad_outputs
        if outputs is None or self.input_tensors_index is None:
            # this gradient does not come through the module's outputs, as in double backward
            return None
        inputs: Sequence[Tensor | None] = _placed(
            self.input_tensors_index, grad_inputs, self.n_inputs
        )
        for hook in self.user_hooks:
            found = hook(self.module, tuple(inputs), outputs)
            if found is None:
                continue
            if len(found) != len(inputs):
                raise RuntimeError(
                    errors.module_hook_count("Backward hook", "grad_input", len(found), len(inputs))
                )
            inputs = found
        self.grad_outputs = None
        return tuple([inputs[k] for k in self.input_tensors_index])

    def _output_hook(self, _grad_inputs: Grads, grad_outputs: Grads) -> Grads | None:
        places = self.output_tensors_index or []
        outputs = _placed(places, grad_outputs, self.n_outputs)
        for hook in self.user_pre_hooks:
            found = hook(self.module, outputs)
            if found is None:
                continue
            if len(found) != self.n_outputs:
                raise RuntimeError(
                    errors.module_hook_count(
                        "Backward pre hook", "grad_output", len(found), self.n_outputs
                    )
                )
            outputs = found
        self.grad_outputs = outputs
        if self.input_tensors_index is None:
            self._without_inputs(outputs)
        return tuple([outputs[k] for k in places])

    def _without_inputs(self, outputs: Grads) -> None:
        """Call the hooks of a module none of whose inputs requires grad."""
        warnings.warn(errors.MODULE_HOOK_WITHOUT_INPUTS, stacklevel=6)
        for hook in self.user_hooks:
            found = hook(self.module, (None,) * self.n_inputs, outputs)
            if found is not None and not (
                isinstance(found, tuple) and all(g is None for g in found)
            ):
                raise RuntimeError(errors.MODULE_HOOK_RETURNED)
        self.grad_outputs = None


def _placed(places: Sequence[int], grads: Grads, count: int) -> Grads:
    """Return gradients at these indices, and None at the others."""
    found: list[Tensor | None] = [None] * count
    for k, gradient in zip(places, grads, strict=True):
        found[k] = gradient
    return tuple(found)


def _behind_node(args: Any, found: Callable[[GraphNode], object]) -> tuple[Any, list[int] | None]:
    """Return arguments with their tensors behind a node, and the tensors' indices; None if none
    requires grad.

    Args:
        args: a tuple, or a named one.
        found: called with the node.
    """
    places = [k for k, x in enumerate(args) if isinstance(x, Tensor)]
    if not (is_grad_enabled() and any(args[k].requires_grad for k in places)):
        return args, None
    made = BackwardHookFunction.apply(*[args[k] for k in places])
    found(next(x.grad_fn for x in made if x.grad_fn is not None))
    several = list(args)
    for k, x in zip(places, made, strict=True):
        several[k] = x
    return tuple(several) if type(args) is tuple else type(args)(*several), places
