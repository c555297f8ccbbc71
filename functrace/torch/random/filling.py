"""Tensors filled with random numbers in place: ``uniform_``, ``normal_``, ``bernoulli_`` and the
like.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.applying import Op
from functrace.torch.dispatch.numbers import number_of
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.random import numbers
from functrace.torch.random.bounds import check_uniform, digits_of, integer_bounds, inwards
from functrace.torch.random.engine import Engine
from functrace.torch.random.generator import engine_of, for_each_example
from functrace.torch.tensors.tensor import Tensor, wrap
from functrace.torch.tensors.views import write
from functrace.tracing import Tracer
from functrace.tracing.values import concrete_value, stages
from functrace.typing import Array

ROWS = FunctionTable()


def _op(node: str) -> Op:
    return Op(node, lambda x, drawn, *shown: ew.stop_gradient(drawn), edges=(0,))


_FILLS = {
    name: _op(f"{name}Backward0")
    for name in ("Uniform", "Normal", "Exponential", "Geometric", "Cauchy", "LogNormal")
}
_RANDOM = tuple([_op(f"RandomBackward{k}") for k in (2, 1, 0)])
"""By the number of bounds."""
_BERNOULLI = _op("BernoulliBackward2")
_BERNOULLI_EACH = Op(
    "BernoulliBackward1", lambda x, p, drawn: ew.stop_gradient(drawn), edges=(0, 1)
)


def memory_of(x: Tensor) -> Array:
    """Return the array of a tensor, or for a traced one an array of its shape."""
    array = x._array
    return array if isinstance(array, np.ndarray) else np.empty(array.shape, np.int8)


def values_of(x: Tensor) -> Array:
    """Return the values of a tensor of parameters; of a traced one, those it has now.

    Raises:
        RuntimeError: for a tensor that ``vmap`` maps over.
        ConcretizationError: for another one without values.
    """
    value = x._array
    while isinstance(value, Tracer):
        found = concrete_value(value)
        if found is None:
            if (stages() or "").startswith("vmap"):
                different = bool(MODES.examples)
                raise RuntimeError(
                    errors.DIFFERENT_IN_VMAP if different else errors.SAME_OF_BATCHED
                )
            return np.asarray(value)  # refused, with the way out
        value = found
    return np.asarray(value)


def number(name: str, argument: str, position: int, value: object) -> float:
    """Return an argument that is a number, or a tensor that holds one.

    Raises:
        TypeError: for anything else.
    """
    found = number_of(value)
    if isinstance(found, Tensor) and not found._array.ndim:
        found = found.item()
    if not isinstance(found, (int, float)):
        wanted = errors.must_be(name, argument, position, "float", errors.kind_of(value))
        raise TypeError(wanted)
    return float(found)


def _fill(
    name: str,
    op: Op,
    generator: object,
    draw: Callable[[Engine, int, np.dtype[Any]], Array],
    self: Tensor,
    *shown: object,
) -> Tensor:
    engine, kind = engine_of(name, generator, each=True), self._array.dtype
    if MODES.examples:
        found = for_each_example(
            self._array.shape,
            lambda shape: numbers.narrowed(draw(engine, math.prod(shape), kind), kind).reshape(
                shape
            ),
        )
        return write(op, (self, wrap(found)), shown)
    like = memory_of(self)
    drawn = numbers.narrowed(draw(engine, like.size, kind), kind)
    return write(op, (self, wrap(numbers.placed(drawn, like))), shown)


def _from(name: str, given: float, named: Mapping[str, Any]) -> Any:
    """Return the argument that PyTorch calls ``from``, which is no name in Python.

    Raises:
        TypeError: for other names.
    """
    for other in named:
        if other != "from":
            raise TypeError(f"{name}() got an unexpected keyword argument '{other}'")
    return named.get("from", given)


def check_kernel(x: Tensor, kernel: str, kinds: str) -> None:
    """Check that PyTorch's kernel accepts the dtype of a tensor.

    Args:
        x: the tensor.
        kernel: name of the kernel.
        kinds: NumPy's kinds of dtypes that it refuses.

    Raises:
        NotImplementedError: if it does not.
    """
    if x._array.dtype.kind in kinds:
        raise NotImplementedError(errors.no_kernel(kernel).format(x.dtype.printed))


def _check_continuous(self: Tensor, name: str, printed: str) -> None:
    if self._array.dtype.kind in "biuc":
        raise RuntimeError(
            f"{name} distribution is a continuous probability distribution. dtype must be a "
            f"floating point but you specified {printed}"
        )


@ROWS.function("method")
def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: object = None, **named: float
) -> Tensor:
    """Overwrite with numbers uniform in ``[from, to)``."""
    low = number("uniform_", "from", 0, _from("uniform_", from_, named))
    high = number("uniform_", "to", 1, to)
    check_kernel(self, "check_uniform_bounds", "biu")
    check_uniform(low, high, self._array.dtype)
    draw = lambda engine, count, kind: numbers.uniforms(engine, count, kind, low, high)  # noqa: E731
    return _fill("uniform_", _FILLS["Uniform"], generator, draw, self, low, high)


@ROWS.function("method")
def normal_(
    self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: object = None
) -> Tensor:
    """Overwrite with normal numbers."""
    center, scale = number("normal_", "mean", 0, mean), number("normal_", "std", 1, std)
    if scale < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {scale:g}")
    if memory_of(self).size:
        check_kernel(self, "normal_kernel_cpu", "biu")
    is_contiguous = memory_of(self).flags.c_contiguous
    draw = lambda engine, count, kind: numbers.normals(  # noqa: E731
        engine, count, kind, center, scale, is_contiguous=is_contiguous
    )
    return _fill("normal_", _FILLS["Normal"], generator, draw, self, center, scale)


@ROWS.function("method")
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: object = None) -> Tensor:
    """Overwrite with exponentially distributed numbers."""
    rate = number("exponential_", "lambd", 0, lambd)
    if not rate > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    if memory_of(self).size:
        _check_continuous(self, "Exponential", self.dtype.printed)
    draw = lambda engine, count, kind: numbers.exponentials(engine, count, kind, rate)  # noqa: E731
    return _fill("exponential_", _FILLS["Exponential"], generator, draw, self, rate)


@ROWS.function("method")
def geometric_(self: Tensor, p: float, *, generator: object = None) -> Tensor:
    """Overwrite with numbers of trials up to the first success."""
    chance = number("geometric_", "p", 0, p)
    if not 0 < chance < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={chance:g}")
    if memory_of(self).size:
        check_kernel(self, "geometric_cpu", "bc")

    def draw(engine: Engine, count: int, kind: np.dtype[Any]) -> Array:
        drawn = numbers.geometrics(engine, count, chance)
        return drawn.astype(np.int64) if kind.kind in "iu" else drawn

    return _fill("geometric_", _FILLS["Geometric"], generator, draw, self, chance)


@ROWS.function("method")
def cauchy_(
    self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: object = None
) -> Tensor:
    """Overwrite with numbers of Cauchy's distribution."""
    center, width = number("cauchy_", "median", 0, median), number("cauchy_", "sigma", 1, sigma)
    if not width > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={width:g}")
    _check_continuous(self, "Cauchy", errors.name_in_c(self._array.dtype))
    draw = lambda engine, count, kind: numbers.cauchys(engine, count, center, width)  # noqa: E731
    return _fill("cauchy_", _FILLS["Cauchy"], generator, draw, self, center, width)


