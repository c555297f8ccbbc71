"""PyTorch's files of tensors: an archive of memory, and a pickle that tells how tensors lie in it.

The pickle is written by `writing`, and read by `reading`, which know tensors, containers, numbers
and strings, and nothing else. No function of a file is ever called.

Layer: 9.
"""
