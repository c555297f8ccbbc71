"""Warnings of the autograd core: how many, which, and when none."""

import warnings


def run(torch, log):
    def count(label, attempt):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                value = attempt()
            except Exception as error:
                value = f"{type(error).__name__}: {error}"
        log(label, len(caught), *[f"{w.category.__name__}: {str(w.message).split(' (Triggered')[0]}" for w in caught])
        if isinstance(value, str):
            log("  raises", value)

    tensors(torch, log, count)
    functions(torch, log, count)
    engine(torch, log, count)


def tensors(torch, log, count):
    a = torch.ones(3, requires_grad=True)
    x = a * 2
    count("grad of a leaf", lambda: a.grad)
    count("grad of no leaf", lambda: x.grad)
    count("again", lambda: (x.grad, x.grad))
    count("grad of a view", lambda: a[1:].grad)
    count("grad of a constant", lambda: torch.ones(3).grad)
    count("grad of a detached one", lambda: x.detach().grad)
    x.retain_grad()
    count("grad of a retaining one", lambda: x.grad)
    x.sum().backward()
    count("after backward", lambda: x.grad)
    y = a * 3
    y.grad = torch.ones(3)
    count("grad that was set", lambda: y.grad)
    y = a * 3
    count("inputs=", lambda: (y.sum().backward(inputs=[y]), y.grad))
    with torch.no_grad():
        count("in no_grad", lambda: (a * 2).grad)
    z = torch.ones(3)
    z.mul_(a)
    count("of what was written", lambda: z.grad)
    count("hasattr", lambda: hasattr(a * 2, "grad"))
    count("is_leaf and the like", lambda: ((a * 2).is_leaf, (a * 2).requires_grad, (a * 2).grad_fn))
    count("float of one", lambda: float(torch.ones(1, requires_grad=True)))
    count("int of one", lambda: int(torch.ones(1, requires_grad=True)))
    count("float of a computed one", lambda: float(torch.ones(1, requires_grad=True) * 2))
    count("complex of one", lambda: complex(torch.ones(1, requires_grad=True) * 2))
    count("item of one", lambda: torch.ones(1, requires_grad=True).item())
    count("tolist", lambda: a.tolist())
    count("bool", lambda: bool(torch.ones(1, requires_grad=True)))
    count("index", lambda: [1, 2, 3][torch.tensor(1)])
    count("format", lambda: f"{torch.ones(()).requires_grad_():.2f}")
    count("float of no gradient", lambda: float(torch.ones(1)))
    count("tensor of a tensor", lambda: torch.tensor(a))
    count("tensor of a constant", lambda: torch.tensor(torch.ones(2)))
    count("as_tensor", lambda: torch.as_tensor(a))
    count("T of a vector", lambda: a.T)
    count("T of three", lambda: torch.ones(2, 3, 4).T)
    count("volatile", lambda: a.volatile)
    count("copy.copy", lambda: __import__("copy").copy(a))


