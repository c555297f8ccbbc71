"""Functions that sample from distributions whose parameters are tensors.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ir.primitive import Primitive, Tangents, Values, absent
from functrace.ops import elementwise as ew
from functrace.ops.elementwise import ELEMENTWISE
from functrace.ops.gamma_slope import log_gamma_slope
from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.promotion import check_broadcast
from functrace.torch.dispatch.results import put_out
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions.elementwise import tensors_only, without_derivative
from functrace.torch.functions.factories import leaf, shape_from
from functrace.torch.random import numbers
from functrace.torch.random.engine import Engine
from functrace.torch.random.filling import (
    check_chance,
    check_chances,
    check_kernel,
    memory_of,
    values_of,
)
from functrace.torch.random.generator import engine_of, for_each_example
from functrace.torch.random.rejection import binomials, gammas, poissons
from functrace.torch.tensors.device import CPU, DeviceLike
from functrace.torch.tensors.dtypes import DTYPES, DtypeLike, default_float, limits_of, numpy_dtype
from functrace.torch.tensors.formats import check_place
from functrace.torch.tensors.formats import layout as Layout
from functrace.torch.tensors.tensor import Tensor, fresh, wrap
from functrace.tracing import bind
from functrace.typing import Array

ROWS = FunctionTable()


def _drawn(*operands: Any) -> Any:
    """Return the last operand, the numbers drawn, as a constant in the dtype of the first."""
    return ew.stop_gradient(convert(operands[-1], operands[0].dtype))


_BERNOULLI = Op("BernoulliBackward0", _drawn, edges=(0,))
_BERNOULLI_NUMBER = without_derivative(
    Op("NotImplemented", lambda x, drawn, p: _drawn(x, drawn), edges=(0,), called="bernoulli.p"),
    "bernoulli",
)
_POISSON = Op("PoissonBackward0", _drawn, edges=(0,))


def _undifferentiable(name: str, instead: str, operands: int) -> Op:
    """Return the op of a sample whose derivative PyTorch does not implement: backward raises, and
    so do functional transforms.
    """
    primitive = Primitive(
        name.lstrip("_") + "_drawn",
        eval=lambda *given: given[-1].astype(given[0].dtype),
        aval=lambda *given: ShapeDtype(given[-1].shape, given[0].dtype),
        jvp=absent(because=f"the derivative of {name} is not implemented", instead=instead),
        transpose=absent(because=f"{name} is not linear", instead=instead),
        batch=ELEMENTWISE,
    )
    op = Op(
        "NotImplemented",
        lambda *given: bind(primitive, given, ()),
        edges=tuple(range(operands)),
        derived=_drawn,
        called=name,
    )
    return without_derivative(op, name)


_BINOMIAL = _undifferentiable(
    "binomial", "the gradient of an expectation needs another estimator, such as log_prob", 2
)
_DIRICHLET = _undifferentiable(
    "_sample_dirichlet",
    "torch.distributions.Dirichlet(...).rsample(), or normalize torch._standard_gamma(...)",
    1,
)
_NORMALS = {
    (True, False): Op("NormalBackward1", _drawn, edges=(0,)),
    (False, True): Op("NormalBackward2", _drawn, edges=(0,)),
    (True, True): Op("NormalBackward3", _drawn, edges=(0, 1)),
}
"""By the parameters that are tensors: mean, deviation."""


def _trials_of_examples(engine: Engine, chances: Tensor) -> Any:
    """Return True with the probabilities of a tensor that ``vmap`` maps over."""
    draw = engine.doubles if chances._array.dtype == np.float64 else engine.floats
    uniform = for_each_example(
        chances._array.shape, lambda shape: draw(math.prod(shape)).reshape(shape)
    )
    return ew.less(uniform, convert(chances._array, uniform.dtype))


@ROWS.function(out=True)
def bernoulli(input: Tensor, p: float | None = None, *, generator: object = None) -> Tensor:
    """Return ones, with the probabilities that the tensor holds (or with one for all), and
    zeros.
    """
    tensors_only("bernoulli", input=input)
    shape = memory_of(input).shape
    if p is None:
        check_kernel(input, "bernoulli_tensor_cpu_self_", "c")
        engine = engine_of("bernoulli", generator, each=True)
        if MODES.examples:
            return apply(_BERNOULLI, (input, wrap(_trials_of_examples(engine, input))))
        check_chances(input)
        drawn = numbers.trials_each(engine, values_of(input).ravel()).reshape(shape)
        return apply(_BERNOULLI, (input, wrap(drawn)))
    if not isinstance(p, (int, float, np.integer, np.floating)):
        raise TypeError(errors.invalid_combination("bernoulli", [input, p]))
    check_chance(p)
    check_kernel(input, "bernoulli_scalar_cpu_", "c")
    engine = engine_of("bernoulli", generator)
    drawn = numbers.trials(engine, math.prod(shape), float(p)).reshape(shape)
    return apply(_BERNOULLI_NUMBER, (input, wrap(drawn)), (float(p),))


# -- normal ----------------------------------------------------------------------------------------


@ROWS.function("function")
def normal(
    mean: Any,
    std: Any = 1.0,
    size: int | Sequence[int] | None = None,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    dtype: DtypeLike | None = None,
    layout: Layout | None = None,
    device: DeviceLike | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Return normal numbers.

    Args:
        mean: the mean: a number, or a tensor with one for each element.
        std: the standard deviation: a number, or a tensor.
        size: sizes of the result, if both are numbers.
        generator: the generator; by default that of the process.
        out: the tensor to overwrite.
        dtype: dtype of the result, if both are numbers; this and the further arguments are as for
            ``torch.randn``.
        layout: dense.
        device: the CPU.
        pin_memory: False.
        requires_grad: True for a result that requires grad.

    Raises:
        TypeError: for sizes with a tensor, and without sizes for two numbers.
        RuntimeError: if a deviation is negative.
    """
    if out is not None:
        options = {"dtype": dtype or out.dtype, "generator": generator} if size else {}
        return put_out(out, "normal", (mean, std), lambda: normal(mean, std, size, **options))
    of_tensors = isinstance(mean, Tensor), isinstance(std, Tensor)
    given = [mean, std] if size is None else [mean, std, size]
    fits = isinstance(size, (tuple, list)) and not any(of_tensors)
    if not (fits or (size is None and any(of_tensors))) or isinstance(mean, complex):
        raise TypeError(errors.invalid_combination("normal", given))
    if fits:
        check_place("normal", device, layout, pin_memory)
        kind = default_float() if dtype is None else numpy_dtype(dtype)
        shape = shape_from("normal", (size,))
        compute = lambda: leaf(  # noqa: E731
            _normals_of_numbers(mean, std, shape, kind, generator), requires_grad
        )
        if MODES.dispatch is None:
            return compute()
        options = {} if generator is None else {"generator": generator}
        options |= {"dtype": DTYPES[kind]} if dtype is not None else {}
        options |= {"device": CPU, "pin_memory": False}
        return MODES.dispatch.make(
            "normal", (float(mean), float(std), list(shape)), options, compute
        )
    tensors = tuple(x for x in (mean, std) if isinstance(x, Tensor))
    drawn = wrap(_normals_of_tensors(mean, std, generator))
    run = lambda: apply(_NORMALS[of_tensors], (*tensors, drawn))  # noqa: E731
    if MODES.dispatch is None:
        return run()
    options = {} if generator is None else {"generator": generator}
    shown = (mean,) if not of_tensors[1] and std == 1 else (mean, std)
    return MODES.dispatch.make("normal", shown, options, run)


