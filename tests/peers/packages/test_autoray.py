"""autoray with functrace as a backend: contractions of cotengra, quimb's networks and circuits, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.peers.packages.rows import Row, failures

pytest.importorskip("autoray")
cotengra = pytest.importorskip("cotengra")
pytestmark = pytest.mark.filterwarnings("ignore")  # of optional packages that quimb and cotengra look for

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(3, 3))
ANGLES = np.array([0.4, 1.1, -0.7])
SITES = np.array([0.9, 1.2, 0.7, 1.4])


def _trace_of_cube(x: Any) -> Any:
    return cotengra.array_contract([x, x, x], [("a", "b"), ("b", "c"), ("c", "a")], ())


def _state(x: Any) -> Any:
    import quimb.tensor as qtn

    state = qtn.MPS_rand_state(4, 3, seed=1)
    for k, tensor in enumerate(state.tensors):
        tensor.modify(data=np.sin(tensor.data * x[k] + x[0]))
    return state


def _compressed_norm(x: Any) -> Any:
    state = _state(x)
    state.compress(max_bond=2)
    return (state.H & state).contract()


def _circuit(x: Any) -> Any:
    import quimb.tensor as qtn

    circuit = qtn.Circuit(3)
    circuit.rx(x[0], 0)
    circuit.ry(x[1], 1)
    circuit.cnot(0, 1)
    circuit.u3(x[0], x[1], x[2], 1)
    circuit.cz(1, 2)
    circuit.rz(x[2], 0)
    circuit.h(0)
    return circuit


def _expectation(x: Any) -> Any:
    import quimb

    return np.real(_circuit(x).local_expectation(quimb.pauli("Z") & quimb.pauli("X"), (0, 1)))


ROWS = [
    Row("cotengra", "einsum", "backend", lambda x: np.sum(cotengra.einsum("ij,jk,kl->il", x, x, x)), MATRIX),
    Row("cotengra", "array_contract", "backend", _trace_of_cube, MATRIX),
    Row("quimb", "MatrixProductState contract", "backend", lambda x: (_state(x).H & _state(x)).contract(), SITES),
    Row("quimb", "MatrixProductState.compress", "backend", _compressed_norm, SITES),
    Row("quimb", "Circuit.amplitude", "backend", lambda x: np.abs(_circuit(x).amplitude("010")) ** 2, ANGLES),
    Row("quimb", "Circuit.local_expectation", "backend", _expectation, ANGLES),
    Row("quimb", "Circuit.to_dense", "backend", lambda x: np.sum(np.abs(_circuit(x).to_dense() - 0.3) ** 2), ANGLES),
]


def test_tensor_networks_are_differentiated() -> None:
    pytest.importorskip("quimb")
    ft.compat.autoray.register()
    ft.compat.autoray.register()  # changes nothing
    assert not failures(ROWS)


def test_functions_of_autoray_take_traced_values() -> None:
    from autoray import do

    ft.compat.autoray.register()
    x = MATRIX
    rows = [
        Row("autoray", "linalg.svd", "backend", lambda x: np.sum(do("linalg.svd", x[:2])[1]), x),
        Row("autoray", "linalg.expm", "backend", lambda x: np.sum(do("linalg.expm", x)), x),
        Row("autoray", "complex", "backend", lambda x: np.sum(np.abs(do("complex", x, x**2))), x),
        Row("autoray", "take", "backend", lambda x: np.sum(do("take", x, np.array([0, 2]), axis=1) ** 2), x),
        Row("autoray", "stack", "backend", lambda x: np.sum(do("stack", (x, x * x)) ** 2), x),
        Row("autoray", "to_numpy", "backend", lambda x: np.sum(do("stop_gradient", x) * 0.0 + x) + 0 * do("size", x), x),
    ]
    assert not failures(rows)
    assert ft.grad(lambda x: np.sum(x * do("stop_gradient", x)))(x).tolist() == x.tolist()
    assert ft.grad(lambda x: np.sum(x * do("to_numpy", x)))(x).tolist() == x.tolist()
    assert [part.shape for part in ft.vjp(lambda x: do("linalg.svd", x), x[:2])[0]] == [(2, 2), (2,), (2, 3)]
