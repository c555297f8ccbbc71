# Written by `python -m tests.torch.stubs`: the names of `torch.utils`.

from functrace.torch.utils import _pytree as _pytree
from functrace.torch.utils import backend_registration as backend_registration
from functrace.torch.utils import checkpoint as checkpoint
from functrace.torch.utils import data as data
from functrace.torch.utils import hooks as hooks
from functrace.torch.utils import model_zoo as model_zoo
from functrace.torch.utils import module_tracker as module_tracker
from functrace.torch.utils import tensorboard as tensorboard
from functrace.torch.utils.swapping import swap_tensors as swap_tensors

__all__ = [
    "checkpoint",
    "data",
    "hooks",
    "swap_tensors",
]
