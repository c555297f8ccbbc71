"""Optimizers, schedulers of learning rates, and averages of weights.

Each is imported at its first use.

Layer: 9.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functrace.torch.optim import lr_scheduler as lr_scheduler
    from functrace.torch.optim._adafactor import Adafactor
    from functrace.torch.optim._muon import Muon
    from functrace.torch.optim.adadelta import Adadelta
    from functrace.torch.optim.adagrad import Adagrad
    from functrace.torch.optim.adam import Adam
    from functrace.torch.optim.adamax import Adamax
    from functrace.torch.optim.adamw import AdamW
    from functrace.torch.optim.asgd import ASGD
    from functrace.torch.optim.lbfgs import LBFGS
    from functrace.torch.optim.nadam import NAdam
    from functrace.torch.optim.optimizer import Optimizer
    from functrace.torch.optim.radam import RAdam
    from functrace.torch.optim.rmsprop import RMSprop
    from functrace.torch.optim.rprop import Rprop
    from functrace.torch.optim.sgd import SGD
    from functrace.torch.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]

_FILES = {
    "Adafactor": "_adafactor",
    "Muon": "_muon",
    "Adadelta": "adadelta",
    "Adagrad": "adagrad",
    "Adam": "adam",
    "Adamax": "adamax",
    "AdamW": "adamw",
    "ASGD": "asgd",
    "LBFGS": "lbfgs",
    "NAdam": "nadam",
    "Optimizer": "optimizer",
    "RAdam": "radam",
    "RMSprop": "rmsprop",
    "Rprop": "rprop",
    "SGD": "sgd",
    "SparseAdam": "sparse_adam",
}
"""The file of each class."""
_SUBMODULES = (
    "arithmetic", "errors", "lr_scheduler", "stepping", "swa_utils", *_FILES.values(),
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a class, or a submodule, on first access."""
    if name in _FILES:
        module = importlib.import_module(f"{__name__}.{_FILES[name]}")
        return globals().setdefault(name, getattr(module, name))
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    from functrace.names import unknown_name

    raise unknown_name(__name__, name, __all__)


def __dir__() -> list[str]:
    """The classes and the submodules."""
    return sorted({*globals(), *_FILES, *_SUBMODULES})
