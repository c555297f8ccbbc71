"""``Variable``, the former wrapper of differentiable tensors, and its engine attribute.

Layer: 9.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, final

from functrace.torch import errors
from functrace.torch.autograd import engine, running
from functrace.torch.tensors.tensor import Tensor


@final
class ImperativeEngine:
    """Type of ``Variable._execution_engine``: the functions with which PyTorch's Python code runs
    backward passes.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> queue = torch.autograd.Variable._execution_engine.queue_callback
        >>> handle = x.register_hook(lambda grad: queue(lambda: print("the pass is over", x.grad)))
        >>> x.sum().backward()
        the pass is over tensor([1., 1.])
    """

    run_backward = staticmethod(engine.run_backward)
    queue_callback = staticmethod(running.queue_callback)
    is_checkpoint_valid = staticmethod(running.reaches_all_leaves)


class LegacyVariableBase:
    """Makes a leaf over the memory of a tensor; it has no instances.

    Args:
        data: the tensor; an empty one by default.
        requires_grad: True if the leaf requires grad.
        volatile: has no effect any more.

    Raises:
        TypeError: if ``data`` is no tensor.
        ValueError: if both ``volatile`` and ``requires_grad`` are set.
    """

    def __new__(
        cls, data: Tensor | None = None, requires_grad: bool = False, volatile: bool = False
    ) -> Any:
        """Return a tensor."""
        if volatile:
            warnings.warn(errors.VOLATILE_VARIABLE, UserWarning, stacklevel=2)
            if requires_grad:
                raise ValueError(errors.VOLATILE_WITH_GRAD)
        if not isinstance(data, Tensor | None):
            raise TypeError(errors.variable_data(errors.kind_of(data)))
        made = Tensor() if data is None else data.detach()
        if requires_grad and made._array.dtype.kind not in "fcV":
            raise RuntimeError(errors.MADE_WITH_GRAD_DTYPE)
        return made.requires_grad_(requires_grad)


class VariableMeta(type):
    """Makes every tensor an instance of `Variable`."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(LegacyVariableBase, metaclass=VariableMeta):
    """See `LegacyVariableBase`."""

    _execution_engine: ClassVar[ImperativeEngine] = ImperativeEngine()
