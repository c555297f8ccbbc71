"""The stack of dispatch modes, as used by PyTorch's ``TorchDispatchMode``.

Layer: 9.
"""

from typing import Any

from functrace.torch.dispatch import wrapping as wrapping  # (it gives tensors a method)
from functrace.torch.dispatch.modes import activate, active

__all__ = [
    "_get_dispatch_stack_at",
    "_len_torch_dispatch_stack",
    "_pop_torch_dispatch_stack",
    "_push_on_torch_dispatch_stack",
]


def _push_on_torch_dispatch_stack(mode: Any) -> None:
    """Push a mode: it gets operations before those already active."""
    activate((*active(), mode))


def _pop_torch_dispatch_stack(key: object = None) -> Any:
    """Pop the innermost mode, and return it."""
    *rest, mode = active()
    activate(tuple(rest))
    return mode


def _len_torch_dispatch_stack() -> int:
    """Return the number of active modes."""
    return len(active())


def _get_dispatch_stack_at(place: int) -> Any:
    """Return the mode at an index, 0 being the outermost."""
    return active()[place]
