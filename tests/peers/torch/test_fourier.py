"""Random transforms: values, first and second derivatives, and nodes, against PyTorch."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the numbers are those of torch {VERSION}", allow_module_level=True)

NAMES = [
    f"{kind}{several}"
    for kind in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    for several in ("", "2", "n")
]


def draw(name: str, rng: np.random.Generator) -> tuple[np.ndarray, dict[str, Any]]:
    """Return an operand, and arguments that cut, pad, choose dimensions and normalize."""
    several, two = name[-1] in "2n", name[-1] == "2"
    ndim = int(rng.integers(2 if two else 1, 4))
    shape = tuple(map(int, rng.integers(1, 6, ndim)))
    array = rng.standard_normal(shape).astype(rng.choice(["f4", "f8"]))
    if rng.random() < 0.4:
        array = array + np.asarray(1j, "c8" if array.dtype == "f4" else "c16") * array[::-1]
    given: dict[str, Any] = {}
    if rng.random() < 0.5:
        given["norm"] = str(rng.choice(["forward", "ortho", "backward"]))
    count = 2 if two else int(rng.integers(1, ndim + 1))
    if rng.random() < 0.5:
        axes = [int(k) for k in rng.permutation(ndim)[:count]]
        given["dim"] = axes if several else axes[0] - ndim
    if rng.random() < 0.5:
        points = [int(n) for n in rng.integers(1, 9, count)]
        given["s" if several else "n"] = points if several else points[0]
    return array, given


def nodes(tensor: Any) -> list[str]:
    """Return the names of the nodes behind a tensor, breadth first."""
    found, ahead = [], [tensor.grad_fn]
    while ahead:
        node = ahead.pop(0)
        if node is not None:
            found.append(node.name().rpartition("::")[2])
            ahead += [edge[0] for edge in node.next_functions]
    return found


def run(library: ModuleType, name: str, array: np.ndarray, given: dict[str, Any]) -> Any:
    """Return value, gradients and nodes; or the class and the first line of what is raised."""

    def size(x: Any) -> Any:
        return (x * x.conj()).real if x.is_complex() else x * x

    def plain(x: Any) -> np.ndarray:
        return x.detach().resolve_conj().numpy()

    x = library.from_numpy(array.copy()).requires_grad_()
    try:
        y = getattr(library.fft, name)(x, **given)
    except (RuntimeError, IndexError) as error:
        return type(error), str(error).partition("\n")[0]
    weights = np.cos(np.arange(y.numel())).reshape(tuple(y.shape)).astype(array.real.dtype)
    loss = (size(y) * library.from_numpy(weights)).sum()
    (first,) = library.autograd.grad(loss, x, create_graph=True)
    (second,) = library.autograd.grad(size(first).sum(), x)
    return [plain(y), plain(first), plain(second)], nodes(y)


@pytest.mark.parametrize("name", NAMES)
def test_transforms_are_those_of_pytorch(name: str) -> None:
    """Each by random shapes, dtypes, points, dimensions and normalizations."""
    rng = np.random.default_rng(NAMES.index(name))
    shim = importlib.import_module("functrace.torch")
    for _ in range(12):
        array, given = draw(name, rng)
        expected, found = run(torch, name, array, given), run(shim, name, array, given)
        about = f"{name} of {array.dtype}{array.shape}, {given}"
        assert expected[1] == found[1], about
        if isinstance(expected[0], type):
            assert expected == found, about
            continue
        rounding = 1e-4 if array.dtype in (np.float32, np.complex64) else 1e-10
        for a, b in zip(found[0], expected[0], strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), about
            scale = max(1.0, float(np.abs(b).max(initial=0)))
            np.testing.assert_allclose(a, b, rounding, rounding * scale, err_msg=about)
