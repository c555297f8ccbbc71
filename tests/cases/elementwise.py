"""Cases of elementwise functions: one per row of functrace/ops/elementwise.py, and NumPy's
functions made of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ops.elementwise import relu, sigmoid
from tests.cases.case import Case

_rng = np.random.default_rng(3)
X = _rng.normal(size=(2, 3))
UNIT = _rng.uniform(-0.9, 0.9, (2, 3))
POSITIVE = _rng.uniform(0.3, 3.0, (2, 3))
ABOVE_ONE = _rng.uniform(1.2, 3.0, (2, 3))
AWAY = np.array([[-2.3, -1.4, -0.6], [0.3, 1.7, 2.6]])
Z = X + 1j * UNIT
INTS = np.array([[3, -1, 2], [5, 4, -6]])
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0])
COLUMN = np.array([[0.7], [1.3]])
COMPLEX_SPECIAL = np.array([complex(np.nan, 1.0), complex(2.0, np.inf), complex(-np.inf, np.nan)])


def _edges(x: Any) -> tuple[tuple[Any, ...], ...]:
    return (
        (x.astype(np.float32),),
        (x[0, 0],),
        (x[::-1, ::-2],),
        (x[:0],),
        (x.astype(np.float16),),
        (SPECIAL,),
    )


def _unary(
    name: str, call: Any, x: Any = X, *, holomorphic: Any = None, zero: bool = False, **more: Any
) -> list[Case]:
    cases = [Case(name, lambda x: call(x), (x,), edge=_edges(x), order=0 if zero else 2, **more)]
    if holomorphic is not None:
        cases.append(Case(f"{name}/complex", lambda x: call(x), (holomorphic,)))
    return cases


def _binary(name: str, call: Any, x: Any = X, y: Any = AWAY, **more: Any) -> list[Case]:
    f32 = (np.asarray(x, np.float32), np.asarray(y, np.float32))
    edge = (
        f32,
        (x, y[0]),
        (x[0, 0], y),
        (x[::-1, ::-1], y),
        (x[:0], y[:0]),
        (SPECIAL, SPECIAL[::-1]),
        (f32[0], y),
    )
    diff = more.pop("diff", (0, 1))
    return [
        Case(name, lambda x, y: call(x, y), (x, y), diff=diff, edge=edge, **more),
        Case(f"{name}/broadcast", lambda x, y: call(x, y), (x, y[:, :1]), diff=diff, **more),
    ]


def _integers(name: str, call: Any, *args: Any) -> Case:
    return Case(name, call, args, diff=(), edge=((*(np.asarray(a, np.int32) for a in args),),))


CASES: list[Case] = [
    # arithmetic
    *_binary("add", np.add), *_binary("subtract", np.subtract), *_binary("multiply", np.multiply),
    *_binary("divide", np.divide), *_unary("negative", np.negative, holomorphic=Z),
    *_unary("positive", np.positive),
    Case("multiply/complex and real", lambda x, y: np.multiply(x, y), (Z, X), diff=(0, 1)),
    Case("divide/complex", lambda x, y: x / y, (Z, Z + 2.0), diff=(0, 1)),
    Case("add/number", lambda x: 2 + x - 1.5j * x, (Z,)),
    # powers
    *_binary("power", np.power, POSITIVE, AWAY),
    *_binary("float_power", np.float_power, POSITIVE, AWAY),
    Case("power/of a number", lambda y: 2.0**y, (AWAY,)),
    Case("power/integer exponents", lambda x, n: x**n, (np.array([0.0, 2.0, 0.0, -1.5]),
    np.array([1, 3, 2, 4]))),
    Case("power/zero", lambda x: x**0.0 + x**0 + x**1 + x**2 + x**3.0, (np.array([0.0, 1.5,
    -2.0]),)),
    Case("power/complex", lambda x, y: np.power(x, y), (Z + 2.0, Z), diff=(0, 1)),
    *_unary("square", np.square, holomorphic=Z), *_unary("sqrt", np.sqrt, POSITIVE,
    holomorphic=Z + 1.0),
    *_unary("cbrt", np.cbrt, AWAY), *_unary("reciprocal", np.reciprocal, AWAY, holomorphic=Z + 2.0),
    # exponentials and logarithms
    *_unary("exp", np.exp, holomorphic=Z), *_unary("exp2", np.exp2, holomorphic=Z),
    *_unary("expm1", np.expm1, holomorphic=Z),
    *_unary("log", np.log, POSITIVE, holomorphic=Z + 2.0), *_unary("log2", np.log2, POSITIVE,
    holomorphic=Z + 2.0),
    *_unary("log10", np.log10, POSITIVE, holomorphic=Z + 2.0), *_unary("log1p", np.log1p, POSITIVE,
    holomorphic=Z + 2.0),
    *_binary("logaddexp", np.logaddexp), *_binary("logaddexp2", np.logaddexp2),
    Case("logaddexp/tie", lambda x, y: np.logaddexp(x, y), (X, X.copy()), diff=(0, 1)),
    # trigonometry
    *_unary("sin", np.sin, holomorphic=Z), *_unary("cos", np.cos, holomorphic=Z), *_unary("tan",
    np.tan, UNIT, holomorphic=Z),
    *_unary("arcsin", np.arcsin, UNIT, holomorphic=Z), *_unary("arccos", np.arccos, UNIT,
    holomorphic=Z),
    *_unary("arctan", np.arctan, holomorphic=Z), *_binary("arctan2", np.arctan2), *_binary("hypot",
    np.hypot),
    *_unary("sinh", np.sinh, holomorphic=Z), *_unary("cosh", np.cosh, holomorphic=Z),
    *_unary("tanh", np.tanh, holomorphic=Z),
    *_unary("arcsinh", np.arcsinh, holomorphic=Z), *_unary("arccosh", np.arccosh, ABOVE_ONE,
    holomorphic=Z + 2.0),
    *_unary("arctanh", np.arctanh, UNIT, holomorphic=Z),
    *_unary("deg2rad", np.deg2rad), *_unary("rad2deg", np.rad2deg), *_unary("degrees", np.degrees),
    *_unary("radians", np.radians),
    # choices
    *_binary("maximum", np.maximum), *_binary("minimum", np.minimum), *_binary("fmax", np.fmax),
    *_binary("fmin", np.fmin),
    Case("maximum/number", lambda x: np.maximum(x, 0.0) + np.minimum(0.1, x), (X,)),
    Case("clip", lambda x: np.clip(x, -0.5, 0.8), (X,), edge=((X.astype(np.float32),), (SPECIAL,),
    (INTS,), (X[:0],))),
    Case("clip/bounds", lambda x, a, b: np.clip(x, a, b), (X, -np.abs(UNIT), COLUMN), diff=(0, 1,
    2)),
    Case("clip/one side", lambda x: np.clip(x, None, 0.3) + np.clip(x, -0.1, None) + np.clip(x,
    a_min=0.0, a_max=9.0), (X,)),
    Case("clip/min, max", lambda x: np.clip(x, min=-0.4) + np.clip(x, max=0.4), (X,)),
    Case("clip/method", lambda x: x.clip(-0.3, 0.3) + x.clip(max=1.0) + x.clip(min=0.2), (X,)),
    Case("clip/small integers", lambda x: np.clip(x, -1, 300), (INTS.astype(np.uint8),), diff=()),
    # remainders and parts of numbers
    *_binary("remainder", np.remainder), *_binary("fmod", np.fmod), *_binary("copysign",
    np.copysign, AWAY, X),
    *_binary("floor_divide", np.floor_divide, order=0),
    Case("divmod", lambda x, y: np.divmod(x, y), (X, AWAY), diff=(0, 1)),
    Case("divmod/operator", lambda x: divmod(x, 0.7), (X,)),
    Case("ldexp", lambda x, n: np.ldexp(x, n), (X, INTS)),
    *_binary("nextafter", np.nextafter, diff=(0,), order=0),
    Case("modf", lambda x: np.modf(x), (AWAY,), edge=((AWAY.astype(np.float32),), (AWAY[0, 0],))),
    Case("frexp", lambda x: np.frexp(x), (AWAY,), edge=((AWAY.astype(np.float32),), (AWAY[0, 0],))),
    # complex numbers
    *_unary("absolute", np.absolute, AWAY, holomorphic=Z), *_unary("fabs", np.fabs, AWAY),
    *_unary("conjugate", np.conjugate, holomorphic=Z), *_unary("sign", np.sign, AWAY,
    holomorphic=Z),
    Case("real", lambda x: np.real(x), (Z,), edge=((X,), (Z[0, 0],))),
    Case("imag", lambda x: np.imag(x), (Z,), edge=((X,), (Z[0, 0],))),
    Case("angle", lambda x: np.angle(x), (Z,), edge=((X,), (Z.astype(np.complex64),))),
    Case("angle/degrees", lambda x: np.angle(x, deg=True), (Z,)),
    Case("real and imag", lambda x: x.real**2 + x.imag * x.real, (Z,)),
    Case("real_if_close", lambda x: np.real_if_close(x), (Z,), vmap=False, edge=((X,), (X + 0j,))),
    Case("isreal", lambda x: np.isreal(x), (Z,), diff=(), edge=((X,), (X + 0j,))),
    Case("iscomplex", lambda x: np.iscomplex(x), (Z,), diff=(), edge=((X,),)),
    # piecewise constant
    *_unary("floor", np.floor, AWAY, zero=True), *_unary("ceil", np.ceil, AWAY, zero=True),
    *_unary("trunc", np.trunc, AWAY, zero=True), *_unary("rint", np.rint, AWAY, zero=True),
    *_unary("fix", np.fix, AWAY, zero=True), *_unary("spacing", np.spacing, AWAY, zero=True),
    *_binary("heaviside", np.heaviside, AWAY, X, diff=(), order=0),
    Case("heaviside/at zero", lambda x: np.heaviside(np.array([0.0, 1.0, -1.0]), x), (X[:1, :3],)),
    *_unary("round", lambda x: np.round(x, 1), AWAY, zero=True), *_unary("around", np.around, AWAY,
    zero=True),
    Case("round/integers", lambda x: np.round(x, -1), (INTS * 13,), diff=()),
    # truth
    *[
        case
        for f in (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
        np.logical_and, np.logical_or,
                  np.logical_xor)
        for case in _binary(f.__name__, f, diff=())
    ],
    *[
        case
        for f in (np.logical_not, np.isfinite, np.isinf, np.isnan, np.signbit, np.isposinf,
        np.isneginf)
        for case in _unary(f.__name__, f, zero=True, diff=())
    ],
    Case("isclose", lambda x, y: np.isclose(x, y), (X, X + 1e-9), diff=(), edge=((SPECIAL,
    SPECIAL), (INTS, INTS + 1))),
    Case("isclose/equal_nan", lambda x, y: np.isclose(x, y, equal_nan=True), (X, X), diff=(),
    edge=((SPECIAL, SPECIAL),)),
    Case("allclose", lambda x, y: np.logical_not(np.allclose(x, y)), (X, X), diff=()),
    Case("array_equal", lambda x, y: np.logical_not(np.array_equal(x, y)), (X, X), diff=(),
    edge=((SPECIAL, SPECIAL),)),
    Case("array_equiv", lambda x, y: np.logical_not(np.array_equiv(x, y)), (X, X[0]), diff=()),
    # integers
    _integers("bitwise_and", lambda x, y: np.bitwise_and(x, y), INTS, INTS.T.reshape(2, 3)),
    _integers("bitwise_or", lambda x, y: np.bitwise_or(x, y), INTS, INTS.T.reshape(2, 3)),
    _integers("bitwise_xor", lambda x, y: np.bitwise_xor(x, y), INTS, INTS.T.reshape(2, 3)),
    _integers("invert", lambda x: np.invert(x), INTS), _integers("bitwise_count",
    lambda x: np.bitwise_count(x), INTS),
    _integers("left_shift", lambda x, y: np.left_shift(x, y), INTS, np.abs(INTS)),
    _integers("right_shift", lambda x, y: np.right_shift(x, y), INTS, np.abs(INTS)),
    _integers("gcd", lambda x, y: np.gcd(x, y), INTS, INTS.T.reshape(2, 3)),
    _integers("lcm", lambda x, y: np.lcm(x, y), INTS, INTS.T.reshape(2, 3)),
    # not ufuncs
    Case("where", lambda x, y: np.where(x > y, x, y), (X, AWAY), diff=(0, 1), edge=((X, AWAY[0]),
    (X.astype(np.float32), 1.0))),
    Case("where/numbers", lambda x: np.where(x > 0, x, 0.0) + np.where(x > 0, 1, x), (X,),
    edge=((X.astype(np.float32),),)),
    Case("where/broadcast", lambda c, x, y: np.where(c > 0, x, y), (X, AWAY[0], COLUMN), diff=(1,
    2)),
    Case("where/one argument", lambda x: np.where(x > 0), (X,), diff=(), vmap=False),
    Case("select", lambda x, y: np.select([x > 1, x < -0.2], [x * 2, y], 3.0), (X, AWAY), diff=(0,
    1)),
    Case("select/default", lambda x: np.select([x > 0], [x**2]), (X,),
    edge=((X.astype(np.float32),),)),
    Case("nan_to_num", lambda x: np.nan_to_num(x), (X,), edge=((SPECIAL,),
    (SPECIAL.astype(np.float32),), (COMPLEX_SPECIAL,), (INTS,))),
    Case("nan_to_num/values", lambda x: np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-3.0), (X,),
    edge=((SPECIAL,),)),
    Case("sinc", lambda x: np.sinc(x), (np.array([0.0, 1e-3, 0.3, 1.0, -2.5]),),
    edge=((np.zeros((), np.float32),), (X[:0],))),
    Case("sinc/complex", lambda x: np.sinc(x), (Z,)),
    *_unary("relu", relu, AWAY), *_unary("sigmoid", sigmoid), Case("sigmoid/large",
    lambda x: sigmoid(x), (40.0 * AWAY,)),
]  # fmt: skip