def functions(torch, log, count):
    def make(forward, backward=lambda ctx, g: g, **attributes):
        names = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        return type("Made", (torch.autograd.Function,), names | attributes)

    a = torch.ones(3, requires_grad=True)
    other = torch.ones(3)
    marked = {
        "a non-input": lambda ctx, x: (ctx.mark_dirty(other), x * 2)[1],
        "an output": lambda ctx, x: next((ctx.mark_dirty(y), y)[1] for y in [x * 2]),
        "an input": lambda ctx, x: (ctx.mark_dirty(x), x.add_(1))[1],
        "an input and another": lambda ctx, x: (ctx.mark_dirty(x, other), x.add_(1), other)[1:],
        "two others": lambda ctx, x: next((ctx.mark_dirty(y, other), y, other)[1:] for y in [x * 2]),
        "a number": lambda ctx, x: (ctx.mark_dirty(3), x * 2)[1],
        "None": lambda ctx, x: (ctx.mark_dirty(None), x * 2)[1],
        "a list": lambda ctx, x: (ctx.mark_dirty([x]), x.add_(1))[1],
        "nothing": lambda ctx, x: (ctx.mark_dirty(), x * 2)[1],
        "twice": lambda ctx, x: (ctx.mark_dirty(x), ctx.mark_dirty(x), x.add_(1))[2],
        "after another": lambda ctx, x: (ctx.mark_dirty(other), ctx.mark_dirty(x), x.add_(1))[2],
    }
    for name, forward in marked.items():
        count(f"mark_dirty {name}", lambda: make(forward).apply(a * 1))
        count("  of a constant", lambda: make(forward).apply(torch.ones(3)))
    saved = {
        "a list": lambda ctx, x: (ctx.save_for_backward([x]), x * 2)[1],
        "a tuple": lambda ctx, x: (ctx.save_for_backward((x, x)), x * 2)[1],
        "a tensor and a list": lambda ctx, x: (ctx.save_for_backward(x, [x]), x * 2)[1],
        "a number": lambda ctx, x: (ctx.save_for_backward(x, 3), x * 2)[1],
        "None": lambda ctx, x: (ctx.save_for_backward(None), x * 2)[1],
        "nothing": lambda ctx, x: (ctx.save_for_backward(), x * 2)[1],
        "an array": lambda ctx, x: (ctx.save_for_backward(x.detach().numpy()), x * 2)[1],
        "a string": lambda ctx, x: (ctx.save_for_backward("x"), x * 2)[1],
        "a dict": lambda ctx, x: (ctx.save_for_backward({}), x * 2)[1],
    }
    for name, forward in saved.items():
        count(f"save_for_backward {name}", lambda: make(forward).apply(a))
        count("  of a constant", lambda: make(forward).apply(torch.ones(3)))
    constants = {
        "a list": lambda ctx, x: (ctx.mark_non_differentiable([x]), x * 2)[1],
        "a number": lambda ctx, x: (ctx.mark_non_differentiable(3), x * 2)[1],
        "None": lambda ctx, x: (ctx.mark_non_differentiable(None), x * 2)[1],
        "another tensor": lambda ctx, x: (ctx.mark_non_differentiable(other), x * 2)[1],
        "nothing": lambda ctx, x: (ctx.mark_non_differentiable(), x * 2)[1],
    }
    for name, forward in constants.items():
        count(f"mark_non_differentiable {name}", lambda: make(forward).apply(a))
        count("  of a constant", lambda: make(forward).apply(torch.ones(3)))
    for value in (1, None, "no", 0.0):
        forward = lambda ctx, x, value=value: (ctx.set_materialize_grads(value), x * 2)[1]
        count(
            f"set_materialize_grads {value}",
            lambda: make(lambda ctx, x: (ctx.set_materialize_grads(value), x * 2)[1]).apply(a),
        )
    count("save_for_forward", lambda: make(lambda ctx, x: (ctx.save_for_forward(3), x * 2)[1]).apply(a))
    count("an instance", lambda: make(lambda ctx, x: x)() and None)
    count("a call of one", lambda: make(lambda ctx, x: x)()(a))

    def reads(ctx, g):
        ctx.saved_variables
        return g

    function = make(lambda ctx, x: (ctx.save_for_backward(x), x * 2)[1], reads)
    count("saved_variables", lambda: function.apply(a).sum().backward())


def engine(torch, log, count):
    a = torch.ones(3, requires_grad=True)
    count("create_graph", lambda: (a * a).sum().backward(create_graph=True))
    count("create_graph, hooks", lambda: (a * a).sum().backward(create_graph=True))
    a.grad = None
    count("create_graph of grad", lambda: torch.autograd.grad((a * a).sum(), a, create_graph=True))
    count("create_graph that fails", lambda: (a * a).backward(create_graph=True))
    count("create_graph of nothing", lambda: torch.ones(()).backward(create_graph=True))

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            raise ValueError("in backward")

    count("create_graph that raises within", lambda: Fails.apply(a).sum().backward(create_graph=True))
    count("backward", lambda: (a * a).sum().backward())
    count("retain_grad of a leaf", lambda: a.retain_grad())
    count("set_grad_enabled", lambda: torch.set_grad_enabled(True))
    count("no_grad of a function", lambda: torch.no_grad(lambda: None)())
    count("no_grad of a class", lambda: torch.no_grad()(type("Empty", (), {})))
    count("layout", lambda: (torch.ones(2, 3, requires_grad=True).t() * 1).sum().backward())
