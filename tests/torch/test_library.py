"""``torch.library``: custom operators, their derivatives, and how dispatch modes, checkpoints,
profiles and transforms treat them.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import functrace.torch as torch
from functrace.errors import UnsupportedFunctionError
from functrace.torch import Tensor, library
from functrace.torch._library.custom_ops import CustomOpDef
from functrace.torch.autograd.profiler import profile
from functrace.torch.utils._python_dispatch import TorchDispatchMode
from functrace.torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

_NUMBERS = itertools.count()


def _gradient(x: Tensor) -> Tensor:
    assert x.grad is not None
    return x.grad


@pytest.fixture
def name() -> str:
    """Return an unused name of an operator."""
    return f"tests::op{next(_NUMBERS)}"


@pytest.fixture
def scaled_sine(name: str) -> Iterator[CustomOpDef]:
    @library.custom_op(name, mutates_args=())
    def scaled_sine(x: Tensor, n: int = 2, *, scale: float = 1.0) -> Tensor:
        return torch.tensor(np.sin(x.detach().numpy()) * n * scale)

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        x, ctx.n = inputs
        ctx.scale = keyword_only_inputs["scale"]
        ctx.save_for_backward(x)

    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return gradient * x.cos() * ctx.n * ctx.scale, None

    scaled_sine.register_autograd(backward, setup_context=setup)
    yield scaled_sine
    scaled_sine._operator.remove()


def test_an_operator_is_called_by_any_of_its_names(scaled_sine: CustomOpDef) -> None:
    packet = getattr(torch.ops.tests, scaled_sine._name)
    assert str(packet.default._schema).endswith(
        "(Tensor x, SymInt n=2, *, float scale=1.) -> Tensor"
    )
    x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    for call in scaled_sine, packet, packet.default:
        y = call(x, 3, scale=0.5)
        assert y.grad_fn.name() == f"GeneratedBackwardFor_tests_{scaled_sine._name}_defaultBackward"
        (g,) = torch.autograd.grad(y.sum(), x)
        np.testing.assert_allclose(y.detach().numpy(), 1.5 * np.sin([0.5, 1.0]))
        np.testing.assert_allclose(g.numpy(), 1.5 * np.cos([0.5, 1.0]))
    assert call(x.detach()).grad_fn is None
    assert torch.autograd.gradcheck(lambda x: scaled_sine(x, 3, scale=0.5), x)


def test_wrong_arguments_are_refused(scaled_sine: CustomOpDef) -> None:
    x = torch.ones(2)
    for args, text in (
        ((), "is missing value for argument 'x'"),
        ((x, 1, 2.0), r"takes 2 positional argument\(s\) but 3"),
        ((x, "a"), "Expected a value of type 'int' for argument 'n' but instead found type 'str'"),
    ):
        with pytest.raises(RuntimeError, match=text):
            scaled_sine(*args)
    with pytest.raises(RuntimeError, match="Unknown keyword argument 'other'"):
        scaled_sine(x, other=1)


def test_modes_profiles_and_checkpoints_get_the_operator(scaled_sine: CustomOpDef) -> None:
    class Noting(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            noted.append((str(func), args[1:], kwargs))
            return func(*args, **(kwargs or {}))

    noted: list[Any] = []
    x = torch.ones(2, requires_grad=True)
    overload = scaled_sine._opoverload
    with Noting():
        y = scaled_sine(x, 2, scale=3.0)
    assert noted == [(str(overload), (), {"scale": 3.0})]  # without arguments that are the defaults
    assert y.grad_fn is not None
    with profile() as prof:
        scaled_sine(x)
    assert overload.name() in [event.name for event in prof.function_events]

    calls = []
    kernel = scaled_sine._init_fn

    def counting(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return kernel(*args, **kwargs)

    scaled_sine.register_kernel("cpu", counting)
    contexts = functools.partial(create_selective_checkpoint_contexts, [overload])
    out = checkpoint(lambda x: scaled_sine(x).exp(), x, use_reentrant=False, context_fn=contexts)
    out.sum().backward()
    assert len(calls) == 1
    expected = np.exp(2 * np.sin(1.0)) * 2 * np.cos(1.0)
    np.testing.assert_allclose(_gradient(x).numpy(), [expected] * 2, rtol=1e-5)


def test_a_kernel_of_operations_is_transformed(name: str) -> None:
    @library.custom_op(name, mutates_args=())
    def cube(x: Tensor) -> Tensor:
        return x**3

    cube.register_autograd(
        lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    x = torch.tensor([1.0, 2.0])
    assert torch.func.grad(lambda x: cube(x).sum())(x).tolist() == [3.0, 12.0]
    assert torch.vmap(cube)(x).tolist() == [1.0, 8.0]


def test_without_a_derivative_the_backward_pass_raises(name: str) -> None:
    @library.custom_op(name, mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    y = double(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        y.sum().backward()


def test_results_that_share_memory_are_refused(name: str) -> None:
    @library.custom_op(name, mutates_args=())
    def part(x: Tensor) -> Tensor:
        return x[:1]

    with pytest.raises(RuntimeError, match="may not alias any inputs"):
        part(torch.ones(2))


def test_operators_that_write_count_versions(name: str) -> None:
    @library.custom_op(name, mutates_args=("x",))
    def fill(x: Tensor) -> None:
        x.numpy()[:] = 5

    x = torch.zeros(2)
    fill(x)
    assert x.tolist() == [5.0, 5.0] and x._version == 1
    with pytest.raises(UnsupportedFunctionError, match="its derivative is unknown"):
        fill(torch.zeros(2, requires_grad=True) * 1)
    with pytest.raises(RuntimeError, match="Cannot register autograd formula for non-functional"):
        fill.register_autograd(lambda ctx: None)


def test_lists_of_tensors_and_several_results(name: str) -> None:
    @library.custom_op(name, mutates_args=())
    def add_all(xs: Sequence[Tensor], by: float) -> tuple[Tensor, int]:
        return by * torch.stack(list(xs)).sum(0), len(xs)

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.count, ctx.by = len(inputs[0]), inputs[1]

    add_all.register_autograd(
        lambda ctx, g, _: ([ctx.by * g] * ctx.count, None), setup_context=setup
    )
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    total, count = add_all([a, b], 3.0)
    total.sum().backward()
    assert count == 2 and total.tolist() == [6.0, 6.0]
    assert _gradient(a).tolist() == _gradient(b).tolist() == [3.0, 3.0]


def test_libraries_define_by_schemas() -> None:
    with library._scoped_library("tests", "FRAGMENT") as lib:
        assert lib.define("times(Tensor x, int n=3) -> Tensor") == "times"
        with pytest.raises(NotImplementedError, match="no kernel is registered"):
            torch.ops.tests.times(torch.ones(1))
        lib.impl("times", lambda x, n: x * n, "CompositeImplicitAutograd")
        x = torch.ones(2, requires_grad=True)
        torch.ops.tests.times(x, 4).sum().backward()
        assert _gradient(x).tolist() == [4.0, 4.0]
        with pytest.raises(RuntimeError, match="multiple times"):
            lib.define("times(Tensor x) -> Tensor")
        with pytest.raises(UnsupportedFunctionError, match="no dispatch key Autograd"):
            lib.impl("times", lambda x, n: x, "Autograd")
    with pytest.raises(AttributeError):
        _ = torch.ops.tests.times
    library.define("tests::plus", "(Tensor x) -> Tensor")

    @library.impl("tests::plus", "cpu")
    def plus(x: Tensor) -> Tensor:
        return x + 1

    assert torch.ops.tests.plus(torch.ones(1)).tolist() == [2.0]
    with pytest.raises(RuntimeError, match="tests::nothing does not exist"):
        library.register_fake("tests::nothing")


def _several(
    a: Tensor, b: Tensor | None, c: list[Tensor], d: Sequence[int], e: float = 1.5, f: str = "q",
    g: bool = True, h: int | None = None, i: torch.dtype = torch.float32, k: int | float | bool = 1,
    *, m: Sequence[Tensor] | None = None, p: float = 1e-7,
) -> list[Tensor]:  # fmt: skip
    raise NotImplementedError


def test_schemas_come_from_annotations() -> None:
    assert library.infer_schema(_several, mutates_args=()) == (
        '(Tensor a, Tensor? b, Tensor[] c, SymInt[] d, float e=1.5, str f="q", bool g=True, '
        "SymInt? h=None, ScalarType i=float32, Scalar k=1, *, Tensor[]? m=None, float p=1e-07) -> "
        "Tensor[]"
    )
    wrong: list[tuple[Callable[..., Any], str]] = [
        (lambda x: x, "Parameter x must have a type annotation"),
        (lambda *x: x, "We do not support positional-only args"),
    ]
    for function, text in wrong:
        with pytest.raises(ValueError, match=text):
            library.infer_schema(function, mutates_args=())
    with pytest.raises(ValueError, match="were not found in the custom op's signature"):
        library.infer_schema(_several, mutates_args={"z"})
