"""Complex numbers as pairs of real ones, and back: views, gradients, overwrites, what is refused."""

from typing import Any


def run(torch: Any, log: Any) -> None:
    """Log what there is to see."""
    real, whole = torch.view_as_real, torch.view_as_complex
    z = torch.tensor([[1 + 2j, 3j], [-1.0, 0.5 - 1j]], dtype=torch.complex128, requires_grad=True)
    x = torch.tensor([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]], dtype=torch.float64, requires_grad=True)
    weights = torch.arange(1.0, 9.0, dtype=torch.float64).reshape(2, 2, 2)

    pairs = real(z)
    log(
        "pairs",
        pairs,
        pairs._is_view(),
        pairs.grad_fn.next_functions[0][1],
        pairs.data_ptr() == z.data_ptr(),
        pairs.stride(),
    )
    log("gradient", *torch.autograd.grad((pairs * weights).sum(), z))
    numbers = whole(x)
    log("numbers", numbers, numbers._is_view(), numbers.stride())
    (first,) = torch.autograd.grad((numbers * numbers).abs().sum(), x, create_graph=True)
    log("gradient", first.detach(), *torch.autograd.grad(first.sum(), x))
    log("there and back", whole(real(z)), real(whole(x)))
    log("transposed", real(z.t()), real(z.t()).stride(), real(z[:, 1]), whole(torch.ones(2, 3, 2)[:, 1]))

    for attempt in (lambda y: real(y).mul_(2), lambda y: real(y)[0, 1].fill_(5), lambda y: real(y)[..., 0].zero_()):
        y = z * 1
        attempt(y)
        log("overwritten", y)
        log("gradient", real(*torch.autograd.grad((y * y.conj()).real.sum(), z)))
    y = x * 1
    whole(y)[1] = 2 - 3j
    log("overwritten", y)
    log("gradient", *torch.autograd.grad((y * y).sum(), x))

    for label, attempt in {
        "real": lambda: real(x), "number": lambda: real(3), "size": lambda: whole(torch.ones(3)),
        "integers": lambda: whole(torch.ones(2, 2).long()), "stride": lambda: whole(torch.ones(2, 2).t()),
        "scalar": lambda: whole(torch.tensor(1.0)), "odd": lambda: whole(torch.ones(3, 3)[:, :2]),
        "offset": lambda: whole(torch.ones(9)[1:].reshape(4, 2)), "complex": lambda: whole(z),
    }.items():  # fmt: skip
        log.error(label, attempt)
