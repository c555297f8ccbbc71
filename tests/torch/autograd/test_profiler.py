"""``torch.profiler`` and ``torch.autograd.profiler``: events of operations, backward nodes and
ranges. The table is compared with PyTorch's in tests/peers/torch/test_profiler.py.
"""

from __future__ import annotations

import gc
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import functrace.torch as torch
from functrace.torch import jit
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.profiler import _profiler_enabled, profile, record_function
from functrace.torch.nn import functional as F
from functrace.torch.profiler import (
    ProfilerActivity,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from functrace.torch.profiler import profile as profile_steps
from functrace.torch.utils._python_dispatch import TorchDispatchMode

pytestmark = pytest.mark.filterwarnings("error")


def _names(prof: Any) -> list[str]:
    return [event.name for event in prof.function_events]


def test_operations_and_ranges_are_nested_events() -> None:
    with profile() as prof:
        with record_function("outer"):
            y = torch.ones(3) * 2
            with record_function("inner"):
                y.sub_(1)
        y.sum().item()
    tree = {
        event.name: event.cpu_parent and event.cpu_parent.name for event in prof.function_events
    }
    assert tree["aten::mul"] == "outer" and tree["inner"] == "outer"
    assert tree["aten::sub_"] == "inner" and tree["aten::sum"] is None
    outer = next(event for event in prof.function_events if event.name == "outer")
    assert outer.cpu_time_total >= sum(child.cpu_time_total for child in outer.cpu_children) > 0


def test_times_are_real() -> None:
    def slow(x: Any) -> Any:
        time.sleep(0.02)
        return x

    x = torch.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(slow)
    with profile() as prof:
        with record_function("sleep"):
            time.sleep(0.03)
        y.sum().backward()
    times = {event.name: event.cpu_time_total for event in prof.function_events}
    assert 30_000 <= times["sleep"] < 300_000
    assert times["autograd::engine::evaluate_function: MulBackward0"] >= 20_000
    assert times["MulBackward0"] < 20_000  # hooks are outside of the node's own time


def test_results_and_gradients_are_those_without_a_profile() -> None:
    def run() -> list[Any]:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(torch.randn(5, 4)), torch.arange(5) % 3)
            loss.backward()
            optimizer.step()
        return [loss, *net.parameters()]

    plain = run()
    with profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        profiled = run()
    for x, y in zip(plain, profiled, strict=True):
        assert (x == y).all()
    names = _names(prof)
    assert names.count("Optimizer.step#Adam.step") == 3
    assert names.count("aten::linear") == 6
    assert names.count("autograd::engine::evaluate_function: NllLossBackward0") == 3


def test_a_backward_node_has_the_number_of_its_operation() -> None:
    with profile() as prof:
        x = torch.randn(3, requires_grad=True)
        (x.exp() * 2).sum().backward()
    for operation, node in ("aten::exp", "ExpBackward0"), ("aten::mul", "MulBackward0"):
        made, *ran = [e for e in prof.function_events if e.name == operation or node in e.name]
        assert made.sequence_nr >= 0 and made.fwd_thread == 0 and len(ran) == 2
        assert {(e.sequence_nr, e.fwd_thread) for e in ran} == {(made.sequence_nr, made.thread)}


def test_shapes_stacks_memory_and_flops() -> None:
    with profile(record_shapes=True, with_flops=True, profile_memory=True, with_stack=True) as prof:
        x = torch.ones(2, 3)
        y = x @ torch.ones(3, 4)
        del y
        F.linear(x, x)
    mm = next(event for event in prof.function_events if event.name == "aten::mm")
    assert mm.input_shapes == [[2, 3], [3, 4]] and mm.flops == 48 and mm.cpu_memory_usage == 32
    assert __file__ in mm.stack[0]
    freed = [e.cpu_memory_usage for e in prof.function_events if e.name == "[memory]"]
    assert freed.count(-32) == 1
    linear = next(event for event in prof.function_events if event.name == "aten::linear")
    assert linear.input_shapes == [[2, 3], [2, 3], []] and linear.cpu_memory_usage == 16


