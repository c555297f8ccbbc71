"""Inference mode: its forms, what inference tensors are and refuse, normal tensors and their views inside."""

import copy
import threading


def leaf(torch, values=(1.0, 2.0)):
    return torch.tensor(list(values), requires_grad=True)


def run(torch, log):
    forms(torch, log)
    kinds(torch, log)
    functions(torch, log)
    views_inside(torch, log)
    outside(torch, log)
    overwriting(torch, log)
    saving(torch, log)
    views_of_normal(torch, log)
    passes(torch, log)
    functions_of_users(torch, log)


def modes(torch):
    return torch.is_inference_mode_enabled(), torch.is_grad_enabled()


def forms(torch, log):
    log("forms")
    mode = torch.inference_mode
    x = leaf(torch)
    log(modes(torch))

    @mode()
    def called(x):
        return modes(torch), x * 2

    @mode
    def plain(x):
        return modes(torch), x * 2

    @mode(mode=False)
    def off(x):
        return modes(torch), x * 2

    def bare(x):
        return modes(torch), x * 2

    for function in (called, plain, off, mode(bare), mode(mode=bare)):
        log(function.__name__, *function(x))

    @mode()
    def steps():
        received = yield modes(torch)
        while True:
            try:
                received = yield received, modes(torch)
            except ValueError as error:
                received = str(error)

    generator = steps()
    log(next(generator), modes(torch), generator.send(3), generator.throw(ValueError("thrown")), modes(torch))
    generator.close()
    with mode():
        log(modes(torch))
        with mode(False):
            log(modes(torch), (x * 2).requires_grad)
            with mode():
                log(modes(torch))
            with torch.no_grad():
                log(modes(torch))
        with torch.enable_grad():
            log(modes(torch), (x * 2).requires_grad)
            with torch.no_grad():
                log(modes(torch))
            log(modes(torch))
        log(modes(torch))
        torch.set_grad_enabled(True)
        log(modes(torch), (x * 2).is_inference())
        with mode():
            log(modes(torch))
        log(modes(torch))
        seen = []
        thread = threading.Thread(target=lambda: seen.append(modes(torch)))
        thread.start()
        thread.join()
        log("thread", *seen)
    log(modes(torch))
    with torch.no_grad():
        with mode():
            log(modes(torch))
        log(modes(torch))
        with mode(False):
            log(modes(torch), (x * 2).requires_grad)

    def fails():
        with mode():
            raise KeyError("inside")

    log.error("raises", fails)
    log(modes(torch))
    for grad in (torch.no_grad, torch.enable_grad, torch.inference_mode):
        made = grad()(dict)
        log(made(a=1))
        made = grad(dict)
        log(made(a=1))
    log(torch.set_grad_enabled(False)(dict)(a=1), torch.is_grad_enabled())


def kinds(torch, log):
    log("kinds")
    x, c = leaf(torch), torch.ones(2)
    log(torch.is_inference(x), x.is_inference())
    log.error("number", lambda: torch.is_inference(3))
    with torch.inference_mode():
        t = torch.ones(2)
        r = torch.ones(2, requires_grad=True)
        for label, made in {
            "factory": t,
            "with gradient": r,
            "computed": x * 2,
            "of constants": c + 1,
            "view": x[0:1],
            "view of constant": c[0:1],
            "view of inference": t[0:1],
            "detached": x.detach(),
            "data": x.data,
            "detached inference": t.detach(),
            "data of inference": t.data,
            "clone": x.clone(),
            "copied": copy.deepcopy(x),
            "the same": x.to(x.dtype),
            "converted": x.double(),
            "of gradient": r * 2,
        }.items():
            log(label, made.is_inference(), made.requires_grad, made.is_leaf, made._is_view())
            log.error("  version", lambda made=made: made._version)
        log(t[0:1]._base is None, c[0:1]._base is c)
        with torch.enable_grad():
            log((x * 2).requires_grad, (r * 2).requires_grad, torch.ones(2).is_inference(), x.view(2).requires_grad)
            log(x.view(2).is_inference())
        c.add_(1)
        log(c, c._version, c.is_inference())
        x.add_(1)
        log(x.detach(), x._version)
        c.mul_(x)
        log(c, c._version)
        t.add_(1)
        log(t)
        torch.add(t, t, out=c)
        log(c, c._version)
        torch.add(t, t, out=x)
        log(x.detach(), x._version)
        out = torch.empty(2)
        torch.add(t, t, out=out)
        log(out, out.is_inference())
        log.error("asked for", lambda: t.clone().requires_grad_())
    log(t.is_inference(), r.requires_grad)


