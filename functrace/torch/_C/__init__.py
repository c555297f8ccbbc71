"""Names of PyTorch's C++ half that ported code, and PyTorch's own Python, reach for.

Floor: 8.
"""

from collections.abc import Iterable

from functrace.torch import sentences
from functrace.torch._C import _autograd as _autograd
from functrace.torch._C import _functions as _functions
from functrace.torch.autograd.custom import FunctionBase as _FunctionBase
from functrace.torch.autograd.grad_mode import switch as _set_grad_enabled
from functrace.torch.dtypes import DTYPES, dtype
from functrace.torch.tensor import Tensor

__all__ = ["_FunctionBase", "_autograd", "_functions", "_get_all_dtypes", "_increment_version", "_set_grad_enabled"]


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
