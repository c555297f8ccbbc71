"""Cases of reductions, running sums and products, and statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

from functrace.ops.reductions import log_softmax, softmax
from tests.cases.case import Case

_rng = np.random.default_rng(7)
X = _rng.normal(size=(3, 4))
DISTINCT = _rng.permutation(12).reshape(3, 4) / 3.0 + 0.1
POSITIVE = _rng.uniform(0.5, 2.0, (3, 4))
Z = X + 1j * _rng.normal(size=(3, 4))
WITH_ZEROS = np.array([[2.0, 0.0, -1.5, 0.5], [0.0, 3.0, 0.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
NANS = np.where(np.arange(12).reshape(3, 4) % 5 == 2, np.nan, DISTINCT)
MASK = np.array([[True, False, True, True], [True, True, True, False], [False, True, True, True]])
F32 = X.astype(np.float32)
ROW = _rng.permutation(7) * 0.7
EDGES: tuple[tuple[Any, ...], ...] = (
    (F32,), (Z,), (np.float64(2.5),), (X[::-1, ::-2],), (np.arange(6).reshape(2, 3),),
    (X.astype(np.float16),),
)  # fmt: skip
EMPTY: tuple[tuple[Any, ...], ...] = (
    (np.zeros((0, 3)),),
    (np.zeros((2, 0), np.float32),),
    (np.zeros((2, 0), int),),
)
REAL_EDGES = tuple(e for e in EDGES if np.asarray(e[0]).dtype.kind != "c")


def _case(name: str, call: Any, x: Any = X, **more: Any) -> Case:
    return Case(name, call, (x,), **more)


CASES = [
    _case(
        "sum",
        lambda x: np.sum(x),
        edge=(*EDGES, (np.zeros((0, 3)),), (np.array([True, False]),), (np.array([np.inf, 1.0]),)),
    ),
    _case("sum/axis", lambda x: np.sum(x, axis=1)),
    _case("sum/axes, keepdims", lambda x: np.sum(x, axis=(0, -1), keepdims=True)),
    _case("sum/no axes", lambda x: np.sum(x, axis=())),
    _case(
        "sum/dtype",
        lambda x: np.sum(x, dtype=np.float32, axis=0),
        tol=2e-2,
        order=1,
        edge=((np.arange(5).reshape(1, 5),),),
    ),
    _case("sum/initial, where", lambda x: np.sum(x, axis=0, initial=2.0, where=MASK)),
    _case("sum/method", lambda x: x.sum(0, keepdims=True)),
    _case("sum/complex", lambda x: np.sum(x, axis=-1), Z),
    _case("add.reduce", lambda x: np.add.reduce(x), edge=((F32,),)),
    _case("prod", lambda x: np.prod(x), X[:2], edge=EDGES),
    _case("prod/zeros", lambda x: np.prod(x, axis=1), WITH_ZEROS),
    _case(
        "prod/odd count, keepdims",
        lambda x: np.prod(x, axis=(0,), keepdims=True),
        WITH_ZEROS[:, ::-1],
    ),
    _case("prod/initial, where", lambda x: np.prod(x, axis=0, initial=2.0, where=MASK)),
    _case("prod/complex", lambda x: np.prod(x, axis=1), Z),
    _case("prod/one element", lambda x: np.prod(x, axis=0), X[:1]),
    _case(
        "max",
        lambda x: np.max(x),
        DISTINCT,
        edge=(*REAL_EDGES, (np.array([1.0, np.nan]),)),
        raises=(((np.zeros(0),), ValueError),),
    ),
    _case("max/axis", lambda x: np.amax(x, axis=0, keepdims=True), DISTINCT),
    _case("max/initial, where", lambda x: np.max(x, axis=1, initial=1.03, where=MASK), DISTINCT),
    _case("max/method", lambda x: x.max(-1), DISTINCT),
    _case("min", lambda x: np.min(x), DISTINCT, edge=REAL_EDGES),
    _case("min/axis", lambda x: np.amin(x, axis=-1), DISTINCT),
    _case("ptp", lambda x: np.ptp(x, axis=1), DISTINCT),
    _case("any", lambda x: np.any(x > 0, axis=0), diff=(), edge=((X[::-1],),)),
    _case("all", lambda x: np.all(x > -1, axis=(0, 1), keepdims=True), diff=(), edge=((X[::-1],),)),
    _case("all/where", lambda x: np.all(x > 0, where=MASK), diff=()),
    _case("argmax", lambda x: np.argmax(x), diff=(), edge=((F32,), (Z,))),
    _case("argmax/axis", lambda x: np.argmax(x, axis=0, keepdims=True), diff=()),
    _case("argmin", lambda x: x.argmin(1), diff=()),
    _case("argmin/all, keepdims", lambda x: np.argmin(x, keepdims=True), diff=()),
    _case(
        "count_nonzero", lambda x: np.count_nonzero(x > 0, axis=1), diff=(), edge=((WITH_ZEROS,),)
    ),
    _case("mean", lambda x: np.mean(x), edge=EDGES),
    _case("mean/axis", lambda x: np.mean(x, axis=(0,), keepdims=True)),
    _case("mean/where", lambda x: np.mean(x, axis=1, where=MASK)),
    _case("mean/dtype", lambda x: np.mean(x, dtype=np.complex128)),
    _case("mean/complex", lambda x: np.mean(x, axis=0), Z),
    _case("var", lambda x: np.var(x), edge=EDGES),
    _case("var/ddof", lambda x: np.var(x, axis=0, ddof=1, keepdims=True)),
    _case("var/correction, where", lambda x: np.var(x, axis=1, correction=1, where=MASK)),
    _case("var/complex", lambda x: np.var(x, axis=1), Z),
    _case("std", lambda x: np.std(x), edge=EDGES),
    _case("std/ddof", lambda x: np.std(x, axis=-1, ddof=1)),
    _case("std/method", lambda x: x.std(axis=0, keepdims=True)),
    _case("std/complex", lambda x: np.std(x, axis=0), Z),
    _case("average", lambda x: np.average(x, axis=0), edge=((F32,), (np.arange(3),))),
    Case(
        "average/weights", lambda x, w: np.average(x, axis=1, weights=w), (X, POSITIVE), diff=(0, 1)
    ),
    Case(
        "average/weights of an axis",
        lambda x, w: np.average(x, axis=0, weights=w),
        (X, POSITIVE[:, 0]),
        diff=(0, 1),
    ),
    Case(
        "average/returned",
        lambda x, w: np.average(x, weights=w, returned=True),
        (X, POSITIVE),
        diff=(0, 1),
    ),
    _case("median", lambda x: np.median(x), DISTINCT, edge=((F32,), (NANS,), (np.arange(6),))),
    _case("median/axis", lambda x: np.median(x, axis=0, keepdims=True), DISTINCT),
    _case("median/odd", lambda x: np.median(x, axis=-1), ROW),
    _case(
        "quantile",
        lambda x: np.quantile(x, 0.3, axis=1),
        DISTINCT,
        edge=((F32,), (NANS,), (np.arange(8).reshape(2, 4),)),
    ),
    _case(
        "quantile/several",
        lambda x: np.quantile(x, [0.0, 0.25, 0.9, 1.0], axis=0, keepdims=True),
        DISTINCT,
    ),
    Case(
        "quantile/by q",
        lambda x, q: np.quantile(x, q),
        (ROW, np.array([[0.21], [0.8]])),
        diff=(0, 1),
    ),
    *[
        _case(f"quantile/{method}", lambda x, m=method: np.quantile(x, [0.13, 0.56], method=m), ROW)
        for method in (
            "lower",
            "higher",
            "nearest",
            "midpoint",
            "hazen",
            "weibull",
            "median_unbiased",
            "normal_unbiased",
            "interpolated_inverted_cdf",
        )
    ],
    _case("percentile", lambda x: np.percentile(x, [10.0, 77.0]), DISTINCT),
    _case(
        "nanquantile",
        lambda x: np.nanquantile(x, [0.3, 0.8], axis=1),
        DISTINCT,
        edge=((NANS,), *EMPTY),
    ),
    _case("nanpercentile", lambda x: np.nanpercentile(x, 40.0), DISTINCT, edge=((NANS,),)),
    _case("nanmedian", lambda x: np.nanmedian(x, axis=0), DISTINCT, edge=((NANS,), *EMPTY)),
    _case(
        "quantile/empty",
        lambda x: np.quantile(x, 0.3, axis=1),
        np.zeros((0, 3)),
        raises=(((np.zeros((2, 0)),), IndexError),),
    ),
    *[
        _case(
            f"maximum.accumulate/empty {k}",
            lambda x, k=k: np.maximum.accumulate(x, axis=k),
            np.zeros((0, 3)),
        )
        for k in (0, 1)
    ],
    _case("nansum", lambda x: np.nansum(x, axis=0), edge=((NANS,), (F32,))),
    _case("nanprod", lambda x: np.nanprod(x, axis=0), edge=((NANS,),)),
    _case("nanmax", lambda x: np.nanmax(x, axis=0), DISTINCT, edge=((NANS,), (F32,))),
    _case("nanmin", lambda x: np.nanmin(x, axis=0), DISTINCT, edge=((NANS,),)),
    _case("nanmean", lambda x: np.nanmean(x, axis=0), edge=((NANS,), (F32,))),
    _case("nanvar", lambda x: np.nanvar(x, axis=1, ddof=1), edge=((NANS,), (F32,))),
    _case("nanstd", lambda x: np.nanstd(x, axis=1), edge=((NANS,),)),
    _case("nanargmax", lambda x: np.nanargmax(x, axis=1), diff=(), edge=((NANS,),)),
    _case("nanargmin", lambda x: np.nanargmin(x), diff=(), edge=((NANS,),)),
    _case("cumsum", lambda x: np.cumsum(x), edge=(*EDGES, (np.zeros((0, 3)),))),
    _case("cumsum/axis", lambda x: np.cumsum(x, axis=0)),
    _case("cumsum/complex", lambda x: x.cumsum(-1), Z),
    _case("cumprod", lambda x: np.cumprod(x), X[:2], edge=EDGES),
    _case("cumprod/zeros", lambda x: np.cumprod(x, axis=1), WITH_ZEROS),
    _case("cumprod/first axis", lambda x: np.cumprod(x, axis=0), WITH_ZEROS),
    _case("cumprod/complex", lambda x: np.cumprod(x, axis=1), Z),
    _case("nancumsum", lambda x: np.nancumsum(x, axis=1), edge=((NANS,),)),
    _case("nancumprod", lambda x: np.nancumprod(x, axis=1), edge=((NANS,),)),
    _case("cumulative_sum", lambda x: np.cumulative_sum(x, axis=1, include_initial=True)),
    _case(
        "cumulative_prod", lambda x: np.cumulative_prod(x, axis=0, include_initial=True), WITH_ZEROS
    ),
    _case("add.accumulate", lambda x: np.add.accumulate(x, axis=1)),
    _case("multiply.accumulate", lambda x: np.multiply.accumulate(x), WITH_ZEROS),
    _case(
        "maximum.accumulate",
        lambda x: np.maximum.accumulate(x, axis=1),
        DISTINCT,
        edge=((NANS,), (F32,)),
    ),
    _case("minimum.accumulate", lambda x: np.minimum.accumulate(x), DISTINCT),
    _case(
        "logaddexp.reduce",
        lambda x: np.logaddexp.reduce(x, axis=1),
        edge=((np.array([[-np.inf, -np.inf]]),), (F32,)),
    ),
    _case("logaddexp2.reduce", lambda x: np.logaddexp2.reduce(x)),
    _case("fmax.reduce", lambda x: np.fmax.reduce(x), DISTINCT, edge=((NANS,),)),
    _case("fmin.reduce", lambda x: np.fmin.reduce(x, axis=1), DISTINCT),
    _case("hypot.reduce", lambda x: np.hypot.reduce(x, axis=1)),
    _case(
        "diff",
        lambda x: np.diff(x),
        edge=((F32,), (np.array([True, False, False]),), (np.arange(4),)),
    ),
    _case("diff/twice", lambda x: np.diff(x, n=2, axis=0)),
    _case("diff/ends", lambda x: np.diff(x, prepend=0.5, append=x[:, :1])),
    _case("ediff1d/both_ends", lambda x: np.ediff1d(x, to_begin=-1.0, to_end=[3.0, 4.0])),
    _case("trapezoid", lambda y: np.trapezoid(y), edge=((F32,),)),
    Case(
        "trapezoid/x",
        lambda y, x: np.trapezoid(y, x, axis=0),
        (X, np.array([0.0, 0.7, 2.0])),
        diff=(0, 1),
    ),
    Case(
        "trapezoid/x of equal shape",
        lambda y, x: np.trapezoid(y, x, axis=1),
        (X, np.cumsum(POSITIVE, 1)),
        diff=(0, 1),
    ),
    _case("trapezoid/dx", lambda y: np.trapezoid(y, dx=0.25)),
    _case("softmax", lambda x: softmax(x, 1), edge=((F32,), (X[:, :0],), (X.astype(np.float16),))),
    _case("softmax/first axis, large", lambda x: softmax(x, 0), 300.0 * X),
    _case(
        "log_softmax",
        lambda x: log_softmax(x, 1),
        edge=((F32,), (X[:, :0],), (X.astype(np.float16),)),
    ),
    _case("log_softmax/first axis, large", lambda x: log_softmax(x, 0), 300.0 * X),
]
