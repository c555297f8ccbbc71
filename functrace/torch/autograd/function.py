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
import inspect
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from functrace.torch import sentences
from functrace.torch.autograd import custom, traced
from functrace.torch.autograd.custom import BackwardCFunction, FunctionCtx
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.tensor import Tensor

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "once_differentiable"]


class FunctionMeta(type):
    """Makes the node class of every Function: ``<Name>Backward``."""

    _backward_cls: type[BackwardCFunction]

    def __init__(cls, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> None:
        super().__init__(name, bases, attributes)
        cls._backward_cls = type(f"{name}Backward", (BackwardCFunction,), {"_forward_cls": cls, "__module__": __name__})


class Function(metaclass=FunctionMeta):
    """Base class of operations with a backward of their own; see the module."""

    clear_saved_tensors_on_access: ClassVar[bool] = False
    """Whether saved tensors are let go as soon as ``ctx.saved_tensors`` is read, which can then be done only once."""
    _inspected: ClassVar[tuple[Any, inspect.Signature]]

    def __init__(self, *_args: Any, **_kwargs: Any) -> None:
        warnings.warn(sentences.function_instantiated(type(self)), DeprecationWarning, stacklevel=2)

    def __call__(self, *_args: Any, **_kwargs: Any) -> Any:
        """Raise: what PyTorch called so is gone; see ``apply``."""
        raise RuntimeError(sentences.LEGACY_FUNCTION)

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

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` on the arguments, and put a node into the graph if one of them requires grad.

        Args:
            args: tensors get gradients; anything else is handed on as it is.
            kwargs: moved to the places that ``forward`` has for these names, and count as arguments.

        Returns:
            what ``forward`` returned. Its tensors (those of a tuple, not deeper) belong to the node.

        Raises:
            TypeError: if the arguments do not fit ``forward``, or something else than a tensor was saved for backward.
            RuntimeError: if an input marked as dirty is a leaf, a view returned among others, or not returned.
        """
        if cls.setup_context is not Function.setup_context:
            args = _bound(cls, args, kwargs)
        elif kwargs:
            args = _placed(cls, args, kwargs)
        kind = traced.kind_of(args)
        if kind != "tensors":
            return traced.apply(cls, args) if kind == "traced" else traced.apply_to_arrays(cls, args)
        ctx = cls._backward_cls()
        ctx._begin(args, in_graph=True)
        recording = MODES.recording
        MODES.recording = False
        try:
            output = cls._run(ctx, args)
        finally:
            MODES.recording = recording
        return custom.finish(ctx, args, output)

    @classmethod
    def _run(cls, ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
        """Run the user's forward, in the style that it is written in."""
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args)
        output = cls.forward(*args)
        cls.setup_context(ctx, args, output)
        return output

    @classmethod
    def _rule(cls) -> Callable[..., Any]:
        """Return the user's backward, under whichever name it was written."""
        if cls.vjp is Function.vjp:
            return cls.backward
        if cls.backward is not Function.backward:
            raise RuntimeError(sentences.BACKWARD_AND_VJP)
        return cls.vjp


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` that cannot be differentiated itself.

    It runs without a graph. If a gradient that comes in requires grad, what goes out leads to an error when it is
    differentiated; otherwise it is a constant.
    """

    @functools.wraps(backward)
    def wrapped(ctx: Any, *grads: Any) -> Any:
        recording = MODES.recording
        MODES.recording = False
        try:
            outputs = backward(ctx, *grads)
        finally:
            MODES.recording = recording
        if recording and any(isinstance(g, Tensor) and g.requires_grad for g in grads):
            return custom.refusing(outputs, sentences.ONCE_DIFFERENTIABLE)
        return outputs

    return wrapped


# -- arguments -----------------------------------------------------------------------------------------------


def _signature(cls: type[Function]) -> inspect.Signature:
    """Return the signature of ``forward``; kept on the class (inspecting takes 10 us), so that it dies with it."""
    function = getattr(cls.forward, "__func__", cls.forward)
    kept = cls.__dict__.get("_inspected")
    if kept is None or kept[0] is not function:
        kept = (function, inspect.signature(cls.forward))
        cls._inspected = kept
    return kept[1]


def _bound(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Bind the arguments of a forward without ctx; defaults become arguments."""
    bound = _signature(cls).bind(*args, **kwargs)
    bound.apply_defaults()
    for name in bound.kwargs:
        raise TypeError(sentences.unexpected_keyword(name))
    return bound.args


def _placed(cls: type[Function], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Append keyword arguments at the places of ``forward(ctx, ...)``; what was left out in between is missing."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in _signature(cls).parameters.values() if p.kind in positional][1:]
    for name in kwargs:
        if name not in names:
            raise TypeError(sentences.unexpected_keyword(name))
        if names.index(name) < len(args):
            raise TypeError(sentences.multiple_values(name))
    last = max(map(names.index, kwargs))
    for place in range(len(args), last + 1):
        if names[place] not in kwargs:
            raise TypeError(sentences.missing_argument(names[place], place))
    return (*args, *[kwargs[name] for name in names[len(args) : last + 1]])
