"""Warnings and errors of programs that run later name the line of the function that this call is
about, at every repeat.
"""

from __future__ import annotations

import linecache
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft

REPEATS = 10
ROOT_OF = "np.log({0})"
"""An expression that warns at -1, and that every derivative evaluates."""

Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]


def define(body: str, name: str, above: int, file: str) -> Callable[[Any], Any]:
    """Define a function ``name`` with ``above`` empty lines above it, in a file of its own."""
    source = "\n" * above + body
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"np": np, "ft": ft}
    exec(compile(source, file, "exec"), namespace)
    return namespace[name]


WARNS = "def f(x):\n    y = x * x\n    z = np.sqrt(y - 5.0)\n    return np.sum(z * z * y)\n"
RAISES = "def f(x):\n    y = x * x\n    z = np.linalg.inv(y)\n    return np.sum(z * z * y)\n"
HELD = {
    "plain": "{0}",
    "call": "{0}\ng = f\ndef f(x):\n    return ft.jit(g)(x)\n",
    "checkpoint": "{0}\ng = f\ndef f(x):\n    return ft.checkpoint(g)(x)\n",
    "cond": "{0}\ng = f\ndef f(x):\n    return ft.cond(True, g, lambda x: 0.0 * np.sum(x), x)\n",
    "scan": "{0}\ng = f\ndef f(x):\n    return ft.scan(lambda c, _: (c + g(x), None), 0.0, length=2)[0]\n",
    "custom": (
        "{0}\ng = ft.custom_vjp(f)\ng.defvjp(lambda x: (g(x), (x, g(x))), lambda r, y_bar: (y_bar * r[0] * r[1],))\n"
        "def f(x):\n    return g(x)\n"
    ),
}
X = np.full((2, 2), 2.0)

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "value_and_grad": lambda f: ft.value_and_grad(f)(X),
    "vjp": lambda f: ft.vjp(f, X)[1](1.0),
    "jvp": lambda f: ft.jvp(f, (X,), (X,)),
    "linearize": lambda f: ft.linearize(f, X)[1](X),
    "vmap": lambda f: ft.vmap(f)(X[None]),
    "grad of grad": lambda f: ft.grad(lambda x: np.sum(ft.value_and_grad(f)(x)[0]))(X),
    "vmap of grad": lambda f: ft.vmap(ft.value_and_grad(f))(X[None]),
    "jacrev": lambda f: ft.jacrev(f)(X),
    "jacfwd": lambda f: ft.jacfwd(f)(X),
    "hessian": lambda f: ft.hessian(f)(X),
    "laplacian": lambda f: ft.laplacian(f, has_value=True)(X),
    "jet": lambda f: ft.jet(f, (X,), ((X, X),)),
    "taylor": lambda f: ft.taylor(f, 2)(X),
    **{
        f"sparse_jacobian {mode}": lambda f, mode=mode: ft.sparse_jacobian(f, mode=mode)(X)
        for mode in ("forward", "reverse", "both")
    },
    "sparse_hessian": lambda f: ft.sparse_hessian(f)(X),
}


