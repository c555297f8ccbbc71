"""`swa_utils`: averages of weights, and statistics of BatchNorm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace.torch as torch

swa_utils = torch.optim.swa_utils


def fill(model: Any, value: float) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(value)


@pytest.mark.parametrize("own", [False, True])
def test_a_model_has_the_mean_of_the_weights(own: bool) -> None:
    model = torch.nn.Linear(2, 1)
    averaged = swa_utils.AveragedModel(model, avg_fn=swa_utils.get_swa_avg_fn() if own else None)
    for value in (1.0, 2.0, 6.0):
        fill(model, value)
        averaged.update_parameters(model)
    assert averaged.module.weight.tolist() == [[3.0, 3.0]] and averaged.n_averaged.item() == 3
    assert model.weight.tolist() == [[6.0, 6.0]]
    assert averaged(torch.ones(1, 2)).item() == 9.0
    assert list(averaged.state_dict()) == ["n_averaged", "module.weight", "module.bias"]


@pytest.mark.parametrize("several", [False, True])
def test_a_model_has_the_exponential_average(several: bool) -> None:
    model = torch.nn.Linear(2, 1)
    averaged = swa_utils.AveragedModel(
        model,
        **(
            {"multi_avg_fn": swa_utils.get_ema_multi_avg_fn(0.75)}
            if several
            else {"avg_fn": swa_utils.get_ema_avg_fn(0.75)}
        ),
    )
    for value in (1.0, 2.0, 6.0):
        fill(model, value)
        averaged.update_parameters(model)
    expected = 0.75 * (0.75 * 1 + 0.25 * 2) + 0.25 * 6
    np.testing.assert_allclose(averaged.module.bias.detach().numpy(), expected)


def test_buffers_are_copied_or_averaged() -> None:
    for use_buffers, expected in ((False, 5.0), (True, 3.0)):
        model = torch.nn.BatchNorm1d(1)
        averaged = swa_utils.AveragedModel(model, use_buffers=use_buffers)
        for value in (1.0, 5.0):
            model.running_mean.fill_(value)
            averaged.update_parameters(model)
        assert averaged.module.running_mean.item() == expected


def test_two_functions_are_refused() -> None:
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa_utils.AveragedModel(
            torch.nn.Linear(1, 1),
            avg_fn=swa_utils.get_swa_avg_fn(),
            multi_avg_fn=swa_utils.get_swa_multi_avg_fn(),
        )
    with pytest.raises(ValueError, match="Invalid decay value"):
        swa_utils.get_ema_avg_fn(1.5)


def test_statistics_are_means_over_all_batches() -> None:
    rng = np.random.default_rng(0)
    data = torch.from_numpy(rng.normal(size=(4, 10, 3)).astype("float32"))
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3, momentum=0.3)).eval()
    swa_utils.update_bn([(batch, None) for batch in data], model)
    norm = model[0]
    np.testing.assert_allclose(norm.running_mean.numpy(), data.numpy().mean((0, 1)), rtol=1e-5)
    assert norm.momentum == 0.3 and not model.training


def test_the_rate_moves_to_that_for_averaging() -> None:
    optimizer = torch.optim.SGD([torch.ones(1)], lr=1.0)
    schedule = swa_utils.SWALR(optimizer, 0.2, anneal_epochs=4)
    found = []
    for _ in range(6):
        optimizer.step()
        schedule.step()
        found += schedule.get_last_lr()
    expected = [0.2 + 0.8 * (1 + np.cos(np.pi * k / 4)) / 2 for k in (1, 2, 3, 4, 4, 4)]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    state = schedule.state_dict()
    assert "anneal_func" not in state
    schedule.load_state_dict(state)
    schedule.step()
    assert schedule.get_last_lr() == [0.2]
