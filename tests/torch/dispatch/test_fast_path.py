"""Code generated for the common case does what the generic loops do, and falls back to them.

Parity scripts make most nodes once, by the loops. Here each runs a second time, with code generated
for everything that the first run used; and once more, with arrays of any size in blocks of two
elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import functrace.torch as torch
from functrace.executor.parallel import operations as spread
from functrace.threads import THREADS
from functrace.torch.dispatch import plans
from functrace.torch.dispatch.fast_path import MOST, pull_fast, record_fast
from functrace.torch.dispatch.sizes import DERIVATIONS
from tests.peers.torch.harness import differences, recorded, run, scripts


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    plans.PLANS.clear()
    DERIVATIONS.clear()
    monkeypatch.setattr(plans, "CALLS_INTERPRETED", 1)
    yield
    plans.PLANS.clear()
    DERIVATIONS.clear()


@pytest.fixture(params=["whole", "blocks"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "blocks":
        smallest = (
            (THREADS, "block", 2),
            (plans, "FEWEST", 1),
            (plans, "LEAST_BYTES", 1),
            (spread, "LEAST_BYTES", 1),
        )
        for module, name, value in (*smallest, (spread, "SPAN", 1), (THREADS, "count", 2)):
            monkeypatch.setattr(module, name, value)


@pytest.mark.sampled(24)
@pytest.mark.usefixtures("at_once", "sizes")
@pytest.mark.parametrize("script", scripts(), ids=lambda path: path.stem)
def test_parity_of_generated_code(script: Path) -> None:
    run(script, torch)
    before = sum(plan.record_fast is not None for plan in plans.PLANS.entries.values())
    different = differences(recorded(script), run(script, torch))
    assert not different, f"{script.name}\n{different}"
    assert before or not any(plan.derivation is not None for plan in plans.PLANS.entries.values())


@pytest.mark.usefixtures("at_once")
def test_code_is_generated_for_used_operations() -> None:
    x = torch.tensor([0.5, 1.5], requires_grad=True)
    for _ in range(3):
        (torch.exp(x) * x + 2.0 * x).sum().backward()
    used = [plan for plan in plans.PLANS.entries.values() if plan.derivation is not None]
    assert {plan.case.op.node for plan in used} == {
        "ExpBackward0",
        "MulBackward0",
        "AddBackward0",
        "SumBackward0",
    }
    assert all(plan.record_fast is not None for plan in used)
    assert all(
        plan.pull_fast is not None
        for plan in used
        if plan.case.op.node in ("ExpBackward0", "MulBackward0")
    )


def test_long_patterns_are_left_to_the_loops() -> None:
    assert record_fast((0,) * (MOST + 1), ()) is None
    assert pull_fast((True,) * (MOST + 1), (0,), lambda *values: values) is None


@pytest.mark.usefixtures("at_once")
def test_a_released_saved_tensor_raises() -> None:
    for _ in range(3):
        x = torch.tensor([0.5], requires_grad=True)
        y = torch.exp(x)
        shown = y.grad_fn._raw_saved_result
        y.backward()
        with pytest.raises(RuntimeError, match="freed"):
            shown.register_hooks(lambda t: t, lambda t: t)
        with pytest.raises(RuntimeError, match="second time"):
            y.backward()
