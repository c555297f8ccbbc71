"""The generated family of transforms of transforms against JAX; what JAX refuses is compared with
differences elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import functrace as ft
from tests.compositions.family import X, drawn, forward_through_backward_rule, name_of, variant

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

NAMES = [
    "grad", "value_and_grad", "vjp", "jvp", "linearize", "jacfwd", "jacrev", "hessian", "vmap",
    "jit", "checkpoint",
    "custom_jvp", "custom_vjp",
]  # fmt: skip
FLOAT0 = np.zeros((), jax.dtypes.float0)
OURS = SimpleNamespace(
    np=np, zero=FLOAT0, cond=ft.cond, scan=ft.scan, **{name: getattr(ft, name) for name in NAMES}
)
THEIRS = SimpleNamespace(
    np=jnp,
    zero=FLOAT0,
    cond=jax.lax.cond,
    scan=jax.lax.scan,
    **{name: getattr(jax, name) for name in NAMES},
)
CASES = [case for case in drawn(150, seed=2) if not forward_through_backward_rule(*case)]


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_variants_equal_those_of_jax(case: Any) -> None:
    function, transforms = case
    expected = jax.jit(variant(THEIRS, function, transforms))(jnp.asarray(X))
    f = variant(OURS, function, transforms)
    for _ in range(2):
        np.testing.assert_allclose(f(X), expected, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(ft.jit(f)(X), expected, rtol=1e-8, atol=1e-9)
