"""Captured values (arrays, globals, closures, defaults, attributes): a call reads the current ones.

Every kind of function that is recorded and cached (rules, bodies, Functions of the shim) reads a
number ``s`` which changes between calls, and within them, and is differentiated one to three times.
All compute ``s * x ** 4``; the rules say so in their own way, and call the function that they are
the rules of.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import ArgumentError, CapturedArrayError, NotDifferentiableError

Read = Callable[[], Any]
X = 1.3
ORDERS = (1, 2, 3)


def derivative(s: float, order: int) -> float:
    return s * float(np.prod([4, 3, 2, 1][:order])) * X ** (4 - order)


def nth(f: Callable[..., Any], order: int) -> Callable[..., Any]:
    for _ in range(order):
        f = ft.grad(f)
    return f


# -- what is read, and how it changes --------------------------------------------------------------


def array(shape: tuple[int, ...]) -> tuple[Read, Callable[[float], None]]:
    held = np.ones(shape)
    return (lambda: np.max(held)), (lambda s: held.__setitem__(..., s))


def number() -> tuple[Read, Callable[[float], None]]:
    held = np.array(1.0)
    return (lambda: held), (lambda s: held.__setitem__(..., s))


def cell() -> tuple[Read, Callable[[float], None]]:
    held = 1.0

    def change(s: float) -> None:
        nonlocal held
        held = s

    return (lambda: held), change


def cell_with_arrays() -> tuple[Read, Callable[[float], None]]:
    held = np.ones(2)

    def change(s: float) -> None:
        nonlocal held
        held = np.full(2, s)

    return (lambda: held[1]), change


def global_variable() -> tuple[Read, Callable[[float], None]]:
    module = types.ModuleType("surroundings")
    exec("s = 1.0\nread = lambda: s", module.__dict__)
    return module.read, (lambda s: setattr(module, "s", s))


def default() -> tuple[Read, Callable[[float], None]]:
    def read(s: Any = 1.0) -> Any:
        return s

    return read, (lambda s: setattr(read, "__defaults__", (s,)))


def attribute() -> tuple[Read, Callable[[float], None]]:
    thing = types.SimpleNamespace(s=1.0)
    return (lambda: thing.s), (lambda s: setattr(thing, "s", s))


def entry() -> tuple[Read, Callable[[float], None]]:
    table = {"s": np.array([1.0])}
    return (lambda: table["s"][0]), (lambda s: table["s"].__setitem__(0, s))


STATES: dict[str, Callable[[], tuple[Read, Callable[[float], None]]]] = {
    "number": number, "small array": lambda: array((3,)), "large array": lambda: array((60, 60)),
    "cell": cell,
    "cell with arrays": cell_with_arrays, "global": global_variable, "default": default,
    "attribute": attribute,
    "entry": entry,
}  # fmt: skip


# -- what reads it ---------------------------------------------------------------------------------


def custom_vjp(read: Read, wrap: Callable[[Any], Any] = lambda g: g) -> Any:
    @ft.custom_vjp
    def g(x: Any) -> Any:
        return read() * x**4

    g.defvjp(lambda x: (wrap(g)(x), x), lambda x, ct: (ct * (3 * wrap(g)(x) + read() * x**4) / x,))
    return g


def custom_jvp(read: Read, wrap: Callable[[Any], Any] = lambda g: g) -> Any:
    @ft.custom_jvp
    def g(x: Any) -> Any:
        return read() * x**4

    g.defjvp(lambda p, t: (wrap(g)(p[0]), t[0] * (3 * wrap(g)(p[0]) + read() * p[0] ** 4) / p[0]))
    return g


def mutual(read: Read) -> Any:
    """Two functions whose rules call each other."""

    @ft.custom_vjp
    def g(x: Any) -> Any:
        return read() * x**4

    @ft.custom_jvp
    def h(x: Any) -> Any:
        return read() * x**3

    g.defvjp(lambda x: (h(x) * x, x), lambda x, ct: (ct * (2 * h(x) + read() * x**3 + g(x) / x),))
    h.defjvp(lambda p, t: (h(p[0]), t[0] * (g(p[0]) / p[0] + read() * p[0] ** 3 + h(p[0])) / p[0]))
    return g


def asking(read: Read) -> Any:
    """A forward rule that needs concrete values, which first-order differentiation provides."""

    @ft.custom_vjp
    def g(x: Any) -> Any:
        return read() * x**4

    def forward(x: Any) -> Any:
        np.linalg.solve(np.eye(2) * x, np.ones(2))
        return g(x), x

    g.defvjp(forward, lambda x, ct: (ct * (3 * g(x) + read() * x**4) / x,))
    return g


def scanned(read: Read) -> Any:
    return lambda x: ft.scan(lambda c, _: (c * x * np.sqrt(read()), None), x**2, None, length=2)[0]


def chosen(read: Read) -> Any:
    return lambda x: ft.cond(x > 0, lambda x: read() * x**4, lambda x: -x, x)


def function(read: Read, *, nested: bool, pushed: bool = False, mapped: bool = False) -> Any:
    def of(x: Any) -> Any:
        return torch.as_tensor(np.asarray(read())) * x**4

    class G(torch.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return of(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            (x,) = ctx.saved_tensors
            return grad * (3 * (G.apply(x) if nested else of(x)) + of(x)) / x

        if pushed:

            @staticmethod
            def jvp(ctx: Any, tangent: Any) -> Any:
                (x,) = ctx.saved_tensors
                return tangent * 4 * of(x) / x

        if mapped:

            @staticmethod
            def vmap(info: Any, in_dims: Any, x: Any) -> Any:
                return of(x), 0

    return G.apply


KINDS: dict[str, Callable[[Read], Any]] = {
    "custom_vjp": custom_vjp,
    "custom_vjp in checkpoint": lambda read: custom_vjp(read, ft.checkpoint),
    "custom_vjp in vmap": lambda read: custom_vjp(
        read, lambda g: lambda x: ft.vmap(g)(np.stack([x, x]))[0]
    ),
    "custom_jvp": custom_jvp,
    "custom_jvp in checkpoint": lambda read: custom_jvp(read, ft.checkpoint),
    "checkpoint of custom_vjp": lambda read: ft.checkpoint(custom_vjp(read)),
    "vmap of custom_jvp": lambda read: lambda x: ft.vmap(custom_jvp(read))(np.stack([x]))[0],
    "mutual": mutual,
    "asking": asking,
    "checkpoint": lambda read: ft.checkpoint(lambda x: read() * x**4),
    "scan": scanned,
    "cond": chosen,
    "vmap": lambda read: lambda x: np.sum(ft.vmap(lambda x: read() * x**4)(np.stack([x, x]))) / 2,
    "jit made at the call": lambda read: lambda x: ft.jit(lambda x: read() * x**4)(x),
    "Function": lambda read: function(read, nested=False),
    "Function, nested": lambda read: function(read, nested=True),
    "Function with jvp": lambda read: function(read, nested=False, pushed=True),
    "Function with vmap": lambda read: (
        lambda x: ft.vmap(function(read, nested=False, mapped=True))(np.stack([x]))[0]
    ),
}


@pytest.mark.sampled(24)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_between_calls_takes_effect(kind: str, state: str) -> None:
    read, change = STATES[state]()
    g = KINDS[kind](read)
    derivatives = {order: nth(g, order) for order in ORDERS}
    for s in (2.0, 3.0, 2.0):
        change(s)
        for order in ORDERS:
            np.testing.assert_allclose(derivatives[order](X), derivative(s, order), rtol=1e-12)
            if kind != "cond":  # which derives a value that is known
                np.testing.assert_allclose(
                    ft.jit(nth(g, order))(X), derivative(s, order), rtol=1e-12
                )
        pushed = ft.jvp(derivatives[1], (X,), (1.0,))[1]
        np.testing.assert_allclose(pushed, derivative(s, 2), rtol=1e-12)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("kind", [k for k in KINDS if "Function" not in k])
def test_a_change_within_a_call_takes_effect(kind: str, state: str) -> None:
    read, change = STATES[state]()
    g = KINDS[kind](read)

    def f(x: Any) -> Any:
        change(2.0)
        first = g(x)
        change(5.0)
        second = g(x)
        change(2.0)
        return first + 10 * second

    for _ in range(3):
        for order in ORDERS:
            np.testing.assert_allclose(nth(f, order)(X), derivative(52.0, order), rtol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "kind", ["custom_vjp", "custom_vjp in checkpoint", "custom_jvp", "mutual", "checkpoint"]
)
def test_pullbacks_and_programs_keep_captured_values(kind: str) -> None:
    read, change = number()
    g = KINDS[kind](read)
    change(2.0)
    _, pull = ft.vjp(ft.grad(g), X)
    _, push = ft.linearize(ft.grad(g), X)
    program = ft.trace(g)(X)
    jitted: Any = ft.jit(g)
    jitted(np.float64(X))
    change(7.0)
    np.testing.assert_allclose(pull(1.0)[0], derivative(2.0, 2), rtol=1e-12)
    np.testing.assert_allclose(push(1.0), derivative(2.0, 2), rtol=1e-12)
    for order in ORDERS:
        np.testing.assert_allclose(
            nth(lambda x: ft.evaluate(program, x), order)(X), derivative(2.0, order), rtol=1e-12
        )
        np.testing.assert_allclose(
            nth(jitted, order)(X), derivative(7.0, order), rtol=1e-12
        )  # is not kept, but made anew
        np.testing.assert_allclose(nth(g, order)(X), derivative(7.0, order), rtol=1e-12)


def test_functions_made_at_each_call_are_found_in_the_cache() -> None:
    from functrace.executor.cache import CACHE

    held = np.array(2.0)
    made: dict[str, Callable[[], Any]] = {
        "vjp": lambda: custom_vjp(lambda: held),
        "jvp": lambda: custom_jvp(lambda: held),
        "mutual": lambda: mutual(lambda: held),
    }
    for make in made.values():
        for _ in range(2):
            nth(lambda x, make=make: make()(x), 2)(X)
        count = len(CACHE)
        for _ in range(3):
            nth(lambda x, make=make: make()(x), 2)(X)
        assert len(CACHE) == count


# -- rules that call their function in other ways --------------------------------------------------


def recurrent(tables: dict[int, Any]) -> Any:
    """A rule that calls its function with another static argument: the n-th derivative of
    ``tables[0] * exp(2 x)``.
    """

    @ft.custom_vjp
    def whole(n: int, x: Any) -> Any:
        return tables[n] * 2.0**n * np.exp(2 * x)

    f = ft.custom_vjp(whole.f, nondiff_argnums=(0,))
    f.defvjp(lambda n, x: (f(n, x), x), lambda n, x, ct: (ct * f(n + 1, x) * tables[n],))
    return f


def recurrent_derivative(tables: dict[int, Any], order: int) -> float:
    product = float(np.prod([tables[k] for k in range(order)]))
    return product * tables[order] * 2.0**order * np.exp(2 * X)


@pytest.mark.full
def test_other_static_arguments() -> None:
    tables = {n: np.array(n + 1.0) for n in range(8)}
    f = recurrent(tables)
    for k in (1.0, 2.0, 1.0):
        for place in (0, 1, 2, 3):
            tables[place][...] = k + place / 3
            for order in ORDERS:
                expected = recurrent_derivative({n: float(t) for n, t in tables.items()}, order)
                for _ in range(2):
                    np.testing.assert_allclose(
                        nth(lambda x: f(0, x), order)(X), expected, rtol=1e-12
                    )


def test_other_static_arguments_after_a_change() -> None:
    tables = {n: np.array(n + 1.0) for n in range(8)}
    f = recurrent(tables)

    def g(x: Any) -> Any:
        tables[0][...] = 1.0
        y = f(0, x)
        tables[0][...] = 2.0
        return y

    np.testing.assert_allclose(ft.grad(g)(X), recurrent_derivative({0: 1.0, 1: 2.0}, 1), rtol=1e-12)
    with pytest.raises(CapturedArrayError, match="a value that it reads has changed"):
        nth(g, 2)(X)


def test_closes_over_a_traced_value() -> None:
    def f(w: Any) -> Any:
        return nth(custom_vjp(lambda: w), 2)(X) + nth(custom_jvp(lambda: w), 3)(X)

    weights = np.array([2.0, 3.0])
    np.testing.assert_allclose(
        ft.vmap(f)(weights), [derivative(s, 2) + derivative(s, 3) for s in weights], rtol=1e-12
    )


def test_the_rule_differentiates_its_own_function() -> None:
    g = ft.custom_vjp(lambda x: x**2)
    g.defvjp(lambda x: (g(x), x), lambda x, ct: (ct * ft.grad(g)(x),))
    with pytest.raises(ArgumentError, match="differentiates <lambda> itself"):
        ft.grad(g)(X)


@pytest.mark.parametrize("order", ORDERS)
def test_a_jvp_rule_applies_its_own_function_to_a_tangent(order: int) -> None:
    for wrap in (lambda g: g, ft.checkpoint, ft.jit):
        g = ft.custom_jvp(lambda x: 3.0 * x)
        g.defjvp(lambda p, t, g=g, wrap=wrap: (g(p[0]), wrap(g)(t[0])))
        f: Any = lambda x, g=g: g(x) * x**3 / 3.0
        pushed = f
        for _ in range(order):
            pushed = (lambda f: lambda x: ft.jvp(f, (x,), (1.0,))[1])(pushed)
        for made in (nth(f, order), pushed, ft.jit(nth(f, order))):
            np.testing.assert_allclose(made(X), derivative(1.0, order), rtol=1e-12)
        np.testing.assert_allclose(
            ft.vmap(nth(f, order))(np.full(2, X)), np.full(2, derivative(1.0, order)), rtol=1e-12
        )


def test_a_function_that_is_not_linear_is_applied_to_a_tangent() -> None:
    g = ft.custom_jvp(np.sin)
    g.defjvp(lambda p, t: (g(p[0]), g(t[0])))
    with pytest.raises(NotDifferentiableError, match="not linear in its tangents"):
        ft.grad(g)(X)
