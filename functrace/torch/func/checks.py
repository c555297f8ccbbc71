"""Checks of functions, arguments and results of transforms, with PyTorch's messages.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES, restore, state
from functrace.torch.func.calls import OfTensors, arrays_of
from functrace.torch.func.nodes import OfArrays
from functrace.torch.tensors.tensor import Tensor
from functrace.tree import flatten, structure
from functrace.typing import PyTree

Argnums: TypeAlias = int | tuple[int, ...]


def checked_argnums(argnums: Argnums, count: int) -> Argnums:
    """Return positions counted from the front.

    Raises:
        RuntimeError: if one is out of range, or named twice.
    """
    given = argnums if isinstance(argnums, tuple) else (argnums,)
    if not given:
        raise RuntimeError("argnums must be non-empty")
    for k in given:
        if not isinstance(k, int):
            raise RuntimeError(f"argnum must be int, got: {type(k)}")
        if not -count <= k < count:
            raise RuntimeError(f"Got argnum={k}, but only {count} positional inputs")
    found = tuple([k % count for k in given])
    if len(set(found)) < len(found):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return found if isinstance(argnums, tuple) else found[0]


def check_differentiable(args: Sequence[Any], argnums: Argnums) -> None:
    """Check that the arguments to differentiate are tensors of floats."""
    for leaf in flatten([args[k] for k in (argnums if isinstance(argnums, tuple) else (argnums,))])[
        0
    ]:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
        if leaf._array.dtype.kind not in "fcV":
            raise RuntimeError(errors.REQUIRES_GRAD_DTYPE)


def check_chunk(chunk_size: int | None, name: str) -> None:
    """Check a chunk size, which has no further effect."""
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"{name}: `chunk_size` should be greater than 0.")


def check_randomness(randomness: str) -> None:
    """Check the treatment of random functions."""
    if randomness not in ("error", "different", "same", "unsupported"):
        raise RuntimeError(
            "Only allowed values for randomness are 'error', 'different', or 'same'. Got "
            f"{randomness}"
        )


def split_aux(result: PyTree, has_aux: bool, owner: str) -> tuple[Any, Any]:
    """Return the result of a function, and its auxiliary data."""
    if not has_aux:
        return result, None
    if not (isinstance(result, tuple) and len(result) == 2):
        raise RuntimeError(
            f"{owner}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return result


def returned_arrays(result: PyTree, owner: str) -> Any:
    """Return the arrays of a function's results, which must be tensors."""
    for leaf in flatten(result)[0]:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{owner} to return only tensors, got unsupported type {type(leaf)}")
    return arrays_of(result)


def arrays_and_aux(result: PyTree, has_aux: bool, owner: str, call: str) -> tuple[Any, Any]:
    """Return the arrays of a function's results, and of its auxiliary data.

    Args:
        result: the result.
        has_aux: True if there is auxiliary data.
        owner, call: the transform and the call of the function, for messages.
    """
    value, aux = split_aux(result, has_aux, owner)
    return returned_arrays(value, f"{owner}: expected {call}"), arrays_of(aux)


def called_as(func: OfTensors) -> Callable[[OfArrays], OfArrays]:
    """Decorate a function with the user's name for it, for messages."""

    def rename(made: OfArrays) -> OfArrays:
        made.__name__ = getattr(func, "__name__", type(func).__name__)
        return made

    return rename


@contextmanager
def with_recording() -> Generator[None]:
    """Enable recording for a function to differentiate, as PyTorch does; constants from outside
    stay constants.
    """
    before = state()
    MODES.recording = None if MODES.recording is None else True
    try:
        yield
    finally:
        restore(before)


def shown(values: PyTree) -> str:
    """Return a pytree's structure as PyTorch prints it."""
    return str(structure(values)).removeprefix("PyTreeSpec(").removesuffix(")")
