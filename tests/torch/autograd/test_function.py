"""`autograd.Function` where no parity script reaches: among traced values, lifetimes, state after
errors.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import ArgumentError, ConcretizationError, NotDifferentiableError

RNG = np.random.default_rng(3)
X, W, B = RNG.normal(size=(5, 3)), RNG.normal(size=(2, 3)), RNG.normal(size=2)
TARGET = RNG.normal(size=(5, 2))


class LinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(input, weight, bias):
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def setup_context(ctx, inputs, output):
        input, weight, bias = inputs
        ctx.save_for_backward(input, weight, bias)

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class CtxLinearFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        return LinearFunction.backward(ctx, grad_output)[: len(ctx.needs_input_grad)]


STYLES = pytest.mark.parametrize(
    "function", [LinearFunction, CtxLinearFunction], ids=["setup_context", "ctx"]
)


def loss(function: Any) -> Callable[..., Any]:
    """Squared error of a linear layer through a Function."""

    def squared_error(x: Any, w: Any, b: Any, target: Any = TARGET) -> Any:
        return np.sum((function.apply(x, w, b) - target) ** 2)

    return squared_error


def expected_gradients(x: Any, w: Any, b: Any, target: Any) -> tuple[Any, Any, Any]:
    """Gradients of `loss`, by hand."""
    residual = 2 * (x @ w.T + (0 if b is None else b) - target)
    return residual @ w, residual.T @ x, residual.sum(0)


def close(found: Any, expected: Any) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


# -- a linear layer, four ways ---------------------------------------------------------------------


@STYLES
def test_linear_function_in_grad(function: Any) -> None:
    close(ft.grad(loss(function), (0, 1, 2))(X, W, B), expected_gradients(X, W, B, TARGET))


@STYLES
def test_linear_function_in_backward(function: Any) -> None:
    leaves = [torch.tensor(a, requires_grad=True) for a in (X, W, B)]
    error = ((function.apply(*leaves) - torch.tensor(TARGET)) ** 2).sum()
    error.backward()
    close([leaf.grad.numpy() for leaf in leaves], expected_gradients(X, W, B, TARGET))


@STYLES
def test_linear_function_in_jit(function: Any) -> None:
    gradient = ft.jit(ft.grad(loss(function), (0, 1, 2)))
    for scale in (1.0, 0.5):
        close(gradient(scale * X, W, B), expected_gradients(scale * X, W, B, TARGET))
    jitted = ft.grad(ft.jit(loss(function)), (0, 1, 2))
    close(jitted(X, W, B), expected_gradients(X, W, B, TARGET))


@STYLES
def test_linear_function_in_checkpoint(function: Any) -> None:
    close(
        ft.grad(ft.checkpoint(loss(function)), (0, 1, 2))(X, W, B),
        expected_gradients(X, W, B, TARGET),
    )


@STYLES
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_linear_function_in_vmap_of_grad(function: Any, axis: int) -> None:
    xs, targets = RNG.normal(size=(4, 5, 3)), RNG.normal(size=(4, 5, 2))
    gradient = ft.vmap(ft.grad(loss(function), (0, 1, 2)), in_axes=(axis, None, None, axis))
    found = gradient(np.moveaxis(xs, 0, axis), W, B, np.moveaxis(targets, 0, axis))
    for k in range(4):
        close([g[k] for g in found], expected_gradients(xs[k], W, B, targets[k]))


@STYLES
def test_linear_function_in_grad_of_vmap(function: Any) -> None:
    xs = RNG.normal(size=(4, 5, 3))

    def total(w: Any, b: Any) -> Any:
        return np.sum(ft.vmap(loss(function), in_axes=(0, None, None))(xs, w, b))

    each = [expected_gradients(x, W, B, TARGET) for x in xs]
    close(ft.grad(total, (0, 1))(W, B), (sum(e[1] for e in each), sum(e[2] for e in each)))


@STYLES
def test_linear_function_without_bias(function: Any) -> None:
    expected = expected_gradients(X, W, None, TARGET)[:2]
    without = loss(function)
    close(ft.grad(without, (0, 1))(X, W, None), expected)
    close(ft.jit(ft.grad(lambda x, w: without(x, w, None), (0, 1)))(X, W), expected)
    xs = np.stack([X, X])
    found = ft.vmap(ft.grad(lambda x, w: without(x, w, None), (0, 1)), in_axes=(0, None))(xs, W)
    close([g[1] for g in found], expected)


@STYLES
def test_linear_function_in_hessian(function: Any) -> None:
    found = ft.hessian(lambda w: loss(function)(X, w, B))(W)
    expected = np.einsum("ab,ni,nj->aibj", np.eye(2), 2 * X, X)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@STYLES
def test_linear_function_in_jvp(function: Any) -> None:
    w_dot = RNG.normal(size=W.shape)
    _, found = ft.jvp(lambda w: loss(function)(X, w, B), (W,), (w_dot,))
    np.testing.assert_allclose(
        found, np.sum(expected_gradients(X, W, B, TARGET)[1] * w_dot), rtol=1e-12
    )


# -- the user's backward is what counts ------------------------------------------------------------


class Tenfold(torch.autograd.Function):
    """The identity, whose backward multiplies by ten."""

    @staticmethod
    def forward(ctx, x):
        return x * 1.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 10.0


@pytest.mark.parametrize(
    "transform",
    [
        ft.grad,
        lambda f: ft.jit(ft.grad(f)),
        lambda f: ft.grad(ft.jit(f)),
        lambda f: ft.grad(ft.checkpoint(f)),
        lambda f: lambda x: ft.vmap(ft.grad(f))(x[None])[0],
        lambda f: lambda x: ft.jvp(f, (x,), (np.ones(()),))[1],
    ],
    ids=["grad", "jit-grad", "grad-jit", "checkpoint", "vmap", "jvp"],
)
def test_backward_of_the_user_is_used(transform: Any) -> None:
    assert transform(lambda x: Tenfold.apply(x) * 3.0)(np.float64(2.0)) == 30.0


def test_attribute_of_ctx_is_a_residual() -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.square = x * x
            return ctx.square * x

        @staticmethod
        def backward(ctx, grad):
            return 3.0 * ctx.square * grad

    f = Cube.apply
    assert ft.grad(f)(2.0) == 12.0
    assert (
        ft.grad(ft.grad(f))(2.0) == 12.0
    )  # unlike PyTorch's, where an intermediate is a constant of the second order
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(np.array([1.0, 2.0])), [3.0, 12.0])


def test_arguments_that_are_not_traced() -> None:
    seen = []

    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, power, how="up", constant=None):
            seen.append(ctx.needs_input_grad)
            ctx.save_for_backward(x, factor, constant)
            ctx.power = power
            return x**power * factor + constant

        @staticmethod
        def backward(ctx, grad):
            x, factor, _ = ctx.saved_tensors
            return grad * factor * ctx.power * x ** (ctx.power - 1), None, None, None, None

    constant = torch.tensor([1.0, 2.0], dtype=torch.float64)
    x, factor = np.array([3.0, 4.0]), np.array([5.0, 6.0])
    found = ft.grad(lambda x: np.sum(Scale.apply(x, factor, 2, "down", constant)))(x)
    np.testing.assert_allclose(found, 2 * x * factor)
    assert seen == [(True, False, False, False, False)]
    both = ft.grad(
        lambda x, factor: np.sum(Scale.apply(x, factor, 2, constant=constant, how="down")), (0, 1)
    )
    close(both(x, factor), (2 * x * factor, np.zeros(2)))  # a gradient that is None is zero
    assert seen[1:] == [(True, True, False, False, False)]


def test_integers_need_no_gradient() -> None:
    seen = []

    class Shift(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, n):
            seen.append(ctx.needs_input_grad)
            return x * n

        @staticmethod
        def backward(ctx, grad):
            return grad * 7.0, None

    n = np.array([1, 2])
    found = ft.vmap(ft.grad(lambda x, n: Shift.apply(x, n)))(np.array([1.0, 2.0]), n)
    np.testing.assert_array_equal(found, [7.0, 7.0])
    assert seen == [(True, False)]


def test_several_outputs() -> None:
    class Parts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            count = x.detach() * 0.0
            ctx.mark_non_differentiable(count)
            return x * 2.0, x > 1.5, count, "text", None, x * 3.0

        @staticmethod
        def backward(ctx, a, positive, count, text, nothing, b):
            assert text is None and nothing is None
            assert positive.dtype is torch.bool and positive.shape == (2,)
            return a * 2.0 + b * 3.0 + count

    def f(x: Any) -> Any:
        a, positive, count, text, nothing, b = Parts.apply(x)
        assert text == "text" and nothing is None and positive.dtype == bool
        return np.sum(a * 10.0 + b * 100.0 + count * 1000.0)

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(ft.grad(f)(x), [320.0, 320.0])
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(np.stack([x, x])), np.full((2, 2), 320.0))


def test_one_function_calls_another() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            assert isinstance(x, torch.Tensor)
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2.0 * x * grad

    class Fourth(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            square = Square.apply(x)
            assert isinstance(square, torch.Tensor)
            return Square.apply(square)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 4.0 * Square.apply(x) * x * grad

    orders = [Fourth.apply]
    for _ in range(3):
        orders.append(ft.grad(orders[-1]))
    assert [f(2.0) for f in orders[1:]] == [32.0, 48.0, 48.0]


def test_backward_that_applies_its_own_function() -> None:
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x.exp()

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return Exp.apply(x) * grad

    f = Exp.apply
    for _ in range(4):
        np.testing.assert_allclose(f(np.float64(0.5)), np.exp(0.5))
        f = ft.grad(f)


@STYLES
def test_plain_arrays_give_plain_arrays(function: Any) -> None:
    found = function.apply(X, W, B)
    assert type(found) is np.ndarray
    np.testing.assert_allclose(found, X @ W.T + B)


def test_once_differentiable_backward_is_staged_as_it_is() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return 2.0 * x * grad

    assert ft.grad(Square.apply)(3.0) == 6.0


def test_gradients_are_fitted_to_arguments() -> None:
    class Fit(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x.sum() + y.sum()

        @staticmethod
        def backward(ctx, grad):
            return torch.ones(2, 3, dtype=torch.float64) * grad, torch.ones(3, dtype=torch.float32)

    x = np.array([1.0, 2.0, 3.0])
    a, b = ft.grad(Fit.apply, (0, 1))(x, x)
    np.testing.assert_array_equal(a, [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(b, [1.0, 1.0, 1.0])
    assert b.dtype == np.float64


# -- control flow and in-place writes --------------------------------------------------------------


class Sided(torch.autograd.Function):
    """A Python ``if`` on the value: twice what is positive, minus what is not."""

    @staticmethod
    def forward(ctx, x):
        ctx.factor = 2.0 if x > 0 else -1.0
        return x * ctx.factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor


def test_forward_may_read_concrete_values_under_grad() -> None:
    assert ft.grad(Sided.apply)(3.0) == 2.0
    assert ft.grad(Sided.apply)(-3.0) == -1.0


@pytest.mark.parametrize("transform", [ft.jit, torch.func.vmap], ids=["jit", "vmap"])
def test_forward_that_concretizes_abstract_values_raises(transform: Any) -> None:
    with pytest.raises(ConcretizationError):
        transform(Sided.apply)(np.array([3.0]) if transform is ft.jit else torch.tensor([3.0]))


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2.0)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0


def test_dirty_argument_is_overwritten() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        z = Double.apply(y)
        assert z is y
        return np.sum(y * y)

    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(ft.grad(f)(x), 8 * x)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(np.stack([x, x]))[1], 8 * x)
    np.testing.assert_array_equal(x, [1.0, 2.0])


def test_overwrite_that_is_not_declared_is_refused() -> None:
    class Undeclared(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2.0)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2.0

    with pytest.raises(ArgumentError, match="overwrites argument 0"):
        ft.grad(lambda x: Undeclared.apply(x * 1.0))(3.0)


# -- errors ----------------------------------------------------------------------------------------


def test_missing_backward_is_noticed_by_differentiation_only() -> None:
    class Forward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2.0

    assert ft.jit(Forward.apply)(3.0) == 6.0
    with pytest.raises(NotImplementedError, match="must implement either the backward or vjp"):
        ft.grad(Forward.apply)(3.0)


def test_wrong_gradients_are_named_as_in_eager_mode() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, kind):
            ctx.kind = kind
            return x.sum()

        @staticmethod
        def backward(ctx, grad):
            return {
                "shape": (torch.ones(4), None),
                "count": grad,
                "type": (1.0, None),
                "number": (grad, grad),
            }[ctx.kind]

    for kind, message in {
        "shape": r"WrongBackward returned an invalid gradient at index 0 - got \[4\] but expected shape compatible",
        "count": r"WrongBackward returned an incorrect number of gradients \(expected 2, got 1\)",
        "type": r"expected Variable or None \(got float\)",
        "number": r"WrongBackward returned a gradient different than None at position 2",
    }.items():
        with pytest.raises(RuntimeError, match=message):
            ft.grad(Wrong.apply)(np.ones(3), kind)


class OwnError(Exception):
    pass


def test_exceptions_keep_their_type_and_leave_nothing_behind() -> None:
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, where):
            ctx.where = where
            if where == "forward":
                raise OwnError(where)
            return x * 2.0

        @staticmethod
        def backward(ctx, grad):
            if ctx.where == "backward":
                raise OwnError(ctx.where)
            return grad * 2.0, None

    x = np.ones(200_000)  # large enough to be locked rather than copied
    for where in ("forward", "backward"):
        with pytest.raises(OwnError, match=where):
            ft.grad(lambda x: np.sum(Raises.apply(x, where)))(x)
        assert x.flags.writeable and torch.is_grad_enabled()
        leaf = torch.tensor([1.0], requires_grad=True)
        with pytest.raises(OwnError, match=where):
            Raises.apply(leaf, where).sum().backward()
        assert torch.is_grad_enabled() and leaf.grad is None
    np.testing.assert_array_equal(
        ft.grad(lambda x: np.sum(Raises.apply(x, "nowhere")))(x), np.full(200_000, 2.0)
    )


def test_gradient_of_a_captured_value_is_not_lost_in_silence() -> None:
    def f(x: Any, w: Any) -> Any:
        class Closes(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * w

            @staticmethod
            def backward(ctx, grad):
                return grad * w

        return Closes.apply(x)

    assert ft.grad(f)(3.0, 5.0) == 5.0
    with pytest.raises(NotDifferentiableError, match="closes over"):
        ft.grad(f, argnums=(0, 1))(3.0, 5.0)


# -- lifetimes -------------------------------------------------------------------------------------


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Keeps(torch.autograd.Function):
    """Saves its argument and its result."""

    @staticmethod
    def forward(ctx, x):
        out = x * 2.0
        ctx.save_for_backward(x, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        x, out = ctx.saved_tensors
        return grad * out / x


@pytest.mark.usefixtures("without_collector")
def test_graph_is_freed_with_its_last_tensor() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    out = Keeps.apply(x)
    node, output = weakref.ref(out.grad_fn), weakref.ref(out)
    total = out.sum()
    del out
    assert output() is None and node() is not None
    total.backward()
    assert node() is not None
    del total
    assert node() is None


@pytest.mark.usefixtures("without_collector")
def test_nothing_outlives_a_traced_application() -> None:
    contexts = []

    class Notes(Keeps):
        @staticmethod
        def forward(ctx, x):
            contexts.append(weakref.ref(ctx))
            return Keeps.forward(ctx, x)

    ft.grad(lambda x: np.sum(Notes.apply(x)))(np.array([1.0, 2.0]))
    assert contexts and contexts[0]() is None


@pytest.mark.usefixtures("without_collector")
def test_a_failing_forward_leaves_no_node() -> None:
    nodes = []

    class Fails(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            nodes.append(weakref.ref(ctx))
            ctx.save_for_backward(3)
            return x * 2.0

        @staticmethod
        def backward(ctx, grad):
            return grad

    x = torch.tensor([1.0], requires_grad=True)
    with pytest.raises(
        TypeError, match="save_for_backward can only save variables, but argument 0 is of type int"
    ):
        Fails.apply(x)
    assert nodes[0]() is None


class SquareTimesI(torch.autograd.Function):
    """``z * z * 1j``, with PyTorch's gradient, which is the conjugate of the derivative's."""

    @staticmethod
    def forward(ctx: Any, z: Any) -> Any:
        ctx.save_for_backward(z.abs() ** 2 / z)  # the conjugate
        return z * z * 1j

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        (conjugate,) = ctx.saved_tensors
        return gradient * conjugate * -2j


def test_complex_gradients_are_conjugates_of_cotangents() -> None:
    z, cotangent = np.array([1 + 2j, 3 - 1j]), np.array([1 - 1j, 2 + 1j])
    (found,) = ft.vjp(SquareTimesI.apply, z)[1](cotangent)
    (expected,) = ft.vjp(lambda z: z * z * 1j, z)[1](cotangent)
    np.testing.assert_allclose(found, expected)
    leaf = torch.tensor(z, requires_grad=True)
    (gradient,) = torch.autograd.grad(
        SquareTimesI.apply(leaf), leaf, torch.tensor(np.conj(cotangent))
    )
    np.testing.assert_allclose(gradient.numpy(), np.conj(expected))
