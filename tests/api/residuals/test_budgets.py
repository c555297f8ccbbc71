"""`policies.budget`: the derivative stays under so many bytes, and no bit of it changes."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.api.residuals.budget import Budget, choice, frontier_of, parsed_bytes, within
from functrace.api.residuals.derivative_costs import peak
from functrace.errors import ArgumentError
from tests.compositions.functions import BATCH, X, scalar
from tests.oracles import assert_same

RNG = np.random.default_rng(0)
WEIGHTS = [RNG.standard_normal((64, 64)) / 8.0 for _ in range(40)]
ROWS = 0.1 * RNG.standard_normal((512, 64))
GIVEN = ROWS.nbytes + sum([w.nbytes for w in WEIGHTS])


def layers(ws: Any, h: Any) -> Any:
    for w in ws:
        h = np.arctan(np.sin(h @ w) + h)
    return np.sum(h * h)


@pytest.mark.parametrize(
    ("words", "nbytes"),
    [
        ("300 MB", 300 * 10**6),
        ("1.5GiB", 3 << 29),
        ("20 kb", 20_000),
        ("7 KiB", 7168),
        ("12 B", 12),
        (4096, 4096),
    ],
)
def test_sizes_are_numbers_or_words(words: Any, nbytes: int) -> None:
    assert parsed_bytes(words) == nbytes
    assert ft.policies.budget(words).nbytes == nbytes


@pytest.mark.parametrize("size", ["", "many", "3", "-3 MB", "0 MB", 0, -1, 2.5, None, True, "3 PB"])
def test_an_invalid_size_raises(size: Any) -> None:
    with pytest.raises(ArgumentError, match="budget"):
        ft.policies.budget(size)


@pytest.mark.full
@pytest.mark.bits
@pytest.mark.parametrize("share", [0.7, 0.5, 0.4])
def test_measured_memory_is_within_the_budget(share: float) -> None:
    program = ft.trace(layers)(WEIGHTS, ROWS)
    nbytes = int(share * peak(program))
    bounded = ft.grad(ft.checkpoint(layers, policy=ft.policies.budget(nbytes)))
    expected = ft.grad(layers)(WEIGHTS, ROWS)
    run = ft.jit(bounded)
    for gradient in (bounded, bounded, run):
        for a, b in zip(gradient(WEIGHTS, ROWS), expected, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
    tracemalloc.start()
    run(WEIGHTS, ROWS)
    measured = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert measured + GIVEN <= nbytes


def test_smaller_budget_rematerializes_more() -> None:
    program = ft.trace(layers)(WEIGHTS, ROWS)
    whole = peak(program)
    assert within(program, Budget(2 * whole)) is program

    frontier = frontier_of(program, "flops")
    found = [
        choice(frontier, Budget(int(share * whole))).candidate.extra for share in (0.8, 0.6, 0.4)
    ]
    assert 0 < found[0] < found[1] < found[2] < program.cost().flops


@pytest.mark.full
def test_infeasible_budget_raises_with_the_smallest_feasible_one() -> None:
    with pytest.raises(ArgumentError, match=r"needs [0-9,]+ bytes") as caught:
        ft.grad(ft.checkpoint(layers, policy=ft.policies.budget(GIVEN)))(WEIGHTS, ROWS)
    least = int(str(caught.value).partition("needs ")[2].partition(" bytes")[0].replace(",", ""))
    ft.grad(ft.checkpoint(layers, policy=ft.policies.budget(least)))(WEIGHTS, ROWS)


@scalar
@pytest.mark.bits
def test_derivatives_are_the_same_under_every_transform(f: Any) -> None:
    program = ft.trace(f)(X)
    for nbytes in range(int(0.8 * peak(program)), 0, -max(1, peak(program) // 8)):
        bounded = ft.checkpoint(f, policy=ft.policies.budget(nbytes))
        try:
            found = ft.grad(bounded)(X)
        except ArgumentError:
            break
        np.testing.assert_array_equal(found, ft.grad(f)(X))
        np.testing.assert_array_equal(bounded(X), f(X))
        np.testing.assert_allclose(ft.hessian(bounded)(X), ft.hessian(f)(X), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            ft.vmap(ft.grad(bounded))(BATCH), ft.vmap(ft.grad(f))(BATCH), rtol=1e-13, atol=1e-13
        )
        np.testing.assert_allclose(
            ft.jvp(bounded, (X,), (X,))[1], ft.jvp(f, (X,), (X,))[1], rtol=1e-13, atol=1e-13
        )


def test_inner_policies_and_prints_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    packed: list[int] = []

    def pack(x: Any) -> Any:
        packed.append(1)
        return x

    inner = ft.checkpoint(np.sin, policy=ft.policies.pack(pack, lambda x: x))

    def f(x: Any) -> Any:
        for k in range(12):
            x = np.cumsum(np.tanh(inner(x)))
            if k == 3:
                ft.debug.print("{}", np.sum(x))
        return np.sum(x)

    x = np.linspace(0.0, 1.0, 100)
    nbytes = int(0.7 * peak(ft.trace(f)(x)))
    capsys.readouterr()
    found = ft.grad(ft.checkpoint(f, policy=ft.policies.budget(nbytes)))(x)
    assert packed
    assert len(capsys.readouterr().out.splitlines()) == 1
    np.testing.assert_array_equal(found, ft.grad(f)(x))


# -- control flow ----------------------------------------------------------------------------------


def turn(v: Any) -> Any:
    return np.sin(v) * np.cos(v * v)


def counted(body: Any, v: Any, steps: int, most: int | None) -> Any:
    """Take steps of a `while_loop`."""
    return ft.while_loop(
        lambda s: s[0] < steps, lambda s: (s[0] + 1, body(s[1])), (0, v), max_steps=most
    )[1]


SCALES = np.linspace(0.5, 1.0, 8)
LOOPS: dict[str, Any] = {
    "scan": lambda x: ft.scan(lambda c, s: (turn(c) * s, None), x, SCALES)[0],
    "scan with results": lambda x: ft.scan(lambda c, s: (turn(c) * s, c), x, SCALES)[1],
    "fori_loop": lambda x: ft.fori_loop(0, 8, lambda i, c: turn(c), x),
    "fori_loop, every 4th carry": lambda x: ft.fori_loop(
        0, 16, lambda i, c: turn(turn(c)), x, checkpoint=4
    ),
    "fori_loop, square root of steps": lambda x: ft.fori_loop(
        0, 36, lambda i, c: turn(turn(c)), x, checkpoint="sqrt"
    ),
    "while_loop": lambda x: counted(turn, x, 8, 8),
    "while_loop, fewer steps": lambda x: counted(turn, x, 8, 20),
    "while_loop, twice": lambda x: counted(turn, counted(lambda v: np.sin(v) * v, x, 6, 6), 8, 8),
    "while_loop of numbers": lambda x: counted(np.sin, np.sum(x), 2000, 2000),
    "while_loop in scan": lambda x: ft.scan(
        lambda c, s: (counted(turn, c, 4, 4) * s, None), x, SCALES
    )[0],
    "while_loop in while_loop": lambda x: counted(lambda v: counted(turn, v, 4, 4), x, 3, 3),
    "while_loop in cond": lambda x: ft.cond(x[0] > 0, lambda v: counted(turn, v, 8, 8), turn, x),
    "while_loop of checkpoints": lambda x: counted(ft.checkpoint(lambda v: turn(turn(v))), x, 8, 8),
    "cond in scan": lambda x: ft.scan(
        lambda c, s: (ft.cond(s > 0.7, turn, np.sin, c), None), x, SCALES
    )[0],
    "map": lambda x: ft.map(lambda row: turn(turn(row)), x.reshape(40, -1)),
    "chain": lambda x: turn(turn(turn(turn(x)))),
}

AROUND = 100_000
"""Bytes: what un-jitted transforms and Python need besides arrays."""


def measured(run: Any, x: Any) -> int:
    tracemalloc.start()
    run(x)
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", LOOPS)
def test_peak_memory_of_control_flow_is_within_budget(name: str) -> None:
    x = np.linspace(0.1, 1.0, 40_000)
    f = lambda x: np.sum(LOOPS[name](x))
    expected = ft.grad(f)(x)
    with pytest.raises(ArgumentError, match=r"needs [0-9,]+ bytes") as caught:
        ft.jit(ft.grad(ft.checkpoint(f, policy=ft.policies.budget(1))))(x)
    least = int(str(caught.value).partition("needs ")[2].partition(" bytes")[0].replace(",", ""))
    gradient = ft.grad(ft.checkpoint(f, policy=ft.policies.budget(least)))
    for run in (gradient, ft.jit(gradient)):
        for _ in range(3):
            assert_same(run(x), expected, rtol=1e-12)
        assert measured(run, x) + x.nbytes <= least + AROUND


@pytest.mark.parametrize(
    "loop",
    [
        lambda x: counted(turn, x, 5, None),
        lambda x: ft.jit(lambda n: ft.fori_loop(0, n, lambda i, c: turn(c), x))(5),
        lambda x: ft.scan(lambda c, s: (counted(turn, c, 5, None), None), x, SCALES)[0],
        lambda x: counted(lambda v: counted(turn, v, 5, None), x, 3, 3),
    ],
)
def test_budget_of_a_loop_that_nothing_limits_raises(loop: Any) -> None:
    bounded = ft.checkpoint(lambda x: np.sum(loop(x)), policy=ft.policies.budget("1 GB"))
    with pytest.raises(ArgumentError, match="of an unbounded loop") as caught:
        ft.jit(ft.grad(bounded))(np.ones(3))
    assert "max_steps" in str(caught.value)


def test_budget_of_a_loop_that_keeps_nothing_does_not_depend_on_its_steps() -> None:
    def f(x: Any) -> Any:
        k = ft.while_loop(
            lambda k: k < 100, lambda k: 2 * k, ft.stop_gradient(np.sum(x)).astype(int) + 1
        )
        return np.sum(np.sin(x)) * k

    x = np.linspace(0.0, 1.0, 5)
    np.testing.assert_allclose(
        ft.grad(ft.checkpoint(f, policy=ft.policies.budget(4000)))(x),
        ft.grad(f)(x),
        rtol=1e-15,
        atol=0.0,
    )
