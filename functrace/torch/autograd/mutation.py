"""`allow_mutation_on_saved_tensors`: copy saved tensors just before they are overwritten.

Saved-tensor hooks keep a `_Handle` in the graph, and its tensor outside of the graph in a weak-key
dictionary: once the graph or the backward pass drops the handle, the tensor is freed. Before it
writes, an in-place operation looks up the saved tensors that it would overwrite
(`functrace.torch.autograd.grad_mode.Modes.watches`). PyTorch compares start addresses; here any
shared memory counts, so writing into a part of a saved tensor is detected, too.

Exported from ``torch.autograd.graph``.

Layer: 9.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, final
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

import numpy as np

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.hooks import saved_tensors_hooks
from functrace.torch.tensors.tensor import Tensor, wrap

_enabled = [False]
"""True if a context is entered in some thread."""


@final
class _Handle:
    """Handle of a saved tensor, kept in the graph."""

    __slots__ = ("__weakref__",)


@final
class _AllowMutationOnSavedContext:
    """Saved tensors, and their copies made before an overwrite."""

    def __init__(self) -> None:
        self.cloned: MutableMapping[_Handle, Tensor] = WeakKeyDictionary()
        """The copies."""
        self.original: MutableMapping[_Handle, Tensor] = WeakKeyDictionary()
        """The saved tensors that were not overwritten."""
        self.tid_to_weakhandle: MutableMapping[tuple[int, int, int], _Handle] = (
            WeakValueDictionary()
        )
        """Handles by identity, address and version of a tensor."""
        self.sid_to_tid: dict[tuple[int, int], set[tuple[int, int, int]]] = defaultdict(set)
        """Keys of tensors by address and version."""
        self._owners: dict[int, WeakSet[_Handle]] = defaultdict(WeakSet)
        """Handles of saved tensors by the array that owns their memory."""

    def pack(self, tensor: Tensor) -> _Handle:
        """Return the handle of a tensor, which the graph keeps; the same one for the same
        version.
        """
        address, version = tensor.data_ptr(), tensor._version
        key = id(tensor), address, version
        self.sid_to_tid[address, version].add(key)
        handle = self.tid_to_weakhandle.get(key)
        if handle is None:
            handle = _Handle()
            self.tid_to_weakhandle[key] = handle
            self.original[handle] = tensor
            self._owners[_owner(tensor._array)].add(handle)
        return handle

    def unpack(self, handle: _Handle) -> Tensor:
        """Return the tensor as it was saved.

        Raises:
            AssertionError: outside the context.
        """
        if not _enabled[0]:
            raise AssertionError(errors.MUTATION_OUTSIDE)
        found = self.cloned.get(handle)
        if found is None:
            found = self.original.get(handle)
        if found is None:
            raise AssertionError(errors.MUTATION_OUTSIDE)
        return found

    def watch(self, tensor: Tensor) -> None:
        """Copy the saved tensors in the memory of a tensor that is about to be overwritten."""
        array = tensor._array
        for handle in list(self._owners.get(_owner(array), ())):
            saved = self.original.get(handle)
            if saved is not None and np.may_share_memory(saved._array, array):
                self.cloned[handle] = wrap(saved._array.copy("K"))
                del self.original[handle]

    def clear(self) -> None:
        """Remove all entries."""
        for known in (
            self.cloned,
            self.original,
            self.tid_to_weakhandle,
            self.sid_to_tid,
            self._owners,
        ):
            known.clear()


def _owner(array: Any) -> int:
    """Return the identity of the array that owns the memory of an array."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return id(array)


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """Allow overwriting tensors that were saved for backward inside of a ``with`` block: they are
    copied just before.

    The forward pass and the backward pass must both run in the block.

    Returns:
        a context manager; its ``as`` value has the copies in ``cloned``.

    Raises:
        RuntimeError: inside of another such block.

    Example:
        >>> import functrace.torch as torch
        >>> with torch.autograd.graph.allow_mutation_on_saved_tensors() as context:
        ...     a = torch.ones(2, requires_grad=True)
        ...     b = a.clone()
        ...     out = (b**2).sum()
        ...     b.mul_(10)
        ...     print(len(context.cloned))
        ...     out.backward()
        tensor([10., 10.], grad_fn=<MulBackward0>)
        1
        >>> a.grad
        tensor([2., 2.])

    Cost:
        a copy of each saved tensor that is overwritten; 5 microseconds for each tensor that is
        saved.
    """
    context = _AllowMutationOnSavedContext()
    with saved_tensors_hooks(context.pack, context.unpack):
        try:
            if _enabled[0]:
                raise RuntimeError(errors.MUTATION_NESTED)
            _enabled[0] = True
            MODES.watches = (*MODES.watches, context.watch)
            yield context
        finally:
            context.clear()
            _enabled[0] = False  # also after a nested attempt, as in PyTorch
            MODES.watches = tuple([watch for watch in MODES.watches if watch != context.watch])
