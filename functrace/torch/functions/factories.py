"""Factories: tensors from a shape, or from another tensor's shape.

All of them take the same options (dtype, device, …): `add_factory` adds these to the function that
a row is written as. Those of random numbers are in `functrace.torch.random.factories`.

Layer: 9.
"""

from __future__ import annotations

import inspect
import itertools
import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch.numbers import number_of
from functrace.torch.dispatch.promotion import check_fits
from functrace.torch.dispatch.results import put_out
from functrace.torch.dispatch.rows import FunctionTable
from functrace.torch.dispatch.signatures import LateSignature, parameter_names
from functrace.torch.errors.warnings import warn_once
from functrace.torch.functions.elementwise import dtype_of, shape_of, tensors_only
from functrace.torch.functions.shaping import sizes as sizes_of
from functrace.torch.random.fused import multiply_add
from functrace.torch.random.generator import Generator
from functrace.torch.tensors.device import CPU, DeviceLike
from functrace.torch.tensors.dtypes import (
    DTYPES,
    DtypeLike,
    default_complex,
    default_float,
    is_half,
    numpy_dtype,
)
from functrace.torch.tensors.formats import (
    channels_last,
    check_place,
    contiguous_format,
    preserve_format,
)
from functrace.torch.tensors.formats import layout as Layout
from functrace.torch.tensors.formats import memory_format as MemoryFormat
from functrace.torch.tensors.orders import laid, ordered
from functrace.torch.tensors.tensor import Operand, Tensor, fresh, is_expanded
from functrace.typing import Array

ROWS = FunctionTable()


class Options(NamedTuple):
    """The options of one call of a factory."""

    dtype: DtypeLike | None
    memory_format: Any
    generator: Any
    out: Tensor | None = None

    def kind(self) -> np.dtype[Any]:
        """Return the dtype, by default that of ``out`` or of new tensors."""
        return self.kind_or(default_float())

    def kind_or(self, default: np.dtype[Any]) -> np.dtype[Any]:
        """Return the dtype, by default that of ``out`` or the given one.

        Raises:
            RuntimeError: if ``out`` has another one.
        """
        if self.out is None:
            return default if self.dtype is None else numpy_dtype(self.dtype)
        found = self.out._array.dtype
        if self.dtype is not None and (wanted := numpy_dtype(self.dtype)) != found:
            raise RuntimeError(
                errors.other_out_dtype(DTYPES[wanted].printed, DTYPES[found].printed)
            )
        return found

    def kind_like(self, input: Operand) -> np.dtype[Any]:
        """Return the dtype, by default that of a tensor."""
        return dtype_of(input) if self.dtype is None else numpy_dtype(self.dtype)


Made: TypeAlias = tuple[tuple[Any, ...], Callable[[], Array]]
"""The arguments of the operation, for dispatch modes, and what computes the array."""


def leaf(array: Array, requires_grad: bool) -> Tensor:
    """Return a new leaf.

    Raises:
        RuntimeError: if it requires grad, and is neither floating nor complex.
    """
    if requires_grad and array.dtype.kind not in "fcV":
        raise RuntimeError(errors.MADE_WITH_GRAD_DTYPE)
    made = fresh(array)
    return made.requires_grad_() if requires_grad else made


