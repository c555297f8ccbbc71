"""``jacobian`` and ``hessian`` of torch.autograd.functional by forward mode: values, nests, refusals, Functions."""


def run(torch, log):
    jacobian, hessian = torch.autograd.functional.jacobian, torch.autograd.functional.hessian
    double = torch.float64
    x = torch.tensor([1.0, 2.0], dtype=double)
    y = torch.tensor([[0.5, 1.0, 3.0]], dtype=double)
    asked = x.clone().requires_grad_()
    forward = {"vectorize": True, "strategy": "forward-mode"}

    class Hundredfold(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_forward(x)
            return x * x

        @staticmethod
        def jvp(ctx, tangent):
            return 100 * tangent * ctx.saved_tensors[0]

    class WithoutJvp(Hundredfold):
        jvp = torch.autograd.Function.jvp

    log("one", jacobian(lambda a: a.sin() * a.sum(), x, **forward))
    log("two, of two", jacobian(lambda a, b: (a.sum() * b, a), (x, y), **forward))
    log("two, of one", jacobian(lambda a, b: a.sum() * b, (x, y), **forward))
    log("one, of two", jacobian(lambda a: (a.sum(), torch.ones(2, dtype=double)), x, **forward))
    log("its jvp", jacobian(Hundredfold.apply, x, **forward))
    log.error("no jvp", lambda: jacobian(WithoutJvp.apply, x, **forward))
    found = jacobian(lambda a: a.sin() * a.sum(), asked, **forward)
    log("with a graph", found.detach(), found.requires_grad, torch.autograd.grad(found.sum(), asked))
    outer = {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}
    log("hessian", hessian(lambda a: (a.sin() * a.sum()).sum(), x, **outer).detach())
    pair = hessian(lambda a, b: (a.sin().sum() * b.exp()).sum(), (x, y), **outer)
    log("hessian, two", [[part.detach() for part in row] for row in pair])
    for name, more in {"loop": {"vectorize": False}, "strict": {"strict": True}, "graph": {"create_graph": True}}.items():
        log.error(f"jacobian, {name}", lambda more=more: jacobian(torch.sum, x, **{**forward, **more}))
        log.error(f"hessian, {name}", lambda more=more: hessian(torch.sum, x, **{**outer, **more}))
