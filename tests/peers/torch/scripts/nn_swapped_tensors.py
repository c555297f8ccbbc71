"""`torch.utils.swap_tensors`: what is exchanged, what refuses, and conversions of modules that swap or overwrite."""

import copy
import weakref

POISONED = "poisoned by swap_tensors"


def run(torch, log):
    exchanged(torch, log)
    refused(torch, log)
    graphs(torch, log)
    conversions(torch, log)
    overwritten(torch, log)
    loading(torch, log)
    parametrized(torch, log)


def state(t):
    return type(t).__name__, t, t.is_leaf, t.grad


def exchanged(torch, log):
    log("exchanged")
    a, b = torch.nn.Parameter(torch.ones(2)), torch.zeros(3, 3, dtype=torch.int64)
    a.grad = torch.full((2,), 2.0)
    b.note = "of b"
    a.register_hook(lambda g: g * 10)
    before, states = (id(a), id(b)), (a._cdata, b._cdata)
    torch.utils.swap_tensors(a, b)
    log((a._cdata, b._cdata) == states[::-1], a._cdata == a._cdata)
    log((id(a), id(b)) == before, state(a), a.note, hasattr(b, "note"), state(b))
    (b * 3).sum().backward()
    log(b.grad)
    torch.utils.swap_tensors(a, b)
    log(state(a), b.note)
    x = torch.ones(2, requires_grad=True)
    y, z = x * 2, torch.zeros(1)
    torch.utils.swap_tensors(y, z)
    log(y, z)
    z.sum().backward()
    log(x.grad)
    base = torch.arange(6.0)
    part, z = base[2:4], torch.zeros(1)
    torch.utils.swap_tensors(part, z)
    z.fill_(9.0)
    log(base, z._is_view(), z._base is base, part)
    a = torch.ones(2)
    alias = a.detach()
    torch.utils.swap_tensors(a, b)
    log(alias, b)
    a = torch.ones(2)
    torch.utils.swap_tensors(a, a)
    log(a)

    class Named(torch.Tensor):
        pass

    a, b = torch.ones(2).as_subclass(Named), torch.zeros(2)
    torch.utils.swap_tensors(a, b)
    log(type(a).__name__, type(b).__name__, type(b + 1).__name__)


def refused(torch, log):
    log("refused")

    def swap(make, **kept):
        def attempt():
            a, b = torch.ones(2, requires_grad=True), torch.zeros(2)
            held = make(a)
            try:
                torch.utils.swap_tensors(a, b)
            finally:
                del held

        return attempt

    log.error("weak reference", swap(weakref.ref))
    log.error("saved once", swap(lambda a: a * a.detach().clone().requires_grad_()))
    log.error("saved twice", swap(lambda a: a * a))
    log.error("saved by matmul", swap(lambda a: a @ torch.ones(2, requires_grad=True)))
    log.error("view", swap(lambda a: a[:1]))
    log.error("view without recording", swap(lambda a: a.detach()[:1]))
    log.error("gradient", swap(lambda a: with_gradient(torch, a)))
    log.error("not saved", swap(lambda a: a * 2))
    log.error("result is saved", swap(lambda a: a.exp()))
    log.error("freed", swap(lambda a: (a * a).sum().backward()))
    log.error("the second", lambda: torch.utils.swap_tensors(torch.zeros(2), seen_by(torch)))
    log.error("view without requires_grad", lambda: viewed(torch))

    class Slots(torch.Tensor):
        __slots__ = ("one", "two")

    class OtherSlots(torch.Tensor):
        __slots__ = ("one", "three")

    first, second = torch.ones(2).as_subclass(Slots), torch.zeros(2).as_subclass(OtherSlots)
    log.error("slots", lambda: torch.utils.swap_tensors(first, second))
    log.error("slots and none", lambda: torch.utils.swap_tensors(first, torch.ones(2)))
    third = torch.zeros(2).as_subclass(Slots)
    first.one, third.two = 1, 2
    torch.utils.swap_tensors(first, third)
    log([hasattr(t, name) for t in (first, third) for name in ("one", "two")])


def with_gradient(torch, a):
    holder = torch.ones(2, requires_grad=True)
    holder.grad = a.detach()
    b = torch.zeros(2)
    held = holder.grad
    torch.utils.swap_tensors(held, b)


def seen_by(torch):
    a = torch.ones(2)
    a.ref = weakref.ref(a)
    return a


def viewed(torch):
    a = torch.ones(2)
    part = a[:1]
    torch.utils.swap_tensors(a, torch.zeros(2))
    return part


def graphs(torch, log):
    log("graphs")
    a, b = torch.ones(2, requires_grad=True), torch.zeros(2)
    out = (a * 2).sum()
    torch.utils.swap_tensors(a, b)
    log.error("backward", out.backward)
    log(a.grad, b.grad)
    a.requires_grad_()
    (a * 3).sum().backward()
    log(a.grad)


