"""What a checkpointed function runs when: one to four checkpoints deep, with and without early stop.

Each under backward, autograd.grad, two passes over one graph, double backward.
"""


def numbers(tensor):
    return [round(value, 4) for value in tensor.detach().reshape(-1).tolist()]


def layer(log, name):
    """Return a function of two saving operations that logs where it is."""

    def run(x):
        log("enter", name, numbers(x), x.requires_grad)
        y = x.sin()
        log("middle", name)
        z = y.exp()
        log("leave", name)
        return z

    return run


def nest(torch, log, depth):
    """Return a function that checkpoints ``depth`` levels, each with something of its own before and after."""
    checkpoint = torch.utils.checkpoint.checkpoint

    def run(x):
        log("enter level", depth)
        try:
            y = x.cos()
            y = checkpoint(nest(torch, log, depth - 1) if depth > 1 else layer(log, "body"), y, use_reentrant=False)
            log("between level", depth)
            z = y.sin()
            log("after level", depth)
            return z.tanh()
        finally:
            log("leave level", depth)

    return run


def leaf(torch, *values):
    return torch.tensor(values, requires_grad=True)


def run(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    early_stop = torch.utils.checkpoint.set_checkpoint_early_stop
    for stop in (True, False):
        log("early stop", stop)
        for depth in (0, 1, 2, 3):
            for way in (backward, gradient, retained, double):
                log("checkpoints", depth + 1, way.__name__)
                function = nest(torch, log, depth) if depth else layer(log, "body")
                with early_stop(stop):
                    x = leaf(torch, 0.5, 0.25)
                    y = checkpoint(function, x, use_reentrant=False)
                    log("forward is done")
                way(torch, log, x, y)
    chain(torch, log)
    hooks_around(torch, log)
    sections(torch, log)


def backward(torch, log, x, y):
    y.sum().backward()
    log("gradient", numbers(x.grad))


def gradient(torch, log, x, y):
    (g,) = torch.autograd.grad(y.sum(), x)
    log("gradient", numbers(g))


def retained(torch, log, x, y):
    y.sum().backward(retain_graph=True)
    log("second pass")
    y.sum().backward()
    log("gradient", numbers(x.grad))


def double(torch, log, x, y):
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    log("gradient", numbers(g), g.requires_grad)
    log("second derivative", numbers(torch.autograd.grad(g.sum(), x)[0]))


def chain(torch, log):
    log("a chain: the last part is recomputed first")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 0.5, 0.25)
    y = x
    for name in "abc":
        y = checkpoint(layer(log, name), y, use_reentrant=False)
    y.sum().backward()
    log("gradient", numbers(x.grad))


def hooks_around(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    hooks = torch.autograd.graph.saved_tensors_hooks
    log("hooks around see the inputs, hooks inside the rest")

    def pack(name):
        return lambda t: log("pack", name, numbers(t)) or t

    def unpack(name):
        return lambda t: log("unpack", name, numbers(t)) or t

    def body(x, y):
        log("body")
        a = x * y
        with hooks(pack("inside"), unpack("inside")):
            b = a.exp()
        log("body goes on")
        return b.sin()

    x, y = leaf(torch, 0.5, 0.25), leaf(torch, 2.0, 3.0)
    with hooks(pack("outside"), unpack("outside")):
        z = checkpoint(body, x, y, use_reentrant=False)
        log("forward is done")
        w = z.exp()
    w.sum().backward()
    log(numbers(x.grad), numbers(y.grad))


def sections(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    log("beside plain operations, with a Function inside")

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log("Cube.forward")
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            log("Cube.backward")
            (x,) = ctx.saved_tensors
            log("Cube.backward has its tensors")
            return 3 * grad * x * x

    weight = leaf(torch, 1.5, 2.5)

    def body(x):
        log("body")
        y = Cube.apply(x * weight)
        log("body after Cube")
        return y.tanh()

    x = leaf(torch, 0.5, 0.25)
    h = x.sin()
    z = checkpoint(body, h, use_reentrant=False)
    z.register_hook(lambda g: log("hook on the result", numbers(g)))
    h.register_hook(lambda g: log("hook on the input", numbers(g)))
    (z * h).sum().backward()
    log(numbers(x.grad), numbers(weight.grad))
