"""Every function: value, node, edges and saved fields, what pack hooks see, first and second derivatives."""


def cases(torch):
    """Return name, operands that want gradients, and the function of them."""
    F = torch.nn.functional
    x, y = [[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]], [[1.5, 0.5, -0.5], [2.0, 0.25, 1.0]]
    p, q = [[0.5, 1.25, 2.0], [1.5, 0.25, 0.75]], [[1.5, 0.5, 2.5], [2.0, 0.75, 1.0]]
    v, w, b = [0.5, -1.5, 2.0], [[1.0, 2.0, -1.0], [0.5, 0.0, 1.0], [2.0, 1.0, 1.0], [-1.0, 1.0, 0.5]], [0.5, 1.0, -1.0, 2.0]
    above = [[1.75, 0.75, 1.5], [2.5, 2.0, 3.0]]
    c = torch.tensor(y) > 0.6
    labels = torch.tensor([0, 2])
    rows = torch.tensor([1, 0, 1])
    picks = torch.tensor([[0, 1], [2, 2]])
    const = torch.tensor(y)
    batch = [[[0.5, 1.0, 2.0], [1.0, -1.0, 0.5]], [[2.0, 0.5, 1.0], [-1.0, 0.25, 1.5]]]
    return {
        "add": ((x, y), lambda x, y: x + y),
        "add, broadcast": ((x, v), lambda x, v: x + v),
        "add number": ((x,), lambda x: x + 2),
        "number add": ((x,), lambda x: 2.5 + x),
        "add alpha": ((x, y), lambda x, y: torch.add(x, y, alpha=3)),
        "sub": ((x, y), lambda x, y: x - y),
        "sub number": ((x,), lambda x: x - 1.5),
        "rsub": ((x,), lambda x: 1.5 - x),
        "mul": ((x, y), lambda x, y: x * y),
        "mul itself": ((x,), lambda x: x * x),
        "mul constant": ((x,), lambda x: x * const),
        "mul number": ((x,), lambda x: x * 2.5),
        "number mul": ((x,), lambda x: 3 * x),
        "mul broadcast": ((x, v), lambda x, v: x * v),
        "div": ((x, p), lambda x, p: x / p),
        "div number": ((x,), lambda x: x / 4),
        "rdiv": ((p,), lambda p: 2 / p),
        "div by constant": ((x,), lambda x: x / const),
        "neg": ((x,), lambda x: -x),
        "pow 2": ((x,), lambda x: x**2),
        "pow 3": ((x,), lambda x: x**3),
        "pow half": ((p,), lambda p: p**0.5),
        "pow 0": ((x,), lambda x: x**0),
        "pow": ((p, q), lambda p, q: p**q),
        "number pow": ((x,), lambda x: 2**x),
        "square": ((x,), lambda x: x.square()),
        "exp": ((x,), lambda x: x.exp()),
        "log": ((p,), lambda p: p.log()),
        "log1p": ((p,), lambda p: p.log1p()),
        "sin": ((x,), lambda x: x.sin()),
        "cos": ((x,), lambda x: torch.cos(x)),
        "tanh": ((x,), lambda x: x.tanh()),
        "sigmoid": ((x,), lambda x: x.sigmoid()),
        "relu": ((x,), lambda x: x.relu()),
        "sqrt": ((p,), lambda p: p.sqrt()),
        "abs": ((x,), lambda x: x.abs()),
        "reciprocal": ((p,), lambda p: p.reciprocal()),
        "sign": ((x,), lambda x: x.sign()),
        "floor": ((x,), lambda x: x.floor()),
        "clone": ((x,), lambda x: x.clone()),
        "maximum": ((x, y), lambda x, y: torch.maximum(x, y)),
        "minimum": ((x, y), lambda x, y: torch.minimum(x, y)),
        "where": ((x, y), lambda x, y: torch.where(c, x, y)),
        "where number": ((x,), lambda x: torch.where(c, x, 0.0)),
        "clamp": ((x,), lambda x: x.clamp(-0.5, 1.0)),
        "clamp low": ((x,), lambda x: x.clamp(min=0.5)),
        "clamp high": ((x,), lambda x: x.clamp(max=0.5)),
        "clamp tensors": ((x, y, above), lambda x, y, above: x.clamp(y, above)),
        "clamp low tensor": ((x, y), lambda x, y: x.clamp(min=y)),
        "sum": ((x,), lambda x: x.sum()),
        "sum dim": ((x,), lambda x: x.sum(1)),
        "sum dims keepdim": ((x,), lambda x: x.sum((0, 1), keepdim=True)),
        "mean": ((x,), lambda x: x.mean()),
        "mean dim": ((x,), lambda x: x.mean(-1, keepdim=True)),
        "prod": ((x,), lambda x: x.prod()),
        "max": ((x,), lambda x: x.max()),
        "min": ((x,), lambda x: x.min()),
        "max, ties": (([1.0, 2.0, 2.0],), lambda x: x.max()),
        "max dim": ((x,), lambda x: x.max(1)[0]),
        "max dim, ties": (([[1.0, 2.0, 2.0]],), lambda x: x.max(1).values),
        "min dim": ((x,), lambda x: x.min(0, keepdim=True).values),
        "maximum, ties": (([1.0, 2.0], [1.0, 3.0]), lambda x, y: torch.maximum(x, y)),
        "softmax": ((x,), lambda x: x.softmax(1)),
        "log_softmax": ((x,), lambda x: F.log_softmax(x, 0)),
        "logsumexp": ((x,), lambda x: x.logsumexp(1)),
        "mm": ((x, w), lambda x, w: x.mm(w.t())),
        "mm constant": ((x,), lambda x: x @ const.T),
        "matmul 2 1": ((x, v), lambda x, v: x @ v),
        "matmul 1 1": ((v, v), lambda v, u: v @ u),
        "matmul 1 2": ((b, w), lambda b, w: b @ w),
        "matmul 3 2": ((batch, w), lambda s, w: s @ w.T),
        "matmul 3 1": ((batch, v), lambda s, v: s @ v),
        "matmul 3 3": ((batch, batch), lambda s, r: s @ r.mT),
        "bmm": ((batch, batch), lambda s, r: s.bmm(r.transpose(1, 2))),
        "linear": ((x, w, b), lambda x, w, b: F.linear(x, w, b)),
        "linear without bias": ((x, w), lambda x, w: F.linear(x, w)),
        "linear 3": ((batch, w, b), lambda s, w, b: F.linear(s, w, b)),
        "linear 1": ((v, w, b), lambda v, w, b: F.linear(v, w, b)),
        "t": ((x,), lambda x: x.t()),
        "T": ((x,), lambda x: x.T),
        "transpose": ((batch,), lambda s: s.transpose(0, 2)),
        "permute": ((batch,), lambda s: s.permute(2, 0, 1)),
        "reshape": ((x,), lambda x: x.reshape(3, -1)),
        "reshape, copy": ((x,), lambda x: x.t().reshape(6)),
        "view": ((x,), lambda x: x.view(-1)),
        "flatten": ((batch,), lambda s: s.flatten(1)),
        "expand": ((v,), lambda v: v.expand(2, -1)),
        "squeeze": (([[1.0], [2.0]],), lambda x: x.squeeze()),
        "squeeze dim": (([[1.0], [2.0]],), lambda x: x.squeeze(1)),
        "unsqueeze": ((x,), lambda x: x.unsqueeze(-1)),
        "cat": ((x, y), lambda x, y: torch.cat([x, const, y], 1)),
        "stack": ((x, y), lambda x, y: torch.stack([x, y], -1)),
        "contiguous": ((x,), lambda x: x.t().contiguous()),
        "select": ((x,), lambda x: x[1]),
        "select last": ((x,), lambda x: x[..., -1]),
        "slice": ((x,), lambda x: x[:, 1:]),
        "slice step": ((x,), lambda x: x[0, ::2]),
        "all": ((x,), lambda x: x[:]),
        "None": ((x,), lambda x: x[None, :, 0]),
        "index": ((x,), lambda x: x[rows]),
        "index second": ((x,), lambda x: x[:, rows]),
        "index both": ((x,), lambda x: x[rows, torch.tensor([0, 0, 2])]),
        "index list": ((x,), lambda x: x[[1, 1]]),
        "gather": ((x,), lambda x: x.gather(1, picks)),
        "nll_loss": ((x,), lambda x: F.nll_loss(x, labels)),
        "nll_loss sum": ((x,), lambda x: F.nll_loss(x, labels, reduction="sum")),
        "nll_loss none": ((x,), lambda x: F.nll_loss(x, labels, reduction="none")),
        "nll_loss ignored": ((x,), lambda x: F.nll_loss(x, labels, ignore_index=2)),
        "nll_loss weights": ((x,), lambda x: F.nll_loss(x, labels, weight=torch.tensor([1.0, 2.0, 4.0]))),
        "cross_entropy": ((x,), lambda x: F.cross_entropy(x, labels)),
        "mse_loss": ((x, y), lambda x, y: F.mse_loss(x, y)),
        "mse_loss sum": ((x, y), lambda x, y: F.mse_loss(x, y, reduction="sum")),
        "double": ((x,), lambda x: x.double()),
        "int tensor": ((x,), lambda x: x * torch.tensor([1, 2, 3])),
        "0-d double": ((x,), lambda x: x * torch.tensor(2.0, dtype=torch.float64)),
    }


