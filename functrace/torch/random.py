"""The generator of random numbers: one for the process, as in PyTorch; its numbers are NumPy's, not PyTorch's.

Floor: 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from functrace.torch import sentences
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.rows import Rows
from functrace.torch.tensor import Tensor, wrap

ROWS = Rows()
GENERATOR = np.random.Generator(np.random.PCG64())


def generator() -> np.random.Generator:
    """Return what every random factory draws from.

    Raises:
        RuntimeError: inside ``torch.func.vmap``, unless it says that all examples get the same numbers.
    """
    if MODES.randomness == "error":
        raise RuntimeError(sentences.RANDOM_IN_VMAP)
    if MODES.randomness == "different":
        raise RuntimeError(sentences.DIFFERENT_IN_VMAP)
    return GENERATOR


_seed = [int(np.random.SeedSequence().generate_state(1, np.uint64)[0])]


@ROWS.function("function")
def manual_seed(seed: int) -> np.random.Generator:
    """Begin the sequence that belongs to a number; returns the generator."""
    _seed[0] = int(seed)
    GENERATOR.bit_generator.state = np.random.PCG64(_seed[0] % 2**64).state
    return GENERATOR


@ROWS.function("function")
def initial_seed() -> int:
    """Return the number that the running sequence was begun with."""
    return _seed[0]


@ROWS.function("function")
def get_rng_state() -> Tensor:
    """Return the state of the generator, as a tensor of bytes."""
    state = GENERATOR.bit_generator.state
    inner = state["state"]
    return wrap(
        np.frombuffer(
            inner["state"].to_bytes(16, "little")
            + inner["inc"].to_bytes(16, "little")
            + state["has_uint32"].to_bytes(1, "little")
            + state["uinteger"].to_bytes(4, "little"),
            np.uint8,
        ).copy()
    )


@ROWS.function("function")
def set_rng_state(new_state: Tensor) -> None:
    """Put the generator into a state that `get_rng_state` returned."""
    data = new_state._array.tobytes()
    GENERATOR.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": int.from_bytes(data[:16], "little"), "inc": int.from_bytes(data[16:32], "little")},
        "has_uint32": data[32],
        "uinteger": int.from_bytes(data[33:37], "little"),
    }


@contextmanager
def random_numbers_of(state: Tensor | None) -> Iterator[None]:
    """Draw from a state that `get_rng_state` returned, then go on from where the generator was; None changes nothing."""
    if state is None:
        yield
        return
    before = get_rng_state()
    set_rng_state(state)
    try:
        yield
    finally:
        set_rng_state(before)


manual_seed(_seed[0])
