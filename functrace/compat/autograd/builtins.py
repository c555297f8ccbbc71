"""``autograd.builtins``: containers are Python's own here, because traced values can stand in them.

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
    return np.broadcast_to(np.zeros((), aval.dtype), aval.shape) if aval.shape else aval.dtype.type(0)


def isinstance(x: object, kinds: Given) -> bool:
    """Say whether a value, or what a traced one stands for, is an instance of a class."""
    return builtins.isinstance(_like(x), kinds) or builtins.isinstance(x, kinds)


def type(x: object) -> builtins.type:
    """Return the class of a value, or of what a traced one stands for."""
    return builtins.type(_like(x))


class _Holding(builtins.type):
    """The class of a class whose instances are containers that hold something traced."""

    def __instancecheck__(cls, instance: object) -> bool:
        return builtins.isinstance(instance, vars(cls)["of"]) and is_traced(instance)


class SequenceBox(metaclass=_Holding):
    """Tuples and lists that hold something traced: a class for ``isinstance``."""

    of = (builtins.tuple, builtins.list)


class DictBox(metaclass=_Holding):
    """Dicts that hold something traced: a class for ``isinstance``."""

    of = (builtins.dict,)
