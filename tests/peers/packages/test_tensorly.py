"""tensorly with functrace as a backend, against differences."""

from __future__ import annotations

import numpy as np
import pytest

import functrace as ft
from tests.peers.packages.rows import Row, failures

tl = pytest.importorskip("tensorly")
T = np.random.default_rng(0).random((3, 4, 2))


def _rows() -> list[Row]:
    from tensorly.decomposition import parafac, tensor_train

    return [
        Row("tensorly", "parafac", "backend", lambda t: tl.norm(tl.cp_to_tensor(parafac(t, 2, n_iter_max=5, tol=0))), T),
        Row("tensorly", "tensor_train", "backend", lambda t: tl.norm(tl.tt_to_tensor(tensor_train(t, [1, 2, 2, 1]))), T),
        Row("tensorly", "tenalg.mode_dot", "backend", lambda t: tl.norm(tl.tenalg.mode_dot(t, t[:, :, 0], 1)), T),
        Row("tensorly", "tenalg.khatri_rao", "backend", lambda t: tl.norm(tl.tenalg.khatri_rao([t[0], t[1]])), T),
        Row("tensorly", "logsumexp", "backend", lambda t: tl.sum(tl.logsumexp(t, axis=1)), T),
        Row(
            "tensorly", "index_update", "backend",
            lambda t: tl.sum(tl.index_update(tl.zeros((2, 2)), tl.index[0, 1], t[0, 0, 0]) ** 2), T,
        ),
    ]  # fmt: skip


def test_decompositions_are_differentiated() -> None:
    ft.compat.tensorly.register()
    ft.compat.tensorly.register()  # changes nothing
    with tl.backend_context("functrace"):
        assert tl.get_backend() == "functrace" and tl.is_tensor(T) and not tl.is_tensor([1.0])
        assert not failures(_rows())
    assert tl.get_backend() == "numpy"
