"""``debug.profile``: the operations of what jit runs, each with a clock around it. No test looks at
how long that took.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import ArgumentError, ConcretizationError
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.plan.planner import Plan, plan, planned
from functrace.executor.profile import LineTime, OperationTime, Profile, ProfilingBackend
from functrace.executor.runner import Runner
from functrace.passes import LAST, LATE, applied, optimized, without

X = np.linspace(-1.0, 1.0, 6).reshape(2, 3)


def network(w: Any, x: Any) -> Any:
    return np.sum(np.tanh(x @ w) ** 2)


def loop(x: Any) -> Any:
    def turn(carry: Any, _: Any) -> Any:
        carry = np.sin(carry) * 1.5
        return carry, np.sum(carry)

    last, sums = ft.scan(turn, x, np.zeros(7))
    return np.sum(last) + np.sum(sums)


def choice(x: Any) -> Any:
    return ft.cond(np.sum(x) > -1.0, lambda x: np.sum(np.exp(x)), lambda x: np.sum(x), x)


def until(x: Any) -> Any:
    return ft.while_loop(lambda x: np.sum(x * x) > 0.1, lambda x: x * 0.5, x)


def nest(x: Any) -> Any:
    return ft.scan(
        lambda c, _: (ft.fori_loop(0, 3, lambda _, c: np.cos(c), c), None), x, np.zeros(2)
    )[0]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "elementwise": lambda x: np.tanh(x) * 2.0 + x,
    "gradient": ft.grad(lambda x: np.sum(np.tanh(x @ x.T))),
    "loop": loop,
    "gradient of a loop": ft.grad(loop),
    "choice": choice,
    "until": until,
    "nest": nest,
    "mapped": ft.vmap(ft.grad(lambda x: np.prod(x))),
    "one operation": lambda x: x + 1.0,
    "nothing": lambda x: x,
    "views": lambda x: (x.T, x.reshape(-1)[::2]),
    "several results": lambda x: np.linalg.svd(x, full_matrices=False),
}


def texts(made: Plan) -> list[str]:
    """The steps of a plan's listing, without the comments about memory."""
    return [line.partition("  #")[0].strip() for line in str(made).splitlines()[1:]]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_profiled_program_computes_the_same_results(name: str) -> None:
    program = ft.trace(FUNCTIONS[name])(X)
    whole = plan(program)
    expected = NUMPY.compile(whole)(X)
    found = ProfilingBackend().compile(planned(whole.program))(X)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_rows_are_the_operations_of_the_plan(name: str) -> None:
    f = FUNCTIONS[name]
    listed = texts(planned(optimized(Runner(ft.trace(f)(X)).flat, (*applied(()), *LATE, *LAST))))
    found = [row.text for row in ft.debug.profile(f, seconds=0.0)(X).rows]
    wanted = [text for text in listed if " = " in text]
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.partition(" {")[0] == other.partition(" {")[0]


def test_bytes_and_flops_are_those_of_operands_and_results() -> None:
    w, x = np.ones((4, 5)), np.ones((3, 4))
    profile = ft.debug.profile(network, seconds=0.0)(w, x)
    by_name = {row.text.split(" = ")[1].split()[0]: row for row in profile.rows}
    assert by_name["dot"].flops == 2 * 3 * 4 * 5
    assert by_name["dot"].bytes == 8 * (3 * 4 + 4 * 5 + 3 * 5)
    assert by_name["tanh"].bytes == 8 * 2 * 15
    assert (profile.flops, profile.bytes) == (
        sum(r.flops for r in profile.rows),
        sum(r.bytes for r in profile.rows),
    )
    assert profile.peak_bytes == plan(ft.trace(network)(w, x)).peak_bytes


def test_views_move_nothing() -> None:
    rows = ft.debug.profile(lambda x: np.sum(x.T @ x.reshape(2, 3)), seconds=0.0)(X).rows
    assert {row.text.split(" = ")[1].split()[0]: row.bytes > 0 for row in rows}[
        "transpose"
    ] is False


def test_rows_of_a_body_follow_its_operation_with_their_runs() -> None:
    rows = ft.debug.profile(loop, seconds=0.0)(X).rows
    outer = next(k for k, row in enumerate(rows) if " scan " in row.text)
    inner = [row for row in rows[outer + 1 :] if row.depth == 1]
    assert [row.text.split(" = ")[1].split()[0] for row in inner] == [
        "sin",
        "mul",
    ]  # the sums are behind the loop
    assert {row.runs for row in inner} == {7}
    assert inner[0].flops == 7 * X.size
    assert inner[0].bytes == 7 * 2 * X.nbytes
    deeper = ft.debug.profile(nest, seconds=0.0)(X).rows
    assert max(row.depth for row in deeper) == 2
    assert next(row for row in deeper if row.depth == 2 and "cos" in row.text).runs == 6


