"""Compression of residuals: fewer bits, zlib, or a codec of numcodecs; and its worst errors.

An array is kept exactly if a lossy method does not apply to it: integers, bools, dtypes of other
libraries, and arrays with NaN or infinity. So a method never returns garbage silently; its error is
bounded as `functrace.policies.compress` documents, and `recording_errors` measures it.

Layer: 5.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast, final

import numpy as np

from functrace.control.storages import Storage
from functrace.errors import DtypeError
from functrace.ir.aval import ShapeDtype

if TYPE_CHECKING:
    from functrace.typing import Array

Numbers = np.ndarray[Any, np.dtype[Any]]
METHODS: Final = ("float16", "int8", "zlib")
BLOCK: Final = 256
"""Elements that share one scale of int8."""
CHUNK: Final = BLOCK * 256
"""Elements converted at once, so that temporary arrays stay small."""
BITS: Final = 14
"""Float16 numbers are scaled to magnitudes below 2**BITS; the largest float16 number is 65504."""
EXACT: Final = "exact"


@final
class CompressPolicy(Storage):
    """Policy that compresses residuals.

    Args:
        method: one of `METHODS`, or a codec: an object with ``encode`` and ``decode``.
    """

    __slots__ = ("key", "method")

    def __init__(self, method: object) -> None:
        self.method: Any = method
        self.key: Any = method if isinstance(method, str) else _codec_key(method)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CompressPolicy) and self.key == other.key

    def __hash__(self) -> int:
        return hash((CompressPolicy, self.key))

    def __repr__(self) -> str:
        return f"policies.compress({self.method!r})"

    def __reduce__(self) -> Any:
        return CompressPolicy, (self.method,)

    @property
    def label(self) -> str:  # type: ignore[override]
        """Word for listings."""
        name = self.method if isinstance(self.method, str) else type(self.method).__name__
        return f"compressed by {name}"

    def encode(self, x: Array) -> tuple[Array, Any]:
        """Return the compressed array, and the description for restoring it."""
        with np.errstate(all="ignore"):  # (rounding to zero is no event in the user's program)
            stored, note = self._encoded(np.asarray(x))
        for log in _logs.get():
            log.rows.append(_measured(np.asarray(x), stored, self.decode(stored, note), self))
        return stored, note

    def _encoded(self, x: Numbers) -> tuple[Numbers, Any]:
        shown = without_repeats(x)
        form = shown.dtype, shown.shape, x.shape
        parts = _real_parts(shown) if shown.dtype.kind in "fc" else None
        if self.method == "zlib":
            packed = zlib.compress(_by_byte(shown), 1)
            if len(packed) < shown.nbytes:
                return np.frombuffer(packed, np.uint8), (self.method, *form)
        elif self.method == "float16":
            found = None if parts is None else _to_float16(parts)
            if found is not None:
                return found[0], (self.method, *form, found[1])
        elif self.method == "int8":
            found = None if parts is None else _to_int8(parts)
            if found is not None:
                return found, (self.method, *form)
        else:
            encoded = self._by_codec(shown)
            if encoded is not None:
                return encoded, ("codec", *form)
        return shown.copy("K"), (EXACT, *form)

    def _by_codec(self, x: Numbers) -> Numbers | None:
        """Return the codec's bytes; ``None`` if the codec is for another dtype, refuses the array, or
        changes values that must stay exact.
        """
        given: Numbers = np.array(x, order="C")  # (a codec may keep or change what it is given)
        if x.dtype.kind == "c":
            given = given.reshape((*x.shape, 1)).view(_real_dtype(given.dtype))
        wanted = getattr(self.method, "dtype", getattr(self.method, "decode_dtype", None))
        if (wanted is not None and np.dtype(wanted) != given.dtype) or not x.size:
            return None
        try:
            encoded = _as_bytes(self.method.encode(given))
            if x.dtype.kind in "fc" and np.isfinite(x).all():
                return encoded
            same = self._decoded(encoded, x.dtype, x.shape)
        except (TypeError, ValueError):  # a codec for other dtypes or shapes
            return None
        return encoded if np.array_equal(_as_bytes(same), _as_bytes(x)) else None

    def _decoded(self, stored: Numbers, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Numbers:
        """Return the codec's array.

        Raises:
            DtypeError: if the codec returns another dtype, or another number of bytes.
        """
        decoded: Any = self.method.decode(stored)
        if isinstance(decoded, np.ndarray):
            array: Any = cast("Any", decoded)
            real = _real_dtype(dtype)
            if array.dtype.kind == "f" and dtype.kind in "fc":
                decoded = array.astype(real, copy=False)
            elif array.dtype != real and (array.dtype.kind == "b" or array.dtype.itemsize > 1):
                raise DtypeError(
                    f"the codec {self.method!r} restored {array.dtype}, but {dtype} was compressed",
                    fix="use a codec that restores arrays of this dtype, or their bytes",
                )
        made = _as_bytes(cast("object", decoded))
        size = math.prod(shape) * dtype.itemsize
        if made.nbytes != size:
            raise DtypeError(
                f"the codec {self.method!r} restored {made.nbytes:,} bytes, but {size:,} were "
                "compressed",
                fix="use a codec that restores arrays of this dtype",
            )
        return made.view(dtype).reshape(shape)

    def decode(self, payload: Array, note: object) -> Any:
        """Return the array."""
        with np.errstate(all="ignore"):
            return self._restored(np.asarray(payload), *cast("tuple[Any, ...]", note))

    def _restored(
        self,
        stored: Numbers,
        method: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        full: tuple[int, ...],
        exponent: int = 0,
    ) -> Numbers:
        if method == EXACT:
            made = stored
        elif method == "zlib":
            made = _from_bytes(zlib.decompress(stored.tobytes()), dtype, shape)
        elif method == "float16":
            made = _complete(_from_float16(stored, exponent, dtype), dtype, shape)
        elif method == "int8":
            made = _complete(_from_int8(stored, dtype, shape), dtype, shape)
        else:
            made = self._decoded(stored, dtype, shape)
        return np.broadcast_to(made, full) if made.shape != full else made


def _codec_key(codec: object) -> Any:
    """Return a hashable key of a codec: its configuration if it has one, else the object."""
    config: Any = getattr(codec, "get_config", None)
    if config is not None:
        return type(codec), repr(sorted(config().items()))
    return codec


def without_repeats(x: Numbers) -> Numbers:
    """Return a view with one element along axes of stride 0: a broadcast array is kept once."""
    if not x.size or 0 not in x.strides:
        return x
    return x[tuple([slice(0, 1) if step == 0 else slice(None) for step in x.strides])]


def _real_parts(x: Numbers) -> Numbers:
    """Return the real numbers of an array, flat, in C order."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(_real_dtype(x.dtype)) if x.dtype.kind == "c" else flat


