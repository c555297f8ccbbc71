"""Checks of derivatives and of rules, for tests: ``check_grads`` and ``check_rules``.

Both compare with values computed by an independent route, and locate an error: the argument, the
element, the equation of the program, and the line.

Layer: 8 (api).
"""

from typing import TYPE_CHECKING

from functrace.testing.grads import check_grads
from functrace.testing.rules import check_rules

__all__ = ["check_grads", "check_rules"]


def __dir__() -> list[str]:
    """List the public names."""
    return __all__


if not TYPE_CHECKING:  # so that type checkers report a misspelt name

    def __getattr__(name: str) -> object:
        """Suggest the right name for an unknown one."""
        from functrace.names import unknown_name

        raise unknown_name(__name__, name, __all__)
