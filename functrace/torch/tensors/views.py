"""In-place operations, and their effect on history.

An in-place operation computes the same function as its plain form, writes the result into the
tensor's memory, increments its version and makes the tensor the output of the new node. On a view
it changes the *base's* history: the node (`CopySlices`) holds the program of the functional update
"the base, with the operation applied to this part of it". When the ``grad_fn`` of another view of
that base is read, the view gets a new node `AsStridedBackward0`, which reads its part of the
base's new value.

Layer: 9.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from functrace.errors import LostGradientError
from functrace.executor.parallel.operations import ParallelUfunc
from functrace.ir.aval import ShapeDtype
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops.elementwise import Elementwise
from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.autograd.accumulation import is_dense
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.graph import (
    NO_EDGE,
    GraphNode,
    NativeNode,
    OpNode,
    attach,
    edge,
    number,
)
from functrace.torch.autograd.saved import SavedTensor, save_operand, short_name
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.applying_traced import (
    compute_traced,
    is_packed,
    of_traced,
    traced_plan,
    traced_values,
    wanting_traced,
)
from functrace.torch.dispatch.derivation import Case, RecordedCase
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.dispatch.numbers import NUMBERS, number_of
from functrace.torch.dispatch.plans import PLANS, OpPlan
from functrace.torch.dispatch.promotion import RANK, Promotion, check_broadcast
from functrace.torch.dispatch.sizes import make_plan
from functrace.torch.tensors.aliases import is_alone, replace, shown, traced_of
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.mirrors import MIRRORS, conjugated, negated, refresh
from functrace.torch.tensors.steps import Steps, part, with_part
from functrace.torch.tensors.storageless import KINDS, StoragelessArray, refuse_write
from functrace.torch.tensors.tensor import (
    UNVERSIONED,
    Tensor,
    View,
    before_write,
    refuse_outside,
    wrap,
)
from functrace.tracing import Tracer
from functrace.typing import Array

_new = object.__new__


def check_memory(
    target: Array, operands: Sequence[Any], arrays: Sequence[Any], *, moves: bool = False
) -> None:
    """Refuse to write into elements that share memory, or that an operand has in another order (in
    any, if ``moves``).

    As in PyTorch, memory that is not dense is not checked; nor are traced values, which never
    change.
    """
    if isinstance(target, Tracer):
        return
    if not target.flags.c_contiguous and any(
        s == 0 and n > 1 for s, n in zip(target.strides, target.shape, strict=True)
    ):
        raise RuntimeError(errors.OVERLAPPING_WRITE)
    owner = target if target.base is None else target.base
    for x, array in zip(operands, arrays, strict=True):
        if (
            not isinstance(x, Tensor)
            or isinstance(array, Tracer)
            or (array is target and not moves)
            or (array if array.base is None else array.base) is not owner
        ):
            continue
        if not (array.size and target.size and is_dense(array) and is_dense(target)):
            continue
        if np.may_share_memory(target, array) and (moves or not lies_alike(target, array)):
            raise RuntimeError(errors.OVERLAPPING_OPERAND)


def lies_alike(target: Array, array: Array) -> bool:
    """Return True if two arrays are the same elements in the same order."""
    begins = [a.__array_interface__["data"][0] for a in (target, array)]
    return (
        begins[0] == begins[1] and target.dtype == array.dtype and _steps(target) == _steps(array)
    )


def _steps(array: Array) -> list[tuple[int, int]]:
    return [(n, s if n > 1 else 0) for n, s in zip(array.shape, array.strides, strict=True)]


def writable(array: Array) -> Array:
    """Return a writable alias of an array that is read-only because it is a part of an expanded
    one.
    """
    if array.flags.writeable:
        return array
    alias = array.view()
    alias.flags.writeable = True
    return alias


# -- views read after their base has changed -------------------------------------------------------

AS_STRIDED = Op("AsStridedBackward0", part, is_view=True)


def renew_node(tensor: Tensor, view: View) -> None:
    """Give a view a node that leads to its base's present history."""
    refuse_function_view(tensor, view, through_base=True)
    if view.made in ("no_grad", "inference"):
        raise RuntimeError(errors.no_grad_view(view.made, made_by(tensor), through_base=True))
    base = view.base
    steps = view.steps
    replays = MODES.replays_views or steps[-1][0] in (conjugated, negated)
    if replays and all(op is not None for _, _, op in steps):
        node, output_nr = replayed(base, steps)
        view.version = tensor._counter[0]
        move_retained(tensor, node, output_nr)
        tensor._node, tensor._output_nr = node, output_nr
        return
    array = base._array
    plan = make_plan_cached(AS_STRIDED, (base,), (steps,), array)
    node = _new(AS_STRIDED.node_class)
    node._plan, node._saved = plan, ()
    number(node)
    node._edges = (edge(base),)
    view.version = tensor._counter[0]
    move_retained(tensor, node)
    tensor._node, tensor._output_nr = node, 0


