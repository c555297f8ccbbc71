"""``autograd.test_util``: check derivatives against finite differences.

Layer: 10.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from functrace.compat.autograd.vspaces import vspace
from functrace.compat.autograd.wrap_util import Argnum, Function, check_argnum, chosen, wraps
from functrace.compat.kinds import Given, Values
from functrace.errors import CheckError
from functrace.testing.grads import check_grads as _check_grads

__all__ = [
    "check_equivalent",
    "check_grads",
    "check_jvp",
    "check_vjp",
    "combo_check",
    "scalar_close",
]

TOL = RTOL = EPS = 1e-6


def scalar_close(a: Values, b: Values) -> bool:
    """Return True if two numbers are close, absolutely or relatively."""
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def check_grads(
    f: Function, argnum: Argnum = 0, modes: Sequence[str] = ("fwd", "rev"), order: int = 2
) -> Callable[..., None]:
    """Return a function of ``f``'s arguments that checks one derivative numerically.

    Raises:
        CheckError: from the function, if one is wrong.
    """
    check_argnum(argnum, "check_grads")

    @wraps(f)
    def check(*args: object, **kwargs: object) -> None:
        unary, x = chosen(f, argnum, args, kwargs)
        _check_grads(unary, (x,), order=order, modes=modes)

    return check


def check_vjp(f: Function, x: Values) -> None:
    """Check reverse mode at ``x``."""
    _check_grads(f, (x,), order=1, modes=("rev",))


def check_jvp(f: Function, x: Values) -> None:
    """Check forward mode at ``x``."""
    _check_grads(f, (x,), order=1, modes=("fwd",))


def check_equivalent(x: Values, y: Values) -> None:
    """Check that two values are close, and of the same structure, shapes and dtypes.

    Raises:
        CheckError: if not.
    """
    space, other = vspace(x), vspace(y)
    if space != other:
        raise CheckError(
            f"{x!r} is in {space}, {y!r} in {other}",
            fix="compare values of the same shapes and dtypes",
        )
    v = space.randn()
    if not scalar_close(space.inner_prod(x, v), space.inner_prod(y, v)):
        raise CheckError(f"{x!r} and {y!r} differ", fix="look at np.subtract of them")


def combo_check(fun: Function, *args: Given, **kwargs: Given) -> Callable[..., None]:
    """Return a function of sequences of arguments that runs `check_grads` on all combinations of
    them.
    """
    check = check_grads(fun, *args, **kwargs)

    def check_all(*args: Iterable[Any], **kwargs: Iterable[Any]) -> None:
        for values in itertools.product(*args, *kwargs.values()):
            check(*values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True)))

    return check_all


def make_numerical_jvp(f: Function, x: Values) -> Function:
    """Return a function that computes the difference quotient of ``f`` at ``x`` in a direction."""
    space, results = vspace(x), vspace(f(x))

    def jvp(v: Values) -> Any:
        above, below = [
            f(space.add(x, space.scalar_mul(v, sign * EPS / 2))) for sign in (1.0, -1.0)
        ]
        return results.scalar_mul(
            results.add(above, results.scalar_mul(below, np.float64(-1.0))), 1.0 / EPS
        )

    return jvp
