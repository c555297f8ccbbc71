"""`Function`: an operation of one's own with its own backward, as PyTorch has it.

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

``ctx`` *is* the node of the graph: an instance of ``SquareBackward``, a class made together with the Function, so what one
sets on ``ctx`` is found on ``y.grad_fn``. Among values that functrace traces, ``apply`` records a custom rule instead
(traced.py): the same class works, unchanged, under ``ft.grad``, ``ft.vmap``, ``ft.jit`` and ``ft.checkpoint``.

Floor: 8.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from functrace.torch import sentences
from functrace.torch.autograd.custom import FunctionBase
from functrace.torch.autograd.delayed import DelayedError
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.tensor import Tensor
from functrace.torch.warnings import warn
from functrace.tree import PyTreeSpec, flatten, unflatten

__all__ = [
    "BackwardCFunction", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "NestedIOFunction",
    "once_differentiable",
]  # fmt: skip


class FunctionCtx:
    """What forward and backward are handed as ``ctx``."""

    needs_input_grad: tuple[bool, ...]
    """For each argument, whether it is a tensor that requires grad."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep tensors (or ``None``) for backward, which finds them in ``saved_tensors``; a second call replaces the first.

        An overwrite in between is noticed, outputs make no reference cycle, and saved-tensor hooks apply: it happens when
        forward has returned.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for ``jvp``."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor | None):
                raise AssertionError(sentences.SAVE_FOR_FORWARD)
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Say which inputs forward has overwritten; they must be returned."""
        self.dirty_tensors = tensors

    def mark_shared_storage(self, *_pairs: object) -> None:
        """Do nothing: tensors that share memory are known."""
        warn(sentences.MARK_SHARED_STORAGE, FutureWarning)

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Say which outputs have no derivative; backward gets zeros for them."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Choose whether backward gets zeros (the default) or ``None`` for outputs that no gradient has reached."""
        self.materialize_grads = value


class BackwardCFunction(FunctionBase, FunctionCtx):
    """The node of a `Function`; every Function has a subclass of its own."""

    is_node = True

    def apply(self, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run the user's backward as it is, on gradients given by the caller."""
        function = self._forward_cls
        return function._rule()(self, list(grads)) if function.boxed_grads_call else function._rule()(self, *grads)

    def apply_boxed(self, *boxed: Any) -> Any:
        """Run the user's backward as it is, on what is given: a list of gradients, for one with ``boxed_grads_call``."""
        return self._forward_cls._rule()(self, *boxed)

    def apply_jvp(self, *tangents: Any) -> Any:
        """Run the user's jvp as it is, on tangents given by the caller."""
        return self._forward_cls.jvp(self, *tangents)


class FunctionMeta(type):
    """Makes the node class of every Function: ``<Name>Backward``."""

    _backward_cls: type[BackwardCFunction]

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        super().__init__(name, bases, attrs)
        node: type[BackwardCFunction] = getattr(cls, "_context_cls", BackwardCFunction)
        cls._backward_cls = type(f"{name}Backward", (node,), {"_forward_cls": cls, "__module__": __name__})


class _SingleLevelFunction(FunctionBase, FunctionCtx, metaclass=FunctionMeta):
    """The rules that a Function may have, as they are where the user has not written them."""

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result. To be overridden; takes ``ctx`` first unless there is a ``setup_context``."""
        raise NotImplementedError(sentences.NO_FORWARD)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save what backward needs. May be overridden; then ``forward`` takes no ``ctx``."""
        raise NotImplementedError(sentences.NO_SETUP_CONTEXT)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any, **_kwargs: Any) -> Any:
        """Return one gradient per argument of ``apply``. To be overridden."""
        raise NotImplementedError(sentences.NO_BACKWARD)

    vjp = backward
    """Another name for ``backward``: one of the two is overridden."""

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any, **_kwargs: Any) -> Any:
        """Return one tangent per output. May be overridden."""
        raise NotImplementedError(sentences.NO_JVP)


