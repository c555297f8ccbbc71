"""``torch._subclasses``: classes of tensors for PyTorch's compiler, which have no instances here.

Layer: 9.
"""

from functrace.torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
