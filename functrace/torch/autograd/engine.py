"""The engine: runs the nodes of a graph by PyTorch's order, and delivers gradients.

Nodes run by decreasing sequence number as soon as all their gradients have arrived, accumulators of leaves at once. Nothing
here is recursive, so chains of any length run. A backward pass started by a node of another one runs on its own; every
`LEVELS` such levels it continues in a fresh thread, which has a stack of its own.

Floor: 8.
"""

from __future__ import annotations

import contextvars
import heapq
import itertools
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from functrace.torch import sentences
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.graph import AccumulateGrad, GradientEdge, GraphNode, edge
from functrace.torch.size import Size
from functrace.torch.tensor import Tensor, wrap

LEVELS = 20
"""After how many nested backward passes a fresh thread takes over."""

_tasks = itertools.count()


@final
class Running(threading.local):
    """What runs in this thread: the number of nested passes, and the innermost one."""

    depth = 0
    task: Task | None = None


RUNNING = Running()


@final
class Task:
    """One backward pass.

    Args:
        roots: edges at which the pass begins.
        retain: whether saved tensors are kept.
        create: whether the pass is itself recorded.
        wanted: edges whose gradient is asked for; ``None`` means that all leaves accumulate.
        accumulates: whether wanted leaves accumulate (``backward(inputs=)``) or gradients are returned.
    """

    __slots__ = ("__weakref__", "accumulates", "captured", "create", "id", "needed", "retain", "roots", "wanted")

    def __init__(
        self,
        roots: Sequence[tuple[GraphNode, int]],
        retain: bool,
        create: bool,
        wanted: Sequence[tuple[GraphNode | None, int]] | None,
        accumulates: bool,
    ) -> None:
        self.id = next(_tasks)
        self.roots = roots
        self.retain = retain
        self.create = create
        self.accumulates = accumulates
        self.wanted: dict[GraphNode, list[int]] | None = None
        self.captured: dict[tuple[int, int], Tensor | None] = {}
        self.needed: set[GraphNode] | None = None
        if wanted is not None:
            self.wanted = {}
            for node, nr in wanted:
                if node is not None:
                    self.wanted.setdefault(node, []).append(nr)

    def run(self, grads: Sequence[Tensor | None]) -> None:
        """Run the pass from gradients of the roots."""
        waiting = self._count()
        needed = self.needed
        reached = None if needed is None else needed.union(self.wanted or ())
        buffers: dict[GraphNode, list[Tensor | None]] = {}
        ready: list[tuple[int, int, GraphNode]] = []
        for (node, nr), gradient in zip(self.roots, grads, strict=True):
            deposit(buffers, node, nr, gradient)
        ties = itertools.count()
        for node in dict.fromkeys(node for node, _ in self.roots):
            if not waiting.get(node):
                heapq.heappush(ready, (-node._sequence, next(ties), node))
        retain = self.retain
        push, pop = heapq.heappush, heapq.heappop
        while ready:
            node = pop(ready)[2]
            given = buffers.pop(node)
            if needed is None and node._bare:
                results = node.run(given)
            else:
                given = self.arrive(node, given)
                if needed is not None and node not in needed:
                    continue
                results = call(node, given, reached)
            if not retain:
                node.release()
            del given
            for k, (target, nr) in enumerate(node._edges):
                if target is None or (reached is not None and target not in reached):
                    continue
                if target in buffers or nr:
                    deposit(buffers, target, nr, results[k])
                else:
                    buffers[target] = [results[k]]
                left = waiting[target] = waiting[target] - 1
                if not left:
                    push(ready, (-target._sequence, next(ties), target))
            del results

    def _count(self) -> dict[GraphNode, int]:
        """Count, for every node, the gradients that will arrive; with ``inputs``, see which nodes lead there."""
        waiting: dict[GraphNode, int] = {}
        stack = list(dict.fromkeys(node for node, _ in self.roots))
        seen = set(stack)
        order: list[GraphNode] = []
        senders: dict[GraphNode, list[GraphNode]] = {}
        wanted = self.wanted
        while stack:
            node = stack.pop()
            order.append(node)
            for target, _ in node._edges:
                if target is None:
                    continue
                if wanted is not None:
                    senders.setdefault(target, []).append(node)
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        if wanted is not None:
            needed = self.needed = {node for node in wanted if self.accumulates}
            # Sequence numbers do not tell: the node of a view may be made again when what reads the view has its number.
            stack = list(wanted)
            while stack:
                for node in senders.pop(stack.pop(), ()):
                    needed.add(node)
                    stack.append(node)
            order = [node for node in order if node in needed]
        for node in order:
            for target, _ in node._edges:
                if target is not None and (wanted is None or target in self.needed or target in wanted):  # type: ignore[operator]
                    waiting[target] = waiting.get(target, 0) + 1
        return waiting

    def arrive(self, node: GraphNode, given: list[Tensor | None]) -> list[Tensor | None]:
        """Complete a node's gradients, run the hooks of its tensors, and note what was asked for."""
        hooks = node.variable._hooks and {0: node.variable._hooks} if type(node) is AccumulateGrad else node._tensor_hooks
        retained = node._retained
        wanted = self.wanted
        if not hooks and not retained and len(given) == 1 and (wanted is None or node not in wanted):
            return given
        count = len(node.output_avals())
        if len(given) < count:
            given = given + [None] * (count - len(given))
        if hooks:
            for nr, registered in hooks.items():
                for hook in list(registered.values()):
                    gradient = given[nr]
                    if gradient is not None:
                        given[nr] = hook_result(hook, gradient)
        if retained:
            for nr, reference in retained.items():
                tensor, gradient = reference(), given[nr]
                if tensor is not None and gradient is not None:
                    keep(tensor, gradient)
        if wanted is not None and node in wanted and not self.accumulates:
            for nr in wanted[node]:
                self.captured[id(node), nr] = given[nr]
        return given


