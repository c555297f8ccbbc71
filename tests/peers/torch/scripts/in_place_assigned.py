"""What may be assigned to a part of a tensor, and what may not be written because it is read from the same memory."""

import warnings

import numpy as np


def run(torch, log):
    def tried(label, attempt):
        try:
            log(label, attempt())
        except Exception as error:
            log(f"{label}: {type(error).__name__}: {error}")

    def assigned(x, index, value):
        x[index] = value
        return x

    indices = {"all": slice(None), "one": 0, "positions": torch.tensor([0]), "mask": torch.tensor([True, False, True])}
    indices |= {"everything": ..., "new": None}
    values = (
        1j,
        1 + 0j,
        2,
        1e40,
        float("inf"),
        True,
        np.float64(2),
        np.array(2.0),
        np.array([2.0, 3, 4]),
        [1.0],
        (1.0,),
        None,
    )
    for value in (*values, "a"):
        for name, index in indices.items():
            tried(f"{value!r} at {name}", lambda index=index, value=value: assigned(torch.zeros(3), index, value))
    for dtype, value in ((torch.int64, 1j), (torch.bool, 1j), (torch.int64, float("inf")), (torch.uint8, 300)):
        for name, index in indices.items():
            tried(f"{value} of {dtype} at {name}", lambda d=dtype, i=index, v=value: assigned(torch.zeros(3, dtype=d), i, v))

    i = torch.tensor([0, 1, 2])
    for value in (1j, 1e40, 300):
        for x in (torch.zeros(3), torch.zeros(3, dtype=torch.uint8)):
            for name in ("scatter", "scatter_", "index_fill"):
                tried(f"{name} {value} {x.dtype}", lambda x=x, name=name, value=value: getattr(x.clone(), name)(0, i, value))
            tried(f"fill {value} {x.dtype}", lambda x=x, value=value: x.clone().fill_(value))
            tried(f"masked_fill {value} {x.dtype}", lambda x=x, value=value: x.masked_fill(x == 0, value))

    writing = {
        "scatter_": lambda x, y: x.scatter_(0, i, y),
        "scatter_add_": lambda x, y: x.scatter_add_(0, i, y),
        "scatter_reduce_": lambda x, y: x.scatter_reduce_(0, i, y, "sum"),
        "index_add_": lambda x, y: x.index_add_(0, i, y),
        "index_copy_": lambda x, y: x.index_copy_(0, i, y),
        "index_reduce_": lambda x, y: x.index_reduce_(0, i, y, "prod"),
        "x[i] = y": lambda x, y: assigned(x, i, y),
        "copy_": lambda x, y: x.copy_(y),
        "masked_fill_": lambda x, y: x.masked_fill_(y.bool(), 1),
    }
    with warnings.catch_warnings(action="ignore"):
        for name, write in writing.items():
            for how, shown in (("itself", lambda x: x), ("an alias", lambda x: x.detach()), ("a copy", lambda x: x.clone())):
                x = torch.arange(3.0)
                tried(f"{name} from {how}", lambda x=x, write=write, shown=shown: write(x, shown(x)))
            for how, begin, end, step in (("further on", 1, 4, 1), ("beside", 3, 6, 1), ("between", 1, 6, 2)):
                x = torch.arange(6.0)
                tried(
                    f"{name} from {how}",
                    lambda x=x, w=write, s=slice(begin, end, step): w(x[: s.stop - 1 : s.step][:3], x[s]),
                )
        for name in ("scatter_", "index_fill_"):
            x = torch.arange(3)
            tried(f"{name} at itself", lambda x=x, name=name: getattr(x, name)(0, x, 2))
        x = torch.arange(3)
        tried("assigned at itself", lambda x=x: assigned(x, x, torch.tensor([1, 1, 1])))
        tried("added at itself", lambda x=x: x.index_add_(0, x, torch.tensor([1, 1, 1])))
    tried("positions of a scalar", lambda: torch.tensor(1.0).index_select(0, torch.tensor([0, 0])))
    tried("a source of another rank", lambda: torch.zeros(3).index_copy_(0, torch.tensor([0]), torch.ones(1, 2)))
