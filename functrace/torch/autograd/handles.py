"""Handles of registered hooks, and the dicts that hold hooks.

`RemovableHandle` is exported from ``torch.utils.hooks`` and ``torch.autograd.graph``.

Layer: 9.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from functrace.torch import errors

if TYPE_CHECKING:
    from functrace.torch.tensors.tensor import Tensor

State: TypeAlias = tuple[Any, ...]


class HookDict(dict[int, Any]):
    """Hooks in registration order; a dict to which handles can refer weakly."""

    __slots__ = ("__weakref__",)


class RemovableHandle:
    """Handle of a hook; ``remove()`` unregisters the hook.

    Args:
        hooks_dict: the dict that has the hook, or will have it; held weakly, so it may not be a
            plain ``dict``.
        extra_dict: another dict, or several, with entries of the hook under the same key.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> with x.register_hook(lambda grad: grad * 10) as handle:
        ...     x.sum().backward()
        >>> x.grad, isinstance(handle, torch.utils.hooks.RemovableHandle)
        (tensor([10., 10.]), True)
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra: Sequence[Any] = (extra_dict,) if isinstance(extra_dict, dict) else extra_dict or ()
        self.extra_dict_ref = tuple(map(weakref.ref, extra))

    def remove(self) -> None:
        """Unregister the hook; does nothing if it, or the object it was registered on, no longer
        exists.
        """
        for reference in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = reference()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> State:
        return (
            self.hooks_dict_ref(),
            self.id,
            tuple([reference() for reference in self.extra_dict_ref]),
        )

    def __setstate__(self, state: State) -> None:
        hooks, self.id, *extra = state
        self.hooks_dict_ref = weakref.ref(
            OrderedDict() if hooks is None else hooks
        )  # a new dict is freed immediately
        self.extra_dict_ref = tuple(map(weakref.ref, extra[0] or ())) if extra else ()
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()


def register(hooks: dict[int, Any], hook: Callable[..., Any]) -> RemovableHandle:
    """Append a hook; returns its handle."""
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn that the hooks of a tensor to be pickled are not kept."""
    for hook in (tensor._backward_hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warnings.warn(errors.hook_not_kept(hook), stacklevel=2)
