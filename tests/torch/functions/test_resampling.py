"""Resampling of tensors: known values, gradients against differences, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
import functrace.torch.nn.functional as F
from functrace.torch.autograd import gradcheck, gradgradcheck

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> Any:
    return torch.tensor(RNG.normal(size=shape), requires_grad=True)


def test_known_values_of_interpolate() -> None:
    x = torch.tensor([[[1.0, 2.0, 4.0]]])
    assert F.interpolate(x, 6).tolist() == [[[1, 1, 2, 2, 4, 4]]]
    assert F.interpolate(x, 2, mode="nearest-exact").tolist() == [[[1, 4]]]
    linear = F.interpolate(x, 5, mode="linear", align_corners=True)
    assert linear.tolist() == [[[1, 1.5, 2, 3, 4]]]
    half = F.interpolate(x, scale_factor=2, mode="linear")
    assert half.tolist() == [[[1, 1.25, 1.75, 2.5, 3.5, 4]]]
    assert F.interpolate(x, 1, mode="area").flatten().tolist() == pytest.approx([7 / 3])
    image = torch.arange(16.0).reshape(1, 1, 4, 4)
    small = F.interpolate(image, 2, mode="bilinear", antialias=True)
    # as PyTorch 2.13.0
    assert small.flatten().tolist() == pytest.approx(
        [3.5714288, 5.1428575, 9.857143, 11.428571], rel=1e-6
    )
    cubic = F.interpolate(image, 3, mode="bicubic").flatten().tolist()
    assert cubic[4] == pytest.approx(7.5)


def test_a_plane_is_interpolated_exactly() -> None:
    i, j = np.mgrid[0:5, 0:7]
    image = torch.tensor((2.0 * i - 3.0 * j)[None, None])
    i, j = np.meshgrid(np.linspace(0, 4, 9), np.linspace(0, 6, 10), indexing="ij")
    found = F.interpolate(image, (9, 10), mode="bilinear", align_corners=True)
    np.testing.assert_allclose(found.numpy()[0, 0], 2 * i - 3 * j, atol=1e-12)
    flat = F.interpolate(torch.full((1, 1, 4, 3), 2.5), (9, 10), mode="bicubic")
    assert flat.flatten().tolist() == pytest.approx([2.5] * 90)


def test_the_identity_samples_the_image() -> None:
    for shape in ((2, 3, 4, 5), (1, 2, 3, 4, 2)):
        axes = len(shape) - 2
        x = drawn(*shape)
        theta = torch.eye(axes, axes + 1, dtype=torch.float64).expand(shape[0], axes, axes + 1)
        for corners in (True, False):
            grid = F.affine_grid(theta, shape, corners)
            for mode in ("bilinear", "nearest"):
                y = F.grid_sample(x, grid, mode, align_corners=corners)
                np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy(), atol=1e-12)


def test_points_outside() -> None:
    x = torch.tensor([[[[1.0, 2.0, 3.0]]]])
    grid = torch.tensor([[[[-2.0, 0.0], [0.0, 0.0], [2.0, 0.0]]]])
    found = {
        padding: F.grid_sample(x, grid, "nearest", padding, align_corners=True).flatten().tolist()
        for padding in ("zeros", "border", "reflection")
    }
    assert found == {"zeros": [0, 2, 0], "border": [1, 2, 3], "reflection": [2, 2, 2]}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("call", "shapes"),
    [
        (lambda x: F.interpolate(x, 7), [(1, 2, 3)]),
        (lambda x: F.interpolate(x, (3, 5), mode="bilinear"), [(1, 1, 4, 3)]),
        (lambda x: F.interpolate(x, (3, 5), mode="bicubic", align_corners=True), [(1, 1, 4, 3)]),
        (lambda x: F.interpolate(x, (2, 3), mode="bicubic", antialias=True), [(1, 1, 4, 5)]),
        (lambda x: F.interpolate(x, scale_factor=1.5, mode="trilinear"), [(1, 1, 2, 3, 2)]),
        (lambda x, g: F.grid_sample(x, g.tanh(), align_corners=False),
         [(1, 2, 3, 4), (1, 2, 2, 2)]),
        (lambda x, g: F.grid_sample(x, g, "bicubic", "reflection", True),
         [(1, 1, 3, 4), (1, 2, 2, 2)]),
        (lambda x, g: F.grid_sample(x, g.tanh(), "bilinear", "border", False),
         [(1, 1, 3, 4, 2), (1, 2, 1, 2, 3)]),
        (lambda t: F.affine_grid(t, (1, 1, 2, 3), False), [(1, 2, 3)]),
        (lambda x: F.unfold(x, 2, 1, 1, 2), [(1, 2, 4, 3)]),
        (lambda x: F.fold(x, (4, 3), 2), [(1, 8, 6)]),
        (lambda x: F.pixel_shuffle(x, 2), [(1, 4, 2, 3)]),
        (lambda x: F.pixel_unshuffle(x, 2), [(1, 1, 4, 6)]),
        (lambda x: torch.channel_shuffle(x, 2), [(1, 4, 2)]),
    ],
)  # fmt: skip
def test_gradients_are_those_of_differences(call: Any, shapes: Any) -> None:
    given = tuple(drawn(*shape) for shape in shapes)
    assert gradcheck(call, given)
    assert gradgradcheck(call, given)


def test_fold_adds_what_unfold_copied() -> None:
    x = drawn(2, 3, 5, 6)
    columns = F.unfold(x, 3)
    assert columns.shape == (2, 27, 12)
    counts = F.fold(F.unfold(torch.ones_like(x), 3), (5, 6), 3)
    np.testing.assert_allclose(
        F.fold(columns, (5, 6), 3).detach().numpy(), (x * counts).detach().numpy()
    )
    w = drawn(4, 3, 3, 3)
    product = torch.matmul(w.reshape(4, 27), columns).reshape(2, 4, 3, 4)
    np.testing.assert_allclose(
        product.detach().numpy(), F.conv2d(x, w).detach().numpy(), atol=1e-12
    )


def test_pixels_are_shuffled_as_in_pytorch() -> None:
    x = torch.arange(4.0).reshape(1, 4, 1, 1)
    assert F.pixel_shuffle(x, 2).tolist() == [[[[0, 1], [2, 3]]]]
    y = drawn(2, 2, 4, 6)
    assert F.pixel_shuffle(F.pixel_unshuffle(y, 2), 2).tolist() == y.tolist()
    channels = torch.arange(6.0).reshape(1, 6, 1)
    assert torch.channel_shuffle(channels, 2).flatten().tolist() == [0, 3, 1, 4, 2, 5]


def test_names_of_nodes() -> None:
    x, grid = drawn(1, 4, 4, 4), drawn(1, 2, 2, 2)
    names = {
        "UpsampleNearest2DBackward0": F.interpolate(x, 2),
        "UpsampleNearestExact2DBackward0": F.interpolate(x, 2, mode="nearest-exact"),
        "UpsampleBilinear2DBackward0": F.interpolate(x, 2, mode="bilinear"),
        "UpsampleBilinear2DAaBackward0": F.interpolate(x, 2, mode="bilinear", antialias=True),
        "GridSampler2DBackward0": F.grid_sample(x, grid, align_corners=True),
        "Im2ColBackward0": F.unfold(x, 2),
        "PixelShuffleBackward0": F.pixel_shuffle(x, 2),
    }
    for name, y in names.items():
        assert y.grad_fn.name() == name


def test_old_names_warn() -> None:
    x = torch.ones(1, 1, 2, 2)
    for function in (F.upsample, F.upsample_nearest, F.upsample_bilinear):
        with pytest.warns(UserWarning, match="is deprecated"):
            assert function(x, scale_factor=2).shape == (1, 1, 4, 4)
    with pytest.warns(UserWarning, match="align_corners=False since 1.3.0"):
        F.grid_sample(x, torch.zeros(1, 1, 1, 2))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: F.interpolate(x), ValueError, "either size or scale_factor"),
        (lambda x: F.interpolate(x, 2, 2), ValueError, "only one of size or scale_factor"),
        (lambda x: F.interpolate(x, 2, mode="linear"), NotImplementedError,
         "Got 4D input, but linear mode needs 3D input"),
        (lambda x: F.interpolate(x, 2, align_corners=True), ValueError, "can only be set with"),
        (lambda x: F.interpolate(x, 0), RuntimeError, "sizes should be greater than 0"),
        (lambda x: F.interpolate(x[0].byte(), 2, mode="linear"), NotImplementedError,
         "not implemented for 'Byte'"),
        (lambda x: F.interpolate(x[0], 2, mode="linear", antialias=True), ValueError,
         "Anti-alias option is restricted"),
        (lambda x: F.grid_sample(x, x[:, :2].movedim(1, 3), "cubic"), ValueError, "expected mode"),
        (lambda x: F.grid_sample(x, x), RuntimeError, "expected grid to have size 2"),
        (lambda x: F.pixel_shuffle(x, 3), RuntimeError, "divisible by the square"),
        (lambda x: F.unfold(x, 9), RuntimeError, "calculated shape of the array of sliding"),
        (lambda x: F.fold(x, (2, 2), 1), RuntimeError, "Expected 2D or 3D"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(torch.ones(1, 4, 4, 4))
