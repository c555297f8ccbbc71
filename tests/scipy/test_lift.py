"""SciPy's names under `functrace.numpy.lift`: those of `functrace.scipy`, for who is inside."""

from __future__ import annotations

import subprocess
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from scipy import linalg, special, stats

import functrace as ft
from functrace.errors import FunctraceError
from tests.oracles import differences

X = np.array([0.4, -1.1, 0.8])
OWN = {name: vars(scipy.linalg)[name] for name in ("inv", "expm", "get_blas_funcs", "solve")}


def _matrix(x: Any) -> Any:
    return np.outer(x, x) + np.diag([1.0, 2.0, 3.0])


CALLS: dict[str, Callable[[Any], Any]] = {
    "inv": lambda x: np.sum(linalg.inv(_matrix(x)) ** 2),
    "solve": lambda x: np.sum(scipy.linalg.solve(_matrix(x), x) ** 2),
    "expm": lambda x: np.sum(linalg.expm(0.3 * _matrix(x))),
    "cholesky": lambda x: np.sum(linalg.cholesky(_matrix(x), lower=True)[:, 0]),
    "cho_solve": lambda x: np.sum(linalg.cho_solve(linalg.cho_factor(_matrix(x)), np.ones(3))),
    "eigh": lambda x: np.sum(linalg.eigh(_matrix(x))[0] ** 3),
    "det": lambda x: linalg.det(_matrix(x)),
    "toeplitz": lambda x: np.sum(linalg.toeplitz(x) ** 3),
    "logsumexp": lambda x: special.logsumexp(x),
    "softmax": lambda x: special.softmax(x) @ X,
    "imported inside": lambda x: _imported_inside(x),
    "of SciPy's own code": lambda x: stats.multivariate_normal.logpdf(x, X, _matrix(x)),
}


def _imported_inside(x: Any) -> Any:
    from scipy.linalg import inv

    return np.sum(inv(_matrix(x)))


@pytest.fixture(autouse=True)
def nothing_stays() -> Any:
    yield
    assert type(scipy.linalg) is types.ModuleType and type(scipy.special) is types.ModuleType
    assert all(getattr(scipy.linalg, name) is own for name, own in OWN.items())


@pytest.mark.parametrize("name", CALLS)
def test_plain_code_that_calls_scipy_is_differentiated(name: str) -> None:
    f = CALLS[name]
    lifted = ft.numpy.lift(f)
    direction = np.array([0.3, -0.8, 0.5])
    (expected,) = differences(f, [X], [direction])
    np.testing.assert_allclose(ft.grad(lifted)(X) @ direction, expected, rtol=1e-6)
    np.testing.assert_allclose(ft.jvp(lifted, (X,), (direction,))[1], expected, rtol=1e-6)
    np.testing.assert_allclose(lifted(X), f(X), rtol=1e-13)
    if name != "of SciPy's own code":  # which looks at the eigenvalues
        np.testing.assert_allclose(
            ft.jit(ft.vmap(ft.grad(lifted)))(np.stack([X, X]))[1] @ direction, expected, rtol=1e-6
        )


def test_code_outside_lift_gets_scipys_functions() -> None:
    seen: list[bool] = []
    with ft.numpy.lift():
        assert scipy.linalg.inv is ft.scipy.linalg.inv is linalg.inv
        assert scipy.linalg.get_blas_funcs is OWN["get_blas_funcs"]  # there is none here
        assert getattr(scipy.linalg, "inv") is OWN["inv"]  # as compiled code reads
        thread = threading.Thread(target=lambda: seen.append(scipy.linalg.inv is OWN["inv"]))
        thread.start()
        thread.join()
        kept = scipy.linalg.inv
    assert seen == [True]
    np.testing.assert_array_equal(kept(_matrix(X)), OWN["inv"](_matrix(X)))
    with pytest.raises(FunctraceError, match=r"functrace\.scipy"):
        ft.grad(CALLS["inv"])(X)


def test_modules_can_be_patched_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    with ft.numpy.lift():
        with monkeypatch.context() as patch:
            patch.setattr(scipy.linalg, "inv", "mine")
            assert scipy.linalg.inv == "mine"
        assert scipy.linalg.inv is ft.scipy.linalg.inv


def test_nothing_is_imported_before_a_name_is_read() -> None:
    code = """
import sys
import numpy as np
import functrace as ft
with ft.numpy.lift():
    np.zeros(3)
assert not any(name.startswith("scipy") for name in sys.modules)
import scipy.linalg
with ft.numpy.lift():
    np.zeros(3)
    assert "functrace.scipy" not in sys.modules
    scipy.linalg.inv
    assert "functrace.scipy" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
