"""Logarithms of densities and probabilities in both tails, and their derivatives, against many
digits (`tails.json`).
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats

import functrace as ft
from functrace.scipy import stats

RECORDED: dict[str, list[Any]] = {}
for _row in json.loads(Path(__file__).with_name("tails.json").read_text())["rows"]:
    RECORDED.setdefault(_row[0], []).append(_row[1:])


def test_every_distribution_is_recorded() -> None:
    made = {
        name
        for name in stats.__all__
        if isinstance(getattr(stats, name), stats.norm.__class__ | stats.poisson.__class__)
    }
    assert made == set(RECORDED)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", RECORDED)
def test_logarithms_and_their_derivatives_in_both_tails(name: str) -> None:
    failures: list[str] = []

    noise = {"vonmises": 1e-14, "binom": 1e-11}.get(
        name, 1e-120
    )  # where differences are 0 but for rounding

    def compare(
        word: str, x: Any, found: Any, expected: Any, rtol: float, least: Any = 0.0
    ) -> None:
        bad = ~(np.abs(found - expected) <= rtol * np.abs(expected) + least + noise)
        failures.extend(
            f"{word} at {x[n]}: {found[n]}, not {expected[n]}" for n in np.flatnonzero(bad)
        )

    for (method, given), group in itertools.groupby(
        RECORDED[name], key=lambda row: (row[0], tuple(row[1]))
    ):
        rows = [
            row for row in group if name != "wrapcauchy" or row[2] < 6.282
        ]  # beyond, the end of the support is rounded
        x, values = np.array([row[2] for row in rows]), np.array([row[3] for row in rows])
        word = f"{method}{given}"
        at = [x, *[np.full(x.shape, s) for s in given]]
        f = getattr(getattr(stats, name), method)
        slopes = [np.array([row[4].get(str(k), np.nan) for row in rows]) for k in range(len(at))]
        places = [k for k, s in enumerate(slopes) if np.any(np.isfinite(s))]
        with np.errstate(all="ignore"):
            compare(word, x, ft.vjp(lambda x, f=f, at=at: f(x, *at[1:]), x)[0], values, 1e-10)
            pulled: Any = (
                ft.grad(lambda *xs, f=f: np.sum(f(*xs)), argnums=tuple(places))(*at)
                if places
                else ()
            )
            for k, back in zip(places, pulled, strict=True):
                by = lambda v, k=k, f=f, at=at: f(*[v if j == k else y for j, y in enumerate(at)])
                forth = ft.jvp(by, (at[k],), (np.ones_like(x),))[1]
                some = np.isfinite(slopes[k])
                least = (
                    1e-15 * np.abs(values[some]) * (k > 0)
                )  # the logarithms that cancel have these digits
                compare(f"jvp by {k} of {word}", x[some], forth[some], slopes[k][some], 1e-7, least)
                compare(f"grad by {k} of {word}", x[some], back[some], slopes[k][some], 1e-7, least)
    assert not failures, "\n".join(
        [f"{len(failures)} of {len(RECORDED[name])} values", *failures[:30]]
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("df", [0.5, 2.0, 30.0, 1e3])
def test_student_s_t_falls_like_a_power_far_out(df: float) -> None:
    x = np.array([1e25, 1e30, 1e31, 1e77, 1e90, 1e99, 1e100, 1e101, 1e150])
    for f in (lambda x: stats.t.logcdf(-x, df), lambda x: stats.t.logsf(x, df)):
        first = lambda x, f=f: ft.grad(lambda x: np.sum(f(x)))(x)
        np.testing.assert_allclose(first(x), -df / x, rtol=1e-8)
        np.testing.assert_allclose(
            ft.grad(lambda x, first=first: np.sum(first(x)))(x), df / x**2, rtol=1e-8
        )
        steps = np.diff(ft.vjp(f, x)[0])
        np.testing.assert_allclose(steps, -df * np.diff(np.log(x)), rtol=1e-8)


def test_student_s_t_of_many_degrees_is_scipy_s() -> None:
    x = np.array([-3.0, 0.0, 1.5, 3.0])
    for df in (1e3, 1e6, 1e8, 1e10, 1e13):
        for name in ("logpdf", "pdf"):
            got = ft.vjp(lambda x, df=df, name=name: getattr(stats.t, name)(x, df), x)[0]
            np.testing.assert_allclose(got, getattr(scipy.stats.t, name)(x, df), rtol=1e-13)
