"""Nodes that users insert explicitly: one raises when it is differentiated, one stops gradients.

They are functions: ``DelayedError("too late", 1)(x)`` returns an alias of ``x`` whose node raises.
Everything here is exported from ``torch._C._functions``.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from functrace.ir.aval import ShapeDtype
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.graph import NO_EDGE, GraphNode, NativeNode, edge, number
from functrace.torch.tensors.tensor import Tensor


@final
class DelayedError:
    """A function that returns aliases of tensors; differentiating them raises.

    Args:
        message: message of the ``RuntimeError``.
        count: number of tensors that it is called with.

    Example:
        >>> import functrace.torch as torch
        >>> refuse = torch._C._functions.DelayedError("this was computed elsewhere", 1)
        >>> x = refuse(torch.ones(2, requires_grad=True))
        >>> x.sum().backward()
        Traceback (most recent call last):
        RuntimeError: this was computed elsewhere
    """

    is_node_class = True
    """True if the class counts as a subclass of ``Node``."""

    def __init__(self, *arguments: Any) -> None:
        if len(arguments) != 2:
            raise RuntimeError(f"Requires two arguments, got {len(arguments)}")
        message, self._count = arguments
        if not isinstance(message, (str, bytes)):
            raise RuntimeError("argument 'msg' must be a string")
        self._message = message.decode() if isinstance(message, bytes) else message

    def __call__(self, *tensors: Tensor | None) -> Any:
        """Return the aliases; a tuple if there are several."""
        check_operands(tensors, self._count)
        return aliases(tensors, Error(self._message, tensors))


@final
class UndefinedGrad(GraphNode):
    """A function that returns an alias of a tensor; no gradient flows back through it, not even
    zeros.
    """

    def __init__(self) -> None:
        number(self)

    def name(self) -> str:
        """Return the name that error messages use."""
        return "torch::autograd::UndefinedGrad"

    def __call__(self, *tensors: Tensor | None) -> Any:
        """Return the alias."""
        check_operands(tensors, 1)
        return aliases(tensors, UndefinedGradBackward(tensors))


def check_operands(tensors: Sequence[object], count: int) -> None:
    """Check the number of operands, and that each is a tensor.

    Raises:
        TypeError: otherwise.
    """
    for k, x in enumerate(tensors):
        if not isinstance(x, Tensor | None):
            raise TypeError(errors.not_a_variable(k))
    if len(tensors) != count:
        raise TypeError(errors.operand_count(count, len(tensors)))


def aliases(tensors: Sequence[Tensor | None], node: AliasNode) -> Any:
    """Return aliases of tensors as outputs of a node, if one of the tensors requires grad."""
    made = [None if x is None else x.detach() for x in tensors]
    if any(x is not None and x.requires_grad for x in tensors):
        for k, alias in enumerate(made):
            if alias is not None:
                alias._node, alias._output_nr = node, k
    return tuple(made) if len(made) > 1 else made[0]


class AliasNode(NativeNode):
    """The node of a function that returns its operands."""

    def __init__(self, tensors: Sequence[Tensor | None]) -> None:
        self._avals = [
            None if x is None else ShapeDtype(x._array.shape, x._array.dtype) for x in tensors
        ]
        self._edges = tuple([NO_EDGE if x is None else edge(x) for x in tensors])
        number(self)

    def name(self) -> str:
        """Return the name that error messages use."""
        return f"torch::autograd::{type(self).__name__}"

    def output_avals(self) -> Sequence[Any]:
        """Return shape and dtype of the aliases."""
        return self._avals


class Underivable(NativeNode):
    """The node of an operation whose derivative PyTorch does not have; it raises when a gradient
    reaches it.
    """

    _function = ""
    """PyTorch's name of the operation."""

    def __init__(self, result: Tensor, source: Tensor) -> None:
        self._aval = ShapeDtype(result._array.shape, result._array.dtype)
        self._edges = (edge(source),)
        number(self)

    def output_avals(self) -> Sequence[ShapeDtype]:
        """Return shape and dtype of the result."""
        return (self._aval,)

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Raise."""
        raise NotImplementedError(errors.underivable(self._function))


_UNDERIVABLE: dict[str, type[Underivable]] = {}


def refuse_derivative(result: Tensor, source: Tensor, node: str, function: str) -> None:
    """Make a result the output of a node that raises, if its source requires grad.

    Args:
        result: the result.
        source: the tensor that it was computed from.
        node: the name of the node.
        function: PyTorch's name of the operation.
    """
    if not (MODES.recording and source.requires_grad and result._array.dtype.kind in "fcV"):
        return
    kind = _UNDERIVABLE.get(node)
    if kind is None:
        kind = _UNDERIVABLE[node] = type(node, (Underivable,), {"_function": function})
    result._node = kind(result, source)


class Error(AliasNode):
    """A node that raises when gradients reach it."""

    def __init__(self, message: str, tensors: Sequence[Tensor | None]) -> None:
        super().__init__(tensors)
        self._message = message

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Raise."""
        raise RuntimeError(self._message)


class UndefinedGradBackward(AliasNode):
    """A node that returns no gradient."""

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Return no gradients."""
        return [None] * len(self._edges)
