"""Ops, and their application: one plan lookup, one NumPy call and one node.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functrace.caches import shared
from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops import elementwise as ew
from functrace.ops.contraction import matmul_p
from functrace.ops.edges import complex_power
from functrace.ops.elementwise import Elementwise
from functrace.ops.indexing import index_p
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import broadcast_to_p, convert_p
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.graph import NODE_NAMES, OpNode, node_class
from functrace.torch.dispatch.applying_traced import apply_traced
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.dispatch.numbers import NUMBERS, number_of
from functrace.torch.dispatch.plans import PLANS, OpPlan
from functrace.torch.dispatch.promotion import Promote, broadcasting
from functrace.torch.dispatch.quiet import QUIET
from functrace.torch.dispatch.recording import record
from functrace.torch.dispatch.sizes import make_plan
from functrace.torch.tensors.tensor import UNVERSIONED, Operand, Tensor, Value, view_of, wrap
from functrace.tracing import Tracer, bind
from functrace.tracing.binding import STARTED
from functrace.tracing.evaluate import evaluate_program
from functrace.typing import Array

_new = object.__new__
_ndarray = np.ndarray
_plans, _tick = PLANS.entries, PLANS.tick  # `PLANS.get` inlined: a method call costs 0.1 us


@shared
@dataclass(eq=False, repr=False)
class Op:
    """One operation on tensors: its names, its function, and the tensors that PyTorch saves for its
    derivative.

    Its public names are declared in a row (rows.py).

    Args:
        node: PyTorch's name of its node.
        function: computes it from arrays or traced values: ``function(*operands, *params)``.
        saves: saved tensors in PyTorch's order: field name, and index of the operand (0, 1 …) or
            result (-1, -2 …). Those that the derivative does not need in a given case (an operand
            whose partner requires no gradient) are not saved.
        promote: dtype promotion of the operands; see promotion.py.
        edges: operands that PyTorch lists in ``next_functions`` (``None``: an edge without a node);
            all by default.
        keeps: fields that PyTorch saves even if the derivative does not need them.
        is_view: True if the result is a view of the first operand.
        constants: results that PyTorch does not differentiate.
        static_numbers: True if Python numbers among the operands are part of the plan.
        details: further ``_saved_…`` fields, from ``(operand avals, params)``.
        derived: function to differentiate in place of ``function``, if PyTorch differentiates
            another one.
        repeats: True if the in-place form may write to elements that share memory, since it writes
            equal values to them.
        measures: True if the ints among its parameters are sizes and positions; see patterns.py.
        gradient: op that computes the gradient of one operand under ``create_graph``, if PyTorch
            has one such op; see `recorded_gradient`. Otherwise, and for several operands, each
            equation of the backward program is an op.
        in_rows: True if results are in C order for every memory layout of the operands; otherwise
            they have NumPy's layout.
        seen: operand order of PyTorch's iterator, if it differs; see `laid`.
        apart: True if results are differentiated one by one: an unused result contributes nothing,
            and not 0 times infinity.
        moves: True if indices say where elements are written: in place, no operand may share memory
            with the tensor.
        called: PyTorch's name of the operation, if it does not follow from the node's name.
        primitive: primitive of the core that it applies, if it was made for that; see `op_of`.
    """

    node: str
    function: Callable[..., Any]
    saves: tuple[tuple[str, int], ...] = ()
    promote: Promote | None = None
    edges: tuple[int | None, ...] | None = None
    keeps: tuple[str, ...] = ()
    is_view: bool = False
    static_numbers: bool = False
    details: Callable[..., dict[str, Any]] | None = None
    constants: tuple[int, ...] = ()
    derived: Callable[..., Any] | None = None
    repeats: bool = False
    measures: bool = False
    gradient: Op | None = None
    in_rows: bool = False
    seen: tuple[int, ...] | None = None
    apart: bool = False
    moves: bool = False
    called: str = ""
    primitive: Primitive | None = None
    node_class: type[OpNode] = field(init=False)

    def __post_init__(self) -> None:
        NODE_NAMES.add(self.node)

    def __getattr__(self, name: str) -> Any:
        if name == "node_class":  # made at the first use; (no property: it would cost every node)
            found = self.node_class = node_class(self.node)
            return found
        raise AttributeError(f"'Op' object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<op {self.node}>"

    def pull_tensors(self, plan: OpPlan, saved: list[Any], grads: list[Any]) -> list[Tensor | None]:
        """Run the backward program of a plan of this op on tensors, which records it: equation by
        equation, or as one op.
        """
        if self.gradient is not None and sum(move is not None for move in plan.moves) == 1:
            result = apply(self.gradient, (grads[0], *saved), (plan,))
            made = [None if move is None else result for move in plan.moves]
            return made if plan.case.is_wide else with_dtypes(plan, made)
        selected = plan.derivation.selected
        if selected is not None:
            saved = [saved[k] for k in selected]
        results = iter(evaluate_on_tensors(plan.backward, [*saved, *grads]))
        made = [None if move is None else next(results) for move in plan.moves]
        return made if plan.case.is_wide else with_dtypes(plan, made)


def with_dtypes(plan: OpPlan, gradients: Sequence[Any]) -> list[Tensor | None]:
    """Return gradients in the dtypes of the operands: products of bfloat16 with others are
    float32.
    """
    made: list[Tensor | None] = []
    for k, x in zip(plan.case.edges, gradients, strict=True):
        dtype = None if x is None or k is None else plan.case.specs[k].dtype
        is_same = x is None or dtype is None or x._array.dtype == dtype
        made.append(x if is_same else apply(op_of(convert_p), (x,), (dtype,)))
    return made


def _gradient(gradient: Array, *saved_and_plan: Any) -> Any:
    *saved, plan = saved_and_plan
    selected = plan.derivation.selected
    chosen = saved if selected is None else [saved[k] for k in selected]
    others = [
        np.zeros(aval.shape, np.float32 if aval.dtype.kind == "V" else aval.dtype)
        for aval in plan.outputs[1:]
    ]
    return evaluate_program(plan.backward, [*chosen, gradient, *others])[0]


def recorded_gradient(node: str, *saves: tuple[str, int], **details: Any) -> Op:
    """Return the op for a gradient that PyTorch computes by one op, from output gradient, saved
    tensors and plan.

    It depends on all saved tensors, even if its derivative with respect to one is 0: its results
    require grad.
    """
    return Op(
        node,
        _gradient,
        saves,
        edges=(0, 1),
        details=lambda specs, params: params[0]._details() | details,
    )


OF_OUTPUT = ("grad_output", 0), ("output", 1)
"""``saves`` of the recorded gradient of a function that saves its output."""


# -- applying --------------------------------------------------------------------------------------


def apply(op: Op, operands: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Any:
    """Apply an op to tensors and numbers; returns a tensor (or a tuple), attached to the graph.

    Raw traced values and arrays, and tensors that hold traced values, are computed but not
    recorded here: they belong to a functional transform (`functrace.grad` …).
    """
    if DUALS.level is not None and DUALS.level.concerns(operands):
        return DUALS.level.apply(op, operands, params)
    if MODES.dispatch is not None:
        return MODES.dispatch.apply(op, operands, params)
    recording = MODES.recording
    if (
        len(operands) == 1
        and isinstance(x := operands[0], Tensor)
        and type(a := x._array) is _ndarray
    ):  # 0.4 us less
        is_active = recording and (
            x._node is not None or x._requires or (x._view is not None and x.requires_grad)
        )
        mask = 1 if is_active else 0
        found: tuple[Any, ...] = (op, params, a.shape, a.dtype, mask)
        arrays: Sequence[Any] = (a,)
    else:
        arrays = []
        key: list[Any] = [op, params]
        mask = 0
        bit = 1
        for x in operands:
            if isinstance(x, Tensor):
                a = x._array
                if type(a) is not _ndarray:
                    return apply_traced(op, operands, params)
                arrays.append(a)
                key.append(a.shape)
                key.append(a.dtype)
                if recording and (
                    x._node is not None or x._requires or (x._view is not None and x.requires_grad)
                ):
                    mask |= bit
            elif type(x) in NUMBERS:
                arrays.append(x)
                key.append((type(x), x) if op.static_numbers else type(x))
            else:
                return apply_others(op, operands, params)
            bit <<= 1
        key.append(mask)
        found = tuple(key)
    plan = _plans.get(found)
    if plan is None:
        plan = make_plan(found, operands, mask)
    plan.used = _tick()
    try:
        results = QUIET.run(plan.evaluate, *arrays, *params)
    except RuntimeError:
        results = plan.compute(arrays)
    if op.is_view:
        made: Any = view_of(operands[0], results, (op.function, params, op))
        if made._counter is UNVERSIONED:  # views of inference tensors have no history
            return made
    elif type(results) is tuple:
        made = tuple([wrap(r) for r in results])
    else:
        made = _new(Tensor)
        made._array = results if type(results) is _ndarray else np.asarray(results)
        if plan.laid_by is not None and not arrays[plan.laid_by].flags.c_contiguous:
            made._array = plan.lay(made._array, arrays)
        made._counter = [0, STARTED.newest]
    if plan.derivation is not None:
        if plan.record_fast is None or plan.record_fast(plan, operands, arrays, made) is None:
            record(plan, operands, arrays, made)
    elif recording is None and not op.is_view:
        for tensor in made if type(made) is tuple else (made,):
            tensor._counter = UNVERSIONED
    return made


def binary(op: Op) -> Callable[[Any, Any], Any]:
    """Return the operator of an op: `apply` for two operands, with the common case inlined.

    Measured on 4 elements: 2.2 us with a node, against 3.0 us for `apply`.
    """

    def operator(self: Tensor, other: Operand) -> Value:
        a = self._array
        kind = type(other)
        if (
            type(a) is not _ndarray
            or self._view is not None
            or DUALS.level is not None
            or MODES.dispatch is not None
        ):
            return (
                apply(op, (self, other))
                if isinstance(other, Tensor) or kind in NUMBERS
                else apply_other(op, self, other)
            )
        mask = 1 if self._node is not None or self._requires else 0
        if isinstance(other, Tensor):
            b = other._array
            if type(b) is not _ndarray or other._view is not None or not a.flags.c_contiguous:
                return apply(op, (self, other))
            if other._node is not None or other._requires:
                mask += 2
            recording = MODES.recording
            if not recording:
                if recording is None:
                    return apply(op, (self, other))
                mask = 0
            key = (op, (), a.shape, a.dtype, b.shape, b.dtype, mask)
        elif kind in NUMBERS and not op.static_numbers:
            b = other
            recording = MODES.recording
            if not recording:
                if recording is None:
                    return apply(op, (self, other))
                mask = 0
            key = (op, (), a.shape, a.dtype, kind, mask)
        else:
            return apply(op, (self, other)) if kind in NUMBERS else apply_other(op, self, other)
        plan = _plans.get(key)
        if plan is None:
            plan = make_plan(key, (self, other), mask)
        plan.used = _tick()
        try:
            result = QUIET.run(plan.evaluate, a, b)
        except RuntimeError:
            result = plan.compute((a, b))
        made = _new(Tensor)
        made._array = result if type(result) is _ndarray else np.asarray(result)
        made._counter = [0, STARTED.newest]
        if plan.derivation is not None and (
            plan.record_fast is None or plan.record_fast(plan, (self, other), (a, b), made) is None
        ):
            record(plan, (self, other), (a, b), made)
        return made

    return operator


def apply_other(op: Op, x: Any, y: Any) -> Any:
    """Apply an operator to a tensor and a traced value or another number; other types are
    refused.
    """
    number = number_of(y)
    return (
        apply(op, (x, number))
        if type(number) in NUMBERS or isinstance(y, Tracer)
        else NotImplemented
    )


def apply_others(op: Op, operands: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Apply an op to operands of which some are neither tensors nor Python numbers.

    Raises:
        TypeError: for a tensor with an array or anything else, unless a functional transform is
            active.
    """
    inside = [isinstance(x._array if isinstance(x, Tensor) else x, Tracer) for x in operands]
    if any(inside) or not any(isinstance(x, Tensor) for x in operands):
        return apply_traced(op, operands, params)
    plain = tuple(number_of(x) for x in operands)
    for k, x in enumerate(plain):
        if not isinstance(x, Tensor) and type(x) not in NUMBERS:
            raise TypeError(errors.argument_type(op.node, k, len(operands), x))
    return apply(op, plain, params)


