"""The rows of arithmetic and elementwise functions, with the names and saved fields of PyTorch's nodes.

A row says all that there is to say of a function (rows.py): ``torch.sin``, ``Tensor.sin``, ``Tensor.sin_`` and what
type checkers see come from it. Reductions stand in reductions.py, products of matrices in products.py, shapes and indices
in shaping.py, what there is only as a method in methods.py.

Floor: 8.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.shaping import convert
from functrace.torch import sentences
from functrace.torch.dtypes import DtypeLike, numpy_dtype
from functrace.torch.plans import NUMBERS, Op, apply, number_of
from functrace.torch.promotion import arithmetic, floating
from functrace.torch.rows import Rows, Run
from functrace.torch.tensor import Operand, Tensor, Value
from functrace.typing import Array

ROWS = Rows()
EVERY = "function method in_place"
ACTIVATION = "function method in_place nn.functional"

SELF = (("self", 0),)
RESULT = (("result", -1),)
BOTH = (("other", 1), ("self", 0))


def shape_of(x: Operand) -> tuple[int, ...]:
    """Return the sizes of a tensor or of a raw value."""
    return x._array.shape if isinstance(x, Tensor) else np.shape(x)


def dtype_of(x: Operand) -> np.dtype[Any]:
    """Return the NumPy dtype of a tensor or of a raw value."""
    return x._array.dtype if isinstance(x, Tensor) else x.dtype  # type: ignore[union-attr]


def dimension(dim: int, ndim: int) -> int:
    """Return a dimension counted from the front.

    Raises:
        IndexError: if there is none such.
    """
    n = ndim or 1
    if not -n <= dim < n:
        raise IndexError(sentences.dimension_range(dim, ndim))
    return dim % n


def dimensions(dim: Any, ndim: int) -> tuple[int, ...]:
    """Return dimensions as reductions take them (``None``, an int, several) counted from the front, sorted."""
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    found = sorted(dimension(int(k), ndim) for k in ((dim,) if isinstance(dim, int) else dim))
    for a, b in itertools.pairwise(found):
        if a == b:
            raise RuntimeError(f"dim {a} appears multiple times in the list of dims")
    return tuple(found) if ndim else ()


# -- arithmetic ------------------------------------------------------------------------------------------------


def _alpha(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"alpha": params[0] if params else 1}


def _scaled(primitive: Callable[..., Any]) -> Callable[..., Any]:
    """``x + alpha * y``, with alpha among the static parameters."""

    def function(x: Array, y: Array, alpha: complex) -> Any:
        return primitive(x, y * alpha if type(y) in NUMBERS else ew.mul(y, alpha))

    return function


ADD = Op("AddBackward0", ew.add, promote=arithmetic, details=_alpha)
SUB = Op("SubBackward0", ew.sub, promote=arithmetic, details=_alpha)
ADD_SCALED = Op("AddBackward0", _scaled(ew.add), promote=arithmetic, details=_alpha)
SUB_SCALED = Op("SubBackward0", _scaled(ew.sub), promote=arithmetic, details=_alpha)
RSUB = Op("RsubBackward1", lambda x, n: ew.sub(n, x), promote=arithmetic, edges=(0,), details=_alpha)


def _power_details(specs: Sequence[Any], _params: tuple[Any, ...]) -> dict[str, Any]:
    return {name: s[1] for name, s in (("self", specs[0]), ("exponent", specs[1])) if type(s) is tuple}


POW_NUMBER = Op(
    "PowBackward0",
    ew.power,
    SELF,
    arithmetic,
    edges=(0,),
    keeps=("self",),
    static_numbers=True,
    details=_power_details,
)
POW = Op("PowBackward1", ew.power, (("exponent", 1), ("self", 0), ("result", -1)), arithmetic)
POW_OF_NUMBER = Op(
    "PowBackward2",
    ew.power,
    (("exponent", 1), ("result", -1)),
    arithmetic,
    edges=(1,),
    static_numbers=True,
    details=_power_details,
)


@ROWS.family(operators="add radd iadd", op=ADD, reflected=ADD)
def add(run: Run) -> Callable[..., Value]:
    """Return ``input + alpha * other``."""

    def function(input: Operand, other: Operand, *, alpha: Operand = 1) -> Value:
        return run(ADD, (input, other)) if alpha == 1 else run(ADD_SCALED, (input, other), (alpha,))

    return function


def rsub(input: Operand, other: Operand) -> Value:
    """Return ``other - input`` for a number ``other``."""
    return apply(RSUB, (input, other))


@ROWS.family(aliases="subtract", operators="sub rsub isub", op=SUB, reflected=rsub)
def sub(run: Run) -> Callable[..., Value]:
    """Return ``input - alpha * other``."""

    def function(input: Operand, other: Operand, *, alpha: Operand = 1) -> Value:
        return run(SUB, (input, other)) if alpha == 1 else run(SUB_SCALED, (input, other), (alpha,))

    return function


mul = ROWS.op(
    "mul", ew.mul, BOTH, arithmetic, forms=EVERY, aliases="multiply", operators="mul rmul imul", commutes=True,
    doc="Return ``input * other``.",
)  # fmt: skip
neg = ROWS.op(
    "neg", ew.neg, forms=EVERY, aliases="negative", operators="neg",
    doc="Return ``-input``.",
)  # fmt: skip
reciprocal = ROWS.op("reciprocal", ew.reciprocal, RESULT, floating, doc="Return ``1 / input``.")


def rdiv(input: Tensor, other: Operand) -> Value:
    """Return ``other / input`` for a number ``other``."""
    return mul(reciprocal(input), other)


ROWS.op(
    "div", ew.div, BOTH, floating, forms=EVERY, aliases="divide true_divide", operators="truediv rtruediv itruediv",
    reflected=rdiv, doc="Return ``input / other``; integers divide to floats.",
)  # fmt: skip


@ROWS.family(operators="pow rpow ipow")
def pow(run: Run) -> Callable[..., Value]:
    """Return ``input ** exponent``; either may be a number."""

    def function(input: Operand, exponent: Operand) -> Value:
        exponent = number_of(exponent)
        if isinstance(exponent, (int, float, complex)):
            return run(POW_NUMBER, (input, exponent))
        return run(POW_OF_NUMBER if isinstance(input, (int, float, complex)) else POW, (input, exponent))

    return function


@ROWS.function()
def square(input: Operand) -> Value:
    """Return ``input ** 2``."""
    return apply(POW_NUMBER, (input, 2))


# -- elementwise -------------------------------------------------------------------------------------------------


def _rounded(x: Array) -> Any:
    return ew.rint(x) if x.dtype.kind in "fc" else ew.positive(x)


ROWS.op("exp", ew.exp, RESULT, floating, forms=EVERY, doc="Return the exponential of each element.")
ROWS.op("log", ew.log, SELF, floating, forms=EVERY, doc="Return the natural logarithm of each element.")
ROWS.op("log1p", ew.log1p, SELF, floating, doc="Return ``log(1 + input)``, accurate near 0.")
ROWS.op("sin", ew.sin, SELF, floating, forms=EVERY, doc="Return the sine of each element.")
ROWS.op("cos", ew.cos, SELF, floating, forms=EVERY, doc="Return the cosine of each element.")
ROWS.op("tanh", ew.tanh, RESULT, floating, forms=ACTIVATION, doc="Return the hyperbolic tangent of each element.")
ROWS.op("sigmoid", ew.sigmoid, RESULT, floating, forms=ACTIVATION, doc="Return ``1 / (1 + exp(-input))``.")
ROWS.op("sqrt", ew.sqrt, RESULT, floating, forms=EVERY, doc="Return the square root of each element.")
ROWS.op(
    "relu", ew.relu, RESULT, forms=ACTIVATION, doc="Return each element, or 0 if it is negative; the derivative at 0 is 0."
)
ROWS.op(
    "abs", ew.absolute, SELF, forms=EVERY, aliases="absolute", operators="abs",
    doc="Return the absolute value of each element; the derivative at 0 is 0.",
)  # fmt: skip
ROWS.op("sign", ew.sign, doc="Return the sign of each element.")
ROWS.op("floor", ew.floor, doc="Return the largest integer that is not above each element.")
ROWS.op("ceil", ew.ceil, doc="Return the smallest integer that is not below each element.")
ROWS.op("round", _rounded, doc="Return the nearest integer; halves go to the even one.")
ROWS.op("isnan", ew.isnan, doc="Return whether each element is not a number.")
ROWS.op("isfinite", ew.isfinite, doc="Return whether each element is finite.")
ROWS.op("logical_not", ew.logical_not, operators="invert", doc="Return whether each element is zero.")

CLONE = Op("CloneBackward0", ew.positive)
_COPY = Op("CopyBackwards", ew.positive)
CLONE_BOOL = Op("CloneBackward0", ew.stop_gradient)


@ROWS.function()
def clone(input: Operand) -> Value:
    """Return a copy, through which gradients flow."""
    return apply(CLONE_BOOL if dtype_of(input).kind == "b" else CLONE, (input,))


@ROWS.function("method")
def _recorded_copy(self: Tensor) -> Value:
    """Return a copy as ``.grad`` holds it under ``create_graph``."""
    return apply(_COPY, (self,))


@ROWS.function("", operators="pos")
def positive(input: Operand) -> Value:
    """Return the tensor itself."""
    return input


# -- choices and comparisons ---------------------------------------------------------------------------------------


def _where_promotion(function: Callable[..., Any], specs: Sequence[Any]) -> Callable[..., Any]:
    chosen = arithmetic(lambda x, y: (x, y), specs[1:])
    return lambda condition, x, y: function(condition, *chosen(x, y))


WHERE = Op("WhereBackward0", ew.where, (("condition", 0),), _where_promotion, edges=(1, 2))


@ROWS.function("function")
def where(condition: Operand, input: Operand, other: Operand) -> Value:
    """Return ``input`` where the condition holds, ``other`` elsewhere."""
    return apply(WHERE, (condition, input, other))


@ROWS.function("method", name="where")
def where_method(self: Tensor, condition: Operand, other: Operand) -> Value:
    """Return this where the condition holds, ``other`` elsewhere."""
    return where(condition, self, other)


maximum = ROWS.op(
    "maximum", ew.maximum, BOTH, arithmetic, doc="Return the larger element of each pair; a tie splits the gradient evenly."
)
minimum = ROWS.op(
    "minimum", ew.minimum, BOTH, arithmetic, doc="Return the smaller element of each pair; a tie splits the gradient evenly."
)


def _clamp_details(bounds: tuple[str, ...]) -> Callable[..., dict[str, Any]]:
    def details(specs: Sequence[Any], _params: tuple[Any, ...]) -> dict[str, Any]:
        found = {"min": None, "max": None} | dict.fromkeys(bounds)
        return found | {name: s[1] for name, s in zip(bounds, specs[1:], strict=True) if type(s) is tuple}

    return details


_LOW: Any = lambda x, low: ew.clip_below(x, low)  # noqa: E731
_HIGH: Any = lambda x, high: ew.clip_above(x, high)  # noqa: E731
_BETWEEN: Any = lambda x, low, high: ew.clip_above(ew.clip_below(x, low), high)  # noqa: E731


def _clamps(function: Callable[..., Any], bounds: tuple[str, ...], edges: tuple[int | None, ...]) -> tuple[Op, Op]:
    """The ops for bounds that are numbers, and for tensors."""
    details = _clamp_details(bounds)
    saves = (*((name, 1 + k) for k, name in reversed(list(enumerate(bounds)))), ("self", 0))
    numbers = Op(
        "ClampBackward1", function, SELF, arithmetic, edges=(0,), static_numbers=True, keeps=("self",), details=details
    )
    return numbers, Op("ClampBackward0", function, saves, arithmetic, edges=edges, details=details)


_CLAMPS = {
    (True, False): _clamps(_LOW, ("min",), (0, 1, None)),
    (False, True): _clamps(_HIGH, ("max",), (0, None, 1)),
    (True, True): _clamps(_BETWEEN, ("min", "max"), (0, 1, 2)),
}
"""By which bounds there are: below, above."""


@ROWS.family()
def clamp(run: Run) -> Callable[..., Value]:
    """Return each element, or the bound that it is beyond; on a bound the derivative is 1."""

    def function(input: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
        given = tuple(number_of(value) for value in (min, max) if value is not None)
        if not given:
            raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
        of_numbers, of_tensors = _CLAMPS[min is not None, max is not None]
        tensors = [value for value in given if not isinstance(value, (bool, int, float))]
        return run(of_tensors if tensors else of_numbers, (input, *given))

    return function


@ROWS.function("method")
def clamp_min(self: Tensor, min: Operand) -> Value:
    """Return each element, or the bound that it is below."""
    return clamp(self, min=min)


@ROWS.function("method")
def clamp_max(self: Tensor, max: Operand) -> Value:
    """Return each element, or the bound that it is above."""
    return clamp(self, max=max)


for _name, _primitive, _says in (
    ("eq", ew.equal, "equal to"), ("ne", ew.not_equal, "different from"), ("lt", ew.less, "less than"),
    ("le", ew.less_equal, "at most"), ("gt", ew.greater, "greater than"), ("ge", ew.greater_equal, "at least"),
):  # fmt: skip
    ROWS.op(
        _name, _primitive, (), arithmetic, operators=_name,
        doc=f"Return where ``input`` is {_says} ``other``, element by element.",
    )  # fmt: skip
ROWS.op("logical_and", ew.logical_and, (), arithmetic, doc="Return where both are different from zero.")
ROWS.op("logical_or", ew.logical_or, (), arithmetic, doc="Return where one or both are different from zero.")
ROWS.op("bitwise_and", ew.bitwise_and, (), arithmetic, operators="and", doc="Return the bits that both have.")
ROWS.op("bitwise_or", ew.bitwise_or, (), arithmetic, operators="or", doc="Return the bits that one or both have.")


# -- dtypes ----------------------------------------------------------------------------------------------------

TO = Op("ToCopyBackward0", lambda x, dtype: convert(x, dtype))


def to(input: Operand, dtype: DtypeLike) -> Value:
    """Return the tensor in another dtype; itself, if it has it already."""
    wanted = numpy_dtype(dtype)
    return input if dtype_of(input) == wanted else apply(TO, (input,), (wanted,))
