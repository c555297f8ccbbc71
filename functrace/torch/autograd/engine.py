"""The engine: runs the nodes of a graph in PyTorch's order, and delivers gradients.

Nodes run by decreasing sequence number as soon as all their gradients have arrived, accumulators
of leaves immediately. Nothing here is recursive, so chains of any length run. A backward pass that
a node of another pass starts runs separately; every `LEVELS` nested passes, it continues in a
fresh thread, which has its own stack.

Layer: 9.
"""

from __future__ import annotations

import contextvars
import heapq
import itertools
import math
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, final

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ops.blas import one_thread
from functrace.torch import errors
from functrace.torch.autograd.accumulation import ALONE, added, retain
from functrace.torch.autograd.anomaly_mode import ANOMALY, refuse_nan, report
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.graph import (
    AccumulateGrad,
    GradientEdge,
    GraphNode,
    check_replaced,
    edge,
    fitted,
    replaced_all,
)
from functrace.torch.autograd.running import RUNNING
from functrace.torch.errors.warnings import warn, warn_once
from functrace.torch.func.mapping import vmap
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.size import Size
from functrace.torch.tensors.storageless import KINDS, StoragelessArray
from functrace.torch.tensors.tensor import RESIZED, UNVERSIONED, Tensor, wrap

LEVELS = 20
"""Number of nested backward passes after which a fresh thread takes over."""

_tasks = itertools.count()


