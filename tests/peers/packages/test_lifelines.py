"""lifelines on `functrace.compat.autograd`: fits beside those on HIPS autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.peers.packages.rows import Row, failures, imported, needs

needs("lifelines")
pytestmark = pytest.mark.filterwarnings("ignore")  # of pandas, and of lifelines about its fits

SEEN = np.random.default_rng(0)
TIMES = SEEN.weibull(1.5, 40) * 10 + 0.5
EVENTS = (SEEN.random(40) < 0.8).astype(int)
COVARIATE = SEEN.normal(size=40)

UNIVARIATE: dict[str, tuple[Any, ...]] = {
    "WeibullFitter": (),
    "ExponentialFitter": (),
    "LogNormalFitter": (),
    "LogLogisticFitter": (),
    "SplineFitter": ([2.0, 6.0, 12.0],),
}
REGRESSIONS: dict[str, dict[str, Any]] = {
    "WeibullAFTFitter": {},
    "LogNormalAFTFitter": {},
    "CoxPHFitter": {},
}


def _fitted(lifelines: Any, name: str) -> Any:
    """Parameters and their variances, in one vector."""
    import pandas as pd

    if name in UNIVARIATE:
        fit = getattr(lifelines, name)(*UNIVARIATE[name]).fit(TIMES, EVENTS)
        found = fit._fitted_parameters_
    else:
        table = pd.DataFrame({"T": TIMES, "E": EVENTS, "x": COVARIATE})
        fit = getattr(lifelines, name)(**REGRESSIONS[name]).fit(table, "T", "E")
        found = fit.params_
    return np.concatenate([np.ravel(found), np.ravel(fit.variance_matrix_), [fit.log_likelihood_]])


def test_fits_are_those_on_hips_autograd() -> None:
    ours, theirs = [imported("lifelines", "autograd_gamma", on=on) for on in ("functrace", "autograd")]
    assert ours is not theirs
    rows = [
        Row(
            "lifelines", f"{name}.fit", "autograd", lambda name=name: _fitted(ours, name),
            expected=lambda name=name: _fitted(theirs, name), rtol=1e-7,
        )
        for name in (*UNIVARIATE, *REGRESSIONS)
    ]  # fmt: skip
    assert not failures(rows)
