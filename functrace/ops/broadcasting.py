"""Primitives that broadcast as ufuncs do: `Elementwise`.

Layer: 2.
"""

from __future__ import annotations

from dataclasses import dataclass

from functrace.ir.primitive import Primitive, RuleMarker
from functrace.tracing.binding import claimed
from functrace.tracing.tracer import Tracer, Value
from functrace.typing import Array

ELEMENTWISE = RuleMarker("ELEMENTWISE")
"""batch rule of a primitive that broadcasts: align ranks, then the same primitive."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Elementwise(Primitive):
    """A primitive without parameters that is called like its ufunc."""

    source: str = ""

    def __call__(self, *operands: Value) -> Array:
        """Apply to arrays or traced values: `bind`, inlined, because rules call this most often."""
        newest = None
        for value in operands:
            if isinstance(value, Tracer):
                recording = value.ft_recording
                if newest is None or recording.serial > newest.serial:
                    newest = recording
        if newest is None:
            return self.eval(*operands)
        return (claimed(newest) if newest.shadows else newest).record(self, operands)
