"""Gradients of complex tensors: PyTorch's are the conjugates of derivatives; what is real gets the real part; refusals."""


def parts(value):
    """Return real and imaginary parts of a tensor's elements as floats."""
    found = value.detach().reshape(-1).tolist()
    return [[complex(v).real, complex(v).imag] for v in found], str(value.dtype), list(value.shape)


def cases(torch):
    z, u, x = [1 + 2j, -0.5 + 1j, 2 - 1j], [0.5 - 1j, 1 + 1j, -1 + 0.5j], [0.5, -1.5, 2.0]
    m = [[1 + 1j, 2j, 1], [0.5, 1 - 1j, -1j]]
    rows = torch.tensor([0, 2, 0])
    mask = torch.tensor([True, False, True])
    return {
        "add": ((z, x), lambda z, x: z + x),
        "sub": ((x, z), lambda x, z: x - z),
        "mul": ((z, u), lambda z, u: z * u),
        "mul real": ((z, x), lambda z, x: z * x),
        "real mul": ((x, z), lambda x, z: x * z),
        "mul itself": ((z,), lambda z: z * z),
        "mul number": ((z,), lambda z: z * (2 + 1j)),
        "real mul number": ((x,), lambda x: x * (2 + 1j)),
        "add number": ((x,), lambda x: x + 1j),
        "sub number": ((z,), lambda z: 1j - z),
        "div": ((z, u), lambda z, u: z / u),
        "div real": ((z, x), lambda z, x: z / x),
        "real div": ((x, z), lambda x, z: x / z),
        "rdiv": ((z,), lambda z: 1j / z),
        "neg": ((z,), lambda z: -z),
        "reciprocal": ((z,), lambda z: z.reciprocal()),
        "pow": ((z, u), lambda z, u: z**u),
        "pow 2": ((z,), lambda z: z**2),
        "pow 1.5": ((z,), lambda z: z**1.5),
        "pow complex": ((z,), lambda z: z ** (1 + 0.5j)),
        "number pow": ((z,), lambda z: 2**z),
        "exp": ((z,), lambda z: z.exp()),
        "log": ((z,), lambda z: z.log()),
        "log1p": ((z,), lambda z: z.log1p()),
        "sin": ((z,), lambda z: z.sin()),
        "cos": ((z,), lambda z: z.cos()),
        "tanh": ((z,), lambda z: z.tanh()),
        "sigmoid": ((z,), lambda z: z.sigmoid()),
        "sqrt": ((z,), lambda z: z.sqrt()),
        "abs": ((z,), lambda z: z.abs()),
        "clone": ((z,), lambda z: z.clone()),
        "sum": ((z,), lambda z: z.sum()),
        "sum dim": ((m,), lambda m: m.sum(1)),
        "mean": ((m,), lambda m: m.mean(0)),
        "prod": ((z,), lambda z: z.prod()),
        "matmul": ((m, m), lambda m, n: m @ n.t()),
        "matmul vector": ((m, z), lambda m, z: m @ z),
        "dot": ((z, u), lambda z, u: z @ u),
        "transpose": ((m,), lambda m: m.t() * (1 + 2j)),
        "reshape": ((m,), lambda m: m.reshape(-1) * 1j),
        "expand": ((z,), lambda z: z.expand(2, 3) * 1j),
        "broadcast": ((m, z), lambda m, z: m * z),
        "select": ((m,), lambda m: m[1] * 1j),
        "slice": ((m,), lambda m: m[:, 1:] * 1j),
        "index": ((z,), lambda z: z[rows] * 1j),
        "cat": ((z, u), lambda z, u: torch.cat([z, u]) * 1j),
        "stack": ((z, u), lambda z, u: torch.stack([z, u]) * 1j),
        "where": ((z, u), lambda z, u: torch.where(mask, z, u) * 1j),
        "to complex": ((x,), lambda x: x.to(torch.complex64) * (1 + 2j)),
        "to double": ((z,), lambda z: z.to(torch.complex128) * (1 + 2j)),
        "in place": ((z, u), lambda z, u: (z * 1j).mul_(u)),
        "in place, a view": ((z, u), lambda z, u: changed(z * 1j, u)),
        "abs of sum": ((z, x), lambda z, x: (z * x + u[0]).sum().abs()),
        "through two": ((z, x), lambda z, x: (z * x).exp() / (z.abs() + x * x)),
    }


