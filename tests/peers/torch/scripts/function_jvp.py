"""``Function.jvp`` under dual numbers: when it is called and with what, what it may return, views and overwritten inputs."""


def run(torch, log):
    ad = torch.autograd.forward_ad
    ones = torch.ones

    def dual(*values):
        return ad.make_dual(torch.tensor(values), torch.tensor([3.0, 4.0]))

    def function(forward, jvp=None):
        rules = {"forward": staticmethod(forward), "backward": staticmethod(lambda ctx, *grads: grads[0])}
        if jvp is not None:
            rules["jvp"] = staticmethod(jvp)
        return type("Rule", (torch.autograd.Function,), rules)

    def unpacked(made):
        several = made if isinstance(made, tuple) else (made,)
        return [tuple(ad.unpack_dual(x)) if isinstance(x, torch.Tensor) else x for x in several]

    def seen(ctx, *tangents):
        log("jvp", tangents, ctx.saved_tensors, torch.is_grad_enabled(), ad._is_fwd_grad_enabled(), ctx.needs_input_grad)
        return tangents[0] * 2

    def doubled(ctx, x, *rest):
        return x * 2

    with ad.dual_level():
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        d, e = ad.make_dual(x, torch.tensor([3.0, 4.0])), dual(1.0, 2.0)

        log("-- what it gets")

        def saving(ctx, x, *rest):
            log("forward", ad._is_fwd_grad_enabled(), torch.is_grad_enabled(), ad.unpack_dual(x).tangent)
            ctx.save_for_backward(x)
            return x * 2

        y = function(saving, seen).apply(d, ones(2), 3, torch.arange(2), None)
        log("result", unpacked(y), type(y.grad_fn).__name__, y.grad_fn.saved_tensors)

        def saving_forward(ctx, x, *rest):
            ctx.save_for_forward(x, None)
            ctx.save_for_backward(x * 3)
            return x * 2

        y = function(saving_forward, seen).apply(d, ones(2), 3)
        log("result", unpacked(y), y.grad_fn.saved_tensors, y.grad_fn.saved_for_forward)

        def unmaterialized(ctx, x, *rest):
            ctx.set_materialize_grads(False)
            return x * 2

        log("result", unpacked(function(unmaterialized, seen).apply(e, ones(2), 3)))
        log("second argument", unpacked(function(doubled, lambda ctx, *ts: ts[1]).apply(ones(2), e)))
        log("not called", unpacked(function(doubled, seen).apply(x, ones(2))))
        log.error("no jvp", lambda: function(doubled).apply(e))
        log("no jvp, no tangent", unpacked(function(doubled).apply(x)))
        with ad._set_fwd_grad_enabled(False):
            log("off", unpacked(function(doubled).apply(e)))

        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(x, by):
                return x * by

            @staticmethod
            def setup_context(ctx, inputs, output):
                log("setup", ad._is_fwd_grad_enabled())
                ctx.save_for_forward(inputs[0])
                ctx.by = inputs[1]

            @staticmethod
            def backward(ctx, grad):
                return grad * ctx.by, None

            @staticmethod
            def jvp(ctx, tangent, by):
                log("jvp", by, ctx.saved_tensors, ctx.saved_for_forward)
                return tangent * ctx.by

        log("with setup_context", unpacked(Scaled.apply(d, 3.0)), unpacked(Scaled.apply(e, by=2.0)))
        log("apply_jvp", Scaled.apply(d, 3.0).grad_fn.apply_jvp(ones(2), None))

        log("-- what it returns")
        for name, returned in {
            "too many": lambda ctx, *ts: (ts[0], ts[0]),
            "None": lambda ctx, *ts: None,
            "a number": lambda ctx, *ts: 1.0,
            "a list": lambda ctx, *ts: [ts[0]],
            "another shape": lambda ctx, *ts: ones(3),
            "another dtype": lambda ctx, *ts: ones(2).double(),
            "a dual": lambda ctx, *ts: e,
        }.items():
            log.error(name, lambda returned=returned: unpacked(function(doubled, returned).apply(e)))

        def broken(ctx, *tangents):
            raise KeyError("broken")

        log.error("an exception", lambda: function(doubled, broken).apply(e))
        log.error("saved a number", lambda: function(lambda ctx, x: (ctx.save_for_forward(1), x)[1], seen).apply(e))

        def several(ctx, x):
            third = x * 3
            ctx.mark_non_differentiable(third)
            return x * 2, "text", third, torch.arange(2)

        for name, returned in {
            "too few": lambda ctx, t: (t, t),
            "with None": lambda ctx, t: (t, None, None, None),
            "of what is no tensor": lambda ctx, t: (t, t, None, None),
            "of a constant": lambda ctx, t: (t, None, t, None),
            "of integers": lambda ctx, t: (t, None, None, t),
        }.items():
            log.error(name, lambda returned=returned: unpacked(function(several, returned).apply(e)))

        log("-- views")

        def as_is(ctx, x, *rest):
            return x

        def part(ctx, x, *rest):
            return x[0]

        for name, forward, returned in (
            ("as is", as_is, lambda ctx, t: t),
            ("as is, a copy", as_is, lambda ctx, t: t * 1),
            ("as is, a view", as_is, lambda ctx, t: t.view_as(t)),
            ("a part", part, lambda ctx, t: t[0]),
            ("a part, a copy", part, lambda ctx, t: t[0] * 1),
        ):
            log.error(name, lambda forward=forward, returned=returned: unpacked(function(forward, returned).apply(e)))
        base = ones(2)
        log("of a plain base", unpacked(function(part, lambda ctx, s, t: t.sum()).apply(base, e)), unpacked(base))

        log("-- overwritten inputs")

        def overwriting(ctx, x, *rest):
            ctx.mark_dirty(x.mul_(2))
            return x

        for name, returned in {
            "in place": lambda ctx, t: t.mul_(2),
            "a copy": lambda ctx, t: t * 2,
            "in place and a copy": lambda ctx, t: t.mul_(2) * 1,
            "in place and a view": lambda ctx, t: t.mul_(2).view_as(t),
            "nothing": lambda ctx, t: None,
        }.items():
            log.error(name, lambda returned=returned: unpacked(function(overwriting, returned).apply(dual(1.0, 1.0))))
        plain = ones(2)
        made = function(overwriting, lambda ctx, s, t: t * 1).apply(plain, e)
        log("without tangent", unpacked(made), made is plain, unpacked(plain))
        base = ones(3)
        view = base[:2]
        made = function(overwriting, lambda ctx, s, t: t * 1).apply(view, e)
        log("a view", unpacked(base), unpacked(view), made is view)

        def marking(ctx, x):
            y = x * 2
            ctx.mark_dirty(y)
            return y

        log.error("not an input", lambda: function(marking, lambda ctx, t: t).apply(e))

        log("-- derivatives of it")

        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return x**3

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)
                ctx.save_for_forward(*inputs)

            @staticmethod
            def backward(ctx, grad):
                return 3 * ctx.saved_tensors[0] ** 2 * grad

            @staticmethod
            def jvp(ctx, tangent):
                return 3 * ctx.saved_tensors[0] ** 2 * tangent

        y = Cube.apply(d)
        tangent = ad.unpack_dual(y).tangent
        log("reverse over forward", tangent.detach(), torch.autograd.grad(tangent.sum(), x, retain_graph=True))
        first = torch.autograd.grad(y.sum(), d, create_graph=True)[0]
        log("forward over reverse", [v.detach() for v in ad.unpack_dual(first)])
        log("twice", unpacked(Cube.apply(Cube.apply(e))))

    y = Scaled.apply(x, 3.0)
    log("no level", y.grad_fn.saved_for_forward, y.grad_fn.saved_tensors, torch.autograd.grad(y.sum(), x))
