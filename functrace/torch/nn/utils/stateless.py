"""``torch.nn.utils.stateless``: the older name of `functrace.torch.func.functional_call`.

Layer: 9.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from functrace.torch.func import stateless
from functrace.torch.tensors.tensor import Tensor

__all__ = ["functional_call"]


def functional_call(
    module: Any,
    parameters_and_buffers: dict[str, Tensor],
    args: object = None,
    kwargs: Mapping[str, object] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers.

    Args:
        module: the module.
        parameters_and_buffers: tensors by name.
        args: a tuple of positional arguments, or a single one.
        kwargs: keyword arguments.
        tie_weights: True to replace a tensor that has several names under all of them.
        strict: True to raise for unknown and for missing names.
    """
    warnings.warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be "
        "removed in a future version of PyTorch. Please use `torch.func.functional_call` instead "
        "which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return stateless.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
