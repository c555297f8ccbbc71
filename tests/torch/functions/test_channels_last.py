"""Functions of images keep the memory format ``channels_last``, as in PyTorch 2.13.0."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import functrace.torch as torch
from functrace.torch.nn import functional as F
from functrace.torch.testing import assert_close

IMAGES: list[Callable[[Any], Any]] = [
    lambda x: F.avg_pool2d(x, 2), lambda x: F.max_pool2d(x, 2), lambda x: F.adaptive_avg_pool2d(x, 2),
    lambda x: F.adaptive_avg_pool2d(x, 1), lambda x: F.adaptive_max_pool2d(x, 2),
    lambda x: F.max_unpool2d(*F.max_pool2d_with_indices(x, 2), kernel_size=2),
    lambda x: F.interpolate(x, scale_factor=2), lambda x: F.interpolate(x, size=3, mode="bilinear"),
    lambda x: F.interpolate(x, size=3, mode="bicubic", antialias=True),
    lambda x: F.pixel_shuffle(x, 2), lambda x: F.pixel_unshuffle(x, 2),
    lambda x: F.channel_shuffle(x, 2), lambda x: F.pad(x, (1, 1, 1, 1)),
    lambda x: F.pad(x, (1, 1, 1, 1), "reflect"), lambda x: F.pad(x, (1, 1, 1, 1), "replicate"),
    lambda x: F.group_norm(x, 2), lambda x: F.batch_norm(x, None, None, training=True),
    lambda x: F.conv2d(x, x[:, :, :2, :2]), lambda x: F.conv_transpose2d(x, torch.ones(8, 2, 2, 2)),
]  # fmt: skip
VOLUMES: list[Callable[[Any], Any]] = [
    lambda x: F.max_pool3d(x, 2), lambda x: F.interpolate(x, scale_factor=2),
    lambda x: F.interpolate(x, size=3, mode="trilinear"), lambda x: F.pad(x, (1,) * 6),
    lambda x: F.group_norm(x, 2), lambda x: F.conv3d(x, torch.ones(2, 8, 2, 2, 2)),
]  # fmt: skip


@pytest.mark.parametrize("call", IMAGES)
def test_of_images(call: Callable[[Any], Any]) -> None:
    x = torch.randn(2, 8, 4, 6, generator=torch.Generator().manual_seed(0))
    plain, laid = call(x), call(x.contiguous(memory_format=torch.channels_last))
    assert plain.is_contiguous()
    assert laid.is_contiguous(memory_format=torch.channels_last)
    assert laid.stride(1) == 1
    assert_close(laid, plain)


@pytest.mark.parametrize("call", VOLUMES)
def test_of_volumes(call: Callable[[Any], Any]) -> None:
    x = torch.randn(2, 8, 4, 4, 6, generator=torch.Generator().manual_seed(0))
    plain, laid = call(x), call(x.contiguous(memory_format=torch.channels_last_3d))
    assert plain.is_contiguous()
    assert laid.is_contiguous(memory_format=torch.channels_last_3d)
    assert_close(laid, plain)


def test_a_mean_of_all_pixels_has_strides_of_channels_last() -> None:
    x = torch.ones(2, 3, 6, 6).contiguous(memory_format=torch.channels_last).requires_grad_()
    found = F.adaptive_avg_pool2d(x, 1)
    assert found.stride() == (3, 1, 3, 3)
    found.sum().backward()
    assert_close(x.grad, torch.full((2, 3, 6, 6), 1 / 36))


def test_gradients_of_leaves_have_the_layout_of_the_leaf() -> None:
    x = torch.ones(2, 4, 4, 6).contiguous(memory_format=torch.channels_last).requires_grad_()
    F.max_pool2d(x, 2).sum().backward()
    grad: Any = x.grad
    assert grad.is_contiguous(memory_format=torch.channels_last)


def test_a_volume_without_batch_keeps_its_layout() -> None:
    x = torch.ones(1, 4, 4, 4, 6).contiguous(memory_format=torch.channels_last_3d)[0]
    assert F.max_pool3d(x, 2).stride() == (1, 24, 12, 4)
