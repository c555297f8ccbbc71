"""`TorchVersion`: the version string, which can be compared with strings and tuples.

Layer: 9.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, final

__all__ = ["TorchVersion"]

VERSION = "2.13.0"
"""The version of PyTorch that functrace.torch follows."""

_PARTS = re.compile(r"v?(\d+(?:\.\d+)*)(?:[-_.]?(a|b|c|rc|alpha|beta|dev|post)[-_.]?(\d*))?")
_ORDER = {"dev": -4, "a": -3, "alpha": -3, "b": -2, "beta": -2, "c": -1, "rc": -1, "post": 1}


@final
class TorchVersion(str):
    """A version as a string, compared by its numbers.

    Example:
        >>> version = TorchVersion("2.13.0")
        >>> version >= (1, 8), version > "2.9", version == "2.13.0", version < "2.13.0rc1"
        (True, True, True, False)
    """

    def _compared(self, other: Any) -> tuple[Any, Any] | None:
        own, given = _key(str(self)), _key(other)
        return None if own is None or given is None else (own, given)

    def __gt__(self, other: Any) -> bool:
        keys = self._compared(other)
        return str.__gt__(self, other) if keys is None else keys[0] > keys[1]

    def __lt__(self, other: Any) -> bool:
        keys = self._compared(other)
        return str.__lt__(self, other) if keys is None else keys[0] < keys[1]

    def __ge__(self, other: Any) -> bool:
        keys = self._compared(other)
        return str.__ge__(self, other) if keys is None else keys[0] >= keys[1]

    def __le__(self, other: Any) -> bool:
        keys = self._compared(other)
        return str.__le__(self, other) if keys is None else keys[0] <= keys[1]

    def __eq__(self, other: Any) -> bool:
        keys = self._compared(other)
        return str.__eq__(self, other) if keys is None else keys[0] == keys[1]

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


def _key(version: Any) -> tuple[Any, ...] | None:
    """Return a key that orders versions; None for what is no version."""
    if not isinstance(version, str) and isinstance(version, Iterable):
        version = ".".join(str(part) for part in version)
    if not isinstance(version, str):
        return None
    found = _PARTS.match(version.strip())
    if found is None:
        return None
    numbers = [int(n) for n in found[1].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return (*((n, 0) for n in numbers), (_ORDER[found[2]] if found[2] else 0, int(found[3] or 0)))
