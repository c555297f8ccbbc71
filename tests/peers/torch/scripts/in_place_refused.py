"""What in-place operations refuse: memory that elements share, operands that overlap, leaves, saved tensors, views."""


def run(torch, log):
    overlapping(torch, log)
    expanded(torch, log)
    detached(torch, log)
    freed(torch, log)
    indexed(torch, log)


def overlapping(torch, log):
    log("operands that overlap")
    a = torch.arange(6.0)

    def attempt(label, change):
        x = a.clone()
        log.error(label, lambda: change(x))
        log("  then", x)

    attempt("shifted copy", lambda x: x.__setitem__(slice(1, None), x[:-1]))
    attempt("shifted copy, back", lambda x: x.__setitem__(slice(None, -1), x[1:]))
    attempt("the same part", lambda x: x.__setitem__(slice(1, None), x[1:]))
    attempt("copy_ shifted", lambda x: x[1:].copy_(x[:-1]))
    attempt("copy_ itself", lambda x: x.copy_(x))
    attempt("add_ itself", lambda x: x.add_(x))
    attempt("add_ shifted", lambda x: x[1:].add_(x[:-1]))
    attempt("add_ shifted back", lambda x: x[:-1].add_(x[1:]))
    attempt("mul_ shifted", lambda x: x[1:].mul_(x[:-1]))
    attempt("sub_ shifted", lambda x: x[1:].sub_(x[:-1]))
    attempt("div_ shifted", lambda x: x[1:].div_(x[:-1]))
    attempt("pow_ shifted", lambda x: x[1:].pow_(x[:-1]))
    attempt("+= shifted", lambda x: x[1:].__iadd__(x[:-1]))
    attempt("add_ shifted alpha", lambda x: x[1:].add_(x[:-1], alpha=2))
    attempt("interleaved", lambda x: x[::2].add_(x[1::2]))
    attempt("interleaved copy", lambda x: x[::2].copy_(x[1::2]))
    attempt("an element", lambda x: x.mul_(x[2]))
    attempt("copy of an element", lambda x: x.copy_(x[2]))
    attempt("a part of one", lambda x: x[1:].mul_(x[1:2]))
    attempt("apart", lambda x: x[:3].add_(x[3:]))
    attempt("copy apart", lambda x: x[:3].copy_(x[3:]))
    attempt("fill_ from itself", lambda x: x.fill_(x[3]))
    attempt("set an element", lambda x: x.__setitem__(0, x[3]))
    attempt("set all from an element", lambda x: x.__setitem__(slice(None), x[3]))
    attempt("set by positions", lambda x: x.__setitem__(torch.tensor([0, 1]), x[1:3]))
    attempt("set by mask", lambda x: x.__setitem__(x > 2, x[:3]))
    attempt("transposed", lambda x: x[:4].view(2, 2).add_(x[:4].view(2, 2).t()))
    attempt("transposed copy", lambda x: x[:4].view(2, 2).copy_(x[:4].view(2, 2).t()))
    attempt("column and row", lambda x: x[:4].view(2, 2)[:, 0].add_(x[:4].view(2, 2)[0]))
    attempt("column and row copy", lambda x: x[:4].view(2, 2)[:, 0].copy_(x[:4].view(2, 2)[0]))
    attempt("through detach", lambda x: x[1:].add_(x.detach()[:-1]))
    attempt("through data", lambda x: x[1:].add_(x.data[:-1]))
    attempt("other dtype", lambda x: x[1:].add_(x[:-1].double()))
    attempt("another view of the same", lambda x: x[1:3].add_(x[1:3]))
    attempt("the same as a row", lambda x: x[1:3].view(1, 2).add_(x[1:3]))
    attempt("exp_", lambda x: x[1:].exp_())
    log("with gradients")
    leaf = torch.arange(6.0, requires_grad=True)

    def with_gradient(label, change):
        x = leaf * 1
        log.error(label, lambda: change(x))
        log.error("  backward", lambda: torch.autograd.grad((x * leaf).sum(), leaf))

    with_gradient("shifted copy", lambda x: x.__setitem__(slice(1, None), x[:-1]))
    with_gradient("add_ shifted", lambda x: x[1:].add_(x[:-1]))
    with_gradient("mul_ an element", lambda x: x.mul_(x[2]))
    with_gradient("copy_ itself", lambda x: x.copy_(x))
    with_gradient("add_ itself", lambda x: x.add_(x))


