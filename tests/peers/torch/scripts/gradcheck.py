"""``gradcheck`` and ``gradgradcheck``: what they accept, what they find, and how they say it."""


def run(torch, log):
    check, check_twice = torch.autograd.gradcheck, torch.autograd.gradgradcheck
    double = torch.float64
    x = torch.tensor([0.5, -1.0, 2.0], dtype=double, requires_grad=True)
    y = torch.tensor([1.5, 0.25, -0.5], dtype=double, requires_grad=True)
    z = torch.tensor([0.5 + 1j, -1.0, 2.0j], dtype=torch.complex128, requires_grad=True)
    one = torch.tensor([1.0, 2.0, 0.5], dtype=double, requires_grad=True)

    class Rule(torch.autograd.Function):
        materialize = True

        @classmethod
        def forward(cls, ctx, a):
            ctx.set_materialize_grads(cls.materialize)
            ctx.save_for_backward(a)
            return cls.compute(a)

        @classmethod
        def backward(cls, ctx, *grads):
            return cls.pull(ctx.saved_tensors[0], *grads)

        compute = staticmethod(lambda a: a * a)

    class Wrong(Rule):
        pull = staticmethod(lambda a, g: 3 * a * g)

    class NotLinear(Rule):
        pull = staticmethod(lambda a, g: 2 * a)

    calls = []

    class Counting(Rule):
        @staticmethod
        def pull(a, g):
            calls.append(1)
            return 2 * a * g + 1e-7 * len(calls) * g

    class WrongTwice(Rule):
        compute = staticmethod(lambda a: a**3)
        pull = staticmethod(lambda a, g: 3 * a.detach() ** 2 * g)

    class Nothing(Rule):
        pull = staticmethod(lambda a, g: None)

    class OtherSize(Rule):
        pull = staticmethod(lambda a, g: g.sum())

    class NotConjugate(Rule):
        pull = staticmethod(lambda a, g: 2 * a * g)

    class OneForZero(Rule):
        compute = staticmethod(lambda a: a * 1)
        pull = staticmethod(lambda a, g: g if bool((g != 0).any()) else g + 1)

    class TakesNone(Rule):
        materialize = False
        compute = staticmethod(lambda a: a * 1)
        pull = staticmethod(lambda a, g: None if g is None else g)

    class RefusesNone(Rule):
        materialize = False
        compute = staticmethod(lambda a: a * 1)

        @staticmethod
        def pull(a, g):
            if g is None:
                raise RuntimeError("there is no gradient")
            return g

    class OnesForNone(Rule):
        materialize = False
        compute = staticmethod(lambda a: a * 1)
        pull = staticmethod(lambda a, g: torch.ones(3, dtype=torch.float64) if g is None else g)

    for name, attempt in [
        ("right", lambda: check(lambda a: a.sin() * a, (x,))),
        ("a tensor", lambda: check(torch.sin, x)),
        ("a list", lambda: check(lambda a: a * 2, [x])),
        ("two", lambda: check(lambda a, b: (a * b, a.exp()), (x, y))),
        ("returns a list", lambda: check(lambda a: [a * 2, a * 3], (x,))),
        ("beside integers", lambda: check(lambda a, i: a[i], (x, torch.tensor([0, 1])))),
        ("beside a number", lambda: check(lambda a, b: a * b, (x, 2.0))),
        ("in place", lambda: check(lambda a: a.clone().mul_(2), (x,))),
        ("a number", lambda: check(lambda a: (a * a).sum(), (x,))),
        ("nothing in it", lambda: check(torch.sin, (torch.zeros(0, dtype=double, requires_grad=True),))),
        ("fast", lambda: check(lambda a, b: (a * b, a.exp()), (x, y), fast_mode=True)),
        ("forward", lambda: check(lambda a: a.sin() * a, (x,), check_forward_ad=True)),
        ("forward, fast", lambda: check(lambda a: a.sin() * a, (x,), check_forward_ad=True, fast_mode=True)),
        ("batched", lambda: check(lambda a: a.sin() * a, (x,), check_batched_grad=True)),
        (
            "forward, batched",
            lambda: check(torch.sin, (x,), check_forward_ad=True, check_batched_forward_grad=True),
        ),
        ("complex", lambda: check(lambda a: a * a, (z,))),
        ("complex, fast", lambda: check(lambda a: a * a, (z,), fast_mode=True)),
        ("complex to real", lambda: check(lambda a: a.abs(), (z,))),
        ("real to complex", lambda: check(lambda a: a * (1 + 2j), (x,))),
        ("twice", lambda: check_twice(lambda a: a.sin() * a, (x,))),
        ("twice, two", lambda: check_twice(lambda a, b: a.exp() * b, (x, y))),
        ("twice, linear", lambda: check_twice(lambda a: a * 2, (x,))),
        ("twice, fast", lambda: check_twice(lambda a: a.sin() * a, (x,), fast_mode=True)),
        ("twice, from", lambda: check_twice(lambda a: a.sin() * a, (x,), (one,))),
        ("twice, scattered", lambda: check_twice(torch.sin, (x,), gen_non_contig_grad_outputs=True)),
        ("twice, complex", lambda: check_twice(lambda a: a * a, (z,))),
        ("wrong", lambda: check(Wrong.apply, (x,))),
        ("wrong, told", lambda: check(Wrong.apply, (x,), raise_exception=False)),
        ("wrong, fast", lambda: check(Wrong.apply, (x,), fast_mode=True, raise_exception=False)),
        ("wrong, second", lambda: check(lambda a, b: (a * b, Wrong.apply(b)), (x, y))),
        ("not linear", lambda: check(NotLinear.apply, (x,))),
        ("nothing", lambda: check(Nothing.apply, (x,))),
        ("counting", lambda: check(Counting.apply, (x,))),
        ("counting, tolerated", lambda: check(Counting.apply, (x,), nondet_tol=1e-3)),
        ("wrong twice", lambda: check_twice(WrongTwice.apply, (x,), (one,))),
        ("wrong twice, once", lambda: check(WrongTwice.apply, (x,))),
        ("other size", lambda: check(OtherSize.apply, (x,))),
        ("not conjugate", lambda: check(NotConjugate.apply, (z,), raise_exception=False)),
        ("one for zero", lambda: check(OneForZero.apply, (x,))),
        ("takes None", lambda: check(TakesNone.apply, (x,))),
        ("refuses None", lambda: check(RefusesNone.apply, (x,))),
        ("refuses None, unchecked", lambda: check(RefusesNone.apply, (x,), check_undefined_grad=False)),
        ("ones for None", lambda: check(OnesForNone.apply, (x,))),
        ("constant", lambda: check(lambda a: torch.ones(2, dtype=double), (x,))),
        ("detached", lambda: check(lambda a: a.detach() * 2, (x,))),
        ("integers", lambda: check(lambda a: (a > 0).long(), (x,))),
        ("coarse", lambda: check(lambda a: a**3, (x,), eps=1e-1, atol=1e-9)),
        ("no gradient", lambda: check(torch.sin, (x.detach(),))),
        ("no tensor", lambda: check(lambda a: a * 2, 2.0)),
        ("no gradient, twice", lambda: check_twice(torch.sin, (x.detach(),))),
        ("single", lambda: check(torch.sin, (torch.tensor([0.5], requires_grad=True),), atol=1, rtol=1)),
        ("expanded", lambda: check(torch.sin, (torch.tensor([0.5], dtype=double, requires_grad=True).expand(3),))),
        ("raises", lambda: check(lambda a: 1 / 0, (x,), raise_exception=False)),
        ("nothing to check", lambda: check(torch.sin, (x,), check_backward_ad=False)),
        ("only batched", lambda: check(torch.sin, (x,), True, check_backward_ad=False) and None),
        (
            "batched alone",
            lambda: check(torch.sin, (x,), check_batched_grad=True, check_backward_ad=False, check_forward_ad=True),
        ),
        ("batched forward alone", lambda: check(torch.sin, (x,), check_batched_forward_grad=True)),
        ("twice, nothing", lambda: check_twice(torch.sin, (x,), check_rev_over_rev=False)),
    ]:
        log.error(name, attempt)
    log("inputs as they were", x, y, x.grad)
