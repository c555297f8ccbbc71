"""`Function`: an operation with a user-defined backward, as in PyTorch.

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):                 # or forward(x) and setup_context(ctx, inputs, output)
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2 * x * grad

    y = Square.apply(x)

``ctx`` *is* the node of the graph: an instance of ``SquareBackward``, a class made together with
the Function, so an attribute set on ``ctx`` is found on ``y.grad_fn``. On values that functrace
traces, ``apply`` records a custom rule instead (traced.py): the same class works, unchanged, under
``ft.grad``, ``ft.vmap``, ``ft.jit`` and ``ft.checkpoint``.

Layer: 9.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from functrace.torch import errors
from functrace.torch.autograd.custom import FunctionBase, whole_view
from functrace.torch.autograd.delayed import DelayedError
from functrace.torch.autograd.function_rules import BackwardCFunction as NodeWithRules
from functrace.torch.autograd.function_rules import FunctionCtx, FunctionMeta, _SingleLevelFunction
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.tensors.tensor import Tensor
from functrace.torch.tensors.views import made_by, rebase_history, refuse_function_view
from functrace.tree import flatten, unflatten

if TYPE_CHECKING:
    from functrace.tree import PyTreeSpec

__all__ = [
    "BackwardCFunction", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]  # fmt: skip


class WritingFunctionBase(FunctionBase):
    """Base class of Functions that may overwrite their inputs. It handles views, which
    `FunctionBase` cannot import.
    """

    @staticmethod
    def _whole_view(value: Tensor) -> Tensor:
        """Return a view of a whole tensor; a subclass with its own ``__torch_function__`` makes
        it.
        """
        for kind in type(value).__mro__:
            if kind is Tensor:
                break
            if "__torch_function__" in vars(kind):
                return value.view_as(value)
        return whole_view(value)

    @classmethod
    def _rewrite_history(
        cls, value: Tensor, node: FunctionBase, place: int, outputs: Sequence[Any]
    ) -> None:
        """Rebase the history of an overwritten input onto the node; the base of a view is
        overwritten with it.

        Raises:
            RuntimeError: for a leaf, and for a view among other outputs.
        """
        if value.requires_grad and value._node is None:
            raise RuntimeError(errors.DIRTY_LEAF)
        value._grad = None  # as in PyTorch: it was the gradient of another value
        if value._view is not None:
            if sum(isinstance(v, Tensor) for v in outputs) > 1:
                raise RuntimeError(errors.DIRTY_VIEW_OF_MANY)
            refuse_function_view(value, value._view, through_base=False)
            if value._view.base.is_leaf and value.requires_grad:
                raise RuntimeError(errors.VIEW_OF_LEAF_IN_PLACE)
            if value._view.made:
                raise RuntimeError(errors.no_grad_view(value._view.made, made_by(value)))
        rebase_history(value, node, place)


class BackwardCFunction(WritingFunctionBase, NodeWithRules):
    """The node of a `Function`; every Function has a subclass of its own."""


class Function(WritingFunctionBase, _SingleLevelFunction):
    """Base class of operations with their own backward.

    A subclass has the static methods ``forward(ctx, *args)`` and ``backward(ctx, *grads)``, or
    ``forward(*args)`` and ``setup_context(ctx, inputs, output)``. ``Subclass.apply(*args)`` runs
    it. ``ctx.save_for_backward(*tensors)`` keeps tensors, which ``backward`` finds in
    ``ctx.saved_tensors``. ``jvp(ctx, *tangents)`` and ``vmap(info, in_dims, *args)`` are optional.

    Raises:
        RuntimeError: if the class is instantiated and called, PyTorch's form before 1.3.

    Example:
        >>> import functrace.torch as torch
        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x * x
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         (x,) = ctx.saved_tensors
        ...         return 2.0 * x * grad
        >>> x = torch.tensor([1.0, 3.0], requires_grad=True)
        >>> Square.apply(x).sum().backward()
        >>> x.grad
        tensor([2., 6.])

    Source:
        ``torch.autograd.Function``.
    """

    _context_cls = BackwardCFunction

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        warnings.warn(errors.function_instantiated(type(self)), DeprecationWarning, stacklevel=2)

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Raise: PyTorch has removed this form; see ``apply``."""
        raise RuntimeError(errors.LEGACY_FUNCTION)


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` that cannot be differentiated itself.

    It runs without a graph. If an incoming gradient requires grad, differentiating an outgoing one
    raises; otherwise it is a constant.

    Args:
        fn: the ``backward`` of a `Function`.

    Returns:
        the decorated function.

    Raises:
        RuntimeError: when an outgoing gradient is differentiated.

    Example:
        >>> import functrace.torch as torch
        >>> class Sine(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         ctx.save_for_backward(x)
        ...         return x.sin()
        ...     @staticmethod
        ...     @torch.autograd.function.once_differentiable
        ...     def backward(ctx, grad):
        ...         return grad * ctx.saved_tensors[0].cos()
        >>> x = torch.tensor(0.0, requires_grad=True)
        >>> Sine.apply(x).backward()
        >>> x.grad
        tensor(1.)

    Source:
        ``torch.autograd.function.once_differentiable``.
    """

    @functools.wraps(fn)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        recording = MODES.recording
        MODES.recording = recording and False
        try:
            outputs = fn(ctx, *grads)
        finally:
            MODES.recording = recording
        if not (recording and any(isinstance(g, Tensor) and g.requires_grad for g in grads)):
            return outputs
        given = outputs if isinstance(outputs, tuple) else (outputs,)
        wanted = [None if x is None else x.detach().requires_grad_() for x in given]
        return DelayedError(errors.ONCE_DIFFERENTIABLE, len(wanted))(*wanted)

    return wrapped


# -- older classes ---------------------------------------------------------------------------------


class InplaceFunction(Function):
    """Former base class of Functions that can overwrite their input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedContext(BackwardCFunction):
    """Node of a `NestedIOFunction`; it can save pytrees."""

    _saved_tree: Any = None
    _output_tree: Any = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Save pytrees of tensors for backward, which finds them in ``saved_tensors``."""
        leaves, self._saved_tree = flatten(tensors)
        self.to_save = tuple(leaves)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved pytrees."""
        return unflatten(self._saved_tree, super().saved_tensors)


class NestedIOFunction(Function):
    """Function of pytrees of tensors (lists, tuples and dicts); ``apply`` takes and returns them.

    A subclass has ``forward_extended(ctx, *inputs)`` and ``backward_extended(ctx, *grads)``. Its
    gradients have the structure of the outputs, and it returns one pytree per input.

    Raises:
        NotImplementedError: if a subclass lacks one of the two methods.

    Example:
        >>> import functrace.torch as torch
        >>> class Scale(torch.autograd.function.NestedIOFunction):
        ...     def forward_extended(self, inputs):
        ...         return {"y": 2.0 * inputs["x"]}
        ...     def backward_extended(self, grads):
        ...         return {"x": 2.0 * grads["y"]}
        >>> issubclass(Scale, torch.autograd.Function)
        True

    Source:
        ``torch.autograd.function.NestedIOFunction``.
    """

    _context_cls = NestedContext

    @staticmethod
    def forward_extended(ctx: Any, *inputs: object) -> Any:
        """Compute the result, a pytree of tensors. To be overridden."""
        raise NotImplementedError

    @staticmethod
    def backward_extended(ctx: Any, *grads: object) -> Any:
        """Return one pytree of gradients per input. To be overridden."""
        raise NotImplementedError

    @classmethod
    def apply(cls, *inputs: object) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run ``forward_extended`` on the inputs."""
        leaves, tree = flatten(inputs)
        trees: list[Any] = []
        made = super().apply(tree, trees, *leaves)
        return unflatten(trees[0], made)

    @classmethod
    def forward(cls, ctx: Any, tree: PyTreeSpec, trees: list[PyTreeSpec], *leaves: object) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Unflatten the inputs, and flatten the result."""
        found, ctx._output_tree = flatten(cls.forward_extended(ctx, *unflatten(tree, leaves)))
        trees.append(ctx._output_tree)
        return tuple(found)

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Unflatten the gradients, and flatten the results."""
        nested = unflatten(ctx._output_tree, grads)
        found = cls.backward_extended(ctx, *(nested if isinstance(nested, tuple) else (nested,)))
        return None, None, *leaves_or_nothing(found)


def leaves_or_nothing(values: object) -> list[Any]:
    """Return the leaves of a pytree; None is a leaf."""
    return (
        [x for part in values for x in leaves_or_nothing(part)]
        if isinstance(values, (tuple, list))
        else [values]
    )
