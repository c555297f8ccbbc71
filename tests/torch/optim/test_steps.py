"""Steps of optimizers: known results, gradients through them, and their effects on tensors."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import FunctraceError
from functrace.torch.optim import stepping

# Recorded from PyTorch 2.13.0: x = [[1, -2], [3, 0.5]] in float64, and three steps with the
# gradients of (x ** 2).sum() + x.sin().sum().
RECORDED: dict[str, tuple[dict[str, Any], list[float]]] = {
    "SGD": ({"lr": 0.1}, [0.33205041, -1.030086234, 1.712086109, 0.024896052]),
    "SGD momentum": (
        {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
        [-0.586600204, 0.0859008, -0.311692011, -0.585657235],
    ),
    "Adam": ({"lr": 0.1, "amsgrad": True}, [0.700586665, -1.700901373, 2.700409712, 0.201260531]),
    "AdamW": ({"lr": 0.1}, [0.69789676, -1.695230829, 2.691732241, 0.200070217]),
    "Adamax": ({"lr": 0.1}, [0.707217515, -1.710246587, 2.705381909, 0.213067551]),
    "NAdam": ({"lr": 0.1}, [0.747265828, -1.749183847, 2.74608052, 0.251110924]),
    "RAdam": ({"lr": 0.1}, [0.288838833, -0.87706362, 1.617720702, -0.015009506]),
    "Adagrad": (
        {"lr": 0.1, "lr_decay": 0.1},
        [0.790989405, -1.792439674, 2.790131779, 0.293841088],
    ),
    "Adadelta": ({"lr": 1.0}, [0.99030004, -1.990303385, 2.990298609, 0.490305917]),
    "RMSprop": (
        {"lr": 0.1, "centered": True, "momentum": 0.5},
        [-0.929114536, 0.09496145, -0.016557557, -0.585019321],
    ),
    "Rprop": ({"lr": 0.1}, [0.636, -1.636, 2.636, 0.136]),
    "ASGD": ({"lr": 0.1, "t0": 1}, [0.332035754, -1.03005781, 1.712028563, 0.024891487]),
    "Adafactor": ({"lr": 0.1}, [0.662466875, -1.360534328, 2.396599315, 0.226347581]),
}

NAMES = [
    "SGD", "Adam", "AdamW", "Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "RMSprop", "Rprop",
    "ASGD", "Adafactor",
]  # fmt: skip
DIFFERENTIABLE: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"weight_decay": 0.1, "maximize": True}),
    ("Adam", {"weight_decay": 0.1}),
    ("Adam", {"amsgrad": True, "maximize": True}),
    ("AdamW", {"weight_decay": 0.1}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {}),
    ("RAdam", {}),
    ("Adagrad", {"initial_accumulator_value": 0.1}),
    ("Adadelta", {}),
    ("RMSprop", {}),
    ("RMSprop", {"momentum": 0.8, "centered": True}),
    ("ASGD", {"t0": 0}),
]


def parameter(dtype: Any = None) -> Any:
    return torch.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=dtype or torch.float64, requires_grad=True)


def descend(optimizer: Any, x: Any, steps: int = 3) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        ((x**2).sum() + x.sin().sum()).backward()
        optimizer.step()


@pytest.mark.parametrize("name", RECORDED)
def test_steps_have_the_recorded_results(name: str) -> None:
    settings, expected = RECORDED[name]
    x = parameter()
    descend(getattr(torch.optim, name.split()[0])([x], **settings), x)
    np.testing.assert_allclose(x.detach().numpy().ravel(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_and_tensors_give_what_whole_arrays_give(name: str, dtype: str) -> None:
    """A large parameter, in blocks; parts of it; and one in another memory order."""
    rng = np.random.default_rng(0)
    size = stepping.BLOCK + 1000
    start, grads = rng.normal(size=size).astype(dtype), rng.normal(size=(3, size)).astype(dtype)
    if name == "Adafactor":
        start, grads = start[:900], grads[:, :900]

    def run(array: Any, step_grads: Any) -> Any:
        x = torch.from_numpy(array).requires_grad_()
        optimizer = getattr(torch.optim, name)([x], lr=0.1)
        for g in step_grads:
            x.grad = torch.from_numpy(g)
            optimizer.step()
        return x.detach().numpy()

    whole = run(start.copy(), grads)
    spread = np.empty((len(start), 2), dtype)[:, 0]
    spread[:] = start
    if name != "Adafactor":
        part = run(start[-1500:].copy(), grads[:, -1500:])
        np.testing.assert_array_equal(whole[-1500:], part)
    np.testing.assert_allclose(
        run(spread, grads), whole, rtol=1e-6 if dtype == "float32" else 1e-12
    )


@pytest.mark.parametrize("name", NAMES)
def test_tensors_give_what_arrays_give(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = parameter(), parameter()
    descend(getattr(torch.optim, name)([x], lr=0.1), x)
    monkeypatch.setattr(stepping, "is_direct", lambda: False)
    descend(getattr(torch.optim, name)([y], lr=0.1), y)
    np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy(), rtol=1e-14)


@pytest.mark.parametrize("name", [n for n in NAMES if n != "Adafactor"])
def test_complex_parameters_are_two_real_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    start = rng.normal(size=4) + 1j * rng.normal(size=4)
    grads = rng.normal(size=(3, 4)) + 1j * rng.normal(size=(3, 4))
    found = []
    for kind in ("arrays", "tensors", "parts"):
        if kind == "tensors":
            monkeypatch.setattr(stepping, "is_direct", lambda: False)
        array = start.copy() if kind != "parts" else start.copy().view(np.float64)
        x = torch.from_numpy(array).requires_grad_()
        optimizer = getattr(torch.optim, name)([x], lr=0.1)
        for g in grads:
            x.grad = torch.from_numpy(g if kind != "parts" else g.view(np.float64))
            optimizer.step()
        found.append(x.detach().numpy().view(np.float64))
    np.testing.assert_allclose(found[0], found[2], rtol=1e-14)
    np.testing.assert_allclose(found[1], found[2], rtol=1e-14)


def test_the_first_direction_of_momentum_is_a_constant_as_in_pytorch() -> None:
    start = torch.ones(2, requires_grad=True)
    x = start.clone()
    optimizer = torch.optim.SGD([x], lr=0.1, momentum=0.9, differentiable=True)
    x.grad = 3 * x.clone()
    optimizer.step()
    (grad,) = torch.autograd.grad(x.sum(), start)
    assert grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("settings", DIFFERENTIABLE, ids=str)
def test_gradients_flow_through_steps(settings: tuple[str, dict[str, Any]]) -> None:
    name, given = settings

    def trained(start: Any, scale: Any) -> Any:
        x = start.clone()
        optimizer = getattr(torch.optim, name)([x], lr=0.1, differentiable=True, **given)
        for _ in range(6 if name == "RAdam" else 3):
            now = x.clone()
            x.grad = 2 * scale * now + now.cos()
            optimizer.step()
        return x

    start = torch.tensor([1.0, -2.0, 3.0, 0.5], dtype=torch.float64, requires_grad=True)
    scale = torch.tensor([0.3, 1.2, 0.7, 2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(trained, (start, scale), rtol=1e-3, atol=1e-6)


def test_gradients_flow_to_settings() -> None:
    def trained(lr: Any, beta1: Any, beta2: Any, decay: Any) -> Any:
        x = torch.tensor([1.0, -2.0], dtype=torch.float64).requires_grad_().clone()
        optimizer = torch.optim.Adam(
            [x], lr, (beta1, beta2), weight_decay=decay, differentiable=True
        )
        for k in range(3):
            x.grad = torch.tensor([1.0, 2.0], dtype=torch.float64) / (1 + k)
            optimizer.step()
        return x

    several = [
        torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.1, 0.9, 0.99, 0.05)
    ]
    assert torch.autograd.gradcheck(trained, several)

    def descended(lr: Any, decay: Any) -> Any:
        x = torch.tensor([1.0, -2.0], dtype=torch.float64).requires_grad_().clone()
        optimizer = torch.optim.SGD([x], lr, weight_decay=decay, differentiable=True)
        for k in range(3):
            x.grad = torch.tensor([1.0, 2.0], dtype=torch.float64) / (1 + k)
            optimizer.step()
        return x

    assert torch.autograd.gradcheck(descended, several[:2])


def test_a_tensor_as_learning_rate_is_read_at_every_step() -> None:
    for name in NAMES:
        if name == "Rprop":
            continue
        x, y = parameter(), parameter()
        lr = torch.tensor(0.1, dtype=torch.float64)
        one = getattr(torch.optim, name)([x], lr=lr)
        two = getattr(torch.optim, name)([y], lr=0.1)
        descend(one, x, 1)
        descend(two, y, 1)
        lr.fill_(0.01)
        two.param_groups[0]["lr"] = 0.01
        descend(one, x, 2)
        descend(two, y, 2)
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-14)


# -- effects on tensors ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_backward_detects_that_a_step_has_overwritten(name: str) -> None:
    x = parameter()
    loss = (x**2).sum()
    loss.backward(retain_graph=True)
    getattr(torch.optim, name)([x]).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_saved_tensors_that_may_be_overwritten_are_cloned() -> None:
    x = parameter()
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        loss = (x**2).sum()
        (grad,) = torch.autograd.grad(loss, x, retain_graph=True)
        x.grad = grad
        torch.optim.Adam([x], lr=0.5).step()
        (again,) = torch.autograd.grad(loss, x)
    assert torch.equal(again, grad)


def test_views_of_a_parameter_see_the_step() -> None:
    base = torch.zeros(6)
    part = base[2:4]
    part.requires_grad_()
    part.grad = torch.ones(2)
    version = base._version
    torch.optim.SGD([part], lr=1.0).step()
    assert base.tolist() == [0, 0, -1, -1, 0, 0] and base._version == version + 1


def test_a_subclass_gets_the_calls_on_it() -> None:
    calls: list[str] = []

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            calls.append(getattr(func, "__name__", str(func)))
            return super().__torch_function__(func, types, args, kwargs)

    x: Any = torch.ones(2).as_subclass(Logged).requires_grad_()
    x.grad = torch.ones(2).as_subclass(Logged)
    optimizer = torch.optim.Adam([x], lr=0.5)
    optimizer.step()
    assert "addcdiv_" in calls and type(optimizer.state[x]["exp_avg"]) is Logged
    np.testing.assert_allclose(x.tolist(), [0.5, 0.5], rtol=1e-6)


def test_expanded_parameters_are_refused() -> None:
    x = torch.zeros(1).expand(3)
    x.requires_grad_()
    x.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.optim.SGD([x], lr=1.0).step()


@pytest.mark.parametrize("name", NAMES)
def test_expanded_gradients_are_read(name: str) -> None:
    found = []
    for grad in (torch.ones(1, 1).expand(2, 3), torch.ones(2, 3)):
        x = torch.zeros(2, 3, requires_grad=True)
        x.grad = grad
        getattr(torch.optim, name)([x]).step()
        found.append(x.tolist())
    assert found[0] == found[1]


def test_inference_tensors_are_updated_in_inference_mode_only() -> None:
    with torch.inference_mode():
        x = torch.ones(2)
    optimizer = torch.optim.SGD([x], lr=0.5)
    with torch.inference_mode():
        x.grad = torch.ones(2)
        optimizer.step()
    assert x.tolist() == [0.5, 0.5]
    with pytest.raises(RuntimeError, match="nplace update to inference tensor"):
        optimizer.step()


def test_no_warnings_about_numbers_out_of_range() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in NAMES:
            x = parameter()
            optimizer = getattr(torch.optim, name)([x])
            for value in (np.inf, np.nan, 1e308, 0.0):
                x.grad = torch.full((2, 2), value, dtype=torch.float64)
                optimizer.step()


def test_a_step_without_recording_makes_no_nodes() -> None:
    for name in NAMES:
        x = parameter()
        descend(getattr(torch.optim, name)([x]), x)
        assert x.is_leaf and x.grad_fn is None and x.requires_grad
        assert torch.is_grad_enabled()


def test_a_step_that_fails_restores_recording() -> None:
    optimizer = torch.optim.Adam([parameter()])

    def closure() -> Any:
        assert torch.is_grad_enabled()
        raise KeyError("x")

    with torch.no_grad(), pytest.raises(KeyError):
        optimizer.step(closure)
    assert torch.is_grad_enabled()


def test_the_closure_returns_the_loss() -> None:
    x = parameter()
    optimizer = torch.optim.SGD([x], lr=0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (x**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 14.25
    assert optimizer.step() is None


def test_steps_inside_transforms_are_correct_or_refused() -> None:
    def unrolled(start: Any) -> Any:
        x = torch.tensor(0.0, dtype=torch.float64) + start
        optimizer = torch.optim.SGD([x], lr=0.1, differentiable=True)
        for _ in range(2):
            now = x.clone()
            x.grad = 3 * now**2
            optimizer.step()
        return x

    def plain(x: Any) -> Any:
        for _ in range(2):
            x = x - 0.1 * 3 * x**2
        return x

    start = torch.tensor(0.5, dtype=torch.float64)
    try:
        found = torch.func.grad(unrolled)(start)
    except (RuntimeError, FunctraceError):
        return
    expected = ft.grad(plain)(0.5)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


# -- saving ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES, "LBFGS"])
def test_a_loaded_optimizer_goes_on_as_the_saved_one(name: str) -> None:
    def steps(optimizer: Any, x: Any, count: int) -> None:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = ((x - 1) ** 2).sum() + (x**4).sum()
            loss.backward()
            return loss

        for _ in range(count):
            optimizer.step(closure)

    settings = {"max_iter": 2} if name == "LBFGS" else {"lr": 0.05}
    x = parameter()
    optimizer = getattr(torch.optim, name)([x], **settings)
    steps(optimizer, x, 2)
    for way in ("state", "pickle", "copy"):
        if way == "state":
            y = x.detach().clone().requires_grad_()
            other = getattr(torch.optim, name)([y], **settings)
            other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        else:
            text = pickle.dumps((optimizer, x)) if way == "pickle" else b""
            other, y = pickle.loads(text) if way == "pickle" else copy.deepcopy((optimizer, x))
            if name == "LBFGS":
                continue
        z = x.detach().clone().requires_grad_()
        third = getattr(torch.optim, name)([z], **settings)
        third.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        steps(other, y, 2)
        steps(third, z, 2)
        # (mu_product and eta are loaded in the parameter's dtype, as in PyTorch)
        np.testing.assert_allclose(y.detach().numpy(), z.detach().numpy(), rtol=1e-6, err_msg=way)
        assert not torch.equal(y, x)


def test_state_keeps_its_dtype_rules() -> None:
    x = parameter()
    x.grad = torch.ones_like(x)
    optimizer = torch.optim.Adam([x])
    optimizer.step()
    y = parameter(torch.float32)
    other = torch.optim.Adam([y])
    other.load_state_dict(optimizer.state_dict())
    assert other.state[y]["exp_avg"].dtype is torch.float32
    assert other.state[y]["step"].dtype is torch.float32 and other.state[y]["step"].item() == 1


def test_many_groups_have_settings_of_their_own() -> None:
    x, y = parameter(), parameter()
    optimizer = torch.optim.SGD([{"params": [x]}, {"params": [y], "lr": 0.5}], lr=0.1)
    x.grad, y.grad = torch.ones_like(x), torch.ones_like(y)
    optimizer.step()
    np.testing.assert_allclose((parameter() - x).detach().numpy(), 0.1)
    np.testing.assert_allclose((parameter() - y).detach().numpy(), 0.5)
    z = parameter()
    optimizer.add_param_group({"params": z, "lr": 1.0})
    z.grad = torch.ones_like(z)
    optimizer.step()
    np.testing.assert_allclose((parameter() - z).detach().numpy(), 1.0)


def test_settings_may_be_tensors_or_numpy_numbers() -> None:
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adafactor"):
        found = []
        for kind in (float, np.float64, lambda v: torch.tensor(v, dtype=torch.float64)):
            x = parameter(torch.float32)
            optimizer = getattr(torch.optim, name)([x], lr=kind(0.1), weight_decay=kind(0.01))
            descend(optimizer, x)
            found.append(x.tolist())
        np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-6)


def test_names_that_other_packages_use() -> None:
    from functrace.torch.optim import optimizer

    x, y, z = torch.ones(1), torch.ones(2, dtype=torch.float64), torch.ones(3)
    groups = torch.optim.Optimizer._group_tensors_by_device_and_dtype(
        [[x, y, z], [1, 2, 3], []], True
    )
    assert [(lists[1], at) for lists, at in groups.values()] == [([1, 3], [0, 2]), ([2], [1])]
    assert optimizer._default_to_fused_or_foreach([x], False) == (False, False)
    assert optimizer._get_value(torch.tensor(3.0)) == optimizer._get_value(3.0) == 3.0
    assert optimizer._to_scalar(torch.ones(1)).ndim == 0 and optimizer._to_scalar(2) == 2
    several = [torch.ones(2, dtype=torch.complex64), torch.ones(2)]
    optimizer._view_as_real(several)
    assert [tuple(p.shape) for p in several] == [(2, 2), (2,)]
