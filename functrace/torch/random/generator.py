"""Generators of random numbers, and the one of the process.

Layer: 9.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn, final

import numpy as np

from functrace.ops.indexing import ARRAY, gather
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.errors.warnings import warn
from functrace.torch.random.engine import Engine
from functrace.torch.tensors.device import CPU, DeviceLike, check_device
from functrace.torch.tensors.device import device as Device
from functrace.torch.tensors.tensor import Tensor, fresh
from functrace.tracing.values import stages
from functrace.typing import Array

DEFAULT_SEED = 67280421310721
"""Seed of new generators, the same as PyTorch's."""


@final
class Generator:
    """A generator of random numbers, for functions' ``generator=``; its numbers are PyTorch's.

    Args:
        device: the CPU.

    Example:
        >>> import functrace.torch as torch
        >>> torch.rand(3, generator=torch.Generator().manual_seed(0))
        tensor([0.4963, 0.7682, 0.0885])
    """

    def __init__(self, device: DeviceLike = "cpu") -> None:
        check_device(device)
        self.engine = Engine(DEFAULT_SEED)

    @property
    def device(self) -> Device:
        """The device: the CPU."""
        return CPU

    def manual_seed(self, seed: int) -> Generator:
        """Seed the generator; returns it.

        Args:
            seed: from -2**63 to 2**64 - 1; a negative one stands for ``2**64 + seed``. Only the
                lowest 32 bits make a difference to the numbers.

        Raises:
            RuntimeError: if the seed is no integer.
            ValueError: if it is out of range.
        """
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
            raise RuntimeError(errors.generator_seed(errors.kind_of(seed)))
        if not -(2**63) <= seed < 2**64:
            raise ValueError("Overflow when unpacking long long")
        self.engine.reseed(int(seed) % 2**64)
        return self

    def seed(self) -> int:
        """Seed with a nondeterministic number; returns the seed."""
        return self.manual_seed(int.from_bytes(os.urandom(8), "little")).initial_seed()

    def initial_seed(self) -> int:
        """Return the current seed."""
        return self.engine.seed

    def get_state(self) -> Tensor:
        """Return the state, as a tensor of 5056 bytes: those of PyTorch's generator."""
        return fresh(np.frombuffer(self.engine.to_bytes(), np.uint8).copy())

    def set_state(self, new_state: Tensor) -> None:
        """Restore a state that `get_state` returned, here or in PyTorch.

        Raises:
            TypeError: if it is no tensor of bytes.
            RuntimeError: if it is no such state.
        """
        if not isinstance(new_state, Tensor):
            raise TypeError(f"expected a torch.ByteTensor, but got {errors.kind_of(new_state)}")
        if new_state._array.dtype != np.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        self.engine.from_bytes(new_state._array.tobytes())

    def clone_state(self) -> Generator:
        """Return another generator in the same state."""
        made = Generator()
        made.engine.restore(self.engine.snapshot())
        return made

    def graphsafe_get_state(self) -> NoReturn:
        """Refused: for graphs of CUDA."""
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator")

    def graphsafe_set_state(self, state: Generator) -> NoReturn:
        """Refused: for graphs of CUDA."""
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator")

    def get_offset(self) -> NoReturn:
        """Refused: for CUDA."""
        raise RuntimeError("CPU Generator does not use offset")

    def set_offset(self, offset: int) -> NoReturn:
        """Refused: for CUDA."""
        raise RuntimeError("CPU Generator does not use offset")

    def __getstate__(self) -> bytes:
        return self.engine.to_bytes()

    def __setstate__(self, state: bytes) -> None:
        self.engine = Engine(DEFAULT_SEED)
        self.engine.from_bytes(state)


GENERATOR = Generator()
"""The generator of the process, ``torch.default_generator``."""
GENERATOR.seed()


def generator() -> Generator:
    """Return the generator of all random functions.

    Raises:
        RuntimeError: inside ``torch.func.vmap``, unless ``randomness="same"``; inside the ``vmap``
            of `gradcheck`.
    """
    if MODES.randomness == "unsupported":
        raise RuntimeError(errors.RANDOM_IN_OLDER_VMAP)
    if MODES.randomness == "error":
        raise RuntimeError(errors.RANDOM_IN_VMAP)
    return GENERATOR


def for_each_example(shape: Sequence[int], draw: Callable[[tuple[int, ...]], Array]) -> Any:
    """Return random numbers of a shape.

    Args:
        shape: the shape.
        draw: draws numbers of a shape.

    Returns:
        an array; inside ``torch.func.vmap`` with ``randomness="different"`` the example's part of
        one draw for all of them, a traced value.
    """
    if not MODES.examples:
        return draw(tuple(shape))
    sizes, places = zip(*MODES.examples, strict=True)
    return gather(draw((*sizes, *shape)), (ARRAY,) * len(sizes), places)


def engine_of(name: str, chosen: object, *, each: bool = False) -> Engine:
    """Return the engine to draw from.

    Args:
        name: name of the function that draws, for the message.
        chosen: its argument ``generator``.
        each: True if the function draws `for_each_example`.

    Raises:
        RuntimeError: inside ``torch.func.vmap``; see `generator`.
        TypeError: if the argument is no generator.

    While a function is staged, it warns that the numbers become constants.
    """
    owner = stages()
    if owner is not None and not owner.startswith("vmap"):  # `generator` is about vmap
        warn(
            f"{name} draws random numbers while {owner} is staged: every call will use the numbers "
            "that it draws now. Pass what is drawn as an argument, or draw with functrace.random, "
            "by a key that is an argument (docs/random.md)"
        )
    if MODES.examples and not each:
        raise RuntimeError(errors.DIFFERENT_IN_VMAP)
    if chosen is None:
        return generator().engine
    if not isinstance(chosen, Generator):
        raise TypeError(
            errors.must_be_named(name, "generator", "torch.Generator", errors.kind_of(chosen))
        )
    return chosen.engine


@contextmanager
def random_numbers_of(state: Tensor | None) -> Iterator[None]:
    """Draw from a state that `get_rng_state` returned, then restore the generator; None changes
    nothing.
    """
    if state is None:
        yield
        return
    before = GENERATOR.engine.snapshot()
    GENERATOR.set_state(state)
    try:
        yield
    finally:
        GENERATOR.engine.restore(before)