def conversions(torch, log):
    log("conversions")
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        m = torch.nn.Linear(2, 3)
        x = torch.ones(1, 2)
        weight, bias = m.weight, m.bias
        m(x).sum().backward()
        grad = weight.grad
        m.double()
        log(m.weight is weight, m.bias is bias, weight.dtype, weight.grad is grad, grad.dtype)
        m.weight.requires_grad_(False)
        m.half()
        log(m.weight is weight, weight.requires_grad, bias.requires_grad, weight.dtype, grad.dtype)
        m = torch.nn.Linear(2, 3)
        out = m(x)
        m.double()
        log.error("poisoned", out.sum().backward)
        m = torch.nn.Linear(2, 3)
        kept = m.weight[0]
        log.error("viewed", m.double)
        log(m.weight.dtype, m.bias.dtype, kept.shape)
        m = torch.nn.Linear(2, 3)
        m.weight.grad = torch.ones(3, 2)
        kept = m.weight.grad[0]
        log.error("gradient viewed", m.double)
        log(m.weight.dtype, m.bias.dtype, kept.shape)
        m = torch.nn.BatchNorm1d(2)
        mean = m.running_mean
        m.double()
        log(m.running_mean is mean, m.running_mean.dtype)
        m = torch.nn.Linear(2, 2)
        optimizer = torch.optim.SGD(m.parameters(), lr=1.0)
        m.double()
        m(x.double()).sum().backward()
        before = m.bias.detach().clone()
        optimizer.step()
        log(m.bias - before)
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    log(torch.__future__.get_swap_module_params_on_conversion())


def overwritten(torch, log):
    log("overwritten")
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        m = torch.nn.Linear(2, 3)
        weight, part = m.weight, m.weight[:]
        weight.grad = torch.ones(3, 2)
        m.double()
        log(
            m.weight is weight, weight.dtype, weight.grad.dtype, m.weight.dtype, m.weight.grad.dtype
        )
        log(part.dtype, part._base is weight)
        weight, grad = m.weight, m.weight.grad
        m._apply(lambda t: t.add_(1.0))
        log(m.weight is weight, weight._version, grad._version, m.weight.grad is grad)
        m.requires_grad_(False)
        m.float()
        log(m.weight.requires_grad)
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)


def loading(torch, log):
    log("loading")
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        m = torch.nn.Linear(2, 2)
        weight, given = m.weight, {"weight": torch.ones(2, 2), "bias": torch.zeros(2)}
        log(str(m.load_state_dict(given)), m.weight is weight, weight, m.weight.is_leaf)
        given["weight"].fill_(7.0)
        log(weight)
        double = {name: t.double() for name, t in given.items()}
        m.load_state_dict(double)
        log(weight.dtype)
        m.load_state_dict(double, assign=True)
        log(weight.dtype, m.weight is weight, double["weight"] is weight)
        double["weight"].fill_(5.0)
        log(weight)
        m.load_state_dict(m.state_dict())
        m.load_state_dict(copy.deepcopy(m).state_dict(), assign=True)
        log(weight)
        kept = m.weight[0]
        log.error("viewed", lambda: m.load_state_dict(given))
        log(kept.shape)

        class Broken(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if func is torch.Tensor.module_load:
                    return args[1]
                return super().__torch_function__(func, types, args, kwargs or {})

        m = torch.nn.Linear(2, 2, bias=False)
        log.error(
            "same", lambda: m.load_state_dict({"weight": torch.ones(2, 2).as_subclass(Broken)})
        )
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    m = torch.nn.Linear(2, 2, bias=False)
    m.scale = torch.nn.Parameter(torch.tensor(1.0))
    log.error("shape", lambda: m.load_state_dict({"weight": torch.ones(3), "scale": torch.ones(2)}))
    m.load_state_dict({"weight": torch.ones(2, 2), "scale": torch.full((1,), 2.0)})
    log(m.scale)
    log.error(
        "assign",
        lambda: m.load_state_dict(
            {"weight": torch.ones(2, 2).int(), "scale": torch.ones(())}, assign=True
        ),
    )


def parametrized(torch, log):
    log("parametrized")
    from importlib import import_module

    parametrize = import_module(f"{torch.__name__}.nn.utils.parametrize")

    class Doubled(torch.nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, x):
            return x / 2

    for swaps in (False, True):
        torch.__future__.set_swap_module_params_on_conversion(swaps)
        try:
            m = torch.nn.Linear(2, 2, bias=False)
            with torch.no_grad():
                m.weight.fill_(4.0)
            weight = m.weight
            parametrize.register_parametrization(m, "weight", Doubled())
            original = m.parametrizations.weight.original
            log(original is weight, original, type(original).__name__)
            m.weight = torch.full((2, 2), 6.0)
            log(original, m.parametrizations.weight.original is original)
            parametrize.remove_parametrizations(m, "weight")
            log(m.weight is original, m.weight)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)
