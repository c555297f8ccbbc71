"""Distributions of vectors and matrices; see `functrace.scipy.stats`.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any, final

import numpy as np
import scipy.stats

from functrace.api.capture.programs import stop_gradient
from functrace.errors import ShapeError
from functrace.numpy.protocol.operands import arrayed, holds_tracer
from functrace.scipy import linalg, special
from functrace.scipy.kinds import cholesky, where
from functrace.scipy.operands import Nested, Numeric, Operand, Scalar, X
from functrace.scipy.stats.continuous import beta
from functrace.scipy.stats.positive import chi2
from functrace.scipy.stats.sampling import RandomState, Size, check_drawn_here, drawn, follower
from functrace.typing import Array

_LOG_2PI = math.log(2 * math.pi)
_MULTIVARIATE_T: Any = scipy.stats.multivariate_t


def _double(x: Operand) -> Any:
    made: Any = arrayed(x)
    return made if made.dtype == np.float64 else made.astype(np.float64)


def _is_traced(*arguments: object) -> bool:
    return any(map(holds_tracer, arguments))  # type: ignore[arg-type]


def _sizes(size: Size) -> tuple[int, ...]:
    return tuple(np.atleast_1d(np.asarray(1 if size is None else size, int)).tolist())


def _as_scipys(x: Array) -> Any:
    """Return a sample of vectors in SciPy's form: without axes of length 1."""
    return np.squeeze(x) if x.size != 1 else x.reshape(())


def _whitened(
    name: str, x: Operand, centre: Operand | None, scale: Operand
) -> tuple[Any, Any, int]:
    """Return squared Mahalanobis distances, half the logarithm of the determinant, and the
    dimension.

    Args:
        name: name of the distribution, for messages.
        x: shape (..., d).
        centre: shape (d,); zeros by default.
        scale: shape (d, d), positive definite; a vector is its diagonal, a number every diagonal
            element.

    Raises:
        ShapeError: if shapes do not fit.
        LinAlgError: if the matrix is not positive definite.
    """
    at, matrix = _double(x), _double(scale)
    shift = _double(0.0 if centre is None else centre)
    size = matrix.shape[-1] if matrix.ndim == 2 else shift.shape[-1] if shift.ndim else 1
    if matrix.ndim == 1 and matrix.shape[0] != size:
        raise ShapeError(
            f"{name}: {matrix.shape[0]} scales of {size} dimensions", fix="pass the centre, too"
        )
    if matrix.ndim < 2:
        matrix = matrix * np.eye(size)
    if size == 1 and (at.ndim == 0 or at.shape[-1] != 1):
        at = np.reshape(at, (*at.shape, 1))
    if at.shape[-1] != size:
        raise ShapeError(
            f"{name} of {size} dimensions takes x of shape (..., {size})", fix="add an axis"
        )
    centred = np.atleast_2d(at - shift)
    factor = cholesky(matrix)
    scaled = linalg.solve_triangular(factor, centred.reshape(-1, size).T, lower=True)
    squares = np.sum(scaled * scaled, axis=0).reshape(centred.shape[:-1])
    return squares, np.sum(np.log(np.diagonal(factor))), size


@final
class Frozen:
    """A distribution with traced parameters: ``stats.multivariate_normal(mean, cov).logpdf(x)``.

    Args:
        dist: the distribution.
        parameters: parameters by name.
        seed: ``random_state`` of samples by default.
        options: options of the densities, by name.
    """

    dist: Any

    def __init__(
        self, dist: object, parameters: dict[str, Any], seed: RandomState, **options: bool
    ) -> None:
        self.dist, self.parameters, self.seed, self.options = dist, parameters, seed, options

    def logpdf(self, x: Operand) -> Any:
        """Return the logarithm of the density at ``x``."""
        return self.dist.logpdf(x, **self.parameters, **self.options)

    def pdf(self, x: Operand) -> Any:
        """Return the density at ``x``."""
        return self.dist.pdf(x, **self.parameters, **self.options)

    def rvs(self, size: Size = 1, random_state: RandomState = None) -> Any:
        """Draw a sample, differentiable by the parameters."""
        random_state = self.seed if random_state is None else random_state
        return self.dist.rvs(**self.parameters, size=size, random_state=random_state)

    def __getattr__(self, name: str) -> Any:
        """Return SciPy's method: it raises for traced values."""
        if name.startswith("__"):
            raise AttributeError(name)
        method = getattr(self.dist, name)

        def of_parameters(*args: Operand) -> Any:
            return method(*args, **self.parameters)

        return of_parameters