class Function(_SingleLevelFunction):
    """Base class of operations with a backward of their own; see the module."""

    clear_saved_tensors_on_access: ClassVar[bool] = False
    """Whether saved tensors are let go as soon as ``ctx.saved_tensors`` is read, which can then be done only once."""
    boxed_grads_call: ClassVar[bool] = False
    """Whether backward gets its gradients in one list, from which it may take them to let them go early."""

    generate_vmap_rule: ClassVar[bool] = False
    """Whether ``forward`` and ``backward`` are mapped as they are. That is so in any case, unless there is a ``vmap``."""

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        warnings.warn(sentences.function_instantiated(type(self)), DeprecationWarning, stacklevel=2)

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Raise: what PyTorch called so is gone; see ``apply``."""
        raise RuntimeError(sentences.LEGACY_FUNCTION)

    @staticmethod
    def vmap(info: object, in_dims: tuple[int | None, ...], *args: object) -> Any:
        """Return outputs and their mapped dimensions, for arguments of which some have one. May be overridden.

        Args:
            info: ``batch_size`` and ``randomness``.
            in_dims: for each argument, which dimension of it is mapped: the first, or ``None``.
            args: the arguments.
        """
        raise NotImplementedError(sentences.NO_VMAP)

    @classmethod
    def _arguments(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Bind the arguments of a forward without ctx, whose defaults become arguments."""
        if cls.setup_context is Function.setup_context:
            return super()._arguments(args, kwargs)
        bound = cls._signature().bind(*args, **kwargs)
        bound.apply_defaults()
        for name in bound.kwargs:
            raise TypeError(sentences.unexpected_keyword(name))
        return bound.args

    @classmethod
    def _rule(cls) -> Callable[..., Any]:
        """Return the user's backward, under whichever name it was written."""
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise RuntimeError(sentences.BACKWARD_AND_VJP)
        return cls.vjp


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` that cannot be differentiated itself.

    It runs without a graph. If a gradient that comes in requires grad, what goes out leads to an error when it is
    differentiated; otherwise it is a constant.
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
        return DelayedError(sentences.ONCE_DIFFERENTIABLE, len(wanted))(*wanted)

    return wrapped


# -- older classes -------------------------------------------------------------------------------------------------------


class InplaceFunction(Function):
    """What Functions that can overwrite their input were derived from."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedContext(BackwardCFunction):
    """The node of a `NestedIOFunction`: what it saves may be nested."""

    _saved_tree: Any = None
    _output_tree: Any = None

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep nests of tensors for backward, which finds them in ``saved_tensors``."""
        leaves, self._saved_tree = flatten(tensors)
        self.to_save = tuple(leaves)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What forward has saved, nested as it was."""
        return unflatten(self._saved_tree, super().saved_tensors)


class NestedIOFunction(Function):
    """A Function of nests of tensors: lists, tuples and dicts, in and out; ``apply`` takes and returns them.

    One writes ``forward_extended(ctx, *inputs)`` and ``backward_extended(ctx, *grads)``, whose gradients are nested as the
    outputs are, and which returns one nest per input.
    """

    _context_cls = NestedContext

    @staticmethod
    def forward_extended(ctx: Any, *inputs: object) -> Any:
        """Compute the result, a nest of tensors. To be overridden."""
        raise NotImplementedError

    @staticmethod
    def backward_extended(ctx: Any, *grads: object) -> Any:
        """Return one nest of gradients per input. To be overridden."""
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
        """Nest the inputs, and flatten the result."""
        found, ctx._output_tree = flatten(cls.forward_extended(ctx, *unflatten(tree, leaves)))
        trees.append(ctx._output_tree)
        return tuple(found)

    @classmethod
    def backward(cls, ctx: Any, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Nest the gradients, and flatten those that come back."""
        nested = unflatten(ctx._output_tree, grads)
        found = cls.backward_extended(ctx, *(nested if isinstance(nested, tuple) else (nested,)))
        return None, None, *leaves_or_nothing(found)


def leaves_or_nothing(nest: object) -> list[Any]:
    """Return the leaves of a nest; None is one."""
    return [x for part in nest for x in leaves_or_nothing(part)] if isinstance(nest, (tuple, list)) else [nest]
