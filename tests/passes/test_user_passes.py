"""Passes of the user's own in `jit`, and the trail of what every pass has done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.ir.parts import Rewrite, restrict
from functrace.ops.elementwise import cos, exp, log, sin
from functrace.passes import PIPELINE, REORDERING, Pass
from functrace.passes.pass_log import trail

X = np.array([0.5, 1.0, 2.0])


def exchanged(program: ft.Program) -> ft.Program:
    """No equal program, so that it can be seen where it acts."""
    write = Rewrite(program)
    for k, _ in program.schedule:
        primitive, operands, params = program.ops[k]
        if primitive is sin:
            write.replace(
                k,
                [write.place(cos, tuple(map(write.operand, operands)), params, write.position(k))],
            )
        else:
            write.keep(k)
    return write.finish()


def f(x: Any) -> Any:
    return np.sin(x) * 2.0 + ft.jit(np.sin)(x)


def test_jit_takes_passes() -> None:
    for own in (exchanged, Pass("exchange", exchanged, "last", "", "")):
        run = ft.jit(f, passes=[own])
        for _ in range(3):
            np.testing.assert_array_equal(run(X), np.cos(X) * 2.0 + np.cos(X))
    np.testing.assert_array_equal(
        ft.jit(f, passes=[exchanged, exchanged])(X), np.cos(X) * 2.0 + np.cos(X)
    )
    np.testing.assert_array_equal(ft.jit(f, passes=())(X), f(X))

    @ft.jit(passes=(exchanged,))
    def decorated(x: Any) -> Any:
        return np.sin(x)

    np.testing.assert_array_equal(decorated(X), np.cos(X))


def test_passes_act_where_jit_compiles() -> None:
    """Inside another transform it is the outer program that is compiled, with its own passes."""
    inner = ft.jit(np.sin, passes=[exchanged])
    np.testing.assert_array_equal(ft.jit(lambda x: inner(x) + 0.0)(X), np.sin(X))
    np.testing.assert_array_equal(ft.grad(lambda x: np.sum(inner(x)))(X), np.cos(X))
    np.testing.assert_array_equal(
        ft.jit(ft.grad(lambda x: np.sum(np.cos(x))), passes=[exchanged])(X), -np.cos(X)
    )


def test_a_pass_transforms_bodies_only_if_it_requests_them() -> None:
    def deep(program: ft.Program) -> ft.Program:
        write = Rewrite(program)
        for k, _ in program.schedule:
            primitive, operands, params = program.ops[k]
            if primitive is sin:
                write.replace(
                    k,
                    [
                        write.place(
                            cos, tuple(map(write.operand, operands)), params, write.position(k)
                        )
                    ],
                )
            else:
                write.keep(k, bodies=deep)
        return write.finish()

    def loop(x: Any, g: Any) -> Any:
        return ft.scan(
            lambda c, t: (ft.cond(t > 0.0, g, lambda c: c * 2.0, c) + t, None),
            x,
            np.array([0.0, 1.0]),
        )[0]

    np.testing.assert_array_equal(
        ft.jit(loop, passes=[exchanged], static_argnums=1)(X, np.sin), loop(X, np.sin)
    )
    np.testing.assert_array_equal(
        ft.jit(loop, passes=[deep], static_argnums=1)(X, np.sin), loop(X, np.cos)
    )


def test_results_of_passes_are_checked() -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda program: None, "NoneType"),
        (lambda program: restrict(program, (), ()).program, "changed the inputs or outputs"),
        (lambda program: ft.trace(np.sin)(np.zeros(5)), "changed the inputs or outputs"),
    ]
    for own, words in wrong:
        for given in (own, Pass("mine", own, "last", "", "")):
            with pytest.raises(ft.errors.ProgramError, match=words):
                ft.jit(f, passes=[given])(X)
    bad: list[Any] = [3, [3], "exchanged", [None]]
    for passes in bad:
        with pytest.raises(ft.errors.ArgumentError, match="passes"):
            ft.jit(f, passes=passes)
    with pytest.raises(ft.errors.ArgumentError, match="guards"):
        ft.jit(f, passes=[exchanged], guards=True)


def test_trail_reports_the_changes_of_each_pass() -> None:
    def g(x: Any) -> Any:
        return np.sin(x) * np.sin(x) + (-x) / 4.0

    found = trail(ft.trace(g)(X), [exchanged])
    assert [step.name for step in found.steps] == [
        *[row.name for row in PIPELINE if row.stage == "early"],
        "exchanged",
        *[row.name for row in REORDERING],
        *[row.name for row in PIPELINE if row.stage != "early"],
    ]
    changed = {step.name: list(step.changes()) for step in found.steps if list(step.changes())}
    assert set(changed) == {
        "exchanged",
        "algebraic simplification",
        "sign elimination",
        "common subexpressions",
    }
    assert any("cos" in line for line in changed["exchanged"])
    assert all(step.seconds >= 0 for step in found.steps)
    assert len(found.program.equations) == 4
    assert "common subexpressions: 5 -> 4 equations" in str(found)
    np.testing.assert_array_equal(ft.evaluate(found.program, X), np.cos(X) * np.cos(X) + (-X) / 4.0)


def test_debug_passes_shows_it() -> None:
    found = ft.debug.passes(lambda x: np.exp(np.log(x)) + np.exp(np.log(x)))(X)
    assert [e.primitive for e in found.program.equations][:2] == [log, exp]
    assert len(found.program.equations) == 3
    with pytest.raises(ft.errors.ArgumentError, match="passes"):
        ft.debug.passes(f, passes=[3])
