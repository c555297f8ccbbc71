"""``autograd.misc.flatten``: containers as vectors.

Layer: 10.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from functrace import numpy as fnp
from functrace.compat.kinds import Values

__all__ = ["flatten", "flatten_func"]

Function = Callable[..., Any]


def flatten(value: Values) -> tuple[Any, Function]:
    """Return the numbers in a pytree as a vector, and the function that restores it.

    Dict keys are sorted. Restored numbers are NumPy's, in the dtype of the vector.
    """
    parts: list[Any] = []
    shapes: list[tuple[int, ...]] = []

    def collect(part: Values) -> Callable[[Any], Any]:
        untyped: Any = part
        if isinstance(part, tuple | list):
            kind = cast("Callable[[list[Any]], Any]", type(untyped))
            inner = [collect(x) for x in untyped]
            return lambda rest: kind([unflatten(rest) for unflatten in inner])
        if isinstance(part, dict):
            by_key: dict[Any, Function] = {key: collect(untyped[key]) for key in sorted(untyped)}
            return lambda rest: {key: by_key[key](rest) for key in by_key}
        parts.append(fnp.ravel(part))
        shapes.append(np.shape(part))
        return next

    made = collect(value)
    sizes = [part.size for part in parts]

    def unflatten(vector: Values) -> Any:
        ends = np.cumsum([0, *sizes])
        return made(
            iter(
                [
                    np.reshape(vector[a:b], shape)[()]
                    for a, b, shape in zip(ends[:-1], ends[1:], shapes, strict=True)
                ]
            )
        )

    return (np.concatenate(parts) if parts else np.array([])), unflatten


def flatten_func(func: Function, example: Values) -> tuple[Function, Function, Any]:
    """Return ``func`` of a vector, the function that restores a pytree, and the vector."""
    vector, unflatten = flatten(example)

    def of_vector(x: Values, *args: Values) -> Any:
        return flatten(func(unflatten(x), *args))[0]

    return of_vector, unflatten, vector
