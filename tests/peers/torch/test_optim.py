"""Optimizers and schedules give PyTorch's parameters, state, learning rates and refusals.

The configurations are those with which PyTorch tests itself (``common_optimizers``).
"""

from __future__ import annotations

import copy
import importlib
import importlib.util
import pickle
import random
import re
import sys
import unittest
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the optimizers are those of torch {VERSION}", allow_module_level=True)
if "expecttest" not in sys.modules and importlib.util.find_spec("expecttest") is None:
    # (PyTorch's tests import it; none uses it here)
    sys.modules["expecttest"] = stub = ModuleType("expecttest")
    stub.TestCase = unittest.TestCase  # type: ignore[attr-defined]
common = pytest.importorskip("torch.testing._internal.common_optimizers")

SHIM = importlib.import_module("functrace.torch")

SHAPES = [(), (3,), (4, 5), (2, 3, 2), (0,)]
TOLERANCES = {"float32": 3e-6, "float64": 2e-14, "complex64": 3e-6, "complex128": 2e-14}
"""Relative to the largest element. Fused multiply-add and the order of sums differ."""
LOOSE = {"Muon": 0.02, "Adafactor": 1e-5, "LBFGS": 1e-4}
"""Muon computes in bfloat16; Adafactor and LBFGS have sums."""


def converted(value: Any, library: ModuleType) -> Any:
    """Return settings with their tensors in a library."""
    if isinstance(value, torch.Tensor):
        made = library.from_numpy(value.detach().numpy().copy())
        return made.requires_grad_() if value.requires_grad else made
    if isinstance(value, (tuple, list)):
        return type(value)(converted(x, library) for x in value)
    if isinstance(value, dict):
        return {k: converted(v, library) for k, v in value.items()}
    return value


def arrays(shapes: Any, dtype: str, seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    made = []
    for shape in shapes:
        x = rng.normal(size=shape)
        if dtype.startswith("complex"):
            x = x + 1j * rng.normal(size=shape)
        made.append(np.asarray(x, dtype))
    return made


def plain(value: Any) -> Any:
    """Return state without tensors of a library."""
    if hasattr(value, "detach"):
        return value.detach().resolve_conj().numpy()
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def check_close(found: Any, expected: Any, tolerance: float, where: str) -> None:
    if isinstance(expected, dict):
        assert list(found) == list(expected), where
        for key in expected:
            check_close(found[key], expected[key], tolerance, f"{where}[{key!r}]")
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for k, (a, b) in enumerate(zip(found, expected, strict=True)):
            check_close(a, b, tolerance, f"{where}[{k}]")
    elif isinstance(expected, (np.ndarray, float, int, complex)):
        a, b = np.asarray(found), np.asarray(expected)
        assert a.shape == b.shape, where
        assert not isinstance(expected, np.ndarray) or a.dtype == b.dtype, where
        scale = np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * scale, err_msg=where)
    else:
        assert found == expected, where


def configurations() -> Iterator[Any]:
    for info in common.optim_db:
        name = info.optim_cls.__name__
        if name == "SparseAdam":
            continue
        for k, given in enumerate(info.optim_inputs_func(device="cpu")):
            yield pytest.param(name, given.kwargs, id=f"{name}-{k}-{given.desc}")