@ROWS.function("method")
def log_normal_(
    self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: object = None
) -> Tensor:
    """Overwrite with exponentials of normal numbers."""
    center, scale = number("log_normal_", "mean", 0, mean), number("log_normal_", "std", 1, std)
    if not scale > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={scale:g}")
    if memory_of(self).size:
        check_kernel(self, "log_normal_cpu", "biuc")
    draw = lambda engine, count, kind: numbers.log_normals(engine, count, center, scale)  # noqa: E731
    return _fill("log_normal_", _FILLS["LogNormal"], generator, draw, self, center, scale)


@ROWS.function("method")
def random_(
    self: Tensor, *bounds: int | None, generator: object = None, **named: int | None
) -> Tensor:
    """Overwrite with integers: below a bound, ``random_(to)``, or between two, ``random_(from,
    to)``; ``random_(from, None)`` goes up to the greatest that the dtype holds.
    """
    given: list[Any] = [*bounds]
    if "from" in named:
        given = [named["from"], *bounds, *([named["to"]] if "to" in named else [])]
        given += [None] * (len(given) == 1)
    elif "to" in named:
        given.append(named["to"])
    if len(given) > 2:
        raise TypeError(f"random_() takes 2 positional arguments but {len(given)} were given")
    is_open = len(given) == 2 and given[1] is None
    if named.keys() - {"from", "to"} or any(
        isinstance(x, bool) or not isinstance(x, (int, np.integer)) for x in given[: 2 - is_open]
    ):
        raise TypeError(errors.invalid_combination("random_", given))
    kind = self._array.dtype
    if not given:
        check_kernel(self, "random_kernel_cpu", "c")
        draw: Any = lambda engine, count, kind: numbers.all_integers(  # noqa: E731
            engine, count, kind, digits_of(kind)
        )
        return _fill("random_", _RANDOM[0], generator, draw, self)
    low, high = given if len(given) == 2 else (0, given[0])
    first, span = _span(int(low), None if is_open else int(high), kind)
    draw = lambda engine, count, kind: numbers.integers(engine, count, first, span, kind)  # noqa: E731
    return _fill("random_", _RANDOM[len(given)], generator, draw, self, *given)


