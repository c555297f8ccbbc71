"""``torch.backends.opt_einsum``: the order of contractions in ``torch.einsum``.

Layer: 9.
"""

from __future__ import annotations

enabled = True
strategy = "auto"


def is_available() -> bool:
    """Return True: functrace uses opt_einsum."""
    return True
