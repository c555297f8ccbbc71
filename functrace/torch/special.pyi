# Written by `python -m tests.torch.stubs` from the rows: the functions of `torch.special`.

import builtins
from typing import Any

from functrace.torch.functions.reductions import Dims
from functrace.torch.tensors.dtypes import DtypeLike
from functrace.torch.tensors.tensor import Operand, Tensor, Value

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "chebyshev_polynomial_t",
    "chebyshev_polynomial_u",
    "chebyshev_polynomial_v",
    "chebyshev_polynomial_w",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcx",
    "erfinv",
    "exp2",
    "expit",
    "expm1",
    "gammainc",
    "gammaincc",
    "gammaln",
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
    "log1p",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "modified_bessel_i0",
    "modified_bessel_i1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "multigammaln",
    "ndtr",
    "ndtri",
    "polygamma",
    "psi",
    "round",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v",
    "shifted_chebyshev_polynomial_w",
    "sinc",
    "softmax",
    "spherical_bessel_j0",
    "xlog1py",
    "xlogy",
    "zeta",
]

def airy_ai(input: Operand, *, out: Any = None) -> Value:
    """Return the Airy function Ai."""

def bessel_j0(input: Operand, *, out: Any = None) -> Value:
    """Return the Bessel function of the first kind of order 0."""

def bessel_j1(input: Operand, *, out: Any = None) -> Value:
    """Return the Bessel function of the first kind of order 1."""

def bessel_y0(input: Operand, *, out: Any = None) -> Value:
    """Return the Bessel function of the second kind of order 0."""

def bessel_y1(input: Operand, *, out: Any = None) -> Value:
    """Return the Bessel function of the second kind of order 1."""

def chebyshev_polynomial_t(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the Chebyshev polynomial T of degree ``n``."""

def chebyshev_polynomial_u(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the Chebyshev polynomial U of degree ``n``."""

def chebyshev_polynomial_v(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the Chebyshev polynomial V of degree ``n``."""

def chebyshev_polynomial_w(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the Chebyshev polynomial W of degree ``n``."""

def digamma(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the derivative of `lgamma`."""

def entr(input: Operand, *, out: Any = None) -> Value:
    """Return the entropy of each element: ``-input * log(input)``."""

def erf(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the error function of each element."""

def erfc(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the complementary error function, ``1 - erf(input)``."""

def erfcx(input: Operand, *, out: Any = None) -> Value:
    """Return the scaled complementary error function, ``exp(input**2) * erfc(input)``."""

def erfinv(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the inverse of the error function."""

def exp2(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the power of 2 of each element."""

def expit(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logistic function ``1 / (1 + exp(-input))`` of each element."""

def expm1(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the exponential minus 1, accurate near 0, of each element."""

def gammainc(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the regularized lower incomplete gamma function."""

def gammaincc(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the regularized upper incomplete gamma function."""

def gammaln(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the logarithm of the absolute value of the gamma function."""

def hermite_polynomial_h(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the physicists' Hermite polynomial of degree ``n``."""

def hermite_polynomial_he(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the probabilists' Hermite polynomial of degree ``n``."""

def i0(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the modified Bessel function of order 0."""

def i0e(input: Operand, *, out: Any = None) -> Value:
    """Return the modified Bessel function of order 0, scaled."""

def i1(input: Operand, *, out: Any = None) -> Value:
    """Return the modified Bessel function of order 1."""

def i1e(input: Operand, *, out: Any = None) -> Value:
    """Return the modified Bessel function of order 1, scaled."""

def laguerre_polynomial_l(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the Laguerre polynomial of degree ``n``."""

def legendre_polynomial_p(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the Legendre polynomial of degree ``n``."""

def log1p(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return ``log(1 + input)``, accurate near 0."""

def log_ndtr(input: Operand, *, out: Any = None) -> Value:
    """Return the logarithm of the normal distribution function."""

def log_softmax(input: Operand, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Value:
    """Return the logarithm of the softmax along a dimension."""

def logit(input: Operand, eps: builtins.float | None = None, *, out: Any = None) -> Value:
    """Return ``log(input / (1 - input))``, with the input limited to ``[eps, 1 - eps]``."""

def logsumexp(input: Operand, dim: Dims, keepdim: builtins.bool = False, *, out: Any = None) -> Value:
    """Return ``log(sum(exp(input)))`` along dimensions, without overflow."""

def modified_bessel_i0(input: Operand, *, out: Any = None) -> Value:
    """Return the modified Bessel function of the first kind of order 0."""

def modified_bessel_i1(input: Operand, *, out: Any = None) -> Value:
    """Return the modified Bessel function of the first kind of order 1."""

def modified_bessel_k0(input: Operand, *, out: Any = None) -> Value:
    """Return the modified Bessel function of the second kind of order 0."""

def modified_bessel_k1(input: Operand, *, out: Any = None) -> Value:
    """Return the modified Bessel function of the second kind of order 1."""

def multigammaln(input: Operand, p: builtins.int, *, out: Any = None) -> Value:
    """Return the logarithm of the multivariate gamma function of dimension ``p``."""

def ndtr(input: Operand, *, out: Any = None) -> Value:
    """Return the normal distribution function: ``(1 + erf(input / sqrt(2))) / 2``."""

def ndtri(input: Operand, *, out: Any = None) -> Value:
    """Return the inverse of the normal distribution function."""

def polygamma(n: builtins.int, input: Operand, *, out: Any = None) -> Value:
    """Return the derivative of order ``n`` of `digamma`."""

def psi(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return the derivative of `lgamma`."""

def round(input: Operand, *, decimals: builtins.int = 0, out: Any = None) -> Value:
    """Return the nearest integer (or number with ``decimals`` digits); halves round to even."""

def scaled_modified_bessel_k0(input: Operand, *, out: Any = None) -> Value:
    """Return the modified Bessel function of the second kind of order 0, times ``exp(input)``."""

def scaled_modified_bessel_k1(input: Operand, *, out: Any = None) -> Value:
    """Return the modified Bessel function of the second kind of order 1, times ``exp(input)``."""

def shifted_chebyshev_polynomial_t(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the shifted Chebyshev polynomial T of degree ``n``."""

def shifted_chebyshev_polynomial_u(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the shifted Chebyshev polynomial U of degree ``n``."""

def shifted_chebyshev_polynomial_v(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the shifted Chebyshev polynomial V of degree ``n``."""

def shifted_chebyshev_polynomial_w(input: Operand, n: Operand, *, out: Any = None) -> Value:
    """Return the shifted Chebyshev polynomial W of degree ``n``."""

def sinc(input: Operand, *, out: Tensor | None = None) -> Value:
    """Return ``sin(pi * input) / (pi * input)``, which is 1 at 0."""

def softmax(input: Operand, dim: builtins.int, *, dtype: DtypeLike | None = None) -> Value:
    """Return the softmax along a dimension."""

def spherical_bessel_j0(input: Operand, *, out: Any = None) -> Value:
    """Return the spherical Bessel function of order 0, ``sin(input) / input``."""

def xlog1py(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return ``input * log1p(other)``, 0 where the input is 0; either may be a number."""

def xlogy(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return ``input * log(other)``, 0 where the input is 0; either may be a number."""

def zeta(input: Operand, other: Operand, *, out: Any = None) -> Value:
    """Return the Hurwitz zeta function: the sum of ``(k + other) ** -input`` over ``k``."""
