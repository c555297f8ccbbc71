"""``torch._opaque_base``: the class of objects that PyTorch's compiler does not look into.

Layer: 9.
"""


class OpaqueBase:
    """Base class of such objects."""
