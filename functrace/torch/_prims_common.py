"""``torch._prims_common``: the name of a type for annotations.

Layer: 9.
"""

from typing import TypeAlias

from functrace.torch.tensors.device import device

DeviceLikeType: TypeAlias = str | device | int