@final
class MultivariateNormal:
    """``scipy.stats.multivariate_normal``: ``logpdf`` and ``pdf``, by a Cholesky factor of the
    covariance.

    Args:
        mean: shape (d,); zeros by default.
        cov: shape (d, d), positive definite; a vector is its diagonal, a number all variances.
        allow_singular: True to allow a singular covariance, which has no derivative here.
        seed: ``random_state`` of samples by default.

    Returns:
        when called, the distribution with these parameters: a `Frozen`, or SciPy's for plain
        values.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> ft.grad(lambda mean: stats.multivariate_normal.logpdf(np.ones(2), mean, np.eye(2)))(np.zeros(2))
        array([1., 1.])
    """

    def __getattr__(self, name: str) -> Any:
        """Return SciPy's method of the same name, for plain values."""
        return getattr(scipy.stats.multivariate_normal, name)

    def __call__(
        self,
        mean: Numeric[X, "d"] | Numeric[X, ""] | Nested | None = None,
        cov: Numeric[X, "d d"]
        | Numeric[X, "d"]
        | Numeric[X, ""]
        | Nested
        | scipy.stats.Covariance = 1,
        allow_singular: bool = False,
        seed: RandomState = None,
    ) -> Any:
        """Return the distribution with these parameters."""
        if _is_traced(mean, cov):
            return Frozen(self, {"mean": mean, "cov": cov}, seed, allow_singular=allow_singular)
        return scipy.stats.multivariate_normal(mean, cov, allow_singular, seed)  # type: ignore[arg-type]

    def rvs(
        self,
        mean: Numeric[X, "d"] | Numeric[X, ""] | Nested | None = None,
        cov: Numeric[X, "d d"]
        | Numeric[X, "d"]
        | Numeric[X, ""]
        | Nested
        | scipy.stats.Covariance = 1,
        size: Size = 1,
        random_state: RandomState = None,
    ) -> Any:
        """Return a sample, differentiable by mean and covariance (its Cholesky factor).

        Args:
            mean: shape (d,); zeros by default.
            cov: shape (d, d), positive definite; a vector is its diagonal.
            size: size of the sample.
            random_state: see `functrace.scipy.stats.distribution.Distribution.rvs`.

        Returns:
            float64, shape (size, d), without axes of size 1.
        """
        if not _is_traced(mean, cov, random_state):
            check_drawn_here("scipy.stats.multivariate_normal.rvs", random_state)
            return scipy.stats.multivariate_normal.rvs(mean, cov, size, random_state)  # type: ignore[arg-type]
        matrix, centre = _double(cov), _double(0.0 if mean is None else mean)
        d = max(matrix.shape[-1] if matrix.ndim else 1, centre.shape[-1] if centre.ndim else 1)
        matrix = matrix * np.eye(d) if matrix.ndim < 2 else matrix
        centre = np.broadcast_to(centre, (d,))
        shape = (*_sizes(size), d)
        x = drawn("multivariate_normal", random_state, shape, "float64", (centre, matrix), event=1)
        held = cholesky(stop_gradient(matrix))
        standard = linalg.solve_triangular(
            held, (x - stop_gradient(centre)).reshape(-1, d).T, lower=True
        )
        moved = (cholesky(matrix) @ standard).T.reshape(shape) + centre
        return _as_scipys(moved)

    def logpdf(
        self,
        x: Operand,
        mean: Numeric[X, "d"] | Numeric[X, ""] | Nested | None = None,
        cov: Numeric[X, "d d"]
        | Numeric[X, "d"]
        | Numeric[X, ""]
        | Nested
        | scipy.stats.Covariance = 1,
        allow_singular: bool = False,
    ) -> Any:
        """Return the logarithm of the density.

        Args:
            x: shape (..., d).
            mean: shape (d,); zeros by default.
            cov: shape (d, d), positive definite; a vector is its diagonal, a number all variances.
            allow_singular: True to allow a singular covariance, which has no derivative here.

        Returns:
            float64, shape (...).

        Raises:
            LinAlgError: if the covariance is not positive definite.
            ShapeError: for ``allow_singular=True`` of traced values.
        """
        if not any(map(holds_tracer, (x, mean, cov))):
            scale = cov if isinstance(cov, scipy.stats.Covariance) else _double(cov)
            return scipy.stats.multivariate_normal.logpdf(x, mean, scale, allow_singular)
        if allow_singular:
            raise ShapeError(
                "multivariate_normal with allow_singular=True has no derivative by the covariance",
                fix="leave it out, and add a small multiple of the identity to the covariance",
            )
        squares, half, size = _whitened("multivariate_normal", x, mean, cov)
        return np.squeeze(-0.5 * squares - half - 0.5 * size * _LOG_2PI)

    def pdf(
        self,
        x: Operand,
        mean: Numeric[X, "d"] | Numeric[X, ""] | Nested | None = None,
        cov: Numeric[X, "d d"]
        | Numeric[X, "d"]
        | Numeric[X, ""]
        | Nested
        | scipy.stats.Covariance = 1,
        allow_singular: bool = False,
    ) -> Any:
        """Return the density; see `logpdf`."""
        return np.exp(self.logpdf(x, mean, cov, allow_singular))


