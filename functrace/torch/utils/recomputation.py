"""Implementation of checkpoints: a frame for each call, and the hooks of its first run and of
reruns.

The first run uses `_checkpoint_hook`, which keeps an empty `_Holder` for each saved tensor. When a
holder is unpacked, the call is rerun under `_recomputation_hook`, which collects the tensors in
the order of the first run and stops the rerun by an exception as soon as the last holder has its
tensor. Nested checkpoints need nothing more: the inputs of an inner call are saved tensors, which
the outer hooks turn into holders; unpacking them reruns the outer call.

Lifetimes: saved tensors refer to holder and frame; the frame refers to its holders weakly, and to
the tensors collected for a backward pass until they are taken or that pass ends. Nothing refers to
the results of either run.

Layer: 9.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, final

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES, enable_grad
from functrace.torch.autograd.hooks import saved_tensors_hooks
from functrace.torch.autograd.running import RUNNING
from functrace.torch.autograd.saved import SavedTensor, make_saved_tensor
from functrace.torch.tensors.tensor import Tensor


class CheckpointError(RuntimeError):
    """The second run of a function did not save what the first one saved."""


class _StopRecomputationError(Exception):
    """All needed tensors have been recomputed; passes through the user's function."""


class GraphExecGroup:
    """A context under which a checkpointed function is rerun at most once for several backward
    passes.

    The passes must not need the same saved tensor.

    Raises:
        RuntimeError: if one is entered within another.

    Example:
        >>> import functrace.torch as torch
        >>> from functrace.torch.utils.checkpoint import GraphExecGroup, checkpoint
        >>> x = torch.tensor([0.5], requires_grad=True)
        >>> a, b = checkpoint(lambda x: print("run") or (x.sin(), x.cos()), x, use_reentrant=False)
        run
        >>> with GraphExecGroup():
        ...     a.backward()
        ...     b.backward()
        run
    """

    def __enter__(self) -> GraphExecGroup:
        if MODES.graph_exec_group is not None:
            raise RuntimeError(errors.nested_groups(MODES.graph_exec_group))
        MODES.graph_exec_group = self
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        MODES.graph_exec_group = None

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        return MODES.graph_exec_group


@final
class _Holder:
    """Placeholder of a tensor saved in the first run, by its index."""

    __slots__ = ("__weakref__", "place")

    def __init__(self, place: int) -> None:
        self.place = place


@final
class _Recomputed:
    """The tensors saved by a rerun: their number, and by index those still needed."""

    __slots__ = ("__weakref__", "count", "tensors")

    def __init__(self) -> None:
        self.count = 0
        self.tensors: dict[int, Tensor] = {}


