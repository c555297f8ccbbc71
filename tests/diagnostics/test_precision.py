"""`debug.precision`: digits lost by operation and line, against mpmath."""

from __future__ import annotations

import importlib.util
import linecache
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

import functrace as ft
from functrace.diagnostics.precision_report import report_precision
from functrace.errors import ArgumentError, UnsupportedFunctionError
from functrace.passes import STABLE_FORMS, StableForm, stable
from tests.diagnostics.programs import compiled, straight_lines, vectors
from tests.test_cases import CASES

mpmath: Any = pytest.importorskip("mpmath")
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


# -- random programs against mpmath, line by line ------------------------------------------------------


class Exact:
    """The NumPy functions of random programs, on lists of mpmath's numbers."""

    def __getattr__(self, name: str) -> Any:
        known: dict[str, Any] = {
            "square": lambda x: x * x,
            "reciprocal": lambda x: 1 / x,
            "arcsin": mpmath.asin,
            "arccosh": mpmath.acosh,
        }
        return np.vectorize(known.get(name) or getattr(mpmath, name), otypes=[object])


def exact_lines(lines: list[str], x: Any) -> dict[str, Any] | None:
    """Run assignments with 80 digits; ``None`` if a value is undefined, or too large."""
    space: dict[str, Any] = {
        "np": Exact(), "v0": np.array([mpmath.mpf(float(v)) for v in x], object)
    }  # fmt: skip
    with mpmath.workdps(80):
        for line in lines:
            try:
                exec(line, space)
            except (ZeroDivisionError, ValueError):
                return None
            found = space[line.split(" = ")[0]]
            if any(isinstance(v, mpmath.mpc) or not 1e-200 < abs(v) < 1e200 for v in found if v):
                return None
    return space


@pytest.mark.draws
@given(straight_lines(), vectors())
def test_the_errors_of_lines_are_those_of_a_run_with_80_digits(lines: list[str], x: Any) -> None:
    exact = exact_lines(lines, x)
    assume(exact is not None)
    assert exact is not None
    report = ft.debug.precision(compiled(lines))(x)
    space: dict[str, Any] = {"np": np, "v0": x}
    for number, line in enumerate(lines):
        exec(line, space)
        name = line.split(" = ")[0]
        rows = [
            r for r in report.operations if r.source is not None and r.source.line == number + 2
        ]
        (row,) = rows
        reference = exact[name][row.index]
        value = space[name][row.index]
        assert row.value == f"{value:.16g}"
        if reference == 0:
            assert row.error == (0.0 if value == 0 else np.inf)
        elif np.isfinite(value):
            error = float(abs(mpmath.mpf(float(value)) - reference) / abs(reference))
            np.testing.assert_allclose(row.error, error, rtol=1e-9, atol=1e-25)


@pytest.mark.sampled(17)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_two_references_find_the_same_digits(case: Any) -> None:
    """mpmath's numbers and NumPy's long doubles: every operation is right in both."""
    if np.finfo(np.longdouble).eps >= np.finfo(float).eps:
        pytest.skip("no long double")
    exact = ft.debug.precision(case.call, reference="mpmath")(*case.args)
    longer = ft.debug.precision(case.call, reference="longdouble")(*case.args)
    if exact.unmeasured or longer.unmeasured:
        return
    for a, b in zip(exact.results, longer.results, strict=True):
        if abs(complex(a.reference)) < 1e-15:
            continue  # a rounded zero has no digits
        assert min(a.lost, 12.0) == pytest.approx(min(b.lost, 12.0), abs=0.5)


# -- stable forms ------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", STABLE_FORMS, ids=lambda row: row.formula)
def test_stable_forms_are_named_and_lose_no_digits(row: StableForm) -> None:
    x = np.array(row.at)
    formula = eval(f"lambda x: {row.formula}", {"np": np})
    report = ft.debug.precision(formula)(x)
    assert report.lost > 3.0 and report
    worst = report.operations[0]
    assert worst.stable is not None and worst.stable.stable == row.stable and worst.reaches_result
    assert row.stable in str(report) and "passes.stable" in str(report)
    assert report_precision(stable(ft.trace(formula)(x)), [x]).lost < 1.0


# -- what a report says ------------------------------------------------------------------------------


def versine(x: Any) -> Any:
    c = np.cos(x)
    return 1.0 - c


