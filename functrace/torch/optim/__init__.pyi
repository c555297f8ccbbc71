# Written by `python -m tests.torch.stubs`: the names of `torch.optim`.

from functrace.torch.optim import _adafactor as _adafactor
from functrace.torch.optim import _muon as _muon
from functrace.torch.optim import adadelta as adadelta
from functrace.torch.optim import adagrad as adagrad
from functrace.torch.optim import adam as adam
from functrace.torch.optim import adamax as adamax
from functrace.torch.optim import adamw as adamw
from functrace.torch.optim import arithmetic as arithmetic
from functrace.torch.optim import asgd as asgd
from functrace.torch.optim import errors as errors
from functrace.torch.optim import lbfgs as lbfgs
from functrace.torch.optim import lr_scheduler as lr_scheduler
from functrace.torch.optim import nadam as nadam
from functrace.torch.optim import optimizer as optimizer
from functrace.torch.optim import radam as radam
from functrace.torch.optim import rmsprop as rmsprop
from functrace.torch.optim import rprop as rprop
from functrace.torch.optim import sgd as sgd
from functrace.torch.optim import sparse_adam as sparse_adam
from functrace.torch.optim import stepping as stepping
from functrace.torch.optim import swa_utils as swa_utils
from functrace.torch.optim._adafactor import Adafactor as Adafactor
from functrace.torch.optim._muon import Muon as Muon
from functrace.torch.optim.adadelta import Adadelta as Adadelta
from functrace.torch.optim.adagrad import Adagrad as Adagrad
from functrace.torch.optim.adam import Adam as Adam
from functrace.torch.optim.adamax import Adamax as Adamax
from functrace.torch.optim.adamw import AdamW as AdamW
from functrace.torch.optim.asgd import ASGD as ASGD
from functrace.torch.optim.lbfgs import LBFGS as LBFGS
from functrace.torch.optim.nadam import NAdam as NAdam
from functrace.torch.optim.optimizer import Optimizer as Optimizer
from functrace.torch.optim.radam import RAdam as RAdam
from functrace.torch.optim.rmsprop import RMSprop as RMSprop
from functrace.torch.optim.rprop import Rprop as Rprop
from functrace.torch.optim.sgd import SGD as SGD
from functrace.torch.optim.sparse_adam import SparseAdam as SparseAdam

__all__ = [
    "ASGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "LBFGS",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SGD",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
]
