"""Factories of random tensors: ``rand``, ``randn``, ``randint``, ``randperm`` and the like.

Layer: 9.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions.elementwise import shape_of, tensors_only
from functrace.torch.functions.factories import (
    Made,
    Options,
    add_factory,
    in_layout_of,
    shape_from,
)
from functrace.torch.random.bounds import digits_of, integer_bounds
from functrace.torch.random.generator import engine_of, for_each_example
from functrace.torch.random.numbers import integers, normals, permutation, placed, uniforms
from functrace.torch.tensors.dtypes import DTYPES
from functrace.torch.tensors.tensor import Operand
from functrace.typing import Array

ROWS = FunctionTable()


def _of_floats(kernel: str, kind: np.dtype[Any]) -> np.dtype[Any]:
    if kind.kind in "biu":
        raise NotImplementedError(errors.no_kernel(kernel).format(DTYPES[kind].printed))
    return kind


def _layout(options: Options, shape: tuple[int, ...]) -> Array:
    """Return an array whose memory order the result has: that of ``out``, if it fits."""
    if options.out is not None and options.out._array.shape == shape:
        return options.out._array
    make = lambda: np.empty(shape, np.int8)  # noqa: E731
    return make() if MODES.step is None else MODES.step("aten::empty", make)


def _layout_like(options: Options, input: Operand) -> Array:
    return in_layout_of(input, np.empty(shape_of(input), np.int8), options.memory_format)


def _drawn(name: str, like: Array, draw: Callable[[int], Array]) -> Any:
    """Return numbers in the shape and memory order of an array; with an event in a profile."""
    step = MODES.step
    if step is not None:
        MODES.step = None
        try:
            return step(name, lambda: _drawn(name, like, draw))
        finally:
            MODES.step = step
    if not MODES.examples:
        return placed(draw(like.size), like)
    return for_each_example(like.shape, lambda shape: draw(math.prod(shape)).reshape(shape))


def _uniform(name: str, options: Options, kind: np.dtype[Any], like: Array) -> Array:
    engine = engine_of(name, options.generator, each=True)
    kind = _of_floats("check_uniform_bounds", kind)
    return _drawn("aten::uniform_", like, lambda count: uniforms(engine, count, kind))


def _normal(name: str, options: Options, kind: np.dtype[Any], like: Array) -> Array:
    engine = engine_of(name, options.generator, each=True)
    if not like.size:
        return np.empty(like.shape, kind)
    kind = _of_floats("normal_kernel_cpu", kind)
    is_contiguous = like.flags.c_contiguous
    return _drawn(
        "aten::normal_",
        like,
        lambda count: normals(engine, count, kind, is_contiguous=is_contiguous),
    )


def _integers(
    name: str, options: Options, low: int, high: int, kind: np.dtype[Any], like: Array
) -> Array:
    low, high = integer_bounds(low, high, kind)
    engine = engine_of(name, options.generator, each=True)
    return _drawn(
        "aten::random_", like, lambda count: integers(engine, count, low, high - low, kind)
    )


def _limits(name: str, bounds: Sequence[Any], low: object, high: object) -> tuple[int, int]:
    """Return the bounds of random integers: ``(high)``, ``(low, high)``, or by name.

    Raises:
        TypeError: if there are more or fewer, or one is no integer.
        ValueError: if one is too large.
    """
    given: list[Any] = [*bounds, *([] if high is None else [high])]
    if len(given) == 1 and isinstance(given[0], (float, bool)) and name == "randint":
        raise TypeError(errors.must_be(name, "high", 0, "int", type(given[0]).__name__))
    if len(given) == 1:
        given.insert(0, low)
    if len(given) != 2 or any(isinstance(x, (float, bool)) for x in given):
        raise TypeError(errors.invalid_combination(name, [*bounds]))
    first, last = map(operator.index, given)
    if not -(2**63) <= first < 2**63 or not -(2**63) <= last < 2**63:
        raise ValueError("Overflow when unpacking long long")
    return first, last


@add_factory("function", "generator", "out", table=ROWS)
def rand(options: Options, *sizes: int | Sequence[int], size: Sequence[int] | None = None) -> Made:
    """Return uniform random numbers in [0, 1)."""
    shape = shape_from("rand", sizes, size)
    return (list(shape),), lambda: _uniform(
        "rand", options, options.kind(), _layout(options, shape)
    )


@add_factory("function", "generator", "out", table=ROWS)
def randn(options: Options, *sizes: int | Sequence[int], size: Sequence[int] | None = None) -> Made:
    """Return standard normal random numbers."""
    shape = shape_from("randn", sizes, size)
    return (list(shape),), lambda: _normal(
        "randn", options, options.kind(), _layout(options, shape)
    )


@add_factory("function", "generator", "out", table=ROWS)
def randint(
    options: Options,
    *bounds_and_size: Any,
    low: int = 0,
    high: int | None = None,
    size: Sequence[int] | None = None,
) -> Made:
    """Return random integers: ``randint(high, size)`` or ``randint(low, high, size)``."""
    bounds = list(bounds_and_size)
    if size is None:
        size = bounds.pop() if bounds else None
    if not isinstance(size, (tuple, list)):
        raise TypeError(errors.must_be("randint", "size", 1, "tuple of ints", type(size).__name__))
    first, last = _limits("randint", bounds, low, high)
    shape = size

    def compute() -> Array:
        kind = options.kind_or(np.dtype(np.int64))
        like = _layout(options, shape_from("randint", (shape,)))
        return _integers("randint", options, first, last, kind, like)

    if first == 0 and len(bounds) < 2:
        return (last, list(size)), compute
    return (first, last, list(size)), compute


@add_factory("function", "generator", "out", table=ROWS)
def randperm(options: Options, n: int) -> Made:
    """Return the integers below ``n`` in random order."""
    if isinstance(n, (bool, float)):
        raise TypeError(errors.must_be("randperm", "n", 0, "int", type(n).__name__))
    (count,) = shape_from("randperm", (n,))

    def compute() -> Array:
        kind = options.kind_or(np.dtype(np.int64))
        _check_permutation(count, kind)
        engine = engine_of("randperm", options.generator, each=True)

        def draw(shape: tuple[int, ...]) -> Array:
            rows = [permutation(engine, count) for _ in range(math.prod(shape[:-1]))]
            return np.reshape(rows, shape).astype(kind, copy=False)

        return for_each_example((count,), draw)

    return (n,), compute


def _check_permutation(count: int, kind: np.dtype[Any]) -> None:
    """Refuse dtypes that do not hold the integers below a number.

    Raises:
        NotImplementedError: for booleans and complex numbers.
        RuntimeError: for others.
    """
    if kind.kind in "bc":
        raise NotImplementedError(errors.no_kernel("randperm").format(DTYPES[kind].printed))
    if kind.kind in "iu":
        if count and count - 1 > np.iinfo(kind).max:
            raise RuntimeError(f"value cannot be converted to type {kind}_t without overflow")
        return
    most = 1 << digits_of(kind)
    if count > most + 1:
        shown = most + 1 if kind.itemsize == 2 else f"2^{most.bit_length() - 1}+1"
        raise RuntimeError(f"n cannot be greater than {shown} for {DTYPES[kind].printed} type.")


@add_factory("function", "memory_format", "generator", table=ROWS)
def randn_like(options: Options, input: Operand) -> Made:
    """Return standard normal random numbers in a tensor's shape and dtype."""
    tensors_only("randn_like", input=input)
    kind = options.kind_like(input)
    return (input,), lambda: _normal("randn_like", options, kind, _layout_like(options, input))


@add_factory("function", "memory_format", "generator", table=ROWS)
def rand_like(options: Options, input: Operand) -> Made:
    """Return uniform random numbers in [0, 1), in a tensor's shape and dtype."""
    tensors_only("rand_like", input=input)
    kind = options.kind_like(input)
    return (input,), lambda: _uniform("rand_like", options, kind, _layout_like(options, input))


@add_factory("function", "memory_format", "generator", table=ROWS)
def randint_like(
    options: Options, input: Operand, *bounds: object, low: int = 0, high: int | None = None
) -> Made:
    """Return random integers in a tensor's shape and dtype: ``randint_like(x, high)``,
    ``randint_like(x, low, high)``.
    """
    tensors_only("randint_like", input=input)
    kind = options.kind_like(input)
    first, last = _limits("randint_like", bounds, low, high)
    shown = (first, last) if first or len(bounds) == 2 else (last,)
    return (input, *shown), lambda: _integers(
        "randint_like", options, first, last, kind, _layout_like(options, input)
    )
