"""`arange`, `linspace` and `logspace` have PyTorch's numbers, bit for bit."""

from __future__ import annotations

import random
from typing import Any

import pytest

from functrace import torch as shim

torch = pytest.importorskip("torch")
if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
    pytest.skip("PyTorch's kernels round otherwise without AVX2", allow_module_level=True)

DTYPES = ("float16", "float32", "float64", "complex64", "complex128", "int64", "int32", "uint8")
COUNTS = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 100, 1000)


def outcome(module: Any, text: str) -> tuple[Any, ...]:
    try:
        made = eval(text, {"torch": module})
    except Exception as error:
        return type(error).__name__, str(error).split("\n")[0]
    return str(made.dtype), tuple(made.shape), made.numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_ranges_are_equal(dtype: str) -> None:
    pick = random.Random(dtype)
    for _ in range(60):
        low = pick.choice([0, round(pick.uniform(0, 5), 2), pick.uniform(0, 5)])
        high = pick.uniform(low, 60)
        if dtype != "uint8" and pick.random() < 0.5:
            low, high = pick.choice([(-high, low), (high, low), (high, -low)])
        step = pick.choice([0.1, 0.5, 1.0, pick.uniform(0.01, 2)]) * (1 if low <= high else -1)
        count = pick.choice(COUNTS)
        texts = [f"torch.linspace({low}, {high}, {count}, dtype=torch.{dtype})"]
        if "complex" not in dtype:
            texts.append(f"torch.arange({low}, {high}, {step}, dtype=torch.{dtype})")
        if dtype in ("float32", "float64"):
            texts.append(f"torch.logspace({low / 9}, {high / 9}, {count}, dtype=torch.{dtype})")
        for text in texts:
            assert outcome(shim, text) == outcome(torch, text), text