def run_steps(
    library: ModuleType, name: str, settings: Any, dtype: str, steps: int, start: Any = None
) -> tuple[Any, Any]:
    shapes = [(4, 5), (6, 2)] if name == "Muon" else SHAPES
    params = [library.from_numpy(x.copy()).requires_grad_() for x in arrays(shapes, dtype, 1)]
    optimizer = getattr(library.optim, name)(params, **converted(settings, library))
    for step in range(steps):
        for k, (p, grad) in enumerate(zip(params, arrays(shapes, dtype, 10 + step), strict=True)):
            p.grad = None if step == 1 and k == 1 else library.from_numpy(grad)
        optimizer.step()
    return plain(params), plain(optimizer.state_dict())


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("name", "settings"), list(configurations()))
def test_steps_of_every_configuration_are_pytorchs(name: str, settings: dict[str, Any]) -> None:
    if name == "LBFGS":
        pytest.skip("it needs a closure: see below")
    real_only = name in ("Muon", "Adafactor") or settings.get("fused")
    kinds = ["float32", "float64" if real_only else "complex128"]
    for dtype in kinds:
        try:
            expected = run_steps(torch, name, settings, dtype, 5)
        except (RuntimeError, AssertionError, ValueError, ZeroDivisionError) as error:
            with pytest.raises(type(error), match=re.escape(str(error).splitlines()[0])):
                run_steps(SHIM, name, settings, dtype, 5)
            continue
        found = run_steps(SHIM, name, settings, dtype, 5)
        tolerance = max(TOLERANCES[dtype], LOOSE.get(name, 0))
        if settings.get("differentiable"):
            tolerance *= 10
        check_close(found[0], expected[0], tolerance, f"{name} {dtype} parameters")
        check_close(found[1], expected[1], tolerance, f"{name} {dtype} state")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"line_search_fn": "strong_wolfe"},
        {"lr": 0.1, "max_iter": 7, "history_size": 3},
        {"lr": 0.5, "max_iter": 3, "line_search_fn": "strong_wolfe", "history_size": 2},
        {"tolerance_grad": 0.5},
        {"tolerance_change": 1e-2, "lr": 0.2},
        {"max_eval": 3, "line_search_fn": "strong_wolfe"},
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
def test_lbfgs_walks_pytorchs_way(settings: dict[str, Any], dtype: str) -> None:
    def walk(library: ModuleType) -> Any:
        x, y = [
            library.from_numpy(a.copy()).requires_grad_() for a in arrays([(3,), (2, 2)], dtype, 3)
        ]
        optimizer = library.optim.LBFGS([x, y], **settings)
        losses = []

        def closure() -> Any:
            optimizer.zero_grad()
            a = x.abs() if dtype.startswith("complex") else x
            b = y.abs() if dtype.startswith("complex") else y
            rosenbrock = (1 - a[:-1]) ** 2 + 10 * (a[1:] - a[:-1] ** 2) ** 2
            loss = rosenbrock.sum() + ((b - 0.5) ** 4).sum() + (a[0] * b).sum() * 0.1
            loss.backward()
            losses.append(loss.item())
            return loss

        returned = [optimizer.step(closure).item() for _ in range(3)]
        state = optimizer.state_dict()["state"][0]
        return losses, returned, plain([x, y]), state["func_evals"], state["n_iter"], list(state)

    expected, found = walk(torch), walk(SHIM)
    # Rounding grows from step to step.
    tolerance, short = (1e-3, 8) if dtype == "float32" else (1e-6, 25)
    check_close(found[0][:short], expected[0][:short], tolerance, "losses")
    assert found[5] == expected[5]
    if dtype != "float32":
        assert found[3:5] == expected[3:5]
        check_close(found[1], expected[1], 1e-4, "returned")
        check_close(found[2], expected[2], 1e-4, "parameters")


def error_configurations() -> Iterator[Any]:
    for info in common.optim_db:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            several = info.optim_error_inputs_func(device="cpu", dtype=torch.float32)
        for k, error in enumerate(several):
            yield pytest.param(info.optim_cls.__name__, error, id=f"{info.optim_cls.__name__}-{k}")


@pytest.mark.parametrize(("name", "error"), list(error_configurations()))
def test_refusals_are_pytorchs(name: str, error: Any) -> None:
    given = error.optimizer_error_input
    if "sparse" in str(given.params):
        pytest.skip("sparse parameters do not exist here")
    params = ours([torch.ones(2)] if given.params is None else given.params, {})
    settings = converted(given.kwargs, SHIM)
    on_step = error.error_on is common.OptimizerErrorEnum.STEP_ERROR
    if issubclass(error.error_type, Warning):
        with pytest.warns(error.error_type, match=error.error_regex):
            getattr(SHIM.optim, name)(params, **settings)
        return
    with pytest.raises(error.error_type, match=error.error_regex):
        optimizer = getattr(SHIM.optim, name)(params, **settings)
        if on_step:
            for p in params:
                p.grad = SHIM.ones_like(p)
            optimizer.step()


def ours(value: Any, made: dict[int, Any]) -> Any:
    """Return parameters in groups, with the same identities, in the shim."""
    if isinstance(value, torch.Tensor):
        array = value.detach().numpy().copy()
        return made.setdefault(id(value), SHIM.nn.Parameter(SHIM.from_numpy(array)))
    if isinstance(value, (list, tuple, set)):
        return type(value)(ours(v, made) for v in value)
    return {k: ours(v, made) for k, v in value.items()} if isinstance(value, dict) else value


DIFFERENTIABLE: list[tuple[str, dict[str, Any]]] = [
    # PyTorch's Adamax, Rprop, centered RMSprop and amsgrad overwrite what a step saved; see
    # tests/torch/optim for ours.
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}),
    ("AdamW", {"lr": 0.1, "maximize": True}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"lr": 0.1, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.1}),
    ("Adadelta", {"lr": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.1, "momentum": 0.8}),
    ("ASGD", {"lr": 0.1, "weight_decay": 0.1, "t0": 0}),
]


