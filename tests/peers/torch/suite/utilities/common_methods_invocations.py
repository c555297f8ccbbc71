"""Parts of PyTorch's table of operations that tests of other files use."""

from __future__ import annotations

from typing import Any

import torch

op_db: list[Any] = []


def mask_not_all_zeros(shape: tuple[int, ...]) -> Any:
    """Return a random mask with at least one True."""
    while True:
        mask = torch.randn(shape) > 0
        if mask.any():
            return mask


class DecorateInfo:
    """A decorator of some of the tests of an operation."""

    def __init__(
        self, decorators: Any, cls_name: str | None = None, test_name: str | None = None, *,
        device_type: str | None = None, dtypes: Any = None, active_if: bool = True,
    ) -> None:  # fmt: skip
        self.decorators = list(decorators) if isinstance(decorators, list | tuple) else [decorators]
        self.places = (cls_name, test_name, device_type)
        self.dtypes, self.active_if = dtypes, active_if

    def is_active(self, case: str, test: str, device: str, dtype: Any, _arguments: Any) -> bool:
        places = zip(self.places, (case, test, device))
        is_here = all(wanted is None or wanted == given for wanted, given in places)
        return self.active_if and is_here and (self.dtypes is None or dtype in self.dtypes)
