"""``torch.fft``: Fourier transforms, from the rows.

``python -m tests.torch.stubs`` writes the type stubs, fft.pyi.

Layer: 9.
"""

from functrace.torch.dispatch.rows import FFT
from functrace.torch.dispatch.surface import public

globals().update(public(FFT))
__all__ = list(public(FFT))  # pyright: ignore[reportUnsupportedDunderAll]
