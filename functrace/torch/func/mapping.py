"""``torch.func.vmap``: functions of tensors over an axis.

Layer: 9.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from functrace.api.batching.mapping import vmap as vmap_of_arrays
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.func.calls import Call, OfTensors, arrays_of
from functrace.torch.func.checks import called_as, check_chunk, check_randomness, shown
from functrace.torch.tensors.tensor import Tensor
from functrace.tree import flatten
from functrace.typing import PyTree


def vmap(
    func: OfTensors,
    in_dims: PyTree = 0,
    out_dims: PyTree = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> OfTensors:
    """Make a function that maps ``func`` over an axis of its arguments.

    Args:
        func: a function of tensors (pytrees of them) that returns tensors.
        in_dims: axis of each argument to map over: an int, or a pytree of ints and ``None`` (not
            mapped) like the arguments, or a prefix of it. Keyword arguments are mapped over their
            first axis.
        out_dims: position of the axis in the results.
        randomness: behaviour of random functions: ``"error"``, ``"same"`` (one draw for all), or
            ``"different"`` (one for each example; of factories, functions that fill tensors, and
            dropout).
        chunk_size: accepted for ported code; the result is the same.

    Returns:
        a function of batches.

    Raises:
        ValueError: if dimensions, sizes or arguments do not fit, or ``func`` returns other objects
            than tensors.
        RuntimeError: for a random function inside, unless ``randomness`` permits it.

    Example:
        >>> import functrace.torch as torch
        >>> torch.func.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
        tensor([3., 3.])
    """
    check_randomness(randomness)
    check_chunk(chunk_size, "vmap")
    name = getattr(func, "__name__", type(func).__name__)

    @functools.wraps(func)
    def wrapper(*args: PyTree, **kwargs: PyTree) -> Any:
        call = Call(func, args, kwargs)
        what = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
        if not isinstance(in_dims, (int, tuple, list)):
            raise ValueError(
                f"{what}: expected `in_dims` to be int or a (potentially nested) tuple matching "
                "the structure of inputs, "
                f"got: {type(in_dims)}."
            )
        if not call.leaves:
            raise ValueError(
                f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you "
                "are trying to vmap over a "
                "function with no inputs. The latter is unsupported."
            )
        _check_dims(call, args, in_dims, what)
        size = _batch_size(in_dims, args, kwargs) if randomness == "different" else None

        @called_as(func)
        def outputs(*args: PyTree, **kwargs: PyTree) -> Any:
            if size is not None:
                example, *args = args  # type: ignore[assignment]
                before = MODES.examples
                MODES.examples = (*before, (int(size), example))
                try:
                    result = call(*args, **kwargs)
                finally:
                    MODES.examples = before
            else:
                result = call(*args, **kwargs)
            for leaf in flatten(result)[0]:
                if not isinstance(leaf, Tensor):
                    raise ValueError(
                        f"vmap({name}, ...): `{name}` must only return Tensors, got type "
                        f"{type(leaf)}. Did you mean to set "
                        "out_dims= to None for output?"
                    )
            return arrays_of(result)

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            before, MODES.randomness = MODES.randomness, randomness
            dims = _numbers(in_dims)
            if size is not None:
                args = (np.arange(size), *args)
                dims = (0, *(dims if isinstance(dims, (tuple, list)) else [dims] * (len(args) - 1)))
            try:
                return vmap_of_arrays(outputs, dims, _numbers(out_dims), max_paths=0)(
                    *args, **kwargs
                )
            finally:
                MODES.randomness = before

        return call.run(run)

    return wrapper


def _batch_size(in_dims: PyTree, args: tuple[PyTree, ...], kwargs: dict[str, PyTree]) -> int | None:
    """Return the number of examples; None if no argument shows it."""
    each = in_dims if isinstance(in_dims, (tuple, list)) else [in_dims] * len(args)
    for dims, argument in [*zip(each, args, strict=True), *((0, x) for x in kwargs.values())]:
        leaves = flatten(argument)[0]
        numbers = (
            flatten(dims)[0] if isinstance(dims, (tuple, list, dict)) else [dims] * len(leaves)
        )
        for dim, leaf in zip(numbers, leaves, strict=False):
            if isinstance(dim, int) and isinstance(leaf, Tensor):
                return leaf.shape[int(dim)]
    return None


def _numbers(dims: PyTree) -> PyTree:
    """Return axes as ints: PyTorch takes bools for 0 and 1."""
    if isinstance(dims, (tuple, list)):
        return type(dims)([_numbers(dim) for dim in dims])
    return int(dims) if isinstance(dims, bool) else dims


def _check_dims(call: Call, args: tuple[Any, ...], in_dims: PyTree, what: str) -> None:
    """Check that ``in_dims`` fits the arguments, with PyTorch's messages."""
    if isinstance(in_dims, (tuple, list)) and len(in_dims) != len(args):
        raise ValueError(
            f"{what}: in_dims is not compatible with the structure of `inputs`. in_dims has "
            f"structure {shown(in_dims)} but "
            f"inputs has structure {shown(args)}."
        )
    sizes: list[int] = []
    pairs = zip(
        in_dims if isinstance(in_dims, (tuple, list)) else [in_dims] * len(args), args, strict=True
    )
    for dim, argument in pairs:
        if dim is not None and not isinstance(dim, int):
            return  # a pytree, which the core checks
        for leaf in flatten(argument)[0]:
            if dim is None:
                continue
            if not isinstance(leaf, Tensor):
                raise ValueError(
                    f"{what}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. "
                    "We cannot vmap over "
                    "non-Tensor arguments, please use None as the respective in_dim"
                )
            if not -leaf.dim() <= dim < leaf.dim():
                raise ValueError(
                    f"{what}: Got in_dim={dim} for some input, but that input is a Tensor of "
                    f"dimensionality {leaf.dim()} so "
                    f"expected in_dim to satisfy -{leaf.dim()} <= in_dim < {leaf.dim()}."
                )
            sizes.append(leaf.shape[dim])
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped "
            "dimension"
        )
