"""What PyTorch's checkpoint asks about devices and arguments. There is one device here, whose generator it keeps itself.

Layer: 9.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, final

from functrace.torch import errors
from functrace.torch.tensors.tensor import Tensor


@final
class DefaultDeviceType:
    """The kind of device whose generators a checkpoint keeps, where no argument says which: the CPU's, always kept."""

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Name another one; there is none of it."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the kind of device."""
        if not DefaultDeviceType._default_device_type:
            DefaultDeviceType._default_device_type = "cpu"
        return DefaultDeviceType._default_device_type


def _infer_device_type(*args: object) -> str:
    """Return the kind of device that arguments are on: all are on the CPU, so it is the default."""
    return DefaultDeviceType.get_device_type()


def get_device_states(*args: object) -> tuple[list[int], list[Tensor]]:
    """Return the devices, other than the CPU, that tensors among the arguments are on, and their generators: none."""
    return [], []


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Set the generators of devices other than the CPU.

    Raises:
        RuntimeError: if there are any.
    """
    if device_type != "meta" and any(True for _ in zip(devices, states, strict=False)):
        raise RuntimeError(errors.NO_OTHER_DEVICE)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments in which tensors are leaves that want gradients as before.

    Raises:
        RuntimeError: for anything but a tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple([x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs])


def check_backward_validity(inputs: Iterable[object]) -> None:
    """Warn if no tensor wants a gradient."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn(errors.REENTRANT_WITHOUT_INPUTS, UserWarning, stacklevel=2)
