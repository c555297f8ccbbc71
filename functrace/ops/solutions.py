"""Solver results for differentiation: results without derivatives, and checks of convergence.

Layer: 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.errors import NotDifferentiableError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import (
    Flags,
    Operand,
    Primitive,
    RuleArgument,
    Tangents,
    Values,
    absent,
    always,
    is_linear,
)
from functrace.ops.foreign import first_aval, first_copied, with_axis
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array


def _refused_eval(*rest: RuleArgument) -> Any:
    *_, message, fix, _results = rest
    raise NotDifferentiableError(message, fix=fix)


def _refused_aval(*rest: RuleArgument) -> ShapeDtype:
    return rest[-1][0]


def _refused_transpose(_ct: Array, *rest: RuleArgument) -> Any:
    return _refused_eval(*rest)


def _refused_batch(_operands: Values, _is_batched: Flags, *params: RuleArgument) -> Any:
    return _refused_eval(*params)


refused_p = Primitive(
    "refused",
    eval=_refused_eval,
    aval=_refused_aval,
    jvp=lambda primals, outputs, tangents, message, fix, _: _refused_eval(message, fix, _),
    transpose=_refused_transpose,
    batch=_refused_batch,
    params=("message", "fix", "results"),
)
"""``refused x_dot {message="…", fix="…", results=(f64[],)}``: a tangent that raises when
evaluated."""


def _undifferentiated_jvp(
    primals: Values, outputs: Values, tangents: Tangents, message: str, fix: str
) -> Any:
    aval = ShapeDtype(shape_of(outputs[0]), outputs[0].dtype)
    return bind(refused_p, tuple([t for t in tangents if t is not None]), (message, fix, (aval,)))


def _undifferentiated_batch(operands: Values, is_batched: Flags, message: str, fix: str) -> Any:
    return bind(
        undifferentiated_p, (with_axis(operands, is_batched), *operands[1:]), (message, fix)
    )


undifferentiated_p = Primitive(
    "undifferentiated",
    eval=first_copied,
    aval=first_aval,
    jvp=_undifferentiated_jvp,
    transpose=absent(
        because="what has no derivative has no transpose", instead="use functrace.stop_gradient"
    ),
    batch=_undifferentiated_batch,
    params=("message", "fix"),
    written="np.copy({0})[()]",
)
"""``undifferentiated x a {message="…", fix="…"}``: a copy of ``x`` with an unknown dependence on
``a``."""


def undifferentiated(x: Value, depends_on: Sequence[Value], message: str, fix: str) -> Any:
    """Return a copy of a value whose derivative by its dependencies raises with a message."""
    return bind(undifferentiated_p, (x, *depends_on), (message, fix))


reverse_only_p = Primitive(
    "reverse_only",
    eval=lambda x: np.copy(x)[()],
    aval=lambda x: x,
    jvp=lambda primals, outputs, tangents: tangents[0],
    transpose=absent(
        because="what a solver found was linearized, which knows its derivative in reverse mode",
        instead="use functrace.jvp for tangents, in place of functrace.linearize",
    ),
    batch=lambda operands, is_batched: bind(reverse_only_p, operands),
    written="np.copy({0})[()]",
)
"""``reverse_only x``: a copy of a cotangent from a rule whose transpose does not give tangents."""


# -- conditional results ---------------------------------------------------------------------------


def _required_eval(x: Array, ok: Array, message: str, fix: str) -> Any:
    if not np.all(ok):
        raise NotDifferentiableError(message, fix=fix)
    return np.copy(x)[()]


def _required_jvp(
    primals: Values, outputs: Values, tangents: Tangents, message: str, fix: str
) -> Any:
    return bind(required_p, (tangents[0], primals[1]), (message, fix))


def _required_transpose(ct: Array, x: Operand, ok: Array, message: str, fix: str) -> Any:
    return bind(required_p, (ct, ok), (message, fix)) if is_linear(x) else None, None


def _required_batch(operands: Values, is_batched: Flags, message: str, fix: str) -> Any:
    return bind(required_p, (with_axis(operands, is_batched), operands[1]), (message, fix))


def _required_aval(x: ShapeDtype, ok: ShapeDtype, message: str, fix: str) -> ShapeDtype:
    return x


required_p = Primitive(
    "required",
    eval=_required_eval,
    aval=_required_aval,
    jvp=_required_jvp,
    transpose=_required_transpose,
    batch=_required_batch,
    params=("message", "fix"),
    fails=always,
)
"""``required x ok {message="…", fix="…"}``: a copy of ``x``; if ``ok`` is false, an error."""


def required(x: Value, ok: Value, message: str, fix: str) -> Any:
    """Return a copy of a value if a condition holds, as one operation that raises if not.

    Args:
        x: the value, in which the operation is linear.
        ok: a bool, or several.
        message, fix: texts of the `NotDifferentiableError`.
    """
    return bind(required_p, (x, np.bool_(ok) if isinstance(ok, bool) else ok), (message, fix))
