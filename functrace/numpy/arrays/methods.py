"""Methods of traced arrays and numbers, set from `functrace.numpy.protocol.tables.METHODS`.

A method equal to the NumPy function with the array first *is* that function, with its signature and
docstring. A traced number gets the array methods that Python numbers lack (``n.sum()``), applied to
the 0-d array of its value.

Layer: 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from functrace.numpy.arrays.traced_array import TracedArray
from functrace.numpy.arrays.traced_number import TracedNumber, of_array
from functrace.numpy.protocol.tables import METHOD_SETTERS, METHODS
from functrace.tracing.tracer import Tracer


def set_methods() -> None:
    """Set the methods of `TracedArray` and `TracedNumber`, and of rows that are added later."""
    for name, does in METHODS.items():
        setattr(TracedArray, name, does)
    for name in dir(TracedArray):
        if not name.startswith("_"):
            _of_numbers(name)
    METHOD_SETTERS.append(_set_method)


def _set_method(name: str, does: Callable[..., Any]) -> None:
    setattr(TracedArray, name, does)
    _of_numbers(name)


def _of_numbers(name: str) -> None:
    if name not in TracedNumber.__dict__ and name not in dir(Tracer):
        setattr(TracedNumber, name, of_array(name))
