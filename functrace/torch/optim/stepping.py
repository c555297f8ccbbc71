"""Steps of optimizers that update every parameter by itself.

Note [Updates of arrays]
    A step without gradients through it overwrites the NumPy arrays of a parameter and its state
    (`Arrays`), and counts the writes, so that backward detects them. An elementwise formula goes
    over large arrays in blocks, so that its temporary values stay in the processor's cache. Where a
    tensor is more than an array (traced, of another layout, in dispatch or forward mode), the same
    formula runs on tensors.

Layer: 9.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from functrace.torch import namespace as torch
from functrace.torch.autograd.grad_mode import MODES, is_dispatching
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.dispatch.overrides import _PLAIN, has_overrides
from functrace.torch.dispatch.quiet import run_quietly
from functrace.torch.optim import errors
from functrace.torch.optim.arithmetic import (
    Arithmetic,
    Arrays,
    Differentiable,
    Operand,
    Tensors,
)
from functrace.torch.optim.optimizer import (
    Closure,
    Optimizer,
    ParamsT,
    _use_grad_for_differentiable,
    loss_of,
    number_tensor,
)
from functrace.torch.tensors.dtypes import default_float
from functrace.torch.tensors.mirrors import MIRRORS
from functrace.torch.tensors.tensor import UNVERSIONED, Tensor, before_write, fresh, is_expanded
from functrace.typing import Array

BLOCK = 1 << 16
"""Elements of a block. Measured on a layer of 784 x 512: 1.7x faster than whole arrays, 1.3x than
blocks of 16,384.
"""

_REAL = {
    np.dtype(np.float32): None,
    np.dtype(np.float64): None,
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
"""Dtypes that are updated as arrays: None, or the dtype of the parts."""


def is_direct() -> bool:
    """Return True if operations on tensors are no more than operations on their arrays."""
    return not is_dispatching() and DUALS.level is None and not MIRRORS and not MODES.recording


def arrays_of(tensors: Sequence[Tensor]) -> list[Any] | None:
    """Return the arrays to update, all of one dtype; complex ones as their real parts and
    imaginary parts. None if one is more than an array.

    Args:
        tensors: a parameter, its gradient, which is only read, and its state.
    """
    dtype = tensors[0]._array.dtype
    if dtype not in _REAL:
        return None
    arrays = []
    for k, tensor in enumerate(tensors):
        array, kind = tensor._array, type(tensor)
        if type(array) is not np.ndarray or array.dtype != dtype:
            return None
        if kind not in _PLAIN and has_overrides(kind):
            return None
        if not array.flags.carray and k != 1 and not _is_overwritable(array):
            return None
        arrays.append(array)
    parts = _REAL[dtype]
    if parts is not None:
        if not all(a.flags.c_contiguous for a in arrays):
            return None
        return [a.reshape(-1).view(parts) for a in arrays]
    if arrays[0].ndim == 0:  # NumPy returns no arrays of 0-d ones
        return [a.reshape(1) for a in arrays]
    return arrays


def _is_overwritable(array: Array) -> bool:
    return array.flags.writeable and not is_expanded(array)


def count_writes(tensor: Tensor, times: int = 1) -> None:
    """Count overwrites of a tensor; see `before_write`."""
    counter = tensor._counter
    if counter is UNVERSIONED or MODES.watches:
        counter = before_write(tensor)
    counter[0] += times


def overwrite_number(tensor: Tensor, value: object) -> None:
    """Overwrite a 0-d tensor of the state by a number; a Python number has the default dtype."""
    if type(value) in (float, int):
        value = default_float().type(value)
    array = tensor._array
    if type(array) is np.ndarray and array.flags.writeable and is_direct():
        count_writes(tensor)
        array[...] = value
    else:
        tensor.copy_(fresh(np.asarray(value)))


def advance(step: Tensor) -> float:
    """Add 1 to a step count, and return it as a number."""
    array = step._array
    if type(array) is np.ndarray and is_direct():
        count_writes(step)
        array += 1
        return array.item()
    step.add_(1)
    return step.item()


def hyper(value: object, differentiable: bool) -> Any:
    """Return a setting for arithmetic: a number; a tensor only if gradients may flow through it.

    A tensor's number keeps the tensor's precision, as a NumPy scalar.
    """
    if type(value) is float or not isinstance(value, Tensor):
        return value
    if differentiable and value.requires_grad:
        return value.squeeze() if value.ndim else value
    array = value._array
    return array.reshape(())[()] if type(array) is np.ndarray else value.squeeze()


def plain_setting(name: str, value: object) -> Any:
    """Return a tensor or NumPy scalar among settings as a number; not the learning rate, whose
    precision counts.
    """
    if name == "lr" or not isinstance(value, (Tensor, np.generic)):
        return value
    return value.item()


def plain(value: object) -> Any:
    """Return a NumPy scalar as a Python number."""
    return value.item() if isinstance(value, np.generic) else value


class PerParameter(Optimizer):
    """Base class of optimizers that update every parameter by itself, by one formula.

    A subclass gives `_start`, `_buffers`, `_advance` and `_update`.
    """

    _elementwise: ClassVar[bool] = True
    """True if elements are updated by themselves: large arrays are then updated in blocks."""
    _capturable: ClassVar[tuple[str, bool] | None] = ("params and state_steps", True)
    """For the refusal of ``capturable=True``: the tensors, and whether XLA could; None without the
    setting.
    """

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        if defaults.get("fused"):
            if defaults["differentiable"]:
                raise RuntimeError(errors.FUSED_DIFFERENTIABLE)
            if defaults["foreach"]:
                raise RuntimeError(errors.FUSED_FOREACH)

    def _state_of(self, group: dict[str, Any], p: Tensor) -> dict[str, Any]:
        """Return the state of a parameter."""
        return self.state[p]

    def _start(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        """Fill the empty state of a parameter."""

    def _buffers(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> list[Tensor]:
        """Return the tensors of the state that the formula reads and overwrites."""
        raise NotImplementedError

    def _advance(self, group: dict[str, Any], state: dict[str, Any]) -> tuple[Any, ...]:
        """Advance the numbers of the state, and return those that the formula needs."""
        raise NotImplementedError

    def _update(
        self,
        f: Arithmetic,
        numbers: tuple[Any, ...],
        param: Operand,
        grad: Operand,
        *buffers: Operand,
    ) -> None:
        """Overwrite a parameter and its buffers: the formula.

        Args:
            f: the arithmetic: see arithmetic.py.
            numbers: what `_advance` returned.
            param: the parameter, in this arithmetic.
            grad: its gradient, which must not be overwritten.
            buffers: the tensors of `_buffers`.
        """
        raise NotImplementedError

    def _overwrites(self, group: dict[str, Any]) -> int:
        """Return the number of writes that PyTorch counts for the parameter."""
        return 1

    def _check_group(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> None:
        """Refuse settings that do not work together."""

    @_use_grad_for_differentiable
    def step(self, closure: Closure = None) -> Any:
        """Update the parameters.

        Args:
            closure: computes the loss and its gradients.

        Returns:
            the closure's loss, or None.
        """
        loss = loss_of(closure)
        for group in self.param_groups:
            differentiable = group.get("differentiable", False)
            work = []
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                state = self._state_of(group, p)
                if not state:
                    if group.get("fused") and not p.is_floating_point():
                        raise RuntimeError(errors.FUSED_DTYPE.format(p.dtype))
                    self._start(group, p, state)
                self._check_group(group, p, state)
                work.append((p, grad, state))
            if work and group.get("capturable"):
                assert self._capturable is not None
                raise AssertionError(
                    errors.capturable(self._capturable[0], xla=self._capturable[1])
                )
            direct = not differentiable and is_direct()
            if direct and any(isinstance(x, (Tensor, np.generic)) for x in group.values()):
                group = {name: plain_setting(name, x) for name, x in group.items()}
            for p, grad, state in work:
                self._run(group, p, grad, state, direct, differentiable)
        return loss

    def _run(
        self,
        group: dict[str, Any],
        p: Tensor,
        grad: Tensor,
        state: dict[str, Any],
        direct: bool,
        differentiable: bool,
    ) -> None:
        """Update one parameter, by its arrays if ``direct``."""
        numbers = self._advance(group, state)
        buffers = self._buffers(group, p, state)
        arrays = arrays_of([p, grad, *buffers]) if direct else None
        if arrays is None:
            f = Differentiable if differentiable else Tensors
            tensors = [p, grad, *buffers]
            if p.is_complex() and self._elementwise:
                tensors = [torch.view_as_real(x) for x in tensors]
            self._update(f, numbers, *tensors)
            return
        count_writes(p, self._overwrites(group))
        for buffer in buffers:
            count_writes(buffer)
        size = arrays[0].size
        if size > BLOCK and self._elementwise and all(a.flags.c_contiguous for a in arrays):
            flat = [a.reshape(-1) for a in arrays]
            bounds = itertools.pairwise([*range(0, size, BLOCK), size])
            for start, stop in bounds:
                run_quietly(self._update, Arrays, numbers, *[a[start:stop] for a in flat])
        else:
            run_quietly(self._update, Arrays, numbers, *arrays)


def zeros_like(p: Tensor) -> Tensor:
    """Return zeros in the shape, dtype and memory order of a parameter."""
    array = p._array
    if (
        type(array) is np.ndarray
        and array.flags.c_contiguous
        and MODES.dispatch is None
        and not has_overrides(type(p))
    ):
        return fresh(np.zeros(array.shape, array.dtype))
    return torch.zeros_like(p)


def complex_filled(p: Tensor, value: object) -> Tensor:
    """Return a tensor like a parameter, filled with a number; a complex one in both parts."""
    number: Any = plain(hyper(value, False))
    return torch.full_like(p, complex(number, number) if p.is_complex() else number)


def step_count(group: dict[str, Any]) -> Tensor:
    """Return a new step count."""
    return number_tensor(0.0, group.get("fused"))


def functional(
    kind: type[PerParameter],
    names: tuple[str, ...],
    pairs: dict[str, tuple[str, str]] | None = None,
    **fixed: object,
) -> Callable[..., None]:
    """Return the function that PyTorch has beside an optimizer: one step, of given state.

    Args:
        kind: the optimizer.
        names: names of the state, in the order of the function's lists.
        pairs: settings that are two arguments of the function.
        fixed: settings that are none.

    Returns:
        a function of lists: parameters, gradients, and one for each name (empty ones where a
        setting needs none); settings are keywords.
    """
    flags = ("foreach", "fused", "maximize", "differentiable", "capturable")

    def update(
        params: list[Tensor], grads: list[Tensor], *lists: list[Any], **settings: object
    ) -> None:
        if len(lists) != len(names):
            raise TypeError(f"{kind.__name__.lower()}() takes the lists {', '.join(names)}")
        group = dict.fromkeys(flags, False) | kind._ADDED | settings | fixed
        for name, (first, second) in (pairs or {}).items():
            group[name] = group.pop(first), group.pop(second)
        if group["capturable"] and kind._capturable is not None:
            raise AssertionError(errors.capturable(kind._capturable[0], xla=kind._capturable[1]))
        owner = kind.__new__(kind)
        differentiable = bool(group["differentiable"])
        direct = not differentiable and is_direct()
        for k, (p, grad) in enumerate(zip(params, grads, strict=True)):
            state = {name: x[k] for name, x in zip(names, lists, strict=True) if len(x) > k}
            state = {name: x for name, x in state.items() if x is not None}
            owner._run(group, p, grad, state, direct, differentiable)
            for name, x in zip(names, lists, strict=True):
                if len(x) > k:
                    x[k] = state.get(name)

    update.__name__ = update.__qualname__ = kind.__name__.lower()
    update.__doc__ = f"""Make one step of `{kind.__name__}` with given state, in place.

    Args:
        params: the parameters.
        grads: their gradients.
        lists: state by parameter: {", ".join(names)}.
        settings: settings of a group.
    """
    return update