def add_factory(
    form: str, *further: str, table: FunctionTable = ROWS, called: str = ""
) -> Callable[[Callable[..., Made]], Callable[..., Tensor]]:
    """Add a row for a factory with the common options. A decorator.

    Args:
        form: ``"function"`` or ``"method"``.
        further: options that only some factories have: ``memory_format``, ``generator``, ``out``.
        table: the table of rows.
        called: PyTorch's name of the operation, if it is not the factory's.
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
            out = given.pop("out", None)
            _check_types(name, {"requires_grad": requires_grad, **given})
            options = Options(dtype, given.get("memory_format"), given.get("generator"), out)
            operands, compute = make(options, *args, **own)
            if out is not None:
                made = put_out(out, name, (), lambda: fresh(compute()))
                return made.requires_grad_() if requires_grad else made
            if MODES.dispatch is None:
                made = leaf(compute(), requires_grad is True)
                if 0 in made._array.shape and "memory_format" in given:
                    keep_strides(made, operands[0], options.memory_format)
                return made
            given |= {"dtype": dtype, "layout": layout}
            return _dispatched(factory, operands, given, device, requires_grad, called)

        factory.__name__ = factory.__qualname__ = name
        factory.__doc__ = make.__doc__
        factory.__signature__ = LateSignature(  # type: ignore[attr-defined]
            (*parameter_names(make)[1:], *_COMMON, *further), lambda: _signature(make, further)
        )
        return table.function(form)(factory)

    return add


_TYPES: dict[str, tuple[type[Any], str]] = {
    "requires_grad": (bool, "bool"),
    "memory_format": (MemoryFormat, "torch.memory_format"),
    "generator": (Generator, "torch.Generator"),
}
"""Types of options, and PyTorch's names for them."""


def _check_types(name: str, options: dict[str, Any]) -> None:
    """Check the types of options that are given.

    Raises:
        TypeError: if one has another type.
    """
    for option, value in options.items():
        kind, printed = _TYPES[option]
        if value is not None and not isinstance(value, kind):
            raise TypeError(errors.must_be_named(name, option, printed, errors.kind_of(value)))


def _common(
    *,
    dtype: DtypeLike | None = None,
    device: DeviceLike | None = None,
    layout: Layout | None = None,
    pin_memory: bool | None = None,
    requires_grad: bool = False,
) -> None:
    """Take the options of every factory, in `_signature`."""


_COMMON = parameter_names(_common)


def _signature(make: Callable[..., Made], further: tuple[str, ...]) -> inspect.Signature:
    """Return the signature of a factory: its own arguments, then the options."""
    own = list(inspect.signature(make).parameters.values())[1:]
    common = list(inspect.signature(_common).parameters.values())
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
    called: str = "",
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
        called or factory.__name__, operands, kwargs, lambda: factory(*operands, **options)
    )
    return made.requires_grad_() if requires_grad else made


def shape_from(
    name: str, sizes: Sequence[Any], size: Sequence[int] | None = None
) -> tuple[int, ...]:
    """Return the sizes passed to a factory.

    Args:
        name: name of the factory.
        sizes: its positional arguments.
        size: the keyword argument.

    Raises:
        TypeError: if they are no integers, or passed in both ways.
        RuntimeError: if one is negative.
    """
    if size is not None:
        if sizes:
            raise TypeError(f"{name}() got multiple values for argument 'size'")
        sizes = (size,)
    if not sizes:
        raise TypeError(f'{name}() missing 1 required positional arguments: "size"')
    first = sizes[0]
    if isinstance(first, bool):
        raise TypeError(errors.must_be(name, "size", 0, "tuple of ints", "bool"))
    if isinstance(first, (tuple, list)):
        if len(sizes) > 1:
            raise TypeError(f"{name}() takes 1 positional argument but {len(sizes)} were given")
        if first and isinstance(first[0], bool):
            raise TypeError(
                f"{name}(): argument 'size' (position 1) must be tuple of ints, but found element "
                "of type bool at pos 0"
            )
    try:
        found = sizes_of(sizes)
    except TypeError:
        raise TypeError(
            errors.must_be(name, "size", 0, "tuple of ints", type(first).__name__)
        ) from None
    if any(n < 0 for n in found):
        raise RuntimeError(f"{name}: Dimension size must be non-negative.")
    return found


def _number(name: str, argument: str, position: int, value: Any) -> Any:
    """Return a number passed to a factory, which may be a 0-d tensor.

    Raises:
        TypeError: for anything else, and for a tensor that requires grad: its derivative would be
            lost.
    """
    found = value
    if isinstance(value, Tensor) and not value._array.ndim and not value.requires_grad:
        found = value.item()
    number = number_of(found)
    if type(number) not in (bool, int, float, complex):
        raise TypeError(errors.must_be(name, argument, position, "Number", errors.kind_of(value)))
    return number


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


