"""``torch.optim.lr_scheduler``: schedules of learning rates.

Layer: 9.
"""

from functrace.torch.optim.errors import EPOCH as EPOCH_DEPRECATION_WARNING
from functrace.torch.optim.optimizer import Optimizer
from functrace.torch.optim.schedules.base import LRScheduler, _enable_get_lr_call, _LRScheduler
from functrace.torch.optim.schedules.base import for_groups as _format_param
from functrace.torch.optim.schedules.base import settings_of as _param_groups_val_list
from functrace.torch.optim.schedules.base import update_setting as _update_param_group_val
from functrace.torch.optim.schedules.combined import ChainedScheduler, SequentialLR
from functrace.torch.optim.schedules.cycles import (
    CosineAnnealingWarmRestarts,
    CyclicLR,
    OneCycleLR,
)
from functrace.torch.optim.schedules.factors import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from functrace.torch.optim.schedules.plateau import ReduceLROnPlateau

__all__ = [
    "EPOCH_DEPRECATION_WARNING",
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "Optimizer",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
    "_LRScheduler",
    "_enable_get_lr_call",
    "_format_param",
    "_param_groups_val_list",
    "_update_param_group_val",
]
