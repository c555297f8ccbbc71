"""Hooks of modules: around forward and backward, of one module and of all, in case of errors."""

import importlib


def run(torch, log):
    nn = torch.nn

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.tensor([2.0, 3.0]))

        def forward(self, x, k=1.0):
            return self.w * x * k

    def attempt(label, function):
        try:
            found = function()
        except Exception as error:
            log(label, type(error).__name__, str(error).replace("functrace.", ""))
        else:
            log(label, found)

    def noted(label):
        return lambda *args: log(label, *args)

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    forward_hooks(torch, log, Scale, attempt, noted, x)
    backward_hooks(torch, log, Scale, attempt, noted, x)
    errors(torch, log, Scale, attempt, noted, x)
    hooks_of_all(torch, log, Scale, attempt, x)


def forward_hooks(torch, log, Scale, attempt, noted, x):
    m = Scale()
    handles = [m.register_forward_hook(noted("after")), m.register_forward_pre_hook(noted("pre"))]
    m(x, k=2.0)
    handles += [
        m.register_forward_hook(noted("kwargs"), with_kwargs=True, prepend=True),
        m.register_forward_pre_hook(
            lambda module, a, k: ((a[0] * 10,), {"k": 5.0}), with_kwargs=True, prepend=True
        ),
    ]
    log(m(x, k=2.0))
    handles.append(m.register_forward_hook(lambda module, a, output: output + 1))
    log(m(x))
    for handle in handles:
        handle.remove()
    log(len(m._forward_hooks), len(m._forward_pre_hooks), len(m._forward_hooks_with_kwargs))
    m.register_forward_pre_hook(lambda module, a, k: 3, with_kwargs=True)
    attempt("no pair", lambda: m(x))
    m = Scale()
    m.register_forward_pre_hook(lambda module, a: a[0] * 2)
    log(m(x))


def backward_hooks(torch, log, Scale, attempt, noted, x):
    m = Scale()
    m.register_full_backward_hook(noted("backward"))
    m.register_full_backward_pre_hook(noted("before"))
    m(x).sum().backward()
    log(x.grad, m.w.grad)
    x.grad = None
    m = Scale()
    m.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 10,))
    m.register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 3,))
    m(x).sum().backward()
    log(x.grad, m.w.grad)
    m = Scale()
    m.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0], inputs[0]))
    attempt("two", lambda: m(x).sum().backward())
    m = Scale()
    m.register_full_backward_hook(noted("no input requires grad"))
    m(x.detach()).sum().backward()
    attempt("mixed", lambda: m.register_backward_hook(print))
    m = Scale()
    m.register_backward_hook(noted("older"))
    attempt("mixed", lambda: m.register_full_backward_hook(print))
    m(x).sum().backward()

    class Dicts(torch.nn.Module):
        def forward(self, x):
            return {"a": x * 2}

    m = Dicts()
    m.register_full_backward_hook(noted("dict"))
    attempt("dict", lambda: m(x)["a"].sum().backward())

    class Several(torch.nn.Module):
        def forward(self, x, y):
            return x * y, x + 1, 3

    m = Several()
    m.register_full_backward_hook(noted("several"))
    m(x, torch.ones(2))[0].sum().backward()


def errors(torch, log, Scale, attempt, noted, x):
    class Fails(torch.nn.Module):
        def forward(self, x):
            raise ValueError("boom")

    m = Fails()
    m.register_forward_hook(noted("never"))
    m.register_forward_hook(noted("always"), always_call=True)
    m.register_forward_hook(lambda *args: 1 / 0, always_call=True, with_kwargs=True)
    attempt("fails", lambda: m(x))
    m = Scale()
    m.register_forward_hook(noted("one"), always_call=True)
    m.register_forward_hook(lambda *args: 1 / 0)
    m.register_forward_hook(noted("two"), always_call=True)
    attempt("hook fails", lambda: m(x))


def hooks_of_all(torch, log, Scale, attempt, x):
    of_all = importlib.import_module(f"{torch.__name__}.nn.modules.module")

    def kind(label):
        return lambda module, *args: log(label, type(module).__name__)

    handles = [
        of_all.register_module_forward_pre_hook(kind("pre")),
        of_all.register_module_forward_hook(kind("after")),
        of_all.register_module_full_backward_hook(kind("backward")),
        of_all.register_module_full_backward_pre_hook(kind("before backward")),
    ]
    try:
        m = torch.nn.Sequential(Scale(), Scale())
        m[0].register_forward_hook(kind("own"))
        m(x).sum().backward()
        attempt("mixed", lambda: of_all.register_module_backward_hook(print))
    finally:
        for handle in handles:
            handle.remove()
    handles = [
        of_all.register_module_parameter_registration_hook(
            lambda module, name, p: log("parameter", name, tuple(p.shape))
        ),
        of_all.register_module_buffer_registration_hook(
            lambda module, name, b: log("buffer", name)
        ),
        of_all.register_module_module_registration_hook(
            lambda module, name, m: log("module", name, type(m).__name__)
        ),
    ]
    try:
        torch.nn.Sequential(torch.nn.Linear(1, 2))
        torch.nn.BatchNorm1d(3)
    finally:
        for handle in handles:
            handle.remove()