def replayed(base: Tensor, steps: Steps) -> tuple[GraphNode, int]:
    """Replay a view of a base step by step; returns the last node, and the output number of the
    view.
    """
    recording, MODES.recording = MODES.recording, True
    try:
        made = base
        for _, params, op in steps:
            assert op is not None
            made = apply(op, (made,), params)
    finally:
        MODES.recording = recording
    assert made._node is not None
    return made._node, made._output_nr


def make_plan_cached(
    op: Op, operands: tuple[Any, ...], params: tuple[Any, ...], array: Array
) -> OpPlan:
    """Return the plan of an op of one operand that requires grad."""
    key = (op, params, array.shape, array.dtype, 1)
    return PLANS.get(key) or make_plan(key, operands, 1)


# -- writing ---------------------------------------------------------------------------------------


@final
class CopySlices(Case):
    """Case of an in-place operation on a view: operand 0 is the base; the view's former value may
    be saved.

    Args:
        inner: the operation.
        steps: view operations from the base to the view.
        specs, params, active: see `Case`.
    """

    __slots__ = ("inner", "steps")

    def __init__(
        self,
        inner: Op,
        steps: Steps,
        specs: tuple[Any, ...],
        params: tuple[Any, ...],
        active: tuple[bool, ...],
    ) -> None:
        self.inner, self.steps = inner, steps
        super().__init__(COPY_SLICES, specs, params, active)

    @property
    def edges(self) -> tuple[int | None, ...]:
        """Operand of each edge, as in the inner operation, with the base as first operand."""
        edges = self.inner.edges
        return tuple(range(len(self.specs))) if edges is None else edges

    def saveable(self, operands: int, results: int) -> list[tuple[str, int]]:
        """Return the values that may be saved, by name; the view's former value has the index after
        the operands.
        """
        count = len(self.specs)
        named = [(name, p or count) for name, p in self.inner.saves if 0 <= p < count]
        if all(p != count for _, p in named):
            named.append(("self", count))
        return named + self.numbers({p for _, p in named})

    def record(self) -> RecordedCase:
        """Trace the new value of the base."""
        inner = self.inner
        with ArrayRecording("CopySlices", keeps_source=False) as recording:
            base = recording.new_input(self.specs[0])
            former = part(base, self.steps)
            given, variables = self.inputs(recording, self.specs[1:])
            specs = (former.aval, *self.specs[1:])
            function = (
                inner.function if inner.promote is None else inner.promote(inner.function, specs)
            )
            value = fitted((inner.derived or function)(former, *given, *self.params), former)
            result = with_part(base, self.steps, value)
            if not isinstance(
                result, Tracer
            ):  # a full overwrite does not depend on the former value
                result = recording.handle(recording.capture(result))
            program = recording.program((result.ft_variable,), name="CopySlices")
            return RecordedCase(
                program, [base.ft_variable, *variables, former.ft_variable], many=False
            )


