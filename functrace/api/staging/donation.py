"""Donated arguments of a jitted function, whose memory is reused for results.

Note [Donated arrays]
    Other references to a NumPy array cannot be revoked, but its header can be changed: after
    donation its dtype is one of bytes whose name reports the donation. Operations on it raise, and
    the results own its memory. So the array must own this memory (or be its only view), and be
    passed once. Other views of the array cannot be detected: they would show the results.

Layer: 8.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, cast, final

import numpy as np

from functrace.errors import ArgumentError
from functrace.locks import after_fork
from functrace.typing import Array

_GONE: dict[int, np.dtype[Any]] = {}

_TAKEN: dict[int, DonatedArrays] = {}
"""The running call to which an array is donated, by the array's id."""


@after_fork
def _forget_other_threads() -> None:
    """Drop the calls of threads that a forked child does not have."""
    _TAKEN.clear()


_set_dtype: Callable[[Array, np.dtype[Any]], None] = (
    getattr(np.ndarray, "_set_dtype", None) or cast("Any", np.ndarray).dtype.__set__
)
"""Changes the dtype in an array's header. (NumPy 2.5 warns of an assignment.)"""


@final
class DonatedArrays:
    """The donated arrays of one call.

    Between `claim` and `end` no other call, of another thread, can have the arrays.

    Args:
        donated: the leaves of donated arguments; leaves that are no arrays are ignored.
        leaves: the leaves of all arguments.
        name: of the function.

    Raises:
        ArgumentError: if a donated array is read-only, does not own its memory, or shares it with
            another argument.
    """

    __slots__ = ("arrays", "is_usable", "name")

    def __init__(self, donated: Sequence[Any], leaves: Sequence[Any], name: str) -> None:
        self.name = name
        self.arrays: list[Array] = [x for x in donated if isinstance(x, np.ndarray)]
        arrays = [cast("Array", x) for x in leaves if isinstance(x, np.ndarray)]
        owners = [id(_owner(x)) for x in arrays]
        for x in self.arrays:
            if owners.count(id(_owner(x))) > 1:
                raise ArgumentError(
                    f"jit of {name}: an array ({_described(x)}) that is donated shares memory with "
                    "another argument",
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
                    f"jit of {name}: an array ({_described(x)}) that is donated is a view of "
                    "memory that is not its own",
                    fix="pass a copy, or do not donate it",
                )
        self.is_usable = all(x.flags.c_contiguous and x.dtype.isnative for x in arrays)
        """True if the program that writes into donated memory may run: it requires C order."""

    def claim(self) -> None:
        """Claim the arrays for this call.

        Raises:
            ArgumentError: if another thread has donated one meanwhile.
        """
        for k, x in enumerate(self.arrays):
            is_mine = (
                _TAKEN.setdefault(id(x), self) is self
            )  # atomic: only one thread gets the array
            if is_mine and x.dtype is not _GONE.get(x.dtype.itemsize):
                continue
            for y in self.arrays[: k + is_mine]:
                del _TAKEN[id(y)]
            raise ArgumentError(
                f"jit of {self.name}: an array ({list(x.shape)}) that is donated has been donated "
                "by another thread",
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
        """Replace the dtype of the donated arrays by bytes."""
        for x in self.arrays:
            size = x.dtype.itemsize
            if size not in _GONE:
                _GONE[size] = np.dtype([("donated to functrace.jit", f"V{size}")])
            _set_dtype(x, _GONE[size])
            del _TAKEN[id(x)]


def _described(x: Array) -> str:
    return f"{x.dtype}{list(x.shape)}"


def _owner(x: Array) -> object:
    """Return the owner of an array's memory."""
    owner: Any = x
    while True:
        one: object = owner
        base = (
            owner.base
            if isinstance(one, np.ndarray)
            else owner.obj
            if isinstance(one, memoryview)
            else None
        )
        if base is None:
            return owner
        owner = base


def _is_only_view(x: Array) -> bool:
    """Return True for the only view of a whole array without other references, or one that was
    donated."""
    base = x.base
    if type(base) is not np.ndarray or not base.flags.owndata or base.nbytes != x.nbytes:
        return False
    del base
    return x.base.dtype is _GONE.get(x.dtype.itemsize) or _count(x) == _ALONE  # type: ignore[union-attr]


def _count(x: Array) -> int:
    base = x.base
    return sys.getrefcount(base) if type(base) is np.ndarray else 0


_ALONE = _count(np.empty(1)[:])
"""The reference count of an array that one view refers to."""
