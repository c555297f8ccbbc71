"""`functrace.optim` against optax: every rule with several settings, for 20 steps; schedules; and
transformations of each library inside chains of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft

optax = pytest.importorskip("optax")
jax = pytest.importorskip("jax")
STEPS = 20


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def decaying(lib: Any) -> Any:
    """Mask that leaves biases out."""
    return {"layer": [True, False], "out": True}


def precise(o: Any, schedule: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A schedule in double precision, where JAX divides an int32 by a number in single precision."""
    return (lambda count: schedule(count.astype("float64"))) if o is optax else schedule


RULES: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda o: o.sgd(0.1),
    "sgd momentum": lambda o: o.sgd(0.1, momentum=0.9),
    "sgd nesterov": lambda o: o.sgd(0.1, momentum=0.9, nesterov=True),
    "sgd schedule": lambda o: o.sgd(precise(o, o.linear_schedule(0.3, 0.01, 10, 2)), momentum=0.5),
    "adam": lambda o: o.adam(0.05),
    "adam betas": lambda o: o.adam(0.05, b1=0.5, b2=0.9, eps=1e-3, eps_root=1e-4),
    "adam nesterov": lambda o: o.adam(0.05, nesterov=True),
    "adam schedule": lambda o: o.adam(
        precise(o, o.warmup_cosine_decay_schedule(0.0, 0.2, 5, 15, 0.01))
    ),
    "adamw": lambda o: o.adamw(0.05, weight_decay=0.1),
    "adamw mask": lambda o: o.adamw(0.05, weight_decay=0.1, mask=decaying),
    "adamw schedules": lambda o: o.adamw(
        precise(o, o.exponential_decay(0.1, 4, 0.5)),
        weight_decay=precise(o, o.linear_schedule(0.1, 0.0, 10)),
    ),
    "lion": lambda o: o.lion(0.02),
    "lion mask": lambda o: o.lion(0.02, b1=0.8, b2=0.9, weight_decay=0.1, mask=decaying(o)),
    "rmsprop": lambda o: o.rmsprop(0.02),
    "rmsprop outside": lambda o: o.rmsprop(0.02, decay=0.8, eps=1e-4, eps_in_sqrt=False),
    "rmsprop momentum": lambda o: o.rmsprop(0.02, initial_scale=1.0, momentum=0.9),
    "rmsprop nesterov": lambda o: o.rmsprop(
        0.02, momentum=0.9, nesterov=True, bias_correction=True
    ),
    "rmsprop centered": lambda o: o.rmsprop(0.02, centered=True, eps=1e-2),
    "rmsprop corrected": lambda o: o.rmsprop(
        0.02, centered=True, bias_correction=True, eps=1e-2, eps_in_sqrt=False, initial_scale=0.1
    ),
    "clip": lambda o: o.chain(o.clip(0.05), o.sgd(1.0)),
    "clip by global norm": lambda o: o.chain(o.clip_by_global_norm(0.1), o.adam(0.1)),
    "clip by block rms": lambda o: o.chain(o.clip_by_block_rms(0.02), o.sgd(1.0)),
    "masked": lambda o: o.chain(o.masked(o.trace(0.9), decaying), o.scale(-0.1)),
    "parts": lambda o: o.chain(
        o.trace(0.5, nesterov=True),
        o.add_decayed_weights(0.01, mask=decaying),
        o.scale_by_schedule(o.piecewise_constant_schedule(-0.1, {5: 0.5, 10: 3.0})),
    ),
    "scales": lambda o: o.chain(o.scale_by_lion(), o.scale_by_rms(), o.scale_by_learning_rate(0.1)),
    "deviation": lambda o: o.chain(o.scale_by_stddev(eps=0.1), o.scale_by_adam(), o.scale(-0.1)),
    "ascent": lambda o: o.scale_by_learning_rate(0.01, flip_sign=False),
}


