"""``saved_residuals`` lists what a derivative keeps, with bytes, lines and reasons, and computes
nothing.
"""

from __future__ import annotations

import inspect
import os
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.tracing.recording import Recording
from tests.compositions.functions import BATCH, V, W, X
from tests.compositions.test_checkpoint import chain

HERE = os.path.basename(__file__)


def rows(f: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    kept = ft.saved_residuals(f)(*args, **kwargs)
    assert kept.nbytes == sum(r.nbytes for r in kept if not r.is_packed)
    assert len(kept) == len(list(kept))
    return {r.made: r for r in kept}


def line_of(function: Any, text: str) -> int:
    lines, start = inspect.getsourcelines(function)
    return start + next(k for k, line in enumerate(lines) if text in line)


def layer(x: Any, p: Any) -> Any:
    a = np.sin(W @ x)
    b = np.exp(a * p["w"])
    return np.sum(np.tanh(b))


def test_rows_of_a_plain_function() -> None:
    found = rows(layer, X, {"w": V})
    assert set(found) == {
        "captured array", "result of cos, for the derivative only", "argument p_w", "result of sin",
        "result of exp", "result of sub, for the derivative only",
    }  # fmt: skip
    assert found["captured array"].nbytes == 72 and found["result of sin"].nbytes == 24
    assert {made: r.why for made, r in found.items()} == {
        "captured array": "derivative of matmul",
        "result of cos, for the derivative only": "derivative of sin",
        "argument p_w": "derivative of mul",
        "result of sin": "derivative of mul",
        "result of exp": "derivative of exp",
        "result of sub, for the derivative only": "derivative of tanh",
    }
    lines = {
        "result of sin": "np.sin",
        "argument p_w": "np.exp",
        "result of sub, for the derivative only": "np.tanh",
    }
    for made, text in lines.items():
        source = found[made].source
        assert os.path.basename(source.file) == HERE and source.line == line_of(layer, text), made


def test_listed_residuals_are_those_of_the_pullback() -> None:
    # The linear part of a hand-written derivative: cos(x) for sin, and both operands of the
    # product.
    assert {r.aval.shape for r in ft.saved_residuals(lambda x: np.sin(x))(X)} == {(3,)}
    assert len(ft.saved_residuals(lambda x: x * 2.0 + 1.0)(X)) == 0
    assert len(ft.saved_residuals(lambda x: np.sum(np.cumsum(x)))(X)) == 0
    assert set(rows(lambda x, y: x * y, X, V)) == {"argument x", "argument y"}
    assert set(rows(lambda x, y: x * ft.stop_gradient(y), X, V)) == {"result of stop_gradient"}
    assert ft.saved_residuals(lambda x: np.sum(np.sin(x)))(np.ones(1000)).nbytes == 8000
    assert ft.saved_residuals(lambda x: np.sum(np.sin(x)))(np.ones(1000, np.float32)).nbytes == 4000


def test_a_value_that_is_needed_twice_is_kept_once() -> None:
    kept = ft.saved_residuals(lambda x: np.exp(x) * x * x)(X)
    assert sorted(r.made for r in kept) == ["argument x", "result of exp", "result of mul"]


@pytest.mark.parametrize(
    "wrap", [ft.jit, lambda f: ft.checkpoint(f, policy=ft.policies.save), ft.checkpoint]
)
def test_functions_that_are_called_as_one_are_looked_into(wrap: Any) -> None:
    found = rows(lambda x: np.sum(wrap(lambda x: np.tanh(W @ x))(x)), X)
    if wrap is ft.checkpoint:
        assert set(found) == {"argument x", "captured array"}
    else:
        assert set(found) == {"captured array", "result of sub, for the derivative only"}
    assert all(os.path.basename(r.source.file) == HERE for r in found.values())


def test_checkpoint_keeps_operands_only() -> None:
    p = {"w": V}
    assert set(rows(ft.checkpoint(layer), X, p)) == {"argument x", "captured array", "argument p_w"}
    h = np.zeros((4096, 32))
    plain, checkpointed = (
        ft.saved_residuals(chain(w))(h).nbytes for w in (lambda f: f, ft.checkpoint)
    )
    assert checkpointed <= 0.2 * plain


PACKED_IN: dict[str, Any] = {
    "call": lambda f: f,
    "chain": lambda f: lambda x: np.cos(f(np.exp(f(x)))),
    "scan": lambda f: lambda x: ft.scan(lambda c, s: (f(c) * s, None), x, np.ones(5))[0],
    "fori_loop": lambda f: lambda x: ft.fori_loop(0, 5, lambda i, c: f(c), x),
    "map": lambda f: lambda x: ft.map(f, x),
    "vmap": lambda f: lambda x: ft.vmap(f)(x),
    "cond": lambda f: lambda x: ft.jit(lambda x: ft.cond(x[0] > 0, f, np.cos, x))(x),
    "cond in scan": lambda f: (
        lambda x: ft.scan(lambda c, s: (ft.cond(s > 0, f, lambda v: f(v) * 2.0, c), None), x, x)[0]
    ),
    "choice per example": lambda f: lambda x: ft.vmap(lambda v: ft.cond(v > 0.5, f, np.cos, v))(x),
}


@pytest.mark.parametrize("name", PACKED_IN)
def test_packed_bytes_are_those_that_pack_gets_and_no_others(name: str) -> None:
    handed: list[int] = []

    def pack(x: Any) -> Any:
        handed.append(x.nbytes)
        return x.astype(np.float32)

    layer = ft.checkpoint(
        lambda x: np.sin(np.sin(x)), policy=ft.policies.pack(pack, lambda x: x.astype(np.float64))
    )
    f, x = PACKED_IN[name](layer), np.linspace(0.1, 1.0, 8)
    kept = ft.saved_residuals(lambda x: np.sum(f(x)))(x)
    assert not handed, "nothing is computed"
    assert kept.nbytes == sum([r.nbytes for r in kept if not r.is_packed])
    ft.vjp(f, x)
    if name == "choice per example":  # which picks from arrays: what it keeps is unpacked
        assert kept.nbytes_packed == 0 < kept.nbytes
        return
    assert kept.nbytes_packed == sum(handed) > 0
    assert f"and what pack makes of {sum(handed):,}" in str(kept)


def test_packed_values_of_each_step_are_not_counted_as_arrays() -> None:
    layer = ft.checkpoint(
        np.sin,
        policy=ft.policies.pack(lambda x: x.astype(np.float32), lambda x: x.astype(np.float64)),
    )
    kept = ft.saved_residuals(lambda x: counted(lambda v: layer(v) * v, x))(X)
    packed = [r for r in kept if r.is_packed]
    assert packed and all(r.each and ", packed" in r.made for r in packed)
    assert kept.nbytes_packed == sum([r.nbytes for r in packed])
    assert kept.nbytes_each == sum([r.nbytes for r in kept if r.each and not r.is_packed])


def counted(body: Any, x: Any) -> Any:
    return np.sum(ft.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, body(s[1])), (0, x))[1])


