"""Calls of functions of tensors by transforms of arrays: those of the core and of ``torch.func``.

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias, final

from functrace.api.residuals.checkpointing import checkpoint as checkpoint_of_arrays
from functrace.api.staging.signatures import Jit
from functrace.control.residuals import RECOMPUTE, Policy
from functrace.errors import LostGradientError
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.func.nodes import OfArrays, on_tensors
from functrace.torch.tensors.tensor import Tensor, array_of, wrap
from functrace.tree import flatten, map_leaves, unflatten
from functrace.typing import PyTree

OfTensors: TypeAlias = Callable[..., Any]
"""A function of pytrees of tensors that returns one."""


@final
class Call:
    """A call of a function of tensors, for transforms of arrays."""

    def __init__(self, func: OfTensors, args: Sequence[PyTree], kwargs: dict[str, PyTree]) -> None:
        self.func = func
        self.leaves, self.tree = flatten((tuple(args), kwargs))
        self.places = [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, Tensor)]
        self.tensors: list[Tensor] = [self.leaves[k] for k in self.places]

    def arguments(self, arrays: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments with arrays in place of the tensors."""
        leaves = list(self.leaves)
        for k, array in zip(self.places, arrays, strict=True):
            leaves[k] = array
        return unflatten(self.tree, leaves)

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> Any:
        """Call the function with arguments that have arrays, traced or not, in place of the
        tensors.
        """
        return call_on_arrays(self.func, self.places, args, kwargs)

    def run(self, transformed: OfArrays, *, is_functional: bool = True) -> Any:
        """Run a function of the arguments with arrays in place of tensors; returns its results as
        tensors.
        """
        run = lambda *arrays: transformed(*self.arguments(arrays))  # noqa: E731
        return on_tensors(run, self.tensors, is_functional=is_functional)


def call_on_arrays(
    func: OfTensors, places: Sequence[int], args: tuple[PyTree, ...], kwargs: dict[str, PyTree]
) -> Any:
    """Call a function with tensors for the leaves at these indices, which are arrays, traced or
    not.
    """
    leaves, tree = flatten((args, kwargs))
    for k in places:
        leaves[k] = wrap(leaves[k])
    placed, named = unflatten(tree, leaves)
    return func(*placed, **named)


def arrays_of(values: PyTree) -> Any:
    """Return a pytree with the arrays of its tensors."""
    return map_leaves(lambda leaf: array_of(leaf) if isinstance(leaf, Tensor) else leaf, values)


def checkpointed(
    func: OfTensors, args: Sequence[PyTree], kwargs: dict[str, PyTree], policy: Policy = RECOMPUTE
) -> Any:
    """Run ``func(*args, **kwargs)`` under `functrace.checkpoint`, for tensors of which some hold
    traced values.
    """
    call = Call(func, args, kwargs)
    whole = checkpoint_of_arrays(
        lambda *args, **kwargs: arrays_of(call(*args, **kwargs)), policy=policy
    )
    return call.run(lambda args, kwargs: whole(*args, **kwargs), is_functional=False)


def jitted(jit: Jit, func: OfTensors, args: Sequence[PyTree], kwargs: dict[str, PyTree]) -> Any:
    """Call a jitted function with arguments that contain tensors (`BoxedArrays`)."""
    call = Call(func, args, kwargs)
    places = tuple(call.places)

    @functools.wraps(func)
    def of_arrays(*args: PyTree, **kwargs: PyTree) -> Any:
        before, MODES.lift = MODES.lift, _refuse_outside
        try:
            return arrays_of(call_on_arrays(func, places, args, kwargs))
        finally:
            MODES.lift = before

    whole = jit(
        (call.tree, places, bool(MODES.recording)), of_arrays
    )  # under no_grad, it may hold what requires grad
    return call.run(lambda args, kwargs: whole(*args, **kwargs), is_functional=False)


def _refuse_outside(tensor: Tensor) -> NoReturn:
    """Refuse to read a tensor that requires grad and is no argument: the program would fix its
    value, without gradient.
    """
    raise LostGradientError(
        f"a jitted function reads a tensor of shape {tuple(tensor.shape)} that requires grad and "
        "is no argument",
        fix="pass it as an argument; or read tensor.detach() for its value at the first call",
    )


def called(f: OfArrays, args: Sequence[PyTree], kwargs: dict[str, PyTree]) -> Any:
    """Call a function of arrays with arguments that contain tensors; returns tensors."""
    return Call(f, args, kwargs).run(lambda args, kwargs: f(*args, **kwargs), is_functional=False)
