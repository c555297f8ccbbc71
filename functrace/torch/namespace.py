"""The functions of ``torch`` from the rows, and the dtypes, for ``functrace.torch`` to import.

``python -m tests.torch.stubs`` writes the type stubs, namespace.pyi.

Layer: 9.
"""

from functrace.torch.dispatch.rows import TORCH
from functrace.torch.dispatch.surface import public
from functrace.torch.tensors.dtypes import ABSENT, NAMES

globals().update(public(TORCH) | NAMES | ABSENT)
__all__ = list(public(TORCH) | NAMES | ABSENT)  # pyright: ignore[reportUnsupportedDunderAll]
