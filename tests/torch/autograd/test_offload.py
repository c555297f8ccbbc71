"""Saved tensors on disk and compressed, hooks one after the other: the same gradients, and nothing
left behind.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.autograd import graph
from functrace.torch.autograd.offload import _Compressed, _OnDisk

X = np.random.default_rng(0).standard_normal((40, 30))


def loss(x: Any) -> Any:
    return ((x.exp() * x).sin() @ x.t()).relu().sum()


def gradient(context: Any) -> np.ndarray[Any, Any]:
    x = torch.tensor(X, requires_grad=True)
    with context:
        y = loss(x)
    y.backward()
    return x.grad._array  # type: ignore[no-any-return]


def files(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir())


@pytest.mark.parametrize("smallest", [0, 1 << 30])
def test_gradients_are_the_same_bit_for_bit(smallest: int, tmp_path: Path) -> None:
    x = torch.tensor(X, requires_grad=True)
    loss(x).backward()
    half = graph.saved_tensors_hooks(lambda t: t * 1.0, lambda t: t * 1.0)
    for context in (
        graph.save_on_disk(tmp_path, smallest),
        graph.save_compressed(smallest=smallest),
        graph.save_compressed(9, smallest=smallest),
        graph.compose(half, graph.save_compressed(smallest=smallest)),
        graph.compose(half, half, graph.save_on_disk(tmp_path, smallest)),
        graph.compose(),
    ):
        np.testing.assert_array_equal(gradient(context), x.grad._array)
        assert files(tmp_path) == []


def test_files_live_as_long_as_saved_tensors(tmp_path: Path) -> None:
    gc.disable()
    try:
        x = torch.tensor(X, requires_grad=True)
        with graph.save_on_disk(tmp_path, 0):
            y = loss(x)
        count = len(files(tmp_path))
        assert count > 3 and all(name.endswith(".npy") for name in files(tmp_path))
        y.backward(retain_graph=True)
        assert len(files(tmp_path)) == count
        y.backward()
        assert files(tmp_path) == []
        with graph.save_on_disk(tmp_path, 0):
            y = loss(x)
        del y  # never run backward
        assert files(tmp_path) == []
    finally:
        gc.enable()


def test_a_failing_forward_leaves_no_file(tmp_path: Path) -> None:
    x = torch.tensor(X, requires_grad=True)
    with pytest.raises(ZeroDivisionError), graph.save_on_disk(tmp_path, 0):
        loss(x) / (1 // 0)
    assert files(tmp_path) == []


@pytest.mark.parametrize("array", [
    np.zeros((0, 3)), np.array(2.5), np.asfortranarray(X), X[::2, ::3], X.astype(np.float16),
    X > 0, X + 1j,
    np.broadcast_to(np.arange(3.0), (4, 3)),
])  # fmt: skip
def test_saved_tensors_round_trip(array: np.ndarray[Any, Any], tmp_path: Path) -> None:
    for hooks in (graph.save_on_disk(tmp_path, 0), graph.save_compressed(smallest=0)):
        packed = hooks.pack_hook(_tensor(array))
        assert isinstance(packed, (_OnDisk, _Compressed))
        back = hooks.unpack_hook(packed)._array
        assert (
            back.dtype == array.dtype
            and back.shape == array.shape
            and back.tobytes() == array.tobytes()
        )
        back[...] = 0  # writable
    del packed
    assert files(tmp_path) == []


def _tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    from functrace.torch.tensors.tensor import wrap

    return wrap(array)


def test_zeros_shrink() -> None:
    packed = graph.save_compressed(smallest=0).pack_hook(torch.zeros(100, 100))
    assert len(packed.data) * 50 < 100 * 100 * 4


def test_invalid_arguments_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no directory"):
        graph.save_on_disk(tmp_path / "none")
    with pytest.raises(ValueError, match="level=0"):
        graph.save_compressed(0)
    with pytest.raises(TypeError, match="a function is no"):
        graph.compose(lambda t: t)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="packed to a _Compressed"):
        gradient(
            graph.compose(graph.save_compressed(smallest=0), graph.save_compressed(smallest=0))
        )
