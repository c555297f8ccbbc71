"""Interpolation of uint8 images: weights and the result of each axis are rounded, as PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest

import functrace.torch as torch
from functrace.torch.nn import functional as F

IMAGE = [[3, 250, 17, 90, 200], [255, 0, 128, 64, 32], [7, 77, 177, 27, 127]]

RESIZED: list[tuple[dict[str, Any], list[list[int]]]] = [
    (
        {"size": (2, 7), "mode": "bilinear"},
        [[66, 135, 147, 45, 72, 115, 158], [69, 63, 89, 165, 73, 65, 103]],
    ),
    (
        {"size": (2, 7), "mode": "bilinear", "align_corners": True},
        [[3, 168, 172, 17, 66, 127, 200], [7, 54, 110, 177, 77, 60, 127]],
    ),
    ({"size": (2, 3), "mode": "bilinear", "antialias": True}, [[123, 85, 113], [78, 108, 70]]),
    (
        {"size": (4, 4), "mode": "bicubic"},
        [[17, 200, 31, 200], [180, 70, 79, 82], [171, 43, 98, 47], [0, 139, 75, 121]],
    ),
    ({"size": (2, 3), "mode": "bicubic", "antialias": True}, [[128, 82, 112], [78, 108, 67]]),
    (
        {"scale_factor": 1.4, "mode": "bicubic", "align_corners": True},
        [
            [3, 198, 200, 17, 42, 133, 200],
            [203, 110, 62, 88, 81, 75, 74],
            [205, 44, 30, 156, 93, 36, 43],
            [7, 44, 125, 177, 69, 42, 127],
        ],
    ),
    ({"scale_factor": 0.7, "mode": "bilinear"}, [[87, 96, 90], [86, 120, 44]]),
    ({"size": (2, 3), "mode": "lanczos", "antialias": True}, [[133, 81, 109], [79, 104, 66]]),
]
"""Arguments, and results of PyTorch 2.13.0."""


@pytest.mark.parametrize(("arguments", "wanted"), RESIZED)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_values_are_pytorchs(
    arguments: dict[str, Any], wanted: list[list[int]], channels: int, memory_format: Any
) -> None:
    image = torch.tensor(IMAGE, dtype=torch.uint8).expand(2, channels, 3, 5)
    found = F.interpolate(image.contiguous(memory_format=memory_format), **arguments)
    assert found.dtype is torch.uint8
    assert found.is_contiguous(memory_format=memory_format)
    assert found.tolist() == [[wanted] * channels] * 2


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: F.interpolate(x, scale_factor=1e20), RuntimeError, "without overflow"),
        (lambda x: F.interpolate(x, scale_factor=1e9), RuntimeError, "calculation overflowed"),
        (lambda x: F.interpolate(x, size=(torch.tensor(2.0), 3)), TypeError, "to be one of int or"),
        (lambda x: F.fold(x.float().reshape(1, 4, 12), (4, 5), 2, 8), RuntimeError,
         "which is too small"),
    ],
)  # fmt: skip
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(torch.ones(1, 3, 4, 4, dtype=torch.uint8))
