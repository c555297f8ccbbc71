"""The graph: nodes that pull gradients back, and the edges between them.

A `GraphNode` represents one operation of the forward pass. Its edges lead to the nodes that
computed its operands, or to `AccumulateGrad` for a leaf that requires grad. `OpNode` holds a plan
(the backward program that the core derived from the operation) and the saved tensors that the
program reads. Reference counts alone keep a graph alive: a tensor refers to its node, a node to
the nodes of its edges and its saved tensors, never to its own outputs.

Layer: 9.
"""

from __future__ import annotations

import itertools
import operator
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from functrace.ir.aval import ShapeDtype, aval_of
from functrace.locks import Lock
from functrace.torch import errors
from functrace.torch.autograd.accumulation import ALONE, accumulate, laid_as
from functrace.torch.autograd.anomaly_mode import ANOMALY, note_origin
from functrace.torch.autograd.grad_mode import MODES, is_dispatching
from functrace.torch.autograd.handles import HookDict, RemovableHandle, register
from functrace.torch.autograd.hooks import (
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from functrace.torch.autograd.mutation import allow_mutation_on_saved_tensors
from functrace.torch.autograd.offload import compose, save_compressed, save_on_disk
from functrace.torch.autograd.running import RUNNING, will_execute
from functrace.torch.autograd.saved import SavedPositions, SavedTensor
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.tensors.device import CPU, device
from functrace.torch.tensors.dtypes import DTYPES, dtype
from functrace.torch.tensors.storageless import KINDS, StoragelessArray
from functrace.torch.tensors.tensor import RESIZED, Tensor, wrap

if TYPE_CHECKING:
    from functrace.torch.autograd.engine import BackwardPass
    from functrace.torch.dispatch.plans import OpPlan

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "compose",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_compressed",
    "save_on_cpu",
    "save_on_disk",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]

_sequence = itertools.count()
_new = object.__new__

LAST = 1 << 62
"""Sequence number of `AccumulateGrad`: it runs as soon as it is ready."""

Edge = tuple["GraphNode | None", int]
NO_EDGE: Edge = (None, 0)


class GradientEdge(NamedTuple):
    """An output of a node, as a root or an input of ``backward``.

    Args:
        node: the node.
        output_nr: number of the output.
        ownership_token: object that keeps the node alive, or ``None``.

    Example:
        >>> import functrace.torch as torch
        >>> edge = torch.autograd.graph.get_gradient_edge(torch.ones(2, requires_grad=True) * 2.0)
        >>> edge.output_nr
        0
    """

    node: GraphNode
    output_nr: int
    ownership_token: Any = None


