"""Functions with some of ``backward``, ``jvp`` and ``vmap`` in ``torch.func``: which runs, and what absent ones say."""


def run(torch, log):
    func = torch.func
    Function = torch.autograd.Function
    x = torch.tensor([1.0, 2.0])
    batch = torch.stack((x, x * 2))

    class Both(Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            return ctx.saved_tensors[0] * grad  # no derivative: who runs is seen by the result

        @staticmethod
        def jvp(ctx, tangent):
            log("jvp runs")
            return 3 * ctx.saved_tensors[0] ** 2 * tangent

    class OnlyJvp(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def jvp(ctx, tangent):
            return 3 * ctx.saved_tensors[0] ** 2 * tangent

    class OnlyVmap(Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def vmap(info, in_dims, x):
            return OnlyVmap.apply(x), in_dims[0]

    class OnlyBackward(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    class Nothing(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

    value, push = func.linearize(Both.apply, x)
    log("linearize", value, push(x), push(x * 2))
    value, push = func.linearize(lambda a, b: {"a": Both.apply(a) * b, "b": a.sum()}, x, x)
    log("linearize of two", value, push(x, x))
    log.error("too many tangents", lambda: func.linearize(torch.sin, x)[1](torch.ones(3)))
    log.error("of another dtype", lambda: func.linearize(torch.sin, x)[1](x.double()))

    def attempts(label, f, forward):
        def total(x):
            return f(x).sum()

        log(label, f(x), func.vmap(f)(batch) if label != "Both" else "")
        log.error(f"{label}, grad", lambda: log("grad", func.grad(total)(x)))
        log.error(f"{label}, vjp", lambda: log("vjp", func.vjp(f, x)[1](x)))
        log.error(f"{label}, jacrev", lambda: log("jacrev", func.jacrev(f)(x)) if label != "Both" else None)
        if forward:
            log.error(f"{label}, jvp", lambda: log("jvp", func.jvp(f, (x,), (x,))))
            log.error(f"{label}, linearize", lambda: log("linearize", func.linearize(f, x)[1](x)))
        log.error(f"{label}, constant", lambda: log("constant", func.grad(lambda y: total(x) + y.sum())(x)))
        log.error(f"{label}, backward", lambda: total(x.clone().requires_grad_()).backward())

    attempts("Both", Both.apply, True)
    attempts("OnlyJvp", OnlyJvp.apply, True)
    attempts("OnlyVmap", OnlyVmap.apply, True)
    attempts("OnlyBackward", OnlyBackward.apply, False)
    attempts("Nothing", Nothing.apply, True)
