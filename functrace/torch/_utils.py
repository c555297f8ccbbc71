"""``torch._utils``: exceptions of workers, places of devices, and lists of tensors as one.

Layer: 9.
"""

from __future__ import annotations

import copyreg
import os
import sys
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from functrace.torch.functions.shaping import cat
from functrace.torch.namespace import view_as_real
from functrace.torch.tensors.tensor import Tensor

__all__ = ["ExceptionWrapper"]


class ExceptionWrapper:
    """An exception of a worker, as text with its class, to be raised elsewhere.

    Args:
        exc_info: what `sys.exc_info` returns; by default of the exception that is handled now.
        where: where it was raised, for the message.
    """

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, error, trace = exc_info or sys.exc_info()
        self.exc_type: Any = kind
        self.error = error
        self.exc_msg = "".join(traceback.format_exception(kind, error, trace))
        self.where = where

    def reraise(self) -> NoReturn:
        """Raise an exception of the same class, with the worker's traceback in its message."""
        message = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            message = _Verbatim(message)  # a KeyError shows the repr of its message
        try:
            error = self.exc_type(message)
        except Exception:  # its constructor takes something else
            raise RuntimeError(message) from self.error
        raise error from self.error


class _Verbatim(str):
    """A string whose repr is itself."""

    def __repr__(self) -> str:
        return self


def _get_available_device_type() -> str | None:
    """Return None: there is no other device than the CPU."""
    return None


def _get_all_device_indices() -> list[int]:
    """Return an empty list."""
    return []


def _get_devices_properties(device_ids: Sequence[Any]) -> list[Any]:
    """Return an empty list."""
    return []


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return a device's index; of the CPU -1.

    Raises:
        ValueError: for no integer, unless it is the CPU and that is allowed.
    """
    if isinstance(device, int):
        return device
    if allow_cpu:
        return -1
    raise ValueError(
        f"Expected a torch.device with a specified index or an integer, but got:{device}"
    )


def _handle_complex(tensor: Tensor) -> Any:
    """Return a complex tensor as pairs of reals, another unchanged."""
    return view_as_real(tensor) if tensor.is_complex() else tensor


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Any:
    """Return the elements of tensors in one, [n]."""
    return cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """Return a flat tensor [n] in the shapes of others."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))


def _take_tensors(tensors: Sequence[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Yield tensors of one dtype together, up to a size in bytes."""
    groups: OrderedDict[str, list[Tensor]] = OrderedDict()
    for tensor in tensors:
        group = groups.setdefault(tensor.type(), [])
        size = sum(t.numel() * t.element_size() for t in (*group, tensor))
        if group and size > size_limit:
            yield groups.pop(tensor.type())
            group = groups.setdefault(tensor.type(), [])
        group.append(tensor)
    yield from groups.values()


def _reorder_tensors_as(tensors: Sequence[Tensor], ordered: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return tensors in the order in which others have their dtypes."""
    by_type: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        by_type.setdefault(tensor.type(), []).append(tensor)
    order = {kind: iter(group) for kind, group in by_type.items()}
    return tuple(next(order[tensor.type()]) for tensor in ordered)


def _get_obj_state(obj: Any) -> Any:
    """Return what a user has set on a tensor: its attributes, and its class's slots."""
    from functrace.torch.nn.parameter import _own

    names = copyreg._slotnames(type(obj))  # type: ignore[attr-defined]
    slots = {name: getattr(obj, name) for name in names if hasattr(obj, name)}
    state = dict(_own(obj))
    return (state, slots) if slots else state


def _set_obj_state(obj: Any, state: Any) -> Any:
    """Set what `_get_obj_state` has returned; returns the object."""
    attributes, slots = state if isinstance(state, tuple) else (state, {})
    for name, value in {**(attributes or {}), **slots}.items():
        setattr(obj, name, value)
    return obj


def _parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Any:
    from functrace.torch import nn

    made: Any = nn.Parameter(data, requires_grad)
    made._backward_hooks = backward_hooks
    return made


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Any:
    """Return a parameter that was pickled."""
    return _parameter(data, requires_grad, backward_hooks)


def _rebuild_parameter_with_state(
    data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any
) -> Any:
    """Return a parameter that was pickled with attributes of its own."""
    return _set_obj_state(_parameter(data, requires_grad, backward_hooks), state)


def cpu_count() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def classproperty(func: Callable[[Any], Any]) -> Any:
    """Return a property of a class."""

    class Property:
        def __get__(self, _instance: object, owner: Any = None) -> Any:
            return func(owner)

    return Property()
