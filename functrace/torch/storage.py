"""``torch.storage``: the memory of tensors.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.tensors.memory import Storage as _StorageBase
from functrace.torch.tensors.memory import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]


def is_storage(obj: object, /) -> bool:
    """Return True for a storage."""
    return isinstance(obj, _StorageBase)
