"""In-place views, as_strided, resize_, set_ and storages: shapes, versions, nodes, view relations, gradients, refusals."""

OPERATIONS = {
    "t_": lambda x: x.t_(),
    "transpose_": lambda x: x.transpose_(0, 1),
    "swapaxes_": lambda x: x.swapaxes_(0, -1),
    "swapdims_": lambda x: x.swapdims_(0, 1),
    "squeeze_": lambda x: x.squeeze_(),
    "squeeze_(0)": lambda x: x.squeeze_(0),
    "squeeze_((0, 1))": lambda x: x.squeeze_((0, 1)),
    "unsqueeze_": lambda x: x.unsqueeze_(1),
    "as_strided_": lambda x: x.as_strided_((2,), (1,), 0),
    "resize_": lambda x: x.resize_(3, 1),
    "resize_ same": lambda x: x.resize_(1, 3),
    "detach_": lambda x: x.detach_(),
}


def names(node):
    """Return the names of a node and of those that it leads to."""
    return None if node is None else [type(node).__name__, *[names(n) for n, _ in node.next_functions]]


def facts(log, label, x):
    """Log what is known of a tensor."""
    log(f"  {label}", tuple(x.shape), x._version, x._is_view(), x.requires_grad, names(x.grad_fn), x.detach())


