"""Large products in functrace's threads: NumPy's values, the same bits for any number of threads,
groups with products.
"""

from __future__ import annotations

import itertools
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace import threads as threads_module
from functrace.executor.codegen.numpy_source import NUMPY
from functrace.executor.parallel import blocks, concurrent
from functrace.executor.parallel.matmul import in_parts
from functrace.executor.plan.planner import Plan, planned
from functrace.ir.structures import FusionGroup
from functrace.ops.blas import SingleThreadedBLAS, one_thread
from functrace.passes import matmul_selection, optimized, without
from functrace.passes.matmul_selection import divide_products, parts_of
from functrace.threads import ThreadPool
from functrace.tracing.evaluate import evaluate_program

RNG = np.random.default_rng(0)
needs_openblas = pytest.mark.skipif(
    one_thread() is None, reason="NumPy's BLAS cannot be kept to one thread"
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small products, and groups of small arrays, be divided."""
    for name, value in {"LEAST": 64, "THREADED": 8, "BLOCKED": 16, "NARROWEST": 2}.items():
        monkeypatch.setattr(matmul_selection, name, value)
    monkeypatch.setattr(blocks, "BLOCK", 128)


def threaded(count: int, block: int = 32) -> Any:
    return ft.config(threads=count, block=block)


# -- products --------------------------------------------------------------------------------------

LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "in order": np.ascontiguousarray,
    "turned": lambda x: np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
    "every second": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
    "turned stack": lambda x: np.ascontiguousarray(x.swapaxes(0, -2)).swapaxes(0, -2),
}
SHAPES = [
    ((40, 9), (9, 7)), ((7, 9), (9, 40)), ((5, 6, 7), (5, 7, 4)), ((5, 1, 6, 7), (1, 3, 7, 4)),
    ((5, 6, 7), (7, 4)),
    ((6, 7), (5, 7, 4)), ((2, 3, 4, 5), (3, 5, 2)), ((1, 3, 6, 7), (1, 3, 7, 4)),
]  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_a_product_in_parts_is_numpys(shapes: tuple[Any, Any], dtype: str) -> None:
    left, right = [RNG.normal(size=shape).astype(dtype) for shape in shapes]
    for first, second in itertools.product(LAYOUTS.values(), repeat=2):
        x, y = first(left), second(right)
        expected, found = np.matmul(x, y), []
        for count in (1, 2, 3):
            with threaded(count):
                found.append(in_parts(x, y))
        np.testing.assert_allclose(
            found[0], expected, rtol=1e-4 if dtype in ("f4", "c8") else 1e-12, atol=1e-5
        )
        assert (found[0].dtype, found[0].shape) == (expected.dtype, expected.shape)
        assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
        out = np.empty_like(found[0])
        in_parts(x, y, out)
        assert out.tobytes() == found[0].tobytes()


@pytest.mark.parametrize(
    "sizes", [*itertools.product((2, 100, 256, 1000, 5000), repeat=3)], ids=str
)
def test_parts_are_of_many_rows_or_columns_and_much_work(sizes: tuple[int, int, int]) -> None:
    by_columns, count = parts_of(*sizes)
    longer = max(sizes[0], sizes[2])
    assert by_columns is (sizes[2] > sizes[0])
    assert count in (1, 2, 4, 8, 16)
    if count > 1:
        assert math.prod(sizes) >= matmul_selection.LEAST
        assert longer // count >= matmul_selection.NARROWEST
    else:
        assert math.prod(sizes) < matmul_selection.LEAST or longer < 2 * matmul_selection.NARROWEST


def warnings_of(f: Callable[[Any], Any], x: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        f(x)
    return given


@pytest.mark.full
@needs_openblas
def test_warnings_and_errors_are_numpys() -> None:
    x = np.full((64, 128, 128), 1e30, np.float32)

    def f(x: Any) -> Any:
        return x @ x

    assert "matmul_in_parts" in str(divide_products(ft.trace(f)(x)))
    run = ft.jit(f)
    for _ in range(3):
        expected, found = warnings_of(f, x), warnings_of(run, x)
        assert [str(w.message) for w in found] == [str(w.message) for w in expected]
        assert {w.filename for w in found} <= {__file__}
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.isinf(run(x)).all()
        if expected:
            with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
                run(x)


# -- the pass --------------------------------------------------------------------------------------


def words(program: ft.Program) -> list[str]:
    return [str(op[0]) for op in program.ops]


def test_small_or_single_products_are_not_split() -> None:
    """BLAS's own threads begin sooner: only where groups need the cores are single products kept
    from them.
    """
    x, w, stack = (
        np.zeros((1024, 256), "f"),
        np.zeros((256, 256), "f"),
        np.zeros((32, 128, 64), "f"),
    )
    for f, args in (
        (lambda x, w: np.tanh(x[:64] @ w), (x, w)),
        (lambda x, w: x @ w, (x, w)),
        (lambda x, w: x @ w, (stack[:2], np.zeros((64, 32), "f"))),
        (lambda x: x[:2] @ np.swapaxes(x[:2], 1, 2), (stack,)),
        (lambda x, w: x @ w, (x.astype(int), w.astype(int))),
        (lambda x, w: np.tanh(x) @ w[:, 0], (x, w)),
    ):
        program = ft.trace(f)(*args)
        assert divide_products(program) is program
    for f, args in (
        (lambda x, w: np.tanh(x) @ w, (x, w)),
        (lambda x: x @ np.swapaxes(x, 1, 2), (stack,)),
    ):
        assert words(divide_products(ft.trace(f)(*args)).check()).count("matmul_in_parts") == 1


def test_single_products_are_split_if_a_stack_is() -> None:
    """BLAS's number of threads is the process's: a product left to it would round as other threads'
    stacks begin and end.
    """
    x, w, b = np.zeros((32, 128, 64), "f"), np.zeros((64, 64), "f"), np.zeros((8, 8), "f")
    program = ft.trace(lambda x, w, b: (x @ np.swapaxes(x, 1, 2), x @ w, w @ w, b @ b))(x, w, b)
    assert words(divide_products(program).check()).count("matmul_in_parts") == 3


def test_the_pass_can_be_left_out() -> None:
    x, w = RNG.normal(size=(1024, 256)).astype("f"), RNG.normal(size=(256, 256)).astype("f")
    f = ft.value_and_grad(lambda w: np.sum(np.tanh(x @ w) ** 2))
    (a, b), (c, d) = ft.jit(f)(w), ft.jit(f, passes=[without("parallel matmul")])(w)
    np.testing.assert_allclose(a, c, rtol=1e-5)
    np.testing.assert_allclose(b, d, rtol=1e-4, atol=1e-4)


# -- groups ----------------------------------------------------------------------------------------

BATCH, TOKENS, HEADS, EACH = 6, 4, 2, 3
WIDTH = HEADS * EACH


def normalized(x: Any) -> Any:
    d = x - np.mean(x, axis=-1, keepdims=True)
    return d / np.sqrt(np.mean(d * d, axis=-1, keepdims=True) + 1e-5)


def attention(x: Any, w: Any) -> Any:
    qkv = np.reshape(x @ w, (*x.shape[:2], 3, HEADS, EACH))
    q, k, v = (np.swapaxes(qkv[:, :, i], 1, 2) for i in range(3))
    scores = q @ np.swapaxes(k, 2, 3)
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    return np.reshape(np.swapaxes(e / np.sum(e, axis=-1, keepdims=True) @ v, 1, 2), x.shape)


def block_of_transformer(x: Any, w: Any, wo: Any, w1: Any, w2: Any) -> Any:
    x = x + attention(normalized(x), w) @ wo
    return x + np.tanh(normalized(x) @ w1) @ w2


X = RNG.normal(size=(BATCH, TOKENS, WIDTH))
SIZES = ((WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
W, WO, W1, W2 = (RNG.normal(size=shape) for shape in SIZES)

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "rows and a matrix": (lambda x, w: np.tanh(np.tanh(x) @ w) + 1.0, (X, W)),
    "a stack": (lambda x: np.tanh(x @ np.swapaxes(x, 1, 2)), (X,)),
    "a stack, turned before": (lambda x: np.exp(-(np.swapaxes(np.tanh(x), 1, 2) @ x)), (X,)),
    "attention": (attention, (X, W)),
    "block": (block_of_transformer, (X, W, WO, W1, W2)),
    "elementwise in another order": (
        lambda x, w: np.tanh(np.swapaxes(np.tanh(x) @ w, 1, 2)),
        (X, W),
    ),
    "parts of a product": (lambda x, w: np.tanh((np.tanh(x) @ w)[:, :, 1:5]) * 2.0, (X, W)),
    "a matrix of the rows' size": (lambda x, w: np.tanh(np.tanh(x) @ w), (X, W[:, :BATCH])),
    "rows times what depends on rows": (lambda x, w: np.tanh(x) @ (w * np.sum(np.tanh(x))), (X, W)),
    "joined": (
        lambda x, w: np.tanh(
            np.concatenate([np.tanh(np.tanh(x) @ w)[:, 1:], np.tanh(x) @ w], axis=1)
        ),
        (X, W),
    ),
    "split": (
        lambda x, w: np.prod(np.stack(np.split(np.tanh(np.tanh(x) @ w), 3, axis=-1)), axis=0),
        (X, W),
    ),
    "a total": (lambda x, w: np.sum(np.tanh(np.tanh(x) @ w) ** 2), (X, W)),
    "one matrix from the left": (
        lambda x, w: np.tanh(w @ np.tanh(x)),
        (X, RNG.normal(size=(5, TOKENS))),
    ),
}


def planned_in_parts(program: ft.Program) -> Plan:
    with threaded(2):
        return planned(optimized(divide_products(optimized(program))))


@pytest.mark.sampled(4)
@needs_openblas
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("is_turned", [False, True], ids=["", "turned arguments"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("of", ["value", "gradient"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_groups_with_products_have_the_evaluators_values(
    name: str, of: str, dtype: str, is_turned: bool
) -> None:
    function, arguments = FUNCTIONS[name]
    given = [x.astype(dtype) for x in arguments]
    if is_turned:
        given = [np.ascontiguousarray(x.T).T for x in given]
    if of == "gradient":
        value = function
        function = ft.value_and_grad(
            lambda *xs: np.sum(value(*xs) ** 2), argnums=tuple(range(len(given)))
        )
    program = ft.trace(lambda *xs: ft.tree.leaves(function(*xs)))(*given)
    expected = evaluate_program(program, given)
    plan = planned_in_parts(program)
    run = NUMPY.compile(plan)
    found: list[list[bytes]] = []
    for count, block in ((1, 32), (2, 32), (3, 64), (2, 1 << 16)):
        with threaded(count, block):
            before = [x.copy() for x in given]
            results = run(*given)
            for x, y in zip(given, before, strict=True):
                np.testing.assert_array_equal(x, y)
            for a, b in zip(results, expected, strict=True):
                assert (np.asarray(a).dtype, np.shape(a)) == (np.asarray(b).dtype, np.shape(b))
                np.testing.assert_allclose(
                    a,
                    b,
                    rtol=2e-3 if dtype == "f4" else 1e-10,
                    atol=1e-3 if dtype == "f4" else 1e-9,
                )
            for a, b in itertools.combinations([*results, *given], 2):
                assert not np.shares_memory(a, b)
            found.append([np.ascontiguousarray(x).tobytes() for x in results])
    assert all(x == found[0] for x in found)


@needs_openblas
@pytest.mark.usefixtures("small")
def test_a_block_of_a_transformer_is_one_group() -> None:
    """Forward and backward: what is left are sums over all rows."""
    function, arguments = FUNCTIONS["block"]
    grad = ft.value_and_grad(lambda *xs: np.sum(function(*xs) ** 2), argnums=(1, 2, 3, 4))
    plan = planned_in_parts(ft.trace(grad)(*arguments))
    (group,) = [
        step
        for step in plan.steps
        if isinstance(step.structure, FusionGroup) and step.structure.rows
    ]
    names = words(group.bodies[0].program)
    assert (
        names.count("matmul_in_parts") == 6 + 3 + 4
    )  # forward; backward by a matrix, and by stacks
    assert words(side_by_side(plan)).count("matmul_in_parts") == 4  # the gradients of the matrices


# -- side by side ----------------------------------------------------------------------------------


def side_by_side(plan: Plan) -> ft.Program:
    """The operations that a plan has side by side, which is to be at one place."""
    (step,) = [
        step
        for step in plan.steps
        if isinstance(step.structure, FusionGroup) and not step.structure.rows
    ]
    assert "side by side" in str(plan)
    return step.bodies[0].program


@needs_openblas
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products_and_sums_that_do_not_need_each_other_run_side_by_side(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrent, "LEAST_SUMMED", 16)
    xs = [RNG.normal(size=(40, n)).astype(dtype) for n in (6, 8, 10)]

    def f(x: Any, y: Any, z: Any) -> Any:
        t = np.tanh(x)
        return t.T @ y, np.sum(z, axis=0), y.T @ z, z.T @ t, np.sum(z * z, axis=0)

    program = ft.trace(f)(*xs)
    plan = planned_in_parts(program)
    assert words(side_by_side(plan)).count("matmul_in_parts") == 3
    run = NUMPY.compile(plan)
    expected, found = evaluate_program(program, xs), []
    for count in (1, 2, 3):
        with threaded(count):
            results = run(*xs)
        for a, b in zip(results, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4 if dtype == "f4" else 1e-12, atol=1e-5)
        found.append([x.tobytes() for x in results])
    assert found[0] == found[1] == found[2]


@needs_openblas
@pytest.mark.usefixtures("small")
def test_products_that_are_read_next_are_not_delayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor what there is enough of, or would keep too much memory."""
    x, y = RNG.normal(size=(40, 40)), RNG.normal(size=(40, 40))

    def chain(x: Any, y: Any) -> Any:
        return np.tanh((np.tanh(x) @ y) @ y) @ y

    def many(x: Any, y: Any) -> Any:
        return tuple(np.tanh(x) @ (y + k) for k in range(6))

    def counts(f: Any) -> list[int]:
        plan = planned_in_parts(ft.trace(f)(x, y))
        for a, b in zip(NUMPY.compile(plan)(x, y), ft.tree.leaves(f(x, y)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)
        groups = [
            step.bodies[0].program
            for step in plan.steps
            if isinstance(step.structure, FusionGroup) and not step.structure.rows
        ]
        return [words(group).count("matmul_in_parts") for group in groups]

    assert counts(chain) == []
    assert counts(many) == [6]
    monkeypatch.setattr(concurrent, "ENOUGH", 2 * 40**3)
    assert counts(many) == [2, 2, 2]
    monkeypatch.setattr(concurrent, "ENOUGH", 1 << 40)
    monkeypatch.setattr(concurrent, "MOST_WAITING", 4 * x.nbytes - 1)
    assert counts(many) == [3, 3]


@needs_openblas
@pytest.mark.usefixtures("small")
def test_concurrent_products_warn_and_raise_as_in_numpy() -> None:
    x = np.full((40, 40), 1e200)

    def f(x: Any) -> Any:
        t = x + 1.0
        return t @ t, t.T @ t

    program = ft.trace(f)(x)
    run = NUMPY.compile(planned_in_parts(program))
    expected, found = warnings_of(f, x), warnings_of(run, x)
    assert {str(w.message) for w in found} == {str(w.message) for w in expected}
    if expected:
        with np.errstate(over="raise"), pytest.raises(FloatingPointError, match="overflow"):
            run(x)


# -- BLAS's threads --------------------------------------------------------------------------------


class Count:
    """A number of threads, as a library has it."""

    def __init__(self, count: int) -> None:
        self.count = count

    def get(self) -> int:
        return self.count

    def set(self, count: int) -> None:
        self.count = count


@pytest.mark.parametrize("before", [1, 2, 7])
def test_threads_are_as_before_when_everybody_has_left(before: int) -> None:
    library = Count(before)
    limit = SingleThreadedBLAS(library.get, library.set)
    with limit:
        assert library.count == 1
        with limit:
            assert library.count == 1
        assert library.count == 1
    assert library.count == before
    with pytest.raises(KeyError), limit:
        raise KeyError
    assert library.count == before


def test_a_thread_count_set_meanwhile_is_kept() -> None:
    library = Count(4)
    limit = SingleThreadedBLAS(library.get, library.set)
    with limit:
        library.set(3)
    assert library.count == 3


def test_several_threads_enter_and_leave_in_any_order() -> None:
    library = Count(4)
    limit = SingleThreadedBLAS(library.get, library.set)
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with limit:
            entered.set()
            leave.wait()

    with limit:
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait()
    assert library.count == 1
    leave.set()
    thread.join()
    assert library.count == 4


def test_forget_after_a_fork_resets_the_thread_count() -> None:
    library = Count(4)
    limit = SingleThreadedBLAS(library.get, library.set)
    limit.__enter__()  # a thread that the child does not have
    limit.forget()
    assert library.count == 4
    with limit:
        assert library.count == 1
    assert library.count == 4


def test_a_child_forked_inside_the_context_can_exit_it() -> None:
    library = Count(4)
    limit = SingleThreadedBLAS(library.get, library.set)
    with limit:
        limit.forget()
    for _ in range(2):
        with limit:
            assert library.count == 1
        assert library.count == 4


@pytest.mark.parametrize("late", [0, 1])
def test_an_interruption_while_entering_leaves_the_number_as_it_was(late: int) -> None:
    library = Count(4)

    def set_and_raise(count: int) -> None:
        if late:
            library.set(count)
        limit._set = library.set
        raise KeyboardInterrupt

    limit = SingleThreadedBLAS(library.get, library.set)
    limit._set = set_and_raise
    with pytest.raises(KeyboardInterrupt), limit:
        raise AssertionError
    assert library.count == 4
    with limit:
        assert library.count == 1
    assert library.count == 4


@pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(),
    reason="signals reach the main thread",
)
@pytest.mark.skipif(
    not hasattr(signal, "pthread_kill"), reason="the system cannot send a signal to a thread"
)
def test_an_interruption_is_raised_once_all_threads_have_ended() -> None:
    """Work reads and writes arrays of the caller's: it must not go on after a call has ended, and
    nor is a thread lost.
    """
    threads, done = ThreadPool(2), threading.Event()
    both = threading.Barrier(2)
    interrupts = True

    def work(start: int, _stop: int) -> None:
        both.wait()
        if start:
            if interrupts:
                time.sleep(0.02)  # the main thread waits
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.05)
            done.set()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            threads.spread(work, 2 * threads.block)
    finally:
        signal.signal(signal.SIGINT, before)
    assert done.is_set()
    interrupts = False
    done.clear()
    threads.spread(work, 2 * threads.block)
    assert done.is_set()


