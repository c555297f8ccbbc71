"""Factories: tensors from a shape, from another tensor's shape, and from random numbers.

All of them take the same options (dtype, device, …): `_factory` adds these to the function that a
row is written as. Random numbers are NumPy's, so a seed gives other numbers than PyTorch's.

Layer: 9.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.numbers import number_of
from functrace.torch.dispatch.promotion import check_fits
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.functions.elementwise import shape_of, tensors_only
from functrace.torch.functions.shaping import sizes
from functrace.torch.random import generator as default_generator
from functrace.torch.tensors.device import CPU, DeviceLike
from functrace.torch.tensors.dtypes import (
    DTYPES,
    DtypeLike,
    default_complex,
    default_float,
    numpy_dtype,
)
from functrace.torch.tensors.formats import check_place, contiguous_format
from functrace.torch.tensors.formats import layout as Layout
from functrace.torch.tensors.orders import laid
from functrace.torch.tensors.tensor import Tensor, fresh, is_expanded
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()


class Options(NamedTuple):
    """The options of one call of a factory."""

    dtype: DtypeLike | None
    memory_format: Any
    generator: Any

    def kind(self) -> np.dtype[Any]:
        """Return the dtype, by default that of new tensors."""
        return default_float() if self.dtype is None else numpy_dtype(self.dtype)

    def kind_like(self, input: Tensor) -> np.dtype[Any]:
        """Return the dtype, by default that of a tensor."""
        return input._array.dtype if self.dtype is None else numpy_dtype(self.dtype)

    def draws(self) -> np.random.Generator:
        """Return the generator of random numbers."""
        return self.generator or default_generator()


Made: TypeAlias = tuple[tuple[Any, ...], Callable[[], Array]]
"""The arguments of the operation, for dispatch modes, and what computes the array."""


def leaf(array: Array, requires_grad: bool) -> Tensor:
    """Return a new leaf.

    Raises:
        RuntimeError: if it requires grad, and is neither floating nor complex.
    """
    if requires_grad and array.dtype.kind not in "fc":
        raise RuntimeError(errors.MADE_WITH_GRAD_DTYPE)
    made = fresh(array)
    return made.requires_grad_() if requires_grad else made


def _factory(form: str, *further: str) -> Callable[[Callable[..., Made]], Callable[..., Tensor]]:
    """Add a row for a factory with the common options. A decorator.

    Args:
        form: ``"function"`` or ``"method"``.
        further: options that only some factories have: ``memory_format``, ``generator``.
    """

    def add(make: Callable[..., Made]) -> Callable[..., Tensor]:
        name = make.__name__

        def factory(
            *args: Any,
            dtype: DtypeLike | None = None,
            device: DeviceLike | None = None,
            layout: Layout | None = None,
            pin_memory: bool | None = None,
            requires_grad: bool = False,
            **own: Any,
        ) -> Tensor:
            check_place(name, device, layout, pin_memory)
            given = {option: own.pop(option, None) for option in further}
            options = Options(dtype, given.get("memory_format"), given.get("generator"))
            operands, compute = make(options, *args, **own)
            if MODES.dispatch is None:
                return leaf(compute(), requires_grad)
            given |= {"dtype": dtype, "layout": layout}
            return _dispatched(factory, operands, given, device, requires_grad)

        factory.__name__ = factory.__qualname__ = name
        factory.__doc__ = make.__doc__
        factory.__signature__ = _signature(make, factory, further)  # type: ignore[attr-defined]
        return ROWS.function(form)(factory)

    return add


def _signature(
    make: Callable[..., Made], factory: Callable[..., Tensor], further: tuple[str, ...]
) -> inspect.Signature:
    """Return the signature of a factory: its own arguments, then the options."""
    own = list(inspect.signature(make).parameters.values())[1:]
    common = list(inspect.signature(factory).parameters.values())[1:-1]
    keyword = inspect.Parameter.KEYWORD_ONLY
    rare = [
        inspect.Parameter(option, keyword, default=None, annotation="Any") for option in further
    ]
    return inspect.Signature([*own, *common, *rare], return_annotation="Tensor")


def _dispatched(
    factory: Callable[..., Tensor],
    operands: tuple[Any, ...],
    given: dict[str, Any],
    device: DeviceLike | None,
    requires_grad: bool,
) -> Any:
    """Forward a factory to the dispatch modes: on the CPU, with ``requires_grad`` set afterwards."""
    order = ("generator", "dtype", "layout", "memory_format")
    options = {option: given[option] for option in order if given.get(option) is not None}
    kwargs: dict[str, Any] = {k: value for k, value in options.items() if k != "memory_format"}
    if "dtype" in kwargs:
        kwargs["dtype"] = DTYPES[numpy_dtype(kwargs["dtype"])]
    if device is not None or not isinstance(operands[0], Tensor):
        kwargs["device"] = CPU
    kwargs["pin_memory"] = False
    if "memory_format" in options:
        kwargs["memory_format"] = options["memory_format"]
    assert MODES.dispatch is not None
    made = MODES.dispatch.make(
        factory.__name__, operands, kwargs, lambda: factory(*operands, **options)
    )
    return made.requires_grad_() if requires_grad else made


def shape_from(name: str, size: Sequence[Any]) -> tuple[int, ...]:
    """Return the sizes passed to a factory.

    Raises:
        TypeError: if they are no integers.
        RuntimeError: if one is negative.
    """
    if not size:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    first = size[0]
    if isinstance(first, bool):
        raise TypeError(errors.must_be(name, "size", 0, "tuple of ints", "bool"))
    if len(size) > 1 and isinstance(first, (tuple, list)):
        raise TypeError(f"{name}() takes 1 positional argument but {len(size)} were given")
    try:
        found = sizes(size)
    except TypeError:
        raise TypeError(
            errors.must_be(name, "size", 0, "tuple of ints", type(first).__name__)
        ) from None
    if any(n < 0 for n in found):
        raise RuntimeError(f"{name}: Dimension size must be non-negative.")
    return found


def dtype_of_kinds(found: set[Any]) -> np.dtype[Any]:
    """Return the dtype of numbers of these types and dtypes: Python floats are weak among floats."""
    kinds = {
        complex: default_complex(),
        float: default_float(),
        int: np.dtype(np.int64),
        bool: np.dtype(np.bool_),
    }
    dtypes = [kinds.get(kind, kind) for kind in found]
    if not dtypes:
        return default_float()
    result = dtypes[0]
    for d in dtypes[1:]:
        high = max(result, d, key=lambda d: "buifc".index(d.kind))
        result = (
            np.promote_types(result, d)
            if result.kind == d.kind or np.float64 in (result, d)
            else high
        )
    return result


# -- from a shape ----------------------------------------------------------------------------------


@_factory("function")
def zeros(options: Options, *size: int | Sequence[int]) -> Made:
    """Return zeros."""
    shape = shape_from("zeros", size)
    return (list(shape),), lambda: np.zeros(shape, options.kind())


@_factory("function")
def ones(options: Options, *size: int | Sequence[int]) -> Made:
    """Return ones."""
    shape = shape_from("ones", size)
    return (list(shape),), lambda: np.ones(shape, options.kind())


@_factory("function", "memory_format")
def empty(options: Options, *size: int | Sequence[int]) -> Made:
    """Return an uninitialized tensor."""
    shape = shape_from("empty", size or ((),))
    return (list(shape),), lambda: np.empty(shape, options.kind())


@_factory("function")
def empty_strided(options: Options, size: Sequence[int], stride: Sequence[int]) -> Made:
    """Return an uninitialized tensor with these strides."""

    def compute() -> Array:
        shape, kind = shape_from("empty_strided", (tuple(size),)), options.kind()
        last = sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
        memory = np.empty(0 if 0 in shape else 1 + last, kind)
        steps = [step * kind.itemsize for step in stride]
        return np.lib.stride_tricks.as_strided(memory, shape, steps)

    return (list(size), list(stride)), compute


@_factory("function")
def full(options: Options, size: Sequence[int], fill_value: Any) -> Made:
    """Return a tensor filled with a number, whose type determines the dtype."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(errors.must_be("full", "size", 0, "tuple of ints", type(size).__name__))
    return (list(size), fill_value), lambda: _filled(
        "full", shape_from("full", (size,)), fill_value, options.dtype
    )