class GraphNode:
    """One operation of the graph."""

    _edges: tuple[Edge, ...] = ()
    _sequence: int
    _tensor_hooks: dict[int, dict[int, Callable[..., Any]]] | None = None
    """Hooks of the tensors that are this node's outputs, by output number."""
    _retained: dict[int, weakref.ref[Tensor]] | None = None
    """The tensors whose gradient is retained, by output number."""
    _prehooks: HookDict | None = None
    _posthooks: HookDict | None = None
    _details: dict[Any, Any] | None = None
    _bare = True
    """True if no hook was ever registered here: the engine then just runs the node. (One test, in
    place of five.)
    """
    requires_grad = True
    """True if the node is in a graph."""
    is_node = True
    """True for nodes; False for a Function, which shares the base class of its nodes."""
    drops_unneeded = False
    """True if gradients for nodes that need not run (``inputs=``) are dropped before hooks see
    them.
    """

    @property
    def next_functions(self) -> tuple[Edge, ...]:
        """The edges: for each operand, the node that computed it and its output number."""
        return self._edges

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dict for user data."""
        if self._details is None:
            self._details = {}
        return self._details

    @metadata.setter
    def metadata(self, value: object) -> NoReturn:
        raise AttributeError(
            f"attribute 'metadata' of '{type(self).__name__}' objects is not writable"
        )

    @property
    def _input_metadata(self) -> tuple[InputMetadata, ...]:
        return tuple([InputMetadata(aval) for aval in self.output_avals()])

    def name(self) -> str:
        """Return the name that error messages use."""
        name = type(self).__name__
        return f"torch::autograd::{name}" if name in ("CopySlices", "AccumulateGrad") else name

    def _sequence_nr(self) -> int:
        return self._sequence

    def _set_sequence_nr(self, number: int) -> None:
        try:
            number = operator.index(number)
        except TypeError:
            raise TypeError("an integer is required") from None
        if number < 0:
            raise OverflowError("can't convert negative int to unsigned")
        self._sequence = number

    def output_avals(self) -> Sequence[ShapeDtype]:
        """Return shape and dtype of every output of the forward operation (an input of
        this node).
        """
        raise NotImplementedError

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Pull gradients back: from one per output of the operation to one per edge."""
        raise NotImplementedError

    def release(self) -> None:
        """Free the saved tensors; the engine calls it after ``run``, unless the graph is
        retained.
        """

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node has run; its result replaces
        ``grad_inputs``.
        """
        if self._posthooks is None:
            self._posthooks, self._bare = HookDict(), False
        return register(self._posthooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node runs; its result replaces them."""
        if self._prehooks is None:
            self._prehooks, self._bare = HookDict(), False
        return register(self._prehooks, hook)

    def _register_hook_dict(self, tensor: Tensor) -> None:
        """Use the hooks in ``tensor._backward_hooks`` for the output that the tensor is."""
        if tensor._hooks is None:
            raise RuntimeError(
                "there are no hooks in tensor._backward_hooks: assign a dict of them first"
            )
        self._bare = False
        self._tensor_hooks = {**(self._tensor_hooks or {}), tensor._output_nr: tensor._hooks}
        tensor._hooks = None  # now the node's: an overwritten tensor has no hooks

    def __repr__(self) -> str:
        return f"<{type(self).__name__} object at {id(self):#x}>"


