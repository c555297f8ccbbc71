"""The rows of recurrent layers and cells: ``lstm``, ``gru``, ``rnn_tanh``, ``rnn_relu``.

A layer in one direction is one operation, which loops over the steps in NumPy, forwards and
backwards. Under ``create_graph``, forward mode and functional transforms, its derivatives are those
of a ``functrace.scan``.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.derivation import Case
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.dispatch.plans import OpPlan
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import factories, picking, shaping
from functrace.torch.functions.dropout import dropout
from functrace.torch.functions.losses import linear
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value, wrap
from functrace.tracing import Tracer

if TYPE_CHECKING:
    pass

ROWS = FunctionTable()
_GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
_NAMES = ("input", "hx", "cx", "weight0", "weight1", "weight2", "weight3", "weight4")


# -- layers as operations --------------------------------------------------------------------------


def _run(*given: object) -> Any:
    from functrace.torch.functions.recurrent_core import run_layer

    return run_layer(*given)


def _scanned(*given: object) -> Any:
    from functrace.torch.functions.recurrent_core import scan_layer

    return scan_layer(*given)


class RecurrentOp(Op):
    """Op of a layer whose derivative is a fast loop; that derivative's, a scan's."""

    def pull_tensors(self, plan: OpPlan, saved: list[Any], grads: list[Any]) -> list[Tensor | None]:
        """Run the backward program of the scan on tensors; see `Op`."""
        case = plan.case
        slow = _slow_plan(len(case.specs), case.specs, case.params, case.active)
        given = {p: x for (_, p), x in zip(plan.derivation.saves, saved, strict=True) if p >= 0}
        chosen = [given[p] for _, p in slow.derivation.saves]
        return _SLOW[len(case.specs)].pull_tensors(slow, chosen, grads[:3])


@functools.lru_cache(maxsize=64)
def _slow_plan(
    count: int, specs: tuple[Any, ...], params: tuple[Any, ...], active: tuple[bool, ...]
) -> OpPlan:
    return OpPlan(Case(_SLOW[count], specs, params, active))


def _op(count: int, fast: bool) -> Op:
    operands = [(name, k) for k, name in enumerate(_NAMES[:count])]
    results = [(f"workspace{k}", ~k) for k in (0, 3, 4, 5)] if fast else []
    return (RecurrentOp if fast else Op)(
        "MkldnnRnnLayerBackward0",
        _run if fast else _scanned,
        (*operands, *results),
        keeps=tuple(name for name, _ in operands),
        constants=(3, 4, 5) if fast else (),
        apart=False,
    )


_FAST = {count: _op(count, True) for count in (5, 7)}
_SLOW = {count: _op(count, False) for count in (5, 6, 7, 8)}


def _layer(
    x: object, h: object, c: object, weights: Sequence[Any], kind: str, reverse: bool, sizes: object,
    projects: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Run one layer in one direction; returns states at all steps, last state, last cell state."""
    if MODES.dispatch is not None:
        return _by_cells(x, h, c, weights, kind, reverse, sizes, projects)
    operands = (x, h, c, *weights)
    traced = any(isinstance(o._array if isinstance(o, Tensor) else o, Tracer) for o in operands)
    params = ("projected" if projects else kind, reverse, sizes)
    if traced or projects or DUALS.level is not None:
        return apply(_SLOW[len(operands)], operands, params)
    return apply(_FAST[len(operands)], operands, params)[:3]


