"""`debug.explain_nan`: the operation that makes the first NaN or infinity."""

from __future__ import annotations

import linecache
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given

import functrace as ft
from functrace.diagnostics.reasons import REMEDIES
from functrace.errors import ArgumentError
from tests.diagnostics.programs import compiled, first_bad, straight_lines, vectors


def masked_root(x: Any) -> Any:
    root = np.sqrt(x)
    return np.sum(np.where(x > 0, root, 0.0))


# -- random programs against line-by-line runs of NumPy ----------------------------------------------


@pytest.mark.draws
@given(straight_lines(), vectors())
def test_the_line_is_that_of_a_run_line_by_line(lines: list[str], x: Any) -> None:
    report = ft.debug.explain_nan(compiled(lines))(x)
    expected = first_bad(lines, {"v0": x}, np.isnan)
    if expected is not None:
        assert report.nan is not None and report.nan.source is not None
        assert report.nan.source.line == expected + 2
        return
    assert is_of_the_sum(report, lines)
    if report.nan is not None:
        return
    expected = first_bad(lines, {"v0": x}, np.isinf)
    if expected is None:
        assert report.first is None or report.first.source.line == len(lines) + 2  # type: ignore[union-attr]
    else:
        assert report.first is not None and report.first.source is not None
        assert report.first.source.line == expected + 2


@pytest.mark.draws
@given(straight_lines(), vectors())
def test_the_operation_of_a_derivative_is_that_of_a_run_line_by_line(
    lines: list[str], x: Any
) -> None:
    gradient = ft.grad(compiled(lines))
    report = ft.debug.explain_nan(gradient)(x)
    text = ft.trace(gradient)(x).as_python()
    body = [line.strip().partition("  #")[0] for line in text.splitlines() if " = " in line]
    body = [line for line in body if line.partition(" = ")[0].isidentifier()]
    assume("v0" in text.split("):")[0])
    number = first_bad(body, {"v0": x}, np.isnan)
    if number is None:
        assert report.nan is None
    else:
        assert report.nan is not None
        assert report.nan.operation.split(":")[0] == body[number].partition(" = ")[0].rstrip("_")


def is_of_the_sum(report: Any, lines: list[str]) -> bool:
    """Return True if there is no NaN, or if infinities of the variables cancel in their sum."""
    return report.nan is None or report.nan.source.line == len(lines) + 2


WRAPS: dict[str, Any] = {
    "jit": ft.jit,
    "checkpoint": ft.checkpoint,
    "vmap": ft.vmap,
    "jit of vmap": lambda f: ft.jit(ft.vmap(f)),
    "vmap of checkpoint": lambda f: ft.vmap(ft.checkpoint(f)),
    "strong_zero": ft.strong_zero,
}


@pytest.mark.draws
@pytest.mark.parametrize("name", WRAPS)
@given(straight_lines(), vectors(), vectors())
def test_the_line_and_the_example_are_found_in_transformed_functions(
    name: str, lines: list[str], x: Any, y: Any
) -> None:
    """The first line at which any example is NaN; the example is one that is NaN there."""
    f, is_mapped = compiled(lines), "vmap" in name
    rows = np.stack([x, y]) if is_mapped else x[None]
    report = ft.debug.explain_nan(WRAPS[name](f))(rows if is_mapped else x)
    expected = first_bad(lines, {"v0": rows}, np.isnan)
    if expected is None:
        assert is_of_the_sum(report, lines)
        return
    assert report.nan is not None and report.nan.source is not None
    assert report.nan.source.line == expected + 2
    alone = [first_bad(lines, {"v0": row}, np.isnan) for row in rows]
    if is_mapped:
        (example,) = report.nan.examples
        assert alone[example] == expected