def fitted(value: Array, target: Array) -> Any:
    """Convert a result to the dtype of the tensor to write."""
    return value if value.dtype == target.dtype else convert(value, target.dtype)


COPY_SLICES = Op("CopySlices", part)


@functools.lru_cache(maxsize=1024)
def in_place_form(op: Op) -> Op:
    """Return the op of the in-place form: the same, but the result has the tensor's dtype."""

    def promote(function: Callable[..., Any], specs: Sequence[Any]) -> Callable[..., Any]:
        if op.promote is None:
            return function
        promotion = (
            op.promote
            if isinstance(op.promote, Promotion) and not op.promote.returns_bool
            else None
        )
        try:
            inner = op.promote(function, specs)
        except NotImplementedError:
            if promotion is not None:
                check_kind(promotion, specs)  # PyTorch checks this before the kernel's dtype
            raise
        if promotion is not None:
            check_kind(promotion, specs)
        if isinstance(inner, Elementwise) and not inner.many:
            plain = [spec[0] if type(spec) is tuple else spec for spec in specs]
            if inner.aval(*plain) is specs[0]:
                return inner

        def computed(*given: Any) -> Any:
            result = inner(*given)
            return result if result.dtype == specs[0].dtype else convert(result, specs[0].dtype)

        return computed

    return dataclasses.replace(op, promote=promote, is_view=False, in_rows=False)


def write(
    op: Op,
    operands: tuple[Any, ...],
    params: tuple[Any, ...] = (),
    overwrite: Callable[[], object] | None = None,
) -> Tensor:
    """Apply an op in place: the first operand, a tensor, gets the result.

    Args:
        op: the op.
        operands: the tensor, and the other operands.
        params: static parameters.
        overwrite: writes the result into the tensor's memory, instead of computing it here: used
            by dispatch modes.

    Raises:
        RuntimeError: for a leaf that requires grad, a view of one, a result of another shape or
            kind.
    """
    if DUALS.level is not None and DUALS.level.concerns(operands):
        return DUALS.level.write(op, operands, params)
    if MODES.dispatch is not None and overwrite is None:
        return MODES.dispatch.write(op, operands, params)
    tensor, others = operands[0], operands[1:]
    if KINDS and any(
        isinstance(x, Tensor) and type(x._array) is StoragelessArray for x in operands
    ):
        refuse_write(type(tensor).__name__)
    if isinstance(tensor._array, Tracer):
        return write_traced(op, tensor, others, params)
    mask = wanting(operands)
    arrays = [x._array if isinstance(x, Tensor) else x for x in operands]
    for array in arrays:
        if type(array) is not np.ndarray and isinstance(array, Tracer):
            del arrays[:]  # they would keep the memory alive
            become_traced(tensor, array)
            return write_traced(op, tensor, others, params)
    target = arrays[0]
    view = tensor._view
    if op.moves:
        check_memory(target, others, arrays[1:], moves=True)
    elif not op.repeats:
        check_memory(target, operands, arrays)
    plan = find_plan(in_place_form(op), operands, params, mask)
    if plan is None:
        plain = tuple(number_of(x) for x in others)
        for k, x in enumerate(plain):
            if not isinstance(x, Tensor) and type(x) not in NUMBERS:
                raise TypeError(errors.argument_type_in_place(op.node, k, len(operands), x))
        return write(op, (tensor, *plain), params, overwrite)
    chosen: OpPlan = plan
    if plan.derivation is not None and view is not None:
        chosen = slices_plan(op, view, operands, params, mask)
    node = begin(chosen, tensor, others, arrays) if plan.derivation is not None else None
    # The result is like the tensor then: see `in_place_form`.
    writes = type(plan.evaluate) in (np.ufunc, ParallelUfunc) and op.promote is not None
    if writes and (plan.evaluate is np.negative or type(plan.evaluate) is ParallelUfunc):
        writes = (
            target.flags.c_contiguous
        )  # NumPy 2.4's negative reads wrong elements at write strides of 16 or 64 bytes
    result = target if writes or overwrite is not None else plan.compute(arrays)
    if result.shape != target.shape:
        raise RuntimeError(errors.output_shape(target.shape, result.shape))
    counter = tensor._counter
    if counter is UNVERSIONED or MODES.watches:
        counter = before_write(tensor)
    if overwrite is not None:
        overwrite()
    elif writes:
        plan.compute((*arrays, writable(target)))
    else:
        writable(target)[...] = result
    if MIRRORS:
        refresh(target)
    counter[0] += 1
    if node is not None:
        end(chosen, node, tensor if view is None else view.base)
    return tensor


