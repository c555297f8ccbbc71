"""Saved tensors among in-place operations and views: what is found to be overwritten, first and second derivatives."""


def numbers(tensor):
    return [round(value, 4) for value in tensor.detach().reshape(-1).tolist()]


def output(x):
    y = x * 1.0
    y.exp_()
    return y


def part(x):
    y = x * 2.0
    y[1:].exp_()
    return y * y


def view(x):
    y = x * 2.0
    v = y[1:]
    v.exp_()
    return v * v


def base_then_view(x):
    y = x * 2.0
    v = y[:2]
    y.mul_(x)
    return v.exp()


def view_then_base(x):
    y = x * 2.0
    v = y[:2]
    v.mul_(3.0)
    return y.exp() * y


def by_itself(x):
    y = x * 2.0
    y.mul_(y)
    return y


def by_the_leaf(x):
    y = x * 2.0
    y.mul_(x)
    return y.sin()


def output_of_exp(x):
    y = x.exp()
    z = y * 1.0
    y.add_(1.0)
    return z * z


def input_of_mul(x):
    y = x * 1.0
    z = y * y
    y.add_(1.0)
    return z


def sum_is_not_saved(x):
    y = x * 1.0
    z = y + x
    y.add_(1.0)
    return z * y


def packed(pack):
    def function(torch, x):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = x * 2.0
            y[1:].exp_()
            y.mul_(x)
            return y.sin()

    return function


PLAIN = (
    output,
    part,
    view,
    base_then_view,
    view_then_base,
    by_itself,
    by_the_leaf,
    output_of_exp,
    input_of_mul,
    sum_is_not_saved,
)


def run(torch, log):
    cases = {function.__name__: function for function in PLAIN}
    cases["packed copies"] = lambda x: packed(lambda t: t.detach().clone())(torch, x)
    for name, function in cases.items():
        log(name)
        x = torch.tensor([0.3, 0.7, 1.1], dtype=torch.float64, requires_grad=True)
        log.error("backward", lambda: function(x).sum().backward())
        log("gradient", None if x.grad is None else numbers(x.grad))
        log.error("second", lambda: second(torch, log, function, x))


def second(torch, log, function, x):
    (g,) = torch.autograd.grad(function(x).sum(), x, create_graph=True)
    log("first", numbers(g))
    return numbers(torch.autograd.grad((g * g).sum(), x)[0])
