"""``custom_vjp``: the user's backward function is the derivative, under every composition, and is
checked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest

import functrace as ft
from functrace.errors import (
    ArgumentError,
    DtypeError,
    NotDifferentiableError,
    ShapeError,
    TreeError,
)
from functrace.executor.cache import CACHE
from tests.compositions.functions import BATCH, V, X
from tests.compositions.test_checkpoint import TRANSFORMS, assert_equal

everywhere = pytest.mark.parametrize("transform", TRANSFORMS)


def plain(x: Any) -> Any:
    return np.sin(x) * np.exp(x)


@ft.custom_vjp
def custom(x: Any) -> Any:
    return np.sin(x) * np.exp(x)


def _forward(x: Any) -> Any:
    return custom(x), (x, custom(x))


def _backward(kept: Any, y_bar: Any) -> Any:
    x, y = kept
    return (y_bar * (np.cos(x) * np.exp(x) + y),)


custom.defvjp(_forward, _backward)


def scaled(factor: Any = 10.0) -> Any:
    """sin, with a derivative that shows whether the rule was used: cos times a factor."""

    @ft.custom_vjp
    def sine(x: Any) -> Any:
        return np.sin(x)

    sine.defvjp(lambda x: (np.sin(x), x), lambda x, y_bar: (y_bar * np.cos(x) * factor,))
    return sine


# -- under every composition -----------------------------------------------------------------------


@pytest.mark.sampled(3)
@everywhere
def test_a_right_rule_gives_right_derivatives(transform: str) -> None:
    # The rule calls its own function: of second order and above, it is the rule that is
    # differentiated, with its own rule.
    apply = TRANSFORMS[transform]
    for _ in range(2):
        assert_equal(apply(custom), apply(plain), 1e-11)


@pytest.mark.sampled(4)
@everywhere
def test_a_right_rule_inside_checkpoint_and_jit(transform: str) -> None:
    apply = TRANSFORMS[transform]
    assert_equal(apply(ft.checkpoint(custom)), apply(plain), 1e-11)
    assert_equal(apply(ft.jit(custom)), apply(plain), 1e-11)
    assert_equal(
        apply(ft.checkpoint(lambda x: np.tanh(custom(x)))),
        apply(lambda x: np.tanh(plain(x))),
        1e-11,
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "transform",
    ["grad", "vjp", "jvp", "linearize", "jacfwd", "jacrev", "vmap of grad", "grad of vmap",
    "vmap of jvp", "jvp of vmap",
     "jit of grad", "grad of jit", "jit of vmap of grad", "vmap of vmap of grad"],
)  # fmt: skip
def test_the_rule_is_used_and_not_the_function(transform: str) -> None:
    apply = TRANSFORMS[transform]

    @ft.custom_jvp
    def expected(x: Any) -> Any:
        return np.sin(x)

    expected.defjvps(lambda x_dot, y, x: x_dot * np.cos(x) * 10.0)
    assert_equal(apply(scaled()), apply(expected), 1e-14)
    assert_equal(apply(ft.checkpoint(scaled())), apply(expected), 1e-14)
    np.testing.assert_array_equal(ft.vjp(scaled(), X)[1](V)[0], V * np.cos(X) * 10.0)


def test_forward_mode_is_the_transpose_of_the_backward_rule() -> None:
    matrix = np.array([[1.0, 2.0, 0.0], [0.5, 0.0, -1.0]])

    @ft.custom_vjp
    def f(x: Any) -> Any:
        return np.stack([x[0], x[1]])

    f.defvjp(lambda x: (f(x), x), lambda x, y_bar: (matrix.T @ y_bar * 1.0,))
    np.testing.assert_allclose(ft.jvp(f, (X,), (V,))[1], matrix @ V, rtol=1e-15)
    np.testing.assert_allclose(ft.jacfwd(f)(X), matrix, rtol=1e-15)
    np.testing.assert_allclose(ft.jacrev(f)(X), matrix, rtol=1e-15)
    np.testing.assert_allclose(ft.vmap(ft.jacfwd(f))(BATCH), np.stack([matrix] * 4), rtol=1e-15)


def test_backward_rule_that_is_not_linear() -> None:
    @ft.custom_vjp
    def clipped(x: Any) -> Any:
        return x * 1.0

    clipped.defvjp(lambda x: (x * 1.0, None), lambda _, y_bar: (np.clip(y_bar, -1.0, 1.0),))
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(clipped(x) * 5.0))(X), np.ones(3))
    np.testing.assert_array_equal(
        ft.vmap(ft.grad(lambda x: np.sum(clipped(x) * 5.0)))(BATCH), np.ones((4, 3))
    )
    np.testing.assert_array_equal(
        ft.jit(ft.grad(lambda x: np.sum(clipped(x) * 0.5)))(X), np.full(3, 0.5)
    )
    with pytest.raises(NotDifferentiableError) as caught:
        ft.jvp(clipped, (X,), (V,))
    assert "fix: " in str(caught.value)
    assert "linear" in str(caught.value) and "clipped" in str(caught.value), caught.value
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(clipped(x)))(X), np.ones(3))


@pytest.mark.parametrize("in_axes", [(0, 0), (0, None), (None, 0), (1, 0), (0, 1), (-1, None)])
def test_mapping_with_operands_without_batch_axis(in_axes: tuple[Any, ...]) -> None:
    @ft.custom_vjp
    def f(x: Any, w: Any) -> Any:
        return np.sin(x) @ w

    f.defvjp(
        lambda x, w: (np.sin(x) @ w, (x, w)),
        lambda kept, y_bar: (np.cos(kept[0]) * kept[1] * y_bar, np.sin(kept[0]) * y_bar),
    )
    g = lambda x, w: np.sin(x) @ w
    args = [V if a is None else (BATCH if a == 0 else BATCH.T) for a in in_axes]
    weights = np.arange(1.0, 5.0)
    for h in (f, ft.checkpoint(f), ft.jit(f)):
        loss = lambda f, x, w: np.sum(ft.vmap(f, in_axes)(x, w) * weights)
        # Cotangents of operands that all examples share are summed over the batch.
        assert_equal(
            ft.grad(partial(loss, h), (0, 1))(*args),
            ft.grad(partial(loss, g), (0, 1))(*args),
            1e-13,
        )
        assert_equal(
            ft.vmap(ft.grad(h, (0, 1)), in_axes)(*args),
            ft.vmap(ft.grad(g, (0, 1)), in_axes)(*args),
            1e-13,
        )
        assert_equal(
            ft.jvp(ft.vmap(h, in_axes), args, args), ft.jvp(ft.vmap(g, in_axes), args, args), 1e-13
        )


def test_second_order_of_a_rule_whose_operands_are_partly_mapped() -> None:
    f = lambda h: lambda x, w: np.sum(h(x * w) * w)
    found, expected = (
        ft.hessian(lambda w, h=h: np.sum(ft.vmap(f(h), (0, None))(BATCH, w)))(V)
        for h in (custom, plain)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-11)


# -- arguments, results, residuals -----------------------------------------------------------------


class Pair(NamedTuple):
    a: Any
    b: Any


def test_pytrees_in_arguments_results_and_residuals() -> None:
    @ft.custom_vjp
    def f(p: Any, table: Any) -> Any:
        return {"sum": p.a + p.b, "rest": [p.a * table["w"], None]}

    def forward(p: Any, table: Any) -> Any:
        return f(p, table), {
            "kept": Pair(p, table["w"]),
            "nothing": None,
            "text": "kept as it is",
            "number": 3,
        }

    def backward(kept: Any, ct: Any) -> Any:
        assert kept["text"] == "kept as it is" and kept["number"] == 3 and kept["nothing"] is None
        p, w = kept["kept"]
        assert type(p) is Pair and set(ct) == {"sum", "rest"} and ct["rest"][1] is None
        return Pair(ct["sum"] + ct["rest"][0] * w, ct["sum"]), {"w": ct["rest"][0] * p.a}

    f.defvjp(forward, backward)
    p, table = Pair(X, V), {"w": np.array([2.0, 3.0, 4.0])}
    loss = lambda p, t: np.sum(np.sin(f(p, t)["sum"])) + np.sum(f(p, t)["rest"][0] ** 2)
    direct = lambda p, t: np.sum(np.sin(p.a + p.b)) + np.sum((p.a * t["w"]) ** 2)
    assert_equal(ft.grad(loss, (0, 1))(p, table), ft.grad(direct, (0, 1))(p, table), 1e-14)
    assert type(ft.grad(loss)(p, table)) is Pair


def test_none_is_zero_and_whole_arguments_may_be_none() -> None:
    @ft.custom_vjp
    def f(x: Any, p: Any) -> Any:
        return x * p.a * p.b

    f.defvjp(lambda x, p: (f(x, p), (x, p)), lambda kept, ct: (ct * kept[1].a * kept[1].b, None))
    found = ft.grad(lambda x, p: np.sum(f(x, p)), (0, 1))(X, Pair(V, X))
    assert_equal(found, (V * X, Pair(np.zeros(3), np.zeros(3))), 1e-15)


def test_integer_arguments_and_integer_results() -> None:
    @ft.custom_vjp
    def f(x: Any, k: Any) -> Any:
        return np.take(x, k) * 2.0, np.argsort(x), k + 1

    def backward(kept: Any, ct: Any) -> Any:
        k, shape = kept
        assert ct[1].dtype == np.int64 and not np.any(ct[1]), (
            "no derivative: a zero of the same dtype"
        )
        made = np.zeros_like(ct[0], shape=shape)
        made[k] = ct[0] * 2.0
        return made, None

    f.defvjp(lambda x, k: (f(x, k), (k, x.shape)), backward)
    k = np.array([2, 0])
    np.testing.assert_array_equal(
        ft.grad(lambda x: np.sum(f(x, k)[0] * np.array([1.0, 5.0])))(X), [10.0, 0.0, 2.0]
    )
    (_, order, more), pullback = ft.vjp(f, X, k)
    assert (
        more.dtype == np.int64
        and pullback((np.ones(2), np.zeros(3, int), np.zeros(2, int)))[1] is None
    )
    np.testing.assert_array_equal(order, np.argsort(X))
    tangents = ft.jvp(lambda x: f(x, k), (X,), (V,))[1]
    np.testing.assert_array_equal(tangents[0], V[k] * 2.0)


def test_keyword_arguments_and_defaults() -> None:
    @ft.custom_vjp
    def f(x: Any, w: Any = 3.0, *, sign: float = 1.0) -> Any:
        return x * w

    f.defvjp(lambda x, w: (x * w, (x, w)), lambda kept, ct: (ct * kept[1] * 10.0, ct * kept[0]))
    assert_equal(ft.grad(lambda x: np.sum(f(x, V)))(X), V * 10.0)
    with pytest.raises(ArgumentError, match="keyword-only"):
        ft.grad(lambda x: np.sum(f(x, V, sign=2.0)))(X)

    @ft.custom_vjp
    def g(x: Any, w: Any = 3.0, kind: str = "a") -> Any:
        return x * w

    g.defvjp(
        lambda x, w, kind: (x * w, (x, w)),
        lambda kept, ct: (ct * kept[1] * 10.0, np.sum(ct * kept[0]), None),
    )
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(g(x)))(X), np.full(3, 30.0))
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(g(w=2.0, x=x)))(X), np.full(3, 20.0))
    np.testing.assert_array_equal(ft.grad(lambda w: np.sum(g(X, w=w)))(2.0), np.sum(X))


@pytest.mark.parametrize(("places", "call"), [((1,), lambda f, x, n: f(x, n)), ((-1,), lambda f, x,
n: f(x, n)),
                                              (0, lambda f, x, n: f(n, x))])  # fmt: skip
def test_nondiff_argnums(places: Any, call: Any) -> None:
    first = places == 0

    @partial(ft.custom_vjp, nondiff_argnums=places)
    def f(*args: Any) -> Any:
        n, x = args if first else args[::-1]
        return n["power"](x)

    def forward(*args: Any) -> Any:
        n, x = args if first else args[::-1]
        assert callable(n["power"])
        return f(*args), x

    f.defvjp(forward, lambda n, x, ct: (ct * n["slope"](x),))
    static = {"power": lambda x: x**3, "slope": lambda x: 30.0 * x**2}
    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(call(f, x, static)))(X), 30 * X**2, rtol=1e-15
    )
    np.testing.assert_allclose(
        ft.vmap(ft.grad(lambda x: np.sum(call(f, x, static))))(BATCH), 30 * BATCH**2, rtol=1e-15
    )
    np.testing.assert_allclose(call(f, X, static), X**3)


def test_nondiff_argnums_errors() -> None:
    f = ft.custom_vjp(lambda x, n: x * n, nondiff_argnums=(1,))
    f.defvjp(lambda x, n: (x * n, None), lambda n, _, ct: (ct * n,))
    with pytest.raises(ArgumentError, match="nondiff_argnums is traced"):
        ft.grad(lambda n: np.sum(f(X, n)))(2.0)
    g = ft.custom_vjp(lambda x: x, nondiff_argnums=(3,))
    g.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    with pytest.raises(ArgumentError, match=r"nondiff_argnums=\(3,\), but it has 1 argument"):
        ft.grad(g)(2.0)


def test_methods() -> None:
    class Layer:
        def __init__(self, scale: float) -> None:
            self.scale = scale

        @ft.custom_vjp
        def __call__(self, x: Any) -> Any:
            return np.sin(x) * self.scale

        def forward(self, x: Any) -> Any:
            return self(x), (self, x)

        @staticmethod
        def backward(kept: Any, ct: Any) -> Any:
            self, x = kept
            return None, ct * np.cos(x) * self.scale * 10.0

        __call__.defvjp(forward, lambda kept, ct: Layer.backward(kept, ct))

    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(Layer(2.0)(x)))(X), 20 * np.cos(X), rtol=1e-15
    )
    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(Layer(3.0)(x)))(X), 30 * np.cos(X), rtol=1e-15
    )


def test_plain_arrays_call_the_function_alone() -> None:
    calls: list[str] = []
    f = ft.custom_vjp(lambda x: (calls.append("f"), x + 1)[1])
    f.defvjp(lambda x: calls.append("fwd"), lambda r, ct: calls.append("bwd"))  # type: ignore[arg-type, func-returns-value]
    assert f(2) == 3 and calls == ["f"]
    assert f.__name__ == "<lambda>"


# -- what rules close over -------------------------------------------------------------------------


def test_backward_may_read_values_of_forward_from_a_closure() -> None:
    def f(x: Any) -> Any:
        box: dict[str, Any] = {}

        @ft.custom_vjp
        def inner(x: Any) -> Any:
            return np.sin(x)

        def forward(x: Any) -> Any:
            box["cos"] = np.cos(x)
            return np.sin(x), None

        inner.defvjp(forward, lambda _, ct: (ct * box["cos"] * 10.0,))
        return inner(x)

    np.testing.assert_array_equal(ft.vjp(f, X)[1](V)[0], V * np.cos(X) * 10.0)
    np.testing.assert_allclose(
        ft.vmap(ft.grad(lambda x: np.sum(f(x))))(BATCH), 10 * np.cos(BATCH), rtol=1e-15
    )
    kept = ft.saved_residuals(f)(X)
    assert [(r.aval.shape, r.made) for r in kept] == [
        ((3,), "result of cos, for the derivative only")
    ]


def test_rules_that_close_over_outer_values() -> None:
    def loss(x: Any, w: Any) -> Any:
        @ft.custom_vjp
        def inner(x: Any) -> Any:
            return x * 2.0

        inner.defvjp(lambda x: (x * 2.0, None), lambda _, ct: (ct * w,))
        return np.sum(inner(x))

    np.testing.assert_array_equal(ft.grad(loss)(X, V), V)
    np.testing.assert_array_equal(ft.grad(lambda w: np.sum(ft.grad(loss)(X, w) * X))(V), X)
    np.testing.assert_array_equal(ft.vmap(ft.grad(loss), (None, 0))(X, BATCH), BATCH)


def test_function_that_closes_over_a_value_which_is_differentiated_is_refused() -> None:
    def loss(x: Any, w: Any) -> Any:
        @ft.custom_vjp
        def inner(x: Any) -> Any:
            return x * w

        inner.defvjp(lambda x: (x * w, None), lambda _, ct: (ct * w,))
        return np.sum(inner(x))

    np.testing.assert_array_equal(ft.grad(loss)(X, V), V)
    for argnums in (1, (0, 1)):
        with pytest.raises(NotDifferentiableError, match="closes over") as caught:
            ft.grad(lambda x, w: loss(x * w, w), argnums)(X, V)
        assert "pass the value as an argument" in str(caught.value)


def test_rule_follows_python_values_that_change_between_calls() -> None:
    factor = [1.0]

    @ft.custom_vjp
    def f(x: Any) -> Any:
        return np.sin(x) * factor[0]

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * np.cos(x) * factor[0],))
    gradient = ft.grad(lambda x: np.sum(f(x)))
    for value in (1.0, 2.0, 1.0, -3.0, 2.0):
        factor[0] = value
        np.testing.assert_allclose(gradient(X), value * np.cos(X), rtol=1e-15)
        np.testing.assert_allclose(ft.vmap(gradient)(BATCH), value * np.cos(BATCH), rtol=1e-15)


def test_rule_follows_flags_and_arrays_that_change_between_calls() -> None:
    state: dict[str, Any] = {"flip": False, "table": V}

    @ft.custom_vjp
    def f(x: Any) -> Any:
        return x * state["table"]

    f.defvjp(
        lambda x: (f(x), None),
        lambda _, ct: (-ct * state["table"] if state["flip"] else ct * state["table"],),
    )
    gradient = ft.grad(lambda x: np.sum(f(x)))
    for flip, table in ((False, V), (True, V), (True, X), (False, X)):
        state.update(flip=flip, table=table)
        np.testing.assert_array_equal(gradient(X), -table if flip else table)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_function_that_its_own_rule_calls_to_any_order(order: int) -> None:
    @ft.custom_vjp
    def exp(x: Any) -> Any:
        return np.exp(x)

    exp.defvjp(lambda x: (exp(x), exp(x)), lambda y, ct: (ct * y,))
    f: Any = exp
    for _ in range(order):
        f = ft.grad(f)
    np.testing.assert_allclose(f(0.3), np.exp(0.3), rtol=1e-14)
    np.testing.assert_allclose(ft.vmap(f)(X), np.exp(X), rtol=1e-14)


def test_rules_that_call_each_other() -> None:
    @ft.custom_vjp
    def sin(x: Any) -> Any:
        return np.sin(x)

    @ft.custom_vjp
    def cos(x: Any) -> Any:
        return np.cos(x)

    sin.defvjp(lambda x: (sin(x), x), lambda x, ct: (ct * cos(x),))
    cos.defvjp(lambda x: (cos(x), x), lambda x, ct: (-ct * sin(x),))
    f: Any = sin
    for expected in (np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin):
        f = ft.grad(f)
        np.testing.assert_allclose(f(0.3), expected(0.3), rtol=1e-14)


# -- cost ------------------------------------------------------------------------------------------


@pytest.fixture
def transforms(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the programs that are linearised while the test runs."""
    from functrace.transforms.walk import ForwardWalk

    names: list[str] = []
    original = ForwardWalk.__init__

    def counted(self: Any, program: Any, *details: Any) -> None:
        names.append(program.name)
        original(self, program, *details)

    monkeypatch.setattr(ForwardWalk, "__init__", counted)
    return names


