"""Cases of the primitives that are PyTorch's at the edges of their domains: functrace/ops/edges.py,
norms.py, reductions.py.
"""

from __future__ import annotations

import math

import numpy as np

from functrace.ops import edges, reductions
from functrace.ops.indexing import ARRAY, scatter_each
from functrace.ops.norms import vector_norm
from tests.cases.case import Case

_rng = np.random.default_rng(4)
X = _rng.normal(size=(2, 3))
Y = np.array([[-2.3, -1.4, -0.6], [0.3, 1.7, 2.6]])
Z = X + 1j * _rng.uniform(-0.9, 0.9, (2, 3))
POSITIVE = _rng.uniform(0.3, 3.0, (2, 3))
_ORDERS = (1, 1.5, 2, 3, 0.5, -1, math.inf, -math.inf)

CASES: list[Case] = [
    Case("edges/power", lambda x, n: edges.plain_power(x, n), (POSITIVE, Y), diff=(0, 1)),
    Case("edges/power, complex", lambda x, n: edges.plain_power(x, n), (Z + 2.0, Z), diff=(0, 1)),
    Case("edges/power of a number", lambda n: edges.plain_power(2.0, n), (Y,)),
    *[Case(f"edges/complex power, {n}", lambda x, n=n: edges.complex_power(x, n), (Z + 2.0,))
      for n in (0, 1, 2, 3, 4, -1, -2, 0.5, -0.5, 1.5, 1 + 2j)],
    Case("edges/complex power", lambda x, n: edges.complex_power(x, n), (Z + 2.0, Z), diff=(0, 1)),
    Case("edges/complex power of a number", lambda n: edges.complex_power(2.0, n), (Z,)),
    Case("edges/complex reciprocal", lambda x: edges.complex_reciprocal(x), (Z,)),
    Case("edges/hypot", lambda x, y: edges.plain_hypot(x, y), (X, Y), diff=(0, 1)),
    Case("edges/logaddexp", lambda x, y: edges.plain_logaddexp(x, y), (X, Y), diff=(0, 1)),
    Case("edges/arccosh", lambda x: edges.plain_arccosh(x), (POSITIVE + 1.0,)),
    Case("edges/arccosh, complex", lambda x: edges.plain_arccosh(x), (Z + 2.0,)),
    Case("edges/absolute", lambda x: edges.plain_absolute(x), (Y,)),
    Case("edges/absolute, complex", lambda x: edges.plain_absolute(x), (Z,)),
    Case("edges/sgn", lambda x: edges.sgn(x), (Z,)),
    Case("edges/rsqrt", lambda x: edges.rsqrt(x), (POSITIVE,),
    edge=((POSITIVE.astype(np.float32),), (Z + 2.0,))),
    Case("edges/remainder", lambda x, y: edges.signed_remainder(x, y), (X, Y), diff=(0, 1)),
    Case("edges/lerp", lambda x, y, w: edges.lerp(x, y, w), (X, Y, POSITIVE / 3.0), diff=(0, 1, 2)),
    Case("edges/lerp by a number", lambda x, y: edges.lerp(x, y, 0.7), (X, Y), diff=(0, 1)),
    Case("edges/clamp", lambda x, y: edges.clamp(x, y, np.abs(y) + 0.25), (X, Y), diff=(0, 1)),
    *[Case(f"norm/{p}", lambda x, p=p: vector_norm(x, (1,), p), (Y,)) for p in _ORDERS],
    *[Case(f"norm/{p}, complex", lambda x, p=p: vector_norm(x, (0, 1), p), (Z,)) for p in (1, 1.5,
    2, 3, math.inf)],
    Case("logsumexp", lambda x: reductions.logsumexp(x, (1,)), (X,), edge=((X[:0],),
    (X.astype(np.float32),))),
    Case("logsumexp/kept", lambda x: reductions.keeping(reductions.logsumexp, x, (0,)), (X,)),
    *[Case(f"variance/{c}", lambda x, c=c: reductions.variance(x, (1,), c), (X,)) for c in (0, 1,
    2.5)],
    Case("variance/complex", lambda x: reductions.variance(x, (0, 1), 1), (Z,)),
    Case("shared", lambda x: reductions.shared(x, np.max(x)), (X,)),
    Case("shared/rows", lambda x: reductions.shared(x, np.max(x, 1)), (X,)),
    Case("scatter_each", lambda x, y: scatter_each(x, (ARRAY,), y[:, :1], (np.array([1, 0]),)),
    (X, Y), diff=(0, 1)),
    Case("scatter_each/of zeros", lambda y: scatter_each(np.zeros(3), (ARRAY,), y[0],
    (np.array([2, 0, 1]),)), (Y,)),
]  # fmt: skip
