"""PyTorch's API: ``import functrace.torch as torch``.

Eager tensors over NumPy arrays with PyTorch 2.13's observable behaviour: ``backward``, graph nodes
and hooks, ``autograd.Function``, saved-tensor hooks, checkpoint. Every derivative is a program that
functrace's core derived.

Layer: 9.
"""

import typing as _typing

import functrace.torch._loading as _loading  # noqa: F401 (first: it loads most modules)
from functrace.lazy import lazy_attributes as _lazy_attributes
from functrace.torch import _C as _C
from functrace.torch import _ops as _ops
from functrace.torch import autograd, func, namespace, nn, random, utils
from functrace.torch.autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from functrace.torch.autograd.anomaly_mode import (
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
)
from functrace.torch.autograd.grad_mode import is_inference_mode_enabled
from functrace.torch.dispatch.overloads import ops
from functrace.torch.errors.warnings import is_warn_always_enabled, set_warn_always
from functrace.torch.func import vmap
from functrace.torch.functions import constants as kinds
from functrace.torch.functions.constants import *  # noqa: F403 (constants, formats, limits, older constructors)
from functrace.torch.lazy import MODULES as _MODULES
from functrace.torch.lazy import NAMES as _LAZY_NAMES
from functrace.torch.namespace import *  # noqa: F403 (the functions and dtypes, by rows)
from functrace.torch.random import GENERATOR as default_generator
from functrace.torch.random import Generator
from functrace.torch.tensors.defaults import set_default_dtype
from functrace.torch.tensors.device import device, get_num_threads, set_num_threads
from functrace.torch.tensors.dtypes import dtype, get_default_dtype
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor, is_tensor
from functrace.torch.torch_version import VERSION as _VERSION
from functrace.torch.torch_version import TorchVersion as _TorchVersion

__all__ = [
    "Generator",
    "Size",
    "Tensor",
    "autograd",
    "default_generator",
    "device",
    "dtype",
    "enable_grad",
    "func",
    "get_default_dtype",
    "get_num_threads",
    "inference_mode",
    "is_anomaly_check_nan_enabled",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "is_tensor",
    "is_warn_always_enabled",
    "nn",
    "no_grad",
    "ops",
    "random",
    "set_anomaly_enabled",
    "set_default_dtype",
    "set_grad_enabled",
    "set_num_threads",
    "set_warn_always",
    "utils",
    "vmap",
]  # fmt: skip
__all__ += namespace.__all__
__all__ += kinds.__all__

LAZY = ("optim", "linalg", "special", "fft", "return_types")
"""Submodules that are imported on first access."""
LAZY += _MODULES
__all__ += LAZY
__all__ += _LAZY_NAMES
__version__ = _TorchVersion(_VERSION)


if _typing.TYPE_CHECKING:
    from functrace.torch import fft as fft
    from functrace.torch import linalg as linalg
    from functrace.torch import optim as optim
    from functrace.torch import return_types as return_types
    from functrace.torch import special as special
    from functrace.torch.amp.autocast_mode import autocast as autocast
    from functrace.torch.check import check_function as check_function
    from functrace.torch.compiler import compile as compile
    from functrace.torch.serialization import load as load
    from functrace.torch.serialization import save as save
    from functrace.torch.standing_in import stand_in as stand_in
else:  # so that type checkers report misspelt names
    __getattr__, __dir__ = _lazy_attributes(
        __name__,
        __all__,
        dict.fromkeys(LAZY, "")
        | {name: f"{__name__}.{module}" for name, module in _LAZY_NAMES.items()},
    )