@final
class MultivariateT:
    """``scipy.stats.multivariate_t``: ``logpdf``, ``pdf`` and ``entropy``, by a Cholesky factor of
    the shape matrix.

    Args:
        loc: shape (d,); zeros by default.
        shape: shape (d, d), positive definite; a vector is its diagonal, a number every diagonal
            element.
        df: degrees of freedom, positive; infinity gives a normal distribution.
        allow_singular: True to allow a singular matrix, for plain values only.
        seed: ``random_state`` of samples by default.

    Returns:
        when called, the distribution with these parameters: a `Frozen`, or SciPy's for plain
        values.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> ft.grad(lambda loc: stats.multivariate_t.logpdf(np.ones(2), loc, np.eye(2), df=2.0))(np.zeros(2))
        array([1., 1.])
    """

    def __getattr__(self, name: str) -> Any:
        """Return SciPy's method of the same name, for plain values."""
        return getattr(_MULTIVARIATE_T, name)

    def __call__(
        self,
        loc: Numeric[X, "d"] | Numeric[X, ""] | Nested | None = None,
        shape: Numeric[X, "d d"] | Numeric[X, "d"] | Numeric[X, ""] | Nested = 1,
        df: Numeric[X, ""] | Scalar = 1,
        allow_singular: bool = False,
        seed: RandomState = None,
    ) -> Any:
        """Return the distribution with these parameters."""
        if not _is_traced(loc, shape, df):
            return _MULTIVARIATE_T(loc, shape, df, allow_singular, seed)
        if allow_singular:
            raise ShapeError(
                "multivariate_t with allow_singular=True has no derivative by the shape matrix",
                fix="leave it out, and add a small multiple of the identity to the matrix",
            )
        return Frozen(self, {"loc": loc, "shape": shape, "df": df}, seed)

    def logpdf(
        self,
        x: Operand,
        loc: Numeric[X, "d"] | Numeric[X, ""] | Nested | None = None,
        shape: Numeric[X, "d d"] | Numeric[X, "d"] | Numeric[X, ""] | Nested = 1,
        df: Numeric[X, ""] | Scalar = 1,
    ) -> Any:
        """Return the logarithm of the density.

        Args:
            x: shape (..., d).
            loc: shape (d,); zeros by default.
            shape: shape (d, d), positive definite; a vector is its diagonal, a number every
                diagonal element.
            df: degrees of freedom, positive; infinity gives a normal density.

        Returns:
            float64, shape (...).

        Raises:
            LinAlgError: if the matrix is not positive definite.
        """
        if not _is_traced(x, loc, shape, df):
            return _MULTIVARIATE_T.logpdf(x, loc, shape, df)
        squares, half, size = _whitened("multivariate_t", x, loc, shape)
        freedom = _double(df)
        is_normal = np.isinf(freedom)
        finite = where(is_normal, 1.0, freedom)
        constant = (
            special.gammaln((finite + size) / 2)
            - special.gammaln(finite / 2)
            - 0.5 * size * np.log(finite * math.pi)
        )
        of_t = constant - (finite + size) / 2 * np.log1p(squares / finite)
        return np.squeeze(where(is_normal, -0.5 * squares - 0.5 * size * _LOG_2PI, of_t) - half)

    def pdf(
        self,
        x: Operand,
        loc: Numeric[X, "d"] | Numeric[X, ""] | Nested | None = None,
        shape: Numeric[X, "d d"] | Numeric[X, "d"] | Numeric[X, ""] | Nested = 1,
        df: Numeric[X, ""] | Scalar = 1,
    ) -> Any:
        """Return the density; see `logpdf`."""
        return np.exp(self.logpdf(x, loc, shape, df))

    def entropy(
        self,
        loc: Numeric[X, "d"] | Numeric[X, ""] | Nested | None = None,
        shape: Numeric[X, "d d"] | Numeric[X, "d"] | Numeric[X, ""] | Nested = 1,
        df: Numeric[X, ""] | Scalar = 1,
    ) -> Any:
        """Return the differential entropy in nats, for finite degrees of freedom; see `logpdf`."""
        if not _is_traced(loc, shape, df):
            return _MULTIVARIATE_T.entropy(loc, shape, df)
        centre = np.zeros(_double(shape if loc is None else loc).shape[-1:])
        _, half, size = _whitened("multivariate_t", np.zeros(centre.shape or (1,)), centre, shape)
        freedom = _double(df)
        both = (freedom + size) / 2
        constant = (
            special.gammaln(freedom / 2)
            - special.gammaln(both)
            + 0.5 * size * np.log(freedom * math.pi)
        )
        return constant + both * (special.digamma(both) - special.digamma(freedom / 2)) + half


