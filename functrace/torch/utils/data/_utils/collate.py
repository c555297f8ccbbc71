"""Batches of samples.

Layer: 9.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from functrace.torch.functions.creation import as_tensor, tensor
from functrace.torch.functions.shaping import stack
from functrace.torch.tensors.dtypes import float64
from functrace.torch.tensors.tensor import Tensor

__all__ = ["collate", "default_collate", "default_convert"]

Collate = Callable[..., Any]
_TEXT = "SU"
"""NumPy's kinds of strings, which stay as they are; so do objects."""

_REFUSED = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"
)


def default_convert(data: Any) -> Any:
    """Return a sample in which NumPy's arrays and numbers are tensors.

    Args:
        data: a tensor, array, number or string, or containers of them.

    Example:
        >>> import numpy as np
        >>> default_convert({"x": np.ones(2), "n": 3})
        {'x': tensor([1., 1.], dtype=torch.float64), 'n': 3}
    """
    kind: Any = type(data)
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        is_text = data.dtype.kind in _TEXT + "O"
        return data if is_text else as_tensor(data)
    if isinstance(data, Mapping):
        converted = {key: default_convert(x) for key, x in data.items()}
        return _mapping_like(data, converted)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return kind(*[default_convert(x) for x in data])
    if isinstance(data, tuple):
        return [default_convert(x) for x in data]
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _sequence_like(data, [default_convert(x) for x in data])
    return data


def _mapping_like(like: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """Return a mapping of the class of another one; a dict, if that fails."""
    kind: Any = type(like)
    try:
        if isinstance(like, MutableMapping):
            made: Any = copy.copy(like)
            made.update(items)
            return made
        return kind(items)
    except TypeError:
        return items


def _sequence_like(like: Sequence[Any], items: list[Any]) -> Any:
    """Return a sequence of the class of another one; a list, if that fails."""
    kind: Any = type(like)
    try:
        if isinstance(like, MutableSequence):
            made: Any = copy.copy(like)
            for k, item in enumerate(items):
                made[k] = item
            return made
        return kind(items)
    except TypeError:
        return items


def collate(batch: Any, *, collate_fn_map: dict[Any, Collate] | None = None) -> Any:
    """Return the batch of a list of samples.

    Args:
        batch: the samples.
        collate_fn_map: functions by class, or tuple of classes: each is called with the samples,
            and ``collate_fn_map``.

    Raises:
        TypeError: for samples of other classes.
        RuntimeError: if sequences have different lengths.
    """
    first = batch[0]
    kind: Any = type(first)
    functions = collate_fn_map or {}
    if kind in functions:
        return functions[kind](batch, collate_fn_map=collate_fn_map)
    for classes, function in functions.items():
        if isinstance(first, classes):
            return function(batch, collate_fn_map=collate_fn_map)
    again = lambda samples: collate(samples, collate_fn_map=collate_fn_map)  # noqa: E731
    if isinstance(first, Mapping):
        return _mapping_like(first, {key: again([x[key] for x in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return kind(*[again(column) for column in zip(*batch, strict=True)])
    if isinstance(first, Sequence):
        samples = list(batch)
        if not all(len(x) == len(first) for x in samples):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [again(column) for column in zip(*samples, strict=True)]
        return columns if isinstance(first, tuple) else _sequence_like(first, columns)
    raise TypeError(_REFUSED.format(kind))


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: Any = None) -> Tensor:
    """Return tensors, stacked."""
    return stack(batch, 0)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Return arrays as tensors, stacked."""
    first = batch[0]
    if first.dtype.kind in _TEXT + "O":
        raise TypeError(_REFUSED.format(first.dtype))
    return collate([as_tensor(x) for x in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Tensor:
    """Return NumPy's numbers as a tensor."""
    return as_tensor(np.asarray(batch))


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: Any = None) -> Tensor:
    """Return floats as a tensor of float64."""
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: Any = None) -> Tensor:
    """Return integers as a tensor."""
    return tensor(batch)


def collate_str_fn(batch: Any, *, collate_fn_map: Any = None) -> Any:
    """Return strings as they are."""
    return batch


default_collate_fn_map: dict[Any, Collate] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}
"""Functions by class."""


def default_collate(batch: Any) -> Any:
    """Return the batch of a list of samples: tensors, arrays and numbers are stacked along a new
    first axis; strings stay lists; in containers this is done for every item.

    Args:
        batch: the samples.

    Raises:
        TypeError: for samples of other classes.
        RuntimeError: if sequences have different lengths.

    Example:
        >>> default_collate([{"x": 1.5, "name": "a"}, {"x": 2.5, "name": "b"}])
        {'x': tensor([1.5000, 2.5000], dtype=torch.float64), 'name': ['a', 'b']}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
