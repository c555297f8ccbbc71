"""When saved tensors are packed and unpacked, and in which order.

Single operations, a perceptron with a Function inside, two backward passes, double backward.
"""


def numbers(tensor):
    return [round(value, 4) for value in tensor.detach().reshape(-1).tolist()]


def tracing(torch, log):
    """Return a context whose hooks number what is packed and log every call with the grad mode."""
    count = [0]

    def pack(tensor):
        count[0] += 1
        log("pack", count[0], numbers(tensor), tensor.requires_grad, "grad" if torch.is_grad_enabled() else "no grad")
        return count[0], tensor.detach()

    def unpack(packed):
        number, tensor = packed
        log("unpack", number, numbers(tensor), "grad" if torch.is_grad_enabled() else "no grad")
        return tensor

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)


def leaf(torch, *values):
    return torch.tensor(values, requires_grad=True)


def run(torch, log):
    single_operations(torch, log)
    retained(torch, log)
    perceptron(torch, log)
    twice(torch, log)


def single_operations(torch, log):
    x, y = leaf(torch, 2.0, 3.0), leaf(torch, 5.0, 7.0)
    constant = torch.tensor([11.0, 13.0])
    cases = {
        "x*y": lambda: x * y,
        "a*a": lambda: x * x,
        "x*const": lambda: x * constant,
        "const*x": lambda: constant * x,
        "x*3": lambda: x * 3.0,
        "x+y": lambda: x + y,
        "x-y": lambda: x - y,
        "x/y": lambda: x / y,
        "x/const": lambda: x / constant,
        "neg": lambda: -x,
        "exp": lambda: x.exp(),
        "log": lambda: x.log(),
        "sin": lambda: x.sin(),
        "cos": lambda: x.cos(),
        "tanh": lambda: x.tanh(),
        "sigmoid": lambda: x.sigmoid(),
        "relu": lambda: x.relu(),
        "sqrt": lambda: x.sqrt(),
        "abs": lambda: x.abs(),
        "x**2": lambda: x**2,
        "x**y": lambda: x**y,
        "sum": lambda: x.sum(),
        "mean": lambda: x.mean(),
        "view": lambda: x.view(2, 1),
        "slice": lambda: x[:1],
        "clone": lambda: x.clone(),
        "detach": lambda: x.detach(),
        "maximum": lambda: torch.maximum(x, y),
        "clamp": lambda: x.clamp(min=2.5),
        "matmul": lambda: x.reshape(1, 2) @ y.reshape(2, 1),
        "softmax": lambda: torch.softmax(x, 0),
        "log_softmax": lambda: torch.log_softmax(x, 0),
    }
    for name, function in cases.items():
        log("case", name)
        with tracing(torch, log):
            result = function()
        if result.requires_grad:
            log("backward")
            result.sum().backward()
            log("gradients", numbers(x.grad), None if y.grad is None else numbers(y.grad))
        x.grad = y.grad = None
    log("case no_grad")
    with tracing(torch, log), torch.no_grad():
        x * y
    log("case no input requires grad")
    with tracing(torch, log):
        constant * constant


def retained(torch, log):
    log("retain_graph: unpacked at every pass")
    x = leaf(torch, 2.0, 3.0)
    with tracing(torch, log):
        y = x.exp() * x
    y.sum().backward(retain_graph=True)
    log("second pass")
    y.sum().backward(retain_graph=True)
    log(numbers(x.grad))
    log("attributes", numbers(y.grad_fn._saved_self), numbers(y.grad_fn._saved_other))
    log(y.grad_fn._saved_other is x, y.grad_fn._saved_other.requires_grad, y.grad_fn._saved_self.grad_fn is not None)


def perceptron(torch, log):
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            log("forward of Scaled")
            inner = x * scale
            ctx.save_for_backward(x, scale, inner)
            log("forward of Scaled is done")
            return inner

        @staticmethod
        def backward(ctx, grad):
            log("backward of Scaled")
            x, scale, inner = ctx.saved_tensors
            log("again")
            again = ctx.saved_tensors
            log([a is b for a, b in zip(again, (x, scale, inner))])
            return grad * scale, (grad * x).sum(0)

    log("perceptron")
    w1 = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], requires_grad=True)
    w2 = torch.tensor([[0.7], [0.8], [0.9]], requires_grad=True)
    scale = leaf(torch, 1.0, 2.0, 3.0)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    with tracing(torch, log):
        hidden = torch.tanh(x @ w1)
        log("hidden")
        scaled = Scaled.apply(hidden, scale)
        log("scaled")
        out = (scaled @ w2).relu()
        log("out")
        loss = (out * out).mean()
    log("loss", numbers(loss))
    loss.backward()
    for parameter in (w1, w2, scale):
        log(numbers(parameter.grad))


def twice(torch, log):
    log("double backward")
    x, y = leaf(torch, 0.5, 0.25), leaf(torch, 2.0, 3.0)
    with tracing(torch, log):
        z = (x.exp() * y).sum()
    log("first, hooks not active")
    (g,) = torch.autograd.grad(z, x, create_graph=True)
    log(numbers(g), g.requires_grad)
    log("second")
    log([numbers(t) for t in torch.autograd.grad(g.sum(), (x, y))])
    with tracing(torch, log):
        z = (x * x).sum()
    log("first, hooks active")
    with tracing(torch, log):
        (g,) = torch.autograd.grad(z, x, create_graph=True)
    log("second")
    log(numbers(torch.autograd.grad(g.sum(), x)[0]))
