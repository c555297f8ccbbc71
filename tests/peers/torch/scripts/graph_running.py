"""What a running backward pass answers: ids, nodes that will run and their order, callbacks; nodes called; several hooks."""


def leaf(torch, values=(1.0, 2.0)):
    return torch.tensor(list(values), requires_grad=True)


def run(torch, log):
    calls(torch, log)
    numbers(torch, log)
    metadata(torch, log)
    questions(torch, log)
    order(torch, log)
    callbacks(torch, log)
    several(torch, log)
    placeholders(torch, log)
    boxed(torch, log)
    hook_dicts(torch, log)


def calls(torch, log):
    log("nodes called")
    a, b = leaf(torch), leaf(torch, (3.0, -1.0))
    ones = torch.ones(2)
    node = a.exp().grad_fn
    log.error("one", lambda: node(ones))
    log.error("none", lambda: node())
    log.error("two", lambda: node(ones, ones))
    log.error("undefined", lambda: node(None))
    log.error("a number", lambda: node(1.0))
    log.error("another shape", lambda: node(torch.ones(3)))
    log.error("a scalar", lambda: node(torch.ones(())))
    log.error("another dtype", lambda: node(torch.ones(2, dtype=torch.float64)))
    log.error("by name", lambda: node(x=1))
    with torch.no_grad():
        log.error("no graph", lambda: node(ones))
        log.error("no graph, a scalar", lambda: node(torch.ones(())))
        log.error("no graph, of sum", lambda: a.sum().grad_fn)
    log.error("mul", lambda: (a * b).grad_fn(ones))
    log.error("mul by number", lambda: (a * 2).grad_fn(ones))
    log.error("mul by constant", lambda: (a * b.detach()).grad_fn(ones))
    log.error("constant by", lambda: (b.detach() * a).grad_fn(ones))
    log.error("add", lambda: (a + 2).grad_fn(ones))
    log.error("pow", lambda: (a**2).grad_fn(ones))
    log.error("sum", lambda: a.sum().grad_fn(torch.ones(())))
    log.error("sum of a vector", lambda: a.sum().grad_fn(ones))
    log.error("max", lambda: torch.max(torch.ones(2, 3, requires_grad=True), 0)[0].grad_fn(torch.ones(3)))
    log.error("accumulate", lambda: (a * b).grad_fn.next_functions[0][0](ones))
    log.error("accumulate nothing", lambda: (a * b).grad_fn.next_functions[0][0](None))
    log(a.grad, b.grad)
    y = a.exp()
    y.register_hook(lambda g: log("  tensor hook"))
    y.grad_fn.register_prehook(lambda g: log("  prehook"))
    y.grad_fn.register_hook(lambda i, o: log("  hook"))
    log("hooks are not called", y.grad_fn(ones))
    y.sum().backward()
    log.error("freed", lambda: y.grad_fn(ones))
    v = a.clone()
    v[0] = b[0]
    log(v.grad_fn.name())
    log.error("slices", lambda: v.grad_fn(ones))

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, 3

        @staticmethod
        def backward(ctx, g, _):
            return g * 2

    node = Double.apply(a)[0].grad_fn
    log.error("a Function's", lambda: node(ones, None))
    log.error("its apply", lambda: node.apply(ones, None))
    log(callable(node), callable(y.grad_fn))


def numbers(torch, log):
    log("sequence numbers")
    a = leaf(torch)
    x = a.exp()
    y = x.sin()
    log(y.grad_fn._sequence_nr() - x.grad_fn._sequence_nr())
    log(str(x.grad_fn.next_functions[0][0]._sequence_nr()))
    log.error("text", lambda: y.grad_fn._set_sequence_nr("s"))
    log.error("negative", lambda: y.grad_fn._set_sequence_nr(-1))
    left, right = a * 2, a * 3
    for tensor, label in ((left, "left"), (right, "right")):
        tensor.register_hook(lambda g, label=label: log("  " + label))
    out = (left + right).sum()
    out.backward(retain_graph=True)
    left.grad_fn._set_sequence_nr(right.grad_fn._sequence_nr() + 1)
    log("changed")
    out.backward()


