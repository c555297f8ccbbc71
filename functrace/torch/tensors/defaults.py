"""The default dtype, and the caches that depend on it.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.dispatch.plans import PLANS
from functrace.torch.dispatch.sizes import DERIVATIONS
from functrace.torch.dispatch.tangents import TANGENTS
from functrace.torch.tensors.dtypes import dtype, replace_default


def set_default_dtype(d: dtype) -> None:
    """Set the dtype of tensors made from Python floats; drop the plans made for another one.

    Raises:
        TypeError: if it is not a floating dtype.
    """
    if replace_default(d):
        for cache in (PLANS, DERIVATIONS, TANGENTS):
            cache.clear()
