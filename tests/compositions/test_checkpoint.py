"""``checkpoint`` changes no value and no derivative, calls the function once, and replays only what
is needed.
"""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, LeakedTracerError
from functrace.passes import inline_calls
from tests.compositions.functions import BATCH, SCALAR, V, W, X, jacobian_by_differences, vector
from tests.oracles import assert_same
from tests.sampling import on_release

# -- the same values and derivatives, bit for bit --------------------------------------------------

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    **SCALAR,
    "vector": vector,
    "elementwise": lambda x: np.sin(x) * np.exp(-x * x),
}
functions = pytest.mark.parametrize("f", FUNCTIONS.values(), ids=FUNCTIONS)


def scanned(f: Any) -> Any:
    """A loop whose body calls ``f`` on a carry and a slice."""

    def body(carry: Any, x: Any) -> Any:
        y = f(carry + x)
        return np.tanh(carry * np.sum(y)), y

    return lambda xs: ft.scan(body, V, xs)


def total(f: Any) -> Any:
    """The sum of all that ``f`` returns: a scalar."""
    return lambda *args: sum(np.sum(np.sin(y)) for y in ft.tree.leaves(f(*args)))


def pulled(f: Any, x: Any) -> Any:
    y, pullback = ft.vjp(f, x)
    return y, [pullback(k * y) for k in (1.0, -2.0, 1.0)]


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f(X),
    "grad": lambda f: ft.value_and_grad(total(f))(X),
    "vjp": lambda f: pulled(f, X),
    "jvp": lambda f: ft.jvp(f, (X,), (V,)),
    "linearize": lambda f: ft.linearize(f, X)[1](V),
    "jacfwd": lambda f: ft.jacfwd(f)(X),
    "jacrev": lambda f: ft.jacrev(f)(X),
    "hessian": lambda f: ft.hessian(f)(X),
    "jacfwd of jacfwd": lambda f: ft.jacfwd(ft.jacfwd(f))(X),
    "jacrev of jacrev": lambda f: ft.jacrev(ft.jacrev(f))(X),
    "jacrev of jacfwd": lambda f: ft.jacrev(ft.jacfwd(f))(X),
    "grad of grad": lambda f: ft.grad(total(ft.grad(total(f))))(X),
    "third order": lambda f: ft.grad(total(ft.grad(total(ft.grad(total(f))))))(X),
    "vmap": lambda f: ft.vmap(f)(BATCH),
    "vmap of grad": lambda f: ft.vmap(ft.grad(total(f)))(BATCH),
    "grad of vmap": lambda f: ft.grad(total(ft.vmap(f)))(BATCH),
    "vmap of jvp": lambda f: ft.vmap(lambda x: ft.jvp(f, (x,), (V,)))(BATCH),
    "jvp of vmap": lambda f: ft.jvp(ft.vmap(f), (BATCH,), (BATCH[::-1],)),
    "vmap of hessian": lambda f: ft.vmap(ft.hessian(f))(BATCH),
    "hessian of vmap": lambda f: ft.hessian(total(ft.vmap(f)))(BATCH),
    "vmap of vmap of grad": lambda f: ft.vmap(ft.vmap(ft.grad(total(f))))(
        np.stack([BATCH, BATCH[::-1]])
    ),
    "jit": lambda f: ft.jit(f)(X),
    "jit of grad": lambda f: ft.jit(ft.grad(total(f)))(X),
    "grad of jit": lambda f: ft.grad(total(ft.jit(f)))(X),
    "jit of vmap of grad": lambda f: ft.jit(ft.vmap(ft.grad(total(f))))(BATCH),
    "scan": lambda f: scanned(f)(BATCH),
    "grad of scan": lambda f: ft.grad(total(scanned(f)))(BATCH),
    "hessian of scan": lambda f: ft.hessian(total(scanned(f)))(BATCH),
    "vmap of grad of scan": lambda f: ft.vmap(ft.grad(total(scanned(f))))(
        np.stack([BATCH, BATCH[::-1]])
    ),
    "jit of grad of scan": lambda f: ft.jit(ft.grad(total(scanned(f))))(BATCH),
    "grad of cond": lambda f: ft.grad(total(lambda x: ft.cond(x[0] > 0, f, lambda x: f(-x), x)))(X),
    "grad of cond under vmap": lambda f: ft.vmap(
        ft.grad(total(lambda x: ft.cond(x[0] > 0, f, lambda x: f(-x), x)))
    )(BATCH),
}
everywhere = pytest.mark.parametrize("transform", TRANSFORMS)


