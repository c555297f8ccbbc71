"""`functrace.compat.autograd` beside HIPS autograd: a grid of its operators over functions of both
namespaces.
"""

from __future__ import annotations

import importlib
import itertools
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

pytest.importorskip("autograd")
OURS, THEIRS = "functrace.compat.autograd", "autograd"
TOL = {"rtol": 1e-8, "atol": 1e-9}

X = np.array([0.31, 0.74, 0.52])  # inside of all domains
M = np.array([[1.3, 0.2, -0.4], [0.5, 1.1, 0.3], [-0.2, 0.6, 0.9]])
V, W = np.array([0.7, -0.4, 1.2]), np.array([[0.3, -1.0, 0.5], [0.2, 0.8, -0.6], [1.1, 0.4, 0.9]])

EYE = np.eye(3)

ELEMENTWISE = [
    "abs", "negative", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh",
    "arcsinh", "arctanh",
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "square", "reciprocal",
    "sinc", "absolute", "fabs",
    "degrees", "radians", "deg2rad", "floor", "sign",
]  # fmt: skip
SPECIAL = [
    "gammaln", "gamma", "psi", "digamma", "rgamma", "erf", "erfc", "erfinv", "erfcinv", "expit",
    "logit", "j0", "j1",
    "y0", "y1", "i0", "i1",
]  # fmt: skip
REDUCTIONS = ["sum", "mean", "prod", "std", "var", "max", "min", "cumsum", "linalg.norm"]
BINARY = [
    "add", "subtract", "multiply", "divide", "power", "maximum", "minimum", "logaddexp",
    "logaddexp2", "arctan2",
    "hypot", "true_divide",
]  # fmt: skip
OF_MATRICES: dict[str, Callable[[Any, Any], Any]] = {
    "dot": lambda np, a: np.dot(a, W) + np.dot(V, a),
    "matmul": lambda np, a: a @ W @ a,
    "einsum": lambda np, a: np.einsum("ij,jk->ki", a, W),
    "tensordot": lambda np, a: np.tensordot(a, W, axes=1) + np.tensordot(W, a, 1),
    "outer, inner": lambda np, a: np.outer(a, V) + np.sum(np.inner(a, W)),
    "kron": lambda np, a: np.kron(a, W),
    "trace, diag": lambda np, a: np.trace(a) * np.diag(a),
    "triu, tril": lambda np, a: np.triu(a) @ np.tril(a, -1),
    "transpose": lambda np, a: np.transpose(a) * a.T[::-1],
    "concatenate": lambda np, a: np.concatenate([a, a * 2.0], axis=1),
    "stacks": lambda np, a: (
        np.vstack([a, np.hstack([a[:, :1], a[:, 1:]])]) + np.sum(np.stack([a, a]))
    ),
    "array of numbers": lambda np, a: np.array([a[0, 0], 1.0, a[1, 2] * a[0, 1]]),
    "array of rows": lambda np, a: np.array([a[0], a[1] * 2.0]),
    "where, clip": lambda np, a: np.where(a > 0.4, a**2, 0.0) + np.clip(a, -0.3, 1.0),
    "sort": lambda np, a: np.sort(a[1]) * V,  # (autograd's forward mode sorts matrices wrongly)
    "reshape, ravel": lambda np, a: np.reshape(a, (9,)) * np.ravel(a.T),
    "index": lambda np, a: a[[0, 2, 2]] * a[::-1, 1:2],
    "repeat, tile": lambda np, a: np.repeat(a, 2, axis=0) * np.tile(a, (2, 1)),
    "roll, flip": lambda np, a: np.roll(a, 1, axis=0) * np.flipud(a) * np.fliplr(a),
    "pad": lambda np, a: np.pad(a, 1, "constant") ** 2,
    "diff, gradient": lambda np, a: np.diff(a, axis=1) ** 2 + np.sum(np.gradient(a, axis=0) ** 2),
    "inv": lambda np, a: np.linalg.inv(a),
    "det": lambda np, a: np.linalg.det(a) * np.linalg.slogdet(a)[1],
    "solve": lambda np, a: np.linalg.solve(a, V) + np.linalg.solve(a, W)[0],
    "pinv": lambda np, a: np.linalg.pinv(a[:, :2]),
    "eigh": lambda np, a: np.linalg.eigh(a + a.T)[0],
    "cholesky": lambda np, a: np.linalg.cholesky(a @ a.T),
    "svd": lambda np, a: np.linalg.svd(a)[1],
    "norm": lambda np, a: np.linalg.norm(a, axis=1) + np.linalg.norm(a),
    "fft": lambda np, a: np.abs(np.fft.fft(a)) ** 2 + np.real(np.fft.ifft2(a)),
    "broadcast": lambda np, a: (a[:, None] + a[None]) * a[0],
    "expand, squeeze, swap": lambda np, a: np.squeeze(np.swapaxes(np.expand_dims(a, 1), 0, 1)) ** 2,
}
STATS: dict[str, Callable[[Any, Any], Any]] = {
    "norm": lambda s, x: (
        s.norm.pdf(x, 0.2, 1.3)
        + s.norm.cdf(0.3, x, 0.7)
        + s.norm.logpdf(0.4, 0.1, x)
        + s.norm.logcdf(x)
    ),
    "norm's other tail": lambda s, x: s.norm.sf(x, 0.1) + s.norm.logsf(x, 0.2, 1.1),
    "t": lambda s, x: s.t.logpdf(x, 3.0) + s.t.pdf(x, 4.0, 0.1, 1.2),
    "beta": lambda s, x: (
        s.beta.logpdf(x, 2.0, 3.0) + s.beta.pdf(x, 1.5, 2.5) + s.beta.cdf(x, 2.0, 2.0)
    ),
    "gamma": lambda s, x: s.gamma.logpdf(x, 2.0) + s.gamma.cdf(x, 1.5) + s.gamma.pdf(x, 2.5),
    "chi2": lambda s, x: s.chi2.logpdf(x, 3.0) + s.chi2.cdf(x, 4.0),
    "poisson": lambda s, x: s.poisson.logpmf(2, x) + s.poisson.pmf(1, x) + s.poisson.cdf(2, x),
    "multivariate_normal": lambda s, x: (
        s.multivariate_normal.logpdf(x, V, EYE) * s.multivariate_normal.pdf(x, V, EYE)
    ),
    "dirichlet": lambda s, x: s.dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), x),
}


