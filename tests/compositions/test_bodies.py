"""Bodies: whatever runs while one is recorded belongs to it, what it writes and returns means what
it means without it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import (
    CapturedArrayError,
    FunctraceError,
    NotDifferentiableError,
    UnsupportedFunctionError,
)
from tests.compositions.functions import X
from tests.oracles import assert_same

Y = np.array([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])


def _custom_vjp(body: Callable[[], Any]) -> Any:
    f = ft.custom_vjp(lambda x: body())
    f.defvjp(lambda x: (body(), None), lambda _, ct: (0.0 * x_like(ct),))
    return f


def x_like(ct: Any) -> Any:
    """A zero cotangent for the unused argument that `in_custom_vjp` passes."""
    return (
        np.zeros((), like=ct)
        if isinstance(ct, ft.Array) and not isinstance(ct, np.ndarray)
        else 0.0
    )


def in_checkpoint(body: Callable[[], Any], x: Any) -> Any:
    return ft.checkpoint(body)()


def in_checkpoint_with_operand(body: Callable[[], Any], x: Any) -> Any:
    return ft.checkpoint(lambda unused: body())(x)


def in_jit(body: Callable[[], Any], x: Any) -> Any:
    return ft.jit(lambda: body())()


def in_scan(body: Callable[[], Any], x: Any) -> Any:
    return ft.scan(lambda c, _: (c, body()), 0.0, None, 2)[1]


def in_cond(body: Callable[[], Any], x: Any) -> Any:
    return ft.cond(np.sum(x) > 100.0, lambda: body(), lambda: body())


def in_custom_vjp(body: Callable[[], Any], x: Any) -> Any:
    return _custom_vjp(body)(x.ravel()[0])


def in_custom_jvp(body: Callable[[], Any], x: Any) -> Any:
    f = ft.custom_jvp(lambda x: body())
    f.defjvp(lambda primals, tangents: (body(), body() * 0.0))
    return f(x.ravel()[0])


def in_nested_bodies(body: Callable[[], Any], x: Any) -> Any:
    return ft.checkpoint(lambda: ft.jit(lambda: ft.checkpoint(body)())())()


def in_grad_in_checkpoint(body: Callable[[], Any], x: Any) -> Any:
    """`grad` inside may hoist, but only as far as to the body around it."""
    return ft.checkpoint(lambda: ft.grad(lambda s: np.sum(body()) * s)(x[..., 0].sum()))()


def in_vmap_in_checkpoint(body: Callable[[], Any], x: Any) -> Any:
    return ft.checkpoint(lambda: ft.vmap(lambda s: s * np.sum(body()))(x))()


HOLDERS = [
    in_checkpoint, in_checkpoint_with_operand, in_jit, in_scan, in_cond, in_custom_vjp,
    in_custom_jvp, in_nested_bodies,
    in_grad_in_checkpoint, in_vmap_in_checkpoint,
]  # fmt: skip

OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "operator": lambda x: x * x,
    "operator with a number": lambda x: x * 2.0 + 1,
    "reflected": lambda x: 2.0 / x - np.ones(3),
    "unary": lambda x: -x,
    "power": lambda x: x**3,
    "ufunc": np.sin,
    "binary ufunc": lambda x: np.maximum(x, 0.5),
    "index": lambda x: x[1:] * 1.0,
    "number index": lambda x: x[0],
    "fancy index": lambda x: x[np.array([0, 0, 1])],
    "method": lambda x: x.cumsum(),
    "function": lambda x: np.concatenate([x, x]),
    "reduction": np.mean,
    "matmul": lambda x: x @ np.swapaxes(x, -1, -2),
    "where": lambda x: np.where(x > 0.0, x, 0.0),
    "linear algebra": lambda x: np.linalg.inv(x @ np.swapaxes(x, -1, -2) + np.eye(2)),
    "copy": lambda x: x.copy(),
    "writes into a copy": lambda x: _written(x.copy()),
    "writes into a view of a copy": lambda x: _written(x.copy().reshape(-1)[1:]),
    "writes into zeros": lambda x: _written(np.zeros_like(x)) + _written(np.zeros(x.shape, like=x)),
    "stop_gradient": lambda x: ft.stop_gradient(x) * 2.0,
    "asks": lambda x: x * 2.0 if ft.value(np.float64(1.0)) else x,
}  # fmt: skip


def _written(x: Any) -> Any:
    x[...] = 3.0
    x[..., 0] += 1.0
    return x * 1.0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("holder", HOLDERS)
def test_nothing_that_runs_in_a_body_escapes_from_it(holder: Any, operation: str) -> None:
    """Only the operation that holds the body (and what the predicate, or unstacking, needs) stands
    outside of it.
    """
    run = OPERATIONS[operation]
    program = ft.trace(lambda x: holder(lambda: run(x), x))(Y)
    allowed = {
        "call", "cond", "scan", "custom_vjp", "custom_jvp", "reduce_sum", "greater", "index",
        "reshape", "broadcast_to",
    }  # fmt: skip
    found = {equation.primitive.name for equation in program.equations}
    assert found <= allowed, program
    expected = [run(Y), run(Y)] if holder is in_scan else run(Y)
    if holder in (in_grad_in_checkpoint, in_vmap_in_checkpoint):
        return
    assert_same(ft.evaluate(program, Y), np.asarray(expected), rtol=1e-14)
    if holder not in (in_custom_vjp, in_custom_jvp):  # their rules know arguments only
        value, pullback = ft.vjp(lambda x: holder(lambda: run(x), x), Y)
        assert_same(value, np.asarray(expected), rtol=1e-14)
        plain, plain_pullback = ft.vjp(
            lambda x: np.stack([run(x), run(x)]) if holder is in_scan else run(x), Y
        )
        seed = np.cos(np.arange(np.size(plain))).reshape(np.shape(plain))
        assert_same(pullback(seed)[0], plain_pullback(seed)[0], rtol=1e-12, atol=1e-14)


def test_checkpoint_saves_only_captured_values() -> None:
    def deep(x: Any) -> Any:
        for _ in range(20):
            x = np.sin(x)
        return x

    kept = ft.saved_residuals(lambda x: np.sum(ft.checkpoint(lambda: deep(x))()))(np.ones(1000))
    assert kept.nbytes == 8000


def test_the_branch_not_taken_reaches_nothing_through_closures() -> None:
    def f(x: Any) -> Any:
        return ft.cond(x > 0.0, lambda: np.sqrt(x), lambda: 3.0 * x)

    found = ft.vmap(ft.grad(f))(np.array([4.0, -4.0]))
    assert_same(found, np.array([0.25, 3.0]))
    assert_same(
        ft.grad(lambda x: np.sum(ft.vmap(f)(x)))(np.array([4.0, -4.0])), np.array([0.25, 3.0])
    )


def test_backward_rules_compute_from_residuals_when_they_run() -> None:
    f = ft.custom_vjp(np.sin)
    f.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (np.cos(x) * ct,))
    forward, _ = ft.transforms.linearize_program(ft.trace(lambda x: f(x) * 2.0)(X))
    assert "cos" not in forward.as_python()  # backward is not run, forward
    assert_same(ft.grad(lambda x: np.sum(f(x)))(X), np.cos(X))


def test_threads_and_exceptions_leave_no_body_open() -> None:
    def boom(x: Any) -> Any:
        def body() -> Any:
            raise KeyError("boom")

        for holder in HOLDERS:
            if holder not in (in_custom_vjp, in_custom_jvp):
                with pytest.raises(KeyError):
                    holder(body, x)
        return np.sum(x * x)  # recorded here, not in what has failed

    assert_same(ft.grad(boom)(Y), 2.0 * Y)
    found = []

    def beside(x: Any) -> Any:
        """Another thread computes with the same value while a body is open here."""
        other: list[Any] = []

        def body() -> Any:
            thread = threading.Thread(target=lambda: other.append(x * 3.0))
            thread.start()
            thread.join()
            return x * 2.0

        return np.sum(ft.checkpoint(body)() + other[0])

    found.append(ft.grad(beside)(X))
    assert_same(found[0], np.full(3, 5.0))


def test_numbers_of_jit_are_numbers_in_bodies_too() -> None:
    def f(n: Any, x: Any) -> Any:
        inside = ft.checkpoint(lambda v: v * (n + 1) ** 2)(x)
        assert ft.cond(x[0] > 100.0, lambda: (n * 2.0) * x, lambda: x * n).dtype == np.float32
        return inside * (n + 1)

    x = X.astype(np.float32)
    for n in (2.0, 3.0):
        assert_same(ft.jit(f)(n, x), x * np.float32((n + 1) ** 2) * np.float32(n + 1))


# -- writes, and memory that is shared -------------------------------------------------------------

BODIES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "a view": lambda x: x[1:],
    "a view of a view": lambda x: x.T[::-1][:1],
    "reshaped": lambda x: x.reshape(-1),
    "twice": lambda x: (x, x[:1]),
    "new": lambda x: x * 2.0,
    "new, with a view of it": lambda x: (lambda y: (y, y[0]))(x * 2.0),
    "two views of one": lambda x: (lambda y: (y[0], y[:1]))(x * 2.0),
    "half and half": lambda x: (x[0], x[0] * 1.0),
}


def checkpointed(body: Any, x: Any) -> Any:
    return ft.checkpoint(body)(x)


def checkpointed_closure(body: Any, x: Any) -> Any:
    return ft.checkpoint(lambda: body(x))()


def chosen(body: Any, x: Any) -> Any:
    return ft.cond(np.sum(x) < 1e9, body, body, x)


def customized(body: Any, x: Any) -> Any:
    f = ft.custom_jvp(body)

    def rule(primals: Any, tangents: Any) -> Any:
        return ft.jvp(body, primals, tangents)

    f.defjvp(rule)
    return f(x)


def looped(body: Any, x: Any) -> Any:
    carry, _ = ft.scan(lambda c, _: (c, None), x, None, 1)
    return body(carry)


def first(result: Any) -> Any:
    return result[0] if isinstance(result, tuple) else result


def last(result: Any) -> Any:
    return result[-1] if isinstance(result, tuple) else result


def total(*parts: Any) -> Any:
    return sum(np.sum(np.sin(p) * k) for k, p in enumerate(parts, 1))


def write_into_result(run: Any, x: Any) -> Any:
    x = x * 1.0
    result = run(x)
    first(result)[...] = 5.0
    return total(x, first(result), last(result))


def write_into_last(run: Any, x: Any) -> Any:
    x = x * 1.0
    result = run(x)
    last(result)[...] *= 3.0
    return total(x, first(result), last(result))


def write_into_operand(run: Any, x: Any) -> Any:
    x = x * 1.0
    result = run(x)
    x[0] += 1.0
    return total(x, first(result), last(result))


def write_into_argument(run: Any, x: Any) -> Any:
    x = x * 1.0
    return total(run(x), x)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("write", [write_into_result, write_into_last, write_into_operand])
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("hold", [checkpointed, checkpointed_closure, chosen, customized, looped])
def test_results_that_share_memory_do_so_outside_or_raise(hold: Any, body: str, write: Any) -> None:
    f = BODIES[body]
    plain = lambda x: write(f, x)
    held = lambda x: write(lambda v: hold(f, v), x)
    for transform in (ft.grad, lambda g: ft.jit(ft.grad(g)), lambda g: ft.vmap(ft.grad(g))):
        batch = np.stack([Y, 2.0 * Y])
        try:
            expected = transform(plain)(batch)
        except (
            UnsupportedFunctionError
        ) as error:  # a view or a copy, where the memory layout is not known
            assert body == "reshaped" and "memory layout" in str(error)
            expected = None
        try:
            found = transform(held)(batch)
        except CapturedArrayError:
            assert hold in (chosen, customized, looped), (
                "checkpoint returns what shares memory as it is"
            )
            continue
        except UnsupportedFunctionError as error:
            assert body == "reshaped" and "memory layout" in str(error)
            continue
        assert expected is not None
        assert_same(found, expected, rtol=1e-12)


@pytest.mark.parametrize("hold", [checkpointed, checkpointed_closure, chosen, customized])
@pytest.mark.parametrize(
    "writing",
    [
        lambda a: (a.__setitem__(0, 1.0), a.sum())[1],
        lambda a: (a.T[0].__setitem__(0, 1.0), a.sum())[1],
        lambda a: np.multiply(a, 2.0, out=a).sum(),
        lambda a: (a.sort(), a.sum())[1],
        lambda a: (np.copyto(a, 0.5), a.sum())[1],
        lambda a: (np.add.at(a, 0, 2.0), a.sum())[1],
    ],
)
def test_writes_to_arguments_and_captures_raise(hold: Any, writing: Any) -> None:
    """In a body that is known to run, and on values that are known, they would mean something: then
    they do.
    """

    def plain(x: Any) -> Any:
        x = x * 1.0
        return writing(x) + np.sum(x**2)

    def held(x: Any) -> Any:
        x = x * 1.0
        return hold(writing, x) + np.sum(x**2)

    for transform in (ft.grad, lambda g: ft.jit(ft.grad(g)), lambda g: ft.vmap(ft.grad(g))):
        x = np.stack([Y, Y + 1.0])
        try:
            found = transform(held)(x)
        except CapturedArrayError as error:
            assert "copy" in str(error) and "test_bodies.py" in str(error)
        else:
            assert hold is chosen and transform is ft.grad, (
                "only cond, on values that are known, runs its branch as it is"
            )
            assert_same(found, transform(plain)(x))


def test_vmap_refuses_writes_into_arguments_and_outer_values() -> None:
    def into_argument(row: Any) -> Any:
        row[0] = 1.0
        return row

    with pytest.raises(CapturedArrayError, match="writes into its argument"):
        ft.grad(lambda x: np.sum(ft.vmap(into_argument)(x * 1.0)))(Y)
    kept = Y.copy()
    assert_same(ft.vmap(into_argument)(Y), np.concatenate([np.ones((2, 1)), Y[:, 1:]], axis=1))
    assert_same(Y, kept)  # the caller's arrays never change

    def f(x: Any) -> Any:
        seen = x * 1.0

        def row(v: Any) -> Any:
            seen[0, 0] = v[0]
            return v * 2.0

        return np.sum(ft.vmap(row)(x)) + np.sum(seen)

    with pytest.raises(CapturedArrayError, match="traced outside"):
        ft.grad(f)(Y)

    def own(row: Any) -> Any:
        row = row.copy()
        row[0] = 1.0
        return row

    assert_same(ft.vmap(own)(Y), np.concatenate([np.ones((2, 1)), Y[:, 1:]], axis=1))


def test_scan_refuses_writes_into_its_carry() -> None:
    def step(c: Any, x: Any) -> Any:
        c += x
        return c, None

    with pytest.raises(CapturedArrayError, match="writes into its argument"):
        ft.jit(lambda y: ft.scan(step, np.zeros(3), y))(Y)
    with pytest.raises(
        CapturedArrayError, match="captured array of scan of step is written in place"
    ):
        ft.scan(step, np.zeros(3), Y)
    assert_same(
        ft.scan(step, 0.0, X)[0], np.float64(X.sum())
    )  # a number without axes never changes


def test_checkpoint_of_plain_arrays_is_the_function_itself() -> None:
    x = X.copy()
    assert ft.checkpoint(lambda a: a)(x) is x
    ft.checkpoint(lambda a: a.__setitem__(0, 9.0) or a)(x)
    assert x[0] == 9.0
    assert ft.checkpoint(lambda: 2.0)() == 2.0
    single = ft.jvp(
        lambda v: v * ft.checkpoint(lambda a: 2.0)(v),
        (x.astype(np.float32),),
        (x.astype(np.float32),),
    )
    assert (
        single[0].dtype == single[1].dtype == np.float32
    )  # a Python number is weak when it comes back


# -- cond on known values, custom rules and closures -----------------------------------------------


def test_cond_on_concrete_values_runs_the_chosen_branch_only() -> None:
    def refuse(x: Any) -> Any:
        raise AssertionError("not taken")

    assert_same(ft.cond(True, np.sin, refuse, X), np.sin(X))
    assert_same(ft.cond(np.float64(0.0), refuse, np.sin, X), np.sin(X))
    f = lambda x: ft.cond(np.sum(x) > 100.0, refuse, lambda v: np.sum(v * v), x)
    assert_same(ft.grad(f)(X), 2.0 * X)
    assert_same(ft.hessian(f)(X), 2.0 * np.eye(3))
    assert_same(ft.jvp(f, (X,), (X,))[1], np.float64(2.0 * X @ X), rtol=1e-15)
    for transform in (ft.jit, ft.vmap, ft.trace):
        with pytest.raises(AssertionError, match="not taken"):
            transform(f)(Y)


def test_custom_rules_apply_if_only_a_capture_is_traced() -> None:
    """A rule knows arguments only: a derivative by something that the function closes over raises,
    however it is called.
    """

    def f(x: Any) -> Any:
        for kind in ("vjp", "jvp"):
            if kind == "vjp":
                g = ft.custom_vjp(lambda a: np.sum(a * x))
                g.defvjp(lambda a: (np.sum(a * x), None), lambda _, ct: (ct * np.ones(3),))
            else:
                g = ft.custom_jvp(lambda a: np.sum(a * x))
                g.defjvp(lambda p, t: (np.sum(p[0] * x), np.sum(t[0])))
            yield g(np.ones(3))

    for k in range(2):
        with pytest.raises(NotDifferentiableError, match="closes over a differentiated value"):
            ft.grad(lambda x: list(f(x))[k])(X)
        assert_same(ft.jit(lambda x: list(f(x))[k])(X), X.sum(), rtol=1e-15)
        assert_same(ft.vmap(lambda x: list(f(x))[k])(Y), Y.sum(1), rtol=1e-15)
    plain = ft.custom_jvp(lambda a: a * 2.0)
    assert_same(ft.grad(lambda x: np.sum(x * plain(np.ones(3))))(X), np.full(3, 2.0))


def test_functions_ported_from_pytorch_are_bodies_too() -> None:
    def f(x: Any) -> Any:
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, t: Any) -> Any:
                ctx.save_for_backward(t)
                return t * 2.0

            @staticmethod
            def backward(ctx: Any, grad: Any) -> Any:
                (t,) = ctx.saved_tensors
                return grad * 2.0 * torch.cos(t) ** 0

        return np.sum(Double.apply(x))

    forward, _ = ft.transforms.linearize_program(ft.trace(f)(X))
    assert "cos" not in forward.as_python()  # backward is not run
    assert_same(ft.grad(f)(X), np.full(3, 2.0))


def test_names_and_constants_share_memory_as_they_do_on_plain_arrays() -> None:
    def through_a_name(x: Any) -> Any:
        x = x * 1.0
        ft.checkpoint_name(x, "a")[0] = 5.0
        return np.sum(x)

    def through_a_constant(x: Any) -> Any:
        x = x * 1.0
        ft.stop_gradient(x)[0] = 5.0
        return np.sum(x)

    for f in (through_a_name, through_a_constant):
        assert_same(ft.value_and_grad(f)(X)[0], f(X))
        assert_same(ft.jit(f)(X), f(X))


def test_errors_in_bodies_leave_no_state_behind() -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        try:
            ft.checkpoint(lambda a: a.__setitem__(0, 1.0))(y)
        except FunctraceError:
            y[1] = 5.0  # an ordinary write, outside of any body
        return np.sum(y * y)

    assert_same(ft.grad(f)(X), 2.0 * X * np.array([1.0, 0.0, 1.0]))


@pytest.mark.parametrize("size", [4, 5000])
def test_a_body_that_writes_into_a_plain_operand_through_its_closure_raises(size: int) -> None:
    def in_scan(y: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            y[0] *= 2.0
            return c + row, c

        return ft.jit(lambda: ft.scan(step, np.zeros(2), y))()

    def in_cond(y: Any) -> Any:
        def taken(y_inside: Any) -> Any:
            y[0] *= 2.0
            return np.sum(y_inside)

        return ft.vmap(lambda p: ft.cond(p > 0, taken, np.sum, y))(np.ones(2))

    def in_jit(y: Any) -> Any:
        def f(y_inside: Any) -> Any:
            y[0] *= 2.0
            return np.sum(y_inside)

        return ft.jit(f)(y)

    for run in (in_scan, in_cond, in_jit):
        with pytest.raises(CapturedArrayError, match="recorded once"):
            run(np.ones((size, 2)))


def test_a_body_that_may_write_into_an_argument_raises() -> None:
    def body(p: Any, q: Any) -> Any:
        v = q.reshape(
            -1, q.shape[0]
        )  # a view or a copy, as the layout says, which is not known here
        v /= v
        return p * 1.0

    y = 2.0 + np.arange(12.0).reshape(4, 3)
    with pytest.raises(CapturedArrayError, match="writes into its argument"):
        ft.jit(lambda y: ft.checkpoint(body)(y.T, y.T))(y)
    with pytest.raises(CapturedArrayError, match="writes into its argument"):
        ft.trace(lambda y: ft.checkpoint(body)(y, y))(y)