def assert_equal(found: Any, expected: Any, rtol: float = 0.0) -> None:
    found, structure = ft.tree.tree_flatten(found)
    expected, wanted = ft.tree.tree_flatten(expected)
    assert structure == wanted
    for a, b in zip(found, expected, strict=True):
        assert_same(a, b, rtol=rtol, atol=100 * rtol)


def assert_changes_nothing(transform: str, plain: Any, checkpointed: Any) -> None:
    apply = TRANSFORMS[transform]
    expected = apply(plain)
    for _ in range(2):  # interpreted, then compiled
        assert_equal(apply(checkpointed), expected)


@pytest.mark.sampled(16)
@pytest.mark.bits
@everywhere
@functions
def test_checkpoint_changes_nothing(transform: str, f: Any) -> None:
    assert_changes_nothing(transform, f, ft.checkpoint(f))


@pytest.mark.sampled(3)
@pytest.mark.bits
@everywhere
def test_nested_checkpoints_change_nothing(transform: str) -> None:
    def inner(x: Any) -> Any:
        return np.sin(W @ x) * x

    def nested(wrap: Any) -> Any:
        middle = wrap(lambda x: np.exp(-wrap(inner)(x) * x))
        return wrap(lambda x: wrap(inner)(middle(x)) + np.cos(x))

    assert_changes_nothing(transform, nested(lambda f: f), nested(ft.checkpoint))


@pytest.mark.sampled(2)
@pytest.mark.bits
@everywhere
def test_checkpoint_of_loop_and_of_choice_changes_nothing(transform: str) -> None:
    def f(x: Any) -> Any:
        carry, ys = ft.scan(lambda c, y: (np.sin(c) * y, c * y), x[1], x)
        return ft.cond(carry > 0, lambda: np.exp(carry * ys), lambda: np.cos(ys) * x)

    # (Without jit, `cond` runs the branch that is taken; both forms have the choice here.)
    assert_changes_nothing(transform, ft.jit(f), ft.checkpoint(f))


@pytest.mark.bits
@pytest.mark.parametrize("count", [1, 2])
def test_checkpoint_between_other_uses_of_its_operands_changes_nothing(count: int) -> None:
    # Sums of five cotangents: in another order, some of a thousand would differ in the last bit.
    f = lambda *xs: np.sin(xs[0]) * np.exp(xs[-1]) * xs[0] + xs[-1]
    around = lambda f: lambda x: np.sum(np.cos(x) + f(*[x] * count) * x - np.tanh(x))
    x = np.random.default_rng(0).normal(size=1000)
    assert_same(ft.grad(around(ft.checkpoint(f)))(x), ft.grad(around(f))(x))
    assert_same(ft.grad(around(ft.jit(f)))(x), ft.grad(around(f))(x))


# -- what it may be given --------------------------------------------------------------------------


class Point(NamedTuple):
    x: Any
    y: Any


class Layer:
    def __init__(self, scale: Any) -> None:
        self.scale = scale

    @ft.checkpoint
    def decorated(self, x: Any) -> Any:
        return np.sin(x * self.scale)

    def method(self, x: Any, *, power: int = 2) -> Any:
        return np.sin(x * self.scale) ** power


def test_closures_over_traced_values_are_differentiated() -> None:
    def f(x: Any, w: Any) -> Any:
        layer = ft.checkpoint(lambda h: np.tanh(h * w) * x)
        return np.sum(layer(layer(x)))

    plain = lambda x, w: np.sum(np.tanh((np.tanh(x * w) * x) * w) * x)
    assert_equal(ft.grad(f, (0, 1))(X, V), ft.grad(plain, (0, 1))(X, V))


def test_closure_over_values_of_two_levels() -> None:
    def f(x: Any) -> Any:
        return np.sum(
            ft.grad(lambda y: np.sum(ft.checkpoint(lambda z: np.sin(x * z) * y)(y)))(x * x)
        )

    def plain(x: Any) -> Any:
        return np.sum(ft.grad(lambda y: np.sum(np.sin(x * y) * y))(x * x))

    np.testing.assert_allclose(ft.grad(f)(X), ft.grad(plain)(X), rtol=1e-13)
    np.testing.assert_allclose(ft.grad(f)(X), jacobian_by_differences(plain, X), rtol=1e-7)


