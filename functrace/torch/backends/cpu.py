"""``torch.backends.cpu``.

Layer: 9.
"""

from __future__ import annotations


def get_cpu_capability() -> str:
    """Return the instruction set that PyTorch's kernels would use: its default one."""
    return "DEFAULT"
