"""Leaves whose memory is replaced by ``set_``, post hooks of their accumulators, and where recomputation stops early."""


def run(torch, log):
    checkpoint, set_checkpoint_early_stop = (
        torch.utils.checkpoint.checkpoint,
        torch.utils.checkpoint.set_checkpoint_early_stop,
    )

    accumulator = lambda x: torch.autograd.graph.get_gradient_edge(x).node

    def leaf():
        return torch.tensor([1.0, 2.0], requires_grad=True)

    def moved(x, n=2):
        with torch.no_grad():
            x.set_(torch.arange(5.0, 5.0 + n))

    # -- set_: graphs made before lead into .grad, and not to the tensor

    def after_set(label, f, n=2):
        x = leaf()
        y = f(x)
        moved(x, n)
        log.error(f"{label}: grad", lambda: torch.autograd.grad(y, x, retain_graph=True))
        log(f"{label}: unused", str(torch.autograd.grad(y, x, allow_unused=True, retain_graph=True)))
        log.error(f"{label}: backward", lambda: y.backward(retain_graph=True))
        log(f"{label}: .grad", x.grad)
        z = (x * x).sum()
        log.error(f"{label}: both", lambda: torch.autograd.grad(y + z, x))
        log(f"{label}: after", torch.autograd.grad((x * x).sum(), x)[0])

    after_set("linear", lambda x: (x * 3).sum())
    after_set("square", lambda x: (x * x).sum())
    after_set("longer", lambda x: (x * 3).sum(), 3)
    after_set("shorter", lambda x: (x * 3).sum(), 1)
    x = leaf()
    node, seen = accumulator(x), []
    x.register_hook(lambda g: seen.append(g.tolist()))
    y = (x * 3).sum()
    moved(x)
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    log("accumulators", str(accumulator(x) is node), str(node.variable is x))
    y.backward()
    (x * 2).sum().backward()
    log("hooks", str(seen), x.grad)
    a = leaf()
    x = a * 2
    y = (x * 3).sum()
    moved(x)
    log("computed", *torch.autograd.grad(y, [x, a]))

    # -- post hooks of accumulators: what they see is not .grad, but may be its memory

    def watched(label, x, passes, prepare=lambda x, node: None):
        node, seen = accumulator(x), []
        prepare(x, node)
        node.register_hook(lambda _, g: seen.append((g[0] is x.grad, g[0].data_ptr() == x.grad.data_ptr(), g[0].tolist())))
        for backward in passes:
            backward(x)
        log(label, str(seen), x.grad)

    def thrice(x):
        (x * 3).sum().backward()

    kept = []
    watched("post hook", leaf(), [thrice, thrice])
    watched("after a prehook", leaf(), [thrice, thrice], lambda x, node: node.register_prehook(lambda g: (g[0] * 2,)))
    watched("of a kept gradient", leaf(), [thrice, thrice], lambda x, node: x.register_hook(kept.append) and None)
    watched("of a given gradient", leaf(), [lambda x, g=torch.ones(2): x.backward(g)])
    watched("of two uses", leaf(), [lambda x: (x * 3 + x * 4).sum().backward(), thrice])
    watched("recorded", leaf(), [lambda x: (x * x).sum().backward(create_graph=True)])
    watched("beside another", leaf(), [thrice, thrice], lambda x, node: x.register_post_accumulate_grad_hook(lambda p: None))

    # -- early stop: recomputation ends with the last tensor that was saved

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 2 * ctx.saved_tensors[0]

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    regions = {
        "input saved": lambda a, w, at: at(2, at(1, a * a) + 1),
        "output saved": lambda a, w, at: at(2, at(1, a.exp()) * 2),
        "twice": lambda a, w, at: at(2, at(1, a.sin()).sin()),
        "other": lambda a, w, at: at(2, at(1, a + 1) * w),
        "none": lambda a, w, at: at(1, a.clone()),
        "sum": lambda a, w, at: at(1, a.sum()) * 2,
        "unread": lambda a, w, at: (at(1, a.sin()), at(2, a.cos()))[0],
        "Function": lambda a, w, at: at(2, at(1, Square.apply(a)) + 1),
        "Function that saves nothing": lambda a, w, at: at(2, at(1, Double.apply(a)) * w),
        "power": lambda a, w, at: at(2, at(1, a**2).sum()),
        "relu": lambda a, w, at: at(2, at(1, a.relu()).abs()),
        "log": lambda a, w, at: at(2, at(1, a * 1).log()) * 2,
        "where": lambda a, w, at: at(2, at(1, torch.where(a > 0, a, w)) * 2),
        "stack": lambda a, w, at: at(2, at(1, torch.stack([a, w]).sum(0)).abs()),
        "nested": lambda a, w, at: at(2, checkpoint(lambda b: at(1, b * b), a, use_reentrant=False) + 1),
    }
    for label, region in regions.items():
        for early in (True, False):
            for wants in (True, False):
                x = torch.tensor([1.0, 2.0], requires_grad=wants)
                w = torch.tensor([2.0, 3.0], requires_grad=True)
                seen = []

                def f(a, region=region, w=w, seen=seen):
                    seen.append(0)
                    return region(a, w, lambda n, y: seen.append(n) or y)

                with set_checkpoint_early_stop(early):
                    out = checkpoint(f, x, use_reentrant=False)
                if out.requires_grad:
                    out.sum().backward()
                log("early stop", label, str(early), str(wants), str(seen), x.grad, w.grad)
