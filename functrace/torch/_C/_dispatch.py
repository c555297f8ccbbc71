"""The stack of dispatch modes, as PyTorch's own ``TorchDispatchMode`` keeps it.

Layer: 9.
"""

from typing import Any

from functrace.torch.dispatch.modes import activate, active

__all__ = [
    "_get_dispatch_stack_at",
    "_len_torch_dispatch_stack",
    "_pop_torch_dispatch_stack",
    "_push_on_torch_dispatch_stack",
]


def _push_on_torch_dispatch_stack(mode: Any) -> None:
    """Let a mode see operations before those that are active."""
    activate((*active(), mode))


def _pop_torch_dispatch_stack(key: object = None) -> Any:
    """Take the innermost mode off, and return it."""
    *rest, mode = active()
    activate(tuple(rest))
    return mode


def _len_torch_dispatch_stack() -> int:
    """Return how many modes are active."""
    return len(active())


def _get_dispatch_stack_at(place: int) -> Any:
    """Return the mode of a place, 0 being the outermost."""
    return active()[place]