@pytest.mark.draws
@pytest.mark.parametrize("reverse", [False, True])
@given(straight_lines(), vectors())
def test_the_line_and_the_step_are_found_in_loops(reverse: bool, lines: list[str], x: Any) -> None:
    last = f"v{len(lines)}"
    total = " + ".join(f"np.sum(v{n})" for n in range(len(lines) + 1))
    lines = [*lines, f"total = {total}"]
    space: dict[str, Any] = {"v0": x}
    found = None
    for step in range(4):
        number = first_bad(lines, space, np.isnan)
        if number is not None:
            found = step, number
            break
        with np.errstate(all="ignore"):
            for line in lines:
                exec(line, {"np": np}, space)
        space = {"v0": space[last] * 0.5}

    def loop(x: Any) -> Any:
        names = {"np": np}
        exec(compile_body(lines, last), names)
        return ft.scan(names["step"], x, np.arange(4), reverse=reverse)[1]  # type: ignore[arg-type]

    report = ft.debug.explain_nan(loop)(x)
    if found is None:
        assert report.nan is None
        return
    assert report.nan is not None and report.nan.source is not None
    assert report.nan.source.line == found[1] + 2
    assert report.nan.steps[0].number == (3 - found[0] if reverse else found[0])


def compile_body(lines: list[str], last: str, name: str = "<step of straight lines>") -> Any:
    """Compile the body of a loop that carries half of a variable, and stacks the last one."""
    end = f"return {last} * 0.5, total"
    source = "\n    ".join(["def step(v0, t):", *lines, end]) + "\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    return compile(source, name, "exec")


# -- what a report says ------------------------------------------------------------------------------


def test_the_infinite_derivative_behind_a_zero() -> None:
    report = ft.debug.explain_nan(ft.grad(masked_root))(np.array([1.0, 4.0, 0.0]))
    assert report.first is not None and report.nan is not None
    assert (report.first.kind, report.nan.kind) == ("inf", "nan")
    assert report.first.derivative == "d sqrt(x)/dx at x = 0 is inf"
    assert report.first.index == report.nan.index == (2,)
    assert report.first.source is not None
    assert report.first.source.expression == "root = np.sqrt(x)"
    assert (report.nan.count, report.nan.size) == (1, 3)
    assert "np.where" in report.remedy and "strong_zero" in report.remedy
    text = str(report)
    assert "root = np.sqrt(x)" in text and "0 times inf is nan" in text and "[2]" in text


def test_operands_are_shown_with_ranges_and_the_element() -> None:
    report = ft.debug.explain_nan(lambda x: np.log(x - 1.0))(np.array([3.0, 0.5, 2.0]))
    assert report.nan is not None
    (operand,) = report.nan.operands
    assert (operand.at, operand.low, operand.high) == (-0.5, -0.5, 2.0)
    assert report.nan.index == (1,)


def test_an_unselected_nan_is_said_to_reach_no_result() -> None:
    report = ft.debug.explain_nan(masked_root)(np.array([1.0, -1.0]))
    assert report.unused and report.nan is not None
    assert report.nan.primitive == "sqrt"
    assert "no result depends on it" in str(report)


def test_elements_are_followed_through_a_selection() -> None:
    """The first NaN of the program is not selected; the NaN of the result comes from another one."""

    def f(x: Any) -> Any:
        root = np.sqrt(x)  # nan at 0, which is not selected
        quotient = (root * 0.0) / x[::-1]
        return np.where(x > 0, quotient, 0.0)

    report = ft.debug.explain_nan(f)(np.array([-1.0, 0.0, 2.0]))
    assert not report.unused or report.nan is not None
    report = ft.debug.explain_nan(f)(np.array([0.0, -1.0, 2.0]))
    assert report.nan is not None
    assert (report.nan.primitive, report.nan.index) == ("div", (2,))


@pytest.mark.parametrize("x", [np.zeros(2), np.ones((2, 3))])
def test_nothing_to_report(x: Any) -> None:
    report = ft.debug.explain_nan(np.sin)(x)
    assert not report and report.first is report.nan is None
    assert "no operation made" in str(report)


def test_a_nan_of_the_arguments_is_given() -> None:
    report = ft.debug.explain_nan(lambda a, b: a * b)(np.ones(2), np.array([1.0, np.nan]))
    assert report.first is None and report
    assert report.given == "argument b is nan at [1]"
    report = ft.debug.explain_nan(lambda a: np.where(a > 0, a, np.nan))(np.array([-1.0, 1.0]))
    assert "a number is nan" in report.given


@pytest.mark.parametrize("wrap", [lambda f: f, ft.jit, lambda f: ft.jit(f, guards=True)])
def test_jitted_functions_and_branches_of_python(wrap: Any) -> None:
    def f(x: Any) -> Any:
        return np.log(x) * 0.0 if np.sum(x) < 1.0 else x

    if wrap is ft.jit:
        f = masked_root  # it reads no value
        report = ft.debug.explain_nan(ft.grad(wrap(f)))(np.zeros(2))
        assert report.first is not None
        assert report.first.derivative == "d sqrt(x)/dx at x = 0 is inf"
        return
    report = ft.debug.explain_nan(wrap(f))(np.zeros(2))
    assert report.first is not None and report.first.primitive == "log"


