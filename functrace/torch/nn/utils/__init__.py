"""``torch.nn.utils``: clipping, vectors of parameters, normalizations of weights, pruning, packed
sequences; each file is imported at first use.

Layer: 9.
"""

from functrace.lazy import homes_of, lazy_attributes

# PyTorch has functions and files of these names; the functions are the attributes.
from functrace.torch.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from functrace.torch.nn.utils.weight_norm import remove_weight_norm, weight_norm

FILES: dict[str, str] = {
    "clip_grad": (
        "clip_grad_norm clip_grad_norm_ clip_grad_value_ clip_grads_with_norm_ get_total_norm"
    ),
    "convert_parameters": "parameters_to_vector vector_to_parameters",
    "fusion": ("fuse_conv_bn_eval fuse_conv_bn_weights fuse_linear_bn_eval fuse_linear_bn_weights"),
    "init": "skip_init",
    "memory_format": ("convert_conv2d_weight_memory_format convert_conv3d_weight_memory_format"),
    "parametrizations": "",
    "parametrize": "",
    "prune": "",
    "rnn": "",
    "stateless": "",
}
"""The files of this package, and what is exported of each."""

__all__ = [
    "remove_spectral_norm",
    "remove_weight_norm",
    "spectral_norm",
    "weight_norm",
    *" ".join(FILES.values()).split(),  # pyright: ignore[reportUnsupportedDunderAll]
]

__getattr__, __dir__ = lazy_attributes(__name__, __all__, homes_of(FILES))
