"""The dtype of leaves' gradients, and attributes of tensors that cannot be deleted."""

from typing import Any


def run(torch: Any, log: Any) -> None:
    """Log what there is to see."""
    refusals(torch, log)
    casts(torch, log)


def refusals(torch: Any, log: Any) -> None:
    """Set it to what does not fit."""
    leaf = torch.ones(2, requires_grad=True)
    computed = leaf * 2
    log("default", leaf.grad_dtype, torch.ones(2, dtype=torch.int64).grad_dtype)
    log.error("read", lambda: computed.grad_dtype)
    for x in (computed, leaf):
        for value in (torch.float16, None, 3, "float", torch.int64, torch.float16):
            log.error(f"{value}", lambda x=x, value=value: setattr(x, "grad_dtype", value))
    for gradient in (torch.ones(2), torch.ones(2, dtype=torch.float16)):
        log.error("gradient", lambda g=gradient: setattr(leaf, "grad", g))
    for value in (torch.float32, None, torch.float64, torch.float16):
        log.error("with gradient", lambda value=value: setattr(leaf, "grad_dtype", value))
    plain = torch.ones(2)
    plain.grad_dtype = torch.float64
    for gradient in (torch.ones(2), torch.ones(2, dtype=torch.float64)):
        log.error("plain", lambda g=gradient: setattr(plain, "grad", g))
    for name in ("data", "requires_grad", "_grad_fn", "_backward_hooks", "grad"):
        log.error(name, lambda name=name: delattr(leaf, name))
    log.error("_grad_fn", lambda: setattr(computed, "_grad_fn", 3))
    computed._grad_fn = None
    log("detached", computed.requires_grad)


def casts(torch: Any, log: Any) -> None:
    """Gradients that arrive in another dtype."""

    class Widened(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.to(torch.float64)

    for wanted in (None, torch.float16, torch.float64, torch.float32):
        for function in (Widened.apply, lambda x: x * 2):
            for late in (True, False):
                leaf = torch.ones(2, requires_grad=True)
                if not late:
                    leaf.grad_dtype = wanted
                result = function(leaf).sum()
                if late:
                    leaf.grad_dtype = wanted
                seen: list[Any] = []
                leaf.register_hook(lambda g, seen=seen: seen.append(g.dtype))
                found = torch.autograd.grad(result, leaf, retain_graph=True)[0].dtype
                for _ in range(2):
                    result.backward(retain_graph=True)
                log(wanted, late, found, leaf.grad.dtype, leaf.grad, seen, leaf.detach().grad_dtype)
        leaf = torch.ones(2, requires_grad=True)
        leaf.grad_dtype = wanted
        torch.autograd.backward(leaf, torch.ones(2))
        log("root", wanted, leaf.grad.dtype)