# -- loops, examples ---------------------------------------------------------------------------------


def roots(x: Any) -> Any:
    def step(c: Any, t: Any) -> Any:
        c = np.log(c) * t
        return c, c

    return ft.scan(step, x, np.array([1.0, 2.0, 1.0, 1.0]))[0]


def expected_step(x: float) -> int:
    """Run the loop as a Python loop, until its carry is NaN."""
    with np.errstate(all="ignore"):
        for number, t in enumerate([1.0, 2.0, 1.0, 1.0]):
            x = np.log(x) * t
            if np.isnan(x):
                return number
    raise AssertionError


@pytest.mark.parametrize("x", [-1.0, 0.5, 2.0, 1.5])
def test_the_step_of_a_loop(x: float) -> None:
    report = ft.debug.explain_nan(roots)(x)
    assert report.nan is not None
    (step,) = report.nan.steps
    assert (step.operation, step.number, step.total) == ("scan", expected_step(x), 4)


def test_the_step_of_a_while_loop() -> None:
    def f(x: Any) -> Any:
        return ft.while_loop(lambda s: s[1] < 5, lambda s: (np.log(s[0]), s[1] + 1), (x, 0))[0]

    report = ft.debug.explain_nan(f)(20.0)
    assert report.nan is not None
    (step,) = report.nan.steps
    assert (step.operation, step.number) == ("while_loop", 4)


def test_the_step_of_a_derivative_that_runs_backward() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, t: Any) -> Any:
            return c + np.where(t == 2.0, 0.0, np.sqrt(x * (t - 2.0) ** 2)), None

        return ft.scan(step, 0.0, np.arange(4.0))[0]

    report = ft.debug.explain_nan(ft.grad(f))(1.0)
    assert report.first is not None and report.nan is not None
    assert report.first.derivative.startswith("d sqrt(x)/dx at x = 0")
    assert [step.number for step in report.first.steps] == [2]
    assert [step.number for step in report.nan.steps] == [2]
    assert report.nan.steps[0].is_backward


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: ft.vmap(ft.grad(f)),
        lambda f: ft.grad(lambda x: np.sum(ft.vmap(f)(x))),
        lambda f: ft.jit(ft.vmap(ft.grad(f))),
    ],
)
def test_the_example_of_vmap(transform: Any) -> None:
    x = np.array([[1.0, 2.0], [1.0, 1.0], [3.0, 0.0]])
    report = ft.debug.explain_nan(transform(masked_root))(x)
    assert report.first is not None and report.nan is not None
    assert report.first.examples == report.nan.examples == (2,)
    assert report.first.index == (2, 1)


