"""`LRScheduler`: the base class of schedules.

Layer: 9.
"""

from __future__ import annotations

import functools
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from functrace.torch.optim import errors
from functrace.torch.optim.optimizer import Optimizer, _to_scalar
from functrace.torch.tensors.tensor import Tensor

Rates: TypeAlias = "list[Any]"
"""A learning rate for each group: numbers, or tensors with one element."""
Lambdas: TypeAlias = "Callable[[int], float] | list[Callable[[int], float]]"


def copied(value: object) -> Any:
    """Return a copy of a tensor; a number as it is."""
    return value.clone() if isinstance(value, Tensor) else value


def for_groups(name: str, optimizer: Optimizer, value: object) -> list[Any]:
    """Return one setting for each group, from one for all or a list.

    Raises:
        ValueError: for a list of another length.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        value = [value] * count
    elif len(value) != count:
        raise ValueError(errors.setting_length(name, len(value), count))
    return [copied(x) for x in value]


def settings_of(optimizer: Optimizer, key: str) -> list[Any]:
    """Return copies of a setting of all groups."""
    return [copied(group[key]) for group in optimizer.param_groups]


def update_setting(group: dict[str, Any], key: str, value: object) -> None:
    """Set a setting of a group; a tensor is overwritten."""
    if isinstance(group[key], Tensor):
        group[key].fill_(_to_scalar(value))
    else:
        group[key] = value


def check_optimizer(optimizer: object) -> None:
    """Refuse what is no optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def own_state(function: object) -> dict[str, Any] | None:
    """Return the attributes of a callable object; None for a function."""
    return None if isinstance(function, types.FunctionType) else vars(function).copy()


@contextmanager
def _enable_get_lr_call(scheduler: LRScheduler) -> Iterator[None]:
    """Allow calls of ``get_lr`` without a warning."""
    scheduler._get_lr_called_within_step = True
    try:
        yield
    finally:
        scheduler._get_lr_called_within_step = False


class LRScheduler:
    """Base class of schedules, which set the learning rates of an optimizer step by step.

    Args:
        optimizer: the optimizer; its groups get ``"initial_lr"``.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Raises:
        TypeError: for what is no optimizer.
        KeyError: if it should go on, and a group has no ``"initial_lr"``.

    Example:
        >>> import functrace.torch as torch
        >>> class Halved(torch.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [lr / 2**self.last_epoch for lr in self.base_lrs]
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = Halved(optimizer)
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.5]
    """

    _get_lr_called_within_step = False
    _is_initial = False
    optimizer: Optimizer
    base_lrs: Rates
    last_epoch: int
    _last_lr: Rates
    _step_count: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for k, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(errors.initial_lr(k))
        self.base_lrs = settings_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        """Count from 0, and set the first learning rates."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer."""
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the attributes.

        Args:
            state_dict: made by `state_dict`.
        """
        vars(self).update(state_dict)

    def get_last_lr(self) -> Rates:
        """Return the learning rates that the last step has set."""
        return self._last_lr

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, from those before."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Set the next learning rates. Call it after the optimizer's step.

        Args:
            epoch: deprecated: the step to go to.
        """
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warnings.warn(errors.STEP_OVERRIDDEN, UserWarning, stacklevel=2)
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(errors.STEP_ORDER, UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(errors.EPOCH, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Set the learning rates of the next step, or of a given one, in closed form if there is
        one.
        """
        with _enable_get_lr_call(self):
            if epoch is None:
                self.last_epoch += 1
                rates = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                rates = self.get_lr() if closed is None else closed()
        self._set_rates(rates)

    def _set_rates(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            update_setting(group, "lr", rate)
        self._last_lr = settings_of(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        """Warn that `get_lr` computes new rates, if it is not `step` that calls it."""
        if not self._get_lr_called_within_step:
            warnings.warn(errors.LAST_LR, UserWarning, stacklevel=3)

    def _present(self) -> Rates:
        """Return the learning rates as they are."""
        return settings_of(self.optimizer, "lr")

    def _scaled(self, factor: float) -> Rates:
        """Return the learning rates as they are, times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]


class _LRScheduler(LRScheduler):
    """The older name of `LRScheduler`."""


def _note_steps(optimizer: Any) -> None:
    """Make an optimizer note that its ``step`` was called."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    reference, function = weakref.ref(optimizer), optimizer.step.__func__

    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        owner: Any = reference()
        owner._opt_called = True
        return function.__get__(owner, type(owner))(*args, **kwargs)

    noted._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = noted
