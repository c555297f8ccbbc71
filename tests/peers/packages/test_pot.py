"""POT with functrace as a backend, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.peers.packages.rows import Row, failures

ot = pytest.importorskip("ot")

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 2))
A, B = np.ones(4) / 4, np.array([0.1, 0.2, 0.3, 0.4])


def _sinkhorn(x: Any, weights: Any = B, **options: Any) -> Any:
    return ot.sinkhorn2(A, weights, ot.dist(x, Y), 1.0, stopThr=1e-12, **options)


ROWS = [
    Row("POT", "sinkhorn2", "backend", _sinkhorn, X),
    Row("POT", "sinkhorn2 by weights", "backend", lambda w: _sinkhorn(X, w / np.sum(w)), B),
    Row("POT", "sinkhorn2 (logarithmic)", "backend", lambda x: _sinkhorn(x, method="sinkhorn_log"), X),
    Row("POT", "emd2", "backend", lambda x: ot.emd2(A, B, ot.dist(x, Y)), X),
    Row("POT", "sliced_wasserstein_distance", "backend", lambda x: ot.sliced_wasserstein_distance(x, Y, seed=1), X),
    Row("POT", "gromov_wasserstein2", "backend", lambda x: ot.gromov_wasserstein2(ot.dist(x, x), ot.dist(Y, Y), A, B), X),
    Row("POT", "solve_sample", "backend", lambda x: ot.solve_sample(x, Y, A, B, reg=1.0).value, X),
]


def test_transport_is_differentiated() -> None:
    plain = ot.sinkhorn2(A, B, ot.dist(X, Y), 1.0)
    ft.compat.pot.register()
    ft.compat.pot.register()  # changes nothing
    assert [one.__name__ for one in ot.backend.get_available_backend_implementations()].count("FunctraceBackend") == 1
    assert not failures(ROWS)
    assert ot.backend.get_backend(A).__name__ == "numpy" and ot.sinkhorn2(A, B, ot.dist(X, Y), 1.0) == plain
