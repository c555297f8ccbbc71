"""``torch._vmap_internals``: PyTorch's older ``vmap``, which refuses random functions.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from functrace.torch.autograd.grad_mode import MODES, without_random_numbers
from functrace.torch.errors.warnings import warn
from functrace.torch.func.mapping import vmap as mapped

__all__ = ["vmap"]


def _vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    """Return a function that maps another one over an axis; see `torch.func.vmap`."""

    @functools.wraps(func)
    def plain(*args: Any) -> Any:
        before, MODES.functional = MODES.functional, False  # this is no transform of torch.func
        try:
            return func(*args)
        finally:
            MODES.functional = before

    made = mapped(plain, in_dims, out_dims, randomness="unsupported")

    @functools.wraps(func)
    def wrapped(*args: Any) -> Any:
        with without_random_numbers():
            return made(*args)

    return wrapped


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """Return `_vmap` of a function, with a warning."""
    warn("Please use `torch.vmap` instead of `torch._vmap_internals.vmap`.", FutureWarning)
    return _vmap(func, in_dims, out_dims)
