"""Every function: which gradients can be differentiated again, and the values of second and third derivatives."""

from tests.peers.torch.scripts.functions_derivatives import cases

WHOLE = ("Tanh", "Sigmoid", "Softmax", "LogSoftmax", "Relu", "Threshold", "NllLoss")
"""The functions whose gradient is an operation of its own in PyTorch; other gradients are composed."""


def run(torch, log):
    torch.set_default_dtype(torch.float64)
    try:
        orders(torch, log)
        wanting(torch, log)
    finally:
        torch.set_default_dtype(torch.float32)


def orders(torch, log):
    for name, (operands, function) in cases(torch).items():
        given = [torch.tensor(values, requires_grad=True) for values in operands]
        result = function(*given)
        weight = (torch.arange(1, result.numel() + 1).reshape(result.shape) * 0.5).to(result.dtype)
        found = torch.autograd.grad((result * weight).sum(), given, create_graph=True)
        log(f"{name}:", [g.requires_grad for g in found])
        if type(result.grad_fn).__name__.startswith(WHOLE):
            log("  nodes", *[type(g.grad_fn).__name__ for g in found])
            log("  edges", [(type(n).__name__, k) for n, k in found[0].grad_fn.next_functions])
            log("  fields", [f for f in dir(found[0].grad_fn) if f.startswith("_saved_") and f in COMMON])
        for order in ("second", "third"):
            total = sum((g * g).sum() for g in found)
            if not total.requires_grad:
                break
            found = torch.autograd.grad(total, given, create_graph=True, allow_unused=True)
            # A derivative that is zero everywhere may be recorded or not, and PyTorch may give it no memory.
            log(f"  {order}", *[torch.zeros_like(x) if g is None else g.detach() + 0.0 for g, x in zip(found, given)])
            found = [g for g in found if g is not None]


COMMON = ("_saved_dim", "_saved_grad_output", "_saved_output", "_saved_self", "_saved_threshold")


def wanting(torch, log):
    """Gradients that are differentiated by the gradient that came in, and by the operand."""
    F = torch.nn.functional
    labels = torch.tensor([0, 2])
    functions = {
        "tanh": lambda x: x.tanh(),
        "sigmoid": lambda x: x.sigmoid(),
        "relu": lambda x: x.relu(),
        "relu_": lambda x: (x * 1).relu_(),
        "tanh_": lambda x: (x * 1).tanh_(),
        "softmax": lambda x: x.softmax(1),
        "log_softmax": lambda x: x.log_softmax(0),
        "nll_loss": lambda x: F.nll_loss(x, labels),
        "nll_loss none": lambda x: F.nll_loss(x, labels, reduction="none"),
        "cross_entropy": lambda x: F.cross_entropy(x, labels),
        "exp": lambda x: x.exp(),
        "sqrt": lambda x: x.abs().sqrt(),
        "prod": lambda x: x.prod(),
        "clamp": lambda x: x.clamp(-0.5, 1.0),
        "max": lambda x: x.max(),
        "logsumexp": lambda x: x.logsumexp(1),
    }
    for name, function in functions.items():
        x = torch.tensor([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]], requires_grad=True)
        y = function(x)
        v = (torch.arange(1, y.numel() + 1).reshape(y.shape) * 0.5).requires_grad_()
        (g,) = torch.autograd.grad(y, x, v, create_graph=True)
        h, k = torch.autograd.grad((g * g * g).sum(), [v, x], create_graph=True, allow_unused=True, materialize_grads=True)
        log(f"{name} by both", g.detach(), h.detach(), k.detach() + 0.0)
        x.grad = v.grad = None
        (h.sum() + (k + 0.0).sum()).backward()
        log("  third", x.grad if x.grad is None else x.grad + 0.0, v.grad)
