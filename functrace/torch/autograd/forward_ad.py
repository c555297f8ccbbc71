"""``torch.autograd.forward_ad``: forward-mode AD, by tensors that carry a tangent.

    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, direction)
        value, derivative = forward_ad.unpack_dual(function(dual))

Operations on dual tensors compute values and tangents, by the core's rules
(`functrace.torch.dispatch.tangents`). Tangents have nodes in the graph, and backward passes carry
tangents: either mode differentiates the other. There is one level, for all threads; leaving it
drops all tangents. For forward mode within forward mode, use `functrace.torch.func.jvp`.

Layer: 9.
"""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple, final

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES, DecoratingContext
from functrace.torch.dispatch.dual import DUALS, is_forward_enabled
from functrace.torch.dispatch.tangents import MAKE_DUAL, PRIMAL, LevelState, alias_of
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]

_current_level = -1
"""The current level: 0, or -1 outside."""


class UnpackedDualTensor(NamedTuple):
    """Result of `unpack_dual`.

    Args:
        primal: the tensor without tangent.
        tangent: its tangent, or ``None``.

    Example:
        >>> import functrace.torch as torch
        >>> torch.autograd.forward_ad.unpack_dual(torch.ones(2)).tangent is None
        True
    """

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Enter the level at which dual tensors are made.

    Returns:
        its number, 0.

    Raises:
        RuntimeError: if it has been entered already.

    Example:
        >>> from functrace.torch.autograd import forward_ad
        >>> forward_ad.enter_dual_level()
        0
        >>> forward_ad.exit_dual_level()
    """
    global _current_level
    if DUALS.level is not None:
        raise RuntimeError(errors.NESTED_LEVELS)
    DUALS.level = LevelState()
    _current_level = 0
    return _current_level


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave the level of dual tensors, which removes all tangents.

    Args:
        level: 0, the default.

    Raises:
        RuntimeError: if it has not been entered, or another level is named.

    Example:
        >>> from functrace.torch.autograd import forward_ad
        >>> level = forward_ad.enter_dual_level()
        >>> forward_ad.exit_dual_level(level=level)
    """
    global _current_level
    if level is not None and level != _current_level:
        raise RuntimeError(errors.EXIT_OTHER_LEVEL)
    if DUALS.level is None:
        raise RuntimeError(errors.EXIT_NO_LEVEL)
    entered, DUALS.level = DUALS.level, None
    entered.close()
    _current_level = -1


@final
class dual_level(DecoratingContext):
    """A context, and a decorator, in which dual tensors exist.

    Example:
        >>> import functrace.torch as torch
        >>> import functrace.torch.autograd.forward_ad as forward_ad
        >>> with forward_ad.dual_level():
        ...     dual = forward_ad.make_dual(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0]))
        ...     forward_ad.unpack_dual(dual * dual).tangent
        tensor([2., 0.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Make an alias of a tensor that has a tangent.

    Args:
        tensor: the value; backward goes through the alias to it.
        tangent: a tensor of the same shape. It is used itself, or a copy with the memory layout of
            ``tensor``.
        level: 0, the default.

    Returns:
        the dual tensor.

    Raises:
        RuntimeError: if no level is entered, shapes differ, or one of the two is dual.
        ValueError: if one of the two is not of floats or complex numbers.

    Example:
        >>> import functrace.torch as torch
        >>> from functrace.torch.autograd import forward_ad
        >>> with forward_ad.dual_level():
        ...     x = forward_ad.make_dual(torch.tensor([0.0]), torch.tensor([2.0]))
        ...     print(forward_ad.unpack_dual(torch.sin(x)).tangent)
        tensor([2.])
    """
    number = _current_level if level is None else level
    if number < 0:
        raise RuntimeError(errors.NO_LEVEL)
    for what, given in (("primal", tensor), ("tangent", tangent)):
        if not (given.is_floating_point() or given.is_complex()):
            raise ValueError(errors.dual_dtype(what, given.dtype))
    entered = _entered(number, "_make_dual")
    if entered.tangent_of(tensor) is not None:
        raise RuntimeError(errors.DUAL_OF_DUAL)
    made = alias_of(tensor, MAKE_DUAL)
    entered.set_tangent(made, tangent)
    return made


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Split a tensor into an alias without tangent, and the tangent.

    Args:
        tensor: a tensor, dual or not.
        level: 0, the default.

    Returns:
        the pair ``(primal, tangent)``; the tangent is ``None`` for a tensor that is not dual.

    Example:
        >>> import functrace.torch as torch
        >>> from functrace.torch.autograd import forward_ad
        >>> with forward_ad.dual_level():
        ...     x = forward_ad.make_dual(torch.tensor([1.0]), torch.tensor([2.0]))
        ...     print(forward_ad.unpack_dual(x).tangent)
        tensor([2.])
    """
    number = _current_level if level is None else level
    if number < 0:
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, Tensor):
        raise TypeError(errors.must_be_tensor("_unpack_dual", "dual", 0, errors.kind_of(tensor)))
    entered = _entered(number, "_fw_primal")
    return UnpackedDualTensor(alias_of(tensor, PRIMAL), entered.tangent_of(tensor))


def _entered(number: int, name: str) -> LevelState:
    """Return the level of a number.

    Raises:
        RuntimeError: if there is none.
    """
    entered = DUALS.level
    if number or not isinstance(entered, LevelState):
        raise RuntimeError(errors.invalid_level(name))
    return entered


# -- enabling tangents -----------------------------------------------------------------------------


_is_fwd_grad_enabled = is_forward_enabled


@final
class _set_fwd_grad_enabled(DecoratingContext):
    """Enable or disable tangents of this thread's operations immediately; as a context, until it
    ends.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.prev = MODES.forward
        MODES.forward = mode

    def clone(self) -> _set_fwd_grad_enabled:
        """Return another context of this kind."""
        return _set_fwd_grad_enabled(self.mode)

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        MODES.forward = self.prev