def test_packed_and_named_values() -> None:
    policy = ft.policies.pack(lambda x: x, lambda x: x)
    found = rows(ft.checkpoint(lambda x: x * ft.checkpoint_name(np.sinh(x), "e"), policy=policy), X)
    assert "argument x, packed" in found and "named 'e', packed" in found
    assert all(made.endswith(", packed") for made in found)
    named = ft.checkpoint(
        lambda x: np.sin(ft.checkpoint_name(np.exp(x), "e")), policy=ft.policies.save_names("e")
    )
    found = rows(named, X)
    assert "named 'e'" in found and "np.exp(x)" in found["named 'e'"].source.expression


def test_loop_lists_stacked_residuals_with_lines_of_its_body() -> None:
    def body(c: Any, y: Any) -> Any:
        h = np.tanh(c * y)
        return h, np.sin(h)

    def loop(x: Any) -> Any:
        c, ys = ft.scan(body, x, BATCH)
        return np.sum(c) + np.sum(ys)

    found = rows(loop, X)
    # The carry itself is not: only its product with a slice that has no derivative.
    assert set(found) == {
        "captured array",
        "result of sub of each of 4 steps",
        "result of cos of each of 4 steps",
    }
    stack = found["result of cos of each of 4 steps"]
    assert stack.aval.shape == (4, 3) and stack.nbytes == 96
    assert stack.why == "derivative of sin" and stack.source.line == line_of(body, "np.sin")
    inside = rows(lambda x: np.sum(ft.scan(ft.checkpoint(body), x, BATCH)[0]), X)
    assert set(inside) == {"carry of each of 4 steps", "captured array"}


