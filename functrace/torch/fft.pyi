# Written by `python -m tests.torch.stubs` from the rows: the functions of `torch.fft`.

import builtins

__all__ = [
]
