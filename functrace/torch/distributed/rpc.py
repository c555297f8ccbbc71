"""``torch.distributed.rpc``: calls of other processes' functions; there are none.

Layer: 9.
"""


def is_available() -> bool:
    """Return False."""
    return False
