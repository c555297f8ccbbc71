"""Arguments of ``to``, of tensors, modules and packed sequences.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.torch import namespace as torch
from functrace.torch.tensors.device import device
from functrace.torch.tensors.dtypes import dtype
from functrace.torch.tensors.tensor import Tensor


def parse_to(*args: Any, **kwargs: Any) -> tuple[device | None, dtype | None, bool, Any]:
    """Return what the arguments of ``Tensor.to`` say: the device, the dtype, whether the copy may
    run in the background, and the memory format.

    Raises:
        RuntimeError: if they say whether to copy.
    """
    form = kwargs.pop("memory_format", None)
    torch.empty(0).to(*args, **kwargs)  # refuses what no tensor accepts
    place, kind = kwargs.get("device"), kwargs.get("dtype")
    flags: list[Any] = []
    for given in (*args, *([kwargs["other"]] if "other" in kwargs else [])):
        if isinstance(given, Tensor):
            place, kind = given.device, given.dtype
        elif isinstance(given, dtype):
            kind = given
        elif isinstance(given, bool):
            flags.append(given)
        elif given is not None:
            place = given
    if len(flags) > 1 or "copy" in kwargs:
        raise RuntimeError(".to() does not accept copy argument")
    is_free = flags[0] if flags else bool(kwargs.get("non_blocking", False))
    place = device(place) if place is not None else None
    return place, kind, is_free, form