class Names(types.SimpleNamespace):
    """The modules of one of the two."""

    def __init__(self, package: str) -> None:
        names = (
            "differential_operators", "numpy", "scipy.special", "scipy.stats", "scipy.linalg",
            "scipy.signal",
        )  # fmt: skip
        super().__init__(
            **{
                name.replace(".", "_"): importlib.import_module(f"{package}.{name}")
                for name in names
            }
        )


def named(module: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        module = getattr(module, part)
    return module


def functions(n: Names) -> dict[str, tuple[Callable[..., Any], Any]]:
    """Functions of one argument in the names of one package, and where they are taken."""
    table: dict[str, tuple[Callable[..., Any], Any]] = {}
    for name in ELEMENTWISE:
        table[name] = named(n.numpy, name), X
    for name in SPECIAL:
        table[f"special.{name}"] = named(n.scipy_special, name), X
    for name, axis in itertools.product(REDUCTIONS, (None, 0, 1)):
        if name != "cumsum" or axis is not None:
            table[f"{name} {axis}"] = (
                (lambda x, name=name, axis=axis: named(n.numpy, name)(x, axis=axis)),
                M,
            )
    for name in BINARY:
        f = named(n.numpy, name)
        table[f"{name}, left"] = (lambda x, f=f: f(x, V**2)), X
        table[f"{name}, right, broadcast"] = (lambda x, f=f: f(W**2, x)), X
        table[f"{name}, both"] = (lambda x, f=f: f(x, x * x + 0.1)), X
    for name, of_matrix in OF_MATRICES.items():
        table[name] = (lambda a, f=of_matrix: f(n.numpy, a)), M
    for name, of_stats in STATS.items():
        table[f"stats {name}"] = (lambda x, f=of_stats: f(n.scipy_stats, x)), X
    table["logsumexp"] = (lambda a: n.scipy_special.logsumexp(a, axis=1)), M
    table["multigammaln"] = (lambda x: n.scipy_special.multigammaln(x + 2.0, 2)), np.array(0.7)
    table["betainc, beta"] = (
        (lambda x: n.scipy_special.betainc(2.0, 3.0, x) + n.scipy_special.beta(x, 1.5)),
        X,
    )
    table["polygamma, iv"] = (
        (lambda x: n.scipy_special.polygamma(1, x) + n.scipy_special.iv(1.0, x)),
        X,
    )
    table["sqrtm"] = (lambda a: n.scipy_linalg.sqrtm(a @ a.T)), M
    table["solve_triangular"] = (lambda a: n.scipy_linalg.solve_triangular(a, V, lower=True)), M
    for mode in ("full", "valid"):
        table[f"convolve {mode}"] = (
            (lambda a, mode=mode: n.scipy_signal.convolve(a, W[:2, :2], mode=mode)),
            M,
        )
    table["convolve axes"] = (
        (lambda a: n.scipy_signal.convolve(a, W[:, :2], axes=([1], [1]), dot_axes=([0], [0]))),
        M,
    )
    return table


OPERATORS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "value_and_grad": lambda d, f, x: d.value_and_grad(lambda x: total(f(x)))(x),
    "elementwise_grad": lambda d, f, x: d.elementwise_grad(f)(x),
    "jacobian": lambda d, f, x: d.jacobian(f)(x),
    "hessian": lambda d, f, x: d.hessian(lambda x: total(f(x)))(x),
    "hessian_vector_product": lambda d, f, x: d.hessian_vector_product(lambda x: total(f(x)))(
        x, np.cos(x)
    ),
    "vector_jacobian_product": lambda d, f, x: d.vector_jacobian_product(f)(
        x, np.ones(np.shape(f(x)))
    ),
    "make_vjp": lambda d, f, x: d.make_vjp(f)(x)[0](np.cos(f(x))),
    "make_jvp": lambda d, f, x: d.make_jvp(f)(x)(np.cos(x)),
    "make_jvp_reversemode": lambda d, f, x: d.make_jvp_reversemode(f)(x)(np.cos(x)),
    "make_hvp": lambda d, f, x: d.make_hvp(lambda x: total(f(x)))(x)[0](np.cos(x)),
    "deriv": lambda d, f, x: d.deriv(f)(x),
}