def expanded(torch, log):
    log("expanded memory")
    changes = {
        "add_": lambda x: x.add_(1),
        "mul_": lambda x: x.mul_(2),
        "copy_": lambda x: x.copy_(torch.ones(2, 3)),
        "fill_": lambda x: x.fill_(3),
        "zero_": lambda x: x.zero_(),
        "exp_": lambda x: x.exp_(),
        "relu_": lambda x: x.relu_(),
        "pow_": lambda x: x.pow_(2),
        "clamp_": lambda x: x.clamp_(0, 1),
        "neg_": lambda x: x.neg_(),
        "+=": lambda x: x.__iadd__(1),
        "set all": lambda x: x.__setitem__(slice(None), 1.0),
        "set row": lambda x: x.__setitem__(0, 1.0),
        "set row tensor": lambda x: x.__setitem__(0, torch.ones(3)),
        "set element": lambda x: x.__setitem__((0, 1), 5.0),
        "set column": lambda x: x.__setitem__((slice(None), 1), 5.0),
        "row add_": lambda x: x[0].add_(1),
        "column add_": lambda x: x[:, 0].add_(1),
        "one row add_": lambda x: x[:1].add_(1),
    }
    for name, change in changes.items():
        base = torch.tensor([1.0, 2.0, 3.0])
        x = base.expand(2, 3)
        log.error(name, lambda: change(x))
        log("  then", base, base._version)
        leaf = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        made = leaf * 1
        x = made.expand(2, 3)
        if name in ("fill_", "zero_"):
            continue  # PyTorch writes, and refuses to differentiate
        log.error(f"{name} with a graph", lambda: change(x).detach() if name[:3] != "set" else change(x))
        log("  then", made.detach(), made._version, type(made.grad_fn).__name__)
        log.error("  backward", lambda: torch.autograd.grad((made * made).sum(), leaf))
    x = torch.ones(1).expand(1)
    log.error("one element", lambda: x.add_(1))
    x = torch.ones(1, 3).expand(1, 3)
    log.error("nothing repeated", lambda: x.add_(1))
    x = torch.ones(3, 1).expand(3, 1).expand(-1, 1)
    log.error("twice", lambda: x.add_(1))
    x = torch.ones(1, 3).expand(0, 3)
    log.error("no element", lambda: x.add_(1))
    log("gradients that are expanded")
    leaf = torch.ones(2, 3, requires_grad=True)
    sources = {
        "sum": lambda: leaf.sum(),
        "sum dim": lambda: leaf.sum(1).sum(),
        "mean": lambda: leaf.mean(),
        "transposed": lambda: leaf.t().sum(),
        "view": lambda: leaf.view(6).sum(),
        "unsqueezed": lambda: leaf.unsqueeze(1).sum(),
        "permuted": lambda: leaf.permute(1, 0).sum(),
        "slice": lambda: leaf[:, 1:].sum(),
        "select": lambda: leaf[0].sum(),
        "times 1": lambda: (leaf * 1).sum(),
        "plus 1": lambda: (leaf + 1).sum(),
        "neg": lambda: (-leaf).sum(),
        "exp": lambda: leaf.exp().sum(),
        "clone": lambda: leaf.clone().sum(),
        "expanded": lambda: leaf.expand(4, 2, 3).sum(),
        "squeezed": lambda: leaf[:, None].squeeze(1).sum(),
        "max": lambda: leaf.max(),
        "prod": lambda: leaf.prod(),
        "contiguous": lambda: leaf.contiguous().sum(),
        "t of contiguous": lambda: leaf.t().contiguous().sum(),
        "cat": lambda: torch.cat([leaf, leaf]).sum(),
        "stack": lambda: torch.stack([leaf, leaf * 2]).sum(),
        "twice": lambda: leaf.sum() + leaf.sum(),
    }
    for name, source in sources.items():
        (g,) = torch.autograd.grad(source(), leaf)
        log.error(name, lambda: g.mul_(2))
        leaf.grad = None
        source().backward()
        log.error("  .grad", lambda: leaf.grad.mul_(2))
        if name == "mean":
            continue  # recorded, it is expanded after it was divided
        (g,) = torch.autograd.grad(source(), leaf, create_graph=True)
        log.error("  with a graph", lambda: g.mul_(2))


