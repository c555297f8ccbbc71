"""Settings and names of torch.autograd and torch.autograd.graph: versions, views replayed, batched gradients, edges."""


def run(torch, log):
    versions(torch, log)
    replay(torch, log)
    threads(torch, log)
    batched(torch, log)
    names(torch, log)


def leaf(torch, values=(1.0, 2.0)):
    return torch.tensor(list(values), requires_grad=True)


def versions(torch, log):
    log("versions")
    increment = torch.autograd.graph.increment_version
    t, u = torch.ones(2), torch.ones(2)
    for label, given in {
        "list": [t, u],
        "tuple": (t,),
        "iterator": iter([t, t]),
        "one": t,
        "number": 3,
        "numbers": [3],
        "nothing": [],
        "text": "t",
    }.items():
        log.error(label, lambda given=given: increment(given))
        log(t._version, u._version)
    put = torch._C._autograd._unsafe_set_version_counter
    log.error("set", lambda: put((t,), (1,)))
    log(t._version)
    log.error("negative", lambda: put((t,), (-1,)))
    log.error("counts", lambda: put((t,), (1, 2)))
    log.error("lists", lambda: put([t], [2]))
    preserve = torch.autograd._unsafe_preserve_version_counter
    with preserve(t):
        t.add_(1)
        log(t._version)
    log(t._version)
    with preserve((t, u)):
        t.add_(1)
        u.add_(1)
    log(t._version, u._version)
    log.error("list", lambda: preserve([t]))
    log.error("number", lambda: preserve(3))
    log.error("numbers", lambda: preserve((3,)))
    a = leaf(torch)
    x = a * 1
    y = x * x
    with preserve(x):
        x.add_(1)
    y.sum().backward()
    log(a.grad)


def chain(tensor):
    node, found = tensor.grad_fn, []
    while node is not None:
        found.append(node.name())
        edges = node.next_functions
        node = edges[0][0] if edges else None
    return found


def replay(torch, log):
    log("views replayed")
    mode = torch.autograd._force_original_view_tracking
    enabled = torch.autograd.is_view_replay_enabled
    log(enabled())
    mode(True)
    log(enabled())
    mode(False)
    with mode(True):
        log(enabled())
    log(enabled())

    @mode(True)
    def inside():
        return enabled()

    log(inside(), enabled())
    log.error("no bool", lambda: mode(3))
    a = torch.ones(2, 3, requires_grad=True)
    views = {
        "t": lambda b: b.t(),
        "index": lambda b: b[0],
        "slice and view": lambda b: b[0:1].view(3),
        "permute and index": lambda b: b.permute(1, 0)[1],
        "diagonal": lambda b: b.diagonal(),
        "narrow": lambda b: b.narrow(1, 0, 2),
        "reshape": lambda b: b.reshape(6),
        "transpose": lambda b: b.transpose(0, 1),
        "steps": lambda b: b[:, ::2],
        "view_as": lambda b: b.view_as(b),
        "expand": lambda b: b.unsqueeze(0).expand(4, 2, 3),
        "split": lambda b: b.split(1)[0],
    }
    for on in (False, True):
        with mode(on):
            for name, view in views.items():
                b = a * 1
                v = view(b)
                b.mul_(2)
                log.error(name, lambda v=v: chain(v))
                if name in ("expand", "split"):
                    continue
                log(*torch.autograd.grad(v.sum(), a))
                v = view(a * 1)
                v.mul_(3)
                log(*chain(v))
                log(*torch.autograd.grad(v.sum(), a))


def threads(torch, log):
    log("multithreading")
    mode, enabled = torch.autograd.set_multithreading_enabled, torch.autograd.is_multithreading_enabled
    log(enabled())
    mode(False)
    log(enabled())
    mode(True)

    @mode(False)
    def inside():
        return enabled()

    log(inside(), enabled())
    mode(True)
    context = mode(False)
    log(enabled())
    with context:
        log(enabled())
    log(enabled())
    log.error("text", lambda: mode("x"))
    log.error("nothing", lambda: mode())


