"""Contractions, decompositions, transport: autoray, cotengra, quimb, tensorly, POT, with functrace
as a backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import functrace as ft
from tests.peers.packages.rows import Package, Row

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(3, 3))
ANGLES = np.array([0.4, 1.1, -0.7])
SITES = np.array([0.9, 1.2, 0.7, 1.4])
T = RNG.random((3, 4, 2))
X, Y = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 2))
A, B = np.ones(4) / 4, np.array([0.1, 0.2, 0.3, 0.4])


def _autoray() -> Sequence[Row]:
    from autoray import do

    ft.compat.autoray.register()
    return [
        Row("linalg.svd", lambda x: np.sum(do("linalg.svd", x[:2])[1]), MATRIX),
        Row("linalg.expm", lambda x: np.sum(do("linalg.expm", x)), MATRIX),
        Row("complex", lambda x: np.sum(np.abs(do("complex", x, x**2))), MATRIX),
        Row("take", lambda x: np.sum(do("take", x, np.array([0, 2]), axis=1) ** 2), MATRIX),
        Row("stack", lambda x: np.sum(do("stack", (x, x * x)) ** 2), MATRIX),
    ]


def _cotengra() -> Sequence[Row]:
    import cotengra

    ft.compat.autoray.register()
    cube = [("a", "b"), ("b", "c"), ("c", "a")]
    return [
        Row("einsum", lambda x: np.sum(cotengra.einsum("ij,jk,kl->il", x, x, x)), MATRIX),
        Row("array_contract", lambda x: cotengra.array_contract([x, x, x], cube, ()), MATRIX),
    ]


def _quimb() -> Sequence[Row]:
    import quimb
    import quimb.tensor as qtn

    ft.compat.autoray.register()

    def state(x: Any) -> Any:
        made = qtn.MPS_rand_state(4, 3, seed=1)
        for k, tensor in enumerate(made.tensors):
            tensor.modify(data=np.sin(tensor.data * x[k] + x[0]))
        return made

    def compressed_norm(x: Any) -> Any:
        made = state(x)
        made.compress(max_bond=2)
        return (made.H & made).contract()

    def circuit(x: Any) -> Any:
        made = qtn.Circuit(3)
        made.rx(x[0], 0)
        made.ry(x[1], 1)
        made.cnot(0, 1)
        made.u3(x[0], x[1], x[2], 1)
        made.cz(1, 2)
        made.rz(x[2], 0)
        made.h(0)
        return made

    def expectation(x: Any) -> Any:
        return np.real(circuit(x).local_expectation(quimb.pauli("Z") & quimb.pauli("X"), (0, 1)))

    return [
        Row("MatrixProductState contract", lambda x: (state(x).H & state(x)).contract(), SITES),
        Row("MatrixProductState.compress", compressed_norm, SITES),
        Row("Circuit.amplitude", lambda x: np.abs(circuit(x).amplitude("010")) ** 2, ANGLES),
        Row("Circuit.local_expectation", expectation, ANGLES),
        Row("Circuit.to_dense", lambda x: np.sum(np.abs(circuit(x).to_dense() - 0.3) ** 2), ANGLES),
    ]


def _tensorly() -> Sequence[Row]:
    import tensorly as tl
    from tensorly.decomposition import parafac, tensor_train

    ft.compat.tensorly.register()

    def row(function: str, f: Any) -> Row:
        def call(t: Any) -> Any:
            with tl.backend_context("functrace"):
                return f(t)

        return Row(function, call, T)

    return [
        row("parafac", lambda t: tl.norm(tl.cp_to_tensor(parafac(t, 2, n_iter_max=5, tol=0)))),
        row("tensor_train", lambda t: tl.norm(tl.tt_to_tensor(tensor_train(t, [1, 2, 2, 1])))),
        row("tenalg.mode_dot", lambda t: tl.norm(tl.tenalg.mode_dot(t, t[:, :, 0], 1))),
        row("tenalg.khatri_rao", lambda t: tl.norm(tl.tenalg.khatri_rao([t[0], t[1]]))),
        row("logsumexp", lambda t: tl.sum(tl.logsumexp(t, axis=1))),
        row(
            "index_update",
            lambda t: tl.sum(tl.index_update(tl.zeros((2, 2)), tl.index[0, 1], t[0, 0, 0]) ** 2),
        ),
    ]


def _pot() -> Sequence[Row]:
    import ot
    from ot.coot import co_optimal_transport2

    ft.compat.pot.register()

    def sinkhorn(x: Any, weights: Any = B, **options: Any) -> Any:
        return ot.sinkhorn2(A, weights, ot.dist(x, Y), 1.0, stopThr=1e-12, **options)

    def gromov(f: Any, **options: Any) -> Any:
        return lambda x: f(ot.dist(x, x), ot.dist(Y, Y), A, B, **options)

    def fused(x: Any) -> Any:
        return ot.fused_gromov_wasserstein2(ot.dist(x, Y), ot.dist(x, x), ot.dist(Y, Y), A, B)

    return [
        Row("sinkhorn2", sinkhorn, X),
        Row("sinkhorn2 by weights", lambda w: sinkhorn(X, w / np.sum(w)), B),
        Row("sinkhorn2 (logarithmic)", lambda x: sinkhorn(x, method="sinkhorn_log"), X),
        Row("emd2", lambda x: ot.emd2(A, B, ot.dist(x, Y)), X),
        Row(
            "sliced_wasserstein_distance", lambda x: ot.sliced_wasserstein_distance(x, Y, seed=1), X
        ),
        Row("gromov_wasserstein2", gromov(ot.gromov_wasserstein2), X),
        Row("fused_gromov_wasserstein2", fused, X),
        Row("coot.co_optimal_transport2", lambda x: co_optimal_transport2(x, Y), X),
        Row("solve_sample", lambda x: ot.solve_sample(x, Y, A, B, reg=1.0).value, X),
    ]


AUTORAY = Package("autoray", "autoray", _autoray, on="a backend")
COTENGRA = Package("cotengra", "cotengra", _cotengra, on="a backend")
POT = Package("POT", "ot", _pot, on="a backend")
QUIMB = Package("quimb", "quimb", _quimb, on="a backend")
TENSORLY = Package("tensorly", "tensorly", _tensorly, on="a backend")