def detached(torch, log):
    log("detach_")
    a = torch.ones(3, requires_grad=True)
    x = a * 2
    y = x.exp()
    x.detach_()
    log(x.requires_grad, x.is_leaf, x.grad_fn)
    log.error("saved nowhere", lambda: torch.autograd.grad(y.sum(), a))
    x = a * 2
    y = x * x
    x.detach_()
    log.error("a saved operand", lambda: torch.autograd.grad(y.sum(), a))
    x = a * 2
    y = x * x
    x.detach_()
    log.error("a saved operand, with a graph", lambda: torch.autograd.grad(y.sum(), a, create_graph=True)[0].detach())
    x = a * 2
    y = x.exp()
    y.detach_()
    log.error("a saved result", lambda: torch.autograd.grad(y.sum(), a))
    x = a * 2
    y = x.exp()
    z = y * 2
    y.detach_()
    log.error("behind a saved result", lambda: torch.autograd.grad(z.sum(), a))
    x = a * 2
    y = x.exp()
    z = y * 2
    y.detach_()
    log.error("with a graph", lambda: torch.autograd.grad(z.sum(), a, create_graph=True)[0].detach())
    log.error("saved field", lambda: z.grad_fn._saved_self)

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            log("  saved", x.requires_grad, y.requires_grad, y.grad_fn is ctx)
            return g * 2

    x = a * 1
    y = Same.apply(x)
    z = y * 3
    x.detach_()
    y.detach_()
    log.error("of a Function", lambda: torch.autograd.grad(z.sum(), a))
    log.error("a view", lambda: (a * 2)[1:].detach_())
    log.error("a view of a leaf", lambda: a[1:].detach_())
    log.error("a view of a constant", lambda: torch.ones(3)[1:].detach_())
    log.error("a leaf", lambda: a.clone().detach().requires_grad_().detach_().requires_grad)
    log.error("a base", lambda: seen(torch, a))
    x = a * 2
    x.retain_grad()
    x.register_hook(lambda g: g)
    x.detach_()
    log(x.retains_grad, x.grad)
    b = torch.ones(3, requires_grad=True)
    y = (b * 2).sum()
    b.detach_()
    log(b.requires_grad)
    y.backward()
    log(b.grad)
    with torch.no_grad():
        x = torch.ones(3, requires_grad=True) * 2
        log.error("in no_grad", lambda: x.detach_().requires_grad)


def seen(torch, a):
    x = a * 2
    v = x[1:]
    x.detach_()
    return v.requires_grad, type(v.grad_fn).__name__, x.requires_grad


