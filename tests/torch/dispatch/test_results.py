"""What `functrace.torch` does with ``out=`` where PyTorch leaves open what comes of it: it refuses."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import functrace.torch as torch
from functrace.errors import UnsupportedFunctionError

MOVING = (
    "torch.sum(x, 0, out=o)", "torch.mean(x, 0, out=o)", "torch.prod(x, 0, out=o)",
    "torch.amax(x, 0, out=o)",
    "torch.mm(x, x, out=o)", "torch.matmul(x, x, out=o)", "torch.addmm(x, x, x, out=o)",
    "torch.mv(x, x[0], out=o)",
    "torch.cat([x, x], out=o)", "torch.stack([x], out=o)", "torch.max(x, 0, out=(o, i))",
    "torch.sort(x, 0, out=(o, i))",
    "torch.index_select(x, 0, i, out=o)", "torch.gather(x, 0, j, out=o)",
    "torch.median(x, 0, out=(o, i))",
)  # fmt: skip


@pytest.mark.parametrize("expression", MOVING)
@pytest.mark.parametrize("part", ["x", "x.t()", "x[1:]", "x.detach()", "x[:, :-1]"])
def test_out_that_overlaps_a_moved_operand_raises(expression: str, part: str) -> None:
    x = torch.tensor(np.arange(9.0).reshape(3, 3))
    names = {
        "torch": torch,
        "x": x,
        "i": torch.tensor([0, 1]),
        "j": torch.zeros(3, 3, dtype=torch.int64),
    }
    with pytest.raises(RuntimeError, match=r"Please clone\(\) the tensor"):
        eval(expression, names | {"o": eval(part, names)})
    assert x.tolist() == np.arange(9.0).reshape(3, 3).tolist()
    assert x._version == 0


@pytest.mark.parametrize("name", ["sin", "neg", "exp", "logical_not"])
def test_overlapping_out_columns_raise(name: str) -> None:
    x = torch.tensor(np.arange(9.0).reshape(3, 3))
    with pytest.raises(RuntimeError, match=r"Please clone\(\) the tensor"):
        getattr(torch, name)(x[:, :-1], out=x[:, 1:])
    torch.neg(x[:, 0], out=x[:, 1])
    assert x[:, 1].tolist() == [0.0, -3.0, -6.0]


def test_resizing_out_over_an_operand_raises() -> None:
    x = torch.tensor(np.arange(9.0).reshape(3, 3))
    for part in (x[:0], x[0, 1:1], x[1:, :0]):
        with pytest.raises(RuntimeError, match=r"Please clone\(\) the tensor"):
            torch.mul(x.T, 2, out=part)
    assert x.tolist() == np.arange(9.0).reshape(3, 3).tolist()


def test_a_part_does_not_grow_beyond_the_memory_of_the_whole() -> None:
    whole = torch.zeros(4)
    with pytest.raises(UnsupportedFunctionError, match="needs more memory"):
        torch.cat([torch.ones(3), torch.ones(3)], out=whole[:0])
    array = np.zeros(2)
    with (
        pytest.raises(UnsupportedFunctionError, match="needs more memory"),
        pytest.warns(UserWarning, match="resized"),
    ):
        torch.sin(torch.ones(3, dtype=torch.float64), out=torch.from_numpy(array))


@pytest.mark.parametrize(
    ("part", "written"),
    [
        ("x[3:3]", [18, 19]),
        ("x[:, 5:5]", [5, 6]),
        ("x.narrow(1, 2, 0)", [2, 3]),
        ("x[:0]", [0, 1]),
        ("x.t()[2:2]", [2, 3]),
    ],
)
def test_an_empty_part_grows_where_it_begins(part: str, written: list[int]) -> None:
    x = torch.zeros(4, 6)
    empty = eval(part, {"x": x})
    with warnings.catch_warnings(action="ignore"):
        torch.add(torch.ones(2), 1, out=empty)
    assert x.reshape(-1).nonzero().reshape(-1).tolist() == written
    assert empty.storage_offset() == written[0]


def test_an_empty_part_at_the_end_cannot_grow() -> None:
    x = torch.zeros(4, 6)
    with pytest.raises(UnsupportedFunctionError, match="needs more memory"):
        torch.add(torch.ones(2), 1, out=x[1:][2:][1:])
    assert x.sum().item() == 0.0


def test_resized_out_has_the_strides_of_the_result() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    for out in (torch.empty(0), torch.zeros(4, 5)):
        with warnings.catch_warnings(action="ignore"):
            torch.add(x.t(), 1, out=out)
        assert (out.stride(), out.tolist()) == ((1, 3), (x.t() + 1).tolist())
