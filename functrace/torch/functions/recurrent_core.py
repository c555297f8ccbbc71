"""Recurrent layers on arrays: one operation for all steps of a layer in one direction.

`run_layer` loops in NumPy, and its primitives have a first derivative that does, too. `scan_layer`
is the same by ``functrace.scan``: it has every derivative, and is recorded by every transform.

Layouts are PyTorch's: steps, examples, features; the rows of weights are those of the gates (input,
forget, cell, output of an LSTM; reset, update, new of a GRU).

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from functrace.api.control_flow.loops import scan
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive, absent, is_linear
from functrace.ops import elementwise as ew
from functrace.ops.contraction import matmul, swap_last
from functrace.ops.indexing import index_static
from functrace.ops.joining import stack
from functrace.ops.shaping import broadcast_to, filled
from functrace.ops.shaping import reshape as core_reshape
from functrace.tracing.binding import bind
from functrace.typing import Array

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
"""Gates of each kind of layer."""
Sizes = tuple[int, ...] | None
"""Number of examples at each step, decreasing; None if all have every step."""


def _order(steps: int, reverse: bool) -> range:
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _count(sizes: Sizes, t: int, examples: int) -> int:
    return examples if sizes is None else sizes[t]


def _columns(w: Array) -> Array:
    return w.T.copy()


# -- forward ---------------------------------------------------------------------------------------


def _forward(
    gx: Array, h0: Array, c0: Array, w: Array, b: Array, kind: str, reverse: bool, sizes: Sizes
) -> tuple[Array, ...]:
    """Run all steps.

    Args:
        gx: contribution of the input to the gates, with biases: (steps, examples, gates * size).
        h0: first state; ``c0`` is returned unchanged.
        w: recurrent weights: (gates * size, size).
        b: bias of the new state before its gate, for a GRU: (size,).

    Returns:
        states at all steps, the last state (and cell state), cell states, and gates.
    """
    runs = _forward_gru if kind == "gru" else _forward_plain
    return runs(gx, h0, c0, w, b, kind, reverse, sizes)


def _forward_gru(
    gx: Array, h0: Array, c0: Array, w: Array, b: Array, kind: str, reverse: bool, sizes: Sizes
) -> tuple[Array, ...]:
    steps, examples, size = *gx.shape[:2], h0.shape[1]
    columns = _columns(w)
    acts = np.zeros_like(gx)
    hs, cs = (np.zeros((steps, examples, size), gx.dtype) for _ in range(2))
    h = h0.copy()
    for t in _order(steps, reverse):
        n = _count(sizes, t, examples)
        a, before = acts[t, :n], h[:n]
        made = np.matmul(before, columns)
        gates = a[:, : 2 * size]
        np.add(made[:, : 2 * size], gx[t, :n, : 2 * size], out=gates)
        gates *= 0.5
        np.tanh(gates, out=gates)
        gates *= 0.5
        gates += 0.5
        inner = cs[t, :n]  # the new state's recurrent part, before the reset gate
        np.add(made[:, 2 * size :], b, out=inner)
        new = a[:, 2 * size :]
        np.multiply(a[:, :size], inner, out=new)
        new += gx[t, :n, 2 * size :]
        np.tanh(new, out=new)
        now = hs[t, :n]
        np.subtract(before, new, out=now)
        now *= a[:, size : 2 * size]
        now += new
        h[:n] = now
    return hs, h, c0, cs, acts


def _forward_plain(
    gx: Array, h0: Array, c0: Array, w: Array, b: Array, kind: str, reverse: bool, sizes: Sizes
) -> tuple[Array, ...]:
    steps, examples, size = *gx.shape[:2], h0.shape[1]
    columns = _columns(w)
    hs = np.zeros((steps, examples, size), gx.dtype)
    h = h0.copy()
    for t in _order(steps, reverse):
        n = _count(sizes, t, examples)
        now = hs[t, :n]
        np.matmul(h[:n], columns, out=now)
        now += gx[t, :n]
        if kind == "tanh":
            np.tanh(now, out=now)
        else:
            np.maximum(now, 0, out=now)
        h[:n] = now
    return hs, h, c0, np.zeros((0, 0, 0), gx.dtype), np.zeros((0, 0, 0), gx.dtype)


# -- backward --------------------------------------------------------------------------------------


def _before(h0: Array, hs: Array, reverse: bool, sizes: Sizes, *, rows: bool = True) -> Array:
    """Return the state before each step; examples are rows, or columns of ``hs``."""
    if not rows:
        return _before(h0, hs.transpose(0, 2, 1), reverse, sizes).transpose(0, 2, 1)
    found = np.empty_like(hs)
    if reverse:
        found[-1] = h0
        found[:-1] = hs[1:]
        if sizes is not None:
            for t in range(len(sizes) - 1):
                found[t, sizes[t + 1] :] = h0[sizes[t + 1] :]
    else:
        found[0] = h0
        found[1:] = hs[:-1]
    if sizes is not None:
        for t, n in enumerate(sizes):
            found[t, n:] = 0
    return found


def _pull(
    d_hs: Array, d_hn: Array, d_cn: Array, h0: Array, c0: Array, w: Array, b: Array, hs: Array,
    cs: Array, acts: Array, kind: str, reverse: bool, sizes: Sizes,
) -> tuple[Array, ...]:  # fmt: skip
    """Return the gradients of the gates' inputs, the first states, the weights and the bias."""
    steps, examples, size = hs.shape
    previous = _before(h0, hs, reverse, sizes)
    d_gx = np.zeros((steps, examples, w.shape[0]), hs.dtype)
    dh, dc = d_hn.copy(), d_cn.copy()
    d_recurrent = d_gx
    order = _order(steps, not reverse)
    if kind == "gru":
        reset, update, new = (acts[:, :, k * size : (k + 1) * size] for k in range(3))
        d_recurrent = np.zeros_like(d_gx)
        of_new = (1 - update) * (1 - np.square(new))
        of_update = (previous - new) * (update - np.square(update))
        of_reset = cs * (reset - np.square(reset))
        for t in order:
            n = _count(sizes, t, examples)
            g, r, d = d_gx[t, :n], d_recurrent[t, :n], dh[:n]
            d += d_hs[t, :n]
            inner = g[:, 2 * size :]
            np.multiply(d, of_new[t, :n], out=inner)
            np.multiply(d, of_update[t, :n], out=g[:, size : 2 * size])
            np.multiply(inner, of_reset[t, :n], out=g[:, :size])
            r[:, : 2 * size] = g[:, : 2 * size]
            np.multiply(inner, reset[t, :n], out=r[:, 2 * size :])
            d *= update[t, :n]
            d += np.matmul(r, w)
    else:
        slopes = 1 - np.square(hs) if kind == "tanh" else (hs > 0).astype(hs.dtype)
        for t in order:
            n = _count(sizes, t, examples)
            d = dh[:n]
            d += d_hs[t, :n]
            np.multiply(d, slopes[t, :n], out=d_gx[t, :n])
            np.matmul(d_gx[t, :n], w, out=d)
    flat = d_recurrent.reshape(-1, w.shape[0])
    d_w = np.matmul(flat.T, previous.reshape(-1, size))
    d_b = flat[:, 2 * size :].sum(0) if kind == "gru" else np.zeros_like(b)
    return d_gx, dh, dc, d_w, d_b