def freed(torch, log):
    log("after the graph was freed")
    a = torch.ones(3, requires_grad=True)
    for name, function in {
        "mul": lambda: a * a,
        "exp": lambda: a.exp(),
        "sin": lambda: a.sin(),
        "add": lambda: a + 1,
        "index": lambda: a[torch.tensor([0, 1])],
        "sum": lambda: a.sum(0, keepdim=True),
        "pow": lambda: a**3,
    }.items():
        y = function()
        y.sum().backward()
        node = y.grad_fn
        fields = [f for f in dir(node) if f.startswith(("_saved_", "_raw_saved_")) and "sym" not in f and "dim" not in f]
        for field in fields:
            if "raw" in field:
                log.error(f"{name} {field}", lambda: [type(s).__name__ for s in [getattr(node, field)]])
            else:
                log.error(f"{name} {field}", lambda: getattr(node, field))
        log(node.name(), len(node.next_functions))
        log.error("again", lambda: y.sum().backward())
    y = a * a
    y.sum().backward()
    log.error("hooks", lambda: y.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t))
    y = a * a
    raw = y.grad_fn._raw_saved_self
    y.sum().backward()
    log.error("hooks on what was taken before", lambda: raw.register_hooks(lambda t: t, lambda t: t))

    class Keeps(torch.autograd.Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            log.error("  read twice", lambda: ctx.saved_tensors)
            return g * x

    y = Keeps.apply(a)
    log.error("cleared on access", lambda: torch.autograd.grad(y.sum(), a, retain_graph=True))
    log.error("retained", lambda: torch.autograd.grad(y.sum(), a))
    y = Keeps.apply(a)
    log.error("read outside", lambda: y.grad_fn.saved_tensors)
    log.error("then", lambda: y.grad_fn.saved_tensors)
    log.error("raw", lambda: [type(s).__name__ for s in y.grad_fn._raw_saved_tensors])
    log.error("then backward", lambda: torch.autograd.grad(y.sum(), a))


def indexed(torch, log):
    log("what indexing saves, and gradients of what is written")
    a = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    m = torch.arange(6.0).reshape(2, 3).requires_grad_()
    mask = torch.tensor([True, False, True, True])
    cases = {
        "mask": lambda: a[mask],
        "mask of two": lambda: m[m.detach() > 1],
        "mask of rows": lambda: m[torch.tensor([True, False])],
        "mask of columns": lambda: m[:, torch.tensor([True, False, True])],
        "mask and positions": lambda: m[torch.tensor([True, True]), torch.tensor([0, 2])],
        "positions": lambda: a[torch.tensor([0, 0, 3])],
        "negative": lambda: a[torch.tensor([-1, 0])],
        "list": lambda: a[[0, 1]],
        "list of bools": lambda: a[[True, False, True, False]],
        "int32": lambda: a[torch.tensor([0, 1], dtype=torch.int32)],
        "uint8": lambda: a[torch.tensor([0, 1, 0, 1], dtype=torch.uint8)],
        "two": lambda: m[torch.tensor([0, 1]), torch.tensor([2, 2])],
        "second": lambda: m[:, torch.tensor([2, 2])],
        "0-d positions": lambda: m[torch.tensor(1)],
        "0-d mask": lambda: m[torch.tensor(True)],
        "True": lambda: m[True],
        "None and positions": lambda: m[None, torch.tensor([1])],
        "broadcast": lambda: m[torch.tensor([[0], [1]]), torch.tensor([[0, 2]])],
        "no positions": lambda: a[torch.tensor([], dtype=torch.int64)],
    }
    for name, function in cases.items():
        packed = []
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: (packed.append(f"{tuple(t.shape)} {t.dtype} {t.tolist()}"), t)[1], lambda t: t
        ):
            try:
                y = function()
            except Exception as error:
                log(name, type(error).__name__, str(error))
                continue
        log(name, y, packed)
        log("  fields", [f for f in dir(y.grad_fn) if "indices" in f])
        log.error("  indices", lambda: y.grad_fn._saved_indices)
        weight = torch.arange(1, y.numel() + 1).reshape(y.shape) * 1.0
        log("  gradient", *torch.autograd.grad((y * weight).sum(), [a, m], allow_unused=True))
    log("written")
    values = torch.tensor([10.0, 20.0, 30.0], requires_grad=True)
    one = torch.tensor(5.0, requires_grad=True)
    writes = {
        "repeated": lambda x: x.__setitem__(torch.tensor([1, 1, 2]), values),
        "repeated, one value": lambda x: x.__setitem__(torch.tensor([1, 1, 2]), one),
        "mask": lambda x: x.__setitem__(mask, values),
        "mask, one value": lambda x: x.__setitem__(mask, one),
        "mask, number": lambda x: x.__setitem__(mask, 7.0),
        "list": lambda x: x.__setitem__([0, 2, 0], values),
        "negative": lambda x: x.__setitem__(torch.tensor([-1, 3, 0]), values),
        "part": lambda x: x[1:].__setitem__(torch.tensor([0, 0, 1]), values),
        "element": lambda x: x.__setitem__(1, one),
        "all": lambda x: x.__setitem__(slice(None), one),
        "fill_": lambda x: x.fill_(one),
        "fill_ part": lambda x: x[1:].fill_(one),
        "part of mask": lambda x: x[1:].__setitem__(torch.tensor([True, True, True]), values),
    }
    for name, write in writes.items():
        x = a * 2
        packed = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(tuple(t.shape)), t)[1], lambda t: t):
            write(x)
        log(name, x, packed, [type(n).__name__ for n, _ in x.grad_fn.next_functions])
        weight = torch.tensor([1.0, 10.0, 100.0, 1000.0])
        found = torch.autograd.grad((x * x * weight).sum(), [a, values, one], allow_unused=True, create_graph=True)
        log("  gradients", *[g if g is None else g.detach() for g in found])
        total = sum((g * g).sum() for g in found if g is not None and g.requires_grad)
        log("  second", *torch.autograd.grad(total, [a, values, one], allow_unused=True))
    log.error("another dtype", lambda: (a * 2).__setitem__(torch.tensor([0]), torch.ones(1, dtype=torch.float64)))
    log.error("another shape", lambda: (a * 2).__setitem__(torch.tensor([0, 1]), torch.ones(3)))
    log.error("shape by mask", lambda: (a * 2).__setitem__(mask, torch.ones(2)))
    log.error("a leaf", lambda: a.__setitem__(mask, 0.0))
    log.error("number by bytes", lambda: (a * 2).__setitem__(torch.tensor([1, 0, 0, 1], dtype=torch.uint8), 0.0))
    log.error("values by bytes", lambda: (a * 2).__setitem__(torch.tensor([1, 0, 0, 1], dtype=torch.uint8), torch.ones(2)))
    log.error("a view of a leaf", lambda: a[1:].__setitem__(torch.tensor([0]), 0.0))