@final
class BackwardPass:
    """One backward pass.

    Args:
        roots: edges at which the pass begins.
        retain: True to keep saved tensors.
        create: True to record the pass itself.
        wanted: edges whose gradients are requested; ``None`` if all leaves accumulate.
        accumulates: True if requested leaves accumulate (``backward(inputs=)``), False if
            gradients are returned.
    """

    __slots__ = (
        "__weakref__", "accumulates", "callbacks", "captured", "create", "id", "needed", "node",
        "retain", "roots",
        "waiting", "wanted",
    )  # fmt: skip

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
        self.waiting: dict[GraphNode, int] = {}
        self.node: GraphNode | None = None
        self.callbacks: list[Callable[[], object]] = []
        if wanted is not None:
            self.wanted = {}
            for node, nr in wanted:
                if node is not None:
                    self.wanted.setdefault(node, []).append(nr)

    def run(self, grads: Sequence[Tensor | None]) -> None:
        """Run the pass from the gradients of the roots."""
        if not ANOMALY.enabled:
            self.advance(grads, plain=not RESIZED and _profile() is None)
            return
        try:
            self.advance(grads, plain=False)
        except BaseException:
            if self.node is not None:
                report(self.node)
            raise

    def advance(self, grads: Sequence[Tensor | None], *, plain: bool) -> None:
        """Run nodes until none is left; ``plain`` is True if nodes without hooks need no further
        treatment.
        """
        waiting = self.waiting = self.count()
        needed = self.needed
        reached = None if needed is None else needed.union(self.wanted or ())
        # The nodes that only need to run, if they have no hooks; None: all.
        running = (
            needed if needed is None or self.accumulates else needed.difference(self.wanted or ())
        )
        buffers: dict[GraphNode, list[Tensor | None]] = {}
        ready: list[tuple[int, int, GraphNode]] = []
        for (node, nr), gradient in zip(self.roots, grads, strict=True):
            deposit(buffers, node, nr, gradient)
        ties = itertools.count()
        for node in dict.fromkeys(node for node, _ in self.roots):
            if not waiting.get(node):
                heapq.heappush(ready, (-node._sequence, next(ties), node))
        retain = self.retain
        push, pop, pushpop = heapq.heappush, heapq.heappop, heapq.heappushpop
        first: tuple[int, int, GraphNode] | None = (
            None  # a node that the previous one made ready; often the next to run
        )
        while ready or first is not None:
            node = self.node = (pop(ready) if first is None else pushpop(ready, first))[2]
            first = None
            given = buffers.pop(node)
            if node._bare and plain and (running is None or node in running):
                results = node.run(given)
            else:
                visited = self.visit(node, given, reached)
                if visited is None:
                    continue
                results = visited
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
                    entry = -target._sequence, next(ties), target
                    if first is None:
                        first = entry
                    else:
                        push(ready, entry)
            del results

    def call_back(self) -> None:
        """Run the callbacks queued for the end of the pass, which may queue more."""
        for callback in self.callbacks:  # the list may grow
            callback()

    def count(self) -> dict[GraphNode, int]:
        """Count the gradients that will arrive at every node; with ``inputs``, find the nodes that
        lead there.
        """
        if self.wanted is None:
            return count_all(node for node, _ in self.roots)
        senders: dict[GraphNode, list[GraphNode]] = {node: [] for node, _ in self.roots}
        stack = list(senders)
        while stack:
            node = stack.pop()
            for target, _ in node._edges:
                if target is not None:
                    found = senders.get(target)
                    if found is None:
                        senders[target] = [node]
                        stack.append(target)
                    else:
                        found.append(node)
        self.wanted = {node: numbers for node, numbers in self.wanted.items() if node in senders}
        needed = self.needed = {node for node in self.wanted if self.accumulates}
        # Sequence numbers do not suffice: the node of a view may be rebuilt, after a consumer of
        # the view got its number.
        waiting: dict[GraphNode, int] = {}
        stack = list(self.wanted)
        while stack:
            target = stack.pop()
            if target not in waiting:
                found = senders.get(target, ())  # all of them lead to a requested edge
                waiting[target] = len(found)
                needed.update(found)
                stack.extend(found)
        return waiting

    def visit(
        self, node: GraphNode, given: list[Tensor | None], reached: set[GraphNode] | None
    ) -> Sequence[Tensor | None] | None:
        """Run a node as `evaluate` does, as an event of the active profile, if there is one."""
        profile = _profile()
        if profile is None:
            return self.evaluate(node, given, reached)
        with profile.running(f"autograd::engine::evaluate_function: {node.name()}", node):
            return self.evaluate(node, given, reached)

    def evaluate(
        self, node: GraphNode, given: list[Tensor | None], reached: set[GraphNode] | None
    ) -> Sequence[Tensor | None] | None:
        """Run a node with its hooks on its gradients, and capture requested gradients; None if it
        need not run.

        Gradients are captured after the tensor's hooks if the node need not run, and before them
        if it runs.
        """
        count = len(node.output_avals())
        if len(given) < count:
            given = given + [None] * (count - len(given))
        if type(node) is AccumulateGrad and node.variable._grad_dtype not in (..., None):
            given = [g if g is None else g.to(node.variable._grad_dtype) for g in given]
        runs = self.needed is None or node in self.needed
        if not runs:
            given = call_tensor_hooks(node, given)
        if self.wanted is not None and not self.accumulates and node in self.wanted:
            for nr in self.wanted[node]:
                self.captured[id(node), nr] = given[nr]
        if not runs:
            return None
        results = call(node, call_tensor_hooks(node, given), reached)
        if ANOMALY.enabled and ANOMALY.check_nan:
            refuse_nan(node, results)
        return as_expected(node, results) if RESIZED else results


def _profile() -> Any:
    """Return the observer of the active profile; see dispatch/profiling.py."""
    dispatch = MODES.dispatch
    return dispatch if dispatch is not None and dispatch.is_passive else None