class NativeNode(GraphNode):
    """A node that PyTorch has in C++: it can be called with one gradient (or None) per output."""

    def __call__(self, *grads: Tensor | None, **named: object) -> Any:
        """Return the gradients for the edges, a single one without tuple; hooks are not called.

        Raises:
            TypeError: for another number of gradients, and for an object that is no tensor.
        """
        if named:
            raise TypeError(errors.CALLED_WITH_KEYWORDS)
        avals = self.output_avals()
        if len(grads) != len(avals):
            raise TypeError(errors.operand_count(len(avals), len(grads)))
        for place, gradient in enumerate(grads):
            if gradient is not None and not isinstance(gradient, Tensor):
                raise TypeError(errors.not_a_variable(place))
        found = tuple(self._called(list(grads)))
        return found[0] if len(found) == 1 else found

    def _called(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        return self.run(grads)


class InputMetadata:
    """Metadata of one input of a node, that is, of an output of the operation."""

    __slots__ = ("_aval",)

    device: device = CPU
    is_nested_tensor = is_cpp_nested_tensor = False

    def __init__(self, aval: ShapeDtype | None) -> None:
        self._aval = aval

    @property
    def shape(self) -> list[int]:
        """Sizes by axis; empty for an output that is no tensor."""
        return [] if self._aval is None else list(self._aval.shape)

    @property
    def dtype(self) -> dtype:
        """Element type; ``float32`` for an output that is no tensor, as in PyTorch."""
        return DTYPES[np.dtype(np.float32) if self._aval is None else self._aval.dtype]


class _NodeType(type):
    """Makes every `GraphNode` an instance of `Node`, which is not among its bases."""

    def __instancecheck__(cls, instance: object) -> bool:
        if getattr(type(instance), "is_node_class", False):
            return True
        return isinstance(instance, GraphNode) and instance.is_node

    def __subclasscheck__(cls, subclass: type) -> bool:
        if subclass is cls or getattr(subclass, "is_node_class", False):
            return True
        return issubclass(subclass, GraphNode) and subclass.is_node


class Node(metaclass=_NodeType):
    """Class of nodes of the graph, for ``isinstance``: every node, and the ``ctx`` of a Function,
    is an instance.

    As in PyTorch it is no base class of the nodes' classes, so that nothing in it can be overridden
    by accident.

    Raises:
        TypeError: if it is instantiated.

    Example:
        >>> import functrace.torch as torch
        >>> y = torch.ones(2, requires_grad=True) * 2.0
        >>> isinstance(y.grad_fn, torch.autograd.graph.Node)
        True
    """

    def __new__(cls) -> Node:
        """Refuse: operations make nodes."""
        raise TypeError("Cannot instantiate abstract class Node: operations on tensors make nodes")


class OpNode(NativeNode):
    """A node whose backward is a program of the core: a `OpPlan` and its saved values."""

    _plan: OpPlan
    _saved: tuple[Any, ...] | None
    """One per value that the backward program reads: a `SavedTensor`, or a number that nothing can
    overwrite.
    """
    _is_shown = False
    """True if user code holds a `SavedTensor` of this node, which must then be marked as
    released.
    """
    _is_storageless = False
    """True if an operand or a result is a wrapper subclass, so the backward runs on tensors."""
    drops_unneeded = True

    def output_avals(self) -> Sequence[ShapeDtype]:
        """Return shape and dtype of the outputs of the forward operation, up to the last that is
        differentiated.
        """
        return self._plan.differentiated

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Run the backward program on the saved values; in grad mode, on tensors, equation by
        equation.
        """
        plan = self._plan
        saved = self._saved
        if saved is None:
            raise RuntimeError(errors.BACKWARD_TWICE)
        hooked, bare = False, self._bare
        pull_fast = plan.pull_fast
        if (
            pull_fast is not None
            and not MODES.recording
            and DUALS.level is None
            and MODES.dispatch is None
        ):
            try:
                results = pull_fast(saved, grads[0])
            except ValueError:
                results, hooked = None, True  # a saved tensor has been resized
            if results is not None:
                return results
        given: list[Any] = grads
        outputs, unpacks = plan.outputs, plan.derivation.unpacks
        if len(outputs) == 1:
            if grads[0] is None:
                return self._nothing()
        else:
            used = tuple([k for k, g in enumerate(grads) if g is not None])
            if not used:
                return self._nothing()
            if plan.case.op.apart and len(used) < len(outputs):
                plan, given = plan.of_results(used), [grads[k] for k in used]
            else:
                given = [
                    g if g is not None else zeros_of(a)
                    for g, a in itertools.zip_longest(grads, outputs)
                ]
        values = []
        is_storageless = KINDS and (
            self._is_storageless
            or any(g is not None and type(g._array) is StoragelessArray for g in grads)
        )
        if MODES.recording or DUALS.level is not None or is_dispatching() or is_storageless:
            for s, u in zip(saved, unpacks, strict=True):
                values.append(s.unpack(self) if u else s)
                hooked = hooked or (u and s._unpack_hook is not None)
            results = plan.case.op.pull_tensors(plan, values, given)
            return self._unpacked(results, bare) if hooked else results
        for s, u in zip(saved, unpacks, strict=True):
            if u:
                hooked = hooked or s._unpack_hook is not None
                values.append(s.unpack(self)._array)
            else:
                values.append(s)
        if (hooked or RESIZED) and not plan.fits(values):
            tensors = [wrap(v) if u else v for v, u in zip(values, unpacks, strict=True)]
            return self._unpacked(plan.case.op.pull_tensors(plan, tensors, given), bare)
        results = plan.pull(values, given)
        return self._unpacked(results, bare) if hooked else results

    def _called(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Run the node on gradients passed by a call; equation by equation if their shapes or
        dtypes differ.
        """
        if all(g is None or (g._array.shape, g._array.dtype) == (a.shape, a.dtype)
               for g, a in zip(grads, self.output_avals(), strict=True)):  # fmt: skip
            return self.run(grads)
        if self._saved is None:
            raise RuntimeError(errors.BACKWARD_TWICE)
        plan = self._plan
        values = [
            s.unpack(self) if u else s
            for s, u in zip(self._saved, plan.derivation.unpacks, strict=True)
        ]
        given = [
            g if g is not None else zeros_of(a)
            for g, a in itertools.zip_longest(grads, plan.outputs)
        ]
        return plan.case.op.pull_tensors(plan, values, given)

    def _nothing(self) -> list[Tensor | None]:
        """Return no gradients; saved tensors are unpacked all the same."""
        for s, unpacks in zip(self._saved or (), self._plan.derivation.unpacks, strict=False):
            if unpacks:
                s.unpack(self)
        return [None] * len(self._edges)

    def _unpacked(self, results: Sequence[Tensor | None], bare: bool) -> Sequence[Tensor | None]:
        """Return gradients computed from what a user's hook has unpacked: fitted, and given to the
        hooks that it registered on this node.
        """
        results = self._fitted(results)
        if bare and not self._bare:
            return with_late_hooks(self, results)
        return results

    def _fitted(self, results: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Fit gradients to the expected shapes and dtypes: tensors that a user's hook unpacked may
        differ.
        """
        return [
            r if r is None or e[0] is None else fitted(r, e[0].output_avals()[e[1]], self.name(), k)
            for k, (r, e) in enumerate(zip(results, self._edges, strict=True))
        ]

    def release(self) -> None:
        """Free the saved tensors."""
        saved = self._saved
        if saved or self._plan.is_freed:
            self._saved = None
            if self._is_shown:
                for s in saved or ():
                    if isinstance(s, (SavedTensor, SavedPositions)):
                        s.release()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            return self._plan.saved_field(self, name[7:])
        if name.startswith("_raw_saved_"):
            return self._plan.raw_saved_field(self, name[11:])
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._plan.saved_names()]


NODE_CLASSES: dict[str, type[OpNode]] = {}
"""The classes of operations' nodes that were needed, by name; operations with the same name share
one.
"""
NODE_NAMES: set[str] = set()
"""Names of all operations' nodes."""


def node_class(name: str) -> type[OpNode]:
    """Return the node class of a name."""
    found = NODE_CLASSES.get(name)
    if found is None:
        found = NODE_CLASSES[name] = type(name, (OpNode,), {"__module__": __name__})
    return found


class AccumulateGrad(NativeNode):
    """Node at which the gradient of a leaf arrives, to be added to ``leaf.grad``."""

    _sequence = LAST
    _bare = False  # the leaf's own hooks run here

    _former: ShapeDtype | None = None
    """Shape and dtype of the leaf when the graph was made, if ``.data`` has changed them since."""

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def _sequence_nr(self) -> int:
        return 2**64 - 1 if self._sequence == LAST else self._sequence

    def output_avals(self) -> Sequence[ShapeDtype]:
        """Return shape and dtype of the leaf."""
        return (aval_of(self.variable._array) if self._former is None else self._former,)

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Add the gradient: in place, or as an operation if the backward pass is itself
        recorded.
        """
        gradient = grads[0]
        if gradient is not None:
            if self.variable._node is not None:
                raise RuntimeError(errors.LEAF_MOVED)
            if (
                self._former is not None
                and gradient._array.shape != self.variable._array.shape
                and self.variable._grad is None
            ):
                gradient = laid_as(gradient, self.variable)
            is_alone = sys.getrefcount(gradient) == ALONE
            accumulate(self.variable, gradient, is_alone)
        return ()


def fitted(gradient: Tensor, aval: ShapeDtype, name: str, place: int) -> Tensor:
    """Return a gradient with the shape (summed over broadcast axes) and the dtype of its tensor.

    Args:
        gradient: the gradient.
        aval: aval of the tensor that it belongs to.
        name: the node that computed it, for the error message; empty if the user passed it.
        place: the number of the gradient, for the error message.

    Raises:
        RuntimeError: if the aval does not broadcast to the gradient's shape, or only one of the
            two is complex.
    """
    array = gradient._array
    shape = array.shape
    if shape != aval.shape:
        added = len(shape) - len(aval.shape)
        if added < 0 or any(
            n not in (1, m) for n, m in zip(aval.shape, shape[max(added, 0) :], strict=True)
        ):
            raise RuntimeError(errors.gradient_shape(name, place, shape, aval.shape))
        stretched = [
            added + k
            for k, (n, m) in enumerate(zip(aval.shape, shape[added:], strict=True))
            if n != m
        ]
        gradient = gradient.sum([*range(added), *stretched], True).reshape(aval.shape)
    if gradient._array.dtype == aval.dtype:
        return gradient
    if gradient._array.dtype.kind not in "fV" and (gradient._array.dtype.kind == "c") != (
        aval.dtype.kind == "c"
    ):
        raise RuntimeError(errors.GRADIENT_KIND)
    return gradient.to(aval.dtype)


def check_replaced(hook: Callable[..., Any], before: Tensor | None, after: Any) -> None:
    """Check that a hook returned a tensor of the shape and dtype of the gradient that it got."""
    if after is None:
        return
    if before is None:
        raise RuntimeError(errors.HOOK_REPLACES_NONE)
    if not isinstance(after, Tensor):
        raise TypeError(errors.hook_type(errors.kind_of(after)))
    name = getattr(hook, "__name__", type(hook).__name__)
    if after._array.dtype != before._array.dtype:
        raise RuntimeError(errors.hook_dtype(name, before.dtype.printed, after.dtype.printed))
    if after._array.shape != before._array.shape:
        raise RuntimeError(errors.hook_size(name))


def replaced_all(
    hook: Callable[..., Any], before: Sequence[Tensor | None], after: Any
) -> Sequence[Tensor | None]:
    """Return the gradients after a node's hook."""
    if after is None:
        return before
    if not isinstance(after, tuple):
        raise TypeError(errors.hook_tuple(errors.kind_of(after)))
    if len(after) != len(before):
        name = getattr(hook, "__name__", type(hook).__name__)
        raise RuntimeError(errors.hook_count(name, len(after), len(before)))
    for a, b in zip(before, after, strict=True):
        check_replaced(hook, a, b)
    return after


def with_late_hooks(node: GraphNode, results: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Return the gradients after hooks that were registered on a node while it ran: an unpack
    hook can do that. The engine had seen no hook, so they get no incoming gradients.
    """
    for hook in list((node._posthooks or {}).values()):
        results = replaced_all(hook, results, hook(tuple(results), ()))
    return results


def zeros_of(aval: ShapeDtype) -> Tensor:
    """Return the zeros that replace an undefined gradient."""
    return wrap(np.zeros(aval.shape, aval.dtype))


def edge(tensor: Tensor) -> Edge:
    """Return the edge of a tensor: its node, or the accumulator of a leaf that requires grad."""
    node = tensor._node if tensor._view is None else tensor.grad_fn
    if node is not None:
        return node, tensor._output_nr
    if tensor._requires:
        return accumulator(tensor), 0
    return NO_EDGE


def accumulator(leaf: Tensor) -> AccumulateGrad:
    """Return the one accumulator of a leaf; it refers to the leaf, the leaf refers to it weakly."""
    found = None if leaf._accumulator is None else leaf._accumulator()
    if found is None:
        found = AccumulateGrad(leaf)
        leaf._accumulator = weakref.ref(found)
        if ANOMALY.enabled:
            note_origin(found)
    return found


def attach(outputs: Sequence[Tensor], node: GraphNode) -> None:
    """Make tensors the outputs of a node, numbered in order."""
    for k, tensor in enumerate(outputs):
        tensor._node = node
        tensor._output_nr = k


def number(node: GraphNode) -> None:
    """Give a node the next sequence number."""
    node._sequence = next(_sequence)
    if ANOMALY.enabled:
        note_origin(node)


def _get_grad_fn_or_grad_acc(t: Tensor | GradientEdge) -> GraphNode:
    """Return the node at which the gradient of a tensor, or of an edge, arrives."""
    node = t.node if isinstance(t, GradientEdge) else edge(t)[0]
    if node is None:
        raise AssertionError(errors.NO_GRADIENT_FUNCTION)
    return node


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge at which a tensor's gradient arrives.

    Args:
        tensor: a tensor that requires grad.

    Returns:
        the edge, which ``backward`` and ``grad`` accept in place of the tensor.

    Raises:
        RuntimeError: if the tensor does not require grad.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> torch.autograd.grad(x**2, torch.autograd.graph.get_gradient_edge(x))
        (tensor(6.),)
    """
    if not tensor.requires_grad:
        raise RuntimeError(errors.EDGE_WITHOUT_GRAD)
    node = _get_grad_fn_or_grad_acc(tensor)
    if not hasattr(node, "_forward_cls"):
        return GradientEdge(node, tensor._output_nr)
    recording, MODES.recording = MODES.recording, True
    try:  # PyTorch's Function nodes do not keep their graph alive, so a node behind them must
        return GradientEdge(node, tensor._output_nr, tensor.view_as(tensor).grad_fn)
    finally:
        MODES.recording = recording


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Record that tensors were overwritten in a way that the shim does not detect.

    Args:
        tensor: one tensor, or several.

    Raises:
        RuntimeError: for an object that is not a tensor.

    Example:
        >>> import functrace.torch as torch
        >>> x = torch.ones(2)
        >>> torch.autograd.graph.increment_version(x)
        >>> x._version
        1
    """
    if not isinstance(tensor, Iterable):
        raise RuntimeError(errors.INCREMENT_VERSION)
    for one in [tensor] if isinstance(tensor, Tensor) else tensor:
        if not isinstance(one, Tensor):
            raise RuntimeError(errors.INCREMENT_OF_NO_TENSOR)
        if not one.is_inference():
            one._counter[0] += 1


# -- hooks on several tensors ----------------------------------------------------------------------


class _MultiHandle(RemovableHandle):
    """Handle of a hook on several tensors."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def __getstate__(self) -> tuple[RemovableHandle, ...]:
        return self.handles

    def __setstate__(self, state: tuple[RemovableHandle, ...]) -> None:
        self.handles = state

    def remove(self) -> None:
        """Remove the hook from all of them."""
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., object], *, mode: str = "all"
) -> RemovableHandle:
    """Register a hook that runs once per backward pass, when the gradients of several tensors have
    arrived.

    Args:
        tensors: the tensors.
        fn: with mode ``"all"``, it gets a list of the gradients when the last of those arrives that
            this pass computes; the others are ``None``. With mode ``"any"``, it gets the first
            gradient that arrives.
        mode: ``"all"`` or ``"any"``.

    Returns:
        a handle, whose ``remove()`` removes the hook.

    Raises:
        ValueError: for another mode.
        AssertionError: with ``"all"``, for a tensor that does not require grad.

    Example:
        >>> import functrace.torch as torch
        >>> a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
        >>> show = lambda grads: print([g is not None for g in grads])
        >>> handle = torch.autograd.graph.register_multi_grad_hook((a, b), show)
        >>> (a * b).sum().backward()
        [True, True]
        >>> a.sum().backward()
        [True, False]
    """
    if mode == "all":
        return _when_all_arrived(tensors, fn)
    if mode != "any":
        raise ValueError(errors.multi_grad_mode(mode))
    lock = Lock()
    done: weakref.WeakSet[BackwardPass] = weakref.WeakSet()

    def first(gradient: Tensor | None) -> None:
        task = _present_task()
        with lock.now:
            if task in done:
                return
            done.add(task)
        fn(gradient)

    return _MultiHandle(tuple([t.register_hook(first) for t in tensors if t.requires_grad]))


def _when_all_arrived(tensors: Sequence[Tensor], fn: Callable[..., object]) -> RemovableHandle:
    nodes = [_get_grad_fn_or_grad_acc(t) for t in tensors]
    lock = Lock()
    arrived: weakref.WeakKeyDictionary[BackwardPass, tuple[list[Tensor | None], list[int]]] = (
        weakref.WeakKeyDictionary()
    )
    """Gradients of each pass, and the number still to arrive."""

    def place(k: int) -> Callable[[Tensor | None], None]:
        def arrive(gradient: Tensor | None) -> None:
            task = _present_task()
            with lock.now:
                if task not in arrived:
                    arrived[task] = [None] * len(nodes), [sum(will_execute(node) for node in nodes)]
                grads, left = arrived[task]
                left[0] -= 1
                is_last = left[0] == 0
                grads[k] = gradient
                if is_last:
                    del arrived[task]
            if is_last:
                fn(grads)

        return arrive

    return _MultiHandle(tuple([t.register_hook(place(k)) for k, t in enumerate(tensors)]))


def _present_task() -> BackwardPass:
    if RUNNING.task is None:
        raise AssertionError(errors.MULTI_HOOK_OUTSIDE)
    return RUNNING.task


# -- without effect here; arguments are checked as in PyTorch --------------------------------------


def region_activation_memory_budget(budget: float) -> NoReturn:
    """Raise, as PyTorch does outside of ``torch.compile``, which functrace does not have."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(errors.budget_type(type(budget).__name__))
    if not 0 <= budget <= 1:
        raise ValueError(errors.budget_range(budget))
    raise RuntimeError(errors.BUDGET_OUTSIDE)


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accept the setting: there are no streams."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Accept the setting: there are no streams."""
