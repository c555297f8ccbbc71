"""The rules of saved-tensor hooks: which pair is called, errors in them, threads, disabling, save_on_cpu."""

import threading


def numbers(tensor):
    return [round(value, 4) for value in tensor.detach().reshape(-1).tolist()]


def attempt(log, function, *args):
    try:
        result = function(*args)
    except Exception as error:
        log(type(error).__name__, str(error))
    else:
        log("returned", numbers(result) if hasattr(result, "reshape") else result)


def named(torch, log, name):
    def pack(tensor):
        log("pack", name, numbers(tensor))
        return tensor

    def unpack(tensor):
        log("unpack", name, numbers(tensor))
        return tensor

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def leaf(torch, *values):
    return torch.tensor(values, requires_grad=True)


def run(torch, log):
    nested(torch, log)
    function_bodies(torch, log)
    failing(torch, log)
    replaced(torch, log)
    threads(torch, log)
    disabled(torch, log)
    on_cpu(torch, log)
    half_the_memory(torch, log)


def nested(torch, log):
    log("the innermost pair is called")
    x = leaf(torch, 2.0, 3.0)
    with named(torch, log, "outer"):
        a = x.exp()
        with named(torch, log, "inner"):
            b = a.sin()
        c = b.cos()
    c.sum().backward()
    log(numbers(x.grad))
    context = named(torch, log, "again")
    with context, context:
        y = x.exp()
    y.sum().backward()
    log("an operation that saves within a pack hook")

    def pack(tensor):
        with torch.enable_grad():
            log("pack", numbers(tensor))
            return (x + tensor.detach()).detach()

    with named(torch, log, "outer"), torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = x.exp()
    y.sum().backward()


