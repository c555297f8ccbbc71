"""PyTorch's error sentences, word for word: people's own tests match on them.

Constants where nothing varies, functions of the facts otherwise; by what they are about, one file each.

Layer: 9.
"""

from functrace.torch.errors.checking import *  # noqa: F403
from functrace.torch.errors.engine import *  # noqa: F403
from functrace.torch.errors.functions import *  # noqa: F403
from functrace.torch.errors.modes import *  # noqa: F403
from functrace.torch.errors.picking import *  # noqa: F403
from functrace.torch.errors.saving import *  # noqa: F403
from functrace.torch.errors.tensors import *  # noqa: F403
