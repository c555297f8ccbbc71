"""Graphs of traced values, which the backward of a Function builds if it runs its forward again
and differentiates it.

Operations on traced tensors that require grad get nodes like any others (applying_traced.py). A
Function or a whole transform, which is a single operation of the core, gets a `PullbackNode` here.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from functrace.api.differentiation.gradients import vjp
from functrace.ir.aval import ShapeDtype
from functrace.ops.elementwise import conj
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.autograd.graph import GraphNode, edge, number, zeros_of
from functrace.torch.tensors.tensor import Tensor, wrap

OfArrays = Callable[..., Sequence[Any]]


class PullbackNode(GraphNode):
    """Node of a function of traced arrays.

    Args:
        whole: the function; it returns a list of arrays.
        tensors: its arguments.
        given: copies of the arguments that nothing overwrites.
        outputs: its results, as tensors.
    """

    def __init__(
        self,
        whole: OfArrays,
        tensors: Sequence[Tensor],
        given: Sequence[Tensor],
        outputs: Sequence[Tensor],
    ) -> None:
        self._whole = whole
        self._given: Sequence[Tensor] | None = given
        self._edges = tuple([edge(x) for x in tensors])
        self._outputs = [ShapeDtype(x._array.shape, x._array.dtype) for x in outputs]
        number(self)

    def output_avals(self) -> Sequence[ShapeDtype]:
        """Return shape and dtype of every output."""
        return self._outputs

    def run(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Pull gradients back; if that is recorded, as a function of tensors."""
        tensors, whole = self._given, self._whole
        if tensors is None:
            raise RuntimeError(errors.BACKWARD_TWICE)
        given = [
            zeros_of(aval) if g is None else g for g, aval in zip(grads, self._outputs, strict=True)
        ]
        wanted = [k for k, (node, _) in enumerate(self._edges) if node is not None]
        count = len(tensors)

        def pulled(*arrays: Any) -> list[Any]:
            def of_wanted(*chosen: Any) -> Sequence[Any]:
                values = list(arrays[:count])
                for k, value in zip(wanted, chosen, strict=True):
                    values[k] = value
                return whole(*values)

            _, pull = vjp(of_wanted, *[arrays[k] for k in wanted])
            return [_conjugate(x) for x in pull([_conjugate(g) for g in arrays[count:]])]

        found = (
            connected(pulled, [*tensors, *given])
            if MODES.recording
            else map(wrap, pulled(*_arrays([*tensors, *given])))
        )
        results: list[Tensor | None] = [None] * len(self._edges)
        for k, result in zip(wanted, found, strict=True):
            results[k] = result
        return results

    def release(self) -> None:
        """Free the values."""
        self._given = None


def connected(whole: OfArrays, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Apply a function of arrays to tensors; adds a node if a gradient is required."""
    outputs = list(map(wrap, whole(*_arrays(tensors))))
    join(whole, tensors, tensors, outputs)
    return outputs


def join(
    whole: OfArrays,
    tensors: Sequence[Tensor],
    given: Sequence[Tensor],
    outputs: Sequence[Tensor],
    overwritten: Sequence[int] = (),
) -> None:
    """Make tensors the outputs of a node, if an argument requires grad; see `PullbackNode`.

    Args:
        overwritten: the outputs that are arguments.

    Raises:
        RuntimeError: if a leaf that requires grad was overwritten.
    """
    if not MODES.recording or not any(x.requires_grad for x in tensors):
        return
    if any(outputs[k].requires_grad and outputs[k].is_leaf for k in overwritten):
        raise RuntimeError(errors.DIRTY_LEAF)
    node = PullbackNode(whole, tensors, given, outputs)
    for k, output in enumerate(outputs):
        if output._array.dtype.kind in "fcV":
            output._node, output._output_nr = node, k


def _arrays(tensors: Sequence[Tensor]) -> list[Any]:
    return [x._array for x in tensors]


def _conjugate(x: Any) -> Any:
    """Conjugate: PyTorch's gradients of complex numbers are conjugates of the core's."""
    return conj(x) if x.dtype.kind == "c" else x