def _complete(parts: Numbers, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Numbers:
    return np.ascontiguousarray(parts).view(dtype).reshape(shape)


# -- float16 ---------------------------------------------------------------------------------------


def _to_float16(
    parts: Numbers,
) -> tuple[Numbers, int] | None:
    """Return numbers times a power of two, as float16, and its exponent; ``None`` if one is not
    finite, or they have so few bits already.
    """
    if parts.dtype.itemsize <= 2 or parts.size <= 1:
        return None
    most = _largest(parts)
    if not np.isfinite(most):
        return None
    exponent = int(np.frexp(most)[1])
    made = np.empty(parts.size, np.float16)
    for start in range(0, parts.size, CHUNK):
        made[start : start + CHUNK] = np.ldexp(parts[start : start + CHUNK], BITS - exponent)
    if exponent == np.finfo(parts.dtype).maxexp:  # 2**BITS would be restored as infinity
        below = np.nextafter(np.float16(2**BITS), np.float16(0))
        np.clip(made, -below, below, out=made)
    return made, exponent


def _from_float16(stored: Numbers, exponent: int, dtype: np.dtype[Any]) -> Numbers:
    made = stored.astype(_real_dtype(dtype))
    return np.ldexp(made, exponent - BITS, out=made)


# -- int8 ------------------------------------------------------------------------------------------


def _to_int8(parts: Numbers) -> Numbers | None:
    """Return the largest magnitude of each block, then all numbers as fractions of it; ``None`` if
    one is not finite, or nothing is gained.
    """
    dtype, blocks = parts.dtype, -(-parts.size // BLOCK)
    head = blocks * dtype.itemsize
    if head + parts.size >= parts.nbytes or not np.isfinite(_largest(parts)):
        return None
    made = np.empty(head + parts.size, np.int8)
    scales, levels = made[:head].view(dtype), made[head:]
    compute = np.result_type(dtype, np.float32)
    for start in range(0, parts.size, CHUNK):
        part = parts[start : start + CHUNK].astype(compute, copy=False)
        most = np.maximum.reduceat(np.abs(part), np.arange(0, part.size, BLOCK))
        scales[start // BLOCK : start // BLOCK + most.size] = most
        most[most == 0] = 1
        # fractions first: a product with 127 could overflow
        fractions = part / np.repeat(most, BLOCK)[: part.size]
        levels[start : start + CHUNK] = np.rint(fractions * compute.type(127))
    return made


def _from_int8(stored: Numbers, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Numbers:
    real = _real_dtype(dtype)
    size = math.prod(shape) * (dtype.itemsize // real.itemsize)
    head = -(-size // BLOCK) * real.itemsize
    scales = np.frombuffer(stored[:head].tobytes(), real)
    compute = np.result_type(real, np.float32)
    levels, made = stored[head:], np.empty(size, real)
    for start in range(0, size, CHUNK):
        # divided first, so that the largest number of each block is exact
        part = levels[start : start + CHUNK].astype(compute) / compute.type(127)
        part *= np.repeat(scales[start // BLOCK : (start + CHUNK) // BLOCK], BLOCK)[: part.size]
        made[start : start + CHUNK] = part
    return made


def _real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the real and imaginary parts."""
    parts: Numbers = np.real(np.empty(0, dtype))
    return parts.dtype


def _largest(parts: Numbers) -> Any:
    """Return the largest magnitude, or NaN, without an array of magnitudes."""
    return (
        max(parts.max(), -parts.min())
        if parts.size and not np.isnan(parts.max())
        else (np.nan if parts.size else parts.dtype.type(0))
    )


# -- bytes -----------------------------------------------------------------------------------------


def _by_byte(x: Numbers) -> bytes:
    """Return the first bytes of all elements, then the second ones …: zlib finds more repeats."""
    flat = np.ascontiguousarray(x).reshape(-1)
    return flat.view(np.uint8).reshape(flat.size, x.itemsize).T.tobytes()


def _from_bytes(data: bytes, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Numbers:
    by_byte = np.frombuffer(data, np.uint8).reshape(dtype.itemsize, -1)
    return np.ascontiguousarray(by_byte.T).view(dtype).reshape(shape)


def _as_bytes(value: object) -> Numbers:
    """Return the bytes of an array, or of bytes."""
    if isinstance(value, np.ndarray):
        given = cast("Numbers", value)
        return np.ascontiguousarray(given).reshape(-1).view(np.uint8)
    return np.frombuffer(cast("bytes", value), np.uint8)


# -- errors ----------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class CompressionError:
    """Error of one compressed array.

    Args:
        aval: its shape and dtype.
        nbytes: bytes before, without repeated elements of a broadcast array.
        stored: bytes after.
        worst: the largest absolute difference of an element; 0 for an exact one.
        largest: the largest magnitude of an element.
        policy: the policy, as text.

    Example:
        >>> import numpy as np, functrace as ft
        >>> f = ft.checkpoint(lambda x: np.sum(np.sin(x)), policy=ft.policies.compress("float16"))
        >>> with ft.policies.compression_errors() as found:
        ...     gradient = ft.grad(f)(np.ones(4))
        >>> found.rows[0].nbytes, found.rows[0].stored
        (32, 8)
    """

    aval: ShapeDtype
    nbytes: int
    stored: int
    worst: float
    largest: float
    policy: str

    @property
    def relative(self) -> float:
        """Worst error, as a fraction of the largest magnitude; 0 for an exact array."""
        return self.worst / self.largest if self.worst else 0.0


@final
@dataclass
class CompressionErrors:
    """Errors of the arrays that were compressed while they were recorded; iterable.

    Args:
        rows: one `CompressionError` for each array, in order.

    Example:
        >>> import numpy as np, functrace as ft
        >>> f = ft.checkpoint(lambda x: np.sum(np.sin(x)), policy=ft.policies.compress("int8"))
        >>> with ft.policies.compression_errors() as found:
        ...     gradient = ft.grad(f)(np.linspace(0.0, 1.0, 1000))
        >>> found.nbytes, found.stored, bool(0 < found.worst < 1 / 254)
        (8000, 1032, True)
    """

    rows: list[CompressionError] = field(default_factory=list[CompressionError])

    @property
    def worst(self) -> float:
        """Largest absolute error of any element; 0 if nothing was compressed."""
        return max([row.worst for row in self.rows], default=0.0)

    @property
    def relative(self) -> float:
        """Largest relative error of any array."""
        return max([row.relative for row in self.rows], default=0.0)

    @property
    def nbytes(self) -> int:
        """Bytes before compression."""
        return sum(row.nbytes for row in self.rows)

    @property
    def stored(self) -> int:
        """Bytes after compression."""
        return sum(row.stored for row in self.rows)

    def __iter__(self) -> Iterator[CompressionError]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        lines = [
            f"{row.nbytes:>14,} -> {row.stored:>12,} bytes  {row.worst:.3g} of {row.largest:.3g}"
            f"  {row.aval}  {row.policy}"
            for row in self.rows
        ]
        total = f"{self.nbytes:>14,} -> {self.stored:>12,} bytes  worst error {self.worst:.3g}"
        return "\n".join([*lines, total])


def _measured(
    x: Numbers, stored: Numbers, restored: Numbers, policy: CompressPolicy
) -> CompressionError:
    """Measure the error of one array."""
    shown = without_repeats(x)
    worst = largest = 0.0  # (it is exact if it has no error that could be measured)
    if shown.dtype.kind in "fc" and np.isfinite(shown).all():
        worst = float(np.max(np.abs(restored - x), initial=0.0))
        largest = float(np.max(np.abs(shown), initial=0.0))
    aval = ShapeDtype(x.shape, x.dtype)
    return CompressionError(aval, shown.nbytes, stored.nbytes, worst, largest, repr(policy))


_logs: ContextVar[tuple[CompressionErrors, ...]] = ContextVar(
    "functrace_compression_errors", default=()
)


@final
class recording_errors:  # a context manager, called like a function
    """Record the errors of arrays that are compressed in a ``with`` block."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[CompressionErrors] = []

    def __enter__(self) -> CompressionErrors:
        found = CompressionErrors()
        self._found.append(found)
        _logs.set((*_logs.get(), found))
        return found

    def __exit__(self, *_: object) -> None:
        ended = self._found.pop()
        _logs.set(tuple([log for log in _logs.get() if log is not ended]))