@pytest.mark.parametrize("settings", DIFFERENTIABLE, ids=str)
def test_gradients_through_steps_are_pytorchs(settings: tuple[str, dict[str, Any]]) -> None:
    name, given = settings

    def unrolled(library: ModuleType) -> Any:
        x0, scale = [
            library.from_numpy(a).requires_grad_() for a in arrays([(4,), (4,)], "float64", 5)
        ]
        x = x0.clone()
        optimizer = getattr(library.optim, name)([x], differentiable=True, **given)
        for _ in range(7 if name == "RAdam" else 4):
            now = x.clone()
            loss = (scale * now.sin() + now**2).sum()
            (x.grad,) = library.autograd.grad(loss, now, create_graph=True)
            optimizer.step()
        first = library.autograd.grad((x**3).sum(), [x0, scale], create_graph=True)
        second = library.autograd.grad(
            sum((g**2).sum() for g in first), [x0, scale], allow_unused=True
        )
        return plain([x, *first, *second])

    # PyTorch computes 1 - beta ** step in float32 then: the last bit of the power shows.
    tolerance = 1e-5 if "Adam" in name else 1e-9
    check_close(unrolled(SHIM), unrolled(torch), tolerance, name)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_gradients_by_settings_are_pytorchs(name: str) -> None:
    def by_settings(library: ModuleType) -> Any:
        lr = library.tensor(0.1, dtype=library.float64, requires_grad=True)
        x0 = library.from_numpy(arrays([(4,)], "float64", 5)[0])
        x = x0.clone().requires_grad_().clone()
        settings: dict[str, Any] = {"lr": lr}
        several = [lr]
        if name != "SGD":
            betas = [
                library.tensor(b, dtype=library.float64, requires_grad=True) for b in (0.9, 0.99)
            ]
            settings["betas"] = tuple(betas)
            several += betas
        optimizer = getattr(library.optim, name)([x], differentiable=True, **settings)
        for _ in range(3):
            now = x.clone()
            (x.grad,) = library.autograd.grad((now.sin() + now**2).sum(), now)
            optimizer.step()
        return plain(list(library.autograd.grad((x**3).sum(), several)))

    check_close(by_settings(SHIM), by_settings(torch), 1e-5, name)


# -- schedules -------------------------------------------------------------------------------------

SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda k: 0.9**k),
    "LambdaLR several": lambda s, o: s.LambdaLR(o, [lambda k: 0.9**k, lambda k: 1 / (1 + k)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda k: 1 - 0.01 * k),
    "StepLR": lambda s, o: s.StepLR(o, 3, gamma=0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 5, 5, 9], gamma=0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, factor=0.3, total_iters=4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.2, 0.8, total_iters=6),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 7, power=0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, eta_min=0.01),
    "WarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=0.01),
    "WarmRestarts 1": lambda s, o: s.CosineAnnealingWarmRestarts(o, 4),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=3, step_size_down=2),
    "CyclicLR 2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], 0.1, 2, mode="triangular2"),
    "CyclicLR exp": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 2, mode="exp_range", gamma=0.9),
    "CyclicLR own": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 2, scale_fn=lambda x: 0.9**x),
    "CyclicLR fixed": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 2, cycle_momentum=False),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=15),
    "OneCycleLR linear": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.7], epochs=3, steps_per_epoch=5, anneal_strategy="linear", three_phase=True
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 2), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 8]
    ),
    "SequentialLR cosine": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=4), s.CosineAnnealingLR(o, 8)], [4]
    ),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]
    ),
}


def schedule_log(library: ModuleType, make: Callable[[Any, Any], Any], kind: str) -> list[Any]:
    p, q = [library.from_numpy(a).requires_grad_() for a in arrays([(2,), (3,)], "float64", 2)]
    groups: list[dict[str, Any]] = [{"params": [p]}, {"params": [q], "lr": 0.2}]
    lr: Any = library.tensor(0.05, dtype=library.float64) if "tensor" in kind else 0.05
    if "tensor" in kind:
        groups[1]["lr"] = library.tensor(0.2, dtype=library.float64)
    name = "Adam" if "Adam" in kind else "SGD"
    settings = {} if name == "Adam" else {"momentum": 0.9}
    optimizer = getattr(library.optim, name)(groups, lr=lr, **settings)
    schedules = library.optim.lr_scheduler
    schedule = make(schedules, optimizer)
    log: list[Any] = []
    for step in range(14):
        for x in (p, q):
            x.grad = x.detach().clone()
        optimizer.step()
        schedule.step()
        log.append(plain([[float(r) for r in schedule.get_last_lr()]]))
        for group in optimizer.param_groups:
            log.append({k: plain(v) for k, v in group.items() if k != "params"})
        if step == 6 and "load" in kind:
            state = copy.deepcopy(schedule.state_dict())
            log.append(sorted(state))
            saved = optimizer.state_dict()
            schedule = make(schedules, optimizer)
            optimizer.load_state_dict(saved)
            schedule.load_state_dict(state)
    log.append(plain([p, q]))
    state = schedule.state_dict()
    log.append(sorted(state))
    return log


