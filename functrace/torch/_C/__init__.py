"""Names of PyTorch's C++ part that ported code uses.

Layer: 9.
"""

from __future__ import annotations

import importlib
import weakref
from typing import Any, final

from functrace.torch import errors
from functrace.torch._C import _autograd as _autograd
from functrace.torch._C import _functions as _functions
from functrace.torch._C._dispatch import (
    _get_dispatch_stack_at,
    _len_torch_dispatch_stack,
    _pop_torch_dispatch_stack,
    _push_on_torch_dispatch_stack,
)
from functrace.torch.autograd.forward_ad import enter_dual_level as _enter_dual_level
from functrace.torch.autograd.forward_ad import exit_dual_level
from functrace.torch.autograd.function import WritingFunctionBase as _FunctionBase
from functrace.torch.autograd.grad_mode import (
    MODES,
    _force_original_view_tracking,
    is_grad_enabled,
    set_multithreading_enabled,
)
from functrace.torch.autograd.grad_mode import inference_mode as _InferenceMode
from functrace.torch.autograd.grad_mode import (
    is_multithreading_enabled as _is_multithreading_enabled,
)
from functrace.torch.autograd.grad_mode import is_view_replay_enabled as _is_view_replay_enabled
from functrace.torch.autograd.grad_mode import switch as _set_grad_enabled
from functrace.torch.autograd.graph import increment_version as _increment_version
from functrace.torch.autograd.running import current_graph_task_id as _current_graph_task_id
from functrace.torch.autograd.running import current_node as _current_autograd_node
from functrace.torch.autograd.running import execution_order as _current_graph_task_execution_order
from functrace.torch.autograd.running import graph_exec_group as _get_graph_exec_group
from functrace.torch.autograd.running import set_graph_exec_group as _set_graph_exec_group
from functrace.torch.autograd.running import will_execute as _will_engine_execute_node
from functrace.torch.autograd.variable import ImperativeEngine as _ImperativeEngine
from functrace.torch.autograd.variable import LegacyVariableBase as _LegacyVariableBase
from functrace.torch.dispatch.dual import is_forward_enabled as _is_fwd_grad_enabled
from functrace.torch.dispatch.overrides import (
    DisableTorchFunctionSubclass as DisableTorchFunctionSubclass,
)
from functrace.torch.dispatch.overrides import disabled as _disabled_torch_function_impl  # noqa: F401
from functrace.torch.tensors.dtypes import DTYPES, dtype
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.tensors.tensor import Tensor as TensorBase

__all__ = [
    "TensorBase",
    "_FunctionBase",
    "_ImperativeEngine",
    "_InferenceMode",
    "_LegacyVariableBase",
    "_WeakTensorRef",
    "_are_functorch_transforms_active",
    "_autograd",
    "_current_autograd_node",
    "_current_graph_task_execution_order",
    "_current_graph_task_id",
    "_enter_dual_level",
    "_exit_dual_level",
    "_functions",
    "_get_all_dtypes",
    "_get_dispatch_stack_at",
    "_get_graph_exec_group",
    "_increment_version",
    "_is_fwd_grad_enabled",
    "_is_multithreading_enabled",
    "_is_view_replay_enabled",
    "_len_torch_dispatch_stack",
    "_pop_torch_dispatch_stack",
    "_push_on_torch_dispatch_stack",
    "_set_fwd_grad_enabled",
    "_set_grad_enabled",
    "_set_graph_exec_group",
    "_set_multithreading_enabled",
    "_set_view_replay_enabled",
    "_will_engine_execute_node",
    "is_grad_enabled",
]


@final
class _WeakTensorRef:
    """Weak reference to a tensor."""

    def __init__(self, tensor: Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Return True if the tensor no longer exists."""
        return self._reference() is None


@final
class _CachedTensors:
    """The tensors whose memory graph captures keep: none here, but they can be listed."""

    def __init__(self) -> None:
        self.enabled = False
        self.references: dict[int, weakref.ref[Tensor]] = {}


_CACHED = _CachedTensors()


def _set_cached_tensors_enabled(enabled: bool) -> None:
    """Enable or disable the list of cached tensors."""
    _CACHED.enabled = enabled


def _add_cached_tensor(tensor: Tensor) -> None:
    """Add a tensor to the list, while it is enabled."""
    key = id(tensor)
    _CACHED.references[key] = weakref.ref(tensor, lambda _: _CACHED.references.pop(key, None))


def _remove_cached_tensor(tensor: Tensor) -> None:
    """Remove a tensor from the list."""
    _CACHED.references.pop(id(tensor), None)


def _is_cached_tensor(tensor: Tensor) -> bool:
    """Return True if a tensor is in the list, and the list is enabled."""
    return _CACHED.enabled and id(tensor) in _CACHED.references


def _get_all_dtypes() -> list[dtype]:
    """Return all dtypes."""
    return list(DTYPES.values())


def _exit_dual_level(level: int) -> None:
    """Leave the level of dual tensors."""
    exit_dual_level(level=level)


def _set_fwd_grad_enabled(enabled: bool) -> None:
    """Enable or disable tangents for operations of this thread."""
    if not isinstance(enabled, bool):
        raise TypeError(errors.forward_enabled_type(errors.kind_of(enabled)))
    MODES.forward = enabled


def _set_multithreading_enabled(enabled: bool) -> None:
    """Set whether backward passes may run in their own threads."""
    set_multithreading_enabled(enabled)


def _set_view_replay_enabled(enabled: bool) -> None:
    """Set whether views are replayed step by step."""
    _force_original_view_tracking(enabled)


def _are_functorch_transforms_active() -> bool:
    """Return True while a function transformed by ``torch.func`` runs."""
    return MODES.functional


def __getattr__(name: str) -> Any:
    """Import ``_nn``, which is made of the rows, and names for PyTorch's own files on first access."""
    if name == "_nn":
        return importlib.import_module(f"{__name__}._nn")
    value = vars(importlib.import_module(f"{__name__}._python")).get(name)
    if value is None or name.startswith("__"):
        raise AttributeError(f"module 'torch._C' has no attribute {name!r}")
    return value