def deposit(buffers: dict[GraphNode, list[Tensor | None]], node: GraphNode, nr: int, gradient: Tensor | None) -> None:
    """Add a gradient to what has arrived at a node."""
    buffer = buffers.get(node)
    if buffer is None:
        buffer = buffers[node] = [None] * (nr + 1)
    elif len(buffer) <= nr:
        buffer.extend([None] * (nr + 1 - len(buffer)))
    before = buffer[nr]
    if before is None:
        buffer[nr] = gradient
    elif gradient is not None:
        buffer[nr] = before + gradient  # type: ignore[operator]


def call(node: GraphNode, given: list[Tensor | None], needed: set[GraphNode] | None) -> Sequence[Tensor | None]:
    """Run one node with its hooks; gradients that lead nowhere that is needed are dropped, unless a user computed them."""
    if node._prehooks:
        for hook in list(node._prehooks.values()):
            given = list(replaced_all(hook, given, hook(tuple(given))))
    results = node.run(given)
    if needed is not None and node.drops_unneeded:
        results = [r if e[0] in needed else None for r, e in zip(results, node._edges, strict=True)]
    if type(node) is AccumulateGrad:
        post = node.variable._post_hooks
        if post:
            for hook in list(post.values()):
                hook(node.variable)
    if node._posthooks:
        for hook in list(node._posthooks.values()):
            results = replaced_all(hook, results, hook(tuple(results), tuple(given)))
    return results


def hook_result(hook: Callable[..., Any], gradient: Tensor) -> Tensor:
    """Call a tensor's hook; returns the gradient that it leaves."""
    replaced = hook(gradient)
    if replaced is None:
        return gradient
    if not isinstance(replaced, Tensor):
        raise TypeError(sentences.hook_type(type(replaced).__name__))
    check_replaced(hook, gradient, replaced)
    return replaced


def check_replaced(hook: Callable[..., Any], before: Tensor | None, after: Tensor | None) -> None:
    """Refuse what a hook returned if it has another shape or dtype than what it was given."""
    if before is None or after is None:
        return
    name = getattr(hook, "__name__", type(hook).__name__)
    if after._array.shape != before._array.shape:
        raise RuntimeError(sentences.hook_size(name))
    if after._array.dtype != before._array.dtype:
        raise RuntimeError(sentences.hook_dtype(name, before.dtype.printed, after.dtype.printed))


def replaced_all(hook: Callable[..., Any], before: Sequence[Tensor | None], after: Any) -> Sequence[Tensor | None]:
    """Return the gradients that a node's hook leaves."""
    if after is None:
        return before
    given = after if isinstance(after, tuple) else (after,)
    if len(given) != len(before):
        name = getattr(hook, "__name__", type(hook).__name__)
        raise RuntimeError(sentences.hook_count(name, len(given), len(before)))
    for a, b in zip(before, given, strict=True):
        check_replaced(hook, a, b)
    return given


def keep(tensor: Tensor, gradient: Tensor) -> None:
    """Keep the gradient of a tensor that was asked to retain it."""
    if tensor._grad is None:
        tensor._grad = gradient if MODES.recording else wrap(gradient._array.copy())
    else:
        tensor._grad = tensor._grad + gradient  # type: ignore[operator]


def execute(task: Task, grads: Sequence[Tensor | None]) -> None:
    """Run a task with grad mode as it asks; deep nesting continues in a fresh thread."""
    depth = RUNNING.depth + 1
    if depth % LEVELS == 0:
        continue_in_thread(task, grads, depth)
        return
    run_here(task, grads, depth)


def run_here(task: Task, grads: Sequence[Tensor | None], depth: int) -> None:
    """Run a task in this thread."""
    before, mode = (RUNNING.depth, RUNNING.task), MODES.recording
    RUNNING.depth, RUNNING.task, MODES.recording = depth, task, task.create
    try:
        with np.errstate(all="ignore"):
            task.run(grads)
    finally:
        (RUNNING.depth, RUNNING.task), MODES.recording = before, mode


