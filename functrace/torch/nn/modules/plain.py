"""`Plain`: the base of layers without parameters, whose arguments are attributes.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

from functrace.torch.nn import functional
from functrace.torch.nn.modules.module import Module

F: Any = functional
"""``torch.nn.functional``."""


class Plain(Module):
    """A layer without parameters.

    Args:
        arguments: its attributes, which ``repr`` shows; ``inplace`` only if it is True.
    """

    _shown: tuple[str, ...] = ()

    def __init__(self, **arguments: object) -> None:
        super().__init__()
        self.__dict__.update(arguments)
        self.__dict__["_shown"] = tuple(arguments)

    def extra_repr(self) -> str:
        """Return the arguments."""
        own = self.__dict__
        return ", ".join([f"{k}={own[k]}" for k in self._shown if k != "inplace" or own[k]])
