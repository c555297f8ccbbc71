"""Checkpoint: gradients are those without it, functions run as often as in PyTorch, and nothing
outlives its use.
"""

from __future__ import annotations

import gc
import threading
import tracemalloc
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import functrace as ft
import functrace.torch as torch
from functrace.torch.utils.checkpoint import (
    CheckpointError,
    checkpoint,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Run without the cycle collector: only reference counting frees objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def leaf(*values: float) -> Any:
    return torch.tensor(values, requires_grad=True)


def kept(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return checkpoint(function, *args, use_reentrant=False, **options)


class Counted:
    """A function that counts how often it began and how often it ended."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.began = self.ended = 0

    def __call__(self, *args: Any) -> Any:
        self.began += 1
        result = self.function(*args)
        self.ended += 1
        return result


def nested(depth: int, counts: list[int]) -> Callable[[Any], Any]:
    """Return ``sin(sin(… cos(cos(x))))`` in which every level is a checkpoint; counts calls by
    level, outermost last.
    """

    def run(x: Any) -> Any:
        counts[depth - 1] += 1
        y = x.cos()
        if depth > 1:
            y = kept(nested(depth - 1, counts), y)
        return y.sin()

    return run


def composed(depth: int, x: float) -> float:
    return np.sin(np.cos(x) if depth == 1 else composed(depth - 1, np.cos(x)))


def derivative(function: Callable[[Any], Any], x: float, order: int = 1) -> float:
    """Return a central difference of a NumPy function."""
    h = 1e-4 if order == 1 else 1e-3
    if order == 1:
        return (function(x + h) - function(x - h)) / (2 * h)
    return (function(x + h) - 2 * function(x) + function(x - h)) / h**2


@pytest.mark.parametrize(
    ("depth", "calls"), [(1, [2]), (2, [3, 2]), (3, [4, 3, 2]), (5, [6, 5, 4, 3, 2])]
)
@pytest.mark.parametrize("early_stop", [True, False])
def test_nested_checkpoints_run_once_more_per_level(
    depth: int, calls: list[int], early_stop: bool
) -> None:
    counts = [0] * depth
    x = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    with set_checkpoint_early_stop(early_stop):
        y = kept(nested(depth, counts), x)
    assert counts == [1] * depth
    y.backward()
    assert counts == calls
    np.testing.assert_allclose(
        x.grad.numpy(), derivative(lambda v: composed(depth, v), 0.3), rtol=1e-6
    )


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("early_stop", [True, False])
def test_double_backward_through_nested_checkpoints(depth: int, early_stop: bool) -> None:
    x = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    with set_checkpoint_early_stop(early_stop):
        y = kept(nested(depth, [0] * depth), x)
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (h,) = torch.autograd.grad(g, x)
    np.testing.assert_allclose(
        h.numpy(), derivative(lambda v: composed(depth, v), 0.3, order=2), rtol=1e-4
    )


def test_second_run_stops_at_the_last_tensor_that_is_saved() -> None:
    function = Counted(lambda x: x.sin().exp() + 1.0)
    x = leaf(0.5)
    kept(function, x).backward()
    assert (function.began, function.ended) == (2, 1)
    kept(function, x, early_stop=False).backward()
    assert (function.began, function.ended) == (4, 3)


def test_region_that_saves_nothing_is_not_recomputed() -> None:
    function = Counted(lambda x: x + 1.0)
    kept(function, leaf(0.5)).backward()
    assert function.began == 1


def test_without_grad_mode_a_checkpoint_is_a_call() -> None:
    function = Counted(lambda x: x.exp())
    with torch.no_grad():
        assert not kept(function, leaf(0.5)).requires_grad
    assert function.began == 1


def test_each_retained_pass_recomputes_equal_gradients() -> None:
    function = Counted(lambda x: x.sin().exp())
    x = leaf(0.5)
    y = kept(function, x)
    first = torch.autograd.grad(y, x, retain_graph=True)[0].tolist()
    assert torch.autograd.grad(y, x, retain_graph=True)[0].tolist() == first
    assert function.began == 3


def test_random_numbers_of_the_second_run_are_those_of_the_first() -> None:
    drawn: list[list[float]] = []

    def function(x: Any) -> Any:
        noise = torch.randn(4)
        drawn.append(noise.tolist())
        return (x * noise).sin()

    y = kept(function, torch.ones(4, requires_grad=True))
    state = torch.get_rng_state().tolist()
    y.sum().backward()
    assert drawn[0] == drawn[1]
    assert torch.get_rng_state().tolist() == state
    kept(function, torch.ones(4, requires_grad=True), preserve_rng_state=False).sum().backward()
    assert drawn[2] != drawn[3]


def test_random_state_is_put_back_when_the_second_run_fails() -> None:
    function = Counted(
        lambda x: torch.randn(1) * x.exp() if function.began == 1 else torch.randn(1) / 0 + 1 / 0
    )
    y = kept(function, leaf(0.5))
    state = torch.get_rng_state().tolist()
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert torch.get_rng_state().tolist() == state


def test_failed_recomputation_can_be_retried() -> None:
    fails = [True]

    def function(x: Any) -> Any:
        y = x.sin()
        if fails[0] and calls:
            raise LookupError("only now")
        calls.append(1)
        return y.exp()

    calls: list[int] = []
    x = leaf(0.5)
    y = kept(function, x)
    with pytest.raises(LookupError):
        y.backward(retain_graph=True)
    fails[0] = False
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(np.sin(0.5)) * np.cos(0.5), rtol=1e-6)


def test_gradients_reach_closures_and_containers() -> None:
    w, x = leaf(2.0), leaf(3.0)
    kept(lambda pack: (pack["x"] * w).sin(), {"x": x}).backward()
    np.testing.assert_allclose(
        [w.grad.item(), x.grad.item()], [3 * np.cos(6.0), 2 * np.cos(6.0)], rtol=1e-5
    )


def test_gradient_within_the_region() -> None:
    x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)

    def function(x: Any) -> Any:
        y = x.exp()
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return g * y

    for early_stop in (True, False):
        (g,) = torch.autograd.grad(kept(function, x, early_stop=early_stop), x)
        np.testing.assert_allclose(g.numpy(), 2 * np.exp(1.0), rtol=1e-12)


@pytest.mark.parametrize(
    ("first", "second", "options", "message"),
    [
        (lambda x: x.sin(), lambda x: x[:1].sin(), {}, "have different metadata"),
        (lambda x: x.sin(), lambda x: x.double().sin(), {}, "torch.float64"),
        (
            lambda x: x.sin().exp(),
            lambda x: x.sin(),
            {},
            "saved during forward: 2\nNumber of .* recomputation: 1",
        ),
        (
            lambda x: x.sin(),
            lambda x: x + 1.0,
            {"determinism_check": "none"},
            "A different number of tensors was saved",
        ),
        (
            lambda x: x.sin(),
            lambda x: x.sin().exp(),
            {"early_stop": False},
            "trying to save more tensors during",
        ),
        (
            lambda x: x.sin(),
            lambda x: x + 1.0,
            {"debug": True},
            r"aten.sin.default\(\$0\).*\n\n.*test_checkpoint.py:\d+:<lambda>",
        ),
    ],
)
def test_runs_that_differ_are_refused(
    first: Any, second: Any, options: dict[str, Any], message: str
) -> None:
    function = Counted(lambda x: (first if function.began == 1 else second)(x))
    y = kept(function, leaf(0.5, 1.0), **options).sum()
    with pytest.raises(CheckpointError, match=message):
        y.backward()


def test_extra_recomputed_tensors_are_ignored_with_early_stop() -> None:
    x = leaf(0.5)
    function = Counted(lambda x: x.sin() if function.began == 1 else x.sin().exp())
    kept(function, x).backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos([0.5]), rtol=1e-6)


def test_overwritten_argument_is_noticed() -> None:
    h = leaf(0.5) * 1.0
    y = kept(lambda t: t.exp() * t, h)
    with torch.no_grad():
        h.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_intermediates_are_freed_after_forward_and_after_backward(no_collector: None) -> None:
    arrays: list[weakref.ref[Any]] = []

    def function(x: Any) -> Any:
        y = x.sin()
        arrays.append(weakref.ref(y.detach().numpy()))
        return y.exp().sin()

    x = leaf(0.5)
    y = kept(function, x)
    assert [array() for array in arrays] == [None]
    y.backward(retain_graph=True)
    assert [array() for array in arrays] == [None, None]
    y.backward()
    assert [array() for array in arrays] == [None, None, None]


def test_unread_values_of_a_pruned_pass_are_freed_with_the_pass(no_collector: None) -> None:
    arrays: list[weakref.ref[Any]] = []
    x, w = leaf(0.5), leaf(2.0)

    def function(x: Any) -> Any:
        y = x.sin().cos()
        arrays.append(weakref.ref(y.detach().numpy()))
        return (y * w).sin()

    y = kept(function, x)
    for _ in range(3):
        torch.autograd.grad(y, w, retain_graph=True)
    assert [array() for array in arrays] == [None] * 4


def test_checkpoints_lower_the_peak() -> None:
    size, layers, every = 1 << 15, 49, 7

    def part(x: Any, count: int) -> Any:
        for _ in range(count):
            x = (x * 1.01).sin()
        return x

    def peak(run: Callable[[Any], Any]) -> tuple[int, list[float]]:
        x = torch.tensor(np.linspace(0.0, 1.0, size), requires_grad=True)
        tracemalloc.start()
        try:
            run(x).sum().backward()
            return tracemalloc.get_traced_memory()[1], x.grad[:5].tolist()
        finally:
            tracemalloc.stop()

    def checkpointed(x: Any) -> Any:
        for _ in range(layers // every):
            x = kept(part, x, every)
        return x

    plain, gradient = peak(lambda x: part(x, layers))
    less, same = peak(checkpointed)
    assert same == gradient
    assert plain > layers * size * 8
    assert less < 0.4 * plain


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize(
    "use", ["nothing", "backward", "retain", "create_graph", "attribute", "error"]
)
def test_regions_are_freed_by_reference_counting(
    no_collector: None, use: str, early_stop: bool
) -> None:
    class Witness:
        """Held by the checkpointed function, so it lives as long as a region does."""

    def run() -> weakref.ref[Witness]:
        witness = Witness()
        counts = [0, 0, 0]
        inner = nested(3, counts)

        def function(x: Any) -> Any:
            if use == "error" and counts[2]:
                raise LookupError
            return (inner(x), witness)[0]

        x = leaf(0.5)
        y = kept(function, x, early_stop=early_stop)
        if use in ("backward", "retain"):
            y.backward(retain_graph=use == "retain")
        elif use == "create_graph":
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            g.sum().backward()
            x.grad = None
        elif use == "attribute":
            assert y.grad_fn._saved_self is not None
        elif use == "error":
            with pytest.raises(LookupError):
                y.backward()
        return weakref.ref(witness)

    assert run()() is None


def test_deep_chain_of_checkpoints() -> None:
    x = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
    y = x
    for _ in range(300):
        y = kept(lambda t: (t.sin() * 1.01).sin(), y)
    y.backward()
    value, gradient = 0.5, 1.0
    for _ in range(300):
        inner = np.sin(value) * 1.01
        gradient *= np.cos(inner) * 1.01 * np.cos(value)
        value = np.sin(inner)
    np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-10)


def test_threads_share_a_region() -> None:
    x = leaf(*np.linspace(0.1, 1.0, 100).tolist())
    y = kept(nested(3, [0, 0, 0]), x).sum()
    expected = torch.autograd.grad(y, x, retain_graph=True)[0].tolist()
    found: list[Any] = []

    def passes() -> None:
        for _ in range(5):
            found.append(torch.autograd.grad(y, x, retain_graph=True)[0].tolist())

    threads = [threading.Thread(target=passes) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 20


def test_debug_can_be_switched_on_around_calls() -> None:
    function = Counted(lambda x: x.sin() if function.began == 1 else x + 1.0)
    with set_checkpoint_debug_enabled(True):
        y = kept(function, leaf(0.5))
    with pytest.raises(
        CheckpointError,
        match=r"aten.sin.default\(\$0\)   \(1 of 1 in original\)\n\n.*test_checkpoint.py:\d+:",
    ):
        y.backward()


def test_long_chains_of_checkpoints_are_freed_by_reference_counting(no_collector: None) -> None:
    x = leaf(0.5)
    for finish in ("drop", "backward"):
        y = first = kept(lambda t: t.sin(), x)
        node = weakref.ref(first.grad_fn)
        for _ in range(5_000):
            y = kept(lambda t: t.sin(), y)
        if finish == "backward":
            y.backward()
        del y, first
        assert node() is None


def test_debug_excludes_contexts() -> None:
    with pytest.raises(ValueError, match="incompatible with non-default context_fn"):
        kept(
            lambda x: x,
            leaf(1.0),
            debug=True,
            context_fn=lambda: (torch.no_grad(), torch.no_grad()),
        )


# -- the reentrant variant -------------------------------------------------------------------------


def test_reentrant_checkpoint_gives_the_same_gradient() -> None:
    x, w = leaf(0.5), leaf(2.0)
    function = Counted(lambda x: (x * w).sin().exp())
    y = checkpoint(function, x, use_reentrant=True)
    assert y.grad_fn.name() == "CheckpointFunctionBackward"
    y.backward()
    assert (function.began, function.ended) == (2, 2)
    slope = np.exp(np.sin(1.0)) * np.cos(1.0)
    np.testing.assert_allclose([x.grad.item(), w.grad.item()], [2 * slope, 0.5 * slope], rtol=1e-6)


def test_reentrant_checkpoint_refuses_pruned_passes() -> None:
    x = leaf(0.5)
    y = checkpoint(lambda x: x.sin(), x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"is incompatible with \.grad"):
        torch.autograd.grad(y, x)


def test_variant_should_be_named() -> None:
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        y = checkpoint(lambda x: x.sin(), leaf(0.5))
    assert y.grad_fn.name() == "CheckpointFunctionBackward"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept(lambda x: x.sin(), leaf(0.5))


def test_reentrant_checkpoint_warns_when_no_input_requires_grad() -> None:
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        assert (
            checkpoint(lambda x: x.sin(), torch.tensor([0.5]), use_reentrant=True).grad_fn is None
        )


# -- among traced values ---------------------------------------------------------------------------


def scaled_sine(x: Any) -> Any:
    return kept(lambda given: torch.sum(torch.sin(torch.exp(given["x"]))), {"x": x})


def test_checkpoint_under_functional_transforms() -> None:
    x = np.array([[0.1, 0.2], [0.3, 0.4]])
    e = np.exp(x)
    first, second = np.cos(e) * e, np.cos(e) * e - np.sin(e) * e * e
    np.testing.assert_allclose(ft.grad(scaled_sine)(x), first, rtol=1e-12)
    np.testing.assert_allclose(ft.vmap(ft.grad(scaled_sine))(x), first, rtol=1e-12)
    np.testing.assert_allclose(ft.jit(ft.vmap(ft.grad(scaled_sine)))(x), first, rtol=1e-12)
    np.testing.assert_allclose(ft.hessian(scaled_sine)(x[0]), np.diag(second[0]), rtol=1e-12)


def test_checkpoint_among_traced_values_keeps_its_inputs_only() -> None:
    x = np.linspace(0.0, 1.0, 1000)
    plain = ft.saved_residuals(lambda x: torch.sum(torch.sin(torch.exp(x)) * x))(x)
    less = ft.saved_residuals(lambda x: kept(lambda x: torch.sum(torch.sin(torch.exp(x)) * x), x))(
        x
    )
    assert less.nbytes == x.nbytes < plain.nbytes
