"""Optimizers: textbook steps, transforms of whole steps, dtypes, donated states, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, DtypeError, ShapeError, TreeError
from tests.oracles import assert_same

optim = ft.optim
Rule = Callable[..., Any]
RULES: dict[str, Rule] = {
    "sgd": lambda rate: optim.sgd(rate),
    "momentum": lambda rate: optim.sgd(rate, 0.9),
    "nesterov": lambda rate: optim.sgd(rate, 0.9, nesterov=True),
    "adam": lambda rate: optim.adam(rate),
    "nadam": lambda rate: optim.adam(rate, nesterov=True),
    "adamw": lambda rate: optim.adamw(rate, weight_decay=0.1, mask={"w": True, "b": False}),
    "lion": lambda rate: optim.lion(rate),
    "rmsprop": lambda rate: optim.rmsprop(rate),
    "rmsprop centered": lambda rate: optim.rmsprop(
        rate, centered=True, eps=1e-2, momentum=0.5, bias_correction=True
    ),
    "clipped": lambda rate: optim.chain(
        optim.clip_by_global_norm(0.5), optim.clip_by_norm(0.4), optim.clip_by_block_rms(0.2),
        optim.clip(0.3), optim.adam(rate),
    ),
    "scheduled": lambda rate: optim.chain(
        optim.scale_by_adam(),
        optim.scale_by_schedule(optim.warmup_cosine_decay_schedule(0.0, 1.0, 2, 9)),
        optim.scale_by_learning_rate(rate),
    ),
}  # fmt: skip


def start(dtype: Any = np.float64) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"w": rng.normal(size=(4, 3)).astype(dtype), "b": rng.normal(size=3).astype(dtype)}


def data(dtype: Any = np.float64) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(9, 4)).astype(dtype), rng.normal(size=(9, 3)).astype(dtype)


def loss(params: Any, x: Any, y: Any) -> Any:
    return np.mean((np.tanh(x @ params["w"] + params["b"]) - y) ** 2)


def step_of(tx: Any) -> Callable[..., Any]:
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, grads = ft.value_and_grad(loss)(params, x, y)
        updates, state = tx.update(grads, state, params)
        return optim.apply_updates(params, updates), state, value

    return step


def run(tx: Any, step: Callable[..., Any], count: int, dtype: Any = np.float64) -> Any:
    params, x, y = start(dtype), *data(dtype)
    state = tx.init(params)
    for _ in range(count):
        params, state, _ = step(params, state, x, y)
    return params, state


def same(one: Any, other: Any, rtol: float = 0.0) -> None:
    for a, b in zip(ft.tree.leaves(one), ft.tree.leaves(other), strict=True):
        assert_same(a, b, rtol=rtol, atol=rtol)


def textbook(name: str, g: list[Any], p: Any, rate: float) -> Any:
    """Parameters after steps with given gradients, as papers write them."""
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, x in enumerate(g, 1):
        if name == "sgd":
            p = p - rate * x
        elif name == "momentum":
            m = 0.9 * m + x
            p = p - rate * m
        elif name == "nesterov":
            m = 0.9 * m + x
            p = p - rate * (0.9 * m + x)
        elif name == "adam":
            m, v = 0.9 * m + 0.1 * x, 0.999 * v + 0.001 * x**2
            p = p - rate * m / (1 - 0.9**t) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        elif name == "lion":
            p = p - rate * (np.sign(0.9 * m + 0.1 * x) + 1e-3 * p)
            m = 0.99 * m + 0.01 * x
        elif name == "rmsprop":
            v = 0.9 * v + 0.1 * x**2
            p = p - rate * x / np.sqrt(v + 1e-8)
    return p


@pytest.mark.parametrize("name", ["sgd", "momentum", "nesterov", "adam", "lion", "rmsprop"])
def test_steps_are_those_of_the_papers(name: str) -> None:
    rng = np.random.default_rng(3)
    p, gs = rng.normal(size=6), [rng.normal(size=6) for _ in range(7)]
    tx, found = RULES[name](0.1), p
    state = tx.init(p)
    for g in gs:
        updates, state = tx.update(g, state, found)
        found = optim.apply_updates(found, updates)
    np.testing.assert_allclose(found, textbook(name, gs, p, 0.1), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", RULES)
def test_a_jitted_step_is_the_same(name: str, dtype: Any) -> None:
    tx = RULES[name](0.05)
    wanted = run(tx, step_of(tx), 4, dtype)
    assert all(leaf.dtype == dtype for leaf in ft.tree.leaves(wanted[0]))
    fresh = tx.init(start(dtype))
    assert [np.asarray(x).dtype for x in ft.tree.leaves(fresh)] == [
        np.asarray(x).dtype for x in ft.tree.leaves(wanted[1])
    ]
    same(run(tx, ft.jit(step_of(tx)), 4, dtype), wanted)


@pytest.mark.parametrize("backend", ["native", "xla"])
@pytest.mark.parametrize("name", ["momentum", "adamw", "rmsprop centered", "clipped", "scheduled"])
def test_other_backends(name: str, backend: Any) -> None:
    pytest.importorskip("jax" if backend == "xla" else "llvmlite")
    tx = RULES[name](0.05)
    wanted = run(tx, step_of(tx), 4)
    same(run(tx, ft.jit(step_of(tx), backend=backend), 4), wanted, 1e-6)


@pytest.mark.parametrize("name", RULES)
def test_an_ensemble_with_its_own_learning_rates(name: str) -> None:
    rates = np.array([0.01, 0.1, 0.3])

    def trained(rate: Any) -> Any:
        tx = RULES[name](rate)
        return run(tx, step_of(tx), 3)[0]

    found = ft.vmap(trained)(rates)
    for k, rate in enumerate(rates):
        same(ft.tree.map(lambda x, k=k: x[k], found), trained(rate), 1e-12)
    same(ft.jit(ft.vmap(trained))(rates), found, 1e-12)


@pytest.mark.parametrize("name", [name for name in RULES if name != "lion"])
def test_the_derivative_by_the_learning_rate(name: str) -> None:
    """Differentiate the loss after some steps; by central differences; with a loop of Python, and a scan."""

    def after(rate: Any) -> Any:
        tx = RULES[name](rate)
        return loss(run(tx, step_of(tx), 4)[0], *data())

    def scanned(rate: Any) -> Any:
        tx, (x, y) = RULES[name](rate), data()
        step = step_of(tx)
        carry = (start(), tx.init(start()))
        (params, _), _ = ft.scan(lambda c, _: (step(*c, x, y)[:2], None), carry, length=4)
        return loss(params, x, y)

    rate, h = 0.07, 1e-5
    wanted = (after(rate + h) - after(rate - h)) / (2 * h)
    for f in (after, scanned):
        np.testing.assert_allclose(ft.grad(f)(rate), wanted, rtol=1e-6)
        np.testing.assert_allclose(ft.jit(ft.grad(f))(rate), wanted, rtol=1e-6)
        np.testing.assert_allclose(ft.jvp(f, (rate,), (1.0,))[1], wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["adam", "nadam", "adamw", "rmsprop", "rmsprop centered", "clipped"]
)
def test_the_derivative_where_gradients_are_zero(name: str) -> None:
    """Parameters that the loss does not depend on: their moments are 0, and roots of them."""

    def after(rate: Any) -> Any:
        tx = RULES[name](rate)
        p: Any = {"w": rate * np.array([1.0, 20.0]), "b": np.ones(1)}
        state = tx.init(p)
        for _ in range(3):
            g = ft.grad(lambda p: np.sum((p["w"][1:] - 1.0) ** 2))(p)
            updates, state = tx.update(g, state, p)
            p = optim.apply_updates(p, updates)
        return np.sum(p["w"] ** 2) + np.sum(p["b"])

    wanted = (after(0.1 + 1e-6) - after(0.1 - 1e-6)) / 2e-6
    np.testing.assert_allclose(ft.grad(after)(0.1), wanted, rtol=1e-6)
    np.testing.assert_allclose(ft.jvp(after, (0.1,), (1.0,))[1], wanted, rtol=1e-6)


def test_all_hyperparameters_of_adam_are_differentiable() -> None:
    h0 = np.array([0.1, 0.8, 0.95, 1e-3, 1e-2])

    def after(h: Any) -> Any:
        tx = optim.adamw(h[0], h[1], h[2], h[3], 1e-6, weight_decay=h[4])
        return loss(run(tx, step_of(tx), 3)[0], *data())

    wanted = [(after(h0 + d) - after(h0 - d)) / 2e-6 for d in 1e-6 * np.eye(5)]
    np.testing.assert_allclose(ft.grad(after)(h0), wanted, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", RULES)
def test_nothing_of_the_caller_is_changed_or_kept(name: str) -> None:
    tx = RULES[name](0.1)
    params, (x, y) = start(), data()
    grads, state = ft.grad(loss)(params, x, y), tx.init(params)
    _, state = tx.update(grads, state, params)
    before = [np.copy(leaf) for leaf in ft.tree.leaves((params, grads, state))]
    updates, after = tx.update(grads, state, params)
    optim.apply_updates(params, updates)
    same(ft.tree.leaves((params, grads, state)), before)
    kept = [np.copy(leaf) for leaf in ft.tree.leaves(after)]
    for leaf in [*ft.tree.leaves(updates), *ft.tree.leaves(params), *ft.tree.leaves(grads)]:
        leaf[...] = np.nan  # the caller's own arrays: no state may share memory with them
    same(ft.tree.leaves(after), kept)


def test_donated_parameters_and_states() -> None:
    for name in RULES:
        tx = RULES[name](0.1)
        wanted = run(tx, step_of(tx), 3)
        donating = ft.jit(step_of(tx), donate_argnums=(0, 1))
        same(run(tx, donating, 3), wanted)


@pytest.mark.parametrize("rate", [np.float64(0.1), np.array(0.1), np.float32(0.1), 1, 0.1])
def test_numbers_of_any_type_keep_dtypes(rate: Any) -> None:
    for name in RULES:
        tx = RULES[name](rate)
        params, state = run(tx, step_of(tx), 2, np.float32)
        leaves = ft.tree.leaves((params, state))
        assert {np.asarray(x).dtype for x in leaves} <= {np.dtype("f4"), np.dtype("i4")}, name
        p, (x, y) = start(np.float32), data(np.float32)
        updates, _ = tx.update(ft.grad(loss)(p, x, y), tx.init(p), p)
        assert all(u.dtype == np.float32 for u in ft.tree.leaves(updates)), name


def test_dtypes_that_transforms_refuse_are_refused() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    p = np.ones(3, ml_dtypes.bfloat16)
    with pytest.raises(DtypeError, match="bfloat16"):
        optim.adam(0.1).init(p)
    with pytest.raises(DtypeError, match="bfloat16"):
        optim.sgd(0.1).update({"w": p}, optim.sgd(0.1).init({"w": np.ones(3)}))


def test_numbers_and_scalars_are_leaves() -> None:
    tx = optim.adam(0.1)
    params: Any = {"a": 1.0, "b": np.float32(2.0), "c": [], "d": None, "e": np.zeros((0, 3))}
    state = tx.init(params)
    updates, state = ft.jit(tx.update)(params, state, params)
    new = optim.apply_updates(params, updates)
    assert new["a"].dtype == np.float64 and new["b"].dtype == np.float32 and new["d"] is None
    np.testing.assert_allclose([new["a"], new["b"]], [0.9, 1.9], rtol=1e-6)


def test_dataclasses_are_pytrees() -> None:
    import dataclasses

    @dataclasses.dataclass
    class Layer:
        w: Any
        name: str = ft.tree.static(default="dense")

    tx = optim.chain(optim.masked(optim.scale(2.0), lambda p: True), optim.sgd(0.5))
    params = Layer(np.ones(2))
    updates, _ = tx.update(Layer(np.ones(2)), tx.init(params), params)
    new = optim.apply_updates(params, updates)
    assert isinstance(new, Layer) and new.name == "dense"
    np.testing.assert_array_equal(new.w, [0.0, 0.0])


def test_counts_end_at_the_largest_number() -> None:
    most = np.int32(np.iinfo(np.int32).max)
    tx = optim.scale_by_schedule(lambda count: 1.0)
    _, state = tx.update(np.ones(1), type(tx.init(None))(most))
    assert state.count == most and np.asarray(state.count).dtype == np.int32


def test_centered_means_that_rounding_makes_negative() -> None:
    tx = optim.rmsprop(1.0, decay=0.5, centered=True, eps=1e-12, eps_in_sqrt=True)
    state = tx.init(np.zeros(1, np.float32))
    for _ in range(60):
        updates, state = tx.update(np.array([1234.567], np.float32), state)
        assert np.all(np.isfinite(updates))


WRONG: dict[str, tuple[type[Exception], str, Callable[[], object]]] = {
    "no call": (ArgumentError, "adam", lambda: optim.chain(optim.adam)),  # type: ignore[arg-type]
    "no transformation": (ArgumentError, "float", lambda: optim.chain(0.1)),  # type: ignore[arg-type]
    "no parameters": (
        ArgumentError, "parameters",
        lambda: optim.adamw(0.1).update(np.ones(1), optim.adamw(0.1).init(np.ones(1))),
    ),
    "integers": (
        DtypeError, "'n'",
        lambda: optim.sgd(0.1).update({"n": np.arange(3)}, optim.sgd(0.1).init({"n": np.ones(3)})),
    ),
    "another structure": (
        TreeError, "state of adam",
        lambda: optim.adam(0.1).update({"a": np.ones(1)}, optim.adam(0.1).init({"b": np.ones(1)})),
    ),
    "another state": (
        ArgumentError, "init", lambda: optim.chain(optim.scale(1.0)).update(np.ones(1), ())
    ),
    "another shape": (ShapeError, "shape", lambda: optim.apply_updates(np.ones(2), np.ones((2, 2)))),
    "smaller update": (ShapeError, "shape", lambda: optim.apply_updates(np.ones(2), np.ones(1))),
    "one number": (ShapeError, "shape", lambda: optim.apply_updates(np.ones(2), 1.0)),
    "integer parameters": (
        DtypeError, "float64 for", lambda: optim.apply_updates(np.arange(3), np.full(3, 0.5))
    ),
    "complex updates": (DtypeError, "complex", lambda: optim.apply_updates(np.ones(1), np.array([1j]))),
    "complex updates, jitted": (
        DtypeError, "complex", lambda: ft.jit(optim.apply_updates)(np.ones(1), np.array([1j]))
    ),
    "missing update": (TreeError, "updates", lambda: optim.apply_updates({"a": np.ones(2)}, {})),
    "complex clip": (DtypeError, "clip", lambda: optim.clip(1.0).update(np.ones(1) * 1j, ())),
    "mask": (
        TreeError, "prefix",
        lambda: optim.masked(optim.scale(1.0), {"a": True}).init({"b": np.ones(1)}),
    ),
    "complex rate": (DtypeError, "complex", lambda: optim.sgd(0.1j)),  # type: ignore[arg-type]
    "complex momentum": (
        DtypeError, "complex",
        lambda: optim.trace(np.array(1j)).update(np.ones(1), optim.trace(0.9).init(np.ones(1))),
    ),
    "rate of text": (DtypeError, "str", lambda: optim.adam("0.1")),  # type: ignore[arg-type]
    "no rate given": (DtypeError, "NoneType", lambda: optim.lion(None)),  # type: ignore[arg-type]
    "schedule without a result": (
        DtypeError, "NoneType",
        lambda: optim.sgd(lambda k: None).update(np.ones(1), optim.sgd(lambda k: 1.0).init(np.ones(1))),
    ),
    "means of integers": (DtypeError, "int", lambda: optim.adam(0.1, mu_dtype=int).init(np.ones(1))),
    "sums of integers": (
        DtypeError, "int", lambda: optim.trace(0.9, accumulator_dtype="i4").init(np.ones(1))
    ),
    "real means of complex numbers": (
        DtypeError, "float32", lambda: optim.lion(0.1, mu_dtype="f4").init(np.ones(1) * 1j)
    ),
    "mask of strings": (
        ArgumentError, "str where", lambda: optim.masked(optim.scale(1.0), {"a": "False"}).init({"a": 1.0})
    ),
    "mask of arrays": (
        ArgumentError, "bool is expected",
        lambda: optim.masked(optim.scale(1.0), [np.array([True, False])]).init([np.ones(2)]),
    ),
    "no steps": (ArgumentError, "0 steps", lambda: optim.linear_schedule(0.0, 1.0, 0)),
    "negative start": (ArgumentError, "-1", lambda: optim.exponential_decay(0.0, 1, 0.5, -1)),
    "no rate": (ArgumentError, "rate", lambda: optim.exponential_decay(1.0, 1, 0.0)),
    "short decay": (
        ArgumentError, "rise", lambda: optim.warmup_cosine_decay_schedule(0.0, 1.0, 10, 10)
    ),
    "boundaries": (
        ArgumentError, "one boundary", lambda: optim.join_schedules([lambda k: 1.0], [3])
    ),
}  # fmt: skip


PARTS: dict[str, Callable[[], Any]] = {
    "trace": lambda: optim.trace(0.9),
    "adam": optim.scale_by_adam,
    "lion": optim.scale_by_lion,
    "rms": optim.scale_by_rms,
    "rms with count": lambda: optim.scale_by_rms(bias_correction=True),
    "centered": optim.scale_by_stddev,
    "centered with count": lambda: optim.scale_by_stddev(bias_correction=True),
    "lbfgs": optim.scale_by_lbfgs,
    "search": lambda: optim.scale_by_zoom_linesearch(3),
    "schedule": lambda: optim.scale_by_schedule(lambda k: 1.0),
    "decay": lambda: optim.add_decayed_weights(lambda k: 0.1),
    "masked": lambda: optim.masked(optim.scale_by_adam(), {"w": True, "b": False}),
    "chain": lambda: optim.chain(optim.scale_by_adam(), optim.scale(1.0)),
}


@pytest.mark.parametrize("name", PARTS)
def test_states_of_other_transformations_are_refused(name: str) -> None:
    p = {"w": np.ones(2), "b": np.ones(1)}
    tx = PARTS[name]()
    states = {other: make().init(p) for other, make in PARTS.items()}
    for other, state in {**states, "none": None, "empty": (), "number": 1.0}.items():
        if getattr(type(state), "_fields", other) == getattr(type(states[name]), "_fields", name):
            continue
        with pytest.raises(ArgumentError, match="init"):
            tx.update(p, state, p)


@pytest.mark.parametrize("name", [name for name in RULES if name not in ("sgd", "scheduled")])
def test_leaves_of_another_shape_are_refused(name: str) -> None:
    """No gradient is broadcast against a state, or a parameter, of another shape."""
    tx, p = RULES[name](0.1), {"w": np.ones((3, 1)), "b": np.ones(3)}
    if name != "clipped":
        with pytest.raises(ShapeError, match=r"'w'.*\(3, 3\).*\(3, 1\)"):
            tx.update({"w": np.ones((3, 3)), "b": np.ones(3)}, tx.init(p), p)
    if name in ("adamw", "lion"):
        with pytest.raises(ShapeError, match=r"'w'.*\(3, 1\).*\(3,\)"):
            tx.update(p, tx.init(p), {"w": np.ones(3), "b": np.ones(3)})


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("name", ["adam", "nadam", "rmsprop", "rmsprop centered"])
def test_gradients_of_float16_are_scaled_as_those_of_float32(name: str, jitted: bool) -> None:
    """Zeros, and numbers whose squares float16 does not have."""
    tx, g = RULES[name](0.1), np.array([0.0, 1e-4, 1.0, 300.0], np.float16)
    update: Any = ft.jit(tx.update) if jitted else tx.update
    found, state = update(g, tx.init(g))
    wide: Any = g.astype("f4")
    wanted, _ = tx.update(wide, tx.init(wide))
    assert found.dtype == np.float16
    assert {np.asarray(x).dtype.char for x in ft.tree.leaves(state)} <= {"e", "i"}
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-7)


@pytest.mark.parametrize("x", [np.arange(3), 2, np.array([True])])
def test_parameters_of_integers_are_refused(x: Any) -> None:
    """Means of their gradients would be rounded to integers at each step."""
    for make in (optim.adam, optim.lion, optim.rmsprop, lambda rate: optim.sgd(rate, 0.9)):
        with pytest.raises(DtypeError, match=r"'n'.*parameters"):
            make(0.1).init({"n": x})
        tx = optim.masked(make(0.1), {"n": False, "w": True})
        p = {"n": x, "w": np.ones(2)}
        updates, _ = tx.update(p, tx.init(p), p)
        assert updates["n"] is x


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_reported(name: str) -> None:
    kind, words, f = WRONG[name]
    with pytest.raises(kind, match=words) as raised:
        f()
    assert "fix:" in str(raised.value)


def test_names_of_optax_are_known() -> None:
    with pytest.raises(AttributeError, match=r"functrace\.optim"):
        _ = ft.optax  # type: ignore[attr-defined]
