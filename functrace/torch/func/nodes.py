"""Calls of functions of arrays on tensors, as one node of the graph if a gradient is required.

Note [Transform calls in the graph]
    In PyTorch, results of ``torch.func`` are in the graph: a later ``backward()`` reaches
    arguments that require grad and tensors captured by the function. So if there are any, the
    whole call becomes one node (`ArrayFunction`). The captured tensors are found when the function runs;
    it then runs again, with them as inputs (`CapturedTensors`).

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias, final

import numpy as np

from functrace.api.capture.arguments import ACCEPTED
from functrace.api.differentiation.gradients import jvp as jvp_of_arrays
from functrace.api.differentiation.gradients import vjp as vjp_of_arrays
from functrace.numpy.arrays.views import owned
from functrace.ops.elementwise import conj
from functrace.torch import errors
from functrace.torch.autograd.function import Function
from functrace.torch.autograd.grad_mode import MODES, enable_grad
from functrace.torch.autograd.local import join
from functrace.torch.dispatch.dual import DUALS, hidden
from functrace.torch.tensors.aliases import in_grad_mode
from functrace.torch.tensors.tensor import Tensor, fresh, wrap
from functrace.tracing import Tracer
from functrace.tree import flatten, map_leaves, unflatten
from functrace.typing import Array

OfArrays: TypeAlias = Callable[..., Any]


def _accepting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function in which transforms accept arrays of bfloat16."""

    def accepted(*args: Any, **kwargs: Any) -> Any:
        before, ACCEPTED.bfloat16 = ACCEPTED.bfloat16, True
        try:
            return function(*args, **kwargs)
        finally:
            ACCEPTED.bfloat16 = before

    return accepted


def on_tensors(run: OfArrays, tensors: Sequence[Tensor], *, is_functional: bool = True) -> Any:
    """Run a function of arrays on those of tensors; returns tensors, attached to the graph if a
    gradient is required.

    Args:
        run: the function.
        tensors: its arguments.
        is_functional: True under a transform of ``torch.func``, which has some restrictions.
    """
    arrays = [x._array for x in tensors]
    if not ACCEPTED.bfloat16 and any(a.dtype.kind == "V" for a in arrays):
        return _accepting(on_tensors)(run, tensors, is_functional=is_functional)
    if is_functional:
        run = functionally(run)
    if (
        any(isinstance(a, Tracer) for a in arrays)
        and MODES.recording
        and any(x.requires_grad for x in tensors)
    ):
        return _in_local_graph(run, tensors)
    duals = [] if DUALS.level is None else [x for x in tensors if DUALS.level.concerns((x,))]
    inside = MODES.lift is not None or any(isinstance(a, Tracer) for a in arrays)
    if inside or not (MODES.recording or duals):
        return map_leaves(_wrapped, run(*arrays))
    seen = CapturedTensors()
    with seen.lifting():
        leaves, tree = flatten(run(*arrays))
    wanting = [
        x for x in (*tensors, *seen.tensors) if x.requires_grad and x._array.dtype.kind in "fcV"
    ]
    wanted = list({id(x): x for x in (*wanting, *duals)}.values())
    chosen = [k for k, leaf in enumerate(leaves) if _is_array(leaf) and leaf.dtype.kind in "fcV"]
    leaves = [fresh(leaf) if _is_array(leaf) else leaf for leaf in leaves]
    if wanted and chosen:

        def whole(*given: Array | Tracer) -> list[Any]:
            values = {id(x): value for x, value in zip(wanted, given, strict=True)}
            with (
                enable_grad(),
                hidden(False),
                CapturedTensors([values.get(id(x), x._array) for x in seen.tensors]).lifting(),
            ):
                found, _ = flatten(run(*[values.get(id(x), x._array) for x in tensors]))
            return [found[k] for k in chosen]

        for k, result in zip(chosen, ArrayFunction.apply(whole, *wanted), strict=True):
            leaves[k] = result
    return unflatten(tree, leaves)


def functionally(run: OfArrays) -> OfArrays:
    """Return a function that sets the ``torch.func`` flag while it runs."""

    def noted(*arrays: Array | Tracer) -> Any:
        before = MODES.functional, MODES.begun
        MODES.functional, MODES.begun = True, None
        try:
            return run(*arrays)
        finally:
            MODES.functional, MODES.begun = before

    return noted


