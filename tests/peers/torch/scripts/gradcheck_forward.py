"""``gradcheck`` of forward mode: of operations and of Functions with a ``jvp``, alone and over backward."""


def run(torch, log):
    check, check_twice = torch.autograd.gradcheck, torch.autograd.gradgradcheck
    double = torch.float64
    x = torch.tensor([0.5, -1.0, 2.0], dtype=double, requires_grad=True)
    y = torch.tensor([1.5, 0.25, -0.5], dtype=double, requires_grad=True)
    z = torch.tensor([0.5 + 1j, -1.0, 2.0j], dtype=torch.complex128, requires_grad=True)

    class Rule(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return x**3

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return (3 * ctx.saved_tensors[0] ** 2).conj() * grad

        @classmethod
        def jvp(cls, ctx, tangent):
            return cls.push(ctx.saved_tensors[0], tangent)

    class Cube(Rule):
        push = staticmethod(lambda a, t: 3 * a**2 * t)

    class Wrong(Rule):
        push = staticmethod(lambda a, t: 2 * a**2 * t)

    class NotLinear(Rule):
        push = staticmethod(lambda a, t: 3 * a**2)

    class OnRealOnly(Rule):
        push = staticmethod(lambda a, t: 3 * a**2 * (t.real if t.is_complex() else t))

    class OtherKind(Rule):
        push = staticmethod(lambda a, t: 3 * a**2 * t + 0j)

    class NoJvp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    class OnePair(torch.autograd.Function):
        materialize = True
        wrong = 0

        @classmethod
        def forward(cls, ctx, x, y):
            ctx.set_materialize_grads(cls.materialize)
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x, y)
            return x * y, x + y

        @staticmethod
        def backward(ctx, first, second):
            x, y = ctx.saved_tensors
            return first * y + second, first * x + second

        @classmethod
        def jvp(cls, ctx, a, b):
            x, y = ctx.saved_tensors
            if a is None:
                return x * b, b + cls.wrong
            if b is None:
                return a * y, a + cls.wrong
            return x * b + a * y, a + b

    class Unmaterialized(OnePair):
        materialize = False

    class WrongForNone(OnePair):
        materialize = False
        wrong = 1

    forward = {"check_forward_ad": True}
    only = {"check_forward_ad": True, "check_backward_ad": False}
    for name, attempt in [
        ("two", lambda: check(lambda a, b: (a * b, a.exp()), (x, y), **forward)),
        ("two, fast", lambda: check(lambda a, b: (a * b, a.exp()), (x, y), fast_mode=True, **forward)),
        ("forward only", lambda: check(lambda a, b: (a * b, a.exp()), (x, y), **only)),
        ("in place", lambda: check(lambda a, b: a.clone().mul_(b), (x, y), **forward)),
        ("views", lambda: check(lambda a: a.clone()[1:].mul_(a[:2]), (x,), **forward)),
        ("beside a number", lambda: check(lambda a, b: a * b, (x, 2.0), **forward)),
        ("beside integers", lambda: check(lambda a, i: a[i], (x, torch.tensor([0, 1])), **forward)),
        ("complex", lambda: check(lambda a: a * a, (z,), **forward)),
        ("complex, fast", lambda: check(lambda a: a * a, (z,), fast_mode=True, **forward)),
        ("complex to real", lambda: check(lambda a: a.abs(), (z,), **only)),
        ("real to complex", lambda: check(lambda a: a * (1 + 2j), (x,), **only)),
        ("complex and real", lambda: check(lambda a, b: a * b, (z, x), **forward)),
        ("constant", lambda: check(lambda a: torch.ones(2, dtype=double), (x,), **only)),
        ("detached", lambda: check(lambda a: a.detach() * 2, (x,), **only)),
        ("one detached", lambda: check(lambda a: (a * 2, a.detach()), (x,), **only)),
        ("Function", lambda: check(Cube.apply, (x,), **forward)),
        ("Function, fast", lambda: check(Cube.apply, (x,), fast_mode=True, **forward)),
        ("Function, complex", lambda: check(Cube.apply, (z,), **forward)),
        ("Function, batched", lambda: check(Cube.apply, (x,), check_batched_forward_grad=True, **forward)),
        ("no jvp", lambda: check(NoJvp.apply, (x,), **forward)),
        ("no jvp, backward only", lambda: check(NoJvp.apply, (x,))),
        ("wrong", lambda: check(Wrong.apply, (x,), **forward)),
        ("wrong, backward only", lambda: check(Wrong.apply, (x,))),
        ("wrong, told", lambda: check(Wrong.apply, (x,), raise_exception=False, **forward)),
        ("wrong, fast", lambda: check(Wrong.apply, (x,), fast_mode=True, raise_exception=False, **forward)),
        ("wrong, second", lambda: check(lambda a, b: (a * b, Wrong.apply(b)), (x, y), **forward)),
        ("not linear", lambda: check(NotLinear.apply, (x,), **forward)),
        ("on real parts", lambda: check(OnRealOnly.apply, (z,), raise_exception=False, **forward)),
        ("other kind", lambda: check(OtherKind.apply, (x,), check_grad_dtypes=True, **only)),
        ("pair", lambda: check(OnePair.apply, (x, y), **forward)),
        ("pair, with None", lambda: check(Unmaterialized.apply, (x, y), **forward)),
        ("pair, batched", lambda: check(OnePair.apply, (x, y), check_batched_forward_grad=True, **forward)),
        ("wrong for None", lambda: check(WrongForNone.apply, (x, y), raise_exception=False, **only)),
        ("wrong for None, unchecked", lambda: check(WrongForNone.apply, (x, y), check_undefined_grad=False, **only)),
        ("forward over reverse", lambda: check_twice(lambda a: a.sin() * a, (x,), check_fwd_over_rev=True)),
        (
            "forward over reverse only",
            lambda: check_twice(
                lambda a: a.sin() * a, (x,), check_fwd_over_rev=True, check_rev_over_rev=False, check_undefined_grad=False
            ),
        ),
        ("over a Function", lambda: check_twice(Cube.apply, (x,), check_fwd_over_rev=True)),
        ("over two", lambda: check_twice(lambda a, b: (a * b).exp(), (x, y), check_fwd_over_rev=True)),
        ("over, fast", lambda: check_twice(lambda a, b: a.exp() * b, (x, y), check_fwd_over_rev=True, fast_mode=True)),
        ("over, in place", lambda: check_twice(lambda a: a.exp().mul_(a).sin_(), (x,), check_fwd_over_rev=True)),
        ("over, complex", lambda: check_twice(lambda a: a * a, (z,), check_fwd_over_rev=True)),
    ]:
        log.error(name, attempt)
    log("inputs as they were", x, y, x.grad, torch.autograd.forward_ad._current_level)