def test_cancellation_has_a_line_and_a_condition_number() -> None:
    report = ft.debug.precision(versine)(np.array([1.0, 1e-6]))
    line = report.lines[0]
    assert line.source is not None and line.source.expression == "return 1.0 - c"
    row = line.operations[0]
    assert (row.primitive, row.cause, row.index) == ("sub", "cancellation", (1,))
    assert row.condition == pytest.approx(2e12, rel=1e-3)
    assert row.lost == pytest.approx(report.lost) and 11.0 < row.lost < 13.0
    assert row.reference.startswith("4.99999999999")
    cosine = report.lines[1]
    assert cosine.source is not None and "np.cos" in cosine.source.expression
    assert cosine.lost < 0.5 and not cosine.operations[0].cause


def test_notebooks_show_a_table_of_escaped_text() -> None:
    space: dict[str, Any] = {"np": np}
    source: str = "def f(x):\n    return 1 - np.cos(x)  # <b>bold</b>\n"
    name = "<img src=x>"
    rows: list[str] = [*source.splitlines(keepends=True)]
    linecache.cache[name] = (len(source), None, rows, name)
    exec(compile(source, name, "exec"), space)
    text = ft.debug.precision(space["f"])(1e-6)._repr_html_()
    assert "2 * np.sin(x / 2)**2" in text and "compared with mpmath" in text
    assert "<b>" not in text and "<img" not in text


@pytest.mark.parametrize("x", [1e-9, 1e-25, 1e-120])
def test_more_digits_are_taken_until_they_are_enough(x: float) -> None:
    report = ft.debug.precision(versine)(x)
    assert report.lost == report.results[0].digits
    assert float(report.results[0].reference) == pytest.approx(x * x / 2)
    assert not report.operations[0].is_doubtful


def test_a_reference_that_is_too_short_says_so() -> None:
    report = ft.debug.precision(versine, reference="longdouble")(1e-12)
    assert report.lost == report.results[0].digits
    assert report.operations[0].is_doubtful and "too few digits" in str(report)
    report = ft.debug.precision(versine)(np.float32(1e-12))
    assert report.reference == "float64" and report.operations[0].is_doubtful


@pytest.mark.parametrize("x", [0.0, 0.5, 2.0])
def test_exact_results_lose_nothing(x: float) -> None:
    for reference in ("mpmath", "longdouble"):
        report = ft.debug.precision(lambda x: (x + x) - 2.0 * x, reference=reference)(x)
        assert report.lost == 0.0 and not report
    assert not ft.debug.precision(versine)(0.0)


def test_lost_digits_that_reach_no_result_are_not_an_answer() -> None:
    report = ft.debug.precision(lambda x: versine(x) + 1.0)(1e-6)
    assert report.lost < 0.5 and not report
    row = next(row for row in report.operations if row.primitive == "sub")
    assert row.lost > 10.0 and not row.reaches_result
    assert "no result depends on the lost digits" in str(report)


def test_overflow_and_underflow() -> None:
    def f(x: Any) -> Any:
        return np.log(np.exp(x))

    report = ft.debug.precision(f)(np.array([800.0, 1.0]))
    assert report.operations[0].cause == "overflow"
    assert report.results[0].index == (0,) and report.lost == report.results[0].digits
    report = ft.debug.precision(f)(-800.0)
    assert report.lost == report.results[0].digits
    assert not ft.debug.precision(np.exp)(-800.0)  # it is 0 to the precision of the dtype


@pytest.mark.parametrize("transform", [ft.grad, lambda f: ft.vmap(ft.grad(f)), ft.jit, ft.hessian])
def test_transforms(transform: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sqrt(x * x + 1.0) - x)

    x = np.array([[1e5], [2.0]])
    if transform in (ft.grad, ft.jit):
        x = x[:, 0]
    if transform is ft.hessian:
        x = x[0]
    report = ft.debug.precision(transform(f))(x)
    with mpmath.workdps(60):
        at = mpmath.mpf(1e5)
        exact = {
            ft.jit: mpmath.sqrt(at**2 + 1) - at + mpmath.sqrt(5) - 2,
            ft.hessian: (at**2 + 1) ** mpmath.mpf(-1.5),
        }.get(transform, at / mpmath.sqrt(at**2 + 1) - 1)
        value = np.ravel(transform(f)(x))[0]
        error = abs(float((mpmath.mpf(float(value)) - exact) / exact))
    result = report.results[0]
    assert result.lost == pytest.approx(np.log10(max(error, 2.0**-53) * 2.0**53), abs=0.1)


