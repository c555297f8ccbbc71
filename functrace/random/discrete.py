"""Discrete distributions, and random choices: bits, integers, categories, permutations.

Draws are piecewise constant in the parameters, so their derivative is 0, like that of ``np.floor``.
For the derivative of an expectation, use the score function (the logarithm of the probability), or
a smooth distribution.

Layer: 8.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Bool, Int64, Integer, Shaped, UInt, UInt64

from functrace.errors import ArgumentError, DtypeError, ShapeError
from functrace.ir.aval import aval_of, shape_of
from functrace.numpy.functions.taking import take, take_along_axis
from functrace.numpy.protocol.operands import Arrayed, arrayed, one_axis
from functrace.ops.checks import require
from functrace.ops.random import (
    random_binomial_p,
    random_bits_p,
    random_exponential_p,
    random_integers_p,
    random_multinomial_p,
    random_poisson_p,
    random_uniform_p,
    sample,
)
from functrace.ops.shaping import convert
from functrace.random.arguments import (
    FLOAT,
    INT,
    DtypeLike,
    Nested,
    Real,
    Shape,
    ShapeLike,
    X,
    int_dtype,
    joint_shape,
    parameter,
    parameters,
    sizes,
)
from functrace.random.keys import one_key
from functrace.tracing.tracer import Tracer
from functrace.typing import Array

_WORD = np.dtype(np.uint64)
_MOST = float(2**63 - 1024)
"""The largest double that fits into an int64."""


def bits(
    key: UInt64[X, "2"], shape: ShapeLike = (), dtype: DtypeLike = None
) -> UInt[Array, "*shape"]:
    """Draw unsigned integers with uniformly random bits.

    Args:
        key: uint64, shape (2,).
        shape: shape of the result.
        dtype: an unsigned integer dtype; uint64 by default.

    Returns:
        an array of that shape; for uint64, the words of ``numpy.random.Philox``.

    Raises:
        DtypeError: if ``dtype`` is not unsigned, or ``key`` is not a key.
        ShapeError: if ``key`` is not a key.

    Example:
        >>> import functrace as ft
        >>> ft.random.bits(ft.random.key(0), (4,), "uint8")
        array([169,  47, 184,  34], dtype=uint8)

    Cost:
        3 us, and 3 ns per 8 bytes.
    """
    kind = _WORD if dtype is None else np.dtype(dtype)
    if kind.kind != "u":
        raise DtypeError(
            f"random.bits does not draw {kind}",
            fix="pass an unsigned integer dtype, or use random.randint",
        )
    return sample(random_bits_p, one_key(key, "bits"), sizes(shape, "bits"), kind)


def randint(
    key: UInt64[X, "2"],
    shape: ShapeLike,
    minval: Integer[X, "*#shape"] | Nested,
    maxval: Integer[X, "*#shape"] | Nested,
    dtype: DtypeLike = None,
) -> Integer[Array, "*shape"]:
    """Draw integers from ``minval`` to ``maxval - 1``, uniformly.

    Args:
        key: uint64, shape (2,).
        shape: shape of the result.
        minval: smallest integer; broadcasts to the shape.
        maxval: end of the range, which is excluded; broadcasts to the shape.
        dtype: an integer dtype that holds the range; int64 by default.

    Returns:
        an array of that shape.

    Raises:
        ValueError: if ``maxval`` is not above ``minval``, or the dtype does not hold the range.
        ArgumentError: if a bound has more than 64 bits.
        DtypeError, ShapeError: if ``key`` is not a key, or bounds do not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.randint(ft.random.key(0), (5,), 0, 10)
        array([1, 0, 9, 2, 3])

    Cost:
        3 us, and 5 ns per number.

    Source:
        ``numpy.random.Generator.integers``; JAX's rounds probabilities, and draws ``minval`` from
        an empty range.
    """
    key, kind = one_key(key, "randint"), int_dtype(dtype, "randint", "iu")
    least, most = _bound(minval), _bound(maxval)
    wanted = joint_shape("randint", sizes(shape, "randint"), shape_of(least), shape_of(most))
    return sample(random_integers_p, key, wanted, kind, least, most)


def _bound(x: Integer[X, "..."] | Nested) -> Any:
    if isinstance(x, int) and not isinstance(x, bool):
        if not -(2**63) <= x < 2**64:
            raise ArgumentError(
                f"random.randint: the bound {x} has more than 64 bits",
                fix="random.bits draws all values of 64 bits",
            )
        return np.asarray(x, INT if x < 2**63 else _WORD)
    found = arrayed(x)
    if found.dtype.kind not in "iu":
        raise DtypeError(
            f"random.randint: a bound is {aval_of(found)}, not integers",
            fix="convert it with .astype(int)",
        )
    return found


def bernoulli(
    key: UInt64[X, "2"], p: Real[X, "*#shape"] | Nested = 0.5, shape: ShapeLike | None = None
) -> Bool[Array, "*shape"]:
    """Draw bools that are true with probability ``p``.

    Args:
        key: uint64, shape (2,).
        p: probability; broadcasts to the shape.
        shape: shape of the result; by default that of ``p``.

    Returns:
        an array of bools.

    Raises:
        DtypeError, ShapeError: if ``key`` is not a key, ``dtype`` not supported, or parameters do
            not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.bernoulli(ft.random.key(0), 0.3, (3,))
        array([ True,  True, False])
    """
    shape, (limit,) = parameters("bernoulli", shape, FLOAT, p)
    return sample(random_uniform_p, one_key(key, "bernoulli"), shape, FLOAT) < limit


def rademacher(
    key: UInt64[X, "2"], shape: ShapeLike = (), dtype: DtypeLike = None
) -> Real[Array, "*shape"]:
    """Draw 1 and -1, each with probability 1/2.

    Args:
        key: uint64, shape (2,).
        shape: shape of the result.
        dtype: a signed dtype; int64 by default.

    Returns:
        an array of that shape.

    Raises:
        DtypeError, ShapeError: if ``key`` is not a key, ``dtype`` not supported, or parameters do
            not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.rademacher(ft.random.key(0), (4,))
        array([ 1,  1, -1, -1])
    """
    kind = int_dtype(dtype, "rademacher", "if")
    drawn = sample(
        random_bits_p, one_key(key, "rademacher"), sizes(shape, "rademacher"), np.dtype(np.uint8)
    )
    return convert(drawn & np.uint8(1), kind) * 2 - 1


def poisson(
    key: UInt64[X, "2"],
    lam: Real[X, "*#shape"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Real[Array, "*shape"]:
    """Draw counts from the Poisson distribution of mean ``lam``.

    Args:
        key: uint64, shape (2,).
        lam: mean, not negative; broadcasts to the shape.
        shape: shape of the result; by default that of ``lam``.
        dtype: int64 by default.

    Returns:
        an array of counts.

    Raises:
        ValueError: if ``lam`` is negative, NaN or too large for an int64.
        DtypeError, ShapeError: if ``key`` is not a key, or parameters do not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.poisson(ft.random.key(0), 3.0, (4,))
        array([0, 2, 3, 0])

    Source:
        ``numpy.random.Generator.poisson``.
    """
    kind = int_dtype(dtype, "poisson")
    shape, (mean,) = parameters("poisson", shape, FLOAT, lam)
    return convert(sample(random_poisson_p, one_key(key, "poisson"), shape, INT, mean), kind)


def _counts(n: Real[X, "..."] | Nested, name: str) -> Any:
    found = arrayed(n)
    if found.dtype.kind not in "biuf":
        raise DtypeError(f"random.{name}: n is {aval_of(found)}, not integers", fix="pass integers")
    return convert(found, INT)


def binomial(
    key: UInt64[X, "2"],
    n: Real[X, "*#shape"] | Nested,
    p: Real[X, "*#shape"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Real[Array, "*shape"]:
    """Draw the number of successes in ``n`` trials, each with probability ``p``.

    Args:
        key: uint64, shape (2,).
        n: number of trials; broadcasts to the shape.
        p: probability; broadcasts to the shape.
        shape: shape of the result; by default the parameters' broadcast shape.
        dtype: int64 by default, where JAX's is a float.

    Returns:
        an array of counts.

    Raises:
        ValueError: if ``n`` is negative, or ``p`` not a probability.
        DtypeError, ShapeError: if ``n`` is not an integer, ``key`` is not a key, or parameters do
            not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.binomial(ft.random.key(0), 10, 0.5, (4,))
        array([2, 4, 5, 3])

    Source:
        ``numpy.random.Generator.binomial``.
    """
    kind, chance, count = (
        int_dtype(dtype, "binomial"),
        parameter(p, FLOAT, "binomial"),
        _counts(n, "binomial"),
    )
    shape = joint_shape("binomial", shape, shape_of(count), shape_of(chance))
    return convert(
        sample(random_binomial_p, one_key(key, "binomial"), shape, INT, count, chance), kind
    )


def geometric(
    key: UInt64[X, "2"],
    p: Real[X, "*#shape"] | Nested,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Real[Array, "*shape"]:
    """Draw the number of trials until the first success, each with probability ``p``: 1 or more.

    Args:
        key: uint64, shape (2,).
        p: probability, above 0; broadcasts to the shape.
        shape: shape of the result; by default that of ``p``.
        dtype: int64 by default; larger numbers than it holds are 2**63 - 1024.

    Returns:
        an array of counts.

    Raises:
        DtypeError, ShapeError: if ``key`` is not a key, ``dtype`` not supported, or parameters do
            not fit.

    Example:
        >>> import functrace as ft
        >>> ft.random.geometric(ft.random.key(0), 0.2, (4,))
        array([1, 2, 5, 1])
    """
    kind = int_dtype(dtype, "geometric")
    shape, (chance,) = parameters("geometric", shape, FLOAT, p)
    drawn = sample(random_exponential_p, one_key(key, "geometric"), shape, FLOAT)
    waited = np.where(chance < 1.0, drawn / -np.log1p(-np.where(chance < 1.0, chance, 0.5)), 0.0)
    return convert(convert(np.minimum(np.floor(waited) + 1.0, _MOST), INT), kind)


def multinomial(
    key: UInt64[X, "2"],
    n: Real[X, "*#shape"] | Nested,
    p: Real[X, "*#shape k"] | Nested,
    *,
    shape: ShapeLike | None = None,
    dtype: DtypeLike = None,
) -> Real[Array, "*shape k"]:
    """Draw the number of trials out of ``n`` for each of several outcomes with probabilities ``p``.

    Args:
        key: uint64, shape (2,).
        n: number of trials; broadcasts to the shape without its last axis.
        p: shape (…, k); probabilities along the last axis, which are divided by their sum.
        shape: shape of the result, (…, k); by default that of ``p``, broadcast with ``n``.
        dtype: int64 by default, where JAX's is a float.

    Returns:
        an array of counts, which add up to ``n`` along the last axis.

    Raises:
        ValueError: if ``n`` or a probability is negative.
        ShapeError: if ``p`` is a scalar, or shapes do not fit.
        DtypeError: if ``n`` is not an integer, or ``key`` not a key.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> ft.random.multinomial(ft.random.key(0), 10, np.array([0.2, 0.3, 0.5]))
        array([0, 3, 7])

    Source:
        ``numpy.random.Generator.multinomial``.
    """
    kind, chances, count = (
        int_dtype(dtype, "multinomial"),
        parameter(p, FLOAT, "multinomial"),
        _counts(n, "multinomial"),
    )
    if not shape_of(chances):
        raise ShapeError(
            "random.multinomial: p is a scalar",
            fix="pass one probability per outcome, shape (…, k)",
        )
    *stack, ways = shape_of(chances)
    shape = joint_shape("multinomial", shape, (*shape_of(count), 1), (*stack, ways))
    chances = chances / np.sum(chances, axis=-1, keepdims=True)
    return convert(
        sample(random_multinomial_p, one_key(key, "multinomial"), shape, INT, count, chances), kind
    )


# -- choices ---------------------------------------------------------------------------------------


def _order(key: Arrayed, shape: Shape, axis: int) -> Any:
    """Return indices in random order along an axis."""
    return np.argsort(sample(random_bits_p, key, shape, _WORD), axis=axis)


def _without_replacement(key: Arrayed, logits: Arrayed, shape: Shape) -> Any:
    """Return indices along the last axis in the order of draws without replacement, by their
    probabilities."""
    # The order of exponential clocks, Efraimidis and Spirakis (2006); those with probability 0
    # never ring.
    drawn = np.log(sample(random_exponential_p, key, shape, FLOAT))
    return np.argsort(drawn - logits, axis=-1)


def _places(key: Arrayed, weights: Arrayed, shape: Shape) -> Any:
    """Return indices along the last axis of weights, with replacement, by inversion of their
    cumulative sums."""
    total = np.cumsum(weights, axis=-1)
    drawn = sample(random_uniform_p, key, shape, FLOAT) * total[..., -1]
    if len(shape_of(total)) == 1:
        places: Callable[..., Any] = np.searchsorted
        return places(total, drawn, side="right")
    return np.sum(~(drawn[..., None] < total), axis=-1)


def categorical(
    key: UInt64[X, "2"],
    logits: Real[X, "..."] | Nested,
    axis: SupportsIndex = -1,
    shape: ShapeLike | None = None,
    replace: bool = True,
) -> Int64[Array, "*shape"]:
    """Draw categories, whose probabilities are the softmax of ``logits``.

    Args:
        key: uint64, shape (2,).
        logits: logarithms of probabilities that need not add up to 1; -inf for a category that is
            never drawn.
        axis: the axis of the categories.
        shape: of the result; by default, and at its end, the shape of ``logits`` without ``axis``.
        replace: whether a category may be drawn again; otherwise, draws along the leading axes of
            the shape are all different.

    Returns:
        int64.

    Raises:
        ShapeError: if the shape does not fit, or there are fewer categories than draws without
            replacement.
        ValueError: at run time, if logits are NaN, or all of them -inf.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> ft.random.categorical(ft.random.key(0), np.log([0.1, 0.2, 0.7]), shape=(6,))
        array([0, 1, 2, 0, 2, 1])

    Cost:
        a uniform number per draw, and one pass over the probabilities; without replacement, a sort
        of the categories.
    """
    key, scores = one_key(key, "categorical"), parameter(logits, FLOAT, "categorical")
    if not shape_of(scores):
        raise ShapeError(
            "random.categorical: logits is a scalar", fix="pass one number per category"
        )
    scores = np.moveaxis(scores, one_axis(axis, len(shape_of(scores))), -1)
    *stack, count = shape_of(scores)
    wanted = joint_shape("categorical", shape, tuple(stack))
    if not count:
        raise ShapeError(
            "random.categorical: there are no categories", fix="pass logits with at least one"
        )
    most = np.max(scores, axis=-1, keepdims=True)
    message = "random.categorical: logits are NaN, or all of them -inf"
    scores = require(scores, most > -np.inf, "ValueError", message)
    if replace:
        is_most = scores == most  # also for an infinite maximum
        weights = np.exp(np.where(is_most, 0.0, scores) - np.where(is_most, 0.0, most))
        return convert(_places(key, weights, wanted), INT)
    front = wanted[: len(wanted) - len(stack)]
    if wanted[len(front) :] != tuple(stack):
        raise ShapeError(
            f"random.categorical: the shape {wanted} does not end with {tuple(stack)}",
            fix="let it end with that",
        )
    size = math.prod(front)
    _enough("categorical", size, count)
    drawn = np.moveaxis(_without_replacement(key, scores, (*stack, count))[..., :size], -1, 0)
    return convert(np.reshape(drawn, wanted), INT)


def _enough(name: str, wanted: int, there: int) -> None:
    if wanted > there:
        raise ShapeError(
            f"random.{name}: {wanted} draws without replacement from {there} elements",
            fix="draw fewer, or replace=True",
        )


def permutation(
    key: UInt64[X, "2"],
    x: Shaped[X, "..."] | Nested,
    axis: SupportsIndex = 0,
    independent: bool = False,
) -> Shaped[Any, "..."]:
    """Permute an array, or integers from 0, at random.

    Args:
        key: uint64, shape (2,).
        x: an array, or an integer n for ``np.arange(n)``.
        axis: axis to permute.
        independent: True to permute every line along the axis on its own; otherwise they stay
            together.

    Returns:
        an array with the shape and dtype of ``x``.

    Raises:
        ShapeError: if ``x`` is an array without axes.
        AxisError: if ``x`` does not have the axis.

    Example:
        >>> import functrace as ft
        >>> ft.random.permutation(ft.random.key(0), 5)
        array([0, 3, 1, 2, 4])

    Cost:
        a sort of random numbers, one per element: 30 ns each.
    """
    key = one_key(key, "permutation")
    if _is_count(x):
        return _order(key, sizes(x, "permutation"), 0)  # type: ignore[arg-type]
    things = arrayed(x)
    shape = shape_of(things)
    if not shape:
        raise ShapeError(
            f"random.permutation: x is {aval_of(things)}, a scalar", fix="pass an array, or an int"
        )
    k = one_axis(axis, len(shape))
    if independent:
        return take_along_axis(things, _order(key, shape, k), k)
    return take(things, _order(key, (shape[k],), 0), k)


def _checked_probabilities(p: Arrayed) -> Any:
    """Check and return probabilities; a traced array is checked when the program runs."""
    if isinstance(p, Tracer):
        total = np.sum(p)
        holds = np.all(p >= 0) & (total > 0) & (total < np.inf)
        return require(
            p,
            holds,
            "ValueError",
            "random.choice: p is not probabilities: negative, NaN, infinite or all 0",
        )
    if not (np.all(p >= 0) and 0 < np.sum(p) < np.inf):
        raise ArgumentError(
            f"random.choice: p is {p}, not probabilities",
            fix="pass non-negative numbers, not all 0",
        )
    return p


def _is_count(x: object) -> bool:
    """Return True if an argument is a count of elements, not an array of them."""
    return isinstance(x, int | np.integer) and not isinstance(x, bool | Tracer)


def choice(
    key: UInt64[X, "2"],
    a: Shaped[X, "..."] | Nested,
    shape: ShapeLike = (),
    replace: bool = True,
    p: Real[X, "n"] | Sequence[float] | None = None,
    axis: SupportsIndex = 0,
) -> Shaped[Any, "..."]:
    """Draw elements of an array.

    Args:
        key: uint64, shape (2,).
        a: an array, or an integer n for ``np.arange(n)``.
        shape: shape of the draws, which replaces the axis.
        replace: whether an element may be drawn again.
        p: probabilities of the elements, which are divided by their sum; uniform by default.
        axis: axis of the elements.

    Returns:
        an array of shape ``(*a.shape[:axis], *shape, *a.shape[axis + 1:])``.

    Raises:
        ShapeError: if there are no elements, or fewer than draws without replacement; if ``p`` does
            not fit.
        ArgumentError: if ``p`` is concrete and has no valid probabilities. If it is traced, the
            program raises ValueError.

    Example:
        >>> import functrace as ft
        >>> ft.random.choice(ft.random.key(0), 100, (3,), replace=False)
        array([ 0, 72, 31])

    Cost:
        5 ns per draw; without replacement, a sort of all elements.
    """
    key, wanted = one_key(key, "choice"), sizes(shape, "choice")
    things = None if _is_count(a) else arrayed(a)  # type: ignore[arg-type]
    if things is not None and not shape_of(things):
        raise ShapeError(
            f"random.choice: a is {aval_of(things)}, a scalar", fix="pass an array, or an int"
        )
    k = 0 if things is None else one_axis(axis, len(shape_of(things)))
    count = sizes(a, "choice")[0] if things is None else shape_of(things)[k]  # type: ignore[arg-type]
    size = math.prod(wanted)
    if not count and size:
        raise ShapeError(
            "random.choice: there is nothing to choose from", fix="pass at least one element"
        )
    if not replace:
        _enough("choice", size, count)
    if p is None:
        if not count:
            places: Any = np.zeros(wanted, INT)
        elif replace:
            places = randint(key, wanted, 0, count)
        else:
            places = np.reshape(_order(key, (count,), 0)[:size], wanted)
    else:
        weights = parameter(p, FLOAT, "choice")  # type: ignore[arg-type]
        if shape_of(weights) != (count,):
            raise ShapeError(
                f"random.choice: p is {aval_of(weights)} for {count} elements",
                fix="pass one per element",
            )
        weights = _checked_probabilities(weights)
        if replace:
            places = _places(key, weights, wanted)
        else:
            is_there = weights > 0
            logits = np.where(is_there, np.log(np.where(is_there, weights, 1.0)), -np.inf)
            places = np.reshape(_without_replacement(key, logits, (count,))[:size], wanted)
    return convert(places, INT) if things is None else take(things, places, k)
