"""Strides and offsets of chains of views without elements, and along dimensions of size 1."""

import random
from typing import Any


def run(torch: Any, log: Any) -> None:
    """Log what there is to see."""
    choose = random.Random(7)
    for _ in range(150):
        x = torch.zeros([choose.choice([0, 1, 2, 3]) for _ in range(choose.randint(1, 4))])
        for _ in range(choose.randint(1, 4)):
            name, view = step(choose, x)
            try:
                x = view(x)
            except (RuntimeError, IndexError) as error:
                log(name, type(error).__name__)
                break
        log(tuple(x.shape), x.stride(), x.storage_offset(), x.is_contiguous(), x.detach().stride())
        if not x.numel():
            log(torch.empty_like(x).stride(), x.clone().stride(), torch.zeros_like(x).stride())


def step(choose: random.Random, x: Any) -> tuple[str, Any]:
    """Choose a view of a tensor, which may be impossible."""
    rank = x.dim()
    axis = choose.randrange(-rank, rank) if rank else 0
    other = choose.randrange(-rank, rank) if rank else 0
    order = choose.sample(range(rank), rank)
    place = choose.randint(-rank - 1, rank)
    begin, end, stride, size = (choose.randint(0, 3) for _ in range(4))
    wanted = [choose.choice([0, 2, n]) if n == 1 else n for n in x.shape]
    wanted = [choose.choice([0, 1, 2])] * choose.randint(0, 1) + wanted
    shape = [choose.choice([0, 1, 2, 3]) for _ in range(choose.randint(1, 4))]
    stride = max(stride, 1)
    return choose.choice(
        [
            ("transpose", lambda x: x.transpose(axis, other)),
            ("permute", lambda x: x.permute(order)),
            ("unsqueeze", lambda x: x.unsqueeze(place)),
            ("squeeze", lambda x: x.squeeze()),
            ("select", lambda x: x.select(axis, 0)),
            ("narrow", lambda x: x.narrow(axis, begin, size)),
            ("slice", lambda x: x[begin:end:stride]),
            ("second slice", lambda x: x[:, begin:end:stride]),
            ("expand", lambda x: x.expand(wanted)),
            ("view", lambda x: x.view(shape)),
            ("flatten", lambda x: x.flatten()),
            ("unfold", lambda x: x.unfold(axis, min(size, 2), stride)),
            ("diagonal", lambda x: x.diagonal(begin - 1, axis, other)),
            ("new axis", lambda x: x[None, ..., None]),
        ]
    )
