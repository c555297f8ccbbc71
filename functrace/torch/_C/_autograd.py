"""``torch._C._autograd``: saved tensors, and whether their hooks are allowed.

Floor: 8.
"""

from functrace.torch.autograd.hooks import saved_tensors_hooks_are_enabled as _saved_tensors_hooks_is_enabled
from functrace.torch.autograd.saved import SavedTensor
from functrace.torch.autograd.saved import make_saved_tensor as _make_saved_tensor

__all__ = ["SavedTensor", "_make_saved_tensor", "_saved_tensors_hooks_is_enabled"]
