"""Datasets: by index, as streams, of tensors, joined and split.

Layer: 9.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from functrace.torch.random.factories import randperm
from functrace.torch.random.generator import GENERATOR, Generator
from functrace.torch.tensors.tensor import Tensor

__all__ = [
    "ChainDataset",
    "ConcatDataset",
    "Dataset",
    "IterableDataset",
    "StackDataset",
    "Subset",
    "TensorDataset",
    "random_split",
]

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """Samples by index: subclasses define ``__getitem__``, and usually ``__len__``."""

    def __getitem__(self, index: Any) -> T_co:
        """Return a sample."""
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """A stream of samples: subclasses define ``__iter__``."""

    def __add__(self, other: Dataset[Any]) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Rows of tensors: a sample is a tuple of the rows at an index.

    Args:
        tensors: tensors of the same length.

    Example:
        >>> import functrace.torch as torch
        >>> TensorDataset(torch.arange(3), torch.ones(3))[1]
        (tensor(1), tensor(1.))
    """

    def __init__(self, *tensors: Tensor) -> None:
        if any(tensors[0].size(0) != x.size(0) for x in tensors):
            raise AssertionError("Size mismatch between tensors")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple([x[index] for x in self.tensors])

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class StackDataset(Dataset[Any]):
    """Samples of several datasets at the same index: a tuple, or a dict for named datasets.

    Args:
        args: datasets of the same length.
        kwargs: named datasets of the same length.

    Raises:
        ValueError: if the lengths differ, for both kinds, and for none.
    """

    datasets: Any

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like "
                "input/output, but both types are given."
            )
        if not (args or kwargs):
            raise ValueError("At least one dataset should be passed")
        datasets: list[Any] = list(args or kwargs.values())
        self._length = len(datasets[0])
        if any(self._length != len(x) for x in datasets):
            raise ValueError("Size mismatch between datasets")
        self.datasets = args or kwargs

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: x[index] for name, x in self.datasets.items()}
        return tuple([x[index] for x in self.datasets])

    def __getitems__(self, indices: list[Any]) -> list[Any]:
        """Return the samples at several indices."""
        is_named = isinstance(self.datasets, dict)
        columns = [
            _several(x, indices) for x in (self.datasets.values() if is_named else self.datasets)
        ]
        rows = zip(*columns, strict=True)
        return [dict(zip(self.datasets, row, strict=True)) if is_named else row for row in rows]

    def __len__(self) -> int:
        return self._length


def _several(dataset: Any, indices: list[Any]) -> Sequence[Any]:
    """Return the samples of a dataset at several indices.

    Raises:
        ValueError: if ``__getitems__`` returns another number.
    """
    if not callable(getattr(dataset, "__getitems__", None)):
        return [dataset[k] for k in indices]
    found = dataset.__getitems__(indices)
    if len(found) != len(indices):
        raise ValueError(
            f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(found)}"
        )
    return found


class ConcatDataset(Dataset[T_co]):
    """Several datasets, one after the other.

    Args:
        datasets: the datasets.

    Raises:
        AssertionError: if there are none, or one is a stream.
    """

    datasets: list[Dataset[T_co]]
    cumulative_sizes: list[int]

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return the cumulative lengths of datasets."""
        return list(itertools.accumulate(len(x) for x in sequence))

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        for x in self.datasets:
            if isinstance(x, IterableDataset):
                raise AssertionError("ConcatDataset does not support IterableDataset")
        self.cumulative_sizes = self.cumsum(self.datasets)

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """Several streams, one after the other.

    Args:
        datasets: the streams.
    """

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        super().__init__()
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for x in self.datasets:
            if not isinstance(x, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from x

    def __len__(self) -> int:
        total = 0
        for x in self.datasets:
            if not isinstance(x, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            total += len(x)  # type: ignore[arg-type]
        return total


class Subset(Dataset[T_co]):
    """Some samples of a dataset.

    Args:
        dataset: the dataset.
        indices: the indices of the samples.
    """

    dataset: Dataset[T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[k] for k in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[T_co]:
        """Return the samples at several indices."""
        chosen = [self.indices[k] for k in indices]
        several: Any = getattr(self.dataset, "__getitems__", None)
        return [self.dataset[k] for k in chosen] if several is None else several(chosen)

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[Any], lengths: Sequence[float], generator: Generator | None = GENERATOR
) -> list[Subset[Any]]:
    """Split a dataset at random.

    Args:
        dataset: the dataset.
        lengths: the lengths, or fractions that sum to 1: what remains is dealt out one by one.
        generator: the generator.

    Raises:
        ValueError: if the lengths do not sum to that of the dataset.

    Example:
        >>> import functrace.torch as torch
        >>> _ = torch.manual_seed(0)
        >>> [list(part.indices) for part in random_split(range(5), [2, 3])]
        [[4, 0], [1, 3, 2]]
    """
    whole: Any = dataset
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _counts(len(whole), lengths)
    if sum(lengths) != len(whole):
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = randperm(int(sum(lengths)), generator=generator).tolist()
    ends = list(itertools.accumulate(int(n) for n in lengths))
    return [
        Subset(dataset, order[end - int(n) : end]) for end, n in zip(ends, lengths, strict=True)
    ]


def _counts(total: int, fractions: Sequence[float]) -> list[int]:
    for k, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {k} is not between 0 and 1")
    counts = [math.floor(total * fraction) for fraction in fractions]
    for k in range(total - sum(counts)):
        counts[k % len(counts)] += 1
    for k, count in enumerate(counts):
        if not count:
            from functrace.torch.errors.warnings import warn

            warn(f"Length of split at index {k} is 0. This might result in an empty dataset.")
    return counts
