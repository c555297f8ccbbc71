"""Attention.

Layer: 8 (api).
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from jaxtyping import Bool, Num

from functrace.errors import DtypeError, ShapeError
from functrace.nn.normalizing import logsumexp, softmax
from functrace.nn.operands import X, floating, numeric
from functrace.ops.elementwise import stop_gradient
from functrace.typing import Array


def dot_product_attention(
    query: Num[X, "*b t n h"],
    key: Num[X, "*b s k h"],
    value: Num[X, "*b s k h"],
    bias: Num[X, "..."] | None = None,
    mask: Bool[X, "..."] | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Num[X, "*b"] | None = None,
    key_value_seq_lengths: Num[X, "*b"] | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    return_residual: bool = False,
) -> Num[Array, "*b t n h"] | tuple[Num[Array, "*b t n h"], Num[Array, "*b t n"]]:
    """Return ``softmax(query @ key.T * scale + bias) @ value`` for every head.

    Args:
        query: shape ``(B, T, N, H)`` or ``(T, N, H)``: examples, positions, heads, features.
        key, value: shape ``(B, S, K, H)`` or ``(S, K, H)``; N is a multiple of K, and that many
            heads share a key.
        bias: added to the logits; broadcasts against ``(B, N, T, S)``.
        mask: bools, which logits take part; broadcasts likewise. For a row without any, or with all
            logits -inf by ``bias``, the result is 0, and so is its gradient, as in PyTorch
            (``jax.nn`` has the mean of the values there).
        scale: of the logits; ``1 / sqrt(H)`` by default.
        is_causal: whether each position attends only to earlier positions and itself.
        query_seq_lengths, key_value_seq_lengths: shape ``(B,)``: number of valid positions per
            example. Results of invalid positions are 0.
        local_window_size: number of visible positions to the left and to the right; one number for
            both.
        return_residual: whether to return the logarithms of the softmax's denominators, too, as
            constants; -inf where no logit takes part.

    Returns:
        an array like ``query``; with ``return_residual`` a pair, the second of shape ``(B, T, N)``.

    Raises:
        ShapeError, DtypeError: if shapes or dtypes do not fit.

    Example:
        >>> import numpy as np
        >>> x = np.eye(3)[:, None, :]
        >>> np.round(dot_product_attention(x, x, x, is_causal=True)[1, 0], 3)
        array([0.36, 0.64, 0.  ])

    Cost:
        ``4 B N T S H`` flops; the logits, ``B N T S`` of them, are kept for the derivative.

    Source:
        ``jax.nn.dot_product_attention``; there the softmax is in single precision, here in that of
        the logits.
    """
    queries, keys, values = (
        floating(x, f"the {name} of dot_product_attention")
        for x, name in ((query, "query"), (key, "key"), (value, "value"))
    )
    is_single = queries.ndim == 3
    if is_single:
        queries = queries[None]
    keys, values = (x[None] if x.ndim == 3 else x for x in (keys, values))
    _check(queries, keys, values)
    targets: int
    examples, targets, heads, features = queries.shape
    sources, shared = keys.shape[1:3]
    grouped = queries.reshape(examples, targets, shared, heads // shared, features)
    precision = np.promote_types(queries.dtype, np.float32)
    logits = np.einsum("btkgh,bskh->bkgts", grouped.astype(precision), keys.astype(precision))
    logits = logits.reshape(examples, heads, targets, sources) * (
        1 / math.sqrt(features) if scale is None else scale
    )
    if bias is not None:
        logits = (logits + numeric(bias, "the bias of dot_product_attention")).astype(precision)
    lengths = [
        None if n is None else numeric(n, "lengths of dot_product_attention")
        for n in (query_seq_lengths, key_value_seq_lengths)
    ]
    taken = _taken(targets, sources, mask, is_causal, local_window_size, *lengths)
    if taken is not None:
        logits = np.where(taken, logits, -np.inf).astype(precision)
    is_partial = taken is not None or bias is not None
    shares = softmax(logits, where=logits != -np.inf if is_partial else None)
    shares = shares.astype(values.dtype).reshape(
        examples, shared, heads // shared, targets, sources
    )
    result = cast("Array", np.einsum("bkgts,bskh->btkgh", shares, values))
    result = result.reshape(examples, targets, heads, features)
    if lengths[0] is not None:
        inside = np.arange(targets)[None, :] < cast("Array", lengths[0][:, None])
        result = result * inside[:, :, None, None]
    if not return_residual:
        return result[0] if is_single else result
    residual = stop_gradient(
        np.transpose(logsumexp(logits, axis=-1), (0, 2, 1)).astype(values.dtype)
    )
    return (result[0], residual[0]) if is_single else (result, residual)


def _check(queries: Array, keys: Array, values: Array) -> None:
    for name, x in (("query", queries), ("key", keys), ("value", values)):
        if x.ndim != 4:
            raise ShapeError(
                f"dot_product_attention: {name} has {x.ndim} axes",
                fix="pass (examples, positions, heads, features)",
            )
        if x.dtype != keys.dtype:
            raise DtypeError(
                f"dot_product_attention: {name} is {x.dtype}, and key is {keys.dtype}",
                fix="convert them with .astype",
            )
    if values.shape != keys.shape:
        raise ShapeError(
            f"dot_product_attention: value has the shape {list(values.shape)}, and key "
            f"{list(keys.shape)}",
            fix="give them one shape",
        )
    examples, _, heads, features = queries.shape
    if (examples, features) != (keys.shape[0], keys.shape[3]):
        raise ShapeError(
            f"dot_product_attention: query has the shape {list(queries.shape)}, and key "
            f"{list(keys.shape)}",
            fix="give them the same examples and features",
        )
    if heads % keys.shape[2]:
        raise ShapeError(
            f"dot_product_attention: query has {heads} heads, which is no multiple of the "
            f"{keys.shape[2]} of key",
            fix="make the number of heads a multiple of the key's",
        )


def _taken(
    targets: int,
    sources: int,
    mask: X | None,
    is_causal: bool,
    window: int | tuple[int, int] | None,
    query_lengths: Array | None,
    key_lengths: Array | None,
) -> Any:
    """Return the mask of logits that take part, broadcastable against them; ``None`` if all do."""
    rows, columns = np.arange(targets)[:, None], np.arange(sources)[None, :]
    parts: list[Any] = []
    if mask is not None:
        given = numeric(mask, "the mask of dot_product_attention")
        if given.dtype.kind != "b":
            raise DtypeError(
                f"dot_product_attention: the mask is {given.dtype}, not bool",
                fix="pass a term of the logits as bias",
            )
        parts.append(given)
    if is_causal:
        parts.append(columns <= rows)
    if window is not None:
        left, right = (window, window) if isinstance(window, int) else window
        parts.append((rows <= columns + left) & (rows >= columns - right))
    if query_lengths is not None:
        parts.append(rows < query_lengths[:, None, None, None])
    if key_lengths is not None:
        parts.append(columns < key_lengths[:, None, None, None])
    taken: Any = None
    for part in parts:
        taken = part if taken is None else taken & part
    return taken
