"""What the engine is given: inputs that are no leaves, leaves that want no gradients any more, accumulation, hooks."""


def leaf(torch, *values):
    return torch.tensor(values or (1.0, 2.0), requires_grad=True)


def run(torch, log):
    inputs(torch, log)
    switched_off(torch, log)
    accumulation(torch, log)
    hooks(torch, log)


def inputs(torch, log):
    log("inputs that are no leaves")
    a = leaf(torch)
    b = a * 2
    c = (b * b).sum()
    ran = []
    b.grad_fn.register_hook(lambda made, given: ran.append("b"))
    a.register_hook(lambda g: ran.append("a"))
    c.backward(inputs=[b], retain_graph=True)
    log(b.grad, a.grad, b.retains_grad, ran)
    c.backward(inputs=[b], retain_graph=True)
    log("again", b.grad, a.grad, ran)
    c.backward(inputs=[b, a], retain_graph=True)
    log("both", b.grad, a.grad, ran)
    c.backward(retain_graph=True)
    log("all", b.grad, a.grad)
    c.backward(inputs=b, create_graph=True)
    log("with a graph", b.grad, a.grad)
    b.grad = None
    c.backward(inputs=b, create_graph=True)
    log("with a graph from the start", b.grad)
    b = a * 3
    b.register_hook(lambda g: g * 10)
    b.sum().backward(inputs=[b])
    log("after its hook", b.grad, a.grad)
    b = a * 3
    b.backward(torch.ones(2), inputs=[b])
    log("the root itself", b.grad, a.grad)
    b = a * 3
    other = leaf(torch) * 2
    (b * 1).sum().backward(inputs=[b, other])
    log("not reached", b.grad, other.grad, other.retains_grad)
    b = a * 2
    log.error("edge", lambda: (b * 3).sum().backward(inputs=[torch.autograd.graph.get_gradient_edge(b)]))
    log(b.grad, a.grad, b.retains_grad)
    b = a.exp()
    torch.autograd.backward([b.sum(), (b * 2).sum()], inputs=[b])
    log("two roots", b.grad)
    base = leaf(torch, 1.0, 2.0, 3.0) * 1
    view = base[1:]
    (view * view).sum().backward(inputs=[view, base])
    log("view and base", view.grad, base.grad)
    u, w = (a * 1).unbind() if hasattr(a, "unbind") else (a[0], a[1])
    (u * w).backward(inputs=[w])
    log("second output", w.grad)
    for name, value in {"empty": [], "tuple": (), "number": [1.0], "constant": [torch.ones(2)], "None": [None]}.items():
        log.error(name, lambda value=value: (a * 2).sum().backward(inputs=value))
    log("grad of what was captured on the way")
    a = leaf(torch)
    b = a * 2
    b.register_hook(lambda g: g * 10)
    c = (b * 3).sum()
    log(*torch.autograd.grad(c, [a, b], retain_graph=True))
    log(*torch.autograd.grad(c, [b], retain_graph=True))
    log(*torch.autograd.grad(c, [b, b, a], retain_graph=True))
    b.retain_grad()
    log(*torch.autograd.grad(c, [a, b], retain_graph=True), b.grad)
    b.grad = None
    log(*torch.autograd.grad(c, [b], retain_graph=True), b.grad)


def switched_off(torch, log):
    log("requires_grad_(False) after the graph was made")
    a = leaf(torch)
    y = (a * a).sum()
    a.requires_grad_(False)
    log.error("backward", lambda: y.backward(retain_graph=True))
    log(a.grad, a.requires_grad, a.is_leaf)
    log.error("grad", lambda: torch.autograd.grad(y, a, retain_graph=True))
    log.error("inputs", lambda: y.backward(inputs=[a], retain_graph=True))
    a.requires_grad_(True)
    log.error("on again", lambda: y.backward(retain_graph=True))
    log(a.grad)
    b = leaf(torch)
    b.register_hook(lambda g: log("  hook", g))
    b.register_post_accumulate_grad_hook(lambda t: log("  post", t.grad))
    y = (b * 2).sum()
    node = y.grad_fn.next_functions[0][0].next_functions[0][0]
    node.register_prehook(lambda given: log("  prehook", *given))
    node.register_hook(lambda made, given: log("  node hook", len(made), *given))
    b.requires_grad = False
    y.backward(retain_graph=True)
    log(b.grad)
    y.backward(create_graph=True)
    log(b.grad)
    c = leaf(torch)
    y = (c * 2).sum()
    c.requires_grad_(False)
    c.requires_grad_(True)
    log((c * 3).grad_fn.next_functions[0][0] is y.grad_fn.next_functions[0][0].next_functions[0][0])
    y.backward()
    log(c.grad)
    c = leaf(torch)
    c.grad = torch.ones(2)
    y = (c * 2).sum()
    c.requires_grad_(False)
    y.backward()
    log(c.grad)


