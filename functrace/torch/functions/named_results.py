"""Results with names: what PyTorch calls ``torch.return_types``.

Layer: 9.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

RETURN_TYPES: dict[str, Any] = {}
"""Every type by its name."""


def named_result(name: str, fields: str) -> Any:
    """Return the class of results with these fields, which prints as PyTorch's does.

    Args:
        name: its name in ``torch.return_types``.
        fields: names of the fields, separated by spaces.

    Example:
        >>> named_result("pair", "first second")(1, 2).second
        2
    """
    plain: Any = namedtuple(name, fields)  # type: ignore[misc]

    def shown(self: Any) -> str:
        parts = ",\n".join(
            f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True)
        )
        return f"torch.return_types.{name}(\n{parts})"

    made = type(name, (plain,), {"__slots__": (), "__repr__": shown, "__module__": __name__})
    RETURN_TYPES[name] = made
    return made


def __getattr__(name: str) -> Any:
    """Return a type by its name, for pickles."""
    if name in RETURN_TYPES:
        return RETURN_TYPES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