@pytest.mark.parametrize("make", [lambda: custom, scaled], ids=["own rule called", "closed over"])
def test_second_call_transforms_nothing(make: Callable[[], Any], transforms: list[str]) -> None:
    f = make()
    gradient, mapped = ft.grad(lambda x: np.sum(f(x))), ft.vmap(ft.grad(lambda x: np.sum(f(x))))
    gradient(X), mapped(BATCH)
    before = len(CACHE)
    transforms.clear()
    for k in range(3):
        gradient(X + k), mapped(BATCH - k)
    assert transforms == []
    assert len(CACHE) == before


def test_rules_made_anew_at_each_call_are_found_in_the_cache(transforms: list[str]) -> None:
    gradient = ft.grad(lambda x: np.sum(scaled(3.0)(x)))
    gradient(X)
    before = len(CACHE)
    transforms.clear()
    for _ in range(3):
        np.testing.assert_array_equal(gradient(X), 3.0 * np.cos(X))
    assert transforms == [] and len(CACHE) == before


def test_threads() -> None:
    results: dict[int, Any] = {}

    def work(k: int) -> None:
        f = scaled(float(k))
        results[k] = [ft.grad(lambda x: np.sum(custom(f(x))))(X) for _ in range(5)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(6):
        y = np.sin(X)
        expected = (np.cos(y) * np.exp(y) + plain(y)) * np.cos(X) * k
        for found in results[k]:
            np.testing.assert_allclose(found, expected, rtol=1e-14)


# -- checks ----------------------------------------------------------------------------------------


def rule_with(forward: Any = None, backward: Any = None) -> Any:
    @ft.custom_vjp
    def f(x: Any, p: Any) -> Any:
        return {"y": x * p["w"]}

    f.defvjp(
        forward or (lambda x, p: ({"y": x * p["w"]}, None)),
        backward or (lambda _, ct: (ct["y"], {"w": ct["y"]})),
    )
    return f


P = {"w": V}
BAD = {
    "fwd returns no pair": (lambda x, p: x, None, TreeError,
    ("fwd of f returned a TracedArray, not a pair",)),
    "fwd returns another nest": (lambda x, p: (x, None), None, TreeError,
    ("the result of fwd of f has the structure",)),
    "fwd returns another shape": (
        lambda x, p: ({"y": x[:2]}, None), None, ShapeError, ("fwd of f['y'] is f64[2]", "f64[3]")),
    "fwd returns another dtype": (
        lambda x, p: ({"y": x.astype(complex)}, None), None, DtypeError,
        ("fwd of f['y'] is c128[3]", "f64[3]")),
    "bwd returns no tuple": (None, lambda _, ct: ct["y"], TreeError,
    ("bwd of f returned a TracedArray", "2 arguments")),
    "bwd returns too few": (None, lambda _, ct: (ct["y"],), TreeError,
    ("bwd of f returned 1 values", "2 arguments")),
    "bwd returns too many": (None, lambda _, ct: (ct["y"],) * 3, TreeError,
    ("bwd of f returned 3 values",)),
    "bwd returns another nest": (
        None, lambda _, ct: (ct["y"], [ct["y"]]), TreeError,
        ("cotangent 1 of bwd of f has the structure", "argument 1")),
    "bwd returns another shape": (
        None, lambda _, ct: (ct["y"], {"w": ct["y"][:2]}), ShapeError,
        ("cotangent 1 of bwd of f['w'] is f64[2]", "argument 1['w'] is f64[3]")),
    "bwd returns another dtype": (
        None, lambda _, ct: (ct["y"] * 1j, None), DtypeError,
        ("cotangent 0 of bwd of f is c128[3]", "argument 0 is f64[3]")),
}  # fmt: skip
bad = pytest.mark.parametrize(("forward", "backward", "error", "words"), BAD.values(), ids=BAD)


@bad
def test_wrong_rules_raise_at_differentiation(
    forward: Any, backward: Any, error: type[Exception], words: tuple[str, ...]
) -> None:
    f = rule_with(forward, backward)
    for apply in (
        lambda: ft.grad(lambda x: np.sum(f(x, P)["y"]))(X),
        lambda: ft.vjp(lambda x: f(x, P), X),
        lambda: ft.vmap(ft.grad(lambda x: np.sum(f(x, P)["y"])))(BATCH),
        lambda: ft.jit(ft.grad(lambda x: np.sum(f(x, P)["y"])))(X),
        lambda: ft.jvp(lambda x: f(x, P), (X,), (V,)),
    ):
        with pytest.raises(error) as caught:
            apply()
        for word in (*words, "fix: ", "test_custom_vjp.py"):
            assert word in str(caught.value), caught.value
    np.testing.assert_array_equal(ft.vmap(lambda x: f(x, P)["y"])(BATCH), BATCH * V)
    np.testing.assert_array_equal(ft.jit(lambda x: f(x, P)["y"])(X), X * V)
    assert ft.grad(lambda t: t * ft.jit(lambda x: f(x, P)["y"])(X)[0])(1.0) == X[0] * V[0]


def test_narrower_floats_of_a_rule_are_cast() -> None:
    @ft.custom_vjp
    def f(x: Any) -> Any:
        return x * 1.0

    f.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (ct.astype(np.float32) * 2,))
    found = ft.grad(lambda x: np.sum(f(x)))(X)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.full(3, 2.0))