def run(torch, log):
    a = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)

    def weighed(x):
        return (x * torch.arange(1.0, 1 + x.numel()).reshape(x.shape)).sum()

    kinds = {
        "constant": lambda: (torch.ones(1, 3),),
        "leaf": lambda: (torch.ones(1, 3, requires_grad=True),),
        "computed": lambda: (a * 2,),
        "view of a constant": lambda: (lambda b: (b[0], b))(torch.ones(2, 1, 3)),
        "view of a leaf": lambda: (lambda b: (b[0], b))(torch.ones(2, 1, 3, requires_grad=True)),
        "view": lambda: (lambda b: (b[0], b))(a.expand(2, 1, 3) * 2),
        "one of several": lambda: ((a.expand(2, 1, 3) * 2).unbind(0)[0],),
        "base": lambda: (lambda b: (b, b[0], b[:, 1]))(a * 2),
        "base without gradients": lambda: (lambda b: (b, b[0], b[:, 1]))(torch.ones(1, 3)),
    }
    for name, operation in OPERATIONS.items():
        for kind, make in kinds.items():
            x, *others = make()
            try:
                log(f"{name} {kind}", operation(x) is x)
            except RuntimeError as error:
                log(f"{name} {kind}: {error}")
                continue
            facts(log, "x", x)
            for other in others:
                facts(log, "other", other)
            if x.requires_grad and not x.is_leaf:
                log("  gradient", *torch.autograd.grad(weighed(x), [a], retain_graph=True))
            with torch.no_grad() if x.is_leaf and x.requires_grad else torch.enable_grad():
                x.mul_(2)
            facts(log, "written", x)
            for other in others:
                facts(log, "other", other)
            if x.requires_grad and not x.is_leaf:
                log("  gradients", *[torch.autograd.grad(weighed(y), [a], retain_graph=True)[0] for y in (x, *others)])
            if others and "detach" not in name:
                others[-1].add_(1)
                facts(log, "through the other", x)

    log("fields of nodes")
    for made in (
        (a * 2).transpose_(0, -1), (a * 2).unsqueeze_(-1), (a * 2).squeeze_(), (a * 2).squeeze_(0), (a * 2).squeeze_((0,)),
        (a * 2).as_strided((2,), (1,)), torch.as_strided(a * 2, (2,), (1,), 1), (a * 2).t_(),
    ):  # fmt: skip
        fields = [n for n in dir(made.grad_fn) if n.startswith("_saved_")]
        log(type(made.grad_fn).__name__, *[(n, getattr(made.grad_fn, n)) for n in fields])

    log("refused")
    cube = torch.ones(2, 2, 2)
    log.error("t_", lambda: cube.t_())
    log.error("transpose_", lambda: cube.transpose_(0, 5))
    log.error("squeeze_", lambda: cube.squeeze_(5))
    log.error("squeeze_ twice", lambda: cube.squeeze_((0, 0)))
    log.error("squeeze twice", lambda: cube.squeeze((0, -3)))
    log.error("unsqueeze_", lambda: cube.unsqueeze_(7))
    with torch.no_grad():
        hidden = (a * 2)[0]
        shown = (a.detach() * 2).t_()
    log("without gradients", shown)
    log.error("made in no_grad", lambda: hidden.unsqueeze_(0))
    with torch.inference_mode():
        inside = torch.ones(2, 3).t_()
    log("inference", tuple(inside.shape))
    log.error("outside", lambda: inside.t_())
    kept = a * 2
    kept.retain_grad()
    kept.t_()
    weighed(kept).backward()
    log("retained", kept.grad, a.grad)

    log("as_strided")
    row = torch.arange(6.0)
    log(row.as_strided((2, 2), (1, 2)), row[2:].as_strided((2, 2), (1, 2)), row[2:].as_strided((2, 2), (1, 2), 0))
    log(row.as_strided((2,), (2,), 1).storage_offset(), row[1:].as_strided((2,), (2,))._base is row)
    log.error("outside", lambda: row.as_strided((3, 3), (2, 2)))
    log.error("negative", lambda: row.as_strided((3, 3), (-2, 2)))
    log.error("lengths", lambda: row.as_strided((3, 3), (2,)))
    log.error("offset", lambda: row.as_strided((3,), (2,), -1))
    log.error("size", lambda: row.as_strided((-3,), (2,)))
    c = torch.arange(6.0).reshape(2, 3).requires_grad_()
    weights = torch.arange(6.0).reshape(3, 2)
    log("overlapping", *torch.autograd.grad((torch.as_strided(c * 2, (3, 2), (0, 1)) * weights).sum(), c))
    log("of a part", *torch.autograd.grad((torch.as_strided((c * 2)[1], (3, 2), (1, 1), 2) * weights).sum(), c))
    log("of what overlaps", *torch.autograd.grad((c.expand(2, 2, 3).as_strided((2,), (4,)) * weights[1]).sum(), c))
    base = c * 2
    base.as_strided((2,), (2,), 1).mul_(3)
    facts(log, "written", base)
    log(*torch.autograd.grad((base * base).sum(), c))

    log("resize_, set_, storages")
    x = torch.arange(4.0)
    for size in ((6,), (2,), (2, 2), (2, 2)):
        x.resize_(size)
        log(tuple(x.shape), x._version, x.flatten()[:4])
    log(x.resize_as_(torch.ones(2)), x._version)
    log.error("negative", lambda: x.resize_(-2))
    for made in (a * 2).resize(3), (a * 2).resize_as(torch.ones(3)), torch.ones(3).resize(1, 3):
        facts(log, "resize", made)
    log.error("resize count", lambda: torch.ones(3).resize(2, 3))
    x, y = torch.ones(3), torch.arange(4.0)
    x.set_(y)
    y.mul_(2)
    log(x, x._version, x._is_view(), x.data_ptr() == y.data_ptr(), x.is_set_to(y))
    log(
        torch.ones(3).set_().shape,
        torch.ones(3).set_(y.untyped_storage(), 1, (2,), (2,)),
        torch.ones(2).set_(y._typed_storage()),
    )
    log.error("set_ of another dtype", lambda: torch.ones(3).set_(torch.ones(4, dtype=torch.float64)))
    log.error("set_ of a leaf", lambda: torch.ones(3, requires_grad=True).set_(y))
    bytes_ = y.untyped_storage()
    log(bytes_ is y[1:].untyped_storage(), len(bytes_), bytes_.nbytes(), bytes_.size(), bytes_.data_ptr() == y.data_ptr())
    log(y[1:].storage_offset(), y[1:].untyped_storage().nbytes(), torch.ones(0).stride(), torch.ones(2, 0, 3).stride())

    log("unsafe pieces")
    for make in (
        lambda x: x.unsafe_split(1), lambda x: x.unsafe_chunk(3), lambda x: x.unsafe_split_with_sizes((1, 2)),
        lambda x: x[:0].unsafe_chunk(2), lambda x: x[:0].chunk(2),
    ):  # fmt: skip
        x = c.t() * 2
        pieces = make(x)
        for piece in pieces:
            facts(log, "piece", piece)
    x = torch.arange(4.0)
    first, second = x.unsafe_split(2)
    second.zero_()
    log(x, first._version, second._version, x._version, second.storage_offset(), second._base is None)
