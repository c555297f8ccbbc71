"""Device and argument checks of PyTorch's checkpoint. The only device is the CPU, whose generator
checkpoint keeps itself.

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
    """Default kind of device whose generators a checkpoint keeps, besides the CPU's."""

    _default_device_type: str | None = None

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set another kind; there is no such device."""
        DefaultDeviceType._default_device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Return the kind of device."""
        if not DefaultDeviceType._default_device_type:
            DefaultDeviceType._default_device_type = "cpu"
        return DefaultDeviceType._default_device_type


def _infer_device_type(*args: object) -> str:
    """Return the kind of device of the arguments: all are on the CPU, so it is the default."""
    return DefaultDeviceType.get_device_type()


def get_device_states(*args: object) -> tuple[list[int], list[Tensor]]:
    """Return the devices, other than the CPU, of tensors among the arguments, and their
    generators: none.
    """
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Set the generators of devices other than the CPU.

    Raises:
        RuntimeError: if there are any.
    """
    if device_type != "meta" and any(True for _ in zip(devices, states, strict=False)):
        raise RuntimeError(errors.NO_OTHER_DEVICE)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments whose tensors are new leaves with the same ``requires_grad``.

    Raises:
        RuntimeError: for anything but a tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            "Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        [x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs]
    )


def check_backward_validity(inputs: Iterable[object]) -> None:
    """Warn if no tensor requires grad."""
    if not any(x.requires_grad for x in inputs if isinstance(x, Tensor)):
        warnings.warn(errors.REENTRANT_WITHOUT_INPUTS, UserWarning, stacklevel=2)
