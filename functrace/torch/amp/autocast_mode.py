"""``torch.amp.autocast``: a context in which some functions compute in a lower precision.

The lists of functions are in `functrace.torch.dispatch.autocasting`. For absent devices it does
nothing.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrace.torch.dispatch.autocasting import STATE, lower_precision, set_state
from functrace.torch.errors.warnings import warn
from functrace.torch.tensors.device import device
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.dtypes import float64
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "autocast",
    "autocast_decrement_nesting",
    "autocast_increment_nesting",
    "clear_autocast_cache",
    "custom_bwd",
    "custom_fwd",
    "get_autocast_cpu_dtype",
    "get_autocast_dtype",
    "get_autocast_gpu_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_cpu_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_cpu_dtype",
    "set_autocast_cpu_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]

_AVAILABLE = ("cpu", "cuda", "mps", "mtia", "xpu", "maia", "ipu", "hpu", "xla", "privateuseone")


class autocast:
    """Context and decorator in which products and convolutions compute in a lower precision, and
    losses in float32.

    Results have the dtype that they were computed in; gradients that of the tensors.

    Args:
        device_type: kind of device; for another one than the CPU there is no effect.
        dtype: the lower precision; bfloat16 by default on the CPU.
        enabled: False for no effect, also within another ``autocast``.
        cache_enabled: True to cast a parameter once; by default as set.

    Raises:
        ValueError: if the kind of device is no string.
        RuntimeError: for an unknown kind.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(2, 2)
        >>> with torch.autocast("cpu", dtype=torch.float16):
        ...     print((x @ x).dtype, (x + x).dtype)
        torch.float16 torch.float32
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
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._enabled = enabled
        self._cache_enabled = (
            is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        if enabled and self.device == "cuda":
            warn("CUDA is not available or torch_xla is imported. Disabling autocast.")
            self._enabled = False
        elif (
            enabled
            and self.device == "cpu"
            and getattr(self.fast_dtype, "name", "") not in ("bfloat16", "float16")
        ):
            warn(
                "In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                "CPU Autocast only supports dtypes of torch.bfloat16, torch.float16 currently."
            )
            self._enabled = False

    def __enter__(self) -> autocast:
        self._before = (
            is_autocast_enabled(self.device),
            get_autocast_dtype(self.device),
            STATE.caches,
        )
        set_state(self.device, self._enabled, self.fast_dtype)
        STATE.caches = self._cache_enabled
        autocast_increment_nesting()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Return to the state before."""
        if autocast_decrement_nesting() == 0:
            clear_autocast_cache()
        enabled, dtype, STATE.caches = self._before
        set_state(self.device, enabled, dtype)

    def __call__(self, func: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that runs in the context."""

        @functools.wraps(func)
        def decorated(*args: Any, **kwargs: Any) -> Any:
            with self:
                return func(*args, **kwargs)

        return decorated


# -- the state -------------------------------------------------------------------------------------


def is_autocast_available(device_type: str) -> bool:
    """Return True for kinds of devices that PyTorch has autocast for."""
    return device(device_type).type in _AVAILABLE


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return True within ``autocast`` for a kind of device."""
    return STATE.enabled.get(device(device_type).type, False)


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off for a kind of device; for CUDA, if only ``enabled`` is given."""
    kind, value = ("cuda", device_type) if enabled is None else (device_type, enabled)
    set_state(device(str(kind)).type, bool(value), lower_precision(device(str(kind)).type))


def get_autocast_dtype(device_type: str) -> Dtype:
    """Return the lower precision of a kind of device."""
    return lower_precision(device(device_type).type)


def set_autocast_dtype(device_type: str, dtype: Dtype) -> None:
    """Set the lower precision of a kind of device."""
    set_state(device(device_type).type, is_autocast_enabled(device_type), dtype)


def get_autocast_gpu_dtype() -> Dtype:
    """Return the lower precision of CUDA."""
    return lower_precision("cuda")


def is_autocast_cpu_enabled() -> bool:
    """Return True within ``autocast`` for the CPU (deprecated)."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast on or off for the CPU (deprecated)."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> Dtype:
    """Return the lower precision of the CPU (deprecated)."""
    return lower_precision("cpu")


def set_autocast_cpu_dtype(dtype: Dtype) -> None:
    """Set the lower precision of the CPU (deprecated)."""
    set_autocast_dtype("cpu", dtype)


def is_autocast_cache_enabled() -> bool:
    """Return True if casts of parameters are kept."""
    return STATE.caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether casts of parameters are kept."""
    STATE.caches = bool(enabled)


def clear_autocast_cache() -> None:
    """Forget the casts of parameters."""
    STATE.cache.clear()


def autocast_increment_nesting() -> int:
    """Count a context that begins; returns the number of contexts."""
    STATE.nesting += 1
    return STATE.nesting


def autocast_decrement_nesting() -> int:
    """Count a context that ends; returns the number of contexts."""
    STATE.nesting -= 1
    return STATE.nesting


# -- Functions -------------------------------------------------------------------------------------


def _cast(value: Any, device_type: str, dtype: Dtype) -> Any:
    """Return float tensors on a device, also those in containers, in a dtype."""
    if isinstance(value, Tensor):
        is_eligible = (
            value.dtype.is_floating_point
            and value.device.type == device_type
            and value.dtype is not float64
        )
        return value.to(dtype) if is_eligible else value
    if isinstance(value, dict):
        return {
            _cast(key, device_type, dtype): _cast(x, device_type, dtype) for key, x in value.items()
        }
    if isinstance(value, (list, tuple)):
        return type(value)([_cast(x, device_type, dtype) for x in value])
    return value


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: Dtype | None = None
) -> Any:
    """Decorate the forward of a Function, whose backward then runs under the same autocast.

    Args:
        fwd: the forward; None for a decorator.
        device_type: kind of device.
        cast_inputs: under autocast, dtype of the inputs; the forward then runs without autocast.

    Raises:
        ValueError: if the kind of device is no string.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(device_type)
        is_on = is_autocast_enabled(device_type)
        if cast_inputs is None or not is_on:
            ctx._fwd_used_autocast = is_on and cast_inputs is None
            return fwd(*args, **kwargs)
        ctx._fwd_used_autocast = False
        with autocast(device_type, enabled=False):
            given = _cast(args, device_type, cast_inputs)
            return fwd(*given, **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorate the backward of a Function: it runs under the autocast of its forward.

    Args:
        bwd: the backward; None for a decorator.
        device_type: kind of device.

    Raises:
        ValueError: if the kind of device is no string.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(*args, **kwargs)

    return backward