def test_pytrees_keywords_numbers_and_strings() -> None:
    def f(p: Any, *, table: Any, kind: str, power: int = 2) -> Any:
        g = {"sin": np.sin, "cos": np.cos}[kind]
        return Point(g(p.x) ** power, {"both": [p.x * p.y, table["w"]], "none": None})

    def loss(p: Any, wrap: Any) -> Any:
        q = wrap(f)(p, table={"w": p.x * 3.0}, kind="cos", power=3)
        assert type(q) is Point and q.y["none"] is None
        return np.sum(q.x) + np.sum(q.y["both"][0] * q.y["both"][1])

    p = Point(X, 2.0)
    found = ft.grad(partial(loss, wrap=ft.checkpoint))(p)
    assert type(found) is Point
    assert_equal(found, ft.grad(partial(loss, wrap=lambda f: f))(p))


def test_methods_and_decorator() -> None:
    def loss(scale: Any) -> Any:
        layer = Layer(scale)
        return np.sum(ft.checkpoint(layer.method)(X, power=3) * layer.decorated(X))

    plain = lambda s: np.sum(np.sin(X * s) ** 3 * np.sin(X * s))
    np.testing.assert_array_equal(ft.grad(loss)(0.7), ft.grad(plain)(0.7))


def test_wrapped_function_keeps_its_name_and_docstring() -> None:
    def layer(x: Any) -> Any:
        """Do it."""
        return x

    assert (ft.checkpoint(layer).__name__, ft.checkpoint(layer).__doc__) == ("layer", "Do it.")


def test_plain_arrays_pass_through_as_they_would() -> None:
    found = ft.checkpoint(lambda x, n: (x * n, np.float32(2.0), n))(X, 3)
    np.testing.assert_array_equal(found[0], X * 3)
    assert found[1].dtype == np.float32 and found[2] == 3


@pytest.mark.parametrize("x", [1.5, -1.5])
def test_python_choices_on_values_inside(x: float) -> None:
    @ft.checkpoint
    def f(x: Any) -> Any:
        y = np.sin(x)
        while y < 2.0:
            y = y * 1.5 if y > 0 else y + 1.0
        return y * x

    def plain(x: Any) -> Any:
        y = np.sin(x)
        while y < 2.0:
            y = y * 1.5 if y > 0 else y + 1.0
        return y * x

    assert ft.grad(f)(x) == ft.grad(plain)(x)
    assert ft.grad(ft.grad(f))(x) == ft.grad(ft.grad(plain))(x)


def test_value_inside_is_plain() -> None:
    seen: list[Any] = []
    ft.grad(ft.checkpoint(lambda x: (seen.append(ft.value(x * 2.0)), x * x)[1]))(1.5)
    assert seen == [3.0]


def test_result_that_does_not_depend_on_operands() -> None:
    f = ft.checkpoint(lambda x: (x, V, 2.0, np.arange(3)))
    value, pullback = ft.vjp(f, X)
    np.testing.assert_array_equal(value[1], V)
    np.testing.assert_array_equal(value[3], np.arange(3))
    np.testing.assert_array_equal(pullback((V, V, 1.0, np.zeros(3, int)))[0], V)


def test_results_share_no_memory_with_arguments() -> None:
    x = X.copy()
    y, pullback = ft.vjp(ft.checkpoint(lambda x: (x, x.reshape(3, 1), x[:2])), x)
    for leaf in y:
        leaf[...] = 100.0
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(pullback((V, np.zeros((3, 1)), np.zeros(2)))[0], V)


# -- how often things are run ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [n for n in TRANSFORMS if n != "grad of cond" and "cond" not in n and "scan" not in n]
)
def test_function_is_called_once_per_call(name: str) -> None:
    def count(wrap: Any) -> int:
        calls: list[int] = []

        def f(x: Any) -> Any:
            calls.append(1)
            return np.sin(x) * np.sum(x)

        TRANSFORMS[name](wrap(f))
        return len(calls)

    assert count(ft.checkpoint) == count(lambda f: f) == 1


def test_pullback_never_calls_the_function() -> None:
    calls: list[int] = []
    _, pullback = ft.vjp(ft.checkpoint(lambda x: (calls.append(1), np.sin(x) * x)[1]), X)
    for k in range(1, 4):
        np.testing.assert_allclose(
            pullback(np.full(3, float(k)))[0], k * (np.cos(X) * X + np.sin(X)), rtol=1e-15
        )
    assert calls == [1]


def operations(program: ft.Program) -> Counter[str]:
    """Count the executions of each primitive in the program, with calls inlined."""
    flat = inline_calls(program)
    return Counter(flat.ops[k][0].name for k, _ in flat.schedule)


