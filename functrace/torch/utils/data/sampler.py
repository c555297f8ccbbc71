"""Samplers: the order in which a loader reads a dataset. Random ones draw PyTorch's numbers.

Layer: 9.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from functrace.torch.random.factories import randint, randperm
from functrace.torch.random.generator import Generator
from functrace.torch.random.sampling import multinomial
from functrace.torch.tensors.tensor import Tensor, fresh

__all__ = [
    "BatchSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "SubsetRandomSampler",
    "WeightedRandomSampler",
]

T_co = TypeVar("T_co", covariant=True)
_CHUNK = 32
"""Indices that are drawn at a time with replacement, as in PyTorch."""


def draw_seed(generator: Generator | None = None) -> int:
    """Return a random seed, which PyTorch draws as an int64."""
    made = fresh(np.empty((), np.int64))
    drawing: Any = made
    return int(drawing.random_(generator=generator).item())


class Sampler(Generic[T_co]):
    """An order of indices: subclasses define ``__iter__``.

    Args:
        data_source: ignored.
    """

    def __init__(self, data_source: Sized | None = None) -> None:
        """Do nothing."""

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """The indices in order.

    Args:
        data_source: the dataset.
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The indices at random.

    Args:
        data_source: the dataset.
        replacement: True if an index may be drawn again.
        num_samples: how many; by default as many as there are.
        generator: the generator; by default a new one, seeded by that of the process.

    Raises:
        TypeError: if ``replacement`` is no bool.
        ValueError: if ``num_samples`` is no positive integer.
    """

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        if not isinstance(self.num_samples, int) or self.num_samples <= 0:
            raise ValueError(
                "num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """Number of indices; that of the dataset may change."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = Generator().manual_seed(draw_seed())
        if self.replacement:
            for _ in range(self.num_samples // _CHUNK):
                yield from randint(high=count, size=(_CHUNK,), generator=generator).tolist()
            rest = self.num_samples % _CHUNK
            yield from randint(high=count, size=(rest,), generator=generator).tolist()
            return
        for _ in range(self.num_samples // count):
            yield from randperm(count, generator=generator).tolist()
        rest = self.num_samples % count
        yield from randperm(count, generator=generator).tolist()[:rest]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some indices at random, without replacement.

    Args:
        indices: the indices.
        generator: the generator; by default that of the process.
    """

    indices: Sequence[int]

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        order = randperm(len(self.indices), generator=self.generator)
        yield from [self.indices[k] for k in order.tolist()]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices at random, with probabilities.

    Args:
        weights: the weights of the indices; they need not sum to 1.
        num_samples: how many.
        replacement: False to draw every index once at most.
        generator: the generator; by default that of the process.

    Raises:
        ValueError: if ``num_samples`` is no positive integer, ``replacement`` no bool, or the
            weights are no row.
    """

    weights: Tensor
    num_samples: int
    replacement: bool

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        array = weights.detach()._array if isinstance(weights, Tensor) else weights
        self.weights = fresh(np.array(array, np.float64))
        if self.weights.ndim != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        yield from iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Groups of the indices of a sampler.

    Args:
        sampler: the sampler, or any iterable.
        batch_size: size of a group.
        drop_last: True to drop a last group that is smaller.

    Raises:
        ValueError: if ``batch_size`` is no positive integer, or ``drop_last`` no bool.

    Example:
        >>> list(BatchSampler(range(5), 2, drop_last=False))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                f"batch_size should be a positive integer value, but got batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while group := [*itertools.islice(indices, self.batch_size)]:
            if len(group) < self.batch_size and self.drop_last:
                return
            yield group

    def __len__(self) -> int:
        given: Any = self.sampler
        count = len(given)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
