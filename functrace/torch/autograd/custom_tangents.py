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
from functrace.torch.dispatch.dual import Level, forward_root, hidden, is_forward_view
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
        bases.setdefault(forward_root(a), a)
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
        matching = bases.get(forward_root(output)) if is_forward_view(output) else None
        if matching is not None:
            source = level.tangent_of(matching)
            if source is None:
                level.set_tangent_in_place(output, defined(tangent))
                return  # as PyTorch does: later outputs get none
            check_view(matching, source, tangent)
        level.set_tangent(output, defined(tangent))


def check_view(matching: Tensor, source: Tensor, tangent: Tensor | None) -> None:
    """Check the tangent of an output that is a view of an argument: a view of the argument's
    tangent, or of the base of that if the argument is a view itself.
    """
    if tangent is None:
        raise RuntimeError(errors.JVP_UNDEFINED)
    if not is_forward_view(tangent):
        raise RuntimeError(errors.JVP_NOT_A_VIEW)
    is_same = forward_root(tangent) == forward_root(source)
    if is_forward_view(matching):
        if not is_same:
            raise RuntimeError(errors.JVP_OF_ANOTHER_BASE)
    elif not is_same or is_forward_view(source):
        raise RuntimeError(errors.JVP_OF_ANOTHER_TENSOR)


def check_overwritten(former: Tensor, version: int, tangent: Tensor | None) -> None:
    """Check that the tangent of an overwritten input was overwritten, and returned itself."""
    if tangent is None or tangent._version == version:
        raise RuntimeError(errors.JVP_NOT_IN_PLACE)
    if tangent is not former:
        raise RuntimeError(errors.JVP_NOT_AS_IS)
