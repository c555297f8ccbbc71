"""Outputs of ``torch.func`` transforms keep their place in the graph: arguments and tensors closed over get their gradients.

(Where PyTorch gives no gradient this library may give zeros: the log says "none" for both.)
"""


def run(torch, log):
    func = torch.func
    checkpoint = torch.utils.checkpoint.checkpoint

    v = torch.tensor([1.0, 2.0])

    def leaves(nest):
        if isinstance(nest, torch.Tensor):
            return [nest]
        values = [nest[k] for k in sorted(nest)] if isinstance(nest, dict) else nest
        return [leaf for value in values for leaf in leaves(value)]

    def ones(nest):
        if isinstance(nest, torch.Tensor):
            return torch.ones_like(nest)
        return {k: ones(x) for k, x in nest.items()} if isinstance(nest, dict) else tuple(map(ones, nest))

    def total(g):
        return lambda x: sum(leaf.sum() for leaf in leaves(g(x)))

    def both(pair, given):
        output, function = pair
        return output, function(given(output))

    functions = {
        "sum": lambda x, w: (x * w).sum(),
        "square": lambda x, w: (x * x * w).sum(),
        "vector": lambda x, w: x * w * w,
        "constant": lambda x, w: (w * w).sum(),
        "of x": lambda x, w: (x * x).sum(),
        "checkpoint": lambda x, w: checkpoint(lambda a: (a * a * w).sum(), x, use_reentrant=False),
        "detach": lambda x, w: (x * w.detach()).sum(),
        "pair": lambda x, w: ((x * w).sum(), w * w * x),
        "dict": lambda x, w: {"a": x * w, "b": w.sum()},
        "in place": lambda x, w: (x * w).mul_(w).sum(),
        "view": lambda x, w: (x * w)[0] + w[1],
        "outer": lambda x, w: torch.outer(x, w).sin().sum(),
    }
    transforms = {
        "vjp": lambda g, x: both(func.vjp(g, x), ones),
        "jvp": lambda g, x: func.jvp(g, (x,), (v,)),
        "grad": lambda g, x: func.grad(total(g))(x),
        "grad_and_value": lambda g, x: func.grad_and_value(total(g))(x),
        "aux": lambda g, x: func.grad_and_value(lambda z: (total(g)(z), g(z)), has_aux=True)(x),
        "linearize": lambda g, x: func.linearize(g, x)[0],
        "linear function": lambda g, x: func.linearize(g, x)[1](v),
        "linearize, both": lambda g, x: both(func.linearize(g, x), lambda _: v),
        "jacrev": lambda g, x: func.jacrev(g)(x),
        "jacfwd": lambda g, x: func.jacfwd(g)(x),
        "hessian": lambda g, x: func.hessian(total(g))(x),
        "vmap": lambda g, x: func.vmap(g)(torch.stack([x, 2 * x])),
        "vmap of grad": lambda g, x: func.vmap(func.grad(total(g)))(torch.stack([x, 2 * x])),
        "grad of jvp": lambda g, x: func.grad(lambda z: total(lambda z: func.jvp(g, (z,), (v,)))(z))(x),
        "grad of linearize": lambda g, x: func.grad(total(lambda z: func.linearize(g, z)[0]))(x),
        "jvp of grad": lambda g, x: func.jvp(func.grad(total(g)), (x,), (v,)),
    }

    def shown(grad):
        return "none" if grad is None or not grad.any() else str([round(float(a), 4) + 0.0 for a in grad])

    flagged = {"vjp", "jvp", "linearize", "vmap", "linearize, both"}
    for name, f in functions.items():
        for label, transform in transforms.items():
            if name == "checkpoint" and label not in ("linearize", "linear function", "linearize, both"):
                continue  # PyTorch refuses saved-tensor hooks there
            if name == "in place" and label in ("linear function", "linearize, both"):
                continue  # PyTorch's constant folding breaks there
            for wants in (False, True):
                for mode in (torch.enable_grad, torch.no_grad) if label in flagged else (torch.enable_grad,):
                    w = torch.tensor([2.0, 3.0], requires_grad=True)
                    x = torch.tensor([0.5, -1.5], requires_grad=wants)
                    with mode():
                        found = leaves(transform(lambda z, f=f, w=w: f(z, w), x))
                    if label in flagged:
                        log(name, label, mode.__name__, str(wants), str(found[0].requires_grad))
                    values = [[round(float(a), 4) + 0.0 for a in leaf.detach().reshape(-1)] for leaf in found]
                    loss = sum([leaf.sum() for leaf in found if leaf.requires_grad]) + (w * 7).sum()
                    loss.backward()
                    log(name, label, mode.__name__, str(wants), str(values), "w", shown(w.grad), "x", shown(x.grad))
