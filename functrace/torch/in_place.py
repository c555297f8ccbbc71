"""PyTorch's in-place functions: ``add_``, ``mul_``, ``copy_``, ``x[i] = v`` …

Each is the row of its plain form, handed to `functrace.torch.views.write`.

Floor: 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.indexing import scatter_set
from functrace.ops.shaping import broadcast_to, convert
from functrace.torch import functions as f
from functrace.torch import sentences
from functrace.torch.plans import Op
from functrace.torch.shaping import basic_part, expand, index_operands
from functrace.torch.tensor import Tensor, wrap
from functrace.torch.views import write


def _copied(x: Any, source: Any) -> Any:
    value = convert(source, x.dtype) if source.dtype != x.dtype else source
    return broadcast_to(value, x.shape) if value.shape != x.shape else ew.positive(value) if x.dtype.kind != "b" else value


def _filled(x: Any, value: Any) -> Any:
    return broadcast_to(
        np.asarray(value, x.dtype) if isinstance(value, (bool, int, float)) else convert(value, x.dtype), x.shape
    )


COPY = Op("CopyBackwards", _copied)
FILL = Op("FillBackward2", _filled, edges=(0,))
ZERO = Op("ZeroBackward0", lambda x: _filled(x, 0), edges=(0,))
PUT = Op(
    "IndexPutBackward0",
    lambda x, value, *rest: scatter_set(x, rest[-1], convert(value, x.dtype), rest[:-1]),
    tuple((f"indices[{k}]", k + 2) for k in range(8)),
    edges=(0, 1),
    keeps=tuple(f"indices[{k}]" for k in range(8)),
)


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite with another tensor's elements, broadcast and converted."""
    source = src if isinstance(src, Tensor) else wrap(np.asarray(src))
    shape = source._array.shape
    if shape != self._array.shape:
        expand(source.detach(), self._array.shape)  # raises PyTorch's sentence if it does not broadcast
    return write(COPY, self, (source,))


def fill_(self: Tensor, value: Any) -> Tensor:
    """Overwrite every element with a number."""
    return write(FILL, self, (value,))


def zero_(self: Tensor) -> Tensor:
    """Overwrite every element with 0."""
    return write(ZERO, self)


def add_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Add in place."""
    return write(f.ADD, self, (other,)) if alpha == 1 else write(f.ADD_SCALED, self, (other,), (alpha,))


def sub_(self: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """Subtract in place."""
    return write(f.SUB, self, (other,)) if alpha == 1 else write(f.SUB_SCALED, self, (other,), (alpha,))


def mul_(self: Tensor, other: Any) -> Tensor:
    """Multiply in place."""
    return write(f.MUL, self, (other,))


def div_(self: Tensor, other: Any) -> Tensor:
    """Divide in place."""
    return write(f.DIV, self, (other,))


def pow_(self: Tensor, exponent: Any) -> Tensor:
    """Raise to a power in place."""
    return write(f.POW if isinstance(exponent, Tensor) else f.POW_NUMBER, self, (exponent,))


def clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Bound the elements in place."""
    given = {name: value for name, value in (("min", min), ("max", max)) if value is not None}
    ops = f.CLAMPS[tuple(given)]
    return write(ops[any(isinstance(v, Tensor) for v in given.values())], self, tuple(given.values()))


def _unary(op: Op, name: str) -> Callable[[Tensor], Tensor]:
    def function(self: Tensor) -> Tensor:
        return write(op, self)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name[:-1]}``, in place."
    return function


exp_, log_, sin_, cos_ = _unary(f.EXP, "exp_"), _unary(f.LOG, "log_"), _unary(f.SIN, "sin_"), _unary(f.COS, "cos_")
tanh_, sigmoid_, relu_ = _unary(f.TANH, "tanh_"), _unary(f.SIGMOID, "sigmoid_"), _unary(f.RELU, "relu_")
sqrt_, abs_, neg_ = _unary(f.SQRT, "sqrt_"), _unary(f.ABS, "abs_"), _unary(f.NEG, "neg_")


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """Write ``self[index] = value``: through a view, or element by element where tensors or masks stand in the index."""
    entries = index if isinstance(index, tuple) else (index,)
    whole = all(k is Ellipsis or k == slice(None) for k in entries if k is Ellipsis or isinstance(k, slice))
    if whole and not [k for k in entries if k is not Ellipsis and not isinstance(k, slice)]:
        target, arrays = self, {}
    else:
        target, arrays = basic_part(self, entries)
    if not arrays:
        if isinstance(value, (bool, int, float)):
            fill_(target, value)
        else:
            source = value if isinstance(value, Tensor) else wrap(np.asarray(value))
            extra = source._array.ndim - target._array.ndim
            if extra > 0 and source._array.shape[:extra] == (1,) * extra:
                source = source.reshape(source._array.shape[extra:])  # type: ignore[attr-defined]
            if source._array.shape != target._array.shape:
                source = expand(source, target._array.shape)
            copy_(target, source)
        return
    operands, template = index_operands(target, arrays)
    source = value if isinstance(value, Tensor) else wrap(np.asarray(value, target._array.dtype))
    if source._array.dtype != target._array.dtype:
        raise RuntimeError(sentences.index_put_dtypes(target.dtype.printed, source.dtype.printed))
    write(PUT, target, (source, *operands), (template,))