def test_functions_are_restored() -> None:
    before = F.linear, torch.einsum, torch.fft.fft
    with profile():
        assert F.linear is not before[0] and F.linear == before[0]
        with pytest.raises(RuntimeError, match="Profiler is already enabled"), profile():
            pass
        assert _profiler_enabled()
    assert (F.linear, torch.einsum, torch.fft.fft) == before
    assert F.linear is before[0] and not _profiler_enabled()
    assert MODES.dispatch is None and MODES.step is None


def test_a_profile_ends_after_an_error() -> None:
    with pytest.raises(RuntimeError), profile() as prof:
        _ = torch.ones(2) @ torch.ones(3)
    assert MODES.dispatch is None
    assert "aten::ones" in _names(prof)


def test_only_this_thread_is_recorded() -> None:
    with profile() as prof:
        thread = threading.Thread(target=lambda: torch.ones(2).exp())
        thread.start()
        thread.join()
        torch.ones(2).sin()
    assert "aten::exp" not in _names(prof) and "aten::sin" in _names(prof)


def test_deep_backward_passes_in_other_threads_are_recorded() -> None:
    class Nested(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, depth: int) -> Any:
            ctx.depth = depth
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            if ctx.depth:
                with torch.enable_grad():
                    x = torch.ones(1, requires_grad=True)
                    Nested.apply(x, ctx.depth - 1).sum().backward()
            return gradient, None

    with profile() as prof:
        Nested.apply(torch.ones(1, requires_grad=True), 45).sum().backward()
    assert _names(prof).count("NestedBackward") == 46
    assert len({event.thread for event in prof.function_events}) == 3