def continue_in_thread(task: Task, grads: Sequence[Tensor | None], depth: int) -> None:
    """Run a task in a thread of its own, which inherits this one's modes and context; what it raises is raised here."""
    failure: list[BaseException] = []
    inherited = dict(vars(MODES))
    context = contextvars.copy_context()

    def body() -> None:
        vars(MODES).update(inherited)
        try:
            context.run(run_here, task, grads, depth)
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=body, name="functrace backward")
    thread.start()
    thread.join()
    if failure:
        raise failure.pop()  # popped, or this frame and the error's traceback would hold each other


# -- the public functions --------------------------------------------------------------------------------------


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Compute gradients of tensors and add them to the ``.grad`` of leaves.

    Args:
        tensors: what to differentiate: tensors, or gradient edges.
        grad_tensors: a gradient for each; may be left out for scalars.
        retain_graph: keep what was saved, to run again; by default, if ``create_graph``.
        create_graph: record the pass itself, for derivatives of derivatives.
        inputs: leaves (or other tensors) whose gradient is wanted; all leaves by default.
    """
    roots, grads = make_roots(tensors, grad_tensors)
    if create_graph:
        warnings.warn(sentences.CREATE_GRAPH_CYCLE, UserWarning, stacklevel=2)
    wanted = None
    if inputs is not None:
        given = as_list(inputs)
        if not given:
            raise RuntimeError(sentences.EMPTY_INPUTS)
        wanted = [edge_of_input(x) for x in given]
    execute(Task(roots, create_graph if retain_graph is None else retain_graph, create_graph, wanted, True), grads)


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Return gradients of outputs by inputs, and leave every ``.grad`` alone.

    Args:
        outputs: what to differentiate.
        inputs: by what, in the order of the results.
        grad_outputs: a gradient for each output; may be left out for scalars.
        retain_graph: keep what was saved, to run again; by default, if ``create_graph``.
        create_graph: record the pass itself, for derivatives of derivatives.
        allow_unused: return ``None`` for inputs that the outputs do not depend on, instead of raising.
        materialize_grads: return zeros for them.
    """
    if materialize_grads:
        if allow_unused is False:
            raise ValueError(sentences.MATERIALIZE_WITHOUT_ALLOW)
        allow_unused = True
    given = as_list(inputs)
    roots, grads = make_roots(outputs, grad_outputs)
    wanted = [edge_of_input(x) for x in given]
    task = Task(roots, create_graph if retain_graph is None else retain_graph, create_graph, wanted, False)
    execute(task, grads)
    results = []
    for k, (x, (node, nr)) in enumerate(zip(given, wanted, strict=True)):
        found = task.captured.get((id(node), nr))
        if found is None and not allow_unused:
            raise RuntimeError(sentences.unused_input(k))
        if found is None and materialize_grads:
            found = wrap(np.zeros(x._array.shape, x._array.dtype))
        results.append(found)
    return tuple(results)


def as_list(given: Any) -> list[Any]:
    """Return one tensor or edge, or several, as a list."""
    return list(given) if isinstance(given, (list, tuple)) and not isinstance(given, GradientEdge) else [given]


def edge_of_input(x: Any) -> tuple[GraphNode | None, int]:
    """Return the edge at which the gradient of an input arrives."""
    if isinstance(x, GradientEdge):
        return x.node, x.output_nr
    found = edge(x)
    if found[0] is None:
        raise RuntimeError(sentences.INPUT_WITHOUT_GRAD)
    return found


def make_roots(tensors: Any, gradients: Any) -> tuple[list[tuple[GraphNode, int]], list[Tensor | None]]:
    """Check the roots of a pass and complete their gradients."""
    given = as_list(tensors)
    seeds: list[Any]
    if gradients is None:
        seeds = [None] * len(given)
    elif isinstance(gradients, Tensor):
        seeds = [gradients]
    else:
        seeds = list(gradients)
    if len(seeds) != len(given):
        raise RuntimeError(f"got {len(given)} tensors and {len(seeds)} gradients")
    roots: list[tuple[GraphNode, int]] = []
    grads: list[Tensor | None] = []
    for k, (x, seed) in enumerate(zip(given, seeds, strict=True)):
        if isinstance(x, GradientEdge):
            aval = x.node.output_avals()[x.output_nr]
            shape, dtype = aval.shape, aval.dtype
            found: tuple[GraphNode | None, int] = (x.node, x.output_nr)
        else:
            shape, dtype = x._array.shape, x._array.dtype
            found = edge(x)
        if seed is None:
            if found[0] is not None and int(np.prod(shape)) != 1:
                raise RuntimeError(sentences.NON_SCALAR_ROOT)
            seed = wrap(np.ones(shape, dtype))
        elif seed._array.shape != shape:
            raise RuntimeError(sentences.mismatched_root_gradient(seed.shape, k, Size(shape)))
        if found[0] is None:
            raise RuntimeError(sentences.root_without_grad(k))
        roots.append(found)  # type: ignore[arg-type]
        grads.append(seed)
    return roots, grads
