"""Older classes around Function: InplaceFunction, Resize, mark_shared_storage, the classes that Function is derived from."""

import importlib


def run(torch, log):
    function = torch.autograd.function

    class Doubled(function.InplaceFunction):
        @staticmethod
        def forward(ctx, x, inplace=False):
            if inplace:
                ctx.mark_dirty(x)
                return x.mul_(2)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return 2 * grad, None

    class Shared(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log("shared", ctx.mark_shared_storage((x, x)))
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = torch.ones(2, requires_grad=True)
    y = x * 1
    log("doubled", Doubled.apply(x), Doubled.apply(y, True) is y, y)
    log.error("an instance", lambda: Doubled(True).inplace)
    log("shared", Shared.apply(x))
    log("classes", Doubled._backward_cls, issubclass(Doubled._backward_cls, function.BackwardCFunction))
    log("names", type(torch.autograd.Function), issubclass(torch.autograd.Function, function._SingleLevelFunction))
    log("switch", torch.autograd.Function.generate_vmap_rule)
    log.error("vmap", lambda: torch.autograd.Function.vmap(None, (0,), x))
    resize = importlib.import_module(f"{torch.__name__}.autograd._functions").Resize
    y = resize.apply(x * 1, (2, 1))
    y.sum().backward()
    log("resized", y, x.grad)
    log("not contiguous", resize.apply(torch.arange(6.0).reshape(2, 3).t(), (6,)))
    log.error("resized to more", lambda: resize.apply(x, (3,)))
    for name in ("forward_extended", "backward_extended"):
        log.error(name, lambda name=name: getattr(function.NestedIOFunction, name)(None, x))
