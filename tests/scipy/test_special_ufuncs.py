"""scipy.special's ufuncs on traced values: what has no derivative says so, and precision is that of
the operands.
"""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import special

import functrace as ft
from functrace.errors import NotDifferentiableError, UnsupportedFunctionError
from functrace.ops.special.rows import TABLE, SpecialFunction
from tests.cases.case import Case
from tests.cases.special import CASES

ROWS = sorted(TABLE.values(), key=lambda row: row.name)


def test_every_row_has_a_case_and_a_source() -> None:
    covered = {case.name.split("/")[1].split(",")[0].lstrip("_") for case in CASES}
    assert {row.eval.__name__.lstrip("_") for row in ROWS} == covered
    assert all(row.source for row in ROWS)


def row_of(case: Case) -> SpecialFunction:
    """The row that a case is of."""
    name = case.name.split("/")[1].split(",")[0]
    return next(row for row in ROWS if row.eval.__name__.lstrip("_") == name.lstrip("_"))


REAL = [case for case in CASES if not any(np.iscomplexobj(a) for a in case.args)]


@pytest.mark.parametrize("case", REAL, ids=lambda case: case.name)
def test_arguments_without_derivative_are_refused_by_name(case: Case) -> None:
    row, x = row_of(case), [np.asarray(a).ravel()[-1] for a in case.args]
    constant = row.name in ("gammasgn", "special_round")
    for place in range(len(x)):
        if place in case.diff or x[place].dtype.kind != "f" or constant:
            continue
        f = lambda v, k=place: row.eval(*[v if j == k else y for j, y in enumerate(x)])
        with pytest.raises(NotDifferentiableError) as caught:
            ft.jvp(f, (x[place],), (np.float64(1.0),))
        assert f"scipy.special.{row.name} has no derivative by its argument" in str(caught.value)
        assert "test_special_ufuncs.py" in str(caught.value)
        assert "fix: " in str(caught.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", REAL, ids=lambda case: case.name)
def test_single_precision_with_python_numbers_stays_single(case: Case) -> None:
    row, x = row_of(case), [np.asarray(a).ravel()[-1].item() for a in case.args]
    if (
        not case.diff or len(x) != row.eval.nin or row.name.startswith("bdtr")
    ):  # SciPy's bdtr in single precision warns
        return
    last = case.diff[-1]
    f = lambda v: row.eval(*[v if j == last else y for j, y in enumerate(x)])
    single = np.full(2, x[last], np.float32)
    plain = f(single)
    value, pullback = ft.vjp(f, single)
    assert [y.dtype for y in ft.tree.leaves(value)] == [y.dtype for y in ft.tree.leaves(plain)]
    bars = ft.tree.map(np.ones_like, value)
    assert pullback(bars)[0].dtype == np.float32


def test_degrees_need_not_be_integers() -> None:
    for f in (
        special.eval_chebyt,
        special.eval_legendre,
        special.eval_laguerre,
        special.eval_chebyu,
    ):
        step = (f(0.3, 0.4 + 1e-6) - f(0.3, 0.4 - 1e-6)) / 2e-6
        np.testing.assert_allclose(ft.grad(lambda x, f=f: f(0.3, x))(0.4), step, rtol=1e-7)


def test_functions_without_a_row_raise_at_the_line() -> None:
    with pytest.raises(
        UnsupportedFunctionError,
        match=r"scipy\.special\.mathieu_a has no derivative here\n.*test_special",
    ):
        ft.grad(lambda q: special.mathieu_a(1, q))(0.5)


def test_complex_psi_is_refused_to_second_order() -> None:
    z = np.array([1.5 + 0.5j])
    f = lambda z: np.sum(np.real(special.loggamma(z)))
    assert np.allclose(ft.grad(f)(z), special.psi(z))
    with pytest.raises(NotDifferentiableError, match="psi has no derivative of complex numbers"):
        ft.grad(lambda z: np.sum(np.real(ft.grad(f)(z))))(z)


def test_far_from_zero_nothing_is_lost() -> None:
    for f, x, expected in (
        (special.log_ndtr, -1e4, 1e4),
        (special.expit, 40.0, np.exp(-40.0)),
        (special.erfcx, 1e3, -1 / (np.sqrt(np.pi) * 1e6)),
        (special.exprel, -1e3, 1e-6),
        (special.exprel, 1e-9, 0.5),
    ):
        np.testing.assert_allclose(ft.grad(f)(x), expected, rtol=1e-5, err_msg=f.__name__)


def test_programs_with_special_functions_are_read_and_pickled_elsewhere() -> None:
    program = ft.trace(ft.grad(lambda x: np.sum(special.gammaln(x) * special.jv(2, x))))(
        np.array([1.5, 2.5])
    )
    assert pickle.loads(pickle.dumps(program)) == program
    code = f"import functrace as ft; print(ft.Program.parse({program.text()!r}) is not None)"
    root = Path(ft.__file__).parents[1]
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root
    )
    assert found.stdout == "True\n"


@pytest.mark.filterwarnings("ignore")
def test_derivatives_follow_orders_that_are_truncated() -> None:
    """Where SciPy takes the whole part of an argument, the derivative is that of the function at
    the whole part.
    """
    followed = set[str]()
    for row, (place, last) in itertools.product(ROWS, [(0, 1), (0, 2), (1, 2), (0, 3)]):
        ufunc = row.eval
        kinds = {loop[place] for loop in ufunc.types if place < ufunc.nin}
        if last != ufunc.nin - 1 or ufunc.nout != 1 or not kinds & set("liq") or "d" not in kinds:
            continue
        for order, exact in ((0.5, 0.0), (1.7, 1.0), (2.25, 2.0)):

            def at(n: float, ufunc: Any = ufunc, place: int = place) -> Any:
                others = [2.0] * place + [n] + [3.0] * (ufunc.nin - 2 - place)
                return lambda x: ufunc(*others, x)

            if at(order)(0.4) != at(exact)(0.4) or at(order)(0.7) != at(exact)(0.7):
                continue
            followed.add(row.name)
            for f in (ft.grad, lambda f: ft.jit(ft.grad(f))):
                np.testing.assert_allclose(
                    f(at(order))(0.4), f(at(exact))(0.4), rtol=1e-13, err_msg=row.name
                )
    assert followed >= {"expn", "yn", "kn", "bdtr"}
