"""Base class of `Function` and its nodes: PyTorch's C++ part (``torch._C._FunctionBase``).

`FunctionBase` runs the user's forward (``apply``). Its instances are nodes: they store what
forward declared (saved tensors, dirty inputs, outputs without derivative) and run the user's
backward: missing gradients become zeros, and the results are checked against the inputs. `finish`
turns the results of forward into outputs of the node: an input returned as it is becomes a view of
itself, a dirty input keeps its identity and gets a new history, an output without derivative loses
its history.

The public part, ``ctx`` and the base class of users' Functions, is in function.py.

Layer: 9.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from functrace.ir.aval import ShapeDtype
from functrace.ops.indexing import index_static
from functrace.torch import errors
from functrace.torch.autograd import traced
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.graph import (
    AccumulateGrad,
    GraphNode,
    edge,
    fitted,
    number,
    zeros_of,
)
from functrace.torch.autograd.saved import SavedTensor, packed
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.errors.warnings import warn
from functrace.torch.tensors.tensor import UNVERSIONED, Tensor, count_write, view_of

FREED = "freed"
"""Marker for the saved tensors of a node after backward."""
ACCESSED = "accessed"
"""Marker for saved tensors that may be read only once, and were."""


class TracedSavedTensor:
    """A saved tensor of a node on traced values: the tensor itself, or the result of the innermost
    pack hook.
    """

    __slots__ = ("_kept", "_unpack_hook", "_version")

    def __init__(self, tensor: Tensor) -> None:
        pairs = MODES.pairs
        self._kept = packed(pairs[-1], tensor) if pairs else tensor
        self._unpack_hook = pairs[-1][1] if pairs else None
        self._version = tensor._counter[0]

    def unpack(self, node: GraphNode) -> Tensor:
        """Return the tensor.

        Raises:
            RuntimeError: if it was overwritten since.
            TypeError: if the unpack hook did not return a tensor.
        """
        kept = self._kept
        if self._unpack_hook is not None:
            kept = self._unpack_hook(kept)
            if not isinstance(kept, Tensor):
                raise TypeError(errors.unpacked_type(errors.kind_of(kept)))
        elif kept._counter[0] != self._version:
            version = kept._counter[0]
            raise RuntimeError(
                errors.modified_in_place(
                    kept.dtype.printed, kept.shape, None, "", version, self._version, True
                )
            )
        return kept

    def release(self) -> None:
        """Do nothing: the node is freed after the call."""


class FunctionBase(GraphNode):
    """Base class of Functions and of their nodes: every Function has its own class of nodes."""

    needs_input_grad: tuple[bool, ...] = ()
    """For each argument, True if it is a tensor that requires grad."""
    to_save: tuple[Any, ...] | None = None
    dirty_tensors: tuple[Any, ...] | None = None
    non_differentiable: tuple[Any, ...] | None = None
    saved_for_forward: tuple[Any, ...] | None = None
    is_node = False
    requires_grad = False
    """True if the node is in a graph."""
    _is_pure = False
    """True if forward said that its output is a view of its input and nothing else, so that the
    view can be taken again when the input has been overwritten.
    """
    _materializes = True
    _materialize_non_diff_grads = True
    _forward_cls: Any
    """The Function of a class of nodes."""
    _backward_cls: Any
    """The node class of a Function."""
    _without_setup: ClassVar[Any]
    """The default ``setup_context``, by which an override is detected: that of the first class
    that has one.
    """
    _without_backward: ClassVar[Any]
    """The default ``backward``, by which an override is detected: that of the first class that has
    one.
    """
    _without_jvp: ClassVar[Any]
    """The default ``jvp``, likewise."""
    _without_vmap: ClassVar[Any]
    """The default ``vmap``, likewise."""
    _rule_at_every_order: ClassVar[bool] = True
    """True if outer transforms of a transform use the rule, too; otherwise they differentiate
    forward's operations.
    """
    _inspected: ClassVar[tuple[Any, inspect.Signature]]
    _whole_view: ClassVar[Callable[[Tensor], Tensor]]
    """Returns a view of an input that forward has returned, of its class."""
    _rewrite_history: ClassVar[Callable[..., None]]
    """Rebases the history of an input that forward has overwritten; for Functions that may
    overwrite inputs.
    """
    forward: ClassVar[Callable[..., Any]]
    setup_context: ClassVar[Callable[..., Any]]
    backward: ClassVar[Callable[..., Any]]
    vjp: ClassVar[Callable[..., Any]]
    jvp: ClassVar[Callable[..., Any]]
    vmap: ClassVar[Callable[..., Any]]
    generate_vmap_rule: ClassVar[bool]
    _saved: Any = ()
    _inputs: tuple[ShapeDtype | None, ...] = ()
    _outputs: tuple[ShapeDtype | None, ...] = ()
    _constant: frozenset[int] = frozenset()
    """Outputs without derivative."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "setup_context" in vars(cls) and not hasattr(cls, "_without_setup"):
            cls._without_setup = cls.setup_context
        if "backward" in vars(cls) and not hasattr(cls, "_without_backward"):
            cls._without_backward = cls.backward
        if "jvp" in vars(cls) and not hasattr(cls, "_without_jvp"):
            cls._without_jvp = cls.jvp
        if "vmap" in vars(cls) and not hasattr(cls, "_without_vmap"):
            cls._without_vmap = cls.vmap

    @classmethod
    def _has_jvp(cls) -> bool:
        """Return True if the user defined a ``jvp``."""
        return cls.jvp is not cls._without_jvp

    @classmethod
    def _has_backward(cls) -> bool:
        """Return True if the user defined a ``backward``, or a ``vjp``."""
        return cls.backward is not cls._without_backward or cls.vjp is not cls._without_backward

    @classmethod
    def _has_vmap(cls) -> bool:
        """Return True if the user defined a rule for ``vmap``."""
        return cls.vmap is not cls._without_vmap

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{type(self).__name__} object at {id(self):#x}>"

    # -- public attributes -------------------------------------------------------------------------

    @property
    def materialize_grads(self) -> bool:
        """True if backward gets zeros for outputs that no gradient has reached."""
        return self._materializes

    @materialize_grads.setter
    def materialize_grads(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(errors.SET_MATERIALIZE_GRADS)
        self._materializes = value

    @property
    def _is_pure_view(self) -> bool:
        """True if forward only takes a view; it can only be set, as in PyTorch."""
        raise AttributeError(
            "attribute '_is_pure_view' of 'torch._C._FunctionBase' objects is not readable"
        )

    @_is_pure_view.setter
    def _is_pure_view(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(errors.SET_PURE_VIEW)
        self._is_pure = value

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The tensors that forward saved.

        Raises:
            RuntimeError: if they were freed after backward, or overwritten.
        """
        if self.saved_for_forward is not None:
            return self.saved_for_forward
        if self._saved is ACCESSED:
            raise RuntimeError(errors.CLEARED_ON_ACCESS)
        found = tuple([None if s is None else s.unpack(self) for s in self._raw_saved_tensors])
        if self._forward_cls.clear_saved_tensors_on_access:
            self._saved = ACCESSED
        return found

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The former name of ``saved_tensors``."""
        warnings.warn(errors.SAVED_VARIABLES, DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor | TracedSavedTensor | None, ...]:
        if self._saved is FREED:
            raise RuntimeError(errors.BACKWARD_TWICE)
        return () if self._saved is ACCESSED else self._saved

    # -- forward -----------------------------------------------------------------------------------

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward`` on the arguments, and add a node to the graph if one of them requires
        grad.

        Args:
            args: tensors get gradients; other objects are forwarded unchanged.
            kwargs: arguments by the parameter names of ``forward``.

        Returns:
            the result of ``forward``. Its tensors (those of a tuple, not deeper) are outputs of
            the node.

        Raises:
            TypeError: if the arguments do not fit ``forward``, or forward saved an object that is
                no tensor for backward.
            RuntimeError: if an input marked as dirty is a leaf, a view returned among others, or
                not returned.
        """
        if kwargs or cls.setup_context is not cls._without_setup:
            args = cls._arguments(args, kwargs)
        kind = traced.kind_of(args)
        if kind != "tensors":
            return (
                traced.apply(cls, args) if kind == "traced" else traced.apply_to_arrays(cls, args)
            )
        ctx = cls._backward_cls()
        ctx._begin(args, in_graph=True)
        recording, forward = MODES.recording, MODES.forward
        MODES.recording, MODES.forward = (
            recording and False,
            False,
        )  # None, the value in inference mode, stays
        try:
            output = cls._run(ctx, args)
        finally:
            MODES.recording, MODES.forward = recording, forward
        return finish(ctx, args, output)

    @classmethod
    def _run(cls, ctx: FunctionBase, args: tuple[Any, ...]) -> Any:
        """Run the user's forward, with or without ``setup_context``."""
        if cls.setup_context is cls._without_setup:
            return cls.forward(ctx, *args)
        output = cls.forward(*args)
        cls.setup_context(ctx, args, output)
        return output

    @classmethod
    def _arguments(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Move keyword arguments to their positions in ``forward(ctx, ...)``; parameters left out
        in between are missing.
        """
        if not kwargs:
            return args
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [p.name for p in cls._signature().parameters.values() if p.kind in positional][1:]
        for name in kwargs:
            if name not in names:
                raise TypeError(errors.unexpected_keyword(name))
            if names.index(name) < len(args):
                raise TypeError(errors.multiple_values(name))
        last = max(map(names.index, kwargs))
        for place in range(len(args), last + 1):
            if names[place] not in kwargs:
                raise TypeError(errors.missing_argument(names[place], place))
        return (*args, *[kwargs[name] for name in names[len(args) : last + 1]])

    @classmethod
    def _signature(cls) -> inspect.Signature:
        """Return the signature of ``forward``; cached on the class (inspection takes 10 us), and
        freed with it.
        """
        function = getattr(cls.forward, "__func__", cls.forward)
        kept = cls.__dict__.get("_inspected")
        if kept is None or kept[0] is not function:
            kept = (function, inspect.signature(cls.forward))
            cls._inspected = kept
        return kept[1]

    def _begin(self, args: Sequence[Any], *, in_graph: bool) -> None:
        """Record the arguments, and the edges to which their gradients flow."""
        needs, inputs, edges = [], [], []
        for a in args:
            if isinstance(a, Tensor):
                array = a._array
                inputs.append(ShapeDtype(array.shape, array.dtype))
                needs.append(a.requires_grad)
                edges.append(a)
            else:
                inputs.append(None)
                needs.append(False)
        self.needs_input_grad, self._inputs = tuple(needs), tuple(inputs)
        if in_graph and MODES.recording and True in needs:
            self.requires_grad = True
            self._edges = tuple([edge(a) for a in edges])
            number(self)

    def _dirty_inputs(self, args: Sequence[Any], outputs: Sequence[Any]) -> set[int]:
        """Record the declared overwrites; returns the ids of the tensors."""
        dirty = self.dirty_tensors
        if dirty is None:
            return set()
        for tensor in dirty:
            if not isinstance(tensor, Tensor):
                raise RuntimeError(errors.MARK_DIRTY)
            count_write(tensor)
        marked = {id(t) for t in dirty}
        if not marked <= {id(v) for v in outputs}:
            raise RuntimeError(errors.DIRTY_NOT_RETURNED)
        return marked

    def _constants(self) -> set[int]:
        """Return the ids of the tensors marked as non-differentiable."""
        marked = self.non_differentiable or ()
        for tensor in marked:
            if not isinstance(tensor, Tensor):
                raise RuntimeError(errors.MARK_NON_DIFFERENTIABLE)
        return {id(t) for t in marked}

    def _keep(self, *, in_graph: bool = True) -> None:
        """Save the tensors that forward declared; they may be outputs of this node."""
        kept: list[SavedTensor | TracedSavedTensor | None] = []
        dirty = {id(t) for t in self.dirty_tensors or ()}
        for place, value in enumerate(self.to_save or ()):
            if value is None:
                kept.append(SavedTensor(None) if in_graph else None)
            elif not isinstance(value, Tensor):
                raise TypeError(errors.saved_non_tensor(place, errors.kind_of(value)))
            else:
                is_output = value._node is self or (value._view is not None and id(value) in dirty)
                kept.append(
                    SavedTensor(value, is_output, self) if in_graph else TracedSavedTensor(value)
                )
                if isinstance(saved := kept[-1], SavedTensor):
                    # a Function gets its saved tensor back unchanged, even if detached in place
                    saved._was_computed = False
        self._saved = tuple(kept)

    def _finish_traced(self, args: Sequence[Any], outputs: Sequence[Any]) -> dict[int, int]:
        """Record the results of forward, and save what it declared; returns the overwritten
        argument of each output.
        """
        dirty = self._dirty_inputs(args, outputs)
        constants = self._constants()
        avals = [
            ShapeDtype(v._array.shape, v._array.dtype) if isinstance(v, Tensor) else None
            for v in outputs
        ]
        self._outputs = tuple(avals)
        self._constant = frozenset(k for k, v in enumerate(outputs) if id(v) in constants)
        places = {id(a): k for k, a in enumerate(args)}
        self._keep(in_graph=False)
        self._forget()
        return {
            k: places[id(v)] for k, v in enumerate(outputs) if id(v) in dirty and id(v) in places
        }

    def _forget(self) -> None:
        """Drop the tensors that forward declared: outputs among them would make cycles."""
        self.to_save = self.dirty_tensors = self.non_differentiable = None

    # -- backward ----------------------------------------------------------------------------------

    def output_avals(self) -> Sequence[Any]:
        """Return shape and dtype of every output; ``None`` for an output that is not a tensor."""
        return self._outputs

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Run the user's backward; returns one gradient per tensor among the arguments.

        Raises:
            RuntimeError: if number, types or shapes of the results do not fit.
        """
        given = [
            *grads,
            *[None] * (len(self._outputs) - len(grads)),
        ]  # the engine omits those after the last
        if self._materializes:
            given = [self._materialized(k, g) for k, g in enumerate(given)]
        found = self.apply(*given)
        return self._checked(found if isinstance(found, tuple) else (found,))

    def release(self) -> None:
        """Free the saved tensors."""
        saved = self._saved
        if saved is ACCESSED:
            return
        self._saved = FREED
        if saved is not FREED:
            for s in saved:
                if s is not None:
                    s.release()

    def _materialized(self, place: int, gradient: Tensor | None) -> Tensor | None:
        aval = self._outputs[place]
        if gradient is not None or aval is None:
            return gradient
        if place in self._constant and not self._materialize_non_diff_grads:
            return None
        return zeros_of(aval)

    def _checked(self, found: tuple[Any, ...]) -> list[Tensor | None]:
        """Check the results of backward, and convert them to the shapes and dtypes of the
        inputs.
        """
        inputs = self._inputs
        count = len(inputs)
        if len(found) != count:
            if len(found) < count or any(g is not None for g in found[count:]):
                raise RuntimeError(errors.gradient_count(self.name(), count, len(found)))
            found = found[:count]
        checked = []
        for place, (gradient, aval) in enumerate(zip(found, inputs, strict=True)):
            if aval is None:
                if gradient is not None:
                    raise RuntimeError(errors.gradient_of_non_tensor(self.name(), place + 1))
            elif gradient is None or isinstance(gradient, Tensor):
                checked.append(gradient)
            else:
                raise RuntimeError(errors.gradient_type(errors.kind_of(gradient)))
        wanted = [aval for aval in inputs if aval is not None]
        needs = [
            need
            for need, aval in zip(self.needs_input_grad, inputs, strict=True)
            if aval is not None
        ]
        for k, (gradient, aval) in enumerate(zip(checked, wanted, strict=True)):
            if gradient is not None and needs[k]:
                node = self._edges[k][0] if self._edges else None
                if type(node) is AccumulateGrad and node.variable._grad_dtype is not ...:
                    aval = ShapeDtype(aval.shape, gradient._array.dtype)  # the leaf's, or any
                checked[k] = fitted(gradient, aval, self.name(), k)
        return checked


# -- outputs ---------------------------------------------------------------------------------------


def finish(ctx: FunctionBase, args: Sequence[Any], output: Any) -> Any:
    """Make the results of forward outputs of the node, and save the tensors that forward declared.

    Raises:
        RuntimeError: for a dirty input that is a leaf, a view returned among other outputs, or not
            returned.
        TypeError: if an object to save is no tensor.
    """
    several = output if isinstance(output, tuple) else (output,)
    dirty = ctx._dirty_inputs(args, several)
    constants = ctx._constants()
    inputs = {id(a) for a in args if isinstance(a, Tensor)}
    outputs = list(several)
    made = "custom" if sum(isinstance(v, Tensor) for v in several) == 1 else "multiple"
    if ctx._is_pure:
        if made == "multiple" or sum(isinstance(a, Tensor) for a in args) != 1:
            raise RuntimeError(errors.PURE_VIEW)
        made = ""
    avals: list[ShapeDtype | None] = []
    constant = []
    for k, value in enumerate(several):
        if not isinstance(value, Tensor):
            avals.append(None)
            continue
        array = value._array
        avals.append(ShapeDtype(array.shape, array.dtype))
        if not ctx.requires_grad or id(value) in constants or array.dtype.kind not in "fcV":
            constant.append(k)
            outputs[k] = _without_history(
                ctx, value, is_input=id(value) in inputs, is_dirty=id(value) in dirty, made=made
            )
        elif id(value) in dirty:
            if id(value) not in inputs:
                if value._view is not None:
                    raise RuntimeError(errors.DIRTY_NOT_AN_INPUT)
                warn(errors.DIRTY_NOT_AN_INPUT)
            ctx._forward_cls._rewrite_history(value, ctx, k, several)
        else:
            outputs[k] = _with_history(value, ctx, k, is_input=id(value) in inputs, made=made)
    ctx._outputs, ctx._constant = tuple(avals), frozenset(constant)
    if DUALS.level is not None:
        DUALS.level.push_function(ctx, args, several, outputs)
    ctx.saved_for_forward = None
    try:
        if ctx.requires_grad:
            ctx._keep()
    finally:  # a pack hook may raise
        ctx._forget()
    return tuple(outputs) if isinstance(output, tuple) else outputs[0]


def _without_history(
    ctx: FunctionBase, value: Tensor, *, is_input: bool, is_dirty: bool, made: str
) -> Tensor:
    """Return an output that no gradient flows to. Writing into one that is a view is refused, too,
    once a gradient is involved.
    """
    if not value.requires_grad:
        if is_dirty:
            return value
        if is_input:
            value = ctx._forward_cls._whole_view(value)
    elif is_input:
        return value.detach()
    if value._view is None:
        value._node, value._requires = None, False
    elif value._counter is not UNVERSIONED:
        value._view.made = made and "custom"
    return value


def _with_history(
    value: Tensor, node: FunctionBase, place: int, *, is_input: bool, made: str
) -> Tensor:
    """Attach an output to the node. Writing into an output that is a view is refused: see
    views.py.
    """
    if is_input:
        value = node._forward_cls._whole_view(value)
    value._node, value._output_nr = node, place
    view = value._view
    if view is not None:
        view.made, view.version = made, value._counter[0]
    return value


def whole_view(value: Tensor) -> Tensor:
    """Return a view of a whole tensor."""
    return view_of(value, value._array, (index_static, ((...,),), None))
