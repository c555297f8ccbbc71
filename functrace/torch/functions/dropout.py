"""The rows of the dropout family. The random numbers are drawn as PyTorch draws them.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import arithmetic
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.dispatch.unseen import unseen
from functrace.torch.errors.warnings import warn
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import factories, shaping
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.torch.tensors.views import write
from functrace.typing import Array

ROWS = FunctionTable()
_ALPHA = 1.7580993408473766
"""Scale times alpha of SELU: its limit at -inf, with the opposite sign."""


_ADD_NUMBER = Op("AddBackward1", ew.add, promote=arithmetic, edges=(0,))
_MUL_NUMBER = Op("MulBackward1", ew.mul, promote=arithmetic, edges=(0,))
_DIV_NUMBER = Op("DivBackward1", ew.div, promote=arithmetic, edges=(0,))


def _noise(input: Operand, feature: bool, chance: float) -> Any:
    """Return ones, with a probability, and zeros: one per element, or one per channel."""
    if not feature:
        made = (
            factories.empty_like(input)
            if isinstance(input, Tensor)
            else factories.empty(f.shape_of(input), dtype=DTYPES[f.dtype_of(input)])
        )
        return made.bernoulli_(chance)
    shape = f.shape_of(input)
    if len(shape) < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    kept = (*shape[:2], *(1,) * (len(shape) - 2))
    if isinstance(input, Tensor):
        return input.new_empty(kept).bernoulli_(chance)
    return factories.empty(kept, dtype=DTYPES[f.dtype_of(input)]).bernoulli_(chance)


def _dropped(
    input: Operand, p: float, train: bool, inplace: bool, *, feature: bool, alpha: bool, name: str
) -> Any:
    f.tensors_only(name, input=input)
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
    if p == 0 or not train or 0 in f.shape_of(input):
        return input
    given: Any = input
    if p == 1:
        zero = factories.zeros((), dtype=DTYPES[f.dtype_of(input)])
        return given.mul_(zero) if inplace else f.mul(input, zero)
    noise = _noise(input, feature, 1 - p)
    if not alpha:
        write(_DIV_NUMBER, (noise, 1 - p), ())
        return given.mul_(noise) if inplace else f.mul(input, noise)
    scale = 1 / math.sqrt((_ALPHA**2 * p + 1) * (1 - p))
    shift: Any = apply(_ADD_NUMBER, (noise, -1))
    write(_MUL_NUMBER, (shift, _ALPHA * scale), ())
    write(_ADD_NUMBER, (shift, _ALPHA * scale * p), ())
    write(_MUL_NUMBER, (noise, scale), ())
    found: Any = given.mul_(noise) if inplace else f.mul(input, noise)
    return found.add_(shift) if isinstance(found, Tensor) else f.add(found, shift)


def _family(name: str, doc: str, *, feature: bool, alpha: bool) -> None:
    """Add a function of ``torch`` and its in-place form."""

    def function(input: Operand, p: float, train: bool) -> Value:
        return _dropped(input, p, train, False, feature=feature, alpha=alpha, name=name)

    def in_place(input: Operand, p: float, train: bool) -> Value:
        return _dropped(input, p, train, True, feature=feature, alpha=alpha, name=name)

    for made, called, says in (
        (function, name, doc),
        (in_place, f"{name}_", f"`{name}`, in place."),
    ):
        made.__name__ = made.__qualname__ = called
        made.__doc__ = says
        ROWS.function("function", name=called)(made)


_family("dropout", "Return the input with elements set to 0 at random.", feature=False, alpha=False)
_family(
    "feature_dropout", "Return the input with channels set to 0 at random.", feature=True,
    alpha=False,
)  # fmt: skip
_family(
    "alpha_dropout", "Return the input with elements set to SELU's limit at random.",
    feature=False, alpha=True,
)  # fmt: skip
_family(
    "feature_alpha_dropout", "Return the input with channels set to SELU's limit at random.",
    feature=True, alpha=True,
)  # fmt: skip


def _check(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


@ROWS.function("nn.functional", name="dropout")
def dropout(input: Operand, p: float = 0.5, training: bool = True, inplace: bool = False) -> Value:
    """Return the input with elements set to 0 at random; the others are divided by ``1 - p``.

    Args:
        p: probability of 0.
        training: False to return the input itself.
        inplace: True to write into the input.

    Raises:
        ValueError: if ``p`` is no probability.
    """
    _check(p)
    return _dropped(input, p, training, inplace, feature=False, alpha=False, name="dropout")


@ROWS.function("nn.functional", name="alpha_dropout")
def alpha_dropout(
    input: Operand, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Value:
    """Return the input with elements set to SELU's limit at random, scaled and shifted so that
    normal numbers keep mean and variance.
    """
    _check(p)
    return _dropped(input, p, training, inplace, feature=False, alpha=True, name="alpha_dropout")


@ROWS.function("nn.functional", name="feature_alpha_dropout")
def feature_alpha_dropout(
    input: Operand, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Value:
    """Return `alpha_dropout` of whole channels."""
    _check(p)
    return _dropped(input, p, training, inplace, feature=True, alpha=True, name="dropout")


def _of_channels(input: Operand, p: float, training: bool, inplace: bool) -> Value:
    return _dropped(input, p, training, inplace, feature=True, alpha=False, name="feature_dropout")


def _of_one(input: Operand, compute: Callable[[Operand], Value]) -> Value:
    """Return the result for one example without a dimension for the batch."""
    found = compute(shaping.unsqueeze(input, 0))
    return shaping.squeeze(found, 0)


@ROWS.function("nn.functional")
def dropout1d(
    input: Operand, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Value:
    """Return the input with channels set to 0 at random; the others are divided by ``1 - p``.

    Args:
        input: shape (N, C, L) or (C, L).
        p, training, inplace: as of `dropout`.

    Raises:
        RuntimeError: for another number of dimensions.
    """
    _check(p)
    ndim = len(f.shape_of(input))
    if ndim not in (2, 3):
        raise RuntimeError(errors.dropout1d_dimensions(ndim))
    if ndim == 3:
        return _of_channels(input, p, training, inplace)
    found = _of_one(input, lambda x: _of_channels(x, p, training, inplace))
    return input if inplace else found  # type: ignore[return-value]


@ROWS.function("nn.functional")
def dropout2d(
    input: Operand, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Value:
    """Return the input with channels set to 0 at random; the others are divided by ``1 - p``.

    Args:
        input: shape (N, C, H, W) or (N, C, L).
        p, training, inplace: as of `dropout`.
    """
    _check(p)
    ndim = len(f.shape_of(input))
    if ndim not in (3, 4):
        warn(errors.dropout_dimensions("dropout2d", ndim, 2, "3D or 4D"))
    if ndim == 3:
        warn(errors.DROPOUT2D_OF_ROWS)
    return _of_channels(input, p, training, inplace)


@ROWS.function("nn.functional")
def dropout3d(
    input: Operand, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Value:
    """Return the input with channels set to 0 at random; the others are divided by ``1 - p``.

    Args:
        input: shape (N, C, D, H, W) or (C, D, H, W).
        p, training, inplace: as of `dropout`.
    """
    _check(p)
    ndim = len(f.shape_of(input))
    if ndim not in (4, 5):
        warn(errors.dropout_dimensions("dropout3d", ndim, 3, "4D or 5D"))
    if ndim == 5:
        return _of_channels(input, p, training, inplace)
    found = _of_one(input, lambda x: _of_channels(x, p, training, inplace))
    return input if inplace else found  # type: ignore[return-value]


def _kept(x: Array, mask: Array, p: float) -> Any:
    scale = 0.0 if p == 1 else 1 / (1 - p)
    return ew.mul(ew.mul(x, convert(mask, x.dtype)), scale), mask


NATIVE = Op(
    "NativeDropoutBackward0",
    _kept,
    (("result1", 1),),
    edges=(0,),
    constants=(1,),
    details=lambda specs, params: {"p": params[0]},
)


@ROWS.function("function")
def native_dropout(input: Operand, p: float, train: bool | None) -> tuple[Any, Any]:
    """Return `dropout`, and the mask of the elements that are kept."""
    f.tensors_only("native_dropout", input=input)
    shape = f.shape_of(input)
    if 0 not in shape and (train is None or train):
        with unseen():
            mask = factories.empty(shape, dtype=DTYPES[np.dtype(np.bool_)]).bernoulli_(1 - p)
        return apply(NATIVE, (input, mask), (float(p),))
    return f.clone(input), factories.ones(shape, dtype=DTYPES[np.dtype(np.bool_)])