def test_steps_of_loops_and_branches() -> None:
    def body(c: Any, t: Any) -> Any:
        return ft.cond(t > 2.0, lambda c: versine(c * 1e-5), lambda c: c * 2.0, c), t

    def f(x: Any) -> Any:
        return ft.scan(body, x, np.arange(4.0))[0]

    report = ft.debug.precision(f)(1.0)
    row = report.operations[0]
    assert row.primitive == "sub"
    assert [str(step) for step in row.steps] == ["step 3 of 4 of scan", "branch 1 of cond"]
    assert row.reaches_result and report.lost == pytest.approx(row.lost, abs=0.5)
    doubling = next(r for r in report.operations if r.primitive == "mul" and r.lost < 0.5)
    assert doubling.runs in (1, 3)


def test_branches_of_other_examples_lose_no_digits() -> None:
    def f(x: Any) -> Any:
        return ft.cond(x > 0.5, lambda x: 1.0 - np.cos(x), lambda x: x * 2.0, x)

    assert not ft.debug.precision(ft.vmap(f))(np.array([1e-9, 1.0]))
    report = ft.debug.precision(ft.vmap(lambda x: f(x + 1.0)))(np.array([1e-9, 1.0]))
    assert all(row.lost < 1.0 for row in report.operations)


def test_decisions_are_those_of_the_program() -> None:
    """The loop stops by a residual that rounding decides; both runs take the same steps."""

    def f(x: Any) -> Any:
        def goes_on(s: Any) -> Any:
            return np.abs(s[0] * s[0] - x) > 3e-16 * x

        return ft.while_loop(
            lambda s: (s[1] < 30) & goes_on(s), lambda s: ((s[0] + x / s[0]) / 2, s[1] + 1), (x, 0)
        )

    report = ft.debug.precision(f)(2.0)
    assert report.lost < 0.5
    assert not ft.debug.precision(lambda x: np.floor(x * 10.0))(0.3)


def test_while_loops_and_their_derivatives() -> None:
    def f(x: Any) -> Any:
        return ft.while_loop(
            lambda s: s[1] < 3, lambda s: (np.sqrt(s[0] ** 2 + 1e-9) - s[0], s[1] + 1), (x, 0)
        )[0]

    report = ft.debug.precision(f)(3.0)
    steps = {step.number for row in report.operations for step in row.steps if row.lost > 3.0}
    assert steps == {0}
    assert ft.debug.precision(ft.grad(f))(3.0).results[0].lost > 1.0


@pytest.mark.parametrize("name", ["checkpoint", "custom_jvp", "custom_vjp", "strong_zero"])
def test_calls_are_entered(name: str) -> None:
    wraps: dict[str, Any] = {"checkpoint": ft.checkpoint, "strong_zero": ft.strong_zero}
    f: Any = wraps[name](versine) if name in wraps else getattr(ft, name)(versine)
    if name == "custom_jvp":
        f.defjvp(lambda primals, tangents: (versine(*primals), np.sin(primals[0]) * tangents[0]))
    if name == "custom_vjp":
        f.defvjp(lambda x: (versine(x), x), lambda x, ct: (np.sin(x) * ct,))
    report = ft.debug.precision(lambda x: f(x) * 2.0)(1e-6)
    assert report.operations[0].primitive == "sub" and report.lost > 10.0
    assert not ft.debug.precision(ft.grad(lambda x: f(x) * 2.0))(1e-6)


@pytest.mark.parametrize("transform", [lambda f: f, ft.grad, lambda f: ft.jit(ft.grad(f))])
def test_checkpointed_loops_are_entered(transform: Any) -> None:
    def f(x: Any, checkpoint: Any = None) -> Any:
        return ft.scan(
            lambda c, t: (versine(c) * t, None), x, np.arange(1.0, 5.0), checkpoint=checkpoint
        )[0]

    plain = ft.debug.precision(transform(f))(1e-2)
    found = ft.debug.precision(transform(lambda x: f(x, 2)))(1e-2)
    assert found.lost == plain.lost and not found.unmeasured
    assert [row.lost for row in found.operations] == [row.lost for row in plain.operations]
    assert any(row.primitive == "sub" and row.lost > 3.0 and row.steps for row in found.operations)


def test_operations_without_a_reference_are_linearized_and_named() -> None:
    def f(x: Any) -> Any:
        return np.linalg.svd(np.stack([x, versine(1e-6 * x)]))[1]

    report = ft.debug.precision(f)(np.array([1.0, 2.0]))
    assert any("svd" in text for text in report.unmeasured) and "svd" in str(report)
    assert 10.0 < report.lost < 14.0