def wanting(operands: Sequence[Any]) -> int:
    """Return a bit mask of the operands of an in-place operation that require grad; the first is
    the tensor to write.

    Raises:
        RuntimeError: if it may not be overwritten then; see `check_writable`.
    """
    mask = 0
    if MODES.recording:
        for k, x in enumerate(operands):
            if isinstance(x, Tensor) and x.requires_grad:
                mask |= 1 << k
        if mask:
            check_writable(operands[0])
    return mask


def find_plan(
    op: Op, operands: tuple[Any, ...], params: tuple[Any, ...], mask: int
) -> OpPlan | None:
    """Return the plan of an op, made or cached; None if an operand is neither a tensor nor a
    Python number.
    """
    key: list[Any] = [op, params]
    is_storageless = False
    for x in operands:
        if isinstance(x, Tensor):
            key.append(x._array.shape)
            key.append(x._array.dtype)
            is_storageless = is_storageless or type(x._array) is StoragelessArray
        elif type(x) in NUMBERS:
            key.append((type(x), x) if op.static_numbers else type(x))
        else:
            return None
    key.append(mask)
    if is_storageless:  # a plan of its own, whose backward runs on tensors
        key.append(StoragelessArray)
    found = tuple(key)
    plan = PLANS.get(found) or make_plan(found, operands, mask)
    if is_storageless:
        plan.pull_fast = None
    return plan


def check_writable(tensor: Tensor) -> None:
    """Refuse to overwrite leaves that require grad, their views, and views with an ambiguous
    history.
    """
    view = tensor._view
    if view is not None:
        refuse_function_view(tensor, view, through_base=False)
        if view.made:
            raise RuntimeError(errors.no_grad_view(view.made, made_by(tensor)))
        if tensor.requires_grad and view.base.is_leaf:
            raise RuntimeError(errors.VIEW_OF_LEAF_IN_PLACE)
    if tensor.requires_grad and tensor.is_leaf:
        raise RuntimeError(errors.LEAF_IN_PLACE)


def check_kind(promote: Promotion, specs: Sequence[Any]) -> None:
    """Refuse operands whose result is larger, or of a higher kind, than the tensor: integers do not
    become floats.
    """
    shapes = [s.shape for s in specs if isinstance(s, ShapeDtype)]
    for shape in shapes[1:]:
        check_broadcast(shapes[0], shape)
    full = np.broadcast_shapes(*shapes)
    if full != shapes[0]:
        raise RuntimeError(errors.output_shape(shapes[0], full))
    given = promote.dtype(specs)
    if RANK[given.kind] > RANK[specs[0].dtype.kind]:
        raise RuntimeError(
            errors.result_cast(DTYPES[given].printed, DTYPES[specs[0].dtype].printed)
        )


