"""``torch.utils.data``: datasets, samplers, and the loader of batches.

Layer: 9.
"""

from functrace.torch.utils.data._utils.collate import default_collate, default_convert
from functrace.torch.utils.data._utils.worker import get_worker_info
from functrace.torch.utils.data.dataloader import DataLoader
from functrace.torch.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from functrace.torch.utils.data.distributed import DistributedSampler
from functrace.torch.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
