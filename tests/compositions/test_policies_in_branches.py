"""Residual policies of branches, inside every loop: a branch that is not taken leaves the slots of
its residuals empty.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import FunctraceError

XS = np.array([1.5, -1.0, 0.5])
V = np.array([0.3, -0.7])

policies = ft.policies
BOXED = policies.pack(lambda x: ("box", x.copy()), lambda box: box[1])
NAMED = policies.save_names("h")
PAIRS = {
    "pack, pack": (
        BOXED,
        policies.pack(lambda x: (x.tolist(), x.dtype), lambda pair: np.array(*pair)),
    ),
    "pack, none": (BOXED, None),
    "none, pack": (None, BOXED),
    "pack, save_names": (BOXED, NAMED),
    "recompute, pack": (policies.recompute, BOXED),
    "budget, pack": (policies.budget("1 MB"), BOXED),
    "save_names, recompute": (NAMED, policies.recompute),
    "budget, none": (policies.budget("1 MB"), None),
}


def one(v: Any) -> Any:
    return np.sin(ft.checkpoint_name(np.cos(v), "h")) * v


def other(v: Any) -> Any:
    return np.exp(np.sin(ft.checkpoint_name(np.sin(v), "h") * v))


def kept(f: Callable[..., Any], policy: Any) -> Callable[..., Any]:
    return f if policy is None else ft.checkpoint(f, policy=policy)


def choices(first: Callable[..., Any], second: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {
        "cond": lambda x, v: ft.cond(x > 0, first, second, v),
        "switch": lambda x, v: ft.switch(
            (x > 0) + (x > 1) * 1, [first, second, lambda u: u * 0.5], v
        ),
    }


LOOPS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "no loop": lambda f: lambda v, xs: f(xs[0], v),
    "scan": lambda f: lambda v, xs: ft.scan(lambda c, x: (f(x, c), np.sum(c)), v, xs),
    "scan, reverse": lambda f: lambda v, xs: ft.scan(lambda c, x: (f(x, c), None), v, xs,
    reverse=True)[0],
    "scan, unrolled": lambda f: lambda v, xs: ft.scan(lambda c, x: (f(x, c), None), v, xs,
    unroll=2)[0],
    "while_loop": lambda f: lambda v, xs: ft.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, f(xs[s[0]], s[1])), (0, v)
    )[1],
    "fori_loop": lambda f: lambda v, xs: ft.fori_loop(0, 3, lambda i, c: f(xs[i], c), v),
    "fori_loop, traced": lambda f: lambda v, xs: ft.fori_loop(
        0, ft.stop_gradient(xs[0] * 2).astype(int), lambda i, c: f(xs[i], c), v
    ),
    "map": lambda f: lambda v, xs: ft.map(lambda x: f(x, v), xs),
    "vmap": lambda f: lambda v, xs: ft.vmap(lambda x: f(x, v))(xs),
    "scan of fori_loop of cond": lambda f: lambda v, xs: ft.scan(
        lambda c, x: (ft.fori_loop(0, 2, lambda i, s: ft.cond(x > 0, lambda u: f(xs[i], u),
        lambda u: u * 2.0, s), c), None),
        v, xs,
    )[0],
}  # fmt: skip


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    """A scalar function of ``v`` and ``xs``, in which both are traced."""

    def g(v: Any, xs: Any) -> Any:
        return sum(np.sum(leaf) for leaf in ft.tree.leaves(f(v, xs + 0.0 * v[0])))

    return g


TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": lambda g: ft.grad(g)(V, XS),
    "jit": lambda g: ft.jit(ft.grad(g))(V, -XS),
    "vmap": lambda g: ft.vmap(ft.grad(g))(np.stack([V, 2 * V]), np.stack([XS, -XS])),
    "checkpoint": lambda g: ft.grad(ft.checkpoint(g))(V, XS),
    "second order": lambda g: ft.jacrev(ft.grad(g))(V, XS),
    "forward over reverse": lambda g: ft.jvp(lambda v: ft.grad(g)(v, XS), (V,), (V,))[1],
}


@pytest.mark.full
def test_policies_of_branches_change_nothing_in_any_loop() -> None:
    wrong = []
    plain = {
        (loop, kind): total(LOOPS[loop](f))
        for loop in LOOPS
        for kind, f in choices(one, other).items()
    }
    expected: dict[Any, Any] = {}
    for n, (pair, (first, second)) in enumerate(PAIRS.items()):
        for m, (loop, make) in enumerate(LOOPS.items()):
            for kind, f in choices(kept(one, first), kept(other, second)).items():
                g = total(make(f))
                for name in {[*TRANSFORMS][(n + m) % 6], "grad" if n < 3 else "jit"}:
                    key = (loop, kind, name)
                    if key not in expected:
                        expected[key] = TRANSFORMS[name](plain[loop, kind])
                    try:
                        found = TRANSFORMS[name](g)
                    except (AttributeError, TypeError, FunctraceError) as error:
                        wrong.append((pair, *key, repr(error)[:200]))
                        continue
                    if not np.allclose(found, expected[key], rtol=1e-12, atol=0.0):
                        wrong.append((pair, *key, found, expected[key]))
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"
