"""``torch.amp.autocast``: a context without effect, as PyTorch's for absent devices.

On the CPU PyTorch would compute some operations in bfloat16 or float16. Here an enabled autocast
for the CPU is refused, since its numbers would differ; a disabled one, and one for another device,
does nothing.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrace.torch.errors.warnings import warn
from functrace.torch.tensors.device import device
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.dtypes import float16, named

__all__ = [
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
]

_AVAILABLE = ("cpu", "cuda", "mps", "mtia", "xpu", "maia", "ipu", "hpu", "xla", "privateuseone")


class autocast:
    """Context and decorator that computes in a lower precision: accepted where that has no effect.

    Args:
        device_type: kind of device.
        dtype: the lower precision.
        enabled: False for no effect.
        cache_enabled: ignored.

    Raises:
        ValueError: if the kind of device is no string.
        RuntimeError: for an unknown kind.
        NotImplementedError: when an enabled autocast for the CPU is entered.

    Example:
        >>> import functrace.torch as torch
        >>> with torch.autocast("cpu", enabled=False):
        ...     print(torch.ones(1).dtype)
        torch.float32
    """

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = device(device_type).type
        self.fast_dtype = dtype
        self._enabled = enabled
        if enabled and self.device == "cuda":
            warn("CUDA is not available or torch_xla is imported. Disabling autocast.")
            self._enabled = False
        elif (
            enabled
            and self.device == "cpu"
            and getattr(dtype, "name", "") in ("float32", "float64")
        ):
            warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
            )
            self._enabled = False

    def __enter__(self) -> autocast:
        if self._enabled and self.device == "cpu":
            raise NotImplementedError(
                "functrace.torch has no autocast on the CPU: it would compute in bfloat16\n"
                "fix: pass enabled=False, or convert tensors with to(dtype)"
            )
        return self

    def __exit__(self, *_exception: object) -> None:
        """Do nothing."""

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs in the context."""

        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return decorated


def is_autocast_available(device_type: str) -> bool:
    """Return True for kinds of devices that PyTorch has autocast for."""
    return device(device_type).type in _AVAILABLE


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return False: it is never enabled."""
    return False


def is_autocast_cpu_enabled() -> bool:
    """Return False: it is never enabled."""
    return False


def is_autocast_cache_enabled() -> bool:
    """Return True, the default."""
    return True


def get_autocast_dtype(device_type: str) -> Dtype:
    """Return the lower precision of a kind of device."""
    return named("bfloat16") if device(device_type).type == "cpu" else float16


def get_autocast_gpu_dtype() -> Dtype:
    """Return the lower precision of CUDA."""
    return float16


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Dtype | None = None
) -> Any:
    """Decorate the forward of a Function: returns it, since autocast is never enabled.

    Args:
        fwd: the forward; None for a decorator.
        device_type: kind of device.
        cast_inputs: dtype of the inputs under autocast.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    return fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorate the backward of a Function: returns it, since autocast is never enabled.

    Args:
        bwd: the backward; None for a decorator.
        device_type: kind of device.
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    return bwd
