"""``torch.backends.quantized``: no engine.

Layer: 9.
"""

from __future__ import annotations

engine = "none"
supported_engines = ["none"]
