"""``torch.cuda._utils``: the index of a device.

Layer: 9.
"""

from functrace.torch._utils import _get_device_index

__all__ = ["_get_device_index"]
