"""Budgets from 5 % to 100 % of the plain peak, on works of different kinds: what is measured is
within the budget, no bit changes, and less memory never costs less."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import functrace as ft
from functrace.api.residuals.budget import frontier_of
from functrace.api.residuals.derivative_costs import derivative_program, peak
from functrace.errors import ArgumentError
from functrace.executor.plan.planner import plan as planned
from functrace.ir.cost import program_flops
from functrace.tree import leaves

RNG = np.random.default_rng(3)
Work = tuple[Callable[..., Any], tuple[Any, ...]]

AROUND = 100_000
"""Bytes: what un-jitted transforms and Python need besides arrays."""


def mlp() -> Work:
    sizes = [128, 192, 64, 192, 32, 128, 16]
    ws = [0.1 * RNG.standard_normal(pair) for pair in itertools.pairwise(sizes)]
    bs = [0.1 * RNG.standard_normal(n) for n in sizes[1:]]
    x = RNG.standard_normal((512, 128))

    def loss(ws: Any, bs: Any) -> Any:
        h: Any = x
        for w, b in zip(ws, bs, strict=True):
            h = np.tanh(h @ w + b)
        return np.mean(h**2)

    return loss, (ws, bs)


def deep_chain() -> Work:
    ws = [RNG.standard_normal((32, 32)) / 6.0 for _ in range(24)]
    rows = 0.1 * RNG.standard_normal((512, 32))

    def layers(ws: Any, h: Any) -> Any:
        for w in ws:
            h = np.arctan(np.sin(h @ w) + h)
        return np.sum(h * h)

    return layers, (ws, rows)


def skips() -> Work:
    ws = [RNG.standard_normal((64, 64)) / 8.0 for _ in range(8)]
    rows = 0.1 * RNG.standard_normal((512, 64))

    def net(ws: Any, h: Any) -> Any:
        down: list[Any] = []
        for w in ws[:4]:
            h = np.arctan(h @ w)
            down.append(h)
        for w, d in zip(ws[4:], down[::-1], strict=True):
            h = np.sin(h @ w) * np.cos(d) + d
        return np.sum(h * h)

    return net, (ws, rows)


def scan() -> Work:
    w = RNG.standard_normal((64, 64)) / 8.0
    rows = 0.1 * RNG.standard_normal((256, 64))

    def f(w: Any, h: Any) -> Any:
        step = lambda h, _: (np.arctan(np.sin(h @ w) + h), None)
        return np.sum(ft.scan(step, h, np.arange(16.0))[0] ** 2)

    return f, (w, rows)


def attention() -> Work:
    blocks = [[RNG.standard_normal((32, 32)) / 6.0 for _ in range(4)] for _ in range(3)]
    rows = 0.1 * RNG.standard_normal((192, 32))

    def softmax(a: Any) -> Any:
        e = np.exp(a - np.max(a, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    def f(blocks: Any, x: Any) -> Any:
        for q, k, v, o in blocks:
            x = x + np.tanh(softmax((x @ q) @ (x @ k).T / 6.0) @ (x @ v)) @ o
        return np.sum(x * x)

    return f, (blocks, rows)


def loops() -> Work:
    x = np.linspace(0.1, 1.0, 20_000)

    def f(x: Any) -> Any:
        total: Any = 0.0
        for i in range(4):
            y = x * (i + 1)
            for _ in range(5):
                y = np.sin(y) + 0.1 * np.sqrt(y * y + 1.0)
            total = total + np.sum(y * y)
        return total

    return f, (x,)


def windows() -> Work:
    """A chain of convolutions of images of several channels."""
    ws = [RNG.standard_normal((4, 4, 3, 3)) / 6.0 for _ in range(8)]
    x = RNG.standard_normal((2, 4, 24, 24))

    def f(ws: Any, h: Any) -> Any:
        for w in ws:
            around = np.pad(h, ((0, 0), (0, 0), (1, 1), (1, 1)))
            h = np.tanh(
                np.einsum("bchwij,ocij->bohw", sliding_window_view(around, (3, 3), (2, 3)), w)
            )
        return np.sum(h * h)

    return f, (ws, x)


def shifts() -> Work:
    """A chain of convolutions as sums of shifted images; the filters are not differentiated."""
    ws, x = [RNG.standard_normal((3, 3)) / 3.0 for _ in range(8)], RNG.standard_normal((96, 96))

    def f(h: Any) -> Any:
        for w in ws:
            around, total = np.pad(h, 1), 0.0 * h
            for i, j in np.ndindex(3, 3):
                total = total + w[i, j] * around[i : i + 96, j : j + 96]
            h = np.arctan(total)
        return np.sum(h * h)

    return f, (x,)


def signals() -> Work:
    """A chain of `numpy.convolve`."""
    ws, x = [RNG.standard_normal(9) / 3.0 for _ in range(12)], RNG.standard_normal(16_384)

    def f(ws: Any, h: Any) -> Any:
        for w in ws:
            h = np.tanh(np.convolve(h, w, "same"))
        return np.sum(h * h)

    return f, (ws, x)


def u_net() -> Work:
    """Halved and doubled resolutions, with skips."""
    ws = [RNG.standard_normal((8, 8)) / 3.0 for _ in range(9)]
    x = RNG.standard_normal((32, 32, 8))

    def f(ws: Any, h: Any) -> Any:
        skips: list[Any] = []
        for w in ws[:3]:
            h = np.arctan(h @ w)
            skips.append(h)
            h = h.reshape(h.shape[0] // 2, 2, h.shape[1] // 2, 2, 8).mean((1, 3))
        for w in ws[3:6]:
            h = h + np.sin(h @ w)
        for w, skip in zip(ws[6:], skips[::-1], strict=True):
            h = np.repeat(np.repeat(h, 2, 0), 2, 1)
            h = np.arctan((h + skip) @ w) * np.cos(skip)
        return np.sum(h * h)

    return f, (ws, x)


def nested_scans() -> Work:
    rows = 0.1 * RNG.standard_normal((128, 32))

    def f(h: Any) -> Any:
        inner = lambda h, _: (np.arctan(np.sin(h) + h * 0.3), None)
        outer = lambda h, _: (np.tanh(ft.scan(inner, h, np.arange(4.0))[0]), None)
        return np.sum(ft.scan(outer, h, np.arange(6.0))[0] ** 2)

    return f, (rows,)


WORKS = (
    mlp, deep_chain, skips, scan, attention, loops, windows, shifts, signals, u_net, nested_scans,
)  # fmt: skip
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
REACHED = {
    "mlp": 0.9,
    "deep_chain": 0.25,
    "skips": 0.65,
    "scan": 0.4,
    "attention": 0.5,
    "loops": 0.2,
    "windows": 0.3,
    "shifts": 0.7,
    "signals": 0.5,
    "u_net": 0.7,
    "nested_scans": 0.4,
}
"""Smallest budget, as a fraction of the plain peak, that must be possible at least."""

every_work = pytest.mark.parametrize("work", WORKS, ids=[w.__name__ for w in WORKS])


def gradient_of(f: Any, args: tuple[Any, ...]) -> Callable[..., Any]:
    return ft.grad(f, argnums=tuple(range(len(args))))


def measured(run: Callable[..., Any], args: tuple[Any, ...]) -> int:
    tracemalloc.start()
    run(*args)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.full
@pytest.mark.bits
@every_work
def test_every_budget_is_kept_and_less_memory_never_costs_less(work: Callable[[], Work]) -> None:
    f, args = work()
    program = ft.trace(f)(*args).interned()
    whole = peak(program)
    given = sum([leaf.nbytes for leaf in leaves(args)])
    expected = leaves(gradient_of(f, args)(*args))
    costs: list[float] = []
    for share in SHARES:
        nbytes = int(share * whole)
        bounded = gradient_of(ft.checkpoint(f, policy=ft.policies.budget(nbytes)), args)
        try:
            found = bounded(*args)
        except ArgumentError as error:
            assert "needs" in str(error)
            assert not costs, "a larger budget than a possible one is possible"
            assert share < REACHED[work.__name__]
            continue
        for a, b in zip(leaves(bounded(*args)), expected, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
        assert measured(bounded, args) <= nbytes + AROUND  # with copies of arguments
        jitted = ft.jit(bounded)
        for a, b in zip(leaves(jitted(*args)), expected, strict=True):  # jit reorders some sums
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
        assert measured(jitted, args) + given <= nbytes + AROUND
        for a, b in zip(leaves(found), expected, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
        made = ft.plan(f, budget=nbytes)(*args)
        assert made.peak_bytes <= nbytes
        costs.append(made.extra)
    assert costs == sorted(costs, reverse=True)


@every_work
def test_operations_that_run_again_are_those_of_the_executed_program(
    work: Callable[[], Work],
) -> None:
    f, args = work()
    program = ft.trace(f)(*args).interned()
    frontier = frontier_of(program, "flops")
    plain = program_flops(planned(derivative_program(program)).program)
    for choice in frontier.points()[:: max(1, len(frontier.points()) // 4)]:
        made = program_flops(planned(derivative_program(choice.program)).program)
        # (A pass may merge one negation less where cotangents of a skip are added.)
        assert made - plain == pytest.approx(choice.candidate.extra, abs=0.03 * frontier.total)


# -- reports ---------------------------------------------------------------------------------------


def small(x: Any) -> Any:
    for _ in range(12):
        x = np.sin(np.cumsum(x))
    return np.sum(x)


X = np.linspace(0.0, 1e-3, 2000)


def test_plan_reports_what_a_budget_chooses(tmp_path: Any) -> None:
    plan = ft.plan(small, budget="150 KB")(X)
    assert plan.peak_bytes <= 150_000 < plan.plain_bytes
    assert plan.least_bytes <= plan.peak_bytes
    assert 0.0 < plan.slowdown < 1.0 and plan.gap >= 0.0
    assert sum([row.cost for row in plan.recomputed]) == pytest.approx(plan.extra)
    assert plan.extra == pytest.approx(plan.slowdown * plan.forward)
    text = str(plan)
    assert "150,000 bytes" in text and "runs again" in text and "np.sin" in text
    pytest.importorskip("matplotlib")
    points = plan.pareto(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert points[0] == (plan.plain_bytes, 0.0, 0.0)
    assert points[-1].peak_bytes == plan.least_bytes
    for a, b in itertools.pairwise(points):
        assert a.peak_bytes > b.peak_bytes and a.extra < b.extra


def test_auto_chooses_a_point_below_the_line_between_the_ends() -> None:
    plan = ft.plan(small)(X)
    points = plan.pareto()
    first, last = points[0], points[-1]
    assert plan.peak_bytes in [point.peak_bytes for point in points]
    saved = (first.peak_bytes - plan.peak_bytes) / (first.peak_bytes - last.peak_bytes)
    assert saved > plan.extra / last.extra
    automatic = ft.checkpoint(small, policy=ft.policies.budget("auto"))
    np.testing.assert_array_equal(ft.grad(automatic)(X), ft.grad(small)(X))


def test_seconds_as_cost() -> None:
    plan = ft.plan(small, budget="150 KB", cost="time")(X)
    assert 0.0 < plan.extra < 10.0 and plan.peak_bytes <= 150_000
    with pytest.raises(ArgumentError, match="cost"):
        ft.policies.budget("1 MB", cost="money")  # pyright: ignore[reportArgumentType]


def test_the_smallest_budget_that_the_message_names_is_possible() -> None:
    with pytest.raises(ArgumentError, match=r"needs [0-9,]+ bytes") as caught:
        ft.plan(small, budget=1)(X)
    least = int(str(caught.value).partition("needs ")[2].partition(" bytes")[0].replace(",", ""))
    assert ft.plan(small, budget=least)(X).peak_bytes == least
    with pytest.raises(ArgumentError):
        ft.plan(small, budget=least - 1)(X)


def test_without_scipy_the_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functrace.api.residuals.selections.has_solver", lambda: False)
    monkeypatch.setattr("functrace.api.residuals.frontier.has_solver", lambda: False)
    plan = ft.plan(lambda x: small(x) * 2.0, budget="150 KB")(X)
    assert "SciPy is not installed" in plan.method
    assert plan.peak_bytes <= 150_000


def test_captured_arrays_have_no_gradients() -> None:
    ws = [np.ones(2000) * k for k in range(12)]

    def f(x: Any, ws: Any = ws) -> Any:
        for w in ws:
            x = np.sin(x) * w
        return np.sum(x)

    both = ft.plan(f, budget="1 MB")(X, ws).plain_bytes
    assert ft.plan(f, budget="1 MB")(X).plain_bytes <= both - 11 * X.nbytes
    nbytes = ft.plan(f, budget="1 MB")(X).plain_bytes + 20_000
    bounded = ft.checkpoint(f, policy=ft.policies.budget(nbytes))
    np.testing.assert_array_equal(ft.grad(bounded)(X), ft.grad(f)(X))
    with ft.residual_policy(ft.policies.budget(nbytes)):
        found = ft.grad(f)(X)
    np.testing.assert_array_equal(found, ft.grad(f)(X))


def test_the_gradient_by_a_short_filter_takes_little_memory() -> None:
    x, w = np.ones(1 << 15), np.ones(5)
    run = ft.grad(lambda w: np.sum(np.convolve(x, w) ** 2))
    run(w)
    assert measured(run, (w,)) < 4.5 * x.nbytes
    program = ft.trace(run)(w)
    assert program_flops(program) < 100 * x.size


# -- vmap ------------------------------------------------------------------------------------------

BATCHED: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "vmap of grad": lambda f: ft.vmap(ft.grad(f)),
    "grad of vmap": lambda f: ft.grad(lambda xs: np.sum(ft.vmap(f)(xs))),
    "vmap of vmap": lambda f: lambda xs: ft.vmap(ft.vmap(ft.grad(f)))(xs.reshape(2, 3, -1)),
    "jit of vmap": lambda f: ft.jit(ft.vmap(ft.grad(f))),
}


@pytest.mark.parametrize("name", BATCHED)
def test_all_examples_count(name: str) -> None:
    batch = np.stack([X * (k + 1) for k in range(6)])
    nbytes = 800_000
    alone = ft.plan(small, budget=nbytes)(X)
    assert alone.extra == 0.0, "one example fits"
    bounded = ft.checkpoint(small, policy=ft.policies.budget(nbytes))
    run, plain = BATCHED[name](bounded), BATCHED[name](small)
    found = run(batch)
    np.testing.assert_allclose(found, plain(batch), rtol=1e-12)
    for again in (run, plain):
        again(batch)
    assert measured(plain, (batch,)) > nbytes + AROUND
    assert measured(run, (batch,)) <= nbytes + AROUND
    with pytest.raises(ArgumentError, match="needs"):
        BATCHED[name](ft.checkpoint(small, policy=ft.policies.budget(200_000)))(batch)
