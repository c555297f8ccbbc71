"""What forward may return: tuples, lists, non-tensors, inputs as they are, the same tensor twice, views of inputs."""


def run(torch, log):
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    containers(torch, log, x)
    inputs_returned(torch, log, x)
    twice(torch, log, x)


def containers(torch, log, x):
    def returning(make):
        class Given(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return make(x)

            @staticmethod
            def backward(ctx, *grads):
                log("grads", grads)
                return grads[0]

        return Given.apply

    out = returning(lambda x: (x * 2,))(x)
    log("1-tuple", type(out), out)
    log(torch.autograd.grad(out[0].sum(), x))
    out = returning(lambda x: [x * 2, x * 3])(x)
    log("list", type(out), out)
    log("nested", returning(lambda x: (x * 2, [x * 3], (x * 4, 1), {"a": x}))(x))
    log("None", returning(lambda x: None)(x))
    log("number", returning(lambda x: 3)(x))
    log("text", returning(lambda x: "text")(x))
    log("empty", returning(lambda x: ())(x))
    log("tuple of numbers", returning(lambda x: (1, 2))(x))
    fresh = torch.tensor([7.0])
    out = returning(lambda x: fresh)(x)
    log("a constant", out, out is fresh)


def inputs_returned(torch, log, x):
    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10

    out = Same.apply(x)
    log("same", out, out is x, out._is_view(), out._base is x, out.is_leaf)
    log(torch.autograd.grad(out.sum(), x))
    log("leaf still", x.grad_fn, x.is_leaf)
    plain = torch.tensor([1.0, 2.0])
    out = Same.apply(plain)
    log("plain", out, out is plain, out._is_view())
    with torch.no_grad():
        out = Same.apply(x)
    log("no_grad", out, out is x, out._is_view())
    h = x * 2
    out = Same.apply(h)
    log("non-leaf", out, out is h, type(h.grad_fn).__name__, out._is_view())
    log(torch.autograd.grad(out.sum(), x))

    class Some(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * 2, b

        @staticmethod
        def backward(ctx, g, h):
            return g * 2, h * 3

    a, b = Some.apply(x, plain[:1])
    log("constant input returned", a, b, b.requires_grad)

    class Slice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x[1:]

        @staticmethod
        def backward(ctx, g):
            return torch.cat([torch.zeros(1), g])

    out = Slice.apply(x)
    log("slice", out, out._is_view(), out._base is x)
    log(torch.autograd.grad(out.sum(), x))
    out = Slice.apply(x * 1)
    log.error("in place on a view of a custom Function", lambda: out.mul_(2))
    same = Same.apply(x * 1)
    log.error("in place on an input returned", lambda: same.mul_(2))


def twice(torch, log, x):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, g, h):
            log("slots", g, h)
            return (g + h) * 2

    a, b = Twice.apply(x)
    log("twice", a is b, a.output_nr, a)
    log(torch.autograd.grad((a + b).sum(), x))

    class InputTwice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x, x

        @staticmethod
        def backward(ctx, g, h):
            log("slots", g, h)
            return g + h

    a, b = InputTwice.apply(x)
    log("input twice", a is b, a is x, a.output_nr, b.output_nr)
    log(torch.autograd.grad((a + b * 2).sum(), x))

    class ArgumentTwice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            log("same argument", a is b)
            return a * b

        @staticmethod
        def backward(ctx, g):
            return g * 2, g * 3

    log(torch.autograd.grad(ArgumentTwice.apply(x, x).sum(), x))