def lines_of(run: Callable[[], Any]) -> set[tuple[str, int]]:
    """The lines that warnings name."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return {(w.filename, w.lineno) for w in caught}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("held", HELD)
def test_a_warning_names_the_callers_own_line(held: str, transform: str) -> None:
    files = (f"<first {held} {transform}>", f"<second {held} {transform}>")
    pair = [
        define(HELD[held].format(WARNS), "f", above, file)
        for above, file in zip((0, 7), files, strict=True)
    ]
    for _ in range(REPEATS):
        for f, above, file in zip(pair, (0, 7), files, strict=True):
            assert lines_of(lambda f=f: TRANSFORMS[transform](f)) == {(file, above + 3)}


@pytest.mark.parametrize("held", HELD)
def test_a_warning_of_a_jitted_function_names_its_line(held: str) -> None:
    files = (f"<first {held}>", f"<second {held}>")
    pair = [
        define(HELD[held].format(WARNS), "f", above, file)
        for above, file in zip((0, 7), files, strict=True)
    ]
    for staged in ([ft.jit(f) for f in pair], [ft.jit(ft.value_and_grad(f)) for f in pair]):
        for _ in range(3):
            for f, above, file in zip(staged, (0, 7), files, strict=True):
                assert lines_of(lambda f=f: f(X)) == {(file, above + 3)}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("transform", ["vmap", "vmap of grad"])
@pytest.mark.parametrize("held", HELD)
def test_an_error_names_the_callers_own_line(held: str, transform: str) -> None:
    files = (f"<first {held} {transform} raises>", f"<second {held} {transform} raises>")
    pair = [
        define(HELD[held].format(RAISES), "f", above, file)
        for above, file in zip((0, 7), files, strict=True)
    ]
    for _ in range(REPEATS):
        for f, above, file in zip(pair, (0, 7), files, strict=True):
            with pytest.raises(np.linalg.LinAlgError) as raised:
                TRANSFORMS[transform](f)
            assert raised.value.__notes__[0].startswith(
                f"  recorded at {file}:{above + 3} in f:   z = np.linalg.inv(y)"
            )
            for function in (ft.jit(f), ft.jit(ft.vmap(f))):
                for _ in range(2):
                    with pytest.raises(np.linalg.LinAlgError) as raised:
                        function(X if function.__wrapped__ is f else X[None])
                    assert raised.value.__notes__[0].startswith(
                        f"  recorded at {file}:{above + 3} in f:"
                    )


def test_equal_functions_at_the_same_line_of_two_files_are_distinguished() -> None:
    pair = [
        define(HELD["checkpoint"].format(WARNS), "f", 0, file) for file in ("<cell 1>", "<cell 2>")
    ]
    for _ in range(REPEATS):
        assert [lines_of(lambda f=f: ft.value_and_grad(f)(X)) for f in pair] == [
            {("<cell 1>", 3)},
            {("<cell 2>", 3)},
        ]


def test_pullbacks_called_later_name_their_own_lines() -> None:
    source = "def f(x):\n    y = np.exp(x)\n    return np.sum(y)\n"
    pair = [define(source, "f", above, "<pullback>") for above in (0, 7)]
    pullbacks = [ft.vjp(f, np.full(2, 700.0))[1] for f in pair for _ in range(2)]
    for _ in range(REPEATS):
        found = [lines_of(lambda p=p: p(1e300)) for p in pullbacks]
        assert found == [{("<pullback>", 2)}] * 2 + [{("<pullback>", 9)}] * 2


def test_a_warning_while_concretizing_names_the_recorded_line() -> None:
    source = "def f(x):\n    y = np.log(x)\n    z = y + 1.0\n    if z > 0:\n        return z\n    return y\n"
    f = define(source, "f", 0, "<question>")
    for run in (lambda: ft.grad(f)(-1.0), lambda: ft.grad(ft.grad(f))(-1.0)):
        for _ in range(3):
            assert ("<question>", 2) in lines_of(run)
            assert {file for file, _ in lines_of(run)} == {"<question>"}


def test_a_warning_is_shown_once_per_line_like_numpys() -> None:
    f = define("def f(x):\n    return np.log(x)\n", "f", 0, "<once>")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(5):
            ft.value_and_grad(f)(-1.0)
    assert [(str(w.message), w.filename, w.lineno) for w in caught] == [
        ("invalid value encountered in log", "<once>", 2)
    ]


def test_other_error_modes_apply() -> None:
    f = define("def f(x):\n    return np.log(x)\n", "f", 0, "<modes>")
    for run in (lambda: ft.value_and_grad(f)(-1.0), lambda: ft.jit(f)(np.array([-1.0]))):
        for _ in range(REPEATS):
            with np.errstate(invalid="ignore"):
                assert lines_of(run) == set()
            with np.errstate(invalid="raise"), pytest.raises(FloatingPointError):
                run()
            called: list[str] = []
            with np.errstate(invalid="call", call=lambda kind, _: called.append(kind)):
                assert lines_of(run) == set()
            assert called == ["invalid value"]
            before = np.geterr()
            assert lines_of(run) == {("<modes>", 2)}
            assert np.geterr() == before


@pytest.mark.parametrize("held", HELD)
def test_sub_programs_are_cached_across_calls(held: str) -> None:
    from functrace.executor.cache import CACHE

    f = define(HELD[held].format(WARNS), "f", 0, f"<cached {held}>")
    with np.errstate(all="ignore"):
        ft.value_and_grad(f)(X)
        ft.value_and_grad(f)(X)
        count = len(CACHE)
        for _ in range(5):
            ft.value_and_grad(f)(X)
    assert len(CACHE) == count
