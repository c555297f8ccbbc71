"""Saved-tensor hooks that store saved tensors elsewhere (on disk, compressed), and the composition
of hooks.

PyTorch has only ``save_on_cpu``. All of them are used like `saved_tensors_hooks`, and exported
from ``torch.autograd.graph``.

Layer: 9.
"""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeVar, final

import numpy as np

from functrace.torch.autograd.hooks import saved_tensors_hooks
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.tracing import Tracer

if TYPE_CHECKING:
    from pathlib import Path

Packed = TypeVar("Packed")
Hook: TypeAlias = Callable[[Packed], object]
SMALLEST = 1 << 12
"""Size in bytes below which a tensor stays in memory, by default."""


@final
class save_on_disk(saved_tensors_hooks):
    """Keep tensors saved for backward in files; each file is deleted after its last use.

    Args:
        directory: directory of the files; by default the system's directory for temporary files.
            It must exist.
        smallest: tensors of fewer bytes stay in memory.

    Raises:
        FileNotFoundError: if there is no such directory.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(1000, requires_grad=True)
        >>> with torch.autograd.graph.save_on_disk():
        ...     y = x.exp().sin().sum()
        >>> y.backward()

    Cost:
        a file written and read once per saved tensor.
    """

    def __init__(self, directory: str | Path | None = None, smallest: int = SMALLEST) -> None:
        if directory is not None and not os.path.isdir(directory):
            raise FileNotFoundError(f"save_on_disk: there is no directory {directory}")
        super().__init__(functools.partial(_write, directory, smallest), _read)


@final
class _OnDisk:
    """A tensor in a file."""

    def __init__(self, array: np.ndarray, directory: str | Path | None) -> None:
        import tempfile  # imported when used, like zlib: 8 ms
        from pathlib import Path

        with tempfile.NamedTemporaryFile(
            suffix=".npy", prefix="saved_", dir=directory, delete=False
        ) as file:
            self.path = Path(file.name)
            weakref.finalize(self, self.path.unlink, missing_ok=True)
            np.save(file, array, allow_pickle=False)


def _write(directory: str | Path | None, smallest: int, tensor: Tensor) -> _OnDisk | Tensor:
    return (
        tensor.detach()
        if tensor.nbytes < smallest
        else _OnDisk(_bytes_of(tensor, "save_on_disk"), directory)
    )


def _read(packed: _OnDisk | Tensor) -> Tensor:
    return packed if isinstance(packed, Tensor) else wrap(np.load(packed.path, allow_pickle=False))


@final
class save_compressed(saved_tensors_hooks):
    """Keep tensors saved for backward compressed, without loss (zlib): masks and zeros of ``relu``
    compress well.

    Args:
        level: from 1, the fastest, to 9, the smallest.
        smallest: tensors of fewer bytes stay as they are.

    Raises:
        ValueError: for another level.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.zeros(1000, requires_grad=True)
        >>> with torch.autograd.graph.save_compressed(smallest=0):
        ...     y = (x * x).sum()
        >>> y.backward()

    Cost:
        measured at level 1: 10 to 30 ms per megabyte saved, 4 to 6 ms per megabyte read;
        compressed sizes: 22 % of a mask, 57 % of ``relu`` of random numbers, 93 % of random
        float32s.
    """

    def __init__(self, level: int = 1, smallest: int = SMALLEST) -> None:
        if level not in range(1, 10):
            raise ValueError(f"save_compressed: level={level} is not one of 1 … 9")
        super().__init__(functools.partial(_compress, level, smallest), _decompress)


@final
class _Compressed:
    """The bytes of a tensor, compressed."""

    __slots__ = ("data", "dtype", "in_order", "shape")

    def __init__(self, array: np.ndarray, level: int) -> None:
        self.in_order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        import zlib

        self.data = zlib.compress(array.tobytes(self.in_order), level)
        self.dtype, self.shape = array.dtype, array.shape


def _compress(level: int, smallest: int, tensor: Tensor) -> _Compressed | Tensor:
    return (
        tensor.detach()
        if tensor.nbytes < smallest
        else _Compressed(_bytes_of(tensor, "save_compressed"), level)
    )


def _bytes_of(tensor: Tensor, owner: str) -> np.ndarray:
    """Return the array of a tensor, whose bytes can be stored elsewhere.

    Raises:
        RuntimeError: for traced values.
    """
    if isinstance(tensor._array, Tracer):
        raise RuntimeError(
            f"{owner}: a functional transform saves abstract values of its program, which have no "
            "bytes to store "
            "(functrace.checkpoint keeps less of them, and so do hooks that compute with tensors)"
        )
    return tensor._array


def _decompress(packed: _Compressed | Tensor) -> Tensor:
    if isinstance(packed, Tensor):
        return packed
    import zlib

    array = np.frombuffer(bytearray(zlib.decompress(packed.data)), packed.dtype)
    return wrap(array.reshape(packed.shape, order="F" if packed.in_order == "F" else "C"))


@final
class compose(saved_tensors_hooks):
    """Pack by several hooks in sequence, and unpack in reverse order.

    All but the last must pack to a tensor. (PyTorch calls the innermost pair of hooks only.)

    Args:
        hooks: from the first that packs to the last.

    Raises:
        TypeError: for an object that is no ``saved_tensors_hooks``; on saving, if a hook before
            the last does not pack to a tensor.

    Example:
        >>> import functrace.torch as torch
        >>> graph = torch.autograd.graph
        >>> half = graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float())
        >>> x = torch.ones(1000, requires_grad=True)
        >>> with graph.compose(half, graph.save_compressed(smallest=0)):
        ...     y = x.exp().sum()
        >>> y.backward()
    """

    def __init__(self, *hooks: saved_tensors_hooks) -> None:
        for hook in hooks:
            if not isinstance(hook, saved_tensors_hooks):
                raise TypeError(f"compose: a {type(hook).__name__} is no saved_tensors_hooks")
        super().__init__(functools.partial(_pack_all, hooks), functools.partial(_unpack_all, hooks))


def _pack_all(hooks: tuple[saved_tensors_hooks, ...], tensor: Tensor) -> object:
    packed: object = tensor
    for hook in hooks:
        if not isinstance(packed, Tensor):
            raise TypeError(
                f"compose: hooks before {hook!r} packed to a {type(packed).__name__}, and it packs "
                "tensors"
            )
        packed = hook.pack_hook(packed)
    return packed


def _unpack_all(hooks: tuple[saved_tensors_hooks, ...], packed: object) -> object:
    for hook in reversed(hooks):
        packed = hook.unpack_hook(packed)
    return packed