def test_recomputation_is_in_the_program_once() -> None:
    f = lambda x: np.sum(np.log1p(np.exp(np.sin(x))))
    plain, replayed = (operations(ft.trace(ft.grad(g))(X)) for g in (f, ft.checkpoint(f)))
    assert plain["sin"] == plain["exp"] == 1
    # grad does not run the forward part at all if only its value needs it: the replay is all there
    # is.
    assert replayed["sin"] == replayed["exp"] == 1
    both = operations(ft.trace(ft.value_and_grad(ft.checkpoint(f)))(X))
    assert both["sin"] == both["exp"] == 2


def test_dead_branch_and_linear_end_are_not_replayed() -> None:
    @ft.checkpoint
    def f(x: Any) -> Any:
        unused = np.sinh(x) * 3.0  # noqa: F841
        return np.sum(np.cumsum(np.sin(x))), np.tan(x)

    program = ft.trace(ft.value_and_grad(lambda x: f(x)[0]))(X)
    found = operations(program)
    assert found["sinh"] == found["tan"] == 0
    assert found["sin"] == 1 and found["cos"] == 1, "sin(x) itself is not needed for the derivative"


def test_nested_checkpoint_is_replayed_by_each_level() -> None:
    def f(wrap: Any) -> Any:
        return lambda x: np.sum(wrap(lambda x: np.sin(wrap(lambda x: np.exp(np.cosh(x)))(x)))(x))

    found = operations(ft.trace(ft.value_and_grad(f(ft.checkpoint)))(X))
    assert found["cosh"] == 3 and found["sin"] == 1, found
    assert operations(ft.trace(ft.value_and_grad(f(lambda f: f)))(X))["cosh"] == 1


def test_replay_happens_at_every_pullback_and_not_before() -> None:
    seen: list[str] = []
    spy = ft.policies.pack(
        lambda x: (seen.append("saved"), x)[1], lambda x: (seen.append("fetched"), x)[1]
    )
    inner = ft.checkpoint(lambda x: np.sin(x) * x, policy=spy)
    _, pullback = ft.vjp(ft.checkpoint(lambda x: np.exp(inner(x))), X)
    assert seen == [], "the outer checkpoint keeps operands only"
    for k in range(1, 3):
        pullback(V)
        assert "saved" in seen and seen.count("saved") == seen.count("fetched"), seen
        if k == 1:
            once = len(seen)
    assert len(seen) == 2 * once


def test_random_numbers_are_drawn_once() -> None:
    rng = np.random.default_rng(0)

    @ft.checkpoint
    def dropout(x: Any) -> Any:
        return np.sin(x) * (rng.random(3) < 0.5)

    y, pullback = ft.vjp(dropout, X)
    mask = y != 0
    np.testing.assert_array_equal(pullback(np.ones(3))[0] != 0, mask)
    assert rng.random() == np.random.default_rng(0).random(4)[3]


# -- errors ----------------------------------------------------------------------------------------


class OwnError(Exception):
    pass


@everywhere
def test_exception_inside_passes_and_leaves_nothing_behind(transform: str) -> None:
    error = OwnError("mine")

    def broken(x: Any) -> Any:
        np.sin(x)
        raise error

    with pytest.raises(OwnError) as caught:
        TRANSFORMS[transform](ft.checkpoint(broken))
    assert caught.value is error
    np.testing.assert_array_equal(ft.grad(ft.checkpoint(lambda x: np.sum(x * x)))(X), 2 * X)


def test_numpy_error_in_the_replay_names_the_users_line() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.log(x) * x)

    with np.errstate(divide="raise"), pytest.raises(FloatingPointError) as caught:
        ft.grad(ft.checkpoint(f))(np.zeros(3))
    assert any("test_checkpoint.py" in note for note in caught.value.__notes__)


def test_leaked_value_is_refused() -> None:
    kept: list[Any] = []
    ft.grad(ft.checkpoint(lambda x: (kept.append(x * 1.0), x)[1]))(1.0)
    with pytest.raises(LeakedTracerError):
        kept[0] + 1.0


# -- memory ----------------------------------------------------------------------------------------

ROWS, COLUMNS, LAYERS, EVERY = 4096, 32, 50, 7


