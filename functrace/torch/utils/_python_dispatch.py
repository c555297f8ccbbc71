"""``torch.utils._python_dispatch``: modes that intercept every operation.

Layer: 9.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, TypeVar

from functrace.torch._ops import OpOverload
from functrace.torch.dispatch.modes import activate, active, without_modes

Mode = TypeVar("Mode", bound="TorchDispatchMode")


class TorchDispatchMode:
    """A context in which operations on tensors are forwarded to ``__torch_dispatch__`` instead of
    being run.

    The handler runs beneath autograd: it gets the operands, its computations are not recorded, and
    its result becomes the result of the operation, whose node is then made. It gets in-place
    operations (``aten.mul_.Tensor``), ``out=`` (``aten.sin.out``), those operations of backward
    that are operations here, factories (``torch.zeros``, ``torch.tensor``) and reads of values
    (``item``). Calls of a handler go to the mode around it.

    Example:
        >>> import functrace.torch as torch
        >>> class Names(TorchDispatchMode):
        ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        ...         print(func)
        ...         return func(*args, **(kwargs or {}))
        >>> with Names():
        ...     _ = (torch.ones(2) * 2).exp_().sum(0)
        aten.ones.default
        aten.mul.Tensor
        aten.exp_.default
        aten.sum.dim_IntList
    """

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: object = None) -> None:
        if _dispatch_key is not None:
            raise AssertionError("_dispatch_key must be a torch._C.DispatchKey")

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Handle an operation: return its result, usually ``func(*args, **kwargs)``."""
        raise NotImplementedError

    def __enter__(self: Mode) -> Mode:
        activate((*active(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        activate(active()[:-1])
        return None

    @classmethod
    def push(cls: type[Mode], *args: Any, **kwargs: Any) -> Mode:
        """Make a mode; ``with Mode()`` does."""
        warnings.warn(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`",
            stacklevel=2,
        )
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return True if the mode belongs to the library rather than to its user."""
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return True if the mode ignores compiler internals; there is no compiler here."""
        return cls.is_infra_mode()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return True


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that runs every operation."""

    def __torch_dispatch__(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operation."""
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode() -> Any:
    """Return the innermost mode; None if none is active."""
    modes = active()
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """Return the active modes, innermost last."""
    return list(active())


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Return True if a mode is active."""
    return any(include_infra_modes or not mode.is_infra_mode() for mode in active())


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """Return True if a mode is active that does not ignore compiler internals."""
    return any(not mode.ignore_compile_internals() for mode in active())


def any_torch_dispatch_mode_on_stack() -> bool:
    """Return True if a mode is active that neither belongs to the library nor ignores compiler
    internals.
    """
    return any(
        not mode.is_infra_mode() and not mode.ignore_compile_internals() for mode in active()
    )


def _push_mode(mode: TorchDispatchMode) -> None:
    activate((*active(), mode))


def _pop_mode(k: object = None) -> Any:
    *rest, mode = active()
    activate(tuple(rest))
    return mode


@contextmanager
def _pop_mode_temporarily(k: object = None) -> Iterator[Any]:
    """Deactivate the innermost mode inside the context."""
    mode = _pop_mode(k)
    try:
        yield mode
    finally:
        _push_mode(mode)


def _disable_current_modes() -> AbstractContextManager[list[Any]]:
    """Deactivate all modes inside the context, which yields them, innermost first."""
    return without_modes()


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return True if a tensor's class wraps other tensors; none does here."""
    return False


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return True if a class wraps other tensors; none does here."""
    return False