def _check_deviation(std: Any) -> None:
    if isinstance(std, Tensor):
        if std._array.dtype.kind == "c":
            raise RuntimeError("normal expects standard deviation to be non-complex")
        if math.prod(std._array.shape) and not values_of(std).min() >= 0:
            raise RuntimeError("normal expects all elements of std >= 0.0")
    elif std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")


def _normals_of_numbers(
    mean: float, std: float, shape: tuple[int, ...], kind: np.dtype[Any], generator: object
) -> Array:
    _check_deviation(std)
    if 0 in shape:
        return np.empty(shape, kind)
    check_kernel(fresh(np.empty(0, kind)), "normal_kernel_cpu", "biu")
    engine = engine_of("normal", generator)
    return numbers.normals(engine, math.prod(shape), kind, mean, std).reshape(shape)


def _normals_of_tensors(mean: Any, std: Any, generator: Any) -> Array:
    """Return normal numbers, of which the mean, the deviation or both are tensors.

    They are drawn in C order, and rounded after every step as PyTorch does.
    """
    _check_deviation(std)
    first: Tensor = mean if isinstance(mean, Tensor) else std
    if math.prod(first._array.shape):
        check_kernel(first, "normal_kernel_cpu", "biu")
    kind = first._array.dtype
    means, deviations = (values_of(x) if isinstance(x, Tensor) else x for x in (mean, std))
    if isinstance(mean, Tensor) and isinstance(std, Tensor):
        check_broadcast(means.shape, deviations.shape)
    shape = np.broadcast_shapes(np.shape(means), np.shape(deviations))
    scale = 1.0 if isinstance(std, Tensor) else float(std)
    engine = engine_of("normal", generator)
    drawn = numbers.normals(engine, math.prod(shape), kind, 0.0, scale).reshape(shape)
    if isinstance(std, Tensor):
        drawn = (drawn * deviations).astype(kind)
    return np.asarray(drawn + means).astype(kind, copy=False)


# -- positions -------------------------------------------------------------------------------------


