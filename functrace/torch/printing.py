"""How tensors print: as PyTorch's do.

Floor: 8.
"""

from __future__ import annotations

import numpy as np

from functrace.torch.tensor import Tensor


def text_of(tensor: Tensor) -> str:
    """Return ``tensor([1., 2.], grad_fn=<MulBackward0>)``."""
    body = np.array2string(np.asarray(tensor._array), precision=4, separator=", ", prefix="tensor(")
    node = tensor.grad_fn
    if node is not None:
        return f"tensor({body}, grad_fn=<{type(node).__name__}>)"
    return f"tensor({body}, requires_grad=True)" if tensor._requires else f"tensor({body})"
