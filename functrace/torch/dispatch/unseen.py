"""Steps of an operation that dispatch modes do not see: they belong to it in PyTorch.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from functrace.torch.autograd.grad_mode import MODES


@contextmanager
def unseen() -> Iterator[None]:
    """Run the block without the active dispatch modes."""
    before, MODES.dispatch = MODES.dispatch, None
    try:
        yield
    finally:
        MODES.dispatch = before