def chain(wrap: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Fifty layers, ``wrap`` around every seven."""
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(COLUMNS, COLUMNS)) / COLUMNS**0.5 for _ in range(LAYERS)]

    def segment(chosen: list[Any]) -> Callable[[Any], Any]:
        def run(h: Any) -> Any:
            for w in chosen:
                h = np.tanh(np.sin(h @ w) * np.exp(-h * h))
            return h

        return wrap(run)

    segments = [segment(weights[k : k + EVERY]) for k in range(0, LAYERS, EVERY)]

    def f(h: Any) -> Any:
        for run in segments:
            h = run(h)
        return np.sum(h)

    return f


def pull_once(f: Any) -> Any:
    def run(h: Any) -> Any:
        _, pullback = ft.vjp(f, h)
        return pullback(1.0)[0]

    return run


def peak(run: Callable[[], Any]) -> float:
    """Bytes at the peak of a call, in arrays of the chain."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return (most - before) / (ROWS * COLUMNS * 8)


@pytest.mark.full
@pytest.mark.parametrize("differentiate", [ft.grad, *on_release(ft.value_and_grad, pull_once)])
def test_residuals_are_released_at_their_last_use(differentiate: Any) -> None:
    h = np.random.default_rng(1).normal(size=(ROWS, COLUMNS))
    plain, checkpointed = differentiate(chain(lambda f: f)), differentiate(chain(ft.checkpoint))
    for call in ("interpreted", "compiled", "compiled"):
        most, least = peak(lambda: plain(h)), peak(lambda: checkpointed(h))
        # Kept: the operands of eight segments; in the replay of one, five values for each of its
        # layers.
        assert least <= 0.4 * most, f"{call}: {least:.1f} arrays, {most:.1f} without checkpoint"
        assert least <= LAYERS / EVERY + 5 * EVERY + 8, f"{call}: {least:.1f} arrays"
        if (
            differentiate is not pull_once
        ):  # h, -h, sin, h @ w and exp of each layer; cos and 1 - tanh^2 come late
            assert most <= 5 * LAYERS + 8, f"{call}: {most:.1f} arrays without checkpoint"
    assert_equal(plain(h), checkpointed(h))


def test_numbers_before_a_checkpoint_change_from_call_to_call() -> None:
    inner = ft.checkpoint(np.sin)
    for _ in range(2):
        for c in (1.0, 2.0, 3.0, -4.0):
            found = ft.grad(lambda x, c=c: inner(x * c) + 0.0 * x)(0.5)
            np.testing.assert_allclose(found, c * np.cos(0.5 * c), rtol=1e-14)


@pytest.mark.parametrize("static", [1, (1, 3), [-3, -1]], ids=str)
def test_static_arguments_are_passed_through_unchanged(static: Any) -> None:
    table, seen = np.array([1.0, 2.0]), []
    names = {"kind": "sin"}

    def f(x: Any, k: Any, y: Any, options: Any) -> Any:
        seen.append((k, options))
        return np.sum(getattr(np, options["kind"])(x) * k * y)

    g = ft.checkpoint(f, static_argnums=static)
    x = np.array([0.3, -0.7])
    np.testing.assert_allclose(ft.grad(g)(x, table, 2.0, names), np.cos(x) * table * 2)
    assert type(seen[-1][0]) is np.ndarray and (seen[-1][1] is names) is (static != 1)
    np.testing.assert_allclose(
        ft.jit(lambda x: ft.grad(g, (0, 2))(x, table, 2.0, names))(x)[1], np.sum(np.sin(x) * table)
    )
    np.testing.assert_allclose(
        ft.hessian(lambda x: g(x, table, x, names))(x)[0, 0], 2 * np.cos(0.3) - 0.3 * np.sin(0.3)
    )
    assert g(x, table, 2.0, names) == f(x, table, 2.0, names)
    decorated = ft.checkpoint(static_argnums=static)(f)
    np.testing.assert_array_equal(
        ft.grad(decorated)(x, table, 2.0, names), ft.grad(g)(x, table, 2.0, names)
    )


def test_static_arguments_that_cannot_be() -> None:
    f = lambda x, k: np.sum(x * k)
    x = np.ones(2)
    with pytest.raises(ArgumentError, match="static argument 0 is traced"):
        ft.grad(ft.checkpoint(f, static_argnums=0))(x, 1.0)
    with pytest.raises(
        ArgumentError, match=r"static_argnums=\(2,\), but the function was called with 2"
    ):
        ft.grad(ft.checkpoint(f, static_argnums=2))(x, 1.0)
    with pytest.raises(ArgumentError, match="static_argnums is 'k'"):
        ft.checkpoint(f, static_argnums="k")  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="names an argument twice"):
        ft.grad(ft.checkpoint(f, static_argnums=(1, -1)))(x, 1.0)
