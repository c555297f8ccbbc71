"""Where a tensor gives its memory to NumPy, and where it refuses: modes, Functions, hooks, kinds of tensors."""

import warnings

import numpy as np


def run(torch, log):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # NumPy's, of how PyTorch's __array__ is written
        access(torch, log)


def access(torch, log):
    leaf = torch.tensor([1.0, 2.0], requires_grad=True)
    tensors = {
        "leaf": leaf,
        "computed": leaf * 2,
        "view": leaf[1:],
        "detached": leaf.detach(),
        "data": leaf.data,
        "constant": torch.ones(2),
        "scalar": (leaf * leaf).sum(),
        "integers": torch.tensor([1, 2]),
    }
    accesses = {
        "numpy()": lambda t: t.numpy(),
        "force": lambda t: t.numpy(force=True),
        "asarray": lambda t: np.asarray(t),
        "array": lambda t: np.array(t),
        "array of dtype": lambda t: np.array(t, dtype=np.float64),
        "ufunc": lambda t: np.sin(t),
        "sum": lambda t: np.sum(t),
        "array and tensor": lambda t: np.ones(2) + t.detach(),
        "__array__": lambda t: t.__array__(),
        "list": lambda t: np.array([t.detach(), t.detach()]).shape,
        "item": lambda t: t.sum().item(),
        "tolist": lambda t: t.tolist(),
    }

    def show(value):
        if isinstance(value, np.ndarray):
            return ["ndarray", np.round(value, 4).tolist(), str(value.dtype)]
        return type(value).__name__ if not isinstance(value, (float, int, list, tuple)) else value

    def attempts(title, names=tuple(accesses)):
        log(title)
        for label, t in tensors.items():
            for name in names:
                log.error(f"{label} {name}", lambda: show(accesses[name](t)))

    attempts("with recording")
    direct = ("numpy()", "force", "asarray", "array", "__array__")
    with torch.no_grad():
        attempts("in no_grad", direct)
        with torch.enable_grad():
            attempts("in enable_grad", direct[:2])
    with torch.set_grad_enabled(False):
        attempts("set_grad_enabled", direct[:1])

    class Inside(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            log.error("  forward", lambda: show(x.numpy()))
            log.error("  asarray", lambda: show(np.asarray(x)))
            log.error("  computed", lambda: show((x * 2).numpy()))
            return torch.from_numpy(np.array([5.0, 6.0], dtype=np.float32))

        @staticmethod
        def backward(ctx, g):
            log.error("  backward", lambda: show(g.numpy()))
            log.error("  the leaf", lambda: show(leaf.numpy()))
            return g

    log("in a Function")
    y = Inside.apply(leaf)
    log(y)
    y.backward(torch.ones(2), retain_graph=True)
    log("recorded")
    torch.autograd.grad(y, leaf, torch.ones(2).requires_grad_(), create_graph=True)

    def pack(t):
        log.error("  pack", lambda: show(t.numpy()))
        return t

    def unpack(t):
        log.error("  unpack", lambda: show(t.numpy()))
        return t

    log("in hooks")
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = leaf.exp()
    y.register_hook(lambda g: log.error("  tensor hook", lambda: show(g.numpy())))
    y.grad_fn.register_hook(lambda made, given: log.error("  node hook", lambda: show(made[0].numpy())))
    leaf.register_post_accumulate_grad_hook(lambda t: log.error("  accumulated", lambda: show(t.numpy())))
    y.sum().backward()
    log("memory is shared")
    a = torch.ones(3)
    a.numpy()[1] = 5.0
    log(a, a._version)
    with torch.no_grad():
        b = torch.ones(3, requires_grad=True)
        b.numpy()[1] = 7.0
        log(b, b._version)
    c = torch.ones(2, 3)
    c[0].numpy()[:] = 4.0
    log(c)
    array = np.zeros(3, np.float32)
    d = torch.from_numpy(array)
    d.add_(2)
    log(array.tolist(), d)
    np.asarray(d)[0] = 9.0
    log(array.tolist(), d)
    np.array(d)[0] = 1.0
    log(array.tolist())
