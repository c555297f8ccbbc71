"""The engine: gradients of graphs of any form, threads, ``inputs``. (Order and errors: the parity
scripts.)
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace.torch as torch
from tests.sampling import examples


@examples(60)
@given(st.data())
def test_gradients_of_random_graphs(data: st.DataObject) -> None:
    """A graph of random sums and products, against differences in plain NumPy."""
    steps = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["add", "mul", "sin", "sub"]),
                st.integers(0, 50),
                st.integers(0, 50),
            ),
            max_size=12,
        )
    )

    def build(first: Any, second: Any, sin: Any) -> Any:
        values = [first, second]
        for name, i, j in steps:
            x, y = values[i % len(values)], values[j % len(values)]
            if name == "sin":
                values.append(sin(x))
            else:
                values.append(x + y if name == "add" else x - y if name == "sub" else x * y * 0.5)
        return values[-1] * values[len(values) // 2] + values[0]

    a, b = np.array([0.3, -0.8]), np.array([0.9, 0.4])
    x, y = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
    found = torch.autograd.grad(
        build(x, y, torch.sin).sum(), [x, y], allow_unused=True, materialize_grads=True
    )
    for k, g in enumerate(found):
        assert g is not None
        for i in range(2):
            ends = []
            for sign in (1, -1):
                moved = [a.copy(), b.copy()]
                moved[k][i] += sign * 1e-6
                ends.append(build(moved[0], moved[1], np.sin).sum())
            assert g[i].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-6)


def test_backward_adds_up_over_threads() -> None:
    leaves = [torch.ones(3, requires_grad=True) for _ in range(4)]
    failures: list[BaseException] = []

    def work(x: Any) -> None:
        try:
            assert torch.is_grad_enabled()
            with torch.no_grad():
                for _ in range(20):
                    with torch.enable_grad():
                        (x * x).sum().backward()
        except BaseException as error:
            failures.append(error)

    with torch.no_grad():
        threads = [threading.Thread(target=work, args=(x,)) for x in leaves]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures
    for x in leaves:
        assert x.grad is not None and x.grad.tolist() == [40.0] * 3


def test_inputs_runs_only_nodes_on_the_path() -> None:
    ran = []
    a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    x, y = a * 2, b * 3
    x.grad_fn.register_hook(lambda *_: ran.append("x"))
    y.grad_fn.register_hook(lambda *_: ran.append("y"))
    (x * y).sum().backward(inputs=[a])
    assert ran == ["x"] and b.grad is None and a.grad.tolist() == [6.0, 6.0]


def test_third_derivative() -> None:
    x = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    y = torch.sin(x) * x.exp()
    for _ in range(3):
        (y,) = torch.autograd.grad(y, x, create_graph=True)
    # (e^x sin x)''' = 2 e^x (cos x - sin x)
    assert y.item() == pytest.approx(2 * np.exp(0.7) * (np.cos(0.7) - np.sin(0.7)), rel=1e-12)


def test_no_warnings_where_pytorch_is_silent() -> None:
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    y = x.sqrt() + x.log() + 1 / x + x.mul(1000).exp() ** 2
    y.sum().backward()
    assert not np.isfinite(x.grad.numpy()).any()


def test_same_engine_under_no_grad() -> None:
    x = torch.ones(2, requires_grad=True)
    y = (x * 3).sum()
    with torch.no_grad():
        y.backward()
        assert not torch.is_grad_enabled()
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]


def test_linear_regression_learns() -> None:
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(64, 3))
    weights = np.array([[1.0, -2.0, 0.5]])
    targets = inputs @ weights.T + 0.25
    w = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    b = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    for _ in range(200):
        loss = torch.nn.functional.mse_loss(
            torch.nn.functional.linear(torch.tensor(inputs), w, b), torch.tensor(targets)
        )
        loss.backward()
        with torch.no_grad():
            for p in (w, b):
                p -= 0.2 * p.grad
                p.grad.zero_()
    np.testing.assert_allclose(w.detach().numpy(), weights, atol=1e-6)
    assert b.item() == pytest.approx(0.25, abs=1e-6)
