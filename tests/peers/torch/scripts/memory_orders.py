"""In what order the elements of results lie, where operands lie in several orders: elementwise, indexed, multiplied."""

import itertools
import warnings

import numpy as np

PAIRS = (
    """
x + y; x * y; x / y; x ** y; x == y; x // y; torch.add(x, y, alpha=2); torch.rsub(x, y); torch.maximum(x, y);
torch.where(x > 2, x, y); torch.where(y > 2, x, x); torch.where(y > 2, x, 1.0); torch.lerp(x, y, 0.3); torch.lerp(x, x, y);
torch.addcmul(y, x, x); torch.addcmul(x, x, y); torch.clamp(x, min=y); x.clamp(y, y + 1); torch.isclose(x, y);
torch.nn.functional.mse_loss(x, y, reduction='none'); x + y.detach(); (x * 1) + (y * 1)
""".replace("\n", " ")
    .strip("; ")
    .split("; ")
)
OF_ONE = (
    """
x[[0, 1]]; x[:, [0, 1]]; x[..., [0, 1]]; x[[0, 1], [1, 0]]; x[[0, 1], ..., [0, 1]]; x[None, [0]]; x[x > 2]; x[:, i.t()];
x[i]; x[i.t()]; x.gather(0, torch.zeros_like(x, dtype=torch.int64)); x.index_fill(0, i[0], 1.0); x.sort(0)[0]; x * 1j;
x.argsort(0); torch.rand_like(x); torch.zeros_like(x); x.float(); x.clone(); x.sin(); x > 1; torch.where(x > 2)[0];
torch.cat([x, x], -1); torch.stack([x, x], -1); torch.nonzero(x); torch.full_like(x, 2.0); x.masked_fill(x > 2, 0.0);
torch.topk(x > 2, 1)
""".replace("\n", " ")
    .strip("; ")
    .split("; ")
)
PRODUCTS = (
    "ij,jk->ik ij,jk->ki ij,kj->ik ij,ik->kj ij,ij->ji ij,kl->ilkj ij,j->i bij,bjk->bik bij,bjk->bki bij,jk->kbi"
    "bij,bjk->ikb bij,bij->jib bij,ij->bi"
)


OF_ARRAYS = (
    "torch.tensor(a)", "torch.as_tensor(a)", "torch.as_tensor(a, dtype=torch.float32)", "torch.asarray(a, copy=True)",
    "torch.Tensor(a)", "torch.asarray(a, dtype=torch.int64)", "torch.LongTensor(a)", "torch.ones(1).new(a)",
    "torch.from_numpy(a).type(torch.float16)",
)  # fmt: skip


def dense(torch, shape, order):
    """Return a tensor whose axes lie in memory in an order, outermost first."""
    count = 1
    for n in shape:
        count *= n
    return (
        torch.arange(1.0, count + 1).reshape([shape[k] for k in order]).permute([order.index(k) for k in range(len(order))])
    )


def tensors(torch):
    """Return tensors by how they lie."""
    found = {
        "matrix": dense(torch, (2, 3), (0, 1)),
        "turned": dense(torch, (2, 3), (1, 0)),
        "rows expanded": torch.arange(1.0, 4).expand(2, 3),
        "columns expanded": torch.arange(1.0, 3)[:, None].expand(2, 3),
        "apart": dense(torch, (4, 6), (0, 1))[::2, ::2],
        "apart and turned": dense(torch, (6, 4), (0, 1))[::2, ::2].t(),
        "row": torch.arange(1.0, 4),
        "column": dense(torch, (2, 1), (0, 1)),
        "number": torch.tensor(2.0),
        "double turned": dense(torch, (2, 3), (1, 0)).double(),
        "cubes expanded": dense(torch, (4, 3), (0, 1)).t().expand(2, 3, 4),
        "cubes expanded inside": dense(torch, (2, 1, 4), (2, 0, 1)).expand(2, 3, 4),
        "panes": dense(torch, (2, 1, 4), (2, 0, 1)),
        "channels last": dense(torch, (2, 3, 2, 2), (0, 2, 3, 1)),
        "channels first": dense(torch, (2, 3, 2, 2), (0, 1, 2, 3)),
    }
    for order in itertools.permutations(range(3)):
        found[f"cube {order}"] = dense(torch, (2, 3, 4), order)
    return found


def shown(torch, expression, **names):
    """Return the steps of a result along axes of more than one element, and whether it can be looked at as a row."""
    try:
        made = eval(expression, {"torch": torch, "i": torch.tensor([[0, 1], [1, 0]]), **names})
    except Exception:
        return "raises"
    steps = [f"{n}:{step}" if n > 1 else str(n) for n, step in zip(made.shape, made.stride())]
    return f"[{', '.join(steps)}]{' in rows' if made.is_contiguous() else ''}"


def run(torch, log):
    given = tensors(torch)
    with warnings.catch_warnings(action="ignore"):
        for a, b in itertools.product(given, given):
            found = {}
            for expression in PAIRS:
                found.setdefault(shown(torch, expression, x=given[a], y=given[b]), []).append(expression)
            if list(found) != ["raises"]:
                log(f"{a}, {b}", *(f"{says}: {'; '.join(expressions)}" for says, expressions in sorted(found.items())))
        for name, x in ((name, x) for name, x in given.items() if 1 not in x.shape):
            for expression in OF_ONE:
                log(f"{name}: {expression}: {shown(torch, expression, x=x)}")
        cube = np.arange(24.0).reshape(2, 3, 4)
        arrays = cube[0], cube[0].T, cube[0, :, ::2].T, cube.transpose(2, 0, 1), cube[:, ::2].transpose(1, 0, 2)
        arrays += tuple(np.broadcast_to(array, (2, *array.shape)) for array in arrays[:3])
        for (k, a), expression in itertools.product(enumerate(arrays), OF_ARRAYS):
            log(f"array {k}: {expression}: {shown(torch, expression, a=a)}")
        for equation in PRODUCTS.split():
            terms = equation.partition("->")[0].split(",")
            shapes = [tuple({"i": 2, "j": 3, "k": 4, "l": 5, "b": 6}[c] for c in term) for term in terms]
            for orders in itertools.product(*(itertools.permutations(range(len(shape))) for shape in shapes)):
                x, y = (dense(torch, shape, order) for shape, order in zip(shapes, orders))
                log(f"{equation} {orders}: {shown(torch, f'torch.einsum({equation!r}, x, y)', x=x, y=y)}")
