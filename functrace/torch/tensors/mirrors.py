"""Conjugates and negations that are lazy views in PyTorch: they share memory, and are computed when
they are read.

NumPy has no such view. Here one of them has its own memory and refers to its source: operations
that write into either write into the other, too. Writes through NumPy take effect when it is
accessed: its tensors recompute it (tensor.py, `Mirrored`). Such tensors have no ``numpy()``, as in
PyTorch.

Layer: 9.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from functrace.ops import elementwise as ew
from functrace.torch.tensors.steps import view_written
from functrace.typing import Array


@final
@dataclass(frozen=True)
class Mirror:
    """A conjugate or negation and its source, in which elements that share memory occur once."""

    source: Array
    made: weakref.ref[Array]
    compute: Callable[..., Array]
    """NumPy's function, ``conjugate`` or ``negative``."""
    is_conjugate: bool
    """True if it is the conjugate of the memory itself; False for a conjugate of a conjugate."""
    is_negative: bool
    """True if it is the negation of the memory itself."""


MIRRORS: dict[int, Mirror] = {}
"""Entries of live conjugates and negations, by identity of the array."""


def conjugated(x: Array) -> Any:
    """Return the conjugate; of an array, as a view of it."""
    return _mirrored(x, np.conjugate) if isinstance(x, np.ndarray) else ew.conj(x)


def negated(x: Array) -> Any:
    """Return the negation; of an array, as a view of it."""
    return _mirrored(x, np.negative) if isinstance(x, np.ndarray) else ew.neg(x)


def _mirrored(x: Array, compute: Callable[..., Array]) -> Array:
    before = MIRRORS.get(id(x))
    if before is not None and before.made() is x and before.compute is compute:
        return before.source[...]
    source = x[
        tuple(
            slice(0, 1) if s == 0 and n > 1 else slice(None)
            for s, n in zip(x.strides, x.shape, strict=True)
        )
    ]
    made = np.asarray(compute(source))
    key = id(made)
    MIRRORS[key] = Mirror(
        source,
        weakref.ref(made, lambda _: MIRRORS.pop(key, None)),
        compute,
        is_conjugate(x) != (compute is np.conjugate),
        is_negative(x) != (compute is np.negative),
    )
    return made if made.shape == x.shape else np.broadcast_to(made, x.shape)


view_written(conjugated, lambda base, value: ew.conj(value))
view_written(negated, lambda base, value: ew.neg(value))


def mirror_of(array: Any) -> Mirror | None:
    """Return the entry of the conjugate or negation that an array is a part of, or None."""
    while MIRRORS and array is not None:
        found = MIRRORS.get(id(array))
        if found is not None and found.made() is array:
            return found
        array = getattr(array, "base", None)  # (NumPy's as_strided puts another object in between)
    return None


def is_lazy(array: Any) -> bool:
    """Return True if an array is a part of a conjugate or negation of memory."""
    found = mirror_of(array)
    return found is not None and (found.is_conjugate or found.is_negative)


def is_conjugate(array: Any) -> bool:
    """Return True if complex numbers are a part of a conjugate."""
    found = mirror_of(array)
    return found is not None and found.is_conjugate and array.dtype.kind == "c"


def is_negative(array: Any) -> bool:
    """Return True if an array is a part of a negation, or of imaginary parts of a conjugate."""
    found = mirror_of(array)
    if found is None:
        return False
    made = found.made()
    if not found.is_conjugate or made is None or array.dtype.kind == "c" or not array.size:
        return found.is_negative
    begin, whole = array.__array_interface__["data"][0], made.__array_interface__["data"][0]
    is_imaginary = (begin - whole) % made.itemsize >= array.itemsize
    return found.is_negative != is_imaginary


def renewed(array: Any) -> Any:
    """Return a part of a conjugate or negation, recomputed from its source."""
    found = mirror_of(array)
    if found is not None:
        found.compute(renewed(found.source), out=found.made())
    return array


def refresh(written: Array) -> None:
    """Propagate a write into an array to its source, if it is a conjugate or negation, and to its
    own.
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
                    np.copyto(there, mirror.compute(here))
                    stale.append(there)
                    done.add(key)
                    break
