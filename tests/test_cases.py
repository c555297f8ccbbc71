"""The generic tests: every case of tests/cases against every property that a primitive must have.

One test per (case, property), so that a failure names both. The properties are stated once, here;
expected values come from NumPy itself, from differences, or from a Python loop (tests/oracles.py).
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
import tests.cases
from functrace.errors import ConcretizationError, DtypeError, FunctraceError
from functrace.executor import Runner
from functrace.tracing.evaluate import evaluate_program
from tests.cases.case import Case
from tests.oracles import (
    assert_same,
    complex_step,
    differences,
    emitted,
    inner,
    is_inexact,
    outputs_of,
    precision,
    random_like,
    restricted,
    scalar_of,
    stacked,
)
from tests.sampling import first_of_each


def _modules() -> Iterator[Any]:
    for found in pkgutil.iter_modules(tests.cases.__path__, "tests.cases."):
        if found.name != "tests.cases.case":
            yield importlib.import_module(found.name)


CASES: list[Case] = [case for module in _modules() for case in module.CASES]

GROUPS = {"scipy", "special", "stats"}
"""Names before a ``/`` that are of many functions: the row is the function's."""


def row(case: Case) -> str:
    """The function or distribution of which the default run takes one case."""
    group, _, rest = case.name.partition("/")
    return f"{group}/{re.split('[.,]', rest)[0]}" if group in GROUPS else group


def each(cases: list[Case], interval: int = 1) -> pytest.MarkDecorator:
    """Parametrize over cases, of which the first of each row is in the default run, and one in
    ``interval`` of the others in CI.
    """
    sampled = first_of_each(cases, row, interval)
    return pytest.mark.parametrize("case", sampled, ids=lambda case: case.name)


WITH_DERIVATIVES = [case for case in CASES if case.diff and case.order >= 1]
every = each(CASES)
some = each(CASES, 4)
differentiable = each(WITH_DERIVATIVES, 2)
some_differentiable = each(WITH_DERIVATIVES, 4)
twice = each([case for case in WITH_DERIVATIVES if case.order >= 2], 4)
mapped = each([case for case in CASES if case.vmap and case.args], 2)
with_edges = each([case for case in CASES if case.edge])
with_bad_input = each([case for case in CASES if case.raises])


def arguments_of(case: Case) -> list[Any]:
    """The case's arguments as arrays and NumPy scalars."""
    return [np.asarray(a)[()] for a in case.args]


def rng_of(case: Case) -> np.random.Generator:
    """A generator that depends on the case's name only."""
    return np.random.default_rng(zlib.crc32(case.name.encode()))


def traced(case: Case, args: list[Any]) -> ft.Program | None:
    """The case's program; ``None`` if its shapes depend on values, which no program can hold."""
    try:
        return ft.trace(case.call)(*args)
    except ConcretizationError:
        assert not case.vmap, f"{case.name} needs values while staging"
        return None


def weights_of(case: Case, rng: np.random.Generator, args: list[Any]) -> list[Any]:
    """One random weight array per inexact output, ``None`` for the others."""
    return [random_like(rng, y) if is_inexact(y) else None for y in outputs_of(case.call(*args))]


def test_cases_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names), sorted({n for n in names if names.count(n) > 1})


@every
@pytest.mark.quick
def test_eval_equals_numpy(case: Case) -> None:
    args = arguments_of(case)
    before = [np.array(a, copy=True) for a in args]
    expected = outputs_of(case.call(*(np.array(a, copy=True)[()] for a in args)))
    found, *_ = ft.vjp(case.call, *args)
    found = outputs_of(found)
    assert len(found) == len(expected)
    for y, z in zip(found, expected, strict=True):
        assert_same(y, z, rtol=precision(z), atol=precision(z), what=case.name)
    for a, b in zip(args, before, strict=True):
        np.testing.assert_array_equal(a, b, err_msg="the caller's array was changed")


