"""Programs on tensors: every equation is an op of its own, so that what runs is recorded in turn.

Floor: 8.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ir.primitive import Primitive
from functrace.ir.program import Program
from functrace.ops import elementwise as ew
from functrace.ops.contraction import matmul_p
from functrace.ops.edges import complex_power
from functrace.ops.elementwise import Elementwise
from functrace.ops.indexing import index_p
from functrace.ops.reductions import reduce_sum_p
from functrace.ops.shaping import broadcast_to_p, convert_p
from functrace.torch.applying import apply, binary
from functrace.torch.autograd.graph import ON_TENSORS
from functrace.torch.op import Op
from functrace.torch.plans import Plan
from functrace.torch.promotion import broadcasting
from functrace.torch.tensor import Tensor, wrap
from functrace.tracing import bind


def evaluate_on_tensors(program: Program, arguments: Sequence[Any]) -> list[Any]:
    """Evaluate a program on tensors: every equation is an op of its own, recorded like any other."""
    env: list[Any] = [None] * len(program.ops) + list(reversed(program.literals))
    for i, value in zip(program.input_ids, arguments, strict=True):
        env[i] = value.item() if isinstance(value, np.generic) else value
    for i, value in program.constant_values.items():
        env[i] = wrap(value)
    for k, dying in program.schedule:
        primitive, operands, params = program.ops[k]
        if len(operands) == 2 and not params and isinstance(env[operands[0]], Tensor):
            result = binary_of(primitive)(env[operands[0]], env[operands[1]])
        else:
            result = apply(op_of(primitive), tuple([env[i] for i in operands]), params)
        if primitive.many:
            env[k : k + len(result)] = result
        else:
            env[k] = result
        for i in dying:
            env[i] = None
    return [env[i] for i in program.output_ids]


_NODES: dict[Primitive, str] = {
    ew.power: "PowBackward0", ew.square: "PowBackward0", ew.absolute: "AbsBackward0", reduce_sum_p: "SumBackward1",
    matmul_p: "MmBackward0", broadcast_to_p: "ExpandBackward0", convert_p: "ToCopyBackward0", index_p: "SliceBackward0",
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def op_of(primitive: Primitive) -> Op:
    """Return the op that applies one primitive of the core, named like PyTorch's where PyTorch has it.

    It may save any operand, and the result.
    """
    count = len(primitive.params)

    def function(*given: Any) -> Any:
        split = len(given) - count
        return bind(primitive, given[:split], given[split:])

    computes: Callable[..., Any] = primitive if isinstance(primitive, Elementwise) else function
    node = _NODES.get(primitive) or "".join(part.title() for part in primitive.name.split("_")) + "Backward0"
    saves = (("self", 0), ("other", 1), *((f"operand{k}", k) for k in range(2, 8)), ("result", -1))
    promote = broadcasting if isinstance(primitive, Elementwise) else None
    return Op(node, computes, saves, promote, static_numbers=primitive in (ew.power, complex_power), primitive=primitive)


@functools.lru_cache(maxsize=1024)
def binary_of(primitive: Primitive) -> Callable[[Any, Any], Any]:
    """Return the operator that applies a primitive of two operands."""
    return binary(op_of(primitive))


def pull_tensors(plan: Plan, saved: list[Any], grads: list[Any]) -> list[Tensor | None]:
    """Evaluate a plan's backward program on tensors, so that it is recorded in turn: equation by equation, or as one op."""
    whole = plan.op.gradient
    if whole is not None:
        result = apply(whole, (grads[0], *saved), (plan,))
        return [None if move is None else result for move in plan.moves]
    if plan.selected is not None:
        saved = [saved[k] for k in plan.selected]
    results = iter(evaluate_on_tensors(plan.backward, [*saved, *grads]))
    return [None if move is None else next(results) for move in plan.moves]


ON_TENSORS.append(pull_tensors)
