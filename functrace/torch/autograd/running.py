"""The running backward pass: its identity, its nodes and their order, and callbacks at its end.

Hooks and the backward of a Function use these functions while a pass runs. They are PyTorch's
private functions, ``torch._C._current_graph_task_id()`` and related ones.

Layer: 9.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES

if TYPE_CHECKING:
    from functrace.torch.autograd.engine import BackwardPass
    from functrace.torch.autograd.graph import GraphNode


@final
class EngineState(threading.local):
    """State of the thread: number of nested passes, and the innermost one."""

    depth = 0
    task: BackwardPass | None = None


RUNNING = EngineState()


def current_graph_task_id() -> int:
    """Return the number of the running pass, or -1."""
    return -1 if RUNNING.task is None else RUNNING.task.id


def current_node() -> GraphNode | None:
    """Return the running node, if any."""
    return None if RUNNING.task is None else RUNNING.task.node


def keeps_graph() -> bool:
    """Return True if the running pass keeps saved tensors; True outside of passes."""
    return RUNNING.task is None or RUNNING.task.retain


def will_execute(node: GraphNode) -> bool:
    """Return True if the running pass will run a node.

    Raises:
        RuntimeError: outside of passes, for an object that is no node, and for a leaf whose
            gradient ``autograd.grad`` returns.
    """
    task = RUNNING.task
    if not hasattr(node, "next_functions"):
        raise RuntimeError(errors.not_a_node(type(node).__name__))
    if task is None:
        raise RuntimeError(errors.outside_of_passes("_get_should_execute_nodes"))
    roots = [root for root, _ in task.roots]
    if node in roots and len(roots) == 1:
        return False  # as in PyTorch for a root without edges
    if task.needed is None:
        return node in task.waiting or node in roots
    wanted = task.wanted or {}
    if node in wanted and not task.accumulates and not node.next_functions:
        raise RuntimeError(errors.LEAF_OF_GRAD)
    return node in task.needed or node in wanted


def execution_order() -> list[GraphNode]:
    """Return the nodes of the running pass in execution order.

    Raises:
        RuntimeError: outside of passes, and unless multithreading is disabled.
    """
    task = RUNNING.task
    if task is None:
        raise RuntimeError(errors.outside_of_passes("_current_graph_task_execution_order"))
    if MODES.multithreading:
        raise RuntimeError(errors.ORDER_WITH_THREADS)
    waiting = task.count()
    reached = None if task.needed is None else task.needed.union(task.wanted or ())
    ties = itertools.count()
    ready = [
        (-node._sequence, next(ties), node)
        for node in dict.fromkeys(node for node, _ in task.roots)
    ]
    ready = [entry for entry in ready if not waiting.get(entry[2])]
    heapq.heapify(ready)
    order: list[GraphNode] = []
    while ready:
        node = heapq.heappop(ready)[2]
        order.append(node)
        for target, _ in node._edges:
            if target is None or (reached is not None and target not in reached):
                continue
            waiting[target] -= 1
            if not waiting[target]:
                heapq.heappush(ready, (-target._sequence, next(ties), target))
    return order


def queue_callback(callback: Callable[[], object]) -> None:
    """Call a function, without arguments, at the end of the running pass; it may queue more.

    Raises:
        RuntimeError: if no pass runs.
    """
    if RUNNING.task is None:
        raise RuntimeError(errors.CALLBACK_OUTSIDE)
    RUNNING.task.callbacks.append(callback)


def reaches_all_leaves() -> bool:
    """Return True if a pass nested in the running node would reach all leaves: no ``inputs``
    restrict it.
    """
    task = RUNNING.task
    return task is None or task.needed is None or task.node not in task.needed


def graph_exec_group() -> object:
    """Return the group of this thread's backward passes; see utils/recomputation.py."""
    return MODES.graph_exec_group


def set_graph_exec_group(group: object) -> None:
    """Set the group of this thread's backward passes, or None."""
    MODES.graph_exec_group = group


def is_checkpoint_valid() -> bool:
    """Return True if a pass nested in this one may accumulate gradients of leaves, because this
    one does for all.
    """
    return RUNNING.task is None or RUNNING.task.wanted is None
