"""``.data = `` something of another shape: what a graph that was made before does with it, and one that is made later."""


def run(torch, log):
    def leaf():
        return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)

    def attempt(label, body):
        log.error(label, lambda: log(label, body()))

    def passed_through():
        p = leaf()
        y = (p * 2).sum()
        p.data = torch.ones(2)
        y.backward()
        return p.grad, p

    def broadcast():
        p = leaf()
        y = (p * 2).sum()
        p.data = torch.ones(1, 3)
        y.backward()
        return p.grad

    def no_axes():
        p = leaf()
        y = (p * 2).sum()
        p.data = torch.ones(())
        y.backward()
        return p.grad

    def dtype():
        p = leaf()
        y = (p * 2).sum()
        p.data = torch.ones(3, dtype=torch.float64)
        y.backward()
        return p.grad

    def same_shape():
        p = leaf()
        y = (p * p).sum()
        p.data = torch.ones(3) * 10
        y.backward()
        return p.grad

    def returned():
        p = leaf()
        y = (p * 2).sum()
        p.data = torch.ones(2)
        return torch.autograd.grad(y, p)[0]

    def before():
        p = leaf()
        p.data = torch.ones(2, 2)
        (p * p).sum().backward()
        return p.grad

    def after_a_pass():
        p = leaf()
        (p * p).sum().backward()
        p.data = torch.ones(2, 2)
        log("old gradient", p.grad)
        (p * p).sum().backward()
        return p.grad

    def old_gradient():
        p = leaf()
        p.grad = torch.ones(3)
        p.data = torch.ones(2)
        (p * 2).sum().backward()

    def graph_alive():
        p = leaf()
        loss = (p * 2).sum()
        loss.backward()
        p.data, p.grad = torch.ones(2), None
        (p * 3).sum().backward()
        return loss, p.grad

    def graph_gone():
        p = leaf()
        loss = (p * 2).sum()
        loss.backward()
        del loss
        p.data, p.grad = torch.ones(2), None
        (p * 3).sum().backward()
        return p.grad

    def both():
        p = leaf()
        y = p * 2
        p.data = torch.ones(2)
        z = p * 3
        (y.sum() + z.sum()).backward()

    def computed():
        p = leaf()
        y = p * 2
        y.data = torch.ones(2)
        y.sum().backward()

    def computed_and_saved():
        p = leaf()
        y = p.exp()
        y.data = torch.ones(2)
        y.sum().backward()

    def computed_later():
        p = leaf()
        y = p * 2
        z = y.sum()
        y.data = torch.ones(2)
        z.backward()
        return p.grad

    def hooked():
        p = leaf()
        p.register_hook(lambda g: log("hook", g))
        p.data = torch.ones(2)
        (p * 2).sum().backward()
        return p.grad

    for body in (
        passed_through, broadcast, no_axes, dtype, same_shape, returned, before, after_a_pass, old_gradient, graph_alive,
        graph_gone, both, computed, computed_and_saved, computed_later, hooked,
    ):  # fmt: skip
        attempt(body.__name__, body)
    p = leaf()
    (p * p).sum().backward()
    log("others as before", p.grad)