def as_expected(node: GraphNode, results: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Fit a node's results to the nodes whose tensors have been resized.

    Raises:
        RuntimeError: if a gradient does not fit.
    """
    return [
        r
        if r is None or e[0] is None or e[0] not in RESIZED
        else fitted(r, e[0].output_avals()[e[1]], node.name(), k)
        for k, (r, e) in enumerate(zip(results, node._edges, strict=True))
    ]


def count_all(roots: Iterable[GraphNode]) -> dict[GraphNode, int]:
    """Count the gradients that will arrive at every node reachable from the roots."""
    waiting = dict.fromkeys(roots, 0)
    stack = list(waiting)
    while stack:
        for target, _ in stack.pop()._edges:
            if target is not None:
                before = waiting.get(target)
                if before is None:
                    stack.append(target)
                    before = 0
                waiting[target] = before + 1
    return waiting


def call_tensor_hooks(node: GraphNode, given: list[Tensor | None]) -> list[Tensor | None]:
    """Run the hooks of a node's output tensors, and store the gradients to retain."""
    hooks = (
        node.variable._hooks and {0: node.variable._hooks}
        if type(node) is AccumulateGrad
        else node._tensor_hooks
    )
    if hooks:
        for nr, registered in hooks.items():
            for hook in list(registered.values()):
                given[nr] = hook_result(hook, given[nr])
    retained = node._retained
    if retained:
        for nr, reference in retained.items():
            tensor, gradient = reference(), given[nr]
            if tensor is not None and gradient is not None:
                retain(tensor, gradient)
    return given


def deposit(
    buffers: dict[GraphNode, list[Tensor | None]], node: GraphNode, nr: int, gradient: Tensor | None
) -> None:
    """Add a gradient to the buffer of a node."""
    buffer = buffers.get(node)
    if buffer is None:
        buffer = buffers[node] = [None] * (nr + 1)
    elif len(buffer) <= nr:
        buffer.extend([None] * (nr + 1 - len(buffer)))
    before = buffer[nr]
    if before is None:
        buffer[nr] = gradient
    elif gradient is not None:
        made = added(before, gradient) if sys.getrefcount(before) == ALONE else None
        buffer[nr] = before + gradient if made is None else made  # type: ignore[operator]


def call(
    node: GraphNode, given: list[Tensor | None], needed: set[GraphNode] | None
) -> Sequence[Tensor | None]:
    """Run one node with its hooks; drop gradients for nodes that need not run, unless user code
    computed them.
    """
    if node._prehooks:
        for hook in list(node._prehooks.values()):
            given = list(replaced_all(hook, given, hook(tuple(given))))
    profile = _profile()
    if profile is None:
        results = node.run(given)
    else:
        with profile.running(node.name(), node, given):
            results = node.run(given)
    if needed is not None and node.drops_unneeded:
        results = [r if e[0] in needed else None for r, e in zip(results, node._edges, strict=True)]
    if type(node) is AccumulateGrad:
        post = node.variable._post_hooks
        if post:
            for hook in list(post.values()):
                if hook(node.variable) is not None:
                    raise RuntimeError(errors.POST_ACCUMULATE_RESULT)
    if node._posthooks:
        for hook in list(node._posthooks.values()):
            results = replaced_all(hook, results, hook(tuple(results), tuple(given)))
    return results


def hook_result(hook: Callable[..., Any], gradient: Tensor | None) -> Tensor | None:
    """Call a tensor's hook; returns the resulting gradient."""
    replaced = hook(gradient)
    if replaced is None or replaced is gradient:
        return gradient
    check_replaced(hook, gradient, replaced)
    return replaced


def execute(task: BackwardPass, grads: Sequence[Tensor | None]) -> None:
    """Run a task in its grad mode; deep nesting continues in a fresh thread."""
    depth = RUNNING.depth + 1
    if depth % LEVELS == 0 and not sys.is_finalizing():  # at shutdown no thread can start
        continue_in_thread(task, grads, depth)
        return
    run_here(task, grads, depth)


def run_here(task: BackwardPass, grads: Sequence[Tensor | None], depth: int) -> None:
    """Run a task in this thread."""
    before, mode, since = (RUNNING.depth, RUNNING.task), MODES.recording, MODES.since
    pairs = MODES.pairs
    RUNNING.depth, RUNNING.task, MODES.recording = (
        depth,
        task,
        None if mode is None else task.create,
    )
    if task.create:
        MODES.since = -1
    try:
        with np.errstate(all="ignore"), one_thread() or nullcontext():
            task.run(grads)
            if task.callbacks:
                task.call_back()
    finally:
        (RUNNING.depth, RUNNING.task), MODES.recording, MODES.since = before, mode, since
        MODES.pairs = pairs


def continue_in_thread(task: BackwardPass, grads: Sequence[Tensor | None], depth: int) -> None:
    """Run a task in a thread that inherits this one's modes and context; its exceptions are raised
    here.
    """
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
    try:
        thread.start()
    except RuntimeError:  # Python 3.12 starts no thread once the main thread has ended
        body()
    else:
        thread.join()
    if failure:
        # popped, or this frame and the error's traceback would refer to each other
        raise failure.pop()


def run_backward(
    tensors: tuple[Any, ...],
    grad_tensors: tuple[Any, ...],
    keep_graph: bool,
    create_graph: bool,
    inputs: tuple[Any, ...] = (),
    allow_unreachable: bool = False,
    accumulate_grad: bool = False,
) -> tuple[Tensor | None, ...] | None:
    """Run a backward pass: the basis of PyTorch's ``backward`` and ``grad``
    (``Variable._execution_engine``).

    Args:
        tensors: the roots: tensors or gradient edges.
        grad_tensors: a gradient for each; ``None`` where no gradient flows.
        keep_graph: keep saved tensors.
        create_graph: record the pass itself.
        inputs: tensors or gradient edges whose gradients are requested; all leaves by default.
        allow_unreachable: return ``None`` for inputs that no root depends on.
        accumulate_grad: add gradients to ``.grad``.

    Returns:
        the gradients of the inputs; ``None`` if gradients accumulate.

    Raises:
        RuntimeError: if an argument has the wrong type, does not require grad, or does not fit; or
            an input is not reached.
    """
    if not (isinstance(tensors, tuple) and isinstance(grad_tensors, tuple)):
        name, given = (
            ("grad_tensors", grad_tensors) if isinstance(tensors, tuple) else ("tensors", tensors)
        )
        raise RuntimeError(errors.run_backward_tuple(name, errors.kind_of(given)))
    if not isinstance(inputs, tuple):
        raise RuntimeError(errors.RUN_BACKWARD_INPUTS)
    if len(tensors) != len(grad_tensors):
        raise RuntimeError(errors.run_backward_count(len(tensors), len(grad_tensors)))
    if not (inputs or accumulate_grad):
        raise RuntimeError(errors.RUN_BACKWARD_NOTHING)
    roots = [edge_of_root(x, k) for k, x in enumerate(tensors)]
    grads = [
        seed_of_root(gradient, node.output_avals()[nr], k)
        for k, ((node, nr), gradient) in enumerate(zip(roots, grad_tensors, strict=True))
    ]
    return run_pass(
        roots, grads, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad
    )


def run_pass(
    roots: Sequence[tuple[GraphNode, int]],
    grads: Sequence[Tensor | None],
    keep_graph: bool,
    create_graph: bool,
    inputs: tuple[Any, ...],
    allow_unreachable: bool,
    accumulate_grad: bool,
) -> tuple[Tensor | None, ...] | None:
    """Run a backward pass from edges, with gradients that fit them; see `run_backward`."""
    if accumulate_grad:
        for x in inputs:
            if isinstance(x, Tensor):
                x.retain_grad()
    wanted = [edge_of_input(x) for x in inputs] if inputs else None
    task = BackwardPass(roots, keep_graph, create_graph, wanted, accumulate_grad)
    try:
        execute(task, grads)
    finally:
        if create_graph and accumulate_grad:
            warn_once(errors.CREATE_GRAPH_CYCLE)
    if wanted is None or accumulate_grad:
        return None
    found = [task.captured.get((id(node), nr)) for node, nr in wanted]
    if not allow_unreachable:
        for k, gradient in enumerate(found):
            if gradient is None:
                raise RuntimeError(errors.unused_input(k))
    if MODES.recording is None:
        for gradient in found:
            if gradient is not None and all(gradient is not seed for seed in grads):
                gradient._counter = UNVERSIONED
    return tuple(found)


def edge_of_root(x: Any, place: int) -> tuple[GraphNode, int]:
    """Return the edge at which a root's gradient arrives."""
    if isinstance(x, Tensor):
        node, nr = edge(x)
    elif isinstance(x, tuple):
        node, nr = x[:2]
    else:
        raise RuntimeError(errors.root_type(place))
    if node is None:
        raise RuntimeError(errors.root_without_grad(place))
    return node, nr


def seed_of_root(gradient: Any, aval: ShapeDtype, place: int) -> Tensor:
    """Return the gradient of a root, fitted to the root's shape and dtype."""
    if gradient is None:
        raise RuntimeError(errors.root_gradient_missing(place))
    if not isinstance(gradient, Tensor):
        raise RuntimeError(errors.root_gradient_kind(place))
    array = gradient._array
    return (
        gradient
        if array.shape == aval.shape and array.dtype == aval.dtype
        else fitted(gradient, aval, "", place)
    )


# -- the public functions --------------------------------------------------------------------------


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Compute gradients of tensors and add them to the ``.grad`` of leaves.

    Args:
        tensors: tensors, or gradient edges, to differentiate.
        grad_tensors: a gradient for each; may be left out for scalars.
        retain_graph: True to keep saved tensors for another pass; by default the value of
            ``create_graph``.
        create_graph: True to record the pass itself, for higher derivatives.
        inputs: leaves (or other tensors) to accumulate gradients of; all leaves by default.

    Raises:
        RuntimeError: if a tensor has no graph, its graph has been freed, or it is not a scalar and
            has no gradient.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor([1.0, 3.0], requires_grad=True)
        >>> torch.autograd.backward((x * x).sum())
        >>> x.grad
        tensor([2., 6.])

    Source:
        ``torch.autograd.backward``.
    """
    if MODES.functional:
        raise RuntimeError(errors.BACKWARD_IN_FUNC)
    given = () if inputs is None else as_inputs(inputs, "backward")
    roots, grads = make_roots(tensors, grad_tensors)
    run_pass(
        roots,
        grads,
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        given,
        True,
        True,
    )


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """Compute gradients of outputs by inputs, without changing any ``.grad``.

    Args:
        outputs: tensors to differentiate.
        inputs: tensors to differentiate by, in the order of the results; a dict of tensors gives a
            dict of gradients.
        grad_outputs: a gradient for each output; may be left out for scalars.
        retain_graph: True to keep saved tensors for another pass; by default the value of
            ``create_graph``.
        create_graph: True to record the pass itself, for higher derivatives.
        only_inputs: True; deprecated by PyTorch.
        allow_unused: True to return ``None`` for inputs that the outputs do not depend on, instead
            of raising.
        is_grads_batched: True if the first axis of each of ``grad_outputs`` is a batch of
            gradients, for one pass over all.
        materialize_grads: True to return zeros for inputs that the outputs do not depend on.

    Returns:
        a tuple with one gradient per input.

    Raises:
        RuntimeError: if an output has no graph, or does not depend on an input.
        ValueError: for ``materialize_grads`` with ``allow_unused=False``.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> torch.autograd.grad(x**2, x)
        (tensor(6.),)

    Source:
        ``torch.autograd.grad``.
    """
    if materialize_grads:
        if allow_unused is False:
            raise ValueError(errors.MATERIALIZE_WITHOUT_ALLOW)
        allow_unused = True
    given = as_inputs(inputs, "grad")
    if not only_inputs:
        warn(errors.ONLY_INPUTS, FutureWarning)
    roots, grads = make_roots(outputs, grad_outputs, batched=is_grads_batched)
    keep_graph = create_graph if retain_graph is None else retain_graph

    def pull(*grads: Tensor | None) -> Any:
        return run_pass(roots, grads, keep_graph, create_graph, given, bool(allow_unused), False)

    results: list[Any] = list(_pulled_batch(pull, grads) if is_grads_batched else pull(*grads))
    for k, (x, found) in enumerate(zip(given, results, strict=True)):
        if found is None and materialize_grads:
            if isinstance(x, GradientEdge):
                raise RuntimeError(errors.MATERIALIZE_EDGE)
            results[k] = wrap(np.zeros(x._array.shape, x._array.dtype))
            results[k]._requires = create_graph
    return dict(zip(inputs, results, strict=True)) if type(inputs) is dict else tuple(results)


def _pulled_batch(
    pull: Callable[..., Sequence[Tensor | None]], grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Pull back several gradients together, stacked along the first axis: `torch.func.vmap` of a
    backward pass.
    """
    reached: list[bool] = []
    sizes: list[int] = []
    for gradient in grads:
        if gradient is None or not gradient._array.ndim:
            raise ValueError(errors.BATCHED_SCALAR)
        sizes.append(gradient._array.shape[0])
    if len(set(sizes)) > 1:
        raise ValueError(errors.batch_sizes(sizes))

    def vjp(*grads: Tensor) -> list[Tensor]:
        found = pull(*grads)
        reached[:] = [gradient is not None for gradient in found]
        return [gradient for gradient in found if gradient is not None]

    made = iter(vmap(vjp)(*grads))
    return [next(made) if is_reached else None for is_reached in reached]


def as_inputs(inputs: Any, function: str) -> tuple[Any, ...]:
    """Return a tensor or edge, several, or the values of a dict, as a tuple."""
    if isinstance(inputs, Mapping) and type(inputs) is not dict:
        raise TypeError(errors.inputs_mapping(function, type(inputs).__name__))
    given = tuple(inputs.values()) if type(inputs) is dict else as_tuple(inputs)
    if not given:
        raise RuntimeError(errors.empty_inputs(function))
    return given


def _calculate_shape(
    output: Tensor | GradientEdge, grad: Tensor, is_grads_batched: bool
) -> tuple[Size, Size]:
    """Return the shapes of a root and of its gradient, without the axis of a batch of gradients."""
    if isinstance(output, GradientEdge):
        wanted = Size(output.node.output_avals()[output.output_nr].shape)
    else:
        wanted = output.shape
    return wanted, grad.shape[1:] if is_grads_batched else grad.shape


def as_tuple(given: Any) -> tuple[Any, ...]:
    """Return a tensor or edge, or several, as a tuple."""
    return (given,) if isinstance(given, (Tensor, GradientEdge)) else tuple(given)


def edge_of_input(x: Any) -> tuple[GraphNode | None, int]:
    """Return the edge at which the gradient of an input arrives."""
    if isinstance(x, tuple):
        return x[:2]
    if not isinstance(x, Tensor):
        raise RuntimeError(errors.input_type(errors.kind_of(x)))
    if not x.requires_grad:
        raise RuntimeError(errors.INPUT_WITHOUT_GRAD)
    return edge(x)


def make_roots(
    tensors: Any, gradients: Any, *, batched: bool = False
) -> tuple[list[tuple[GraphNode, int]], list[Tensor]]:
    """Return the edges at which a pass begins, and their completed gradients."""
    given = as_tuple(tensors)
    seeds: tuple[Any, ...] = (None,) * len(given) if gradients is None else as_tuple(gradients)
    made = [make_seed(given, seeds, k, batched=batched) for k in range(min(len(given), len(seeds)))]
    if len(made) != len(given):
        raise RuntimeError(errors.run_backward_count(len(given), len(made)))
    return [edge_of_root(x, k) for k, x in enumerate(given)], made


def make_seed(
    outputs: Sequence[Any], seeds: Sequence[Any], place: int, *, batched: bool = False
) -> Any:
    """Return the gradient of one root: the argument (or a batch of gradients), or 1 for a real
    scalar; None if it has none.
    """
    output, seed = outputs[place], seeds[place]
    aval: Any = (
        output.node.output_avals()[output.output_nr]
        if isinstance(output, GradientEdge)
        else output._array
    )
    if seed is None:
        if not isinstance(output, GradientEdge) and not output.requires_grad:
            return None
        if math.prod(aval.shape) != 1:
            raise RuntimeError(errors.NON_SCALAR_ROOT)
        if aval.dtype.kind not in "fV":
            raise RuntimeError(errors.complex_root(DTYPES[aval.dtype]))
        if KINDS and type(aval) is StoragelessArray and isinstance(output, Tensor):
            return aval.handling.seed(output)
        ones = wrap(np.ones(aval.shape, aval.dtype))
        return ones if MODES.dispatch is None else MODES.dispatch.seed(output, ones)
    if not isinstance(seed, Tensor):
        raise TypeError(errors.root_gradient_type(type(seed).__name__))
    # The numbers in these messages are the index of the first equal object, as PyTorch looks it up.
    shape = seed._array.shape
    if batched:
        if not shape or not shape[0]:
            raise IndexError(errors.empty_batch(shape))
        if shape[1:] != aval.shape:
            found = seeds.index(seed), outputs.index(output)
            raise RuntimeError(errors.mismatched_batch(found, Size(shape[2:]), Size(aval.shape)))
    elif shape != aval.shape:
        found = seeds.index(seed), outputs.index(output)
        raise RuntimeError(errors.mismatched_root_gradient(found, seed.shape, Size(aval.shape)))
    if (seed._array.dtype.kind == "c") != (aval.dtype.kind == "c"):
        found = seeds.index(seed), outputs.index(output)
        raise RuntimeError(errors.complex_root_gradient(found, seed.dtype, DTYPES[aval.dtype]))
    return seed if seed._array.dtype == aval.dtype else seed.to(aval.dtype)