def metadata(torch, log):
    log("metadata")
    a = leaf(torch)
    node = a.exp().grad_fn
    log(node.metadata, node.metadata is node.metadata)
    node.metadata["note"] = 1
    log(node.metadata)
    log.error("assigned", lambda: setattr(node, "metadata", {}))
    (one,) = node._input_metadata
    log(one.shape, one.dtype, str(one.device), one.is_nested_tensor, one.is_cpp_nested_tensor, type(one.shape).__name__)
    values = torch.max(torch.ones(2, 3, requires_grad=True), 0)[0]
    log([m.shape for m in values.grad_fn._input_metadata])
    log([m.shape for m in node.next_functions[0][0]._input_metadata])

    class Several(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum(), 3, x.double()

        @staticmethod
        def backward(ctx, *grads):
            return grads[0] + grads[2].float()

    log([(m.shape, m.dtype) for m in Several.apply(a)[0].grad_fn._input_metadata])
    log(node.requires_grad, node.next_functions[0][0].requires_grad)


def questions(torch, log):
    _C, grad = torch._C, torch.autograd.grad
    log("outside", _C._current_graph_task_id(), _C._current_autograd_node())
    a, b = leaf(torch), leaf(torch)
    x = a.exp()
    y = x.sin()
    m = x * y * b
    z = m.sum()
    w = z * 2
    log.error("order", lambda: _C._current_graph_task_execution_order())
    log.error("will run", lambda: _C._will_engine_execute_node(x.grad_fn))
    log.error("will run None", lambda: _C._will_engine_execute_node(None))
    log("keeps", _C._autograd._get_current_graph_task_keep_graph())
    engine = torch.autograd.Variable._execution_engine
    log(engine.is_checkpoint_valid())
    nodes = {"x": x.grad_fn, "y": y.grad_fn, "m": m.grad_fn, "z": z.grad_fn, "w": w.grad_fn}
    leaves = {"a": x.grad_fn.next_functions[0][0], "b": m.grad_fn.next_functions[1][0]}
    ids = []

    def ask(g):
        ids.append(_C._current_graph_task_id())
        log("  keeps", _C._autograd._get_current_graph_task_keep_graph(), _C._current_autograd_node() is y.grad_fn)
        log("  will run", {name: _C._will_engine_execute_node(node) for name, node in nodes.items()})
        for name, node in leaves.items():
            log.error("  " + name, lambda node=node: _C._will_engine_execute_node(node))
        log.error("  None", lambda: _C._will_engine_execute_node(None))
        log.error("  a number", lambda: _C._will_engine_execute_node(3))
        log.error("  order", lambda: _C._current_graph_task_execution_order())
        log(engine.is_checkpoint_valid())

    handle = y.register_hook(ask)
    for label, call in {
        "backward": lambda: z.backward(retain_graph=True),
        "beyond": lambda: w.backward(retain_graph=True),
        "inputs": lambda: w.backward(inputs=[x], retain_graph=True),
        "leaf as input": lambda: w.backward(inputs=[a], retain_graph=True),
        "grad of a": lambda: grad(w, a, retain_graph=True),
        "grad of x": lambda: grad(w, x, retain_graph=True),
        "grad of y": lambda: grad(w, y, retain_graph=True),
        "grad of y and b": lambda: grad(w, [y, b], retain_graph=True),
        "two roots": lambda: torch.autograd.backward([z, w], retain_graph=True),
        "two roots, x": lambda: grad([z, w], x, retain_graph=True),
        "the last": lambda: z.backward(),
    }.items():
        log(label)
        call()
    handle.remove()
    log("ids", all(i >= 0 for i in ids), len(set(ids)) == len(ids), ids == sorted(ids))


def order(torch, log):
    a, b = leaf(torch), leaf(torch)
    x = a.exp()
    y = x.sin()
    z = (x * y * b).sum()
    log("order")
    z.register_hook(lambda g: log([node.name() for node in torch._C._current_graph_task_execution_order()]))
    grad = torch.autograd.grad
    with torch.autograd.set_multithreading_enabled(False):
        z.backward(retain_graph=True)
        z.backward(retain_graph=True, inputs=[x])
        grad(z, x, retain_graph=True)
        grad(z, b, retain_graph=True)
        grad(z, [y, a], retain_graph=True)
        x.grad_fn._set_sequence_nr(y.grad_fn._sequence_nr() + 1000)
        z.backward(retain_graph=True)
    log.error("with threads", lambda: z.backward())


def callbacks(torch, log):
    log("callbacks")
    queue = torch.autograd.Variable._execution_engine.queue_callback
    log.error("outside", lambda: queue(lambda: None))
    b = leaf(torch)

    def note(name, then=lambda: None):
        return lambda: (log("  callback", name, torch._C._current_graph_task_id() >= 0, torch.is_grad_enabled()), then())

    def hook(g):
        queue(note("first", lambda: queue(note("queued by the first"))))
        queue(note("second"))

        def inner(g):
            queue(note("inner"))
            log("  inner hook")

        with torch.enable_grad():
            t = b * 3
            t.register_hook(inner)
            t.sum().backward()
        log("  after the inner pass")

    def failing():
        raise ValueError("in a callback")

    u = b * 2
    u.register_hook(hook)
    b.register_post_accumulate_grad_hook(lambda t: log("  accumulated", t.grad))
    u.sum().backward()
    for label, hook in {
        "fails": lambda g: (queue(failing), queue(note("after")))[:0] and None,
        "a number": lambda g: queue(3),
        "hook fails": lambda g: (queue(note("never")), {}["missing"]),
        "returns something": lambda g: queue(lambda: 7),
        "another pass": lambda g: queue(lambda: (leaf(torch) * 5).sum().backward()),
    }.items():
        u = b * 2
        u.register_hook(hook)
        log.error(label, lambda u=u: u.sum().backward())
        log(b.grad)
    log.error("outside again", lambda: queue(lambda: None))
    u = b * 2
    u.register_hook(lambda g: queue(note("of grad")))
    log(*torch.autograd.grad(u.sum(), b, create_graph=True))


def several(torch, log):
    register = torch.autograd.graph.register_multi_grad_hook
    log("hooks on several")
    a, b = leaf(torch), leaf(torch)
    c, d = a * b, a * b
    log.error("mode", lambda: register((a, b), print, mode="foo"))
    log.error("no gradient", lambda: register((a, torch.ones(2)), print))
    log.error("no gradient, any", lambda: type(register((a, torch.ones(2)), print, mode="any").remove()).__name__)
    log.error("no tensors", lambda: register((), print).remove())
    seen = []
    everything = register((a, b, c, d), lambda grads: (seen.append(type(grads).__name__), log("  all", grads)))
    some = register((a, b, c, d), lambda g: log("  any", g), mode="any")
    c.sum().backward(retain_graph=True)
    log(seen)
    c.sum().backward(inputs=(a,), retain_graph=True)
    (c * d).sum().backward(retain_graph=True)
    log.error("grad of a", lambda: torch.autograd.grad(c.sum() + d.sum(), [a], retain_graph=True))
    log.error("grad of c and b", lambda: torch.autograd.grad(c.sum() + d.sum(), [c, b], retain_graph=True))
    log.error("grad of c", lambda: torch.autograd.grad(c.sum() + d.sum(), [c], retain_graph=True))
    log.error("grad of d only", lambda: torch.autograd.grad(d.sum(), [d], retain_graph=True))
    log.error("a leaf alone", lambda: a.sum().backward())
    some.remove()
    with everything:
        (c + d).sum().backward(retain_graph=True)
    log("removed")
    (c + d).sum().backward()
    log("of the root")
    c = a * 2
    out = c.sum()
    handle = register((c, out), lambda grads: log("  all", grads))
    log.error("alone", lambda: out.backward(retain_graph=True))
    log.error("with another", lambda: torch.autograd.backward([out, c.exp().sum()], retain_graph=True))
    handle.remove()
    log("in passes within")
    c = a * 2
    register((c,), lambda grads: log("  outer", *grads))

    def again(g):
        with torch.enable_grad():
            e = b * 2
            register((e, b), lambda grads: log("  inner", grads))
            e.sum().backward()

    c.register_hook(again)
    c.sum().backward()
    log("second order")
    c = a * a
    d = c * 1
    register((d, c), lambda grads: log("  all", [g is not None and g.requires_grad for g in grads]))
    (g,) = torch.autograd.grad((d * d).sum(), a, create_graph=True)
    g.sum().backward()


def placeholders(torch, log):
    kinds = torch._C._functions
    log("placeholders")
    a = leaf(torch)
    log(type(a.exp().grad_fn.next_functions[0][0]) is kinds.AccumulateGrad)
    error = kinds.DelayedError("a message", 2)
    x, y = error(a * 2, a.detach())
    node = x.grad_fn
    log(x, y, node.name(), [edge and edge.name() for edge, _ in node.next_functions], x is a, y.requires_grad)
    log.error("backward", lambda: (x + y).sum().backward())
    log.error("one", lambda: kinds.DelayedError("alone", 1)(a))
    log.error("count", lambda: error(a))
    log.error("None", lambda: error(None, a))
    log.error("number", lambda: error(3, a))
    log.error("no arguments", lambda: kinds.DelayedError())
    log.error("one argument", lambda: kinds.DelayedError("m"))
    log.error("no text", lambda: kinds.DelayedError(1, 1))
    x = a * 2
    x.register_hook(lambda g: log("  hook", g))
    y = kinds.UndefinedGrad()(x)
    log(y, kinds.UndefinedGrad().name(), y.grad_fn.name())
    y.sum().backward()
    log(a.grad)
    log.error("both", lambda: (y + x).sum().backward())
    log(a.grad)
    log.error("two", lambda: kinds.UndefinedGrad()(a, a))
    log.error("number", lambda: kinds.UndefinedGrad()(3))
    t = torch.ones(2)
    weak = torch._C._WeakTensorRef(t)
    log(weak.expired())
    del t
    log(weak.expired())


def boxed(torch, log):
    log("boxed gradients")
    a, b = leaf(torch), leaf(torch)

    class Boxed(torch.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x, y):
            return x * 2, y * 2

        @staticmethod
        def backward(ctx, grads):
            log("  given", grads)
            first = grads[0]
            grads.clear()
            return first, first

    class Plain(Boxed):
        boxed_grads_call = False

        @staticmethod
        def backward(ctx, *grads):
            log("  given", grads)
            return grads

    x, _ = Boxed.apply(a, b)
    log.error("grad", lambda: torch.autograd.grad(x.sum(), [a, b], retain_graph=True))
    one = torch.ones(2)
    log.error("apply", lambda: x.grad_fn.apply(one, one))
    log.error("apply_boxed", lambda: x.grad_fn.apply_boxed([one, one]))
    log.error("apply_boxed of a tuple", lambda: x.grad_fn.apply_boxed((one, one)))
    x, _ = Plain.apply(a, b)
    log.error("apply", lambda: x.grad_fn.apply(one, one))
    log.error("apply_boxed", lambda: x.grad_fn.apply_boxed([one, one]))
    log(torch.autograd.Function.boxed_grads_call)

    class Few(Boxed):
        @staticmethod
        def backward(ctx, grads):
            return (grads[0],)

    class Once(torch.autograd.Function):
        boxed_grads_call = True
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grads):
            (x,) = ctx.saved_tensors
            return grads[0] * x

    log.error("few", lambda: torch.autograd.grad(Few.apply(a, b)[0].sum(), [a, b]))
    y = Once.apply(a)
    log.error("once", lambda: torch.autograd.grad(y.sum(), a, create_graph=True))
    log.error("once again", lambda: torch.autograd.grad(y.sum(), a))
    y = Once.apply(a)
    log(y.grad_fn.saved_tensors, y.grad_fn._raw_saved_tensors)
    log.error("read again", lambda: y.grad_fn.saved_tensors)


def hook_dicts(torch, log):
    log("dicts of hooks")
    a = leaf(torch)
    x = a * 2
    log(x._backward_hooks, a._backward_hooks)
    x._backward_hooks = {1: lambda g: log("  of x", g)}
    x.grad_fn._register_hook_dict(x)
    log(sorted(x._backward_hooks))
    x.sum().backward()
    handle = a.register_hook(lambda g: log("  of a", g))
    log(len(a._backward_hooks))
    (a * 3).sum().backward()
    handle.remove()
    log(len(a._backward_hooks))
