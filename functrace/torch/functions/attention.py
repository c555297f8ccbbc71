"""The rows of attention, and ``bilinear``.

Layer: 9.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.contraction import einsum as core_einsum
from functrace.ops.contraction import matmul as core_matmul
from functrace.ops.contraction import swap_last
from functrace.ops.reductions import reduce_max, softmax, softmax_below
from functrace.ops.shaping import reshape as core_reshape
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.errors.warnings import warn
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import factories, picking, products, reductions, shaping
from functrace.torch.functions.dropout import dropout
from functrace.torch.functions.losses import MUL_NUMBER, linear
from functrace.torch.tensors.dtypes import DTYPES, is_half
from functrace.torch.tensors.tensor import Operand, Tensor, Value, wrap
from functrace.typing import Array

ROWS = FunctionTable()
LARGE = 1 << 24
"""Attention with more weights than this recomputes them for its derivative."""

# -- bilinear --------------------------------------------------------------------------------------

TRILINEAR = Op(
    "TrilinearBackward0",
    lambda x, weight, y: core_einsum("ni,oij,nj->no", x, weight, y),
    (("i1", 0), ("i2", 1), ("i3", 2)),
    in_rows=True,
)


@ROWS.function("function nn.functional")
def bilinear(
    input1: Operand, input2: Operand, weight: Operand, bias: Operand | None = None
) -> Value:
    """Return ``input1 @ weight[k] @ input2 + bias[k]`` for each ``k``.

    Args:
        input1: shape (..., i).
        input2: shape (..., j).
        weight: shape (k, i, j).
        bias: shape (k,).

    Raises:
        RuntimeError: if shapes or dtypes do not fit.
    """
    f.tensors_only("bilinear", input1=input1, input2=input2, weight=weight)
    a, b, w = (f.shape_of(x) for x in (input1, input2, weight))
    dtypes = [f.dtype_of(x) for x in (input1, input2, weight)]
    if len(set(dtypes)) > 1:
        raise RuntimeError(errors.bilinear_dtypes(*[errors.name_in_c(DTYPES[d]) for d in dtypes]))
    if len(a) != len(b):
        raise RuntimeError(errors.bilinear_dimensions(len(a), len(b)))
    for k in range(len(a) - 1):
        if a[k] != b[k]:
            raise RuntimeError(errors.bilinear_batch(k, a[k], b[k]))
    for k, (n, m) in enumerate(((a[-1], w[1]), (b[-1], w[2])), 1):
        if n != m:
            raise RuntimeError(errors.bilinear_size(f"input{k}", n, m))
    if bias is not None and f.shape_of(bias)[0] != w[0]:
        raise RuntimeError(errors.bilinear_size("bias", f.shape_of(bias)[0], w[0]))
    flat = shaping.reshape(input1, (-1, a[-1])), shaping.reshape(input2, (-1, b[-1]))
    found = apply(TRILINEAR, (flat[0], weight, flat[1]))
    found = shaping.reshape(found, (*a[:-1], w[0]))
    return found if bias is None else f.add(found, bias)


# -- scaled dot products ---------------------------------------------------------------------------


def _scores(q: Array, k: Array, mask: Any, scale: float, causal: bool) -> Any:
    found = ew.mul(core_matmul(q, swap_last(k)), scale)
    if causal:
        n, m = q.shape[-2], k.shape[-2]
        found = ew.where(np.tri(n, m, dtype=bool), found, -np.inf)
    if mask is None:
        return found
    if mask.dtype == np.bool_:
        return ew.where(mask, found, -np.inf)
    return ew.add(found, mask)


def _shares(scores: Array, masked: bool) -> Any:
    """Return the softmax along the last axis; 0 in rows where all scores are -inf."""
    axis = scores.ndim - 1
    if 0 in scores.shape:
        return ew.exp(scores)
    if not masked:
        return softmax(scores, axis)
    if type(scores) is np.ndarray:
        most = np.maximum.reduce(scores, axis, keepdims=True)
        if not (most == -np.inf).any():
            return softmax_below(scores, most, axis)
    largest = ew.stop_gradient(reduce_max(scores, (axis,)))
    empty = core_reshape(ew.equal(largest, -np.inf), (*scores.shape[:-1], 1))
    return ew.where(empty, 0, softmax(ew.where(empty, 0, scores), axis))


def _attention(q: Array, k: Array, v: Array, *rest: Any) -> Any:
    *masks, scale, causal, keeps = rest
    mask = masks[0] if masks else None
    shares = _shares(_scores(q, k, mask, scale, causal), mask is not None)
    out = core_matmul(shares, v)
    return (out, shares) if keeps else out


def _attention_derived(q: Array, k: Array, v: Array, *rest: Any) -> Any:
    """Return attention and its weights, whose derivative is in terms of the saved weights: it is 0
    in rows where these are.
    """
    *masks, scale, causal, _ = rest
    shares = softmax(_scores(q, k, masks[0] if masks else None, scale, causal), q.ndim - 1)
    return core_matmul(shares, v), shares


def _attention_op(masked: bool, keeps: bool) -> Op:
    names = ("query", "key", "value", "attn_mask")[: 4 if masked else 3]
    return Op(
        "ScaledDotProductFlashAttentionForCpuBackward0",
        _attention,
        (*[(name, k) for k, name in enumerate(names)], *((("weights", -2),) if keeps else ())),
        edges=(0, 1, 2),
        keeps=names,
        derived=_attention_derived if keeps else None,
        details=lambda specs, params: {
            "scale": params[0], "is_causal": params[1], "dropout_p": 0.0,
        } | ({} if masked else {"attn_mask": None}),
    )  # fmt: skip


_ATTENTION = {(m, k): _attention_op(m, k) for m in (False, True) for k in (False, True)}
SAFE_SOFTMAX = Op(
    "SafeSoftmaxBackward0", lambda x, dim: _shares(x, True), (("result", -1),),
    derived=softmax, details=lambda specs, params: {"dim": params[0]},
)  # fmt: skip
SAFE_SOFTMAX_OF_ALL = Op(
    "SafeSoftmaxBackward0", lambda x, dim: softmax(x, dim), (("result", -1),),
    details=lambda specs, params: {"dim": params[0]},
)  # fmt: skip


@ROWS.function("nn.functional _C._nn")
def scaled_dot_product_attention(
    query: Operand,
    key: Operand,
    value: Operand,
    attn_mask: Operand | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    """Return ``softmax(query @ key.T * scale + attn_mask) @ value`` for every head.

    Args:
        query: shape (..., heads, targets, d).
        key: shape (..., heads, sources, d).
        value: shape (..., heads, sources, e).
        attn_mask: bools, which sources take part; or numbers, added to the scores. It broadcasts
            against (..., heads, targets, sources). The result is 0 where no source takes part.
        dropout_p: probability with which weights are set to 0.
        is_causal: True if targets attend to sources up to their own position.
        scale: factor of the scores; by default ``1 / sqrt(d)``.
        enable_gqa: True if several heads of the query share one of key and value.

    Returns:
        shape (..., heads, targets, e).

    Raises:
        RuntimeError: if shapes or dtypes do not fit.
    """
    _check_attention(query, key, value, attn_mask, dropout_p)
    shapes: list[Any] = [f.shape_of(x) for x in (query, key, value)]
    q, k, v = shapes
    if enable_gqa and len(q) > 2:
        heads = [s[-3] for s in (q, k, v)]
        if heads[1] != heads[2] or heads[0] % heads[1]:
            raise RuntimeError(errors.SHARED_HEADS)
        if heads[1] != heads[0]:
            key, value = (
                picking.repeat_interleave(x, heads[0] // heads[1], -3) for x in (key, value)
            )
            k, v = f.shape_of(key), f.shape_of(value)
    factor = (1 / math.sqrt(q[-1]) if q[-1] else math.inf) if scale is None else float(scale)
    masked = attn_mask is not None
    fused = (
        len(q) == len(k) == len(v) == 4
        and dropout_p == 0
        and q[-1] == v[-1] != 0
        and not (masked and isinstance(attn_mask, Tensor) and attn_mask.requires_grad)
    )
    if fused and (q[:2] == k[:2] == v[:2]) and 0 not in (*q, *k):
        keeps = MODES.recording and math.prod(q[:-1]) * k[-2] <= LARGE
        keeps = (
            bool(keeps)
            and MODES.dispatch is None
            and any(isinstance(x, Tensor) and x.requires_grad for x in (query, key, value))
        )
        operands = (query, key, value, *((_like(attn_mask, query),) if masked else ()))
        found = apply(_ATTENTION[masked, keeps], operands, (factor, bool(is_causal), keeps))
        return found[0] if keeps else found
    dtype = f.dtype_of(query)
    if not is_half(dtype):
        return _by_steps(query, key, value, attn_mask, dropout_p, is_causal, factor)
    q, k, v = (f.to(x, np.dtype(np.float32)) for x in (query, key, value))
    if masked and f.dtype_of(attn_mask) != np.bool_:
        attn_mask = f.to(attn_mask, np.dtype(np.float32))
    return f.to(_by_steps(q, k, v, attn_mask, dropout_p, is_causal, factor), dtype)


def _like(mask: Any, query: Operand) -> Any:
    return mask if f.dtype_of(mask) == np.bool_ else f.to(mask, f.dtype_of(query))


def _by_steps(
    query: Operand, key: Operand, value: Operand, mask: Any, dropout_p: float, causal: bool,
    factor: float,
) -> Value:  # fmt: skip
    n, m = f.shape_of(query)[-2], f.shape_of(key)[-2]
    added: Any = None
    dtype = f.dtype_of(query)
    if causal:
        added = np.where(np.tri(n, m, dtype=bool), 0.0, -np.inf).astype(dtype)
        added = wrap(added) if isinstance(query, Tensor) else added
    if mask is not None:
        given = _additive(mask, dtype)
        added = given if added is None else f.add(given, added)
    root = math.sqrt(factor) if factor >= 0 else None
    if root is None:
        scores = f.mul(products.matmul(query, shaping.transpose(key, -2, -1)), factor)
    else:
        scaled = apply(MUL_NUMBER, (query, root))
        scores = products.matmul(scaled, apply(MUL_NUMBER, (shaping.transpose(key, -2, -1), root)))
    if added is not None:
        scores = f.add(scores, added)
    op = SAFE_SOFTMAX_OF_ALL if added is None else SAFE_SOFTMAX
    shares = apply(op, (scores,), (len(f.shape_of(scores)) - 1,))
    if dropout_p > 0:
        shares = dropout(shares, dropout_p)
    return products.matmul(shares, value)


def _additive(mask: Operand, dtype: np.dtype[Any]) -> Any:
    """Return a mask as numbers to add: -inf where a bool is False."""
    if f.dtype_of(mask) != np.bool_:
        return f.to(mask, dtype)
    zeros = factories.zeros(f.shape_of(mask), dtype=DTYPES[dtype])
    return picking.masked_fill(zeros, f.invert(mask), -math.inf)


def _check_attention(
    query: Operand, key: Operand, value: Operand, mask: Operand | None, dropout_p: float
) -> None:
    f.tensors_only("scaled_dot_product_attention", query=query, key=key, value=value)
    operands = query, key, value
    dims = [len(f.shape_of(x)) for x in operands]
    dtypes = [f.dtype_of(x) for x in operands]
    if len(set(dtypes)) > 1:
        raise RuntimeError(errors.attention_dtypes(*[errors.name_in_c(DTYPES[d]) for d in dtypes]))
    if min(dims) < 2:
        raise RuntimeError(errors.attention_dimensions(*dims))
    if mask is not None:
        given = f.dtype_of(mask)
        if given not in (np.bool_, np.float32, dtypes[0]):
            raise RuntimeError(
                errors.attention_mask(*[errors.name_in_c(DTYPES[d]) for d in (given, dtypes[0])])
            )
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")


# -- several heads ---------------------------------------------------------------------------------


@ROWS.function("nn.functional")
def multi_head_attention_forward(
    query: Operand,
    key: Operand,
    value: Operand,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Operand | None,
    in_proj_bias: Operand | None,
    bias_k: Operand | None,
    bias_v: Operand | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Operand,
    out_proj_bias: Operand | None,
    training: bool = True,
    key_padding_mask: Operand | None = None,
    need_weights: bool = True,
    attn_mask: Operand | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Operand | None = None,
    k_proj_weight: Operand | None = None,
    v_proj_weight: Operand | None = None,
    static_k: Operand | None = None,
    static_v: Operand | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """Return attention of several heads, with projections of its operands and its result.

    Args:
        query: shape (targets, N, E), or (targets, E) without a batch.
        key, value: shape (sources, N, ...), or without a batch.
        embed_dim_to_check: E.
        num_heads: number of heads, which divides E.
        in_proj_weight, in_proj_bias: the projections of query, key and value in one matrix of shape
            (3 E, E), and their summand.
        bias_k, bias_v: one more key and value, shape (1, 1, E).
        add_zero_attn: True for one more key and value, which are 0.
        dropout_p: probability with which weights are set to 0 in training.
        out_proj_weight, out_proj_bias: projection of the result.
        key_padding_mask: True (or -inf) at sources that do not take part, shape (N, sources).
        need_weights: True to return the weights.
        attn_mask: True at pairs that do not take part, or numbers to add: shape (targets, sources)
            or (N * heads, targets, sources).
        use_separate_proj_weight: True for ``q_proj_weight``, ``k_proj_weight``, ``v_proj_weight``.
        static_k, static_v: projected keys and values to use instead, shape (N * heads, sources, E /
            heads).
        average_attn_weights: True for the mean of the heads' weights.
        is_causal: hint that the mask is causal.

    Returns:
        the result, shaped like the query, and the weights: shape (N, targets, sources), or (N,
        heads, targets, sources); None without ``need_weights``.

    Raises:
        AssertionError, RuntimeError: if arguments do not fit.
    """
    is_batched = _check_heads(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not is_batched:
        same = key is value and query is key
        query, key, value = (shaping.unsqueeze(x, 1) for x in (query, key, value))
        if same:
            key = value = query
        if key_padding_mask is not None:
            key_padding_mask = shaping.unsqueeze(key_padding_mask, 0)
    targets, batch, embed = f.shape_of(query)
    sources = f.shape_of(key)[0]
    dtype = f.dtype_of(query)
    key_padding_mask = _canonical(
        key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(errors.CAUSAL_HINT)
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        attn_mask = _canonical(attn_mask, "attn_mask", None, "", dtype, checks_other=False)
        if key_padding_mask is not None:
            is_causal = False
    assert embed == embed_dim_to_check, (
        f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed}"
    )
    head = embed // num_heads
    assert head * num_heads == embed, f"embed_dim {embed} not divisible by num_heads {num_heads}"
    k_shape, v_shape = f.shape_of(key), f.shape_of(value)
    if use_separate_proj_weight:
        assert k_shape[:2] == v_shape[:2], errors.key_rows(k_shape[:2], v_shape[:2])
    else:
        assert k_shape == v_shape, errors.key_shape(k_shape, v_shape)
    q, k, v = _projected(
        query, key, value, in_proj_weight, in_proj_bias, use_separate_proj_weight,
        (q_proj_weight, k_proj_weight, v_proj_weight), embed,
    )  # fmt: skip
    if attn_mask is not None:
        attn_mask = _checked_mask(attn_mask, targets, sources, batch * num_heads)
    more = 0
    if bias_k is not None and bias_v is not None:
        assert static_k is None, "bias cannot be added to static key."
        assert static_v is None, "bias cannot be added to static value."
        k = shaping.cat([k, picking.repeat(bias_k, 1, batch, 1)])
        v = shaping.cat([v, picking.repeat(bias_v, 1, batch, 1)])
        more += 1
    else:
        assert bias_k is None, "bias_k is set but bias_v is None"
        assert bias_v is None, "bias_v is set but bias_k is None"
    q = _heads(q, targets, batch * num_heads, head)
    if static_k is None:
        k = _heads(k, f.shape_of(k)[0], batch * num_heads, head)
    else:
        k = _static("static_k", static_k, batch * num_heads, head)
    if static_v is None:
        v = _heads(v, f.shape_of(v)[0], batch * num_heads, head)
    else:
        v = _static("static_v", static_v, batch * num_heads, head)
    if add_zero_attn:
        zeros = factories.zeros((batch * num_heads, 1, head), dtype=DTYPES[f.dtype_of(k)])
        k, v = shaping.cat([k, zeros], 1), shaping.cat([v, zeros], 1)
        more += 1
    if more:
        attn_mask, key_padding_mask = (_padded(x, more) for x in (attn_mask, key_padding_mask))
    sources = f.shape_of(k)[1]
    if key_padding_mask is not None:
        rows = shaping.view(key_padding_mask, (batch, 1, 1, sources))
        rows = shaping.reshape(
            shaping.expand(rows, (-1, num_heads, -1, -1)), (batch * num_heads, 1, sources)
        )
        attn_mask = rows if attn_mask is None else f.add(attn_mask, rows)
    if not training:
        dropout_p = 0.0
    output_rows = targets * batch
    if need_weights:
        scaled = f.mul(q, math.sqrt(1.0 / f.shape_of(q)[2]))
        scores = products.bmm(scaled, shaping.transpose(k, -2, -1))
        if attn_mask is not None:
            scores = f.add(scores, attn_mask)
        weights = reductions.softmax(scores, -1)
        if dropout_p > 0.0:
            weights = dropout(weights, dropout_p)
        found = products.bmm(weights, v)
        found = shaping.reshape(shaping.transpose(found, 0, 1), (output_rows, embed))
        found = linear(found, out_proj_weight, out_proj_bias)
        found = shaping.view(found, (targets, batch, f.shape_of(found)[1]))
        weights = shaping.view(weights, (batch, num_heads, targets, sources))
        if average_attn_weights:
            weights = reductions.mean(weights, 1)
        if not is_batched:
            found, weights = shaping.squeeze(found, 1), shaping.squeeze(weights, 0)
        return found, weights
    if attn_mask is not None:
        if f.shape_of(attn_mask)[0] == 1 and len(f.shape_of(attn_mask)) == 3:
            attn_mask = shaping.unsqueeze(attn_mask, 0)
        else:
            attn_mask = shaping.view(attn_mask, (batch, num_heads, -1, sources))
    q, k, v = (
        shaping.view(x, (batch, num_heads, rows, head))
        for x, rows in ((q, targets), (k, sources), (v, sources))
    )
    found = scaled_dot_product_attention(q, k, v, attn_mask, dropout_p, is_causal)
    found = shaping.reshape(shaping.permute(found, 2, 0, 1, 3), (output_rows, embed))
    found = linear(found, out_proj_weight, out_proj_bias)
    found = shaping.view(found, (targets, batch, f.shape_of(found)[1]))
    return (found if is_batched else shaping.squeeze(found, 1)), None


def _heads(x: Any, rows: int, count: int, head: int) -> Any:
    """Return (rows, N, E) as (N * heads, rows, E / heads)."""
    return shaping.transpose(shaping.reshape(x, (rows, count, head)), 0, 1)


def _static(name: str, x: Operand, count: int, head: int) -> Operand:
    shape = f.shape_of(x)
    for axis, wanted in ((0, count), (2, head)):
        assert shape[axis] == wanted, (
            f"expecting {name}.size({axis}) of {wanted}, but got {shape[axis]}"
        )
    return x


def _padded(mask: Any, more: int) -> Any:
    """Return a mask with columns of 0."""
    if mask is None:
        return None
    zeros = factories.zeros((*f.shape_of(mask)[:-1], more), dtype=DTYPES[f.dtype_of(mask)])
    return shaping.cat([mask, zeros], -1)


def _checked_mask(mask: Operand, targets: int, sources: int, count: int) -> Any:
    shape = f.shape_of(mask)
    if len(shape) == 2:
        if shape != (targets, sources):
            raise RuntimeError(errors.heads_mask(2, shape, (targets, sources)))
        return shaping.unsqueeze(mask, 0)
    if len(shape) == 3:
        if shape != (count, targets, sources):
            raise RuntimeError(errors.heads_mask(3, shape, (count, targets, sources)))
        return mask
    raise RuntimeError(f"attn_mask's dimension {len(shape)} is not supported")


def _canonical(
    mask: Any, name: str, other: Any, other_name: str, dtype: np.dtype[Any], *,
    checks_other: bool = True,
) -> Any:  # fmt: skip
    """Return a mask as numbers to add: -inf where a bool is True."""
    if mask is None:
        return None
    kind = f.dtype_of(mask)
    assert kind == np.bool_ or kind.kind in "fV", (
        f"only bool and floating types of {name} are supported"
    )
    if checks_other and other is not None and f.dtype_of(other) != kind:
        warn(errors.mismatched_masks(name, other_name))
    if kind != np.bool_:
        return mask
    zeros = factories.zeros(f.shape_of(mask), dtype=DTYPES[dtype])
    return picking.masked_fill(zeros, mask, -math.inf)


def _projected(
    query: Any, key: Any, value: Any, weight: Any, bias: Any, separate: bool,
    weights: tuple[Any, ...], embed: int,
) -> list[Any]:  # fmt: skip
    """Return the projections of query, key and value."""
    biases = [None] * 3 if bias is None else list(picking.chunk(bias, 3))
    if separate:
        for name, one in zip("qkv", weights, strict=True):
            assert one is not None, (
                f"use_separate_proj_weight is True but {name}_proj_weight is None"
            )
        return [
            linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)
        ]
    assert weight is not None, "use_separate_proj_weight is False but in_proj_weight is None"
    if key is value and query is key:
        found = linear(query, weight, bias)
        return list(picking.chunk(found, 3, -1))
    parts = picking.chunk(weight, 3)
    return [linear(x, w, b) for x, w, b in zip((query, key, value), parts, biases, strict=True)]


def _check_heads(
    query: Operand, key: Operand, value: Operand, padding: Any, mask: Any, num_heads: int
) -> bool:
    """Check the numbers of dimensions; returns True if there is a batch."""
    q, k, v = (f.shape_of(x) for x in (query, key, value))
    if len(q) not in (2, 3):
        raise AssertionError(errors.heads_query(len(q)))
    batched = len(q) == 3
    word, wanted = ("batched (3-D)", 3) if batched else ("unbatched (2-D)", 2)
    assert len(k) == len(v) == wanted, errors.heads_key(word, wanted, len(k), len(v))
    if padding is not None:
        shape = f.shape_of(padding)
        assert len(shape) == wanted - 1, errors.heads_padding(word, wanted - 1, len(shape))
        if batched:
            assert shape[0] == k[1], (
                f"Expected key_padded_mask.shape[0] to be {k[1]}, but got {shape[0]}"
            )
            assert shape[1] == k[0], (
                f"Expected key_padded_mask.shape[1] to be {k[0]}, but got {shape[1]}"
            )
    if mask is not None:
        shape = f.shape_of(mask)
        assert len(shape) in (2, 3), errors.heads_mask_dimensions(word, len(shape))
        if not batched and len(shape) == 3:
            expected = (num_heads, q[0], k[0])
            assert shape == expected, f"Expected `attn_mask` shape to be {expected} but got {shape}"
    return batched
