"""``autograd.misc.fixed_points``: fixed points, differentiated by the implicit function theorem.

Layer: 10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace.compat.autograd.differential_operators import make_vjp, vjp_of
from functrace.compat.autograd.extend import defvjp, primitive, vspace
from functrace.compat.kinds import Given, Values

__all__ = ["fixed_point"]


@primitive
def fixed_point(f: Given, a: Values, x0: Values, distance: Values, tol: float) -> Any:
    """Iterate ``x = f(a)(x)`` from ``x0`` until ``distance(x, previous)`` is at most ``tol``;
    differentiable by ``a``.
    """
    step = f(a)
    x, previous = step(x0), x0
    while distance(x, previous) > tol:
        x, previous = step(x), x
    return x


def _vjp(
    ans: Values, f: Given, a: Values, x0: Values, distance: Values, tol: float
) -> Callable[[Any], Any]:
    def adjoint(params: Values) -> Callable[[Any], Any]:
        a, x, bar = params
        pull, _ = vjp_of(f(a), x)
        return lambda g: vspace(x).add(pull(g), bar)

    def of_both(a: Values, x: Values) -> Any:
        return f(a)(x)

    pull, _ = make_vjp(of_both)(a, ans)
    return lambda g: pull(fixed_point(adjoint, (a, ans, g), vspace(x0).zeros(), distance, tol))


defvjp(fixed_point, None, _vjp, None)