def function_bodies(torch, log):
    class Inside(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with named(torch, log, "inside forward"):
                y = x * 2
                ctx.save_for_backward(x, y)
                return y

        @staticmethod
        def backward(ctx, grad):
            with named(torch, log, "inside backward"):
                ctx.saved_tensors
            return grad * 2

    log("Function bodies")
    x = leaf(torch, 2.0, 3.0)
    Inside.apply(x).sum().backward()
    with named(torch, log, "around"):
        y = Inside.apply(x)
    y.sum().backward()
    with torch.no_grad(), named(torch, log, "around"):
        Inside.apply(x)
    with named(torch, log, "around"):
        Inside.apply(torch.tensor([1.0]))


def failing(torch, log):
    log("errors in hooks")
    hooks = torch.autograd.graph.saved_tensors_hooks
    x = leaf(torch, 2.0, 3.0)

    def bad_pack(tensor):
        raise LookupError("pack failed")

    def bad_unpack(packed):
        raise LookupError("unpack failed")

    def same(t):
        return t

    def packing():
        with hooks(bad_pack, same):
            return x.exp()

    attempt(log, packing)
    with named(torch, log, "after"):
        y = x.exp()
    y.sum().backward()
    with hooks(same, bad_unpack):
        y = x.exp()
    attempt(log, lambda: y.sum().backward())
    attempt(log, lambda: y.grad_fn._saved_result)
    x.grad = None
    with hooks(lambda t: 3.0, same):
        y = x.exp()
    attempt(log, lambda: y.sum().backward())
    with hooks(lambda t: None, same):
        y = x.exp()
    attempt(log, lambda: y.sum().backward())
    with hooks(same, lambda t: [t]):
        y = x.exp()
    attempt(log, lambda: y.grad_fn._saved_result)

    def in_place(tensor):
        tensor.mul_(2)
        return tensor

    def changing():
        with hooks(in_place, same):
            return (x * 1.0).sin()

    attempt(log, changing)

    def changing_output():
        with hooks(in_place, same):
            return x.exp()

    attempt(log, changing_output)
    attempt(log, hooks, same)
    y = x.exp()
    y.sum().backward()
    log(numbers(x.grad))


def replaced(torch, log):
    log("what unpack returns is what backward uses")
    hooks = torch.autograd.graph.saved_tensors_hooks
    x = leaf(torch, 2.0, 3.0)
    with hooks(lambda t: t.detach().numpy().copy(), lambda a: torch.from_numpy(a) * 10):
        y = x * x
    y.sum().backward()
    log(numbers(x.grad))
    x.grad = None
    half = x * 1.0
    with hooks(lambda t: t, lambda t: t):
        y = half * half
    with torch.no_grad():
        half.mul_(2)
    y.sum().backward()
    log("no version check", numbers(x.grad))
    x.grad = None
    with hooks(lambda t: t.double(), lambda t: t):
        y = x * x
    attempt(log, lambda: y.grad_fn._saved_self)
    log(y.grad_fn._saved_self.dtype, y.grad_fn._saved_self.requires_grad)
    with hooks(lambda t: t.detach(), lambda t: t):
        y = x * x
        z = x.exp()
    log(y.grad_fn._saved_self is x, y.grad_fn._saved_self.requires_grad, y.grad_fn._saved_self.is_leaf)
    saved = z.grad_fn._saved_result
    log(saved is z, saved.requires_grad, saved.grad_fn is z.grad_fn)
    (g,) = torch.autograd.grad((y * z).sum(), x, create_graph=True)
    log(numbers(g), numbers(torch.autograd.grad(g.sum(), x)[0]))
    with hooks(lambda t: t.detach(), lambda t: t.clone()):
        y = x * x
    first, second = y.grad_fn._saved_self, y.grad_fn._saved_self
    log(first is second, first.requires_grad, first.grad_fn is None)


def threads(torch, log):
    log("threads")
    x = leaf(torch, 2.0, 3.0)

    def body():
        log("in the thread")
        y = x.exp()
        log(numbers(y))

    with named(torch, log, "main"):
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()
        x.exp()


def disabled(torch, log):
    log("disable_saved_tensors_hooks")
    graph = torch.autograd.graph
    x = leaf(torch, 2.0, 3.0)

    def enter(context):
        with context:
            return (x * x).sum()

    with graph.disable_saved_tensors_hooks("outer message"):
        attempt(log, enter, named(torch, log, "refused"))
        with graph.disable_saved_tensors_hooks("inner message"):
            attempt(log, enter, named(torch, log, "refused"))
            log(torch._C._autograd._saved_tensors_hooks_is_enabled())
        attempt(log, enter, named(torch, log, "refused"))
        (x * x).sum().backward()
    log(torch._C._autograd._saved_tensors_hooks_is_enabled())
    attempt(log, enter, named(torch, log, "allowed"))
    with named(torch, log, "active"):
        attempt(log, enter, graph.disable_saved_tensors_hooks("too late"))
        (x * x).sum().backward()
    attempt(log, enter, named(torch, log, "allowed"))

    @graph.disable_saved_tensors_hooks("decorated")
    def decorated():
        return enter(named(torch, log, "refused"))

    attempt(log, decorated)
    y = x * x
    with graph.disable_saved_tensors_hooks("none here"):
        attempt(log, y.grad_fn._raw_saved_self.register_hooks, lambda t: t, lambda t: t)


def on_cpu(torch, log):
    log("save_on_cpu")
    x = leaf(torch, 2.0, 3.0)
    with torch.autograd.graph.save_on_cpu():
        y = x.exp()
        z = y * x
    z.sum().backward()
    log(numbers(x.grad), z.grad_fn.name())
    half = x * 1.0
    with torch.autograd.graph.save_on_cpu(pin_memory=False):
        y = half * half
    with torch.no_grad():
        half.zero_()
    log(numbers(y.grad_fn._saved_self))


def half_the_memory(torch, log):
    log("half precision while waiting")
    x = leaf(torch, 0.1, 0.2)

    def pack(tensor):
        return tensor.detach().to(torch.float16), tensor.dtype

    def unpack(packed):
        tensor, dtype = packed
        return tensor.to(dtype)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x.exp() * x.sin()).sum()
    y.backward()
    log(numbers(x.grad))
