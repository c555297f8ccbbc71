"""Conjugates, which are views in PyTorch: they share memory, and are computed when they are read.

NumPy has no such view. Here a conjugate has memory of its own, and lists what it is a conjugate of: what is written into
either by operations is written into the other, too. What is written through NumPy is seen when somebody looks at the
conjugate: its tensors compute it anew (tensor.py, `Mirrored`). Conjugates have no ``numpy()``, as in PyTorch.

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
    """A conjugate and what it is one of, of which elements that share memory stand once."""

    source: Array
    made: weakref.ref[Array]
    is_conjugate: bool
    """Whether it is one of the memory itself; not, for a conjugate of a conjugate."""


MIRRORS: dict[int, Mirror] = {}
"""Those whose conjugates somebody holds, by identity of the conjugate."""


def conjugated(x: Array) -> Any:
    """Return the conjugate, of an array as a view of it."""
    if not isinstance(x, np.ndarray):
        return ew.conj(x)
    before = MIRRORS.get(id(x))
    if before is not None and before.made() is x:
        return before.source[...]
    source = x[tuple(slice(0, 1) if s == 0 and n > 1 else slice(None) for s, n in zip(x.strides, x.shape, strict=True))]
    made = np.asarray(np.conjugate(source))
    key = id(made)
    MIRRORS[key] = Mirror(source, weakref.ref(made, lambda _: MIRRORS.pop(key, None)), not is_conjugate(x))
    return made if made.shape == x.shape else np.broadcast_to(made, x.shape)


view_written(conjugated, lambda base, value: ew.conj(value))


def mirror_of(array: Any) -> Mirror | None:
    """Return what an array is a part of, if that is a conjugate, or one of a part of one."""
    while MIRRORS and isinstance(array, np.ndarray):
        found = MIRRORS.get(id(array))
        if found is not None and found.made() is array:
            return found
        array = array.base
    return None


def is_conjugate(array: Any) -> bool:
    """Return whether an array is a part of a conjugate."""
    found = mirror_of(array)
    return found is not None and found.is_conjugate


def renewed(array: Any) -> Any:
    """Return a part of a conjugate, computed anew from what it is one of."""
    found = mirror_of(array)
    if found is not None:
        np.conjugate(renewed(found.source), out=found.made())
    return array


def refresh(written: Array) -> None:
    """Write what was written into an array into what it is a conjugate of, and into its conjugates."""
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
