"""`nn.Module`: what an attribute becomes, names, refusals, walks, conversions, copies."""

import copy
import pickle


def run(torch, log):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.ones(2))
            self.l = nn.Linear(2, 2)
            self.register_buffer("b", torch.zeros(1))
            self.register_buffer("nb", torch.zeros(1), persistent=False)

        def forward(self, x):
            return self.l(x) * self.w

    class Unmade(nn.Module):
        def __init__(self):
            pass

    def attempt(label, function):
        try:
            found = function()
        except Exception as error:
            log(label, type(error).__name__, str(error).replace("functrace.", ""))
        else:
            log(label, repr(found) if isinstance(found, nn.Module) else found)

    names = {"nn": nn, "torch": torch, "n": Unmade(), "M": nn.Module}
    for text in (
        "M(3)", "M(a=3)", "M()(3)", "n.foo",
        "setattr(n, 'x', nn.Parameter(torch.ones(1)))", "setattr(n, 'x', nn.Linear(1, 1))",
        "setattr(n, 'x', nn.Buffer(torch.ones(1)))", "n.register_buffer('x', torch.ones(1))",
        "n.register_parameter('x', None)", "n.add_module('x', None)",
    ):  # fmt: skip
        attempt(text, lambda: eval(text, names))
    names["a"] = a = Model()
    for text in (
        "a.register_buffer(3, torch.ones(1))", "a.register_buffer('a.b', torch.ones(1))",
        "a.register_buffer('', torch.ones(1))", "a.register_buffer('w', torch.ones(1))",
        "a.register_buffer('q', 3)", "a.register_parameter(3, None)",
        "a.register_parameter('a.b', None)", "a.register_parameter('', None)",
        "a.register_parameter('b', None)", "a.register_parameter('q', torch.ones(1))",
        "a.register_parameter('q', a.w * 1)", "a.add_module('a.b', None)",
        "a.add_module('', None)", "a.add_module('w', None)", "a.add_module(3, None)",
        "a.add_module('q', 3)", "setattr(a, 'w', torch.ones(2))", "setattr(a, 'w', 3)",
        "setattr(a, 'w', nn.ReLU())", "setattr(a, 'l', 3)", "setattr(a, 'b', 3)",
        "a.foo", "delattr(a, 'foo')", "a.get_submodule('x')", "a.get_submodule('w')",
        "a.get_submodule('')", "a.get_submodule('l')", "a.get_submodule('l.q')",
        "a.get_parameter('l.weight').shape", "a.get_parameter('l.q')", "a.get_parameter('b')",
        "a.get_parameter('q.b')", "a.get_buffer('b')", "a.get_buffer('w')", "a.get_buffer('z')",
        "a.get_parameter('')", "a.set_submodule('', nn.ReLU())", "a.set_submodule('l', 3)",
        "a.set_submodule('z', nn.ReLU(), strict=True)", "a.set_submodule('z', nn.ReLU())",
        "a.set_submodule('w', nn.ReLU())", "a.set_submodule('l.z', nn.Tanh())",
        "a.set_submodule('n.z', nn.Tanh())", "a",
    ):  # fmt: skip
        attempt(text, lambda: eval(text, names))
    walks(torch, log, a)
    attributes(torch, log, Model)
    conversions(torch, log, attempt)
    copies(torch, log)


def walks(torch, log, a):
    nn = torch.nn
    for name in ("parameters", "buffers", "modules", "children"):
        log(name, [path for path, _ in getattr(a, f"named_{name}")()])
    shared = nn.Linear(2, 2)
    twice = nn.Sequential(shared, shared)
    log(len(list(twice.parameters())), list(twice.state_dict()))
    for remove in (True, False):
        log([n for n, _ in twice.named_parameters(remove_duplicate=remove)])
        log([n for n, _ in twice.named_modules(remove_duplicate=remove)])
    log([n for n, _ in nn.Sequential(nn.Sequential(shared)).named_parameters(prefix="p")])
    log([n for n, _ in nn.Sequential(nn.Sequential(shared)).named_parameters(recurse=False)])


def attributes(torch, log, Model):
    nn = torch.nn
    a = Model()
    a.l = a.w = a.b = None
    log(repr(a), list(a._modules), list(a.parameters()), list(a.state_dict()))
    a = Model()
    a.l = nn.Parameter(torch.ones(1))
    log(list(a._parameters), list(a._modules))
    a.x = 3
    a.x = nn.Parameter(torch.ones(1))
    a.b = nn.Parameter(torch.ones(1))
    log("x" in a.__dict__, list(a._buffers))
    a.z = nn.Buffer(torch.ones(1), persistent=False)
    log(list(a._buffers), sorted(a._non_persistent_buffers_set))
    a.z = nn.Buffer(torch.ones(1))
    log(sorted(a._non_persistent_buffers_set))
    a.z = torch.zeros(1)
    log(list(a._buffers), [n for n in dir(a) if len(n) == 1])
    del a.x, a.w, a.z
    log(list(a._parameters), list(a._buffers))


def conversions(torch, log, attempt):
    nn = torch.nn
    m = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    w = m[0].weight
    w.grad = torch.ones(2, 2)
    grad = w.grad
    for change in (
        lambda: m.double(), lambda: m.half(), lambda: m.float(), lambda: m.to(torch.float64),
        lambda: m.to("cpu", torch.float32), lambda: m.to(torch.ones(1).double()),
        lambda: m.to(dtype=torch.float32), lambda: m.to(device="cpu"), lambda: m.cpu(),
        lambda: m.to_empty(device="cpu"),
    ):  # fmt: skip
        log(change() is m, m[0].weight is w, w.grad is grad, w.dtype, grad.dtype)
        log(m[1].running_mean.dtype, m[1].num_batches_tracked.dtype)
    attempt("int", lambda: m.to(torch.int32))
    attempt("cuda", lambda: m.cuda())
    attempt("type", lambda: m.type(torch.float64)[1].num_batches_tracked.dtype)
    m = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    log(m.training, m.eval()[1].training, m.train()[1].training)
    attempt("train", lambda: m.train(3))
    m.requires_grad_(False)
    log(m[0].weight.requires_grad)
    m.requires_grad_()
    m[0].weight.grad = torch.ones(2, 2)
    m.zero_grad(set_to_none=False)
    log(m[0].weight.grad)
    m.zero_grad()
    log(m[0].weight.grad, m.compile(), m.extra_repr())
    m.apply(lambda module: log(type(module).__name__))


def copies(torch, log):
    nn = torch.nn
    m = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    m.register_forward_hook(print)
    other = copy.deepcopy(m)
    log(other[0].weight is m[0].weight, bool((other[0].weight == m[0].weight).all()))
    log(len(other._forward_hooks), other[0].weight.requires_grad)
    again = pickle.loads(pickle.dumps(m))
    log(repr(again), bool((again[0].weight == m[0].weight).all()), type(again[0].weight).__name__)