def accumulation(torch, log):
    log("what .grad becomes")
    a = leaf(torch)
    seed = torch.ones(2)
    a.backward(seed)
    a.grad.add_(1)
    log(a.grad, seed)
    a = leaf(torch)
    with_graph = leaf(torch)
    (a * with_graph).sum().backward(create_graph=True)
    log(a.grad, a.grad._version)
    first = a.grad
    (a * 2).sum().backward()
    log(a.grad, a.grad is first, first)
    a = leaf(torch)
    a.grad = with_graph * 2
    log.error("onto a gradient with a graph", lambda: (a * 3).sum().backward())
    log(a.grad)
    a = torch.ones(2, 3, requires_grad=True)
    a.grad = torch.ones(1, 3).expand(2, 3)
    log.error("onto an expanded gradient", lambda: (a * 2).sum().backward())
    log(a.grad)
    a.grad = torch.ones(3, 2).t()
    (a * 2).sum().backward()
    log(a.grad, a.grad.is_contiguous())
    a.grad = None
    a.sum().backward()
    log(a.grad, a.grad.is_contiguous())
    a.grad.add_(1)
    log(a.grad)
    b = leaf(torch)
    c = leaf(torch)
    (b + c).sum().backward()
    log.error("of two leaves", lambda: b.grad.add_(1))
    log(b.grad, c.grad, b.grad is c.grad)
    x = torch.ones(2, requires_grad=True)
    y = x * 1
    y.retain_grad()
    y.sum().backward()
    log.error("a retained gradient", lambda: y.grad.add_(1))
    log(y.grad, x.grad)
    y = x * 1
    z = y * 1
    y.retain_grad()
    z.retain_grad()
    z.sum().backward()
    log.error("one of two retained gradients", lambda: y.grad.mul_(5))
    log(y.grad, z.grad, y.grad is z.grad)
    log.error("gradient from a sum", lambda: torch.autograd.grad(x.sum(), x)[0].add_(1))
    log.error("of a view", lambda: torch.autograd.grad(x.view(2).sum(), x)[0].add_(1))
    log.error("of an expansion", lambda: torch.autograd.grad((x * 1)[None].expand(2, 2).sum(), x)[0].add_(1))
    a, b = leaf(torch), leaf(torch)
    g, h = torch.autograd.grad((a + b).sum(), [a, b])
    log("the same gradient twice", g is h)


def hooks(torch, log):
    log("hooks of outputs that no gradient reaches")
    x = torch.tensor([[3.0, 1.0], [2.0, 5.0]], requires_grad=True)

    def watched(name):
        return lambda g: log(f"  {name}", g)

    class Two(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            log("  backward", g, h)
            return g * 2 + h * 3

    for first in (True, False):
        a, b = Two.apply(x)
        a.register_hook(watched("a"))
        b.register_hook(watched("b"))
        a.retain_grad()
        b.retain_grad()
        a.grad_fn.register_prehook(lambda given: log("  prehook", *given))
        a.grad_fn.register_hook(lambda made, given: log("  posthook", *made, *given))
        (a if first else b).sum().backward()
        log(a.grad, b.grad)
    a, b = Two.apply(x)
    b.register_hook(lambda g: torch.ones(2, 2))
    log.error("in place of None", lambda: a.sum().backward())
    a, b = Two.apply(x)
    b.register_hook(lambda g: 1.0)
    log.error("a number in place of None", lambda: a.sum().backward())
    a, b = Two.apply(x)
    a.grad_fn.register_prehook(lambda given: (given[0], torch.ones(2, 2)))
    log.error("by a prehook", lambda: a.sum().backward())
    a, b = Two.apply(x)
    a.grad_fn.register_prehook(lambda given: (None, None))
    log.error("None by a prehook", lambda: a.sum().backward())
    a, b = Two.apply(x)
    a.grad_fn.register_prehook(lambda given: given[0])
    log.error("one gradient by a prehook", lambda: a.sum().backward())
    a, b = Two.apply(x)
    a.grad_fn.register_prehook(lambda given: [*given])
    log.error("a list by a prehook", lambda: a.sum().backward())
    a, b = Two.apply(x)
    a.grad_fn.register_hook(lambda made, given: (None,))
    log.error("None by a hook", lambda: torch.autograd.grad(a.sum(), x, allow_unused=True))
    a, b = Two.apply(x)
    a.grad_fn.register_hook(lambda made, given: made[0] * 2)
    log.error("one gradient by a hook", lambda: torch.autograd.grad(a.sum(), x, allow_unused=True))
    y = x * 2
    y.grad_fn.register_hook(lambda made, given: (made[0].double(), made[1]))
    log.error("another dtype by a hook", lambda: torch.autograd.grad(y.sum(), x, allow_unused=True))
    y = x * 2
    y.register_hook(lambda g: torch.ones(3, dtype=torch.float64))
    log.error("shape and dtype", lambda: torch.autograd.grad(y.sum(), x))
    y = x * 2
    y.grad_fn.register_hook(lambda made, given: (made[0], made[0]))
    log.error("what has no edge", lambda: torch.autograd.grad(y.sum(), x))
    values, positions = x.max(1)
    values.register_hook(watched("values"))
    log.error("positions", lambda: positions.register_hook(watched("positions")))
    values.sum().backward()
    y = x * 2
    y.register_hook(watched("y"))

    class Nothing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    y.retain_grad()
    y.grad_fn.register_prehook(lambda given: log("  prehook", *given))
    y.grad_fn.register_hook(lambda made, given: log("  posthook", *made, *given))
    x.grad = None
    node = y.grad_fn.next_functions[0][0]
    x.register_hook(watched("x"))
    node.register_prehook(lambda given: log("  prehook of the leaf", *given))
    node.register_hook(lambda made, given: log("  posthook of the leaf", *made, *given))
    x.register_post_accumulate_grad_hook(lambda t: log("  accumulated", t.grad))
    Nothing.apply(y).sum().backward()
    log("nothing arrives", x.grad, y.grad)
