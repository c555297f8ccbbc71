"""Random draws from keys: NumPy's counter-based Philox, restarted for every draw.

A key is an array of two uint64, the key of a Philox generator: a draw is a pure function of the
key, the shape, the dtype and the parameters. So a draw is an operation like any other: it may run
later, twice, in another thread, or not at all.

Note [Keys and counters]
    A Philox generator is a bijection of 256-bit counters, chosen by a key. Draws count from 0;
    `split` and `fold_in` use the same bijection at counters that no draw reaches (the highest of
    their four words is 1 and 2), so that a key may be both split and drawn from.

Note [Many keys]
    With a batch of keys, the leading axes of all operands are those of the keys, and every key
    draws its own example. That is the batch rule: unmapped operands are broadcast. Setting a
    generator's key takes 1 us, making a generator 7; so idle generators are cached, and each is
    used by one draw at a time.

Layer: 2.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype, shape_of
from functrace.ir.primitive import (
    ZERO,
    Flags,
    Primitive,
    Rule,
    RuleMarker,
    Tangents,
    Values,
    absent,
    always,
)
from functrace.ops.elementwise import add, div, mul, sqrt, square
from functrace.ops.gamma_slope import log_gamma_slope
from functrace.ops.shaping import broadcast_to
from functrace.tracing.binding import bind
from functrace.tracing.tracer import Value
from functrace.typing import Array

Shape = tuple[int, ...]
Draw = Callable[..., Any]
"""Draws for one key, from ``(generator, shape, dtype, *operands)``."""

_SPLIT, _FOLD = 1, 2
_LEAST = {2: 6e-8, 4: 1.5e-45}
"""Smallest positive numbers of narrow floats, approximately, by item size."""
_NOT_LINEAR = absent(
    because="a draw is not linear",
    instead="differentiate with functrace.vjp or functrace.grad instead",
)


@functools.lru_cache(maxsize=1)
def _idle() -> list[np.random.Generator]:
    """Return the pool of idle generators: as many as there have been concurrent draws."""
    return []


def _drawn(
    draw: Draw,
    key: Array,
    counter: tuple[int, int],
    shape: Shape,
    dtype: np.dtype[Any],
    *operands: Array,
) -> Any:
    """Draw for one key; ``counter`` has the lowest and the highest word of the start."""
    idle = _idle()
    try:
        generator = idle.pop()
    except IndexError:
        generator = np.random.Generator(np.random.Philox(0))
    generator.bit_generator.state = {
        "bit_generator": "Philox",
        "state": {"counter": (counter[0], 0, 0, counter[1]), "key": key.tolist()},
        "buffer": (0, 0, 0, 0),
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }
    try:
        return draw(generator, shape, dtype, *operands)
    finally:
        idle.append(generator)


def _each(
    draw: Draw,
    keys: Array,
    counter: tuple[int, int],
    shape: Shape,
    dtype: np.dtype[Any],
    operands: tuple[Array, ...],
) -> Any:
    """Draw for every key of a batch."""
    if keys.ndim == 1:
        return np.asarray(_drawn(draw, keys, counter, shape, dtype, *operands), dtype)[()]
    batch = keys.shape[:-1]
    out = np.empty(batch + shape, dtype)
    for place in np.ndindex(batch):
        out[place] = _drawn(draw, keys[place], counter, shape, dtype, *[x[place] for x in operands])
    return out


def _aval(keys: ShapeDtype, *rest: Any) -> ShapeDtype:
    shape, dtype = rest[-2:]
    return ShapeDtype(keys.shape[:-1] + shape, dtype)


def _broadcast(operands: Values, is_batched: Flags) -> tuple[Any, ...]:
    size = next(shape_of(x)[0] for x, flag in zip(operands, is_batched, strict=True) if flag)
    return tuple(
        [
            x if flag else broadcast_to(x, (size, *shape_of(x)))
            for x, flag in zip(operands, is_batched, strict=True)
        ]
    )


def _sampler(
    name: str,
    draw: Draw,
    *,
    jvp: Rule | RuleMarker = ZERO,
    fails: Rule | None = None,
    starts: int = 0,
) -> Primitive:
    """Make the primitive of a distribution.

    Args:
        name: name in listings.
        draw: draws for one key.
        jvp: derivative of the sample by its parameters, if it is smooth in them.
        fails: returns True if NumPy rejects some parameters.
        starts: the highest word of the initial counter.
    """
    counter = (0, starts)

    def evaluate(keys: Array, *rest: Any) -> Any:
        *operands, shape, dtype = rest
        return _each(draw, keys, counter, shape, dtype, tuple(operands))

    def batch(operands: Values, is_batched: Flags, *params: Shape | np.dtype[Any]) -> Any:
        return bind(primitive, _broadcast(operands, is_batched), params)

    primitive = Primitive(
        name,
        eval=evaluate,
        aval=_aval,
        jvp=jvp,
        transpose=_NOT_LINEAR,
        batch=batch,
        params=("shape", "dtype"),
        fresh=lambda aval: bool(aval.shape),
        fails=fails,
    )
    return primitive


# -- bits ------------------------------------------------------------------------------------------


def _words(generator: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Any:
    count = math.prod(shape)
    raw = generator.bit_generator.random_raw(-(-count * dtype.itemsize // 8))
    return raw.astype("<u8").view(dtype.newbyteorder("<"))[:count].reshape(shape)


random_bits_p = _sampler("random_bits", _words)
"""Unsigned integers of any size: the generator's words, lowest bits first."""
split_key_p = _sampler("split_key", _words, starts=_SPLIT)
"""New keys, shape (…, 2)."""


