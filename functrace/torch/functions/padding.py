"""The rows of padding: ``pad`` in all its modes, and ``constant_pad_nd``.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.indexing import embed_p, index_static
from functrace.ops.windows import map_axis
from functrace.torch import errors
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import elementwise as f
from functrace.torch.functions.spatial import check_kinds, integer, keeping_channels_last
from functrace.torch.tensors.tensor import Operand, Value
from functrace.tracing import bind
from functrace.typing import Array

ROWS = FunctionTable()
_ALL = (None, None, None)


def _unsigned(numbers: Sequence[int]) -> tuple[int, ...]:
    """Return numbers as PyTorch shows them in saved fields: modulo 2**64."""
    return tuple([n % (1 << 64) for n in numbers])


def _pairs(pad: Sequence[int], ndim: int) -> list[tuple[int, int]]:
    """Return elements before and after each axis, from those of the last axis first."""
    found = [(0, 0)] * ndim
    for k in range(len(pad) // 2):
        found[ndim - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    return found


def _constant(x: Array, pad: tuple[int, ...], value: Any) -> Any:
    pairs = _pairs(pad, x.ndim)
    kept = tuple([
        (max(-a, 0), max(n - max(-b, 0), 0), None) for n, (a, b) in zip(x.shape, pairs, strict=True)
    ])  # fmt: skip
    shape = tuple([n + a + b for n, (a, b) in zip(x.shape, pairs, strict=True)])
    inner = x if min(pad, default=0) >= 0 else index_static(x, kept)
    if type(inner) is np.ndarray:
        out = np.full(shape, value, x.dtype)
        out[tuple([
            slice(max(a, 0), max(a, 0) + n)
            for n, (a, _) in zip(inner.shape, pairs, strict=True)
        ])] = inner  # fmt: skip
        return out
    place = tuple([
        (max(a, 0), max(a, 0) + n, None) for n, (a, _) in zip(inner.shape, pairs, strict=True)
    ])  # fmt: skip
    out: Any = bind(embed_p, (inner,), (place, shape))
    if value == 0 and not np.signbit(value):
        return out
    border = np.full(shape, value, x.dtype)
    border[tuple([slice(a, b) for a, b, _ in place])] = 0
    return ew.logical_or(out, border) if x.dtype == np.bool_ else ew.add(out, border)


CONSTANT = Op(
    "ConstantPadNdBackward0",
    keeping_channels_last(_constant),
    details=lambda specs, params: {"pad": _unsigned(params[0])},
)


@ROWS.function("function")
def constant_pad_nd(input: Operand, pad: Sequence[int], value: float = 0) -> Value:
    """Return the tensor with elements of one value around it.

    Args:
        input: any shape.
        pad: numbers of elements before and after the last axis, the one before it, and so on;
            negative ones remove elements.
        value: the value.
    """
    f.tensors_only("constant_pad_nd", input=input)
    shape = f.shape_of(input)
    if not isinstance(pad, (tuple, list)):
        raise TypeError(
            errors.must_be("constant_pad_nd", "pad", 1, "tuple of ints", type(pad).__name__)
        )
    numbers = tuple([integer("constant_pad_nd", "pad", k) for k in pad])
    if len(numbers) % 2:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(numbers)}")
    if len(numbers) > 2 * len(shape):
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad "
            f"length is {len(numbers)} while the input has {len(shape)} dimensions."
        )
    for n, (a, b) in zip(shape, _pairs(numbers, len(shape)), strict=True):
        if n + min(a, 0) + min(b, 0) < 0:
            raise RuntimeError("narrow(): length must be non-negative.")
    return apply(CONSTANT, (input,), (numbers, value))


# -- reflected and repeated borders ----------------------------------------------------------------


def _mapped(given: Array, pad: tuple[int, ...], how: str) -> Any:
    x = given
    for axis, (a, b) in enumerate(_pairs(pad, x.ndim)):
        if a or b or len(pad) >= 2 * (x.ndim - axis):
            n = x.shape[axis]
            x = map_axis(x, axis, (how, n, n + a + b, a))
    if type(x) is np.ndarray and np.may_share_memory(x, given):
        return x.copy()  # a result is no view
    return x


def _op(node: str, how: str, axes: int) -> Op:
    return Op(
        f"{node}Pad{axes}DBackward0",
        keeping_channels_last(lambda x, pad: _mapped(x, pad, how)),
        (("self", 0),),
        keeps=("self",),
        details=lambda specs, params: {"padding": _unsigned(params[0])},
        called=f"{node.lower()}_pad{axes}d",
    )


_BORDERS = {
    "reflect": [_op("Reflection", "reflected", axes) for axes in (1, 2, 3)],
    "replicate": [_op("Replication", "repeated", axes) for axes in (1, 2, 3)],
}
_KERNELS = {"reflect": "reflection_pad", "replicate": "replication_pad"}


def _bordered(mode: str, input: Operand, pad: tuple[int, ...], axes: int) -> Value:
    """Pad the last axes with elements of the tensor.

    Raises:
        RuntimeError: for empty tensors, and more elements than there are.
        NotImplementedError: for bools.
    """
    shape = f.shape_of(input)
    has_batch = len(shape) == axes + 2
    if 0 in shape[has_batch:] or len(shape) not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with possibly 0 batch size "
            f"and other non-zero dimensions for input, but got: {list(shape)}"
        )
    pairs = _pairs(pad, len(shape))
    for k in range(axes):
        axis = len(shape) - 1 - k
        (a, b), n = pairs[axis], shape[axis]
        if mode == "reflect" and (a >= n or b >= n):
            # PyTorch counts the arguments of its kernel.
            number = 4 + 2 * k
            raise RuntimeError(
                f"Argument #{number}: Padding size should be less than the corresponding input "
                f"dimension, but got: padding ({a}, {b}) at dimension {axis} of input {list(shape)}"
            )
    sizes = [n + a + b for n, (a, b) in zip(shape, pairs, strict=True)][-axes:]
    if max(sizes) >= 1 and min(sizes) < 0:
        full = [*shape[:-axes], *sizes]
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(sizes)}: {full}")
    if max(sizes) < 1:
        names = "DHW"[-axes:]
        before = " ".join(f"{c}: {n}" for c, n in zip(names, shape[-axes:], strict=True))
        after = " ".join(f"{c}: {n}" for c, n in zip(names, sizes, strict=True))
        raise RuntimeError(f"input ({before}) is too small. Calculated output {after}")
    check_kinds(input, "uifc", f"{_KERNELS[mode]}{axes}d")
    return apply(_BORDERS[mode][axes - 1], (input,), (pad,))


def _circular(input: Operand, pad: tuple[int, ...], axes: int) -> Value:
    shape = f.shape_of(input)
    pairs = _pairs(pad, len(shape))
    for axis in range(len(shape) - axes, len(shape)):
        a, b = pairs[axis]
        # After negative padding, PyTorch reads memory without values here.
        if max(a, b) > shape[axis] + min(a, 0) + min(b, 0):
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if shape[axis] + a + b < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
    return apply(CIRCULAR, (input,), (pad,))


CIRCULAR = Op(
    "CopySlices",
    lambda x, pad: _mapped(x, pad, "wrapped"),
    in_rows=True,
    called="_pad_circular",
)


@ROWS.function("nn.functional _C._nn")
def pad(
    input: Operand, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Value:
    """Return the tensor with elements added around it.

    Args:
        input: any shape.
        pad: numbers of elements before and after the last axis, the one before it, and so on;
            negative ones remove elements.
        mode: ``"constant"``; ``"reflect"``, ``"replicate"`` or ``"circular"`` for the last one, two
            or three axes of a tensor with one or two axes before these.
        value: the value of a constant border, 0 by default.
    """
    f.tensors_only("pad", input=input)
    if not isinstance(pad, (tuple, list)):
        raise TypeError(errors.must_be("pad", "pad", 1, "tuple of ints", type(pad).__name__))
    numbers = tuple([integer("pad", "pad", k) for k in pad])
    shape = f.shape_of(input)
    if len(numbers) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(numbers) > 2 * len(shape):
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got "
            f"padding length {len(numbers)} and input of dimension {len(shape)}"
        )
    if mode == "constant":
        return constant_pad_nd(input, numbers, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    axes = len(numbers) // 2
    if not (1 <= axes <= 3 and len(shape) in (axes + 1, axes + 2)):
        if mode not in ("reflect", "replicate", "circular"):
            raise NotImplementedError(f"Unrecognised padding mode {mode}")
        raise NotImplementedError(
            f"Padding size {len(numbers)} is not supported for {len(shape)}D input tensor."
        )
    if mode == "circular":
        return _circular(input, numbers, axes)
    if mode not in _BORDERS:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    return _bordered(mode, input, numbers, axes)


def _of_c(mode: str, axes: int) -> None:
    name = f"{_KERNELS[mode]}{axes}d"

    def function(input: Operand, padding: Sequence[int]) -> Value:
        numbers = tuple([integer(name, "padding", k) for k in padding])
        if len(numbers) != 2 * axes:
            raise RuntimeError(f"padding size is expected to be {2 * axes}")
        return _bordered(mode, input, numbers, axes)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return the tensor with `{mode}` borders along its last axes."
    ROWS.function("_C._nn")(function)


for _mode in _KERNELS:
    for _axes in (1, 2, 3):
        _of_c(_mode, _axes)
