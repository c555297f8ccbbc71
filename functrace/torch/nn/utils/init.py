"""Modules whose parameters are not drawn.

Layer: 9.
"""

from __future__ import annotations

import inspect
from typing import Any

from functrace.torch.nn.modules.module import Module
from functrace.torch.random import get_rng_state, random_numbers_of


def skip_init(module_cls: type[Module], *args: object, **kwargs: object) -> Any:
    """Make a module that draws no random numbers; the values of its parameters are unspecified.

    Args:
        module_cls: its class.
        args: its arguments.
        kwargs: its keyword arguments.

    Raises:
        RuntimeError: if the class is no module with ``device=``.
    """
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with random_numbers_of(get_rng_state()):
        return module_cls(*args, **kwargs)
