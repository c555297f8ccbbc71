"""The rows of arithmetic and elementwise functions, with the names and saved fields of PyTorch's
nodes.

A row declares a function completely (rows.py): ``torch.sin``, ``Tensor.sin``, ``Tensor.sin_`` and
their type stubs come from it. Reductions are in reductions.py, products of matrices in
products.py, shapes and indices in shaping.py, methods without a function in methods.py.

Layer: 9.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from functrace.ir.aval import ShapeDtype
from functrace.ops import edges
from functrace.ops import elementwise as ew
from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import MODES
from functrace.torch.dispatch import autocasting
from functrace.torch.dispatch.applying import OF_OUTPUT, Op, apply, recorded_gradient
from functrace.torch.dispatch.numbers import NUMBERS, number_of
from functrace.torch.dispatch.promotion import (
    RANK,
    arithmetic,
    broadcasting,
    check_broadcast,
    check_fits,
    floating,
    for_kinds,
    of_fitting_numbers,
    of_tensors,
    returning_bool,
    without_bools,
)
from functrace.torch.dispatch.rows import FunctionTable, Run
from functrace.torch.errors.warnings import warn_once
from functrace.torch.tensors.dtypes import DTYPES, DtypeLike, numpy_dtype
from functrace.torch.tensors.dtypes import dtype as Dtype
from functrace.torch.tensors.formats import channels_last, channels_last_3d, preserve_format
from functrace.torch.tensors.formats import memory_format as MemoryFormat
from functrace.torch.tensors.mirrors import conjugated, is_conjugate, is_negative, negated
from functrace.torch.tensors.orders import laid, ordered
from functrace.torch.tensors.tensor import Operand, Tensor, Value, fresh, is_expanded
from functrace.tracing import Tracer
from functrace.typing import Array

ROWS = FunctionTable()
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


def whole(name: str, argument: str, value: Any, position: int = 0) -> int:
    """Return an argument that must be an integer.

    Raises:
        TypeError: if it is none.
    """
    if isinstance(value, (bool, float, complex, str)) or value is None:
        raise TypeError(errors.must_be(name, argument, position, "int", type(value).__name__))
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            errors.must_be(name, argument, position, "int", type(value).__name__)
        ) from None


def tensors_only(name: str, **operands: Any) -> None:
    """Check that arguments are tensors (or their replacements inside functional transforms).

    Raises:
        TypeError: for numbers, and anything else that has no shape.
    """
    if all(isinstance(value, Tensor) for value in operands.values()):
        return
    among = any(
        isinstance(value, Tensor) and isinstance(value._array, np.ndarray)
        for value in operands.values()
    )
    kinds = (Tensor, Tracer) if among else (Tensor, Tracer, np.ndarray)
    for k, (argument, value) in enumerate(operands.items()):
        if not isinstance(value, kinds):
            raise TypeError(errors.must_be_tensor(name, argument, k, errors.kind_of(value)))


def dimension(dim: int, ndim: int) -> int:
    """Return a dimension counted from the front.

    Raises:
        TypeError: for a bool.
        IndexError: if it is out of range.
    """
    if dim is True or dim is False:
        raise TypeError("argument 'dim' must be int, not bool")
    n = ndim or 1
    if not -n <= dim < n:
        raise IndexError(errors.dimension_range(dim, ndim))
    return dim % n


def dimensions(dim: Any, ndim: int) -> tuple[int, ...]:
    """Return the dimensions of a reduction (``None``, an int, several) counted from the front,
    sorted.
    """
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    if isinstance(dim, (str, float, bool)):
        raise TypeError(errors.must_be("sum", "dim", 1, "tuple of ints", type(dim).__name__))
    found = sorted(
        dimension(operator.index(k), ndim)
        for k in (dim if isinstance(dim, (tuple, list)) else (dim,))
    )
    for a, b in itertools.pairwise(found):
        if a == b:
            raise RuntimeError(f"dim {a} appears multiple times in the list of dims")
    return tuple(found) if ndim else ()


# -- arithmetic ------------------------------------------------------------------------------------


def _alpha(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"alpha": params[0] if params else 1}


def _scaled(primitive: Callable[..., Any]) -> Callable[..., Any]:
    """``x + alpha * y``, with alpha among the static parameters."""

    def function(x: Array, y: Array, alpha: complex) -> Any:
        if type(y) in NUMBERS:
            return primitive(x, (y and alpha) if type(y) is type(alpha) is bool else y * alpha)
        return primitive(x, ew.mul(y, alpha))

    return function


ADD = Op("AddBackward0", ew.add, promote=arithmetic, details=_alpha)
_subtracting = arithmetic.checked(without_bools)
SUB = Op("SubBackward0", ew.sub, promote=_subtracting, details=_alpha)
ADD_SCALED = Op("AddBackward0", _scaled(ew.add), promote=arithmetic, details=_alpha)
SUB_SCALED = Op("SubBackward0", _scaled(ew.sub), promote=_subtracting, details=_alpha)
RSUB = Op(
    "RsubBackward0", lambda x, y: ew.sub(y, x), promote=_subtracting, details=_alpha, seen=(1, 0)
)
RSUB_NUMBER = Op(
    "RsubBackward1", lambda x, n: ew.sub(n, x), promote=_subtracting, edges=(0,), details=_alpha
)


def _power_details(specs: Sequence[Any], _params: tuple[Any, ...]) -> dict[str, Any]:
    return {
        name: s[1] for name, s in (("self", specs[0]), ("exponent", specs[1])) if type(s) is tuple
    }


def _power(x: Array | complex, n: Array | complex) -> Any:
    """``x ** n``, where integers have negative powers too: 0, unless the base is 1 or -1."""
    kind: Any = (n if x.__class__ in NUMBERS else x).dtype.kind  # type: ignore[union-attr]
    if kind == "b":
        return ew.logical_or(x, not n)
    if n.__class__ in NUMBERS and n == 0 and kind in "fcV":
        return ew.where(np.False_, x, 1)  # the derivative is 0 even for an infinite or nan gradient
    if kind == "c":
        return edges.complex_power(x, int(n) if isinstance(n, bool) else n)
    if n.__class__ in NUMBERS:
        return ew.power(x, n)
    if kind not in "iu":
        return edges.plain_power(x, n)
    powers = ew.power(x, ew.maximum(n, 0))
    signs = ew.where(ew.equal(x, -1), ew.sub(1, ew.mul(2, ew.bitwise_and(n, 1))), ew.equal(x, 1))
    return ew.where(ew.less(n, 0), convert(signs, powers.dtype), powers)


def _no_powers_of_bools(specs: Sequence[Any], dtype: np.dtype[Any]) -> None:
    exponent = specs[1]
    if type(exponent) is tuple and exponent[0] in (bool, int):
        if dtype.kind in "bui" and exponent[1] < 0:
            raise RuntimeError(errors.NEGATIVE_POWER)
        if exponent[1] in (0, 1):
            return
    if dtype.kind == "b":
        raise NotImplementedError(errors.no_kernel("pow").format("Bool"))


_powers = arithmetic.checked(_no_powers_of_bools, of_fitting_numbers)
POW_NUMBER = Op(
    "PowBackward0",
    _power,
    SELF,
    _powers,
    edges=(0,),
    keeps=("self",),
    static_numbers=True,
    details=_power_details,
)
POW = Op("PowBackward1", _power, (("exponent", 1), ("self", 0), ("result", -1)), _powers)
POW_OF_NUMBER = Op(
    "PowBackward2",
    _power,
    (("exponent", 1), ("result", -1)),
    arithmetic.checked(_no_powers_of_bools),
    edges=(1,),
    keeps=("exponent",),
    static_numbers=True,
    details=_power_details,
    in_rows=True,
)


@ROWS.family(operators="add radd iadd", op=ADD, reflected=ADD, out=True)
def add(run: Run) -> Callable[..., Value]:
    """Return ``input + alpha * other``."""

    def function(input: Operand, other: Operand, *older: Operand, alpha: Operand = 1) -> Value:
        if older:
            alpha, other = _older("add", other, older)
        if type(alpha) is int and alpha == 1:
            return run(ADD, (input, other))
        return run(ADD_SCALED, (input, other), (_factor("add", input, other, alpha),))

    return function


def _older(name: str, factor: Any, rest: tuple[Any, ...], names: str = "other") -> tuple[Any, ...]:
    """Return the arguments of the older form of a function, whose factor is the first of them.

    Raises:
        TypeError: if they are not in this form.
    """
    wanted = names.split()
    if type(number_of(factor)) not in NUMBERS or len(rest) != len(wanted):
        count = len(wanted)
        raise TypeError(
            f"{name}() takes {count} positional argument{'s' * (count > 1)} but {1 + len(rest)} "
            "were given"
        )
    called = "value" if len(wanted) > 1 else "alpha"
    tensors = ", ".join(f"Tensor {x}" for x in wanted)
    warn_once(
        f"This overload of {name} is deprecated:\n\t{name}(Number {called}, {tensors})\nConsider "
        f"using one of the following signatures instead:\n\t{name}({tensors}, *, Number {called} = 1)"
    )
    return factor, *rest


def _factor(name: str, input: Operand, other: Operand, alpha: Any) -> Any:
    """Return ``alpha``, which must not be of a higher kind than the result."""
    number = number_of(
        alpha.item() if isinstance(alpha, Tensor) and alpha._array.ndim == 0 else alpha
    )
    if type(number) not in NUMBERS:
        raise TypeError(errors.must_be_number(name, "alpha", type(alpha).__name__))
    operands = [number_of(x) for x in (input, other)]
    if not all(isinstance(x, (Tensor, Tracer)) or type(x) in NUMBERS for x in operands):
        return number  # other types are refused where the operation is applied
    kind = arithmetic.dtype(
        [type(x) if type(x) in NUMBERS else ShapeDtype(shape_of(x), dtype_of(x)) for x in operands]
    ).kind
    if type(number) is bool and kind != "b":
        raise RuntimeError(errors.ALPHA_BOOL)
    if type(number) is complex and kind != "c":
        raise RuntimeError(errors.ALPHA_COMPLEX)
    if type(number) is float and kind in "bui":
        raise RuntimeError(errors.ALPHA_FLOAT)
    return bool(number) if kind == "b" else number


@ROWS.function("function")
def rsub(input: Operand, other: Operand, *, alpha: Operand = 1) -> Value:
    """Return ``other - alpha * input``."""
    if not (type(alpha) is int and alpha == 1):
        input = mul(input, _factor("rsub", input, other, alpha))
    return apply(RSUB if isinstance(other, Tensor) else RSUB_NUMBER, (input, other))


@ROWS.family(aliases="subtract", operators="sub rsub isub", op=SUB, reflected=rsub, out=True)
def sub(run: Run) -> Callable[..., Value]:
    """Return ``input - alpha * other``."""

    def function(input: Operand, other: Operand, *older: Operand, alpha: Operand = 1) -> Value:
        if older:
            alpha, other = _older("sub", other, older)
        if type(alpha) is int and alpha == 1:
            return run(SUB, (input, other))
        return run(SUB_SCALED, (input, other), (_factor("sub", input, other, alpha),))

    return function


mul = ROWS.op(
    "mul", ew.mul, BOTH, arithmetic, forms=EVERY, aliases="multiply", operators="mul rmul imul",
    commutes=True,
    doc="Return ``input * other``.",
)  # fmt: skip
neg = ROWS.op(
    "neg", ew.neg, (), arithmetic.checked(for_kinds("uifc", errors.NEGATING_BOOLS, RuntimeError)),
    forms=EVERY, aliases="negative", operators="neg",
    doc="Return ``-input``.",
)  # fmt: skip
reciprocal = ROWS.op(
    "reciprocal",
    ew.reciprocal,
    RESULT,
    replace(floating, of_complex=edges.complex_reciprocal),
    forms="function method in_place function_in_place",
    doc="Return ``1 / input``.",
)


def rdiv(input: Tensor, other: Operand) -> Value:
    """Return ``other / input`` for a number ``other``."""
    return mul(reciprocal(input), other)


def _quotient(x: Any, y: Any, mode: str) -> Any:
    """Return a rounded quotient, whose derivative is 0."""
    if mode == "floor":
        return ew.stop_gradient(ew.floor_divide(x, y))
    if x.dtype.kind not in "fV":
        return ew.floor_divide(ew.sub(x, ew.fmod(x, y)), y)
    divisor = y if type(y) in NUMBERS else ew.stop_gradient(y)
    return ew.trunc(ew.div(ew.stop_gradient(x), divisor))


def _mode_details(_specs: Sequence[Any], params: tuple[Any, ...]) -> dict[str, Any]:
    return {"rounding_mode": params[0] if params else None}


DIV = Op("DivBackward0", ew.div, BOTH, floating)
DIV_MODE = Op("DivBackward2", ew.div, BOTH, floating, details=_mode_details)
DIV_ROUNDED = {
    mode: Op(
        "DivBackward2",
        _quotient,
        (),
        arithmetic.checked(for_kinds("uif", f"div_{mode}_cpu")),
        details=_mode_details,
    )
    for mode in ("trunc", "floor")
}


@ROWS.family(
    EVERY,
    aliases="divide",
    operators="truediv rtruediv itruediv div rdiv idiv",
    op=DIV,
    reflected=rdiv,
    out=True,
)
def div(run: Run) -> Callable[..., Value]:
    """Return ``input / other``; integers divide to floats, unless the quotient is rounded.

    ``rounding_mode`` is None for no rounding, ``"trunc"`` for rounding towards 0, or ``"floor"``.
    """

    def function(input: Operand, other: Operand, *, rounding_mode: str | None = "") -> Value:
        if rounding_mode == "":  # not given: PyTorch has another operation for None
            return run(DIV, (input, other))
        if rounding_mode is None:
            return run(DIV_MODE, (input, other))
        if not isinstance(rounding_mode, str):
            raise TypeError(errors.rounding_mode_type(errors.kind_of(rounding_mode)))
        if rounding_mode not in DIV_ROUNDED:
            raise RuntimeError(errors.rounding_mode(rounding_mode))
        operands = [number_of(x) for x in (input, other)]
        kinds = [_KINDS.get(type(x)) or dtype_of(x).kind for x in operands]
        divisor = _raw(operands[1])
        is_whole = all(kind in "bui" for kind in kinds) and kinds != ["b", "b"]
        if is_whole and not isinstance(divisor, Tracer) and not np.all(divisor):
            raise RuntimeError("ZeroDivisionError")
        return run(DIV_ROUNDED[rounding_mode], (input, other), (rounding_mode,))

    return function


@ROWS.family(EVERY, out=True)
def true_divide(run: Run) -> Callable[..., Value]:
    """Return ``input / other``; integers divide to floats."""

    def function(input: Operand, other: Operand) -> Value:
        return run(DIV, (input, other))

    return function


@ROWS.family(operators="pow rpow ipow", out=True)
def pow(run: Run) -> Callable[..., Value]:
    """Return ``input ** exponent``; either may be a number."""

    def function(input: Operand, exponent: Operand) -> Value:
        exponent = number_of(exponent)
        if isinstance(exponent, (int, float, complex)):
            if isinstance(input, (int, float, complex)):
                raise TypeError(errors.invalid_combination("pow", (input, exponent)))
            return run(POW_NUMBER, (input, exponent))
        return run(
            POW_OF_NUMBER if isinstance(input, (int, float, complex)) else POW, (input, exponent)
        )

    return function


@ROWS.family("function method in_place function_in_place", out=True)
def square(run: Run) -> Callable[..., Value]:
    """Return ``input ** 2``."""

    def function(input: Operand) -> Value:
        return run(POW_NUMBER, (input, 2))

    return function


# -- elementwise -----------------------------------------------------------------------------------


def _sign(x: Array) -> Any:
    return ew.stop_gradient(x) if x.dtype.kind == "b" else edges.sgn(x)


def _unless_integer(function: Callable[[Array], Any]) -> Callable[[Array], Any]:
    def rounded(x: Array) -> Any:
        return function(x) if x.dtype.kind in "fV" else ew.positive(x)

    return rounded


def _every(
    name: str,
    primitive: Callable[..., Any],
    saves: tuple[tuple[str, int], ...],
    doc: str,
    forms: str = EVERY,
    aliases: str = "",
    gradient: Op | None = None,
) -> Callable[..., Any]:
    says = f"Return the {doc} of each element."
    return ROWS.op(
        name, primitive, saves, floating, forms=forms, aliases=aliases, gradient=gradient, doc=says
    )


exp = _every("exp", ew.exp, RESULT, "exponential")
_every("exp2", ew.exp2, RESULT, "power of 2")
_every("expm1", ew.expm1, RESULT, "exponential minus 1, accurate near 0,")
log = _every("log", ew.log, SELF, "natural logarithm")
_every("log2", ew.log2, SELF, "logarithm to base 2")
_every("log10", ew.log10, SELF, "logarithm to base 10")
log1p = ROWS.op(
    "log1p",
    ew.log1p,
    SELF,
    floating,
    forms=EVERY,
    doc="Return ``log(1 + input)``, accurate near 0.",
)
_every("sin", ew.sin, SELF, "sine")
_every("cos", ew.cos, SELF, "cosine")
_every("tan", ew.tan, RESULT, "tangent")
_every("asin", ew.arcsin, SELF, "arcsine", aliases="arcsin")
_every("acos", ew.arccos, SELF, "arccosine", aliases="arccos")
_every("atan", ew.arctan, SELF, "arctangent", aliases="arctan")
_every("sinh", ew.sinh, SELF, "hyperbolic sine")
_every("cosh", ew.cosh, SELF, "hyperbolic cosine")
_every("asinh", ew.arcsinh, SELF, "inverse hyperbolic sine", aliases="arcsinh")
_every("acosh", edges.plain_arccosh, SELF, "inverse hyperbolic cosine", aliases="arccosh")
_every("atanh", ew.arctanh, SELF, "inverse hyperbolic tangent", aliases="arctanh")
tanh = _every(
    "tanh", ew.tanh, RESULT, "hyperbolic tangent", ACTIVATION,
    gradient=recorded_gradient("TanhBackwardBackward0", *OF_OUTPUT),
)  # fmt: skip
sigmoid = _every(
    "sigmoid", ew.sigmoid, RESULT, "logistic function ``1 / (1 + exp(-input))``", ACTIVATION,
    gradient=recorded_gradient("SigmoidBackwardBackward0", *OF_OUTPUT),
)  # fmt: skip
sqrt = _every("sqrt", ew.sqrt, RESULT, "square root")
rsqrt = _every("rsqrt", edges.rsqrt, RESULT, "reciprocal of the square root")
relu = ROWS.op(
    "relu", ew.relu, RESULT,
    arithmetic.checked(
        for_kinds("uifc", errors.RELU_OF_BOOLS, RuntimeError), for_kinds("uif",
        errors.CLAMP_OF_COMPLEX)
    ),
    forms=EVERY, gradient=recorded_gradient("ThresholdBackwardBackward0", ("self", 1),
    threshold=0),
    out=False, doc="Return each element, or 0 if it is negative; the derivative at 0 is 0.",
)  # fmt: skip
ABS = Op(
    "AbsBackward0",
    edges.plain_absolute,
    SELF,
    arithmetic.checked(of_tensors("abs", "input"), for_kinds("uifc", "abs_cpu")),
    called="abs",
)


@ROWS.family(aliases="absolute", operators="abs", out=True)
def abs(run: Run) -> Callable[..., Value]:
    """Return the absolute value of each element; the derivative at 0 is 0."""

    def function(input: Operand) -> Value:
        if run is not apply and dtype_of(input).kind == "c":
            raise RuntimeError(errors.ABS_IN_PLACE)
        return run(ABS, (input,))

    return function


ROWS.op(
    "sign", _sign, (), arithmetic.checked(for_kinds("buif", errors.SIGN_OF_COMPLEX)), forms=EVERY,
    doc="Return the sign of each element.",
)  # fmt: skip
ROWS.op(
    "sgn",
    _sign,
    SELF + RESULT,
    arithmetic,
    forms=EVERY,
    keeps=("self", "result"),
    doc="Return each element divided by its absolute value; 0 stays 0.",
)
for _name, _primitive, _says in (
    ("floor", ew.floor, "largest integer that is not above each element"),
    ("ceil", ew.ceil, "smallest integer that is not below each element"),
    ("trunc", ew.trunc, "integer part of each element"),
):
    ROWS.op(
        _name, _unless_integer(_primitive), (),
        arithmetic.checked(for_kinds("buif", errors.not_of_complex(_name)), for_kinds("uif",
        f"{_name}_vml_cpu")),
        forms=EVERY, aliases="fix" if _name == "trunc" else "", doc=f"Return the {_says}.",
    )  # fmt: skip
ROWS.op(
    "isnan",
    lambda x: ew.isnan(x) if x.dtype.kind in "fcV" else ew.not_equal(x, x),
    out=False,
    doc="Return a mask of the elements that are nan.",
)
ROWS.op(
    "isfinite", lambda x: ew.isfinite(x), out=False, doc="Return a mask of the finite elements."
)
ROWS.op("isinf", lambda x: ew.isinf(x), out=False, doc="Return a mask of the infinite elements.")
ROWS.op(
    "signbit", lambda x: ew.signbit(x) if x.dtype.kind in "fV" else ew.less(x, 0), (),
    arithmetic.checked(for_kinds("buif", errors.SIGNBIT_OF_COMPLEX)),
    doc="Return a mask of the negative elements (-0. too).",
)  # fmt: skip
ROWS.op(
    "logical_not",
    ew.logical_not,
    (),
    returning_bool,
    forms=EVERY,
    doc="Return a mask of the elements that are zero.",
)
BITWISE_NOT = Op(
    "BitwiseNotBackward0",
    ew.invert,
    promote=arithmetic.checked(for_kinds("bui", errors.INVERT_KINDS, TypeError)),
)


@ROWS.function("", operators="invert")
def invert(input: Operand) -> Value:
    """Return the bitwise inversion of each element; for bools, the logical negation."""
    return apply(BITWISE_NOT, (input,))


ROWS.op(
    "bitwise_not", ew.invert, (), arithmetic.checked(for_kinds("bui", "bitwise_not_cpu")),
    forms=EVERY,
    doc="Return the bitwise inversion of each element; for bools, the logical negation.",
)  # fmt: skip


def _rounding(x: Array, decimals: int = 0) -> Any:
    if x.dtype.kind not in "fV":
        return ew.positive(x)
    if not decimals:
        return ew.rint(x)
    scale = 10.0 ** max(decimals, -decimals)
    return (
        ew.div(ew.rint(ew.mul(x, scale)), scale)
        if decimals > 0
        else ew.mul(ew.rint(ew.div(x, scale)), scale)
    )


ROUND = Op(
    "RoundBackward0", _rounding, promote=arithmetic.checked(for_kinds("uif", "round_vml_cpu"))
)
ROUND_DECIMALS = Op(
    "RoundBackward1", _rounding, promote=arithmetic.checked(for_kinds("f", "round_vml_cpu"))
)


@ROWS.family()
def round(run: Run) -> Callable[..., Value]:
    """Return the nearest integer (or number with ``decimals`` digits); halves round to even."""

    def function(input: Operand, *, decimals: int = 0) -> Value:
        return run(ROUND_DECIMALS, (input,), (decimals,)) if decimals else run(ROUND, (input,))

    return function


CONJ = Op("ConjBackward0", conjugated, is_view=True)
NEG_VIEW = Op("NegViewBackward0", negated, is_view=True)
ROWS.op(
    "angle",
    lambda x: ew.angle(x if x.dtype.kind == "c" else ew.add(x, 0.0)),  # the angle of -0. is 0
    SELF,
    floating,
    keeps=("self",),
    doc="Return the angle of complex numbers; of negative ones, pi.",
)


@ROWS.function()
def conj(input: Operand) -> Value:
    """Return the conjugate, a view; a real tensor is returned itself."""
    return apply(CONJ, (input,)) if dtype_of(input).kind == "c" else input


@ROWS.function()
def resolve_conj(input: Operand) -> Value:
    """Return a copy of a conjugate view; any other tensor is returned itself."""
    return clone(input) if isinstance(input, Tensor) and is_conjugate(input._array) else input


@ROWS.function()
def resolve_neg(input: Operand) -> Value:
    """Return a copy of a negated view; any other tensor is returned itself."""
    return clone(input) if isinstance(input, Tensor) and is_negative(input._array) else input


@ROWS.function("method")
def _neg_view(self: Tensor) -> Value:
    """Return the negation, a view.

    Raises:
        NotImplementedError: for bools.
    """
    if self._array.dtype.kind == "b":
        raise NotImplementedError(errors.no_kernel("neg_cpu").format("Bool"))
    return apply(NEG_VIEW, (self,))


@ROWS.function()
def is_conj(input: Tensor) -> bool:
    """Return True if a tensor is a conjugate view."""
    tensors_only("is_conj", input=input)
    return is_conjugate(input._array)


CLONE = Op("CloneBackward0", ew.positive, promote=broadcasting)
_COPY = Op("CopyBackwards", ew.positive, edges=(None, 0))
CLONE_BOOL = Op("CloneBackward0", ew.stop_gradient, promote=broadcasting)


@ROWS.function()
def clone(input: Operand, *, memory_format: MemoryFormat | None = None) -> Value:
    """Return a differentiable copy, by default with the order of dimensions in memory."""
    made = apply(CLONE_BOOL if dtype_of(input).kind == "b" else CLONE, (input,))
    if memory_format is not None:
        return put_in_format("clone", made, memory_format)
    if 0 in made.shape and isinstance(input, Tensor):
        made._laid = made.shape, input.stride()
    return made


_CHANNELS_LAST = {channels_last: 4, channels_last_3d: 5}


def put_in_format(name: str, made: Any, memory_format: MemoryFormat) -> Any:
    """Give a new tensor another order of dimensions in memory.

    Raises:
        TypeError: for an object that is no memory format.
        RuntimeError: for a tensor of another rank than the format.
    """
    if not isinstance(memory_format, MemoryFormat):
        kind = errors.kind_of(memory_format)
        raise TypeError(errors.must_be_named(name, "memory_format", "torch.memory_format", kind))
    ndim = len(shape_of(made))
    rank = _CHANNELS_LAST.get(memory_format)
    if rank is not None and rank != ndim:
        raise RuntimeError(
            f"required rank {rank} tensor to use {memory_format!r} format".replace("torch.", "")
        )
    if memory_format is preserve_format or not isinstance(made, Tensor):
        return made
    array = made._array
    if isinstance(array, np.ndarray):
        order = range(ndim) if rank is None else (0, *range(2, ndim), 1)
        made._array = ordered(array, tuple(order))
    return made


@ROWS.function("method")
def _recorded_copy(self: Tensor) -> Value:
    """Return the copy that ``.grad`` holds under ``create_graph``."""
    return apply(_COPY, (self,))


@ROWS.function(operators="pos")
def positive(input: Operand) -> Value:
    """Return the tensor itself.

    Raises:
        RuntimeError: for bools.
    """
    if dtype_of(input).kind == "b":
        raise RuntimeError(errors.POSITIVE_BOOLS)
    return input


# -- choices and comparisons -----------------------------------------------------------------------


WHERE = Op(
    "WhereBackward0", ew.where, (("condition", 0),), replace(arithmetic, skips=1), edges=(1, 2)
)


@ROWS.function("function", out=True)
def where(condition: Operand, input: Any = None, other: Any = None) -> Value:
    """Return ``input`` where the condition is true, ``other`` elsewhere; without them, the
    positions of true elements.

    Raises:
        RuntimeError: if the condition is no tensor of bools (or, with a warning, of uint8).
    """
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    if isinstance(condition, Tensor):
        kind = condition._array.dtype
        if kind == np.uint8:
            warn_once(errors.WHERE_OF_BYTES)
            condition = to(condition, np.dtype(np.bool_))
        elif kind != np.bool_:
            raise RuntimeError(errors.where_condition(DTYPES[kind].printed))
    elif (
        not isinstance(condition, (Tracer, np.ndarray))
        or isinstance(input, Tensor)
        or isinstance(other, Tensor)
    ):
        raise TypeError(errors.invalid_combination("where", (condition, input, other)))
    for number, beside in ((input, other), (other, input)):
        if (
            isinstance(number, int)
            and isinstance(beside, Tensor)
            and beside._array.dtype.kind in "iu"
        ):
            check_fits(number, beside._array.dtype)
    if any(
        type(number_of(x)) not in NUMBERS and not isinstance(x, (Tensor, Tracer, np.ndarray))
        for x in (input, other)
    ):
        raise TypeError(errors.invalid_combination("where", (condition, input, other)))
    return apply(WHERE, (condition, input, other))


@ROWS.function("method", name="where")
def where_method(self: Tensor, condition: Operand, other: Operand) -> Value:
    """Return this tensor where the condition is true, ``other`` elsewhere."""
    return where(condition, self, other)


@ROWS.function()
def nonzero(input: Operand, *, as_tuple: bool = False) -> Any:
    """Return the positions of nonzero elements: one row each, or one tensor for each dimension."""
    if MODES.dispatch is not None:
        found = MODES.dispatch.make("nonzero", (input,), {}, lambda: nonzero(input))
        return found.unbind(1) if as_tuple else found
    array: Any = _raw(input)
    if isinstance(array, Tracer):
        raise TypeError(errors.SHAPE_FROM_VALUES)
    positions = np.nonzero(array) if array.ndim else np.nonzero(array.reshape(1))
    if as_tuple:
        return tuple(fresh(np.ascontiguousarray(p)) for p in positions)
    return fresh(
        np.stack(positions).T[:, : array.ndim] if positions else np.zeros((0, 0), np.int64)
    )


def _pairwise(name: str, primitive: Callable[..., Any], says: str) -> Callable[..., Any]:
    refuses = (
        of_tensors(name, "input", "other"),
        for_kinds("buif", errors.of_complex_tensors(name), RuntimeError),
    )
    return ROWS.op(
        name,
        primitive,
        BOTH,
        arithmetic.checked(*refuses),
        doc=f"Return the {says} element of each pair.",
    )


maximum = _pairwise("maximum", ew.maximum, "larger (equal elements share the derivative)")
minimum = _pairwise("minimum", ew.minimum, "smaller (equal elements share the derivative)")
_pairwise("fmax", ew.fmax, "larger (ignoring nan)")
_pairwise("fmin", ew.fmin, "smaller (ignoring nan)")


def _clamp_details(bounds: tuple[str, ...]) -> Callable[..., dict[str, Any]]:
    def details(specs: Sequence[Any], _params: tuple[Any, ...]) -> dict[str, Any]:
        found = {"min": None, "max": None} | dict.fromkeys(bounds)
        return found | {
            name: s[1] for name, s in zip(bounds, specs[1:], strict=True) if type(s) is tuple
        }

    return details


_LOW: Any = lambda x, low: ew.clip_below(x, low)  # noqa: E731
_HIGH: Any = lambda x, high: ew.clip_above(x, high)  # noqa: E731


def _between(x: Array, low: Array | complex, high: Array | complex) -> Any:
    return (
        ew.clip_above(ew.clip_below(x, low), high)
        if low.__class__ in NUMBERS
        else edges.clamp(x, low, high)
    )


def _real_bounds(specs: Sequence[Any], _dtype: np.dtype[Any]) -> None:
    if specs[0].dtype.kind in "fV" and any(spec[0] is complex for spec in specs[1:]):
        raise RuntimeError(errors.number_overflow("float64"))


def _real_input(specs: Sequence[Any], _dtype: np.dtype[Any]) -> None:
    if specs[0].dtype.kind == "c":
        raise NotImplementedError(errors.CLAMP_OF_COMPLEX)


def _clamps(
    function: Callable[..., Any], bounds: tuple[str, ...], edges: tuple[int | None, ...]
) -> tuple[Op, Op]:
    """The ops for numeric bounds, and for tensor bounds."""
    details = _clamp_details(bounds)
    saves = (*((name, 1 + k) for k, name in reversed(list(enumerate(bounds)))), ("self", 0))
    both = len(bounds) == 2
    kernel = "clamp_cpu" if both else "maximum_cpu" if bounds == ("min",) else "minimum_cpu"
    scalar = "clamp_scalar_cpu" if both else f"clamp_{bounds[0]}_scalar_cpu"
    of_numbers = arithmetic.checked(
        _real_bounds,
        for_kinds("buif", errors.CLAMP_OF_COMPLEX),
        for_kinds("uif", scalar),
        of_fitting_numbers,
    )
    of_tensors = arithmetic.checked(_real_input, for_kinds("uif" if both else "buif", kernel))
    numbers = Op(
        "ClampBackward1",
        function,
        SELF,
        of_numbers,
        edges=(0,),
        static_numbers=True,
        keeps=("self",),
        details=details,
    )
    return numbers, Op("ClampBackward0", function, saves, of_tensors, edges=edges, details=details)


_CLAMPS = {
    (True, False): _clamps(_LOW, ("min",), (0, 1, None)),
    (False, True): _clamps(_HIGH, ("max",), (0, None, 1)),
    (True, True): _clamps(_between, ("min", "max"), (0, 1, 2)),
}
"""Ops by the bounds that are given: below, above."""


@ROWS.family(aliases="clip", out=True)
def clamp(run: Run) -> Callable[..., Value]:
    """Return each element, limited to the bounds; at a bound the derivative is 1."""

    def function(input: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
        given = tuple(number_of(value) for value in (min, max) if value is not None)
        if not given:
            raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
        of_numbers, of_tensors = _CLAMPS[min is not None, max is not None]
        tensors = [value for value in given if type(value) not in NUMBERS]
        if tensors and len(tensors) < len(given) and isinstance(input, Tensor):
            raise TypeError(errors.invalid_combination("clamp", (input, *given)))
        return run(of_tensors if tensors else of_numbers, (input, *given))

    return function


for _name, _primitive, _says in (
    ("eq", ew.equal, "equal to"), ("ne", ew.not_equal, "different from"), ("lt", ew.less,
    "less than"),
    ("le", ew.less_equal, "at most"), ("gt", ew.greater, "greater than"), ("ge", ew.greater_equal,
    "at least"),
):  # fmt: skip
    ROWS.op(
        _name, _primitive, (),
        returning_bool if _name in ("eq", "ne") else returning_bool.checked(for_kinds("buif", f"{_name}_cpu")),
        forms=EVERY, operators=_name, edges=(0,),
        doc=f"Return a mask: True where ``input`` is {_says} ``other``.",
        aliases={
            "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
            "ge": "greater_equal"
        }.get(_name, ""),
    )  # fmt: skip
for _name, _primitive, _says in (
    ("and", ew.logical_and, "both"), ("or", ew.logical_or, "at least one"), ("xor", ew.logical_xor,
    "only one"),
):  # fmt: skip
    ROWS.op(
        f"logical_{_name}", _primitive, (), returning_bool.checked(of_tensors(f"logical_{_name}", "input",
        "other")),
        forms=EVERY, doc=f"Return a mask: True where {_says} of two elements are nonzero.",
    )  # fmt: skip
for _name, _primitive, _operators, _says in (
    ("bitwise_and", ew.bitwise_and, "and rand iand", "and"),
    ("bitwise_or", ew.bitwise_or, "or ror ior", "or"),
    ("bitwise_xor", ew.bitwise_xor, "xor rxor ixor", "exclusive or"),
):
    ROWS.op(
        _name, _primitive, (), arithmetic.checked(for_kinds("bui", f"{_name}_cpu")), forms=EVERY,
        operators=_operators,
        commutes=True, doc=f"Return the bitwise {_says}.",
    )  # fmt: skip
for _name, _primitive, _operators, _kernel in (
    ("bitwise_left_shift", ew.left_shift, "lshift rlshift ilshift", "lshift_cpu"),
    ("bitwise_right_shift", ew.right_shift, "rshift rrshift irshift", "rshift_cpu"),
):
    ROWS.op(
        _name, _primitive, (), arithmetic.checked(for_kinds("ui", _kernel)), forms=EVERY,
        operators=_operators,
        doc="Return the bits of ``input`` shifted by ``other``.",
    )  # fmt: skip


# -- integer quotients, and remainders -------------------------------------------------------------


def _raw(x: Operand) -> Any:
    return x._array if isinstance(x, Tensor) else x


_KINDS = {bool: "b", int: "i", float: "f", complex: "c"}


def without_derivative(op: Op, name: str) -> Op:
    """Make the node of an op raise when a gradient reaches it."""

    def run(self: Any, grads: Any) -> Any:
        raise RuntimeError(errors.no_derivative(name))

    methods = {"run": run, "name": lambda self: f"torch::autograd::{op.node}"}
    op.node_class = type(op.node, (op.node_class,), methods)
    return op


def _divisions(
    name: str, kernel: str, computes: Callable[..., Any], doc: str, operators: str = ""
) -> None:
    """Add a function that raises if integers are divided by 0."""
    promote = arithmetic.checked(for_kinds("uif", kernel))
    if name == "floor_divide":
        of_tensors = without_derivative(
            Op("NotImplemented", computes, promote=promote, called=name), name
        )
        of_numbers = (of_tensors, of_tensors)
    else:
        node = name.title()
        of_tensors = Op(f"{node}Backward1", computes, BOTH, promote)
        reflected = Op("NotImplemented", computes, BOTH, promote, edges=(1,), called=name)
        of_numbers = (
            Op(f"{node}Backward0", computes, (), promote, edges=(0,)),
            without_derivative(reflected, name),
        )

    def make(run: Run) -> Callable[..., Value]:
        def function(input: Operand, other: Operand) -> Value:
            input, other = number_of(input), number_of(other)
            kinds = [
                _KINDS.get(type(x)) or getattr(getattr(x, "dtype", None), "kind", "f")
                for x in map(_raw, (input, other))
            ]
            whole = all(kind in "bui" for kind in kinds) and kinds != ["b", "b"]
            divisor = other._array if isinstance(other, Tensor) else other
            if whole and not isinstance(divisor, Tracer) and not np.all(divisor):
                raise RuntimeError("ZeroDivisionError")
            op = (
                of_numbers[0]
                if type(other) in NUMBERS
                else of_numbers[1]
                if type(input) in NUMBERS
                else of_tensors
            )
            return run(op, (input, other))

        return function

    make.__name__, make.__doc__ = name, doc
    ROWS.family(operators=operators, out=True)(make)


_divisions(
    "floor_divide", "div_floor_cpu", ew.floor_divide, "Return ``input / other``, rounded down.",
    "floordiv rfloordiv ifloordiv",
)  # fmt: skip
_divisions(
    "remainder",
    "remainder_cpu",
    edges.signed_remainder,
    "Return the remainder of ``input / other``, with the sign of ``other``.",
    "mod rmod imod",
)
_divisions(
    "fmod",
    "fmod_cpu",
    ew.fmod,
    "Return the remainder of ``input / other``, with the sign of ``input``.",
)
_pairs = {
    "atan2": (ew.arctan2, "arctan2", floating, "angle of the points ``(other, input)``"),
    "hypot": (edges.plain_hypot, "", arithmetic, "hypotenuse"),
    "logaddexp": (edges.plain_logaddexp, "", arithmetic, "logarithm of the sum of exponentials"),
}
for _name, (_primitive, _aliases, _promote, _says) in _pairs.items():
    _promote = _promote.checked(of_tensors(_name, "input", "other"), for_kinds("f", f"{_name}_cpu"))
    _forms = "function method" if _name == "logaddexp" else EVERY
    ROWS.op(
        _name, _primitive, (("other", 1), ("result", -1), ("self",
        0)) if _name == "hypot" else BOTH, _promote, forms=_forms,
        keeps=("result",) if _name == "hypot" else (), aliases=_aliases,
        doc=f"Return the {_says}, element by element."
    )  # fmt: skip


# -- dtypes ----------------------------------------------------------------------------------------


def _converted(x: Array, dtype: np.dtype[Any]) -> Any:
    result: Any = convert(x, dtype)
    if isinstance(x, np.ndarray) and is_expanded(x):
        return laid(np.array(result, order="C"), [x])
    return (
        result.copy(order="K")
        if isinstance(result, np.ndarray) and result.base is not None
        else result
    )


TO = Op("ToCopyBackward0", _converted)


def to(input: Operand, dtype: DtypeLike) -> Value:
    """Return the tensor in another dtype; itself, if it has that dtype."""
    wanted = numpy_dtype(dtype)
    return input if dtype_of(input) == wanted else apply(TO, (input,), (wanted,))


autocasting.FUNCTIONS["to"] = to


# -- predicates ------------------------------------------------------------------------------------


@ROWS.function("function")
def is_floating_point(input: Operand) -> bool:
    """Return True if the elements are floats."""
    tensors_only("is_floating_point", input=input)
    return dtype_of(input).kind in "fV"


@ROWS.function("function")
def is_complex(input: Operand) -> bool:
    """Return True if the elements are complex."""
    tensors_only("is_complex", input=input)
    return dtype_of(input).kind == "c"


@ROWS.function("function")
def is_nonzero(input: Tensor) -> bool:
    """Return True if the one element is nonzero."""
    return bool(input)


@ROWS.function("function")
def numel(input: Operand) -> int:
    """Return the number of elements."""
    tensors_only("numel", input=input)
    return int(np.prod(shape_of(input), dtype=int))


def _spec(x: Operand) -> Any:
    number = number_of(x)
    return type(number) if type(number) in NUMBERS else ShapeDtype(shape_of(x), dtype_of(x))


@ROWS.function("function")
def result_type(tensor1: Operand, tensor2: Operand) -> Dtype:
    """Return the dtype that two operands promote to."""
    return DTYPES[arithmetic.dtype([_spec(tensor1), _spec(tensor2)])]


@ROWS.function("function")
def promote_types(type1: Dtype, type2: Dtype) -> Dtype:
    """Return the smallest dtype to which two dtypes convert."""
    return DTYPES[arithmetic.dtype([ShapeDtype((1,), numpy_dtype(d)) for d in (type1, type2)])]


@ROWS.function("function")
def can_cast(from_: Dtype, to: Dtype) -> bool:
    """Return True if results of a dtype may be written into tensors of another one."""
    return RANK[from_.numpy.kind] <= RANK[to.numpy.kind] and not (
        from_.is_signed and to.numpy.kind == "u"
    )


@ROWS.function("function", name="real")
def real_part(input: Tensor) -> Value:
    """Return the real part, a view."""
    return input.real


@ROWS.function("function", name="imag")
def imaginary_part(input: Tensor) -> Value:
    """Return the imaginary part, a view."""
    return input.imag


@ROWS.function()
def isclose(
    input: Operand,
    other: Operand,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Value:
    """Return a mask of ``|input - other| <= atol + rtol * |other|``."""
    tensors_only("isclose", input=input, other=other)
    if dtype_of(input) != dtype_of(other):
        raise RuntimeError(
            f"{DTYPES[dtype_of(input)].printed} did not match {DTYPES[dtype_of(other)].printed}"
        )
    check_broadcast(shape_of(input), shape_of(other))
    if MODES.dispatch is not None:
        given = input, other, rtol, atol, equal_nan
        return MODES.dispatch.make("isclose", given, {}, lambda: isclose(*given))
    arrays = _raw(input), _raw(other)
    return fresh(laid(np.asarray(np.isclose(*arrays, rtol, atol, equal_nan)), arrays))


# -- with three operands ---------------------------------------------------------------------------

LERP_NUMBER = Op(
    "LerpBackward0",
    edges.lerp,
    promote=arithmetic.checked(for_kinds("fc", "lerp_kernel_scalar")),
    edges=(0, 1),
    static_numbers=True,
    details=lambda specs, params: {"weight": specs[2][1]},
)
LERP = Op(
    "LerpBackward1",
    edges.lerp,
    (("end", 1), ("self", 0), ("weight", 2)),
    arithmetic.checked(for_kinds("fc", "lerp_kernel_tensor")),
)


@ROWS.family(out=True)
def lerp(run: Run) -> Callable[..., Value]:
    """Return ``input + weight * (end - input)``."""

    def function(input: Operand, end: Operand, weight: Operand) -> Value:
        number = number_of(weight)
        wanted = dtype_of(input)
        if dtype_of(end) != wanted:
            raise RuntimeError(errors.lerp_dtype("end", DTYPES[wanted], DTYPES[dtype_of(end)]))
        if type(number) not in NUMBERS and dtype_of(number) != wanted and shape_of(number):
            raise RuntimeError(
                errors.lerp_dtype("weight", DTYPES[wanted], DTYPES[dtype_of(number)])
            )
        if type(number) in NUMBERS and wanted.kind in "bui":
            raise NotImplementedError(
                errors.no_kernel("lerp_kernel_scalar").format(DTYPES[wanted].printed)
            )
        if type(number) in NUMBERS:
            check_fits(number, wanted)
            return run(LERP_NUMBER, (input, end, number))
        return run(LERP, (input, end, number))

    return function


def _no_integers_divided(specs: Sequence[Any], _dtype: np.dtype[Any]) -> None:
    if all(spec.dtype.kind in "bui" for spec in specs[1:3]):
        raise RuntimeError(errors.ADDCDIV_OF_INTEGERS)


def _of_products(name: str, combine: Callable[..., Any], says: str) -> None:
    op = Op(
        f"{name.title()}Backward0",
        lambda x, a, b, value: ew.add(x, combine(a if value == 1 else ew.mul(a, value), b)),
        (("tensor1", 1), ("tensor2", 2)),
        arithmetic.checked(for_kinds("uifc", f"{name}_cpu_out"))
        if name == "addcmul"
        else arithmetic.checked(_no_integers_divided),
        details=lambda specs, params: {"value": params[0]},
    )

    def make(run: Run) -> Callable[..., Value]:
        def function(
            input: Operand, tensor1: Operand, tensor2: Operand, *older: Operand, value: Any = 1
        ) -> Value:
            if older:
                value, tensor1, tensor2 = _older(
                    name, tensor1, (tensor2, *older), "tensor1 tensor2"
                )
            if isinstance(input, Tensor):
                tensors_only(name, input=input, tensor1=tensor1, tensor2=tensor2)
            return run(op, (input, tensor1, tensor2), (value,))

        return function

    make.__name__, make.__doc__ = name, f"Return ``input + value * tensor1 {says} tensor2``."
    ROWS.family(out=True)(make)


_of_products("addcmul", ew.mul, "*")
_of_products("addcdiv", ew.div, "/")
COMPLEX = Op(
    "ComplexBackward0",
    lambda x, y: ew.complex_of(x, y),
    (("imag", 1), ("real", 0)),
    broadcasting,
    keeps=("imag", "real"),
)


@ROWS.function("function", out=True, name="complex")
def complex_of(real: Operand, imag: Operand) -> Value:
    """Return ``real + 1j * imag``."""
    tensors_only("complex", real=real, imag=imag)
    kinds = [dtype_of(real), dtype_of(imag)]
    names = [DTYPES[d].printed for d in kinds]
    if any(d.kind != "f" for d in kinds):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {names[0]} and "
            f"{names[1]}"
        )
    if kinds[0] != kinds[1]:
        raise RuntimeError(
            f"Expected object of scalar type {names[0]} but got scalar type {names[1]} for second "
            "argument"
        )
    if kinds[0] == np.float16:
        raise NotImplementedError(errors.COMPLEX_HALF)
    return apply(COMPLEX, (real, imag))
