"""The engine: order of nodes and hooks, accumulation, ``grad`` and its options, retained graphs, every error."""


def watch(log, tensor, label):
    """Log what hooks of a tensor and of its node see."""
    tensor.register_hook(lambda g: log(f"  {label}: tensor hook", g.detach()))
    node = tensor.grad_fn
    if node is not None:
        plain = lambda grads: [g if g is None else g.detach() for g in grads]
        node.register_prehook(lambda given: log(f"  {label}: prehook", *plain(given)))
        node.register_hook(lambda made, given: log(f"  {label}: node hook", len(made), *plain(made), len(given)))


def leaf(torch, values=(1.0, 2.0)):
    return torch.tensor(list(values), requires_grad=True)


def run(torch, log):
    grad = torch.autograd.grad
    log("order")
    a, b = leaf(torch), leaf(torch, (3.0, -1.0))
    x = a * b
    y = x.sin()
    z = x.exp()
    out = (y + z).sum()
    for tensor, label in ((a, "a"), (b, "b"), (x, "x"), (y, "y"), (z, "z")):
        watch(log, tensor, label)
    x.retain_grad()
    x.register_hook(lambda g: g * 2)
    a.register_post_accumulate_grad_hook(lambda t: log("  a: accumulated", t.grad))
    out.backward()
    log("gradients", a.grad, b.grad, x.grad, x.retains_grad, x.is_leaf)

    log("leaf hooks around its accumulator")
    a = leaf(torch)
    y = a * 2
    node = y.grad_fn.next_functions[0][0]
    a.register_hook(lambda g: log("  tensor hook", g))
    node.register_prehook(lambda given: log("  prehook", *given))
    node.register_hook(lambda made, given: log("  node hook", len(made), len(given)))
    a.register_post_accumulate_grad_hook(lambda t: log("  accumulated", t.grad))
    handle = a.register_hook(lambda g: g + 1)
    y.sum().backward()
    handle.remove()
    handle.remove()
    (a * 1).sum().backward()
    log(a.grad, node is (a * 3).grad_fn.next_functions[0][0], node.name(), node.variable is a)

    log("inputs")
    a, b = leaf(torch), leaf(torch)
    x = a * b
    watch(log, x, "x")
    watch(log, a, "a")
    a.register_post_accumulate_grad_hook(lambda t: log("  a: accumulated", t.grad))
    y = (x * x).sum()
    log("grad of x", *grad(y, x, retain_graph=True))
    log("grad of a", *grad(y, a, retain_graph=True))
    log("grad of b and x", *grad(y, [b, x], retain_graph=True))
    y.backward(inputs=[a], retain_graph=True)
    log(a.grad, b.grad)
    log("grad of itself", *grad(y, y, retain_graph=True))
    log("two outputs", *grad([y, x.sum()], [a], retain_graph=True))
    log("grad_outputs", *grad(x, a, grad_outputs=torch.tensor([1.0, -2.0]), retain_graph=True))
    log("the same input twice", *grad(y, [a, a], retain_graph=True))

    log("accumulation")
    a = leaf(torch)
    (a * 2).sum().backward()
    kept = a.grad
    (a * 3).sum().backward()
    log(a.grad is kept, kept, kept._version)
    (a * a).sum().backward(create_graph=False)
    log(a.grad is kept, kept)
    seed = torch.ones(2)
    c = leaf(torch)
    c.backward(seed)
    c.backward(seed)
    log(c.grad, seed, c.grad is seed)

    log("second order")
    a = leaf(torch)
    (g,) = grad((a**3).sum(), a, create_graph=True)
    log(g.detach(), g.requires_grad)
    (h,) = grad(g.sum(), a, create_graph=True)
    (k,) = grad(h.sum(), a)
    log(h.detach(), k)
    (a**3).sum().backward(create_graph=True)
    log(a.grad.requires_grad, type(a.grad.grad_fn).__name__)
    (a.grad * a.grad).sum().backward()
    log(a.grad.detach())
    a.grad = None

    log("modes")
    with torch.no_grad():
        log((a * 2).requires_grad, torch.is_grad_enabled())
        with torch.enable_grad():
            log((a * 2).requires_grad)
    with torch.set_grad_enabled(False):
        log((a * 2).requires_grad)

    @torch.no_grad()
    def quiet(x):
        return x * 2

    @torch.no_grad()
    def steps(x):
        for _ in range(2):
            yield (x * 2).requires_grad

    log(quiet(a).requires_grad, list(steps(a)), torch.is_grad_enabled())
    seen = []
    (a * 2).register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    y = a * 2
    y.register_hook(lambda g: seen.append(torch.is_grad_enabled()))
    y.sum().backward(retain_graph=True)
    y.sum().backward(create_graph=True)
    log(seen)

    log("retained")
    a = leaf(torch)
    y = a.exp()
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    log(a.grad)
    log.error("exp twice", lambda: y.sum().backward())
    log.error("its saved result", lambda: y.grad_fn._saved_result)
    z = a + 1
    z.sum().backward()
    z.sum().backward()
    log("add twice", a.grad)

    log("unused")
    a, b = leaf(torch), leaf(torch)
    y = (a * 2).sum()
    log.error("unused", lambda: grad(y, [a, b], retain_graph=True))
    log(*grad(y, [a, b], allow_unused=True, retain_graph=True))
    log(*grad(y, [b, a], materialize_grads=True, retain_graph=True))
    log.error("both", lambda: grad(y, [b], allow_unused=False, materialize_grads=True))

    log("errors")
    log.error("no scalar", lambda: (a * 2).backward())
    log.error("no graph", lambda: torch.ones(()).backward())
    log.error("second root without graph", lambda: torch.autograd.backward([(a * 2).sum(), torch.ones(())]))
    log.error("gradient's shape", lambda: (a * 2).backward(torch.ones(3)))
    log.error("input without gradient", lambda: grad((a * 2).sum(), torch.ones(2)))
    log.error("no inputs", lambda: (a * 2).sum().backward(inputs=[]))
    log.error("hook without gradient", lambda: torch.ones(2).register_hook(lambda g: g))
    log.error("retain_grad without gradient", lambda: torch.ones(2).retain_grad())
    log.error("retain_grad of a leaf", lambda: a.retain_grad())
    log.error("post-accumulate of no leaf", lambda: (a * 2).register_post_accumulate_grad_hook(print))
    log.error("integers", lambda: torch.tensor([1], requires_grad=True))
    log.error("integers, later", lambda: torch.tensor([1]).requires_grad_())
    log.error("off", lambda: (a * 2).requires_grad_(False))
    log.error("numpy", lambda: a.numpy())
    log.error("item", lambda: a.item())
    log.error("bool", lambda: bool(a))
    log.error("iteration", lambda: list(torch.tensor(1.0)))
    log.error("len", lambda: len(torch.tensor(1.0)))

    def with_hook(hook, register="register_hook"):
        x = a * 2
        getattr(x if register == "register_hook" else x.grad_fn, "register_hook")(hook)
        x.sum().backward()

    log.error("hook returns a number", lambda: with_hook(lambda g: 1.0))
    log.error("hook returns another shape", lambda: with_hook(lambda g: torch.ones(3)))
    log.error("hook returns another dtype", lambda: with_hook(lambda g: g.double()))
    log.error("node hook returns too many", lambda: with_hook(lambda made, given: (*made, None), "node"))
    log.error("hook raises", lambda: with_hook(lambda g: 1 / 0))
    log("after an error", *grad((a * 2).sum(), a))

    log("gradients that are assigned")
    c = leaf(torch)
    c.grad = torch.tensor([5.0, 6.0])
    (c * 2).sum().backward()
    log(c.grad)

    def assign(value):
        c.grad = value

    log.error("shape", lambda: assign(torch.ones(3)))
    log.error("dtype", lambda: assign(torch.ones(2, dtype=torch.float64)))
    log.error("type", lambda: assign(1.0))
    x = c * 2
    log("of no leaf", x.grad)

    log("retain_grad and in-place")
    c = leaf(torch)
    x = c * 2
    x.register_hook(lambda g: log("  hook before", g))
    x.retain_grad()
    x.mul_(3)
    x.register_hook(lambda g: log("  hook after", g))
    x.sum().backward()
    log(x.grad, c.grad)

    log("nested backward")
    c = leaf(torch)
    y = c * 2
    d = leaf(torch)

    def inner(g):
        with torch.enable_grad():
            (d * 5).sum().backward()

    y.register_hook(inner)
    y.sum().backward()
    log(c.grad, d.grad)

    log("edges")
    c = leaf(torch)
    y = c * 2
    e = torch.autograd.graph.get_gradient_edge(y)
    log(type(e.node).__name__, e.output_nr, e.node is y.grad_fn)
    log(*grad(y.exp().sum(), torch.autograd.graph.get_gradient_edge(c)))
    z = y.exp()
    log(*grad(z.sum(), e), z.grad_fn.name(), isinstance(z.grad_fn, torch.autograd.graph.Node), z.grad_fn.metadata)
    log.error("freed", lambda: torch.autograd.backward(e, torch.ones(2)))
    y = c + 2
    torch.autograd.backward(torch.autograd.graph.get_gradient_edge(y), torch.ones(2))
    log(c.grad)
