"""Python's own ``if`` and ``while`` under `vmap`: a condition that differs between examples splits
the batch.

No peer does this, so the oracle is the Python loop over examples.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import functrace as ft
from functrace.errors import (
    ArgumentError,
    ConcretizationError,
    DtypeError,
    ShapeError,
    TooManyPathsError,
    TreeError,
)
from functrace.tracing.binding import is_recording
from functrace.tracing.recording import Recording
from functrace.transforms.examples import distinct

Function = Callable[[Any], Any]


def newton_sqrt(a: Any) -> Any:
    x, err = a * 1.0, 1.0
    while err > 1e-13:
        new = 0.5 * (x + a / x)
        err = np.abs(new - x)
        x = new
    return x


def collatz(x: Any) -> Any:
    """A loop whose number of turns differs, with a choice in each."""
    turns = 0
    while x > 1.5:
        x = x * 0.5 if np.sin(3.0 * x) > 0.0 else x * 0.7 - 0.1
        turns += 1
    return x * turns


def nested_choice(x: Any) -> Any:
    if x[0] > 0.0:
        if np.sum(x) > 0.5:
            return np.sum(x**2) * x[1]
        return np.sum(np.exp(-x))
    elif not x[1] > 0.0:
        return np.prod(x)
    return np.sum(np.tanh(x) * x)


def by_index(x: Any) -> Any:
    """Read concrete values in every way: loop counts, `__index__`, slices, masks, conversions."""
    k = int(np.argmax(x))
    total = np.sum(x[: k + 1] ** 2) + len(x[x > 0.0])
    for i in range(k):
        total = total + x[i] * x[k]
    return total * float(ft.value(np.rint(x[0])))


def in_place(x: Any) -> Any:
    y = x.copy()
    while np.max(y) > 0.3:
        y[np.argmax(y)] *= 0.5
        y[y < -1.0] = -0.9
    y[0] += x[1]
    return np.sum(x * y)


SCALARS = np.concatenate([np.linspace(0.3, 40.0, 37), [2.0, 2.0, 1e-3]])
VECTORS = np.random.default_rng(3).normal(size=(17, 3))
FUNCTIONS: dict[str, tuple[Function, Any]] = {
    "newton": (newton_sqrt, SCALARS), "collatz": (collatz, SCALARS),
    "nested choice": (nested_choice, VECTORS),
    "index": (by_index, VECTORS), "in place": (in_place, VECTORS),
}  # fmt: skip
every = pytest.mark.parametrize("f, batch", FUNCTIONS.values(), ids=FUNCTIONS)


def looped(f: Callable[..., Any], *batches: Any) -> Any:
    return np.stack(
        [
            np.asarray(f(*[x.copy() if np.ndim(x) else x for x in xs]))
            for xs in zip(*batches, strict=True)
        ]
    )


def total(f: Function) -> Function:
    return lambda batch: np.sum(ft.vmap(f)(batch) ** 2)


@every
def test_values_are_those_of_the_loop(f: Function, batch: Any) -> None:
    before = batch.copy()
    np.testing.assert_allclose(ft.vmap(f)(batch), looped(f, batch), rtol=1e-13)
    np.testing.assert_array_equal(batch, before)


@pytest.mark.sampled(2)
@every
def test_derivatives_are_those_of_the_loop(f: Function, batch: Any) -> None:
    gradients = looped(ft.grad(f), batch)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(batch), gradients, rtol=1e-11)
    values, found = ft.vmap(ft.value_and_grad(f))(batch)
    np.testing.assert_allclose(found, gradients, rtol=1e-11)
    weights = 2.0 * values.reshape((-1,) + (1,) * (batch.ndim - 1))
    for _ in range(3):
        np.testing.assert_allclose(ft.grad(total(f))(batch), weights * gradients, rtol=1e-11)
    tangent = np.cos(np.arange(batch.size).reshape(batch.shape))
    _, pushed = ft.jvp(ft.vmap(f), (batch,), (tangent,))
    np.testing.assert_allclose(
        pushed, (gradients * tangent).reshape(len(batch), -1).sum(1), rtol=1e-10
    )


@every
def test_second_derivatives_are_those_of_the_loop(f: Function, batch: Any) -> None:
    hessians = looped(ft.hessian(f), batch)
    np.testing.assert_allclose(ft.vmap(ft.hessian(f))(batch), hessians, rtol=1e-9, atol=1e-11)
    found = ft.hessian(lambda batch: np.sum(ft.vmap(f)(batch)))(batch[:5])
    for k in range(5):
        np.testing.assert_allclose(
            found[k][..., k, :] if batch.ndim > 1 else found[k, k],
            hessians[k],
            rtol=1e-9,
            atol=1e-11,
        )


@every
def test_nested_maps_are_nested_loops(f: Function, batch: Any) -> None:
    stacked = np.stack([batch[:7], batch[7:14]])
    expected = np.stack([looped(f, part) for part in stacked])
    np.testing.assert_allclose(ft.vmap(ft.vmap(f))(stacked), expected, rtol=1e-13)
    np.testing.assert_allclose(
        ft.vmap(ft.vmap(f), in_axes=1, out_axes=1)(stacked), expected, rtol=1e-13
    )
    gradient = ft.vmap(ft.grad(lambda part: np.sum(ft.vmap(f)(part))))(stacked)
    np.testing.assert_allclose(
        gradient, np.stack([looped(ft.grad(f), part) for part in stacked]), rtol=1e-11
    )


# -- random programs -------------------------------------------------------------------------------


def program(rng: np.random.Generator, depth: int = 3) -> Function:
    """A random function of a vector and a state, with branches and loops on values, as nested
    closures.
    """
    kind = (
        rng.choice(["op", "then", "then", "if", "while", "for", "write", "mask"]) if depth else "op"
    )
    c, k = float(rng.normal()), int(rng.integers(3))
    if kind == "op":
        ops: list[Function] = [
            lambda x: np.sin(x) + c, lambda x: x * c, lambda x: np.tanh(x[::-1]) * x,
            lambda x: x - np.mean(x) * 0.5,
            lambda x: np.concatenate([x[1:], x[:1]]) * 0.8, lambda x: np.where(x > c, x, -x),
        ]  # fmt: skip
        return ops[rng.integers(len(ops))]
    body, other = program(rng, depth - 1), program(rng, depth - 1)

    def then(x: Any) -> Any:
        return other(body(x))

    def choose(x: Any) -> Any:
        return body(x) if x[k] > c * 0.3 else other(x)

    def loop(x: Any) -> Any:
        for _ in range(4):
            if not np.sum(x * x) > 0.2 + c * c:
                break
            x = body(x) * 0.7
        return x

    def count(x: Any) -> Any:
        for i in range(int(np.argmin(x))):
            x = body(x) + 0.1 * i
        return x

    def write(x: Any) -> Any:
        y = body(x).copy()
        if y[k] < 0.0:
            y[k] = x[0] * 0.5
            y[1:] += x[:-1]
        return y

    def masked(x: Any) -> Any:
        chosen = x[x > 0.3 * c]
        return x * np.sum(chosen) if len(chosen) > 1 else body(x)

    return {
        "then": then,
        "if": choose,
        "while": loop,
        "for": count,
        "write": write,
        "mask": masked,
    }[kind]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_are_the_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    step = program(rng, 4)
    batch = rng.normal(size=(int(rng.integers(1, 12)), 3))

    def f(x: Any) -> Any:
        return np.sum(step(x) * np.array([1.0, 0.5, -0.3]))

    mapped = lambda x: ft.vmap(f, max_paths=1000)(x)
    np.testing.assert_allclose(mapped(batch), looped(f, batch), rtol=1e-12, atol=1e-13)
    gradients = looped(ft.grad(f), batch)
    np.testing.assert_allclose(
        ft.vmap(ft.grad(f), max_paths=1000)(batch), gradients, rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(
        ft.grad(lambda x: np.sum(mapped(x)))(batch), gradients, rtol=1e-10, atol=1e-12
    )
    pair = np.stack([batch, batch[::-1]])
    found = ft.vmap(lambda part: np.sum(ft.vmap(f, max_paths=1000)(part)), max_paths=1000)(pair)
    np.testing.assert_allclose(
        found, [looped(f, part).sum() for part in pair], rtol=1e-11, atol=1e-12
    )
    second = looped(ft.hessian(f), batch[:3])
    np.testing.assert_allclose(
        ft.vmap(ft.hessian(f), max_paths=1000)(batch[:3]), second, rtol=1e-8, atol=1e-9
    )


# -- what a call takes and returns -----------------------------------------------------------------


def test_pytrees_axes_and_keywords() -> None:
    def f(p: Any, x: Any, scale: Any, *, shift: Any) -> Any:
        if np.sum(x) > p["limit"]:
            return {"y": x * scale + shift, "w": p["w"]}, np.sum(x)
        return {"y": p["w"] - x, "w": p["w"]}, -np.sum(x)

    p = {"limit": 0.1, "w": np.array([1.0, 2.0, 3.0])}
    shift = np.arange(17.0)
    run = ft.vmap(
        f, in_axes=({"limit": None, "w": None}, 1, None), out_axes=({"y": -1, "w": None}, 0)
    )
    found, sums = run(p, VECTORS.T, 2.0, shift=shift)
    expected = [f(p, x, 2.0, shift=s) for x, s in zip(VECTORS, shift, strict=True)]
    np.testing.assert_allclose(found["y"], np.stack([e[0]["y"] for e in expected], -1))
    np.testing.assert_array_equal(found["w"], p["w"])
    np.testing.assert_allclose(sums, [e[1] for e in expected])


def test_unbatched_results_of_a_path_are_broadcast() -> None:
    def f(x: Any, w: Any) -> Any:
        return w if x > 0.0 else x * w

    x, w = np.array([1.0, -2.0, 3.0]), np.array([0.5, 1.5])
    np.testing.assert_array_equal(ft.vmap(f, in_axes=(0, None))(x, w), [w, -2.0 * w, w])
    gradient = ft.grad(lambda w: np.sum(ft.vmap(f, in_axes=(0, None))(x, w)))(w)
    np.testing.assert_array_equal(gradient, [0.0, 0.0])
    signs = np.array([1.0, -1.0])
    for number, expected in ((0, [1.0, 0.0]), (0.0, [1.0, 0.0]), (True, [1.0, 1.0])):
        positive: Function = lambda x, number=number: x if x > 0.0 else number
        found = ft.vmap(positive)(signs)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == np.float64
        assert ft.vmap(positive)(signs.astype(np.float32)).dtype == np.float32
    counts: Function = lambda x: 1 if x > 0 else 2
    assert ft.vmap(counts)(signs).tolist() == [1, 2]


def test_numbers_split_by_distinct_value() -> None:
    def f(x: Any) -> Any:
        return x * float(ft.value(x))

    x = np.array([1.0, -0.0, 2.0, 0.0, 1.0, np.nan])
    np.testing.assert_array_equal(ft.vmap(f)(x), x * x)
    np.testing.assert_array_equal(
        ft.vmap(lambda x: x + len(ft.value(x).tolist()))(VECTORS), VECTORS + 3
    )


def test_distinct_rows_are_numbered_as_they_appear() -> None:
    labels, count = distinct(np.array([[2, 1], [0, 5], [2, 1], [7, 7], [0, 5]]))
    assert labels.tolist() == [0, 1, 0, 2, 1] and count == 3
    assert distinct(np.array([0.0, -0.0, np.nan, np.nan]))[0].tolist() == [0, 1, 2, 2]
    assert distinct(np.array([True, True]))[1] == 1
    assert distinct(np.zeros((3, 0)))[1] == 1


# -- cost ------------------------------------------------------------------------------------------


def counted(f: Function) -> tuple[Function, list[int]]:
    runs: list[int] = []

    def run(x: Any) -> Any:
        runs.append(1)
        return f(x)

    return run, runs


@pytest.mark.parametrize(
    "transform", [ft.vmap, lambda f: ft.grad(total(f)), lambda f: ft.vmap(ft.grad(f))]
)
def test_the_function_runs_once_per_path(transform: Callable[[Function], Function]) -> None:
    run, runs = counted(newton_sqrt)
    turns: set[int] = set()
    batch = np.linspace(0.1, 100.0, 1000)
    for a in batch:
        x, n, err = a * 1.0, 0, 1.0
        while err > 1e-13:
            new = 0.5 * (x + a / x)
            err, x, n = abs(new - x), new, n + 1
        turns.add(n)
    transform(run)(batch)
    assert len(runs) == len(turns)


def test_array_work_is_done_once_for_all_that_need_it() -> None:
    seen: list[int] = []

    def costly(x: Any) -> Any:
        seen.append(int(np.size(x)))
        return np.asarray(x) * 0.5

    halved = ft.primitive(costly, results=lambda x: x, vmap="broadcast_all")

    def f(x: Any) -> Any:
        while x > 1.0:
            x = halved(x)
        return x

    batch = np.array([1.5, 3.0, 7.0, 0.5, 3.5])
    np.testing.assert_array_equal(ft.vmap(f)(batch), [0.75, 0.75, 0.875, 0.5, 0.875])
    assert sorted(seen) == [1, 3, 4]


def test_function_without_conditions_runs_once() -> None:
    run, runs = counted(np.sin)
    ft.vmap(run)(SCALARS)
    ft.vmap(lambda x: run(x) if x > -1.0 else x)(SCALARS)
    assert len(runs) == 2


def test_dead_values_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("functrace.transforms.examples.MOST_HELD", 1 << 12)
    monkeypatch.setattr("functrace.tracing.values.MOST_HELD", 1 << 12)

    def f(x: Any) -> Any:
        y = x
        for _ in range(60):
            y = np.sin(y) + x
            if y > 3.0:
                y = y - 1.0
        return y

    x = np.linspace(0.0, 3.0, 200)
    np.testing.assert_allclose(ft.vmap(f)(x), looped(f, x), rtol=1e-13)
    np.testing.assert_allclose(ft.vmap(ft.grad(f))(x), looped(ft.grad(f), x), rtol=1e-10)


# -- what goes wrong -------------------------------------------------------------------------------


def test_too_many_paths_error_reports_count_and_line() -> None:
    with pytest.raises(
        TooManyPathsError, match=r"1000 different values(.|\n)*1000 paths(.|\n)*is 64(.|\n)*float\("
    ) as caught:
        ft.vmap(lambda x: x * float(ft.value(x)))(np.arange(1000.0))
    assert isinstance(caught.value, RuntimeError) and "max_paths=1024" in str(caught.value)
    with pytest.raises(TooManyPathsError, match=r"max_paths is 2(.|\n)*while err > 1e-13"):
        ft.vmap(newton_sqrt, max_paths=2)(SCALARS)
    with pytest.raises(TooManyPathsError, match="max_paths is 1"):
        ft.vmap(nested_choice, max_paths=1)(VECTORS)
    np.testing.assert_array_equal(
        ft.vmap(lambda x: x if x > -9.0 else x * 2.0, max_paths=1)(SCALARS), SCALARS
    )
    with pytest.raises(ConcretizationError):
        ft.vmap(newton_sqrt, max_paths=0)(SCALARS)
    with pytest.raises(ArgumentError, match="max_paths=-1"):
        ft.vmap(newton_sqrt, max_paths=-1)


def test_incompatible_results_of_paths_name_the_lines() -> None:
    def shapes(x: Any) -> Any:
        if x > 0.0:
            return np.stack([x, x])
        return np.stack([x, x, x])

    def dtypes(x: Any) -> Any:
        return x if x > 0.0 else np.rint(x).astype(np.int64)

    def trees(x: Any) -> Any:
        return (x, x) if x > 0.0 else x

    def number(x: Any) -> Any:
        return np.rint(x).astype(np.int64) if x > 0.0 else 0.5

    batch = np.array([1.0, -1.0])
    with pytest.raises(
        ShapeError,
        match=r"f64\[2\], another f64\[3\](.|\n)*if x > 0.0(.|\n)*np.stack\(\[x, x, x\]\)",
    ):
        ft.vmap(shapes)(batch)
    with pytest.raises(
        DtypeError, match=r"f64\[\], another i64\[\](.|\n)*test_divergent_paths.py:\d+ in dtypes"
    ):
        ft.vmap(dtypes)(batch)
    with pytest.raises(TreeError, match=r"they diverge at test_divergent_paths.py:\d+ in trees"):
        ft.vmap(trees)(batch)
    with pytest.raises(DtypeError, match="Python float"):
        ft.vmap(number)(batch)
    with pytest.raises(ShapeError, match=r"out_axes=None depends on the path(.|\n)*if x > 0.0"):
        ft.vmap(lambda x: 1.0 if x > 0.0 else 2.0, out_axes=None)(batch)


def test_condition_on_an_empty_batch_raises() -> None:
    with pytest.raises(ConcretizationError, match=r"no examples(.|\n)*if x > 0"):
        ft.vmap(lambda x: x if x > 0 else -x)(np.zeros(0))
    assert ft.vmap(np.sin)(np.zeros(0)).shape == (0,)


def test_an_exception_of_one_path_is_the_users_and_leaves_nothing_active() -> None:
    def f(x: Any) -> Any:
        if x > 2.0:
            raise KeyError("too large")
        return x * 2.0

    with pytest.raises(KeyError, match="too large") as caught:
        ft.grad(lambda x: np.sum(ft.vmap(f)(x)))(np.array([1.0, 3.0, 4.0]))
    assert (
        "examples 1, 2" in caught.value.__notes__[0] and "if x > 2.0" in caught.value.__notes__[0]
    )
    assert not is_recording()
    np.testing.assert_array_equal(ft.vmap(f)(np.array([1.0, 2.0])), [2.0, 4.0])


def test_a_path_does_not_compute_examples_of_another() -> None:
    def f(x: Any) -> Any:
        return np.sqrt(x) if x > 0.0 else x * 0.0

    with np.errstate(all="raise"):
        x = np.array([4.0, -1.0, 0.0])
        np.testing.assert_array_equal(ft.vmap(f)(x), [2.0, 0.0, 0.0])
        np.testing.assert_array_equal(ft.grad(lambda x: np.sum(ft.vmap(f)(x)))(x), [0.25, 0.0, 0.0])


def test_in_place_writes_are_local_to_a_path() -> None:
    shared = np.array([1.0, 2.0, 3.0])

    def f(x: Any, w: Any) -> Any:
        w *= 2.0
        x[0] = 7.0
        if x[1] > 0.0:
            w[0] = 100.0
        return x * w

    expected = np.stack([f(x.copy(), shared.copy()) for x in VECTORS])
    np.testing.assert_array_equal(ft.vmap(f, in_axes=(0, None))(VECTORS, shared), expected)
    np.testing.assert_array_equal(shared, [1.0, 2.0, 3.0])


def test_a_function_that_does_otherwise_the_second_time_is_not_mixed_with_the_first() -> None:
    count = [0]

    def f(x: Any) -> Any:
        count[0] += 1
        y = np.sin(x) if count[0] == 1 else np.cos(x)
        return y + 1.0 if y > 0.5 else y - 1.0

    x = np.array([1.5, 0.1, 3.0])
    found = ft.vmap(f)(x)
    np.testing.assert_array_equal(found, [np.sin(1.5) + 1.0, np.cos(0.1) + 1.0, np.cos(3.0) - 1.0])
    assert count[0] == 3


def test_bodies_may_branch_on_concrete_values() -> None:
    inner = ft.checkpoint(lambda x: x * 2.0 if x[0] > 0.0 else np.sin(x))
    np.testing.assert_allclose(ft.vmap(inner)(VECTORS), looped(inner, VECTORS))
    gradient = ft.grad(lambda batch: np.sum(ft.vmap(inner)(batch)))(VECTORS)
    np.testing.assert_allclose(gradient, looped(ft.grad(lambda x: np.sum(inner(x))), VECTORS))
    outer = ft.checkpoint(lambda batch: np.sum(ft.vmap(nested_choice)(batch) ** 2))
    np.testing.assert_allclose(ft.grad(outer)(VECTORS), ft.grad(total(nested_choice))(VECTORS))

    @ft.custom_vjp
    def ruled(x: Any) -> Any:
        return x * 3.0 if x > 0.0 else x

    ruled.defvjp(lambda x: (ruled(x), x), lambda x, bar: (bar * (5.0 if x > 0.0 else 1.0),))
    x = np.array([1.0, -1.0])
    np.testing.assert_array_equal(ft.vmap(ruled)(x), [3.0, -1.0])
    np.testing.assert_array_equal(ft.vmap(ft.grad(ruled))(x), [5.0, 1.0])


def test_masks_do_not_concretize_their_size() -> None:
    """A masked update or sum does not concretize the number of selected elements."""
    rows = np.random.default_rng(0).normal(size=(200, 8))

    def cut(x: Any) -> Any:
        x[x > 0.5] *= 0.1
        return x

    np.testing.assert_array_equal(ft.vmap(cut, max_paths=0)(rows), looped(cut, rows))
    chosen = lambda x: np.sum(x[x > 0.5] ** 2) + x[x > 0.5].size
    np.testing.assert_allclose(ft.vmap(chosen, max_paths=300)(rows), looped(chosen, rows))


def test_printing_a_tracer_does_not_concretize() -> None:
    seen: list[str] = []

    def f(x: Any) -> Any:
        seen.append(f"{x} {x!r}")
        return x

    ft.vmap(f)(SCALARS)
    assert len(seen) == 1 and "in vmap of f" in seen[0]


def test_recordings_are_collected() -> None:
    ft.vmap(newton_sqrt)(SCALARS)
    gc.collect()
    assert not [
        x for x in gc.get_objects() if isinstance(x, Recording) and x.owner == "vmap of newton_sqrt"
    ]
