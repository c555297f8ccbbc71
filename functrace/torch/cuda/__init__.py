"""``torch.cuda`` of a build without CUDA: no device is there, and requests of one are refused.

Layer: 9.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, NoReturn

from functrace.torch import errors
from functrace.torch.cuda import amp
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "CUDAGraph",
    "Event",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "set_device",
    "stream",
    "synchronize",
]

has_half = True
has_magma = False


class OutOfMemoryError(RuntimeError):
    """A device has no memory left; never raised here."""


class DeferredCudaCallError(Exception):
    """A call that waited for the initialization of CUDA failed; never raised here."""


class AcceleratorError(RuntimeError):
    """A device failed; never raised here."""


def is_available() -> bool:
    """Return False."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False."""
    return False


def is_tf32_supported() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def get_arch_list() -> list[str]:
    """Return no architectures."""
    return []


def get_gencode_flags() -> str:
    """Return no flags."""
    return ""


def empty_cache() -> None:
    """Do nothing."""


def manual_seed(seed: int) -> None:
    """Do nothing: there is no generator on a device."""


def manual_seed_all(seed: int) -> None:
    """Do nothing: there is no generator on a device."""


def seed() -> None:
    """Do nothing: there is no generator on a device."""


def seed_all() -> None:
    """Do nothing: there is no generator on a device."""


def get_rng_state_all() -> list[Tensor]:
    """Return no states."""
    return []


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Set no states.

    Raises:
        AssertionError: for a state of a device.
    """
    for _ in new_states:
        raise AssertionError(errors.NO_CUDA)


def memory_allocated(device: object = None) -> int:
    """Return 0."""
    return 0


def max_memory_allocated(device: object = None) -> int:
    """Return 0."""
    return 0


def memory_reserved(device: object = None) -> int:
    """Return 0."""
    return 0


def max_memory_reserved(device: object = None) -> int:
    """Return 0."""
    return 0


def memory_stats(device: object = None) -> dict[str, Any]:
    """Return no statistics."""
    return OrderedDict()


def reset_peak_memory_stats(device: object = None) -> None:
    """Do nothing."""


def reset_max_memory_allocated(device: object = None) -> None:
    """Do nothing."""


def _refused(name: str) -> Callable[..., NoReturn]:
    def function(*_arguments: object, **_options: object) -> NoReturn:
        raise AssertionError(errors.NO_CUDA)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raise: there is no CUDA device."
    return function


init = _refused("init")
current_device = _refused("current_device")
current_stream = _refused("current_stream")
default_stream = _refused("default_stream")
synchronize = _refused("synchronize")
ipc_collect = _refused("ipc_collect")
get_device_name = _refused("get_device_name")
get_device_properties = _refused("get_device_properties")
get_device_capability = _refused("get_device_capability")
get_rng_state = _refused("get_rng_state")
set_rng_state = _refused("set_rng_state")
initial_seed = _refused("initial_seed")
mem_get_info = _refused("mem_get_info")
set_per_process_memory_fraction = _refused("set_per_process_memory_fraction")


def set_device(device: object) -> None:
    """Do nothing for a negative number.

    Raises:
        AssertionError: for any device.
    """
    if not (isinstance(device, int) and device < 0):
        raise AssertionError(errors.NO_CUDA)


class device:
    """Context that makes a device the current one: refused, unless its number is negative or None.

    Args:
        device: the device.
    """

    def __init__(self, device: object) -> None:
        self.idx = -1 if device is None or (isinstance(device, int) and device < 0) else 0

    def __enter__(self) -> None:
        if self.idx >= 0:
            raise RuntimeError("PyTorch was compiled without CUDA support")

    def __exit__(self, *_exception: object) -> None:
        """Do nothing."""


class device_of(device):
    """Context that makes the device of a tensor the current one; for the CPU's, it does nothing.

    Args:
        obj: the tensor.
    """

    def __init__(self, obj: object) -> None:
        super().__init__(-1)


class stream:
    """Context that makes a stream the current one; None is accepted, which changes nothing.

    Args:
        stream: None.
    """

    def __init__(self, stream: object) -> None:
        if stream is not None:
            raise AssertionError(errors.NO_CUDA)

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Do nothing."""


class _Absent:
    """A class whose instances need CUDA."""

    def __new__(cls, *_arguments: object, **_options: object) -> NoReturn:
        """Raise."""
        raise RuntimeError(f"torch.cuda.{cls.__name__} requires CUDA support")


class Stream(_Absent):
    """A stream of a device: refused."""


class ExternalStream(_Absent):
    """A stream of another library: refused."""


class Event(_Absent):
    """A marker in a stream: refused."""


class CUDAGraph(_Absent):
    """A recorded graph of kernels: refused."""
