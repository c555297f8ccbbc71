"""Names of PyTorch's C++ part that its own Python files import; most have no effect here.

Layer: 9.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NoReturn

from functrace.errors import UnsupportedFunctionError
from functrace.torch.namespace import broadcast_shapes
from functrace.torch.tensors.device import device
from functrace.torch.tensors.dtypes import dtype
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.utils._foreach_utils import _group_tensors_by_device_and_dtype

__all__ = [
    "ScriptMethod",
    "_SDPBackend",
    "_ScalingType",
    "_SwizzleType",
    "_TensorMeta",
    "_add_docstr",
    "_error_if_any_worker_fails",
    "_get_privateuse1_backend_name",
    "_get_sdp_priority_order",
    "_get_tracing_state",
    "_group_tensors_by_device_and_dtype",
    "_infer_size",
    "_is_any_autocast_enabled",
    "_log_api_usage_once",
    "_remove_worker_pids",
    "_set_sdp_priority_order",
    "_set_worker_pids",
    "_set_worker_signal_handlers",
    "has_lapack",
]

_TensorMeta = type(Tensor)

has_lapack = True
"""True: NumPy's linear algebra calls LAPACK."""


# -- names of kernels ------------------------------------------------------------------------------

_ScalingType = enum.Enum(
    "_ScalingType",
    "TensorWise RowWise BlockWise1x16 BlockWise1x32 BlockWise1x128 BlockWise128x128",
    start=0,
)
_SwizzleType = enum.Enum("_SwizzleType", "NO_SWIZZLE SWIZZLE_32_4_4", start=0)
_SDPBackend = enum.IntEnum(
    "_SDPBackend",
    "ERROR MATH FLASH_ATTENTION EFFICIENT_ATTENTION CUDNN_ATTENTION OVERRIDEABLE",
    start=-1,
)


def _get_sdp_priority_order() -> list[int]:
    """Return the kernels of attention, the preferred one first."""
    return [1, 2, 0, 4, 5]


def _set_sdp_priority_order(_order: object) -> None:
    """Do nothing: attention is computed in one way."""


class Stream:
    """A queue of operations on a GPU: refused."""

    def __new__(cls, *_arguments: Any, **_options: Any) -> NoReturn:
        """Raise."""
        raise UnsupportedFunctionError(
            "functrace.torch has no streams: the CPU is the only device", fix="do without them"
        )


class Event(Stream):
    """A point in such a queue: refused."""


# -- marks without effect --------------------------------------------------------------------------


class ScriptMethod:
    """Class of TorchScript's methods; there are none."""


def _add_docstr(function: Any, text: str) -> Any:
    """Return a function unchanged: it has its own docstring."""
    return function


def _get_privateuse1_backend_name() -> str:
    """Return the name of the device that extensions may add."""
    return "privateuseone"


def _get_tracing_state() -> None:
    """Return None: nothing is traced for TorchScript."""


def _log_api_usage_once(_event: str) -> None:
    """Do nothing."""


def _disable_dynamo(fn: Any = None, recursive: bool = True) -> Any:
    """Return the function unchanged, or a decorator that does so."""
    return (lambda function: function) if fn is None else fn


def _is_any_autocast_enabled() -> bool:
    """Return True inside of ``autocast``."""
    from functrace.torch.amp.autocast_mode import is_autocast_enabled

    return is_autocast_enabled("cpu")


# -- processes that load data ----------------------------------------------------------------------


def _set_worker_signal_handlers() -> None:
    """Do nothing: signals end a worker."""


def _set_worker_pids(_loader: int, _pids: tuple[int, ...]) -> None:
    """Do nothing: a `DataLoader` looks whether its processes are alive."""


def _remove_worker_pids(_loader: int) -> None:
    """Do nothing."""


def _error_if_any_worker_fails() -> None:
    """Do nothing."""


# -- checks and sizes ------------------------------------------------------------------------------


def _infer_size(a: Any, b: Any) -> Size:
    """Return the shape to which two shapes broadcast."""
    return broadcast_shapes(a, b)


def _check_with(kind: type[Exception], condition: bool, message: Callable[[], str] | None) -> None:
    """Raise an exception of a class unless a condition holds."""
    if not condition:
        raise kind("Expected cond to be True" if message is None else message())


def _check_value(condition: bool, message: Callable[[], str] | None = None) -> None:
    """Raise a ValueError unless a condition holds."""
    _check_with(ValueError, condition, message)


def sym_int(value: Any) -> int:
    """Return a number as an integer: there are no symbols for sizes."""
    return int(value)


# -- functions of tensors --------------------------------------------------------------------------


def _is_all_true(tensor: Tensor) -> Tensor:
    """Return whether all elements are true, as a tensor."""
    return tensor.all()


def _has_compatible_shallow_copy_type(tensor: Tensor, other: Tensor) -> bool:
    """Return True: any tensor's memory can become another's."""
    return True


def _use_cudnn_rnn_flatten_weight() -> bool:
    """Return False."""
    return False


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Any:
    """Return a direction times a magnitude; see ``torch.nn.utils.weight_norm``."""
    from functrace.torch.nn.utils.weight_norm import weight_of

    return weight_of(v, g, dim)


def _parse_to(*args: Any, **kwargs: Any) -> tuple[device | None, dtype | None, bool, Any]:
    """Return what the arguments of ``Tensor.to`` say; see `parse_to`."""
    from functrace.torch.nn.modules.converting import parse_to

    return parse_to(*args, **kwargs)


def _pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Any, Any]:
    """Return the elements of padded sequences in descending order of length, and how many of them
    have each step.
    """
    from functrace.torch.nn.utils.rnn import pack_padded_sequence

    packed = pack_padded_sequence(input, lengths, batch_first)
    return packed.data, packed.batch_sizes


def _pad_packed_sequence(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: float, total_length: int
) -> tuple[Any, Any]:
    """Return packed sequences padded to a length, and their own lengths."""
    from functrace.torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

    packed = PackedSequence(data, batch_sizes, None, None)
    return pad_packed_sequence(packed, batch_first, padding_value, total_length)


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Any:
    """Return sequences as one tensor; see ``torch.nn.utils.rnn.pad_sequence``."""
    from functrace.torch.nn.utils.rnn import pad_sequence

    return pad_sequence(sequences, batch_first, padding_value, padding_side)
