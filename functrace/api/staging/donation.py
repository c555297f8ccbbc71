"""Arguments that are given away to a jitted function, for their memory to become that of results.

Note [What has been donated says so]
    An array of NumPy's cannot be taken away from whoever else refers to it, but its header can be changed: a donated array
    is one of bytes afterwards, whose dtype says what has happened. Whatever computes with it raises, and its memory is in
    the hands of the results. So it has to own this memory (or be the only view of it that there is), and to be passed once.
    What cannot be found out is whether somebody holds a view of it: that would show what is written there.

Layer: 8.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from functrace.errors import ArgumentError
from functrace.locks import after_fork
from functrace.typing import Array

_GONE: dict[int, np.dtype[Any]] = {}

_TAKEN: dict[int, Donation] = {}
"""By identity of an array, the call that is running and that it was given to."""


@after_fork
def _forget_other_threads() -> None:
    """Forget the calls of threads that a forked child does not have."""
    _TAKEN.clear()


_set_dtype: Callable[[Array, np.dtype[Any]], None] = getattr(np.ndarray, "_set_dtype", None) or np.ndarray.dtype.__set__  # type: ignore[attr-defined]
"""Changes the dtype in an array's header. (NumPy 2.5 warns of an assignment.)"""


@final
class Donation:
    """The donated arrays of one call.

    Between `claim` and `end` no other call, of another thread, can have the arrays.

    Args:
        donated: the leaves of donated arguments; those that are no arrays (numbers) have nothing to give.
        leaves: those of all arguments.
        name: of the function.

    Raises:
        ArgumentError: if one is read-only, does not own its memory, or shares it with another argument.
    """

    __slots__ = ("arrays", "is_usable", "name")

    def __init__(self, donated: Sequence[Any], leaves: Sequence[Any], name: str) -> None:
        self.name = name
        self.arrays: list[Array] = [x for x in donated if isinstance(x, np.ndarray)]
        owners = [id(_owner(x)) for x in leaves if isinstance(x, np.ndarray)]
        for x in self.arrays:
            if owners.count(id(_owner(x))) > 1:
                raise ArgumentError(
                    f"jit of {name}: an array ({_described(x)}) that is donated shares memory with another argument",
                    fix="pass a copy of one of them",
                )
            if not x.flags.writeable or type(x) is not np.ndarray:
                what = "is read-only" if type(x) is np.ndarray else f"is a {type(x).__name__}"
                raise ArgumentError(
                    f"jit of {name}: an array ({_described(x)}) that is donated {what}",
                    fix="pass a copy, or do not donate it",
                )
            if not (x.flags.owndata or _is_only_view(x)):
                raise ArgumentError(
                    f"jit of {name}: an array ({_described(x)}) that is donated is a view of memory that is not its own",
                    fix="pass a copy, or do not donate it",
                )
        self.is_usable = all(x.flags.c_contiguous and x.dtype.isnative for x in leaves if isinstance(x, np.ndarray))
        """Whether the program that writes into donated memory may run: it takes arrays in C order."""

    def claim(self) -> None:
        """Take the arrays for this call alone.

        Raises:
            ArgumentError: if another thread has donated one since it was passed.
        """
        for k, x in enumerate(self.arrays):
            is_mine = _TAKEN.setdefault(id(x), self) is self  # atomic: of two threads one gets the array
            if is_mine and x.dtype is not _GONE.get(x.dtype.itemsize):
                continue
            for y in self.arrays[: k + is_mine]:
                del _TAKEN[id(y)]
            raise ArgumentError(
                f"jit of {self.name}: an array ({list(x.shape)}) that is donated has been donated by another thread",
                fix="pass a copy in one of them",
            )

    def __enter__(self) -> None:
        self.claim()

    def __exit__(self, *_raised: object) -> None:
        self.end()

    def taken(self, results: Sequence[Any]) -> list[Any]:
        """Return results with headers of their own."""
        gone = {id(x) for x in self.arrays}
        return [x.view() if id(x) in gone else x for x in results]

    def end(self) -> None:
        """Leave bytes of the donated arrays."""
        for x in self.arrays:
            size = x.dtype.itemsize
            if size not in _GONE:
                _GONE[size] = np.dtype([("donated to functrace.jit", f"V{size}")])
            _set_dtype(x, _GONE[size])
            del _TAKEN[id(x)]


def _described(x: Array) -> str:
    return f"{x.dtype}{list(x.shape)}"


def _owner(x: Array) -> object:
    """What owns an array's memory."""
    owner: Any = x
    while True:
        base = owner.base if isinstance(owner, np.ndarray) else owner.obj if isinstance(owner, memoryview) else None
        if base is None:
            return owner
        owner = base


def _is_only_view(x: Array) -> bool:
    """Whether an array shows all of the memory of one that nobody else refers to, or that has been donated itself."""
    base = x.base
    if type(base) is not np.ndarray or not base.flags.owndata or base.nbytes != x.nbytes:
        return False
    del base
    return x.base.dtype is _GONE.get(x.dtype.itemsize) or _count(x) == _ALONE  # type: ignore[union-attr]


def _count(x: Array) -> int:
    base = x.base
    return sys.getrefcount(base) if type(base) is np.ndarray else 0


_ALONE = _count(np.empty(1)[:])
"""The reference count of an array to which one view refers."""