@pytest.mark.parametrize("kind", ["SGD", "Adam load", "SGD tensor"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_are_pytorchs(name: str, kind: str) -> None:
    with warnings.catch_warnings(record=True) as ours:
        warnings.simplefilter("always")
        try:
            found: Any = schedule_log(SHIM, SCHEDULES[name], kind)
        except (RuntimeError, ValueError, TypeError) as error:
            found = type(error)
    with warnings.catch_warnings(record=True) as theirs:
        warnings.simplefilter("always")
        try:
            expected: Any = schedule_log(torch, SCHEDULES[name], kind)
        except (RuntimeError, ValueError, TypeError) as error:
            expected = type(error)
    if isinstance(expected, type):
        assert found is expected
    else:
        assert not isinstance(found, type)
        check_close(found, expected, 1e-14, name)
    assert [str(w.message) for w in ours] == [str(w.message) for w in theirs]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"patience": 2, "factor": 0.5},
        {"mode": "max", "patience": 1},
        {"patience": 0, "threshold_mode": "abs", "threshold": 0.1, "cooldown": 2},
        {"patience": 0, "min_lr": [0.04, 0.1]},
        {"mode": "max", "threshold_mode": "abs", "patience": 1, "eps": 0.01},
    ],
)
def test_plateaus_are_pytorchs(settings: dict[str, Any]) -> None:
    def log(library: ModuleType) -> Any:
        params = [library.ones(2), library.ones(3)]
        groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.2}]
        optimizer = library.optim.SGD(groups, lr=0.05)
        schedule = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **settings)
        found = []
        rng = np.random.default_rng(0)
        for k in range(40):
            schedule.step(library.tensor(1 / (1 + k) + 0.1 * rng.random()))
            found.append([*schedule.get_last_lr(), schedule.best, schedule.num_bad_epochs])
        return found, sorted(schedule.state_dict())

    assert log(SHIM) == log(torch)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCHEDULES)
def test_closed_forms_are_pytorchs(name: str) -> None:
    def log(library: ModuleType) -> Any:
        groups = [{"params": [library.ones(2)]}, {"params": [library.ones(3)], "lr": 0.2}]
        optimizer = library.optim.SGD(groups, lr=0.05, momentum=0.9)
        schedule = SCHEDULES[name](library.optim.lr_scheduler, optimizer)
        found = []
        for epoch in (3, 1, 7, 7, 0, 12):
            schedule.step(epoch)
            found.append(schedule.get_last_lr())
        schedule.get_lr()
        return found

    try:
        expected = log(torch)
    except TypeError:
        with pytest.raises(TypeError):
            log(SHIM)
        return
    check_close(plain(log(SHIM)), plain(expected), 1e-14, name)


# -- the optimizer itself --------------------------------------------------------------------------


