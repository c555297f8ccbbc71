"""``torch.func`` with ``detach``, ``no_grad`` and hooks inside the function, and around the transform.

(In PyTorch ``no_grad`` does not touch forward mode; here a constant is one in every mode. Of several hooks on one tensor all
but the last are called again here when the next one is registered.)
"""


def run(torch, log):
    func = torch.func
    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    y = torch.tensor([1.5, 0.25, -0.5], dtype=torch.float64)

    def shown(label, f, *also):
        for name, transform in [
            *also,
            ("grad", func.grad(f)),
            ("jacrev", func.jacrev(f)),
            ("second", func.jacrev(func.grad(f))),
            ("vmap", func.vmap(func.grad(lambda a: f(a)), in_dims=0)),
        ]:
            given = torch.stack([x, y]) if name == "vmap" else x
            log(label, name, transform(given).detach())

    def without(x):
        with torch.no_grad():
            y = x * x
        return (y * x).sum()

    def switched(x):
        torch.set_grad_enabled(False)
        y = x.exp()
        torch.set_grad_enabled(True)
        return (y * x).sum()

    @torch.no_grad()
    def constant(x):
        return x.sin()

    def again(x):
        with torch.no_grad():
            y = x * 2
            with torch.enable_grad():
                z = x * 3
        return (y * z * x).sum()

    def detached(x):
        return (x.detach() * x**2).sum()

    def by_data(x):
        return (x.detach().exp() * x).sum()

    def masked(x):
        with torch.no_grad():
            keep = (x > 0).to(x.dtype)
        return (keep * x**2).sum()

    shown("no_grad", without)
    shown("set_grad_enabled", switched)
    shown("decorated", lambda x: (constant(x) * x).sum())
    shown("enable_grad inside", again)
    shown("detach", detached, ("jacfwd", func.jacfwd(detached)))
    shown("detach and exp", by_data, ("jacfwd", func.jacfwd(by_data)))
    shown("mask", masked)
    with torch.no_grad():
        shown("around", lambda x: (x**3).sum())
        shown("around and inside", without)
        seen = []

        def asked(x):
            seen.append(torch.is_grad_enabled())
            return (x**2).sum()

        for name in ("grad", "grad_and_value", "jacrev", "jacfwd", "hessian"):
            getattr(func, name)(asked)(torch.ones(2))
        func.vjp(asked, torch.ones(2))
        func.jvp(asked, (torch.ones(2),), (torch.ones(2),))
        func.vmap(asked)(torch.ones(2, 2))
        log("grad mode inside", seen)

    def nested(x):
        with torch.no_grad():
            slope = func.grad(lambda a: (a**3 * x).sum())(x)
        return (slope * x).sum()

    log("a transform inside no_grad", func.grad(nested)(x))
    log("a transform of another value", func.grad(lambda x: (func.grad(lambda a: (a * x.detach()).sum())(x) * x).sum())(x))

    seen = []

    def hooked(x):
        y = x * x
        y.register_hook(lambda g: g * 2)
        y.register_hook(lambda g: None)
        y.register_hook(lambda g: seen.append("last") or g + 1)
        return (y * x).sum()

    log("hooks", func.grad(hooked)(x), str(seen))

    def leaf_hook(x):
        x.register_hook(lambda g: g * 10)
        return (x**2).sum()

    log("hook of the argument", func.grad(leaf_hook)(x))
    log("vmap of hooks", func.vmap(func.grad(leaf_hook))(torch.stack([x, y])))

    def saving(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            return x.exp().sum()

    try:
        func.grad(saving)(x)
        log("saved-tensor hooks: no error")
    except RuntimeError as error:
        log("saved-tensor hooks", str(error).split(" (In ")[0])
