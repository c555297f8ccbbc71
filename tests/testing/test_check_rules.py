"""`check_rules` passes operations that are right, and names the rule that is wrong: a mutant for
each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, CheckError, ConcretizationError
from functrace.ir import ShapeDtype
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import mul
from functrace.ops.reductions import reduce_sum_p
from functrace.testing import check_rules

X = np.linspace(0.1, 1.0, 4)


def product_by_vjp() -> Any:
    f = ft.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, ct: (ct * kept[1], ct * kept[0]))
    return f


@partial(ft.custom_jvp, nondiff_argnums=(0,))
def power(n: float, x: Any) -> Any:
    return x**n


power.defjvp(
    lambda n, primals, tangents: (primals[0] ** n, n * primals[0] ** (n - 1) * tangents[0])
)

library_sine = ft.primitive(
    lambda x: np.sin(x), vjp=lambda ct, y, x: (ct * np.cos(x),), results=lambda x: x
)

RIGHT: dict[str, Callable[[], None]] = {
    "a row": lambda: check_rules(ew.tanh, X),
    "two operands": lambda: check_rules(ew.mul, X, X[::-1]),
    "complex": lambda: check_rules(ew.mul, X * 1j, X[::-1]),
    "params": lambda: check_rules(reduce_sum_p, np.ones((2, 3)), params=((0,),)),
    "no derivative": lambda: check_rules(ew.floor, X * 0.9),
    "booleans": lambda: check_rules(ew.less, X, X[::-1]),
    "custom_vjp": lambda: check_rules(product_by_vjp(), X, X[::-1]),
    "numbers": lambda: check_rules(product_by_vjp(), 2.0, 3.0),
    "single": lambda: check_rules(product_by_vjp(), X.astype(np.float32), X.astype(np.float32)),
    "nondiff_argnums": lambda: check_rules(power, 3.0, X),
    "primitive": lambda: check_rules(library_sine, X),
    "primitive that says nothing of its results": lambda: check_rules(
        ft.primitive(lambda x: np.sin(x), vjp=lambda ct, y, x: (ct * np.cos(x),)), X, staged=False
    ),
    "function of nests": lambda: check_rules(lambda p: {"a": np.sin(p["x"]), "n": 3}, {"x": X}),
}


@pytest.mark.parametrize("case", RIGHT)
def test_right_rules_pass(case: str) -> None:
    RIGHT[case]()


def mutant(**rules: Any) -> Any:
    """`mul` with some of its rules exchanged."""
    return dataclasses.replace(ew.mul, name="mutant", **rules)


def other_value() -> Any:
    f = ft.custom_vjp(lambda x: x * 2.0)
    f.defvjp(lambda x: (x * 2.0 + 1.0, None), lambda _, ct: (ct * 2.0,))
    return f


def counting() -> Any:
    calls = [0]

    def count(x: Any) -> Any:
        calls[0] += 1
        return x * calls[0]

    return count


def flattening(method: str) -> Any:
    """A foreign function that takes no batch axis, though it says so."""
    return ft.primitive(lambda x: np.sin(x) - x.sum(), vjp=lambda ct, y,
    x: (ct * np.cos(x) - np.sum(ct),),
                        results=lambda x: x, vmap=method)  # fmt: skip


WRONG: dict[str, tuple[Callable[[], None], str]] = {
    "aval": (
        lambda: check_rules(mutant(aval=lambda x, y: ShapeDtype(x.shape, "float32")), X, X),
        r"mutant is predicted to return f32\[4\], and returns f64\[4\]",
    ),
    "jvp": (
        lambda: check_rules(mutant(jvp=lambda p, o, t: mul(p[0],
        t[1]) if t[0] is None else mul(t[0], p[0])), X, 2 * X),
        "forward mode of mutant",
    ),
    "transpose": (
        lambda: check_rules(
            mutant(
                jvp=lambda p, o, t: ew.plus(
                    None if t[0] is None else bound(t[0], p[1]),
                    None if t[1] is None else mul(p[0], t[1])
                )
            ),
            X,
            2 * X,
        ),
        "reverse mode of mutant",
    ),
    "batch": (
        lambda: check_rules(mutant(batch=lambda xs, flags: ew.mul(xs[0],
        0.0 * xs[1] if all(flags) else xs[1])), X, X),
        "vmap of mutant|vmap over argument 0, 1 of mutant",
    ),
    "the value of fwd": (lambda: check_rules(other_value(), X),
    r"the value under a derivative of .* is 1.2, and should be"),
    "state": (lambda: check_rules(counting(), X, order=0), "jit of count is"),
    "the method of a foreign batch": (
        lambda: check_rules(flattening("broadcast_all"), X),
        "vmap over argument 0",
    ),
}  # fmt: skip


def bound(x: Any, y: Any) -> Any:
    from functrace.tracing.binding import bind

    return bind(
        dataclasses.replace(ew.mul, name="wrong", transpose=lambda ct, a, b: (mul(ct, 3.0), None)),
        (x, y),
    )


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rules_are_named(case: str) -> None:
    check, message = WRONG[case]
    with pytest.raises(CheckError, match=message):
        check()


def test_the_same_foreign_function_called_once_per_example_is_right() -> None:
    check_rules(flattening("sequential"), X)


def test_abstract_results_without_shapes_raise() -> None:
    silent = ft.primitive(lambda x: np.sin(x))
    with pytest.raises(ConcretizationError, match="results=lambda x: x"):
        check_rules(silent, X)


def test_params_belong_to_primitives() -> None:
    with pytest.raises(ArgumentError, match="params are those of"):
        check_rules(np.sin, X, params=(1,))
