"""Hooks of tensors and nodes: what they may change, how they are taken away. (Their order: the
parity scripts.)
"""

from __future__ import annotations

import functrace.torch as torch


def test_hooks_chain_and_can_be_removed() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    first = y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: g + 1)
    z = y.sum()
    z.backward(retain_graph=True)
    assert x.grad.tolist() == [33.0, 33.0]
    first.remove()
    del x.grad
    z.backward(retain_graph=True)
    assert x.grad.tolist() == [6.0, 6.0]
    with y.register_hook(lambda g: g * 0):
        del x.grad
        z.backward(retain_graph=True)
        assert x.grad.tolist() == [0.0, 0.0]
    del x.grad
    z.backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_node_hooks_replace_gradients() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    y.grad_fn.register_prehook(lambda given: (given[0] * 2,))
    y.grad_fn.register_hook(lambda made, given: (made[0] + given[0], None))
    y.sum().backward()
    assert x.grad.tolist() == [8.0, 8.0]


def test_hooks_are_part_of_a_recorded_backward() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    y = x * x
    y.register_hook(lambda g: g * x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x)
    assert g.item() == 8.0 and h.item() == 8.0  # 2 x · x, and its derivative 4 x


def test_a_hook_that_removes_itself_runs_once() -> None:
    x = torch.ones(2, requires_grad=True)
    seen = []
    handle = x.register_hook(lambda g: (seen.append(1), handle.remove())[0])
    for _ in range(2):
        (x * 1).sum().backward()
    assert seen == [1]


def test_post_accumulate_hook_can_clear_the_gradient() -> None:
    x = torch.ones(2, requires_grad=True)

    def step(p: torch.Tensor) -> None:
        with torch.no_grad():
            p -= 0.5 * p.grad
        p.grad = None

    x.register_post_accumulate_grad_hook(step)
    (x * 2).sum().backward()
    assert x.tolist() == [0.0, 0.0] and x.grad is None


def test_hook_receives_the_sum_of_all_paths_once() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x * 1
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    (y + y * 2 + y.exp() * 0).sum().backward()
    assert seen == [[3.0, 3.0]]
