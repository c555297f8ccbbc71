"""Schedules that multiply learning rates by factors.

Layer: 9.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from typing import Any

from functrace.torch.optim import errors
from functrace.torch.optim.optimizer import Optimizer
from functrace.torch.optim.schedules.base import Lambdas, LRScheduler, Rates, own_state


class _OfFunctions(LRScheduler):
    """A schedule with a function for each group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Lambdas, last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if not isinstance(lr_lambda, (list, tuple)):
            self.lr_lambdas = [lr_lambda] * count
        elif len(lr_lambda) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lr_lambda)}")
        else:
            self.lr_lambdas = list(lr_lambda)
        self._check_functions()
        super().__init__(optimizer, last_epoch)

    def _check_functions(self) -> None:
        """Refuse what is no function."""

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer; of the functions, the attributes of callable
        objects.
        """
        state = super().state_dict()
        del state["lr_lambdas"]
        state["lr_lambdas"] = [own_state(function) for function in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the attributes, and those of callable objects.

        Args:
            state_dict: made by `state_dict`.
        """
        vars(self).update({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, own in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=False):
            if own is not None:
                vars(function).update(own)


class LambdaLR(_OfFunctions):
    """The first learning rate, times a function of the step.

    Args:
        optimizer: the optimizer.
        lr_lambda: function of the number of the step, or one for each group.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Raises:
        ValueError: for a list of functions whose length is not the number of groups.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step))
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.5]
    """

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``."""
        self._warn_outside_step()
        return [
            rate * function(self.last_epoch)
            for function, rate in zip(self.lr_lambdas, self.base_lrs, strict=True)
        ]


class MultiplicativeLR(_OfFunctions):
    """The learning rate before, times a function of the step.

    Args:
        optimizer: the optimizer.
        lr_lambda: function of the number of the step, or one for each group.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Raises:
        TypeError: for what is no function.
        ValueError: for a list of functions whose length is not the number of groups.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda step: 0.5)
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.5]
    """

    def _check_functions(self) -> None:
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(
                    f"lr_lambda should be a function, but got {type(function).__name__}"
                )

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, from those before."""
        self._warn_outside_step()
        if self._is_initial:
            return self._present()
        return [
            group["lr"] * function(self.last_epoch)
            for function, group in zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        ]


class StepLR(LRScheduler):
    """A factor at every ``step_size``-th step.

    Args:
        optimizer: the optimizer.
        step_size: steps from one change to the next.
        gamma: the factor.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, from those before."""
        self._warn_outside_step()
        if self.last_epoch == 0 or self.last_epoch % self.step_size:
            return self._present()
        return self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        factor = self.gamma ** (self.last_epoch // self.step_size)
        return [rate * factor for rate in self.base_lrs]


class MultiStepLR(LRScheduler):
    """A factor at each of several steps.

    Args:
        optimizer: the optimizer.
        milestones: the numbers of these steps.
        gamma: the factor.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1, 5], gamma=0.5)
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        milestones: Iterable[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, from those before."""
        self._warn_outside_step()
        if self.last_epoch not in self.milestones:
            return self._present()
        return self._scaled(self.gamma ** self.milestones[self.last_epoch])

    def _get_closed_form_lr(self) -> Rates:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [rate * self.gamma**passed for rate in self.base_lrs]


class ConstantLR(LRScheduler):
    """A factor until a step, and none after it.

    Args:
        optimizer: the optimizer.
        factor: the factor, from 0 to 1.
        total_iters: the step.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Raises:
        ValueError: for a factor out of range.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5)
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        factor: float = 1.0 / 3,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError(errors.CONSTANT_FACTOR)
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, from those before."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._scaled(self.factor)
        if self.last_epoch != self.total_iters:
            return self._present()
        return self._scaled(1.0 / self.factor)

    def _get_closed_form_lr(self) -> Rates:
        ended = self.last_epoch >= self.total_iters
        factor = self.factor + ended * (1 - self.factor)
        return [rate * factor for rate in self.base_lrs]


class LinearLR(LRScheduler):
    """A factor that moves linearly from one value to another.

    Args:
        optimizer: the optimizer.
        start_factor: first factor, above 0 and at most 1.
        end_factor: last factor, from 0 to 1.
        total_iters: the step at which it is reached.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Raises:
        ValueError: for factors out of range.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(errors.START_FACTOR)
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError(errors.END_FACTOR)
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, from those before."""
        self._warn_outside_step()
        if self.last_epoch == 0:
            return self._scaled(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        change = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * change
        return self._scaled(1.0 + change / before)

    def _get_closed_form_lr(self) -> Rates:
        change = self.end_factor - self.start_factor
        moved = change * min(self.total_iters, self.last_epoch) / self.total_iters
        return [rate * (self.start_factor + moved) for rate in self.base_lrs]


class ExponentialLR(LRScheduler):
    """A factor at every step.

    Args:
        optimizer: the optimizer.
        gamma: the factor.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, from those before."""
        self._warn_outside_step()
        return self._present() if self._is_initial else self._scaled(self.gamma)

    def _get_closed_form_lr(self) -> Rates:
        return [rate * self.gamma**self.last_epoch for rate in self.base_lrs]


class PolynomialLR(LRScheduler):
    """The factor ``(1 - step / total_iters) ** power``.

    Args:
        optimizer: the optimizer.
        total_iters: the step at which the learning rate is 0.
        power: the power.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=2)
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, from those before."""
        self._warn_outside_step()
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._present()
        left = 1.0 - self.last_epoch / self.total_iters
        left_before = 1.0 - (self.last_epoch - 1) / self.total_iters
        return self._scaled((left / left_before) ** self.power)

    def _get_closed_form_lr(self) -> Rates:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [rate * left**self.power for rate in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first learning rate to ``eta_min``, and back.

    Args:
        optimizer: the optimizer.
        T_max: the step at which ``eta_min`` is reached.
        eta_min: the smallest learning rate.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.5]

    Source: I. Loshchilov, F. Hutter, SGDR: stochastic gradient descent with warm restarts, 2016.
    """

    def __init__(
        self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, from those before."""
        self._warn_outside_step()
        if self._is_initial:
            return self._present()
        step, length, low = self.last_epoch, self.T_max, self.eta_min
        if self._step_count == 1 and step > 0:
            height = 1 + math.cos(step * math.pi / length)
            return [low + (rate - low) * height / 2 for rate in self.base_lrs]
        if (step - 1 - length) % (2 * length) == 0:  # the step before was at the minimum
            height = 1 - math.cos(math.pi / length)
            return [
                group["lr"] + (rate - low) * height / 2
                for rate, group in zip(self.base_lrs, self.optimizer.param_groups, strict=True)
            ]
        factor = (1 + math.cos(math.pi * step / length)) / (
            1 + math.cos(math.pi * (step - 1) / length)
        )
        return [factor * (group["lr"] - low) + low for group in self.optimizer.param_groups]

    def _get_closed_form_lr(self) -> Rates:
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (rate - self.eta_min) * height / 2 for rate in self.base_lrs]
