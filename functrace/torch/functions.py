"""The rows of arithmetic and elementwise functions, with the names and saved fields of PyTorch's nodes.

Reductions stand in reductions.py, products of matrices in products.py, shapes and indices in shaping.py, operators and
methods in methods.py, in-place forms in in_place.py.

Floor: 8.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.shaping import convert
from functrace.torch import sentences
from functrace.torch.dtypes import numpy_dtype
from functrace.torch.plans import Op, apply
from functrace.torch.promotion import arithmetic, floating
from functrace.torch.tensor import Tensor

SELF = (("self", 0),)
RESULT = (("result", -1),)
BOTH = (("other", 1), ("self", 0))


def shape_of(x: Any) -> tuple[int, ...]:
    """Return the sizes of a tensor or of a raw value."""
    return x._array.shape if isinstance(x, Tensor) else np.shape(x)


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of a tensor or of a raw value."""
    return x._array.dtype if isinstance(x, Tensor) else x.dtype


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


def _alpha(_specs: Any, params: tuple[Any, ...]) -> dict[str, Any]:
    return {"alpha": params[0] if params else 1}


def _scaled(primitive: Any) -> Callable[..., Any]:
    """``x + alpha * y``, with alpha among the static parameters where it is not 1."""

    def function(x: Any, y: Any, alpha: Any = None) -> Any:
        return primitive(x, y if alpha is None else ew.mul(y, alpha))

    return function


ADD = Op("AddBackward0", ew.add, promote=arithmetic, details=_alpha)
SUB = Op("SubBackward0", ew.sub, promote=arithmetic, details=_alpha)
ADD_SCALED = Op("AddBackward0", _scaled(ew.add), promote=arithmetic, details=_alpha)
SUB_SCALED = Op("SubBackward0", _scaled(ew.sub), promote=arithmetic, details=_alpha)
RSUB = Op("RsubBackward1", lambda x, n: ew.sub(n, x), promote=arithmetic, edges=(0,), details=_alpha)
MUL = Op("MulBackward0", ew.mul, BOTH, promote=arithmetic)
DIV = Op("DivBackward0", ew.div, BOTH, promote=floating)
NEG = Op("NegBackward0", ew.neg)
RECIPROCAL = Op("ReciprocalBackward0", ew.reciprocal, RESULT, promote=floating)


def _power_details(specs: Any, _params: Any) -> dict[str, Any]:
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


def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return ``input + alpha * other``."""
    return apply(ADD, (input, other)) if alpha == 1 else apply(ADD_SCALED, (input, other), (alpha,))


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """Return ``input - alpha * other``."""
    return apply(SUB, (input, other)) if alpha == 1 else apply(SUB_SCALED, (input, other), (alpha,))


def rsub(input: Any, other: Any) -> Any:
    """Return ``other - input`` for a number ``other``."""
    return apply(RSUB, (input, other))


def mul(input: Any, other: Any) -> Any:
    """Return ``input * other``."""
    return apply(MUL, (input, other))


def div(input: Any, other: Any) -> Any:
    """Return ``input / other``; integers divide to floats."""
    return apply(DIV, (input, other))


def pow(input: Any, exponent: Any) -> Any:
    """Return ``input ** exponent``; either may be a number."""
    if isinstance(exponent, (int, float)):
        return apply(POW_NUMBER, (input, exponent))
    return apply(POW_OF_NUMBER if isinstance(input, (int, float)) else POW, (input, exponent))


def square(input: Any) -> Any:
    """Return ``input ** 2``."""
    return apply(POW_NUMBER, (input, 2))


# -- elementwise -------------------------------------------------------------------------------------------------


def _unary(op: Op, name: str, doc: str) -> Callable[[Any], Any]:
    def function(input: Any) -> Any:
        return apply(op, (input,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _float_op(node: str, function: Any, saves: Any) -> Op:
    return Op(node, function, saves, floating)


EXP = _float_op("ExpBackward0", ew.exp, RESULT)
LOG = _float_op("LogBackward0", ew.log, SELF)
LOG1P = _float_op("Log1PBackward0", ew.log1p, SELF)
SIN = _float_op("SinBackward0", ew.sin, SELF)
COS = _float_op("CosBackward0", ew.cos, SELF)
TANH = _float_op("TanhBackward0", ew.tanh, RESULT)
SIGMOID = _float_op("SigmoidBackward0", ew.sigmoid, RESULT)
SQRT = _float_op("SqrtBackward0", ew.sqrt, RESULT)
RELU = Op("ReluBackward0", ew.relu, RESULT)
ABS = Op("AbsBackward0", ew.absolute, SELF)
SIGN = Op("SignBackward0", ew.sign)
FLOOR = Op("FloorBackward0", ew.floor)
CEIL = Op("CeilBackward0", ew.ceil)
ROUND = Op("RoundBackward0", lambda x: ew.rint(x) if x.dtype.kind in "fc" else ew.positive(x))
CLONE = Op("CloneBackward0", ew.positive)
COPY_OF_GRADIENT = Op("CopyBackwards", ew.positive)
CLONE_BOOL = Op("CloneBackward0", ew.stop_gradient)

neg = _unary(NEG, "neg", "Return ``-input``.")
reciprocal = _unary(RECIPROCAL, "reciprocal", "Return ``1 / input``.")
exp = _unary(EXP, "exp", "Return the exponential of each element.")
log = _unary(LOG, "log", "Return the natural logarithm of each element.")
log1p = _unary(LOG1P, "log1p", "Return ``log(1 + input)``, accurate near 0.")
sin = _unary(SIN, "sin", "Return the sine of each element.")
cos = _unary(COS, "cos", "Return the cosine of each element.")
tanh = _unary(TANH, "tanh", "Return the hyperbolic tangent of each element.")
sigmoid = _unary(SIGMOID, "sigmoid", "Return ``1 / (1 + exp(-input))``.")
sqrt = _unary(SQRT, "sqrt", "Return the square root of each element.")
relu = _unary(RELU, "relu", "Return each element, or 0 if it is negative; the derivative at 0 is 0.")
abs = _unary(ABS, "abs", "Return the absolute value of each element; the derivative at 0 is 0.")
sign = _unary(SIGN, "sign", "Return the sign of each element.")
floor = _unary(FLOOR, "floor", "Return the largest integer that is not above each element.")
ceil = _unary(CEIL, "ceil", "Return the smallest integer that is not below each element.")
round = _unary(ROUND, "round", "Return the nearest integer; halves go to the even one.")
isnan = _unary(Op("IsnanBackward0", ew.isnan), "isnan", "Return whether each element is not a number.")
isfinite = _unary(Op("IsfiniteBackward0", ew.isfinite), "isfinite", "Return whether each element is finite.")
logical_not = _unary(Op("NotBackward0", ew.logical_not), "logical_not", "Return whether each element is zero.")


def clone(input: Any) -> Any:
    """Return a copy, through which gradients flow."""
    return apply(CLONE_BOOL if dtype_of(input).kind == "b" else CLONE, (input,))


# -- choices and comparisons ---------------------------------------------------------------------------------------

MAXIMUM = Op("MaximumBackward0", ew.maximum, BOTH, arithmetic)
MINIMUM = Op("MinimumBackward0", ew.minimum, BOTH, arithmetic)


def _where_promotion(function: Callable[..., Any], specs: Any) -> Callable[..., Any]:
    chosen = arithmetic(lambda x, y: (x, y), specs[1:])
    return lambda condition, x, y: function(condition, *chosen(x, y))


WHERE = Op("WhereBackward0", ew.where, (("condition", 0),), _where_promotion, edges=(1, 2))


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Return ``input`` where the condition holds, ``other`` elsewhere."""
    return apply(WHERE, (condition, input, other))