def functions(torch, log):
    log("functions")
    numbers = torch.tensor([[3.0, 1.0], [2.0, 4.0]])
    with torch.inference_mode():
        t = torch.tensor([[3.0, 1.0], [2.0, 4.0]])
        for name, x in (("inference", t), ("normal", numbers)):
            made = {
                "sum": x.sum(), "matmul": x @ x, "vector": x @ x[0], "cat": torch.cat([x, x]), "stack": torch.stack([x, x]),
                "index": x[torch.tensor([0])], "mask": x[x > 1], "t": x.t(), "reshape": x.reshape(4), "flatten": x.flatten(),
                "copied reshape": x.t().reshape(4), "max": x.max(0)[0], "indices": x.max(0)[1], "argmax": x.argmax(),
                "sort": x.sort()[0], "where": torch.where(x > 1, x, x), "compared": x > 0, "any": (x > 0).any(),
                "double": x.double(), "expand": x.expand(2, 2, 2), "split": x.split(1)[0], "unbind": x.unbind()[0],
                "std": x.std(), "softmax": x.softmax(0), "neg": -x, "radd": 1 + x, "rdiv": 1 / x, "rpow": 2**x, "pow": x**2,
                "clone": x.clone(), "nonzero": x.nonzero(), "cumsum": x.cumsum(0), "contiguous": x.t().contiguous(),
                "new": x.new_zeros(2), "zeros_like": torch.zeros_like(x), "rand_like": torch.rand_like(x),
                "diagonal": x.diagonal(), "narrow": x.narrow(0, 0, 1), "permute": x.permute(1, 0), "squeeze": x.squeeze(),
                "unsqueeze": x.unsqueeze(0), "ellipsis": x[...], "T": x.T, "view_as": x.view_as(x), "relu": x.relu(),
                "isclose": torch.isclose(x, x), "norm": x.norm(), "einsum": torch.einsum("ij->i", x), "tril": x.tril(),
                "gather": x.gather(0, torch.tensor([[0, 1]])), "chunk": x.chunk(2)[1], "var_mean": torch.var_mean(x)[1],
            }  # fmt: skip
            log(name, {label: value.is_inference() for label, value in made.items()})
        made = {
            "tensor": torch.tensor([1.0]), "zeros": torch.zeros(2), "ones": torch.ones(2), "full": torch.full((2,), 1.0),
            "empty": torch.empty(2), "arange": torch.arange(3), "linspace": torch.linspace(0, 1, 3), "eye": torch.eye(2),
            "rand": torch.rand(2), "randn": torch.randn(2), "randint": torch.randint(0, 2, (2,)),
            "randperm": torch.randperm(3), "as_tensor": torch.as_tensor([1.0]), "Tensor": torch.Tensor([1.0]),
            "sizes": torch.Tensor(2), "LongTensor": torch.LongTensor([1]), "normal": torch.normal(torch.zeros(2), 1.0),
            "func": torch.func.vmap(lambda x: x * 2)(numbers),
        }  # fmt: skip
        log({label: value.is_inference() for label, value in made.items()})
    log(torch.ones(2).is_inference(), (t + 1).is_inference(), t.clone().is_inference(), torch.zeros_like(t).is_inference())


