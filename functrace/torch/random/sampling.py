"""Functions that sample from distributions whose parameters are tensors: ``normal``, ``bernoulli``,
``multinomial``.

Layer: 9.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.random import numbers
from functrace.torch.random.engine import Engine
from functrace.torch.random.filling import (
    check_chance,
    check_chances,
    memory_of,
    trials_in_order,
)
from functrace.torch.random.generator import engine_of
from functrace.torch.tensors.device import CPU
from functrace.torch.tensors.dtypes import default_float
from functrace.torch.tensors.tensor import Tensor, fresh, wrap
from functrace.typing import Array

ROWS = FunctionTable()
_BERNOULLI = Op("BernoulliBackward0", lambda x, drawn: convert(drawn, x.dtype), edges=(0,))


@ROWS.function(out=True)
def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """Return ones, with the probabilities that the tensor holds (or with one for all), and
    zeros.
    """
    like = memory_of(input)
    if p is None:
        if input._array.dtype.kind == "c":
            raise NotImplementedError(
                errors.no_kernel("bernoulli_tensor_cpu_self_").format(input.dtype.printed)
            )
        check_chances(input)
        drawn = trials_in_order(engine_of("bernoulli", generator), input._array, like)
    else:
        check_chance(p)
        if input._array.dtype.kind == "c":
            raise NotImplementedError(
                errors.no_kernel("bernoulli_scalar_cpu_").format(input.dtype.printed)
            )
        engine = engine_of("bernoulli", generator)
        drawn = numbers.placed(numbers.trials(engine, like.size, float(p)), like)
    return apply(_BERNOULLI, (input, wrap(drawn)))


@ROWS.function("function")
def normal(
    mean: Any, std: Any = 1.0, size: Sequence[int] | None = None, *, generator: Any = None
) -> Tensor:
    """Return normal numbers: with these means and deviations, or of these sizes."""
    if MODES.dispatch is not None:
        options = {} if generator is None else {"generator": generator}
        run = lambda: normal(mean, std, size, generator=generator)  # noqa: E731
        if size is None:
            return MODES.dispatch.make("normal", (mean, std), options, run)
        placed = options | {"device": CPU, "pin_memory": False}
        return MODES.dispatch.make("normal", (float(mean), float(std), list(size)), placed, run)
    engine = engine_of("normal", generator)
    if size is not None:
        return fresh(
            numbers.normals(engine, int(np.prod(size)), default_float(), mean, std).reshape(size)
        )
    means, deviations = (x._array if isinstance(x, Tensor) else x for x in (mean, std))
    kind = next((x._array.dtype for x in (mean, std) if isinstance(x, Tensor)), default_float())
    shape = np.broadcast_shapes(np.shape(means), np.shape(deviations))
    scale = 1.0 if isinstance(std, Tensor) else std
    drawn = numbers.normals(engine, int(np.prod(shape)), kind, 0.0, scale).reshape(shape)
    if isinstance(std, Tensor):
        drawn = (drawn * deviations).astype(kind)
    return fresh(np.asarray(drawn + means).astype(kind))


@ROWS.function()
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Tensor:
    """Return positions drawn with the weights that the tensor holds."""
    if MODES.dispatch is not None:
        args = (input, num_samples, replacement) if replacement else (input, num_samples)
        options = {} if generator is None else {"generator": generator}
        run = lambda: multinomial(input, num_samples, replacement, generator=generator)  # noqa: E731
        return MODES.dispatch.make("multinomial", args, options, run)
    weights = input._array
    if weights.dtype.kind in "biuc":
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {input.dtype.printed}"
        )
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
        )
    engine = engine_of("multinomial", generator)
    shape = (*weights.shape[:-1], num_samples)
    if 0 in weights.shape:
        return fresh(np.empty(shape, np.int64))
    _check_weights(weights)
    if replacement and num_samples > 1:
        drawn = _with_replacement(engine, np.atleast_2d(weights), num_samples)
    else:
        drawn = _without_replacement(engine, weights, num_samples)
    return fresh(drawn.reshape(shape))


def _check_weights(weights: Array) -> None:
    """Check the weights of a distribution.

    Raises:
        RuntimeError: if one is negative or not finite, or all are zero.
    """
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (weights.sum(-1, dtype=np.float64) == 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


def _without_replacement(engine: Engine, weights: Array, count: int) -> Array:
    """Return the positions where the quotient of weight and exponential number is greatest."""
    kind = weights.dtype
    drawn = numbers.placed(numbers.exponentials(engine, weights.size, kind), weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = weights / drawn
    if count == 1:
        return quotients.argmax(-1)
    order = np.argsort(-quotients, axis=-1, kind="stable")
    return order[..., :count]


def _with_replacement(engine: Engine, weights: Array, count: int) -> Array:
    """Return the positions where uniform numbers fall among the sums of weights."""
    sums = np.cumsum(weights, axis=1, dtype=weights.dtype)
    sums /= sums[:, -1:]
    sums[:, -1] = 1
    drawn = engine.doubles(len(sums) * count).reshape(-1, count)
    return np.stack([np.searchsorted(row, u) for row, u in zip(sums, drawn, strict=True)])