def node_of(fn):
    """Return the name of a node."""
    return "None" if fn is None else type(fn).__name__


def run(torch, log):
    for name, (operands, function) in cases(torch).items():
        given = [torch.tensor(values, requires_grad=True) for values in operands]
        packed = []

        def pack(t, packed=packed):
            packed.append(f"{tuple(t.shape)} {t.dtype} {t.is_leaf}")
            return t

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            result = function(*given)
        fn = result.grad_fn
        edges = [(node_of(n), k) for n, k in fn.next_functions]
        log(f"{name}:", result, edges)
        log(f"  packed {packed}")
        skipped = ("_sym_strides", "dim0", "dim1", "_saved_dim", "_saved_end", "_saved_indices")
        fields = sorted(f for f in dir(fn) if f.startswith("_saved_") and not any(s in f for s in skipped))
        log(f"  fields {fields}")
        if not name.startswith(("slice", "squeeze", "unsqueeze", "None")):
            for f in fields:
                log(f"    {f}", getattr(fn, f))
        weight = torch.arange(1, result.numel() + 1).reshape(result.shape) * 0.5
        first = torch.autograd.grad((result * weight).sum(), given, create_graph=True)
        for g in first:
            log("  gradient", g.detach())
        total = sum((g * g).sum() for g in first)
        # A gradient that does not depend on the operands may or may not be recorded: its derivative is zero.
        constant = [torch.zeros_like(g) for g in given]
        options = {"allow_unused": True, "materialize_grads": True}
        for h in torch.autograd.grad(total, given, **options) if total.requires_grad else constant:
            log("  second", h + 0.0)  # PyTorch may give zeros without memory
