"""The rows of embeddings: rows of a matrix by their positions, and sums of such rows.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.ops import elementwise as ew
from functrace.ops.indexing import gather as core_gather
from functrace.ops.indexing import scatter_add
from functrace.ops.reductions import argmax, reduce_any
from functrace.ops.shaping import broadcast_to, convert
from functrace.ops.shaping import reshape as core_reshape
from functrace.ops.sorting import take_along_axis
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES, no_grad
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import factories, shaping
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value, wrap
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()


def _concrete(x: Operand) -> Any:
    """Return the array of positions; None if they are traced."""
    array = x._array if isinstance(x, Tensor) else x
    return None if isinstance(array, Tracer) else np.asarray(array)


# -- one_hot ---------------------------------------------------------------------------------------

ONE_HOT = Op(
    "OneHotBackward0",
    lambda x, classes: convert(
        ew.equal(core_reshape(x, (*x.shape, 1)), np.arange(classes)), np.int64
    ),
    called="one_hot",
)


@ROWS.function("nn.functional _C._nn")
def one_hot(tensor: Operand, num_classes: int = -1) -> Value:
    """Return vectors of 0 with a 1 at the position that each element says.

    Args:
        tensor: positions, int64, shape (...).
        num_classes: size of the vectors; by default one more than the largest position.

    Returns:
        int64, shape (..., num_classes).

    Raises:
        RuntimeError: for another dtype, and positions out of range.
    """
    f.tensors_only("one_hot", tensor=tensor)
    if f.dtype_of(tensor) != np.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    array = _concrete(tensor)
    if array is None:
        if num_classes < 0:
            raise UnsupportedFunctionError(
                "one_hot of traced positions: the number of classes depends on their values",
                fix="pass num_classes",
            )
    elif not array.size:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
    else:
        if array.min() < 0:
            raise RuntimeError("Class values must be non-negative.")
        if num_classes == -1:
            num_classes = int(array.max()) + 1
        elif num_classes <= array.max():
            raise RuntimeError("Class values must be smaller than num_classes.")
    return apply(ONE_HOT, (tensor,), (int(num_classes),))


# -- embedding -------------------------------------------------------------------------------------


def _rows(weight: Array, indices: Array) -> Any:
    return core_gather(weight, ("array",), (indices,))


def _frequencies(weight: Array, indices: Array) -> Any:
    """Return for each position how often it occurs."""
    flat = core_reshape(indices, (math.prod(indices.shape),))
    ones = convert(ew.equal(flat, flat), weight.dtype)
    counts = scatter_add(ones, ("array",), (flat,), weight.shape[:1])
    return core_gather(counts, ("array",), (indices,))


def _beside(factors: Array) -> Any:
    return core_reshape(factors, (*factors.shape, 1))


def _pulled(weight: Array, indices: Array, padding: int, by_frequency: bool) -> Any:
    """Return the rows with PyTorch's derivative: 0 for the padding, divided by frequencies."""
    rows = _rows(weight, indices)
    if not isinstance(weight, Tracer):
        return rows
    fixed = ew.stop_gradient(rows)
    if by_frequency:
        share = _beside(ew.div(1.0, _frequencies(weight, indices)))
        rows = ew.add(fixed, ew.mul(ew.sub(rows, fixed), share))
    if padding >= 0:
        rows = ew.where(_beside(ew.equal(indices, padding)), fixed, rows)
    return rows


EMBEDDING = Op(
    "EmbeddingBackward0",
    _pulled,
    (("indices", 1),),
    edges=(0,),
    keeps=("indices",),
    details=lambda specs, params: {
        "padding_idx": params[0] % (1 << 64),
        "scale_grad_by_freq": params[1],
        "sparse": False,
        "weight_sym_argsize_0": specs[0].shape[0],
    },
)


def _check_indices(indices: Operand, rows: int, name: str) -> None:
    dtype = f.dtype_of(indices)
    if dtype not in (np.int64, np.int32):
        raise RuntimeError(errors.embedding_indices(name, DTYPES[dtype].printed))
    array = _concrete(indices)
    if (
        name == "embedding"
        and array is not None
        and array.size
        and (array.min() < 0 or array.max() >= rows)
    ):
        raise IndexError("index out of range in self")


