"""Schedules that go up and down.

Layer: 9.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from functrace.torch.optim import errors
from functrace.torch.optim.optimizer import Optimizer
from functrace.torch.optim.schedules.base import (
    LRScheduler,
    Rates,
    _enable_get_lr_call,
    check_optimizer,
    for_groups,
    own_state,
    update_setting,
)
from functrace.torch.tensors.tensor import Tensor


def set_momentum(group: dict[str, Any], momentum: float | Tensor, *, is_beta: bool) -> None:
    """Set the momentum of a group: Adam's is the first of its betas."""
    if is_beta:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


def has_betas(optimizer: Optimizer) -> bool:
    """Return True if an optimizer's momentum is the first of its betas.

    Raises:
        ValueError: if it has none.
    """
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(errors.CYCLE_MOMENTUM)
    return "betas" in optimizer.defaults


class CyclicLR(LRScheduler):
    """Learning rates that go up to ``max_lr`` and down again; momentum goes the other way.

    Args:
        optimizer: the optimizer.
        base_lr: the smallest learning rate, or one for each group.
        max_lr: the largest.
        step_size_up: steps upwards.
        step_size_down: steps downwards; by default as many.
        mode: ``"triangular"``; ``"triangular2"``: every cycle has half of the height;
            ``"exp_range"``: the height is scaled by ``gamma ** step``.
        gamma: see ``mode``.
        scale_fn: function that scales the height, in place of ``mode``.
        scale_mode: its argument: ``"cycle"`` or ``"iterations"``.
        cycle_momentum: whether momentum changes, too.
        base_momentum: the smallest momentum, or one for each group.
        max_momentum: the largest.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Raises:
        ValueError: for another mode, or an optimizer without momentum.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0, momentum=0.9)
        >>> schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.1, 0.3, step_size_up=2)
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.2]

    Source: L. N. Smith, Cyclical learning rates for training neural networks, 2015.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        lowest = for_groups("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(lowest, optimizer.param_groups, strict=True):
                update_setting(group, "lr", rate)
        self.max_lrs = for_groups("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(errors.CYCLE_MODE)
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_ref: Callable[[float], float]
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = has_betas(optimizer)
            self.base_momentums = for_groups("base_momentum", optimizer, base_momentum)
            self.max_momentums = for_groups("max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                for high, low, group in zip(
                    self.max_momentums, self.base_momentums, optimizer.param_groups, strict=True
                ):
                    set_momentum(group, high, is_beta=self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        if self.mode == "exp_range":
            self._scale_fn_ref = functools.partial(self._exp_range_scale_fn, self.gamma)
            self.scale_mode = "iterations"
        else:
            self._scale_fn_ref = {
                "triangular": self._triangular_scale_fn,
                "triangular2": self._triangular2_scale_fn,
            }[self.mode]
            self.scale_mode = "cycle"

    def scale_fn(self, x: float) -> float:
        """Return the scale of a cycle's height, at a cycle or step."""
        custom = self._scale_fn_custom
        return self._scale_fn_ref(x) if custom is None else custom(x)

    @staticmethod
    def _triangular_scale_fn(x: float) -> float:
        return 1.0

    @staticmethod
    def _triangular2_scale_fn(x: float) -> float:
        return 1 / (2.0 ** (x - 1))

    @staticmethod
    def _exp_range_scale_fn(gamma: float, x: float) -> float:
        return gamma**x

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, and set momentum."""
        self._warn_outside_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        part = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        at = cycle if self.scale_mode == "cycle" else self.last_epoch
        rates = [
            low + (high - low) * part * self.scale_fn(at)
            for low, high in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                momentum = high - (high - low) * part * self.scale_fn(at)
                set_momentum(group, momentum, is_beta=self.use_beta1)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer; of ``scale_fn``, the attributes of a callable
        object.
        """
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        function = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None if function is None else own_state(function)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the attributes.

        Args:
            state_dict: made by `state_dict`; its ``"_scale_fn_custom"`` is removed.
        """
        own = state_dict.pop("_scale_fn_custom")
        super().load_state_dict(state_dict)
        if own is not None:
            vars(self._scale_fn_custom).update(own)
        self._init_scale_fn()


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the first learning rate to ``eta_min``, again and again.

    Args:
        optimizer: the optimizer.
        T_0: steps of the first period.
        T_mult: factor of the next period.
        eta_min: the smallest learning rate.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Raises:
        ValueError: for periods that are no positive integers.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.5]

    Source: I. Loshchilov, F. Hutter, SGDR: stochastic gradient descent with warm restarts, 2016.
    """

    T_cur: Any

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> Rates:
        """Compute the learning rates at the present place in the period."""
        self._warn_outside_step()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (rate - self.eta_min) * height / 2 for rate in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the next learning rates.

        Args:
            epoch: place to go to; may be between two steps.

        Raises:
            ValueError: for a negative place.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            passed = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            begin = self.T_0 * (self.T_mult**passed - 1) / (self.T_mult - 1)
            self.T_cur, self.T_i = epoch - begin, self.T_0 * self.T_mult**passed
        self.last_epoch = math.floor(epoch)
        with _enable_get_lr_call(self):
            rates = self.get_lr()
        self._set_rates(rates)


