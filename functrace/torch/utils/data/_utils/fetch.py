"""Readers of datasets: by index, or from a stream.

Layer: 9.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, final

__all__ = ["Fetcher", "IterableFetcher", "MapFetcher", "fetcher_of"]


class Fetcher:
    """A reader of a dataset.

    Args:
        dataset: the dataset.
        is_batched: True to read batches; False for single samples.
        collate: makes a batch of samples, or converts a sample.
        drop_last: True to drop a last batch that is smaller.
    """

    def __init__(
        self, dataset: Any, is_batched: bool, collate: Callable[[Any], Any], drop_last: bool
    ) -> None:
        self.dataset, self.is_batched = dataset, is_batched
        self.collate, self.drop_last = collate, drop_last

    def fetch(self, index: Any) -> Any:
        """Return the sample or batch at an index or at several."""
        raise NotImplementedError


@final
class MapFetcher(Fetcher):
    """Reader of a dataset by index."""

    def fetch(self, index: Any) -> Any:
        """Return the sample at an index, or the batch of those at several."""
        if not self.is_batched:
            return self.collate(self.dataset[index])
        several = getattr(self.dataset, "__getitems__", None)
        return self.collate(several(index) if several else [self.dataset[k] for k in index])


@final
class IterableFetcher(Fetcher):
    """Reader of a stream."""

    def __init__(
        self, dataset: Any, is_batched: bool, collate: Callable[[Any], Any], drop_last: bool
    ) -> None:
        super().__init__(dataset, is_batched, collate, drop_last)
        self._samples = iter(dataset)
        self._has_ended = False

    def fetch(self, index: Any) -> Any:
        """Return the next sample, or a batch of as many as there are indices.

        Raises:
            StopIteration: at the end of the stream.
        """
        if self._has_ended:
            raise StopIteration
        if not self.is_batched:
            return self.collate(next(self._samples))
        batch = list(itertools.islice(self._samples, len(index)))
        self._has_ended = len(batch) < len(index)
        if not batch or (self.drop_last and self._has_ended):
            raise StopIteration
        return self.collate(batch)


def fetcher_of(
    is_stream: bool, dataset: Any, is_batched: bool, collate: Callable[[Any], Any], drop_last: bool
) -> Fetcher:
    """Return the reader of a dataset."""
    kind = IterableFetcher if is_stream else MapFetcher
    return kind(dataset, is_batched, collate, drop_last)