def _seed_eval(seeds: Array) -> Any:
    out = np.empty((*np.shape(seeds), 2), np.uint64)
    for place in np.ndindex(np.shape(seeds)):
        out[place] = np.random.SeedSequence(int(np.asarray(seeds)[place])).generate_state(
            2, np.uint64
        )
    return out


seed_key_p = Primitive(
    "seed_key",
    eval=_seed_eval,
    aval=lambda seeds: ShapeDtype((*seeds.shape, 2), np.dtype(np.uint64)),
    jvp=ZERO,
    transpose=_NOT_LINEAR,
    batch=lambda operands, _: bind(seed_key_p, operands),
    fails=always,
)
"""The key of ``numpy.random.Philox(seed)`` for every integer of an array."""


def _fold_eval(keys: Array, data: Array) -> Any:
    out = np.empty(keys.shape, np.uint64)
    for place in np.ndindex(keys.shape[:-1]):
        out[place] = _drawn(_words, keys[place], (int(data[place]), _FOLD), (2,), out.dtype)
    return out


fold_key_p = Primitive(
    "fold_key",
    eval=_fold_eval,
    aval=lambda keys, data: keys,
    jvp=ZERO,
    transpose=_NOT_LINEAR,
    batch=lambda operands, is_batched: bind(fold_key_p, _broadcast(operands, is_batched)),
)
"""A new key from each key and a uint64."""

# -- continuous distributions ----------------------------------------------------------------------