def _pull_aval(
    d_hs: ShapeDtype, d_hn: ShapeDtype, d_cn: ShapeDtype, h0: ShapeDtype, c0: ShapeDtype,
    w: ShapeDtype, b: ShapeDtype, *_rest: object,
) -> tuple[ShapeDtype, ...]:  # fmt: skip
    return ShapeDtype((*d_hs.shape[:2], w.shape[0]), d_hs.dtype), h0, c0, w, b


def _each(primitive: Primitive) -> Any:
    """Return the batch rule that applies a primitive to the examples one by one."""

    def batch(operands: tuple[Any, ...], is_batched: tuple[bool, ...], *params: object) -> Any:
        count = next(x.shape[0] for x, flag in zip(operands, is_batched, strict=True) if flag)
        found = [
            bind(
                primitive,
                tuple(
                    [
                        index_static(x, (k,)) if flag else x
                        for x, flag in zip(operands, is_batched, strict=True)
                    ]
                ),
                params,
            )
            for k in range(count)
        ]
        return tuple([stack(list(parts), 0) for parts in zip(*found, strict=True)])

    return batch


_WITHOUT = absent(
    because="the gradient of a recurrent layer's fast loop has no derivative",
    instead="differentiate scan_layer",
)
pull_p = Primitive(
    "recurrent_pull",
    eval=cast("Any", _pull),
    aval=_pull_aval,
    jvp=_WITHOUT,
    transpose=_WITHOUT,
    batch=lambda operands, is_batched, *params: _each(pull_p)(operands, is_batched, *params),
    params=("kind", "reverse", "sizes"),
    many=True,
)


