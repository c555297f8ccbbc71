"""``check_grads``: comparison of derivatives with differences, complex steps and each other.

Layer: 8 (api).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.api.differentiation.gradients import jvp, vjp
from functrace.errors import ArgumentError, CheckError
from functrace.testing.equations import culprit
from functrace.testing.points import (
    CheckedCall,
    Flat,
    Settings,
    Values,
    aval,
    complex_steps,
    differences,
    directions,
    errors,
    plain,
    product,
    settings,
    size_of,
    worst,
)
from functrace.typing import Array

MODES = ("fwd", "rev")
_MODE = {"fwd": "forward mode", "rev": "reverse mode"}


def check_grads(
    f: Callable[..., object],
    args: Sequence[object],
    order: int = 2,
    modes: str | Sequence[str] = MODES,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    *,
    complex_step: bool | None = None,
    seed: int = 0,
) -> None:
    """Check the derivatives of ``f`` at ``args`` against numerical ones, along random directions.

    Forward mode is compared with differences, reverse mode with differences by a product with a
    random cotangent, and both with each other (the dot test, which is exact up to rounding). For
    higher orders, so are the derivatives. On an error, it locates the element, and the first
    equation of the program whose own derivative is wrong.

    Args:
        f: a function of arrays (pytrees of them) that returns a pytree of arrays. Integer results
            are ignored.
        args: a tuple with the arguments; integers and objects that are not arrays are constants.
        order: order of derivatives to check.
        modes: ``"fwd"``, ``"rev"``, or both.
        atol, rtol: tolerances; by default 1e-5 in double precision, 5e-3 in single.
        eps: step of the differences; by default 1e-4 in double precision, 2e-2 in single.
        complex_step: whether to use complex steps, which are exact, for real functions that accept
            complex arguments. By default they are used where they agree with differences, and
            derivatives must then agree to 1e-8.
        seed: of the random directions.

    Raises:
        CheckError: if a derivative is wrong; the message names the argument, the element and the
            equation. It is an ``AssertionError``.
        ArgumentError: if there is nothing to check; if ``complex_step=True``, and ``f`` accepts no
        complex numbers.

    Example:
        >>> import numpy as np
        >>> import functrace as ft
        >>> ft.testing.check_grads(lambda w, x: np.tanh(w @ x), (np.ones((2, 3)), np.arange(3.0)), order=2)

    Cost:
        about 12 runs of ``f`` per mode, and of its derivatives twice per order.

    Source:
        ``jax.test_util.check_grads``, which has the same arguments.
    """
    chosen_modes = (modes,) if isinstance(modes, str) else tuple(modes)
    if not chosen_modes or not set(chosen_modes) <= set(MODES):
        raise ArgumentError(f"check_grads: modes={modes!r}", fix="choose 'fwd', 'rev' or both")
    point = CheckedCall(f, args, "check_grads")
    if not point.places:
        raise ArgumentError(
            f"check_grads: no argument of {point.name} is a float or complex array",
            fix="pass floats (x.astype(float))",
        )
    chosen = settings(point.values, eps, complex_step, atol, rtol)
    names = point.result_names()
    if not names:
        raise ArgumentError(
            f"check_grads: {point.name} returns nothing that has a derivative", fix="return floats"
        )
    function = _NamedFunction(point.flat, point.values, point.name, point.names, names)
    _check(function, order, chosen_modes, chosen, np.random.default_rng(seed))


@final
@dataclass(frozen=True)
class _NamedFunction:
    """A function from arrays to arrays, with names of both."""

    flat: Flat
    values: list[Any]
    name: str
    argument_names: list[str]
    result_names: list[str]


def _check(
    function: _NamedFunction,
    order: int,
    modes: Sequence[str],
    chosen: Settings,
    rng: np.random.Generator,
) -> None:
    if order < 1:
        return
    flat, values = function.flat, function.values
    along = directions(rng, values)
    truth = _NumericalDerivatives(function, along, chosen)
    expected = truth(along)
    tangents: list[Any] = []
    if "fwd" in modes:
        tangents = plain(jvp(flat, values, along)[1])
        if worst(errors(tangents, expected, truth.atol, truth.rtol)) > 1:
            raise _failure(function, "fwd", truth, along, [], chosen)
    out, pullback = vjp(flat, *values)
    bars = directions(rng, out)
    if "rev" in modes:
        cotangents = pullback(bars)
        if _is_off(
            product(cotangents, along),
            product(bars, expected),
            truth,
            (bars, expected),
            (cotangents, along),
        ):
            raise _failure(function, "rev", truth, along, bars, chosen)
        if "fwd" in modes:
            left, right = product(bars, tangents), product(cotangents, along)
            if abs(left - right) > chosen.exact * (
                1.0 + size_of(bars, tangents) + size_of(cotangents, along)
            ):
                raise CheckError(
                    f"forward and reverse mode of {function.name} disagree: a cotangent times the "
                    f"tangent is {left:.10g}, "
                    f"and pulled back, times the direction, {right:.10g}",
                    fix="if it has both rules (defjvp and defvjp), one must be the transpose of "
                    "the other",
                )
    if order > 1:
        for mode in modes:
            _check(_derivative(function, mode, along, bars), order - 1, modes, chosen, rng)


def _derivative(function: _NamedFunction, mode: str, along: Values, bars: Values) -> _NamedFunction:
    flat = function.flat
    if mode == "fwd":
        names = [f"the tangent of {name}" for name in function.result_names]
        made: Flat = lambda *xs: jvp(flat, xs, along)[1]  # noqa: E731
        return _NamedFunction(
            made, function.values, f"the jvp of {function.name}", function.argument_names, names
        )
    names = [f"the cotangent of {name}" for name in function.argument_names]
    made = lambda *xs: list(vjp(flat, *xs)[1](bars))  # noqa: E731
    return _NamedFunction(
        made, function.values, f"the vjp of {function.name}", function.argument_names, names
    )


@final
class _NumericalDerivatives:
    """Numerical derivatives of a function, with their tolerances."""

    def __init__(self, function: _NamedFunction, along: Values, chosen: Settings) -> None:
        self.function, self.eps = function, chosen.eps
        values = plain(function.flat(*function.values))
        rounding = max(
            (float(np.finfo(y.dtype).eps) * float(np.abs(y).max(initial=0.0)) for y in values),
            default=0.0,
        )
        self.route = "differences give"
        self.atol, self.rtol = chosen.atol + 8 * rounding / chosen.eps, chosen.rtol
        self.exact = False
        if chosen.complex_step is False:
            return
        stepped = complex_steps(function.flat, function.values, along)
        if stepped is None and chosen.complex_step:
            raise ArgumentError(
                f"check_grads: complex_step=True, but {function.name} does not take complex "
                "numbers to complex ones",
                fix="omit complex_step",
            )
        if stepped is not None and (
            chosen.complex_step or worst(errors(stepped, self(along), self.atol, self.rtol)) <= 1
        ):
            self.exact, self.route = True, "a complex step gives"
            if not chosen.is_given:
                self.rtol, self.atol = chosen.exact, chosen.exact * max(1.0, rounding)

    def __call__(self, along: Values) -> list[Any]:
        """Return the derivative along a direction."""
        function = self.function
        if self.exact:
            found = complex_steps(function.flat, function.values, along)
            assert found is not None
            return found
        return differences(function.flat, function.values, along, self.eps)


def _is_off(
    found: float,
    expected: float,
    truth: _NumericalDerivatives,
    *terms: tuple[Sequence[Array], Sequence[Array]],
    weight: float = 4.0,
) -> bool:
    """Return True if products differ by more than the rounding of their terms, which adds up like a
    random walk."""
    if np.isnan(found) or np.isnan(expected):
        return bool(np.isnan(found) != np.isnan(expected))
    norms = sum(
        float(np.linalg.norm(np.ravel(np.asarray(a) * np.asarray(b))))
        for pair in terms
        for a, b in zip(*pair)
    )
    return abs(found - expected) > weight * (truth.atol + truth.rtol * norms)


# -- location of errors ----------------------------------------------------------------------------


def _failure(
    function: _NamedFunction,
    mode: str,
    truth: _NumericalDerivatives,
    along: Values,
    bars: Values,
    chosen: Settings,
) -> CheckError:
    """Locate the wrong element and equation."""
    flat, values = function.flat, function.values
    pullback = vjp(flat, *values)[1] if mode == "rev" else None
    cotangents: Sequence[Any] = pullback(bars) if pullback is not None else []

    def off(direction: list[Any]) -> float:
        expected = truth(direction)
        if mode == "rev":
            return _distance(product(cotangents, direction), product(bars, expected))
        return max(map(_distance, plain(jvp(flat, values, direction)[1]), expected), default=0.0)

    place, index = _bisected(along, off)
    unit = _unit(values, place, index, off)
    column = truth(unit)
    if pullback is None:
        found = plain(jvp(flat, values, unit)[1])
        sizes = [_distance(a, b) for a, b in zip(found, column, strict=True)]
        result = int(np.argmax(sizes))
        element = _largest(np.abs(found[result] - column[result]))
        is_, wanted = found[result][element], column[result][element]
    else:
        result, element = _bisected(
            bars, lambda ct: _distance(product(pullback(ct), unit), product(ct, column))
        )
        row = pullback(
            _unit(
                bars,
                result,
                element,
                lambda ct: _distance(product(pullback(ct), unit), product(ct, column)),
            )
        )
        is_, wanted = (
            (np.asarray(row[place]) * np.asarray(unit[place]))[index],
            column[result][element],
        )
    by = f"{function.argument_names[place]}{_shown(index)}"
    of = f"{function.result_names[result]}{_shown(element)}"
    found_in = culprit(flat, values, mode, chosen, function.name)
    return CheckError(
        f"{_MODE[mode]} of {function.name}: the derivative of {of} by {by} is {is_:.10g}, but "
        f"{truth.route} {wanted:.10g}",
        equation=None if found_in is None else found_in.where,
        fix=_NOT_FOUND if found_in is None else found_in.advice,
    )


_NOT_FOUND = (
    "every equation agrees by itself: at a kink or a tie, check elsewhere; "
    "else differences are too coarse (eps=, rtol=)"
)


def _distance(a: object, b: object) -> float:
    with np.errstate(all="ignore"):
        off = np.abs(np.asarray(a) - np.asarray(b))
    return float(np.where(np.isnan(off), np.inf, off).max(initial=0.0))


def _bisected(along: Values, off: Callable[[list[Any]], float]) -> tuple[int, tuple[int, ...]]:
    """Bisect a direction down to one element, keeping the half with the larger error."""
    arrays = plain(along)
    sizes = [array.size for array in arrays]
    starts = np.cumsum([0, *sizes])
    low, high = 0, int(starts[-1])
    while high - low > 1:
        middle = (low + high) // 2
        halves = [(low, middle), (middle, high)]
        low, high = max(halves, key=lambda half: off(_masked(arrays, starts, *half)))
    place = int(np.searchsorted(starts, low, "right")) - 1
    index: tuple[Any, ...] = np.unravel_index(low - int(starts[place]), arrays[place].shape)
    return place, tuple(map(int, index))


def _masked(
    arrays: Sequence[np.ndarray[Any, Any]], starts: np.ndarray[Any, Any], low: int, high: int
) -> list[Any]:
    """Return a direction with only the elements from ``low`` to ``high``."""
    made: list[Any] = []
    for start, array in zip(starts[:-1], arrays, strict=True):
        kept = np.zeros_like(array)
        part = slice(max(low - start, 0), max(high - start, 0))
        kept.reshape(-1)[part] = array.reshape(-1)[part]
        made.append(kept[()])
    return made


def _unit(
    values: Values, place: int, index: tuple[int, ...], off: Callable[[list[Any]], float]
) -> list[Any]:
    """Return the unit direction of an element; of a complex one, the real or imaginary one with the
    larger error."""

    def unit(one: complex) -> list[Any]:
        made = [np.zeros(aval(value).shape, aval(value).dtype) for value in values]
        made[place][index] = one
        return [array[()] for array in made]

    if aval(values[place]).dtype.kind != "c":
        return unit(1.0)
    return max((unit(1.0), unit(1j)), key=off)


def _largest(error: np.ndarray[Any, Any]) -> tuple[int, ...]:
    where = np.where(np.isnan(error), np.inf, error)
    return tuple(map(int, np.unravel_index(int(np.argmax(where)), where.shape)))


def _shown(index: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, index))}]" if index else ""
