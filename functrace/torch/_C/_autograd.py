"""``torch._C._autograd``: saved tensors, the stack of their hooks, versions and sequence numbers.

Layer: 9.
"""

from collections.abc import Sequence

from functrace.torch import errors
from functrace.torch.autograd.graph import _sequence
from functrace.torch.autograd.hooks import allow_to_push as _saved_tensors_hooks_enable
from functrace.torch.autograd.hooks import pop_hooks as _pop_saved_tensors_default_hooks
from functrace.torch.autograd.hooks import push_hooks as _push_saved_tensors_default_hooks
from functrace.torch.autograd.hooks import (
    refusal as _saved_tensors_hooks_get_disabled_error_message,
)
from functrace.torch.autograd.hooks import refuse_to_push as _saved_tensors_hooks_disable
from functrace.torch.autograd.hooks import (
    saved_tensors_hooks_are_enabled as _saved_tensors_hooks_is_enabled,
)
from functrace.torch.autograd.running import keeps_graph as _get_current_graph_task_keep_graph
from functrace.torch.autograd.saved import SavedTensor
from functrace.torch.autograd.saved import make_saved_tensor as _make_saved_tensor
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "SavedTensor",
    "_get_current_graph_task_keep_graph",
    "_get_sequence_nr",
    "_make_saved_tensor",
    "_pop_saved_tensors_default_hooks",
    "_push_saved_tensors_default_hooks",
    "_saved_tensors_hooks_disable",
    "_saved_tensors_hooks_enable",
    "_saved_tensors_hooks_get_disabled_error_message",
    "_saved_tensors_hooks_is_enabled",
    "_unsafe_set_version_counter",
]


def _get_sequence_nr() -> int:
    """Return the sequence number of the next node."""
    return int(
        repr(_sequence)[len("count(") : -1]
    )  # (a counter cannot be copied from Python 3.14 on)


def _unsafe_set_version_counter(tensors: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Set the version counters of tensors: backward then accepts overwritten values as the saved
    ones.

    Raises:
        TypeError: for objects that are no tensors, or no numbers.
        RuntimeError: if the numbers of versions and tensors differ, and for a negative version.
    """
    if not (
        isinstance(tensors, Sequence)
        and isinstance(versions, Sequence)
        and all(isinstance(x, Tensor) for x in tensors)
        and all(isinstance(version, int) for version in versions)
    ):
        raise TypeError(errors.set_versions_arguments(tensors, versions))
    if len(tensors) != len(versions):
        raise RuntimeError(errors.set_versions_count(len(tensors), len(versions)))
    for tensor, version in zip(tensors, versions, strict=True):
        if version < 0:
            raise RuntimeError(errors.negative_version(version))
        tensor._counter[0] = version
