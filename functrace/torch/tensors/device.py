"""Devices: the only one is the CPU; others can be named, but no tensor can be placed there.

Layer: 9.
"""

from __future__ import annotations

from typing import Any, TypeAlias, final

from functrace.ops.blas import one_thread
from functrace.threads import THREADS
from functrace.torch import errors

_KINDS = frozenset(errors.DEVICE_KINDS.split(", "))


@final
class device:
    """A device, as PyTorch names it.

    Args:
        type: its kind, ``"cpu"``, or kind and number, ``"cuda:1"``; or a device.
        index: its number.

    Raises:
        RuntimeError: for a kind that PyTorch does not know.

    Example:
        >>> device("cpu"), str(device("cuda", 1)), device("cpu") == device("cpu")
        (device(type='cpu'), 'cuda:1', True)
    """

    __slots__ = ("index", "type")

    def __init__(self, type: str | device, index: int | None = None) -> None:
        if isinstance(type, device):
            type, index = type.type, type.index
        elif not isinstance(type, str):
            raise RuntimeError(errors.NO_ACCELERATOR)
        kind, _, number = type.partition(":")
        if kind not in _KINDS:
            raise RuntimeError(errors.unknown_device(type))
        self.type = kind
        self.index = int(number) if number else index

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __enter__(self) -> device:
        """Make this the device of factories; they always use the CPU."""
        check_device(self)
        return self

    def __exit__(self, *_exception: object) -> None:
        """Do nothing."""

    def __reduce__(self) -> tuple[Any, ...]:
        return device, (self.type, self.index)


CPU = device("cpu")
DeviceLike: TypeAlias = "device | str | int"
"""Types accepted as a device."""


def check_device(given: DeviceLike | None) -> None:
    """Check that a device is the CPU.

    Raises:
        AssertionError: for CUDA devices, as in PyTorch's builds without CUDA.
        RuntimeError: for any other device, and for an object that is none.
    """
    if given is None or given is CPU:
        return
    found = device(given)  # type: ignore[arg-type]
    if found.type == "cuda":
        raise AssertionError(errors.NO_CUDA)
    if found.type != "cpu":
        raise RuntimeError(errors.device_absent(found.type))


def get_num_threads() -> int:
    """Return the number of threads that compute large arrays: by default the number of cores
    available to the process.
    """
    return THREADS.count


def set_num_threads(count: int, /) -> None:
    """Set the number of threads that compute large arrays, and that NumPy's BLAS uses; results do
    not depend on it.

    Raises:
        RuntimeError: if it is no positive integer.
    """
    if type(count) is not int:
        raise RuntimeError(errors.thread_count_type(errors.kind_of(count)))
    if count < 1:
        raise RuntimeError(errors.THREAD_COUNT)
    THREADS.resize(count)
    limit = one_thread()
    if limit is not None:
        limit.resize(count)
