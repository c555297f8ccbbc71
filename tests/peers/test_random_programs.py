"""A sample of random programs in JAX: values, gradients and second derivatives of the same text."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("jax")

from tests.fuzz.programs import JAX_KINDS, run_one


@pytest.mark.parametrize("kind", JAX_KINDS)
def test_random_programs_are_as_in_jax(kind: str) -> None:
    counts: Counter[str] = Counter()
    found = [text for k in range(8) for text in run_one(f"ci:{k}", kind, counts)]
    assert not found, "\n".join(found)
    assert counts["against JAX"] > 10, counts
