"""Quotients that are rounded, and tensors without finite numbers in print."""

from typing import Any


def run(torch: Any, log: Any) -> None:
    """Log what there is to see."""
    a = torch.tensor([7.0, -7.0, 5.5], requires_grad=True)
    b = torch.tensor([2.0, 2.0, -2.0], requires_grad=True)
    i, j = torch.tensor([7, -7, 5]), torch.tensor([2, 2, -2])
    flag = torch.tensor([True])
    small = torch.tensor([200, 7], dtype=torch.uint8)
    pairs = (
        (a, b),
        (a, 2.0),
        (a, 2),
        (i, j),
        (i, 2),
        (i, 2.0),
        (i, b),
        (i, 0.0),
        (i, 0),
        (a, 0.0),
        (flag, flag),
        (small, 3),
        (small, i[:1]),
    )
    for mode in (None, "trunc", "floor"):
        for x, y in pairs:
            attempt(log, f"{mode}", lambda x=x, y=y, mode=mode: torch.div(x, y, rounding_mode=mode))
        attempt(
            log,
            "complex",
            lambda mode=mode: torch.div(torch.tensor([1 + 2j]), 2, rounding_mode=mode),
        )
        for x, y in ((a, b), (a, 2.0)):
            quotient = torch.div(x, y, rounding_mode=mode)
            node = quotient.grad_fn
            log("node", type(node).__name__, node._saved_rounding_mode)
            wanted = (x, y) if y is b else (x,)
            log("gradients", torch.autograd.grad(quotient.sum(), wanted))
        log("in place", a.detach().clone().div_(b.detach(), rounding_mode=mode))
        attempt(log, "integers in place", lambda mode=mode: i.clone().div_(j, rounding_mode=mode))
        attempt(
            log,
            "out",
            lambda mode=mode: torch.div(
                i, j, rounding_mode=mode, out=torch.empty(3, dtype=torch.int64)
            ),
        )
        log("divide", torch.divide(a, b, rounding_mode=mode), a.divide(2, rounding_mode=mode))
    log.error("unknown", lambda: torch.div(a, b, rounding_mode="ceil"))
    infinite, missing = float("inf"), float("nan")
    for values in (
        [infinite, -infinite], [0.0, infinite], [missing, -infinite, 0.0], [[0.0, missing], [-infinite, infinite]],
        [1.0, infinite], [-0.0, 0.0], [1.5, missing, -infinite], [[missing, missing], [1000.0, 2.0]],
    ):  # fmt: skip
        log(repr(torch.tensor(values)), repr(torch.tensor(values, dtype=torch.float16)))


def attempt(log: Any, label: str, function: Any) -> None:
    """Log a result, or the error."""
    try:
        log(label, function())
    except (RuntimeError, NotImplementedError) as error:
        log(label, type(error).__name__, str(error))