def _uniform(generator: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Any:
    if dtype == np.float32:
        return generator.random(shape, np.float32)
    drawn = generator.random(shape)
    return np.floor(drawn * 2048.0) / 2048.0 if dtype == np.float16 else drawn  # 1 is never reached


def _normal(generator: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Any:
    return generator.standard_normal(shape)


def _exponential(generator: np.random.Generator, shape: Shape, dtype: np.dtype[Any]) -> Any:
    # Its logarithm is taken: it is never 0, also after rounding.
    return np.maximum(generator.standard_exponential(shape), _LEAST.get(dtype.itemsize, 1e-300))


def _loggamma(generator: np.random.Generator, shape: Shape, dtype: np.dtype[Any], a: Array) -> Any:
    a = np.asarray(a, np.float64)
    with np.errstate(all="ignore"):
        if not np.any(a < 1.0):
            return np.log(generator.standard_gamma(a, shape))
        # A sample of shape a is one of shape a + 1 times the a-th root of a uniform sample: in
        # range for every a.
        drawn = np.log(generator.standard_gamma(np.where(a < 1.0, a + 1.0, a), shape))
        return np.where(a < 1.0, drawn - generator.standard_exponential(shape) / a, drawn)


def _loggamma_jvp(
    primals: Values, outputs: Values, tangents: Tangents, shape: Shape, dtype: np.dtype[Any]
) -> Any:
    assert tangents[1] is not None  # the key is inactive
    return mul(tangents[1], log_gamma_slope(primals[1], outputs[0]))


def _wald(generator: np.random.Generator, shape: Shape, dtype: np.dtype[Any], mean: Array) -> Any:
    return generator.wald(mean, 1.0, shape)


def _wald_jvp(
    primals: Values, outputs: Values, tangents: Tangents, shape: Shape, dtype: np.dtype[Any]
) -> Any:
    # -(dF/dm) / p: in the derivative of F by m everything cancels except 2 / m**2 exp(2 / m)
    # Phi(-(x / m + 1) / sqrt(x)).
    from functrace.ops.special.errors import erfcx

    (_, mean), (x,) = primals, outputs
    root = sqrt(x)
    ratio = mul(
        erfcx(mul(div(add(div(x, mean), 1.0), root), math.sqrt(0.5))), math.sqrt(math.pi / 2)
    )
    assert tangents[1] is not None  # the key is inactive
    return mul(tangents[1], div(mul(mul(mul(x, root), ratio), 2.0), square(mean)))


random_uniform_p = _sampler("random_uniform", _uniform)
"""Uniform on [0, 1): multiples of 2**-53, in single precision of 2**-24."""
random_normal_p = _sampler("random_normal", _normal)
random_exponential_p = _sampler("random_exponential", _exponential)
random_loggamma_p = _sampler("random_loggamma", _loggamma, jvp=_loggamma_jvp, fails=always)
random_wald_p = _sampler("random_wald", _wald, jvp=_wald_jvp, fails=always)

# -- discrete distributions ------------------------------------------------------------------------


def _integers(
    generator: np.random.Generator, shape: Shape, dtype: np.dtype[Any], low: Array, high: Array
) -> Any:
    return generator.integers(low, high, shape, dtype)


def _poisson(
    generator: np.random.Generator, shape: Shape, dtype: np.dtype[Any], mean: Array
) -> Any:
    return generator.poisson(mean, shape)


def _binomial(
    generator: np.random.Generator, shape: Shape, dtype: np.dtype[Any], n: Array, p: Array
) -> Any:
    return generator.binomial(n, p, shape)


def _multinomial(
    generator: np.random.Generator, shape: Shape, dtype: np.dtype[Any], n: Array, p: Array
) -> Any:
    return generator.multinomial(n, p, shape[:-1])


random_integers_p = _sampler("random_integers", _integers, fails=always)
"""Integers from ``low`` to below ``high``."""
random_poisson_p = _sampler("random_poisson", _poisson, fails=always)
random_binomial_p = _sampler("random_binomial", _binomial, fails=always)
random_multinomial_p = _sampler("random_multinomial", _multinomial, fails=always)
"""Counts, along the last axis of the shape; the probabilities are the last axis of the third
operand.
"""


def sample(
    primitive: Primitive, key: Value, shape: Shape, dtype: np.dtype[Any], *operands: Value
) -> Any:
    """Draw from a distribution.

    Args:
        primitive: one of the primitives above that have a shape.
        key: uint64 of shape (…, 2).
        shape: shape of each key's draw; operands broadcast to it.
        dtype: dtype of the result.
        operands: parameters of the distribution: arrays, with the leading axes of the key.
    """
    return bind(primitive, (key, *operands), (shape, dtype))