@pytest.mark.sampled(3)
@every
def test_aval_predicts_eval(case: Case) -> None:
    args = arguments_of(case)
    program = traced(case, args)
    if program is None:
        return
    program.check()
    expected = outputs_of(case.call(*args))
    found = [v.aval for v in program.outputs]
    assert [(a.shape, a.dtype) for a in found] == [
        (np.shape(y), np.asarray(y).dtype) for y in expected
    ]


@some
@pytest.mark.sampled(4)
def test_executor_equals_evaluator(case: Case) -> None:
    args = arguments_of(case)
    program = traced(case, args)
    if program is None:
        return
    expected = outputs_of(ft.evaluate(program, *args))
    runner = Runner(program)
    for _ in range(3):  # interpreted at first, compiled when it comes again
        for y, z in zip(runner(list(args)), expected, strict=True):
            assert_same(y, z, rtol=precision(z), atol=precision(z), what=case.name)


@some
@pytest.mark.sampled(8)
def test_program_forms_round_trip(case: Case) -> None:
    args = arguments_of(case)
    program = traced(case, args)
    if program is None or not case.written:
        return
    assert ft.Program.parse(program.text()) == program
    assert ft.Program.from_json(program.to_json()) == program
    expected = outputs_of(ft.evaluate(program, *args))
    for y, z in zip(outputs_of(emitted(program)(*args)), expected, strict=True):
        assert_same(np.asarray(y), z, rtol=precision(z), atol=precision(z), what=case.name)


@pytest.mark.sampled(3)
@differentiable
def test_jvp_equals_differences(case: Case) -> None:
    args, rng = arguments_of(case), rng_of(case)
    f = restricted(case.call, args, case.diff)
    primals = [args[k] for k in case.diff]
    directions = [random_like(rng, x) for x in primals]
    values, tangents = ft.jvp(f, tuple(primals), tuple(directions))
    real = not any(np.iscomplexobj(x) for x in primals)
    exact = complex_step(f, primals, directions) if real else None
    expected = differences(f, primals, directions)
    for k, (y, t) in enumerate(zip(outputs_of(values), outputs_of(tangents), strict=True)):
        if not is_inexact(y):
            continue
        assert np.asarray(t).dtype == np.asarray(y).dtype
        assert np.shape(t) == np.shape(y)
        np.testing.assert_allclose(t, expected[k], rtol=case.tol, atol=case.tol)
        # A complex step is exact where the function is holomorphic: then it agrees with the
        # differences.
        if exact is not None and np.allclose(exact[k], expected[k], rtol=case.tol, atol=case.tol):
            tight = min(case.tol, 1e-9)
            np.testing.assert_allclose(t, exact[k], rtol=tight, atol=tight)


@pytest.mark.sampled(3)
@differentiable
def test_transpose_passes_the_dot_test(case: Case) -> None:
    args, rng = arguments_of(case), rng_of(case)
    f = restricted(case.call, args, case.diff)
    primals = [args[k] for k in case.diff]
    directions = [random_like(rng, x) for x in primals]
    _, tangents = ft.jvp(f, tuple(primals), tuple(directions))
    value, pullback = ft.vjp(f, *primals)
    leaves = outputs_of(value)
    bars = [random_like(rng, y) if is_inexact(y) else np.zeros(np.shape(y)) for y in leaves]
    cotangents = pullback(ft.tree.unflatten(ft.tree.structure(value), bars))
    for x, x_bar in zip(primals, cotangents, strict=True):
        assert np.shape(x_bar) == np.shape(x)
        assert np.asarray(x_bar).dtype == np.asarray(x).dtype
    kept = [k for k, y in enumerate(leaves) if is_inexact(y)]
    left = inner([bars[k] for k in kept], [outputs_of(tangents)[k] for k in kept]).real
    right = inner(cotangents, directions).real
    single = any(
        np.asarray(x).dtype in (np.float32, np.complex64, np.float16) for x in [*primals, *leaves]
    )
    scale = 1.0 + sum(
        float(np.sum(np.abs(b) * np.abs(d))) for b, d in zip(cotangents, directions, strict=True)
    )
    assert abs(left - right) <= (1e-3 if single else 1e-10) * scale


