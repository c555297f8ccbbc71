"""Every primitive has a row, or a declared reason; and programs of the library's generic cases
(tests/cases), their derivatives and batches, have NumPy's results under XLA.

The default run takes a sample. Only the CPU is at hand.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.control

pytest.importorskip("jax", reason="jax is not installed")


from functrace.errors import UnsupportedFunctionError
from functrace.ir.primitive import CONSTANT, INPUT, RESULT, Primitive
from functrace.ops import PRIMITIVES
from functrace.xla.lowering import ROWS
from functrace.xla.rows import HOST, REFUSED
from tests.cases.case import Case
from tests.oracles import is_inexact, random_like, restricted
from tests.test_cases import CASES, WITH_DERIVATIVES, arguments_of, rng_of, second_example
from tests.xla.agreement import MOST_ROUNDING, assert_agrees

OF_OTHER_BACKENDS = {"walk", "along"}
"""Primitives that passes of other backends make, and no recording (functrace/control/loop_sharing)."""
SPELLED_OUT = {"strong_both", "strong_contraction", "strong_div", "strong_mul"}
"""Primitives of the program of a `strong_zero`, which is lowered with others in their place."""
_ZERO = "the exact result is 0, and what is computed is rounding"
_CONDITION = "a Vandermonde matrix of condition 1e3 is inverted"
_CANCELLED = "one number, the sum of larger ones that cancel"
_SCIPY = "SciPy's expm, which tanm calls, loses three digits"
LESS_PRECISE: dict[str, tuple[float, str]] = {
    "gradient: fft.fftfreq": (1e17, _ZERO),
    "gradient: linalg.det/singular complex": (1e17, _ZERO),
    "polyfit/cov unscaled": (2e4, _CONDITION),
    "scipy/tanm": (2e3, _SCIPY),
    "stats/dirichlet": (1e3, _CANCELLED),
    **dict.fromkeys(
        [
            f"gradient: stats/kurtosis{rest}"
            for rest in ("", ", axis, 1", ", axes stay, 1", ", pearson")
        ],
        (1e17, "kurtosis of two or three numbers is constant: " + _ZERO),
    ),
    **dict.fromkeys(
        [
            f"gradient: stats/{name}"
            for name in (
                "f.cdf",
                "f.logcdf",
                "f.pdf",
                "gennorm.logcdf",
                "gennorm.logsf",
                "gumbel_l.cdf",
                "poisson.cdf",
                "poisson.logsf",
            )
        ],
        (2e3, _CANCELLED),
    ),
}
"""By case, or derived function and case: more rounding, and why."""
NOT_STAGED: dict[str, str] = {
    "batch: reshape/view": "may share memory",
    "batch: reshape/copy of a transposed view": "may share memory",
}
"""Functions that no program can hold, and part of the error message."""


def all_primitives() -> dict[str, Primitive]:
    """Return every primitive by name: of `functrace.ops` with SciPy's, and of `functrace.control`."""
    PRIMITIVES["erf"]  # (loads SciPy's)
    found = dict(PRIMITIVES)
    for module in pkgutil.iter_modules(functrace.control.__path__, "functrace.control."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Primitive) and value not in (INPUT, CONSTANT, RESULT):
                found[value.name] = value
    return found


def test_every_primitive_has_a_row_or_a_reason() -> None:
    primitives = all_primitives()
    assert len(primitives) > 380
    without = [name for name, p in primitives.items() if p not in ROWS]
    assert sorted(set(without) - set(HOST) - set(REFUSED) - OF_OTHER_BACKENDS - SPELLED_OUT) == []
    with_both = [name for name in HOST if primitives[name] in ROWS]
    assert with_both == [], "these have rows"
    assert all(len(reason) > 10 for reason in HOST.values())


def check(way: str, case: Case, f: Callable[..., Any], args: list[Any]) -> None:
    """Check one program of a case."""
    name = f"{way}: {case.name}"
    if name in NOT_STAGED:
        with pytest.raises(UnsupportedFunctionError, match=NOT_STAGED[name]):
            ft.trace(f)(*args)
        return
    most, _ = LESS_PRECISE.get(case.name) or LESS_PRECISE.get(name) or (MOST_ROUNDING, "")
    assert_agrees(f, args, most)


def each(cases: list[Case]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.name)


@pytest.mark.sampled(30)
@each(CASES)
def test_values_equal_numpy(case: Case) -> None:
    check("value", case, case.call, arguments_of(case))


@pytest.mark.sampled(30)
@each(WITH_DERIVATIVES)
def test_gradients_equal_numpy(case: Case) -> None:
    args, rng = arguments_of(case), rng_of(case)
    f = restricted(case.call, args, case.diff)

    def pulled_back(*primals: Any) -> Any:
        value, pullback = ft.vjp(f, *primals)
        leaves, tree = ft.tree.flatten(value)
        return pullback(ft.tree.unflatten(tree, bars[: len(leaves)]))

    primals = [args[k] for k in case.diff]
    leaves = [np.asarray(y) for y in ft.tree.leaves(f(*primals))]
    bars = [random_like(rng, y) if is_inexact(y) else np.zeros(y.shape) for y in leaves]
    check("gradient", case, pulled_back, primals)


@pytest.mark.sampled(30)
@each([case for case in CASES if case.vmap and case.args])
def test_batches_equal_numpy(case: Case) -> None:
    args = arguments_of(case)
    second = second_example(case, args, rng_of(case))
    batch = [np.stack([a, b, a]) for a, b in zip(args, second, strict=True)]
    check("batch", case, ft.vmap(case.call), batch)


@pytest.mark.sampled(30)
@each([case for case in CASES if case.edge])
def test_edge_arguments_equal_numpy(case: Case) -> None:
    for edge in case.edge:
        args = [np.asarray(a)[()] if np.ndim(a) == 0 else np.asarray(a) for a in edge]
        check("edge", case, case.call, args)