@final
class Dirichlet:
    """``scipy.stats.dirichlet``: ``logpdf`` and ``pdf``.

    Args:
        alpha: concentrations, shape (d,), positive.
        seed: ``random_state`` of samples by default.

    Returns:
        when called, the distribution with these parameters: a `Frozen`, or SciPy's for plain
        values.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> np.round(ft.grad(lambda alpha: stats.dirichlet.logpdf(np.array([0.3, 0.7]), alpha))(np.ones(2)), 4)
        array([-0.204 ,  0.6433])
    """

    def __getattr__(self, name: str) -> Any:
        """Return SciPy's method of the same name, for plain values."""
        return getattr(scipy.stats.dirichlet, name)

    def __call__(self, alpha: Numeric[X, "d"] | Nested, seed: RandomState = None) -> Any:
        """Return the distribution with these parameters."""
        if _is_traced(alpha):
            return Frozen(self, {"alpha": alpha}, seed)
        return scipy.stats.dirichlet(alpha, seed)

    def rvs(
        self, alpha: Numeric[X, "d"] | Nested, size: Size = 1, random_state: RandomState = None
    ) -> Any:
        """Return a sample, shape (size, d): beta-distributed shares of the remainder.

        Args:
            alpha: shape (d,), positive.
            size: size of the sample.
            random_state: see `functrace.scipy.stats.distribution.Distribution.rvs`.
        """
        if not _is_traced(alpha, random_state):
            check_drawn_here("scipy.stats.dirichlet.rvs", random_state)
            return scipy.stats.dirichlet.rvs(alpha, size, random_state)  # type: ignore[arg-type]
        powers = _double(alpha)
        d = powers.shape[-1]
        x = drawn("dirichlet", random_state, (*_sizes(size), d), "float64", (powers,), event=1)
        left: Any = 1.0
        parts: list[Any] = []
        for k in range(d - 1):
            rest = np.sum(x[..., k + 1 :], axis=-1)
            share = follower(beta)(
                x[..., k] / (x[..., k] + rest), powers[k], np.sum(powers[k + 1 :])
            )
            parts.append(left * share)
            left = left * (1.0 - share)
        return np.stack([*parts, left * np.ones(x.shape[:-1])], axis=-1)

    def logpdf(self, x: Numeric[X, "k *n"] | Nested, alpha: Numeric[X, "d"] | Nested) -> Any:
        """Return the logarithm of the density.

        Args:
            x: shape (d,) or (d, n), columns that sum to 1; if one element is missing, it is
                computed.
            alpha: shape (d,), positive.

        Returns:
            float64, shape (n,), or () for one point.

        Raises:
            ShapeError: if ``x`` and ``alpha`` do not fit.
        """
        if not holds_tracer(x) and not holds_tracer(alpha):
            return scipy.stats.dirichlet.logpdf(x, alpha)
        at, powers = _double(x), _double(alpha)
        if at.shape[0] + 1 == powers.shape[0]:
            at = np.concatenate([at, 1.0 - np.sum(at, axis=0, keepdims=True)])
        if at.shape[0] != powers.shape[0]:
            raise ShapeError(
                f"dirichlet: x of shape {at.shape} and alpha of shape {powers.shape} do not fit",
                fix="pass x of shape (d, ...)",
            )
        factors = special.xlogy((powers - 1.0).reshape(-1, *(1,) * (at.ndim - 1)), at)
        return np.squeeze(
            np.sum(factors, axis=0)
            + special.gammaln(np.sum(powers))
            - np.sum(special.gammaln(powers))
        )

    def pdf(self, x: Numeric[X, "k *n"] | Nested, alpha: Numeric[X, "d"] | Nested) -> Any:
        """Return the density; see `logpdf`."""
        return np.exp(self.logpdf(x, alpha))


