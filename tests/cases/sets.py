"""Cases of sets and of zeros at the ends: unique in all of its forms, and functions of two sets."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases.case import Case
from tests.cases.linear_algebra import draw

TIED = np.array([2.0, -1.0, 2.0, 0.5, -1.0, 2.0])
_EDGES: tuple[tuple[Any, ...], ...] = (
    (TIED,), (np.array([3, 1, 3, 2]),), (np.array([True, False, True]),), (np.zeros(0),),
    (np.float64(2.0),),
    (np.array([np.nan, 1.0, np.nan, np.inf, np.inf]),), (np.array([1j, 2.0, 1j]),),
    (TIED.astype(np.float32),),
    (np.array([-0.0, 0.0, 1.0]),),
)  # fmt: skip
ROWS = np.array([[1.0, 2.0], [0.5, 3.0], [1.0, 2.0]])

UNIQUE = [
    *(
        Case(f"unique/{label}", lambda x, o=options: np.unique(x, **o), (draw(4),), vmap=False,
        edge=_EDGES)
        for label, options in {
            "": {}, "index": {"return_index": True}, "inverse": {"return_inverse": True},
            "counts": {"return_counts": True},
            "all": {"return_index": True, "return_inverse": True, "return_counts": True},
            "nan apart": {"equal_nan": False, "return_counts": True},
        }.items()
    ),
    Case("unique/matrix", lambda x: np.unique(x, return_inverse=True), (draw(2, 3),), vmap=False),
    *(Case(f"unique/axis={axis}", lambda x, axis=axis: np.unique(x, return_index=True,
    return_inverse=True, axis=axis),
           (draw(3, 2),), vmap=False, edge=((ROWS,), (ROWS.T,), (np.arange(6).reshape(3, 2) // 4,)),
           raises=(((draw(3),), ValueError),) if axis == 1 else ()) for axis in (0, 1, -1)),
    Case("unique_values", lambda x: np.sort(np.unique_values(x)), (draw(4),), vmap=False),
    Case("unique_values/table", lambda x: np.unique_values(x), (np.array([5, 3, 5, 1]),), diff=(),
    vmap=False),
    Case("unique_all", lambda x: np.unique_all(x), (draw(4),), vmap=False, edge=((TIED,),)),
    Case("unique_counts", lambda x: np.unique_counts(x).values, (draw(4),), vmap=False,
    edge=((TIED,),)),
    Case("unique_inverse", lambda x: np.unique_inverse(x), (draw(2, 2),), vmap=False),
]  # fmt: skip

A, B = np.array([1.5, -2.0, 0.5, 3.0]), np.array([3.0, 4.0, 1.5])
_PAIRS: tuple[tuple[Any, ...], ...] = (
    (A, B), (TIED, A), (np.array([1, 2, 3]), np.array([3, 4])), (np.zeros(0), B), (A, np.zeros(0)),
    (A, B.astype(int)),
    (np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[2.0], [5.0]])),
)  # fmt: skip


def pair(name: str, **options: Any) -> Case:
    """A case of a function of two sets."""
    label = "".join(f" {key}" for key in options)
    return Case(f"{name}/{label}", lambda a, b: getattr(np, name)(a, b, **options), (draw(4),
    draw(3, seed=1)), vmap=False,
                diff=(0, 1), edge=() if "assume_unique" in options else _PAIRS)  # fmt: skip


PAIRS = [
    *(pair(name) for name in ("union1d", "intersect1d", "setdiff1d", "setxor1d")),
    *(pair(name, assume_unique=True) for name in ("intersect1d", "setdiff1d", "setxor1d")),
    pair("intersect1d", return_indices=True),
    Case("intersect1d/common", lambda a: np.intersect1d(a, np.array([1.5, 3.0])), (A,), vmap=False,
    order=0),
    *(Case(f"isin/{label}", lambda a, b, o=options: np.isin(a, b, **o), (A, B), diff=(),
           edge=(*_PAIRS, (np.array([np.nan, 1.0]), np.array([np.nan]))), vmap=True)
      for label, options in {"": {}, "invert": {"invert": True}, "sort": {"kind": "sort",
      "assume_unique": True}}.items()),
    Case("isin/bad kind", lambda a: np.isin(a, [1, 2], kind="table"), (np.arange(3),), diff=(),
    raises=(((A,), ValueError),)),
    *(Case(f"trim_zeros/{trim}", lambda x, trim=trim: np.trim_zeros(x, trim), (np.array([0.0, 0.0,
    1.0, 0.0, 2.0, 0.0]),),
           vmap=False, order=0, edge=((np.zeros(3),), (np.arange(3),),
           (np.zeros(0),))) for trim in ("fb", "f", "B")),
    Case("trim_zeros/matrix", lambda x: np.trim_zeros(x), (np.pad(draw(2, 2), 1),), vmap=False,
    order=0),
    Case("trim_zeros/axis", lambda x: np.trim_zeros(x, axis=-1), (np.pad(draw(2, 2), 1),),
    vmap=False, order=0,
         raises=(((np.float64(1.0),), ValueError),)),
]  # fmt: skip

CASES: list[Case] = [*UNIQUE, *PAIRS]
