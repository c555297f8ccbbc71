"""vmap of second derivatives of linear algebra: primitives of two operands, of which either may
have the batch axis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.scipy import linalg

ONE = np.eye(2)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "det": np.linalg.det,
    "slogdet": lambda a: np.linalg.slogdet(a)[1],
    "inv": lambda a: np.sum(np.linalg.inv(a) ** 2),
    "solve": lambda a: np.sum(np.linalg.solve(a, a @ a) ** 3),
    "cholesky": lambda a: np.sum(np.linalg.cholesky(a @ a.T + ONE) ** 3),
    "eigvalsh": lambda a: np.sum(np.linalg.eigvalsh(a + a.T) ** 3),
    "eigvals": lambda a: np.sum(np.abs(np.linalg.eigvals(a)) ** 2),
    "svd": lambda a: np.sum(np.linalg.svd(a, compute_uv=False) ** 3),
    "qr": lambda a: np.sum(np.linalg.qr(a)[1] ** 3),
    "pinv": lambda a: np.sum(np.linalg.pinv(a) ** 2),
    "lstsq": lambda a: np.sum(np.linalg.lstsq(a, a[:, 0], rcond=None)[0] ** 2),
    "expm": lambda a: np.sum(linalg.expm(a) ** 2),
    "sqrtm": lambda a: np.sum(linalg.sqrtm(a @ a.T + ONE) ** 3),
    "lu_factor": lambda a: np.sum(linalg.lu_factor(a)[0] ** 3),
    "solve_sylvester": lambda a: np.sum(linalg.solve_sylvester(a, a, a) ** 2),
    "solve_triangular": lambda a: np.sum(linalg.solve_triangular(a, a @ a) ** 2),
    "cho_solve": lambda a: np.sum(linalg.cho_solve((a, True), a @ a) ** 2),
    "polar": lambda a: np.sum(linalg.polar(a)[0] ** 3),
    "solve_continuous_are": lambda a: np.sum(linalg.solve_continuous_are(a, ONE, ONE, ONE) ** 2),
    "einsum": lambda a: np.sum(np.einsum("ij,jk,kl->il", a, a, a) ** 2),
}
SECOND = {
    "hessian": ft.hessian,
    "forward twice": lambda f: ft.jacfwd(ft.jacfwd(f)),
    "reverse twice": lambda f: ft.jacrev(ft.jacrev(f)),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("order", SECOND)
def test_vmap_of_a_second_derivative_is_a_loop(name: str, order: str) -> None:
    stack = np.random.default_rng(0).normal(size=(3, 2, 2)) + 2 * ONE
    second = SECOND[order](FUNCTIONS[name])
    expected = np.stack([second(a) for a in stack])
    np.testing.assert_allclose(ft.vmap(second)(stack), expected, rtol=1e-7, atol=1e-9)