def views_inside(torch, log):
    log("views of inference tensors, outside")
    with torch.inference_mode():
        t = torch.ones(2, 2)
    for label, made in {
        "t": t.t(),
        "index": t[0],
        "view": t.view(4),
        "split": t.split(1)[0],
        "detached": t.detach(),
        "data": t.data,
        "double": t.double(),
        "as itself": t.contiguous(),
        "as tensor": torch.as_tensor(t),
    }.items():
        log(label, made.is_inference(), made._is_view(), made is t)
    log(copy.deepcopy(t).is_inference(), repr(t), t.numpy().tolist())


def outside(torch, log):
    log("outside")
    x = leaf(torch)
    with torch.inference_mode():
        t = torch.ones(2)
        r = torch.ones(2, requires_grad=True)
    log.error("version", lambda: t._version)
    log((t + 1).is_inference(), (t + x).grad_fn.name())
    log.error("asked for", lambda: t.requires_grad_())
    log.error("asked for", lambda: setattr(t, "requires_grad", True))
    log.error("not asked for", lambda: t.requires_grad_(False))
    log.error("leaf times number", lambda: r * 2)
    log.error("leaf plus number", lambda: (r + 1).sum().backward())
    log(r.grad)
    log.error("hook", lambda: t.register_hook(print))
    graph = torch.autograd.graph
    log.error("increment", lambda: graph.increment_version(t))
    log.error("increment both", lambda: graph.increment_version([x, t]))
    log(x._version)
    log.error("preserve", lambda: torch.autograd._unsafe_preserve_version_counter(t))


def overwriting(torch, log):
    log("overwriting")
    x = leaf(torch)

    def fresh(**options):
        with torch.inference_mode():
            return torch.ones(2, **options)

    changes = {
        "mul_": lambda t: t.mul_(2), "by leaf": lambda t: t.mul_(x), "add_": lambda t: t.add_(x), "sin_": lambda t: t.sin_(),
        "copy_": lambda t: t.copy_(torch.zeros(2)), "fill_": lambda t: t.fill_(3.0), "zero_": lambda t: t.zero_(),
        "item": lambda t: t.__setitem__(0, 5.0), "items": lambda t: t.__setitem__(torch.tensor([0]), 5.0),
        "iadd": lambda t: t.__iadd__(1), "out": lambda t: torch.sin(torch.ones(2), out=t),
        "view": lambda t: t.view(2).add_(1),
        "index_add_": lambda t: t.index_add_(0, torch.tensor([0]), torch.ones(1)), "clamp_": lambda t: t.clamp_(0),
    }  # fmt: skip
    for label, change in changes.items():
        log.error(label, lambda change=change: change(fresh()))
        with torch.no_grad():
            log.error(label + ", no_grad", lambda change=change: change(fresh()))
        with torch.inference_mode():
            log.error(label + ", inside", lambda change=change: change(fresh()))
    log.error("normal_", lambda: fresh().normal_())
    r = fresh(requires_grad=True)
    log.error("leaf", lambda: r.add_(1))
    with torch.inference_mode():
        log.error("leaf, inside", lambda: r.add_(1))
    t = fresh()
    log("into normal tensors")
    z = torch.zeros(2)
    log(z.copy_(t), z.is_inference(), z._version)
    z[:] = t
    log(z, z._version)
    y = x * 1
    log.error("copy_", lambda: y.copy_(t))
    log.error("add_", lambda: y.add_(t))
    log.error("mul_", lambda: (x * 1).mul_(t))
    log(y.requires_grad)
    x.grad = t
    log.error("accumulated", lambda: (x * 2).sum().backward())


