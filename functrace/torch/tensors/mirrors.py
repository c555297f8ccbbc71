"""Conjugates, which are lazy views in PyTorch: they share memory, and are computed when they are
read.

NumPy has no such view. Here a conjugate has its own memory and refers to its source: operations
that write into either write into the other, too. Writes through NumPy take effect when the
conjugate is accessed: its tensors recompute it (tensor.py, `Mirrored`). Conjugates have no
``numpy()``, as in PyTorch.

Layer: 9.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.ops import elementwise as ew
from functrace.torch.tensors.steps import view_written
from functrace.typing import Array


@final
@dataclass(frozen=True)
class Mirror:
    """A conjugate and its source, in which elements that share memory occur once."""

    source: Array
    made: weakref.ref[Array]
    is_conjugate: bool
    """True if it is the conjugate of the memory itself; False for a conjugate of a conjugate."""


MIRRORS: dict[int, Mirror] = {}
"""Entries of live conjugates, by identity of the conjugate."""


def conjugated(x: Array) -> Any:
    """Return the conjugate; of an array, as a view of it."""
    if not isinstance(x, np.ndarray):
        return ew.conj(x)
    before = MIRRORS.get(id(x))
    if before is not None and before.made() is x:
        return before.source[...]
    source = x[
        tuple(
            slice(0, 1) if s == 0 and n > 1 else slice(None)
            for s, n in zip(x.strides, x.shape, strict=True)
        )
    ]
    made = np.asarray(np.conjugate(source))
    key = id(made)
    MIRRORS[key] = Mirror(
        source, weakref.ref(made, lambda _: MIRRORS.pop(key, None)), not is_conjugate(x)
    )
    return made if made.shape == x.shape else np.broadcast_to(made, x.shape)


view_written(conjugated, lambda base, value: ew.conj(value))


def mirror_of(array: Any) -> Mirror | None:
    """Return the entry of the conjugate that an array is a part of, or None."""
    while MIRRORS and isinstance(array, np.ndarray):
        found = MIRRORS.get(id(array))
        if found is not None and found.made() is array:
            return found
        array = array.base
    return None


def is_conjugate(array: Any) -> bool:
    """Return True if an array is a part of a conjugate."""
    found = mirror_of(array)
    return found is not None and found.is_conjugate


def renewed(array: Any) -> Any:
    """Return a part of a conjugate, recomputed from its source."""
    found = mirror_of(array)
    if found is not None:
        np.conjugate(renewed(found.source), out=found.made())
    return array


def refresh(written: Array) -> None:
    """Propagate a write into an array to its source, if it is a conjugate, and to its
    conjugates.
    """
    stale, done = [written], set()
    while stale:
        changed = stale.pop()
        for key, mirror in list(MIRRORS.items()):
            made = mirror.made()
            if key in done or made is None:
                continue
            for here, there in ((made, mirror.source), (mirror.source, made)):
                if np.may_share_memory(changed, here):
                    np.copyto(there, np.conjugate(here))
                    stale.append(there)
                    done.add(key)
                    break
