"""Sizes of layers: one number, or one per axis; and names of parallel modules.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

Sizes: TypeAlias = int | Sequence[int]
"""A number for all axes, or one per axis."""


def per_axis(value: object, n: int) -> Any:
    """Return a number for each of several axes; several numbers as a tuple."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * n


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], Any]:
    def parse(x: object) -> Any:
        return per_axis(x, n)

    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n) for n in (1, 2, 3, 4))


def _reverse_repeat_tuple(t: Sequence[int], n: int) -> tuple[int, ...]:
    """Return padding as ``functional.pad`` takes it: last axis first, both sides of each."""
    return tuple(x for x in reversed(t) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix from the names of a state dict, in place: ``"module."`` of parallel modules.

    Args:
        state_dict: the state dict.
        prefix: the prefix.
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata: Any = getattr(state_dict, "_metadata", None) or {}
    for key in list(metadata):
        if key and key.startswith(prefix.rstrip(".")):
            metadata[key[len(prefix) :]] = metadata.pop(key)
