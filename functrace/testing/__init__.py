"""Checks of derivatives and of rules, for tests: ``check_grads`` and ``check_rules``.

Both compare with values that are found by another route, and say of what is wrong where it is: which argument, which
element, which equation of the program, in which line.

Layer: 8 (api).
"""

from typing import TYPE_CHECKING

from functrace.testing.grads import check_grads
from functrace.testing.rules import check_rules

__all__ = ["check_grads", "check_rules"]


def __dir__() -> list[str]:
    """The public names."""
    return __all__


if not TYPE_CHECKING:  # so that a misspelt name is an error to type checkers

    def __getattr__(name: str) -> object:
        """Say what a name that is not here is called."""
        from functrace.names import unknown_name

        raise unknown_name(__name__, name, __all__)
