"""The rows: PyTorch's functions as NumPy functions of the core, with the names and fields of their nodes.

Floor: 8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace.ops import elementwise as ew
from functrace.ops.contraction import matmul as core_matmul
from functrace.ops.reductions import reduce_sum
from functrace.torch.plans import Op, apply
from functrace.torch.promotion import arithmetic, floating
from functrace.torch.tensor import Tensor

BINARY = (("self", 0), ("other", 1))
INPUT = (("self", 0),)
RESULT = (("result", -1),)

ADD = Op("AddBackward0", ew.add, promote=arithmetic)
SUB = Op("SubBackward0", ew.sub, promote=arithmetic)
MUL = Op("MulBackward0", ew.mul, (("self", 0), ("other", 1)), promote=arithmetic)
EXP = Op("ExpBackward0", ew.exp, RESULT, promote=floating, quiet=True)
SIN = Op("SinBackward0", ew.sin, INPUT, promote=floating, quiet=True)
MM = Op("MmBackward0", core_matmul, (("self", 0), ("mat2", 1)))
CLONE = Op("CloneBackward0", ew.positive)
SUM = Op("SumBackward0", lambda x: reduce_sum(x, tuple(range(x.ndim))))


def _unary(op: Op, name: str) -> Callable[[Any], Any]:
    def function(input: Any) -> Any:
        return apply(op, (input,))

    function.__name__ = name
    return function


def _binary(op: Op, name: str) -> Callable[[Any, Any], Any]:
    def function(input: Any, other: Any) -> Any:
        return apply(op, (input, other))

    function.__name__ = name
    return function


add, sub, mul, mm = _binary(ADD, "add"), _binary(SUB, "sub"), _binary(MUL, "mul"), _binary(MM, "mm")
exp, sin, clone, sum = _unary(EXP, "exp"), _unary(SIN, "sin"), _unary(CLONE, "clone"), _unary(SUM, "sum")

for _name in ("add", "sub", "mul", "mm", "exp", "sin", "clone", "sum"):
    setattr(Tensor, _name, globals()[_name])
Tensor.__add__ = Tensor.__radd__ = add  # type: ignore[attr-defined]
Tensor.__mul__ = Tensor.__rmul__ = mul  # type: ignore[attr-defined]
Tensor.__sub__ = sub  # type: ignore[attr-defined]
