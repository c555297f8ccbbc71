"""Gradients have shape and dtype of what they are gradients of: roots, Functions, what hooks unpack; every refusal."""


def leaf(torch, *values, dtype=None):
    return torch.tensor(values or (1.0, 2.0, 3.0), dtype=dtype, requires_grad=True)


def run(torch, log):
    roots(torch, log)
    functions(torch, log)
    unpacked(torch, log)
    passed_on(torch, log)


def roots(torch, log):
    log("gradients of roots")
    x = leaf(torch)
    w = leaf(torch, dtype=torch.float64)
    dtypes = (
        torch.float64,
        torch.float16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
        torch.complex64,
        torch.complex128,
    )
    for dtype in dtypes:
        for source in (x, w):
            y = source * 2
            y.register_hook(lambda g: log("  seen", g))
            seed = torch.tensor([1, 0, 1]).to(dtype)
            log.error(f"grad_outputs {dtype} of {source.dtype}", lambda: torch.autograd.grad(y, source, seed))
            source.grad = None
            log.error("backward", lambda: (source * 2).backward(seed))
            log(source.grad)
            log.error("of itself", lambda: torch.autograd.grad(source, source, seed))
            log.error("of two", lambda: torch.autograd.grad([source * 2, source * 3], source, [seed, seed]))
            log.error("edge", lambda: torch.autograd.grad(torch.autograd.graph.get_gradient_edge(source * 2), source, seed))
    log("shapes")
    for shape in ((1,), (3, 1), (1, 3), (2,)):
        log.error(f"{shape}", lambda: (x * 2).backward(torch.ones(shape)))
        log.error("edge", lambda: torch.autograd.backward(torch.autograd.graph.get_gradient_edge(x * 2), torch.ones(shape)))
    log.error("second of two", lambda: torch.autograd.backward([x * 2, x * 3], [torch.ones(3), torch.ones(2)]))
    log.error("a number", lambda: (x * 2).backward(2.0))
    log.error("numbers", lambda: torch.autograd.backward([x * 2], [2.0]))
    log.error("a list", lambda: (x * 2).backward([torch.ones(3)]))
    log.error("too many", lambda: torch.autograd.backward([x * 2], [torch.ones(3), torch.ones(3)]))
    log.error("too few", lambda: torch.autograd.backward([x * 2, x * 3], [torch.ones(3)]))
    log.error("too few of grad", lambda: torch.autograd.grad([x * 2, x * 3], x, torch.ones(3)))
    log.error("one None", lambda: torch.autograd.backward([(x * 2).sum(), x * 3], [None, torch.ones(3)]))
    log.error("None of many", lambda: torch.autograd.backward([x * 3], [None]))
    log.error("an integer root", lambda: torch.ones(2, dtype=torch.int64).sum().backward())
    log.error("no root", lambda: torch.autograd.backward([]))
    log.error("no inputs", lambda: torch.autograd.grad((x * 2).sum(), []))
    log.error("a number as input", lambda: torch.autograd.grad((x * 2).sum(), [1.0]))
    log.error("edge of many", lambda: torch.autograd.backward(torch.autograd.graph.get_gradient_edge(x * 2)))
    log.error(
        "edge and zeros",
        lambda: torch.autograd.grad(
            (x * 2).sum(), torch.autograd.graph.get_gradient_edge(leaf(torch)), materialize_grads=True
        ),
    )
    log.error("no gradients needed", lambda: torch.autograd.backward([torch.ones(3)], [torch.ones(3)]))
    log.error("dict", lambda: torch.autograd.grad((x * w).sum(), {"x": x, "w": w}))
    log.error("dict, backward", lambda: (x * w).sum().backward(inputs={"w": w}))
    log(w.grad)
    log.error("tuple", lambda: torch.autograd.grad((x * 2, x * 3), (x,), (torch.ones(3), torch.ones(3))))
    log.error("several nodes deep", lambda: torch.autograd.grad(((x * 2).exp() * w).sin(), [x, w], torch.ones(3)))


