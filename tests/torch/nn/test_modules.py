"""Modules without PyTorch: training, transforms of functrace over `functional_call`, known numbers
of seeded layers, copies.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest

import functrace
import functrace.torch as torch

nn: Any = torch.nn


def perceptron() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def test_seeded_layers_have_pytorchs_parameters() -> None:
    torch.manual_seed(0)  # the numbers are those of PyTorch 2.13.0
    layer = nn.Linear(2, 3)
    expected = [[-0.0053, 0.3793], [-0.5820, -0.5204], [-0.2723, 0.1896]]
    assert np.allclose(layer.weight.detach().numpy(), expected, atol=5e-5)
    assert np.allclose(layer.bias.detach().numpy(), [-0.0140, 0.5607, -0.0628], atol=5e-5)


def test_training_lowers_the_loss() -> None:
    model = perceptron()
    rng = np.random.default_rng(1)
    x = torch.from_numpy(rng.normal(size=(64, 3)).astype(np.float32))
    y = x.sum(1, keepdim=True).sin()
    losses = []
    for _ in range(200):
        loss = nn.functional.mse_loss(model(x), y)
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.sub_(0.2 * parameter.grad)
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def state_of(model: Any, kind: str) -> dict[str, Any]:
    state = {name: p.detach() for name, p in model.named_parameters()}
    return state if kind == "tensors" else {name: p.numpy() for name, p in state.items()}


@pytest.mark.parametrize("of_state", ["tensors", "arrays"])
@pytest.mark.parametrize("of_input", ["tensors", "arrays"])
def test_gradients_per_sample_by_transforms_of_functrace(of_state: str, of_input: str) -> None:
    model = perceptron()
    x = np.random.default_rng(2).normal(size=(5, 3)).astype(np.float32)

    def loss(state: Any, row: Any) -> Any:
        return torch.func.functional_call(model, state, (row,)).sum()

    given = torch.from_numpy(x) if of_input == "tensors" else x
    found: Any = functrace.vmap(functrace.grad(loss), in_axes=(None, 0))(
        state_of(model, of_state), given
    )
    for k in range(5):
        model.zero_grad()
        model(torch.from_numpy(x[k])).sum().backward()
        for name, parameter in model.named_parameters():
            assert np.allclose(np.asarray(found[name][k]), parameter.grad.numpy(), atol=1e-6)


def test_a_jitted_functional_call_is_the_call() -> None:
    model = perceptron()
    x = np.random.default_rng(3).normal(size=(5, 3)).astype(np.float32)
    run = functrace.jit(lambda state, x: torch.func.functional_call(model, state, (x,)))
    found = run(state_of(model, "arrays"), x)
    assert np.allclose(found, model(torch.from_numpy(x)).detach().numpy(), atol=1e-6)


def test_parameters_are_restored_after_a_functional_call_under_a_transform() -> None:
    model = perceptron()
    before = dict(model.named_parameters())
    with pytest.raises(functrace.errors.FunctraceError):
        functrace.grad(
            lambda state: float(torch.func.functional_call(model, state, (torch.ones(3),)))
        )(state_of(model, "arrays"))
    assert all(p is before[name] for name, p in model.named_parameters())
    assert all(type(p._array) is np.ndarray for p in model.parameters())


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_is_trained_apart(copied: Any) -> None:
    model = perceptron()
    other = copied(model)
    with torch.no_grad():
        other[0].weight.zero_()
    assert not bool((model[0].weight == 0).any())
    other(torch.ones(1, 3)).sum().backward()
    assert model[0].weight.grad is None
    assert other[0].weight.grad is not None


def test_a_lazy_model_gets_its_shapes_at_the_first_call_or_from_a_state() -> None:
    def made() -> Any:
        return nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.Linear(4, 1))

    model, other = made(), made()
    with pytest.raises(RuntimeError, match="uninitialized"):
        _ = model[0].weight.shape
    model.double()(torch.ones(2, 3).double())
    assert type(model[0]) is nn.Linear and type(model[1]) is nn.BatchNorm1d
    assert model[0].weight.dtype == model[1].running_mean.dtype == torch.float64
    other.load_state_dict(model.state_dict())
    assert tuple(other[0].weight.shape) == (4, 3)


def test_a_state_of_a_parallel_module_loses_its_prefix() -> None:
    model = perceptron()
    state = nn.DataParallel(model).state_dict()
    assert all(name.startswith("module.") for name in state)
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == list(model.state_dict())
    assert repr(model.load_state_dict(state)) == "<All keys matched successfully>"


def test_rows_of_a_padded_batch_are_those_of_its_sequences() -> None:
    torch.manual_seed(1)
    layer = nn.GRU(2, 3, bidirectional=True)
    given = [torch.randn(n, 2) for n in (2, 4, 1)]
    packed = nn.utils.rnn.pack_sequence(given, enforce_sorted=False)
    output, last = layer(packed)
    for k, (found, x) in enumerate(zip(nn.utils.rnn.unpack_sequence(output), given, strict=True)):
        alone, state = layer(x)
        assert torch.allclose(found, alone, atol=1e-6)
        assert torch.allclose(last[:, k], state, atol=1e-6)


def test_an_orthogonal_weight_stays_orthogonal() -> None:
    for shape in ((4, 4), (5, 3), (3, 5)):
        layer = nn.utils.parametrizations.orthogonal(nn.Linear(*shape))
        layer(torch.ones(2, shape[0])).pow(2).sum().backward()
        original = layer.parametrizations.weight.original
        with torch.no_grad():
            original.sub_(0.1 * original.grad)
        weight = layer.weight.detach().numpy().astype(np.float64)
        product = weight @ weight.T if shape[0] > shape[1] else weight.T @ weight
        assert np.allclose(product, np.eye(len(product)), atol=1e-5)
        assigned = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
        target = torch.from_numpy(assigned[: shape[1], : shape[0]].astype(np.float32))
        if shape == (4, 4):
            continue
        if np.allclose(target.numpy() @ target.numpy().T, np.eye(len(target)), atol=1e-5):
            layer.weight = target
            assert torch.allclose(layer.weight, target, atol=1e-5)


def test_a_functional_call_is_quiet() -> None:
    model = perceptron()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = {name: p * 2 for name, p in model.named_parameters()}
        found = torch.func.functional_call(model, state, torch.ones(1, 3))
    assert found.requires_grad and not torch.equal(found, model(torch.ones(1, 3)))


def test_modules_in_front_of_an_inserted_one_keep_their_names() -> None:
    model = nn.Sequential()
    model.add_module("first", nn.ReLU())
    model.append(nn.Tanh())
    model.insert(1, nn.ELU())
    assert [(name, type(m).__name__) for name, m in model.named_children()] == [
        ("first", "ReLU"), ("1", "ELU"), ("2", "Tanh"),
    ]  # fmt: skip
    with pytest.raises(KeyError):
        model.insert(0, nn.ELU())
