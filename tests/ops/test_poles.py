"""Functions made of gamma at integers and half-integers, where gammas have poles: derivatives
against differences.

SciPy's values beside a pole have all digits, so that differences of eight of them find the
derivative at it to 1e-9.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special

import functrace as ft
from functrace.scipy import special as made
from functrace.typing import Array

scipys_multigammaln: Callable[..., Any] = getattr(special, "multigammaln")
LINE = np.arange(-3.0, 3.5, 0.5)
SHAPES = np.array([0.5, 1.0, 1.5, 2.0, 3.0])
COUNTS = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0])
DEGREES = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
PLACES = np.array([-0.5, 0.0, 0.3])
WEIGHTS = np.array([672.0, -168.0, 32.0, -3.0]) / 840.0
STEP = 4e-3


class Family(NamedTuple):
    """A function on a grid.

    Args:
        function: functrace's, of arrays.
        plain: SciPy's.
        axes: the grid.
        by: the arguments that it is differentiated by.
    """

    function: Callable[..., Any]
    plain: Callable[..., Any]
    axes: tuple[Array, ...]
    by: tuple[int, ...] = (0,)


def _ufunc(f: Callable[..., Any], *axes: Array, by: tuple[int, ...] = (0,)) -> Family:
    return Family(f, f, axes, by)


FAMILIES = {
    "binom": _ufunc(special.binom, LINE, LINE, by=(0, 1)),
    "poch": _ufunc(special.poch, LINE, LINE, by=(0, 1)),
    "beta": _ufunc(special.beta, LINE, LINE, by=(0, 1)),
    "betaln": _ufunc(special.betaln, LINE[LINE % 1 != 0], LINE[LINE % 1 != 0], by=(0, 1)),
    "gamma": _ufunc(special.gamma, LINE),
    "rgamma": _ufunc(special.rgamma, LINE),
    "gammaln": _ufunc(special.gammaln, LINE),
    "loggamma": _ufunc(lambda x: np.real(special.loggamma(x)), LINE),
    "psi": _ufunc(special.psi, LINE),
    "gammasgn": _ufunc(special.gammasgn, LINE[LINE % 1 != 0]),
    "polygamma": Family(
        lambda x: made.polygamma(1, x), lambda x: special.polygamma(1, x), (LINE[LINE > 0],)
    ),
    "zeta": _ufunc(lambda q: special.zeta(3.0, q), LINE[LINE > 0]),
    "multigammaln": Family(
        lambda a: made.multigammaln(a, 3),
        np.vectorize(lambda a: scipys_multigammaln(a, 3) if a > 1 else np.nan),
        (np.arange(1.5, 5.0, 0.5),),
    ),
    "comb": Family(made.comb, special.comb, (COUNTS, COUNTS), (0, 1)),
    "perm": Family(made.perm, special.perm, (COUNTS, COUNTS), (0, 1)),
    "factorial": Family(made.factorial, special.factorial, (COUNTS,)),
    "hyp0f1": _ufunc(special.hyp0f1, LINE, PLACES, by=(1,)),
    "hyp1f1": _ufunc(special.hyp1f1, DEGREES, DEGREES, PLACES, by=(2,)),
    "hyp2f1": _ufunc(special.hyp2f1, DEGREES, DEGREES, DEGREES[1:], PLACES, by=(3,)),
    "gammainc": _ufunc(special.gammainc, SHAPES, SHAPES, by=(0, 1)),
    "gammaincc": _ufunc(special.gammaincc, SHAPES, SHAPES, by=(0, 1)),
    "betainc": _ufunc(special.betainc, SHAPES, SHAPES, np.array([0.3, 0.5]), by=(0, 1, 2)),
    "betaincc": _ufunc(special.betaincc, SHAPES, SHAPES, np.array([0.3, 0.5]), by=(0, 1, 2)),
}


def differences(f: Callable[..., Any], at: list[Array], k: int) -> tuple[Array, Array]:
    """The derivatives of a function by an argument, of the order 8, and where it has one."""

    def near(step: float) -> Any:
        return f(*[x + step * (j == k) for j, x in enumerate(at)])

    steps = [(near(STEP * (j + 1)), near(-STEP * (j + 1))) for j in range(4)]
    found = (
        np.sum(
            [w * (above - below) for w, (above, below) in zip(WEIGHTS, steps, strict=True)], axis=0
        )
        / STEP
    )
    middle = f(*at)
    (above, below), (further, before) = steps[:2]
    bend = np.abs(
        4.0 * (above + below) - (further + before) - 6.0 * middle
    )  # of the order STEP^4, but where it jumps
    size = np.sum([np.abs(x) for pair in steps for x in pair], axis=0)
    return found, np.isfinite(found) & np.isfinite(middle) & (bend < 1e-4 * (size + 1.0)) & (
        size < 1e4
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FAMILIES)
def test_derivatives_at_integers_and_half_integers(name: str) -> None:
    family = FAMILIES[name]
    grid = [np.array(x) for x in zip(*itertools.product(*family.axes), strict=True)]
    failures, count = [], 0

    def compare(word: str, found: Any, expected: Any, where: Array, rtol: float) -> None:
        wrong = where & ~(np.abs(found - expected) <= rtol * np.maximum(1.0, np.abs(expected)))
        for n in np.flatnonzero(wrong):
            failures.append(
                f"{word} at {[float(x[n]) for x in grid]}: {found[n]}, not {expected[n]}"
            )

    with np.errstate(all="ignore"):
        for k in family.by:

            def moved(x: Any, k: int = k) -> Any:
                return family.function(*[x if j == k else y for j, y in enumerate(grid)])

            def slope(x: Any, moved: Any = moved) -> Any:
                return ft.jvp(moved, (x,), (np.ones_like(x),))[1]

            expected, exists = differences(family.plain, grid, k)
            count += int(np.sum(exists))
            pulled = ft.grad(lambda x, moved=moved: np.sum(moved(x)))
            compare(f"jvp by {k}", slope(grid[k]), expected, exists, 1e-8)
            compare(f"grad by {k}", pulled(grid[k]), expected, exists, 1e-8)
            compare(f"jit by {k}", ft.jit(pulled)(grid[k]), expected, exists, 1e-8)

            def shifted(x: Any, k: int = k, slope: Any = slope) -> Any:
                return slope(grid[k] + x)

            second, again = differences(shifted, [np.zeros_like(grid[k])], 0)
            found = ft.jvp(slope, (grid[k],), (np.ones_like(grid[k]),))[1]
            compare(f"second by {k}", found, second, exists & again, 1e-7)
            turned = ft.grad(lambda x, pulled=pulled: np.sum(pulled(x)))(grid[k])
            compare(f"grad of grad by {k}", turned, second, exists & again, 1e-7)
    assert count, "no point of the grid was compared"
    assert not failures, "\n".join([f"{len(failures)} of {count}", *failures[:20]])
