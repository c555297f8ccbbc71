"""SavedTensor: what comes back, versions, freed buffers, `_raw_saved_*` and register_hooks, with their errors."""

import re


def numbers(tensor):
    return [round(value, 4) for value in tensor.detach().reshape(-1).tolist()]


def attempt(log, function, *args):
    """Log what a call returns or raises; addresses are struck out."""
    try:
        result = function(*args)
    except Exception as error:
        log(type(error).__name__, re.sub(r"0x[0-9a-f]+", "0x", str(error)))
    else:
        log("returned", numbers(result) if hasattr(result, "reshape") else result)


def leaf(torch, *values):
    return torch.tensor(values, requires_grad=True)


def run(torch, log):
    identity(torch, log)
    functions(torch, log)
    versions(torch, log)
    freed(torch, log)
    registered(torch, log)
    refused(torch, log)


def identity(torch, log):
    log("identity")
    x, y = leaf(torch, 2.0, 3.0), leaf(torch, 5.0, 7.0)
    product = x * y
    log(product.grad_fn._saved_self is x, product.grad_fn._saved_other is y)
    z = (x * 2).exp()
    saved = z.grad_fn._saved_result
    log(saved is z, saved.grad_fn is z.grad_fn, saved.requires_grad, saved.is_leaf, saved._version, z.grad_fn.name())
    with torch.no_grad():
        z.add_(1)
    log(saved._version, z._version)
    half = x * 1.0
    power = half * half
    log(power.grad_fn._saved_self is half, power.grad_fn._saved_other is half)
    (g,) = torch.autograd.grad(power.sum(), half, create_graph=True)
    log(numbers(g), numbers(torch.autograd.grad(g.sum(), x)[0]))
    log(torch.autograd.SavedTensor is torch._C._autograd.SavedTensor)
    log(type(product.grad_fn._raw_saved_self) is torch.autograd.SavedTensor)
    log(type(product.grad_fn).__name__, hasattr(product.grad_fn, "_saved_result"), hasattr(z.grad_fn, "_saved_self"))
    constant = torch.tensor([1.0, 1.0])
    mixed = x * constant
    log(mixed.grad_fn._saved_self, mixed.grad_fn._saved_other is constant)
    attempt(log, torch.autograd.SavedTensor)


def functions(torch, log):
    class Several(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            inner = x * 2
            result = inner * x
            ctx.save_for_backward(x, None, inner, result)
            return result

        @staticmethod
        def backward(ctx, grad):
            x, nothing, inner, result = ctx.saved_tensors
            log(nothing, x.requires_grad, inner.requires_grad, inner.grad_fn, result.requires_grad, result.grad_fn is ctx)
            return grad * 4 * x

    log("a Function's saved tensors")
    x = leaf(torch, 2.0, 3.0)
    y = Several.apply(x)
    first, second = y.grad_fn.saved_tensors, y.grad_fn.saved_tensors
    log(first[0] is x, second[0] is first[0], second[3] is first[3], second[3] is y, second[3].grad_fn is y.grad_fn)
    log(len(y.grad_fn._raw_saved_tensors))
    attempt(log, y.grad_fn._raw_saved_tensors[1].register_hooks, lambda t: t, lambda t: t)
    y.grad_fn._raw_saved_tensors[0].register_hooks(lambda t: log("pack", numbers(t)) or t * 10, lambda t: log("unpack") or t)
    log(numbers(y.grad_fn.saved_tensors[0]))
    y.sum().backward()
    log(numbers(x.grad))
    attempt(log, lambda: y.grad_fn.saved_tensors)
    attempt(log, lambda: y.grad_fn._raw_saved_tensors)
    attempt(log, lambda: y.sum().backward())
    y = Several.apply(x)
    with torch.no_grad():
        y.add_(1)
    attempt(log, lambda: y.grad_fn.saved_tensors)
    y = Several.apply(x)
    with torch.no_grad():
        x.add_(1)
    attempt(log, lambda: y.sum().backward())


def versions(torch, log):
    log("versions")
    x, y = leaf(torch, 2.0, 3.0), leaf(torch, 5.0, 7.0)
    for change in (lambda t: t.add_(1), lambda t: t.mul_(2).mul_(2), lambda t: t.detach().zero_(), lambda t: t.data.zero_()):
        half = x * 1.0
        z = half * y
        with torch.no_grad():
            change(half)
        attempt(log, lambda: torch.autograd.grad(z.sum(), y))
        attempt(log, lambda: z.grad_fn._saved_self)
    z = (x * 1.0).exp()
    z.add_(1)
    attempt(log, lambda: z.sum().backward())
    z = (x * y)[:1].sin()
    w = x * 1.0
    z = w[0] * y[0]
    with torch.no_grad():
        w[1] = 5.0
    attempt(log, lambda: z.backward())
    with torch.no_grad():
        x.add_(1)
    z = x * y
    with torch.no_grad():
        x.add_(1)
    attempt(log, lambda: z.sum().backward())
    integers = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=torch.float64)
    z = y.double() * integers
    integers.add_(1)
    attempt(log, lambda: z.sum().backward())