# -- programs on tensors ---------------------------------------------------------------------------


def evaluate_on_tensors(program: Program, arguments: Sequence[Any]) -> list[Any]:
    """Evaluate a program on tensors: every equation is one op, recorded like any other."""
    results = evaluate_program(program, arguments, apply=apply_primitive)
    return [
        wrap(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in results
    ]  # constants, and numbers


def apply_primitive(
    primitive: Primitive, operands: tuple[Any, ...], params: tuple[Any, ...]
) -> Any:
    """Apply a primitive of the core to tensors, as one op."""
    for x in operands:
        if type(x) is not Tensor and isinstance(
            x, (np.ndarray, np.generic)
        ):  # constants, and NumPy scalars
            kinds = [x._array.dtype for x in operands if isinstance(x, Tensor)]
            values = [  # a number gets the dtype of a tensor; without one, it must keep its own
                (x.item() if x.dtype in kinds else np.asarray(x))
                if isinstance(x, np.generic)
                else x
                for x in operands
            ]
            operands = tuple([wrap(x) if isinstance(x, np.ndarray) else x for x in values])
            break
    if len(operands) == 2 and not params and isinstance(operands[0], Tensor):
        return binary_of(primitive)(*operands)
    return apply(op_of(primitive), operands, params)


_NODES: dict[Primitive, str] = {
    ew.power: "PowBackward0", ew.square: "PowBackward0", ew.absolute: "AbsBackward0",
    reduce_sum_p: "SumBackward1",
    matmul_p: "MmBackward0", broadcast_to_p: "ExpandBackward0", convert_p: "ToCopyBackward0",
    index_p: "SliceBackward0",
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def op_of(primitive: Primitive) -> Op:
    """Return the op that applies one primitive of the core, with PyTorch's name if PyTorch has it.

    It may save any operand, and the result, if there is one.
    """
    count = len(primitive.params)

    def function(*given: Any) -> Any:
        split = len(given) - count
        return bind(primitive, given[:split], given[split:])

    computes: Callable[..., Any] = primitive if isinstance(primitive, Elementwise) else function
    node = (
        _NODES.get(primitive)
        or "".join(part.title() for part in primitive.name.split("_")) + "Backward0"
    )
    saves = (
        ("self", 0), ("other", 1), *((f"operand{k}", k) for k in range(2, 64)),
        *(() if primitive.many else (("result", -1),)),
    )  # fmt: skip
    promote = broadcasting if isinstance(primitive, Elementwise) else None
    return Op(
        node,
        computes,
        saves,
        promote,
        static_numbers=primitive in (ew.power, complex_power),
        primitive=primitive,
    )


@functools.lru_cache(maxsize=1024)
def binary_of(primitive: Primitive) -> Callable[[Any, Any], Any]:
    """Return the operator that applies a primitive of two operands."""
    return binary(op_of(primitive))