def attempts(library: ModuleType) -> list[Any]:
    """Return what uses and misuses of optimizers give: values, warnings and errors."""
    made: list[Any] = []

    def attempt(function: Callable[[], Any]) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result = function()
            except Exception as error:
                text = re.sub(r"<function.*?>|0x[0-9a-f]+", "", str(error))
                result = type(error).__name__, text.replace("functrace.", "")
        made.append((result, [str(w.message) for w in caught]))

    optim, nn = library.optim, library.nn
    base = importlib.import_module(f"{optim.__name__}.optimizer")
    x = library.ones(2, requires_grad=True)
    y = library.ones(3, requires_grad=True)
    attempt(lambda: optim.SGD(x, lr=0.1))
    attempt(lambda: optim.SGD([], lr=0.1))
    attempt(lambda: optim.SGD([1], lr=0.1))
    attempt(lambda: optim.SGD(["x"], lr=0.1))
    attempt(lambda: optim.SGD([x * 2], lr=0.1))
    attempt(lambda: optim.SGD([{"params": {x, y}}], lr=0.1))
    attempt(lambda: optim.SGD([("x", x), y], lr=0.1))
    attempt(lambda: optim.SGD([x, x], lr=0.1).param_groups[0]["lr"])
    attempt(lambda: optim.SGD([{"params": x}, {"params": [x, y]}], lr=0.1))
    attempt(lambda: optim.SGD([{"params": x}, {"params": [("y", y)]}], lr=0.1))
    attempt(lambda: optim.SGD([{"params": [("x", x)]}, {"params": [y]}], lr=0.1))
    attempt(lambda: optim.SGD([{"params": x}, [y]], lr=0.1))
    attempt(lambda: repr(optim.SGD([{"params": x}, {"params": y, "lr": 0.5}], lr=0.1)))
    attempt(lambda: repr(optim.Adam([x])))
    attempt(lambda: repr(optim.AdamW([("x", x)], amsgrad=True)))
    attempt(lambda: repr(optim.LBFGS([x])))
    attempt(lambda: repr(optim.Adafactor([x])))
    attempt(lambda: repr(optim.Rprop([x], lr=library.tensor(0.5))))
    attempt(lambda: optim.LBFGS([{"params": x}, {"params": y}]))
    attempt(lambda: optim.Optimizer([x], {}).step())
    attempt(lambda: optim.Optimizer([{"params": x}], {"a": base.required}))
    attempt(lambda: repr(base.required))
    attempt(lambda: optim.SGD([x]).param_groups[0]["lr"])
    attempt(lambda: optim.Muon([nn.Parameter(library.ones(2))]))
    attempt(lambda: optim.SparseAdam([library.ones(2, dtype=library.complex64)]))
    attempt(lambda: optim.SGD([x]).load_state_dict(optim.SGD([x, y]).state_dict()))
    attempt(
        lambda: optim.SGD([x]).load_state_dict(
            optim.SGD([{"params": x}, {"params": y}]).state_dict()
        )
    )
    attempt(lambda: optim.lr_scheduler.StepLR(3, 1))
    attempt(lambda: optim.lr_scheduler.StepLR(optim.SGD([x]), 1, last_epoch=2))
    attempt(lambda: optim.lr_scheduler.StepLR(optim.SGD([x]), 1).step())
    attempt(lambda: optim.lr_scheduler.StepLR(optim.SGD([x]), 1).get_lr())
    attempt(lambda: optim.lr_scheduler.LambdaLR(optim.SGD([x]), [abs, abs]))
    attempt(lambda: optim.lr_scheduler.MultiplicativeLR(optim.SGD([x]), 3))
    attempt(lambda: optim.lr_scheduler.SequentialLR(optim.SGD([x]), [], []))
    attempt(lambda: optim.lr_scheduler.ChainedScheduler([]))
    attempt(lambda: optim.lr_scheduler.ChainedScheduler([3]))
    attempt(lambda: optim.lr_scheduler.ConstantLR(optim.SGD([x]), 2))
    attempt(lambda: optim.lr_scheduler.LinearLR(optim.SGD([x]), 0))
    attempt(lambda: optim.lr_scheduler.LinearLR(optim.SGD([x]), 0.5, 2))
    attempt(lambda: optim.lr_scheduler.CyclicLR(optim.Rprop([x]), 0.1, 0.2))
    attempt(lambda: optim.lr_scheduler.CyclicLR(optim.SGD([x]), 0.1, 0.2, mode="a"))
    attempt(lambda: optim.lr_scheduler.CyclicLR(optim.SGD([x]), [0.1, 0.2], 0.2))
    attempt(lambda: optim.lr_scheduler.OneCycleLR(optim.SGD([x]), 0.1))
    attempt(lambda: optim.lr_scheduler.OneCycleLR(optim.SGD([x]), 0.1, total_steps=-1))
    attempt(lambda: optim.lr_scheduler.OneCycleLR(optim.SGD([x]), 0.1, 5, pct_start=2.0))
    attempt(lambda: optim.lr_scheduler.OneCycleLR(optim.SGD([x]), 0.1, 5, anneal_strategy="a"))
    attempt(lambda: optim.lr_scheduler.CosineAnnealingWarmRestarts(optim.SGD([x]), 0))
    attempt(lambda: optim.lr_scheduler.CosineAnnealingWarmRestarts(optim.SGD([x]), 1, 0.5))
    attempt(lambda: optim.lr_scheduler.ReduceLROnPlateau(optim.SGD([x]), factor=1.0))
    attempt(lambda: optim.lr_scheduler.ReduceLROnPlateau(optim.SGD([x]), "a"))
    attempt(lambda: optim.lr_scheduler.ReduceLROnPlateau(optim.SGD([x]), min_lr=[1, 2]))
    attempt(lambda: optim.swa_utils.get_ema_avg_fn(2))
    attempt(lambda: optim.swa_utils.SWALR(optim.SGD([x]), 0.1, anneal_strategy="a"))
    attempt(lambda: optim.swa_utils.SWALR(optim.SGD([x]), 0.1, anneal_epochs=-1))

    def overridden() -> None:
        optimizer = optim.SGD([x], lr=0.1)
        schedule = optim.lr_scheduler.StepLR(optimizer, 1)
        optimizer.step = lambda: None
        schedule.step()

    attempt(overridden)

    def hooks() -> Any:
        log: list[Any] = []
        optimizer = optim.SGD([x], lr=0.1)
        optimizer.register_step_pre_hook(lambda o, a, k: log.append(("pre", a[1:], k)))
        last = optimizer.register_step_post_hook(lambda o, a, k: log.append(("post", a[1:], k)))
        first = base.register_optimizer_step_pre_hook(lambda *a: log.append("all"))
        after = base.register_optimizer_step_post_hook(lambda *a: log.append("end"))
        optimizer.register_state_dict_pre_hook(lambda o: log.append("saving"))
        optimizer.register_state_dict_pre_hook(lambda o: log.append("first"), prepend=True)
        optimizer.register_state_dict_post_hook(lambda o, s: {**s, "extra": 1})
        optimizer.register_load_state_dict_pre_hook(lambda o, s: log.append(sorted(s)))
        optimizer.register_load_state_dict_post_hook(lambda o: log.append("loaded"))
        optimizer.step()
        optimizer.step(closure=lambda: log.append(library.is_grad_enabled()))
        for handle in (last, first, after):
            handle.remove()
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
        return [str(line) if not isinstance(line, tuple) else line[:2] for line in log]

    attempt(hooks)

    def bad_hook() -> None:
        optimizer = optim.SGD([x], lr=0.1)
        optimizer.register_step_pre_hook(lambda o, a, k: 3)
        optimizer.step()

    attempt(bad_hook)

    def versions() -> Any:
        found = []
        for name in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "ASGD", "Rprop", "RMSprop"):
            p = library.ones(3, requires_grad=True)
            p.grad = library.ones(3)
            getattr(optim, name)([p]).step()
            found.append(p._version)
        return found

    attempt(versions)

    def stale() -> None:
        p = library.ones(2, requires_grad=True)
        loss = (p * p).sum()
        loss.backward(retain_graph=True)
        optim.SGD([p], lr=0.1).step()
        loss.backward()

    attempt(stale)

    def zeroed() -> Any:
        p = library.ones(2, requires_grad=True)
        optimizer = optim.SGD([p], lr=0.1)
        (g,) = library.autograd.grad((p**3).sum(), p, create_graph=True)
        p.grad = g
        optimizer.zero_grad(set_to_none=False)
        state = p.grad.requires_grad, p.grad.tolist()
        optimizer.zero_grad()
        return state, p.grad

    attempt(zeroed)

    def casting() -> Any:
        p = library.ones(2, dtype=library.float64, requires_grad=True)
        q = library.ones(2, requires_grad=True)
        p.grad, q.grad = library.ones(2, dtype=library.float64), library.ones(2)
        one, two = optim.Adam([p]), optim.Adam([q])
        one.step()
        two.load_state_dict(one.state_dict())
        state = two.state[q]
        return {k: str(v.dtype) for k, v in state.items()}, state["exp_avg"].tolist()

    attempt(casting)

    def older() -> Any:
        p = library.ones(2, requires_grad=True)
        p.grad = library.ones(2)
        optimizer = optim.Adam([p])
        optimizer.step()
        state = optimizer.state_dict()
        state["state"][0]["step"] = 5
        del state["param_groups"][0]["amsgrad"]
        optimizer.load_state_dict(state)
        optimizer.step()
        return plain(optimizer.state_dict())["state"][0]["step"].item(), p.tolist()

    attempt(older)

    def named() -> Any:
        optimizer = optim.SGD([("x", x), ("y", y)], lr=0.1)
        other = optim.SGD([("a", x), ("b", y)], lr=0.1)
        other.load_state_dict(optimizer.state_dict())
        state = other.state_dict()
        del state["param_groups"][0]["param_names"]
        optimizer.load_state_dict(state)
        return other.param_groups[0]["param_names"], optimizer.state_dict()

    attempt(named)

    def empty_state() -> Any:
        p = library.ones(2, requires_grad=True)
        p.grad = library.ones(2)
        optimizer = optim.SGD([p], lr=0.1)
        optimizer.step()
        return optimizer.state_dict()

    attempt(empty_state)

    def pickled() -> Any:
        p = nn.Parameter(library.ones(2))
        p.grad = library.ones(2)
        optimizer = optim.Adam([p], lr=0.1)
        optimizer.step()
        again = pickle.loads(pickle.dumps(optimizer))
        twin = copy.deepcopy(optimizer)
        found = []
        for o in (again, twin):
            (mine,) = o.param_groups[0]["params"]
            mine.grad = library.ones(2)
            o.step()
            found.append(
                (mine.tolist(), list(o.state[mine]), mine is p, o.state[mine]["step"].item())
            )
        return found, p.tolist(), sorted(vars(again))

    attempt(pickled)
    return made


