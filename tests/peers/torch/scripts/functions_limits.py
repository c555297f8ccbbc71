"""Functions at the limits of what they take: negative orders, empty operands, positions outside, numbers of other kinds."""

from __future__ import annotations

from typing import Any


def run(torch: Any, log: Any) -> None:
    def each(name: str, *calls: Any) -> None:
        for k, call in enumerate(calls):
            try:
                log(f"{name} {k}", call())
            except (RuntimeError, TypeError, IndexError, ValueError) as error:
                log(f"{name} {k}: {type(error).__name__}: {str(error).splitlines()[0]}")

    infinite = float("inf")
    for values in ([0.0, 2.0, -3.0], [infinite, 2.0, 0.0], [infinite, infinite], [0.0, 0.0], []):
        for order in (-1, -2.5, 0.5, 3, infinite, -infinite):
            x = torch.tensor(values, dtype=torch.float64, requires_grad=True)
            each(f"norm {values} {order}", lambda x=x, order=order: x.norm(order))
    for order in (-1, -2.5):
        x = torch.tensor([[0.0, 2.0], [1.0, -4.0]], dtype=torch.float64, requires_grad=True)
        x.norm(order, 1).sum().backward()
        log(f"gradient of norm {order}", x.grad)
    empty = torch.zeros(2, 0)
    each("norm of none", lambda: empty.norm(-1, 1), lambda: empty.norm(-1, (0, 1)), lambda: empty.norm(infinite, -1),
         lambda: empty.norm(-1, 0), lambda: empty.norm(2, 1))  # fmt: skip

    n = torch.arange(4)
    for start, length in ((-3, 3), (2, 3), (-5, 1), (4, 1), (5, 0), (4, 0), (-1, 2), (0, -1), (-4, 4)):
        each(f"narrow {start} {length}", lambda start=start, length=length: n.narrow(0, start, length))
    each("narrow", lambda: torch.tensor(1.0).narrow(0, 0, 1), lambda: n.narrow(0, torch.tensor(-2), 2))
    each("narrow of a leaf", lambda: torch.ones(3, requires_grad=True).narrow(0, -2, 2).sum())

    i = torch.tensor([0, 0])
    for alpha in (2, 2.5, True):
        each(f"index_add {alpha}", lambda alpha=alpha: n.index_add(0, i, n[1:3], alpha=alpha),
             lambda alpha=alpha: n.float().index_add(0, i, n[1:3].float(), alpha=alpha),
             lambda alpha=alpha: n.clone().index_add_(0, i, n[1:3], alpha=alpha))  # fmt: skip

    none = torch.zeros(0, requires_grad=True)
    x = torch.ones(2, 1, requires_grad=True)
    each("cat", lambda: torch.cat([none.detach(), n]), lambda: torch.cat([torch.zeros(0), n.reshape(2, 2)], 1),
         lambda: torch.cat([none.detach(), torch.zeros(0, dtype=torch.int64)]), lambda: torch.cat([none, torch.tensor(1.0)]),
         lambda: torch.cat([none, torch.ones(2), torch.ones(2, 2)]), lambda: torch.cat([none, n]).requires_grad)  # fmt: skip
    joined = torch.cat([none, x], 1)
    log("edges", [node is not None for node, _ in joined.grad_fn.next_functions])
    joined.sum().backward()
    log("gradients", none.grad, x.grad)

    def assigned(value: Any) -> Any:
        leaf = torch.ones(2, requires_grad=True)
        leaf.data = value
        return leaf

    each("data", lambda: assigned(3), lambda: assigned(torch.ones(2, dtype=torch.int64)), lambda: assigned(torch.zeros(3)))
    each("repeat", lambda: n.repeat(-1), lambda: n.repeat(2, -3), lambda: n.repeat(0))
    each(
        "roll",
        lambda: torch.tensor(1.0).roll(1, 0),
        lambda: torch.tensor(1.0).roll(1, -1),
        lambda: torch.tensor(1.0).roll(1),
    )
