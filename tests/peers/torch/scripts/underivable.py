"""Operations whose results require grad, and whose derivative PyTorch does not have."""

from typing import Any


def run(torch: Any, log: Any) -> None:
    """Log what there is to see."""
    x = torch.tensor([[1.0, 2.0], [1.0, 2.0], [3.0, 0.0]], requires_grad=True)
    calls = {
        "unique": lambda x: torch.unique(x),
        "counted": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        "rows": lambda x: torch.unique(x, dim=0),
        "consecutive": lambda x: torch.unique_consecutive(x, return_counts=True),
        "consecutive rows": lambda x: x.unique_consecutive(dim=0),
        "method": lambda x: x.unique(sorted=False).sort().values,
    }
    for name, call in calls.items():
        found = call(x)
        every = found if isinstance(found, tuple) else (found,)
        log(name, [(type(t.grad_fn).__name__, t.requires_grad) for t in every])
        log.error("gradient", lambda y=every[0]: torch.autograd.grad(y.sum(), x))
        log.error("beside", lambda y=every[0]: (y.sum() + x.sum()).backward())
        with torch.no_grad():
            found = call(x)
        log("no_grad", (found[0] if isinstance(found, tuple) else found).requires_grad)
    log("integers", torch.unique(torch.tensor([2, 1, 2])), torch.unique(x.detach()).requires_grad)