def test_operations_without_a_derivative_are_named_where_they_hide_an_error() -> None:
    def f(x: Any, inner: Any) -> Any:
        return ft.pure_callback(lambda a: a + 1.0, ft.ShapeDtype((), np.float64), inner(x))

    report = ft.debug.precision(lambda x: f(x, versine))(1e-5)
    assert report and any("callback" in text for text in report.unfollowed)
    assert "not followed through" in str(report)
    report = ft.debug.precision(lambda x: f(x, np.cos))(1e-5)
    assert not report and report.unmeasured and not report.unfollowed


def test_linear_systems_lose_the_digits_of_their_condition() -> None:
    def f(x: Any) -> Any:
        return np.linalg.solve(np.vander(x), np.sin(x))

    x = np.linspace(0.1, 2.0, 9)
    report = ft.debug.precision(f)(x)
    with mpmath.workdps(60):
        numbers = [mpmath.mpf(float(v)) for v in x]
        matrix = mpmath.matrix([[v ** (8 - k) for k in range(9)] for v in numbers])
        exact = mpmath.lu_solve(matrix, mpmath.matrix([mpmath.sin(v) for v in numbers]))
        errors = [abs(float((mpmath.mpf(float(a)) - b) / b)) for a, b in zip(f(x), exact)]
    assert report.lost == pytest.approx(np.log10(max(errors) * 2.0**53), abs=0.05)
    assert report.operations[0].primitive == "solve" and not report.unmeasured


def test_complex_values_and_half_precision() -> None:
    report = ft.debug.precision(lambda z: np.exp(z) - 1.0)(np.array([1e-6 + 1e-6j, 1.0 + 2.0j]))
    assert report.operations[0].primitive == "sub" and report.operations[0].index == (0,)
    report = ft.debug.precision(lambda x: np.exp(x) - 1)(np.float16(1e-2))
    assert report.reference == "float64" and 0.5 < report.lost <= report.results[0].digits < 3.4


# -- references --------------------------------------------------------------------------------------


def test_the_reference_is_chosen_by_dtype_and_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ft.debug.precision(np.sin)(np.float32(1.0)).reference == "float64"
    assert ft.debug.precision(np.sin)(1.0).reference.startswith("mpmath")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert ft.debug.precision(np.sin)(1.0).reference == "longdouble"
    with pytest.raises(UnsupportedFunctionError, match=r"functrace-numpy\[precision\]"):
        ft.debug.precision(np.sin)(np.longdouble(1.0))


def test_references_without_more_digits_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no more digits"):
        ft.debug.precision(np.sin, reference="float64")(1.0)
    with pytest.raises(ArgumentError, match="no reference"):
        ft.debug.precision(np.sin, reference="double")(1.0)  # type: ignore[arg-type]


def test_traced_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="traced"):
        ft.grad(lambda x: (ft.debug.precision(np.sin)(x), x)[1])(1.0)


def test_the_precision_of_mpmath_stays() -> None:
    before = mpmath.mp.dps
    ft.debug.precision(versine)(1e-25)
    assert mpmath.mp.dps == before


@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("stack", [(), (3,)])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_linear_algebra_with_more_digits(
    size: int, stack: tuple[int, ...], is_complex: bool
) -> None:
    from functrace.diagnostics.multiprecision import Multiprecision
    from functrace.ops.cholesky import cholesky_p
    from functrace.ops.linalg import det_p, inv_p, solve_p

    rng, more = np.random.default_rng(size), Multiprecision(40)

    def applied(primitive: Any, *operands: Any) -> Any:
        lifted = [more.lift(x) for x in operands]
        (found,) = more.apply(primitive, lifted, (), is_complex=is_complex) or ()
        return np.asarray(found).astype(complex)

    a = rng.normal(size=(*stack, size, size)) + 1j * is_complex * rng.normal(size=(size, size))
    a = a if is_complex else a.real
    b, v = rng.normal(size=(*stack, size, 2)), rng.normal(size=size)
    positive = a @ np.conj(np.swapaxes(a, -1, -2)) + size * np.eye(size)
    for found, expected in (
        (applied(solve_p, a, b), np.linalg.solve(a, b)),
        (applied(inv_p, a), np.linalg.inv(a)),
        (applied(det_p, a), np.linalg.det(a)),
        (applied(cholesky_p, positive), np.linalg.cholesky(positive)),
        (applied(solve_p, a[(0,) * len(stack)], v), np.linalg.solve(a[(0,) * len(stack)], v)),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-12)
    singular = np.zeros_like(a)
    assert np.isnan(applied(solve_p, singular, b)).all() and not applied(det_p, singular).any()
