"""Shapes changed in place, of tensors that no graph knows and that share memory with no others."""

from typing import Any


def run(torch: Any, log: Any) -> None:
    """Log what there is to see."""
    for label, change in {
        "squeeze_": lambda x: x.squeeze_(), "squeeze_ 0": lambda x: x.squeeze_(0), "squeeze_ 1": lambda x: x.squeeze_(1),
        "unsqueeze_": lambda x: x.unsqueeze_(1), "transpose_": lambda x: x.transpose_(0, 1), "t_": lambda x: x.t_(),
        "unsqueeze_ 5": lambda x: x.unsqueeze_(5), "squeeze_ 5": lambda x: x.squeeze_(5),
    }.items():  # fmt: skip
        x = torch.tensor([[1.0, 2.0, 3.0]])
        log.error(label, lambda x=x, change=change: change(x) is x)
        log(x, x._version, x.stride(), x._is_view())
        x.mul_(2)
        log(x, x._version)
        leaf = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
        log.error("leaf", lambda leaf=leaf, change=change: change(leaf))
