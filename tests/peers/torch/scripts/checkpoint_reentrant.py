"""The reentrant variant of checkpoint: warnings, what runs again and when, what it refuses; and checkpoint_sequential."""


def numbers(tensor):
    return [round(value, 4) for value in tensor.detach().reshape(-1).tolist()]


def leaf(torch, *values):
    return torch.tensor(values, requires_grad=True)


def counted(torch, log, function):
    def run(*args):
        log("call", "grad" if torch.is_grad_enabled() else "no grad", [a.requires_grad for a in args if hasattr(a, "dim")])
        return function(*args)

    return run


def run(torch, log):
    order(torch, log)
    arguments(torch, log)
    randomness(torch, log)
    refusals(torch, log)
    nested(torch, log)
    sequential(torch, log)


def order(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    x, w = leaf(torch, 0.5, 0.25), leaf(torch, 2.0, 3.0)
    log("not decided")
    y = checkpoint(counted(torch, log, lambda x: (x * w).sin().exp()), x)
    log(y.grad_fn.name(), y.requires_grad)
    y.sum().backward()
    log(numbers(x.grad), numbers(w.grad))
    log("decided")
    y = checkpoint(counted(torch, log, lambda x: (x * w).sin().exp()), x, use_reentrant=True)
    y.sum().backward()
    log(numbers(x.grad), numbers(w.grad))
    log.error("again", lambda: y.sum().backward())
    log("retained")
    y = checkpoint(counted(torch, log, lambda x: x.exp()), x, use_reentrant=True)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    log("non-reentrant does not warn")
    checkpoint(counted(torch, log, lambda x: x.exp()), x, use_reentrant=False)


def arguments(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    x, y = leaf(torch, 0.5, 0.25), leaf(torch, 2.0, 3.0)
    constant = torch.tensor([1.0, 2.0])
    log("arguments that are no tensors, outputs")
    a, b, c = checkpoint(
        counted(torch, log, lambda x, n, c, y: (x * n * c, y.sin(), "text")), x, 3.0, constant, y, use_reentrant=True
    )
    log(numbers(a), numbers(b), c)
    (a.sum() * b.sum()).backward()
    log(numbers(x.grad), numbers(y.grad))
    x.grad = y.grad = None
    log("an output that does not require grad")
    a, b = checkpoint(counted(torch, log, lambda x: (x.exp(), torch.tensor([7.0]))), x, use_reentrant=True)
    log(a.requires_grad)
    a.sum().backward()
    log(numbers(x.grad))
    log("nothing requires grad")
    out = checkpoint(counted(torch, log, lambda x: x * y), constant, use_reentrant=True)
    log(out.requires_grad)
    log("a structure is not seen")
    out = checkpoint(counted(torch, log, lambda xs: xs[0].exp()), [x], use_reentrant=True)
    log(out.requires_grad)
    with torch.no_grad():
        log(checkpoint(counted(torch, log, lambda x: x.exp()), x, use_reentrant=True).requires_grad)


def randomness(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    drawn = []

    def body(x):
        drawn.append(torch.randn(3))
        return x * drawn[-1]

    checkpoint(body, torch.ones(3, requires_grad=True), use_reentrant=True).sum().backward()
    checkpoint(body, torch.ones(3, requires_grad=True), use_reentrant=True, preserve_rng_state=False).sum().backward()
    log("random numbers", torch.equal(drawn[0], drawn[1]), torch.equal(drawn[2], drawn[3]))


def refusals(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    x, w = leaf(torch, 0.5, 0.25), leaf(torch, 2.0, 3.0)
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=True)
    log.error("autograd.grad", lambda: torch.autograd.grad(y.sum(), x))
    log.error("inputs=", lambda: y.sum().backward(inputs=[x]))
    y = checkpoint(lambda x: w.detach().exp(), x, use_reentrant=True)
    log.error("no output requires grad", lambda: y.sum().backward())
    log.error("keywords", lambda: checkpoint(lambda x: x, x, use_reentrant=True, scale=2.0))
    log.error("contexts", lambda: checkpoint(lambda x: x, x, use_reentrant=True, context_fn=lambda: (None, None)))
    log.error("debug", lambda: checkpoint(lambda x: x, x, use_reentrant=True, debug=True))
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=True)
    with torch.no_grad():
        x.add_(1.0)
    log.error("overwritten", lambda: y.sum().backward())


def nested(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    for outer in (True, False):
        for inner in (True, False):
            log("nested: outer, inner reentrant", outer, inner)
            x = leaf(torch, 0.5, 0.25)

            def body(t):
                log("outer")
                return checkpoint(lambda u: log("inner") or u.sin().exp(), t.cos(), use_reentrant=inner).sin()

            checkpoint(body, x, use_reentrant=outer).sum().backward()
            log(numbers(x.grad))


def sequential(torch, log):
    checkpoint_sequential = torch.utils.checkpoint.checkpoint_sequential

    def part(k):
        return lambda x: log("part", k) or (x + k).sin()

    functions = [part(k) for k in range(5)]
    for segments in (1, 2, 3, 5):
        for use_reentrant in (True, False):
            log("sequential", segments, use_reentrant)
            x = leaf(torch, 0.5, 0.25)
            checkpoint_sequential(functions, segments, x, use_reentrant=use_reentrant).sum().backward()
            log(numbers(x.grad))
    log("not decided")
    checkpoint_sequential(functions, 2, leaf(torch, 0.5))
    log.error("keywords", lambda: checkpoint_sequential(functions, 2, leaf(torch, 0.5), use_reentrant=False, scale=2.0))
