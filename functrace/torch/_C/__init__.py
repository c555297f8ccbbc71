"""Names of PyTorch's C++ half that ported code reaches for.

Floor: 8.
"""

from functrace.torch._C import _autograd as _autograd

__all__ = ["_autograd"]