def start(dtype: Any) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    w, b, out = rng.normal(size=(4, 5)), rng.normal(size=5), rng.normal(size=(5, 3))
    return {"layer": [w.astype(dtype), b.astype(dtype)], "out": out.astype(dtype)}


def data(dtype: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(7, 4)).astype(dtype), rng.normal(size=(7, 3)).astype(dtype)


def loss(xp: Any, params: Any, x: Any, y: Any) -> Any:
    w, b = params["layer"]
    return xp.mean((xp.tanh(x @ w + b) @ params["out"] - y) ** 2)


def close(found: Any, wanted: Any, rtol: float) -> None:
    pairs = zip(ft.tree.leaves(found), jax.tree.leaves(wanted), strict=True)
    for a, b in pairs:
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


def train(
    o: Any, tx: Any, params: Any, grad: Callable[..., Any], mixed: bool = False
) -> tuple[Any, Any]:
    state = tx.init(params)
    update = jax.jit(tx.update) if o is optax and not mixed else tx.update
    for _ in range(STEPS):
        updates, state = update(grad(params), state, params)
        params = o.apply_updates(params, updates)
    return params, state


def gradients(dtype: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    x, y = data(dtype)
    theirs = jax.jit(jax.grad(lambda p: loss(jax.numpy, p, x, y)))
    return ft.grad(lambda p: loss(np, p, x, y)), theirs


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", RULES)
def test_rules_take_the_steps_of_optax(name: str, dtype: str) -> None:
    ours, theirs = gradients(dtype)
    found, state = train(ft.optim, RULES[name](ft.optim), start(dtype), ours)
    wanted, state_there = train(
        optax, RULES[name](optax), jax.tree.map(jax.numpy.asarray, start(dtype)), theirs
    )
    assert all(leaf.dtype == dtype for leaf in ft.tree.leaves(found))
    rtol = 1e-11 if dtype == "float64" else 2e-4
    close(found, wanted, rtol)
    close(state, state_there, rtol)
    kinds = [type(s).__name__ for s in _nodes(state)]
    assert kinds == [type(s).__name__ for s in _nodes(state_there)]


def _nodes(state: Any) -> Iterator[Any]:
    """The named tuples of a state, in order."""
    if isinstance(state, tuple):
        if hasattr(state, "_fields"):
            yield state
        for part in state:
            yield from _nodes(part)


@pytest.mark.parametrize("mu_dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", ["adam", "lion"])
def test_means_of_another_dtype(name: str, mu_dtype: str) -> None:
    ours, theirs = gradients("float32")
    found, state = train(
        ft.optim, getattr(ft.optim, name)(0.01, mu_dtype=mu_dtype), start("float32"), ours
    )
    wanted, _ = train(
        optax,
        getattr(optax, name)(0.01, mu_dtype=mu_dtype),
        jax.tree.map(jax.numpy.asarray, start("float32")),
        theirs,
    )
    assert all(leaf.dtype == mu_dtype for leaf in ft.tree.leaves(state[0].mu))
    assert all(leaf.dtype == np.float32 for leaf in ft.tree.leaves(found))
    if name == "adam":  # (signs of sums that float16 rounds to 0 may differ)
        close(found, wanted, 2e-3)


def test_complex_parameters() -> None:
    rng = np.random.default_rng(2)
    z = rng.normal(size=3) + 1j * rng.normal(size=3)
    for name in ("sgd", "sgd momentum", "adam", "rmsprop", "clip by global norm"):
        found, wanted = z, jax.numpy.asarray(z)
        tx, tx_there = RULES[name](ft.optim), RULES[name](optax)
        state, state_there = tx.init(found), tx_there.init(wanted)
        for k in range(5):
            g = np.conj(z) * (k + 1)
            u, state = tx.update(g, state, found)
            v, state_there = tx_there.update(jax.numpy.asarray(g), state_there, wanted)
            found, wanted = ft.optim.apply_updates(found, u), optax.apply_updates(wanted, v)
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=name)


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "constant": lambda o: o.constant_schedule(0.3),
    "linear": lambda o: o.linear_schedule(0.1, 0.9, 10, 3),
    "polynomial": lambda o: o.polynomial_schedule(1.0, 0.1, 2.5, 7, 1),
    "exponential": lambda o: o.exponential_decay(1.0, 5, 0.5),
    "exponential staircase": lambda o: o.exponential_decay(1.0, 5, 0.5, 2, True, 0.2),
    "exponential growth": lambda o: o.exponential_decay(1.0, 5, 2.0, end_value=9.0),
    "cosine": lambda o: o.cosine_decay_schedule(0.7, 13, 0.1, 1.5),
    "warmup": lambda o: o.warmup_cosine_decay_schedule(0.1, 1.0, 4, 20, 0.05, 0.8),
    "no warmup": lambda o: o.warmup_cosine_decay_schedule(0.1, 1.0, 0, 20),
    "piecewise": lambda o: o.piecewise_constant_schedule(1.0, {3: 0.5, 8: 0.1}),
    "joined": lambda o: o.join_schedules(
        [o.constant_schedule(1.0), o.linear_schedule(1.0, 0.0, 5), o.constant_schedule(0.2)],
        [4, 12],
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    ours, theirs = SCHEDULES[name](ft.optim), SCHEDULES[name](optax)
    counts = range(30)
    wanted = [float(theirs(k)) for k in counts]
    np.testing.assert_allclose([float(ours(k)) for k in counts], wanted, rtol=1e-12, atol=1e-16)
    np.testing.assert_allclose(
        [float(ft.jit(ours)(np.int32(k))) for k in counts], wanted, rtol=1e-12, atol=1e-16
    )


@pytest.mark.full
def test_lbfgs_takes_the_steps_of_optax() -> None:
    def ours(p: Any) -> Any:
        return loss(np, p, *data("float64"))

    def theirs(p: Any) -> Any:
        return loss(jax.numpy, p, *data("float64"))

    for settings in ({}, {"memory_size": 3}, {"scale_init_precond": False, "learning_rate": 0.5}):
        tx, tx_there = ft.optim.lbfgs(**settings), optax.lbfgs(**settings)
        found, wanted = start("float64"), jax.tree.map(jax.numpy.asarray, start("float64"))
        state, state_there = tx.init(found), tx_there.init(wanted)
        f = ft.optim.value_and_grad_from_state(ours)
        g = jax.jit(optax.value_and_grad_from_state(theirs))
        update = jax.jit(
            lambda u, s, p, v, t=tx_there: t.update(u, s, p, value=v, grad=u, value_fn=theirs)
        )
        for _ in range(STEPS):
            value, grad = f(found, state=state)
            value_there, grad_there = g(wanted, state=state_there)
            u, state = tx.update(grad, state, found, value=value, grad=grad, value_fn=ours)
            v, state_there = update(grad_there, state_there, wanted, value_there)
            found, wanted = ft.optim.apply_updates(found, u), optax.apply_updates(wanted, v)
        close(found, wanted, 1e-6)
        close(state[-1].value, state_there[-1].value, 1e-9)


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["one", "keep"])
def test_line_search_takes_the_steps_of_optax(strategy: str) -> None:
    rng = np.random.default_rng(3)
    options: dict[str, Any] = {"max_linesearch_steps": 15, "initial_guess_strategy": strategy}
    for trial in range(4):
        a = rng.normal(size=(4, 4))
        x = rng.normal(size=4) * 10.0 ** rng.integers(-2, 2)
        rate = 10.0 ** rng.integers(-3, 3)

        def f(xp: Any, x: Any, a: Any = a) -> Any:
            return xp.sum(xp.sqrt(1.0 + (a @ x) ** 2)) + 0.1 * xp.sum(xp.sin(3.0 * x))

        def ours(x: Any, f: Any = f) -> Any:
            return f(np, x)

        def theirs(x: Any, f: Any = f) -> Any:
            return f(jax.numpy, x)

        if trial % 2:
            options["max_learning_rate"] = 2.0
        tx = ft.optim.chain(ft.optim.sgd(rate), ft.optim.scale_by_zoom_linesearch(**options))
        tx_there = optax.chain(optax.sgd(rate), optax.scale_by_zoom_linesearch(**options))
        found, wanted = x, jax.numpy.asarray(x)
        state, state_there = tx.init(found), tx_there.init(wanted)
        for _ in range(3):
            value, grad = ft.value_and_grad(ours)(found)
            u, state = tx.update(grad, state, found, value=value, grad=grad, value_fn=ours)
            value, grad = jax.value_and_grad(theirs)(wanted)
            v, state_there = tx_there.update(
                grad, state_there, wanted, value=value, grad=grad, value_fn=theirs
            )
            found, wanted = found + u, wanted + v
            info, info_there = state[-1].info, state_there[-1].info
            assert info.num_linesearch_steps == info_there.num_linesearch_steps
            np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


