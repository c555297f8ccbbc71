"""``torch.utils.swap_tensors``: two tensors exchange class, attributes and values, and stay the same
objects.

A tensor is its object's class and ``__dict__``, so those are exchanged. Whatever refers to a tensor
as part of a graph (`SavedTensor`, `View`, the gradient of another tensor) would find the wrong one
afterwards, so a tensor with such references is refused, as in PyTorch. A leaf's `AccumulateGrad`
is allowed: it raises if a backward pass reaches it later.

Layer: 9.
"""

from __future__ import annotations

import copyreg
import gc
import weakref
from typing import Any, NoReturn

from functrace.torch.autograd.graph import AccumulateGrad, get_gradient_edge
from functrace.torch.autograd.saved import SavedTensor
from functrace.torch.dispatch.dual import Dual
from functrace.torch.tensors.tensor import Tensor, View, refuse_outside
from functrace.tracing import Tracer

POISONED = (
    "Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when "
    "you try to run backward on a tensor that was swapped. For a module m with "
    "`torch.__future__.set_swap_module_params_on_conversion(True)` you should not change the device "
    "or dtype of the module (e.g. `m.cpu()` or `m.half()`) between running forward and backward. To "
    "resolve this, please only change the device/dtype before running forward (or after both "
    "forward and backward)."
)


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange two tensors in place: each object gets the other's class, attributes and values.

    Searching the references to both takes time in proportion to all objects of the process.

    Args:
        t1: a tensor.
        t2: another one.

    Raises:
        RuntimeError: if there is a weak reference to one of them, a graph, a view or another
            tensor refers to it, or their classes have different slots.
        LostGradientError: if one is a traced value, and the other was made before its recording.

    Example:
        >>> import functrace.torch as torch
        >>> weight, new = torch.nn.Parameter(torch.ones(2)), torch.zeros(3)
        >>> torch.utils.swap_tensors(weight, new)
        >>> weight, new
        (tensor([0., 0., 0.]), Parameter containing:
        tensor([1., 1.], requires_grad=True))
    """
    for tensor, name in ((t1, "t1"), (t2, "t2")):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = _slots(t1)
    if slots != _slots(t2):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    for tensor, other in ((t1, t2), (t2, t1)):
        if isinstance(other._array, Tracer) and not isinstance(tensor._array, Tracer):
            refuse_outside(tensor, other._array)
    nodes = [_unreferenced_node(tensor, name) for tensor, name in ((t1, "t1"), (t2, "t2"))]
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for slot in slots:
        first, second = _take(t1, slot), _take(t2, slot)
        for tensor, value in ((t1, second), (t2, first)):
            if value:
                setattr(tensor, slot, value[0])
    for node, owner in zip(nodes, (t2, t1), strict=True):
        if node is not None:
            node.variable = owner
            node.register_prehook(_refuse_pass)


def _slots(tensor: Tensor) -> set[str]:
    """Return the names of the slots of a tensor's class."""
    names: Any = copyreg
    return set(names._slotnames(type(tensor)))


def _take(tensor: Tensor, slot: str) -> tuple[Any, ...]:
    """Empty a slot; returns its value in a tuple, which is empty if it has none."""
    if not hasattr(tensor, slot):
        return ()
    value = getattr(tensor, slot)
    delattr(tensor, slot)
    return (value,)


def _unreferenced_node(tensor: Tensor, name: str) -> AccumulateGrad | None:
    """Return the living `AccumulateGrad` of a tensor to which no graph refers otherwise; None
    without one.

    Raises:
        RuntimeError: if there are such references.
    """
    node: Any = None if tensor._accumulator is None else tensor._accumulator()
    count = 1 + (node is not None) + _references(tensor)
    if count == 1 or (count == 2 and node is not None):
        return node
    if count == 2 and tensor.is_leaf:
        get_gradient_edge(tensor)  # PyTorch's, which has an error of its own without requires_grad
        count += 1
    raise RuntimeError(
        f"Expected use_count of {name} to be 1 or 2 with an AccumulateGrad node but got {count} make "
        "sure you are not holding references to the tensor in other places."
    )


def _references(tensor: Tensor) -> int:
    """Return how many saved tensors, views, tangents and gradients refer to a tensor."""
    return sum(_refers(owner, tensor) for owner in gc.get_referrers(tensor))


def _refers(owner: object, tensor: Tensor) -> bool:
    """Return True if an object has a tensor in a place of which PyTorch counts references."""
    match owner:
        case SavedTensor():
            return owner.data is tensor
        case View():
            return owner.base is tensor
        case Dual():
            return owner.tangent is tensor
        case Tensor():
            return owner._grad is tensor
        case dict():
            return owner.get("_grad") is tensor and "_array" in owner  # attributes of a tensor
    return False


def _refuse_pass(grad_outputs: object) -> NoReturn:
    """Raise: a backward pass has reached the node of a tensor that was swapped."""
    raise RuntimeError(POISONED)
