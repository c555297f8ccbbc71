"""Cases of sorting and searching."""

from __future__ import annotations

import numpy as np

from tests.cases.case import Case

_rng = np.random.default_rng(11)
X = _rng.permutation(12).reshape(3, 4) / 3.0 + 0.1
Z = X + 1j * X[::-1]
F32 = X.astype(np.float32)
NANS = np.where(X > 3, np.nan, X)
GRID = np.array([0.0, 1.0, 2.5, 4.0])

CASES = [
    Case(
        "sort",
        lambda x: np.sort(x),
        (X,),
        edge=((F32,), (NANS,), (X[::-1, ::-2],), (np.array([3, 1, 2]),), (np.zeros((0, 2)),)),
    ),
    Case("sort/axis", lambda x: np.sort(x, axis=0), (X,)),
    Case("sort/flat, stable", lambda x: np.sort(x, axis=None, stable=True), (X,)),
    Case("sort/kind", lambda x: np.sort(x, axis=-2, kind="mergesort"), (X,)),
    Case("sort/complex", lambda x: np.sort(x, axis=1), (Z,), order=1),
    Case("sort_complex", lambda x: np.sort_complex(x), (X,), edge=((Z,), (F32,))),
    Case("argsort", lambda x: np.argsort(x, axis=0), (X,), diff=(), edge=((F32,),)),
    Case("argsort/flat", lambda x: np.argsort(x, axis=None, kind="stable"), (X,), diff=()),
    Case("partition", lambda x: np.sort(np.partition(x, 2, axis=1)[:, :3]), (X,), raises=()),
    Case("partition/several", lambda x: np.partition(x, (0, 2), axis=0), (X,)),
    Case("argpartition", lambda x: np.argpartition(x, 1, axis=1)[:, 1], (X,), diff=()),
    Case("lexsort", lambda x, y: np.lexsort((x, np.floor(y))), (X[0], X[1]), diff=()),
    Case("lexsort/axis", lambda x, y: np.lexsort((x, np.floor(y)), axis=0), (X, X[::-1]), diff=()),
    Case(
        "searchsorted",
        lambda a, v: np.searchsorted(a, v),
        (GRID, X),
        diff=(),
        edge=((GRID, 2.0), (GRID, GRID)),
    ),
    Case(
        "searchsorted/right",
        lambda a, v: np.searchsorted(a, v, side="right"),
        (GRID, X),
        diff=(),
        edge=((GRID, GRID),),
    ),
    Case(
        "searchsorted/sorter",
        lambda a, v: np.searchsorted(a, v, sorter=np.argsort(a)),
        (X[1], X),
        diff=(),
    ),
    Case("digitize", lambda x: np.digitize(x, GRID), (X,), diff=(), edge=((GRID,),)),
    Case(
        "digitize/falling, right",
        lambda x: np.digitize(x, GRID[::-1], right=True),
        (X,),
        diff=(),
        edge=((GRID,),),
    ),
]
