"""Samples of SciPy's distributions, drawn when a program runs, reproducibly from a seed.

A draw is constant for derivatives; `functrace.scipy.stats.sampling` adds its derivative by the
parameters. SciPy is imported when one of these first runs.

Layer: 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.errors import ProgramError
from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import ZERO, Flags, Primitive, Values, absent, always
from functrace.ops.elementwise import ELEMENTWISE
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

Shape = tuple[int, ...]
Maps = tuple[tuple[int, tuple[int, ...]], ...]
"""Batch axes, from the first mapped one on: size, and which operands have it."""

_EVENT = {
    "multivariate_normal": 1,
    "multivariate_t": 1,
    "dirichlet": 1,
    "multinomial": 1,
    "wishart": 2,
}
"""Number of axes of one sample, by distribution."""


def _sequential(
    operands: Sequence[Any], distribution: str, shape: Shape, kind: str, maps: Maps
) -> Array:
    """Draw once per example, along the last mapped axis first."""
    if maps:
        size, flags = maps[-1]
        examples = [
            [x[i] if flag else x for x, flag in zip(operands, flags, strict=True)]
            for i in range(size)
        ]
        return np.stack(
            [_sequential(example, distribution, shape, kind, maps[:-1]) for example in examples]
        )
    import scipy.stats

    seed, *parameters = operands
    drawn = getattr(scipy.stats, distribution).rvs(
        *[np.asarray(x)[()] for x in parameters],
        size=shape[: len(shape) - _EVENT.get(distribution, 0)],
        random_state=int(seed),
    )
    return np.asarray(drawn, kind).reshape(shape)


def _eval(*rest: Any) -> Any:
    *operands, distribution, shape, kind, maps = rest
    if 0 in [size for size, _ in maps]:
        return np.zeros((*[size for size, _ in reversed(maps)], *shape), kind)
    return _sequential(operands, distribution, shape, kind, maps)[()]


def _check(distribution: str) -> None:
    """Check that there is a distribution with this name: it may come from a text."""
    import scipy.stats

    if distribution not in scipy.stats.__all__ or not hasattr(
        getattr(scipy.stats, distribution), "rvs"
    ):
        raise ProgramError(
            f"scipy.stats has no distribution {distribution!r}", fix="name one of scipy.stats"
        )


def _aval(*rest: Any) -> ShapeDtype:
    *_, distribution, shape, kind, maps = rest
    _check(distribution)
    return ShapeDtype((*[size for size, _ in reversed(maps)], *shape), np.dtype(kind))


def _batch(
    operands: Values, is_batched: Flags, distribution: str, shape: Shape, kind: str, maps: Maps
) -> Any:
    size = next(shape_of(x)[0] for x, flag in zip(operands, is_batched, strict=True) if flag)
    return bind(
        draw_p, operands, (distribution, shape, kind, (*maps, (size, tuple(map(int, is_batched)))))
    )


draw_p = Primitive(
    "draw",
    eval=_eval,
    aval=_aval,
    jvp=ZERO,
    transpose=absent(
        because="what is drawn is a constant", instead="differentiate with functrace.vjp"
    ),
    batch=_batch,
    params=("distribution", "shape", "kind", "maps"),
    fails=always,
)
"""``draw seed a {distribution="gamma", shape=(3,), kind="float64", maps=()}``: a SciPy sample in
standard form."""


def draw(distribution: str, shape: Shape, kind: str, seed: Value, *parameters: Value) -> Any:
    """Draw a sample of a shape, including the batch axes of a multivariate distribution."""
    return bind(draw_p, (seed, *parameters), (distribution, shape, kind, ()))


def _step_eval(*rest: Any) -> Any:
    import scipy.stats

    *operands, distribution, method = rest
    return np.array(getattr(getattr(scipy.stats, distribution), method)(*operands), np.float64)[()]


def _step_aval(*rest: Any) -> ShapeDtype:
    *operands, distribution, method = rest
    _check(distribution)
    if method not in ("ppf", "isf"):
        raise ProgramError(f"{method} is no quantile function", fix="name ppf or isf")
    shapes = [x.shape for x in operands if isinstance(x, ShapeDtype)]
    return ShapeDtype(np.broadcast_shapes(*shapes), np.dtype(np.float64))


quantile_p = Primitive(
    "quantile_of_integers",
    eval=_step_eval,
    aval=_step_aval,
    jvp=ZERO,
    transpose=absent(
        because="a quantile of integers is piecewise constant",
        instead="differentiate with functrace.vjp",
    ),
    batch=ELEMENTWISE,
    params=("distribution", "method"),
)
"""``quantile_of_integers q mu loc {distribution="poisson", method="ppf"}``: a step function of
SciPy's.
"""


def quantile_of_integers(distribution: str, method: str, *operands: Value) -> Any:
    """The quantile function of a discrete distribution, or its complement's."""
    return bind(quantile_p, operands, (distribution, method))
