"""``torch.nn.utils.stateless``: the older name of `functrace.torch.func.functional_call`.

Layer: 9.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from functrace.torch.func import stateless
from functrace.torch.nn.parallel import DataParallel
from functrace.torch.tensors.tensor import Tensor

__all__ = ["functional_call"]

State: TypeAlias = dict[str, Tensor]


def _untie_named_tensors_map(module: Any, parameters_and_buffers: State) -> State:
    """Return tensors by name, with all names of those that a module has under several.

    Raises:
        ValueError: if these names have different tensors.
    """
    return stateless.untied(module, parameters_and_buffers)


@contextmanager
def _reparametrize_module(
    module: Any,
    parameters_and_buffers: State,
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """Replace the parameters and buffers of a module until the context ends; the dict has then
    those that the module has set.

    Args:
        module: the module.
        parameters_and_buffers: tensors by name.
        tie_weights: True to replace a tensor that has several names under all of them.
        strict: True to raise for unknown and for missing names.
        stack_weights: the order in which tensors are restored; it has no effect.
    """
    with stateless.replacing(
        module, parameters_and_buffers, tie_weights=tie_weights, strict=strict
    ):
        yield


def _functional_call(
    module: Any,
    parameters_and_buffers: State,
    args: object = None,
    kwargs: Mapping[str, object] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors; see `functional_call`.

    Raises:
        RuntimeError: for a `DataParallel`.
    """
    if isinstance(module, DataParallel):
        raise RuntimeError("The stateless API can't be used with nn.DataParallel module")
    return stateless.functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )


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
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict
    )
