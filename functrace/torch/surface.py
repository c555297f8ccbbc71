"""The tables of rows put together; importing this module gives `Tensor` its methods.

Floor: 8.
"""

from __future__ import annotations

from typing import Any

from functrace.torch import creation, functions, in_place, losses, methods, products, random, reductions, shaping
from functrace.torch.rows import TENSOR, entries
from functrace.torch.tensor import Tensor

ENTRIES = entries(
    module.ROWS
    for module in (functions, reductions, products, shaping, in_place, methods, creation, random, losses)
)  # fmt: skip
"""What stands in each place: by name, the row and the object."""


def public(place: str) -> dict[str, Any]:
    """Return the functions of a namespace by name."""
    return {name: function for name, (_, function) in ENTRIES[place].items()}


for _name, (_, _method) in ENTRIES[TENSOR].items():
    setattr(Tensor, _name, _method)
