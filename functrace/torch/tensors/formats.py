"""Memory formats and layouts, and checks of the placement arguments of factories.

Layer: 9.
"""

from __future__ import annotations

from typing import final

from functrace.torch import errors
from functrace.torch.tensors.device import DeviceLike, check_device
from functrace.torch.tensors.device import device as Device


class _Word:
    """A name that prints as ``torch.name``."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


@final
class memory_format(_Word):
    """Order of dimensions in memory; accepted everywhere, and always the order of the
    dimensions.
    """


@final
class layout(_Word):
    """Memory layout of elements; tensors have dense ones only."""


contiguous_format, preserve_format = (
    memory_format("contiguous_format"),
    memory_format("preserve_format"),
)
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")
legacy_contiguous_format = contiguous_format
strided = layout("strided")
sparse_coo, sparse_csr, sparse_csc = (
    layout("sparse_coo"),
    layout("sparse_csr"),
    layout("sparse_csc"),
)
sparse_bsr, sparse_bsc = layout("sparse_bsr"), layout("sparse_bsc")


def check_place(
    name: str, device: DeviceLike | None, layout_: layout | None, pin_memory: bool | None
) -> None:
    """Check the placement arguments of a factory: a dense layout, in CPU memory, not pinned.

    Raises:
        TypeError: for an object that is no device, no layout, or no bool.
        RuntimeError: for pinned memory, and other devices.
    """
    if device is not None and not isinstance(device, (Device, str, int)):
        raise TypeError(
            errors.must_be_named(name, "device", "torch.device", errors.kind_of(device))
        )
    check_device(device)
    if layout_ is not None and not isinstance(layout_, layout):
        raise TypeError(
            errors.must_be_named(name, "layout", "torch.layout", type(layout_).__name__)
        )
    if pin_memory is not None and pin_memory is not False:
        if not isinstance(pin_memory, bool):
            raise TypeError(
                errors.must_be_named(name, "pin_memory", "bool", type(pin_memory).__name__)
            )
        raise RuntimeError(errors.NO_PINNED_MEMORY)
