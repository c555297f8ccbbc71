"""`ReduceLROnPlateau`: a factor when a metric stays.

Layer: 9.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, SupportsFloat

from functrace.torch.optim import errors
from functrace.torch.optim.optimizer import Optimizer
from functrace.torch.optim.schedules.base import (
    LRScheduler,
    check_optimizer,
    settings_of,
    update_setting,
)


class ReduceLROnPlateau(LRScheduler):
    """A factor whenever a metric has not become better for some steps.

    Args:
        optimizer: the optimizer.
        mode: ``"min"`` if small metrics are good, ``"max"`` if large ones are.
        factor: the factor, below 1.
        patience: steps without a better metric that change nothing.
        threshold: by how much a metric has to be better, to count.
        threshold_mode: ``"rel"``: as a part of the best one; ``"abs"``: as a difference.
        cooldown: steps after a change that do not count.
        min_lr: the smallest learning rate, or one for each group.
        eps: smaller changes are not made.

    Raises:
        ValueError: for a factor of 1 or more, other modes, or a list whose length is not the
            number of groups.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
        >>> for loss in (2.0, 1.0, 1.0):
        ...     schedule.step(loss)
        >>> schedule.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: list[float] | float = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError(errors.PLATEAU_FACTOR)
        self.factor = factor
        check_optimizer(optimizer)
        self.optimizer = optimizer
        count = len(optimizer.param_groups)
        if isinstance(min_lr, (list, tuple)):
            if len(min_lr) != count:
                raise ValueError(f"expected {count} min_lrs, got {len(min_lr)}")
            self.default_min_lr, self.min_lrs = None, list(min_lr)
        else:
            self.default_min_lr, self.min_lrs = min_lr, [min_lr] * count
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = settings_of(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _reset(self) -> None:
        """Forget all metrics."""
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take a metric into account.

        Args:
            metrics: the metric, a number.
            epoch: deprecated: the number of the step.
        """
        current = float(metrics)
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            warnings.warn(errors.EPOCH, UserWarning, stacklevel=2)
        self.last_epoch = epoch
        if self._is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(epoch)
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = settings_of(self.optimizer, "lr")

    def _reduce_lr(self, epoch: int) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(errors.plateau_groups(len(groups), len(self.min_lrs)))
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, smallest in zip(groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            rate = max(before * self.factor, smallest)
            if before - rate > self.eps:
                update_setting(group, "lr", rate)

    @property
    def in_cooldown(self) -> bool:
        """True while steps after a change do not count."""
        return self.cooldown_counter > 0

    def _is_better(self, a: float, best: float) -> bool:
        if self.threshold_mode == "rel":
            if self.mode == "min":
                return a < best * (1.0 - self.threshold)
            return a > best * (self.threshold + 1.0)
        return a < best - self.threshold if self.mode == "min" else a > best + self.threshold

    def _init_is_better(self, mode: str, threshold: float, threshold_mode: str) -> None:
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the attributes.

        Args:
            state_dict: made by `state_dict`.
        """
        vars(self).update(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)
