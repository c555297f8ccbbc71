"""The dropout family: shares, scales, whole channels, masks recorded from PyTorch 2.13.0."""

from __future__ import annotations

import numpy as np
import pytest

import functrace.torch as torch

F = torch.nn.functional


def test_masks_are_pytorchs() -> None:
    torch.manual_seed(0)
    assert F.dropout(torch.ones(8)).tolist() == [0, 0, 2, 0, 0, 0, 2, 2]
    found = F.alpha_dropout(torch.ones(4), training=True)
    np.testing.assert_allclose(found.numpy(), [-0.7792, 1.6656, 1.6656, 1.6656], atol=1e-4)


def test_the_input_itself_outside_of_training() -> None:
    x = torch.ones(3, 4)
    assert F.dropout(x, training=False) is x and F.dropout(x, 0.0) is x and F.alpha_dropout(x) is x
    assert F.dropout(x, 1.0).tolist() == [[0.0] * 4] * 3


def test_kept_elements_are_scaled_and_get_gradients() -> None:
    x = torch.ones(1000, requires_grad=True)
    y = F.dropout(x, 0.2)
    assert set(y.tolist()) == {0.0, 1.25} and 700 < int((y > 0).sum()) < 900
    y.sum().backward()
    assert x.grad is not None and (x.grad == y.detach()).all()


def test_whole_channels() -> None:
    for name, shape in (
        ("dropout1d", (2, 50, 3)),
        ("dropout2d", (2, 50, 3, 2)),
        ("dropout3d", (50, 3, 2, 2)),
    ):
        found = getattr(F, name)(torch.ones(shape)).numpy()
        flat = found.reshape(100 if name != "dropout3d" else 50, -1)
        assert (flat == flat[:, :1]).all() and 0 < (flat[:, 0] > 0).sum() < len(flat)


def test_in_place_and_alpha() -> None:
    x = torch.ones(5, 4)
    assert F.dropout(x, 0.5, True, True) is x and torch.dropout_(x, 0.5, True) is x
    y = F.alpha_dropout(torch.randn(100000), 0.3, True)
    assert abs(float(y.mean())) < 0.05 and abs(float(y.std()) - 1) < 0.05
    out, mask = torch.native_dropout(torch.ones(100), 0.5, True)
    assert mask.dtype == torch.bool and (out.numpy() == 2 * mask.numpy()).all()


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"between 0 and 1, but got 1\.5"):
        F.dropout(torch.ones(2), 1.5)
    with pytest.raises(RuntimeError, match="Expected 2D or 3D input"):
        F.dropout1d(torch.ones(2))
    with pytest.warns(UserWarning, match="Received a 2-D input"):
        F.dropout2d(torch.ones(2, 2))
