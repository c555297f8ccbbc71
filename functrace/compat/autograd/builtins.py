"""``autograd.builtins``: containers are Python's own here, because they can contain traced values.

Layer: 10.
"""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from functrace.api.capture.programs import is_traced
from functrace.compat.kinds import Given, Values
from functrace.ir.aval import aval_of
from functrace.tracing.tracer import Tracer

__all__ = ["DictBox", "SequenceBox", "dict", "isinstance", "list", "tuple", "type"]

dict, list, tuple = builtins.dict, builtins.list, builtins.tuple


def _like(x: Values) -> Any:
    """Return a plain value of the type that a traced value has outside of transforms."""
    if not builtins.isinstance(x, Tracer):
        return x
    aval = aval_of(x)
    return (
        np.broadcast_to(np.zeros((), aval.dtype), aval.shape) if aval.shape else aval.dtype.type(0)
    )


def isinstance(x: object, kinds: Given) -> bool:
    """Check that a value, or the plain value of a traced one, is an instance of a class.

    Args:
        x: any object.
        kinds: a class, or a tuple of classes.

    Returns:
        True if it is.

    Example:
        >>> import numpy as np
        >>> from functrace.compat.autograd import grad, isinstance
        >>> grad(lambda x: np.sum(x * isinstance(x, np.ndarray)))(np.ones(2))
        array([1., 1.])

    Source:
        ``autograd.builtins.isinstance``.
    """
    return builtins.isinstance(_like(x), kinds) or builtins.isinstance(x, kinds)


def type(x: object) -> builtins.type:
    """Return the class of a value, or of the plain value of a traced one.

    Args:
        x: any object.

    Returns:
        the class.

    Example:
        >>> import numpy as np
        >>> from functrace.compat.autograd import grad, type
        >>> grad(lambda x: np.sum(x * (type(x) is np.ndarray)))(np.ones(2))
        array([1., 1.])

    Source:
        ``autograd.builtins.type``.
    """
    like: object = _like(x)
    return builtins.type(like)


class _Holding(builtins.type):
    """Metaclass of classes whose instances are containers with traced values."""

    def __instancecheck__(cls, instance: object) -> bool:
        return builtins.isinstance(instance, vars(cls)["of"]) and is_traced(instance)


class SequenceBox(metaclass=_Holding):
    """Tuples and lists with traced values: a class for ``isinstance``."""

    of = (builtins.tuple, builtins.list)


class DictBox(metaclass=_Holding):
    """Dicts with traced values: a class for ``isinstance``."""

    of = (builtins.dict,)