def _pushed(*_rest: object) -> Any:
    raise NotImplementedError("the tangents of a recurrent layer come from scan_layer")


def _pushed_aval(
    d_gx: object, d_h0: object, d_c0: object, d_w: object, d_b: object, *rest: object
) -> Any:
    return rest[4], d_h0, d_c0


def _pushed_transpose(cts: tuple[Any, ...], *rest: Any) -> tuple[Any, ...]:
    *operands, kind, reverse, sizes = rest
    linear, residuals = operands[:5], operands[5:]
    h0, c0, hs = residuals[0], residuals[1], residuals[4]
    d_hs, d_hn, d_cn = (
        filled(hs, like.shape, like.dtype) if ct is None else ct
        for ct, like in zip(cts, (hs, h0, c0), strict=True)
    )
    found = bind(pull_p, (d_hs, d_hn, d_cn, *residuals), (kind, reverse, sizes))
    return tuple(
        [ct if is_linear(x) else None for x, ct in zip(linear, found, strict=True)]
        + [None] * len(residuals)
    )


pushed_p = Primitive(
    "recurrent_push",
    eval=_pushed,
    aval=_pushed_aval,
    jvp=_WITHOUT,
    transpose=_pushed_transpose,
    batch=_WITHOUT,
    params=("kind", "reverse", "sizes"),
    many=True,
)


def _layer_aval(
    gx: ShapeDtype, h0: ShapeDtype, c0: ShapeDtype, w: ShapeDtype, b: ShapeDtype,
    kind: str, reverse: bool, sizes: Sizes,
) -> tuple[ShapeDtype, ...]:  # fmt: skip
    hs = ShapeDtype((*gx.shape[:2], h0.shape[1]), gx.dtype)
    none = ShapeDtype((0, 0, 0), gx.dtype)
    kept = (hs, gx) if kind == "gru" else (none, none)
    return hs, h0, c0, *kept


def _layer_jvp(primals: Any, outputs: Any, tangents: Any, *params: Any) -> Any:
    _, h0, c0, w, b = primals
    hs, _, _, cs, acts = outputs
    linear = [
        filled(hs, x.shape, x.dtype) if t is None else t
        for x, t in zip(primals, tangents, strict=True)
    ]
    return *bind(pushed_p, (*linear, h0, c0, w, b, hs, cs, acts), params), None, None


layer_p = Primitive(
    "recurrent_layer",
    eval=cast("Any", _forward),
    aval=_layer_aval,
    jvp=_layer_jvp,
    transpose=absent(
        because="a recurrent layer is not linear", instead="differentiate with functrace.vjp"
    ),
    batch=lambda operands, is_batched, *params: _each(layer_p)(operands, is_batched, *params),
    params=("kind", "reverse", "sizes"),
    many=True,
)


# -- LSTM ------------------------------------------------------------------------------------------
# Features are rows here, and examples columns: then each gate is contiguous. The gates' order is
# output, input, forget, new: those with a sigmoid are neighbours, and those of the cell state, too.


def _turned(w: Array, size: int) -> Array:
    """Return PyTorch's rows of gates in the inner order."""
    return np.concatenate([w[3 * size :], w[: 2 * size], w[2 * size : 3 * size]])


def _turned_back(w: Array, size: int) -> Array:
    return np.concatenate([w[size:], w[:size]])


