"""save_for_backward and saved_tensors: what may be saved, identity, versions, when it is freed, double backward."""


def run(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    what(torch, log, x)
    identity(torch, log, x)
    freed(torch, log, x)
    versions(torch, log)
    second_order(torch, log)


def saving(torch, log, *values, read=True):
    class Saves(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log("forward runs")
            ctx.save_for_backward(*values)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if read:
                log("saved", ctx.saved_tensors)
            return g * 2

    return Saves.apply


def what(torch, log, x):
    log.error("an int", lambda: saving(torch, log, 3)(x))
    log.error("a list", lambda: saving(torch, log, x, [x])(x))
    with torch.no_grad():
        log.error("an int under no_grad", lambda: saving(torch, log, 3)(x))
    log.error("an int, nothing requires grad", lambda: saving(torch, log, 3)(torch.tensor([1.0])))
    out = saving(torch, log, x, None, torch.tensor([3]))(x)
    log("attributes", out.grad_fn.to_save, out.grad_fn.saved_tensors)
    log(torch.autograd.grad(out.sum(), x))

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            y = x * 2
            ctx.save_for_backward(y, y)
            log("to_save", len(ctx.to_save), "saved", ctx.saved_tensors)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            log("again", a, b, a is b)
            return g

    torch.autograd.grad(Again.apply(x).sum(), x)

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log("nothing saved", ctx.saved_tensors)
            return g

    torch.autograd.grad(Nothing.apply(x).sum(), x)


def identity(torch, log, x):
    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            middle = x * 3
            out = middle * 2
            ctx.save_for_backward(x, middle, out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * 6

    h = x * 1
    out = Keeps.apply(h)
    saved = out.grad_fn.saved_tensors
    log("input", saved[0] is h, type(saved[0].grad_fn).__name__)
    log("intermediate", saved[1], saved[1].grad_fn)
    log("output", saved[2] is out, saved[2].grad_fn is out.grad_fn, saved[2])
    again = out.grad_fn.saved_tensors
    log("twice", again is saved, again[0] is saved[0], again[1] is saved[1], again[2] is saved[2])


def freed(torch, log, x):
    out = saving(torch, log, x)(x)
    s = out.sum()
    s.backward(retain_graph=True)
    s.backward()
    log.error("backward twice", lambda: s.backward())
    log.error("read after", lambda: out.grad_fn.saved_tensors)
    out = saving(torch, log, x, read=False)(x)
    s = out.sum()
    s.backward()
    log.error("never reads", lambda: s.backward())
    log.error("but is freed", lambda: out.grad_fn.saved_tensors)

    class Buffers(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, other):
            ctx.save_for_backward(x)
            ctx.other = other
            return x * 2

        @staticmethod
        def backward(ctx, g):
            if ctx.other is not None:
                log.error("the later node", lambda: ctx.other.saved_tensors)
            log.error("own", lambda: ctx.saved_tensors)
            return g * 2, None

    first = Buffers.apply(x, None)
    second = Buffers.apply(first, first.grad_fn)
    third = Buffers.apply(second, second.grad_fn)
    third.sum().backward()


def versions(torch, log):
    def attempt(label, change, what):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        h = x * 1

        class Keeps(torch.autograd.Function):
            @staticmethod
            def forward(ctx, h):
                out = h * 3
                ctx.save_for_backward(h if what == "input" else out)
                return out

            @staticmethod
            def backward(ctx, g):
                (a,) = ctx.saved_tensors
                return g * a

        out = Keeps.apply(h)
        with torch.no_grad():
            change(h, out)
        log.error(label, lambda: torch.autograd.grad(out.sum(), x))

    attempt("input", lambda h, out: h.add_(1), "input")
    attempt("output", lambda h, out: out.add_(1), "output")
    attempt("alias", lambda h, out: h.detach().mul_(2), "input")
    attempt("data", lambda h, out: h.data.mul_(2), "input")
    attempt("view", lambda h, out: h[:1].mul_(2), "input")
    attempt("twice", lambda h, out: h.mul_(2).add_(1), "input")
    attempt("nothing", lambda h, out: None, "output")


def second_order(torch, log):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            log("unpacked requires", x.requires_grad, g.requires_grad, torch.is_grad_enabled())
            return g * 2 * x

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            (out,) = ctx.saved_tensors
            return g * out

    class Middle(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            middle = x * x
            ctx.save_for_backward(middle, x)
            return middle * x

        @staticmethod
        def backward(ctx, g):
            middle, _ = ctx.saved_tensors
            return g * 3 * middle

    for function in (Square, Exp):
        x = torch.tensor([0.5, 2.0], requires_grad=True)
        (g,) = torch.autograd.grad(function.apply(x).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x, create_graph=True)
        log(function.__name__, g, h)
        log.error("third", lambda: torch.autograd.grad(h.sum(), x, create_graph=True))
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    (g,) = torch.autograd.grad(Middle.apply(x).sum(), x, create_graph=True)
    log("an intermediate is a constant of the second order", g)
