"""scatter_reduce and index_reduce under functrace's transforms, and against a loop."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.errors import UnsupportedFunctionError

REDUCE: dict[str, Any] = {
    "sum": np.sum,
    "prod": np.prod,
    "mean": np.mean,
    "amax": np.max,
    "amin": np.min,
}


@pytest.mark.parametrize(
    ("reduce", "includes", "axis"), [*itertools.product(REDUCE, (True, False), (0, 1, 2))]
)
def test_scatter_reduce_is_a_loop(reduce: str, includes: bool, axis: int) -> None:
    draws = np.random.default_rng(axis)
    x, source = draws.normal(size=(3, 4, 2)), draws.normal(size=(4, 5, 3))
    index = draws.integers(
        0, x.shape[axis], size=tuple(n if k == axis else 2 for k, n in enumerate(source.shape))
    )
    expected = x.copy()
    met: dict[tuple[int, ...], list[float]] = {}
    for place in np.ndindex(index.shape):
        target = tuple(int(index[place]) if k == axis else n for k, n in enumerate(place))
        met.setdefault(target, [x[target]] if includes else []).append(source[place])
    for target, values in met.items():
        expected[target] = REDUCE[reduce](values)
    leaf, given = torch.tensor(x, requires_grad=True), torch.tensor(source, requires_grad=True)
    made = leaf.scatter_reduce(axis, torch.tensor(index), given, reduce, include_self=includes)
    assert np.allclose(made.detach().numpy(), expected)
    (made * made).sum().backward()

    def loss(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        found = x.scatter_reduce(axis, torch.tensor(index), source, reduce, include_self=includes)
        return (found * found).sum()

    first, second = torch.func.grad(loss, (0, 1))(leaf.detach(), given.detach())
    assert np.allclose(first.numpy(), leaf.grad.numpy())
    assert np.allclose(second.numpy(), given.grad.numpy())


def test_gather_has_no_sparse_gradients() -> None:
    """The option is accepted where no gradient is recorded, and refused with the way out."""
    x, index = torch.tensor([1.0, 2.0]), torch.tensor([1, 1])
    assert torch.gather(x, 0, index, sparse_grad=True).tolist() == [2.0, 2.0]
    x.requires_grad_()
    x.gather(0, index, sparse_grad=False).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0, 2.0]
    with torch.no_grad():
        x.gather(0, index, sparse_grad=True)
    with pytest.raises(UnsupportedFunctionError, match="no sparse gradients"):
        x.gather(0, index, sparse_grad=True)
    with pytest.raises(TypeError, match="argument 'sparse_grad' must be bool, not int"):
        torch.gather(x, 0, index, sparse_grad=1)  # type: ignore[arg-type]


def test_gather_takes_one_element_as_one_dimension() -> None:
    """As PyTorch 2.13: a tensor or index without dimensions goes with one of one dimension."""
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    found = torch.gather(x, 0, torch.tensor(1))
    assert found.shape == () and found.item() == 2.0
    (slope,) = torch.autograd.grad(found, x)
    assert slope.tolist() == [0.0, 1.0, 0.0]
    one = torch.tensor(5.0, requires_grad=True)
    several = torch.gather(one, -1, torch.tensor([0, 0]))
    assert several.tolist() == [5.0, 5.0]
    (slope,) = torch.autograd.grad(several.sum(), one)
    assert slope.shape == () and slope.item() == 2.0
    assert torch.gather(one, 0, torch.tensor([], dtype=torch.int64)).shape == (0,)
    with pytest.raises(RuntimeError, match="index 5 is out of bounds for dimension 0 with size 3"):
        torch.gather(x, 0, torch.tensor(5))
    with pytest.raises(RuntimeError, match="index 1 is out of bounds for dimension 0 with size 1"):
        torch.gather(one, 0, torch.tensor([1]))
    for data, index in ((torch.ones(2, 2), torch.tensor(1)), (one, torch.tensor([[0]]))):
        with pytest.raises(RuntimeError, match="same number of dimensions"):
            torch.gather(data, 0, index)
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    mapped = torch.func.vmap(lambda row, k: torch.gather(row, 0, k))(rows, torch.tensor([1, 0]))
    assert mapped.tolist() == [2.0, 3.0]
