"""Lists of events print, and average, as PyTorch's do; names of the events of a program agree."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest

from tests.peers.torch.harness import VERSION

torch = pytest.importorskip("torch")
if torch.__version__.split("+")[0] != VERSION:
    pytest.skip(f"the behaviours are those of torch {VERSION}", allow_module_level=True)

SHIM = importlib.import_module("functrace.torch")
_LINEAR = [[128, 20], [30, 20], [30]]
_ADDMM = [[30], [128, 20], [20, 30], [], []]
_STACK = ["a.py(3): f", "b.py(10): g" * 10]
_EVENTS: list[tuple[str, float, float, dict[str, Any]]] = [
    ("aten::linear", 0, 100, {"input_shapes": _LINEAR, "stack": _STACK, "cpu_memory_usage": 100}),
    ("aten::t", 5, 20, {"input_shapes": [[30, 20]], "sequence_nr": 3}),
    ("aten::addmm", 30, 90.5, {"input_shapes": _ADDMM, "stack": _STACK[:1], "flops": 153600,
                               "cpu_memory_usage": 1 << 20}),
    ("aten::mul", 200, 1500200, {"input_shapes": [[128, 20], [128, 20]], "flops": 2560,
                                 "cpu_memory_usage": -5000}),
    ("aten::addmm", 1600000, 1600010.25, {"input_shapes": _ADDMM, "flops": 2000000000}),
    ("x" * 70, 1700000, 1700000.5, {"input_shapes": [[30]] * 40}),
    ("other_thread", 0, 3, {"thread": 2}),
    ("aten::detach", 1800000, 1800010, {}),
    ("aten::detach", 1800001, 1800009, {}),
    ("ProfilerStep#3", 2800001, 2800009, {"is_user_annotation": True}),
]  # fmt: skip


def _events(library: ModuleType, *, stacks: bool, **options: Any) -> Any:
    util = importlib.import_module(f"{library.__name__}.autograd.profiler_util")
    made = util.EventList(**options)
    for k, (name, start, end, given) in enumerate(_EVENTS):
        fields = {"thread": 1, "input_shapes": [], "flops": 0, "stack": [], **given}
        if not stacks:
            fields["stack"] = []
        made.append(util.FunctionEvent(id=k, name=name, start_us=start, end_us=end, **fields))
    made._build_tree()
    return made


_TABLES: list[dict[str, Any]] = [
    {}, {"sort_by": "cpu_time_total", "row_limit": 2, "header": "HEAD"},
    {"sort_by": "self_cpu_time_total", "top_level_events_only": True, "row_limit": -1},
    {"max_name_column_width": 20, "max_shapes_column_width": 25, "time_unit": "ms"},
    {"max_name_column_width": None, "max_shapes_column_width": None, "time_unit": "us"},
    {"max_src_column_width": 30, "time_unit": "s"},
]  # fmt: skip


@pytest.mark.parametrize("options", _TABLES, ids=str)
@pytest.mark.parametrize("stacks", [False, True])
@pytest.mark.parametrize("columns", [{}, {"profile_memory": True, "with_flops": True}], ids=str)
def test_tables_are_those_of_pytorch(
    options: dict[str, Any], stacks: bool, columns: dict[str, Any]
) -> None:
    there, here = (_events(library, stacks=stacks, **columns) for library in (torch, SHIM))
    assert here.table(**options) == there.table(**options)
    for grouped in (
        {}, {"group_by_input_shapes": True}, {"group_by_stack_n": 2},
        {"group_by_input_shapes": True, "group_by_stack_n": 1},
    ):  # fmt: skip
        mine, theirs = here.key_averages(**grouped), there.key_averages(**grouped)
        assert mine.table(**options) == theirs.table(**options)
        assert [repr(x) for x in mine] == [repr(x) for x in theirs]
    assert repr(here.total_average()) == repr(there.total_average())
    assert repr(list(here)) == repr(list(there))
    assert here.self_cpu_time_total == there.self_cpu_time_total


_PROGRAM = """
x = torch.ones(2, 3)
w = torch.ones(3, 4, requires_grad=True)
y = (torch.mm(x, w) + 1).exp()
z = torch.nn.functional.linear(y, y) * y.sum()
torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 4, 5))
torch.cat([x, x])
torch.nn.functional.conv2d(torch.ones(2, 4, 8, 8), torch.ones(6, 2, 3, 3), None, [2, 2], [1, 1], [1, 1], 2)
z.sum(dim=None).backward()
x.detach().mul_(2)
w.grad.sum().item()
"""


def test_events_of_operations_have_pytorchs_names_shapes_and_numbers() -> None:
    found = []
    for library in (torch, SHIM):
        options = {"record_shapes": True, "with_flops": True}
        with library.autograd.profiler.profile(**options) as prof:
            exec(_PROGRAM, {"torch": library})
        found.append([
            (e.name, e.input_shapes, e.flops, e.scope)
            for e in prof.function_events
            if e.cpu_parent is None
            and not e.name.startswith(("[", "autograd::engine", "aten::ones_like"))
            and e.input_shapes[:2] != [[2, 4], [2, 4]]  # the engine adds outside of its nodes here
        ])  # fmt: skip
    theirs, ours = found
    inner = {"aten::item": "aten::_local_scalar_dense"}  # a method that is one operation here
    theirs = [(inner.get(name, name), *rest) for name, *rest in theirs]
    assert ours == [tuple(row) for row in theirs]


def test_schedules_are_those_of_pytorch() -> None:
    cases = [
        {"wait": 1, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 1},
        {"wait": 1, "warmup": 1, "active": 2, "skip_first_wait": 1},
        {"wait": 0, "warmup": 1, "active": 1},
    ]
    for case in cases:
        there, here = (library.profiler.schedule(**case) for library in (torch, SHIM))
        assert [here(k).name for k in range(20)] == [there(k).name for k in range(20)]
