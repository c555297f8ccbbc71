"""Distributions: SciPy's methods, from formulas in standard form.

A row (`functrace.scipy.stats.continuous` and similar modules) has the logarithm of the density, the
distribution function and its complement, quantiles and moments of the standard form; ``loc``,
``scale``, supports, invalid arguments, and samples are common to all, and implemented here.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
import scipy.stats

from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.numpy.protocol.operands import Operand, arrayed, holds_tracer
from functrace.ops.sampling import quantile_of_integers
from functrace.scipy.stats.sampling import RandomState, Size, sampled
from functrace.scipy.stats.tails import Formula, logarithm
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.typing import Field, Function


def double(x: Operand) -> Any:
    """Return an array in double precision, in which SciPy computes distributions."""
    made: Any = arrayed(x)
    return made if made.dtype == np.float64 else made.astype(np.float64)


def always(*_shapes: object) -> Any:
    """Return True: shapes have no conditions."""
    return True


def zero(*_shapes: object) -> float:
    """Return 0, the end of a support."""
    return 0.0


def one(*_shapes: object) -> float:
    """Return 1, the end of a support."""
    return 1.0


def infinity(*_shapes: object) -> float:
    """Return infinity, the end of a support."""
    return math.inf


def minus_infinity(*_shapes: object) -> float:
    """Return minus infinity, the start of a support."""
    return -math.inf


def positive(*shapes: Array) -> Any:
    """Return True where all shapes are positive."""
    fits = shapes[0] > 0
    for shape in shapes[1:]:
        fits = fits & (shape > 0)
    return fits


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """Base class of continuous and discrete distributions.

    Args:
        name: SciPy's name.
        shapes: names of the shape parameters.
        log_density: the logarithm of the density (or mass), a function of the observation and the
            shapes.
        lower, upper: the distribution function and its complement.
        quantile, upper_quantile: their inverses.
        allowed: returns True where shapes are valid.
        low, high: the ends of the support, from the shapes.
        inside: a point of the support, or a function of the shapes.
        harmless: shapes that replace invalid ones; 1 each by default.
        log_lower, log_upper: logarithms of ``lower`` and ``upper``, if they are accurate farther
            out than `logarithm` of these.
        mean_formula, var_formula, entropy_formula: for the standard form, if SciPy has one.
        moved: the derivatives of a sample by the shapes, from the sample and the shapes, if more
            accurate than from the distribution function.
        wrapped: SciPy's final transformation of samples.
        is_scaled: True if it has ``scale``, which continuous distributions have.
    """

    name: str
    shapes: tuple[str, ...]
    log_density: Field[Callable[..., Any], Function[Any]]
    lower: Formula | None = None
    upper: Formula | None = None
    quantile: Formula | None = None
    allowed: Formula = always
    low: Formula = minus_infinity
    high: Formula = infinity
    inside: float | Formula = 0.5
    harmless: tuple[float, ...] = ()
    log_lower: Formula | None = None
    log_upper: Formula | None = None
    upper_quantile: Formula | None = None
    mean_formula: Formula | None = None
    var_formula: Formula | None = None
    entropy_formula: Formula | None = None
    moved: Formula | None = None
    wrapped: Formula | None = None
    is_scaled: bool = True

    def __call__(self, *args: Operand, **kwargs: Operand) -> Frozen:
        """Return the distribution with its shapes, ``loc`` and ``scale`` given."""
        return Frozen(self, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        """Return SciPy's method of the same name, for plain values."""
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.scipys, name)

    @property
    def scipys(self) -> Any:
        """SciPy's distribution with this name."""
        return getattr(scipy.stats, self.name)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parameters."""
        return (*self.shapes, "loc", *(("scale",) if self.is_scaled else ()))

    # -- arguments ---------------------------------------------------------------------------------

    def placed(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], more: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        """Return arguments by name.

        Raises:
            ArgumentError: if one is given twice, is missing or is unknown.
        """
        names = (*self.names, *more)
        given = dict(zip(names, args, strict=False))
        if len(args) > len(names) or set(kwargs) - set(names) or set(kwargs) & set(given):
            raise ArgumentError(
                f"{self.name} takes {', '.join(names)} after its argument",
                fix="pass each of them once",
            )
        given |= kwargs
        missing = [name for name in self.shapes if name not in given]
        if missing:
            raise ArgumentError(f"{self.name} needs {', '.join(missing)}", fix="pass it")
        return given

    def _read(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], Any, Any, Any]:
        """Return safe shapes, loc and scale, and whether they are valid."""
        given = self.placed(args, kwargs)
        shapes = [double(given[name]) for name in self.shapes]
        loc, scale = double(given.get("loc", 0.0)), double(given.get("scale", 1.0))
        valid = self.allowed(*shapes) & (scale > 0)
        return self._sane(shapes, valid), loc, np.where(scale > 0, scale, 1.0), valid

    def _sane(self, shapes: list[Any], valid: Array) -> list[Any]:
        """Replace invalid shapes by numbers for which the formulas are safe."""
        instead = self.harmless or (1.0,) * len(shapes)
        return [np.where(valid, s, other) for s, other in zip(shapes, instead, strict=True)]

    def _within(self, fits: Array, z: Array, shapes: list[Any]) -> Any:
        """Replace observations outside of the support by a point of it."""
        return np.where(fits, z, self.inside(*shapes) if callable(self.inside) else self.inside)

    def _plain(
        self, method: str, given: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[bool, Any]:
        """Return True and SciPy's own result if nothing is traced."""
        if any(map(holds_tracer, given)) or any(map(holds_tracer, kwargs.values())):
            return False, None
        return True, getattr(self.scipys, method)(*given, **kwargs)

    def _formula(self, method: str, formula: Callable[..., Any] | None) -> Callable[..., Any]:
        if formula is None:
            raise UnsupportedFunctionError(
                f"scipy.stats.{self.name}.{method} has no formula for traced values",
                fix="compute it of plain values outside, or write it in terms of the density",
            )
        return formula

    # -- densities and distribution functions ------------------------------------------------------

    def _logarithm(self, x: Operand, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        shapes, loc, scale, valid = self._read(args, kwargs)
        z = (double(x) - loc) / scale
        fits = (z >= self.low(*shapes)) & (z <= self.high(*shapes)) & valid
        if not self.is_scaled:
            fits = fits & (np.floor(z) == z)
        found = self.log_density(self._within(fits, z, shapes), *shapes) - np.log(scale)
        return np.where(valid & ~np.isnan(z), np.where(fits, found, -np.inf), np.nan)

    def _function(
        self,
        formula: Callable[..., Any],
        ends: tuple[float, float],
        x: Operand,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        shapes, loc, scale, valid = self._read(args, kwargs)
        z = (double(x) - loc) / scale
        if not self.is_scaled:
            z = np.floor(z)
        low, high = self.low(*shapes), self.high(*shapes)
        below = z < low if not self.is_scaled else z <= low
        fits = ~below & (z < high) & valid
        found = formula(self._within(fits, z, shapes), *shapes)
        found = np.where(fits, found, np.where(below, ends[0], ends[1]))
        return np.where(valid & ~np.isnan(z), found, np.nan)

    def cdf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """Return the probability of at most ``x``.

        Args:
            x: the observation.
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name; all arguments
                broadcast.

        Returns:
            float64, of the broadcast shape of all arguments; NaN for invalid parameters.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("cdf", (x, *args), kwargs)
        return (
            result
            if done
            else self._function(self._formula("cdf", self.lower), (0.0, 1.0), x, args, kwargs)
        )

    def sf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """Return the probability of more than ``x``.

        Args:
            x: the observation.
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name; all arguments
                broadcast.

        Returns:
            float64, of the broadcast shape of all arguments; NaN for invalid parameters. It is 1 -
            `cdf`, without the loss of digits.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("sf", (x, *args), kwargs)
        return (
            result
            if done
            else self._function(self._formula("sf", self.upper), (1.0, 0.0), x, args, kwargs)
        )

    def logcdf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """Return the logarithm of `cdf`.

        Args:
            x: the observation.
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name; all arguments
                broadcast.

        Returns:
            float64, of the broadcast shape of all arguments; NaN for invalid parameters.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("logcdf", (x, *args), kwargs)
        if done:
            return result
        lower = self._formula("logcdf", self.lower)
        formula = self.log_lower or logarithm(lower, self.upper)
        return self._function(formula, (-math.inf, 0.0), x, args, kwargs)

    def logsf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """Return the logarithm of `sf`.

        Args:
            x: the observation.
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name; all arguments
                broadcast.

        Returns:
            float64, of the broadcast shape of all arguments; NaN for invalid parameters.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("logsf", (x, *args), kwargs)
        if done:
            return result
        upper = self._formula("logsf", self.upper)
        formula = self.log_upper or logarithm(upper, self.lower)
        return self._function(formula, (0.0, -math.inf), x, args, kwargs)

    # -- quantiles ---------------------------------------------------------------------------------

    def _inverse(
        self,
        method: str,
        formula: Formula | None,
        q: Operand,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        given = self.placed(args, kwargs)
        if not self.is_scaled:  # a step function: plain numbers with derivative 0
            parameters: list[Any] = [
                arrayed(x)
                for x in (q, *[given[name] for name in self.shapes], given.get("loc", 0.0))
            ]
            return quantile_of_integers(self.name, method, *parameters)
        shapes, loc, scale, valid = self._read(args, kwargs)
        p = double(q)
        fits = (p > 0) & (p < 1) & valid
        found = self._formula(method, formula)(np.where(fits, p, 0.5), *shapes)
        ends = (self.low(*shapes), self.high(*shapes))
        first, last = ends if method == "ppf" else ends[::-1]
        outer = np.where(p == 0, first, np.where(p == 1, last, np.nan))
        return np.where(valid, np.where(fits, found, outer) * scale + loc, np.nan)

    def ppf(self, q: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """Return the quantile of a probability ``q``; for integers a step function.

        Args:
            q: the probability, from 0 to 1.
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name; all arguments
                broadcast.

        Returns:
            float64, of the broadcast shape of all arguments; NaN for invalid ones.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("ppf", (q, *args), kwargs)
        return result if done else self._inverse("ppf", self.quantile, q, args, kwargs)

    def isf(self, q: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """Return the value that is exceeded with probability ``q``.

        Args:
            q: the probability, from 0 to 1.
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name; all arguments
                broadcast.

        Returns:
            float64, of the broadcast shape of all arguments; NaN for invalid ones.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("isf", (q, *args), kwargs)
        return result if done else self._inverse("isf", self.upper_quantile, q, args, kwargs)

    def median(self, *args: Operand, **kwargs: Operand) -> Any:
        """Return the quantile of one half.

        Args:
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name.

        Returns:
            float64, of the broadcast shape of the parameters; NaN where they are invalid.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("median", args, kwargs)
        return result if done else self.ppf(0.5, *args, **kwargs)

    def interval(self, confidence: Operand, *args: Operand, **kwargs: Operand) -> tuple[Any, Any]:
        """Return the ends of the central interval with a given probability.

        Args:
            confidence: the probability of the interval, from 0 to 1.
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name.

        Returns:
            the two ends, each float64, of the broadcast shape of all arguments.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("interval", (confidence, *args), kwargs)
        if done:
            return result
        share = double(confidence)
        return self.ppf((1.0 - share) / 2, *args, **kwargs), self.ppf(
            (1.0 + share) / 2, *args, **kwargs
        )

    def support(self, *args: Operand, **kwargs: Operand) -> tuple[Any, Any]:
        """Return the ends of the support.

        Args:
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name.

        Returns:
            the two ends, each float64, of the broadcast shape of the parameters; NaN where they are
            invalid.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
        """
        done, result = self._plain("support", args, kwargs)
        if done:
            return result
        shapes, loc, scale, valid = self._read(args, kwargs)
        low, high = (
            np.where(valid, end(*shapes) * scale + loc, np.nan) for end in (self.low, self.high)
        )
        return low, high

    # -- moments -----------------------------------------------------------------------------------

    def _moment(
        self, method: str, formula: Formula | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        formula = self._formula(method, formula)
        shapes, loc, scale, valid = self._read(args, kwargs)
        found = formula(*shapes)
        full = {
            "mean": lambda: found * scale + loc,
            "var": lambda: found * scale * scale + 0.0 * loc,
        }
        result = full[method]() if method in full else found + np.log(scale) + 0.0 * loc
        return np.where(valid, result, np.nan)

    def mean(self, *args: Operand, **kwargs: Operand) -> Any:
        """Return the expectation.

        Args:
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name.

        Returns:
            float64, of the broadcast shape of the parameters; NaN where they are invalid.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("mean", args, kwargs)
        return result if done else self._moment("mean", self.mean_formula, args, kwargs)

    def var(self, *args: Operand, **kwargs: Operand) -> Any:
        """Return the variance.

        Args:
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name.

        Returns:
            float64, of the broadcast shape of the parameters; NaN where they are invalid.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("var", args, kwargs)
        return result if done else self._moment("var", self.var_formula, args, kwargs)

    def std(self, *args: Operand, **kwargs: Operand) -> Any:
        """Return the root of the variance.

        Args:
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name.

        Returns:
            float64, of the broadcast shape of the parameters; NaN where they are invalid.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("std", args, kwargs)
        return result if done else np.sqrt(self._moment("var", self.var_formula, args, kwargs))

    def entropy(self, *args: Operand, **kwargs: Operand) -> Any:
        """Return the differential entropy; of integers, the entropy.

        Args:
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name.

        Returns:
            in nats, float64, of the broadcast shape of the parameters; NaN where they are invalid.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values.
        """
        done, result = self._plain("entropy", args, kwargs)
        return result if done else self._moment("entropy", self.entropy_formula, args, kwargs)

    def stats(self, *args: Operand, moments: str = "mv", **kwargs: Operand) -> Any:
        """Return mean and variance (``moments="mv"``, of plain values "s" and "k" as well).

        Args:
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name.
            moments: letters of the moments to return.

        Returns:
            one array, or a tuple of them in the order "mv", each float64, of the broadcast shape of
            the parameters; NaN where they are invalid.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
            UnsupportedFunctionError: if the distribution has no formula for traced values, or for
                "s" and "k".
        """
        done, result = self._plain("stats", args, {**kwargs, "moments": moments})
        if done:
            return result
        wanted = {"m": self.mean, "v": self.var}
        if set(moments) - set(wanted):
            raise UnsupportedFunctionError(
                f"{self.name}.stats of traced values has the moments 'm' and 'v', not {moments!r}",
                fix="pass moments='mv'",
            )
        found = [wanted[letter](*args, **kwargs) for letter in "mv" if letter in moments]
        return found[0] if len(found) == 1 else tuple(found)

    # -- samples -----------------------------------------------------------------------------------

    def rvs(
        self, *args: Operand, size: Size = None, random_state: RandomState = None, **kwargs: Operand
    ) -> Any:
        """Return a sample, the same that SciPy draws.

        A continuous sample is differentiable by ``loc``, ``scale`` and shapes, as a quantile of a
        constant probability; a sample of integers is a constant.

        Args:
            args, kwargs: shapes, ``loc`` and ``scale``, and then ``size``, in SciPy's order.
            size: size of the sample; the parameters' by default.
            random_state: a seed, a ``Generator`` or a ``RandomState``; by default NumPy's global
                state. For abstract values (`jit`, `vmap`, loops in programs), it must be an
                integer: then every call draws the same sample.

        Returns:
            the sample: an array of shape ``size``, or a number.

        Raises:
            ConcretizationError: if another ``random_state`` is given for abstract values.
            ValueError: if parameters are invalid, or do not have the size, like SciPy.

        Source: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018).
        """
        return sampled(self, self.placed(args, kwargs, ("size",)), size, random_state)


@final
class Continuous(Distribution):
    """A continuous distribution of ``scipy.stats``, with ``logpdf`` and ``pdf`` for traced values,
    too.

    Args:
        args, kwargs: in a call, the shapes, ``loc`` (0 by default) and ``scale`` (1 by default), in
            SciPy's order or by name; ``stats.norm(loc, scale).logpdf(x)`` is ``stats.norm.logpdf(x,
            loc, scale)``.

    Returns:
        of a call, the distribution with these parameters: a `Frozen`. Its methods, and those of the
        distribution, broadcast all arguments, and return float64: NaN for invalid parameters, and a
        density of 0 outside of the support.

    Example:
        >>> import functrace as ft
        >>> from functrace.scipy import stats
        >>> ft.grad(lambda loc: stats.norm.logpdf(1.0, loc))(0.0)
        np.float64(1.0)
    """

    __slots__ = ()

    def logpdf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """Return the logarithm of the density at ``x``.

        Args:
            x: the observation.
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name; all arguments
                broadcast.

        Returns:
            float64, of the broadcast shape of all arguments: -inf outside of the support, NaN for
            invalid parameters.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
        """
        done, result = self._plain("logpdf", (x, *args), kwargs)
        return result if done else self._logarithm(x, args, kwargs)

    def pdf(self, x: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """Return the density at ``x``.

        Args:
            x: the observation.
            args, kwargs: shapes, ``loc`` and ``scale``, in SciPy's order or by name; all arguments
                broadcast.

        Returns:
            float64, of the broadcast shape of all arguments: 0 outside of the support, NaN for
            invalid parameters.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
        """
        done, result = self._plain("pdf", (x, *args), kwargs)
        return result if done else np.exp(self._logarithm(x, args, kwargs))


@final
class Discrete(Distribution):
    """A distribution of integers of ``scipy.stats``, with ``logpmf`` and ``pmf`` for traced values,
    too.

    Args:
        args, kwargs: in a call, the shapes and ``loc`` (0 by default), in SciPy's order or by name;
            ``stats.poisson(rate).logpmf(k)`` is ``stats.poisson.logpmf(k, rate)``.

    Returns:
        of a call, the distribution with these parameters: a `Frozen`. Its methods, and those of the
        distribution, broadcast all arguments, and return float64: NaN for invalid parameters, and a
        probability of 0 outside of the support and between integers.

    Example:
        >>> import functrace as ft
        >>> from functrace.scipy import stats
        >>> ft.grad(lambda rate: stats.poisson.logpmf(3, rate))(1.0)
        np.float64(2.0)
    """

    __slots__ = ()

    def logpmf(self, k: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """Return the logarithm of the probability of ``k``.

        Args:
            k: the observation, an integer.
            args, kwargs: shapes and ``loc``, in SciPy's order or by name; all arguments broadcast.

        Returns:
            float64, of the broadcast shape of all arguments: -inf outside of the support, NaN for
            invalid parameters.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
        """
        done, result = self._plain("logpmf", (k, *args), kwargs)
        return result if done else self._logarithm(k, args, kwargs)

    def pmf(self, k: Operand, *args: Operand, **kwargs: Operand) -> Any:
        """Return the probability of ``k``.

        Args:
            k: the observation, an integer.
            args, kwargs: shapes and ``loc``, in SciPy's order or by name; all arguments broadcast.

        Returns:
            float64, of the broadcast shape of all arguments: 0 outside of the support, NaN for
            invalid parameters.

        Raises:
            ArgumentError: if a parameter is missing, unknown, or given twice.
        """
        done, result = self._plain("pmf", (k, *args), kwargs)
        return result if done else np.exp(self._logarithm(k, args, kwargs))


@final
class Frozen:
    """A frozen distribution, like SciPy's: ``stats.norm(loc, scale).logpdf(x)``.

    Args:
        dist: the distribution.
        args, kwds: its parameters.
    """

    def __init__(self, dist: Distribution, args: tuple[Any, ...], kwds: dict[str, Any]) -> None:
        dist.placed(args, kwds)
        self.dist, self.args, self.kwds = dist, args, kwds

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *[f"{name}={value!r}" for name, value in self.kwds.items()]]
        return f"functrace.scipy.stats.{self.dist.name}({', '.join(given)})"

    def __getattr__(self, name: str) -> Any:
        """Return a method of the distribution, ours or SciPy's, with these parameters."""
        if name in _OF_ARGUMENT:
            method = getattr(self.dist, name)

            def of_argument(x: Operand) -> Any:
                return method(x, *self.args, **self.kwds)

            return of_argument
        if name in _OF_PARAMETERS:
            method = getattr(self.dist, name)
            return lambda: method(*self.args, **self.kwds)
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.dist.scipys(*self.args, **self.kwds), name)

    def rvs(self, size: Size = None, random_state: RandomState = None) -> Any:
        """Draw a sample; see `Distribution.rvs`."""
        return self.dist.rvs(*self.args, **self.kwds, size=size, random_state=random_state)

    def stats(self, moments: str = "mv") -> Any:
        """Return moments; see `Distribution.stats`."""
        return self.dist.stats(*self.args, **self.kwds, moments=moments)

    def interval(self, confidence: Operand) -> tuple[Any, Any]:
        """Return the ends of an interval; see `Distribution.interval`."""
        return self.dist.interval(confidence, *self.args, **self.kwds)


_OF_ARGUMENT = {"logpdf", "pdf", "logpmf", "pmf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"}
_OF_PARAMETERS = {"mean", "var", "std", "entropy", "median", "support"}