def test_dispatch_modes_work_inside_and_outside() -> None:
    class Doubling(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            out = func(*args, **(kwargs or {}))
            return out * 2 if func is torch.ops.aten.exp.default else out

    x = torch.zeros(2)
    with profile() as prof:
        with Doubling():
            assert x.exp().tolist() == [2.0, 2.0]
        assert x.exp().tolist() == [1.0, 1.0]
    assert _names(prof).count("aten::exp") == 2
    with Doubling():
        with profile() as prof:
            assert x.exp().tolist() == [2.0, 2.0]
        assert x.exp().tolist() == [2.0, 2.0]
    assert x.exp().tolist() == [1.0, 1.0] and _names(prof).count("aten::exp") == 1


def test_transforms_and_checkpoints_run_inside() -> None:
    with profile() as prof:
        slope = torch.func.grad(lambda x: (x.sin() * x).sum())(torch.ones(3))
        mapped = torch.vmap(lambda x: x.cos())(torch.ones(2, 3))
        x = torch.ones(3, requires_grad=True)
        torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False).sum().backward()
        (g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        g.sum().backward()
    assert slope.tolist() == pytest.approx([1.3817732906760363] * 3)
    assert mapped.shape == (2, 3)
    assert _names(prof).count("aten::exp") == 2  # recomputed


def test_schedule_and_trace(tmp_path: Path) -> None:
    cycles = []
    with profile_steps(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda prof: cycles.append(
            (prof.step_num, [e.trace_name for e in prof.events() if e.is_user_annotation])
        ),
    ) as prof:
        for _ in range(9):
            _ = torch.ones(2) * 2
            prof.step()
    assert cycles == [
        (4, ["ProfilerStep#2", "ProfilerStep#3"]),
        (8, ["ProfilerStep#6", "ProfilerStep#7"]),
    ]
    assert [e.key for e in prof.key_averages()] == ["ProfilerStep*", "aten::ones", "aten::mul"]
    with profile_steps(
        on_trace_ready=tensorboard_trace_handler(str(tmp_path), "w"), record_shapes=True
    ) as prof:
        _ = torch.ones(2) * 2
        prof.add_metadata_json("batch", "[1]")
    (path,) = tmp_path.iterdir()
    trace = json.loads(path.read_text())
    (mul,) = [row for row in trace["traceEvents"] if row["name"] == "aten::mul"]
    assert mul["ph"] == "X" and mul["dur"] > 0 and mul["args"]["Input Dims"] == [[2], []]
    assert trace["batch"] == [1]
    prof.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    assert (tmp_path / "trace.json.gz").read_bytes()[:2] == b"\x1f\x8b"


def test_what_is_not_there_warns_or_is_refused() -> None:
    assert supported_activities() == {ProfilerActivity.CPU}
    with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
        profile_steps(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profile_steps(activities=[])
    with pytest.raises(AssertionError, match="Profiler must be initialized before"):
        profile_steps().events()
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(wait=-1, warmup=1, active=1)
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        profile().export_stacks("x")
    with torch.autograd.profiler.emit_nvtx(), torch.autograd.profiler.emit_itt():
        pass


def test_ranges_may_end_in_any_order() -> None:
    with profile() as prof:
        first, second = record_function("first"), record_function("second")
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        _ = torch.ones(1) * 1
        second.__exit__(None, None, None)
        future = jit._fork(lambda: torch.ones(1).exp())
        with record_function("waiting") as third:
            done = third._call_end_callbacks_on_future(future)
        jit._wait(done)
    assert [n for n in _names(prof) if "::" not in n] == ["first", "second", "waiting"]


def test_decorated_functions() -> None:
    @record_function("twice")
    def twice(x: Any) -> Any:
        return x * 2

    with profile() as prof:
        twice(twice(torch.ones(2)))
    assert _names(prof).count("twice") == 2
    assert twice(3) == 6


def test_sum_with_an_explicit_none_is_another_operation() -> None:
    x = torch.ones(2, 3, requires_grad=True)
    assert [y.grad_fn.name() for y in (x.sum(), x.sum(dim=None), x.mean(), x.mean(None))] == [
        "SumBackward0", "SumBackward1", "MeanBackward0", "MeanBackward1",
    ]  # fmt: skip


def _enter_only() -> Any:
    return profile().__enter__()


def _ended_in_a_thread() -> Any:
    prof = _enter_only()
    thread = threading.Thread(target=prof.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    _ = torch.ones(1).cos()  # in no profile
    return prof


def _ended_twice() -> Any:
    prof = _enter_only()
    for _ in range(2):
        prof.__exit__(None, None, None)
    return prof


def _abandoned() -> None:
    del (found := [_enter_only()])[:]
    assert not found
    gc.collect()


def _started_twice() -> None:
    prof = profile_steps()
    prof.start()
    with pytest.raises(RuntimeError, match="already enabled"):
        prof.start()
    for _ in range(2):
        prof.stop()


def _fails_at_its_end() -> None:
    def fail(_prof: object) -> None:
        raise KeyError

    with pytest.raises(KeyError), profile_steps(on_trace_ready=fail):
        pass


def _inside_of_another() -> None:
    with profile(), pytest.raises(RuntimeError, match="already enabled"), profile():
        pass


def _generator_closed() -> None:
    def steps() -> Any:
        with profile(), record_function("step"):
            yield

    found = steps()
    next(found)
    found.close()


def _ends_before_a_mode() -> None:
    class Mode(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    prof, mode = _enter_only(), Mode()
    mode.__enter__()
    prof.__exit__(None, None, None)
    mode.__exit__(None, None, None)


@pytest.mark.parametrize(
    "use",
    [
        _ended_in_a_thread, _ended_twice, _abandoned, _started_twice, _fails_at_its_end,
        _inside_of_another, _generator_closed, _ends_before_a_mode,
    ],
)  # fmt: skip
def test_no_state_is_left_behind(use: Any) -> None:
    plain = torch.cos
    found = use()
    assert found is None or "aten::cos" not in _names(found)
    with profile() as prof:
        _ = torch.ones(1).exp()
    assert "aten::exp" in _names(prof)
    assert torch.cos is plain
    assert MODES.dispatch is None
    with pytest.raises(RuntimeError, match="was not started"):
        profile().__exit__(None, None, None)