def _lstm(
    x: Array, h0: Array, c0: Array, w_ih: Array, w_hh: Array, b: Array, reverse: bool, sizes: Sizes
) -> tuple[Array, ...]:
    """Run all steps of an LSTM.

    Args:
        x: (steps, examples, features).
        h0, c0: first state and cell state, (examples, size).
        w_ih, w_hh: weights, (4 * size, features) and (4 * size, size).
        b: the sum of the biases, (4 * size,); or empty.

    Returns:
        states at all steps; the last state and cell state; and states, cell states and gates as
        (steps, rows, examples).
    """
    steps, examples, _ = x.shape
    size = h0.shape[1]
    # sigmoid(x) is (1 + tanh(x / 2)) / 2: one call of tanh for all gates.
    scales = np.full((4 * size, 1), 0.5, x.dtype)
    scales[3 * size :] = 1
    recurrent = _turned(w_hh, size) * scales
    acts = np.matmul(_turned(w_ih, size) * scales, x.transpose(0, 2, 1))
    if b.size:
        acts += _turned(b, size)[:, None] * scales
    made = np.empty if sizes is None else np.zeros
    hs, cs = (made((steps, size, examples), x.dtype) for _ in range(2))
    h, c = _columns(h0), _columns(c0)
    part, added = np.empty_like(h), np.empty_like(acts[0])
    for t in _order(steps, reverse):
        a, now, state = acts[t], cs[t], hs[t]
        np.matmul(recurrent, h, out=added)
        np.add(a, added, out=a)
        np.tanh(a, out=a)
        gates = a[: 3 * size]
        np.multiply(gates, 0.5, out=gates)
        np.add(gates, 0.5, out=gates)
        out, put, keep, new = a.reshape(4, size, examples)
        np.multiply(keep, c, out=now)
        np.multiply(put, new, out=part)
        np.add(now, part, out=now)
        np.tanh(now, out=part)
        np.multiply(part, out, out=state)
        if sizes is None:
            h, c = state, now
        else:
            n = sizes[t]
            h[:, :n], c[:, :n] = state[:, :n], now[:, :n]
            state[:, n:], now[:, n:], a[:, n:] = 0, 0, 0
    outputs = np.ascontiguousarray(hs.transpose(0, 2, 1))
    return outputs, _columns(h), _columns(c), hs, cs, acts


def _lstm_pull(
    d_hs: Array, d_hn: Array, d_cn: Array, x: Array, h0: Array, c0: Array, w_ih: Array, w_hh: Array,
    b: Array, hs: Array, cs: Array, acts: Array, reverse: bool, sizes: Sizes,
) -> tuple[Array, ...]:  # fmt: skip
    """Return the gradients of the input, the first states, the weights and the bias."""
    steps, size, examples = hs.shape
    previous, cells = (
        _before(first, every, reverse, sizes, rows=False) for first, every in ((h0, hs), (c0, cs))
    )
    bent = np.tanh(cs)
    # The slopes of all gates: sigmoid' = s - s ** 2, tanh' = 1 - t ** 2. The gradients replace
    # them: fewer arrays, whose memory the system would have to provide at every call.
    grads = np.square(acts)
    np.subtract(acts[:, : 3 * size], grads[:, : 3 * size], out=grads[:, : 3 * size])
    np.subtract(1, grads[:, 3 * size :], out=grads[:, 3 * size :])
    out, put, keep, new = (acts[:, k * size : (k + 1) * size] for k in range(4))
    for k, factor in enumerate((bent, new, cells, put)):
        grads[:, k * size : (k + 1) * size] *= factor
    np.square(bent, out=bent)
    np.subtract(1, bent, out=bent)
    through = np.multiply(bent, out, out=bent)
    rows = np.ascontiguousarray(_turned(w_hh, size).T)
    arriving = d_hs.transpose(0, 2, 1)
    dh, dc = _columns(d_hn), _columns(d_cn)
    part = np.empty_like(dh)
    for t in _order(steps, not reverse):
        n = examples if sizes is None else sizes[t]
        g, d, e = grads[t], dh, dc
        p, step, kept = part, through[t], keep[t]
        if n < examples:  # (the other slopes are 0)
            g, d, e, p, step, kept = (z[:, :n] for z in (g, d, e, p, step, kept))
        np.add(d, arriving[t, :, :n], out=d)
        np.multiply(d, step, out=p)
        np.add(e, p, out=e)
        first, others = g[:size], g[size:].reshape(3, size, n) if n == examples else None
        np.multiply(first, d, out=first)
        if others is None:
            for k in (1, 2, 3):
                g[k * size : (k + 1) * size] *= e
        else:
            np.multiply(others, e, out=others)
        np.multiply(e, kept, out=e)
        if n == examples:
            np.matmul(rows, g, out=d)
        else:
            d[...] = np.matmul(rows, g)
    inputs = _turned(w_ih, size)
    d_x = np.matmul(grads.transpose(0, 2, 1), inputs)
    d_ih, d_hh = _summed(grads, x), _summed(grads, previous.transpose(0, 2, 1))
    # (Over the steps first: three times as fast as over both axes at once.)
    d_b = _turned_back(grads.sum(0).sum(1), size) if b.size else np.zeros_like(b)
    return (
        d_x, _columns(dh), _columns(dc), _turned_back(d_ih, size), _turned_back(d_hh, size), d_b,
    )  # fmt: skip


