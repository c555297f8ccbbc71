"""``torch.optim.swa_utils``: averages of the weights of a model.

Layer: 9.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from functrace.torch import namespace as torch
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.nn.modules.batchnorm import _BatchNorm
from functrace.torch.nn.modules.module import Module
from functrace.torch.optim import errors
from functrace.torch.optim.optimizer import Optimizer
from functrace.torch.optim.schedules.base import LRScheduler, Rates, for_groups
from functrace.torch.tensors.dtypes import int64
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

PARAM_LIST: TypeAlias = "Sequence[Tensor]"


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def _has_fractions(tensor: Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """Return a function that updates exponential averages of several parameters in place.

    Args:
        decay: the part of the average that stays, from 0 to 1.

    Raises:
        ValueError: for a part out of range.

    Example:
        >>> import functrace.torch as torch
        >>> average = torch.zeros(2)
        >>> torch.optim.swa_utils.get_ema_multi_avg_fn(0.75)([average], [torch.ones(2)], 1)
        >>> average
        tensor([0.2500, 0.2500])
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(averages: PARAM_LIST, params: PARAM_LIST, count: Tensor | int) -> None:
        for average, p in zip(averages, params, strict=True):
            if _has_fractions(average):
                average.lerp_(p, 1 - decay)
            else:
                average.copy_(average * decay + p * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """Return a function that updates averages of several parameters over all steps in place.

    Example:
        >>> import functrace.torch as torch
        >>> average = torch.zeros(2)
        >>> torch.optim.swa_utils.get_swa_multi_avg_fn()([average], [torch.ones(2)], 1)
        >>> average
        tensor([0.5000, 0.5000])
    """

    @no_grad()
    def swa_update(averages: PARAM_LIST, params: PARAM_LIST, count: Tensor | int) -> None:
        for average, p in zip(averages, params, strict=True):
            if _has_fractions(average):
                average.lerp_(p, float(1 / (count + 1)))
            elif isinstance(count, Tensor):
                average.addcdiv_(p - average, count + 1)
            else:
                average.add_(p - average, alpha=1.0 / (count + 1))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """Return a function that computes the exponential average of a parameter.

    Args:
        decay: the part of the average that stays, from 0 to 1.

    Raises:
        ValueError: for a part out of range.

    Example:
        >>> import functrace.torch as torch
        >>> torch.optim.swa_utils.get_ema_avg_fn(0.75)(torch.zeros(2), torch.ones(2), 1)
        tensor([0.2500, 0.2500])
    """
    _check_decay(decay)

    @no_grad()
    def ema_update(average: Tensor, p: Tensor, count: Tensor | int) -> Tensor:
        return decay * average + (1 - decay) * p

    return ema_update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """Return a function that computes the average of a parameter over all steps.

    Example:
        >>> import functrace.torch as torch
        >>> torch.optim.swa_utils.get_swa_avg_fn()(torch.zeros(2), torch.ones(2), 1)
        tensor([0.5000, 0.5000])
    """

    @no_grad()
    def swa_update(average: Tensor, p: Tensor, count: Tensor | int) -> Tensor:
        return average + (p - average) / (count + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's.

    Args:
        model: the model.
        device: the CPU.
        avg_fn: computes an average from the average, a parameter and the number of averaged
            models; by default the mean.
        multi_avg_fn: updates lists of averages by lists of parameters, in place of ``avg_fn``.
        use_buffers: whether buffers are averaged, too; otherwise they are copied.

    Raises:
        AssertionError: if both functions are given.

    Example:
        >>> import functrace.torch as torch
        >>> model = torch.nn.Linear(1, 1, bias=False)
        >>> averaged = torch.optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 2.0):
        ...     _ = model.weight.data.fill_(value)
        ...     averaged.update_parameters(model)
        >>> averaged.module.weight.item()
        1.5
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Tensor] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError(errors.AVERAGE_FUNCTIONS)
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", torch.tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged copy."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take a model's present parameters into the averages.

        Args:
            model: the model; the first one is copied.
        """
        if self.use_buffers:
            averaged = itertools.chain(self.module.parameters(), self.module.buffers())
            given = itertools.chain(model.parameters(), model.buffers())
        else:
            averaged, given = self.parameters(), model.parameters()
        pairs = [(a.detach(), p.detach()) for a, p in zip(averaged, given, strict=False)]
        if bool(self.n_averaged == 0):
            for average, p in pairs:
                average.copy_(p)
        else:
            self._average(pairs)
        if not self.use_buffers:
            for mine, other in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(other.detach())
        self.n_averaged += 1

    def _average(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
        if self.multi_avg_fn is None:
            function = self.avg_fn or get_swa_avg_fn()
            for average, p in pairs:
                average.copy_(function(average, p, self.n_averaged))
            return
        kinds: dict[Any, list[tuple[Tensor, Tensor]]] = {}
        for average, p in pairs:
            kinds.setdefault(average.dtype, []).append((average, p))
        for several in kinds.values():
            self.multi_avg_fn([a for a, _ in several], [p for _, p in several], self.n_averaged)


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of a model's BatchNorm layers anew.

    Args:
        loader: inputs of the model, or tuples and lists that begin with one.
        model: the model.
        device: the CPU.

    Example:
        >>> import functrace.torch as torch
        >>> norm = torch.nn.BatchNorm1d(1)
        >>> data = [torch.tensor([[1.0], [3.0]]), torch.tensor([[5.0], [7.0]])]
        >>> torch.optim.swa_utils.update_bn(data, norm)
        >>> norm.running_mean
        tensor([4.])
    """
    momenta: dict[Any, Any] = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None  # the mean over all batches
    for given in loader:
        batch = given[0] if isinstance(given, (list, tuple)) else given
        model(batch if device is None else batch.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Learning rates that move to one for averaging, and stay there.

    Args:
        optimizer: the optimizer.
        swa_lr: the learning rate for averaging, or one for each group.
        anneal_epochs: the step at which it is reached.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: number of the last step, to go on from; -1 to begin.

    Raises:
        ValueError: for another strategy, or a step that is no integer from 0 on.

    Example:
        >>> import functrace.torch as torch
        >>> optimizer = torch.optim.SGD([torch.ones(2)], lr=1.0)
        >>> schedule = torch.optim.swa_utils.SWALR(optimizer, 0.5, 2, anneal_strategy="linear")
        >>> optimizer.step(); schedule.step(); schedule.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        rates = for_groups("swa_lr", optimizer, swa_lr)
        for rate, group in zip(rates, optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._set_anneal_func(anneal_strategy)
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _linear_anneal(t: float) -> float:
        return t

    @staticmethod
    def _cosine_anneal(t: float) -> float:
        return (1 - math.cos(math.pi * t)) / 2

    def _set_anneal_func(self, anneal_strategy: str) -> None:
        self._anneal_strategy = anneal_strategy
        is_cosine = anneal_strategy == "cos"
        self.anneal_func = self._cosine_anneal if is_cosine else self._linear_anneal

    @staticmethod
    def _get_initial_lr(lr: float | Tensor, swa_lr: float | Tensor, alpha: float) -> Any:
        """Return the learning rate from which the present one has moved."""
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def get_lr(self) -> Rates:
        """Compute the learning rates at the present step, from those before."""
        self._warn_outside_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        length = max(1, self.anneal_epochs)
        before = self.anneal_func(max(0, min(1, (step - 1) / length)))
        now = self.anneal_func(max(0, min(1, step / length)))
        rates = []
        for group in self.optimizer.param_groups:
            first = self._get_initial_lr(group["lr"], group["swa_lr"], before)
            rates.append(group["swa_lr"] * now + first * (1 - now))
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer and the function."""
        state = super().state_dict()
        del state["anneal_func"]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Set the attributes.

        Args:
            state_dict: made by `state_dict`.
        """
        vars(self).update(state_dict)
        self._set_anneal_func(self._anneal_strategy)
