"""Attention and bilinear: values against NumPy, derivatives against differences, masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from tests.torch.functions.slopes import check_slopes

F = torch.nn.functional
RNG = np.random.default_rng(5)
Q, K, V = (RNG.uniform(-1, 1, (2, 3, n, 4)) for n in (5, 6, 6))
MASK = RNG.uniform(-1, 1, (5, 6))


def t(x: Any) -> Any:
    return torch.from_numpy(np.array(x))


def attention(q: Any, k: Any, v: Any, added: Any = 0.0, scale: float = 0.5) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) * scale + added
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True) @ v


def test_attention_and_its_masks() -> None:
    run = F.scaled_dot_product_attention
    given = t(Q), t(K), t(V)
    np.testing.assert_allclose(run(*given).numpy(), attention(Q, K, V))
    np.testing.assert_allclose(run(*given, scale=2.0).numpy(), attention(Q, K, V, scale=2.0))
    np.testing.assert_allclose(run(*given, t(MASK)).numpy(), attention(Q, K, V, MASK))
    closed = np.where(MASK > 0, 0, -np.inf)
    np.testing.assert_allclose(run(*given, t(MASK > 0)).numpy(), attention(Q, K, V, closed))
    causal = np.where(np.tri(5, 6, dtype=bool), 0, -np.inf)
    np.testing.assert_allclose(run(*given, is_causal=True).numpy(), attention(Q, K, V, causal))
    np.testing.assert_allclose(run(t(Q[0]), t(K[0]), t(V[0])).numpy(), attention(Q, K, V)[0])
    shared = run(t(Q[:, [0, 1, 2, 0]]), t(K[:, :2]), t(V[:, :2]), enable_gqa=True).numpy()
    rows = [0, 0, 1, 1]
    np.testing.assert_allclose(shared, attention(Q[:, [0, 1, 2, 0]], K[:, rows], V[:, rows]))


def test_slopes() -> None:
    run = F.scaled_dot_product_attention
    for operands in ([Q, K, V], [Q[0], K[0], V[0]]):
        check_slopes(run, operands)
        check_slopes(lambda q, k, v: run(q, k, v, t(MASK > 0)), operands)
        check_slopes(lambda q, k, v: run(q, k, v, is_causal=True), operands)


def test_rows_without_a_source_are_zero_and_so_are_their_gradients() -> None:
    mask = MASK > 0
    mask[1] = False
    for operands in ((Q, K, V), (Q[0], K[0], V[0])):
        q, k, v = (t(x).requires_grad_() for x in operands)
        out = F.scaled_dot_product_attention(q, k, v, t(mask))
        assert not out[..., 1, :].any()
        out.sum().backward()
        assert q.grad is not None and torch.isfinite(q.grad).all() and not q.grad[..., 1, :].any()


def test_several_heads_are_attention_of_projections() -> None:
    embed, heads = 4, 2
    x = RNG.uniform(-1, 1, (5, 3, embed))
    w, b = RNG.uniform(-1, 1, (3 * embed, embed)), RNG.uniform(-1, 1, 3 * embed)
    out = RNG.uniform(-1, 1, (embed, embed))

    def run(x: Any, w: Any, b: Any, out: Any, **given: Any) -> Any:
        return F.multi_head_attention_forward(
            x, x, x, embed, heads, w, b, None, None, False, 0.0, out, None, **given
        )

    q, k, v = np.split(x @ w.T + b, 3, -1)
    parts = [y.reshape(5, 3, heads, 2).transpose(1, 2, 0, 3) for y in (q, k, v)]
    expected = attention(*parts, scale=2**-0.5).transpose(2, 0, 1, 3).reshape(5, 3, embed) @ out.T
    given = [t(y) for y in (x, w, b, out)]
    found, shares = run(*given)
    np.testing.assert_allclose(found.numpy(), expected)
    np.testing.assert_allclose(shares.numpy().sum(-1), 1)
    found, nothing = run(*given, need_weights=False)
    assert nothing is None
    np.testing.assert_allclose(found.numpy(), expected)
    check_slopes(lambda *xs: run(*xs)[0], [x, w, b, out])


def test_bilinear() -> None:
    x, y = RNG.uniform(-1, 1, (3, 4)), RNG.uniform(-1, 1, (3, 2))
    w, b = RNG.uniform(-1, 1, (5, 4, 2)), RNG.uniform(-1, 1, 5)
    expected = np.einsum("ni,kij,nj->nk", x, w, y) + b
    np.testing.assert_allclose(F.bilinear(t(x), t(y), t(w), t(b)).numpy(), expected)
    check_slopes(F.bilinear, [x, y, w, b])


def test_refusals() -> None:
    with pytest.raises(RuntimeError, match="query, key, and value to have the same dtype"):
        F.scaled_dot_product_attention(t(Q), t(K).float(), t(V))
    with pytest.raises(RuntimeError, match="attn_mask dtype to be bool or float"):
        F.scaled_dot_product_attention(t(Q), t(K), t(V), t(np.ones((5, 6), int)))
    with pytest.raises(RuntimeError, match="input2 size does not match weight size"):
        F.bilinear(t(Q), t(Q), torch.ones(2, 4, 3, dtype=torch.float64))
