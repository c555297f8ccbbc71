"""Special functions and arithmetic: SciPy's values, and derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.autograd import gradcheck, gradgradcheck

sp = pytest.importorskip("scipy.special")
X = np.array([0.3, 0.7, 1.2, 2.5])
UNIT = np.array([0.1, 0.35, 0.6, 0.9])
special = torch.special


def leaf(array: Any) -> Any:
    return torch.tensor(array, dtype=torch.float64, requires_grad=True)


OF_ONE: list[tuple[str, Callable[..., Any], Callable[..., Any], Any]] = [
    ("lgamma", torch.lgamma, sp.gammaln, X),
    ("digamma", torch.digamma, sp.psi, X),
    ("polygamma", lambda x: torch.polygamma(2, x), lambda x: sp.polygamma(2, x), X),
    ("mvlgamma", lambda x: torch.mvlgamma(x, 2), lambda x: sp.multigammaln(x, 2), X[1:]),
    ("erf", torch.erf, sp.erf, X),
    ("erfc", torch.erfc, sp.erfc, X),
    ("erfinv", torch.erfinv, sp.erfinv, UNIT),
    ("erfcx", special.erfcx, sp.erfcx, X),
    ("i0", torch.i0, sp.i0, X),
    ("i0e", special.i0e, sp.i0e, X),
    ("i1", special.i1, sp.i1, X),
    ("i1e", special.i1e, sp.i1e, X),
    ("ndtr", special.ndtr, sp.ndtr, X),
    ("log_ndtr", special.log_ndtr, sp.log_ndtr, -X),
    ("ndtri", special.ndtri, sp.ndtri, UNIT),
    ("entr", special.entr, sp.entr, X),
    ("logit", torch.logit, sp.logit, UNIT),
    ("sinc", torch.sinc, np.sinc, X),
    ("xlogy", lambda x: torch.xlogy(x, 2.5), lambda x: sp.xlogy(x, 2.5), X),
    ("xlog1py", lambda x: special.xlog1py(2.0, x), lambda x: sp.xlog1py(2.0, x), X),
    ("zeta", lambda x: special.zeta(2.0, x), lambda x: sp.zeta(2.0, x), X),
    ("igamma", lambda x: torch.igamma(torch.full_like(x, 2), x), lambda x: sp.gammainc(2, x), X),
    ("deg2rad", torch.deg2rad, np.deg2rad, X),
    ("frac", torch.frac, lambda x: np.modf(x)[0], X),
    ("copysign", lambda x: torch.copysign(x, -1.0), lambda x: np.copysign(x, -1), X),
    ("frexp", lambda x: torch.frexp(x)[0], lambda x: np.frexp(x)[0], X),
    ("nan_to_num", torch.nan_to_num, np.nan_to_num, X),
    ("float_power", lambda x: torch.float_power(x, 2.5), lambda x: x**2.5, X),
    ("logaddexp2", lambda x: torch.logaddexp2(x, x * 2), lambda x: np.logaddexp2(x, x * 2), X),
    ("clamp_min", lambda x: torch.clamp_min(x, 1.0), lambda x: np.maximum(x, 1.0), X),
]


@pytest.mark.parametrize(("function", "wanted", "x"), [v[1:] for v in OF_ONE],
                         ids=[v[0] for v in OF_ONE])  # fmt: skip
def test_values_are_scipys_and_derivatives_those_of_differences(
    function: Callable[..., Any], wanted: Callable[..., Any], x: Any
) -> None:
    np.testing.assert_allclose(function(torch.from_numpy(x)).numpy(), wanted(x), rtol=1e-12)
    assert gradcheck(function, [leaf(x)])
    assert gradgradcheck(function, [leaf(x)])


@pytest.mark.parametrize(("name", "wanted"), [
    ("airy_ai", lambda x: sp.airy(x)[0]), ("bessel_j0", sp.j0), ("bessel_j1", sp.j1),
    ("bessel_y0", sp.y0), ("bessel_y1", sp.y1), ("modified_bessel_i0", sp.i0),
    ("modified_bessel_i1", sp.i1), ("modified_bessel_k0", sp.k0), ("modified_bessel_k1", sp.k1),
    ("scaled_modified_bessel_k0", sp.k0e), ("scaled_modified_bessel_k1", sp.k1e),
    ("spherical_bessel_j0", lambda x: sp.spherical_jn(0, x)),
])  # fmt: skip
def test_functions_that_pytorch_does_not_differentiate(name: str, wanted: Any) -> None:
    found = getattr(special, name)(leaf(X))
    assert not found.requires_grad
    np.testing.assert_allclose(found.numpy(), wanted(X), rtol=1e-10)


def test_polynomials_of_tensors_and_numbers() -> None:
    x, degrees = torch.from_numpy(UNIT), torch.tensor([0, 1, 2, 5])
    np.testing.assert_allclose(
        special.chebyshev_polynomial_t(x, degrees).numpy(), sp.eval_chebyt([0, 1, 2, 5], UNIT)
    )
    np.testing.assert_allclose(special.hermite_polynomial_h(x, 3).numpy(), sp.eval_hermite(3, UNIT))
    theta = np.arccos(UNIT)
    np.testing.assert_allclose(
        special.chebyshev_polynomial_w(x, 4).numpy(), np.sin(4.5 * theta) / np.sin(theta / 2)
    )
    assert special.legendre_polynomial_p(x, -1).tolist() == [0.0] * 4


def test_integers_and_half_precision() -> None:
    assert torch.erf(torch.tensor([1, 2])).dtype is torch.float32
    assert torch.lgamma(torch.tensor([3.0], dtype=torch.float16)).dtype is torch.float16
    assert torch.gcd(torch.tensor([12, -8]), torch.tensor([18, 12])).tolist() == [6, 4]
    assert torch.lcm(torch.tensor([4, 6]), torch.tensor([6, 4])).tolist() == [12, 12]
    with pytest.raises(NotImplementedError, match="gcd_cpu"):
        torch.gcd(torch.ones(2), torch.ones(2))


def test_in_place_functions_write_into_their_operand() -> None:
    for name in ("exp_", "sin_", "erf_", "square_", "deg2rad_", "nan_to_num_", "reciprocal_"):
        x = torch.tensor([0.5, 0.25])
        assert getattr(torch, name)(x) is x
        plain = getattr(torch, name[:-1])(torch.tensor([0.5, 0.25]))
        assert x.tolist() == plain.tolist()
