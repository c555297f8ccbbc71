"""Ops: what an operation on tensors is called, how it is computed, and what PyTorch saves for its derivative.

Floor: 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from functrace.caches import shared
from functrace.ir.primitive import Primitive
from functrace.torch.autograd.graph import OpNode, node_class
from functrace.torch.promotion import Promote
from functrace.tracing.evaluate import evaluate_program
from functrace.typing import Array

NUMBERS = frozenset({bool, int, float, complex})
_KINDS: tuple[type[Any], ...] = (int, float, complex)


@shared
@dataclass(eq=False, repr=False)
class Op:
    """One operation on tensors; what users see of it is a row (rows.py).

    Args:
        node: PyTorch's name of its node.
        function: computes it from arrays or traced values: ``function(*operands, *params)``.
        saves: what PyTorch saves, in its order: field name, and which operand (0, 1 …) or result (-1, -2 …) it is. What the
            derivative does not need in a given case (an operand whose partner wants no gradient) is not saved.
        promote: how dtypes of operands meet; see promotion.py.
        edges: operands that PyTorch lists in ``next_functions`` (``None``: an edge that leads nowhere); all by default.
        keeps: fields that PyTorch saves even where the derivative does not need them.
        is_view: whether the result is a view of the first operand.
        constants: results that PyTorch does not differentiate.
        static_numbers: whether Python numbers among the operands are part of the plan.
        details: further ``_saved_…`` fields, from ``(operand avals, params)``.
        derived: the function whose derivative is taken in place of ``function``'s, where PyTorch takes another one.
        repeats: whether the in-place form writes the same wherever elements share memory, so that it may.
        measures: whether the ints among its parameters are sizes and positions; see patterns.py.
        gradient: the op that computes the gradient where that is recorded, for what PyTorch computes by one; see
            `recorded_gradient`. Otherwise each equation of the backward program is an op.
        in_rows: whether results lie in C order however the operands lie; otherwise as NumPy has it.
        seen: in what order PyTorch's iterator sees the operands, where that is another one; see `laid`.
        apart: whether results are differentiated one by one: what is not used adds nothing, and not 0 times an infinity.
        moves: whether elements are written to places that others say: in place, no operand may share memory with the tensor.
        called: what PyTorch calls the operation, where the node's name does not tell.
        primitive: the primitive of the core that it applies, if it was made for that; see `op_of`.
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
        self.node_class = node_class(self.node)

    def __repr__(self) -> str:
        return f"<op {self.node}>"


def number_of(x: Any) -> Any:
    """Return a number of NumPy's, or of a class derived from Python's, as the Python number that it is."""
    if type(x) in NUMBERS:
        return x
    if isinstance(x, np.generic):
        return float(x) if isinstance(x, np.bool_) else x.item()  # as PyTorch takes a bool of NumPy's
    return next((kind(x) for kind in _KINDS if isinstance(x, kind)), x)


def _gradient(gradient: Array, *saved_and_plan: Any) -> Any:
    *saved, plan = saved_and_plan
    chosen = saved if plan.selected is None else [saved[k] for k in plan.selected]
    others = [np.zeros(aval.shape, aval.dtype) for aval in plan.outputs[1:]]
    return evaluate_program(plan.backward, [*chosen, gradient, *others])[0]


def recorded_gradient(node: str, *saves: tuple[str, int], **details: Any) -> Op:
    """Return the op of a gradient that PyTorch computes by one: of the gradient that comes in, what was saved, and the plan.

    It depends on all that was saved, also where its derivative by that is 0: what is computed further requires grad.
    """
    return Op(node, _gradient, saves, edges=(0, 1), details=lambda specs, params: params[0]._details() | details)


OF_OUTPUT = ("grad_output", 0), ("output", 1)
"""What the recorded gradient of a function saves that saves its output."""
