"""Functions with rules, nested in one another's rules and in sub-programs of them: derivatives of
orders one to three, in every mixture of forward and reverse mode, are what the rules say; see
`tests.compositions.ruled_programs`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.errors import FunctraceError
from tests.compositions.ruled_programs import (
    AROUND,
    HOLDERS,
    HOLDERS_OF_TORCH,
    Library,
    Modulus,
    Plain,
    Program,
    Ruled,
    derivative_of_torch,
    directional,
    random_program,
)
from tests.sampling import scaled

X = np.array([0.4, 0.0, -0.7])
"""At zero, a rule that is dropped shows as NaN."""
ALONG = [np.array([0.8, -0.5, 0.3]), np.array([-0.6, 0.9, 0.4]), np.array([0.5, 0.7, -0.2])]
STYLES = ("vjp", "jvp", "both")
WAYS = ("P", "Q", "PP", "PQ", "QP", "QQ", "PPQ", "PQP", "PQQ", "QPP", "QPQ", "QQP", "QQQ")
"""Which mode each order is taken in, the outermost first: P pushes forward, Q pulls back."""
MATRICES: dict[str, Callable[[Any], Any]] = {
    "hessian": ft.hessian,
    "jacrev of jacfwd": lambda f: ft.jacrev(ft.jacfwd(f)),
    "jacfwd of jacrev": lambda f: ft.jacfwd(ft.jacrev(f)),
    "jacrev of jacrev": lambda f: ft.jacrev(ft.jacrev(f)),
}
WRAPPED: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "alone": lambda f: f(X),
    "jit": lambda f: ft.jit(f)(X),
    "vmap": lambda f: ft.vmap(f)(np.stack([0.5 * X, X]))[1],
}


def pushed(f: Any, v: Any) -> Any:
    return lambda x: ft.jvp(f, (x,), (v,))[1]


def pulled(f: Any, v: Any) -> Any:
    return lambda x: np.sum(ft.grad(f)(x) * v)


def derivative(f: Any, way: str) -> Any:
    """Differentiate a function as often as there are letters."""
    for mode, v in zip(reversed(way), ALONG, strict=False):
        f = (pushed if mode == "P" else pulled)(f, v)
    return f


@functools.cache
def expected(program: Program, way: str) -> Any:
    if way in MATRICES:
        return np.array([[directional(program, X, (a, b)) for a in np.eye(3)] for b in np.eye(3)])
    return directional(program, X, ALONG[: len(way)])


def difference(program: Program, way: str, wrapped: str) -> str:
    """Return what is wrong with a derivative, if anything."""
    lib = Library(ft, np, ft)

    def f(x: Any) -> Any:
        return np.sum(program.run(lib, x))

    wanted = expected(program, way)
    with np.errstate(all="ignore"):
        try:
            found = WRAPPED[wrapped](MATRICES[way](f) if way in MATRICES else derivative(f, way))
        except FunctraceError as error:
            found = str(error).splitlines()[0]
    if not isinstance(found, str) and np.allclose(found, wanted, rtol=1e-9, atol=1e-10):
        return ""
    return f"{way} {wrapped}: {found}, not {wanted}, of {program}"


@pytest.mark.full
def test_custom_rules_apply_to_factors_inside_rules() -> None:
    wrong = []
    for k, holder in enumerate(HOLDERS):
        for n, style in enumerate(STYLES):
            slope = Ruled(Modulus(0.5), Plain(0.6, 0.5, 0.2), style, holder, early=False)
            program = Program(
                (Ruled(Modulus(0.7), slope, style, holder, early=False),), (1,), "Python", 1
            )
            wrong.append(difference(program, ("QP", "QPQ")[(k + n) % 2], "alone"))
    assert not list(filter(None, wrong)), "\n".join(filter(None, wrong))


@pytest.mark.draws
def test_random_programs_are_differentiated_by_their_rules() -> None:
    wrong = []
    for seed in range(scaled(25)):
        rng = Random(f"rules:{seed}")
        program = random_program(rng, styles=STYLES, holders=list(HOLDERS), arounds=list(AROUND))
        for way in rng.sample((*WAYS, *MATRICES), 3):
            wrong.append(difference(program, way, rng.choice(list(WRAPPED))))
    assert not list(filter(None, wrong)), "\n".join(filter(None, wrong))


STYLES_OF_TORCH = {"Function": WAYS, "pushed": WAYS, "joined": (*WAYS, "C", "CC", "CCC")}


@pytest.mark.draws
def test_random_programs_of_torch_functions_are_differentiated_by_their_rules() -> None:
    wrong = []
    for seed in range(scaled(8)):
        rng = Random(f"Functions:{seed}")
        for style, ways in STYLES_OF_TORCH.items():
            program = random_program(
                rng, styles=(style,), holders=HOLDERS_OF_TORCH, arounds=("Python",)
            )
            for way in rng.sample(ways, 2):
                mapped = "C" not in way and rng.random() < 0.3
                with np.errstate(all="ignore"):
                    found = derivative_of_torch(torch, program, way, X, ALONG, mapped=mapped)
                if not np.allclose(found, expected(program, way), rtol=1e-9, atol=1e-10):
                    wrong.append(f"{way}: {found}, not {expected(program, way)}, of {program}")
    assert not wrong, "\n".join(wrong)
