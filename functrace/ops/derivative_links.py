"""Derivatives of recomputed values: they are those of the values that were computed first.

Note [Derivative links]
    The linear part of a call reads residuals that it recomputes, or unpacks. When it is
    differentiated again, each residual is a function of the operands of the call twice: where it was
    computed first, and where it is recomputed. In reverse mode, two cotangents would go back to the
    operands by two ways, and be summed there; without the policy there is one residual, and its
    cotangents are summed first. The sums differ in last bits.

    So the forward part of the call also returns a *link* for each residual, ``derivative_only r``:
    zeros that take no memory, with the derivative of ``r``. The linear part reads
    ``with_derivative a link``: the value of the recomputed residual ``a``, whose cotangent goes to
    the link only. Its tangent is ``with_derivative`` of the tangents, so that forward mode computes
    it from that of ``a``, again. Programs that run have no links (`passes.inline_calls`).

Layer: 2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.errors import ShapeError
from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive, RuleArgument, Tangents, Values
from functrace.ops import counts
from functrace.ops.broadcasting import ELEMENTWISE
from functrace.tracing.binding import bind


def _zeros(x: Any) -> Any:
    zero = x.dtype.type(0)
    return np.broadcast_to(zero, x.shape) if x.shape else zero


def _same_tangent(_primals: Values, _outputs: Values, tangents: Tangents) -> Any:
    return tangents[0]


derivative_only_p = Primitive(
    "derivative_only",
    eval=_zeros,
    aval=lambda x: x,
    jvp=_same_tangent,
    transpose=lambda ct, x: (ct,),
    batch=ELEMENTWISE,
    flops=counts.moved,
)
"""``derivative_only x``: zeros without memory, with the derivative of ``x``."""


def _with_derivative_aval(a: ShapeDtype, link: ShapeDtype) -> ShapeDtype:
    if a is not link:
        raise ShapeError(f"with_derivative: {a} and {link}", fix="pass two values of one aval")
    return a


def _with_derivative_jvp(
    _primals: Values, _outputs: Values, tangents: Tangents, *_params: object
) -> Any:
    a, link = tangents
    assert a is not None or link is None, "a recomputed value depends on what its link depends on"
    return a if link is None else bind(with_derivative_p, (a, link))


def _with_derivative_transpose(ct: RuleArgument, *_operands: object) -> tuple[None, Any]:
    return None, ct


with_derivative_p = Primitive(
    "with_derivative",
    eval=lambda a, link: a,
    aval=_with_derivative_aval,
    jvp=_with_derivative_jvp,
    transpose=_with_derivative_transpose,
    batch=ELEMENTWISE,
    view=True,
    flops=counts.moved,
    written="{0}",
)
"""``with_derivative a link``: the value of ``a``; its cotangent is that of ``link``."""


def link(x: Any) -> Any:
    """Return the link to a value."""
    return bind(derivative_only_p, (x,))
