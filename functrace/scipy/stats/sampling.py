"""Samples: drawn by SciPy, and differentiated as quantiles of a constant probability.

Note [Samples]
    SciPy draws the standard form, on plain values: at once if the parameters are concrete, or when
    the program runs if there is a seed. The draw is a constant; ``loc`` and ``scale`` are applied
    to it, and its derivative by shapes is implicit, dz = -F_shape(z) / p(z) dshape, where F is the
    distribution function, on the side where it is small, to keep full precision in the tails. That
    derivative is a custom rule that contains the differentiable sample itself, so it has
    derivatives of all orders.

Source: Figurnov, Mohamed and Mnih, "Implicit reparameterization gradients" (2018).

Layer: 9.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np
import scipy.stats

from functrace.api.capture.programs import stop_gradient
from functrace.api.custom_rules.derivatives import custom_jvp
from functrace.api.differentiation.gradients import jvp
from functrace.errors import ConcretizationError
from functrace.numpy.protocol.operands import Shape, arrayed, holds_tracer
from functrace.ops.checks import require
from functrace.ops.foreign import returned
from functrace.ops.sampling import draw
from functrace.scipy.kinds import where
from functrace.tracing.tracer import Tracer
from functrace.tracing.values import concrete_value, stages
from functrace.typing import Array

if TYPE_CHECKING:
    from functrace.scipy.stats.distribution import Distribution

RandomState: TypeAlias = (
    int | np.integer | np.random.Generator | np.random.RandomState | Tracer | None
)
Size: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None

_DOMAIN = "Domain error in arguments. The `scale` parameter must be positive for all distributions."


def is_seed(random_state: RandomState) -> bool:
    """Return True for an integer, with which every call draws the same sample."""
    if isinstance(random_state, Tracer):
        return random_state.dtype.kind in "iu"
    return isinstance(random_state, int | np.integer)


def check_drawn_here(what: str, random_state: RandomState) -> None:
    """Check that a program will not repeat a draw that is made now.

    Raises:
        ConcretizationError: if it might.
    """
    owner = None if is_seed(random_state) else stages()
    if owner is not None:
        source = (
            "NumPy's global state" if random_state is None else f"a {type(random_state).__name__}"
        )
        raise ConcretizationError(
            f"{what} draws from {source}, but {owner} records without values: every run would have "
            "the same numbers",
            fix="pass an integer as random_state, with which every run has the same on purpose; or "
            "draw outside, and pass "
            "what was drawn as an argument",
        )


def drawn(
    distribution: str,
    state: RandomState,
    shape: Shape,
    kind: str,
    parameters: Sequence[Any],
    event: int = 0,
) -> Any:
    """Draw with SciPy, on plain values: by the program if there is a seed, otherwise now.

    Args:
        distribution: SciPy's name.
        state: the seed, or the generator.
        shape: shape of the sample, with the axes of one element at the end.
        kind: its dtype.
        parameters: parameters of the distribution; they may be traced.
        event: number of axes of one element.
    """
    what = f"scipy.stats.{distribution}.rvs"
    check_drawn_here(what, state)
    constants = [stop_gradient(x) if isinstance(x, Tracer) else x for x in parameters]
    if is_seed(state):
        return draw(distribution, shape, kind, state, *constants)  # type: ignore[arg-type]
    known = [concrete_value(x) for x in constants]
    if any(x is None for x in known):
        raise ConcretizationError(
            f"{what} draws with an abstract parameter",
            fix="pass an integer as random_state, or draw outside",
        )
    size = shape[: len(shape) - event]
    known = [np.asarray(x)[()] for x in known]
    return np.asarray(
        getattr(scipy.stats, distribution).rvs(*known, size=size, random_state=state), kind
    ).reshape(shape)


def sampled(
    distribution: Distribution, given: dict[str, Any], size: Size, random_state: RandomState
) -> Any:
    """Return a sample of a distribution with parameters given by name."""
    size = given.pop("size", size)
    if not any(map(holds_tracer, given.values())) and not isinstance(random_state, Tracer):
        check_drawn_here(f"scipy.stats.{distribution.name}.rvs", random_state)
        return distribution.scipys.rvs(**given, size=size, random_state=random_state)
    shapes: list[Any] = [arrayed(given[name]) for name in distribution.shapes]
    loc: Any = arrayed(given.get("loc", 0.0))
    scale: Any = arrayed(given.get("scale", 1.0))
    shape = sample_shape([x.shape for x in (*shapes, loc, scale)], size)
    inner = np.broadcast_shapes(*[x.shape for x in shapes])
    parameters = [np.broadcast_to(x, inner) for x in shapes]
    if not distribution.is_scaled:
        return drawn(distribution.name, random_state, shape, "int64", parameters) + stop_gradient(
            loc
        ).astype(np.int64)
    z = drawn(distribution.name, random_state, shape, "float64", parameters)
    if any(map(holds_tracer, shapes)):
        z = follower(distribution)(
            z, *[x if x.dtype == np.float64 else x.astype(np.float64) for x in shapes]
        )
    found = z * require(scale, scale >= 0, "ValueError", _DOMAIN) + loc
    wrapped: Any = distribution.wrapped
    return found if wrapped is None else wrapped(found)


def sample_shape(parameters: Sequence[Shape], size: Size) -> Shape:
    """Return the shape of a sample, by SciPy's rule: sizes of parameters are 1, or the sample's.

    Raises:
        ValueError: if they are not, with SciPy's message.
    """
    shape = np.broadcast_shapes(*parameters)
    if size is None:
        return shape
    wanted = tuple(np.atleast_1d(np.asarray(size, int)).tolist())
    padded = (1,) * (len(shape) - len(wanted)) + wanted
    rest = (1,) * (len(wanted) - len(shape)) + shape
    if not all(n in (1, m) for n, m in zip(rest, padded, strict=True)):
        raise ValueError(
            f"size does not match the broadcast shape of the parameters. {size}, {wanted}, {shape}"
        )
    return padded


@functools.lru_cache(maxsize=64)
def follower(distribution: Distribution) -> Callable[..., Any]:
    """Return a sample as a function of the shapes: see Note [Samples]."""

    def follow(z: Array, *shapes: Array) -> Any:
        return returned(z, shapes)

    follow.__name__ = f"{distribution.name}.rvs"
    following = custom_jvp(follow)

    def rule(primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        z, *shapes = primals
        found = following(z, *shapes)
        moved: Any = distribution.moved
        if moved is not None:
            partials = moved(found, *shapes)
            return found, sum(
                t * partial for t, partial in zip(tangents[1:], partials, strict=True)
            )
        lower: Any = distribution.lower
        upper: Any = distribution.upper
        assert lower is not None and upper is not None, distribution.name

        def smaller(*given: Array) -> Any:
            below = lower(found, *given)
            return where(below < 0.5, below, -upper(found, *given))

        _, change = jvp(smaller, tuple(shapes), tuple(tangents[1:]))
        return found, -change / np.exp(distribution.log_density(found, *shapes))

    following.defjvp(rule)
    return following
