"""Plans that are made of one for unknown sizes, positions and numbers are those that are made for
these alone.
"""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.torch.dispatch import derivation, plans, sizes
from functrace.torch.dispatch.derivation import Case

Uses = dict[str, Callable[..., Any]]

ELEMENTWISE: Uses = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y, "maximum": torch.maximum, "where": lambda x, y: torch.where(x > y, x,
    y),
    "atan2": torch.atan2, "hypot": torch.hypot, "lerp": lambda x, y: torch.lerp(x, y, y),
    "fmod": torch.fmod,
}  # fmt: skip
WHOLE: Uses = {
    "sum": lambda x: x.sum(), "mean": lambda x: x.mean(), "prod": lambda x: x.prod(),
    "var": lambda x: x.var(),
    "relu": torch.relu, "tanh": torch.tanh, "sqrt": torch.sqrt, "norm": lambda x: x.norm(),
    "abs": lambda x: x.abs(),
    "flat": lambda x: x.reshape(-1), "turned": lambda x: x.mT, "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: torch.softmax(x, -1), "logsumexp": lambda x: torch.logsumexp(x, 0),
    "max": lambda x: x.max(0).values, "sums": lambda x: x.sum(-1, keepdim=True),
    "means": lambda x: x.mean(0),
    "std": lambda x: x.std(0), "stack": lambda x: torch.stack([x, x]),
    "cat": lambda x: torch.cat([x, x * 2.0], 1),
    "expand": lambda x: x.expand(3, *x.shape), "row": lambda x: x[-1], "flip": lambda x: x.flip(0),
    "gram": lambda x: x @ x.mT, "double": lambda x: torch.cat([x, x]).view(2, -1),
    "sorted": lambda x: x.sort(0).values,
}  # fmt: skip
BY_NUMBER: Uses = {
    "power": lambda x, n: x**n, "of number": lambda x, n: (n * n) ** x, "clamp": lambda x,
    n: x.clamp(-1.0, n),
    "clamp below": lambda x, n: x.clamp(min=n), "lerp": lambda x, n: torch.lerp(x, x * 2.0, n),
    "scaled": lambda x, n: torch.add(x, x, alpha=n), "times": lambda x, n: x * n,
}  # fmt: skip
BY_POSITION: Uses = {
    "select": lambda x, k: x[k], "column": lambda x, k: x[:, k], "narrow": lambda x, k: x.narrow(0,
    k, 2),
    "slice": lambda x, k: x[k : k + 3], "steps": lambda x, k: x[k::2], "head": lambda x, k: x[:k],
    "both": lambda x, k: x[k, k : k + 2], "gather": lambda x, k: x[torch.tensor([k, 0, k])],
    "unfold": lambda x, k: x[None, k],
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No plans from before: the first ones here decide which are derived."""
    plans.PLANS.clear()
    sizes.DERIVATIONS.clear()
    yield


def tensor(
    generator: np.random.Generator, shape: tuple[int, ...], dtype: type[Any] = np.float64
) -> Any:
    return torch.tensor(generator.uniform(0.1, 2.0, shape).astype(dtype)).requires_grad_()


def check_plans() -> int:
    """Compare every plan that came from another one with the plan for these operands alone; returns
    how many did.
    """
    made = [plan for plan in plans.PLANS.entries.values() if plan.source is not None]
    for plan in made:
        check_plan(plan)
    return len(made)


def check_plan(plan: plans.OpPlan) -> None:
    case = plan.case
    alone = plans.OpPlan(Case(case.op, case.specs, case.params, case.active))
    if alone.derivation is None:
        assert plan.derivation is None
        return
    for name in ("saves", "unpacks", "selected", "differentiated", "edge_to", "many"):
        assert getattr(plan.derivation, name) == getattr(alone.derivation, name), (
            case.op,
            case.specs,
            case.params,
            name,
        )
    for name in ("outputs", "differentiated", "moves"):
        assert getattr(plan, name) == getattr(alone, name), (case.op, case.specs, case.params, name)
    assert plan.backward == alone.backward, f"{case.op}: {plan.backward}\n{alone.backward}"
    if alone.derivation.computing is None:
        return
    generator = np.random.default_rng(1)
    program = alone.derivation.computing
    values = [value(generator, program.avals[i], plan, k) for k, i in enumerate(program.input_ids)]
    with np.errstate(all="ignore"):
        expected = alone.compute_gradients(list(values))
        for _ in range(plans.CALLS_INTERPRETED + 2):  # interpreted, then compiled
            for found, wanted in zip(plan.compute_gradients(list(values)), expected, strict=True):
                assert found.dtype == wanted.dtype and found.shape == wanted.shape
                np.testing.assert_array_equal(found, wanted, strict=True)


def value(generator: np.random.Generator, aval: Any, plan: plans.OpPlan, k: int) -> Any:
    """A value for an input of a backward program: positions are 0."""
    if aval.dtype.kind in "bui":
        return np.zeros(aval.shape, aval.dtype)
    return np.asarray(generator.uniform(-2.0, 2.0, aval.shape)).astype(aval.dtype)


def pull(result: Any) -> None:
    for y in result if isinstance(result, tuple) else (result,):
        if y.requires_grad:
            y.backward(torch.ones_like(y), retain_graph=True)


SIZES = (0, 1, 2, 3, 5, 8)
OF_ONE_DTYPE = {"lerp"}
"""Functions that refuse tensors of several dtypes."""


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_two_operands_of_all_patterns(name: str) -> None:
    generator, choose = np.random.default_rng(0), random.Random(name)
    for _ in range(120):
        shape = tuple(choose.choice(SIZES) for _ in range(choose.randrange(4)))
        others = [
            tuple(
                n if choose.random() < 0.7 else 1 for n in shape[choose.randrange(len(shape) + 1) :]
            )
            for _ in "xy"
        ]
        dtypes = [choose.choice((np.float32, np.float64)) for _ in others]
        if name in OF_ONE_DTYPE:
            dtypes = dtypes[:1] * len(others)
        for more in (0, 1, 7):  # derived for all sizes once a second size is traced
            sizes_of = [tuple([n if n < 2 else n + more for n in s]) for s in others]
            pull(
                ELEMENTWISE[name](
                    *[tensor(generator, s, d) for s, d in zip(sizes_of, dtypes, strict=True)]
                )
            )
    assert check_plans() > 20


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", WHOLE)
def test_one_operand_of_many_sizes(name: str) -> None:
    generator = np.random.default_rng(0)
    for shape in (
        (3, 4),
        (2, 4),
        (7, 2),
        (4, 4),
        (6, 3),
        (2, 9),
        (300, 40),
        (3, 50_000),
        (8, 3),
        (5, 6, 7),
        (2, 2, 3),
        (9, 2),
        (2, 5, 4),
    ):
        pull(WHOLE[name](tensor(generator, shape, np.float32)))
    assert check_plans() > 5 or name in ("prod", "cumsum")


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", BY_NUMBER)
def test_numbers(name: str) -> None:
    generator = np.random.default_rng(0)
    for dtype, shape in itertools.product(
        (np.float32, np.float64), ((3, 4), (5, 6), (2, 7), (8, 5))
    ):
        x = tensor(generator, shape, dtype)
        for n in (
            2.5,
            0.1,
            -0.7,
            3,
            2,
            2.0,
            1,
            0,
            0.0,
            -1,
            1e30,
            float("inf"),
            1 / 3,
            7,
            0.5,
            -2.0,
        ):
            pull(BY_NUMBER[name](x, n))
    assert check_plans() > 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", BY_POSITION)
def test_positions(name: str) -> None:
    generator = np.random.default_rng(0)
    for shape in ((9, 9), (20, 12), (12, 20), (11, 14), (10, 10)):
        x = tensor(generator, shape)
        for k in (3, 0, 1, 2, 4, 5, 6, -1, -3):
            try:
                y = BY_POSITION[name](x, k)
            except (IndexError, RuntimeError, ValueError):
                continue
            pull(y)
    assert check_plans() > 2


def test_a_size_that_a_rule_looks_at_has_plans_of_its_own() -> None:
    """The product of n numbers is differentiated half by half: another program for every n."""
    for n in range(2, 30):
        x = torch.tensor(np.linspace(1.0, 2.0, n)).requires_grad_()
        x.prod().backward()
        np.testing.assert_allclose(x.grad.numpy(), np.prod(x.detach().numpy()) / x.detach().numpy())
    check_plans()


def test_derived_once_for_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    derived: list[Any] = []
    original = derivation.derive
    for module in (plans, sizes):
        monkeypatch.setattr(
            module, "derive", lambda case: derived.append(case.op.node) or original(case)
        )
    w, z = torch.ones(8, 4, requires_grad=True), torch.ones(1000, requires_grad=True)
    for n in range(10, 110):
        torch.relu(torch.ones(n, 8) @ w + w[1]).sum().backward()
        (z[n] * z[2 * n : 3 * n].sum() ** (n / 7)).backward()
    assert len(derived) < 20, derived


def test_threads_share_plans() -> None:
    """Many threads meet the same new shapes at once: all get the right gradients, and derive few
    plans.
    """
    results: dict[int, list[Any]] = {}

    def work(number: int) -> None:
        found = []
        for n in range(2, 60):
            x = torch.tensor(np.linspace(0.5, 1.5, n)).requires_grad_()
            (torch.sin(x) * x ** (n / 7) + x[n // 2]).sum().backward()
            found.append(x.grad.numpy())
        results[number] = found

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(6)
    assert len(results) == 7
    for found in results.values():
        for one, other in zip(found, results[6], strict=True):
            np.testing.assert_array_equal(one, other)
    assert check_plans() > 50


def test_families_are_bounded() -> None:
    before = sizes.DERIVATIONS.most_bytes
    try:
        sizes.DERIVATIONS.most_bytes = 200_000
        for n in range(2, 12):
            for rank in range(6):
                pull(torch.ones([n] * rank, requires_grad=True).exp().sum())
        assert sizes.DERIVATIONS.nbytes <= 200_000
    finally:
        sizes.DERIVATIONS.most_bytes = before


def test_a_plan_records_its_pullback_if_the_shared_one_was_freed() -> None:
    """A program that is recorded holds the sizes of its plan, whoever has found meanwhile that
    sizes cannot be shared.
    """
    plans.PLANS.clear()
    sizes.DERIVATIONS.clear()
    for n in (5, 6, 7):
        torch.sin(torch.rand(n, n + 3).requires_grad_()).backward(torch.ones(n, n + 3))
    shared = [plan for plan in plans.PLANS.entries.values() if plan.shares_pullback]
    assert shared
    plan = shared[-1]
    plan.source.pullback = None
    shape = plan.case.specs[0].shape
    values = np.full(shape, 0.5, np.float32)
    found = ft.grad(lambda ct: np.sum(plan.compute_gradients([values, ct], is_plain=False)[0]))(
        np.ones(shape, np.float32)
    )
    np.testing.assert_allclose(found, np.cos(values), rtol=1e-6)
    assert not plan.shares_pullback