def maximum(input: Any, other: Any) -> Any:
    """Return the larger element of each pair; a tie splits the gradient evenly."""
    return apply(MAXIMUM, (input, other))


def minimum(input: Any, other: Any) -> Any:
    """Return the smaller element of each pair; a tie splits the gradient evenly."""
    return apply(MINIMUM, (input, other))


def _clamp_details(bounds: tuple[str, ...]) -> Callable[..., dict[str, Any]]:
    def details(specs: Any, _params: Any) -> dict[str, Any]:
        found = {"min": None, "max": None} | dict.fromkeys(bounds)
        return found | {name: s[1] for name, s in zip(bounds, specs[1:], strict=True) if type(s) is tuple}

    return details


_LOW: Any = lambda x, low: ew.clip_below(x, low)  # noqa: E731
_HIGH: Any = lambda x, high: ew.clip_above(x, high)  # noqa: E731
_BETWEEN: Any = lambda x, low, high: ew.clip_above(ew.clip_below(x, low), high)  # noqa: E731
CLAMPS: dict[tuple[str, ...], tuple[Op, Op]] = {
    bounds: (
        Op(
            "ClampBackward1",
            function,
            SELF,
            arithmetic,
            edges=(0,),
            static_numbers=True,
            keeps=("self",),
            details=_clamp_details(bounds),
        ),
        Op(
            "ClampBackward0",
            function,
            (*((name, 1 + k) for k, name in reversed(list(enumerate(bounds)))), ("self", 0)),
            arithmetic,
            edges=edges,
            details=_clamp_details(bounds),
        ),
    )
    for bounds, function, edges in (
        (("min",), _LOW, (0, 1, None)),
        (("max",), _HIGH, (0, None, 1)),
        (("min", "max"), _BETWEEN, (0, 1, 2)),
    )
}


def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Return each element, or the bound that it is beyond; on a bound the derivative is 1."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    bounds = tuple(name for name, value in (("min", min), ("max", max)) if value is not None)
    given = tuple(value for value in (min, max) if value is not None)
    numbers = not [value for value in given if not isinstance(value, (bool, int, float))]
    return apply(CLAMPS[bounds][0 if numbers else 1], (input, *given))


def _comparison(node: str, function: Any, name: str) -> Callable[[Any, Any], Any]:
    op = Op(node, function, promote=arithmetic)

    def compare(input: Any, other: Any) -> Any:
        return apply(op, (input, other))

    compare.__name__ = compare.__qualname__ = name
    compare.__doc__ = f"Return where ``input`` is {name} to ``other``, element by element."
    return compare


eq = _comparison("EqBackward0", ew.equal, "eq")
ne = _comparison("NeBackward0", ew.not_equal, "ne")
lt = _comparison("LtBackward0", ew.less, "lt")
le = _comparison("LeBackward0", ew.less_equal, "le")
gt = _comparison("GtBackward0", ew.greater, "gt")
ge = _comparison("GeBackward0", ew.greater_equal, "ge")
logical_and = _comparison("AndBackward0", ew.logical_and, "logical_and")
logical_or = _comparison("OrBackward0", ew.logical_or, "logical_or")
bitwise_and = _comparison("BitwiseAndBackward0", ew.bitwise_and, "bitwise_and")
bitwise_or = _comparison("BitwiseOrBackward0", ew.bitwise_or, "bitwise_or")


# -- dtypes ----------------------------------------------------------------------------------------------------

TO = Op("ToCopyBackward0", lambda x, dtype: convert(x, dtype))


def to(input: Any, dtype: Any) -> Any:
    """Return the tensor in another dtype; itself, if it has it already."""
    wanted = numpy_dtype(dtype)
    return input if dtype_of(input) == wanted else apply(TO, (input,), (wanted,))
