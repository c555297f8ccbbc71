"""``torch.linalg``: linear algebra, from the rows.

``python -m tests.torch.stubs`` writes the type stubs, linalg.pyi.

Layer: 9.
"""

from functrace.torch.dispatch.rows import LINALG
from functrace.torch.dispatch.surface import public
from functrace.torch.errors.algebra import LinAlgError

globals().update(public(LINALG))
__all__ = ["LinAlgError", *public(LINALG)]  # pyright: ignore[reportUnsupportedDunderAll]
