"""`DistributedSampler`: the part of a dataset that one of several processes reads.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from functrace.torch.random.factories import randperm
from functrace.torch.random.generator import Generator
from functrace.torch.utils.data.dataset import Dataset
from functrace.torch.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[Any]):
    """The indices of one process among several, which have equally many.

    Args:
        dataset: the dataset.
        num_replicas: number of processes.
        rank: number of this one.
        shuffle: False for the indices in order.
        seed: seed of the order, the same in all processes.
        drop_last: True to drop indices that remain; False to repeat some.

    Raises:
        RuntimeError: without ``num_replicas`` and ``rank``: there is no torch.distributed to ask.
        ValueError: if ``rank`` is out of range.
    """

    def __init__(
        self,
        dataset: Dataset[Any],
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            raise RuntimeError("Requires distributed package to be available")
        if not 0 <= rank < num_replicas:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset: Any = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        count = len(self.dataset)
        if drop_last and count % num_replicas:
            self.num_samples = math.ceil((count - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[Any]:
        count = len(self.dataset)
        if self.shuffle:
            generator = Generator().manual_seed(self.seed + self.epoch)
            indices = randperm(count, generator=generator).tolist()
        else:
            indices = list(range(count))
        if self.drop_last:
            indices = indices[: self.total_size]
        else:
            missing = self.total_size - len(indices)
            indices += (indices * math.ceil(missing / max(len(indices), 1)))[:missing]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Set the number of the epoch, which changes the order."""
        self.epoch = epoch
