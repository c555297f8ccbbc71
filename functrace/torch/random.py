"""The random number generator: one for the process, as in PyTorch; its numbers are NumPy's, not
PyTorch's.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.tensors.device import CPU, DeviceLike, check_device
from functrace.torch.tensors.device import device as Device
from functrace.torch.tensors.dtypes import default_float
from functrace.torch.tensors.tensor import Tensor, fresh, wrap
from functrace.torch.tensors.views import write

ROWS = FunctionTable()


@final
class Generator(np.random.Generator):
    """A generator of random numbers, for functions' ``generator=``; its numbers are NumPy's, not
    PyTorch's.

    Args:
        device: the CPU.

    Example:
        >>> import functrace.torch as torch
        >>> one, other = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
        >>> bool((torch.rand(4, generator=one) == torch.rand(4, generator=other)).all())
        True
    """

    def __init__(self, device: DeviceLike = "cpu") -> None:
        check_device(device)
        super().__init__(np.random.PCG64(_SEED))
        self._seed = _SEED

    @property
    def device(self) -> Device:
        """The device: the CPU."""
        return CPU

    def manual_seed(self, seed: int) -> Generator:
        """Seed the generator; returns it.

        Raises:
            RuntimeError: if the seed is no integer.
        """
        if not isinstance(seed, (int, np.integer)):
            raise RuntimeError(errors.generator_seed(errors.kind_of(seed)))
        self._seed = int(seed) % 2**64
        self.bit_generator.state = np.random.PCG64(self._seed).state
        return self

    def seed(self) -> int:
        """Seed with a nondeterministic number; returns the seed."""
        return self.manual_seed(
            int(np.random.SeedSequence().generate_state(1, np.uint64)[0])
        ).initial_seed()

    def initial_seed(self) -> int:
        """Return the current seed."""
        return self._seed

    def get_state(self) -> Tensor:
        """Return the state, as a tensor of bytes."""
        state: Any = self.bit_generator.state
        inner = state["state"]
        parts = (
            (inner["state"], 16),
            (inner["inc"], 16),
            (state["has_uint32"], 1),
            (state["uinteger"], 4),
            (self._seed, 8),
        )
        return fresh(
            np.frombuffer(
                b"".join([value.to_bytes(size, "little") for value, size in parts]), np.uint8
            ).copy()
        )

    def set_state(self, new_state: Tensor) -> None:
        """Restore a state that `get_state` returned."""
        data = new_state._array.tobytes()
        self.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {
                "state": int.from_bytes(data[:16], "little"),
                "inc": int.from_bytes(data[16:32], "little"),
            },
            "has_uint32": data[32],
            "uinteger": int.from_bytes(data[33:37], "little"),
        }
        self._seed = int.from_bytes(data[37:45], "little")

    def clone_state(self) -> Generator:
        """Return another generator in the same state."""
        made = Generator()
        made.set_state(self.get_state())
        return made


_SEED = 67280421310721
"""Default seed, the same as PyTorch's."""
GENERATOR = Generator()
"""The generator of the process, ``torch.default_generator``."""
GENERATOR.seed()


def generator() -> Generator:
    """Return the generator of all random factories.

    Raises:
        RuntimeError: inside ``torch.func.vmap``, unless ``randomness="same"``.
    """
    if MODES.randomness == "error":
        raise RuntimeError(errors.RANDOM_IN_VMAP)
    if MODES.randomness == "different":
        raise RuntimeError(errors.DIFFERENT_IN_VMAP)
    return GENERATOR


running_generator = generator


@ROWS.function("function")
def manual_seed(seed: int) -> Generator:
    """Seed the generator; returns it."""
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
    """Return the state of the generator, as a tensor of bytes."""
    return GENERATOR.get_state()


@ROWS.function("function")
def set_rng_state(new_state: Tensor) -> None:
    """Restore a state that `get_rng_state` returned."""
    GENERATOR.set_state(new_state)


@contextmanager
def fork_rng(
    devices: Sequence[DeviceLike] | None = None, enabled: bool = True, *, device_type: str = "cuda"
) -> Iterator[None]:
    """Restore the generator's present state when the context ends.

    Args:
        devices: devices whose generators to restore, besides the CPU; there are no others.
        enabled: False to do nothing.
        device_type: kind of these devices.
    """
    with random_numbers_of(get_rng_state() if enabled else None):
        yield


@contextmanager
def random_numbers_of(state: Tensor | None) -> Iterator[None]:
    """Draw from a state that `get_rng_state` returned, then restore the generator; None changes
    nothing.
    """
    if state is None:
        yield
        return
    before = get_rng_state()
    set_rng_state(state)
    try:
        yield
    finally:
        set_rng_state(before)


# -- tensors filled in place -----------------------------------------------------------------------