def test_missing_rules() -> None:
    f = ft.custom_vjp(np.sin)
    np.testing.assert_array_equal(f(X), np.sin(X))
    with pytest.raises(ArgumentError, match="sin has no rules yet") as caught:
        ft.grad(lambda x: np.sum(f(x)))(X)
    assert "defvjp(fwd, bwd)" in str(caught.value)


class OwnError(Exception):
    pass


@pytest.mark.parametrize("place", ["forward", "backward"])
@pytest.mark.parametrize(
    "error", [OwnError("mine"), NotImplementedError("no derivative")], ids=["own", "missing"]
)
def test_exceptions_of_rules_raise_at_differentiation_only(place: str, error: Exception) -> None:
    def fail(*_: Any) -> Any:
        raise error

    f = rule_with(**{place: fail})
    gradient = ft.grad(lambda x: np.sum(f(x, P)["y"]))
    for _ in range(2):
        np.testing.assert_array_equal(ft.jit(lambda x: f(x, P)["y"])(X), X * V)
        np.testing.assert_array_equal(ft.vmap(lambda x: f(x, P)["y"])(BATCH), BATCH * V)
        np.testing.assert_array_equal(
            ft.grad(lambda x: np.sum(x * f(ft.stop_gradient(x), P)["y"]))(X), X * V
        )
        with pytest.raises(type(error)) as caught:
            gradient(X)
        assert caught.value is error
        with pytest.raises(type(error)):
            ft.vmap(gradient)(BATCH)
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(rule_with()(x, P)["y"]))(X), np.ones(3))


