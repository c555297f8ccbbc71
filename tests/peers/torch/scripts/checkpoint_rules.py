"""Rules of checkpoint(use_reentrant=False).

What is never recomputed, randomness, contexts, closures, saved attributes, identity, stops that are swallowed.
"""

import contextlib


def numbers(tensor):
    return [round(value, 4) for value in tensor.detach().reshape(-1).tolist()]


def attempt(log, function, *args):
    try:
        result = function(*args)
    except Exception as error:
        log(type(error).__name__, str(error))
    else:
        log("returned", numbers(result) if hasattr(result, "reshape") else result)


def leaf(torch, *values):
    return torch.tensor(values, requires_grad=True)


def run(torch, log):
    nothing_saved(torch, log)
    no_grad(torch, log)
    structures(torch, log)
    closures(torch, log)
    stopping(torch, log)
    early_stop_settings(torch, log)
    randomness(torch, log)
    contexts(torch, log)
    attributes(torch, log)
    grad_inside(torch, log)
    in_place(torch, log)
    two_outputs(torch, log)
    modes(torch, log)


def counted(log, function):
    def run(*args, **kwargs):
        log("call")
        result = function(*args, **kwargs)
        log("end")
        return result

    return run


def nothing_saved(torch, log):
    log("nothing saved: no second call")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 2.0, 3.0)
    y = checkpoint(counted(log, lambda x: x + 1), x, use_reentrant=False)
    y.sum().backward()
    y.sum().backward()
    log(numbers(x.grad), y.grad_fn.name())
    y = checkpoint(counted(log, lambda x: x.exp()), x, use_reentrant=False)
    log(y.grad_fn.name())
    y = checkpoint(counted(log, lambda x: x.exp()), x, use_reentrant=False)
    torch.autograd.grad(y.sum(), x)
    x.grad = None


def no_grad(torch, log):
    log("no grad")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 2.0, 3.0)
    with torch.no_grad():
        y = checkpoint(counted(log, lambda x: x.exp()), x, use_reentrant=False)
    log(y.requires_grad)
    y = checkpoint(counted(log, lambda x: x.exp()), torch.tensor([1.0]), use_reentrant=False)
    log(y.requires_grad)
    with torch.no_grad():

        def body(x):
            with torch.enable_grad():
                return x.exp()

        y = checkpoint(counted(log, body), x, use_reentrant=False)
    log(y.requires_grad)
    if y.requires_grad:
        y.sum().backward()
        log(numbers(x.grad))


def structures(torch, log):
    log("structures, keywords")
    checkpoint = torch.utils.checkpoint.checkpoint
    x, y = leaf(torch, 2.0, 3.0), leaf(torch, 5.0, 7.0)

    def body(pair, scale=1.0, *, more):
        log("call", scale, sorted(more))
        return {"product": pair[0] * pair[1] * scale, "sine": (more["x"].sin(), None, "text")}

    out = checkpoint(body, [x, y], 2.0, use_reentrant=False, more={"x": x})
    log(sorted(out), out["sine"][1:])
    (out["product"].sum() + out["sine"][0].sum()).backward()
    log(numbers(x.grad), numbers(y.grad))
    log(checkpoint(lambda: 3, use_reentrant=False))
    log(checkpoint(lambda *a: a, 1, "b", None, use_reentrant=False))


def closures(torch, log):
    log("closures over leaves; a gradient hook is called once")
    checkpoint = torch.utils.checkpoint.checkpoint
    w = leaf(torch, 2.0, 3.0)
    w.register_hook(lambda g: log("hook", numbers(g)))
    out = checkpoint(counted(log, lambda: (w * w).sin()), use_reentrant=False)
    out.sum().backward()
    log(numbers(w.grad))
    x = leaf(torch, 0.5, 0.25)
    seen = []

    def body(t):
        seen.append(t)
        return t.exp() * t

    h = x * 1.0
    checkpoint(body, h, use_reentrant=False).sum().backward()
    log(len(seen), seen[0] is h, seen[1] is h, seen[1].requires_grad, seen[1].grad_fn is None, seen[1].is_leaf)
    seen.clear()
    checkpoint(body, x, use_reentrant=False).sum().backward()
    log(len(seen), seen[0] is x, seen[1] is x)


def stopping(torch, log):
    log("how the recompute stops")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 0.5, 0.25)

    def catching(x):
        try:
            y = x.exp()
            log("not stopped")
        except Exception as error:
            log("stopped", type(error).__name__, str(error))
            raise
        finally:
            log("finally")
        return y

    checkpoint(catching, x, use_reentrant=False).sum().backward()

    def swallowing(x):
        try:
            y = x.exp()
        except Exception as error:
            log("swallowed", type(error).__name__)
            y = x * 1.0
        log("goes on")
        return y

    checkpoint(swallowing, x, use_reentrant=False).sum().backward()

    def saves_more(x):
        try:
            y = x.exp()
        except Exception as error:
            log("swallowed", type(error).__name__)
            y = x.sin()
            log("saved more")
        return y

    attempt(log, lambda: checkpoint(saves_more, x, use_reentrant=False).sum().backward())

    def returning_early(x):
        return x.exp() + 1

    checkpoint(counted(log, returning_early), x, use_reentrant=False).sum().backward()
    log(numbers(x.grad))


