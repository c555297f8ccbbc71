"""TorchDispatchMode: what a mode sees, what becomes of what it returns, and how modes stand around each other."""


def leaf(torch, *values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def mode_class(torch):
    return torch.utils._python_dispatch.TorchDispatchMode


def logging(torch, log, tag="mode"):
    class Logging(mode_class(torch)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            shown = [tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in args]
            log(tag, str(func), [t.__name__ for t in types], str(shown), str(sorted((kwargs or {}).keys())))
            return func(*args, **(kwargs or {}))

    return Logging()


def run(torch, log):
    seen(torch, log)
    beneath(torch, log)
    results(torch, log)
    refused(torch, log)
    stacked(torch, log)
    disabled(torch, log)
    in_place(torch, log)
    changed(torch, log)
    backward(torch, log)
    overloads(torch, log)
    current(torch, log)
    factories(torch, log)


def seen(torch, log):
    x, y = leaf(torch, 0.5, 1.0, 2.0), leaf(torch, 1.0, 2.0, 3.0)
    with logging(torch, log):
        made = [(x * y).sin().sum(), x + 2, 2 * x, 3 - x, x**2, 2**x, torch.add(x, y, alpha=3), x.view(3, 1).t(), x[0]]
        made += [x.unsqueeze(0), x.expand(2, 3).sum(1, keepdim=True), x.reshape(3, 1) @ y.reshape(1, 3)]
        made += [torch.where(x > 1, x, y), torch.stack([x, y]), torch.cat([x, y]).softmax(0)]
    log(*made)


def beneath(torch, log):
    x = leaf(torch, 0.5, 1.0)

    class Looking(mode_class(torch)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log("same operand", args[0] is x, args[0].requires_grad, torch.is_grad_enabled())
            made = func(*args, **(kwargs or {}))
            log("made", made.requires_grad, made.grad_fn is None, made._is_view(), made._version)
            log("computed here", (args[0] * 2).requires_grad)
            with torch.enable_grad():
                log("under enable_grad", (args[0] * 2).requires_grad)
            self.made = made
            return made

    with Looking() as mode:
        y = x.sin()
        log(y is mode.made)
        v = x.view(2, 1)
        log(v is mode.made, v._is_view(), v._base is x)
    log(y, v)
    y.sum().backward()
    log(x.grad)


def results(torch, log):
    class Answer(mode_class(torch)):
        def __init__(self, answer):
            self.answer = answer

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return self.answer

    x = leaf(torch, 0.5, 1.0)
    a = torch.tensor([7.0, 8.0], dtype=torch.float64)
    with Answer(a):
        y = x.sin()
    log(y is a, y)
    y.sum().backward()
    log(x.grad)
    for answer in (3, "text", [a], NotImplemented):
        with Answer(answer):
            try:
                x.sin()
            except Exception as error:
                log(type(error).__name__, str(error).replace(torch.__name__, "torch").split("object at")[0])
    z, b, c, one = torch.ones(2), a.reshape(1, 2), a[:1].clone(), torch.tensor([1])
    with Answer(None):
        log(x.sin() is None)
        log(z.mul_(3) is z)
    log(z, z._version)
    with Answer((c, one)):
        found = torch.max(b, 1)
    log(type(found).__name__, found.values, found.indices)
    for answer in (None, 3):
        with Answer(answer):
            log.error("max", lambda: torch.max(b, 1))


def refused(torch, log):
    class Nothing(mode_class(torch)):
        pass

    class Broken(mode_class(torch)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise KeyError(str(func))

    x = leaf(torch, 0.5)
    for mode in (Nothing(), Broken()):
        with mode:
            log.error("sin", x.sin)
        log(torch.utils._python_dispatch._get_current_dispatch_mode() is None, x.sin())


def stacked(torch, log):
    x = leaf(torch, 0.5)
    with logging(torch, log, "outer"), logging(torch, log, "inner"):
        x.sin()
    mode = logging(torch, log, "twice")
    with mode, mode:
        x.cos()

    class Composing(mode_class(torch)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log("composing", str(func))
            return func(args[0] * 2)

    with logging(torch, log, "around"), Composing():
        y = x.exp()
    log(y)

    class Again(mode_class(torch)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log("again", str(func))
            if str(func) == "aten.tan.default":
                with self:
                    return torch.sin(args[0]) / torch.cos(args[0])
            return func(*args, **(kwargs or {}))

    with Again():
        y = x.tan()
    log(y)


def disabled(torch, log):
    modes = torch.utils._python_dispatch
    x = leaf(torch, 0.5)
    with logging(torch, log, "a") as a, logging(torch, log, "b") as b:
        log(
            modes._get_current_dispatch_mode() is b,
            [m is n for m, n in zip(modes._get_current_dispatch_mode_stack(), [a, b])],
        )
        with modes._disable_current_modes() as taken:
            log([m is n for m, n in zip(taken, [b, a])], len(modes._get_current_dispatch_mode_stack()))
            x.sin()
        with modes._pop_mode_temporarily() as popped:
            log(popped is b)
            x.cos()
        x.exp()
        log(modes.is_in_torch_dispatch_mode())
    log(modes.is_in_torch_dispatch_mode(), len(modes._get_current_dispatch_mode_stack()))


def in_place(torch, log):
    x = leaf(torch, 0.5, 1.0)
    z = torch.ones(2, dtype=torch.float64)
    d = x.detach()
    with logging(torch, log):
        y = x * 1
        y.mul_(3)
        log(y._version)
        y += x
        z.add_(1).exp_().clamp_(0, 5)
        log(z._version)
        w = y.view(2, 1)
        w.mul_(2)
        torch.sin(z, out=z)
        log(z._version)
        z[1:2] = 4.0
        z[0] = 3.0
        z.copy_(d)
        log.error("leaf", lambda: x.mul_(2))
        log.error("out", lambda: torch.sin(x, out=z))
    log(y, w, z)

    class Versions(mode_class(torch)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            made = func(*args, **(kwargs or {}))
            log(str(func), args[0]._version, made is args[0])
            return made

    with Versions():
        z.mul_(2)
    log(z._version)


def changed(torch, log):
    class Doubling(mode_class(torch)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            args = tuple(a * 2 if isinstance(a, torch.Tensor) else a for a in args)
            return func(*args, **(kwargs or {}))

    x, y = leaf(torch, 0.5, 1.0), leaf(torch, 2.0, 3.0)
    with Doubling():
        made = [
            x.sin(), x * y, x.sum(0), x.unsqueeze(1), x.softmax(0), x.to(torch.float32), x[1:2], x.max(0).values,
            x.clamp(0, 0.7), x.view(2, 1), torch.add(x, y, alpha=2), x.transpose(0, 0), x**2, x.exp(), x.var(), x.norm(),
        ]  # fmt: skip
    log(*made)


def backward(torch, log):
    x, y = leaf(torch, 0.5, 1.0), leaf(torch, 2.0, 3.0)
    with logging(torch, log):
        (x * y).exp().sum().backward()
        (x * x).sum().backward()
        (g,) = torch.autograd.grad((x.sin() * x).sum(), x, create_graph=True)
    log(x.grad, y.grad, g)
    g.sum().backward()
    log(x.grad)


def overloads(torch, log):
    aten = torch.ops.aten
    for op in (
        aten.sin.default,
        aten.add.Tensor,
        aten.mul_.Tensor,
        aten.pow.Tensor_Scalar,
        aten.sum.dim_IntList,
        aten.sin.out,
    ):
        schema = op._schema
        log(op.__name__, str(op), repr(op), op.name(), op.namespace, op._overloadname, str(op.overloadpacket), str(schema))
        log(schema.name, schema.overload_name, [a.name for a in schema.arguments], [str(a.type) for a in schema.arguments])
        log([(a.kwarg_only, a.is_out, a.has_default_value(), a.default_value) for a in schema.arguments])
        log([a.alias_info is not None and a.alias_info.is_write for a in schema.arguments], len(schema.returns), op.is_view)
    log(aten.sin.default is aten.sin.default, aten.sin.default in {aten.sin.default}, aten.sin.default == aten.cos.default)
    log(repr(aten.sin), str(aten.sin), aten.sin.overloads()[:2], aten.sin.default.overloadpacket is aten.sin)
    log.error("overload", lambda: aten.sin.nope)
    log.error("name", lambda: aten.nope)
    x = leaf(torch, 0.5, 1.0)
    log(aten.sin.default(x), aten.add.Tensor(x, 2, alpha=3), aten.sum.dim_IntList(x, [0], True), aten.sin(x), aten.mul(x, 3))
    log(aten.sin.default(self=x), aten.pow.Tensor_Scalar(x, 2), aten._softmax.default(x, 0, False))


def current(torch, log):
    modes = torch.utils._python_dispatch

    class Asking(mode_class(torch)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            log(modes._get_current_dispatch_mode() is None, len(modes._get_current_dispatch_mode_stack()))
            return func(*args, **(kwargs or {}))

    x = leaf(torch, 0.5)
    with Asking() as mode:
        x.sin()
        log(modes._get_current_dispatch_mode() is mode, mode.is_infra_mode(), mode.ignore_compile_internals())


def factories(torch, log):
    """How tensors are made and read: operations, arguments, and what a handler returns in their place."""

    class Making(mode_class(torch)):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            options = {name: str(value) for name, value in (kwargs or {}).items()}
            log(str(func), [x if not isinstance(x, torch.Tensor) else "tensor" for x in args], options)
            made = func(*args, **(kwargs or {}))
            return made * 3 if str(func) == "aten.ones.default" else made

    with Making():
        x = torch.ones(2, requires_grad=True)
        log("tripled", x, x.is_leaf)
        torch.zeros((2, 3), dtype=torch.float64, device="cpu")
        torch.full((2,), 1.5), torch.arange(1, 5), torch.arange(1.0, 5.0, 2.0), torch.eye(2, 3), torch.linspace(0, 1, 3)
        torch.tensor([1, 2], dtype=torch.float64, requires_grad=True)
        torch.zeros_like(x, dtype=torch.int64), x.new_zeros(2), x.new_full((2,), 1.0), x.new_tensor([1.0])
        torch.empty(2, dtype=torch.float32), torch.rand(2), torch.randint(1, 3, (2,)), torch.randn((1,)), torch.randperm(3)
        log("read", x.detach()[0].item(), bool(x.sum() > 1), float(x.detach()[1]))
        log("compared", torch.equal(x, x), torch.allclose(x, x, rtol=0.1))
