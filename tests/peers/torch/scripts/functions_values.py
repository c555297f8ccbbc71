"""Every function and method of the shim once, on floats and integers: values, dtypes and shapes."""

from __future__ import annotations

from typing import Any


def run(torch: Any, log: Any) -> None:
    x = torch.tensor([[0.5, -1.25, 2.0], [1.5, 0.25, -0.75]])
    y = torch.tensor([[1.0, 2.0, -0.5], [0.5, 0.25, 4.0]])
    n = torch.tensor([[3, 1, 2], [0, 5, 4]])
    m = torch.tensor([[True, False, True], [False, False, True]])

    def each(name: str, *calls: Any) -> None:
        for k, call in enumerate(calls):
            try:
                result = call()
            except (RuntimeError, TypeError, IndexError, ValueError) as error:
                log(f"{name} {k}: {type(error).__name__}")
            else:
                parts = result if isinstance(result, tuple) and not isinstance(result, torch.Size) else (result,)
                for part in parts:
                    log(f"{name} {k}", part)

    for name in ("abs", "cos", "exp", "log1p", "neg", "reciprocal", "relu", "sigmoid", "sign", "sin", "square", "tanh",
                 "ceil", "floor", "round", "isfinite", "isnan", "logical_not"):  # fmt: skip
        function = getattr(torch, name)
        each(name, lambda f=function: f(x), lambda f=function: f(n), lambda name=name: getattr(x, name)())
    each("log", lambda: torch.log(y.abs()), lambda: y.abs().log())
    each("sqrt", lambda: torch.sqrt(y.abs()), lambda: n.sqrt())
    for name in (
        "add",
        "sub",
        "mul",
        "div",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "maximum",
        "minimum",
        "logical_and",
        "logical_or",
    ):
        function = getattr(torch, name)
        each(name, lambda f=function: f(x, y), lambda f=function: f(x, n), lambda f=function: f(n, n),
             lambda name=name: getattr(x, name)(y))  # fmt: skip
    each("pow", lambda: torch.pow(y.abs(), x), lambda: x**2, lambda: n**2, lambda: 2**n, lambda: 2.0**x, lambda: x.pow(3))
    for name in ("sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin"):
        function = getattr(torch, name)
        each(name, lambda f=function: f(x), lambda f=function: f(x, 0), lambda f=function: f(x, -1, True),
             lambda f=function: f(n), lambda name=name: getattr(x, name)(), lambda name=name: getattr(x, name)(dim=1),
             lambda name=name: getattr(x, name)(dim=0, keepdim=True), lambda f=function: f(m))  # fmt: skip
    each("sums", lambda: x.sum((0, 1)), lambda: x.sum([1]), lambda: x.mean((0, 1), True), lambda: n.sum(dtype=torch.float32))
    for name in ("softmax", "log_softmax", "logsumexp"):
        function = getattr(torch, name)
        each(name, lambda f=function: f(x, 0), lambda f=function: f(x, 1), lambda name=name: getattr(x, name)(1))
    each("products", lambda: torch.mm(x, y.t()), lambda: x @ y.T, lambda: torch.matmul(x, y[0]),
         lambda: torch.dot(x[0], y[0]), lambda: x.mv(y[1]), lambda: torch.bmm(x[None], y.t()[None]),
         lambda: torch.addmm(x[:, :2], x, y.t()),
         lambda: torch.matmul(x[None], y.t()), lambda: x.mm(y))  # fmt: skip
    each("shapes", lambda: x.t(), lambda: x.T, lambda: x.mT, lambda: x.transpose(0, 1), lambda: x.permute(1, 0),
         lambda: x.reshape(3, 2), lambda: x.view(-1), lambda: x.view(3, 2), lambda: x.flatten(), lambda: x[None].squeeze(0),
         lambda: x[None].squeeze(), lambda: x.unsqueeze(1), lambda: x[:1].expand(4, 3), lambda: x[0].expand_as(y),
         lambda: x.contiguous(), lambda: x.reshape_as(y), lambda: x.view_as(y), lambda: x.view(4, 2),
         lambda: x.narrow(1, 1, 2), lambda: x.select(1, 2))  # fmt: skip
    each("indexing", lambda: x[0], lambda: x[:, 1], lambda: x[1, 2], lambda: x[..., -1], lambda: x[:, ::2], lambda: x[m],
         lambda: x[torch.tensor([1, 0, 1])], lambda: x[[0, 1], [2, 0]], lambda: x[5], lambda: x[:, None].size(),
         lambda: x.gather(1, torch.tensor([[0, 2], [1, 1]])))  # fmt: skip
    each("joining", lambda: torch.cat([x, y]), lambda: torch.cat((x, n), 1), lambda: torch.stack([x, y], 1),
         lambda: torch.where(m, x, y), lambda: torch.where(x > 0, x, 0.0), lambda: x.where(m, y))  # fmt: skip
    each("clamp", lambda: x.clamp(-0.5, 1.0), lambda: torch.clamp(x, min=0.0), lambda: x.clamp(max=1), lambda: n.clamp(1, 3),
         lambda: x.clamp_min(0.1), lambda: x.clamp_max(0.1))  # fmt: skip
    each("making", lambda: torch.zeros(2, 3), lambda: torch.ones((2,), dtype=torch.float64),
         lambda: torch.full((2, 2), 1.5), lambda: torch.eye(3), lambda: torch.arange(5),
         lambda: torch.arange(1.0, 2.0, 0.25), lambda: torch.linspace(0, 1, 5),
         lambda: torch.zeros_like(n), lambda: torch.ones_like(x), lambda: torch.full_like(x, 2),
         lambda: torch.empty(0),
         lambda: torch.tensor(1), lambda: torch.tensor([1, 2.5]), lambda: torch.tensor([True]),
         lambda: torch.as_tensor([1.0]),
         lambda: x.new_zeros(2), lambda: x.new_ones(1, 2), lambda: n.new_tensor([1, 2]))  # fmt: skip
    each("asking", lambda: x.numel(), lambda: x.size(), lambda: x.size(1), lambda: x.dim(), lambda: x.ndim,
         lambda: x.stride(), lambda: x.t().is_contiguous(), lambda: x.is_floating_point(), lambda: x.tolist(),
         lambda: x[0, 0].item(), lambda: float(x[0, 0]), lambda: int(n[0, 0]), lambda: bool(m[0, 0]), lambda: len(x),
         lambda: x.item(), lambda: torch.equal(x, x.clone()), lambda: torch.allclose(x, y), lambda: torch.is_tensor(x),
         lambda: x.element_size(), lambda: str(x.dtype), lambda: repr(x), lambda: repr(n), lambda: repr(m))  # fmt: skip
    each("dtypes", lambda: x.double(), lambda: x.long(), lambda: n.float(), lambda: x.half(), lambda: x.to(torch.int32),
         lambda: x.type_as(n), lambda: n.to(torch.bool), lambda: n / 2, lambda: n * 1.5, lambda: n + True,
         lambda: 1 - n, lambda: x.double() + x, lambda: x + torch.tensor(2.0, dtype=torch.float64))  # fmt: skip
    functional = torch.nn.functional
    each("functional", lambda: functional.relu(x), lambda: functional.linear(x, y), lambda: functional.linear(x, y, x[:, 0]),
         lambda: functional.softmax(x, dim=1), lambda: functional.log_softmax(x, dim=0), lambda: functional.mse_loss(x, y),
         lambda: functional.cross_entropy(x, torch.tensor([2, 0])), lambda: functional.nll_loss(x, torch.tensor([2, 0])),
         lambda: functional.cross_entropy(x, torch.tensor([2, 0]), reduction="sum"),
         lambda: functional.mse_loss(x, y, reduction="none"), lambda: functional.tanh(x),
         lambda: functional.sigmoid(x))  # fmt: skip
    for name, value in (("add_", y), ("sub_", y), ("mul_", y), ("div_", y), ("copy_", y), ("fill_", 2.0), ("pow_", 2)):
        each(name, lambda name=name, value=value: getattr(x.clone(), name)(value))
    for name in ("abs_", "cos_", "exp_", "neg_", "relu_", "sigmoid_", "sin_", "tanh_", "zero_"):
        each(name, lambda name=name: getattr(x.clone(), name)())
    each("clamp_", lambda: x.clone().clamp_(0.0, 1.0), lambda: x.abs().sqrt_(), lambda: x.abs().log_())