def total(y: Any) -> Any:
    """A sum that is no linear function."""
    return (y * y).sum() if getattr(y, "ndim", 0) else y * y


def outcome(operator: Callable[..., Any], n: Names, f: Any, x: Any) -> Any:
    """The results of an operator as arrays, or the class of its exception."""
    try:
        found = operator(n.differential_operators, f, x)
    except (NotImplementedError, TypeError, ValueError, AttributeError) as error:
        return type(error)
    return [np.asarray(part) for part in (found if isinstance(found, tuple) else (found,))]


def equal(a: Any, b: Any) -> bool:
    return a.shape == b.shape and np.allclose(a, b, **TOL, equal_nan=True)


def test_operators_over_functions() -> None:
    ours, theirs = Names(OURS), Names(THEIRS)
    compared, missing, wrong = 0, 0, []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for (name, (f, x)), (g, _) in zip(
            functions(ours).items(), functions(theirs).values(), strict=True
        ):
            for called, operator in OPERATORS.items():
                expected = outcome(operator, theirs, g, x)
                if isinstance(expected, type):
                    missing += 1  # autograd has no rule: nothing to compare with
                    continue
                found = outcome(operator, ours, f, x)
                compared += 1
                if isinstance(found, type) or not all(map(equal, found, expected)):
                    wrong.append(f"{called} of {name}: {found} instead of {expected}")
    assert not wrong, "\n".join(wrong)
    assert compared > 1100, (compared, missing)