def _in_local_graph(run: OfArrays, tensors: Sequence[Tensor]) -> Any:
    """Run a function of traced arrays as one operation of a graph of traced values."""
    leaves, tree = flatten(run(*[x._array for x in tensors]))
    chosen = [k for k, leaf in enumerate(leaves) if _is_array(leaf) and leaf.dtype.kind in "fcV"]
    leaves = [wrap(leaf) if _is_array(leaf) else leaf for leaf in leaves]

    def whole(*given: Array | Tracer) -> list[Any]:
        found, _ = flatten(run(*given))
        return [found[k] for k in chosen]

    join(whole, tensors, [wrap(owned(x._array)) for x in tensors], [leaves[k] for k in chosen])
    return unflatten(tree, leaves)


def _wrapped(leaf: Any) -> Any:
    """Return a tensor of an array; under ``no_grad``, a traced array becomes a constant."""
    return (
        fresh(in_grad_mode(leaf) if isinstance(leaf, Tracer) else leaf) if _is_array(leaf) else leaf
    )


def _is_array(leaf: object) -> bool:
    return isinstance(leaf, (Tracer, np.ndarray, np.generic))


@final
class CapturedTensors:
    """Replacement of captured tensors that require grad; see Note [Transform calls in the graph].

    Args:
        values: one for each of them, in the order of their first use; by default their own arrays.
    """

    def __init__(self, values: Sequence[Any] | None = None) -> None:
        self.values = values
        self.tensors: list[Tensor] = []

    def __call__(self, tensor: Tensor) -> Any:
        """Return the replacement of a tensor."""
        place = next((k for k, x in enumerate(self.tensors) if x is tensor), len(self.tensors))
        if place == len(self.tensors):
            self.tensors.append(tensor)
        if self.values is None:
            return tensor._array
        if place >= len(self.values) or np.shape(self.values[place]) != tensor._array.shape:
            raise RuntimeError(errors.OTHER_TENSORS_READ)
        return self.values[place]

    @contextmanager
    def lifting(self) -> Generator[None]:
        """Activate the replacement."""
        before, MODES.lift = MODES.lift, self
        try:
            yield
        finally:
            MODES.lift = before
        if self.values is not None and len(self.tensors) < len(self.values):
            raise RuntimeError(errors.OTHER_TENSORS_READ)


class _Context(Protocol):
    """Attributes of the ``ctx`` of `ArrayFunction`."""

    whole: OfArrays
    pull: OfArrays
    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor) -> None: ...

    def save_for_forward(self, *tensors: Tensor) -> None: ...


class ArrayFunction(Function):
    """A function of arrays as one node: its backward is the core's pullback, of any order."""

    @staticmethod
    def forward(ctx: _Context, whole: OfArrays, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Run the function."""
        values, ctx.pull = vjp_of_arrays(whole, *[x._array for x in tensors])
        if ACCEPTED.bfloat16:
            ctx.pull = _accepting(ctx.pull)
        ctx.whole = whole
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)
        return tuple(map(wrap, values))

    @staticmethod
    def jvp(ctx: _Context, _whole: None, *tangents: Tensor) -> tuple[Tensor, ...]:
        """Push tangents forward, by the core."""
        tensors = ctx.saved_tensors
        count, whole = len(tensors), ctx.whole

        def pushed(*given: Array | Tracer) -> list[Any]:
            return jvp_of_arrays(whole, given[:count], given[count:])[1]

        return tuple(on_tensors(pushed, (*tensors, *tangents)))

    @staticmethod
    def backward(ctx: _Context, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Pull gradients back; as a function of the tensors too, if the pass itself is recorded."""
        tensors = ctx.saved_tensors
        if not MODES.recording:
            found = ctx.pull([conjugate(g._array) for g in grads])
            return None, *[wrap(conjugate(x)) for x in found]
        count, whole = len(tensors), ctx.whole

        def pulled(*given: Array | Tracer) -> list[Any]:
            _, pull = vjp_of_arrays(whole, *given[:count])
            return [conjugate(x) for x in pull([conjugate(g) for g in given[count:]])]

        return None, *on_tensors(pulled, (*tensors, *grads))


def conjugate(x: Array | Tracer) -> Any:
    """Conjugate: PyTorch's gradients of complex numbers are conjugates of the core's."""
    return conj(x) if x.dtype.kind == "c" else x
