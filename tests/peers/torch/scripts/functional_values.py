"""``torch.autograd.functional``: products and matrices of derivatives, in the forms that inputs and outputs have.

(PyTorch returns lists from forward mode, where its documentation says tuples; and leaves a ``grad_fn`` on its Hessians.)
"""


def run(torch, log):
    functional = torch.autograd.functional
    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    y = torch.tensor([[1.5, 0.25], [-0.75, 1.0]], dtype=torch.float64)
    u = torch.tensor([1.0, 2.0, -1.0], dtype=torch.float64)
    w = torch.tensor([[1.0, 0.5], [0.25, -1.0]], dtype=torch.float64)

    def vector(x):
        return x.exp() * x[0]

    def several(x, y):
        return x * y.sum(), (x.sin().sum() * y) ** 2

    def number(x):
        return (x**3).sum() * x[0]

    def number_of_two(x, y):
        return (x.exp().sum() * y**2).sum()

    for create_graph in (False, True):
        for wants in (False, True):
            given = x.clone().requires_grad_(wants)
            label = f"create_graph={create_graph} requires_grad={wants}"
            for name, found in [
                ("vjp", functional.vjp(vector, given, u, create_graph=create_graph)),
                ("jvp", functional.jvp(vector, given, u, create_graph=create_graph)),
                ("vhp", functional.vhp(number, given, u, create_graph=create_graph)),
                ("hvp", functional.hvp(number, given, u, create_graph=create_graph)),
            ]:
                for part in found:
                    log(label, name, part.detach(), str(part.requires_grad))
            for name, found in [
                ("jacobian", functional.jacobian(vector, given, create_graph=create_graph)),
                ("hessian", functional.hessian(number, given, create_graph=create_graph)),
            ]:
                log(label, name, found.detach(), str(found.requires_grad))
    for name, found in [
        ("jacobian", functional.jacobian(several, (x, y))),
        ("jacobian vectorized", functional.jacobian(several, (x, y), vectorize=True)),
        ("jacobian forward", functional.jacobian(several, (x, y), vectorize=True, strategy="forward-mode")),
        ("hessian", functional.hessian(number_of_two, (x, y))),
        ("hessian vectorized", functional.hessian(number_of_two, (x, y), vectorize=True)),
        (
            "hessian forward",
            functional.hessian(number_of_two, (x, y), vectorize=True, outer_jacobian_strategy="forward-mode"),
        ),
    ]:
        if "forward" not in name:
            log(name, type(found).__name__, type(found[0]).__name__)
        for row in found:
            for entry in row:
                log(name, entry.detach())
    for name, found in [
        ("vjp", functional.vjp(several, (x, y), (u, w))),
        ("jvp", functional.jvp(several, (x, y), (u, w))),
        ("vhp", functional.vhp(number_of_two, (x, y), (u, w))),
        ("hvp", functional.hvp(number_of_two, (x, y), (u, w))),
    ]:
        for part in found:
            for entry in part if isinstance(part, tuple) else (part,):
                log(name, type(part).__name__, entry)
    log("a tuple of one", functional.jacobian(lambda x: (x * 2,), (x,))[0][0])
    log("one in, two out", *functional.jacobian(lambda x: (x * 2, x.sum()), x))
    log("forward, one", functional.jacobian(vector, x, vectorize=True, strategy="forward-mode"))
    found = functional.hessian(number, x, vectorize=True, outer_jacobian_strategy="forward-mode")
    log("hessian forward, one", found.detach())
    with torch.no_grad():
        log("no_grad", functional.jacobian(vector, x), functional.vjp(vector, x, u)[1])
        found = functional.vjp(vector, x.clone().requires_grad_(), u, create_graph=True)[1]
        log("no_grad, create_graph", found.detach(), str(found.requires_grad))
    given = x.clone().requires_grad_()
    functional.jacobian(vector, given, create_graph=True).sum().backward()
    log("backward of a jacobian", given.grad)
    given = x.clone().requires_grad_()
    functional.hvp(number, given, u, create_graph=True)[1].sum().backward()
    log("backward of hvp", given.grad)
    log("inputs stay", str(x.requires_grad), x.grad)
    log("unused", *functional.jacobian(lambda x, y: x * 2, (x, y)))