@ROWS.function()
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: object = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return positions drawn with the weights that the tensor holds.

    Args:
        input: the weights, shape (n,) or (rows, n).
        num_samples: how many to draw, of every row.
        replacement: True if a position may be drawn again.
        generator: the generator; by default that of the process.
        out: the int64 tensor to overwrite.

    Raises:
        RuntimeError: for weights that are no floating numbers, negative, not finite or all zero,
            and for more samples than there are positions without replacement.
    """
    tensors_only("multinomial", input=input)
    if out is not None:
        if isinstance(out, Tensor) and out._array.dtype != np.int64:
            raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.printed}")
        compute = lambda: multinomial(input, num_samples, replacement, generator=generator)  # noqa: E731
        return put_out(out, "multinomial", (input,), compute)
    if MODES.dispatch is not None:
        args = (input, num_samples, replacement) if replacement else (input, num_samples)
        options = {} if generator is None else {"generator": generator}
        run = lambda: multinomial(input, num_samples, replacement, generator=generator)  # noqa: E731
        return MODES.dispatch.make("multinomial", args, options, run)
    if isinstance(num_samples, (bool, float)):
        kind = type(num_samples).__name__
        raise TypeError(errors.must_be("multinomial", "num_samples", 1, "int", kind))
    weights = values_of(input)
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if weights.dtype.kind in "biuc":
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {input.dtype.printed}"
        )
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
    with np.errstate(all="ignore"):
        quotients = weights / drawn
    if count == 1:
        return quotients.argmax(-1)
    order = np.argsort(-quotients, axis=-1, kind="stable")
    return order[..., :count]


def _with_replacement(engine: Engine, weights: Array, count: int) -> Array:
    """Return the positions where uniform numbers fall among the cumulative sums of weights."""
    sums = np.cumsum(weights, axis=1, dtype=weights.dtype)
    sums /= sums[:, -1:]
    sums[:, -1] = 1
    drawn = engine.doubles(len(sums) * count).reshape(-1, count)
    return np.stack([np.searchsorted(row, u) for row, u in zip(sums, drawn, strict=True)])


# -- counts ----------------------------------------------------------------------------------------


@ROWS.function("function")
def poisson(input: Tensor, generator: object = None) -> Tensor:
    """Return Poisson numbers with the rates that the tensor holds.

    Args:
        input: the rates.
        generator: the generator; by default that of the process.

    Raises:
        RuntimeError: if a rate is negative.
        NotImplementedError: for other than floating numbers.
    """
    tensors_only("poisson", input=input)
    check_kernel(input, "poisson_cpu", "biuc")
    rates = values_of(input)
    engine = engine_of("poisson", generator)
    drawn = poissons(engine, rates.ravel().astype(np.float64)).reshape(rates.shape)
    return apply(_POISSON, (input, wrap(drawn)))


@ROWS.function("function")
def binomial(count: Tensor, prob: Tensor, generator: object = None) -> Tensor:
    """Return numbers of successes.

    Args:
        count: numbers of trials, in a floating dtype.
        prob: probabilities of success, in that dtype; broadcasts with ``count``.
        generator: the generator; by default that of the process.

    Raises:
        ValueError: if the numbers of trials have no floating dtype.
        RuntimeError: if the dtypes differ.
    """
    tensors_only("binomial", count=count, prob=prob)
    trials, chances = values_of(count), values_of(prob)
    if trials.dtype.kind in "biuc":
        raise ValueError(
            f"binomial only supports floating-point dtypes for count, got: {count.dtype.printed}"
        )
    if chances.dtype.kind in "biuc":
        raise ValueError(
            f"binomial only supports floating-point dtypes for prob, got: {prob.dtype.printed}"
        )
    check_broadcast(trials.shape, chances.shape)
    if trials.dtype != chances.dtype:
        raise RuntimeError(f"Found dtype {prob.dtype.printed} but expected {count.dtype.printed}")
    _check_long_floats(count, "binomial_cpu")
    shape = np.broadcast_shapes(trials.shape, chances.shape)
    flat = [np.broadcast_to(x, shape).ravel().astype(np.float64) for x in (trials, chances)]
    drawn = binomials(engine_of("binomial", generator), *flat).reshape(shape)
    return apply(_BINOMIAL, (count, prob, wrap(drawn)))


# -- gamma -----------------------------------------------------------------------------------------


def _gamma_jvp(primals: Values, outputs: Values, tangents: Tangents) -> Any:
    (shape, _), (sample,) = primals, outputs
    assert tangents[0] is not None  # the numbers drawn are constant
    return ew.mul(tangents[0], ew.mul(sample, log_gamma_slope(shape, ew.log(sample))))


gamma_sample_p = Primitive(
    "gamma_sample",
    eval=lambda shape, drawn: drawn.copy(),
    aval=lambda shape, drawn: drawn,
    jvp=_gamma_jvp,
    transpose=absent(
        because="gamma_sample is not linear",
        instead="differentiate with functrace.vjp or functrace.grad",
    ),
    batch=ELEMENTWISE,
)
"""``gamma_sample shape drawn``: the numbers drawn, as a function of the shape parameter; see Note
[Derivative of a sample by its shape] in functrace/ops/gamma_slope.py.
"""

_GAMMA = Op(
    "StandardGammaBackward0",
    lambda shape, drawn: bind(gamma_sample_p, (shape, ew.stop_gradient(drawn)), ()),
    (("result", -1), ("self", 0)),
    edges=(0,),
)


def _check_long_floats(x: Tensor, kernel: str) -> None:
    check_kernel(x, kernel, "biuc")
    if x._array.dtype.itemsize < 4:
        raise NotImplementedError(errors.no_kernel(kernel).format(x.dtype.printed))


@ROWS.function("function")
def _standard_gamma(self: Tensor, generator: object = None) -> Tensor:
    """Return gamma numbers of scale 1, differentiable in the shape parameter.

    Args:
        self: the shape parameters.
        generator: the generator; by default that of the process.

    PyTorch approximates the derivative to about four digits; here it is exact, and has derivatives.
    """
    tensors_only("_standard_gamma", self=self)
    _check_long_floats(self, "gamma_cpu")
    shapes = values_of(self)
    kind = shapes.dtype
    engine = engine_of("_standard_gamma", generator)
    drawn = gammas(engine, shapes.ravel(), float(limits_of(kind).tiny)).reshape(shapes.shape)
    return apply(_GAMMA, (self, wrap(drawn.astype(kind))))


@ROWS.function("function")
def _sample_dirichlet(self: Tensor, generator: object = None) -> Tensor:
    """Return points of a simplex, of Dirichlet's distribution.

    Args:
        self: the concentrations; the last axis is that of the distribution.
        generator: the generator; by default that of the process.
    """
    tensors_only("_sample_dirichlet", self=self)
    _check_long_floats(self, "dirichlet")
    shapes = values_of(self)
    kind = shapes.dtype
    engine = engine_of("_sample_dirichlet", generator)
    drawn = gammas(engine, shapes.ravel().astype(np.float64), 0.0).reshape(shapes.shape)
    limits = limits_of(kind)
    with np.errstate(all="ignore"):
        parts = (drawn / _sums(drawn)).astype(kind)
    most = np.nextafter(kind.type(1), kind.type(0))
    return apply(_DIRICHLET, (self, wrap(np.clip(parts, limits.tiny, most))))


def _sums(x: Array) -> Array:
    """Return the sums along the last axis: those of short rows in PyTorch's order, four by four."""
    count = x.shape[-1] if x.ndim else 1
    if not x.ndim or not 4 < count < 32:
        return x.sum(-1, keepdims=True) if x.ndim else x
    full = count - count % 4
    lanes = x[..., :full].reshape(*x.shape[:-1], -1, 4)
    partial = lanes[..., 0, :].copy()
    for k in range(1, full // 4):
        partial += lanes[..., k, :]
    for k in range(full, count):
        partial[..., 0] += x[..., k]
    total = partial[..., 0]
    for k in range(1, 4):
        total = total + partial[..., k]
    return total[..., None]


@ROWS.function("function")
def _standard_gamma_grad(self: Tensor, output: Tensor) -> Tensor:
    """Return the derivative of gamma numbers by their shape parameter.

    Args:
        self: the shape parameters.
        output: the gamma numbers.
    """
    return apply(_GAMMA_SLOPE, (self, output))


_GAMMA_SLOPE = Op(
    "StandardGammaGradBackward0",
    lambda shape, sample: ew.mul(sample, log_gamma_slope(shape, ew.log(sample))),
    (("self", 0), ("output", 1), ("result", -1)),
)


@ROWS.function("function")
def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """Return the derivative of an element of a point of Dirichlet's distribution by its
    concentration, over one less the element.

    Args:
        x: the elements.
        alpha: their concentrations.
        total: the sums of the concentrations.

    Needs SciPy.
    """
    return apply(_DIRICHLET_SLOPE, (x, alpha, total))


def _dirichlet_slope(x: Any, alpha: Any, total: Any) -> Any:
    from functrace.ops.special.incomplete import by_shapes

    slope = by_shapes((1, 0), alpha, ew.sub(total, alpha), x)
    return ew.div(ew.neg(slope), ew.sub(1.0, x))


_DIRICHLET_SLOPE = without_derivative(
    Op(
        "NotImplemented",
        _dirichlet_slope,
        (("x", 0), ("alpha", 1), ("total", 2), ("result", -1)),
        called="_dirichlet_grad",
    ),
    "_dirichlet_grad",
)
