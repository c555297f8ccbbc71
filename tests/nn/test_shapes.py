"""The shapes in signatures of `functrace.nn` are checked by beartype, on arrays and on traced
values.

The import hook acts when a package is imported, so the checks run in a Python process of their own.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
from jaxtyping import TypeCheckError, install_import_hook

with install_import_hook("functrace.nn", "beartype.beartype"):
    import functrace.nn as nn
import numpy as np

import functrace as ft

x, mask = np.linspace(-2.0, 2.0, 12).reshape(3, 4), np.arange(12).reshape(3, 4) % 5 > 0
SAME = [
    "celu", "elu", "gelu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "layer_norm", "leaky_relu",
    "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softmax",
    "softplus", "squareplus", "standardize", "swish",
]
assert {*SAME, "dot_product_attention", "glu", "logsumexp", "one_hot"} == set(nn.__all__)
for name in SAME:
    f = getattr(nn, name)
    assert f(x).shape == x.shape
    assert ft.grad(lambda x: np.sum(f(x)))(x).shape == x.shape
    assert ft.vmap(f)(x).shape == x.shape
    assert f(2.0 * np.ones(1)).shape == (1,)
assert nn.softmax(x, where=mask).shape == x.shape
assert nn.glu(x).shape == (3, 2)
assert nn.logsumexp(x, axis=0).shape == (4,)
assert nn.one_hot(np.arange(3), 5).shape == (3, 5)
q, kv = np.ones((2, 3, 4, 5)), np.ones((2, 6, 2, 5))
assert nn.dot_product_attention(q, kv, kv).shape == q.shape
assert ft.vmap(nn.dot_product_attention)(q, kv, kv).shape == q.shape
both = nn.dot_product_attention(q, kv, kv, return_residual=True)
assert both[0].shape == q.shape and both[1].shape == q.shape[:3]

wrong = [
    lambda: nn.softmax("x"),
    lambda: nn.softmax(x, where=np.ones((3, 4))),
    lambda: nn.softmax(x, where=mask[:, :3]),
    lambda: nn.layer_norm(x, scale=np.ones(5)),
    lambda: nn.dot_product_attention(q, kv, kv[:, :5]),
    lambda: nn.dot_product_attention(q, kv[..., :4], kv),
    lambda: ft.grad(lambda x: np.sum(nn.softmax(x, where=mask[:, :3])))(x),
]
for k, call in enumerate(wrong):
    try:
        call()
    except TypeCheckError:
        continue
    raise AssertionError(f"case {k} passes the check")
print(len(wrong))
"""


def test_signatures_have_the_shapes_of_calls() -> None:
    command = [sys.executable, "-B", "-W", "error", "-c", SCRIPT]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert found.stdout == "7\n", found.stderr
