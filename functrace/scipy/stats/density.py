"""Densities estimated from samples; see `functrace.scipy.stats`.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, final

import numpy as np
import scipy.stats

from functrace.errors import ShapeError, UnsupportedFunctionError
from functrace.numpy.protocol.operands import arrayed, holds_tracer
from functrace.scipy import linalg, special
from functrace.scipy.kinds import Given, cholesky
from functrace.scipy.operands import Float, Nested, Numeric, Operand, Scalar, X
from functrace.typing import Array


def _double(x: Operand) -> Any:
    made: Any = arrayed(x)
    return made if made.dtype == np.float64 else made.astype(np.float64)


@final
class gaussian_kde:
    """``scipy.stats.gaussian_kde``: kernel density estimate from traced samples and weights.

    Args:
        dataset: samples, shape (n,), or (d, n).
        bw_method: "scott" (the default), "silverman", a factor, or a function of this object that
            returns one.
        weights: weights of the samples, shape (n,), not negative.

    Raises:
        ShapeError: for fewer than two samples, or weights that do not fit.
        LinAlgError: when the program runs, if the samples are in a subspace.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.grad(lambda data: stats.gaussian_kde(data)(0.0)[0])(np.array([-1.0, 0.0, 2.0])), 4)
        array([ 0.0765,  0.0062, -0.0692])

    Cost:
        n m d flops and n m numbers for m points.
    """

    def __init__(
        self,
        dataset: Numeric[X, "n"] | Numeric[X, "d n"] | Nested,
        bw_method: str | Numeric[X, ""] | Scalar | Callable[..., Any] | None = None,
        weights: Numeric[X, "n"] | Nested | None = None,
    ) -> None:
        self._plain: Any = None
        if not holds_tracer([dataset, weights]) and (
            callable(bw_method) or not holds_tracer(bw_method)
        ):
            self._plain = scipy.stats.gaussian_kde(dataset, bw_method, weights)  # type: ignore[arg-type]
        self.dataset: Any = np.atleast_2d(_double(dataset))
        if self.dataset.ndim != 2 or self.dataset.shape[1] < 2:
            raise ShapeError(
                f"gaussian_kde: a dataset of shape {self.dataset.shape} has fewer than two "
                "samples, or too many axes",
                fix="pass shape (n,) or (d, n)",
            )
        self.d, self.n = self.dataset.shape
        given = np.full(self.n, 1.0) if weights is None else np.atleast_1d(_double(weights))
        if given.shape != (self.n,):
            raise ShapeError(
                f"`weights` input should be of length n: {given.shape} of {self.n}",
                fix="one weight per sample",
            )
        self.weights: Any = given / np.sum(given)
        self.neff: Any = 1.0 / np.sum(self.weights**2)
        self.factor: Any = self._factor(bw_method)

    def __getattr__(self, name: str) -> Any:
        """Return SciPy's attribute of the same name, for plain samples."""
        if name.startswith("__") or not hasattr(scipy.stats.gaussian_kde, name):
            raise AttributeError(f"gaussian_kde has no attribute {name!r}")
        if self._plain is None:
            raise UnsupportedFunctionError(
                f"gaussian_kde of traced samples has no {name}",
                fix="use pdf, logpdf, evaluate, integrate_box_1d, covariance, factor",
            )
        return getattr(self._plain, name)

    def scotts_factor(self) -> Any:
        """Scott's factor, ``neff**(-1 / (d + 4))``."""
        return self.neff ** (-1.0 / (self.d + 4))

    def silverman_factor(self) -> Any:
        """Silverman's factor, ``(neff (d + 2) / 4)**(-1 / (d + 4))``."""
        return (self.neff * (self.d + 2.0) / 4.0) ** (-1.0 / (self.d + 4))

    def _factor(self, method: Given) -> Any:
        if method is None or (isinstance(method, str) and method == "scott"):
            return self.scotts_factor()
        if isinstance(method, str):
            if method != "silverman":
                raise ShapeError(
                    f"`bw_method` is {method!r}",
                    fix="use 'scott', 'silverman', a number or a function",
                )
            return self.silverman_factor()
        return method(self) if callable(method) else _double(method)

    @property
    def covariance(self) -> Float[Array, "d d"]:
        """Return the kernel's covariance (d, d): the samples' times the squared factor."""
        centred = self.dataset - np.sum(self.weights * self.dataset, axis=1, keepdims=True)
        unbiased = 1.0 - np.sum(self.weights**2)
        return (self.weights * centred) @ centred.T / unbiased * self.factor**2

    def logpdf(
        self, x: Numeric[X, "m"] | Numeric[X, "d m"] | Numeric[X, ""] | Nested
    ) -> Float[Array, "points"]:
        """Return the logarithm of the density, shape (m,), at points of shape (m,) or (d, m).

        Raises:
            ShapeError: if the points have another dimension.
        """
        if self._plain is not None and not holds_tracer(x):
            return self._plain.logpdf(x)
        points = np.atleast_2d(_double(x))
        if points.shape[0] != self.d:
            if points.shape[0] != 1 or points.shape[1] != self.d:
                raise ShapeError(
                    f"points have dimension {points.shape[0]}, dataset has dimension {self.d}",
                    fix=f"pass ({self.d}, m)",
                )
            points = points.reshape(self.d, 1)
        lower = cholesky(self.covariance)
        samples = linalg.solve_triangular(lower, self.dataset, lower=True)
        moved = linalg.solve_triangular(lower, points, lower=True)
        squares = np.sum((moved[:, :, None] - samples[:, None, :]) ** 2, axis=0)
        norm = np.sum(np.log(np.diagonal(lower))) + 0.5 * self.d * math.log(2 * math.pi)
        return special.logsumexp(-0.5 * squares, axis=1, b=self.weights) - norm

    def evaluate(
        self, points: Numeric[X, "m"] | Numeric[X, "d m"] | Numeric[X, ""] | Nested
    ) -> Float[Array, "points"]:
        """Return the density at points; see `logpdf`."""
        if self._plain is not None and not holds_tracer(points):
            return self._plain.evaluate(points)
        return np.exp(self.logpdf(points))

    __call__ = pdf = evaluate

    def integrate_box_1d(self, low: Numeric[X, ""] | Scalar, high: Numeric[X, ""] | Scalar) -> Any:
        """Return the probability between two limits, for one-dimensional samples."""
        if self.d != 1:
            raise ShapeError(
                "integrate_box_1d() only handles 1D pdfs", fix="use pdf and a quadrature"
            )
        if self._plain is not None and not holds_tracer([low, high]):
            return self._plain.integrate_box_1d(low, high)
        width = np.sqrt(self.covariance[0, 0])
        upper, lower = ((_double(limit) - self.dataset[0]) / width for limit in (high, low))
        return np.sum(self.weights * (special.ndtr(upper) - special.ndtr(lower)))
