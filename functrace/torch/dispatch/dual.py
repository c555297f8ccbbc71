"""What forward-mode AD keeps: the level that is entered, and the tangent of a tensor.

A level is entered for the whole process, as in PyTorch (`functrace.torch.autograd.forward_ad`). Operations, nodes and
Functions look here for it (`DUALS.level`): while there is none, that one test is all that forward mode costs.

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
    """What makes a tensor a dual one.

    Args:
        tangent: the tangent; None when the level is over.
    """

    __slots__ = ("__weakref__", "tangent")

    def __init__(self, tangent: Tensor) -> None:
        self.tangent: Tensor | None = tangent

    def __reduce__(self) -> Any:
        return type(None), ()  # what is pickled has no tangent


class Level(Protocol):
    """A level that is entered; see tangents.py."""

    def tangent_of(self, tensor: Tensor) -> Tensor | None:
        """Return the tangent of a tensor, if it has one and forward mode is on."""
        ...

    def set_tangent(self, tensor: Tensor, tangent: Tensor) -> None:
        """Give a tensor a tangent."""
        ...

    def set_tangent_in_place(self, tensor: Tensor, tangent: Tensor) -> None:
        """Give a tensor that was overwritten a tangent, and its base with it."""
        ...

    def concerns(self, operands: Sequence[object]) -> bool:
        """Whether one of the operands has a tangent, and forward mode is on."""
        ...

    def apply(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply an op, and give its results their tangents."""
        ...

    def write(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Tensor:
        """Apply an op in place, to the tangent too."""
        ...

    def keep_former(self, former: Tensor, tensor: Tensor) -> None:
        """Give the copy of a tensor that is about to be overwritten a copy of its tangent."""
        ...

    def push_function(
        self, ctx: FunctionBase, args: Sequence[object], raw: Sequence[object], outputs: Sequence[object]
    ) -> None:
        """Give the outputs of a user's Function the tangents that its ``jvp`` returns."""
        ...

    def close(self) -> None:
        """Let all tangents go."""
        ...


@final
class Duals:
    """Where the level is found."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level: Level | None = None


DUALS = Duals()
"""The level that is entered, if there is one."""


def is_forward_enabled() -> bool:
    """Return whether operations of this thread see tangents."""
    return MODES.forward and MODES.recording is not None


@contextmanager
def hidden(hides: bool = True) -> Generator[None]:
    """Let operations of this thread see no tangents; or see them again, if it does not hide them."""
    before, MODES.forward = MODES.forward, not hides
    try:
        yield
    finally:
        MODES.forward = before


# -- views in forward mode ---------------------------------------------------------------------------------------------


@final
class AliasOf:
    """The step from a tensor to an alias of it that has tangents of its own: in forward mode it is no view.

    Any two are equal, since they do the same.
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
    """Return what a tensor is a view of in forward mode, and the steps from there; None if it is no view."""
    view = tensor._view
    if view is None:
        return None
    for k in range(len(view.steps) - 1, -1, -1):
        step = view.steps[k][0]
        if isinstance(step, AliasOf):
            base = step.alias()
            return None if base is None or k == len(view.steps) - 1 else (base, view.steps[k + 1 :])
    return view.base, view.steps
