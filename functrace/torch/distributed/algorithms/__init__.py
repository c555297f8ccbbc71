"""``torch.distributed.algorithms``: names of classes.

Layer: 9.
"""
