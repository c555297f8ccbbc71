"""Residual policies, for ``functrace.checkpoint(f, policy=...)``: what becomes of the values that a derivative keeps.

Floor: 7 (api).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.control.residuals import RECOMPUTE, SAVE, Pack, Policy
from functrace.errors import ArgumentError

__all__ = ["pack", "recompute", "save", "save_names"]

save: Policy = SAVE
"""Keep every residual as it is."""

recompute: Policy = RECOMPUTE
"""Keep the operands of the function only, and compute everything else again."""


def save_names(*names: str) -> Policy:
    """Keep the values that `functrace.checkpoint_name` has given one of these names; compute everything else again.

    Raises:
        ArgumentError: if a name is not a string, or there is none.
    """
    if not names or not all(isinstance(name, str) for name in names):
        raise ArgumentError(f"save_names takes one or more names, not {names!r}", fix="save_names('hidden', 'scores')")
    return (*RECOMPUTE, *names)


def pack(pack: Callable[[np.ndarray[Any, Any]], Any], unpack: Callable[[Any], Any]) -> Policy:
    """Hand every residual to ``pack`` as it is saved, and what that returned to ``unpack`` as it is fetched.

    Args:
        pack: from an array to anything: an array of fewer bits, compressed bytes, a file's name.
        unpack: from that to an array of the same shape and dtype.

    Example:
        >>> import numpy as np, functrace as ft
        >>> halved = ft.policies.pack(lambda x: x.astype(np.float32), lambda x: x.astype(np.float64))
        >>> ft.grad(ft.checkpoint(lambda x: np.sum(x * np.sin(x)), policy=halved))(np.zeros(2))
        array([0., 0.])
    """
    for function in (pack, unpack):
        if not callable(function):
            raise ArgumentError(f"policies.pack: {function!r} is not a function", fix="pass two functions")
    return Pack(pack, unpack)


def __dir__() -> list[str]:
    """The public names."""
    return __all__
