"""Autocast on the CPU: the functions whose tensors are cast, and the state of each thread.

Note [Functions under autocast]
    As in PyTorch's build for the CPU there are three lists, which were observed there: functions
    that compute in the lower precision (`LOWER`), in float32 (`SINGLE`), and in the widest dtype of
    their tensors (`WIDEST`). A function of a list casts its tensors of float32, float16 and
    bfloat16 (never float64), and calls itself with autocast off. Every other function is unchanged.
    The casts are in the graph, so gradients have the tensors' dtypes. ``out=`` and in-place forms do
    not cast.

Note [Cached casts]
    The lower-precision copy of a leaf that requires grad is kept until the outermost ``autocast``
    ends. A leaf that was overwritten since is cast anew. (PyTorch uses the old copy.)

Layer: 9.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.tensors.dtypes import bfloat16, float16
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.tensor import Tensor

Function = Callable[..., Any]

_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)

LOWER = frozenset({
    "linear", "mm", "matmul", "bmm", "addmm", "baddbmm", "addbmm", "vecdot", "multi_dot",
    "chain_matmul", "matrix_power", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "conv_tbc", "convolution", "prelu",
    "scaled_dot_product_attention", "affine_grid_generator", "lstm", "rnn_tanh", "rnn_relu",
})  # fmt: skip
"""Functions that compute in the lower precision."""
SINGLE = frozenset({
    "prod", "avg_pool3d", "adaptive_avg_pool3d", "max_pool3d", "max_pool3d_with_indices",
    "adaptive_max_pool3d", "fractional_max_pool2d", "fractional_max_pool3d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d_with_indices",
    "adaptive_max_pool3d_with_indices", "max_unpool2d", "max_unpool3d", "grid_sample",
    "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "local_response_norm",
    "reflection_pad1d", "reflection_pad2d", "replication_pad1d",
    "replication_pad2d", "replication_pad3d", "mse_loss", "l1_loss", "smooth_l1_loss",
    "huber_loss", "cross_entropy", "cross_entropy_loss", "nll_loss", "nll_loss_nd",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div", "poisson_nll_loss",
    "hinge_embedding_loss", "margin_ranking_loss", "cosine_embedding_loss",
    "triplet_margin_loss", "soft_margin_loss", "multi_margin_loss", "multilabel_margin_loss",
    "ctc_loss", "quantile", "nanquantile", "cdist", "trace", "polar", "view_as_complex", "stft",
    "inv", "inv_ex", "inverse", "cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve",
    "solve", "svd", "svdvals", "qr", "eig", "eigvals", "eigh", "eigvalsh", "lstsq", "cond",
    "matrix_rank", "householder_product", "tensorinv", "tensorsolve", "geqrf", "orgqr", "ormqr",
    "pinverse", "triangular_solve", "lu_solve", "fft", "ifft", "rfft", "irfft", "hfft", "ihfft",
    "fft2", "ifft2", "rfft2", "irfft2", "hfft2", "ihfft2", "fftn", "ifftn", "rfftn", "irfftn",
    "hfftn", "ihfftn",
})  # fmt: skip
"""Functions that compute in float32."""
WIDEST = frozenset({"cat", "concat", "concatenate", "stack", "index_copy"})
"""Functions that compute in the widest dtype of their tensors."""


FUNCTIONS: dict[str, Function] = {}
"""Functions that this module calls, by name; their rows add them when they are defined."""
_CALLED = frozenset({"linear", "stack", "cat", "dropout"})


@final
class _OfThread(threading.local):
    """The state of one thread; `MODES.autocast` is its lower precision while it is on."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtypes: dict[str, Dtype] = {}
        self.nesting = 0
        self.caches = True
        self.cache: dict[int, tuple[Tensor, int, Any]] = {}


STATE = _OfThread()


def lower_precision(kind: str) -> Dtype:
    """Return the lower precision of a kind of device."""
    return STATE.dtypes.get(kind) or (bfloat16 if kind == "cpu" else float16)


