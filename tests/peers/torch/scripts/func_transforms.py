"""``torch.func``: transforms, composed with one another and with the graph."""


def run(torch, log):
    func = torch.func
    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    y = torch.tensor([1.5, 0.25, -0.75], dtype=torch.float64)
    batch = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.25, -2.0]], dtype=torch.float64)

    def shown(label, value):
        if isinstance(value, dict):
            for key in sorted(value):
                shown(f"{label}.{key}", value[key])
        elif isinstance(value, (tuple, list)):
            log(label, type(value).__name__, str(len(value)))
            for k, part in enumerate(value):
                shown(f"{label}.{k}", part)
        else:
            log(label, value.detach(), str(value.requires_grad))

    def number(x):
        return (x.exp() * x).sum()

    def vector(x):
        return x.sin() * x.sum()

    def two(x, y):
        return (x * y).sum() * x[0], x**2 * y

    shown("grad", func.grad(number)(x))
    shown("grad of a list", func.grad(lambda xs: number(xs[0]) * number(xs[1]))([x, y]))
    shown("grad of a dict", func.grad(lambda xs: number(xs["a"]) * number(xs["b"]))({"a": x, "b": y}))
    shown("argnums", func.grad(lambda x, y: number(x * y), argnums=(1, 0))(x, y))
    shown("last", func.grad(lambda x, y: number(x * y), argnums=-1)(x, y))
    shown("keyword", func.grad(lambda x, *, scale: number(x) * scale)(x, scale=y[0]))
    shown("and value", func.grad_and_value(number)(x))
    shown("aux", func.grad_and_value(lambda x: (number(x), {"a": x * 2, "b": [y]}), has_aux=True)(x))
    shown("grad aux", func.grad(lambda x: (number(x), x * 2), has_aux=True)(x))
    value, pull = func.vjp(two, x, y)
    shown("vjp", value)
    shown("vjp pulled", pull((y[0], x)))
    value, pull = func.vjp(vector, x)
    shown("vjp of one", pull(x))
    value, pull, aux = func.vjp(lambda x: (vector(x), x + 1), x, has_aux=True)
    shown("vjp aux", (value, pull(y), aux))
    shown("jvp", func.jvp(two, (x, y), (y, x)))
    shown("jvp aux", func.jvp(lambda x: (vector(x), x + 1), (x,), (y,), has_aux=True))
    value, push = func.linearize(vector, x)
    shown("linearize", (value, push(y), push(x)))
    for name in ("jacrev", "jacfwd"):
        transform = getattr(func, name)
        shown(name, transform(vector)(x))
        shown(f"{name} of two", transform(two, argnums=(0, 1))(x, y))
        shown(f"{name} aux", transform(lambda x: (vector(x), x + 1), has_aux=True)(x))
    shown("hessian", func.hessian(number)(x))
    shown("hessian of two", func.hessian(lambda x, y: number(x * y), argnums=(0, 1))(x, y))
    shown("vmap", func.vmap(vector)(batch))
    shown("vmap dims", func.vmap(lambda x, y: x * y.sum(), in_dims=(1, 0), out_dims=1)(batch, x))
    shown("vmap none", func.vmap(lambda x, s: x * s, in_dims=(0, None))(batch, 2.0))
    shown("vmap nest", func.vmap(lambda d: {"z": d["a"] * d["b"]}, in_dims=({"a": 0, "b": None},))({"a": batch, "b": x}))
    shown("vmap constant", func.vmap(lambda x: y)(batch))
    shown("vmap vmap", func.vmap(func.vmap(lambda a, b: a * b, in_dims=(None, 0)), in_dims=(0, None))(x, y))
    shown("per example", func.vmap(func.grad(lambda w, x: number(w * x)), in_dims=(None, 0))(y, batch))
    shown("grad grad", func.vmap(func.grad(func.grad(torch.sin)))(x))
    shown("jacobian of gradient", func.jacrev(func.grad(number))(x))
    shown("vmap hessian", func.vmap(func.hessian(number))(batch))
    shown("chunks", func.vmap(vector, chunk_size=1)(batch))
    shown("jacrev chunks", func.jacrev(vector, chunk_size=2)(x))

    # -- with the graph

    leaf = x.clone().requires_grad_()
    other = y.clone().requires_grad_()
    result = func.grad(lambda x: number(x * other))(leaf)
    shown("of a leaf", result)
    result.sum().backward()
    shown("leaf", leaf.grad)
    shown("closed over", other.grad)
    leaf.grad = other.grad = None
    first = torch.autograd.grad(func.vmap(func.grad(torch.sin))(leaf).sum(), leaf, create_graph=True)[0]
    shown("second", first)
    shown("third", torch.autograd.grad(first.sum(), leaf)[0])
    value, pull = func.vjp(vector, leaf)
    shown("vjp in the graph", (value, pull(other)))
    found = torch.autograd.grad(pull(other)[0].sum(), (leaf, other))
    shown("through the pullback", found)
    value, tangent = func.jvp(vector, (leaf,), (other,))
    shown("through jvp", torch.autograd.grad((value * tangent).sum(), (leaf, other)))
    shown("jacobian in the graph", torch.autograd.grad(func.jacrev(vector)(leaf).sum(), leaf))
    twice = leaf * 2
    shown("of a computed one", torch.autograd.grad(func.vmap(lambda x: x * twice)(batch).sum(), leaf))
    with torch.no_grad():
        shown("no_grad", func.grad(number)(leaf))
    shown("detached", func.grad(lambda x: number(x * other.detach()))(x))

    class Cube(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * grad

    shown("Function", func.grad(lambda x: Cube.apply(x).sum())(x))
    shown("Function, vmap", func.vmap(func.grad(lambda x: Cube.apply(x).sum()))(batch))
    shown("Function, jacrev", func.jacrev(Cube.apply)(x))
    shown("Function, twice", func.jacrev(func.jacrev(Cube.apply))(x[:2]))

    # -- what is refused

    log.error("a vector", lambda: func.grad(vector)(x))
    log.error("one element", lambda: func.grad(lambda x: number(x).reshape(1))(x))
    log.error("a number", lambda: func.grad(lambda x: 1.0)(x))
    log.error("a tuple", lambda: func.grad(lambda x: (number(x), number(x)))(x))
    log.error("integers", lambda: func.grad(lambda x: x.sum())(torch.tensor([1, 2])))
    log.error("no tensor", lambda: func.grad(lambda x: x * 2)(1.0))
    log.error("argnums beyond", lambda: func.grad(number, argnums=1)(x))
    log.error("no argnums", lambda: func.grad(number, argnums=())(x))
    log.error("argnums twice", lambda: func.grad(number, argnums=(0, 0))(x))
    log.error("no pair", lambda: func.grad(number, has_aux=True)(x))
    log.error("vjp shape", lambda: func.vjp(vector, x)[1](x[:2]))
    log.error("vjp nest", lambda: func.vjp(vector, x)[1]((x,)))
    log.error("vjp number", lambda: func.vjp(lambda x: 1.0, x))
    log.error("jvp primals", lambda: func.jvp(vector, x, x))
    log.error("jvp shape", lambda: func.jvp(vector, (x,), (x[:2],)))
    for strict in (False, True):
        for name, f in [
            ("a constant", lambda x: torch.ones(2)),
            ("detached", lambda x: x.detach() * 2),
            ("one of two", lambda x: (x * 2, torch.ones(2))),
            ("bools", lambda x: x > 0),
            ("all", lambda x: {"a": x * 2, "b": x[0].exp()}),
            ("through a gradient", lambda x: func.grad(number)(x)),
        ]:
            attempt = lambda f=f, strict=strict: type(func.jvp(f, (x,), (x,), strict=strict)[1]).__name__
            log.error(f"jvp of {name}, strict={strict}", attempt)
    mapped = vector
    log.error("in_dims beyond", lambda: func.vmap(mapped, in_dims=2)(x))
    log.error("in_dims None", lambda: func.vmap(mapped, in_dims=None)(x))
    log.error("sizes", lambda: func.vmap(two)(x, y[:2]))
    log.error("vmap of a number", lambda: func.vmap(two)(x, 2.0))
    log.error("vmap returns a number", lambda: func.vmap(lambda x: 1.0)(x))
    log.error("vmap of nothing", lambda: func.vmap(lambda: x)())
    log.error("randomness", lambda: func.vmap(mapped, randomness="some")(x))
    log.error("random", lambda: func.vmap(lambda x: x + torch.rand(3))(batch))
    drawn = func.vmap(lambda x: torch.rand(3), randomness="same")(batch)
    log("random, the same", str((drawn[0] - drawn[1]).abs().sum().item()))
