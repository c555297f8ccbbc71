"""Views of dual tensors and operations in place: tangents share memory as their tensors do."""


def run(torch, log):
    ad = torch.autograd.forward_ad
    t = torch.tensor([3.0, 4.0])

    def dual(*values):
        return ad.make_dual(torch.tensor(values), torch.tensor([3.0, 4.0]))

    def tangent(x):
        return ad.unpack_dual(x).tangent

    with ad.dual_level():
        log("-- in place")
        d = ad.make_dual(torch.ones(2), t)
        before = tangent(d)
        d.mul_(2)
        log("times 2", d, t, tangent(d) is before, before is t, before._version, d._version)
        d.add_(torch.ones(2)).mul_(dual(5.0, 6.0))
        log("both dual", ad.unpack_dual(d), tangent(d) is t, t._version)
        log("constants", tangent(d.clone().zero_()), tangent(d.clone().fill_(2.0)), tangent(d.clone().copy_(torch.ones(2))))
        plain = torch.ones(2)
        plain.mul_(dual(2.0, 3.0))
        log("of a plain one", ad.unpack_dual(plain))
        log.error("of a leaf", lambda: torch.ones(2, requires_grad=True).mul_(d))
        asked = torch.ones(2, requires_grad=True)
        log.error("tangent a leaf", lambda: ad.make_dual(torch.ones(2), asked).mul_(2))
        d = dual(1.0, 2.0)
        d[0] = d[1]
        log("item", ad.unpack_dual(d))
        d[1] = 7.0
        log("item of a number", ad.unpack_dual(d))
        log.error("detach_ of a view", d.detach_)
        d = d.clone()
        d.detach_()
        log("detach_", ad.unpack_dual(d))

        log("-- views")
        d = dual(1.0, 2.0)
        v = d[1:]
        log("view", ad.unpack_dual(v), tangent(v)._base is tangent(d), tangent(v)._is_view())
        v.mul_(10)
        log("written", ad.unpack_dual(d), ad.unpack_dual(v), tangent(v)._version)
        base = torch.zeros(2, 2)
        row, other = base[0], base[1]
        row.copy_(dual(1.0, 2.0))
        log("written into a plain base", ad.unpack_dual(base), ad.unpack_dual(row), ad.unpack_dual(other))
        log("shared", tangent(row)._base is tangent(base), tangent(other)._base is tangent(base))
        other.add_(dual(1.0, 1.0))
        log("and another part", ad.unpack_dual(base))
        log("kept", tangent(other) is tangent(other))
        log("transposed, expanded", tangent(base.t()), tangent(base[0].expand(2, 2)), tangent(base.view(-1)))
        d = dual(1.0, 2.0)
        primal = ad.unpack_dual(d).primal
        part = primal[0:1]
        primal.mul_(dual(2.0, 2.0))
        log("primal written", ad.unpack_dual(primal), ad.unpack_dual(part), ad.unpack_dual(d))

        log("-- with gradients")
        x = torch.tensor([0.5, 1.5], requires_grad=True)
        direction = torch.tensor([1.0, 2.0], requires_grad=True)
        d = ad.make_dual(x, direction)
        y = d.exp() * 2
        y.mul_(d).sin_()
        log("tangent", ad.unpack_dual(y).tangent.detach(), tangent(y).requires_grad)
        log("reverse over forward", torch.autograd.grad(tangent(y).sum(), (x, direction), retain_graph=True))
        first = torch.autograd.grad(y.sum(), d, create_graph=True)[0]
        log("forward over reverse", first.detach(), tangent(first).detach())
        log("again", torch.autograd.grad(tangent(first).sum(), (x, direction)))
        for _ in range(4):  # nodes that have run before carry tangents, too
            found = torch.autograd.grad((d.exp() * d).sum(), d)[0]
            log("without a graph", ad.unpack_dual(found))
        (d.exp() * d).sum().backward()
        log("accumulated", ad.unpack_dual(x.grad))
        (d.exp() * d).sum().backward()
        log("added", ad.unpack_dual(x.grad))
        y = d.exp()
        y.retain_grad()
        (y * y).sum().backward()
        log("retained", ad.unpack_dual(y.grad))
        log("saved result", ad.unpack_dual((s := d.exp()).grad_fn._saved_result).tangent.detach(), s.requires_grad)
