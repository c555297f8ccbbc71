"""What is made of arrays, numbers and tensors: which of it shares memory, and belongs to a graph."""

import warnings

import numpy as np


def run(torch, log):
    def sources():
        leaf = torch.ones(2, requires_grad=True)
        return {
            "leaf": leaf,
            "computed": leaf * 2,
            "tensor": torch.ones(2),
            "complex": torch.tensor([1 + 2j, 3j]),
            "matrix": np.ones((2, 3), np.float32),
            "turned": np.ones((2, 3), np.float32).T,
            "row": np.ones(3),
            "integers": np.ones(3, np.int64),
            "of no axes": np.array(2.0),
            "scalar": np.float32(2),
            "list": [1.0, 2.0],
            "number": 3,
        }

    def address(source):
        return source.data_ptr() if isinstance(source, torch.Tensor) else source.__array_interface__["data"][0]

    def made_of(label, make):
        for name, source in sources().items():
            try:
                made = make(source)
            except Exception as error:
                log(f"{label} of {name}: {type(error).__name__}")
                continue
            shares = hasattr(source, "shape") and not isinstance(source, np.generic) and address(made) == address(source)
            log(f"{label} of {name}: {'itself' if made is source else 'shares' if shares else 'copies'}", made)

    with warnings.catch_warnings(action="ignore"):
        for name in ("tensor", "as_tensor", "asarray", "from_numpy"):
            made_of(name, getattr(torch, name))
        for name in ("Tensor", "FloatTensor", "DoubleTensor", "LongTensor"):
            made_of(name, lambda x, name=name: getattr(torch, name)([5.0] if isinstance(x, int) else x))
        made_of("new", lambda x: torch.ones(1).new([5.0] if isinstance(x, int) else x))
        made_of("as_tensor float64", lambda x: torch.as_tensor(x, dtype=torch.float64))
        made_of("asarray float64", lambda x: torch.asarray(x, dtype=torch.float64))
        made_of("asarray with copy", lambda x: torch.asarray(x, copy=True))
        made_of("asarray without graph", lambda x: torch.asarray(x, requires_grad=False))
        made_of("asarray that wants gradients", lambda x: torch.asarray(x, dtype=torch.float64, requires_grad=True))
        for convert in ("double", "float", "cdouble"):
            made_of(convert, lambda x, convert=convert: getattr(torch.as_tensor(x), convert)())
        for name in ("leaf", "matrix", "list"):
            log.error(f"asarray float64 of {name} without copy", lambda x=sources()[name]: torch.asarray(x, copy=False))
        log.error("another dtype", lambda: torch.asarray(np.ones(2), dtype=torch.float32, copy=False))
        for make in (torch.from_numpy, torch.as_tensor, torch.asarray):
            log.error("backwards", lambda make=make: make(np.arange(3.0)[::-1]))

        kept = torch.ones(2, requires_grad=True)
        log("the leaf itself is asked", torch.asarray(kept, requires_grad=False) is kept, kept.requires_grad)
        x = torch.tensor([1 + 2j, 3j])
        x.double().zero_()
        x.real.zero_()
        log("a part is a view, a conversion is not", x)
        array = np.zeros(2, np.float32)
        torch.Tensor(array).add_(1)
        log("the array is written to", array.tolist())
        log("an integer without axes is a size", tuple(torch.Tensor(np.array(2)).shape), tuple(torch.Tensor(2).shape))