def test_branches_and_calls_are_named() -> None:
    @ft.checkpoint
    def f(x: Any) -> Any:
        return ft.scan(
            lambda c, t: (ft.cond(t > 1.0, lambda c: c, lambda c: np.log(-c), c), None),
            x,
            np.ones(2),
        )[0]

    report = ft.debug.explain_nan(f)(0.5)
    assert report.nan is not None
    assert [str(step) for step in report.nan.steps] == [
        "call", "step 0 of 2 of scan", "branch 0 of cond",
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_branches_of_other_examples_make_no_nan(seed: int) -> None:
    """Under vmap, both branches run for all examples; what an example does not take is discarded."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=5)

    def f(x: Any) -> Any:
        return ft.cond(x > 0, lambda x: np.log(x), lambda x: np.sqrt(-x), x)

    assert not ft.debug.explain_nan(ft.vmap(f))(x)

    def g(x: Any) -> Any:
        return ft.cond(x > 0, lambda x: np.log(x - 0.5), lambda x: np.sqrt(-x - 0.5), x)

    report = ft.debug.explain_nan(ft.vmap(g))(x)
    with np.errstate(invalid="ignore"):
        alone = [np.isnan(g(v)) for v in x]
    assert bool(report) is any(alone)
    if report:
        assert report.nan is not None
        (example,) = report.nan.examples
        assert alone[example] and report.nan.index == (example,)
        assert report.nan.primitive == ("log" if x[example] > 0 else "sqrt")
        assert report.nan.steps[-1].number == int(x[example] > 0)


@pytest.mark.parametrize(
    "transform", [ft.vmap, lambda f: ft.jit(ft.vmap(f)), lambda f: ft.vmap(ft.jit(f))]
)
def test_examples_are_named_in_loops_and_cached_programs(transform: Any) -> None:
    mapped, x = transform(roots), np.array([30.0, 1.5])
    with np.errstate(all="ignore"):
        for _ in range(3):  # once a program is cached, nothing is mapped
            report = ft.debug.explain_nan(mapped)(x)
            mapped(x)
            assert report.nan is not None
            assert report.nan.examples == report.nan.index == (1,)
            assert report.nan.steps[-1].number == expected_step(1.5)


@pytest.mark.parametrize("schedule", [2, "sqrt", ft.policies.binomial(2)])
def test_steps_of_checkpointed_loops_are_those_of_the_loop(schedule: Any) -> None:
    def f(x: Any, checkpoint: Any = None) -> Any:
        return ft.scan(
            lambda c, t: (np.sqrt(c) * t, None), x, np.arange(4.0), checkpoint=checkpoint
        )[0]

    plain = ft.debug.explain_nan(ft.grad(f))(2.0)
    found = ft.debug.explain_nan(ft.jit(ft.grad(lambda x: f(x, schedule))))(2.0)
    assert plain.first is not None and found.first is not None
    assert found.first.steps == plain.first.steps and plain.first.steps[0].number == 1


def test_functions_mapped_in_other_threads_are_not_observed() -> None:
    from functrace.api.batching.mapping import OBSERVER

    seen: list[object] = []

    def f(x: Any) -> Any:
        thread = threading.Thread(target=lambda: seen.append(OBSERVER.get()))
        thread.start()
        thread.join()
        return np.log(x)

    ft.debug.explain_nan(f)(1.0)
    assert seen == [None]


def test_second_derivatives_and_forward_mode() -> None:
    def f(x: Any) -> Any:
        return np.sum(x**1.5)

    report = ft.debug.explain_nan(ft.hessian(f))(np.array([1.0, 0.0]))
    assert report.first is not None and report.first.kind == "inf"
    report = ft.debug.explain_nan(ft.jacfwd(masked_root))(np.array([1.0, 0.0]))
    assert report.first is not None
    assert report.first.derivative == "d sqrt(x)/dx at x = 0 is inf"


def test_traced_arguments_are_refused() -> None:
    with pytest.raises(ArgumentError, match="traced"):
        ft.grad(lambda x: (ft.debug.explain_nan(np.sin)(x), x)[1])(1.0)


def test_an_exception_leaves_no_observer() -> None:
    from functrace.api.batching.mapping import OBSERVER

    def f(x: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ft.debug.explain_nan(f)(1.0)
    assert OBSERVER.get() is None


# -- remedies ----------------------------------------------------------------------------------------


CASES: list[tuple[str, Any, Any]] = [
    ("np.maximum(x, 0.0)", np.sqrt, -1.0),
    ("log(0)", np.log, 0.0),
    ("negative", np.log, -1.0),
    ("np.max(x)", np.exp, 1000.0),
    ("denominator", lambda x: (x * 0.0) / x, 0.0),
    ("np.clip", np.arcsin, 1.5),
    ("clip", ft.grad(lambda x: np.arcsin(x)), 1.0),
    ("np.maximum(x, 1.0)", np.arccosh, 0.5),
    ("-1.0", np.log1p, -1.0),
    ("scale", lambda x: x * x, 1e200),
    ("real power", lambda x: x**0.3, -1.0),
    ("negative power", lambda x: x**-2.0, 0.0),
    ("safe", ft.grad(lambda x: x**0.5), 0.0),
    ("safe", ft.grad(lambda x: np.log(x)), 0.0),
]


@pytest.mark.parametrize(("text", "f", "x"), CASES)
def test_remedies_fit(text: str, f: Any, x: float) -> None:
    report = ft.debug.explain_nan(f)(x)
    assert report.first is not None
    assert text in report.remedy


def test_remedies_are_sentences() -> None:
    assert all(row.text and row.of for row in REMEDIES)
