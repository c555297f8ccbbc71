"""The functions of ``torch`` whose rows say so, and the dtypes, for ``functrace.torch`` to import.

What type checkers see of it stands in namespace.pyi, which ``python -m tests.torch.stubs`` writes.

Layer: 9.
"""

from functrace.torch.dispatch.rows import TORCH
from functrace.torch.dispatch.surface import public
from functrace.torch.tensors.dtypes import NAMES

globals().update(public(TORCH) | NAMES)
__all__ = list(public(TORCH) | NAMES)  # pyright: ignore[reportUnsupportedDunderAll]
