"""Making nodes: the graph behind the results of an operation.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from functrace.torch.autograd.anomaly_mode import ANOMALY, note_origin
from functrace.torch.autograd.graph import NO_EDGE, OpNode, _sequence, edge
from functrace.torch.autograd.saved import SavedTensor, save_operand
from functrace.torch.dispatch.plans import OpPlan

_new = object.__new__
Prepared: TypeAlias = tuple[OpNode, list[Any]]
"""A node, and its saved operands; None in place of other fields."""


def prepare(plan: OpPlan, operands: Sequence[Any]) -> Prepared:
    """Make the node of an operation that has not run, and save its operands.

    In this order, hooks of saved tensors that end a recomputation do so before the operation runs.
    """
    node = _new(plan.case.op.node_class)
    node._plan = plan
    node._sequence = next(_sequence)
    saved: list[Any] = []
    for (_, position), is_tensor in zip(
        plan.derivation.saves, plan.derivation.unpacks, strict=True
    ):
        is_operand = is_tensor and position >= 0
        saved.append(save_operand(operands[position], node, saved) if is_operand else None)
    return node, saved


def record(
    plan: OpPlan,
    operands: Sequence[Any],
    arrays: Sequence[Any],
    made: Any,
    prepared: Prepared | None = None,
) -> OpNode:
    """Make the node of an operation, and make its results the node's outputs."""
    op, derivation = plan.case.op, plan.derivation
    if prepared is None:
        node, before = _new(op.node_class), None
        node._plan = plan
        node._sequence = next(_sequence)
    else:
        node, before = prepared
    edges = []
    for k in derivation.edge_to:
        if k < 0:
            edges.append(NO_EDGE)
        elif (former := (x := operands[k])._node) is not None and x._view is None:
            edges.append((former, x._output_nr))
        else:
            edges.append(edge(x))
    node._edges = tuple(edges)
    if type(made) is tuple:
        for k, tensor in enumerate(made):
            if plan.outputs[k].dtype.kind in "fcV" and k not in op.constants:
                tensor._node, tensor._output_nr = node, k
        outputs = made
    else:
        made._node = node
        outputs = (made,)
    if derivation.saves:
        saved = []
        for (_, position), is_tensor in zip(derivation.saves, derivation.unpacks):
            if not is_tensor:
                saved.append(arrays[position])
            elif position < 0:
                saved.append(SavedTensor(outputs[~position], True, node))
            elif before is not None:
                saved.append(before[len(saved)])
            else:
                saved.append(save_operand(operands[position], node, saved))
        node._saved = tuple(saved)
    else:
        node._saved = ()
    if plan.record_fast is None:
        plan.note_record()
    if ANOMALY.enabled:
        note_origin(node)
    return node