@final
class Wishart:
    """``scipy.stats.wishart``: ``logpdf`` and ``pdf`` of positive definite matrices.

    Args:
        df: degrees of freedom, more than d - 1.
        scale: shape (d, d), positive definite.
        seed: ``random_state`` of samples by default.

    Returns:
        when called, the distribution with these parameters: a `Frozen`, or SciPy's for plain
        values.

    Example:
        >>> import numpy as np, functrace as ft
        >>> from functrace.scipy import stats
        >>> ft.grad(lambda x: stats.wishart.logpdf(x, 3.0, np.eye(2)))(np.eye(2))
        array([[-0.5,  0. ],
               [ 0. , -0.5]])
    """

    def __getattr__(self, name: str) -> Any:
        """Return SciPy's method of the same name, for plain values."""
        return getattr(scipy.stats.wishart, name)

    def __call__(
        self,
        df: Numeric[X, ""] | Scalar | None = None,
        scale: Numeric[X, "d d"] | Numeric[X, "d"] | Numeric[X, ""] | Nested | None = None,
        seed: RandomState = None,
    ) -> Any:
        """Return the distribution with these parameters."""
        if _is_traced(df, scale):
            return Frozen(self, {"df": df, "scale": scale}, seed)
        return scipy.stats.wishart(df, scale, seed)

    def rvs(
        self,
        df: Numeric[X, ""] | Scalar,
        scale: Numeric[X, "d d"] | Numeric[X, "d"] | Numeric[X, ""] | Nested,
        size: Size = 1,
        random_state: RandomState = None,
    ) -> Any:
        """Return a sample, differentiated by Bartlett's decomposition.

        Args:
            df: degrees of freedom, more than d - 1.
            scale: shape (d, d), positive definite.
            size: size of the sample.
            random_state: see `functrace.scipy.stats.distribution.Distribution.rvs`.

        Returns:
            float64, shape (size, d, d), or (d, d) for one.
        """
        if not _is_traced(df, scale, random_state):
            check_drawn_here("scipy.stats.wishart.rvs", random_state)
            return scipy.stats.wishart.rvs(df, scale, size, random_state)  # type: ignore[arg-type]
        freedom, matrix = _double(df), _double(scale)
        d = matrix.shape[-1]
        shape = (*_sizes(size), d, d)
        x = drawn("wishart", random_state, shape, "float64", (freedom, matrix), event=2)
        held = cholesky(stop_gradient(matrix))
        factor = linalg.solve_triangular(held, cholesky(x), lower=True)
        squares = np.diagonal(factor, axis1=-2, axis2=-1) ** 2
        moved = np.sqrt(follower(chi2)(squares, freedom - np.arange(d)))
        whole = cholesky(matrix) @ (np.tril(factor, -1) + moved[..., None] * np.eye(d))
        found = whole @ np.swapaxes(whole, -1, -2)
        return found[0] if _sizes(size) == (1,) else found

    def logpdf(
        self,
        x: Numeric[X, "d d *n"] | Numeric[X, "n"] | Numeric[X, ""] | Nested,
        df: Numeric[X, ""] | Scalar,
        scale: Numeric[X, "d d"] | Numeric[X, "d"] | Numeric[X, ""] | Nested,
    ) -> Any:
        """Return the logarithm of the density.

        Args:
            x: shape (d, d), positive definite.
            df: degrees of freedom, more than d - 1.
            scale: shape (d, d), positive definite.

        Returns:
            one float64 number.

        Raises:
            ShapeError: if ``x`` and ``scale`` are not matrices of the same shape.
            LinAlgError: if one of them is not positive definite.
        """
        if not any(map(holds_tracer, (x, df, scale))):
            return scipy.stats.wishart.logpdf(x, df, scale)
        at, freedom, matrix = _double(x), _double(df), _double(scale)
        if at.ndim != 2 or at.shape != matrix.shape:
            raise ShapeError(
                f"wishart takes matrices (d, d), got {at.shape} and {matrix.shape}",
                fix="map others with vmap",
            )
        d = at.shape[-1]
        ours, theirs = cholesky(at), cholesky(matrix)
        trace = np.sum(linalg.solve_triangular(theirs, ours, lower=True) ** 2)
        log_at, log_scale = (2.0 * np.sum(np.log(np.diagonal(c))) for c in (ours, theirs))
        norm = 0.5 * freedom * (d * math.log(2) + log_scale) + special.multigammaln(
            0.5 * freedom, d
        )
        return 0.5 * (freedom - d - 1.0) * log_at - 0.5 * trace - norm

    def pdf(
        self,
        x: Numeric[X, "d d *n"] | Numeric[X, "n"] | Numeric[X, ""] | Nested,
        df: Numeric[X, ""] | Scalar,
        scale: Numeric[X, "d d"] | Numeric[X, "d"] | Numeric[X, ""] | Nested,
    ) -> Any:
        """Return the density; see `logpdf`."""
        return np.exp(self.logpdf(x, df, scale))


multivariate_normal = MultivariateNormal()
multivariate_t = MultivariateT()
dirichlet = Dirichlet()
wishart = Wishart()