def test_choice() -> None:
    found = rows(
        ft.jit(
            lambda x: np.sum(ft.cond(x[0] > 0, lambda x: np.sin(x) * x, lambda x: np.exp(x), x))
        ),
        X,
    )
    assert (
        found["result of greater"].nbytes == 1
        and found["result of greater"].why == "derivative of cond"
    )
    assert "argument x" in found
    assert any(made.startswith("result of cond") for made in found)


def test_mapped_function_and_keywords() -> None:
    found = rows(ft.vmap(lambda x: np.sum(np.log(x))), BATCH**2)
    assert [r.aval.shape for r in found.values()] == [(4, 3)]
    assert "argument scale" in rows(lambda x, *, scale: x * scale, X, scale=V)


def test_table() -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = np.exp(x)
        return np.sum(x * W[0])

    lines = str(ft.saved_residuals(f)(np.ones(3))).splitlines()
    assert lines[0].split() == ["bytes", "value", "what", "it", "is", "kept", "for", "line"]
    assert lines[-1].split() == ["96", "kept", "for", "the", "derivative", "of", "f"]
    (grouped,) = [line for line in lines if "3 x f64[3]" in line]
    assert grouped.split()[0] == "72" and "derivative of exp" in grouped
    assert f"{HERE}:{line_of(f, 'np.exp')}" in grouped and "x = np.exp(x)" in grouped
    assert len({line.index("derivative of") for line in lines[1:-1]}) == 1, "columns are aligned"


def test_nothing_is_kept_of_a_function_without_derivative() -> None:
    kept = ft.saved_residuals(lambda x: np.sum(np.floor(x)))(X)
    assert len(kept) == kept.nbytes == 0
    assert "kept for the derivative of" in str(kept)


def test_nothing_is_computed_unless_the_function_concretizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    original = Recording.value
    monkeypatch.setattr(
        Recording,
        "value",
        lambda self, variable: (asked.append(variable), original(self, variable))[1],
    )
    with np.errstate(all="raise"):
        ft.saved_residuals(lambda x: np.log(x))(np.zeros(3))
    assert asked == []
    kept = ft.saved_residuals(lambda x: np.sin(x) if x[0] > 0 else x)(X)
    assert len(kept) == 1 and asked


def test_integers_and_python_numbers() -> None:
    assert len(ft.saved_residuals(lambda x, k: np.take(x, k) * 2.0)(X, np.array([0, 1]))) == 1
    assert ft.saved_residuals(lambda x: np.sin(x))(0.5).nbytes == 8
    assert ft.saved_residuals(lambda x, n: x**n)(0.5, 3).nbytes == 8


@pytest.mark.parametrize(("checkpoint", "rows"), [(3, 3), (5, 1), (ft.policies.binomial(4), 4)])
def test_carries_that_a_checkpointed_loop_keeps_are_listed(checkpoint: Any, rows: int) -> None:
    def f(x: Any) -> Any:
        step = lambda h, _: (np.sin(h) * 1.1, None)
        return np.sum(ft.scan(step, x, length=10, checkpoint=checkpoint)[0])

    kept = ft.saved_residuals(f)(np.ones(7))
    assert sorted(r.aval.shape for r in kept) == [(rows, 7), (7,)]
    assert kept.nbytes == 8 * 7 * (rows + 1)
