"""What backward may return, and what it is given: counts, numbers, shapes, dtypes, None, materialized zeros."""


def run(torch, log):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = torch.tensor([4.0, 5.0, 6.0], requires_grad=True)
    counts(torch, log, x, y)
    values(torch, log, x)
    undefined(torch, log, x, y)
    outputs(torch, log, x)


def returning(torch, gradients):
    class Given(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *args):
            return args[0] * 1.0

        @staticmethod
        def backward(ctx, g):
            return gradients(g)

    return Given.apply


def counts(torch, log, x, y):
    log.error("too few", lambda: returning(torch, lambda g: g)(x, y).sum().backward())
    log.error("too few, non-tensor", lambda: returning(torch, lambda g: g)(x, 3).sum().backward())
    log.error("empty", lambda: returning(torch, lambda g: ())(x).sum().backward())
    log.error("extra None", lambda: torch.autograd.grad(returning(torch, lambda g: (g, None, None))(x).sum(), x))
    log.error("extra tensor", lambda: returning(torch, lambda g: (g, g))(x).sum().backward())
    log.error("extra None then tensor", lambda: returning(torch, lambda g: (g, None, g))(x).sum().backward())
    log.error("list", lambda: torch.autograd.grad(returning(torch, lambda g: [g, g])(x, y).sum(), (x, y)))
    log.error("list for one", lambda: torch.autograd.grad(returning(torch, lambda g: [g])(x).sum(), x))
    log.error("tuple for one", lambda: torch.autograd.grad(returning(torch, lambda g: (g,))(x).sum(), x))


def values(torch, log, x):
    log.error("for a number", lambda: returning(torch, lambda g: (g, g))(x, 3.0).sum().backward())
    c = torch.tensor([1.0, 1.0, 1.0])
    log.error("for a constant tensor", lambda: torch.autograd.grad(returning(torch, lambda g: (g, g))(x, c).sum(), x))
    log.error("float", lambda: returning(torch, lambda g: 1.0)(x).sum().backward())
    log.error("float of two", lambda: returning(torch, lambda g: (g, 2))(x, x).sum().backward())
    log.error("str", lambda: returning(torch, lambda g: "one")(x).sum().backward())
    log.error("larger", lambda: returning(torch, lambda g: torch.ones(4))(x).sum().backward())
    log.error("broadcastable", lambda: torch.autograd.grad(returning(torch, lambda g: torch.ones(2, 3))(x).sum(), x))
    log.error("smaller", lambda: returning(torch, lambda g: torch.ones(1))(x).sum().backward())
    log.error("scalar", lambda: returning(torch, lambda g: torch.ones(()))(x).sum().backward())
    log.error("second", lambda: returning(torch, lambda g: (g, torch.ones(5)))(x, x).sum().backward())
    log.error("double", lambda: torch.autograd.grad(returning(torch, lambda g: g.double())(x).sum(), x))
    log.error("int", lambda: torch.autograd.grad(returning(torch, lambda g: torch.tensor([1, 2, 3]))(x).sum(), x))
    w = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    log.error("float for double", lambda: torch.autograd.grad(returning(torch, lambda g: g.float())(w).sum(), w))
    col = torch.ones(1, 3, requires_grad=True)
    log.error("sum of one axis", lambda: torch.autograd.grad(returning(torch, lambda g: torch.ones(2, 3))(col).sum(), col))


def undefined(torch, log, x, y):
    out = returning(torch, lambda g: (None, g))(x, y)
    out.sum().backward()
    log("None", x.grad, y.grad)
    y.grad = None
    log.error("grad of None", lambda: torch.autograd.grad(returning(torch, lambda g: (None, g))(x, y).sum(), x))
    log.error(
        "allow_unused",
        lambda: torch.autograd.grad(returning(torch, lambda g: (None, g))(x, y).sum(), (x, y), allow_unused=True),
    )

    def two(materialize):
        class Two(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(materialize)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, g, h):
                log("given", g, h)
                if g is None:
                    return None if h is None else h * 3
                return g * 2 if h is None else g * 2 + h * 3

        return Two.apply

    for materialize in (True, False):
        a, b = two(materialize)(x)
        log("first only", torch.autograd.grad(a.sum(), x))
        a, b = two(materialize)(x)
        log("second only", torch.autograd.grad(b.sum(), x))
        a, b = two(materialize)(x)
        log("both", torch.autograd.grad((a + b).sum(), x))
        # A node that is only fed undefined gradients is still called.
        a, b = two(materialize)(x)
        stopped = returning(torch, lambda g: None)(a)
        log("undefined", torch.autograd.grad(stopped.sum(), x, allow_unused=True))


def outputs(torch, log, x):
    class Mixed(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            mask = x > 1.5
            top = x.clone()
            ctx.mark_non_differentiable(mask, top)
            return x * 2, mask, top, torch.tensor([1, 2]), "text", None, 3

        @staticmethod
        def backward(ctx, *grads):
            log("grads", grads)
            return grads[0] * 2, None

    for materialize in (True, False):
        out, mask, top, ints, *rest = Mixed.apply(x, materialize)
        log(out, mask, top, ints, *rest)
        log("requires", mask.requires_grad, top.requires_grad, ints.requires_grad, top.grad_fn, top.is_leaf)
        log(torch.autograd.grad(out.sum(), x))

    class AllConstant(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x * 2
            ctx.mark_non_differentiable(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g

    log(AllConstant.apply(x))

    class Marked(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(3)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g

    log.error("mark a number", lambda: Marked.apply(x))

    class MarkedInput(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_non_differentiable(x)
            return x, x * 2

        @staticmethod
        def backward(ctx, g, h):
            log("marked input", g, h)
            return h * 2

    a, b = MarkedInput.apply(x)
    log(a, b, torch.autograd.grad(b.sum(), x))

    class Integer(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.long()

        @staticmethod
        def backward(ctx, g):
            return g

    log("integer", Integer.apply(x), Integer.apply(x).grad_fn)
