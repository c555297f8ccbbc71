"""Tensors of traced values that share memory: views, detached aliases, and the effect of a write
on the others.

The core links handles of traced values that share memory, and rereads them after a write (Note
[In-place operations on traced values] in numpy/arrays/views.py). This module defines PyTorch's
views and ``detach()`` for it.

Layer: 9.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from functrace.errors import LostGradientError
from functrace.numpy.arrays.layout import C_ORDER
from functrace.numpy.arrays.view_kinds import (
    BroadcastView,
    ImagView,
    IndexView,
    OwnMemory,
    RealView,
    ReshapeView,
    TransposeView,
    View,
)
from functrace.numpy.arrays.views import linked, owned
from functrace.ops import elementwise as ew
from functrace.ops.indexing import index_static
from functrace.ops.shaping import broadcast_to, permute, reshape
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.tensors.steps import STRIDED, with_part
from functrace.tracing import Tracer
from functrace.typing import Array

_KINDS: dict[Callable[..., Any], Callable[..., View]] = {
    index_static: IndexView,
    reshape: ReshapeView,
    permute: TransposeView,
    broadcast_to: BroadcastView,
    ew.real: RealView,
    ew.imag: ImagView,
}


class StepView(View):
    """View made by a view function that has no class of its own."""

    __slots__ = ("step",)

    def __init__(self, base: Tracer, function: Callable[..., Any], params: tuple[Any, ...]) -> None:
        self.base, self.step = base, (function, params)

    def read(self, base: Array) -> Any:
        """Return the view's value, from the base's."""
        function, params = self.step
        return function(base, *params)

    def write(self, base: Array, new: Array) -> Any:
        """Return the base's new value after the view has become ``new``."""
        return with_part(base, ((*self.step, None),), new)

    def layout(self, base: Array) -> Array | None:
        """Return the result of the function on a stand-in array, if that is certain to be a
        view.
        """
        return self.read(base) if self.step[0] in STRIDED else None


class DetachedView(View):
    """An alias with its own history, which begins empty.

    A write through the alias changes the value of its base, and the history of the alias only; and
    vice versa.
    """

    __slots__ = ("own",)

    def __init__(self, base: Tracer) -> None:
        self.base = base
        self.own: Array | None = None
        """The value last written through it, whose history it has."""

    def read(self, base: Array) -> Any:
        """Return the base's value, with the alias's own history."""
        return ew.stop_gradient(base) if self.own is None else overwritten(self.own, base)

    def write(self, base: Array, new: Array) -> Any:
        """Return the written value, with the base's history."""
        self.own = new
        return overwritten(base, new)


def is_constant_now(traced: Tracer) -> bool:
    """Return True if ``no_grad`` makes a traced value constant: it was entered while the value was
    being traced.

    In the forward and backward of a user's Function it does not: there it concerns the graph, not
    the transforms that differentiate the Function; see Note [Detaching in custom rules].
    """
    return MODES.floor < traced.ft_recording.serial <= MODES.since and traced.dtype.kind in "fcV"


def in_grad_mode(traced: Tracer) -> Any:
    """Return a traced value as an operand: a constant under ``no_grad``."""
    return ew.stop_gradient(traced) if is_constant_now(traced) else traced


def detached(traced: Tracer) -> Any:
    """Return an alias that stops gradients; in a Function's own code, one that is in no graph."""
    if traced.dtype.kind not in "fcV":
        return traced
    if not traced.shape and traced.ft_view is None:
        traced.ft_view = OwnMemory(C_ORDER)
    if traced.ft_recording.serial <= MODES.floor:
        return linked(traced, View(traced))
    return linked(ew.stop_gradient(traced), DetachedView(traced))


def shown(base: Tracer, function: Callable[..., Any], params: tuple[Any, ...]) -> Any:
    """Return a view of a traced value."""
    if is_constant_now(base):
        base = detached(base)
    elif not base.shape and base.ft_view is None:
        base.ft_view = OwnMemory(C_ORDER)  # a scalar to the core, but 0-d tensors are arrays
    return linked(
        function(base, *params), _KINDS.get(function, StepView)(base, *_arguments(function, params))
    )


def _arguments(function: Callable[..., Any], params: tuple[Any, ...]) -> tuple[Any, ...]:
    return params if function in _KINDS else (function, params)


def apart(result: Any, operands: list[Any]) -> Any:
    """Return the result of an operation in its own memory: some operations return an operand."""
    return owned(result) if any(result is x for x in operands) else result


def overwritten(old: Any, new: Any) -> Any:
    """Return ``new`` with the derivative of ``old``: an unrecorded write keeps the former history.

    Where ``old`` is not finite, the derivative is lost.
    """
    if old.dtype.kind not in "fcV":
        return new
    still = ew.stop_gradient(old)
    kept = ew.where(
        ew.isfinite(still), ew.sub(still, old), 0
    )  # zero; with these signs -0.0 is preserved
    return ew.sub(ew.stop_gradient(new), kept)


def reassigned(old: Any, new: Any) -> Any:
    """Return the value of a tensor of ``old`` after ``.data = new``: the memory of ``new``, with
    the former history.

    Raises:
        LostGradientError: if shape or dtype differ from those of the history.
    """
    if (
        not isinstance(old, Tracer)
        or old.dtype.kind not in "fcV"
        or old.ft_recording.serial <= MODES.floor
    ):
        return detached(new) if isinstance(new, Tracer) else new
    if old.shape != new.shape or old.dtype != new.dtype:
        raise LostGradientError(
            f"`.data` of a traced tensor of {old.dtype} and shape {tuple(old.shape)} is assigned "
            f"{new.dtype} of shape "
            f"{tuple(new.shape)}",
            fix="assign a tensor of the same shape and dtype, or make a new tensor",
        )
    kept = overwritten(old, new)
    if not isinstance(new, Tracer):
        return owned(kept)
    if not new.shape and new.ft_view is None:
        new.ft_view = OwnMemory(C_ORDER)
    view = DetachedView(new)
    view.own = kept
    return linked(kept, view)


def replace(traced: Tracer, value: Any) -> None:
    """Replace the value of a traced value's handle, and of all handles that share its memory."""
    if is_constant_now(traced):
        value = overwritten(traced, value)
    traced._replace(value, fresh=True)  # type: ignore[attr-defined]


def is_alone(array: Array) -> bool:
    """Return True if only the caller's attribute and two variables refer to an array, and so to
    its memory.
    """
    return array.base is None and sys.getrefcount(array) <= 4


def traced_of(array: Array, like: Tracer) -> Any:
    """Return an array as a value traced by the recording of ``like``."""
    recording = like.ft_recording
    made = recording.handle(recording.capture(array))
    made.ft_view = OwnMemory(C_ORDER)
    return made
