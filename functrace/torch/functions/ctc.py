"""The row of ``ctc_loss``: losses of all alignments of sequences with labels.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.ops import elementwise as ew
from functrace.ops.indexing import index_static
from functrace.ops.joining import concatenate
from functrace.ops.shaping import broadcast_to
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.sorting import take_along_axis
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import reductions, shaping
from functrace.torch.functions.losses import eq, reduction_number
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value, wrap
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()


def _add_in_logs(*terms: Any) -> Any:
    """Return the logarithm of a sum of exponentials; -inf with derivative 0 where all are -inf."""
    largest = terms[0]
    for term in terms[1:]:
        largest = ew.maximum(largest, term)
    largest = ew.stop_gradient(ew.where(ew.equal(largest, -np.inf), 0, largest))
    total: Any = None
    for term in terms:
        part = ew.exp(ew.sub(term, largest))
        total = part if total is None else ew.add(total, part)
    empty = ew.equal(total, 0)
    return ew.where(empty, -np.inf, ew.add(ew.log(ew.where(empty, 1, total)), largest))


def _shifted(x: Any, count: int, dtype: Any) -> Any:
    """Return (N, S) with ``count`` columns of -inf at the left, and as many less at the right."""
    rows, columns = x.shape
    lead = np.full((rows, min(count, columns)), -np.inf, dtype)
    if columns <= count:
        return lead
    return concatenate([lead, index_static(x, ((None,) * 3, (0, columns - count, None)))], 1)


def _losses(
    logs: Array, states: Array, skips: Array, there: Array, ends: Array, zero_infinity: bool
) -> Any:
    """Return the losses of examples.

    Args:
        logs: log-probabilities, (T, N, C).
        states: label of each state, (N, S): blanks between labels.
        skips: 0 where a state follows that two before it, -inf elsewhere: (N, S).
        there: which steps the examples have: (T, N, 1).
        ends: positions of the last two states, (N, 2).
    """
    from functrace.api.control_flow.loops import scan

    steps, examples, _ = logs.shape
    width = states.shape[1]
    emitted = take_along_axis(logs, broadcast_to(states, (steps, examples, width)), 2)
    first = np.full((examples, width), -np.inf, logs.dtype)
    first[:, :2] = 0

    def body(before: Any, slices: Any) -> Any:
        emits, is_there = slices
        after = ew.add(
            _add_in_logs(
                before,
                _shifted(before, 1, logs.dtype),
                ew.add(_shifted(before, 2, logs.dtype), skips),
            ),
            emits,
        )
        return ew.where(is_there, after, before), None

    empty = np.full((examples, width), -np.inf, logs.dtype)  # no step: only no label is possible
    empty[:, 0] = 0
    start = ew.add(index_static(emitted, (0,)), first)
    start = ew.where(index_static(there, (0,)), start, empty)
    rest = index_static(emitted, ((1, None, None),)), index_static(there, ((1, None, None),))
    final = scan(body, start, rest)[0] if steps > 1 else start
    last = take_along_axis(final, ends, 1)
    one, two = (
        core_reshape(index_static(last, ((None,) * 3, (k, k + 1, None))), (examples,))
        for k in (0, 1)
    )
    same = core_reshape(
        ew.equal(
            index_static(ends, ((None,) * 3, (0, 1, None))),
            index_static(ends, ((None,) * 3, (1, 2, None))),
        ),
        (examples,),
    )
    total = _add_in_logs(one, ew.where(same, -np.inf, two))
    found = ew.neg(total)
    return ew.where(ew.equal(found, np.inf), 0, found) if zero_infinity else found


CTC = Op(
    "CtcLossBackward0",
    _losses,
    (("log_probs", 0), ("states", 1), ("skips", 2), ("there", 3), ("ends", 4)),
    edges=(0,),
    keeps=("log_probs",),
    details=lambda specs, params: {"zero_infinity": params[0]},
)


def _lengths(name: str, given: Any) -> list[int]:
    if isinstance(given, Tensor):
        if given._array.dtype.kind not in "iu":
            raise RuntimeError(f"{name} must be integral")
        given = np.atleast_1d(_values(given)).tolist()
    return [int(n) for n in given]


def _values(x: object) -> Any:
    array = x._array if isinstance(x, Tensor) else x
    if isinstance(array, Tracer):
        raise UnsupportedFunctionError(
            "ctc_loss of traced labels: the shape of its alignments depends on their values",
            fix="pass labels and lengths as constants",
        )
    return np.asarray(array)


def _alignment(
    targets: Array, lengths: Sequence[int], blank: int, dtype: Any
) -> tuple[Array, Array, Array]:
    """Return states, skips and ends; see `_losses`.

    Args:
        targets: (N, L), of which ``lengths`` count.
    """
    examples = len(lengths)
    longest = max(lengths, default=0)
    labels = np.full((examples, max(longest, 0)), blank, np.int64)
    counted = np.arange(longest)[None, :] < np.array(lengths, np.int64)[:, None]
    labels[counted] = targets[:, :longest][counted]
    states = np.full((examples, 2 * longest + 1), blank, np.int64)
    states[:, 1::2] = labels
    follows = np.zeros(states.shape, bool)
    follows[:, 2:] = (states[:, 2:] != states[:, :-2]) & (np.arange(2, states.shape[1]) % 2 == 1)
    ends = np.array([[2 * n, max(2 * n - 1, 0)] for n in lengths], np.int64).reshape(examples, 2)
    return states, np.where(follows, 0.0, -np.inf).astype(dtype), ends


def _check(
    shape: tuple[int, ...], targets: Array, inputs: list[int], lengths: list[int], blank: int
) -> None:
    steps, examples, classes = shape
    if 0 in shape:
        raise RuntimeError("log_probs tensor must not be empty")
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    if len(inputs) != examples:
        raise RuntimeError("input_lengths must be of size batch_size")
    if len(lengths) != examples:
        raise RuntimeError("target_lengths must be of size batch_size")
    for n in lengths:
        if n < 0:
            raise RuntimeError(errors.negative_length("target_lengths", n))
    if targets.ndim == 1 and targets.shape[0] != sum(lengths):
        raise RuntimeError(errors.flat_targets(sum(lengths), targets.shape[0]))
    if targets.ndim == 2:
        if targets.shape[0] != examples:
            raise RuntimeError(errors.target_rows(examples, targets.shape[0]))
        if targets.shape[1] < max(lengths, default=0):
            raise RuntimeError(errors.target_columns(max(lengths), targets.shape[1]))
    for n in inputs:
        if n < 0:
            raise RuntimeError(errors.negative_length("input_lengths", n))
        if n > steps:
            raise RuntimeError(errors.input_length(steps, n))


@ROWS.function("function", name="ctc_loss")
def plain_ctc_loss(
    log_probs: Operand,
    targets: Operand,
    input_lengths: object,
    target_lengths: object,
    blank: int = 0,
    reduction: int = 0,
    zero_infinity: bool = False,
) -> Value:
    """Return the loss of all alignments; see ``nn.functional.ctc_loss``."""
    f.tensors_only("ctc_loss", log_probs=log_probs, targets=targets)
    dtype = f.dtype_of(log_probs)
    if dtype not in (np.float32, np.float64):
        raise RuntimeError(errors.no_kernel("ctc_loss_cpu").format(DTYPES[dtype].printed))
    shape = f.shape_of(log_probs)
    single = len(shape) == 2
    if single:
        log_probs, shape = shaping.unsqueeze(log_probs, 1), (shape[0], 1, shape[1])
    labels = _values(targets)
    inputs, lengths = (
        _lengths(name, given)
        for name, given in (("input_lengths", input_lengths), ("target_lengths", target_lengths))
    )
    _check(shape, labels, inputs, lengths, blank)
    if labels.ndim == 1:
        rows = np.zeros((len(lengths), max(lengths, default=0)), np.int64)
        counted = np.arange(rows.shape[1])[None, :] < np.array(lengths)[:, None]
        rows[counted] = labels
        labels = rows
    states, skips, ends = _alignment(labels.astype(np.int64), lengths, blank, dtype)
    there = (np.arange(shape[0])[:, None] < np.array(inputs)[None, :])[:, :, None]
    constants = tuple([wrap(x) for x in (states, skips, there, ends)])
    losses = apply(CTC, (log_probs, *constants), (bool(zero_infinity),))
    if zero_infinity:
        zeros = wrap(np.zeros((), dtype))
        losses = f.where(eq(losses, math.inf), zeros, losses)
    if reduction == 1:
        divisor = np.maximum(np.array(lengths), 1).astype(dtype)
        return reductions.mean(f.div(losses, wrap(divisor)))
    if reduction == 2:
        return reductions.sum(losses)
    return shaping.squeeze(losses, 0) if single else losses


@ROWS.function("nn.functional", name="ctc_loss")
def ctc_loss(
    log_probs: Operand,
    targets: Operand,
    input_lengths: object,
    target_lengths: object,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Value:
    """Return the negative log-likelihood of labels, summed over all alignments with the steps.

    Args:
        log_probs: shape (steps, N, classes), or (steps, classes).
        targets: labels, shape (N, most labels), or all in one row.
        input_lengths, target_lengths: numbers of steps and of labels, N of them.
        blank: class between labels.
        reduction: ``"mean"`` of losses per label, ``"sum"`` or ``"none"``.
        zero_infinity: True for 0 in place of infinite losses.

    Raises:
        RuntimeError: if shapes and lengths do not fit.
    """
    how = reduction_number(reduction)
    return plain_ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, how, zero_infinity
    )
