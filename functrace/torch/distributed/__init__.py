"""``torch.distributed`` of a build without it: one process, no communication.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NoReturn

from functrace.torch.distributed import rpc as rpc

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "destroy_process_group",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_available",
    "is_initialized",
]


class ReduceOp(Enum):
    """Kinds of reduction of the values of several processes."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4


class ProcessGroup:
    """A group of processes; there are none."""


class group:
    """Names of groups."""

    WORLD: ProcessGroup | None = None


def is_available() -> bool:
    """Return False."""
    return False


def is_initialized() -> bool:
    """Return False."""
    return False


def is_nccl_available() -> bool:
    """Return False."""
    return False


def is_gloo_available() -> bool:
    """Return False."""
    return False


def is_mpi_available() -> bool:
    """Return False."""
    return False


def is_torchelastic_launched() -> bool:
    """Return False."""
    return False


def init_process_group(*_arguments: object, **_options: object) -> NoReturn:
    """Raise: there is no communication."""
    raise RuntimeError(
        "functrace.torch has no torch.distributed: it runs in one process\n"
        "fix: guard the call with torch.distributed.is_available()"
    )


def destroy_process_group(group: object = None) -> NoReturn:
    """Raise: there is no group."""
    raise ValueError(_NO_GROUP)


_NO_GROUP = (
    "Default process group has not been initialized, please make sure to call init_process_group."
)


def _refused(name: str) -> Callable[..., NoReturn]:
    def function(*_arguments: object, **_options: object) -> NoReturn:
        raise ValueError(_NO_GROUP)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Raise: there is no group of processes."
    return function


get_rank = _refused("get_rank")
get_world_size = _refused("get_world_size")
get_backend = _refused("get_backend")
barrier = _refused("barrier")
all_reduce = _refused("all_reduce")
all_gather = _refused("all_gather")
all_gather_object = _refused("all_gather_object")
all_gather_into_tensor = _refused("all_gather_into_tensor")
all_to_all = _refused("all_to_all")
broadcast = _refused("broadcast")
broadcast_object_list = _refused("broadcast_object_list")
gather = _refused("gather")
gather_object = _refused("gather_object")
reduce = _refused("reduce")
reduce_scatter = _refused("reduce_scatter")
scatter = _refused("scatter")
send = _refused("send")
recv = _refused("recv")
isend = _refused("isend")
irecv = _refused("irecv")
new_group = _refused("new_group")
