"""Coverage of SciPy on traced values, tried function by function: generates
``docs/scipy_coverage.md``.

    python -m tests.scipy.coverage           # writes the page
    python -m tests.scipy.coverage --check   # fails if the page is out of date

A function is tried as its first case in tests/cases calls it; a distribution, as the first case of
each of its methods does. Functions are those that modules of functrace.scipy name in ``__all__``,
and SciPy's ufuncs: one without a case shows.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import scipy.special
from scipy.special import _ufuncs

import functrace.scipy
import tests.cases
from functrace.ops.special.rows import TABLE
from functrace.scipy import linalg
from tests.cases.case import Case
from tests.numpy.coverage import COLUMNS, Row, main, n, row, table
from tests.scipy import (
    test_integrate,
    test_missed,
    test_optimize,
    test_quadrature,
    test_riccati,
    test_sparse_factors,
)

PAGE = Path(__file__).parents[2] / "docs" / "scipy_coverage.md"
REFUSED: dict[str, Callable[..., Any]] = {
    **{
        name: getattr(linalg, name) for name in ("hessenberg", "ldl", "null_space", "orth", "schur")
    },
    "funm": lambda a: linalg.funm(a, np.exp),
}
"""Functions without a derivative and without a case."""
ITERATIVE = (
    "bicg",
    "bicgstab",
    "cg",
    "cgs",
    "gcrotmk",
    "gmres",
    "lgmres",
    "minres",
    "qmr",
    "tfqmr",
)


def _solved_by(name: str) -> Callable[..., Any]:
    """The solution of a symmetric system by its elements, on the diagonal and beside it."""
    solver: Any = getattr(functrace.scipy.sparse.linalg, name)
    rows, columns = np.array([[0, 1, 2, 0, 1, 1, 2], [0, 1, 2, 1, 2, 0, 1]])

    def solution(d: Any) -> Any:
        data = np.concatenate([np.exp(d) + 3.0, d[:2], d[:2]])
        matrix = functrace.scipy.sparse.csr_array((data, (rows, columns)), shape=(3, 3))
        return solver(matrix, np.array([1.0, -0.5, 2.0]), rtol=1e-13)[0]

    return solution


def _tridiagonal(x: Any) -> Any:
    """A symmetric matrix with traced elements on its diagonal."""
    n = len(x)
    rows = np.concatenate([np.arange(n), np.arange(n - 1), np.arange(1, n)])
    columns = np.concatenate([np.arange(n), np.arange(1, n), np.arange(n - 1)])
    data = np.concatenate([x**2 + 3.0, np.full(2 * n - 2, 0.5)])
    return functrace.scipy.sparse.csr_array((data, (rows, columns)), shape=(n, n))


SOLVED: dict[str, tuple[Callable[..., Any], Any]] = {
    **{f"optimize.{name}": (f, test_optimize.A) for name, f in test_optimize.CASES.items()},
    **{
        f"integrate.{name.split(',')[0]}": (f, test_quadrature.Z)
        for name, f in reversed(test_quadrature.ALL.items())
    },
    "optimize.minimize": (test_optimize.by_hand_minimum, test_optimize.A),
    "optimize.least_squares": (test_optimize.by_hand_squares, test_optimize.A),
    "optimize.curve_fit": (test_optimize.by_hand_fit, test_optimize.A),
    **{
        f"sparse.linalg.{name}": (_solved_by(name), np.array([0.3, -0.7, 0.5]))
        for name in ITERATIVE
    },
    "integrate.solve_ivp": (test_integrate.swung, test_integrate.Z),
    "integrate.odeint": (test_integrate.swung_by_odeint, test_integrate.Z),
    **{
        f"linalg.{name}": (test_riccati.by_feedback(name), np.array([0.3, -0.7]))
        for name in test_riccati.NAMES
    },
    "integrate.solve_bvp": (
        test_missed.by_result(test_missed.bratu, functrace.scipy.integrate),
        np.array([1.2, 0.3]),
    ),
    "optimize.leastsq": (
        lambda y: functrace.scipy.optimize.leastsq(
            lambda p: p[0] + p[1] * test_missed.XS - y,
            [1.0, 1.0],
            Dfun=lambda p: np.stack([np.ones(12), test_missed.XS]),
            col_deriv=True,
            ftol=1e-15,
            xtol=1e-15,
        )[0],
        test_missed.YS,
    ),
    "stats.multivariate_t": (
        lambda x: functrace.scipy.stats.multivariate_t.logpdf(x, None, test_missed.MATRIX, 3.0),
        test_missed.POINTS,
    ),
    **{
        f"sparse.{name}": (
            lambda x, build=build: build(
                functrace.scipy.sparse, _tridiagonal(x), test_sparse_factors.OTHER
            ).toarray(),
            test_missed.XS,
        )
        for name, (build, _) in test_sparse_factors.COMPOSED.items()
    },
    "sparse.linalg.splu": (
        lambda x: functrace.scipy.sparse.linalg.splu(_tridiagonal(x)).solve(x),
        test_missed.XS,
    ),
    "sparse.linalg.factorized": (
        lambda x: functrace.scipy.sparse.linalg.factorized(_tridiagonal(x))(x),
        test_missed.XS,
    ),
    "sparse.linalg.eigsh": (
        lambda x: functrace.scipy.sparse.linalg.eigsh(
            _tridiagonal(x), 2, v0=np.ones(12), tol=1e-14
        )[0],
        test_missed.XS,
    ),
    "stats.gaussian_kde": (
        lambda x: functrace.scipy.stats.gaussian_kde(x)(np.array([0.1, 0.5])),
        test_missed.SAMPLES[0],
    ),
}
"""Trials of solvers, as in their own tests; where SciPy takes differences, with derivatives by
hand.
"""
RANK = ("wrong", "breaks", "raises", "no case", "0", "✓", "–")
"""Marks, what is worse first."""


def rooms() -> dict[str, list[str]]:
    """Return the public names of every module of functrace.scipy."""
    found: dict[str, list[str]] = {}
    for name in sorted(module.name for module in pkgutil.iter_modules(functrace.scipy.__path__)):
        if not hasattr(scipy, name):
            continue
        module = importlib.import_module(f"functrace.scipy.{name}")
        own = [
            key
            for key, value in vars(module).items()
            if str(getattr(value, "__module__", "")).startswith(module.__name__)
        ]
        names = vars(module).get("__all__", own)
        listed = [key for key in names if key[0] != "_" and callable(getattr(module, key))]
        if listed:
            found[name] = sorted(listed)
    found["sparse"] += [
        f"linalg.{name}" for name in sorted([*ITERATIVE, "eigsh", "factorized", "splu", "spsolve"])
    ]
    found["special"] = sorted(
        {*found["special"], *[row.eval.__name__.lstrip("_") for row in TABLE.values()]}
    )
    return found


def without_row() -> list[str]:
    """Return the ufuncs of scipy.special that have no derivative by anything."""
    rows = {id(row.eval) for row in TABLE.values()}
    ufuncs = {
        name: f
        for name in dir(scipy.special)
        if isinstance(f := getattr(scipy.special, name), np.ufunc)
    }
    own = {id(f) for f in (_ufuncs._lambertw, _ufuncs._zeta, _ufuncs._riemann_zeta)}
    return sorted(name for name, f in ufuncs.items() if id(f) not in rows | own and name[0] != "_")


@functools.lru_cache(maxsize=1)
def cases() -> dict[str, list[Case]]:
    """Return cases by the name of the function that they are of."""
    found: dict[str, list[Case]] = {}
    for module in sorted(module.name for module in pkgutil.iter_modules(tests.cases.__path__)):
        for case in getattr(importlib.import_module(f"tests.cases.{module}"), "CASES", ()):
            prefix, _, name = case.name.partition("/")
            room, _, function = prefix.removeprefix("scipy.").partition(".")
            if function and (prefix.startswith("scipy.") or not hasattr(np, room)):
                found.setdefault(f"{room}.{function}", []).append(case)
            elif prefix == "scipy" or hasattr(functrace.scipy, prefix):
                name = name.split(",")[0].strip().lstrip("_")
                found.setdefault(name, []).append(case)
    return found


def _tried(name: str, case: Case) -> Row:
    """Try a case, by the arguments that it differentiates."""
    places = case.diff or tuple(
        k for k, a in enumerate(case.args) if np.asarray(a).dtype.kind not in "fc"
    )

    def call(*given: Any) -> Any:
        whole = [np.asarray(a)[()] for a in case.args]
        for place, value in zip(places, given, strict=True):
            whole[place] = value
        return case.call(*whole)

    found = row(name, call, tuple(np.asarray(case.args[k])[()] for k in places))
    if not case.diff and case.args:
        found.note = found.note or "no derivative by this"
    return found


def _methods(name: str) -> list[Case]:
    """Return the first case of each method of a distribution that is differentiated."""
    methods = {
        key: listed[0]
        for key, listed in cases().items()
        if key.startswith(f"{name}.") and listed[0].diff
    }
    return list(methods.values())


def _joined(name: str, listed: list[Case]) -> Row:
    found = [_tried(name, case) for case in listed]
    marks = {
        column: min((one.marks[column] for one in found), key=RANK.index) for column in COLUMNS
    }
    notes = [one.note for one in found if one.note and one.note != "no derivative by this"]
    tried = [case.name.partition(".")[2].partition(",")[0] for case in listed if "." in case.name]
    return Row(
        name, marks, "; ".join([*dict.fromkeys(notes), " ".join(dict.fromkeys(tried))]).strip("; ")
    )


@functools.lru_cache(maxsize=1)
def rows() -> tuple[Row, ...]:
    """Try all functions."""
    return tuple(_rows())


def _rows() -> Iterator[Row]:
    known = cases()
    for room, names in rooms().items():
        for name in names:
            listed = (
                known.get(f"{room}.{name}", [])[:1] or _methods(name) or known.get(name, [])[:1]
            )
            if listed and f"{room}.{name}" not in SOLVED:
                yield _joined(f"{room}.{name}", listed)
            elif f"{room}.{name}" in SOLVED:
                f, at = SOLVED[f"{room}.{name}"]
                yield row(f"{room}.{name}", f, (at,))
            elif (
                room == "sparse"
            ):  # another kind of matrix, which does what those do that are tried
                continue
            elif name in REFUSED:
                yield row(f"{room}.{name}", REFUSED[name], (n + n.T,))
            else:
                yield Row(f"{room}.{name}", dict.fromkeys(COLUMNS, "no case"), "")


HEAD = """# SciPy coverage

Written by `python -m tests.scipy.coverage`, which tries every ufunc of `scipy.special`, called as it is, and every function
of `functrace.scipy`, as its first case in `tests/cases` calls it. Reverse and forward mode are compared with central
differences by the arguments that have a derivative, `vmap` with a loop, `jit` with SciPy. Of distributions, the methods that
are tried stand on the right.

* ✓: right. 0: right, and the derivative is 0 wherever there is one. –: there is nothing to differentiate.
* raises: the error says what to do; what it says first stands on the right.
* Ufuncs of `scipy.special` without any derivative here, which raise when they are called on traced values:
  {without}.

| function | reverse | forward | vmap | jit | |
|---|---|---|---|---|---|
"""


def page() -> str:
    """Return the page."""
    return HEAD.format(without=", ".join(f"`{name}`" for name in without_row())) + table(rows())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], PAGE, page, "tests.scipy.coverage"))