@final
class _CheckpointFrame:
    """One checkpointed call.

    Args:
        recompute_fn: reruns the call.
        early_stop: True to stop a rerun once all needed tensors are available.
        unpack_error_cb: gets the error of a rerun, to raise a better one.
        metadata_fn: properties of the saved tensors that are compared between runs.
    """

    __slots__ = (
        "__weakref__",
        "early_stop",
        "forward_completed",
        "ignore_saved_mismatch",
        "metadata_fn",
        "recompute_fn",
        "recomputed",
        "saved_args",
        "unpack_error_cb",
        "weak_holders",
        "x_metadatas",
    )

    def __init__(
        self,
        recompute_fn: Callable[..., object],
        early_stop: bool,
        unpack_error_cb: Callable[[CheckpointError], object] | None,
        metadata_fn: Callable[[Tensor], object],
    ) -> None:
        self.recompute_fn, self.early_stop = recompute_fn, early_stop
        self.unpack_error_cb, self.metadata_fn = unpack_error_cb, metadata_fn
        self.saved_args: list[Any] = []
        self.weak_holders: list[weakref.ref[_Holder]] = []
        self.x_metadatas: list[object] = []
        self.recomputed: weakref.WeakKeyDictionary[object, _Recomputed] = (
            weakref.WeakKeyDictionary()
        )
        """Rerun results by owner: a backward pass, or a group of them."""
        self.forward_completed = False
        self.ignore_saved_mismatch = False
        """True if a gradient was taken within the call, before the number of its saved tensors was
        final.
        """

    def save_inputs(self, *args: object) -> None:
        """Save the positional arguments. Tensors among them are saved tensors, so outer hooks may
        pack them.
        """
        self.saved_args = [
            make_saved_tensor(arg, False) if isinstance(arg, Tensor) else arg for arg in args
        ]

    def get_inputs(self) -> list[Any]:
        """Return the positional arguments; tensors are unpacked."""
        return [arg.unpack() if isinstance(arg, SavedTensor) else arg for arg in self.saved_args]

    def keep_place(self, tensor: Tensor) -> _Holder:
        """Pack in the first run: return an empty holder."""
        holder = _Holder(len(self.weak_holders))
        self.weak_holders.append(weakref.ref(holder))
        self.x_metadatas.append(self.metadata_fn(tensor))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        """Unpack: rerun, unless that was done for the running backward pass, and take the tensor
        of this holder.

        Raises:
            CheckpointError: if it was taken before, or the rerun saved other tensors than the
                first run.
        """
        gid = GraphExecGroup._get_current_group() or RUNNING.task or GraphExecGroup()
        found = self.recomputed.get(gid)
        if found is None:
            found = self.run_again(gid)
        if holder.place not in found.tensors:
            raise CheckpointError(
                errors.unpacked_twice(in_group=MODES.graph_exec_group is not None)
            )
        return found.tensors.pop(holder.place)

    def run_again(self, gid: object) -> _Recomputed:
        """Rerun the call and keep its saved tensors for an owner."""
        args = self.get_inputs()
        found = self.recomputed[gid] = _Recomputed()
        try:
            with _recomputation_hook(weakref.ref(self), gid), enable_grad():
                self.recompute_fn(*args)
        except _StopRecomputationError:
            pass
        except BaseException:
            del self.recomputed[gid]
            raise
        self.check_recomputed_tensors_match(gid)
        return found

    def put(self, tensor: Tensor, gid: object) -> Tensor:
        """Pack in a rerun: store a tensor by its index; stop if it was the last one."""
        if tensor.requires_grad:
            tensor = tensor.detach()
        found = self.recomputed[gid]
        place = found.count
        found.count += 1
        if place >= len(self.weak_holders):
            if self.early_stop:
                raise AssertionError(errors.SAVED_AFTER_STOP)
            if self.forward_completed:
                raise CheckpointError(errors.SAVED_MORE)
            self.ignore_saved_mismatch = True
            return tensor
        if self.weak_holders[place]() is not None:
            found.tensors[place] = tensor
        if self.early_stop and found.count == len(self.weak_holders):
            raise _StopRecomputationError
        return tensor

    def check_recomputed_tensors_match(self, gid: object) -> None:
        """Check that a rerun saved the same tensors as the first run.

        Raises:
            CheckpointError: for another number of tensors, or tensors of other shapes or dtypes.
        """
        if self.ignore_saved_mismatch:
            return
        found = self.recomputed[gid]
        if found.count != len(self.weak_holders):
            raise CheckpointError(errors.saved_fewer(len(self.weak_holders), found.count))
        pairs = [
            (k, self.x_metadatas[k], self.metadata_fn(tensor))
            for k, tensor in found.tensors.items()
        ]
        cases = [case for case in pairs if case[1] != case[2]]
        if cases:
            raise CheckpointError(errors.saved_differently(cases))


class _checkpoint_hook(saved_tensors_hooks):
    """The hooks of the first run."""

    def __init__(self, frame: _CheckpointFrame) -> None:
        callback = frame.unpack_error_cb

        def unpack(holder: _Holder) -> Any:
            try:
                return frame.unpack(holder)
            except CheckpointError as error:
                assert callback is not None
                return callback(error)

        super().__init__(frame.keep_place, frame.unpack if callback is None else unpack)


class _recomputation_hook(saved_tensors_hooks):
    """The hooks of a rerun."""

    def __init__(self, target_frame_ref: weakref.ref[_CheckpointFrame], gid: object) -> None:
        def pack(tensor: Tensor) -> Tensor:
            frame = target_frame_ref()
            if frame is None:
                raise AssertionError("Internal error: target_frame reference is None")
            return frame.put(tensor, gid)

        super().__init__(pack, _itself)


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def _default_meta_extractor(x: Tensor) -> dict[str, object]:
    return {"shape": x.shape, "dtype": x.dtype, "device": x.device}


def _nothing(_x: Tensor) -> None:
    return None


_DEFAULT_DETERMINISM_MODE = "default"
_allowed_determinism_checks_to_fns: dict[str, Callable[[Tensor], object]] = {
    _DEFAULT_DETERMINISM_MODE: _default_meta_extractor,
    "none": _nothing,
}
"""Properties of saved tensors to compare, by ``determinism_check``."""
