"""Every error of checkpoint(use_reentrant=False), with its sentence (advice that is appended to it is left out)."""


def numbers(tensor):
    return [round(value, 4) for value in tensor.detach().reshape(-1).tolist()]


def attempt(log, function, *args, **options):
    try:
        result = function(*args, **options)
    except Exception as error:
        log(type(error).__name__, str(error).split("\n\nTip:")[0])
    else:
        log("returned", numbers(result) if hasattr(result, "reshape") else result)


def leaf(torch, *values):
    return torch.tensor(values, requires_grad=True)


def alternating(first, then):
    """Return a function that behaves as ``first`` once, then as ``then``."""
    calls = []

    def run(x):
        calls.append(x)
        return (first if len(calls) == 1 else then)(x)

    return run


def run(torch, log):
    checkpoint = torch.utils.checkpoint.checkpoint
    x = leaf(torch, 0.5, 0.25)

    def backward(first, then, **options):
        checkpoint(alternating(first, then), x, use_reentrant=False, **options).sum().backward()

    log("other shape")
    attempt(log, backward, lambda x: x.exp(), lambda x: x[:1].exp())
    attempt(log, backward, lambda x: x.sin().exp(), lambda x: x.sin()[:1].exp())
    log("other dtype")
    attempt(log, backward, lambda x: x.exp(), lambda x: x.double().exp())
    attempt(log, backward, lambda x: x.sin().exp(), lambda x: x.double().sin().exp())
    log("not checked")
    attempt(log, backward, lambda x: x.sin(), lambda x: x.double().sin(), determinism_check="none")
    attempt(log, backward, lambda x: x.sin(), lambda x: x + 1, determinism_check="none")
    attempt(log, backward, lambda x: x.sin(), lambda x: x, determinism_check="something")
    log("fewer")
    attempt(log, backward, lambda x: x.sin().exp(), lambda x: x.sin())
    attempt(log, backward, lambda x: x.sin().exp(), lambda x: x + 1)
    log("more")
    attempt(log, backward, lambda x: x.sin(), lambda x: x.sin().exp())
    attempt(log, backward, lambda x: x.sin(), lambda x: x.sin().exp(), early_stop=False)
    log("arguments")
    attempt(log, lambda: checkpoint(lambda x: x, x, use_reentrant=False, nonsense=1))
    attempt(log, lambda: checkpoint(lambda x: x, x, use_reentrant=True, context_fn=lambda: (None, None)))
    attempt(log, lambda: checkpoint(lambda x: x, x, use_reentrant=True, nonsense=1))
    attempt(log, lambda: checkpoint(lambda x: x, x, use_reentrant=True, debug=True))
    attempt(log, lambda: checkpoint(lambda x: x, x, use_reentrant=False, debug=True, context_fn=lambda: (None, None)))
    with torch.autograd.graph.disable_saved_tensors_hooks("hooks are off here"):
        attempt(log, lambda: checkpoint(lambda x: x.exp(), x, use_reentrant=False))
    log("unpacked twice")
    unpacked_twice(torch, log, checkpoint, x)
    log("errors of the user")
    attempt(log, lambda: checkpoint(lambda x: x.exp() / (1 / 0), x, use_reentrant=False))

    def fails(x):
        raise LookupError("only when recomputed")

    attempt(log, backward, lambda x: x.exp(), fails)
    x.grad = None
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=False)
    y.sum().backward()
    log("goes on as before", numbers(x.grad))
    attempt(log, lambda: y.sum().backward())


def unpacked_twice(torch, log, checkpoint, x):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            ctx.saved_tensors
            return grad * ctx.saved_tensors[0]

    attempt(log, lambda: checkpoint(lambda x: Twice.apply(x), x, use_reentrant=False).sum().backward())
    y = checkpoint(lambda x: Twice.apply(x), x, use_reentrant=False)
    log(numbers(y.grad_fn.saved_tensors[0]), numbers(y.grad_fn.saved_tensors[0]))
