"""``torch.special``: special functions, from the rows.

``python -m tests.torch.stubs`` writes the type stubs, special.pyi.

Layer: 9.
"""

from functrace.torch.dispatch.rows import SPECIAL
from functrace.torch.dispatch.surface import public

globals().update(public(SPECIAL))
__all__ = list(public(SPECIAL))  # pyright: ignore[reportUnsupportedDunderAll]