def _refuse_sparse(name: str, weight: Operand, sparse: bool) -> None:
    if sparse and MODES.recording and isinstance(weight, Tensor) and weight.requires_grad:
        raise UnsupportedFunctionError(
            f"{name}(sparse=True): there are no sparse gradients",
            fix="pass sparse=False: the gradient has the same numbers, in a dense tensor",
        )


@ROWS.function("function", name="embedding")
def plain_embedding(
    weight: Operand,
    indices: Operand,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """Return rows of a matrix; see ``nn.functional.embedding``."""
    f.tensors_only("embedding", weight=weight, indices=indices)
    if len(f.shape_of(weight)) != 2:
        raise RuntimeError("'weight' must be 2-D")
    _check_indices(indices, f.shape_of(weight)[0], "embedding")
    _refuse_sparse("embedding", weight, sparse)
    return apply(EMBEDDING, (weight, indices), (int(padding_idx), bool(scale_grad_by_freq)))


@ROWS.function("function")
def embedding_renorm_(
    input: Tensor, indices: Operand, max_norm: float, norm_type: float = 2.0
) -> Tensor:
    """Scale the rows at some positions to a norm of at most ``max_norm``, in place."""
    rows = f.shape_of(input)[0]
    _check_indices(indices, rows, "embedding")
    array = _concrete(indices)
    if array is None:
        raise UnsupportedFunctionError(
            "embedding_renorm_ of traced positions", fix="pass max_norm=None to embedding"
        )
    if MODES.dispatch is not None:
        given = (input, indices, max_norm, norm_type)
        MODES.dispatch.make("embedding_renorm_", given, {}, lambda: embedding_renorm_(*given))
        return input
    found = np.unique(array)
    with no_grad():
        taken = _concrete(input)[found]
        sizes = np.linalg.norm(taken, norm_type, axis=1, keepdims=True)
        factors = np.where(sizes > max_norm, max_norm / (sizes + 1e-7), 1.0)
        long = np.flatnonzero(sizes[:, 0] > max_norm)
        if long.size:
            scaled = (taken * factors).astype(taken.dtype)[long]
            index: Any = (wrap(found[long]),)
            level, DUALS.level = DUALS.level, None  # the tangents of the rows stay as they are
            try:
                input[index] = wrap(scaled)
            finally:
                DUALS.level = level
    return input


@ROWS.function("nn.functional", name="embedding")
def embedding(
    input: Operand,
    weight: Operand,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Value:
    """Return the rows of a matrix at positions.

    Args:
        input: positions, shape (...).
        weight: shape (n, d).
        padding_idx: position whose row gets no gradient.
        max_norm: rows that are longer are scaled to this norm, in place, first.
        norm_type: order of that norm.
        scale_grad_by_freq: True to divide gradients by how often a position occurs.
        sparse: not supported where a gradient is recorded.

    Returns:
        shape (..., d).

    Raises:
        AssertionError: if ``padding_idx`` is out of range.
        IndexError: for positions out of range.
        UnsupportedFunctionError: for ``sparse=True`` if the matrix requires grad.
    """
    f.tensors_only("embedding", input=input, weight=weight)
    padding_idx = _padding(padding_idx, weight)
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)  # type: ignore[arg-type]
    return plain_embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _padding(padding_idx: int | None, weight: Operand) -> int:
    if padding_idx is None:
        return -1
    rows = f.shape_of(weight)[0]
    if padding_idx >= rows or padding_idx < -rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % rows


# -- embedding_bag ---------------------------------------------------------------------------------

_MODES = {"sum": 0, "mean": 1, "max": 2}


def _bag(weight: Array, indices: Array, bags: Array, shares: Array, *rest: Any) -> Any:
    """Return the sums of rows times shares."""
    _, count, padding, by_frequency = rest
    terms = ew.mul(_pulled(weight, indices, padding, by_frequency), _beside(shares))
    return scatter_add(terms, ("array",), (bags,), (count, weight.shape[1]))


def _largest(weight: Array, places: Array, there: Array, *_params: Any) -> Any:
    """Return the largest elements of the rows of each bag, and their positions.

    Args:
        places: positions, (bags, most positions).
        there: which of them count.
    """
    rows = _rows(weight, places)
    counts = _beside(there)
    entries = argmax(ew.where(counts, ew.stop_gradient(rows), -np.inf), 1)
    entries = core_reshape(entries, (rows.shape[0], 1, rows.shape[2]))
    found = core_reshape(take_along_axis(rows, entries, 1), entries.shape[::2])
    positions = take_along_axis(
        broadcast_to(core_reshape(places, (*places.shape, 1)), rows.shape), entries, 1
    )
    filled = core_reshape(reduce_any(there, (1,)), (rows.shape[0], 1))
    return ew.where(filled, found, 0), ew.where(filled, core_reshape(positions, found.shape), 0)


def _bag_op(
    function: Callable[..., Any], *names: str, edges: tuple[int, ...] = (0,), **given: Any
) -> Op:
    return Op(
        "EmbeddingBagBackward0",
        function,
        tuple((name, k) for k, name in enumerate(("weight", "indices", *names))),
        edges=edges,
        keeps=("indices",),
        details=lambda specs, params: {
            "mode": params[0], "padding_idx": params[2] % (1 << 64), "sparse": False,
            "scale_grad_by_freq": params[3], "weight_sym_argsize_0": specs[0].shape[0],
        },
        **given,
    )  # fmt: skip


BAG = _bag_op(_bag, "offset2bag", "shares", called="embedding_sum")
WEIGHTED_BAG = _bag_op(
    _bag, "offset2bag", "per_sample_weights", edges=(0, 3), called="embedding_weighted_sum"
)
LARGEST = _bag_op(_largest, "there", constants=(1,))


def _in_rows(array: Array, bags: Array, kept: Array, count: int) -> tuple[Array, Array]:
    """Return the positions of each bag in a row, and which of them count."""
    at = np.flatnonzero(kept)
    own = bags[at]
    starts = np.searchsorted(own, np.arange(count))
    column = np.arange(at.size) - starts[own]
    width = int(column.max()) + 1 if at.size else 1
    places, there = np.zeros((count, width), np.int64), np.zeros((count, width), bool)
    places[own, column], there[own, column] = array[at], True
    return places, there


@ROWS.function(
    "function", name="embedding_bag", aliases="_embedding_bag _embedding_bag_forward_only"
)
def plain_embedding_bag(
    weight: Operand,
    indices: Operand,
    offsets: Operand,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Operand | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Return sums, means or maxima of rows; the bag of each position; the sizes of bags; and the
    positions of maxima.

    Args:
        mode: 0 for sums, 1 for means, 2 for maxima; the others as of ``nn.functional``.
    """
    f.tensors_only("embedding_bag", weight=weight, indices=indices, offsets=offsets)
    for word, x, ranks, allowed in (
        ("weight", weight, "2D", (2,)), ("input", indices, "1D or 2D", (1, 2)),
        ("offsets", offsets, "1D", (1,)),
    ):  # fmt: skip
        ndim = len(f.shape_of(x))
        if ndim not in allowed:
            raise RuntimeError(
                f"{word} has to be a {ranks} Tensor, but got Tensor of dimension {ndim}"
            )
    if len(f.shape_of(indices)) == 2:
        indices = shaping.reshape(indices, (-1,))
    rows = f.shape_of(weight)[0]
    _check_indices(indices, rows, "embedding_bag")
    if f.dtype_of(weight).kind not in "fV":
        raise RuntimeError(errors.weight_dtype(DTYPES[f.dtype_of(weight)].printed))
    dtype = f.dtype_of(weight)
    if per_sample_weights is not None and f.dtype_of(per_sample_weights) != dtype:
        other = DTYPES[f.dtype_of(per_sample_weights)].printed
        raise RuntimeError(errors.bag_dtypes(DTYPES[dtype].printed, other))
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise RuntimeError(errors.bag_padding(padding_idx, rows))
    _refuse_sparse("embedding_bag", weight, sparse)
    array, begins = _concrete(indices), _concrete(offsets)
    if array is None or begins is None:
        raise UnsupportedFunctionError(
            "embedding_bag of traced positions: its bags depend on their values",
            fix="use embedding, and reduce its result",
        )
    if begins.size and begins[0] != 0:
        raise RuntimeError(errors.first_offset(int(begins[0]), DTYPES[begins.dtype].printed))
    if begins.size and begins[-1] > array.size:
        raise RuntimeError(errors.last_offset(array.size, int(begins[-1])))
    bad = np.flatnonzero((array < 0) | (array >= rows))
    if bad.size:
        slow = mode == 2 or dtype == np.float64 or padding_idx is not None
        place, value = int(bad[0]), int(array[bad[0]])
        raise RuntimeError(
            errors.slow_bag_index(value) if slow else errors.bag_index(place, value, rows)
        )
    padding = -1 if padding_idx is None else padding_idx % rows
    count = max(begins.size - 1, 0) if include_last_offset else begins.size
    bags = np.searchsorted(begins[:count], np.arange(array.size), side="right") - 1
    bags = bags.astype(np.int64)
    kept = array != padding
    sizes = np.bincount(bags[kept], minlength=count).astype(np.int64)
    params = mode, count, padding, bool(scale_grad_by_freq)
    if mode == 2:
        placed = _in_rows(array, bags, kept, count)
        out, positions = apply(LARGEST, (weight, *(wrap(x) for x in placed)), params)
        return out, wrap(bags), wrap(sizes), positions
    if per_sample_weights is not None:
        factors = per_sample_weights
        if not kept.all():
            factors = f.mul(factors, wrap(kept.astype(dtype)))
        op = WEIGHTED_BAG
    else:
        shares = kept.astype(dtype)
        if mode == 1:
            shares = shares / np.maximum(sizes, 1)[bags].astype(dtype)
        factors, op = wrap(shares), BAG
    out = apply(op, (weight, indices, wrap(bags), factors), params)
    wants = MODES.recording and isinstance(weight, Tensor) and weight.requires_grad
    listed = bags if mode or wants else np.zeros(0, np.int64)
    shown = sizes if mode else np.zeros_like(sizes)
    return out, wrap(listed), wrap(shown), wrap(shown.copy())


@ROWS.function("nn.functional", name="embedding_bag")
def embedding_bag(
    input: Operand,
    weight: Operand,
    offsets: Operand | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Operand | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Value:
    """Return sums, means or maxima of rows of a matrix, for each bag of positions.

    Args:
        input: positions: shape (B, n), one row per bag, or (m,) with ``offsets``.
        weight: shape (n, d).
        offsets: where the bags begin, shape (B,); one more with ``include_last_offset``.
        max_norm, norm_type, scale_grad_by_freq, sparse: as of `embedding`.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        per_sample_weights: factors of the rows, shape of the input, for sums.
        padding_idx: position that does not count.

    Returns:
        shape (B, d).

    Raises:
        ValueError, RuntimeError, NotImplementedError: for arguments that do not fit.
    """
    shape = f.shape_of(input)
    if len(f.shape_of(weight)) != 2:
        ndim = len(f.shape_of(weight))
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {ndim}")
    if per_sample_weights is not None and f.shape_of(per_sample_weights) != shape:
        raise ValueError(errors.bag_weights(f.shape_of(per_sample_weights), shape))
    if len(shape) == 2:
        if offsets is not None:
            raise ValueError(errors.bag_offsets(type(offsets).__name__))
        kind = DTYPES[np.dtype(np.int64)]
        offsets = factories.arange(0, math.prod(shape), shape[1] or 1, dtype=kind)
        if not shape[1]:
            offsets = wrap(np.zeros(shape[0], np.int64))
        input = shaping.reshape(input, (-1,))
        if per_sample_weights is not None:
            per_sample_weights = shaping.reshape(per_sample_weights, (-1,))
    elif len(shape) == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if len(f.shape_of(offsets)) != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {len(shape)}"
        )
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(errors.bag_mode(mode))
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)  # type: ignore[arg-type]
    found = plain_embedding_bag(
        weight, input, offsets, scale_grad_by_freq, _MODES[mode], sparse, per_sample_weights,
        include_last_offset, padding_idx,
    )  # fmt: skip
    return found[0]
