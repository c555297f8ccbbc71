"""Base of every `Function`: ``ctx``, the class of its node, and default rules.

The library's own Functions that overwrite no input derive from `_SingleLevelFunction`, so the
implementation of tensor operations can apply them; users' Functions derive from `Function`
(function.py), which imports that implementation.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from functrace.torch import errors
from functrace.torch.autograd.custom import FunctionBase
from functrace.torch.errors.warnings import warn
from functrace.torch.tensors.tensor import Tensor


class FunctionCtx:
    """The ``ctx`` argument of forward and backward."""

    needs_input_grad: tuple[bool, ...]
    """True for each argument that is a tensor that requires grad."""

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors (or ``None``) for backward, which finds them in ``saved_tensors``; a second
        call replaces the first.

        Saving takes place after forward has returned: overwriting a tensor before backward is
        detected, outputs make no reference cycle, and saved-tensor hooks apply.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep tensors for ``jvp``."""
        for tensor in tensors:
            if not isinstance(tensor, Tensor | None):
                raise AssertionError(errors.SAVE_FOR_FORWARD)
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Any) -> None:
        """Mark inputs that forward has overwritten; they must be returned."""
        self.dirty_tensors = tensors

    def mark_shared_storage(self, *_pairs: object) -> None:
        """Do nothing: shared memory is detected without it."""
        warn(errors.MARK_SHARED_STORAGE, FutureWarning)

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Mark outputs that have no derivative; backward gets zeros for them."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Choose if backward gets zeros (the default) or ``None`` for outputs without a
        gradient.
        """
        self.materialize_grads = value


class BackwardCFunction(FunctionBase, FunctionCtx):
    """The node of a `Function`; every Function has a subclass of its own."""

    is_node = True

    def apply(self, *grads: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Run the user's backward as it is, on gradients given by the caller."""
        function = self._forward_cls
        return (
            function._rule()(self, list(grads))
            if function.boxed_grads_call
            else function._rule()(self, *grads)
        )

    def apply_boxed(self, *boxed: Any) -> Any:
        """Run the user's backward as it is, on the given arguments: one list of gradients with
        ``boxed_grads_call``.
        """
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
        module = "functrace.torch.autograd.function"
        cls._backward_cls = type(
            f"{name}Backward", (node,), {"_forward_cls": cls, "__module__": module}
        )


class _SingleLevelFunction(FunctionBase, FunctionCtx, metaclass=FunctionMeta):
    """Default rules of a Function, used unless the user overrides them."""

    clear_saved_tensors_on_access: ClassVar[bool] = False
    """True if reading ``ctx.saved_tensors`` frees the saved tensors, so that it can be read only
    once.
    """
    boxed_grads_call: ClassVar[bool] = False
    """True if backward gets its gradients in one list, from which it may remove them to free them
    early.
    """

    generate_vmap_rule: ClassVar[bool] = False
    """True if ``forward`` and ``backward`` are batched as they are, which is always the case
    without a ``vmap``.
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the result. To be overridden; takes ``ctx`` first unless there is a
        ``setup_context``.
        """
        raise NotImplementedError(errors.NO_FORWARD)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save the residuals of backward. May be overridden; then ``forward`` takes no ``ctx``."""
        raise NotImplementedError(errors.NO_SETUP_CONTEXT)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any, **_kwargs: Any) -> Any:
        """Return one gradient per argument of ``apply``. To be overridden."""
        raise NotImplementedError(errors.NO_BACKWARD)

    vjp = backward
    """Another name for ``backward``: one of the two is overridden."""

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any, **_kwargs: Any) -> Any:
        """Return one tangent per output. May be overridden."""
        raise NotImplementedError(errors.NO_JVP)

    @staticmethod
    def vmap(info: object, in_dims: tuple[int | None, ...], *args: object) -> Any:
        """Return outputs and their mapped dimensions, for arguments of which some have one. May be
        overridden.

        Args:
            info: ``batch_size`` and ``randomness``.
            in_dims: for each argument, which dimension of it is mapped: the first, or ``None``.
            args: the arguments.
        """
        raise NotImplementedError(errors.NO_VMAP)

    @classmethod
    def _arguments(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Bind the arguments of a forward without ctx, whose defaults become arguments."""
        if cls.setup_context is _SingleLevelFunction.setup_context:
            return super()._arguments(args, kwargs)
        bound = cls._signature().bind(*args, **kwargs)
        bound.apply_defaults()
        for name in bound.kwargs:
            raise TypeError(errors.unexpected_keyword(name))
        return bound.args

    @classmethod
    def _rule(cls) -> Callable[..., Any]:
        """Return the user's backward, under whichever name it was written."""
        if cls.vjp is _SingleLevelFunction.vjp:
            return cls.backward
        if cls.backward is not _SingleLevelFunction.backward:
            raise RuntimeError(errors.BACKWARD_AND_VJP)
        return cls.vjp
