"""Compilation of hot programs in the background."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.api.staging.background import COMPILER
from functrace.errors import NotDifferentiableError
from functrace.executor.runner import OFTEN

pytest.importorskip("llvmlite", reason="llvmlite is not installed")


@ft.custom_vjp
def clipped(x: Any) -> Any:
    """Clip the cotangent, which is not linear."""
    return x * 1.0


clipped.defvjp(lambda x: (x * 1.0, None), lambda _, y_bar: (np.clip(y_bar, -1.0, 1.0),))
X = np.arange(3.0)


@pytest.mark.parametrize(
    "derivative",
    [
        lambda: ft.jvp(clipped, (X,), (X,)),
        lambda: ft.jacfwd(clipped)(X),
        lambda: ft.vmap(lambda x: ft.jvp(clipped, (x,), (x,)))(X),
    ],
    ids=["jvp", "jacfwd", "vmap"],
)
def test_a_program_that_cannot_be_made_raises_at_every_call_and_never_warns(
    derivative: Callable[[], Any],
) -> None:
    with ft.config(native=True), warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        messages = set()
        for _ in range(OFTEN + 4):
            with pytest.raises(NotDifferentiableError) as caught:
                derivative()
            messages.add(str(caught.value))
            COMPILER.wait()
    assert not found
    (message,) = messages
    assert "test_background.py" in message
