"""Functions of neural networks: activations, softmax, normalisation, attention.

They are written in NumPy: on arrays they return arrays, on traced values they are recorded, and
every transform applies. Names and arguments are those of ``jax.nn``. Derivatives at kinks are
PyTorch's; ``jax.nn`` has 1 at those of ``hard_tanh`` and ``leaky_relu``. Values and gradients are
finite wherever the limit is, also at infinities and in masked rows: a fully masked row of attention
is 0, as in PyTorch, and so is its gradient.

Layer: 8 (api).
"""

from typing import TYPE_CHECKING

from functrace.lazy import lazy_attributes
from functrace.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    leaky_relu,
    log_sigmoid,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softplus,
    squareplus,
    swish,
)
from functrace.nn.attention import dot_product_attention
from functrace.nn.normalizing import (
    layer_norm,
    log_softmax,
    logsumexp,
    one_hot,
    softmax,
    standardize,
)

__all__ = [
    "celu", "dot_product_attention", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu",
    "hard_swish", "hard_tanh",
    "layer_norm", "leaky_relu", "log_sigmoid", "log_softmax", "logsumexp", "mish", "one_hot",
    "relu", "relu6", "selu",
    "sigmoid", "silu", "soft_sign", "softmax", "softplus", "squareplus", "standardize", "swish",
]  # fmt: skip


if not TYPE_CHECKING:  # so that type checkers report a misspelt name
    __getattr__, __dir__ = lazy_attributes(__name__, __all__)
