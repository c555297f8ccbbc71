"""Linear algebra and Fourier transforms under XLA: shapes, dtypes, derivatives, and the errors that
NumPy and SciPy raise because of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft

pytest.importorskip("jax", reason="jax is not installed")

from functrace.errors import UnsupportedFunctionError
from functrace.ops import PRIMITIVES
from functrace.ops.banded import solve_banded
from functrace.ops.eigen import eig, eigvals
from functrace.ops.matrix_functions import FUNCTIONS, lu, matrix_function
from functrace.ops.triangular import solve_triangular
from functrace.tracing.binding import bind
from tests.xla.agreement import MOST_ROUNDING, assert_agrees

DTYPES = (np.float64, np.float32, np.complex128)
SQUARE = ((4, 4), (2, 5, 5), (3, 3), (2, 2), (1, 1), (0, 0), (2, 0, 0), (0, 3, 3))
FACTORS: dict[str, Callable[[Any], Any]] = {
    "inv": np.linalg.inv,
    "det": np.linalg.det,
    "slogdet": lambda x: tuple(np.linalg.slogdet(x)),
    "pinv": np.linalg.pinv,
    "svdvals": np.linalg.svdvals,
    "cholesky": lambda x: np.linalg.cholesky(positive(x)),
    "eigvalsh": lambda x: np.linalg.eigvalsh(positive(x)),
    "projectors": lambda x: projectors(*np.linalg.eigh(positive(x), "U")),
    "pinv of symmetric": lambda x: np.linalg.pinv(positive(x), hermitian=True),
    "qr": lambda x: tuple(np.linalg.qr(x)),
    "qr complete": lambda x: tuple(np.linalg.qr(x, "complete")),
    "qr raw": lambda x: tuple(np.linalg.qr(x, "raw")),
    "lu": lu,
    "solve": lambda x: np.linalg.solve(x, np.ones((*x.shape[:-1], 2))),
    "eigenvalues": lambda x: np.sort_complex(eigvals(x)) if x.ndim == 1 else eigvals(x),
    "eigenvectors": lambda x: residual(x, *eig(x)),
}
TIMES_CONDITION = 20
"""More rounding than elsewhere, for random matrices that are not well conditioned."""


def positive(x: Any) -> Any:
    """Return a positive definite matrix."""
    return x @ np.conj(np.swapaxes(x, -1, -2)) + 2 * np.eye(x.shape[-1], dtype=x.dtype)


def projectors(w: Any, v: Any) -> Any:
    """Return eigenvalues, and what does not depend on the signs of eigenvectors."""
    return w, v[..., :, None, :] * np.conj(v)[..., None, :, :]


def residual(x: Any, w: Any, v: Any) -> Any:
    """Return 1 plus what is 0 for eigenvectors, up to rounding, and their norms."""
    off = np.matmul(x, v) - v * w[..., None, :]
    return 1.0 + np.abs(off), np.sum(np.abs(v) ** 2, -2)


def drawn(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    made = rng.normal(size=shape)
    if np.dtype(dtype).kind == "c":
        made = made + 1j * rng.normal(size=shape)
    return made.astype(dtype)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("shape", SQUARE, ids=str)
@pytest.mark.parametrize("name", FACTORS)
def test_functions_of_square_matrices(name: str, shape: tuple[int, ...], dtype: Any) -> None:
    assert_agrees(FACTORS[name], [drawn(shape, dtype)], TIMES_CONDITION * MOST_ROUNDING)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 2), (3, 0), (0, 3)], ids=str)
@pytest.mark.parametrize("name", ["svdvals", "qr", "qr complete", "qr raw", "pinv", "lu"])
def test_functions_of_rectangular_matrices(name: str, shape: tuple[int, ...]) -> None:
    assert_agrees(FACTORS[name], [drawn(shape, float)], MOST_ROUNDING)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 0), (0, 3)], ids=str)
def test_least_squares(shape: tuple[int, int]) -> None:
    def solved(a: Any, b: Any) -> Any:
        x, _, rank, _ = np.linalg.lstsq(a, b, 1e-10)
        return x, rank

    assert_agrees(solved, [drawn(shape, float), drawn((shape[0], 2), float, 1)], MOST_ROUNDING)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("below", "above", "n"), [
    (1, 1, 6), (2, 1, 7), (0, 2, 5), (3, 0, 5), (0, 0, 3), (2, 3, 3), (1, 1, 1), (1, 1, 0),
])  # fmt: skip
@pytest.mark.parametrize("stack", [(), (2,)])
def test_banded_systems(stack: tuple[int, ...], below: int, above: int, n: int) -> None:
    ab, b = drawn((*stack, below + above + 1, n), float), drawn((n, 2), float, 1)
    assert_agrees(
        lambda ab, b: solve_banded(ab, b, below, above), [ab, b], TIMES_CONDITION * MOST_ROUNDING
    )


@pytest.mark.sampled(3)
@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda t: t.__name__)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_matrices_by_eigenvalues(name: str, dtype: Any) -> None:
    """Functions of V diag(w) V^-1, where the eigenvalues say what they are: SciPy's ``expm`` loses
    up to three digits.
    """
    w, v = np.array([0.4, 1.3, 2.1]).astype(dtype), drawn((3, 3), dtype)
    v = np.linalg.qr(v)[0]
    x = (v * w) @ np.conj(v.T)
    plain = {"expm": np.exp, "logm": np.log, "sqrtm": np.sqrt}
    function = plain.get(name) or getattr(np, name.removesuffix("m"))
    expected = (v * function(w)) @ np.conj(v.T)
    jitted = ft.jit(
        lambda x: matrix_function(x, name), backend="xla", host_callbacks=["matrix_function"]
    )
    found = jitted(np.stack([2 * x, x]))[1]
    limit = 200 * np.finfo(dtype).eps * np.max(np.abs(expected))
    assert np.max(np.abs(found - expected)) <= limit


@pytest.mark.sampled(4)
@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("n", [1, 4, 5, 9])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_fourier_transforms(name: str, n: int, axis: int, norm: Any) -> None:
    function = getattr(np.fft, name)
    is_real = name in ("rfft", "ihfft")
    for dtype in (float, np.float32, int) if is_real else (complex, np.complex64, np.float32, int):
        x = drawn((5, 4), complex if dtype in (complex, np.complex64) else float)
        x = (4 * x).astype(dtype)
        assert_agrees(lambda x: function(x, n, axis, norm), [x], MOST_ROUNDING)


def test_cofactors_of_badly_scaled_and_singular_matrices() -> None:
    cofactor, change = PRIMITIVES["cofactor"], PRIMITIVES["cofactor_change"]
    x = drawn((4, 4, 4), float)
    x[1, 0] = x[1, 1]  # singular
    scales = np.array([1e-40, 1e40, 1.0, 1e10])[:, None]
    x[2] *= scales
    x[3, 0, 0] = np.nan
    assert_agrees(lambda x: tuple(bind(cofactor, (y,)) for y in x), [x], 1e4)
    t = drawn((4, 4, 4), float, 1)
    t[2] *= scales
    assert_agrees(lambda x, t: tuple(bind(change, (x[k], t[k])) for k in range(4)), [x, t], 1e4)


SINGULAR, NAN, INF = (
    np.array([[1.0, 2.0], [2.0, 4.0]]),
    np.full((3, 3), np.nan),
    np.diag([np.inf, 1]),
)
CAUGHT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "inv": (np.linalg.inv, (SINGULAR,)),
    "inv of a stack": (np.linalg.inv, (np.stack([np.eye(2), SINGULAR]),)),
    "solve": (np.linalg.solve, (SINGULAR, SINGULAR)),
    "cholesky": (np.linalg.cholesky, (SINGULAR - np.eye(2),)),
    "cholesky, first": (np.linalg.cholesky, (-np.eye(2),)),
    "eigh": (lambda x: tuple(np.linalg.eigh(x)), (NAN,)),
    "eigvalsh": (np.linalg.eigvalsh, (NAN,)),
    "eig": (eig, (NAN,)),
    "eigvals": (eigvals, (INF,)),
    "svd": (lambda x: tuple(np.linalg.svd(x)), (NAN,)),
    "svdvals": (np.linalg.svdvals, (NAN,)),
    "pinv": (np.linalg.pinv, (NAN,)),
    "lstsq": (lambda x: np.linalg.lstsq(x, x)[0], (NAN,)),
    "lu": (lu, (NAN,)),
    "triangular": (lambda a: solve_triangular(a, a, lower=True), (np.tri(3) - np.eye(3),)),
    "banded": (lambda ab, b: solve_banded(ab, b, 1, 1), (np.zeros((3, 4)), np.ones((4, 1)))),
    "tanm": (lambda x: matrix_function(x, "tanm"), (NAN,)),
}
RETURNED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "cholesky of nan": (np.linalg.cholesky, (NAN,)),
    "cholesky of inf": (np.linalg.cholesky, (INF,)),
    "inv of nan": (np.linalg.inv, (NAN,)),
    "det of nan": (np.linalg.det, (NAN,)),
    "det of inf": (np.linalg.det, (INF,)),
    "det of a singular matrix": (np.linalg.det, (SINGULAR,)),
    "slogdet of a singular matrix": (lambda x: tuple(np.linalg.slogdet(x)), (SINGULAR,)),
    "svdvals of inf": (np.linalg.svdvals, (INF,)),
    "eigh of inf": (lambda x: tuple(np.linalg.eigh(x)), (INF,)),
    "eigh of a nan": (lambda x: tuple(np.linalg.eigh(x)), (np.array([[np.nan]]),)),
    "unit diagonal": (
        lambda a: solve_triangular(a, a, lower=True, unit=True), (np.tri(3) - np.eye(3),)
    ),
    "expm of nan": (lambda x: matrix_function(x, "expm"), (NAN,)),
}  # fmt: skip


@pytest.mark.parametrize("name", CAUGHT)
def test_errors_are_numpys(name: str) -> None:
    function, args = CAUGHT[name]
    with pytest.raises(Exception) as wanted:
        function(*args)
    jitted = ft.jit(function, backend="xla")
    for _ in range(2):
        with pytest.raises(type(wanted.value)) as found:
            jitted(*args)
        assert str(found.value) == str(wanted.value)


@pytest.mark.parametrize("name", RETURNED)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_numpy_returns_is_no_error(name: str) -> None:
    function, args = RETURNED[name]
    assert_agrees(function, list(args), MOST_ROUNDING)


def test_expm_of_a_huge_matrix_is_refused() -> None:
    jitted = ft.jit(lambda x: matrix_function(x, "expm"), backend="xla")
    with pytest.raises(UnsupportedFunctionError, match=r"norm above 1e\+20"):
        jitted(1e30 * SINGULAR)


@pytest.mark.parametrize("name", ["logm", "sqrtm"])
def test_schur_methods_name_the_host_callback(name: str) -> None:
    x = 3.0 * np.eye(2) + SINGULAR
    with pytest.raises(UnsupportedFunctionError, match="host_callbacks"):
        ft.jit(lambda x: matrix_function(x, name), backend="xla")(x)
