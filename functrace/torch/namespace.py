"""The functions of ``torch`` whose rows say so, and the dtypes, for ``functrace.torch`` to import.

What type checkers see of it stands in namespace.pyi, which ``python -m functrace.torch.stubs`` writes.

Layer: 9.
"""

from functrace.torch.dtypes import NAMES
from functrace.torch.rows import TORCH
from functrace.torch.surface import public

globals().update(public(TORCH) | NAMES)
__all__ = list(public(TORCH) | NAMES)  # pyright: ignore[reportUnsupportedDunderAll]
