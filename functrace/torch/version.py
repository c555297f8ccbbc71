"""``torch.version``: the version of PyTorch that functrace.torch follows, and of no other software.

Layer: 9.
"""

from __future__ import annotations

from functrace.torch.torch_version import VERSION as __version__

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]

debug = False
cuda: str | None = None
git_version = "functrace"
hip: str | None = None
rocm: str | None = None
xpu: str | None = None
