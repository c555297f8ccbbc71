"""Schedules of learning rates: known sequences, restarts from saved state, warnings."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.optim import lr_scheduler

# Recorded from PyTorch 2.13.0: the learning rates of eight steps.
RECORDED: dict[str, list[float]] = {
    "lambda": [0.9, 0.81, 0.729, 0.6561, 0.59049, 0.531441, 0.4782969, 0.43046721],
    "multiplicative": [0.9, 0.72, 0.504, 0.3024, 0.1512, 0.06048, 0.018144, 0.0036288],
    "step": [1.0, 1.0, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25],
    "multi_step": [1.0, 0.5, 0.5, 0.5, 0.125, 0.125, 0.125, 0.125],
    "constant": [0.25, 0.25, 0.25, 1.0, 1.0, 1.0, 1.0, 1.0],
    "linear": [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.8, 0.8],
    "exponential": [0.9, 0.81, 0.729, 0.6561, 0.59049, 0.531441, 0.4782969, 0.43046721],
    "polynomial": [0.694444444, 0.444444444, 0.25, 0.111111111, 0.027777778, 0.0, 0.0, 0.0],
    "cosine": [
        0.914057647,
        0.689057647,
        0.410942353,
        0.185942353,
        0.1,
        0.185942353,
        0.410942353,
        0.689057647,
    ],
    "restarts": [0.5, 1.0, 0.853553391, 0.5, 0.146446609, 1.0, 0.961939766, 0.853553391],
    "cyclic": [0.55, 1.0, 0.7, 0.4, 0.1, 0.55, 1.0, 0.7],
    "one_cycle": [
        0.52,
        1.0,
        0.950484632,
        0.811745654,
        0.611262022,
        0.388741978,
        0.188258346,
        0.049519368,
    ],
    "sequential": [0.1, 1.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125],
    "chained": [0.05, 0.025, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625],
}

MADE: dict[str, Callable[[Any], Any]] = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda k: 0.9**k),
    "multiplicative": lambda o: lr_scheduler.MultiplicativeLR(o, lambda k: 1 - 0.1 * k),
    "step": lambda o: lr_scheduler.StepLR(o, 3, gamma=0.5),
    "multi_step": lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 5], gamma=0.5),
    "constant": lambda o: lr_scheduler.ConstantLR(o, factor=0.25, total_iters=4),
    "linear": lambda o: lr_scheduler.LinearLR(o, 0.2, 0.8, total_iters=6),
    "exponential": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "polynomial": lambda o: lr_scheduler.PolynomialLR(o, 6, power=2.0),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 5, eta_min=0.1),
    "restarts": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2),
    "cyclic": lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, 2, 3),
    "one_cycle": lambda o: lr_scheduler.OneCycleLR(o, 1.0, total_steps=10),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.ConstantLR(o, 0.1, 2), lr_scheduler.ExponentialLR(o, 0.5)], [3]
    ),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, 0.1, 3), lr_scheduler.ExponentialLR(o, 0.5)]
    ),
}


def sgd(lr: Any = 1.0) -> Any:
    return torch.optim.SGD([torch.ones(2)], lr=lr, momentum=0.9)


def rates(optimizer: Any, schedule: Any, steps: int) -> list[float]:
    found = []
    for _ in range(steps):
        optimizer.step()
        schedule.step()
        found += [float(rate) for rate in schedule.get_last_lr()]
        assert found[-1] == float(optimizer.param_groups[0]["lr"])
    return found


@pytest.mark.parametrize("name", MADE)
def test_schedules_have_the_recorded_rates(name: str) -> None:
    optimizer = sgd()
    schedule = MADE[name](optimizer)
    np.testing.assert_allclose(rates(optimizer, schedule, 8), RECORDED[name], atol=1e-7)


@pytest.mark.parametrize("name", MADE)
def test_tensors_as_learning_rates_are_overwritten(name: str) -> None:
    lr = torch.tensor(1.0, dtype=torch.float64)
    optimizer = sgd(lr)
    schedule = MADE[name](optimizer)
    found = rates(optimizer, schedule, 8)
    np.testing.assert_allclose(found, RECORDED[name], atol=1e-6)
    assert optimizer.param_groups[0]["lr"] is lr and lr.item() == found[-1]


@pytest.mark.parametrize("name", MADE)
def test_a_loaded_schedule_goes_on_as_the_saved_one(name: str) -> None:
    optimizer = sgd()
    schedule = MADE[name](optimizer)
    rates(optimizer, schedule, 4)
    state = copy.deepcopy(schedule.state_dict())
    settings = copy.deepcopy(optimizer.state_dict())
    other = sgd()
    again = MADE[name](other)
    again.load_state_dict(state)
    other.load_state_dict(settings)
    assert rates(other, again, 4) == rates(optimizer, schedule, 4)


def test_steps_in_the_wrong_order_warn() -> None:
    schedule = lr_scheduler.StepLR(sgd(), 2)
    with pytest.warns(UserWarning, match=r"before `optimizer.step\(\)`"):
        schedule.step()
    optimizer = sgd()
    schedule = lr_scheduler.StepLR(optimizer, 2)
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()
    with pytest.warns(UserWarning, match="epoch parameter"):
        schedule.step(5)
    assert schedule.get_last_lr() == [1.0 * 0.1**2]


def test_a_schedule_goes_on_from_a_step() -> None:
    optimizer = sgd()
    optimizer.param_groups[0]["initial_lr"] = 1.0
    schedule = lr_scheduler.LambdaLR(optimizer, lambda k: 1 / (1 + k), last_epoch=3)
    assert schedule.get_last_lr() == [0.2]
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.ExponentialLR(sgd(), 0.5, last_epoch=3)


def test_momentum_goes_the_other_way() -> None:
    optimizer = sgd()
    schedule = lr_scheduler.CyclicLR(optimizer, 0.1, 1.0, 2)
    assert optimizer.param_groups[0]["momentum"] == 0.9
    rates(optimizer, schedule, 2)
    np.testing.assert_allclose(optimizer.param_groups[0]["momentum"], 0.8)
    adam = torch.optim.Adam([torch.ones(2)])
    schedule = lr_scheduler.OneCycleLR(adam, 1.0, total_steps=10)
    rates(adam, schedule, 2)
    assert adam.param_groups[0]["betas"] == (0.85, 0.999)


def test_callable_objects_are_saved_with_their_attributes() -> None:
    class Decay:
        def __init__(self, base: float) -> None:
            self.base = base

        def __call__(self, step: int) -> float:
            return self.base**step

    optimizer = sgd()
    schedule = lr_scheduler.LambdaLR(optimizer, Decay(0.5))
    state = schedule.state_dict()
    assert state["lr_lambdas"] == [{"base": 0.5}]
    other = lr_scheduler.LambdaLR(sgd(), Decay(0.1))
    other.load_state_dict(state)
    assert other.lr_lambdas[0].base == 0.5 and state["lr_lambdas"] == [{"base": 0.5}]


def test_a_plateau_reduces_the_rate() -> None:
    optimizer = sgd()
    schedule = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, cooldown=1)
    found = []
    for loss in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0):
        schedule.step(loss)
        found += schedule.get_last_lr()
    assert found == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25]
    optimizer.add_param_group({"params": torch.ones(1)})
    for _ in range(3):
        schedule.step(5.0)
    assert len(schedule.get_last_lr()) == 2


def test_an_optimizer_outlives_no_schedule() -> None:
    import gc
    import weakref

    optimizer = sgd()
    lr_scheduler.StepLR(optimizer, 2)
    reference = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert reference() is None