def batched(torch, log):
    log("batches of gradients")
    grad = torch.autograd.grad
    a = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
    other = leaf(torch)
    y = a**2
    v = torch.eye(3)

    def ask(label, outputs, inputs, seeds, **options):
        options = {"retain_graph": True, **options}
        log.error(label, lambda: grad(outputs, inputs, seeds, is_grads_batched=True, **options))

    ask("one", y, a, v)
    ask("a part", y, a, v[:2])
    ask("two outputs", [y, a.sin()], a, [v, v])
    ask("two inputs", (y * other.sum()), [a, other], v)
    ask("matrix", torch.stack([a, a * a]), a, torch.ones(4, 2, 3))
    ask("not reached", y, [a, other], v)
    ask("allowed", y, [a, other], v, allow_unused=True)
    ask("materialized", y, [a, other], v, materialize_grads=True)
    ask("a vector", y, a, torch.ones(3))
    ask("another shape", y, a, torch.ones(3, 2))
    ask("a scalar", y, a, torch.tensor(1.0))
    ask("left out", y.sum(), a, None)
    ask("other sizes", [y, a.sin()], a, [v, v[:2]])
    ask("no gradients", y, a, torch.ones(0, 3))
    ask("edge", torch.autograd.graph.get_gradient_edge(y), a, v)
    ask("dict", y, {"a": a}, v)
    seen = []
    handle = y.register_hook(lambda g: seen.append(tuple(g.shape)))
    ask("with a hook", y, a, v)
    handle.remove()
    log(seen)
    doubling = y.register_hook(lambda g: g * 2)
    ask("with a hook that doubles", y, a, v)
    doubling.remove()

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            seen.append(tuple(g.shape))
            (x,) = ctx.saved_tensors
            return g * 2 * x

    ask("a Function", Square.apply(a), a, v)
    log(seen)
    (g,) = grad(y, a, v, is_grads_batched=True, create_graph=True)
    log(g.detach(), g.requires_grad)
    log(*grad(g.sum(), a, retain_graph=True))
    exp = a.exp()
    ask("kept", exp, a, v)
    ask("freed", exp, a, v, retain_graph=False)
    ask("twice", exp, a, v)
    z = a.double().sin().sum() * torch.ones(2, dtype=torch.float64)
    ask("mixed", z, a, torch.eye(2, dtype=torch.float64))
    matrix = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    ask("matmul", matrix @ matrix, matrix, torch.eye(4).reshape(4, 2, 2))
    ask("index", matrix[torch.tensor([0, 0])], matrix, torch.eye(4).reshape(4, 2, 2))
    ask("reductions", torch.logsumexp(matrix, 1), matrix, torch.eye(2))
    log.error("only_inputs", lambda: grad(a.sin().sum(), a, only_inputs=False))


def names(torch, log):
    log("names")
    graph = torch.autograd.graph
    for name in (
        "Node", "GradientEdge", "get_gradient_edge", "increment_version", "saved_tensors_hooks", "save_on_cpu",
        "disable_saved_tensors_hooks", "register_multi_grad_hook", "region_activation_memory_budget",
        "set_warn_on_accumulate_grad_stream_mismatch", "set_override_stale_capture_stream", "_get_grad_fn_or_grad_acc",
    ):  # fmt: skip
        log(name, hasattr(graph, name))
    a = leaf(torch)
    for value in (0.5, 2, "a", True):
        log.error("budget", lambda value=value: graph.region_activation_memory_budget(value))
    log.error("streams", lambda: graph.set_warn_on_accumulate_grad_stream_mismatch(True))
    log.error("capture", lambda: graph.set_override_stale_capture_stream(True))
    e = graph.get_gradient_edge(a * 2)
    log(e.node.name(), e.output_nr, e.ownership_token, graph._get_grad_fn_or_grad_acc(e) is e.node)

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 3

    def edge_alone():
        return graph.get_gradient_edge(Doubled.apply(a.exp())[1])

    e = edge_alone()
    log(e.node.name(), e.output_nr, e.ownership_token.name())
    torch.autograd.backward(e, torch.ones(2))
    log(a.grad)
    a.grad = None
    log(graph._get_grad_fn_or_grad_acc(a) is (a * 2).grad_fn.next_functions[0][0])
    log.error("no gradient", lambda: graph.get_gradient_edge(torch.ones(2)))
    log.error("no function", lambda: graph._get_grad_fn_or_grad_acc(torch.ones(2)))
    nodes = (type(a.exp().grad_fn), torch._C._functions.AccumulateGrad, torch.autograd.function.BackwardCFunction)
    log([issubclass(kind, graph.Node) for kind in nodes], graph.Node in type(a.exp().grad_fn).__mro__)
    Variable = torch.autograd.Variable
    log(isinstance(a, Variable), isinstance(3, Variable))
    x = torch.ones(2)
    v = Variable(x, requires_grad=True)
    log(v, v.data_ptr() == x.data_ptr(), v is x, x.requires_grad, type(v) is torch.Tensor)
