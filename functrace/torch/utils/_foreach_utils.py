"""``torch.utils._foreach_utils``: which devices update many tensors at once, and lists by dtype.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from functrace.torch.tensors.device import device
from functrace.torch.tensors.dtypes import dtype
from functrace.torch.tensors.tensor import Tensor

TensorListList: TypeAlias = list[list[Tensor | None]]
Indices: TypeAlias = list[int]
_foreach_supported_types = [Tensor]


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Return the devices on which optimizers choose lists of tensors by themselves: not the CPU."""
    return ["cuda", "xpu", "mtia", "privateuseone"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Return the devices with updates in one kernel: none."""
    return []


def _device_has_foreach_support(device: device) -> bool:
    """Return True for the CPU."""
    return device.type == "cpu"


def _has_foreach_support(tensors: Sequence[Tensor | None], device: device) -> bool:
    """Return True if all tensors are of no subclass."""
    return device.type == "cpu" and all(t is None or type(t) is Tensor for t in tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Any]], with_indices: bool = False
) -> dict[tuple[device, dtype], tuple[TensorListList, Indices]]:
    """Split parallel lists by the device and dtype of the first list's tensors.

    Args:
        tensorlistlist: lists of equal length; others than the first may have None, or be empty.
        with_indices: whether to return the places of the tensors.

    Returns:
        by device and dtype, the parts of the lists, and the places in them.
    """
    groups: dict[tuple[device, dtype], tuple[TensorListList, Indices]] = {}
    for k, first in enumerate(tensorlistlist[0]):
        lists, places = groups.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for chosen, given in zip(lists, tensorlistlist, strict=True):
            if given:
                chosen.append(given[k])
        if with_indices:
            places.append(k)
    return groups
