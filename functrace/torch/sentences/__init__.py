"""PyTorch's error sentences, word for word: people's own tests match on them.

Constants where nothing varies, functions of the facts otherwise; by what they are about, one file each.

Layer: 9.
"""

from functrace.torch.sentences.checking import *  # noqa: F403
from functrace.torch.sentences.engine import *  # noqa: F403
from functrace.torch.sentences.functions import *  # noqa: F403
from functrace.torch.sentences.modes import *  # noqa: F403
from functrace.torch.sentences.picking import *  # noqa: F403
from functrace.torch.sentences.saving import *  # noqa: F403
from functrace.torch.sentences.tensors import *  # noqa: F403
