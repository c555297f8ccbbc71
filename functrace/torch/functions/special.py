"""The rows of special functions: the gamma, error and Bessel functions, of ``torch`` and of
``torch.special``.

Values are those of SciPy's functions, which are imported when one is called, and derivatives those
of `functrace.ops.special`.

Layer: 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from functrace.ops import elementwise as ew
from functrace.ops.shaping import convert
from functrace.torch import errors
from functrace.torch.autograd.grad_mode import no_grad
from functrace.torch.dispatch.applying import Op, apply
from functrace.torch.dispatch.dual import DUALS
from functrace.torch.dispatch.numbers import NUMBERS, number_of
from functrace.torch.dispatch.promotion import Promotion, arithmetic, floating, for_kinds
from functrace.torch.dispatch.rows import FunctionTable, Run
from functrace.torch.functions import elementwise as f
from functrace.torch.functions import reductions
from functrace.torch.functions.elementwise import BOTH, RESULT, SELF
from functrace.torch.tensors.dtypes import DTYPES, DtypeLike
from functrace.torch.tensors.tensor import Operand, Tensor, Value
from functrace.torch.tensors.views import write
from functrace.typing import Array

ROWS = FunctionTable()
EVERY = "function method in_place function_in_place special"


def special_primitive(name: str) -> Callable[..., Any]:
    """Return a special function of the core, which imports SciPy.

    Raises:
        ImportError: if SciPy is not installed.
    """
    try:
        from functrace.ops.special import TABLE
    except ImportError as error:
        raise ImportError(
            f"{name} of functrace.torch is computed by SciPy, which is not installed: pip install "
            "'scipy>=1.17'"
        ) from error
    return TABLE[name]


def _in_single(x: Any) -> Any:
    """Return half precision as single precision, in which PyTorch computes special functions."""
    return convert(x, np.float32) if getattr(x, "dtype", None) == np.float16 else x


def _of_scipy(name: str) -> Callable[[Array], Any]:
    """Return a special function of one operand that is imported when it is called."""

    def function(x: Array) -> Any:
        found = special_primitive(name)(_in_single(x))
        return convert(found, x.dtype) if found.dtype != x.dtype else found

    return function


def _of_two(name: str) -> Callable[[Any, Any], Any]:
    """Return a special function of two operands that is imported when it is called."""

    def function(x: Any, y: Any) -> Any:
        beside = y.dtype if type(x) in NUMBERS else x.dtype
        given = [beside.type(v) if type(v) in NUMBERS else v for v in (x, y)]
        found = special_primitive(name)(*[_in_single(v) for v in given])
        return convert(found, beside) if found.dtype != beside else found

    return function


def _single_or_double(name: str) -> Promotion:
    """Promotion that refuses half precision, and complex numbers."""

    def check(_specs: Sequence[Any], dtype: np.dtype[Any]) -> None:
        if dtype.kind == "c" or dtype == np.float16:
            raise NotImplementedError(errors.no_kernel(name).format(DTYPES[dtype].printed))

    return floating.checked(check)


def _every(
    name: str,
    computes: Callable[[Array], Any],
    says: str,
    *,
    saves: tuple[tuple[str, int], ...] = SELF,
    kernel: str = "",
    also: str = "",
) -> Callable[..., Any]:
    """Add a function of one operand to ``torch``, `Tensor` and ``torch.special``."""
    made = ROWS.op(
        name, computes, saves, floating.checked(for_kinds("buif", kernel or f"{name}_vml_cpu")),
        forms=EVERY, keeps=tuple(field for field, _ in saves), doc=f"Return the {says}.",
    )  # fmt: skip
    if also:
        ROWS.function("special", name=also)(made)
    return made


erf = _every("erf", _of_scipy("erf"), "error function of each element")
_every("erfc", _of_scipy("erfc"), "complementary error function, ``1 - erf(input)``")
_every("erfinv", _of_scipy("erfinv"), "inverse of the error function")
lgamma = ROWS.op(
    "lgamma",
    _of_scipy("gammaln"),
    SELF,
    floating.checked(for_kinds("buif", "lgamma_vml_cpu")),
    forms="function method in_place",
    keeps=("self",),
    doc="Return the logarithm of the absolute value of the gamma function.",
)
ROWS.function("special", name="gammaln", out=True)(lgamma)
digamma = _every(
    "digamma", _of_scipy("psi"), "derivative of `lgamma`", kernel="digamma", also="psi"
)
i0 = _every("i0", _of_scipy("special_i0"), "modified Bessel function of order 0")


def _sinc(x: Array) -> Any:
    found: Any = np.sinc(_in_single(x))
    return convert(found, x.dtype) if found.dtype != x.dtype else found


ROWS.op(
    "sinc",
    _sinc,
    SELF,
    floating,
    forms=EVERY,
    keeps=("self",),
    doc="Return ``sin(pi * input) / (pi * input)``, which is 1 at 0.",
)


def _only_special(
    name: str,
    computes: Callable[[Array], Any],
    saves: tuple[tuple[str, int], ...],
    says: str,
    *,
    half: bool = True,
) -> Callable[..., Any]:
    """Add a function of one operand to ``torch.special``."""
    promote = (
        floating.checked(for_kinds("buif", f"{name}_cpu"))
        if half
        else _single_or_double(f"{name}_cpu")
    )
    op = Op(
        "".join(part.title() for part in f"special_{name}".split("_")) + "Backward0",
        computes,
        saves,
        promote,
        keeps=tuple(field for field, _ in saves),
        called=f"special_{name}",
    )

    def function(input: Operand) -> Value:
        return apply(op, (input,))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return the {says}."
    return ROWS.function("special", out=True)(function)


_only_special("entr", _of_scipy("entr"), SELF, "entropy of each element: ``-input * log(input)``")
_only_special(
    "erfcx",
    _of_scipy("erfcx"),
    (("result", -1), *SELF),
    "scaled complementary error function, ``exp(input**2) * erfc(input)``",
    half=False,
)
_only_special(
    "i0e", _of_scipy("i0e"), (("result", -1), *SELF), "modified Bessel function of order 0, scaled"
)
_only_special("i1", _of_scipy("i1"), (("result", -1), *SELF), "modified Bessel function of order 1")
_only_special(
    "i1e", _of_scipy("i1e"), (("result", -1), *SELF), "modified Bessel function of order 1, scaled"
)
_only_special(
    "log_ndtr",
    _of_scipy("log_ndtr"),
    (("result", -1), *SELF),
    "logarithm of the normal distribution function",
    half=False,
)
_only_special(
    "ndtri", _of_scipy("ndtri"), RESULT, "inverse of the normal distribution function", half=False
)
NDTR = Op(
    "MulBackward1",
    _of_scipy("ndtr"),
    SELF,
    floating.checked(for_kinds("buif", "erf_vml_cpu")),
    called="special_ndtr",
)


@ROWS.function("special", out=True)
def ndtr(input: Operand) -> Value:
    """Return the normal distribution function: ``(1 + erf(input / sqrt(2))) / 2``."""
    return apply(NDTR, (input,))


# -- the same functions of torch, under the names of torch.special ---------------------------------


def _same(name: str, function: Callable[..., Any]) -> None:
    ROWS.function("special", name=name, out=True)(function)


_NAMED = {row.name: row.function for row in f.ROWS}
_same("expit", _NAMED["sigmoid"])
for _name in ("exp2", "expm1", "log1p"):
    ROWS.function("special", name=_name, out=True)(_NAMED[_name])
ROWS.function("special", name="logsumexp", out=True)(reductions.logsumexp)


SPECIAL_ROUND = replace(f.ROUND_DECIMALS, called="special_round")


@ROWS.function("special", name="round", out=True)
def special_round(input: Operand, *, decimals: int = 0) -> Value:
    """Return the nearest integer (or number with ``decimals`` digits); halves round to even."""
    return apply(SPECIAL_ROUND, (input,), (decimals,))


@ROWS.function("special", name="softmax")
def special_softmax(input: Operand, dim: int, *, dtype: DtypeLike | None = None) -> Value:
    """Return the softmax along a dimension."""
    return reductions.softmax(input, dim, dtype)


@ROWS.function("special", name="log_softmax")
def special_log_softmax(input: Operand, dim: int, *, dtype: DtypeLike | None = None) -> Value:
    """Return the logarithm of the softmax along a dimension."""
    return reductions.log_softmax(input, dim, dtype)


# -- logit -----------------------------------------------------------------------------------------


def _logit(x: Array, eps: float | None) -> Any:
    wide = _in_single(x)
    if eps is not None:
        bound = wide.dtype.type(eps)
        wide = ew.clip_above(ew.clip_below(wide, bound), 1 - bound)
    inside = ew.logical_and(ew.greater_equal(wide, 0), ew.less_equal(wide, 1))
    safe = ew.mul(wide, ew.where(inside, wide.dtype.type(1), wide.dtype.type(np.nan)))
    found = ew.log(ew.div(safe, ew.sub(1, safe)))
    return convert(found, x.dtype) if found.dtype != x.dtype else found


LOGIT = Op(
    "LogitBackward0",
    _logit,
    SELF,
    floating.checked(for_kinds("buif", "logit_cpu")),
    keeps=("self",),
    details=lambda specs, params: {"eps": params[0]},
)


@ROWS.family(EVERY, out=True)
def logit(run: Run) -> Callable[..., Value]:
    """Return ``log(input / (1 - input))``, with the input limited to ``[eps, 1 - eps]``."""

    def function(input: Operand, eps: float | None = None) -> Value:
        return run(LOGIT, (input,), (None if eps is None else float(eps),))

    return function


# -- polygamma, mvlgamma ---------------------------------------------------------------------------


def _polygamma(x: Array, n: int) -> Any:
    wide = _in_single(x)
    if n == 0:
        found = special_primitive("psi")(wide)
    else:
        factor = float(math.factorial(n)) * (-1.0) ** (n + 1)
        found = ew.mul(special_primitive("zeta")(wide.dtype.type(n + 1), wide), factor)
    return convert(found, x.dtype) if found.dtype != x.dtype else found


POLYGAMMA = Op(
    "PolygammaBackward0",
    _polygamma,
    SELF,
    floating.checked(for_kinds("buif", "polygamma")),
    keeps=("self",),
    details=lambda specs, params: {"n": params[0]},
)

POLYGAMMA_IN_PLACE = replace(POLYGAMMA, node="PolygammaBackward1")


@ROWS.function("function special", out=True)
def polygamma(n: int, input: Operand) -> Value:
    """Return the derivative of order ``n`` of `digamma`.

    Raises:
        RuntimeError: for a negative order.
    """
    return _of_order(apply, input, n)


def _of_order(run: Run, input: Operand, n: int) -> Value:
    order = f.whole("polygamma", "n", n)
    if order < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if order < 2 and f.dtype_of(input).kind == "c":
        name = "digamma" if order == 0 else "trigamma"
        raise NotImplementedError(errors.no_kernel(name).format(DTYPES[f.dtype_of(input)].printed))
    return run(POLYGAMMA, (input,), (order,))


@ROWS.function("method", name="polygamma")
def polygamma_method(self: Tensor, n: int) -> Value:
    """Return the derivative of order ``n`` of `digamma`."""
    return _of_order(apply, self, n)


@ROWS.function("method")
def polygamma_(self: Tensor, n: int) -> Value:
    """`polygamma`, in place."""
    return _of_order(_write_order, self, n)


def _write_order(op: Op, operands: tuple[Any, ...], params: tuple[Any, ...] = (), /) -> Any:
    return write(POLYGAMMA_IN_PLACE, operands, params)


def _mvlgamma(x: Array, p: int) -> Any:
    wide = _in_single(x)
    total: Any = 0.25 * p * (p - 1) * math.log(math.pi)
    for k in range(p):
        total = ew.add(special_primitive("gammaln")(ew.sub(wide, 0.5 * k)), total)
    return convert(total, x.dtype) if total.dtype != x.dtype else total


MVLGAMMA = Op(
    "MvlgammaBackward0",
    _mvlgamma,
    SELF,
    floating.checked(for_kinds("buif", "arange_cpu")),
    keeps=("self",),
    details=lambda specs, params: {"p": params[0]},
)


@ROWS.family("function method in_place", out=True)
def mvlgamma(run: Run) -> Callable[..., Value]:
    """Return the logarithm of the multivariate gamma function of dimension ``p``."""

    def function(input: Operand, p: int) -> Value:
        if f.dtype_of(input).kind == "b":
            raise RuntimeError("The input tensor may not be a boolean tensor.")
        if f.whole("mvlgamma", "p", p, 1) < 1:
            raise RuntimeError("p has to be greater than or equal to 1")
        return run(MVLGAMMA, (input,), (int(p),))

    return function


_same("multigammaln", mvlgamma)


# -- of two operands -------------------------------------------------------------------------------


def _number_field(name: str, position: int) -> Callable[..., dict[str, Any]]:
    return lambda specs, params: {name: specs[position][1]}


def _with_numbers(
    node: str, called: str, computes: Callable[[Any, Any], Any], promote: Promotion
) -> tuple[Op, Op, Op]:
    """Return the ops of a function of two tensors, of a number and a tensor, and of a tensor and a
    number.
    """
    first = Op(f"{node}Backward0", computes, BOTH, promote, keeps=("self", "other"), called=called)
    return (
        first,
        replace(
            first,
            node=f"{node}Backward1",
            saves=(("other", 1),),
            edges=(1,),
            static_numbers=True,
            details=_number_field("self", 0),
        ),
        replace(
            first,
            node=f"{node}Backward2",
            saves=SELF,
            edges=(0,),
            static_numbers=True,
            details=_number_field("other", 1),
        ),
    )


def _pick(ops: tuple[Op, Op, Op], name: str, run: Run, input: Any, other: Any) -> Value:
    x, y = number_of(input), number_of(other)
    numbers = type(x) in NUMBERS, type(y) in NUMBERS
    if all(numbers):
        raise TypeError(errors.invalid_combination(name, (input, other)))
    return run(ops[1] if numbers[0] else ops[2] if numbers[1] else ops[0], (x, y))


XLOGY = _with_numbers(
    "Xlogy", "xlogy", _of_two("xlogy"), floating.checked(for_kinds("buif", "xlogy_cpu"))
)
XLOG1PY = _with_numbers(
    "SpecialXlog1Py",
    "special_xlog1py",
    _of_two("xlog1py"),
    floating.checked(for_kinds("buif", "xlog1py_cpu")),
)
ZETA = _with_numbers("SpecialZeta", "special_zeta", _of_two("zeta"), _single_or_double("zeta_cpu"))


@ROWS.family(EVERY, out=True)
def xlogy(run: Run) -> Callable[..., Value]:
    """Return ``input * log(other)``, 0 where the input is 0; either may be a number."""

    def function(input: Operand, other: Operand) -> Value:
        return _pick(XLOGY, "xlogy", run, input, other)

    return function


@ROWS.function("special", out=True)
def xlog1py(input: Operand, other: Operand) -> Value:
    """Return ``input * log1p(other)``, 0 where the input is 0; either may be a number."""
    return _pick(XLOG1PY, "special_xlog1py", apply, input, other)


def _refuse_tangents(name: str, *operands: Operand) -> None:
    """Refuse dual tensors in a function for which PyTorch has no forward mode.

    Raises:
        NotImplementedError: if an operand has a tangent.
    """
    if DUALS.level is not None and DUALS.level.concerns(operands):
        raise NotImplementedError(errors.no_forward(name))


@ROWS.function("special", out=True)
def zeta(input: Operand, other: Operand) -> Value:
    """Return the Hurwitz zeta function: the sum of ``(k + other) ** -input`` over ``k``.

    There is a derivative by ``other`` only, in reverse mode.
    """
    _refuse_tangents("special_zeta", input, other)
    return _pick(ZETA, "special_zeta", apply, input, other)


def _incomplete(name: str, scipy_name: str, says: str, also: str) -> None:
    op = Op(
        f"{name.title()}Backward0",
        _of_two(scipy_name),
        BOTH,
        arithmetic.checked(for_kinds("f", f"{name}_cpu")),
        keeps=("self", "other"),
    )

    def make(run: Run) -> Callable[..., Value]:
        def function(input: Operand, other: Operand) -> Value:
            f.tensors_only(name, input=input, other=other)
            _refuse_tangents(name if run is apply else f"{name}_", input, other)
            return run(op, (input, other))

        return function

    make.__name__, make.__doc__ = name, f"Return the regularized {says} incomplete gamma function."
    function = ROWS.family("function method in_place", out=True)(make)
    ROWS.function("special", name=also, out=True)(function)


_incomplete("igamma", "gammainc", "lower", "gammainc")
_incomplete("igammac", "gammaincc", "upper", "gammaincc")


# -- functions that PyTorch does not differentiate -------------------------------------------------


def _constant(
    name: str, computes: Callable[..., Any], says: str, *, of_degree: bool = False
) -> None:
    """Add a function of ``torch.special`` whose result requires no gradient and has no tangent, as
    in PyTorch.
    """
    op = Op(
        "NotImplemented",
        computes,
        promote=_single_or_double(f"{name}_cpu"),
        called=f"special_{name}",
        constants=(0,),
    )

    def function(input: Operand) -> Value:
        with no_grad():
            return apply(op, (input,))

    def of_two(input: Operand, n: Operand) -> Value:
        with no_grad():
            return apply(op, (number_of(input), number_of(n)))

    made = of_two if of_degree else function
    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"Return the {says}."
    ROWS.function("special", out=True)(made)


def _airy(x: Array) -> Any:
    return special_primitive("airy")(x)[0]


_constant("airy_ai", _airy, "Airy function Ai")
for _kind, _order in ((k, n) for k in "jy" for n in (0, 1)):
    _constant(
        f"bessel_{_kind}{_order}",
        _of_scipy(f"{_kind}{_order}"),
        f"Bessel function of the {'first' if _kind == 'j' else 'second'} kind of order {_order}",
    )
for _kind, _order in ((k, n) for k in "ik" for n in (0, 1)):
    _constant(
        f"modified_bessel_{_kind}{_order}",
        _of_scipy("special_i0" if (_kind, _order) == ("i", 0) else f"{_kind}{_order}"),
        f"modified Bessel function of the {'first' if _kind == 'i' else 'second'} kind of order "
        f"{_order}",
    )
for _order in (0, 1):
    _constant(
        f"scaled_modified_bessel_k{_order}",
        _of_scipy(f"k{_order}e"),
        f"modified Bessel function of the second kind of order {_order}, times ``exp(input)``",
    )
_constant(
    "spherical_bessel_j0",
    lambda x: np.sinc(x / math.pi).astype(x.dtype),
    "spherical Bessel function of order 0, ``sin(input) / input``",
)


def _polynomial(scipy_name: str, change: float = 0.0, shifted: bool = False) -> Callable[..., Any]:
    """Return a function of ``(x, n)``: the polynomial of degree ``n``, 0 for negative degrees, plus
    ``change`` times the one of degree ``n - 1``.
    """

    def function(x: Any, n: Any) -> Any:
        beside = x.dtype if hasattr(x, "dtype") else n.dtype
        degree = convert(n, np.int64) if hasattr(n, "dtype") else np.int64(int(n))
        place = convert(x, np.float64) if hasattr(x, "dtype") else np.float64(x)
        place = ew.sub(ew.mul(place, 2.0), 1.0) if shifted else place
        evaluate = special_primitive(scipy_name)

        def of_degree(k: Any, least: int) -> Any:
            return ew.where(ew.less(degree, least), 0.0, evaluate(ew.maximum(k, 0), place))

        found = of_degree(degree, 0)
        if change:
            found = ew.add(found, ew.mul(of_degree(ew.sub(degree, 1), 1), change))
        return convert(found, beside)

    return function


for _letter, _name, _change in (
    ("t", "eval_chebyt", 0.0),
    ("u", "eval_chebyu", 0.0),
    ("v", "eval_chebyu", -1.0),
    ("w", "eval_chebyu", 1.0),
):
    for _prefix in ("", "shifted_"):
        _constant(
            f"{_prefix}chebyshev_polynomial_{_letter}",
            _polynomial(_name, _change, bool(_prefix)),
            f"{_prefix.replace('_', ' ')}Chebyshev polynomial {_letter.upper()} of degree ``n``",
            of_degree=True,
        )
for _called, _name, _says in (
    ("hermite_polynomial_h", "eval_hermite", "physicists' Hermite polynomial"),
    ("hermite_polynomial_he", "eval_hermitenorm", "probabilists' Hermite polynomial"),
    ("laguerre_polynomial_l", "eval_laguerre", "Laguerre polynomial"),
    ("legendre_polynomial_p", "eval_legendre", "Legendre polynomial"),
):
    _constant(_called, _polynomial(_name), f"{_says} of degree ``n``", of_degree=True)
