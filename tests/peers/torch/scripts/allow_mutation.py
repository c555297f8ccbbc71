"""`allow_mutation_on_saved_tensors`: what counts as a mutation, what is copied and for how long, nesting and leaving."""

import gc


def leaf(torch):
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def held(ctx):
    return len(ctx.cloned), len(ctx.tid_to_weakhandle), len(ctx.original)


def run(torch, log):
    mutations(torch, log)
    lifetimes(torch, log)
    passes(torch, log)
    borders(torch, log)


def mutations(torch, log):
    log("mutations")
    allow = torch.autograd.graph.allow_mutation_on_saved_tensors

    class Doubling(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def without_gradient(b):
        with torch.no_grad():
            b.mul_(2)

    for name, mutate in {
        "item": lambda b: b.__setitem__(0, 5.0), "index": lambda b: b.__setitem__(torch.tensor([1]), 5.0),
        "mask": lambda b: b.__setitem__(b > 1, 5.0), "all": lambda b: b.__setitem__(slice(None), 5.0),
        "mul_": lambda b: b.mul_(2), "sin_": lambda b: b.sin_(), "by itself": lambda b: b.mul_(b),
        "view": lambda b: b.view(3, 1).mul_(2), "part": lambda b: b[:1].mul_(2), "detached": lambda b: b.detach().mul_(2),
        "data": lambda b: b.data.mul_(2), "zero_": lambda b: b.zero_(), "copy_": lambda b: b.copy_(torch.ones(3)),
        "fill_": lambda b: b.fill_(2.0), "iadd": lambda b: b.__iadd__(1), "no_grad": without_gradient,
        "out": lambda b: torch.sin(torch.ones(3), out=b.detach()), "Function": lambda b: Doubling.apply(b),
        "nothing": lambda b: None, "version": lambda b: torch.autograd.graph.increment_version(b),
        "twice": lambda b: (b.mul_(2), b.mul_(2))[:0] and None,
    }.items():  # fmt: skip
        a = leaf(torch)
        with allow() as ctx:
            b = a.clone()
            out = (b**2).sum()
            mutate(b)
            log(name, held(ctx)[0])
            log.error("  backward", lambda out=out: out.backward())
            log(a.grad, held(ctx)[0])
            a.grad = None
    with allow() as ctx:
        a = leaf(torch)
        b = a.clone()
        c = b[:]
        out = (c**2).sum()
        b.mul_(2)
        log("view saved, base changed", held(ctx))
        out.backward()
        log(a.grad, held(ctx))
        a, b, c = leaf(torch), torch.ones(3), torch.ones(3) * 2
        out = a * b
        torch.sin(c, out=b)
        log("constant", held(ctx))
        out.sum().backward()
        log(a.grad, held(ctx))
        a = leaf(torch)
        b = a.exp()
        log("result", held(ctx))
        b.mul_(2)
        log(held(ctx))
        b.sum().backward()
        log(a.grad, held(ctx))
        a = leaf(torch)
        loss = (a * a).sum()
        with torch.no_grad():
            a.add_(1)
        log("leaf", held(ctx))
        loss.backward()
        log(a.grad, held(ctx))


def lifetimes(torch, log):
    log("lifetimes")
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as ctx:
        gc.disable()
        try:
            a = leaf(torch).clone()
            first = a**2
            second = a**2
            log("twice", held(ctx))
            a.mul_(2)
            log(held(ctx))
            del first
            log(held(ctx))
            del second
            log(held(ctx))
            a = leaf(torch).clone()
            first = a**2
            a.mul_(2)
            second = a**2
            a.mul_(2)
            log("two versions", held(ctx))
            del first
            log(held(ctx))
            del second
            log(held(ctx))
            a = leaf(torch).clone()
            out = (a**2).sum()
            log("saved", held(ctx))
            out.backward()
            log("no longer", held(ctx))
            a.sin_()
            log(held(ctx)[0])
            out = (a**2).sum()
            a.sin_()
            log(held(ctx)[0])
            del out
            log(held(ctx)[0])
        finally:
            gc.enable()
    log("left", held(ctx), len(ctx.sid_to_tid))


def passes(torch, log):
    log("passes")
    with torch.autograd.graph.allow_mutation_on_saved_tensors() as ctx:
        a = leaf(torch)
        b = a.clone()
        out = (b**2).sum()
        b.mul_(2)
        out.backward(retain_graph=True)
        log(a.grad, held(ctx))
        out.backward()
        log(a.grad, held(ctx))
        a = leaf(torch)
        b = a.clone()
        (g,) = torch.autograd.grad((b**3).sum(), a, create_graph=True)
        b.mul_(2)
        log(held(ctx)[0])
        g.sum().backward()
        log(a.grad, held(ctx)[0])
        a = leaf(torch)
        b = a.clone()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
            out = (b**2).sum()
        b.mul_(2)
        log("other hooks", held(ctx))
        out.backward()
        log(a.grad)


def borders(torch, log):
    log("borders")
    allow = torch.autograd.graph.allow_mutation_on_saved_tensors

    def graph():
        a = leaf(torch)
        b = a.clone()
        out = (b**2).sum()
        return b, out

    with allow():
        b, out = graph()
        b.sin_()
    log.error("outside", lambda: out.backward())
    with allow():
        log.error("another", lambda: out.backward())
    with allow():
        b, out = graph()
    log.error("outside, not changed", lambda: out.backward())
    b, out = graph()
    with allow():
        b.mul_(2)
        log.error("saved before", lambda: out.backward())

    def nested():
        with allow(), allow():
            log("entered twice")

    log.error("nested", nested)

    def nested_and_on():
        with allow():
            _, out = graph()
            log.error("nested", lambda: allow().__enter__())
            out.backward()

    log.error("after nesting failed", nested_and_on)

    def failing():
        with allow():
            raise KeyError("inside")

    log.error("raises", failing)
    with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        log.error("hooks are off", lambda: allow().__enter__())
    with allow() as ctx:
        b, out = graph()
        b.mul_(2)
        log(held(ctx))