@twice
@pytest.mark.sampled(3)
def test_second_order_equals_differences_of_gradient(case: Case) -> None:
    args, rng = arguments_of(case), rng_of(case)
    f = restricted(case.call, args, case.diff)
    primals = [args[k] for k in case.diff]
    loss = scalar_of(f, weights_of(case, rng, args))
    positions = tuple(range(len(primals)))
    directions = [random_like(rng, x) for x in primals]
    weights = [random_like(rng, x) for x in primals]
    gradient = ft.grad(loss, argnums=positions)
    along = scalar_of(gradient, weights)
    (expected,) = differences(along, primals, directions)
    reverse = inner(ft.grad(along, argnums=positions)(*primals), directions).real
    np.testing.assert_allclose(reverse, expected, rtol=case.tol, atol=case.tol)
    _, forward = ft.jvp(along, tuple(primals), tuple(directions))
    np.testing.assert_allclose(forward, expected, rtol=case.tol, atol=case.tol)


def second_example(case: Case, args: list[Any], rng: np.random.Generator) -> list[Any]:
    """Another example with the same shapes, in the same domain: floats moved a little, integers
    rolled if that fits.
    """
    moved = [
        a + np.asarray(1e-3 * random_like(rng, a), a.dtype) if is_inexact(a) else a for a in args
    ]
    rolled = [a if is_inexact(a) else np.roll(a, 1)[()] for a in moved]
    shapes = [np.shape(y) for y in outputs_of(case.call(*args))]
    try:
        found = [np.shape(y) for y in outputs_of(case.call(*rolled))]
    except (ValueError, IndexError, TypeError):
        return moved
    return rolled if found == shapes else moved


@pytest.mark.sampled(3)
@mapped
def test_batch_equals_loop(case: Case) -> None:
    args, rng = arguments_of(case), rng_of(case)
    second = second_example(case, args, rng)
    everything = tuple(range(len(args)))
    chosen = {everything, *((k,) for k in everything)}
    for positions in sorted(chosen):
        batch = [np.stack([args[k], second[k], args[k]]) for k in positions]
        f = restricted(case.call, args, positions)
        in_axes = tuple(0 if k in positions else None for k in everything)
        full = [batch[positions.index(k)] if k in positions else args[k] for k in everything]
        found = outputs_of(ft.vmap(case.call, in_axes=in_axes)(*full))
        expected = stacked(f, batch)
        assert len(found) == len(expected)
        for y, z in zip(found, expected, strict=True):
            tol = 10 * precision(z)
            assert_same(y, z, rtol=tol, atol=tol, what=f"{case.name} batched over {positions}")


@pytest.mark.sampled(2)
@with_edges
def test_edge_arguments_equal_numpy(case: Case) -> None:
    for edge in case.edge:
        args = [np.asarray(a)[()] if np.ndim(a) == 0 else np.asarray(a) for a in edge]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            expected = outputs_of(case.call(*args))
            found = outputs_of(ft.vjp(case.call, *args)[0])
        for y, z in zip(found, expected, strict=True):
            assert_same(y, z, rtol=precision(z), atol=precision(z), what=f"{case.name} at {edge}")


@with_bad_input
def test_bad_input_raises_and_next_call_works(case: Case) -> None:
    for arguments, expected in case.raises:
        with pytest.raises(expected) as caught:
            ft.vjp(case.call, *arguments)
        if isinstance(caught.value, FunctraceError):
            assert "fix:" in str(caught.value)
        np.testing.assert_array_equal(ft.grad(lambda x: np.sum(x * x))(np.ones(2)), [2.0, 2.0])


def evaluated(program: ft.Program, args: list[Any]) -> Iterator[tuple[Any, list[Any], list[Any]]]:
    """Evaluate operation by operation; yields each primitive with its operands and results."""
    env: dict[int, Any] = {
        **dict(zip(program.input_ids, args, strict=True)),
        **program.constant_values,
    }
    for k, _ in program.schedule:
        primitive, ids, params = program.ops[k]
        operands = [env[i] if i >= 0 else program.literals[~i] for i in ids]
        result = primitive.eval(*operands, *params)
        results = list(result) if primitive.many else [result]
        env.update(enumerate(results, k))
        yield primitive, operands, results


