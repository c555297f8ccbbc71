"""Random programs of Functions, nested in one another's rules: orders one to three are those of
PyTorch.

Left out is what PyTorch does not keep, where functrace.torch does: two orders of forward mode (the
second is zero), and what ``setup_context`` computes of what it saves (a constant at second order).
"""

from __future__ import annotations

import importlib
from random import Random

import numpy as np
import pytest

from tests.compositions.ruled_programs import HOLDERS_OF_TORCH, derivative_of_torch, random_program
from tests.compositions.test_custom_programs import ALONG, X

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
real = pytest.importorskip("torch")
SHIM = importlib.import_module("functrace.torch")
GRAPH = ("C", "CC", "CCC")
WAYS = {
    "Function": ("Q", "QQ", "QQQ", *GRAPH),
    "pushed": ("P", "Q", "PQ", "QP", "QQ", "PQQ", "QPQ", "QQP", "QQQ", *GRAPH),
    "joined": GRAPH,
}


@pytest.mark.parametrize("style", WAYS)
def test_derivatives_of_random_rules_are_as_in_pytorch(style: str) -> None:
    wrong = []
    for seed in range(15):
        rng = Random(f"torch:{seed}")
        program = random_program(
            rng, styles=(style,), holders=HOLDERS_OF_TORCH, arounds=("Python",), early=0.0
        )
        for way in rng.sample(WAYS[style], 2):
            mapped = "C" not in way and rng.random() < 0.3
            with np.errstate(all="ignore"):
                wanted, found = [
                    derivative_of_torch(t, program, way, X, ALONG, mapped=mapped)
                    for t in (real, SHIM)
                ]
            if not np.allclose(found, wanted, rtol=1e-9, atol=1e-10):
                wrong.append(f"{way}: {found}, not {wanted}, of {program}")
    assert not wrong, "\n".join(wrong)