def test_exception_of_the_function_itself_passes() -> None:
    f = ft.custom_vjp(lambda x: 1 / 0)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    with pytest.raises(ZeroDivisionError):
        ft.grad(f)(1.0)
    assert ft.grad(lambda x: x * x)(1.0) == 2.0


def test_backward_rule_that_squares_its_cotangent_has_no_forward_mode() -> None:
    @ft.custom_vjp
    def f(x: Any) -> Any:
        return x * 1.0

    f.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (ct * ct,))
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(f(x) * 3.0))(X), np.full(3, 9.0))
    with pytest.raises(NotDifferentiableError, match="not linear") as caught:
        ft.jvp(f, (X,), (V,))
    assert "fix: " in str(caught.value)


def test_plain_array_tangents_mix_with_traced_ones() -> None:
    scaled = ft.custom_vjp(lambda s, t: s * np.sin(t))
    scaled.defvjp(
        lambda s, t: (s * np.sin(t), (s, t)), lambda kept, ct: (np.sum(ct * np.sin(kept[1])), None)
    )
    n = np.array([[0, -1, -1], [-4, -4, 1]])
    tangent = lambda x: ft.jvp(lambda x: scaled(x, n[:, 0]), (x,), (np.ones(()),))[1]
    np.testing.assert_allclose(tangent(np.array(0.25)), np.sin(n[:, 0]))
    assert ft.grad(lambda x: np.sum(tangent(x)))(np.array(0.25)) == 0.0
