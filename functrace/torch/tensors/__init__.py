"""Tensors: memory, dtypes, views and printing.

Start at `functrace.torch.tensors.tensor.Tensor`.

Layer: 9.
"""
