"""The rows that shuffle channels: ``pixel_shuffle``, ``channel_shuffle`` and relatives.

Layer: 9.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from functrace.ops.shaping import permute
from functrace.ops.shaping import reshape as core_reshape
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions import elementwise as f
from functrace.torch.functions.spatial import integer, keeping_channels_last
from functrace.torch.tensors.tensor import Operand, Value
from functrace.typing import Array

ROWS = FunctionTable()


def _shuffled(x: Array, r: int) -> Any:
    *stack, c, h, w = x.shape
    k = len(stack)
    parts = core_reshape(x, (*stack, c // r**2, r, r, h, w))
    axes = (*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return core_reshape(permute(parts, axes), (*stack, c // r**2, h * r, w * r))


def _unshuffled(x: Array, r: int) -> Any:
    *stack, c, h, w = x.shape
    k = len(stack)
    parts = core_reshape(x, (*stack, c, h // r, r, w // r, r))
    axes = (*range(k), k, k + 2, k + 4, k + 1, k + 3)
    return core_reshape(permute(parts, axes), (*stack, c * r**2, h // r, w // r))


def _channels_shuffled(x: Array, groups: int) -> Any:
    n, c, *rest = x.shape
    parts = core_reshape(x, (n, groups, c // groups, *rest))
    return core_reshape(permute(parts, (0, 2, 1, *range(3, parts.ndim))), x.shape)


PIXEL_SHUFFLE = Op(
    "PixelShuffleBackward0",
    keeping_channels_last(_shuffled),
    details=lambda specs, params: {"upscale_factor": params[0]},
)
PIXEL_UNSHUFFLE = Op(
    "PixelUnshuffleBackward0",
    keeping_channels_last(_unshuffled),
    details=lambda specs, params: {"downscale_factor": params[0]},
)
CHANNEL_SHUFFLE = Op(
    "ChannelShuffleBackward0",
    keeping_channels_last(_channels_shuffled),
    details=lambda specs, params: {"groups": params[0]},
)


def _check_pixels(name: str, input: Operand, factor: int, word: str) -> tuple[int, ...]:
    f.tensors_only(name, input=input)
    shape = f.shape_of(input)
    if len(shape) < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {len(shape)} "
            "dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {word}, but got {factor}")
    return shape


@ROWS.function("function nn.functional")
def pixel_shuffle(input: Operand, upscale_factor: int) -> Value:
    """Return larger images, from r * r channels for each one.

    Args:
        input: shape (..., C * r * r, H, W).
        upscale_factor: r.
    """
    r = integer("pixel_shuffle", "upscale_factor", upscale_factor)
    shape = _check_pixels("pixel_shuffle", input, r, "upscale_factor")
    if shape[-3] % r**2:
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square "
            f"of upscale_factor, but input.size(-3)={shape[-3]} is not divisible by {r**2}"
        )
    return apply(PIXEL_SHUFFLE, (input,), (r,))


@ROWS.function("function nn.functional")
def pixel_unshuffle(input: Operand, downscale_factor: int) -> Value:
    """Return smaller images with r * r channels for each one.

    Args:
        input: shape (..., C, H * r, W * r).
        downscale_factor: r.
    """
    r = integer("pixel_unshuffle", "downscale_factor", downscale_factor)
    shape = _check_pixels("pixel_unshuffle", input, r, "downscale_factor")
    for word, k in (("height", -2), ("width", -1)):
        if shape[k] % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {word} to be divisible by downscale_factor, but "
                f"input.size({k})={shape[k]} is not divisible by {r}"
            )
    return apply(PIXEL_UNSHUFFLE, (input,), (r,))


NATIVE_CHANNEL_SHUFFLE = replace(CHANNEL_SHUFFLE, called="native_channel_shuffle")


@ROWS.function("function nn.functional")
def native_channel_shuffle(input: Operand, groups: int) -> Value:
    """Return channels in another order: one of each group in turn; see `channel_shuffle`."""
    return _in_turn(NATIVE_CHANNEL_SHUFFLE, input, groups)


@ROWS.function("function nn.functional")
def channel_shuffle(input: Operand, groups: int) -> Value:
    """Return channels in another order: one of each group in turn.

    Args:
        input: shape (N, C, ...).
        groups: number of groups.
    """
    return _in_turn(CHANNEL_SHUFFLE, input, groups)


def _in_turn(op: Op, input: Operand, groups: int) -> Value:
    f.tensors_only("channel_shuffle", input=input)
    shape = f.shape_of(input)
    count = integer("channel_shuffle", "groups", groups)
    if len(shape) <= 2:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}"
        )
    if count <= 0:
        raise RuntimeError(
            f"Number of groups to divide channels in must be positive. Value of groups:{count}"
        )
    if shape[1] % count:
        raise RuntimeError(
            "Number of channels must be divisible by groups. Got "
            f"{shape[1]} channels and {count} groups."
        )
    return apply(op, (input,), (count,))
