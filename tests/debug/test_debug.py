"""`functrace.debug`: number, order and values of debug calls under every transform."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.control import PRIMITIVES
from functrace.errors import ArgumentError

X = np.array([1.0, 2.0])
B = np.stack([X, X + 2.0])
SEEN: list[Any] = []


def note(x: Any) -> None:
    assert isinstance(x, np.ndarray | np.generic | int)
    SEEN.append(np.asarray(x).tolist())


@pytest.fixture(autouse=True)
def _forget() -> None:
    SEEN.clear()


def f(x: Any) -> Any:
    """Looks at a value that no result depends on, then at a constant."""
    ft.debug.callback(note, x * 10.0)
    ft.debug.callback(note, 7)
    return np.sum(x * x)


def loop(x: Any) -> Any:
    return ft.scan(lambda carry, s: (carry + f(x * s), s), np.float64(0.0), np.arange(3.0))[0]


def choice(x: Any) -> Any:
    return ft.cond(x[0] > 0, f, lambda x: 0.0, x)


def until(x: Any) -> Any:
    return np.sum(
        ft.while_loop(lambda c: c[0] < 3, lambda c: (ft.debug.callback(note, c), c + 1)[1], x)
    )


def custom(x: Any) -> Any:
    g = ft.custom_jvp(f)
    g.defjvp(
        lambda primals, tangents: (np.sum(primals[0] ** 2), np.sum(2 * primals[0] * tangents[0]))
    )
    return g(x)


def unread(x: Any) -> Any:
    f(x)
    return x * 2.0


ONCE = [[10.0, 20.0], 7]
EACH = [[10.0, 20.0], [30.0, 40.0], 7]
UNTIL = [[1.0, 2.0], [2.0, 3.0]]
LOOP = [[0.0, 0.0], 7, [10.0, 20.0], 7, [20.0, 40.0], 7]

CALLS: dict[str, tuple[Callable[[], Callable[[], Any]], list[Any]]] = {
    # what is made once, and run twice; and what is seen in one run
    "plain": (lambda: lambda: f(X), ONCE),
    "grad": (lambda: lambda: ft.grad(f)(X), ONCE),
    "jvp": (lambda: lambda: ft.jvp(f, (X,), (X,)), ONCE),
    "hessian": (lambda: lambda: ft.hessian(f)(X), ONCE),
    "jit": (lambda: called(ft.jit(f), X), ONCE),
    "jit of what is not read": (lambda: called(ft.jit(unread), X), ONCE),
    "jit in jit": (lambda: called(ft.jit(lambda x: ft.jit(f)(x) * 2.0), X), ONCE),
    "jit in jit, not read": (lambda: called(ft.jit(lambda x: (ft.jit(f)(x), x)[1]), X), ONCE),
    "grad of jit": (lambda: called(ft.grad(ft.jit(f)), X), ONCE),
    "jit of grad": (lambda: called(ft.jit(ft.grad(f)), X), ONCE),
    "jit of hessian": (lambda: called(ft.jit(ft.hessian(f)), X), ONCE),
    "jit of jacfwd": (lambda: called(ft.jit(ft.jacfwd(f)), X), ONCE),
    "jit of jvp": (lambda: called(ft.jit(lambda x: ft.jvp(f, (x,), (x,))[1]), X), ONCE),
    "vmap": (lambda: called(ft.vmap(f), B), EACH),
    "vmap of grad": (lambda: called(ft.vmap(ft.grad(f)), B), EACH),
    "grad of vmap": (lambda: called(ft.grad(lambda b: np.sum(ft.vmap(f)(b))), B), EACH),
    "jit of vmap": (lambda: called(ft.jit(ft.vmap(f)), B), EACH),
    "vmap of jit": (lambda: called(ft.vmap(ft.jit(f)), B), EACH),
    "vmap along the last axis": (lambda: called(ft.vmap(f, in_axes=1), B.T), EACH),
    "vmap of what is not mapped": (lambda: called(ft.vmap(lambda b, x: f(x) + b, in_axes=(0,
    None)), B, X), ONCE),
    "checkpoint": (lambda: called(ft.grad(ft.checkpoint(f)), X), ONCE),
    "jit of checkpoint": (lambda: called(ft.jit(ft.grad(ft.checkpoint(f))), X), ONCE),
    "jit of save_names": (
        lambda: called(ft.jit(ft.grad(ft.checkpoint(f, policy=ft.policies.save_names("a")))), X),
        ONCE,
    ),
    "jit of pack": (
        lambda: called(ft.jit(ft.grad(ft.checkpoint(f, policy=ft.policies.pack(lambda x: x,
        lambda x: x)))), X),
        ONCE,
    ),
    "scan": (lambda: called(loop, X), LOOP),
    "grad of scan": (lambda: called(ft.grad(loop), X), LOOP),
    "jit of grad of scan": (lambda: called(ft.jit(ft.grad(loop)), X), LOOP),
    "scan, not read": (lambda: called(ft.jit(lambda x: (loop(x), x)[1]), X), LOOP),
    "jit of grad of checkpointed scan": (lambda: called(ft.jit(ft.grad(ft.checkpoint(loop))), X),
    LOOP),
    "while": (lambda: called(until, X), UNTIL),
    "jit of while": (lambda: called(ft.jit(until), X), UNTIL),
    "grad of while": (lambda: called(ft.grad(until), X), UNTIL),
    "jit of grad of while": (lambda: called(ft.jit(ft.grad(until)), X), UNTIL),
    "jit of cond": (lambda: called(ft.jit(choice), X), ONCE),
    "grad of jit of cond": (lambda: called(ft.grad(ft.jit(choice)), X), ONCE),
    "cond, not read": (lambda: called(ft.jit(lambda x: (choice(x), x)[1]), X), ONCE),
    "the other branch": (lambda: called(ft.jit(choice), -X), []),
    "jit of a custom rule": (lambda: called(ft.jit(custom), X), ONCE),
    "vjp": (lambda: lambda: [ft.vjp(ft.jit(f), X)[1](1.0) for _ in range(1)], ONCE),
}  # fmt: skip


def called(g: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    return lambda: g(*args)


@pytest.mark.parametrize("case", CALLS)
def test_callbacks_receive_values_in_every_run(case: str) -> None:
    make, expected = CALLS[case]
    run = make()
    for _ in range(3):
        SEEN.clear()
        run()
        assert SEEN == expected


def test_compiled_programs_keep_calling_callbacks() -> None:
    g = ft.jit(ft.grad(unread_sum))
    for _ in range(60):
        g(X)
    assert SEEN == ONCE * 60


def unread_sum(x: Any) -> Any:
    return np.sum(unread(x) ** 2)


def test_a_pullback_does_not_repeat_callbacks() -> None:
    _, pullback = ft.vjp(ft.jit(f), X)
    assert SEEN == ONCE
    pullback(1.0)
    pullback(2.0)
    assert SEEN == ONCE


def test_callbacks_may_write_into_their_arguments() -> None:
    def scribble(x: Any) -> None:
        x[...] = 0.0

    for transform in (ft.jit, ft.grad, ft.vmap, lambda f: f):
        x = B.copy()
        found = transform(lambda x: (ft.debug.callback(scribble, x), np.sum(x * 1.0))[1])(x)
        np.testing.assert_array_equal(x, B)
        assert np.all(found)


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    @ft.jit
    def g(x: Any) -> Any:
        ft.debug.print("x = {0:.1f}, {y}", x[0], y=x[1] * 2, ordered=True)
        ft.debug.print("{{braces}} {}", "word")
        return x

    g(X)
    g(X + 1)
    assert capsys.readouterr().out == "x = 1.0, 4.0\n{braces} word\nx = 2.0, 6.0\n{braces} word\n"


def test_nothing_is_an_argument(capsys: pytest.CaptureFixture[str]) -> None:
    g = ft.jit(lambda: (ft.debug.print("here"), 1.0)[1])
    g()
    g()
    assert capsys.readouterr().out == "here\nhere\n"


def test_breakpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    stops: list[Any] = []

    def hook() -> None:
        variables = sys._getframe(1).f_locals["variables"]
        stops.append({name: np.asarray(value).tolist() for name, value in variables.items()})

    monkeypatch.setattr(sys, "breakpointhook", hook)

    def g(x: Any) -> Any:
        y, n, _function = x * 2.0, 3, np.sum
        ft.debug.breakpoint()
        return np.sum(y) * n

    g(X)
    ft.grad(g)(X)
    staged = ft.jit(g)
    staged(X)
    staged(X)
    assert stops == [{"x": [1.0, 2.0], "y": [2.0, 4.0], "n": 3}] * 4
    ft.vmap(g)(B)
    assert [stop["x"] for stop in stops[4:]] == B.tolist()


def test_errors_of_a_callback_are_raised_by_the_run() -> None:
    def refuse(x: Any) -> None:
        raise KeyError(float(x))

    g = ft.jit(lambda x: (ft.debug.callback(refuse, x), x)[1])
    for _ in range(2):
        with pytest.raises(KeyError, match=r"1\.5"):
            g(1.5)


@pytest.mark.parametrize("args", [("{}",), ("{} {}", 1), ("{name}", 1), ("{", 1), (3,)])
def test_formats_that_do_not_fit(args: Any) -> None:
    with pytest.raises(ArgumentError, match=r"debug\.print"):
        ft.debug.print(*args)
    with pytest.raises(ArgumentError, match="takes a function"):
        ft.debug.callback(*args)


def test_a_body_with_only_a_callback_raises() -> None:
    """An operation is known by its results; that one is left out in silence is impossible."""
    look: Any = lambda y: ft.debug.callback(note, y)
    for inner in (
        ft.jit(look),
        ft.checkpoint(look),
        lambda x: ft.scan(lambda _, s: (None, look(s)), None, x),
    ):
        with pytest.raises(ArgumentError, match="return a number from it, too"):
            ft.jit(lambda x, inner=inner: (inner(x), x)[1])(X)
    ft.jit(look)(X)
    assert SEEN == [[1.0, 2.0]]


def test_dce_keeps_effects_of_sub_programs() -> None:
    assert [p.name for p in PRIMITIVES.values() if p.holds is not None and p.kept is None] == []


def test_programs_show_it() -> None:
    text = ft.trace(unread)(X).text(full=False)
    assert text.count("= observe") == 2
    assert ft.trace(unread)(X).check()
