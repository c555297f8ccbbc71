"""In-place Functions: mark_dirty on leaves, results, views and constants; and in place without it."""


def run(torch, log):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    h = x * 1
    before = h._version
    old = h.grad_fn
    out = Double.apply(h)
    log("same object", out is h, out, h._version - before)
    log("history", h.grad_fn.next_functions[0][0] is old, type(h.grad_fn).__name__)
    log(torch.autograd.grad((h * 3).sum(), x))
    log.error("leaf", lambda: Double.apply(x))
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    plain = torch.tensor([1.0, 2.0])
    before = plain._version
    out = Double.apply(plain)
    log("constant", out is plain, out, plain._version - before)
    with torch.no_grad():
        out = Double.apply(x)
    log("no_grad leaf", out is x, out)

    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    base = x * 1
    view = base[1:]
    out = Double.apply(view)
    log("view", out is view, type(base.grad_fn).__name__, type(view.grad_fn).__name__, base)
    log(torch.autograd.grad((base * torch.tensor([1.0, 10.0, 100.0])).sum(), x))

    class Unmarked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    h = x * 1
    before, node = h._version, h.grad_fn
    out = Unmarked.apply(h)
    log("unmarked", out is h, h.grad_fn is node, h._version - before, type(out.grad_fn).__name__, h, out)

    class NotReturned(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    log.error("not returned", lambda: NotReturned.apply(x * 1))

    class NotAnInput(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * 2

    out = NotAnInput.apply(x)
    log("not an input", out, torch.autograd.grad(out.sum(), x))

    class Number(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(3)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    log.error("number", lambda: Number.apply(x))

    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            a.add_(b)
            ctx.mark_dirty(a)
            return a, b * 2

        @staticmethod
        def backward(ctx, g, h):
            return g, g + 2 * h

    a, y = torch.zeros(3), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out, other = First.apply(a, y)
    log("constant becomes differentiable", out is a, a, other)
    log(torch.autograd.grad((out * 3 + other).sum(), y))

    # A value saved by an earlier operation and overwritten by the Function.
    h = x * 1
    e = h.exp()
    square = e * e
    Double.apply(e)
    log.error("overwritten", lambda: square.sum().backward())
