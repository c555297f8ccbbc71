"""Operations as machine code equal NumPy's, and fail where NumPy warns or raises."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest

import functrace as ft

pytest.importorskip("llvmlite", reason="llvmlite is not installed")

from tests.native.test_loops import whole
from tests.native.test_programs import native

DIVISIONS = (np.remainder, np.floor_divide, np.fmod)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["i8", "i4", "i1", "u8", "u1", "f8", "f4"])
@pytest.mark.parametrize("f", DIVISIONS, ids=lambda f: f.__name__)
def test_divisions_that_round(f: Any, dtype: str) -> None:
    x = np.arange(-60, 60).astype(dtype)
    y = np.where(np.arange(120) % 7 == 3, 5, np.arange(120) % 7 - 3).astype(dtype)
    whole(f, x, y)
    whole(lambda x: f(x, 7), x)


@pytest.mark.parametrize("f", DIVISIONS, ids=lambda f: f.__name__)
def test_divisions_of_integers_by_zero_warn_as_numpy(f: Any) -> None:
    x, y = np.arange(50), np.arange(50) - 20
    made = native(ft.trace(f)(x, y))
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        (found,) = made.call(x, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, f(x, y))
    least, one = np.full(50, np.iinfo(np.int64).min), np.full(50, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(made.call(least, one)[0], f(least, one))


COMPARISONS = (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("signed", ["i8", "i4", "i1"])
@pytest.mark.parametrize("f", COMPARISONS, ids=lambda f: f.__name__)
def test_comparisons_of_signed_and_unsigned_integers(f: Any, signed: str) -> None:
    limits = np.iinfo(signed)
    x = np.array([0, 1, 5, 127, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)[:, None]
    y = np.array([0, 1, 5, -1, -2, 127, limits.min, limits.max], np.int64).astype(signed)
    whole(lambda x, y: (f(x, y), f(y, x)), x, y)
    whole(lambda x, y: (f(x, y), f(y, x)), np.repeat(x, 10, 0), y)


def _messages(f: Any, *args: Any) -> set[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f(*args)
    return {str(warning.message) for warning in caught}


FLAGGED = {
    "divide": lambda x: 1.5 / (x * 1.0),
    "reciprocal": lambda x: np.reciprocal(x * 1.0),
    "floor_divide": lambda x: 1.5 // (x * 1.0),
    "remainder": lambda x: 1.5 % (x * 1.0),
    "fmod": lambda x: np.fmod(1.5, x * 1.0),
    "power": lambda x: (x * 1.0) ** -2,
    "power_of_single": lambda x: (x * np.float32(1.0)) ** np.float32(-3.0),
    "logarithm": lambda x: np.log2(x * 1.0),
    "overflow": lambda x: np.where(x == 0, 1e300, 0.5) * 1e300,
    "chosen": lambda x: 2.0 / np.where(x == 0, 0.0, 3.0),
    "heaviside": lambda x: 2.0 / np.heaviside(x * -1.0, 0.0),
    "known_zero": lambda x: np.log((x * 0).astype(float)),
    "known_large": lambda x: np.exp((x * 0).astype(float) + 1000.0),
    "known_pole": lambda x: np.arctanh((x * 0).astype(float) + 1.0),
    "known_sum": lambda x: np.log2(np.sum(x * 0) * 1.0),
    "invalid": lambda x: np.arcsin(np.where(x == 0, 2.0, 0.5)),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("size", [3, 70])
@pytest.mark.parametrize("dtype", ["?", "i1", "u4", "i8", "f8"])
@pytest.mark.parametrize("name", FLAGGED)
def test_numbers_that_llvm_knows_raise_flags_too(name: str, dtype: str, size: int) -> None:
    x = (np.arange(size) > 0).astype(dtype)
    expected = _messages(FLAGGED[name], x)
    assert expected
    assert _messages(ft.jit(FLAGGED[name], backend="native"), x) == expected


@pytest.mark.sampled(3)
@pytest.mark.parametrize("exponent", [-3, -2, -0.5, 0.5, 1.5, 2.5])
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_powers_of_special_values(dtype: str, exponent: float) -> None:
    x = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 3.0, 1e-30], dtype)
    for x in (x, np.tile(x, 9)):
        with np.errstate(all="ignore"):
            found, expected = (
                g(x)
                for g in (ft.jit(lambda x: x**exponent, backend="native"), lambda x: x**exponent)
            )
        np.testing.assert_allclose(found, expected, rtol=1e-6 if dtype == "f4" else 1e-14)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("f", [np.sin, np.cos, np.tan, np.sinc], ids=lambda f: f.__name__)
def test_large_angles_are_numpys_under_any_errstate(f: Any) -> None:
    x = np.array([1e300, 2.0**60, 1e22, 0.5])
    for settings in ("ignore", "warn"):
        with np.errstate(all=settings):  # type: ignore[arg-type]
            np.testing.assert_array_equal(ft.jit(lambda x: f(x), backend="native")(x), f(x))


SPECIAL = np.array([0.0, -0.0, 0.5, -0.5, np.nan, np.inf, -np.inf])
FORMS: dict[str, Any] = {
    "a number": lambda c, dtype: c,
    "one element": lambda c, dtype: np.array([c], dtype),
    "an array": lambda c, dtype: np.full(7, c, dtype),
    "a column": lambda c, dtype: np.full((3, 1), c, dtype),
}


def assert_same_signs(f: Any, *args: Any) -> None:
    with np.errstate(all="ignore"):
        expected = f(*args)
        for accuracy in ("ulp", "numpy"):
            found = ft.jit(f, backend="native", accuracy=accuracy)(*args)  # type: ignore[arg-type]
            for x, y in zip(found, expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-6)
                signs = [np.signbit(z) & ~np.isnan(z) for z in (x, y)]
                np.testing.assert_array_equal(*signs)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_clipped_zeros_have_numpys_signs(dtype: str, form: str) -> None:
    x = SPECIAL.astype(dtype)
    if form == "a column":
        x = np.stack([x] * 3)
    pairs = list(itertools.product([0.0, -0.0, np.nan, -1.0], [0.0, -0.0, np.nan, 0.25]))
    bounds = [[FORMS[form](c, dtype) for c in pair] for pair in pairs]
    assert_same_signs(lambda x: [np.clip(x, *pair) for pair in bounds], x)
    assert_same_signs(lambda x: [np.clip(x[1], *pair) for pair in pairs], x)
    low, high = (np.asarray(c) for c in bounds[0])
    assert_same_signs(lambda x, low, high: [np.clip(x, low, high)], x, low, high)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_powers_of_zeros_and_infinities(dtype: str, form: str) -> None:
    x = SPECIAL.astype(dtype)
    exponents = [FORMS[form](c, dtype) for c in (0.5, -0.5, 1.5, 1.0, 2.0, 0.25)]
    assert_same_signs(lambda x: [np.power(x, y) for y in exponents], x)
    assert_same_signs(lambda x, y: [np.power(x, y)], x, np.asarray(exponents[0]))


@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_powers_of_complex_zeros(dtype: str) -> None:
    parts, exponents = (0.0, -0.0, 1.5), (0, 1, 2, 3, 4, 1.0, 2.0, 5.0, 12)
    x = np.array([complex(a, b) for a in parts for b in parts], dtype)

    def powers(x: Any) -> Any:
        found = [np.power(x, exponent) for exponent in exponents]
        return [part(y) for y in found for part in (np.real, np.imag)]

    assert_same_signs(powers, x)


@pytest.mark.parametrize("dtype", ["i8", "i2", "u4"])
def test_shifts_and_bits(dtype: str) -> None:
    x = np.arange(-50, 50).astype(dtype)
    y = (np.arange(100) % 70).astype(dtype)
    whole(lambda x, y: (x << y, x >> y, np.bitwise_count(x)), x, y)


@pytest.mark.parametrize("size", [5, 200])
def test_elementwise_functions(size: int) -> None:
    x = np.linspace(-3.0, 3.0, size)
    whole(
        lambda x: (np.round(x, 2), np.round(x * 100, -1), np.sinc(x), np.float_power(x + 4, 1.5)), x
    )
    whole(ft.grad(lambda x: np.sum(np.sin(x) * np.remainder(x, 0.7))), x)


INDICES = {
    "apart": lambda x, i: x[i, :, i],
    "apart by a new axis": lambda x, i: x[i, None, i],
    "with an integer": lambda x, i: x[1, :, i],
    "beside": lambda x, i: x[:, i, i],
    "steps": lambda x, i: x[::2, i, 1:],
    "ellipsis": lambda x, i: x[..., i],
    "new axes": lambda x, i: x[None, i, :, None],
}


@pytest.mark.parametrize("name", INDICES)
def test_indices_with_arrays(name: str) -> None:
    x = np.arange(60.0).reshape(3, 4, 5)
    i = np.array([2, 0, -1, 2])
    f = INDICES[name]
    whole(f, x, i)
    whole(ft.grad(lambda x, i: np.sum(f(x, i) ** 2)), x, i)


def test_writes() -> None:
    x, v, i = np.arange(60.0).reshape(12, 5), np.arange(4.0), np.array([2, 0, 11, 2])

    def f(x: Any, v: Any, i: Any) -> Any:
        y = x * 1.0
        y[i, 1] = v
        y[3:5] = 7.0
        y[-1, i % 5] = v * 2
        return y

    whole(f, x, v, i)
    whole(ft.grad(lambda x, v, i: np.sum(f(x, v, i) ** 2), (0, 1)), x, v, i)


def test_elements_along_an_axis() -> None:
    x = np.arange(120.0).reshape(6, 20)
    i = np.argsort(np.cos(x), axis=1)
    whole(lambda x, i: np.take_along_axis(x, i, 1), x, i)
    whole(ft.grad(lambda x, i: np.sum(np.take_along_axis(x, i[:, :3], 1) ** 2)), x, i)


def test_an_index_out_of_range_raises_numpys_error() -> None:
    x = np.arange(10.0)
    made = native(ft.trace(lambda x, i: x[i])(x, np.array([1, 2])))
    with pytest.raises(IndexError):
        made.call(x, np.array([1, 10]))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "u1", "b1"])
@pytest.mark.parametrize("shape", [(5,), (4, 7), (3, 9), (1000,), (4, 65), (1,), (2, 2, 40)])
def test_sorting(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = (rng.normal(size=shape) * 50).astype(dtype)
    if dtype[0] == "f":
        x.flat[::7] = np.nan
        x.flat[3::11] = np.inf
    whole(lambda x: (np.sort(x), np.sort(x, axis=0), np.argsort(x, axis=-1, kind="stable")), x)


def test_argsort_of_equal_keys_is_numpys() -> None:
    x = np.random.default_rng(2).permutation(300).astype(float)
    whole(np.argsort, x)
    x[5] = x[7]
    made = native(ft.trace(np.argsort)(x))
    np.testing.assert_array_equal(made.call(x)[0], np.argsort(x))
    assert made.fallbacks == 1


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtype", ["f8", "i8", "u1"])
def test_searching(dtype: str, side: Any) -> None:
    a = np.sort(np.random.default_rng(3).integers(0, 30, 47)).astype(dtype)
    v = np.arange(-3, 40, 0.5)
    whole(lambda a, v: np.searchsorted(a, v, side), a, v)
    if dtype == "f8":
        a, v = np.append(a, np.nan), np.append(v, np.nan)
        (found,) = native(ft.trace(lambda a, v: np.searchsorted(a, v, side))(a, v)).call(a, v)
        np.testing.assert_array_equal(found, np.searchsorted(a, v, side))


@pytest.mark.parametrize("shape", [(3, 4), (20, 30)])
def test_norms_and_variances(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(4).normal(size=shape)
    whole(lambda x: (np.var(x), np.var(x, axis=0, ddof=1), np.std(x, axis=1, keepdims=True)), x)
    whole(lambda x: (np.linalg.norm(x), np.linalg.norm(x, axis=1), np.linalg.norm(x, 3, axis=0)), x)
    whole(lambda x: (np.maximum.accumulate(x, 1), np.minimum.accumulate(x, 0)), x)
    whole(ft.grad(lambda x: np.sum(np.var(x, axis=0)) + np.sum(np.linalg.norm(x, axis=1))), x)


@pytest.mark.parametrize("shape", [(4, 4), (9, 9), (40, 40), (3, 2, 2), (2, 5, 12, 12)])
def test_linear_algebra(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(5)
    a = (rng.normal(size=shape) + (2 + shape[-1]) * np.eye(shape[-1]))[..., ::-1, :]
    b, v = rng.normal(size=(*shape[:-1], 3)), rng.normal(size=shape[-1])
    symmetric = a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])
    whole(np.linalg.solve, a, b)
    whole(np.linalg.solve, a, v)
    whole(lambda a: np.linalg.solve(a, np.eye(shape[-1])[:, :1]), a)
    whole(np.linalg.inv, a)
    whole(np.linalg.det, a)
    whole(np.linalg.cholesky, symmetric)
    whole(lambda a, b: np.linalg.solve(a, b).sum(), np.swapaxes(a, -1, -2), b)


def test_matrices_that_lapack_refuses_raise() -> None:
    a = np.ones((9, 9))
    for f in (np.linalg.inv, np.linalg.cholesky, lambda a: np.linalg.solve(a, a)):
        made = native(ft.trace(f)(np.eye(9)))
        with pytest.raises(np.linalg.LinAlgError):
            made.call(a if f is not np.linalg.cholesky else -a)
    made = native(ft.trace(np.linalg.det)(np.eye(9)))
    assert made.call(a)[0] == 0.0


def test_contractions() -> None:
    rng = np.random.default_rng(6)
    a, b, c = rng.normal(size=(5, 5)), rng.normal(size=(5, 7)), rng.normal(size=(7, 5))
    whole(lambda a: (np.einsum("ii", a), np.einsum("ii->i", a), np.einsum("ij->j", a)), a)
    whole(lambda a, b, c: np.einsum("ij,jk,kl->il", a, b, c), a, b, c)
    whole(lambda a, b, c: np.einsum("ij,jk,ki", a, b, c), a, b, c)
    x, y = rng.normal(size=(6, 1, 2, 3)), rng.normal(size=(5, 3, 4))
    whole(np.matmul, x, y)
    whole(ft.grad(lambda x, y: np.sum((x @ y) ** 2), (0, 1)), x, y)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sizes", [(5, 3), (3, 40), (100, 17), (1, 1)])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16"])
def test_convolutions(sizes: tuple[int, int], dtype: str) -> None:
    x, y = (np.arange(1, n + 1).astype(dtype) for n in sizes)
    whole(np.convolve, x, y)
    whole(lambda x, y: np.convolve(x, y, "same"), x, y)
    if x.dtype.kind == "f":
        whole(ft.grad(lambda x, y: np.sum(np.convolve(x, y) ** 2), (0, 1)), x, y)


def test_special_functions_of_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-6.0, 6.0, 201)
    y = np.linspace(0.0, 3.0, 201)
    whole(lambda x: (special.erf(x), special.erfc(x), special.expit(x), special.entr(x)), x)
    whole(lambda x, y: (special.xlogy(y, y), special.xlog1py(x, y), special.entr(y)), x, y)
    found = native(ft.trace(special.xlogy)(x, y)).call(np.zeros(201), np.full(201, np.nan))
    assert np.isnan(found).all()


LINEAR_ALGEBRA = {
    "det": np.linalg.det,
    "inv": np.linalg.inv,
    "solve": lambda a: np.linalg.solve(a, a[0]),
    "cholesky": np.linalg.cholesky,
    "slogdet": lambda a: tuple(np.linalg.slogdet(a)),
    "gradient": lambda a: ft.grad(lambda a: np.linalg.det(a))(a),
}


@pytest.mark.parametrize("settings", ["ignore", "warn"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", LINEAR_ALGEBRA)
def test_singular_matrices_are_numpys_under_any_errstate(
    name: str, size: int, settings: Any
) -> None:
    f = LINEAR_ALGEBRA[name]
    repeated = np.ones((size, size))
    repeated[-1, 0] = 0 if size == 1 else 1
    for a in (np.zeros((size, size)), repeated, np.diag(np.arange(size) % 2.0)):
        with warnings.catch_warnings(), np.errstate(all=settings):
            warnings.simplefilter("ignore")
            found, expected = (_result(g, a) for g in (ft.jit(f, backend="native"), f))
        np.testing.assert_equal(found, expected)


def _result(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except np.linalg.LinAlgError as error:
        return str(error).splitlines()[0]


@pytest.mark.parametrize(
    "number", [10**400, -(10**400), 2**1024, 10**300, 2**64], ids=lambda n: f"{n.bit_length()} bits"
)
@pytest.mark.parametrize("dtype", ["i8", "u8", "i1", "f8", "f4"])
@pytest.mark.parametrize("function", [np.less, np.equal, np.not_equal, np.greater_equal, np.add])
def test_integers_that_no_float_holds_are_numpys(function: Any, dtype: str, number: int) -> None:
    x = np.arange(3).astype(dtype)
    for f in (lambda x: function(x, number), lambda x: function(number, x)):
        with np.errstate(all="ignore"):
            found, expected = (_outcome(g, x) for g in (ft.jit(f, backend="native"), f))
        np.testing.assert_equal(found, expected)


@pytest.mark.parametrize("index", [2**64 - 1, 2**63, 2**63 - 1, 3])
def test_large_unsigned_indices_are_refused_as_by_numpy(index: int) -> None:
    def write(x: Any, i: Any) -> Any:
        y = x.copy()
        y[i] = 9.0
        return y

    for f in (lambda x, i: x[i], write):
        args = np.arange(5.0), np.uint64(index)
        found, expected = (_outcome(g, *args) for g in (ft.jit(f, backend="native"), f))
        np.testing.assert_equal(found, expected)


def _outcome(f: Any, *args: Any) -> Any:
    try:
        return f(*args)
    except (IndexError, OverflowError):
        return "refused"


@pytest.mark.parametrize("kind", [np.longlong, np.ulonglong, np.intc, np.int_])
def test_scalars_of_all_c_types(kind: Any) -> None:
    f = ft.jit(lambda x: x + 1, backend="native")
    assert f(kind(3)) == f(np.array(3, kind)) == 4


@pytest.mark.parametrize("size", [3, 8])
def test_determinants_of_singular_matrices_do_not_fail(size: int) -> None:
    for a in (np.ones((size, size)), np.zeros((size, size)), np.diag(np.arange(size) % 2.0)):
        made = native(ft.trace(np.linalg.det)(a))
        assert made.call(a) == (0.0,) and made.fallbacks == 0
