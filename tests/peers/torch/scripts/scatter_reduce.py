"""scatter_reduce and index_reduce: values, gradients, what is saved and in which order, dtypes, refusals."""


def run(torch, log):
    a = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
    s = torch.tensor([[2.0, 2.0, 7.0], [1.0, 0.0, 6.0]], requires_grad=True)
    places = torch.tensor([[0, 0, 2], [1, 1, 2]])
    line = torch.tensor([0, 2, 0])
    weights = torch.arange(1.0, 7.0).reshape(2, 3)
    torch.index_reduce(a, 1, line, s, "amax")
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for include_self in (True, False):
            for name, index in (("scatter_reduce", places), ("index_reduce", line)):
                if name == "index_reduce" and reduce == "sum":
                    continue
                log(name, reduce, include_self)
                packed = []
                with torch.autograd.graph.saved_tensors_hooks(lambda x, p=packed: (p.append(x.tolist()), x)[1], lambda x: x):
                    made = getattr(torch, name)(a, 1, index, s, reduce, include_self=include_self)
                log("  made", made, [type(n).__name__ for n, _ in made.grad_fn.next_functions], packed)
                node = made.grad_fn
                log("  fields", node._saved_dim, node._saved_reduce, node._saved_include_self, node._saved_index)
                if not (reduce == "prod" and name == "index_reduce"):  # its backward warns, too
                    log("  gradients", *torch.autograd.grad((made * weights).sum(), [a, s]))
                x = a * 1
                log("  in place", getattr(x, f"{name}_")(1, index, s, reduce, include_self=include_self), x._version)
    log("other shapes")
    ones = torch.ones(2, 3)
    log(ones.scatter_reduce(0, torch.tensor([[0, 0]]), torch.full((2, 2), 4.0), "amax"))
    log(torch.ones(()).scatter_reduce(0, torch.tensor(0), torch.full((), 4.0), "amax"))
    log(torch.ones(()).index_reduce(0, torch.tensor(0), torch.full((), 4.0), "amax"))
    log(torch.ones(2).scatter_reduce(0, torch.tensor([0, 0]), torch.tensor([float("nan"), 1.0]), "amax"))
    log(torch.ones(2).scatter_reduce(0, torch.tensor([], dtype=torch.int64), torch.ones(0), "amax"))
    log(torch.tensor([-5, 5]).scatter_reduce(0, torch.tensor([0, 0, 1]), torch.tensor([-2, -4, 8]), "mean"))
    log(torch.tensor([-5, 5]).index_reduce(0, torch.tensor([0, 0, 1]), torch.tensor([-2, -4, 8]), "mean"))
    log(torch.tensor([True, False]).scatter_reduce(0, torch.tensor([0, 0, 1]), torch.tensor([True, False, True]), "amax"))
    log(torch.tensor([5, 3]).scatter_reduce(0, torch.tensor([0, 0, 1]), torch.tensor([2, 4, 8]), "amin", include_self=False))
    log("refused")
    log.error("reduce", lambda: a.scatter_reduce(1, places, s, "foo"))
    log.error("index reduce", lambda: a.index_reduce(1, line, s, "sum"))
    log.error("dtype", lambda: a.scatter_reduce(1, places, s.double(), "amax"))
    log.error("rank", lambda: a.scatter_reduce(1, places[0], s, "amax"))
    log.error("range", lambda: a.scatter_reduce(1, places + 2, s, "amax"))
    log.error("size", lambda: a.scatter_reduce(1, torch.zeros(3, 3, dtype=torch.int64), s, "amax"))
    log.error("index dtype", lambda: a.index_reduce(1, line, s.double(), "amax"))
    log.error("index rank", lambda: a.index_reduce(1, places, s, "amax"))
    log.error("index count", lambda: a.index_reduce(1, line[:2], s, "amax"))
    log.error("index range", lambda: a.index_reduce(1, line + 2, s, "amax"))
    log.error("index kind", lambda: a.index_reduce(1, line.float(), s, "amax"))
    log.error("index shape", lambda: ones.index_reduce(0, torch.tensor([0]), torch.ones(1, 2), "amax"))