def early_stop_settings(torch, log):
    log("early stop settings")
    module = torch.utils.checkpoint
    x = leaf(torch, 0.5, 0.25)

    def body(x):
        log("call")
        y = x.exp()
        log("end")
        return y

    module.checkpoint(body, x, use_reentrant=False, early_stop=False).sum().backward()
    with module.set_checkpoint_early_stop(True):
        y = module.checkpoint(body, x, use_reentrant=False, early_stop=False)
    y.sum().backward()
    with module.set_checkpoint_early_stop(False):
        y = module.checkpoint(body, x, use_reentrant=False, early_stop=True)
        with module.set_checkpoint_early_stop(True):
            z = module.checkpoint(body, x, use_reentrant=False)
        w = module.checkpoint(body, x, use_reentrant=False)
    for result in (y, z, w):
        log("backward")
        result.sum().backward()
    y = module.checkpoint(body, x, use_reentrant=False)
    with module.set_checkpoint_early_stop(False):
        y.sum().backward()


def randomness(torch, log):
    log("randomness")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = torch.ones(5, requires_grad=True)
    noises = []

    def body(x):
        noise = torch.randn(5)
        noises.append(noise)
        return (x * noise).sin()

    torch.manual_seed(3)
    y = checkpoint(body, x, use_reentrant=False)
    after_forward = torch.randn(3)
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    y.sum().backward()
    log(torch.equal(torch.randn(3), expected), torch.equal(noises[0], noises[1]), torch.equal(after_forward, expected))
    noises.clear()
    y = checkpoint(body, x, use_reentrant=False, preserve_rng_state=False)
    y.sum().backward()
    log(torch.equal(noises[0], noises[1]))


def contexts(torch, log):
    log("context_fn")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 0.5, 0.25)

    class Logged:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log("enter", self.name)

        def __exit__(self, kind, error, traceback):
            log("exit", self.name, None if kind is None else kind.__name__)

    def both():
        log("context_fn is called")
        return Logged("forward"), Logged("recompute")

    y = checkpoint(counted(log, lambda x: x.exp()), x, use_reentrant=False, context_fn=both)
    y.sum().backward(retain_graph=True)
    y.sum().backward()

    @contextlib.contextmanager
    def plain(name):
        log("enter", name)
        yield
        log("exit", name)

    for early_stop in (True, False):
        y = checkpoint(
            counted(log, lambda x: x.exp()),
            x,
            use_reentrant=False,
            early_stop=early_stop,
            context_fn=lambda: (plain("forward"), plain("recompute")),
        )
        y.sum().backward()
    with torch.no_grad():
        checkpoint(counted(log, lambda x: x.exp()), x, use_reentrant=False, context_fn=both)


def attributes(torch, log):
    log("saved attributes outside a backward pass: recomputed at every access")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 0.5, 0.25)
    y = checkpoint(counted(log, lambda x: x.sin().exp()), x, use_reentrant=False)
    log(numbers(y.grad_fn._saved_result))
    log(numbers(y.grad_fn._saved_result))
    saved = y.grad_fn.next_functions[0][0]._saved_self
    log(saved is x, saved.requires_grad)
    y.sum().backward()
    log(numbers(x.grad))
    attempt(log, lambda: y.grad_fn._saved_result)
    attempt(log, lambda: y.sum().backward())


def grad_inside(torch, log):
    log("autograd.grad inside the region")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 0.5, 0.25)

    def body(x):
        log("call")
        y = x.exp()
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        log("inner gradient", numbers(g))
        return g * y

    y = checkpoint(body, x, use_reentrant=False)
    y.sum().backward()
    log(numbers(x.grad))

    def enclosed(x):
        log("outer call")
        with torch.enable_grad():
            y = checkpoint(counted(log, lambda t: t.sin().exp()), x, use_reentrant=False)
            (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return g.sin()

    x.grad = None
    y = checkpoint(enclosed, x, use_reentrant=False)
    y.sum().backward()
    log(numbers(x.grad))


def in_place(torch, log):
    log("in-place changes")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 0.5, 0.25)
    h = x * 1.0
    y = checkpoint(lambda t: t.exp() * t, h, use_reentrant=False)
    with torch.no_grad():
        h.add_(1)
    attempt(log, lambda: y.sum().backward())
    h = x * 1.0
    y = checkpoint(lambda ts: ts[0].exp() * ts[0], [h], use_reentrant=False)
    with torch.no_grad():
        h.add_(1)
    y.sum().backward()
    log("silently of the new values", numbers(x.grad))
    x.grad = None

    def within(t):
        y = t.sin()
        y.mul_(2)
        return y.exp()

    checkpoint(within, x, use_reentrant=False).sum().backward()
    log(numbers(x.grad))


def two_outputs(torch, log):
    log("two outputs, two backward passes")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 0.5, 0.25)

    def body(x):
        log("call")
        return x.sin(), x.exp(), x.cos()

    a, b, c = checkpoint(body, x, use_reentrant=False)
    b.sum().backward()
    log("next")
    a.sum().backward()
    log("next")
    c.sum().backward()
    log(numbers(x.grad))
    a, b, c = checkpoint(body, x, use_reentrant=False)
    (a + b + c).sum().backward()
    log(numbers(x.grad))


def modes(torch, log):
    log("grad mode of the recompute")
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 0.5, 0.25)

    def body(x):
        log("grad" if torch.is_grad_enabled() else "no grad")
        y = x.exp()
        with torch.no_grad():
            z = x.sin()
        return y * z

    checkpoint(body, x, use_reentrant=False).sum().backward()
    log(numbers(x.grad))
    y = checkpoint(body, x, use_reentrant=False)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    log(numbers(torch.autograd.grad(g.sum(), x)[0]))
    y = checkpoint(body, x, use_reentrant=False)
    y.sum().backward(inputs=[x])
    log(numbers(x.grad))