def test_uses_and_misuses_are_pytorchs() -> None:
    for k, (found, expected) in enumerate(zip(attempts(SHIM), attempts(torch), strict=True)):
        assert found == expected, k


def test_a_network_trains_like_pytorchs() -> None:
    def trained(library: ModuleType, name: str) -> Any:
        rng = np.random.default_rng(0)
        weights = [
            library.from_numpy(rng.normal(size=s) * 0.3).requires_grad_()
            for s in ((8, 16), (16,), (16, 3), (3,))
        ]
        x, target = library.from_numpy(rng.normal(size=(20, 8))), rng.integers(0, 3, 20)
        y = library.from_numpy(target)
        optimizer = getattr(library.optim, name)(weights, lr=0.01)
        losses = []
        for _ in range(12):
            a, b, c, d = weights
            optimizer.zero_grad()
            loss = library.nn.functional.cross_entropy((x @ a + b).tanh() @ c + d, y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    for name in ("SGD", "Adam", "RMSprop", "Adagrad", "NAdam", "RAdam", "Adamax", "Adadelta"):
        np.testing.assert_allclose(trained(SHIM, name), trained(torch, name), rtol=1e-9)


# -- random programs -------------------------------------------------------------------------------

BOTH = (False, True)
CHOICES: dict[str, dict[str, tuple[Any, ...]]] = {
    "SGD": {"momentum": (0, 0.9), "dampening": (0, 0.3), "weight_decay": (0, 0.1), "maximize": BOTH},
    "Adam": {
        "betas": ((0.9, 0.999), (0.3, 0.6), (0.0, 0.5)), "eps": (1e-8, 0.1), "maximize": BOTH,
        "weight_decay": (0, 0.1), "amsgrad": BOTH, "decoupled_weight_decay": BOTH,
    },
    "Adamax": {"betas": ((0.9, 0.999), (0.3, 0.6)), "weight_decay": (0, 0.1), "maximize": BOTH},
    "NAdam": {
        "betas": ((0.9, 0.999), (0.3, 0.6)), "weight_decay": (0, 0.1), "momentum_decay": (0, 0.1),
        "decoupled_weight_decay": BOTH, "maximize": BOTH,
    },
    "RAdam": {
        "betas": ((0.9, 0.999), (0.3, 0.6), (0.9, 0.9)), "weight_decay": (0, 0.1),
        "decoupled_weight_decay": BOTH, "maximize": BOTH,
    },
    "Adagrad": {
        "lr_decay": (0, 0.1), "weight_decay": (0, 0.1), "eps": (1e-10, 0.1), "maximize": BOTH,
        "initial_accumulator_value": (0, 0.5),
    },
    "Adadelta": {"rho": (0.9, 0.2), "weight_decay": (0, 0.1), "maximize": BOTH},
    "RMSprop": {
        "alpha": (0.99, 0.3), "momentum": (0, 0.5), "centered": BOTH, "weight_decay": (0, 0.1),
        "eps": (1e-8, 0.01), "maximize": BOTH,
    },
    "Rprop": {
        "etas": ((0.5, 1.2), (0.9, 1.01)), "step_sizes": ((1e-6, 50), (0.01, 0.02)),
        "maximize": BOTH,
    },
    "ASGD": {
        "lambd": (1e-4, 0.1), "alpha": (0.75, 0.1), "t0": (1e6, 0, 3), "weight_decay": (0, 0.1),
        "maximize": BOTH,
    },
    "Adafactor": {
        "beta2_decay": (-0.8, -0.3), "eps": ((None, 1e-3), (1e-5, 0.1)), "d": (1.0, 2.0),
        "weight_decay": (0, 0.1), "maximize": BOTH,
    },
}  # fmt: skip
DECAYS: list[Callable[[Any, Any], Any]] = [
    lambda s, o: s.StepLR(o, 2, 0.5),
    lambda s, o: s.CosineAnnealingLR(o, 4, 0.01),
    lambda s, o: s.ExponentialLR(o, 0.8),
    lambda s, o: s.LinearLR(o, 0.3, total_iters=3),
    lambda s, o: s.CosineAnnealingWarmRestarts(o, 2, 2),
    lambda s, o: s.PolynomialLR(o, 6, 2.0),
]


class Program:
    """A random training program: tensors in several memory orders, groups, a schedule, state that
    is loaded, settings that change.
    """

    def __init__(self, library: ModuleType, seed: int) -> None:
        self.library = library
        self.choices = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.name = self.choices.choice(list(CHOICES))
        self.is_complex = self.name != "Adafactor" and self.choices.random() < 0.3

    def array(self, shape: tuple[int, ...]) -> Any:
        made = self.numbers.normal(size=shape)
        if self.is_complex:
            made = made + 1j * self.numbers.normal(size=shape)
        return self.library.from_numpy(np.asarray(made))

    def tensor(self, shape: tuple[int, ...]) -> Any:
        order = self.choices.choice("ctvs")
        if order == "t" and len(shape) == 2:
            return self.array(shape[::-1]).t()
        if order == "v":
            return self.array((2, *shape))[1]
        if order == "s" and shape:
            return self.array((*shape[:-1], 2 * shape[-1]))[..., ::2]
        return self.array(shape)

    def rate(self, value: float) -> Any:
        kind = self.choices.choice(("float64", "float32"))
        if self.choices.random() < 0.7 or (self.name == "Rprop" and self.is_complex):
            return value
        return self.library.tensor(value, dtype=getattr(self.library, kind))

    def run(self) -> tuple[Any, Any]:
        choices, library = self.choices, self.library
        settings: dict[str, Any] = {k: choices.choice(v) for k, v in CHOICES[self.name].items()}
        if self.name == "SGD" and settings["momentum"] and not settings["dampening"]:
            settings["nesterov"] = choices.random() < 0.5
        several = [(), (3,), (2, 3), (4, 1, 2), (1,), (5, 4)]
        shapes = [choices.choice(several) for _ in range(choices.randint(1, 4))]
        params = [self.tensor(shape).detach().requires_grad_() for shape in shapes]
        groups: Any = params
        if len(params) > 1 and choices.random() < 0.5:
            groups = [{"params": params[:1]}, {"params": params[1:], "lr": self.rate(0.2)}]
        rate = self.rate(choices.choice((0.1, 0.01, 0.5)))
        optimizer = getattr(library.optim, self.name)(groups, lr=rate, **settings)
        schedule = None
        if choices.random() < 0.6:
            schedule = choices.choice(DECAYS)(library.optim.lr_scheduler, optimizer)
        log: list[Any] = [[self.name, str(settings)]]
        for _ in range(7):
            for p, shape in zip(params, shapes, strict=True):
                grad = self.tensor(shape).detach()
                p.grad = None if choices.random() < 0.1 else grad
            optimizer.step()
            if schedule is not None:
                schedule.step()
                log.append([float(x) for x in schedule.get_last_lr()])
            if choices.random() < 0.15:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            if choices.random() < 0.1:
                for group in optimizer.param_groups:
                    group["weight_decay"] = 0.05
            log.append([x.copy() for x in plain(params)])
        return log, plain(optimizer.state_dict()["state"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(80))
def test_random_programs_train_like_pytorchs(seed: int) -> None:
    expected, found = Program(torch, seed).run(), Program(SHIM, seed).run()
    check_close(found[0], expected[0], 1e-9, f"parameters of {expected[0][0]}")
    check_close(found[1], expected[1], 1e-9, f"state of {expected[0][0]}")


def test_steps_in_backward_are_pytorchs() -> None:
    def trained(library: ModuleType) -> Any:
        params = [
            library.from_numpy(a.copy()).requires_grad_()
            for a in arrays([(3,), (3,)], "float64", 4)
        ]
        optimizers = {p: library.optim.Adam([p], lr=0.1) for p in params}
        log = []

        def stepped(p: Any) -> None:
            optimizers[p].step()
            optimizers[p].zero_grad()
            log.append(p.tolist())

        for p in params:
            p.register_post_accumulate_grad_hook(stepped)
        for _ in range(4):
            ((params[0] * 2).sin() + params[1] ** 2).sum().backward()
        return plain(params), log, [p.grad for p in params]

    check_close(plain(trained(SHIM)), plain(trained(torch)), 1e-12, "parameters")


@pytest.mark.parametrize("kind", ["mean", "ema", "own mean", "buffers"])
def test_averaged_models_are_pytorchs(kind: str) -> None:
    def averaged(library: ModuleType) -> Any:
        nn, utils = library.nn, library.optim.swa_utils
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double()
        with library.no_grad():
            for p, a in zip(
                model.parameters(),
                arrays([p.shape for p in model.parameters()], "float64", 0),
                strict=True,
            ):
                p.copy_(library.from_numpy(a))
        given: dict[str, Any] = {
            "mean": {},
            "ema": {"multi_avg_fn": utils.get_ema_multi_avg_fn(0.9)},
            "own mean": {"avg_fn": lambda a, p, n: a + (p - a) / (n + 2)},
            "buffers": {"use_buffers": True},
        }[kind]
        twin = utils.AveragedModel(model, **given)
        optimizer = library.optim.SGD(model.parameters(), lr=0.1)
        schedule = utils.SWALR(optimizer, 0.05, anneal_epochs=3)
        data = [library.from_numpy(a) for a in arrays([(8, 3)] * 4, "float64", 1)]
        for x in data:
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
            schedule.step()
            twin.update_parameters(model)
        before = {k: plain(v).copy() for k, v in twin.state_dict().items()}
        utils.update_bn(data, twin)
        return before, plain(dict(twin.state_dict())), schedule.get_last_lr()

    check_close(plain(averaged(SHIM)), plain(averaged(torch)), 1e-10, kind)


FUNCTIONS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "sgd": (("none",), {"momentum": 0.9, "dampening": 0.1, "nesterov": False}),
    "adam": (("zero", "zero", "zero", "step"), {"beta1": 0.9, "beta2": 0.99, "amsgrad": True}),
    "adamw": (("zero", "zero", "empty", "step"), {"beta1": 0.9, "beta2": 0.99, "amsgrad": False}),
    "adamax": (("zero", "zero", "step"), {"beta1": 0.9, "beta2": 0.99}),
    "nadam": (
        ("zero", "zero", "one", "step"),
        {"beta1": 0.9, "beta2": 0.99, "momentum_decay": 0.1},
    ),
    "radam": (("zero", "zero", "step"), {"beta1": 0.9, "beta2": 0.99}),
    "adagrad": (("zero", "step"), {"lr_decay": 0.1}),
    "adadelta": (("zero", "zero", "step"), {"rho": 0.9}),
    "rmsprop": (("zero", "zero", "empty", "step"), {"alpha": 0.9, "momentum": 0, "centered": True}),
    "rprop": (
        ("zero", "tenth", "step"),
        {"etaminus": 0.5, "etaplus": 1.2, "step_size_min": 1e-6, "step_size_max": 50},
    ),
    "asgd": (("zero", "one", "eta", "step"), {"lambd": 0.1, "alpha": 0.75, "t0": 1.0}),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_beside_optimizers_are_pytorchs(name: str) -> None:
    def stepped(library: ModuleType) -> Any:
        kinds, settings = FUNCTIONS[name]
        settings = {"lr": 0.1, "weight_decay": 0.01, "eps": 1e-8, "maximize": False} | settings
        for key, without in (("eps", ("sgd", "rprop", "asgd")), ("lr", ("rprop",))):
            if name in without:
                del settings[key]
        if name == "rprop":
            del settings["weight_decay"]
        params = [library.from_numpy(a) for a in arrays([(3,), (2, 2)], "float64", 1)]
        made: dict[str, Callable[[Any], Any]] = {
            "none": lambda p: None,
            "zero": library.zeros_like,
            "tenth": lambda p: library.full_like(p, 0.1),
            "one": lambda p: library.tensor(1.0),
            "eta": lambda p: library.tensor(0.1),
            "step": lambda p: library.tensor(0.0),
        }
        lists = [[made[kind](p) for p in params] if kind != "empty" else [] for kind in kinds]
        function = getattr(importlib.import_module(f"{library.__name__}.optim.{name}"), name)
        for step in range(4):
            grads = [library.from_numpy(a) for a in arrays([(3,), (2, 2)], "float64", 10 + step)]
            function(params, grads, *lists, **settings)
        return plain([params, *lists])

    check_close(stepped(SHIM), stepped(torch), 1e-12, name)
