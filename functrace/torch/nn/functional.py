"""``torch.nn.functional``: the functions whose rows say so.

What type checkers see of it stands in functional.pyi, which ``python -m tests.torch.stubs`` writes.

Layer: 9.
"""

from functrace.torch.dispatch.rows import FUNCTIONAL
from functrace.torch.dispatch.surface import public

globals().update(public(FUNCTIONAL))
__all__ = list(public(FUNCTIONAL))  # pyright: ignore[reportUnsupportedDunderAll]
