"""In-place operations: values, versions, nodes and edges; views; what gradients become; every error."""


def edges(fn):
    """Return the names of the nodes that a node leads to."""
    return [None if n is None else type(n).__name__ for n, _ in fn.next_functions]


def run(torch, log):
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    w = torch.tensor([0.5, -1.0, 2.0], requires_grad=True)
    methods = {
        "add_": lambda x: x.add_(w),
        "add_ number": lambda x: x.add_(2.0),
        "add_ alpha": lambda x: x.add_(w, alpha=2),
        "sub_": lambda x: x.sub_(w),
        "mul_": lambda x: x.mul_(w),
        "mul_ number": lambda x: x.mul_(3),
        "mul_ itself": lambda x: x.mul_(x),
        "div_": lambda x: x.div_(w),
        "pow_": lambda x: x.pow_(2),
        "exp_": lambda x: x.exp_(),
        "relu_": lambda x: x.relu_(),
        "neg_": lambda x: x.neg_(),
        "sin_": lambda x: x.sin_(),
        "zero_": lambda x: x.zero_(),
        "fill_": lambda x: x.fill_(2.0),
        "copy_": lambda x: x.copy_(w),
        "+=": lambda x: x.__iadd__(w),
        "*=": lambda x: x.__imul__(w),
    }
    for name, method in methods.items():
        x = a * 2
        before = x.grad_fn
        result = method(x)
        log(name, result is x, x._version, x, edges(x.grad_fn), x.grad_fn.next_functions[0][0] is before)
        log.error("  gradients", lambda x=x: torch.autograd.grad((x * x).sum(), [a, w], allow_unused=True))

    log("views")
    for name, change in {
        "row mul_": lambda x: x[0].mul_(w),
        "row add_ number": lambda x: x[0].add_(1.0),
        "row exp_": lambda x: x[1].exp_(),
        "column copy_": lambda x: x[:, 1].copy_(w[:2]),
        "element": lambda x: x[0, 2].mul_(w[1]),
        "setitem row": lambda x: x.__setitem__(0, w),
        "setitem number": lambda x: x.__setitem__((slice(None), 1), 0.0),
        "setitem all": lambda x: x.__setitem__(slice(None), w),
        "setitem index": lambda x: x.__setitem__(torch.tensor([1]), w * 2),
        "transposed": lambda x: x.t()[2].mul_(w[:2]),
        "reshaped": lambda x: x.view(6)[1:4].mul_(w),
        "unsqueezed": lambda x: x.unsqueeze(0).mul_(w),
    }.items():
        base = torch.tensor([[1.0, 2.0, 3.0], [0.5, 1.5, -1.0]], requires_grad=True)
        x = base * 2
        other = x[1]
        change(x)
        log(name, x._version, x, edges(x.grad_fn), type(other.grad_fn).__name__, edges(other.grad_fn))
        first = torch.autograd.grad((x * x).sum() + other.sum(), [base, w], create_graph=True, allow_unused=True)
        log("  gradients", *[g if g is None else g.detach() for g in first])
        total = (first[0] ** 2).sum()
        if total.requires_grad:
            log("  second", *torch.autograd.grad(total, [base, w], allow_unused=True, materialize_grads=True))

    log("a base without gradients")
    x = torch.ones(2, 3)
    v = x[0]
    v.mul_(w)
    log(x, edges(x.grad_fn), v, edges(v.grad_fn), x.is_leaf, v.requires_grad, v._is_view(), v._base is x)
    log(*torch.autograd.grad((x * x).sum() + v.sum(), [w]))

    log("versions")
    x = torch.zeros(2, 2)
    v, d = x[0], x.detach()
    v.add_(1)
    d.mul_(2)
    x.data.add_(1)
    log(x._version, v._version, d._version, x.data._version, x)
    with torch.no_grad():
        leaf = torch.ones(2, requires_grad=True)
        leaf.add_(1)
    log(leaf, leaf._version)

    log("errors")
    leaf = torch.ones(3, requires_grad=True)
    log.error("leaf", lambda: leaf.add_(1))
    log.error("leaf, setitem", lambda: leaf.__setitem__(0, 1.0))
    log.error("view of a leaf", lambda: leaf[0:2].mul_(2))
    log.error("leaf copy_ from a graph", lambda: torch.zeros(3).requires_grad_().copy_(leaf * 2))
    with torch.no_grad():
        hidden = (leaf * 2)[0:2]
        shown = leaf[0:2]
    log.error("view made in no_grad", lambda: shown.mul_(2))
    log.error("view of a constant made in no_grad", lambda: hidden.mul_(leaf[0:2]))
    log.error("shape", lambda: torch.ones(3).add_(torch.ones(2, 3)))
    log.error("shapes", lambda: torch.ones(3).add_(torch.ones(2)))
    log.error("kind", lambda: torch.ones(3, dtype=torch.int64).add_(1.5))
    log.error("kind, divided", lambda: torch.ones(3, dtype=torch.int64).div_(2))
    log.error("expanded", lambda: torch.ones(1).expand(3).add_(1))
    x = leaf * 2
    y = x.exp()
    y.add_(1)
    log.error("saved result", lambda: y.sum().backward())
    x = leaf * 2
    y = x.sin()
    x.add_(1)
    log.error("saved operand", lambda: y.sum().backward())
    x = leaf * 2
    y = x.sin()
    x[0].add_(1)
    log.error("saved operand, through a view", lambda: y.sum().backward())
    x = leaf * 2
    y = x * x.detach()
    x.detach().add_(1)
    log.error("through detach", lambda: y.sum().backward())
    c = torch.ones(3)
    y = leaf * c
    c.add_(1)
    log.error("saved constant", lambda: y.sum().backward())
    x = leaf * 2
    v = x[0:2]
    x.mul_(v.sum())
    log("operand that shares memory", x, edges(x.grad_fn))
    y = leaf * 1
    y[0:2].mul_(y[1:3].detach().clone())
    log(y, edges(y.grad_fn), *torch.autograd.grad(y.sum(), [leaf]))
