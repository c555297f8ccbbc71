"""Tensors of a graph that change their shape in place without recording: later passes check the gradients."""

from typing import Any


def run(torch: Any, log: Any) -> None:
    """Log what there is to see."""
    changes = {
        "transpose_": lambda x: x.transpose_(0, 1),
        "t_": lambda x: x.t_(),
        "squeeze_": lambda x: x.squeeze_(),
        "unsqueeze_": lambda x: x.unsqueeze_(0),
        "resize_": lambda x: x.resize_(2, 2),
    }
    for shape in ((2, 3), (1, 4), (4, 1), (3, 2)):
        for name, change in changes.items():
            for mode in (torch.no_grad, torch.inference_mode):
                for leaf in (False, True):
                    for graph in (True, False):
                        attempt(
                            torch,
                            log,
                            f"{shape} {name} {mode.__name__} {leaf} {graph}",
                            shape,
                            change,
                            mode,
                            leaf,
                            graph,
                        )


def attempt(
    torch: Any, log: Any, label: str, shape: Any, change: Any, mode: Any, leaf: bool, graph: bool
) -> None:
    """Change a leaf, or a computed tensor, which has been used or not; then take gradients of both uses."""
    x = torch.ones(shape, requires_grad=True)
    changed = x if leaf else x * 2
    before = (changed + 1).sum() if graph else None
    try:
        with mode():
            change(changed)
        log(
            label,
            tuple(changed.shape),
            changed.requires_grad,
            changed._version,
            changed.is_inference(),
        )
        if before is not None:
            log("  before", torch.autograd.grad(before, x, retain_graph=True))
        weights = torch.arange(float(changed.numel())).reshape(changed.shape)
        (changed * weights).sum().backward()
        log("  after", x.grad)
    except RuntimeError as error:
        log(label, type(error).__name__, str(error))
