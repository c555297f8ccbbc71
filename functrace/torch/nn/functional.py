"""``torch.nn.functional``: the functions whose rows say so.

What type checkers see of it stands in functional.pyi, which ``python -m functrace.torch.stubs`` writes.

Layer: 9.
"""

from functrace.torch.rows import FUNCTIONAL
from functrace.torch.surface import public

globals().update(public(FUNCTIONAL))
__all__ = list(public(FUNCTIONAL))  # pyright: ignore[reportUnsupportedDunderAll]
