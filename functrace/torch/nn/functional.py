"""``torch.nn.functional``: its functions from the rows.

``python -m tests.torch.stubs`` writes the type stubs, functional.pyi.

Layer: 9.
"""

from functrace.torch.dispatch.rows import FUNCTIONAL
from functrace.torch.dispatch.surface import public

globals().update(public(FUNCTIONAL))
__all__ = list(public(FUNCTIONAL))  # pyright: ignore[reportUnsupportedDunderAll]
