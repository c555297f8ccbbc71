"""Forward-mode AD: the tangents of operations' results.

Inside a level, an operation on dual tensors is computed as usual, and its tangent by a program of
the core (`functrace.transforms.tangent_program`), a `TangentPlan`. The program is evaluated on
tensors if anything requires grad, so that tangents have their own history and backward
differentiates them.

The tangent of a view is a view of the tangent, made by the same steps; an in-place operation
overwrites the tangent in place. So tangents share memory where their tensors do. A tensor without
tangent that is a view of a dual tensor has a view of its tangent (`LevelState.tangent_of`); writing
dual values into a view gives the base a tangent, which is zero elsewhere.

Layer: 9.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from functrace.caches import BoundedCache, CacheEntry
from functrace.executor import Runner
from functrace.ir.aval import ShapeDtype
from functrace.ir.program import Program
from functrace.torch import errors
from functrace.torch.autograd.custom import FunctionBase
from functrace.torch.autograd.custom_tangents import push_function
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.graph import OpNode
from functrace.torch.autograd.saved import SavedTensor
from functrace.torch.dispatch.applying import Op, apply, evaluate_on_tensors
from functrace.torch.dispatch.derivation import Case, through_views
from functrace.torch.dispatch.dual import AliasOf, Dual, forward_base, hidden, is_forward_enabled
from functrace.torch.dispatch.plans import MOST_BYTES, MOST_PLANS
from functrace.torch.tensors.mirrors import is_conjugate, is_negative
from functrace.torch.tensors.steps import Steps, view_written
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.torch.tensors.views import in_place_form, write
from functrace.tracing import Tracer
from functrace.transforms import tangent_program
from functrace.typing import Array

Tangents = list[Tensor | None]


# -- the tangent of one operation ------------------------------------------------------------------


@final
class TangentPlan(CacheEntry):
    """Computation of an op's tangents, for one combination of operands and of those that have
    tangents.

    Args:
        case: the op and its operands; those with tangents are active.
        reads_results: True if the results may be read: not if they overwrite the operands.
    """

    __slots__ = ("_runner", "_shares", "pushed", "pushes", "reads")

    def __init__(self, case: Case, *, reads_results: bool) -> None:
        super().__init__()
        program, operands, _ = case.record()
        outputs = [program.avals[i] for i in program.output_ids]
        self.pushes = [
            k for k, a in enumerate(outputs) if a.dtype.kind in "fcV" and k not in case.op.constants
        ]
        """Results that have tangents."""
        if not self.pushes:
            return
        wanted = tuple([program.output_ids[k] for k in self.pushes])
        candidates = {variable: k for k, variable in enumerate(operands) if variable is not None}
        if reads_results:
            for k, variable in enumerate(program.output_ids):
                candidates.setdefault(variable, ~k)
        flags = [
            case.active[k]
            for k, variable in enumerate(operands[: len(case.specs)])
            if variable is not None
        ]
        part = Program(
            program.ops,
            program.avals,
            program.literals,
            program.input_ids,
            program.constant_values,
            wanted,
        )
        self.pushed, needed = tangent_program(part, flags, tuple(candidates))
        self.reads = [candidates[i] for i in needed]
        self._shares = [is_shown(self.pushed, i) for i in self.pushed.output_ids]
        self._runner = Runner(self.pushed)

    def push(
        self, operands: Sequence[Any], results: Sequence[Tensor], tangents: Sequence[Tensor]
    ) -> list[Tensor]:
        """Return the tangents of the results at ``pushes``, from those of the active operands."""
        values: list[Any] = [results[~p] if p < 0 else operands[p] for p in self.reads]
        values += tangents
        tensors = [x for x in values if isinstance(x, Tensor)]
        avals = [self.pushed.avals[i] for i in self.pushed.input_ids[len(self.reads) :]]
        recorded = MODES.recording and any(x.requires_grad for x in tensors)
        traced = any(isinstance(x._array, Tracer) for x in tensors)
        if (
            recorded
            or traced
            or any(t._array.dtype != a.dtype for t, a in zip(tangents, avals, strict=True))
        ):
            found = [
                x if isinstance(x, Tensor) else wrap(x)
                for x in evaluate_on_tensors(self.pushed, values)
            ]
            return [
                x.clone() if shares else x for x, shares in zip(found, self._shares, strict=True)
            ]
        with np.errstate(all="ignore"):
            arrays = self._runner([x._array if isinstance(x, Tensor) else x for x in values])
        return [wrap(a) for a in arrays]  # (which share no memory)


def is_shown(program: Program, output: int) -> bool:
    """Return True if an output is an input or a constant of the program, or a view of one."""
    return (
        through_views(program, output, {*program.input_ids, *program.constant_values}) is not None
    )


def find_plan(
    op: Op,
    operands: Sequence[Any],
    params: tuple[Any, ...],
    tangents: Tangents,
    reads_results: bool,
) -> TangentPlan:
    """Return the plan of the tangents of an op, made or cached."""
    specs = tuple([_spec(op, x) for x in operands])
    mask = tuple([t is not None for t in tangents])
    key = (op, params, specs, mask, reads_results)
    found = TANGENTS.get(key)
    if found is None:
        found = TangentPlan(Case(op, specs, params, mask), reads_results=reads_results)
        TANGENTS.add(key, found)
    return found


TANGENTS: BoundedCache[TangentPlan] = BoundedCache(
    "tangents of tensor operations", MOST_BYTES, MOST_PLANS
)


def _spec(op: Op, x: Any) -> Any:
    if isinstance(x, Tensor):
        return ShapeDtype(x._array.shape, x._array.dtype)
    return (type(x), x) if op.static_numbers else type(x)


# -- views -----------------------------------------------------------------------------------------


def _same(array: Any) -> Any:
    return array


view_written(_same, lambda base, value: value)
MAKE_DUAL = Op("ViewBackward0", _same, is_view=True)
PRIMAL = Op("CppFunction", _same, is_view=True)
PRIMAL.node_class.name = lambda self: "torch::autograd::Identity"  # type: ignore[method-assign]


def alias_of(tensor: Tensor, op: Op) -> Tensor:
    """Return an alias of a tensor that shares its memory and history, but not its tangent."""
    with hidden():
        made = apply(op, (tensor,))
    view = made._view
    if view is None:  # of an inference tensor, whose views have no history
        return made
    view.steps = (*view.steps[:-1], (AliasOf(made), (), op))
    return made


view_written(AliasOf(wrap(np.zeros(()))), lambda base, value: value)  # type: ignore[arg-type]


@functools.lru_cache(maxsize=256)
def _step(function: Callable[..., Any]) -> Op:
    return Op("AsStridedBackward0", function, is_view=True)


def shown(tensor: Tensor, steps: Steps) -> Tensor:
    """Apply view steps to a tensor."""
    for function, params, op in steps:
        tensor = apply(_step(function) if op is None else op, (tensor,), params)
    return tensor


def has_same_layout(a: Tensor, b: Tensor) -> bool:
    """Return True if two tensors have the same sizes, strides, and offset in memory of the same
    size.
    """
    x, y = a._array, b._array
    if isinstance(x, Tracer) or isinstance(y, Tracer):
        return True
    is_same_kind = is_conjugate(x) == is_conjugate(y) and is_negative(x) == is_negative(y)
    return x.shape == y.shape and is_same_kind and _layout(x) == _layout(y)


def _layout(array: Array) -> tuple[int, int, tuple[int, ...]]:
    size = array.itemsize
    owner = array.base if isinstance(array.base, np.ndarray) else array
    first = (array.__array_interface__["data"][0] - owner.__array_interface__["data"][0]) // size
    steps = tuple([s // size for s, n in zip(array.strides, array.shape, strict=True) if n != 1])
    return owner.nbytes // size, first, steps


def zeros_like_in_memory(tensor: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Return zeros with the memory layout of a tensor."""
    array = tensor._array
    if isinstance(array, Tracer) or 0 in array.shape or any(s <= 0 for s in array.strides):
        return wrap(np.zeros(array.shape, dtype))
    size, first, _ = _layout(array)
    strides = [s // array.itemsize * dtype.itemsize for s in array.strides]
    return wrap(
        np.ndarray(array.shape, dtype, np.zeros(size, dtype), first * dtype.itemsize, strides)
    )


# -- the level -------------------------------------------------------------------------------------


@final
class LevelState:
    """The current level: the tangents of its tensors, and the operations on them."""

    def __init__(self) -> None:
        self._duals: weakref.WeakSet[Dual] = weakref.WeakSet()

    def close(self) -> None:
        """Drop all tangents."""
        for dual in list(self._duals):
            dual.tangent = None

    # -- tangents of tensors -----------------------------------------------------------------

    def tangent_of(self, tensor: Tensor) -> Tensor | None:
        """Return the tangent of a tensor, if it has one; for a view of a dual tensor, a view of
        that tensor's tangent.
        """
        if not is_forward_enabled():
            return None
        dual = tensor._dual
        if dual is not None and dual.tangent is not None:
            return dual.tangent
        below = forward_base(tensor)
        if below is None or below[0] is tensor or tensor._array.dtype.kind not in "fcV":
            return None
        tangent = self.tangent_of(below[0])
        if tangent is None:
            return None
        with hidden():
            tangent = shown(tangent, below[1])
        self._keep(tensor, tangent)
        return tangent

    def set_tangent(self, tensor: Tensor, tangent: Tensor) -> None:
        """Set the tangent of a tensor; it is copied unless it has the tensor's memory layout.

        Raises:
            RuntimeError: if the tangent has one itself, or another shape.
        """
        if self.tangent_of(tangent) is not None:
            raise RuntimeError(errors.TANGENT_OF_TANGENT)
        if tangent._array.shape != tensor._array.shape:
            raise RuntimeError(errors.tangent_size(tensor._array.shape, tangent._array.shape))
        if not has_same_layout(tensor, tangent):
            with hidden():
                tangent = zeros_like_in_memory(tensor, tangent._array.dtype).copy_(tangent)
        self._keep(tensor, tangent)

    def set_tangent_in_place(self, tensor: Tensor, tangent: Tensor) -> None:
        """Set the tangent of an overwritten tensor; the base of a view gets one too, zero
        elsewhere.
        """
        below = forward_base(tensor)
        if below is not None and self.tangent_of(below[0]) is None:
            base, steps = below
            if has_same_layout(tangent, base) and has_same_layout(tangent, tensor):
                whole = tangent
            else:
                whole = zeros_like_in_memory(base, tangent._array.dtype)
                with hidden():
                    tangent = shown(whole, steps).copy_(tangent)
            self.set_tangent(base, whole)
        self.set_tangent(tensor, tangent)

    def _keep(self, tensor: Tensor, tangent: Tensor) -> None:
        dual = tensor._dual = Dual(tangent)
        self._duals.add(dual)

    # -- operations --------------------------------------------------------------------------

    def concerns(self, operands: Sequence[object]) -> bool:
        """Return True if forward mode is on and one of the operands has a tangent."""
        return is_forward_enabled() and any(
            isinstance(x, Tensor) and self.tangent_of(x) is not None for x in operands
        )

    def apply(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Apply an op, and set the tangents of its results."""
        tangents = [self.tangent_of(x) if isinstance(x, Tensor) else None for x in operands]
        refuse_outer(operands, tangents)
        with hidden():
            made = apply(op, operands, params)
            results = made if isinstance(made, tuple) else (made,)
            if not isinstance(results[0], Tensor):
                raise TypeError(errors.DUAL_AMONG_ARRAYS)
            if op.is_view:
                pushed = {0: apply(op, (tangents[0],), params)}
            else:
                pushed = self._pushed(op, operands, params, tangents, results)
        for k, tangent in pushed.items():
            self.set_tangent(results[k], tangent)
            keep_with_saved(results[k])
        return made

    def _pushed(
        self,
        op: Op,
        operands: tuple[Any, ...],
        params: tuple[Any, ...],
        tangents: Tangents,
        results: Sequence[Tensor] | None,
    ) -> dict[int, Tensor]:
        """Return the tangents of results by index; ``results`` are None if they overwrite the
        operands.
        """
        plan = find_plan(op, operands, params, tangents, results is not None)
        if not plan.pushes:
            return {}
        given = [t for t in tangents if t is not None]
        return dict(zip(plan.pushes, plan.push(operands, results or (), given), strict=True))

    def write(self, op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Tensor:
        """Apply an op in place, to the tangent too."""
        tensor = operands[0]
        tangents = [self.tangent_of(x) if isinstance(x, Tensor) else None for x in operands]
        refuse_outer(operands, tangents)
        with hidden():
            before = tuple(
                [
                    x.clone() if isinstance(x, Tensor) and shares_memory(x, tensor) else x
                    for x in operands
                ]
            )
            former = tangents[0]
            if former is not None and MODES.recording:  # nodes save the overwritten value
                tangents = [
                    t if t is None or not shares_memory(t, former) else t.clone() for t in tangents
                ]
            write(op, operands, params)
            pushed = self._pushed(in_place_form(op), before, params, tangents, None)
            if former is not None and pushed:
                former.copy_(pushed[0])
        if former is None and pushed:
            self.set_tangent_in_place(tensor, pushed[0])
        for written in (tensor, *(() if tensor._view is None else (tensor._view.base,))):
            keep_with_saved(written)
        return tensor

    def keep_former(self, former: Tensor, tensor: Tensor) -> None:
        """Set a copy of the tangent on the copy of a tensor that is about to be overwritten."""
        tangent = tensor._dual and tensor._dual.tangent
        if tangent is not None:
            self._keep(former, tangent.clone())

    # -- Functions ---------------------------------------------------------------------------

    def push_function(
        self,
        ctx: FunctionBase,
        args: Sequence[object],
        raw: Sequence[object],
        outputs: Sequence[object],
    ) -> None:
        """Set the tangents returned by the ``jvp`` of a user's Function on its outputs; see
        custom_tangents.py.
        """
        if is_forward_enabled():
            push_function(self, ctx, args, raw, outputs)


def refuse_outer(operands: Sequence[Any], tangents: Tangents) -> None:
    """Refuse a dual tensor captured by a function under a transform: its tangent would not leave
    the transform.

    Raises:
        NotImplementedError: with the fix.
    """
    if not any(
        isinstance(x, Tracer) or (isinstance(x, Tensor) and isinstance(x._array, Tracer))
        for x in operands
    ):
        return
    for x, tangent in zip(operands, tangents, strict=True):
        if (
            tangent is not None
            and not isinstance(x._array, Tracer)
            and not isinstance(tangent._array, Tracer)
        ):
            raise NotImplementedError(errors.DUAL_CLOSED_OVER)


def shares_memory(a: Tensor, b: Tensor) -> bool:
    """Return True if two tensors may share memory."""
    if a is b or isinstance(a._array, Tracer) or isinstance(b._array, Tracer):
        return a is b
    return np.may_share_memory(a._array, b._array)


def keep_with_saved(tensor: Tensor) -> None:
    """Store the tangent of this result with the result itself, if its operation's node saves
    that.
    """
    node = tensor._node
    if isinstance(node, OpNode):
        for saved in node._saved or ():
            if isinstance(saved, SavedTensor):
                saved.keep_tangent(tensor)