def functions(torch, log):
    log("what backward of a Function returns")

    def returning(make):
        class Given(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return make(g)

        return Given.apply

    x = leaf(torch)
    w = leaf(torch, dtype=torch.float64)
    makes = {
        "double": lambda g: g.double() / 3,
        "half": lambda g: g.to(torch.float16) / 3,
        "long": lambda g: g.long() * 3,
        "bool": lambda g: g > 0,
        "complex": lambda g: g.to(torch.complex64) * 2j,
        "complex double": lambda g: g.to(torch.complex128) * 2j,
        "broadcast": lambda g: torch.ones(2, 3, dtype=torch.float64),
        "two axes": lambda g: torch.ones(2, 4, 3),
        "short": lambda g: g[:2],
        "one": lambda g: torch.ones(1),
        "none": lambda g: torch.ones(()),
        "column": lambda g: torch.ones(3, 1),
        "empty": lambda g: torch.ones(0),
    }
    for name, make in makes.items():
        for source in (x, w):
            y = source * 2
            y.register_hook(lambda g: log("  seen", g))
            log.error(f"{name} of {source.dtype}", lambda: torch.autograd.grad(returning(make)(y).sum(), source))
            source.grad = None
            log.error("to the leaf", lambda: returning(make)(source).sum().backward())
            log(source.grad)
            out = returning(make)(source)
            out.grad_fn.register_hook(lambda made, given: log("  node hook", *made))
            log.error("watched", lambda: torch.autograd.grad(out.sum(), source))
            out = returning(make)(source)
            log.error("with a graph", lambda: torch.autograd.grad(out.sum(), source, create_graph=True))


def unpacked(torch, log):
    log("what hooks unpack")
    x = leaf(torch)
    unpacks = {
        "double": lambda t: t.double(),
        "half": lambda t: t.to(torch.float16),
        "long": lambda t: t.long(),
        "longer": lambda t: torch.cat([t, t]),
        "one": lambda t: t[:1],
        "broadcast": lambda t: t[None].expand(2, 3),
    }
    operations = {
        "mul": lambda: x * torch.tensor([2.0, 3.0, 4.0]),
        "square": lambda: x * x,
        "exp": lambda: x.exp(),
        "sin": lambda: x.sin(),
        "div": lambda: x / torch.tensor([2.0, 3.0, 4.0]),
    }
    for name, unpack in unpacks.items():
        for label, operation in operations.items():
            if name == "longer" and label == "square":
                continue  # which operand the sentence names first depends on the order of a product
            if name == "half" and label == "sin":
                continue  # the last bit of a cosine of half precision depends on the version of NumPy
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), unpack):
                y = operation()
            log.error(f"{label}, {name}", lambda: torch.autograd.grad(y, x, torch.ones(3), retain_graph=True))
            log.error(
                "with a graph", lambda: [g.detach() for g in torch.autograd.grad(y, x, torch.ones(3), create_graph=True)]
            )


def passed_on(torch, log):
    log("gradients that pass as they are")
    a, b = leaf(torch), leaf(torch)
    seed = torch.ones(3)
    g, h = torch.autograd.grad(a + b, [a, b], seed)
    log(g is h, g is seed)
    (g,) = torch.autograd.grad(a + 1, a, seed)
    log(g is seed)
    wanting = torch.ones(3, requires_grad=True)
    g, h = torch.autograd.grad(a + b, [a, b], wanting)
    log(g is wanting, g.requires_grad)
    (g,) = torch.autograd.grad(a * 2, a, wanting)
    log(g.requires_grad)
    (g,) = torch.autograd.grad(a.clone(), a, seed)
    log(g is seed)
    (g,) = torch.autograd.grad(a, a, seed)
    log(g is seed)
    seen = []
    y = a + b
    y.register_hook(seen.append)
    y.backward(seed)
    log(seen[0] is seed, a.grad is seed)
