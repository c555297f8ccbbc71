"""Loops with ``checkpoint=``: derivatives as of the loop without it, the number of steps that run,
and the memory that they take.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import functrace as ft
from functrace.control.schedules import binomial_cost
from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.policies import binomial
from functrace.tracing.binding import bind
from tests.oracles import assert_same

RNG = np.random.default_rng(3)
N = 23
W = RNG.normal(size=(3, 3)) * 0.6
XS = RNG.normal(size=(N, 3))
C0 = RNG.normal(size=3)
CHECKPOINTS = [1, 5, N, 40, "sqrt", binomial(1), binomial(2), binomial(4), binomial(30)]


def simulation(checkpoint: Any, reverse: bool = False) -> Callable[..., Any]:
    """A loop with a matrix that it closes over, slices, results, an integer carry and a dead one."""

    def f(w: Any, c: Any, xs: Any) -> Any:
        def step(carry: Any, x: Any) -> Any:
            h, count, unused = carry
            h = np.tanh(w @ h + x * np.cos(h)) * (1.0 + 0.1 * (count % 3))
            return (h, count + 1, unused * 1.5), {"y": h * x, "count": count}

        start = (c, np.int64(0), np.ones(2))
        (h, count, _), ys = ft.scan(step, start, xs, reverse=reverse, checkpoint=checkpoint)
        return np.sum(h**2) + np.sum(ys["y"] * np.sin(ys["y"])) + 0.0 * count

    return f


def same(a: Any, b: Any) -> None:
    for x, y in zip(ft.tree.leaves(a), ft.tree.leaves(b), strict=True):
        assert_same(x, y)


def close(a: Any, b: Any) -> None:
    for x, y in zip(ft.tree.leaves(a), ft.tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("checkpoint", CHECKPOINTS, ids=str)
def test_gradients_have_the_bits_of_the_plain_loop(checkpoint: Any, reverse: bool) -> None:
    f, plain = simulation(checkpoint, reverse), simulation(None, reverse)
    same(f(W, C0, XS), plain(W, C0, XS))
    expected = ft.value_and_grad(plain, (0, 1, 2))(W, C0, XS)
    same(ft.value_and_grad(f, (0, 1, 2))(W, C0, XS), expected)
    same(ft.jit(ft.value_and_grad(f, (0, 1, 2)))(W, C0, XS), expected)


def by_differences(f: Callable[[Any], Any], x: Any) -> Any:
    step = 1e-6
    units = step * np.eye(x.size).reshape(-1, *x.shape)
    return np.array([(f(x + e) - f(x - e)) / (2 * step) for e in units]).reshape(x.shape)


def test_gradients_are_those_of_differences() -> None:
    f = simulation(binomial(3))
    close_to = by_differences(lambda c: f(W, c, XS), C0)
    np.testing.assert_allclose(ft.grad(f, 1)(W, C0, XS), close_to, rtol=1e-6, atol=1e-7)


BATCH = RNG.normal(size=(4, 3))
TRANSFORMS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "vmap of grad": lambda f: ft.vmap(ft.grad(lambda c: f(W, c, XS)))(BATCH),
    "vmap of grad by a shared matrix": lambda f: ft.vmap(
        ft.grad(lambda w, c: f(w, c, XS)), (None, 0)
    )(W, BATCH),
    "grad of vmap": lambda f: ft.grad(lambda b: np.sum(ft.vmap(lambda c: f(W, c, XS))(b)))(BATCH),
    "hessian": lambda f: ft.hessian(lambda c: f(W, c, XS))(C0),
    "jit of hessian": lambda f: ft.jit(ft.hessian(lambda c: f(W, c, XS)))(C0),
    "reverse over reverse": lambda f: ft.grad(
        lambda w: np.sum(ft.grad(lambda c: f(w, c, XS))(C0) ** 2)
    )(W),
    "third": lambda f: ft.jvp(ft.hessian(lambda c: f(W, c, XS)), (C0,), (BATCH[0],))[1],
    "vmap of hessian": lambda f: ft.vmap(ft.hessian(lambda c: f(W, c, XS)))(BATCH),
    "jvp": lambda f: ft.jvp(f, (W, C0, XS), (W, C0, XS)),
    "linearize": lambda f: ft.linearize(lambda c: f(W, c, XS), C0)[1](BATCH[1]),
    "pullback, twice": lambda f: [ft.vjp(lambda c: f(W, c, XS), C0)[1](1.0) for _ in range(2)],
    "in checkpoint": lambda f: ft.grad(ft.checkpoint(lambda c: f(W, c, XS)))(C0),
    "in a scan": lambda f: ft.grad(
        lambda c: np.sum(ft.scan(lambda c, x: (np.sin(c) * f(W, c, XS[:7]), None), c, XS[:3])[0])
    )(C0),
    "in a scan with checkpoint": lambda f: ft.grad(
        lambda c: np.sum(
            ft.scan(lambda c, x: (np.sin(c + x) * f(W, c, XS[:7]), None), c, XS[:5], checkpoint=2)[
                0
            ]
        )
    )(C0),
    "native": lambda f: ft.jit(ft.grad(f, (0, 1, 2)), backend="native")(W, C0, XS),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("checkpoint", [4, binomial(3)], ids=str)
def test_every_transform(transform: Any, checkpoint: Any) -> None:
    same(transform(simulation(checkpoint)), transform(simulation(None)))


@given(st.integers(1, 14), st.integers(1, 6), st.booleans())
def test_any_number_of_steps(steps: int, number: int, is_binomial: bool) -> None:
    chosen: Any = binomial(number) if is_binomial else number
    xs = XS[:steps]
    same(ft.grad(simulation(chosen), 1)(W, C0, xs), ft.grad(simulation(None), 1)(W, C0, xs))


def test_no_steps_and_no_carry() -> None:
    same(ft.grad(simulation(binomial(2)), 1)(W, C0, XS[:0]), 2.0 * C0)
    for checkpoint in (None, 3, binomial(2)):
        f = lambda xs, k=checkpoint: np.sum(
            ft.scan(lambda c, x: (None, np.sin(x) ** 2), None, xs, checkpoint=k)[1]
        )
        np.testing.assert_allclose(ft.grad(f)(XS), np.sin(2 * XS), rtol=1e-13)


def test_memory_order_of_a_carry_is_kept() -> None:
    """Products of arrays in another order round otherwise."""
    a = np.asfortranarray(RNG.normal(size=(17, 33)))
    m = RNG.normal(size=(33, 33)) * 0.2

    def f(a: Any, checkpoint: Any = None) -> Any:
        return np.sum(ft.fori_loop(0, 12, lambda i, h: np.tanh(h @ m).T.copy().T, a,
                                   checkpoint=checkpoint))  # fmt: skip

    for checkpoint in (3, binomial(3)):
        same(ft.grad(lambda a, k=checkpoint: f(a, k))(a), ft.grad(f)(a))


def test_random_keys_are_carried() -> None:
    def f(c: Any, checkpoint: Any) -> Any:
        def step(i: Any, state: Any) -> Any:
            c, key = state
            key, own = ft.random.split(key)
            return np.sin(c) + 0.1 * c * ft.random.normal(own, (3,)), key

        return np.sum(ft.fori_loop(0, 9, step, (c, ft.random.key(4)), checkpoint=checkpoint)[0])

    same(ft.grad(f)(C0, binomial(2)), ft.grad(f)(C0, None))


# -- counts ----------------------------------------------------------------------------------------

COUNT = [0]


def _counted(x: Any) -> Any:
    COUNT[0] += 1
    return x * 1.0


counted_p = ft.ir.Primitive(
    "counted",
    eval=_counted,
    aval=lambda x: x,
    jvp=lambda primals, outputs, tangents: tangents[0],
    transpose=lambda ct, x: (ct,),
    batch=lambda operands, flags: bind(counted_p, operands, ()),
    effects=True,
)
"""The identity; it counts its runs. Its derivative does not read its value."""


def steps_taken(transform: Callable[..., Any], steps: int, checkpoint: Any) -> int:
    """Run a gradient; return how often the step ran, besides the residuals in its own reverse."""

    def f(x: Any) -> Any:
        step = lambda i, h: bind(counted_p, (np.sin(h),), ())
        return np.sum(ft.fori_loop(0, steps, step, x, checkpoint=checkpoint))

    COUNT[0] = 0
    transform(f)(np.linspace(0.1, 1.0, 3))
    return COUNT[0]


@pytest.mark.parametrize("transform", [ft.grad, lambda f: ft.jit(ft.grad(f))], ids=["grad", "jit"])
def test_steps_that_run_are_the_binomial_optimum(transform: Any) -> None:
    """One more step runs: the last one of the forward sweep, for the value."""
    for steps, slots, fewest in ((1000, 10, 3636), (1000, 31, 2439), (17, 2, 50)):
        assert binomial_cost(steps, slots) == fewest
        assert steps_taken(transform, steps, binomial(slots)) == fewest + 1


@pytest.mark.full
def test_steps_that_run_in_a_long_loop() -> None:
    assert steps_taken(ft.grad, 10_000, binomial(100)) == 24_747 + 1


def test_every_part_runs_twice() -> None:
    assert steps_taken(ft.grad, 100, "sqrt") == 200
    assert steps_taken(ft.grad, 100, None) == 100


# -- memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slots", "steps"), [(5, 200), (20, 200)])
@pytest.mark.parametrize("transform", [ft.grad, lambda f: ft.jit(ft.grad(f))], ids=["grad", "jit"])
def test_memory_is_that_of_the_slots_and_one_step(transform: Any, slots: int, steps: int) -> None:
    x = np.linspace(0.0, 1.0, 20_000)

    def peak(checkpoint: Any) -> float:
        def f(x: Any) -> Any:
            step = lambda i, h: h + 1e-2 * np.sin(h)
            return np.sum(ft.fori_loop(0, steps, step, x, checkpoint=checkpoint))

        g = transform(f)
        g(x)
        tracemalloc.start()
        g(x)
        found = tracemalloc.get_traced_memory()[1] / x.nbytes
        tracemalloc.stop()
        return found

    assert peak(binomial(slots)) < slots + 6.5
    assert peak(None) > steps


def test_a_long_loop_needs_no_array_of_its_steps() -> None:
    def f(x: Any) -> Any:
        step = lambda i, h: np.sin(h) + 1e-6 * i
        return np.sum(ft.fori_loop(5, 10**6, step, x, checkpoint=binomial(3)))

    program = ft.trace(ft.grad(f))(C0)
    assert all(program.avals[i].size < 10 for i in program.constant_values)


def test_numbers_of_steps_in_a_checkpointed_fori_loop() -> None:
    for lower, upper in ((0, 5), (-3, 4), (2, 2), (7, 1), (np.int8(120), np.int8(127)),
                         (np.uint8(250), np.uint8(255)), (np.int64(3), 9)):  # fmt: skip

        def f(x: Any, checkpoint: Any, lower: Any = lower, upper: Any = upper) -> Any:
            step = lambda i, h: h * 1.5 + 1.0 * i * np.sin(h)
            return np.sum(ft.fori_loop(lower, upper, step, x, checkpoint=checkpoint))

        for transform in (lambda g: g, ft.value_and_grad, lambda g: ft.jit(ft.grad(g))):
            same(
                transform(lambda x: f(x, binomial(2)))(C0),
                transform(lambda x: f(x, None))(C0),
            )


# -- loops of unknown length -----------------------------------------------------------------------


def halving(checkpoint: Any, most: int | None = None) -> Callable[..., Any]:
    """A loop whose number of steps depends on its values."""

    def f(x: Any, scale: Any = 0.93) -> Any:
        step = lambda s: (s[0] + 1, np.sin(s[1]) * scale + 0.01 * s[1] ** 2)
        goes_on = lambda s: np.sum(s[1] ** 2) > 0.05
        start = (np.int64(0), x)
        count, end = ft.while_loop(goes_on, step, start, checkpoint=checkpoint, max_steps=most)
        return np.sum(end * (1.0 + 0.1 * end)) + 0.0 * count

    return f


ONLINE = [binomial(1), binomial(2), binomial(5), binomial(100)]


@pytest.mark.parametrize("checkpoint", ONLINE, ids=str)
def test_a_loop_of_unknown_length(checkpoint: Any) -> None:
    f, plain = halving(checkpoint), halving(None)
    for start in (0.01, 0.4, 1.0, 3.0):
        x = start * np.abs(C0)
        expected = ft.value_and_grad(plain, (0, 1))(x, 0.93)
        same(ft.value_and_grad(f, (0, 1))(x, 0.93), expected)
        same(ft.jit(ft.value_and_grad(f, (0, 1)))(x, 0.93), expected)
        np.testing.assert_allclose(ft.grad(f)(x), by_differences(f, x), rtol=1e-5, atol=1e-7)


UNKNOWN: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "vmap of grad": lambda f: ft.vmap(ft.grad(f))(np.abs(BATCH)),
    "grad of vmap": lambda f: ft.grad(lambda b: np.sum(ft.vmap(f)(b)))(np.abs(BATCH)),
    "hessian": lambda f: ft.hessian(f)(np.abs(C0)),
    "vmap of hessian": lambda f: ft.vmap(ft.hessian(f))(np.abs(BATCH)),
    "reverse over reverse": lambda f: ft.grad(lambda x: np.sum(ft.grad(f)(x) ** 2))(np.abs(C0)),
    "linearize": lambda f: ft.linearize(f, np.abs(C0))[1](C0),
    "jvp": lambda f: ft.jvp(f, (np.abs(C0),), (C0,)),
    "native": lambda f: ft.jit(ft.grad(f), backend="native")(np.abs(C0)),
}


@pytest.mark.parametrize("transform", UNKNOWN.values(), ids=UNKNOWN)
def test_every_transform_of_a_loop_of_unknown_length(transform: Any) -> None:
    same(transform(halving(binomial(3))), transform(halving(None)))


def test_a_bound_that_is_traced() -> None:
    def f(x: Any, n: Any, checkpoint: Any) -> Any:
        return np.sum(
            ft.fori_loop(0, n, lambda i, h: np.sin(h) + 0.1 * i, x, checkpoint=checkpoint)
        )

    made = ft.jit(ft.grad(f), static_argnums=2)
    for n in (0, 1, 7, 30):
        same(made(C0, n, binomial(3)), made(C0, n, None))


def test_steps_of_a_loop_of_unknown_length() -> None:
    def f(x: Any) -> Any:
        step = lambda s: (s[0] + 1, bind(counted_p, (np.sin(s[1]),), ()))
        start = (np.int64(0), x)
        return np.sum(ft.while_loop(lambda s: s[0] < 1000, step, start, checkpoint=binomial(10))[1])

    COUNT[0] = 0
    ft.grad(f)(C0)
    assert 3636 < COUNT[0] < 1.4 * 3636


def test_max_steps_bounds_a_checkpointed_loop() -> None:
    same(ft.grad(halving("sqrt", 400))(np.abs(C0)), ft.grad(halving(None))(np.abs(C0)))
    same(ft.grad(halving(20, 400))(np.abs(C0)), ft.grad(halving(None))(np.abs(C0)))
    same(ft.grad(halving("sqrt", 10**9))(np.abs(C0)), ft.grad(halving(None))(np.abs(C0)))
    with pytest.raises(ArgumentError, match="max_steps=3"):
        ft.grad(halving(binomial(2), 3))(np.abs(C0))


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("checkpoint", [0, -1, 2.5, "root", True, [3], object()])
def test_what_is_no_checkpoint_raises(checkpoint: Any) -> None:
    with pytest.raises(ArgumentError, match="checkpoint"):
        ft.scan(lambda c, x: (c, None), C0, XS, checkpoint=checkpoint)


@pytest.mark.parametrize("slots", [0, -3, 1.5, True, "4"])
def test_what_is_no_number_of_slots_raises(slots: Any) -> None:
    with pytest.raises(ArgumentError, match="slots"):
        binomial(slots)


def test_a_loop_of_unknown_length_needs_slots() -> None:
    for checkpoint in (4, "sqrt"):
        with pytest.raises(ArgumentError, match="number of steps"):
            ft.grad(halving(checkpoint))(C0)


def test_unroll_with_checkpoint_raises() -> None:
    with pytest.raises(ArgumentError, match="unroll"):
        ft.scan(lambda c, x: (c, None), C0, XS, unroll=2, checkpoint=3)


def test_an_error_in_a_step_leaves_nothing_behind() -> None:
    def f(x: Any) -> Any:
        step = lambda i, h: np.sqrt(h - 0.5)
        with np.errstate(invalid="raise"):
            return np.sum(ft.fori_loop(0, 40, step, x, checkpoint=binomial(3)))

    with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
        ft.grad(f)(np.array([0.6]))
    same(ft.grad(simulation(3), 1)(W, C0, XS), ft.grad(simulation(None), 1)(W, C0, XS))


# -- forms -----------------------------------------------------------------------------------------


def test_programs_are_written_and_read_back() -> None:
    for f in (lambda c: simulation(binomial(3))(W, c, XS), halving(binomial(3))):
        program = ft.trace(ft.grad(f))(np.abs(C0))
        program.check()
        assert ft.Program.parse(program.text()) == program
        assert ft.Program.from_json(program.to_json()) == program
        same(ft.evaluate(program, np.abs(C0)), (ft.grad(f)(np.abs(C0)),))


def test_source_of_a_gradient() -> None:
    f = lambda c: simulation(binomial(3))(W, c, XS)
    space: dict[str, Any] = {}
    program = ft.trace(ft.grad(f))(C0)
    exec(program.as_python(), space)
    close(space[program.name](C0), ft.grad(f)(C0))


def test_no_form_in_xla_without_host_callbacks() -> None:
    pytest.importorskip("jax")
    with pytest.raises(UnsupportedFunctionError, match="host_callbacks"):
        ft.jit(ft.grad(simulation(3), 1), backend="xla")(W, C0, XS)
    close(ft.jit(simulation(3), backend="xla")(W, C0, XS), simulation(None)(W, C0, XS))
