"""Automatic differentiation of tensors: ``backward``, ``grad``, ``Function``, grad modes, the
graph.

Layer: 9.
"""

import typing as _typing

from functrace.lazy import lazy_attributes as _lazy_attributes
from functrace.torch.autograd import anomaly_mode, forward_ad, function, grad_mode, graph
from functrace.torch.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from functrace.torch.autograd.engine import (
    _calculate_shape,  # noqa: F401
    backward,
    grad,
)
from functrace.torch.autograd.function import Function, NestedIOFunction
from functrace.torch.autograd.grad_mode import (
    _force_original_view_tracking,  # noqa: F401 (what PyTorch's own code and tests reach for)
    _unsafe_preserve_version_counter,  # noqa: F401
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_multithreading_enabled,
    is_view_replay_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from functrace.torch.autograd.gradcheck import gradcheck, gradgradcheck
from functrace.torch.autograd.running import is_checkpoint_valid as _is_checkpoint_valid  # noqa: F401
from functrace.torch.autograd.saved import SavedTensor
from functrace.torch.autograd.variable import Variable

__all__ = [
    "Function",
    "NestedIOFunction",
    "SavedTensor",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "function",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "is_grad_enabled",
    "is_multithreading_enabled",
    "is_view_replay_enabled",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

if _typing.TYPE_CHECKING:  # so that type checkers report a misspelt name
    from functrace.torch.autograd import functional as functional
    from functrace.torch.autograd import profiler as profiler
    from functrace.torch.autograd import profiler_util as profiler_util
else:
    __getattr__, __dir__ = _lazy_attributes(
        __name__,
        __all__,
        {
            "functional": "",
            "profiler": "",
            "profiler_util": "",
            "_profiler_enabled": f"{__name__}.profiler",
            "kineto_available": f"{__name__}.profiler",
            "torch": "functrace",
        },
    )
