"""``torch._library.opaque_object``: objects that PyTorch's compiler does not look into; none here.

Layer: 9.
"""


def is_opaque_type(cls: object) -> bool:
    """Return False."""
    return False


def is_opaque_reference_type(cls: object) -> bool:
    """Return False."""
    return False


def is_opaque_value_type(cls: object) -> bool:
    """Return False."""
    return False
