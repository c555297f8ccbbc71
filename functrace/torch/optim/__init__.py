"""Optimizers, schedulers of learning rates, and averages of weights.

Each is imported at its first use.

Layer: 9.
"""

from functrace.lazy import homes_of, lazy_attributes

FILES = {
    "_adafactor": "Adafactor",
    "_muon": "Muon",
    "adadelta": "Adadelta",
    "adagrad": "Adagrad",
    "adam": "Adam",
    "adamax": "Adamax",
    "adamw": "AdamW",
    "arithmetic": "",
    "asgd": "ASGD",
    "errors": "",
    "lbfgs": "LBFGS",
    "lr_scheduler": "",
    "nadam": "NAdam",
    "optimizer": "Optimizer",
    "radam": "RAdam",
    "rmsprop": "RMSprop",
    "rprop": "Rprop",
    "sgd": "SGD",
    "sparse_adam": "SparseAdam",
    "stepping": "",
    "swa_utils": "",
}
"""The files of this package, and the class of each."""

__all__ = sorted(["lr_scheduler", "swa_utils", *" ".join(FILES.values()).split()])  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = lazy_attributes(__name__, __all__, homes_of(FILES))
