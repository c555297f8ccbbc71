"""Optimizers, schedulers of learning rates, and averages of weights.

Layer: 9.
"""

import importlib
from typing import Any

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


def __getattr__(name: str) -> Any:
    """Import `swa_utils`, which needs modules, on first access."""
    if name == "swa_utils":
        return importlib.import_module(f"{__name__}.{name}")
    from functrace.names import unknown_name

    raise unknown_name(__name__, name, __all__)
