"""State of forward-mode AD: the current level, and the tangent of a tensor.

A level is process-wide, as in PyTorch (`functrace.torch.autograd.forward_ad`). Operations, nodes
and Functions read it here (`DUALS.level`): outside of a level, forward mode costs only this test.

Layer: 9.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, final

from functrace.torch.autograd.grad_mode import MODES
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.torch.autograd.custom import FunctionBase
    from functrace.torch.dispatch.applying import Op
    from functrace.torch.tensors.tensor import Step, Tensor


@final
class Dual:
    """The dual part of a tensor.

    Args:
        tangent: the tangent; None after the level has ended.
    """

    __slots__ = ("__weakref__", "tangent")

    def __init__(self, tangent: Tensor) -> None:
        self.tangent: Tensor | None = tangent

    def __reduce__(self) -> Any:
        return type(None), ()  # pickling drops the tangent


class Level(Protocol):
    """The current level; see tangents.py."""

    def tangent_of(self, tensor: Tensor) -> Tensor | None:
        """Return the tangent of a tensor, if it has one and forward mode is on."""
        ...

    def set_tangent(self, tensor: Tensor, tangent: Tensor) -> None:
        """Set the tangent of a tensor."""
        ...

    def set_tangent_in_place(self, tensor: Tensor, tangent: Tensor) -> None:
        """Set the tangent of an overwritten tensor, and update that of its base."""
        ...

    def concerns(self, operands: Sequence[object]) -> bool:
        """Return True if forward mode is on and one of the operands has a tangent."""
        ...

    def apply(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply an op, and set the tangents of its results."""
        ...

    def write(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Tensor:
        """Apply an op in place, to the tangent too."""
        ...

    def keep_former(self, former: Tensor, tensor: Tensor) -> None:
        """Set a copy of the tangent on the copy of a tensor that is about to be overwritten."""
        ...

    def push_function(
        self,
        ctx: FunctionBase,
        args: Sequence[object],
        raw: Sequence[object],
        outputs: Sequence[object],
    ) -> None:
        """Set the tangents returned by the ``jvp`` of a user's Function on its outputs."""
        ...

    def close(self) -> None:
        """Drop all tangents."""
        ...


@final
class Duals:
    """Holder of the current level."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level: Level | None = None


DUALS = Duals()
"""The current level, if any."""


def is_forward_enabled() -> bool:
    """Return True if operations of this thread propagate tangents."""
    return MODES.forward and MODES.recording is not None


@contextmanager
def hidden(hides: bool = True) -> Generator[None]:
    """Disable tangents for operations of this thread; or enable them, if ``hides`` is False."""
    before, MODES.forward = MODES.forward, not hides
    try:
        yield
    finally:
        MODES.forward = before


# -- views in forward mode -------------------------------------------------------------------------


@final
class AliasOf:
    """View step from a tensor to an alias that has its own tangents: in forward mode it is no
    view.

    All instances compare equal.
    """

    __slots__ = ("alias",)

    def __init__(self, alias: Tensor) -> None:
        self.alias = weakref.ref(alias)

    def __call__(self, array: Array) -> Array:
        """Return the array."""
        return array

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AliasOf)

    def __hash__(self) -> int:
        return hash(AliasOf)


def forward_base(tensor: Tensor) -> tuple[Tensor, tuple[Step, ...]] | None:
    """Return the base of a tensor in forward mode, and the view steps from it; None if the tensor
    is no view.
    """
    view = tensor._view
    if view is None:
        return None
    for k in range(len(view.steps) - 1, -1, -1):
        step = view.steps[k][0]
        if isinstance(step, AliasOf):
            base = step.alias()
            return None if base is None or k == len(view.steps) - 1 else (base, view.steps[k + 1 :])
    return view.base, view.steps


def forward_root(tensor: Tensor) -> int:
    """Return the identity of the base of a tensor in forward mode, which is the same for the base
    and its views, whether or not the base still exists.
    """
    view = tensor._view
    if view is None:
        return id(tensor)
    for step, _, _ in reversed(view.steps):
        if isinstance(step, AliasOf):
            return id(step)
    return id(view.base)


def is_forward_view(tensor: Tensor) -> bool:
    """Return True if a tensor is a view of another one in forward mode."""
    view = tensor._view
    return view is not None and not isinstance(view.steps[-1][0], AliasOf)
