"""Saved-tensor hooks: pack a tensor when it is saved for backward, unpack it when backward reads
it.

`saved_tensors_hooks` installs a pair of functions. A new `SavedTensor` (saved.py) takes the
innermost pair and keeps its unpack hook, so a tensor is unpacked by the pair that packed it,
whichever pairs are installed by then. Pairs are thread-local. `disable_saved_tensors_hooks`
forbids installing any.

Everything here is exported from ``torch.autograd.graph``.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES

if TYPE_CHECKING:
    from functrace.torch.tensors.tensor import Tensor

Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class saved_tensors_hooks:
    """Pack every tensor that operations save for backward, while the context is entered.

    Args:
        pack_hook: called once for each saved tensor, with recording off; its result is kept
            instead.
        unpack_hook: called with that result whenever the saved tensor is read; returns a tensor
            with the same values.

    Only the innermost pair is called. Packed tensors have no version check.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> with torch.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        ...     y = x.exp()
        >>> y.grad_fn._raw_saved_result.data.dtype
        torch.float16
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        push_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *_args: object) -> None:
        pop_hooks()


@final
class save_on_cpu(saved_tensors_hooks):
    """Keep saved tensors in CPU memory. They are there already, so nothing is copied.

    Args:
        pin_memory: accepted for ported code; there is no other device.
        device_type: accepted for ported code.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> with torch.autograd.graph.save_on_cpu():
        ...     y = (x * x).sum()
        >>> y.backward()
        >>> x.grad
        tensor([2., 2.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(_detached, _itself)


def _detached(tensor: Tensor) -> Tensor:
    return tensor.detach()  # an output kept directly would refer to the node that holds it


def _itself(tensor: Tensor) -> Tensor:
    return tensor


def refuse_hooks() -> None:
    """Refuse active hooks inside ``torch.func``.

    Raises:
        RuntimeError: as in PyTorch, whose function transforms do not call them. functrace's own
            do.
    """
    if MODES.functional and MODES.recording and MODES.pairs and MODES.pairs[-1][0] is not _detached:
        raise RuntimeError(errors.HOOKS_AMONG_TRACED)


@contextmanager
def saving_with(pairs: tuple[Pair, ...]) -> Iterator[None]:
    """Activate these pairs in place of others."""
    before, MODES.pairs = MODES.pairs, pairs
    try:
        yield
    finally:
        MODES.pairs = before


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Forbid saved-tensor hooks inside of a ``with`` block.

    Args:
        error_message: message of the error that registering hooks raises.

    Returns:
        a context manager.

    Raises:
        RuntimeError: if hooks are active when the block begins; with ``error_message``, if hooks
            are registered in it.

    Example:
        >>> import functrace.torch as torch
        >>> with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        ...     (torch.ones(2, requires_grad=True) * 2.0).sum().backward()
    """
    outer = MODES.refusal
    try:
        refuse_to_push(error_message)
        yield
    finally:
        MODES.refusal = outer


# -- the stack of pairs (``torch._C._autograd._push_saved_tensors_default_hooks`` and related functions)


def push_hooks(pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
    """Enter a pair of hooks.

    Raises:
        RuntimeError: if hooks are disabled.
        TypeError: if they are no functions.
    """
    if not (callable(pack_hook) and callable(unpack_hook)):
        raise TypeError(errors.push_hooks_arguments(pack_hook, unpack_hook))
    if MODES.refusal is not None:
        raise RuntimeError(MODES.refusal)
    MODES.pairs = (*MODES.pairs, (pack_hook, unpack_hook))


def pop_hooks() -> None:
    """Leave the innermost pair.

    Raises:
        RuntimeError: if there is none.
    """
    if not MODES.pairs:
        raise RuntimeError(errors.NO_HOOKS_TO_POP)
    MODES.pairs = MODES.pairs[:-1]


def refuse_to_push(error_message: str, fail_if_non_empty: bool = True) -> None:
    """Make entering hooks raise ``error_message``.

    Raises:
        RuntimeError: if hooks are active and ``fail_if_non_empty``; they are refused from now on
            all the same, as in PyTorch.
    """
    MODES.refusal = error_message
    if MODES.pairs and fail_if_non_empty:
        raise RuntimeError(error_message)


def allow_to_push() -> None:
    """Allow hooks again."""
    MODES.refusal = None


def refusal() -> str | None:
    """Return the message with which hooks are refused, or None."""
    return MODES.refusal


def saved_tensors_hooks_are_enabled() -> bool:
    """Return True if saved-tensor hooks may be entered
    (``torch._C._autograd._saved_tensors_hooks_is_enabled``).
    """
    return MODES.refusal is None