@add_factory("function", "out")
def zeros(options: Options, *sizes: int | Sequence[int], size: Sequence[int] | None = None) -> Made:
    """Return zeros."""
    shape = shape_from("zeros", sizes, size)
    return (list(shape),), lambda: np.zeros(shape, options.kind())


@add_factory("function", "out")
def ones(options: Options, *sizes: int | Sequence[int], size: Sequence[int] | None = None) -> Made:
    """Return ones."""
    shape = shape_from("ones", sizes, size)
    return (list(shape),), lambda: np.ones(shape, options.kind())


@add_factory("function", "memory_format", "out")
def empty(options: Options, *sizes: int | Sequence[int], size: Sequence[int] | None = None) -> Made:
    """Return an uninitialized tensor."""
    shape = shape_from("empty", sizes, size)
    return (list(shape),), lambda: in_format(np.empty(shape, options.kind()), options.memory_format)


@add_factory("function")
def empty_permuted(options: Options, size: Sequence[int], physical_layout: Sequence[int]) -> Made:
    """Return an uninitialized tensor with this order of dimensions in memory."""
    shape = shape_from("empty_permuted", (tuple(size),))
    order = tuple(physical_layout)
    if sorted(order) != list(range(len(shape))):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    return (list(size), list(order)), lambda: ordered(np.empty(shape, options.kind()), order)


@add_factory("function")
def empty_strided(options: Options, size: Sequence[int], stride: Sequence[int]) -> Made:
    """Return an uninitialized tensor with these strides."""

    return (list(size), list(stride)), lambda: _strided_array(
        "empty_strided", size, stride, options.kind()
    )