class OneCycleLR(LRScheduler):
    """One cycle: up to ``max_lr``, down again, and further down; momentum goes the other way.

    Args:
        optimizer: the optimizer.
        max_lr: the largest learning rate, or one for each group.
        total_steps: steps of the cycle; or:
        epochs: passes through the data, and
        steps_per_epoch: steps of each.
        pct_start: part of the steps that go up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: whether momentum changes, too.
        base_momentum: the smallest momentum, or one for each group.
        max_momentum: the largest.
        div_factor: the first learning rate is ``max_lr / div_factor``.
        final_div_factor: the last one is the first, divided by it.
        three_phase: whether the way down to the first learning rate is as long as the way up.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Raises:
        ValueError: for settings out of range; by ``step``, after the last step.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0, momentum=0.9)
        >>> schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
        >>> for _ in range(2):
        ...     optimizer.step(); schedule.step()
        >>> schedule.get_last_lr()
        [1.0]

    Source: L. N. Smith, N. Topin, Super-convergence: very fast training of neural networks using
    large learning rates, 2017.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            _check_count("total_steps", total_steps)
            self.total_steps = total_steps
        elif epochs is not None and steps_per_epoch is not None:
            _check_count("epochs", epochs)
            _check_count("steps_per_epoch", steps_per_epoch)
            self.total_steps = epochs * steps_per_epoch
        else:
            raise ValueError(errors.CYCLE_STEPS)
        self._schedule_phases = _phases(float(pct_start), self.total_steps, three_phase)
        if not 0 <= pct_start <= 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        highest = for_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = has_betas(optimizer)
            highs = for_groups("max_momentum", optimizer, max_momentum)
            lows = for_groups("base_momentum", optimizer, base_momentum)
            if last_epoch == -1:
                for high, low, group in zip(highs, lows, optimizer.param_groups, strict=True):
                    set_momentum(group, high, is_beta=self.use_beta1)
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def _anneal_func(self, start: float | Tensor, end: float | Tensor, part: float) -> Any:
        """Return the value between two, by the strategy; an older state has a function for it."""
        if not hasattr(self, "_anneal_func_type"):
            older: Any = self
            return older.anneal_func(start, end, part)
        if self._anneal_func_type == "cos":
            return self._annealing_cos(start, end, part)
        return self._annealing_linear(start, end, part)

    @staticmethod
    def _annealing_cos(start: float | Tensor, end: float | Tensor, part: float) -> Any:
        """Return the value on half a cosine from ``start`` to ``end``."""
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    @staticmethod
    def _annealing_linear(start: float | Tensor, end: float | Tensor, part: float) -> Any:
        """Return the value on a line from ``start`` to ``end``."""
        return (end - start) * part + start

    def get_lr(self) -> Rates:
        """Compute the learning rates at ``last_epoch``, and set momentum.

        Raises:
            ValueError: after the last step.
        """
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin, phases = 0.0, self._schedule_phases
        phase = phases[-1]
        for phase in phases[:-1]:
            if step <= phase["end_step"]:
                break
            begin = phase["end_step"]
        else:
            phase = phases[-1]
        part = (step - begin) / (phase["end_step"] - begin)
        rates = []
        for group in self.optimizer.param_groups:
            ends = group[phase["start_lr"]], group[phase["end_lr"]]
            rates.append(self._anneal_func(*ends, part))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                momentum = self._anneal_func(*ends, part)
                set_momentum(group, momentum, is_beta=self.use_beta1)
        return rates


def _check_count(name: str, value: int) -> None:
    if value <= 0 or not isinstance(value, int):
        raise ValueError(f"Expected positive integer {name}, but got {value}")


def _phases(part: float, steps: int, three: bool) -> list[dict[str, Any]]:
    """Return the phases of a cycle: their last steps, and the names of the ends of learning rate
    and momentum.
    """
    up = {
        "end_step": part * steps - 1,
        "start_lr": "initial_lr",
        "end_lr": "max_lr",
        "start_momentum": "max_momentum",
        "end_momentum": "base_momentum",
    }
    down = {
        "end_step": steps - 1,
        "start_lr": "max_lr",
        "end_lr": "min_lr",
        "start_momentum": "base_momentum",
        "end_momentum": "max_momentum",
    }
    if not three:
        return [up, down]
    back = down | {"end_step": 2 * part * steps - 2, "end_lr": "initial_lr"}
    last = down | {"start_lr": "initial_lr", "start_momentum": "max_momentum"}
    return [up, back, last]
