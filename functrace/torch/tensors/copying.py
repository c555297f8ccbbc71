"""Deep copies and pickles of tensors: their memory, and their layout in it. Neither is a view, or
in a graph.

As in PyTorch, a deep copy of several tensors that share memory shares its copy; a pickle has one
copy for each tensor.

Layer: 9.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.torch import errors
from functrace.torch.autograd.handles import warn_if_has_hooks
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.tensors.memory import Geometry, geometry_of, memory_of, strided_part
from functrace.torch.tensors.tensor import UNVERSIONED, Tensor, new_counter
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()

Rebuild = tuple[type[Tensor], Array, Geometry | None, bool]


@ROWS.function("", operators="deepcopy")
def deep_copied(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    """Return a copy of a leaf, and of its gradient.

    Raises:
        RuntimeError: for a non-leaf tensor.
    """
    if id(tensor) in memo:
        return memo[id(tensor)]
    if tensor.requires_grad and not (tensor._requires and tensor.is_leaf):
        raise RuntimeError(errors.DEEPCOPY_NON_LEAF)
    kind, memory, geometry, requires_grad = _parts(tensor)
    copied = memo.get(id(memory))
    if copied is None:
        copied = memo[id(memory)] = memory.copy(order="K")
    made = memo[id(tensor)] = rebuilt(kind, copied, geometry, requires_grad)
    if tensor._grad is not None:
        made._grad = deep_copied(tensor._grad, memo)
    return made


@ROWS.function("", operators="reduce_ex")
def reduced(tensor: Tensor, _protocol: object = None) -> tuple[Any, Rebuild]:
    """Return the pickled state of a tensor, without its gradient, history, and hooks; warns of
    hooks.
    """
    warn_if_has_hooks(tensor)
    kind, memory, geometry, requires_grad = _parts(tensor)
    return unpickled, (
        kind,
        memory.view(),
        geometry,
        requires_grad,
    )  # an alias: pickle would write the same array only once


def _parts(tensor: Tensor) -> Rebuild:
    array = tensor._array
    if isinstance(array, Tracer):
        raise UnsupportedFunctionError(
            f"{array.aval} is a traced value, which has no memory to copy",
            fix="use clone(), or copy it outside of the transform",
        )
    memory = memory_of(tensor)
    return (
        type(tensor),
        memory,
        None if array is memory else geometry_of(tensor),
        tensor.requires_grad,
    )


def unpickled(
    kind: type[Tensor], memory: Array, geometry: Geometry | None, requires_grad: bool
) -> Tensor:
    """Return the tensor of a pickle; for ``copy.copy``, which makes no copy of the state, one that
    shares the memory.
    """
    is_array = memory.base is None or isinstance(memory.base, np.ndarray)
    return rebuilt(kind, memory if is_array else memory.copy(order="K"), geometry, requires_grad)


def rebuilt(
    kind: type[Tensor], memory: Array, geometry: Geometry | None, requires_grad: bool
) -> Tensor:
    """Return a leaf with a geometry in memory; None: all of the memory, in its order."""
    made = object.__new__(kind)
    if geometry is None:
        made._array = memory
    else:
        steps = tuple(n // memory.itemsize for n in memory.strides)
        made._array = strided_part(memory, geometry, (memory.shape, steps, 0))
    made._counter, made._requires = new_counter(), requires_grad
    if made._counter is not UNVERSIONED:
        made._counter[0] = 1  # as in PyTorch, which assigns this memory
    assert isinstance(made._array, np.ndarray)
    return made
