"""Neural networks: modules, parameters, functions. Imported as far as it is used.

Layer: 9.
"""

from functrace.lazy import homes_of, lazy_attributes
from functrace.torch.nn import functional, modules

FILES = {
    "attention": "",
    "init": "",
    "modules": " ".join(modules.__all__),
    "parallel": "DataParallel",
    "parameter": "Buffer Parameter UninitializedBuffer UninitializedParameter",
    "utils": "",
}
"""The modules of this package, and what is exported of each."""

__all__ = ["functional", *FILES, *" ".join(FILES.values()).split()]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = lazy_attributes(__name__, __all__, {**homes_of(FILES), "_reduction": ""})