def begin(plan: OpPlan, tensor: Tensor, others: tuple[Any, ...], arrays: list[Any]) -> OpNode:
    """Make the node of an in-place operation and save its operands, before anything is
    overwritten.

    If the derivative needs the former value, a copy is saved, as in PyTorch. The other operands
    are saved as they are: if one is the tensor itself, or shares its memory, backward detects that
    it was overwritten.
    """
    view = tensor._view
    target = tensor if view is None else view.base
    former: Tensor | None = None
    case, derivation = plan.case, plan.derivation
    node = _new(case.op.node_class)
    node._plan = plan
    number(node)
    operands = (target, *others)
    node._edges = tuple([NO_EDGE if k < 0 else edge(operands[k]) for k in derivation.edge_to])
    saved: list[Any] = []
    for _, p in derivation.saves:
        x = operands[p] if 0 <= p < len(operands) else tensor
        if p < 0:
            saved.append(None)
        elif not isinstance(x, Tensor):
            saved.append(arrays[p])
        elif p == 0 or p == len(operands):
            if former is None:
                former = wrap(tensor._array.copy())
                former._node, former._output_nr = tensor.grad_fn, tensor._output_nr
                if DUALS.level is not None:
                    DUALS.level.keep_former(former, tensor)
            saved.append(SavedTensor(former, False, node))
        else:
            saved.append(save_operand(x, node, saved))
    node._saved = tuple(saved)
    return node


def end(plan: OpPlan, node: OpNode, target: Tensor) -> None:
    """Make the overwritten tensor (the base, for a view) the output of the node, and save it if
    needed.
    """
    move_retained(target, node)
    target._node, target._output_nr, target._requires = node, 0, False
    if node._saved is not None and None in node._saved:
        node._saved = tuple(
            [SavedTensor(target, True, node) if s is None else s for s in node._saved]
        )


def slices_plan(
    op: Op, view: View, operands: tuple[Any, ...], params: tuple[Any, ...], mask: int
) -> OpPlan:
    """Return the plan of an in-place op on a view; its base is active if the view or the
    base was.
    """
    base = view.base._array
    active = view.base.requires_grad
    specs: list[Any] = [ShapeDtype(base.shape, base.dtype)]
    for x in operands[1:]:
        if isinstance(x, Tensor):
            specs.append(ShapeDtype(x._array.shape, x._array.dtype))
        else:
            specs.append((type(x), x) if op.static_numbers else type(x))
    key = (COPY_SLICES, op, view.steps, params, tuple(specs), mask, active)
    found = PLANS.get(key)
    if found is None:
        flags = tuple(
            active
            if k == 0
            else bool(mask >> k & 1)
            and isinstance(s, ShapeDtype)
            and s.dtype.kind in "fcV"
            and (op.edges is None or k in op.edges)
            for k, s in enumerate(specs)
        )
        found = OpPlan(CopySlices(op, view.steps, tuple(specs), params, flags))
        found.is_freed = True
        PLANS.add(key, found)
    return found


def move_retained(tensor: Tensor, node: GraphNode, output_nr: int = 0) -> None:
    """Move ``retain_grad`` to the newest node of a tensor."""
    if tensor._retains:
        before = tensor._node
        if before is not None and before is not node and before._retained:
            before._retained = {k: r for k, r in before._retained.items() if r() is not tensor}
        node._bare = False
        node._retained = {**(node._retained or {}), output_nr: weakref.ref(tensor)}


def write_traced(
    op: Op, tensor: Tensor, others: tuple[Any, ...], params: tuple[Any, ...]
) -> Tensor:
    """Apply an op in place to a tensor that holds a traced value; the tensor and its base get new
    traced values.
    """
    operands = (tensor, *others)
    mask = wanting_traced(operands)
    if mask:
        check_writable(tensor)
    if MODES.pairs and is_packed(op, operands, params):
        result = apply(op, operands, params)._array
    else:
        result = compute_traced(op, traced_values(op, operands), params)
    if result.shape != tensor._array.shape:
        raise RuntimeError(errors.output_shape(tensor._array.shape, result.shape))
    node, plan, view = None, None, tensor._view
    if mask:
        tensors = tuple(
            [wrap(x) if isinstance(x, (Tracer, np.ndarray, np.generic)) else x for x in operands]
        )
        if view is None:
            plan, _ = traced_plan(in_place_form(op), tensors, params, mask)
        else:
            plan = slices_plan(op, view, tensors, params, mask)
        if plan.derivation is not None:
            node = begin(
                plan,
                tensor,
                tensors[1:],
                [x._array if isinstance(x, Tensor) else x for x in tensors],
            )
            node.__class__ = of_traced(plan.case.op.node_class)
    counter = before_write(tensor)
    replace(tensor._array, fitted(result, tensor._array))
    counter[0] += 1
    if node is not None and plan is not None:
        end(plan, node, tensor if view is None else view.base)
    return tensor