def changed(z, u):
    z[1:].mul_(u[:2])
    z[0] = u[2] * 2
    return z


def run(torch, log):
    for name, (operands, function) in cases(torch).items():
        given = [torch.tensor(values, requires_grad=True) for values in operands]
        result = function(*given)
        log(name, parts(result))
        weight = torch.tensor([0.5 + 1j, 1 - 2j, 2.0, -1j, 1 + 1j, 0.25][: result.numel()]).reshape(result.shape)
        if "complex" not in str(result.dtype):
            weight = torch.arange(1, result.numel() + 1).reshape(result.shape) * 0.5
        seed = weight.to(result.dtype)
        first = torch.autograd.grad(result, given, seed, create_graph=True)
        log("  gradients", *[parts(g) for g in first])
        total = sum((g.abs() ** 2).sum() for g in first)
        if total.requires_grad:
            found = torch.autograd.grad(total, given, allow_unused=True, materialize_grads=True)
            log("  second", *[parts(g) for g in found])
    refused(torch, log)
    functions(torch, log)


def refused(torch, log):
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    log("default dtypes", torch.tensor([1j]).dtype, torch.tensor(1j).dtype, torch.full((2,), 1j).dtype, (x * 1j).dtype)
    log((x.double() * 1j).dtype, (torch.tensor([1, 2]) * 1j).dtype, torch.tensor([[1.0, 1j]]).dtype)
    torch.set_default_dtype(torch.float64)
    log(torch.tensor([1j]).dtype, (torch.tensor([1]) * 1j).dtype, torch.full((2,), 1j).dtype)
    torch.set_default_dtype(torch.float32)
    log.error("a complex root", lambda: z.sum().backward())
    log.error("of grad", lambda: torch.autograd.grad(z.sum(), z))
    log.error("an edge", lambda: torch.autograd.backward(torch.autograd.graph.get_gradient_edge(z.sum())))
    log.error("no scalar", lambda: z.backward())
    log.error("a real gradient", lambda: (z * 2).backward(torch.ones(2)))
    log.error("a complex gradient", lambda: (x * 2).backward(torch.ones(2) + 0j))
    log.error("second", lambda: torch.autograd.backward([x * 1, z * 2], [torch.ones(2), torch.ones(2)]))
    (z * 2).backward(torch.ones(2, dtype=torch.complex128))
    log(parts(z.grad))
    z.grad = None
    z.abs().sum().backward()
    z.abs().sum().backward()
    log(parts(z.grad))

    def assign(leaf, value):
        leaf.grad = value

    log.error("real .grad", lambda: assign(z, torch.ones(2)))
    log.error("complex .grad", lambda: assign(x, torch.ones(2) + 0j))
    y = z * 2
    y.register_hook(lambda g: g.abs())
    log.error("hook returns real", lambda: y.abs().sum().backward())
    y = z * 2
    y.register_hook(lambda g: g * 1j)
    z.grad = None
    y.abs().sum().backward()
    log("hook turns", parts(z.grad))
    y = x * 1j
    y.register_hook(lambda g: log("  hook", parts(g)))
    y.abs().sum().backward()
    log(parts(x.grad))
    log.error("requires_grad", lambda: torch.tensor([1j]).requires_grad_().requires_grad)
    log.error("in place", lambda: (x * 1).mul_(1j))
    log.error("in place real", lambda: parts((z * 1).mul_(x)))


def functions(torch, log):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx, g):
            log("  backward", parts(g))
            (z,) = ctx.saved_tensors
            return g * 2 * z

    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    Square.apply(z).abs().sum().backward()
    log("Function", parts(z.grad))

    class Real(torch.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z.abs()

        @staticmethod
        def backward(ctx, g):
            return g

    z.grad = None
    Real.apply(z).sum().backward()
    log("a real gradient", parts(z.grad))

    class Turned(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1j

        @staticmethod
        def backward(ctx, g):
            return g

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    log.error("a complex gradient", lambda: Turned.apply(x).abs().sum().backward())