def _fill(name: str, kernel: str, draw: Callable[..., Any], self: Tensor, *shown: Any) -> Tensor:
    kind = self._array.dtype
    if kernel and kind.kind not in "fc":
        raise NotImplementedError(errors.no_kernel(kernel).format(self.dtype.printed))
    return write(
        _FILLS[name], (self, wrap(np.asarray(draw(self._array.shape)).astype(kind))), shown
    )


_FILLS = {
    name: Op(
        f"{name.title()}Backward0", lambda x, drawn, *shown: ew.stop_gradient(drawn), edges=(0,)
    )
    for name in ("uniform", "normal", "bernoulli", "exponential", "random")
}


@ROWS.function("method")
def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with numbers uniform in ``[from, to)``."""
    if from_ > to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}"
        )
    drawing = generator or running_generator()
    return _fill(
        "uniform",
        "check_uniform_bounds",
        lambda shape: from_ + (to - from_) * drawing.random(shape),
        self,
        from_,
        to,
    )


@ROWS.function("method")
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with normal numbers."""
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    drawing = generator or running_generator()
    return _fill(
        "normal",
        "normal_kernel_cpu",
        lambda shape: mean + std * drawing.standard_normal(shape),
        self,
        mean,
        std,
    )


@ROWS.function("method")
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Overwrite with exponentially distributed numbers."""
    drawing = generator or running_generator()
    return _fill(
        "exponential",
        "exponential",
        lambda shape: drawing.exponential(1 / lambd, shape),
        self,
        lambd,
    )


@ROWS.function("method")
def random_(self: Tensor, *bounds: int, generator: Any = None) -> Tensor:
    """Overwrite with integers: below a bound, or between two."""
    low, high = (
        (0, *bounds)[-2:] if bounds else (0, 1 << (24 if self._array.dtype.kind == "f" else 7))
    )
    drawing = generator or running_generator()
    return _fill("random", "", lambda shape: drawing.integers(low, high, shape), self, *bounds)


def _chances(p: Any, generator: Any) -> Callable[..., Any]:
    chances = p._array if isinstance(p, Tensor) else np.asarray(p)
    if not np.all((chances >= 0) & (chances <= 1)):
        raise RuntimeError(errors.PROBABILITY)
    drawing = generator or running_generator()
    return lambda shape: drawing.random(shape) < chances


@ROWS.function("method")
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Overwrite with ones, with a probability, and zeros."""
    if self._array.dtype.kind == "c":
        raise NotImplementedError(
            errors.no_kernel("bernoulli_scalar_cpu_").format(self.dtype.printed)
        )
    return _fill(
        "bernoulli", "", _chances(p, generator), self, *(() if isinstance(p, Tensor) else (p,))
    )


@ROWS.function()
def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """Return ones, with the probabilities that the tensor holds (or with one for all), and
    zeros.
    """
    if p is None and input._array.dtype.kind != "f":
        raise NotImplementedError(
            errors.no_kernel("bernoulli_tensor_cpu_p_").format(input.dtype.printed)
        )
    return apply(
        BERNOULLI, (input, wrap(_chances(input if p is None else p, generator)(input._array.shape)))
    )


BERNOULLI = Op("BernoulliBackward0", lambda x, drawn: convert(drawn, x.dtype), edges=(0,))


@ROWS.function("function")
def normal(
    mean: Any, std: Any = 1.0, size: Sequence[int] | None = None, *, generator: Any = None
) -> Tensor:
    """Return normal numbers: with these means and deviations, or of these sizes."""
    if MODES.dispatch is not None:
        options = {} if generator is None else {"generator": generator}
        run = lambda: normal(mean, std, size, generator=generator)  # noqa: E731
        if size is None:
            return MODES.dispatch.make("normal", (mean, std), options, run)
        placed = options | {"device": CPU, "pin_memory": False}
        return MODES.dispatch.make("normal", (float(mean), float(std), list(size)), placed, run)
    means, deviations = (x._array if isinstance(x, Tensor) else x for x in (mean, std))
    kind = next((x._array.dtype for x in (mean, std) if isinstance(x, Tensor)), default_float())
    shape = (
        tuple(size)
        if size is not None
        else np.broadcast_shapes(np.shape(means), np.shape(deviations))
    )
    drawn = (generator or running_generator()).standard_normal(shape)
    return fresh(np.asarray(means + deviations * drawn).astype(kind))


@ROWS.function()
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Tensor:
    """Return positions drawn with the weights that the tensor holds."""
    if MODES.dispatch is not None:
        args = (input, num_samples, replacement) if replacement else (input, num_samples)
        options = {} if generator is None else {"generator": generator}
        run = lambda: multinomial(input, num_samples, replacement, generator=generator)  # noqa: E731
        return MODES.dispatch.make("multinomial", args, options, run)
    weights = np.atleast_2d(input._array).astype(np.float64)
    if not replacement and num_samples > weights.shape[1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    drawing = generator or running_generator()
    rows = [drawing.choice(len(w), num_samples, replacement, w / w.sum()) for w in weights]
    return fresh(np.asarray(rows, np.int64).reshape((*input._array.shape[:-1], num_samples)))