def test_nested_work_runs_parts_that_no_thread_has_begun() -> None:
    threads, seen = ThreadPool(3), list[tuple[int, int]]()

    def outer(_start: int, _stop: int) -> None:
        threads.spread(lambda start, stop: seen.append((start, stop)), 3 * threads.block)

    threads.spread(outer, 3 * threads.block)
    spans = [(k * threads.block, (k + 1) * threads.block) for k in range(3)]
    assert sorted(seen) == sorted(3 * spans)


def test_exceptions_of_work_raise_after_all_parts_have_ended() -> None:
    threads, ended = ThreadPool(4), list[int]()

    def work(start: int, _stop: int) -> None:
        if not start:
            raise ValueError("the first part")
        time.sleep(0.01)
        ended.append(start)

    for _ in range(20):
        ended.clear()
        with pytest.raises(ValueError, match="the first part"):
            threads.spread(work, 4 * threads.block)
        count = len(ended)
        time.sleep(0.02)
        assert len(ended) == count


def test_an_interruption_between_two_submissions_waits_for_those_that_have_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, begun, ended = ThreadPool(3), threading.Event(), threading.Event()

    def work(start: int, _stop: int) -> None:
        if start:
            begun.set()
            time.sleep(0.05)
            ended.set()

    threads.spread(lambda _start, _stop: None, 3 * threads.block)  # starts the pool
    made = threads_module._PoolTask

    def interrupted(*given: Any) -> Any:
        if begun.is_set():
            raise KeyboardInterrupt
        job = made(*given)
        begun.wait()
        return job

    monkeypatch.setattr(threads_module, "_PoolTask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        threads.spread(work, 3 * threads.block)
    assert ended.is_set()