def _by_cells(
    x: Any, h: Any, c: Any, weights: Sequence[Any], kind: str, reverse: bool, sizes: Any,
    projects: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """Run one layer step by step, by cells: dispatch modes get operations that PyTorch has."""
    *weights, projection = weights if projects else (*weights, None)
    steps, examples = f.shape_of(x)[:2]
    found: list[Any] = [None] * steps
    for k in range(steps - 1, -1, -1) if reverse else range(steps):
        n = examples if sizes is None else sizes[k]
        now = shaping.narrow(shaping.select(x, 0, k), 0, 0, n)
        before = shaping.narrow(h, 0, 0, n)
        if kind == "lstm":
            state, cell = lstm_cell(now, (before, shaping.narrow(c, 0, 0, n)), *weights)
            if projection is not None:
                state = linear(state, projection)
            c = (
                cell
                if n == examples
                else shaping.cat([cell, shaping.narrow(c, 0, n, examples - n)])
            )
        else:
            state = _CELLS[kind](now, before, *weights)
        rest = examples - n
        h = state if not rest else shaping.cat([state, shaping.narrow(h, 0, n, rest)])
        zeros = factories.zeros((rest, f.shape_of(state)[1]), dtype=DTYPES[f.dtype_of(x)])
        found[k] = state if not rest else shaping.cat([state, zeros])
    return shaping.stack(found), h, c


def _layers(
    name: str, kind: str, input: Any, hx: Any, cx: Any, params: Sequence[Any], has_biases: bool,
    num_layers: int, rate: float, train: bool, bidirectional: bool, sizes: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """Run all layers: (steps, examples, features) gives (steps, examples, features), and the last
    states (layers * directions, examples, size).
    """
    directions = 2 if bidirectional else 1
    each = len(params) // (num_layers * directions) if num_layers else 0
    projects = kind == "lstm" and each == (5 if has_biases else 3)
    wanted = (4 if has_biases else 2) + projects
    if each != wanted or len(params) != wanted * num_layers * directions:
        raise RuntimeError(f"{name}: expected {wanted * num_layers * directions} parameters, but "
                           f"got {len(params)}")  # fmt: skip
    lasts: list[Any] = []
    cells: list[Any] = []
    for layer in range(num_layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            weights = params[k * each : (k + 1) * each]
            h = shaping.select(hx, 0, k)
            if cx is None:
                c: Any = wrap(np.zeros((0, 0), f.dtype_of(h)))
            else:
                c = shaping.select(cx, 0, k)
            out, last, cell = _layer(input, h, c, weights, kind, direction == 1, sizes, projects)
            outputs.append(out)
            lasts.append(last)
            cells.append(cell)
        input = outputs[0] if directions == 1 else shaping.cat(outputs, 2)
        if rate and train and layer < num_layers - 1:
            input = _dropped(input, rate, sizes)
    return input, shaping.stack(lasts), None if cx is None else shaping.stack(cells)


def _places(sizes: Sequence[int]) -> tuple[Any, Any]:
    """Return the place of each packed row in (steps * examples, features), and the row at each
    place.
    """
    examples = sizes[0]
    places = np.concatenate([t * examples + np.arange(n) for t, n in enumerate(sizes)])
    rows = np.zeros(len(sizes) * examples, np.int64)
    rows[places] = np.arange(len(places))
    return places.astype(np.int64), rows


def _dropped(x: Any, rate: float, sizes: Sequence[int] | None) -> Any:
    """Return a layer's outputs (steps, examples, size) with elements dropped: of packed sequences
    only the rows that they have, which decides how many random numbers are drawn.
    """
    if sizes is None:
        return dropout(x, rate)
    places, rows = _places(sizes)
    steps, examples, size = f.shape_of(x)
    flat = picking.index_select(shaping.reshape(x, (steps * examples, size)), 0, wrap(places))
    kept = picking.index_select(dropout(flat, rate), 0, wrap(rows))
    return shaping.reshape(kept, (steps, examples, size))


def _check_input(name: str, input: Any, states: Sequence[Any], params: Sequence[Any]) -> None:
    f.tensors_only(name, input=input)
    wanted = f.dtype_of(input)
    for x in (*states, *params):
        if f.dtype_of(x) != wanted:
            raise ValueError(
                errors.recurrent_dtypes(DTYPES[wanted].name, DTYPES[f.dtype_of(x)].name)
            )
    if len(f.shape_of(input)) != 3:
        raise RuntimeError(f"{name}: Expected input to be 3-D, but got {len(f.shape_of(input))}-D")
    if wanted.kind not in "fV":
        raise NotImplementedError(
            errors.no_kernel("addmm_impl_cpu_").format(DTYPES[wanted].printed)
        )


def _padded_run(
    name: str, kind: str, input: Any, states: Sequence[Any], params: Any, has_biases: bool,
    num_layers: int, rate: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    params = list(params)
    _check_input(name, input, states, params)
    x = shaping.transpose(input, 0, 1) if batch_first else input
    if not f.shape_of(x)[0]:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    hx, cx = (*states, None)[:2]
    settings = (has_biases, num_layers, rate, train, bidirectional)
    out, hn, cn = _layers(name, kind, x, hx, cx, params, *settings)
    return (shaping.transpose(out, 0, 1) if batch_first else out), hn, cn


def _packed_run(
    name: str, kind: str, data: Any, batch_sizes: Any, states: Sequence[Any], params: Any,
    has_biases: bool, num_layers: int, rate: float, train: bool, bidirectional: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    params = list(params)
    sizes = tuple(int(n) for n in batch_sizes.tolist())
    examples = sizes[0]
    places, rows = _places(sizes)
    hx, cx = (*states, None)[:2]
    padded = shaping.reshape(
        picking.index_select(data, 0, wrap(rows)), (len(sizes), examples, f.shape_of(data)[1])
    )
    _check_input(name, padded, states, params)
    settings = (has_biases, num_layers, rate, train, bidirectional)
    out, hn, cn = _layers(name, kind, padded, hx, cx, params, *settings, sizes)
    flat = shaping.reshape(out, (len(sizes) * examples, f.shape_of(out)[2]))
    return picking.index_select(flat, 0, wrap(places)), hn, cn


def _is_packed(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
    """Return True for the form with ``data, batch_sizes``."""
    if "data" in keywords or "batch_sizes" in keywords:
        return True
    if "input" in keywords:
        return False
    return len(arguments) > 3 and isinstance(arguments[3], (list, tuple))


_PADDED = (
    "input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional",
    "batch_first",
)  # fmt: skip
_PACKED = (
    "data", "batch_sizes", "hx", "params", "has_biases", "num_layers", "dropout", "train",
    "bidirectional",
)  # fmt: skip


def _bound(
    name: str, names: tuple[str, ...], arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> list[Any]:
    given = dict(zip(names, arguments, strict=False)) | keywords
    if set(given) != set(names) or len(arguments) > len(names):
        raise TypeError(errors.invalid_combination(name, arguments))
    return [given[word] for word in names]


def _row(name: str, kind: str, says: str) -> Callable[..., Any]:
    def function(*arguments: object, **keywords: object) -> Any:
        if _is_packed(arguments, keywords):
            data, batch_sizes, hx, params, *rest = _bound(name, _PACKED, arguments, keywords)
            states = tuple(hx) if kind == "lstm" else (hx,)
            found = _packed_run(name, kind, data, batch_sizes, states, params, *rest)
        else:
            input, hx, params, *rest = _bound(name, _PADDED, arguments, keywords)
            states = tuple(hx) if kind == "lstm" else (hx,)
            found = _padded_run(name, kind, input, states, params, *rest)
        return found if kind == "lstm" else found[:2]

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"""Run {says} layers over sequences.

    Args:
        arguments: ``input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
            batch_first`` for sequences of one length: an input of shape (steps, batch, features),
            and first states (layers * directions, batch, size){", two of them" * (kind == "lstm")};
            or ``data, batch_sizes, hx, params, has_biases, num_layers, dropout, train,
            bidirectional`` for packed ones.
        keywords: the same.

    Returns:
        states of the last layer at every step, and the last states of every layer.
    """
    return ROWS.function("function")(function)


lstm = _row("lstm", "lstm", "LSTM")
gru = _row("gru", "gru", "GRU")
rnn_tanh = _row("rnn_tanh", "tanh", "recurrent")
rnn_relu = _row("rnn_relu", "relu", "recurrent")


# -- cells -----------------------------------------------------------------------------------------


def _check_cell(name: str, input: Any, hx: Any, w_ih: Any, w_hh: Any) -> None:
    f.tensors_only(name, input=input, hx=hx)
    features, given = f.shape_of(w_ih)[1], f.shape_of(input)[-1]
    if features != given:
        raise RuntimeError(errors.cell_input(given, features))
    if f.shape_of(input)[0] != f.shape_of(hx)[0] and len(f.shape_of(input)) > 1:
        raise RuntimeError(errors.cell_batch(f.shape_of(input)[0], "hidden0", f.shape_of(hx)[0]))


@ROWS.function("function")
def lstm_cell(
    input: Operand,
    hx: Sequence[Any],
    w_ih: Operand,
    w_hh: Operand,
    b_ih: Operand | None = None,
    b_hh: Operand | None = None,
) -> tuple[Any, Any]:
    """Return the state and the cell state of an LSTM after one step.

    Args:
        input: shape (N, features).
        hx: state and cell state, shape (N, size).
        w_ih, w_hh: shape (4 * size, features) and (4 * size, size).
        b_ih, b_hh: shape (4 * size,).
    """
    h, c = hx
    _check_cell("lstm_cell", input, h, w_ih, w_hh)
    gates = f.add(linear(h, w_hh, b_hh), linear(input, w_ih, b_ih))
    i, keep, new, out = picking.unsafe_chunk(gates, 4, 1 if len(f.shape_of(gates)) > 1 else 0)
    cell = f.add(f.mul(f.sigmoid(keep), c), f.mul(f.sigmoid(i), f.tanh(new)))
    return f.mul(f.sigmoid(out), f.tanh(cell)), cell


@ROWS.function("function")
def gru_cell(
    input: Operand,
    hx: Operand,
    w_ih: Operand,
    w_hh: Operand,
    b_ih: Operand | None = None,
    b_hh: Operand | None = None,
) -> Value:
    """Return the state of a GRU after one step.

    Args:
        input: shape (N, features).
        hx: shape (N, size).
        w_ih, w_hh: shape (3 * size, features) and (3 * size, size).
        b_ih, b_hh: shape (3 * size,).
    """
    _check_cell("gru_cell", input, hx, w_ih, w_hh)
    axis = 1 if len(f.shape_of(input)) > 1 else 0
    of_input = picking.unsafe_chunk(linear(input, w_ih, b_ih), 3, axis)
    of_state = picking.unsafe_chunk(linear(hx, w_hh, b_hh), 3, axis)
    reset, update = (f.sigmoid(f.add(of_state[k], of_input[k])) for k in (0, 1))
    new = f.tanh(f.add(of_input[2], f.mul(of_state[2], reset)))
    return f.add(f.mul(f.sub(hx, new), update), new)


def _plain_cell(name: str, activation: Callable[..., Any], says: str) -> Callable[..., Any]:
    def function(
        input: Operand,
        hx: Operand,
        w_ih: Operand,
        w_hh: Operand,
        b_ih: Operand | None = None,
        b_hh: Operand | None = None,
    ) -> Value:
        _check_cell(name, input, hx, w_ih, w_hh)
        return activation(f.add(linear(hx, w_hh, b_hh), linear(input, w_ih, b_ih)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return ``{says}(w_ih @ input + b_ih + w_hh @ hx + b_hh)``."
    return ROWS.function("function")(function)


_CELLS = {
    "gru": gru_cell,
    "tanh": _plain_cell("rnn_tanh_cell", f.tanh, "tanh"),
    "relu": _plain_cell("rnn_relu_cell", f.relu, "relu"),
}