def set_state(kind: str, enabled: bool, dtype: Dtype) -> None:
    """Switch autocast for a kind of device."""
    STATE.enabled[kind], STATE.dtypes[kind] = enabled, dtype
    if kind == "cpu":
        MODES.autocast = dtype.numpy if enabled else None


@contextmanager
def with_precision(dtype: np.dtype[Any] | None) -> Iterator[None]:
    """Switch autocast on the CPU to a lower precision, or off."""
    before, MODES.autocast = MODES.autocast, dtype
    try:
        yield
    finally:
        MODES.autocast = before


def suspended() -> Any:
    """Switch autocast on the CPU off, for the functions that a function calls."""
    return with_precision(None)


# -- casts -----------------------------------------------------------------------------------------


def _is_eligible(x: Tensor) -> bool:
    kind = x._array.dtype
    return kind.kind in "fV" and kind != _DOUBLE


def _to(x: Tensor, dtype: np.dtype[Any]) -> Any:
    return FUNCTIONS["to"](x, dtype)


def cast(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return tensors, also those in lists and tuples, in a dtype; those of float64 as they are."""
    if isinstance(x, Tensor):
        if not _is_eligible(x) or x._array.dtype == dtype:
            return x
        return _cached(x, dtype) if dtype is MODES.autocast else _to(x, dtype)
    if type(x) is list or type(x) is tuple:
        return type(x)([cast(one, dtype) for one in x])
    return x


def _cached(x: Tensor, dtype: np.dtype[Any]) -> Any:
    """Return the copy of a leaf in the lower precision; see Note [Cached casts]."""
    is_kept = (
        STATE.caches
        and STATE.nesting
        and MODES.recording
        and x._requires
        and x._node is None
        and x._view is None
        and x._array.dtype == _SINGLE
    )
    if not is_kept:
        return _to(x, dtype)
    found = STATE.cache.get(id(x))
    if found is not None and found[1] == x._counter[0] and found[2]._array.dtype == dtype:
        return found[2]
    made = _to(x, dtype)
    STATE.cache[id(x)] = x, x._counter[0], made
    return made


def _widest(arguments: Sequence[Any], found: np.dtype[Any]) -> np.dtype[Any]:
    """Return the wider dtype of the lower precision and float32 among tensors; those of float64
    do not count.

    Raises:
        RuntimeError: for another half precision, unless a tensor of float32 precedes it.
    """
    for x in arguments:
        if found == _SINGLE:
            break
        if isinstance(x, (list, tuple)):
            found = _widest(x, found)
        elif isinstance(x, Tensor) and _is_eligible(x):
            if x._array.dtype not in (found, _SINGLE):
                raise RuntimeError("Unexpected floating ScalarType in at::autocast::prioritize")
            found = x._array.dtype
    return found


# -- functions -------------------------------------------------------------------------------------


def _contracts(equation: Any, operands: Sequence[Any]) -> bool:
    """Return True if ``einsum`` sums over an index of two operands: PyTorch uses ``bmm`` then."""
    if not isinstance(equation, str) or (
        len(operands) == 1 and not isinstance(operands[0], (list, tuple))
    ):
        return False
    terms, _, output = equation.replace(" ", "").partition("->")
    each = terms.split(",")
    letters = {c for term in each for c in term if c.isalpha()}
    if "->" not in equation:
        output = "".join(c for c in letters if sum(term.count(c) for term in each) == 1)
    return any(sum(c in term for term in each) > 1 and c not in output for c in letters)


def _dtype_for(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> np.dtype[Any] | None:
    """Return the dtype that a function of the lists computes in; None for that of its tensors."""
    lower = MODES.autocast
    assert lower is not None
    if name == "pad":
        mode = kwargs.get("mode", args[2] if len(args) > 2 else "constant")
        is_cast = mode == "replicate" or (mode == "reflect" and args and args[0].ndim < 5)
        return _SINGLE if is_cast else None
    if name == "einsum":
        return lower if args and _contracts(args[0], args[1:]) else None
    if name in WIDEST:
        return _widest((*args, *kwargs.values()), lower)
    return lower if name in LOWER else _SINGLE


def _by_steps(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a recurrent cell by its steps, so that its products have the lower precision.

    Raises:
        NotImplementedError: for GRU layers of packed sequences.
    """
    if name == "gru":
        return _gru(*args, **kwargs)
    linear = FUNCTIONS["linear"]
    given = dict(zip(("input", "hx", "w_ih", "w_hh", "b_ih", "b_hh"), args, strict=False)) | kwargs
    x, state = given["input"], given["hx"]
    hidden = state[0] if name == "lstm_cell" else state
    inner = linear(x, given["w_ih"], given.get("b_ih"))
    outer = linear(hidden, given["w_hh"], given.get("b_hh"))
    if name == "rnn_tanh_cell":
        return (inner + outer).tanh()
    if name == "rnn_relu_cell":
        return (inner + outer).relu()
    if name == "lstm_cell":
        enters, forgets, new, leaves = (inner + outer).chunk(4, -1)
        cell = forgets.sigmoid() * state[1] + enters.sigmoid() * new.tanh()
        return leaves.sigmoid() * cell.tanh(), cell
    resets, updates, new = inner.chunk(3, -1)
    of_resets, of_updates, of_new = outer.chunk(3, -1)
    new = (new + (resets + of_resets).sigmoid() * of_new).tanh()
    return (hidden - new) * (updates + of_updates).sigmoid() + new


def _gru(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """Run GRU layers step by step: the products have the lower precision, the states their own."""
    names = "input", "hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional"
    given = dict(zip((*names, "batch_first"), args, strict=False)) | kwargs
    if "batch_first" not in given or not isinstance(given["has_biases"], bool):
        raise NotImplementedError(
            "functrace.torch has no GRU layers of packed sequences under autocast\n"
            "fix: call them within torch.autocast('cpu', enabled=False)"
        )
    stack, cat, dropout = (FUNCTIONS[name] for name in ("stack", "cat", "dropout"))
    x = given["input"].transpose(0, 1) if given["batch_first"] else given["input"]
    directions = 2 if given["bidirectional"] else 1
    each = 4 if given["has_biases"] else 2
    lasts: list[Any] = []
    for layer in range(given["num_layers"]):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            weights = given["params"][k * each : (k + 1) * each]
            steps, state = x.unbind(0), given["hx"][k]
            states: list[Any] = []
            for step in reversed(steps) if direction else steps:
                state = _by_steps("gru_cell", (step, state, *weights), {})
                states.append(state)
            outputs.append(stack(states[::-1] if direction else states))
            lasts.append(state)
        x = outputs[0] if directions == 1 else cat(outputs, 2)
        if given["dropout"] and given["train"] and layer < given["num_layers"] - 1:
            x = dropout(x, given["dropout"])
    return (x.transpose(0, 1) if given["batch_first"] else x), stack(lasts)


_STEPS = frozenset({"gru", "gru_cell", "lstm_cell", "rnn_tanh_cell", "rnn_relu_cell"})
_CHOOSING = frozenset({"pad", "einsum"})


def casting(name: str, function: Function) -> Function:
    """Return a function of the lists as one that casts its tensors under autocast; any other
    function as it is.
    """
    made = _casting(name, function)
    if name in _CALLED:
        FUNCTIONS.setdefault(name, made)
    return made


def _casting(name: str, function: Function) -> Function:
    if not (
        name in LOWER or name in SINGLE or name in WIDEST or name in _STEPS or name in _CHOOSING
    ):
        return function

    @functools.wraps(function)
    def under_autocast(*args: Any, **kwargs: Any) -> Any:
        if MODES.autocast is None:
            return function(*args, **kwargs)
        if name in _STEPS:
            return _by_steps(name, args, kwargs)
        dtype = _dtype_for(name, args, kwargs)
        if dtype is not None:
            args = tuple([cast(x, dtype) for x in args])
            kwargs = {key: cast(x, dtype) for key, x in kwargs.items()}
        if name == "einsum":
            return function(*args, **kwargs)
        with suspended():
            return function(*args, **kwargs)

    return under_autocast
