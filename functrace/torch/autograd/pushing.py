"""Calls of a Function's ``jvp``: its arguments for inputs without tangent, and checks of its
results.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from functrace.torch import errors
from functrace.torch.autograd.graph import zeros_of
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.tracing import Tracer


def pushed_by(ctx: Any, tangents: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Return the results of ``jvp`` as a tuple; called by the node's class, above `FunctionBase`.

    Raises:
        RuntimeError: for anything but tensors and None.
    """
    found = ctx.apply_jvp(*tangents)
    several: list[Tensor | None] = []
    for k, tangent in enumerate(found if isinstance(found, tuple) else (found,)):
        if not isinstance(tangent, Tensor | None):
            raise RuntimeError(errors.jvp_type(errors.kind_of(tangent), k))
        several.append(tangent)
    return tuple(several)


def tangent_or_zeros(ctx: Any, argument: object, tangent: Tensor | Tracer | None) -> Tensor | None:
    """Return the ``jvp`` argument for an input: its tangent, or zeros, or None."""
    if not isinstance(argument, Tensor):
        return None
    if isinstance(tangent, Tracer):
        return wrap(tangent)
    if tangent is not None or not ctx.materialize_grads or argument._array.dtype.kind not in "fcV":
        return tangent
    return zeros_of(argument._array)


def defined(tangent: Tensor | None) -> Tensor:
    """Return a tangent that must not be None."""
    if tangent is None:
        raise RuntimeError(errors.TANGENT_NOT_DEFINED)
    return tangent
