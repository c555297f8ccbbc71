"""Wrapper subclasses: tensors without data, whose ``__torch_dispatch__`` gets the operations below
autograd.

`make_wrapper` makes one. An operation with one among its operands goes to the class, as it would to
a dispatch mode (modes.py): the result is what the class returns, and the node is made on it. The
backward pass runs equation by equation, so the class gets the operations of derivatives as well.

Not supported, with an error: writing in place, views that later follow writes, and functions that
need the data and are no operation.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op
from functrace.torch.dispatch.modes import ThreadModes
from functrace.torch.functions.constants import preserve_format
from functrace.torch.tensors.dtypes import get_default_dtype, numpy_dtype
from functrace.torch.tensors.storageless import KINDS, StoragelessArray
from functrace.torch.tensors.strides import dense_strides
from functrace.torch.tensors.tensor import Tensor, new_counter


def make_wrapper(
    kind: type[Any],
    size: Sequence[int],
    strides: Sequence[int] | None = None,
    storage_offset: int | None = None,
    memory_format: object = None,
    dtype: Any = None,
    layout: object = None,
    device: object = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: str | None = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
    **_unused: object,
) -> Any:
    """Return a tensor of a subclass that has a size and a dtype, but no data.

    Args:
        kind: the subclass, which has a ``__torch_dispatch__``.
        size: the sizes.
        strides: in elements; those of C order by default.
        dtype: the dtype; by default, the default one.
        requires_grad: whether it is a leaf that requires grad.
        storage_offset, memory_format, layout, device, pin_memory, dispatch_sizes_strides_policy,
            dispatch_device, dispatch_layout: without effect.

    Raises:
        RuntimeError: for a class without ``__torch_dispatch__``.
    """
    if not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise TypeError(f"cls must be a subclass of Tensor, not {kind}")
    if not has_dispatch(kind):
        raise RuntimeError("_make_wrapper_subclass requires a class with __torch_dispatch__")
    shape = tuple([int(n) for n in size])
    steps = dense_strides(shape) if strides is None else tuple([int(n) for n in strides])
    dtype = numpy_dtype(get_default_dtype() if dtype is None else dtype)
    KINDS.add(kind)
    made = object.__new__(kind)
    made._array = StoragelessArray(
        shape, dtype, tuple([n * dtype.itemsize for n in steps]), DISPATCHING
    )
    made._counter = new_counter()
    return Tensor.requires_grad_(made) if requires_grad else made


def has_dispatch(kind: type[Any]) -> bool:
    """Return True if a class handles operations below autograd."""
    return getattr(kind, "__torch_dispatch__", None) is not None


@final
class _Handler:
    """The handler of the first class among wrappers that returns a result."""

    def __init__(self, kinds: Sequence[type[Any]]) -> None:
        self.kinds = kinds

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        for kind in self.kinds:
            result = kind.__torch_dispatch__(func, tuple(self.kinds), args, kwargs)
            if result is not NotImplemented:
                return result
        return NotImplemented


def is_storageless(x: object) -> bool:
    """Return True for a tensor without data."""
    return isinstance(x, Tensor) and type(x._array) is StoragelessArray


def kinds_of(operands: Sequence[Any]) -> list[type[Any]]:
    """Return the classes of the wrappers among operands, subclasses first."""
    found: list[type[Any]] = []
    for x in operands:
        if not is_storageless(x) or type(x) in found:
            continue
        if not has_dispatch(type(x)):
            x._array.refuse()
        place = next((k for k, kind in enumerate(found) if issubclass(type(x), kind)), len(found))
        found.insert(place, type(x))
    return found


@final
class Dispatching:
    """Passes operations on wrappers to their classes."""

    def apply(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply an op: the class computes, beneath autograd."""
        return _handled(operands, lambda handler: handler.apply(op, operands, params))

    def detach(self, tensor: Tensor) -> Tensor:
        """Return what the class returns for ``detach``."""
        return _handled((tensor,), lambda handler: handler.detach(tensor))

    def seed(self, output: Tensor) -> Tensor:
        """Return what the class returns for ``ones_like``: the gradient of a root."""
        given: dict[str, Any] = {"pin_memory": False, "memory_format": preserve_format}
        return _handled(
            (output,),
            lambda handler: handler.make("ones_like", (output,), given, output._array.refuse),
        )


def _handled(operands: Sequence[Any], run: Callable[[ThreadModes], Any]) -> Any:
    before = MODES.dispatch
    MODES.dispatch = handler = ThreadModes((_Handler(kinds_of(operands)),))
    try:
        return run(handler)
    finally:
        MODES.dispatch = before


DISPATCHING = Dispatching()
Tensor._make_wrapper_subclass = staticmethod(make_wrapper)