def _span(low: int, high: int | None, kind: np.dtype[Any]) -> tuple[int, int]:
    """Return the least integer, and how many there are below another one, or up to the greatest
    that the dtype holds.

    Raises:
        RuntimeError: if there are none, or the dtype does not hold them.
    """
    if high is None:
        if kind.kind == "c":
            raise RuntimeError(
                "random_from_to_impl handles only integral, floating-point and boolean types"
            )
        digits = digits_of(kind)
        greatest = (1 << digits) - (kind.kind in "biu")
        if kind.kind not in "biu" and (first := inwards(low, 1, kind)) > greatest:
            raise RuntimeError(
                "random_ expects 'from' casted to dtype to be less than or equal to 'to_inc' casted "
                f"to dtype, but got from={first} > to_inc={greatest}"
            )
        low, _ = integer_bounds(low, max(greatest, low) + (kind.kind in "biu"), kind)
        return low, greatest - low + 1
    low, high = integer_bounds(low, high, kind)
    return low, high - low


@ROWS.function("method")
def bernoulli_(self: Tensor, p: object = 0.5, *, generator: object = None) -> Tensor:
    """Overwrite with ones, with a probability (or with those of a tensor), and zeros."""
    if isinstance(p, Tensor):
        check_kernel(self, "bernoulli_tensor_cpu_self_", "c")
        shape = self._array.shape
        try:
            chances = np.broadcast_to(values_of(p), shape)
        except ValueError:
            chances = p.expand(shape)._array  # refused, with PyTorch's message
        check_chances(p)
        engine, like = engine_of("bernoulli_", generator), memory_of(self)
        drawn = trials_in_order(engine, chances, like).astype(self._array.dtype)
        if isinstance(p._array, Tracer):  # no derivative depends on it
            return write(_BERNOULLI, (self, wrap(drawn)))
        return write(_BERNOULLI_EACH, (self, p, wrap(drawn)))
    if not isinstance(p, (int, float, np.integer, np.floating)):
        raise TypeError(errors.invalid_combination("bernoulli_", [p]))
    check_chance(float(p))
    check_kernel(self, "bernoulli_scalar_cpu_", "c")
    draw = lambda engine, count, kind: numbers.trials(engine, count, float(p))  # noqa: E731
    return _fill("bernoulli_", _BERNOULLI, generator, draw, self, p)


def check_chance(p: float) -> None:
    """Check a probability.

    Raises:
        RuntimeError: if it is not in [0, 1].
    """
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")


def check_chances(p: Tensor) -> None:
    """Check probabilities.

    Raises:
        NotImplementedError: if they are no floating numbers.
        RuntimeError: if one is not in [0, 1].
    """
    chances = values_of(p)
    if chances.dtype.kind in "biuc":
        raise NotImplementedError(
            errors.no_kernel("bernoulli_tensor_cpu_p_").format(p.dtype.printed)
        )
    if not np.all((chances >= 0) & (chances <= 1)):
        raise RuntimeError(errors.PROBABILITY)


def trials_in_order(engine: Engine, chances: Array, like: Array) -> Array:
    """Return True with the probabilities of an array, drawn in the memory order of another one."""
    if like.flags.c_contiguous:
        return numbers.trials_each(engine, chances.ravel()).reshape(chances.shape)
    order = numbers.memory_order(like)
    turned = chances.transpose(order)
    drawn = numbers.trials_each(engine, turned.ravel()).reshape(turned.shape)
    return drawn.transpose(np.argsort(order))


def kept(name: str, x: Tensor, chance: float, generator: object = None) -> Array:
    """Return the elements that dropout keeps: those that ``bernoulli_(chance)`` sets to one.

    Args:
        name: name of the function, for messages.
        x: the tensor that is dropped out.
        chance: probability of keeping an element; PyTorch's ``dropout(x, p)`` draws nothing for
            ``p`` of 0 or 1, and otherwise returns ``x * (kept / (1 - p))``.
        generator: the generator; by default that of the process.

    Returns:
        booleans in the shape of the tensor, drawn in its memory order.

    Raises:
        RuntimeError: inside ``torch.func.vmap``, unless ``randomness="same"``.
    """
    like = memory_of(x)
    engine = engine_of(name, generator)
    return numbers.placed(numbers.trials(engine, like.size, chance), like)
