"""Jacobians that older programs take from gradcheck, and functions whose results depend on values."""

from typing import Any


def run(torch: Any, log: Any) -> None:
    """Log what there is to see."""
    checks = torch.autograd.gradcheck
    module = __import__(f"{torch.__name__}.autograd.gradcheck", fromlist=["x"])
    numerical, analytical = module.get_numerical_jacobian, module.get_analytical_jacobian
    a = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([[3.0, 4.0, 5.0]], dtype=torch.float64, requires_grad=True)
    c = torch.tensor([1.0 + 2j], dtype=torch.complex128, requires_grad=True)

    def scaled(inputs: Any) -> Any:
        return (inputs[0] ** 2).sum() * inputs[1]

    log("both", *[j.round(decimals=6) for j in numerical(scaled, (a, b))])
    log("one", *[j.round(decimals=6) for j in numerical(scaled, (a, b), target=b, eps=1e-5)])
    log.error("seed", lambda: numerical(scaled, (a, b), grad_out=2.0))
    log.error("complex result", lambda: numerical(lambda x: x[0] * x[0], (c,)))
    log(
        "of complex",
        *[
            (j.real.round(decimals=5), j.imag.round(decimals=5))
            for j in numerical(lambda x: x[0].abs(), (c,), eps=1e-6)
        ],
    )
    result = scaled((a, b))
    log(
        "passes",
        analytical((a, b), result),
        analytical((a, b), a * 2),
        analytical((b.detach(), a), a * 2),
    )
    log.error("seed", lambda: analytical((a, b), result, grad_out=3.0))
    log.error("complex result", lambda: analytical((c,), c * c))
    log("of complex", analytical((c,), c.abs()))

    class Noisy(torch.autograd.Function):
        calls = 0

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            Noisy.calls += 1
            return grad * (1 + Noisy.calls * 1e-3)

    log(
        "not the same twice",
        analytical((a,), Noisy.apply(a))[1:],
        analytical((a,), Noisy.apply(a), 1.0)[1:],
    )
    for fast in (True, False):
        for size in (1, 2):
            x = torch.ones(size, dtype=torch.float64, requires_grad=True)
            for function in (
                lambda x: torch.cat([x, x]) if torch.all(x >= 1) else x,
                lambda x: x.to(torch.float32) if torch.all(x >= 1) else x,
                lambda x: (x * 1.0, x[:1] if torch.all(x >= 1) else torch.cat([x, x])),
            ):
                log.error(
                    f"{fast} {size}",
                    lambda f=function, x=x, fast=fast: checks(f, (x,), fast_mode=fast),
                )
