"""numpy.cov where degrees of freedom run out, of nothing, and with weights: as NumPy, with its
warnings and errors.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import functrace as ft

X = np.array([[0.3, 1.2, -0.7, 0.9], [2.0, -1.0, 0.4, 0.1]])
COUNTS, WEIGHTS = np.array([1, 2, 0, 3]), np.array([0.5, 1.0, 0.0, 2.5])


def outcome(f: Any, *args: Any) -> tuple[Any, set[str]]:
    """Return what a call gives (or the class of what it raises), and whether it warns of degrees of
    freedom.
    """
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="ignore"):
        warnings.simplefilter("always")
        try:
            found: Any = f(*args)
        except (ValueError, TypeError, ArithmeticError) as error:
            found = next(
                kind for kind in (ValueError, TypeError, ArithmeticError) if isinstance(error, kind)
            )
    return found, {str(w.message) for w in caught if "Degrees" in str(w.message)}


@pytest.mark.parametrize("ddof", [None, 0, 1, 3, 4, 5, 10])
@pytest.mark.parametrize(
    "weights",
    [
        {}, {"fweights": COUNTS}, {"aweights": WEIGHTS}, {"fweights": COUNTS, "aweights": WEIGHTS},
        {"fweights": -COUNTS}, {"fweights": WEIGHTS}, {"aweights": -WEIGHTS},
        {"fweights": 0 * COUNTS},
    ],
)  # fmt: skip
def test_degrees_of_freedom_and_weights(ddof: int | None, weights: dict[str, Any]) -> None:
    expected, warned = outcome(lambda x: np.cov(x, ddof=ddof, **weights), X)
    found, told = outcome(ft.jit(lambda x: np.cov(x, ddof=ddof, **weights)), X)
    if isinstance(expected, type):
        assert found is expected
        return
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    if not weights:
        assert told == warned
    elif "fweights" in weights:  # weights that are arguments are counted when the program runs
        traced, _ = outcome(
            ft.jit(lambda x, w: np.cov(x, ddof=ddof, **{**weights, "fweights": w})),
            X,
            weights["fweights"],
        )
        np.testing.assert_allclose(traced, expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (1, 0), (0, 0), (1,), (1, 1), (2, 1)])
@pytest.mark.parametrize("rowvar", [True, False])
def test_of_nothing_and_of_one(shape: tuple[int, ...], rowvar: bool) -> None:
    x = np.ones(shape)
    expected, warned = outcome(lambda x: np.cov(x, rowvar=rowvar), x)
    found, told = outcome(ft.jit(lambda x: np.cov(x, rowvar=rowvar)), x)
    np.testing.assert_array_equal(found, expected, strict=True)
    assert told == warned