def test_transformations_of_optax_in_a_chain_of_ours() -> None:
    ours, theirs = gradients("float64")
    mixed = ft.optim.chain(
        optax.clip_by_global_norm(0.1), ft.optim.scale_by_adam(), optax.scale(-0.1)
    )
    found, _ = train(ft.optim, mixed, start("float64"), ours)
    pure = optax.chain(optax.clip_by_global_norm(0.1), optax.scale_by_adam(), optax.scale(-0.1))
    wanted, _ = train(optax, pure, jax.tree.map(jax.numpy.asarray, start("float64")), theirs)
    close(found, wanted, 1e-11)


def test_our_transformations_in_a_chain_of_optax() -> None:
    _, theirs = gradients("float64")
    params = jax.tree.map(jax.numpy.asarray, start("float64"))
    mixed = optax.chain(
        ft.optim.clip_by_global_norm(0.1), optax.scale_by_adam(), ft.optim.scale(-0.1)
    )
    found, _ = train(optax, mixed, params, theirs, mixed=True)
    pure = optax.chain(optax.clip_by_global_norm(0.1), optax.scale_by_adam(), optax.scale(-0.1))
    wanted, _ = train(optax, pure, params, theirs)
    close(found, wanted, 1e-11)


@pytest.mark.parametrize("name", ["adam", "adamw mask", "lion", "rmsprop centered", "sgd nesterov"])
def test_rules_of_optax_train_our_pytrees(name: str) -> None:
    """Whole steps of optax on NumPy arrays, with gradients of functrace."""
    ours, theirs = gradients("float64")
    found, _ = train(optax, RULES[name](optax), start("float64"), ours, mixed=True)
    wanted, _ = train(optax, RULES[name](optax), start("float64"), theirs)
    close(found, wanted, 1e-11)


def test_a_rule_of_optax_in_a_jitted_step() -> None:
    """`from_jax` records optax's update as an operation of our program, `to_jax` ours in JAX's."""
    ours, theirs = gradients("float64")
    tx, params = optax.adam(0.05), start("float64")
    update = ft.from_jax(lambda g, s, p: tx.update(g, s, p))
    state = tx.init(params)

    def step(p: Any, s: Any) -> Any:
        u, s = update(ours(p), s, p)
        return ft.optim.apply_updates(p, u), s

    found, now = params, jax.tree.map(np.asarray, state)
    for _ in range(5):
        found, now = ft.jit(step)(found, now)
    wanted = jax.tree.map(jax.numpy.asarray, params)
    mine = ft.optim.adam(0.05)
    there = jax.jit(ft.to_jax(lambda g, s: mine.update(g, s)))
    last = mine.init(params)
    for _ in range(5):
        u, last = there(theirs(wanted), last)
        wanted = optax.apply_updates(wanted, u)
    close(found, wanted, 1e-11)