@_factory("function")
def scalar_tensor(options: Options, s: complex) -> Made:
    """Return a 0-d tensor of a number."""
    return (s,), lambda: _filled("full", (), s, options.kind())


def _filled(name: str, shape: tuple[int, ...], value: Any, dtype: DtypeLike | None) -> Any:
    number = number_of(
        value.item() if isinstance(value, Tensor) and value._array.ndim == 0 else value
    )
    if type(number) not in (bool, int, float, complex):
        raise TypeError(errors.must_be(name, "fill_value", 1, "Number", type(value).__name__))
    wanted = dtype_of_kinds({type(number)}) if dtype is None else numpy_dtype(dtype)
    check_fits(number, wanted)
    return np.full(
        shape, np.asarray(number if wanted.kind in "cb" else number.real).astype(wanted), wanted
    )


@_factory("function")
def eye(options: Options, n: int, m: int | None = None) -> Made:
    """Return ones on the diagonal."""

    def compute() -> Array:
        for name, size in (("n", n), ("m", m)):
            if size is not None and size < 0:
                raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
        return np.eye(n, m, dtype=options.kind())

    return (n,) if m is None else (n, m), compute


@_factory("function")
def arange(options: Options, start: Any = None, end: Any = None, step: Any = 1) -> Made:
    """Return equally spaced numbers, without the end: ``arange(end)``, ``arange(start, end,
    step)``.
    """
    bounds = (0, start, step) if end is None else (0 if start is None else start, end, step)
    plain = [number_of(x.item() if isinstance(x, Tensor) else x) for x in bounds]
    for value in plain:
        if type(value) not in (bool, int, float):
            raise TypeError(errors.must_be("arange", "end", 0, "Number", type(value).__name__))
    low, high, by = plain

    def compute() -> Array:
        if by == 0:
            raise RuntimeError(errors.ARANGE_STEP)
        if (high - low) * by < 0:
            raise RuntimeError(errors.ARANGE_SIGN)
        array = np.arange(low, high, by)
        wanted = default_float() if array.dtype.kind == "f" else np.dtype(np.int64)
        return array.astype(wanted if options.dtype is None else options.kind())

    if end is None:
        return (high,), compute
    return (low, high) if by == 1 and type(by) is int else (low, high, by), compute


