"""Saved tensors: the values of the forward pass that a node keeps, and their unpacking.

A `SavedTensor` keeps an input of its node as the same object with its version; an output as a
detached alias, so that node and output make no cycle, and reattaches the node when it is unpacked.
Under `saved_tensors_hooks`, or after `register_hooks`, it keeps the result of the pack hook
instead, and gives the result of the unpack hook the same place in the graph; versions are not
checked then.

Layer: 9.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from functrace.torch import errors
from functrace.torch.autograd.anomaly_mode import ANOMALY
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.hooks import Pair
from functrace.torch.errors.warnings import warn
from functrace.torch.tensors.tensor import Tensor, wrap

_new = object.__new__
_FREED: Any = object()
_GIVEN: Any = object()
_NUMBERED = re.compile(r"Backward0?(\d*)$")


@final
class SavedTensor:
    """A tensor kept for the backward pass; ``torch.autograd.SavedTensor``.

    Nodes make them, and expose them as ``_raw_saved_self`` and the like.

    Args:
        tensor: the tensor to keep, with its place in the graph; None is kept as it is.
        is_output: True for an output of the node that keeps it.
    """

    __slots__ = ("_edge", "_kept", "_unpack_hook", "_version", "_was_computed")

    _kept: Any
    """The tensor (an alias of an output); the result of the pack hook; or `_FREED`."""
    _unpack_hook: Callable[[Any], Any] | None
    _edge: tuple[Any, int, bool, bool] | None
    """Place in the graph of a tensor made on unpacking: node, number of the output, True if it
    requires grad, True if the node is the one that unpacks. The node of a leaf is a weak reference
    to its accumulator. None if the tensor itself is kept.
    """
    _version: int
    _was_computed: bool
    """True if the tensor is kept as it is and had a node."""

    def __init__(
        self, tensor: Tensor | None = _GIVEN, is_output: bool = False, node: Any = None
    ) -> None:
        if tensor is _GIVEN:
            raise RuntimeError(errors.SAVED_TENSOR_FROM_PYTHON)
        self._unpack_hook = self._edge = None
        self._kept = tensor
        if tensor is None:
            return
        pairs = MODES.pairs
        if pairs:
            self._edge = _edge_of(tensor, is_output)
            self._kept = packed(pairs[-1], tensor)
            self._unpack_hook = pairs[-1][1]
            return
        self._version = tensor._counter[0]
        self._was_computed = not is_output and tensor._node is not None
        if is_output and tensor._node is not None:
            self._edge = (None, tensor._output_nr, True, True)
            self._kept = alias(tensor)

    def unpack(self, node: Any = None) -> Tensor | None:
        """Return the tensor.

        Args:
            node: the node that keeps it, which becomes the ``grad_fn`` of an output.

        Raises:
            RuntimeError: if it was freed, or overwritten since.
            TypeError: if the unpack hook did not return a tensor.
        """
        hook, kept, edge = (
            self._unpack_hook,
            self._kept,
            self._edge,
        )  # the hook first: another thread may release it
        if hook is not None:
            if kept is _FREED:
                raise RuntimeError(errors.BACKWARD_TWICE)
            kept = hook(kept)
            if not isinstance(kept, Tensor):
                raise TypeError(errors.unpacked_type(errors.kind_of(kept)))
        elif kept is None:
            return None
        elif kept is _FREED:
            raise RuntimeError(errors.BACKWARD_TWICE)
        elif self._was_computed and kept._node is None:
            raise RuntimeError(errors.UNPACKED_WITHOUT_NODE)
        elif kept._counter[0] != self._version:
            raise RuntimeError(self._overwritten(kept, node))
        return kept if edge is None else _attached(kept, edge, node)

    def release(self) -> None:
        """Free the kept tensor."""
        if self._kept is not None:
            self._kept = _FREED
        self._unpack_hook = None

    def register_hooks(self, *hooks: Callable[[Any], Any]) -> None:
        """Pack this one tensor now, and unpack it whenever it is read.

        Args:
            hooks: ``pack_hook, unpack_hook``, as in `saved_tensors_hooks`; this pack hook gets a
                detached tensor.

        Raises:
            RuntimeError: if it has hooks, is None, was freed, or the pack hook wrote to the
                tensor.
        """
        if len(hooks) != 2 or not all(callable(hook) for hook in hooks):
            raise TypeError(errors.register_hooks_arguments(self, hooks))
        kept = self._kept
        if self._unpack_hook is not None:
            raise RuntimeError(errors.HOOKS_TWICE)
        if kept is _FREED:
            raise RuntimeError(errors.HOOKS_ON_FREED)
        if kept is None:
            raise RuntimeError(errors.HOOKS_ON_NONE)
        kept_now = packed((hooks[0], hooks[1]), kept.detach())
        if self._edge is None:
            self._edge = _edge_of(kept, False)
        self._kept, self._unpack_hook = kept_now, hooks[1]

    def keep_tangent(self, tensor: Tensor) -> None:
        """Keep the tangent of an output with it."""
        edge = self._edge
        if (
            edge is not None
            and edge[3]
            and edge[1] == tensor._output_nr
            and isinstance(self._kept, Tensor)
        ):
            self._kept._dual = tensor._dual

    @property
    def data(self) -> Any:
        """The kept object: the tensor, or the result of the pack hook; None if it was freed."""
        return None if self._kept is _FREED else self._kept

    @property
    def unpack_hook(self) -> Callable[[Any], Any] | None:
        """The hook that unpacks it, if it was packed."""
        return self._unpack_hook

    def _overwritten(self, kept: Tensor, node: Any) -> str:
        """Return the error message for an overwritten tensor."""
        if self._edge is not None:
            number, source = self._edge[1], node
        else:
            number, source = kept._output_nr, kept.grad_fn
        name = None if source is None else short_name(source)
        return errors.modified_in_place(
            kept.dtype.printed,
            kept.shape,
            None if name is None else number,
            name or "",
            kept._counter[0],
            self._version,
            not ANOMALY.enabled,
        )

    def __repr__(self) -> str:
        return f"<torch._C._autograd.SavedTensor object at {id(self):#x}>"


@final
class SavedPositions:
    """Positions of True along one axis of a mask; the mask itself is saved.

    Args:
        saved: the mask, shared with the positions along its other axes.
        source: the identity of the mask while it is saved.
        axis: the axis.
    """

    __slots__ = ("axis", "saved", "source")

    def __init__(self, saved: SavedTensor, source: int, axis: int) -> None:
        self.saved, self.source, self.axis = saved, source, axis

    @property
    def _unpack_hook(self) -> Callable[[Any], Any] | None:
        return self.saved.unpack_hook

    def unpack(self, node: Any = None) -> Tensor:
        """Return the positions."""
        mask = self.saved.unpack(node)
        assert mask is not None
        if mask._array.dtype != np.bool_:
            warn(errors.INDEX_OF_BYTES)
        return wrap(np.nonzero(mask._array)[self.axis])

    def release(self) -> None:
        """Free the mask."""
        self.saved.release()


def save_operand(tensor: Tensor, node: Any, before: Sequence[Any]) -> SavedTensor | SavedPositions:
    """Save an operand of a node; of positions along an axis of a mask, save the mask, once for all
    axes.

    Args:
        tensor: the operand.
        node: the node.
        before: the saved values of the previous operands.
    """
    if tensor._mask is None:
        if MODES.pairs:
            return SavedTensor(tensor, False, node)
        saved = _new(SavedTensor)  # the constructor, inlined: 0.2 us less
        saved._kept, saved._unpack_hook, saved._edge = tensor, None, None
        saved._version, saved._was_computed = tensor._counter[0], tensor._node is not None
        return saved
    mask, axis = tensor._mask
    for one in before:
        if type(one) is SavedPositions and one.source == id(mask):
            return SavedPositions(one.saved, one.source, axis)
    return SavedPositions(SavedTensor(mask, False, node), id(mask), axis)


def short_name(node: Any) -> str:
    """Return a node's name for error messages: ``Mul`` for ``MulBackward0``, ``Max1`` for
    ``MaxBackward1``.
    """
    return _NUMBERED.sub(r"\1", node.name())


def make_saved_tensor(
    tensor: Tensor, is_output: bool, is_inplace_on_view: bool = False
) -> SavedTensor:
    """Return a tensor saved outside any node (``torch._C._autograd._make_saved_tensor``)."""
    return SavedTensor(tensor, is_output)


def alias(tensor: Tensor) -> Tensor:
    """Return an alias without history."""
    return (
        tensor._alias()
        if MODES.dispatch is None
        else MODES.dispatch.detach(tensor, types=(Tensor,))
    )


def packed(pair: Pair, tensor: Tensor) -> Any:
    """Return the result of the pack hook for a tensor.

    Raises:
        RuntimeError: if the hook wrote to the tensor.
    """
    recording, version = MODES.recording, tensor._counter[0]
    MODES.recording = recording and False
    try:
        made = pair[0](tensor)
    finally:
        MODES.recording = recording
    if tensor._counter[0] != version:
        raise RuntimeError(errors.PACK_IN_PLACE)
    return made


def _edge_of(tensor: Tensor, is_output: bool) -> tuple[Any, int, bool, bool]:
    """Return the place of a tensor in the graph; see `SavedTensor._edge`."""
    node = tensor.grad_fn
    if node is None:
        return tensor._accumulator, 0, tensor.requires_grad, False
    return (None if is_output else node), tensor._output_nr, True, is_output


def _attached(value: Tensor, edge: tuple[Any, int, bool, bool], node: Any) -> Tensor:
    """Return an alias of ``value`` that has its place in the graph."""
    source, number, requires_grad, is_output = edge
    if not requires_grad and not value.requires_grad:
        return value
    made = alias(value)
    if value._dual is not None:
        made._dual = value._dual
    if is_output:
        if node is None:
            raise RuntimeError(errors.UNPACKED_WITHOUT_NODE)
        made._node, made._output_nr = node, number
    elif source is not None and not isinstance(source, weakref.ref):
        made._node, made._output_nr = source, number
    elif requires_grad:
        if made._array.dtype.kind not in "fcV":
            raise RuntimeError(errors.MADE_WITH_GRAD_DTYPE)
        made._requires, made._accumulator = True, source
    return made
