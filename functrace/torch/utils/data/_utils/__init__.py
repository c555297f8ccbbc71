"""Parts of the loader: collation, reading, worker threads.

Layer: 9.
"""

from functrace.torch.utils.data._utils import collate, fetch, worker

__all__ = ["collate", "fetch", "worker"]