def test_operations_of_a_group_are_estimates_that_sum_up_to_it() -> None:
    """The group passes over memory once: its operands and results; what its operations read and
    write stays in caches.
    """
    x = np.linspace(0.0, 1.0, 1 << 12)
    with ft.config(threads=1, block=64):
        profile = ft.debug.profile(lambda x: np.tanh(x) * np.exp(x) - x, seconds=0.0)(x)
    group, *inner = profile.rows
    assert " blocks " in group.text
    assert (group.bytes, group.flops, group.estimated, group.depth) == (
        2 * x.nbytes,
        4 * x.size,
        False,
        0,
    )
    assert [row.text.split(" = ")[1].split()[0] for row in inner] == ["tanh", "exp", "mul", "sub"]
    assert all(row.estimated and row.depth == 1 and row.time.startswith("≈") for row in inner)
    assert sum(row.seconds for row in inner) == pytest.approx(group.seconds)
    assert sum(line.seconds for line in profile.lines) == pytest.approx(group.seconds)
    assert profile.bytes == 2 * x.nbytes
    ElementTree.fromstring(profile.svg())


def softmax(x: Any, w: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    p = e / np.sum(e, axis=-1, keepdims=True)
    return np.mean((p - np.mean(p, axis=-1, keepdims=True)) * w)


@pytest.mark.parametrize("shape", [(64, 16), (64, 64), (3, 64, 16), (4096, 1)])
def test_operations_of_groups_of_rows_have_times(shape: tuple[int, ...]) -> None:
    """Among them arrays that every block takes as they are: the weights of a square array are as
    many as its rows.
    """
    step = ft.value_and_grad(softmax, argnums=(0, 1))
    with ft.config(threads=1, block=128):
        profile = ft.debug.profile(step, seconds=0.0)(np.ones(shape), np.ones(shape[-1]))
    groups = [row for row in profile.rows if " blocks " in row.text]
    inner = [row for row in profile.rows if row.estimated]
    assert groups and inner
    assert sum(row.seconds for row in inner) == pytest.approx(sum(row.seconds for row in groups))
    assert {row.seconds > 0 for row in inner if " exp " in row.text} == {True}


def test_only_the_branch_that_is_taken_runs() -> None:
    rows = ft.debug.profile(choice, seconds=0.0)(X).rows
    assert {
        row.text.split(" = ")[1].split()[0]: row.runs
        for row in rows
        if row.depth and "exp" in row.text
    } == {"exp": 1}
    other = ft.debug.profile(choice, seconds=0.0)(X - 5.0).rows
    assert {row.runs for row in other if row.depth and "exp" in row.text} == {0}


def test_rows_name_the_users_lines() -> None:
    profile = ft.debug.profile(network, seconds=0.0)(np.ones((3, 2)), X)
    assert {row.source.short for row in profile.rows if row.source} == {
        f"test_profile.py:{network.__code__.co_firstlineno + 1}"
    }
    (line,) = profile.lines
    assert line.text == "return np.sum(np.tanh(x @ w) ** 2)"
    assert line.seconds == pytest.approx(sum(row.seconds for row in profile.rows))


def row(text: str, seconds: float, depth: int = 0, source: Any = None) -> OperationTime:
    return OperationTime(text, seconds, 1, 1000, 10, source, depth)


def test_time_of_a_body_counts_at_its_own_lines() -> None:
    """The figures are made up: an operation of 10 s, in which a body takes 6, 4 of them in a loop
    whose body takes 1.
    """
    one = ft.trace(lambda x: np.sin(x))(1.0).equations[0].source
    two = ft.trace(lambda x: np.cos(x))(1.0).equations[0].source
    assert one is not None and two is not None
    inner = (row("sin", 2.0, 1, two), row("scan", 4.0, 1, one), row("cos", 1.0, 2, two))
    profile = Profile("f", 15.0, 16.0, 3, 0, (row("scan", 10.0, 0, one), *inner, row("exp", 5.0)))
    assert profile.lines == (
        LineTime(one.short, one.expression, 7.0),
        LineTime("?", "", 5.0),
        LineTime(two.short, two.expression, 3.0),
    )


def test_a_profile_prints_as_a_table() -> None:
    profile = ft.debug.profile(network, seconds=0.0)(np.ones((3, 2)), X)
    head, compiled, titles, *rest = str(profile).splitlines()
    assert head.startswith("network: ")
    assert list(profile.compiling) == ["record", "passes", "plan", "code"]
    assert compiled.startswith("compiled in ")
    assert [part.split()[0] for part in compiled.partition(": ")[2].split(", ")] == list(
        profile.compiling
    )
    assert "with a clock around every operation (medians of 3 runs)" in head
    assert titles.split() == ["time", "share", "runs", "bytes", "B/s", "flop/s", "operation"]
    assert [line.rpartition("# ")[2].partition(":")[0] for line in rest[: len(profile.rows)]] == [
        "test_profile.py"
    ] * len(profile.rows)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_picture_is_well_formed(name: str) -> None:
    profile = ft.debug.profile(FUNCTIONS[name], seconds=0.0)(X)
    tree = ElementTree.fromstring(profile.svg())
    assert tree.tag.endswith("svg")
    assert profile._repr_svg_() == profile.svg()
    shown = "".join(tree.itertext())
    for line in profile.rows[:3]:
        assert line.text[:40] in shown


def test_nothing_that_a_program_brings_along_is_markup_in_the_picture() -> None:
    rows = tuple(row(f"<b>{k}</b> & \x00 'x' \"y\"", 1.0 + k) for k in range(200))
    text = Profile("<script>", 1.0, 2.0, 3, 4, rows).svg()
    tree = ElementTree.fromstring(text)
    assert "<script>" not in text
    assert "<b>199</b>" in "".join(tree.itertext())
    assert "140 shorter operations are not shown" in text


def test_a_profile_accepts_the_arguments_of_jit() -> None:
    pairs = [(np.ones((2, 3)), np.zeros(2)), (np.ones((1, 2)), np.zeros(1))]

    @ft.jit
    def f(params: Any, x: Any, *, scale: Any) -> Any:
        for w, b in params:
            x = np.tanh(w @ x + b)
        return {"y": x * scale}

    profile = ft.debug.profile(f, seconds=0.0)(pairs, np.ones(3), scale=2.0)
    assert sum(" tanh " in row.text for row in profile.rows) == 2
    assert profile.runs == 3


def test_wrong_uses_raise() -> None:
    with pytest.raises(ConcretizationError):
        ft.debug.profile(lambda x: x if x > 0 else -x, seconds=0.0)(1.0)
    with pytest.raises(ArgumentError, match="on arrays, not on traced values"):
        ft.grad(lambda x: (ft.debug.profile(np.sin, seconds=0.0)(x), x)[1])(1.0)
    with pytest.raises(ArgumentError):
        ft.debug.profile(3)  # type: ignore[arg-type]


def test_errors_of_a_run_name_the_line() -> None:
    def f(x: Any) -> Any:
        return np.linalg.inv(x * 0.0)

    with pytest.raises(np.linalg.LinAlgError) as caught:
        ft.debug.profile(f, seconds=0.0)(np.eye(2))
    assert any("test_profile.py" in note for note in caught.value.__notes__)


def test_the_passes_that_a_function_is_jitted_with_are_those_that_are_shown() -> None:
    x = np.ones((4, 128, 128), np.float32)
    step = ft.jit(lambda x: x @ x, passes=[without("parallel matmul")])
    for f, passes in [
        (step, ()),
        (lambda x: x @ x, [without("parallel matmul")]),
        (ft.jit(step), ()),
        (np.matmul, ()),
    ]:
        given = (x, x) if f is np.matmul else (x,)
        (row,) = ft.debug.profile(f, seconds=0.0, passes=passes)(*given).rows
        steps = [row.name for row in ft.debug.passes(f, passes=passes)(*given).steps]
        is_left_out = f is step or bool(passes)
        assert ("matmul_in_parts" in row.text) is not is_left_out
        assert ("parallel matmul" in steps) is not is_left_out
    for other in (ft.vmap(step), lambda x: step(x)):  # other programs than that of step
        assert "parallel matmul" in [row.name for row in ft.debug.passes(other)(x).steps]
    assert ft.jit(np.sin).passes == ft.jit(np.sin, guards=True).passes == ()
    assert [row.name for row in step.passes] == ["parallel matmul"]
