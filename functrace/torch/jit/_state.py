"""``torch.jit._state``: whether TorchScript is on: never.

Layer: 9.
"""


class _Disabled:
    enabled = False


_enabled = _Disabled()
