"""``torch.optim._functional``: one step of an optimizer as a function of its state.

Layer: 9.
"""

from functrace.torch.optim.adadelta import adadelta
from functrace.torch.optim.adagrad import adagrad
from functrace.torch.optim.adam import adam
from functrace.torch.optim.adamax import adamax
from functrace.torch.optim.adamw import adamw
from functrace.torch.optim.asgd import asgd
from functrace.torch.optim.nadam import nadam
from functrace.torch.optim.radam import radam
from functrace.torch.optim.rmsprop import rmsprop
from functrace.torch.optim.rprop import rprop
from functrace.torch.optim.sgd import sgd

__all__ = [
    "adadelta",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "asgd",
    "nadam",
    "radam",
    "rmsprop",
    "rprop",
    "sgd",
]