def _summed(left: Array, right: Array) -> Array:
    """Return the sum of the products of the steps' matrices."""
    shape = left.shape[1], right.shape[2]
    if len(left) * shape[0] * shape[1] <= 1 << 16:  # else the memory costs more than the loop
        return np.matmul(left, right).sum(0)
    found = np.matmul(left[0], right[0])
    part = np.empty_like(found)
    for one, other in zip(left[1:], right[1:], strict=True):
        np.matmul(one, other, out=part)
        found += part
    return found


def _lstm_aval(
    x: ShapeDtype, h0: ShapeDtype, c0: ShapeDtype, w_ih: ShapeDtype, *_rest: object
) -> tuple[ShapeDtype, ...]:
    (steps, examples, _), size = x.shape, h0.shape[1]
    made = [ShapeDtype((steps, n, examples), x.dtype) for n in (size, size, 4 * size)]
    return ShapeDtype((steps, examples, size), x.dtype), h0, c0, *made


def _lstm_jvp(primals: Any, outputs: Any, tangents: Any, *params: Any) -> Any:
    linear = [
        filled(outputs[0], x.shape, x.dtype) if t is None else t
        for x, t in zip(primals, tangents, strict=True)
    ]
    return *bind(lstm_pushed_p, (*linear, *primals, *outputs[3:]), params), None, None, None


def _lstm_pushed_aval(*operands: Any) -> Any:
    x, h0, c0 = operands[6:9]
    return ShapeDtype((*x.shape[:2], h0.shape[1]), x.dtype), h0, c0


def _lstm_pushed_transpose(cts: tuple[Any, ...], *rest: Any) -> tuple[Any, ...]:
    *operands, reverse, sizes = rest
    linear, residuals = operands[:6], operands[6:]
    x, h0, c0 = residuals[:3]
    likes = (ShapeDtype((*x.shape[:2], h0.shape[1]), x.dtype), h0, c0)
    arriving = [
        filled(x, like.shape, like.dtype) if ct is None else ct
        for ct, like in zip(cts, likes, strict=True)
    ]
    found = bind(lstm_pull_p, (*arriving, *residuals), (reverse, sizes))
    return tuple(
        [ct if is_linear(x) else None for x, ct in zip(linear, found, strict=True)]
        + [None] * len(residuals)
    )


lstm_pull_p = Primitive(
    "lstm_pull",
    eval=cast("Any", _lstm_pull),
    aval=lambda *operands: operands[3:9],
    jvp=_WITHOUT,
    transpose=_WITHOUT,
    batch=lambda operands, is_batched, *params: _each(lstm_pull_p)(operands, is_batched, *params),
    params=("reverse", "sizes"),
    many=True,
)
lstm_pushed_p = Primitive(
    "lstm_push",
    eval=_pushed,
    aval=_lstm_pushed_aval,
    jvp=_WITHOUT,
    transpose=_lstm_pushed_transpose,
    batch=_WITHOUT,
    params=("reverse", "sizes"),
    many=True,
)
lstm_p = Primitive(
    "lstm",
    eval=cast("Any", _lstm),
    aval=_lstm_aval,
    jvp=_lstm_jvp,
    transpose=absent(because="an LSTM is not linear", instead="differentiate with functrace.vjp"),
    batch=lambda operands, is_batched, *params: _each(lstm_p)(operands, is_batched, *params),
    params=("reverse", "sizes"),
    many=True,
)


# -- layers ----------------------------------------------------------------------------------------


def _gate_inputs(
    x: Array, w: Array, biases: Sequence[Array], kind: str, size: int
) -> tuple[Any, Any]:
    """Return the contribution of the input to the gates, and the bias of a GRU's new state."""
    steps, examples, features = x.shape
    flat = matmul(core_reshape(x, (steps * examples, features)), swap_last(w))
    rest: Any = np.zeros(size if kind == "gru" else 0, x.dtype)
    if biases:
        total = ew.add(*biases)
        if kind == "gru":
            second = biases[1]
            rest = index_static(second, ((2 * size, 3 * size, None),))
            mask = np.repeat(np.array([True, False]), [2 * size, size])
            total = ew.add(biases[0], ew.where(mask, second, 0))
        flat = ew.add(flat, total)
    return core_reshape(flat, (steps, examples, w.shape[0])), rest