def saving(torch, log):
    log("saving")
    x = leaf(torch)
    matrix = torch.ones(2, 2, requires_grad=True)
    with torch.inference_mode():
        t, index, mask = torch.ones(2), torch.tensor([0]), torch.tensor([True, False])
    for label, compute in {
        "t * x": lambda: t * x, "x * t": lambda: x * t, "x + t": lambda: x + t, "x - t": lambda: x - t,
        "x / t": lambda: x / t, "x ** t": lambda: x**t, "matrix @ t": lambda: matrix @ t, "cat": lambda: torch.cat([x, t]),
        "index": lambda: x[index], "mask": lambda: x[mask], "where": lambda: torch.where(mask, x, x),
        "relu": lambda: torch.nn.functional.relu(t), "sum": lambda: (x + t).sum(), "maximum": lambda: torch.maximum(x, t),
        "dot": lambda: x.dot(t), "clone": lambda: t.clone() * x,
    }.items():  # fmt: skip
        log.error(label, compute)
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)
    with hooks:
        log.error("with hooks", lambda: t * x)
    with torch.no_grad():
        log.error("no_grad", lambda: (t * x).is_inference())
    checkpoint = torch.utils.checkpoint.checkpoint
    log.error("checkpoint", lambda: checkpoint(lambda x, t: x.sin() * t, x, t, use_reentrant=False))
    with torch.inference_mode(), hooks:
        log((t * x).is_inference())


def views_of_normal(torch, log):
    log("views of normal tensors")
    for mode in (torch.inference_mode, torch.no_grad):
        log(mode.__name__)
        x, c = leaf(torch), torch.ones(2)
        with mode():
            v, w = x[0:1], c[0:1]
            u = w.view(1)
            s = c.split(1)
        log(v.requires_grad, v.is_leaf, v._is_view(), v._base is x, v._version)
        log.error("of leaf", lambda: v.add_(1))
        with torch.no_grad():
            log.error("of leaf, no_grad", lambda: v.add_(1).detach())
        log.error("of constant", lambda: w.add_(1))
        log(w._version, c._version, c)
        log.error("by leaf", lambda: w.mul_(x[:1]))
        log.error("piece", lambda: s[0].add_(1))
        log.error("piece by leaf", lambda: s[0].add_(x[:1]))
        c.mul_(x)
        log.error("after the base", lambda: w.grad_fn)
        log(w.requires_grad)
        log.error("used", lambda: w + 1)
        log.error("view of it", lambda: u.grad_fn)
        b = x * 1
        with mode():
            bv = b[0:1]
            log(bv.requires_grad, bv.is_leaf)
            bv.add_(1)
        log(b._version, b.grad_fn.name())
        log.error("of the view", lambda: bv.grad_fn)
        b = x * 1
        squared = b * b
        with mode():
            b.add_(1)
        log.error("saved", lambda: squared.sum().backward())


def passes(torch, log):
    log("passes")
    x = leaf(torch)
    y = x.exp()
    with torch.inference_mode():
        log.error("no graph", lambda: x.sum().backward())
        log.error("no graph", lambda: torch.autograd.grad((x * 2).sum(), x))
        y.backward(torch.ones(2), retain_graph=True)
        log(x.grad, x.grad.is_inference())
        y.backward(torch.ones(2), retain_graph=True)
        log(x.grad)
        (g,) = torch.autograd.grad(y, x, torch.ones(2), create_graph=True)
        log(g, g.is_inference())


def functions_of_users(torch, log):
    log("Functions")

    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, kept):
            ctx.save_for_backward(kept)
            log("  inside", modes(torch), torch.ones(2).is_inference())
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    class Dirty(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(torch)
    with torch.inference_mode():
        t = torch.ones(2)
        made = Double.apply(x, t)
        log(made, made.is_inference())
        log(Dirty.apply(t) is t)
    log.error("saved", lambda: Double.apply(x, t))
    log.error("dirty", lambda: Dirty.apply(t))
    c = torch.ones(2)
    with torch.inference_mode():
        log(Dirty.apply(c) is c, c._version, c.is_inference())
        checkpoint = torch.utils.checkpoint.checkpoint
        log(checkpoint(torch.sin, x, use_reentrant=False).is_inference())
