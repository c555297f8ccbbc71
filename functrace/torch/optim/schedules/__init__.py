"""The classes of ``torch.optim.lr_scheduler``.

Layer: 9.
"""