@_factory("function")
def linspace(options: Options, start: float, end: float, steps: int) -> Made:
    """Return ``steps`` equally spaced numbers, with both ends."""

    def compute() -> Array:
        if steps < 0:
            raise RuntimeError("number of steps must be non-negative")
        return np.linspace(number_of(start), number_of(end), steps).astype(options.kind())

    return (start, end, steps), compute


@_factory("function")
def logspace(options: Options, start: float, end: float, steps: int, base: float = 10.0) -> Made:
    """Return ``steps`` powers of ``base``, with equally spaced exponents."""
    return (start, end, steps), lambda: np.logspace(start, end, steps, base=base).astype(
        options.kind()
    )


# -- like another tensor ---------------------------------------------------------------------------


def _filled_like(input: Tensor, value: Any, dtype: np.dtype[Any], memory_format: Any) -> Array:
    """Return an array filled with a number, in the memory layout of a tensor unless the format is
    contiguous.
    """
    array = input._array
    if isinstance(array, Tracer) or memory_format is contiguous_format:
        return np.full(array.shape, value, dtype)
    if is_expanded(array):
        return laid(np.full(array.shape, value, dtype), [array])
    return np.full_like(array, value, dtype)


def _in_layout_of(input: Tensor, made: Array, memory_format: Any) -> Array:
    """Return a new array in the memory layout of a tensor."""
    array = input._array
    if isinstance(array, np.ndarray) and memory_format is not contiguous_format:
        return laid(made, [array])
    return made


@_factory("function", "memory_format")
def zeros_like(options: Options, input: Tensor) -> Made:
    """Return zeros of a tensor's shape and dtype."""
    tensors_only("zeros_like", input=input)
    kind = options.kind_like(input)
    return (input,), lambda: _filled_like(input, 0, kind, options.memory_format)


@_factory("function", "memory_format")
def ones_like(options: Options, input: Tensor) -> Made:
    """Return ones of a tensor's shape and dtype."""
    tensors_only("ones_like", input=input)
    kind = options.kind_like(input)
    return (input,), lambda: _filled_like(input, 1, kind, options.memory_format)


@_factory("function", "memory_format")
def empty_like(options: Options, input: Tensor) -> Made:
    """Return an uninitialized tensor of another one's shape and dtype."""
    tensors_only("empty_like", input=input)
    kind = options.kind_like(input)
    return (input,), lambda: _filled_like(input, 0, kind, options.memory_format)


@_factory("function", "memory_format")
def full_like(options: Options, input: Tensor, fill_value: Any) -> Made:
    """Return a tensor of another one's shape and dtype, filled with a number."""
    tensors_only("full_like", input=input)
    kind = options.kind_like(input)

    def compute() -> Array:
        value = _filled("full_like", (), fill_value, kind)
        return _filled_like(input, value, kind, options.memory_format)

    return (input, fill_value), compute


@_factory("method")
def new_zeros(options: Options, self: Tensor, *size: int | Sequence[int]) -> Made:
    """Return zeros of this dtype."""
    shape = shape_from("new_zeros", size)
    return (self, list(shape)), lambda: np.zeros(shape, options.kind_like(self))