def run_layer(*given: Any) -> Any:
    """Run a layer in one direction by the fast loop.

    Args:
        given: ``x, h0, c0, w_ih, w_hh``, biases; then kind, reverse, sizes. ``c0`` is empty but for
            an LSTM.

    Returns:
        states at all steps, last state, last cell state; then what the derivative reads.
    """
    x, h0, c0, w_ih, w_hh, *biases, kind, reverse, sizes = given
    if kind == "lstm":
        b = ew.add(*biases) if biases else np.zeros(0, x.dtype)
        return bind(lstm_p, (x, h0, c0, w_ih, w_hh, b), (reverse, sizes))
    gx, rest = _gate_inputs(x, w_ih, biases, kind, h0.shape[1])
    return bind(layer_p, (gx, h0, c0, w_hh, rest), (kind, reverse, sizes))


def scan_layer(*given: Any) -> Any:
    """Run a layer in one direction by ``functrace.scan``; see `run_layer`.

    With a further operand in front of the biases' end, ``w_hr`` (kind ``"projected"``), an LSTM
    projects its states.
    """
    x, h0, c0, w_ih, w_hh, *biases, kind, reverse, sizes = given
    projection: Any = biases.pop() if kind == "projected" else None
    kind = "lstm" if kind == "projected" else kind
    size = w_hh.shape[0] // GATES[kind]
    gx, rest = _gate_inputs(x, w_ih, biases, kind, size)
    columns = swap_last(w_hh)
    step = {"lstm": _lstm_step, "gru": _gru_step}.get(kind, _plain_step)
    examples = x.shape[1]
    is_there: Any = None
    if sizes is not None:
        is_there = (np.arange(examples)[None, :] < np.array(sizes)[:, None])[:, :, None]

    def body(carry: Any, slices: Any) -> Any:
        h, c = carry
        g, there = slices if is_there is not None else (slices, None)
        new_h, new_c = step(kind, g, h, c, columns, rest, size)
        if projection is not None:
            new_h = matmul(new_h, swap_last(projection))
        if there is None:
            return (new_h, new_c), new_h
        kept_c = ew.where(there, new_c, c) if kind == "lstm" else c
        return (ew.where(there, new_h, h), kept_c), ew.where(there, new_h, 0)

    inputs = gx if is_there is None else (gx, is_there)
    (hn, cn), hs = scan(body, (ew.positive(h0), ew.positive(c0)), inputs, reverse=reverse)
    return hs, hn, cn


def _gate(g: Any, k: int, size: int) -> Any:
    return index_static(g, ((None, None, None), (k * size, (k + 1) * size, None)))


def _lstm_step(
    kind: str, g: Any, h: Any, c: Any, columns: Any, rest: Any, size: int
) -> tuple[Any, Any]:
    a = ew.add(g, matmul(h, columns))
    i, f, o = (ew.sigmoid(_gate(a, k, size)) for k in (0, 1, 3))
    c = ew.add(ew.mul(f, c), ew.mul(i, ew.tanh(_gate(a, 2, size))))
    return ew.mul(o, ew.tanh(c)), c


def _gru_step(
    kind: str, g: Any, h: Any, c: Any, columns: Any, rest: Any, size: int
) -> tuple[Any, Any]:
    made = matmul(h, columns)
    r, z = (ew.sigmoid(ew.add(_gate(g, k, size), _gate(made, k, size))) for k in (0, 1))
    inner = ew.add(_gate(made, 2, size), broadcast_to(rest, (h.shape[0], size)))
    new = ew.tanh(ew.add(_gate(g, 2, size), ew.mul(r, inner)))
    return ew.add(new, ew.mul(z, ew.sub(h, new))), c


def _plain_step(
    kind: str, g: Any, h: Any, c: Any, columns: Any, rest: Any, size: int
) -> tuple[Any, Any]:
    a = ew.add(g, matmul(h, columns))
    return (ew.tanh(a) if kind == "tanh" else ew.relu(a)), c
