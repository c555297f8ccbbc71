"""Names of PyTorch's C++ half that ported code reaches for.

Floor: 8.
"""

from functrace.torch._C import _autograd as _autograd
from functrace.torch.autograd.custom import FunctionBase as _FunctionBase

__all__ = ["_FunctionBase", "_autograd"]
