"""``ndenumerate``, ``nditer`` and ``broadcast`` of traced values; NumPy's classes convert them.

Layer: 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NoReturn, final

import numpy as np

from functrace.errors import UnsupportedFunctionError
from functrace.ir.aval import shape_of
from functrace.numpy.protocol.conversions import BEYOND
from functrace.numpy.protocol.operands import Arrayed, Operand, arrayed, holds_tracer
from functrace.ops.shaping import broadcast_to


class Enumerated(np.ndenumerate):  # type: ignore[type-arg]
    """``numpy.ndenumerate``, for traced arrays too: elements are traced."""

    def __init__(self, arr: Operand) -> None:
        if holds_tracer(arr):
            self.iter = _Elements(arrayed(arr))  # type: ignore[assignment]  # all that NumPy's class keeps
        else:
            super().__init__(arr)  # type: ignore[call-overload]


@final
class _Elements:
    """Iterator over the elements of a traced array in C order, as ``ndarray.flat``."""

    def __init__(self, x: Arrayed) -> None:
        self._x, self._left = x, iter(np.ndindex(shape_of(x)))
        self.coords: tuple[int, ...] = next(self._left, ())
        self._is_over = not math.prod(shape_of(x))

    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        element = self._x[self.coords]
        following = next(self._left, None)
        if following is None:
            self._is_over = True
        else:
            self.coords = following
        return element


class _BroadcastKind(type):
    """Metaclass that makes NumPy's own objects instances, too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type(instance) in (Broadcast, np.broadcast)


@final
class Broadcast(metaclass=_BroadcastKind):
    """``numpy.broadcast``, for traced arrays too: the common shape, and an iterator over elements.

    Raises:
        ShapeError: if the shapes do not broadcast.
    """

    def __new__(cls, *arrays: Operand) -> Any:
        """Return NumPy's own object for plain arrays."""
        if not holds_tracer(arrays):
            return np.broadcast(*arrays)  # type: ignore[arg-type]
        return super().__new__(cls)

    def __init__(self, *arrays: Operand) -> None:
        given = [arrayed(x) for x in arrays]
        self.shape = np.broadcast_shapes(*map(shape_of, given))
        self.ndim = self.nd = len(self.shape)
        self.size, self.numiter = math.prod(self.shape), len(given)
        self._arrays = [broadcast_to(x, self.shape) for x in given]
        self.reset()

    def reset(self) -> None:
        """Restart the iteration."""
        self.index = 0
        self._left = iter(np.ndindex(self.shape))

    @property
    def iters(self) -> tuple[Iterator[Any], ...]:
        """Iterators over each broadcast array."""
        return tuple([map(x.__getitem__, np.ndindex(self.shape)) for x in self._arrays])

    def __iter__(self) -> Broadcast:
        return self

    def __next__(self) -> tuple[Any, ...]:
        place = next(self._left)
        self.index += 1
        return tuple([x[place] for x in self._arrays])


class _IteratorKind(type):
    """Metaclass that makes NumPy's own objects instances."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, np.nditer)


@final
class Iterated(metaclass=_IteratorKind):
    """``numpy.nditer`` of plain arrays."""

    def __new__(cls, op: Operand, *args: Any, **kwargs: Any) -> Any:
        """Return NumPy's own object."""
        if holds_tracer(op):
            _refuse()
        return np.nditer(op, *args, **kwargs)  # type: ignore[arg-type]


def _refuse() -> NoReturn:
    raise UnsupportedFunctionError(
        "numpy.nditer iterates over memory, which a traced value has not", fix=BEYOND["nditer"]
    )