def _strided_array(
    name: str, size: Sequence[int], stride: Sequence[int], kind: np.dtype[Any]
) -> Array:
    """Return an uninitialized array with strides, counted in elements."""
    shape = shape_from(name, (tuple(size),))
    last = sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
    memory = np.empty(0 if 0 in shape else 1 + last, kind)
    steps = [step * kind.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(memory, shape, steps)


@add_factory("function", "out")
def full(options: Options, size: Sequence[int], fill_value: Any) -> Made:
    """Return a tensor filled with a number, whose type determines the dtype."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(errors.must_be("full", "size", 0, "tuple of ints", type(size).__name__))
    return (list(size), fill_value), lambda: _filled(
        "full", shape_from("full", (size,)), fill_value, options.dtype
    )


@add_factory("function")
def scalar_tensor(options: Options, s: complex) -> Made:
    """Return a 0-d tensor of a number."""
    number = _number("scalar_tensor", "s", 0, s)
    return (s,), lambda: _filled("scalar_tensor", (), number, options.kind())


def _filled(name: str, shape: tuple[int, ...], value: Any, dtype: DtypeLike | None) -> Any:
    number = _number(name, "fill_value", 1, value)
    wanted = dtype_of_kinds({type(number)}) if dtype is None else numpy_dtype(dtype)
    check_fits(number, wanted)
    return np.full(
        shape, np.asarray(number if wanted.kind in "cb" else number.real).astype(wanted), wanted
    )


@add_factory("function", "out")
def eye(options: Options, n: int, m: int | None = None) -> Made:
    """Return ones on the diagonal."""

    def compute() -> Array:
        for name, size in (("n", n), ("m", m)):
            if size is not None and size < 0:
                raise RuntimeError(f"{name} must be greater or equal to 0, got {size}")
        return np.eye(n, m, dtype=options.kind())

    return (n,) if m is None else (n, m), compute


@add_factory("function", "out")
def arange(options: Options, start: Any = None, end: Any = None, step: Any = 1) -> Made:
    """Return equally spaced numbers, without the end: ``arange(end)``, ``arange(start, end,
    step)``.
    """
    bounds = (0, start, step) if end is None else (0 if start is None else start, end, step)
    plain = [_number("arange", "end", 0, x) for x in bounds]
    for value in plain:
        if type(value) is complex:
            raise TypeError(errors.must_be("arange", "end", 0, "Number", "complex"))
    low, high, by = plain
    wanted = default_float() if float in map(type, plain) else np.dtype(np.int64)

    def compute() -> Array:
        return _range(low, high, by, wanted if options.dtype is None else options.kind())

    if end is None:
        return (high,), compute
    return (low, high) if by == 1 and type(by) is int else (low, high, by), compute


def _range(low: float, high: float, by: float, kind: np.dtype[Any]) -> Array:
    """Return equally spaced numbers as PyTorch computes them: ``low + i * by``, with the bounds and
    the step as integers if the dtype is an integer one.
    """
    if kind.kind not in "iufV":
        raise NotImplementedError(errors.no_kernel("arange_cpu").format(DTYPES[kind].printed))
    if not (by > 0 or by < 0):
        raise RuntimeError(errors.ARANGE_STEP)
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"unsupported range: {low:g} -> {high:g}")
    if (high - low) * by < 0:
        raise RuntimeError(errors.ARANGE_SIGN)
    for number in (low, high, by) if kind == np.int64 else (low, by) if kind.kind in "iu" else ():
        check_fits(number, np.dtype(np.int64))
    if kind == np.int64:
        if not int(by):
            raise ValueError(errors.ARANGE_STEP)
        count = len(range(int(low), int(high), int(by)))
    else:
        length = math.ceil((float(high) - float(low)) / float(by))
        count = max(length, 0)
    if count > sys.maxsize:
        raise RuntimeError("invalid size, possible overflow?")
    if not count:
        return np.empty(0, kind)
    if kind.kind in "fV":
        with np.errstate(over="ignore"):  # as PyTorch: infinite in float16
            return _floating_range(float(low), float(by), count, kind)
    return (int(low) + np.arange(count) * int(by)).astype(kind)


def _floating_range(low: float, by: float, count: int, kind: np.dtype[Any]) -> Array:
    """Return equally spaced floats with PyTorch's roundings: its kernel rounds the first number of
    every 32 bytes, and adds multiples of the step to it, except in an incomplete pair of these.
    """
    places = np.arange(count, dtype=np.float64)
    width = 32 // kind.itemsize
    full = count - count % (2 * width)
    lanes = places[:full] % width
    bases = multiply_add(places[:full] - lanes, by, low).astype(kind).astype(np.float64)
    made = np.empty(count, kind)
    made[:full] = multiply_add(lanes, by, bases)
    made[full:] = multiply_add(places[full:], by, low)
    return made


def _bounds(
    name: str, start: Any, end: Any, steps: Any, options: Options
) -> tuple[Any, Any, int, np.dtype[Any]]:
    """Return the bounds of equally spaced numbers, how many they are, and the dtype.

    Raises:
        TypeError: if an argument is no number.
        NotImplementedError: for bools.
        RuntimeError: if a bound does not fit the dtype, or the number of steps is negative.
    """
    low, high = _number(name, "start", 0, start), _number(name, "end", 1, end)
    is_complex = complex in (type(low), type(high))
    kind = default_complex() if is_complex and options.dtype is None else options.kind()
    if is_complex and kind.kind != "c":
        inferred = "float" if default_complex() == np.complex64 else "double"
        raise RuntimeError(
            f"torch.{name}(): inferred dtype c10::complex<{inferred}> can't be safely cast to "
            f"passed dtype {DTYPES[kind].printed}"
        )
    if isinstance(steps, bool):
        raise TypeError(errors.must_be(name, "steps", 2, "int", "bool"))
    count = operator.index(steps)
    if count < 0:
        raise RuntimeError("number of steps must be non-negative")
    if kind.kind == "b" and count > 1:
        raise NotImplementedError(errors.no_kernel(f"{name}_cpu").format(DTYPES[kind].printed))
    for bound in (low, high):
        check_fits(bound, kind)
    return low, high, count, kind


def _spaced(low: complex, high: complex, count: int, kind: np.dtype[Any]) -> Array:
    """Return equally spaced numbers, from both ends to the middle, as PyTorch computes them: with
    bounds of the dtype, and a step of the dtype unless that is an integer one.
    """
    if kind.kind == "c":
        made = np.empty(count, complex)
        real = np.dtype(f"f{kind.itemsize // 2}")
        made.real = _spaced(low.real, high.real, count, real)
        made.imag = _spaced(low.imag, high.imag, count, real)
        return made
    first, last = np.array([low, high]).astype(kind)
    if count < 2:
        return np.full(count, first)
    with np.errstate(all="ignore"):
        if kind.kind in "iu":
            places = np.arange(count)
            step = (float(last) - float(first)) / (count - 1)
            rising, falling = float(first) + step * places, float(last) - step * places[::-1]
        else:
            places = np.arange(count).astype(kind)
            step = (last - first) / kind.type(count - 1)
            if is_half(kind):
                rising, falling = first + step * places, last - step * places[::-1]
            else:
                rising = multiply_add(places, float(step), float(first))
                falling = multiply_add(places[::-1], float(-step), float(last))
    return np.concatenate([rising[: count // 2], falling[count // 2 :]])


def _exponents(low: float, high: float, count: int, kind: np.dtype[Any]) -> Array:
    """Return equally spaced float64 numbers, with bounds of a dtype and a step in float64."""
    first, last = np.array([low, high]).astype(kind)
    if count < 2:
        return np.full(count, float(first))
    difference = float(last) - float(first) if kind.kind in "iu" else float(last - first)
    step = difference / (count - 1)
    places = np.arange(count)
    rising, falling = float(first) + step * places, float(last) - step * places[::-1]
    return np.concatenate([rising[: count // 2], falling[count // 2 :]])


def _powers(base: float, exponents: Array) -> Array:
    """Return powers with the bits of the C library, which PyTorch calls."""
    try:
        return np.array(list(map(math.pow, itertools.repeat(base), exponents.tolist())), float)
    except (ValueError, OverflowError):  # those without a finite result
        return np.power(base, exponents)


@add_factory("function", "out")
def linspace(options: Options, start: complex, end: complex, steps: int) -> Made:
    """Return ``steps`` equally spaced numbers, with both ends."""
    low, high, count, kind = _bounds("linspace", start, end, steps, options)
    return (start, end, steps), lambda: _spaced(low, high, count, kind).astype(kind)


@add_factory("function", "out")
def logspace(
    options: Options, start: complex, end: complex, steps: int, base: float = 10.0
) -> Made:
    """Return ``steps`` powers of ``base``, with equally spaced exponents."""
    low, high, count, kind = _bounds("logspace", start, end, steps, options)
    radix = _number("logspace", "base", 3, base)

    def compute() -> Array:
        with np.errstate(all="ignore"):
            if kind.kind == "c":
                powers: Array = np.power(float(radix), _spaced(low, high, count, kind))
            else:
                powers = _powers(float(radix), _exponents(low, high, count, kind))
            return powers.astype(kind)

    operands = (start, end, steps)
    return (operands if radix == 10 else (*operands, base)), compute


# -- like another tensor ---------------------------------------------------------------------------


def _filled_like(input: Operand, value: Any, dtype: np.dtype[Any], memory_format: Any) -> Array:
    """Return an array filled with a number, in the memory layout of a tensor unless the format is
    contiguous.
    """
    array = input._array if isinstance(input, Tensor) else input
    if memory_format is not None and memory_format is not preserve_format:
        return in_format(np.full(shape_of(input), value, dtype), memory_format)
    if not isinstance(array, np.ndarray):
        return np.full(shape_of(input), value, dtype)
    if is_expanded(array):
        return laid(np.full(array.shape, value, dtype), [array])
    return np.full_like(array, value, dtype)


def keep_strides(made: Tensor, source: Any, memory_format: Any) -> None:
    """Give a tensor without elements the strides of the tensor that it is like."""
    if isinstance(source, Tensor) and memory_format in (None, preserve_format):
        made._laid = made._array.shape, source.stride()


def in_layout_of(input: Operand, made: Array, memory_format: Any) -> Array:
    """Return a new array in the memory layout of a tensor."""
    array = input._array if isinstance(input, Tensor) else input
    if memory_format is not None and memory_format is not preserve_format:
        return in_format(made, memory_format)
    return laid(made, [array]) if isinstance(array, np.ndarray) else made


def in_format(made: Array, memory_format: Any) -> Array:
    """Return a new array with the order of axes of a memory format.

    Raises:
        RuntimeError: for an array of another rank than the format.
    """
    if memory_format is None or memory_format in (contiguous_format, preserve_format):
        return made
    rank = 4 if memory_format is channels_last else 5
    if made.ndim != rank:
        name = "channels_last" if rank == 4 else "channels_last_3d"
        raise RuntimeError(f"required rank {rank} tensor to use {name} format")
    return ordered(made, (0, *range(2, rank), 1))


@add_factory("function", "memory_format")
def zeros_like(options: Options, input: Operand) -> Made:
    """Return zeros of a tensor's shape and dtype."""
    tensors_only("zeros_like", input=input)
    kind = options.kind_like(input)
    return (input,), lambda: _filled_like(input, 0, kind, options.memory_format)


@add_factory("function", "memory_format")
def ones_like(options: Options, input: Operand) -> Made:
    """Return ones of a tensor's shape and dtype."""
    tensors_only("ones_like", input=input)
    kind = options.kind_like(input)
    return (input,), lambda: _filled_like(input, 1, kind, options.memory_format)


@add_factory("function", "memory_format")
def empty_like(options: Options, input: Operand) -> Made:
    """Return an uninitialized tensor of another one's shape and dtype."""
    tensors_only("empty_like", input=input)
    kind = options.kind_like(input)
    return (input,), lambda: _filled_like(input, 0, kind, options.memory_format)


@add_factory("function", "memory_format")
def full_like(options: Options, input: Operand, fill_value: Any) -> Made:
    """Return a tensor of another one's shape and dtype, filled with a number."""
    tensors_only("full_like", input=input)
    kind = options.kind_like(input)

    def compute() -> Array:
        value = _filled("full_like", (), fill_value, kind)
        return _filled_like(input, value, kind, options.memory_format)

    return (input, fill_value), compute


@add_factory("method")
def new_zeros(
    options: Options,
    self: Tensor,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
) -> Made:
    """Return zeros of this dtype."""
    shape = shape_from("new_zeros", sizes, size)
    return (self, list(shape)), lambda: np.zeros(shape, options.kind_like(self))


@add_factory("method")
def new_ones(
    options: Options,
    self: Tensor,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
) -> Made:
    """Return ones of this dtype."""
    shape = shape_from("new_ones", sizes, size)
    return (self, list(shape)), lambda: np.ones(shape, options.kind_like(self))


@add_factory("method")
def new_empty(
    options: Options,
    self: Tensor,
    *sizes: int | Sequence[int],
    size: Sequence[int] | None = None,
) -> Made:
    """Return an uninitialized tensor of this dtype."""
    shape = shape_from("new_empty", sizes, size)
    return (self, list(shape)), lambda: np.empty(shape, options.kind_like(self))


@add_factory("method")
def new_full(options: Options, self: Tensor, size: Sequence[int], fill_value: Any) -> Made:
    """Return a tensor of this dtype, filled with a number."""
    if not isinstance(size, (tuple, list)):
        raise TypeError(errors.must_be("full", "size", 0, "tuple of ints", type(size).__name__))
    return (self, list(size), fill_value), lambda: _filled(
        "new_full", shape_from("new_full", (size,)), fill_value, options.kind_like(self)
    )


@add_factory("method")
def new_empty_strided(
    options: Options, self: Tensor, size: Sequence[int], stride: Sequence[int]
) -> Made:
    """Return an uninitialized tensor of this dtype with these strides."""
    return (self, list(size), list(stride)), lambda: _strided_array(
        "new_empty_strided", size, stride, options.kind_like(self)
    )


_RANGE = (
    "torch.range is deprecated and will be removed in a future release because its behavior is "
    "inconsistent with Python's range builtin. Instead, use torch.arange, which produces values in "
    "[start, end)."
)

# -- triangles and windows -------------------------------------------------------------------------


def _add_triangle(name: str, find: Callable[..., Any], says: str) -> None:
    def make(options: Options, row: int, col: int, offset: int = 0) -> Made:
        for called, n in (("row", row), ("col", col)):
            if n < 0:
                raise RuntimeError(f"{called} must be non-negative, got{n}")
        kind = options.kind_or(np.dtype(np.int64))
        if kind.kind not in "iu":
            raise NotImplementedError(errors.no_kernel(name).format(DTYPES[kind].printed))
        return (row, col, offset), lambda: np.stack(find(row, offset, col)).astype(kind)

    make.__name__ = name
    make.__doc__ = f"Return the positions of the {says} triangle of a matrix: rows and columns."
    add_factory("function")(make)


_add_triangle("tril_indices", np.tril_indices, "lower")
_add_triangle("triu_indices", np.triu_indices, "upper")


def _inclusive_range(options: Options, start: Any = 0, end: Any = None, step: Any = 1) -> Made:
    """Return equally spaced numbers with both ends; deprecated in favour of `arange`."""
    warn_once(_RANGE)
    low, high = (0, start) if end is None else (start, end)

    def compute() -> Array:
        kind = options.kind()
        if not step:
            raise RuntimeError(errors.ARANGE_STEP)
        if (high - low) * step < 0:
            raise RuntimeError(errors.ARANGE_SIGN)
        count = math.floor((high - low) / step) + 1
        return (float(low) + np.arange(count) * float(step)).astype(kind)

    return (low, high, step), compute


_inclusive_range.__name__ = "range"
add_factory("function", "out")(_inclusive_range)


def _window(name: str, length: int, periodic: bool, options: Options, shape: Any) -> Made:
    """Return the window of a shape: a function of positions and of the last position."""
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    kind = options.kind()
    if kind.kind not in "fcV":
        raise RuntimeError(
            f"{name} expects floating point dtypes, got: TensorOptions(dtype={kind.name}, "
            "device=cpu, layout=Strided (default), requires_grad=false (default), "
            "pinned_memory=false (default), memory_format=(nullopt))"
        )

    def compute() -> Array:
        if length < 2:
            return np.ones(length, kind)
        size = length + 1 if periodic else length
        wide = np.float64 if kind == np.float64 else np.float32
        places = np.arange(size, dtype=wide)
        return np.asarray(shape(places, size - 1))[:length].astype(kind)

    return (length, periodic), compute


@add_factory("function")
def hann_window(options: Options, window_length: int, periodic: bool = True) -> Made:
    """Return a Hann window."""
    return _window(
        "hann_window",
        window_length,
        periodic,
        options,
        lambda k, last: 0.5 - 0.5 * np.cos(k * k.dtype.type(2 * math.pi / last)),
    )


@add_factory("function")
def hamming_window(
    options: Options,
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
) -> Made:
    """Return a Hamming window: ``alpha - beta * cos``."""
    return _window(
        "hamming_window",
        window_length,
        periodic,
        options,
        lambda k, last: alpha - beta * np.cos(k * k.dtype.type(2 * math.pi / last)),
    )


@add_factory("function")
def bartlett_window(options: Options, window_length: int, periodic: bool = True) -> Made:
    """Return a triangular window."""
    return _window(
        "bartlett_window",
        window_length,
        periodic,
        options,
        lambda k, last: 1 - np.abs(k * k.dtype.type(2 / last) - 1),
    )


@add_factory("function")
def blackman_window(options: Options, window_length: int, periodic: bool = True) -> Made:
    """Return a Blackman window."""

    def shape(k: Any, last: int) -> Any:
        angle = k * k.dtype.type(math.pi / last)
        return 0.08 * np.cos(angle * 4) - 0.5 * np.cos(angle * 2) + 0.42

    return _window("blackman_window", window_length, periodic, options, shape)


@add_factory("function")
def kaiser_window(
    options: Options, window_length: int, periodic: bool = True, beta: float = 12.0
) -> Made:
    """Return a Kaiser window."""

    def shape(k: Any, last: int) -> Any:
        place = k * (2.0 / last) - 1.0
        return np.i0(beta * np.sqrt(np.maximum(1 - place * place, 0))) / np.i0(beta)

    return _window("kaiser_window", window_length, periodic, options, shape)
