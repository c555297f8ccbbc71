"""Mersenne Twister: the source of PyTorch's random numbers on the CPU.

NumPy's implementation of the engine gives the same stream of 32-bit words after the same seeding.
All numbers are made of these words: a 24-bit float of one word, a 53-bit double of two.

Layer: 9.
"""

from __future__ import annotations

import struct
import threading
from typing import Any, final

import numpy as np

from functrace.typing import Array

STATE_BYTES = 5056
"""Size of a saved state, in PyTorch's format."""
_WORDS = 624
_HEADER = struct.Struct("<QiiQ")
_NORMAL = struct.Struct("<dddi4x8x")
"""The cached normal number: unused, the number, unused, is it there; then a float that PyTorch does
not use on the CPU.
"""
_BEGINNING = threading.Lock()
_KEY = slice(_HEADER.size, _HEADER.size + 8 * _WORDS)


@final
class Engine:
    """A stream of random words, and the second number of the last pair of normal numbers.

    Args:
        seed: the seed, below 2**64; PyTorch uses its lowest 32 bits.

    Attributes:
        normal: the cached normal number, or None.
    """

    __slots__ = ("_bits", "_has_begun", "_integers", "_is_new", "normal", "seed")
    _bits: Any
    _integers: Any

    def __init__(self, seed: int) -> None:
        self._has_begun = False
        self.reseed(seed)

    def __getattr__(self, name: str) -> Any:
        if name == "_bits" or name == "_integers":
            self._begin()
            return getattr(self, name)
        raise AttributeError(f"'Engine' object has no attribute {name!r}")

    def _begin(self) -> None:
        """Make NumPy's engine, at the first use: `numpy.random` takes 10 ms to import."""
        with _BEGINNING:
            if not self._has_begun:
                bits: Any = np.random.MT19937(0)
                bits._legacy_seeding(self.seed & 0xFFFFFFFF)
                self._integers, self._bits = np.random.Generator(bits).integers, bits
                self._has_begun = True

    def reseed(self, seed: int) -> None:
        """Start again, with another seed."""
        self.seed = seed
        self.normal: float | None = None
        if self._has_begun:
            self._bits._legacy_seeding(seed & 0xFFFFFFFF)
        self._is_new = True

    def words(self, count: int) -> Array:
        """Return words of 32 bits.

        Args:
            count: how many.
        """
        if not count:
            return np.empty(0, np.uint32)
        self._is_new = False
        if count < 2048:  # 1 us instead of 10 us; the same words
            return self._bits.random_raw(count).astype(np.uint32)
        return self._integers(0, 1 << 32, count, np.uint32)

    def long_words(self, count: int) -> Array:
        """Return words of 64 bits, each made of two: the higher half first."""
        halves = self.words(2 * count).reshape(count, 2)
        return halves[:, ::-1].ravel().view(np.uint64)  # little-endian machines

    def doubles(self, count: int) -> Array:
        """Return float64 numbers in [0, 1), of 53 random bits each."""
        return (self.long_words(count) & np.uint64((1 << 53) - 1)) * 2.0**-53

    def floats(self, count: int) -> Array:
        """Return float32 numbers in [0, 1), of 24 random bits each."""
        return (self.words(count) & np.uint32((1 << 24) - 1)).astype(np.float32) * np.float32(
            2.0**-24
        )

    # -- state -------------------------------------------------------------------------------------

    def snapshot(self) -> tuple[Any, ...]:
        """Return the state, for `restore`."""
        return self._bits.state, self._is_new, self.normal, self.seed

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Return to a state that `snapshot` returned."""
        self._bits.state, self._is_new, self.normal, self.seed = snapshot

    def skip(self, count: int) -> None:
        """Pass over words."""
        if count:
            self._is_new = False
            self._bits.random_raw(count, output=False)

    def to_bytes(self) -> bytes:
        """Return the state in PyTorch's format."""
        state: Any = self._bits.state["state"]
        position = state["pos"]
        header = _HEADER.pack(self.seed, _WORDS + 1 - position, 1, 0 if self._is_new else position)
        cached = self.normal is not None
        normal = _NORMAL.pack(0.0, self.normal if cached else 0.0, 0.0, cached)
        return header + state["key"].astype("<u8").tobytes() + normal

    def from_bytes(self, data: bytes) -> None:
        """Return to a state in PyTorch's format.

        Raises:
            RuntimeError: if it is none.
        """
        if len(data) != STATE_BYTES:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG "
                f"state size to be {len(data)}"
            )
        seed, left, seeded, position = _HEADER.unpack_from(data)
        if not seeded or not 0 < left <= _WORDS or position > _WORDS:
            raise RuntimeError("Invalid mt19937 state")
        _, normal, _, cached = _NORMAL.unpack_from(data, _KEY.stop)
        self.seed = seed
        self.normal = normal if cached else None
        self._is_new = left == 1 and not position
        self._bits.state = {
            "bit_generator": "MT19937",
            "state": {
                "key": np.frombuffer(data[_KEY], "<u8").astype(np.uint32),
                "pos": _WORDS if left == 1 else position,
            },
        }