def become_traced(tensor: Tensor, like: Tracer) -> None:
    """Convert a tensor to a traced value, because a traced value is written into it.

    Raises:
        LostGradientError: if it is from outside, or another object shares its memory and would not
            get the write.
    """
    refuse_outside(tensor, like)
    view = tensor._view
    base = tensor if view is None else view.base
    array = base._array
    if view is not None:
        tensor._array = None  # it refers to the memory, too
    if not is_alone(array):
        raise LostGradientError(
            f"a traced value is written into a tensor of {array.dtype} whose memory another object "
            "shares: another tensor, "
            "or an array",
            fix="make the tensor inside the function (torch.zeros_like(x)), or write into a clone "
            "of it",
        )
    base._array = traced_of(array, like)
    if view is not None:
        shows = base._array
        for function, params, _ in view.steps:
            shows = shown(shows, function, params)
        tensor._array = shows


# -- for Functions ---------------------------------------------------------------------------------


class CopySlicesOf(NativeNode):
    """The node of a base after a user's Function has overwritten a view of it: applies the
    Function's node to a part.
    """

    _is_freed = False

    def __init__(self, node: GraphNode, base: Tensor, steps: Steps) -> None:
        self.node, self.steps = node, steps
        number(self)
        self._sequence = node._sequence
        self._aval = ShapeDtype(base._array.shape, base._array.dtype)
        self._edges = (edge(base), *node._edges[1:])

    def output_avals(self) -> Sequence[ShapeDtype]:
        """Return shape and dtype of the base."""
        return (self._aval,)

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Run the Function's node on the part of the gradient that it wrote, and replace that part
        by its result.
        """
        gradient = grads[0]
        if self._is_freed:
            raise RuntimeError(errors.BACKWARD_TWICE)
        if gradient is None:
            return [None] * len(self._edges)
        shown = apply(PART, (gradient,), (self.steps,))
        results = list(self.node.run([shown]))
        inner = wrap(np.zeros_like(shown._array)) if results[0] is None else results[0]
        return [apply(WITH_PART, (gradient, inner), (self.steps,)), *results[1:]]

    def release(self) -> None:
        """Free the tensors that the Function saved."""
        self._is_freed = True
        self.node.release()


CopySlicesOf.__name__ = CopySlicesOf.__qualname__ = "CopySlices"
PART = Op("AsStridedBackward0", part)
WITH_PART = Op(
    "AsStridedScatterBackward0", lambda base, value, steps: with_part(base, steps, value)
)


def rebase_history(tensor: Tensor, node: GraphNode, output_nr: int) -> None:
    """Make an overwritten tensor an output of the node; for a view, its base."""
    view = tensor._view
    if view is None:
        move_retained(tensor, node, output_nr)
        tensor._node, tensor._output_nr, tensor._requires = node, output_nr, False
        return
    slices = CopySlicesOf(node, view.base, view.steps)
    attach((view.base,), slices)
    view.base._requires = False
    view.version = -1


def made_by(tensor: Tensor) -> str:
    """Describe the function and output number of a tensor; empty for one without node."""
    node = tensor._node
    return "" if node is None else f"Output {tensor._output_nr} of {short_name(node)}"


def refuse_function_view(tensor: Tensor, view: View, *, through_base: bool) -> None:
    """Refuse to lose the backward of a user's Function, whose output the view is."""
    if view.made in ("custom", "multiple"):
        several = view.made == "multiple"
        raise RuntimeError(
            errors.view_of_function(made_by(tensor), several=several, through_base=through_base)
        )
