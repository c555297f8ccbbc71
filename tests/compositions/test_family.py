"""The generated family of transforms of transforms, against differences and Python loops (JAX:
tests/peers).
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.compositions.family import FUNCTIONS, PLAIN, TRANSFORMS, X, drawn, name_of, variant

NAMES = [
    "grad", "value_and_grad", "vjp", "jvp", "linearize", "jacfwd", "jacrev", "hessian", "vmap",
    "jit", "checkpoint", "cond",
    "scan", "custom_jvp", "custom_vjp",
]  # fmt: skip
OURS = SimpleNamespace(np=np, zero=None, **{name: getattr(ft, name) for name in NAMES})
SINGLE = [(f, (t,)) for f in FUNCTIONS for t in TRANSFORMS]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("case", [*SINGLE, *drawn(180, seed=1)], ids=name_of)
def test_variants_equal_differences_and_loops(case: Any) -> None:
    function, transforms = case
    expected = variant(PLAIN, function, transforms)(X)
    f = variant(OURS, function, transforms)
    for _ in range(2):
        np.testing.assert_allclose(f(X), expected, rtol=3e-5, atol=3e-5)
    np.testing.assert_allclose(ft.jit(f)(X), expected, rtol=3e-5, atol=3e-5)
