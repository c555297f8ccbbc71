"""Dual tensors: levels, what is made and unpacked, whose memory it is, and what is refused."""


def run(torch, log):
    ad = torch.autograd.forward_ad
    t = torch.tensor([3.0, 4.0])

    def dual(*values):
        return ad.make_dual(torch.tensor(values), t.clone())

    log("outside", ad._current_level, ad.unpack_dual(t), ad._is_fwd_grad_enabled())
    log.error("make outside", lambda: ad.make_dual(t, t))
    log.error("exit outside", ad.exit_dual_level)
    log.error("exit another", lambda: ad.exit_dual_level(level=3))
    with ad.dual_level() as level:
        log("level", level, ad._current_level)
        leaf = torch.tensor([1.0, 2.0], requires_grad=True)
        d = ad.make_dual(leaf, t)
        log("made", d, repr(d), d is leaf, d._is_view(), d._base is leaf, d.requires_grad, d._version)
        primal, tangent = ad.unpack_dual(d)
        log("unpacked", primal, repr(primal), primal._is_view(), primal._base is leaf, tangent is t, primal.grad_fn.name())
        log("fields", list(ad.unpack_dual(d)._fields), type(ad.unpack_dual(d)))
        x = torch.tensor([1.0, 2.0])
        d = ad.make_dual(x, t)
        log("of a constant", d, repr(d), d._is_view(), d.grad_fn, d.data_ptr() == x.data_ptr())
        for name, make in {
            "dual of dual": lambda: ad.make_dual(d, t),
            "tangent of tangent": lambda: ad.make_dual(x, d),
            "integers": lambda: ad.make_dual(torch.arange(2), t),
            "integer tangent": lambda: ad.make_dual(x, torch.arange(2)),
            "another shape": lambda: ad.make_dual(x, torch.ones(3)),
            "two levels": ad.enter_dual_level,
            "another level": lambda: ad.make_dual(x, t, level=1),
            "unpack another level": lambda: ad.unpack_dual(d, level=1),
            "exit another level": lambda: ad.exit_dual_level(level=5),
            "a number": lambda: ad.make_dual(1.0, t),
            "a number's tangent": lambda: ad.make_dual(x, 1.0),
            "unpack a number": lambda: ad.unpack_dual(1.0),
            "out=": lambda: torch.mul(d, 2, out=torch.zeros(2)),
            "dual out=": lambda: torch.mul(x, 2, out=dual(1.0, 1.0)),
        }.items():
            log.error(name, make)
        log("another dtype", ad.unpack_dual(ad.make_dual(x, torch.ones(2, dtype=torch.float64))))
        log("times 2", ad.unpack_dual(ad.make_dual(x, torch.ones(2, dtype=torch.float64)) * 2).tangent)
        for name, value, direction in (
            ("expanded", x, torch.ones(1).expand(2)),
            ("transposed", torch.ones(2, 3).t(), torch.ones(3, 2)),
            ("part", torch.ones(4)[1:3], torch.ones(2)),
            ("alike", torch.ones(2, 3).t(), torch.ones(2, 3).t()),
        ):
            kept = ad.unpack_dual(ad.make_dual(value, direction)).tangent
            log(name, kept, kept is direction, kept.stride())

        log("-- operations")
        y = d * d
        log("product", ad.unpack_dual(y), ad.unpack_dual(y).tangent is ad.unpack_dual(y).tangent)
        with torch.no_grad():
            log("no_grad", ad.unpack_dual(d * 3))
        log(
            "detach, data, clone",
            *[ad.unpack_dual(f(d)) for f in (lambda a: a.detach(), lambda a: a.data, lambda a: a.clone())],
        )
        log("integers", ad.unpack_dual(d.long()), ad.unpack_dual(d > 1))
        log("made anew", ad.unpack_dual(torch.zeros_like(d)), ad.unpack_dual(torch.stack([d, x])))
        log("pieces", [repr(p) for p in d.unbind()], repr(d.max()), repr(d.max(0).indices), repr(d[d > 1]))
        with ad._set_fwd_grad_enabled(False):
            log("off", ad._is_fwd_grad_enabled(), ad.unpack_dual(d), ad.unpack_dual(d * 2))
        log("on again", ad._is_fwd_grad_enabled(), ad.unpack_dual(d * 2))
        with torch.no_grad():
            d.requires_grad_()
        log("asked for gradients", repr(d), d.is_leaf)
    log("left", ad.unpack_dual(d), repr(d), repr(y), ad._current_level)
    with ad.dual_level():
        log("entered again", ad.unpack_dual(d), ad.unpack_dual(y))

    @ad.dual_level()
    def inside():
        return ad._current_level

    log("decorated", inside(), ad._current_level)
