"""``torch.autograd.functional``: what is refused, and in which words."""


def run(torch, log):
    functional = torch.autograd.functional
    x = torch.ones(3, dtype=torch.float64)
    y = torch.ones(2, dtype=torch.float64)
    one = torch.ones((), dtype=torch.float64)
    leaf = torch.ones(3, dtype=torch.float64, requires_grad=True)

    def vector(x):
        return x**2

    def number(x):
        return (x**2).sum()

    for name in ("vjp", "jvp", "jacobian", "hessian", "vhp", "hvp"):
        f = getattr(functional, name)
        scalar = name in ("hessian", "vhp", "hvp")
        of = number if scalar else vector
        matrix = name in ("jacobian", "hessian")
        v = () if matrix else (x,)
        shown = {}

        def attempt(label, call, name=name, shown=shown):
            def summarized():
                result = call()
                return [type(result).__name__, *(type(r).__name__ for r in result if isinstance(result, tuple))]

            log.error(f"{name} {label}", summarized)

        attempt("list", lambda: f(of, [x], *v))
        attempt("tuple with a number", lambda: f(of, (x, 1.0), *v))
        attempt("number", lambda: f(of, 1.0, *v))
        attempt("returns a number", lambda: f(lambda x: 1.0, x, *v))
        attempt("returns a list", lambda: f(lambda x: [of(x)], x, *v))
        attempt("returns a tuple with a number", lambda: f(lambda x: (of(x), 1.0), x, *v))
        attempt("returns two", lambda: f(lambda x: (of(x), of(x)), x, *v))
        attempt("returns a vector", lambda: f(vector, x, *v))
        attempt("returns one element", lambda: f(lambda x: number(x).reshape(1), x, *v))
        if not matrix:
            attempt("no v", lambda: f(of, x))
            attempt("v of another size", lambda: f(of, x, torch.ones(4, dtype=torch.float64)))
            attempt("v a number", lambda: f(of, x, 1.0))
            attempt("v a list", lambda: f(of, x, [x]))
            attempt("v of two", lambda: f(of, x, (x, x)))
            attempt("v a tuple of one", lambda: f(of, x, (x,)))
            attempt("no v, one number", lambda: f(of, one))
            if name != "vjp":
                attempt("two inputs, one v", lambda: f(lambda x, y: number(x) * y.sum(), (x, y), x))
                attempt("two inputs, v of another size", lambda: f(lambda x, y: number(x) * y.sum(), (x, y), (x, x)))
        for strict in (False, True):
            told = "strict " if strict else ""
            constant = one if scalar else x
            attempt(told + "constant", lambda: f(lambda x: constant.clone(), x, *v, strict=strict))
            attempt(told + "detached", lambda: f(lambda x: of(x.detach()), x, *v, strict=strict))
            attempt(told + "of a leaf", lambda: f(lambda x: of(leaf), x, *v, strict=strict))
            linear = (lambda x: x.sum()) if scalar else (lambda x: x * 2)
            for create_graph in (False, True):
                attempt(
                    f"{told}linear, create_graph={create_graph}",
                    lambda: f(linear, x, *v, strict=strict, create_graph=create_graph),
                )
                exponential = (lambda x: x.exp().sum()) if scalar else (lambda x: x.exp())
                attempt(
                    f"{told}exponential, create_graph={create_graph}",
                    lambda: f(exponential, x, *v, strict=strict, create_graph=create_graph),
                )
            both = () if matrix else (x,) if name == "vjp" else ((x, y),)
            unused = (lambda x, y: x.exp().sum()) if scalar else (lambda x, y: x * 2)
            attempt(told + "one unused", lambda: f(unused, (x, y), *both, strict=strict))
            other = (lambda x, y: x.exp().sum() + (y * leaf[:2]).sum()) if scalar else (lambda x, y: x * 2 + y.sum())
            attempt(told + "linear in one", lambda: f(other, (x, y), *both, strict=strict))
    jacobian, hessian = functional.jacobian, functional.hessian
    log.error("strategy", lambda: jacobian(vector, x, strategy="sideways"))
    log.error("strict, vectorized", lambda: jacobian(vector, x, vectorize=True, strict=True))
    log.error("forward", lambda: jacobian(vector, x, strategy="forward-mode"))
    log.error("forward, strict", lambda: jacobian(vector, x, strategy="forward-mode", vectorize=True, strict=True))
    log.error(
        "forward, create_graph", lambda: jacobian(vector, leaf, strategy="forward-mode", vectorize=True, create_graph=True)
    )
    log.error("hessian strategy", lambda: hessian(number, x, outer_jacobian_strategy="sideways"))
    log.error("hessian forward", lambda: hessian(number, x, outer_jacobian_strategy="forward-mode"))
