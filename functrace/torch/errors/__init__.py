"""PyTorch's error messages, verbatim: users' tests match on them.

Constants without parameters, functions otherwise; one file per topic.

Layer: 9.
"""

from functrace.torch.errors.checking import *  # noqa: F403
from functrace.torch.errors.engine import *  # noqa: F403
from functrace.torch.errors.functions import *  # noqa: F403
from functrace.torch.errors.layers import *  # noqa: F403
from functrace.torch.errors.modes import *  # noqa: F403
from functrace.torch.errors.picking import *  # noqa: F403
from functrace.torch.errors.saving import *  # noqa: F403
from functrace.torch.errors.tensors import *  # noqa: F403