def derivative_programs(case: Case) -> Iterator[tuple[ft.Program, list[Any]]]:
    """The programs of the jvp and of the pullback, with their arguments."""
    args = arguments_of(case)
    f = restricted(case.call, args, case.diff)
    primals = [args[k] for k in case.diff]
    value, _ = ft.vjp(f, *primals)
    leaves, tree = ft.tree.flatten(value)
    bars = ft.tree.unflatten(tree, [np.ones(np.shape(y), np.asarray(y).dtype) for y in leaves])
    for derivative in (lambda *xs: ft.vjp(f, *xs)[1](bars), lambda *xs: ft.jvp(f, xs, xs)[1]):
        try:
            yield ft.trace(derivative)(*primals), primals
        except ConcretizationError:
            assert not case.vmap, f"{case.name} needs values while staging"


@some
@pytest.mark.sampled(8)
def test_results_share_memory_only_if_the_primitive_is_a_view(case: Case) -> None:
    args = arguments_of(case)
    program = traced(case, args)
    programs = [] if program is None else [(program, args)]
    if case.diff and case.order >= 1:
        programs += derivative_programs(case)
    for program, given in programs:
        for primitive, operands, results in evaluated(program, given):
            for place, operand in enumerate(operands):
                if isinstance(operand, np.ndarray) and not (primitive.view and place == 0):
                    assert not any(
                        np.shares_memory(r, operand) for r in results if isinstance(r, np.ndarray)
                    ), primitive


@some_differentiable
@pytest.mark.sampled(8)
def test_compiled_derivatives_equal_the_evaluators(case: Case) -> None:
    for program, args in derivative_programs(case):
        expected = evaluate_program(program, args)
        runner = Runner(program)
        for run in (runner.compile(), lambda *args, runner=runner: runner.interpret(args)):
            for y, z in zip(run(*args), expected, strict=True):
                np.testing.assert_array_equal(y, z)


ROUNDS_TO_COMPLEX = {"scipy/logm"}
"""Rounded to single precision, the matrix has eigenvalues whose logarithms SciPy finds to be
complex.
"""
SINGLE = {np.dtype("f8"): np.dtype("f4"), np.dtype("c16"): np.dtype("c8")}


@some_differentiable
@pytest.mark.sampled(8)
def test_derivatives_in_single_precision_are_in_single_precision(case: Case) -> None:
    """Derivatives have the dtype of their primal, and compute in single precision if all primals
    are in it.
    """
    args: list[Any] = [
        a.astype(SINGLE.get(a.dtype, a.dtype))[()] for a in map(np.asarray, case.args)
    ]
    f = restricted(case.call, args, case.diff)
    primals = tuple([args[k] for k in case.diff])
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        if case.name in ROUNDS_TO_COMPLEX:
            with pytest.raises(DtypeError, match="is complex"):
                ft.jvp(f, primals, primals)
            return
        values, slopes = ft.jvp(f, primals, primals)
        bars = ft.tree.map(lambda y: np.ones_like(y), values)
        slants = ft.vjp(f, *primals)[1](bars)
    for y, slope in zip(ft.tree.leaves(values), ft.tree.leaves(slopes), strict=True):
        assert y.dtype.kind not in "fc" or slope.dtype == y.dtype
    for x, slant in zip(primals, ft.tree.leaves(slants), strict=True):
        assert slant.dtype == x.dtype
    if "/" in case.name and case.name.split("/")[0] in (
        "special",
        "scipy",
        "linalg.lstsq",
        "linalg.pinv",
    ):
        return  # SciPy's are carried out as SciPy has them
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forward = traced(case, args)
        if forward is None or any(np.dtype(aval.dtype) in SINGLE for aval in forward.avals):
            return
        for derivative in (
            lambda *xs: ft.jvp(f, xs, primals)[1],
            lambda *xs: ft.vjp(f, *xs)[1](bars),
        ):
            program = ft.trace(derivative)(*primals)
            assert [
                str(program.ops[k][0])
                for k, _ in program.schedule
                if program.avals[k].dtype in SINGLE
            ] == []