@_factory("method")
def new_ones(options: Options, self: Tensor, *size: int | Sequence[int]) -> Made:
    """Return ones of this dtype."""
    shape = shape_from("new_ones", size)
    return (self, list(shape)), lambda: np.ones(shape, options.kind_like(self))


@_factory("method")
def new_empty(options: Options, self: Tensor, *size: int | Sequence[int]) -> Made:
    """Return an uninitialized tensor of this dtype."""
    shape = shape_from("new_empty", size)
    return (self, list(shape)), lambda: np.empty(shape, options.kind_like(self))


@_factory("method")
def new_full(options: Options, self: Tensor, size: Sequence[int], fill_value: Any) -> Made:
    """Return a tensor of this dtype, filled with a number."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(errors.must_be("full", "size", 0, "tuple of ints", type(size).__name__))
    return (self, list(size), fill_value), lambda: _filled(
        "full", shape_from("full", (size,)), fill_value, options.kind_like(self)
    )


# -- random numbers --------------------------------------------------------------------------------


def _of_floats(kernel: str, dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind not in "fc":
        raise NotImplementedError(errors.no_kernel(kernel).format(DTYPES[dtype].printed))
    return dtype


def _drawn(draw: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "c":
        return (draw(shape) + 1j * draw(shape)).astype(dtype)
    return np.asarray(draw(shape)).astype(dtype)


def _uniform(draws: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return _drawn(draws.random, shape, _of_floats("check_uniform_bounds", dtype))


def _normal(draws: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    array = _drawn(draws.standard_normal, shape, _of_floats("normal_kernel_cpu", dtype))
    return array / dtype.type(np.sqrt(2)) if dtype.kind == "c" else array


def _integers(
    draws: np.random.Generator, low: int, high: int, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    if low >= high:
        raise RuntimeError(
            f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )
    return draws.integers(low, high, shape).astype(dtype)


@_factory("function", "generator")
def rand(options: Options, *size: int | Sequence[int]) -> Made:
    """Return uniform random numbers in [0, 1)."""
    shape = shape_from("rand", size)
    return (list(shape),), lambda: _uniform(options.draws(), shape, options.kind())


@_factory("function", "generator")
def randn(options: Options, *size: int | Sequence[int]) -> Made:
    """Return standard normal random numbers."""
    shape = shape_from("randn", size)
    return (list(shape),), lambda: _normal(options.draws(), shape, options.kind())


@_factory("function", "generator")
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
    if len(bounds) == 2:
        low, high = bounds
    elif bounds:
        high = bounds[0]
    assert high is not None, "randint() needs a bound"
    first, last, shape = low, high, size

    def compute() -> Array:
        kind = np.dtype(np.int64) if options.dtype is None else options.kind()
        return _integers(options.draws(), first, last, shape_from("randint", (shape,)), kind)

    if low == 0 and len(bounds) < 2:
        return (high, list(size)), compute
    return (low, high, list(size)), compute


@_factory("function", "generator")
def randperm(options: Options, n: int) -> Made:
    """Return the integers below ``n`` in random order."""
    shape_from("randperm", (n,))
    kind = np.dtype(np.int64) if options.dtype is None else options.kind()
    return (n,), lambda: options.draws().permutation(n).astype(kind)


@_factory("function", "memory_format")
def randn_like(options: Options, input: Tensor) -> Made:
    """Return standard normal random numbers in a tensor's shape and dtype."""
    tensors_only("randn_like", input=input)
    kind = options.kind_like(input)
    return (input,), lambda: _in_layout_of(
        input, _normal(options.draws(), shape_of(input), kind), options.memory_format
    )


@_factory("function", "memory_format")
def rand_like(options: Options, input: Tensor) -> Made:
    """Return uniform random numbers in [0, 1), in a tensor's shape and dtype."""
    tensors_only("rand_like", input=input)
    kind = options.kind_like(input)
    return (input,), lambda: _in_layout_of(
        input, _uniform(options.draws(), shape_of(input), kind), options.memory_format
    )


@_factory("function", "memory_format")
def randint_like(options: Options, input: Tensor, *bounds: int) -> Made:
    """Return random integers in a tensor's shape and dtype: ``randint_like(x, high)``,
    ``randint_like(x, low, high)``.
    """
    tensors_only("randint_like", input=input)
    kind = options.kind_like(input)
    low, high = bounds if len(bounds) == 2 else (0, *bounds)
    return (input, *bounds), lambda: _integers(options.draws(), low, high, shape_of(input), kind)
