"""Anomaly mode: what is noted and warned of, NaN in gradients, passes within passes, lifetimes."""

import contextlib
import gc
import io
import re
import sys
import warnings
import weakref


@contextlib.contextmanager
def warned(log):
    """Log the warnings without their places, and of stacks the lines of this file only."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    for warning in found:
        text = str(warning.message).split(" (Triggered internally at ")[0]
        parts = re.split(r'  File "([^"]*)", line \d+, in (.*)\n', text)
        head, entries = parts[0], zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
        kept = [f"in {name}: {line.strip()}" for file, name, line in entries if file == __file__ and name in NAMES]
        log(f"warning {warning.category.__name__}: {head}", *kept)


def leaf(torch, values=(0.0, 4.0)):
    return torch.tensor(list(values), requires_grad=True)


def outer_call(x):
    return inner_call(x) * 0


def inner_call(x):
    return x.sqrt()


def grown(x):
    return x.exp()


NAMES = {"outer_call", "grown", "inner_call", "twice", "failing_forward", "starts_another"}


def run(torch, log):
    settings(torch, log)
    stacks(torch, log)
    nan(torch, log)
    within(torch, log)
    notes(torch, log)
    as_errors(torch, log)


def settings(torch, log):
    state = lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
    log("settings", state())
    with torch.autograd.detect_anomaly():
        log(state())
        with torch.autograd.detect_anomaly(check_nan=False):
            log(state())
            with torch.autograd.set_detect_anomaly(False):
                log(state())
            log(state())
        log(state())
    log(state())
    context = torch.autograd.set_detect_anomaly(True, check_nan=False)
    log(state())
    with context:
        log(state())
    log(state())
    torch.set_anomaly_enabled(True)
    log(state())
    torch.set_anomaly_enabled(False, False)
    log(state())
    torch.set_anomaly_enabled(False)
    log.error("number", lambda: torch.set_anomaly_enabled(3))
    log.error("number", lambda: torch.set_anomaly_enabled(True, 3))
    log(state())


def stacks(torch, log):
    log("stacks")
    a = leaf(torch)
    with torch.autograd.set_detect_anomaly(True), warned(log):
        y = outer_call(a)
        log.error("nan", lambda: y.sum().backward())
    with warned(log):
        y = outer_call(a)
        with torch.autograd.set_detect_anomaly(True):
            log.error("made before", lambda: y.sum().backward())
    with warned(log), torch.autograd.set_detect_anomaly(True, check_nan=False):
        outer_call(a).sum().backward()
        log(a.grad)

    class Failing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            raise ValueError("mine")

    def failing_forward(x):
        return Failing.apply(x)

    def hook(*_):
        raise KeyError("in a hook")

    def hooked(register):
        y = inner_call(a)
        getattr(y if register == "tensor" else y.grad_fn, {"tensor": "register_hook"}.get(register, register))(hook)
        y.sum().backward()

    def overwritten():
        x = a * 1
        y = inner_call(x * x)
        z = y * x
        x.add_(1)
        z.sum().backward()

    def accumulated():
        b = leaf(torch)
        b.register_post_accumulate_grad_hook(hook)
        inner_call(b).sum().backward()

    def slices():
        b = a.clone()
        b[0] = 1.0
        b.grad_fn.register_hook(hook)
        inner_call(b).sum().backward()

    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        for label, attempt in {
            "Function": lambda: failing_forward(a).sum().backward(),
            "tensor hook": lambda: hooked("tensor"),
            "prehook": lambda: hooked("register_prehook"),
            "posthook": lambda: hooked("register_hook"),
            "overwritten": overwritten,
            "accumulator": accumulated,
            "slices": slices,
            "delayed error": lambda: torch._C._functions.DelayedError("m", 1)(a).sum().backward(),
            "grad": lambda: torch.autograd.grad(failing_forward(a).sum(), a),
            "inputs": lambda: failing_forward(a).sum().backward(inputs=[a]),
        }.items():
            with warned(log):
                log.error(label, attempt)
    with warned(log):
        log.error("mode is off", overwritten)


def nan(torch, log):
    log("nan")
    a = leaf(torch, (1.0, 2.0))

    class Second(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x.clone(), y.clone()

        @staticmethod
        def backward(ctx, g, h):
            return g.clone(), h * float("nan")

    def twice(x):
        x, y = Second.apply(x, x)
        return x + y

    def with_hook(register, hook):
        y = inner_call(a)
        getattr(y if register == "tensor" else y.grad_fn, "register_hook")(hook)
        y.sum().backward()

    not_a_number = float("nan")
    fresh = torch.zeros(2, requires_grad=True)
    with torch.autograd.set_detect_anomaly(True):
        for label, attempt in {
            "second output": lambda: twice(a).sum().backward(),
            "from a tensor hook": lambda: with_hook("tensor", lambda g: g * not_a_number),
            "from a node hook": lambda: with_hook("node", lambda made, given: (made[0] * not_a_number,)),
            "given": lambda: a.exp().backward(torch.tensor([1.0, not_a_number])),
            "given to a leaf": lambda: fresh.backward(torch.tensor([1.0, not_a_number])),
            "infinite": lambda: (1 / torch.zeros(2, requires_grad=True)).sum().backward(),
            "not asked for": lambda: torch.autograd.grad(outer_call(leaf(torch)).sum() + a.sum(), a),
            "asked for": lambda: torch.autograd.grad(outer_call(a * 0).sum(), a),
        }.items():
            with warned(log):
                log.error(label, attempt)


def within(torch, log):
    log("passes within passes")
    b = leaf(torch, (1.0, 1.0))

    def starts_another(g):
        with torch.enable_grad():
            (b * float("nan")).sum().backward()

    with torch.autograd.set_detect_anomaly(True):
        with warned(log):
            y = grown(b)
            y.register_hook(starts_another)
            log.error("pass within", lambda: y.sum().backward())
        with warned(log):
            y = grown(b)
            (g,) = torch.autograd.grad(y.sum(), b, create_graph=True)
            g.register_hook(lambda g: {}["second"])
            log.error("second order", lambda: g.sum().backward())
    y = grown(b)
    with torch.autograd.set_detect_anomaly(True), warned(log):
        (g,) = torch.autograd.grad(y.sum(), b, create_graph=True)
        g.register_hook(lambda g: {}["second"])
        log.error("first made before", lambda: g.sum().backward())


def notes(torch, log):
    log("notes")
    a = leaf(torch, (1.0, 2.0))

    class Held:
        pass

    with torch.autograd.set_detect_anomaly(True):
        y = inner_call(a)
        log(sorted(y.grad_fn.metadata), type(y.grad_fn.metadata["traceback_"][-1]).__name__)
        log(sorted(y.grad_fn.next_functions[0][0].metadata))
        (g,) = torch.autograd.grad(y.sum(), a, create_graph=True)
        log("parent_" in g.grad_fn.metadata, g.grad_fn.metadata["parent_"] is y.grad_fn)
        held = Held()
        y.grad_fn.metadata["held"] = held
        reference = weakref.ref(held)
        del held
        gc.disable()
        try:
            del y, g
            log("gone", reference() is None)
        finally:
            gc.enable()
    log(sorted(inner_call(a).grad_fn.metadata))


def as_errors(torch, log):
    log("warnings as errors")
    a = leaf(torch)
    with torch.autograd.set_detect_anomaly(True), warnings.catch_warnings():
        warnings.simplefilter("error")
        y = outer_call(a)
        before, sys.stderr = sys.stderr, io.StringIO()
        try:
            log.error("nan", lambda: y.sum().backward())
            printed = sys.stderr.getvalue()
        finally:
            sys.stderr = before
        log(printed.splitlines()[0])
