"""Errors of Functions: missing and conflicting methods, once_differentiable, exceptions of one's own, instances."""


class MyError(ValueError):
    pass


def run(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    missing(torch, log, x)
    once(torch, log)
    raising(torch, log, x)
    instances(torch, log, x)


def missing(torch, log, x):
    class Empty(torch.autograd.Function):
        pass

    class NoBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    class Both(NoBackward):
        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return g

    class Vjp(NoBackward):
        @staticmethod
        def vjp(ctx, g):
            return g * 2

    class NoSetup(torch.autograd.Function):
        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    log.error("no forward", lambda: Empty.apply(x))
    log.error("no forward but setup_context", lambda: NoSetup.apply(x))
    out = NoBackward.apply(x)
    log("forward alone", out)
    log.error("no backward", lambda: out.sum().backward())
    out = Both.apply(x)
    log.error("both", lambda: out.sum().backward())
    log.error("vjp alone", lambda: torch.autograd.grad(Vjp.apply(x).sum(), x))


def once(torch, log):
    from_function = torch.autograd.function.once_differentiable

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @from_function
        def backward(ctx, g):
            log("grad mode", torch.is_grad_enabled())
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    log("first", torch.autograd.grad(Once.apply(x).sum(), x))
    (g,) = torch.autograd.grad(Once.apply(x).sum(), x, create_graph=True)
    log("constant", g.requires_grad, g)
    weight = torch.tensor([1.0, 1.0], requires_grad=True)
    (g,) = torch.autograd.grad(Once.apply(x), x, weight, create_graph=True)
    log("error node", g.requires_grad, g.grad_fn.name())
    log.error("second", lambda: g.sum().backward())
    log.error("second to x", lambda: torch.autograd.grad(g.sum(), x))


def raising(torch, log, x):
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, where):
            ctx.where = where
            if where == "forward":
                raise MyError("in forward")
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise MyError("in backward")

    log.error("forward", lambda: Raises.apply(x, "forward"))
    log.error("backward", lambda: Raises.apply(x, "backward").sum().backward())
    log("grad mode after", torch.is_grad_enabled(), x.grad)
    h = x * 3
    log.error("deep", lambda: (Raises.apply(h, "backward") * 2).sum().backward())


def instances(torch, log, x):
    class Instance(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    f = Instance()
    log.error("call", lambda: f(x))
    log("apply of an instance", f.apply(x))

    class Deprecated(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log("saved_variables", ctx.saved_variables)
            return g * 2

    log.error("deprecated name", lambda: torch.autograd.grad(Deprecated.apply(x).sum(), x))
