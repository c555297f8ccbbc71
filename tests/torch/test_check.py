"""``check_function``: one faulty Function per rule, and right ones of every style in which nothing
is found.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.torch.autograd.function import Function, once_differentiable

X = torch.tensor([0.5, -1.25, 2.0])
M = torch.tensor([[0.5, -1.25, 2.0], [1.5, 0.25, -0.5]])


class Square(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Kept(Square):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.parts = {"x": x}
        return x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * ctx.parts["x"] * g


class Overwrites(Square):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x.clone())
        x.mul_(x)
        return x.clone()


class InAList(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2, [x * 3]

    @staticmethod
    def backward(ctx: Any, g: Any, _: Any) -> Any:
        return 2 * g


class TooFew(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.scale


class NoTensor(Square):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2.0


class OtherShape(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, row: Any) -> Any:
        return x + row

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g, g


class OtherDtype(Square):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (2 * x * g).float()


class Raises(Square):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise KeyError("mine")


class WrongGradient(Square):
    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * g


class WrongJvp(Square):
    @staticmethod
    def forward(x: Any) -> Any:  # type: ignore[override]
        return x * x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * t


class RightJvp(WrongJvp):
    @staticmethod
    def jvp(ctx: Any, t: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * x * t


class WrongVmap(RightJvp):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return WrongVmap.apply(x) * info.batch_size, 0


class RightVmap(RightJvp):
    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        return RightVmap.apply(x), in_dims[0]


class Intermediate(Function):
    """sin(x)^2: its backward reads what forward has computed."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        s = x.sin()
        ctx.save_for_backward(x, s)
        return s * s

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, s = ctx.saved_tensors
        return 2 * s * x.cos() * g


class Once(Intermediate):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        x, s = ctx.saved_tensors
        return 2 * s * x.cos() * g


class Detaches(Square):
    """Its forward leaves tensors: functrace cannot trace through NumPy here."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.tensor(np.asarray(x.detach().numpy()) ** 2)


class TwoOutputs(Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any, n: int = 2) -> Any:
        ctx.save_for_backward(x, y)
        ctx.n = n
        return x * y, x**n, (x > 0)

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any, _: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * y + h * ctx.n * x ** (ctx.n - 1), g * x, None


class InPlace(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 3


class Exp(Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_tensors
        return g * y


@pytest.mark.parametrize("function, inputs, rule", [
    (Kept, (X,), "kept on ctx"),
    (Overwrites, (X,), "written in place"),
    (InAList, (X,), "output in a list"),
    (TooFew, (X, 2.0), "number of gradients"),
    (NoTensor, (X,), "type of a gradient"),
    (OtherShape, (M, X), "shape of a gradient"),
    (OtherDtype, (X,), "dtype of a gradient"),
    (Raises, (X,), "backward raises"),
    (WrongGradient, (X,), "wrong gradient"),
    (WrongJvp, (X,), "jvp"),
    (WrongVmap, (X,), "vmap"),
    (Intermediate, (X,), "second derivative"),
    (Detaches, (X,), "transforms"),
], ids=lambda x: x.__name__ if isinstance(x, type) else "")  # fmt: skip
def test_every_rule_finds_its_defect(function: Any, inputs: Any, rule: str) -> None:
    report = torch.check_function(function, *inputs)
    assert not report and rule in [finding.rule for finding in report], str(report)
    assert len(str(report).splitlines()) >= 3 and f"{function.__name__}: " in str(report)
    assert all(finding.what and finding.fix for finding in report)
    alone = {"Kept", "InAList", "TooFew", "WrongJvp", "WrongVmap", "Intermediate"}
    assert function.__name__ not in alone or len(report.findings) == 1, str(report)


@pytest.mark.parametrize("function, inputs", [
    (Square, (X,)), (Square, (M,)), (RightJvp, (X,)), (RightVmap, (X,)), (Once, (X,)), (TwoOutputs,
    (X, X)),
    (TwoOutputs, (X, X, 3)), (InPlace, (X,)), (Exp, (X,)),
], ids=lambda x: x.__name__ if isinstance(x, type) else "")  # fmt: skip
def test_nothing_is_found_in_right_functions(function: Any, inputs: Any) -> None:
    before = [x._array.copy() for x in inputs if isinstance(x, torch.Tensor)]
    report = torch.check_function(function, *inputs)
    assert report, str(report)
    assert str(report) == f"{function.__name__}: nothing found"
    for x, array in zip(inputs, before, strict=False):
        np.testing.assert_array_equal(x._array, array)


def test_invalid_functions_raise() -> None:
    with pytest.raises(TypeError, match=r"subclass of autograd\.Function"):
        torch.check_function(torch.sin, X)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="nothing has a derivative"):
        torch.check_function(Square, torch.tensor([1, 2]))
