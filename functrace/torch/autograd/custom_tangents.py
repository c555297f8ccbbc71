"""Tangents of the outputs of a `Function`: its ``jvp`` runs after forward, before ``apply``
returns.

The tangents that ``jvp`` returns must share memory as the outputs do: the tangent of an
overwritten input is overwritten, and the tangent of a view of an input is a view of that input's
tangent.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence

from functrace.torch import errors
from functrace.torch.autograd.custom import FunctionBase
from functrace.torch.autograd.pushing import defined, pushed_by, tangent_or_zeros
from functrace.torch.dispatch.dual import Level, forward_base, hidden
from functrace.torch.tensors.tensor import Tensor


def push_function(
    level: Level,
    ctx: FunctionBase,
    args: Sequence[object],
    raw: Sequence[object],
    outputs: Sequence[object],
) -> None:
    """Set the tangents that a Function's ``jvp`` returns on its outputs, if an argument has a
    tangent.

    Args:
        level: the current level.
        ctx: the Function's node.
        args: arguments of ``apply``.
        raw: results of forward.
        outputs: results of ``apply``.

    Raises:
        RuntimeError: if the results of ``jvp`` do not fit the outputs.
    """
    tensors = [a for a in args if isinstance(a, Tensor)]
    given = {id(a): t for a in tensors if (t := level.tangent_of(a)) is not None}
    if not given:
        return
    before = {key: tangent._version for key, tangent in given.items()}
    with hidden():
        found = pushed_by(ctx, [tangent_or_zeros(ctx, a, given.get(id(a))) for a in args])
    if len(found) != len(outputs):
        raise RuntimeError(errors.jvp_count(len(outputs), len(found)))
    bases: dict[int, Tensor] = {}
    for a in tensors:
        below = forward_base(a)
        bases.setdefault(id(a if below is None else below[0]), a)
    dirty = {id(x) for x in ctx.dirty_tensors or ()}
    constants = {id(x) for x in ctx.non_differentiable or ()}
    for k, (value, output, tangent) in enumerate(zip(raw, outputs, found, strict=True)):
        if not isinstance(value, Tensor) or not isinstance(output, Tensor):
            continue
        if id(value) in constants or value._array.dtype.kind not in "fcV":
            if tangent is not None:
                raise RuntimeError(errors.jvp_of_constant(k))
            continue
        if id(value) in dirty:
            if all(value is not a for a in tensors):
                raise RuntimeError(errors.JVP_DIRTY_NOT_AN_INPUT)
            if id(value) in given:
                check_overwritten(given[id(value)], before[id(value)], tangent)
                continue
            level.set_tangent_in_place(output, defined(tangent))
            continue
        below = forward_base(output)
        matching = None if below is None else bases.get(id(below[0]))
        if matching is not None:
            source = level.tangent_of(matching)
            if source is None:
                level.set_tangent_in_place(output, defined(tangent))
                return  # as PyTorch does: later outputs get none
            above = None if tangent is None else forward_base(tangent)
            if above is None or above[0] is not source:
                raise RuntimeError(errors.JVP_NOT_A_VIEW)
        level.set_tangent(output, defined(tangent))


def check_overwritten(former: Tensor, version: int, tangent: Tensor | None) -> None:
    """Check that the tangent of an overwritten input was overwritten, and returned itself."""
    if tangent is None or tangent._version == version:
        raise RuntimeError(errors.JVP_NOT_IN_PLACE)
    if tangent is not former:
        raise RuntimeError(errors.JVP_NOT_AS_IS)
