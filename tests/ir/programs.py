"""Programs for the tests of this folder, recorded through the primitives themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import functrace  # noqa: F401  (sets the class of tracers and the table of primitives)
from functrace.ir.aval import ShapeDtype
from functrace.ir.program import Program
from functrace.numpy.arrays.recording import ArrayRecording
from functrace.ops import PRIMITIVES


def record(
    f: Callable[..., Any], *avals: ShapeDtype, name: str = "f", names: tuple[str, ...] = ()
) -> Program:
    """Record ``f`` without values."""
    with ArrayRecording("test") as recording:
        out = f(*[recording.new_input(aval) for aval in avals])
        outs = out if isinstance(out, tuple) else (out,)
        ids = tuple(recording.operand(x)[0] for x in outs)
        return recording.program(ids, name=name, input_names=names)


def parse(text: str) -> Program:
    """Parse with every primitive of the library."""
    return Program.parse(text, PRIMITIVES)


def aval(*shape: int, dtype: Any = np.float64) -> ShapeDtype:
    """A ShapeDtype."""
    return ShapeDtype(shape, dtype)


def same(a: Any, b: Any) -> None:
    """Compare dtype, shape and every element exactly, NaN equal to NaN."""
    a, b = np.asarray(a), np.asarray(b)
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    np.testing.assert_array_equal(a, b)
