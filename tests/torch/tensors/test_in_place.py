"""In-place operations and views: random sequences against the same program without them. (Errors:
the parity scripts.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import functrace.torch as torch
from tests.sampling import examples

VIEWS = {
    "whole": lambda x: x,
    "row": lambda x: x[1],
    "column": lambda x: x[:, 0],
    "block": lambda x: x[0:1, 1:],
    "transposed": lambda x: x.t()[1:],
    "flat": lambda x: x.view(-1)[1:4] if isinstance(x, torch.Tensor) else x.reshape(-1)[1:4],
}
CHANGES = {
    "mul": (lambda v, s: v.mul_(s), lambda v, s: v * s),
    "add": (lambda v, s: v.add_(s), lambda v, s: v + s),
    "sin": (lambda v, s: v.sin_(), lambda v, s: np.sin(v)),
    "tanh": (lambda v, s: v.tanh_(), lambda v, s: np.tanh(v)),
    "copy": (lambda v, s: v.copy_(s), lambda v, s: 0 * v + s),
    "square": (lambda v, s: v.pow_(2), lambda v, s: v**2),
    "fill": (lambda v, s: v.fill_(0.5), lambda v, s: 0 * v + 0.5),
}


@examples(80)
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(VIEWS)), st.sampled_from(sorted(CHANGES))),
        min_size=1,
        max_size=5,
    )
)
def test_random_writes_have_the_derivatives_of_their_meaning(steps: list[tuple[str, str]]) -> None:
    # PyTorch refuses to go back through a result that it saved and that was overwritten later: the
    # parity scripts show it.
    assume(("whole", "tanh") not in steps)
    start, factor = np.array([[0.3, -0.5, 0.8], [0.1, 0.6, -0.2]]), np.array(0.7)

    def meaning(a: Any, s: Any) -> float:
        x = a * 0.5
        kept = x[0]
        for view, change in steps:
            shape = VIEWS[view](x.T.T if view != "transposed" else NumpyTransposed(x))
            shape[...] = CHANGES[change][1](shape, s)
        return float((x * x).sum() + kept.sum())

    a = torch.tensor(start, requires_grad=True)
    s = torch.tensor(factor, requires_grad=True)
    x = a * 0.5
    kept = x[0]
    for view, change in steps:
        CHANGES[change][0](VIEWS[view](x), s)
    out = (x * x).sum() + kept.sum()
    assert out.item() == pytest.approx(meaning(start, factor), rel=1e-12)
    ga, gs = torch.autograd.grad(out, [a, s], allow_unused=True, materialize_grads=True)
    for i in np.ndindex(2, 3):
        ends = []
        for sign in (1, -1):
            moved = start.copy()
            moved[i] += sign * 1e-6
            ends.append(meaning(moved, factor))
        assert ga[i].item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)
    ends = [meaning(start, factor + sign * 1e-6) for sign in (1, -1)]
    assert gs.item() == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5, abs=1e-7)


class NumpyTransposed:
    """Gives an array the method ``t`` that tensors have."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def t(self) -> Any:
        return self.array.T


def test_failed_write_changes_nothing() -> None:
    x = torch.ones(2, requires_grad=True) * 1
    node, version = x.grad_fn, x._version
    for attempt in (lambda: x.add_(torch.ones(3, 2)), lambda: x.add_(torch.ones(3))):
        with pytest.raises(RuntimeError):
            attempt()
    assert x.grad_fn is node and x._version == version and x.tolist() == [1.0, 1.0]


def test_saved_operand_that_was_overwritten_raises() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 1
    z = y.sin()
    y.mul_(2)
    with pytest.raises(
        RuntimeError,
        match=r"has been modified by an inplace operation: \[torch.FloatTensor \[2\]\]",
    ):
        z.sum().backward()


def test_a_result_without_readers_may_be_overwritten() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x + 1
    y.mul_(3)
    y.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]


def test_no_grad_update_of_a_leaf_keeps_it_a_leaf() -> None:
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        x -= 0.25
        x[0] = 5.0
    assert x.is_leaf and x.requires_grad and x.tolist() == [5.0, 0.75] and x._version == 2


@pytest.mark.parametrize("view", ["t", "permute", "view", "unsqueeze"])
def test_zeroing_all_of_a_differentiable_tensor_through_a_view(view):
    leaf = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    a = leaf * 2
    views = {
        "t": lambda: a.t(),
        "permute": lambda: a.permute(1, 0),
        "view": lambda: a.view(-1),
        "unsqueeze": lambda: a.unsqueeze(0),
    }
    views[view]().zero_()
    (a * leaf).sum().backward()
    np.testing.assert_array_equal(a.detach().numpy(), np.zeros((2, 3)))
    np.testing.assert_array_equal(leaf.grad.numpy(), np.zeros((2, 3)))


def test_the_sum_of_a_number_has_memory_of_its_own():
    for total in (lambda t: t.sum(), lambda t: t.sum(0), lambda t: t.sum(-1, keepdim=True)):
        w = torch.tensor(3.0, requires_grad=True)
        s = total(w)
        s += 1.5
        assert w.item() == 3.0 and s.item() == 4.5
        y = w * 2
        t = total(y)
        z = y * y
        t.zero_()
        z.backward()
        assert w.grad.item() == 24.0


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("step", [2, 3, 4, 5, 8])
def test_strided_elements_are_negated_in_place(dtype: str, step: int) -> None:
    """NumPy 2.4.6 negates other elements, in place, where they lie 16 or 64 bytes apart."""
    array = np.arange(1, 41, dtype=dtype)
    expected = [-n if k % step == 0 else n for k, n in enumerate(array.tolist())]
    torch.from_numpy(array)[::step].neg_()
    assert array.tolist() == expected