def freed(torch, log):
    log("freed")
    x = leaf(torch, 2.0, 3.0)
    y = x.exp()
    raw = y.grad_fn._raw_saved_result
    y.sum().backward()
    attempt(log, lambda: y.sum().backward())
    attempt(log, lambda: y.grad_fn._saved_result)
    attempt(log, raw.register_hooks, lambda t: t, lambda t: t)
    z = x + 1
    z.sum().backward()
    z.sum().backward()
    log(numbers(x.grad))
    product = x * x
    shared = product + product.exp()
    shared.sum().backward(retain_graph=True)
    shared.sum().backward()
    attempt(log, lambda: product.grad_fn._saved_self)


def registered(torch, log):
    log("register_hooks")
    x = leaf(torch, 2.0, 3.0)

    def pack(tensor):
        log("pack", numbers(tensor), tensor.requires_grad, tensor.grad_fn is None, torch.is_grad_enabled())
        return tensor * 2

    def unpack(tensor):
        log("unpack", numbers(tensor), torch.is_grad_enabled())
        return tensor / 2

    y = x.exp()
    raw = y.grad_fn._raw_saved_result
    raw.register_hooks(pack, unpack)
    saved = y.grad_fn._saved_result
    log(numbers(saved), saved.requires_grad, saved.grad_fn is y.grad_fn)
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    log(numbers(g), numbers(torch.autograd.grad(g.sum(), x)[0]))
    y = x * x
    y.grad_fn._raw_saved_self.register_hooks(pack, unpack)
    log(y.grad_fn._saved_self is x, y.grad_fn._saved_self.requires_grad, y.grad_fn._saved_other is x)
    y.sum().backward()
    log(numbers(x.grad))


def refused(torch, log):
    log("register_hooks refused")
    x = leaf(torch, 2.0, 3.0)
    same = lambda t: t
    raw = x.exp().grad_fn._raw_saved_result
    y = x.exp()
    raw = y.grad_fn._raw_saved_result
    raw.register_hooks(same, same)
    attempt(log, raw.register_hooks, same, same)
    with torch.autograd.graph.saved_tensors_hooks(same, same):
        y = x.exp()
    attempt(log, y.grad_fn._raw_saved_result.register_hooks, same, same)
    y = x * torch.tensor([1.0, 1.0])
    attempt(log, y.grad_fn._raw_saved_self.register_hooks, same, same)
    y = x.exp()
    attempt(log, y.grad_fn._raw_saved_result.register_hooks, same)
    attempt(log, y.grad_fn._raw_saved_result.register_hooks, lambda t: t.add_(1), same)
    y = x.exp()
    attempt(log, y.grad_fn._raw_saved_result.register_hooks, lambda t: "nothing", same)
    attempt(log, lambda: y.grad_fn._saved_result)
    y = x.exp()
    attempt(log, y.grad_fn._raw_saved_result.register_hooks, lambda: 1, same)
    y = x.exp()
    attempt(log, y.grad_fn._raw_saved_result.register_hooks, lambda t: 1 / 0, same)
