"""PyTorch's random numbers: after the same seed, the same ones as on PyTorch's CPU.

One generator serves the process, `default_generator`; functions accept another one as
``generator=``. The engine is the Mersenne Twister (engine.py); numbers.py makes arrays of its words
as PyTorch's kernels do; factories.py, filling.py and sampling.py are the rows.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.random.generator import GENERATOR, Generator, generator, random_numbers_of
from functrace.torch.tensors.device import DeviceLike
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]
ROWS = FunctionTable()
default_generator = GENERATOR
__reexported__ = (Generator, generator, random_numbers_of)


@ROWS.function("function")
def manual_seed(seed: Any) -> Generator:
    """Seed the generator; returns it.

    Args:
        seed: see `Generator.manual_seed`; anything that ``int`` accepts.
    """
    return GENERATOR.manual_seed(int(seed))


@ROWS.function("function")
def seed() -> int:
    """Seed with a nondeterministic number; returns the seed."""
    return GENERATOR.seed()


@ROWS.function("function")
def initial_seed() -> int:
    """Return the current seed."""
    return GENERATOR.initial_seed()


@ROWS.function("function")
def get_rng_state() -> Tensor:
    """Return the state of the generator, as a tensor of bytes in PyTorch's format."""
    return GENERATOR.get_state()


@ROWS.function("function")
def set_rng_state(new_state: Tensor) -> None:
    """Restore a state that `get_rng_state` returned, here or in PyTorch."""
    GENERATOR.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Sequence[DeviceLike] | None = None,
    enabled: bool = True,
    *,
    device_type: str | None = None,
) -> Iterator[None]:
    """Restore the generator's present state when the context ends.

    Args:
        devices: devices whose generators to restore, besides the CPU; there are no others.
        enabled: False to do nothing.
        device_type: kind of these devices.
    """
    with random_numbers_of(get_rng_state() if enabled else None):
        yield


@ROWS.function("function")
def thread_safe_generator() -> Generator | None:
    """Return the generator of this worker thread of a DataLoader; None elsewhere."""
    return None
