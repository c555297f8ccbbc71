"""Names of PyTorch's C++ half that ported code reaches for.

Floor: 8.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import final

from functrace.torch import sentences
from functrace.torch._C import _autograd as _autograd
from functrace.torch._C import _functions as _functions
from functrace.torch.autograd.custom import FunctionBase as _FunctionBase
from functrace.torch.autograd.grad_mode import is_grad_enabled
from functrace.torch.autograd.grad_mode import switch as _set_grad_enabled
from functrace.torch.autograd.running import current_graph_task_id as _current_graph_task_id
from functrace.torch.autograd.running import current_node as _current_autograd_node
from functrace.torch.autograd.running import execution_order as _current_graph_task_execution_order
from functrace.torch.autograd.running import will_execute as _will_engine_execute_node
from functrace.torch.dtypes import DTYPES, dtype
from functrace.torch.tensor import Tensor

__all__ = [
    "_FunctionBase",
    "_WeakTensorRef",
    "_autograd",
    "_current_autograd_node",
    "_current_graph_task_execution_order",
    "_current_graph_task_id",
    "_functions",
    "_get_all_dtypes",
    "_increment_version",
    "_set_grad_enabled",
    "_will_engine_execute_node",
    "is_grad_enabled",
]


@final
class _WeakTensorRef:
    """Tells whether a tensor is still there."""

    def __init__(self, tensor: Tensor) -> None:
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether it is gone."""
        return self._reference() is None


def _get_all_dtypes() -> list[dtype]:
    """Return the dtypes that there are."""
    return list(DTYPES.values())


def _increment_version(tensors: Iterable[Tensor]) -> None:
    """Note that tensors were overwritten by means that the shim does not see.

    Raises:
        RuntimeError: for what is no tensor; what stands before it is noted.
    """
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise RuntimeError(sentences.INCREMENT_OF_NO_TENSOR)
        tensor._counter[0] += 1
