"""How apply binds arguments: defaults, keywords, non-tensors, both forward styles, lookups on the class."""


def run(torch, log):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    setup_style(torch, log, x)
    ctx_style(torch, log, x)
    lookups(torch, log, x)


def setup_style(torch, log, x):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(x, k=3.0, bias=None):
            log("forward", k, bias, torch.is_grad_enabled())
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            log("inputs", inputs, "output", output, type(inputs))
            log("grad mode", torch.is_grad_enabled(), "needs", ctx.needs_input_grad)
            ctx.k = inputs[1]
            ctx.save_for_backward(inputs[0], output)

        @staticmethod
        def backward(ctx, g):
            log("needs", ctx.needs_input_grad)
            a, b = ctx.saved_tensors
            log("saved", a is x, a, b)
            return g * ctx.k, None, None

    out = Scale.apply(x)
    log(out)
    out.sum().backward()
    log(x.grad)
    log(Scale.apply(x, 2.0).grad_fn.next_functions[1:])
    out = Scale.apply(x, bias=x)
    log([n is None for n, _ in out.grad_fn.next_functions])
    out = Scale.apply(x, bias=torch.tensor(1.0), k=5.0)
    log(out)
    log.error("one argument too many", lambda: Scale.apply(x, 1.0, None, 4))
    log.error("unknown keyword", lambda: Scale.apply(x, scale=4))
    log.error("missing argument", lambda: Scale.apply())

    class Short(Scale):
        @staticmethod
        def backward(ctx, g):
            return g * ctx.k

    log.error("a default has a slot", lambda: Short.apply(x).sum().backward())

    class Pair(torch.autograd.Function):
        @staticmethod
        def forward(a, b):
            return a * b, a + b

        @staticmethod
        def setup_context(ctx, inputs, output):
            log("output is a tuple", isinstance(output, tuple), len(output))
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g, h):
            a, b = ctx.saved_tensors
            return g * b + h, g * a + h

    y = torch.tensor([3.0, 4.0], requires_grad=True)
    p, s = Pair.apply(x, y)
    log("numbers", p.output_nr, s.output_nr, p.grad_fn is s.grad_fn)
    log(torch.autograd.grad((p * s).sum(), (x, y)))

    class KeywordOnly(torch.autograd.Function):
        @staticmethod
        def forward(x, *, k):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            log("keyword-only inputs", len(inputs))

        @staticmethod
        def backward(ctx, g):
            return g

    log.error("keyword-only", lambda: KeywordOnly.apply(x, k=2.0))
    log.error("keyword-only by position", lambda: KeywordOnly.apply(x, 2.0))

    class Many(torch.autograd.Function):
        @staticmethod
        def forward(*args):
            return args[0] * len(args)

        @staticmethod
        def setup_context(ctx, inputs, output):
            log("many", len(inputs), inputs[1:])

        @staticmethod
        def backward(ctx, g):
            return g * 7, None, None

    out = Many.apply(x, 1, "two")
    log(out, torch.autograd.grad(out.sum(), x))


def ctx_style(torch, log, x):
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, k=3.0, bias=None):
            log("forward", k, bias, "needs", ctx.needs_input_grad)
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, g):
            log("needs", ctx.needs_input_grad)
            return (g * ctx.k,) + (None,) * (len(ctx.needs_input_grad) - 1)

    out = Scale.apply(x)
    log("edges", len(out.grad_fn.next_functions))
    log(torch.autograd.grad(out.sum(), x))
    log.error("keyword", lambda: Scale.apply(x, k=2.0))
    log.error("keyword tensor", lambda: len(Scale.apply(x, bias=x).grad_fn.next_functions))
    log.error("unknown keyword", lambda: Scale.apply(x, scale=4))
    log.error("missing", lambda: Scale.apply())
    log.error("first argument by keyword", lambda: Scale.apply(k=2.0, x=x))
    log.error("too many", lambda: Scale.apply(x, 1.0, None, 4))

    class KeywordOnly(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *, k):
            ctx.k = k
            return x * k

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k

    log.error("keyword-only", lambda: KeywordOnly.apply(x, k=2.0))

    class Container(torch.autograd.Function):
        @staticmethod
        def forward(ctx, items, x):
            log("items", items, ctx.needs_input_grad)
            return items[0] * x

        @staticmethod
        def backward(ctx, g):
            return None, g

    out = Container.apply([x, x], x)
    log(out, torch.autograd.grad(out.sum(), x))


def lookups(torch, log, x):
    class Plain(torch.autograd.Function):
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        def backward(ctx, g):
            return g * 2

    log.error("without staticmethod", lambda: torch.autograd.grad(Plain.apply(x).sum(), x))

    class OnClass(torch.autograd.Function):
        factor = 5.0

        @classmethod
        def forward(cls, ctx, x):
            ctx.save_for_backward(x)
            return x * cls.factor

        @classmethod
        def backward(cls, ctx, g):
            log("cls", cls)
            return g * cls.factor

    log.error("classmethod", lambda: torch.autograd.grad(OnClass.apply(x).sum(), x))

    class SetupOnClass(torch.autograd.Function):
        @classmethod
        def forward(cls, x):
            return x * 4.0

        @classmethod
        def setup_context(cls, ctx, inputs, output):
            ctx.factor = 4.0

        @classmethod
        def backward(cls, ctx, g):
            return g * ctx.factor

    log.error("classmethods and setup_context", lambda: torch.autograd.grad(SetupOnClass.apply(x).sum(), x))

    class Child(OnClass):
        factor = 7.0

    out = Child.apply(x)
    log("child", out, torch.autograd.grad(out.sum(), x))
    apply = Child.apply
    log("bound apply", apply(x))
