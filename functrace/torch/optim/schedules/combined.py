"""Schedules of schedules.

Layer: 9.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from functrace.torch.optim import errors
from functrace.torch.optim.optimizer import Optimizer
from functrace.torch.optim.schedules.base import LRScheduler, settings_of, update_setting
from functrace.torch.optim.schedules.plateau import ReduceLROnPlateau


class _Combined(LRScheduler):
    """A schedule that has others."""

    _schedulers: Sequence[Any]

    def _check(self, schedulers: Sequence[Any], optimizer: Optimizer) -> None:
        """Refuse what is no scheduler of this optimizer."""
        kind = type(self).__name__
        for k, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(errors.scheduler_without_optimizer(kind, k))
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(errors.plateau_combined(kind, k))
            if optimizer != scheduler.optimizer:
                raise ValueError(
                    errors.other_optimizer(
                        kind,
                        type(scheduler).__name__,
                        k,
                        scheduler.optimizer,
                        type(optimizer).__name__,
                    )
                )

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer, and the states of the schedulers."""
        state = super().state_dict()
        del state["_schedulers"]
        state["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the attributes, and those of the schedulers.

        Args:
            state_dict: made by `state_dict`.
        """
        vars(self).update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=False):
            scheduler.load_state_dict(state)


class SequentialLR(_Combined):
    """One schedule after another.

    Args:
        optimizer: the optimizer.
        schedulers: the schedules, all of this optimizer.
        milestones: the steps at which the second, and later ones, begin.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Raises:
        ValueError: without schedulers, for a wrong number of milestones, for schedulers of another
            optimizer, and `ReduceLROnPlateau`.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> warm = torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5, total_iters=2)
        >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.25)
        >>> schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, decay], [2])
        >>> rates = []
        >>> for _ in range(3):
        ...     optimizer.step(); schedule.step(); rates += schedule.get_last_lr()
        >>> rates
        [0.5, 1.0, 0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if not schedulers:
            raise ValueError(errors.no_schedulers(type(self).__name__, chained=False))
        self._check(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(errors.milestones(len(schedulers), len(milestones)))
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every scheduler has made its first step; only that of the first one counts.
        for group in optimizer.param_groups:
            update_setting(group, "lr", group["initial_lr"])
        self.recursive_undo()
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def recursive_undo(self, sched: Any = None) -> None:
        """Take back one step of schedules, but for the learning rates.

        Args:
            sched: a schedule; by default this one.
        """
        given = self if sched is None else sched
        if hasattr(given, "_schedulers"):
            for scheduler in given._schedulers:
                self.recursive_undo(scheduler)
        elif hasattr(given, "last_epoch"):
            given.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Set the next learning rates, by the schedule whose turn it is."""
        self.last_epoch += 1
        k = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[k]
        if k > 0 and self._milestones[k - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Combined):
    """Several schedules at once, each of which goes on from the other's learning rates.

    Args:
        schedulers: the schedules, all of one optimizer.
        optimizer: this optimizer; by default that of the first schedule.

    Raises:
        ValueError: without schedulers, for schedulers of another optimizer, and
            `ReduceLROnPlateau`.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> halved = torch.optim.lr_scheduler.ConstantLR(optimizer, 0.5)
        >>> decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.25)
        >>> schedule = torch.optim.lr_scheduler.ChainedScheduler([halved, decay])
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.125]
    """

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if not schedulers:
            raise ValueError(errors.no_schedulers(type(self).__name__, chained=True))
        optimizer = optimizer or schedulers[0].optimizer
        self._check(schedulers, optimizer)
        self._schedulers = schedulers
        self.optimizer = optimizer
        self._last_lr = settings_of(schedulers[-1].optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Make a step of every schedule."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = settings_of(self._schedulers[-1].optimizer, "lr")
